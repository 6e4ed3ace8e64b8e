/* Large products whose numbers are out of the ordinary, against sums in f64: a processor's matrix unit multiplies parts
 * of numbers (kernels_amx.c), and infinities, NaN, subnormal and minute ones must come out as if it did not. On
 * machines without one the same is asked of the other kernels. */
#include "graph/calls.h"

#include <float.h>
#include <math.h>

enum { M = 70, N = 75, K = 700 };

static uint32_t state;
static double uniform(void) { /* in [-1, 1) */
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / (1 << 23) - 1;
}
static float *numbers(int64_t count, double size) {
    float *x = malloc((size_t)count * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < count; ++i) x[i] = (float)(uniform() * size);
    return x;
}

/* The largest error of a float sum of k products, as a part of the sum of their sizes; below the normal numbers, whole
 * steps. */
static void agrees(const float *a, const float *b, const float *c, int64_t m, int64_t n, int64_t k, const char *what) {
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            double sum = 0, size = 0;
            for (int64_t q = 0; q < k; ++q) {
                sum += (double)a[i * k + q] * (double)b[q * n + j];
                size += fabs((double)a[i * k + q] * (double)b[q * n + j]);
            }
            const float got = c[i * n + j];
            if (isfinite(size) && size > (double)FLT_MAX && fabs(sum) < size)
                continue; /* as the order of the sum has it */
            const bool same = isnan(sum) ? isnan(got)
                              : isinf(sum) || fabs(sum) > (double)FLT_MAX
                                  ? got == (sum > 0 ? INFINITY : -INFINITY)
                                  : fabs((double)got - sum) <= size * 8 * (double)FLT_EPSILON + (double)k * 0x1p-149;
            if (!same) fail_msg("%s: element (%d, %d) is %g instead of %g", what, (int)i, (int)j, (double)got, sum);
        }
}

/* Eager, as inputs of a script, and with B a constant of one: for few rows and for many it is packed otherwise. */
static void multiplies(const float *a, const float *b, int64_t m, int64_t n, int64_t k, const char *what) {
    HD_SCOPE;
    hd_tensor *x = hd_from_data(a, S(m, k), HD_F32), *w = hd_from_data(b, S(k, n), HD_F32);
    hd_tensor *columns = hd_contiguous(hd_t(x)), *rows = hd_contiguous(hd_t(w)); /* the same, laid out the other way */
    agrees(a, b, hd_data_f32(hd_matmul(x, w)), m, n, k, what);
    agrees(a, b, hd_data_f32(hd_contiguous(hd_matmul(hd_t(columns), w))), m, n, k, what);
    agrees(a, b, hd_data_f32(hd_contiguous(hd_matmul(x, hd_t(rows)))), m, n, k, what);
    hd_tensor *apart = hd_slice(hd_repeat_interleave(w, 2, 1), 1, 0, HD_END, 2); /* neither way along memory */
    agrees(a, b, hd_data_f32(hd_matmul(x, apart)), m, n, k, what);
    for (int given = 0; given < 3; ++given) {
        hd_builder *builder = started("product");
        hd_tensor *in = hd_input("x", S(m, k), HD_F32), *by = given == 0 ? hd_input("w", S(k, n), HD_F32) : w;
        if (given == 1) by = hd_t(rows);
        hd_builder_add_output(builder, "y", hd_matmul(in, by));
        hd_script *s = built(builder);
        hd_script_set_input(s, "x", x);
        if (given == 0) hd_script_set_input(s, "w", w);
        for (int run = 0; run < 2; ++run) agrees(a, b, hd_data_f32(hd_outputs_at(hd_script_run(s), 0)), m, n, k, what);
    }
    assert_int_equal(hd_error_code(), HD_OK);
}

/* Ordinary numbers, except where `spoil` changed them. */
static void spoiled(void (*spoil)(float *a, float *b), const char *what) {
    state = 7;
    float *a = numbers(M * K, 1), *b = numbers(K * N, 1);
    spoil(a, b);
    multiplies(a, b, M, N, K, what);
    free(a);
    free(b);
}

static void nothing(float *a, float *b) { (void)a, (void)b; }
static void an_infinity_in_a(float *a, float *b) { a[3 * K + 5] = INFINITY, b[5 * N + 7] = 0; }
static void an_infinity_in_b(float *a, float *b) { b[600 * N + 40] = -INFINITY, a[9 * K + 600] = 0; }
static void two_infinities(float *a, float *b) {
    a[40 * K + 1] = INFINITY, a[40 * K + 2] = -INFINITY, b[N + 3] = b[N + 4] = 1;
}
static void not_a_number(float *a, float *b) {
    const uint32_t lowest_bits = 0x7f800001;
    memcpy(&a[66 * K + 33], &lowest_bits, 4);
    memcpy(&b[699 * N + 74], &lowest_bits, 4);
}
static void the_largest(float *a, float *b) {
    for (int i = 0; i < K; ++i) a[i] = FLT_MAX, b[i * N] = (i % 2 ? 0.5f : -0.5f);
    for (int i = 0; i < K; ++i) a[2 * K + i] = FLT_MAX, b[i * N + 1] = 1; /* overflows */
}
static void minute_rows(float *a, float *b) {
    for (int i = 0; i < K; ++i) a[20 * K + i] *= 0x1p-100f, a[21 * K + i] *= 0x1p-130f, b[i * N + 50] *= 0x1p-90f;
    for (int i = 0; i < K; ++i) b[i * N + 51] *= 0x1p+20f;
}
static void subnormals(float *a, float *b) {
    for (int i = 0; i < M * K; ++i) a[i] = 0x1p-149f * (float)(i % 1000);
    for (int i = 0; i < K * N; ++i) b[i] *= 0x1p+60f;
}
static void zeros(float *a, float *b) {
    for (int i = 0; i < 40 * K; ++i) a[i] = 0;
    for (int i = 0; i < K; ++i) b[i * N + 9] = 0;
}
static void far_apart(float *a, float *b) { /* each element decides on its own */
    for (int i = 0; i < M * K; ++i) a[i] = ldexpf(a[i], i * 7 % 60 - 30);
    for (int i = 0; i < K * N; ++i) b[i] = ldexpf(b[i], i * 11 % 60 - 30);
}

static void test_ordinary(void **unused) { (void)unused, spoiled(nothing, "ordinary numbers"); }
static void test_infinities(void **unused) {
    (void)unused;
    spoiled(an_infinity_in_a, "an infinity in a, times zero and others");
    spoiled(an_infinity_in_b, "an infinity in b, times zero and others");
    spoiled(two_infinities, "infinities of both signs");
}
static void test_not_a_number(void **unused) { (void)unused, spoiled(not_a_number, "NaN in its lowest bits"); }
static void test_the_largest(void **unused) { (void)unused, spoiled(the_largest, "the largest numbers"); }
static void test_minute(void **unused) {
    (void)unused;
    spoiled(minute_rows, "minute rows and columns");
    spoiled(subnormals, "subnormal numbers");
    spoiled(zeros, "rows and a column of zeros");
    spoiled(far_apart, "numbers far apart");
}

static void test_sizes(void **unused) { /* where strips, panels, steps and blocks of k begin or end */
    (void)unused;
    static const int64_t sides[] = {32, 33, 48, 64, 95, 96, 97, 131}, lengths[] = {96, 97, 127, 512, 513, 545};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; ++i)
        for (size_t j = 0; j < sizeof lengths / sizeof *lengths; ++j) {
            if (!when_slow(i + j, 4)) continue;
            const int64_t m = sides[i], n = sides[(i + j * 3) % 8] + 70, k = lengths[j];
            char what[64];
            snprintf(what, sizeof what, "[%d,%d] x [%d,%d]", (int)m, (int)k, (int)k, (int)n);
            float *a = numbers(m * k, 3), *b = numbers(k * n, 0.1);
            multiplies(a, b, m, n, k, what);
            free(a);
            free(b);
        }
}

/* Halves are exact in f32; of bf16 there is but one part. */
static void test_halves(void **unused) {
    (void)unused;
    static const hd_dtype dtypes[][2] = {{HD_BF16, HD_BF16}, {HD_F16, HD_F16}};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; ++i)
        for (int wild = 0; wild < 2; ++wild) {
            HD_SCOPE;
            float *a = numbers(M * K, 1), *b = numbers(K * N, 1);
            if (wild) a[3 * K + 5] = INFINITY, b[5 * N + 7] = 0, b[8 * N + 9] = NAN;
            hd_tensor *x = hd_cast(hd_from_data(a, S(M, K), HD_F32), dtypes[i][0]);
            hd_tensor *w = hd_cast(hd_from_data(b, S(K, N), HD_F32), dtypes[i][1]);
            hd_tensor *rows = hd_contiguous(hd_t(w));
            const float *c = hd_data_f32(hd_cast(hd_matmul(x, w), HD_F32)),
                        *d = hd_data_f32(hd_cast(hd_matmul(x, hd_t(rows)), HD_F32));
            const float *exact_a = hd_data_f32(hd_cast(x, HD_F32)), *exact_b = hd_data_f32(hd_cast(w, HD_F32));
            const double step = dtypes[i][0] == HD_BF16 ? 0x1p-8 : 0x1p-11;
            for (int e = 0; e < M * N; ++e) {
                double sum = 0;
                for (int q = 0; q < K; ++q) sum += (double)exact_a[e / N * K + q] * (double)exact_b[q * N + e % N];
                for (int turned = 0; turned < 2; ++turned) {
                    const double got = (double)(turned ? d : c)[e];
                    if (isnan(sum) ? !isnan(got) : isinf(sum) ? got != sum : fabs(got - sum) > fabs(sum) * step + 1e-4)
                        fail_msg("%s: element %d is %g instead of %g", hd_dtype_name(dtypes[i][0]), e, got, sum);
                }
            }
            free(a);
            free(b);
        }
}

static void test_threads(void **unused) { /* the same bits */
    (void)unused;
    HD_SCOPE;
    state = 3;
    float *a = numbers(300 * 520, 1), *b = numbers(520 * 330, 1);
    hd_tensor *x = hd_from_data(a, S(300, 520), HD_F32), *w = hd_from_data(b, S(520, 330), HD_F32);
    const int threads = hd_num_threads();
    hd_set_num_threads(1);
    hd_tensor *one = hd_matmul(x, w);
    for (int i = 2; i < 6; ++i) {
        hd_set_num_threads(i);
        assert_memory_equal(hd_data_f32(hd_matmul(x, w)), hd_data_f32(one), 300 * 330 * sizeof(float));
    }
    hd_set_num_threads(threads);
    free(a);
    free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ordinary),    cmocka_unit_test(test_infinities), cmocka_unit_test(test_not_a_number),
        cmocka_unit_test(test_the_largest), cmocka_unit_test(test_minute),     cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_halves),      cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests_name("ops/unusual_products", tests, NULL, NULL);
}
