/* Ops with several outputs in scripts: whichever of them are read, at every level, and from texts. */
#include "builders.h"
#include "differences.h"
#include "script/script.h"

#define S HD_SHAPE

static hd_tensor *data(void) { return HD_TENSOR_F32(S(2, 5), 3, 1, 4, 1, 5, 9, 2, 6, 5, 3); }

/* What is read of a call: its values, its indices, or both. */
static hd_script *sorts(int which) {
    hd_builder *b = started("sorts");
    hd_tensor *x = hd_input("x", S(2, 5), HD_F32);
    const hd_pair p = hd_sort(hd_mul_scalar(x, 2), 1, true);
    if (which & 1) hd_builder_add_output(b, "values", hd_add_scalar(p.values, 1));
    if (which & 2) hd_builder_add_output(b, "indices", hd_mul_scalar(p.indices, 3));
    if (which & 4) hd_builder_add_output(b, "plain", p.indices);
    return built(b);
}

static void whatever_is_read_of_a_call(void **state) {
    (void)state;
    for (int which = 1; which < 8; ++which)
        for (int level = HD_O0; level <= HD_O3; ++level) {
            HD_SCOPE;
            hd_script *s = sorts(which);
            hd_script_set_optimization_level(s, (hd_optimization_level)level);
            hd_script_set_input(s, "x", data());
            for (int run = 0; run < 2; ++run) {
                hd_outputs *o = hd_script_run(s);
                assert_ok();
                if (which & 1) assert_values(hd_outputs_get(o, "values"), HD_F32, 11, 9, 7, 3, 3, 19, 13, 11, 7, 5);
                if (which & 2) assert_values(hd_outputs_get(o, "indices"), HD_I64, 12, 6, 0, 3, 9, 0, 6, 9, 12, 3);
                if (which & 4) assert_values(hd_outputs_get(o, "plain"), HD_I64, 4, 2, 0, 1, 3, 0, 2, 3, 4, 1);
            }
        }
}

/* A text may name an output twice; O0 computes all it says. */
static void an_output_that_is_named_twice(void **state) {
    (void)state;
    for (int level = HD_O0; level <= HD_O2; ++level) {
        HD_SCOPE;
        hd_script *s = sorts(1);
        hd_graph *recorded = s->graph;
        s->graph =
            hd_graph_parse(hd_thread_self(), "script \"twice\"\n%0 = input \"x\" : f32[2,5]\n"
                                             "%1 = topk %0 {axis = 1, count = 2, largest = true} : f32[2,2]\n"
                                             "%2 = output 1 of %1 : i64[2,2]\n%3 = output 1 of %1 : i64[2,2]\n"
                                             "%4 = add %2, %3 : i64[2,2]\noutput \"a\" = %3\noutput \"b\" = %4\n");
        assert_ok();
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_script_set_input(s, "x", data());
        hd_outputs *o = hd_script_run(s);
        assert_ok();
        assert_values(hd_outputs_get(o, "a"), HD_I64, 4, 2, 0, 2);
        assert_values(hd_outputs_get(o, "b"), HD_I64, 8, 4, 0, 4);
        hd_graph *parsed = s->graph;
        s->graph = recorded;
        hd_graph_release(hd_thread_self(), parsed);
    }
}

/* Equal calls are computed once, and so are their outputs; a call of constants stays one. */
static void passes_keep_outputs_with_their_call(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("twice");
    hd_tensor *x = hd_input("x", S(2, 5), HD_F32), *c = data();
    const hd_pair p = hd_sort(x, 1, false), q = hd_sort(x, 1, false), k = hd_topk(c, 2, 1, true);
    hd_builder_add_output(b, "both", hd_mul(hd_add(p.indices, q.indices), hd_add(p.indices, q.indices)));
    hd_builder_add_output(b, "of constants", hd_add(k.indices, hd_cast(k.values, HD_I64)));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", data());
    hd_outputs *o = hd_script_run(s);
    assert_ok();
    assert_values(hd_outputs_get(o, "both"), HD_I64, 4, 36, 0, 16, 64, 4, 64, 36, 16, 0);
    assert_values(hd_outputs_get(o, "of constants"), HD_I64, 9, 6, 9, 8);
    hd_graph *simple = hd_graph_simplify(hd_thread_self(), s->graph);
    int sorted = 0, outputs = 0;
    for (uint32_t i = 0; i < simple->node_count; ++i) {
        sorted += simple->nodes[i].op == HD_OP_sort;
        outputs += simple->nodes[i].op == HD_NODE_OUTPUT;
    }
    assert_int_equal(sorted, 1);
    assert_int_equal(outputs, 2);
    hd_graph_release(hd_thread_self(), simple);
}

/* The second output of a call that can be updated state. */
static void outputs_may_be_state(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *order = hd_zeros(S(2, 5), HD_I64);
    hd_builder *b = started("state");
    hd_builder_add_state(b, "order", order);
    hd_tensor *x = hd_input("x", S(2, 5), HD_F32);
    hd_assign(order, hd_sort(hd_add(x, hd_cast(order, HD_F32)), 1, false).indices);
    hd_builder_add_output(b, "y", hd_add_scalar(x, 0));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", data());
    hd_script_run(s);
    assert_ok();
    assert_values(order, HD_I64, 1, 3, 0, 2, 4, 1, 4, 3, 2, 0);
}

RUN(test(whatever_is_read_of_a_call), test(an_output_that_is_named_twice), test(passes_keep_outputs_with_their_call),
    test(outputs_may_be_state))
