/* The home of values. Reading waits for the run that makes them; on the CPU it then looks at XLA's memory, elsewhere at
 * a copy of it. Writing ends the home: the bytes move into memory of ours, as runs under way may still read the
 * buffer. */
#include "xla/value.h"
#include "core/away.h"

typedef struct value {
    hd_away_copy copy; /* of its elements, when they cannot be read where they lie */
    hd_xla_buffer buffer;
} value;

static value *value_of(const hd_storage *s) { return s->home_state; }

static void value_destroy(hd_thread *thread, value *v) {
    if (v->buffer.handle != NULL) hd_xla_buffer_destroy(&v->buffer);
    hd_away_copy_release(thread, &v->copy);
    hd_array_release(v);
}

/* ---- the home ---------------------------------------------------------------------------------------------------- */
static hd_error read_buffer(hd_storage *s, void *out) {
    return hd_xla_buffer_read(&value_of(s)->buffer, out, s->bytes);
}

/* On the CPU the elements can be read as they lie. */
static hd_error map_buffer(hd_storage *s, void **out) {
    value *v = value_of(s);
    const hd_xla_device *device = v->buffer.device;
    if (device->device.kind != HD_DEVICE_CPU || device->client->plugin.buffer_pointer == NULL || s->bytes == 0)
        return HD_OK;
    return hd_xla_buffer_pointer(&v->buffer, out);
}

static hd_error xla_value_fetch(hd_storage *s, hd_access access) {
    hd_thread *thread = hd_thread_self();
    value *v = value_of(s);
    if (access == HD_READ) return hd_away_copy_fetch(thread, s, &v->copy, map_buffer, read_buffer);
    hd_block *block = v->copy.block; /* writers are alone */
    if (block == NULL) block = hd_away_copy_new(thread, s, read_buffer);
    if (block == NULL) return thread->error_code;
    v->copy.block = NULL;
    value_destroy(thread, v);
    s->home = NULL;
    s->block = block;
    s->data = hd_block_data(block);
    return HD_OK;
}

static void xla_value_leave(hd_storage *s) { value_destroy(hd_thread_self(), value_of(s)); }

static const hd_home home = {.name = "XLA", .fetch = xla_value_fetch, .leave = xla_value_leave};

/* ---- making them ------------------------------------------------------------------------------------------------- */
static value *new_value(void) {
    value *v = hd_array_resize(NULL, sizeof *v);
    if (v == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a value of XLA's");
        return NULL;
    }
    *v = (value){.buffer = {0}};
    hd_away_copy_init(&v->copy);
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
        hd_away_copy_forget(thread, &v->copy);
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
