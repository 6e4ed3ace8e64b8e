/* Text of rendered programs, compiled as C++14 by a compiler of the host with the shim beside this file, and its
 * kernels as functions; what is loaded stays. */
#ifndef HD_TESTS_METAL_COMPILED_H
#define HD_TESTS_METAL_COMPILED_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metal/coroutines.h"

/* Metal's own compiler is clang. */
static inline const char *compiled_by(void) {
    static const char *const names[] = {"clang++", "clang++-14", "clang++-19", "c++"};
    for (int i = 0; i < 4; ++i) {
        char command[64];
        snprintf(command, sizeof command, "command -v %s > /dev/null", names[i]);
        if (system(command) == 0) return names[i];
    }
    return NULL;
}

/* How many buffers stand in front of the arguments: a number, or the name of one. */
static inline int buffers_of(const char *text, const char *count) {
    char define[128];
    snprintf(define, sizeof define, "#define %s ", count);
    const char *at = strstr(text, define);
    return atoi(at == NULL ? count : at + strlen(define));
}

/* Of each "W_KERNEL void k(..., W_ARGUMENTS(k_arguments, a, 2) W_IDS)", or W_KERNEL_OF(threads):
 * void run_k(char **b, void *a, uint3 group, uint3 lane) { k(b[0], b[1], *(k_arguments *)a, group, lane); } */
static inline void write_callers(FILE *out, const char *text) {
    for (const char *at = text; (at = strstr(at, "\nW_KERNEL")) != NULL;) {
        char name[128], arguments[128], count[96];
        at = strstr(at, "void ") + strlen("void ");
        const char *given = strstr(at, "W_ARGUMENTS(");
        if (sscanf(at, "%127[a-z0-9_](", name) != 1 || given == NULL ||
            sscanf(given, "W_ARGUMENTS(%127[a-z0-9_], a, %95[A-Z0-9_])", arguments, count) != 2)
            continue;
        fprintf(out, "extern \"C\" void run_%s(char **b, void *a, uint3 group, uint3 lane) { %s(", name, name);
        for (int b = 0; b < buffers_of(text, count); ++b) fprintf(out, "b[%d], ", b);
        fprintf(out, "*(%s *)a, group, lane); }\n", arguments);
    }
}

/* The library that text became; NULL, and the end of what the compiler said is in `log`. */
static inline void *compiled_text(const char *text, const char *shim, char *log, size_t capacity) {
    char folder[] = "/tmp/hodu-metal-XXXXXX", path[64], command[1024];
    void *library = NULL;
    log[0] = '\0';
    if (mkdtemp(folder) == NULL) return NULL;
    snprintf(path, sizeof path, "%s/text.cpp", folder);
    FILE *out = fopen(path, "w");
    if (out != NULL) {
        fputs(text, out);
        fputs("extern \"C\" { void (*metal_barrier)(void); }\n", out);
        write_callers(out, text);
        fclose(out);
    }
    snprintf(command, sizeof command,
             "%s -x c++ -std=gnu++14 -O0 -w -ffp-contract=off -shared -fPIC -I%s -o %s/text.so %s 2> %s/log",
             compiled_by(), shim, folder, path, folder);
    if (system(command) == 0) {
        snprintf(path, sizeof path, "%s/text.so", folder);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    snprintf(path, sizeof path, "%s/log", folder);
    FILE *said = library == NULL ? fopen(path, "r") : NULL;
    if (said != NULL) {
        log[fread(log, 1, capacity - 1, said)] = '\0';
        fclose(said);
    }
    if (library != NULL) *(void (**)(void))dlsym(library, "metal_barrier") = run_barrier;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? library : NULL;
}

static inline run_function *compiled_function(void *library, const char *name) {
    char caller[160];
    run_function *function;
    snprintf(caller, sizeof caller, "run_%s", name);
    *(void **)&function = dlsym(library, caller);
    return function;
}

#endif
