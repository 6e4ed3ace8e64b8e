/* Libraries that are opened when somebody first asks for what they do: drivers of devices above all. */
#ifndef HD_CORE_LATE_H
#define HD_CORE_LATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* The library of a driver. NULL, and `missing` says why and what to do. `whose`: "NVIDIA's driver"; `absent`: what
 * is not there when it cannot be opened; `remedy`: how to get it. */
void *hd_driver_open(const char *library, const char *whose, const char *absent, const char *remedy, char *missing,
                     size_t capacity);

/* ---- the process: forks, and its end ----------------------------------------------------------------------------- */
/* A forked child has none of the driver's threads, and its locks may be taken for ever; after the end its destructors
 * have run. Nothing of a driver is called in either. */
enum { HD_DRIVER_IS_HERE, HD_DRIVER_IS_FORKED, HD_DRIVER_IS_ENDING };
typedef struct hd_driver_process {
    _Atomic int state;
    _Atomic bool is_watched;
    /* Each driver has functions of its own, as the system passes them nothing: */
    void (*in_child)(void);             /* calls hd_driver_is_forked */
    void (*at_exit)(void);              /* waits for whatever is under way, and calls hd_driver_ends */
    void (*before_exit)(void *nothing); /* waits */
} hd_driver_process;
static inline bool hd_driver_is_here(const hd_driver_process *p) {
    return atomic_load_explicit(&p->state, memory_order_relaxed) == HD_DRIVER_IS_HERE;
}
void hd_driver_is_forked(hd_driver_process *p);
void hd_driver_ends(hd_driver_process *p);
void hd_driver_watch_forks(const hd_driver_process *p);
/* What drivers register with atexit as they start is called after what is registered here later: so this is called
 * once more with each device. */
void hd_driver_watch_exit(hd_driver_process *p);
/* Why nothing of it can be called; NULL: it can. */
#define HD_DRIVER_GONE(p, name)                                                                                        \
    (atomic_load_explicit(&(p)->state, memory_order_relaxed) == HD_DRIVER_IS_FORKED ? name                             \
         " was opened before this process was forked, and its threads are the parent's; use it only after "            \
         "forking, or start the child with exec"                                                                       \
     : atomic_load_explicit(&(p)->state, memory_order_relaxed) == HD_DRIVER_IS_ENDING                                  \
         ? "the process is ending, and " name " with it"                                                               \
         : NULL)

#endif
