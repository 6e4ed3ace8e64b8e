/* Modules from inside. */
#ifndef HD_NN_MODULE_H
#define HD_NN_MODULE_H

#include "core/execute.h"
#include "core/list.h"
#include "core/options.h"
#include "core/random.h"

#include <math.h>

/* Something a module holds, by name. */
typedef struct hd_member {
    enum { HD_MEMBER_PARAMETER, HD_MEMBER_BUFFER, HD_MEMBER_MODULE } kind;
    char *name;
    void *object; /* hd_tensor or hd_module, retained */
} hd_member;

/* How deep modules may lie in each other: forward and what walks through them call themselves. */
enum { HD_MODULE_DEPTH = 1000 };

/* The names of all parameters of a module and of those in it. Threads may read a list at once, so that none is ever
 * changed: when there are other names, there is another list, and the older ones go with the module. */
typedef struct hd_parameter_names {
    struct hd_parameter_names *older;
    char **name;
    int64_t count;
} hd_parameter_names;

struct hd_module {
    hd_object object;
    const hd_module_class *class_;
    void *state;
    _Atomic bool training;  /* its own flag */
    _Atomic uint64_t users; /* who reads or changes it now: see hd_module_enter in module.c */
    hd_member *members;
    int64_t member_count;
    hd_tensor *weight, *bias;            /* its parameters of these names, which layers read; NULL: none */
    hd_module *next_dying;               /* in the list of the thread that destroys it */
    _Atomic(hd_parameter_names *) names; /* made when first asked for */
    /* Modules whose forward called this one and was found to hold what it trains, each in the place of its address; and
     * that one was told that it does not. */
    _Atomic uintptr_t checked_in[4];
    _Atomic bool told;
};

/* Checks that an argument is a living module. */
hd_error hd_module_check(const hd_module *m, const char *parameter);
/* Begins a use of a module, which changes it or not, and ends it. `*ends` is what hd_module_leave takes off again. */
hd_error hd_module_enter(hd_thread *thread, hd_module *m, bool changes, uint64_t *ends);
void hd_module_leave(hd_module *m, uint64_t ends);
/* Of a module that goes. */
void hd_module_drop_names(hd_module *m);
/* Modules lie too deep in each other, at m. */
hd_error hd_module_refuse_depth(const hd_module *m);
/* Calls `visit` for m, which lies so deep, and all modules in it, from the outside in; stops at the first error. */
hd_error hd_module_walk(hd_thread *thread, hd_module *m, int depth, hd_error (*visit)(hd_module *m, void *user),
                        void *user);
/* Calls visit for each parameter, or buffer, with its full name; stops at the first error. */
hd_error hd_module_each(hd_module *module, bool buffers, hd_error (*visit)(void *user, const char *name, hd_tensor *t),
                        void *user);
/* A number that is another one whenever any module got another member, or another flag, since: what was found in a tree
 * of modules while it was the same still holds. */
uint64_t hd_module_structure(void);
/* A hash of all that a module and those in it hold; and one of their flags. */
hd_error hd_module_hash(hd_module *module, uint64_t *members, uint64_t *flags);
/* Forward of a module that its parent knows by this name. */
hd_tensor *hd_module_forward_as(hd_thread *thread, hd_module *module, const char *name, hd_tensor *x);
hd_tensors *hd_module_forward_all_as(hd_thread *thread, hd_module *module, const char *name, hd_tensors *inputs);
/* A module with a copy of `state`, which its class releases with hd_array_release. */
hd_module *hd_module_with(const hd_module_class *class_, const void *state, size_t bytes);
/* The parameter, buffer or module that it was given as its index-th member. Layers note such numbers rather than
 * addresses, so that their states are nothing but numbers. */
static inline void *hd_module_member(const hd_module *m, int64_t index) { return m->members[index].object; }

/* What a function that makes a layer has around its parameters: they are made at once, also inside a builder; the layer
 * holds them; and when it fails, it has taken no draws. */
typedef struct hd_making {
    hd_thread *thread;
    hd_eager_token eager;
    hd_scope_token scope;
    hd_draws before;
} hd_making;
void hd_making_begin(hd_making *making, hd_thread *thread);
/* The layer, which the scope around has from now on; NULL when an error is pending. */
hd_module *hd_making_end(hd_making *making, hd_module *m);
/* What a number among options means: 0 is its default, HD_ZERO is 0. */
static inline double hd_option(double given, double by_default) {
    return given != 0 ? given : signbit(given) ? 0 : by_default;
}
/* The dtype of a layer's parameters, a float: the default one when it is not given. */
hd_error hd_making_dtype(hd_thread *thread, hd_dtype given, hd_dtype *dtype);

#endif
