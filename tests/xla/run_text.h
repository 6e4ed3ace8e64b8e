/* Runs the StableHLO text of a graph through the plugin that is found; without one, tests that need it are skipped. */
#ifndef HD_TESTS_XLA_RUN_TEXT_H
#define HD_TESTS_XLA_RUN_TEXT_H

#include "builders.h"
#include "core/storage.h"
#include "xla/client.h"
#include "xla/emit.h"

static hd_xla_device *plugin_device;

/* There is a plugin to run texts with. */
static inline bool plugin_ready(void) {
    if (plugin_device == NULL) plugin_device = hd_xla_device_of(hd_cpu());
    if (plugin_device != NULL) return true;
    print_message("nothing is run: %s\n", hd_error_message());
    hd_error_clear();
    return false;
}

/* What a run of a graph is given. */
typedef struct text_run {
    hd_tensor *const *inputs;
    hd_storage *const *cells;
    uint64_t seed, draw;
} text_run;

static inline hd_xla_type type_of(const hd_graph *g, uint32_t node, hd_dtype dtype, hd_shape shape) {
    if (node == HD_NO_NODE) return (hd_xla_type){dtype, shape};
    return (hd_xla_type){(hd_dtype)g->nodes[node].dtype, hd_node_shape(g, node)};
}

static inline const void *argument_data(hd_thread *thread, const hd_graph *g, const hd_hlo_argument *a,
                                        const text_run *run) {
    switch (a->kind) {
    case HD_HLO_SEED: return &run->seed;
    case HD_HLO_DRAW: return &run->draw;
    case HD_HLO_INPUT: return hd_data(run->inputs[a->index], hd_tensor_dtype(run->inputs[a->index]));
    case HD_HLO_CELL: return hd_storage_bytes(thread, run->cells[a->index], HD_READ);
    case HD_HLO_CONSTANT: return hd_storage_bytes(thread, g->constants[a->index].storage, HD_READ);
    }
    return NULL;
}

/* Compiles and runs; results[i] is result i, a new tensor. */
static inline void run_text(hd_thread *thread, const hd_graph *g, const hd_stablehlo *s, const text_run *run,
                            hd_tensor **results, const char *what) {
    const uint32_t count = s->argument_count;
    hd_xla_parameter *parameters = calloc(count + 1, sizeof *parameters);
    hd_xla_buffer *buffers = calloc(count + 1, sizeof *buffers), **arguments = calloc(count + 1, sizeof *arguments),
                  *outputs = calloc(s->result_count + 1, sizeof *outputs);
    for (uint32_t i = 0; i < count; ++i) {
        parameters[i].type = type_of(g, s->arguments[i].node, HD_U64, HD_SHAPE());
        parameters[i].donated = s->arguments[i].result >= 0;
        hd_xla_buffer_make(plugin_device, &parameters[i].type, argument_data(thread, g, &s->arguments[i], run),
                           HD_XLA_COPY, &buffers[i]);
        arguments[i] = &buffers[i];
    }
    hd_xla_program *p = hd_ok() ? hd_xla_compile(plugin_device, s->text, s->bytes, parameters, (int)count) : NULL;
    if (p == NULL || hd_xla_run(p, arguments, (int)count, outputs, NULL) != HD_OK)
        fail_msg("%s: %s\n%s", what, hd_error_message(), s->bytes < 20000 ? s->text : "");
    assert_int_equal(p->output_count, s->result_count);
    for (uint32_t i = 0; i < s->result_count; ++i) {
        const hd_xla_type type = type_of(g, s->results[i].node, HD_I64, HD_SHAPE(3));
        const size_t bytes = (size_t)hd_shape_count(type.shape) * hd_dtype_size(type.dtype);
        void *to = malloc(bytes + 1);
        assert_true(hd_xla_type_equal(&type, &p->outputs[i]));
        hd_xla_buffer_read(&outputs[i], to, bytes);
        results[i] = hd_from_data(to, type.shape, type.dtype);
        free(to);
        hd_xla_buffer_destroy(&outputs[i]);
    }
    assert_ok();
    for (uint32_t i = 0; i < count; ++i) hd_xla_buffer_destroy(&buffers[i]);
    hd_xla_program_release(p);
    free(parameters);
    free(buffers);
    free(arguments);
    free(outputs);
}

#endif
