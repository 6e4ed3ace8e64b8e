/* Where a script runs. Constants are brought to the device once, when it compiles; inputs that are set move along. */
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
    } devices[] = {{"cpu", hd_cpu()}, {"cuda:0", hd_cuda(0)}, {"metal", hd_metal()}};

    for (int i = 0; i < 3; ++i) {
        HD_SCOPE;
        hd_script *script = build(weight);
        hd_script_set_input(script, "x", x);
        hd_script_compile(script); /* for the thread's device, which is the CPU here */
        hd_script_set_device(script, devices[i].device);
        if (hd_device_available(devices[i].device)) {
            printf("%s: ", devices[i].name);
            CHECK_CLOSE(hd_outputs_get(hd_script_run(script), "result"), expected);
            CHECK_EQUAL(compilations(script), i == 0 ? 1 : 2); /* another device: compiled anew at the next run */
            puts("the same results");
        } else {
            CHECK_ERROR("not available");
            CHECK_CLOSE(hd_outputs_get(hd_script_run(script), "result"), expected); /* it keeps the device it had */
            CHECK_EQUAL(compilations(script), 1);
        }
    }

    /* Which compiler for which device: HODU everywhere it runs; XLA, where it is built in, for work that is compiled
     * once and run often enough to earn back its longer compilation. */
    hd_script *script = build(weight);
    hd_script_set_input(script, "x", x);
    if (hd_device_available(hd_cuda(0))) hd_script_set_device(script, hd_cuda(0));
    if (hd_compiler_available(HD_COMPILER_XLA)) hd_script_set_compiler(script, HD_COMPILER_XLA);
    hd_script_compile(script); /* may take its time; from here on it only runs */
    CHECK_CLOSE(hd_outputs_get(hd_script_run(script), "result"), expected);
    return hd_exit_status();
}
