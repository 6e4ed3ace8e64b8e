/* Programs of Metal: text to objects, objects to kernels, and their launches. Metal gives no object of text that is
 * compiled in a program: so an object is the text, known to compile, and Metal's own cache on disk makes the second
 * time quick. */
#include "device/program.h"
#include "device/metal/driver.h"

#include <string.h>

struct hd_gpu_function {
    hd_gpu_program *program;
    hd_objc_object *pipeline;
    size_t group_most;
    hd_gpu_function *next;
    char name[];
};
struct hd_gpu_program {
    hd_metal_device *device;
    hd_objc_object *library;
    hd_gpu_function *functions; /* under the device's lock */
};

static const char object_mark[] = "hodumt1";

/* ---- compiling: inside of a pool --------------------------------------------------------------------------------- */
static hd_objc_object *string_of(const hd_metal_device *d, const char *text) {
    hd_objc_object *string = HD_SEND_WITH(hd_objc.string_class, string_of, text);
    if (string == NULL) hd_metal_gave_nil(d, "stringWithUTF8String", "there is no memory, or the text is no UTF-8");
    return string;
}

/* To be released; NULL with an error. Arithmetic gives what it gives on the CPU: nothing of it is "fast". */
static hd_objc_object *library_of(const hd_metal_device *d, const char *name, const char *text) {
    hd_objc_object *error = NULL, *string = string_of(d, text);
    if (string == NULL) return NULL;
    hd_objc_object *options = HD_SEND(hd_objc.options_class, new_one);
    if (options == NULL) {
        hd_metal_gave_nil(d, "new of MTLCompileOptions", "there is no memory");
        return NULL;
    }
    HD_SEND_WITH(options, set_fast_math, 0);
    hd_objc_object *library = HD_SEND_WITH(d->handle, new_library, string, options, &error);
    HD_SEND(options, release);
    if (library == NULL) hd_gpu_does_not_compile(d->device, name, "metal", text, hd_metal_says(error));
    return library;
}

static hd_error compile(const hd_metal_device *d, const char *name, const char *text, void **object, size_t *bytes) {
    const size_t count = strlen(text) + 1;
    hd_objc_object *library = library_of(d, name, text);
    if (library == NULL) return HD_ERROR_DEVICE;
    HD_SEND(library, release);
    hd_gpu_object *all = hd_gpu_object_new(count);
    if (all == NULL) return HD_ERROR_MEMORY;
    memcpy(all->bytes, text, count);
    hd_gpu_object_seal(all, object_mark, count);
    *object = all;
    *bytes = sizeof *all + count;
    return HD_OK;
}

hd_error hd_metal_compile(int index, const char *name, const char *text, void **object, size_t *bytes) {
    const hd_metal_device *d = hd_metal_device_at(index);
    *object = NULL;
    *bytes = 0;
    if (d == NULL) return HD_ERROR_DEVICE;
    void *pool = hd_objc.pool_push();
    const hd_error status = compile(d, name, text, object, bytes);
    hd_objc.pool_pop(pool);
    return status;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */
hd_gpu_program *hd_metal_load(int index, const void *object, size_t bytes) {
    size_t count = 0;
    hd_metal_device *d = hd_metal_device_at(index);
    const unsigned char *text = d == NULL ? NULL : hd_gpu_object_open(object_mark, "Metal's", object, bytes, &count);
    if (text == NULL) return NULL;
    hd_gpu_program *p = hd_array_resize(NULL, sizeof *p);
    if (p == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a program of %s", hd_device_text((char[32]){0}, d->device));
        return NULL;
    }
    void *pool = hd_objc.pool_push();
    *p = (hd_gpu_program){.device = d, .library = library_of(d, "an object", (const char *)text)};
    hd_objc.pool_pop(pool);
    if (p->library != NULL) return p;
    hd_array_release(p);
    return NULL;
}

/* A command buffer keeps what its commands need. */
void hd_metal_unload(hd_gpu_program *p) {
    if (p == NULL) return;
    const bool here = hd_metal_is_here();
    void *pool = here ? hd_objc.pool_push() : NULL;
    while (p->functions != NULL) {
        hd_gpu_function *f = p->functions;
        p->functions = f->next;
        if (here) HD_SEND(f->pipeline, release);
        hd_array_release(f);
    }
    if (here) HD_SEND(p->library, release);
    if (here) hd_objc.pool_pop(pool);
    hd_array_release(p);
}

/* ---- functions --------------------------------------------------------------------------------------------------- */
/* To be released; NULL with an error. */
static hd_objc_object *pipeline_of(const hd_gpu_program *p, const char *name) {
    const hd_metal_device *d = p->device;
    hd_objc_object *error = NULL, *string = string_of(d, name);
    if (string == NULL) return NULL;
    hd_objc_object *function = HD_SEND_WITH(p->library, new_function, string);
    if (function == NULL) {
        hd_fail(HD_ERROR_DEVICE, "%s: newFunctionWithName gives nil; the program has no kernel %.100s",
                hd_device_text((char[32]){0}, d->device), name);
        return NULL;
    }
    hd_objc_object *pipeline = HD_SEND_WITH(d->handle, new_pipeline, function, &error);
    HD_SEND(function, release);
    if (pipeline == NULL) {
        const char *why = hd_metal_says(error);
        hd_fail(HD_ERROR_DEVICE, "%s makes no pipeline of the kernel %.100s: %.200s",
                hd_device_text((char[32]){0}, d->device), name, why != NULL ? why : "it does not say why");
    }
    return pipeline;
}

static hd_gpu_function *new_function(hd_gpu_program *p, const char *name) {
    hd_gpu_function *f = hd_array_resize(NULL, sizeof *f + strlen(name) + 1);
    if (f == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for the kernel %.100s", name);
        return NULL;
    }
    void *pool = hd_objc.pool_push();
    *f = (hd_gpu_function){.program = p, .pipeline = pipeline_of(p, name)};
    f->group_most = HD_SEND(f->pipeline, group_most);
    hd_objc.pool_pop(pool);
    strcpy(f->name, name);
    if (f->pipeline != NULL) return f;
    hd_array_release(f);
    return NULL;
}

hd_gpu_function *hd_metal_function(hd_gpu_program *p, const char *name) {
    hd_metal_device *d = hd_metal_device_at(p->device->device.index);
    if (d == NULL) return NULL;
    pthread_mutex_lock(&d->lock);
    hd_gpu_function *f = p->functions;
    while (f != NULL && strcmp(f->name, name) != 0) f = f->next;
    if (f == NULL && (f = new_function(p, name)) != NULL) {
        f->next = p->functions;
        p->functions = f;
    }
    pthread_mutex_unlock(&d->lock);
    return f;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */
static hd_error check_launch(const hd_metal_device *d, const hd_gpu_launch *l) {
    const hd_gpu_function *f = l->function;
    HD_TRY(hd_gpu_check_launch(d->device, f->name, f->program->device == d, f->group_most, l));
    if (l->buffer_count >= HD_MTL_ARGUMENT_BUFFERS || l->argument_bytes > HD_MTL_ARGUMENT_BYTES)
        return hd_fail(HD_ERROR_DEVICE,
                       "the kernel %.100s has %d buffers and %zu bytes of arguments; Metal takes %d and %d at most",
                       f->name, l->buffer_count, l->argument_bytes, HD_MTL_ARGUMENT_BUFFERS - 1, HD_MTL_ARGUMENT_BYTES);
    return HD_OK;
}

/* Nothing is encoded before all addresses are known to be right. */
static hd_error encode(hd_metal_device *d, const hd_gpu_launch *l) {
    hd_objc_object *buffers[HD_MTL_ARGUMENT_BUFFERS] = {NULL};
    for (int i = 0; i < l->buffer_count; ++i) {
        size_t offset = 0;
        if (l->buffers[i] != NULL) HD_TRY(hd_metal_find(d, l->buffers[i], 0, &buffers[i], &offset));
        hd_gpu_fill_in(l, i, offset);
    }
    hd_objc_object *encoder = hd_metal_encoder(d, HD_METAL_LAUNCHES);
    if (encoder == NULL) return HD_ERROR_DEVICE;
    HD_SEND_WITH(encoder, set_pipeline, l->function->pipeline);
    for (int i = 0; i < l->buffer_count; ++i) HD_SEND_WITH(encoder, set_buffer, buffers[i], 0, (size_t)i);
    if (l->argument_bytes > 0)
        HD_SEND_WITH(encoder, set_bytes, l->arguments, l->argument_bytes, (size_t)l->buffer_count);
    HD_SEND_WITH(encoder, dispatch, ((hd_mtl_size){l->groups[0], l->groups[1], l->groups[2]}),
                 ((hd_mtl_size){l->threads[0], l->threads[1], l->threads[2]}));
    return hd_metal_enqueued(d);
}

/* A batch of its own, whose time Metal tells. */
static hd_error encode_alone(hd_metal_device *d, const hd_gpu_launch *l, hd_objc_object **batch) {
    HD_TRY(hd_metal_commit(d));
    HD_TRY(encode(d, l));
    HD_TRY(hd_metal_commit(d));
    *batch = hd_metal_last_batch(d);
    return HD_OK;
}

static hd_error take_time(hd_metal_device *d, hd_objc_object *batch, int64_t *nanoseconds) {
    HD_TRY(hd_metal_wait(d));
    const double seconds = HD_SEND(batch, ended_at) - HD_SEND(batch, started_at);
    *nanoseconds = seconds > 0 ? (int64_t)(seconds * 1e9 + 0.5) : 0;
    return HD_OK;
}

hd_error hd_metal_launch(int index, const hd_gpu_launch *l) {
    hd_objc_object *batch = NULL;
    if (l->nanoseconds != NULL) *l->nanoseconds = 0;
    hd_metal_device *d = hd_metal_device_at(index);
    if (d == NULL) return HD_ERROR_DEVICE;
    if (l->groups[0] == 0 || l->groups[1] == 0 || l->groups[2] == 0) return HD_OK;
    HD_TRY(check_launch(d, l));
    void *pool = hd_objc.pool_push();
    pthread_mutex_lock(&d->lock);
    hd_error status = l->nanoseconds == NULL ? encode(d, l) : encode_alone(d, l, &batch);
    pthread_mutex_unlock(&d->lock);
    if (status == HD_OK && batch != NULL) status = take_time(d, batch, l->nanoseconds);
    if (batch != NULL) HD_SEND(batch, release);
    hd_objc.pool_pop(pool);
    return status;
}
