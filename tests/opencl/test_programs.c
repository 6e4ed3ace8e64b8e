/* Random programs as scripts on a device of OpenCL, with all that fuses (O2), against the CPU at once. */
#include "graph/programs.h"

static void random_program(uint64_t program, int steps) {
    HD_SCOPE;
    values start = {.count = 0}, now = {.measured = true}, recorded = {.count = 0}, outside = {.count = 0};
    make_outside(program, &start);
    for (int i = 0; i < OUTSIDE; ++i) {
        now.t[i] = hd_copy(start.t[i]);
        outside.t[i] = hd_copy(start.t[i]);
    }
    hd_script *s = hd_builder_build(record_program(program, steps, &recorded, &outside));
    if (s == NULL) fail_msg("program %llu: %s", (unsigned long long)program, hd_error_message());
    hd_script_set_device(s, hd_opencl(0));
    hd_script_set_input(s, "x0", start.t[0]);
    hd_script_set_input(s, "x1", start.t[1]);
    hd_seed(program);
    run_program(program, steps, &now);
    hd_seed(program);
    hd_outputs *o = hd_script_run(s);
    if (!hd_ok()) fail_msg("program %llu: %s", (unsigned long long)program, hd_error_message());
    for (int64_t i = 0; i < hd_outputs_count(o); ++i) {
        const char *name = hd_outputs_name(o, i);
        const int value = atoi(name + 1);
        const char *why = difference_within(hd_to(hd_outputs_at(o, i), hd_cpu()), now.t[value], now.error[value]);
        if (why[0] != '\0') fail_msg("program %llu, %s: %s", (unsigned long long)program, name, why);
    }
    for (int i = 2; i < OUTSIDE; ++i) { /* state; what is no state does not change */
        const char *why = i < 4 ? difference_within(outside.t[i], now.t[i], now.error[i])
                                : difference_within(outside.t[i], start.t[i], 0);
        if (why[0] != '\0') fail_msg("program %llu, value %d from outside: %s", (unsigned long long)program, i, why);
    }
}

static void random_programs(void **state) {
    (void)state;
    const uint64_t first = sample_seed() * 1000, count = in_full() ? 100 : SANITIZED ? 2 : 8;
    for (uint64_t i = 0; i < count; ++i) random_program(first + i, 5 + (int)(i * 7 % 45));
}

RUN_ON(hd_opencl(0), test(random_programs))
