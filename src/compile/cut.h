/* Cutting a graph in two. */
#ifndef HD_COMPILE_CUT_H
#define HD_COMPILE_CUT_H

#include "graph/graph.h"

typedef struct hd_cut {
    hd_graph *forward;  /* the first outputs, then the values that the other part reads: "saved 0", "saved 1", ... */
    hd_graph *backward; /* the other outputs; takes those values as inputs of these names */
    int64_t saved;
} hd_cut;

/* Parts the graph at its inputs from number `inputs` on: what depends on them, with the outputs from number `outputs`
 * on, is the backward graph, the rest the forward graph. Parameters that both read are bound in both. */
hd_error hd_graph_cut(hd_thread *thread, const hd_graph *g, uint32_t inputs, uint32_t outputs, hd_cut *out);

#endif
