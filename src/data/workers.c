/* Threads of a loader. */
#include "data/workers.h"
#include "core/os.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef enum place_state { FREE, POSTED, IN_WORK, MADE } place_state;

/* A place of the ring. What is POSTED or MADE nobody touches without the lock, what is IN_WORK only its worker. */
typedef struct place {
    place_state state;
    int64_t count;
    uint64_t seed;
    int64_t *indices;
    hd_tensors *batch; /* retained; NULL: the error */
    hd_error_copy error;
} place;

struct hd_workers {
    pthread_mutex_t lock;
    pthread_cond_t posted, made;
    const hd_recipe *recipe;
    int64_t process; /* that has the threads */
    int64_t *indices;
    uint64_t oldest, next; /* numbers of batches: place n % ahead has batch n. The taker's own */
    uint64_t next_to_make; /* under the lock */
    bool stops;
    int ahead, threads;
    pthread_t thread[HD_WORKERS_MOST];
    place places[];
};

static place *place_of(hd_workers *w, uint64_t number) { return &w->places[number % (uint64_t)w->ahead]; }

/* ---- a worker ---------------------------------------------------------------------------------------------------- */
static void make(hd_thread *thread, const hd_recipe *recipe, place *p) {
    hd_apart apart;
    if (thread == NULL) { /* not even an error can be pending */
        p->error.code = HD_ERROR_MEMORY;
        snprintf(p->error.message, sizeof p->error.message, "hd_loader_next: no memory for the context of a worker");
        return;
    }
    thread->call = "hd_loader_next";
    hd_apart_begin(thread, &apart);
    p->batch = hd_batch_make(thread, recipe, p->indices, p->count, p->seed);
    hd_apart_end(thread, &apart);
    hd_error_take(&p->error);
}

static void *work(void *context) {
    hd_workers *w = context;
    hd_thread *thread = hd_thread_self();
    pthread_mutex_lock(&w->lock);
    while (!w->stops) {
        place *p = place_of(w, w->next_to_make);
        if (p->state != POSTED) {
            pthread_cond_wait(&w->posted, &w->lock);
            continue;
        }
        p->state = IN_WORK;
        w->next_to_make++;
        pthread_mutex_unlock(&w->lock);
        make(thread, w->recipe, p);
        pthread_mutex_lock(&w->lock);
        p->state = MADE;
        pthread_cond_broadcast(&w->made);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- from start to end ------------------------------------------------------------------------------------------- */
static void release(hd_workers *w) {
    pthread_cond_destroy(&w->posted);
    pthread_cond_destroy(&w->made);
    pthread_mutex_destroy(&w->lock);
    hd_array_release(w->indices);
    hd_array_release(w);
}

hd_workers *hd_workers_start(const hd_recipe *recipe, int count, int ahead, int64_t batch_size) {
    const size_t bytes = sizeof(hd_workers) + (size_t)ahead * sizeof(place);
    hd_workers *w = hd_array_resize(NULL, bytes);
    int64_t *indices = w == NULL ? NULL : hd_array_resize(NULL, (size_t)ahead * (size_t)batch_size * sizeof *indices);
    if (indices == NULL) {
        hd_array_release(w);
        hd_fail(HD_ERROR_MEMORY, "no memory for %d batches of %lld items ahead", ahead, (long long)batch_size);
        return NULL;
    }
    memset(w, 0, bytes);
    *w = (hd_workers){.recipe = recipe, .process = hd_os_process(), .indices = indices, .ahead = ahead};
    for (int i = 0; i < ahead; ++i) w->places[i].indices = indices + i * batch_size;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->posted, NULL);
    pthread_cond_init(&w->made, NULL);
    while (w->threads < count && hd_os_thread_start_to_join(&w->thread[w->threads], work, w)) w->threads++;
    if (w->threads > 0) return w; /* fewer do the same, more slowly */
    release(w);
    hd_fail(HD_ERROR_MEMORY, "the system starts no threads for a loader");
    return NULL;
}

bool hd_workers_are_forked(const hd_workers *w) { return w->process != hd_os_process(); }

void hd_workers_stop(hd_thread *thread, hd_workers *w) {
    if (hd_workers_are_forked(w)) return; /* the parent's threads may have held the lock, and been writing anywhere */
    hd_workers_clear(thread, w);
    pthread_mutex_lock(&w->lock);
    w->stops = true;
    pthread_cond_broadcast(&w->posted);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->threads; ++i) pthread_join(w->thread[i], NULL);
    release(w);
}

/* ---- the taker --------------------------------------------------------------------------------------------------- */
bool hd_workers_have_room(const hd_workers *w) { return w->next - w->oldest < (uint64_t)w->ahead; }
int64_t *hd_workers_room(hd_workers *w) { return place_of(w, w->next)->indices; }

void hd_workers_post(hd_workers *w, int64_t count, uint64_t seed) {
    place *p = place_of(w, w->next);
    pthread_mutex_lock(&w->lock);
    p->count = count;
    p->seed = seed;
    p->state = POSTED;
    w->next++;
    pthread_cond_signal(&w->posted);
    pthread_mutex_unlock(&w->lock);
}

/* The batch of a place that is made, if there is one; nobody has the place then. Under the lock. */
static hd_tensors *empty(place *p) {
    hd_tensors *batch = p->batch;
    p->batch = NULL;
    p->state = FREE;
    return batch;
}

hd_tensors *hd_workers_take(hd_workers *w) {
    place *p = place_of(w, w->oldest++);
    pthread_mutex_lock(&w->lock);
    while (p->state != MADE) pthread_cond_wait(&w->made, &w->lock);
    hd_tensors *batch = empty(p);
    pthread_mutex_unlock(&w->lock);
    if (batch == NULL) hd_error_put_back(&p->error);
    return batch;
}

void hd_workers_clear(hd_thread *thread, hd_workers *w) {
    pthread_mutex_lock(&w->lock);
    for (; w->next_to_make < w->next; w->next_to_make++) place_of(w, w->next_to_make)->state = FREE;
    for (; w->oldest < w->next; w->oldest++) {
        place *p = place_of(w, w->oldest);
        while (p->state == IN_WORK) pthread_cond_wait(&w->made, &w->lock);
        hd_data_drop(thread, empty(p));
    }
    pthread_mutex_unlock(&w->lock);
}
