/* What the list of calls has not: special values, empty and odd shapes, all dtypes, draws bit for bit, parts that are
 * written, and runs that fail; as StableHLO text run by a plugin, against O0. */
#include "agree.h"

#include "core/random.h"

/* A script that is being recorded, and whose outputs are named by what they are. */
#define OUT(expression) hd_builder_add_output(b, #expression, expression)
#define MOSTLY          0.5, -1, NAN, 3, 3, -INFINITY, 2, INFINITY, -0.0, 0, 7, 7

static hd_script *ready(hd_builder *b, hd_tensor *x) {
    hd_script *s = built(b);
    if (x != NULL) hd_script_set_input(s, "x", x);
    assert_ok();
    return s;
}

static void reductions_of_special_values(void **state) {
    (void)state;
    HD_SCOPE;
    if (!plugin_ready()) skip();
    static const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_F16, HD_BF16, HD_I8, HD_U16, HD_I64, HD_BOOL};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; ++i) {
        hd_tensor *v = hd_cast(HD_TENSOR_F32(HD_SHAPE(4, 3), MOSTLY), dtypes[i]);
        hd_builder *b = started("reductions");
        hd_tensor *x = hd_input("x", HD_SHAPE(4, 3), dtypes[i]);
        OUT(hd_sum(x, HD_AXES(1), NULL));
        OUT(hd_prod(x, HD_AXES(0), NULL));
        OUT(hd_max(x, HD_AXES(1), NULL));
        OUT(hd_max(x, HD_AXES(0), NULL));
        OUT(hd_min(x, HD_AXES(1), NULL));
        OUT(hd_min(x, HD_AXES(), NULL));
        OUT(hd_any(x, HD_AXES(1), NULL));
        OUT(hd_all(x, HD_AXES(0), NULL));
        OUT(hd_argmax(x, 1, NULL));
        OUT(hd_argmax(x, 0, NULL));
        OUT(hd_argmin(x, 1, NULL));
        OUT(hd_argmin(x, 0, NULL));
        xla_agrees(ready(b, v), 0, hd_dtype_name(dtypes[i]));
    }
}

static void scans_of_special_values(void **state) {
    (void)state;
    HD_SCOPE;
    if (!plugin_ready()) skip();
    static const hd_dtype dtypes[] = {HD_F32, HD_BF16, HD_I8, HD_U64, HD_BOOL};
    const hd_scan_opts *back = HD_OPTS(hd_scan_opts, .reverse = true),
                       *before = HD_OPTS(hd_scan_opts, .exclusive = true),
                       *both = HD_OPTS(hd_scan_opts, .exclusive = true, .reverse = true);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; ++i) {
        hd_tensor *v = hd_cast(HD_TENSOR_F32(HD_SHAPE(4, 3), MOSTLY), dtypes[i]);
        hd_builder *b = started("scans");
        hd_tensor *x = hd_input("x", HD_SHAPE(4, 3), dtypes[i]), *flat = hd_reshape(x, HD_SHAPE(12));
        OUT(hd_cumsum(x, 0, back));
        OUT(hd_cumsum(flat, 0, before));
        OUT(hd_cumprod(x, 0, both));
        OUT(hd_cummax(x, 1, NULL).values);
        OUT(hd_cummax(flat, 0, NULL).indices);
        OUT(hd_cummin(x, 1, back).values);
        OUT(hd_cummin(flat, 0, back).indices);
        xla_agrees(ready(b, v), 0, hd_dtype_name(dtypes[i]));
        if (!hd_dtype_is_float(dtypes[i])) continue;
        b = started("logarithms");
        x = hd_input("x", HD_SHAPE(4, 3), dtypes[i]);
        OUT(hd_logcumsumexp(x, 1, before));
        OUT(hd_logcumsumexp(x, 0, back));
        xla_agrees(ready(b, v), 2, hd_dtype_name(dtypes[i]));
    }
}

static void nothing_and_one(void **state) {
    (void)state;
    HD_SCOPE;
    if (!plugin_ready()) skip();
    hd_tensor *empty = hd_zeros(HD_SHAPE(0, 3), HD_F32);
    hd_builder *b = started("empty");
    hd_tensor *x = hd_input("x", HD_SHAPE(0, 3), HD_F32), *one = hd_full(HD_SHAPE(1, 1), HD_F32, 2);
    OUT(hd_sum(x, HD_AXES(0), NULL));
    OUT(hd_prod(x, HD_AXES(), NULL));
    OUT(hd_cumsum(x, 0, HD_OPTS(hd_scan_opts, .exclusive = true)));
    OUT(hd_cumprod(one, 0, HD_OPTS(hd_scan_opts, .exclusive = true)));
    OUT(hd_cummax(one, 1, NULL).indices);
    OUT(hd_exp(x));
    OUT(hd_matmul(x, hd_ones(HD_SHAPE(3, 2), HD_F32)));
    OUT(hd_matmul(hd_t(x), hd_ones(HD_SHAPE(0, 2), HD_F32)));
    OUT(hd_softmax(x, 0));
    OUT(hd_index_select(x, 1, HD_TENSOR_I64(HD_SHAPE(1), 2)));
    OUT(hd_layer_norm(x, 1, NULL, NULL, 1e-5));
    OUT(hd_attention(x, hd_zeros(HD_SHAPE(2, 3), HD_F32), hd_zeros(HD_SHAPE(2, 4), HD_F32), NULL, false, 0));
    OUT(hd_attention(hd_ones(HD_SHAPE(2, 3), HD_F32), x, x, NULL, true, 0));
    OUT(hd_sum(one, HD_AXES(0), NULL));
    OUT(hd_argmax(one, 1, NULL));
    OUT(hd_matmul(one, one));
    OUT(hd_max_pool(one, HD_SHAPE(1), NULL));
    xla_agrees(ready(b, empty), 0, "empty");
}

static void casts_between_all_dtypes(void **state) {
    (void)state;
    HD_SCOPE;
    if (!plugin_ready()) skip();
    for (int from = HD_BOOL; from < (int)HD_DTYPE_COUNT; ++from) {
        if (!when_slow((uint64_t)from, 4)) continue;
        static const double values[24] = {0,     -0.0, 1,     -1,     0.5, -0.5, 1.5,      2.5,
                                          300,   -300, 70000, -70000, 3e9, -3e9, 5e18,     1e19,
                                          -1e19, 3e19, 65519, 65520,  449, NAN,  INFINITY, -INFINITY};
        hd_tensor *v = hd_cast(hd_from_data(values, HD_SHAPE(24), HD_F64), (hd_dtype)from);
        hd_builder *b = started("casts");
        hd_tensor *x = hd_input("x", HD_SHAPE(24), (hd_dtype)from);
        for (int to = HD_BOOL; to < (int)HD_DTYPE_COUNT; ++to)
            hd_builder_add_output(b, hd_dtype_name((hd_dtype)to), hd_cast(x, (hd_dtype)to));
        xla_agrees(ready(b, v), 0, hd_dtype_name((hd_dtype)from));
    }
}

static void draws_are_the_same(void **state) {
    (void)state;
    HD_SCOPE;
    if (!plugin_ready()) skip();
    hd_generator_set(NULL, 0x123456789abcdef0u, 0xfffffffffffffff0u);
    hd_builder *b = started("draws");
    OUT(hd_rand(HD_SHAPE(7, 333), HD_F32));
    OUT(hd_rand(HD_SHAPE(1001), HD_F64));
    OUT(hd_uniform(HD_SHAPE(1001), HD_F32, -1, 3));
    OUT(hd_uniform(HD_SHAPE(1001), HD_F64, -0.3, 0.7));
    OUT(hd_uniform(HD_SHAPE(1001), HD_F16, 0, 1));
    OUT(hd_uniform(HD_SHAPE(1001), HD_BF16, 0, 1));
    OUT(hd_randint(HD_SHAPE(1001), HD_I32, -5, 100));
    OUT(hd_randint(HD_SHAPE(1001), HD_U8, 0, 256));
    OUT(hd_randint(HD_SHAPE(1001), HD_I64, INT64_MIN, INT64_MAX));
    OUT(hd_permutation(1001));
    OUT(hd_bernoulli(HD_SHAPE(1001), HD_BOOL, 0.25));
    OUT(hd_multinomial(hd_arange(0, 7, 1, HD_F32), 100, true));
    OUT(hd_multinomial(hd_arange(0, 7, 1, HD_F32), 5, false));
    xla_agrees(ready(b, NULL), 0, "draws");
    b = started("normals");
    OUT(hd_randn(HD_SHAPE(1001), HD_F32));
    OUT(hd_normal(HD_SHAPE(1001), HD_F64, 1, 2));
    xla_agrees(ready(b, NULL), 2, "normals");
}

static void pools_of_all_kinds(void **state) {
    (void)state;
    HD_SCOPE;
    if (!plugin_ready()) skip();
    hd_tensor *v = hd_copy(hd_reshape(hd_sin(hd_arange(0, 2 * 7 * 9, 1, HD_F32)), HD_SHAPE(2, 7, 9)));
    hd_assign(hd_narrow(hd_select(v, 0, 0), 1, 2, 2), hd_full(HD_SHAPE(), HD_F32, NAN));
    const hd_pool_opts *options[] = {
        NULL, HD_OPTS(hd_pool_opts, .stride = {2, 1}, .padding = {{1, 1}, {0, 1}}),
        HD_OPTS(hd_pool_opts, .stride = {3, 2}, .ceil_mode = true, .padding = {{1, 0}, {1, 1}}),
        HD_OPTS(hd_pool_opts, .adaptive = true)};
    hd_requires_grad(v);
    for (size_t i = 0; i < sizeof options / sizeof *options; ++i) {
        if (!when_slow(i, 2)) continue;
        hd_builder *b = started("pools");
        hd_builder_bind(b, "v", v);
        const hd_shape window = i == 3 ? HD_SHAPE(3, 5) : HD_SHAPE(3, 2);
        hd_tensor *largest = hd_max_pool(v, window, options[i]), *mean = hd_avg_pool(v, window, options[i]);
        OUT(largest);
        OUT(mean);
        hd_backward(hd_mul(hd_nan_to_num(largest, 0, 0, 0), largest));
        OUT(hd_copy(hd_grad(v)));
        hd_set_grad(v, NULL);
        hd_backward(hd_mul(mean, mean));
        OUT(hd_grad(v));
        hd_clear_tape();
        xla_agrees_at(ready(b, NULL), 4, 1, "pools");
    }
}

/* Values and gradients of convolutions in 1 to 3 dimensions, and of their transposes. */
static void convolutions_of_all_kinds(void **state) {
    (void)state;
    HD_SCOPE;
    if (!plugin_ready()) skip();
    static const struct {
        int rank;
        int64_t x[5], w[5], groups;
        bool transposed;
    } cases[] = {{3, {2, 4, 9}, {6, 2, 3}, 2, false},
                 {3, {2, 4, 5}, {4, 3, 3}, 2, true},
                 {4, {2, 3, 7, 6}, {4, 3, 3, 2}, 1, false},
                 {4, {1, 4, 3, 5}, {4, 2, 2, 3}, 2, true},
                 {5, {1, 2, 4, 5, 6}, {2, 1, 2, 3, 1}, 2, false},
                 {5, {2, 2, 2, 3, 2}, {2, 3, 2, 1, 2}, 1, true},
                 {4, {2, 3, 1, 1}, {5, 3, 1, 1}, 1, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        if (!when_slow(i, 3)) continue;
        const hd_shape of_x = hd_shape_of(cases[i].x, (size_t)cases[i].rank),
                       of_w = hd_shape_of(cases[i].w, (size_t)cases[i].rank);
        const bool small = of_x.size[of_x.rank - 1] == 1;
        hd_conv_opts o = HD_DEFAULTS(hd_conv_opts);
        o.groups = cases[i].groups;
        for (int k = 0; k < of_x.rank - 2; ++k) {
            o.stride[k] = 1 + (k + 1) % 2;
            o.dilation[k] = small || k == 0 ? 1 : 2;
            o.padding[k] = (hd_padding){k == 0, 1};
        }
        hd_tensor *x =
            hd_requires_grad(hd_copy(hd_reshape(hd_sin(hd_arange(0, (double)hd_shape_count(of_x), 1, HD_F32)), of_x)));
        hd_tensor *w =
            hd_requires_grad(hd_copy(hd_reshape(hd_cos(hd_arange(0, (double)hd_shape_count(of_w), 1, HD_F32)), of_w)));
        hd_builder *b = started("convolutions");
        hd_builder_bind(b, "x", x);
        hd_builder_bind(b, "w", w);
        hd_tensor *y = cases[i].transposed ? hd_conv_transpose(x, w, NULL, &o) : hd_conv(x, w, NULL, &o);
        OUT(y);
        hd_backward(hd_mul(y, y));
        OUT(hd_grad(x));
        OUT(hd_grad(w));
        hd_clear_tape();
        xla_agrees_at(ready(b, NULL), 8, 1, "convolutions");
    }
}

static void parts_are_written(void **state) {
    (void)state;
    HD_SCOPE;
    if (!plugin_ready()) skip();
    hd_tensor *w = hd_copy(hd_reshape(hd_arange(0, 60, 1, HD_F32), HD_SHAPE(3, 4, 5)));
    hd_tensor *row = HD_TENSOR_F32(HD_SHAPE(5), 1, 2, 3, 4, 5);
    hd_builder *b = started("writes");
    hd_builder_add_state(b, "w", w);
    hd_tensor *x = hd_input("x", HD_SHAPE(5), HD_F32);
    hd_assign(hd_select(hd_select(w, 0, 1), 0, 2), x);
    OUT(hd_copy(w));
    hd_assign(hd_slice(hd_select(w, 0, 0), 1, HD_END, HD_END, -2), hd_full(HD_SHAPE(4, 3), HD_F32, 9));
    hd_assign(hd_diagonal(hd_select(w, 0, 2), 0, 0, 1), hd_full(HD_SHAPE(4), HD_F32, -1));
    hd_assign(hd_t(hd_narrow(hd_select(w, 0, 1), 1, 1, 2)), hd_reshape(hd_arange(100, 108, 1, HD_F32), HD_SHAPE(2, 4)));
    OUT(hd_reshape(w, HD_SHAPE(12, 5)));
    OUT(hd_slice(hd_reshape(w, HD_SHAPE(6, 10)), 1, 1, HD_END, 4));
    xla_agrees(ready(b, row), 0, "writes");
}

/* The run's error is that of O0, and its state stays. */
static void fails_alike(hd_script *s, const char *what) {
    HD_SCOPE;
    char expected[512];
    hd_tensor *results[MOST_RESULTS];
    hd_script_set_optimization_level(s, HD_O0);
    assert_null(hd_script_run(s));
    const char *message = strstr(hd_error_message(), ": ");
    snprintf(expected, sizeof expected, "%s", message != NULL ? message + 2 : "");
    const hd_error code = hd_error_code();
    hd_error_clear();
    const uint32_t count = text_results(s, false, results, what);
    if (hd_error_code() != code || expected[0] == '\0' || strstr(hd_error_message(), expected) == NULL)
        fail_msg("%s: XLA says \"%s\", O0 \"%s\"", what, hd_error_message(), expected);
    hd_error_clear();
    for (uint32_t i = 0; i < s->graph->cell_count; ++i) {
        hd_tensor *now = hd_from_data(s->cells[i]->data, hd_node_shape(s->graph, s->graph->cells[i].node), HD_F32);
        assert_identical(results[count - s->graph->cell_count + i], now);
    }
}

static void what_fails_says_the_same(void **state) {
    (void)state;
    HD_SCOPE;
    if (!plugin_ready()) skip();
    hd_tensor *w = hd_copy(hd_arange(0, 4, 1, HD_F32)), *bad = HD_TENSOR_I64(HD_SHAPE(3), 1, 4, 7);
    for (int k = 0; k < 6; ++k) {
        hd_builder *b = started("fails");
        hd_builder_add_state(b, "w", w);
        hd_tensor *x = hd_input("x", HD_SHAPE(3), HD_I64);
        if (k == 0) OUT(hd_index_select(w, 0, x));
        if (k == 1) OUT(hd_gather(w, 0, hd_sub_scalar(x, 6)));
        if (k == 2) OUT(hd_scatter(w, 0, hd_cast(x, HD_U64), hd_ones(HD_SHAPE(3), HD_F32), HD_SCATTER_ADD));
        if (k == 3) OUT(hd_floor_divide(x, hd_sub_scalar(x, 4)));
        if (k == 4) OUT(hd_pow(x, hd_sub_scalar(x, 5)));
        if (k == 5) OUT(hd_multinomial(hd_cast(hd_sub_scalar(x, 5), HD_F32), 2, true));
        hd_assign(w, hd_exp(w));
        fails_alike(ready(b, bad), "a run that fails");
    }
}

RUN(test(reductions_of_special_values), test(scans_of_special_values), test(nothing_and_one),
    test(casts_between_all_dtypes), test(draws_are_the_same), test(pools_of_all_kinds), test(convolutions_of_all_kinds),
    test(parts_are_written), test(what_fails_says_the_same))
