/* The table of compiled kernels. Only looking up and entering happen under its lock; kernels are compiled outside of
 * it, and when two threads compile the same one, the later keeps what the earlier entered. A key is the renderer's
 * target and the kernel's bytes; keys are compared whole. */
#include "codegen/code.h"
#include "codegen/dump.h"
#include "core/hash.h"
#include "core/error.h"
#include "core/environment.h"
#include "core/memory.h"
#include "core/pool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef HD_HAS_LLVM
#define HD_HAS_LLVM 0
#endif

static const char symbol[] = HD_CODE_SYMBOL;

enum { BUCKETS = 4096 };
static struct {
    pthread_mutex_t lock;
    pthread_once_t once;
    hd_code *buckets[BUCKETS];
    int64_t kernels, bytes;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void lock_table(void) { pthread_mutex_lock(&table.lock); }
static void unlock_table(void) { pthread_mutex_unlock(&table.lock); }
static void handle_forks(void) { hd_os_at_fork(lock_table, unlock_table, unlock_table); }

/* ---- the processor and its renderers ----------------------------------------------------------------------------- */
int hd_code_vector_bytes(void) {
#ifdef __x86_64__
    const hd_isa most = hd_environment_isa();
    const bool has_avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    if (most < HD_ISA_AVX2 || !has_avx2) return 16;
    return most >= HD_ISA_AVX512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
               ? 64
               : 32;
#else
    return 16;
#endif
}

#if HD_HAS_LLVM
static const hd_coder llvm_coder = {hd_llvm_target, hd_llvm_object, hd_object_load, hd_object_unload};
#endif
static const hd_coder cc_coder = {hd_cc_target, hd_cc_object, hd_object_load, hd_object_unload};

const hd_coder *hd_processor_coder(void) {
    const char *wish = hd_environment("HODU_RENDERER");
    if (wish != NULL && strcmp(wish, "c") == 0) return &cc_coder;
    if (wish != NULL && strcmp(wish, "llvm") != 0) {
        hd_fail(HD_ERROR_VALUE, "HODU_RENDERER is \"%s\" in the environment; it can be llvm or c", wish);
        return NULL;
    }
#if HD_HAS_LLVM
    return &llvm_coder;
#else
    if (wish == NULL) return &cc_coder;
    hd_fail(HD_ERROR_VALUE, "HODU_RENDERER is \"llvm\" in the environment, but the library was built without");
    return NULL;
#endif
}

/* ---- the table --------------------------------------------------------------------------------------------------- */
static char *key_of(hd_code *code) { return (char *)(code + 1); }

/* An entry without code yet: only its key. */
static hd_code *new_code(const hd_kernel *k, const hd_coder *coder, const char *target) {
    const size_t front = strlen(target) + 1, kernel = hd_kernel_bytes(k, NULL, 0);
    hd_code *code = hd_array_resize(NULL, sizeof *code + front + kernel);
    if (code == NULL) return NULL;
    memset(code, 0, sizeof *code);
    code->coder = coder;
    code->key_bytes = front + kernel;
    memcpy(key_of(code), target, front);
    hd_kernel_bytes(k, key_of(code) + front, kernel);
    code->hash = hd_hash(key_of(code), code->key_bytes, 0);
    return code;
}

static bool same_key(hd_code *a, hd_code *b) {
    return a->hash == b->hash && a->key_bytes == b->key_bytes && memcmp(key_of(a), key_of(b), a->key_bytes) == 0;
}

static hd_code *find(hd_code *like) { /* under the lock */
    hd_code *at = table.buckets[like->hash % BUCKETS];
    while (at != NULL && !same_key(at, like)) at = at->next;
    return at;
}

static void drop(hd_code *code) {
    if (code == NULL) return;
    if (code->memory != NULL) code->coder->unload(code);
    hd_array_release(code);
}

/* Enters finished code, or finds that of a quicker thread and drops ours; gives one more reference to what is there. */
static hd_code *enter_code(hd_code *code) {
    pthread_mutex_lock(&table.lock);
    hd_code *there = find(code);
    if (there == NULL) {
        hd_code **bucket = &table.buckets[code->hash % BUCKETS];
        code->next = *bucket;
        *bucket = there = code;
        table.kernels++;
        table.bytes += (int64_t)code->memory_bytes;
    }
    atomic_fetch_add_explicit(&there->references, 1, memory_order_relaxed);
    pthread_mutex_unlock(&table.lock);
    if (there != code) drop(code);
    return there;
}

void hd_code_release(hd_code *code) {
    if (code != NULL) atomic_fetch_sub_explicit(&code->references, 1, memory_order_release);
}

void hd_code_count(int64_t *kernels, int64_t *bytes) {
    pthread_mutex_lock(&table.lock);
    *kernels = table.kernels;
    *bytes = table.bytes;
    pthread_mutex_unlock(&table.lock);
}

void hd_code_drop_unused(void) {
    hd_code *unused = NULL;
    pthread_mutex_lock(&table.lock);
    for (int b = 0; b < BUCKETS; ++b)
        for (hd_code **at = &table.buckets[b]; *at != NULL;) {
            hd_code *code = *at;
            if (atomic_load_explicit(&code->references, memory_order_acquire) > 0) {
                at = &code->next;
                continue;
            }
            *at = code->next;
            code->next = unused;
            unused = code;
            table.kernels--;
            table.bytes -= (int64_t)code->memory_bytes;
        }
    pthread_mutex_unlock(&table.lock);
    while (unused != NULL) {
        hd_code *next = unused->next;
        drop(unused);
        unused = next;
    }
}

/* ---- one kernel that is not in memory ---------------------------------------------------------------------------- */
typedef struct job {
    const hd_kernel *kernel;
    hd_code *code; /* its key; then its code */
    int same_as;   /* an earlier job with the same key, whose code serves both; -1: none */
    int index;     /* among the kernels asked for */
    hd_error status;
    bool from_disk;
    int64_t compile_nanoseconds, link_nanoseconds;
} job;

typedef struct batch {
    const hd_coder *coder;
    job *jobs;
    int count;
    pthread_mutex_t lock;
    int failed;          /* the first of the jobs that failed; `count`: none */
    hd_error_copy error; /* of it */
} batch;

static bool load_from_disk(job *j) {
    const int64_t begin = hd_os_nanoseconds();
    size_t bytes;
    void *object = hd_cache_read(key_of(j->code), j->code->key_bytes, &bytes);
    if (object != NULL) {
        j->from_disk = j->code->coder->load(object, bytes, symbol, j->code) == HD_OK;
        hd_array_release(object);
        hd_error_copy forgotten;
        if (!j->from_disk) hd_error_take(&forgotten); /* it is compiled anew */
    }
    j->link_nanoseconds += hd_os_nanoseconds() - begin;
    return j->from_disk;
}

static hd_error compile_kernel(job *j) {
    void *object = NULL;
    size_t bytes = 0;
    const int64_t begin = hd_os_nanoseconds();
    hd_error status = j->code->coder->render(j->kernel, symbol, &object, &bytes);
    const int64_t rendered = hd_os_nanoseconds();
    if (status == HD_OK) status = j->code->coder->load(object, bytes, symbol, j->code);
    if (status == HD_OK) hd_cache_write(key_of(j->code), j->code->key_bytes, object, bytes);
    hd_array_release(object);
    j->compile_nanoseconds = rendered - begin;
    j->link_nanoseconds += hd_os_nanoseconds() - rendered;
    return status;
}

hd_error hd_code_object(const hd_coder *coder, const hd_kernel *k, void **object, size_t *bytes) {
    *object = NULL;
    const char *target = coder->target();
    if (target == NULL) return hd_fail(HD_ERROR_STATE, "there is nothing to compile kernels with");
    hd_code *key = new_code(k, coder, target);
    if (key == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to look up a kernel");
    *object = hd_cache_read(key_of(key), key->key_bytes, bytes);
    drop(key);
    return *object != NULL ? HD_OK : coder->render(k, symbol, object, bytes);
}

static void run_job(void *context, int64_t index) {
    batch *b = context;
    job *j = &b->jobs[index];
    hd_thread *thread = hd_thread_self();
    if (j->same_as >= 0) return;
    HD_HOLD_ERRORS(thread);
    if (thread == NULL) {
        j->status = HD_ERROR_MEMORY;
    } else {
        const char *call = thread->call;
        thread->call = NULL; /* the caller's thread raises the error anew, with its own name */
        hd_dump_kernel(j->kernel);
        j->status = load_from_disk(j) ? HD_OK : compile_kernel(j);
        thread->call = call;
    }
    if (j->status == HD_OK) return;
    hd_error_copy error;
    hd_error_take(&error);
    pthread_mutex_lock(&b->lock);
    if (index < b->failed) {
        b->failed = (int)index;
        b->error = error;
    }
    pthread_mutex_unlock(&b->lock);
}

static hd_error report(const batch *b) {
    const job *j = &b->jobs[b->failed];
    char line[256];
    hd_kernel_print(j->kernel, line, sizeof line);
    line[strcspn(line, "\n")] = '\0';
    if (b->error.code == HD_OK) return hd_fail(HD_ERROR_MEMORY, "%s: no memory to compile it", line);
    return hd_fail(b->error.code, "%s (for %s)", b->error.message, line);
}

/* ---- many -------------------------------------------------------------------------------------------------------- */
/* What is in memory goes to `out`; what is not becomes a job. */
static hd_error look_up_code(batch *b, const char *target, const hd_kernel *const *kernels, int count, hd_code **out) {
    for (int i = 0; i < count; ++i) {
        hd_code *key = new_code(kernels[i], b->coder, target);
        if (key == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to look up a kernel");
        pthread_mutex_lock(&table.lock);
        out[i] = find(key);
        if (out[i] != NULL) atomic_fetch_add_explicit(&out[i]->references, 1, memory_order_relaxed);
        pthread_mutex_unlock(&table.lock);
        if (out[i] != NULL) {
            drop(key);
            continue;
        }
        int same = b->count - 1;
        while (same >= 0 && !same_key(b->jobs[same].code, key)) same--;
        if (same >= 0 && b->jobs[same].same_as >= 0) same = b->jobs[same].same_as;
        b->jobs[b->count++] = (job){.kernel = kernels[i], .code = key, .same_as = same, .index = i};
    }
    return HD_OK;
}

static int64_t load_nanoseconds(void) {
#if HD_HAS_LLVM
    return hd_llvm_load_nanoseconds();
#else
    return 0;
#endif
}

static void add_stats(const batch *b, int count, hd_code_stats *f) {
    if (f == NULL) return;
    f->kernels += count;
    f->from_memory += count - b->count;
    for (int i = 0; i < b->count; ++i) {
        const job *j = &b->jobs[i];
        f->from_memory += j->same_as >= 0;
        f->from_disk += j->from_disk;
        f->compiled += j->same_as < 0 && !j->from_disk;
        f->compile_nanoseconds += j->compile_nanoseconds;
        f->link_nanoseconds += j->link_nanoseconds;
    }
}

/* What was compiled is kept, even when something else failed. */
static void enter_all(batch *b, hd_code **out) {
    for (int i = 0; i < b->count; ++i) {
        job *j = &b->jobs[i];
        if (j->same_as < 0 && j->code->run != NULL) {
            out[j->index] = enter_code(j->code);
        } else {
            drop(j->code);
            hd_code *same = j->same_as < 0 ? NULL : out[b->jobs[j->same_as].index];
            if (same != NULL) atomic_fetch_add_explicit(&same->references, 1, memory_order_relaxed);
            out[j->index] = same;
        }
    }
}

static hd_error get_all(batch *b, const hd_kernel *const *kernels, int count, hd_code **out) {
    if (!HD_OS_ELF)
        return hd_fail(HD_ERROR_DEVICE, "kernels are not compiled on this system: object.c places ELF objects, and "
                                        "compilers write Mach-O here; level O0 compiles nothing");
    const char *target = b->coder->target();
    if (target == NULL) return hd_fail(HD_ERROR_STATE, "there is nothing to compile kernels with");
    HD_TRY(look_up_code(b, target, kernels, count, out));
    b->failed = b->count;
    hd_parallel(b->count, run_job, b);
    return b->failed < b->count ? report(b) : HD_OK;
}

hd_error hd_code_get(hd_thread *thread, const hd_coder *coder, const hd_kernel *const *kernels, int count,
                     hd_code **out, hd_code_stats *code_stats) {
    if (count <= 0) return thread->error_code;
    memset(out, 0, (size_t)count * sizeof *out);
    if (thread->error_code != HD_OK) return thread->error_code;
    pthread_once(&table.once, handle_forks);
    batch *b = hd_array_resize(NULL, sizeof *b + (size_t)count * sizeof(job));
    if (b == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to compile %d kernels", count);
    memset(b, 0, sizeof *b);
    b->coder = coder;
    b->jobs = (job *)(b + 1);
    pthread_mutex_init(&b->lock, NULL);
    const int64_t loaded = load_nanoseconds();
    const hd_error status = get_all(b, kernels, count, out);
    enter_all(b, out);
    if (status == HD_OK) {
        add_stats(b, count, code_stats);
        if (code_stats != NULL) code_stats->load_nanoseconds += load_nanoseconds() - loaded;
    } else {
        for (int i = 0; i < count; ++i) {
            hd_code_release(out[i]);
            out[i] = NULL;
        }
    }
    pthread_mutex_destroy(&b->lock);
    hd_array_release(b);
    return status;
}
