/* Schedules from inside. */
#ifndef HD_OPTIM_SCHEDULE_H
#define HD_OPTIM_SCHEDULE_H

#include "optim/state.h"

/* What a kind of schedule is: the learning rate, rank 0 and f64, after so many steps (count, as that) of a group that
 * began with the rate `base`, made of ops. A kind that has no rate to give sets them itself, in `advance`. */
typedef struct hd_schedule_class {
    const char *name;
    hd_tensor *(*rate)(const hd_schedule *s, hd_tensor *base, hd_tensor *count);
    void (*advance)(hd_schedule *s, hd_tensor *metric);
} hd_schedule_class;

enum { HD_SCHEDULE_MEMORY = 3 };
struct hd_schedule {
    hd_object object;
    const hd_schedule_class *class_;
    hd_optimizer *optimizer; /* retained, as is all below */
    hd_schedule *next;       /* what comes after a warm-up; NULL: none */
    void *options;           /* of its class, a copy */
    hd_tensor *count;        /* steps taken: rank 0, f64 */
    hd_tensor **bases;       /* of each group that it drives: the rate that it began with, likewise */
    int64_t groups;
    hd_tensor *memory[HD_SCHEDULE_MEMORY]; /* what a class remembers from step to step, likewise; NULL: nothing */
    char name[48];                         /* that hd_schedule_state_name gave last */
};

/* What a class remembers, by number. */
extern const char *const hd_schedule_memory_names[HD_SCHEDULE_MEMORY];

hd_error hd_schedule_check(const hd_schedule *s, const char *parameter);
/* One with a copy of its options, on what it remembers first (`remembers` numbers). The rates are set to those of its
 * beginning. With `next` it drives the optimizer of that one, from the same rates. */
hd_schedule *hd_schedule_make(hd_thread *thread, const hd_schedule_class *class_, hd_optimizer *optimizer,
                              hd_schedule *next, const void *options, size_t bytes, const double *memory,
                              int remembers);
/* "count", "base.0" of each group, and what it remembers ("best"). */
hd_error hd_schedule_each(hd_thread *thread, hd_schedule *schedule, hd_state_visit visit, void *user);

#endif
