/* RMSprop: steps by the gradient over the root of its mean square; centered, of its variance. */
#include "optim/optimizer.h"

#include <math.h>

/* Slots: the mean square; with momentum what moves; centered the mean. */
static void update(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    const hd_rmsprop_opts *opts = state;
    const hd_dtype dtype = hd_update_dtype(p);
    hd_tensor *value = hd_cast(p, dtype), *square = slot[0], *mean = slot[opts->momentum != 0 ? 2 : 1];
    g = hd_update_gradient(value, g, opts->maximize, hd_group_now(o)->weight_decay);
    hd_assign(square, hd_update_blend(square, opts->alpha, hd_square(g)));
    hd_tensor *spread = square;
    if (opts->centered) {
        hd_assign(mean, hd_update_blend(mean, opts->alpha, g));
        spread = hd_sub(square, hd_square(mean));
    }
    hd_tensor *move = hd_div(g, hd_add_scalar(hd_sqrt(spread), opts->epsilon));
    if (opts->momentum != 0) {
        hd_assign(slot[1], hd_add(hd_mul_scalar(slot[1], opts->momentum), move));
        move = slot[1];
    }
    hd_assign(p, hd_addcmul(value, hd_cast(hd_group_now(o)->learning_rate, dtype), move, -1));
}

static const char *const moving[] = {"square", "momentum", "mean"}, *const still[] = {"square", "mean"};
#define CLASS(label, count, names)                                                                                     \
    static const hd_optimizer_class label = {                                                                          \
        .name = "rmsprop", .slots = count, .update = update, .destroy = hd_array_release, .slot_names = names}
CLASS(plain, 1, still);
CLASS(centered, 2, still);
CLASS(with_momentum, 2, moving);
CLASS(centered_with_momentum, 3, moving);

hd_optimizer *hd_rmsprop(hd_tensors *parameters, double learning_rate, const hd_rmsprop_opts *opts) {
    HD_ENTER("hd_rmsprop", NULL);
    HD_READ_OPTS(hd_rmsprop_opts, opts, NULL);
    options.alpha = hd_option_or(options.alpha, 0.99);
    if (options.epsilon == 0) options.epsilon = 1e-8;
    if (!(hd_is_share(options.alpha) && options.epsilon > 0 && isfinite(options.epsilon) &&
          hd_is_not_negative(options.momentum) && hd_is_not_negative(options.weight_decay))) {
        hd_fail(
            HD_ERROR_VALUE,
            "alpha %g, epsilon %g, momentum %g, weight_decay %g: alpha is in [0, 1), epsilon is > 0, the others are "
            "not negative",
            options.alpha, options.epsilon, options.momentum, options.weight_decay);
        return NULL;
    }
    const hd_optimizer_class *class_ = options.momentum != 0
                                           ? options.centered ? &centered_with_momentum : &with_momentum
                                       : options.centered ? &centered
                                                          : &plain;
    return hd_optimizer_make(thread, class_, &options, sizeof options, parameters, learning_rate, options.weight_decay);
}
