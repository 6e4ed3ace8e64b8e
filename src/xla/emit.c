/* The module: arguments, one node after the other, results. */
#include "xla/emit.h"
#include "core/away.h"
#include "core/memory.h"
#include "core/storage.h"
#include "ops/op.h"
#include "xla/build.h"

#include <string.h>

enum {
    TEXT_BYTES = 128 /* constants up to this are text, larger ones arguments */
};

/* ---- nodes ------------------------------------------------------------------------------------------------------- */
/* A number is written where it is first read. */
hd_ssa hd_hlo_node(hd_hlo *e, uint32_t node) {
    if (!e->defined[node]) {
        e->values[node] = hd_hlo_emit_full(e, node);
        e->defined[node] = true;
    }
    return e->values[node];
}

hd_ssa hd_hlo_input(hd_hlo *e, uint32_t node, int input) { return hd_hlo_node(e, hd_node_inputs(e->g, node)[input]); }

static hd_ssa (*const emits[HD_OP_COUNT])(hd_hlo *e, uint32_t node) = {
#define PRIMITIVE(name, ...) [HD_OP_##name] = hd_hlo_emit_##name,
#include "ops/ops.def"
};

static hd_ssa emit_node(hd_hlo *e, uint32_t node) {
    const uint16_t op = e->g->nodes[node].op;
    if (op == HD_NODE_WRITE) return hd_hlo_emit_write(e, node);
    if (op == HD_NODE_OUTPUT) return e->seconds[hd_node_inputs(e->g, node)[0]];
    return op < HD_OP_ELEMENTWISE_COUNT ? hd_hlo_emit_row(e, node) : emits[op](e, node);
}

/* ---- arguments and results --------------------------------------------------------------------------------------- */
static void add_argument(hd_hlo *e, hd_hlo_argument_kind kind, uint32_t index, uint32_t node, hd_ssa value,
                         int32_t result) {
    e->out->arguments[e->out->argument_count] = (hd_hlo_argument){kind, index, node, result};
    hd_hlo_say(e, "%s%v: %t", e->out->argument_count++ > 0 ? ", " : "", &value, &value);
    if (result >= 0) hd_hlo_say(e, " {tf.aliasing_output = %d : i32}", (int64_t)result);
}

static hd_ssa defined(hd_hlo *e, uint32_t node) {
    const hd_shape shape = hd_node_shape(e->g, node);
    e->defined[node] = true;
    return e->values[node] = hd_hlo_define(e, (hd_dtype)e->g->nodes[node].dtype, &shape);
}

static bool is_text(const hd_graph *g, uint32_t node) { return hd_node_bytes(g, node) <= TEXT_BYTES; }

/* What the text needs before the first op. The result of a cell's update comes after the outputs, in the order of
 * cells. */
static void emit_arguments(hd_hlo *e) {
    const hd_graph *g = e->g;
    for (uint32_t i = 0; i < g->input_count; ++i)
        add_argument(e, HD_HLO_INPUT, i, g->inputs[i].node, defined(e, g->inputs[i].node), -1);
    int32_t result = (int32_t)g->output_count;
    for (uint32_t i = 0; i < g->cell_count; ++i) {
        const hd_graph_cell *c = &g->cells[i];
        const bool updated = c->update != c->node;
        const bool same = g->nodes[c->update].dtype == g->nodes[c->node].dtype &&
                          hd_shape_equal(hd_node_shape(g, c->update), hd_node_shape(g, c->node));
        /* a device's memory is not XLA's; where the bytes of the host's are may change while clones run */
        const bool donated = updated && same && !hd_device_is_away(c->storage->device);
        add_argument(e, HD_HLO_CELL, i, c->node, defined(e, c->node), donated ? result : -1);
        result += updated;
    }
    for (uint32_t i = 0; i < g->node_count; ++i)
        if (g->nodes[i].op == HD_NODE_CONSTANT && !is_text(g, i))
            add_argument(e, HD_HLO_CONSTANT, g->nodes[i].first, i, defined(e, i), -1);
    if (g->draws == 0) return;
    e->seed = hd_hlo_define(e, HD_U64, HD_HLO_SCALAR);
    e->draw = hd_hlo_define(e, HD_U64, HD_HLO_SCALAR);
    add_argument(e, HD_HLO_SEED, 0, HD_NO_NODE, e->seed, -1);
    add_argument(e, HD_HLO_DRAW, 0, HD_NO_NODE, e->draw, -1);
}

static void emit_constant(hd_hlo *e, uint32_t node) {
    const hd_graph *g = e->g;
    const hd_shape shape = hd_node_shape(g, node);
    const void *bytes = hd_storage_bytes(e->thread, g->constants[g->nodes[node].first].storage, HD_READ);
    if (bytes == NULL && hd_node_bytes(g, node) > 0) {
        hd_hlo_fail(e, e->thread->error_code);
        return;
    }
    e->values[node] = hd_hlo_table(e, (hd_dtype)g->nodes[node].dtype, &shape, bytes);
    e->defined[node] = true;
}

static void add_result(hd_hlo *e, hd_ssa *list, hd_hlo_result_kind kind, uint32_t index, uint32_t node, hd_ssa value) {
    list[e->out->result_count] = value;
    e->out->results[e->out->result_count++] = (hd_hlo_result){kind, index, node};
}

static void say_list(hd_hlo *e, const hd_ssa *list, bool types) {
    for (uint32_t i = 0; i < e->out->result_count; ++i)
        hd_hlo_say(e, types ? "%s%t" : "%s%v", i > 0 ? ", " : "", &list[i]);
}

/* A run that fails changes nothing: its cells, which may be donated, come back as they were. */
static hd_ssa updated(hd_hlo *e, const hd_graph_cell *c) {
    const hd_ssa new = hd_hlo_node(e, c->update);
    return e->out->check_count > 0 ? hd_hlo_select(e, e->failed, hd_hlo_node(e, c->node), new) : new;
}

static void emit_body(hd_hlo *e) {
    const hd_graph *g = e->g;
    for (uint32_t i = 0; i < g->node_count && e->status == HD_OK; ++i) {
        const hd_node *n = &g->nodes[i];
        const bool is_call = hd_node_is_call(n) && n->op != HD_OP_full,
                   is_table = n->op == HD_NODE_CONSTANT && is_text(g, i);
        if (is_call || is_table) e->out->text_of[i] = e->into->text.length + 1;
        if (is_table) emit_constant(e, i);
        if (!is_call) continue;
        e->values[i] = emit_node(e, i);
        e->defined[i] = true;
        if (e->status == HD_OK &&
            (e->values[i].dtype != (hd_dtype)n->dtype || !hd_shape_equal(e->values[i].shape, hd_node_shape(g, i)))) {
            const hd_shape shape = hd_node_shape(g, i);
            hd_hlo_fail(e, hd_fail(HD_ERROR_INTERNAL, "%s came out as %s %s instead of %s %s", hd_node_name(n),
                                   hd_dtype_name(e->values[i].dtype), HD_SHAPE_TEXT(e->values[i].shape),
                                   hd_dtype_name((hd_dtype)n->dtype), HD_SHAPE_TEXT(shape)));
        }
    }
}

static hd_error emit_main(hd_hlo *e, hd_ssa *list) {
    const hd_graph *g = e->g;
    hd_hlo_function arguments = {0}, body = {0};
    e->into = &arguments;
    hd_hlo_say(e, "  func.func public @main(");
    emit_arguments(e);
    body.next = arguments.next;
    e->into = &body;
    emit_body(e);
    for (uint32_t i = 0; i < g->output_count && e->status == HD_OK; ++i)
        add_result(e, list, HD_HLO_OUTPUT, i, g->outputs[i].node, hd_hlo_node(e, g->outputs[i].node));
    for (uint32_t i = 0; i < g->cell_count && e->status == HD_OK; ++i)
        if (g->cells[i].update != g->cells[i].node)
            add_result(e, list, HD_HLO_UPDATE, i, g->cells[i].update, updated(e, &g->cells[i]));
    if (e->out->check_count > 0) add_result(e, list, HD_HLO_FAULT, 0, HD_NO_NODE, e->fault);
    hd_hlo_say(e, "    return ");
    say_list(e, list, false);
    hd_hlo_say(e, e->out->result_count > 0 ? " : " : "");
    say_list(e, list, true);
    hd_hlo_say(e, "\n  }\n}\n");
    e->into = &arguments;
    hd_hlo_say(e, ") -> (");
    say_list(e, list, true);
    hd_hlo_say(e, ") {\n");
    hd_text text = {0};
    const hd_text *parts[3] = {&e->functions, &arguments.text, &body.text};
    hd_text_string(&text, "module @hodu attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {\n");
    for (int i = 0; i < 3; ++i) {
        for (uint32_t k = 0; i == 2 && k < g->node_count; ++k) /* counted from 1 until here */
            if (e->out->text_of[k] > 0) e->out->text_of[k] += text.length - 1;
        if (parts[i]->length > 0) hd_text_add(&text, parts[i]->bytes, parts[i]->length);
        if (parts[i]->failed) text.failed = true;
    }
    if (text.failed) hd_hlo_fail(e, hd_fail(HD_ERROR_MEMORY, "no memory for the text of %u nodes", g->node_count));
    e->out->text = text.bytes;
    e->out->bytes = text.length;
    hd_text_release(&arguments.text);
    hd_text_release(&body.text);
    hd_hlo_known_release(&body.numbers);
    return e->status;
}

hd_error hd_stablehlo_emit(hd_thread *thread, const hd_graph *g, hd_stablehlo *out) {
    *out = (hd_stablehlo){0};
    const size_t nodes = (size_t)g->node_count + 1, results = (size_t)g->output_count + g->cell_count + 1;
    hd_hlo e = {.thread = thread, .g = g, .out = out};
    e.values = hd_array_resize(NULL, 2 * nodes * sizeof *e.values);
    e.seconds = e.values == NULL ? NULL : e.values + nodes;
    e.defined = hd_array_resize(NULL, nodes);
    hd_ssa *list = hd_array_resize(NULL, results * sizeof *list);
    out->results = hd_array_resize(NULL, results * sizeof *out->results);
    out->arguments =
        hd_array_resize(NULL, ((size_t)g->input_count + g->cell_count + nodes + 2) * sizeof *out->arguments);
    out->text_of = hd_array_resize(NULL, nodes * sizeof *out->text_of);
    if (e.values == NULL || e.defined == NULL || list == NULL || out->results == NULL || out->arguments == NULL ||
        out->text_of == NULL) {
        e.status = hd_fail(HD_ERROR_MEMORY, "no memory to write %u nodes as StableHLO", g->node_count);
    } else {
        memset(e.defined, 0, nodes);
        memset(out->text_of, 0, nodes * sizeof *out->text_of);
        emit_main(&e, list);
    }
    hd_row_irs_end(&e.rows);
    hd_array_release(e.values);
    hd_array_release(e.defined);
    hd_array_release(list);
    hd_text_release(&e.functions);
    hd_hlo_known_release(&e.written);
    if (e.status != HD_OK) hd_stablehlo_release(out);
    return e.status;
}

void hd_stablehlo_release(hd_stablehlo *s) {
    hd_array_release(s->text);
    hd_array_release(s->arguments);
    hd_array_release(s->results);
    hd_array_release(s->checks);
    hd_array_release(s->text_of);
    *s = (hd_stablehlo){0};
}
