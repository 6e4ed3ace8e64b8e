/* Compiling a model: define it, compile it, call it as before. */
#include "check.h"

/* A model of your own: a class with a forward function, and what it holds. */
static hd_tensor *simple_forward(hd_module *model, hd_tensor *x) {
    hd_module *fc = hd_module_state(model);
    return hd_forward(fc, x);
}
static const hd_module_class simple_class = {.name = "simple_model", .forward = simple_forward};

static hd_module *simple_model(void) {
    hd_module *fc = hd_linear(10, 1, NULL);
    hd_module *model = hd_module_new(&simple_class, fc);
    hd_module_add(model, "fc", fc); /* the model holds it from here on */
    return model;
}

int main(void) {
    HD_SCOPE;
    hd_seed(10);
    hd_module *model = simple_model();
    hd_module *compiled_model = hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));

    hd_tensor *input_data = hd_randn(HD_SHAPE(5, 10), HD_F32);
    hd_tensor *output = hd_forward(compiled_model, input_data); /* captured and compiled now, at the first call */
    hd_print(output);
    CHECK_CLOSE(output, hd_forward(model, input_data));

    /* Both are one model: they have the same parameters. */
    {
        HD_NO_GRAD; /* a leaf is written in place only off the tape */
        hd_fill(hd_module_get(model, "fc.bias"), 100);
    }
    CHECK_CLOSE(hd_forward(compiled_model, input_data), hd_forward(model, input_data));
    CHECK_EQUAL(hd_tensors_count(hd_module_parameters(compiled_model)), 2);
    CHECK_EQUAL(hd_compile_stats(compiled_model).captures, 1);
    CHECK_EQUAL(hd_compile_stats(compiled_model).hits, 1);
    hd_clear_tape();
    return hd_exit_status();
}
