/* Native code: kernels become machine code here. Code is looked up by the kernel's bytes in memory, then in the disk
 * cache, and compiled when neither has it. */
#ifndef HD_CODEGEN_CODE_H
#define HD_CODEGEN_CODE_H

#include "core/thread.h"
#include "kernel/kernel.h"
#include "script/executable.h"

/* Machine code of one kernel; shared by all who ask for an equal one, and kept until hd_cache_clear drops what nobody
 * uses. */
typedef struct hd_code hd_code;
struct hd_code {
    hd_kernel_function run;
    const struct hd_coder *coder;
    _Atomic int references;
    hd_code *next;    /* in the table */
    uint64_t hash;    /* of the key */
    size_t key_bytes; /* the key lies behind this struct */
    void *memory;     /* where the code is mapped */
    size_t memory_bytes;
};

#define HD_CODE_SYMBOL "hd_kernel" /* the function of every object */

/* How kernels become code. */
typedef struct hd_coder {
    /* A text that names renderer, version, processor and features: part of every key. NULL: there is none. */
    const char *(*target)(void);
    /* An object from hd_array_resize; a function `name` in it is the kernel. */
    hd_error (*render)(const hd_kernel *k, const char *name, void **object, size_t *bytes);
    hd_error (*load)(const void *object, size_t bytes, const char *name, hd_code *code);
    void (*unload)(hd_code *code);
} hd_coder;
/* That of the processor: through LLVM, or through a C compiler when HODU_RENDERER=c says so or the library was built
 * without LLVM. NULL with an error when HODU_RENDERER cannot be had. */
const hd_coder *hd_processor_coder(void);

/* Code for every kernel, compiled side by side where it is new; on failure none, and an error that says which kernel.
 * `stats` is added to; it may be NULL. `coder` NULL: the error that says why is pending. */
hd_error hd_code_get(hd_thread *thread, const hd_coder *coder, const hd_kernel *const *kernels, int count,
                     hd_code **out, hd_code_stats *stats);
void hd_code_release(hd_code *code);
/* The object of one kernel, from the disk cache or compiled; from hd_array_resize. */
hd_error hd_code_object(const hd_coder *coder, const hd_kernel *k, void **object, size_t *bytes);
/* What is kept in memory, used or not; and dropping what is not used. */
void hd_code_count(int64_t *kernels, int64_t *bytes);
void hd_code_drop_unused(void);
/* The bytes of the processor's vector registers: 64 with AVX-512, 32 with AVX2, else 16. */
int hd_code_vector_bytes(void);

/* ---- renderers for the processor: ELF object files. LLVM runs in another process (server.c), and so does the C
 * compiler ---- */
hd_error hd_llvm_object(const hd_kernel *k, const char *name, void **object, size_t *bytes);
hd_error hd_cc_object(const hd_kernel *k, const char *name, void **object, size_t *bytes);
const char *hd_llvm_target(void);
const char *hd_cc_target(void);
/* What opening libLLVM took, in all the processes in which it was opened for this one. */
int64_t hd_llvm_load_nanoseconds(void);

/* ---- placing an object: maps its sections, applies its relocations, resolves what it calls of libm and libc ---- */
hd_error hd_object_load(const void *object, size_t bytes, const char *name, hd_code *code);
void hd_object_unload(hd_code *code);

/* ---- carried.c: code that a file carries, which needs no renderer ---- */
/* What is kept beside kernels: what tuning chose for a graph. `bytes` NULL: nothing. */
typedef struct hd_carried_note {
    const void *key, *bytes;
    size_t key_bytes, count;
} hd_carried_note;
/* Code for those of the kernels that it has, which goes with it; the others are NULL. `stats` is added to. */
hd_error hd_carried_get(hd_carried *c, const hd_kernel *const *kernels, int count, hd_code **out, hd_code_stats *stats);
/* The bytes of the note with this key; NULL with an error, or without one when there is none. */
const void *hd_carried_note_of(hd_carried *c, const void *key, size_t key_bytes, size_t *count);
/* Bytes from hd_array_resize for a file to carry: objects of kernels and a note, for this processor, and what `from`
 * (or NULL) has for others. Objects that `from` has need no renderer. */
hd_error hd_carried_make(hd_carried *from, const hd_coder *(*coder)(void), const hd_kernel *const *kernels, int count,
                         const hd_carried_note *note, unsigned char **bytes, size_t *size);

/* ---- the disk cache: entries are read whole; a wrong or damaged one is as good as none ---- */
/* The object for a key, from hd_array_resize; NULL without an error when there is none. */
void *hd_cache_read(const void *key, size_t key_bytes, size_t *bytes);
void hd_cache_write(const void *key, size_t key_bytes, const void *object, size_t bytes);

#endif
