/* Optimizers: they hold parameters and update them in place from their gradients. */
#ifndef HODU_OPTIM_H
#define HODU_OPTIM_H

#include <hodu/list.h>

typedef struct hd_optimizer hd_optimizer;

HD_BEGIN_DECLS
/* ---- using one ---- */
/* One update of every parameter at which a gradient arrived since hd_optimizer_zero_grad; of all of them or, when
 * one fails, of none: then all that was there before is as it was, gradients, slots, the state of scripts that ran and
 * the draws of generators included, and no step is counted; what was made on the way keeps what was written into it. A
 * longjmp out of a step is a failure, too, from the end of the scope around it on. When no gradient arrived, a warning
 * says so once, and no step is counted either. Parameters that are frozen at the time (hd_set_requires_grad) are passed
 * over, and their slots with them. Until it is done a step holds the old values of what it has updated. */
HD_API void hd_optimizer_step(hd_optimizer *optimizer);
/* hd_zero_grad for every parameter, also for those that were frozen since, and hd_clear_default_context_tape: all that
 * context 0 has noted, whoever's it is; hd_zero_grads leaves the tape alone. Tapes of other contexts are yours to
 * clear. */
HD_API void hd_optimizer_zero_grad(hd_optimizer *optimizer);
/* The learning rate and the number of steps taken: rank-0 f64 tensors, the optimizer's own. */
HD_API hd_tensor *hd_optimizer_learning_rate(hd_optimizer *optimizer);
HD_API hd_tensor *hd_optimizer_steps(hd_optimizer *optimizer);
HD_API void hd_optimizer_set_learning_rate(hd_optimizer *optimizer, double learning_rate);
HD_API hd_tensors *hd_optimizer_parameters(hd_optimizer *optimizer);

/* ---- optimizers ---- */
typedef struct hd_sgd_opts {
    size_t struct_size;
    double momentum, dampening, weight_decay; /* 0 by default */
    bool nesterov;
} hd_sgd_opts;
HD_API hd_optimizer *hd_sgd(hd_tensors *parameters, double learning_rate, const hd_sgd_opts *opts);

typedef struct hd_adam_opts {
    size_t struct_size;
    double beta1, beta2; /* 0.9 and 0.999 by default; HD_ZERO for 0 */
    double epsilon;      /* 1e-8 by default */
    double weight_decay; /* 0 by default: added to the gradient */
} hd_adam_opts;
HD_API hd_optimizer *hd_adam(hd_tensors *parameters, double learning_rate, const hd_adam_opts *opts);

/* ---- an optimizer of your own: a struct and a step function ---- */
typedef struct hd_optimizer_class {
    const char *name; /* "sgd" */
    int slots;        /* tensors it keeps for each parameter, zeros at first (moments): 0 to 4; f32 for small floats */
    void (*begin)(hd_optimizer *optimizer, void *state); /* once per step, before the parameters; may be NULL */
    /* New value of one parameter; runs without a tape. slot[k] is updated with hd_assign and its kin. It may step
     * another optimizer, not its own. */
    void (*update)(hd_optimizer *optimizer, void *state, hd_tensor *parameter, hd_tensor *gradient,
                   hd_tensor *const *slot);
    void (*destroy)(void *state); /* may be NULL */
} hd_optimizer_class;
HD_API hd_optimizer *hd_optimizer_new(const hd_optimizer_class *class_, void *state, hd_tensors *parameters,
                                      double learning_rate);
HD_END_DECLS

#endif
