/* Products in the ways that tuning may choose for them (product.h), around the edges of tiles and blocks: as plain
 * loops compute them, weights packed or not, in memory that is no larger than they ask for. */
#include "families.h"
#include "differences.h"

#include "core/memory.h"
#include "device/cpu/kernels.h"
#include "device/cpu/product.h"

#include <float.h>

static const hd_product_config ways[] = {{0},
                                         {.unit = HD_UNIT_VECTOR},
                                         {.unit = HD_UNIT_MATRIX},
                                         {.k_block = 32},
                                         {.k_block = 1024},
                                         {.unit = HD_UNIT_VECTOR, .share = HD_SHARE_ROWS, .k_block = 256},
                                         {.unit = HD_UNIT_VECTOR, .share = HD_SHARE_COLUMNS, .k_block = 1024},
                                         {.unit = HD_UNIT_MATRIX, .share = HD_SHARE_ROWS, .k_block = 1024},
                                         {.unit = HD_UNIT_MATRIX, .share = HD_SHARE_COLUMNS, .k_block = 256},
                                         {.unit = HD_UNIT_VECTOR, .windows = HD_WINDOWS_SUMMED},
                                         {.unit = HD_UNIT_MATRIX, .windows = HD_WINDOWS_SUMMED},
                                         {.windows = HD_WINDOWS_WINOGRAD}};
enum { WAYS = sizeof ways / sizeof ways[0] };

static const char *text_of(hd_product_config way) {
    static char text[96];
    snprintf(text, sizeof text, "unit %d, share %d, blocks of %d, windows %d", way.unit, way.share, way.k_block,
             way.windows);
    return text;
}

/* ---- running one ------------------------------------------------------------------------------------------------- */
/* A call of two operands: a product, whose result is stored as it is. */
typedef struct job {
    hd_tensor *in[2], *out;
    hd_call call;
} job;

static void call_of(job *j, hd_op_id id, const void *attributes, hd_tensor *a, hd_tensor *b, hd_dtype dtype,
                    hd_shape shape) {
    *j = (job){.in = {a, b}, .out = hd_full(shape, dtype, 77)};
    j->call = (hd_call){.op = &hd_ops[id],
                        .attributes = attributes,
                        .inputs = j->in,
                        .input_count = 2,
                        .output_count = 1,
                        .outputs = {j->out}};
}

static void *memory(size_t bytes) { /* of just so many */
    void *p;
    assert_int_equal(posix_memalign(&p, 64, bytes > 0 ? bytes : 1), 0);
    return p;
}

/* What is packed where it lies is what is packed elsewhere, and can be unpacked. */
static void packs_in_place_too(const hd_call *call, hd_product_config way, const void *packed) {
    hd_packed_matrix matrix;
    const hd_tensor *b = call->inputs[1];
    if (!hd_cpu_product_packs_in_place(call, way, &matrix)) return;
    const size_t bytes = b->storage->bytes;
    void *data = memory(bytes), *room = memory(hd_packed_matrix_workspace(&matrix)), *plain = memory(bytes);
    memcpy(data, b->storage->data, bytes);
    hd_pack_in_place(&matrix, data, room);
    assert_memory_equal(data, packed, bytes);
    hd_unpack(&matrix, data, plain);
    assert_memory_equal(plain, b->storage->data, bytes);
    free(data);
    free(room);
    free(plain);
}

/* Rows of the first operand, as if they were computed: those of a contiguous matrix. */
static void copy_rows(void *context, void *out, int64_t row, int64_t rows) {
    const hd_tensor *a = context;
    const size_t bytes = (size_t)a->layout.shape.size[a->layout.shape.rank - 1] * hd_dtype_bytes[a->dtype];
    memcpy(out, (const char *)a->storage->data + (size_t)row * bytes, (size_t)rows * bytes);
}

enum { PACKS = 1, COMPUTES = 2 }; /* the second operand beforehand; the first one where it is read */
static hd_tensor *run(job *j, hd_product_config way, int how) {
    hd_plain_epilogue f = hd_cpu_product_plain(j->call.op, &j->out->layout.shape, (hd_dtype)j->out->dtype);
    f.out = j->out->storage->data;
    const size_t packed_bytes = how & PACKS ? hd_cpu_product_packed_bytes(&j->call, way) : 0;
    void *packed = packed_bytes > 0 ? memory(packed_bytes) : NULL;
    hd_product p = {.call = &j->call, .config = way, .packed = packed, .epilogue = hd_cpu_product_store, .context = &f};
    if (how & COMPUTES) {
        p.prologue = copy_rows;
        p.prologue_context = j->in[0];
    }
    if (packed != NULL) {
        assert_int_equal(hd_cpu_product_pack(hd_thread_self(), &j->call, way, packed), HD_OK);
        packs_in_place_too(&j->call, way, packed);
    }
    p.workspace_bytes = hd_cpu_product_workspace(&p);
    p.workspace = memory(p.workspace_bytes);
    hd_memory_fail_after(0); /* it has its room, and takes no other */
    assert_int_equal(hd_cpu_product(hd_thread_self(), &p), HD_OK);
    hd_memory_fail_after(-1);
    free(p.workspace);
    free(packed);
    return j->out;
}

/* ---- exactly ----------------------------------------------------------------------------------------------------- */
/* Small whole numbers: no sum of their products is rounded before it is complete. */
static hd_tensor *whole_numbers(hd_shape shape, hd_dtype dtype) {
    const int64_t count = hd_shape_count(shape);
    double *v = malloc((size_t)count * sizeof *v);
    for (int64_t i = 0; i < count; ++i) v[i] = (double)(random_below(7) - 3);
    hd_tensor *t = hd_cast(hd_from_data(v, shape, HD_F64), dtype);
    free(v);
    return t;
}

static hd_tensor *by_plain_loops(hd_tensor *a, hd_tensor *b, int64_t m, int64_t k, int64_t n, hd_dtype dtype) {
    const int32_t *x = hd_data(hd_cast(a, HD_I32), HD_I32), *y = hd_data(hd_cast(b, HD_I32), HD_I32);
    int32_t *z = calloc((size_t)(m * n), sizeof *z);
    for (int64_t i = 0; i < m; ++i)
        for (int64_t q = 0; q < k; ++q)
            for (int64_t j = 0; j < n; ++j) z[i * n + j] += x[i * k + q] * y[q * n + j];
    hd_tensor *t = hd_cast(hd_from_data(z, HD_SHAPE(m, n), HD_I32), dtype); /* which rounds or wraps once */
    free(z);
    return t;
}

/* Of operands of one dtype, B along memory and across it. */
static void check_sizes(int64_t m, int64_t k, int64_t n, hd_dtype dtype, hd_dtype result) {
    static uint64_t made;
    if (!when_slow(made++, 9)) return;
    HD_SCOPE;
    hd_tensor *a = whole_numbers(HD_SHAPE(m, k), dtype), *b = whole_numbers(HD_SHAPE(k, n), dtype),
              *turned = hd_t(hd_contiguous(hd_t(b))), *expected = by_plain_loops(a, b, m, k, n, result);
    for (int way = 0; way < WAYS; ++way)
        for (int form = 0; form < 8; ++form) {
            HD_SCOPE;
            job j;
            call_of(&j, HD_OP_matmul, NULL, a, form >= 4 ? turned : b, result, HD_SHAPE(m, n));
            const char *why = difference_within(run(&j, ways[way], form % 4), expected, 0);
            if (why[0] != '\0')
                fail_msg("[%d,%d] x [%d,%d] of %s, form %d, %s: %s", (int)m, (int)k, (int)k, (int)n,
                         hd_dtype_name(dtype), form, text_of(ways[way]), why);
        }
}

static void check_dtype(hd_dtype dtype, hd_dtype result) {
    static const int64_t rows[] = {1, 7, 33, 64, 100}, depths[] = {1, 100, 512, 513, 1500},
                         columns[] = {1, 31, 33, 200};
    for (int i = 0; i < 5; ++i)
        for (int k = 0; k < 5; ++k)
            for (int j = 0; j < 4; ++j) check_sizes(rows[i], depths[k], columns[j], dtype, result);
}

static void f32_in_every_way(void **state) { (void)state, check_dtype(HD_F32, HD_F32); }
static void bf16_in_every_way(void **state) { (void)state, check_dtype(HD_BF16, HD_BF16); }
static void i8_in_every_way(void **state) { (void)state, check_dtype(HD_I8, HD_I8); }
static void wider_results(void **state) {
    (void)state;
    check_sizes(33, 1500, 64, HD_I8, HD_I32);
    check_sizes(33, 1500, 64, HD_BF16, HD_F32);
    check_sizes(33, 1500, 64, HD_F16, HD_F32);
    check_sizes(33, 1500, 64, HD_F64, HD_F64);
    check_sizes(33, 1500, 64, HD_I64, HD_I64);
}
/* Larger than what stays in a cache, and wide: more of the ways to cut a product. */
static void large_ones(void **state) {
    (void)state;
    check_sizes(400, 200, 300, HD_F32, HD_F32);
    check_sizes(800, 1100, 96, HD_F32, HD_F32);
    check_sizes(20, 1100, 1024, HD_BF16, HD_F32);
}

static void batches(void **state) {
    (void)state;
    HD_SCOPE;
    enum { BATCH = 3, M = 40, K = 600, N = 70 };
    hd_tensor *a = whole_numbers(HD_SHAPE(BATCH, M, K), HD_F32), *b = whole_numbers(HD_SHAPE(BATCH, K, N), HD_F32),
              *expected = hd_matmul(a, b);
    for (int way = 0; way < WAYS; ++way) {
        job j;
        call_of(&j, HD_OP_matmul, NULL, a, b, HD_F32, HD_SHAPE(BATCH, M, N));
        assert_string_equal(difference_within(run(&j, ways[way], 0), expected, 0), "");
        assert_string_equal(difference_within(run(&j, ways[way], COMPUTES), expected, 0), "");
    }
}

static void convolutions(void **state) {
    (void)state;
    const hd_conv_attributes same = {
        .stride = HD_SHAPE(1, 1), .dilation = HD_SHAPE(1, 1), .padding = HD_SHAPE(1, 1, 1, 1), .groups = 1};
    static const struct {
        int64_t batch, in, out, lines, columns;
    } all[] = {{2, 64, 40, 9, 7}, {1, 1, 1, 1, 1}, {3, 5, 13, 2, 3}, {1, 32, 35, 5, 70}, {4, 96, 130, 3, 1}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
        HD_SCOPE;
        const hd_shape image = HD_SHAPE(all[i].batch, all[i].in, all[i].lines, all[i].columns),
                       result = HD_SHAPE(all[i].batch, all[i].out, all[i].lines, all[i].columns);
        hd_tensor *x = whole_numbers(image, HD_F32), *w = whole_numbers(HD_SHAPE(all[i].out, all[i].in, 3, 3), HD_F32),
                  *expected = hd_conv(hd_cast(x, HD_F64), hd_cast(w, HD_F64), NULL,
                                      HD_OPTS(hd_conv_opts, .padding = {{1, 1}, {1, 1}}));
        expected = hd_cast(expected, HD_F32);
        for (int way = 0; way < WAYS; ++way)
            for (int packs = 0; packs < 2; ++packs) {
                job j;
                call_of(&j, HD_OP_conv, &same, x, w, HD_F32, result);
                const char *why = difference_within(run(&j, ways[way], packs ? PACKS : 0), expected, 0);
                if (why[0] != '\0') fail_msg("convolution %d, %s: %s", (int)i, text_of(ways[way]), why);
            }
    }
}

/* ---- rounded ----------------------------------------------------------------------------------------------------- */
enum { M = 70, K = 3000, N = 75 };
static hd_tensor *numbers(int64_t rows, int64_t columns, float *v) {
    for (int64_t i = 0; i < rows * columns; ++i) v[i] = (float)random_below(1 << 24) / (1 << 23) - 1;
    return hd_from_data(v, HD_SHAPE(rows, columns), HD_F32);
}

static void no_way_loses_digits(void **state) {
    (void)state;
    HD_SCOPE;
    static float a[M * K], b[K * N];
    hd_tensor *x = numbers(M, K, a), *y = numbers(K, N, b);
    for (int way = 0; way < WAYS; ++way) {
        job j;
        call_of(&j, HD_OP_matmul, NULL, x, y, HD_F32, HD_SHAPE(M, N));
        const float *c = hd_data_f32(run(&j, ways[way], PACKS));
        for (int r = 0; r < M; ++r)
            for (int s = 0; s < N; ++s) {
                double sum = 0, size = 0;
                for (int q = 0; q < K; ++q) {
                    const double product = (double)a[r * K + q] * (double)b[q * N + s];
                    sum += product;
                    size += fabs(product);
                }
                if (fabs((double)c[r * N + s] - sum) > size * 8 * (double)FLT_EPSILON)
                    fail_msg("%s: element (%d, %d) is %g instead of %g", text_of(ways[way]), r, s, (double)c[r * N + s],
                             sum);
            }
    }
}

static void any_number_of_threads_gives_the_same(void **state) {
    (void)state;
    HD_SCOPE;
    static float a[M * K], b[K * N];
    hd_tensor *x = numbers(M, K, a), *y = numbers(K, N, b);
    const int before = hd_num_threads();
    for (int way = 0; way < WAYS; ++way) {
        hd_tensor *first = NULL;
        for (int threads = 1; threads <= 5; ++threads) {
            job j;
            hd_set_num_threads(threads);
            call_of(&j, HD_OP_matmul, NULL, x, y, HD_F32, HD_SHAPE(M, N));
            hd_tensor *z = run(&j, ways[way], threads % 4);
            if (first == NULL) first = z;
            assert_identical(z, first);
        }
    }
    hd_set_num_threads(before);
}

/* ---- where there is a choice ------------------------------------------------------------------------------------- */
static bool differ(int64_t m, int64_t k, int64_t n, hd_dtype dtype, hd_product_config from, hd_product_config to) {
    HD_SCOPE;
    job j;
    call_of(&j, HD_OP_matmul, NULL, hd_zeros(HD_SHAPE(m, k), dtype), hd_zeros(HD_SHAPE(k, n), dtype), dtype,
            HD_SHAPE(m, n));
    const hd_product p = {.call = &j.call, .config = from};
    return hd_cpu_product_configs_differ(&p, to);
}

static void ways_differ_where_there_is_a_choice(void **state) {
    (void)state;
    const bool has_unit = hd_kernels()->gemm_parts.mr > 0;
    const hd_product_config rule = {0}, vector = {.unit = HD_UNIT_VECTOR}, matrix = {.unit = HD_UNIT_MATRIX},
                            short_blocks = {.k_block = 256}, long_blocks = {.k_block = 1024},
                            rows = {.share = HD_SHARE_ROWS}, columns = {.share = HD_SHARE_COLUMNS};
    assert_false(differ(300, 700, 300, HD_F32, rule, rule));
    assert_int_equal(differ(300, 700, 300, HD_F32, vector, matrix), has_unit);
    assert_int_equal(differ(300, 700, 300, HD_F32, rule, vector), has_unit);
    assert_false(differ(300, 700, 300, HD_F32, rule, matrix)); /* it is there already, or there is none */
    assert_false(differ(300, 700, 300, HD_F64, vector, matrix));
    assert_true(differ(300, 700, 300, HD_F64, rule, short_blocks));
    assert_false(differ(300, 256, 300, HD_F64, rule, short_blocks));
    assert_true(differ(300, 513, 300, HD_I8, rule, long_blocks));
    assert_false(differ(300, 512, 300, HD_I8, rule, long_blocks));
    assert_true(differ(300, 700, 300, HD_F32, rows, columns));
    assert_true(differ(300, 700, 300, HD_F32, rule, rows) != differ(300, 700, 300, HD_F32, rule, columns));
    for (int way = 0; way < WAYS; ++way) { /* nothing is packed, or nothing is there */
        assert_false(differ(60, 60, 60, HD_F32, rule, ways[way]));
        assert_false(differ(300, 700, 0, HD_F32, rule, ways[way]));
        assert_false(differ(300, 0, 300, HD_F32, rule, ways[way]));
    }
}

static void some_ways_are_none(void **state) {
    (void)state;
    for (int way = 0; way < WAYS; ++way) assert_true(hd_product_config_is_sound(ways[way]));
    assert_false(hd_product_config_is_sound((hd_product_config){.unit = HD_UNITS}));
    assert_false(hd_product_config_is_sound((hd_product_config){.share = HD_SHARES}));
    assert_false(hd_product_config_is_sound((hd_product_config){.k_block = 100}));
    assert_false(hd_product_config_is_sound((hd_product_config){.windows = HD_WINDOWS}));
}

RUN_ON_THE_CPU("it calls the CPU's products", test(f32_in_every_way), test(bf16_in_every_way), test(i8_in_every_way),
               test(wider_results), test(large_ones), test(batches), test(convolutions), test(no_way_loses_digits),
               test(any_number_of_threads_gives_the_same), test(ways_differ_where_there_is_a_choice),
               test(some_ways_are_none))
