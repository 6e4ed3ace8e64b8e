/* The vocabulary read as StableHLO: every word as words_c.h means it. Functions are their programs of math.def, each a
 * function of the module, written once for a type and a shape. What a plugin has of its own is as exact as its makers
 * chose: on the CPU expm1 is 5.5 units off, tanh 4.5, sigmoid 2.5, and of the others only log is quicker, by a
 * third. */
#include "core/memory.h"
#include "ops/op.h"
#include "ops/row_ir.h"
#include "xla/build.h"

#include <math.h>
#include <string.h>

/* ---- constants of sentences -------------------------------------------------------------------------------------- */
static hd_ssa constant(hd_hlo *e, int type, const hd_shape *shape, double v) {
    if (hd_compute_is_float(type) || (hd_dtype)hd_compute_dtype[type] == HD_BOOL)
        return hd_hlo_number(e, (hd_dtype)hd_compute_dtype[type], shape, v);
    const int64_t whole = v != v ? 0 : v >= 0x1p63 ? (v < 0x1p64 ? (int64_t)(uint64_t)v : -1) : (int64_t)v;
    return hd_hlo_integer(e, (hd_dtype)hd_compute_dtype[type], shape, whole);
}

/* ---- floats as bits ---------------------------------------------------------------------------------------------- */
typedef struct float_bits {
    hd_dtype integer;
    int64_t fraction, bias;
    uint64_t mask, sign;
} float_bits;
static float_bits bits_of(int type) {
    return type == HD_COMPUTE_F32 ? (float_bits){HD_U32, 23, 127, 0x007fffffu, 0x80000000u}
                                  : (float_bits){HD_U64, 52, 1023, 0x000fffffffffffffu, 0x8000000000000000u};
}

static hd_ssa masked(hd_hlo *e, hd_ssa bits, uint64_t mask) {
    return hd_hlo_both(e, bits, hd_hlo_bits(e, bits.dtype, &bits.shape, mask));
}

/* The sign is asked for, and not cut out: of a bf16 made f32 the CPU plugin's vector code would take other bits. */
static hd_ssa copysign_of(hd_hlo *e, int type, hd_ssa a, hd_ssa b) {
    const hd_dtype whole = type == HD_COMPUTE_F32 ? HD_I32 : HD_I64;
    const hd_ssa below = hd_hlo_compare(e, "LT", hd_hlo_bitcast(e, b, whole), hd_hlo_integer(e, whole, &b.shape, 0)),
                 size = hd_hlo_unary(e, "abs", a);
    return hd_hlo_select(e, below, hd_hlo_unary(e, "negate", size), size);
}

static hd_ssa exp2i(hd_hlo *e, int type, hd_ssa a) {
    const float_bits f = bits_of(type);
    const hd_dtype whole = type == HD_COMPUTE_F32 ? HD_I32 : HD_I64;
    hd_ssa n = hd_hlo_convert(e, a, whole);
    n = hd_hlo_add(e, n, hd_hlo_integer(e, whole, &a.shape, f.bias));
    n = hd_hlo_binary(e, "shift_left", n, hd_hlo_integer(e, whole, &a.shape, f.fraction));
    return hd_hlo_bitcast(e, n, a.dtype);
}

static hd_ssa scale(hd_hlo *e, int type, hd_ssa a, hd_ssa n) {
    const hd_ssa half = hd_hlo_unary(e, "floor", hd_hlo_multiply(e, n, hd_hlo_number(e, a.dtype, &a.shape, 0.5)));
    a = hd_hlo_multiply(e, a, exp2i(e, type, half));
    return hd_hlo_multiply(e, a, exp2i(e, type, hd_hlo_subtract(e, n, half)));
}

static hd_ssa exponent(hd_hlo *e, int type, hd_ssa a) {
    const float_bits f = bits_of(type);
    const hd_dtype whole = type == HD_COMPUTE_F32 ? HD_I32 : HD_I64;
    hd_ssa n = hd_hlo_bitcast(e, a, whole); /* a > 0: no sign to mask */
    n = hd_hlo_binary(e, "shift_right_logical", n, hd_hlo_integer(e, whole, &a.shape, f.fraction));
    return hd_hlo_convert(e, hd_hlo_subtract(e, n, hd_hlo_integer(e, whole, &a.shape, f.bias)), a.dtype);
}

static hd_ssa mantissa(hd_hlo *e, int type, hd_ssa a) {
    const float_bits f = bits_of(type);
    const hd_ssa one = hd_hlo_bits(e, f.integer, &a.shape, (uint64_t)f.bias << f.fraction);
    return hd_hlo_bitcast(e, hd_hlo_either(e, masked(e, hd_hlo_bitcast(e, a, f.integer), f.mask), one), a.dtype);
}

static hd_ssa truncated(hd_hlo *e, int type, hd_ssa a) {
    const hd_ssa below = hd_hlo_compare(e, "LT", a, constant(e, type, &a.shape, 0));
    return hd_hlo_select(e, below, hd_hlo_unary(e, "ceil", a), hd_hlo_unary(e, "floor", a));
}

static hd_ssa cut_off(hd_hlo *e, const hd_ssa *o) {
    const hd_ssa above = hd_hlo_select(e, hd_hlo_compare(e, "GT", o[0], o[1]), o[0], o[1]);
    return hd_hlo_select(e, hd_hlo_compare(e, "LT", above, o[2]), above, o[2]);
}

/* ---- a * b + c, rounded once ------------------------------------------------------------------------------------- */
/* The product of two f32 is an f64, exactly. */
static hd_ssa fma_f32(hd_hlo *e, const hd_ssa *o) {
    const hd_ssa a = hd_hlo_convert(e, o[0], HD_F64), b = hd_hlo_convert(e, o[1], HD_F64);
    const hd_ssa sum = hd_hlo_add(e, hd_hlo_multiply(e, a, b), hd_hlo_convert(e, o[2], HD_F64));
    return hd_hlo_convert(e, sum, HD_F32);
}

/* The product in two parts, by factors of half as many digits, and the sum in two; at the end all that was left over.
 * Halves come from masks: a target that fuses products and sums would take the usual way apart. */
static hd_ssa fma_f64(hd_hlo *e, const hd_ssa *o) {
    const uint64_t upper = ~(uint64_t)0x7ffffff;
    hd_ssa high[2], low[2];
    for (int i = 0; i < 2; ++i) {
        high[i] = hd_hlo_bitcast(e, masked(e, hd_hlo_bitcast(e, o[i], HD_U64), upper), HD_F64);
        low[i] = hd_hlo_subtract(e, o[i], high[i]);
    }
    const hd_ssa p = hd_hlo_multiply(e, o[0], o[1]);
    hd_ssa rest = hd_hlo_subtract(e, hd_hlo_multiply(e, high[0], high[1]), p);
    rest = hd_hlo_add(e, rest, hd_hlo_multiply(e, high[0], low[1]));
    rest = hd_hlo_add(e, rest, hd_hlo_multiply(e, low[0], high[1]));
    rest = hd_hlo_add(e, rest, hd_hlo_multiply(e, low[0], low[1]));
    const hd_ssa sum = hd_hlo_add(e, p, o[2]), part = hd_hlo_subtract(e, sum, p);
    const hd_ssa left =
        hd_hlo_add(e, hd_hlo_subtract(e, p, hd_hlo_subtract(e, sum, part)), hd_hlo_subtract(e, o[2], part));
    const hd_ssa lost = hd_hlo_add(e, left, rest), exact = hd_hlo_add(e, sum, lost);
    const hd_ssa limit = constant(e, HD_COMPUTE_F64, &p.shape, INFINITY),
                 zero = constant(e, HD_COMPUTE_F64, &p.shape, 0);
    const hd_ssa finite = hd_hlo_compare(e, "LT", hd_hlo_unary(e, "abs", exact), limit),
                 some = hd_hlo_compare(e, "NE", lost, zero); /* NaN, infinity and -0 as they come */
    return hd_hlo_select(e, hd_hlo_both(e, finite, some), exact, sum);
}

/* ---- integers ---------------------------------------------------------------------------------------------------- */
static hd_ssa quotient(hd_hlo *e, int type, hd_ssa a, hd_ssa b) {
    const hd_ssa zero = constant(e, type, &a.shape, 0), one = constant(e, type, &a.shape, 1);
    const hd_ssa none = hd_hlo_compare(e, "EQ", b, zero);
    hd_ssa odd = none, wraps = none;
    if (hd_compute_is_signed(type)) {
        wraps = hd_hlo_compare(e, "EQ", b, constant(e, type, &a.shape, -1));
        odd = hd_hlo_either(e, none, wraps);
    }
    hd_ssa q = hd_hlo_divide(e, a, hd_hlo_select(e, odd, one, b));
    if (hd_compute_is_signed(type)) q = hd_hlo_select(e, wraps, hd_hlo_subtract(e, zero, a), q);
    return hd_hlo_select(e, none, zero, q);
}

static hd_ssa remainder_of(hd_hlo *e, int type, hd_ssa a, hd_ssa b) {
    const hd_ssa zero = constant(e, type, &a.shape, 0);
    const hd_ssa r = hd_hlo_subtract(e, a, hd_hlo_multiply(e, b, quotient(e, type, a, b)));
    return hd_hlo_select(e, hd_hlo_compare(e, "EQ", b, zero), zero, r);
}

/* By squaring: as many steps as an exponent has bits, after which nothing is left. */
static hd_ssa power(hd_hlo *e, int type, hd_ssa a, hd_ssa b) {
    const hd_ssa zero = constant(e, type, &a.shape, 0), one = constant(e, type, &a.shape, 1);
    const int bits = 8 * hd_dtype_bytes[(hd_dtype)hd_compute_dtype[type]] - (hd_compute_is_signed(type) ? 1 : 0);
    hd_ssa result = one, square = a, left = b;
    for (int i = 0; i < bits; ++i) {
        const hd_ssa odd = hd_hlo_compare(e, "NE", hd_hlo_both(e, left, one), zero);
        result = hd_hlo_multiply(e, result, hd_hlo_select(e, odd, square, one));
        if (i + 1 == bits) break;
        square = hd_hlo_multiply(e, square, square);
        left = hd_hlo_binary(e, "shift_right_logical", left, one);
    }
    return hd_compute_is_signed(type) ? hd_hlo_select(e, hd_hlo_compare(e, "LT", b, zero), zero, result) : result;
}

static hd_ssa shift(hd_hlo *e, int type, bool to_left, hd_ssa a, hd_ssa b) {
    if (type == HD_COMPUTE_B8) return hd_hlo_both(e, a, hd_hlo_not(e, b));
    const int bits = 8 * hd_dtype_bytes[(hd_dtype)hd_compute_dtype[type]];
    const hd_ssa zero = constant(e, type, &a.shape, 0), width = constant(e, type, &a.shape, bits),
                 most = constant(e, type, &a.shape, bits - 1);
    hd_ssa within = hd_hlo_compare(e, "LT", b, width);
    if (hd_compute_is_signed(type)) within = hd_hlo_both(e, within, hd_hlo_compare(e, "GE", b, zero));
    const hd_ssa by = hd_hlo_select(e, within, b, most);
    if (!to_left && hd_compute_is_signed(type)) return hd_hlo_binary(e, "shift_right_arithmetic", a, by);
    return hd_hlo_select(e, within, hd_hlo_binary(e, to_left ? "shift_left" : "shift_right_logical", a, by), zero);
}

static hd_ssa unsaid(hd_hlo *e, hd_word word, int type, hd_ssa a) {
    hd_hlo_fail(e, hd_fail(HD_ERROR_INTERNAL, "%s says nothing of %s", hd_words[word].name, hd_ir_type_name(type)));
    return a;
}

static hd_ssa integer_word(hd_hlo *e, hd_word word, int type, const hd_ssa *o) {
    switch ((int)word) {
    case HD_WORD_ABS: return hd_compute_is_signed(type) ? hd_hlo_unary(e, "abs", o[0]) : o[0];
    case HD_WORD_NEG: return hd_hlo_subtract(e, constant(e, type, &o[0].shape, 0), o[0]);
    case HD_WORD_IDIV: return quotient(e, type, o[0], o[1]);
    case HD_WORD_IREM: return remainder_of(e, type, o[0], o[1]);
    case HD_WORD_IPOW: return power(e, type, o[0], o[1]);
    case HD_WORD_AND: return hd_hlo_both(e, o[0], o[1]);
    case HD_WORD_OR: return hd_hlo_either(e, o[0], o[1]);
    case HD_WORD_XOR: return hd_hlo_binary(e, "xor", o[0], o[1]);
    case HD_WORD_NOT: return hd_hlo_not(e, o[0]);
    case HD_WORD_SHL: return shift(e, type, true, o[0], o[1]);
    case HD_WORD_SHR: return shift(e, type, false, o[0], o[1]);
    case HD_WORD_POPCOUNT: return type == HD_COMPUTE_B8 ? o[0] : hd_hlo_unary(e, "popcnt", o[0]);
    case HD_WORD_RINT:
    case HD_WORD_FLOOR:
    case HD_WORD_CEIL:
    case HD_WORD_TRUNC: return o[0];
    default: return unsaid(e, word, type, o[0]);
    }
}

static hd_ssa float_word(hd_hlo *e, hd_word word, int type, const hd_ssa *o) {
    switch ((int)word) {
    case HD_WORD_ABS: return hd_hlo_unary(e, "abs", o[0]);
    case HD_WORD_NEG: return hd_hlo_unary(e, "negate", o[0]);
    case HD_WORD_DIV: return hd_hlo_divide(e, o[0], o[1]);
    case HD_WORD_FMOD: return hd_hlo_binary(e, "remainder", o[0], o[1]);
    case HD_WORD_MULADD: return hd_hlo_add(e, hd_hlo_multiply(e, o[0], o[1]), o[2]);
    case HD_WORD_CUT: return cut_off(e, o);
    case HD_WORD_RINT: return hd_hlo_unary(e, "round_nearest_even", o[0]);
    case HD_WORD_FLOOR: return hd_hlo_unary(e, "floor", o[0]);
    case HD_WORD_CEIL: return hd_hlo_unary(e, "ceil", o[0]);
    case HD_WORD_TRUNC: return truncated(e, type, o[0]);
    case HD_WORD_SQRT: return hd_hlo_unary(e, "sqrt", o[0]);
    case HD_WORD_COPYSIGN: return copysign_of(e, type, o[0], o[1]);
    case HD_WORD_NEAREST: return hd_hlo_unary(e, "round_nearest_even", hd_hlo_multiply(e, o[0], o[1]));
    case HD_WORD_EXP2I: return exp2i(e, type, o[0]);
    case HD_WORD_SCALE: return scale(e, type, o[0], o[1]);
    case HD_WORD_EXPONENT: return exponent(e, type, o[0]);
    case HD_WORD_MANTISSA: return mantissa(e, type, o[0]);
    default: return unsaid(e, word, type, o[0]);
    }
}

/* ---- sentences --------------------------------------------------------------------------------------------------- */
hd_ssa hd_hlo_sentence(hd_hlo *e, const hd_ir *ir, int result, const hd_ssa *inputs, const hd_ssa *numbers,
                       const hd_shape *shape) {
    hd_ssa *values = hd_array_resize(NULL, ((size_t)ir->count + 1) * sizeof *values);
    if (values == NULL) {
        hd_hlo_fail(e, hd_fail(HD_ERROR_MEMORY, "no memory to write %d words", ir->count));
        return inputs[0];
    }
    for (int i = 0; i <= result && e->status == HD_OK; ++i) {
        const hd_ir_node *n = &ir->nodes[i];
        hd_ssa operand[3] = {{0}};
        for (int k = 0; k < 3 && n->operand[k] >= 0; ++k) operand[k] = values[n->operand[k]];
        if (n->word == HD_WORD_INPUT) {
            values[i] = inputs[n->index];
        } else if (n->word == HD_WORD_NUMBER) {
            values[i] = numbers[n->index];
        } else if (n->word == HD_WORD_CONSTANT) {
            values[i] = constant(e, n->type, shape, n->value);
        } else {
            const int of = n->word == HD_WORD_SELECT ? n->operand[1] : n->operand[0];
            values[i] = hd_hlo_word(e, (hd_word)n->word, ir->nodes[of].type, operand);
        }
    }
    const hd_ssa value = e->status == HD_OK ? values[result] : inputs[0];
    hd_array_release(values);
    return value;
}

/* digamma(x) is -1 / x next to 0, where the program's sine has a term that is a denormal. */
static hd_ssa next_to_pole(hd_hlo *e, int type, hd_ssa x, hd_ssa value) {
    const hd_ssa bound = constant(e, type, &x.shape, type == HD_COMPUTE_F32 ? 0x1p-40 : 0x1p-80),
                 pole = hd_hlo_divide(e, constant(e, type, &x.shape, -1), x);
    return hd_hlo_select(e, hd_hlo_compare(e, "LT", hd_hlo_unary(e, "abs", x), bound), pole, value);
}

static hd_ssa program(hd_hlo *e, hd_word word, int type, const hd_ssa *o, const hd_shape *shape) {
    if (word == HD_WORD_FMA) return type == HD_COMPUTE_F32 ? fma_f32(e, o) : fma_f64(e, o);
    hd_ir ir;
    hd_ir_init(&ir, (hd_compute)type);
    const int a = hd_ir_input(&ir, 0, false), b = hd_words[word].arity == 2 ? hd_ir_input(&ir, 1, false) : -1;
    ir.result = hd_ir_program(&ir, word, a, b);
    hd_error status = ir.result < 0 ? HD_ERROR_MEMORY : hd_ir_renumber(&ir);
    if (status != HD_OK) hd_hlo_fail(e, status);
    hd_ssa result = status == HD_OK ? hd_hlo_sentence(e, &ir, ir.result, o, NULL, shape) : o[0];
    hd_ir_release(&ir);
    return word == HD_WORD_DIGAMMA ? next_to_pole(e, type, o[0], result) : result;
}

static void say_name(hd_hlo *e, hd_word word, int type, const hd_shape *shape) {
    hd_hlo_say(e, "@%s_%s", hd_words[word].name, hd_ir_type_name(type));
    for (int i = 0; i < shape->rank; ++i) hd_hlo_say(e, "%s%d", i > 0 ? "x" : "_", shape->size[i]);
}

/* What a function is given is no constant to it, nor a bool made a number: it is written for anything. */
static hd_ssa as_given(hd_hlo *e, hd_ssa x, hd_ssa other) {
    if (x.form & HD_HLO_IS_CONSTANT)
        return other.form & HD_HLO_IS_CONSTANT ? hd_hlo_barrier(e, x) : hd_hlo_veil(e, x, other);
    return x.form & HD_HLO_IS_TRUTH ? hd_hlo_veil(e, x, x) : x;
}

/* A call of a program's function, which is written when it is needed for the first time. */
static hd_ssa called(hd_hlo *e, hd_word word, int type, const hd_ssa *o) {
    const int arity = hd_words[word].arity;
    const hd_shape *shape = &o[0].shape;
    const hd_hlo_key key = {
        .kind = (uint32_t)word, .dtype = (uint32_t)(hd_dtype)hd_compute_dtype[type], .shape = *shape};
    bool is_new;
    uint32_t form = hd_hlo_known_find(e, &e->written, &key, 0, &is_new); /* of its result */
    if (is_new && e->status == HD_OK) {
        hd_hlo_frame frame;
        hd_ssa parameters[3] = {{0}};
        hd_hlo_enter(e, &frame);
        hd_hlo_say(e, "  func.func private ");
        say_name(e, word, type, shape);
        for (int i = 0; i < arity; ++i) {
            parameters[i] = hd_hlo_define(e, (hd_dtype)hd_compute_dtype[type], shape);
            parameters[i].form = HD_HLO_IS_ANY; /* XLA puts the function where it is called */
            hd_hlo_say(e, "%s%v: %t", i > 0 ? ", " : "(", &parameters[i], &parameters[i]);
        }
        hd_hlo_say(e, ") -> %t {\n", &parameters[0]);
        const hd_ssa result = program(e, word, type, parameters, shape);
        hd_hlo_say(e, "    return %v : %t\n  }\n", &result, &result);
        hd_hlo_leave(e, &frame);
        form = result.form;
        hd_hlo_known_change(&e->written, &key, form);
    }
    hd_ssa given[3] = {{0}};
    for (int i = 0; i < arity; ++i) given[i] = as_given(e, o[i], o[arity - 1 - i]);
    hd_ssa v = hd_hlo_define(e, (hd_dtype)hd_compute_dtype[type], shape);
    v.form = form;
    hd_hlo_say(e, "    %v = func.call ", &v);
    say_name(e, word, type, shape);
    for (int i = 0; i < arity; ++i) hd_hlo_say(e, "%s%v", i > 0 ? ", " : "(", &given[i]);
    for (int i = 0; i < arity; ++i) hd_hlo_say(e, "%s%t", i > 0 ? ", " : ") : (", &o[i]);
    hd_hlo_say(e, ") -> %t\n", &v);
    return v;
}

hd_ssa hd_hlo_word(hd_hlo *e, hd_word word, int type, const hd_ssa *o) {
    switch ((int)word) {
    case HD_WORD_ADD: return hd_hlo_add(e, o[0], o[1]);
    case HD_WORD_SUB: return hd_hlo_subtract(e, o[0], o[1]);
    case HD_WORD_MUL: return hd_hlo_multiply(e, o[0], o[1]);
    case HD_WORD_LT: return hd_hlo_compare(e, "LT", o[0], o[1]);
    case HD_WORD_LE: return hd_hlo_compare(e, "LE", o[0], o[1]);
    case HD_WORD_EQ: return hd_hlo_compare(e, "EQ", o[0], o[1]);
    case HD_WORD_BOTH: return hd_hlo_both(e, o[0], o[1]);
    case HD_WORD_EITHER: return hd_hlo_either(e, o[0], o[1]);
    case HD_WORD_UNLESS: return hd_hlo_not(e, o[0]);
    case HD_WORD_SELECT: return hd_hlo_select(e, o[0], o[1], o[2]);
    case HD_WORD_MAX: return hd_hlo_extreme(e, true, o[0], o[1]);
    case HD_WORD_MIN: return hd_hlo_extreme(e, false, o[0], o[1]);
    default: break;
    }
    if (hd_words[word].is_function || word == HD_WORD_FMA) return called(e, word, type, o);
    return hd_compute_is_float(type) ? float_word(e, word, type, o) : integer_word(e, word, type, o);
}

/* ---- casts ------------------------------------------------------------------------------------------------------- */
/* Truncates and saturates; NaN gives 0. */
static hd_ssa float_to_integer(hd_hlo *e, hd_ssa x, hd_dtype dtype) {
    const int bits = 8 * hd_dtype_bytes[dtype];
    const bool sign = hd_dtype_is_signed(dtype);
    const double bound = ldexp(1, sign ? bits - 1 : bits), lowest = sign ? -bound : 0;
    const hd_shape *shape = &x.shape;
    const hd_ssa low = hd_hlo_number(e, x.dtype, shape, lowest), high = hd_hlo_number(e, x.dtype, shape, bound),
                 zero = hd_hlo_number(e, x.dtype, shape, 0);
    const hd_ssa above = hd_hlo_compare(e, "GE", x, high), below = hd_hlo_compare(e, "LE", x, low);
    const hd_ssa fits = hd_hlo_both(e, hd_hlo_compare(e, "LT", x, high), hd_hlo_compare(e, "GT", x, low));
    hd_ssa r = hd_hlo_convert(e, hd_hlo_select(e, fits, x, zero), dtype); /* NaN does not fit */
    r = hd_hlo_select(e, above, hd_hlo_number(e, dtype, shape, INFINITY), r);
    return sign ? hd_hlo_select(e, below, hd_hlo_number(e, dtype, shape, -INFINITY), r) : r;
}

hd_ssa hd_hlo_cast(hd_hlo *e, hd_ssa x, hd_dtype dtype) {
    if (x.dtype == dtype) return x;
    if (dtype == HD_BOOL) {
        const hd_ssa wide = hd_hlo_convert(e, x, hd_hlo_wide(x.dtype));
        return hd_hlo_compare(e, "NE", wide, hd_hlo_number(e, wide.dtype, &x.shape, 0));
    }
    if (!hd_dtype_is_float(dtype))
        return hd_dtype_is_float(x.dtype) ? float_to_integer(e, hd_hlo_convert(e, x, hd_hlo_wide(x.dtype)), dtype)
                                          : hd_hlo_convert(e, x, dtype);
    const bool through_f32 = hd_dtype_is_small_float(dtype) && x.dtype != HD_F32 && x.dtype != HD_F64;
    if (through_f32) x = hd_hlo_convert(e, x, HD_F32);
    return hd_hlo_convert(e, x, dtype);
}
