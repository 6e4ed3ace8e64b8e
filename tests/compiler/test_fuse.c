/* Fusion: which nodes become one kernel, and which values are ever in memory. Groups are compared as text, one per line
 * in the order they run: the kind, the space with reduced axes in parentheses, the members, a star where one is
 * stored. */
#include "machine/machines.h"
#include "codegen/code.h"
#include "fuse/fuse.h"
#include "fuse/lower.h"
#include "graph/programs.h"

/* ---- graphs and what becomes of them ----------------------------------------------------------------------------- */
/* What a plan fuses: a graph after the passes. */
static hd_graph *simplified(hd_graph *g) {
    if (g == NULL) fail_msg("%s", hd_error_message());
    hd_graph *simple = hd_graph_simplify(hd_thread_self(), g);
    if (simple == NULL) fail_msg("%s", hd_error_message());
    return simple;
}

static void say_groups(const hd_graph *g, const hd_fusion *f, char *out, size_t capacity) {
    static const char *const kinds[] = {"call", "kernel", "product"};
    size_t at = 0;
    out[0] = '\0';
#define SAY(...) (at += at < capacity ? (size_t)snprintf(out + at, capacity - at, __VA_ARGS__) : 0)
    for (uint32_t i = 0; i < f->order_count; ++i) {
        const hd_group *group = &f->groups[f->order[i]];
        SAY("%s [", kinds[group->kind]);
        for (int a = 0; a < group->space.rank; ++a)
            SAY(group->reduced[a] ? "%s(%lld)" : "%s%lld", a > 0 ? "," : "", (long long)group->space.size[a]);
        SAY("]");
        for (uint32_t k = 0; k < group->count; ++k) {
            const uint32_t node = f->members[group->first + k];
            SAY(" %s%s", hd_node_name(&g->nodes[node]), f->stored[node] ? "*" : "");
        }
        SAY("\n");
    }
#undef SAY
}

/* The members of a group that runs; how many there are. */
static uint32_t members_are_sound(const hd_fusion *f, uint32_t index, const char *what) {
    const hd_group *group = &f->groups[index];
    if (group->count < 1 || group->count > 32) fail_msg("%s: a group of %u members", what, group->count);
    if (group->kind == HD_GROUP_CALL && group->count != 1) fail_msg("%s: a call of %u", what, group->count);
    for (uint32_t k = 0; k < group->count; ++k) {
        const uint32_t node = f->members[group->first + k];
        if (f->group_of[node] != index) fail_msg("%s: member %%%u says otherwise", what, node);
        if (k > 0 && node <= f->members[group->first + k - 1]) fail_msg("%s: members out of order", what);
    }
    return group->count;
}

/* That a fusion can be run at all: what a kernel reads is there, and was made before. */
static void is_sound(const hd_graph *g, const hd_fusion *f, const char *what) {
    uint32_t *rank = calloc(f->group_count + 1, sizeof *rank), members = 0;
    bool *whole = calloc(g->node_count + 1, sizeof *whole); /* leaves, or is read by a call */
    for (uint32_t i = 0; i < f->order_count; ++i) {
        const uint32_t with[] = {f->order[i],
                                 f->groups[f->order[i]].prologue}; /* and what it computes as it reads it */
        for (int k = 0; k < 2 && with[k] != HD_NO_GROUP; ++k) {
            if (rank[with[k]] != 0) fail_msg("%s: group %u runs twice", what, with[k]);
            rank[with[k]] = i + 1;
            members += members_are_sound(f, with[k], what);
        }
    }
    for (uint32_t i = 0; i < g->output_count; ++i) whole[f->source[g->outputs[i].node]] = true;
    for (uint32_t i = 0; i < g->cell_count; ++i) whole[f->source[g->cells[i].update]] = true;
    for (uint32_t i = 0; i < g->node_count; ++i)
        if (whole[i] && ((f->recompute[i] > 0 && f->group_of[i] == HD_NO_GROUP) || hd_fusion_is_prologue(f, i)))
            fail_msg("%s: %%%u is nowhere", what, i);
    for (uint32_t i = 0; i < g->node_count; ++i) {
        const uint32_t own = f->group_of[i];
        if (own == HD_NO_GROUP) continue;
        --members;
        if (rank[own] == 0) fail_msg("%s: %%%u is never computed", what, i);
        const bool apart = f->groups[own].kind == HD_GROUP_CALL || hd_node_is_product(hd_cpu_machine(), g, i, NULL);
        for (int k = 0; k < g->nodes[i].input_count; ++k) {
            const uint32_t input = hd_node_inputs(g, i)[k], source = f->source[input], from = f->group_of[source];
            const bool number = f->number[input]; /* but not its bits as those of another */
            if (apart || !number) whole[source] = true;
            if (f->recompute[source] > 0 && from == HD_NO_GROUP && (apart || !hd_fusion_can_recompute(g, f, i, k)))
                fail_msg("%s: %%%u is nowhere, and %%%u cannot compute it", what, source, i);
            if (from == HD_NO_GROUP || (number && !apart)) continue;
            if (from != own && rank[from] > rank[own]) fail_msg("%s: %%%u reads %%%u too early", what, i, source);
            if (from == own && source >= i) fail_msg("%s: %%%u reads %%%u after itself", what, i, source);
            const bool computes = f->groups[own].prologue == from && k == 0 && hd_fusion_is_prologue(f, source);
            if ((from != own || apart) && !f->stored[source] && !computes)
                fail_msg("%s: %%%u is nowhere", what, source);
            if (computes && f->stored[source]) fail_msg("%s: %%%u is in memory, too", what, source);
        }
    }
    assert_int_equal(members, 0);
    for (uint32_t i = 0; i < g->node_count; ++i)
        if (g->nodes[i].op == HD_OP_full && f->stored[i] && !whole[i])
            fail_msg("%s: the number %%%u is in memory for nothing", what, i);
    free(rank);
    free(whole);
}

/* The groups of what a builder recorded. The result is overwritten by the next one. */
static const char *groups_of(hd_builder *b, hd_optimization_level level) {
    static char text[1 << 14];
    hd_builder_end(b);
    hd_graph *g = simplified(hd_builder_graph(b));
    hd_fusion f;
    if (hd_fuse(hd_cpu_machine(), g, level, (hd_fuse_choice){0}, &f) != HD_OK) fail_msg("%s", hd_error_message());
    is_sound(g, &f, "this graph");
    say_groups(g, &f, text, sizeof text);
    hd_fusion_release(&f);
    hd_graph_release(hd_thread_self(), g);
    return text;
}

static hd_tensor *in(const char *name, hd_shape shape) { return hd_input(name, shape, HD_F32); }
static void out(hd_builder *b, const char *name, hd_tensor *t) { hd_builder_add_output(b, name, t); }
#define groups_are(b, ...) assert_string_equal(groups_of(b, HD_O2), __VA_ARGS__)

/* ---- elementwise ------------------------------------------------------------------------------------------------- */
static void a_chain_is_one_kernel(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("chain");
    hd_tensor *x = in("x", S(4, 8));
    out(b, "y", hd_exp(hd_mul(hd_add_scalar(x, 1), x)));
    groups_are(b, "kernel [4,8] add mul exp*\n");
}

static void a_diamond_is_one_kernel_and_its_parts_are_never_stored(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("diamond");
    hd_tensor *h = hd_exp(in("x", S(4, 8))), *left = hd_sin(h), *right = hd_cos(h);
    out(b, "y", hd_add(left, right));
    groups_are(b, "kernel [4,8] exp sin cos add*\n");
}

static void a_kernel_has_as_many_outputs_as_are_wanted(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("many");
    hd_tensor *h = hd_exp(in("x", S(4, 8)));
    out(b, "h", h);
    out(b, "s", hd_sin(h));
    out(b, "c", hd_cos(h));
    groups_are(b, "kernel [4,8] exp* sin* cos*\n");
}

static void what_is_stretched_is_computed_once_and_not_for_every_row(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("stretched");
    hd_tensor *x = in("x", S(4, 8)), *row = hd_exp(in("r", S(8)));
    out(b, "y", hd_add(hd_mul(x, row), in("c", S(4, 1))));
    groups_are(b, "kernel [8] exp*\nkernel [4,8] mul add*\n");
}

static void what_is_read_turned_is_finished_first(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("turned");
    hd_tensor *h = hd_exp(in("x", S(8, 8)));
    out(b, "y", hd_add(h, hd_t(h)));
    groups_are(b, "kernel [8,8] exp*\nkernel [8,8] add*\n");
    hd_builder *c = started("turned input"); /* what is in memory anyway may be read in any order */
    hd_tensor *x = in("x", S(8, 8));
    out(c, "y", hd_add(hd_exp(x), hd_t(x)));
    groups_are(c, "kernel [8,8] exp add*\n");
    hd_builder *d = started("turned twice");
    hd_tensor *k = hd_t(hd_exp(hd_t(in("x", S(8, 4)))));
    out(d, "y", hd_add(k, in("z", S(8, 4))));
    groups_are(d, "kernel [4,8] exp*\nkernel [8,4] add*\n");
}

static void views_that_only_name_axes_do_not_part_a_kernel(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("views");
    hd_tensor *h = hd_exp(in("x", S(4, 8)));
    out(b, "y", hd_sin(hd_reshape(hd_detach(h), S(4, 8))));
    groups_are(b, "kernel [4,8] exp sin*\n");
}

static void other_bits_part_a_kernel(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("bits");
    out(b, "y", hd_add_scalar(hd_bitcast(hd_exp(in("x", S(4))), HD_I32), 1));
    groups_are(b, "kernel [4] exp*\nkernel [4] add*\n");
}

static void integers_are_divided_by_the_device(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("divided"); /* which looks for zeros */
    hd_tensor *x = hd_input("x", S(4), HD_I32), *h = hd_add_scalar(x, 1);
    out(b, "y", hd_neg(hd_floor_divide(h, x)));
    groups_are(b, "kernel [4] add*\ncall [4] floor_divide*\nkernel [4] neg*\n");
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */
static void numbers_are_written_into_kernels(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("numbers");
    hd_tensor *x = in("x", S(4, 8));
    out(b, "y", hd_mul(hd_add(x, hd_full(S(4, 8), HD_F32, 3)), hd_full(S(), HD_F32, 2)));
    groups_are(b, "kernel [4,8] add mul*\n");
}

static void numbers_are_stored_for_those_who_read_memory(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("stored");
    hd_tensor *x = in("x", S(4)), *n = hd_full(S(4), HD_F32, 3);
    out(b, "both", hd_concat(LIST(x, n), 0));
    out(b, "y", hd_mul(x, n));
    groups_are(b, "call [4] full*\ncall [8] concat*\nkernel [4] mul*\n");
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */
static void reductions_join_what_they_reduce_and_what_follows(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *rows = started("rows");
    out(rows, "y", hd_sqrt(hd_sum(hd_square(in("x", S(4, 8))), X(1), NULL)));
    groups_are(rows, "kernel [4,(8)] square sum sqrt*\n");
    hd_builder *columns = started("columns");
    out(columns, "y", hd_sqrt(hd_sum(hd_square(in("x", S(4, 8))), X(0), NULL)));
    groups_are(columns, "kernel [(4),8] square sum sqrt*\n");
    hd_builder *all = started("all");
    out(all, "y", hd_sqrt(hd_sum(hd_square(in("x", S(4, 8))), X(), NULL)));
    groups_are(all, "kernel [(4),(8)] square sum sqrt*\n");
    hd_builder *kept = started("kept");
    hd_tensor *x = in("x", S(4, 8));
    out(kept, "y", hd_div(x, hd_sqrt(hd_sum(hd_square(x), X(0), KEEP))));
    groups_are(kept, "kernel [(4),8] square sum sqrt div*\n");
}

static void reductions_of_the_same_data_are_one_kernel(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("moments");
    hd_tensor *x = in("x", S(4, 8)), *y = in("y", S(4, 8));
    out(b, "sum", hd_sum(x, X(1), NULL));
    out(b, "squares", hd_sum(hd_square(x), X(1), NULL));
    out(b, "least", hd_min(x, X(1), NULL));
    out(b, "with", hd_sum(hd_mul(x, y), X(1), NULL));
    out(b, "down", hd_sum(x, X(0), NULL));
    out(b, "other", hd_max(y, X(1), NULL)); /* y is among what they read by then */
    groups_are(b, "kernel [(4),8] sum*\n"
                  "kernel [4,(8)] sum* square sum* min* mul sum* max*\n");
    b = started("rows"); /* what is stretched is not the data */
    hd_tensor *row = in("row", S(8));
    x = in("x", S(4, 8)), y = in("y", S(4, 8));
    out(b, "a", hd_sum(hd_mul(x, row), X(1), NULL));
    out(b, "b", hd_sum(hd_mul(y, row), X(1), NULL));
    groups_are(b, "kernel [4,(8)] mul sum*\n"
                  "kernel [4,(8)] mul sum*\n");
}

static void reductions_of_other_axes_are_other_kernels(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("both");
    hd_tensor *h = hd_exp(in("x", S(4, 8)));
    out(b, "rows", hd_sum(h, X(1), NULL));
    out(b, "columns", hd_sum(h, X(0), NULL));
    groups_are(b, "kernel [4,(8)] exp* sum*\nkernel [(4),8] sum*\n");
    hd_builder *turned = started("turned");
    out(turned, "y", hd_sum(hd_t(hd_exp(in("x", S(4, 8)))), X(1), NULL));
    groups_are(turned, "kernel [4,8] exp*\nkernel [8,(4)] sum*\n");
}

static void softmax_is_one_kernel(void **state) {
    (void)state;
    for (int axis = 0; axis < 2; ++axis) {
        HD_SCOPE;
        hd_builder *b = started("softmax");
        out(b, "y", hd_softmax(in("x", S(4, 8)), axis));
        groups_are(b, axis == 1 ? "kernel [4,(8)] max sub exp sum div*\n" : "kernel [(4),8] max sub exp sum div*\n");
        hd_builder *c = started("log_softmax");
        out(c, "y", hd_log_softmax(in("x", S(4, 8)), axis));
        groups_are(c, axis == 1 ? "kernel [4,(8)] max sub exp sum log sub*\n"
                                : "kernel [(4),8] max sub exp sum log sub*\n");
    }
}

static void normalising_is_one_kernel(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("normalise");
    hd_tensor *x = in("x", S(4, 8)), *apart = hd_sub(x, hd_mean(x, X(-1), KEEP));
    hd_tensor *scale = hd_rsqrt(hd_add_scalar(hd_mean(hd_square(apart), X(-1), KEEP), 1e-5));
    out(b, "y", hd_add(hd_mul(hd_mul(apart, scale), in("g", S(8))), in("h", S(8))));
    groups_are(b, "kernel [4,(8)] sum div sub square sum div add rsqrt mul mul add*\n");
}

static void cross_entropy_and_its_gradient_are_one_kernel(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(operand(S(4, 8), 0, HD_F32));
    hd_builder *b = started("loss"); /* with probabilities; classes are gathered by the device */
    hd_builder_bind(b, "x", x);
    hd_tensor *loss = hd_sum(hd_mul(in("t", S(4, 8)), hd_log_softmax(x, 1)), X(1), NULL);
    hd_backward(loss);
    out(b, "loss", loss);
    out(b, "gradient", hd_grad(x));
    groups_are(b, "kernel [4,(8)] max sub exp sum log sub mul sum* mul' sub' sum log' exp' add*\n");
}

/* A large reduction to few results is the device's, whose pieces all threads share. */
static void few_results_of_many_are_left_to_the_device(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("large");
    out(b, "y", hd_sqrt(hd_sum(in("x", S(400, 800)), X(), NULL)));
    groups_are(b, "call [] sum*\nkernel [] sqrt*\n");
}

/* ---- indices ----------------------------------------------------------------------------------------------------- */
static void rows_of_a_table_are_loaded_by_what_follows(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("rows");
    hd_tensor *rows = hd_index_select(in("table", S(9, 32)), 0, hd_input("at", S(4), HD_I64));
    out(b, "y", hd_sum(hd_add(hd_mul_scalar(rows, 3), in("x", S(4, 32))), X(1), NULL));
    groups_are(b, "kernel [4,(32)] index_select mul add sum*\n");
    hd_builder *alone = started("alone"); /* nothing is computed of them */
    hd_tensor *picked = hd_index_select(in("table", S(9, 32)), 0, hd_input("at", S(4), HD_I64));
    out(alone, "y", hd_matmul(picked, in("w", S(32, 2))));
    groups_are(alone, "call [4,32] index_select*\nproduct [4,2] matmul*\n");
    hd_builder *single = started("single"); /* elements, not rows */
    hd_tensor *elements = hd_index_select(in("table", S(32, 9)), 1, hd_input("at", S(4), HD_I64));
    out(single, "y", hd_neg(elements));
    groups_are(single, "call [32,4] index_select*\nkernel [32,4] neg*\n");
}

/* ---- state ------------------------------------------------------------------------------------------------------- */
static hd_tensor *row_at(hd_tensor *x, const char *name) {
    hd_tensor *at = hd_broadcast_to(hd_input(name, S(1, 1), HD_I64), S(1, 8));
    return hd_scatter(x, 0, at, hd_full(S(1, 8), HD_F32, 1), HD_SCATTER_SET);
}

static void rows_of_state_are_written_by_the_device_after_the_old_ones_are_read(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *cache = hd_copy(operand(S(4, 8), 0, HD_F32)); /* which need not walk all of it, as a kernel does */
    hd_builder *b = started("row");
    hd_builder_add_state(b, "cache", cache);
    hd_tensor *made = hd_exp(row_at(hd_zeros(S(4, 8), HD_F32), "other")), *old = hd_exp(cache);
    hd_assign(cache, row_at(cache, "at"));
    out(b, "made", made);
    out(b, "old", old);
    groups_are(b, "call [1,8] full*\nkernel [4,8] scatter exp*\nkernel [4,8] exp*\ncall [4,8] scatter*\n");
}

/* ---- products ---------------------------------------------------------------------------------------------------- */
static void what_follows_a_product_is_computed_in_its_tiles(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(8, 16), 0, HD_F32), *bias = operand(S(8), 1, HD_F32);
    hd_builder *b = started("layer");
    out(b, "y", hd_relu(hd_affine(in("x", S(4, 16)), w, bias)));
    groups_are(b, "product [4,8] affine relu*\n");
    hd_builder *residual = started("residual");
    hd_tensor *x = in("x", S(2, 4, 8)), *h = hd_affine(in("z", S(2, 4, 16)), w, bias);
    out(residual, "y", hd_add(hd_gelu(h), x));
    groups_are(residual, "product [2,4,8] affine gelu add*\n");
}

static void what_follows_a_convolution_is_computed_in_its_tiles(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(8, 3, 3, 3), 0, HD_F32), *bias = operand(S(8), 1, HD_F32);
    hd_builder *b = started("layer");
    out(b, "y", hd_relu(hd_conv2d(in("x", S(2, 3, 9, 9)), w, bias, NULL)));
    groups_are(b, "product [2,8,7,7] conv relu*\n");
    hd_builder *norm = started("norm"); /* the product waits for its scale */
    hd_tensor *h = hd_conv2d(in("x", S(2, 3, 9, 9)), w, bias, NULL), *scale = hd_rsqrt(in("v", S(8, 1, 1)));
    out(norm, "y", hd_add(hd_mul(h, scale), in("z", S(2, 8, 7, 7))));
    groups_are(norm, "kernel [8,1,1] rsqrt*\nproduct [2,8,7,7] conv mul add*\n");
}

/* How the one kernel of a graph whose values all lie densely runs. */
static hd_schedule schedule_of(hd_builder *b) {
    hd_builder_end(b);
    hd_graph *g = simplified(hd_builder_graph(b));
    hd_fusion f;
    assert_int_equal(hd_fuse(hd_cpu_machine(), g, HD_O2, (hd_fuse_choice){0}, &f), HD_OK);
    assert_int_equal(f.order_count, 1);
    hd_tensor *headers = calloc(g->node_count, sizeof *headers);
    for (uint32_t i = 0; i < g->node_count; ++i) headers[i] = *hd_empty(hd_node_shape(g, i), HD_F32);
    hd_lowering l;
    hd_lowered lowered;
    assert_int_equal(hd_lowering_begin(&l, g, &f, headers), HD_OK);
    assert_int_equal(hd_lower(&l, &f.groups[f.order[0]], &lowered), HD_OK);
    const hd_schedule schedule = lowered.native.shape.schedule;
    hd_native_release(&lowered.native);
    hd_lowering_end(&l);
    hd_fusion_release(&f);
    hd_graph_release(hd_thread_self(), g);
    free(headers);
    return schedule;
}

/* There are more values of channels than images, and they lie beside each other; but images are what is read. */
static hd_schedule sums_of_channels(int64_t side) {
    hd_builder *b = started("channels");
    hd_tensor *h = in("x", S(4, 24, side, side));
    static const char *const names[] = {"p", "q", "r"};
    for (int i = 0; i < 3; ++i) h = hd_mul(h, in(names[i], S(1, 24, 1, 1)));
    out(b, "y", hd_sum(hd_square(h), HD_AXES(0, 2, 3), HD_OPTS(hd_reduce_opts, .keep_dims = true)));
    return schedule_of(b);
}

static void lanes_lie_along_what_is_read_at_each_point(void **state) {
    (void)state;
    HD_SCOPE;
    const hd_schedule large = sums_of_channels(16), small = sums_of_channels(4), tiny = sums_of_channels(1);
    assert_int_equal(large.form, HD_SCHEDULE_ROWS);
    assert_int_equal(small.form, HD_SCHEDULE_ROWS);
    assert_true(small.width <= 16); /* of 16 pixels in a row */
    assert_true(large.width >= 16);
    assert_int_equal(tiny.form, HD_SCHEDULE_STRIPS); /* of one pixel, channels lie beside each other */
}

/* The text of HODU_DUMP=fusion for what a builder recorded. */
static void fusion_says(hd_builder *b, const char *said) {
    hd_builder_end(b);
    hd_graph *g = simplified(hd_builder_graph(b));
    hd_fusion f;
    assert_int_equal(hd_fuse(hd_cpu_machine(), g, HD_O2, (hd_fuse_choice){0}, &f), HD_OK);
    char *text = hd_fusion_print(g, &f);
    if (text == NULL || strstr(text, said) == NULL) fail_msg("not \"%s\" but:\n%s", said, text);
    hd_array_release(text);
    hd_fusion_release(&f);
    hd_graph_release(hd_thread_self(), g);
}

static void why_a_convolution_stands_alone_is_said(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(3, 3, 3, 3), 0, HD_F32);
    hd_builder *tiles = started("tiles");
    out(tiles, "y", hd_relu(hd_conv2d(in("x", S(2, 3, 9, 9)), w, NULL, NULL)));
    fusion_says(tiles, "relu*; in tiles of channels x pixels\n");
    hd_builder *apart = started("apart");
    out(apart, "y",
        hd_relu(hd_conv_transpose2d(in("x", S(2, 3, 9, 9)), w, NULL, HD_OPTS(hd_conv_opts, .stride = {2, 2}))));
    fusion_says(apart, "conv_transpose*; no tiles: neighbouring pixels");
    hd_builder *small = started("small");
    out(small, "y", hd_relu(hd_conv2d(hd_input("x", S(2, 3, 9, 9), HD_F16), hd_cast(w, HD_F16), NULL, NULL)));
    fusion_says(small, "conv*; no tiles: only convolutions of f32 or f64 have them");
}

static void where_draws_are_made_is_said(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *once = started("once");
    out(once, "y", hd_mul(in("x", S(4, 8)), hd_bernoulli(S(4, 8), HD_F32, 0.5)));
    groups_are(once, "kernel [4,8] mul*\n");
    hd_builder *said = started("said");
    out(said, "y", hd_add(in("x", S(4, 8)), hd_randn(S(4, 8), HD_F32)));
    fusion_says(said, "normal: in the kernels that read it, never in memory\n");
    hd_builder *read = started("read");
    hd_tensor *u = hd_rand(S(4, 4), HD_F32);
    out(read, "y", hd_matmul(u, in("x", S(4, 4))));
    fusion_says(read, "uniform: in memory: an output, or read by a call, or in another order\n");
    hd_builder *dear = started("dear");
    hd_tensor *z = hd_randn(S(4, 4), HD_F32), *x = in("x", S(4, 4));
    out(dear, "y", hd_maximum(hd_matmul(hd_add(x, z), x), z));
    fusion_says(dear, "normal: in memory: an output, or dearer to draw in several kernels than to read\n");
}

static void pieces_are_read_where_they_lie(void **state) {
    (void)state;
    if (!hd_target_reads_some(&hd_cpu_machine()->target, 4)) return;
    HD_SCOPE;
    hd_builder *b = started("pieces");
    out(b, "y", hd_relu(hd_concat(LIST(in("x", S(3, 32)), in("z", S(2, 32))), 0)));
    groups_are(b, "kernel [5,32] concat relu*\n");
    hd_builder *said = started("said");
    out(said, "y", hd_relu(hd_concat(LIST(in("x", S(3, 32)), in("z", S(2, 32))), 0)));
    fusion_says(said, "concat %3 relu*; pieces of %2 read where they lie\n");
    hd_builder *computed = started("computed"); /* is written where it belongs, and not read from elsewhere */
    hd_tensor *e = hd_exp(in("x", S(3, 32)));
    out(computed, "y", hd_relu(hd_concat(LIST(e, hd_neg(e)), 0)));
    groups_are(computed, "kernel [3,32] exp* neg*\ncall [6,32] concat*\nkernel [6,32] relu*\n");
    hd_builder *few = started("few"); /* rows that are too short */
    out(few, "y", hd_relu(hd_concat(LIST(in("x", S(30, 3)), in("z", S(30, 2))), 1)));
    groups_are(few, "call [30,5] concat*\nkernel [30,5] relu*\n");
}

static void what_a_product_reads_is_finished_first(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("read");
    hd_tensor *h = hd_exp(in("x", S(4, 4)));
    out(b, "y", hd_add(h, hd_matmul(h, h)));
    groups_are(b, "kernel [4,4] exp*\nproduct [4,4] matmul add*\n");
    hd_builder *c = started("chain");
    hd_tensor *k = hd_matmul(in("x", S(4, 4)), in("w", S(4, 4)));
    out(c, "y", hd_softmax(k, -1));
    groups_are(c, "product [4,4] matmul*\nkernel [4,(4)] max sub exp sum div*\n");
}

static void adam_follows_the_product_that_is_the_gradient(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(1);
    hd_module *m = hd_linear(16, 8, HD_OPTS(hd_linear_opts, .no_bias = true));
    hd_optimizer *o = hd_adam(hd_module_parameters(m), 0.01, NULL);
    hd_builder *b = started("step");
    hd_builder_add_state_of(b, m, o);
    hd_tensor *loss = hd_mse(hd_forward(m, in("x", S(4, 16))), in("t", S(4, 8)), NULL);
    hd_backward(loss);
    hd_optimizer_step(o);
    out(b, "loss", loss);
    /* the gradient of the weight itself is never in memory */
    const char *groups = groups_of(b, HD_O2);
    if (strstr(groups, "product [8,16] matmul mul mul add* square mul mul add* sqrt mul add div mul sub*\n") == NULL)
        fail_msg("%s", groups);
}

/* ---- levels and limits ------------------------------------------------------------------------------------------- */
static void levels_fuse_more_and_more(void **state) {
    (void)state;
    HD_SCOPE;
    static const char *const expected[] = {
        "call [4,8] exp*\ncall [4,8] neg*\ncall [4] sum*\ncall [4] sqrt*\n",
        "kernel [4,8] exp neg*\ncall [4] sum*\nkernel [4] sqrt*\n",
        "kernel [4,(8)] exp neg sum sqrt*\n",
        "kernel [4,(8)] exp neg sum sqrt*\n",
    };
    for (int level = 0; level < 4; ++level) {
        hd_builder *b = started("levels");
        out(b, "y", hd_sqrt(hd_sum(hd_neg(hd_exp(in("x", S(4, 8)))), X(1), NULL)));
        assert_string_equal(groups_of(b, (hd_optimization_level)(HD_O0 + level)), expected[level]);
    }
}

static void long_chains_are_cut(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("long");
    hd_tensor *x = in("x", S(4, 8));
    for (int i = 0; i < 70; ++i) x = hd_tanh(x);
    out(b, "y", x);
    const char *groups = groups_of(b, HD_O2); /* is_sound looks at their sizes */
    int lines = 0;
    for (const char *c = groups; *c != '\0'; ++c) lines += *c == '\n';
    assert_int_equal(lines, 3);
    hd_builder *wide = started("wide");
    hd_tensor *sum = in("x", S(4, 8));
    for (int i = 0; i < 100; ++i) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        sum = hd_add(sum, in(name, S(4, 8)));
    }
    out(wide, "y", sum);
    groups_of(wide, HD_O2);
    hd_builder *outputs = started("outputs"); /* all members are stored, and read much beside */
    hd_tensor *last = in("x", S(4, 8));
    for (int i = 0; i < 100; ++i) {
        char name[16];
        snprintf(name, sizeof name, "y%d", i);
        out(outputs, name, last = hd_add(last, in(name, S(4, 8))));
    }
    groups_of(outputs, HD_O2);
}

/* ---- any graph --------------------------------------------------------------------------------------------------- */
/* A concatenation with rows that are long enough for a kernel to read it where its pieces lie. */
static hd_tensor *joined(hd_tensor *p, hd_tensor *q) {
    hd_tensor *both = hd_tanh(hd_concat(LIST(hd_reshape(p, S(1, 16)), hd_reshape(q, S(1, 16))), 0));
    return hd_reshape(hd_max(both, X(0), NULL), S(4, 4));
}

/* A graph in which much can be joined, in many ways, only some of which can be run. */
static hd_builder *random_graph(uint64_t seed, int steps) {
    dice d = {seed * 977 + 5};
    hd_builder *b = started("random");
    hd_tensor *t[64] = {in("x", S(4, 4)), in("y", S(4, 1)), in("z", S(4))};
    int count = 3;
    for (int i = 0; i < steps; ++i) {
        hd_tensor *p = t[below(&d, count)], *q = t[below(&d, count)], *made;
        const int rank = hd_tensor_rank(p);
        const hd_shape shape = hd_tensor_shape(p);
        switch (below(&d, 15)) {
        case 0:
        case 1:
        case 2: made = hd_add(p, q); break;
        case 12: made = below(&d, 2) ? hd_rand(shape, HD_F32) : hd_randn(shape, HD_F32); break;
        case 13: made = hd_bernoulli(shape, HD_F32, 0.5); break;
        case 14: made = hd_tensor_count(p) == 16 && hd_tensor_count(q) == 16 ? joined(p, q) : hd_sub(p, q); break;
        case 3: made = hd_mul(p, hd_detach(q)); break;
        case 4: made = hd_tanh(p); break;
        case 5: made = rank > 0 ? hd_sum(p, X(below(&d, rank)), KEEP) : hd_neg(p); break;
        case 6: made = rank > 1 ? hd_max(p, X(below(&d, rank)), NULL) : hd_abs(p); break;
        case 7: made = rank == 2 && hd_tensor_count(p) == 16 ? hd_t(p) : hd_mul_scalar(p, 2); break;
        case 8: made = hd_tensor_count(p) == 16 ? hd_matmul(p, t[0]) : hd_relu(p); break;
        case 9: made = rank > 0 ? hd_softmax(p, 0) : p; break;
        case 10: made = rank > 0 ? hd_roll(p, 1, 0) : hd_exp(p); break;
        default: made = hd_where(hd_lt(p, q), p, hd_full(S(), HD_F32, 0)); break;
        }
        if (made == NULL) fail_msg("%s", hd_error_message());
        if (count < 64)
            t[count++] = made;
        else
            t[3 + below(&d, 61)] = made;
    }
    for (int i = 0; i < count; ++i) {
        char name[16];
        snprintf(name, sizeof name, "o%d", i);
        if (i >= count - 3 || below(&d, 6) == 0) out(b, name, t[i]);
    }
    hd_builder_end(b);
    return b;
}

static void is_fused_soundly(hd_builder *b, const char *what) {
    hd_graph *plain = hd_builder_graph(b), *g = simplified(plain);
    for (int level = HD_O0; level <= HD_O3; ++level)
        for (int which = HD_PROLOGUES_WORTH; which <= HD_PROLOGUES_ALL; ++which) {
            const hd_fuse_choice choice = {.prologues = (uint8_t)which};
            hd_fusion f;
            if (hd_fuse(hd_cpu_machine(), g, (hd_optimization_level)level, choice, &f) != HD_OK)
                fail_msg("%s: %s", what, hd_error_message());
            is_sound(g, &f, what);
            char *text = hd_fusion_print(g, &f);
            assert_non_null(text);
            hd_array_release(text);
            hd_fusion_release(&f);
            if (hd_fuse(hd_cpu_machine(), plain, (hd_optimization_level)level, choice, &f) != HD_OK)
                fail_msg("%s: %s", what, hd_error_message());
            is_sound(plain, &f, what);
            hd_fusion_release(&f);
        }
    hd_graph_release(hd_thread_self(), g);
}

static void random_graphs_can_be_run_in_order(void **state) {
    (void)state;
    for (uint64_t i = sample_first(2); i < 1000; i += sample_step(2)) {
        HD_SCOPE;
        char what[32];
        snprintf(what, sizeof what, "random graph %llu", (unsigned long long)i);
        is_fused_soundly(random_graph(i, 10 + (int)(i % 120)), what);
    }
}

static void random_programs_can_be_run_in_order(void **state) {
    (void)state;
    for (uint64_t i = sample_first(2); i < 300; i += sample_step(2)) {
        HD_SCOPE;
        char what[32];
        snprintf(what, sizeof what, "program %llu", (unsigned long long)i);
        values outside = {.count = 0}, recorded = {.count = 0};
        make_outside(i, &outside);
        is_fused_soundly(record_program(i, 5 + (int)(i % 45), &recorded, &outside), what);
    }
}

/* Work grows with the graph, not with its square: this ends. */
static void large_graphs_are_no_trouble(void **state) {
    (void)state;
    enum { NODES = SANITIZED ? 20000 : 100000 };
    HD_SCOPE;
    hd_builder *chain = started("chain");
    hd_tensor *x = in("x", S(2)), *y = in("y", S(2, 2));
    for (int i = 0; i < NODES; ++i) {
        HD_SCOPE;
        x = hd_keep(i % 3 == 0 ? hd_add(x, x) : hd_tanh(x));
    }
    out(chain, "x", x);
    hd_builder_end(chain);
    is_fused_soundly(chain, "a chain");
    hd_builder *views = started("views"); /* numbers, views, reductions, and one value that all of them read */
    hd_tensor *sum = in("y", S(2, 2));
    y = in("x", S(2, 2));
    for (int i = 0; i < NODES / 4; ++i) {
        HD_SCOPE;
        hd_tensor *row = hd_sum(hd_t(sum), X(0), KEEP);
        sum = hd_keep(hd_add(hd_mul(y, row), i % 2 ? y : hd_t(sum)));
    }
    out(views, "y", sum);
    hd_builder_end(views);
    is_fused_soundly(views, "views");
}

RUN(test(a_chain_is_one_kernel), test(a_diamond_is_one_kernel_and_its_parts_are_never_stored),
    test(a_kernel_has_as_many_outputs_as_are_wanted), test(what_is_stretched_is_computed_once_and_not_for_every_row),
    test(what_is_read_turned_is_finished_first), test(views_that_only_name_axes_do_not_part_a_kernel),
    test(other_bits_part_a_kernel), test(integers_are_divided_by_the_device), test(numbers_are_written_into_kernels),
    test(numbers_are_stored_for_those_who_read_memory), test(reductions_join_what_they_reduce_and_what_follows),
    test(reductions_of_the_same_data_are_one_kernel), test(reductions_of_other_axes_are_other_kernels),
    test(softmax_is_one_kernel), test(normalising_is_one_kernel), test(cross_entropy_and_its_gradient_are_one_kernel),
    test(few_results_of_many_are_left_to_the_device), test(rows_of_a_table_are_loaded_by_what_follows),
    test(rows_of_state_are_written_by_the_device_after_the_old_ones_are_read),
    test(what_follows_a_product_is_computed_in_its_tiles), test(what_follows_a_convolution_is_computed_in_its_tiles),
    test(lanes_lie_along_what_is_read_at_each_point), test(why_a_convolution_stands_alone_is_said),
    test(where_draws_are_made_is_said), test(pieces_are_read_where_they_lie),
    test(what_a_product_reads_is_finished_first), test(adam_follows_the_product_that_is_the_gradient),
    test(levels_fuse_more_and_more), test(long_chains_are_cut), test(random_graphs_can_be_run_in_order),
    test(random_programs_can_be_run_in_order), test(large_graphs_are_no_trouble))
