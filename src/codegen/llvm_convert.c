/* Conversions in LLVM IR: between compute types as the eager device converts, and to and from the small floats as
 * core/small_float.h does. */
#include "codegen/code.h"

#if HD_HAS_LLVM
#include "codegen/llvm_emit.h"

#define BUILD(name, ...) hd_llvm.Build##name(e->builder, __VA_ARGS__, "")
typedef LLVMValueRef value;

static int bits_of(int type) { return type == HD_CONDITION ? 1 : 8 * hd_compute_bytes(type); }

/* ---- compute types ----------------------------------------------------------------------------------------------- */
static value is_not_zero(const hd_emitter *e, value v, int type) {
    value zero = hd_emit_constant(e, type, 0);
    return hd_compute_is_float(type) ? BUILD(FCmp, LLVMRealUNE, v, zero) : BUILD(ICmp, LLVMIntNE, v, zero);
}

/* Saturates. A range that the float can hold exactly is cut to before; else the upper end is told apart by comparing
 * with the power of two behind it (what converting gives there is not looked at). */
static value float_to_integer(const hd_emitter *e, value v, int from, int to) {
    static const double lowest[] = {0, 0, 0, 0, 0, -128, -32768, -2147483648.0, -0x1p63},
                        bound[] = {0, 0x1p8, 0x1p16, 0x1p32, 0x1p64, 0x1p7, 0x1p15, 0x1p31, 0x1p63};
    LLVMTypeRef type = hd_emit_type(e, e->types[to]);
    value zero = hd_emit_constant(e, from, 0), low = hd_emit_constant(e, from, lowest[to]);
    const bool narrow = bits_of(to) < 32 || (bits_of(to) == 32 && from == HD_COMPUTE_F64);
    if (narrow) {
        value high = hd_emit_constant(e, from, bound[to] - 1);
        v = BUILD(Select, BUILD(FCmp, LLVMRealORD, v, v), v, zero);
        v = BUILD(Select, BUILD(FCmp, LLVMRealOGT, v, low), v, low);
        v = BUILD(Select, BUILD(FCmp, LLVMRealOLT, v, high), v, high);
        if (bits_of(to) < 32) return BUILD(Trunc, BUILD(FPToSI, v, hd_emit_type(e, e->i32)), type);
        return hd_compute_is_signed(to) ? BUILD(FPToSI, v, type) : BUILD(FPToUI, v, type);
    }
    value above = BUILD(Select, BUILD(FCmp, LLVMRealOGT, v, low), v, low);
    value whole = hd_compute_is_signed(to) ? BUILD(FPToSI, above, type) : BUILD(FPToUI, above, type);
    const uint64_t top = UINT64_MAX >> (64 - bits_of(to)) >> (hd_compute_is_signed(to) ? 1 : 0);
    value below = BUILD(FCmp, LLVMRealOLT, above, hd_emit_constant(e, from, bound[to]));
    value r = BUILD(Select, below, whole, hd_emit_integer(e, e->types[to], top));
    return BUILD(Select, BUILD(FCmp, LLVMRealORD, v, v), r, hd_emit_integer(e, e->types[to], 0));
}

value hd_emit_cast(const hd_emitter *e, value v, int from, int to) {
    LLVMTypeRef type = hd_emit_type(e, e->types[to]);
    if (from == to) return v;
    if (to == HD_CONDITION) return is_not_zero(e, v, from);
    if (to == HD_COMPUTE_B8) return BUILD(ZExt, from == HD_CONDITION ? v : is_not_zero(e, v, from), type);
    if (hd_compute_is_float(from) && hd_compute_is_float(to))
        return to == HD_COMPUTE_F64 ? BUILD(FPExt, v, type) : BUILD(FPTrunc, v, type);
    if (hd_compute_is_float(from)) return float_to_integer(e, v, from, to);
    if (hd_compute_is_float(to)) return hd_compute_is_signed(from) ? BUILD(SIToFP, v, type) : BUILD(UIToFP, v, type);
    if (bits_of(to) == bits_of(from)) return v;
    if (bits_of(to) < bits_of(from)) return BUILD(Trunc, v, type);
    return hd_compute_is_signed(from) ? BUILD(SExt, v, type) : BUILD(ZExt, v, type);
}

/* ---- small floats ------------------------------------------------------------------------------------------------ */
static value k32(const hd_emitter *e, uint32_t v) { return hd_emit_integer(e, e->i32, v); }
static value to_float(const hd_emitter *e, value bits) {
    return BUILD(BitCast, bits, hd_emit_type(e, e->types[HD_COMPUTE_F32]));
}
static value to_bits(const hd_emitter *e, value f) { return BUILD(BitCast, f, hd_emit_type(e, e->i32)); }

/* `raw` in 32 bits: fraction and exponent shifted under an f32's and rebiased by a product; where `special` bits are
 * set the result is `odd`. */
static value rebias(const hd_emitter *e, value body, value sign, float scale, value is_odd, value odd) {
    value scaled = BUILD(FMul, to_float(e, body), hd_emit_constant(e, HD_COMPUTE_F32, (double)scale));
    return to_float(e, BUILD(Or, BUILD(Select, is_odd, odd, to_bits(e, scaled)), sign));
}

static value decode_f16(const hd_emitter *e, value v) { /* in the low half of 32 bits */
    value body = BUILD(Shl, BUILD(And, v, k32(e, 0x7fff)), k32(e, 13)),
          sign = BUILD(Shl, BUILD(And, v, k32(e, 0x8000)), k32(e, 16)),
          is_odd = BUILD(ICmp, LLVMIntEQ, BUILD(And, v, k32(e, 0x7c00)), k32(e, 0x7c00));
    return rebias(e, body, sign, 0x1p112f, is_odd, BUILD(Or, body, k32(e, 0x7f800000u)));
}

static value decode_f8e4m3(const hd_emitter *e, value v) {
    value magnitude = BUILD(And, v, k32(e, 0x7f)), sign = BUILD(Shl, BUILD(And, v, k32(e, 0x80)), k32(e, 24)),
          is_odd = BUILD(ICmp, LLVMIntEQ, magnitude, k32(e, 0x7f));
    return rebias(e, BUILD(Shl, magnitude, k32(e, 20)), sign, 0x1p120f, is_odd, k32(e, 0x7fc00000u));
}

/* hd_round_magnitude of small_float.h */
static value round_magnitude(const hd_emitter *e, value magnitude, int fraction, int emin) {
    const uint32_t spacing = (uint32_t)(emin + 23 - fraction + 127) << 23, drop = (uint32_t)(23 - fraction);
    value tiny = BUILD(FAdd, to_float(e, magnitude), to_float(e, k32(e, spacing)));
    value subnormal = BUILD(Sub, to_bits(e, tiny), k32(e, spacing));
    value rebiased = BUILD(Sub, magnitude, k32(e, (uint32_t)(emin - 1 + 127) << 23));
    value odd = BUILD(And, BUILD(LShr, rebiased, k32(e, drop)), k32(e, 1));
    value rounded = BUILD(Add, BUILD(Add, rebiased, k32(e, (1u << (drop - 1)) - 1)), odd);
    value is_small = BUILD(ICmp, LLVMIntULT, magnitude, k32(e, (uint32_t)(emin + 127) << 23));
    return BUILD(Select, is_small, subnormal, BUILD(LShr, rounded, k32(e, drop)));
}

/* Bits of the magnitude, too large ones as `infinity`, NaN as `nan`; with the sign `shift` below its place in f32. */
static value finish_encoding(const hd_emitter *e, value bits, value rounded, uint32_t too_large, uint32_t infinity,
                             uint32_t nan, uint32_t shift) {
    value magnitude = BUILD(And, bits, k32(e, 0x7fffffffu));
    value r = BUILD(Select, BUILD(ICmp, LLVMIntUGE, magnitude, k32(e, too_large)), k32(e, infinity), rounded);
    r = BUILD(Select, BUILD(ICmp, LLVMIntUGT, magnitude, k32(e, 0x7f800000u)), k32(e, nan), r);
    value sign = BUILD(And, BUILD(LShr, bits, k32(e, shift)), k32(e, 0x80000000u >> shift));
    return BUILD(Or, r, sign);
}

static value encode_bf16(const hd_emitter *e, value bits) {
    value high = BUILD(LShr, bits, k32(e, 16));
    value half = BUILD(Add, BUILD(And, high, k32(e, 1)), k32(e, 0x7fff));
    value rounded = BUILD(LShr, BUILD(Add, bits, half), k32(e, 16));
    value is_nan = BUILD(ICmp, LLVMIntUGT, BUILD(And, bits, k32(e, 0x7fffffffu)), k32(e, 0x7f800000u));
    return BUILD(Select, is_nan, BUILD(Or, high, k32(e, 0x40)), rounded);
}

LLVMTypeRef hd_emit_stored_type(const hd_emitter *e, hd_dtype dtype) {
    if (!hd_dtype_is_small_float(dtype)) return e->types[hd_dtype_compute[dtype]];
    return hd_dtype_bytes[dtype] == 2 ? e->i16 : e->i8;
}

value hd_emit_decode(const hd_emitter *e, value raw, hd_dtype dtype) {
    if (!hd_dtype_is_small_float(dtype)) return raw;
    if (dtype == HD_F16 && e->has_f16)
        return BUILD(FPExt, BUILD(BitCast, raw, hd_emit_type(e, e->f16)), hd_emit_type(e, e->types[HD_COMPUTE_F32]));
    value v = BUILD(ZExt, raw, hd_emit_type(e, e->i32));
    if (dtype == HD_BF16) return to_float(e, BUILD(Shl, v, k32(e, 16)));
    if (dtype == HD_F8E4M3) return decode_f8e4m3(e, v);
    return decode_f16(e, dtype == HD_F8E5M2 ? BUILD(Shl, v, k32(e, 8)) : v);
}

value hd_emit_encode(const hd_emitter *e, value v, hd_dtype dtype) {
    LLVMTypeRef stored = hd_emit_type(e, hd_emit_stored_type(e, dtype));
    if (!hd_dtype_is_small_float(dtype)) return v;
    if (dtype == HD_F16 && e->has_f16) return BUILD(BitCast, BUILD(FPTrunc, v, hd_emit_type(e, e->f16)), stored);
    value bits = to_bits(e, v), magnitude = BUILD(And, bits, k32(e, 0x7fffffffu)), r;
    if (dtype == HD_BF16) {
        r = encode_bf16(e, bits);
    } else if (dtype == HD_F16) {
        r = finish_encoding(e, bits, round_magnitude(e, magnitude, 10, -14), 0x47800000u, 0x7c00, 0x7e00, 16);
    } else if (dtype == HD_F8E5M2) {
        r = finish_encoding(e, bits, round_magnitude(e, magnitude, 2, -14), 0x47800000u, 0x7c, 0x7f, 24);
    } else {
        r = round_magnitude(e, magnitude, 3, -6);
        r = BUILD(Select, BUILD(ICmp, LLVMIntUGT, r, k32(e, 0x7e)), k32(e, 0x7f), r);
        r = finish_encoding(e, bits, r, 0x43f00000u, 0x7f, 0x7f, 24); /* 480 and above */
    }
    return BUILD(Trunc, r, stored);
}
#endif
