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

/* Of each kernel of preprocessed text, extern "C" void k(..., const k_arguments &a [[buffer(2)]], ...):
 * void run_k(char **b, void *a, uint3 group, uint3 lane) { k(b[0], b[1], *(k_arguments *)a, group, lane); } */
static inline void write_callers(FILE *out, const char *text) {
    static const char begin[] = "extern \"C\"", buffer[] = "[[buffer(";
    for (const char *at = text; (at = strstr(at, begin)) != NULL;) {
        char name[128], arguments[128];
        int buffers = 0;
        at += strlen(begin);
        const char *end = strstr(at, " &a ");
        if (sscanf(at, " void %127[a-z0-9_]", name) != 1 || end == NULL) continue;
        const char *type = end;
        while (type > at && type[-1] != ' ') type--;
        snprintf(arguments, sizeof arguments, "%.*s", (int)(end - type), type);
        for (const char *b = at; (b = strstr(b, buffer)) != NULL && b < end; b += strlen(buffer)) buffers++;
        fprintf(out, "extern \"C\" void run_%s(char **b, void *a, uint3 group, uint3 lane) { %s(", name, name);
        for (int b = 0; b < buffers; ++b) fprintf(out, "b[%d], ", b);
        fprintf(out, "*(%s *)a, group, lane); }\n", arguments);
    }
}

/* A file as text; from malloc, NULL when there is none. */
static inline char *file_text(const char *path) {
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t bytes = 0, got;
    for (size_t more = 1 << 16; file != NULL; more *= 2) {
        text = realloc(text, bytes + more + 1);
        bytes += got = fread(text + bytes, 1, more, file);
        if (got == more) continue;
        text[bytes] = '\0';
        fclose(file);
        return text;
    }
    return NULL;
}

/* The library that text became; NULL, and the end of what the compiler said is in `log`. */
static inline void *compiled_text(const char *text, const char *shim, char *log, size_t capacity) {
    char folder[] = "/tmp/hodu-metal-XXXXXX", path[64], plain_path[64], command[1024];
    void *library = NULL;
    log[0] = '\0';
    if (mkdtemp(folder) == NULL) return NULL;
    snprintf(path, sizeof path, "%s/text.cpp", folder);
    FILE *out = fopen(path, "w");
    if (out != NULL) {
        fputs(text, out);
        fclose(out);
    }
    snprintf(command, sizeof command, "%s -x c++ -std=gnu++14 -E -P -I%s -o %s/plain.cpp %s 2> %s/log", compiled_by(),
             shim, folder, path, folder);
    const bool is_plain = system(command) == 0;
    char *plain = is_plain ? file_text(strcat(strcpy(plain_path, folder), "/plain.cpp")) : NULL;
    out = fopen(path, "a");
    if (plain != NULL && out != NULL) {
        fputs("\nextern \"C\" { void (*metal_barrier)(void); }\n", out);
        write_callers(out, plain);
    }
    if (out != NULL) fclose(out);
    free(plain);
    snprintf(command, sizeof command,
             "%s -x c++ -std=gnu++14 -O0 -w -ffp-contract=off -shared -fPIC -I%s -o %s/text.so %s 2>> %s/log",
             compiled_by(), shim, folder, path, folder);
    if (is_plain && system(command) == 0) {
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
