/* What there is to run on, and why not: without a driver, with one that finds no GPU, with GPUs and without a plugin,
 * with all of it. Each case is a process of its own, as a driver is asked once; drivers and plugins are fakes. */
#include "builders.h"
#include "cuda/fake_cuda.h"
#include "gpu/compiled.h"
#include "in_a_child.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77 };

/* A library is found by its name when one of that name is open already. */
static void *with_driver(const char *path, const char *wish) {
    setenv("FAKE_CUDA", wish, 1);
    setenv("HODU_NVRTC", FAKE_CUDA, 1);
    setenv("HODU_CACHE", "0", 1);
    setenv("HODU_CUBLASLT", "none", 1);
    void *driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    require(driver != NULL);
    return driver;
}
static void with_plugins(const char *cpu, const char *cuda) {
    unsetenv("HODU_XLA_PLUGIN");
    unsetenv("HODU_COMPILER");
    setenv("HODU_XLA_PLUGIN_CPU", cpu, 1);
    setenv("HODU_XLA_PLUGIN_CUDA", cuda, 1);
}

static hd_script *doubles(void) {
    hd_builder *b = started("doubles");
    hd_builder_add_output(b, "y", hd_mul_scalar(hd_input("x", HD_SHAPE(2), HD_F32), 2));
    return built(b);
}
static bool runs(hd_script *s) {
    hd_script_set_input(s, "x", hd_ones(HD_SHAPE(2), HD_F32));
    hd_tensor *y = output(s, "y");
    return y != NULL && hd_item(hd_select(y, 0, 1)) == 2;
}

static void in_child(void (*story)(void)) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        story();
        _exit(hd_ok() ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- the driver -------------------------------------------------------------------------------------------------- */
static void no_gpu_because(const char *reason) {
    HD_SCOPE;
    require(hd_device_count(HD_DEVICE_CUDA) == 0);
    require_text(hd_compiler_missing(HD_COMPILER_XLA, hd_cuda(0)), "XLA does not run on cuda:0: ");
    require_text(hd_compiler_missing(HD_COMPILER_XLA, hd_cuda(0)), reason);
    hd_script *s = doubles();
    hd_script_set_device(s, hd_cuda(0)); /* the plugin is there */
    require_text(hd_error_message(), "hd_script_set_device: device cuda:0 is not available here");
    require_text(hd_error_message(), "HODU does not run on cuda:0: ");
    require_error(HD_ERROR_DEVICE, reason);
    require(runs(s)); /* where it did */
    hd_compile(hd_linear(2, 1, NULL), HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .compiler = HD_COMPILER_XLA,
                                              .device = hd_cuda(0)));
    require_error(HD_ERROR_DEVICE, reason);
}

static void no_driver_there(void) {
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != NULL) _exit(SKIPPED); /* here is one */
    with_plugins("/nowhere", FAKE_PLUGIN);
    no_gpu_because("there is no driver for GPUs of NVIDIA's (libcuda.so.1: cannot open shared object file");
}
static void something_else_there(void) {
    with_driver(FAKE_CUDA_EMPTY, "1");
    with_plugins("/nowhere", FAKE_PLUGIN);
    no_gpu_because("libcuda.so.1 is there, but has no cuInit and cuDeviceGetCount");
}
static void no_gpu_there(void) {
    with_driver(FAKE_CUDA, "none");
    with_plugins("/nowhere", FAKE_PLUGIN);
    no_gpu_because("NVIDIA's driver is there, but finds no GPU");
}
static void all_gpus_hidden(void) {
    with_driver(FAKE_CUDA, "0");
    with_plugins("/nowhere", FAKE_PLUGIN);
    no_gpu_because("NVIDIA's driver is there, but finds no GPU");
}
static void broken_driver(void) {
    with_driver(FAKE_CUDA, "broken");
    with_plugins("/nowhere", FAKE_PLUGIN);
    no_gpu_because("NVIDIA's driver is there, but does not start (its error 999)");
}

static void a_missing_gpu_says_why(void **state) {
    (void)state;
    in_child(something_else_there);
    in_child(no_gpu_there);
    in_child(all_gpus_hidden);
    in_child(broken_driver);
}
static void a_missing_driver_says_so(void **state) {
    (void)state;
    in_child(no_driver_there);
}

static void *counts(void *nothing) {
    (void)nothing;
    return hd_device_count(HD_DEVICE_CUDA) == 3 ? NULL : "a wrong count";
}
static void many_ask(void) {
    void *driver = with_driver(FAKE_CUDA, "3");
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i) require(pthread_create(&threads[i], NULL, counts, NULL) == 0);
    for (int i = 0; i < 4; ++i) {
        void *why = NULL;
        require(pthread_join(threads[i], &why) == 0 && why == NULL);
    }
    require(atomic_load(&((fake_cuda *)dlsym(driver, "fake_cuda_now"))->starts) == 1);
}
static void a_driver_is_asked_once(void **state) {
    (void)state;
    in_child(many_ask);
}

static void a_child_asks(void) {
    with_driver(FAKE_CUDA, "1");
    with_plugins("/nowhere", FAKE_PLUGIN);
    require(hd_device_count(HD_DEVICE_CUDA) == 1);
    const pid_t child = fork();
    if (child == 0) {
        no_gpu_because("NVIDIA's driver was opened before this process was forked");
        _exit(0);
    }
    int status = 1;
    require(waitpid(child, &status, 0) == child && status == 0);
}
static void a_child_cannot_use_its_parents_driver(void **state) {
    (void)state;
    in_child(a_child_asks);
}

/* ---- the plugin -------------------------------------------------------------------------------------------------- */
static void gpu_without_plugin(void) {
    HD_SCOPE;
    with_driver(FAKE_CUDA, "2");
    with_plugins("/nowhere", "/nowhere");
    require(hd_device_count(HD_DEVICE_CUDA) == 2 && hd_device_available(hd_cuda(0)) == HD_HAS_CUDA);
    require_text(hd_compiler_missing(HD_COMPILER_XLA, hd_cuda(2)),
                 "XLA does not run on cuda:2: there are cuda:0 to cuda:1");
    require_text(hd_compiler_missing(HD_COMPILER_XLA, hd_cuda(1)), "HODU_XLA_PLUGIN_CUDA=/nowhere");
    hd_script *s = doubles();
    hd_script_set_device(s, hd_cuda(HD_HAS_CUDA ? 2 : 1));
    require_text(hd_error_message(), HD_HAS_CUDA ? "hd_script_set_device: device cuda:2 is not available here"
                                                 : "hd_script_set_device: device cuda:1 is not available here");
    require_error(HD_ERROR_DEVICE,
                  HD_HAS_CUDA
                      ? "XLA does not run on cuda:2: there are cuda:0 to cuda:1"
                      : "expected XLA's plugin for cuda, which python3 -m pip install jax-cuda13-pjrt installs");
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    require_error(HD_ERROR_DEVICE,
                  "HODU_XLA_PLUGIN_CPU=/nowhere: No such file or directory; expected XLA's plugin for cpu, which "
                  "scripts/get-xla installs; the script keeps HODU");
    require(runs(s));
}
static void a_missing_plugin_names_the_command(void **state) {
    (void)state;
    in_child(gpu_without_plugin);
}

/* The seeds choose the compiler first. */
static void only_the_plugin_for_cuda(void) {
    HD_SCOPE;
    with_driver(FAKE_CUDA, "1");
    with_plugins("/nowhere", FAKE_PLUGIN);
    require(!hd_compiler_available(HD_COMPILER_XLA)); /* on this thread's device */
    require_text(hd_compiler_missing(HD_COMPILER_XLA, hd_cpu()), "HODU_XLA_PLUGIN_CPU=/nowhere");
    require(hd_compiler_missing(HD_COMPILER_XLA, hd_cuda(0)) == NULL);
    for (int order = 0; order < 2; ++order) {
        HD_SCOPE;
        hd_script *s = doubles();
        if (order == 0) hd_script_set_compiler(s, HD_COMPILER_XLA);
        hd_script_set_device(s, hd_cuda(0));
        if (order == 1) hd_script_set_compiler(s, HD_COMPILER_XLA);
        require(hd_ok());
        hd_script_compile(s); /* as far as the fake goes */
        require_error(HD_ERROR_DEVICE, "XLA's plugin is for \"toaster\", expected one for \"cuda\"");
        if (order == 0) hd_script_set_compiler(s, HD_COMPILER_HODU);
        hd_script_set_device(s, hd_cpu());
        if (order == 1) hd_script_set_compiler(s, HD_COMPILER_HODU);
        require(hd_ok() && runs(s));
    }
}
#if HD_HAS_CUDA
static void hodu_or_xla(void) {
    HD_SCOPE;
    with_driver(FAKE_CUDA, "1");
    with_plugins("/nowhere", "/nowhere");
    if (compiled_by() == NULL) _exit(SKIPPED); /* text is compiled as C++ */
    hd_script *s = doubles();
    hd_script_set_device(s, hd_cuda(0)); /* HODU runs there */
    require(hd_ok() && runs(s));
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    require_error(HD_ERROR_DEVICE, "expected XLA's plugin for cuda, which python3 -m pip install jax-cuda13-pjrt");
    require(runs(s));
    hd_module *m =
        hd_compile(hd_linear(2, 1, NULL), HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .device = hd_cuda(0)));
    require(m != NULL && hd_forward(m, hd_ones(HD_SHAPE(1, 2), HD_F32)) != NULL);
    hd_script_set_device(s, hd_cpu());
    require(runs(s));
}
#else
static void hodu_or_xla(void) {
    HD_SCOPE;
    with_driver(FAKE_CUDA, "1");
    with_plugins("/nowhere", FAKE_PLUGIN);
    hd_script *s = doubles();
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    require(hd_ok());
    hd_script_compile(s);
    require_error(HD_ERROR_DEVICE, "hd_script_compile: HODU_XLA_PLUGIN_CPU=/nowhere");
    hd_script_set_compiler(s, HD_COMPILER_HODU);
    hd_script_set_device(s, hd_cuda(0));
    require(hd_ok());
    hd_script_compile(s);
    require_text(hd_error_message(),
                 "hd_script_compile: HODU does not run on cuda:0: this library was built without CUDA");
    require_error(HD_ERROR_DEVICE, "hd_script_set_compiler another compiler");
    require(!runs(s));
    require_error(HD_ERROR_DEVICE, "hd_script_run: HODU does not run on cuda:0");
    hd_compile(hd_linear(2, 1, NULL), HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .device = hd_cuda(0)));
    require_error(HD_ERROR_DEVICE, "hd_compile: HODU does not run on cuda:0");
    hd_script_set_device(s, hd_cpu());
    require(runs(s));
}
#endif
static void compiler_and_device_are_chosen_in_any_order(void **state) {
    (void)state;
    in_child(only_the_plugin_for_cuda);
    in_child(hodu_or_xla);
}

int main(void) {
    const struct CMUnitTest tests[] = {test(a_missing_gpu_says_why),
                                       test(a_missing_driver_says_so),
                                       test(a_driver_is_asked_once),
                                       test(a_child_cannot_use_its_parents_driver),
                                       test(a_missing_plugin_names_the_command),
                                       test(compiler_and_device_are_chosen_in_any_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
