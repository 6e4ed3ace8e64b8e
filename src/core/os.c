/* What every system of POSIX has alike. */
#define _GNU_SOURCE
#include "core/os.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Nothing in a system begins as early or lasts as long as 292 years. */
int64_t hd_os_nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */
void hd_os_yield(void) { sched_yield(); }

static bool start(pthread_t *out, int detached, void *(*body)(void *), void *context) {
    sigset_t all, before;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return false;
    pthread_attr_setdetachstate(&attributes, detached);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(out, &attributes, body, context) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}
bool hd_os_thread_start(void *(*body)(void *), void *context) {
    pthread_t id;
    return start(&id, PTHREAD_CREATE_DETACHED, body, context);
}
bool hd_os_thread_start_to_join(pthread_t *out, void *(*body)(void *), void *context) {
    return start(out, PTHREAD_CREATE_JOINABLE, body, context);
}

int hd_os_at_fork(void (*before)(void), void (*here)(void), void (*in_child)(void)) {
    return pthread_atfork(before, here, in_child);
}

int64_t hd_os_process(void) { return (int64_t)getpid(); }

/* ---- memory ------------------------------------------------------------------------------------------------------ */
size_t hd_os_page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

void *hd_os_allocate_large(size_t alignment, size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, alignment, bytes) != 0) return NULL;
#ifdef MADV_HUGEPAGE
    madvise(memory, bytes / alignment * alignment, MADV_HUGEPAGE);
#endif
    return memory;
}

bool hd_os_could_map(size_t bytes) {
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return false;
    munmap(room, bytes);
    return true;
}

/* ---- libraries --------------------------------------------------------------------------------------------------- */
void *hd_os_library_open(const char *path, char *why, size_t capacity) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *said = library == NULL ? dlerror() : NULL;
    if (library == NULL) snprintf(why, capacity, "%s", said != NULL ? said : "no reason given");
    return library;
}

void *hd_os_library_symbol(void *library, const char *name) { return dlsym(library, name); }
void hd_os_library_close(void *library) { dlclose(library); }

/* ---- the rest ---------------------------------------------------------------------------------------------------- */
void hd_os_lock_stderr(void) { flockfile(stderr); }
void hd_os_unlock_stderr(void) { funlockfile(stderr); }
void hd_os_trap(void) { raise(SIGTRAP); }

int hd_os_compare_versions(const char *a, const char *b) {
    static const char digits[] = "0123456789";
    while (*a != '\0' && *b != '\0') {
        const size_t more = strspn(a, digits), other = strspn(b, digits);
        if (more == 0 || other == 0) {
            if (*a != *b) break;
            ++a, ++b;
            continue;
        }
        const long long x = strtoll(a, NULL, 10), y = strtoll(b, NULL, 10);
        if (x != y) return x < y ? -1 : 1;
        a += more, b += other;
    }
    return (int)(unsigned char)*a - (int)(unsigned char)*b;
}
