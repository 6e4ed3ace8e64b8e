/* Losses. */
#include "ops/fused.h"
#include "nn/module.h"

static hd_tensor *reduce_loss(hd_tensor *loss, hd_reduction_kind reduction) {
    switch (reduction) {
    case HD_REDUCTION_SUM: return hd_sum(loss, HD_AXES(), NULL);
    case HD_REDUCTION_NONE: return loss;
    case HD_REDUCTION_DEFAULT:
    case HD_REDUCTION_MEAN: break;
    }
    return hd_mean(loss, HD_AXES(), NULL);
}

static hd_error check_reduction(hd_reduction_kind reduction) {
    return (unsigned)reduction <= HD_REDUCTION_NONE
               ? HD_OK
               : hd_fail(HD_ERROR_VALUE, "%d is none of HD_REDUCTION_*", (int)reduction);
}

hd_tensor *hd_mse(hd_tensor *prediction, hd_tensor *target, const hd_loss_opts *opts) {
    HD_ENTER("hd_mse", NULL);
    HD_READ_OPTS(hd_loss_opts, opts, NULL);
    HD_TRY_OR(hd_tensor_check(prediction, "prediction"), NULL);
    HD_TRY_OR(hd_tensor_check(target, "target"), NULL);
    HD_TRY_OR(check_reduction(options.reduction), NULL);
    if (!hd_shape_equal(prediction->layout.shape,
                        target->layout.shape)) { /* broadcasting here is nearly always a mistake */
        hd_fail(HD_ERROR_SHAPE, "prediction %s and target %s differ; hd_reshape one of them",
                HD_SHAPE_TEXT(prediction->layout.shape), HD_SHAPE_TEXT(target->layout.shape));
        return NULL;
    }
    hd_span span;
    hd_span_begin(&span, thread, "mse");
    return hd_span_end(&span, reduce_loss(hd_squared_difference(prediction, target), options.reduction));
}

/* ---- cross-entropy ----------------------------------------------------------------------------------------------- */
static hd_error check_cross_entropy(const hd_tensor *logits, const hd_tensor *target, const hd_cross_entropy_opts *o) {
    HD_TRY(hd_tensor_check(logits, "logits"));
    HD_TRY(hd_tensor_check(target, "target"));
    HD_TRY(check_reduction(o->reduction));
    const hd_shape *l = &logits->layout.shape, *t = &target->layout.shape;
    const bool probabilities = hd_dtype_is_float((hd_dtype)target->dtype);
    const bool fits =
        (l->rank == 1 || l->rank == 2) &&
        (probabilities ? hd_shape_equal(*l, *t) : t->rank == l->rank - 1 && (t->rank == 0 || t->size[0] == l->size[0]));
    if (!fits || target->dtype == HD_BOOL)
        return hd_fail(
            HD_ERROR_SHAPE,
            "logits %s of %s and target %s of %s: logits are [n, classes] or [classes]; the target has integers "
            "[n] or [], or probabilities of the logits' shape",
            HD_SHAPE_TEXT(*l), hd_dtype_name((hd_dtype)logits->dtype), HD_SHAPE_TEXT(*t),
            hd_dtype_name((hd_dtype)target->dtype));
    if (!(o->label_smoothing >= 0 && o->label_smoothing <= 1))
        return hd_fail(HD_ERROR_VALUE, "label_smoothing is %g; it must be in [0, 1]", o->label_smoothing);
    if (probabilities && o->ignores)
        return hd_fail(HD_ERROR_VALUE, "ignore_index is for class numbers, and the target has probabilities");
    if (o->weight == NULL) return HD_OK;
    HD_TRY(hd_tensor_check(o->weight, "weight"));
    return o->weight->layout.shape.rank == 1 && o->weight->layout.shape.size[0] == l->size[l->rank - 1]
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "weight %s for %lld classes", HD_SHAPE_TEXT(o->weight->layout.shape),
                         (long long)l->size[l->rank - 1]);
}

static hd_error
refuse_class(int64_t number) { /* hd_gather would count from the end, and train towards the last class */
    return hd_fail(HD_ERROR_INDEX,
                   "a class number of %lld; they begin at 0 (.ignores and .ignore_index leave rows out)",
                   (long long)number);
}

/* Of each row the element of its class. `given`: the class numbers before those below 0 were put out of range. */
static hd_tensor *picked_classes(hd_tensor *logs, hd_tensor *target, hd_tensor *given) {
    hd_thread *thread = hd_thread_self();
    HD_HOLD_ERRORS(thread);
    hd_tensor *picked = hd_squeeze(hd_gather(logs, 1, hd_unsqueeze(target, 1)), HD_AXES(1));
    if (picked != NULL || target == given || thread->error_code != HD_ERROR_INDEX || thread->executor->captures)
        return picked;
    hd_error_copy error; /* only now the device is waited for */
    hd_error_take(&error);
    const int64_t least = hd_item_i64(hd_min(given, HD_AXES(), NULL));
    if (least < 0)
        refuse_class(least);
    else
        hd_error_put_back(&error);
    return NULL;
}

/* Loss and weight of each row [n], for class numbers. */
static hd_tensor *of_classes(hd_tensor *logs, hd_tensor *target, const hd_cross_entropy_opts *o, hd_tensor **weight) {
    const hd_dtype dtype = hd_tensor_dtype(logs);
    hd_tensor *kept = NULL, *zero = hd_number(dtype, 0);
    if (o->ignores) { /* an ignored row may have any number: it reads class 0, and counts for nothing */
        kept = hd_ne_scalar(target, (double)o->ignore_index);
        target = hd_where(kept, target, hd_zeros_like(target));
    }
    /* a builder has no numbers to look at, and a device is not waited for */
    const bool looks = target != NULL && !hd_thread_self()->executor->captures && !hd_storage_is_away(target->storage);
    hd_tensor *least = looks && hd_tensor_count(target) > 0 ? hd_min(target, HD_AXES(), NULL) : NULL;
    if (least != NULL && hd_item_i64(least) < 0) {
        refuse_class(hd_item_i64(least));
        return NULL;
    }
    hd_tensor *given = target;
    if (target != NULL && !looks) { /* then no index is in range, and the run says so */
        hd_tensor *past = hd_full_like(target, (double)hd_tensor_size(logs, 1));
        target = hd_where(hd_lt_scalar(target, 0), past, target);
    }
    hd_tensor *loss = hd_neg(picked_classes(logs, target, given));
    if (o->weight != NULL) {
        *weight = hd_index_select(hd_cast(o->weight, dtype), 0, target);
        loss = hd_mul(loss, *weight);
    }
    if (o->label_smoothing > 0) {
        const double classes = (double)hd_tensor_size(logs, 1), s = o->label_smoothing;
        hd_tensor *weighted = o->weight != NULL ? hd_mul(logs, hd_cast(o->weight, dtype)) : logs;
        hd_tensor *even = hd_mul_scalar(hd_sum(weighted, HD_AXES(1), NULL), -s / classes);
        loss = hd_add(hd_mul_scalar(loss, 1 - s), even);
    }
    if (kept != NULL) {
        loss = hd_where(kept, loss, zero);
        *weight = *weight != NULL ? hd_where(kept, *weight, zero) : hd_cast(kept, dtype);
    }
    return loss;
}

static hd_tensor *of_probabilities(hd_tensor *logs, hd_tensor *target, const hd_cross_entropy_opts *o) {
    const hd_dtype dtype = hd_tensor_dtype(logs);
    const double classes = (double)hd_tensor_size(logs, 1), s = o->label_smoothing;
    target = hd_cast(target, dtype);
    if (s > 0) target = hd_add_scalar(hd_mul_scalar(target, 1 - s), s / classes);
    hd_tensor *product = hd_mul(logs, target);
    if (o->weight != NULL) product = hd_mul(product, hd_cast(o->weight, dtype));
    return hd_neg(hd_sum(product, HD_AXES(1), NULL));
}

hd_tensor *hd_cross_entropy(hd_tensor *logits, hd_tensor *target, const hd_cross_entropy_opts *opts) {
    HD_ENTER("hd_cross_entropy", NULL);
    HD_READ_OPTS(hd_cross_entropy_opts, opts, NULL);
    HD_TRY_OR(check_cross_entropy(logits, target, &options), NULL);
    const bool one_row = logits->layout.shape.rank == 1, probabilities = hd_dtype_is_float((hd_dtype)target->dtype);
    hd_span span;
    hd_span_begin(&span, thread, "cross_entropy");
    hd_tensor *loss = NULL, *weight = NULL;
    if (one_row) logits = hd_unsqueeze(logits, 0), target = hd_unsqueeze(target, 0);
    if (target != NULL && !probabilities && options.weight == NULL && options.label_smoothing == 0 && !options.ignores)
        loss = hd_fused_cross_entropy(thread, logits, target);
    hd_tensor *logs = loss == NULL ? hd_log_softmax(logits, 1) : NULL;
    if (logs != NULL)
        loss = probabilities ? of_probabilities(logs, target, &options) : of_classes(logs, target, &options, &weight);
    if (options.reduction == HD_REDUCTION_NONE)
        loss = one_row ? hd_squeeze(loss, HD_AXES(0)) : loss;
    else if (weight != NULL && options.reduction != HD_REDUCTION_SUM)
        loss = hd_div(hd_sum(loss, HD_AXES(), NULL), hd_sum(weight, HD_AXES(), NULL));
    else
        loss = reduce_loss(loss, options.reduction);
    return hd_span_end(&span, loss);
}
