/* Products by a library of CUDA's: which calls are its own, that what it is told of rows, columns, batches and a bias
 * is right, what is kept of them, and what goes wrong. Library and driver are fakes; a kernel is an error that says
 * that there is no NVRTC. */
#include "builders.h"
#include "core/memory.h"
#include "core/shape.h"
#include "cuda/fake_cublaslt.h"
#include "in_a_child.h"
#include "ops/families.h"
#include "printed.h"

#include <dlfcn.h>

static fake_cublaslt *fake;
static hd_device there(void) { return hd_cuda(0); }
#define S HD_SHAPE
static const char kernel[] = "HODU_NVRTC=/nowhere"; /* in the error of whatever asks for one */

/* ---- operands ---------------------------------------------------------------------------------------------------- */
/* Small whole numbers, whose sums are exact in all dtypes of the library's; on the CPU. */
static hd_tensor *whole(hd_shape shape, hd_dtype dtype) {
    const int64_t count = hd_shape_count(shape);
    float *v = malloc((size_t)count * sizeof *v + 8);
    for (int64_t i = 0; i < count; ++i) v[i] = (float)random_below(5) - 2;
    hd_tensor *x = hd_cast(hd_from_data(v, shape, HD_F32), dtype);
    free(v);
    return x;
}

/* The same elements there, in a layout that is made without a kernel. */
enum { PLAIN, TRANSPOSED, PADDED, PADDED_AND_TRANSPOSED, LAYOUTS };
static hd_tensor *padded(hd_tensor *x) { /* columns of something else around, so that it begins anywhere */
    const hd_tensor *before = x;
    const hd_padding around[] = {{1, 2}};
    const int64_t columns = hd_tensor_shape(before).size[hd_tensor_shape(before).rank - 1];
    return hd_slice(hd_to(hd_pad(x, around, 1, 9), there()), -1, 1, 1 + columns, 1);
}
static hd_tensor *laid(hd_tensor *x, int layout) {
    if (hd_tensor_shape(x).rank < 2) return hd_to(x, there());
    switch (layout) {
    case TRANSPOSED: return hd_t(hd_to(hd_contiguous(hd_t(x)), there()));
    case PADDED: return padded(x);
    case PADDED_AND_TRANSPOSED: return hd_t(padded(hd_contiguous(hd_t(x))));
    default: return hd_to(x, there());
    }
}

static void check_result(const char *what, hd_tensor *away, hd_tensor *here) {
    if (away == NULL || here == NULL) fail_msg("%s: %s", what, hd_error_message());
    assert_int_equal(hd_tensor_device(away).kind, HD_DEVICE_CUDA);
    if (fake->wrong != NULL) fail_msg("%s: the library would not take it: %s", what, fake->wrong);
    char why[512] = "";
    hd_allclose_opts o = {.struct_size = sizeof o,
                          .relative = HD_ZERO,
                          .absolute = HD_ZERO,
                          .explain = why,
                          .explain_capacity = sizeof why};
    if (hd_tensor_dtype(away) != hd_tensor_dtype(here) || !hd_allclose(hd_to(away, hd_cpu()), here, &o))
        fail_msg("%s: %s%s", what, why, hd_error_message());
}

/* `calls` of the library give what the CPU gives. */
static void check_matmul(hd_shape a, int layout_a, hd_shape b, int layout_b, hd_dtype dtype, int calls) {
    HD_SCOPE;
    char what[256];
    snprintf(what, sizeof what, "%s (layout %d) x %s (layout %d), %s", HD_SHAPE_TEXT(a), layout_a, HD_SHAPE_TEXT(b),
             layout_b, hd_dtype_name(dtype));
    hd_tensor *x = whole(a, dtype), *y = whole(b, dtype), *there_x = laid(x, layout_a), *there_y = laid(y, layout_b);
    const int before = fake->multiplied;
    check_result(what, hd_matmul(there_x, there_y), hd_matmul(x, y));
    if (fake->multiplied != before + calls) fail_msg("%s: %d calls", what, fake->multiplied - before);
}

static void must_be_a_kernel(const char *what, hd_tensor *result) {
    if (result != NULL) fail_msg("%s: the library took it", what);
    assert_error(HD_ERROR_DEVICE, kernel);
}

/* ---- what it computes -------------------------------------------------------------------------------------------- */
static const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_BF16, HD_F16};

static void all_layouts(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1}, {1, 5, 1}, {1, 4, 6},   {6, 4, 1},   {3, 1, 4},
                                       {2, 3, 4}, {7, 5, 3}, {16, 8, 24}, {33, 20, 17}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
        for (int layouts = 0; layouts < LAYOUTS * LAYOUTS; ++layouts)
            check_matmul(S(sizes[i][0], sizes[i][1]), layouts % LAYOUTS, S(sizes[i][1], sizes[i][2]), layouts / LAYOUTS,
                         dtypes[(i + (size_t)layouts) % 4], 1);
}

/* Axes that are not one are walked, but for the longest. */
static void batches(void **state) {
    (void)state;
    static const struct {
        hd_shape a, b;
        int calls;
    } cases[] = {{{3, {5, 4, 6}}, {2, {6, 3}}, 1},
                 {{3, {5, 4, 6}}, {3, {1, 6, 3}}, 1},
                 {{2, {4, 6}}, {3, {5, 6, 3}}, 1},
                 {{4, {2, 1, 4, 6}}, {3, {3, 6, 5}}, 2},
                 {{5, {2, 3, 1, 4, 6}}, {4, {3, 2, 6, 9}}, 4},
                 {{1, {6}}, {3, {4, 6, 3}}, 1},
                 {{3, {4, 3, 6}}, {1, {6}}, 1},
                 {{1, {70}}, {1, {70}}, 1},
                 {{3, {7, 9, 3}}, {3, {7, 3, 9}}, 1},
                 {{4, {2, 3, 4, 5}}, {4, {2, 3, 5, 6}}, 1},
                 {{4, {5, 2, 4, 6}}, {4, {1, 2, 6, 3}}, 2},
                 {{4, {5, 2, 4, 6}}, {4, {5, 1, 6, 3}}, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
        for (int layout = 0; layout < (i == 11 ? 1 : LAYOUTS); ++layout) /* of the last m is joined where it may be */
            check_matmul(cases[i].a, layout, cases[i].b, (layout + 1) % LAYOUTS, dtypes[i % 4], cases[i].calls);
    HD_SCOPE; /* heads, as attention has them */
    hd_tensor *x = whole(S(4, 5, 3, 6), HD_F32), *y = whole(S(4, 7, 3, 6), HD_F32);
    const hd_axes heads = HD_AXES(0, 2, 1, 3);
    hd_tensor *away = hd_matmul(hd_permute(hd_to(x, there()), heads), hd_t(hd_permute(hd_to(y, there()), heads)));
    check_result("heads", away, hd_matmul(hd_permute(x, heads), hd_t(hd_permute(y, heads))));
}

static void a_bias_is_in_the_epilogue(void **state) {
    (void)state;
    for (int i = 0; i < 4; ++i) {
        HD_SCOPE;
        hd_tensor *w = whole(S(10, 6), dtypes[i]), *bias = whole(S(10), dtypes[i]), *x = whole(S(5, 4, 6), dtypes[i]);
        hd_tensor *there_w = hd_to(w, there()), *there_x = hd_to(x, there()),
                  *there_bias = hd_slice(hd_to(hd_pad(bias, (hd_padding[]){{i, 0}}, 1, 7), there()), 0, i, HD_END, 1);
        const int before = fake->biases;
        check_result("affine", hd_affine(there_x, there_w, there_bias), hd_affine(x, w, bias));
        assert_int_equal(fake->biases, before + 1);
        check_result("another bias", hd_affine(there_x, there_w, hd_to(hd_neg(bias), there())),
                     hd_affine(x, w, hd_neg(bias)));
        check_result("without one", hd_affine(there_x, there_w, NULL), hd_affine(x, w, NULL));
        check_result("a vector", hd_affine(hd_select(hd_select(there_x, 0, 1), 0, 2), there_w, there_bias),
                     hd_affine(hd_select(hd_select(x, 0, 1), 0, 2), w, bias));
        assert_int_equal(fake->biases, before + 3);
    }
}

static void others_are_kernels(void **state) {
    (void)state;
    HD_SCOPE;
    const int before = fake->multiplied;
    hd_tensor *x = hd_to(whole(S(4, 6), HD_F32), there()), *w = hd_to(whole(S(5, 6), HD_F32), there());
    must_be_a_kernel("integers",
                     hd_matmul(hd_to(whole(S(4, 6), HD_I32), there()), hd_to(whole(S(6, 3), HD_I32), there())));
    must_be_a_kernel("f8",
                     hd_matmul(hd_to(whole(S(4, 6), HD_F8E4M3), there()), hd_to(whole(S(6, 3), HD_F8E4M3), there())));
    must_be_a_kernel("two dtypes", hd_matmul(x, hd_to(whole(S(6, 3), HD_F64), there())));
    must_be_a_kernel("steps", hd_matmul(hd_slice(hd_to(whole(S(4, 12), HD_F32), there()), 1, 0, HD_END, 2), hd_t(w)));
    must_be_a_kernel("a number", hd_matmul(x, hd_broadcast_to(hd_scalar(2, HD_F32), S(6, 3))));
    must_be_a_kernel("a stretched row", hd_matmul(hd_broadcast_to(hd_slice(x, 0, 0, 1, 1), S(4, 6)), hd_t(w)));
    must_be_a_kernel("a stretched bias", hd_affine(x, w, hd_broadcast_to(hd_to(whole(S(1), HD_F32), there()), S(5))));
    must_be_a_kernel("a bias of another dtype", hd_affine(x, w, hd_to(whole(S(5), HD_F64), there())));
    assert_int_equal(fake->multiplied, before);
    assert_true(hd_tensor_count(hd_matmul(hd_slice(x, 0, 0, 0, 1), hd_t(w))) == 0);
}

static void tf32_is_asked_for(void **state) {
    (void)state;
    HD_SCOPE;
    for (int i = 0; i < 4; ++i) {
        hd_tensor *x = hd_to(whole(S(4, 6), dtypes[i]), there()), *y = hd_to(whole(S(6, 3), dtypes[i]), there());
        const int before = fake->tf32;
        hd_set_matmul_precision(HD_MATMUL_TF32);
        hd_matmul(x, y);
        hd_set_matmul_precision(HD_MATMUL_EXACT);
        hd_matmul(x, y);
        assert_int_equal(fake->tf32, before + (dtypes[i] == HD_F32));
    }
    assert_ok();
}

/* ---- what is kept ------------------------------------------------------------------------------------------------ */
static void a_product_is_looked_up_once(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_to(whole(S(8, 40), HD_F32), there()), *y = hd_to(whole(S(12, 9), HD_F32), there()),
              *bias = hd_to(whole(S(9), HD_F32), there());
    const int found = fake->found, made = fake->made - fake->released;
    for (int i = 0; i < 5; ++i) hd_matmul(hd_slice(x, 1, 0, 12, 1), y);
    assert_int_equal(fake->found, found + 1);
    hd_matmul(hd_slice(x, 1, 16, 28, 1), y); /* as far apart as memory is aligned at most */
    assert_int_equal(fake->found, found + 1);
    hd_matmul(hd_slice(x, 1, 1, 13, 1), y); /* which is aligned to 4 bytes only */
    assert_int_equal(fake->found, found + 2);
    hd_affine(hd_slice(x, 1, 0, 12, 1), hd_t(y), bias);
    assert_int_equal(fake->found, found + 3);
    assert_int_equal(fake->made - fake->released, made + 3 * 4);
    for (int64_t n = 1; n <= 300; ++n)
        hd_matmul(hd_to(hd_ones(S(1, n), HD_F32), there()), hd_to(hd_ones(S(n, 1), HD_F32), there()));
    const int all = fake->found;
    for (int64_t n = 1; n <= 300; ++n)
        assert_true(hd_item(hd_matmul(hd_to(hd_ones(S(1, n), HD_F32), there()),
                                      hd_to(hd_ones(S(n, 1), HD_F32), there()))) == (double)n);
    assert_int_equal(fake->found, all);
    assert_int_equal(fake->handles, 1);
    assert_ok();
}

static void algorithms(void **state) {
    (void)state;
    fake->workspace = 4096;
    check_matmul(S(3, 5), PLAIN, S(5, 19), PLAIN, HD_F32, 1);
    fake->workspace = 0;
    fake->refused = 2; /* the third does */
    check_matmul(S(3, 5), PLAIN, S(5, 20), PLAIN, HD_F32, 1);
    fake->refused = -1;
    HD_SCOPE;
    hd_tensor *x = hd_to(whole(S(3, 5), HD_F32), there()), *y = hd_to(whole(S(5, 21), HD_F32), there());
    const int before = fake->found;
    char text[4096];
    setenv("HODU_DUMP", "calls", 1);
    const printed p = printed_begin();
    for (int i = 0; i < 3; ++i) must_be_a_kernel("no algorithm", hd_matmul(x, y));
    printed_end(p, text, sizeof text);
    unsetenv("HODU_DUMP");
    assert_non_null(strstr(text, "matmul on cuda:0: by a kernel of hodu's own, as the library has none"));
    assert_int_equal(fake->found, before + 1);
    fake->refused = 0;
}

/* ---- scripts ----------------------------------------------------------------------------------------------------- */
static hd_script *two_layers(hd_tensor *const *in, hd_device device, int level) {
    hd_builder *b = started("layers");
    hd_tensor *x = hd_input("x", S(4, 6), HD_F32);
    hd_builder_add_output(b, "y", hd_affine(hd_affine(x, in[1], in[2]), in[3], NULL));
    hd_script *s = built(b);
    hd_script_set_device(s, device);
    hd_script_set_optimization_level(s, (hd_optimization_level)level);
    hd_script_set_input(s, "x", in[0]);
    return s;
}

static void scripts_call_it(void **state) {
    (void)state;
    for (int level = HD_O0; level <= HD_O3; ++level) {
        HD_SCOPE;
        hd_tensor *in[] = {whole(S(4, 6), HD_F32), whole(S(10, 6), HD_F32), whole(S(10), HD_F32),
                           whole(S(8, 10), HD_F32)};
        hd_script *away = two_layers(in, there(), level), *here = two_layers(in, hd_cpu(), level);
        for (int run = 0; run < 6; ++run) { /* outputs take turns at two addresses: the third and fourth are recorded */
            HD_SCOPE;
            const int before = fake->computed, calls = fake->multiplied, biases = fake->biases;
            check_result("two layers", output(away, "y"), output(here, "y"));
            assert_int_equal(fake->computed, before + 2);
            assert_int_equal(fake->multiplied, calls + (run < 4 ? 2 : 0)); /* then it is replayed */
            assert_int_equal(fake->biases, biases + (run < 4));
        }
        if (level == HD_O2) hd_script_profile(away, 2);
        assert_ok();
    }
}

/* ---- what goes wrong --------------------------------------------------------------------------------------------- */
/* Each function of the library once, for a product that is new and one that is known. */
static void functions_may_fail(void **state) {
    (void)state;
    HD_SCOPE;
    bool failed = true;
    for (int n = 1; failed; ++n) {
        hd_tensor *x = hd_to(hd_ones(S(2, 400 + n), HD_F32), there()),
                  *y = hd_to(hd_ones(S(400 + n, 5), HD_F32), there());
        const int kept = fake->made - fake->released;
        fake->fails_by = 3; /* out of memory */
        fake->fails_in = n;
        hd_tensor *z = hd_matmul(x, y);
        failed = z == NULL;
        fake->fails_in = 0;
        if (!failed) break;
        assert_error(HD_ERROR_MEMORY, "cuda:0");
        assert_int_equal(fake->made - fake->released, kept);
        assert_same(hd_to(hd_matmul(x, y), hd_cpu()), hd_full(S(2, 5), HD_F32, 400 + n));
    }
    hd_tensor *x = hd_to(hd_ones(S(2, 3), HD_F32), there()), *y = hd_to(hd_ones(S(3, 5), HD_F32), there());
    hd_matmul(x, y);
    fake->fails_by = 3; /* which is tried once more */
    fake->fails_in = 1;
    assert_non_null(hd_matmul(x, y));
    fake->fails_in = fake->fails_forever = 1;
    hd_matmul(x, y);
    fake->fails_in = fake->fails_forever = 0;
    assert_error(HD_ERROR_MEMORY, "cublasLtMatmul gives CUBLAS_STATUS_ALLOC_FAILED");
    fake->fails_by = 13;
    fake->fails_in = 1;
    hd_matmul(x, y);
    assert_error(HD_ERROR_DEVICE, "cublasLtMatmul of [2, 3] x [3, 5] gives CUBLAS_STATUS_OF_THE_FAKE");
    assert_same(hd_to(hd_matmul(x, y), hd_cpu()), hd_full(S(2, 5), HD_F32, 3));
}

/* What the library cannot describe is a kernel, at each step. */
static void what_it_does_not_know_is_a_kernel(void **state) {
    (void)state;
    HD_SCOPE;
    int n = 1;
    for (bool failed = true; failed; ++n) {
        hd_tensor *x = hd_to(hd_ones(S(3, 700 + n), HD_F32), there()),
                  *w = hd_to(hd_ones(S(5, 700 + n), HD_F32), there()), *bias = hd_to(hd_ones(S(5), HD_F32), there());
        fake->fails_by = 15;
        fake->fails_in = n;
        failed = hd_affine(x, w, bias) == NULL && strstr(hd_error_message(), kernel) != NULL;
        fake->fails_in = 0;
        hd_error_clear();
    }
    assert_true(n > 15); /* that many steps there are */
}

static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    bool failed = true;
    fake->workspace = 1 << 20;
    for (int64_t n = 0; failed; ++n) {
        HD_SCOPE;
        hd_tensor *x = hd_to(hd_ones(S(5, 110), HD_F32), there()), *y = hd_to(hd_ones(S(110, 31), HD_F32), there());
        const int64_t objects = hd_live_objects();
        hd_memory_trim();
        hd_memory_fail_after(n);
        hd_matmul(x, y);
        hd_memory_fail_after(-1);
        failed = !hd_ok();
        if (failed) assert_int_equal(hd_error_code(), HD_ERROR_MEMORY);
        if (failed) assert_int_equal(hd_live_objects(), objects);
        hd_error_clear();
    }
    fake->workspace = 0;
}

/* ---- without it -------------------------------------------------------------------------------------------------- */
static void multiply_without_it(void) {
    HD_SCOPE;
    hd_tensor *x = hd_to(hd_ones(S(2, 3), HD_F32), there()), *y = hd_to(hd_ones(S(3, 5), HD_F32), there());
    for (int i = 0; i < 2; ++i) {
        require(hd_matmul(x, y) == NULL);
        require_error(HD_ERROR_DEVICE, kernel);
    }
}
static void of_a_path(void) {
    setenv("HODU_DUMP", "calls", 1);
    setenv("HODU_CUBLASLT", "/nowhere", 1);
    multiply_without_it();
}
static void something_else(void) {
    setenv("HODU_DUMP", "calls", 1);
    setenv("HODU_CUBLASLT", FAKE_CUDA, 1);
    multiply_without_it();
}
static void without_a_handle(void) {
    setenv("HODU_DUMP", "calls", 1);
    fake->fails_in = fake->fails_by = 1;
    multiply_without_it();
}
static void it_may_be_missing(void **state) {
    (void)state;
    static const struct {
        void (*program)(void);
        const char *why;
    } cases[] = {{of_a_path, "HODU_CUBLASLT=/nowhere"},
                 {something_else, "the cuBLASLt that is here has no cublasLtCreate"},
                 {without_a_handle, "cublasLtCreate gives CUBLAS_STATUS_OF_THE_FAKE"}};
    for (int i = 0; i < 3; ++i) {
        char text[4096];
        stderr_of(cases[i].program, text, sizeof text);
        const char *said = strstr(text, "matrix products on cuda:0: by kernels of hodu's own, as ");
        if (said == NULL || strstr(said, cases[i].why) == NULL) fail_msg("it says \"%s\"", text);
        assert_null(strstr(said + 1, "matrix products on")); /* once */
    }
}

int main(void) {
    setenv("HODU_CUBLASLT", FAKE_CUBLASLT, 1);
    setenv("HODU_NVRTC", "/nowhere", 1);
    setenv("HODU_CACHE", "0", 1); /* nothing that was compiled before */
    setenv("FAKE_CUDA", "1", 1);
    void *driver = dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL), *library = dlopen(FAKE_CUBLASLT, RTLD_NOW | RTLD_LOCAL);
    fake = library == NULL ? NULL : dlsym(library, "fake_cublaslt_now");
    if (driver == NULL || fake == NULL) return 1;
    const struct CMUnitTest tests[] = {test(it_may_be_missing), /* first: a child cannot use a driver of its parent's */
                                       test(all_layouts),
                                       test(batches),
                                       test(a_bias_is_in_the_epilogue),
                                       test(others_are_kernels),
                                       test(tf32_is_asked_for),
                                       test(a_product_is_looked_up_once),
                                       test(algorithms),
                                       test(scripts_call_it),
                                       test(functions_may_fail),
                                       test(what_it_does_not_know_is_a_kernel),
                                       test(memory_may_run_out_anywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
