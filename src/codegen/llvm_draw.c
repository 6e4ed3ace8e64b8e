/* Random draws in LLVM IR: draw.def. A block is four words of 32 bits: four elements of 4 bytes, or two of 8. Lanes
 * that are neighbours in the draw compute each block once: a quarter (or half) as many blocks as there are lanes, which
 * are then laid one behind the other. */
#include "codegen/code.h"

#if HD_HAS_LLVM
#include "codegen/llvm_nest.h"

#define BUILD(name, ...) hd_llvm.Build##name(e->builder, __VA_ARGS__, "")
typedef LLVMValueRef value;

static value number(const hd_emitter *e, uint64_t v) { return hd_emit_integer(e, e->i64, v); }
static value lower_half(const hd_emitter *e, value v) { return BUILD(And, v, number(e, 0xffffffffu)); }
static value upper_half(const hd_emitter *e, value v) { return BUILD(LShr, v, number(e, 32)); }

/* ---- draw.def -----------------------------------------------------------------------------------------------------
 * Words are kept in the lower halves of 64-bit lanes, where their products need no other place; that the upper halves
 * are zero is said wherever it is not plain, and costs nothing, as the multiplication does not look at them. What is
 * the same for all lanes, the draw and the seed, is a scalar until it meets what is not. */
typedef struct drawn_block {
    value word[4];
} drawn_block;

static bool is_vector(value v) { return hd_llvm.GetTypeKind(hd_llvm.TypeOf(v)) == LLVMVectorTypeKind; }
static value each_lane(const hd_emitter *e, value v) { return is_vector(v) ? v : hd_emit_splat(e, v, e->lanes); }
/* The emitter as v needs it: of one lane, or of as many as there are. */
static hd_emitter emitter_of(const hd_emitter *e, value v) {
    hd_emitter one = *e;
    if (!is_vector(v)) one.lanes = 1;
    return one;
}
static value halved(const hd_emitter *e, value v, bool upper) {
    const hd_emitter of = emitter_of(e, v);
    return upper ? upper_half(&of, v) : lower_half(&of, v);
}
static value exclusive_or(const hd_emitter *e, value a, value b, value c) {
    return lower_half(e, BUILD(Xor, BUILD(Xor, each_lane(e, a), each_lane(e, b)), each_lane(e, c)));
}
static value times(const hd_emitter *e, value a, uint32_t k) {
    const hd_emitter of = emitter_of(e, a);
    return BUILD(Mul, a, number(&of, k));
}
static value plus(const hd_emitter *e, value a, uint32_t k) {
    const hd_emitter of = emitter_of(e, a);
    return lower_half(&of, BUILD(Add, a, number(&of, k)));
}

#define DRAW_BLOCK(name, block, seed, draw)                                                                            \
    static drawn_block name(const hd_emitter *e, value block, value seed, value draw) {
#define DRAWN(a, b, c, d)                                                                                              \
    return (drawn_block){{a, b, c, d}};                                                                                \
    }
#define HALVES(low, high, v) value low = halved(e, v, false), high = halved(e, v, true);
#define PRODUCT(low, high, a, k)                                                                                       \
    value low##_##high = times(e, a, k), low = halved(e, low##_##high, false), high = halved(e, low##_##high, true);
#define SET(c, v)     c = (v);
#define XOR3(a, b, c) exclusive_or(e, a, b, c)
#define PLUS(a, k)    plus(e, a, k)
#define ROUNDS(n)     for (int round = 0; round < (n); ++round) {
#define AGAIN         }

/* Of an element's bits, in lanes as wide as it is. */
static LLVMTypeRef raw_of(const hd_emitter *e, int type) { return type == HD_COMPUTE_F32 ? e->i32 : e->i64; }
static value one_word(hd_emitter *e, int word, int type, value a) {
    value o[3] = {a, NULL, NULL};
    return hd_emit_word(e, word, type, o);
}
#define IN_f32      HD_COMPUTE_F32
#define IN_f64      HD_COMPUTE_F64
#define IN_(t)      IN_##t
#define IN(t)       IN_(t)
#define NAME_(n, t) n##_##t
#define NAME(n, t)  NAME_(n, t)
#define DRAW_F32
#define DRAW_F64
#define DRAW_PROGRAM(name, b) __attribute__((unused)) static value NAME(name, T)(hd_emitter * e, value b) {
#define RESULT(v)                                                                                                      \
    return v;                                                                                                          \
    }
#define RIGHT(b, n) BUILD(LShr, b, hd_emit_integer(e, raw_of(e, IN(T)), n))
#define LAST(b, n)  BUILD(And, b, hd_emit_integer(e, raw_of(e, IN(T)), (1u << (n)) - 1))
#define WHOLE(b)    BUILD(SIToFP, b, hd_emit_type(e, e->types[IN(T)]))
#define K(v)        hd_emit_constant(e, IN(T), IN(T) == HD_COMPUTE_F32 ? (double)(float)(v) : (v))
#define ADD(a, b)   BUILD(FAdd, a, b)
#define MUL(a, b)   BUILD(FMul, a, b)
#define SQRT(a)     one_word(e, HD_WORD_SQRT, IN(T), a)
#define LOG(a)      one_word(e, HD_WORD_LOG, IN(T), a)
#include "kernel/draw.def"

/* ---- lanes ------------------------------------------------------------------------------------------------------- */
/* One block for each lane: its words 0 and 1 as one number of 64 bits, and words 2 and 3. */
static void pairs_of_words(const hd_emitter *e, value block, value seed, value draw, value *first, value *second) {
    const drawn_block b = philox(e, block, seed, draw);
    *first = BUILD(Or, b.word[0], BUILD(Shl, b.word[1], number(e, 32)));
    *second = BUILD(Or, b.word[2], BUILD(Shl, b.word[3], number(e, 32)));
}

/* a0 b0 a1 b1 ... of two vectors of so many lanes. */
static value interleave(const hd_emitter *e, value a, value b, int lanes) {
    value from[HD_EMIT_LANES];
    for (int i = 0; i < 2 * lanes; ++i)
        from[i] = hd_llvm.ConstInt(e->i32, (uint64_t)(i / 2 + (i % 2 == 1 ? lanes : 0)), false);
    return BUILD(ShuffleVector, a, b, hd_llvm.ConstVector(from, (unsigned)(2 * lanes)));
}

/* Two normal numbers of a pair of words, in the lower halves of u and v, or of 64 bits each. */
static void normal_pair(hd_emitter *e, int type, value u, value v, value *even, value *odd) {
    value radius, angle;
    if (type == HD_COMPUTE_F32) {
        radius = radius_f32(e, BUILD(Trunc, u, hd_emit_type(e, e->i32)));
        angle = angle_f32(e, BUILD(Trunc, v, hd_emit_type(e, e->i32)));
    } else {
        radius = radius_f64(e, u);
        angle = angle_f64(e, v);
    }
    *even = BUILD(FMul, radius, one_word(e, HD_WORD_COS, type, angle));
    *odd = BUILD(FMul, radius, one_word(e, HD_WORD_SIN, type, angle));
}

/* As many neighbours as there are lanes, from the first element of block `block` on. */
static value neighbours(hd_emitter *e, const hd_step *s, value block, int lanes, const value *o) {
    const bool is_small = s->type == HD_COMPUTE_U32 || s->type == HD_COMPUTE_F32;
    const int blocks = is_small ? lanes / 4 : lanes / 2;
    value lane[HD_EMIT_LANES], first, second;
    for (int i = 0; i < blocks; ++i) lane[i] = hd_emit_i64(e, i);
    e->lanes = blocks;
    block = BUILD(Add, hd_emit_splat(e, block, blocks), hd_llvm.ConstVector(lane, (unsigned)blocks));
    pairs_of_words(e, block, o[1], o[2], &first, &second);
    if (hd_drawn_kind(s->index) == HD_DRAWN_NORMAL) {
        if (is_small) { /* a pair of words makes a pair of elements */
            value pairs = interleave(e, first, second, blocks);
            e->lanes = 2 * blocks;
            first = pairs;
            second = upper_half(e, pairs);
        }
        normal_pair(e, s->type, first, second, &first, &second);
        first = interleave(e, first, second, e->lanes);
    } else {
        first = interleave(e, first, second, blocks);
    }
    e->lanes = lanes;
    return BUILD(BitCast, first, hd_emit_type(e, e->types[s->type]));
}

/* Along an axis: whole blocks, unless the first lane is in the midst of one; then twice as many, of which the lanes are
 * a part. */
static value along_axis(hd_nest *n, int step, const value *o) {
    hd_emitter *e = n->e;
    const hd_step *s = &n->k->steps[step];
    const bool is_small = s->type == HD_COMPUTE_U32 || s->type == HD_COMPUTE_F32;
    const int width = n->k->schedule.width, axis = hd_drawn_axis(s->index), shift = is_small ? 2 : 1,
              carried = e->carried_count;
    const unsigned bytes = is_small ? 4 : 8;
    LLVMTypeRef type = e->types[s->type];
    value offset = BUILD(Add, o[0], BUILD(Add, n->index[axis], hd_nest_geometry(n, hd_geometry_base(n->k, axis))));
    value lead = BUILD(And, offset, hd_emit_i64(e, (1 << shift) - 1)),
          block = BUILD(LShr, offset, hd_emit_i64(e, shift)), area = hd_emit_stack(e, type, 2 * width, false);
    value rounds = BUILD(Select, BUILD(ICmp, LLVMIntEQ, lead, hd_emit_i64(e, 0)), hd_emit_i64(e, 1), hd_emit_i64(e, 2));
    e->carried_count = 0; /* stays as it is */
    hd_emitted_loop loop = hd_emit_loop(e, hd_emit_i64(e, 0), rounds);
    block = BUILD(Add, block, BUILD(Mul, loop.index, hd_emit_i64(e, width >> shift)));
    value at = hd_emit_element(e, type, area, BUILD(Mul, loop.index, hd_emit_i64(e, width)));
    hd_emit_store(e, neighbours(e, s, block, width, o), at, bytes);
    hd_emit_loop_end(e, &loop, 1);
    e->carried_count = carried;
    e->lanes = width;
    return hd_emit_load(e, hd_emit_type(e, type), hd_emit_element(e, type, area, lead), bytes);
}

/* Any elements: every lane computes the block of its own. */
static value anywhere(hd_emitter *e, const hd_step *s, value offset, const value *o) {
    const bool is_small = s->type == HD_COMPUTE_U32 || s->type == HD_COMPUTE_F32;
    value first, second, one = number(e, 1), none = number(e, 0),
                         odd = BUILD(ICmp, LLVMIntNE, BUILD(And, offset, one), none);
    pairs_of_words(e, BUILD(LShr, offset, number(e, is_small ? 2 : 1)), o[1], o[2], &first, &second);
    if (is_small) {
        value behind = BUILD(ICmp, LLVMIntNE, BUILD(And, offset, number(e, 2)), none);
        first = BUILD(Select, behind, second, first);
        second = upper_half(e, first);
    }
    if (hd_drawn_kind(s->index) == HD_DRAWN_NORMAL) normal_pair(e, s->type, first, second, &first, &second);
    value v = BUILD(Select, odd, second, first);
    return s->type == HD_COMPUTE_U32 ? BUILD(Trunc, v, hd_emit_type(e, e->i32)) : v;
}

value hd_nest_draw(hd_nest *n, int step) {
    hd_emitter *e = n->e;
    const hd_step *s = &n->k->steps[step];
    const bool vector = hd_nest_is_vector(n, step);
    const int axis = hd_drawn_axis(s->index);
    value o[3];
    for (int j = 0; j < 3; ++j) o[j] = n->values[s->operand[j]];
    if (vector && axis == n->k->schedule.lanes && !hd_nest_is_vector(n, s->operand[0]) &&
        n->k->schedule.width >> (s->type == HD_COMPUTE_U32 || s->type == HD_COMPUTE_F32 ? 2 : 1) >= 2)
        return along_axis(n, step, o);
    value offset = hd_nest_operand(n, s->operand[0], vector);
    if (axis >= 0) offset = BUILD(Add, offset, hd_nest_position(n, axis, vector));
    return anywhere(e, s, offset, o);
}
#endif
