/* The list of devices, and the thread's choice among them. */
#include "core/away.h"
#include "core/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[HD_DEVICE_KINDS_KNOWN] = {"default", "cpu", "cuda", "metal", "opencl", "test"};

static const hd_device_interface *interfaces[HD_DEVICE_KINDS_KNOWN]; /* set before the first thread has a context */

void hd_device_register(int kind, const hd_device_interface *interface) {
    if ((unsigned)kind < HD_DEVICE_KINDS_KNOWN) interfaces[kind] = interface;
}

const hd_device_interface *hd_device_interface_of(hd_device_kind kind) {
    hd_library_ready();
    return (unsigned)kind < HD_DEVICE_KINDS_KNOWN ? interfaces[kind] : NULL;
}

/* ---- no device --------------------------------------------------------------------------------------------------- */
static hd_error refuse_all(void) { return hd_fail(HD_ERROR_DEVICE, "this library was linked without any device"); }
static hd_error refuse_run(hd_executor *self, hd_thread *thread, hd_call *call) {
    (void)self, (void)thread, (void)call;
    return refuse_all();
}
static hd_error refuse_write(hd_executor *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src) {
    (void)self, (void)thread, (void)dst, (void)src;
    return refuse_all();
}
hd_executor *hd_no_executor(void) {
    static hd_executor none = {.name = "none", .run = refuse_run, .write = refuse_write};
    return &none;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

const char *hd_device_text(char *out, hd_device device) {
    const bool known = (unsigned)device.kind < HD_DEVICE_KINDS_KNOWN;
    snprintf(out, 32, "%s:%d", known ? kind_names[device.kind] : "?", device.index);
    return out;
}

hd_executor *hd_device_executor(hd_device device) {
    const hd_device_interface *interface = hd_device_interface_of(device.kind);
    const bool runs = interface != NULL && interface->executor != NULL; /* looked at first: counting opens drivers */
    return runs && device.index >= 0 && device.index < interface->count() ? interface->executor(device.index) : NULL;
}

/* ---- what there is, and why not ---------------------------------------------------------------------------------- */
int hd_device_count(hd_device_kind kind) {
    const hd_device_interface *interface = hd_device_interface_of(kind);
    return interface != NULL ? interface->count() : 0;
}

bool hd_device_available(hd_device device) { return hd_device_executor(device) != NULL; }

static const char *no_kernels(char out[HD_DEVICE_REASON], hd_device_kind kind) {
    if ((unsigned)kind >= HD_DEVICE_KINDS || kind == HD_DEVICE_DEFAULT) return "there is no such kind of device";
    if (kind == HD_DEVICE_CUDA && !HD_HAS_CUDA)
        return "this library was built without CUDA (HODU_CUDA=OFF); scripts run there when XLA compiles them";
    if (kind == HD_DEVICE_OPENCL && !HD_HAS_OPENCL) return "this library was built without OpenCL (HODU_OPENCL=OFF)";
    if (kind == HD_DEVICE_METAL && !HD_HAS_METAL) return "this library was built without Metal (HODU_METAL=OFF)";
    snprintf(out, HD_DEVICE_REASON, "hodu has no kernels for %s yet", kind_names[kind]);
    return out;
}

const char *hd_device_absent(char out[HD_DEVICE_REASON], hd_device device) {
    const hd_device_interface *interface = hd_device_interface_of(device.kind);
    if (interface == NULL) return no_kernels(out, device.kind);
    const int count = interface->count();
    if (count <= 0) return interface->missing();
    if (device.index >= 0 && device.index < count) return NULL;
    if (count == 1) snprintf(out, HD_DEVICE_REASON, "there is one, %s:0", interface->name);
    if (count > 1)
        snprintf(out, HD_DEVICE_REASON, "there are %s:0 to %s:%d", interface->name, interface->name, count - 1);
    return out;
}

const char *hd_device_runs_no_ops(char out[HD_DEVICE_REASON], hd_device device) {
    const hd_device_interface *interface = hd_device_interface_of(device.kind);
    if (interface == NULL || interface->executor == NULL) return no_kernels(out, device.kind);
    const char *absent = hd_device_absent(out, device);
    return absent != NULL || interface->executor(device.index) != NULL ? absent : interface->missing();
}

const char *hd_device_missing(hd_device device) {
    hd_thread *thread = hd_thread_self();
    if (thread == NULL) return "there is no memory for this thread's context";
    return hd_device_runs_no_ops(thread->reason, device);
}

hd_device_info hd_device_describe(hd_device device) {
    hd_device_info info = {.name = ""};
    HD_ENTER("hd_device_describe", info);
    if (device.kind == HD_DEVICE_DEFAULT) device = thread->device;
    const char *why = hd_device_absent((char[HD_DEVICE_REASON]){0}, device);
    if (why == NULL)
        hd_device_interface_of(device.kind)->describe(device.index, &info);
    else
        hd_fail(HD_ERROR_DEVICE, "device %s is not here: %s", hd_device_text((char[32]){0}, device), why);
    return info;
}

/* ---- the thread's choice ----------------------------------------------------------------------------------------- */

hd_error hd_device_check(hd_device device) {
    if (hd_device_executor(device) != NULL) return HD_OK;
    return hd_fail(HD_ERROR_DEVICE, "device %s is not available here: %s", hd_device_text((char[32]){0}, device),
                   hd_device_runs_no_ops((char[HD_DEVICE_REASON]){0}, device));
}

static bool read_device(const char *text, hd_device *out) {
    for (int kind = HD_DEVICE_CPU; kind < HD_DEVICE_KINDS_KNOWN; ++kind) {
        const size_t length = strlen(kind_names[kind]);
        if (strncmp(text, kind_names[kind], length) != 0) continue;
        char *end = (char *)(uintptr_t)text + length;
        const long index = *end == ':' ? strtol(end + 1, &end, 10) : 0;
        *out = (hd_device){(hd_device_kind)kind, (int)index};
        return *end == '\0' && index >= 0 && index < 1024 && hd_device_available(*out);
    }
    return false;
}

void hd_device_begin(hd_thread *thread) {
    const char *wish = hd_environment("HODU_DEVICE");
    hd_device device;
    if (wish == NULL) return;
    if (!read_device(wish, &device)) {
        hd_environment_unknown("HODU_DEVICE", wish, strlen(wish), "a device that is there: cpu");
        return;
    }
    thread->device = device;
    thread->executor = hd_device_executor(device);
    if (hd_device_is_away(device)) hd_calls_routed = true;
}

void hd_set_device(hd_device device) {
    HD_ENTER("hd_set_device", );
    if (hd_device_check(device) != HD_OK) return;
    hd_executor *executor = hd_device_executor(device);
    if (thread->executor->captures) {
        hd_fail(HD_ERROR_STATE, "calls are being captured; choose the device before or after");
        return;
    }
    thread->device = device;
    thread->executor = executor;
    if (hd_device_is_away(device)) hd_calls_routed = true;
}

hd_device hd_current_device(void) {
    const hd_thread *t = hd_thread_self();
    return t == NULL ? hd_cpu() : t->device;
}

void hd_set_matmul_precision(hd_matmul_precision precision) {
    HD_ENTER("hd_set_matmul_precision", );
    if (precision == HD_MATMUL_EXACT || precision == HD_MATMUL_TF32)
        thread->matmul_precision = precision;
    else
        hd_fail(HD_ERROR_VALUE, "a precision of %d; it is HD_MATMUL_EXACT or HD_MATMUL_TF32", (int)precision);
}

hd_matmul_precision hd_current_matmul_precision(void) {
    const hd_thread *t = hd_thread_self();
    return t == NULL ? HD_MATMUL_EXACT : t->matmul_precision;
}

static _Atomic(void (*)(void)) also;
void hd_also_synchronize(void (*wait)(void)) { atomic_store_explicit(&also, wait, memory_order_release); }

void hd_synchronize(void) {
    HD_ENTER("hd_synchronize", );
    const hd_device_interface *interface = hd_device_interface_of(thread->device.kind);
    if (interface != NULL) interface->synchronize(thread, thread->device.index);
    void (*wait)(void) = atomic_load_explicit(&also, memory_order_acquire);
    if (wait != NULL) wait();
}
