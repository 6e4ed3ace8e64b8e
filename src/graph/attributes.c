/* The attribute structs, field by field. */
#include "graph/graph.h"

#include <string.h>

#define FIELD(type, field, kind_)                                                                                      \
    { #field, HD_FIELD_##kind_, offsetof(type, field), false }
#define LATER(type, field)                                                                                             \
    { #field, HD_FIELD_INT, offsetof(type, field), true }
#define END                                                                                                            \
    { NULL, HD_FIELD_END, 0, false }

static const hd_field none_fields[] = {END};
static const hd_field hd_full_attributes_fields[] = {FIELD(hd_full_attributes, value, F64), END};
static const hd_field hd_range_attributes_fields[] = {
    FIELD(hd_range_attributes, start, F64), FIELD(hd_range_attributes, step, F64),
    FIELD(hd_range_attributes, last, F64), FIELD(hd_range_attributes, has_last, BOOL), END};
/* seed is not among them: a graph draws from the generator of the thread that runs it; draw is the node's ordinal. */
static const hd_field hd_random_attributes_fields[] = {FIELD(hd_random_attributes, draw, I64),
                                                       FIELD(hd_random_attributes, a, F64),
                                                       FIELD(hd_random_attributes, b, F64),
                                                       FIELD(hd_random_attributes, low, I64),
                                                       FIELD(hd_random_attributes, high, I64),
                                                       FIELD(hd_random_attributes, with_replacement, BOOL),
                                                       END};
static const hd_field hd_cast_attributes_fields[] = {FIELD(hd_cast_attributes, dtype, DTYPE), END};
static const hd_field hd_reduce_attributes_fields[] = {FIELD(hd_reduce_attributes, reduced, FLAGS),
                                                       FIELD(hd_reduce_attributes, keep_dims, BOOL), END};
static const hd_field hd_shape_attributes_fields[] = {FIELD(hd_shape_attributes, shape, SHAPE), END};
static const hd_field hd_axes_attributes_fields[] = {FIELD(hd_axes_attributes, axes, AXES), END};
static const hd_field hd_axis_attributes_fields[] = {FIELD(hd_axis_attributes, axis, INT), END};
static const hd_field hd_slice_attributes_fields[] = {
    FIELD(hd_slice_attributes, axis, INT), FIELD(hd_slice_attributes, start, I64),
    FIELD(hd_slice_attributes, count, I64), FIELD(hd_slice_attributes, step, I64), END};
static const hd_field hd_diagonal_attributes_fields[] = {FIELD(hd_diagonal_attributes, offset, I64),
                                                         FIELD(hd_diagonal_attributes, axis1, INT),
                                                         FIELD(hd_diagonal_attributes, axis2, INT), END};
static const hd_field hd_strided_attributes_fields[] = {FIELD(hd_strided_attributes, layout, LAYOUT), END};
static const hd_field hd_pad_attributes_fields[] = {FIELD(hd_pad_attributes, padding, PADDING),
                                                    FIELD(hd_pad_attributes, value, F64), END};
static const hd_field hd_scatter_attributes_fields[] = {FIELD(hd_scatter_attributes, axis, INT),
                                                        FIELD(hd_scatter_attributes, mode, INT), END};
static const hd_field hd_matmul_attributes_fields[] = {FIELD(hd_matmul_attributes, transpose_a, BOOL),
                                                       FIELD(hd_matmul_attributes, transpose_b, BOOL),
                                                       LATER(hd_matmul_attributes, precision), END};
static const hd_field hd_affine_attributes_fields[] = {LATER(hd_affine_attributes, precision), END};
static const hd_field hd_norm_attributes_fields[] = {FIELD(hd_norm_attributes, axes, INT),
                                                     FIELD(hd_norm_attributes, eps, F64), END};
static const hd_field hd_conv_attributes_fields[] = {FIELD(hd_conv_attributes, stride, SHAPE),
                                                     FIELD(hd_conv_attributes, dilation, SHAPE),
                                                     FIELD(hd_conv_attributes, padding, SHAPE),
                                                     FIELD(hd_conv_attributes, extra, SHAPE),
                                                     FIELD(hd_conv_attributes, groups, I64),
                                                     LATER(hd_conv_attributes, precision),
                                                     END};
static const hd_field hd_pool_attributes_fields[] = {
    FIELD(hd_pool_attributes, window, SHAPE),         FIELD(hd_pool_attributes, stride, SHAPE),
    FIELD(hd_pool_attributes, dilation, SHAPE),       FIELD(hd_pool_attributes, padding, SHAPE),
    FIELD(hd_pool_attributes, exclude_padding, BOOL), FIELD(hd_pool_attributes, ceil_mode, BOOL),
    FIELD(hd_pool_attributes, adaptive, BOOL),        END};
static const hd_field hd_attention_attributes_fields[] = {FIELD(hd_attention_attributes, causal, BOOL),
                                                          FIELD(hd_attention_attributes, scale, F64), END};
static const hd_field hd_attention_gradient_attributes_fields[] = {
    FIELD(hd_attention_gradient_attributes, causal, BOOL), FIELD(hd_attention_gradient_attributes, scale, F64),
    FIELD(hd_attention_gradient_attributes, statistics, BOOL), END};
static const hd_field hd_sort_attributes_fields[] = {FIELD(hd_sort_attributes, axis, INT),
                                                     FIELD(hd_sort_attributes, descending, BOOL), END};
static const hd_field hd_topk_attributes_fields[] = {FIELD(hd_topk_attributes, axis, INT),
                                                     FIELD(hd_topk_attributes, count, I64),
                                                     FIELD(hd_topk_attributes, largest, BOOL), END};
static const hd_field hd_custom_attributes_fields[] = {FIELD(hd_custom_attributes, op, NAME),
                                                       FIELD(hd_custom_attributes, data, BYTES), END};
static const hd_field hd_searchsorted_attributes_fields[] = {FIELD(hd_searchsorted_attributes, right, INT), END};
static const hd_field hd_scan_attributes_fields[] = {FIELD(hd_scan_attributes, axis, INT),
                                                     FIELD(hd_scan_attributes, exclusive, BOOL),
                                                     FIELD(hd_scan_attributes, reverse, BOOL), END};
static const hd_field hd_cholesky_attributes_fields[] = {FIELD(hd_cholesky_attributes, upper, INT), END};
static const hd_field hd_triangular_attributes_fields[] = {
    FIELD(hd_triangular_attributes, upper, BOOL), FIELD(hd_triangular_attributes, transpose, BOOL),
    FIELD(hd_triangular_attributes, unit, BOOL), FIELD(hd_triangular_attributes, right, BOOL), END};
static const hd_field hd_pinv_attributes_fields[] = {FIELD(hd_pinv_attributes, cutoff, F64), END};
#define NUMBER(name, offset)                                                                                           \
    { name, HD_FIELD_F64, offset, false }
static const hd_field number_fields[4][4] = {{END},
                                             {NUMBER("p", 0), END},
                                             {NUMBER("p", 0), NUMBER("q", 8), END},
                                             {NUMBER("p", 0), NUMBER("q", 8), NUMBER("r", 16), END}};

typedef struct none { /* known by its size: other attributes are larger */
    char nothing;
} none;
static const struct description {
    const hd_field *fields;
    size_t bytes;
} descriptions[HD_OP_COUNT] = {
#define PRIMITIVE(name, family, least, most, outputs, attributes, ...)                                                 \
    [HD_OP_##name] = {attributes##_fields, sizeof(attributes) == 1 ? 0 : sizeof(attributes)},
#include "ops/ops.def"
};
_Static_assert(sizeof(hd_strided_attributes) <= HD_ATTRIBUTES_MOST && sizeof(hd_pad_attributes) <= HD_ATTRIBUTES_MOST,
               "attributes fit their buffer");
_Static_assert(sizeof(hd_custom_attributes) <= HD_ATTRIBUTES_MOST, "attributes fit their buffer");
_Static_assert(sizeof(hd_conv_attributes) <= HD_ATTRIBUTES_MOST && sizeof(hd_pool_attributes) <= HD_ATTRIBUTES_MOST,
               "attributes fit their buffer");

const hd_field *hd_attribute_fields(uint16_t op, size_t *bytes) {
    if (op < HD_OP_ELEMENTWISE_COUNT) {
        *bytes = hd_rows[op].numbers * sizeof(double);
        return number_fields[hd_rows[op].numbers];
    }
    if (op == HD_NODE_WRITE) op = HD_OP_as_strided;
    *bytes = op < HD_OP_COUNT ? descriptions[op].bytes : 0;
    return op < HD_OP_COUNT ? descriptions[op].fields : none_fields;
}

bool hd_attributes_may_lack(uint16_t op) { return op == HD_OP_matmul || op == HD_OP_affine; }

bool hd_attribute_is_said(const hd_field *field, const void *attributes) {
    int value = 1;
    if (field->later) memcpy(&value, (const char *)attributes + field->offset, sizeof value);
    return value != 0;
}

static void copy_field(const hd_field *f, const char *from, char *to) {
    from += f->offset;
    to += f->offset;
    switch (f->kind) {
    case HD_FIELD_F64:
    case HD_FIELD_I64: memcpy(to, from, 8); break;
    case HD_FIELD_INT: memcpy(to, from, sizeof(int)); break;
    case HD_FIELD_BOOL: memcpy(to, from, sizeof(bool)); break;
    case HD_FIELD_DTYPE: memcpy(to, from, sizeof(hd_dtype)); break;
    case HD_FIELD_FLAGS: memcpy(to, from, HD_MAX_RANK * sizeof(bool)); break;
    case HD_FIELD_PADDING: memcpy(to, from, HD_MAX_RANK * sizeof(hd_padding)); break;
    case HD_FIELD_SHAPE: {
        const hd_shape *shape = (const hd_shape *)from;
        hd_shape *out = (hd_shape *)to;
        out->rank = shape->rank;
        for (int i = 0; i < shape->rank && i < HD_MAX_RANK; ++i) out->size[i] = shape->size[i];
        break;
    }
    case HD_FIELD_AXES: {
        const hd_axes *axes = (const hd_axes *)from;
        hd_axes *out = (hd_axes *)to;
        out->count = axes->count;
        for (int i = 0; i < axes->count && i < HD_MAX_RANK; ++i) out->axis[i] = axes->axis[i];
        break;
    }
    case HD_FIELD_LAYOUT: {
        const hd_layout *layout = (const hd_layout *)from;
        hd_layout *out = (hd_layout *)to;
        out->shape.rank = layout->shape.rank;
        out->offset = layout->offset;
        for (int i = 0; i < layout->shape.rank && i < HD_MAX_RANK; ++i) {
            out->shape.size[i] = layout->shape.size[i];
            out->stride[i] = layout->stride[i];
        }
        break;
    }
    case HD_FIELD_NAME: memcpy(to, from, sizeof(hd_name)); break; /* which have zeros behind what they say */
    case HD_FIELD_BYTES: memcpy(to, from, sizeof(hd_small_bytes)); break;
    case HD_FIELD_END: break;
    }
}

void hd_attributes_normalise(uint16_t op, const void *attributes, void *out) {
    size_t bytes;
    const hd_field *fields = hd_attribute_fields(op, &bytes);
    memset(out, 0, bytes);
    for (; fields->kind != HD_FIELD_END; ++fields) copy_field(fields, attributes, out);
}
