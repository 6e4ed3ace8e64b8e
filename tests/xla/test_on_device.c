/* Scripts under XLA on a device where tensors live: what they read and update is there, and stays there. The device is
 * CUDA's on the fake of its driver, and the plugin the one for the CPU in a disguise (fake_gpu.c), so there is no GPU.
 * Each story is a process of its own. */
#include "builders.h"
#include "core/away.h"
#include "core/undo.h"
#include "cuda/stories.h"
#include "ops/op.h"
#include "xla/fake_gpu.h"
#include "xla/plugin.h"

#include <math.h>

static fake_gpu *xla;
static int64_t reads; /* through the host, while a script trained */

static void open_both(void) {
    with_driver(FAKE_CUDA, "2");
    require(hd_device_available(hd_cuda(0)));
    void *plugin = dlopen(FAKE_GPU, RTLD_NOW | RTLD_LOCAL);
    require(plugin != NULL);
    xla = dlsym(plugin, "fake_gpu_now");
}
static bool is_there(const hd_tensor *t) { return hd_tensor_device(t).kind == HD_DEVICE_CUDA; }
static hd_tensor *there_of(hd_tensor *t) { return hd_to(t, hd_cuda(0)); }
static double apart(hd_tensor *a, hd_tensor *b) {
    return hd_item(hd_max(hd_abs(hd_sub(hd_to(a, hd_cpu()), hd_to(b, hd_cpu()))), HD_AXES(), NULL));
}
/* Read without a call of the driver's that could be told to fail. */
static float at(hd_tensor *t, int i) {
    float all[64];
    require(hd_to_array(t, all, HD_F32, (int)hd_tensor_count(t)));
    return all[i];
}
static hd_script *by_xla(hd_script *s, hd_device device) {
    hd_script_set_device(s, device);
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    require(hd_ok());
    return s;
}
static hd_script *finished(hd_builder *b) {
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    require(s != NULL);
    return s;
}
static hd_tensor *run_for(hd_script *s, const char *name) {
    hd_outputs *o = hd_script_run(s);
    return o == NULL ? NULL : hd_outputs_get(o, name);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */
enum { STEPS = 12 };

/* A model that a script trains, and is used beside it. */
static hd_module *train(hd_device device, hd_device home, hd_compiler compiler, double losses[STEPS]) {
    hd_seed(3);
    hd_module *model = HD_SEQUENTIAL(hd_linear(8, 16, NULL), hd_tanh_layer(), hd_linear(16, 1, NULL));
    hd_tensor *x = hd_randn(HD_SHAPE(32, 8), HD_F32), *y = hd_randn(HD_SHAPE(32, 1), HD_F32);
    hd_module_to(model, home);
    hd_optimizer *adam = hd_adam(hd_module_parameters(model), 0.01, NULL);
    hd_builder *b = hd_builder_new("training");
    hd_builder_start(b);
    hd_builder_add_state_of(b, model, adam);
    hd_tensor *loss =
        hd_mse(hd_forward(model, hd_input("x", HD_SHAPE(32, 8), HD_F32)), hd_input("y", HD_SHAPE(32, 1), HD_F32), NULL);
    hd_backward(loss);
    hd_optimizer_step(adam);
    hd_builder_add_output(b, "loss", loss);
    hd_script *s = finished(b);
    hd_script_set_device(s, device);
    hd_script_set_compiler(s, compiler);
    hd_script_set_input(s, "x", hd_to(x, home));
    hd_script_set_input(s, "y", y); /* of the host, in any case */
    require(hd_ok());
    for (int i = 0; i < STEPS; ++i) {
        HD_SCOPE;
        hd_tensor *out = run_for(s, "loss");
        require(out != NULL && hd_tensor_device(out).kind == device.kind);
        losses[i] = hd_item(out);
    }
    if (compiler == HD_COMPILER_XLA) reads = xla->reads;
    const hd_script_check_result checked = hd_script_check(s);
    require(hd_ok() && checked.relative < 1e-5);
    require(hd_tensor_device(hd_tensors_get(hd_module_parameters(model), 0)).kind == home.kind);
    return model;
}

static void trains_with(hd_device device, hd_device home) {
    HD_SCOPE;
    double losses[2][STEPS];
    hd_module *ours = train(hd_cpu(), hd_cpu(), HD_COMPILER_HODU, losses[0]);
    hd_module *theirs = train(device, home, HD_COMPILER_XLA, losses[1]);
    require(losses[0][STEPS - 1] < losses[0][0]);
    for (int i = 0; i < STEPS; ++i) require(fabs(losses[0][i] - losses[1][i]) < 1e-5);
    for (int i = 0; i < 4; ++i)
        require(apart(hd_tensors_get(hd_module_parameters(theirs), i), hd_tensors_get(hd_module_parameters(ours), i)) <
                1e-5);
    hd_clear_tape();
}

/* The home of state is the device's memory, before and after. */
static void state_there(const void *nothing) {
    (void)nothing;
    open_both();
    trains_with(hd_cuda(0), hd_cuda(0));
    require(hd_ok() && xla->places > STEPS * 12);
    require(xla->views >= 2 * 12 && xla->views < STEPS * 12); /* of each parameter and moment its two blocks */
    require(xla->kept == 0);                                  /* the text does not give it away */
    require(reads == 0 && xla->living == 0);
    nothing_is_left(1);
}
static void state_here(const void *nothing) {
    (void)nothing;
    open_both();
    trains_with(hd_cuda(0), hd_cpu());
    require(hd_ok() && xla->living == 0);
    nothing_is_left(1);
}
/* A script on the CPU may update what is on a device. */
static void script_here(const void *nothing) {
    (void)nothing;
    open_both();
    trains_with(hd_cpu(), hd_cuda(0));
    require(hd_ok() && xla->views == 0);
    nothing_is_left(1);
}
/* Ops read and write what a script has updated, and the other way round. */
static void ops_beside(const void *nothing) {
    (void)nothing;
    open_both();
    HD_SCOPE;
    hd_tensor *w = there_of(HD_TENSOR_F32(HD_SHAPE(3), 1, 2, 3));
    hd_builder *b = hd_builder_new("doubles");
    hd_builder_start(b);
    hd_builder_add_state(b, "w", w);
    hd_assign(w, hd_mul_scalar(w, 2));
    hd_builder_add_output(b, "w", w);
    hd_script *s = by_xla(finished(b), hd_cuda(0));
    for (int i = 1; i < 4; ++i) {
        hd_tensor *out = run_for(s, "w"), *sum = hd_add(w, out);
        require(is_there(w) && is_there(sum) && at(sum, 2) == 4 * at(w, 2) / 2 && at(w, 2) == 3 * (float)(1 << i));
    }
    hd_tensor *snapshot = hd_copy(w);
    hd_assign(w, hd_add(w, w));
    require(at(run_for(s, "w"), 0) == 32 && at(w, 0) == 32 && at(snapshot, 0) == 8 && hd_ok());
}
static void scripts_train_there(void **state) {
    (void)state;
    in_child(state_there, NULL);
    in_child(state_here, NULL);
    in_child(script_here, NULL);
    in_child(ops_beside, NULL);
}

/* What a plugin lacks goes through the host. */
static void without(const void *what) {
    setenv("FAKE_GPU_LACKS", what, 1);
    open_both();
    trains_with(hd_cuda(0), hd_cuda(0));
    const bool looks = strcmp(what, "place") == 0 || strcmp(what, "layout") == 0;
    require(hd_ok() && (xla->views > 0) == looks && (reads > 0) == (strcmp(what, "view") != 0));
    require(xla->living == 0);
    nothing_is_left(1);
}
static void plugins_may_lack_it(void **state) {
    (void)state;
    in_child(without, "view");
    in_child(without, "place");
    in_child(without, "layout");
    in_child(without, "all");
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */
/* y = 2 x + a, with a constant; w += y. */
static hd_script *sums(hd_tensor *w, hd_tensor *constant) {
    hd_builder *b = hd_builder_new("sums");
    hd_builder_start(b);
    hd_builder_add_state(b, "w", w);
    hd_tensor *y = hd_add(hd_mul_scalar(hd_input("x", HD_SHAPE(3), HD_F32), 2), constant);
    hd_assign(w, hd_add(w, y));
    hd_builder_add_output(b, "y", y);
    hd_builder_add_output(b, "empty", hd_neg(hd_input("none", HD_SHAPE(0, 2), HD_F32)));
    hd_script *s = by_xla(finished(b), hd_cuda(0));
    hd_script_set_input(s, "none", hd_zeros(HD_SHAPE(0, 2), HD_F32));
    return s;
}

/* Inputs are read where they are, as they are when the script runs: also rows that lie at no round address. */
static void inputs(const void *nothing) {
    (void)nothing;
    open_both();
    {
        HD_SCOPE;
        hd_tensor *w = there_of(hd_zeros(HD_SHAPE(3), HD_F32));
        hd_script *s = sums(w, there_of(HD_TENSOR_F32(HD_SHAPE(3), 1, 2, 3)));
        hd_tensor *x = there_of(HD_TENSOR_F32(HD_SHAPE(3), 1, 1, 1)), *here = HD_TENSOR_F32(HD_SHAPE(3), 4, 5, 6);
        hd_tensor *rows = there_of(HD_TENSOR_F32(HD_SHAPE(2, 3), 0, 0, 0, 10, 20, 30));
        hd_script_set_input(s, "x", x);
        hd_tensor *first = run_for(s, "y"), *second = run_for(s, "y");
        require(is_there(first) && at(first, 2) == 5 && at(second, 2) == 5 && at(w, 2) == 10);
        const int64_t views = xla->views;
        hd_fill(x, 2); /* on its stream, which is not waited for */
        hd_tensor *third = run_for(s, "y");
        require(at(third, 0) == 5 && at(first, 0) == 3 && at(w, 0) == 11);
        require(xla->views == views); /* the two blocks of the state, and that of the input, are known */
        hd_script_set_input(s, "x", here);
        require(at(run_for(s, "y"), 1) == 12);
        hd_script_set_input(s, "x", hd_select(rows, 0, 1));
        require(at(run_for(s, "y"), 2) == 63);
        require(is_there(w) && at(w, 0) == 11 + 9 + 21);
        hd_script_set_input(s, "x", w); /* state as an input, of this run and the next */
        require(at(run_for(s, "y"), 0) == 83 && at(w, 0) == 41 + 83);
        require(at(run_for(s, "y"), 0) == 249 && at(w, 0) == 124 + 249);
        require(hd_ok());
    }
    require(xla->living == 0);
    nothing_is_left(1);
}
/* A tensor that has another's address, and was changed as often, is another one. */
static void same_address(const void *nothing) {
    (void)nothing;
    open_both();
    HD_SCOPE;
    hd_builder *b = hd_builder_new("sum");
    hd_builder_start(b);
    hd_builder_add_output(b, "y", hd_sum(hd_input("x", HD_SHAPE(1000), HD_F32), HD_AXES(), NULL));
    hd_script *s = by_xla(finished(b), hd_cuda(0));
    float values[1000] = {0};
    int same = 0;
    for (int i = 0; i < 20; ++i) {
        HD_SCOPE;
        static const void *before;
        values[0] = (float)i;
        hd_tensor *x = hd_from_data(values, HD_SHAPE(1000), HD_F32);
        same += x->storage->data == before;
        before = x->storage->data;
        hd_script_set_input(s, "x", x);
        require(at(run_for(s, "y"), 0) == (float)i);
        hd_script_clear_inputs(s);
    }
    require(hd_ok() && same == 0); /* it is held */
}
/* Clones share memory until one of the two is updated. */
static void clones(const void *nothing) {
    (void)nothing;
    open_both();
    HD_SCOPE;
    hd_tensor *w = there_of(hd_zeros(HD_SHAPE(3), HD_F32)), *before = hd_copy(w);
    hd_script *s = sums(w, hd_ones(HD_SHAPE(3), HD_F32)), *clone = hd_script_clone(s);
    hd_script_set_input(s, "x", hd_zeros(HD_SHAPE(3), HD_F32));
    hd_script_set_input(clone, "x", hd_ones(HD_SHAPE(3), HD_F32));
    for (int i = 0; i < 3; ++i) require(run_for(s, "y") != NULL && run_for(clone, "y") != NULL);
    require(at(w, 0) == 3 && at(hd_script_state(clone, "w"), 0) == 9 && at(before, 0) == 0);
    require(is_there(hd_script_state(clone, "w")) && hd_ok());
    hd_script_set_device(s, hd_cuda(1)); /* as scripts of HODU: state is not moved from device to device */
    require(hd_script_run(s) == NULL);
    require_error(HD_ERROR_DEVICE, "state is on cuda:0, and the script runs on cuda:1");
    require(at(w, 0) == 3);
}
static void what_it_reads_is_there(void **state) {
    (void)state;
    in_child(inputs, NULL);
    in_child(same_address, NULL);
    in_child(clones, NULL);
}

/* ---- what fails changes nothing ---------------------------------------------------------------------------------- */
typedef enum who { DRIVER, PLUGIN, MEMORY } who;

static void tell(who w, int64_t n) {
    fake->status = 1; /* once, and not for good */
    if (w == DRIVER) fake->fail_at = n < 0 ? -1 : fake->calls + n;
    if (w == PLUGIN) xla->fail_at = n < 0 ? -1 : xla->calls + n;
    if (w == MEMORY) hd_memory_fail_after(n);
}

/* Each thing that a run asks for fails once, in the first run and in a later one. */
static void each_fails(const void *context) {
    const who w = *(const who *)context;
    int failures = 0;
    open_both();
    for (int warm = 0; warm < 2; ++warm) {
        HD_SCOPE;
        hd_tensor *state = there_of(HD_TENSOR_F32(HD_SHAPE(3), 1, 2, 3));
        hd_script *s = sums(state, there_of(hd_ones(HD_SHAPE(3), HD_F32)));
        hd_tensor *x = there_of(hd_ones(HD_SHAPE(3), HD_F32)), *other = there_of(hd_ones(HD_SHAPE(3), HD_F32));
        hd_script_set_input(s, "x", x);
        hd_script_compile(s);
        float value = 1;
        if (warm) require(hd_script_run(s) != NULL && at(state, 0) == (value += 3));
        for (int n = 0, done = 0; !done; ++n) {
            HD_SCOPE;
            hd_script_set_input(s, "x", n % 2 == 0 ? other : x);
            const uint32_t version = state->storage->version;
            tell(w, n);
            const bool ran = hd_script_run(s) != NULL;
            tell(w, -1);
            require(ran == hd_ok() && (ran || strlen(hd_error_message()) > 30));
            hd_error_clear();
            if (ran) value += 3;
            require(is_there(state) && state->storage->version == version + ran);
            for (int i = 0; i < 3; ++i) require(at(state, i) == value + (float)i);
            failures += !ran;
            done = ran && n > 60; /* memory of the library's own may be had without */
        }
        require(hd_script_run(s) != NULL && at(state, 1) == value + 4);
        require(hd_ok());
    }
    require(failures > (w == MEMORY ? 5 : 10) && xla->living == 0);
    nothing_is_left(1);
}
/* A check inside of the program: the message is ours, and the state what it was. */
static void faults(const void *nothing) {
    (void)nothing;
    open_both();
    HD_SCOPE;
    hd_tensor *w = there_of(hd_zeros(HD_SHAPE(4), HD_F32)), *rows = there_of(hd_ones(HD_SHAPE(10, 4), HD_F32));
    hd_builder *b = hd_builder_new("rows");
    hd_builder_start(b);
    hd_builder_add_state(b, "w", w);
    hd_assign(w, hd_add(w, hd_sum(hd_index_select(rows, 0, hd_input("i", HD_SHAPE(3), HD_I64)), HD_AXES(0), NULL)));
    hd_script *s = by_xla(finished(b), hd_cuda(0));
    hd_script_set_input(s, "i", there_of(HD_TENSOR_I64(HD_SHAPE(3), 1, 9, 2)));
    require(hd_script_run(s) != NULL && at(w, 0) == 3);
    hd_script_set_input(s, "i", there_of(HD_TENSOR_I64(HD_SHAPE(3), 1, 10, 2)));
    const uint32_t version = w->storage->version;
    require(hd_script_run(s) == NULL);
    require_error(HD_ERROR_INDEX, "index 10 at place 1 of [3] is out of range for an axis of size 10");
    require(at(w, 0) == 3 && w->storage->version == version);
}
/* A step that is taken back takes runs in it back. */
static void undone(const void *nothing) {
    (void)nothing;
    open_both();
    HD_SCOPE;
    hd_tensor *w = there_of(hd_zeros(HD_SHAPE(3), HD_F32));
    hd_script *s = sums(w, hd_ones(HD_SHAPE(3), HD_F32));
    hd_script_set_input(s, "x", there_of(hd_zeros(HD_SHAPE(3), HD_F32)));
    require(hd_script_run(s) != NULL && at(w, 0) == 1);
    for (int keep = 0; keep < 2; ++keep) {
        const uint32_t version = w->storage->version;
        hd_undo *undo = hd_undo_begin(hd_thread_self());
        require(undo != NULL && hd_script_run(s) != NULL && hd_script_run(s) != NULL && at(w, 0) == 3);
        hd_undo_end(undo, keep);
        require(at(w, 0) == (keep ? 3 : 1) && w->storage->version == version + (keep ? 2 : 0) && is_there(w));
    }
    require(hd_script_run(s) != NULL && at(w, 0) == 4 && hd_ok());
}
static void what_fails_changes_nothing(void **state) {
    (void)state;
    for (who w = DRIVER; w <= MEMORY; ++w) in_child(each_fails, &w);
    in_child(faults, NULL);
    in_child(undone, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {test(scripts_train_there), test(plugins_may_lack_it),
                                       test(what_it_reads_is_there), test(what_fails_changes_nothing)};
    char path[HD_XLA_PATH];
    if (hd_xla_plugin_find(HD_DEVICE_CPU, path) != HD_OK) {
        print_message("skipped: %s\n", hd_error_message());
        return 77;
    }
    if (compiled_by() == NULL || !begin_keeping()) {
        print_message("skipped: there is no C++ compiler, or no /tmp\n");
        return 77;
    }
    setenv("FAKE_GPU_OF", path, 1);
    setenv("HODU_XLA_PLUGIN_CUDA", FAKE_GPU, 1);
    unsetenv("HODU_COMPILER");
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    end_keeping();
    return failed;
}
