/* Devices of OpenCL: what a call costs the host beside its driver, a warm start, compiling, and the MLP block. On PoCL,
 * which is a processor, this says nothing about GPUs; without any driver there is no case. */
#include "harness.h"

#include "core/memory.h"
#include "device/opencl/opencl_device.h"

#include <unistd.h>

static const hd_device there = {HD_DEVICE_OPENCL, 0};

static const char text[] =
    "typedef struct { long offset[3]; long more[8]; } arguments_t;\n"
    "__kernel void add(__global char *a, __global char *b, __global char *c, const arguments_t s) {\n"
    "    const int i = get_global_id(0);\n"
    "    if (i < 6) ((__global float *)(c + s.offset[2]))[i] = ((__global float *)(a + s.offset[0]))[i] +\n"
    "                                                      ((__global float *)(b + s.offset[1]))[i];\n"
    "}\n";

/* The time of hd_add in which it is enqueued, beside that of enqueueing an equal kernel alone: the difference is what a
 * call costs by itself. */
static void eager_add(bench *b) {
    HD_SCOPE;
    hd_tensor *x = hd_to(hd_ones(HD_SHAPE(2, 3), HD_F32), there), *y = hd_add(x, x);
    hd_thread *thread = hd_thread_self();
    void *object = NULL;
    size_t bytes = 0;
    int64_t arguments[11] = {0};
    hd_block *blocks[3];
    void *buffers[3];
    hd_synchronize();
    if (hd_opencl_gpu.compile(0, "add", text, &object, &bytes) != HD_OK) exit(hd_exit_status());
    hd_gpu_program *program = hd_opencl_gpu.load(0, object, bytes);
    for (int i = 0; i < 3; ++i) {
        blocks[i] = hd_opencl_interface.allocate(thread, 0, 64);
        buffers[i] = blocks[i]->address;
    }
    const hd_gpu_launch l = {.function = hd_opencl_gpu.function(program, "add"),
                             .groups = {1, 1, 1},
                             .threads = {64, 1, 1},
                             .buffers = buffers,
                             .buffer_count = 3,
                             .arguments = arguments,
                             .argument_bytes = sizeof arguments};
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_add(x, y);
        }
        hd_synchronize();
        BENCH(b, "driver") hd_opencl_gpu.launch(0, &l);
        hd_synchronize();
    }
    for (int i = 0; i < 3; ++i) hd_block_release(thread, blocks[i]);
    hd_opencl_gpu.unload(program);
    hd_array_release(object);
}

/* That difference alone, which has the bar. */
static void eager_own(bench *b) {
    static bench both; /* too large for the stack */
    both = (bench){.name = b->name, .unit = "us", .seconds = b->seconds};
    eager_add(&both);
    if (!hd_ok()) return;
    const double call = bench_median(&both, bench_find(&both, "hodu"));
    bench_value(b, "hodu", (call - bench_median(&both, bench_find(&both, "driver"))) * 1e-6);
}

/* The MLP block of the other themes, as a script with its input. */
static hd_script *mlp_script(void) {
    hd_seed(1);
    hd_module *model = HD_SEQUENTIAL(hd_linear(256, 512, NULL), hd_gelu_layer(), hd_linear(512, 256, NULL));
    hd_tensor *x = hd_to(hd_randn(HD_SHAPE(32, 256), HD_F32), there);
    hd_builder *builder = hd_builder_new("mlp");
    hd_builder_start(builder);
    hd_builder_add_state_of(builder, model, NULL);
    hd_builder_add_output(builder, "y", hd_forward(model, hd_input("x", HD_SHAPE(32, 256), HD_F32)));
    hd_builder_end(builder);
    hd_script *script = hd_builder_build(builder);
    hd_script_set_device(script, there);
    hd_script_set_input(script, "x", x);
    return script;
}

static void mlp(bench *b) {
    HD_SCOPE;
    hd_script *script = mlp_script();
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_script_run(script);
            hd_synchronize();
        }
    }
}

/* ---- in processes of their own, whose driver is open ------------------------------------------------------------- */
/* The first call, and its result. */
static int first_call(void) {
    HD_SCOPE;
    hd_set_device(there);
    hd_tensor *x = hd_to(hd_ones(HD_SHAPE(4, 5), HD_F32), there);
    hd_synchronize();
    const double begin = bench_now();
    hd_item(hd_sum(hd_tanh(x), HD_AXES(), NULL));
    printf("%.6f\n", (bench_now() - begin) * 1e3);
    return hd_exit_status();
}

/* One kernel, and the wait for it. */
static int first_kernel(void) {
    HD_SCOPE;
    hd_tensor *x = hd_to(hd_ones(HD_SHAPE(4, 5), HD_F32), there);
    hd_synchronize();
    const double begin = bench_now();
    hd_tanh(x);
    hd_synchronize();
    printf("%.6f\n", (bench_now() - begin) * 1e3);
    return hd_exit_status();
}

/* The first run of a script. */
static int first_mlp(void) {
    HD_SCOPE;
    hd_set_device(there);
    hd_script *script = mlp_script();
    hd_synchronize();
    const double begin = bench_now();
    hd_script_run(script);
    hd_synchronize();
    printf("%.6f\n", (bench_now() - begin) * 1e3);
    return hd_exit_status();
}

/* The shortest of so many processes, in seconds; each prints its milliseconds. */
static double shortest_of(int count, const char *environment, const char *what) {
    char self[4000], command[4400], line[64];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    double shortest = INFINITY;
    self[length > 0 ? length : 0] = '\0';
    snprintf(command, sizeof command, "%s '%s' %s", environment, self, what);
    for (int i = 0; i < count; ++i) {
        FILE *child = popen(command, "r");
        if (child == NULL || fgets(line, sizeof line, child) == NULL) exit(1);
        pclose(child);
        if (atof(line) < shortest) shortest = atof(line);
    }
    return shortest * 1e-3;
}

static void warm_start(bench *b) {
    shortest_of(1, "", "--first-call"); /* fills the cache */
    bench_value(b, "hodu", shortest_of(7, "", "--first-call"));
}

/* With no cache: neither ours, nor those of drivers that have one. */
static const char cold[] = "HODU_CACHE=0 POCL_KERNEL_CACHE=0 CUDA_CACHE_DISABLE=1";
static void compile_kernel(bench *b) { bench_value(b, "hodu", shortest_of(3, cold, "--first-kernel")); }
static void compile_mlp(bench *b) { bench_value(b, "hodu", shortest_of(1, cold, "--first-mlp")); }

int main(int argc, char **argv) {
    static const bench_case cases[] = {
        {"opencl/eager-add-2x3", "us", eager_add}, {"opencl/eager-own-2x3", "us", eager_own},
        {"opencl/warm-start", "ms", warm_start},   {"opencl/compile-kernel", "ms", compile_kernel},
        {"opencl/compile-mlp", "ms", compile_mlp}, {"opencl/mlp-32x256x512x256", "us", mlp}};
    if (argc == 2 && strcmp(argv[1], "--first-call") == 0) return first_call();
    if (argc == 2 && strcmp(argv[1], "--first-kernel") == 0) return first_kernel();
    if (argc == 2 && strcmp(argv[1], "--first-mlp") == 0) return first_mlp();
    const bool is_there = hd_device_available(there);
    if (is_there) hd_set_device(there);
    return bench_main(argc, argv, cases, is_there ? (int)(sizeof cases / sizeof cases[0]) : 0);
}
