/* A whole training loop in one graph, every epoch written out, as the guide to scripts does it: a linear layer, squared
 * errors, SGD. XLA and HODU give the same losses and weights.
 *
 * 1000 epochs with HODU_LONG=1, else 100: XLA's time to compile grows faster than the graph. */
#include "builders.h"
#include "differences.h"
#include "graph/calls.h"
#include "programs.h"

static hd_script *unrolled(int epochs) {
    HD_SCOPE;
    hd_seed(7);
    hd_builder *b = started("training");
    hd_module *linear = hd_linear(3, 1, NULL);
    hd_optimizer *optimizer = hd_sgd(hd_module_parameters(linear), 0.01, NULL);
    hd_tensor *input = hd_input("input", S(100, 3), HD_F32), *target = hd_input("target", S(100, 1), HD_F32);
    for (int i = 0; i < epochs; ++i) {
        HD_SCOPE;
        hd_tensor *loss = hd_mse(hd_forward(linear, input), target, NULL);
        hd_backward(loss);
        hd_optimizer_step(optimizer);
        hd_optimizer_zero_grad(optimizer);
        char name[32];
        snprintf(name, sizeof name, "loss %d", i);
        if (i % (epochs / 10) == 0 || i == epochs - 1) hd_builder_add_output(b, name, loss);
    }
    hd_builder_add_output(b, "weight", hd_module_get(linear, "weight"));
    hd_builder_add_output(b, "bias", hd_module_get(linear, "bias"));
    return hd_keep(built(b));
}

static void the_unrolled_loop_agrees(void **state) {
    (void)state;
    HD_SCOPE;
    const int epochs = in_full() ? 1000 : 100;
    hd_script *s = unrolled(epochs);
    hd_seed(42);
    hd_tensor *noise = hd_randn(S(100, 1), HD_F32), *input = hd_randn(S(100, 3), HD_F32); /* no loss comes near 0 */
    hd_script_set_input(s, "input", input);
    hd_script_set_input(s, "target", hd_add(hd_matmul(input, HD_TENSOR_F32(S(3, 1), 2, -1, 0.5f)), noise));
    hd_outputs *ours = hd_script_run(s);
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    hd_outputs *theirs = hd_script_run(s);
    assert_ok();
    const hd_script_figures f = hd_script_stats(s);
    print_message("%d epochs, %lld nodes: compiled by XLA in %.0f ms\n", epochs, (long long)f.nodes, f.compile_ms);
    assert_true(f.nodes > 10 * epochs);
    assert_int_equal(hd_outputs_count(ours), 13);
    for (int64_t i = 0; i < 13; ++i) assert_close(hd_outputs_at(theirs, i), hd_outputs_at(ours, i), 1e-4, HD_ZERO);
}

int main(void) {
    if (!has_plugin()) return 77;
    const struct CMUnitTest tests[] = {test(the_unrolled_loop_agrees)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
