/* Programs of StableHLO and what runs them, for the tests of the XLA room. */
#ifndef HD_TESTS_XLA_PROGRAMS_H
#define HD_TESTS_XLA_PROGRAMS_H

#include "support.h"
#include "xla/client.h"

static const char matmul_text[] =
    "module @m {\n"
    "  func.func public @main(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) -> tensor<2x4xf32> {\n"
    "    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> "
    "tensor<2x4xf32>\n"
    "    return %0 : tensor<2x4xf32>\n"
    "  }\n"
    "}\n";

/* x + 1 into the memory of x. */
static const char increment_text[] =
    "module @m {\n"
    "  func.func public @main(%x: tensor<1024xf32> {tf.aliasing_output = 0 : i32}) -> tensor<1024xf32> {\n"
    "    %one = stablehlo.constant dense<1.0> : tensor<1024xf32>\n"
    "    %0 = stablehlo.add %x, %one : tensor<1024xf32>\n"
    "    return %0 : tensor<1024xf32>\n"
    "  }\n"
    "}\n";

/* 0.5 + tanh(x) again and again, a good while; and how often. */
static const char slow_text[] =
    "module @m {\n"
    "  func.func public @main(%x: tensor<65536xf32>) -> (tensor<65536xf32>, tensor<i32>) {\n"
    "    %zero = stablehlo.constant dense<0> : tensor<i32>\n"
    "    %half = stablehlo.constant dense<0.5> : tensor<65536xf32>\n"
    "    %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<65536xf32>\n"
    "    cond {\n"
    "      %n = stablehlo.constant dense<1000> : tensor<i32>\n"
    "      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
    "      stablehlo.return %c : tensor<i1>\n"
    "    } do {\n"
    "      %one = stablehlo.constant dense<1> : tensor<i32>\n"
    "      %j = stablehlo.add %i, %one : tensor<i32>\n"
    "      %t = stablehlo.tanh %a : tensor<65536xf32>\n"
    "      %b = stablehlo.add %t, %half : tensor<65536xf32>\n"
    "      stablehlo.return %j, %b : tensor<i32>, tensor<65536xf32>\n"
    "    }\n"
    "    return %r#1, %r#0 : tensor<65536xf32>, tensor<i32>\n"
    "  }\n"
    "}\n";
enum { SLOW_COUNT = 65536, SLOW_TIMES = 1000 };

static inline hd_xla_type f32_of(hd_shape shape) { return (hd_xla_type){HD_F32, shape}; }
static inline hd_xla_parameter takes(hd_shape shape) { return (hd_xla_parameter){.type = f32_of(shape)}; }

static inline hd_xla_program *compile_text(hd_xla_device *device, const char *text, const hd_xla_parameter *parameters,
                                           int count) {
    return hd_xla_compile(device, text, strlen(text), parameters, count);
}

static inline hd_xla_program *compile_matmul(hd_xla_device *device) {
    return compile_text(device, matmul_text, (const hd_xla_parameter[]){takes(HD_SHAPE(2, 3)), takes(HD_SHAPE(3, 4))},
                        2);
}
static inline hd_xla_program *compile_increment(hd_xla_device *device) {
    return compile_text(device, increment_text,
                        &(const hd_xla_parameter){.type = f32_of(HD_SHAPE(1024)), .donated = true}, 1);
}
static inline hd_xla_program *compile_slow(hd_xla_device *device) {
    return compile_text(device, slow_text, (const hd_xla_parameter[]){takes(HD_SHAPE(SLOW_COUNT))}, 1);
}

static inline hd_xla_buffer make_f32(hd_xla_device *device, hd_shape shape, const float *data) {
    hd_xla_buffer b;
    hd_xla_buffer_make(device, &(hd_xla_type){HD_F32, shape}, data, HD_XLA_COPY, &b);
    assert_ok();
    return b;
}

static inline void assert_buffer(const hd_xla_buffer *b, const float *expected, size_t count) {
    float *got = calloc(count, sizeof *got);
    assert_non_null(got);
    hd_xla_buffer_read(b, got, count * sizeof *got);
    assert_ok();
    for (size_t i = 0; i < count; ++i)
        if (got[i] != expected[i]) fail_msg("element %zu is %g, expected %g", i, got[i], expected[i]);
    free(got);
}

static const float matmul_x[6] = {1, 2, 3, 4, 5, 6};
static const float matmul_w[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
static const float matmul_y[8] = {32, 38, 44, 50, 68, 83, 98, 113};

/* Whether there is a plugin at all; says how to get it when not. */
static inline bool has_plugin(void) {
    char path[HD_XLA_PATH];
    const bool found = hd_xla_plugin_find(HD_DEVICE_CPU, path) == HD_OK;
    if (!found) print_message("skipped: %s\n", hd_error_message());
    hd_error_clear();
    return found;
}

/* In a child of a process that has used XLA: the pending error says so, and is gone. */
static inline bool says_fork(void) {
    const bool says = hd_error_code() == HD_ERROR_STATE && strstr(hd_error_message(), "before this process was forked");
    if (!says) fprintf(stderr, "in the child: \"%s\"\n", hd_error_message());
    hd_error_clear();
    return says;
}

#endif
