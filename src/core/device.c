/* The list of devices, and the thread's choice among them. */
#include "core/away.h"
#include "core/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const hd_device_interface *interfaces[HD_DEVICE_KINDS_KNOWN] = {[HD_DEVICE_CPU] = &hd_cpu_interface};

void hd_device_add(int kind, const hd_device_interface *interface) { interfaces[kind] = interface; }

const hd_device_interface *hd_device_interface_of(hd_device_kind kind) {
    return (unsigned)kind < HD_DEVICE_KINDS_KNOWN ? interfaces[kind] : NULL;
}

static const char *const kind_names[HD_DEVICE_KINDS_KNOWN] = {"default", "cpu", "cuda", "metal", "test"};

const char *hd_device_text(char *out, hd_device device) {
    const bool known = (unsigned)device.kind < HD_DEVICE_KINDS_KNOWN;
    snprintf(out, 32, "%s:%d", known ? kind_names[device.kind] : "?", device.index);
    return out;
}

hd_device hd_device_at_start(void) {
    const char *wish = hd_environment("HODU_DEVICE");
    for (int kind = HD_DEVICE_CPU; wish != NULL && kind < HD_DEVICE_KINDS_KNOWN; ++kind) {
        const size_t length = strlen(kind_names[kind]);
        if (strncmp(wish, kind_names[kind], length) != 0) continue;
        char *end = (char *)(uintptr_t)wish + length;
        const long index = *end == ':' ? strtol(end + 1, &end, 10) : 0;
        const hd_device device = {(hd_device_kind)kind, (int)index};
        if (*end == '\0' && index >= 0 && index < 1024 && hd_device_available(device)) return device;
    }
    if (wish != NULL) hd_environment_unknown("HODU_DEVICE", wish, strlen(wish), "a device that is there, such as cpu");
    return hd_cpu();
}

hd_executor *hd_device_executor(hd_device device) {
    const hd_device_interface *interface = hd_device_interface_of(device.kind);
    return interface != NULL && interface->available(device.index) ? interface->executor(device.index) : NULL;
}

bool hd_device_available(hd_device device) { return hd_device_executor(device) != NULL; }

hd_error hd_device_check(hd_device device) {
    if (hd_device_executor(device) != NULL) return HD_OK;
    return hd_fail(HD_ERROR_DEVICE, "device %s is not available here; hd_device_available tells",
                   hd_device_text((char[32]){0}, device));
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
    if (hd_device_is_away(device)) hd_devices_away = true;
}

hd_device hd_current_device(void) {
    const hd_thread *t = hd_thread_self();
    return t == NULL ? hd_cpu() : t->device;
}

static _Atomic(void (*)(void)) also;
void hd_also_synchronize(void (*wait)(void)) { atomic_store_explicit(&also, wait, memory_order_release); }

void hd_synchronize(void) {
    HD_ENTER("hd_synchronize", );
    hd_device_interface_of(thread->device.kind)->synchronize(thread, thread->device.index);
    void (*wait)(void) = atomic_load_explicit(&also, memory_order_acquire);
    if (wait != NULL) wait();
}
