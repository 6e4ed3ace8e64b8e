/* Gradients of the families against PyTorch, also at ties, kinks, zeros and infinities: the cases of
 * tests/golden/gradients_families.txt, written by tests/golden/make_gradients.py, in f64, f32, bf16 and f16. Every function here
 * has a case there, and the other way round. */
#include "support.h"

#include <math.h>

/* ---- the functions ---------------------------------------------------------------------------------------------------
 * G(name, result): the result in the case's inputs x, y, z, in their order. */
#define S    HD_SHAPE
#define X    HD_AXES
#define KEEP HD_OPTS(hd_reduce_opts, .keep_dims = true)
#define P(...)                                                                                                         \
    (const hd_padding[]) { __VA_ARGS__ }
#define LIST(...)                                                                                                      \
    (hd_tensor *const[]){__VA_ARGS__}, (int)(sizeof((hd_tensor *const[]){__VA_ARGS__}) / sizeof(hd_tensor *))
#define LOSS(kind) HD_OPTS(hd_loss_opts, .reduction = HD_REDUCTION_##kind)
#define CE(...)    hd_cross_entropy(x, y, HD_OPTS(hd_cross_entropy_opts, __VA_ARGS__))
#define CE_KINDS(G, name, ...)                                                                                         \
    G(name##_mean, CE(.reduction = HD_REDUCTION_MEAN, __VA_ARGS__))                                                    \
    G(name##_sum, CE(.reduction = HD_REDUCTION_SUM, __VA_ARGS__))                                                      \
    G(name##_none, CE(.reduction = HD_REDUCTION_NONE, __VA_ARGS__))
#define WEIGHT3     HD_TENSOR_F32(S(3), 1, 0.5f, 2)
#define WEIGHT4     HD_TENSOR_F32(S(4), 1, 0.5f, 2, 0.25f)
#define TWICE(t)    hd_mul_scalar(t, 2)
#define POSITIVE(t) hd_gt_scalar(t, 0)
#define ONE(t)      hd_ones_like(t)

#define ALL(G)                                                                                                         \
    G(sum_axes, hd_sum(x, X(0, 2), NULL))                                                                              \
    G(mean_axis, hd_mean(x, X(1), NULL))                                                                               \
    G(var_unbiased, hd_var(x, X(1), 1, NULL))                                                                          \
    G(var_biased, hd_var(x, X(0), 0, NULL))                                                                            \
    G(var_of_one, hd_var(x, X(1), 1, NULL))                                                                            \
    G(std_unbiased, hd_std(x, X(1), 1, NULL))                                                                          \
    G(std_of_constant_rows, hd_std(x, X(1), 1, NULL))                                                                  \
    G(std_of_one, hd_std(x, X(1), 1, NULL))                                                                            \
    G(prod_with_zeros, hd_prod(x, X(1), NULL))                                                                         \
    G(prod_all, hd_prod(x, X(), NULL))                                                                                 \
    G(max_ties, hd_max(x, X(1), NULL))                                                                                 \
    G(min_ties, hd_min(x, X(1), NULL))                                                                                 \
    G(max_all_ties, hd_max(x, X(), NULL))                                                                              \
    G(max_axes_ties, hd_max(x, X(0, 2), NULL))                                                                         \
    G(max_infinite, hd_max(x, X(1), NULL))                                                                             \
    G(norm_1, hd_norm(x, 1, X(1), NULL))                                                                               \
    G(norm_2, hd_norm(x, 2, X(1), NULL))                                                                               \
    G(norm_3, hd_norm(x, 3, X(1), NULL))                                                                               \
    G(norm_half, hd_norm(x, 0.5, X(1), NULL))                                                                          \
    G(norm_1_5, hd_norm(x, 1.5, X(1), NULL))                                                                           \
    G(norm_minus_1, hd_norm(x, -1, X(1), NULL))                                                                        \
    G(norm_inf, hd_norm(x, INFINITY, X(1), NULL))                                                                      \
    G(norm_minus_inf, hd_norm(x, -INFINITY, X(1), NULL))                                                               \
    G(logsumexp_masked, hd_logsumexp(x, X(1), NULL))                                                                   \
    G(logsumexp_hidden, hd_logsumexp(x, X(1), NULL))                                                                   \
    G(logsumexp_infinite, hd_logsumexp(x, X(1), NULL))                                                                 \
    G(logsumexp_large, hd_logsumexp(x, X(1), NULL))                                                                    \
    G(softmax_masked, hd_softmax(x, 1))                                                                                \
    G(softmax_hidden, hd_softmax(x, 1))                                                                                \
    G(softmax_first, hd_softmax(x, 0))                                                                                 \
    G(softmax_large, hd_softmax(x, 1))                                                                                 \
    G(log_softmax_masked, hd_log_softmax(x, 1))                                                                        \
    G(log_softmax_hidden, hd_log_softmax(x, 1))                                                                        \
    G(log_softmax_large, hd_log_softmax(x, 1))                                                                         \
    G(relu, hd_relu(x))                                                                                                \
    G(abs, hd_abs(x))                                                                                                  \
    G(sign, hd_sign(x))                                                                                                \
    G(floor, hd_floor(x))                                                                                              \
    G(clamp, hd_clamp(x, -1, 3))                                                                                       \
    G(hardtanh, hd_hardtanh(x, -1, 3))                                                                                 \
    G(relu6, hd_relu6(x))                                                                                              \
    G(leaky_relu, hd_leaky_relu(x, 0.125))                                                                             \
    G(elu, hd_elu(x, 1.5))                                                                                             \
    G(hardswish, hd_hardswish(x))                                                                                      \
    G(softshrink, hd_softshrink(x, 0.5))                                                                               \
    G(sqrt, hd_sqrt(x))                                                                                                \
    G(rsqrt, hd_rsqrt(x))                                                                                              \
    G(log, hd_log(x))                                                                                                  \
    G(maximum, hd_maximum(x, y))                                                                                       \
    G(minimum, hd_minimum(x, y))                                                                                       \
    G(maximum_of_one, hd_maximum(x, x))                                                                                \
    G(maximum_broadcast, hd_maximum(x, y))                                                                             \
    G(pow, hd_pow(x, y))                                                                                               \
    G(pow_0, hd_pow_scalar(x, 0))                                                                                      \
    G(pow_1, hd_pow_scalar(x, 1))                                                                                      \
    G(pow_2, hd_pow_scalar(x, 2))                                                                                      \
    G(pow_half, hd_pow_scalar(x, 0.5))                                                                                 \
    G(pow_minus_1, hd_pow_scalar(x, -1))                                                                               \
    G(rpow, hd_rpow_scalar(x, 2))                                                                                      \
    G(where, hd_where(x, y, z))                                                                                        \
    G(where_broadcast, hd_where(x, y, z))                                                                              \
    G(where_of_sqrt, hd_where(POSITIVE(x), hd_sqrt(x), TWICE(x)))                                                      \
    G(where_of_safe_sqrt, hd_where(POSITIVE(x), hd_sqrt(hd_where(POSITIVE(x), x, ONE(x))), TWICE(x)))                  \
    G(permute, hd_permute(x, X(2, 0, 1)))                                                                              \
    G(reshape_turned, hd_reshape(hd_t(x), S(6)))                                                                       \
    G(broadcast_to, hd_broadcast_to(x, S(2, 2, 3)))                                                                    \
    G(slice_stepped, hd_slice(x, 1, 1, HD_END, 3))                                                                     \
    G(diagonal, hd_diagonal(x, 1, 0, 2))                                                                               \
    G(unfold_overlapping, hd_unfold(x, 1, 3, 1))                                                                       \
    G(as_strided_overlapping, hd_as_strided(x, S(3, 3), S(1, 2), 1))                                                   \
    G(concat, hd_concat(LIST(x, y, x), 1))                                                                             \
    G(stack, hd_stack(LIST(x, y), 1))                                                                                  \
    G(pad, hd_pad(x, P({0, 1}, {1, 2}), 2, 5))                                                                         \
    G(pad_negative, hd_pad(x, P({1, -2}, {-1, 1}), 2, 0))                                                              \
    G(pad_reflect, hd_pad_with(x, P({1, 2}, {2, 3}), 2, HD_PAD_REFLECT))                                               \
    G(pad_replicate, hd_pad_with(x, P({1, 2}, {2, 3}), 2, HD_PAD_REPLICATE))                                           \
    G(pad_circular, hd_pad_with(x, P({1, 2}, {2, 3}), 2, HD_PAD_CIRCULAR))                                             \
    G(roll, hd_roll(x, 4, 1))                                                                                          \
    G(tile, hd_tile(x, S(2, 3)))                                                                                       \
    G(repeat_interleave, hd_repeat_interleave(x, 3, 1))                                                                \
    G(tril, hd_tril(x, 1))                                                                                             \
    G(triu, hd_triu(x, -1))                                                                                            \
    G(flip, hd_flip(x, X(0, 2)))                                                                                       \
    G(masked_fill, hd_masked_fill(x, y, -INFINITY))                                                                    \
    G(gather_duplicates, hd_gather(x, 1, y))                                                                           \
    G(gather_part, hd_gather(x, 0, y))                                                                                 \
    G(index_select, hd_index_select(x, 1, y))                                                                          \
    G(take, hd_take(x, y))                                                                                             \
    G(take_along_axis, hd_take_along_axis(x, 1, y))                                                                    \
    G(index_add, hd_index_add(x, 0, y, z))                                                                             \
    G(scatter_set, hd_scatter(x, 1, y, z, HD_SCATTER_SET))                                                             \
    G(scatter_add, hd_scatter(x, 0, y, z, HD_SCATTER_ADD))                                                             \
    G(scatter_mul, hd_scatter(x, 0, y, z, HD_SCATTER_MUL))                                                             \
    G(scatter_max, hd_scatter(x, 0, y, z, HD_SCATTER_MAX))                                                             \
    G(scatter_min, hd_scatter(x, 0, y, z, HD_SCATTER_MIN))                                                             \
    G(matmul, hd_matmul(x, y))                                                                                         \
    G(affine, hd_affine(x, y, z))                                                                                      \
    G(affine_alone, hd_affine(x, y, NULL))                                                                             \
    G(dot, hd_dot(x, y))                                                                                               \
    G(outer, hd_outer(x, y))                                                                                           \
    G(mse_mean, hd_mse(x, y, LOSS(MEAN)))                                                                              \
    G(mse_sum, hd_mse(x, y, LOSS(SUM)))                                                                                \
    G(mse_none, hd_mse(x, y, LOSS(NONE)))                                                                              \
    CE_KINDS(G, ce, .label_smoothing = 0)                                                                              \
    CE_KINDS(G, ce_weight, .weight = WEIGHT4)                                                                          \
    CE_KINDS(G, ce_ignore, .ignores = true, .ignore_index = -100)                                                      \
    CE_KINDS(G, ce_smooth, .label_smoothing = 0.25)                                                                    \
    CE_KINDS(G, ce_everything, .weight = WEIGHT4, .ignores = true, .ignore_index = 3, .label_smoothing = 0.25)         \
    CE_KINDS(G, ce_labels, .label_smoothing = 0)                                                                       \
    CE_KINDS(G, ce_labels_all, .weight = WEIGHT3, .label_smoothing = 0.25)                                             \
    G(ce_row, hd_cross_entropy(x, y, NULL))                                                                            \
    G(ce_labels_row, hd_cross_entropy(x, y, NULL))

#define FUNCTION(name, ...)                                                                                            \
    static hd_tensor *run_##name(hd_tensor *x, hd_tensor *y, hd_tensor *z) {                                           \
        (void)x, (void)y, (void)z;                                                                                     \
        return __VA_ARGS__;                                                                                            \
    }
ALL(FUNCTION)

typedef struct function {
    const char *name;
    hd_tensor *(*run)(hd_tensor *x, hd_tensor *y, hd_tensor *z);
} function;
static const function functions[] = {
#define ENTRY(name, ...) {#name, run_##name},
    ALL(ENTRY)};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

/* ---- the file -------------------------------------------------------------------------------------------------------- */
enum { MOST = 128 };
typedef struct values {
    hd_dtype dtype; /* F64: a leaf, or a gradient */
    hd_shape shape;
    int count;
    double v[MOST];
} values;
typedef struct golden {
    int function, inputs, gradients;
    values input[3], seed, gradient[3];
} golden;

static void read_values(values *to, char **rest, hd_dtype dtype, bool shape) {
    *to = (values){.dtype = dtype};
    if (shape) to->shape.rank = atoi(strtok_r(NULL, " \n", rest));
    for (int i = 0; i < to->shape.rank; ++i) to->shape.size[i] = atoll(strtok_r(NULL, " \n", rest));
    for (char *word; (word = strtok_r(NULL, " \n", rest)) != NULL;) {
        assert_in_range(to->count, 0, MOST - 1);
        to->v[to->count++] = strtod(word, NULL);
    }
}

static int function_named(const char *name) {
    for (int i = 0; i < FUNCTIONS; ++i)
        if (strcmp(functions[i].name, name) == 0) return i;
    fail_msg("gradients_families.txt has a case %s that test_golden.c has not", name);
    return -1;
}

/* The next case; false after the last. `line` holds what was read ahead. */
static bool next_case(FILE *file, char *line, size_t capacity, golden *g) {
    char *rest = NULL;
    while (strncmp(line, "case ", 5) != 0)
        if (fgets(line, (int)capacity, file) == NULL) return false;
    strtok_r(line, " \n", &rest);
    *g = (golden){.function = function_named(strtok_r(NULL, " \n", &rest))};
    while (fgets(line, (int)capacity, file) != NULL && strncmp(line, "case ", 5) != 0) {
        const char *word = strtok_r(line, " \n", &rest);
        if (strcmp(word, "seed") == 0) {
            read_values(&g->seed, &rest, HD_F64, true);
        } else if (strcmp(word, "grad") == 0) {
            read_values(&g->gradient[g->gradients++], &rest, HD_F64, false);
        } else {
            const hd_dtype dtype = strcmp(word, "i64") == 0 ? HD_I64 : strcmp(word, "bool") == 0 ? HD_BOOL : HD_F64;
            assert_in_range(g->inputs, 0, 2);
            read_values(&g->input[g->inputs++], &rest, dtype, true);
        }
    }
    return true;
}

/* ---- the comparison -------------------------------------------------------------------------------------------------- */
/* Where hodu has decided otherwise: inside its bounds clamp has the gradient 1, and the bounds are inside. */
static bool decided_otherwise(const golden *g, double x) {
    return strcmp(functions[g->function].name, "clamp") == 0 && (x == -1 || x == 3);
}

/* Units in the last place of the largest gradient in the case, which is a sum of up to a dozen terms that may cancel: 32 of
 * f32 and f64, as the functions are right to a few units; 2 of small floats, which compute in f32, but round what passes
 * from one op to the next. What is NaN or infinite must be so here. */
static bool close_to(double got, double want, double largest, hd_dtype dtype) {
    const double allowed = dtype == HD_F64   ? 32 * 0x1p-52
                           : dtype == HD_F32 ? 32 * 0x1p-23
                           : dtype == HD_F16 ? 2 * 0x1p-10
                                             : 2 * 0x1p-7;
    if (isnan(want)) return isnan(got);
    if (isinf(want)) return got == want;
    return fabs(got - want) <= allowed * largest;
}

/* Inputs that dtype does not hold exactly (1001 in bf16) would be other inputs. */
static bool holds_inputs(const golden *g, hd_dtype dtype) {
    HD_SCOPE;
    bool holds = true;
    for (int i = 0; i < g->inputs; ++i) {
        hd_tensor *t = hd_from_data(g->input[i].v, g->input[i].shape, HD_F64);
        holds = holds && (g->input[i].dtype != HD_F64 ||
                          hd_allclose(t, hd_cast(t, dtype),
                                      HD_OPTS(hd_allclose_opts, .relative = HD_ZERO, .absolute = HD_ZERO)));
    }
    return holds;
}

static int compare(const golden *g, hd_dtype dtype) {
    HD_SCOPE;
    hd_tensor *input[3] = {NULL};
    for (int i = 0; i < g->inputs; ++i) {
        const hd_dtype d = g->input[i].dtype;
        assert_int_equal(g->input[i].count, hd_shape_count(g->input[i].shape));
        input[i] = hd_cast(hd_from_data(g->input[i].v, g->input[i].shape, HD_F64), d == HD_F64 ? dtype : d);
        if (d == HD_F64) hd_requires_grad(input[i]);
    }
    hd_tensor *y = functions[g->function].run(input[0], input[1], input[2]);
    hd_tensor *seed = hd_cast(hd_from_data(g->seed.v, g->seed.shape, HD_F64), dtype);
    hd_backward_with(y, HD_OPTS(hd_backward_opts, .seed = seed));
    if (!hd_ok()) print_error("%s: ", functions[g->function].name);
    assert_ok();
    double got[MOST], largest = 1;
    for (int k = 0; k < g->gradients; ++k)
        for (int e = 0; e < g->gradient[k].count; ++e)
            if (isfinite(g->gradient[k].v[e])) largest = fmax(largest, fabs(g->gradient[k].v[e]));
    int bad = 0;
    for (int i = 0, k = 0; i < g->inputs; ++i) {
        if (g->input[i].dtype != HD_F64) continue;
        const values *want = &g->gradient[k++];
        hd_tensor *gradient = hd_grad(input[i]);
        assert_int_equal(hd_tensor_dtype(gradient), dtype);
        assert_true(hd_shape_equal(hd_tensor_shape(gradient), g->input[i].shape));
        assert_true(hd_to_array(gradient, got, HD_F64, MOST));
        for (int e = 0; e < want->count; ++e) {
            const double expected = decided_otherwise(g, g->input[i].v[e]) ? g->seed.v[e] : want->v[e];
            if (close_to(got[e], expected, largest, dtype)) continue;
            print_error("%s, %s: the gradient of input %d, element %d (%g) is %.9g, expected %.9g\n",
                        functions[g->function].name, hd_dtype_name(dtype), i, e, g->input[i].v[e], got[e], expected);
            ++bad;
        }
    }
    hd_clear_tape();
    return bad;
}

static void gradients_agree_with_pytorch(void **state) {
    (void)state;
    FILE *file = fopen(HODU_TEST_DATA "/../golden/gradients_families.txt", "r");
    assert_non_null(file);
    static char line[1 << 14];
    static golden g;
    bool seen[FUNCTIONS] = {false};
    static const hd_dtype dtypes[] = {HD_F64, HD_F32, HD_BF16, HD_F16};
    int bad = 0, left_out = 0;
    while (next_case(file, line, sizeof line, &g)) {
        seen[g.function] = true;
        for (int i = 0; i < 4; ++i) {
            if (holds_inputs(&g, dtypes[i]))
                bad += compare(&g, dtypes[i]);
            else
                ++left_out;
        }
    }
    fclose(file);
    for (int i = 0; i < FUNCTIONS; ++i)
        if (!seen[i]) fail_msg("%s has no case in gradients_families.txt: run make golden", functions[i].name);
    assert_int_equal(left_out, 2); /* logsumexp and softmax of 1001 in bf16 */
    if (bad > 0) fail_msg("%d gradients differ", bad);
}

RUN(test(gradients_agree_with_pytorch))
