/* First operands that products compute as they read them: rows of every number at which blocks and strips begin or end,
 * any dtype, broadcasts, batches, weights that are packed and that change. Whatever the size, plans are made to compute
 * all operands that they can; scripts, by rule, those that are worth it. Against O0. */
#include "machine/machines.h"
#include "compiler/levels.h"
#include "compiler/own_cache.h"
#include "plan/plan.h"
#include "core/device.h"
#include "graph/calls.h"
#include "graph/pass.h"

/* Operands are positive, so that nothing cancels: sums of k are rounded otherwise, and what comes before and after
 * once. */
enum { UNITS = 6, MOST_INPUTS = 6, SEVERAL = 5 };

/* ---- plans ------------------------------------------------------------------------------------------------------- */
static hd_plan *plan_of(hd_graph *g, hd_optimization_level level, hd_prologues which) {
    hd_tuning tuning = {.fuse = {.prologues = (uint8_t)which}};
    hd_plan *p = hd_plan_new(hd_thread_self(), g, hd_cpu_machine(), level, level == HD_O0 ? NULL : &tuning, NULL);
    if (p == NULL) fail_msg("%s", hd_error_message());
    return p;
}
static void drop(hd_plan *p) { p->executable.destroy(&p->executable, hd_thread_self()); }

/* The only output of a run, whose state stays as it was. */
static hd_tensor *run(hd_plan *p, hd_tensor **inputs) {
    hd_tensor *out = NULL;
    hd_storage *cells[MOST_INPUTS];
    assert_int_equal(p->graph->output_count, 1);
    for (uint32_t i = 0; i < p->graph->cell_count; ++i) cells[i] = p->graph->cells[i].storage;
    const hd_run run = {.inputs = inputs, .cells = cells, .outputs = &out, .keep_state = true, .seed = 7};
    if (hd_plan_run(&p->executable, hd_thread_self(), &run) != HD_OK) fail_msg("%s", hd_error_message());
    return out;
}

static int prologues_of(const hd_plan *p) {
    int count = 0;
    for (uint32_t i = 0; i < p->call_count; ++i) count += p->calls[i].prologue != HD_NONE;
    return count;
}

static void release(hd_tensor *t) { hd_object_release(hd_thread_self(), &t->object); }

/* That a graph gives what O0 does, with as many prologues as that; the same bits on any number of threads. */
static void agrees(hd_builder *b, hd_tensor **inputs, int prologues, const char *what) {
    hd_builder_end(b);
    hd_graph *g = hd_builder_graph(b), *simple = g == NULL ? NULL : hd_graph_simplify(hd_thread_self(), g);
    if (simple == NULL) fail_msg("%s: %s", what, hd_error_message());
    hd_plan *recorded = plan_of(g, HD_O0, HD_PROLOGUES_NONE), *p = plan_of(simple, HD_O2, HD_PROLOGUES_ALL);
    if (prologues_of(p) != prologues) fail_msg("%s: %d prologues, not %d", what, prologues_of(p), prologues);
    hd_tensor *expected = run(recorded, inputs), *first = NULL;
    const int before = hd_num_threads();
    for (int threads = 1; threads <= SEVERAL; threads += SEVERAL - 1) {
        hd_set_num_threads(threads);
        hd_tensor *y = run(p, inputs);
        const char *why = difference_within(y, expected, units_at_largest(expected, UNITS));
        if (why[0] != '\0') fail_msg("%s on %d threads: %s", what, threads, why);
        if (first != NULL) why = difference(y, first);
        if (why[0] != '\0') fail_msg("%s on %d threads and one: %s", what, threads, why);
        if (first == NULL)
            first = y;
        else
            release(y);
    }
    hd_set_num_threads(before);
    release(first);
    release(expected);
    drop(recorded);
    drop(p);
    hd_graph_release(hd_thread_self(), simple);
}

/* ---- what comes before ------------------------------------------------------------------------------------------- */
/* Of x [..., m, k] and an operand of its own, of a shape that broadcasts to it; the same dtype. */
typedef struct prologue {
    const char *name;
    hd_tensor *(*of)(hd_tensor *x, hd_tensor *other);
    enum { ALIKE, ROW, COLUMN, MASK } other;
} prologue;
static hd_tensor *rectified(hd_tensor *x, hd_tensor *other) {
    (void)other;
    return hd_relu(x);
}
static hd_tensor *scaled(hd_tensor *x, hd_tensor *other) { return hd_add(hd_mul(x, other), other); }
static hd_tensor *summed(hd_tensor *x, hd_tensor *other) { return hd_add(x, other); }
static hd_tensor *masked(hd_tensor *x, hd_tensor *other) {
    return hd_where(other, x, hd_full(S(), hd_tensor_dtype(x), 0));
}
static const prologue prologues[] = {
    {"relu", rectified, ALIKE},        {"sum", summed, ALIKE}, {"scale of columns", scaled, ROW},
    {"scale of rows", scaled, COLUMN}, {"mask", masked, MASK}, {"mask of rows", masked, COLUMN}};
enum { PROLOGUES = (int)(sizeof prologues / sizeof prologues[0]) };

static hd_shape shape_of_other(const prologue *p, hd_shape x) {
    if (p->other == ROW) return S(x.size[x.rank - 1]);
    if (p->other == COLUMN) x.size[x.rank - 1] = 1;
    return x;
}
static bool chooses(const prologue *p) { return p->of == masked; }

/* ---- sizes ------------------------------------------------------------------------------------------------------- */
enum { INPUT, BOUND, CONSTANT, GIVENS };
enum { NOTHING, PLAIN, COMPILED, FOLLOWS };

/* Behind the product: nothing, what the device's own kernels do, what is compiled. */
static hd_tensor *followed(hd_tensor *h, int follows, hd_dtype dtype) {
    if (follows == NOTHING) return h;
    if (follows == PLAIN) return hd_relu(h);
    hd_tensor *twice = hd_add(h, h);
    return hd_dtype_is_float(dtype) ? hd_sqrt(twice) : hd_maximum(twice, hd_full(S(), dtype, 3));
}

/* before(x [a], other) w [k, n], or w turned in an affine. */
static void multiplies(hd_shape a, int64_t n, const prologue *before, int given, int follows, hd_dtype dtype) {
    static uint64_t made;
    if (!when_slow(made++, 7)) return;
    HD_SCOPE;
    char what[128];
    const int64_t k = a.size[a.rank - 1];
    snprintf(what, sizeof what, "%s of %s [%d,%d] x %d, given %d, followed by %d", before->name, hd_dtype_name(dtype),
             (int)a.size[a.rank - 2], (int)k, (int)n, given, follows);
    const hd_shape c = S(k, n), other = shape_of_other(before, a);
    hd_tensor *weight = operand(c, 1, dtype), *extra = operand(other, 2, dtype);
    if (chooses(before)) extra = hd_gt_scalar(extra, 1);
    hd_builder *b = started("prologue");
    if (given == BOUND) hd_builder_bind(b, "w", weight);
    hd_tensor *x = hd_input("x", a, dtype);
    hd_tensor *e = before->of == rectified ? NULL : hd_input("e", other, hd_tensor_dtype(extra));
    hd_tensor *w = given == INPUT ? hd_input("w", c, dtype) : weight, *first = before->of(x, e);
    const bool is_layer = hd_dtype_is_float(dtype) && (a.rank > 2 || n % 2 == 1);
    hd_tensor *h = is_layer ? hd_affine(first, hd_t(w), NULL) : hd_matmul(first, w);
    hd_builder_add_output(b, "y", followed(h, follows, dtype));
    hd_tensor *inputs[MOST_INPUTS];
    int count = 0;
    inputs[count++] = operand(a, 0, dtype);
    if (e != NULL) inputs[count++] = extra;
    if (given == INPUT) inputs[count++] = weight;
    agrees(b, inputs, 1, what);
}

static void products_of_all_sizes(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 7, 31, 33, 64, 200, 1000}, ks[] = {1, 5, 64, 513}, columns[] = {1, 6, 33, 130};
    int turn = 0;
    for (int i = 0; i < 7; ++i)
        for (int j = 0; j < 4; ++j)
            for (int q = 0; q < 4; ++q, ++turn)
                multiplies(S(rows[i], ks[j]), columns[q], &prologues[turn % PROLOGUES], turn / 2 % GIVENS,
                           turn / 3 % FOLLOWS, turn % 5 == 4 ? HD_F64 : HD_F32);
}

static void other_dtypes(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_BF16, HD_F16, HD_I32, HD_I8, HD_I64, HD_F64};
    static const int64_t sizes[][3] = {{33, 64, 33}, {200, 513, 130}, {3, 5, 200}, {1000, 40, 6}, {64, 100, 1}};
    int turn = 0;
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; ++d)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i)
            for (int before = 0; before < PROLOGUES; ++before, ++turn)
                multiplies(S(sizes[i][0], sizes[i][1]), sizes[i][2], &prologues[before], turn % GIVENS,
                           turn / 3 % FOLLOWS, dtypes[d]);
}

/* Large enough for several threads, and for all ways to cut them: wide results, a few rows, many; rows that push each
 * other out of a cache. */
static void large_products(void **state) {
    (void)state;
    static const int64_t large[][3] = {{4, 700, 2000},  {1, 600, 3000},  {2500, 64, 300},  {900, 1024, 40},
                                       {400, 1024, 60}, {700, 300, 400}, {1500, 1100, 17}, {5000, 33, 1}};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; ++i)
        for (int given = 0; given < GIVENS; ++given)
            multiplies(S(large[i][0], large[i][1]), large[i][2], &prologues[(i + (size_t)given) % PROLOGUES], given,
                       (int)(i + (size_t)given) % FOLLOWS, i % 4 == 3 ? HD_BF16 : HD_F32);
}

/* ---- more axes --------------------------------------------------------------------------------------------------- */
static void layers_over_more_axes(void **state) {
    (void)state;
    for (int before = 0; before < PROLOGUES; ++before) {
        multiplies(S(3, 40, 65), 33, &prologues[before], before % GIVENS, before % FOLLOWS, HD_F32);
        multiplies(S(2, 3, 7, 20), 60, &prologues[before], before % GIVENS, before % FOLLOWS, HD_F64);
        multiplies(S(5, 1, 33), 9, &prologues[before], before % GIVENS, before % FOLLOWS, HD_F32);
    }
}

/* x [..., m, k] + e times w [..., k, n]. */
static void batch(hd_shape a, hd_shape e, hd_shape w, int prologue_count, const char *what) {
    HD_SCOPE;
    hd_builder *b = started("batch");
    hd_tensor *x = hd_input("x", a, HD_F32), *first = hd_add(x, hd_input("e", e, HD_F32));
    hd_builder_add_output(b, "y", hd_sigmoid(hd_matmul(first, hd_input("w", w, HD_F32))));
    hd_tensor *inputs[] = {operand(a, 0, HD_F32), operand(e, 1, HD_F32), operand(w, 2, HD_F32)};
    agrees(b, inputs, prologue_count, what);
}

static void batches(void **state) {
    (void)state;
    batch(S(3, 40, 65), S(65), S(3, 65, 33), 1, "a row for all");
    batch(S(3, 40, 65), S(40, 1), S(65, 33), 1, "one matrix for all");
    batch(S(2, 3, 7, 5), S(2, 1, 7, 1), S(3, 5, 9), 1, "stretched over some");
    batch(S(4, 130, 150), S(4, 1, 150), S(4, 150, 140), 1, "large ones");
    batch(S(70, 1, 33), S(70, 1, 1), S(70, 33, 20), 1, "single rows");
    batch(S(40, 65), S(65), S(3, 65, 33), 0, "several matrices for one");
    batch(S(1, 40, 65), S(65), S(3, 65, 33), 0, "several matrices for one, with an axis");
}

/* Axes may be cut or joined on the way, as long as rows stay what they are. */
static void rows_in_other_groups(void **state) {
    (void)state;
    static const struct {
        hd_shape from, to;
        int prologues;
    } views[] = {{{.rank = 3, .size = {4, 30, 64}}, {.rank = 2, .size = {120, 64}}, 1},
                 {{.rank = 2, .size = {120, 64}}, {.rank = 3, .size = {4, 30, 64}}, 1},
                 {{.rank = 2, .size = {120, 64}}, {.rank = 2, .size = {240, 32}}, 0},
                 {{.rank = 1, .size = {64}}, {.rank = 2, .size = {1, 64}}, 0}};
    for (size_t i = 0; i < sizeof views / sizeof views[0]; ++i) {
        HD_SCOPE;
        const hd_shape to = views[i].to, w = S(to.size[to.rank - 1], 50);
        hd_builder *b = started("views");
        hd_tensor *x = hd_input("x", views[i].from, HD_F32), *first = hd_reshape(hd_detach(hd_relu(x)), to);
        hd_builder_add_output(b, "y", hd_matmul(first, hd_input("w", w, HD_F32)));
        hd_tensor *inputs[] = {operand(views[i].from, 0, HD_F32), operand(w, 1, HD_F32)};
        agrees(b, inputs, views[i].prologues, "rows in other groups");
    }
}

/* ---- what is read ------------------------------------------------------------------------------------------------ */
static void draws_and_pieces(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("draws");
    hd_tensor *x = hd_input("x", S(70, 65), HD_F32), *w = hd_input("w", S(65, 90), HD_F32);
    hd_tensor *kept = hd_mul(x, hd_mul_scalar(hd_bernoulli(S(70, 65), HD_F32, 0.75), 4.0 / 3));
    hd_builder_add_output(b, "y", hd_matmul(kept, w));
    hd_tensor *inputs[] = {operand(S(70, 65), 0, HD_F32), operand(S(65, 90), 1, HD_F32)};
    agrees(b, inputs, 1, "a dropout");
    hd_builder *c = started("pieces");
    hd_tensor *one = hd_input("one", S(70, 32), HD_F32), *two = hd_input("two", S(70, 48), HD_F32);
    hd_tensor *both = hd_relu(hd_concat(LIST(one, two), 1));
    hd_builder_add_output(c, "y", hd_matmul(both, hd_input("w", S(80, 90), HD_F32)));
    hd_tensor *pieces[] = {operand(S(70, 32), 0, HD_F32), operand(S(70, 48), 1, HD_F32), operand(S(80, 90), 2, HD_F32)};
    agrees(c, pieces, 1, "pieces");
}

/* The same value before, in the middle and behind the product, and views of it. */
static void operands_that_are_read_again(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("again");
    hd_tensor *x = hd_input("x", S(90, 90), HD_F32);
    hd_builder_add_output(b, "y", hd_add(hd_matmul(hd_relu(x), hd_t(x)), hd_mul(x, hd_t(x))));
    hd_tensor *inputs[] = {operand(S(90, 90), 0, HD_F32)};
    agrees(b, inputs, 1, "one input");
    hd_builder *c = started("turned");
    hd_tensor *t = hd_input("x", S(80, 90), HD_F32), *e = hd_input("e", S(90, 80), HD_F32);
    hd_builder_add_output(c, "y", hd_matmul(hd_add(hd_t(t), e), t)); /* a kernel that reads it turned */
    hd_tensor *turned[] = {operand(S(80, 90), 0, HD_F32), operand(S(90, 80), 1, HD_F32)};
    agrees(c, turned, 1, "a turned operand of the kernel");
}

static void nothing_is_computed_elsewhere(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *inputs[] = {operand(S(64, 64), 0, HD_F32)};
    hd_builder *b = started("second");
    hd_tensor *x = hd_input("x", S(64, 64), HD_F32);
    hd_builder_add_output(b, "y", hd_matmul(x, hd_relu(x)));
    agrees(b, inputs, 0, "a second operand");
    b = started("both");
    x = hd_input("x", S(64, 64), HD_F32);
    hd_tensor *h = hd_relu(x);
    hd_builder_add_output(b, "y", hd_matmul(h, h));
    agrees(b, inputs, 0, "both operands");
    b = started("turned");
    x = hd_input("x", S(64, 64), HD_F32);
    hd_builder_add_output(b, "y", hd_matmul(hd_t(hd_relu(x)), x));
    agrees(b, inputs, 0, "a turned operand");
    b = started("again");
    x = hd_input("x", S(64, 64), HD_F32);
    h = hd_relu(x);
    hd_builder_add_output(b, "y", hd_add(hd_matmul(h, x), h));
    agrees(b, inputs, 0, "one that is read behind the product");
    b = started("rows");
    x = hd_input("x", S(64, 64), HD_F32);
    hd_builder_add_output(b, "y", hd_matmul(hd_softmax(x, 1), x));
    agrees(b, inputs, 0, "one that is reduced");
    b = started("part");
    x = hd_input("x", S(64, 64), HD_F32);
    hd_builder_add_output(b, "y", hd_matmul(hd_slice(hd_relu(x), 1, 0, 32, 1), hd_slice(x, 0, 0, 32, 1)));
    agrees(b, inputs, 0, "a part");
}

/* NaN and infinities are what they are when they come from memory. */
static void special_numbers(void **state) {
    (void)state;
    for (int64_t rows = 3; rows < 400; rows *= 5) {
        HD_SCOPE;
        hd_tensor *a = operand(S(rows, 70), 0, HD_F32);
        float *v = hd_data_mut(a, HD_F32);
        v[0] = NAN;
        v[70] = INFINITY;
        v[rows * 70 - 1] = -INFINITY;
        hd_builder *b = started("special");
        hd_tensor *x = hd_input("x", S(rows, 70), HD_F32);
        hd_builder_add_output(b, "y", hd_matmul(hd_mul_scalar(x, 2), hd_input("w", S(70, 120), HD_F32)));
        hd_tensor *inputs[] = {a, operand(S(70, 120), 1, HD_F32)};
        agrees(b, inputs, 1, "special numbers");
    }
}

/* ---- scripts: by rule -------------------------------------------------------------------------------------------- */
enum { ROWS = 700, WIDE = 520 }; /* more than is left in memory by rule */
enum { ROUNDINGS = 23 };         /* the square root of WIDE: as roundings of a sum add up */

static hd_tensor *tall(int which) { return operand(S(ROWS, WIDE), which, HD_F32); }

static hd_script *layer(bool is_output) {
    HD_SCOPE;
    hd_tensor *w = operand(S(WIDE, 300), 1, HD_F32), *bias = operand(S(300), 2, HD_F32);
    hd_builder *b = started("layer");
    hd_tensor *h = hd_relu(hd_add(hd_input("x", S(ROWS, WIDE), HD_F32), hd_input("e", S(ROWS, WIDE), HD_F32)));
    if (is_output) hd_builder_add_output(b, "h", h);
    hd_builder_add_output(b, "y", hd_relu(hd_add(hd_matmul(h, w), bias)));
    hd_script *s = hd_keep(built(b));
    hd_script_set_input(s, "x", tall(0));
    hd_script_set_input(s, "e", tall(3));
    return s;
}

static void it_is_one_launch_and_takes_no_memory(void **state) {
    (void)state;
    not_on_a_device("products of a device have no prologues");
    HD_SCOPE;
    hd_script *s = layer(false), *other = layer(true);
    levels_agree(s, UNITS, "a layer");
    levels_agree(other, UNITS, "a layer and its operand");
    const hd_script_figures one = hd_script_stats(s), two = hd_script_stats(other);
    assert_int_equal(one.launches, 1);
    assert_int_equal(one.kernels, 1);
    assert_int_equal(one.jobs, 1);
    assert_int_equal(one.arena_bytes, 0);
    assert_int_equal(two.launches, 2);
    assert_true(two.bytes_moved - one.bytes_moved == 2.0 * ROWS * WIDE * 4);
    assert_true(two.operations == one.operations);
    assert_true(hd_script_check(s).relative < 1e-5);
}

/* Profiles name what a launch computes in the order in which it does. */
static void launches_are_named(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("names");
    hd_tensor *x = hd_input("x", S(40, 50), HD_F32), *h = hd_matmul(hd_relu(x), hd_input("w", S(50, 60), HD_F32));
    hd_builder_add_output(b, "y", hd_add(h, hd_input("e", S(60), HD_F32)));
    hd_builder_end(b);
    hd_graph *g = hd_graph_simplify(hd_thread_self(), hd_builder_graph(b));
    hd_plan *p = plan_of(g, HD_O2, HD_PROLOGUES_ALL);
    hd_launch_stats figures;
    assert_int_equal(p->launch_count, 1);
    hd_plan_describe(&p->executable, 0, &figures);
    assert_string_equal(figures.what, "relu matmul add");
    assert_true(figures.bytes == 4.0 * (40 * 50 + 50 * 60 + 60 + 40 * 60));
    assert_true(figures.operations >= 2.0 * 40 * 50 * 60 + 40 * 50);
    drop(p);
    hd_graph_release(hd_thread_self(), g);
}

static void small_operands_stay_in_memory(void **state) {
    (void)state;
    not_on_a_device("products of a device have no prologues");
    HD_SCOPE;
    hd_builder *b = started("small");
    hd_tensor *x = hd_input("x", S(48, 48), HD_F32);
    hd_builder_add_output(b, "y", hd_matmul(hd_relu(x), hd_input("w", S(48, 48), HD_F32)));
    hd_script *s = built(b);
    hd_script_compile(s);
    assert_int_equal(hd_script_stats(s).launches, 2);
    assert_int_equal(hd_script_stats(s).jobs, 1);
}

static const char *fusion_of(hd_builder *b) {
    static char said[4096];
    hd_fusion f;
    hd_builder_end(b);
    hd_graph *g = hd_graph_simplify(hd_thread_self(), hd_builder_graph(b));
    assert_int_equal(hd_fuse(hd_cpu_machine(), g, HD_O2, (hd_fuse_choice){0}, &f), HD_OK);
    char *text = hd_fusion_print(g, &f);
    snprintf(said, sizeof said, "%s", text);
    hd_array_release(text);
    hd_fusion_release(&f);
    hd_graph_release(hd_thread_self(), g);
    return said;
}
#define assert_says(b, what)                                                                                           \
    do {                                                                                                               \
        const char *said_ = fusion_of(b);                                                                              \
        if (strstr(said_, what) == NULL) fail_msg("not \"%s\" but:\n%s", what, said_);                                 \
    } while (0)

static void the_reason_is_said(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("worth it");
    hd_tensor *x = hd_input("x", S(ROWS, WIDE), HD_F32), *w = hd_input("w", S(WIDE, 100), HD_F32);
    hd_builder_add_output(b, "y", hd_sigmoid(hd_matmul(hd_relu(x), w)));
    assert_says(b, " product [700,100] %2 relu %3 matmul %4 sigmoid*; in tiles of rows x columns; "
                   "rows of %2 computed as they are read\n");
    b = started("small");
    x = hd_input("x", S(20, WIDE), HD_F32), w = hd_input("w", S(WIDE, 100), HD_F32);
    hd_builder_add_output(b, "y", hd_matmul(hd_relu(x), w));
    assert_says(b, "matmul*; its first operand in memory: it is small enough to stay in cache\n");
    b = started("dear");
    x = hd_input("x", S(ROWS, WIDE), HD_F32), w = hd_input("w", S(WIDE, 2), HD_F32);
    hd_builder_add_output(b, "y", hd_relu(hd_matmul(hd_gelu(x), w)));
    assert_says(b, "; its first operand in memory: it takes long beside so few columns\n");
    b = started("call");
    x = hd_input("x", S(ROWS, WIDE), HD_F32), w = hd_input("w", S(WIDE, 100), HD_F32);
    hd_builder_add_output(b, "y", hd_matmul(hd_relu(x), w));
    assert_says(b, "matmul*; its first operand in memory: a product alone is quicker as a call");
    b = started("many rows");
    x = hd_input("x", S(50 * ROWS, 64), HD_F32), w = hd_input("w", S(64, 2), HD_F32);
    hd_builder_add_output(b, "y", hd_matmul(hd_gelu(x), w));
    assert_says(b, "rows of %2 computed as they are read\n");
    b = started("short");
    x = hd_input("x", S(100 * ROWS, 8), HD_F32), w = hd_input("w", S(8, 20), HD_F32);
    hd_builder_add_output(b, "y", hd_matmul(hd_relu(x), w));
    assert_says(b, "its rows are short\n");
    b = started("convolution");
    x = hd_input("x", S(8, 16, 64, 64), HD_F32), w = hd_input("w", S(8, 16, 3, 3), HD_F32);
    hd_builder_add_output(b, "y", hd_conv2d(hd_relu(x), w, NULL, NULL));
    assert_says(b, "its first operand in memory: a convolution reads pixels several times\n");
    b = started("table");
    hd_tensor *table = hd_input("x", S(ROWS, WIDE), HD_F32), *at = hd_input("at", S(ROWS), HD_I64);
    w = hd_input("w", S(WIDE, 100), HD_F32);
    hd_builder_add_output(b, "y", hd_matmul(hd_relu(hd_index_select(table, 0, at)), w));
    assert_says(b, "its kernel looks at indices first\n");
    b = started("state");
    hd_tensor *cache = tall(1);
    hd_builder_add_state(b, "cache", cache);
    hd_tensor *before = hd_square(cache);
    hd_assign(cache, hd_index_copy(cache, 0, hd_input("at", S(1), HD_I64), hd_input("row", S(1, WIDE), HD_F32)));
    hd_builder_add_output(b, "y", hd_matmul(before, hd_t(cache)));
    assert_says(b, "it is computed from state of which parts are written before the product\n");
}

/* A chain of layers: between them activations follow the product; what comes first comes before it. */
static void in_a_chain(void **state) {
    (void)state;
    not_on_a_device("products of a device have no prologues");
    HD_SCOPE;
    hd_builder *b = started("chain");
    hd_tensor *x = hd_input("x", S(ROWS, WIDE), HD_F32), *h = x;
    for (int i = 0; i < 3; ++i)
        h = hd_tanh(hd_matmul(hd_mul_scalar(hd_add(h, x), 1e-3), operand(S(WIDE, WIDE), i + 1, HD_F32)));
    hd_builder_add_output(b, "y", h);
    hd_script *s = built(b);
    hd_script_set_input(s, "x", tall(0));
    levels_agree(s, 4 * UNITS, "a chain");
    assert_int_equal(hd_script_stats(s).launches, 3);
}

/* ---- memory that is written again -------------------------------------------------------------------------------- */
enum { SQUARE = SANITIZED ? 700 : 1100 }; /* rows that are computed block by block, while others are finished */

/* The result has the shape of what the operand is computed from, which nobody reads later: it is not written over
 * it. */
static void results_keep_off_what_is_still_read(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("same shape");
    hd_tensor *x = hd_input("x", S(SQUARE, SQUARE), HD_F32), *norm = hd_layer_norm(x, 1, NULL, NULL, 1e-5);
    hd_tensor *h = hd_matmul(hd_square(hd_add(norm, hd_t(norm))), hd_input("w", S(SQUARE, SQUARE), HD_F32));
    hd_builder_add_output(b, "y", hd_roll(hd_relu(h), 1, 0));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", operand(S(SQUARE, SQUARE), 0, HD_F32));
    hd_script_set_input(s, "w", operand(S(SQUARE, SQUARE), 1, HD_F32));
    levels_agree(s, 4 * UNITS, "a result of the same shape");
}

/* State that is read before the product and updated by it: every row sees the old value of all of it. */
static void state_that_is_updated(void **state) {
    (void)state;
    HD_SCOPE;
    const hd_shape square = S(SQUARE, SQUARE);
    hd_tensor *w = operand(square, 1, HD_F32), *twin = hd_copy(w), *x = operand(square, 0, HD_F32);
    hd_builder *b = started("update");
    hd_builder_add_state(b, "w", w);
    hd_tensor *in = hd_input("x", square, HD_F32);
    hd_assign(w, hd_mul_scalar(hd_add(w, hd_matmul(hd_relu(hd_sub(hd_t(w), in)), in)), 1e-3));
    hd_builder_add_output(b, "y", hd_select(in, 0, 0));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", x);
    for (int step = 0; step < (SANITIZED ? 2 : 3); ++step) {
        HD_SCOPE;
        hd_script_run(s);
        assert_ok();
        hd_assign(twin, hd_mul_scalar(hd_add(twin, hd_matmul(hd_relu(hd_sub(hd_t(twin), x)), x)), 1e-3));
        assert_within_units(w, twin, UNITS);
    }
}

/* A part of state is written where it lies, after the product has read all of it. */
static void parts_of_state_that_are_written(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *cache = tall(1), *twin = hd_copy(cache), *v = operand(S(WIDE, 40), 2, HD_F32),
              *row = operand(S(1, WIDE), 3, HD_F32);
    hd_builder *b = started("cache");
    hd_builder_add_state(b, "cache", cache);
    hd_tensor *at = hd_input("at", S(1), HD_I64), *in = hd_input("row", S(1, WIDE), HD_F32);
    hd_builder_add_output(b, "y", hd_matmul(hd_square(cache), v));
    hd_assign(cache, hd_index_copy(cache, 0, at, in));
    hd_script *s = built(b);
    for (int64_t step = 0; step < 4; ++step) {
        HD_SCOPE;
        hd_script_set_input(s, "at", hd_full(S(1), HD_I64, (double)(step * 99)));
        hd_script_set_input(s, "row", row);
        hd_tensor *y = output(s, "y");
        assert_ok();
        assert_within_units(y, hd_matmul(hd_square(twin), v), UNITS);
        hd_assign(hd_slice(twin, 0, step * 99, step * 99 + 1, 1), row);
        assert_identical(cache, twin);
    }
    assert_int_equal(hd_script_stats(s).kernels, 1);
}

/* A product that reads the new state does not keep the old one from being written where it lies. */
static void old_state_with_new(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *cache = tall(1), *twin = hd_copy(cache), *row = operand(S(1, WIDE), 3, HD_F32);
    hd_tensor *at = hd_full(S(1), HD_I64, 17);
    hd_builder *b = started("cache");
    hd_builder_add_state(b, "cache", cache);
    hd_tensor *before = hd_square(cache);
    hd_assign(cache, hd_index_copy(cache, 0, hd_input("at", S(1), HD_I64), hd_input("row", S(1, WIDE), HD_F32)));
    hd_builder_add_output(b, "y", hd_relu(hd_matmul(before, hd_t(cache))));
    hd_script *s = built(b);
    hd_script_set_input(s, "at", at);
    hd_script_set_input(s, "row", row);
    hd_tensor *y = output(s, "y");
    assert_ok();
    assert_within_units(y, hd_matmul(hd_square(twin), hd_t(cache)), UNITS);
    assert_identical(hd_slice(cache, 0, 17, 18, 1), row);
    assert_int_equal(hd_script_stats(s).arena_bytes / (ROWS * WIDE * 4), 1); /* the square, no copy of the state */
}

/* Weights in a script that change between runs are packed anew, whatever comes before. */
static void changed_weights(void **state) {
    (void)state;
    not_on_a_device("products of a device have no prologues");
    HD_SCOPE;
    hd_tensor *w = operand(S(WIDE, 190), 1, HD_F32), *x = tall(0);
    hd_builder *b = started("bound");
    hd_builder_bind(b, "w", w);
    hd_builder_add_output(b, "y", hd_matmul(hd_relu(hd_input("x", S(ROWS, WIDE), HD_F32)), w));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", x);
    for (int step = 0; step < 3; ++step) {
        HD_SCOPE;
        if (step > 0) hd_assign(w, operand(S(WIDE, 190), 4 + step, HD_F32));
        assert_within_units(output(s, "y"), hd_matmul(hd_relu(x), w), UNITS);
    }
    assert_int_equal(hd_script_stats(s).launches, 1);
}

/* Gradients: the derivative of an activation before the product that makes the gradient of a layer's input. */
static void gradients_agree(void **state) {
    (void)state;
    HD_SCOPE;
    HD_GRAD_CONTEXT;
    hd_tensor *x = hd_requires_grad(tall(0)), *w = hd_requires_grad(operand(S(WIDE, 600), 1, HD_F32));
    hd_builder *b = started("gradients");
    hd_builder_bind(b, "x", x);
    hd_builder_bind(b, "w", w);
    hd_tensor *v = hd_input("v", S(600, 3), HD_F32);
    hd_tensor *loss = hd_mean(hd_square(hd_matmul(hd_sigmoid(hd_mul_scalar(hd_matmul(x, w), 1e-3)), v)), X(), NULL);
    hd_tensors *gradients = hd_grad_of(loss, HD_TENSORS(x, w), NULL);
    hd_builder_add_output(b, "x", hd_tensors_get(gradients, 0));
    hd_builder_add_output(b, "w", hd_tensors_get(gradients, 1));
    hd_script *s = built(b);
    hd_script_set_input(s, "v", operand(S(600, 3), 2, HD_F32));
    levels_agree(s, 64, "gradients");
}

/* Tuning may take other blocks along k, or a matrix unit: both sum up in an order of their own, so that the truth is
 * asked. */
static void tuning_gives_the_same(void **state) {
    (void)state;
    not_on_a_device("nothing is tuned there");
    HD_SCOPE;
    hd_script *s = layer(false);
    hd_tensor *h = hd_relu(hd_add(hd_cast(tall(0), HD_F64), hd_cast(tall(3), HD_F64)));
    hd_tensor *w = hd_cast(operand(S(WIDE, 300), 1, HD_F32), HD_F64);
    hd_tensor *bias = hd_cast(operand(S(300), 2, HD_F32), HD_F64);
    hd_tensor *expected = hd_cast(hd_relu(hd_add(hd_matmul(h, w), bias)), HD_F32);
    hd_script_set_optimization_level(s, HD_O3);
    assert_within_units(output(s, "y"), expected, ROUNDINGS);
    assert_true(hd_script_stats(s).alternatives > 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test(products_of_all_sizes),
        test(other_dtypes),
        test(large_products),
        test(layers_over_more_axes),
        test(batches),
        test(rows_in_other_groups),
        test(draws_and_pieces),
        test(operands_that_are_read_again),
        test(nothing_is_computed_elsewhere),
        test(special_numbers),
        test(it_is_one_launch_and_takes_no_memory),
        test(launches_are_named),
        test(small_operands_stay_in_memory),
        test(the_reason_is_said),
        test(in_a_chain),
        test(results_keep_off_what_is_still_read),
        test(state_that_is_updated),
        test(parts_of_state_that_are_written),
        test(old_state_with_new),
        test(changed_weights),
        test(gradients_agree),
        test(tuning_gives_the_same),
    };
    return cmocka_run_group_tests(tests, make_own_cache, remove_own_cache);
}
