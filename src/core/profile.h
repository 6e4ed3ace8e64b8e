/* Profiles: how long calls, runs, launches and phases of compilations took, of all threads. Calls take the long way
 * (hd_calls_routed) from the first profile on; before it nothing of this costs anything. */
#ifndef HD_CORE_PROFILE_H
#define HD_CORE_PROFILE_H

#include "core/execute.h"

#include <hodu/profile.h>

typedef enum hd_profile_kind {
    HD_PROFILE_CALL,   /* an op that runs at once */
    HD_PROFILE_RUN,    /* of a script */
    HD_PROFILE_LAUNCH, /* in it */
    HD_PROFILE_COMPILE /* a phase of a compilation */
} hd_profile_kind;

/* What is said of something that took time. */
typedef struct hd_profile_event {
    hd_profile_kind kind;
    const char *name, *sizes; /* sizes may be NULL */
    int64_t begin, nanoseconds;
    hd_work work;
} hd_profile_event;

extern _Atomic int hd_profiles; /* how many are taken */
static inline bool hd_is_profiled(void) { return atomic_load_explicit(&hd_profiles, memory_order_relaxed) > 0; }

/* Adds it to all profiles, with the public function of the thread that runs and who called it. */
void hd_profile_note(const hd_thread *thread, const hd_profile_event *event);
/* What tells the name of the user's op in a call, "" of others: the ops room has it. */
void hd_profile_register(const char *(*own_name)(const hd_op *op, const void *attributes));
/* Runs calls and notes them, each on the executor where it belongs. */
hd_executor *hd_profile_executor(void);
/* The same of a write. */
hd_error hd_profile_write(hd_executor *executor, hd_thread *thread, hd_tensor *dst, hd_tensor *src);

/* A phase of a compilation, to the end of the block. */
typedef struct hd_profile_phase {
    const char *name;
    int64_t begin;
} hd_profile_phase;
hd_profile_phase hd_profile_phase_begin(const char *name);
void hd_profile_phase_end(const hd_profile_phase *phase);
#define HD_PROFILE_PHASE(name)                                                                                         \
    __attribute__((cleanup(hd_profile_phase_end), unused)) const hd_profile_phase HD_UNIQUE(phase_) =                  \
        hd_profile_phase_begin(name)

/* A scope of the thread ends: so do the profiles that it took there, which a longjmp left. */
void hd_profile_leave(hd_thread *thread, uint32_t scopes);
void hd_profile_begin_process(void); /* HODU_PROFILE */
void hd_profile_end_process(void);
void hd_profile_before_fork(void);
void hd_profile_after_fork(bool in_child);

/* ---- what a profile holds, for profile_print.c ------------------------------------------------------------------- */
/* What is alike: the same op, dtype, shape and caller. */
typedef struct hd_profile_row {
    hd_profile_kind kind;
    char name[64], sizes[64], scope[40];
    const char *call;   /* the public function */
    const void *caller; /* who called it */
    int64_t count, nanoseconds;
    hd_work work; /* of all */
} hd_profile_row;
typedef struct hd_profile_moment {
    int64_t begin, nanoseconds;
    hd_work work;
    uint32_t row, thread;
} hd_profile_moment;
struct hd_profile {
    struct hd_profile *next; /* another one that is taken */
    char *path;              /* of the trace, or NULL */
    uint32_t thread, scopes; /* which took it, and how many scopes were open there: it ends with the innermost */
    int64_t begin;
    hd_profile_row *rows;
    uint32_t *table; /* of rows by their hash: 1 + which, or 0; as large as there is room for rows, twice */
    uint32_t row_count, row_capacity;
    hd_profile_moment *moments;
    size_t moment_count, moment_capacity;
    int64_t left_out; /* moments that found no memory, or were too many */
};
void hd_profile_print(hd_profile *p);
/* 0, or the number of the system's error. */
int hd_profile_save(const hd_profile *p, const char *path);

#endif
