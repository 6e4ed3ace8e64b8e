/* Waiting on a word where the system has no futex: one lock and one condition for all words. Who sleeps is woken by a
 * change of another word, too, and looks again. Included by the system that needs it, and by its test. */
#ifndef HD_CORE_OS_WAIT_H
#define HD_CORE_OS_WAIT_H

#include "core/os.h"

#include <pthread.h>

static struct {
    pthread_once_t once;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} hd_os_waiting = {PTHREAD_ONCE_INIT, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};

static void hd_os_wait_before_fork(void) { pthread_mutex_lock(&hd_os_waiting.lock); }
static void hd_os_wait_after_fork(void) { pthread_mutex_unlock(&hd_os_waiting.lock); }
static void hd_os_wait_in_child(void) { /* who slept is the parent's */
    hd_os_waiting.changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    pthread_mutex_unlock(&hd_os_waiting.lock);
}
static void hd_os_wait_set_up(void) {
    pthread_atfork(hd_os_wait_before_fork, hd_os_wait_after_fork, hd_os_wait_in_child);
}

/* The word is looked at under the lock, which who wakes takes after the change: it is seen, or the sleeper is woken. */
static inline void hd_os_wait_by_condition(_Atomic uint32_t *word, uint32_t seen) {
    pthread_once(&hd_os_waiting.once, hd_os_wait_set_up);
    pthread_mutex_lock(&hd_os_waiting.lock);
    if (atomic_load(word) == seen) pthread_cond_wait(&hd_os_waiting.changed, &hd_os_waiting.lock);
    pthread_mutex_unlock(&hd_os_waiting.lock);
}

static inline void hd_os_wake_by_condition(void) {
    pthread_mutex_lock(&hd_os_waiting.lock);
    pthread_cond_broadcast(&hd_os_waiting.changed);
    pthread_mutex_unlock(&hd_os_waiting.lock);
}

#endif
