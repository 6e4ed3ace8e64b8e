/* Writing StableHLO, op by op: a function adds a line (or a few) and gives the value that it defines. Inside the room.
 *
 * Values know their dtype and shape, so a program is written as it would be with tensors. What fails is remembered in
 * the emitter, and values go on being numbers: whoever emits looks once, at the end. */
#ifndef HD_XLA_BUILD_H
#define HD_XLA_BUILD_H

#include "kernel/ir.h"
#include "ops/row_ir.h"
#include "xla/emit.h"
#include "xla/text.h"

/* What XLA's algebraic simplifier would look for in a float. It rewrites (x + c) + d as x + (c + d), (x * c) * d as
 * x * (c * d), (a / b) / c as a / (b * c), a / c as a * (1 / c), a / sqrt(b) as a * rsqrt(b), a * 2 + b * 2 as
 * (a + b) * 2, and inf * (x < y) as 0. That takes the low words of double-word arithmetic away, and overflows or
 * underflows where the program as it was written does not. So the ops below know what an operand is, and veil one of
 * two that such a rule would join.
 *
 * A veil is bits(x) | bits(x) >> all of them: nothing that the simplifier knows, but LLVM finds that it is x, so that a
 * run costs nothing. An optimization_barrier does it too, but plugins differ in when they drop those: that of
 * scripts/get-xla before it fuses, others after, and then a barrier tears kernels apart. Switching the simplifier off
 * (xla_disable_hlo_passes=algsimp) helps as well, but takes all its other rules along. */
typedef enum hd_hlo_form {
    HD_HLO_IS_CONSTANT = 1,
    HD_HLO_IS_SUM = 2,     /* with a constant, or a difference */
    HD_HLO_IS_PRODUCT = 4, /* with a constant */
    HD_HLO_IS_QUOTIENT = 8,
    HD_HLO_IS_ROOT = 16,
    HD_HLO_IS_SPREAD = 32, /* over more elements */
    HD_HLO_IS_TRUTH = 64,  /* a bool made a number */
    HD_HLO_IS_POWER = 128, /* a constant 2^n, and 1 / 2^n is normal */
    HD_HLO_IS_ANY = HD_HLO_IS_SUM | HD_HLO_IS_PRODUCT | HD_HLO_IS_QUOTIENT | HD_HLO_IS_ROOT | HD_HLO_IS_SPREAD
} hd_hlo_form;

typedef struct hd_ssa {
    uint32_t id; /* %id */
    hd_dtype dtype;
    hd_shape shape;
    unsigned form; /* bits of hd_hlo_form */
} hd_ssa;

/* What was written before, and is not written again: constants of a function, functions of a module. */
typedef struct hd_hlo_key {
    uint64_t bits;
    uint32_t kind, dtype;
    hd_shape shape; /* sizes behind its rank are 0 */
} hd_hlo_key;
typedef struct hd_hlo_known {
    hd_hlo_key *keys;
    uint32_t *ids;
    uint32_t *table; /* 1 + index */
    uint32_t count, capacity;
} hd_hlo_known;

typedef struct hd_hlo_function {
    hd_text text;
    uint32_t next; /* id */
    hd_hlo_known numbers;
} hd_hlo_function;

typedef struct hd_hlo {
    hd_thread *thread;
    const hd_graph *g;
    hd_stablehlo *out;
    hd_hlo_function *into; /* the one that is written now */
    hd_text functions;     /* finished ones, apart from @main */
    hd_hlo_known written;  /* keys of those */
    hd_ssa *values;        /* of nodes */
    hd_ssa *seconds;       /* the second outputs of those that have one, which their emitters set */
    bool *defined;
    hd_row_irs rows;
    hd_ssa seed, draw;
    hd_ssa fault, failed; /* once there is a check */
    uint32_t check_capacity;
    hd_error status;
} hd_hlo;

/* ---- writing ---- */
/* %v a value, %t its type, %s a string, %d an int64_t, %l a list: const int64_t *, int. Other letters begin a name of
 * the text, such as %a in a region. */
void hd_hlo_say(hd_hlo *e, const char *format, ...);
hd_ssa hd_hlo_define(hd_hlo *e, hd_dtype dtype, const hd_shape *shape);
void hd_hlo_fail(hd_hlo *e, hd_error status);
const char *hd_hlo_dtype(hd_dtype dtype);
void hd_hlo_known_release(hd_hlo_known *k);
/* The id noted for a key; *is_new: it was not known, and gets `id`. */
uint32_t hd_hlo_known_find(hd_hlo *e, hd_hlo_known *k, const hd_hlo_key *key, uint32_t id, bool *is_new);
/* Of a key that is known. */
void hd_hlo_known_change(hd_hlo_known *k, const hd_hlo_key *key, uint32_t id);
/* A private function: what is written between these goes there. */
typedef struct hd_hlo_frame {
    hd_hlo_function function, *outer;
} hd_hlo_frame;
void hd_hlo_enter(hd_hlo *e, hd_hlo_frame *f);
void hd_hlo_leave(hd_hlo *e, hd_hlo_frame *f);

/* ---- constants ---- */
hd_ssa hd_hlo_bits(hd_hlo *e, hd_dtype dtype, const hd_shape *shape, uint64_t bits);
hd_ssa hd_hlo_number(hd_hlo *e, hd_dtype dtype, const hd_shape *shape, double value);
hd_ssa hd_hlo_integer(hd_hlo *e, hd_dtype dtype, const hd_shape *shape, int64_t value);
/* A table in row-major order. */
hd_ssa hd_hlo_table(hd_hlo *e, hd_dtype dtype, const hd_shape *shape, const void *elements);
/* Positions along an axis. */
hd_ssa hd_hlo_iota(hd_hlo *e, hd_dtype dtype, const hd_shape *shape, int axis);

/* ---- element by element ---- */
hd_ssa hd_hlo_unary(hd_hlo *e, const char *op, hd_ssa x);
hd_ssa hd_hlo_binary(hd_hlo *e, const char *op, hd_ssa a, hd_ssa b);
hd_ssa hd_hlo_add(hd_hlo *e, hd_ssa a, hd_ssa b);
hd_ssa hd_hlo_subtract(hd_hlo *e, hd_ssa a, hd_ssa b);
hd_ssa hd_hlo_multiply(hd_hlo *e, hd_ssa a, hd_ssa b);
hd_ssa hd_hlo_divide(hd_hlo *e, hd_ssa a, hd_ssa b);
hd_ssa hd_hlo_compare(hd_hlo *e, const char *direction, hd_ssa a, hd_ssa b);
hd_ssa hd_hlo_select(hd_hlo *e, hd_ssa condition, hd_ssa a, hd_ssa b);
hd_ssa hd_hlo_both(hd_hlo *e, hd_ssa a, hd_ssa b);
hd_ssa hd_hlo_either(hd_hlo *e, hd_ssa a, hd_ssa b);
hd_ssa hd_hlo_not(hd_hlo *e, hd_ssa a);
/* The larger (or smaller) of two; NaN if either is. */
hd_ssa hd_hlo_extreme(hd_hlo *e, bool largest, hd_ssa a, hd_ssa b);
/* As StableHLO converts; where that is what we mean. */
hd_ssa hd_hlo_convert(hd_hlo *e, hd_ssa x, hd_dtype dtype);
hd_ssa hd_hlo_bitcast(hd_hlo *e, hd_ssa x, hd_dtype dtype);
/* As hd_cast. */
hd_ssa hd_hlo_cast(hd_hlo *e, hd_ssa x, hd_dtype dtype);
/* A word of the vocabulary on operands of one shape; type: a compute type, of the operands. */
hd_ssa hd_hlo_word(hd_hlo *e, hd_word word, int type, const hd_ssa *operands);

/* x, which XLA's simplifier does not recognise any more; by: of the same dtype and shape, x itself, or for a constant
 * x something that is none. */
hd_ssa hd_hlo_veil(hd_hlo *e, hd_ssa x, hd_ssa by);
/* The value of a node of a sentence's IR, on inputs and numbers of one shape. */
hd_ssa hd_hlo_sentence(hd_hlo *e, const hd_ir *ir, int result, const hd_ssa *inputs, const hd_ssa *numbers,
                       const hd_shape *shape);

/* ---- shape ---- */
hd_ssa hd_hlo_reshape(hd_hlo *e, hd_ssa x, const hd_shape *shape);
hd_ssa hd_hlo_transpose(hd_hlo *e, hd_ssa x, const int *order);
/* As NumPy broadcasts. */
hd_ssa hd_hlo_broadcast(hd_hlo *e, hd_ssa x, const hd_shape *shape);
/* Axis i of x is axis axes[i] of the result. */
hd_ssa hd_hlo_stretch(hd_hlo *e, hd_ssa x, const hd_shape *shape, const int64_t *axes);
hd_ssa hd_hlo_slice(hd_hlo *e, hd_ssa x, const int64_t *start, const int64_t *count, const int64_t *step);
hd_ssa hd_hlo_reverse(hd_hlo *e, hd_ssa x, const bool *axes);
hd_ssa hd_hlo_pad(hd_hlo *e, hd_ssa x, hd_ssa value, const int64_t *low, const int64_t *high, const int64_t *interior);
hd_ssa hd_hlo_concat(hd_hlo *e, const hd_ssa *parts, int count, int axis);

/* ---- many elements ---- */
/* op: "add", "maximum", ... ; what goes is gone, or kept with size 1. */
hd_ssa hd_hlo_reduce(hd_hlo *e, const char *op, hd_ssa x, hd_ssa init, const bool *reduced, bool keep);
/* The region that combines two elements by an op; "": the second one. */
void hd_hlo_say_combine(hd_hlo *e, const char *op, hd_dtype dtype);
/* What the reduction starts from. */
hd_ssa hd_hlo_identity(hd_hlo *e, hd_dtype dtype, const char *op);
/* How XLA may multiply operands: HIGHEST as they are, DEFAULT also rounded to TF32, where a device has that. */
const char *hd_hlo_precision(hd_dtype operands, bool exact);
/* Axes that both have first, then those of a, then those of b; NULL, 0: none. Operands of bf16 and f16 give f32. Not
 * exact: operands of f32 may be rounded to TF32. */
hd_ssa hd_hlo_dot(hd_hlo *e, hd_ssa a, hd_ssa b, int batch, int contract_a, int contract_b, bool exact);
/* The same value, which XLA computes as it is written: nothing is rewritten across it. One for each value. */
hd_ssa hd_hlo_barrier(hd_hlo *e, hd_ssa x);
/* Elements of flat x at offsets (i64, each within x): the shape of offsets. */
hd_ssa hd_hlo_take(hd_hlo *e, hd_ssa flat, hd_ssa offsets);
/* An element of x for each offset (i64, from the front) along an axis; on the others offsets have x's sizes. */
hd_ssa hd_hlo_take_along(hd_hlo *e, hd_ssa x, hd_ssa offsets, int axis);
/* Flat x with values put at offsets: op "" sets them, else "add", ... combines. */
hd_ssa hd_hlo_put(hd_hlo *e, hd_ssa flat, hd_ssa offsets, hd_ssa values, const char *op);

/* ---- nodes ---- */
hd_ssa hd_hlo_node(hd_hlo *e, uint32_t node);             /* the value of a node that was emitted */
hd_ssa hd_hlo_input(hd_hlo *e, uint32_t node, int input); /* of an input of a node */
/* The place of the first element where `bad` holds is what a run reports; value: i64 of bad's shape, or id
 * HD_NO_NODE. */
void hd_hlo_check_that(hd_hlo *e, hd_hlo_check_kind kind, uint32_t node, int64_t bound, hd_ssa bad, hd_ssa value);

typedef struct hd_pair_of_values {
    hd_ssa first, second;
} hd_pair_of_values;
/* The value of a node: of elementwise rows and their derivatives, of a write, and of each primitive. */
hd_ssa hd_hlo_emit_row(hd_hlo *e, uint32_t node);
hd_ssa hd_hlo_emit_write(hd_hlo *e, uint32_t node);
#define PRIMITIVE(name, ...) hd_ssa hd_hlo_emit_##name(hd_hlo *e, uint32_t node);
#include "ops/ops.def"

/* What small floats compute in; other dtypes are themselves. */
static inline hd_dtype hd_hlo_wide(hd_dtype d) { return hd_dtype_is_small_float(d) ? HD_F32 : d; }
/* The shapes of one element, and of all elements in a row. */
#define HD_HLO_SCALAR (&(const hd_shape){.rank = 0})
static inline hd_shape hd_hlo_flat(const hd_shape *s) { return (hd_shape){.rank = 1, .size = {hd_shape_count(*s)}}; }

#endif
