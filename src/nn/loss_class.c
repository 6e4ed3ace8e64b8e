/* Losses of classes: cross-entropy, and the negative log-likelihood, which it is of a log-softmax. */
#include "nn/loss.h"
#include "ops/fused.h"

/* ---- arguments --------------------------------------------------------------------------------------------------- */
/* The axis that classes are on: the last, unless another one is named. */
static hd_error find_class_axis(const hd_tensor *logits, int given, int *axis) {
    const int rank = logits->layout.shape.rank;
    *axis = rank - 1;
    return given == 0 || rank == 0 ? HD_OK : hd_axis_resolve(given, rank, axis);
}

/* The shape without one axis: that of class numbers, and of the loss of each row. */
static hd_shape without_axis(const hd_shape *shape, int axis) {
    hd_shape rest = {.rank = shape->rank - 1};
    for (int i = 0; i < rest.rank; ++i) rest.size[i] = shape->size[i < axis ? i : i + 1];
    return rest;
}

static hd_error check_classes(const hd_tensor *logits, const char *name, const hd_tensor *target, bool shares,
                              const hd_cross_entropy_opts *o, int *axis) {
    HD_TRY(hd_tensor_check(logits, name));
    HD_TRY(hd_tensor_check(target, "target"));
    HD_TRY(hd_loss_check_reduction(o->reduction));
    HD_TRY(find_class_axis(logits, o->class_axis, axis));
    const hd_shape *l = &logits->layout.shape, *t = &target->layout.shape;
    const bool is_float = hd_dtype_is_float((hd_dtype)target->dtype);
    const bool fits = l->rank > 0 && target->dtype != HD_BOOL &&
                      (is_float ? shares && hd_shape_equal(*l, *t) : hd_shape_equal(without_axis(l, *axis), *t));
    if (!fits)
        return hd_fail(HD_ERROR_SHAPE,
                       "%s %s of %s and target %s of %s: %s are [..., classes] (.class_axis names another axis); the "
                       "target has integers [...]%s",
                       name, HD_SHAPE_TEXT(*l), hd_dtype_name((hd_dtype)logits->dtype), HD_SHAPE_TEXT(*t),
                       hd_dtype_name((hd_dtype)target->dtype), name,
                       shares ? ", or probabilities of the logits' shape" : "");
    if (o->weight == NULL) return HD_OK;
    HD_TRY(hd_tensor_check(o->weight, "weight"));
    return o->weight->layout.shape.rank == 1 && o->weight->layout.shape.size[0] == l->size[*axis]
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "weight %s for %lld classes", HD_SHAPE_TEXT(o->weight->layout.shape),
                         (long long)l->size[*axis]);
}

/* [..., classes, ...] -> [rows, classes]. */
static hd_tensor *as_rows(hd_tensor *t, int axis) {
    const hd_shape shape = hd_tensor_shape(t);
    if (axis != shape.rank - 1) t = hd_move_axis(t, axis, -1);
    if (shape.rank == 2 || t == NULL) return t;
    const hd_shape rest = without_axis(&shape, axis);
    return hd_reshape(t, HD_SHAPE(hd_shape_count(rest), shape.size[axis]));
}

/* ---- class numbers ----------------------------------------------------------------------------------------------- */
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

/* Loss and weight of each row [n], for class numbers; the weight stays NULL where all count alike. */
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

/* The loss of each row as it is asked for: `shape` is that of the class numbers. */
static hd_tensor *end_rows(hd_loss *l, hd_tensor *loss, hd_tensor *weight, hd_shape shape,
                           hd_reduction_kind reduction) {
    if (reduction == HD_REDUCTION_NONE && shape.rank != 1) loss = hd_reshape(loss, shape);
    if (weight == NULL || reduction == HD_REDUCTION_NONE || reduction == HD_REDUCTION_SUM)
        return hd_loss_end(l, loss, reduction);
    return hd_loss_end_reduced(l, hd_div(hd_sum(loss, HD_AXES(), NULL), hd_sum(weight, HD_AXES(), NULL)));
}

/* ---- cross-entropy ----------------------------------------------------------------------------------------------- */
static hd_error check_cross_entropy(const hd_tensor *logits, const hd_tensor *target, const hd_cross_entropy_opts *o,
                                    int *axis) {
    HD_TRY(check_classes(logits, "logits", target, true, o, axis));
    if (!(o->label_smoothing >= 0 && o->label_smoothing <= 1))
        return hd_fail(HD_ERROR_VALUE, "label_smoothing is %g; it must be in [0, 1]", o->label_smoothing);
    if (hd_dtype_is_float((hd_dtype)target->dtype) && o->ignores)
        return hd_fail(HD_ERROR_VALUE, "ignore_index is for class numbers, and the target has probabilities");
    return HD_OK;
}

static hd_tensor *of_probabilities(hd_tensor *logits, hd_tensor *target, const hd_cross_entropy_opts *o) {
    const hd_dtype dtype = hd_tensor_dtype(logits);
    const double classes = (double)hd_tensor_size(logits, 1), s = o->label_smoothing;
    target = hd_cast(target, dtype);
    if (s > 0) target = hd_add_scalar(hd_mul_scalar(target, 1 - s), s / classes);
    hd_tensor *product = hd_mul(logits, target);
    if (o->weight != NULL) product = hd_mul(product, hd_cast(o->weight, dtype));
    return hd_neg(hd_sum(product, HD_AXES(1), NULL));
}

hd_tensor *hd_cross_entropy(hd_tensor *logits, hd_tensor *target, const hd_cross_entropy_opts *opts) {
    HD_ENTER("hd_cross_entropy", NULL);
    HD_READ_OPTS(hd_cross_entropy_opts, opts, NULL);
    int axis;
    HD_TRY_OR(check_cross_entropy(logits, target, &options, &axis), NULL);
    const bool probabilities = hd_dtype_is_float((hd_dtype)target->dtype);
    const hd_shape shape = without_axis(&logits->layout.shape, axis);
    hd_loss l;
    hd_loss_begin(&l, thread, "cross_entropy", &logits, NULL);
    logits = as_rows(logits, axis);
    if (probabilities)
        target = as_rows(target, axis);
    else if (shape.rank != 1)
        target = hd_flatten(target);
    hd_tensor *loss = NULL, *weight = NULL;
    if (target != NULL && !probabilities && options.weight == NULL && options.label_smoothing == 0 && !options.ignores)
        loss = hd_fused_cross_entropy(thread, logits, target);
    hd_tensor *logs = loss == NULL ? hd_log_softmax(logits, 1) : NULL;
    if (logs != NULL)
        loss = probabilities ? of_probabilities(logs, target, &options) : of_classes(logs, target, &options, &weight);
    return end_rows(&l, loss, weight, shape, options.reduction);
}

/* ---- negative log-likelihood ------------------------------------------------------------------------------------- */
hd_tensor *hd_nll(hd_tensor *logs, hd_tensor *target, const hd_nll_opts *opts) {
    HD_ENTER("hd_nll", NULL);
    HD_READ_OPTS(hd_nll_opts, opts, NULL);
    const hd_cross_entropy_opts o = {.reduction = options.reduction,
                                     .weight = options.weight,
                                     .ignores = options.ignores,
                                     .ignore_index = options.ignore_index,
                                     .class_axis = options.class_axis};
    int axis;
    HD_TRY_OR(check_classes(logs, "logs", target, false, &o, &axis), NULL);
    const hd_shape shape = without_axis(&logs->layout.shape, axis);
    hd_loss l;
    hd_loss_begin(&l, thread, "nll", &logs, NULL);
    logs = as_rows(logs, axis);
    if (shape.rank != 1) target = hd_flatten(target);
    hd_tensor *weight = NULL, *loss = logs != NULL ? of_classes(logs, target, &o, &weight) : NULL;
    return end_rows(&l, loss, weight, shape, o.reduction);
}
