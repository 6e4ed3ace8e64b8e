/* The system. Everything in this library that is neither C11 nor a POSIX thread goes through this header, os_file.h and
 * os_process.h: a test reads that no other file includes more. What every system of POSIX has alike is in os.c,
 * os_file.c and os_process.c; where systems differ, os_linux.c and os_darwin.c have a function each. Threads, locks and
 * conditions are those of <pthread.h> itself: both systems have them alike, and a wrapper would only rename them. The
 * layer knows nothing of the rest of the library: no errors, no allocator, no contexts. */
#ifndef HD_CORE_OS_H
#define HD_CORE_OS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- what is known when it is compiled --------------------------------------------------------------------------- */
/* HD_OS_ELF: object files of this system are ELF, which codegen/object.c places in memory. HD_THREAD_LOCAL: a variable
 * of each thread, which a library that is opened late reads without a call where the system has that (ELF's
 * initial-exec model). */
#if defined(__linux__)
#define HD_OS_ELF       1
#define HD_THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))
#elif defined(__APPLE__)
#define HD_OS_ELF       0
#define HD_THREAD_LOCAL __thread
#else
#error "core/os.h knows Linux and macOS; another system needs an os_*.c of its own"
#endif

/* ---- time -------------------------------------------------------------------------------------------------------- */
/* The one clock: nanoseconds that only go forward. Where it begins means nothing. */
int64_t hd_os_nanoseconds(void);

/* ---- waiting and threads ----------------------------------------------------------------------------------------- */
/* Sleeps while the word is `seen`; may return early. Who changes the word wakes all who sleep on it. */
void hd_os_wait(_Atomic uint32_t *word, uint32_t seen);
void hd_os_wake(_Atomic uint32_t *word);
void hd_os_yield(void);
/* Starts a thread that nobody waits for and that gets no signals, which are the program's. */
bool hd_os_thread_start(void *(*body)(void *context), void *context);
/* The same for who waits for its end, with pthread_join. */
bool hd_os_thread_start_to_join(pthread_t *out, void *(*body)(void *context), void *context);
/* True in the thread that began the process. */
bool hd_os_is_first_thread(void);
/* Calls `end(NULL)` when this thread ends, before any function of atexit; false: the C library cannot. */
bool hd_os_at_thread_end(void (*end)(void *));
/* Processors that this process may use. */
int hd_os_processors(void);
/* Around every fork: before it, then here, or in the child. 0, or why not. */
int hd_os_at_fork(void (*before)(void), void (*here)(void), void (*in_child)(void));
int64_t hd_os_process(void); /* the number of this process */

/* ---- memory ------------------------------------------------------------------------------------------------------ */
size_t hd_os_page_bytes(void);
/* Of the machine, and what it can swap out beside that; 0: not known. */
void hd_os_memory(uint64_t *bytes, uint64_t *swap_bytes);
/* Large memory, for `free`: aligned, and in huge pages where the system has them. */
void *hd_os_allocate_large(size_t alignment, size_t bytes);
/* True when so much could be mapped now. */
bool hd_os_could_map(size_t bytes);

/* ---- memory for code: writable first, then executable, never both ------------------------------------------------ */
/* Zeros, writable for this thread until the next call of hd_os_code_seal or hd_os_code_unmap, which it makes itself
 * before it runs any code of this kind; NULL: there is no memory. */
void *hd_os_code_map(size_t bytes);
/* The first `text_bytes`, whole pages, become executable, the rest can be read; no core holds what lay there before. */
bool hd_os_code_seal(void *memory, size_t text_bytes, size_t bytes);
void hd_os_code_unmap(void *memory, size_t bytes);

/* ---- libraries that are opened later ----------------------------------------------------------------------------- */
/* False in a program that is linked statically: dlopen would bring a second C library, and crash in it. */
bool hd_os_has_loader(void);
/* NULL, and `why` says why. Its symbols serve nobody else. */
void *hd_os_library_open(const char *path, char *why, size_t capacity);
void *hd_os_library_symbol(void *library, const char *name);
void hd_os_library_close(void *library);

/* Where an address lies. */
typedef struct hd_os_place {
    const char *file;   /* program or library; NULL: not known */
    const char *symbol; /* NULL: none that the loader knows */
    uintptr_t base;     /* where the file begins in memory */
    uintptr_t in_file;  /* the address as the file's own tables count it */
} hd_os_place;
bool hd_os_place_of(const void *address, hd_os_place *out);
/* The path of the program that runs; false: it is not known. */
bool hd_os_own_path(char *out, size_t capacity);

/* ---- the rest ---------------------------------------------------------------------------------------------------- */
/* False when the process has more rights than who started it (set-uid, set-gid, file capabilities). */
bool hd_os_is_trusted(void);
/* The environment, for programs that are started; and one entry more ("NAME=value", which stays) in a new array of
 * `count` + 2 pointers, so that who reads the old one in another thread is not disturbed. */
char **hd_os_environment(void);
void hd_os_environment_extend(char **array, size_t count, char *entry);
/* What the processor can do, as text, where only the system knows; else empty. */
void hd_os_processor_text(char *out, size_t capacity);
/* Asks the system for the matrix unit of x86 (AMX); false: there is none, or it is refused. */
bool hd_os_use_matrix_unit(void);
/* Between the two, no other thread writes to stderr. */
void hd_os_lock_stderr(void);
void hd_os_unlock_stderr(void);
/* Stops in a debugger, or ends the process. */
void hd_os_trap(void);
/* Compares names that have numbers in them: "python3.9" comes before "python3.11". */
int hd_os_compare_versions(const char *a, const char *b);

#endif
