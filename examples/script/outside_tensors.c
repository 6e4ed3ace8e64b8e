/* The three things a tensor from outside can mean to a script: a constant, bound, or state. */
#include "check.h"

int main(void) {
    HD_SCOPE;
    hd_tensor *constant = hd_scalar(1, HD_F32), *bound = hd_scalar(1, HD_F32), *state = hd_scalar(1, HD_F32);

    hd_builder *builder = hd_builder_new("outside");
    hd_builder_start(builder);
    hd_builder_bind(builder, "bound", bound);      /* read at every run */
    hd_builder_add_state(builder, "state", state); /* read at every run, and written at its end */
    hd_tensor *x = hd_input("x", HD_SHAPE(), HD_F32);
    hd_tensor *sum = hd_add(hd_add(x, constant), hd_add(bound, state)); /* `constant` was not declared: it is one */
    hd_add_(state, hd_scalar(1, HD_F32));                               /* recorded: 1 more at the end of each run */
    hd_builder_add_output(builder, "sum", sum);
    hd_add_(bound, x);
    CHECK_ERROR("bound to the script, which only reads it");
    hd_builder_end(builder);
    CHECK(hd_item(state) == 1); /* recording changes nothing outside */
    hd_script *script = hd_builder_build(builder);
    hd_script_set_input(script, "x", hd_scalar(0, HD_F32));

    CHECK(hd_item(hd_outputs_get(hd_script_run(script), "sum")) == 3);
    CHECK(hd_item(state) == 2); /* the run wrote it */

    hd_fill(constant, 100); /* too late: the script has the value of then */
    hd_fill(bound, 10);
    CHECK(hd_item(hd_outputs_get(hd_script_run(script), "sum")) == 1 + 10 + 2);

    /* State goes both ways: by the tensor, or by its name in the script. */
    hd_fill(state, 1000);
    CHECK(hd_item(hd_outputs_get(hd_script_run(script), "sum")) == 1 + 10 + 1000);
    hd_script_set_state(script, "state", hd_scalar(-11, HD_F32));
    CHECK(hd_item(hd_outputs_get(hd_script_run(script), "sum")) == 0);
    CHECK(hd_item(hd_script_state(script, "state")) == -10);
    CHECK(hd_item(state) == -10);

    /* A clone has inputs and state of its own, for another thread say. */
    hd_script *clone = hd_script_clone(script);
    hd_script_run(clone);
    CHECK(hd_item(hd_script_state(clone, "state")) == -9);
    CHECK(hd_item(state) == -10);
    puts("constant, bound and state do what they say");
    return hd_exit_status();
}
