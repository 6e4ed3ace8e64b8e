/* Runs StableHLO text through a PJRT plugin: as little of its C interface as that takes. HODU_XLA_PLUGIN says where it is. */
#ifndef HD_TESTS_XLA_RUN_TEXT_H
#define HD_TESTS_XLA_RUN_TEXT_H

#include "builders.h"
#include "core/storage.h"
#include "xla/emit.h"

#include <dlfcn.h>

/* ---- the interface: a table of functions, each of which takes one struct --------------------------------------------------------- */
enum {
    AT_ERROR_DESTROY = 40,
    AT_ERROR_MESSAGE = 48,
    AT_INITIALIZE = 64,
    AT_EVENT_DESTROY = 80,
    AT_EVENT_AWAIT = 104,
    AT_CLIENT = 120,
    AT_DEVICES = 168,
    AT_COMPILE = 200,
    AT_BUFFER = 216,
    AT_EXECUTABLE_DESTROY = 440,
    AT_EXECUTE = 480,
    AT_BUFFER_DESTROY = 504,
    AT_TO_HOST = 600
};
#define HEAD                                                                                                           \
    size_t size;                                                                                                       \
    void *extension
typedef struct one_args {
    HEAD;
    void *object;
} one_args;
typedef struct message_args {
    HEAD;
    void *error;
    const char *message;
    size_t bytes;
} message_args;
typedef struct named_value {
    HEAD;
    const char *name;
    size_t name_bytes;
    int type;
    int64_t value;
    size_t value_size;
} named_value;
typedef struct client_args {
    HEAD;
    const named_value *options;
    size_t count;
    void *unused[4], *client, *more[2];
} client_args;
typedef struct devices_args {
    HEAD;
    void *client;
    void *const *devices;
    size_t count;
} devices_args;
typedef struct plugin_program {
    HEAD;
    char *code;
    size_t code_bytes;
    const char *format;
    size_t format_bytes;
} plugin_program;
typedef struct compile_args {
    HEAD;
    void *client;
    const plugin_program *program;
    const char *options;
    size_t option_bytes;
    void *executable;
} compile_args;
typedef struct buffer_args {
    HEAD;
    void *client;
    const void *data;
    int type;
    const int64_t *sizes;
    size_t rank;
    const int64_t *strides;
    size_t stride_count;
    int semantics;
    void *device, *memory, *layout, *done, *buffer;
} buffer_args;
typedef struct execute_options {
    HEAD;
    void *fields[18];
} execute_options;
typedef struct execute_args {
    HEAD;
    void *executable;
    execute_options *options;
    void *const *const *arguments;
    size_t device_count, argument_count;
    void **const *results;
    void **done;
    void *device;
} execute_args;
typedef struct to_host_args {
    HEAD;
    void *buffer, *layout, *to;
    size_t bytes;
    void *done;
} to_host_args;

static const char *plugin; /* its table */
static void *client, *device;

/* Calls a function of the table; "" or what it says went wrong. */
static inline const char *plugin_call(int at, void *arguments) {
    static char why[2048];
    void *error = (*(void *(*const *)(void *))(plugin + at))(arguments);
    if (error == NULL) return "";
    message_args m = {.size = 40, .error = error};
    (*(void (*const *)(void *))(plugin + AT_ERROR_MESSAGE))(&m);
    snprintf(why, sizeof why, "%.*s", (int)m.bytes, m.message);
    (*(void (*const *)(void *))(plugin + AT_ERROR_DESTROY))(&(one_args){.size = 24, .object = error});
    return why;
}
static inline void must(int at, void *arguments) {
    const char *why = plugin_call(at, arguments);
    if (why[0] != '\0') fail_msg("the plugin says: %s", why);
}
static inline void awaited(void *event) {
    if (event == NULL) return;
    must(AT_EVENT_AWAIT, &(one_args){.size = 24, .object = event});
    must(AT_EVENT_DESTROY, &(one_args){.size = 24, .object = event});
}

/* The plugin is there; false: nothing says where. */
static inline bool plugin_ready(void) {
    const char *path = getenv("HODU_XLA_PLUGIN");
    if (plugin != NULL) return true;
    if (path == NULL || path[0] == '\0') {
        print_message("HODU_XLA_PLUGIN is not set: nothing is run\n");
        return false;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) fail_msg("%s", dlerror());
    plugin = (*(const char *(**)(void))(&(void *){dlsym(library, "GetPjrtApi")}))();
    must(AT_INITIALIZE, &(one_args){.size = 16});
    const named_value one_device = {
        .size = 56, .name = "cpu_device_count", .name_bytes = 16, .type = 1, .value = 1, .value_size = 1};
    client_args c = {.size = 88, .options = &one_device, .count = 1};
    must(AT_CLIENT, &c);
    devices_args d = {.size = 40, .client = c.client};
    must(AT_DEVICES, &d);
    client = c.client;
    device = d.devices[0];
    return true;
}

static inline int plugin_type(hd_dtype dtype) {
    static const int types[HD_DTYPE_COUNT] = {
        [HD_BOOL] = 1, [HD_I8] = 2,   [HD_I16] = 3,   [HD_I32] = 4,     [HD_I64] = 5,
        [HD_U8] = 6,   [HD_U16] = 7,  [HD_U32] = 8,   [HD_U64] = 9,     [HD_F16] = 10,
        [HD_F32] = 11, [HD_F64] = 12, [HD_BF16] = 13, [HD_F8E5M2] = 16, [HD_F8E4M3] = 17};
    return types[dtype];
}

static inline void *uploaded(const void *data, hd_dtype dtype, const hd_shape *shape) {
    buffer_args b = {.size = 120,
                     .client = client,
                     .data = data != NULL ? data : "",
                     .type = plugin_type(dtype),
                     .sizes = shape->size,
                     .rank = (size_t)shape->rank,
                     .device = device};
    must(AT_BUFFER, &b);
    awaited(b.done);
    return b.buffer;
}

static inline hd_tensor *downloaded(void *buffer, hd_dtype dtype, const hd_shape *shape) {
    const size_t bytes = (size_t)hd_shape_count(*shape) * hd_dtype_size(dtype);
    void *to = malloc(bytes + 64);
    to_host_args a = {.size = 56, .buffer = buffer, .to = to, .bytes = bytes};
    if (bytes > 0) {
        must(AT_TO_HOST, &a);
        awaited(a.done);
    }
    must(AT_BUFFER_DESTROY, &(one_args){.size = 24, .object = buffer});
    hd_tensor *t = hd_from_data(to, *shape, dtype);
    free(to);
    return t;
}

/* ---- a graph's text --------------------------------------------------------------------------------------------------------------- */
typedef struct text_run {
    hd_tensor *const *inputs;
    hd_storage *const *cells;
    uint64_t seed, draw;
} text_run;

/* Compiles and runs; results[i] is result i, a new tensor. */
static inline void run_text(hd_thread *thread, const hd_graph *g, const hd_stablehlo *s, const text_run *run,
                            hd_tensor **results, const char *what) {
    static const char options[6] = {0x1A, 4, 0x20, 1, 0x28, 1};
    const plugin_program p = {.size = 48, .code = s->text, .code_bytes = s->bytes, .format = "mlir", .format_bytes = 4};
    compile_args c = {.size = 56, .client = client, .program = &p, .options = options, .option_bytes = 6};
    const char *why = plugin_call(AT_COMPILE, &c);
    if (why[0] != '\0') fail_msg("%s does not compile: %s\n%s", what, why, s->bytes < 20000 ? s->text : "");
    void **arguments = calloc(s->argument_count + 1, sizeof *arguments),
         **out = calloc(s->result_count + 1, sizeof *out);
    for (uint32_t i = 0; i < s->argument_count; ++i) {
        const hd_hlo_argument *a = &s->arguments[i];
        const hd_shape scalar = {.rank = 0}, shape = a->node == HD_NO_NODE ? scalar : hd_node_shape(g, a->node);
        const hd_dtype dtype = a->node == HD_NO_NODE ? HD_U64 : (hd_dtype)g->nodes[a->node].dtype;
        const void *data =
            a->kind == HD_HLO_SEED   ? (const void *)&run->seed
            : a->kind == HD_HLO_DRAW ? (const void *)&run->draw
            : a->kind == HD_HLO_INPUT
                ? hd_data(run->inputs[a->place], dtype)
                : hd_storage_bytes(
                      thread, a->kind == HD_HLO_CELL ? run->cells[a->place] : g->constants[a->place].storage, HD_READ);
        arguments[i] = uploaded(data, dtype, &shape);
    }
    void *const *lists[1] = {arguments};
    void **result_lists[1] = {out}, *done[1] = {NULL};
    execute_options o = {.size = sizeof o};
    execute_args e = {.size = 80,
                      .executable = c.executable,
                      .options = &o,
                      .arguments = lists,
                      .device_count = 1,
                      .argument_count = s->argument_count,
                      .results = result_lists,
                      .done = done};
    must(AT_EXECUTE, &e);
    awaited(done[0]);
    for (uint32_t i = 0; i < s->result_count; ++i) {
        const hd_hlo_result *r = &s->results[i];
        const hd_shape three = {.rank = 1, .size = {3}},
                       shape = r->node == HD_NO_NODE ? three : hd_node_shape(g, r->node);
        results[i] = downloaded(out[i], r->node == HD_NO_NODE ? HD_I64 : (hd_dtype)g->nodes[r->node].dtype, &shape);
    }
    for (uint32_t i = 0; i < s->argument_count; ++i)
        must(AT_BUFFER_DESTROY, &(one_args){.size = 24, .object = arguments[i]});
    must(AT_EXECUTABLE_DESTROY, &(one_args){.size = 24, .object = c.executable});
    free(arguments);
    free(out);
}

#endif
