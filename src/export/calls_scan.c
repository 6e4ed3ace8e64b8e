/* Scans in C: each element of a row combined with all before it. Sums and products of f32 run in f64. */
#include "export/net.h"

#include <stdio.h>
#include <string.h>

typedef enum scan_of { SUM, PRODUCT, LOGARITHM, LARGEST, SMALLEST } scan_of;

static void open_row(hd_net_call *c, const hd_scan_attributes *a, int64_t n) {
    hd_c_text_open(c->t, "for (int32_t k = 0; k < %lld; ++k)", (long long)n);
    if (a->reverse)
        hd_c_text_line(c->t, "const int32_t i = %lld - k;", (long long)n - 1);
    else
        hd_c_text_line(c->t, "const int32_t i = k;");
    hd_c_text_line(c->t, "(void)i;");
}

/* The sum, or product, so far is `total`. */
static void say_fold(hd_net_call *c, const hd_tensor *x, const hd_tensor *y, const hd_scan_attributes *a, scan_of of,
                     int64_t n, const char *const *index) {
    const hd_dtype to = (hd_dtype)y->dtype;
    const bool is_float = hd_dtype_is_float(to);
    const char *wide = is_float                                   ? (hd_dtype_is_small_float(to) ? "float" : "double")
                       : hd_dtype_bytes[to] == 8 || to == HD_BOOL ? "uint64_t"
                                                                  : "uint32_t";
    char value[300], place[256];
    snprintf(value, sizeof value, "(%s)total", hd_c_compute_type(to));
    hd_c_text_line(c->t, "%s total = %d;", wide, of == PRODUCT);
    open_row(c, a, n);
    snprintf(place, sizeof place, "%s", hd_c_at(c, "y0", y, index));
    hd_c_text_line(c->t, "const %s v = (%s)%s;", wide, wide, hd_c_value(c, "x0", x, index));
    if (a->exclusive) hd_c_store(c, to, place, value);
    hd_c_text_line(c->t, "total %c= v;", of == PRODUCT ? '*' : '+');
    if (!a->exclusive) hd_c_store(c, to, place, value);
    hd_c_text_close(c->t);
}

/* log(sum e^x): the largest so far, and the sum of e^(x - largest). */
static hd_error say_logarithm(hd_net_call *c, const hd_tensor *x, const hd_tensor *y, const hd_scan_attributes *a,
                              int64_t n, const char *const *index) {
    const hd_dtype to = (hd_dtype)y->dtype, as = hd_dtype_is_small_float(to) ? HD_F32 : HD_F64;
    const char *wide = as == HD_F32 ? "float" : "double", *type = as == HD_F32 ? "f32" : "f64";
    char place[256], value[128];
    HD_TRY(hd_c_use(c, HD_WORD_EXP, as));
    HD_TRY(hd_c_use(c, HD_WORD_LOG, as));
    snprintf(value, sizeof value, "(%s)(w_log_%s(sum) + (top - top == 0 ? top : 0))", hd_c_compute_type(to), type);
    hd_c_text_line(c->t, "%s top = -(%s)INFINITY, sum = 0;", wide, wide);
    open_row(c, a, n);
    snprintf(place, sizeof place, "%s", hd_c_at(c, "y0", y, index));
    hd_c_text_line(c->t, "const %s v = (%s)%s;", wide, wide, hd_c_value(c, "x0", x, index));
    if (a->exclusive) hd_c_store(c, to, place, value);
    hd_c_text_open(c->t, "if (v != v)");
    hd_c_text_line(c->t, "sum = v;");
    c->t->indent--;
    hd_c_text_open(c->t, "} else");
    hd_c_text_line(c->t, "const %s most = v > top ? v : top, level = most - most == 0 ? most : 0;", wide);
    hd_c_text_line(c->t, "if (sum != 0) sum *= w_exp_%s((top - top == 0 ? top : 0) - level);", type);
    hd_c_text_line(c->t, "sum += w_exp_%s(v - level);", type);
    hd_c_text_line(c->t, "top = most;");
    hd_c_text_close(c->t);
    if (!a->exclusive) hd_c_store(c, to, place, value);
    hd_c_text_close(c->t);
    return HD_OK;
}

/* The largest so far and where it is: of equals the last, and NaN from the first on. */
static void say_extreme(hd_net_call *c, const hd_tensor *x, const hd_tensor *y, const hd_scan_attributes *a, scan_of of,
                        int64_t n, const char *const *index) {
    const char *sign = of == LARGEST ? ">=" : "<=";
    const bool is_float = hd_dtype_is_float((hd_dtype)x->dtype),
               places = c->call->output_count > 1 && c->call->outputs[1] != NULL;
    const char *type = hd_c_compute_type((hd_dtype)x->dtype);
    hd_c_text_line(c->t, "%s most = 0;", type);
    hd_c_text_line(c->t, "int32_t best = 0;");
    open_row(c, a, n);
    hd_c_text_line(c->t, "const %s v = %s;", type, hd_c_value(c, "x0", x, index));
    hd_c_text_open(c->t, is_float ? "if (k == 0 || v != v || v %s most)" : "if (k == 0 || v %s most)", sign);
    hd_c_text_line(c->t, "most = v;");
    hd_c_text_line(c->t, "best = i;");
    hd_c_text_close(c->t);
    hd_c_store(c, (hd_dtype)y->dtype, hd_c_at(c, "y0", y, index), "most");
    if (places) hd_c_text_line(c->t, "%s = best;", hd_c_at(c, "y1", hd_c_out(c, 1), index));
    if (!places) hd_c_text_line(c->t, "(void)best;");
    hd_c_text_close(c->t);
}

static hd_error scan(hd_net_call *c, scan_of of) {
    const hd_scan_attributes *a = c->call->attributes;
    const hd_tensor *x = hd_c_in(c, 0), *y = hd_c_out(c, 0);
    const hd_shape *shape = &x->layout.shape;
    hd_c_names names;
    const char *index[HD_MAX_RANK] = {"i"};
    hd_error status = HD_OK;
    if (y->count == 0) return hd_c_empty(c);
    const int loops = hd_c_open_axes(c, shape, 0, shape->rank, a->axis, 'i', names, index);
    if (shape->rank > 0) index[a->axis] = "i";
    const int64_t n = shape->rank == 0 ? 1 : shape->size[a->axis];
    if (of == LOGARITHM)
        status = say_logarithm(c, x, y, a, n, index);
    else if (of >= LARGEST)
        say_extreme(c, x, y, a, of, n, index);
    else
        say_fold(c, x, y, a, of, n, index);
    hd_c_close(c, loops);
    return status;
}

hd_error hd_c_cumsum(hd_net_call *c) { return scan(c, SUM); }
hd_error hd_c_cumprod(hd_net_call *c) { return scan(c, PRODUCT); }
hd_error hd_c_logcumsumexp(hd_net_call *c) { return scan(c, LOGARITHM); }
hd_error hd_c_cummax(hd_net_call *c) { return scan(c, LARGEST); }
hd_error hd_c_cummin(hd_net_call *c) { return scan(c, SMALLEST); }
