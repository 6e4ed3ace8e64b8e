/* Many functions in one script on a device of OpenCL, each op alone (O0), against the CPU at once. One script is one
 * program to compile, so that this takes seconds where calls at once take minutes (`make check-opencl`). */
#ifndef HD_TESTS_OPENCL_EVERY_H
#define HD_TESTS_OPENCL_EVERY_H

#include "graph/calls.h"

typedef struct one {
    const char *name;
    hd_tensor *in[3], *expected;
    hd_tensor *(*run)(hd_tensor **in, const void *user);
    const void *user;
    int count;
    double bound;
} one;

/* y of each, recorded in this order and run on the device, is what it is on the CPU; draws are taken in this order,
 * too. */
static inline void same_in_one_script(one *all, int count, hd_optimization_level level) {
    hd_seed(7);
    for (int k = 0; k < count; ++k) {
        one *c = &all[k];
        c->expected = c->run(c->in, c->user);
        if (!hd_ok()) fail_msg("%s: %s", c->name, hd_error_message());
        double most = largest_of(c->expected);
        for (int i = 0; i < c->count; ++i) most = fmax(most, largest_of(c->in[i]));
        c->bound *= unit_of(hd_tensor_dtype(c->expected)) * most;
    }
    hd_builder *b = started("all");
    char name[64];
    for (int k = 0; k < count; ++k) {
        hd_tensor *in[3] = {NULL};
        for (int i = 0; i < all[k].count; ++i) {
            snprintf(name, sizeof name, "%d of %d", i, k);
            in[i] = hd_input(name, hd_tensor_shape(all[k].in[i]), hd_tensor_dtype(all[k].in[i]));
        }
        snprintf(name, sizeof name, "%d", k);
        hd_builder_add_output(b, name, all[k].run(in, all[k].user));
    }
    hd_script *s = built(b);
    hd_script_set_device(s, hd_opencl(0));
    hd_script_set_optimization_level(s, level);
    for (int k = 0; k < count; ++k)
        for (int i = 0; i < all[k].count; ++i) {
            snprintf(name, sizeof name, "%d of %d", i, k);
            hd_script_set_input(s, name, all[k].in[i]);
        }
    hd_seed(7);
    hd_outputs *o = hd_script_run(s);
    assert_ok();
    for (int k = 0; k < count; ++k) {
        HD_SCOPE;
        snprintf(name, sizeof name, "%d", k);
        hd_tensor *y = hd_outputs_get(o, name);
        assert_true(hd_tensor_device(y).kind == HD_DEVICE_OPENCL);
        const char *why = difference_within(hd_to(y, hd_cpu()), all[k].expected, all[k].bound);
        if (why[0] != '\0') fail_msg("%s: %s", all[k].name, why);
    }
}

enum { CALL_UNITS = 32 }; /* of f32 at the largest operand: sums and functions are rounded otherwise on the way */

/* One of two halves of the calls. */
static inline void every_second_call(int first) {
    HD_SCOPE;
    one all[CALL_COUNT];
    int count = 0;
    for (int k = first; k < CALL_COUNT; k += 2) {
        if (!when_slow((uint64_t)k / 2, 8)) continue;
        one *c = &all[count++];
        *c = (one){.name = calls[k].name, .run = run_call, .user = &calls[k], .bound = CALL_UNITS};
        c->count = call_operands(k, c->in);
    }
    same_in_one_script(all, count, HD_O0);
}

#endif
