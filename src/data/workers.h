/* Threads that make batches ahead of who takes them. The taker posts batches, in order, into a ring; workers take them
 * from there, in order, too, and whatever order they finish in, the taker gets them as they were posted. */
#ifndef HD_DATA_WORKERS_H
#define HD_DATA_WORKERS_H

#include "data/batch.h"

enum { HD_WORKERS_MOST = 256, HD_PREFETCH_MOST = 4096 };

typedef struct hd_workers hd_workers;
/* Starts `count` threads, and a ring of `ahead` batches of at most `batch_size` items; NULL with an error. The recipe
 * must stay. */
hd_workers *hd_workers_start(const hd_recipe *recipe, int count, int ahead, int64_t batch_size);
/* Waits for what is being made, gives up what was, and joins the threads. In a forked child, which has none of them,
 * only the memory goes that nobody may have been using. */
void hd_workers_stop(hd_thread *thread, hd_workers *w);
/* True in a child that was forked since they started. */
bool hd_workers_are_forked(const hd_workers *w);
bool hd_workers_have_room(const hd_workers *w);
/* Where the indices of the next batch to be posted go; there is room. */
int64_t *hd_workers_room(hd_workers *w);
void hd_workers_post(hd_workers *w, int64_t count, uint64_t seed);
/* Waits for the oldest batch that was posted; a reference that is the caller's. NULL with the worker's error. */
hd_tensors *hd_workers_take(hd_workers *w);
/* Forgets what was posted. */
void hd_workers_clear(hd_thread *thread, hd_workers *w);

#endif
