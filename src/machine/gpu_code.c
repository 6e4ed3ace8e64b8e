/* Code of GPUs: programs by their text, in memory and on disk. A use of a template is looked up without its text. */
#include "codegen/code.h"
#include "codegen/hash.h"
#include "machine/gpu.h"

#include <pthread.h>
#include <string.h>

enum { FUNCTIONS = 8, TABLE = 1024 };

struct hd_gpu_code {
    struct hd_gpu_code *next;
    uint64_t hash[2]; /* of its text */
    hd_gpu_program *program;
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

/* Under the lock. */
static hd_gpu_code *load_text(const hd_gpu_device *d, const char *name, const char *text, size_t length) {
    const uint64_t hash[2] = {hd_hash(text, length, 0), hd_hash(text, length, 1)};
    hd_gpu_code **at = &d->codes->codes[hash[0] % TABLE];
    for (hd_gpu_code *c = *at; c != NULL; c = c->next)
        if (memcmp(c->hash, hash, sizeof hash) == 0) return c;
    hd_gpu_code *c = hd_array_resize(NULL, sizeof *c);
    if (c == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for the code of %s", name);
        return NULL;
    }
    memset(c, 0, sizeof *c);
    memcpy(c->hash, hash, sizeof hash);
    size_t bytes = 0;
    void *object = compile_text(d, name, text, length, &bytes);
    if (object != NULL) c->program = d->gpu->load(d->device.index, object, bytes);
    hd_array_release(object);
    if (c->program == NULL) {
        hd_array_release(c);
        return NULL;
    }
    c->next = *at;
    return *at = c;
}

hd_gpu_code *hd_gpu_code_of_text(const hd_gpu_device *d, const char *name, const char *text, size_t length) {
    pthread_mutex_lock(&d->codes->lock);
    hd_gpu_code *c = load_text(d, name, text, length);
    pthread_mutex_unlock(&d->codes->lock);
    return c;
}

hd_gpu_code *hd_gpu_code_of_kernel(const hd_gpu_device *d, const hd_kernel *k, const hd_grid *grid) {
    const hd_gpu_kernel kernel = {k, *grid, "call"};
    const bool f64 = d->gpu->limits(d->device.index)->has_f64;
    const size_t length = hd_render_gpu(&kernel, 1, d->dialect, f64, NULL, 0);
    char *text = length == 0 ? NULL : hd_array_resize(NULL, length + 1);
    hd_gpu_code *c = NULL;
    if (text == NULL && length > 0) hd_fail(HD_ERROR_MEMORY, "no memory for the text of a kernel");
    if (text != NULL && hd_render_gpu(&kernel, 1, d->dialect, f64, text, length + 1) == length)
        c = hd_gpu_code_of_text(d, "call", text, length);
    hd_array_release(text);
    return c;
}

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

hd_gpu_function *hd_gpu_code_function(const hd_gpu_device *d, hd_gpu_code *c, const char *name) {
    hd_gpu_function *f = NULL;
    pthread_mutex_lock(&d->codes->lock);
    for (int i = 0; i < c->function_count && f == NULL; ++i)
        if (strcmp(c->names[i], name) == 0) f = c->functions[i];
    if (f == NULL && (f = d->gpu->function(c->program, name)) != NULL && c->function_count < FUNCTIONS &&
        strlen(name) < sizeof c->names[0]) {
        strcpy(c->names[c->function_count], name);
        c->functions[c->function_count++] = f;
    }
    pthread_mutex_unlock(&d->codes->lock);
    return f;
}
