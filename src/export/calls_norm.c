/* Normalised rows and their gradients in C. Sums of f32 go on in f64 after some elements. With d = x - mean (rms: x) and
 * s = 1 / sqrt(mean(d^2) + eps):
 *     rows        d s weight + bias
 *     gradient    s (h - mean(h) - d s mean(h d s)), h = g weight; rms has no mean(h)
 *     parameters  sums over rows of g d s, and of g */
#include "export/net.h"

#include <stdio.h>
#include <string.h>

typedef struct rows { /* what is normalised, as rows of n elements */
    int first;        /* axes in front of it */
    int rank;
    int64_t n;
    const hd_tensor *x;
    const char *name;
    bool centered;
    hd_dtype dtype; /* of the result */
    const char *type, *wide;
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
              .wide = "double",
              .eps = a->eps};
    r.first = r.rank - a->axes;
    for (int i = r.first; i < r.rank; ++i) r.n *= x->layout.shape.size[i];
    return r;
}

/* wide name = the sum of `value` over the elements of a row. */
static void say_sum(hd_net_call *c, const rows *r, const char *name, const char *value, hd_c_names names,
                    const char **index) {
    hd_c_text_line(c->t, "%s %s = 0;", r->wide, name);
    const int loops = hd_c_open_axes(c, &r->x->layout.shape, r->first, r->rank, -1, 'j', names, index);
    hd_c_text_line(c->t, "%s += (%s)(%s);", name, r->wide, value);
    hd_c_close(c, loops);
}

/* mean and scale of the row where the loops are; `index` has what is in front. */
static hd_error say_statistics(hd_net_call *c, const rows *r, hd_c_names names, const char **index) {
    char value[700], x[300];
    for (int i = r->first; i < r->rank; ++i) {
        snprintf(names[i], sizeof names[i], "j%d", i);
        index[i] = r->x->layout.shape.size[i] == 1 ? "0" : names[i];
    }
    snprintf(x, sizeof x, "%s", hd_c_value(c, r->name, r->x, index));
    HD_TRY(hd_c_use(c, HD_WORD_SQRT, HD_F64));
    if (r->centered) {
        say_sum(c, r, "total", x, names, index);
        hd_c_text_line(c->t, "const double mean = total / %lld.0;", (long long)r->n);
        snprintf(value, sizeof value, "((double)%s - mean) * ((double)%s - mean)", x, x);
    } else {
        snprintf(value, sizeof value, "(double)%s * (double)%s", x, x);
    }
    say_sum(c, r, "squares", value, names, index);
    hd_c_text_line(c->t, "const double scale = 1 / w_sqrt_f64(squares / %lld.0 + %.17g);", (long long)r->n, r->eps);
    return HD_OK;
}

/* The normalised element where the loops are. */
static void say_normal(hd_net_call *c, const rows *r, const char *const *index, char *out, size_t capacity) {
    const char *x = hd_c_value(c, r->name, r->x, index);
    if (r->centered)
        snprintf(out, capacity, "(((double)%s - mean) * scale)", x);
    else
        snprintf(out, capacity, "((double)%s * scale)", x);
}

/* Of weight and bias, whose axes are the last ones. */
static const char *const *tail(const rows *r, const char *const *index) { return index + r->first; }

static hd_error say_rows(hd_net_call *c, bool centered) {
    const rows r = describe(c, 0, centered);
    hd_c_names names;
    const char *index[HD_MAX_RANK] = {"0"};
    char normal[400], value[1200];
    if (hd_c_out(c, 0)->count == 0) return hd_c_empty(c);
    const int outer = hd_c_open_axes(c, &r.x->layout.shape, 0, r.first, -1, 'i', names, index);
    HD_TRY(say_statistics(c, &r, names, index));
    const int inner = hd_c_open_axes(c, &r.x->layout.shape, r.first, r.rank, -1, 'j', names, index);
    say_normal(c, &r, index, normal, sizeof normal);
    snprintf(value, sizeof value, "(%s)%s", r.type, normal);
    if (c->call->input_count > 1)
        snprintf(value, sizeof value, "(%s)(%s * (double)%s%s%s)", r.type, normal,
                 hd_c_value(c, "x1", hd_c_in(c, 1), tail(&r, index)), c->call->input_count > 2 ? " + (double)" : "",
                 c->call->input_count > 2 ? hd_c_value(c, "x2", hd_c_in(c, 2), tail(&r, index)) : "");
    hd_c_store(c, r.dtype, hd_c_at(c, "y0", hd_c_out(c, 0), index), value);
    hd_c_close(c, inner + outer);
    return HD_OK;
}

static hd_error say_gradient(hd_net_call *c, bool centered) {
    const rows r = describe(c, 1, centered);
    hd_c_names names;
    const char *index[HD_MAX_RANK] = {"0"};
    char normal[400], slope[700], value[1600];
    if (hd_c_out(c, 0)->count == 0) return hd_c_empty(c);
    const int outer = hd_c_open_axes(c, &r.x->layout.shape, 0, r.first, -1, 'i', names, index);
    HD_TRY(say_statistics(c, &r, names, index));
    say_normal(c, &r, index, normal, sizeof normal);
    snprintf(slope, sizeof slope, "(double)%s%s%s", hd_c_value(c, "x0", hd_c_in(c, 0), index),
             c->call->input_count > 2 ? " * (double)" : "",
             c->call->input_count > 2 ? hd_c_value(c, "x2", hd_c_in(c, 2), tail(&r, index)) : "");
    if (centered) say_sum(c, &r, "slopes", slope, names, index);
    snprintf(value, sizeof value, "%s * %s", slope, normal);
    say_sum(c, &r, "turned", value, names, index);
    const int inner = hd_c_open_axes(c, &r.x->layout.shape, r.first, r.rank, -1, 'j', names, index);
    char mean[48] = "";
    if (centered) snprintf(mean, sizeof mean, "slopes / %lld.0 - ", (long long)r.n);
    snprintf(value, sizeof value, "(%s)(scale * (%s - %s%s * (turned / %lld.0)))", r.type, slope, mean, normal,
             (long long)r.n);
    hd_c_store(c, r.dtype, hd_c_at(c, "y0", hd_c_out(c, 0), index), value);
    hd_c_close(c, inner + outer);
    return HD_OK;
}

/* Sums over rows, in memory to work in. */
static hd_error say_parameters(hd_net_call *c, bool centered) {
    const rows r = describe(c, 1, centered);
    hd_c_names names;
    const char *index[HD_MAX_RANK] = {"0"};
    char normal[400], place[128];
    const int64_t width = (centered ? 2 : 1) * r.n;
    if (hd_c_out(c, 0)->count == 0) return hd_c_empty(c);
    c->workspace = (size_t)width * sizeof(double);
    hd_c_text_line(c->t, "double *sums = (double *)w;");
    hd_c_text_line(c->t, "for (int32_t i = 0; i < %lld; ++i) sums[i] = 0;", (long long)width);
    const int outer = hd_c_open_axes(c, &r.x->layout.shape, 0, r.first, -1, 'i', names, index);
    HD_TRY(say_statistics(c, &r, names, index));
    hd_c_text_line(c->t, "double *sum = sums;");
    const int inner = hd_c_open_axes(c, &r.x->layout.shape, r.first, r.rank, -1, 'j', names, index);
    say_normal(c, &r, index, normal, sizeof normal);
    hd_c_text_line(c->t, "const double g = (double)%s;", hd_c_value(c, "x0", hd_c_in(c, 0), index));
    hd_c_text_line(c->t, "*sum += g * %s;", normal);
    if (centered) hd_c_text_line(c->t, "sum[%lld] += g;", (long long)r.n);
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
