/* Matrix products and what follows them in their tiles: every size at which tiles, strips and panels begin or end,
 * operands turned and stretched, weights that are kept packed and change between runs. Compiled scripts against O0. */
#include "compiler/levels.h"
#include "graph/calls.h"

static const int64_t sizes[] = {1, 2, 3, 5, 7, 8, 11, 12, 13, 31, 32, 33, 63, 64, 65, 100, 129, 300};
enum { SIZES = (int)(sizeof sizes / sizeof sizes[0]) };

/* Operands are positive, so that nothing cancels: both ways round some sums of k otherwise, and the epilogue once. */
enum { PRODUCT_UNITS = 4 };

/* ---- what follows ------------------------------------------------------------------------------------------------ */
/* Epilogues over h [..., m, n]; `extra` is a tensor that broadcasts to it. */
typedef hd_tensor *(*epilogue)(hd_builder *b, hd_tensor *h, hd_tensor *extra);
static hd_tensor *nothing(hd_builder *b, hd_tensor *h, hd_tensor *extra) {
    (void)b, (void)extra;
    return h;
}
static hd_tensor *activation(hd_builder *b, hd_tensor *h, hd_tensor *extra) {
    (void)b, (void)extra;
    return hd_sqrt(hd_relu(h));
}
static hd_tensor *residual(hd_builder *b, hd_tensor *h, hd_tensor *extra) {
    (void)b;
    return hd_add(hd_sigmoid(h), extra);
}
static hd_tensor *two_outputs(hd_builder *b, hd_tensor *h, hd_tensor *extra) {
    hd_builder_add_output(b, "before", h);
    return hd_mul(h, hd_exp(hd_neg(extra)));
}
static hd_tensor *other_dtypes(hd_builder *b, hd_tensor *h, hd_tensor *extra) {
    hd_builder_add_output(b, "half", hd_cast(h, HD_F32));
    hd_builder_add_output(b, "large", hd_gt(h, extra));
    return hd_maximum(h, extra);
}
static const epilogue epilogues[] = {nothing, activation, residual, two_outputs, other_dtypes};
enum { EPILOGUES = (int)(sizeof epilogues / sizeof epilogues[0]) };

/* ---- sizes ------------------------------------------------------------------------------------------------------- */
/* x [m, k] w [k, n], either of them given turned; w an input, bound or a constant. */
static void multiplies(int64_t m, int64_t n, int64_t k, int turned, int given, hd_dtype dtype, int follows) {
    static uint64_t made;
    const uint64_t which = made++;
    if (!when_slow(which, 7) || !when_compiled(which, 41)) return;
    HD_SCOPE;
    char what[128];
    snprintf(what, sizeof what, "[%d,%d] x [%d,%d] %s, turned %d, given %d, epilogue %d", (int)m, (int)k, (int)k,
             (int)n, hd_dtype_name(dtype), turned, given, follows);
    const hd_shape a = turned & 1 ? S(k, m) : S(m, k), c = turned & 2 ? S(n, k) : S(k, n);
    const hd_shape extras[] = {S(m, n), S(n), S(m, 1), S()}, extra = extras[(m + n + k) % 4];
    hd_tensor *weight = operand(c, 1, dtype);
    hd_builder *b = started("product");
    if (given == 1) hd_builder_bind(b, "w", weight);
    hd_tensor *x = hd_input("x", a, dtype), *w = given == 0 ? hd_input("w", c, dtype) : weight;
    hd_tensor *h = hd_matmul(turned & 1 ? hd_t(x) : x, turned & 2 ? hd_t(w) : w);
    hd_builder_add_output(b, "y", epilogues[follows](b, h, hd_input("e", extra, dtype)));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", operand(a, 0, dtype));
    if (given == 0) hd_script_set_input(s, "w", weight);
    hd_script_set_input(s, "e", operand(extra, 2, dtype));
    levels_agree(s, PRODUCT_UNITS, what);
}

static void products_of_all_sizes(void **state) {
    (void)state;
    int turn = 0;
    for (int i = 0; i < SIZES; ++i)
        for (int j = 0; j < SIZES; ++j, ++turn)
            for (int q = 0; q < 3; ++q) /* all pairs of m and n, of n and k, of m and k */
                multiplies(sizes[q == 0   ? i
                                 : q == 1 ? (i + j) % SIZES
                                          : j],
                           sizes[q == 0   ? j
                                 : q == 1 ? i
                                          : (i * 5 + 3) % SIZES],
                           sizes[q == 0   ? (i * 7 + j * 3) % SIZES
                                 : q == 1 ? j
                                          : i],
                           (turn + q) % 4, turn / 4 % 3, turn / 12 % 2 ? HD_F64 : HD_F32, turn % EPILOGUES);
}

/* Large enough for several threads and for all blocks there are. */
static void large_products(void **state) {
    (void)state;
    static const int64_t large[][3] = {
        {1, 4096, 300}, {4, 2000, 700}, {400, 5, 600}, {770, 130, 520}, {129, 1030, 260}};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; ++i)
        for (int turned = 0; turned < 4; ++turned)
            for (int given = 0; given < 2; ++given)
                multiplies(large[i][0], large[i][1], large[i][2], turned, given, i % 2 ? HD_F64 : HD_F32,
                           (int)(i + (size_t)turned) % EPILOGUES);
}

/* Nothing, and sums of nothing: what follows is still to be done. */
static void products_without_elements(void **state) {
    (void)state;
    static const int64_t few[] = {0, 1, 3};
    for (int i = 0; i < 27; ++i)
        for (int follows = 0; follows < EPILOGUES; ++follows)
            for (int turned = 0; turned < 4; ++turned)
                multiplies(few[i % 3], few[i / 3 % 3], few[i / 9], turned, (i + turned) % 3, HD_F32, follows);
}

/* ---- more axes --------------------------------------------------------------------------------------------------- */
static void batches(void **state) {
    (void)state;
    static const int64_t some[][3] = {{1, 1, 1},    {1, 33, 5},    {7, 1, 64}, {13, 12, 0},
                                      {12, 65, 31}, {65, 33, 100}, {0, 3, 2}};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; ++i) {
        const int64_t m = some[i][0], n = some[i][1], k = some[i][2];
        const hd_shape left[] = {S(3, m, k), S(2, 1, m, k), S(m, k), S(2, 3, m, k), S(1, m, k), S(0, m, k)},
                       right[] = {S(3, k, n), S(3, k, n), S(2, 3, k, n), S(k, n), S(4, k, n), S(0, k, n)};
        for (int j = 0; j < 6; ++j)
            for (int e = 0; e < 6; ++e) {
                if (!when_compiled(i * 36 + (uint64_t)(j * 6 + e), 11)) continue;
                HD_SCOPE;
                char what[64];
                snprintf(what, sizeof what, "batch %d of size %d with residual %d", j, (int)i, e);
                hd_builder *b = started("batch");
                hd_tensor *h = hd_matmul(hd_input("a", left[j], HD_F32), hd_input("b", right[j], HD_F32));
                hd_shape extra = hd_tensor_shape(h);
                for (int a = 0; a < extra.rank; ++a) /* stretched along some axes */
                    if (e > 0 && (a + e) % 3 == 0) extra.size[a] = 1;
                if (e == 5) extra = S(n);
                hd_builder_add_output(b, "y", residual(b, h, hd_input("e", extra, HD_F32)));
                hd_script *s = built(b);
                hd_script_set_input(s, "a", operand(left[j], 0, HD_F32));
                hd_script_set_input(s, "b", operand(right[j], 1, HD_F32));
                hd_script_set_input(s, "e", operand(extra, 2, HD_F32));
                levels_agree(s, PRODUCT_UNITS, what);
            }
    }
}

static void layers_over_more_axes(void **state) {
    (void)state;
    static const int64_t some[][4] = {{1, 1, 1, 1},   {2, 3, 5, 7}, {3, 13, 33, 12}, {2, 64, 65, 31},
                                      {5, 1, 100, 8}, {2, 0, 3, 4}, {2, 3, 4, 0}};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; ++i)
        for (int e = 0; e < 7; ++e)
            for (int biased = 0; biased < 2; ++biased)
                for (int wide = 0; wide < 2; ++wide) {
                    HD_SCOPE;
                    const int64_t q = some[i][0], m = some[i][1], n = some[i][2], k = some[i][3];
                    const hd_shape extras[] = {S(q, m, n), S(m, n), S(q, 1, n), S(1, 1, n),
                                               S(q, m, 1), S(1),    S(q, 1, 1)};
                    const hd_dtype dtype = wide ? HD_F64 : HD_F32;
                    char what[64];
                    snprintf(what, sizeof what, "layer %d with residual %d, bias %d", (int)i, e, biased);
                    hd_builder *b = started("layer");
                    hd_tensor *w = operand(S(n, k), 1, dtype), *bias = operand(S(n), 3, dtype);
                    hd_builder_bind(b, "w", w);
                    hd_builder_bind(b, "bias", bias);
                    hd_tensor *h = hd_affine(hd_input("x", S(q, m, k), dtype), w, biased ? bias : NULL);
                    hd_tensor *y = hd_add(hd_gelu(h), hd_input("e", extras[e], dtype));
                    hd_builder_add_output(b, "y", y);
                    hd_script *s = built(b);
                    hd_script_set_input(s, "x", operand(S(q, m, k), 0, dtype));
                    hd_script_set_input(s, "e", operand(extras[e], 2, dtype));
                    levels_agree(s, PRODUCT_UNITS, what);
                }
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */
static hd_tensor *expected_layer(hd_tensor *x, hd_tensor *w) { return hd_relu(hd_matmul(x, w)); }

/* Weights that a run does not change are packed once; whoever changes them in between is noticed. */
static void changed_weights_are_packed_anew(void **state) {
    (void)state;
    for (int alone = 0; alone < 2; ++alone) {
        HD_SCOPE;
        hd_tensor *w = operand(S(170, 190), 1, HD_F32), *x = operand(S(140, 170), 0, HD_F32);
        hd_tensor *turned = operand(S(190, 170), 2, HD_F32); /* read as a view */
        hd_builder *b = started("bound");
        hd_builder_bind(b, "w", w);
        hd_builder_bind(b, "turned", turned);
        hd_tensor *in = hd_input("x", S(140, 170), HD_F32);
        hd_builder_add_output(b, "y", alone ? hd_matmul(in, w) : expected_layer(in, w));
        hd_builder_add_output(b, "z", alone ? hd_matmul(in, hd_t(turned)) : expected_layer(in, hd_t(turned)));
        hd_script *s = built(b), *other;
        hd_builder *c = started("other"); /* another script that has the weights as state */
        hd_builder_add_state(c, "w", w);
        hd_mul_(w, hd_scalar(0.5, HD_F32));
        other = built(c);
        hd_script_set_optimization_level(s, HD_O2);
        hd_script_set_input(s, "x", x);
        for (int step = 0; step < 8; ++step) {
            HD_SCOPE;
            if (step == 1) hd_assign(w, operand(S(170, 190), 5, HD_F32));
            if (step == 2) hd_fill(hd_select(w, 0, 3), 7);
            if (step == 3) ((float *)hd_data_mut(w, HD_F32))[100] = -5;
            if (step == 4) hd_script_set_state(s, "w", operand(S(170, 190), 6, HD_F32));
            if (step == 5) hd_script_run(other);
            if (step == 6) hd_mul_(hd_t(turned), hd_scalar(2, HD_F32));
            if (step == 7) hd_fill(hd_script_state(s, "turned"), 1);
            hd_outputs *o = hd_script_run(s);
            hd_tensor *y = expected_layer(x, w), *z = expected_layer(x, hd_t(turned));
            assert_within_units(alone ? hd_relu(hd_outputs_get(o, "y")) : hd_outputs_get(o, "y"), y, PRODUCT_UNITS);
            assert_within_units(alone ? hd_relu(hd_outputs_get(o, "z")) : hd_outputs_get(o, "z"), z, PRODUCT_UNITS);
        }
    }
}

/* The user's own memory is read as it is when a run begins, without telling anybody. */
static void borrowed_weights_are_read_live(void **state) {
    (void)state;
    HD_SCOPE;
    static float memory[160 * 160];
    for (int i = 0; i < 160 * 160; ++i) memory[i] = 1;
    hd_tensor *w = hd_from_blob(memory, S(160, 160), HD_F32, NULL, NULL);
    hd_builder *b = started("borrowed");
    hd_builder_bind(b, "w", w);
    hd_builder_add_output(b, "y", hd_relu(hd_matmul(hd_input("x", S(130, 160), HD_F32), w)));
    hd_script *s = built(b);
    hd_script_set_optimization_level(s, HD_O2);
    hd_script_set_input(s, "x", hd_ones(S(130, 160), HD_F32));
    assert_true(hd_data_f32(output(s, "y"))[0] == 160);
    for (int i = 0; i < 160 * 160; ++i) memory[i] = 2;
    assert_true(hd_data_f32(output(s, "y"))[0] == 320);
}

static void weights_may_be_views_and_constants(void **state) {
    (void)state;
    for (int kind = 0; kind < 6; ++kind) {
        HD_SCOPE;
        hd_tensor *all = operand(S(3, 160, 390), 1, HD_F32), *w = NULL;
        hd_builder *b = started("views");
        if (kind % 2 == 0) hd_builder_bind(b, "all", all);
        if (kind / 2 == 0) w = hd_select(all, 0, 1);
        if (kind / 2 == 1) w = hd_t(hd_reshape(hd_slice(all, 1, 20, 100, 1), S(240, 390)));
        if (kind / 2 == 2) w = hd_slice(hd_slice(hd_select(all, 0, 2), 0, 3, 159, 1), 1, HD_END, HD_END, -2);
        const int64_t k = hd_tensor_size(w, 0), n = hd_tensor_size(w, 1);
        hd_builder_add_output(b, "y", expected_layer(hd_input("x", S(140, k), HD_F32), w));
        hd_builder_add_output(b, "alone", hd_matmul(hd_input("z", S(133, k), HD_F32), w));
        hd_script *s = built(b);
        hd_script_set_input(s, "x", operand(S(140, k), 0, HD_F32));
        hd_script_set_input(s, "z", operand(S(133, k), 2, HD_F32));
        char what[32];
        snprintf(what, sizeof what, "weights %d, %d x %d", kind, (int)k, (int)n);
        levels_agree(s, PRODUCT_UNITS, what);
        if (kind % 2 == 0) hd_fill(all, 0.25);
        levels_agree(s, PRODUCT_UNITS, what);
    }
}

/* State that the same run reads and updates: the product sees what was there before. */
static void weights_that_the_run_updates(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(150, 150), 1, HD_F32), *twin = hd_copy(w), *x = operand(S(150, 150), 0, HD_F32);
    hd_builder *b = started("update");
    hd_builder_add_state(b, "w", w);
    hd_tensor *in = hd_input("x", S(150, 150), HD_F32), *y = hd_tanh(hd_matmul(in, w));
    hd_assign(w, hd_mul_scalar(hd_add(w, hd_matmul(y, in)), 0.005));
    hd_builder_add_output(b, "y", y);
    hd_builder_add_output(b, "after", hd_sigmoid(hd_matmul(in, w)));
    hd_script *s = built(b);
    hd_script_set_optimization_level(s, HD_O2);
    hd_script_set_input(s, "x", x);
    for (int step = 0; step < 5; ++step) {
        HD_SCOPE;
        hd_outputs *o = hd_script_run(s);
        hd_tensor *e = hd_tanh(hd_matmul(x, twin));
        assert_within_units(hd_outputs_get(o, "y"), e, PRODUCT_UNITS);
        hd_assign(twin, hd_mul_scalar(hd_add(twin, hd_matmul(e, x)), 0.005));
        assert_within_units(w, twin, PRODUCT_UNITS);
        assert_within_units(hd_outputs_get(o, "after"), hd_sigmoid(hd_matmul(x, twin)), PRODUCT_UNITS);
    }
}

/* ---- narrow operands --------------------------------------------------------------------------------------------- */
static void narrow_products_of_all_sizes(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_BF16, HD_F16, HD_I8, HD_I16, HD_I32, HD_U8, HD_I64, HD_F8E4M3};
    int turn = 0;
    for (int i = 0; i < SIZES; ++i)
        for (int j = 0; j < SIZES; ++j, ++turn) {
            const hd_dtype dtype = dtypes[turn % 8];
            const int follows = hd_dtype_is_float(dtype) ? turn / 8 % EPILOGUES : turn / 8 % 2 * 4;
            multiplies(sizes[i], sizes[j], sizes[(i * 7 + j * 3) % SIZES], turn % 4, turn / 4 % 3, dtype, follows);
            multiplies(sizes[(i * 5 + 3) % SIZES], sizes[i], sizes[j], (turn + 1) % 4, turn / 4 % 3, dtype, follows);
        }
    for (int d = 0; d < 8; ++d)
        for (int turned = 0; turned < 4; ++turned) {
            multiplies(1, 4096, 300, turned, 1, dtypes[d], 0);
            multiplies(129, 1030, 260, turned, turned % 2, dtypes[d], 4);
            multiplies(3, 0, 3, turned, 1, dtypes[d], 0);
            multiplies(3, 3, 0, turned, 1, dtypes[d], 4);
        }
}

/* Whole numbers whose sums are exact, in any order, but not in the halves that they are rounded to. */
static hd_tensor *whole(hd_shape shape, int which, hd_dtype dtype) {
    HD_EAGER;
    return hd_cast(hd_round(hd_sub_scalar(hd_mul_scalar(operand(shape, which, HD_F64), 9), 10)), dtype);
}
static void layer_of_halves(int64_t m, int64_t n, int64_t k, hd_dtype dtype, hd_dtype bias_dtype, int kind) {
    HD_SCOPE;
    char what[96];
    snprintf(what, sizeof what, "%s [%d,%d,%d], bias %s, kind %d", hd_dtype_name(dtype), (int)m, (int)n, (int)k,
             hd_dtype_name(bias_dtype), kind);
    hd_builder *b = started("halves");
    hd_tensor *w = whole(S(n, k), 1, dtype), *bias = whole(S(n), 2, bias_dtype);
    hd_builder_bind(b, "w", w);
    hd_tensor *x = hd_input("x", S(m, k), dtype), *h = NULL;
    if (kind == 0) h = hd_affine(x, w, bias);
    if (kind == 1) h = hd_neg(hd_relu(hd_affine(x, w, bias)));
    if (kind == 2) h = hd_relu(hd_add(hd_matmul(x, hd_t(w)), bias));
    if (kind == 3) h = hd_mul_scalar(hd_square(hd_relu(hd_matmul(x, hd_t(w)))), 0.125);
    if (kind == 4) h = hd_add(hd_relu(hd_affine(x, w, hd_flip(bias, HD_AXES()))), bias);
    if (kind == 5) h = hd_matmul(hd_cast(x, HD_F32), hd_t(hd_cast(w, HD_F32)));
    if (kind == 6) h = hd_square(hd_square(hd_affine(x, w, bias))); /* without a kernel of its own */
    hd_builder_add_output(b, "y", h);
    hd_script *s = built(b);
    hd_script_set_input(s, "x", whole(S(m, k), 0, dtype));
    levels_agree(s, 0, what);
}
/* Where O0 rounds to a half, so do the others: bit for bit. */
static void halves_are_rounded_where_they_would_be(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_BF16, HD_F16, HD_F32}, biases[] = {HD_BF16, HD_F16, HD_F32, HD_F8E5M2};
    static const int64_t some[][3] = {{1, 40, 33}, {3, 65, 70}, {7, 5, 9}, {16, 100, 260}, {33, 129, 100}};
    for (int i = 0; i < 5; ++i)
        for (int d = 0; d < 3; ++d)
            for (int e = 0; e < 4; ++e)
                for (int kind = 0; kind < 7; ++kind)
                    if (when_compiled((uint64_t)(((i * 3 + d) * 4 + e) * 7 + kind), 29))
                        layer_of_halves(some[i][0], some[i][1], some[i][2], dtypes[d], biases[e], kind);
}

/* i8 x i8 -> i32: said with casts, which are not made. */
static void widened_integers(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_I8, HD_U8, HD_I16};
    static const int64_t some[][3] = {{1, 100, 64}, {5, 33, 17}, {64, 64, 65}, {130, 100, 301}, {2, 70, 500}};
    for (int i = 0; i < 5; ++i)
        for (int way = 0; way < 24; ++way) {
            if (!when_compiled((uint64_t)(i * 24 + way), 13)) continue;
            HD_SCOPE;
            const int64_t m = some[i][0], n = some[i][1], k = some[i][2];
            const hd_dtype left = dtypes[way % 3], right = dtypes[way / 3 % 2 * 2];
            const bool bound = way / 6 % 2, scaled = way / 12;
            hd_tensor *weight = hd_randint(S(n, k), right, -128, 128), *in = hd_randint(S(m, k), left, 0, 127);
            hd_builder *b = started("widened");
            if (bound) hd_builder_bind(b, "w", weight);
            hd_tensor *x = hd_input("x", S(m, k), left), *w = bound ? weight : hd_input("w", S(n, k), right);
            hd_tensor *h = hd_matmul(hd_cast(x, HD_I32), hd_t(hd_cast(w, HD_I32)));
            hd_builder_add_output(b, "y", scaled ? hd_mul_scalar(hd_cast(h, HD_F32), 0.25) : h);
            hd_script *s = built(b);
            hd_script_set_input(s, "x", in);
            if (!bound) hd_script_set_input(s, "w", weight);
            char what[64];
            snprintf(what, sizeof what, "widened %d, way %d", i, way);
            levels_agree(s, 0, what);
            hd_script_set_optimization_level(s, HD_O2);
            hd_tensor *exact = hd_matmul(hd_cast(in, HD_I64), hd_t(hd_cast(weight, HD_I64)));
            assert_within_units(output(s, "y"),
                                scaled ? hd_mul_scalar(hd_cast(exact, HD_F32), 0.25) : hd_cast(exact, HD_I32), 0);
            assert_int_equal(hd_script_stats(s).arena_bytes, 0);
        }
}

/* Sixteen rows and fewer read packed halves as they are, more of them converted; both when the weights change. */
static void packed_halves(void **state) {
    (void)state;
    static const int64_t rows[] = {5, 16, 17, 40};
    for (int i = 0; i < 8; ++i) {
        HD_SCOPE;
        const hd_dtype dtype = i % 2 ? HD_F16 : HD_BF16;
        hd_tensor *w = whole(S(170, 150), 1, dtype), *x = whole(S(rows[i / 2], 150), 0, dtype);
        hd_builder *b = started("packed");
        hd_builder_bind(b, "w", w);
        hd_builder_add_output(b, "y", hd_relu(hd_affine(hd_input("x", S(rows[i / 2], 150), dtype), w, NULL)));
        hd_script *s = built(b);
        hd_script_set_input(s, "x", x);
        for (int step = 0; step < 3; ++step) {
            levels_agree(s, 0, "packed halves");
            assert_within_units(output(s, "y"), hd_relu(hd_affine(x, w, NULL)), 0);
            hd_assign(w, whole(S(170, 150), step + 5, dtype));
        }
    }
}

/* ---- what needs no kernel of its own ----------------------------------------------------------------------------- */
typedef struct following {
    const char *name;
    int kernels; /* native ones that it takes */
    hd_tensor *(*make)(hd_tensor *h, hd_tensor *full, hd_tensor *row, hd_tensor *column);
} following;
#define FOLLOWING(name, value)                                                                                         \
    static hd_tensor *name(hd_tensor *h, hd_tensor *full, hd_tensor *row, hd_tensor *column) {                         \
        (void)full, (void)row, (void)column;                                                                           \
        return value;                                                                                                  \
    }
FOLLOWING(bias_alone, hd_add(h, row))
FOLLOWING(bias_first, hd_add(row, h))
FOLLOWING(bias_and_activation, hd_relu(hd_add(h, row)))
FOLLOWING(two_rows, hd_mul(hd_add(h, row), row))
FOLLOWING(residual_after, hd_add(hd_sqrt(hd_add(h, row)), full))
FOLLOWING(from_the_right, hd_sub(full, hd_relu(h)))
FOLLOWING(ratio, hd_div(row, hd_add(h, full)))
FOLLOWING(columns, hd_add(h, column))          /* neither the result's rows nor one of them */
FOLLOWING(turned, hd_add(h, hd_t(hd_t(full)))) /* which is the same after the passes */
FOLLOWING(stretched, hd_add(hd_relu(h), hd_broadcast_to(row, hd_tensor_shape(h))))
FOLLOWING(twice, hd_add(h, h))
FOLLOWING(a_number, hd_add_scalar(hd_mul_scalar(h, 0.5), 1))
static const following followings[] = {{"bias alone", 0, bias_alone},
                                       {"bias first", 0, bias_first},
                                       {"bias and activation", 0, bias_and_activation},
                                       {"two rows", 0, two_rows},
                                       {"residual", 0, residual_after},
                                       {"from the right", 0, from_the_right},
                                       {"ratio", 0, ratio},
                                       {"columns", 1, columns},
                                       {"turned", 0, turned},
                                       {"stretched", 0, stretched},
                                       {"twice", 1, twice},
                                       {"a number", 1, a_number}};

static void rows_upon_each_other_compile_nothing(void **state) {
    (void)state;
    not_on_a_device("it counts the kernels of the CPU");
    const hd_shape shapes[] = {S(1, 5), S(7, 33), S(40, 70), S(64, 128)};
    for (size_t f = 0; f < sizeof followings / sizeof followings[0]; ++f)
        for (int i = 0; i < 4; ++i)
            for (int wide = 0; wide < 2; ++wide) {
                HD_SCOPE;
                char what[64];
                const hd_dtype dtype = wide ? HD_F64 : HD_F32;
                const int64_t m = shapes[i].size[0], n = shapes[i].size[1];
                snprintf(what, sizeof what, "%s at [%d,%d]", followings[f].name, (int)m, (int)n);
                hd_builder *b = started("follows");
                hd_tensor *x = hd_input("x", S(m, 24), dtype), *w = operand(S(24, n), 1, dtype);
                hd_tensor *full = hd_input("full", S(m, n), dtype), *row = operand(S(n), 3, dtype),
                          *column = operand(S(m, 1), 4, dtype);
                hd_builder_add_output(b, "y", followings[f].make(hd_matmul(x, w), full, row, column));
                hd_script *s = built(b);
                hd_script_set_input(s, "x", operand(S(m, 24), 0, dtype));
                hd_script_set_input(s, "full", operand(S(m, n), 2, dtype));
                levels_agree(s, PRODUCT_UNITS, what);
                hd_script_set_optimization_level(s, HD_O2);
                hd_script_compile(s);
                assert_int_equal(hd_script_stats(s).launches, 1);
                if (m > 1 && hd_script_stats(s).kernels != followings[f].kernels)
                    fail_msg("%s: %d kernels", what, (int)hd_script_stats(s).kernels);
            }
}

/* w <- w - x^T y: the product is finished over the state it reads, and that is written where it lies. */
static void state_is_the_other_operand(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(30, 50), 1, HD_F32), *expected = hd_copy(w);
    hd_tensor *x = operand(S(20, 30), 0, HD_F32), *y = operand(S(20, 50), 2, HD_F32);
    hd_builder *b = started("update");
    hd_builder_add_state(b, "w", w);
    hd_assign(w, hd_sub(w, hd_matmul(hd_t(hd_input("x", S(20, 30), HD_F32)), hd_input("y", S(20, 50), HD_F32))));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", x);
    hd_script_set_input(s, "y", y);
    for (int i = 0; i < 3; ++i) {
        assert_non_null(hd_script_run(s));
        expected = hd_sub(expected, hd_matmul(hd_t(x), y));
        assert_close(hd_script_state(s, "w"), expected, 1e-5, 1e-4);
    }
    if (hd_current_device().kind != HD_DEVICE_CPU) return; /* machines of devices plan otherwise */
    assert_int_equal(hd_script_stats(s).kernels, 0);
    assert_int_equal(hd_script_stats(s).launches, 1);
}

/* Sums of two products inside a script lie where one of them lay, so that tiles may not be made there: of few rows, and
 * of wide results, and with a last panel that is not whole. */
static void sums_over_one_of_them(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{64, 128, 256}, {300, 128, 256}, {300, 128, 270}, {64, 700, 256}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; ++i) {
        HD_SCOPE;
        const int64_t m = shapes[i][0], k = shapes[i][1], n = shapes[i][2];
        hd_builder *b = started("over");
        hd_tensor *x = hd_input("x", S(m, k), HD_F32);
        hd_tensor *left = hd_matmul(x, operand(S(k, n), 1, HD_F32)), *right = hd_matmul(x, operand(S(k, n), 2, HD_F32));
        hd_builder_add_output(b, "y", hd_matmul(hd_sub(left, right), operand(S(n, 40), 3, HD_F32)));
        hd_script *s = built(b);
        hd_script_set_input(s, "x", operand(S(m, k), 0, HD_F32));
        char what[32];
        snprintf(what, sizeof what, "over %zu", i);
        levels_agree_at(s, PRODUCT_UNITS, 1e5, what);
    }
}

/* A row that is added to integers; and one that the result of a single row lies over, whatever the layout of the
 * weights. */
static void rows_that_are_added(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_I32, HD_I64, HD_U8, HD_I16, HD_F32, HD_F64, HD_BF16};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; ++i) {
        HD_SCOPE;
        hd_builder *b = started("row");
        hd_tensor *w = operand(S(7, 33), 1, dtypes[i]), *row = operand(S(33), 2, dtypes[i]);
        hd_builder_add_output(b, "y", hd_add(hd_matmul(hd_input("x", S(13, 7), dtypes[i]), w), row));
        hd_script *s = built(b);
        hd_script_set_input(s, "x", operand(S(13, 7), 0, dtypes[i]));
        levels_agree(s, PRODUCT_UNITS, hd_dtype_name(dtypes[i]));
    }
    for (int kind = 0; kind < 4; ++kind) {
        HD_SCOPE;
        hd_tensor *h = operand(S(1, 64), 1, HD_F32), *w = operand(S(100, 128), 2, HD_F32),
                  *x = operand(S(1, 100), 0, HD_F32);
        hd_tensor *twin = hd_copy(h);
        hd_builder *b = started("over");
        hd_builder_add_state(b, "h", h);
        if (kind & 1) hd_builder_bind(b, "w", w);
        hd_tensor *columns = kind & 2 ? hd_slice(w, 1, 0, HD_END, 2) : hd_slice(w, 1, 0, 64, 1);
        hd_assign(h, hd_add(hd_matmul(hd_input("x", S(1, 100), HD_F32), columns), h));
        hd_script *s = built(b);
        hd_script_set_input(s, "x", x);
        columns = kind & 2 ? hd_slice(w, 1, 0, HD_END, 2) : hd_slice(w, 1, 0, 64, 1);
        for (int run = 0; run < 3; ++run) {
            hd_script_run(s);
            twin = hd_add(hd_matmul(x, columns), twin);
            assert_ok();
            assert_within_units(h, twin, PRODUCT_UNITS);
        }
    }
}

RUN(test(products_of_all_sizes), test(large_products), test(products_without_elements), test(batches),
    test(layers_over_more_axes), test(changed_weights_are_packed_anew), test(borrowed_weights_are_read_live),
    test(weights_may_be_views_and_constants), test(weights_that_the_run_updates), test(narrow_products_of_all_sizes),
    test(halves_are_rounded_where_they_would_be), test(widened_integers), test(packed_halves),
    test(rows_upon_each_other_compile_nothing), test(state_is_the_other_operand), test(sums_over_one_of_them),
    test(rows_that_are_added))
