/* Kernels as Metal's text, compiled as C++14 by a compiler of the host and run on the CPU, against the interpreter.
 * This is not a Mac: it says that the text is C++ and means what it should. */
#include "support.h"

#include "compiler/rows.h" /* its reading of the words ends where that of the interpreter begins */

#include "compiler/interpreter.h"

#include "gpu/cases.h"
#include "metal/compiled.h"

static void *build(gpu_case *const *cases, int count) {
    char log[4096], *text = case_text(cases, count, HD_DIALECT_METAL, false);
    void *library = compiled_text(text, HODU_TEST_DATA "/../metal", log, sizeof log);
    if (library == NULL) fail_msg("the text does not compile: %s", log);
    free(text);
    return library;
}

static void run_entry(void *library, const gpu_case *c, const char *ending, char **buffers, void *arguments,
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

static void run_case(void *library, gpu_case *c) {
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

/* Compiles all, and runs each. */
static void run_all(gpu_case *const *cases, int count) {
    void *library = build(cases, count);
    for (int i = 0; i < count; ++i) run_case(library, cases[i]);
    dlclose(library);
}

enum { RANDOM = CASES, EVERY = 1 };
static bool has_f64(void) { return false; }
#include "gpu/suite.h"

int main(void) { return run_suite(compiled_by() == NULL ? "there is no C++ compiler" : NULL); }
