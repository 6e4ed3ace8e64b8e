/* Tensors: headers over storages, and what can be asked of them. */
#include "core/tensor.h"
#include "core/away.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void tensor_destroy(hd_thread *thread, hd_object *object) {
    hd_tensor *t = (hd_tensor *)object;
    hd_object *slot = atomic_load_explicit(&t->history.slot, memory_order_relaxed);
    if (slot != NULL) hd_object_release(thread, slot);
    hd_object_release(thread, &t->storage->object);
    hd_header_recycle(thread, HD_HEADER_TENSOR, t);
}
const hd_kind hd_kind_tensor = {.name = "tensor", .destroy = tensor_destroy};

hd_tensor *hd_tensor_new(hd_thread *thread, hd_dtype dtype, const hd_shape *shape) {
    int64_t count;
    HD_TRY_OR(hd_shape_check(shape, hd_dtype_bytes[dtype], &count), NULL);
    hd_storage *storage = hd_storage_new(thread, (size_t)count * hd_dtype_bytes[dtype]);
    if (storage == NULL) return NULL;
    hd_tensor *t = hd_header_allocate(thread, HD_HEADER_TENSOR);
    if (t == NULL) {
        hd_object_release(thread, &storage->object);
        return NULL;
    }
    hd_object_init(&t->object, &hd_kind_tensor);
    t->storage = storage;
    t->made_by = NULL;
    t->count = count;
    t->dtype = (uint8_t)dtype;
    t->contiguous = true;
    hd_history_clear(t);
    hd_layout_contiguous(&t->layout, shape);
    return t;
}

hd_tensor *hd_tensor_over(hd_thread *thread, hd_storage *storage, hd_dtype dtype, const hd_layout *layout) {
    hd_tensor *t = hd_header_allocate(thread, HD_HEADER_TENSOR);
    if (t == NULL) return NULL;
    hd_object_init(&t->object, &hd_kind_tensor);
    hd_object_retain(&storage->object);
    t->storage = storage;
    t->made_by = NULL;
    t->layout = *layout;
    t->count = hd_shape_count(layout->shape);
    t->dtype = (uint8_t)dtype;
    t->contiguous = hd_layout_is_contiguous(layout);
    hd_history_clear(t);
    return t;
}

hd_tensor *hd_tensor_scalar(hd_thread *thread, hd_dtype dtype, double value) {
    const hd_shape shape = {.rank = 0};
    hd_tensor *t = hd_tensor_new(thread, dtype, &shape);
    if (t != NULL) hd_element_from_f64(t->storage->data, dtype, value);
    return t;
}

hd_error hd_tensor_check_slow(const hd_tensor *t, const char *parameter) {
    if (t == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`%s` is NULL", parameter);
    if (t->object.kind == &hd_kind_released)
        return hd_fail(
            HD_ERROR_RELEASED,
            "`%s` is a tensor %s%s that was released, most likely by the end of its scope; hd_keep or hd_retain it",
            parameter, t->made_by ? "made by hd_" : "from data", t->made_by ? t->made_by->name : "");
    return hd_fail(HD_ERROR_STATE, "`%s` is no tensor, but another object", parameter);
}

hd_error hd_tensor_check_element(const hd_tensor *t, const char *parameter, int64_t index) {
    char name[64];
    snprintf(name, sizeof name, "%s[%lld]", parameter, (long long)index);
    return hd_tensor_check_slow(t, name);
}

bool hd_layout_overlaps_itself(const hd_layout *layout) {
    /* Sort axes by |stride|; each must step over all that the smaller ones span. Sufficient for every view ops make. */
    int order[HD_MAX_RANK], n = 0;
    for (int i = 0; i < layout->shape.rank; ++i) {
        if (layout->shape.size[i] == 0) return false;
        if (layout->shape.size[i] > 1) order[n++] = i;
    }
    for (int i = 1; i < n; ++i)
        for (int j = i; j > 0 && llabs(layout->stride[order[j]]) < llabs(layout->stride[order[j - 1]]); --j) {
            const int swap = order[j];
            order[j] = order[j - 1];
            order[j - 1] = swap;
        }
    int64_t span = 1;
    for (int i = 0; i < n; ++i) {
        const int64_t stride = llabs(layout->stride[order[i]]);
        if (stride < span) return true;
        span = stride * (layout->shape.size[order[i]] - 1) + span;
    }
    return false;
}

/* ---- questions: they answer also while an error is pending ------------------------------------------------------ */
#define HD_QUESTION(name, failure)                                                                                     \
    HD_ENTER_ALWAYS(name, failure);                                                                                    \
    if (hd_tensor_check(t, "t") != HD_OK) return failure

hd_dtype hd_tensor_dtype(const hd_tensor *t) {
    HD_QUESTION("hd_tensor_dtype", HD_DTYPE_DEFAULT);
    return (hd_dtype)t->dtype;
}

hd_shape hd_tensor_shape(const hd_tensor *t) {
    const hd_shape none = {.rank = -1};
    HD_QUESTION("hd_tensor_shape", none);
    return t->layout.shape;
}

int hd_tensor_rank(const hd_tensor *t) {
    HD_QUESTION("hd_tensor_rank", -1);
    return t->layout.shape.rank;
}

int64_t hd_tensor_size(const hd_tensor *t, int axis) {
    HD_QUESTION("hd_tensor_size", 0);
    int i;
    return hd_axis_resolve(axis, t->layout.shape.rank, &i) == HD_OK ? t->layout.shape.size[i] : 0;
}

int64_t hd_tensor_stride(const hd_tensor *t, int axis) {
    HD_QUESTION("hd_tensor_stride", 0);
    int i;
    return hd_axis_resolve(axis, t->layout.shape.rank, &i) == HD_OK ? t->layout.stride[i] : 0;
}

int64_t hd_tensor_count(const hd_tensor *t) {
    HD_QUESTION("hd_tensor_count", 0);
    return t->count;
}

bool hd_tensor_is_contiguous(const hd_tensor *t) {
    HD_QUESTION("hd_tensor_is_contiguous", false);
    return t->contiguous;
}

hd_device hd_tensor_device(const hd_tensor *t) {
    HD_QUESTION("hd_tensor_device", hd_cpu());
    return t->storage->device;
}

bool hd_tensor_shares_storage(const hd_tensor *a, const hd_tensor *b) {
    HD_ENTER_ALWAYS("hd_tensor_shares_storage", false);
    (void)thread;
    return hd_tensor_check(a, "a") == HD_OK && hd_tensor_check(b, "b") == HD_OK && a->storage == b->storage;
}

/* ---- from memory ----------------------------------------------------------------------------------------------- */
static hd_error check_data(const void *data, const hd_shape *shape, hd_dtype *dtype, const hd_thread *thread,
                           int64_t *count) {
    HD_TRY(hd_dtype_resolve(thread, *dtype, dtype));
    HD_TRY(hd_shape_check(shape, hd_dtype_bytes[*dtype], count));
    return data == NULL && *count > 0
               ? hd_fail(HD_ERROR_NULL_ARGUMENT, "`data` is NULL for shape %s", HD_SHAPE_TEXT(*shape))
               : HD_OK;
}

/* A tensor that was made here, on the thread's device, in the current scope. */
static hd_tensor *give_new(hd_thread *thread, hd_tensor *t) {
    if (t != NULL && hd_device_is_away(thread->device) && !thread->executor->captures) {
        hd_tensor *there = hd_tensor_moved(thread, t, thread->device);
        hd_tensor_drop(thread, t);
        t = there;
    }
    return hd_tensor_give(thread, t);
}

static hd_tensor *from_data(hd_thread *thread, const void *data, const hd_shape *shape, hd_dtype dtype) {
    int64_t count;
    HD_TRY_OR(check_data(data, shape, &dtype, thread, &count), NULL);
    hd_tensor *t = hd_tensor_new(thread, dtype, shape);
    if (t != NULL && count > 0) {
        memcpy(t->storage->data, data, t->storage->bytes);
        if (dtype == HD_BOOL) /* kernels rely on 0 and 1 */
            for (int64_t i = 0; i < count; ++i) ((uint8_t *)t->storage->data)[i] = ((const uint8_t *)data)[i] != 0;
    }
    return give_new(thread, t);
}

hd_tensor *hd_from_data(const void *data, hd_shape shape, hd_dtype dtype) {
    HD_ENTER("hd_from_data", NULL);
    return from_data(thread, data, &shape, dtype);
}

hd_tensor *hd_from_blob(void *data, hd_shape shape, hd_dtype dtype, void (*release)(void *data, void *user),
                        void *user) {
    HD_ENTER("hd_from_blob", NULL);
    int64_t count;
    HD_TRY_OR(check_data(data, &shape, &dtype, thread, &count), NULL);
    if ((uintptr_t)data % hd_dtype_bytes[dtype] != 0) {
        hd_fail(HD_ERROR_VALUE, "`data` is not aligned for %s; use hd_from_data, which copies", hd_dtype_name(dtype));
        return NULL;
    }
    hd_storage *storage = hd_storage_borrow(thread, data, (size_t)count * hd_dtype_bytes[dtype], NULL, NULL);
    if (storage == NULL) return NULL;
    hd_layout layout;
    hd_layout_contiguous(&layout, &shape);
    hd_tensor *t = hd_tensor_over(thread, storage, dtype, &layout);
    if (t != NULL && hd_tensor_give(thread, t) != NULL) { /* only a tensor that exists takes over the memory */
        storage->release = release;
        storage->release_user = user;
    } else {
        t = NULL;
    }
    hd_object_release(thread, &storage->object);
    return t;
}

static hd_tensor *from_list(hd_thread *thread, const hd_shape *shape, const void *values, size_t count,
                            hd_dtype dtype) {
    int64_t expected;
    HD_TRY_OR(hd_shape_check(shape, hd_dtype_bytes[dtype], &expected), NULL);
    if ((uint64_t)expected != count) {
        hd_fail(HD_ERROR_SHAPE, "%zu values for shape %s, which has %lld", count, HD_SHAPE_TEXT(*shape),
                (long long)expected);
        return NULL;
    }
    return from_data(thread, values, shape, dtype);
}

hd_tensor *hd_from_f32_list(hd_shape shape, const float *values, size_t count) {
    HD_ENTER("HD_TENSOR_F32", NULL);
    return from_list(thread, &shape, values, count, HD_F32);
}

hd_tensor *hd_from_i64_list(hd_shape shape, const int64_t *values, size_t count) {
    HD_ENTER("HD_TENSOR_I64", NULL);
    return from_list(thread, &shape, values, count, HD_I64);
}

hd_tensor *hd_scalar(double value, hd_dtype dtype) {
    HD_ENTER("hd_scalar", NULL);
    HD_TRY_OR(hd_dtype_resolve(thread, dtype, &dtype), NULL);
    HD_TRY_OR(hd_number_check(dtype, value), NULL);
    return give_new(thread, hd_tensor_scalar(thread, dtype, value));
}
