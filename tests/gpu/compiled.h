/* Text of GPUs, compiled by a compiler of the host with a shim of the dialect's vocabulary: an object that can be
 * loaded, and its kernels as functions of coroutines.h. */
#ifndef HD_TESTS_GPU_COMPILED_H
#define HD_TESTS_GPU_COMPILED_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/coroutines.h"

/* Metal's own compiler is clang, and so CUDA's text is compiled by it where it is there. */
static inline const char *compiled_by(void) {
    static const char *const names[] = {"clang++", "clang++-14", "clang++-19", "c++"};
    for (int i = 0; i < 4; ++i) {
        char command[64];
        snprintf(command, sizeof command, "command -v %s > /dev/null", names[i]);
        if (system(command) == 0) return names[i];
    }
    return NULL;
}

typedef struct compiled_dialect {
    const char *options; /* of the compiler: the language and the shim */
    const char *shared;  /* what stands behind the text once */
    /* A function of run_function for each kernel of preprocessed text. */
    void (*write_callers)(FILE *out, const char *text);
} compiled_dialect;

/* All of a file, and a zero behind; from malloc, NULL when there is none. */
static inline char *file_text(const char *path, size_t *count) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t bytes = 0, got;
    for (size_t more = 1 << 16; file != NULL; more *= 2) {
        text = realloc(text, bytes + more + 1);
        bytes += got = fread(text + bytes, 1, more, file);
        if (got == more) continue;
        text[bytes] = '\0';
        if (count != NULL) *count = bytes;
        fclose(file);
        return text;
    }
    return NULL;
}
static inline void write_file(const char *path, const char *how, const void *from, size_t bytes) {
    FILE *out = fopen(path, how);
    if (out != NULL) fwrite(from, 1, bytes, out);
    if (out != NULL) fclose(out);
}

/* The preprocessed text, which names all kernels. */
static inline char *compiled_plain(const char *folder, const compiled_dialect *d) {
    char command[1024], path[80];
    snprintf(command, sizeof command, "%s %s -E -P -o %s/plain.cpp %s/text.cpp 2> %s/log", compiled_by(), d->options,
             folder, folder, folder);
    snprintf(path, sizeof path, "%s/plain.cpp", folder);
    return system(command) == 0 ? file_text(path, NULL) : NULL;
}

/* The object that text became, from malloc; NULL, and the begin of what the compiler said is in `log`. */
static inline char *compiled_object(const char *text, const compiled_dialect *d, size_t *bytes, char *log,
                                    size_t capacity) {
    char folder[] = "/tmp/hodu-text-XXXXXX", path[80], command[1024], *object = NULL;
    log[0] = '\0';
    if (mkdtemp(folder) == NULL) return NULL;
    snprintf(path, sizeof path, "%s/text.cpp", folder);
    write_file(path, "wb", text, strlen(text));
    char *plain = compiled_plain(folder, d);
    FILE *out = plain != NULL ? fopen(path, "a") : NULL;
    if (out != NULL) {
        fprintf(out, "\n%s\n", d->shared);
        d->write_callers(out, plain);
        fclose(out);
        snprintf(command, sizeof command,
                 "%s %s -O0 -w -ffp-contract=off -shared -fPIC -o %s/text.so %s/text.cpp 2>> %s/log", compiled_by(),
                 d->options, folder, folder, folder);
        snprintf(path, sizeof path, "%s/text.so", folder);
        if (system(command) == 0) object = file_text(path, bytes);
    }
    free(plain);
    snprintf(path, sizeof path, "%s/log", folder);
    char *said = object == NULL ? file_text(path, NULL) : NULL;
    if (said != NULL) snprintf(log, capacity, "%s", said);
    free(said);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? object : NULL;
}

/* An object as a library of its own; NULL: it is none. */
static inline void *compiled_library(const void *object, size_t bytes) {
    char path[] = "/tmp/hodu-object-XXXXXX";
    const int file = mkstemp(path);
    if (file < 0) return NULL;
    close(file);
    write_file(path, "wb", object, bytes);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unlink(path);
    return library;
}

static inline run_function *compiled_function(void *library, const char *name) {
    char caller[160];
    run_function *function;
    snprintf(caller, sizeof caller, "run_%s", name);
    *(void **)&function = dlsym(library, caller);
    return function;
}

#endif
