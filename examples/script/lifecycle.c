/* The life of a builder, call by call, and what is refused on the way. */
#include "check.h"

int main(void) {
    HD_SCOPE;
    hd_seed(2);

    hd_builder *builder = hd_builder_new("computation_name");
    hd_input("a", HD_SHAPE(10), HD_F32); /* too early */
    CHECK_ERROR("no builder is active");

    hd_builder_start(builder);
    hd_tensor *a = hd_input("a", HD_SHAPE(10), HD_F32); /* what hd_builder_add_input does, for the active builder */
    hd_tensor *x = hd_builder_add_input(builder, "x", HD_SHAPE(10, 20), HD_F32);
    hd_input("x", HD_SHAPE(3), HD_F32);
    CHECK_ERROR("there is an input \"x\" already");

    hd_tensor *b = hd_mul_scalar(a, 2);
    hd_tensor *loss = hd_mean(hd_mul(x, hd_unsqueeze(b, 1)), HD_AXES(), NULL);
    CHECK_EQUAL(hd_tensor_rank(loss), 0); /* shapes and dtypes are known while recording ... */
    hd_item(loss);                        /* ... and values are not */
    CHECK_ERROR("is not known before its script runs");

    hd_builder_add_output(builder, "result", b); /* as many outputs as you like */
    hd_builder_add_output(builder, "loss", loss);
    hd_builder_build(builder);
    CHECK_ERROR("call hd_builder_end first");
    hd_builder_end(builder);

    hd_tensor *c = hd_randn(HD_SHAPE(5), HD_F32); /* dynamic again: c has values */
    CHECK(hd_data_f32(c) != NULL);

    hd_script *script = hd_builder_build(builder), *another = hd_builder_build(builder); /* independent ones */
    hd_release(builder);                                                                 /* no longer needed */

    hd_tensor *a_data = hd_randn(HD_SHAPE(10), HD_F32), *x_data = hd_randn(HD_SHAPE(10, 20), HD_F32);
    hd_script_run(script);
    CHECK_ERROR("2 inputs are not set: \"a\", \"x\"");
    hd_script_set_input(script, "a", a_data);
    hd_script_set_input(script, "x", hd_ones(HD_SHAPE(20, 10), HD_F32));
    CHECK_ERROR("\"x\" is f32 [10,20]; given is f32 [20,10]");
    hd_script_set_input(script, "x", x_data);
    hd_outputs *outputs = hd_script_run(script);
    CHECK_EQUAL(hd_outputs_count(outputs), 2);
    for (int64_t i = 0; i < hd_outputs_count(outputs); ++i)
        printf("output %" PRId64 " is \"%s\"\n", i, hd_outputs_name(outputs, i));

    CHECK_CLOSE(hd_outputs_get(outputs, "result"), hd_mul_scalar(a_data, 2));
    CHECK_CLOSE(hd_outputs_at(outputs, 1),
                hd_mean(hd_mul(x_data, hd_unsqueeze(hd_mul_scalar(a_data, 2), 1)), HD_AXES(), NULL));
    hd_outputs_get(outputs, "accuracy");
    CHECK_ERROR("there are \"result\", \"loss\"");
    hd_script_output(another, "loss");
    CHECK_ERROR("has not run yet"); /* the other one knows nothing of this run */
    return hd_exit_status();
}
