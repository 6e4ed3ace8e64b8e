/* backend = eager, the default: every call runs at once, in the order it is written. For finding faults: values can be
 * read anywhere, and nothing gets faster. */
#include "check.h"

static int calls; /* that read a value */

static hd_tensor *curious_forward(hd_module *model, hd_tensor *x) {
    hd_tensor *h = hd_forward(hd_module_state(model), x);
    const double mean = hd_item(hd_mean(h, HD_AXES(), NULL)); /* reads a value */
    if (hd_ok()) printf("call %d: the mean in between is %.4f\n", ++calls, mean);
    return hd_relu(h);
}
static const hd_module_class curious_class = {.name = "curious", .forward = curious_forward};

int main(void) {
    HD_SCOPE;
    HD_NO_GRAD;
    hd_seed(11);
    hd_module *linear = hd_linear(10, 4, NULL), *model = hd_module_new(&curious_class, linear);
    hd_module_add(model, "linear", linear);
    hd_tensor *x = hd_randn(HD_SHAPE(5, 10), HD_F32);

    hd_module *plain = hd_compile(model, NULL);
    hd_module *eager =
        hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_EAGER)); /* the same, said aloud */
    CHECK_CLOSE(hd_forward(plain, x), hd_relu(hd_forward(linear, x)));
    CHECK_CLOSE(hd_forward(eager, x), hd_relu(hd_forward(linear, x)));
    CHECK_EQUAL(calls, 2); /* the function runs at every call */
    CHECK_EQUAL(hd_compile_stats(eager).captures, 0);

    /* A level or a compiler has nothing to act on. */
    hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_EAGER, .optimization_level = HD_O3));
    CHECK_ERROR("the eager backend compiles nothing");

    /* A graph has no values to read while it is captured: an error that says so, and no silent way around it. */
    hd_module *graph = hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
    hd_forward(graph, x);
    CHECK_ERROR("is not known before its script runs");
    return hd_exit_status();
}
