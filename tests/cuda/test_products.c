/* Products on a GPU of NVIDIA's, against the CPU: by cuBLASLt where that is, and once more without it
 * (HODU_CUBLASLT=none). Skipped where there is no such GPU. */
#include <hodu/hodu.h>

static hd_device there(void) { return hd_cuda(0); }
#include "builders.h"
#include "printed.h"
#include "gpu/products.h"

#include <math.h>

/* ---- who computes ------------------------------------------------------------------------------------------------ */
/* The first test, as HODU_DUMP=calls says once that there is no library: what is a product of floats is the library's
 * where there is one. */
static void the_library_computes_products(void **state) {
    (void)state;
    static const hd_dtype taken[] = {HD_F32, HD_F64, HD_BF16, HD_F16};
    char text[4096];
    HD_SCOPE;
    setenv("HODU_DUMP", "calls", 1);
    const printed p = printed_begin();
    for (int i = 0; i < 4; ++i) {
        hd_tensor *x = hd_to(hd_ones(S(3, 40, 72), taken[i]), there()),
                  *w = hd_to(hd_ones(S(56, 72), taken[i]), there());
        hd_matmul(x, hd_t(w));
        hd_matmul(x, hd_t(x));
        hd_affine(x, w, NULL);
        if (taken[i] != HD_F64) hd_affine(x, w, hd_to(hd_ones(S(56), taken[i]), there()));
    }
    printed_end(p, text, sizeof text);
    unsetenv("HODU_DUMP");
    assert_ok();
    const char *path = getenv("HODU_CUBLASLT");
    const bool is_without = path != NULL && strcmp(path, "none") == 0;
    if (is_without != (strstr(text, "matrix products on") != NULL) || strstr(text, "by a kernel of hodu's own") != NULL)
        fail_msg("HODU_DUMP=calls says \"%s\"", text);
}

/* ---- real numbers ------------------------------------------------------------------------------------------------ */
/* What a sum of k products of normal numbers may be off, with a result of this dtype. */
static void check_near(const char *what, hd_tensor *away, hd_tensor *exact, hd_dtype dtype, int64_t k, bool is_tf32) {
    const double sums = dtype == HD_F64 ? 1e-15 : is_tf32 ? 4e-4 : 1.3e-7; /* for each of k: 4e-4 at 3000 in f32 */
    const double rounding = dtype == HD_BF16 ? 0x1p-7 : dtype == HD_F16 ? 0x1p-10 : dtype == HD_F64 ? 1e-14 : 1e-5;
    if (away == NULL || exact == NULL) fail_msg("%s: %s", what, hd_error_message());
    check_same(what, away, hd_cast(exact, dtype), rounding, is_tf32 ? sums * 10 * sqrt((double)k) : sums * (double)k);
}

typedef struct sizes {
    int64_t batch, m, k, n;
} sizes;
static const sizes all_sizes[] = {{1, 1, 64, 64},    {1, 64, 64, 1},     {1, 5, 7, 3},        {1, 17, 100, 130},
                                  {1, 32, 256, 768}, {1, 256, 768, 256}, {1, 1000, 33, 1001}, {4, 64, 48, 80},
                                  {12, 33, 64, 65},  {1, 128, 4096, 128}};
enum { SIZES = sizeof all_sizes / sizeof *all_sizes };
static const hd_dtype float_dtypes[] = {HD_F32, HD_F64, HD_BF16, HD_F16};

static hd_shape matrices(int64_t batch, int64_t rows, int64_t columns) {
    return batch == 1 ? S(rows, columns) : S(batch, rows, columns);
}
static hd_tensor *exact_of(hd_tensor *x) { return hd_cast(x, HD_F64); }

static void check_sizes(const sizes *s, hd_dtype dtype, bool is_tf32) {
    for (int layouts = 0; layouts < 4; ++layouts) {
        HD_SCOPE;
        char what[128];
        snprintf(what, sizeof what, "%lld x [%lld, %lld] x [%lld, %lld], %s, layouts %d%s", (long long)s->batch,
                 (long long)s->m, (long long)s->k, (long long)s->k, (long long)s->n, hd_dtype_name(dtype), layouts,
                 is_tf32 ? ", TF32" : "");
        hd_tensor *x = hd_randn(matrices(s->batch, s->m, s->k), dtype),
                  *y = hd_randn(matrices(s->batch, s->k, s->n), dtype), *there_x = laid(hd_to(x, there()), layouts % 2),
                  *there_y = laid(hd_to(y, there()), layouts / 2);
        hd_tensor *once = hd_matmul(there_x, there_y);
        check_near(what, once, hd_matmul(exact_of(x), exact_of(y)), dtype, s->k, is_tf32);
        for (int i = 0; i < 3; ++i) assert_same(hd_matmul(there_x, there_y), once); /* the same bits every time */
        if (s->batch > 1) continue;
        hd_tensor *bias = hd_randn(S(s->n), dtype);
        check_near(what, hd_affine(there_x, hd_t(there_y), hd_to(bias, there())),
                   hd_affine(exact_of(x), hd_t(exact_of(y)), exact_of(bias)), dtype, s->k, is_tf32);
    }
}

static void normal_numbers(void **state) {
    (void)state;
    for (int i = 0; i < SIZES; ++i)
        for (int d = 0; d < 4; ++d) check_sizes(&all_sizes[i], float_dtypes[d], false);
}

static void tf32_is_less_exact_and_only_when_asked_for(void **state) {
    (void)state;
    hd_set_matmul_precision(HD_MATMUL_TF32);
    for (int i = 0; i < SIZES; ++i) check_sizes(&all_sizes[i], HD_F32, true);
    check_sizes(&all_sizes[4], HD_F64, false);
    hd_set_matmul_precision(HD_MATMUL_EXACT);
    check_sizes(&all_sizes[5], HD_F32, false);
}

/* Attention's heads: two axes of batches that are no one axis. */
static void heads(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *q = hd_randn(S(3, 40, 4, 32), HD_F32), *k = hd_randn(S(3, 50, 4, 32), HD_F32);
    const hd_axes order = HD_AXES(0, 2, 1, 3);
    hd_tensor *away = hd_matmul(hd_permute(hd_to(q, there()), order), hd_t(hd_permute(hd_to(k, there()), order)));
    check_near("heads", away, hd_matmul(hd_permute(exact_of(q), order), hd_t(hd_permute(exact_of(k), order))), HD_F32,
               32, false);
}

/* Operands of two dtypes are multiplied in that of the result, in a call as in a script that has the cast. */
static void operands_of_two_dtypes(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_to(hd_randn(S(200, 60), HD_F32), there());
    for (int d = 2; d < 4; ++d) {
        hd_tensor *x = hd_to(hd_randn(S(33, 200), float_dtypes[d]), there());
        hd_tensor *z = hd_matmul(x, w), *wide = hd_matmul(hd_cast(x, HD_F32), w);
        check_near("two dtypes", z, hd_matmul(exact_of(hd_to(x, hd_cpu())), exact_of(hd_to(w, hd_cpu()))), HD_F32, 200,
                   false);
        hd_builder *b = started("wide");
        hd_tensor *in = hd_cast(hd_input("x", S(33, 200), float_dtypes[d]), HD_F32);
        hd_builder_add_output(b, "z", hd_matmul(in, hd_input("w", S(200, 60), HD_F32)));
        hd_builder_add_output(b, "q", hd_matmul(in, hd_t(in)));
        hd_script *s = built(b);
        hd_script_set_device(s, there());
        hd_script_set_input(s, "x", x);
        hd_script_set_input(s, "w", w);
        check_near("in a script", output(s, "z"), exact_of(hd_to(wide, hd_cpu())), HD_F32, 200, false);
        hd_tensor *exact = exact_of(hd_to(x, hd_cpu()));
        check_near("with itself", output(s, "q"), hd_matmul(exact, hd_t(exact)), HD_F32, 200, false);
    }
}

/* ---- scripts ----------------------------------------------------------------------------------------------------- */
/* Two layers with what may follow a product, and one whose operands are of other dtypes. */
static hd_tensor *layers(hd_tensor *const *in) {
    hd_tensor *h = hd_gelu(hd_affine(in[0], in[1], in[2]));
    hd_tensor *y = hd_add(hd_affine(h, in[3], in[4]), in[0]);
    hd_tensor *scores = hd_softmax(hd_mul_scalar(hd_matmul(y, hd_t(in[0])), 0.1), -1);
    return hd_matmul(scores, y);
}
enum { OPERANDS = 5 };

static void check_script(hd_dtype dtype, int level, int64_t rows) {
    HD_SCOPE;
    const hd_shape shapes[OPERANDS] = {S(rows, 48), S(96, 48), S(96), S(48, 96), S(48)};
    hd_tensor *here[OPERANDS], *away[OPERANDS];
    static const char *const names[OPERANDS] = {"x", "w", "b", "v", "c"};
    hd_seed(7);
    for (int i = 0; i < OPERANDS; ++i) {
        here[i] = hd_mul_scalar(hd_randn(shapes[i], dtype), 0.2);
        away[i] = hd_to(here[i], there());
    }
    hd_builder *b = started("layers");
    hd_tensor *in[OPERANDS];
    for (int i = 0; i < OPERANDS; ++i) in[i] = hd_input(names[i], shapes[i], dtype);
    hd_builder_add_output(b, "y", layers(in));
    hd_script *s = built(b);
    hd_script_set_device(s, there());
    hd_script_set_optimization_level(s, (hd_optimization_level)level);
    for (int i = 0; i < OPERANDS; ++i) hd_script_set_input(s, names[i], away[i]);
    hd_tensor *eager = layers(away), *expected = layers(here), *first = output(s, "y");
    if (first == NULL) fail_msg("%s", hd_error_message());
    for (int run = 0; run < 5; ++run) { /* run, recorded, replayed */
        HD_SCOPE;
        assert_same(output(s, "y"), first);
    }
    const double relative = dtype == HD_BF16 ? 0x1p-5 : dtype == HD_F16 ? 0x1p-7 : dtype == HD_F64 ? 1e-12 : 2e-5;
    check_same("a script", first, expected, relative, dtype == HD_F64 ? 1e-13 : relative / 10);
    if (level == HD_O0) assert_same(first, eager);
}

static void scripts_are_eager(void **state) {
    (void)state;
    for (int level = HD_O0; level <= HD_O2; ++level)
        for (int d = 0; d < 4; ++d) check_script(float_dtypes[d], level, 40);
    check_script(HD_F32, HD_O2, 1);
    check_script(HD_F32, HD_O0, 1000);
}

static void scripts_keep_their_precision(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_to(hd_randn(S(64, 512), HD_F32), there()), *y = hd_to(hd_randn(S(512, 64), HD_F32), there());
    hd_set_matmul_precision(HD_MATMUL_TF32);
    hd_tensor *rounded = hd_matmul(x, y);
    hd_builder *b = started("rounded");
    hd_builder_add_output(b, "z", hd_matmul(hd_input("x", S(64, 512), HD_F32), hd_input("y", S(512, 64), HD_F32)));
    hd_script *s = built(b);
    hd_set_matmul_precision(HD_MATMUL_EXACT);
    hd_script_set_device(s, there());
    hd_script_set_input(s, "x", x);
    hd_script_set_input(s, "y", y);
    assert_same(output(s, "z"), rounded);
    assert_ok();
}

int main(void) {
    const struct CMUnitTest tests[] = {test(the_library_computes_products),
                                       PRODUCT_TESTS,
                                       test(normal_numbers),
                                       test(tf32_is_less_exact_and_only_when_asked_for),
                                       test(heads),
                                       test(operands_of_two_dtypes),
                                       test(scripts_are_eager),
                                       test(scripts_keep_their_precision)};
    if (hd_device_count(HD_DEVICE_CUDA) > 0) return cmocka_run_group_tests(tests, NULL, NULL);
    print_message("skipped: %s\n", hd_device_missing(there()));
    return 77;
}
