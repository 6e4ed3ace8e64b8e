/* XLA's plugins: finding one, opening it, and its functions, each of which is known to be there before it is called. */
#ifndef HD_XLA_PLUGIN_H
#define HD_XLA_PLUGIN_H

#include "core/error.h"
#include "xla/pjrt.h"

enum { HD_XLA_PATH = 4096 };

typedef struct hd_xla_plugin {
    char identity[HD_XLA_PATH + 256]; /* file and versions: what was compiled by another one is of no use */
    int major, minor;                 /* of the interface */
    int64_t stablehlo[3];             /* the newest version of StableHLO that it reads; zeros: it does not say */
    void (*error_destroy)(hd_pjrt_error_destroy *);
    void (*error_message)(hd_pjrt_error_message *);
#define HD_XLA_FIELD(place, name, full_name) hd_pjrt_error *(*name)(hd_pjrt_##name *);
    HD_PJRT_NEEDED(HD_XLA_FIELD)
    HD_PJRT_OPTIONAL(HD_XLA_FIELD) /* NULL when the plugin has none */
#undef HD_XLA_FIELD
} hd_xla_plugin;

/* Where the plugin for a kind of device is: HODU_XLA_PLUGIN_CPU (or _CUDA), HODU_XLA_PLUGIN, the user's data directory,
 * installed Python packages. Not there: an error that says how to get it. */
hd_error hd_xla_plugin_find(hd_device_kind kind, char path[HD_XLA_PATH]);
/* The one command that installs it. */
const char *hd_xla_plugin_remedy(hd_device_kind kind);

/* Checks that this program may open one at all. */
hd_error hd_xla_plugin_check_program(void);
/* Opens the file, which stays open until the process ends, and checks that it is a plugin we can use. */
hd_error hd_xla_plugin_open(hd_device_kind kind, const char *path, hd_xla_plugin *out);

/* HD_OK for NULL. Else the error becomes the thread's, "<what was done>: <what XLA says>", and is destroyed. */
hd_error hd_xla_check(const hd_xla_plugin *plugin, hd_pjrt_error *error, const char *what);
/* Destroys an error that is of no interest; true when there was none. */
bool hd_xla_went_well(const hd_xla_plugin *plugin, hd_pjrt_error *error);

#endif
