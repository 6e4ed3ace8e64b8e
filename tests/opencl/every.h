/* Many cases of everything.h in one script on a device of OpenCL, against the CPU at once. No case has anything of
 * another, so that nothing is fused but the ops of one. From O1 on the kernels of a script are one program to compile
 * (templates are others): this takes seconds where a program for each op, as at O0 or at once, takes minutes
 * (check-opencl). */
#ifndef HD_TESTS_OPENCL_EVERY_H
#define HD_TESTS_OPENCL_EVERY_H

#include "everything.h"

typedef struct one {
    int c; /* the case */
    operands operands;
    hd_tensor *in[3], *expected;
    double bound;
} one;

enum { CALL_UNITS = 32 }; /* of f32 at the largest operand: sums and functions are rounded otherwise on the way */

static inline const char *name_of(int k, int i) { /* of operand i, or of the result, -1 */
    static char name[64];
    snprintf(name, sizeof name, "%d of %d", i, k);
    return name;
}

static inline hd_script *recorded(const one *all, int count) {
    hd_builder *b = started("all");
    for (int k = 0; k < count; ++k) {
        hd_tensor *in[3] = {NULL};
        for (int i = 0; i < all[k].operands.count; ++i)
            in[i] = hd_input(name_of(k, i), hd_tensor_shape(all[k].in[i]), hd_tensor_dtype(all[k].in[i]));
        hd_builder_add_output(b, name_of(k, -1), run_case(all[k].c, in));
    }
    hd_script *s = built(b);
    for (int k = 0; k < count; ++k)
        for (int i = 0; i < all[k].operands.count; ++i) hd_script_set_input(s, name_of(k, i), all[k].in[i]);
    return s;
}

/* y of each, recorded in this order and run on the device, is what it is on the CPU; draws are taken in this order,
 * too. */
static inline void same_in_one_script(one *all, int count) {
    hd_seed(7);
    for (int k = 0; k < count; ++k) {
        one *o = &all[k];
        o->expected = run_case(o->c, o->in);
        assert_ok();
        const double units = case_call(o->c) == NULL ? 2 * fabs((double)hd_rows[o->c].ulp) : CALL_UNITS;
        o->bound = units * unit_of(hd_tensor_dtype(o->expected)) * size_of_case(&o->operands, o->expected);
    }
    hd_script *s = recorded(all, count);
    hd_script_set_device(s, hd_opencl(0));
    hd_script_set_optimization_level(s, HD_O1);
    hd_seed(7);
    hd_outputs *outputs = hd_script_run(s);
    assert_ok();
    for (int k = 0; k < count; ++k) {
        HD_SCOPE;
        hd_tensor *y = hd_outputs_get(outputs, name_of(k, -1));
        assert_true(hd_tensor_device(y).kind == HD_DEVICE_OPENCL);
        const char *why = difference_within(hd_to(y, hd_cpu()), all[k].expected, all[k].bound);
        if (why[0] != '\0') fail_msg("%s: %s", case_text(all[k].c, 0, &all[k].operands), why);
    }
}

/* One in `step` of the cases from `first` on, all of them in each run. PoCL takes 0.05 s for each kernel. */
static inline void every_case(int first, int end, int step) {
    static one all[CASE_COUNT];
    const int rounds = in_full() ? 4 : 1;
    for (int round = 0; round < rounds; ++round) {
        HD_SCOPE;
        int count = 0;
        for (int c = first; c < end; c += step) {
            if (!case_records(c) || !case_chosen(c)) continue;
            one *o = &all[count++];
            o->c = c;
            try_case(c, round, HD_F32, &o->operands);
            operands_of(&o->operands, o->in);
        }
        same_in_one_script(all, count);
    }
}

#endif
