/* Kernels: words inside a loop nest. A kernel walks an index space; its axes are loops, the kept ones outside, the
 * reduced ones inside. At every point it loads elements through strides, says words, and stores; reductions run over
 * the reduced axes, in stages: what follows from a reduction belongs to the next stage, which walks the reduced axes
 * again.
 *
 *     for every point of the kept axes            (depth 0 .. kept)
 *         for each stage
 *             for every point of the reduced axes (depth kept + 1 .. axes)
 *
 * Softmax is three stages: the maximum, the sum of exponentials, the quotient. An elementwise kernel has no reduced
 * axis and one stage. Sizes, strides and numbers are arguments, so that equal computations on other shapes share code;
 * only whether a stride is 0, 1 or anything else is part of the kernel. */
#ifndef HD_KERNEL_KERNEL_H
#define HD_KERNEL_KERNEL_H

#include "kernel/ir.h"
#include "kernel/target.h"

enum { HD_KERNEL_AXES = 8, HD_KERNEL_BUFFERS = 64, HD_KERNEL_STAGES = 8, HD_KERNEL_NUMBERS = 512 };

/* What a step does beside saying a word of words.def. HD_WORD_CONSTANT is `value`, HD_WORD_NUMBER number `index`. */
enum {
    HD_STEP_LOAD =
        HD_WORD_COUNT, /* the element of buffer `index`; operand 0, if any: an i64 added to its offset; operand 1, if
                                     any: a condition without which nothing is read, and 0 is its value */
    HD_STEP_INDEX,     /* the position along axis `index`, as i64 */
    HD_STEP_CAST,      /* operand 0 in this step's type; saturates, NaN gives 0 in integers */
    HD_STEP_ROUND,     /* operand 0, f32, rounded to small float dtype `index` */
    HD_STEP_REDUCE,    /* operand 0 over the reduced axes; `index`: hd_kernel_reduction */
    HD_STEP_STORE,     /* operand 0 into buffer `index` */
    HD_STEP_DRAW,      /* of a draw, its number at a position: see hd_kernel_draw */
    HD_STEP_COUNT
};
/* What a draw gives: its bits (u32, u64), which uniform numbers are made of, or normal numbers (f32, f64) of mean 0 and
 * deviation 1. In a step's index, with 1 + the axis above it. */
typedef enum hd_kernel_drawn { HD_DRAWN_BITS, HD_DRAWN_NORMAL } hd_kernel_drawn;
static inline int hd_drawn_kind(int index) { return index & 0xff; }
static inline int hd_drawn_axis(int index) { return (index >> 8) - 1; }
typedef enum hd_kernel_reduction { HD_KERNEL_SUM, HD_KERNEL_PROD, HD_KERNEL_MAX, HD_KERNEL_MIN } hd_kernel_reduction;

typedef struct hd_step {
    uint8_t word;  /* hd_word or HD_STEP_* */
    uint8_t type;  /* hd_compute, or HD_CONDITION; of a store: its operand's */
    uint8_t depth; /* 0: before all loops; d: inside the first d axes. Of a reduction: `kept` */
    uint8_t stage; /* the first in which it can be computed; a reduction is computed in its operand's stage, and has the
                      next one */
    uint8_t over;  /* bits of the axes it depends on; it differs between lanes when the lanes' axis is among them */
    uint8_t unused[3];
    uint16_t index;
    uint16_t slot;      /* 1 + its index in the scratch memory, for a step that a later stage reads again; else 0 */
    int32_t operand[3]; /* -1: none */
    double value;
} hd_step;
_Static_assert(sizeof(hd_step) == 32, "equal steps have equal bytes: nothing is padded");

typedef enum hd_stride { HD_STRIDE_ZERO, HD_STRIDE_ONE, HD_STRIDE_ANY } hd_stride;
typedef struct hd_kernel_buffer {
    uint8_t dtype;
    bool written;
    uint8_t stride[HD_KERNEL_AXES]; /* hd_stride, of each axis */
} hd_kernel_buffer;

/* How the loops of a kernel run on lanes: what renderers read, and decide nothing of it by themselves. */
typedef enum hd_schedule_form {
    HD_SCHEDULE_PLAIN,  /* nothing is walked: loops over the kept axes, lanes along the innermost */
    HD_SCHEDULE_ROWS,   /* lanes are along the last reduced axis, and are folded at its end */
    HD_SCHEDULE_STRIPS, /* lanes are along the last kept axis: results stand side by side */
    HD_SCHEDULE_POINTS  /* reductions over no axis at all: one point after the other */
} hd_schedule_form;
typedef struct hd_schedule {
    uint8_t lanes;                 /* the axis whose points are computed several at a time: kept - 1 or axes - 1 */
    uint8_t form;                  /* hd_schedule_form */
    uint16_t width;                /* how many lanes at a time: a power of two */
    uint16_t slots;                /* of scratch memory, for values that a later stage needs again: step->slot */
    uint16_t sum_points, sum_rows; /* f32 sums and products go to f64 after so many points of the last reduced axis: of
                                      ROWS, and of the other forms */
} hd_schedule;

/* What a kernel computes, and its schedule. */
typedef struct hd_kernel {
    uint8_t axes, kept;
    uint8_t stages; /* walks over the reduced axes */
    hd_schedule schedule;
    int buffer_count, number_count;
    hd_kernel_buffer buffers[HD_KERNEL_BUFFERS];
    hd_step *steps; /* in order: an operand stands before its use */
    int count, capacity;
    int32_t *table;
    int table_size;
} hd_kernel;

/* ---- building: all give a step's number, -1 once anything failed (an error is pending then) ---- */
void hd_kernel_init(hd_kernel *k, int axes, int kept);
void hd_kernel_release(hd_kernel *k);
int hd_kernel_add_buffer(hd_kernel *k, hd_dtype dtype, bool written, const uint8_t *strides);
int hd_kernel_load(hd_kernel *k, int buffer, int offset);
int hd_kernel_load_where(hd_kernel *k, int buffer, int offset, int condition);
int hd_kernel_word(hd_kernel *k, hd_word word, int a, int b, int c);
int hd_kernel_constant(hd_kernel *k, hd_compute type, double value);
int hd_kernel_number(hd_kernel *k, hd_compute type, int number);
int hd_kernel_index(hd_kernel *k, int axis);
int hd_kernel_cast(hd_kernel *k, int a, int type);
int hd_kernel_round(hd_kernel *k, int a, hd_dtype dtype);
int hd_kernel_reduce(hd_kernel *k, int a, hd_kernel_reduction how);
int hd_kernel_store(hd_kernel *k, int buffer, int a);
/* Element `offset` (an i64) of a draw; with `axis` >= 0, that many positions along the axis further. Neighbours
 * along an axis that is given so share the blocks that Philox makes, so it should be that of the lanes. `seed` and
 * `draw`: numbers, u64. */
int hd_kernel_draw(hd_kernel *k, hd_kernel_drawn what, hd_compute type, int offset, int axis, int seed, int draw);
/* The steps of a row's IR; its inputs and numbers are steps of the kernel. */
int hd_kernel_row(hd_kernel *k, const hd_ir *ir, const int *inputs, const int *numbers);

/* Drops what no store needs, and decides depths and stages: all that a kernel is, apart from its schedule. Functions
 * stay words: renderers write them out where their target lacks them. */
hd_error hd_kernel_settle(hd_kernel *k);
/* Chooses the schedule of a settled kernel. `lanes` is the axis to compute several points of at a time: the last kept
 * or the last reduced one. */
hd_error hd_kernel_schedule(hd_kernel *k, int lanes, const hd_target *t);
/* True for a reduction that goes on in f64: sums and products of f32. */
static inline bool hd_step_is_wide(const hd_step *s) { return s->type == HD_COMPUTE_F32 && s->index <= HD_KERNEL_PROD; }
/* Checks order, types, depths and stages; an error names the step. */
hd_error hd_kernel_verify(const hd_kernel *k);

/* What a step computes, in rough units of one vector instruction; loads, stores and reductions are 0. */
int hd_step_cost(const hd_step *s);

/* Equal kernels have equal bytes: what a cache is keyed by. Length as snprintf. */
size_t hd_kernel_bytes(const hd_kernel *k, void *out, size_t capacity);
/* A kernel from its bytes, which may come from anywhere: it is verified. Its steps are from hd_array_resize. */
hd_error hd_kernel_from_bytes(hd_kernel *k, const void *bytes, size_t count);
/* For people: one line per buffer and step. Length as snprintf. */
size_t hd_kernel_print(const hd_kernel *k, char *out, size_t capacity);

/* ---- the call ------------------------------------------------------------------------------------------------------
 * `buffers[b]` is the address of buffer b's element at the origin. `geometry` has, in this order: the size of every
 * axis, the position of the origin along every axis (what HD_STEP_INDEX adds to), the stride in elements of every
 * buffer along every axis, and the bytes of one scratch slot. `numbers` are 8 bytes each, in the type of their steps,
 * at the low end. A part of the space is a call with other sizes and addresses: whoever calls cuts it for threads and
 * caches. */
typedef void (*hd_kernel_function)(char *const *buffers, const int64_t *geometry, const uint64_t *numbers,
                                   char *scratch);
enum { HD_GEOMETRY_MOST = HD_KERNEL_AXES * (2 + HD_KERNEL_BUFFERS) + 1 };
static inline int hd_geometry_base(const hd_kernel *k, int axis) { return k->axes + axis; }
static inline int hd_geometry_stride(const hd_kernel *k, int buffer, int axis) {
    return 2 * k->axes + buffer * k->axes + axis;
}
static inline int hd_geometry_slot(const hd_kernel *k) { return 2 * k->axes + k->buffer_count * k->axes; }

/* What a call passes, where it is known when the text is written. */
typedef struct hd_known {
    const int64_t *geometry;
    const uint64_t *numbers;
    bool is_given[HD_KERNEL_NUMBERS]; /* of each number: it differs from call to call, and is an argument m<i> */
} hd_known;
/* C99 text of a function `static void name(const c_f32 *in0, c_f32 *out1, uint64_t m3)`, for the one space that is
 * known; in the words of dialect_c.h. Positions are int32_t. Length as snprintf. */
size_t hd_render_kernel_plain(const hd_kernel *k, const hd_known *known, const char *name, char *out, size_t capacity);
/* C text of a kernel: a function `name` of the type above, with words_c.h as its preamble. Length as snprintf. */
size_t hd_render_kernel_c(const hd_kernel *k, const char *name, char *out, size_t capacity);
/* The function alone: what people read. */
size_t hd_render_kernel_function(const hd_kernel *k, const char *name, char *out, size_t capacity);

#endif
