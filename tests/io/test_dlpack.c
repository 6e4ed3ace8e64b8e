/* Tensors of other libraries in their memory, and ours for them. */
#include "each_allocation.h"

#include "core/tensor.h"

#include <hodu/dlpack.h>

#include <pthread.h>

/* ---- ours for others --------------------------------------------------------------------------------------------- */
static const struct {
    hd_dtype dtype;
    uint8_t code, bits;
} kinds[] = {{HD_BOOL, kDLBool, 8},         {HD_U8, kDLUInt, 8},
             {HD_U16, kDLUInt, 16},         {HD_U32, kDLUInt, 32},
             {HD_U64, kDLUInt, 64},         {HD_I8, kDLInt, 8},
             {HD_I16, kDLInt, 16},          {HD_I32, kDLInt, 32},
             {HD_I64, kDLInt, 64},          {HD_F16, kDLFloat, 16},
             {HD_F32, kDLFloat, 32},        {HD_F64, kDLFloat, 64},
             {HD_BF16, kDLBfloat, 16},      {HD_F8E4M3, kDLFloat8_e4m3fn, 8},
             {HD_F8E5M2, kDLFloat8_e5m2, 8}};

static void every_dtype_goes_and_comes_back(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; ++k)
        for (int version = 0; version < 2; ++version) {
            HD_SCOPE;
            hd_tensor *t = hd_cast(HD_TENSOR_F32(HD_SHAPE(2, 2), 0, 1, 1, 0), kinds[k].dtype), *back;
            DLTensor given;
            if (version == 0) {
                DLManagedTensorVersioned *m = hd_to_dlpack(t);
                assert_ok();
                assert_int_equal(m->version.major, 1);
                assert_int_equal(m->flags, 0);
                given = m->dl_tensor;
                back = hd_from_dlpack(m);
            } else {
                DLManagedTensor *m = hd_to_dlpack_unversioned(t);
                assert_ok();
                given = m->dl_tensor;
                back = hd_from_dlpack_unversioned(m);
            }
            assert_int_equal(given.dtype.code, kinds[k].code);
            assert_int_equal(given.dtype.bits, kinds[k].bits);
            assert_int_equal(given.dtype.lanes, 1);
            assert_int_equal(given.device.device_type, kDLCPU);
            assert_int_equal(given.ndim, 2);
            assert_values(back, kinds[k].dtype, 0, 1, 1, 0);
            assert_ptr_equal(hd_data(back, kinds[k].dtype), hd_data(t, kinds[k].dtype));
        }
}

static void what_one_writes_the_other_sees(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *t = HD_TENSOR_F32(HD_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *view = hd_transpose(t, 0, 1);
    DLManagedTensorVersioned *m = hd_to_dlpack(hd_narrow(view, 0, 1, 2));
    assert_ok();
    float *at = (float *)((char *)m->dl_tensor.data + m->dl_tensor.byte_offset);
    assert_int_equal(m->dl_tensor.shape[0], 2);
    assert_int_equal(m->dl_tensor.strides[0], 1);
    assert_int_equal(m->dl_tensor.strides[1], 3);
    assert_true(at[0] == 2 && at[3] == 5 && at[4] == 6);
    at[4] = 60;
    assert_values(t, HD_F32, 1, 2, 3, 4, 5, 60);
    hd_fill(t, 9);
    assert_true(at[0] == 9 && at[4] == 9);
    hd_release(t);
    hd_release(view);
    assert_true(at[0] == 9); /* it lives until the deleter */
    m->deleter(m);
}

/* Bytes that tensors shared until one of them is written become the tensor's own before anybody else has them. */
static void snapshots_are_not_written_by_others(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *t = hd_ones(HD_SHAPE(3), HD_F32);
    hd_builder *b = hd_builder_new("b"); /* constants are snapshots */
    hd_builder_start(b);
    hd_builder_add_output(b, "y", hd_add_scalar(t, 1));
    assert_null(hd_to_dlpack(hd_exp(t)));
    assert_error(HD_ERROR_STATE, "hd_to_dlpack: `t` is a value that a builder records");
    hd_builder_end(b);
    DLManagedTensorVersioned *m = hd_to_dlpack(t);
    assert_ok();
    ((float *)m->dl_tensor.data)[0] = 5;
    assert_values(t, HD_F32, 5, 1, 1);
    assert_values(hd_outputs_get(hd_script_run(hd_builder_build(b)), "y"), HD_F32, 2, 2, 2);
    m->deleter(m);
}

/* To look at a value is no write: backward still has what it saved. */
static void values_that_a_tape_saved_may_be_lent(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 3, 4)), *y = hd_exp(hd_mul_scalar(w, 0));
    DLManagedTensorVersioned *m = hd_to_dlpack(y), *n = hd_to_dlpack(w);
    assert_ok();
    m->deleter(m);
    n->deleter(n);
    hd_backward(hd_sum(hd_square(y), HD_AXES(), NULL));
    assert_values(hd_grad(w), HD_F32, 0, 0);
}

static void *delete_it(void *managed) {
    DLManagedTensorVersioned *m = managed;
    m->deleter(m);
    return NULL;
}
static void another_thread_may_delete(void **state) {
    (void)state;
    pthread_t other;
    DLManagedTensorVersioned *m;
    {
        HD_SCOPE;
        m = hd_to_dlpack(hd_ones(HD_SHAPE(1000), HD_F32));
    }
    assert_ok();
    assert_true(hd_live_objects() > 0);
    assert_int_equal(pthread_create(&other, NULL, delete_it, m), 0);
    pthread_join(other, NULL);
    assert_int_equal(hd_live_objects(), 0);
}

/* ---- others' for us ---------------------------------------------------------------------------------------------- */
typedef struct foreign {
    DLManagedTensorVersioned versioned;
    DLManagedTensor unversioned;
    int64_t shape[9], strides[9];
    int deleted;
} foreign;

static void delete_versioned(DLManagedTensorVersioned *m) { ++((foreign *)m->manager_ctx)->deleted; }
static void delete_unversioned(DLManagedTensor *m) { ++((foreign *)m->manager_ctx)->deleted; }

static void begin(foreign *f, void *data, int rank, uint64_t flags) {
    *f = (foreign){.versioned = {.version = {1, 0}, .manager_ctx = f, .deleter = delete_versioned, .flags = flags}};
    f->versioned.dl_tensor = (DLTensor){.data = data,
                                        .device = {kDLCPU, 0},
                                        .ndim = rank,
                                        .dtype = {kDLFloat, 32, 1},
                                        .shape = f->shape,
                                        .strides = f->strides};
    f->unversioned =
        (DLManagedTensor){.dl_tensor = f->versioned.dl_tensor, .manager_ctx = f, .deleter = delete_unversioned};
}

static void memory_of_others_is_looked_at(void **state) {
    (void)state;
    float data[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    foreign f;
    for (int version = 0; version < 2; ++version) {
        begin(&f, data, 2, 0);
        f.shape[0] = 2, f.shape[1] = 3;
        f.strides[0] = 6, f.strides[1] = 2;
        f.versioned.dl_tensor.byte_offset = f.unversioned.dl_tensor.byte_offset = 4;
        {
            HD_SCOPE;
            hd_tensor *t = version == 0 ? hd_from_dlpack(&f.versioned) : hd_from_dlpack_unversioned(&f.unversioned);
            assert_values(t, HD_F32, 1, 3, 5, 7, 9, 11);
            hd_fill(t, -1);
            assert_int_equal(f.deleted, 0);
        }
        assert_int_equal(f.deleted, 1);
        for (int i = 0; i < 12; ++i) {
            assert_true(data[i] == (i % 2 == 1 ? -1 : i));
            data[i] = (float)i;
        }
    }
}

static void strides_may_go_backwards_or_stand_still(void **state) {
    (void)state;
    float data[6] = {0, 1, 2, 3, 4, 5};
    foreign f;
    begin(&f, data + 5, 2, 0);
    f.shape[0] = 2, f.shape[1] = 3;
    f.strides[0] = -3, f.strides[1] = -1;
    {
        HD_SCOPE;
        assert_values(hd_from_dlpack(&f.versioned), HD_F32, 5, 4, 3, 2, 1, 0);
    }
    f.strides[0] = 0;
    {
        HD_SCOPE;
        assert_values(hd_from_dlpack(&f.versioned), HD_F32, 5, 4, 3, 5, 4, 3);
    }
    begin(&f, data, 2, 0);
    f.shape[0] = 2, f.shape[1] = 3;
    f.versioned.dl_tensor.strides = NULL;
    {
        HD_SCOPE;
        assert_values(hd_from_dlpack(&f.versioned), HD_F32, 0, 1, 2, 3, 4, 5);
    }
    begin(&f, NULL, 1, 0); /* nothing */
    {
        HD_SCOPE;
        assert_int_equal(hd_tensor_count(hd_from_dlpack(&f.versioned)), 0);
        assert_ok();
    }
    assert_int_equal(f.deleted, 1);
}

static void what_is_read_only_is_copied_when_it_is_written(void **state) {
    (void)state;
    static const float data[2] = {1, 2};
    HD_SCOPE;
    foreign f;
    begin(&f, (void *)(uintptr_t)data, 1, DLPACK_FLAG_BITMASK_READ_ONLY);
    f.shape[0] = 2, f.strides[0] = 1;
    hd_tensor *t = hd_from_dlpack(&f.versioned);
    assert_ptr_equal(hd_data_f32(t), data);
    assert_values(hd_add(t, t), HD_F32, 2, 4);
    assert_int_equal(f.deleted, 0);
    hd_add_(t, t);
    assert_values(t, HD_F32, 2, 4);
    assert_int_equal(f.deleted, 1);
    assert_true(data[0] == 1);
}

static void refuse(foreign *f, hd_error code, const char *text) {
    HD_SCOPE;
    assert_null(hd_from_dlpack(&f->versioned));
    assert_error(code, text);
    assert_int_equal(f->deleted, 0); /* it stays the caller's */
}

static void what_cannot_be_taken_is_an_error(void **state) {
    (void)state;
    float data[4] = {0};
    foreign f;
    begin(&f, data, 2, 0);
    f.shape[0] = f.shape[1] = f.strides[0] = 2, f.strides[1] = 1;
    DLTensor *t = &f.versioned.dl_tensor;
#define TRY(change, restore, code, text)                                                                               \
    do {                                                                                                               \
        change;                                                                                                        \
        refuse(&f, code, text);                                                                                        \
        restore;                                                                                                       \
    } while (0)
    TRY(f.versioned.version.major = 2, f.versioned.version.major = 1, HD_ERROR_VALUE,
        "a tensor of DLPack 2.0; this library knows version 1");
    TRY(t->dtype.lanes = 2, t->dtype.lanes = 1, HD_ERROR_DTYPE, "2 lanes, of which no tensor is");
    TRY(t->dtype.code = kDLComplex, t->dtype.code = kDLFloat, HD_ERROR_DTYPE, "DLPack's type 5, 32 bits");
    TRY(t->dtype.bits = 128, t->dtype.bits = 32, HD_ERROR_DTYPE, "128 bits");
    TRY(t->device.device_type = kDLVulkan, t->device.device_type = kDLCPU, HD_ERROR_DEVICE, "DLPack's device 7");
    TRY(t->ndim = 9, t->ndim = 2, HD_ERROR_SHAPE, "a tensor of rank 9; at most 8 axes");
    TRY(t->ndim = -1, t->ndim = 2, HD_ERROR_SHAPE, "a tensor of rank -1");
    TRY(t->shape = NULL, t->shape = f.shape, HD_ERROR_NULL_ARGUMENT, "the `shape` of `managed` is NULL");
    TRY(t->data = NULL, t->data = data, HD_ERROR_NULL_ARGUMENT, "the `data` of `managed` is NULL");
    TRY(f.shape[0] = -1, f.shape[0] = 2, HD_ERROR_SHAPE, "");
    TRY(f.shape[0] = INT64_MAX, f.shape[0] = 2, HD_ERROR_OVERFLOW, "");
    TRY(f.strides[0] = INT64_MAX / 2, f.strides[0] = 2, HD_ERROR_OVERFLOW, "strides that reach too far");
    TRY(f.strides[0] = INT64_MIN, f.strides[0] = 2, HD_ERROR_OVERFLOW, "strides that reach too far");
    TRY(t->byte_offset = 2, t->byte_offset = 0, HD_ERROR_VALUE, "elements of 4 bytes that are not aligned");
    HD_SCOPE;
    assert_null(hd_from_dlpack(NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_from_dlpack: `managed` is NULL");
    assert_null(hd_from_dlpack_unversioned(NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_from_dlpack_unversioned: `managed` is NULL");
    assert_null(hd_to_dlpack(NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_to_dlpack: `t` is NULL");
    assert_null(hd_to_dlpack_unversioned(NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_to_dlpack_unversioned: `t` is NULL");
}

static void there_and_back(void) {
    static float data[2] = {1, 2};
    foreign f;
    hd_tensor *t = hd_ones(HD_SHAPE(5), HD_F32);
    DLManagedTensorVersioned *m = hd_to_dlpack(t);
    if (m != NULL && hd_from_dlpack(m) == NULL) m->deleter(m);
    begin(&f, data, 1, DLPACK_FLAG_BITMASK_READ_ONLY);
    f.shape[0] = 2, f.strides[0] = 1;
    hd_tensor *u = hd_from_dlpack(&f.versioned);
    hd_fill(u, 3);
    if (u != NULL) hd_release(u);
    if (hd_ok()) assert_int_equal(f.deleted, 1);
}
static void every_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(there_and_back, 100);
}

RUN_ON_THE_CPU("memory of devices has no addresses for others; cuda/dlpack has those that do",
               test(every_dtype_goes_and_comes_back), test(what_one_writes_the_other_sees),
               test(snapshots_are_not_written_by_others), test(values_that_a_tape_saved_may_be_lent),
               test(another_thread_may_delete), test(memory_of_others_is_looked_at),
               test(strides_may_go_backwards_or_stand_still), test(what_is_read_only_is_copied_when_it_is_written),
               test(what_cannot_be_taken_is_an_error), test(every_allocation_may_fail))
