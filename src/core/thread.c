/* Creating, registering and ending per-thread contexts. */
#include "core/thread.h"
#include "core/device.h"
#include "core/execute.h"
#include "core/memory.h"
#include "core/object.h"
#include "core/os.h"
#include "core/profile.h"

#include <pthread.h>

HD_THREAD_LOCAL hd_thread *hd_thread_pointer;

static struct {
    pthread_mutex_t lock;
    pthread_once_t once, profiled;
    pthread_key_t key;
    bool has_key;
    hd_thread *first;
    uint32_t started;
    int64_t gone[HD_COUNTERS]; /* what ended threads had counted */
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT, .profiled = PTHREAD_ONCE_INIT};

static _Atomic int64_t *counter_of(hd_thread *t, hd_counter which) {
    switch (which) {
    case HD_COUNTER_OBJECTS: return &t->live_objects;
    case HD_COUNTER_BYTES: return &t->live_bytes;
    case HD_COUNTER_HEADERS: return &t->header_bytes;
    case HD_COUNTER_CACHED:
    case HD_COUNTERS: break;
    }
    return &t->cached_bytes;
}

static void thread_end(void *context) {
    hd_thread *t = context;
    hd_thread_pointer = t;            /* destructors may run after the variable was reset */
    hd_endings_do(t, 0, UINTPTR_MAX); /* of calls that an exit left */
    if (t->recording != NULL) t->recorder->abandon(t);
    hd_tapes_end(t);
    hd_scope_end_all(t);
    hd_tapes_end(t); /* what the last releases noted */
    if (t->generator != NULL) hd_object_release(t, (hd_object *)t->generator);
    hd_object_bury_all(t);
    hd_memory_trim_thread(t);
    pthread_mutex_lock(&registry.lock);
    for (int c = 0; c < HD_COUNTERS; ++c)
        registry.gone[c] += atomic_load_explicit(counter_of(t, (hd_counter)c), memory_order_relaxed);
    if (t->previous != NULL)
        t->previous->next = t->next;
    else
        registry.first = t->next;
    if (t->next != NULL) t->next->previous = t->previous;
    pthread_mutex_unlock(&registry.lock);
    hd_thread_pointer = NULL;
    hd_array_release(t);
}

static void threads_before_fork(void) {
    hd_profile_before_fork();
    pthread_mutex_lock(&registry.lock);
    hd_memory_before_fork();
}
static void after_fork(bool in_child) {
    hd_memory_after_fork();
    pthread_mutex_unlock(&registry.lock);
    hd_profile_after_fork(in_child);
}
static void threads_after_fork(void) { after_fork(false); }
static void threads_in_child(void) { after_fork(true); }

static void begin_library(void) {
    hd_library_open();
    registry.has_key = pthread_key_create(&registry.key, thread_end) == 0;
    hd_os_at_fork(threads_before_fork, threads_after_fork, threads_in_child);
}

void hd_library_ready(void) { pthread_once(&registry.once, begin_library); }

hd_thread *hd_thread_create(void) {
    hd_library_ready();
    hd_thread *t = hd_array_resize(NULL, sizeof *t);
    if (t == NULL) return NULL;
    *t = (hd_thread){.device = hd_cpu(), .default_dtype = HD_F32};
    t->executor = hd_device_executor(t->device);
    if (t->executor == NULL) t->executor = hd_no_executor();
    t->observer = hd_first_observer();
    pthread_mutex_lock(&registry.lock);
    t->next = registry.first;
    if (t->next != NULL) t->next->previous = t;
    registry.first = t;
    t->number = ++registry.started;
    pthread_mutex_unlock(&registry.lock);
    hd_thread_pointer = t;
    if (registry.has_key) pthread_setspecific(registry.key, t);
    hd_device_begin(t);
    pthread_once(&registry.profiled, hd_profile_begin_process);
    return t;
}

int64_t hd_counter_sum(hd_counter which) {
    pthread_mutex_lock(&registry.lock);
    int64_t sum = registry.gone[which];
    for (hd_thread *t = registry.first; t != NULL; t = t->next)
        sum += atomic_load_explicit(counter_of(t, which), memory_order_relaxed);
    pthread_mutex_unlock(&registry.lock);
    return sum;
}

/* The thread that leaves main runs no key destructors. */
__attribute__((destructor)) static void library_end(void) {
    hd_profile_end_process();
    if (hd_thread_pointer != NULL) thread_end(hd_thread_pointer);
    if (registry.has_key) pthread_key_delete(registry.key); /* its destructor may be unloaded now */
}

const char *hd_version(void) { return HD_VERSION_STRING; }
