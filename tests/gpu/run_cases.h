/* Runs batches of kernels as functions of a library that compiled.h made of their text. */
#ifndef HD_TESTS_GPU_RUN_CASES_H
#define HD_TESTS_GPU_RUN_CASES_H

#include "gpu/cases.h"
#include "gpu/compiled.h"

static inline void run_entry(void *library, const gpu_case *c, const char *ending, char **buffers, void *arguments,
                             int64_t groups, uint32_t pieces) {
    char name[64];
    snprintf(name, sizeof name, "%s%s", c->name, ending);
    run_function *function = compiled_function(library, name);
    assert_non_null(function);
    for (uint32_t y = 0; y < pieces; ++y)
        for (int64_t x = 0; x < groups; ++x)
            if (!run_group(function, buffers, arguments, (run_id){(unsigned)x, y, 0}, c->kernel.grid.threads))
                fail_msg("%s: a barrier that not all threads reach", name);
}

static inline void run_case(void *library, gpu_case *c) {
    const hd_grid *g = &c->kernel.grid;
    char *buffers[HD_KERNEL_BUFFERS + 1], *arguments = malloc(hd_grid_arguments(&c->r.k, g, c->r.geometry, NULL, NULL));
    memcpy(buffers, c->memory, sizeof c->memory);
    hd_grid_arguments(&c->r.k, g, c->r.geometry, c->r.numbers, arguments);
    char *parts = buffers[c->r.k.buffer_count] = malloc(hd_grid_part_bytes(&c->r.k, g) + 1);
    run_entry(library, c, g->in_pieces ? "_parts" : "", buffers, arguments, g->groups, g->piece_count);
    if (g->in_pieces) run_entry(library, c, "_join", buffers, arguments, (g->points + g->threads - 1) / g->threads, 1);
    free(parts);
    free(arguments);
}

/* Runs each; the library is closed. */
static inline void run_cases(void *library, gpu_case *const *cases, int count) {
    for (int i = 0; i < count; ++i) run_case(library, cases[i]);
    dlclose(library);
}

#endif
