/* Training in a script, in two ways, next to dynamic execution: a linear layer, squared errors, SGD, 1000 epochs.
 *   unrolled   the whole loop is recorded: 1000 forward passes, backward passes and updates in one graph
 *   state      one step is recorded, with what it changes declared as state, and run 1000 times
 * Both give the losses of dynamic execution. */
#include "check.h"

enum { EPOCHS = 1000, SHOWN = 200 };
static hd_tensor *input_data, *target_data; /* [100,3], [100,1] */

static hd_module *new_linear(void) {
    hd_seed(7); /* the same weights every time */
    return hd_linear(3, 1, NULL);
}

/* One epoch; the loss before its update. Recorded or run at once, it is the same code. */
static hd_tensor *epoch(hd_module *linear, hd_optimizer *optimizer, hd_tensor *input, hd_tensor *target) {
    hd_tensor *prediction = hd_forward(linear, input);
    hd_tensor *loss = hd_mse(prediction, target, NULL);
    hd_backward(loss);
    hd_optimizer_step(optimizer);
    hd_optimizer_zero_grad(optimizer);
    return loss;
}

/* Returns the weight that was learnt; `losses` has one for each epoch. */
static hd_tensor *train_dynamically(double *losses) {
    HD_SCOPE;
    hd_module *linear = new_linear();
    hd_optimizer *optimizer = hd_sgd(hd_module_parameters(linear), 0.01, NULL);
    const double start = now();
    for (int i = 0; i < EPOCHS; ++i) {
        HD_SCOPE;
        losses[i] = hd_item(epoch(linear, optimizer, input_data, target_data));
    }
    printf("dynamic   %7.2f ms\n", 1e3 * (now() - start));
    return hd_keep(hd_module_get(linear, "weight"));
}

static hd_script *build_unrolled(void) {
    HD_SCOPE;
    hd_builder *builder = hd_builder_new("training");
    hd_builder_start(builder);
    hd_module *linear = new_linear(); /* models are made at once, also here: the weights are drawn now, and once */
    hd_optimizer *optimizer = hd_sgd(hd_module_parameters(linear), 0.01, NULL);
    hd_tensor *input = hd_input("input", HD_SHAPE(100, 3), HD_F32);
    hd_tensor *target = hd_input("target", HD_SHAPE(100, 1), HD_F32);
    hd_tensor *final_loss = hd_full(HD_SHAPE(), HD_F32, 0);
    for (int i = 0; i < EPOCHS; ++i) {
        HD_SCOPE;
        final_loss = hd_keep(epoch(linear, optimizer, input, target));
        if (i % SHOWN != 0) continue;
        char name[32];
        snprintf(name, sizeof name, "loss %d", i);
        hd_builder_add_output(builder, name, final_loss);
    }
    hd_builder_add_output(builder, "loss", final_loss);
    hd_builder_add_output(builder, "weight", hd_module_get(linear, "weight")); /* as it is after the last epoch */
    hd_builder_end(builder);
    return hd_keep(hd_builder_build(builder));
}

static int check_unrolled(const double *losses, hd_tensor *weight) {
    HD_SCOPE;
    double start = now();
    hd_script *script = build_unrolled();
    const double recording = now() - start;
    hd_script_compile(script);
    hd_script_set_input(script, "input", input_data);
    hd_script_set_input(script, "target", target_data);
    start = now();
    hd_outputs *outputs = hd_script_run(script);
    const double running = now() - start;
    const hd_script_figures f = hd_script_stats(script);
    printf("unrolled  %7.2f ms, and %.2f ms to record, %.2f ms to compile %" PRId64 " nodes\n", 1e3 * running,
           1e3 * recording, f.compile_ms, f.nodes);

    CHECK(f.nodes > 10 * EPOCHS); /* the graph grows with the loop */
    for (int i = 0; i < EPOCHS; i += SHOWN) {
        char name[32];
        snprintf(name, sizeof name, "loss %d", i);
        CHECK_CLOSE(hd_outputs_get(outputs, name), hd_scalar(losses[i], HD_F32));
    }
    CHECK_CLOSE(hd_outputs_get(outputs, "loss"), hd_scalar(losses[EPOCHS - 1], HD_F32));
    CHECK_CLOSE(hd_outputs_get(outputs, "weight"), weight);
    /* The weights at its beginning are part of the script: it trains from there every time. */
    CHECK_CLOSE(hd_outputs_get(hd_script_run(script), "loss"), hd_scalar(losses[EPOCHS - 1], HD_F32));
    return 0;
}

static int check_state(const double *losses, hd_tensor *weight) {
    HD_SCOPE;
    hd_module *linear = new_linear();
    hd_optimizer *optimizer = hd_sgd(hd_module_parameters(linear), 0.01, NULL);
    double start = now();
    hd_builder *builder = hd_builder_new("step");
    hd_builder_start(builder);
    hd_builder_add_state_of(builder, linear, optimizer); /* what a run changes, and the next one begins with */
    hd_tensor *input = hd_input("input", HD_SHAPE(100, 3), HD_F32);
    hd_tensor *target = hd_input("target", HD_SHAPE(100, 1), HD_F32);
    hd_builder_add_output(builder, "loss", epoch(linear, optimizer, input, target));
    hd_builder_end(builder);
    hd_script *script = hd_builder_build(builder);
    const double recording = now() - start;
    hd_script_compile(script);

    hd_script_set_input(script, "input", input_data);
    hd_script_set_input(script, "target", target_data);
    static double run_losses[EPOCHS];
    start = now();
    for (int i = 0; i < EPOCHS; ++i) {
        HD_SCOPE;
        run_losses[i] = hd_item(hd_outputs_get(hd_script_run(script), "loss"));
    }
    const double running = now() - start;
    const hd_script_figures f = hd_script_stats(script);
    printf("state     %7.2f ms, and %.2f ms to record, %.2f ms to compile %" PRId64 " nodes\n", 1e3 * running,
           1e3 * recording, f.compile_ms, f.nodes);

    CHECK(f.nodes < 100);
    for (int i = 0; i < EPOCHS; ++i) CHECK_CLOSE(hd_scalar(run_losses[i], HD_F32), hd_scalar(losses[i], HD_F32));
    /* The model and its optimizer are trained, as if they had been trained dynamically. */
    CHECK_CLOSE(hd_module_get(linear, "weight"), weight);
    CHECK_CLOSE(hd_script_state(script, "weight"), weight);
    CHECK_EQUAL(hd_item_i64(hd_optimizer_steps(optimizer)), EPOCHS);
    return 0;
}

int main(void) {
    HD_SCOPE;
    hd_seed(42);
    input_data = hd_randn(HD_SHAPE(100, 3), HD_F32);
    target_data = hd_add_scalar(hd_matmul(input_data, HD_TENSOR_F32(HD_SHAPE(3, 1), 2, -1, 0.5f)), 3);
    static double losses[EPOCHS];
    hd_tensor *weight = train_dynamically(losses);
    CHECK(hd_ok());
    CHECK(losses[EPOCHS - 1] < 1e-3 * losses[0]);
    if (check_unrolled(losses, weight) != 0 || check_state(losses, weight) != 0) return 1;
    printf("the same losses, from %g to %g\n", losses[0], losses[EPOCHS - 1]);
    return hd_exit_status();
}
