/* Random draws: Philox as its authors wrote it, the same numbers for any number of threads and any instruction set,
 * the right distributions, and what is refused. */
#include "families.h"

#include "core/memory.h"
#include "device/cpu/kernels.h"

#include <unistd.h>

/* ---- the generator ----------------------------------------------------------------------------------------------- */
/* Philox 4x32-10 as in the paper (Salmon et al. 2011, section 3.3), checked below with the known answers of
 * Random123. */
static void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c[4], k[2] = {key[0], key[1]};
    memcpy(c, counter, sizeof c);
    for (int round = 0; round < 10; ++round) {
        if (round > 0) k[0] += 0x9E3779B9, k[1] += 0xBB67AE85;
        const uint64_t p0 = (uint64_t)0xD2511F53 * c[0], p1 = (uint64_t)0xCD9E8D57 * c[2];
        const uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k[0], (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k[1],
                                  (uint32_t)p0};
        memcpy(c, next, sizeof c);
    }
    memcpy(out, c, sizeof c);
}

static const struct {
    uint32_t counter[4], key[2], answer[4];
} known[] = {{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
             {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
              {0xffffffff, 0xffffffff},
              {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
             {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
              {0xa4093822, 0x299f31d0},
              {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};

static void the_bits_are_philox(void **state) {
    (void)state;
    uint32_t words[4];
    for (int i = 0; i < 3; ++i) {
        philox(known[i].counter, known[i].key, words);
        assert_memory_equal(words, known[i].answer, sizeof words);
    }
    hd_cpu_isa(); /* chooses the kernels */
    uint64_t pair[2];
    hd_kernels()->bits_u64(pair, 0, 2, 0, 0);
    assert_int_equal(pair[0], 0xe169c58d6627e8d5);
    assert_int_equal(pair[1], 0x9b00dbd8bc57ac4c);
    hd_kernels()->bits_u64(pair, -2, 2, UINT64_MAX, UINT64_MAX); /* block -1: a counter of all ones */
    assert_int_equal(pair[0], 0x41c83b0e408f276d);
    assert_int_equal(pair[1], 0x6d5451fda20bc7c6);
    static const int64_t first[] = {0, 1, 2, 127, 128, 255, 8191, (1LL << 33) + 5, 1LL << 61};
    for (size_t f = 0; f < sizeof first / sizeof *first;
         ++f) { /* any place in a draw, with a key and draw of digits of pi */
        uint64_t got[300];
        hd_kernels()->bits_u64(got, first[f], 300, 0x299f31d0a4093822, 0x0370734413198a2e);
        for (int64_t i = 0; i < 300; ++i) {
            const uint64_t block = (uint64_t)(first[f] + i) / 2;
            philox((const uint32_t[4]){(uint32_t)block, (uint32_t)(block >> 32), 0x13198a2e, 0x03707344}, known[2].key,
                   words);
            const int half = (int)((first[f] + i) % 2) * 2;
            assert_int_equal(got[i], (uint64_t)words[half + 1] << 32 | words[half]);
        }
    }
}

static hd_tensor *drawn(int kind, int64_t n) {
    switch (kind) {
    case 0: return hd_rand(HD_SHAPE(n), HD_F32);
    case 1: return hd_rand(HD_SHAPE(n), HD_F64);
    case 2: return hd_randn(HD_SHAPE(n), HD_F32);
    case 3: return hd_randn(HD_SHAPE(n), HD_F64);
    case 4: return hd_randint(HD_SHAPE(n), HD_I64, -1000000, 1000000);
    case 5: return hd_randint(HD_SHAPE(n), HD_U8, 0, 256);
    case 6: return hd_bernoulli(HD_SHAPE(n), HD_I32, 0.3);
    case 7: return hd_uniform(HD_SHAPE(n), HD_BF16, -3, 5);
    case 8: return hd_normal(HD_SHAPE(n), HD_F16, 2, 0.5);
    case 13: return hd_rand_like(hd_zeros(HD_SHAPE(n), HD_F16));
    case 14: return hd_randn_like(hd_zeros(HD_SHAPE(n), HD_BF16));
    case 9: return hd_bernoulli_of(hd_full(HD_SHAPE(n), HD_F32, 0.3));
    case 10: return hd_dropout(hd_full(HD_SHAPE(n), HD_BF16, 0.7), 0.3);
    case 11: return hd_exponential(HD_SHAPE(n), HD_F32, 2);
    default: return hd_truncated_normal(HD_SHAPE(n), HD_F32, 1, 2, -1, 4);
    }
}
enum { DRAWN = 15, LONG = 100003 };

static void an_element_depends_only_on_its_place(void **state) { /* not on the length of the draw, nor on threads */
    (void)state;
    static const int64_t lengths[] = {1, 2, 3, 5, 127, 128, 129, 255, 256, 257, 8191, 8193, 50001};
    const int before = hd_num_threads();
    for (int kind = 0; kind < DRAWN; ++kind) {
        HD_SCOPE;
        hd_set_num_threads(1);
        hd_seed(11);
        hd_tensor *all = drawn(kind, LONG);
        const hd_dtype dtype = hd_tensor_dtype(all);
        for (int threads = 2; threads <= 3; ++threads) {
            hd_set_num_threads(threads);
            hd_seed(11);
            assert_memory_equal(hd_data(drawn(kind, LONG), dtype), hd_data(all, dtype), LONG * hd_dtype_size(dtype));
        }
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i) {
            hd_seed(11);
            assert_memory_equal(hd_data(drawn(kind, lengths[i]), dtype), hd_data(all, dtype),
                                (size_t)lengths[i] * hd_dtype_size(dtype));
        }
    }
    hd_set_num_threads(before);
}

/* ---- other instruction sets: the program runs itself with --draw ------------------------------------------------- */
static int print_draws(void) {
    HD_SCOPE;
    hd_seed(99);
    for (int kind = 0; kind < DRAWN; ++kind) {
        double v[600];
        hd_to_array(drawn(kind, 600), v, HD_F64, 600);
        for (int i = 0; i < 600; ++i) printf("%.17g\n", v[i]);
    }
    double v[100];
    hd_to_array(hd_permutation(100), v, HD_F64, 100);
    for (int i = 0; i < 100; ++i) printf("%.17g\n", v[i]);
    hd_to_array(hd_multinomial(hd_arange(0, 50, 1, HD_F32), 20, false), v, HD_F64, 100);
    for (int i = 0; i < 20; ++i) printf("%.17g\n", v[i]);
    return hd_exit_status();
}
enum { PRINTED = DRAWN * 600 + 120 };

static void read_draws(const char *isa, double *v) {
    char program[512], command[700];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    assert_true(length > 0);
    program[length] = 0;
    snprintf(command, sizeof command, "HODU_ISA=%s %s '%s' --draw", isa, HODU_EMULATOR, program);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    for (int i = 0; i < PRINTED; ++i) assert_int_equal(fscanf(pipe, "%lf", &v[i]), 1);
    assert_int_equal(pclose(pipe), 0);
}

static void instruction_sets_agree(void **state) { /* integers exactly, floats to rounding */
    (void)state;
    static double v[3][PRINTED];
    read_draws("baseline", v[0]);
    read_draws("avx2", v[1]);
    read_draws("best", v[2]);
    for (int set = 1; set < 3; ++set)
        for (int i = 0; i < PRINTED; ++i) {
            const int kind = i / 600; /* 13: a permutation and indices */
            const double unit = kind == 2                  ? 0x1p-20
                                : kind == 3                ? 0x1p-48
                                : kind == 8                ? 0x1p-10
                                : kind == 11 || kind == 12 ? 0x1p-20
                                                           : 0; /* of normals and logarithms; the rest is exact */
            if (!(fabs(v[set][i] - v[0][i]) <= unit * (fabs(v[0][i]) + (kind == 3 ? 1e-3 : 1))))
                fail_msg("draw %d, element %d: %.17g and %.17g", kind, i % 600, v[set][i], v[0][i]);
        }
}

/* ---- seeds and generators ---------------------------------------------------------------------------------------- */
static void seeds_and_generators(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(5);
    hd_tensor *first = hd_rand(HD_SHAPE(50), HD_F32), *second = hd_rand(HD_SHAPE(50), HD_F32);
    assert_false(hd_allclose(first, second, NULL));
    assert_int_equal(hd_generator_seed(NULL), 5);
    assert_int_equal(hd_generator_draw(NULL), 2);
    hd_generator *g = hd_generator_new(5);
    assert_null(hd_generator_use(g));
    assert_same(hd_rand(HD_SHAPE(50), HD_F32), first); /* the same seed, the same numbers */
    assert_int_equal(hd_generator_draw(g), 1);
    assert_ptr_equal(hd_generator_use(NULL), g);
    assert_int_equal(hd_generator_draw(NULL), 2); /* the thread's own did not move */
    hd_rand(HD_SHAPE(1), HD_F32);
    assert_int_equal(hd_generator_draw(g), 1);
    hd_generator_use(g);
    assert_same(hd_rand(HD_SHAPE(50), HD_F32), second);
    hd_generator_set(g, 5, 0); /* back to the beginning */
    assert_same(hd_rand(HD_SHAPE(50), HD_F32), first);
    hd_seed(6); /* of the one in use */
    assert_int_equal(hd_generator_seed(g), 6);
    assert_false(hd_allclose(hd_rand(HD_SHAPE(50), HD_F32), first, NULL));
    hd_generator_use(NULL);
    hd_generator_set(NULL, UINT64_MAX, UINT64_MAX);
    assert_int_equal(hd_generator_draw(NULL), UINT64_MAX);
    hd_rand(HD_SHAPE(0), HD_F32);
    assert_int_equal(hd_generator_draw(NULL), 0); /* also an empty draw is one, and the count goes around */
    assert_null(hd_randn_like(HD_TENSOR_I64(HD_SHAPE(1), 1)));
    assert_error(HD_ERROR_DTYPE, "hd_randn_like: draws floats, not i64");
    hd_randn(HD_SHAPE(-1), HD_F32);
    assert_error(HD_ERROR_SHAPE, "hd_randn: shape [-1] has a negative size at axis 0");
    assert_int_equal(hd_generator_draw(NULL), 0); /* a refused one is not */
}

static hd_tensor *make(int which) {
    hd_tensor *weights = which < 2 ? hd_full(HD_SHAPE(3), HD_F32, which == 0 ? -1 : 1) : NULL;
    switch (which) {
    case 0: return hd_multinomial(weights, 1, true);
    case 1: return hd_multinomial(weights, 4, false); /* more than there are */
    case 2: return hd_uniform(HD_SHAPE(INT64_C(1) << 50), HD_F32, 0, 1);
    case 3: return hd_bernoulli(HD_SHAPE(300), HD_F64, 0.5);
    case 4: return hd_permutation(30);
    case 5: return hd_module_get(hd_linear(3, 4, NULL), "weight");
    case 8: return hd_bernoulli_of(hd_full(HD_SHAPE(300), HD_F32, 0.5));
    case 9: return hd_exponential(HD_SHAPE(300), HD_BF16, 2);
    case 10: return hd_truncated_normal(HD_SHAPE(300), HD_F32, 0, 1, -1, 1);
    case 11: return hd_dropout(hd_ones(HD_SHAPE(300), HD_F16), 0.5);
    case 12: return hd_alpha_dropout(hd_ones(HD_SHAPE(300), HD_F32), 0.5);
    case 6: return hd_module_get(hd_conv_layer(3, 4, HD_SHAPE(2), NULL), "weight");
    default: return hd_module_get(hd_multihead_attention(4, 2, NULL), "in.weight");
    }
}

/* Also one that needs several draws, and fails after some of them. */
static void a_call_that_fails_takes_no_draw(void **state) {
    (void)state;
    HD_SCOPE;
    static const uint64_t draws[] = {0, 0, 0, 1, 1, 2, 2, 4, 1, 1, 1, 1, 1}; /* 0: it fails whatever happens */
    for (int shared = 0; shared < 2; ++shared) {
        hd_generator_use(shared ? hd_generator_new(1) : NULL);
        hd_seed(2);
        for (int which = 0; which < 13; ++which) {
            const uint64_t before = hd_generator_draw(NULL);
            bool failed = true;
            for (int64_t n = draws[which] == 0 ? -1 : 0; failed; ++n) {
                HD_SCOPE;
                hd_memory_trim();
                hd_memory_fail_after(n);
                make(which);
                hd_memory_fail_after(-1);
                failed = !hd_ok();
                hd_error_clear();
                assert_int_equal(hd_generator_draw(NULL), before + (failed ? 0 : draws[which]));
                if (draws[which] == 0) break;
            }
        }
        hd_generator_use(NULL);
    }
}

/* ---- distributions ----------------------------------------------------------------------------------------------- */
typedef struct moments {
    double mean, variance, skew, kurtosis, neighbours, lowest, highest;
} moments;
static moments moments_of(hd_tensor *x) {
    const double *v = hd_data_f64(hd_cast(x, HD_F64));
    const int64_t n = hd_tensor_count(x);
    moments m = {.lowest = v[0], .highest = v[0]};
    for (int64_t i = 0; i < n; ++i) {
        m.mean += v[i] / (double)n;
        m.lowest = fmin(m.lowest, v[i]);
        m.highest = fmax(m.highest, v[i]);
    }
    for (int64_t i = 0; i < n; ++i) {
        const double d = v[i] - m.mean;
        m.variance += d * d / (double)n;
        m.skew += d * d * d / (double)n;
        m.kurtosis += d * d * d * d / (double)n;
        if (i > 0) m.neighbours += d * (v[i - 1] - m.mean) / (double)n;
    }
    m.neighbours /= m.variance;
    m.skew /= pow(m.variance, 1.5);
    m.kurtosis /= m.variance * m.variance;
    return m;
}
#define assert_near(x, expected, within)                                                                               \
    do {                                                                                                               \
        if (!(fabs((double)(x) - (double)(expected)) <= (within)))                                                     \
            fail_msg(#x " is %g, expected %g within %g", (double)(x), (double)(expected), (double)(within));           \
    } while (0)

static void moments_of_uniform_and_normal(void **state) { /* of a million: within five standard errors */
    (void)state;
    enum { N = 1000000 };
    for (int dtype = HD_BF16; dtype <= (int)HD_F64; ++dtype) {
        HD_SCOPE;
        hd_seed(2024);
        const double coarse = dtype == HD_BF16 ? 0.004 : dtype == HD_F16 ? 0.0005 : 0; /* half a unit at 1 */
        const moments u = moments_of(hd_uniform(HD_SHAPE(N), (hd_dtype)dtype, -1, 3));
        assert_near(u.mean, 1, 5 * 4 / sqrt(12.0 * N) + 2 * coarse);
        assert_near(u.variance, 16.0 / 12, 0.008 + coarse);
        assert_near(u.kurtosis, 1.8, 0.02);
        assert_near(u.neighbours, 0, 0.005);
        assert_true(u.lowest >= -1 && u.lowest < -0.98 && u.highest < 3 && u.highest > 2.98 - 4 * coarse);
        const moments z = moments_of(hd_normal(HD_SHAPE(N), (hd_dtype)dtype, 2, 3));
        assert_near(z.mean, 2, 0.016);
        assert_near(z.variance, 9, 0.07);
        assert_near(z.skew, 0, 0.0125);
        assert_near(z.kurtosis, 3, 0.025 + coarse);
        assert_near(z.neighbours, 0, 0.005);
        assert_true((z.highest - 2) / 3 > 4.2 && (z.highest - 2) / 3 < 6.7 && (2 - z.lowest) / 3 > 4.2);
    }
}

static void uniform_never_reaches_high(void **state) { /* also where rounding to the dtype would */
    (void)state;
    static const double ends[][2] = {{0, 1},        {1, 2},     {-1, 0},        {-2, -1},
                                     {0, 0x1p-100}, {100, 101}, {1, 1.0000002}, {-1.5, 3}};
    for (int dtype = HD_F8E4M3; dtype <= (int)HD_F64; ++dtype)
        for (size_t i = 0; i < sizeof ends / sizeof *ends; ++i) {
            HD_SCOPE;
            hd_seed(i);
            const double low = ends[i][0], high = ends[i][1], first = hd_item(hd_scalar(low, (hd_dtype)dtype));
            if (hd_item(hd_scalar(high, (hd_dtype)dtype)) <= first) continue; /* no number between them */
            hd_tensor *x = hd_uniform(HD_SHAPE(100000), (hd_dtype)dtype, low, high);
            if (!(hd_item(hd_max(x, HD_AXES(), NULL)) < high && hd_item(hd_min(x, HD_AXES(), NULL)) >= first))
                fail_msg("%s in [%g, %g) reaches %.9g to %.9g", hd_dtype_name((hd_dtype)dtype), low, high,
                         hd_item(hd_min(x, HD_AXES(), NULL)), hd_item(hd_max(x, HD_AXES(), NULL)));
        }
    HD_SCOPE;
    assert_values(hd_uniform(HD_SHAPE(3), HD_F32, 2, 2), HD_F32, 2, 2, 2);
    assert_values(hd_normal(HD_SHAPE(2), HD_F32, 2, 0), HD_F32, 2, 2);
}

static void randint_covers_its_interval_evenly(void **state) {
    (void)state;
    HD_SCOPE;
    enum { N = 200000 };
    hd_seed(8);
    for (int dtype = HD_U8; dtype <= (int)HD_I64; ++dtype) {
        HD_SCOPE;
        const bool is_signed = dtype >= (int)HD_I8;
        int64_t v[N / 100], low = is_signed ? -7 : 0, high = low + 13, seen[13] = {0};
        for (int part = 0; part < 100; ++part) {
            HD_SCOPE;
            assert_true(hd_to_array(hd_randint(HD_SHAPE(N / 100), (hd_dtype)dtype, low, high), v, HD_I64, N / 100));
            for (int i = 0; i < N / 100; ++i) {
                assert_in_range(v[i] - low, 0, 12);
                seen[v[i] - low]++;
            }
        }
        for (int k = 0; k < 13; ++k) assert_near((double)seen[k], N / 13.0, 5 * sqrt(N / 13.0));
    }
    const moments bytes = moments_of(hd_randint(HD_SHAPE(100000), HD_U8, 0, 256)),
                  small = moments_of(hd_randint(HD_SHAPE(100000), HD_I8, -128, 128));
    assert_true(bytes.lowest == 0 && bytes.highest == 255 && small.lowest == -128 && small.highest == 127);
    const moments wide = moments_of(hd_randint(HD_SHAPE(10000), HD_DTYPE_DEFAULT, INT64_MIN, INT64_MAX));
    assert_true(wide.lowest < -9e18 && wide.highest > 9e18);
    assert_int_equal(hd_tensor_dtype(hd_randint(HD_SHAPE(1), HD_DTYPE_DEFAULT, 0, 2)), HD_I64);
    assert_values(hd_randint(HD_SHAPE(2), HD_U64, INT64_MAX - 1, INT64_MAX), HD_U64, 0x1p63, 0x1p63);
    const struct {
        hd_dtype dtype;
        int64_t low, high;
    } bad[] = {{HD_I32, 3, 3},   {HD_I32, 4, 3},  {HD_U8, -1, 3},         {HD_U8, 0, 257},
               {HD_I8, -129, 0}, {HD_U64, -1, 1}, {HD_I64, 0, INT64_MIN}, {HD_U32, 0, 1LL << 33}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        assert_null(hd_randint(HD_SHAPE(2), bad[i].dtype, bad[i].low, bad[i].high));
        assert_error(HD_ERROR_VALUE, "is empty or does not fit");
    }
    assert_null(hd_randint(HD_SHAPE(2), HD_F32, 0, 3));
    assert_error(HD_ERROR_DTYPE, "hd_randint: draws integers, not f32");
    assert_null(hd_randint(HD_SHAPE(2), HD_BOOL, 0, 2));
    assert_error(HD_ERROR_DTYPE, "hd_randint: draws integers, not bool");
}

static void bernoulli_has_its_probability(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(4);
    for (int dtype = HD_BOOL; dtype < HD_DTYPE_COUNT; ++dtype) {
        HD_SCOPE;
        hd_tensor *x = hd_bernoulli(HD_SHAPE(100000), (hd_dtype)dtype, 0.3);
        assert_int_equal(hd_tensor_dtype(x), dtype);
        assert_near((double)hd_item_i64(hd_count_nonzero(x, HD_AXES(), NULL)), 30000, 5 * sqrt(21000));
        assert_true(hd_item(hd_max(x, HD_AXES(), NULL)) == 1 && hd_item(hd_min(x, HD_AXES(), NULL)) == 0);
    }
    assert_true(hd_item(hd_all(hd_bernoulli(HD_SHAPE(100000), HD_BOOL, 1), HD_AXES(), NULL)) == 1);
    assert_true(hd_item(hd_any(hd_bernoulli(HD_SHAPE(100000), HD_BOOL, 0), HD_AXES(), NULL)) == 0);
    for (int i = 0; i < 3; ++i) {
        assert_null(hd_bernoulli(HD_SHAPE(2), HD_BOOL, ((const double[]){-0.1, 1.1, NAN})[i]));
        assert_error(HD_ERROR_VALUE, "is no probability");
    }
}

static void a_permutation_is_one(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(1);
    for (int64_t n = 0; n < 3000; n = n * 3 + 1) {
        HD_SCOPE;
        const int64_t *p = hd_data_i64(hd_permutation(n));
        bool seen[3000] = {false};
        for (int64_t i = 0; i < n; ++i) {
            assert_true(p[i] >= 0 && p[i] < n && !seen[p[i]]);
            seen[p[i]] = true;
        }
    }
    int orders[27] = {0};
    for (int i = 0; i < 6000; ++i) {
        HD_SCOPE;
        const int64_t *p = hd_data_i64(hd_permutation(3));
        orders[p[0] * 9 + p[1] * 3 + p[2]]++;
    }
    for (int i = 0; i < 27; ++i)
        if (orders[i] != 0) assert_near(orders[i], 1000, 5 * sqrt(1000 * 5 / 6.0)); /* six of them, each as often */
    assert_null(hd_permutation(-1));
    assert_error(HD_ERROR_SHAPE, "hd_permutation");
}

static void multinomial_draws_by_weight(void **state) {
    (void)state;
    HD_SCOPE;
    enum { N = 60000 };
    hd_seed(12);
    hd_tensor *w = HD_TENSOR_F32(HD_SHAPE(2, 4), 1, 0, 2, 3, 0, 0, 5, 0), *x = hd_multinomial(w, N, true);
    assert_true(hd_shape_equal(hd_tensor_shape(x), HD_SHAPE(2, N)));
    for (int k = 0; k < 4; ++k) {
        const double times = hd_item(hd_count_nonzero(hd_eq_scalar(hd_select(x, 0, 0), k), HD_AXES(), NULL)),
                     p = (const double[]){1, 0, 2, 3}[k] / 6;
        assert_near(times, N * p, 5 * sqrt(N * p * (1 - p)));
    }
    assert_true(hd_item(hd_all(hd_eq_scalar(hd_select(x, 0, 1), 2), HD_AXES(), NULL)) == 1);
    int first[4] = {0};
    for (int i = 0; i < 6000; ++i) { /* without replacement: all different, none of weight 0, the first by weight */
        HD_SCOPE;
        const int64_t *p = hd_data_i64(hd_multinomial(hd_select(w, 0, 0), 3, false));
        assert_true(p[0] != p[1] && p[1] != p[2] && p[0] != p[2] && p[0] != 1 && p[1] != 1 && p[2] != 1);
        first[p[0]]++;
    }
    assert_near(first[3], 3000, 5 * sqrt(1500));
    assert_near(first[0], 1000, 5 * sqrt(833));
    assert_values(hd_multinomial(hd_from_data((const double[]){0, 1e-310}, HD_SHAPE(2), HD_F64), 1, false), HD_I64,
                  1); /* however small */
    assert_values(hd_multinomial(hd_from_data((const double[]){0, 1e-310}, HD_SHAPE(2), HD_F64), 1, true), HD_I64, 1);
    assert_int_equal(hd_tensor_count(hd_multinomial(w, 0, true)), 0);
    assert_ok();
    const struct {
        float w[3];
        int64_t count;
        const char *why;
    } bad[] = {{{1, -1, 1}, 1, "weight -1 at row 0, place 1"},
               {{1, NAN, 1}, 1, "at row 0, place 1"},
               {{1, 1, INFINITY}, 1, "weight inf at row 0, place 2"},
               {{0, 0, 0}, 1, "add up to 0"},
               {{1, 0, 1}, 3, "row 0 has 2 positive weights, fewer than the 3 draws"},
               {{1, 1, 1}, -1, "-1 draws"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        assert_null(hd_multinomial(hd_from_data(bad[i].w, HD_SHAPE(3), HD_F32), bad[i].count, false));
        assert_error(HD_ERROR_VALUE, bad[i].why);
    }
    assert_null(hd_multinomial(hd_ones(HD_SHAPE(3), HD_I32), 1, true));
    assert_error(HD_ERROR_DTYPE, "hd_multinomial: weights are i32 [3]; expected floats");
    assert_null(hd_multinomial(hd_ones(HD_SHAPE(2, 0), HD_F32), 1, true));
    assert_error(HD_ERROR_SHAPE, "hd_multinomial");
}

static void bad_arguments(void **state) {
    (void)state;
    HD_SCOPE;
    assert_null(hd_rand(HD_SHAPE(2), HD_I32));
    assert_error(HD_ERROR_DTYPE, "hd_rand: draws floats, not i32; hd_randint draws integers");
    assert_null(hd_uniform(HD_SHAPE(2), HD_F32, 3, 2));
    assert_error(HD_ERROR_VALUE, "hd_uniform: the interval [3, 2) is not one");
    assert_null(hd_uniform(HD_SHAPE(2), HD_F32, 0, INFINITY));
    assert_error(HD_ERROR_VALUE, "hd_uniform");
    assert_null(hd_uniform(HD_SHAPE(2), HD_F32, -3e38, 3e38)); /* its width is no f32 */
    assert_error(HD_ERROR_VALUE, "hd_uniform");
    assert_null(hd_uniform(HD_SHAPE(2), HD_F64, -1e308, 1e308));
    assert_error(HD_ERROR_VALUE, "hd_uniform");
    assert_null(hd_normal(HD_SHAPE(2), HD_F32, 0, -1));
    assert_error(HD_ERROR_VALUE, "hd_normal: mean 0 and deviation -1");
    assert_null(hd_normal(HD_SHAPE(2), HD_F32, NAN, 1));
    assert_error(HD_ERROR_VALUE, "hd_normal");
    assert_null(hd_rand(HD_SHAPE(1LL << 62), HD_F32));
    assert_error(HD_ERROR_OVERFLOW, "hd_rand");
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "--draw") == 0) return print_draws();
    const struct CMUnitTest tests[] = {test(the_bits_are_philox),
                                       test(an_element_depends_only_on_its_place),
                                       test(instruction_sets_agree),
                                       test(seeds_and_generators),
                                       test(a_call_that_fails_takes_no_draw),
                                       test(moments_of_uniform_and_normal),
                                       test(uniform_never_reaches_high),
                                       test(randint_covers_its_interval_evenly),
                                       test(bernoulli_has_its_probability),
                                       test(a_permutation_is_one),
                                       test(multinomial_draws_by_weight),
                                       test(bad_arguments)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
