/* Machine code that a file carries: docs/hoduscript.md has the bytes of it. They are made of parts, one for each
 * processor that somebody compiled for; here the part of this processor is read, and its objects are placed when a plan
 * asks for them. They need no renderer and are not entered into the table: they serve the scripts that carry them.
 *
 * A file may come from anywhere, and its checksum says nothing of who wrote it. Counts and sizes are checked before
 * they are used, as in what is read from the disk cache; what the code does cannot be checked, and so it is loaded only
 * when the program asked for it. */
#include "codegen/code.h"
#include "codegen/processor.h"
#include "core/memory.h"
#include "core/pool.h"

#include <stdio.h>
#include <string.h>

extern const char hd_compiler_fingerprint[];

enum { KERNEL = 1, NOTE = 2 };
enum { ENTRY_HEAD = 12, MAKER_MOST = 64 };

typedef struct entry {
    uint32_t kind, key_bytes, bytes;
    const unsigned char *key, *at;
    hd_code code; /* run NULL: not placed yet */
} entry;

typedef struct contents {
    const char *unused;   /* why there are no entries, or not all: NULL: they can be used */
    uint32_t count, next; /* where the search for the next kernel begins: they are asked for in the order of the file */
    entry entries[];
} contents;

static const char *const damaged = "the machine code in the file is damaged";

/* ---- reading ----------------------------------------------------------------------------------------------------- */
typedef struct cursor {
    const unsigned char *at;
    size_t left;
} cursor;

static const unsigned char *take(cursor *c, uint64_t bytes) {
    if (bytes > c->left) return NULL;
    c->at += bytes;
    c->left -= (size_t)bytes;
    return c->at - bytes;
}
static bool take_number(cursor *c, size_t bytes, uint64_t *out) {
    const unsigned char *at = take(c, bytes);
    *out = 0;
    for (size_t i = bytes; at != NULL && i-- > 0;) *out = *out << 8 | at[i];
    return at != NULL;
}
/* A text with its end, and no other in it. */
static const char *take_text(cursor *c) {
    uint64_t length;
    if (!take_number(c, 4, &length)) return NULL;
    const unsigned char *at = take(c, length);
    return at != NULL && length > 0 && memchr(at, '\0', (size_t)length) == at + length - 1 ? (const char *)at : NULL;
}

/* One part: where it is, who made it and for what; behind these its entries. */
typedef struct part {
    cursor all, rest;
    const char *maker, *processor;
} part;

static bool take_part(cursor *c, part *out) {
    uint64_t bytes;
    cursor ahead = *c;
    if (!take_number(&ahead, 8, &bytes)) return false;
    const unsigned char *at = take(c, bytes);
    if (at == NULL || bytes < 8) return false;
    out->all = (cursor){at, (size_t)bytes};
    out->rest = (cursor){at + 8, (size_t)bytes - 8};
    out->maker = take_text(&out->rest);
    out->processor = out->maker == NULL ? NULL : take_text(&out->rest);
    return out->processor != NULL;
}

static void name_maker(char out[MAKER_MOST]) {
    snprintf(out, MAKER_MOST, "%s %s", hd_version(), hd_compiler_fingerprint);
}

typedef enum fit { FITS, OTHER_MAKER, OTHER_PROCESSOR } fit;
static fit fit_of(const part *p) {
    char maker[MAKER_MOST], processor[HD_PROCESSOR_TEXT];
    name_maker(maker);
    if (strcmp(p->maker, maker) != 0) return OTHER_MAKER;
    hd_processor_code_text(processor);
    return strcmp(p->processor, processor) == 0 ? FITS : OTHER_PROCESSOR;
}

/* The part for this processor, and of this version; else why there is none. */
static const char *find_part(const hd_carried *c, part *out) {
    cursor all = {c->bytes, c->count};
    bool found = false, of_this_version = false;
    if (c->count == 0) return "the file carries no machine code";
    for (part p; all.left > 0;) {
        if (!take_part(&all, &p)) return damaged;
        const fit f = fit_of(&p);
        if (f == FITS && !found) *out = p;
        found = found || f == FITS;
        of_this_version = of_this_version || f == OTHER_PROCESSOR;
    }
    if (found) return NULL;
    return of_this_version ? "the machine code in the file is for another processor, or another HODU_ISA"
                           : "the machine code in the file was made by another version of hodu";
}

static bool take_entry(cursor *c, entry *out) {
    uint64_t kind, key_bytes, bytes;
    if (!take_number(c, 4, &kind) || !take_number(c, 4, &key_bytes) || !take_number(c, 4, &bytes)) return false;
    *out = (entry){.kind = (uint32_t)kind, .key_bytes = (uint32_t)key_bytes, .bytes = (uint32_t)bytes};
    out->key = take(c, key_bytes);
    out->at = out->key == NULL ? NULL : take(c, bytes);
    return out->at != NULL;
}

static void forget(void *read) {
    contents *all = read;
    for (uint32_t i = 0; i < all->count; ++i)
        if (all->entries[i].code.memory != NULL) hd_object_unload(&all->entries[i].code);
    hd_array_release(all);
}

/* Under the lock. NULL with an error. */
static contents *read_contents(hd_carried *c) {
    if (c->read != NULL) return c->read;
    part p = {.maker = NULL};
    const char *unused = find_part(c, &p);
    uint64_t count = 0;
    if (unused == NULL && (!take_number(&p.rest, 4, &count) || count > p.rest.left / ENTRY_HEAD)) {
        unused = damaged;
        count = 0;
    }
    contents *all = hd_array_resize(NULL, sizeof *all + (size_t)count * sizeof *all->entries);
    if (all == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for the %d kernels that a file carries", (int)count);
        return NULL;
    }
    *all = (contents){.unused = unused};
    for (; all->count < count && take_entry(&p.rest, &all->entries[all->count]); ++all->count) {}
    if (unused == NULL && (all->count < count || p.rest.left > 0)) {
        all->unused = damaged;
        all->count = 0;
    }
    c->forget = forget;
    return c->read = all;
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */
static entry *find_entry(contents *all, uint32_t kind, const void *key, size_t key_bytes) {
    for (uint32_t i = 0; i < all->count; ++i) {
        const uint32_t at = (all->next + i) % all->count;
        entry *e = &all->entries[at];
        if (e->kind != kind || e->key_bytes != key_bytes || memcmp(e->key, key, key_bytes) != 0) continue;
        all->next = at + 1;
        return e;
    }
    return NULL;
}

/* The bytes of a kernel; NULL with an error. */
static unsigned char *key_of(const hd_kernel *k, size_t *bytes) {
    *bytes = hd_kernel_bytes(k, NULL, 0);
    unsigned char *key = hd_array_resize(NULL, *bytes);
    if (key != NULL)
        hd_kernel_bytes(k, key, *bytes);
    else
        hd_fail(HD_ERROR_MEMORY, "no memory to look up a kernel");
    return key;
}

/* Under the lock: a kernel's code, placed now if it was not; NULL in *out where there is none. */
static hd_error get_one(contents *all, const hd_kernel *k, hd_code **out) {
    size_t bytes;
    unsigned char *key = key_of(k, &bytes);
    if (key == NULL) return HD_ERROR_MEMORY;
    entry *e = find_entry(all, KERNEL, key, bytes);
    hd_array_release(key);
    if (e == NULL) {
        if (all->unused == NULL)
            all->unused = "the machine code in the file is of other kernels: the script was saved at another level, or "
                          "compiled with other choices";
        return HD_OK;
    }
    const hd_error status = e->code.run != NULL ? HD_OK : hd_object_load(e->at, e->bytes, HD_CODE_SYMBOL, &e->code);
    if (status == HD_ERROR_INTERNAL) { /* no object: it is compiled as if there were none */
        hd_error_copy forgotten;
        hd_error_take(&forgotten);
        all->unused = damaged;
        return HD_OK;
    }
    if (status != HD_OK) return status;
    atomic_fetch_add_explicit(&e->code.references, 1, memory_order_relaxed);
    *out = &e->code;
    return HD_OK;
}

hd_error hd_carried_get(hd_carried *c, const hd_kernel *const *kernels, int count, hd_code **out,
                        hd_code_stats *stats) {
    memset(out, 0, (size_t)count * sizeof *out);
    if (c->missing != NULL || !HD_OS_ELF) return HD_OK;
    HD_HOLD_ERRORS(hd_thread_self()); /* of an object that is none nobody hears but the figures */
    const int64_t begin = hd_os_nanoseconds();
    int found = 0;
    pthread_mutex_lock(&c->lock);
    contents *all = read_contents(c);
    hd_error status = all == NULL ? HD_ERROR_MEMORY : HD_OK;
    for (int i = 0; i < count && status == HD_OK; ++i) {
        status = get_one(all, kernels[i], &out[i]);
        found += out[i] != NULL;
    }
    if (status == HD_OK && found < count) stats->unused = all->unused;
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < count && status != HD_OK; ++i) {
        hd_code_release(out[i]);
        out[i] = NULL;
    }
    if (status != HD_OK) return status;
    stats->kernels += found;
    stats->from_file += found;
    stats->link_nanoseconds += hd_os_nanoseconds() - begin;
    return HD_OK;
}

const void *hd_carried_note_of(hd_carried *c, const void *key, size_t key_bytes, size_t *count) {
    if (c->missing != NULL) return NULL;
    pthread_mutex_lock(&c->lock);
    contents *all = read_contents(c);
    const entry *e = all == NULL ? NULL : find_entry(all, NOTE, key, key_bytes);
    pthread_mutex_unlock(&c->lock);
    if (e == NULL) return NULL;
    *count = e->bytes;
    return e->at;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */
typedef struct job {
    const hd_kernel *kernel;
    unsigned char *key;
    void *object;
    size_t key_bytes, bytes;
    hd_error status;
} job;

typedef struct batch {
    const hd_coder *coder;
    job *jobs;
    int count;
    pthread_mutex_t lock;
    hd_error_copy error; /* of one that failed */
} batch;

static void make_object(void *context, int64_t index) {
    batch *b = context;
    job *j = &b->jobs[index];
    if (j->object != NULL) return;
    hd_thread *thread = hd_thread_self();
    HD_HOLD_ERRORS(thread);
    j->status = HD_ERROR_MEMORY;
    if (thread == NULL) return;
    const char *call = thread->call;
    thread->call = NULL; /* the caller's thread raises the error anew, with its own name */
    j->status = hd_code_object(b->coder, j->kernel, &j->object, &j->bytes);
    thread->call = call;
    if (j->status == HD_OK) return;
    hd_error_copy error;
    hd_error_take(&error);
    pthread_mutex_lock(&b->lock);
    b->error = error;
    pthread_mutex_unlock(&b->lock);
}

/* A job for each kernel that differs from those before it. */
static hd_error add_jobs(batch *b, const hd_kernel *const *kernels, int count) {
    for (int i = 0; i < count; ++i) {
        size_t bytes;
        unsigned char *key = key_of(kernels[i], &bytes);
        if (key == NULL) return HD_ERROR_MEMORY;
        int same = 0;
        while (same < b->count && (b->jobs[same].key_bytes != bytes || memcmp(b->jobs[same].key, key, bytes) != 0))
            ++same;
        if (same < b->count)
            hd_array_release(key);
        else
            b->jobs[b->count++] = (job){.kernel = kernels[i], .key = key, .key_bytes = bytes};
    }
    return HD_OK;
}

/* What is carried already is carried on. */
static hd_error take_over(batch *b, hd_carried *from) {
    if (from == NULL || from->missing != NULL) return HD_OK;
    hd_error status = HD_OK;
    pthread_mutex_lock(&from->lock);
    contents *all = read_contents(from);
    if (all == NULL) status = HD_ERROR_MEMORY;
    for (int i = 0; i < b->count && status == HD_OK; ++i) {
        job *j = &b->jobs[i];
        const entry *e = find_entry(all, KERNEL, j->key, j->key_bytes);
        if (e == NULL || all->unused == damaged) continue;
        j->object = hd_array_resize(NULL, e->bytes + 1);
        if (j->object == NULL) status = hd_fail(HD_ERROR_MEMORY, "no memory for an object of %u bytes", e->bytes);
        if (j->object != NULL) memcpy(j->object, e->at, j->bytes = e->bytes);
    }
    pthread_mutex_unlock(&from->lock);
    return status;
}

static hd_error make_objects(batch *b, const hd_coder *(*coder)(void)) {
    int missing = 0;
    for (int i = 0; i < b->count; ++i) missing += b->jobs[i].object == NULL;
    if (missing == 0) return HD_OK;
    b->coder = coder();
    if (b->coder == NULL) return hd_thread_self()->error_code;
    hd_parallel(b->count, make_object, b);
    for (int i = 0; i < b->count; ++i)
        if (b->jobs[i].status != HD_OK)
            return b->error.code != HD_OK ? hd_fail(b->error.code, "%s", b->error.message)
                                          : hd_fail(HD_ERROR_MEMORY, "no memory to compile a kernel");
    return HD_OK;
}

/* Where bytes go; with `at` NULL they are only counted. */
typedef struct writer {
    unsigned char *at;
    size_t count;
} writer;
static void put(writer *w, const void *from, size_t bytes) {
    if (w->at != NULL && bytes > 0) memcpy(w->at + w->count, from, bytes);
    w->count += bytes;
}
static void put_number(writer *w, uint64_t n, size_t bytes) {
    unsigned char little[8];
    for (size_t i = 0; i < bytes; ++i) little[i] = (unsigned char)(n >> 8 * i);
    put(w, little, bytes);
}
static void put_text(writer *w, const char *text) {
    put_number(w, strlen(text) + 1, 4);
    put(w, text, strlen(text) + 1);
}
static void put_entry(writer *w, uint32_t kind, const void *key, size_t key_bytes, const void *at, size_t bytes) {
    put_number(w, kind, 4);
    put_number(w, key_bytes, 4);
    put_number(w, bytes, 4);
    put(w, key, key_bytes);
    put(w, at, bytes);
}

static void put_part(writer *w, const batch *b, const hd_carried_note *note, size_t bytes) {
    char maker[MAKER_MOST], processor[HD_PROCESSOR_TEXT];
    name_maker(maker);
    hd_processor_code_text(processor);
    put_number(w, bytes, 8);
    put_text(w, maker);
    put_text(w, processor);
    put_number(w, (uint64_t)b->count + (note->bytes != NULL), 4);
    for (int i = 0; i < b->count; ++i) {
        const job *j = &b->jobs[i];
        put_entry(w, KERNEL, j->key, j->key_bytes, j->object, j->bytes);
    }
    if (note->bytes != NULL) put_entry(w, NOTE, note->key, note->key_bytes, note->bytes, note->count);
}

/* Parts for other processors; those of other versions are left behind. */
static void put_others(writer *w, const hd_carried *from) {
    cursor all = {NULL, 0};
    if (from != NULL && from->missing == NULL) all = (cursor){from->bytes, from->count};
    for (part p; all.left > 0 && take_part(&all, &p);)
        if (fit_of(&p) == OTHER_PROCESSOR) put(w, p.all.at, p.all.left);
}

static hd_error write_all(const batch *b, const hd_carried_note *note, const hd_carried *from, unsigned char **bytes,
                          size_t *size) {
    writer counted = {.at = NULL};
    put_part(&counted, b, note, 0);
    const size_t own = counted.count;
    put_others(&counted, from);
    writer w = {.at = hd_array_resize(NULL, counted.count)};
    if (w.at == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for %zu bytes of machine code", counted.count);
    put_part(&w, b, note, own);
    put_others(&w, from);
    *bytes = w.at;
    *size = w.count;
    return HD_OK;
}

hd_error hd_carried_make(hd_carried *from, const hd_coder *(*coder)(void), const hd_kernel *const *kernels, int count,
                         const hd_carried_note *note, unsigned char **bytes, size_t *size) {
    batch b = {.jobs = hd_array_resize(NULL, ((size_t)count + 1) * sizeof *b.jobs)};
    if (b.jobs == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for the machine code of %d kernels", count);
    pthread_mutex_init(&b.lock, NULL);
    hd_error status = add_jobs(&b, kernels, count);
    if (status == HD_OK) status = take_over(&b, from);
    if (status == HD_OK) status = make_objects(&b, coder);
    if (status == HD_OK) status = write_all(&b, note, from, bytes, size);
    for (int i = 0; i < b.count; ++i) {
        hd_array_release(b.jobs[i].key);
        hd_array_release(b.jobs[i].object);
    }
    pthread_mutex_destroy(&b.lock);
    hd_array_release(b.jobs);
    return status;
}
