/* What a kernel recomputes: random draws, and what is made of them. An element of a draw follows from its position in
 * it, which the kernel counts as it walks its space; the seed and the ordinals of draws are numbers that every run
 * sets. */
#include "fuse/lower_build.h"

#include <string.h>

/* The number of the run's seed, and of a draw. */
static int seed_of(build *b) {
    if (b->out->seed < 0) b->out->seed = b->number_count++;
    return hd_kernel_number(b->k, HD_COMPUTE_U64, b->out->seed);
}
static int ordinal_of(build *b, uint32_t ordinal) {
    hd_lowered *out = b->out;
    int at = 0;
    while (at < out->draw_count && out->draws[at].ordinal != ordinal) ++at;
    if (at == HD_KERNEL_DRAWS) {
        hd_fail(HD_ERROR_INTERNAL, "a fused kernel of more than %d draws", (int)HD_KERNEL_DRAWS);
        return -1;
    }
    if (at == out->draw_count)
        out->draws[out->draw_count++] = (hd_lowered_draw){.number = (uint32_t)b->number_count++, .ordinal = ordinal};
    return hd_kernel_number(b->k, HD_COMPUTE_U64, (int)out->draws[at].number);
}

/* The position in a draw: along the axis of the lanes from neighbour to neighbour, if that is how it goes. */
static int position_of(build *b, int *axis) {
    draw_walk *walk = &b->walks[b->walk];
    const int64_t *stride = b->loops->walk[b->walk];
    *axis = stride[b->loops->lanes] == 1 ? b->loops->lanes : -1;
    if (walk->position >= 0) return walk->position;
    int position = walk->first != 0 ? hd_lower_number(b, HD_I64, (double)walk->first) : -1;
    for (int a = 0; a < b->loops->count; ++a) {
        if (stride[a] == 0 || a == *axis) continue;
        int step = hd_kernel_index(b->k, a);
        if (stride[a] != 1)
            step = hd_kernel_word(b->k, HD_WORD_MUL, step, hd_lower_number(b, HD_I64, (double)stride[a]), -1);
        position = position < 0 ? step : hd_kernel_word(b->k, HD_WORD_ADD, position, step, -1);
    }
    return walk->position = position >= 0 ? position : hd_kernel_constant(b->k, HD_COMPUTE_I64, 0);
}

/* draw.def as steps, of which uniform numbers are taken: unit_f32, unit_f64. */
typedef struct raw_types {
    hd_compute bits, whole, number;
} raw_types;
static const raw_types raw_f32 = {HD_COMPUTE_U32, HD_COMPUTE_I32, HD_COMPUTE_F32},
                       raw_f64 = {HD_COMPUTE_U64, HD_COMPUTE_I64, HD_COMPUTE_F64};
#define NAME_(n, t) n##_##t
#define NAME(n, t)  NAME_(n, t)
#define DRAW_F32
#define DRAW_F64
#define DRAW_PROGRAM(name, b)                                                                                          \
    __attribute__((unused)) static int NAME(name, T)(hd_kernel * k, int b) {                                           \
        const raw_types *t = &NAME(raw, T);
#define RESULT(v)                                                                                                      \
    return v;                                                                                                          \
    }
#define STEP(word, a, b) hd_kernel_word(k, HD_WORD_##word, a, b, -1)
#define RIGHT(b, n)      STEP(SHR, b, hd_kernel_constant(k, t->bits, n))
#define LAST(b, n)       STEP(AND, b, hd_kernel_constant(k, t->bits, (1u << (n)) - 1))
#define WHOLE(b)         hd_kernel_cast(k, hd_kernel_cast(k, b, (int)t->whole), (int)t->number)
#define K(v)             hd_kernel_constant(k, t->number, v)
#define ADD(a, b)        STEP(ADD, a, b)
#define MUL(a, b)        STEP(MUL, a, b)
#define SQRT(a)          STEP(SQRT, a, -1)
#define LOG(a)           STEP(LOG, a, -1)
#include "kernel/draw.def"

/* low + scale * v to the bit, so the product must be rounded before it is added: one that is compared, too, is. */
static int stretched(hd_kernel *k, int v, int low, int scale) {
    const int product = hd_kernel_word(k, HD_WORD_MUL, v, scale, -1);
    return hd_kernel_word(k, HD_WORD_SELECT, hd_kernel_word(k, HD_WORD_EQ, product, product, -1),
                          hd_kernel_word(k, HD_WORD_ADD, product, low, -1), product);
}

/* low + the upper half of bits * width, a product of 128 bits: that of each half of the bits fits into 64. */
static int integer(build *b, int bits, int64_t low, int64_t high, hd_dtype dtype) {
    hd_kernel *k = b->k;
    const int width = hd_lower_number(b, HD_U64, (double)(high - low)),
              half = hd_kernel_constant(k, HD_COMPUTE_U64, 32),
              mask = hd_kernel_constant(k, HD_COMPUTE_U64, 4294967295.0);
    const int lower = hd_kernel_word(k, HD_WORD_MUL, hd_kernel_word(k, HD_WORD_AND, bits, mask, -1), width, -1),
              upper = hd_kernel_word(k, HD_WORD_MUL, hd_kernel_word(k, HD_WORD_SHR, bits, half, -1), width, -1);
    const int both = hd_kernel_word(k, HD_WORD_ADD, upper, hd_kernel_word(k, HD_WORD_SHR, lower, half, -1), -1);
    const int above = hd_kernel_cast(k, hd_kernel_word(k, HD_WORD_SHR, both, half, -1), HD_COMPUTE_I64);
    const int value = hd_kernel_word(k, HD_WORD_ADD, above, hd_lower_number(b, HD_I64, (double)low), -1);
    return hd_kernel_cast(k, value, hd_dtype_compute[dtype]);
}

/* The next numbers of a node's draw; -1 with an error. */
static int drawn(build *b, uint32_t node, hd_kernel_drawn what, hd_compute type) {
    const hd_random_attributes *a = hd_node_attributes(b->l->g, node);
    int axis;
    const int position = position_of(b, &axis), seed = seed_of(b), draw = ordinal_of(b, (uint32_t)a->draw);
    if (b->number_count > HD_LOWER_NUMBERS) {
        hd_fail(HD_ERROR_INTERNAL, "a fused kernel of more than %d numbers", (int)HD_LOWER_NUMBERS);
        return -1;
    }
    return hd_kernel_draw(b->k, what, type, position, axis, seed, draw);
}

/* The type in which a draw of this dtype is computed, and that of its numbers. */
static bool is_double(const build *b, uint32_t node) { return b->l->g->nodes[node].dtype == HD_F64; }
static hd_dtype number_dtype(const build *b, uint32_t node) { return is_double(b, node) ? HD_F64 : HD_F32; }

int hd_lower_normal(build *b, uint32_t node) {
    if (b->counting) return 0;
    const hd_random_attributes *a = hd_node_attributes(b->l->g, node);
    const int v = drawn(b, node, HD_DRAWN_NORMAL, is_double(b, node) ? HD_COMPUTE_F64 : HD_COMPUTE_F32);
    if (v < 0 || (a->a == 0 && a->b == 1)) return v;
    const hd_dtype number = number_dtype(b, node);
    const int scaled = hd_kernel_word(b->k, HD_WORD_MUL, v, hd_lower_number(b, number, a->b), -1);
    return hd_kernel_word(b->k, HD_WORD_ADD, scaled, hd_lower_number(b, number, a->a), -1);
}

int hd_lower_randint(build *b, uint32_t node) {
    if (b->counting) return 0;
    const hd_random_attributes *a = hd_node_attributes(b->l->g, node);
    const int bits = drawn(b, node, HD_DRAWN_BITS, HD_COMPUTE_U64);
    return bits < 0 ? bits : integer(b, bits, a->low, a->high, (hd_dtype)b->l->g->nodes[node].dtype);
}

int hd_lower_uniform(build *b, uint32_t node) {
    if (b->counting) return 0;
    const hd_random_attributes *a = hd_node_attributes(b->l->g, node);
    const hd_dtype dtype = (hd_dtype)b->l->g->nodes[node].dtype, number = number_dtype(b, node);
    const hd_compute raw = is_double(b, node) ? HD_COMPUTE_U64 : HD_COMPUTE_U32;
    const int bits = drawn(b, node, HD_DRAWN_BITS, raw);
    if (bits < 0) return bits;
    int v = is_double(b, node) ? unit_f64(b->k, bits) : unit_f32(b->k, bits);
    if (a->a == 0 && a->b == 1 && !hd_dtype_is_small_float(dtype)) return v;
    v = stretched(b->k, v, hd_lower_number(b, number, a->a), hd_lower_number(b, number, a->b - a->a));
    const int top =
        hd_lower_number(b, number, hd_uniform_top(a, dtype)); /* rounding may reach the end, which is no part */
    return hd_kernel_word(b->k, HD_WORD_SELECT, hd_kernel_word(b->k, HD_WORD_LT, v, top, -1), v, top);
}

static int recomputed_value(build *b, uint32_t node) {
    static const int8_t none[HD_MAX_RANK]; /* its inputs are where it is */
    return hd_lower_rounded(b, node, hd_lower_value(b, node, none));
}

int hd_lower_recompute(build *b, uint32_t in, const int8_t *axes) {
    const uint32_t source = b->l->f->source[in];
    if (b->walk >= 0) return recomputed_value(b, source);
    draw_walk walk = {.position = -1};
    hd_layout layout;
    if (!hd_layout_of_value(b->l->g, in, &layout)) return -1;
    hd_lower_strides(&layout, axes, walk.stride);
    walk.first = layout.offset;
    int at = 0;
    while (at < b->walk_count &&
           (b->walks[at].first != walk.first || memcmp(b->walks[at].stride, walk.stride, sizeof walk.stride) != 0))
        ++at;
    if (at == HD_KERNEL_DRAWS) {
        hd_fail(HD_ERROR_INTERNAL, "a fused kernel of more than %d draws", (int)HD_KERNEL_DRAWS);
        return -1;
    }
    if (at == b->walk_count) b->walks[b->walk_count++] = walk;
    b->walk = at;
    const int step = recomputed_value(b, source);
    b->walk = -1;
    return step;
}
