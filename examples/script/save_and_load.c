/* A script in a file: what was recorded, its constants, and its state as it is. */
#include "check.h"

int main(void) {
    HD_SCOPE;
    hd_seed(18);
    hd_tensor *weight = hd_randn(HD_SHAPE(3, 4), HD_F32), *count = hd_zeros(HD_SHAPE(), HD_F32);

    hd_builder *builder = hd_builder_new("model");
    hd_builder_start(builder);
    hd_builder_add_state(builder, "count", count);
    hd_add_(count, hd_scalar(1, HD_F32)); /* how often it ran */
    hd_tensor *x = hd_input("x", HD_SHAPE(2, 3), HD_F32);
    hd_builder_add_output(builder, "result", hd_matmul(x, weight));
    hd_builder_add_output(builder, "count", count);
    hd_builder_end(builder);
    hd_script *script = hd_builder_build(builder);

    hd_tensor *x_data = hd_randn(HD_SHAPE(2, 3), HD_F32);
    hd_script_set_input(script, "x", x_data);
    hd_script_run(script);
    hd_script_save(script, "saved_by_example");                     /* .hoduscript is added */
    if (!hd_ok() && strstr(hd_error_message(), "HODU_FILES=OFF")) { /* a library for places without a file system */
        CHECK_ERROR("built without files");
        return 0;
    }

    /* In this process or another, on this machine or another. */
    hd_script *loaded = hd_script_load("saved_by_example.hoduscript");
    if (hd_compiler_available(HD_COMPILER_XLA)) hd_script_set_compiler(loaded, HD_COMPILER_XLA);
    hd_script_compile(loaded);
    hd_script_run(loaded);
    CHECK_ERROR("\"x\""); /* inputs are not saved */
    hd_script_set_input(loaded, "x", x_data);
    hd_outputs *outputs = hd_script_run(loaded);
    CHECK_CLOSE(hd_outputs_get(outputs, "result"), hd_matmul(x_data, weight));

    /* State goes on from where it was; from here on it is the loaded script's own. */
    CHECK(hd_item(hd_outputs_get(outputs, "count")) == 2);
    CHECK(hd_item(hd_script_state(loaded, "count")) == 2);
    CHECK(hd_item(count) == 1);

    /* Constants can be mapped instead of read, which is quick for large ones. */
    hd_script *mapped = hd_script_load_with("saved_by_example", HD_OPTS(hd_script_load_opts, .map = true));
    hd_script_set_input(mapped, "x", x_data);
    CHECK_CLOSE(hd_outputs_get(hd_script_run(mapped), "result"), hd_matmul(x_data, weight));

    /* A file that is none is an error, never a crash. */
    hd_script_load("no_such_file");
    CHECK_ERROR("no_such_file.hoduscript");
    FILE *file = fopen("damaged_by_example.hoduscript", "wb");
    CHECK(file != NULL);
    fputs("this is no script", file);
    fclose(file);
    hd_script_load("damaged_by_example");
    CHECK_ERROR("damaged_by_example.hoduscript");
    CHECK(remove("damaged_by_example.hoduscript") == 0);
    CHECK(remove("saved_by_example.hoduscript") == 0);
    return hd_exit_status();
}
