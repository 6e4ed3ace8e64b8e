/* Scripts with kernels, saved with their machine code: for test_native.c. */
#ifndef HD_TESTS_COMPILER_FILES_NATIVE_H
#define HD_TESTS_COMPILER_FILES_NATIVE_H

#include "script/files.h"

#include "compiler/own_cache.h"

#if HD_HAS_FILES

/* Kernels of several kinds: point by point, reductions, draws, behind a product, of state. */
static inline hd_script *many_kernels(void) {
    hd_tensor *mean = hd_zeros(HD_SHAPE(40), HD_F32),
              *weight = hd_reshape(hd_range(-1, 0.002, 1200, HD_F32), HD_SHAPE(30, 40));
    hd_builder *b = started("kernels");
    hd_builder_add_state(b, "mean", mean);
    hd_tensor *x = hd_input("x", HD_SHAPE(50, 30), HD_F32);
    hd_tensor *y = hd_sin(hd_matmul(hd_softmax(x, 1), weight));
    hd_tensor *noise = hd_uniform(HD_SHAPE(50, 40), HD_F32, 0, 1);
    hd_assign(mean, hd_add(hd_mul_scalar(mean, 0.5), hd_mean(y, HD_AXES(0), NULL)));
    hd_builder_add_output(b, "y", hd_mul(y, noise));
    hd_builder_add_output(b, "log", hd_log_softmax(hd_sub(y, mean), 1));
    hd_builder_add_output(b, "of other dtypes", hd_cast(hd_exp(hd_cast(x, HD_F64)), HD_BF16));
    return built(b);
}

/* One kernel and nothing else. */
static inline hd_script *small_kernel(void) {
    hd_builder *b = hd_builder_new("small");
    hd_builder_start(b);
    hd_builder_add_output(b, "y", hd_add_scalar(hd_mul_scalar(hd_input("x", HD_SHAPE(3), HD_F32), 2), 1));
    hd_builder_end(b);
    return hd_builder_build(b);
}
static inline void set_one_input(hd_script *s) { hd_script_set_input(s, "x", hd_ones(HD_SHAPE(3), HD_F32)); }

static inline void save_native(hd_script *s, const char *path) {
    hd_script_save_with(s, path, HD_OPTS(hd_script_save_opts, .native = true));
}
static inline hd_script *load_native(const char *path) {
    return hd_script_load_with(path, HD_OPTS(hd_script_load_opts, .native = true));
}

/* Two runs of many_kernels into a file: all outputs, and the state after them. */
static inline void write_results(hd_script *s, const char *path) {
    HD_SCOPE;
    FILE *f = fopen(path, "wb");
    hd_seed(7);
    hd_script_set_input(s, "x", hd_reshape(hd_range(0, 0.01, 1500, HD_F32), HD_SHAPE(50, 30)));
    for (int round = 0; round < 2 && hd_ok(); ++round) {
        hd_outputs *o = hd_script_run(s);
        for (int64_t i = 0; i <= hd_outputs_count(o) && hd_ok(); ++i) {
            hd_tensor *t = hd_contiguous(i < hd_outputs_count(o) ? hd_outputs_at(o, i) : hd_script_state(s, "mean"));
            fwrite(hd_data(t, hd_tensor_dtype(t)), 1, (size_t)hd_tensor_count(t) * hd_dtype_size(hd_tensor_dtype(t)),
                   f);
        }
    }
    fclose(f);
}

/* Runs a script of many_kernels; its results are those of one that was just made, and its code is that of the file
 * (`why` NULL), or it says why not. */
static inline void assert_same_results(hd_script *s, const char *why) {
    char paths[2][300];
    assert_ok();
    for (int i = 0; i < 2; ++i) {
        snprintf(paths[i], sizeof paths[i], "%s/%s-%p", folder, i ? "fresh" : "loaded", (void *)s);
        hd_script *fresh = i ? many_kernels() : s;
        if (i) hd_script_set_optimization_level(fresh, s->level);
        write_results(fresh, paths[i]);
    }
    assert_ok();
    const file_bytes loaded = read_bytes(paths[0]), fresh = read_bytes(paths[1]);
    assert_int_equal(loaded.size, fresh.size);
    assert_true(loaded.size > 1000);
    assert_memory_equal(loaded.at, fresh.at, fresh.size);
    free(loaded.at);
    free(fresh.at);
    const hd_script_figures f = hd_script_stats(s);
    assert_int_equal(f.kernels_from_file, why == NULL ? f.kernels : 0);
    if (why == NULL ? f.native_unused != NULL : f.native_unused == NULL || strstr(f.native_unused, why) == NULL)
        fail_msg("expected \"%s\", got \"%s\"", why, f.native_unused);
}

/* Runs a script of small_kernel. */
static inline void assert_small_result(hd_script *s, int64_t from_file, const char *why) {
    HD_SCOPE;
    assert_ok();
    set_one_input(s);
    hd_tensor *y = output(s, "y");
    assert_ok();
    for (int i = 0; i < 3; ++i) assert_true(hd_data_f32(y)[i] == 3);
    const hd_script_figures f = hd_script_stats(s);
    assert_int_equal(f.kernels_from_file, from_file);
    if (why == NULL ? f.native_unused != NULL : f.native_unused == NULL || strstr(f.native_unused, why) == NULL)
        fail_msg("expected \"%s\", got \"%s\"", why, f.native_unused);
}

#endif
#endif
