/* The thread pool. The chunks of a job are cut into as many runs as there are threads, and a thread takes those of its
 * own run first, so that it finds in its cache what it had there in the last job of the same kind; then it helps the
 * others. A job is published by raising the epoch in the ticket of each run; chunks are claimed by compare-and-swap on
 * the pair (epoch, next chunk), so a worker that wakes late finds the epoch gone and takes nothing. The caller never
 * waits for a worker that has not claimed a chunk: when another program holds the other core, it simply does all the
 * work. */
#include "core/pool.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/os.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() ((void)0)
#endif

enum { MAX_THREADS = HD_POOL_MOST, SPIN_NANOSECONDS = 60000, PAUSES_PER_LOOK = 4, LOOKS_PER_CLOCK = 8 };

typedef struct run {
    _Alignas(64) _Atomic uint64_t ticket; /* epoch << 32 | next chunk */
} run;

static struct {
    run runs[MAX_THREADS];              /* the caller's, then those of the workers */
    _Alignas(64) _Atomic uint32_t wake; /* the epoch: what workers look at, and sleepers wait on */
    _Atomic uint32_t sleepers;
    _Alignas(64) _Atomic uint32_t finished;
    _Alignas(64) _Atomic(hd_chunk_function) work;
    _Atomic(void *) context;
    _Atomic uint32_t chunks;
    _Atomic int count; /* of runs: threads that may work on it */
    _Atomic bool busy;
    _Atomic int threads; /* 0: not decided yet */
    int workers;         /* started; under the lock */
    _Atomic int arrived; /* those of them that are past their start */
    pthread_mutex_t lock;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint32_t end_of(uint32_t chunks, int count, int number) {
    return (uint32_t)((uint64_t)chunks * (uint64_t)(number + 1) / (uint64_t)count);
}

/* Works on what is left of a run of this epoch; false: the epoch is over. */
static bool claim_chunks(uint32_t epoch, int number) {
    _Atomic uint64_t *at = &pool.runs[number].ticket;
    uint64_t ticket = atomic_load_explicit(at, memory_order_acquire);
    for (;;) {
        const uint32_t chunk = (uint32_t)ticket;
        if ((uint32_t)(ticket >> 32) != epoch) return false;
        const hd_chunk_function work = atomic_load_explicit(&pool.work, memory_order_acquire);
        void *context = atomic_load_explicit(&pool.context, memory_order_acquire);
        const uint32_t chunks = atomic_load_explicit(&pool.chunks, memory_order_acquire);
        if (chunk >= end_of(chunks, atomic_load_explicit(&pool.count, memory_order_acquire), number)) return true;
        /* success proves that the job read above is still this epoch's */
        if (!atomic_compare_exchange_weak_explicit(at, &ticket, ticket + 1, memory_order_acq_rel, memory_order_acquire))
            continue;
        work(context, chunk);
        atomic_fetch_add_explicit(&pool.finished, 1, memory_order_release);
        ticket = atomic_load_explicit(at, memory_order_acquire);
    }
}

/* Its own run, then the others'. */
static void work_on(uint32_t epoch, int number, int count) {
    for (int i = 0; i < count; ++i)
        if (!claim_chunks(epoch, (number + i) % count)) return;
}

static void *worker(void *number) {
    uint32_t last = 0;
    atomic_fetch_add(&pool.arrived, 1);
    for (;;) {
        int64_t until = hd_os_nanoseconds() + SPIN_NANOSECONDS;
        uint32_t epoch;
        for (int looks = 0; (epoch = atomic_load_explicit(&pool.wake, memory_order_acquire)) == last;) {
            for (int i = 0; i < PAUSES_PER_LOOK; ++i) PAUSE();
            if (++looks % LOOKS_PER_CLOCK != 0 || hd_os_nanoseconds() < until) continue;
            atomic_fetch_add(&pool.sleepers, 1);
            if (atomic_load(&pool.wake) == last) hd_os_wait(&pool.wake, last);
            atomic_fetch_sub(&pool.sleepers, 1);
            until = hd_os_nanoseconds() + SPIN_NANOSECONDS;
        }
        last = epoch;
        const int count = atomic_load_explicit(&pool.count, memory_order_relaxed);
        if ((int)(intptr_t)number < count) work_on(epoch, (int)(intptr_t)number, count);
    }
    return NULL;
}

/* ---- how many -------------------------------------------------------------------------------------------------- */
static int decide_threads(void) {
    const char *wish = hd_environment("HODU_NUM_THREADS");
    char *end = NULL;
    long count = wish != NULL ? strtol(wish, &end, 10) : 0;
    if (wish != NULL && (*end != '\0' || count <= 0)) {
        hd_environment_unknown("HODU_NUM_THREADS", wish, strlen(wish), "a number of threads, 1 or more");
        count = 0;
    }
    if (count <= 0) count = hd_os_processors();
    return count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : (int)count;
}

static HD_THREAD_LOCAL int limit; /* 0: none */

int hd_pool_limit(int threads) {
    const int before = limit;
    limit = threads;
    return before;
}

int hd_pool_threads(void) {
    int threads = atomic_load_explicit(&pool.threads, memory_order_relaxed);
    if (threads == 0) {
        threads = decide_threads();
        atomic_store_explicit(&pool.threads, threads, memory_order_relaxed);
    }
    return limit == 0 || threads < limit ? threads : limit;
}

uint32_t hd_pool_jobs(void) { return atomic_load_explicit(&pool.wake, memory_order_relaxed); }

int hd_num_threads(void) { return hd_pool_threads(); }

void hd_set_num_threads(int count) {
    HD_ENTER("hd_set_num_threads", );
    (void)thread;
    if (count < 1 || count > MAX_THREADS)
        hd_fail(HD_ERROR_VALUE, "%d threads; 1 to %d are possible", count, (int)MAX_THREADS);
    else
        atomic_store_explicit(&pool.threads, count, memory_order_relaxed);
}

/* A thread that is being started may hold locks of an allocator, and a child would never get them back. */
static void pool_before_fork(void) {
    pthread_mutex_lock(&pool.lock);
    while (atomic_load(&pool.arrived) < pool.workers) hd_os_yield();
}
static void after_fork_here(void) { pthread_mutex_unlock(&pool.lock); }

/* In a child process the workers are gone: begin anew. The child of a busy pool runs alone until then. */
static void pool_after_fork(void) {
    pool.workers = 0;
    atomic_store(&pool.arrived, 0);
    pthread_mutex_init(&pool.lock, NULL);
    atomic_store(&pool.sleepers, 0);
    /* nobody is left to run the chunks of a job that was under way */
    for (int i = 0; i < MAX_THREADS; ++i) atomic_fetch_or(&pool.runs[i].ticket, UINT32_MAX);
    atomic_store(&pool.busy, false);
}

static void start_workers(int wanted) {
    static bool fork_handled; /* under the lock */
    pthread_mutex_lock(&pool.lock);
    if (!fork_handled) fork_handled = hd_os_at_fork(pool_before_fork, after_fork_here, pool_after_fork) == 0;
    while (pool.workers < wanted && hd_os_thread_start(worker, (void *)(intptr_t)(pool.workers + 1))) pool.workers++;
    pthread_mutex_unlock(&pool.lock);
}

/* ---- running --------------------------------------------------------------------------------------------------- */
void hd_parallel(int64_t chunks, hd_chunk_function work, void *context) {
    const int threads = hd_pool_threads();
    bool free_pool = false;
    if (chunks <= 1 || threads <= 1 || chunks > UINT32_MAX - 1 ||
        !atomic_compare_exchange_strong_explicit(&pool.busy, &free_pool, true, memory_order_acquire,
                                                 memory_order_relaxed)) {
        for (int64_t c = 0; c < chunks; ++c) work(context, c);
        return;
    }
    if (pool.workers < threads - 1) start_workers(threads - 1);
    const uint32_t epoch = atomic_load_explicit(&pool.wake, memory_order_relaxed) + 1;
    const int count = chunks < threads ? (int)chunks : threads,
              before = atomic_load_explicit(&pool.count, memory_order_relaxed);
    /* close the old epoch first: a worker that comes late must not claim one of the new job's chunks in its name */
    for (int i = 0; i < before; ++i)
        atomic_store_explicit(&pool.runs[i].ticket, (uint64_t)(epoch - 1) << 32 | UINT32_MAX, memory_order_release);
    atomic_store_explicit(&pool.work, work, memory_order_release);
    atomic_store_explicit(&pool.context, context, memory_order_release);
    atomic_store_explicit(&pool.chunks, (uint32_t)chunks, memory_order_release);
    atomic_store_explicit(&pool.count, count, memory_order_release);
    atomic_store_explicit(&pool.finished, 0, memory_order_relaxed);
    for (int i = 0; i < count; ++i)
        atomic_store_explicit(&pool.runs[i].ticket,
                              (uint64_t)epoch << 32 | (i == 0 ? 0 : end_of((uint32_t)chunks, count, i - 1)),
                              memory_order_release);
    atomic_store(&pool.wake, epoch);
    if (atomic_load(&pool.sleepers) > 0) hd_os_wake(&pool.wake);
    work_on(epoch, 0, count);
    for (uint32_t waited = 0; atomic_load_explicit(&pool.finished, memory_order_acquire) != (uint32_t)chunks;) {
        PAUSE();
        if (++waited > 10000) { /* a worker was put aside in the middle of its chunk */
            hd_os_yield();
            waited = 0;
        }
    }
    atomic_store_explicit(&pool.busy, false, memory_order_release);
}

typedef struct range_job {
    hd_range_function work;
    void *context;
    int64_t count, step;
} range_job;

static void run_range(void *context, int64_t chunk) {
    const range_job *job = context;
    const int64_t begin = chunk * job->step, end = begin + job->step;
    job->work(job->context, begin, end < job->count ? end : job->count);
}

void hd_parallel_range(int64_t count, int64_t grain, hd_range_function work, void *context) {
    const int threads = count > grain ? hd_pool_threads() : 1;
    if (threads == 1) {
        if (count > 0) work(context, 0, count);
        return;
    }
    int64_t pieces = count / grain;
    if (pieces > 8 * threads) pieces = 8 * threads; /* the cores of shared machines are not equally quick */
    if (pieces < 1) pieces = 1;
    range_job job = {work, context, count, (count + pieces - 1) / pieces};
    if (job.step >= 1024) job.step = (job.step + 63) / 64 * 64; /* whole cache lines for every dtype */
    hd_parallel((count + job.step - 1) / job.step, run_range, &job);
}
