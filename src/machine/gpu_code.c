/* Code of GPUs: programs by their text, in memory and on disk. A use of a template is looked up without its text. */
#include "codegen/code.h"
#include "core/hash.h"
#include "machine/gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { FUNCTIONS = 8, TABLE = 1024, PREFIX = 16 };

struct hd_gpu_code {
    struct hd_gpu_code *next;
    uint64_t hash[2]; /* of its text */
    hd_gpu_program *program;
    char prefix[PREFIX]; /* of its functions, in a program of several kernels */
    hd_gpu_function *functions[FUNCTIONS];
    char names[FUNCTIONS][32];
    int function_count;
};
typedef struct template_code {
    struct template_code *next;
    hd_template_use use;
    hd_gpu_code *code;
} template_code;

struct hd_gpu_codes {
    pthread_mutex_t lock;
    hd_gpu_code *codes[TABLE];
    template_code *templates[TABLE];
};

hd_gpu_codes *hd_gpu_codes_new(void) {
    hd_gpu_codes *c = hd_array_resize(NULL, sizeof *c);
    if (c == NULL) return NULL;
    memset(c, 0, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

/* From the disk cache, or compiled and kept there. */
static void *compile_text(const hd_gpu_device *d, const char *name, const char *text, size_t length, size_t *bytes) {
    const hd_gpu_limits *limits = d->gpu->limits(d->device.index);
    const size_t target = strlen(limits->key) + 1;
    char *key = hd_array_resize(NULL, target + length);
    void *object = NULL;
    if (key != NULL) {
        memcpy(key, limits->key, target);
        memcpy(key + target, text, length);
        object = hd_cache_read(key, target + length, bytes);
    }
    if (object == NULL && d->gpu->compile(d->device.index, name, text, &object, bytes) == HD_OK && key != NULL)
        hd_cache_write(key, target + length, object, *bytes);
    hd_array_release(key);
    return object;
}

/* Text on its way to an object, perhaps on a thread of its own. */
typedef struct compilation {
    const hd_gpu_device *device;
    const char *name;
    char *text;
    size_t length, bytes;
    void *object; /* NULL with an error */
    hd_error_copy error;
    pthread_t thread;
    bool has_thread;
} compilation;
static void *compile_here(void *of) {
    compilation *c = of;
    hd_thread *thread = hd_thread_self();
    if (thread == NULL) return NULL;
    HD_HOLD_ERRORS(thread); /* they are told by the thread that asked */
    c->object = compile_text(c->device, c->name, c->text, c->length, &c->bytes);
    if (c->object == NULL) hd_error_take(&c->error);
    return NULL;
}

static hd_gpu_code *find_text(const hd_gpu_device *d, const uint64_t hash[2]) {
    for (hd_gpu_code *c = d->codes->codes[hash[0] % TABLE]; c != NULL; c = c->next)
        if (memcmp(c->hash, hash, 2 * sizeof *hash) == 0) return c;
    return NULL;
}

/* What was compiled, loaded. Under the lock. */
static hd_gpu_code *load_object(const compilation *done) {
    const hd_gpu_device *d = done->device;
    const uint64_t hash[2] = {hd_hash(done->text, done->length, 0), hd_hash(done->text, done->length, 1)};
    hd_gpu_code *c = hd_array_resize(NULL, sizeof *c), **at = &d->codes->codes[hash[0] % TABLE];
    if (c == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for the code of %s", done->name);
        return NULL;
    }
    memset(c, 0, sizeof *c);
    memcpy(c->hash, hash, sizeof hash);
    c->program = d->gpu->load(d->device.index, done->object, done->bytes);
    if (c->program == NULL) {
        hd_array_release(c);
        return NULL;
    }
    c->next = *at;
    return *at = c;
}

/* Under the lock. */
static hd_gpu_code *load_text(const hd_gpu_device *d, const char *name, char *text, size_t length) {
    const uint64_t hash[2] = {hd_hash(text, length, 0), hd_hash(text, length, 1)};
    hd_gpu_code *c = find_text(d, hash);
    if (c != NULL) return c;
    compilation one = {.device = d, .name = name, .text = text, .length = length};
    one.object = compile_text(d, name, text, length, &one.bytes);
    if (one.object != NULL) c = load_object(&one);
    hd_array_release(one.object);
    return c;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */
/* The text of kernels in one program; NULL with an error. */
static char *text_of(const hd_gpu_device *d, const hd_gpu_kernel *kernels, int count, size_t *length) {
    const bool f64 = d->gpu->limits(d->device.index)->has_f64;
    *length = hd_render_gpu(kernels, count, d->dialect, f64, NULL, 0);
    char *text = *length == 0 ? NULL : hd_array_resize(NULL, *length + 1);
    if (text == NULL && *length > 0) hd_fail(HD_ERROR_MEMORY, "no memory for the text of %d kernels", count);
    if (text == NULL || hd_render_gpu(kernels, count, d->dialect, f64, text, *length + 1) == *length) return text;
    hd_array_release(text);
    return NULL;
}

/* The code of a kernel alone, where it is known; else its hash. Under the lock. */
static hd_gpu_code *find_kernel(const hd_gpu_device *d, const hd_gpu_kernel *kernel, uint64_t hash[2]) {
    size_t length;
    char *text = text_of(d, kernel, 1, &length);
    if (text == NULL) return NULL;
    hash[0] = hd_hash(text, length, 0);
    hash[1] = hd_hash(text, length, 1);
    hd_array_release(text);
    return find_text(d, hash);
}

/* Another entry for a kernel that is one of several in a program. Under the lock. */
static hd_gpu_code *add_kernel(const hd_gpu_device *d, const hd_gpu_code *program, const uint64_t hash[2],
                               const char prefix[PREFIX]) {
    hd_gpu_code *c = hd_array_resize(NULL, sizeof *c), **at = &d->codes->codes[hash[0] % TABLE];
    if (c == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for the code of a kernel");
        return NULL;
    }
    memset(c, 0, sizeof *c);
    memcpy(c->hash, hash, sizeof c->hash);
    c->program = program->program;
    memcpy(c->prefix, prefix, sizeof c->prefix);
    c->next = *at;
    return *at = c;
}

enum { TOGETHER = 32 /* kernels of a program */, THREADS = 4, OF_A_THREAD = 3 /* kernels at least */ };

/* Kernels, as programs that are compiled at the same time, where the compiler takes less for two programs than for
 * one of both; `made`: the program of each. Under the lock. */
static hd_error compile_missing(const hd_gpu_device *d, const hd_gpu_kernel *missing, int count,
                                const hd_gpu_code **made) {
    compilation parts[THREADS] = {{.device = NULL}};
    int part_count = d->dialect == HD_DIALECT_CUDA ? count / OF_A_THREAD : 1;
    part_count = part_count < 1 ? 1 : part_count > THREADS ? THREADS : part_count;
    hd_error status = HD_OK;
    for (int i = 0; i < part_count && status == HD_OK; ++i) {
        const int begin = count * i / part_count, end = count * (i + 1) / part_count;
        parts[i] = (compilation){.device = d, .name = "kernels"};
        parts[i].text = text_of(d, missing + begin, end - begin, &parts[i].length);
        if (parts[i].text == NULL) status = hd_thread_self()->error_code;
    }
    for (int i = 1; i < part_count && status == HD_OK; ++i)
        parts[i].has_thread = pthread_create(&parts[i].thread, NULL, compile_here, &parts[i]) == 0;
    for (int i = 0; i < part_count && status == HD_OK; ++i)
        if (!parts[i].has_thread) compile_here(&parts[i]);
    for (int i = 0; i < part_count; ++i)
        if (parts[i].has_thread) pthread_join(parts[i].thread, NULL);
    for (int i = 0; i < part_count && status == HD_OK; ++i) {
        if (parts[i].object == NULL && parts[i].error.code != HD_OK) hd_error_put_back(&parts[i].error);
        if (parts[i].object == NULL && parts[i].error.code == HD_OK)
            hd_fail(HD_ERROR_MEMORY, "no memory for a thread that compiles");
        const hd_gpu_code *program = parts[i].object == NULL ? NULL : load_object(&parts[i]);
        if (program == NULL) status = hd_thread_self()->error_code;
        for (int k = count * i / part_count; k < count * (i + 1) / part_count; ++k) made[k] = program;
    }
    for (int i = 0; i < part_count; ++i) {
        hd_array_release(parts[i].text);
        hd_array_release(parts[i].object);
    }
    return status;
}

/* Those that are new are compiled together, which takes less than a program for each. Under the lock. */
static hd_error load_kernels(const hd_gpu_device *d, const hd_gpu_kernel *kernels, int count, hd_gpu_code **out) {
    hd_gpu_kernel missing[TOGETHER];
    char names[TOGETHER][PREFIX];
    uint64_t hashes[TOGETHER][2];
    int which[TOGETHER], missing_count = 0;
    for (int i = 0; i < count; ++i) {
        uint64_t hash[2] = {0};
        out[i] = find_kernel(d, &kernels[i], hash);
        bool again = out[i] != NULL;
        which[i] = -1;
        for (int k = 0; k < missing_count && !again; ++k)
            if (memcmp(hashes[k], hash, sizeof hash) == 0) which[i] = k, again = true;
        if (hash[0] == 0 && hash[1] == 0) return hd_thread_self()->error_code;
        if (again) continue;
        memcpy(hashes[missing_count], hash, sizeof hash);
        snprintf(names[missing_count], sizeof names[0], "call%d", missing_count);
        missing[missing_count] = kernels[i];
        missing[missing_count].name = names[missing_count];
        which[i] = missing_count++;
    }
    if (missing_count == 0) return HD_OK;
    const hd_gpu_code *programs[TOGETHER];
    hd_gpu_code *made[TOGETHER] = {NULL};
    HD_TRY(compile_missing(d, missing, missing_count, programs));
    for (int k = 0; k < missing_count; ++k)
        if ((made[k] = add_kernel(d, programs[k], hashes[k], names[k])) == NULL) return HD_ERROR_MEMORY;
    for (int i = 0; i < count; ++i)
        if (which[i] >= 0) out[i] = made[which[i]];
    return HD_OK;
}

hd_error hd_gpu_code_of_kernels(const hd_gpu_device *d, const hd_gpu_kernel *kernels, int count, hd_gpu_code **out) {
    hd_error status = HD_OK;
    pthread_mutex_lock(&d->codes->lock);
    for (int i = 0; i < count && status == HD_OK; i += TOGETHER)
        status = load_kernels(d, kernels + i, count - i < TOGETHER ? count - i : TOGETHER, out + i);
    pthread_mutex_unlock(&d->codes->lock);
    return status;
}

/* ---- templates --------------------------------------------------------------------------------------------------- */
/* Under the lock. */
static template_code *make_template(const hd_gpu_device *d, const hd_template_use *use) {
    const bool f64 = d->gpu->limits(d->device.index)->has_f64;
    const size_t length = hd_render_template(use, d->dialect, f64, NULL, 0);
    char *text = length == 0 ? NULL : hd_array_resize(NULL, length + 1);
    template_code *t = hd_array_resize(NULL, sizeof *t);
    if (length > 0 && (text == NULL || t == NULL)) hd_fail(HD_ERROR_MEMORY, "no memory for the text of a template");
    if (text != NULL && t != NULL && hd_render_template(use, d->dialect, f64, text, length + 1) == length) {
        t->use = *use;
        t->code = load_text(d, hd_template_name((hd_template)use->which), text, length);
    } else if (t != NULL) {
        t->code = NULL;
    }
    hd_array_release(text);
    if (t != NULL && t->code != NULL) return t;
    hd_array_release(t);
    return NULL;
}

hd_gpu_code *hd_gpu_code_of_template(const hd_gpu_device *d, const hd_template_use *use) {
    template_code **at = &d->codes->templates[hd_hash(use, sizeof *use, 0) % TABLE], *t;
    pthread_mutex_lock(&d->codes->lock);
    for (t = *at; t != NULL && memcmp(&t->use, use, sizeof *use) != 0; t = t->next) {}
    if (t == NULL && (t = make_template(d, use)) != NULL) {
        t->next = *at;
        *at = t;
    }
    pthread_mutex_unlock(&d->codes->lock);
    return t == NULL ? NULL : t->code;
}

hd_gpu_code *hd_gpu_code_of_product(const hd_gpu_device *d, const hd_template_use *use,
                                    const hd_fused_epilogue *epilogue) {
    const bool f64 = d->gpu->limits(d->device.index)->has_f64;
    const size_t length = hd_render_product(use, epilogue, d->dialect, f64, NULL, 0);
    char *text = length == 0 ? NULL : hd_array_resize(NULL, length + 1);
    hd_gpu_code *c = NULL;
    if (text == NULL && length > 0) hd_fail(HD_ERROR_MEMORY, "no memory for the text of a product");
    if (text != NULL && hd_render_product(use, epilogue, d->dialect, f64, text, length + 1) == length) {
        pthread_mutex_lock(&d->codes->lock);
        c = load_text(d, "product", text, length);
        pthread_mutex_unlock(&d->codes->lock);
    }
    hd_array_release(text);
    return c;
}

hd_gpu_function *hd_gpu_code_function(const hd_gpu_device *d, hd_gpu_code *c, const char *name) {
    hd_gpu_function *f = NULL;
    char whole[64];
    snprintf(whole, sizeof whole, "%s%s", c->prefix, name);
    pthread_mutex_lock(&d->codes->lock);
    for (int i = 0; i < c->function_count && f == NULL; ++i)
        if (strcmp(c->names[i], name) == 0) f = c->functions[i];
    if (f == NULL && (f = d->gpu->function(c->program, whole)) != NULL && c->function_count < FUNCTIONS &&
        strlen(name) < sizeof c->names[0]) {
        strcpy(c->names[c->function_count], name);
        c->functions[c->function_count++] = f;
    }
    pthread_mutex_unlock(&d->codes->lock);
    return f;
}
