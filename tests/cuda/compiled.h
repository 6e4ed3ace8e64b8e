/* Text of CUDA's dialect, compiled as C++17 with the shim beside this file. */
#ifndef HD_TESTS_CUDA_COMPILED_H
#define HD_TESTS_CUDA_COMPILED_H

#include "gpu/compiled.h"

/* Of each kernel of preprocessed text, extern "C" void k(char *b0, char *b1, const k_arguments a) {:
 * void run_k(char **b, void *a, uint3 group, uint3 lane), how many buffers it takes, and the bytes of its arguments. */
static inline void write_cuda_callers(FILE *out, const char *text) {
    static const char begin[] = "extern \"C\"";
    for (const char *at = text; (at = strstr(at, begin)) != NULL;) {
        char name[128], arguments[128];
        int buffers = 0;
        at += strlen(begin);
        const char *end = strchr(at, ')'), *body = strchr(at, '{'), *other = strchr(at, ';');
        if (sscanf(at, " void %127[a-zA-Z0-9_](", name) != 1 || end == NULL || body == NULL || body < end) continue;
        if (other != NULL && other < body) continue; /* only declared */
        const char *last = end;
        for (const char *c = at; c < end; ++c)
            if (*c == ',') last = c, buffers++;
        if (last == end || sscanf(last, ", const %127[a-zA-Z0-9_]", arguments) != 1) continue;
        fprintf(out, "extern \"C\" { extern const unsigned buffers_%s = %d, bytes_%s = sizeof(%s);\n", name, buffers,
                name, arguments);
        fprintf(out, "void run_%s(char **b, void *a, uint3 group, uint3 lane) {\n", name);
        fprintf(out, "    cuda_group = group, cuda_thread = lane;\n    %s(", name);
        for (int b = 0; b < buffers; ++b) fprintf(out, "b[%d], ", b);
        fprintf(out, "*(%s *)a);\n} }\n", arguments);
    }
}

/* The object that text became, from malloc; NULL, and the begin of what the compiler said is in `log`. */
static inline char *compiled_cuda(const char *text, const char *shim, size_t *bytes, char *log, size_t capacity) {
    char options[512];
    snprintf(options, sizeof options, "-x c++ -std=gnu++17 -include %s/cuda_words.h", shim);
    const compiled_dialect cuda = {options,
                                   "extern \"C\" { void (*cuda_barrier)(void); }\nuint3 cuda_group, cuda_thread; "
                                   "unsigned long long cuda_exchanged[1024];",
                                   write_cuda_callers};
    return compiled_object(text, &cuda, bytes, log, capacity);
}

/* An object as a library; NULL: it is none. */
static inline void *loaded_cuda(const void *object, size_t bytes) {
    void *library = compiled_library(object, bytes);
    void (**barrier)(void) = library == NULL ? NULL : (void (**)(void))dlsym(library, "cuda_barrier");
    if (barrier != NULL) *barrier = run_barrier;
    return barrier != NULL ? library : NULL;
}

#endif
