/* Where a script runs: this takes what the machine has, and says what is missing. Constants are brought to the device
 * once, when it compiles; inputs that are set move along. */
#include "check.h"

static hd_script *build(hd_tensor *weight) {
    hd_builder *builder = hd_builder_new("devices");
    hd_builder_start(builder);
    hd_tensor *x = hd_input("x", HD_SHAPE(8, 16), HD_F32);
    hd_builder_add_output(builder, "result", hd_matmul(x, weight));
    hd_builder_end(builder);
    return hd_builder_build(builder);
}

int main(void) {
    HD_SCOPE;
    hd_seed(6);
    hd_tensor *weight = hd_randn(HD_SHAPE(16, 4), HD_F32), *x = hd_randn(HD_SHAPE(8, 16), HD_F32);
    hd_tensor *expected = hd_matmul(x, weight);
    const struct {
        const char *name;
        hd_device device;
    } devices[] = {{"cpu", hd_cpu()}, {"opencl:0", hd_opencl(0)}, {"cuda:0", hd_cuda(0)}, {"metal", hd_metal()}};
    const struct {
        const char *name;
        hd_compiler compiler;
    } compilers[] = {{"HODU", HD_COMPILER_HODU}, {"XLA", HD_COMPILER_XLA}};

    /* Ops run on the CPU and, where a driver is, on devices of OpenCL: that is what hd_device_available tells. */
    CHECK(hd_device_available(hd_cpu()) && hd_device_missing(hd_cpu()) == NULL && hd_device_count(HD_DEVICE_CPU) == 1);
    printf("GPUs of NVIDIA's in this machine: %d\n", hd_device_count(HD_DEVICE_CUDA));
    for (int d = 0; d < 4; ++d)
        if (!hd_device_available(devices[d].device))
            printf("ops do not run on %s: %s\n", devices[d].name, hd_device_missing(devices[d].device));

    /* Scripts also run where their compiler brings them: XLA brings them to CUDA. */
    for (int d = 0; d < 4; ++d) {
        for (int c = 0; c < 2; ++c) {
            HD_SCOPE;
            const char *missing = hd_compiler_missing(compilers[c].compiler, devices[d].device);
            printf("%s on %s: ", compilers[c].name, devices[d].name);
            if (missing != NULL) {
                puts(missing);
                continue;
            }
            hd_script *script = build(weight);
            hd_script_set_input(script, "x", x);
            hd_script_set_compiler(script, compilers[c].compiler); /* in this order or the other */
            hd_script_set_device(script, devices[d].device);
            hd_script_compile(script); /* may take its time; from here on it only runs */
            if (!hd_ok() && compilers[c].compiler == HD_COMPILER_XLA) {
                puts(hd_error_message()); /* a plugin that is there, but does not start */
                hd_error_clear();
                continue;
            }
            hd_tensor *result = hd_outputs_get(hd_script_run(script), "result"); /* where the script ran */
            CHECK_CLOSE(hd_to(result, hd_cpu()), expected);
            CHECK_EQUAL(compilations(script), 1);
            puts("the same results");
        }
    }

    /* What no compiler runs on is an error at once, and the script keeps the device it had. */
    hd_script *script = build(weight);
    hd_script_set_compiler(script, HD_COMPILER_HODU);
    hd_script_set_input(script, "x", x);
    hd_script_compile(script);
    hd_script_set_device(script, hd_metal());
    CHECK_ERROR("not available");
    CHECK_CLOSE(hd_outputs_get(hd_script_run(script), "result"), expected);
    CHECK_EQUAL(compilations(script), 1);
    return hd_exit_status();
}
