/* Attention as one node, which never holds the matrix of scores. Where it has a history it gives statistics of its rows
 * beside its result, so that the gradient makes the weights of a row from its scores at once, row block by row block;
 * where backward will itself be differentiated, or the mask has a gradient, the formulas run in other ops. */
#include "ops/op.h"

#include <math.h>

static hd_error check_operands(const hd_tensor *q, const hd_tensor *k, const hd_tensor *v) {
    HD_TRY(hd_tensor_check(q, "q"));
    HD_TRY(hd_tensor_check(k, "k"));
    HD_TRY(hd_tensor_check(v, "v"));
    const hd_shape *a = &q->layout.shape, *b = &k->layout.shape, *c = &v->layout.shape;
    const int last = a->rank - 1;
    bool fits = a->rank >= 2 && b->rank == a->rank && c->rank == a->rank;
    for (int i = 0; fits && i < last - 1; ++i) fits = a->size[i] == b->size[i] && a->size[i] == c->size[i];
    fits = fits && a->size[last] == b->size[last] && b->size[last - 1] == c->size[last - 1];
    return fits ? HD_OK
                : hd_fail(HD_ERROR_SHAPE, "q %s, k %s, v %s; they must be [..., t, d], [..., s, d] and [..., s, e]",
                          HD_SHAPE_TEXT(*a), HD_SHAPE_TEXT(*b), HD_SHAPE_TEXT(*c));
}

/* [..., t, s] */
static hd_shape scores_shape(const hd_shape *q, const hd_shape *k) {
    hd_shape shape = *q;
    shape.size[q->rank - 1] = k->size[q->rank - 2];
    return shape;
}

static hd_error check_mask(const hd_tensor *mask, const hd_shape *scores) {
    if (mask == NULL) return HD_OK;
    HD_TRY(hd_tensor_check(mask, "mask"));
    hd_shape together;
    HD_TRY(hd_shape_broadcast(&mask->layout.shape, scores, &together));
    if (!hd_shape_equal(together, *scores))
        return hd_fail(HD_ERROR_SHAPE, "mask %s; it must broadcast to the scores %s", HD_SHAPE_TEXT(mask->layout.shape),
                       HD_SHAPE_TEXT(*scores));
    return mask->dtype == HD_BOOL || hd_dtype_is_float((hd_dtype)mask->dtype)
               ? HD_OK
               : hd_fail(HD_ERROR_DTYPE, "a mask of %s; it is bool, or a float to be added",
                         hd_dtype_name((hd_dtype)mask->dtype));
}

/* The call, not yet run; the first `meet` inputs say its dtype: statistics and masks do not widen, they are read in the
 * compute type. */
static hd_error describe_attention(hd_call *call, hd_op_id id, hd_tensor *const *inputs, int count, int meet,
                                   const hd_shape *shape, double scale, const void *attributes) {
    hd_dtype dtype = (hd_dtype)inputs[0]->dtype;
    for (int i = 1; i < meet; ++i) dtype = hd_dtype_promote(dtype, (hd_dtype)inputs[i]->dtype);
    if (!hd_dtype_is_float(dtype)) return hd_fail(HD_ERROR_DTYPE, "%s; it takes floats", hd_dtype_name(dtype));
    if (isnan(scale) || isinf(scale)) return hd_fail(HD_ERROR_VALUE, "scale = %g; it must be finite", scale);
    int64_t elements;
    HD_TRY(hd_shape_check(shape, hd_dtype_bytes[dtype], &elements));
    hd_call_init(call, &hd_ops[id], inputs, count, dtype, shape, attributes);
    return HD_OK;
}

/* Of each row [..., t]: its largest score, and 1 over the sum of exponentials. */
static hd_shape statistics_shape(const hd_shape *q) {
    hd_shape shape = *q;
    shape.size[shape.rank - 1] = 2;
    return shape;
}

static hd_attention_attributes attributes_of(const hd_tensor *q, bool causal, double scale) {
    const int64_t d = q->layout.shape.size[q->layout.shape.rank - 1];
    return (hd_attention_attributes){.causal = causal, .scale = scale != 0 || d == 0 ? scale : 1 / sqrt((double)d)};
}

/* *statistics, when it is asked for: whatever the inputs are; else only where a gradient may be asked for. */
static hd_tensor *attend(hd_thread *thread, hd_tensor *const inputs[4], bool causal, double scale,
                         hd_tensor **statistics) {
    hd_tensor *q = inputs[0], *k = inputs[1], *v = inputs[2], *mask = inputs[3];
    HD_TRY_OR(check_operands(q, k, v), NULL);
    const hd_shape scores = scores_shape(&q->layout.shape, &k->layout.shape);
    HD_TRY_OR(check_mask(mask, &scores), NULL);
    const hd_attention_attributes a = attributes_of(q, causal, scale);
    hd_shape shape = q->layout.shape;
    shape.size[shape.rank - 1] = v->layout.shape.size[shape.rank - 1];
    hd_call call;
    HD_TRY_OR(describe_attention(&call, HD_OP_attention, inputs, mask != NULL ? 4 : 3, 3, &shape, a.scale, &a), NULL);
    if (statistics != NULL || (thread->observer != NULL && hd_call_tracked(&call))) {
        const hd_shape rows = statistics_shape(&q->layout.shape);
        hd_call_add_output(&call, call.dtype[0] == HD_F64 ? HD_F64 : HD_F32, &rows);
    }
    hd_tensor *out = hd_execute(thread, &call);
    if (statistics != NULL) *statistics = out == NULL ? NULL : call.outputs[1];
    return out;
}

hd_tensor *hd_attention(hd_tensor *q, hd_tensor *k, hd_tensor *v, hd_tensor *mask, bool causal, double scale) {
    HD_ENTER("hd_attention", NULL);
    return attend(thread, (hd_tensor *[]){q, k, v, mask}, causal, scale, NULL);
}

/* ---- with dropout ------------------------------------------------------------------------------------------------ */
/* Which scores [t, s] are seen, bool; NULL: all. */
static hd_tensor *seen_of(hd_tensor *mask, hd_tensor *scores, bool causal) {
    hd_tensor *seen = mask == NULL || mask->dtype == HD_BOOL ? mask : hd_gt_scalar(mask, -INFINITY);
    if (!causal) return seen;
    hd_tensor *rows = hd_unsqueeze(hd_range_beside(scores, 0, 1, hd_tensor_size(scores, -2), HD_I64), 1);
    hd_tensor *before = hd_le(hd_range_beside(scores, 0, 1, hd_tensor_size(scores, -1), HD_I64), rows);
    return seen == NULL ? before : hd_logical_and(seen, before);
}

/* The weights, in f32 at least. What is not seen has a score far below all others rather than -inf, so that a row that
 * sees nothing has weights, too, which then are set to 0. */
static hd_tensor *dropped_weights(hd_tensor *const inputs[4], bool causal, double scale, double p) {
    hd_tensor *mask = inputs[3], *q = hd_mul_scalar(inputs[0], scale);
    hd_tensor *scores = hd_as_float(hd_matmul(q, hd_t(inputs[1])));
    if (scores == NULL) return NULL;
    hd_tensor *seen = seen_of(mask, scores, causal);
    if (mask != NULL && mask->dtype != HD_BOOL) scores = hd_add(scores, hd_cast(mask, hd_tensor_dtype(scores)));
    if (seen != NULL) scores = hd_where_scalar(seen, scores, -1e30);
    hd_tensor *weights = hd_softmax(scores, -1);
    if (seen != NULL) weights = hd_where_scalar(seen, weights, 0);
    return hd_dropout(weights, p);
}

hd_tensor *hd_attention_dropout(hd_tensor *q, hd_tensor *k, hd_tensor *v, hd_tensor *mask, bool causal, double scale,
                                double p) {
    HD_ENTER("hd_attention_dropout", NULL);
    HD_TRY_OR(check_operands(q, k, v), NULL);
    const hd_shape scores = scores_shape(&q->layout.shape, &k->layout.shape);
    HD_TRY_OR(check_mask(mask, &scores), NULL);
    hd_tensor *inputs[4] = {q, k, v, mask};
    hd_call call; /* which is not run: for its checks, and its dtype */
    HD_TRY_OR(describe_attention(&call, HD_OP_attention, inputs, 3, 3, &scores, scale, NULL), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "attention_dropout");
    hd_tensor *weights = dropped_weights(inputs, causal, attributes_of(q, causal, scale).scale, p);
    return hd_span_end(&span, hd_matmul(hd_cast(weights, call.dtype[0]), v));
}

/* ---- the gradient of the call ------------------------------------------------------------------------------------ */
static hd_error check_statistics(const hd_tensor *statistics, const hd_shape *q) {
    if (statistics == NULL) return HD_OK;
    HD_TRY(hd_tensor_check(statistics, "statistics"));
    const hd_shape rows = statistics_shape(q);
    return hd_shape_equal(statistics->layout.shape, rows) && hd_dtype_is_float((hd_dtype)statistics->dtype)
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "statistics %s of %s; they are floats %s",
                         HD_SHAPE_TEXT(statistics->layout.shape), hd_dtype_name((hd_dtype)statistics->dtype),
                         HD_SHAPE_TEXT(rows));
}

hd_tensor *hd_attention_gradient(hd_tensor *gradient, hd_tensor *q, hd_tensor *k, hd_tensor *v, hd_tensor *mask,
                                 hd_tensor *statistics, bool causal, double scale) {
    HD_ENTER("hd_attention_gradient", NULL);
    HD_TRY_OR(hd_tensor_check(gradient, "gradient"), NULL);
    HD_TRY_OR(check_operands(q, k, v), NULL);
    const hd_shape scores = scores_shape(&q->layout.shape, &k->layout.shape);
    HD_TRY_OR(check_mask(mask, &scores), NULL);
    hd_shape result = q->layout.shape;
    result.size[result.rank - 1] = v->layout.shape.size[result.rank - 1];
    if (!hd_shape_equal(gradient->layout.shape, result)) {
        hd_fail(HD_ERROR_SHAPE, "gradient %s; the result of attention is %s", HD_SHAPE_TEXT(gradient->layout.shape),
                HD_SHAPE_TEXT(result));
        return NULL;
    }
    HD_TRY_OR(check_statistics(statistics, &q->layout.shape), NULL);
    const hd_attention_attributes forward = attributes_of(q, causal, scale);
    const hd_attention_gradient_attributes a = {forward.causal, forward.scale, statistics != NULL};
    const hd_shape shape = HD_SHAPE(q->count + k->count + v->count);
    hd_tensor *inputs[6] = {gradient, q, k, v};
    int count = 4;
    if (mask != NULL) inputs[count++] = mask;
    if (statistics != NULL) inputs[count++] = statistics;
    hd_call call;
    HD_TRY_OR(describe_attention(&call, HD_OP_attention_gradient, inputs, count, 4, &shape, a.scale, &a), NULL);
    return hd_execute(thread, &call);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
/* The weights, [..., t, s]; a row that sees nothing has none. */
static hd_tensor *weights_of(const hd_vjp_call *v, const hd_attention_attributes *a, hd_dtype wide) {
    hd_tensor *q = hd_cast(v->inputs[0], wide), *k = hd_cast(v->inputs[1], wide);
    hd_tensor *scores = hd_mul_scalar(hd_matmul(q, hd_t(k)), a->scale);
    hd_tensor *hidden = hd_number(wide, -INFINITY);
    if (v->input_count > 3) {
        hd_tensor *mask = v->inputs[3];
        scores = v->dtypes[3] == HD_BOOL ? hd_where(mask, scores, hidden) : hd_add(scores, hd_cast(mask, wide));
    }
    if (a->causal) {
        const int rank = v->shapes[0].rank;
        hd_tensor *seen =
            hd_tri_beside(v->gradient, v->shapes[0].size[rank - 2], v->shapes[1].size[rank - 2], 0, HD_BOOL);
        scores = hd_where(seen, scores, hidden);
    }
    hd_tensor *sees =
        hd_any(hd_ne_scalar(hd_detach(scores), -INFINITY), HD_AXES(-1), HD_OPTS(hd_reduce_opts, .keep_dims = true));
    hd_tensor *zero = hd_number(wide, 0);
    return hd_where(sees, hd_softmax(hd_where(sees, scores, zero), -1), zero);
}

static void read_as_ops(const hd_vjp_call *v) {
    const hd_attention_attributes *a = v->attributes;
    const hd_dtype wide = hd_dtype_is_small_float(v->compute) ? HD_F32 : v->compute;
    hd_tensor *p = weights_of(v, a, wide), *g = hd_cast(v->gradient, wide);
    hd_tensor *d = hd_matmul(g, hd_t(hd_cast(v->inputs[2], wide)));
    d = hd_mul(p, hd_sub(d, hd_sum(hd_mul(d, p), HD_AXES(-1), HD_OPTS(hd_reduce_opts, .keep_dims = true))));
    hd_tensor *scaled = hd_mul_scalar(d, a->scale);
    if (v->wanted[0]) v->results[0] = hd_cast(hd_matmul(scaled, hd_cast(v->inputs[1], wide)), (hd_dtype)v->dtypes[0]);
    if (v->wanted[1])
        v->results[1] = hd_cast(hd_matmul(hd_t(scaled), hd_cast(v->inputs[0], wide)), (hd_dtype)v->dtypes[1]);
    if (v->wanted[2]) v->results[2] = hd_cast(hd_matmul(hd_t(p), g), (hd_dtype)v->dtypes[2]);
    if (v->input_count > 3 && v->wanted[3])
        v->results[3] = hd_cast(hd_sum_to_shape(d, v->shapes[3]), (hd_dtype)v->dtypes[3]);
}

void hd_vjp_attention(hd_thread *thread, const hd_vjp_call *v) {
    const hd_attention_attributes *a = v->attributes;
    hd_tensor *mask = v->input_count > 3 ? v->inputs[3] : NULL;
    const int rank = v->shapes[0].rank;
    if (v->gradient == NULL) return; /* statistics are nobody's to use */
    if (thread->observer != NULL || (mask != NULL && v->wanted[3])) {
        if (v->shapes[1].size[rank - 2] > 0 || mask != NULL) read_as_ops(v);
        return; /* without keys the result was constant */
    }
    hd_tensor *flat = hd_attention_gradient(v->gradient, v->inputs[0], v->inputs[1], v->inputs[2], mask,
                                            v->second_output, a->causal, a->scale);
    int64_t at = 0;
    for (int i = 0; i < 3; ++i) {
        const int64_t count = hd_shape_count(v->shapes[i]);
        if (v->wanted[i])
            v->results[i] = hd_cast(hd_reshape(hd_narrow(flat, 0, at, count), v->shapes[i]), (hd_dtype)v->dtypes[i]);
        at += count;
    }
}

/* ---- replays ----------------------------------------------------------------------------------------------------- */
void hd_replay_attention(hd_replay_call *r) {
    const hd_attention_attributes *a = r->attributes;
    hd_tensor *const in[4] = {r->inputs[0], r->inputs[1], r->inputs[2], hd_replay_input(r, 3)};
    r->output = attend(hd_thread_self(), in, a->causal, a->scale, &r->second);
}
void hd_replay_attention_gradient(hd_replay_call *r) {
    const hd_attention_gradient_attributes *a = r->attributes;
    hd_tensor *const *in = r->inputs;
    const int mask = r->input_count - a->statistics;
    if (mask > 5 || mask < 4) {
        hd_fail(HD_ERROR_VALUE, "%d inputs %s statistics", r->input_count, a->statistics ? "with" : "without");
        return;
    }
    r->output = hd_attention_gradient(in[0], in[1], in[2], in[3], mask > 4 ? in[4] : NULL,
                                      a->statistics ? in[mask] : NULL, a->causal, a->scale);
}
