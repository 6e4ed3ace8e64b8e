/* The tensor: a layout over a storage. */
#ifndef HD_CORE_TENSOR_H
#define HD_CORE_TENSOR_H

#include "core/dtype.h"
#include "core/shape.h"
#include "core/storage.h"

struct hd_op;

/* Whether calls on a tensor are noted on a tape. */
typedef enum hd_tracking { HD_UNTRACKED, HD_TRACKED_LEAF, HD_TRACKED_RESULT } hd_tracking;

/* What the grad room keeps on a tensor. */
typedef struct hd_history {
    _Atomic uint64_t place;    /* on which tape, and where on it: see grad/tape.h; 0: on none */
    uint32_t context, thread;  /* where an op made it, for messages */
    _Atomic(hd_object *) slot; /* its gradient and hooks, released with it; NULL: none yet */
} hd_history;

/* Which node of which recording a tensor is, while a builder captures: see graph/capture.c. */
typedef struct hd_capture_note {
    uint32_t recording, node, version; /* 0: none */
} hd_capture_note;

struct hd_tensor {
    hd_object object;
    hd_storage *storage; /* overwritten by the list of free headers after release; what follows stays for messages */
    const struct hd_op *made_by; /* NULL: from data */
    int64_t count;
    uint8_t dtype;
    bool contiguous;
    uint8_t tracking; /* hd_tracking */
    bool operand;     /* a number that lives for one call: nobody can write it later */
    bool held;        /* by a module, as a parameter of it */
    hd_layout layout;
    hd_history history;
    hd_capture_note captured;
};
_Static_assert(sizeof(hd_tensor) <= HD_HEADER_TENSOR_BYTES, "a tensor fits its header");

extern const hd_kind hd_kind_tensor;

static inline void hd_history_clear(hd_tensor *t) {
    t->tracking = HD_UNTRACKED;
    atomic_store_explicit(&t->history.place, 0, memory_order_relaxed);
    atomic_store_explicit(&t->history.slot, NULL, memory_order_relaxed);
    t->captured.recording = 0;
    t->operand = t->held = false;
}

/* All three give a reference that is the caller's (no scope owns it yet), or NULL with an error. */
hd_tensor *hd_tensor_new(hd_thread *thread, hd_dtype dtype, const hd_shape *shape); /* contiguous, values undefined */
hd_tensor *hd_tensor_over(hd_thread *thread, hd_storage *storage, hd_dtype dtype,
                          const hd_layout *layout); /* retains storage */
hd_tensor *hd_tensor_scalar(hd_thread *thread, hd_dtype dtype, double value);

/* Hands a new tensor to the current scope and returns it; NULL stays NULL. */
static inline hd_tensor *hd_tensor_give(hd_thread *thread, hd_tensor *t) {
    return t != NULL && hd_scope_own(thread, &t->object) == HD_OK ? t : NULL;
}

static inline void hd_tensor_drop(hd_thread *thread, hd_tensor *t) {
    if (t != NULL) hd_object_release(thread, &t->object);
}

/* Checks that an argument is a living tensor. */
hd_error hd_tensor_check_slow(const hd_tensor *t, const char *parameter);
static inline hd_error hd_tensor_check(const hd_tensor *t, const char *parameter) {
    return __builtin_expect(t != NULL && t->object.kind == &hd_kind_tensor, 1) ? HD_OK
                                                                               : hd_tensor_check_slow(t, parameter);
}

/* The same of several, which messages number. */
hd_error hd_tensor_check_element(const hd_tensor *t, const char *parameter, int64_t index);
static inline hd_error hd_tensor_check_all(hd_tensor *const *tensors, int64_t count, const char *parameter) {
    for (int64_t i = 0; i < count; ++i)
        if (__builtin_expect(tensors[i] == NULL || tensors[i]->object.kind != &hd_kind_tensor, 0))
            return hd_tensor_check_element(tensors[i], parameter, i);
    return HD_OK;
}

/* The address of a tensor's first element, its storage made ready; NULL with an error. */
static inline char *hd_tensor_bytes(hd_thread *thread, const hd_tensor *t, hd_access access) {
    char *bytes = hd_storage_bytes(thread, t->storage, access);
    return bytes == NULL ? NULL : bytes + t->layout.offset * hd_dtype_bytes[t->dtype];
}

/* True when two elements of dst are one place in memory (a broadcast view), so that writing it is ambiguous. */
bool hd_layout_overlaps_itself(const hd_layout *layout);

#endif
