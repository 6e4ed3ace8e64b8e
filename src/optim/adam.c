/* Adam and AdamW, which differ in where the weight decay goes. */
#include "optim/optimizer.h"

#include <math.h>

typedef struct adam {
    hd_adam_opts opts;
    bool decoupled; /* AdamW: the decay is taken off the value, and no part of the gradient */
} adam;

/* Bias corrections follow from the step count as tensors, so that a captured step stays right at every run. */
static void update(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    const adam *a = state;
    const hd_dtype dtype = hd_update_dtype(p);
    const hd_group *group = hd_group_now(o);
    hd_tensor *value = hd_cast(p, dtype), *m = slot[0], *v = slot[1];
    g = hd_update_gradient(value, g, a->opts.maximize, a->decoupled ? 0 : group->weight_decay);
    if (a->decoupled && group->weight_decay != 0)
        value =
            hd_mul(value, hd_cast(hd_rsub_scalar(hd_mul_scalar(group->learning_rate, group->weight_decay), 1), dtype));
    hd_assign(m, hd_update_blend(m, a->opts.beta1, g));
    hd_assign(v, hd_update_blend(v, a->opts.beta2, hd_square(g)));
    if (a->opts.amsgrad) hd_assign(slot[2], hd_maximum(slot[2], v));
    hd_tensor *correction1 = hd_rsub_scalar(hd_rpow_scalar(o->steps, a->opts.beta1), 1);
    hd_tensor *correction2 = hd_rsub_scalar(hd_rpow_scalar(o->steps, a->opts.beta2), 1);
    hd_tensor *rate = hd_cast(hd_div(group->learning_rate, correction1), dtype);
    hd_tensor *root = hd_mul(hd_sqrt(a->opts.amsgrad ? slot[2] : v), hd_cast(hd_rsqrt(correction2), dtype));
    hd_assign(p, hd_sub(value, hd_mul(hd_div(m, hd_add_scalar(root, a->opts.epsilon)), rate)));
}

static const char *const names[] = {"m", "v", "v_most"};
#define CLASS(label, text, count)                                                                                      \
    static const hd_optimizer_class label = {                                                                          \
        .name = text, .slots = count, .update = update, .destroy = hd_array_release, .slot_names = names}
CLASS(adam_class, "adam", 2);
CLASS(adamw_class, "adamw", 2);
CLASS(amsgrad_class, "adam", 3);
CLASS(amsgradw_class, "adamw", 3);

static hd_optimizer *make(hd_thread *thread, hd_tensors *parameters, double learning_rate, const hd_adam_opts *opts,
                          bool decoupled) {
    adam a = {.decoupled = decoupled};
    HD_TRY_OR(hd_read_options(&a.opts, sizeof a.opts, opts), NULL);
    a.opts.beta1 = hd_option_or(a.opts.beta1, 0.9);
    a.opts.beta2 = hd_option_or(a.opts.beta2, 0.999);
    a.opts.weight_decay = hd_option_or(a.opts.weight_decay, decoupled ? 0.01 : 0);
    if (a.opts.epsilon == 0) a.opts.epsilon = 1e-8;
    if (!(hd_is_share(a.opts.beta1) && hd_is_share(a.opts.beta2) && a.opts.epsilon > 0 && isfinite(a.opts.epsilon) &&
          hd_is_not_negative(a.opts.weight_decay))) {
        hd_fail(HD_ERROR_VALUE,
                "beta1 %g, beta2 %g, epsilon %g, weight_decay %g: betas are in [0, 1), epsilon is > 0, the "
                "decay not negative",
                a.opts.beta1, a.opts.beta2, a.opts.epsilon, a.opts.weight_decay);
        return NULL;
    }
    const hd_optimizer_class *class_ = decoupled        ? a.opts.amsgrad ? &amsgradw_class : &adamw_class
                                       : a.opts.amsgrad ? &amsgrad_class
                                                        : &adam_class;
    return hd_optimizer_make(thread, class_, &a, sizeof a, parameters, learning_rate, a.opts.weight_decay);
}

hd_optimizer *hd_adam(hd_tensors *parameters, double learning_rate, const hd_adam_opts *opts) {
    HD_ENTER("hd_adam", NULL);
    return make(thread, parameters, learning_rate, opts, false);
}
hd_optimizer *hd_adamw(hd_tensors *parameters, double learning_rate, const hd_adam_opts *opts) {
    HD_ENTER("hd_adamw", NULL);
    return make(thread, parameters, learning_rate, opts, true);
}
