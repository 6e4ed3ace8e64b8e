/* Random draws in LLVM IR: Philox 4x32-10, as device/cpu/kernels_random.c has it. A block is four words of 32 bits:
 * four elements of 4 bytes, or two of 8. Lanes that are neighbours in the draw compute each block once: a quarter (or
 * half) as many blocks as there are lanes, which are then laid one behind the other. */
#include "compiler/code.h"

#if HD_HAS_LLVM
#include "compiler/llvm_nest.h"

#define BUILD(name, ...) hd_llvm.Build##name(e->builder, __VA_ARGS__, "")
typedef LLVMValueRef value;

static value number(const hd_emitter *e, uint64_t v) { return hd_emit_integer(e, e->i64, v); }
static value lower_half(const hd_emitter *e, value v) { return BUILD(And, v, number(e, 0xffffffffu)); }
static value upper_half(const hd_emitter *e, value v) { return BUILD(LShr, v, number(e, 32)); }

/* One block for each lane: its words 0 and 1 as one number of 64 bits, and words 2 and 3. Words are kept in the lower
 * halves of 64-bit lanes, where their products need no other place; that the upper halves are zero is said wherever it
 * is not plain, and costs nothing, as the multiplication does not look at them. */
static void philox(const hd_emitter *e, value block, value seed, value draw, value *first, value *second) {
    value key[2], c[4] = {lower_half(e, block), upper_half(e, block)};
    hd_emitter one = *e;
    one.lanes = 1;
    key[0] = lower_half(&one, seed);
    key[1] = upper_half(&one, seed);
    c[2] = hd_emit_splat(e, lower_half(&one, draw), e->lanes);
    c[3] = hd_emit_splat(e, upper_half(&one, draw), e->lanes);
    for (int round = 0; round < 10; ++round) {
        value p = BUILD(Mul, c[0], number(e, 0xD2511F53u)), q = BUILD(Mul, c[2], number(e, 0xCD9E8D57u));
        value k0 = hd_emit_splat(e, key[0], e->lanes), k1 = hd_emit_splat(e, key[1], e->lanes);
        c[0] = lower_half(e, BUILD(Xor, BUILD(Xor, upper_half(e, q), c[1]), k0));
        c[2] = lower_half(e, BUILD(Xor, BUILD(Xor, upper_half(e, p), c[3]), k1));
        c[1] = lower_half(e, q);
        c[3] = lower_half(e, p);
        key[0] = lower_half(&one, BUILD(Add, key[0], number(&one, 0x9E3779B9u)));
        key[1] = lower_half(&one, BUILD(Add, key[1], number(&one, 0xBB67AE85u)));
    }
    *first = BUILD(Or, c[0], BUILD(Shl, c[1], number(e, 32)));
    *second = BUILD(Or, c[2], BUILD(Shl, c[3], number(e, 32)));
}

/* a0 b0 a1 b1 ... of two vectors of so many lanes. */
static value interleave(const hd_emitter *e, value a, value b, int lanes) {
    value from[HD_EMIT_LANES];
    for (int i = 0; i < 2 * lanes; ++i)
        from[i] = hd_llvm.ConstInt(e->i32, (uint64_t)(i / 2 + (i % 2 == 1 ? lanes : 0)), false);
    return BUILD(ShuffleVector, a, b, hd_llvm.ConstVector(from, (unsigned)(2 * lanes)));
}

/* Two normal numbers of a pair of words, or of 64 bits each: Box and Muller. */
static void normal_pair(hd_emitter *e, int type, value u, value v, value *even, value *odd) {
    LLVMTypeRef real = hd_emit_type(e, e->types[type]), integer = hd_emit_type(e, e->i32);
    value minus_two = hd_emit_constant(e, type, -2), turn;
    if (type == HD_COMPUTE_F32) { /* 32 bits of u, so that the tails reach 6.6 deviations */
        u = BUILD(Trunc, u, integer);
        v = BUILD(Trunc, v, integer);
        value high = BUILD(SIToFP, BUILD(LShr, u, hd_emit_integer(e, e->i32, 16)), real),
              low = BUILD(SIToFP, BUILD(And, u, hd_emit_integer(e, e->i32, 0xffff)), real);
        low = BUILD(FMul, BUILD(FAdd, low, hd_emit_constant(e, type, 0.5)), hd_emit_constant(e, type, 0x1p-32));
        u = BUILD(FAdd, BUILD(FMul, high, hd_emit_constant(e, type, 0x1p-16)), low);
        v = BUILD(SIToFP, BUILD(LShr, v, hd_emit_integer(e, e->i32, 8)), real);
        turn = hd_emit_constant(e, type, (double)(float)(0x1p-24 * 6.283185307179586));
    } else {
        u = BUILD(SIToFP, BUILD(LShr, u, number(e, 11)), real);
        u = BUILD(FMul, BUILD(FAdd, u, hd_emit_constant(e, type, 0.5)), hd_emit_constant(e, type, 0x1p-53));
        v = BUILD(SIToFP, BUILD(LShr, v, number(e, 11)), real);
        turn = hd_emit_constant(e, type, 0x1p-53 * 6.283185307179586);
    }
    value o[3] = {u, NULL, NULL};
    o[0] = BUILD(FMul, minus_two, hd_emit_word(e, HD_WORD_LOG, type, o));
    value radius = hd_emit_word(e, HD_WORD_SQRT, type, o);
    o[0] = BUILD(FMul, v, turn);
    *even = BUILD(FMul, radius, hd_emit_word(e, HD_WORD_COS, type, o));
    *odd = BUILD(FMul, radius, hd_emit_word(e, HD_WORD_SIN, type, o));
}

/* As many neighbours as there are lanes, from the first element of block `block` on. */
static value neighbours(hd_emitter *e, const hd_step *s, value block, int lanes, const value *o) {
    const bool is_small = s->type == HD_COMPUTE_U32 || s->type == HD_COMPUTE_F32;
    const int blocks = is_small ? lanes / 4 : lanes / 2;
    value lane[HD_EMIT_LANES], first, second;
    for (int i = 0; i < blocks; ++i) lane[i] = hd_emit_i64(e, i);
    e->lanes = blocks;
    block = BUILD(Add, hd_emit_splat(e, block, blocks), hd_llvm.ConstVector(lane, (unsigned)blocks));
    philox(e, block, o[1], o[2], &first, &second);
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
    const int width = n->k->width, axis = hd_drawn_axis(s->index), shift = is_small ? 2 : 1, carried = e->carried_count;
    const unsigned bytes = is_small ? 4 : 8;
    LLVMTypeRef type = e->types[s->type];
    value place = BUILD(Add, o[0], BUILD(Add, n->index[axis], hd_nest_geometry(n, hd_geometry_base(n->k, axis))));
    value lead = BUILD(And, place, hd_emit_i64(e, (1 << shift) - 1)), block = BUILD(LShr, place, hd_emit_i64(e, shift)),
          area = hd_emit_stack(e, type, 2 * width, false);
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
static value anywhere(hd_emitter *e, const hd_step *s, value place, const value *o) {
    const bool is_small = s->type == HD_COMPUTE_U32 || s->type == HD_COMPUTE_F32;
    value first, second, one = number(e, 1), none = number(e, 0),
                         odd = BUILD(ICmp, LLVMIntNE, BUILD(And, place, one), none);
    philox(e, BUILD(LShr, place, number(e, is_small ? 2 : 1)), o[1], o[2], &first, &second);
    if (is_small) {
        value behind = BUILD(ICmp, LLVMIntNE, BUILD(And, place, number(e, 2)), none);
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
    if (vector && axis == n->k->lanes && !hd_nest_is_vector(n, s->operand[0]) &&
        n->k->width >> (s->type == HD_COMPUTE_U32 || s->type == HD_COMPUTE_F32 ? 2 : 1) >= 2)
        return along_axis(n, step, o);
    value place = hd_nest_operand(n, s->operand[0], vector);
    if (axis >= 0) place = BUILD(Add, place, hd_nest_position(n, axis, vector));
    return anywhere(e, s, place, o);
}
#endif
