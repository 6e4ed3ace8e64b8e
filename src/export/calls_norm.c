/* Normalised rows and their gradients in C, as the CPU makes them: small processors have no double precision, so that
 * elements meet what they have themselves, and sums go on in f64 after some elements. A row is read twice, the second
 * time around its mean, so that nothing cancels; what the mean lost when it was rounded is `rest`. With d = x - mean
 * (rms: x) and s = 1 / sqrt(variance + eps):
 *     rows        (d s - rest s) weight + bias
 *     gradient    s ((h - shift) - d slope), h = g weight, with sums of h and of h d in shift and slope
 *     parameters  sums over rows of g (d s - rest s), and of g */
#include "export/net.h"

#include <stdio.h>
#include <string.h>

enum { PART = 64 }; /* elements that are summed in their own type */

typedef struct rows { /* what is normalised, as rows of n elements */
    int first;        /* axes in front of it */
    int rank;
    int64_t n, count; /* count: of rows */
    const hd_tensor *x;
    const char *name;
    bool centered;
    hd_dtype dtype;       /* of the result */
    const char *type, *f; /* "float", "f32" */
    double eps;
} rows;

static rows describe(const hd_net_call *c, int which, bool centered) {
    const hd_norm_attributes *a = c->call->attributes;
    const hd_tensor *x = hd_c_in(c, which);
    const hd_dtype dtype = c->call->dtype[0];
    rows r = {.rank = x->layout.shape.rank,
              .n = 1,
              .x = x,
              .name = which == 0 ? "x0" : "x1",
              .centered = centered,
              .dtype = dtype,
              .type = hd_c_compute_type(dtype),
              .f = dtype == HD_F64 ? "f64" : "f32",
              .eps = a->eps};
    r.first = r.rank - a->axes;
    for (int i = r.first; i < r.rank; ++i) r.n *= x->layout.shape.size[i];
    r.count = r.n > 0 ? x->count / r.n : 0;
    return r;
}

/* Of weight and bias, whose axes are the last ones. */
static const char *const *tail(const rows *r, const char *const *index) { return index + r->first; }

/* double <name> = the sum of a value over the elements of a row, for `count` of them at once. */
static void say_sums(hd_net_call *c, const rows *r, int count, const char *const *name, char (*value)[1200],
                     hd_c_names names, const char **index) {
    const int last = r->rank - 1;
    const long long n = r->x->layout.shape.size[last];
    const char *i = names[last];
    for (int k = 0; k < count; ++k) hd_c_text_line(c->t, "double %s = 0;", name[k]);
    int loops = hd_c_open_axes(c, &r->x->layout.shape, r->first, last, -1, 'j', names, index);
    if (n > PART) {
        hd_c_text_open(c->t, "for (int32_t begin = 0; begin < %lld; begin += %d)", n, PART);
        hd_c_text_line(c->t, "const int32_t end = begin + %d < %lld ? begin + %d : %lld;", PART, n, PART, n);
        loops++;
    }
    for (int k = 0; k < count; ++k) hd_c_text_line(c->t, "%s part_of_%s = 0;", r->type, name[k]);
    if (n > PART) hd_c_text_open(c->t, "for (int32_t %s = begin; %s < end; ++%s)", i, i, i);
    if (n > 1 && n <= PART) hd_c_text_open(c->t, "for (int32_t %s = 0; %s < %lld; ++%s)", i, i, n, i);
    for (int k = 0; k < count; ++k) hd_c_text_line(c->t, "part_of_%s += %s;", name[k], value[k]);
    if (n > 1) hd_c_text_close(c->t);
    for (int k = 0; k < count; ++k) hd_c_text_line(c->t, "%s += (double)part_of_%s;", name[k], name[k]);
    hd_c_close(c, loops);
}

/* Names of the axes of a row, before loops over them are opened. */
static void name_axes(const rows *r, hd_c_names names, const char **index) {
    for (int i = r->first; i < r->rank; ++i) {
        snprintf(names[i], sizeof names[i], "j%d", i);
        index[i] = r->x->layout.shape.size[i] == 1 ? "0" : names[i];
    }
}

/* An element of x around the mean of its row. */
static void say_centered(hd_net_call *c, const rows *r, const char *const *index, char *out, size_t capacity) {
    const char *x = hd_c_value(c, r->name, r->x, index);
    snprintf(out, capacity, r->centered ? "((%s)%s - mean)" : "(%s)%s", r->type, x);
}

/* mean, rest and scale of the row where the loops are; `index` has what is in front. */
static hd_error say_statistics(hd_net_call *c, const rows *r, hd_c_names names, const char **index) {
    const char *const sums[] = {"left", "squares"}, *total = "total";
    char value[2][1200], d[400];
    const long long n = (long long)r->n;
    name_axes(r, names, index);
    HD_TRY(hd_c_use(c, HD_WORD_SQRT, r->dtype == HD_F64 ? HD_F64 : HD_F32));
    if (r->centered) {
        snprintf(value[0], sizeof value[0], "(%s)%s", r->type, hd_c_value(c, r->name, r->x, index));
        say_sums(c, r, 1, &total, value, names, index);
        hd_c_text_line(c->t, "const %s mean = (%s)(total / %lld.0);", r->type, r->type, n);
    }
    say_centered(c, r, index, d, sizeof d);
    snprintf(value[0], sizeof value[0], "%s", d);
    snprintf(value[1], sizeof value[1], "%s * %s", d, d);
    say_sums(c, r, r->centered ? 2 : 1, r->centered ? sums : sums + 1, r->centered ? value : value + 1, names, index);
    if (r->centered) {
        hd_c_text_line(c->t, "const double rest = left / %lld.0, variance = squares / %lld.0 - rest * rest;", n, n);
        hd_c_text_line(c->t, "const %s scale = 1 / w_sqrt_%s((%s)((variance < 0 ? 0 : variance) + %.17g));", r->type,
                       r->f, r->type, r->eps);
    } else {
        hd_c_text_line(c->t, "const %s scale = 1 / w_sqrt_%s((%s)(squares / %lld.0 + %.17g));", r->type, r->f, r->type,
                       n, r->eps);
    }
    return HD_OK;
}

/* What the normalised elements of the row have in common, and one of them where the loops are. */
static void say_shift(hd_net_call *c, const rows *r) {
    if (r->centered) hd_c_text_line(c->t, "const %s shift = (%s)(-rest) * scale;", r->type, r->type);
}
static void say_normal(hd_net_call *c, const rows *r, const char *const *index, char *out, size_t capacity) {
    char d[400];
    say_centered(c, r, index, d, sizeof d);
    snprintf(out, capacity, r->centered ? "(%s * scale + shift)" : "(%s * scale)", d);
}

static hd_error say_rows(hd_net_call *c, bool centered) {
    const rows r = describe(c, 0, centered);
    hd_c_names names;
    const char *index[HD_MAX_RANK] = {"0"};
    char value[1200];
    size_t at;
    if (hd_c_out(c, 0)->count == 0) return hd_c_empty(c);
    const int outer = hd_c_open_axes(c, &r.x->layout.shape, 0, r.first, -1, 'i', names, index);
    HD_TRY(say_statistics(c, &r, names, index));
    say_shift(c, &r);
    const int inner = hd_c_open_axes(c, &r.x->layout.shape, r.first, r.rank, -1, 'j', names, index);
    say_normal(c, &r, index, value, sizeof value);
    for (int i = 1; i < c->call->input_count; ++i) {
        at = strlen(value);
        snprintf(value + at, sizeof value - at, " %s (%s)%s", i == 1 ? "*" : "+", r.type,
                 hd_c_value(c, i == 1 ? "x1" : "x2", hd_c_in(c, i), tail(&r, index)));
    }
    hd_c_store(c, r.dtype, hd_c_at(c, "y0", hd_c_out(c, 0), index), value);
    hd_c_close(c, inner + outer);
    return HD_OK;
}

static hd_error say_gradient(hd_net_call *c, bool centered) {
    const rows r = describe(c, 1, centered);
    const char *const sums[] = {"slopes", "turned"};
    const long long n = (long long)r.n;
    hd_c_names names;
    const char *index[HD_MAX_RANK] = {"0"};
    char d[400], h[600], value[2][1200];
    if (hd_c_out(c, 0)->count == 0) return hd_c_empty(c);
    const int outer = hd_c_open_axes(c, &r.x->layout.shape, 0, r.first, -1, 'i', names, index);
    HD_TRY(say_statistics(c, &r, names, index));
    say_centered(c, &r, index, d, sizeof d);
    snprintf(h, sizeof h, "(%s)%s", r.type, hd_c_value(c, "x0", hd_c_in(c, 0), index));
    if (c->call->input_count > 2) {
        const size_t at = strlen(h);
        snprintf(h + at, sizeof h - at, " * (%s)%s", r.type, hd_c_value(c, "x2", hd_c_in(c, 2), tail(&r, index)));
    }
    snprintf(value[0], sizeof value[0], "%s", h);
    snprintf(value[1], sizeof value[1], "%s * %s", h, d);
    say_sums(c, &r, centered ? 2 : 1, centered ? sums : sums + 1, centered ? value : value + 1, names, index);
    hd_c_text_line(c->t, "const double along = (turned%s) / %lld.0 * (double)scale * (double)scale;",
                   centered ? " - rest * slopes" : "", n);
    hd_c_text_line(c->t, "const %s slope = (%s)along;", r.type, r.type);
    if (centered) hd_c_text_line(c->t, "const %s shift = (%s)(slopes / %lld.0 - rest * along);", r.type, r.type, n);
    const int inner = hd_c_open_axes(c, &r.x->layout.shape, r.first, r.rank, -1, 'j', names, index);
    snprintf(value[0], sizeof value[0], "((%s%s) - %s * slope) * scale", h, centered ? " - shift" : "", d);
    hd_c_store(c, r.dtype, hd_c_at(c, "y0", hd_c_out(c, 0), index), value[0]);
    hd_c_close(c, inner + outer);
    return HD_OK;
}

/* Sums over rows, in memory to work in: of many rows in f64. */
static hd_error say_parameters(hd_net_call *c, bool centered) {
    const rows r = describe(c, 1, centered);
    const bool many = r.count > PART || r.dtype == HD_F64;
    const char *sum = many ? "double" : r.type;
    hd_c_names names;
    const char *index[HD_MAX_RANK] = {"0"};
    char normal[500], place[128];
    const int64_t width = (centered ? 2 : 1) * r.n;
    if (hd_c_out(c, 0)->count == 0) return hd_c_empty(c);
    c->workspace = (size_t)width * (many ? sizeof(double) : sizeof(float));
    hd_c_text_line(c->t, "%s *sums = (%s *)w;", sum, sum);
    hd_c_text_line(c->t, "for (int32_t i = 0; i < %lld; ++i) sums[i] = 0;", (long long)width);
    const int outer = hd_c_open_axes(c, &r.x->layout.shape, 0, r.first, -1, 'i', names, index);
    HD_TRY(say_statistics(c, &r, names, index));
    say_shift(c, &r);
    hd_c_text_line(c->t, "%s *sum = sums;", sum);
    const int inner = hd_c_open_axes(c, &r.x->layout.shape, r.first, r.rank, -1, 'j', names, index);
    say_normal(c, &r, index, normal, sizeof normal);
    hd_c_text_line(c->t, "const %s g = (%s)%s;", r.type, r.type, hd_c_value(c, "x0", hd_c_in(c, 0), index));
    hd_c_text_line(c->t, "*sum += (%s)(g * %s);", sum, normal);
    if (centered) hd_c_text_line(c->t, "sum[%lld] += (%s)g;", (long long)r.n, sum);
    hd_c_text_line(c->t, "++sum;");
    hd_c_close(c, inner + outer);
    hd_c_text_open(c->t, "for (int32_t i = 0; i < %lld; ++i)", (long long)width);
    snprintf(place, sizeof place, "(%s)sums[i]", r.type);
    hd_c_store(c, r.dtype, "y0[i]", place);
    hd_c_text_close(c->t);
    return HD_OK;
}

#define NORM(name, what, centered)                                                                                     \
    hd_error hd_c_##name(hd_net_call *c) { return say_##what(c, centered); }
NORM(layer_norm, rows, true)
NORM(layer_norm_gradient, gradient, true)
NORM(layer_norm_weight_gradient, parameters, true)
NORM(rms_norm, rows, false)
NORM(rms_norm_gradient, gradient, false)
NORM(rms_norm_weight_gradient, parameters, false)
