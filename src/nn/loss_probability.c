/* Losses of probabilities: binary cross-entropy, and the Kullback-Leibler divergence. */
#include "nn/loss.h"

/* ---- binary cross-entropy ---------------------------------------------------------------------------------------- */
/* As in PyTorch, logarithms end at -100, and the slope of x is (x - t) / max(x (1 - x), 1e-12): a prediction of exactly
 * 0 or 1 that is wrong costs 100, and can still be learnt from. */
#define LEAST_LOG  (-100)
#define LEAST_RATE ((double)1e-12f)

/* What has the slope (x - t) / LEAST_RATE, and is 0 itself. */
static hd_tensor *slope_alone(hd_tensor *x, hd_tensor *t) {
    hd_tensor *steep = hd_mul_scalar(hd_squared_difference(x, hd_detach(t)), 0.5 / LEAST_RATE);
    return hd_sub(steep, hd_detach(steep));
}

static hd_tensor *bce_of(hd_tensor *x, hd_tensor *t) {
    hd_tensor *inside = hd_gt_scalar(hd_mul(hd_rsub_scalar(x, 1), x), LEAST_RATE);
    hd_tensor *sloping = hd_where(inside, x, hd_detach(x)); /* x, whose logarithms have no slope where it is cut */
    hd_tensor *log = hd_clamp_min(hd_log(sloping), LEAST_LOG);
    hd_tensor *log_of_rest = hd_clamp_min(hd_log1p(hd_neg(sloping)), LEAST_LOG);
    hd_tensor *each = hd_sub(hd_mul(hd_sub_scalar(t, 1), log_of_rest), hd_mul(t, log));
    if (x == NULL || x->tracking == HD_UNTRACKED) return each;
    return hd_add(each, hd_where(inside, hd_zeros_like(x), slope_alone(x, t)));
}

static hd_error check_bce(const hd_tensor *x, const char *name, const hd_tensor *target, const hd_tensor *weight,
                          hd_reduction_kind reduction) {
    HD_TRY(hd_loss_check_pair(x, name, target, "target"));
    HD_TRY(hd_loss_check_reduction(reduction));
    return hd_loss_check_weight(weight, "weight", x);
}

static hd_tensor *weighted(const hd_loss *loss, hd_tensor *each, hd_tensor *weight) {
    return weight == NULL ? each : hd_mul(each, hd_cast(weight, loss->wide));
}

hd_tensor *hd_bce(hd_tensor *prediction, hd_tensor *target, const hd_bce_opts *opts) {
    HD_ENTER("hd_bce", NULL);
    HD_READ_OPTS(hd_bce_opts, opts, NULL);
    HD_TRY_OR(check_bce(prediction, "prediction", target, options.weight, options.reduction), NULL);
    hd_loss loss;
    hd_loss_begin(&loss, thread, "bce", &prediction, &target);
    return hd_loss_end(&loss, weighted(&loss, bce_of(prediction, target), options.weight), options.reduction);
}

/* -(w t log p + (1 - t) log(1 - p)) for p = sigmoid(x): log(1 - p) is log(p) - x. */
hd_tensor *hd_bce_with_logits(hd_tensor *logits, hd_tensor *target, const hd_bce_with_logits_opts *opts) {
    HD_ENTER("hd_bce_with_logits", NULL);
    HD_READ_OPTS(hd_bce_with_logits_opts, opts, NULL);
    HD_TRY_OR(check_bce(logits, "logits", target, options.weight, options.reduction), NULL);
    HD_TRY_OR(hd_loss_check_weight(options.pos_weight, "pos_weight", logits), NULL);
    hd_loss loss;
    hd_loss_begin(&loss, thread, "bce_with_logits", &logits, &target);
    hd_tensor *log = hd_log_sigmoid(logits);
    if (options.pos_weight != NULL) {
        hd_tensor *more = hd_sub_scalar(hd_cast(options.pos_weight, loss.wide), 1);
        log = hd_mul(log, hd_add_scalar(hd_mul(more, target), 1));
    }
    hd_tensor *each = hd_sub(hd_mul(hd_rsub_scalar(target, 1), logits), log);
    return hd_loss_end(&loss, weighted(&loss, each, options.weight), options.reduction);
}

/* ---- Kullback-Leibler -------------------------------------------------------------------------------------------- */
static hd_error check_kl_div(const hd_tensor *prediction, const hd_tensor *target, hd_reduction_kind reduction) {
    HD_TRY(hd_loss_check_pair(prediction, "prediction", target, "target"));
    if (reduction != HD_REDUCTION_BATCH_MEAN) return hd_loss_check_reduction(reduction);
    return prediction->layout.shape.rank > 0
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "HD_REDUCTION_BATCH_MEAN divides by the size of axis 0, and prediction [] has "
                                         "none; HD_REDUCTION_SUM is what is meant");
}

hd_tensor *hd_kl_div(hd_tensor *prediction, hd_tensor *target, const hd_kl_div_opts *opts) {
    HD_ENTER("hd_kl_div", NULL);
    HD_READ_OPTS(hd_kl_div_opts, opts, NULL);
    HD_TRY_OR(check_kl_div(prediction, target, options.reduction), NULL);
    hd_loss loss;
    hd_loss_begin(&loss, thread, "kl_div", &prediction, &target);
    hd_tensor *each;
    if (options.log_target)
        each = hd_mul(hd_exp(target), hd_sub(target, prediction));
    else
        each = hd_sub(hd_xlogy(target, target), hd_mul(target, prediction));
    if (options.reduction != HD_REDUCTION_BATCH_MEAN) return hd_loss_end(&loss, each, options.reduction);
    const double batch = (double)hd_tensor_size(prediction, 0);
    return hd_loss_end_reduced(&loss, hd_div_scalar(hd_sum(each, HD_AXES(), NULL), batch));
}
