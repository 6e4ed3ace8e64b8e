/* Random draws: draw.def in StableHLO, so that every draw is the one that the device makes. */
#include "ops/op.h"
#include "xla/build.h"

#include <math.h>
#include <string.h>

/* ---- draw.def -----------------------------------------------------------------------------------------------------
 * What is the same for all blocks, the draw and the seed, is a scalar until it meets what is not. */
typedef struct drawn_block {
    hd_ssa word[4];
} drawn_block;

static hd_ssa shifted(hd_hlo *e, hd_ssa bits, int by) {
    return hd_hlo_binary(e, "shift_right_logical", bits, hd_hlo_integer(e, bits.dtype, &bits.shape, by));
}
static hd_ssa lower(hd_hlo *e, hd_ssa x) { return hd_hlo_convert(e, x, HD_U32); }
static hd_ssa upper(hd_hlo *e, hd_ssa x) { return lower(e, shifted(e, x, 32)); }

#define DRAW_BLOCK(name, block, seed, draw)                                                                            \
    static drawn_block name(hd_hlo *e, hd_ssa block, hd_ssa seed, hd_ssa draw) {                                       \
        const hd_shape *const shape = &block.shape;
#define DRAWN(a, b, c, d)                                                                                              \
    return (drawn_block){{a, b, c, d}};                                                                                \
    }
#define HALVES(low, high, v) hd_ssa low = lower(e, v), high = upper(e, v);
#define PRODUCT(low, high, a, k)                                                                                       \
    const hd_ssa low##_##high = wide_product(e, a, k), low = lower(e, low##_##high), high = upper(e, low##_##high);
#define SET(c, v)     c = (v);
#define XOR3(a, b, c) exclusive_or(e, shape, a, b, c)
#define PLUS(a, k)    hd_hlo_add(e, a, hd_hlo_bits(e, HD_U32, &(a).shape, k))
#define ROUNDS(n)     for (int round = 0; round < (n); ++round) {
#define AGAIN         }
static hd_ssa wide_product(hd_hlo *e, hd_ssa a, uint32_t k) {
    return hd_hlo_multiply(e, hd_hlo_convert(e, a, HD_U64), hd_hlo_bits(e, HD_U64, &a.shape, k));
}
static hd_ssa exclusive_or(hd_hlo *e, const hd_shape *shape, hd_ssa a, hd_ssa b, hd_ssa c) {
    a = hd_hlo_binary(e, "xor", hd_hlo_broadcast(e, a, shape), hd_hlo_broadcast(e, b, shape));
    return hd_hlo_binary(e, "xor", a, hd_hlo_broadcast(e, c, shape));
}

#define IN_f32      HD_F32
#define IN_f64      HD_F64
#define OF_f32      HD_COMPUTE_F32
#define OF_f64      HD_COMPUTE_F64
#define NAME_(n, t) n##_##t
#define NAME(n, t)  NAME_(n, t)
#define DRAW_F32
#define DRAW_F64
#define DRAW_PROGRAM(name, b)                                                                                          \
    static hd_ssa NAME(name, T)(hd_hlo * e, hd_ssa b) {                                                                \
        const hd_shape *const shape = &b.shape;
#define RESULT(v)                                                                                                      \
    return v;                                                                                                          \
    }
#define RIGHT(b, n) shifted(e, b, n)
#define LAST(b, n)  hd_hlo_both(e, b, hd_hlo_bits(e, b.dtype, shape, (1u << (n)) - 1))
#define WHOLE(b)    hd_hlo_convert(e, b, NAME(IN, T))
#define K(v)        hd_hlo_number(e, NAME(IN, T), shape, NAME(IN, T) == HD_F32 ? (double)(float)(v) : (v))
#define ADD(a, b)   hd_hlo_add(e, a, b)
#define MUL(a, b)   hd_hlo_multiply(e, a, b)
#define SQRT(a)     hd_hlo_unary(e, "sqrt", a)
#define LOG(a)      one_word(e, HD_WORD_LOG, NAME(OF, T), a)
static hd_ssa one_word(hd_hlo *e, hd_word word, int type, hd_ssa a) { return hd_hlo_word(e, word, type, &a); }
#include "kernel/draw.def"

/* ---- blocks ------------------------------------------------------------------------------------------------------ */
enum { PHILOX = HD_WORD_COUNT }; /* the key of its functions, behind those of words */

/* Words [4, blocks] of a draw, from a function that is written once for a number of blocks. */
static hd_ssa words_of_blocks(hd_hlo *e, int64_t blocks, hd_ssa draw) {
    const hd_shape list = {.rank = 1, .size = {blocks}}, row = {.rank = 2, .size = {1, blocks}},
                   all = {.rank = 2, .size = {4, blocks}};
    bool is_new;
    hd_hlo_known_find(e, &e->written, &(hd_hlo_key){.kind = PHILOX, .shape = list}, 0, &is_new);
    if (is_new) {
        hd_hlo_frame frame;
        hd_hlo_enter(e, &frame);
        const hd_ssa seed = hd_hlo_define(e, HD_U64, HD_HLO_SCALAR), which = hd_hlo_define(e, HD_U64, HD_HLO_SCALAR),
                     result = {.dtype = HD_U32, .shape = all};
        hd_hlo_say(e, "  func.func private @philox_%d(%v: %t, %v: %t) -> %t {\n", blocks, &seed, &seed, &which, &which,
                   &result);
        drawn_block drawn = philox(e, hd_hlo_iota(e, HD_U64, &list, 0), seed, which);
        for (int i = 0; i < 4; ++i) drawn.word[i] = hd_hlo_reshape(e, drawn.word[i], &row);
        const hd_ssa words = hd_hlo_concat(e, drawn.word, 4, 0);
        hd_hlo_say(e, "    return %v : %t\n  }\n", &words, &words);
        hd_hlo_leave(e, &frame);
    }
    const hd_ssa v = hd_hlo_define(e, HD_U32, &all);
    hd_hlo_say(e, "    %v = func.call @philox_%d(%v, %v) : (%t, %t) -> %t\n", &v, blocks, &e->seed, &draw, &e->seed,
               &draw, &v);
    return v;
}

/* The first `count` of values [parts, blocks], block after block. */
static hd_ssa in_order(hd_hlo *e, hd_ssa values, int64_t count) {
    const int transposed[2] = {1, 0};
    const int64_t zero = 0, one = 1;
    values = hd_hlo_transpose(e, values, transposed);
    const hd_shape flat = hd_hlo_flat(&values.shape);
    return hd_hlo_slice(e, hd_hlo_reshape(e, values, &flat), &zero, &count, &one);
}

static hd_ssa words_of(hd_hlo *e, hd_ssa words, int first, int step, int count) {
    const int64_t start[2] = {first, 0}, counts[2] = {count, words.shape.size[1]}, steps[2] = {step, 1};
    return hd_hlo_slice(e, words, start, counts, steps);
}

/* Two words each: [2, blocks] of u64. */
static hd_ssa pairs(hd_hlo *e, hd_ssa words) {
    const hd_ssa low = hd_hlo_convert(e, words_of(e, words, 0, 2, 2), HD_U64),
                 high = hd_hlo_convert(e, words_of(e, words, 1, 2, 2), HD_U64);
    return hd_hlo_either(e, hd_hlo_binary(e, "shift_left", high, hd_hlo_bits(e, HD_U64, &high.shape, 32)), low);
}

static hd_ssa bits_u64(hd_hlo *e, hd_ssa draw, int64_t count) {
    return in_order(e, pairs(e, words_of_blocks(e, (count + 1) / 2, draw)), count);
}

static hd_ssa uniform_f32(hd_hlo *e, hd_ssa draw, int64_t count) {
    return unit_f32(e, in_order(e, words_of_blocks(e, (count + 3) / 4, draw), count));
}
static hd_ssa uniform_f64(hd_hlo *e, hd_ssa draw, int64_t count) { return unit_f64(e, bits_u64(e, draw, count)); }

/* The pairs of normal numbers of radii and angles [pairs of a block, blocks]. */
static hd_ssa box_muller(hd_hlo *e, hd_ssa radius, hd_ssa angle, int64_t count) {
    const int type = radius.dtype == HD_F32 ? HD_COMPUTE_F32 : HD_COMPUTE_F64;
    const hd_shape pair = {.rank = 3, .size = {1, angle.shape.size[0], angle.shape.size[1]}};
    hd_ssa both[2] = {hd_hlo_multiply(e, radius, one_word(e, HD_WORD_COS, type, angle)),
                      hd_hlo_multiply(e, radius, one_word(e, HD_WORD_SIN, type, angle))};
    for (int i = 0; i < 2; ++i) both[i] = hd_hlo_reshape(e, both[i], &pair);
    const int order[3] = {2, 1, 0}; /* of [2, pairs of a block, blocks] */
    const int64_t zero = 0, one = 1;
    const hd_ssa all = hd_hlo_transpose(e, hd_hlo_concat(e, both, 2, 0), order);
    const hd_shape flat = hd_hlo_flat(&all.shape);
    return hd_hlo_slice(e, hd_hlo_reshape(e, all, &flat), &zero, &count, &one);
}

static hd_ssa normal_f32(hd_hlo *e, hd_ssa draw, int64_t count) {
    const hd_ssa words = words_of_blocks(e, (count + 3) / 4, draw);
    return box_muller(e, radius_f32(e, words_of(e, words, 0, 2, 2)), angle_f32(e, words_of(e, words, 1, 2, 2)), count);
}

static hd_ssa normal_f64(hd_hlo *e, hd_ssa draw, int64_t count) {
    const hd_ssa both = pairs(e, words_of_blocks(e, (count + 1) / 2, draw));
    return box_muller(e, radius_f64(e, words_of(e, both, 0, 1, 1)), angle_f64(e, words_of(e, both, 1, 1, 1)), count);
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */
/* Of the unit's u: low + by * u. */
static hd_ssa stretched(hd_hlo *e, hd_ssa u, double low, double by) {
    const hd_ssa v = hd_hlo_multiply(e, hd_hlo_number(e, u.dtype, &u.shape, by), u);
    return hd_hlo_add(e, hd_hlo_number(e, u.dtype, &u.shape, low), v);
}

static hd_ssa uniform(hd_hlo *e, const hd_random_attributes *a, hd_dtype dtype, hd_ssa draw, int64_t count) {
    const hd_ssa u = dtype == HD_F64 ? uniform_f64(e, draw, count) : uniform_f32(e, draw, count);
    const hd_ssa top = hd_hlo_number(e, u.dtype, &u.shape, hd_uniform_top(a, dtype));
    return hd_hlo_cast(e, hd_hlo_binary(e, "minimum", stretched(e, u, a->a, a->b - a->a), top), dtype);
}

static hd_ssa normal(hd_hlo *e, const hd_random_attributes *a, hd_dtype dtype, hd_ssa draw, int64_t count) {
    const hd_ssa u = dtype == HD_F64 ? normal_f64(e, draw, count) : normal_f32(e, draw, count);
    return hd_hlo_cast(e, stretched(e, u, a->a, a->b), dtype);
}

/* The upper 64 bits of a product of two u64, by halves. */
static hd_ssa upper_product(hd_hlo *e, hd_ssa x, uint64_t y) {
    const hd_ssa mask = hd_hlo_bits(e, HD_U64, &x.shape, 0xffffffffu),
                 y0 = hd_hlo_bits(e, HD_U64, &x.shape, (uint32_t)y), y1 = hd_hlo_bits(e, HD_U64, &x.shape, y >> 32),
                 x0 = hd_hlo_both(e, x, mask), x1 = shifted(e, x, 32);
    const hd_ssa carry = hd_hlo_add(e, hd_hlo_multiply(e, x1, y0), shifted(e, hd_hlo_multiply(e, x0, y0), 32));
    const hd_ssa middle = hd_hlo_add(e, hd_hlo_multiply(e, x0, y1), hd_hlo_both(e, carry, mask));
    return hd_hlo_add(e, hd_hlo_add(e, hd_hlo_multiply(e, x1, y1), shifted(e, carry, 32)), shifted(e, middle, 32));
}

static hd_ssa integers(hd_hlo *e, const hd_random_attributes *a, hd_dtype dtype, hd_ssa draw, int64_t count) {
    const hd_ssa v = upper_product(e, bits_u64(e, draw, count), (uint64_t)a->high - (uint64_t)a->low);
    return hd_hlo_convert(e, hd_hlo_add(e, v, hd_hlo_bits(e, HD_U64, &v.shape, (uint64_t)a->low)), dtype);
}

/* The positions [.., n] of keys (u64) in order along the last axis; of equal keys the first comes first. */
static hd_ssa order_of(hd_hlo *e, hd_ssa keys) {
    const int axis = keys.shape.rank - 1;
    const hd_ssa at = hd_hlo_iota(e, HD_I64, &keys.shape, axis), sorted = hd_hlo_define(e, HD_I64, &keys.shape);
    hd_hlo_say(e, "    %v:2 = \"stablehlo.sort\"(%v, %v) ({\n", &sorted, &keys, &at);
    hd_hlo_say(e, "      ^bb0(%a: tensor<ui64>, %b: tensor<ui64>, %i: tensor<i64>, %j: tensor<i64>):\n");
    hd_hlo_say(
        e, "        %before = stablehlo.compare LT, %a, %b, UNSIGNED : (tensor<ui64>, tensor<ui64>) -> tensor<i1>\n");
    hd_hlo_say(e, "        stablehlo.return %before : tensor<i1>\n");
    hd_hlo_say(e, "    }) {dimension = %d : i64, is_stable = true} : (%t, %t) -> (%t, %t)\n", (int64_t)axis, &keys, &at,
               &keys, &at);
    const hd_ssa v = hd_hlo_define(e, HD_I64, &keys.shape);
    hd_hlo_say(e, "    %v = stablehlo.reshape %v#1 : (%t) -> %t\n", &v, &sorted, &v, &v);
    return v;
}

static hd_ssa permutation(hd_hlo *e, const hd_random_attributes *a, hd_dtype dtype, hd_ssa draw, int64_t count) {
    (void)a, (void)dtype;
    return order_of(e, bits_u64(e, draw, count));
}

/* ---- multinomial ------------------------------------------------------------------------------------------------- */
/* Running sums along the last axis of [m, n], added in order, as the device does: any other order rounds otherwise. */
static hd_ssa running_sums(hd_hlo *e, hd_ssa w) {
    const int64_t m = w.shape.size[0], n = w.shape.size[1];
    const hd_shape column = {.rank = 2, .size = {m, 1}};
    const hd_ssa index = hd_hlo_integer(e, HD_I64, HD_HLO_SCALAR, 0), one = hd_hlo_integer(e, HD_I64, HD_HLO_SCALAR, 1),
                 end = hd_hlo_integer(e, HD_I64, HD_HLO_SCALAR, n), zero = hd_hlo_number(e, HD_F64, &column, 0),
                 sums = hd_hlo_define(e, HD_F64, &w.shape), part = zero;
    hd_hlo_say(e, "    %v:3 = stablehlo.while(%at = %v, %kept = %v, %all = %v) : %t, %t, %t\n", &sums, &index, &zero,
               &w, &index, &zero, &w);
    hd_hlo_say(e, "      cond {\n        %more = stablehlo.compare LT, %at, %v, SIGNED : (%t, %t) -> tensor<i1>\n",
               &end, &end, &end);
    hd_hlo_say(e, "        stablehlo.return %more : tensor<i1>\n      } do {\n");
    hd_hlo_say(e, "        %new = stablehlo.dynamic_slice %all, %v, %at, sizes = [%d, 1] : (%t, %t, %t) -> %t\n",
               &index, m, &w, &index, &index, &part);
    hd_hlo_say(e, "        %both = stablehlo.add %kept, %new : %t\n", &part);
    hd_hlo_say(e, "        %put = stablehlo.dynamic_update_slice %all, %both, %v, %at : (%t, %t, %t, %t) -> %t\n",
               &index, &w, &part, &index, &index, &w);
    hd_hlo_say(e, "        %next = stablehlo.add %at, %v : %t\n", &one, &one);
    hd_hlo_say(e, "        stablehlo.return %next, %both, %put : %t, %t, %t\n      }\n", &index, &part, &w);
    const hd_ssa v = hd_hlo_define(e, HD_F64, &w.shape);
    hd_hlo_say(e, "    %v = stablehlo.reshape %v#2 : (%t) -> %t\n", &v, &sums, &v, &v);
    return v;
}

static hd_ssa bits_i64(hd_hlo *e, hd_ssa x) { return hd_hlo_bitcast(e, x, HD_I64); }

static void check_weights(hd_hlo *e, uint32_t node, hd_ssa w, hd_ssa total, int64_t needed) {
    const bool last[2] = {false, true};
    const hd_ssa zero = hd_hlo_number(e, HD_F64, &w.shape, 0), far = hd_hlo_number(e, HD_F64, &w.shape, INFINITY);
    const hd_ssa fine = hd_hlo_both(e, hd_hlo_compare(e, "GE", w, zero), hd_hlo_compare(e, "LT", w, far));
    hd_hlo_check_that(e, HD_HLO_CHECK_WEIGHTS, node, 0, hd_hlo_not(e, fine), bits_i64(e, w));
    const hd_ssa none = hd_hlo_number(e, HD_F64, &total.shape, 0),
                 most = hd_hlo_number(e, HD_F64, &total.shape, INFINITY);
    const hd_ssa sums = hd_hlo_both(e, hd_hlo_compare(e, "GT", total, none), hd_hlo_compare(e, "LT", total, most));
    hd_hlo_check_that(e, HD_HLO_CHECK_TOTAL, node, 0, hd_hlo_not(e, sums), bits_i64(e, total));
    if (needed == 0) return;
    const hd_ssa ones = hd_hlo_convert(e, hd_hlo_compare(e, "GT", w, zero), HD_F64),
                 positive = hd_hlo_reduce(e, "add", ones, hd_hlo_identity(e, HD_F64, "add"), last, true);
    const hd_ssa few = hd_hlo_compare(e, "LT", positive, hd_hlo_number(e, HD_F64, &positive.shape, (double)needed));
    hd_hlo_check_that(e, HD_HLO_CHECK_ENOUGH, node, 0, few, bits_i64(e, positive));
}

/* How many running sums are not above u times the whole: the first that is. The last positive weight is where rounding
 * ends. */
static hd_ssa with_replacement(hd_hlo *e, hd_ssa w, hd_ssa sums, hd_ssa total, hd_ssa draw, int64_t count) {
    const int64_t m = w.shape.size[0], n = w.shape.size[1];
    const hd_shape drawn = {.rank = 2, .size = {m, count}}, all = {.rank = 3, .size = {m, count, n}};
    const int64_t of_draws[2] = {0, 1}, of_sums[2] = {0, 2};
    const bool last[3] = {false, false, true}, last_of_two[2] = {false, true};
    hd_ssa u = hd_hlo_reshape(e, uniform_f64(e, draw, m * count), &drawn);
    u = hd_hlo_multiply(e, u, hd_hlo_broadcast(e, total, &drawn));
    const hd_ssa above =
        hd_hlo_compare(e, "GT", hd_hlo_stretch(e, sums, &all, of_sums), hd_hlo_stretch(e, u, &all, of_draws));
    const hd_ssa places =
        hd_hlo_select(e, above, hd_hlo_iota(e, HD_I64, &all, 2), hd_hlo_integer(e, HD_I64, &all, n - 1));
    const hd_ssa first =
        hd_hlo_reduce(e, "minimum", places, hd_hlo_integer(e, HD_I64, HD_HLO_SCALAR, n - 1), last, false);
    const hd_ssa positive = hd_hlo_compare(e, "GT", w, hd_hlo_number(e, HD_F64, &w.shape, 0));
    const hd_ssa ends = hd_hlo_reduce(
        e, "maximum",
        hd_hlo_select(e, positive, hd_hlo_iota(e, HD_I64, &w.shape, 1), hd_hlo_integer(e, HD_I64, &w.shape, 0)),
        hd_hlo_integer(e, HD_I64, HD_HLO_SCALAR, 0), last_of_two, true);
    return hd_hlo_binary(e, "minimum", first, hd_hlo_broadcast(e, ends, &drawn));
}

/* An exponential race: the smallest of -log(1 - u) / w win, in the order in which they finish. */
static hd_ssa without_replacement(hd_hlo *e, hd_ssa w, hd_ssa draw, int64_t count) {
    const int64_t m = w.shape.size[0], start[2] = {0, 0}, counts[2] = {m, count}, steps[2] = {1, 1};
    const hd_ssa u = hd_hlo_reshape(e, uniform_f64(e, draw, hd_shape_count(w.shape)), &w.shape);
    const hd_ssa back = hd_hlo_unary(e, "negate", u), passed = hd_hlo_word(e, HD_WORD_LOG1P, HD_COMPUTE_F64, &back);
    const hd_ssa finish = hd_hlo_divide(e, hd_hlo_unary(e, "abs", passed), w);
    const hd_ssa runs = hd_hlo_compare(e, "GT", w, hd_hlo_number(e, HD_F64, &w.shape, 0));
    const hd_ssa keys =
        hd_hlo_select(e, runs, hd_hlo_bitcast(e, finish, HD_U64), hd_hlo_bits(e, HD_U64, &w.shape, UINT64_MAX));
    return hd_hlo_slice(e, order_of(e, keys), start, counts, steps);
}

/* The number of a node's draw. */
static hd_ssa draw_of(hd_hlo *e, uint32_t node) {
    const hd_random_attributes *a = hd_node_attributes(e->g, node);
    return hd_hlo_add(e, e->draw, hd_hlo_bits(e, HD_U64, HD_HLO_SCALAR, a->draw));
}

hd_ssa hd_hlo_emit_multinomial(hd_hlo *e, uint32_t node) {
    const hd_random_attributes *a = hd_node_attributes(e->g, node);
    const hd_shape shape = hd_node_shape(e->g, node);
    const hd_ssa draw = draw_of(e, node);
    hd_ssa w = hd_hlo_cast(e, hd_hlo_input(e, node, 0), HD_F64);
    const int64_t n = w.shape.size[w.shape.rank - 1], m = w.shape.rank == 2 ? w.shape.size[0] : 1,
                  count = shape.size[shape.rank - 1], start[2] = {0, n - 1}, counts[2] = {m, 1}, steps[2] = {1, 1};
    const hd_shape rows = {.rank = 2, .size = {m, n}};
    if (m == 0) return hd_hlo_bits(e, HD_I64, &shape, 0);
    w = hd_hlo_reshape(e, w, &rows);
    const hd_ssa sums = running_sums(e, w), total = hd_hlo_slice(e, sums, start, counts, steps);
    check_weights(e, node, w, total, a->with_replacement ? 0 : count);
    if (hd_shape_count(shape) == 0 || count > n) /* the check says so when it is too many */
        if (!a->with_replacement || count == 0) return hd_hlo_bits(e, HD_I64, &shape, 0);
    return hd_hlo_reshape(e,
                          a->with_replacement ? with_replacement(e, w, sums, total, draw, count)
                                              : without_replacement(e, w, draw, count),
                          &shape);
}

typedef hd_ssa (*drawing)(hd_hlo *e, const hd_random_attributes *a, hd_dtype dtype, hd_ssa draw, int64_t count);

/* Numbers that are drawn in a row, in the node's shape. */
static hd_ssa drawn(hd_hlo *e, uint32_t node, drawing numbers) {
    const hd_dtype dtype = (hd_dtype)e->g->nodes[node].dtype;
    const hd_shape shape = hd_node_shape(e->g, node);
    const int64_t count = hd_shape_count(shape);
    if (count == 0) return hd_hlo_bits(e, dtype, &shape, 0);
    return hd_hlo_reshape(e, numbers(e, hd_node_attributes(e->g, node), dtype, draw_of(e, node), count), &shape);
}
hd_ssa hd_hlo_emit_uniform(hd_hlo *e, uint32_t node) { return drawn(e, node, uniform); }
hd_ssa hd_hlo_emit_normal(hd_hlo *e, uint32_t node) { return drawn(e, node, normal); }
hd_ssa hd_hlo_emit_randint(hd_hlo *e, uint32_t node) { return drawn(e, node, integers); }
hd_ssa hd_hlo_emit_permutation(hd_hlo *e, uint32_t node) { return drawn(e, node, permutation); }
