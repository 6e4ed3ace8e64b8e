/* Kernels as Metal's text, compiled as C++14 by a compiler of the host and run on the CPU, against the interpreter.
 * This is not a Mac: it says that the text is C++ and means what it should. */
#include "support.h"

#include <dlfcn.h>
#include <unistd.h>

#include "compiler/rows.h" /* its reading of the words ends where that of the interpreter begins */

#include "compiler/interpreter.h"

#include "gpu/cases.h"
#include "metal/coroutines.h"

/* Metal's own compiler is clang. */
static const char *compiler(void) {
    static const char *const names[] = {"clang++", "clang++-14", "clang++-19", "c++"};
    for (int i = 0; i < 4; ++i) {
        char command[64];
        snprintf(command, sizeof command, "command -v %s > /dev/null", names[i]);
        if (system(command) == 0) return names[i];
    }
    return NULL;
}

/* void run_k3(char **b, void *a, uint3 group, uint3 lane) { k3(b[0], b[1], *(k3_arguments *)a, group, lane); } */
static void write_callers(FILE *out, const gpu_case *c) {
    static const char *const endings[] = {"", "_parts", "_join"};
    const bool cut = c->kernel.grid.in_pieces;
    for (int e = cut ? 1 : 0; e < (cut ? 3 : 1); ++e) {
        fprintf(out, "extern \"C\" void run_%s%s(char **b, void *a, uint3 group, uint3 lane) { %s%s(", c->name,
                endings[e], c->name, endings[e]);
        for (int b = 0; b < c->r.k.buffer_count + cut; ++b) fprintf(out, "b[%d], ", b);
        fprintf(out, "*(%s_arguments *)a, group, lane); }\n", c->name);
    }
}

static void *build(gpu_case *const *cases, int count, const char *folder) {
    char path[256], command[1024];
    snprintf(path, sizeof path, "%s/text.cpp", folder);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    char *text = case_text(cases, count, HD_DIALECT_METAL, false);
    fputs(text, out);
    fputs("extern \"C\" { void (*metal_barrier)(void); }\n", out);
    for (int i = 0; i < count; ++i) write_callers(out, cases[i]);
    fclose(out);
    free(text);
    snprintf(command, sizeof command,
             "%s -x c++ -std=gnu++14 -O0 -w -ffp-contract=off -shared -fPIC -I%s/../metal -o %s/text.so %s 2>&1",
             compiler(), HODU_TEST_DATA, folder, path);
    if (system(command) != 0) fail_msg("the text does not compile: %s", path);
    snprintf(path, sizeof path, "%s/text.so", folder);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) fail_msg("%s", dlerror());
    *(void (**)(void))dlsym(library, "metal_barrier") = run_barrier;
    return library;
}

static void run_entry(void *library, const gpu_case *c, const char *ending, char **buffers, void *arguments,
                      int64_t groups, uint32_t pieces) {
    char name[64];
    snprintf(name, sizeof name, "run_%s%s", c->name, ending);
    run_function *function;
    *(void **)&function = dlsym(library, name);
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

/* Compiles all, and runs each; then the folder goes. */
static void run_all(gpu_case *const *cases, int count) {
    char folder[] = "/tmp/hodu-metal-XXXXXX", command[128];
    assert_non_null(mkdtemp(folder));
    void *library = build(cases, count, folder);
    for (int i = 0; i < count; ++i) run_case(library, cases[i]);
    dlclose(library);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

enum { RANDOM = CASES, EVERY = 1 };
static bool has_f64(void) { return false; }
#include "gpu/suite.h"

int main(void) { return run_suite(compiler() == NULL ? "there is no C++ compiler" : NULL); }
