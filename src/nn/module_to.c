/* Moving modules between devices, and to dtypes: parameters and buffers get other memory, and stay the tensors they
 * are, so that optimizers, and whoever else holds them, need not know. */
#include "core/away.h"
#include "nn/module.h"
#include "ops/op.h"

typedef struct move {
    hd_thread *thread;
    hd_device device;
    hd_dtype dtype; /* when `casts`; else to the device */
    bool casts;
    hd_tensor **from, **to; /* `to`: references of our own */
    int64_t count, capacity;
} move;

static bool is_there(const move *m, const hd_tensor *t) {
    const hd_dtype dtype = (hd_dtype)t->dtype;
    return m->casts ? dtype == m->dtype || !hd_dtype_is_float(dtype) : hd_device_equal(t->storage->device, m->device);
}

/* A tensor with the value of t, as it is to be: a reference of our own. */
static hd_tensor *value_there(const move *m, hd_tensor *t) {
    hd_tensor *ready = hd_contiguous(t);
    if (ready == NULL) return NULL;
    if (!m->casts) return hd_tensor_moved(m->thread, ready, m->device);
    hd_tensor *cast = hd_cast(ready, m->dtype);
    if (cast != NULL) hd_object_retain(&cast->object);
    return cast;
}

/* Copies what is not there yet; nothing has changed so far. */
static hd_error copy_one(void *user, const char *name, hd_tensor *t) {
    move *m = user;
    (void)name;
    if (is_there(m, t)) return HD_OK;
    if (m->count == m->capacity) {
        const int64_t capacity = m->capacity ? m->capacity * 2 : 32;
        hd_tensor **from = hd_array_resize(m->from, (size_t)capacity * sizeof *from);
        if (from != NULL) m->from = from;
        hd_tensor **to = from == NULL ? NULL : hd_array_resize(m->to, (size_t)capacity * sizeof *to);
        if (to == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to move %lld tensors", (long long)capacity);
        m->to = to;
        m->capacity = capacity;
    }
    hd_tensor *there = value_there(m, t);
    if (there == NULL) return m->thread->error_code;
    m->from[m->count] = t;
    m->to[m->count++] = there;
    return HD_OK;
}

/* What a tape has saved of it is another version: backward says so. */
static void exchange_storage(hd_tensor *t, hd_tensor *there) {
    hd_storage *before = t->storage;
    const uint32_t version = atomic_load_explicit(&before->version, memory_order_relaxed) + 1;
    atomic_store_explicit(&there->storage->version, version, memory_order_relaxed);
    t->storage = there->storage;
    t->layout = there->layout;
    t->dtype = there->dtype;
    t->contiguous = true;
    there->storage = before;
}

static void move_all(move *m, hd_module *module) {
    hd_thread *thread = m->thread;
    hd_error status = hd_module_each(module, false, copy_one, m);
    if (status == HD_OK) status = hd_module_each(module, true, copy_one, m);
    for (int64_t i = 0; i < m->count; ++i) {
        if (status == HD_OK) exchange_storage(m->from[i], m->to[i]);
        hd_tensor_drop(thread, m->to[i]);
    }
    if (m->count > 0) hd_module_note_change(); /* what was captured reads the old storages */
    for (int64_t i = 0; status == HD_OK && i < m->count && thread->error_code == HD_OK; ++i)
        if (hd_has_grad(m->from[i])) hd_set_grad(m->from[i], hd_grad(m->from[i])); /* it goes where the tensor is */
    hd_array_release(m->from);
    hd_array_release(m->to);
}

static void move_module(hd_thread *thread, hd_module *module, move m, const char *name) {
    if (thread->executor->captures) {
        hd_fail(HD_ERROR_STATE, "a builder records; move the module before or after, as a script runs on one device");
        return;
    }
    m.thread = thread;
    hd_observer *observer = thread->observer;
    thread->observer = NULL; /* moved is no call: parameters stay leaves */
    hd_span span;
    hd_span_begin(&span, thread, name);
    move_all(&m, module);
    hd_span_end(&span, NULL);
    thread->observer = observer;
}

void hd_module_to(hd_module *module, hd_device device) {
    HD_ENTER("hd_module_to", );
    if (device.kind == HD_DEVICE_DEFAULT) device = thread->device;
    if (hd_device_check(device) != HD_OK) return;
    move_module(thread, module, (move){.device = device}, "module_to");
}

void hd_module_to_dtype(hd_module *module, hd_dtype dtype) {
    HD_ENTER("hd_module_to_dtype", );
    if (hd_dtype_resolve(thread, dtype, &dtype) != HD_OK) return;
    if (!hd_dtype_is_float(dtype)) {
        hd_fail(HD_ERROR_DTYPE, "a module of %s; parameters are floats", hd_dtype_name(dtype));
        return;
    }
    move_module(thread, module, (move){.casts = true, .dtype = dtype}, "module_to_dtype");
}
