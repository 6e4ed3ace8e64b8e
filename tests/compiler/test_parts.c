/* Concatenations and paddings: what is computed for them is written where it belongs, and nothing is copied. Results
 * are those of O0, bit for bit: here all is movement, negation and doubling. */
#include "compiler/levels.h"
#include "graph/programs.h"

static hd_tensor *in(const char *name, hd_shape shape) { return hd_input(name, shape, HD_F32); }
static hd_tensor *twice(hd_tensor *x) { return hd_add(x, x); }

/* Inputs of 0, 1, 2 ... in the order they were made. */
static void fill_inputs(hd_script *s, int count, const char *const *names, const hd_shape *shapes) {
    for (int i = 0; i < count; ++i) {
        int64_t elements = 1;
        for (int a = 0; a < shapes[i].rank; ++a) elements *= shapes[i].size[a];
        hd_script_set_input(s, names[i], hd_reshape(hd_arange(i, i + (double)elements, 1, HD_F32), shapes[i]));
    }
    assert_ok();
}

static int64_t launches(hd_script *s) {
    hd_script_compile(s);
    assert_ok();
    return hd_script_stats(s).launches;
}

static void computed_parts_are_written_where_they_belong(void **state) {
    (void)state;
    for (int axis = 0; axis < 3; ++axis) {
        HD_SCOPE;
        hd_shape shapes[2] = {S(3, 4, 5), S(3, 4, 5)};
        shapes[1].size[axis] = 7;
        hd_builder *b = started("parts");
        hd_tensor *x = in("x", shapes[0]), *y = in("y", shapes[1]);
        hd_builder_add_output(b, "z", hd_concat(LIST(hd_neg(x), twice(y)), axis));
        hd_script *s = built(b);
        fill_inputs(s, 2, (const char *const[]){"x", "y"}, shapes);
        assert_int_equal(launches(s), 2); /* the kernels */
        assert_int_equal(hd_script_stats(s).arena_bytes, 0);
        levels_agree(s, 0, "computed parts");
    }
}

static void other_parts_are_copied_there(void **state) {
    (void)state;
    HD_SCOPE;
    const hd_shape shapes[2] = {S(3, 4), S(4, 3)};
    hd_builder *b = started("mixed");
    hd_tensor *x = in("x", shapes[0]), *y = in("y", shapes[1]), *both = hd_neg(y), *turned = twice(y);
    hd_tensor *parts[] = {hd_neg(x), x, hd_t(turned), hd_t(both), hd_zeros(S(3, 0), HD_F32), hd_ones(S(3, 2), HD_F32)};
    hd_builder_add_output(b, "z", hd_concat(parts, 6, 1));
    hd_builder_add_output(b, "both", both); /* it leaves by itself, too */
    hd_tensor *again = twice(x);
    hd_builder_add_output(b, "again", hd_concat(LIST(again, again), 0));
    hd_script *s = built(b);
    fill_inputs(s, 2, (const char *const[]){"x", "y"}, shapes);
    levels_agree(s, 0, "mixed parts");
}

static void stacking_is_writing_too(void **state) {
    (void)state;
    for (int axis = 0; axis < 3; ++axis) {
        HD_SCOPE;
        const hd_shape shapes[2] = {S(3, 4), S(3, 4)};
        hd_builder *b = started("stack");
        hd_builder_add_output(b, "z", hd_stack(LIST(hd_neg(in("x", shapes[0])), twice(in("y", shapes[1]))), axis));
        hd_script *s = built(b);
        fill_inputs(s, 2, (const char *const[]){"x", "y"}, shapes);
        assert_int_equal(launches(s), 2);
        levels_agree(s, 0, "a stack");
    }
}

static void a_padding_is_a_border_around_what_is_computed(void **state) {
    (void)state;
    HD_SCOPE;
    const hd_shape shapes[1] = {S(2, 5, 6)};
    hd_builder *b = started("pad");
    hd_tensor *x = hd_neg(in("x", shapes[0]));
    hd_builder_add_output(b, "z", hd_pad(x, (hd_padding[]){{1, 2}, {0, 0}, {3, 1}}, 3, 0.5));
    hd_script *s = built(b);
    fill_inputs(s, 1, (const char *const[]){"x"}, shapes);
    assert_int_equal(launches(s), 2); /* the kernel and the border */
    assert_int_equal(hd_script_stats(s).arena_bytes, 0);
    levels_agree(s, 0, "a padding");
    const float *z = hd_data_f32(output(s, "z"));
    assert_true(z[0] == 0.5f && z[50 + 2] == 0.5f && z[50 + 3] == -0.0f && z[50 + 4] == -1 && z[50 + 9] == 0.5f);
    hd_builder *cuts = started("cut"); /* what is cut off is computed all the same */
    hd_tensor *y = hd_neg(in("x", shapes[0]));
    hd_builder_add_output(cuts, "z", hd_pad(y, (hd_padding[]){{-1, 2}, {1, -3}}, 2, 7));
    hd_builder_add_output(cuts, "nothing", hd_pad(y, (hd_padding[]){{-5, 6}, {4, 3}}, 2, 7));
    hd_script *t = built(cuts);
    fill_inputs(t, 1, (const char *const[]){"x"}, shapes);
    levels_agree(t, 0, "a padding that cuts");
}

static void parts_of_parts_are_written_at_once(void **state) {
    (void)state;
    not_on_a_device("it counts the launches of the CPU");
    HD_SCOPE;
    const hd_shape shapes[2] = {S(3, 4), S(2, 4)};
    hd_builder *b = started("nested");
    hd_tensor *x = in("x", shapes[0]), *y = in("y", shapes[1]);
    hd_tensor *inner = hd_concat(LIST(hd_neg(x), y), 0), *padded = hd_pad(inner, (hd_padding[]){{1, 1}, {2, 0}}, 2, 9);
    hd_builder_add_output(b, "z", hd_concat(LIST(padded, hd_pad(twice(x), (hd_padding[]){{4, 0}, {0, 1}}, 2, 1)), 1));
    hd_script *s = built(b);
    fill_inputs(s, 2, (const char *const[]){"x", "y"}, shapes);
    assert_int_equal(launches(s), 5); /* two kernels, two borders, one part from outside */
    assert_int_equal(hd_script_stats(s).arena_bytes, 0);
    levels_agree(s, 0, "nested parts");
}

/* A window that slides over what comes in: state whose new value is made of its old one. A run that fails changes
 * nothing. */
static void state_can_be_made_of_parts(void **state) {
    (void)state;
    for (int level = HD_O0; level <= HD_O2; ++level) {
        HD_SCOPE;
        hd_tensor *window = hd_copy(hd_reshape(hd_arange(0, 12, 1, HD_F32), S(4, 3)));
        hd_builder *b = started("window");
        hd_builder_add_state(b, "window", window);
        hd_tensor *at = hd_input("i", S(1), HD_I64), *last = hd_index_select(window, 0, at);
        hd_assign(window, hd_concat(LIST(hd_narrow(window, 0, 1, 3), hd_neg(in("x", S(1, 3)))), 0));
        hd_builder_add_output(b, "y", hd_index_select(window, 0, at));
        hd_builder_add_output(b, "last", last);
        hd_script *s = built(b);
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_script_set_input(s, "x", hd_full(S(1, 3), HD_F32, 20));
        hd_script_set_input(s, "i", hd_full(S(1), HD_I64, 4));
        assert_null(hd_script_run(s));
        hd_error_clear();
        assert_true(hd_data_f32(window)[0] == 0 && hd_data_f32(window)[11] == 11);
        hd_script_set_input(s, "i", hd_full(S(1), HD_I64, 3));
        hd_outputs *o = hd_script_run(s);
        assert_ok();
        assert_true(hd_data_f32(hd_outputs_get(o, "last"))[0] == 9 && hd_data_f32(hd_outputs_get(o, "y"))[0] == -20);
        assert_true(hd_data_f32(window)[0] == 3 && hd_data_f32(window)[8] == 11 && hd_data_f32(window)[9] == -20);
    }
}

/* Rows of a few elements, each with a gap behind it, are no way to compute much. */
static void short_rows_are_computed_without_gaps(void **state) {
    (void)state;
    not_on_a_device("it counts the launches of the CPU");
    for (int64_t columns = 3; columns < 200; columns *= 8) {
        HD_SCOPE;
        const hd_shape shapes[2] = {S(500, columns), S(500, 1)};
        hd_builder *b = started("rows");
        hd_tensor *x = in("x", shapes[0]), *y = in("y", shapes[1]);
        hd_builder_add_output(b, "z", hd_concat(LIST(twice(x), y), 1));
        hd_script *s = built(b);
        fill_inputs(s, 2, (const char *const[]){"x", "y"}, shapes);
        hd_script_compile(s);
        assert_int_equal(hd_script_stats(s).arena_bytes > 0, columns < 32);
        levels_agree(s, 0, "rows");
    }
}

/* Movement of all kinds upon each other. */
static void random_movement_is_the_same_at_every_level(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_BF16, HD_I64, HD_U8};
    for (uint64_t seed = 0; seed < 150; ++seed) {
        if (!when_compiled(seed, 23)) continue;
        HD_SCOPE;
        dice d = {seed * 7919 + 3};
        const hd_dtype dtype = dtypes[below(&d, 5)];
        hd_builder *b = started("random");
        hd_tensor *t[40] = {hd_input("x", S(3, 4), dtype), hd_input("y", S(2, 3), dtype)};
        int count = 2;
        while (count < 30) {
            hd_tensor *p = t[below(&d, count)], *q = t[below(&d, count)], *made = NULL;
            const hd_shape a = hd_tensor_shape(p), c = hd_tensor_shape(q);
            const int axis = below(&d, 2);
            const int64_t most = hd_tensor_count(p);
            switch (below(&d, 8)) {
            case 0: made = twice(p); break;
            case 1: made = hd_mul(p, hd_full(S(), dtype, 3)); break;
            case 2:
                if (a.size[1 - axis] == c.size[1 - axis] && most + hd_tensor_count(q) < 400)
                    made = hd_concat(LIST(p, q), axis);
                break;
            case 3:
                if (most < 200)
                    made = hd_pad(p, (hd_padding[]){{below(&d, 3), below(&d, 2)}, {below(&d, 2), below(&d, 3)}}, 2, 2);
                break;
            case 4: made = hd_t(p); break;
            case 5:
                if (a.size[axis] > 2) made = hd_narrow(p, axis, 1, a.size[axis] - 1 - below(&d, 2));
                break;
            case 6:
                if (most < 200) made = hd_concat(LIST(twice(p), p, hd_mul(p, p)), axis);
                break;
            default:
                if (hd_tensor_count(p) == hd_tensor_count(q)) made = hd_add(p, hd_reshape(q, a));
                break;
            }
            if (made != NULL) t[count++] = made;
            if (!hd_ok()) fail_msg("seed %llu: %s", (unsigned long long)seed, hd_error_message());
        }
        for (int i = 2; i < count; ++i) {
            char name[16];
            snprintf(name, sizeof name, "o%d", i);
            if (i >= count - 2 || below(&d, 8) == 0) hd_builder_add_output(b, name, t[i]);
        }
        hd_script *s = built(b);
        hd_script_set_input(s, "x", hd_cast(hd_reshape(hd_arange(1, 13, 1, HD_F32), S(3, 4)), dtype));
        hd_script_set_input(s, "y", hd_cast(hd_reshape(hd_arange(0, 6, 1, HD_F32), S(2, 3)), dtype));
        char what[32];
        snprintf(what, sizeof what, "seed %llu", (unsigned long long)seed);
        levels_agree(s, 0, what);
    }
}

RUN(test(computed_parts_are_written_where_they_belong), test(other_parts_are_copied_there),
    test(stacking_is_writing_too), test(a_padding_is_a_border_around_what_is_computed),
    test(parts_of_parts_are_written_at_once), test(state_can_be_made_of_parts),
    test(short_rows_are_computed_without_gaps), test(random_movement_is_the_same_at_every_level))
