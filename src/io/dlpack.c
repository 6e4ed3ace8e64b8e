/* DLPack: tensors of other libraries in their memory, and ours for them. */
#include "io/io.h"

#include <hodu/dlpack.h>

#include <string.h>

/* ---- dtypes and devices ------------------------------------------------------------------------------------------ */
static const uint8_t codes[HD_DTYPE_COUNT] = {
    [HD_DTYPE_BOOL] = kDLBool, [HD_DTYPE_U8] = kDLUInt,     [HD_DTYPE_U16] = kDLUInt,
    [HD_DTYPE_U32] = kDLUInt,  [HD_DTYPE_U64] = kDLUInt,    [HD_DTYPE_I8] = kDLInt,
    [HD_DTYPE_I16] = kDLInt,   [HD_DTYPE_I32] = kDLInt,     [HD_DTYPE_I64] = kDLInt,
    [HD_DTYPE_F16] = kDLFloat, [HD_DTYPE_BF16] = kDLBfloat, [HD_DTYPE_F8E4M3] = kDLFloat8_e4m3fn,
    [HD_DTYPE_F32] = kDLFloat, [HD_DTYPE_F64] = kDLFloat,   [HD_DTYPE_F8E5M2] = kDLFloat8_e5m2};

static hd_error dtype_of(DLDataType given, hd_dtype *out) {
    for (int d = HD_DTYPE_NONE_ + 1; d < HD_DTYPE_COUNT; ++d)
        if (codes[d] == given.code && hd_dtype_bytes[d] * 8 == given.bits && given.lanes == 1) {
            *out = (hd_dtype)d;
            return HD_OK;
        }
    return hd_fail(HD_ERROR_DTYPE, "elements of DLPack's type %d, %d bits, %d lanes, of which no tensor is", given.code,
                   given.bits, given.lanes);
}

static hd_error device_of(DLDevice given, hd_device *out) {
    const bool is_cuda = given.device_type == kDLCUDA || given.device_type == kDLCUDAManaged;
    if (!is_cuda && given.device_type != kDLCPU && given.device_type != kDLCUDAHost)
        return hd_fail(HD_ERROR_DEVICE, "memory of DLPack's device %d; tensors of the CPU and of CUDA can be taken",
                       (int)given.device_type);
    *out = is_cuda ? hd_cuda(given.device_id) : hd_cpu();
    return is_cuda ? hd_device_check(*out) : HD_OK;
}

/* ---- giving ------------------------------------------------------------------------------------------------------ */
/* What a lent tensor holds: one object for both versions of the struct. */
typedef struct lent {
    union {
        DLManagedTensorVersioned versioned;
        DLManagedTensor unversioned;
    } as;
    hd_storage *storage; /* retained */
    hd_block *block;     /* of a device, retained; NULL: the storage has its bytes for good */
    int64_t shape[HD_MAX_RANK], strides[HD_MAX_RANK];
} lent;

static void give_up(lent *l) {
    hd_thread *thread = hd_thread_self();
    if (l == NULL || thread == NULL) return; /* no memory for a thread: it stays */
    if (l->block != NULL) hd_block_release(thread, l->block);
    hd_object_release(thread, &l->storage->object);
    hd_array_release(l);
}
static void delete_versioned(DLManagedTensorVersioned *self) { give_up(self->manager_ctx); }
static void delete_unversioned(DLManagedTensor *self) { give_up(self->manager_ctx); }

static void release_block(void *data, void *block) {
    (void)data;
    hd_block_release(hd_thread_self(), block);
}

/* The bytes stay where they are as long as the storage lives, whoever shares or writes it: a block of its own that counts
 * as borrowed memory from now on, which is written in place and copied when it is shared. */
static hd_error pin(hd_thread *thread, hd_storage *s) {
    if (hd_storage_bytes(thread, s, HD_READ) == NULL) return thread->error_code;
    if (s->home != NULL && s->home->fetch(s, HD_WRITE) != HD_OK) return thread->error_code;
    if (s->home != NULL)
        return hd_fail(HD_ERROR_STATE, "bytes that are in a %s, and have no place of their own; hd_copy makes one",
                       s->home->name);
    if (s->block == NULL) return HD_OK; /* borrowed, or pinned before */
    if (atomic_load_explicit(&s->block->references, memory_order_acquire) > 1) {
        hd_block *own = hd_block_new(thread, s->bytes);
        if (own == NULL) return HD_ERROR_MEMORY;
        memcpy(hd_block_data(own), s->data, s->bytes);
        hd_block_release(thread, s->block);
        s->block = own;
        s->data = hd_block_data(own);
    }
    s->release = release_block;
    s->release_user = s->block;
    s->block = NULL;
    return HD_OK;
}

/* The block of a storage on CUDA, with one more reference: who writes the tensor gives it another one. */
static hd_error hold_block(hd_thread *thread, lent *l) {
    hd_storage *s = l->storage;
    if (s->device.kind != HD_DEVICE_CUDA) {
        char device[32];
        return hd_fail(HD_ERROR_DEVICE,
                       "`t` is on %s, whose memory has no addresses for others; hd_to(t, hd_cpu()) first",
                       hd_device_text(device, s->device));
    }
    hd_block *block = hd_away_block(thread, s);
    if (block == NULL) return thread->error_code;
    HD_TRY(hd_device_interface_of(HD_DEVICE_CUDA)->synchronize(thread, s->device.index));
    atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
    l->block = block;
    return HD_OK;
}

static hd_error describe(hd_thread *thread, lent *l, const hd_tensor *t, DLTensor *out) {
    const hd_layout *layout = &t->layout;
    const bool is_away = hd_storage_is_away(l->storage);
    HD_TRY(is_away ? hold_block(thread, l) : pin(thread, l->storage));
    for (int i = 0; i < layout->shape.rank; ++i) {
        l->shape[i] = layout->shape.size[i];
        l->strides[i] = layout->stride[i];
    }
    const size_t size = hd_dtype_bytes[t->dtype];
    char *bytes = is_away ? l->block->address : l->storage->data;
    *out = (DLTensor){.data = bytes + (is_away ? 0 : layout->offset * (int64_t)size),
                      .device = {is_away ? kDLCUDA : kDLCPU, is_away ? l->storage->device.index : 0},
                      .ndim = layout->shape.rank,
                      .dtype = {codes[t->dtype], (uint8_t)(size * 8), 1},
                      .shape = l->shape,
                      .strides = l->strides,
                      .byte_offset = is_away ? (uint64_t)layout->offset * size : 0};
    return HD_OK;
}

/* NULL with an error. `tensor` is where in a struct of ours the DLTensor is. */
static lent *lend(hd_thread *thread, const hd_tensor *t, size_t tensor) {
    HD_TRY_OR(hd_tensor_check(t, "t"), NULL);
    if (t->storage->home != NULL && t->storage->home->captured) {
        hd_fail(HD_ERROR_STATE, "`t` is a value that a builder records, and not known before its script runs");
        return NULL;
    }
    lent *l = hd_array_resize(NULL, sizeof *l);
    if (l == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory to lend a tensor");
        return NULL;
    }
    *l = (lent){.storage = t->storage};
    hd_object_retain(&l->storage->object);
    if (describe(thread, l, t, (DLTensor *)((char *)&l->as + tensor)) == HD_OK) return l;
    give_up(l);
    return NULL;
}

DLManagedTensorVersioned *hd_to_dlpack(hd_tensor *t) {
    HD_ENTER("hd_to_dlpack", NULL);
    lent *l = lend(thread, t, offsetof(DLManagedTensorVersioned, dl_tensor));
    if (l == NULL) return NULL;
    DLManagedTensorVersioned *m = &l->as.versioned;
    m->version = (DLPackVersion){DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    m->manager_ctx = l;
    m->deleter = delete_versioned;
    m->flags = l->block != NULL ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
    return m;
}

DLManagedTensor *hd_to_dlpack_unversioned(hd_tensor *t) {
    HD_ENTER("hd_to_dlpack_unversioned", NULL);
    HD_TRY_OR(hd_tensor_check(t, "t"), NULL);
    hd_scope_token scope = hd_scope_within(thread, &scope);
    if (hd_storage_is_away(t->storage)) { /* what nobody else has may be written */
        HD_NO_GRAD;
        HD_KEEP_NAME(thread);
        t = hd_copy(t);
    }
    lent *l = t != NULL ? lend(thread, t, offsetof(DLManagedTensor, dl_tensor)) : NULL;
    hd_scope_close(thread, &scope);
    if (l == NULL) return NULL;
    l->as.unversioned.manager_ctx = l;
    l->as.unversioned.deleter = delete_unversioned;
    return &l->as.unversioned;
}

/* ---- taking ------------------------------------------------------------------------------------------------------ */
/* A layout over the bytes from the first element that any index reaches to the last one. */
typedef struct extent {
    hd_layout layout;
    char *begin;
    size_t bytes;
} extent;

static hd_error reach_of(const DLTensor *t, size_t size, extent *e) {
    int64_t low = 0, high = 0, way, count;
    if (t->ndim < 0 || t->ndim > HD_MAX_RANK)
        return hd_fail(HD_ERROR_SHAPE, "a tensor of rank %d; at most %d axes", (int)t->ndim, HD_MAX_RANK);
    if (t->shape == NULL && t->ndim > 0) return hd_fail(HD_ERROR_NULL_ARGUMENT, "the `shape` of `managed` is NULL");
    hd_shape shape = {.rank = t->ndim};
    for (int i = 0; i < shape.rank; ++i) shape.size[i] = t->shape[i];
    HD_TRY(hd_shape_check(&shape, size, &count));
    hd_layout_contiguous(&e->layout, &shape);
    for (int i = 0; i < shape.rank && t->strides != NULL && count > 0; ++i) {
        e->layout.stride[i] = shape.size[i] > 1 ? t->strides[i] : e->layout.stride[i];
        if (__builtin_mul_overflow(e->layout.stride[i], shape.size[i] - 1, &way) ||
            __builtin_add_overflow(way < 0 ? low : high, way, way < 0 ? &low : &high))
            return hd_fail(HD_ERROR_OVERFLOW, "strides that reach too far");
    }
    if (t->strides == NULL) high = count > 0 ? count - 1 : 0;
    if (count == 0) high = low - 1;
    int64_t reach = 0, bytes = 0;
    if (__builtin_sub_overflow(high, low, &reach) || __builtin_mul_overflow(reach + 1, (int64_t)size, &bytes))
        return hd_fail(HD_ERROR_OVERFLOW, "strides that reach too far");
    e->layout.offset = -low;
    e->begin = (char *)t->data + t->byte_offset + low * (int64_t)size;
    e->bytes = (size_t)bytes;
    if (t->data == NULL && count > 0) return hd_fail(HD_ERROR_NULL_ARGUMENT, "the `data` of `managed` is NULL");
    if ((uintptr_t)e->begin % size != 0 && count > 0)
        return HD_BAD("elements of %zu bytes that are not aligned for it; copy the tensor there first", size);
    return HD_OK;
}

/* All bytes of memory of a device, in a storage of our own there. */
static hd_storage *copy_there(hd_thread *thread, hd_device device, const extent *e) {
    hd_storage *s = hd_storage_new_on(thread, device, e->bytes);
    void *to = s != NULL ? hd_storage_address(thread, s, HD_OVERWRITE) : NULL;
    if (to != NULL && e->bytes > 0)
        hd_device_interface_of(device.kind)
            ->copy(thread, (hd_address){device, to}, (hd_address){device, e->begin}, e->bytes);
    if (to != NULL && thread->error_code == HD_OK)
        hd_device_interface_of(device.kind)->synchronize(thread, device.index);
    if (s == NULL || thread->error_code == HD_OK) return s;
    hd_object_release(thread, &s->object);
    return NULL;
}

/* A tensor over that memory, which nobody is told of when it goes; NULL with an error. */
static hd_tensor *take(hd_thread *thread, const DLTensor *given, bool read_only) {
    hd_dtype dtype = HD_F32;
    hd_device device = hd_cpu();
    extent e = {.begin = NULL};
    HD_TRY_OR(dtype_of(given->dtype, &dtype), NULL);
    HD_TRY_OR(device_of(given->device, &device), NULL);
    HD_TRY_OR(reach_of(given, hd_dtype_bytes[dtype], &e), NULL);
    hd_storage *s = hd_device_is_away(device) ? copy_there(thread, device, &e)
                    : read_only               ? hd_storage_borrow_to_read(thread, e.begin, e.bytes, NULL, NULL)
                                              : hd_storage_borrow(thread, e.begin, e.bytes, NULL, NULL);
    if (s == NULL) return NULL;
    hd_tensor *t = hd_tensor_over(thread, s, dtype, &e.layout);
    hd_object_release(thread, &s->object);
    return hd_tensor_give(thread, t);
}

static void return_versioned(void *data, void *managed) {
    DLManagedTensorVersioned *m = managed;
    (void)data;
    if (m->deleter != NULL) m->deleter(m);
}
static void return_unversioned(void *data, void *managed) {
    DLManagedTensor *m = managed;
    (void)data;
    if (m->deleter != NULL) m->deleter(m);
}

/* Only a tensor that exists takes over the memory; one that was copied gives it back at once. */
static hd_tensor *taken(hd_thread *thread, hd_tensor *t, void (*release)(void *data, void *managed), void *managed) {
    if (t == NULL) return NULL;
    if (hd_storage_is_away(t->storage)) {
        HD_CALLBACK(thread);
        release(NULL, managed);
        return t;
    }
    t->storage->release = release;
    t->storage->release_user = managed;
    return t;
}

hd_tensor *hd_from_dlpack(DLManagedTensorVersioned *managed) {
    HD_ENTER("hd_from_dlpack", NULL);
    if (managed == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`managed` is NULL");
        return NULL;
    }
    if (managed->version.major != DLPACK_MAJOR_VERSION) {
        HD_BAD("a tensor of DLPack %u.%u; this library knows version %d", (unsigned)managed->version.major,
               (unsigned)managed->version.minor, DLPACK_MAJOR_VERSION);
        return NULL;
    }
    const bool read_only = (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    return taken(thread, take(thread, &managed->dl_tensor, read_only), return_versioned, managed);
}

hd_tensor *hd_from_dlpack_unversioned(DLManagedTensor *managed) {
    HD_ENTER("hd_from_dlpack_unversioned", NULL);
    if (managed == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`managed` is NULL");
        return NULL;
    }
    return taken(thread, take(thread, &managed->dl_tensor, false), return_unversioned, managed);
}
