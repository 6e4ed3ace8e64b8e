/* Concatenations and paddings that a kernel reads where their pieces lie: the values of O0, and not one byte beside the
 * pieces, which begin or end at a forbidden page. */
#include "machine/machines.h"
#include "codegen/code.h"
#include "compiler/forbidden.h"
#include "compiler/levels.h"
#include "graph/calls.h"
#include "heap.h"

/* ---- inputs that end where memory does --------------------------------------------------------------------------- */
static void release_guarded(void *data, void *user) {
    (void)data;
    guarded_release(user);
    free(user);
}

static hd_tensor *at_the_edge(hd_shape shape, hd_dtype dtype, bool at_end, int salt) {
    const int64_t count = hd_shape_count(shape);
    guarded *g = malloc(sizeof *g);
    *g = guarded_new((size_t)count * hd_dtype_size(dtype), at_end);
    for (int64_t i = 0; i < count; ++i) {
        const double v = (double)((i * 7 + salt) % 23) - 11;
        hd_element_from_f64(g->data + (size_t)i * hd_dtype_size(dtype), dtype,
                            dtype == HD_BOOL ? (double)(i % 3 == 0)
                            : dtype == HD_U8 ? v + 11
                                             : v);
    }
    hd_tensor *t = hd_from_blob(g->data, shape, dtype, release_guarded, g);
    assert_non_null(t);
    return t;
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */
enum { PIECES = 3 };
typedef struct joint_case {
    const char *name;
    hd_tensor *(*make)(hd_tensor **in);
    int64_t size[PIECES][2];
    int launches; /* 0: as many as it likes */
} joint_case;

static hd_tensor *plain(hd_tensor *y) { return hd_maximum(y, hd_full(S(), hd_tensor_dtype(y), 0)); }
static hd_tensor *rows(hd_tensor **in) { return plain(hd_concat(in, 2, 0)); }
static hd_tensor *columns(hd_tensor **in) { return plain(hd_concat(in, 2, 1)); }
static hd_tensor *three_rows(hd_tensor **in) { return plain(hd_concat(in, 3, 0)); }
static hd_tensor *three_columns(hd_tensor **in) { return plain(hd_concat(in, 3, 1)); }
static hd_tensor *with_number(hd_tensor **in) {
    hd_tensor *nothing = hd_full(hd_tensor_shape(in[1]), hd_tensor_dtype(in[1]), 3);
    return plain(hd_concat(LIST(in[0], nothing, in[1]), 1));
}
static hd_tensor *slices(hd_tensor **in) {
    return plain(hd_concat(LIST(hd_slice(in[0], 0, 1, 4, 1), hd_slice(in[1], 1, 2, 35, 1)), 1));
}
static hd_tensor *turned(hd_tensor **in) { /* a piece that does not lie along the lanes, one that is a number */
    hd_tensor *nothing = hd_full(hd_tensor_shape(in[1]), hd_tensor_dtype(in[1]), 3);
    return plain(hd_concat(LIST(hd_transpose(in[0], 0, 1), nothing, in[1]), 1));
}
static hd_tensor *turned_result(hd_tensor **in) {
    hd_tensor *y = hd_transpose(hd_concat(in, 2, 1), 0, 1);
    return hd_maximum(y, hd_transpose(in[2], 0, 1));
}
static hd_tensor *largest_of_rows(hd_tensor **in) { return hd_max(hd_concat(in, 2, 1), X(1), NULL); }
static hd_tensor *largest_of_columns(hd_tensor **in) { return hd_max(plain(hd_concat(in, 2, 1)), X(0), NULL); }
static hd_tensor *normalised(hd_tensor **in) { /* two walks over what is joined */
    hd_tensor *y = hd_concat(in, 2, 1);
    return hd_maximum(y, hd_max(hd_minimum(y, hd_full(S(), hd_tensor_dtype(y), 5)), X(1), KEEP));
}
static hd_tensor *twice(hd_tensor **in) { return plain(hd_concat(LIST(hd_concat(in, 2, 0), in[2]), 0)); }
static hd_tensor *stored_too(hd_tensor **in) {
    hd_tensor *y = hd_concat(in, 2, 0);
    return hd_maximum(hd_max(plain(y), X(0), KEEP),
                      hd_reshape(y, S(hd_tensor_count(y) / hd_tensor_shape(y).size[1], hd_tensor_shape(y).size[1])));
}
static hd_tensor *padded(hd_tensor **in) { return plain(hd_pad(in[0], (hd_padding[]){{2, 3}, {5, 1}}, 2, 4)); }
static hd_tensor *padded_below(hd_tensor **in) { return plain(hd_pad(in[0], (hd_padding[]){{0, 3}, {0, 0}}, 2, 1)); }
static hd_tensor *cut(hd_tensor **in) { return plain(hd_pad(in[0], (hd_padding[]){{-1, 2}, {3, -2}}, 2, 2)); }
static hd_tensor *padded_with_others(hd_tensor **in) {
    hd_tensor *y = hd_pad(in[0], (hd_padding[]){{1, 1}, {4, 4}}, 2, 0);
    return hd_maximum(y, hd_concat(LIST(in[1], in[2]), 0));
}

static const joint_case cases[] = {
    {"rows", rows, {{3, 17}, {5, 17}}, 1},
    {"one row", rows, {{1, 64}, {1, 64}}, 1},
    {"no rows", rows, {{4, 33}, {0, 33}}, 0},
    {"columns", columns, {{7, 9}, {7, 30}}, 1},
    {"columns of 1", columns, {{7, 1}, {7, 130}}, 1},
    {"long columns", columns, {{3, 1027}, {3, 64}}, 1},
    {"few columns", columns, {{50, 1}, {50, 2}}, 0},
    {"three rows", three_rows, {{3, 40}, {1, 40}, {9, 40}}, 1},
    {"three columns", three_columns, {{5, 31}, {5, 1}, {5, 66}}, 1},
    {"with a number", with_number, {{6, 20}, {6, 35}}, 1},
    {"slices", slices, {{6, 31}, {3, 40}}, 1},
    {"turned", turned, {{20, 6}, {6, 35}}, 0},
    {"turned result", turned_result, {{9, 12}, {9, 21}, {9, 33}}, 0},
    {"largest of rows", largest_of_rows, {{70, 12}, {70, 21}}, 1},
    {"largest of columns", largest_of_columns, {{70, 12}, {70, 80}}, 1},
    {"normalised", normalised, {{33, 100}, {33, 57}}, 1},
    {"twice", twice, {{3, 17}, {5, 17}, {2, 17}}, 0},
    {"stored too", stored_too, {{3, 17}, {5, 17}}, 0},
    {"padded", padded, {{6, 29}}, 1},
    {"padded below", padded_below, {{6, 29}}, 1},
    {"padded nothing", padded, {{0, 29}}, 0},
    {"cut", cut, {{6, 29}}, 1},
    {"padded with others", padded_with_others, {{6, 40}, {3, 48}, {5, 48}}, 1},
    {"many", rows, {{300, 700}, {200, 700}}, 1},
};
enum { CASES = sizeof cases / sizeof *cases };

static void compare_case(const joint_case *c, hd_dtype dtype, bool at_end) {
    HD_SCOPE;
    static const char *const names[PIECES] = {"a", "b", "c"};
    char what[128];
    snprintf(what, sizeof what, "%s of %s, %s a forbidden page", c->name, hd_dtype_name(dtype),
             at_end ? "before" : "behind");
    hd_builder *b = started("joint");
    hd_tensor *in[PIECES];
    for (int i = 0; i < PIECES; ++i) in[i] = hd_input(names[i], S(c->size[i][0], c->size[i][1]), dtype);
    hd_builder_add_output(b, "y", c->make(in));
    hd_script *s = built(b);
    for (int i = 0; i < PIECES; ++i)
        hd_script_set_input(s, names[i], at_the_edge(S(c->size[i][0], c->size[i][1]), dtype, at_end, i * 5));
    levels_agree(s, 0, what);
    if (c->launches == 0 || !hd_target_reads_some(&hd_cpu_machine()->target, (int)hd_dtype_size(dtype))) return;
    if (hd_script_stats(s).launches != c->launches)
        fail_msg("%s takes %lld launches", what, (long long)hd_script_stats(s).launches);
    if (hd_script_stats(s).arena_bytes > 64) fail_msg("%s keeps a copy", what);
}

static void compare_all(uint64_t one_in) {
    static const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_BF16, HD_I32, HD_U8, HD_I64};
    for (int i = 0; i < CASES; ++i)
        for (int d = 0; d < 6; ++d)
            for (int at_end = 0; at_end < 2; ++at_end)
                if (sampled((uint64_t)(i + d + at_end), one_in) &&
                    when_compiled((uint64_t)(i * 12 + d * 2 + at_end), 7))
                    compare_case(&cases[i], dtypes[d], at_end == 1);
}

static void pieces_are_read_where_they_lie(void **state) {
    (void)state;
    for (int threads = 1; threads <= 2; ++threads) {
        hd_set_num_threads(threads);
        compare_all(2);
    }
}

static void the_c_compiler_reads_them_there_too(void **state) {
    (void)state;
    setenv("HODU_RENDERER", "c", 1);
    compare_all(7);
    unsetenv("HODU_RENDERER");
}

/* The new value of state is not written over pieces that are still to be read. */
static void state_can_be_made_of_its_own_pieces(void **state) {
    (void)state;
    for (int level = HD_O0; level <= HD_O2; ++level) {
        HD_SCOPE;
        hd_tensor *t = hd_copy(hd_reshape(hd_arange(0, 6 * 20, 1, HD_F32), S(6, 20)));
        hd_builder *b = started("turn");
        hd_builder_add_state(b, "t", t);
        hd_tensor *first = hd_slice(t, 0, 0, 2, 1), *rest = hd_slice(t, 0, 2, 6, 1);
        hd_assign(t, hd_add_scalar(hd_concat(LIST(rest, first), 0), 1));
        hd_script *s = built(b);
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_script_run(s);
        assert_ok();
        for (int i = 0; i < 6; ++i) assert_true(hd_data_f32(t)[i * 20 + 3] == (float)((i + 2) % 6 * 20 + 4));
        HD_SCOPE;
        hd_tensor *u = hd_copy(hd_reshape(hd_arange(0, 6 * 20, 1, HD_F32), S(6, 20)));
        b = started("shift");
        hd_builder_add_state(b, "u", u);
        hd_assign(u, hd_add_scalar(hd_pad(u, (hd_padding[]){{1, -1}, {0, 0}}, 2, 7), 1));
        s = built(b);
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_script_run(s);
        assert_ok();
        for (int i = 0; i < 6; ++i) assert_true(hd_data_f32(u)[i * 20 + 3] == (float)(i == 0 ? 8 : (i - 1) * 20 + 4));
    }
}

RUN(test(pieces_are_read_where_they_lie), test(the_c_compiler_reads_them_there_too),
    test(state_can_be_made_of_its_own_pieces))
