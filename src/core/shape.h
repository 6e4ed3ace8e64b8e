/* Shapes, axes and layouts: the arithmetic of sizes and strides. */
#ifndef HD_CORE_SHAPE_H
#define HD_CORE_SHAPE_H

#include "core/error.h"

/* Where the elements of a tensor lie in its storage; strides and offset in elements. */
typedef struct hd_layout {
    hd_shape shape;
    int64_t stride[HD_MAX_RANK];
    int64_t offset;
} hd_layout;

/* "[2,3]" into a buffer that lives in the expression: HD_SHAPE_TEXT(shape); of any rank, also one that is none. */
#define HD_SHAPE_TEXT(shape) hd_shape_text((char[200]){0}, 200, &(shape))
const char *hd_shape_text(char *out, size_t capacity, const hd_shape *shape);

/* At the door of every public function that is given a shape (strides, a window, a kernel) by value, unless
 * hd_shape_check is: a rank is what the caller wrote into the struct, and nothing may read sizes by it before. */
hd_error hd_rank_refuse(int rank) __attribute__((cold));
static inline hd_error hd_rank_check(const hd_shape *shape) {
    return __builtin_expect((unsigned)shape->rank <= HD_MAX_RANK, 1) ? HD_OK : hd_rank_refuse(shape->rank);
}
/* Checks rank and sizes; gives the number of elements, and rejects byte counts that do not fit. */
hd_error hd_shape_check(const hd_shape *shape, size_t element_bytes, int64_t *count);

/* NumPy's broadcasting of two shapes. */
hd_error hd_shape_broadcast(const hd_shape *a, const hd_shape *b, hd_shape *out);

/* 0 <= axis < rank from a possibly negative one. */
hd_error hd_axis_resolve(int axis, int rank, int *out);
/* The axes as flags; none given means all. Repeated or out of range: an error. */
hd_error hd_axes_resolve(hd_axes axes, int rank, bool chosen[HD_MAX_RANK]);

/* Row-major strides for a shape. */
static inline void hd_layout_contiguous(hd_layout *layout, const hd_shape *shape) {
    int64_t stride = 1;
    layout->shape = *shape;
    layout->offset = 0;
    for (int i = shape->rank - 1; i >= 0; --i) {
        layout->stride[i] = stride;
        stride *= shape->size[i] > 1 ? shape->size[i] : 1; /* an empty axis: any stride will do */
    }
}
bool hd_layout_is_contiguous(const hd_layout *layout);
/* The strides of a layout seen under a broadcast shape: 0 on stretched axes. */
void hd_layout_broadcast(const hd_layout *layout, const hd_shape *to, int64_t stride[HD_MAX_RANK]);

#endif
