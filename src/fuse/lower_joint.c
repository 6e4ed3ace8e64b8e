/* Concatenations and paddings in a kernel: at each point it looks where it is, and reads the piece that is there; of
 * the others it reads nothing, as behind a piece there may be no memory. */
#include "fuse/lower_build.h"

/* The position along an axis of the space, an i64. */
static int position(build *b, int axis) {
    return axis < 0 || b->axis_of[axis] < 0 ? hd_kernel_constant(b->k, HD_COMPUTE_I64, 0)
                                            : hd_kernel_index(b->k, b->axis_of[axis]);
}

static int below(build *b, int at, int64_t end) {
    return hd_kernel_word(b->k, HD_WORD_LT, at, hd_lower_number(b, HD_I64, (double)end), -1);
}

/* begin <= position < end; an end of the axis needs no look. `so_far`: a condition that holds, too, or -1. */
static int within(build *b, int axis, int64_t begin, int64_t end, int64_t size, int so_far) {
    const int at = position(b, axis);
    int both[2] = {-1, -1};
    if (begin > 0) both[0] = hd_kernel_word(b->k, HD_WORD_UNLESS, below(b, at, begin), -1, -1);
    if (end < size) both[1] = below(b, at, end);
    for (int i = 0; i < 2; ++i)
        if (both[i] >= 0) so_far = so_far < 0 ? both[i] : hd_kernel_word(b->k, HD_WORD_BOTH, so_far, both[i], -1);
    return so_far;
}

/* A piece of which the element at the origin of the space is `offset` elements from its first. */
static int piece(build *b, uint32_t in, int buffer, int64_t offset, int condition) {
    if (b->l->f->number[in]) return hd_lower_number_node(b, b->l->f->source[in]);
    return hd_kernel_load_where(b->k, buffer, offset == 0 ? -1 : hd_lower_number(b, HD_I64, (double)offset), condition);
}

/* The buffer of a piece, or any for a number; -1 with an error. */
static int buffer_of(build *b, uint32_t in, const int8_t *axes) {
    if (b->l->f->number[in]) return hd_lower_number_node(b, b->l->f->source[in]) < 0 ? -1 : 0;
    int64_t stride[HD_MAX_RANK];
    const hd_tensor *t = &b->l->tensors[in];
    hd_lower_strides(&t->layout, axes, stride);
    return hd_lower_access(b, in, false, (hd_dtype)t->dtype, stride);
}

int hd_lower_concat(build *b, uint32_t node, const int8_t *axes) {
    const hd_graph *g = b->l->g;
    const int along = ((const hd_axis_attributes *)hd_node_attributes(g, node))->axis, axis = axes[along];
    const int64_t size = hd_node_shape(g, node).size[along];
    if (axis >= 0) b->indexed[axis] = true;
    int64_t end = size;
    int value = -1;
    for (int k = g->nodes[node].input_count;
         k-- > 0;) { /* the last first: at each point the first that ends behind it */
        const uint32_t in = hd_node_inputs(g, node)[k];
        const int64_t length = hd_node_shape(g, in).size[along], begin = end - length;
        if (length == 0) continue;
        const int buffer = buffer_of(b, in, axes);
        if (buffer < 0) return -1;
        if (!b->counting) {
            const bool walks = length > 1 && !b->l->f->number[in]; /* a number is in no memory */
            const int64_t stride = walks ? b->l->tensors[in].layout.stride[along] : 0;
            const int here = piece(b, in, buffer, -begin * stride, within(b, axis, begin, end, size, -1));
            value =
                value < 0 ? here : hd_kernel_word(b->k, HD_WORD_SELECT, below(b, position(b, axis), end), here, value);
        }
        end = begin;
    }
    return b->counting ? 0 : value;
}

int hd_lower_pad(build *b, uint32_t node, const int8_t *axes) {
    const hd_graph *g = b->l->g;
    const hd_pad_attributes *a = hd_node_attributes(g, node);
    const uint32_t in = hd_node_inputs(g, node)[0];
    const hd_shape shape = hd_node_shape(g, node), inner = hd_node_shape(g, in);
    const hd_dtype dtype = (hd_dtype)g->nodes[node].dtype;
    bool empty = false;
    for (int i = 0; i < shape.rank; ++i) {
        if ((a->padding[i].before != 0 || a->padding[i].after != 0) && axes[i] >= 0) b->indexed[axes[i]] = true;
        empty = empty || inner.size[i] == 0;
    }
    uint64_t element = 0; /* the number that is in memory */
    hd_element_from_f64(&element, dtype, a->value);
    const int around = hd_lower_number(b, dtype, hd_element_to_f64(&element, dtype));
    if (empty || around < 0) return around;
    const int buffer = buffer_of(b, in, axes);
    if (buffer < 0 || b->counting) return buffer;
    int64_t offset = 0;
    int condition = -1;
    for (int i = 0; i < shape.rank; ++i) {
        const int64_t before = a->padding[i].before;
        if (before == 0 && a->padding[i].after == 0) continue;
        if (!b->l->f->number[in] && inner.size[i] > 1) offset -= before * b->l->tensors[in].layout.stride[i];
        condition = within(b, axes[i], before, before + inner.size[i], shape.size[i], condition);
    }
    const int inside = piece(b, in, buffer, offset, condition);
    return condition < 0 ? inside : hd_kernel_word(b->k, HD_WORD_SELECT, condition, inside, around);
}
