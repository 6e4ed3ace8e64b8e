/* Random programs over tensors: ops, views, writes into views, draws. A program is a number: the same one makes the
 * same calls whenever it is given tensors of the same kinds, so that what runs at once, what is recorded and what
 * passes made of it can be compared. */
#ifndef HD_TESTS_GRAPH_PROGRAMS_H
#define HD_TESTS_GRAPH_PROGRAMS_H

#include "dice.h"
#include "graph/calls.h"

enum { MOST_VALUES = 96, OUTSIDE = 7 };

/* What is known of a value before it is computed. A compiled program may differ from dynamic execution in the last bits
 * of what is LAST_BITS, and of all that follows from it. Ops that make a large difference of a small one (a cast to
 * integers, reading bits, a division by zero, a small number times infinity) are therefore not applied to such values;
 * to others, which must agree bit for bit, they are. */
enum { LAST_BITS = 1, MAY_BE_INFINITE = 2 };

/* How errors of operands become one of the result. */
typedef enum spread { KEEPS, ADDS, MULTIPLIES, CONTRACTS } spread;

/* What a program works on. The first OUTSIDE values come from outside: two inputs, two states, a bound tensor, and two
 * constants. */
typedef struct values {
    hd_tensor *t[MOST_VALUES];
    int count;
    bool inexact;   /* the order in which it adds may differ */
    unsigned fixed; /* bits of those from outside that are not to be written, such as the bound one */
    uint8_t flags[MOST_VALUES];
    /* With `measured`, when values are numbers: for each a bound of |compiled - dynamic|, its largest element counting
     * for all of them. A running error analysis: see spread_error. */
    bool measured;
    double error[MOST_VALUES];
    /* of the step under way */
    int picked[2], picks;
    spread how;
    int64_t terms;  /* of a sum */
    double units;   /* roundings that may fall otherwise, counted in units */
    double coarse;  /* the unit of a dtype it went through on the way */
    uint8_t raised; /* flags of the result beside those of its operands */
} values;

typedef struct kind {
    hd_shape shape;
    hd_dtype dtype;
} kind;
static inline kind kind_of(dice *d) {
    static const hd_dtype dtypes[] = {HD_F32, HD_F32, HD_F32, HD_F64, HD_I32, HD_F16};
    kind k = {.dtype = dtypes[below(d, 6)], .shape = {.rank = below(d, 4)}};
    for (int i = 0; i < k.shape.rank; ++i) k.shape.size[i] = below(d, 12) == 0 ? 0 : 1 + below(d, 4);
    return k;
}

/* Values of moderate size, halves and whole numbers, both zeros among them. */
static inline hd_tensor *random_values(dice *d, kind k) {
    const int64_t count = hd_shape_count(k.shape);
    double *v = malloc((size_t)(count + 1) * sizeof *v);
    for (int64_t i = 0; i < count; ++i) {
        v[i] = (double)(below(d, 17) - 8) / 2;
        if (v[i] == 0 && below(d, 2)) v[i] = -0.0;
    }
    HD_EAGER;
    hd_tensor *t = hd_cast(hd_from_data(v, k.shape, HD_F64), k.dtype);
    free(v);
    return t;
}

static inline hd_tensor *pick(dice *d, values *v) {
    const int i = below(d, v->count);
    if (v->picks < 2) v->picked[v->picks++] = i;
    return v->t[i];
}

/* The flags of all that was picked in this step. */
static inline uint8_t picked_flags(const values *v) {
    uint8_t flags = 0;
    for (int i = 0; i < v->picks; ++i) flags |= v->flags[v->picked[i]];
    return flags;
}
static inline bool last_bits(const values *v) { return (picked_flags(v) & LAST_BITS) != 0; }
/* A small number that one of them may have and the other not, times infinity. */
static inline bool may_be_infinite_or_nan(const values *v) { return picked_flags(v) == (LAST_BITS | MAY_BE_INFINITE); }

static inline void begin_step(values *v) {
    v->picks = 0;
    v->how = KEEPS;
    v->terms = 1;
    v->units = v->coarse = 0;
    v->raised = 0;
}

/* A bound of the result's error from those of the operands, and from what the op itself adds:
 *
 *     KEEPS      max(Ea, Eb)                  copies, choices, functions that are nowhere steeper than 1
 *     ADDS       terms (Ea + Eb)              sums, differences, numbers times 2
 *     MULTIPLIES Ea Mb + Eb Ma + Ea Eb        M: the largest magnitude of an operand
 *     CONTRACTS  terms times that
 *
 * `units` roundings of the op, at the largest magnitude among operands (what it contracts with, and what cancels) and
 * result, or for sums of products of the terms. And where anything differs, storing it may round otherwise once.
 *
 * Measured over 2000 programs: three of four outputs have a bound of 0, half of the other f32 ones a bound of 5 units
 * of their largest element; the largest difference that compiled code makes is a tenth of its bound. */
static inline double spread_error(const values *v, hd_tensor *result, double before) {
    const hd_dtype dtype = hd_tensor_dtype(result);
    if (!hd_dtype_is_float(dtype)) return 0;
    double e[2] = {0, 0}, m[2] = {2, 2}; /* a number that nobody picked is at most 2 */
    for (int i = 0; i < v->picks; ++i) {
        e[i] = v->error[v->picked[i]];
        m[i] = largest_of(v->t[v->picked[i]]);
    }
    if (v->picks == 1 && v->how >= MULTIPLIES && v->terms > 0) e[1] = e[0], m[1] = m[0];
    if (v->picks > 0 && before > m[0]) m[0] = before; /* it has been overwritten since */
    const double terms = v->terms > 0 ? (double)v->terms : 1, most = fmax(largest_of(result), fmax(m[0], m[1])),
                 unit = fmax(unit_of(dtype), v->coarse);
    const double product = e[0] * m[1] + e[1] * m[0] + e[0] * e[1];
    double error = v->how == KEEPS        ? fmax(e[0], e[1])
                   : v->how == ADDS       ? terms * (e[0] + e[1])
                   : v->how == MULTIPLIES ? product
                                          : terms * product;
    error += v->units * unit * (v->how == CONTRACTS ? terms * m[0] * m[1] : terms * most);
    return error > 0 ? error + unit * largest_of(result) + smallest_of(dtype) : 0;
}

static inline hd_tensor *as_float(hd_tensor *t) {
    return hd_dtype_is_float(hd_tensor_dtype(t)) ? t : hd_cast(t, HD_F32);
}

/* Two that broadcast: the second may become a number. */
static inline void pick_two(dice *d, values *v, hd_tensor **a, hd_tensor **b) {
    *a = pick(d, v);
    for (int tries = 0; tries < 8; ++tries) {
        v->picks = 1;
        *b = pick(d, v);
        const hd_shape x = hd_tensor_shape(*a), y = hd_tensor_shape(*b);
        bool fit = true;
        for (int i = 1; i <= x.rank && i <= y.rank; ++i) {
            const int64_t p = x.size[x.rank - i], q = y.size[y.rank - i];
            fit = fit && (p == q || p == 1 || q == 1);
        }
        if (fit) return;
    }
    v->picks = 1;
    v->terms = 0;
    *b = hd_scalar((double)below(d, 5) - 2, HD_F32); /* none does */
}

static inline hd_tensor *random_view(dice *d, hd_tensor *x) {
    const int rank = hd_tensor_rank(x);
    const hd_shape shape = hd_tensor_shape(x);
    const int axis = rank > 0 ? below(d, rank) : 0;
    switch (below(d, 8)) {
    case 0: {
        hd_axes order = {.count = rank};
        for (int i = 0; i < rank; ++i) order.axis[i] = i;
        for (int i = rank - 1; i > 0; --i) {
            const int j = below(d, i + 1), swap = order.axis[i];
            order.axis[i] = order.axis[j];
            order.axis[j] = swap;
        }
        return hd_permute(x, order);
    }
    case 1: return rank == 0 ? hd_unsqueeze(x, 0) : hd_slice(x, axis, below(d, 3), HD_END, 1 + below(d, 2));
    case 2: return rank == 0 ? hd_detach(x) : hd_slice(x, axis, HD_END, HD_END, -1 - below(d, 2));
    case 3: return hd_flatten(x);
    case 4: {
        if (rank == 0 || shape.size[axis] < 1) return x;
        return hd_select(x, axis, below(d, (int)shape.size[axis]));
    }
    case 5: {
        if (rank > 4) return x;
        hd_shape wider = {.rank = rank + 1, .size = {1 + below(d, 2)}};
        for (int i = 0; i < rank; ++i) wider.size[i + 1] = shape.size[i] == 1 ? 2 : shape.size[i];
        return hd_tensor_count(x) > 200 ? x : hd_broadcast_to(x, wider);
    }
    case 6: return rank >= 2 ? hd_diagonal(x, below(d, 3) - 1, 0, rank - 1) : rank < 5 ? hd_unsqueeze(x, rank) : x;
    default: {
        if (hd_tensor_count(x) == 0 || rank > 4) return hd_detach(x);
        if (below(d, 4) == 0) return hd_as_strided(x, HD_SHAPE(1, 1), HD_SHAPE(0, 3), 0);
        return hd_reshape(x, rank >= 2 ? HD_SHAPE(shape.size[0] > 0 ? shape.size[0] : 1, -1) : HD_SHAPE(1, -1));
    }
    }
}

static inline bool shows_elements_twice(hd_tensor *t) { return hd_layout_overlaps_itself(&t->layout); }

/* Units of error that ops add. A sum contracts with a product before it, which is then not rounded: half a unit of the
 * product, and up to half a unit on each side when the result is rounded. Functions: the ulp of their rows, on each
 * side. */
enum { ADDED = 2, TANH = 4, SUMMED = 1, NORMAL = 16 };

/* All that shares the memory of `dst`, which was written, is known no better than what was written. */
static inline void spread_write(values *v, hd_tensor *dst, double before) {
    const double error = v->measured ? spread_error(v, dst, before) : 0;
    const uint8_t flags = picked_flags(v) | v->raised;
    for (int i = 0; i < v->count; ++i) {
        if (!hd_tensor_shares_storage(dst, v->t[i])) continue;
        v->flags[i] |= flags;
        if (error > v->error[i]) v->error[i] = error;
    }
}

static inline void random_write(dice *d, values *v) {
    hd_tensor *dst = pick(d, v), *src;
    for (int i = below(d, 3); i > 0; --i) dst = random_view(d, dst);
    if (shows_elements_twice(dst)) return;
    for (int i = 0; i < OUTSIDE; ++i)
        if (v->fixed >> i & 1 && hd_tensor_shares_storage(dst, v->t[i])) return;
    if (hd_tensor_dtype(dst) == HD_I32) return; /* may be the bits of another: not to be written */
    int how = below(d, 5);
    if (how == 0) {
        hd_fill(dst, below(d, 7));
        return;
    }
    for (int tries = 0; tries < 6; ++tries) {
        v->picks = 1;
        src = pick(d, v);
        const hd_shape x = hd_tensor_shape(dst), y = hd_tensor_shape(src);
        bool fit = y.rank <= x.rank;
        for (int i = 1; i <= y.rank && fit; ++i)
            fit = y.size[y.rank - i] == 1 || y.size[y.rank - i] == x.size[x.rank - i];
        if (!fit) continue;
        const bool to_float = hd_dtype_is_float(hd_tensor_dtype(dst));
        if (last_bits(v) && !to_float) return;
        if (how == 4 && may_be_infinite_or_nan(v)) how = 3;
        const double before = v->measured ? largest_of(dst) : 0;
        if (how == 1 || how == 2) {
            hd_assign(dst, src);
        } else if (!hd_dtype_is_float(hd_tensor_dtype(src)) || to_float) {
            if (how == 3) hd_add_(dst, src);
            if (how == 4) hd_mul_(dst, src);
            v->how = how == 3 ? ADDS : MULTIPLIES;
            v->units = how == 3 ? ADDED : 0;
            if (how == 3 && to_float) v->raised |= LAST_BITS;
        }
        if (hd_tensor_dtype(dst) == HD_F16) v->raised |= MAY_BE_INFINITE;
        spread_write(v, dst, before);
        return;
    }
}

static inline hd_tensor *random_op(dice *d, values *v) {
    hd_tensor *a, *b;
    const int which = below(d, 20);
    switch (which) {
    case 0: return hd_neg(pick(d, v));
    case 1:
        v->units = TANH;
        v->raised = LAST_BITS;
        return hd_tanh(as_float(pick(d, v)));
    case 2: return hd_clamp(pick(d, v), -3, 2);
    case 3:
    case 4:
    case 5: {
        pick_two(d, v, &a, &b);
        if (which == 4 && !may_be_infinite_or_nan(v)) {
            v->how = MULTIPLIES;
            return hd_mul(a, b);
        }
        v->how = ADDS;
        v->units = ADDED;
        v->raised = LAST_BITS;
        return which == 3 ? hd_add(a, b) : hd_sub(a, b);
    }
    case 6: pick_two(d, v, &a, &b); return hd_where(hd_lt(a, b), a, b);
    case 7: pick_two(d, v, &a, &b); return hd_maximum(a, b);
    case 8: { /* what the algebra pass knows */
        static const double numbers[] = {1, 0, -0.0, 2, -1};
        double n = numbers[below(d, 5)];
        a = pick(d, v);
        if (hd_tensor_dtype(a) == HD_U8) a = hd_cast(a, HD_I32);
        const int how = below(d, 5);
        if (how == 3 && n == 0 && last_bits(v)) n = 2;
        if (how == 3 && n == 0) v->raised = MAY_BE_INFINITE;
        if (how == 1 || how == 2) v->units = ADDED, v->raised = LAST_BITS;
        v->how = ADDS;
        v->terms = how == 0 || how == 4 ? 2 : 1;
        return how == 0   ? hd_mul_scalar(a, n)
               : how == 1 ? hd_add_scalar(a, n)
               : how == 2 ? hd_sub_scalar(a, n)
               : how == 3 ? hd_div_scalar(as_float(a), n)
                          : hd_mul(hd_broadcast_to(hd_scalar(n, hd_tensor_dtype(a)), hd_tensor_shape(a)), a);
    }
    case 9: {
        static const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_F16, HD_BF16, HD_I32, HD_I64, HD_I8, HD_U8};
        a = pick(d, v);
        const int most = last_bits(v) ? 4 : 8; /* floats stand first */
        const hd_dtype first = dtypes[below(d, most)], second = dtypes[below(d, most)];
        if (first == HD_F16 || second == HD_F16) v->raised = MAY_BE_INFINITE;
        v->coarse = unit_of(first);
        a = hd_cast(a, first);
        return below(d, 2) ? hd_cast(a, second) : a;
    }
    case 10:
        a = pick(d, v);
        if (hd_dtype_is_float(hd_tensor_dtype(a))) v->inexact = true;
        v->how = ADDS;
        v->terms = hd_tensor_count(a);
        v->units = SUMMED;
        v->raised = LAST_BITS;
        return hd_tensor_rank(a) > 0 && below(d, 2)
                   ? hd_sum(a, HD_AXES(below(d, hd_tensor_rank(a))), below(d, 2) ? KEEP : NULL)
                   : hd_sum(a, HD_AXES(), NULL);
    case 11: a = pick(d, v); return hd_tensor_count(a) > 0 ? hd_max(a, HD_AXES(), NULL) : hd_exp(as_float(a));
    case 12:
        a = pick(d, v);
        return hd_tensor_rank(a) > 0 ? hd_concat(LIST(a, a), below(d, hd_tensor_rank(a))) : hd_copy(a);
    case 13:
        a = pick(d, v);
        return hd_tensor_dtype(a) == HD_F32 && !last_bits(v) && below(d, 2) ? hd_bitcast(a, HD_I32) : hd_contiguous(a);
    case 14: return hd_uniform(HD_SHAPE(1 + below(d, 3), 1 + below(d, 3)), HD_F32, -2, 2);
    case 15: /* a logarithm, a root, a cosine and their product, in kernels that may fuse what the device does not */
        v->units = NORMAL;
        v->raised = LAST_BITS;
        return hd_normal(HD_SHAPE(below(d, 4)), HD_F64, 0, 1);
    case 16:
        a = pick(d, v);
        return hd_tensor_rank(a) > 0 && hd_tensor_size(a, 0) > 0
                   ? hd_index_select(a, 0, HD_TENSOR_I64(HD_SHAPE(2), 0, -1))
                   : hd_copy(a);
    case 17:
        a = pick(d, v);
        return hd_tensor_rank(a) > 0
                   ? hd_pad(a, PAD({1, 0}), 1, 0.5 * below(d, 2) * hd_dtype_is_float(hd_tensor_dtype(a)))
                   : a;
    case 18: {
        a = as_float(pick(d, v));
        v->how = MULTIPLIES;
        if (hd_tensor_rank(a) != 2 || hd_tensor_count(a) == 0 || may_be_infinite_or_nan(v)) return hd_square(a);
        v->inexact = true;
        v->how = CONTRACTS;
        v->terms = hd_tensor_size(a, 1);
        v->units = SUMMED;
        v->raised = LAST_BITS;
        return hd_matmul(a, hd_t(a));
    }
    default: return hd_arange(0, 1 + below(d, 4), 1, below(d, 2) ? HD_F32 : HD_I32);
    }
}

/* Runs `steps` steps of the program on v, whose first OUTSIDE values are set. */
static inline void run_program(uint64_t program, int steps, values *v) {
    dice d = {program * 2654435761u + 17};
    const int ops = program % 3 == 0 ? 2 : 5; /* some write most of the time */
    v->count = OUTSIDE;
    v->fixed |= 1 << 4;
    memset(v->flags, 0, sizeof v->flags);
    v->flags[2] = v->flags[3] = LAST_BITS | MAY_BE_INFINITE; /* state: whatever the last run left there */
    for (int i = 0; i < steps && hd_ok(); ++i) {
        const int what = below(&d, 10);
        hd_tensor *made = NULL;
        begin_step(v);
        if (what < ops)
            made = random_op(&d, v);
        else if (what < ops + 3)
            made = random_view(&d, pick(&d, v));
        else
            random_write(&d, v);
        if (made == NULL || hd_tensor_count(made) > 4000 || hd_tensor_rank(made) > 5) continue;
        const double error = v->measured ? spread_error(v, made, 0) : 0;
        const hd_dtype dtype = hd_tensor_dtype(made);
        const int at = v->count < MOST_VALUES ? v->count++ : OUTSIDE + below(&d, MOST_VALUES - OUTSIDE);
        v->flags[at] = hd_dtype_is_float(dtype) ? picked_flags(v) | v->raised : 0;
        if (dtype == HD_F16) v->flags[at] |= MAY_BE_INFINITE;
        v->error[at] = error;
        v->t[at] = made;
    }
}

/* The tensors of a program from outside, of the current scope. */
static inline void make_outside(uint64_t program, values *v) {
    dice d = {program + 1000003};
    for (int i = 0; i < OUTSIDE; ++i) v->t[i] = random_values(&d, kind_of(&d));
    v->count = OUTSIDE;
}

/* Which of the values are outputs: the last few, and one here and there. */
static inline bool is_output(const values *v, int i) { return i >= v->count - 4 || i % 5 == 0; }

/* The script of a program over these tensors from outside, of which the first two are only examples of the inputs. */
static inline hd_builder *record_program(uint64_t program, int steps, values *v, const values *outside) {
    hd_builder *b = started("program");
    for (int i = 0; i < OUTSIDE; ++i) v->t[i] = outside->t[i];
    v->t[0] = hd_input("x0", hd_tensor_shape(outside->t[0]), hd_tensor_dtype(outside->t[0]));
    v->t[1] = hd_input("x1", hd_tensor_shape(outside->t[1]), hd_tensor_dtype(outside->t[1]));
    hd_builder_add_state(b, "s0", outside->t[2]);
    hd_builder_add_state(b, "s1", outside->t[3]);
    hd_builder_bind(b, "bound", outside->t[4]);
    run_program(program, steps, v);
    for (int i = 0; i < v->count; ++i) {
        char name[16];
        snprintf(name, sizeof name, "y%d", i);
        if (is_output(v, i) && hd_recording_knows(b->recording, v->t[i])) /* the others it never used */
            hd_builder_add_output(b, name, v->t[i]);
    }
    hd_builder_end(b);
    return b;
}

#endif
