/* Drivers that are opened late. */
#include "device/late.h"
#include "core/os.h"

#include <stdlib.h>

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
