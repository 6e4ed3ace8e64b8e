/* Order in C: extremes with their index, sorting, searching, permutations. NaN is the largest, -0 equals 0, and of
 * equals the first comes first. */
#include "export/net.h"

#include <stdio.h>
#include <string.h>

/* True in C when a comes before b: `descending`: the largest first. */
static void say_before(char *out, size_t capacity, hd_dtype dtype, const char *a, const char *b, bool descending) {
    const char *sign = descending ? ">" : "<";
    if (!hd_dtype_is_float(dtype))
        snprintf(out, capacity, "%s %s %s", a, sign, b);
    else if (descending)
        snprintf(out, capacity, "(%s > %s || (%s != %s && %s == %s))", a, b, a, a, b, b);
    else
        snprintf(out, capacity, "(%s < %s || (%s == %s && %s != %s))", a, b, a, a, b, b);
}

/* ---- extremes ---------------------------------------------------------------------------------------------------- */
/* The axis that is reduced; -1: all of a flat tensor. */
static int reduced_axis(const hd_reduce_attributes *a, int rank) {
    for (int i = 0; i < rank; ++i)
        if (a->reduced[i]) return i;
    return -1;
}

/* Results, of which the first or the second may not be wanted: `values` and `indices` are their names or NULL. */
static hd_error extreme(hd_net_call *c, bool largest, const char *values, const char *indices) {
    const hd_tensor *x = hd_c_in(c, 0);
    const hd_reduce_attributes *a = c->call->attributes;
    const hd_dtype dtype = (hd_dtype)x->dtype;
    const int rank = x->layout.shape.rank, axis = reduced_axis(a, rank);
    hd_c_names names;
    const char *index[HD_MAX_RANK] = {"0"}, *first[HD_MAX_RANK] = {"0"}, *to[HD_MAX_RANK] = {"0"};
    char better[256];
    const int loops = hd_c_open_axes(c, &x->layout.shape, 0, rank, axis, 'i', names, index);
    memcpy(first, index, sizeof first);
    if (axis >= 0) index[axis] = "i";
    hd_c_text_line(c->t, "int32_t best = 0;");
    hd_c_text_line(c->t, "%s most = %s;", hd_c_compute_type(dtype), hd_c_value(c, "x0", x, first));
    if (axis >= 0) {
        hd_c_text_open(c->t, "for (int32_t i = 1; i < %lld; ++i)", (long long)x->layout.shape.size[axis]);
        hd_c_text_line(c->t, "const %s v = %s;", hd_c_compute_type(dtype), hd_c_value(c, "x0", x, index));
        if (hd_dtype_is_float(dtype))
            snprintf(better, sizeof better, "most == most && (v %c most || v != v)", largest ? '>' : '<');
        else
            snprintf(better, sizeof better, "v %c most", largest ? '>' : '<');
        hd_c_text_open(c->t, "if (%s)", better);
        hd_c_text_line(c->t, "most = v;");
        hd_c_text_line(c->t, "best = i;");
        hd_c_text_close(c->t);
        hd_c_text_close(c->t);
    }
    int rest = 0; /* axes of the results */
    for (int i = 0; i < rank; ++i)
        if (i != axis || a->keep_dims) to[rest++] = first[i];
    if (values != NULL) hd_c_store(c, dtype, hd_c_at(c, values, hd_c_out(c, 0), to), "most");
    if (values == NULL) hd_c_text_line(c->t, "(void)most;");
    if (indices == NULL) hd_c_text_line(c->t, "(void)best;");
    if (indices != NULL)
        hd_c_text_line(c->t, "%s = best;", hd_c_at(c, indices, hd_c_out(c, values == NULL ? 0 : 1), to));
    hd_c_close(c, loops);
    return HD_OK;
}
static hd_error extreme_pair(hd_net_call *c, bool largest) {
    return extreme(c, largest, "y0", c->call->output_count > 1 && c->call->outputs[1] != NULL ? "y1" : NULL);
}
hd_error hd_c_argmax(hd_net_call *c) { return extreme(c, true, NULL, "y0"); }
hd_error hd_c_argmin(hd_net_call *c) { return extreme(c, false, NULL, "y0"); }
hd_error hd_c_max_with_index(hd_net_call *c) { return extreme_pair(c, true); }
hd_error hd_c_min_with_index(hd_net_call *c) { return extreme_pair(c, false); }

/* ---- sorting ----------------------------------------------------------------------------------------------------- */
/* Merges runs of 1, 2, 4, ... of `order`, n numbers, with as many behind them to work in; `before` compares p and q. */
static void say_merge(hd_net_call *c, int64_t n, const char *before) {
    hd_c_text *t = c->t;
    hd_c_text_line(t, "int32_t *order = (int32_t *)w, *other = order + %lld;", (long long)n);
    hd_c_text_line(t, "for (int32_t i = 0; i < %lld; ++i) order[i] = i;", (long long)n);
    hd_c_text_open(t, "for (int32_t width = 1; width < %lld; width *= 2)", (long long)n);
    hd_c_text_open(t, "for (int32_t begin = 0; begin < %lld; begin += 2 * width)", (long long)n);
    hd_c_text_line(t, "const int32_t middle = begin + width < %lld ? begin + width : %lld;", (long long)n,
                   (long long)n);
    hd_c_text_line(t, "const int32_t end = middle + width < %lld ? middle + width : %lld;", (long long)n, (long long)n);
    hd_c_text_line(t, "int32_t a = begin, b = middle;");
    hd_c_text_open(t, "for (int32_t i = begin; i < end; ++i)");
    hd_c_text_line(t, "int take_b = a == middle;");
    hd_c_text_open(t, "if (a < middle && b < end)");
    hd_c_text_say(t, "%s", before);
    hd_c_text_close(t);
    hd_c_text_line(t, "other[i] = take_b ? order[b++] : order[a++];");
    hd_c_text_close(t);
    hd_c_text_close(t);
    hd_c_text_line(t, "int32_t *const swap = order;");
    hd_c_text_line(t, "order = other;");
    hd_c_text_line(t, "other = swap;");
    hd_c_text_close(t);
}

static hd_error sort(hd_net_call *c, int axis, bool descending, int64_t count) {
    const hd_tensor *x = hd_c_in(c, 0);
    const hd_dtype dtype = (hd_dtype)x->dtype;
    const hd_shape *shape = &x->layout.shape;
    const int64_t n = shape->rank == 0 ? 1 : shape->size[axis];
    hd_c_names names;
    const char *index[HD_MAX_RANK] = {"0"}, *to[HD_MAX_RANK] = {"0"};
    char better[256];
    if (hd_c_out(c, 0)->count == 0) return hd_c_empty(c);
    const int loops = hd_c_open_axes(c, shape, 0, shape->rank, axis, 'i', names, index);
    memcpy(to, index, sizeof to);
    hd_c_text before = {.at = NULL, .indent = c->t->indent + 4};
    if (shape->rank > 0) index[axis] = "order[a]";
    hd_c_text_line(&before, "const %s p = %s;", hd_c_compute_type(dtype), hd_c_value(c, "x0", x, index));
    if (shape->rank > 0) index[axis] = "order[b]";
    hd_c_text_line(&before, "const %s q = %s;", hd_c_compute_type(dtype), hd_c_value(c, "x0", x, index));
    say_before(better, sizeof better, dtype, "q", "p", descending);
    hd_c_text_line(&before, "take_b = %s;", better);
    say_merge(c, n, hd_c_text_string(&before));
    c->t->failed = c->t->failed || before.failed;
    hd_c_text_release(&before);
    hd_c_text_open(c->t, "for (int32_t k = 0; k < %lld; ++k)", (long long)count);
    if (shape->rank > 0) {
        index[axis] = "order[k]";
        to[axis] = "k";
    }
    hd_c_text_line(c->t, "%s = %s;", hd_c_at(c, "y0", hd_c_out(c, 0), to), hd_c_at(c, "x0", x, index));
    if (c->call->output_count > 1 && c->call->outputs[1] != NULL)
        hd_c_text_line(c->t, "%s = order[k];", hd_c_at(c, "y1", hd_c_out(c, 1), to));
    hd_c_text_close(c->t);
    hd_c_close(c, loops);
    c->workspace = 2 * (size_t)n * sizeof(int32_t);
    return HD_OK;
}

hd_error hd_c_sort(hd_net_call *c) {
    const hd_sort_attributes *a = c->call->attributes;
    const hd_shape *shape = &hd_c_in(c, 0)->layout.shape;
    return sort(c, a->axis, a->descending, shape->rank == 0 ? 1 : shape->size[a->axis]);
}
hd_error hd_c_topk(hd_net_call *c) {
    const hd_topk_attributes *a = c->call->attributes;
    return sort(c, a->axis, a->largest, a->count);
}

hd_error hd_c_searchsorted(hd_net_call *c) {
    const hd_searchsorted_attributes *a = c->call->attributes;
    const hd_tensor *sorted = hd_c_in(c, 0), *values = hd_c_in(c, 1), *y = hd_c_out(c, 0);
    const hd_dtype dtype = (hd_dtype)sorted->dtype;
    const int rank = sorted->layout.shape.rank;
    hd_c_names names;
    const char *index[HD_MAX_RANK] = {"0"}, *row[HD_MAX_RANK] = {"0"};
    char before[256];
    const int loops = hd_c_open_axes(c, &y->layout.shape, 0, y->layout.shape.rank, -1, 'i', names, index);
    for (int i = 0; i < rank; ++i) row[i] = rank == 1 ? "0" : index[i];
    row[rank - 1] = "middle";
    hd_c_text_line(c->t, "const %s v = %s;", hd_c_compute_type(dtype), hd_c_value(c, "x1", values, index));
    hd_c_text_line(c->t, "int32_t low = 0, high = %lld;", (long long)sorted->layout.shape.size[rank - 1]);
    hd_c_text_open(c->t, "while (low < high)");
    hd_c_text_line(c->t, "const int32_t middle = low + (high - low) / 2;");
    hd_c_text_line(c->t, "const %s at = %s;", hd_c_compute_type(dtype), hd_c_value(c, "x0", sorted, row));
    if (a->right) {
        say_before(before, sizeof before, dtype, "v", "at", false);
        hd_c_text_line(c->t, "const int is_before = !(%s);", before);
    } else {
        say_before(before, sizeof before, dtype, "at", "v", false);
        hd_c_text_line(c->t, "const int is_before = %s;", before);
    }
    hd_c_text_line(c->t, "low = is_before ? middle + 1 : low;");
    hd_c_text_line(c->t, "high = is_before ? high : middle;");
    hd_c_text_close(c->t);
    hd_c_text_line(c->t, "%s = low;", hd_c_at(c, "y0", y, index));
    hd_c_close(c, loops);
    return HD_OK;
}

/* The order of random keys. */
hd_error hd_c_permutation(hd_net_call *c) {
    const int64_t n = hd_c_out(c, 0)->count;
    hd_c_text before = {.at = NULL, .indent = 4};
    c->net->words->draws_any = true;
    c->draws = true;
    hd_c_text_line(&before,
                   "const uint64_t p = w_draw_u64(order[a], seed, draw), q = w_draw_u64(order[b], seed, draw);");
    hd_c_text_line(&before, "take_b = q < p;");
    say_merge(c, n, hd_c_text_string(&before));
    c->t->failed = c->t->failed || before.failed;
    hd_c_text_release(&before);
    hd_c_text_line(c->t, "for (int32_t k = 0; k < %lld; ++k) y0[k] = order[k];", (long long)n);
    c->workspace = 2 * (size_t)n * sizeof(int32_t) + 8;
    return HD_OK;
}
