/* Metrics of classes: accuracy, the confusion matrix and what follows from it, perplexity. */
#include "ops/op.h"
#include "watch/metric.h"

/* ---- arguments --------------------------------------------------------------------------------------------------- */
static bool has_classes(const hd_tensor *t) { return !hd_dtype_is_float((hd_dtype)t->dtype); }

hd_error hd_metric_check_scores(const hd_tensor *scores, const char *name, const hd_tensor *target) {
    HD_TRY(hd_tensor_check(scores, name));
    HD_TRY(hd_tensor_check(target, "target"));
    hd_shape rows = scores->layout.shape;
    const int64_t classes = rows.rank > 0 ? rows.size[--rows.rank] : 0;
    if (classes > 0 && hd_shape_equal(rows, target->layout.shape) && has_classes(target) &&
        hd_dtype_is_float((hd_dtype)scores->dtype))
        return HD_OK;
    return hd_fail(HD_ERROR_SHAPE,
                   "%s %s of %s and target %s of %s: %s are floats [..., classes], and the target has class numbers "
                   "[...]",
                   name, HD_SHAPE_TEXT(scores->layout.shape), hd_dtype_name((hd_dtype)scores->dtype),
                   HD_SHAPE_TEXT(target->layout.shape), hd_dtype_name((hd_dtype)target->dtype), name);
}

hd_error hd_metric_check_classes(const hd_tensor *prediction, const hd_tensor *target) {
    HD_TRY(hd_tensor_check(prediction, "prediction"));
    HD_TRY(hd_tensor_check(target, "target"));
    if (has_classes(prediction) && has_classes(target) &&
        hd_shape_equal(prediction->layout.shape, target->layout.shape))
        return HD_OK;
    hd_shape rows = prediction->layout.shape;
    if (!has_classes(prediction) && has_classes(target) && rows.rank > 0 && rows.size[--rows.rank] > 0 &&
        hd_shape_equal(rows, target->layout.shape))
        return HD_OK;
    return hd_fail(HD_ERROR_SHAPE,
                   "prediction %s of %s and target %s of %s: the target has class numbers [...], and the prediction "
                   "class numbers, too, or float scores [..., classes]; hd_gt_scalar makes classes of probabilities",
                   HD_SHAPE_TEXT(prediction->layout.shape), hd_dtype_name((hd_dtype)prediction->dtype),
                   HD_SHAPE_TEXT(target->layout.shape), hd_dtype_name((hd_dtype)target->dtype));
}

hd_error hd_metric_check_top_k(const hd_tensor *scores, const hd_tensor *target, int64_t k) {
    HD_TRY(hd_metric_check_scores(scores, "scores", target));
    const int64_t classes = scores->layout.shape.size[scores->layout.shape.rank - 1];
    return k >= 1 && k <= classes ? HD_OK
                                  : hd_fail(HD_ERROR_VALUE, "the %lld largest of %lld classes; k is 1 to as many",
                                            (long long)k, (long long)classes);
}

enum { MOST_CLASSES = 1 << 20 }; /* whose matrix has an index for each pair */
hd_error hd_metric_check_confusion(const hd_tensor *prediction, const hd_tensor *target, int64_t classes) {
    HD_TRY(hd_metric_check_classes(prediction, target));
    if (classes < 1 || classes > MOST_CLASSES)
        return hd_fail(HD_ERROR_VALUE, "%lld classes; there are 1 to %d", (long long)classes, (int)MOST_CLASSES);
    const hd_shape *shape = &prediction->layout.shape;
    return has_classes(prediction) || shape->size[shape->rank - 1] == classes
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "prediction %s has scores of %lld classes, and not of %lld",
                         HD_SHAPE_TEXT(*shape), (long long)shape->size[shape->rank - 1], (long long)classes);
}

hd_error hd_metric_check_average(hd_average average) {
    return (unsigned)average <= HD_AVERAGE_BINARY ? HD_OK
                                                  : hd_fail(HD_ERROR_VALUE, "%d is none of HD_AVERAGE_*", (int)average);
}

/* ---- accuracy ---------------------------------------------------------------------------------------------------- */
static hd_tensor *classes_of(hd_tensor *prediction) {
    return prediction == NULL || has_classes(prediction) ? prediction : hd_argmax(prediction, -1, NULL);
}

hd_tensor *hd_metric_hits(hd_tensor *prediction, hd_tensor *target) { return hd_eq(classes_of(prediction), target); }

hd_tensor *hd_metric_top_hits(hd_tensor *scores, hd_tensor *target, int64_t k) {
    hd_tensor *best = hd_topk(scores, k, -1, true).indices;
    return hd_any(hd_eq(best, hd_unsqueeze(target, -1)), HD_AXES(-1), NULL);
}

hd_tensor *hd_accuracy(hd_tensor *prediction, hd_tensor *target) {
    HD_ENTER("hd_accuracy", NULL);
    HD_TRY_OR(hd_metric_check_classes(prediction, target), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "accuracy");
    return hd_span_end(&span, hd_mean(hd_metric_hits(prediction, target), HD_AXES(), NULL));
}

hd_tensor *hd_top_k_accuracy(hd_tensor *scores, hd_tensor *target, int64_t k) {
    HD_ENTER("hd_top_k_accuracy", NULL);
    HD_TRY_OR(hd_metric_check_top_k(scores, target, k), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "top_k_accuracy");
    return hd_span_end(&span, hd_mean(hd_metric_top_hits(scores, target, k), HD_AXES(), NULL));
}

/* ---- the confusion matrix ---------------------------------------------------------------------------------------- */
static hd_tensor *is_class(hd_tensor *t, int64_t classes) {
    return hd_logical_and(hd_ge_scalar(t, 0), hd_lt_scalar(t, (double)classes));
}

/* A number that is no class would be found in another place of the matrix: it gets an index behind its end, which is an
 * error when it runs. */
hd_tensor *hd_metric_confusions(hd_tensor *prediction, hd_tensor *target, int64_t classes) {
    hd_tensor *rows = hd_cast(hd_flatten(target), HD_I64);
    hd_tensor *columns = hd_cast(hd_flatten(classes_of(prediction)), HD_I64);
    hd_tensor *place = hd_add(hd_mul_scalar(rows, (double)classes), columns);
    hd_tensor *valid = hd_logical_and(is_class(rows, classes), is_class(columns, classes));
    place = hd_where(valid, place, hd_full_like(place, (double)(classes * classes)));
    return hd_reshape(hd_bincount(place, NULL, classes * classes), HD_SHAPE(classes, classes));
}

hd_tensor *hd_confusion_matrix(hd_tensor *prediction, hd_tensor *target, int64_t classes) {
    HD_ENTER("hd_confusion_matrix", NULL);
    HD_TRY_OR(hd_metric_check_confusion(prediction, target, classes), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "confusion_matrix");
    return hd_span_end(&span, hd_metric_confusions(prediction, target, classes));
}

static hd_error check_matrix(const hd_tensor *confusion, hd_average average) {
    HD_TRY(hd_tensor_check(confusion, "confusion"));
    HD_TRY(hd_metric_check_average(average));
    const hd_shape *shape = &confusion->layout.shape;
    if (shape->rank != 2 || shape->size[0] != shape->size[1] || shape->size[0] == 0 || confusion->dtype == HD_BOOL)
        return hd_fail(HD_ERROR_SHAPE, "confusion %s of %s; it is [classes, classes], as of hd_confusion_matrix",
                       HD_SHAPE_TEXT(*shape), hd_dtype_name((hd_dtype)confusion->dtype));
    return average != HD_AVERAGE_BINARY || shape->size[0] == 2
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "confusion %s and HD_AVERAGE_BINARY, which is of two classes",
                         HD_SHAPE_TEXT(*shape));
}

/* a / b, 0 where b is. */
static hd_tensor *ratio(hd_tensor *a, hd_tensor *b) {
    hd_tensor *is_zero = hd_eq_scalar(b, 0);
    hd_tensor *quotient = hd_div(a, hd_where(is_zero, hd_ones_like(b), b));
    return hd_where(is_zero, hd_zeros_like(quotient), quotient);
}

/* Of each class what is `right` out of `all`, or of all together; `here`: how often each occurs, `said`: is predicted. */
static hd_tensor *averaged(hd_tensor *right, hd_tensor *all, hd_tensor *here, hd_tensor *said, hd_average average) {
    if (average == HD_AVERAGE_MICRO) return ratio(hd_sum(right, HD_AXES(), NULL), hd_sum(all, HD_AXES(), NULL));
    hd_tensor *each = ratio(right, all);
    if (average == HD_AVERAGE_NONE) return each;
    if (average == HD_AVERAGE_BINARY) return hd_select(each, 0, 1);
    hd_tensor *weight = average == HD_AVERAGE_WEIGHTED ? here : hd_cast(hd_gt_scalar(hd_add(here, said), 0), HD_I64);
    return ratio(hd_sum(hd_mul(each, weight), HD_AXES(), NULL), hd_sum(weight, HD_AXES(), NULL));
}

typedef enum part { PRECISION, RECALL, F1 } part;
static hd_tensor *of_matrix(hd_thread *thread, const char *name, hd_tensor *confusion, hd_average average, part which) {
    HD_TRY_OR(check_matrix(confusion, average), NULL);
    hd_span span;
    hd_span_begin(&span, thread, name);
    hd_tensor *right = hd_diagonal(confusion, 0, 0, 1);
    hd_tensor *here = hd_sum(confusion, HD_AXES(1), NULL), *said = hd_sum(confusion, HD_AXES(0), NULL);
    hd_tensor *all = which == PRECISION ? said : which == RECALL ? here : hd_add(here, said);
    if (which == F1) right = hd_mul_scalar(right, 2);
    return hd_span_end(&span, averaged(right, all, here, said, average));
}

hd_tensor *hd_precision(hd_tensor *confusion, hd_average average) {
    HD_ENTER("hd_precision", NULL);
    return of_matrix(thread, "precision", confusion, average, PRECISION);
}
hd_tensor *hd_recall(hd_tensor *confusion, hd_average average) {
    HD_ENTER("hd_recall", NULL);
    return of_matrix(thread, "recall", confusion, average, RECALL);
}
hd_tensor *hd_f1(hd_tensor *confusion, hd_average average) {
    HD_ENTER("hd_f1", NULL);
    return of_matrix(thread, "f1", confusion, average, F1);
}

/* ---- perplexity -------------------------------------------------------------------------------------------------- */
hd_tensor *hd_metric_surprise(hd_tensor *logits, hd_tensor *target, const hd_perplexity_opts *o, hd_tensor **kept) {
    const int64_t classes = hd_tensor_size(logits, -1);
    target = hd_cast(target, HD_I64);
    *kept = o->ignores ? hd_ne_scalar(target, (double)o->ignore_index) : NULL;
    if (o->ignores) target = hd_where(*kept, target, hd_zeros_like(target));
    /* an index below 0 would count from the end: then none is in range, and the run says so */
    target = hd_where(hd_lt_scalar(target, 0), hd_full_like(target, (double)classes), target);
    hd_tensor *logs = hd_log_softmax(hd_as_float(logits), -1);
    hd_tensor *surprise = hd_neg(hd_squeeze(hd_gather(logs, -1, hd_unsqueeze(target, -1)), HD_AXES(-1)));
    return o->ignores ? hd_where(*kept, surprise, hd_zeros_like(surprise)) : surprise;
}

hd_tensor *hd_perplexity(hd_tensor *logits, hd_tensor *target, const hd_perplexity_opts *opts) {
    HD_ENTER("hd_perplexity", NULL);
    HD_READ_OPTS(hd_perplexity_opts, opts, NULL);
    HD_TRY_OR(hd_metric_check_scores(logits, "logits", target), NULL);
    const hd_dtype result = hd_float_result(thread, logits);
    hd_span span;
    hd_span_begin(&span, thread, "perplexity");
    hd_tensor *kept, *surprise = hd_metric_surprise(logits, target, &options, &kept), *mean;
    if (kept == NULL)
        mean = hd_mean(surprise, HD_AXES(), NULL);
    else
        mean = hd_div(hd_sum(surprise, HD_AXES(), NULL), hd_count_nonzero(kept, HD_AXES(), NULL));
    return hd_span_end(&span, hd_cast(hd_exp(mean), result));
}
