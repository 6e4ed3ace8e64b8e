/* Kernels as text: what both renderers of them say alike. */
#include "kernel/render_text.h"
#include "core/memory.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const hd_fold_words[4] = {"add", "mul", "max", "min"};

/* ---- writing ----------------------------------------------------------------------------------------------------- */
hd_error hd_writer_start(hd_writer *w, const hd_kernel *k, char *out, size_t capacity) {
    *w = (hd_writer){.k = k, .out = out, .capacity = capacity, .lane = "[j]"};
    w->array = hd_array_resize(NULL, (size_t)k->count * 2 + 1);
    if (w->array == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for the text of a kernel");
    memset(w->array, 0, (size_t)k->count * 2 + 1);
    w->needed = w->array + k->count;
    return HD_OK;
}
void hd_writer_end(hd_writer *w) { hd_array_release(w->array); }

void hd_say(hd_writer *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const bool fits = w->at < w->capacity;
    w->at += (size_t)vsnprintf(fits ? w->out + w->at : NULL, fits ? w->capacity - w->at : 0, format, arguments);
    va_end(arguments);
}

void hd_say_bytes(hd_writer *w, const void *bytes, size_t count) {
    if (w->at < w->capacity) {
        const size_t left = w->capacity - w->at - 1, n = count < left ? count : left;
        memcpy(w->out + w->at, bytes, n);
        w->out[w->at + n] = '\0';
    }
    w->at += count;
}

/* ---- what belongs where ------------------------------------------------------------------------------------------ */
void hd_choose_needed(hd_writer *w, int walk) {
    const hd_kernel *k = w->k;
    memset(w->needed, 0, (size_t)k->count);
    for (int i = k->count; i-- > 0;) {
        const hd_step *s = &k->steps[i];
        const bool inside = s->depth > k->kept;
        if (hd_is_reduction_of(w->k, i, walk) || (s->word == HD_STEP_STORE && inside && s->stage == walk) ||
            (s->slot && inside && s->stage == walk))
            w->needed[i] = 1;
        if (!w->needed[i] || (s->slot && s->stage < walk) || (!inside && s->word != HD_STEP_REDUCE)) continue;
        for (int j = 0; j < 3; ++j)
            if (s->operand[j] >= 0 && k->steps[s->operand[j]].depth > k->kept) w->needed[s->operand[j]] = 1;
    }
}

bool hd_kernel_uses_small_floats(const hd_kernel *k) {
    for (int b = 0; b < k->buffer_count; ++b)
        if (hd_dtype_is_small_float((hd_dtype)k->buffers[b].dtype)) return true;
    for (int i = 0; i < k->count; ++i)
        if (k->steps[i].word == HD_STEP_ROUND) return true;
    return false;
}

uint32_t hd_kernel_origins(const hd_kernel *k) {
    uint32_t origins = 0;
    for (int i = 0; i < k->count; ++i)
        if (k->steps[i].word == HD_STEP_INDEX)
            origins |= 1u << k->steps[i].index;
        else if (k->steps[i].word == HD_STEP_DRAW && hd_drawn_axis(k->steps[i].index) >= 0)
            origins |= 1u << hd_drawn_axis(k->steps[i].index);
    return origins;
}

static const char *type_of(int type) { return hd_ir_type_name(type); }

/* ---- expressions ------------------------------------------------------------------------------------------------- */
static void say_float(hd_writer *w, int type, double value) {
    char digits[40];
    if (value != value || isinf(value)) {
        hd_say(w, "(c_%s)%s%s", type_of(type), value < 0 ? "-" : "", value != value ? "NAN" : "INFINITY");
        return;
    }
    snprintf(digits, sizeof digits, "%.*g", type == HD_COMPUTE_F32 ? 9 : 17, value);
    hd_say(w, "%s%s%s", digits, strpbrk(digits, ".e") == NULL ? ".0" : "", type == HD_COMPUTE_F32 ? "f" : "");
}

/* As a cast does; of u64, its bits. */
static int64_t saturated(int type, double v) {
    const bool is_signed = type >= HD_COMPUTE_I8 && type <= HD_COMPUTE_I64;
    const int bits = 8 * hd_compute_bytes(type) - (is_signed ? 1 : 0);
    const double bound = ldexp(1, bits);
    if (v != v) return 0;
    if (v >= bound) return (int64_t)(bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1);
    if (v <= (is_signed ? -bound : 0)) return is_signed ? -(int64_t)(((uint64_t)1 << bits) - 1) - 1 : 0;
    return is_signed ? (int64_t)v : (int64_t)(uint64_t)v;
}

void hd_say_constant(hd_writer *w, int type, double v) {
    const bool is_signed = type >= HD_COMPUTE_I8 && type <= HD_COMPUTE_I64;
    if (type == HD_COMPUTE_F32 || type == HD_COMPUTE_F64) {
        say_float(w, type, v);
    } else if (type == HD_COMPUTE_B8 || type == HD_CONDITION) {
        hd_say(w, "%d", v != 0);
    } else if (is_signed) {
        const int64_t n = saturated(type, v);
        if (n == INT64_MIN)
            hd_say(w, "(-9223372036854775807 - 1)");
        else
            hd_say(w, "%lld", (long long)n);
    } else {
        hd_say(w, "%lluu", (unsigned long long)saturated(type, v));
    }
}

void hd_say_value(hd_writer *w, int i) {
    const hd_step *s = &w->k->steps[i];
    if (s->word == HD_WORD_CONSTANT)
        hd_say_constant(w, s->type, s->value);
    else
        hd_say(w, "v%d%s", i, w->array[i] ? w->lane : "");
}

/* in0[v3 + i0 * s0_0 + i1] */
void hd_say_element(hd_writer *w, int buffer, int offset) {
    const hd_kernel_buffer *b = &w->k->buffers[buffer];
    bool first = true;
    hd_say(w, "%s%d[", b->written ? "out" : "in", buffer);
    if (offset >= 0) {
        hd_say_value(w, offset);
        first = false;
    }
    for (int a = 0; a < w->k->axes; ++a) {
        if (b->stride[a] == HD_STRIDE_ZERO) continue;
        hd_say(w, "%si%d", first ? "" : " + ", a);
        if (b->stride[a] == HD_STRIDE_ANY) hd_say(w, " * s%d_%d", buffer, a);
        first = false;
    }
    hd_say(w, first ? "0]" : "]");
}

const char *hd_small_name(int dtype) {
    return hd_dtype_is_small_float((hd_dtype)dtype) ? hd_dtype_name((hd_dtype)dtype) : NULL;
}
const char *hd_memory_type(int dtype) {
    return hd_small_name(dtype) == NULL ? type_of(hd_dtype_compute[dtype]) : hd_dtype_bytes[dtype] == 1 ? "u8" : "u16";
}

static void say_word(hd_writer *w, const hd_step *s) {
    if (s->word == HD_WORD_BOTH || s->word == HD_WORD_EITHER) {
        hd_say_value(w, s->operand[0]);
        hd_say(w, s->word == HD_WORD_BOTH ? " & " : " | ");
        hd_say_value(w, s->operand[1]);
        return;
    }
    if (s->word == HD_WORD_UNLESS) {
        hd_say(w, "!");
        hd_say_value(w, s->operand[0]);
        return;
    }
    hd_say(w, "w_");
    for (const char *c = hd_words[s->word].name; *c; ++c) hd_say(w, "%c", tolower((unsigned char)*c));
    hd_say(w, "_%s(", type_of(w->k->steps[s->operand[s->word == HD_WORD_SELECT ? 1 : 0]].type));
    for (int j = 0; j < hd_words[s->word].arity; ++j) {
        if (j > 0) hd_say(w, ", ");
        hd_say_value(w, s->operand[j]);
    }
    hd_say(w, ")");
}

static void say_load(hd_writer *w, const hd_step *s) {
    const char *small = hd_small_name(w->k->buffers[s->index].dtype);
    if (w->tile != NULL && s->index == w->tile_buffer) {
        hd_say(w, "(c_%s)%s", type_of(s->type), w->tile);
        return;
    }
    if (s->operand[1] >= 0) {
        hd_say_value(w, s->operand[1]);
        hd_say(w, " ? ");
    }
    if (small != NULL) hd_say(w, "hd_%s_decode(", small);
    hd_say_element(w, s->index, s->operand[0]);
    if (small != NULL) hd_say(w, ")");
    if (s->operand[1] >= 0) hd_say(w, " : 0");
}

/* A number that is known, as a literal of its type. */
static void say_known(hd_writer *w, const hd_step *s) {
    const uint64_t bits = w->known->numbers[s->index];
    float f32;
    double f64;
    memcpy(&f32, &bits, sizeof f32);
    memcpy(&f64, &bits, sizeof f64);
    if (w->known->is_given[s->index])
        hd_say(w, "m%d", s->index);
    else if (s->type == HD_COMPUTE_F32 || s->type == HD_COMPUTE_F64)
        hd_say_constant(w, s->type, s->type == HD_COMPUTE_F32 ? (double)f32 : f64);
    else
        hd_say(w, "(c_%s)%llu%s", type_of(s->type), (unsigned long long)bits, "u");
}

static void say_number(hd_writer *w, const hd_step *s) {
    if (w->known != NULL)
        say_known(w, s);
    else if (w->packed == NULL)
        hd_say(w, "*(const c_%s *)(numbers + %d)", type_of(s->type), s->index);
    else if (s->type == HD_COMPUTE_F32 || s->type == HD_COMPUTE_F64)
        hd_say(w, "w_unbits_%s((W_BITS_%s)%s.m%d)", type_of(s->type), type_of(s->type), w->packed, s->index);
    else
        hd_say(w, "(c_%s)%s.m%d", type_of(s->type), w->packed, s->index);
}

void hd_say_step(hd_writer *w, const hd_step *s) {
    if (s->word == HD_STEP_LOAD) {
        say_load(w, s);
    } else if (s->word == HD_STEP_INDEX) {
        hd_say(w, "o%d + i%d", s->index, s->index);
    } else if (s->word == HD_STEP_DRAW) {
        const int axis = hd_drawn_axis(s->index);
        hd_say(w, "w_draw_%s(", type_of(s->type));
        hd_say_value(w, s->operand[0]);
        if (axis >= 0) hd_say(w, " + o%d + i%d", axis, axis);
        hd_say(w, ", v%d, v%d)", s->operand[1], s->operand[2]);
    } else if (s->word == HD_WORD_NUMBER) {
        say_number(w, s);
    } else if (s->word == HD_STEP_CAST) {
        hd_say(w, "w_cast_%s_%s(", type_of(s->type), type_of(w->k->steps[s->operand[0]].type));
        hd_say_value(w, s->operand[0]);
        hd_say(w, ")");
    } else if (s->word == HD_STEP_ROUND) {
        const char *small = hd_dtype_name((hd_dtype)s->index);
        hd_say(w, "hd_%s_decode(hd_%s_encode(", small, small);
        hd_say_value(w, s->operand[0]);
        hd_say(w, "))");
    } else {
        say_word(w, s);
    }
}

void hd_say_store(hd_writer *w, const hd_step *s) {
    const char *small = hd_small_name(w->k->buffers[s->index].dtype);
    hd_say_element(w, s->index, -1);
    hd_say(w, " = ");
    if (small != NULL) hd_say(w, "hd_%s_encode(", small);
    hd_say_value(w, s->operand[0]);
    hd_say(w, small != NULL ? ");" : ";");
    hd_say_line_end(w);
}

void hd_say_identity(hd_writer *w, const hd_step *s) {
    static const double identity[] = {0, 1, -INFINITY, INFINITY};
    hd_say_constant(w, s->type == HD_COMPUTE_B8 ? (int)HD_COMPUTE_B8 : s->type,
                    s->type == HD_COMPUTE_B8 ? s->index == HD_KERNEL_MIN || s->index == HD_KERNEL_PROD
                                             : identity[s->index]);
}
