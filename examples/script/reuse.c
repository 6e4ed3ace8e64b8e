/* One script, a hundred inputs. */
#include "check.h"

static hd_tensor *generate_input(int i) { return hd_full(HD_SHAPE(3), HD_F32, i); }

int main(void) {
    HD_SCOPE;
    hd_builder *builder = hd_builder_new("reuse");
    hd_builder_start(builder);
    hd_tensor *x = hd_input("x", HD_SHAPE(3), HD_F32), *offset = hd_input("offset", HD_SHAPE(3), HD_F32);
    hd_builder_add_output(builder, "result", hd_add(hd_square(x), offset));
    hd_builder_end(builder);
    hd_script *script = hd_builder_build(builder);
    hd_script_compile(script); /* once */

    hd_tensor *ones = hd_ones(HD_SHAPE(3), HD_F32), *first = NULL;
    for (int i = 0; i < 100; ++i) {
        HD_SCOPE;
        hd_script_clear_inputs(script); /* forgets what was set before; an input is kept otherwise */
        hd_script_set_input(script, "offset", ones);
        hd_script_set_input(script, "x", generate_input(i));
        hd_tensor *result = hd_outputs_get(hd_script_run(script), "result");
        CHECK_CLOSE(result, hd_full(HD_SHAPE(3), HD_F32, i * i + 1));
        if (i == 0) first = hd_keep(result);
    }
    CHECK_EQUAL(compilations(script), 1);
    CHECK_EQUAL(hd_script_stats(script).runs, 100);
    CHECK_CLOSE(first, ones); /* 99 runs later it is still the first result */

    /* What is kept: only x is set anew here. */
    hd_script_set_input(script, "x", generate_input(7));
    CHECK_CLOSE(hd_outputs_get(hd_script_run(script), "result"), hd_full(HD_SHAPE(3), HD_F32, 50));
    hd_script_clear_inputs(script);
    hd_script_run(script);
    CHECK_ERROR("\"x\", \"offset\"");
    return hd_exit_status();
}
