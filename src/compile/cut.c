/* Cutting a graph in two. */
#include "compile/cut.h"
#include "graph/pass.h"

#include <stdio.h>
#include <string.h>

typedef struct cutting {
    const hd_graph *g;
    uint32_t inputs, outputs; /* how many of the graph's are the forward graph's */
    bool *later;              /* depends on the inputs at which is cut */
    bool *used;               /* some output of the backward part needs it */
    uint32_t *front;          /* the node in the forward graph */
    uint32_t *back;           /* the node in the backward graph */
    hd_cut *out;
} cutting;

static void mark(cutting *c) {
    const hd_graph *g = c->g;
    for (uint32_t i = 0; i < g->node_count; ++i) {
        c->later[i] = g->nodes[i].op == HD_NODE_INPUT && g->nodes[i].first >= c->inputs;
        for (int k = 0; hd_node_is_call(&g->nodes[i]) && k < g->nodes[i].input_count; ++k)
            c->later[i] = c->later[i] || c->later[hd_node_inputs(g, i)[k]];
    }
    for (uint32_t i = c->outputs; i < g->output_count; ++i) c->used[g->outputs[i].node] = true;
    for (uint32_t i = g->node_count; i-- > 0;) {
        c->used[i] = c->used[i] || (c->later[i] && hd_node_has_effects(g, i));
        if (!c->used[i] || !c->later[i] || !hd_node_is_call(&g->nodes[i])) continue; /* what is not later is given */
        for (int k = 0; k < g->nodes[i].input_count; ++k) c->used[hd_node_inputs(g, i)[k]] = true;
    }
}

static uint32_t copy_cell(hd_graph *to, const hd_graph *g, uint32_t i, hd_cell_kind kind) {
    const hd_graph_cell *cell = &g->cells[g->nodes[i].first];
    const hd_shape shape = hd_node_shape(g, i);
    return hd_graph_add_cell(to, hd_graph_string(g, cell->name), kind, cell->storage, (hd_dtype)g->nodes[i].dtype,
                             &shape);
}

static hd_error make_forward(cutting *c) {
    const hd_graph *g = c->g;
    hd_graph *f = c->out->forward;
    f->draws = g->draws;
    for (uint32_t i = 0; i < g->node_count; ++i) {
        const hd_node *n = &g->nodes[i];
        const hd_shape shape = hd_node_shape(g, i);
        if (c->later[i]) continue;
        if (n->op == HD_NODE_INPUT)
            c->front[i] =
                hd_graph_add_input(f, hd_graph_string(g, g->inputs[n->first].name), (hd_dtype)n->dtype, &shape);
        else if (n->op == HD_NODE_CELL)
            c->front[i] = copy_cell(f, g, i, g->cells[n->first].kind);
        else
            c->front[i] = hd_copy_mapped(f, g, i, c->front);
        if (c->front[i] == HD_NO_NODE) return hd_thread_self()->error_code;
    }
    for (uint32_t i = 0, k = 0; i < g->cell_count; ++i) {
        if (c->later[g->cells[i].update]) return hd_fail(HD_ERROR_STATE, "a buffer is updated from a gradient");
        if (c->front[g->cells[i].node] != HD_NO_NODE) f->cells[k++].update = c->front[g->cells[i].update];
    }
    for (uint32_t i = 0; i < c->outputs; ++i)
        HD_TRY(hd_graph_add_output(f, hd_graph_string(g, g->outputs[i].name), c->front[g->outputs[i].node]));
    return HD_OK;
}

/* A value that the forward part made and this one reads. Constants, numbers and parameters are had without saving. */
static hd_error bring_over(cutting *c, uint32_t i) {
    const hd_graph *g = c->g;
    const hd_node *n = &g->nodes[i];
    hd_graph *b = c->out->backward;
    const bool plain = n->op == HD_NODE_CONSTANT || (hd_node_is_op(n) && hd_node_op(n)->family == HD_FAMILY_CREATE);
    if (plain) {
        c->back[i] = hd_copy_mapped(b, g, i, c->back);
    } else if (n->op == HD_NODE_CELL && g->cells[n->first].kind == HD_CELL_BOUND) {
        c->back[i] = copy_cell(b, g, i, HD_CELL_BOUND);
    } else if (hd_node_is_op(n) && hd_node_op(n)->family == HD_FAMILY_VIEW && n->op != HD_OP_as_strided) {
        const uint32_t source = hd_node_inputs(g, i)[0]; /* save what is looked at, not the view */
        if (c->back[source] == HD_NO_NODE) HD_TRY(bring_over(c, source));
        c->back[i] = hd_copy_mapped(b, g, i, c->back);
    } else {
        char name[32];
        const hd_shape shape = hd_node_shape(g, i);
        snprintf(name, sizeof name, "saved %lld", (long long)c->out->saved++);
        HD_TRY(hd_graph_add_output(c->out->forward, name, c->front[i]));
        c->back[i] = hd_graph_add_input(b, name, (hd_dtype)n->dtype, &shape);
    }
    return c->back[i] == HD_NO_NODE ? hd_thread_self()->error_code : HD_OK;
}

static hd_error make_backward(cutting *c) {
    const hd_graph *g = c->g;
    hd_graph *b = c->out->backward;
    for (uint32_t i = c->inputs; i < g->input_count; ++i) {
        const uint32_t seed = g->inputs[i].node;
        const hd_shape shape = hd_node_shape(g, seed);
        c->back[seed] =
            hd_graph_add_input(b, hd_graph_string(g, g->inputs[i].name), (hd_dtype)g->nodes[seed].dtype, &shape);
        if (c->back[seed] == HD_NO_NODE) return hd_thread_self()->error_code;
    }
    for (uint32_t i = 0; i < g->node_count; ++i) {
        if (!c->used[i] || c->back[i] != HD_NO_NODE) continue;
        if (!c->later[i]) {
            HD_TRY(bring_over(c, i));
            continue;
        }
        c->back[i] = hd_copy_mapped(b, g, i, c->back);
        if (c->back[i] == HD_NO_NODE) return hd_thread_self()->error_code;
    }
    for (uint32_t i = c->outputs; i < g->output_count; ++i)
        HD_TRY(hd_graph_add_output(b, hd_graph_string(g, g->outputs[i].name), c->back[g->outputs[i].node]));
    return HD_OK;
}

hd_error hd_graph_cut(hd_thread *thread, const hd_graph *g, uint32_t inputs, uint32_t outputs, hd_cut *out) {
    *out = (hd_cut){0};
    const size_t count = g->node_count + 1;
    cutting c = {.g = g, .inputs = inputs, .outputs = outputs, .out = out};
    c.later = hd_array_resize(NULL, count);
    c.used = hd_array_resize(NULL, count);
    c.front = hd_array_resize(NULL, count * sizeof *c.front);
    c.back = hd_array_resize(NULL, count * sizeof *c.back);
    out->forward = hd_graph_new(thread, "forward");
    out->backward = hd_graph_new(thread, "backward");
    hd_error status = HD_OK;
    if (c.later == NULL || c.used == NULL || c.front == NULL || c.back == NULL || out->forward == NULL ||
        out->backward == NULL)
        status = hd_fail(HD_ERROR_MEMORY, "no memory to cut a graph of %u nodes", g->node_count);
    if (status == HD_OK) {
        memset(c.used, 0, count);
        for (size_t i = 0; i < count; ++i) c.front[i] = c.back[i] = HD_NO_NODE;
        mark(&c);
        status = make_forward(&c);
        if (status == HD_OK) status = make_backward(&c);
    }
    hd_array_release(c.later);
    hd_array_release(c.used);
    hd_array_release(c.front);
    hd_array_release(c.back);
    if (status == HD_OK) return HD_OK;
    hd_graph_release(thread, out->forward);
    hd_graph_release(thread, out->backward);
    return status;
}
