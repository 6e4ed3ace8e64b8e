/* The list of devices, and the thread's choice among them. */
#include "core/device.h"
#include "core/object.h"

#include <stdio.h>

static const char *const kind_names[HD_DEVICE_KINDS] = {"default", "cpu", "cuda", "metal"};

static const hd_device_interface *interfaces[HD_DEVICE_KINDS]; /* set before the first thread has a context */

void hd_device_register(hd_device_kind kind, const hd_device_interface *interface) {
    if ((unsigned)kind < HD_DEVICE_KINDS) interfaces[kind] = interface;
}

const hd_device_interface *hd_device_interface_of(hd_device_kind kind) {
    hd_library_ready();
    return (unsigned)kind < HD_DEVICE_KINDS ? interfaces[kind] : NULL;
}

/* ---- no device --------------------------------------------------------------------------------------------------- */
static hd_error refuse(void) { return hd_fail(HD_ERROR_DEVICE, "this library was linked without any device"); }
static hd_error refuse_run(hd_executor *self, hd_thread *thread, hd_call *call) {
    (void)self, (void)thread, (void)call;
    return refuse();
}
static hd_error refuse_write(hd_executor *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src) {
    (void)self, (void)thread, (void)dst, (void)src;
    return refuse();
}
hd_executor *hd_no_executor(void) {
    static hd_executor none = {.name = "none", .run = refuse_run, .write = refuse_write};
    return &none;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

const char *hd_device_text(char *out, hd_device device) {
    snprintf(out, 32, "%s:%d", (unsigned)device.kind < HD_DEVICE_KINDS ? kind_names[device.kind] : "?", device.index);
    return out;
}

hd_executor *hd_device_executor(hd_device device) {
    const hd_device_interface *interface = hd_device_interface_of(device.kind);
    return interface != NULL && interface->available(device.index) ? interface->executor(device.index) : NULL;
}

bool hd_device_available(hd_device device) { return hd_device_executor(device) != NULL; }

void hd_set_device(hd_device device) {
    HD_ENTER("hd_set_device", );
    hd_executor *executor = hd_device_executor(device);
    if (executor == NULL) {
        hd_fail(HD_ERROR_DEVICE, "device %s is not available here; hd_device_available tells",
                hd_device_text((char[32]){0}, device));
        return;
    }
    if (thread->executor != hd_device_executor(thread->device)) {
        hd_fail(HD_ERROR_STATE, "calls are being captured; choose the device before or after");
        return;
    }
    thread->device = device;
    thread->executor = executor;
}

hd_device hd_current_device(void) {
    const hd_thread *t = hd_thread_self();
    return t == NULL ? hd_cpu() : t->device;
}

static _Atomic(void (*)(void)) also;
void hd_also_synchronize(void (*wait)(void)) { atomic_store_explicit(&also, wait, memory_order_release); }

void hd_synchronize(void) {
    HD_ENTER("hd_synchronize", );
    const hd_device_interface *interface = hd_device_interface_of(thread->device.kind);
    if (interface != NULL) interface->synchronize(thread->device.index);
    void (*wait)(void) = atomic_load_explicit(&also, memory_order_acquire);
    if (wait != NULL) wait();
}
