/* The yardstick of large elementwise ops: out[i] = a[i] op b[i] as a plain loop, bound by memory alone. Its arrays are
 * allocated, on huge pages where the system gives them, and touched before; its threads wait asleep, one part each. */
#ifndef BENCH_LOOP_H
#define BENCH_LOOP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

typedef void loop_body(float *restrict out, const float *restrict a, const float *restrict b, int64_t n);

/* The compiler's baseline would be four floats wide; memory is the bound from eight on. */
#if defined(__x86_64__)
#define LOOP_WIDE       __attribute__((noinline, target("avx2")))
#define LOOP_HAS_WIDE() __builtin_cpu_supports("avx2")
#else
#define LOOP_WIDE       __attribute__((noinline))
#define LOOP_HAS_WIDE() 1
#endif

#define LOOP_DEFINE(name, op)                                                                                          \
    LOOP_WIDE static void name##_wide(float *restrict out, const float *restrict a, const float *restrict b,           \
                                      int64_t n) {                                                                     \
        for (int64_t i = 0; i < n; ++i) out[i] = a[i] op b[i];                                                         \
    }                                                                                                                  \
    static void name(float *restrict out, const float *restrict a, const float *restrict b, int64_t n) {               \
        if (LOOP_HAS_WIDE())                                                                                           \
            name##_wide(out, a, b, n);                                                                                 \
        else                                                                                                           \
            for (int64_t i = 0; i < n; ++i) out[i] = a[i] op b[i];                                                     \
    }

enum { LOOP_THREADS = 256 };

typedef struct loop {
    loop_body *body;
    float *out, *a, *b; /* [n] */
    int64_t n;
    int threads; /* the caller among them */
    bool stop;
    pthread_barrier_t begin, end;
    pthread_t worker[LOOP_THREADS];
} loop;

typedef struct loop_part {
    loop *l;
    int index;
} loop_part;

static void loop_fail(const char *what) {
    perror(what);
    exit(2);
}

static void loop_run_part(const loop *l, int index) {
    const int64_t first = l->n * index / l->threads & ~(int64_t)15,
                  next = l->n * (index + 1) / l->threads & ~(int64_t)15;
    l->body(l->out + first, l->a + first, l->b + first, next - first);
}

static void *loop_worker(void *argument) {
    const loop_part part = *(loop_part *)argument;
    free(argument);
    for (;;) {
        pthread_barrier_wait(&part.l->begin);
        if (part.l->stop) return NULL;
        loop_run_part(part.l, part.index);
        pthread_barrier_wait(&part.l->end);
    }
}

static float *loop_array(int64_t n) {
    const size_t huge = 2 << 20, bytes = ((size_t)n * sizeof(float) + huge - 1) / huge * huge;
    float *array = aligned_alloc(huge, bytes);
    if (array == NULL) loop_fail("loop.h");
    madvise(array, bytes, MADV_HUGEPAGE);
    for (int64_t i = 0; i < n; ++i) array[i] = (float)(i % 1024) / 1024;
    return array;
}

/* n is a multiple of 16. */
static loop *loop_new(loop_body *body, int64_t n, int threads) {
    loop *l = calloc(1, sizeof *l);
    if (l == NULL) loop_fail("loop.h");
    l->body = body;
    l->n = n;
    l->threads = threads < LOOP_THREADS ? threads : LOOP_THREADS;
    l->out = loop_array(n);
    l->a = loop_array(n);
    l->b = loop_array(n);
    pthread_barrier_init(&l->begin, NULL, (unsigned)l->threads);
    pthread_barrier_init(&l->end, NULL, (unsigned)l->threads);
    for (int i = 1; i < l->threads; ++i) {
        loop_part *part = malloc(sizeof *part);
        if (part == NULL) loop_fail("loop.h");
        *part = (loop_part){l, i};
        if (pthread_create(&l->worker[i], NULL, loop_worker, part) != 0) loop_fail("loop.h");
    }
    return l;
}

static void loop_run(loop *l) {
    pthread_barrier_wait(&l->begin);
    loop_run_part(l, 0);
    pthread_barrier_wait(&l->end);
}

static void loop_free(loop *l) {
    l->stop = true;
    pthread_barrier_wait(&l->begin);
    for (int i = 1; i < l->threads; ++i) pthread_join(l->worker[i], NULL);
    pthread_barrier_destroy(&l->begin);
    pthread_barrier_destroy(&l->end);
    free(l->out);
    free(l->a);
    free(l->b);
    free(l);
}

#endif
