/* Selecting by value: what is not 0, what a mask holds, what a tensor has. How much that is depends on values, so the
 * plain forms look at them and run at once alone; the padded ones are told a size, and are made of ops like any other
 * composite. */
#include "ops/op.h"

/* ---- places ------------------------------------------------------------------------------------------------------ */
/* Elements of something flat, by their number there. */
typedef struct found {
    hd_tensor *at;    /* i64: [size], in order; 0 where there is none */
    hd_tensor *valid; /* bool: [size]; NULL: all are */
    int64_t size;
} found;

/* True when what runs now knows values; else an error that says what does not need them. */
static bool values_are_known(const hd_thread *thread, const char *padded) {
    if (!thread->executor->captures) return true;
    hd_fail(HD_ERROR_STATE,
            "how large the result is depends on values, which a builder does not know; use %s, which is told a size",
            padded);
    return false;
}

/* The first `size` places where a flat bool mask holds: sorted, they come first, in their order. */
static found find_first(hd_tensor *mask, int64_t size) {
    const int64_t n = hd_tensor_count(mask), most = size < n ? size : n;
    hd_tensor *at = hd_topk(mask, most, 0, true).indices;
    if (size > most) at = hd_pad(at, &(hd_padding){0, size - most}, 1, 0);
    hd_tensor *valid = hd_lt(hd_range_beside(mask, 0, 1, size, HD_I64), hd_sum(mask, HD_AXES(), NULL));
    return (found){hd_where(valid, at, hd_number(HD_I64, 0)), valid, size};
}

/* Reads them on the CPU. */
static found look(hd_thread *thread, hd_tensor *mask) {
    const uint8_t *holds =
        (const uint8_t *)hd_tensor_bytes(thread, mask, HD_READ); /* whoever wrote them: not 0 or 1 alone */
    found f = {NULL, NULL, 0};
    if (holds == NULL) return f;
    for (int64_t i = 0; i < mask->count; ++i) f.size += holds[i] != 0;
    f.at = hd_full_beside(mask, HD_SHAPE(f.size), HD_I64, 0);
    int64_t *at = f.at == NULL ? NULL : (int64_t *)hd_tensor_bytes(thread, f.at, HD_WRITE);
    if (at == NULL) return f;
    for (int64_t i = 0, k = 0; k < f.size; ++i)
        if (holds[i]) at[k++] = i;
    return f;
}

/* All of them: on another device than the CPU they are counted first. */
static found find_all(hd_thread *thread, hd_tensor *mask) {
    mask = hd_contiguous(mask);
    if (mask == NULL) return (found){NULL, NULL, 0};
    if (!hd_storage_is_away(mask->storage)) return look(thread, mask);
    found f = find_first(mask, hd_item_i64(hd_sum(mask, HD_AXES(), NULL)));
    f.valid = NULL;
    return f;
}

static hd_tensor *fill_rest(const found *f, hd_tensor *values, hd_tensor *fill) {
    if (f->valid == NULL || values == NULL) return values;
    hd_tensor *valid = hd_tensor_rank(values) > 1 ? hd_unsqueeze(f->valid, 1) : f->valid;
    return hd_where(valid, values, fill);
}

/* An i64 that f64 need not hold: in two parts that it does. */
static hd_tensor *whole_number(int64_t value) {
    const int64_t low = value & 0xffffffff;
    hd_tensor *high = hd_number(HD_I64, (double)(value - low));
    return low == 0 ? high : hd_add_scalar(high, (double)low);
}

static hd_error check_size(int64_t size) {
    return size >= 0 && size < INT64_MAX / 16
               ? HD_OK
               : hd_fail(HD_ERROR_VALUE, "size is %lld; it must be >= 0, and of what fits in memory", (long long)size);
}

/* ---- what is not 0 ----------------------------------------------------------------------------------------------- */
/* Where elements of this shape lie, by their number: [size, rank]. */
static hd_tensor *coordinates(const found *f, const hd_shape *shape) {
    hd_tensor *axes[HD_MAX_RANK], *left = f->at;
    if (left == NULL) return NULL;
    if (shape->rank == 0 || hd_shape_count(*shape) == 0)
        return hd_full_beside(left, HD_SHAPE(f->size, shape->rank), HD_I64, 0);
    for (int i = shape->rank - 1; i > 0; --i) {
        hd_tensor *rows = hd_trunc_divide_scalar(left, (double)shape->size[i]);
        axes[i] = hd_sub(left, hd_mul_scalar(rows, (double)shape->size[i]));
        left = rows;
    }
    axes[0] = left;
    return hd_stack(axes, shape->rank, 1);
}

static hd_tensor *truth_of(hd_tensor *x) { return hd_flatten(hd_ne_scalar(hd_detach(x), 0)); }

hd_tensor *hd_nonzero(hd_tensor *x) {
    HD_ENTER("hd_nonzero", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    if (!values_are_known(thread, "hd_nonzero_padded")) return NULL;
    hd_span span;
    hd_span_begin(&span, thread, "nonzero");
    const found f = find_all(thread, truth_of(x));
    return hd_span_end(&span, coordinates(&f, &x->layout.shape));
}

hd_tensor *hd_nonzero_padded(hd_tensor *x, int64_t size, int64_t fill) {
    HD_ENTER("hd_nonzero_padded", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(check_size(size), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "nonzero_padded");
    const found f = find_first(truth_of(x), size);
    return hd_span_end(&span, fill_rest(&f, coordinates(&f, &x->layout.shape), whole_number(fill)));
}

/* ---- what a mask holds ------------------------------------------------------------------------------------------- */
static hd_error check_mask(const hd_tensor *x, const hd_tensor *mask, hd_shape *shape) {
    HD_TRY(hd_tensor_check(x, "x"));
    HD_TRY(hd_tensor_check(mask, "mask"));
    if (mask->dtype != HD_BOOL)
        return hd_fail(HD_ERROR_DTYPE, "the mask is %s; it must be bool (compare, or hd_cast)",
                       hd_dtype_name((hd_dtype)mask->dtype));
    return hd_shape_broadcast(&x->layout.shape, &mask->layout.shape, shape);
}

/* The elements of flat x there; of nothing, none is taken. */
static hd_tensor *take_found(const found *f, hd_tensor *x, double fill) {
    if (x == NULL || f->at == NULL) return NULL;
    if (x->count == 0) return hd_full_beside(x, HD_SHAPE(f->size), hd_tensor_dtype(x), fill);
    return fill_rest(f, hd_index_select(x, 0, f->at), hd_number(hd_tensor_dtype(x), fill));
}

hd_tensor *hd_masked_select(hd_tensor *x, hd_tensor *mask) {
    HD_ENTER("hd_masked_select", NULL);
    hd_shape shape;
    HD_TRY_OR(check_mask(x, mask, &shape), NULL);
    if (!values_are_known(thread, "hd_masked_select_padded")) return NULL;
    hd_span span;
    hd_span_begin(&span, thread, "masked_select");
    const found f = find_all(thread, hd_flatten(hd_broadcast_to(mask, shape)));
    return hd_span_end(&span, take_found(&f, hd_flatten(hd_broadcast_to(x, shape)), 0));
}

hd_tensor *hd_masked_select_padded(hd_tensor *x, hd_tensor *mask, int64_t size, double fill) {
    HD_ENTER("hd_masked_select_padded", NULL);
    hd_shape shape;
    HD_TRY_OR(check_mask(x, mask, &shape), NULL);
    HD_TRY_OR(check_size(size), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "masked_select_padded");
    const found f = find_first(hd_flatten(hd_broadcast_to(mask, shape)), size);
    return hd_span_end(&span, take_found(&f, hd_flatten(hd_broadcast_to(x, shape)), fill));
}

/* ---- what there is ----------------------------------------------------------------------------------------------- */
/* A tensor in order: its flat elements, where they were, and which of them are the first of their kind. */
typedef struct in_order {
    hd_tensor *x, *order, *is_first;
    int64_t count;
} in_order;

static in_order put_in_order(hd_tensor *x) {
    in_order o = {.x = hd_flatten(x), .count = hd_tensor_count(x)};
    const hd_pair sorted = hd_sort(hd_detach(o.x), 0, false);
    o.order = sorted.indices;
    if (o.count == 0) {
        o.is_first = hd_full_beside(x, HD_SHAPE(0), HD_BOOL, 0);
        return o;
    }
    hd_tensor *here = hd_narrow(sorted.values, 0, 1, o.count - 1),
              *before = hd_narrow(sorted.values, 0, 0, o.count - 1), *differ = hd_ne(here, before);
    if (hd_dtype_is_float(hd_tensor_dtype(x))) /* behind a NaN there are NaNs alone */
        differ = hd_logical_and(differ, hd_logical_not(hd_isnan(before)));
    o.is_first = hd_pad(differ, &(hd_padding){1, 0}, 1, 1);
    return o;
}

/* `bounds`: where each kind begins in the order, and behind the last of them the count of all. */
static hd_uniques describe(const in_order *o, const found *f, hd_tensor *bounds, const hd_shape *shape, double fill,
                           const hd_unique_opts *options) {
    hd_uniques u = {.values = NULL};
    if (o->x == NULL || f->at == NULL || bounds == NULL) return u;
    const found first = {o->count == 0 ? f->at : hd_index_select(o->order, 0, f->at), f->valid, f->size};
    u.values = take_found(&first, o->x, fill);
    if (options->counts) u.counts = hd_sub(hd_narrow(bounds, 0, 1, f->size), hd_narrow(bounds, 0, 0, f->size));
    if (options->inverse) {
        hd_tensor *places = hd_range_beside(bounds, 0, 1, o->count, HD_I64);
        hd_tensor *kinds = hd_sub_scalar(hd_searchsorted(bounds, places, true), 1);
        u.inverse = hd_reshape(hd_scatter(hd_zeros_like(places), 0, o->order, kinds, HD_SCATTER_SET), *shape);
    }
    return u;
}

static hd_uniques end_unique(hd_span *span, hd_uniques u) {
    hd_span_keep(span, u.inverse);
    hd_span_keep(span, u.counts);
    u.values = hd_span_end(span, u.values);
    return u.values == NULL ? (hd_uniques){.values = NULL} : u;
}

hd_uniques hd_unique(hd_tensor *x, const hd_unique_opts *opts) {
    const hd_uniques none = {.values = NULL};
    HD_ENTER("hd_unique", none);
    HD_TRY_OR(hd_tensor_check(x, "x"), none);
    HD_READ_OPTS(hd_unique_opts, opts, none);
    if (!values_are_known(thread, "hd_unique_padded")) return none;
    hd_span span;
    hd_span_begin(&span, thread, "unique");
    const in_order o = put_in_order(x);
    const found f = find_all(thread, o.is_first);
    hd_tensor *both[2] = {f.at, f.at == NULL ? NULL : hd_full_beside(f.at, HD_SHAPE(1), HD_I64, (double)o.count)};
    hd_tensor *bounds = both[1] == NULL ? NULL : hd_concat(both, 2, 0);
    return end_unique(&span, describe(&o, &f, bounds, &x->layout.shape, 0, &options));
}

hd_uniques hd_unique_padded(hd_tensor *x, int64_t size, double fill, const hd_unique_opts *opts) {
    const hd_uniques none = {.values = NULL};
    HD_ENTER("hd_unique_padded", none);
    HD_TRY_OR(hd_tensor_check(x, "x"), none);
    HD_TRY_OR(check_size(size), none);
    HD_READ_OPTS(hd_unique_opts, opts, none);
    hd_span span;
    hd_span_begin(&span, thread, "unique_padded");
    const in_order o = put_in_order(x);
    const found all = find_first(o.is_first, 1 + (size > o.count ? size : o.count));
    const found f = {hd_narrow(all.at, 0, 0, size), hd_narrow(all.valid, 0, 0, size), size};
    hd_tensor *bounds = hd_where(all.valid, all.at, hd_number(HD_I64, (double)o.count));
    return end_unique(&span, describe(&o, &f, bounds, &x->layout.shape, fill, &options));
}
