/* The thread pool: the caller and its workers claim chunks of one job. Workers spin for a moment after a job, then
 * sleep; nobody is pinned. A caller that finds the pool busy (another thread's job, or a job inside a job) runs
 * alone. */
#ifndef HD_CORE_POOL_H
#define HD_CORE_POOL_H

#include <stdint.h>

/* Runs work(context, chunk) for every chunk in [0, chunks), in any order, on any of the pool's threads. */
typedef void (*hd_chunk_function)(void *context, int64_t chunk);
void hd_parallel(int64_t chunks, hd_chunk_function work, void *context);

/* Runs work(context, begin, end) over [0, count) in ranges of at least `grain`, at most a few per thread. */
typedef void (*hd_range_function)(void *context, int64_t begin, int64_t end);
void hd_parallel_range(int64_t count, int64_t grain, hd_range_function work, void *context);

enum { HD_POOL_MOST = 256 }; /* threads */
/* Threads a job may use now, the caller among them. */
int hd_pool_threads(void);
/* At most so many for jobs of this thread, from now on; 0: all. Gives what it was before. */
int hd_pool_limit(int threads);
/* Jobs that threads have shared so far, of all callers. */
uint32_t hd_pool_jobs(void);

#endif
