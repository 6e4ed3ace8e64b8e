/* What is made of the order along an axis: places in it, middles and quantiles, and counts of what lies where. */
#include "ops/op.h"

#include <float.h>
#include <math.h>

/* ---- searching in rows that are in order ------------------------------------------------------------------------- */
static hd_error check_search(const hd_tensor *sorted, const hd_tensor *values) {
    HD_TRY(hd_tensor_check(sorted, "sorted"));
    HD_TRY(hd_tensor_check(values, "values"));
    const hd_shape *a = &sorted->layout.shape, *b = &values->layout.shape;
    bool fits = a->rank == 1 || (a->rank > 1 && a->rank == b->rank);
    for (int i = 0; i < a->rank - 1 && fits; ++i) fits = a->size[i] == b->size[i];
    if (!fits)
        return hd_fail(
            HD_ERROR_SHAPE,
            "values %s in sorted %s: sorted has one axis, for all values, or the axes of values, of the same "
            "sizes but for the last",
            HD_SHAPE_TEXT(*b), HD_SHAPE_TEXT(*a));
    if (sorted->dtype != values->dtype)
        return hd_fail(HD_ERROR_DTYPE, "sorted is %s and values %s; cast one of them",
                       hd_dtype_name((hd_dtype)sorted->dtype), hd_dtype_name((hd_dtype)values->dtype));
    return HD_OK;
}

hd_tensor *hd_searchsorted(hd_tensor *sorted, hd_tensor *values, bool right) {
    HD_ENTER("hd_searchsorted", NULL);
    HD_TRY_OR(check_search(sorted, values), NULL);
    const hd_searchsorted_attributes attributes = {right};
    hd_tensor *inputs[2] = {sorted, values};
    hd_call call;
    hd_call_init(&call, &hd_ops[HD_OP_searchsorted], inputs, 2, HD_I64, &values->layout.shape, &attributes);
    return hd_execute(thread, &call);
}

void hd_replay_searchsorted(hd_replay_call *r) {
    r->output =
        hd_searchsorted(r->inputs[0], r->inputs[1], ((const hd_searchsorted_attributes *)r->attributes)->right != 0);
}

/* ---- elements by their place in the order ------------------------------------------------------------------------ */
static const hd_pair nothing = {NULL, NULL};

hd_tensor *hd_argsort(hd_tensor *x, int axis, bool descending) {
    HD_ENTER("hd_argsort", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "argsort");
    return hd_span_end(&span, hd_sort(hd_detach(x), axis, descending).indices);
}

/* An axis from which an element is taken: which, what the caller asked for, and how many there are. */
typedef struct taking {
    int axis;
    bool keep;
    int64_t count;
} taking;
static hd_error check_taking(const hd_tensor *x, int axis, const hd_reduce_opts *opts, taking *out) {
    HD_TRY(hd_tensor_check(x, "x"));
    HD_READ_OPTS(hd_reduce_opts, opts, hd_thread_self()->error_code);
    HD_TRY(hd_axis_resolve(axis, x->layout.shape.rank, &out->axis));
    out->keep = options.keep_dims;
    out->count = x->layout.shape.size[out->axis];
    return out->count > 0 ? HD_OK
                          : hd_fail(HD_ERROR_SHAPE, "axis %d of %s is empty and has no such element", out->axis,
                                    HD_SHAPE_TEXT(x->layout.shape));
}

/* An index along an axis, where it has size 1; of a row with NaN, that of the first of them. */
static hd_tensor *or_of_nan(hd_tensor *x, int axis, hd_tensor *index) {
    if (index == NULL || !hd_dtype_is_float((hd_dtype)x->dtype)) return index;
    const hd_pair most = hd_max_with_index(hd_detach(x), axis, HD_OPTS(hd_reduce_opts, .keep_dims = true));
    return hd_where(hd_isnan(most.values), most.indices, index);
}

/* Where the k-th smallest of each row is, counted from 0; that axis has size 1. */
static hd_tensor *place_of(hd_tensor *x, int axis, int64_t k) {
    return hd_narrow(hd_topk(hd_detach(x), k + 1, axis, false).indices, axis, k, 1);
}

static hd_tensor *without_axis(hd_tensor *t, const taking *from) {
    return from->keep ? t : hd_squeeze(t, HD_AXES(from->axis));
}

/* Elements are taken from x itself, so that gradients need their index alone. */
static hd_pair take_with_index(hd_tensor *x, hd_tensor *index, const taking *from) {
    return (hd_pair){without_axis(hd_gather(x, from->axis, index), from), without_axis(hd_copy(index), from)};
}

hd_pair hd_kthvalue(hd_tensor *x, int64_t k, int axis, const hd_reduce_opts *opts) {
    HD_ENTER("hd_kthvalue", nothing);
    taking from;
    HD_TRY_OR(check_taking(x, axis, opts, &from), nothing);
    if (k < 1 || k > from.count) {
        hd_fail(HD_ERROR_VALUE, "k = %lld of axis %d of %s; it counts from 1 to %lld", (long long)k, from.axis,
                HD_SHAPE_TEXT(x->layout.shape), (long long)from.count);
        return nothing;
    }
    hd_span span;
    hd_span_begin(&span, thread, "kthvalue");
    return hd_span_end_pair(&span, take_with_index(x, place_of(x, from.axis, k - 1), &from));
}

hd_pair hd_median(hd_tensor *x, int axis, const hd_reduce_opts *opts) {
    HD_ENTER("hd_median", nothing);
    taking from;
    HD_TRY_OR(check_taking(x, axis, opts, &from), nothing);
    hd_span span;
    hd_span_begin(&span, thread, "median");
    hd_tensor *index = or_of_nan(x, from.axis, place_of(x, from.axis, (from.count - 1) / 2));
    return hd_span_end_pair(&span, take_with_index(x, index, &from));
}

/* What lies at a part of the way from `low` up to `high`. Their difference may be more than the dtype holds, or NaN
 * where both are one infinity. */
static hd_tensor *between(hd_tensor *low, hd_tensor *high, double part) {
    const hd_dtype dtype = hd_tensor_dtype(low);
    hd_tensor *line = hd_lerp(low, high, hd_number(dtype, part));
    hd_tensor *sum = hd_add(hd_mul_scalar(low, 1 - part), hd_mul_scalar(high, part));
    return hd_where(hd_isfinite(hd_sub(hd_detach(high), hd_detach(low))), line, sum);
}

/* The first elements of each row in order, by their index; a row with NaN has the first of them in every place. */
typedef struct row_order {
    hd_tensor *x, *first, *has_nan, *nan; /* a float; the indices; and of rows with NaN, NULL where there can be none */
    int axis;
} row_order;

static row_order order_rows(hd_tensor *x, int axis, int64_t count) {
    row_order o = {.x = hd_as_float(x), .first = hd_topk(hd_detach(x), count, axis, false).indices, .axis = axis};
    if (!hd_dtype_is_float((hd_dtype)x->dtype)) return o;
    const hd_pair most = hd_max_with_index(hd_detach(x), axis, HD_OPTS(hd_reduce_opts, .keep_dims = true));
    o.has_nan = hd_isnan(most.values);
    o.nan = most.indices;
    return o;
}

static hd_tensor *taken_at(const row_order *o, int64_t k) {
    hd_tensor *index = hd_narrow(o->first, o->axis, k, 1);
    if (o->has_nan != NULL) index = hd_where(o->has_nan, o->nan, index);
    return hd_gather(o->x, o->axis, index);
}

static hd_tensor *quantile(const row_order *o, double place) {
    const int64_t lower = (int64_t)floor(place);
    hd_tensor *y = taken_at(o, lower);
    return (double)lower == place ? y : between(y, taken_at(o, lower + 1), place - (double)lower);
}

static hd_error check_part(double q) {
    return q >= 0 && q <= 1 ? HD_OK : hd_fail(HD_ERROR_VALUE, "q = %g; it is a part, from 0 to 1", q);
}

hd_tensor *hd_quantile(hd_tensor *x, double q, int axis, const hd_reduce_opts *opts) {
    HD_ENTER("hd_quantile", NULL);
    taking from;
    HD_TRY_OR(check_taking(x, axis, opts, &from), NULL);
    HD_TRY_OR(check_part(q), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "quantile");
    const double place = q * (double)(from.count - 1);
    const row_order o = order_rows(x, from.axis, (int64_t)ceil(place) + 1);
    hd_tensor *y = without_axis(quantile(&o, place), &from);
    return hd_span_end(&span, hd_cast(y, hd_float_result(thread, x)));
}

hd_tensor *hd_quantiles(hd_tensor *x, const double *q, int count, int axis, const hd_reduce_opts *opts) {
    HD_ENTER("hd_quantiles", NULL);
    taking from;
    HD_TRY_OR(check_taking(x, axis, opts, &from), NULL);
    if (q == NULL || count < 1 || count > HD_MAX_INPUTS) {
        hd_fail(q == NULL ? HD_ERROR_NULL_ARGUMENT : HD_ERROR_VALUE,
                q == NULL ? "`q` is NULL" : "%d quantiles; there may be 1 to %d", count, HD_MAX_INPUTS);
        return NULL;
    }
    double most = 0;
    for (int i = 0; i < count; ++i) {
        HD_TRY_OR(check_part(q[i]), NULL);
        most = fmax(most, q[i]);
    }
    hd_span span;
    hd_span_begin(&span, thread, "quantiles");
    const double last = (double)(from.count - 1);
    const row_order o = order_rows(x, from.axis, (int64_t)ceil(most * last) + 1);
    hd_tensor *each[HD_MAX_INPUTS];
    for (int i = 0; i < count; ++i) each[i] = without_axis(quantile(&o, q[i] * last), &from);
    hd_tensor *y = thread->error_code == HD_OK ? hd_stack(each, count, 0) : NULL;
    return hd_span_end(&span, hd_cast(y, hd_float_result(thread, x)));
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */
static hd_error check_bincount(const hd_tensor *x, const hd_tensor *weights, int64_t size) {
    HD_TRY(hd_tensor_check(x, "x"));
    if (!hd_dtype_is_integer((hd_dtype)x->dtype))
        return hd_fail(HD_ERROR_DTYPE, "x is %s; it must be an integer tensor", hd_dtype_name((hd_dtype)x->dtype));
    if (size < 0) return hd_fail(HD_ERROR_VALUE, "size is %lld; it must be >= 0", (long long)size);
    if (weights == NULL) return HD_OK;
    HD_TRY(hd_tensor_check(weights, "weights"));
    return hd_shape_equal(weights->layout.shape, x->layout.shape)
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "weights %s for x %s; each element has a weight",
                         HD_SHAPE_TEXT(weights->layout.shape), HD_SHAPE_TEXT(x->layout.shape));
}

/* weights, or ones, added up at an index. */
static hd_tensor *add_at(hd_tensor *index, hd_tensor *weights, int64_t size) {
    if (index == NULL) return NULL;
    const hd_shape flat = HD_SHAPE(index->count);
    const hd_dtype dtype = weights == NULL ? HD_I64 : hd_tensor_dtype(weights);
    hd_tensor *source =
        weights == NULL ? hd_broadcast_to(hd_full_beside(index, HD_SHAPE(1), HD_I64, 1), flat) : hd_flatten(weights);
    hd_tensor *zeros = hd_full_beside(index, HD_SHAPE(size), dtype, 0);
    return hd_scatter(zeros, 0, hd_flatten(index), source, HD_SCATTER_ADD);
}

/* The pending error names an index as it was scattered, where what is below 0 is past the end. */
static void name_negative(hd_thread *thread, hd_tensor *x) {
    if (thread->error_code != HD_ERROR_INDEX || thread->executor->captures) return;
    hd_error_copy error;
    hd_error_take(&error);
    const int64_t least = hd_item_i64(hd_min(x, HD_AXES(), NULL));
    if (least < 0)
        hd_fail(HD_ERROR_INDEX, "x has %lld; what is counted begins at 0", (long long)least);
    else
        hd_error_put_back(&error);
}

hd_tensor *hd_bincount(hd_tensor *x, hd_tensor *weights, int64_t size) {
    HD_ENTER("hd_bincount", NULL);
    HD_TRY_OR(check_bincount(x, weights, size), NULL);
    HD_HOLD_ERRORS(thread);
    hd_span span;
    hd_span_begin(&span, thread, "bincount");
    const bool is_signed = hd_dtype_is_signed((hd_dtype)x->dtype); /* indices below 0 would count from the end */
    hd_tensor *y = add_at(is_signed ? hd_cast(x, HD_U64) : x, weights, size);
    if (is_signed && y == NULL) name_negative(thread, x);
    return hd_span_end(&span, y);
}

/* Whether f32 holds the edges of so many bins apart. */
static bool fits_in_f32(int64_t bins, double low, double high) {
    const double largest = fmax(fabs(low), fabs(high));
    return largest <= FLT_MAX && high / (double)bins - low / (double)bins >= largest * FLT_EPSILON;
}

hd_tensor *hd_histc(hd_tensor *x, int64_t bins, double low, double high) {
    HD_ENTER("hd_histc", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    if (bins < 1 || bins >= INT64_MAX / 16) {
        hd_fail(HD_ERROR_VALUE, "%lld bins; there must be one at least, and as many as fit in memory", (long long)bins);
        return NULL;
    }
    if (!(low < high && isfinite(low) && isfinite(high))) {
        hd_fail(HD_ERROR_VALUE, "bins from %g to %g; low must be below high, both finite", low, high);
        return NULL;
    }
    hd_span span;
    hd_span_begin(&span, thread, "histc");
    hd_tensor *f = hd_detach(fits_in_f32(bins, low, high) ? hd_as_float(x) : hd_cast(x, HD_F64));
    const hd_dtype dtype = hd_tensor_dtype(f);
    /* Place i lies in bin i - 1: what is below the first edge is in front of all bins, and what is not below the last
     * one behind them, but for that edge itself. */
    hd_tensor *edges = hd_linspace_beside(x, low, high, bins + 1, dtype);
    hd_tensor *place = hd_searchsorted(edges, f, true);
    place = hd_where(hd_eq(f, hd_select(edges, 0, -1)), hd_number(HD_I64, (double)bins), place);
    return hd_span_end(&span, hd_copy(hd_narrow(add_at(place, NULL, bins + 2), 0, 1, bins)));
}
