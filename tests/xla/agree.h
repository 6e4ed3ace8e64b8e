/* A script at O0 and as StableHLO text: outputs, state and errors agree. */
#ifndef HD_TESTS_XLA_AGREE_H
#define HD_TESTS_XLA_AGREE_H

#include "differences.h"
#include "run_text.h"
#include "script/script.h"

enum { MOST_RESULTS = 512 };

/* The text of the script's graph; `simplified`: after the passes. */
typedef struct script_text {
    hd_graph *graph;
    hd_stablehlo hlo;
} script_text;
static inline script_text text_of_script(hd_script *s, bool simplified, const char *what) {
    hd_thread *thread = hd_thread_self();
    script_text t = {.graph = s->graph};
    if (simplified)
        t.graph = hd_graph_simplify(thread, s->graph);
    else
        hd_object_retain(&s->graph->object);
    if (t.graph == NULL || hd_stablehlo_emit(thread, t.graph, &t.hlo) != HD_OK)
        fail_msg("%s: %s", what, hd_error_message());
    assert_in_range(t.hlo.result_count, 0, MOST_RESULTS);
    return t;
}
static inline void release_text(script_text *t) {
    hd_stablehlo_release(&t->hlo);
    hd_graph_release(hd_thread_self(), t->graph);
}

/* Run: results in tensors of the caller's scope. */
static inline uint32_t run_script_text(hd_script *s, const script_text *t, hd_tensor **results, const char *what) {
    hd_thread *thread = hd_thread_self();
    const text_run run = {s->inputs, s->cells, hd_generator_seed(NULL), hd_generator_draw(NULL)};
    run_text(thread, t->graph, &t->hlo, &run, results, what);
    uint32_t count = t->hlo.result_count;
    if (count > 0 && t->hlo.results[count - 1].kind == HD_HLO_FAULT)
        hd_stablehlo_fault(thread, t->graph, &t->hlo, hd_data(results[--count], HD_I64));
    return count;
}
static inline uint32_t text_results(hd_script *s, bool simplified, hd_tensor **results, const char *what) {
    script_text t = text_of_script(s, simplified, what);
    const uint32_t count = run_script_text(s, &t, results, what);
    release_text(&t);
    return count;
}

/* The passes found nothing to do, so that running both would compile the same twice. A constant is not in the text. */
static inline bool same_text(const script_text *a, const script_text *b) {
    if (a->hlo.bytes != b->hlo.bytes || memcmp(a->hlo.text, b->hlo.text, a->hlo.bytes) != 0) return false;
    for (uint32_t i = 0; i < a->hlo.argument_count; ++i)
        if (a->hlo.arguments[i].kind == HD_HLO_CONSTANT) return false;
    return true;
}

/* No further apart than so many units at the largest element of an output, or at `least`. */
static inline void compare_results(hd_tensor *got, hd_tensor *expected, double units, double least, const char *what,
                                   const char *name) {
    const hd_dtype dtype = hd_tensor_dtype(expected);
    const double bound = units * unit_of(dtype) * fmax(least, largest_of(expected));
    const char *why = difference_within(got, expected, bound);
    if (why[0] != '\0') fail_msg("%s, \"%s\" (%s): %s", what, name, hd_dtype_name(dtype), why);
}

static inline void xla_agrees_at(hd_script *s, double units, double least, const char *what) {
    HD_SCOPE;
    hd_tensor *results[2][MOST_RESULTS];
    script_text texts[2] = {text_of_script(s, false, what), text_of_script(s, true, what)};
    const int ways = same_text(&texts[0], &texts[1]) ? 1 : 2;
    uint32_t count = 0;
    for (int simplified = 0; simplified < ways; ++simplified)
        count = run_script_text(s, &texts[simplified], results[simplified], what);
    for (int i = 0; i < 2; ++i) release_text(&texts[i]);
    assert_ok();
    hd_script_set_optimization_level(s, HD_O0);
    hd_outputs *o = hd_script_run(s);
    if (o == NULL) fail_msg("%s at O0: %s", what, hd_error_message());
    for (int simplified = 0; simplified < ways; ++simplified) {
        uint32_t at = 0;
        for (; at < (uint32_t)hd_outputs_count(o); ++at)
            compare_results(results[simplified][at], hd_outputs_at(o, at), units, least, what, hd_outputs_name(o, at));
        for (uint32_t i = 0; i < s->graph->cell_count; ++i) {
            const hd_graph_cell *c = &s->graph->cells[i];
            if (c->update == c->node) continue;
            const hd_dtype dtype = (hd_dtype)s->graph->nodes[c->node].dtype;
            hd_tensor *now = hd_from_data(s->cells[i]->data, hd_node_shape(s->graph, c->node), dtype);
            compare_results(results[simplified][at++], now, units, least, what, hd_graph_string(s->graph, c->name));
        }
        if (simplified == 0) assert_int_equal(at, count);
    }
}
static inline void xla_agrees(hd_script *s, double units, const char *what) { xla_agrees_at(s, units, 0, what); }

#endif
