/* Where XLA's plugins lie. A path from the environment is meant: when nothing is there, that is an error, and no other
 * place is looked at. */
#include "core/device.h"
#include "core/environment.h"
#include "core/os_file.h"
#include "core/packages.h"
#include "xla/executable.h"
#include "xla/plugin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct plugin_place {
    const char *device, *variable; /* the variable of this kind alone */
    const char *file;
    const char *packages[3]; /* of Python */
    const char *remedy;
} plugin_place;
static const plugin_place plugin_places[HD_DEVICE_KINDS] = {
    [HD_DEVICE_CPU] =
        {"cpu", "HODU_XLA_PLUGIN_CPU", "xla_cpu_pjrt.so", {"xla_plugins/xla_cpu_pjrt"}, "scripts/get-xla"},
    [HD_DEVICE_CUDA] = {"cuda",
                        "HODU_XLA_PLUGIN_CUDA",
                        "xla_cuda_plugin.so",
                        {"jax_plugins/xla_cuda13", "jax_plugins/xla_cuda12"},
                        "python3 -m pip install jax-cuda13-pjrt"},
};

static const plugin_place *plugin_place_of(hd_device_kind kind) {
    return (unsigned)kind < HD_DEVICE_KINDS && plugin_places[kind].file != NULL ? &plugin_places[kind] : NULL;
}

const char *hd_xla_plugin_remedy(hd_device_kind kind) {
    const plugin_place *p = plugin_place_of(kind);
    return p != NULL ? p->remedy : plugin_places[HD_DEVICE_CPU].remedy;
}

/* ---- the environment --------------------------------------------------------------------------------------------- */
static hd_error from_variable(const plugin_place *p, const char *name, char path[HD_XLA_PATH], bool *found) {
    const char *value = hd_environment(name);
    if (value == NULL) return HD_OK;
    *found = true;
    if ((size_t)snprintf(path, HD_XLA_PATH, "%s", value) >= HD_XLA_PATH)
        return hd_fail(HD_ERROR_VALUE, "%s is a path of %zu bytes; %d are the most", name, strlen(value),
                       HD_XLA_PATH - 1);
    if (hd_os_can_read(path)) return HD_OK;
    return hd_fail(HD_ERROR_DEVICE, "%s=%.250s: %s; expected XLA's plugin for %s, which %s installs", name, value,
                   strerror(errno), p->device, p->remedy);
}

/* ---- the user's data directory ----------------------------------------------------------------------------------- */
static void data_path(const plugin_place *p, char path[HD_XLA_PATH]) {
    const char *data = hd_environment("XDG_DATA_HOME"), *home = hd_environment("HOME");
    int length = 0;
    path[0] = '\0';
    if (data != NULL && data[0] == '/') /* a relative one is to be ignored */
        length = snprintf(path, HD_XLA_PATH, "%s/hodu/%s", data, p->file);
    else if (home != NULL)
        length = snprintf(path, HD_XLA_PATH, "%s/.local/share/hodu/%s", home, p->file);
    if (length >= HD_XLA_PATH) path[0] = '\0';
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */
static hd_error check_kind(hd_device device) {
    if (plugin_place_of(device.kind) != NULL) return HD_OK;
    return hd_fail(HD_ERROR_DEVICE, "XLA runs on cpu and cuda here, not on %s", hd_device_text((char[32]){0}, device));
}

hd_error hd_xla_plugin_find(hd_device_kind kind, char path[HD_XLA_PATH]) {
    HD_TRY(check_kind((hd_device){kind, 0}));
    const plugin_place *p = plugin_place_of(kind);
    bool found = false;
    HD_TRY(from_variable(p, p->variable, path, &found));
    if (!found) HD_TRY(from_variable(p, "HODU_XLA_PLUGIN", path, &found));
    if (found) return HD_OK;
    char data[HD_XLA_PATH];
    data_path(p, data);
    if (data[0] != '\0' && hd_os_can_read(data)) {
        memcpy(path, data, HD_XLA_PATH);
        return HD_OK;
    }
    if (hd_package_find(p->packages, p->file, path)) return HD_OK;
    return hd_fail(
        HD_ERROR_DEVICE,
        "there is no XLA plugin for %s: %s installs it. Looked for: %s and HODU_XLA_PLUGIN, which are not set; "
        "%.200s; the Python package %s",
        p->device, p->remedy, p->variable, data[0] != '\0' ? data : "no data directory, as HOME is not set",
        p->packages[0]);
}

hd_error hd_xla_present(hd_device device) {
    char path[HD_XLA_PATH];
    HD_TRY(hd_xla_plugin_check_program());
    const hd_error status = hd_xla_plugin_find(device.kind, path); /* the first error is the one that is kept */
    for (int kind = HD_DEVICE_CPU; status != HD_OK && kind < HD_DEVICE_KINDS; ++kind) {
        if (hd_xla_plugin_find((hd_device_kind)kind, path) != HD_OK) continue;
        hd_error_copy forgotten;
        hd_error_take(&forgotten);
        return HD_OK;
    }
    return status;
}

hd_error hd_xla_available(hd_device device) {
    char path[HD_XLA_PATH], reason[HD_DEVICE_REASON];
    HD_TRY(check_kind(device));
    HD_TRY(hd_xla_plugin_check_program());
    const char *absent = hd_device_absent(reason, device); /* a plugin would be of no use */
    if (absent != NULL)
        return hd_fail(HD_ERROR_DEVICE, "XLA does not run on %s: %s", hd_device_text((char[32]){0}, device), absent);
    return hd_xla_plugin_find(device.kind, path);
}
