/* Metrics of numbers: the area under the ROC curve, R2, the mean absolute error. */
#include "ops/op.h"
#include "watch/metric.h"

#include <math.h>

/* ---- ROC ---------------------------------------------------------------------------------------------------------- */
hd_error hd_metric_check_auc(const hd_tensor *scores, const hd_tensor *target) {
    HD_TRY(hd_tensor_check(scores, "scores"));
    HD_TRY(hd_tensor_check(target, "target"));
    return scores->layout.shape.rank == 1 && hd_shape_equal(scores->layout.shape, target->layout.shape)
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "scores %s and target %s; both are [n]", HD_SHAPE_TEXT(scores->layout.shape),
                         HD_SHAPE_TEXT(target->layout.shape));
}

/* By ranks: twice the rank of a score, the mean of those of its equals, is the number of scores below it, and of those
 * not above it, and 1. Ranks are added up in integers, so that it is exact up to the division. */
static hd_tensor *auc_of(hd_tensor *scores, hd_tensor *target, hd_dtype result) {
    hd_tensor *order = hd_sort(scores, 0, false).values;
    hd_tensor *ranks = hd_add(hd_searchsorted(order, scores, false), hd_searchsorted(order, scores, true));
    hd_tensor *mine = hd_ne_scalar(target, 0);
    hd_tensor *sum = hd_sum(hd_mul(hd_add_scalar(ranks, 1), hd_cast(mine, HD_I64)), HD_AXES(), NULL);
    hd_tensor *count = hd_count_nonzero(mine, HD_AXES(), NULL);
    hd_tensor *others = hd_rsub_scalar(count, (double)hd_tensor_count(target));
    hd_tensor *won = hd_sub(sum, hd_mul(count, hd_add_scalar(count, 1))); /* twice: pairs in the right order */
    hd_tensor *pairs = hd_mul_scalar(hd_mul(hd_cast(count, result), hd_cast(others, result)), 2);
    hd_tensor *area = hd_div(hd_cast(won, result), pairs);
    return hd_where(hd_any(hd_isnan(scores), HD_AXES(), NULL), hd_full_like(area, NAN), area);
}

hd_tensor *hd_roc_auc(hd_tensor *scores, hd_tensor *target) {
    HD_ENTER("hd_roc_auc", NULL);
    HD_TRY_OR(hd_metric_check_auc(scores, target), NULL);
    const hd_dtype result = scores->dtype == HD_F64 ? (hd_dtype)HD_F64 : thread->default_dtype;
    hd_span span;
    hd_span_begin(&span, thread, "roc_auc");
    return hd_span_end(&span, auc_of(scores, target, result));
}

/* ---- differences ------------------------------------------------------------------------------------------------- */
hd_error hd_metric_check_numbers(const hd_tensor *prediction, const hd_tensor *target) {
    HD_TRY(hd_tensor_check(prediction, "prediction"));
    HD_TRY(hd_tensor_check(target, "target"));
    return hd_shape_equal(prediction->layout.shape, target->layout.shape)
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "prediction %s and target %s differ; hd_reshape one of them",
                         HD_SHAPE_TEXT(prediction->layout.shape), HD_SHAPE_TEXT(target->layout.shape));
}

hd_tensor *hd_metric_absolute(hd_tensor *prediction, hd_tensor *target) {
    return hd_abs(hd_sub(hd_as_float(prediction), hd_as_float(target)));
}
hd_tensor *hd_metric_squared(hd_tensor *prediction, hd_tensor *target) {
    return hd_squared_difference(hd_as_float(prediction), hd_as_float(target));
}

static hd_dtype result_of(const hd_thread *thread, const hd_tensor *prediction, const hd_tensor *target) {
    const hd_dtype dtype = hd_dtype_promote((hd_dtype)prediction->dtype, (hd_dtype)target->dtype);
    return hd_dtype_is_float(dtype) ? dtype : thread->default_dtype;
}

hd_tensor *hd_mean_absolute_error(hd_tensor *prediction, hd_tensor *target) {
    HD_ENTER("hd_mean_absolute_error", NULL);
    HD_TRY_OR(hd_metric_check_numbers(prediction, target), NULL);
    const hd_dtype result = result_of(thread, prediction, target);
    hd_span span;
    hd_span_begin(&span, thread, "mean_absolute_error");
    hd_tensor *mean = hd_mean(hd_metric_absolute(prediction, target), HD_AXES(), NULL);
    return hd_span_end(&span, hd_cast(mean, result));
}

hd_tensor *hd_r2(hd_tensor *prediction, hd_tensor *target) {
    HD_ENTER("hd_r2", NULL);
    HD_TRY_OR(hd_metric_check_numbers(prediction, target), NULL);
    const hd_dtype result = result_of(thread, prediction, target);
    hd_span span;
    hd_span_begin(&span, thread, "r2");
    hd_tensor *t = hd_as_float(target), *missed = hd_sum(hd_metric_squared(prediction, target), HD_AXES(), NULL);
    hd_tensor *all = hd_sum(hd_squared_difference(t, hd_mean(t, HD_AXES(), NULL)), HD_AXES(), NULL);
    hd_tensor *r2 = hd_rsub_scalar(hd_div(missed, all), 1);
    hd_tensor *exact = hd_cast(hd_eq_scalar(missed, 0), hd_tensor_dtype(r2));
    hd_tensor *constant = hd_eq_scalar(all, 0);
    if (hd_tensor_count(target) > 0) r2 = hd_where(constant, exact, r2);
    return hd_span_end(&span, hd_cast(r2, result));
}
