/* backend = graph: the whole computation is captured at the first call and compiled; later calls run that. */
#include "check.h"

static int calls; /* of the forward function below */

static hd_tensor *counted_forward(hd_module *model, hd_tensor *x) {
    ++calls;
    return hd_forward(hd_module_state(model), x);
}
static const hd_module_class counted_class = {.name = "counted", .forward = counted_forward};

int main(void) {
    HD_SCOPE;
    HD_NO_GRAD;
    hd_seed(12);
    hd_module *layers = HD_SEQUENTIAL(hd_linear(10, 32, NULL), hd_tanh_layer(), hd_linear(32, 1, NULL));
    hd_module *model = hd_module_new(&counted_class, layers);
    hd_module_add(model, "layers", layers);
    hd_module *compiled = hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .cache_limit = 2));

    for (int i = 0; i < 100; ++i) {
        HD_SCOPE;
        hd_tensor *x = hd_randn(HD_SHAPE(5, 10), HD_F32);
        CHECK_CLOSE(hd_forward(compiled, x), hd_forward(layers, x));
    }
    CHECK_EQUAL(calls, 1); /* captured once: the function did not run again */
    CHECK_EQUAL(hd_compile_stats(compiled).hits, 99);

    /* Another shape or dtype is another graph. Some are kept, here two; the one that was not used for longest goes. */
    for (int64_t rows = 6; rows <= 7; ++rows) {
        HD_SCOPE;
        hd_tensor *x = hd_randn(HD_SHAPE(rows, 10), HD_F32);
        CHECK_CLOSE(hd_forward(compiled, x), hd_forward(layers, x));
    }
    const hd_compile_figures figures = hd_compile_stats(compiled);
    CHECK_EQUAL(figures.captures, 3);
    CHECK_EQUAL(figures.entries, 2);
    CHECK_EQUAL(figures.evictions, 1);
    CHECK_EQUAL(calls, 3);
    puts("captured once for each shape");
    return hd_exit_status();
}
