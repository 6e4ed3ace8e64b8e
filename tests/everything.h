/* Every op as a case: the rows of elementwise.def, and for the ops of ops.def the calls of graph/calls.h. A case is
 * tried with operands of random sizes and layouts, from a seed that sample.h prints; what runs it (at once, a script at
 * some level, another compiler or device) is compared with what gives the same elsewhere.
 *
 *   ops/test_everything.c     at once, against f64; gradients against differences; which ops are in no case
 *   script/test_everything.c  scripts of HODU at all levels, and of XLA
 *   opencl/test_every_*.c     a device of OpenCL
 *
 * A failure names case and round; HODU_CALL=name runs this case alone. */
#ifndef HD_TESTS_EVERYTHING_H
#define HD_TESTS_EVERYTHING_H

#include "dice.h"
#include "graph/calls.h"
#include "sample.h"

enum { WAYS_TO_LIE = 6, ELEMENTS_MOST = 48 }; /* of an operand */
enum { CASE_COUNT = HD_OP_ELEMENTWISE_COUNT + CALL_COUNT + AT_ONCE_COUNT, SIZES_MOST = 9 };

/* ---- cases ------------------------------------------------------------------------------------------------------- */
/* The call of a case; NULL: it is the elementwise row of this number. */
static inline const named_call *case_call(int c) {
    if (c < HD_OP_ELEMENTWISE_COUNT) return NULL;
    c -= HD_OP_ELEMENTWISE_COUNT;
    return c < CALL_COUNT ? &calls[c] : &calls_at_once[c - CALL_COUNT];
}
static inline const char *case_name(int c) {
    const named_call *call = case_call(c);
    return call == NULL ? hd_ops[c].name : call->name;
}
/* Factors of matrices: LAPACK promises small multiples of the rounding of what is factored, more for larger ones. */
static inline bool case_is_lapack(int c) { return strncmp(case_name(c), "lapack_", 7) == 0; }
enum { LAPACK_UNITS = 32 };
static inline bool case_records(int c) { return c < HD_OP_ELEMENTWISE_COUNT + CALL_COUNT; }
static inline bool case_chosen(int c) {
    const char *only = getenv("HODU_CALL");
    return only == NULL || strcmp(only, case_name(c)) == 0;
}
static inline hd_tensor *run_case(int c, hd_tensor **in) {
    const named_call *call = case_call(c);
    return call == NULL ? hd_run_row(hd_thread_self(), (hd_op_id)c, in, row_numbers) : run_call(in, call);
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */
/* How a tensor lies in memory. */
typedef enum way_to_lie { PLAIN_LAYOUT, TURNED, BACKWARDS, STEPPED, INSIDE, STRETCHED } way_to_lie;

/* The operands of a case before they are laid out: contiguous, with an axis of size 1 where it will be stretched. */
typedef struct operands {
    hd_tensor *base[3];
    way_to_lie way[3];
    int axis[3];   /* that is stretched, */
    int64_t to[3]; /* to this size */
    int count;
    bool other_shapes; /* than the call was written with */
} operands;

/* As it lies. Made of ops that have gradients, so that what is laid out can be differentiated by what it is made of. */
static inline hd_tensor *laid_out(const operands *o, int i, hd_tensor *base) {
    hd_shape shape = hd_tensor_shape(base);
    hd_axes turned = {.count = shape.rank};
    hd_padding around[HD_MAX_RANK];
    for (int k = 0; k < shape.rank; ++k) turned.axis[k] = shape.rank - 1 - k, around[k] = (hd_padding){1, 2};
    switch (o->way[i]) {
    case TURNED: return hd_permute(hd_copy(hd_permute(base, turned)), turned);
    case BACKWARDS: return hd_flip(hd_copy(hd_flip(base, X())), X());
    case STEPPED:
        for (int k = 0; k < shape.rank; ++k) base = hd_slice(hd_repeat_interleave(base, 2, k), k, HD_END, HD_END, 2);
        return base;
    case INSIDE:
        base = hd_pad(base, around, shape.rank, 7);
        for (int k = 0; k < shape.rank; ++k) base = hd_narrow(base, k, 1, shape.size[k]);
        return base;
    case STRETCHED: shape.size[o->axis[i]] = o->to[i]; return hd_broadcast_to(base, shape);
    case PLAIN_LAYOUT: break;
    }
    return base;
}

/* Numbers from 0.31 to 2, all different, by 0.001 at least, also from those of other operands; no 0.5, 1 or 1.5. f16
 * holds them. */
static inline hd_tensor *numbers_apart(dice *d, hd_shape shape, int which) {
    enum { DIFFERENT = 431 };
    static const int strides[] = {1, 37, 101, 173, 211, 307};
    const int start = below(d, DIFFERENT), stride = strides[below(d, 6)];
    const int64_t count = hd_shape_count(shape);
    double *v = malloc((size_t)(count + 1) * sizeof *v);
    for (int64_t i = 0; i < count; ++i)
        v[i] = (double)(320 + 4 * ((start + i * stride) % DIFFERENT) + 1 + which) / 1024;
    HD_EAGER;
    hd_tensor *t = hd_from_data(v, shape, HD_F64);
    free(v);
    return t;
}

/* Whether an operand looks at its storage, and so has one layout alone. */
static inline bool case_is_strided(int c) { return strncmp(case_name(c), "as_strided", 10) == 0; }

static inline void fill_operands(int c, dice *d, const hd_shape *shapes, hd_dtype dtype, operands *o) {
    for (int i = 0; i < o->count; ++i) {
        hd_shape shape = shapes[i];
        o->way[i] = case_is_strided(c) ? PLAIN_LAYOUT : (way_to_lie)below(d, WAYS_TO_LIE);
        if (o->way[i] == STRETCHED && shape.rank == 0) o->way[i] = PLAIN_LAYOUT;
        if (o->way[i] == STRETCHED) {
            o->axis[i] = below(d, shape.rank);
            o->to[i] = shape.size[o->axis[i]];
            shape.size[o->axis[i]] = o->to[i] > 0;
            if (o->to[i] == 0) o->way[i] = PLAIN_LAYOUT;
        }
        hd_tensor *t = numbers_apart(d, shape, i);
        o->base[i] = case_call(c) == NULL ? row_operand(c, i, t) : t;
        HD_EAGER;
        if (hd_dtype_is_float(hd_tensor_dtype(o->base[i]))) o->base[i] = hd_cast(o->base[i], dtype);
    }
}

/* Shapes of a row's operands: those of one of them, from rank 0 to 4, and what broadcasts to them. */
static inline void row_shapes(int c, dice *d, hd_shape *shapes, operands *o) {
    hd_shape whole = {.rank = below(d, 5)};
    for (int k = 0; k < whole.rank; ++k) whole.size[k] = below(d, 12) == 0 ? 0 : 1 + below(d, 4);
    o->count = hd_rows[c].operands;
    const int full = below(d, o->count);
    for (int i = 0; i < o->count; ++i) {
        shapes[i] = (hd_shape){.rank = 0};
        const int from = i == full || below(d, 3) > 0 ? 0 : below(d, whole.rank + 1);
        for (int k = from; k < whole.rank; ++k)
            shapes[i].size[shapes[i].rank++] = i != full && below(d, 3) == 0 ? 1 : whole.size[k];
    }
    o->other_shapes = true;
}

/* Shapes of a call's operands: what has one size in the call as it is written has one size here too, another one for
 * one in `keep` of them. */
static inline void call_shapes(int c, dice *d, int keep, hd_shape *shapes, operands *o) {
    static const int64_t sizes[] = {0, 1, 1, 2, 3, 3, 4, 5, 6, 7};
    int64_t now[SIZES_MOST] = {0};
    case_call(c)->shapes(shapes, &o->count);
    for (int s = 0; s < SIZES_MOST; ++s) now[s] = keep == 0 || below(d, keep) > 0 ? s : sizes[below(d, 10)];
    o->other_shapes = false;
    for (int i = 0; i < o->count; ++i)
        for (int k = 0; k < shapes[i].rank; ++k) {
            const int64_t size = shapes[i].size[k];
            if (size >= SIZES_MOST || now[size] == size) continue;
            shapes[i].size[k] = now[size];
            o->other_shapes = true;
        }
}

static inline bool are_large(const hd_shape *shapes, int count) {
    for (int i = 0; i < count; ++i)
        if (hd_shape_count(shapes[i]) > ELEMENTS_MOST) return true;
    return false;
}

/* The operands as the case is given them. */
static inline void operands_of(const operands *o, hd_tensor *in[3]) {
    HD_EAGER;
    for (int i = 0; i < 3; ++i) in[i] = i < o->count ? laid_out(o, i, o->base[i]) : NULL;
}

/* Operands of a case in a dtype, and what it gives at once. Sizes that a call does not take, as they do not go
 * together with its arguments, are not those tried in the end: those it is written with are. NULL: it does not take
 * the dtype. */
static inline hd_tensor *try_case(int c, int round, hd_dtype dtype, operands *o) {
    dice d = {(sample_seed() * 31 + (uint64_t)round) * 1009 + (uint64_t)c};
    hd_tensor *y = NULL;
    for (int keep = 1; y == NULL && keep <= 7; ++keep) { /* from all sizes new to hardly any, and none */
        hd_shape shapes[3];
        hd_tensor *in[3];
        if (case_call(c) == NULL)
            row_shapes(c, &d, shapes, o);
        else
            call_shapes(c, &d, keep < 7 ? keep : 0, shapes, o);
        if (keep < 7 && are_large(shapes, o->count)) continue;
        fill_operands(c, &d, shapes, dtype, o);
        operands_of(o, in);
        assert_ok();
        HD_NO_GRAD;
        hd_seed(5);
        y = run_case(c, in);
        if (y == NULL && hd_error_code() == HD_ERROR_INTERNAL) fail_msg("%s: %s", case_name(c), hd_error_message());
        if (y == NULL && keep == 7 && dtype == HD_F32) fail_msg("%s: %s", case_name(c), hd_error_message());
        hd_error_clear();
    }
    return y;
}

/* "name, round 3 of HODU_TEST_SEED=1: a [2,3] turned, b [3]" */
static inline const char *case_text(int c, int round, const operands *o) {
    static const char *const ways[] = {"", " turned", " backwards", " stepped", " inside another", " stretched"};
    static char text[512];
    int at = snprintf(text, sizeof text, "%s, round %d:", case_name(c), round);
    for (int i = 0; i < o->count; ++i) {
        const hd_shape shape = hd_tensor_shape(o->base[i]);
        at += snprintf(text + at, sizeof text - (size_t)at, " [");
        for (int k = 0; k < shape.rank; ++k)
            at += snprintf(text + at, sizeof text - (size_t)at, k > 0 ? ",%lld" : "%lld", (long long)shape.size[k]);
        at += snprintf(text + at, sizeof text - (size_t)at, "]%s", ways[o->way[i]]);
    }
    return text;
}

/* The largest of what a case is given and gives: what its errors are measured at. */
static inline double size_of_case(const operands *o, hd_tensor *y) {
    double most = largest_of(y);
    for (int i = 0; i < o->count; ++i) most = fmax(most, largest_of(o->base[i]));
    return most;
}

#endif
