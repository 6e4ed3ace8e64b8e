/* One training step, run in two ways: dynamically, every line at once; and captured once as a script, which is
 * compiled, run many times and saved. The lines are the same. */
#include "digits_file.h"

enum { BATCH = 32 };

/* Images [64] with their digits []. */
static hd_dataset *digits_train(void) {
    image *file;
    const int64_t count = load(DIGITS_FILE, &file);
    digits train = {NULL, NULL}, test;
    if (count > 0) split(file, count, &train, &test);
    free(file);
    return hd_tensor_dataset(HD_TENSORS(train.images, train.labels));
}

int main(void) {
    HD_SCOPE;
    hd_seed(42);
    hd_module *model = HD_SEQUENTIAL(hd_linear(PIXELS, 128, NULL), hd_relu_layer(), hd_linear(128, CLASSES, NULL));
    hd_optimizer *adam = hd_adam(hd_module_parameters(model), 1e-3, NULL);
    hd_loader *loader =
        hd_loader_new(digits_train(), BATCH, HD_OPTS(hd_loader_opts, .shuffle = true, .drop_last = true));

    /* dynamic: every line runs at once */
    for (int step = 0; step < 100; ++step) {
        HD_SCOPE;
        hd_batch batch = hd_loader_next(loader); /* x [32,64], y [32] */
        hd_tensor *loss = hd_cross_entropy(hd_forward(model, batch.x), batch.y, NULL);
        hd_backward(loss);
        hd_optimizer_step(adam);
        hd_optimizer_zero_grad(adam);
        if (step % 25 == 0) printf("dynamic  step %3d  loss %.4f\n", step, hd_item(loss));
    }

    /* static: the same lines, captured once, compiled once, run many times */
    hd_builder *b = hd_builder_new("train_step");
    hd_builder_start(b);
    hd_builder_add_state_of(b, model, adam); /* parameters, moments, step count, learning rate */
    hd_tensor *x = hd_input("x", HD_SHAPE(BATCH, PIXELS), HD_F32);
    hd_tensor *y = hd_input("y", HD_SHAPE(BATCH), HD_I64);
    hd_tensor *loss = hd_cross_entropy(hd_forward(model, x), y, NULL);
    hd_backward(loss);
    hd_optimizer_step(adam);
    hd_builder_add_output(b, "loss", loss);
    hd_builder_end(b);
    hd_script *train = hd_builder_build(b);
    hd_script_set_compiler(train, HD_COMPILER_HODU); /* or HD_COMPILER_XLA */
    double last = 0;
    for (int step = 0; step < 1000; ++step) {
        HD_SCOPE;
        hd_batch batch = hd_loader_next(loader);
        hd_script_set_input(train, "x", batch.x);
        hd_script_set_input(train, "y", batch.y);
        hd_outputs *out = hd_script_run(train);
        last = hd_item(hd_outputs_get(out, "loss"));
        if (step % 250 == 0) printf("static   step %3d  loss %.4f\n", step, last);
    }
    printf("static   the last   loss %.4f\n", last);
    if (HD_HAS_FILES) hd_script_save(train, "train_step.hoduscript");
    return last < 0.1 ? hd_exit_status() : 1; /* prints a pending error; one check at the end is enough: errors stick */
}
