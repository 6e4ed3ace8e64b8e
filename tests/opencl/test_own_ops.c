/* Ops of the user's on a device of OpenCL: the CPU runs them with copies, at once and in scripts, and it is said. */
#include "builders.h"
#include "core/memory.h"
#include "own_ops.h"
#include "script/script.h"

#define S HD_SHAPE
#define F HD_F32

static hd_device there(void) { return hd_opencl(0); }

static void they_run_with_copies(void **state) {
    (void)state;
    HD_SCOPE;
    hd_set_device(there());
    hd_tensor *x = hd_requires_grad(HD_TENSOR_F32(S(2, 2), 1, 2, 3, -4));
    hd_tensors *both = both_ways(cubed(hd_t(x), 2), hd_ones(S(2, 2), F));
    hd_tensor *y = hd_mul(hd_tensors_get(both, 0), hd_tensors_get(both, 1));
    assert_true(hd_tensor_device(y).kind == HD_DEVICE_OPENCL);
    assert_values(y, F, 2, 53 * 54, 15 * 16, -128.0 * -129);
    hd_backward(cubed(x, 1));
    assert_values(hd_grad(x), F, 3, 12, 27, 48);
    hd_clear_tape();
    both_ways(x, hd_to(hd_ones(S(2, 2), F), hd_cpu()));
    assert_error(HD_ERROR_DEVICE, "operand 1 is on opencl:0, operand 2 on cpu");
    hd_set_device(hd_cpu());
}

static hd_script *recorded(void) {
    hd_builder *b = started("own");
    hd_tensor *x = hd_input("x", S(2, 2), F);
    hd_tensors *both = both_ways(cubed(hd_add_scalar(x, 1), 2), hd_relu(x));
    hd_builder_add_output(b, "y", hd_neg(hd_tensors_get(both, 0)));
    return built(b);
}
static void scripts_run_them_with_copies(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = recorded();
    hd_script_set_device(s, there());
    hd_tensor *x = HD_TENSOR_F32(S(2, 2), 1, 2, 3, -4);
    hd_script_set_input(s, "x", hd_to(x, there()));
    for (int level = HD_O0; level <= HD_O3; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        assert_values(output(s, "y"), F, -16, -108, -384, 0);
    }
    const hd_script_figures f = hd_script_stats(s);
    bool said = false;
    for (int64_t i = 0; i < f.launches; ++i) {
        hd_launch_stats stats;
        s->executable->describe(s->executable, i, &stats);
        said = said || strstr(stats.what, "custom \"own.cube\" by the CPU, with copies") != NULL;
    }
    assert_true(said);
}

static jmp_buf back;
static bool jumps;
static const char *jump_or_fail(hd_custom_args *args) {
    own_same_compute(args);
    if (jumps) longjmp(back, 1);
    return "not here";
}
static void run_bad(hd_script *s, hd_tensor *x) {
    HD_SCOPE;
    if (setjmp(back) != 0) return;
    if (s != NULL)
        hd_script_run(s);
    else
        hd_custom("own.bad", HD_TENSORS(x), NULL, 0);
}
static void what_fails_or_jumps_leaves_nothing_behind(void **state) {
    (void)state;
    HD_SCOPE;
    hd_custom_op op = HD_DEFAULTS(hd_custom_op);
    op.name = "own.bad";
    op.inputs = 1;
    op.compute = jump_or_fail;
    hd_custom_register(&op);
    hd_builder *b = started("bad");
    hd_builder_add_output(b, "y", hd_custom("own.bad", HD_TENSORS(hd_neg(hd_input("x", S(2), F))), NULL, 0));
    hd_script *s = built(b);
    hd_tensor *x = hd_to(hd_ones(S(2), F), there());
    hd_script_set_device(s, there());
    hd_script_set_input(s, "x", x);
    int64_t objects = 0;
    for (int round = 0; round < 8; ++round) {
        jumps = round % 2 == 1;
        run_bad(round % 4 < 2 ? NULL : s, x);
        if (!jumps) assert_error(HD_ERROR_VALUE, "the op \"own.bad\": not here");
        assert_ok();
        if (round == 3) objects = hd_live_objects(); /* the script is compiled */
    }
    assert_int_equal(hd_live_objects(), objects);
}

RUN_ON(there(), test(they_run_with_copies), test(scripts_run_them_with_copies),
       test(what_fails_or_jumps_leaves_nothing_behind))
