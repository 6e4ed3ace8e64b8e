/* Memory under XLA: a long training run takes no more than a short one, by our account, by the C library's, and by what
 * the process holds. */
#include "builders.h"
#include "graph/calls.h"
#include "heap.h"
#include "programs.h"

#include <unistd.h>

enum { STEPS = 10000, SETTLED = 1000, BATCH = 32, SIZE = 128 };

static int64_t resident(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d %ld", &pages), 1);
    fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

/* A step of Adam: its state is donated, 3 x 64 KB of it with every run. A batch is a new tensor each time, and a loss
 * is read now and then, so that runs are under way meanwhile. */
static void ten_thousand_steps_stay_flat(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(3);
    hd_module *model = HD_SEQUENTIAL(hd_linear(SIZE, SIZE, NULL), hd_tanh_layer(), hd_linear(SIZE, 1, NULL));
    hd_optimizer *optimizer = hd_adam(hd_module_parameters(model), 1e-4, NULL);
    hd_builder *b = started("step");
    hd_builder_add_state_of(b, model, optimizer);
    hd_tensor *loss =
        hd_mse(hd_forward(model, hd_input("x", S(BATCH, SIZE), HD_F32)), hd_input("y", S(BATCH, 1), HD_F32), NULL);
    hd_backward(loss);
    hd_optimizer_step(optimizer);
    hd_optimizer_zero_grad(optimizer);
    hd_builder_add_output(b, "loss", loss);
    hd_script *s = built(b);
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    hd_script_set_input(s, "y", operand(S(BATCH, 1), 1, HD_F32));
    assert_ok();
    const int steps = SANITIZED ? 2 * SETTLED : STEPS;
    int64_t objects = 0, live = 0, held = 0, given_out = 0;
    for (int i = 1; i <= steps; ++i) {
        {
            HD_SCOPE;
            hd_script_set_input(s, "x", operand(S(BATCH, SIZE), i % 50, HD_F32));
            hd_outputs *o = hd_script_run(s);
            if (i % 10 == 9 || i % 10 == 0) assert_true(isfinite(hd_item(hd_outputs_get(o, "loss"))));
        }
        if (i == SETTLED)
            objects = hd_live_objects(), live = hd_memory().live_bytes, held = resident(),
            given_out = bytes_given_out();
        if (i <= SETTLED || i % 10 != 0)
            continue; /* nothing is under way, but for memory that comes back a moment later */
        assert_true(hd_live_objects() <= objects + 4);
        assert_true(hd_memory().live_bytes <= live + 4 * BATCH * SIZE * (int64_t)sizeof(float));
    }
    assert_ok();
    assert_int_equal(hd_item_i64(hd_optimizer_steps(optimizer)), steps);
    if (SANITIZED) return; /* it keeps what was freed */
    print_message("%lld bytes more are held, %lld more given out\n", (long long)(resident() - held),
                  (long long)(bytes_given_out() - given_out));
    assert_true(bytes_given_out() - given_out < 1 << 20); /* 100 bytes a step are noticed, */
    assert_true(resident() - held < 8 << 20);             /* and any buffer */
}

int main(void) {
    if (!has_plugin()) return 77;
    const struct CMUnitTest tests[] = {test(ten_thousand_steps_stay_flat)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
