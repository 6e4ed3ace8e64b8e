/* Opening a plugin. Everything that could differ from what we expect is looked at first, since a wrong call would
 * end the process: that it has GetPjrtApi, its version, the size of its table, and every entry that is used. */
#include "xla/plugin.h"
#include "core/environment.h"
#include "core/memory.h"
#include "core/os_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef const hd_pjrt_api *(*get_api)(void);

/* ---- XLA's log --------------------------------------------------------------------------------------------------- */
/* XLA writes to stderr what its environment variable does not hide, beginning with two lines for every client. Level
 * 3 leaves what it says before it ends the process; other errors come back to us. setenv could free the array that
 * getenv walks in another thread; so the environment becomes a new array, and neither it nor the old one is ever
 * freed. */
static void hide_log(void) {
    static char level[] = "TF_CPP_MIN_LOG_LEVEL=3";
    static char **mine;
    if (hd_environment_flag("HODU_XLA_LOG", false) || hd_environment("TF_CPP_MIN_LOG_LEVEL") != NULL || mine != NULL)
        return;
    char **const environment = hd_os_environment();
    size_t count = 0;
    while (environment != NULL && environment[count] != NULL) count++;
    mine = hd_array_resize(NULL, (count + 2) * sizeof *mine);
    if (mine != NULL) hd_os_environment_extend(mine, count, level); /* else there are two lines on stderr */
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */
static hd_error code_of(const hd_xla_plugin *p, const hd_pjrt_error *error) {
    hd_pjrt_error_code c = HD_PJRT(hd_pjrt_error_code, .error = error);
    if (!hd_xla_went_well(p, p->error_code(&c))) return HD_ERROR_INTERNAL;
    switch (c.code) {
    case HD_PJRT_RESOURCE_EXHAUSTED: return HD_ERROR_MEMORY;
    case HD_PJRT_INVALID_ARGUMENT: return HD_ERROR_VALUE;
    case HD_PJRT_OUT_OF_RANGE: return HD_ERROR_INDEX;
    case HD_PJRT_FAILED_PRECONDITION: return HD_ERROR_STATE;
    case HD_PJRT_UNIMPLEMENTED:
    case HD_PJRT_UNAVAILABLE: return HD_ERROR_DEVICE;
    default: return HD_ERROR_INTERNAL;
    }
}

bool hd_xla_went_well(const hd_xla_plugin *p, hd_pjrt_error *error) {
    if (error == NULL) return true;
    p->error_destroy(&HD_PJRT(hd_pjrt_error_destroy, .error = error));
    return false;
}

/* On one line, without what is white at the end. */
static void take_message(const hd_xla_plugin *p, const hd_pjrt_error *error, char *out, size_t capacity) {
    hd_pjrt_error_message m = HD_PJRT(hd_pjrt_error_message, .error = error);
    p->error_message(&m);
    size_t length = m.message == NULL ? 0 : m.message_size < capacity ? m.message_size : capacity - 1;
    while (length > 0 && (m.message[length - 1] == '\n' || m.message[length - 1] == ' ')) length--;
    for (size_t i = 0; i < length; ++i) out[i] = m.message[i] == '\n' ? ' ' : m.message[i];
    out[length] = '\0';
}

hd_error hd_xla_check(const hd_xla_plugin *p, hd_pjrt_error *error, const char *what) {
    if (__builtin_expect(error == NULL, 1)) return HD_OK;
    char message[384]; /* leaves room for where it is: see hd_stablehlo_name_node */
    take_message(p, error, message, sizeof message);
    const hd_error code = hd_fail(code_of(p, error), "%s: %s", what, message);
    hd_xla_went_well(p, error);
    return code;
}

/* ---- the checks -------------------------------------------------------------------------------------------------- */
hd_error hd_xla_plugin_check_program(void) {
    if (!hd_os_has_loader()) /* no loader: dlopen would bring a second C library, and crash in it */
        return hd_fail(HD_ERROR_DEVICE, "a statically linked program cannot open XLA's plugin");
    if (!hd_environment_is_trusted()) /* XLA_FLAGS, for one, names files that XLA writes */
        return hd_fail(HD_ERROR_DEVICE, "a program that runs with more rights than its caller (set-uid) does not open "
                                        "XLA's plugin, which reads variables of the caller's environment itself");
    return HD_OK;
}

static hd_error open_library(const char *path, const char *remedy, void **library) {
    HD_TRY(hd_xla_plugin_check_program());
    hide_log();
    char why[256];
    *library = hd_os_library_open(path, why, sizeof why);
    if (*library != NULL) return HD_OK;
    return hd_fail(HD_ERROR_DEVICE,
                   "%.150s cannot be opened as a library (%.200s); expected XLA's plugin, which %s installs", path, why,
                   remedy);
}

static hd_error get_table(const char *path, const char *remedy, void *library, const hd_pjrt_api **out) {
    get_api get;
    *(void **)&get = hd_os_library_symbol(library, "GetPjrtApi");
    if (get == NULL) {
        hd_os_library_close(library);
        return hd_fail(HD_ERROR_DEVICE,
                       "%.250s is a library without GetPjrtApi; expected a PJRT plugin of XLA, which %s installs", path,
                       remedy);
    }
    const hd_pjrt_api *api = *out = get(); /* from here on it stays open: plugins have threads */
    if (api == NULL)
        return hd_fail(HD_ERROR_DEVICE, "%.250s: GetPjrtApi gives no table; %s installs a plugin that does", path,
                       remedy);
    if (api->struct_size < HD_PJRT_FIRST_ENTRY)
        return hd_fail(HD_ERROR_DEVICE,
                       "%.250s: its PJRT table is %zu bytes, expected %d and more; %s installs another", path,
                       api->struct_size, HD_PJRT_FIRST_ENTRY, remedy);
    if (api->version.major != HD_PJRT_MAJOR || api->version.minor < HD_PJRT_LEAST_MINOR)
        return hd_fail(HD_ERROR_DEVICE, "%.250s has PJRT %d.%d, expected %d.%d or a later %d; %s installs one", path,
                       api->version.major, api->version.minor, HD_PJRT_MAJOR, HD_PJRT_LEAST_MINOR, HD_PJRT_MAJOR,
                       remedy);
    return HD_OK;
}

static void *entry(const hd_pjrt_api *api, size_t index) {
    const bool inside = api->struct_size >= HD_PJRT_FIRST_ENTRY + sizeof(void *) * (index + 1);
    return inside ? api->entries[index] : NULL;
}

static hd_error take_entries(const char *path, const char *remedy, const hd_pjrt_api *api, hd_xla_plugin *out) {
    const char *missing = NULL;
#define OPTIONAL(index, name, full_name) *(void **)&out->name = entry(api, index);
#define NEEDED(index, name, full_name)                                                                                 \
    OPTIONAL(index, name, full_name)                                                                                   \
    if (out->name == NULL && missing == NULL) missing = full_name;
    NEEDED(HD_PJRT_ERROR_DESTROY, error_destroy, "PJRT_Error_Destroy")
    NEEDED(HD_PJRT_ERROR_MESSAGE, error_message, "PJRT_Error_Message")
    HD_PJRT_NEEDED(NEEDED)
    HD_PJRT_OPTIONAL(OPTIONAL)
#undef NEEDED
#undef OPTIONAL
    if (missing == NULL) return HD_OK;
    return hd_fail(HD_ERROR_DEVICE,
                   "%.250s (PJRT %d.%d, a table of %zu bytes) has no %s; %s installs a plugin that has", path,
                   api->version.major, api->version.minor, api->struct_size, missing, remedy);
}

/* ---- what it says of itself -------------------------------------------------------------------------------------- */
static hd_error read_attributes(hd_xla_plugin *p) {
    static const char name[] = "stablehlo_current_version";
    hd_pjrt_attributes a = HD_PJRT(hd_pjrt_attributes, );
    HD_TRY(hd_xla_check(p, p->attributes(&a), "XLA's plugin does not say its versions"));
    for (size_t i = 0; i < a.count; ++i) {
        const hd_pjrt_named *n = &a.attributes[i];
        if (n->type == HD_PJRT_INT64_LIST && n->value_size == 3 && n->name_size == sizeof name - 1 &&
            memcmp(n->name, name, n->name_size) == 0)
            memcpy(p->stablehlo, n->integers, sizeof p->stablehlo);
    }
    return HD_OK;
}

static void identify(const char *path, hd_xla_plugin *p) {
    char real[HD_OS_PATH];
    hd_os_status status = {0};
    if (!hd_os_real_path(path, real) || !hd_os_status_at(real, &status)) snprintf(real, sizeof real, "%s", path);
    snprintf(p->identity, sizeof p->identity, "%s %lld %lld.%09ld pjrt %d.%d stablehlo %lld.%lld.%lld", real,
             (long long)status.bytes, (long long)(status.changed / 1000000000), (long)(status.changed % 1000000000),
             p->major, p->minor, (long long)p->stablehlo[0], (long long)p->stablehlo[1], (long long)p->stablehlo[2]);
}

hd_error hd_xla_plugin_open(hd_device_kind kind, const char *path, hd_xla_plugin *out) {
    const char *remedy = hd_xla_plugin_remedy(kind);
    void *library = NULL;
    const hd_pjrt_api *api = NULL;
    *out = (hd_xla_plugin){0};
    HD_TRY(open_library(path, remedy, &library));
    HD_TRY(get_table(path, remedy, library, &api));
    HD_TRY(take_entries(path, remedy, api, out));
    out->major = api->version.major;
    out->minor = api->version.minor;
    HD_TRY(hd_xla_check(out, out->initialize(&HD_PJRT(hd_pjrt_initialize, )), "XLA's plugin does not start"));
    HD_TRY(read_attributes(out));
    identify(path, out);
    return HD_OK;
}
