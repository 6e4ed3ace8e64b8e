/* Ops and scripts on CUDA's device, all the way: rendered text, NVRTC and driver, which are fakes that compile the text
 * as C++ and run it on the CPU. There is no GPU. A few ops, as each kernel takes a compiler of C++ its time;
 * opencl/eager has them all. */
#include "support.h"
#include "cuda/open_fake.h"

static void open_one(void) {
    with_driver(FAKE_CUDA, "1");
    require(hd_device_available(hd_cuda(0)) && hd_device_missing(hd_cuda(0)) == NULL);
}
static void require_values(hd_tensor *t, const float *expected, int count) {
    float got[64];
    require(hd_to_array(t, got, HD_F32, count));
    for (int i = 0; i < count; ++i) require(got[i] == expected[i]);
}
static bool are_close(hd_tensor *a, hd_tensor *b, double most) {
    return hd_item(hd_max(hd_abs(hd_sub(hd_to(a, hd_cpu()), hd_to(b, hd_cpu()))), HD_AXES(), NULL)) <= most;
}

static void ops(const void *nothing) {
    (void)nothing;
    HD_SCOPE;
    open_one();
    hd_set_device(hd_cuda(0));
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(2, 3), 1, -2, 3, -4, 5, -6),
              *w = hd_param(hd_full(HD_SHAPE(3, 2), HD_F32, 0.5));
    hd_tensor *y = hd_relu(hd_add_scalar(hd_matmul(x, w), 0.25));
    require_values(y, (float[]){1.25f, 1.25f, 0, 0}, 4);
    hd_backward(hd_sum(y, HD_AXES(), NULL));
    require_values(hd_grad(w), (float[]){1, 1, -2, -2, 3, 3}, 6);
    hd_fill(x, 2);
    require_values(x, (float[]){2, 2, 2, 2, 2, 2}, 6);
    require(hd_tensor_device(x).kind == HD_DEVICE_CUDA);
    require_values(hd_cast(hd_full(HD_SHAPE(3), HD_F64, 1.5), HD_F32), (float[]){1.5f, 1.5f, 1.5f}, 3);
    hd_set_device(hd_cpu());
    hd_clear_tape();
    require(hd_ok() && fake->kernels > 5 && fake->lost == 0);
}
static void ops_run_there(void **state) {
    (void)state;
    in_child(ops, NULL);
}

/* Reductions in groups and in pieces, wide rows, draws and small floats. */
static void same_as_cpu(const void *nothing) {
    (void)nothing;
    HD_SCOPE;
    open_one();
    hd_tensor *rows = hd_randn(HD_SHAPE(3, 1000), HD_F32), *large = hd_randn(HD_SHAPE(50000), HD_F32);
    hd_tensor *rows_there = hd_to(rows, hd_cuda(0)), *large_there = hd_to(large, hd_cuda(0));
    require(are_close(hd_sum(rows_there, HD_AXES(1), NULL), hd_sum(rows, HD_AXES(1), NULL), 1e-4));
    require(are_close(hd_max(large_there, HD_AXES(), NULL), hd_max(large, HD_AXES(), NULL), 0));
    require(are_close(hd_exp(rows_there), hd_exp(rows), 1e-4));
    for (int64_t n = 997; n <= 1000; n += 3) { /* rows that are held in registers, alone and four at a time */
        hd_tensor *x = hd_contiguous(hd_slice(rows, 1, 0, n, 1)), *w = hd_rand(HD_SHAPE(n), HD_F32);
        hd_tensor *x_there = hd_to(x, hd_cuda(0)), *w_there = hd_to(w, hd_cuda(0));
        require(are_close(hd_layer_norm(x_there, 1, w_there, w_there, 1e-5), hd_layer_norm(x, 1, w, w, 1e-5), 1e-5));
        require(are_close(hd_softmax(x_there, 1), hd_softmax(x, 1), 1e-6));
    }
    require(are_close(hd_cast(hd_cast(rows_there, HD_BF16), HD_F32), hd_cast(hd_cast(rows, HD_BF16), HD_F32), 0));
    hd_seed(3);
    hd_tensor *drawn = hd_rand(HD_SHAPE(100), HD_F32);
    hd_set_device(hd_cuda(0));
    hd_seed(3);
    hd_tensor *drawn_there = hd_rand(HD_SHAPE(100), HD_F32);
    hd_set_device(hd_cpu());
    require(are_close(drawn_there, drawn, 0));
    require(hd_ok());
}
static void they_give_what_the_cpu_gives(void **state) {
    (void)state;
    in_child(same_as_cpu, NULL);
}

/* State that a script updates, and products, which are launches of templates. The second run is recorded, later ones
 * are replayed. */
static void trains(const void *nothing) {
    (void)nothing;
    HD_SCOPE;
    double losses[2][6];
    open_one();
    for (int gpu = 0; gpu < 2; ++gpu) {
        HD_SCOPE;
        hd_seed(3);
        hd_module *model = hd_linear(8, 4, NULL);
        hd_optimizer *sgd = hd_sgd(hd_module_parameters(model), 0.1, NULL);
        hd_tensor *x = hd_randn(HD_SHAPE(16, 8), HD_F32);
        hd_builder *b = hd_builder_new("step");
        hd_builder_start(b);
        hd_builder_add_state_of(b, model, sgd);
        hd_tensor *loss =
            hd_mean(hd_square(hd_forward(model, hd_input("x", HD_SHAPE(16, 8), HD_F32))), HD_AXES(), NULL);
        hd_backward(loss);
        hd_optimizer_step(sgd);
        hd_builder_add_output(b, "loss", loss);
        hd_builder_end(b);
        hd_script *s = hd_builder_build(b);
        require(hd_ok());
        hd_script_set_input(s, "x", x);
        if (gpu) hd_script_set_device(s, hd_cuda(0));
        for (int i = 0; i < 6; ++i) {
            HD_SCOPE;
            losses[gpu][i] = hd_item(hd_outputs_get(hd_script_run(s), "loss"));
        }
        require(hd_ok());
    }
    require(fake->replays >= 2 && losses[1][5] < losses[1][0]);
    for (int i = 0; i < 6; ++i) require(losses[0][i] - losses[1][i] < 1e-5 && losses[1][i] - losses[0][i] < 1e-5);
}
static void scripts_train_there(void **state) {
    (void)state;
    in_child(trains, NULL);
}

/* What is replayed reads what is given anew: numbers and tensors of the host, written in place or others. */
static void changes(const void *nothing) {
    (void)nothing;
    HD_SCOPE;
    open_one();
    hd_builder *b = hd_builder_new("changes");
    hd_builder_start(b);
    hd_tensor *x = hd_input("x", HD_SHAPE(4), HD_F32), *by = hd_input("by", HD_SHAPE(), HD_F32);
    hd_builder_add_output(b, "y", hd_add(hd_mul(x, by), hd_input("z", HD_SHAPE(4), HD_F32)));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_device(s, hd_cuda(0));
    hd_tensor *here = hd_ones(HD_SHAPE(4), HD_F32), *there = hd_to(here, hd_cuda(0)), *number = hd_scalar(0, HD_F32);
    hd_script_set_input(s, "x", here);
    hd_script_set_input(s, "by", number);
    hd_script_set_input(s, "z", there);
    for (int i = 0; i < 12; ++i) {
        HD_SCOPE;
        hd_fill(here, i);
        hd_fill(number, 2 + i % 3);
        hd_fill(there, 100 * i);
        if (i == 8) hd_script_set_input(s, "by", hd_scalar(7, HD_F32));
        hd_tensor *y = hd_outputs_get(hd_script_run(s), "y");
        const float expected = (float)(i * (i < 8 ? 2 + i % 3 : 7) + 100 * i);
        require_values(y, (float[]){expected, expected, expected, expected}, 4);
    }
    require(hd_ok() && fake->replays >= 2);
}
static void what_is_replayed_reads_what_is_given(void **state) {
    (void)state;
    in_child(changes, NULL);
}

/* Draws of replays are those of runs by themselves, in kernels and alone. */
enum { RUNS = 12 };
static void draws(const void *nothing) {
    (void)nothing;
    HD_SCOPE;
    open_one();
    hd_builder *b = hd_builder_new("draws");
    hd_builder_start(b);
    hd_tensor *x = hd_input("x", HD_SHAPE(40), HD_F32);
    hd_builder_add_output(b, "y", hd_mul(hd_rand(HD_SHAPE(40), HD_F32), hd_exp(x)));
    hd_builder_add_output(b, "z", hd_rand(HD_SHAPE(40), HD_F32));
    hd_builder_add_output(b, "w", hd_neg(x));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "x", hd_zeros(HD_SHAPE(40), HD_F32));
    hd_seed(5);
    float expected[2][RUNS][40];
    for (int i = 0; i < RUNS; ++i) {
        HD_SCOPE;
        hd_outputs *o = hd_script_run(s);
        require(hd_to_array(hd_outputs_get(o, "y"), expected[0][i], HD_F32, 40));
        require(hd_to_array(hd_outputs_get(o, "z"), expected[1][i], HD_F32, 40));
    }
    hd_script_set_device(s, hd_cuda(0));
    hd_seed(5);
    for (int i = 0; i < RUNS; ++i) {
        HD_SCOPE;
        hd_outputs *o = hd_script_run(s);
        require_values(hd_outputs_get(o, "y"), expected[0][i], 40);
        require_values(hd_outputs_get(o, "z"), expected[1][i], 40);
    }
    require(hd_ok() && fake->replays >= 3);
}
static void what_is_replayed_draws_anew(void **state) {
    (void)state;
    in_child(draws, NULL);
}

RUN_WITH_FAKE(test(ops_run_there), test(they_give_what_the_cpu_gives), test(scripts_train_there),
              test(what_is_replayed_reads_what_is_given), test(what_is_replayed_draws_anew))
