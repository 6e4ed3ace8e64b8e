/* Native code: kernels become machine code here. Code is looked up by the kernel's bytes in memory, then in the disk
 * cache, and compiled when neither has it. */
#ifndef HD_COMPILER_CODE_H
#define HD_COMPILER_CODE_H

#include "core/thread.h"
#include "kernel/kernel.h"
#include "script/executable.h"

/* Machine code of one kernel; shared by all who ask for an equal one, and kept until hd_cache_clear drops what nobody
 * uses. */
typedef struct hd_code hd_code;
struct hd_code {
    hd_kernel_function run;
    _Atomic int references;
    hd_code *next;    /* in the table */
    uint64_t hash;    /* of the key */
    size_t key_bytes; /* the key lies behind this struct */
    void *memory;     /* where the code is mapped */
    size_t memory_bytes;
};

/* How kernels become machine code. */
typedef enum hd_renderer { HD_RENDERER_LLVM, HD_RENDERER_C } hd_renderer;

/* Code for every kernel, compiled side by side where it is new; on failure none, and an error that says which kernel.
 * `figures` is added to; it may be NULL. */
hd_error hd_code_get(hd_thread *thread, const hd_kernel *const *kernels, int count, hd_code **out,
                     hd_code_figures *figures);
void hd_code_release(hd_code *code);
/* What is kept in memory, used or not; and dropping what is not used. */
void hd_code_count(int64_t *kernels, int64_t *bytes);
void hd_code_drop_unused(void);
/* The renderer in use: LLVM, or C when HODU_RENDERER=c says so, or when the library was built without LLVM. */
hd_renderer hd_code_renderer(void);
/* The bytes of this machine's vector registers, for hd_kernel_finish: 64 with AVX-512, 32 with AVX2, else 16. */
int hd_code_vector_bytes(void);
/* That it reads some elements of a vector and leaves the others alone. */
bool hd_code_reads_some(size_t element_bytes);
/* That it reads a vector of elements from as many places. */
bool hd_code_gathers(size_t element_bytes);

/* ---- renderers: an ELF object file in memory, from hd_array_resize; a function `name` in it is the kernel. LLVM runs
 * in another process (server.c), and so does the C compiler ---- */
hd_error hd_llvm_object(const hd_kernel *k, const char *name, void **object, size_t *bytes);
hd_error hd_cc_object(const hd_kernel *k, const char *name, void **object, size_t *bytes);
/* A text that names renderer, version, CPU and features: part of every key of the disk cache. */
const char *hd_llvm_target(void);
const char *hd_cc_target(void);
/* That of the renderer in use; NULL: there is none. */
const char *hd_code_target(void);
/* What opening libLLVM took, in all the processes in which it was opened for this one. */
int64_t hd_llvm_load_nanoseconds(void);

/* ---- placing an object: maps its sections, applies its relocations, resolves what it calls of libm and libc ---- */
hd_error hd_object_load(const void *object, size_t bytes, const char *name, hd_code *code);
void hd_object_unload(hd_code *code);

/* ---- the disk cache: entries are read whole; a wrong or damaged one is as good as none ---- */
/* The object for a key, from hd_array_resize; NULL without an error when there is none. */
void *hd_cache_read(const void *key, size_t key_bytes, size_t *bytes);
void hd_cache_write(const void *key, size_t key_bytes, const void *object, size_t bytes);

#endif
