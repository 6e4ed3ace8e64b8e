/* Ops that run at once: what a call costs when tensors are tiny, and how near the machine's limits it comes when they
 * are large. A case is a row in the list at the end, its peers a row in peers.py, its bar a row in bars.json. */
#include "harness.h"
#include "loop.h"

static hd_tensor *normal(hd_shape shape) { return hd_randn(shape, HD_F32); }
static hd_shape vector(int64_t n) { return HD_SHAPE(n); }
static hd_shape square(int64_t n) { return HD_SHAPE(n, n); }

/* ---- calls ------------------------------------------------------------------------------------------------------ */
static void add_2x3(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(HD_SHAPE(2, 3)), *y = normal(HD_SHAPE(2, 3));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_add(x, y);
        }
    }
}

static void add_scalar_2x3(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(HD_SHAPE(2, 3));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_add_scalar(x, 2.0);
        }
    }
}

/* Ten ops, each on the last one's result. */
static void chain_of_10(hd_tensor *x, hd_tensor *y) {
    HD_SCOPE;
    hd_tensor *z = hd_mul(hd_add(x, y), y);
    z = hd_exp(hd_neg(hd_square(z)));
    z = hd_sub(hd_tanh(z), x);
    z = hd_relu(hd_add_scalar(z, 0.5));
    hd_maximum(z, y);
}

static void chain_10(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(HD_SHAPE(2, 3)), *y = normal(HD_SHAPE(2, 3));
    while (bench_round(b)) { BENCH(b, "hodu") chain_of_10(x, y); }
}

/* Calls to the system's allocator in a thousand chains of ten ops, after the first few. */
static void chain_10_allocations(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(HD_SHAPE(2, 3)), *y = normal(HD_SHAPE(2, 3));
    for (int i = 0; i < 10; ++i) chain_of_10(x, y);
    const int64_t before = hd_memory().system_allocations;
    for (int i = 0; i < 1000; ++i) chain_of_10(x, y);
    bench_value(b, "hodu", (double)(hd_memory().system_allocations - before));
}

/* ---- elementwise ------------------------------------------------------------------------------------------------ */
typedef hd_tensor *unary(hd_tensor *x);
typedef hd_tensor *binary(hd_tensor *x, hd_tensor *y);

static void measure_unary(bench *b, unary *op, hd_shape shape) {
    HD_SCOPE;
    hd_tensor *x = normal(shape);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            op(x);
        }
    }
}

static void exp_2_20(bench *b) { measure_unary(b, hd_exp, vector(1 << 20)); }
static void tanh_2_20(bench *b) { measure_unary(b, hd_tanh, vector(1 << 20)); }
static void sigmoid_2_20(bench *b) { measure_unary(b, hd_sigmoid, vector(1 << 20)); }
static void gelu_2_20(bench *b) { measure_unary(b, hd_gelu, vector(1 << 20)); }

/* Against a plain loop over memory of its own that was touched before, on as many threads. */
LOOP_DEFINE(loop_add, +)
LOOP_DEFINE(loop_mul, *)
static void measure_against_loop(bench *b, binary *op, loop_body *body, int64_t n) {
    HD_SCOPE;
    hd_tensor *x = normal(vector(n)), *y = normal(vector(n));
    loop *l = loop_new(body, n, hd_num_threads());
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            op(x, y);
        }
        BENCH(b, "loop") loop_run(l);
    }
    loop_free(l);
}

static void add_2_24(bench *b) { measure_against_loop(b, hd_add, loop_add, 1 << 24); }
static void mul_2_24(bench *b) { measure_against_loop(b, hd_mul, loop_mul, 1 << 24); }

/* x + odd, where odd is a view or broadcasts, against x + even, both as large as x and contiguous. */
static void measure_against_contiguous(bench *b, hd_tensor *x, hd_tensor *odd, hd_tensor *even) {
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_add(x, odd);
        }
        BENCH(b, "contiguous") {
            HD_SCOPE;
            hd_add(x, even);
        }
    }
}

static void broadcast_4096x1024(bench *b) {
    HD_SCOPE;
    measure_against_contiguous(b, normal(HD_SHAPE(4096, 1024)), normal(vector(1024)), normal(HD_SHAPE(4096, 1024)));
}

static void transposed_4096x4096(bench *b) {
    HD_SCOPE;
    hd_tensor *y = normal(square(4096));
    measure_against_contiguous(b, normal(square(4096)), hd_t(y), y);
}

/* bf16 + f32 -> f32 */
static void mixed_bf16_add_2_20(bench *b) {
    HD_SCOPE;
    hd_tensor *x = hd_cast(normal(vector(1 << 20)), HD_BF16), *y = normal(vector(1 << 20));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_add(x, y);
        }
    }
}

/* ---- reductions ------------------------------------------------------------------------------------------------- */
static void sum_2_24(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(vector(1 << 24));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_sum(x, HD_AXES(), NULL);
        }
    }
}

static void sum_axis0_4096x4096(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(square(4096));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_sum(x, HD_AXES(0), NULL);
        }
        BENCH(b, "last-axis") {
            HD_SCOPE;
            hd_sum(x, HD_AXES(1), NULL);
        }
    }
}

static void sum_axis1_4096x4096(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(square(4096));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_sum(x, HD_AXES(1), NULL);
        }
    }
}

/* ---- matmul ----------------------------------------------------------------------------------------------------- */
static void measure_matmul(bench *b, int64_t n) {
    HD_SCOPE;
    hd_tensor *x = normal(square(n)), *y = normal(square(n));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_matmul(x, y);
        }
    }
}

static void matmul_64(bench *b) { measure_matmul(b, 64); }
static void matmul_512(bench *b) { measure_matmul(b, 512); }
static void matmul_1024(bench *b) { measure_matmul(b, 1024); }

/* Halves, summed in f32. */
static void measure_half_matmul(bench *b, int64_t m, int64_t n, hd_dtype dtype) {
    HD_SCOPE;
    hd_tensor *x = hd_cast(normal(HD_SHAPE(m, n)), dtype), *y = hd_cast(normal(square(n)), dtype);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_matmul(x, y);
        }
    }
}

static void matmul_bf16_512(bench *b) { measure_half_matmul(b, 512, 512, HD_BF16); }
static void matmul_f16_512(bench *b) { measure_half_matmul(b, 512, 512, HD_F16); }
static void matmul_bf16_1x4096(bench *b) { measure_half_matmul(b, 1, 4096, HD_BF16); }
static void matmul_f16_1x4096(bench *b) { measure_half_matmul(b, 1, 4096, HD_F16); }

/* i8 x i8 -> i32: the casts are part of it here; static/matmul-i8-512 has none. */
static void matmul_i8_512(bench *b) {
    HD_SCOPE;
    hd_tensor *x = hd_randint(square(512), HD_I8, -128, 128), *y = hd_randint(square(512), HD_I8, -128, 128);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_matmul(hd_cast(x, HD_I32), hd_cast(y, HD_I32));
        }
    }
}

/* ---- random and indexing ---------------------------------------------------------------------------------------- */
static void randn_2_20(bench *b) {
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_randn(vector(1 << 20), HD_F32);
        }
    }
}

static void gather_4096x1024(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(HD_SHAPE(4096, 1024)), *index = hd_randint(HD_SHAPE(4096, 1024), HD_I64, 0, 1024);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_gather(x, 1, index);
        }
    }
}

static hd_tensor *cumsum_of_rows(hd_tensor *x) { return hd_cumsum(x, 1, NULL); }
static void cumsum_4096x1024(bench *b) { measure_unary(b, cumsum_of_rows, HD_SHAPE(4096, 1024)); }

/* As an embedding: 16384 rows out of a table. */
static void index_select_65536x64(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(HD_SHAPE(65536, 64)), *index = hd_randint(vector(16384), HD_I64, 0, 65536);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_index_select(x, 0, index);
        }
    }
}

static void embedding_65536x256(bench *b) {
    HD_SCOPE;
    hd_tensor *weight = normal(HD_SHAPE(32768, 256)), *index = hd_randint(vector(65536), HD_I64, 0, 32768);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_embedding(weight, index, -1);
        }
    }
}

static void einsum_bij_bjk(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(HD_SHAPE(16, 128, 128)), *y = normal(HD_SHAPE(16, 128, 128));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_einsum("bij,bjk->bik", (hd_tensor *const[]){x, y}, 2);
        }
        BENCH(b, "matmul") {
            HD_SCOPE;
            hd_matmul(x, y);
        }
    }
}

/* ---- order ------------------------------------------------------------------------------------------------------ */
static void sort_2_20(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(vector(1 << 20));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_sort(x, 0, false);
        }
    }
}

static void topk_8_4096x1024(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(HD_SHAPE(4096, 1024));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_topk(x, 8, 1, true);
        }
    }
}

/* ---- norms and windows ------------------------------------------------------------------------------------------- */
static void batch_norm_training(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(HD_SHAPE(32, 64, 56, 56)), *weight = normal(HD_SHAPE(64)), *bias = normal(HD_SHAPE(64));
    hd_tensor *mean = hd_zeros(HD_SHAPE(64), HD_F32), *variance = hd_ones(HD_SHAPE(64), HD_F32);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_batch_norm(x, mean, variance, weight, bias, true, 0.1, 1e-5);
        }
    }
}

static void group_norm(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(HD_SHAPE(32, 64, 56, 56)), *weight = normal(HD_SHAPE(64)), *bias = normal(HD_SHAPE(64));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_group_norm(x, 8, weight, bias, 1e-5);
        }
    }
}

static void bilinear_x2(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(HD_SHAPE(8, 64, 56, 56));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_resize(x, HD_SHAPE(112, 112), HD_OPTS(hd_resize_opts, .mode = HD_RESIZE_LINEAR));
        }
    }
}

/* ---- linear algebra ---------------------------------------------------------------------------------------------- */
static void svd_512(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(HD_SHAPE(512, 512));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_svd(x);
        }
    }
}

static void solve_512(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(HD_SHAPE(512, 512)), *y = normal(HD_SHAPE(512, 512));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_solve(x, y);
        }
    }
}

static void cholesky_512(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(HD_SHAPE(512, 512)), *p = hd_add(hd_matmul(x, hd_t(x)), hd_eye(512, 512, HD_F32));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_cholesky(p, false);
        }
    }
}

static const bench_case cases[] = {
    {"eager/add-2x3", "ns", add_2x3},
    {"eager/add-scalar-2x3", "ns", add_scalar_2x3},
    {"eager/chain-10-2x3", "ns", chain_10},
    {"eager/chain-10-allocations", "allocations", chain_10_allocations},
    {"eager/add-2^24", "us", add_2_24},
    {"eager/mul-2^24", "us", mul_2_24},
    {"eager/broadcast-4096x1024", "us", broadcast_4096x1024},
    {"eager/transposed-4096x4096", "us", transposed_4096x4096},
    {"eager/mixed-bf16-add-2^20", "us", mixed_bf16_add_2_20},
    {"eager/exp-2^20", "us", exp_2_20},
    {"eager/tanh-2^20", "us", tanh_2_20},
    {"eager/sigmoid-2^20", "us", sigmoid_2_20},
    {"eager/gelu-2^20", "us", gelu_2_20},
    {"eager/sum-2^24", "us", sum_2_24},
    {"eager/sum-axis0-4096x4096", "us", sum_axis0_4096x4096},
    {"eager/sum-axis1-4096x4096", "us", sum_axis1_4096x4096},
    {"eager/cumsum-4096x1024", "us", cumsum_4096x1024},
    {"eager/matmul-64", "us", matmul_64},
    {"eager/matmul-512", "us", matmul_512},
    {"eager/matmul-1024", "us", matmul_1024},
    {"eager/matmul-bf16-512", "us", matmul_bf16_512},
    {"eager/matmul-f16-512", "us", matmul_f16_512},
    {"eager/matmul-bf16-1x4096", "us", matmul_bf16_1x4096},
    {"eager/matmul-f16-1x4096", "us", matmul_f16_1x4096},
    {"eager/matmul-i8-512", "us", matmul_i8_512},
    {"eager/randn-2^20", "us", randn_2_20},
    {"eager/gather-4096x1024", "us", gather_4096x1024},
    {"eager/index-select-65536x64", "us", index_select_65536x64},
    {"eager/embedding-65536x256", "us", embedding_65536x256},
    {"eager/einsum-bij-bjk", "us", einsum_bij_bjk},
    {"eager/sort-2^20", "us", sort_2_20},
    {"eager/topk-8-4096x1024", "us", topk_8_4096x1024},
    {"eager/batch-norm-training-32x64x56x56", "us", batch_norm_training},
    {"eager/group-norm-32x64x56x56", "us", group_norm},
    {"eager/bilinear-x2-8x64x56x56", "us", bilinear_x2},
    {"eager/svd-512", "us", svd_512},
    {"eager/solve-512", "us", solve_512},
    {"eager/cholesky-512", "us", cholesky_512},
};

int main(int argc, char **argv) { return bench_main(argc, argv, cases, sizeof cases / sizeof *cases); }
