/* Values in and out of tensors, and writing in place. */
#include "core/away.h"
#include "ops/op.h"

#include <math.h>
#include <string.h>

/* The one element of t, or NULL with an error. */
static const void *only_element(hd_thread *thread, const hd_tensor *t) {
    HD_TRY_OR(hd_tensor_check(t, "t"), NULL);
    if (t->count != 1) {
        hd_fail(HD_ERROR_SHAPE, "%s has %lld elements, not one; pick one with hd_select, or use hd_to_array",
                HD_SHAPE_TEXT(t->layout.shape), (long long)t->count);
        return NULL;
    }
    return hd_tensor_bytes(thread, t, HD_READ);
}

double hd_item(const hd_tensor *t) {
    HD_ENTER("hd_item", NAN);
    const void *element = only_element(thread, t);
    return element == NULL ? NAN : hd_element_to_f64(element, (hd_dtype)t->dtype);
}

int64_t hd_item_i64(const hd_tensor *t) {
    HD_ENTER("hd_item_i64", 0);
    const void *element = only_element(thread, t);
    return element == NULL ? 0 : hd_element_to_i64(element, (hd_dtype)t->dtype);
}

static hd_error check_direct(const hd_tensor *t, hd_dtype dtype) {
    HD_TRY(hd_tensor_check(t, "t"));
    if ((hd_dtype)t->dtype != dtype)
        return hd_fail(HD_ERROR_DTYPE, "the tensor is %s, not %s; hd_to_array converts",
                       hd_dtype_name((hd_dtype)t->dtype), hd_dtype_name(dtype));
    if (!t->contiguous)
        return hd_fail(HD_ERROR_STATE, "%s is a view that is not contiguous; use hd_contiguous or hd_to_array",
                       HD_SHAPE_TEXT(t->layout.shape));
    return HD_OK;
}

const void *hd_data(const hd_tensor *t, hd_dtype dtype) {
    HD_ENTER("hd_data", NULL);
    HD_TRY_OR(check_direct(t, dtype), NULL);
    return hd_tensor_bytes(thread, t, HD_READ);
}

void *hd_data_mut(hd_tensor *t, hd_dtype dtype) {
    HD_ENTER("hd_data_mut", NULL);
    HD_TRY_OR(check_direct(t, dtype), NULL);
    return hd_tensor_bytes(thread, t, HD_WRITE);
}

bool hd_to_array(const hd_tensor *t, void *out, hd_dtype dtype, size_t capacity) {
    HD_ENTER("hd_to_array", false);
    HD_TRY_OR(hd_tensor_check(t, "t"), false);
    HD_TRY_OR(hd_dtype_resolve(thread, dtype, &dtype), false);
    if (out == NULL && t->count > 0) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`out` is NULL");
        return false;
    }
    if ((uint64_t)t->count > capacity) {
        hd_fail(HD_ERROR_SHAPE, "%s has %lld elements, but there is room for %zu", HD_SHAPE_TEXT(t->layout.shape),
                (long long)t->count, capacity);
        return false;
    }
    const bool recorded = t->storage->home != NULL && t->storage->home->captured;
    hd_eager_token eager = {NULL}; /* a tensor from outside can be read also while a builder records */
    const hd_recorder *recorder = recorded || thread->recording == NULL ? NULL : thread->recorder;
    if (recorder != NULL) eager = recorder->eager_begin(&eager);
    hd_span span;
    hd_span_begin(&span, thread, "to_array");
    hd_tensor *read = (hd_tensor *)(uintptr_t)t;
    if (dtype == HD_F64 && hd_storage_is_away(t->storage)) read = hd_to(read, hd_cpu()); /* not all devices have f64 */
    hd_tensor *ready = hd_contiguous(hd_cast(read, dtype));
    const void *bytes = ready == NULL ? NULL : hd_tensor_bytes(thread, ready, HD_READ);
    if (bytes != NULL && t->count > 0) memcpy(out, bytes, (size_t)t->count * hd_dtype_bytes[dtype]);
    hd_span_end(&span, NULL);
    if (recorder != NULL) recorder->eager_end(&eager);
    return bytes != NULL;
}

/* ---- in place ---------------------------------------------------------------------------------------------------- */
void hd_assign(hd_tensor *dst, hd_tensor *src) {
    HD_ENTER("hd_assign", );
    if (hd_tensor_check(dst, "dst") != HD_OK || hd_tensor_check(src, "src") != HD_OK) return;
    const hd_device to = dst->storage->device;
    if (!hd_calls_routed || thread->executor->captures || hd_tensor_is_number(src) ||
        hd_device_equal(src->storage->device, to)) {
        hd_write(thread, dst, src);
        return;
    }
    hd_span span;
    hd_span_begin(&span, thread, "assign");
    hd_tensor *there = hd_to(src, to);
    if (there != NULL) hd_write(thread, dst, there);
    hd_span_end(&span, NULL);
}

static void fill(hd_thread *thread, hd_tensor *dst, double value) {
    if (hd_tensor_check(dst, "dst") != HD_OK || hd_number_check((hd_dtype)dst->dtype, value) != HD_OK) return;
    hd_tensor *number = hd_tensor_scalar(thread, (hd_dtype)dst->dtype, value);
    if (number != NULL) number->operand = true;
    if (number != NULL) hd_write(thread, dst, number);
    hd_tensor_drop(thread, number);
}

void hd_fill(hd_tensor *dst, double value) {
    HD_ENTER("hd_fill", );
    fill(thread, dst, value);
}

void hd_zero_(hd_tensor *dst) {
    HD_ENTER("hd_zero_", );
    fill(thread, dst, 0);
}

/* The result is made beside dst and then written, so that it does not matter how the operands overlap. */
static void update_tensor(hd_thread *thread, hd_tensor *(*op)(hd_tensor *, hd_tensor *), const char *name,
                          hd_tensor *dst, hd_tensor *x) {
    if (hd_tensor_check(dst, "dst") != HD_OK || hd_tensor_check(x, "x") != HD_OK) return;
    hd_shape shape;
    if (hd_shape_broadcast(&dst->layout.shape, &x->layout.shape, &shape) != HD_OK) return;
    if (!hd_shape_equal(shape, dst->layout.shape)) { /* before a result is made that cannot be written */
        hd_fail(HD_ERROR_SHAPE, "%s does not broadcast to the destination's %s", HD_SHAPE_TEXT(x->layout.shape),
                HD_SHAPE_TEXT(dst->layout.shape));
        return;
    }
    hd_span span;
    hd_span_begin(&span, thread, name);
    /* the gradient of x may read what dst was: then a copy of that is kept */
    const bool kept = thread->observer != NULL && x->tracking != HD_UNTRACKED && op == hd_mul;
    hd_tensor *result = op(kept ? hd_copy(dst) : dst, x);
    if (result != NULL && hd_dtype_is_float((hd_dtype)result->dtype) && !hd_dtype_is_float((hd_dtype)dst->dtype))
        hd_fail(HD_ERROR_DTYPE, "the result is %s, which %s cannot hold; hd_assign the cast that you mean",
                hd_dtype_name((hd_dtype)result->dtype), hd_dtype_name((hd_dtype)dst->dtype));
    else if (result != NULL)
        hd_write(thread, dst, result);
    hd_span_end(&span, NULL);
}

#define UPDATE(name)                                                                                                   \
    void hd_##name##_(hd_tensor *dst, hd_tensor *x) {                                                                  \
        HD_ENTER("hd_" #name "_", );                                                                                   \
        update_tensor(thread, hd_##name, #name "_", dst, x);                                                           \
    }
UPDATE(add)
UPDATE(sub)
UPDATE(mul)
UPDATE(div)
