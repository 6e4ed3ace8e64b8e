/* The op tables as C: ids, rows, families and the attribute structs of calls. */
#ifndef HD_OPS_OP_H
#define HD_OPS_OP_H

#include "core/execute.h"
#include "core/options.h"
#include "core/random.h"

typedef enum hd_family {
    HD_FAMILY_ELEMENTWISE,
    HD_FAMILY_DERIVATIVE, /* of an elementwise row by an operand: what backward runs */
    HD_FAMILY_CREATE,
    HD_FAMILY_RANDOM,
    HD_FAMILY_CAST,
    HD_FAMILY_REDUCE,
    HD_FAMILY_ARGREDUCE,
    HD_FAMILY_SORT,
    HD_FAMILY_SCAN,
    HD_FAMILY_VIEW,
    HD_FAMILY_MOVE,
    HD_FAMILY_INDEX,
    HD_FAMILY_CONTRACT,
    HD_FAMILY_NORM,
    HD_FAMILY_CONV,
    HD_FAMILY_POOL,
    HD_FAMILY_ATTENTION,
    HD_FAMILY_LINALG,
    HD_FAMILY_CUSTOM,
    HD_FAMILY_COUNT
} hd_family;

/* The dtypes in which an op computes, when its operands have met. */
typedef enum hd_types {
    HD_TYPES_FLOATS,
    HD_TYPES_NUMBERS,  /* floats and integers */
    HD_TYPES_INTS,     /* integers and bool */
    HD_TYPES_INTEGERS, /* integers alone */
    HD_TYPES_INDICES,  /* i64 */
    HD_TYPES_ALL
} hd_types;

/* When a call whose arguments were checked can still fail. */
typedef enum hd_fails {
    HD_FAILS_NEVER,  /* not once its result has memory */
    HD_FAILS_MEMORY, /* it takes memory on the way */
    HD_FAILS_VALUES  /* by what it finds in its operands, too: an index out of range, a division by 0 */
} hd_fails;

/* How kernels of the compiler have an op. */
typedef enum hd_lower_kind {
    HD_LOWER_NONE, /* not at all: it runs as a call */
    HD_LOWER_ROW,  /* words: elementwise rows and their derivatives */
    HD_LOWER_CAST,
    HD_LOWER_NUMBER,  /* a number of the kernel */
    HD_LOWER_UNIFORM, /* draws */
    HD_LOWER_NORMAL,
    HD_LOWER_RANDINT,
    HD_LOWER_SUM, /* reductions */
    HD_LOWER_PROD,
    HD_LOWER_MAX,
    HD_LOWER_MIN,
    HD_LOWER_GATHER, /* indexing */
    HD_LOWER_INDEX_SELECT,
    HD_LOWER_SCATTER,
    HD_LOWER_CONCAT, /* pieces that are read where they lie */
    HD_LOWER_PAD,
    HD_LOWER_MATMUL, /* products, whose tiles a kernel takes over: of matrices, */
    HD_LOWER_AFFINE,
    HD_LOWER_CONV, /* and of images */
    HD_LOWER_CONV_TRANSPOSE,
    HD_LOWER_SAME, /* views whose axes are those of what they show */
    HD_LOWER_BROADCAST,
    HD_LOWER_PERMUTE,
    HD_LOWER_RESHAPE
} hd_lower_kind;
static inline bool hd_lower_is_draw(int kind) { return kind >= HD_LOWER_UNIFORM && kind <= HD_LOWER_RANDINT; }
static inline bool hd_lower_is_reduction(int kind) { return kind >= HD_LOWER_SUM && kind <= HD_LOWER_MIN; }
static inline bool hd_lower_is_indexing(int kind) { return kind >= HD_LOWER_GATHER && kind <= HD_LOWER_SCATTER; }
static inline bool hd_lower_is_matrix_product(int kind) { return kind == HD_LOWER_MATMUL || kind == HD_LOWER_AFFINE; }
static inline bool hd_lower_is_convolution(int kind) {
    return kind == HD_LOWER_CONV || kind == HD_LOWER_CONV_TRANSPOSE;
}

/* One enumerator per row: HD_OP_add. The elementwise ones come first. */
typedef enum hd_op_id {
#define UNARY(name, ...)    HD_OP_##name,
#define UNARY1(name, ...)   HD_OP_##name,
#define UNARY2(name, ...)   HD_OP_##name,
#define UNARY3(name, ...)   HD_OP_##name,
#define TEST(name, ...)     HD_OP_##name,
#define BINARY(name, ...)   HD_OP_##name,
#define SPLIT(name, ...)    HD_OP_##name,
#define COMPARE(name, ...)  HD_OP_##name,
#define CHOOSE(name, ...)   HD_OP_##name,
#define TERNARY(name, ...)  HD_OP_##name,
#define TERNARY1(name, ...) HD_OP_##name,
#include "ops/elementwise.def"
    HD_OP_ELEMENTWISE_COUNT,
    HD_OP_BEFORE_OTHERS_ = HD_OP_ELEMENTWISE_COUNT - 1,
#define PRIMITIVE(name, ...) HD_OP_##name,
#include "ops/ops.def"
    HD_OP_COUNT,
    HD_FUSED_BEFORE_ = HD_OP_COUNT - 1, /* graphs know no op behind HD_OP_COUNT */
#define FUSED(name, ...) HD_FUSED_##name,
#include "ops/fused.def"
    HD_FUSED_END,
    HD_FUSED_COUNT = HD_FUSED_END - HD_OP_COUNT
} hd_op_id;

extern const hd_op hd_ops[HD_OP_COUNT];
/* The fused forms of composites, by their id less HD_OP_COUNT: fused.def. */
extern const hd_op hd_fused[HD_FUSED_COUNT];
static inline const hd_op *hd_fused_op(hd_op_id id) { return &hd_fused[id - HD_OP_COUNT]; }
/* The derivative of a row by an operand, as an op that runs fused: its inputs are what the sentence uses of a, b, c, y
 * and the gradient, in this order. */
extern const hd_op hd_derivatives[HD_OP_ELEMENTWISE_COUNT][3];

/* ---- elementwise rows: what the dtype rules and the kernels need to know ---- */
typedef enum hd_guard { HD_GUARD_NONE, HD_GUARD_ZERO, HD_GUARD_NEGATIVE } hd_guard;

typedef struct hd_row {
    uint8_t operands; /* 1 to 3 */
    uint8_t numbers;  /* C doubles: 0 to 3 */
    uint8_t guard;    /* hd_guard: what integers in b must not be */
    bool gives_bool;  /* the result is bool, whatever the operands */
    bool chooses;     /* the first operand is a condition, of dtype bool */
    float ulp;
    const char *reference;
} hd_row;

extern const hd_row hd_rows[HD_OP_ELEMENTWISE_COUNT];

/* ---- attributes of calls ---- */
typedef struct hd_number_attributes {
    double number[3];
} hd_number_attributes; /* of elementwise rows with C doubles */
typedef struct hd_full_attributes {
    double value;
} hd_full_attributes;
typedef struct hd_range_attributes {
    double start, step, last;
    bool has_last;
} hd_range_attributes;
typedef struct hd_random_attributes {
    uint64_t seed, draw;
    double a, b;
    int64_t low, high;
    bool with_replacement;
} hd_random_attributes;
typedef struct hd_cast_attributes {
    hd_dtype dtype;
} hd_cast_attributes;
typedef struct hd_reduce_attributes {
    bool reduced[HD_MAX_RANK];
    bool keep_dims;
} hd_reduce_attributes;
typedef struct hd_shape_attributes {
    hd_shape shape;
} hd_shape_attributes;
typedef struct hd_axes_attributes {
    hd_axes axes;
} hd_axes_attributes;
typedef struct hd_axis_attributes {
    int axis;
} hd_axis_attributes;
typedef struct hd_slice_attributes {
    int axis;
    int64_t start, count, step;
} hd_slice_attributes; /* resolved */
typedef struct hd_diagonal_attributes {
    int64_t offset;
    int axis1, axis2;
} hd_diagonal_attributes;
typedef struct hd_strided_attributes {
    hd_layout layout;
} hd_strided_attributes;
typedef struct hd_pad_attributes {
    hd_padding padding[HD_MAX_RANK];
    double value;
} hd_pad_attributes;
/* Products carry the precision they were called with (hd_matmul_precision), which is 0 where the result is not f32. A
 * matrix product whose attributes are all 0 has none: plain calls of equal operands are equal nodes. */
typedef struct hd_matmul_attributes {
    bool transpose_a, transpose_b; /* the last two axes exchanged */
    int precision;
} hd_matmul_attributes;
typedef struct hd_affine_attributes {
    int precision;
} hd_affine_attributes;
static inline int hd_call_precision(const hd_thread *thread, hd_dtype result) {
    return result == HD_F32 ? (int)thread->matmul_precision : (int)HD_MATMUL_EXACT;
}
/* Of a call of any op, from its attributes, which may be NULL. */
int hd_attributes_precision(hd_op_id id, const void *attributes);
/* True when a matrix product with a result of this dtype may be given such an operand instead of a cast of it: all
 * of its numbers are numbers of the result, and the product converts what it reads. */
static inline bool hd_product_widens(hd_dtype operand, hd_dtype result) {
    return result == HD_F32 ? operand == HD_BF16 || operand == HD_F16
                            : result == HD_I32 && (operand == HD_I8 || operand == HD_U8 || operand == HD_I16);
}
typedef struct hd_norm_attributes {
    int axes; /* how many of the last ones are normalised together */
    double eps;
} hd_norm_attributes;
typedef struct hd_conv_attributes {
    hd_shape stride, dilation; /* of each spatial axis */
    hd_shape padding;          /* before and after each */
    hd_shape
        extra; /* hd_conv_transpose: rows behind the last; hd_conv_weight_gradient: the kernel's sizes; else none */
    int64_t groups;
    int precision; /* hd_matmul_precision, as that of products */
} hd_conv_attributes;
/* Options as attributes, checked, without precision; and the number of windows on an axis of the image. */
hd_error hd_conv_read(const hd_conv_opts *opts, int axes, hd_conv_attributes *a);
hd_error hd_conv_windows(const hd_conv_attributes *a, int axis, int64_t image, int64_t kernel, int64_t *out);
/* Windows along an axis of `size`, a stride apart, their elements a dilation apart; and what is around that axis. */
typedef struct hd_overlap {
    int64_t before, window, front, places, behind, size, stride, dilation;
} hd_overlap;
/* [before, window, front, places, behind] -> [before, front, size * behind], in memory of its own: overlaps are added.
 */
hd_tensor *hd_lay_over(hd_tensor *y, const hd_overlap *w);
typedef struct hd_pool_attributes {
    hd_shape window, stride, dilation; /* of each spatial axis */
    hd_shape padding;                  /* before and after each */
    bool exclude_padding, ceil_mode, adaptive;
} hd_pool_attributes;
/* Options that are given for all spatial axes or for none: of {2} the others are 0, which is hardly what was meant. */
hd_error hd_check_spatial(const char *what, const int64_t *given, int axes);
typedef struct hd_attention_attributes {
    bool causal;
    double scale;
} hd_attention_attributes;
typedef struct hd_attention_gradient_attributes {
    bool causal;
    double scale;
    bool statistics; /* they are its last input; else it finds them itself */
} hd_attention_gradient_attributes;
typedef struct hd_scatter_attributes {
    int axis;
    hd_scatter_mode mode;
} hd_scatter_attributes;

typedef struct hd_sort_attributes {
    int axis;
    bool descending;
} hd_sort_attributes;
typedef struct hd_topk_attributes {
    int axis;
    int64_t count;
    bool largest;
} hd_topk_attributes;
typedef struct hd_searchsorted_attributes {
    int right; /* 0 or 1 */
} hd_searchsorted_attributes;
typedef struct hd_cholesky_attributes {
    int upper; /* 0 or 1 */
} hd_cholesky_attributes;
typedef struct hd_triangular_attributes {
    bool upper, transpose, unit, right; /* as hd_triangular_opts */
} hd_triangular_attributes;
typedef struct hd_pinv_attributes {
    double cutoff; /* relative to the largest singular value */
} hd_pinv_attributes;

/* A name, with zeros behind it. */
typedef struct hd_name {
    char text[HD_CUSTOM_NAME_MOST + 1];
} hd_name;
/* A few bytes, with zeros behind them. */
typedef struct hd_small_bytes {
    uint64_t count;
    unsigned char at[HD_CUSTOM_ATTRIBUTES_MOST];
} hd_small_bytes;
/* Of a call of an op of the user's, which is known by its name. */
typedef struct hd_custom_attributes {
    hd_name op;
    hd_small_bytes data;
} hd_custom_attributes;
/* Of the fused form of norms that know channels. */
typedef struct hd_channel_norm_attributes {
    int64_t groups; /* of channels; 0: each channel is normalised over the batch */
    double eps;
    bool weight, bias; /* whether they are there */
} hd_channel_norm_attributes;
typedef struct hd_scan_attributes {
    int axis;
    bool exclusive, reverse; /* as hd_scan_opts */
} hd_scan_attributes;

/* Describes a call with one output, ready to run. In place: returning a struct this large by value costs more than
 * running a small op. */
static inline void hd_call_init(hd_call *call, const hd_op *op, hd_tensor *const *inputs, int count, hd_dtype dtype,
                                const hd_shape *shape, const void *attributes) {
    call->op = op;
    call->attributes = attributes;
    call->inputs = inputs;
    call->input_count = count;
    call->output_count = 1;
    call->dtype[0] = dtype;
    call->shape[0].rank = shape->rank;
    for (int i = 0; i < shape->rank; ++i) call->shape[0].size[i] = shape->size[i];
    call->given = false;
    call->view = NULL;
    call->beside = NULL;
}

/* The same call gives one more. */
static inline void hd_call_add_output(hd_call *call, hd_dtype dtype, const hd_shape *shape) {
    call->dtype[call->output_count] = dtype;
    call->shape[call->output_count++] = *shape;
}

/* The shape that a reduction leaves. */
hd_shape hd_reduced_shape(const hd_shape *shape, const bool *reduced, bool keep);

/* The vjps that rows of ops.def name, next to the ops; and the one of all elementwise rows. */
#define VJP(function, ...) void hd_vjp_##function(hd_thread *thread, const hd_vjp_call *v);
#define ZERO(why)
#define NONE(why)
#define STOP(why)
#define PRIMITIVE(name, family, least, most, outputs, attributes, signature, doc, gradient, ...) gradient
#include "ops/ops.def"
#define FUSED(name, family, least, most, outputs, attributes, gradient, ...) gradient
#include "ops/fused.def"
#undef VJP
#undef ZERO
#undef NONE
#undef STOP
void hd_vjp_elementwise(hd_thread *thread, const hd_vjp_call *v);
/* hd_full without axes, on the CPU whatever the thread's device is: a number, which calls on all devices take. */
hd_tensor *hd_number(hd_dtype dtype, double value);
/* Numbers uniform in [0, 1), in the shape of x and on its device. */
hd_tensor *hd_rand_beside(const hd_tensor *x, hd_dtype dtype);
/* A composite that draws: a span, which gives back what it took of the generator when it fails. */
typedef struct hd_drawing {
    hd_span span;
    hd_draws before;
} hd_drawing;
void hd_drawing_begin(hd_drawing *d, hd_thread *thread, const char *name);
hd_tensor *hd_drawing_end(hd_drawing *d, hd_tensor *result);
/* hd_full, hd_range, hd_linspace and hd_tri on the device of x; NULL: on that of the thread. */
hd_tensor *hd_full_beside(const hd_tensor *x, hd_shape shape, hd_dtype dtype, double value);
hd_tensor *hd_range_beside(const hd_tensor *x, double start, double step, int64_t count, hd_dtype dtype);
hd_tensor *hd_linspace_beside(const hd_tensor *x, double start, double stop, int64_t count, hd_dtype dtype);
hd_tensor *hd_tri_beside(const hd_tensor *x, int64_t rows, int64_t columns, int64_t diagonal, hd_dtype dtype);
/* The shape of the places that an index along an axis names: its own, or that without the axes behind when it says the
 * same for all elements there, as one that was broadcast does. */
hd_shape hd_positions_shape(const hd_tensor *index, int axis);
/* What the gradient of a scatter reads (HD_SAVE_*) follows from its mode: setting and adding read the index alone. */
unsigned hd_scatter_reads(const hd_scatter_attributes *attributes);

/* x as a float to compute in: integers as the default float, small floats as f32, as they must not be rounded on the
 * way; and the dtype of what is computed of it. */
hd_tensor *hd_as_float(hd_tensor *x);
/* The dtype in which an operand of this one is computed: f32, where HD_AUTOCAST says so. */
hd_dtype hd_autocast_wide(const hd_thread *thread, hd_op_id id, hd_dtype dtype);
hd_dtype hd_float_result(const hd_thread *thread, const hd_tensor *x);
/* v^power, for v >= 0; where v is 0 its gradient is 0, not infinity: what a norm's subgradient is there. */
hd_tensor *hd_root(hd_tensor *v, double power);
/* Runs a call on x that gives values, of x's dtype, and their indices. */
hd_pair hd_run_pair(hd_thread *thread, hd_op_id id, hd_tensor *x, const hd_shape *shape, const void *attributes);
/* The gradient of x from that of such values: it goes where they were on the axis; indices have none. */
void hd_send_back(const hd_vjp_call *v, int axis, hd_tensor *gradient, hd_tensor *indices);
/* U [..., m, k] and V^T [..., k, n] of hd_svd_packed's vectors; views. */
void hd_svd_unpack(hd_tensor *packed, int64_t m, int64_t n, hd_tensor **u, hd_tensor **vh);
/* Checks up to which part of the largest singular values count as 0; 0: the default, max(m,n) epsilon. */
hd_error hd_linalg_cutoff(const hd_thread *thread, const hd_tensor *x, double *cutoff);
/* What sums and products of this dtype are: small integers would overflow. */
hd_dtype hd_sum_dtype(hd_dtype dtype);

/* hd_sum_to_shape of a gradient, which is itself the result when it has that shape: nobody writes gradients that
 * flow. */
hd_tensor *hd_gradient_to_shape(hd_tensor *gradient, const hd_shape *shape);

/* The layout of a view of something that lies as `from` says, for the attributes of a call that was checked. False: a
 * reshape that its strides do not allow. */
bool hd_view_layout(hd_op_id id, const void *attributes, const hd_layout *from, hd_layout *to);

/* What a call costs, by its op's row: hd_work_<kind>. */
#define PRIMITIVE(name, family, least, most, outputs, attributes, signature, doc, gradient, types, fails, work, lower) \
    hd_work hd_work_##work(const hd_call *call);
#include "ops/ops.def"

/* True when an op computes in this dtype: what a device that has the op must take. */
bool hd_op_takes(const hd_op *op, hd_dtype dtype);

/* An elementwise row by its id, as its public function runs it. */
hd_tensor *hd_run_row(hd_thread *thread, hd_op_id id, hd_tensor *const *inputs, const double *numbers);

/* A call as a graph or a file has it, to be made again. */
typedef struct hd_replay_call {
    const void *attributes; /* of an earlier call, or what somebody says they are */
    hd_tensor *const *inputs;
    int input_count;
    hd_dtype dtype; /* of the result */
    const hd_shape *shape;
    hd_tensor *output; /* set by the replay; NULL with an error when the call cannot be made */
    hd_tensor *second; /* likewise, where there is one */
} hd_replay_call;

/* Makes the call by its public function, with all checks; one function for each primitive, next to the public one.
 * Draws are not taken: the attributes say which. */
#define PRIMITIVE(name, ...) void hd_replay_##name(hd_replay_call *r);
#include "ops/ops.def"
/* Input i, or NULL where there are fewer. */
static inline hd_tensor *hd_replay_input(const hd_replay_call *r, int i) {
    return i < r->input_count ? r->inputs[i] : NULL;
}
static inline void hd_replay_gives(hd_replay_call *r, hd_pair pair) {
    r->output = pair.values;
    r->second = pair.indices;
}
/* Of a reduction of one axis: which, and its options; false with an error when there is none. */
bool hd_replay_axis(const hd_replay_call *r, int *axis, hd_reduce_opts *opts);
/* The same for any op; derivative: 1 + operand, or 0. */
void hd_replay(hd_thread *thread, hd_op_id id, int derivative, hd_replay_call *r);

/* The largest number of a dtype that lies in [a, b) of a uniform draw: rounding may reach the upper end, which does
 * not. */
double hd_uniform_top(const hd_random_attributes *a, hd_dtype dtype);

/* Runs a view of x: the same storage under another layout. */
hd_tensor *hd_view(hd_thread *thread, hd_op_id id, hd_tensor *x, hd_dtype dtype, const hd_layout *layout,
                   const void *attributes);

#endif
