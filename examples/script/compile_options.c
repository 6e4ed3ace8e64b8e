/* All options at once, and what each of them is when it is left out. */
#include "check.h"

int main(void) {
    HD_SCOPE;
    hd_seed(17);
    hd_module *model = hd_linear(10, 1, NULL);
    hd_tensor *x = hd_randn(HD_SHAPE(5, 10), HD_F32);
    const hd_device device = hd_compiler_missing(HD_COMPILER_HODU, hd_cuda(0)) == NULL ? hd_cuda(0) : hd_cpu();

    hd_module *compiled = hd_compile(model, HD_OPTS(hd_compile_opts,              /* when left out: */
                                                    .backend = HD_BACKEND_GRAPH,  /* eager */
                                                    .mode = HD_MODE_TRAINING,     /* training */
                                                    .optimization_level = HD_O1,  /* O1 */
                                                    .compiler = HD_COMPILER_HODU, /* HODU */
                                                    .device = device,             /* the thread's */
                                                    .cache_limit = 4));           /* 8 graphs */
    CHECK_CLOSE(hd_forward(compiled, x), hd_forward(model, x));

    /* What is not there is said at once. */
    if (!hd_device_available(hd_cuda(0))) {
        hd_compile(model, HD_OPTS(hd_compile_opts, .device = hd_cuda(0)));
        CHECK_ERROR("not available");
    }
    if (!hd_compiler_available(HD_COMPILER_XLA)) {
        hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .compiler = HD_COMPILER_XLA));
        CHECK_ERROR("XLA"); /* no plugin for the CPU, or a library that was built without */
    }
    hd_compile(model, HD_OPTS(hd_compile_opts, .backend = (hd_backend)HD_COMPILER_XLA));
    CHECK_ERROR("is no backend");
    hd_clear_tape();
    return hd_exit_status();
}
