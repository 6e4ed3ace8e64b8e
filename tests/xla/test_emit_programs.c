/* Random programs of all kinds of ops, views and writes, as StableHLO text run by a plugin, against O0. */
#include "../graph/programs.h"
#include "agree.h"

enum { PROGRAMS = 150 };

/* Against what the program does at once, within the error that it measures on the way. */
static void one_program(uint64_t program) {
    HD_SCOPE;
    const int steps = 5 + (int)(program % 45);
    hd_tensor *results[MOST_RESULTS];
    char what[32];
    values start = {.count = 0}, recorded = {.count = 0}, now = {.count = OUTSIDE, .measured = true};
    make_outside(program, &start);
    snprintf(what, sizeof what, "program %llu", (unsigned long long)program);
    for (int i = 0; i < OUTSIDE; ++i) now.t[i] = hd_copy(start.t[i]);
    hd_script *s = hd_builder_build(record_program(program, steps, &recorded, &start));
    if (s == NULL) fail_msg("%s: %s", what, hd_error_message());
    for (uint32_t i = 0; i < s->graph->node_count;
         ++i) /* normals agree within rounding, of which the analysis knows nothing */
        if (s->graph->nodes[i].op == HD_OP_normal) return;
    hd_script_set_input(s, "x0", start.t[0]);
    hd_script_set_input(s, "x1", start.t[1]);
    hd_seed(program);
    text_results(s, program % 2 == 1, results, what);
    assert_ok();
    hd_tensor *state[2] = {now.t[2], now.t[3]};
    run_program(program, steps, &now);
    assert_ok();
    uint32_t at = 0;
    for (; at < s->graph->output_count; ++at) {
        const char *name = hd_graph_string(s->graph, s->graph->outputs[at].name);
        const int k = atoi(name + 1);
        const char *why = difference_within(results[at], now.t[k], now.error[k]);
        if (why[0] != '\0') fail_msg("%s, %s: %s", what, name, why);
    }
    for (uint32_t i = 0, k = 0; i < s->graph->cell_count; ++i) {
        const hd_graph_cell *c = &s->graph->cells[i];
        if (c->kind == HD_CELL_STATE) ++k;
        if (c->update == c->node) continue;
        const char *why = difference_within(results[at++], state[k - 1], now.error[k + 1]);
        if (why[0] != '\0') fail_msg("%s, state %u: %s", what, k - 1, why);
    }
}

static void programs_agree(void **state) {
    (void)state;
    if (!plugin_ready()) skip();
    const char *seed = getenv("HODU_SEED"); /* runs this one alone */
    const uint64_t first = seed != NULL ? strtoull(seed, NULL, 10) : 0, last = seed != NULL ? first : PROGRAMS;
    for (uint64_t program = first; program <= last; ++program)
        if (seed != NULL || when_slow(program, 4)) one_program(program);
}

RUN(test(programs_agree))
