/* Optimizers from inside. */
#ifndef HD_OPTIM_OPTIMIZER_H
#define HD_OPTIM_OPTIMIZER_H

#include "core/execute.h"
#include "core/list.h"
#include "core/options.h"
#include "grad/tape.h"

#include <hodu/grad.h>
#include <hodu/optim.h>

enum { HD_SLOTS_MOST = 4 };

/* Parameters with a learning rate and a weight decay of their own: from `first` up to those of the next group. */
typedef struct hd_group {
    int64_t first;
    hd_tensor *learning_rate; /* rank 0, f64: state that a script can carry; retained */
    double weight_decay;
} hd_group;

struct hd_optimizer {
    hd_object object;
    const hd_optimizer_class *class_;
    void *state;
    hd_tensors *parameters; /* of all groups; retained, as are the tensors below */
    hd_group *groups;       /* the first has those that it was made with */
    int64_t group_count;
    int64_t current; /* the group whose parameter is being updated; else 0 */
    double first_rate;
    hd_tensor *steps;                   /* rank 0, f64, too */
    hd_tensor *(*slots)[HD_SLOTS_MOST]; /* of each parameter; made at its first update */
    bool own;                           /* its update is a function of the user's */
    bool warned;                        /* of a step without gradients */
    uint64_t unscaled, stepped;         /* the hd_scaler's round in which its gradients were unscaled, and it stepped */
    char name[48];                      /* that hd_optimizer_state_name gave last */
};

hd_error hd_optimizer_check(const hd_optimizer *o);
/* An optimizer of the library's own, with a copy of its options as its state. */
hd_optimizer *hd_optimizer_make(hd_thread *thread, const hd_optimizer_class *class_, const void *opts, size_t bytes,
                                hd_tensors *parameters, double learning_rate, double weight_decay);
/* Makes the slots of parameter i that are not there yet, at once, also inside a builder; they follow it to another
 * device. */
hd_error hd_optimizer_make_slots(hd_thread *thread, hd_optimizer *o, int64_t i);
hd_error hd_optimizer_check_rate(double learning_rate);
/* Whether a step updates p: it is not frozen, and a gradient arrived. One that is frozen keeps the gradient that it had
 * then, and nobody wants to follow that any more. */
static inline bool hd_is_frozen(const hd_tensor *p) { return p->tracking != HD_TRACKED_LEAF; }
static inline bool hd_is_due(hd_thread *thread, const hd_tensor *p) {
    return !hd_is_frozen(p) && hd_gradient_arrived(thread, p);
}

/* What an object keeps, by name: one call of `visit` for each tensor, up to the first error. */
typedef hd_error (*hd_state_visit)(void *user, const char *name, hd_tensor *t);
/* The learning rates ("learning_rate", of a later group "learning_rate.1"), the step count ("steps") and every slot of
 * every parameter ("m.3", of classes without names for them "slot0.3"); slots that were not used yet are made. */
hd_error hd_optimizer_each(hd_thread *thread, hd_optimizer *optimizer, hd_state_visit visit, void *user);

/* ---- for updates ---- */
/* Small floats are updated in f32, and rounded once: epsilon and moments would vanish in them. */
static inline hd_dtype hd_update_dtype(const hd_tensor *p) {
    return hd_dtype_is_small_float((hd_dtype)p->dtype) ? HD_F32 : (hd_dtype)p->dtype;
}
static inline const hd_group *hd_group_now(const hd_optimizer *o) { return &o->groups[o->current]; }
/* What an update begins with, in its dtype: the gradient, turned round to climb, and decay times the value added. */
hd_tensor *hd_update_gradient(hd_tensor *value, hd_tensor *gradient, bool maximize, double decay);
/* old * kept + fresh * (1 - kept), one after the other: compilers evaluate arguments in different orders, and a recorded
 * step should be the same graph. */
hd_tensor *hd_update_blend(hd_tensor *old, double kept, hd_tensor *fresh);
/* NaN is no number that options may have. */
static inline bool hd_is_share(double v) { return v >= 0 && v < 1; }
static inline bool hd_is_not_negative(double v) { return v >= 0 && v <= 1.79769313486231570815e308; }
/* An option whose default is not 0: its zero means the default, HD_ZERO means 0. */
double hd_option_or(double given, double usual);

#endif
