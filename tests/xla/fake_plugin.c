/* A plugin that is wrong in the way that FAKE_PJRT says, for test_plugin.c: what is not wrong works as far as a
 * client. */
#include "xla/pjrt.h"

#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 100 };
static struct {
    size_t struct_size;
    void *extensions;
    size_t version_size;
    void *version_extensions;
    int major, minor;
    void *entries[ENTRIES];
} table;
_Static_assert(offsetof(__typeof__(table), entries) == HD_PJRT_FIRST_ENTRY, "laid out like the table of PJRT");

static bool is_wrong(const char *how) {
    const char *wish = getenv("FAKE_PJRT");
    return wish != NULL && strcmp(wish, how) == 0;
}

/* An error is any address but NULL. */
static hd_pjrt_error *the_error(void) { return (hd_pjrt_error *)&table; }
static void error_destroy(hd_pjrt_error_destroy *a) { (void)a; }
static void error_message(hd_pjrt_error_message *a) {
    a->message = "all is lost\n";
    a->message_size = 12;
}
static hd_pjrt_error *error_code(hd_pjrt_error_code *a) {
    a->code = is_wrong("full") ? HD_PJRT_RESOURCE_EXHAUSTED : HD_PJRT_UNAVAILABLE;
    return NULL;
}
static hd_pjrt_error *initialize(hd_pjrt_initialize *a) {
    (void)a;
    return is_wrong("sad") || is_wrong("full") ? the_error() : NULL;
}
static hd_pjrt_error *attributes(hd_pjrt_attributes *a) {
    static const int64_t version[] = {1, 2, 3};
    static const hd_pjrt_named all[] = {{.struct_size = sizeof(hd_pjrt_named),
                                         .name = "stablehlo_current_version",
                                         .name_size = 25,
                                         .type = HD_PJRT_INT64_LIST,
                                         .integers = version,
                                         .value_size = 3}};
    a->attributes = all;
    a->count = 1;
    return NULL;
}
static hd_pjrt_error *client_create(hd_pjrt_client_create *a) {
    a->client = is_wrong("clientless") ? NULL : (hd_pjrt_client *)&table;
    return NULL;
}
static hd_pjrt_error *client_destroy(hd_pjrt_client_destroy *a) {
    (void)a;
    return NULL;
}
static hd_pjrt_error *platform_name(hd_pjrt_platform_name *a) {
    a->text = "toaster";
    a->text_size = 7;
    return NULL;
}
static hd_pjrt_error *anything_else(void *a) {
    (void)a;
    abort();
}

static void set(size_t place, void *function) { table.entries[place] = function; }
#define SET(place, function)                                                                                           \
    do {                                                                                                               \
        void *address;                                                                                                 \
        *(__typeof__(&function) *)&address = &function;                                                                \
        set(place, address);                                                                                           \
    } while (0)

const void *GetPjrtApi(void);
__attribute__((visibility("default"))) const void *GetPjrtApi(void) {
    if (is_wrong("null")) return NULL;
    table.struct_size = sizeof table;
    table.version_size = 24;
    table.major = is_wrong("next") ? 1 : 0;
    table.minor = is_wrong("old") ? 56 : 81;
    for (size_t i = 0; i < ENTRIES; ++i) SET(i, anything_else);
    SET(HD_PJRT_ERROR_DESTROY, error_destroy);
    SET(HD_PJRT_ERROR_MESSAGE, error_message);
    SET(2, error_code);
    SET(3, initialize);
    SET(4, attributes);
    SET(10, client_create);
    SET(11, client_destroy);
    SET(12, platform_name);
    if (is_wrong("tiny")) table.struct_size = 16;
    if (is_wrong("short")) table.struct_size = HD_PJRT_FIRST_ENTRY + 8 * 55;
    if (is_wrong("hole")) set(22, NULL);
    if (is_wrong("plain")) set(49, NULL), set(56, NULL), set(73, NULL), set(96, NULL);
    return &table;
}
