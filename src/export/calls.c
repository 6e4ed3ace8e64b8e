/* Calls that are no kernels, as functions of C: what they share, and those that make, move and pick elements. */
#include "export/net.h"
#include "ops/custom.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the table --------------------------------------------------------------------------------------------------- */
#define OF_VIEW(name)      NULL /* views are headers */
#define OF_CREATE(name)    hd_c_##name
#define OF_RANDOM(name)    hd_c_##name
#define OF_CAST(name)      hd_c_##name
#define OF_REDUCE(name)    hd_c_##name
#define OF_ARGREDUCE(name) hd_c_##name
#define OF_SORT(name)      hd_c_##name
#define OF_SCAN(name)      hd_c_##name
#define OF_MOVE(name)      hd_c_##name
#define OF_INDEX(name)     hd_c_##name
#define OF_CONTRACT(name)  hd_c_##name
#define OF_NORM(name)      hd_c_##name
#define OF_CONV(name)      hd_c_##name
#define OF_POOL(name)      hd_c_##name
#define OF_ATTENTION(name) hd_c_##name
#define OF_LINALG(name)    hd_c_##name
#define OF_CUSTOM(name)    hd_c_##name
static hd_c_op *const ops[HD_OP_COUNT] = {
#define PRIMITIVE(name, family, ...) [HD_OP_##name] = OF_##family(name),
#include "ops/ops.def"
};
hd_c_op *hd_c_op_of(const hd_op *op) { return op->derivative > 0 ? NULL : ops[op->id]; }

hd_error hd_c_refuse(hd_net_call *c, const char *why) {
    c->refusal = why;
    return HD_OK;
}
#define REFUSED(name, why)                                                                                             \
    hd_error hd_c_##name(hd_net_call *c) { return hd_c_refuse(c, why); }
#include "export/refused.def"

#define BY_KERNEL(name)                                                                                                \
    hd_error hd_c_##name(hd_net_call *c) { return hd_c_by_kernel(c); }
BY_KERNEL(uniform)
BY_KERNEL(normal)
BY_KERNEL(randint)

/* ---- expressions ------------------------------------------------------------------------------------------------- */
static char *next_text(hd_net_call *c) {
    c->text = (c->text + 1) % (int)(sizeof c->texts / sizeof c->texts[0]);
    return c->texts[c->text];
}

/* What has no room is no C: it is refused. */
static void keep_within(hd_net_call *c, size_t length) {
    if (length >= sizeof c->texts[0]) c->refusal = "its indices are longer than there is room for";
}

const char *hd_c_at(hd_net_call *c, const char *name, const hd_tensor *t, const char *const *index) {
    char *out = next_text(c);
    const size_t most = sizeof c->texts[0];
    size_t n = (size_t)snprintf(out, most, "%s[", name);
    const char *between = "";
    for (int i = 0; i < t->layout.shape.rank && n < most; ++i) {
        const int64_t stride = t->layout.stride[i];
        if (stride == 0 || strcmp(index[i], "0") == 0) continue;
        n += (size_t)snprintf(out + n, most - n, stride == 1 ? "%s%s" : "%s%s * %lld", between, index[i],
                              (long long)stride);
        between = " + ";
    }
    if (n < most) n += (size_t)snprintf(out + n, most - n, between[0] == '\0' ? "0]" : "]");
    keep_within(c, n);
    return out;
}

const char *hd_c_value(hd_net_call *c, const char *name, const hd_tensor *t, const char *const *index) {
    const char *at = hd_c_at(c, name, t, index);
    if (!hd_dtype_is_small_float((hd_dtype)t->dtype)) return at;
    char *out = next_text(c);
    c->net->words->small = true;
    keep_within(c,
                (size_t)snprintf(out, sizeof c->texts[0], "hd_%s_decode(%s)", hd_dtype_name((hd_dtype)t->dtype), at));
    return out;
}

void hd_c_store(hd_net_call *c, hd_dtype dtype, const char *place, const char *value) {
    const bool small = hd_dtype_is_small_float(dtype);
    c->net->words->small = c->net->words->small || small;
    if (small)
        hd_c_text_line(c->t, "%s = hd_%s_encode(%s);", place, hd_dtype_name(dtype), value);
    else
        hd_c_text_line(c->t, "%s = %s;", place, value);
}

int hd_c_open_axes(hd_net_call *c, const hd_shape *shape, int first, int end, int without, char letter,
                   hd_c_names names, const char **index) {
    int loops = 0;
    for (int i = first; i < end; ++i) {
        index[i] = "0";
        if (i == without || shape->size[i] == 1) continue;
        snprintf(names[i], sizeof names[i], "%c%d", letter, i);
        index[i] = names[i];
        hd_c_text_open(c->t, "for (int32_t %s = 0; %s < %lld; ++%s)", names[i], names[i], (long long)shape->size[i],
                       names[i]);
        loops++;
    }
    return loops;
}

void hd_c_close(hd_net_call *c, int loops) {
    while (loops-- > 0) hd_c_text_close(c->t);
}

hd_error hd_c_use(hd_net_call *c, hd_word word, hd_dtype dtype) {
    return hd_vocabulary_use(c->net->words, word, (int)hd_dtype_compute[dtype]);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */
static void fill(hd_net_call *c, const void *element) {
    hd_c_text literal = {.at = NULL};
    const hd_tensor *y = hd_c_out(c, 0);
    hd_say_element_of(&literal, (hd_dtype)y->dtype, element);
    hd_c_text_open(c->t, "for (int32_t i = 0; i < %lld; ++i)", (long long)y->count);
    hd_c_text_line(c->t, "y0[i] = %s;", hd_c_text_string(&literal));
    hd_c_text_close(c->t);
    hd_c_text_release(&literal);
}
static void fill_value(hd_net_call *c, double value) {
    uint64_t element = 0;
    hd_element_from_f64(&element, (hd_dtype)hd_c_out(c, 0)->dtype, value);
    fill(c, &element);
}

hd_error hd_c_full(hd_net_call *c) {
    fill_value(c, ((const hd_full_attributes *)c->call->attributes)->value);
    return HD_OK;
}
hd_error hd_c_empty(hd_net_call *c) {
    hd_c_text_line(c->t, "(void)y0;");
    return HD_OK;
}

/* The elements are computed here: they are a constant. */
hd_error hd_c_range(hd_net_call *c) {
    const hd_range_attributes *a = c->call->attributes;
    const hd_tensor *y = hd_c_out(c, 0);
    hd_c_text_open(c->t, "static const %s elements[%lld] =", hd_c_type((hd_dtype)y->dtype), (long long)y->count);
    HD_SCOPE;
    hd_tensor *x = hd_range(a->start, a->step, y->count, (hd_dtype)y->dtype);
    const char *bytes = x == NULL ? NULL : hd_tensor_bytes(c->net->thread, x, HD_READ);
    for (int64_t i = 0; bytes != NULL && i < y->count; ++i) {
        char last[8] = {0};
        const size_t size = hd_dtype_bytes[y->dtype];
        if (a->has_last) hd_element_from_f64(last, (hd_dtype)y->dtype, a->last);
        hd_c_text_say(c->t, "%s", i % 8 == 0 ? "        " : " ");
        hd_say_element_of(c->t, (hd_dtype)y->dtype, a->has_last && i == y->count - 1 ? last : bytes + (size_t)i * size);
        hd_c_text_say(c->t, i % 8 == 7 || i + 1 == y->count ? ",\n" : ",");
    }
    if (bytes == NULL) return c->net->thread->error_code;
    c->t->indent--;
    hd_c_text_line(c->t, "};");
    hd_c_text_open(c->t, "for (int32_t i = 0; i < %lld; ++i)", (long long)y->count);
    hd_c_text_line(c->t, "y0[i] = elements[i];");
    hd_c_text_close(c->t);
    return HD_OK;
}

/* ---- types ------------------------------------------------------------------------------------------------------- */
/* To a small float from what f32 does not have: through odd numbers, so that it is rounded once. */
hd_error hd_c_cast(hd_net_call *c) {
    const hd_tensor *x = hd_c_in(c, 0), *y = hd_c_out(c, 0);
    const hd_dtype from = (hd_dtype)x->dtype, to = (hd_dtype)y->dtype;
    if (!hd_dtype_is_small_float(to) || hd_dtype_is_small_float(from) || from == HD_F32) return hd_c_by_kernel(c);
    hd_c_names names;
    const char *index[HD_MAX_RANK] = {"0"};
    char value[256];
    const int loops = hd_c_open_axes(c, &y->layout.shape, 0, y->layout.shape.rank, -1, 'i', names, index);
    const char *read = hd_c_at(c, "x0", x, index);
    const bool is_long = from == HD_I64 || from == HD_U64;
    snprintf(value, sizeof value,
             from == HD_F64   ? "hd_f32_round_to_odd(%s)"
             : !is_long       ? "hd_f32_round_to_odd((double)%s)"
             : from == HD_I64 ? "hd_f32_round_to_odd(hd_i64_sticky(%s))"
                              : "hd_f32_round_to_odd(hd_u64_sticky(%s))",
             read);
    hd_c_store(c, to, hd_c_at(c, "y0", y, index), value);
    hd_c_close(c, loops);
    return HD_OK;
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */
typedef enum reduction { OF_SUM, OF_PROD, OF_MAX, OF_MIN, OF_ANY, OF_ALL } reduction;

/* Of a tensor without axes, or with as many as kernels have: plain loops. */
static hd_error reduce_plainly(hd_net_call *c, reduction how) {
    const hd_reduce_attributes *a = c->call->attributes;
    const hd_tensor *x = hd_c_in(c, 0), *y = hd_c_out(c, 0);
    const hd_dtype dtype = (hd_dtype)y->dtype;
    const int rank = x->layout.shape.rank;
    const bool is_wide = how <= OF_PROD && hd_dtype_is_float(dtype);
    const char *type = is_wide ? "double" : hd_c_compute_type(dtype), *value, *index[HD_MAX_RANK] = {"0"},
               *to[HD_MAX_RANK] = {"0"};
    char result[64], names[HD_MAX_RANK][16];
    int loops = 0, inner = 0, rest = 0;
    for (int pass = 0; pass < 2; ++pass) { /* kept axes, then reduced ones */
        for (int i = 0; i < rank; ++i) {
            if (a->reduced[i] != (pass == 1)) continue;
            snprintf(names[i], sizeof names[i], "i%d", i);
            index[i] = names[i];
            hd_c_text_open(c->t, "for (int32_t i%d = 0; i%d < %lld; ++i%d)", i, i, (long long)x->layout.shape.size[i],
                           i);
            ++*(pass == 0 ? &loops : &inner);
        }
        if (pass == 0)
            hd_c_text_line(c->t, "%s total = %d;\n    int first = 1;", type, how == OF_PROD || how == OF_ALL);
    }
    value = hd_c_value(c, "x0", x, index);
    if (how == OF_ANY || how == OF_ALL)
        hd_c_text_line(c->t, "total = (uint8_t)(total %c (%s != 0));", how == OF_ANY ? '|' : '&', value);
    else if (how <= OF_PROD)
        hd_c_text_line(c->t, "total %c= (%s)%s;", how == OF_SUM ? '+' : '*', type, value);
    else
        hd_c_text_line(c->t, "if (first || %s %c total || %s != %s) total = %s;", value, how == OF_MAX ? '>' : '<',
                       value, value, value);
    hd_c_text_line(c->t, "first = 0;");
    hd_c_close(c, inner);
    for (int i = 0; i < rank; ++i)
        if (!a->reduced[i] || a->keep_dims) to[rest++] = a->reduced[i] ? "0" : index[i];
    hd_c_text_line(c->t, "(void)first;");
    snprintf(result, sizeof result, "(%s)total", hd_c_compute_type(dtype));
    hd_c_store(c, dtype, hd_c_at(c, "y0", y, to), result);
    hd_c_close(c, loops);
    return HD_OK;
}

static hd_error reduce(hd_net_call *c, reduction how, double identity) {
    if (hd_c_in(c, 0)->count == 0) {
        fill_value(c, identity); /* of nothing */
        return HD_OK;
    }
    HD_TRY(hd_c_by_kernel(c));
    if (c->refusal == NULL) return HD_OK;
    c->refusal = NULL;
    return reduce_plainly(c, how);
}
#define REDUCTION(name, how, identity)                                                                                 \
    hd_error hd_c_##name(hd_net_call *c) { return reduce(c, how, identity); }
REDUCTION(sum, OF_SUM, 0)
REDUCTION(prod, OF_PROD, 1)
REDUCTION(max, OF_MAX, -HUGE_VAL)
REDUCTION(min, OF_MIN, HUGE_VAL)
REDUCTION(any, OF_ANY, 0)
REDUCTION(all, OF_ALL, 1)

/* ---- moving ------------------------------------------------------------------------------------------------------ */
/* y[begin + i] = x[i], of one dtype. */
static void copy(hd_net_call *c, const char *to, const hd_tensor *y, const int64_t *begin, const char *from,
                 const hd_tensor *x) {
    hd_c_names names;
    const char *index[HD_MAX_RANK] = {"0"}, *there[HD_MAX_RANK] = {"0"};
    char sums[HD_MAX_RANK][32];
    if (x->count == 0) return;
    const int loops = hd_c_open_axes(c, &x->layout.shape, 0, x->layout.shape.rank, -1, 'i', names, index);
    for (int i = 0; i < x->layout.shape.rank; ++i) {
        there[i] = index[i];
        if (begin == NULL || begin[i] == 0) continue;
        if (strcmp(index[i], "0") == 0)
            snprintf(sums[i], sizeof sums[i], "%lld", (long long)begin[i]);
        else
            snprintf(sums[i], sizeof sums[i], "(%s + %lld)", index[i], (long long)begin[i]);
        there[i] = sums[i];
    }
    hd_c_text_line(c->t, "%s = %s;", hd_c_at(c, to, y, there), hd_c_at(c, from, x, index));
    hd_c_close(c, loops);
}

hd_error hd_c_contiguous(hd_net_call *c) {
    copy(c, "y0", hd_c_out(c, 0), NULL, "x0", hd_c_in(c, 0));
    return HD_OK;
}

hd_error hd_c_concat(hd_net_call *c) {
    const int axis = ((const hd_axis_attributes *)c->call->attributes)->axis;
    int64_t begin[HD_MAX_RANK] = {0};
    for (int k = 0; k < c->call->input_count; ++k) {
        char name[16];
        snprintf(name, sizeof name, "x%d", k);
        copy(c, "y0", hd_c_out(c, 0), begin, name, hd_c_in(c, k));
        begin[axis] += hd_c_in(c, k)->layout.shape.size[axis];
    }
    return HD_OK;
}

/* What is around the part that was there before. */
static void pad_border(hd_net_call *c, const hd_pad_attributes *a) {
    const hd_tensor *y = hd_c_out(c, 0);
    hd_c_names names;
    const char *index[HD_MAX_RANK] = {"0"}, *between = "";
    hd_c_text inside = {.at = NULL}, literal = {.at = NULL};
    uint64_t element = 0;
    const int rank = y->layout.shape.rank;
    hd_element_from_f64(&element, (hd_dtype)y->dtype, a->value);
    hd_say_element_of(&literal, (hd_dtype)y->dtype, &element);
    const int loops = hd_c_open_axes(c, &y->layout.shape, 0, rank, -1, 'i', names, index);
    for (int i = 0; i < rank; ++i) {
        const int64_t before = a->padding[i].before, end = y->layout.shape.size[i] - a->padding[i].after;
        if (before > 0) {
            hd_c_text_say(&inside, "%s%s >= %lld", between, index[i], (long long)before);
            between = " && ";
        }
        if (end < y->layout.shape.size[i]) {
            hd_c_text_say(&inside, "%s%s < %lld", between, index[i], (long long)end);
            between = " && ";
        }
    }
    if (inside.count > 0)
        hd_c_text_line(c->t, "if (!(%s)) %s = %s;", inside.at, hd_c_at(c, "y0", y, index), hd_c_text_string(&literal));
    hd_c_close(c, loops);
    c->t->failed = c->t->failed || inside.failed || literal.failed;
    hd_c_text_release(&inside);
    hd_c_text_release(&literal);
}

hd_error hd_c_pad_border(hd_net_call *c) {
    pad_border(c, c->call->attributes);
    return HD_OK;
}

hd_error hd_c_pad(hd_net_call *c) {
    const hd_pad_attributes *a = c->call->attributes;
    hd_tensor inner = *hd_c_in(c, 0); /* what negative padding leaves */
    int64_t begin[HD_MAX_RANK] = {0}, shift = 0;
    inner.count = 1;
    for (int i = 0; i < inner.layout.shape.rank; ++i) {
        const int64_t before = a->padding[i].before, after = a->padding[i].after;
        begin[i] = before > 0 ? before : 0;
        if (before < 0) shift -= before * inner.layout.stride[i];
        inner.layout.shape.size[i] += (before < 0 ? before : 0) + (after < 0 ? after : 0);
        if (inner.layout.shape.size[i] < 0) inner.layout.shape.size[i] = 0;
        inner.count *= inner.layout.shape.size[i];
    }
    pad_border(c, a);
    if (shift != 0) hd_c_text_line(c->t, "x0 += %lld;", (long long)shift);
    copy(c, "y0", hd_c_out(c, 0), begin, "x0", &inner);
    return HD_OK;
}

/* ---- picking ----------------------------------------------------------------------------------------------------- */
/* All of an index lie in [-bound, bound). */
static void check_index(hd_net_call *c, const char *name, const hd_tensor *index, int64_t bound) {
    hd_c_names names;
    const char *at[HD_MAX_RANK] = {"0"};
    hd_c_text place = {.at = NULL};
    const bool is_signed = hd_dtype_is_signed((hd_dtype)index->dtype);
    int64_t step[HD_MAX_RANK], all = 1;
    c->can_fail = true;
    c->why = "an index out of range";
    if (index->count == 0) return;
    for (int i = index->layout.shape.rank; i-- > 0; all *= index->layout.shape.size[i]) step[i] = all;
    const int loops = hd_c_open_axes(c, &index->layout.shape, 0, index->layout.shape.rank, -1, 'e', names, at);
    for (int i = 0; i < index->layout.shape.rank; ++i)
        if (strcmp(at[i], "0") != 0) hd_c_text_say(&place, "%s * %lld + ", at[i], (long long)step[i]);
    const char *read = hd_c_at(c, name, index, at), *result = hd_c_text_string(&place);
    /* a variable, and bounds that are none apart: compilers warn of a comparison that a type or 0 decides */
    if (bound == 0)
        hd_c_text_line(c->t, "return %s1;", result);
    else if (is_signed)
        hd_c_text_line(c->t, "const int64_t at = %s;", read);
    else
        hd_c_text_line(c->t, "const uint64_t at = %s;", read);
    if (bound > 0 && is_signed)
        hd_c_text_line(c->t, "if (at < -%lld || at >= %lld) return %s1;", (long long)bound, (long long)bound, result);
    else if (bound > 0)
        hd_c_text_line(c->t, "if (at >= %lldu) return %s1;", (long long)bound, result);
    hd_c_close(c, loops);
    c->t->failed = c->t->failed || place.failed;
    hd_c_text_release(&place);
}

hd_error hd_c_check_index(hd_net_call *c, int64_t bound) {
    check_index(c, "x0", hd_c_in(c, 0), bound);
    hd_c_text_line(c->t, "return 0;");
    return HD_OK;
}

hd_error hd_c_check_guard(hd_net_call *c, const char *test, const char *why) {
    const hd_tensor *x = hd_c_in(c, 0);
    hd_c_names names;
    const char *at[HD_MAX_RANK] = {"0"};
    c->can_fail = true;
    c->why = why;
    hd_c_text_line(c->t, "int32_t place = 0;");
    const int loops = hd_c_open_axes(c, &x->layout.shape, 0, x->layout.shape.rank, -1, 'i', names, at);
    hd_c_text_line(c->t, "++place;");
    hd_c_text_line(c->t, "if (%s %s) return place;", hd_c_at(c, "x0", x, at), test);
    hd_c_close(c, loops);
    hd_c_text_line(c->t, "return 0;");
    return HD_OK;
}

/* int32_t at = index, counted from the end where it is negative. */
static void say_position(hd_net_call *c, const char *name, const hd_tensor *index, const char *const *at,
                         int64_t bound) {
    hd_c_text_line(c->t, "int32_t at = (int32_t)%s;", hd_c_at(c, name, index, at));
    if (hd_dtype_is_signed((hd_dtype)index->dtype)) hd_c_text_line(c->t, "at += at < 0 ? %lld : 0;", (long long)bound);
}

/* y at i is x at i, but on the axis an index says which: one for each element, or for each place there. */
static hd_error look_up(hd_net_call *c, bool for_each) {
    const int axis = ((const hd_axis_attributes *)c->call->attributes)->axis;
    const hd_tensor *x = hd_c_in(c, 0), *index = hd_c_in(c, 1), *y = hd_c_out(c, 0);
    const int64_t bound = x->layout.shape.size[axis];
    hd_c_names names;
    const char *at[HD_MAX_RANK] = {"0"}, *from[HD_MAX_RANK] = {"0"};
    check_index(c, "x1", index, bound);
    const int loops = hd_c_open_axes(c, &y->layout.shape, 0, y->layout.shape.rank, -1, 'i', names, at);
    say_position(c, "x1", index, for_each ? at : at + axis, bound);
    memcpy(from, at, sizeof from);
    from[axis] = "at";
    hd_c_text_line(c->t, "%s = %s;", hd_c_at(c, "y0", y, at), hd_c_at(c, "x0", x, from));
    hd_c_close(c, loops);
    hd_c_text_line(c->t, "return 0;");
    return HD_OK;
}
hd_error hd_c_gather(hd_net_call *c) { return look_up(c, true); }
hd_error hd_c_index_select(hd_net_call *c) { return look_up(c, false); }

/* How an element meets what is there. */
static const char *combined(hd_net_call *c, hd_scatter_mode mode, hd_dtype dtype, const char *a, const char *b,
                            char *out, size_t capacity) {
    static const hd_word words[] = {[HD_SCATTER_ADD] = HD_WORD_ADD,
                                    [HD_SCATTER_MUL] = HD_WORD_MUL,
                                    [HD_SCATTER_MAX] = HD_WORD_MAX,
                                    [HD_SCATTER_MIN] = HD_WORD_MIN};
    static const char *const names[] = {
        [HD_SCATTER_ADD] = "add", [HD_SCATTER_MUL] = "mul", [HD_SCATTER_MAX] = "max", [HD_SCATTER_MIN] = "min"};
    if (mode == HD_SCATTER_SET) return b;
    if (dtype == HD_BOOL) { /* sums and products are truths */
        const bool either = mode == HD_SCATTER_ADD || mode == HD_SCATTER_MAX;
        snprintf(out, capacity, "(uint8_t)(%s %c %s)", a, either ? '|' : '&', b);
        return out;
    }
    const hd_compute type = hd_dtype_compute[dtype];
    if (hd_vocabulary_use(c->net->words, words[mode], (int)type) != HD_OK) return b;
    snprintf(out, capacity, "w_%s_%s(%s, %s)", names[mode], hd_ir_type_name((int)type), a, b);
    return out;
}

/* Small floats meet in f32, in memory to work in, and are rounded once. */
hd_error hd_c_scatter(hd_net_call *c) {
    const hd_scatter_attributes *a = c->call->attributes;
    const hd_tensor *x = hd_c_in(c, 0), *index = hd_c_in(c, 1), *source = hd_c_in(c, 2), *y = hd_c_out(c, 0);
    const hd_dtype dtype = (hd_dtype)y->dtype;
    const int64_t bound = x->layout.shape.size[a->axis];
    const bool wide = hd_dtype_is_small_float(dtype) && a->mode != HD_SCATTER_SET;
    hd_c_names names;
    const char *at[HD_MAX_RANK] = {"0"}, *to[HD_MAX_RANK] = {"0"};
    char text[300];
    check_index(c, "x1", index, bound);
    hd_tensor sums = *y;
    if (wide) {
        sums.dtype = HD_F32;
        c->workspace = (size_t)y->count * sizeof(float);
        hd_c_text_line(c->t, "float *sums = (float *)w;");
    }
    int loops = hd_c_open_axes(c, &y->layout.shape, 0, y->layout.shape.rank, -1, 'i', names, at);
    hd_c_text_line(c->t, "%s = %s;", hd_c_at(c, wide ? "sums" : "y0", &sums, at),
                   wide ? hd_c_value(c, "x0", x, at) : hd_c_at(c, "x0", x, at));
    hd_c_close(c, loops);
    loops = hd_c_open_axes(c, &source->layout.shape, 0, source->layout.shape.rank, -1, 'i', names, at);
    say_position(c, "x1", index, at, bound);
    memcpy(to, at, sizeof to);
    to[a->axis] = "at";
    const char *place = hd_c_at(c, wide ? "sums" : "y0", &sums, to);
    const char *element = wide ? hd_c_value(c, "x2", source, at) : hd_c_at(c, "x2", source, at);
    hd_c_text_line(c->t, "%s = %s;", place,
                   combined(c, a->mode, wide ? HD_F32 : dtype, place, element, text, sizeof text));
    hd_c_close(c, loops);
    if (wide) {
        loops = hd_c_open_axes(c, &y->layout.shape, 0, y->layout.shape.rank, -1, 'i', names, at);
        hd_c_store(c, dtype, hd_c_at(c, "y0", y, at), hd_c_at(c, "sums", &sums, at));
        hd_c_close(c, loops);
    }
    hd_c_text_line(c->t, "return 0;");
    return HD_OK;
}
