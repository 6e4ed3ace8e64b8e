/* Text of Metal's dialect, compiled as C++14 with the shim beside this file; what is loaded stays. */
#ifndef HD_TESTS_METAL_COMPILED_H
#define HD_TESTS_METAL_COMPILED_H

#include "gpu/compiled.h"

/* Of each kernel of preprocessed text, extern "C" void k(..., const k_arguments &a [[buffer(2)]], ...):
 * void run_k(char **b, void *a, uint3 group, uint3 lane) { k(b[0], b[1], *(k_arguments *)a, group, lane); } */
static inline void write_metal_callers(FILE *out, const char *text) {
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

/* The library that text became; NULL, and the begin of what the compiler said is in `log`. */
static inline void *compiled_text(const char *text, const char *shim, char *log, size_t capacity) {
    char options[512];
    size_t bytes = 0;
    snprintf(options, sizeof options, "-x c++ -std=gnu++14 -I%s", shim);
    const compiled_dialect metal = {options, "extern \"C\" { void (*metal_barrier)(void); }", write_metal_callers};
    char *object = compiled_object(text, &metal, &bytes, log, capacity);
    void *library = object == NULL ? NULL : compiled_library(object, bytes);
    free(object);
    if (library != NULL) *(void (**)(void))dlsym(library, "metal_barrier") = run_barrier;
    return library;
}

#endif
