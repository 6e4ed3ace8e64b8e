/* Adagrad: steps by the gradient over the root of the sum of all squares so far. */
#include "optim/optimizer.h"

#include <math.h>

/* The slot begins with zeros; what the sum begins with is added where it is read. */
static void update(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    const hd_adagrad_opts *opts = state;
    const hd_dtype dtype = hd_update_dtype(p);
    const hd_group *group = hd_group_now(o);
    hd_tensor *value = hd_cast(p, dtype), *rate = group->learning_rate;
    g = hd_update_gradient(value, g, opts->maximize, group->weight_decay);
    hd_assign(slot[0], hd_add(slot[0], hd_square(g)));
    hd_tensor *sum = opts->initial_sum != 0 ? hd_add_scalar(slot[0], opts->initial_sum) : slot[0];
    if (opts->rate_decay != 0) {
        hd_tensor *slower = hd_mul_scalar(hd_sub_scalar(o->steps, 1), opts->rate_decay);
        rate = hd_div(rate, hd_add_scalar(slower, 1));
    }
    hd_tensor *move = hd_div(g, hd_add_scalar(hd_sqrt(sum), opts->epsilon));
    hd_assign(p, hd_addcmul(value, hd_cast(rate, dtype), move, -1));
}

static const char *const names[] = {"sum"};
static const hd_optimizer_class adagrad_class = {
    .name = "adagrad", .slots = 1, .update = update, .destroy = hd_array_release, .slot_names = names};

hd_optimizer *hd_adagrad(hd_tensors *parameters, double learning_rate, const hd_adagrad_opts *opts) {
    HD_ENTER("hd_adagrad", NULL);
    HD_READ_OPTS(hd_adagrad_opts, opts, NULL);
    if (options.epsilon == 0) options.epsilon = 1e-10;
    if (!(hd_is_not_negative(options.rate_decay) && hd_is_not_negative(options.initial_sum) &&
          hd_is_not_negative(options.weight_decay) && options.epsilon > 0 && isfinite(options.epsilon))) {
        hd_fail(
            HD_ERROR_VALUE,
            "rate_decay %g, initial_sum %g, epsilon %g, weight_decay %g: epsilon is > 0, the others are not negative",
            options.rate_decay, options.initial_sum, options.epsilon, options.weight_decay);
        return NULL;
    }
    return hd_optimizer_make(thread, &adagrad_class, &options, sizeof options, parameters, learning_rate,
                             options.weight_decay);
}
