/* hd_script_check: what was compiled against O0 on the CPU. */
#include "ops/op.h"
#include "core/device.h"
#include "graph/pass.h"
#include "script/script.h"

#include <math.h>

static bool is_compared(const hd_node *n) { return hd_node_is_call(n) && hd_dtype_is_float((hd_dtype)n->dtype); }

/* The graph with other outputs: every node from `first` to `last` whose value is a float. */
static hd_graph *with_outputs(hd_thread *thread, const hd_graph *g, uint32_t first, uint32_t last) {
    uint32_t *map;
    hd_graph *out = hd_graph_like(thread, g, &map);
    for (uint32_t i = 0; out != NULL && i < g->node_count && thread->error_code == HD_OK; ++i) {
        const hd_node *n = &g->nodes[i];
        if (map[i] == HD_NO_NODE) map[i] = hd_copy_mapped(out, g, i, map);
        if (map[i] != HD_NO_NODE && i >= first && i <= last && is_compared(n))
            hd_graph_add_output(out, hd_node_name(n), map[i]);
    }
    hd_array_release(map);
    if (thread->error_code == HD_OK) return out;
    hd_graph_release(thread, out);
    return NULL;
}

/* The node that is output `at` of it. */
static int64_t node_of_output(const hd_graph *g, uint32_t first, int64_t at) {
    for (uint32_t i = first; i < g->node_count; ++i)
        if (is_compared(&g->nodes[i]) && at-- == 0) return i;
    return -1;
}

/* Runs a graph with the script's inputs and state, which stays as it is; fills `outputs` with new references. */
static hd_error run_at(hd_thread *thread, const hd_script *s, hd_graph *g, hd_compiler compiler, hd_device device,
                       hd_optimization_level level, hd_tensor **outputs) {
    struct hd_undo *undo = thread->undo;
    thread->undo = NULL; /* what is written is memory of its own */
    hd_executable *e = hd_compiler_compile(compiler, thread, g, device, level, s->carried);
    thread->undo = undo;
    if (e == NULL) return thread->error_code;
    hd_tensor **inputs = hd_array_resize(NULL, (g->input_count + 1) * sizeof *inputs);
    if (inputs == NULL) hd_fail(HD_ERROR_MEMORY, "no memory for %u inputs", g->input_count);
    for (uint32_t i = 0; inputs != NULL && i < g->input_count && thread->error_code == HD_OK; ++i)
        inputs[i] = hd_contiguous(s->inputs[i]);
    const hd_run run = {.inputs = inputs,
                        .cells = s->cells,
                        .seed = hd_generator_seed(NULL),
                        .draw = hd_generator_draw(NULL),
                        .keep_state = true,
                        .outputs = outputs};
    thread->undo = NULL;
    if (thread->error_code == HD_OK) e->run(e, thread, &run);
    thread->undo = undo;
    hd_array_release(inputs);
    e->destroy(e, thread);
    return thread->error_code;
}

/* The largest difference of two values, and that relative to the largest element. */
static void compare_values(hd_tensor *a, hd_tensor *b, double *difference, double *relative) {
    hd_tensor *x = hd_cast(hd_to(a, hd_cpu()), HD_F64), *y = hd_cast(hd_to(b, hd_cpu()), HD_F64);
    hd_tensor *same = hd_logical_or(hd_eq(x, y), hd_logical_and(hd_isnan(x), hd_isnan(y)));
    hd_tensor *apart = hd_where(same, hd_number(HD_F64, 0), hd_abs(hd_sub(x, y)));
    *difference = *relative = 0;
    if (hd_tensor_count(x) == 0) return;
    *difference = hd_item(hd_max(apart, HD_AXES(), NULL)); /* NaN where only one is */
    const double largest = hd_item(hd_max(hd_abs(y), HD_AXES(), NULL));
    *relative = *difference == 0 ? 0 : largest > 0 ? *difference / largest : INFINITY;
}

/* Compares all outputs of a graph by HODU at O0 on the CPU and by the script's compiler at its level; *first is the
 * first that differs. */
static hd_error compare_levels(hd_thread *thread, const hd_script *s, hd_graph *g, hd_script_check_result *result,
                               int64_t *first) {
    const size_t bytes = (g->output_count + 1) * sizeof(hd_tensor *);
    hd_tensor **ours = hd_array_resize(NULL, bytes), **theirs = hd_array_resize(NULL, bytes);
    for (uint32_t i = 0; ours != NULL && theirs != NULL && i < g->output_count; ++i) ours[i] = theirs[i] = NULL;
    *first = -1;
    if (ours == NULL || theirs == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory to compare %u values", g->output_count);
    } else if (run_at(thread, s, g, s->compiler, s->device, s->level, ours) == HD_OK &&
               run_at(thread, s, g, HD_COMPILER_HODU, hd_cpu(), HD_O0, theirs) == HD_OK) {
        for (uint32_t i = 0; i < g->output_count && thread->error_code == HD_OK; ++i) {
            double difference, relative;
            compare_values(ours[i], theirs[i], &difference, &relative);
            if (difference != 0 && *first < 0) *first = i;
            if (difference > result->largest_difference || difference != difference)
                result->largest_difference = difference;
            if (relative > result->relative || relative != relative) result->relative = relative;
        }
    }
    for (uint32_t i = 0; ours != NULL && theirs != NULL && i < g->output_count; ++i) {
        hd_tensor_drop(thread, ours[i]);
        hd_tensor_drop(thread, theirs[i]);
    }
    hd_array_release(ours);
    hd_array_release(theirs);
    return thread->error_code;
}

/* The graph with its updates as outputs too. */
static hd_graph *with_updates(hd_thread *thread, const hd_graph *g) {
    uint32_t *map;
    hd_graph *out = hd_graph_like(thread, g, &map);
    for (uint32_t i = 0; out != NULL && i < g->node_count && thread->error_code == HD_OK; ++i)
        if (map[i] == HD_NO_NODE) map[i] = hd_copy_mapped(out, g, i, map);
    for (uint32_t i = 0; out != NULL && i < g->cell_count && thread->error_code == HD_OK; ++i)
        hd_graph_add_output(out, "update", map[g->cells[i].update]);
    return out == NULL ? NULL : hd_graph_finish(thread, out, g, map);
}

hd_script_check_result hd_script_check(hd_script *script) {
    hd_script_check_result result = {.node = -1};
    static const hd_script_check_result failed = {NAN, NAN, -1}; /* which is below no bound */
    HD_ENTER("hd_script_check", failed);
    if (hd_script_check_argument(script) != HD_OK) return failed;
    HD_USE(&script->object, false, failed);
    if (hd_script_check_eager(thread) != HD_OK || hd_script_check_inputs(script) != HD_OK) return failed;
    HD_NO_GRAD;
    hd_span span;
    hd_span_begin(&span, thread, "script_check");
    hd_graph *whole = with_updates(thread, script->graph);
    int64_t first = -1;
    if (whole != NULL) compare_levels(thread, script, whole, &result, &first);
    hd_graph_release(thread, whole);
    for (uint32_t begin = 0;
         first >= 0 && result.node < 0 && begin < script->graph->node_count && thread->error_code == HD_OK;
         begin += 256) { /* where does it arise? */
        hd_graph *part = with_outputs(thread, script->graph, begin, begin + 255);
        hd_script_check_result ignored = {0};
        int64_t at = -1;
        if (part != NULL && compare_levels(thread, script, part, &ignored, &at) == HD_OK && at >= 0)
            result.node = node_of_output(script->graph, begin, at);
        hd_graph_release(thread, part);
    }
    hd_span_end(&span, NULL);
    return thread->error_code == HD_OK ? result : failed;
}
