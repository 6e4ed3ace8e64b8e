/* Adam and AdamW, which differ in where the weight decay goes. */
#include "optim/optimizer.h"

#include <math.h>

typedef struct adam {
    hd_adam_opts opts;
    bool decoupled; /* AdamW: the decay is taken off the value, and no part of the gradient */
} adam;

/* What all elements of a group are multiplied by, of rank 0 in f64. */
typedef struct factors {
    hd_tensor *rate, *root, *keep; /* keep: of the value, where decay is taken off it; else NULL */
} factors;
static bool takes_off(const hd_optimizer *o, const adam *a) {
    return a->decoupled && hd_group_now(o)->weight_decay != 0;
}

/* Bias corrections follow from the step count as tensors, so that a captured step stays right at every run. */
static factors factors_of(const hd_optimizer *o, const adam *a) {
    const hd_group *group = hd_group_now(o);
    hd_tensor *correction1 = hd_rsub_scalar(hd_rpow_scalar(o->steps, a->opts.beta1), 1);
    hd_tensor *correction2 = hd_rsub_scalar(hd_rpow_scalar(o->steps, a->opts.beta2), 1);
    factors f = {.rate = hd_div(group->learning_rate, correction1)};
    f.root = hd_rsqrt(correction2);
    if (takes_off(o, a)) f.keep = hd_rsub_scalar(hd_mul_scalar(group->learning_rate, group->weight_decay), 1);
    return f;
}

static void update(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    const adam *a = state;
    const hd_dtype dtype = hd_update_dtype(p);
    const factors f = factors_of(o, a);
    hd_tensor *value = hd_cast(p, dtype), *m = slot[0], *v = slot[1];
    g = hd_update_gradient(value, g, a->opts.maximize, a->decoupled ? 0 : hd_group_now(o)->weight_decay);
    if (takes_off(o, a)) value = hd_mul(value, hd_cast(f.keep, dtype));
    hd_assign(m, hd_update_blend(m, a->opts.beta1, g));
    hd_assign(v, hd_update_blend(v, a->opts.beta2, hd_square(g)));
    if (a->opts.amsgrad) hd_assign(slot[2], hd_maximum(slot[2], v));
    hd_tensor *rate = hd_cast(f.rate, dtype), *root = hd_sqrt(a->opts.amsgrad ? slot[2] : v);
    root = hd_mul(root, hd_cast(f.root, dtype));
    hd_assign(p, hd_sub(value, hd_mul(hd_div(m, hd_add_scalar(root, a->opts.epsilon)), rate)));
}

static hd_error fuse(hd_thread *thread, const hd_optimizer *o, hd_update *u) {
    const adam *a = o->state;
    const factors f = factors_of(o, a);
    u->kind = HD_UPDATE_ADAPT;
    u->climbs = a->opts.maximize;
    u->share = a->decoupled ? 0 : hd_group_now(o)->weight_decay;
    u->old[0] = a->opts.beta1, u->fresh[0] = 1 - a->opts.beta1;
    u->old[1] = a->opts.beta2, u->fresh[1] = 1 - a->opts.beta2;
    u->epsilon = a->opts.epsilon;
    u->keep = 1;
    if (takes_off(o, a)) HD_TRY(hd_optimizer_number(thread, f.keep, &u->keep));
    HD_TRY(hd_optimizer_number(thread, f.root, &u->root));
    return hd_optimizer_number(thread, f.rate, &u->rate);
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
    hd_optimizer *o = hd_optimizer_make(thread, class_, &a, sizeof a, parameters, learning_rate, a.opts.weight_decay);
    if (o != NULL && !a.opts.amsgrad) o->fuse = fuse;
    return o;
}

hd_optimizer *hd_adam(hd_tensors *parameters, double learning_rate, const hd_adam_opts *opts) {
    HD_ENTER("hd_adam", NULL);
    return make(thread, parameters, learning_rate, opts, false);
}
hd_optimizer *hd_adamw(hd_tensors *parameters, double learning_rate, const hd_adam_opts *opts) {
    HD_ENTER("hd_adamw", NULL);
    return make(thread, parameters, learning_rate, opts, true);
}
