/* Batches of random kernels with random grids, and what comes out of them: for whoever runs the text of GPUs. */
#ifndef HD_TESTS_GPU_CASES_H
#define HD_TESTS_GPU_CASES_H

#include "compiler/random_kernels.h"
#include "kernel/gpu.h"

enum { CASES = 64 };
typedef struct gpu_case {
    random_kernel r;
    hd_gpu_kernel kernel;
    char name[16];
    char *memory[HD_KERNEL_BUFFERS], *expected[HD_KERNEL_BUFFERS];
} gpu_case;

static uint8_t shared_threads; /* that exchange values, in the dialect of the test; 0: none do */
static inline bool case_uses_f64(const hd_kernel *k) {
    for (int b = 0; b < k->buffer_count; ++b)
        if (k->buffers[b].dtype == HD_F64) return true;
    for (int i = 0; i < k->count; ++i)
        if (k->steps[i].type == HD_COMPUTE_F64) return true;
    return false;
}

/* Any grid that is right, not only the one that is quick. */
static inline hd_grid case_grid(const random_kernel *r, bool has_f64) {
    static const uint32_t processors[] = {1, 16, 1000}, most[] = {256, 64, 16, 1024};
    const hd_grid_limits limits = {processors[random_below(3)], most[random_below(4)], has_f64, shared_threads};
    hd_grid g = hd_grid_choose(&r->k, r->geometry, 16, &limits);
    if (random_below(4) == 0) g.narrow = false;
    if (random_below(3) == 0) g.held = 0;
    return g;
}

/* Of a buffer, and some behind it, which nobody may write. */
static inline size_t case_bytes(const gpu_case *c, int b) {
    return (size_t)c->r.elements[b] * hd_dtype_bytes[c->r.k.buffers[b].dtype] + 64;
}

/* The next case; `has_f64`: kernels may use it. */
static inline void case_make(gpu_case *c, int number, bool has_f64) {
    hd_target target = hd_cpu_machine()->target;
    target.keeps_from = UINT8_MAX; /* nothing waits in scratch memory */
    for (;;) {
        random_make(&c->r, 32);
        if (hd_kernel_schedule(&c->r.k, c->r.k.schedule.lanes, &target) != HD_OK) fail_msg("%s", hd_error_message());
        if (has_f64 || !case_uses_f64(&c->r.k)) break;
        hd_kernel_release(&c->r.k);
    }
    snprintf(c->name, sizeof c->name, "k%d", number);
    c->kernel = (hd_gpu_kernel){&c->r.k, case_grid(&c->r, has_f64), c->name};
    random_memory(&c->r, c->memory);
    for (int b = 0; b < c->r.k.buffer_count; ++b) {
        c->expected[b] = malloc(case_bytes(c, b));
        memcpy(c->expected[b], c->memory[b], case_bytes(c, b));
    }
    interpret_kernel(&c->r.k, c->expected, c->r.geometry, c->r.numbers);
}

static inline void case_release(gpu_case *c) {
    for (int b = 0; b < c->r.k.buffer_count; ++b) {
        free(c->memory[b]);
        free(c->expected[b]);
    }
    hd_kernel_release(&c->r.k);
}

/* All bytes, those behind the elements too. */
static inline bool case_agrees(const gpu_case *c) {
    for (int b = 0; b < c->r.k.buffer_count; ++b) {
        const size_t size = hd_dtype_bytes[c->r.k.buffers[b].dtype], bytes = case_bytes(c, b);
        for (size_t i = 0; i < bytes; ++i)
            if (c->memory[b][i] != c->expected[b][i]) {
                print_error("%s: buffer %d (%s), element %zu of %lld differs\n", c->name, b,
                            hd_dtype_name((hd_dtype)c->r.k.buffers[b].dtype), i / size, (long long)c->r.elements[b]);
                return false;
            }
    }
    return true;
}

/* The text of all of them as one program; from malloc. */
static inline char *case_text(gpu_case *const *cases, int count, hd_dialect dialect, bool has_f64) {
    hd_gpu_kernel kernels[CASES];
    for (int i = 0; i < count; ++i) kernels[i] = cases[i]->kernel;
    const size_t length = hd_render_gpu(kernels, count, dialect, has_f64, NULL, 0);
    char *text = malloc(length + 1);
    if (length == 0 || text == NULL || hd_render_gpu(kernels, count, dialect, has_f64, text, length + 1) != length)
        fail_msg("%s", hd_error_message());
    return text;
}

#endif
