/* Plans: launches over memory that is laid out in advance. Compiled scripts against O0 where memory is shared,
 * overwritten, empty, strided or exchanged: reductions over every subset of axes, values without elements, numbers that
 * are none, many dead values, many outputs, state, faults. */
#include "compiler/levels.h"
#include "graph/programs.h"

enum { ONE_IN = 5 }; /* of the cases of which there are most */

/* ---- reductions -------------------------------------------------------------------------------------------------- */
/* What is reduced follows from two tensors, and what follows from the result goes back to the whole. */
static void reduces(hd_tensor *x, hd_tensor *y, hd_axes axes, int how, bool keep, const char *what) {
    HD_SCOPE;
    const hd_dtype dtype = hd_tensor_dtype(x);
    hd_builder *b = started("reduce");
    hd_tensor *p = hd_input("x", hd_tensor_shape(x), dtype), *q = hd_input("y", hd_tensor_shape(y), dtype);
    hd_tensor *h = hd_mul(hd_add(p, q), p), *r;
    const hd_reduce_opts *opts = keep ? KEEP : NULL;
    r = how == 0   ? hd_sum(h, axes, opts)
        : how == 1 ? hd_max(h, axes, opts)
        : how == 2 ? hd_min(h, axes, opts)
        : how == 3 ? hd_prod(hd_clamp(h, 0.9, 1.1), axes, opts)
        : how == 4 ? hd_mean(h, axes, opts)
                   : hd_logsumexp(h, axes, opts);
    if (!hd_ok()) { /* nothing has no maximum */
        assert_error(HD_ERROR_SHAPE, "");
        hd_builder_end(b);
        return;
    }
    hd_builder_add_output(b, "after", hd_add_scalar(hd_abs(r), 1));
    if (keep) hd_builder_add_output(b, "back", hd_sub(h, r));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", x);
    hd_script_set_input(s, "y", y);
    int64_t terms = 1;
    for (int i = 0; i < axes.count; ++i) terms *= hd_tensor_size(x, axes.axis[i]);
    /* sums run in f32 for a while before they go to f64: 5 units were seen with 301 terms. Each factor of a product may
     * round. */
    const double units = how == 3 ? 4 + (double)terms : 8;
    levels_agree_at(s, units, largest_of(x) * largest_of(x) * 2, what);
}

static void reductions_over_every_subset_of_axes(void **state) {
    (void)state;
    static const int64_t shapes[][4] = {{3, 4, 5, 6}, {2, 1, 70, 3}, {1, 1, 1, 1}, {5, 33, 2, 17}, {2, 0, 3, 2}};
    for (int i = 0; i < 5; ++i)
        for (int set = 0; set < 16; ++set)
            for (int how = 0; how < 6; ++how) {
                if (!sampled((uint64_t)(i + set + how), ONE_IN) ||
                    !when_compiled((uint64_t)(i * 96 + set * 6 + how), 7))
                    continue;
                HD_SCOPE;
                char what[64];
                snprintf(what, sizeof what, "shape %d, axes %x, reduction %d", i, (unsigned)set, how);
                hd_axes axes = {.count = 0};
                for (int a = 0; a < 4; ++a)
                    if (set >> a & 1) axes.axis[axes.count++] = a;
                if (axes.count == 0) axes = HD_AXES(how % 4); /* no axes are all of them: so one again */
                hd_tensor *x = operand(hd_shape_of(shapes[i], 4), 0, how % 2 ? HD_F64 : HD_F32);
                reduces(x, operand(hd_shape_of(shapes[i] + 2, 2), 1, hd_tensor_dtype(x)), axes, how, set % 2 == 0,
                        what);
            }
}

/* Large enough for threads in both orientations, and with rests of lanes. */
static void large_reductions(void **state) {
    (void)state;
    for (int how = 0; how < 6; ++how)
        for (int axis = 0; axis < 2; ++axis) {
            HD_SCOPE;
            char what[64];
            snprintf(what, sizeof what, "axis %d, reduction %d", axis, how);
            reduces(operand(S(301, 517), 0, HD_F32), operand(S(517), 1, HD_F32), HD_AXES(axis), how, true, what);
            reduces(hd_t(operand(S(517, 301), 0, HD_F32)), operand(S(301, 1), 1, HD_F32), HD_AXES(axis), how, true,
                    what);
        }
}

/* Axes that cannot be walked in one go: as many loops as there can be. */
static void reductions_of_eight_axes(void **state) {
    (void)state;
    for (int set = 0; set < 4; ++set) {
        HD_SCOPE;
        hd_builder *b = started("eight");
        hd_tensor *x = hd_input("x", S(2, 2, 3, 2, 2, 3, 2, 2), HD_F32);
        hd_tensor *turned = hd_permute(x, X(7, 6, 5, 4, 3, 2, 1, 0));
        const hd_axes axes = set == 0   ? X()
                             : set == 1 ? X(0, 2, 4, 6)
                             : set == 2 ? X(1, 3, 5, 7)
                                        : X(0, 1, 2, 3, 4, 5, 6);
        hd_builder_add_output(b, "turned", hd_sum(turned, axes, NULL));
        hd_builder_add_output(b, "both", hd_sum(hd_sqrt(hd_mul(turned, x)), axes, KEEP));
        hd_builder_add_output(b, "whole", hd_sqrt(hd_add(turned, x)));
        hd_script *s = built(b);
        hd_script_set_input(s, "x", operand(S(2, 2, 3, 2, 2, 3, 2, 2), 0, HD_F32));
        levels_agree(s, 4, "eight axes");
    }
}

static void integers_and_bools_are_reduced_exactly(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_BOOL, HD_U8, HD_I8, HD_I16, HD_U16, HD_I32, HD_U32, HD_I64, HD_U64};
    for (int d = 0; d < 9; ++d)
        for (int axis = 0; axis < 2; ++axis) {
            HD_SCOPE;
            hd_builder *b = started("integers");
            hd_tensor *x = hd_input("x", S(37, 41), dtypes[d]), *h = dtypes[d] == HD_BOOL ? x : hd_add(x, x);
            hd_builder_add_output(b, "sum", hd_sum(h, X(axis), NULL));
            hd_builder_add_output(b, "max", hd_max(h, X(axis), NULL));
            hd_builder_add_output(b, "min", hd_min(h, X(axis), NULL));
            hd_builder_add_output(b, "any", hd_any(hd_gt(h, hd_full(S(), HD_I32, 90)), X(axis), NULL));
            hd_builder_add_output(b, "all", hd_all(hd_ge(h, hd_full(S(), HD_I32, 1)), X(axis), NULL));
            hd_script *s = built(b);
            hd_script_set_input(s, "x", hd_cast(hd_mul_scalar(operand(S(37, 41), 0, HD_F32), 50), dtypes[d]));
            levels_agree(s, 0, hd_dtype_name(dtypes[d]));
        }
}

/* ---- nothing and one --------------------------------------------------------------------------------------------- */
#define SMALL(CALL)                                                                                                    \
    CALL(hd_exp(hd_add(x, y)))                                                                                         \
    CALL(hd_softmax(hd_mul(x, y), -1))                                                                                 \
    CALL(hd_softmax(hd_mul(x, y), 0))                                                                                  \
    CALL(hd_sum(hd_mul(x, y), X(0), NULL))                                                                             \
    CALL(hd_sum(hd_mul(x, y), X(), KEEP))                                                                              \
    CALL(hd_relu(hd_matmul(x, hd_t(y))))                                                                               \
    CALL(hd_matmul(hd_exp(hd_t(x)), y))                                                                                \
    CALL(hd_concat(LIST(hd_neg(x), hd_exp(y), x), 0))                                                                  \
    CALL(hd_add(hd_slice(x, 0, 0, HD_END, 2), hd_slice(hd_exp(y), 0, 0, HD_END, 2)))                                   \
    CALL(hd_add(hd_reshape(hd_t(hd_exp(x)), S(-1)), hd_reshape(y, S(-1))))

static void sizes_of_nothing_and_one(void **state) {
    (void)state;
    static const int64_t few[] = {0, 1, 2, 17};
    for (int i = 0; i < 16; ++i) {
        const hd_shape shape = S(few[i / 4], few[i % 4]);
        int call = 0;
#define SMALL_RUN(result)                                                                                              \
    {                                                                                                                  \
        HD_SCOPE;                                                                                                      \
        char what[64];                                                                                                 \
        snprintf(what, sizeof what, "call %d on [%d,%d]", call++, (int)few[i / 4], (int)few[i % 4]);                   \
        hd_builder *b = started("small");                                                                              \
        hd_tensor *x = hd_input("x", shape, HD_F32), *y = hd_input("y", shape, HD_F32), *made = result;                \
        if (hd_ok()) {                                                                                                 \
            hd_builder_add_output(b, "y", made);                                                                       \
            hd_script *s = built(b);                                                                                   \
            hd_script_set_input(s, "x", operand(shape, 0, HD_F32));                                                    \
            hd_script_set_input(s, "y", operand(shape, 1, HD_F32));                                                    \
            levels_agree(s, 4, what);                                                                                  \
        } else {                                                                                                       \
            assert_true(few[i / 4] == 0 || few[i % 4] == 0); /* no maximum of nothing, no size from nothing */         \
            hd_error_clear();                                                                                          \
            hd_builder_end(b);                                                                                         \
        }                                                                                                              \
    }
        SMALL(SMALL_RUN)
    }
}

/* ---- numbers that are none, and very small ones ------------------------------------------------------------------ */
static hd_tensor *with_special(hd_shape shape, int which, hd_dtype dtype) {
    static const double special[] = {NAN, INFINITY, -INFINITY, 0, -0.0, 1e-310, 1e-40, -1e-45, 1e30, -3, 0.5, 65504};
    const int64_t count = hd_shape_count(shape);
    double *v = malloc((size_t)(count + 1) * sizeof *v);
    dice d = {(uint64_t)which};
    for (int64_t i = 0; i < count; ++i)
        v[i] = below(&d, 5) == 0 ? special[below(&d, 12)] : (double)(below(&d, 41) - 20) / 8;
    hd_tensor *t = hd_cast(hd_from_data(v, shape, HD_F64), dtype);
    free(v);
    return t;
}

/* Each form on its own: where only one NaN is, and where it is not. A maximum of NaN and anything is NaN, a product of
 * 0 and infinity too, and lanes beside them know nothing of it. */
#define SPECIAL(CALL)                                                                                                  \
    CALL("map", hd_mul(hd_relu(x), hd_sign(y)))                                                                        \
    CALL("choice", hd_where(hd_lt(x, y), hd_neg(x), y))                                                                \
    CALL("comparison", hd_logical_or(hd_isnan(hd_mul(x, y)), hd_ge(x, y)))                                             \
    CALL("maximum", hd_minimum(hd_maximum(x, y), hd_neg(y)))                                                           \
    CALL("clamp", hd_clamp(hd_sub(x, y), -1, 2))                                                                       \
    CALL("to integers", hd_cast(hd_mul(x, y), HD_I32))                                                                 \
    CALL("to bytes", hd_cast(hd_neg(x), HD_U8))                                                                        \
    CALL("to bool", hd_cast(hd_neg(x), HD_BOOL))                                                                       \
    CALL("to half", hd_mul(hd_cast(hd_neg(x), HD_F16), hd_cast(y, HD_F16)))                                            \
    CALL("rows", hd_max(hd_neg(x), X(1), NULL))                                                                        \
    CALL("columns", hd_min(hd_neg(x), X(0), NULL))                                                                     \
    CALL("all", hd_max(hd_abs(x), X(), NULL))                                                                          \
    CALL("sums", hd_sum(hd_neg(x), X(1), NULL))                                                                        \
    CALL("sums of columns", hd_sum(hd_neg(x), X(0), KEEP))                                                             \
    CALL("any", hd_any(hd_lt(x, y), X(1), NULL))                                                                       \
    CALL("softmax", hd_softmax(hd_neg(x), 1))                                                                          \
    CALL("softmax of columns", hd_softmax(hd_neg(x), 0))                                                               \
    CALL("normal", hd_div(hd_sub(x, hd_mean(x, X(1), KEEP)), hd_std(x, X(1), 0, KEEP)))                                \
    CALL("product", hd_relu(hd_matmul(x, hd_t(y))))                                                                    \
    CALL("product and residual",                                                                                       \
         hd_add(hd_maximum(hd_matmul(x, hd_t(y)), hd_full(S(), HD_F32, 0)), hd_slice(x, 1, 0, 23, 1)))

static void numbers_that_are_none(void **state) {
    (void)state;
    for (int round = 0; round < 6; ++round) {
        hd_tensor *given[2];
        HD_SCOPE;
        given[0] = with_special(S(23, 70), round * 2, HD_F32);
        given[1] = with_special(S(23, 70), round * 2 + 1, HD_F32);
        if (round == 0) given[0] = hd_full(S(23, 70), HD_F32, NAN);
        if (round == 1) given[1] = hd_full(S(23, 70), HD_F32, -INFINITY);
#define SPECIAL_RUN(label, result)                                                                                     \
    {                                                                                                                  \
        HD_SCOPE;                                                                                                      \
        char what[64];                                                                                                 \
        snprintf(what, sizeof what, "%s in round %d", label, round);                                                   \
        hd_builder *b = started("special");                                                                            \
        hd_tensor *x = hd_input("x", S(23, 70), HD_F32), *y = hd_input("y", S(23, 70), HD_F32);                        \
        (void)x, (void)y;                                                                                              \
        hd_builder_add_output(b, "y", result);                                                                         \
        hd_script *s = built(b);                                                                                       \
        hd_script_set_input(s, "x", given[0]);                                                                         \
        hd_script_set_input(s, "y", given[1]);                                                                         \
        levels_agree(s, 4, what);                                                                                      \
    }
        SPECIAL(SPECIAL_RUN)
    }
}

/* Numbers below the normal ones are numbers, not zeros. */
static void the_smallest_numbers_stay(void **state) {
    (void)state;
    for (int wide = 0; wide < 2; ++wide) {
        HD_SCOPE;
        const hd_dtype dtype = wide ? HD_F64 : HD_F32;
        const double tiny = wide ? 0x1p-1070 : 0x1p-145;
        hd_builder *b = started("tiny");
        hd_tensor *x = hd_input("x", S(3, 50), dtype), *h = hd_mul_scalar(hd_add(x, x), 0.5);
        hd_builder_add_output(b, "h", h);
        hd_builder_add_output(b, "sum", hd_sum(h, X(1), NULL));
        hd_builder_add_output(b, "max", hd_max(h, X(1), NULL));
        hd_builder_add_output(b, "product", hd_neg(hd_matmul(h, hd_full(S(50, 2), dtype, 2))));
        hd_builder_add_output(b, "is", hd_gt_scalar(h, 0));
        hd_script *s = built(b);
        hd_script_set_input(s, "x", hd_full(S(3, 50), dtype, tiny));
        levels_agree(s, 0, "tiny");
        hd_script_set_optimization_level(s, HD_O2);
        hd_outputs *o = hd_script_run(s);
        assert_same(hd_outputs_get(o, "h"), hd_full(S(3, 50), dtype, tiny));
        assert_same(hd_outputs_get(o, "sum"), hd_full(S(3), dtype, tiny * 50));
        assert_same(hd_outputs_get(o, "product"), hd_full(S(3, 2), dtype, -tiny * 100));
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
/* Programs that make and drop many values of a few sizes, so that memory is handed from one to the next all the time,
 * and kernels write over what they read. Values are whole numbers below 2^20 and ops exact: every output agrees bit for
 * bit. */
static const char *const inputs[] = {"x", "y", "z"};
static hd_script *handing_on(uint64_t seed, int steps) {
    dice d = {seed * 31 + 7};
    hd_builder *b = started("memory");
    hd_tensor *t[12];
    int outputs = 0;
    for (int i = 0; i < 3; ++i) t[i] = hd_input(inputs[i], S(7, 40), HD_F32);
    for (int i = 3; i < 12; ++i) t[i] = t[i % 3];
    for (int i = 0; i < steps; ++i) {
        hd_tensor *p = t[below(&d, 12)], *q = t[below(&d, 12)], *made;
        switch (below(&d, 13)) {
        case 0: made = hd_add(p, q); break;
        case 1: made = hd_sub(p, q); break;
        case 2: made = hd_maximum(p, hd_neg(q)); break;
        case 3: made = hd_where(hd_lt(p, q), p, hd_abs(q)); break;
        case 4: made = hd_roll(p, 3, 1); break; /* calls: what they read and write is in memory */
        case 5: made = hd_concat(LIST(hd_slice(p, 0, 4, 7, 1), hd_slice(q, 0, 0, 4, 1)), 0); break;
        case 6: made = hd_add(hd_sum(p, X(1), KEEP), q); break;
        case 7: made = hd_sub(q, hd_max(p, X(0), KEEP)); break;
        case 8:
            made = hd_add(hd_reshape(hd_t(hd_reshape(p, S(20, 14))), S(7, 40)), q);
            break; /* read in another order */
        case 9: made = hd_add(p, hd_flip(q, X(0))); break;
        case 10:
            made = hd_add(hd_matmul(hd_clamp(p, -1, 1), hd_clamp(hd_reshape(q, S(40, 7)), -2, 2)),
                          hd_slice(q, 1, 0, 7, 1)),
            made = hd_tile(made, S(1, 6)), made = hd_slice(made, 1, 0, 40, 1);
            break;
        case 11: made = hd_cast(hd_cast(p, HD_I32), HD_F32); break;
        default: made = hd_add(hd_select(p, 0, 2), q); break;
        }
        made = hd_clamp(made, -65536, 65536);
        t[below(&d, 12)] = made;
        if (below(&d, 12) == 0 && outputs < MOST_OUTPUTS - 4) {
            char name[16];
            snprintf(name, sizeof name, "o%d", outputs++);
            hd_builder_add_output(b, name, made);
        }
    }
    for (int i = 0; i < 3; ++i) {
        char name[16];
        snprintf(name, sizeof name, "last%d", i);
        hd_builder_add_output(b, name, t[i]);
    }
    return built(b);
}

static void memory_is_handed_on(void **state) {
    (void)state;
    const char *seed = getenv("HODU_SEED");
    for (uint64_t i = seed != NULL ? strtoull(seed, NULL, 10) : sample_first(ONE_IN); i < 300;
         i += sample_step(ONE_IN)) {
        if (seed == NULL && !when_compiled(i, 29)) continue;
        HD_SCOPE;
        char what[32];
        snprintf(what, sizeof what, "program %llu", (unsigned long long)i);
        hd_script *s = handing_on(i, 10 + (int)(i % 90));
        for (int k = 0; k < 3; ++k) {
            dice d = {i * 3 + (uint64_t)k};
            double v[280];
            for (int j = 0; j < 280; ++j) v[j] = below(&d, 201) - 100;
            hd_script_set_input(s, inputs[k], hd_cast(hd_from_data(v, S(7, 40), HD_F64), HD_F32));
        }
        levels_agree(s, 0, what);
        if (seed != NULL) break;
    }
}

static void many_outputs(void **state) {
    (void)state;
    enum { MANY = 300 };
    HD_SCOPE;
    hd_builder *b = started("many");
    hd_tensor *x = hd_input("x", S(33), HD_F32), *y = x;
    for (int i = 0; i < MANY; ++i) {
        char name[16];
        snprintf(name, sizeof name, "o%d", i);
        y = i % 3 == 0 ? hd_add(y, x) : i % 3 == 1 ? hd_neg(y) : hd_add(y, hd_full(S(), HD_F32, 1));
        hd_builder_add_output(b, name, i % 7 == 0 ? hd_slice(y, 0, 3, 20, 1) : y);
        hd_builder_add_output(b, strcat(name, "t"), y); /* twice, under two names */
    }
    hd_script *s = built(b);
    hd_script_set_input(s, "x", hd_ones(S(33), HD_F32));
    hd_outputs *runs[4];
    for (int level = 0; level < 4; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)(HD_O0 + level));
        runs[level] = hd_script_run(s);
    }
    for (int level = 1; level < 4; ++level)
        for (int64_t i = 0; i < 2 * MANY; ++i)
            assert_identical(hd_outputs_at(runs[level], i), hd_outputs_at(runs[0], i));
    hd_fill(hd_outputs_at(runs[2], 1), 7); /* none shares memory with another */
    assert_identical(hd_outputs_at(runs[2], 3), hd_outputs_at(runs[0], 3));
    assert_identical(hd_outputs_at(runs[3], 1), hd_outputs_at(runs[0], 1));
}

/* ---- state ------------------------------------------------------------------------------------------------------- */
/* State that is read by what comes after its new value is known, in every form of kernel. */
static void state_is_read_as_it_was(void **state) {
    (void)state;
    for (int form = 0; form < 5; ++form) {
        HD_SCOPE;
        hd_tensor *w = operand(S(6, 6), 0, HD_F32), *v = operand(S(6, 6), 1, HD_F32),
                  *start[2] = {hd_copy(w), hd_copy(v)};
        hd_builder *b = started("state");
        hd_builder_add_state(b, "w", w);
        hd_builder_add_state(b, "v", v);
        hd_tensor *x = hd_input("x", S(6, 6), HD_F32), *old = hd_copy(w), *was = hd_copy(v);
        hd_assign(w, form == 0   ? hd_add(old, x)
                     : form == 1 ? hd_add(hd_t(old), was)
                     : form == 2 ? hd_softmax(old, 0)
                     : form == 3 ? hd_relu(hd_matmul(old, was))
                                 : hd_roll(old, 1, 0));
        hd_assign(v, form == 4 ? old : hd_add(was, hd_mul(old, hd_t(old)))); /* reads the old w, turned */
        hd_builder_add_output(b, "old", hd_sum(hd_t(old), X(0), NULL));
        hd_builder_add_output(b, "was", hd_matmul(was, old));
        hd_builder_add_output(b, "new", hd_sub(w, old));
        hd_script *s = built(b);
        hd_script_set_input(s, "x", operand(S(6, 6), 2, HD_F32));
        hd_tensor *expected[5];
        for (int level = 0; level < 4; ++level) {
            hd_assign(w, start[0]);
            hd_assign(v, start[1]);
            hd_script_set_optimization_level(s, (hd_optimization_level)(HD_O0 + level));
            hd_script_run(s);
            hd_outputs *o = hd_script_run(s);
            hd_tensor *now[5] = {hd_outputs_at(o, 0), hd_outputs_at(o, 1), hd_outputs_at(o, 2), hd_copy(w), hd_copy(v)};
            for (int i = 0; i < 5; ++i) {
                if (level == 0)
                    expected[i] = now[i];
                else
                    assert_within_units(now[i], expected[i], 8); /* two runs, three ops each */
            }
        }
    }
}

/* An index that is out of range, a division by zero and weights that are none are found in the middle of a run. */
static void a_fault_leaves_state_as_it_was(void **state) {
    (void)state;
    for (int fault = 0; fault < 4; ++fault)
        for (int level = HD_O0; level <= HD_O2; ++level) {
            HD_SCOPE;
            hd_tensor *w = hd_ones(S(4), HD_F32), *v = hd_zeros(S(4), HD_F32);
            hd_builder *b = started("fault");
            hd_builder_add_state(b, "w", w);
            hd_builder_add_state(b, "v", v);
            hd_tensor *x = hd_input("x", S(4), HD_F32);
            hd_add_(w, x);
            hd_tensor *index = hd_cast(x, HD_I64), *bad;
            bad =
                fault == 0 ? hd_cast(hd_index_select(w, 0, index), HD_F32)
                : fault == 1
                    ? hd_cast(hd_floor_divide(hd_full(S(4), HD_I64, 7), hd_sub(index, hd_full(S(), HD_I64, 9))), HD_F32)
                : fault == 2 ? hd_index_select(v, 0, hd_multinomial(hd_sub(hd_full(S(4), HD_F32, 5), x), 4, false))
                             : hd_add(hd_gather(x, 0, index), w);
            hd_builder_add_output(b, "bad", bad);
            hd_assign(v, hd_mul(w, bad));     /* after the fault, and */
            hd_mul_(w, hd_scalar(2, HD_F32)); /* beside it */
            hd_script *s = built(b);
            hd_script_set_optimization_level(s, (hd_optimization_level)level);
            hd_script_set_input(s, "x", hd_full(S(4), HD_F32, 9));
            for (int again = 0; again < 2; ++again) {
                assert_null(hd_script_run(s));
                assert_false(hd_ok());
                hd_error_clear();
                assert_values(w, HD_F32, 1, 1, 1, 1);
                assert_values(v, HD_F32, 0, 0, 0, 0);
            }
            hd_script_set_input(s, "x", hd_full(S(4), HD_F32, 3)); /* and the next run goes well */
            assert_non_null(hd_script_run(s));
            assert_values(w, HD_F32, 8, 8, 8, 8);
        }
}

/* The same where the new state needs nothing but the old one, and could be written over it. */
static void a_fault_beside_the_update_leaves_state_as_it_was(void **state) {
    (void)state;
    for (int fault = 0; fault < 3; ++fault)
        for (int level = HD_O0; level <= HD_O2; ++level) {
            HD_SCOPE;
            hd_tensor *w = hd_ones(S(4), HD_F32);
            hd_builder *b = started("fault");
            hd_builder_add_state(b, "w", w);
            hd_tensor *x = hd_input("x", S(4), HD_F32), *index = hd_cast(x, HD_I64);
            hd_add_(w, hd_full(S(4), HD_F32, 1));
            hd_builder_add_output(b, "bad",
                                  fault == 0   ? hd_index_select(x, 0, index)
                                  : fault == 1 ? hd_floor_divide(index, hd_sub(index, hd_full(S(), HD_I64, 9)))
                                               : hd_multinomial(hd_sub(hd_full(S(4), HD_F32, 5), x), 2, false));
            hd_script *s = built(b);
            hd_script_set_optimization_level(s, (hd_optimization_level)level);
            hd_script_set_input(s, "x", hd_full(S(4), HD_F32, 9));
            assert_null(hd_script_run(s));
            assert_false(hd_ok());
            hd_error_clear();
            assert_values(w, HD_F32, 1, 1, 1, 1);
            hd_script_set_input(s, "x", hd_full(S(4), HD_F32, 3));
            assert_non_null(hd_script_run(s));
            assert_values(w, HD_F32, 2, 2, 2, 2);
        }
}

RUN(test(reductions_over_every_subset_of_axes), test(large_reductions), test(reductions_of_eight_axes),
    test(integers_and_bools_are_reduced_exactly), test(sizes_of_nothing_and_one), test(numbers_that_are_none),
    test(the_smallest_numbers_stay), test(memory_is_handed_on), test(many_outputs), test(state_is_read_as_it_was),
    test(a_fault_leaves_state_as_it_was), test(a_fault_beside_the_update_leaves_state_as_it_was))
