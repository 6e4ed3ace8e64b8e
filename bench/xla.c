/* Scripts under XLA: what we add to the plugin's own time, and how its time compares with JAX's, which is XLA too.
 *
 *   bare      the script's own program, run by the plugin without a script around it
 *   lowered   JAX's program for the same network (peers.py jax --lower), run by the same plugin likewise; with
 *             BENCH_LOWERED
 *
 * Every run is waited for: JAX's are too. */
#include "core/storage.h"
#include "script/script.h"
#include "xla/client.h"
#include "xla/emit.h"

#include "compare.h"

/* The script's result, which is there when this returns. */
static void run_and_wait(hd_script *s) {
    HD_SCOPE;
    hd_data_f32(hd_outputs_at(hd_script_run(s), 0));
}

static hd_script *under_xla(hd_script *s) {
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    return s;
}

/* ---- programs without a script ----------------------------------------------------------------------------------- */
enum { MOST = 32 }; /* arguments, and results */
typedef struct bare {
    hd_xla_program *program;
    hd_xla_buffer arguments[MOST];
    int replaced_by[MOST]; /* the result that takes an argument's place in the next run; -1: it stays */
} bare;

static bool bare_begin(bare *r, const char *text, size_t bytes, const hd_xla_type *types, const void *const *data,
                       const int *replaced_by, int count) {
    hd_xla_device *device = hd_xla_device_of(hd_cpu());
    hd_xla_parameter parameters[MOST];
    *r = (bare){0};
    if (device == NULL) return false;
    for (int i = 0; i < count; ++i) {
        parameters[i] = (hd_xla_parameter){types[i], replaced_by[i] >= 0};
        r->replaced_by[i] = replaced_by[i];
        hd_xla_buffer_make(device, &types[i], data[i], HD_XLA_COPY, &r->arguments[i]);
    }
    r->program = hd_ok() ? hd_xla_compile(device, text, bytes, parameters, count) : NULL;
    return r->program != NULL;
}

static void bare_end(bare *r) {
    for (int i = 0; i < MOST; ++i) hd_xla_buffer_destroy(&r->arguments[i]);
    hd_xla_program_release(r->program);
}

/* What anybody has to do: execute, wait for the first result, and give up what is not needed any more. */
static void bare_run(bare *r) {
    const hd_xla_plugin *p = &r->program->device->client->plugin;
    hd_pjrt_buffer *in[MOST], *out[MOST];
    for (int i = 0; i < r->program->parameter_count; ++i) in[i] = r->arguments[i].handle;
    hd_pjrt_execute_options options = HD_PJRT(hd_pjrt_execute_options, );
    hd_pjrt_execute execute =
        HD_PJRT(hd_pjrt_execute, .loaded = r->program->loaded, .options = &options,
                .arguments = (hd_pjrt_buffer *const *[]){in}, .device_count = 1,
                .argument_count = (size_t)r->program->parameter_count, .outputs = (hd_pjrt_buffer * *[]){out});
    if (hd_xla_check(p, p->execute(&execute), "a bare run") != HD_OK) return;
    hd_pjrt_buffer_event ready = HD_PJRT(hd_pjrt_buffer_event, .buffer = out[0]);
    hd_xla_check(p, p->buffer_event(&ready), "a bare run");
    hd_xla_check(p, p->event_await(&HD_PJRT(hd_pjrt_event_await, .event = ready.event)), "a bare run");
    hd_xla_check(p, p->event_destroy(&HD_PJRT(hd_pjrt_event_destroy, .event = ready.event)), "a bare run");
    for (int i = 0; i < r->program->parameter_count; ++i) {
        if (r->replaced_by[i] < 0) continue;
        hd_xla_check(p, p->buffer_destroy(&HD_PJRT(hd_pjrt_buffer_destroy, .buffer = in[i])), "a bare run");
        r->arguments[i].handle = out[r->replaced_by[i]];
        out[r->replaced_by[i]] = NULL;
    }
    for (int i = 0; i < r->program->output_count; ++i)
        if (out[i] != NULL)
            hd_xla_check(p, p->buffer_destroy(&HD_PJRT(hd_pjrt_buffer_destroy, .buffer = out[i])), "a bare run");
}

/* The program that the script runs, on what the script has. */
static bool bare_of_script(bare *r, hd_script *s) {
    hd_thread *thread = hd_thread_self();
    hd_stablehlo text;
    hd_xla_type types[MOST];
    const void *data[MOST];
    int replaced_by[MOST];
    hd_graph *g = hd_graph_simplify(thread, s->graph);
    if (g == NULL || hd_stablehlo_emit(thread, g, &text) != HD_OK || text.argument_count > MOST ||
        text.result_count > MOST)
        return false;
    for (uint32_t i = 0; i < text.argument_count; ++i) {
        const hd_hlo_argument *a = &text.arguments[i];
        hd_storage *storage = a->kind == HD_HLO_INPUT  ? s->inputs[a->index]->storage
                              : a->kind == HD_HLO_CELL ? s->cells[a->index]
                                                       : g->constants[a->index].storage;
        types[i] = (hd_xla_type){(hd_dtype)g->nodes[a->node].dtype, hd_node_shape(g, a->node)};
        data[i] = hd_storage_bytes(thread, storage, HD_READ);
        replaced_by[i] = a->result;
    }
    const bool begun = bare_begin(r, text.text, text.bytes, types, data, replaced_by, (int)text.argument_count);
    hd_stablehlo_release(&text);
    hd_graph_release(thread, g);
    return begun;
}

/* JAX's text for a network, or false, when there is none. */
static bool bare_of_jax(bare *r, const char *name, block s, hd_tensor *const *tensors, int count) {
    char path[4096];
    const char *folder = getenv("BENCH_LOWERED");
    snprintf(path, sizeof path, "%s/%s-%dx%dx%dx%d.mlir", folder != NULL ? folder : "", name, (int)s.batch, (int)s.in,
             (int)s.hidden, (int)s.out);
    FILE *file = folder != NULL ? fopen(path, "r") : NULL;
    if (file == NULL) return false;
    static char text[1 << 20];
    const size_t bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    hd_xla_type types[MOST];
    const void *data[MOST];
    int stays[MOST];
    for (int i = 0; i < count; ++i) {
        types[i] = (hd_xla_type){HD_F32, hd_tensor_shape(tensors[i])};
        data[i] = hd_data_f32(tensors[i]);
        stays[i] = -1;
    }
    return bare_begin(r, text, bytes, types, data, stays, count);
}

/* ---- what a script adds ------------------------------------------------------------------------------------------ */
/* The shortest sample of a lane, in seconds: what disturbs two lanes differently would be the whole of a small
 * difference. */
static double least(const bench_lane *lane) {
    double seconds = INFINITY;
    for (int i = 0; i < lane->samples; ++i) seconds = fmin(seconds, lane->sample[i]);
    return seconds;
}

static void time_overhead(bench *b, hd_script *s) {
    bare r;
    if (!bare_of_script(&r, under_xla(s))) return;
    while (bench_round(b)) {
        BENCH(b, "script") run_and_wait(s);
        BENCH(b, "bare") bare_run(&r);
    }
    bare_end(&r);
    if (!hd_ok()) return;
    bench_value(b, "hodu", least(bench_find(b, "script")) - least(bench_find(b, "bare")));
}

static void overhead_add(bench *b) {
    HD_SCOPE;
    hd_builder *builder = hd_builder_new("add");
    hd_builder_start(builder);
    hd_tensor *x = hd_input("x", HD_SHAPE(2, 3), HD_F32), *y = hd_input("y", HD_SHAPE(2, 3), HD_F32);
    hd_builder_add_output(builder, "z", hd_add(x, y));
    hd_builder_end(builder);
    hd_script *s = hd_builder_build(builder);
    hd_script_set_input(s, "x", hd_ones(HD_SHAPE(2, 3), HD_F32));
    hd_script_set_input(s, "y", hd_ones(HD_SHAPE(2, 3), HD_F32));
    time_overhead(b, s);
}

/* State that is donated: the weights, the bias, what the optimizer has. */
static void overhead_step(bench *b) {
    HD_SCOPE;
    const line l = make_line();
    time_overhead(b, line_script(&l, 1, true));
}

/* ---- networks ---------------------------------------------------------------------------------------------------- */
static void time_beside(bench *b, hd_script *script, bare *jax) {
    while (bench_round(b)) {
        BENCH(b, "hodu") run_and_wait(script);
        if (jax != NULL) BENCH(b, "lowered") bare_run(jax);
    }
    if (jax != NULL) bare_end(jax);
}

static void time_block(bench *b, block s) {
    HD_SCOPE;
    hd_tensor *list[BLOCK_WEIGHTS + 1] = {input_numbers(HD_SHAPE(s.batch, s.in), 1)};
    block_make_weights(s, list + 1);
    hd_script *script = under_xla(block_script(s, list + 1, list[0]));
    check_values(b, hd_outputs_at(hd_script_run(script), 0));
    bare jax;
    const int count = list[BLOCK_WEIGHTS] != NULL ? BLOCK_WEIGHTS + 1 : BLOCK_WEIGHTS;
    time_beside(b, script, bare_of_jax(&jax, "mlp", s, list, count) ? &jax : NULL);
}
static void mlp_small(bench *b) { time_block(b, block_small); }
static void mlp_middle(bench *b) { time_block(b, block_middle); }
static void mlp_large(bench *b) { time_block(b, block_large); }

static void time_training(bench *b, block s) {
    HD_SCOPE;
    hd_tensor *list[BLOCK_WEIGHTS + 2];
    block_make_weights(s, list);
    const int weights = list[BLOCK_WEIGHTS - 1] != NULL ? BLOCK_WEIGHTS : BLOCK_WEIGHTS - 1;
    hd_tensor *x = input_numbers(HD_SHAPE(s.batch, s.in), 1), *y = input_numbers(HD_SHAPE(s.batch, s.out), 2);
    hd_script *script = under_xla(block_training_script(s, list, x, y));
    check_training(b, s, script);
    list[weights] = x;
    list[weights + 1] = y;
    bare jax;
    time_beside(b, script, bare_of_jax(&jax, "mlp-train", s, list, weights + 2) ? &jax : NULL);
}
static void mlp_train_small(bench *b) { time_training(b, block_small); }
static void mlp_train_middle(bench *b) { time_training(b, block_middle); }
static void mlp_train_large(bench *b) { time_training(b, block_large); }

/* ---- on the way to a program ------------------------------------------------------------------------------------- */
/* The text of an unrolled training loop of 10^4 nodes, as they were recorded. */
static void emit_1e4(bench *b) {
    HD_SCOPE;
    enum { NODES = 10000 };
    const line l = make_line();
    const int64_t more =
        hd_script_stats(line_script(&l, 2, false)).nodes - hd_script_stats(line_script(&l, 1, false)).nodes;
    hd_script *s = line_script(&l, (int)(NODES / more + 1), false);
    hd_script_set_optimization_level(s, HD_O0);
    if (hd_script_stats(s).nodes < NODES) return;
    while (bench_round(b)) BENCH(b, "hodu") hd_script_format_stablehlo(s, NULL, 0);
}

/* From recording to code in place, nothing cached. */
static double unrolled_seconds(int epochs) {
    HD_SCOPE;
    const line l = make_line();
    const double begin = bench_now();
    hd_script_compile(under_xla(line_script(&l, epochs, false)));
    return bench_now() - begin;
}

static void unrolled_100(bench *b) {
    double sample[3];
    setenv("HODU_CACHE", "0", 1);
    for (int i = 0; i < 3 && hd_ok(); ++i) sample[i] = unrolled_seconds(100);
    qsort(sample, 3, sizeof *sample, bench_compare);
    if (hd_ok()) bench_value(b, "hodu", sample[1]);
}

static const bench_case cases[] = {
    {"xla/overhead-add-2x3", "us", overhead_add},
    {"xla/overhead-step", "us", overhead_step},
    {"xla/mlp-32x256x512x256", "us", mlp_small},
    {"xla/mlp-64x512x1024x512", "us", mlp_middle},
    {"xla/mlp-128x768x2048x1024", "us", mlp_large},
    {"xla/mlp-train-32x256x512x256", "us", mlp_train_small},
    {"xla/mlp-train-64x512x1024x512", "us", mlp_train_middle},
    {"xla/mlp-train-128x768x2048x1024", "us", mlp_train_large},
    {"xla/emit-1e4", "ms", emit_1e4},
    {"xla/unrolled-100", "ms", unrolled_100},
};

int main(int argc, char **argv) {
    if (hd_compiler_available(HD_COMPILER_XLA)) return bench_main(argc, argv, cases, sizeof cases / sizeof *cases);
    fputs("bench_xla: there is no XLA plugin, and nothing to measure; scripts/get-xla installs it\n", stderr);
    return 0;
}
