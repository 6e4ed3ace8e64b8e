/* Random draws in the kernels that read them: the numbers of O0 (uniform ones to the bit), never in memory where nobody
 * else reads them, and drawn on from run to run; by LLVM and by the C compiler. */
#include "compiler/levels.h"
#include "graph/calls.h"
#include "heap.h"

/* ---- what is drawn ----------------------------------------------------------------------------------------------- */
static hd_tensor *dropout(hd_tensor *x) {
    const hd_shape shape = hd_tensor_shape(x);
    hd_tensor *kept = hd_cast(hd_ge_scalar(hd_rand(shape, HD_F32), 0.3), hd_tensor_dtype(x));
    return hd_mul_scalar(hd_mul(x, kept), 1 / 0.7);
}
static hd_tensor *above_uniform(hd_tensor *x) { /* neither end is whole, and products of this width are rounded */
    return hd_maximum(x, hd_uniform(hd_tensor_shape(x), hd_tensor_dtype(x), -0.3, 1.7));
}
static hd_tensor *above_ends(hd_tensor *x) { /* of an interval so small that numbers round up to its end */
    return hd_maximum(hd_neg(hd_abs(x)), hd_uniform(hd_tensor_shape(x), hd_tensor_dtype(x), 1, 1 + 0x1p-6));
}
static hd_tensor *noise(hd_tensor *x) {
    return hd_add(x, hd_mul_scalar(hd_randn(hd_tensor_shape(x), hd_tensor_dtype(x)), 0.1));
}
static hd_tensor *normal(hd_tensor *x) {
    return hd_maximum(x, hd_normal(hd_tensor_shape(x), hd_tensor_dtype(x), -0.5, 3));
}
static hd_tensor *two(hd_tensor *x) {
    const hd_shape shape = hd_tensor_shape(x);
    const hd_dtype dtype = hd_tensor_dtype(x);
    return hd_minimum(hd_maximum(x, hd_rand(shape, dtype)), hd_uniform(shape, dtype, 0.25, 0.75));
}
static hd_tensor *masked_sum(hd_tensor *x) { /* along rows, twice: the mask is kept, or drawn again */
    hd_tensor *y = dropout(hd_abs(x));
    return hd_sub(y, hd_max(y, X(-1), KEEP));
}
static hd_tensor *column_maxima(hd_tensor *x) { return hd_max(dropout(hd_abs(x)), X(0), NULL); }
static hd_tensor *row_means(hd_tensor *x) {
    return hd_mean(hd_mul(x, hd_rand(hd_tensor_shape(x), hd_tensor_dtype(x))), X(-1), NULL);
}

static hd_tensor *integers(hd_tensor *x) { /* the widest that is drawn in kernels, its upper bits in what is compared */
    const hd_shape shape = hd_tensor_shape(x);
    hd_tensor *few = hd_randint(shape, HD_I8, -100, 27), *many = hd_randint(shape, HD_I64, -5, ((int64_t)1 << 32) - 6);
    hd_tensor *shifted = hd_bitwise_and(hd_bitwise_xor(many, hd_cast(few, HD_I64)), hd_full(S(), HD_I64, 1023));
    return hd_maximum(x, hd_cast(hd_cast(shifted, HD_F32), hd_tensor_dtype(x)));
}
static hd_tensor *wide_integers(hd_tensor *x) { /* and one that is too wide */
    hd_tensor *u = hd_randint(hd_tensor_shape(x), HD_U64, 7, INT64_MAX);
    return hd_maximum(x, hd_cast(hd_cast(hd_bitwise_and(u, hd_full(S(), HD_U64, 1023)), HD_F32), hd_tensor_dtype(x)));
}

static hd_tensor *dropped(hd_tensor *x) { return hd_dropout(x, 0.3); }
static hd_tensor *alpha_dropped(hd_tensor *x) { return hd_alpha_dropout(x, 0.3); }
static hd_tensor *chosen(hd_tensor *x) { return hd_maximum(x, hd_bernoulli_of(hd_abs(x))); }
static hd_tensor *waits(hd_tensor *x) { return hd_add(x, hd_exponential(hd_tensor_shape(x), hd_tensor_dtype(x), 3)); }

/* ---- and how it is read ------------------------------------------------------------------------------------------ */
/* A part that begins in the midst of a block, rows that do. */
static hd_tensor *part(hd_tensor *x) {
    hd_shape shape = hd_tensor_shape(x);
    const int last = shape.rank - 1;
    shape.size[last] += 3;
    return hd_maximum(x, hd_slice(hd_rand(shape, hd_tensor_dtype(x)), last, 1, shape.size[last] - 2, 1));
}
static hd_tensor *turned(hd_tensor *x) {
    const hd_shape shape = hd_tensor_shape(x);
    hd_tensor *u = hd_rand(S(shape.size[1], shape.size[0]), hd_tensor_dtype(x));
    return hd_maximum(x, hd_transpose(u, 0, 1));
}
static hd_tensor *reshaped(hd_tensor *x) {
    hd_tensor *u = hd_rand(S(hd_tensor_count(x)), hd_tensor_dtype(x));
    return hd_maximum(x, hd_reshape(u, hd_tensor_shape(x)));
}
static hd_tensor *stretched(hd_tensor *x) {
    const hd_shape shape = hd_tensor_shape(x);
    return hd_maximum(x, hd_rand(S(1, shape.size[1]), hd_tensor_dtype(x)));
}
static hd_tensor *by_column(hd_tensor *x) {
    hd_tensor *turned_x = hd_transpose(x, 0, 1);
    return hd_maximum(turned_x, hd_rand(hd_tensor_shape(turned_x), hd_tensor_dtype(x)));
}
static hd_tensor *across(hd_tensor *x) { /* neighbours in the draw are no neighbours in x, nor in the result */
    hd_tensor *t = hd_transpose(x, 0, 1), *column = hd_arange(0, (double)hd_tensor_shape(x).size[1], 1, HD_F32);
    hd_tensor *limit = hd_cast(hd_reshape(column, S(hd_tensor_shape(x).size[1], 1)), hd_tensor_dtype(x));
    t = hd_maximum(t, hd_rand(hd_tensor_shape(t), hd_tensor_dtype(x)));
    return hd_max(hd_minimum(t, limit), X(1), NULL);
}
static hd_tensor *across_normal(hd_tensor *x) {
    hd_tensor *t = hd_transpose(x, 0, 1), *column = hd_arange(0, (double)hd_tensor_shape(x).size[1], 1, HD_F32);
    hd_tensor *limit = hd_cast(hd_reshape(column, S(hd_tensor_shape(x).size[1], 1)), hd_tensor_dtype(x));
    t = hd_maximum(t, hd_randn(hd_tensor_shape(t), hd_tensor_dtype(x)));
    return hd_max(hd_minimum(t, limit), X(1), NULL);
}
static hd_tensor *stored_too(hd_tensor *x) { /* a product reads it from memory */
    const hd_shape shape = hd_tensor_shape(x);
    hd_tensor *u = hd_rand(shape, hd_tensor_dtype(x));
    return hd_minimum(hd_max(hd_concat(LIST(u, u), 0), X(0), KEEP), hd_maximum(u, x));
}

typedef struct draw_case {
    const char *name;
    hd_tensor *(*make)(hd_tensor *x);
    double units; /* by which results may differ, of a number near 1 */
    int launches; /* at O2, of a space that has elements */
} draw_case;
static const draw_case cases[] = {
    {"dropout", dropout, 0, 1},       {"above uniform", above_uniform, 0, 1},
    {"above ends", above_ends, 0, 1}, {"noise", noise, 16, 1},
    {"normal", normal, 48, 1},        {"two", two, 0, 1},
    {"dropped", dropped, 0, 1},       {"alpha dropped", alpha_dropped, 2, 1},
    {"chosen", chosen, 0, 1},         {"waits", waits, 16, 1},
    {"integers", integers, 0, 1},     {"wide integers", wide_integers, 0, 2},
    {"masked sum", masked_sum, 0, 1}, {"column maxima", column_maxima, 0, 0},
    {"row means", row_means, 16, 0},  {"part", part, 0, 1},
    {"turned", turned, 0, 0},         {"reshaped", reshaped, 0, 1},
    {"stretched", stretched, 0, 0},   {"by column", by_column, 0, 1},
    {"across", across, 0, 0},         {"across, normal", across_normal, 24, 0},
    {"stored too", stored_too, 0, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

static hd_script *script_of(const draw_case *c, hd_shape shape, hd_dtype dtype) {
    hd_builder *b = started(c->name);
    hd_tensor *x = hd_input("x", shape, dtype);
    hd_builder_add_output(b, "y", c->make(x));
    hd_script *s = built(b);
    hd_tensor *values = hd_reshape(hd_arange(0, (double)(shape.size[0] * shape.size[1]), 1, HD_F32), shape);
    hd_script_set_input(s, "x", hd_cast(hd_sub_scalar(hd_mul_scalar(hd_mod_scalar(values, 23), 0.125), 1), dtype));
    return s;
}

/* Three runs, one behind the other, at each level; the draws of the second and third follow those of the first. */
static void levels_draw_alike(const draw_case *c, hd_shape shape, hd_dtype dtype, uint64_t seed) {
    HD_SCOPE;
    hd_script *s = script_of(c, shape, dtype);
    hd_tensor *expected[3];
    char what[128];
    for (int level = HD_O0; level <= HD_O2; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_seed(seed);
        for (int run = 0; run < 3; ++run) {
            hd_tensor *y = output(s, "y");
            snprintf(what, sizeof what, "%s of %s [%lld,%lld] at O%d, run %d", c->name, hd_dtype_name(dtype),
                     (long long)shape.size[0], (long long)shape.size[1], level - HD_O0, run);
            if (y == NULL) fail_msg("%s: %s", what, hd_error_message());
            if (level == HD_O0) {
                expected[run] = y;
                continue;
            }
            const double bound = c->units * unit_of(dtype);
            const char *why = c->units == 0 ? difference(y, expected[run]) : difference_within(y, expected[run], bound);
            if (why[0] != '\0') fail_msg("%s: %s", what, why);
        }
        if (level == HD_O2 && c->launches > 0 && hd_shape_count(shape) > 1)
            if (hd_script_stats(s).launches != c->launches)
                fail_msg("%s takes %lld launches", what, (long long)hd_script_stats(s).launches);
    }
}

static void compare_all(uint64_t one_in) {
    static const int64_t shapes[][2] = {{1, 1}, {3, 5}, {1, 64}, {7, 33}, {16, 128}, {2, 1027}, {65, 130}};
    static const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_BF16, HD_F16};
    for (int i = 0; i < CASES; ++i)
        for (int k = 0; k < 7; ++k)
            for (int d = 0; d < 4; ++d) {
                if (!sampled((uint64_t)(i + k + d), one_in) || !when_compiled((uint64_t)(i * 28 + k * 4 + d), 11))
                    continue;
                levels_draw_alike(&cases[i], S(shapes[k][0], shapes[k][1]), dtypes[d], (uint64_t)(77 + i) << 30);
            }
}

static void kernels_draw_the_numbers_of_the_device(void **state) {
    (void)state;
    for (int threads = 1; threads <= 2; ++threads) {
        hd_set_num_threads(threads);
        compare_all(5);
        levels_draw_alike(&cases[0], S(300, 1001), HD_F32, 5); /* enough for both */
        levels_draw_alike(&cases[1], S(301, 517), HD_F64, 5);
    }
}

static void nothing_is_drawn_of_no_elements(void **state) {
    (void)state;
    for (int i = 0; i < CASES; ++i) {
        if (cases[i].make == masked_sum || cases[i].make == column_maxima || cases[i].make == stored_too ||
            cases[i].make == across || cases[i].make == across_normal)
            continue;
        levels_draw_alike(&cases[i], S(0, 8), HD_F32, 1); /* maxima of nothing are errors */
        if (cases[i].make != part) levels_draw_alike(&cases[i], S(3, 0), HD_F32, 1);
    }
}

static void the_c_compiler_draws_them_too(void **state) {
    (void)state;
    setenv("HODU_RENDERER", "c", 1);
    compare_all(19);
    unsetenv("HODU_RENDERER");
}

/* ---- what is shared ---------------------------------------------------------------------------------------------- */
/* The mask of a dropout, forwards and backwards: in no memory, though two kernels with a product between them need
 * it. */
static void a_mask_is_drawn_again_where_it_is_needed_again(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("step");
    hd_tensor *w = hd_input("w", S(64, 64), HD_F32), *x = hd_input("x", S(32, 64), HD_F32);
    hd_tensor *mask = hd_bernoulli(S(32, 64), HD_F32, 0.5);
    hd_tensor *first = hd_matmul(hd_mul(hd_matmul(x, w), mask), w), *again = hd_matmul(hd_mul(first, mask), w);
    hd_builder_add_output(b, "y", again);
    hd_script *s = built(b);
    hd_script_set_input(s, "x", hd_full(S(32, 64), HD_F32, 1));
    hd_script_set_input(s, "w", hd_full(S(64, 64), HD_F32, 0.01));
    hd_tensor *expected = NULL;
    for (int level = HD_O0; level <= HD_O2; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_seed(11);
        hd_tensor *y = output(s, "y");
        assert_ok();
        if (level == HD_O0) expected = y;
        const char *why = difference_within(y, expected, 1e-5);
        if (why[0] != '\0') fail_msg("at O%d: %s", level - HD_O0, why);
    }
    assert_int_equal(hd_script_stats(s).launches, 3); /* products, which draw the mask in their tiles */
}

/* A step of training with hd_dropout works in as much memory as one that only scales: the mask is in none, forwards or
 * backwards; and at every level, in every run, the gradient has the zeros that the value has. */
static hd_script *step_of(bool drops, hd_tensor **w) {
    *w = hd_requires_grad(hd_reshape(hd_sin(hd_arange(0, 64 * 64, 1, HD_F32)), S(64, 64)));
    hd_builder *b = started("dropout");
    hd_tensor *x = hd_input("x", S(512, 64), HD_F32), *h = hd_mul_scalar(hd_matmul(x, *w), 0.1);
    hd_tensor *y = drops ? hd_dropout(h, 0.5) : hd_mul_scalar(h, 2);
    hd_tensors *gradients = hd_grad_of(hd_sum(hd_square(y), X(), NULL), HD_TENSORS(*w), NULL);
    hd_builder_add_output(b, "gradient", hd_tensors_get(gradients, 0));
    hd_script *s = built(b);
    hd_script_set_optimization_level(s, HD_O2);
    hd_script_set_input(s, "x", hd_reshape(hd_cos(hd_arange(0, 512 * 64, 1, HD_F32)), S(512, 64)));
    return s;
}
static void a_step_with_dropout_keeps_no_mask(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w;
    hd_script *plain = step_of(false, &w), *s = step_of(true, &w);
    hd_script_run(plain);
    hd_tensor *expected[2];
    for (int level = HD_O0; level <= HD_O2; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_seed(21);
        for (int run = 0; run < 2; ++run) {
            hd_tensor *gradient = output(s, "gradient");
            assert_ok();
            if (level == HD_O0) expected[run] = gradient;
            const char *why = difference_within(gradient, expected[run], 1e-5 * largest_of(expected[run]));
            if (why[0] != '\0') fail_msg("at O%d, run %d: %s", level - HD_O0, run, why);
        }
    }
    assert_string_not_equal(difference(expected[0], expected[1]), ""); /* each run has a mask of its own */
    assert_int_equal(hd_script_stats(s).arena_bytes, hd_script_stats(plain).arena_bytes);
}

/* A normal number takes longer to draw than to read: it is drawn once when two kernels need it, and else where it is
 * needed. */
static void normal_numbers_are_drawn_once(void **state) {
    (void)state;
    for (int readers = 1; readers <= 2; ++readers) {
        HD_SCOPE;
        hd_builder *b = started("normal");
        hd_tensor *x = hd_input("x", S(40, 50), HD_F32), *z = hd_randn(S(40, 50), HD_F32);
        hd_tensor *product = hd_matmul(hd_add(x, z), hd_input("w", S(50, 50), HD_F32));
        hd_builder_add_output(b, "y", hd_maximum(product, readers == 2 ? z : x));
        hd_script *s = built(b);
        hd_script_set_optimization_level(s, HD_O2);
        hd_script_compile(s);
        assert_ok();
        assert_int_equal(hd_script_stats(s).launches, readers == 2 ? 3 : 2);
    }
}

/* Equal kernels share code whatever their seed and draw: a loop of dropouts compiles one. */
static void equal_draws_share_code(void **state) {
    (void)state;
    not_on_a_device("it counts the kernels of the CPU");
    HD_SCOPE;
    hd_builder *b = started("many");
    hd_tensor *x = hd_input("x", S(70, 30), HD_F32), *turns = hd_input("turns", S(70, 30), HD_I64);
    for (int i = 0; i < 6; ++i) x = hd_gather(dropout(x), 0, turns);
    hd_builder_add_output(b, "y", x);
    hd_script *s = built(b);
    hd_script_set_optimization_level(s, HD_O2);
    hd_script_set_input(s, "x", hd_full(S(70, 30), HD_F32, 1));
    hd_script_set_input(s, "turns", hd_mod_scalar(hd_reshape(hd_arange(0, 70 * 30 * 7, 7, HD_I64), S(70, 30)), 70));
    hd_seed(3);
    hd_tensor *y = output(s, "y");
    assert_ok();
    const hd_script_figures f = hd_script_stats(s);
    assert_int_equal(f.kernels, 6);
    assert_in_range(f.kernels_compiled + f.kernels_from_disk, 0, 1);
    hd_script_set_optimization_level(s, HD_O0);
    hd_seed(3);
    hd_tensor *expected = output(s, "y");
    assert_identical(y, expected);
}

/* Places beyond what a kernel counts exactly: such a draw is made in memory, which there is not. */
static void a_draw_of_absurd_size_is_no_others(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("absurd");
    const int64_t size = (int64_t)1 << 30;
    hd_tensor *last = hd_select(hd_uniform(S(size, size), HD_F32, 0, 1), 0, size - 1);
    hd_builder_add_output(b, "y", hd_neg(hd_slice(last, 0, 5, 13, 1)));
    hd_script *s = built(b);
    assert_null(hd_script_run(s));
    assert_error(HD_ERROR_MEMORY, "");
}

RUN(test(a_draw_of_absurd_size_is_no_others), test(kernels_draw_the_numbers_of_the_device),
    test(nothing_is_drawn_of_no_elements), test(the_c_compiler_draws_them_too),
    test(a_mask_is_drawn_again_where_it_is_needed_again), test(a_step_with_dropout_keeps_no_mask),
    test(normal_numbers_are_drawn_once), test(equal_draws_share_code))
