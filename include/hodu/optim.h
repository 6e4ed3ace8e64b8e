/* Optimizers, which hold parameters and update them in place from their gradients; schedules of their learning rates; and
 * what may be done with gradients before a step.
 *
 * Gradients of several backwards add up until hd_optimizer_zero_grad, so that a batch may come in parts:
 *     hd_optimizer_zero_grad(optimizer);
 *     for (int i = 0; i < parts; ++i) hd_backward(hd_div_scalar(loss_of(part[i]), parts));
 *     hd_optimizer_step(optimizer); */
#ifndef HODU_OPTIM_H
#define HODU_OPTIM_H

#include <hodu/list.h>

typedef struct hd_optimizer hd_optimizer;
typedef struct hd_schedule hd_schedule;
typedef struct hd_scaler hd_scaler;

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
/* The learning rate and the number of steps taken: rank-0 f64 tensors, the optimizer's own. The rate is that of the
 * first group; in an update, of the group of the parameter that is updated, as the weight decay is. */
HD_API hd_tensor *hd_optimizer_learning_rate(hd_optimizer *optimizer);
HD_API double hd_optimizer_weight_decay(hd_optimizer *optimizer);
HD_API hd_tensor *hd_optimizer_steps(hd_optimizer *optimizer);
HD_API void hd_optimizer_set_learning_rate(hd_optimizer *optimizer, double learning_rate);
/* Those of all groups. */
HD_API hd_tensors *hd_optimizer_parameters(hd_optimizer *optimizer);

/* ---- groups of parameters ---- */
typedef struct hd_group_opts {
    size_t struct_size;
    double learning_rate; /* what the optimizer was made with by default; HD_ZERO for 0 */
    double weight_decay;  /* likewise */
} hd_group_opts;
/* More parameters, with a learning rate and a weight decay of their own; the number of the group, which is 0 for those
 * that the optimizer was made with. -1 on error. */
HD_API int64_t hd_optimizer_add_group(hd_optimizer *optimizer, hd_tensors *parameters, const hd_group_opts *opts);
HD_API int64_t hd_optimizer_groups(hd_optimizer *optimizer);
HD_API hd_tensor *hd_optimizer_group_learning_rate(hd_optimizer *optimizer, int64_t group);
HD_API void hd_optimizer_set_group_learning_rate(hd_optimizer *optimizer, int64_t group, double learning_rate);

/* ---- what it keeps, by name ---- */
/* Learning rates, the number of steps and the slots of all parameters, the optimizer's own tensors: "learning_rate" (of
 * group 1 "learning_rate.1"), "steps", "m.0" (of parameter 0). Slots that were not used yet are made, of zeros. */
HD_API hd_tensors *hd_optimizer_state(hd_optimizer *optimizer);
/* The name of tensor `index` of that list; valid until the next such call. */
HD_API const char *hd_optimizer_state_name(hd_optimizer *optimizer, int64_t index);
/* Copies a value of its shape into the tensor of that name. */
HD_API void hd_optimizer_set_state(hd_optimizer *optimizer, const char *name, hd_tensor *value);

/* ---- optimizers ---- */
typedef struct hd_sgd_opts {
    size_t struct_size;
    double momentum, dampening, weight_decay; /* 0 by default */
    bool nesterov;
    bool maximize; /* climbs */
} hd_sgd_opts;
HD_API hd_optimizer *hd_sgd(hd_tensors *parameters, double learning_rate, const hd_sgd_opts *opts);

typedef struct hd_adam_opts {
    size_t struct_size;
    double beta1, beta2; /* 0.9 and 0.999 by default; HD_ZERO for 0 */
    double epsilon;      /* 1e-8 by default */
    double weight_decay; /* 0 by default: added to the gradient; of hd_adamw 0.01, see there */
    bool amsgrad;        /* divides by the largest second moment so far */
    bool maximize;       /* climbs */
} hd_adam_opts;
HD_API hd_optimizer *hd_adam(hd_tensors *parameters, double learning_rate, const hd_adam_opts *opts);
/* Adam whose weight decay is no part of the gradient: each step takes learning rate * decay of the value off it. */
HD_API hd_optimizer *hd_adamw(hd_tensors *parameters, double learning_rate, const hd_adam_opts *opts);

typedef struct hd_rmsprop_opts {
    size_t struct_size;
    double alpha;                  /* how much of the mean square stays: 0.99 by default; HD_ZERO for 0 */
    double epsilon;                /* 1e-8 by default */
    double momentum, weight_decay; /* 0 by default */
    bool centered;                 /* by the variance instead of the mean square */
    bool maximize;
} hd_rmsprop_opts;
HD_API hd_optimizer *hd_rmsprop(hd_tensors *parameters, double learning_rate, const hd_rmsprop_opts *opts);

typedef struct hd_adagrad_opts {
    size_t struct_size;
    double rate_decay;   /* 0 by default: step n has the learning rate / (1 + (n - 1) rate_decay) */
    double initial_sum;  /* 0 by default: added to the sum of squares, of which the slot has the rest */
    double epsilon;      /* 1e-10 by default */
    double weight_decay; /* 0 by default */
    bool maximize;
} hd_adagrad_opts;
HD_API hd_optimizer *hd_adagrad(hd_tensors *parameters, double learning_rate, const hd_adagrad_opts *opts);

typedef struct hd_lion_opts {
    size_t struct_size;
    double beta1, beta2; /* of the step and of the momentum: 0.9 and 0.99 by default; HD_ZERO for 0 */
    double weight_decay; /* 0 by default, as in hd_adamw */
    bool maximize;
} hd_lion_opts;
/* Steps by the sign of a blend of momentum and gradient (Chen et al. 2023): rates a tenth of Adam's, decays ten times. */
HD_API hd_optimizer *hd_lion(hd_tensors *parameters, double learning_rate, const hd_lion_opts *opts);

/* ---- an optimizer of your own: a struct and a step function ---- */
typedef struct hd_optimizer_class {
    const char *name; /* "sgd" */
    int slots;        /* tensors it keeps for each parameter, zeros at first (moments): 0 to 4; f32 for small floats */
    void (*begin)(hd_optimizer *optimizer, void *state); /* once per step, before the parameters; may be NULL */
    /* New value of one parameter; runs without a tape. slot[k] is updated with hd_assign and its kin. It may step
     * another optimizer, not its own. */
    void (*update)(hd_optimizer *optimizer, void *state, hd_tensor *parameter, hd_tensor *gradient,
                   hd_tensor *const *slot);
    void (*destroy)(void *state);  /* may be NULL */
    const char *const *slot_names; /* of the slots in hd_optimizer_state; NULL: "slot0", "slot1", ... */
} hd_optimizer_class;
HD_API hd_optimizer *hd_optimizer_new(const hd_optimizer_class *class_, void *state, hd_tensors *parameters,
                                      double learning_rate);

/* ---- schedules ----
 * A schedule sets the learning rates of an optimizer's groups, of those that are there when it is made, whenever it is
 * stepped: after each hd_optimizer_step, or after each epoch. It begins at once, with the rates of then as `base`. What it
 * knows is in tensors of rank 0 and f64, so that a script that records its step moves it on at every run, when its state
 * and the optimizer's are declared (hd_builder_add_state_of_schedule). One schedule drives an optimizer at a time. */
HD_API void hd_schedule_step(hd_schedule *schedule);
/* Of a schedule that follows a metric: a tensor with one element, such as a validation loss. */
HD_API void hd_schedule_step_with(hd_schedule *schedule, hd_tensor *metric);
/* The steps that it took: a rank-0 f64 tensor, its own. */
HD_API hd_tensor *hd_schedule_count(hd_schedule *schedule);
/* What it keeps, by name ("count", "base.0"), as hd_optimizer_state. */
HD_API hd_tensors *hd_schedule_state(hd_schedule *schedule);
HD_API const char *hd_schedule_state_name(hd_schedule *schedule, int64_t index);
HD_API void hd_schedule_set_state(hd_schedule *schedule, const char *name, hd_tensor *value);

/* base * factor^n, n being how many periods are over. */
HD_API hd_schedule *hd_schedule_every(hd_optimizer *optimizer, int64_t period, double factor);
/* The same, n being how many of the milestones, numbers of steps, are reached. */
HD_API hd_schedule *hd_schedule_milestones(hd_optimizer *optimizer, const int64_t *milestones, int64_t count,
                                           double factor);
/* base * factor^steps */
HD_API hd_schedule *hd_schedule_exponential(hd_optimizer *optimizer, double factor);
/* From base to the lowest rate in `period` steps, along half a wave of the cosine, which goes on behind it. */
HD_API hd_schedule *hd_schedule_cosine(hd_optimizer *optimizer, int64_t period, double lowest);
/* From base * first to base * last in so many steps, along a line. */
HD_API hd_schedule *hd_schedule_linear(hd_optimizer *optimizer, int64_t steps, double first, double last);
/* From base * first to base in so many steps, and from there on what `then` is from its beginning; that one is not
 * stepped any more. */
HD_API hd_schedule *hd_schedule_warm_up(int64_t steps, double first, hd_schedule *then);

typedef struct hd_one_cycle_opts {
    size_t struct_size;
    double rising;      /* the share of the steps in which the rate rises: 0.3 by default */
    double first, last; /* it begins at highest / first, and ends at that / last: 25 and 1e4 by default */
    bool linear;        /* along lines instead of waves of the cosine */
    bool three_phases;  /* as long as it rises it falls back to the first rate, and then on to the last */
} hd_one_cycle_opts;
/* Up to the highest rate and down again, all in so many steps, whatever the rates were; then it stays. */
HD_API hd_schedule *hd_schedule_one_cycle(hd_optimizer *optimizer, double highest, int64_t steps,
                                          const hd_one_cycle_opts *opts);

typedef struct hd_plateau_opts {
    size_t struct_size;
    bool climbs;      /* a larger metric is better */
    bool absolute;    /* the threshold is a difference, and no share of the best */
    double factor;    /* of the rates: 0.1 by default; HD_ZERO for 0 */
    double threshold; /* by how much a better metric is better: 1e-4 by default; HD_ZERO for 0 */
    double cooldown;  /* steps after a change that are not counted: 0 by default */
    double lowest;    /* no rate gets lower: 0 by default */
    double epsilon;   /* smaller changes are none: 1e-8 by default; HD_ZERO for 0 */
} hd_plateau_opts;
/* Lowers the rates when the metric has not got better for more than `patience` steps; see hd_schedule_step_with. It
 * changes the rates that it finds. */
HD_API hd_schedule *hd_schedule_plateau(hd_optimizer *optimizer, int64_t patience, const hd_plateau_opts *opts);

/* The rate, one element, after `count` steps of a group that began with `base`, both of rank 0 in f64. Made of ops on
 * them it can be recorded. */
typedef hd_tensor *(*hd_rate_function)(hd_tensor *base, hd_tensor *count, void *user);
HD_API hd_schedule *hd_schedule_own(hd_optimizer *optimizer, hd_rate_function fn, void *user);

/* ---- gradients before a step ---- */
typedef struct hd_clip_grad_opts {
    size_t struct_size;
    double norm; /* above 0, INFINITY for the largest absolute value: 2 by default */
} hd_clip_grad_opts;
/* Makes the gradients of all parameters that a step would update shorter by one factor, so that they are together no
 * longer than max_norm. Their norm before, of rank 0; 0 when there are none. No value is read: it can be recorded. */
HD_API hd_tensor *hd_clip_grad_norm(hd_tensors *parameters, double max_norm, const hd_clip_grad_opts *opts);
/* Puts every element of these gradients between -value and value. */
HD_API void hd_clip_grad_value(hd_tensors *parameters, double value);

/* ---- scaled losses ----
 * Gradients in f16 vanish where they are small. A scaler multiplies the loss by a number, and takes it off the gradients
 * again before a step, which is left out when one of them is not finite; the number finds its size by that.
 *     hd_backward(hd_scaler_scale(scaler, loss));
 *     hd_scaler_step(scaler, optimizer);
 *     hd_scaler_update(scaler);
 * What it knows is in tensors, so that scripts can record it: there a step that is left out puts parameters, slots and
 * step count back to what they were. What an update of one's own does beside those is not left out. */
typedef struct hd_scaler_opts {
    size_t struct_size;
    double initial;  /* the number at first: 65536 by default */
    double growth;   /* its factor after `interval` steps that were taken: 2 by default */
    double backoff;  /* its factor after one that was left out: 1/2 by default */
    double interval; /* 2000 by default */
} hd_scaler_opts;
HD_API hd_scaler *hd_scaler_new(const hd_scaler_opts *opts);
/* The loss times the number, in f32 at least. */
HD_API hd_tensor *hd_scaler_scale(hd_scaler *scaler, hd_tensor *loss);
/* Takes the number off the gradients that a step would use: to clip them before hd_scaler_step, which does it else. */
HD_API void hd_scaler_unscale(hd_scaler *scaler, hd_optimizer *optimizer);
/* hd_optimizer_step, if all its gradients are finite. */
HD_API void hd_scaler_step(hd_scaler *scaler, hd_optimizer *optimizer);
/* Makes the number smaller or larger, when all optimizers have stepped. */
HD_API void hd_scaler_update(hd_scaler *scaler);
/* The number: a rank-0 f64 tensor, its own. */
HD_API hd_tensor *hd_scaler_number(hd_scaler *scaler);
/* What it keeps, by name ("number", "taken", "found"), as hd_optimizer_state. */
HD_API hd_tensors *hd_scaler_state(hd_scaler *scaler);
HD_API const char *hd_scaler_state_name(hd_scaler *scaler, int64_t index);
HD_API void hd_scaler_set_state(hd_scaler *scaler, const char *name, hd_tensor *value);
HD_END_DECLS

#endif
