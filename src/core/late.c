/* Libraries that are opened late. */
#include "core/late.h"
#include "core/environment.h"
#include "core/os.h"

#include <stdio.h>
#include <stdlib.h>

void *hd_driver_open(const char *library, const char *whose, const char *absent, const char *remedy, char *missing,
                     size_t capacity) {
    char why[256];
    if (!hd_os_has_loader()) { /* no loader: dlopen would bring a second C library, and crash in it */
        snprintf(missing, capacity, "a statically linked program cannot open %s", whose);
        return NULL;
    }
    if (!hd_environment_is_trusted()) {
        snprintf(
            missing, capacity,
            "a program that runs with more rights than its caller (set-uid) does not open %s, which reads variables of "
            "the caller's environment",
            whose);
        return NULL;
    }
    void *driver = hd_os_library_open(library, why, sizeof why);
    if (driver == NULL) snprintf(missing, capacity, "there is no %s (%.80s); %s", absent, why, remedy);
    return driver;
}

/* ---- the process ------------------------------------------------------------------------------------------------- */
void hd_driver_is_forked(hd_driver_process *p) { atomic_store(&p->state, HD_DRIVER_IS_FORKED); }

void hd_driver_ends(hd_driver_process *p) {
    int here = HD_DRIVER_IS_HERE;
    atomic_compare_exchange_strong(&p->state, &here, HD_DRIVER_IS_ENDING);
}

void hd_driver_watch_forks(const hd_driver_process *p) { hd_os_at_fork(NULL, NULL, p->in_child); }

/* Destructors of the thread that leaves main come before all functions of atexit. */
void hd_driver_watch_exit(hd_driver_process *p) {
    atexit(p->at_exit);
    if (hd_os_is_first_thread() && !atomic_exchange(&p->is_watched, true)) hd_os_at_thread_end(p->before_exit);
}
