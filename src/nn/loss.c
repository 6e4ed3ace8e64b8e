/* Losses: what all share, and those of differences. */
#include "nn/loss.h"

/* ---- what all share ---------------------------------------------------------------------------------------------- */
hd_error hd_loss_check_reduction(hd_reduction_kind reduction) {
    if ((unsigned)reduction <= HD_REDUCTION_NONE) return HD_OK;
    return reduction == HD_REDUCTION_BATCH_MEAN
               ? hd_fail(HD_ERROR_VALUE, "HD_REDUCTION_BATCH_MEAN is hd_kl_div's alone; HD_REDUCTION_MEAN may do")
               : hd_fail(HD_ERROR_VALUE, "%d is none of HD_REDUCTION_*", (int)reduction);
}

hd_error hd_loss_check_pair(const hd_tensor *a, const char *name_a, const hd_tensor *b, const char *name_b) {
    HD_TRY(hd_tensor_check(a, name_a));
    HD_TRY(hd_tensor_check(b, name_b));
    if (hd_shape_equal(a->layout.shape, b->layout.shape)) return HD_OK;
    return hd_fail(HD_ERROR_SHAPE, "%s %s and %s %s differ; hd_reshape one of them", name_a,
                   HD_SHAPE_TEXT(a->layout.shape), name_b, HD_SHAPE_TEXT(b->layout.shape));
}

hd_error hd_loss_check_weight(const hd_tensor *weight, const char *name, const hd_tensor *of) {
    if (weight == NULL) return HD_OK;
    HD_TRY(hd_tensor_check(weight, name));
    const hd_shape *w = &weight->layout.shape, *s = &of->layout.shape;
    bool fits = w->rank <= s->rank;
    for (int i = 1; i <= w->rank && fits; ++i)
        fits = w->size[w->rank - i] == 1 || w->size[w->rank - i] == s->size[s->rank - i];
    return fits ? HD_OK
                : hd_fail(HD_ERROR_SHAPE, "%s %s does not broadcast to %s, the shape of the losses", name,
                          HD_SHAPE_TEXT(*w), HD_SHAPE_TEXT(*s));
}

hd_error hd_loss_check_number(double given, const char *name, bool above) {
    if (isfinite(given) && (above ? given > 0 : given >= 0)) return HD_OK;
    return hd_fail(HD_ERROR_VALUE, "%s is %g; it must be finite and %s 0", name, given, above ? "above" : "not below");
}

void hd_loss_begin(hd_loss *loss, hd_thread *thread, const char *name, hd_tensor **a, hd_tensor **b) {
    hd_dtype dtype = (hd_dtype)(*a)->dtype;
    if (b != NULL) dtype = hd_dtype_promote(dtype, (hd_dtype)(*b)->dtype);
    loss->result = hd_dtype_is_float(dtype) ? dtype : thread->default_dtype;
    loss->wide = hd_dtype_is_small_float(loss->result) ? (hd_dtype)HD_F32 : loss->result;
    if (thread->autocast != NULL) loss->result = loss->wide; /* where losses stay wide */
    hd_span_begin(&loss->span, thread, name);
    *a = hd_cast(*a, loss->wide);
    if (b != NULL) *b = hd_cast(*b, loss->wide);
}

hd_tensor *hd_loss_end_reduced(hd_loss *loss, hd_tensor *reduced) {
    return hd_span_end(&loss->span, hd_cast(reduced, loss->result));
}

hd_tensor *hd_loss_end(hd_loss *loss, hd_tensor *each, hd_reduction_kind reduction) {
    if (reduction == HD_REDUCTION_SUM)
        each = hd_sum(each, HD_AXES(), NULL);
    else if (reduction != HD_REDUCTION_NONE)
        each = hd_mean(each, HD_AXES(), NULL);
    return hd_loss_end_reduced(loss, each);
}

/* ---- of differences ---------------------------------------------------------------------------------------------- */
static hd_error check_difference(const hd_tensor *prediction, const hd_tensor *target, hd_reduction_kind reduction) {
    HD_TRY(hd_loss_check_pair(prediction, "prediction", target, "target"));
    return hd_loss_check_reduction(reduction);
}

hd_tensor *hd_mse(hd_tensor *prediction, hd_tensor *target, const hd_loss_opts *opts) {
    HD_ENTER("hd_mse", NULL);
    HD_READ_OPTS(hd_loss_opts, opts, NULL);
    HD_TRY_OR(check_difference(prediction, target, options.reduction), NULL);
    hd_loss loss;
    hd_loss_begin(&loss, thread, "mse", &prediction, &target);
    return hd_loss_end(&loss, hd_squared_difference(prediction, target), options.reduction);
}

hd_tensor *hd_mae(hd_tensor *prediction, hd_tensor *target, const hd_loss_opts *opts) {
    HD_ENTER("hd_mae", NULL);
    HD_READ_OPTS(hd_loss_opts, opts, NULL);
    HD_TRY_OR(check_difference(prediction, target, options.reduction), NULL);
    hd_loss loss;
    hd_loss_begin(&loss, thread, "mae", &prediction, &target);
    return hd_loss_end(&loss, hd_abs(hd_sub(prediction, target)), options.reduction);
}

/* d^2 / 2 up to the bound, a line behind it, without a choice between the two: m (d - m / 2), where m is d within the
 * bound. So an infinite d has a gradient, and the second derivative at 0 is not lost, as it would be with |d|. */
static hd_tensor *square_then_line(hd_tensor *d, double bound, double scale) {
    hd_tensor *m = hd_clamp(d, -bound, bound), *rest = hd_sub(d, hd_mul_scalar(m, 0.5));
    return hd_mul(scale == 1 ? m : hd_div_scalar(m, scale), rest);
}

hd_tensor *hd_huber(hd_tensor *prediction, hd_tensor *target, const hd_huber_opts *opts) {
    HD_ENTER("hd_huber", NULL);
    HD_READ_OPTS(hd_huber_opts, opts, NULL);
    HD_TRY_OR(check_difference(prediction, target, options.reduction), NULL);
    const double delta = hd_loss_number(options.delta, 1);
    HD_TRY_OR(hd_loss_check_number(delta, "delta", true), NULL);
    hd_loss loss;
    hd_loss_begin(&loss, thread, "huber", &prediction, &target);
    return hd_loss_end(&loss, square_then_line(hd_sub(prediction, target), delta, 1), options.reduction);
}

hd_tensor *hd_smooth_l1(hd_tensor *prediction, hd_tensor *target, const hd_smooth_l1_opts *opts) {
    HD_ENTER("hd_smooth_l1", NULL);
    HD_READ_OPTS(hd_smooth_l1_opts, opts, NULL);
    HD_TRY_OR(check_difference(prediction, target, options.reduction), NULL);
    const double beta = hd_loss_number(options.beta, 1);
    HD_TRY_OR(hd_loss_check_number(beta, "beta", false), NULL);
    hd_loss loss;
    hd_loss_begin(&loss, thread, "smooth_l1", &prediction, &target);
    hd_tensor *d = hd_sub(prediction, target);
    return hd_loss_end(&loss, beta == 0 ? hd_abs(d) : square_then_line(d, beta, beta), options.reduction);
}
