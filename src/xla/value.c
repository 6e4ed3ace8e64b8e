/* The home of values. Reading waits for the run that makes them; on the CPU it then looks at XLA's memory, elsewhere at
 * a copy of it. Writing ends the home: the bytes move into memory of ours, as runs under way may still read the
 * buffer. */
#include "xla/value.h"
#include "core/thread.h"

#include <pthread.h>
#include <string.h>

typedef struct value {
    pthread_mutex_t lock; /* two threads may read at once */
    hd_xla_buffer buffer;
    hd_block *copy; /* of its elements, when they cannot be read where they lie */
    bool here;      /* storage->data is them */
} value;

static value *value_of(const hd_storage *s) { return s->home_state; }

static void value_destroy(hd_thread *thread, value *v) {
    if (v->buffer.handle != NULL) hd_xla_buffer_destroy(&v->buffer);
    if (v->copy != NULL) hd_block_release(thread, v->copy);
    pthread_mutex_destroy(&v->lock);
    hd_array_release(v);
}

/* ---- the home ---------------------------------------------------------------------------------------------------- */
static hd_error copy_here(hd_thread *thread, hd_storage *s, hd_block **out) {
    *out = hd_block_new(thread, s->bytes > 0 ? s->bytes : 1);
    if (*out == NULL) return HD_ERROR_MEMORY;
    const hd_error status = hd_xla_buffer_read(&value_of(s)->buffer, hd_block_data(*out), s->bytes);
    if (status == HD_OK) return HD_OK;
    hd_block_release(thread, *out);
    *out = NULL;
    return status;
}

static hd_error make_readable(hd_thread *thread, hd_storage *s) {
    value *v = value_of(s);
    if (v->here) return HD_OK;
    const hd_xla_device *device = v->buffer.device;
    if (device->device.kind == HD_DEVICE_CPU && device->client->plugin.buffer_pointer != NULL && s->bytes > 0) {
        HD_TRY(hd_xla_buffer_pointer(&v->buffer, &s->data));
    } else {
        HD_TRY(copy_here(thread, s, &v->copy));
        s->data = hd_block_data(v->copy);
    }
    v->here = true;
    return HD_OK;
}

static hd_error fetch(hd_storage *s, hd_access access) {
    hd_thread *thread = hd_thread_self();
    value *v = value_of(s);
    if (access == HD_READ) {
        pthread_mutex_lock(&v->lock);
        const hd_error status = make_readable(thread, s);
        pthread_mutex_unlock(&v->lock);
        return status;
    }
    hd_block *block = v->copy; /* writers are alone */
    if (block == NULL) HD_TRY(copy_here(thread, s, &block));
    v->copy = NULL;
    value_destroy(thread, v);
    s->home = NULL;
    s->block = block;
    s->data = hd_block_data(block);
    return HD_OK;
}

static void leave(hd_storage *s) { value_destroy(hd_thread_self(), value_of(s)); }

static const hd_home home = {.name = "XLA", .fetch = fetch, .leave = leave};

/* ---- making them ------------------------------------------------------------------------------------------------- */
static value *new_value(void) {
    value *v = hd_array_resize(NULL, sizeof *v);
    if (v == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a value of XLA's");
        return NULL;
    }
    *v = (value){.here = false};
    pthread_mutex_init(&v->lock, NULL);
    return v;
}

hd_storage *hd_xla_value_new(hd_thread *thread, size_t bytes) {
    value *v = new_value();
    hd_storage *s = v == NULL ? NULL : hd_storage_elsewhere(thread, bytes, &home, v);
    if (s == NULL && v != NULL) value_destroy(thread, v);
    return s;
}

void hd_xla_value_fill(hd_storage *s, hd_xla_buffer *buffer) {
    value_of(s)->buffer = *buffer;
    *buffer = (hd_xla_buffer){0};
}

hd_xla_buffer *hd_xla_value_buffer(const hd_storage *s, const hd_xla_device *device) {
    return s->home == &home && value_of(s)->buffer.device == device ? &value_of(s)->buffer : NULL;
}

hd_error hd_xla_value_expect(hd_storage *s, void **expected) {
    if (*expected != NULL || s->home == &home) return HD_OK;
    *expected = new_value();
    return *expected == NULL ? HD_ERROR_MEMORY : HD_OK;
}

void hd_xla_value_unexpect(hd_thread *thread, void **expected) {
    if (*expected != NULL) value_destroy(thread, *expected);
    *expected = NULL;
}

void hd_xla_value_set(hd_thread *thread, hd_storage *s, void **expected, hd_xla_buffer *buffer) {
    if (s->home == &home) {
        value *v = value_of(s);
        hd_xla_buffer_destroy(&v->buffer);
        if (v->copy != NULL) hd_block_release(thread, v->copy);
        v->copy = NULL;
        v->here = false;
    } else {
        if (s->home != NULL) s->home->leave(s);
        if (s->block != NULL) hd_block_release(thread, s->block);
        s->home = &home;
        s->home_state = *expected;
        *expected = NULL;
    }
    s->block = NULL;
    s->data = NULL;
    hd_xla_value_fill(s, buffer);
}
