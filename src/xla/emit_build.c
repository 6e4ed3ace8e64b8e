/* The ops of StableHLO that everything else is written with, in the text form that parsers since StableHLO 1.0 take. */
#include "xla/build.h"
#include "core/memory.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* ---- writing ----------------------------------------------------------------------------------------------------- */
const char *hd_hlo_dtype(hd_dtype dtype) {
    static const char *const names[HD_DTYPE_COUNT] = {
        [HD_BOOL] = "i1",   [HD_U8] = "ui8",          [HD_U16] = "ui16",      [HD_U32] = "ui32", [HD_U64] = "ui64",
        [HD_I8] = "i8",     [HD_I16] = "i16",         [HD_I32] = "i32",       [HD_I64] = "i64",  [HD_F16] = "f16",
        [HD_BF16] = "bf16", [HD_F8E4M3] = "f8E4M3FN", [HD_F8E5M2] = "f8E5M2", [HD_F32] = "f32",  [HD_F64] = "f64"};
    return names[dtype];
}

void hd_hlo_fail(hd_hlo *e, hd_error status) {
    if (e->status == HD_OK) e->status = status;
}

static void say_type(hd_text *t, const hd_ssa *v) {
    hd_text_add(t, "tensor<", 7);
    for (int i = 0; i < v->shape.rank; ++i) {
        hd_text_number(t, v->shape.size[i]);
        hd_text_add(t, "x", 1);
    }
    hd_text_string(t, hd_hlo_dtype(v->dtype));
    hd_text_add(t, ">", 1);
}

void hd_hlo_say(hd_hlo *e, const char *format, ...) {
    hd_text *t = &e->into->text;
    va_list arguments;
    va_start(arguments, format);
    for (;;) {
        const size_t plain = strcspn(format, "%");
        hd_text_add(t, format, plain);
        format += plain;
        if (*format == '\0') break;
        switch (format[1]) {
        case 'v':
            hd_text_add(t, "%", 1);
            hd_text_number(t, va_arg(arguments, const hd_ssa *)->id);
            break;
        case 't': say_type(t, va_arg(arguments, const hd_ssa *)); break;
        case 's': hd_text_string(t, va_arg(arguments, const char *)); break;
        case 'd': hd_text_number(t, va_arg(arguments, int64_t)); break;
        case 'l': {
            const int64_t *list = va_arg(arguments, const int64_t *);
            const int count = va_arg(arguments, int);
            for (int i = 0; i < count; ++i) {
                if (i > 0) hd_text_add(t, ", ", 2);
                hd_text_number(t, list[i]);
            }
            break;
        }
        default: /* a name such as %a */
            hd_text_add(t, format, 1);
            format -= 1;
            break;
        }
        format += 2;
    }
    va_end(arguments);
}

hd_ssa hd_hlo_define(hd_hlo *e, hd_dtype dtype, const hd_shape *shape) {
    return (hd_ssa){.id = e->into->next++, .dtype = dtype, .shape = *shape};
}

void hd_hlo_enter(hd_hlo *e, hd_hlo_frame *f) {
    *f = (hd_hlo_frame){.outer = e->into};
    e->into = &f->function;
}

void hd_hlo_leave(hd_hlo *e, hd_hlo_frame *f) {
    if (f->function.text.failed) hd_hlo_fail(e, hd_fail(HD_ERROR_MEMORY, "no memory for the text of a function"));
    if (f->function.text.length > 0) hd_text_add(&e->functions, f->function.text.bytes, f->function.text.length);
    hd_text_release(&f->function.text);
    hd_hlo_known_release(&f->function.numbers);
    e->into = f->outer;
}

/* ---- what is known ----------------------------------------------------------------------------------------------- */
static uint64_t key_hash(const hd_hlo_key *k) {
    uint64_t h = (k->bits ^ ((uint64_t)k->kind << 40) ^ ((uint64_t)k->dtype << 56)) * 0x9E3779B97F4A7C15u;
    for (int i = 0; i < k->shape.rank; ++i) h = (h ^ (h >> 31) ^ (uint64_t)k->shape.size[i]) * 0xBF58476D1CE4E5B9u;
    return h ^ (h >> 29);
}

static bool key_equal(const hd_hlo_key *a, const hd_hlo_key *b) {
    return a->bits == b->bits && a->kind == b->kind && a->dtype == b->dtype && hd_shape_equal(a->shape, b->shape);
}

static bool known_grow(hd_hlo_known *k) {
    const uint32_t capacity = k->capacity > 0 ? k->capacity * 2 : 32;
    hd_hlo_key *keys = hd_array_resize(k->keys, capacity * sizeof *keys);
    if (keys != NULL) k->keys = keys;
    uint32_t *ids = hd_array_resize(k->ids, capacity * sizeof *ids);
    if (ids != NULL) k->ids = ids;
    uint32_t *table = hd_array_resize(k->table, 2 * (size_t)capacity * sizeof *table);
    if (table != NULL) k->table = table;
    if (keys == NULL || ids == NULL || table == NULL) return false;
    k->capacity = capacity;
    memset(table, 0, 2 * (size_t)capacity * sizeof *table);
    for (uint32_t i = 0; i < k->count; ++i) {
        uint64_t at = key_hash(&keys[i]) % (2 * (uint64_t)capacity);
        while (table[at] != 0) at = (at + 1) % (2 * (uint64_t)capacity);
        table[at] = i + 1;
    }
    return true;
}

uint32_t hd_hlo_known_find(hd_hlo *e, hd_hlo_known *k, const hd_hlo_key *key, uint32_t id, bool *is_new) {
    *is_new = true;
    if (k->count == k->capacity && !known_grow(k)) {
        hd_hlo_fail(e, hd_fail(HD_ERROR_MEMORY, "no memory to know %u values", k->count));
        return id;
    }
    const uint64_t size = 2 * (uint64_t)k->capacity;
    uint64_t at = key_hash(key) % size;
    for (; k->table[at] != 0; at = (at + 1) % size)
        if (key_equal(&k->keys[k->table[at] - 1], key)) {
            *is_new = false;
            return k->ids[k->table[at] - 1];
        }
    k->keys[k->count] = *key;
    k->ids[k->count] = id;
    k->table[at] = ++k->count;
    return id;
}

void hd_hlo_known_change(hd_hlo_known *k, const hd_hlo_key *key, uint32_t id) {
    for (uint32_t i = k->count; i-- > 0;)
        if (key_equal(&k->keys[i], key)) {
            k->ids[i] = id;
            return;
        }
}

void hd_hlo_known_release(hd_hlo_known *k) {
    hd_array_release(k->keys);
    hd_array_release(k->ids);
    hd_array_release(k->table);
    *k = (hd_hlo_known){0};
}

/* ---- constants: floats as their bits, which no parser rounds ----------------------------------------------------- */
static void say_element(hd_hlo *e, hd_dtype dtype, uint64_t bits) {
    hd_text *t = &e->into->text;
    const int bytes = hd_dtype_bytes[dtype];
    if (dtype == HD_BOOL) {
        hd_text_string(t, bits != 0 ? "true" : "false");
    } else if (hd_dtype_is_float(dtype)) {
        hd_text_string(t, "0x");
        hd_text_hex(t, bits, 2 * bytes);
    } else if (!hd_dtype_is_signed(dtype)) {
        if (bits > INT64_MAX) { /* 2^63 and above */
            hd_text_number(t, (int64_t)(bits / 10));
            bits %= 10;
        }
        hd_text_number(t, (int64_t)bits);
    } else {
        const int unused = 64 - 8 * bytes;
        hd_text_number(t, (int64_t)(bits << unused) >> unused);
    }
}

static unsigned constant_form(hd_dtype dtype, uint64_t bits) {
    if (!hd_dtype_is_float(dtype)) return HD_HLO_IS_CONSTANT;
    int exponent = 0;
    const double value = hd_element_to_f64(&bits, dtype), limit = dtype == HD_F64 ? 0x1p1000 : 0x1p100;
    const bool power = fabs(frexp(value, &exponent)) == 0.5 && fabs(value) < limit && fabs(value) > 1 / limit;
    return HD_HLO_IS_CONSTANT | (power ? HD_HLO_IS_POWER : 0);
}

hd_ssa hd_hlo_bits(hd_hlo *e, hd_dtype dtype, const hd_shape *shape, uint64_t bits) {
    hd_hlo_key key = {.bits = bits, .dtype = dtype, .shape = *shape};
    bool is_new;
    hd_ssa v = {.dtype = dtype, .shape = *shape, .form = constant_form(dtype, bits)};
    if (shape->rank == 0) {
        v.id = hd_hlo_known_find(e, &e->into->numbers, &key, e->into->next, &is_new);
        if (!is_new) return v;
        e->into->next++;
        hd_hlo_say(e, "    %v = stablehlo.constant dense<", &v);
        say_element(e, dtype, bits);
        hd_hlo_say(e, "> : %t\n", &v);
        return v;
    }
    const hd_ssa scalar = hd_hlo_bits(e, dtype, HD_HLO_SCALAR, bits);
    v.id = hd_hlo_known_find(e, &e->into->numbers, &key, e->into->next, &is_new);
    if (!is_new) return v;
    e->into->next++;
    hd_hlo_say(e, "    %v = stablehlo.broadcast_in_dim %v, dims = [] : (%t) -> %t\n", &v, &scalar, &scalar, &v);
    return v;
}

hd_ssa hd_hlo_number(hd_hlo *e, hd_dtype dtype, const hd_shape *shape, double value) {
    uint64_t bits = 0;
    hd_element_from_f64(&bits, dtype, value);
    return hd_hlo_bits(e, dtype, shape, bits);
}

hd_ssa hd_hlo_integer(hd_hlo *e, hd_dtype dtype, const hd_shape *shape, int64_t value) {
    const int unused = 64 - 8 * hd_dtype_bytes[dtype];
    return hd_hlo_bits(e, dtype, shape, (uint64_t)value << unused >> unused);
}

hd_ssa hd_hlo_table(hd_hlo *e, hd_dtype dtype, const hd_shape *shape, const void *elements) {
    const size_t bytes = hd_dtype_bytes[dtype], count = (size_t)hd_shape_count(*shape);
    const char *at = elements;
    uint64_t bits = 0;
    if (count == 0) return hd_hlo_bits(e, dtype, shape, 0);
    if (count == 1) {
        memcpy(&bits, at, bytes);
        return hd_hlo_bits(e, dtype, shape, bits);
    }
    const hd_shape flat = HD_SHAPE((int64_t)count);
    hd_ssa v = hd_hlo_define(e, dtype, dtype == HD_BOOL ? &flat : shape);
    hd_hlo_say(e, "    %v = stablehlo.constant dense<", &v);
    hd_text *t = &e->into->text;
    if (dtype == HD_BOOL) { /* parsers differ in how they pack bits */
        for (size_t i = 0; i < count; ++i) hd_hlo_say(e, "%s%s", i > 0 ? ", " : "[", at[i] ? "true" : "false");
        hd_text_string(t, "]");
    } else {
        hd_text_string(t, "\"0x");
        for (size_t i = 0; i < count * bytes; ++i) hd_text_hex(t, (unsigned char)at[i], 2);
        hd_text_string(t, "\"");
    }
    hd_hlo_say(e, "> : %t\n", &v);
    v.form = HD_HLO_IS_CONSTANT;
    return hd_hlo_reshape(e, v, shape);
}

hd_ssa hd_hlo_iota(hd_hlo *e, hd_dtype dtype, const hd_shape *shape, int axis) {
    const hd_ssa v = hd_hlo_define(e, dtype, shape);
    hd_hlo_say(e, "    %v = stablehlo.iota dim = %d : %t\n", &v, (int64_t)axis, &v);
    return v;
}

/* ---- element by element ------------------------------------------------------------------------------------------ */
hd_ssa hd_hlo_barrier(hd_hlo *e, hd_ssa x) {
    const hd_hlo_key key = {.bits = x.id, .kind = 1, .dtype = x.dtype, .shape = x.shape};
    bool is_new;
    hd_ssa v = {.dtype = x.dtype, .shape = x.shape};
    v.id = hd_hlo_known_find(e, &e->into->numbers, &key, e->into->next, &is_new);
    if (!is_new) return v;
    e->into->next++;
    hd_hlo_say(e, "    %v = stablehlo.optimization_barrier %v : %t\n", &v, &x, &v);
    return v;
}

hd_ssa hd_hlo_veil(hd_hlo *e, hd_ssa x, hd_ssa by) {
    static const hd_dtype whole[9] = {[1] = HD_U8, [2] = HD_U16, [4] = HD_U32, [8] = HD_U64};
    const hd_dtype bits = whole[hd_dtype_bytes[x.dtype]];
    const hd_hlo_key key = {.bits = x.id | (uint64_t)by.id << 32, .kind = 2, .dtype = x.dtype, .shape = x.shape};
    bool is_new;
    hd_ssa v = {.dtype = x.dtype, .shape = x.shape};
    v.id = hd_hlo_known_find(e, &e->into->numbers, &key, e->into->next, &is_new);
    if (!is_new) return v;
    e->into->next++;
    const hd_ssa width = hd_hlo_integer(e, bits, &x.shape, 8 * hd_dtype_bytes[x.dtype]),
                 none = hd_hlo_binary(e, "shift_right_logical", hd_hlo_bitcast(e, by, bits), width),
                 same = hd_hlo_binary(e, "or", hd_hlo_bitcast(e, x, bits), none);
    hd_hlo_say(e, "    %v = stablehlo.bitcast_convert %v : (%t) -> %t\n", &v, &same, &same, &v);
    return v;
}

/* x, veiled when it may be one of these. */
static hd_ssa apart(hd_hlo *e, hd_ssa x, unsigned forms) {
    return hd_dtype_is_float(x.dtype) && (x.form & forms) != 0 ? hd_hlo_veil(e, x, x) : x;
}

/* Constants only give a constant. */
static unsigned folded(unsigned a, unsigned b) { return a & b & HD_HLO_IS_CONSTANT; }

hd_ssa hd_hlo_unary(hd_hlo *e, const char *op, hd_ssa x) {
    hd_ssa v = hd_hlo_define(e, x.dtype, &x.shape);
    v.form = folded(x.form, x.form);
    if (strcmp(op, "sqrt") == 0) v.form |= HD_HLO_IS_ROOT;
    hd_hlo_say(e, "    %v = stablehlo.%s %v : %t\n", &v, op, &x, &v);
    return v;
}

hd_ssa hd_hlo_binary(hd_hlo *e, const char *op, hd_ssa a, hd_ssa b) {
    hd_ssa v = hd_hlo_define(e, a.dtype, &a.shape);
    v.form = folded(a.form, b.form);
    hd_hlo_say(e, "    %v = stablehlo.%s %v, %v : %t\n", &v, op, &a, &b, &v);
    return v;
}

/* What a op b is to XLA when one of the two is a constant. */
static hd_ssa with_constant(hd_hlo *e, const char *op, hd_ssa a, hd_ssa b, unsigned form) {
    hd_ssa v = hd_hlo_binary(e, op, a, b);
    if (v.form == 0 && ((a.form | b.form) & HD_HLO_IS_CONSTANT) != 0) v.form = form;
    return v;
}

hd_ssa hd_hlo_add(hd_hlo *e, hd_ssa a, hd_ssa b) {
    if (a.form & HD_HLO_IS_CONSTANT) b = apart(e, b, HD_HLO_IS_SUM);
    if (b.form & HD_HLO_IS_CONSTANT) a = apart(e, a, HD_HLO_IS_SUM);
    return with_constant(e, "add", apart(e, a, b.form & HD_HLO_IS_PRODUCT), b, HD_HLO_IS_SUM);
}

hd_ssa hd_hlo_subtract(hd_hlo *e, hd_ssa a, hd_ssa b) {
    if (b.form & HD_HLO_IS_CONSTANT) a = apart(e, a, HD_HLO_IS_SUM);
    return with_constant(e, "subtract", a, b, HD_HLO_IS_SUM);
}

hd_ssa hd_hlo_multiply(hd_hlo *e, hd_ssa a, hd_ssa b) {
    const unsigned joins = HD_HLO_IS_CONSTANT | HD_HLO_IS_PRODUCT | HD_HLO_IS_SPREAD;
    const hd_ssa first = apart(e, a,
                               HD_HLO_IS_TRUTH | (b.form & joins ? HD_HLO_IS_PRODUCT : 0) | (b.form & HD_HLO_IS_ROOT)),
                 second = apart(e, b, HD_HLO_IS_TRUTH | (first.form & joins ? HD_HLO_IS_PRODUCT : 0));
    return with_constant(e, "multiply", first, second, HD_HLO_IS_PRODUCT);
}

hd_ssa hd_hlo_divide(hd_hlo *e, hd_ssa a, hd_ssa b) {
    a = apart(e, a, HD_HLO_IS_QUOTIENT);
    if (!(b.form & HD_HLO_IS_CONSTANT))
        b = apart(e, b, HD_HLO_IS_ANY);
    else if (!(b.form & HD_HLO_IS_POWER) && hd_dtype_is_float(b.dtype))
        b = hd_hlo_veil(e, b, a);
    hd_ssa v = hd_hlo_binary(e, "divide", a, b);
    if (v.form == 0) v.form = HD_HLO_IS_QUOTIENT | (b.form & HD_HLO_IS_POWER ? HD_HLO_IS_PRODUCT : 0);
    return v;
}
hd_ssa hd_hlo_both(hd_hlo *e, hd_ssa a, hd_ssa b) { return hd_hlo_binary(e, "and", a, b); }
hd_ssa hd_hlo_either(hd_hlo *e, hd_ssa a, hd_ssa b) { return hd_hlo_binary(e, "or", a, b); }
hd_ssa hd_hlo_not(hd_hlo *e, hd_ssa a) { return hd_hlo_unary(e, "not", a); }

hd_ssa hd_hlo_compare(hd_hlo *e, const char *direction, hd_ssa a, hd_ssa b) {
    hd_ssa v = hd_hlo_define(e, HD_BOOL, &a.shape);
    v.form = folded(a.form, b.form);
    const char *kind = hd_dtype_is_float(a.dtype)                          ? "FLOAT"
                       : a.dtype != HD_BOOL && hd_dtype_is_signed(a.dtype) ? "SIGNED"
                                                                           : "UNSIGNED";
    hd_hlo_say(e, "    %v = stablehlo.compare %s, %v, %v, %s : (%t, %t) -> %t\n", &v, direction, &a, &b, kind, &a, &b,
               &v);
    return v;
}

hd_ssa hd_hlo_select(hd_hlo *e, hd_ssa condition, hd_ssa a, hd_ssa b) {
    hd_ssa v = hd_hlo_define(e, a.dtype, &a.shape);
    v.form = ((a.form | b.form) & HD_HLO_IS_ANY) | folded(a.form, b.form);
    hd_hlo_say(e, "    %v = stablehlo.select %v, %v, %v : %t, %t\n", &v, &condition, &a, &b, &condition, &v);
    return v;
}

/* What plugins make of maximum and minimum loses a NaN, on the CPU that of the second operand: it is written out. */
hd_ssa hd_hlo_extreme(hd_hlo *e, bool largest, hd_ssa a, hd_ssa b) {
    if (a.dtype == HD_BOOL) return largest ? hd_hlo_either(e, a, b) : hd_hlo_both(e, a, b);
    if (!hd_dtype_is_float(a.dtype)) return hd_hlo_binary(e, largest ? "maximum" : "minimum", a, b);
    const hd_ssa better = hd_hlo_compare(e, largest ? "GT" : "LT", a, b), none = hd_hlo_compare(e, "NE", a, a);
    return hd_hlo_select(e, hd_hlo_either(e, better, none), a, b);
}

static hd_ssa retyped(hd_hlo *e, const char *op, hd_ssa x, hd_dtype dtype, const hd_shape *shape) {
    hd_ssa v = hd_hlo_define(e, dtype, shape);
    v.form = x.dtype == dtype ? x.form : folded(x.form, x.form) | (x.dtype == HD_BOOL ? HD_HLO_IS_TRUTH : 0);
    hd_hlo_say(e, "    %v = stablehlo.%s %v : (%t) -> %t\n", &v, op, &x, &x, &v);
    return v;
}
hd_ssa hd_hlo_convert(hd_hlo *e, hd_ssa x, hd_dtype dtype) {
    return x.dtype == dtype ? x : retyped(e, "convert", x, dtype, &x.shape);
}
hd_ssa hd_hlo_bitcast(hd_hlo *e, hd_ssa x, hd_dtype dtype) {
    return x.dtype == dtype ? x : retyped(e, "bitcast_convert", x, dtype, &x.shape);
}

/* ---- shape ------------------------------------------------------------------------------------------------------- */
hd_ssa hd_hlo_reshape(hd_hlo *e, hd_ssa x, const hd_shape *shape) {
    return hd_shape_equal(x.shape, *shape) ? x : retyped(e, "reshape", x, x.dtype, shape);
}

hd_ssa hd_hlo_transpose(hd_hlo *e, hd_ssa x, const int *order) {
    int64_t dims[HD_MAX_RANK];
    hd_shape shape = {.rank = x.shape.rank};
    bool moves = false;
    for (int i = 0; i < shape.rank; ++i) {
        dims[i] = order[i];
        moves = moves || order[i] != i;
        shape.size[i] = x.shape.size[order[i]];
    }
    if (!moves) return x;
    hd_ssa v = hd_hlo_define(e, x.dtype, &shape);
    v.form = x.form;
    hd_hlo_say(e, "    %v = stablehlo.transpose %v, dims = [%l] : (%t) -> %t\n", &v, &x, dims, shape.rank, &x, &v);
    return v;
}

hd_ssa hd_hlo_stretch(hd_hlo *e, hd_ssa x, const hd_shape *shape, const int64_t *axes) {
    hd_ssa v = hd_hlo_define(e, x.dtype, shape);
    v.form = x.form | HD_HLO_IS_SPREAD;
    hd_hlo_say(e, "    %v = stablehlo.broadcast_in_dim %v, dims = [%l] : (%t) -> %t\n", &v, &x, axes, x.shape.rank, &x,
               &v);
    return v;
}

hd_ssa hd_hlo_broadcast(hd_hlo *e, hd_ssa x, const hd_shape *shape) {
    if (hd_shape_equal(x.shape, *shape)) return x;
    int64_t axes[HD_MAX_RANK];
    for (int i = 0; i < x.shape.rank; ++i) axes[i] = shape->rank - x.shape.rank + i;
    return hd_hlo_stretch(e, x, shape, axes);
}

hd_ssa hd_hlo_slice(hd_hlo *e, hd_ssa x, const int64_t *start, const int64_t *count, const int64_t *step) {
    hd_shape shape = {.rank = x.shape.rank};
    bool whole = true;
    for (int i = 0; i < shape.rank; ++i) {
        shape.size[i] = count[i];
        whole = whole && count[i] == x.shape.size[i];
    }
    if (whole) return x;
    hd_ssa v = hd_hlo_define(e, x.dtype, &shape);
    v.form = x.form;
    hd_hlo_say(e, "    %v = stablehlo.slice %v [", &v, &x);
    for (int i = 0; i < shape.rank; ++i) {
        const int64_t from = count[i] > 0 ? start[i] : 0,
                      limit = count[i] > 0 ? from + (count[i] - 1) * step[i] + 1 : 0;
        hd_hlo_say(e, "%s%d:%d", i > 0 ? ", " : "", from, limit);
        if (step[i] != 1) hd_hlo_say(e, ":%d", step[i]);
    }
    hd_hlo_say(e, "] : (%t) -> %t\n", &x, &v);
    return v;
}

hd_ssa hd_hlo_reverse(hd_hlo *e, hd_ssa x, const bool *axes) {
    int64_t dims[HD_MAX_RANK];
    int count = 0;
    for (int i = 0; i < x.shape.rank; ++i)
        if (axes[i]) dims[count++] = i;
    if (count == 0) return x;
    hd_ssa v = hd_hlo_define(e, x.dtype, &x.shape);
    v.form = x.form;
    hd_hlo_say(e, "    %v = stablehlo.reverse %v, dims = [%l] : %t\n", &v, &x, dims, count, &v);
    return v;
}

hd_ssa hd_hlo_pad(hd_hlo *e, hd_ssa x, hd_ssa value, const int64_t *low, const int64_t *high, const int64_t *interior) {
    const int64_t none[HD_MAX_RANK] = {0}, *between = interior != NULL ? interior : none;
    const int rank = x.shape.rank;
    hd_shape shape = {.rank = rank};
    for (int i = 0; i < rank; ++i) {
        const int64_t n = x.shape.size[i];
        shape.size[i] = low[i] + n + (n > 0 ? (n - 1) * between[i] : 0) + high[i];
    }
    const hd_ssa v = hd_hlo_define(e, x.dtype, &shape);
    hd_hlo_say(e, "    %v = stablehlo.pad %v, %v, low = [%l], high = [%l], interior = [%l] : (%t, %t) -> %t\n", &v, &x,
               &value, low, rank, high, rank, between, rank, &x, &value, &v);
    return v;
}

hd_ssa hd_hlo_concat(hd_hlo *e, const hd_ssa *parts, int count, int axis) {
    if (count == 1) return parts[0];
    hd_shape shape = parts[0].shape;
    for (int i = 1; i < count; ++i) shape.size[axis] += parts[i].shape.size[axis];
    const hd_ssa v = hd_hlo_define(e, parts[0].dtype, &shape);
    hd_hlo_say(e, "    %v = stablehlo.concatenate ", &v);
    for (int i = 0; i < count; ++i) hd_hlo_say(e, "%v, ", &parts[i]);
    hd_hlo_say(e, "dim = %d : (", (int64_t)axis);
    for (int i = 0; i < count; ++i) hd_hlo_say(e, "%s%t", i > 0 ? ", " : "", &parts[i]);
    hd_hlo_say(e, ") -> %t\n", &v);
    return v;
}

/* ---- many elements ----------------------------------------------------------------------------------------------- */
hd_ssa hd_hlo_identity(hd_hlo *e, hd_dtype dtype, const char *op) {
    const double value = strcmp(op, "multiply") == 0 || strcmp(op, "and") == 0 ? 1
                         : strcmp(op, "maximum") == 0                          ? -INFINITY
                         : strcmp(op, "minimum") == 0                          ? INFINITY
                                                                               : 0;
    return hd_hlo_number(e, dtype, HD_HLO_SCALAR, value); /* integers saturate: their smallest and largest */
}

static bool is_extreme(const char *op, hd_dtype dtype) {
    return hd_dtype_is_float(dtype) && (strcmp(op, "maximum") == 0 || strcmp(op, "minimum") == 0);
}

void hd_hlo_say_combine(hd_hlo *e, const char *op, hd_dtype dtype) {
    const hd_ssa element = {.dtype = dtype};
    hd_hlo_say(e, "({\n      ^bb0(%a: %t, %b: %t):\n", &element, &element);
    if (is_extreme(op, dtype)) { /* as hd_hlo_extreme */
        hd_hlo_say(e, "        %better = stablehlo.compare %s, %a, %b, FLOAT : (%t, %t) -> tensor<i1>\n",
                   strcmp(op, "maximum") == 0 ? "GT" : "LT", &element, &element);
        hd_hlo_say(e, "        %none = stablehlo.compare NE, %a, %a, FLOAT : (%t, %t) -> tensor<i1>\n", &element,
                   &element);
        hd_hlo_say(e, "        %first = stablehlo.or %better, %none : tensor<i1>\n");
        hd_hlo_say(e, "        %both = stablehlo.select %first, %a, %b : tensor<i1>, %t\n", &element);
    } else if (op[0] != '\0') {
        hd_hlo_say(e, "        %both = stablehlo.%s %a, %b : %t\n", op, &element);
    }
    hd_hlo_say(e, "        stablehlo.return %s : %t\n    })", op[0] != '\0' ? "%both" : "%b", &element);
}

hd_ssa hd_hlo_reduce(hd_hlo *e, const char *op, hd_ssa x, hd_ssa init, const bool *reduced, bool keep) {
    hd_shape kept = {.rank = 0}, ones = x.shape;
    int64_t dims[HD_MAX_RANK];
    int count = 0;
    for (int i = 0; i < x.shape.rank; ++i) {
        if (!reduced[i]) {
            kept.size[kept.rank++] = x.shape.size[i];
        } else {
            dims[count++] = i;
            ones.size[i] = 1;
        }
    }
    hd_ssa v = x;
    if (count > 0 && is_extreme(op, x.dtype)) {
        v = hd_hlo_define(e, x.dtype, &kept);
        hd_hlo_say(e, "    %v = \"stablehlo.reduce\"(%v, %v) ", &v, &x, &init);
        hd_hlo_say_combine(e, op, x.dtype);
        hd_hlo_say(e, " {dimensions = array<i64: %l>} : (%t, %t) -> %t\n", dims, count, &x, &init, &v);
    } else if (count > 0) {
        v = hd_hlo_define(e, x.dtype, &kept);
        hd_hlo_say(e,
                   "    %v = stablehlo.reduce(%v init: %v) applies stablehlo.%s across dimensions = [%l] : (%t, %t) -> "
                   "%t\n",
                   &v, &x, &init, op, dims, count, &x, &init, &v);
    }
    return keep ? hd_hlo_reshape(e, v, &ones) : v;
}

const char *hd_hlo_precision(hd_dtype operands, bool exact) {
    return exact && (operands == HD_F32 || operands == HD_F64) ? "HIGHEST" : "DEFAULT";
}

hd_ssa hd_hlo_dot(hd_hlo *e, hd_ssa a, hd_ssa b, int batch, int contract_a, int contract_b, bool exact) {
    const char *precision = hd_hlo_precision(a.dtype, exact);
    const int64_t both[HD_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    hd_shape shape = {.rank = batch};
    memcpy(shape.size, a.shape.size, (size_t)batch * sizeof *shape.size);
    for (int i = batch; i < a.shape.rank; ++i)
        if (i != contract_a) shape.size[shape.rank++] = a.shape.size[i];
    for (int i = batch; i < b.shape.rank; ++i)
        if (i != contract_b) shape.size[shape.rank++] = b.shape.size[i];
    const hd_ssa v = hd_hlo_define(e, hd_hlo_wide(a.dtype), &shape);
    hd_hlo_say(e, "    %v = stablehlo.dot_general %v, %v, ", &v, &a, &b);
    if (batch > 0) hd_hlo_say(e, "batching_dims = [%l] x [%l], ", both, batch, both, batch);
    hd_hlo_say(e, "contracting_dims = [%d] x [%d], precision = [%s, %s] : (%t, %t) -> %t\n", (int64_t)contract_a,
               (int64_t)contract_b, precision, precision, &a, &b, &v);
    return v;
}

static hd_ssa as_vectors(hd_hlo *e, hd_ssa offsets) {
    hd_shape shape = HD_SHAPE(hd_shape_count(offsets.shape), 1);
    return hd_hlo_reshape(e, offsets, &shape);
}

hd_ssa hd_hlo_take(hd_hlo *e, hd_ssa flat, hd_ssa offsets) {
    const hd_ssa at = as_vectors(e, offsets);
    const hd_shape shape = HD_SHAPE(at.shape.size[0]);
    const hd_ssa v = hd_hlo_define(e, flat.dtype, &shape);
    hd_hlo_say(
        e,
        "    %v = \"stablehlo.gather\"(%v, %v) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], "
        "start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>, indices_are_sorted = false} : "
        "(%t, %t) -> %t\n",
        &v, &flat, &at, &flat, &at, &v);
    return hd_hlo_reshape(e, v, &offsets.shape);
}

hd_ssa hd_hlo_put(hd_hlo *e, hd_ssa flat, hd_ssa offsets, hd_ssa values, const char *op) {
    const hd_ssa at = as_vectors(e, offsets),
                 from = hd_hlo_reshape(e, values, &(const hd_shape){.rank = 1, .size = {at.shape.size[0]}});
    const hd_ssa v = hd_hlo_define(e, flat.dtype, &flat.shape);
    hd_hlo_say(e, "    %v = \"stablehlo.scatter\"(%v, %v, %v) ", &v, &flat, &at, &from);
    hd_hlo_say_combine(e, op, flat.dtype);
    hd_hlo_say(
        e,
        " {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = "
        "false} : (%t, %t, %t) -> %t\n",
        &flat, &at, &from, &v);
    return v;
}
