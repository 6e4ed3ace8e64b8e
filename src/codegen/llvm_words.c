/* The vocabulary read as LLVM IR: every word as words_c.h means it, on scalars and on vectors alike. */
#include "codegen/code.h"

#if HD_HAS_LLVM
#include "codegen/llvm_emit.h"
#include "core/memory.h"

#include <math.h>
#include <string.h>

#define BUILD(name, ...) hd_llvm.Build##name(e->builder, __VA_ARGS__, "")
typedef LLVMValueRef value;

static unsigned bits_of(int type) { return type == HD_CONDITION ? 1 : 8 * (unsigned)hd_compute_bytes(type); }

/* ---- values ------------------------------------------------------------------------------------------------------ */
LLVMTypeRef hd_emit_type(const hd_emitter *e, LLVMTypeRef type) {
    return e->lanes > 1 ? hd_llvm.VectorType(type, (unsigned)e->lanes) : type;
}

static value all_lanes(const hd_emitter *e, value constant) {
    if (e->lanes == 1) return constant;
    value lane[HD_EMIT_LANES];
    for (int i = 0; i < e->lanes; ++i) lane[i] = constant;
    return hd_llvm.ConstVector(lane, (unsigned)e->lanes);
}

value hd_emit_integer(const hd_emitter *e, LLVMTypeRef type, uint64_t v) {
    return all_lanes(e, hd_llvm.ConstInt(type, v, false));
}

value hd_emit_constant(const hd_emitter *e, int type, double v) {
    if (hd_compute_is_float(type)) return all_lanes(e, hd_llvm.ConstReal(e->types[type], v));
    if (type == HD_COMPUTE_B8 || type == HD_CONDITION) return hd_emit_integer(e, e->types[type], v != 0);
    const uint64_t whole = v != v ? 0 : v >= 0x1p63 ? (v < 0x1p64 ? (uint64_t)v : UINT64_MAX) : (uint64_t)(int64_t)v;
    return hd_emit_integer(e, e->types[type], bits_of(type) == 64 ? whole : whole & ((1ull << bits_of(type)) - 1));
}

value hd_emit_splat(const hd_emitter *e, value scalar, int lanes) {
    if (lanes == 1) return scalar;
    hd_emitter wide = *e;
    wide.lanes = lanes;
    if (hd_llvm.IsConstant(scalar)) return all_lanes(&wide, scalar);
    LLVMTypeRef type = hd_emit_type(&wide, hd_llvm.TypeOf(scalar));
    value one = BUILD(InsertElement, hd_llvm.GetPoison(type), scalar, hd_llvm.ConstInt(e->i32, 0, false));
    return BUILD(ShuffleVector, one, hd_llvm.GetPoison(type),
                 hd_llvm.ConstNull(hd_llvm.VectorType(e->i32, (unsigned)lanes)));
}

value hd_emit_intrinsic(const hd_emitter *e, const char *name, LLVMTypeRef *types, int type_count, value *arguments,
                        int count) {
    const unsigned id = hd_llvm.LookupIntrinsicID(name, strlen(name));
    return BUILD(Call2, hd_llvm.IntrinsicGetType(e->context, id, types, (size_t)type_count),
                 hd_llvm.GetIntrinsicDeclaration(e->module, id, types, (size_t)type_count), arguments, (unsigned)count);
}

/* A product and a sum may be rounded once; nothing else may change. */
static value contract(value v) {
    if (hd_llvm.CanValueUseFastMathFlags(v)) hd_llvm.SetFastMathFlags(v, LLVMFastMathAllowContract);
    return v;
}

static value on_floats(const hd_emitter *e, const char *name, int type, const value *o, int count) {
    value arguments[3];
    memcpy(arguments, o, (size_t)count * sizeof *arguments);
    LLVMTypeRef all = hd_emit_type(e, e->types[type]);
    return hd_emit_intrinsic(e, name, &all, 1, arguments, count);
}

static value compare_values(const hd_emitter *e, int type, LLVMIntPredicate for_signed, LLVMIntPredicate for_unsigned,
                            LLVMRealPredicate for_floats, value a, value b) {
    return hd_compute_is_float(type) ? BUILD(FCmp, for_floats, a, b)
                                     : BUILD(ICmp, hd_compute_is_signed(type) ? for_signed : for_unsigned, a, b);
}
static value larger(const hd_emitter *e, int type, value a, value b) {
    return compare_values(e, type, LLVMIntSGT, LLVMIntUGT, LLVMRealOGT, a, b);
}
static value smaller(const hd_emitter *e, int type, value a, value b) {
    return compare_values(e, type, LLVMIntSLT, LLVMIntULT, LLVMRealOLT, a, b);
}

/* ---- floats ------------------------------------------------------------------------------------------------------ */
/* One instruction on x86, and another two for a NaN in `a`; a constant is none. */
static value extreme(const hd_emitter *e, int type, bool maximum, value a, value b) {
    if (type == HD_COMPUTE_B8) return maximum ? BUILD(Or, a, b) : BUILD(And, a, b);
    value chosen = BUILD(Select, maximum ? larger(e, type, a, b) : smaller(e, type, a, b), a, b);
    if (!hd_compute_is_float(type)) return chosen;
    value is_nan = BUILD(FCmp, LLVMRealUNO, a, a);
    return hd_llvm.IsConstant(is_nan) && hd_llvm.IsNull(is_nan) ? chosen : BUILD(Select, is_nan, a, chosen);
}

static value cut_off(const hd_emitter *e, int type, const value *o) {
    value above = BUILD(Select, larger(e, type, o[0], o[1]), o[0], o[1]);
    return BUILD(Select, smaller(e, type, above, o[2]), above, o[2]);
}

/* How a float of `type` lies in an integer as wide as it. */
typedef struct float_bits {
    LLVMTypeRef integer;
    uint64_t fraction, bias, mask;
} float_bits;
static float_bits bits_of_float(const hd_emitter *e, int type) {
    return type == HD_COMPUTE_F32 ? (float_bits){e->i32, 23, 127, 0x007fffffu}
                                  : (float_bits){e->i64, 52, 1023, 0x000fffffffffffffu};
}
static value as_bits(const hd_emitter *e, int type, value v) {
    return BUILD(BitCast, v, hd_emit_type(e, bits_of_float(e, type).integer));
}
static value from_bits(const hd_emitter *e, int type, value v) {
    return BUILD(BitCast, v, hd_emit_type(e, e->types[type]));
}

/* Next to 1.5 * 2^23 floats are whole numbers (f64: 1.5 * 2^52), and the lower bits of such a sum are the number
 * itself. */
static double whole_at(int type) { return type == HD_COMPUTE_F32 ? 0x1.8p23 : 0x1.8p52; }

static value nearest(hd_emitter *e, int type, value a, value b) {
    value at = hd_emit_constant(e, type, whole_at(type)), operands[3] = {a, b, at};
    return BUILD(FSub, on_floats(e, "llvm.fmuladd", type, operands, 3), at);
}

static value exp2i(hd_emitter *e, int type, value a) {
    const float_bits f = bits_of_float(e, type);
    value at = BUILD(FAdd, a, hd_emit_constant(e, type, whole_at(type) + (double)f.bias));
    return from_bits(e, type, BUILD(Shl, as_bits(e, type, at), hd_emit_integer(e, f.integer, f.fraction)));
}

/* Part `i` of a vector that is `parts` registers wide. */
static value part_of(const hd_emitter *e, value v, int i, int parts) {
    value lane[HD_EMIT_LANES];
    const int count = e->lanes / parts;
    for (int j = 0; j < count; ++j) lane[j] = hd_llvm.ConstInt(e->i32, (uint64_t)(i * count + j), false);
    return BUILD(ShuffleVector, v, hd_llvm.GetPoison(hd_llvm.TypeOf(v)), hd_llvm.ConstVector(lane, (unsigned)count));
}
/* One vector of two of so many lanes. */
static value joined(const hd_emitter *e, value a, value b, int lanes) {
    value lane[HD_EMIT_LANES];
    for (int j = 0; j < 2 * lanes; ++j) lane[j] = hd_llvm.ConstInt(e->i32, (uint64_t)j, false);
    return BUILD(ShuffleVector, a, b, hd_llvm.ConstVector(lane, (unsigned)(2 * lanes)));
}

/* AVX-512 has an instruction for it; else by half of the exponent, rounded down, and half of it, rounded up. */
static value scale(hd_emitter *e, int type, value a, value n) {
    const float_bits f = bits_of_float(e, type);
    const int in_register = type == HD_COMPUTE_F32 ? 16 : 8, parts = e->lanes / in_register;
    if (e->has_scale && parts > 0 && e->lanes % in_register == 0) { /* kernels are as wide as a power of two */
        const char *name =
            type == HD_COMPUTE_F32 ? "llvm.x86.avx512.mask.scalef.ps.512" : "llvm.x86.avx512.mask.scalef.pd.512";
        value scaled[HD_EMIT_LANES], all = hd_llvm.ConstInt(type == HD_COMPUTE_F32 ? e->i16 : e->i8, UINT64_MAX, false);
        for (int i = 0; i < parts; ++i) {
            value x = part_of(e, a, i, parts);
            value arguments[5] = {x, part_of(e, n, i, parts), x, all,
                                  hd_llvm.ConstInt(e->i32, 4, false)}; /* 4: rounded as usual */
            scaled[i] = hd_emit_intrinsic(e, name, NULL, 0, arguments, 5);
        }
        for (int count = parts, lanes = in_register; count > 1; count /= 2, lanes *= 2)
            for (int i = 0; i < count / 2; ++i) scaled[i] = joined(e, scaled[2 * i], scaled[2 * i + 1], lanes);
        return scaled[0];
    }
    value one = hd_emit_integer(e, f.integer, 1), to = hd_emit_integer(e, f.integer, f.fraction);
    value at = as_bits(e, type, BUILD(FAdd, n, hd_emit_constant(e, type, whole_at(type) + 2 * (double)f.bias)));
    value down = BUILD(Shl, BUILD(LShr, at, one), to), up = BUILD(Shl, BUILD(LShr, BUILD(Add, at, one), one), to);
    return BUILD(FMul, BUILD(FMul, a, from_bits(e, type, down)), from_bits(e, type, up));
}

static value exponent(const hd_emitter *e, int type, value a) {
    const float_bits f = bits_of_float(e, type);
    value raw = BUILD(LShr, as_bits(e, type, a), hd_emit_integer(e, f.integer, f.fraction));
    raw = BUILD(And, raw, hd_emit_integer(e, f.integer, 2 * f.bias + 1));
    if (type == HD_COMPUTE_F32)
        return BUILD(SIToFP, BUILD(Sub, raw, hd_emit_integer(e, f.integer, f.bias)), hd_emit_type(e, e->types[type]));
    /* 64-bit integers do not convert in one step before AVX-512: under the exponent of 2^52 they need not */
    value under = from_bits(e, type, BUILD(Or, raw, hd_emit_integer(e, f.integer, 0x4330000000000000u)));
    return BUILD(FSub, under, hd_emit_constant(e, type, 4503599627370496.0 + 1023.0));
}

static value mantissa(const hd_emitter *e, int type, value a) {
    const float_bits f = bits_of_float(e, type);
    value fraction = BUILD(And, as_bits(e, type, a), hd_emit_integer(e, f.integer, f.mask));
    return from_bits(e, type, BUILD(Or, fraction, hd_emit_integer(e, f.integer, f.bias << f.fraction)));
}

/* ---- lane by lane: what no vector instruction does --------------------------------------------------------------- */
static value scalar_fmod(hd_emitter *e, int type, value a, value b) {
    value parameters[2] = {a, b};
    LLVMTypeRef t = e->types[type], both[2] = {t, t}, signature = hd_llvm.FunctionType(t, both, 2, false);
    const char *name = type == HD_COMPUTE_F32 ? "fmodf" : "fmod";
    value function = hd_llvm.GetNamedFunction(e->module, name);
    if (function == NULL) function = hd_llvm.AddFunction(e->module, name, signature);
    return BUILD(Call2, signature, function, parameters, 2);
}
static value scalar_divide(hd_emitter *e, int type, value a, value b) {
    return hd_compute_is_signed(type) ? BUILD(SDiv, a, b) : BUILD(UDiv, a, b);
}

/* A loop over the lanes through memory, instead of a copy of the code for each. */
static value lane_by_lane(hd_emitter *e, int type, value a, value b, value (*say)(hd_emitter *, int, value, value)) {
    if (e->lanes == 1) return say(e, type, a, b);
    const unsigned bytes = bits_of(type) / 8;
    const int lanes = e->lanes;
    LLVMTypeRef t = e->types[type], all = hd_emit_type(e, t);
    value left = hd_emit_stack(e, t, lanes, false), right = hd_emit_stack(e, t, lanes, false);
    hd_emit_store(e, a, left, bytes);
    hd_emit_store(e, b, right, bytes);
    const int carried = e->carried_count; /* stays as it is */
    e->carried_count = 0;
    hd_emitted_loop loop = hd_emit_loop(e, hd_emit_i64(e, 0), hd_emit_i64(e, lanes));
    e->lanes = 1;
    value p = hd_emit_element(e, t, left, loop.index), q = hd_emit_element(e, t, right, loop.index);
    hd_emit_store(e, say(e, type, hd_emit_load(e, t, p, bytes), hd_emit_load(e, t, q, bytes)), p, bytes);
    hd_emit_loop_end(e, &loop, 1);
    e->carried_count = carried;
    e->lanes = lanes;
    return hd_emit_load(e, all, left, bytes);
}

/* ---- integers ---------------------------------------------------------------------------------------------------- */
/* a / b for b that is neither 0 nor -1. Up to 32 bits by way of floats: their quotient, cut off, is exact, as it has
 * more digits than both operands together need. */
static value plain_quotient(hd_emitter *e, int type, value a, value b) {
    if (bits_of(type) == 64 || e->lanes == 1) return lane_by_lane(e, type, a, b, scalar_divide);
    LLVMTypeRef real = hd_emit_type(e, e->types[bits_of(type) == 32 ? HD_COMPUTE_F64 : HD_COMPUTE_F32]),
                integer = hd_emit_type(e, e->types[type]), wide = hd_emit_type(e, e->i32);
    value x = hd_compute_is_signed(type) ? BUILD(SIToFP, a, real) : BUILD(UIToFP, a, real),
          y = hd_compute_is_signed(type) ? BUILD(SIToFP, b, real) : BUILD(UIToFP, b, real), q = BUILD(FDiv, x, y);
    if (bits_of(type) == 32) return hd_compute_is_signed(type) ? BUILD(FPToSI, q, integer) : BUILD(FPToUI, q, integer);
    return BUILD(Trunc, BUILD(FPToSI, q, wide), integer);
}

static value quotient(hd_emitter *e, int type, value a, value b) {
    LLVMTypeRef t = e->types[type];
    value zero = hd_emit_integer(e, t, 0), one = hd_emit_integer(e, t, 1), none = BUILD(ICmp, LLVMIntEQ, b, zero);
    value wraps = hd_compute_is_signed(type) ? BUILD(ICmp, LLVMIntEQ, b, hd_emit_constant(e, type, -1)) : NULL;
    value odd = wraps != NULL ? BUILD(Or, none, wraps) : none;
    value q = plain_quotient(e, type, a, BUILD(Select, odd, one, b));
    if (wraps != NULL) q = BUILD(Select, wraps, BUILD(Sub, zero, a), q);
    return BUILD(Select, none, zero, q);
}

static value remainder_of(hd_emitter *e, int type, value a, value b) {
    value zero = hd_emit_integer(e, e->types[type], 0);
    value r = BUILD(Sub, a, BUILD(Mul, b, quotient(e, type, a, b)));
    return BUILD(Select, BUILD(ICmp, LLVMIntEQ, b, zero), zero, r);
}

/* By squaring, until no lane has anything left. */
static value power(hd_emitter *e, int type, value a, value b) {
    LLVMTypeRef t = e->types[type], all = hd_emit_type(e, t);
    value zero = hd_emit_integer(e, t, 0), one = hd_emit_integer(e, t, 1);
    value negative = hd_compute_is_signed(type) ? BUILD(ICmp, LLVMIntSLT, b, zero) : NULL;
    value exponent_left = negative != NULL ? BUILD(Select, negative, zero, b) : b;
    LLVMBasicBlockRef before = hd_emit_here(e), head = hd_emit_block(e, "power"), body = hd_emit_block(e, "square"),
                      after = hd_emit_block(e, "powered");
    hd_llvm.BuildBr(e->builder, head);
    hd_emit_at(e, head);
    value result = BUILD(Phi, all), square = BUILD(Phi, all), left = BUILD(Phi, all);
    value some = BUILD(ICmp, LLVMIntNE, left, zero);
    if (e->lanes > 1) {
        LLVMTypeRef lanes = hd_llvm.IntTypeInContext(e->context, (unsigned)e->lanes);
        some = BUILD(ICmp, LLVMIntNE, BUILD(BitCast, some, lanes), hd_llvm.ConstInt(lanes, 0, false));
    }
    hd_llvm.BuildCondBr(e->builder, some, body, after);
    hd_emit_at(e, body);
    value odd = BUILD(ICmp, LLVMIntNE, BUILD(And, left, one), zero);
    value next[3] = {BUILD(Mul, result, BUILD(Select, odd, square, one)), BUILD(Mul, square, square),
                     BUILD(LShr, left, one)},
          start[3] = {one, a, exponent_left}, phi[3] = {result, square, left};
    hd_llvm.BuildBr(e->builder, head);
    for (int i = 0; i < 3; ++i) {
        hd_llvm.AddIncoming(phi[i], &start[i], &before, 1);
        hd_llvm.AddIncoming(phi[i], &next[i], &body, 1);
    }
    hd_emit_at(e, after);
    return negative != NULL ? BUILD(Select, negative, zero, result) : result;
}

static value shift(const hd_emitter *e, int type, bool to_left, value a, value b) {
    LLVMTypeRef t = e->types[type];
    if (type == HD_COMPUTE_B8) return BUILD(And, a, BUILD(Xor, b, hd_emit_integer(e, t, 1)));
    value within = BUILD(ICmp, LLVMIntULT, b, hd_emit_integer(e, t, bits_of(type))), zero = hd_emit_integer(e, t, 0);
    if (!to_left && hd_compute_is_signed(type))
        return BUILD(AShr, a, BUILD(Select, within, b, hd_emit_integer(e, t, bits_of(type) - 1)));
    value by = BUILD(Select, within, b, zero);
    return BUILD(Select, within, to_left ? BUILD(Shl, a, by) : BUILD(LShr, a, by), zero);
}

static value integer_word(hd_emitter *e, int word, int type, const value *o) {
    value no = hd_llvm.ConstInt(hd_llvm.Int1TypeInContext(e->context), 0, false), arguments[2] = {o[0], no};
    LLVMTypeRef t = e->types[type], all = hd_emit_type(e, t);
    switch (word) {
    case HD_WORD_ADD: return BUILD(Add, o[0], o[1]);
    case HD_WORD_SUB: return BUILD(Sub, o[0], o[1]);
    case HD_WORD_MUL: return BUILD(Mul, o[0], o[1]);
    case HD_WORD_NEG: return BUILD(Sub, hd_emit_integer(e, t, 0), o[0]);
    case HD_WORD_ABS:
        return hd_compute_is_signed(type) ? hd_emit_intrinsic(e, "llvm.abs", &all, 1, arguments, 2) : o[0];
    case HD_WORD_IDIV: return quotient(e, type, o[0], o[1]);
    case HD_WORD_IREM: return remainder_of(e, type, o[0], o[1]);
    case HD_WORD_IPOW: return power(e, type, o[0], o[1]);
    case HD_WORD_AND: return BUILD(And, o[0], o[1]);
    case HD_WORD_OR: return BUILD(Or, o[0], o[1]);
    case HD_WORD_XOR: return BUILD(Xor, o[0], o[1]);
    case HD_WORD_NOT: return BUILD(Xor, o[0], hd_emit_constant(e, type, type == HD_COMPUTE_B8 ? 1 : -1));
    case HD_WORD_SHL: return shift(e, type, true, o[0], o[1]);
    case HD_WORD_SHR: return shift(e, type, false, o[0], o[1]);
    case HD_WORD_POPCOUNT: return hd_emit_intrinsic(e, "llvm.ctpop", &all, 1, arguments, 1);
    case HD_WORD_RINT:
    case HD_WORD_FLOOR:
    case HD_WORD_CEIL:
    case HD_WORD_TRUNC: return o[0];
    default: break;
    }
    if (e->status == HD_OK)
        e->status = hd_fail(HD_ERROR_INTERNAL, "%s says nothing of %s", hd_words[word].name, hd_ir_type_name(type));
    return o[0];
}

static value float_word(hd_emitter *e, int word, int type, const value *o) {
    switch (word) {
    case HD_WORD_ADD: return contract(BUILD(FAdd, o[0], o[1]));
    case HD_WORD_SUB: return contract(BUILD(FSub, o[0], o[1]));
    case HD_WORD_MUL: return contract(BUILD(FMul, o[0], o[1]));
    case HD_WORD_DIV: return BUILD(FDiv, o[0], o[1]);
    case HD_WORD_NEG: return contract(BUILD(FNeg, o[0]));
    case HD_WORD_MULADD: return contract(on_floats(e, "llvm.fmuladd", type, o, 3));
    case HD_WORD_FMA: return on_floats(e, "llvm.fma", type, o, 3);
    case HD_WORD_ABS: return on_floats(e, "llvm.fabs", type, o, 1);
    case HD_WORD_RINT: return on_floats(e, "llvm.rint", type, o, 1);
    case HD_WORD_FLOOR: return on_floats(e, "llvm.floor", type, o, 1);
    case HD_WORD_CEIL: return on_floats(e, "llvm.ceil", type, o, 1);
    case HD_WORD_TRUNC: return on_floats(e, "llvm.trunc", type, o, 1);
    case HD_WORD_SQRT: return on_floats(e, "llvm.sqrt", type, o, 1);
    case HD_WORD_COPYSIGN: return on_floats(e, "llvm.copysign", type, o, 2);
    case HD_WORD_CUT: return cut_off(e, type, o);
    case HD_WORD_FMOD: return lane_by_lane(e, type, o[0], o[1], scalar_fmod);
    case HD_WORD_NEAREST: return nearest(e, type, o[0], o[1]);
    case HD_WORD_EXP2I: return exp2i(e, type, o[0]);
    case HD_WORD_SCALE: return scale(e, type, o[0], o[1]);
    case HD_WORD_EXPONENT: return exponent(e, type, o[0]);
    case HD_WORD_MANTISSA: return mantissa(e, type, o[0]);
    default: break;
    }
    if (e->status == HD_OK)
        e->status = hd_fail(HD_ERROR_INTERNAL, "%s says nothing of %s", hd_words[word].name, hd_ir_type_name(type));
    return o[0];
}

/* ---- functions: their programs, written out ---------------------------------------------------------------------- */
static const hd_ir *program_of(hd_emitter *e, int word, int type) {
    hd_ir **kept = &e->programs[word][type == HD_COMPUTE_F64];
    if (*kept != NULL || e->status != HD_OK) return *kept;
    hd_ir *ir = hd_array_resize(NULL, sizeof *ir);
    if (ir == NULL) {
        e->status = hd_fail(HD_ERROR_MEMORY, "no memory to write %s out", hd_words[word].name);
        return NULL;
    }
    hd_ir_init(ir, (hd_compute)type);
    const int a = hd_ir_input(ir, 0, false), b = hd_words[word].arity == 2 ? hd_ir_input(ir, 1, false) : -1;
    ir->result = hd_ir_program(ir, (hd_word)word, a, b);
    e->status = ir->result < 0 ? HD_ERROR_MEMORY : hd_ir_expand(ir);
    *kept = ir;
    return e->status == HD_OK ? ir : NULL;
}

void hd_emit_release_programs(hd_emitter *e) {
    for (int word = 0; word < HD_WORD_COUNT; ++word)
        for (int i = 0; i < 2; ++i)
            if (e->programs[word][i] != NULL) {
                hd_ir_release(e->programs[word][i]);
                hd_array_release(e->programs[word][i]);
            }
}

static value function_word(hd_emitter *e, int word, int type, const value *o) {
    const hd_ir *ir = program_of(e, word, type);
    value *values = ir == NULL ? NULL : hd_array_resize(NULL, (size_t)ir->count * sizeof *values);
    if (values == NULL) {
        if (e->status == HD_OK) e->status = hd_fail(HD_ERROR_MEMORY, "no memory to write %s out", hd_words[word].name);
        return o[0];
    }
    for (int i = 0; i <= ir->result; ++i) {
        const hd_ir_node *n = &ir->nodes[i];
        value operand[3] = {NULL, NULL, NULL};
        for (int j = 0; j < 3 && n->operand[j] >= 0; ++j) operand[j] = values[n->operand[j]];
        values[i] = n->word == HD_WORD_INPUT      ? o[n->index]
                    : n->word == HD_WORD_CONSTANT ? hd_emit_constant(e, n->type, n->value)
                                                  : hd_emit_word(e, n->word, type, operand);
    }
    value result = values[ir->result];
    hd_array_release(values);
    return result;
}

/* Nothing is above infinity: where f64 needs more ranges than f32, the programs say so. */
static value less(const hd_emitter *e, int type, value a, value b) {
    if (hd_compute_is_float(type) && a == hd_emit_constant(e, type, INFINITY))
        return hd_emit_constant(e, HD_CONDITION, 0);
    return smaller(e, type, a, b);
}

static value choose_value(const hd_emitter *e, value condition, value a, value b) {
    return hd_llvm.IsConstant(condition) && hd_llvm.IsNull(condition) ? b : BUILD(Select, condition, a, b);
}

value hd_emit_word(hd_emitter *e, int word, int type, const value *o) {
    switch (word) {
    case HD_WORD_LT: return less(e, type, o[0], o[1]);
    case HD_WORD_LE: return compare_values(e, type, LLVMIntSLE, LLVMIntULE, LLVMRealOLE, o[0], o[1]);
    case HD_WORD_EQ: return compare_values(e, type, LLVMIntEQ, LLVMIntEQ, LLVMRealOEQ, o[0], o[1]);
    case HD_WORD_BOTH: return BUILD(And, o[0], o[1]);
    case HD_WORD_EITHER: return BUILD(Or, o[0], o[1]);
    case HD_WORD_UNLESS: return BUILD(Not, o[0]);
    case HD_WORD_SELECT: return choose_value(e, o[0], o[1], o[2]);
    case HD_WORD_MAX: return extreme(e, type, true, o[0], o[1]);
    case HD_WORD_MIN: return extreme(e, type, false, o[0], o[1]);
    default: break;
    }
    if (hd_words[word].is_function) return function_word(e, word, type, o);
    return hd_compute_is_float(type) ? float_word(e, word, type, o) : integer_word(e, word, type, o);
}
#endif
