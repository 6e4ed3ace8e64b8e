/* SGD, with momentum or without. */
#include "optim/optimizer.h"

static void update(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    const hd_sgd_opts *opts = state;
    const hd_dtype dtype = hd_update_dtype(p);
    hd_tensor *value = hd_cast(p, dtype);
    g = hd_update_gradient(value, g, opts->maximize, hd_group_now(o)->weight_decay);
    if (opts->momentum != 0) {
        hd_tensor *fresh = hd_mul_scalar(g, 1 - opts->dampening), *kept = hd_mul_scalar(slot[0], opts->momentum);
        hd_tensor *moved = hd_add(kept, fresh);
        if (opts->dampening != 0)
            moved = hd_where(hd_eq_scalar(o->steps, 1), g, moved); /* the first gradient counts whole */
        hd_assign(slot[0], moved);
        g = opts->nesterov ? hd_add(g, hd_mul_scalar(slot[0], opts->momentum)) : slot[0];
    }
    hd_assign(p, hd_addcmul(value, hd_cast(hd_group_now(o)->learning_rate, dtype), g, -1));
}

static const char *const names[] = {"momentum"};
static const hd_optimizer_class plain = {.name = "sgd", .slots = 0, .update = update, .destroy = hd_array_release};
static const hd_optimizer_class with_momentum = {
    .name = "sgd", .slots = 1, .update = update, .destroy = hd_array_release, .slot_names = names};

hd_optimizer *hd_sgd(hd_tensors *parameters, double learning_rate, const hd_sgd_opts *opts) {
    HD_ENTER("hd_sgd", NULL);
    HD_READ_OPTS(hd_sgd_opts, opts, NULL);
    if (!hd_is_not_negative(options.momentum) || !hd_is_not_negative(options.dampening) ||
        !hd_is_not_negative(options.weight_decay) ||
        (options.nesterov && (options.momentum == 0 || options.dampening != 0))) {
        hd_fail(HD_ERROR_VALUE,
                "momentum %g, dampening %g, weight_decay %g%s: none may be negative, and nesterov needs "
                "momentum without dampening",
                options.momentum, options.dampening, options.weight_decay, options.nesterov ? ", nesterov" : "");
        return NULL;
    }
    return hd_optimizer_make(thread, options.momentum != 0 ? &with_momentum : &plain, &options, sizeof options,
                             parameters, learning_rate, options.weight_decay);
}
