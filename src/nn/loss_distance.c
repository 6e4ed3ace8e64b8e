/* Losses of margins: hinges, and of distances between vectors. */
#include "nn/loss.h"
#include "ops/op.h"

static hd_error check_margin(double margin) {
    return isfinite(margin) ? HD_OK : hd_fail(HD_ERROR_VALUE, "margin is %g; it must be finite", margin);
}

/* [..., width] -> [...]: one loss for each vector. */
static hd_error check_vectors(const hd_tensor *a, const char *name_a, const hd_tensor *b, const char *name_b) {
    HD_TRY(hd_loss_check_pair(a, name_a, b, name_b));
    return a->layout.shape.rank > 0 ? HD_OK
                                    : hd_fail(HD_ERROR_SHAPE, "%s [] is no vector; it must be [..., width]", name_a);
}

/* ---- hinges ------------------------------------------------------------------------------------------------------ */
hd_tensor *hd_hinge(hd_tensor *prediction, hd_tensor *target, const hd_hinge_opts *opts) {
    HD_ENTER("hd_hinge", NULL);
    HD_READ_OPTS(hd_hinge_opts, opts, NULL);
    HD_TRY_OR(hd_loss_check_pair(prediction, "prediction", target, "target"), NULL);
    HD_TRY_OR(hd_loss_check_reduction(options.reduction), NULL);
    const double margin = hd_loss_number(options.margin, 1);
    HD_TRY_OR(check_margin(margin), NULL);
    hd_loss loss;
    hd_loss_begin(&loss, thread, "hinge", &prediction, &target);
    hd_tensor *short_of = hd_rsub_scalar(hd_mul(prediction, target), margin);
    return hd_loss_end(&loss, hd_relu(short_of), options.reduction);
}

hd_tensor *hd_hinge_embedding(hd_tensor *distance, hd_tensor *target, const hd_hinge_opts *opts) {
    HD_ENTER("hd_hinge_embedding", NULL);
    HD_READ_OPTS(hd_hinge_opts, opts, NULL);
    HD_TRY_OR(hd_loss_check_pair(distance, "distance", target, "target"), NULL);
    HD_TRY_OR(hd_loss_check_reduction(options.reduction), NULL);
    const double margin = hd_loss_number(options.margin, 1);
    HD_TRY_OR(check_margin(margin), NULL);
    hd_tensor *signs = target;
    hd_loss loss;
    hd_loss_begin(&loss, thread, "hinge_embedding", &distance, NULL);
    hd_tensor *zero = hd_number(loss.wide, 0), *short_of = hd_relu(hd_rsub_scalar(distance, margin));
    hd_tensor *apart = hd_where(hd_ne_scalar(signs, 1), short_of, zero);
    hd_tensor *together = hd_where(hd_ne_scalar(signs, -1), distance, zero);
    return hd_loss_end(&loss, hd_add(apart, together), options.reduction);
}

/* ---- cosine ------------------------------------------------------------------------------------------------------ */
static hd_error check_cosine(const hd_tensor *a, const hd_tensor *b, const hd_tensor *target) {
    HD_TRY(check_vectors(a, "a", b, "b"));
    HD_TRY(hd_tensor_check(target, "target"));
    hd_shape rows = a->layout.shape;
    --rows.rank;
    return hd_shape_equal(rows, target->layout.shape)
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "target %s for vectors %s; it has one number for each of them, %s",
                         HD_SHAPE_TEXT(target->layout.shape), HD_SHAPE_TEXT(a->layout.shape), HD_SHAPE_TEXT(rows));
}

/* Added to the squares as PyTorch does, so that nothing is divided by 0. */
#define LEAST_SQUARES ((double)1e-12f)

static hd_tensor *cosine(hd_tensor *a, hd_tensor *b) {
    hd_tensor *squares_a = hd_add_scalar(hd_sum(hd_square(a), HD_AXES(-1), NULL), LEAST_SQUARES);
    hd_tensor *squares_b = hd_add_scalar(hd_sum(hd_square(b), HD_AXES(-1), NULL), LEAST_SQUARES);
    hd_tensor *lengths = hd_mul(hd_sqrt(squares_a), hd_sqrt(squares_b));
    return hd_div(hd_sum(hd_mul(a, b), HD_AXES(-1), NULL), lengths);
}

hd_tensor *hd_cosine_embedding(hd_tensor *a, hd_tensor *b, hd_tensor *target, const hd_cosine_embedding_opts *opts) {
    HD_ENTER("hd_cosine_embedding", NULL);
    HD_READ_OPTS(hd_cosine_embedding_opts, opts, NULL);
    HD_TRY_OR(check_cosine(a, b, target), NULL);
    HD_TRY_OR(hd_loss_check_reduction(options.reduction), NULL);
    HD_TRY_OR(check_margin(options.margin), NULL);
    hd_loss loss;
    hd_loss_begin(&loss, thread, "cosine_embedding", &a, &b);
    hd_tensor *zero = hd_number(loss.wide, 0), *similar = cosine(a, b);
    hd_tensor *together = hd_where(hd_eq_scalar(target, 1), hd_rsub_scalar(similar, 1), zero);
    hd_tensor *too_near = hd_relu(hd_sub_scalar(similar, options.margin));
    hd_tensor *apart = hd_where(hd_eq_scalar(target, -1), too_near, zero);
    return hd_loss_end(&loss, hd_add(together, apart), options.reduction);
}

/* ---- triplets ---------------------------------------------------------------------------------------------------- */
static hd_tensor *distance_of(hd_tensor *a, hd_tensor *b, double p, double eps) {
    return hd_norm(hd_add_scalar(hd_sub(a, b), eps), p, HD_AXES(-1), NULL);
}

hd_tensor *hd_triplet_margin(hd_tensor *anchor, hd_tensor *positive, hd_tensor *negative,
                             const hd_triplet_margin_opts *opts) {
    HD_ENTER("hd_triplet_margin", NULL);
    HD_READ_OPTS(hd_triplet_margin_opts, opts, NULL);
    HD_TRY_OR(check_vectors(anchor, "anchor", positive, "positive"), NULL);
    HD_TRY_OR(hd_loss_check_pair(anchor, "anchor", negative, "negative"), NULL);
    HD_TRY_OR(hd_loss_check_reduction(options.reduction), NULL);
    const double margin = hd_loss_number(options.margin, 1), eps = hd_loss_number(options.eps, 1e-6);
    const double p = options.p == 0 ? 2 : options.p;
    HD_TRY_OR(check_margin(margin), NULL);
    HD_TRY_OR(hd_loss_check_number(eps, "eps", false), NULL);
    if (!(p > 0)) {
        hd_fail(HD_ERROR_VALUE, "p is %g; it must be above 0, and may be INFINITY", p);
        return NULL;
    }
    hd_loss loss;
    hd_loss_begin(&loss, thread, "triplet_margin", &anchor, &positive);
    negative = hd_cast(negative, loss.wide);
    hd_tensor *near = distance_of(anchor, positive, p, eps), *far = distance_of(anchor, negative, p, eps);
    if (options.swap) far = hd_minimum(far, distance_of(positive, negative, p, eps));
    hd_tensor *short_of = hd_add_scalar(hd_sub(near, far), margin);
    return hd_loss_end(&loss, hd_relu(short_of), options.reduction);
}
