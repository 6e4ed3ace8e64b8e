/* Lists of views: a tensor cut along one of its axes. */
#include "core/list.h"
#include "ops/op.h"

/* A list for `count` parts of x along an axis, all of which are made when it is. */
static hd_tensors *list_of_parts(hd_thread *thread, const hd_tensor *x, int axis, int64_t count) {
    if (count > INT32_MAX) {
        hd_fail(HD_ERROR_VALUE, "axis %d of %s in %lld parts; a list holds at most %d, so ask for fewer", axis,
                HD_SHAPE_TEXT(x->layout.shape), (long long)count, INT32_MAX);
        return NULL;
    }
    return hd_tensors_new(thread, count);
}

/* Whatever was made on the way stays in the list alone. */
static hd_tensors *end_list(hd_span *span, hd_tensors *list) {
    hd_span_end(span, NULL);
    return span->thread->error_code == HD_OK ? list : NULL;
}

/* `count` parts of `size`; the last one may have less left. */
static hd_tensors *cut_parts(hd_thread *thread, const char *name, hd_tensor *x, int axis, int64_t size, int64_t count) {
    const int64_t whole = x->layout.shape.size[axis];
    hd_tensors *list = list_of_parts(thread, x, axis, count);
    if (list == NULL) return NULL;
    hd_span span;
    hd_span_begin(&span, thread, name);
    for (int64_t i = 0; i < count; ++i) {
        const int64_t left = whole - i * size;
        hd_tensor *part = hd_narrow(x, axis, i * size, left < size ? left : size);
        if (part == NULL) break;
        hd_tensors_put(list, i, part);
    }
    return end_list(&span, list);
}

/* How many parts of `size` cover n elements. */
static int64_t parts_for(int64_t n, int64_t size) { return n == 0 ? 1 : (n - 1) / size + 1; }

hd_tensors *hd_split(hd_tensor *x, int64_t size, int axis) {
    HD_ENTER("hd_split", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    if (size < 1) {
        hd_fail(HD_ERROR_VALUE, "parts of %lld along axis %d of %s; give the size of one part, which is >= 1",
                (long long)size, axis, HD_SHAPE_TEXT(x->layout.shape));
        return NULL;
    }
    return cut_parts(thread, "split", x, axis, size, parts_for(x->layout.shape.size[axis], size));
}

hd_tensors *hd_chunk(hd_tensor *x, int64_t count, int axis) {
    HD_ENTER("hd_chunk", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    if (count < 1) {
        hd_fail(HD_ERROR_VALUE, "%lld parts along axis %d of %s; give the number of parts, which is >= 1",
                (long long)count, axis, HD_SHAPE_TEXT(x->layout.shape));
        return NULL;
    }
    const int64_t n = x->layout.shape.size[axis];
    if (n == 0) return cut_parts(thread, "chunk", x, axis, 0, count); /* nothing can be had any number of times */
    const int64_t size = (n - 1) / count + 1;
    return cut_parts(thread, "chunk", x, axis, size, parts_for(n, size));
}

hd_tensors *hd_unbind(hd_tensor *x, int axis) {
    HD_ENTER("hd_unbind", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    const int64_t count = x->layout.shape.size[axis];
    hd_tensors *list = list_of_parts(thread, x, axis, count);
    if (list == NULL) return NULL;
    hd_span span;
    hd_span_begin(&span, thread, "unbind");
    for (int64_t i = 0; i < count; ++i) {
        hd_tensor *part = hd_select(x, axis, i);
        if (part == NULL) break;
        hd_tensors_put(list, i, part);
    }
    return end_list(&span, list);
}
