/* Lion: steps by the sign of a blend of the momentum and the gradient. */
#include "optim/optimizer.h"

static void update(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    const hd_lion_opts *opts = state;
    const hd_dtype dtype = hd_update_dtype(p);
    const hd_group *group = hd_group_now(o);
    hd_tensor *value = hd_cast(p, dtype);
    g = hd_update_gradient(value, g, opts->maximize, 0);
    hd_tensor *move = hd_sign(hd_update_blend(slot[0], opts->beta1, g));
    if (group->weight_decay != 0) move = hd_add(move, hd_mul_scalar(value, group->weight_decay));
    hd_assign(slot[0], hd_update_blend(slot[0], opts->beta2, g));
    hd_assign(p, hd_addcmul(value, hd_cast(group->learning_rate, dtype), move, -1));
}

static const char *const names[] = {"m"};
static const hd_optimizer_class lion_class = {
    .name = "lion", .slots = 1, .update = update, .destroy = hd_array_release, .slot_names = names};

hd_optimizer *hd_lion(hd_tensors *parameters, double learning_rate, const hd_lion_opts *opts) {
    HD_ENTER("hd_lion", NULL);
    HD_READ_OPTS(hd_lion_opts, opts, NULL);
    options.beta1 = hd_option_or(options.beta1, 0.9);
    options.beta2 = hd_option_or(options.beta2, 0.99);
    if (!(hd_is_share(options.beta1) && hd_is_share(options.beta2) && hd_is_not_negative(options.weight_decay))) {
        hd_fail(HD_ERROR_VALUE, "beta1 %g, beta2 %g, weight_decay %g: betas are in [0, 1), the decay is not negative",
                options.beta1, options.beta2, options.weight_decay);
        return NULL;
    }
    return hd_optimizer_make(thread, &lion_class, &options, sizeof options, parameters, learning_rate,
                             options.weight_decay);
}
