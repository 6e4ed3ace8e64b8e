/* Graphs as StableHLO text: what small ones look like, that every op has a text, and what a program's ends are. */
#include "../graph/calls.h"
#include "core/memory.h"
#include "core/thread.h"
#include "script/script.h"
#include "xla/client.h"
#include "xla/emit.h"

static hd_stablehlo emitted(hd_script *s) {
    hd_stablehlo text;
    if (hd_stablehlo_emit(hd_thread_self(), s->graph, &text) != HD_OK) fail_msg("%s", hd_error_message());
    return text;
}

static void text_is(hd_script *s, const char *expected) {
    hd_stablehlo text = emitted(s);
    static const char head[] =
        "module @hodu attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {\n";
    assert_memory_equal(text.text, head, strlen(head));
    assert_string_equal(text.text + strlen(head), expected);
    assert_int_equal(strlen(text.text), text.bytes);
    hd_stablehlo_release(&text);
}

static void an_affine_layer_with_relu(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("affine");
    hd_tensor *x = hd_input("x", HD_SHAPE(2, 3), HD_F32), *w = hd_input("w", HD_SHAPE(4, 3), HD_F32),
              *c = hd_input("c", HD_SHAPE(4), HD_F32);
    hd_builder_add_output(b, "y", hd_relu(hd_affine(x, w, c)));
    text_is(built(b),
            "  func.func public @main(%0: tensor<2x3xf32>, %1: tensor<4x3xf32>, %2: tensor<4xf32>) -> "
            "(tensor<2x4xf32>) {\n"
            "    %3 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : "
            "(tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>\n"
            "    %4 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>\n"
            "    %5 = stablehlo.add %3, %4 : tensor<2x4xf32>\n"
            "    %6 = stablehlo.constant dense<0x00000000> : tensor<f32>\n"
            "    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<f32>) -> tensor<2x4xf32>\n"
            "    %8 = stablehlo.compare GT, %7, %5, FLOAT : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xi1>\n"
            "    %9 = stablehlo.compare NE, %7, %7, FLOAT : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xi1>\n"
            "    %10 = stablehlo.or %8, %9 : tensor<2x4xi1>\n"
            "    %11 = stablehlo.select %10, %7, %5 : tensor<2x4xi1>, tensor<2x4xf32>\n"
            "    return %11 : tensor<2x4xf32>\n"
            "  }\n"
            "}\n");
}

/* ---- precision --------------------------------------------------------------------------------------------------- */
static int times(const char *text, const char *word) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word)) ++count;
    return count;
}

typedef hd_tensor *(*product)(hd_tensor *x, hd_tensor *y);
static hd_tensor *of_affine(hd_tensor *x, hd_tensor *y) { return hd_affine(x, y, NULL); }
static hd_tensor *of_conv(hd_tensor *x, hd_tensor *y) {
    return hd_conv(hd_unsqueeze(x, 0), hd_unsqueeze(y, 2), NULL, NULL);
}
static hd_tensor *of_conv_transpose(hd_tensor *x, hd_tensor *y) {
    return hd_conv_transpose(hd_unsqueeze(x, 0), hd_unsqueeze(y, 2), NULL, NULL);
}
static hd_tensor *of_weight(hd_tensor *x, hd_tensor *y) {
    return hd_conv_weight_gradient(hd_unsqueeze(x, 0), hd_unsqueeze(y, 0), HD_SHAPE(1), NULL);
}

/* The text of one product, whose factors have these dtypes. */
static hd_stablehlo text_of_product(product p, hd_dtype x, hd_dtype y, hd_matmul_precision precision) {
    hd_builder *b = started("product");
    hd_set_matmul_precision(precision);
    hd_builder_add_output(b, "y", p(hd_input("a", HD_SHAPE(3, 3), x), hd_input("b", HD_SHAPE(3, 3), y)));
    hd_set_matmul_precision(HD_MATMUL_EXACT);
    return emitted(built(b));
}

/* HIGHEST is for exact products of numbers that TF32 has not: each operand says it once. */
static void products_say_how_exact_they_are(void **state) {
    (void)state;
    static const struct {
        hd_dtype x, y;
        bool is_wide[2]; /* at HD_MATMUL_EXACT, at HD_MATMUL_TF32 */
    } factors[] = {{HD_F32, HD_F32, {true, false}},    {HD_F64, HD_F64, {true, true}},
                   {HD_F64, HD_F32, {true, true}},     {HD_F32, HD_BF16, {true, false}},
                   {HD_BF16, HD_F16, {true, false}},   {HD_F16, HD_F16, {false, false}},
                   {HD_BF16, HD_BF16, {false, false}}, {HD_F8E4M3, HD_F8E4M3, {false, false}}};
    static const product products[] = {hd_matmul, of_affine, of_conv, of_conv_transpose, of_weight};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; ++i)
        for (size_t k = 0; k < sizeof products / sizeof *products; ++k)
            for (int precision = HD_MATMUL_EXACT; precision <= HD_MATMUL_TF32; ++precision) {
                HD_SCOPE;
                hd_stablehlo s =
                    text_of_product(products[k], factors[i].x, factors[i].y, (hd_matmul_precision)precision);
                const int highest = times(s.text, "HIGHEST"), other = times(s.text, "DEFAULT"),
                          expected = factors[i].is_wide[precision] ? 2 : 0;
                if (highest != expected || other != 2 - expected)
                    fail_msg("product %zu of %s and %s at precision %d:\n%s", k, hd_dtype_name(factors[i].x),
                             hd_dtype_name(factors[i].y), precision, s.text);
                hd_stablehlo_release(&s);
            }
}

/* Two matrices of bf16, or of f16, are multiplied as they are, and their products are added up in f32. */
static void halves_are_not_converted(void **state) {
    (void)state;
    static const hd_dtype halves[] = {HD_BF16, HD_F16};
    for (int i = 0; i < 2; ++i) {
        HD_SCOPE;
        char expected[96];
        hd_stablehlo s = text_of_product(hd_matmul, halves[i], halves[i], HD_MATMUL_EXACT);
        snprintf(expected, sizeof expected, ": (tensor<3x3x%s>, tensor<3x3x%s>) -> tensor<3x3xf32>",
                 hd_dtype_name(halves[i]), hd_dtype_name(halves[i]));
        assert_int_equal(times(s.text, expected), 1);
        assert_int_equal(times(s.text, "stablehlo.convert"), 1); /* of the result */
        hd_stablehlo_release(&s);
    }
}

/* TF32 has as many bits as f16, and three more than bf16; in f32 attention is exact whatever is set. */
static void attention_is_exact(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_F16, HD_BF16};
    for (int i = 0; i < 3; ++i) {
        HD_SCOPE;
        hd_builder *b = started("attention");
        hd_set_matmul_precision(HD_MATMUL_TF32);
        hd_tensor *x = hd_input("x", HD_SHAPE(2, 4, 8), dtypes[i]);
        hd_builder_add_output(b, "y", hd_attention(x, x, x, NULL, false, 0));
        hd_set_matmul_precision(HD_MATMUL_EXACT);
        hd_stablehlo s = emitted(built(b));
        assert_int_equal(times(s.text, "HIGHEST"), dtypes[i] == HD_BF16 ? 0 : 4);
        assert_int_equal(times(s.text, "DEFAULT"), dtypes[i] == HD_BF16 ? 4 : 0);
        hd_stablehlo_release(&s);
    }
}

static bool has_flag(const hd_xla_options *o, const char *flag, bool value) {
    for (size_t at = 0; at + strlen(flag) + 4 <= o->count; ++at) {
        const char *found = o->bytes + at, *behind = found + strlen(flag);
        if (memcmp(found, flag, strlen(flag)) == 0)
            return memcmp(behind, (const char[]){0x12, 2, 0x10, (char)value}, 4) == 0;
    }
    return false;
}

/* On CUDA, and nowhere else, products are cuBLAS's, but for those of TF32. */
static void options_follow_from_the_program(void **state) {
    (void)state;
    static const char excess[] = "xla_allow_excess_precision", triton[] = "xla_gpu_enable_triton_gemm";
    for (int kind = HD_DEVICE_CPU; kind <= HD_DEVICE_CUDA; ++kind)
        for (int index = 0; index < 2; ++index)
            for (int precision = HD_MATMUL_EXACT; precision <= HD_MATMUL_TF32; ++precision) {
                HD_SCOPE;
                const hd_xla_device device = {.device = {(hd_device_kind)kind, index}, .id = 5};
                hd_stablehlo s = text_of_product(hd_matmul, HD_F32, HD_F32, (hd_matmul_precision)precision);
                hd_xla_options o;
                hd_xla_choose_options(&device, s.text, &o);
                hd_stablehlo_release(&s);
                assert_in_range(o.count, 1, sizeof o.bytes);
                assert_true(has_flag(&o, excess, false));
                assert_int_equal(has_flag(&o, triton, false), kind == HD_DEVICE_CUDA && precision == HD_MATMUL_EXACT);
                assert_false(has_flag(&o, triton, true));
                static const char first[] = {0x1A, 4, 0x20, 1, 0x28, 1};
                const char other[] = {0x1A, 15, 0x20, 1, 0x28, 1, 0x4A, 9, 8, 1, 0x10, 1, 0x1A, 3, 0x0A, 1, 5};
                const size_t end = index == 0 ? sizeof first : sizeof other;
                assert_memory_equal(o.bytes + o.count - end, index == 0 ? first : other, end);
                s = text_of_product(hd_matmul, HD_BF16, HD_BF16, (hd_matmul_precision)precision);
                hd_xla_choose_options(&device, s.text, &o);
                hd_stablehlo_release(&s);
                assert_int_equal(has_flag(&o, triton, false), kind == HD_DEVICE_CUDA);
            }
}

/* State that is updated is donated to its update; the learning rate is a number. */
static void a_step_with_state(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_zeros(HD_SHAPE(3), HD_F32);
    hd_builder *b = started("step");
    hd_builder_add_state(b, "w", w);
    hd_tensor *g = hd_input("g", HD_SHAPE(3), HD_F32);
    hd_assign(w, hd_sub(w, hd_mul_scalar(g, 0.5)));
    hd_builder_add_output(b, "norm", hd_sum(g, HD_AXES(), NULL));
    hd_script *s = built(b);
    text_is(s, "  func.func public @main(%0: tensor<3xf32>, %1: tensor<3xf32> {tf.aliasing_output = 1 : i32}) -> "
               "(tensor<f32>, tensor<3xf32>) {\n"
               "    %2 = stablehlo.constant dense<0x3F000000> : tensor<f32>\n"
               "    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<3xf32>\n"
               "    %4 = stablehlo.multiply %0, %3 : tensor<3xf32>\n"
               "    %5 = stablehlo.subtract %1, %4 : tensor<3xf32>\n"
               "    %6 = stablehlo.convert %0 : (tensor<3xf32>) -> tensor<3xf64>\n"
               "    %7 = stablehlo.constant dense<0x0000000000000000> : tensor<f64>\n"
               "    %8 = stablehlo.reduce(%6 init: %7) applies stablehlo.add across dimensions = [0] : (tensor<3xf64>, "
               "tensor<f64>) -> tensor<f64>\n"
               "    %9 = stablehlo.convert %8 : (tensor<f64>) -> tensor<f32>\n"
               "    return %9, %5 : tensor<f32>, tensor<3xf32>\n"
               "  }\n"
               "}\n");
    hd_stablehlo text = emitted(s);
    assert_int_equal(text.argument_count, 2);
    assert_int_equal(text.arguments[0].kind, HD_HLO_INPUT);
    assert_int_equal(text.arguments[0].result, -1);
    assert_int_equal(text.arguments[1].kind, HD_HLO_CELL);
    assert_int_equal(text.arguments[1].result, 1);
    assert_int_equal(text.result_count, 2);
    assert_int_equal(text.results[0].kind, HD_HLO_OUTPUT);
    assert_int_equal(text.results[1].kind, HD_HLO_UPDATE);
    hd_stablehlo_release(&text);
}

/* Small constants are text, large ones arguments; draws take a seed; checks give a fault. */
static void ends_of_a_program(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *large = hd_copy(hd_arange(0, 100, 1, HD_F32)), *small = HD_TENSOR_I64(HD_SHAPE(2), 5, -1);
    hd_builder *b = started("ends");
    hd_tensor *x = hd_input("x", HD_SHAPE(2), HD_I64);
    hd_builder_add_output(b, "y", hd_index_select(hd_add(large, hd_rand(HD_SHAPE(100), HD_F32)), 0, hd_add(x, small)));
    hd_stablehlo text = emitted(built(b));
    static const hd_hlo_argument_kind kinds[] = {HD_HLO_INPUT, HD_HLO_CONSTANT, HD_HLO_SEED, HD_HLO_DRAW};
    assert_int_equal(text.argument_count, 4);
    for (int i = 0; i < 4; ++i) assert_int_equal(text.arguments[i].kind, kinds[i]);
    assert_non_null(
        strstr(text.text, "stablehlo.constant dense<\"0x0500000000000000FFFFFFFFFFFFFFFF\"> : tensor<2xi64>"));
    assert_int_equal(text.result_count, 2);
    assert_int_equal(text.results[1].kind, HD_HLO_FAULT);
    assert_int_equal(text.check_count, 1);
    assert_int_equal(text.checks[0].bound, 100);
    hd_stablehlo_release(&text);
}

/* No op is refused but for most of linear algebra, by its name: what is in the list of calls is all of them, and all
 * rows in all their dtypes are in test_emit_rows.c. */
static void is_refused(const hd_script *s, const char *call) {
    hd_stablehlo text;
    if (hd_stablehlo_emit(hd_thread_self(), s->graph, &text) == HD_OK) fail_msg("%s is not refused", call);
    assert_error(HD_ERROR_STATE, "; compile with HD_COMPILER_HODU, or call it outside of the script");
}

static void every_op_has_a_text(void **state) {
    (void)state;
    bool seen[HD_OP_COUNT] = {false};
    for (int k = 0; k < CALL_COUNT; ++k) {
        HD_SCOPE;
        hd_tensor *in[3];
        const int count = call_operands(k, in);
        for (int i = 0; i < count; ++i) hd_requires_grad(in[i]);
        hd_builder *b = started(calls[k].name);
        hd_tensor *y = run_call(in, &calls[k]);
        hd_builder_add_output(b, "y", y);
        if (hd_tensor_requires_grad(y)) hd_backward(y);
        hd_error_clear(); /* some have no gradient */
        hd_clear_tape();
        hd_script *s = built(b);
        for (uint32_t i = 0; i < s->graph->node_count; ++i)
            if (hd_node_is_op(&s->graph->nodes[i])) seen[s->graph->nodes[i].op] = true;
        if (is_refused_by_xla(k)) {
            is_refused(s, calls[k].name);
            continue;
        }
        hd_stablehlo text = emitted(s);
        hd_stablehlo_release(&text);
    }
    for (int id = HD_OP_ELEMENTWISE_COUNT; id < (int)HD_OP_COUNT; ++id)
        if (!seen[id] && (hd_ops[id].family != HD_FAMILY_LINALG || has_lapack()))
            fail_msg("%s is in no call", hd_ops[id].name);
}

/* The text of a graph with ten times the nodes is ten times as long, or a little more, as numbers have more digits. */
static size_t text_of_steps(int steps) {
    HD_SCOPE;
    hd_builder *b = started("steps");
    hd_tensor *x = hd_input("x", HD_SHAPE(8, 8), HD_F32);
    for (int i = 0; i < steps; ++i) x = hd_tanh(hd_add(hd_matmul(x, x), x));
    hd_builder_add_output(b, "y", x);
    hd_stablehlo text = emitted(built(b));
    const size_t bytes = text.bytes;
    hd_stablehlo_release(&text);
    return bytes;
}
static void text_grows_with_the_graph(void **state) {
    (void)state;
    const size_t head = text_of_steps(1), few = text_of_steps(101) - head, many = text_of_steps(1001) - head;
    assert_in_range(many, 9 * few, 11 * few);
}

/* Any allocation may fail: an error, and nothing is left behind. */
static void memory_may_run_out(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_copy(hd_arange(0, 5, 1, HD_F32));
    hd_builder *b = started("memory");
    hd_builder_add_state(b, "w", w);
    hd_tensor *x = hd_input("x", HD_SHAPE(3), HD_I64);
    hd_assign(w, hd_exp(hd_add(w, hd_randn(HD_SHAPE(5), HD_F32))));
    hd_builder_add_output(b, "y", hd_index_select(w, 0, x));
    hd_script *s = built(b);
    int64_t failures = 0;
    for (bool again = true; again; ++failures) {
        hd_stablehlo text;
        hd_memory_fail_after(failures);
        const hd_error status = hd_stablehlo_emit(hd_thread_self(), s->graph, &text);
        hd_memory_fail_after(-1);
        again = status != HD_OK;
        if (again) assert_error(HD_ERROR_MEMORY, "memory");
        hd_stablehlo_release(&text);
    }
    assert_true(failures > 20);
}

static void scripts_show_their_text(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("show");
    hd_builder_add_output(b, "y", hd_neg(hd_input("x", HD_SHAPE(3), HD_F32)));
    hd_script *s = built(b);
    char text[1024], few[10];
    const int64_t length = hd_script_format_stablehlo(s, text, sizeof text);
    assert_int_equal(length, strlen(text));
    assert_non_null(strstr(text, "func.func public @main(%0: tensor<3xf32>)"));
    assert_non_null(strstr(text, "stablehlo.negate"));
    assert_int_equal(hd_script_format_stablehlo(s, few, sizeof few), length);
    assert_int_equal(strlen(few), 9);
    assert_int_equal(hd_script_format_stablehlo(NULL, text, sizeof text), -1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_script_format_stablehlo");
}

RUN(test(an_affine_layer_with_relu), test(products_say_how_exact_they_are), test(halves_are_not_converted),
    test(attention_is_exact), test(options_follow_from_the_program), test(a_step_with_state), test(ends_of_a_program),
    test(every_op_has_a_text), test(text_grows_with_the_graph), test(memory_may_run_out), test(scripts_show_their_text))
