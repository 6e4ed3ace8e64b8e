/* What the objects of this room share. */
#include "data/object.h"

#include <string.h>

void *hd_data_new(hd_thread *thread, size_t bytes, const hd_kind *kind) {
    hd_object *o = hd_array_resize(NULL, bytes);
    if (o == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a %s", kind->name);
        return NULL;
    }
    memset(o, 0, bytes);
    hd_object_init(o, kind);
    hd_count(&thread->live_objects, 1);
    return o;
}

void *hd_data_give(hd_thread *thread, void *object) {
    return object != NULL && hd_scope_own(thread, object) == HD_OK ? object : NULL;
}

hd_error hd_data_check(const void *object, const hd_kind *kind, const char *parameter) {
    if (object == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`%s` is NULL", parameter);
    const hd_object *o = object;
    if (o->kind == kind) return HD_OK;
    return hd_fail(o->kind == &hd_kind_released ? HD_ERROR_RELEASED : HD_ERROR_STATE, "`%s` is no living %s", parameter,
                   kind->name);
}

void *hd_data_copy(const void *bytes, size_t count) {
    void *copy = hd_array_resize(NULL, count > 0 ? count : 1);
    if (copy == NULL)
        hd_fail(HD_ERROR_MEMORY, "no memory for %zu bytes", count);
    else if (count > 0)
        memcpy(copy, bytes, count);
    return copy;
}

int64_t *hd_data_integers(hd_thread *thread, hd_tensor *t, const char *what) {
    HD_TRY_OR(hd_tensor_check(t, what), NULL);
    if (t->layout.shape.rank != 1 || t->dtype == HD_BOOL || hd_dtype_is_float((hd_dtype)t->dtype)) {
        hd_fail(t->layout.shape.rank != 1 ? HD_ERROR_SHAPE : HD_ERROR_DTYPE,
                "`%s` is %s of %s; it must be a list of integers, [n]", what, HD_SHAPE_TEXT(t->layout.shape),
                hd_dtype_name((hd_dtype)t->dtype));
        return NULL;
    }
    int64_t *out = hd_array_resize(NULL, (size_t)(t->count > 0 ? t->count : 1) * sizeof *out);
    if (out == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for %lld integers", (long long)t->count);
        return NULL;
    }
    HD_KEEP_NAME(thread);
    if (hd_to_array(t, out, HD_I64, (size_t)t->count)) return out;
    hd_array_release(out);
    return NULL;
}
