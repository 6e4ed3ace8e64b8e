/* hd_quantize: a script is run on examples to see how large the operands of its products are, and is then recorded anew
 * by the public ops, with other ops in the place of those products. */
#include <hodu/quantize.h>

#include "core/list.h"
#include "graph/builder.h"
#include "graph/pass.h"
#include "script/script.h"

#include <stdio.h>
#include <string.h>

enum { MOST_ADDED = 1 << 17 }; /* products of 128 by 127 that an i32 holds */

typedef struct quantizing {
    hd_thread *thread;
    const hd_script *script;
    hd_graph *g;
    bool *chosen;    /* of each node: a product that becomes one of integers */
    double *largest; /* of each of these: |x| */
} quantizing;

/* ---- which ------------------------------------------------------------------------------------------------------- */
/* What a value looks at through views, if no run changes that: a constant or a cell; HD_NO_NODE. */
static uint32_t steady_source(const hd_graph *g, uint32_t node) {
    while (hd_node_is_op(&g->nodes[node]) && hd_node_op(&g->nodes[node])->family == HD_FAMILY_VIEW)
        node = hd_node_inputs(g, node)[0];
    const hd_node *n = &g->nodes[node];
    return n->op == HD_NODE_CONSTANT || n->op == HD_NODE_CELL ? node : HD_NO_NODE;
}

static bool is_chosen(const hd_graph *g, uint32_t i) {
    const bool affine = hd_is_op(g, i, HD_OP_affine);
    if ((!affine && !hd_is_op(g, i, HD_OP_matmul)) || g->nodes[i].dtype != HD_F32) return false;
    const uint32_t *in = hd_node_inputs(g, i);
    const hd_shape weight = hd_node_shape(g, in[1]);
    return g->nodes[in[0]].dtype == HD_F32 && g->nodes[in[1]].dtype == HD_F32 && weight.rank == 2 &&
           weight.size[0] > 0 && weight.size[1] > 0 && weight.size[affine ? 1 : 0] <= MOST_ADDED &&
           steady_source(g, in[0]) == HD_NO_NODE && steady_source(g, in[1]) != HD_NO_NODE;
}

static hd_error choose(quantizing *q) {
    const hd_graph *g = q->g;
    bool any = false;
    for (uint32_t i = 0; i < g->cell_count; ++i)
        if (g->cells[i].update != g->cells[i].node)
            return hd_fail(HD_ERROR_STATE, "the script updates \"%s\"; scripts that keep their state can be quantised",
                           hd_graph_string(g, g->cells[i].name));
    if (g->draws > 0) return hd_fail(HD_ERROR_STATE, "the script draws random numbers; record it in evaluation");
    for (uint32_t i = 0; i < g->node_count; ++i) any = (q->chosen[i] = is_chosen(g, i)) || any;
    return any ? HD_OK
               : hd_fail(HD_ERROR_STATE,
                         "the script has no hd_matmul or hd_affine of f32 by a matrix that no run changes");
}

/* ---- how large --------------------------------------------------------------------------------------------------- */
/* The script with the first operands of the chosen products as its outputs. */
static hd_script *watched(quantizing *q) {
    uint32_t *map;
    hd_graph *out = hd_graph_like(q->thread, q->g, &map);
    for (uint32_t i = 0; out != NULL && i < q->g->node_count && q->thread->error_code == HD_OK; ++i) {
        if (map[i] == HD_NO_NODE) map[i] = hd_copy_mapped(out, q->g, i, map);
        if (map[i] != HD_NO_NODE && q->chosen[i]) {
            char name[24];
            snprintf(name, sizeof name, "x%u", i);
            hd_graph_add_output(out, name, map[hd_node_inputs(q->g, i)[0]]);
        }
    }
    hd_array_release(map);
    hd_script *s = q->thread->error_code == HD_OK ? hd_script_over(q->thread, out, false) : NULL;
    hd_graph_release(q->thread, out);
    for (uint32_t i = 0; s != NULL && i < q->g->cell_count; ++i) { /* its state is that of the script */
        hd_object_retain(&q->script->cells[i]->object);
        hd_object_release(q->thread, &s->cells[i]->object);
        s->cells[i] = q->script->cells[i];
    }
    return s;
}

static hd_error see_example(quantizing *q, hd_script *s, const hd_tensors *example, int64_t which) {
    const hd_graph *g = q->g;
    if (example == NULL || example->count != g->input_count)
        return hd_fail(HD_ERROR_VALUE, "example %lld has %lld tensors; the script has %u inputs", (long long)which,
                       example == NULL ? 0LL : (long long)example->count, g->input_count);
    for (uint32_t i = 0; i < g->input_count; ++i)
        hd_script_put_input(q->thread, s, hd_graph_string(g, g->inputs[i].name), example->items[i]);
    HD_TRY(q->thread->error_code);
    hd_outputs *seen = hd_script_run_taken(q->thread, s);
    int64_t at = 0;
    for (uint32_t i = 0; i < g->node_count && seen != NULL; ++i) {
        if (!q->chosen[i]) continue;
        hd_tensor *x = hd_outputs_at(seen, at++);
        if (x == NULL || x->count == 0) continue;
        const double largest = hd_item(hd_max(hd_abs(x), HD_AXES(), NULL));
        HD_TRY(q->thread->error_code);
        if (!(largest <= 3.4e38))
            return hd_fail(HD_ERROR_VALUE, "example %lld gives %g to node %%%u, %s", (long long)which, largest, i,
                           hd_node_name(&g->nodes[i]));
        if (largest > q->largest[i]) q->largest[i] = largest;
    }
    return q->thread->error_code;
}

static hd_error see_all(quantizing *q, hd_tensors *const *examples, int64_t count) {
    HD_SCOPE;
    hd_script *s = watched(q);
    for (int64_t k = 0; k < count && s != NULL && q->thread->error_code == HD_OK; ++k) {
        HD_SCOPE;
        HD_TRY(see_example(q, s, examples[k], k));
    }
    return q->thread->error_code;
}

/* ---- the same, in integers --------------------------------------------------------------------------------------- */
static double step_of(double largest) { return largest > 0 ? largest / 127 : 1; }

/* x / s as whole numbers from `least` to 127. */
static hd_tensor *whole(hd_tensor *over, double least) { return hd_cast(hd_clamp(hd_round(over), least, 127), HD_I8); }

/* [n, k] in i8, and the step of each of its rows: [n]. */
static hd_tensor *quantized_rows(hd_tensor *rows, hd_tensor **steps) {
    hd_tensor *most = hd_max(hd_abs(rows), HD_AXES(1), HD_OPTS(hd_reduce_opts, .keep_dims = true));
    hd_tensor *step = hd_where_scalar(hd_gt_scalar(most, 0), hd_div_scalar(most, 127), 1);
    *steps = hd_reshape(step, HD_SHAPE(-1));
    return whole(hd_div(rows, step), -127);
}

static hd_tensor *integer_product(const quantizing *q, uint32_t node, hd_tensor *const *in) {
    const bool affine = hd_is_op(q->g, node, HD_OP_affine);
    const hd_matmul_attributes *a = affine ? NULL : hd_node_attributes(q->g, node);
    const double step = step_of(q->largest[node]);
    hd_tensor *x = a != NULL && a->transpose_a ? hd_t(in[0]) : in[0], *weight, *scale;
    const bool is_turned = affine || (a != NULL && a->transpose_b); /* [n, k] already */
    {
        HD_EAGER;
        weight = quantized_rows(hd_contiguous(is_turned ? in[1] : hd_t(in[1])), &scale);
        scale = hd_mul_scalar(scale, step);
    }
    hd_tensor *sums = hd_matmul(hd_cast(whole(hd_div_scalar(x, step), -128), HD_I32), hd_t(hd_cast(weight, HD_I32)));
    hd_tensor *y = hd_mul(hd_cast(sums, HD_F32), scale);
    return affine && q->g->nodes[node].input_count > 2 ? hd_add(y, in[2]) : y;
}

/* A value from outside: its bytes as they are now. */
static hd_tensor *constant(const quantizing *q, uint32_t node) {
    const hd_node *n = &q->g->nodes[node];
    hd_storage *s = n->op == HD_NODE_CONSTANT ? q->g->constants[n->first].storage : q->script->cells[n->first];
    const hd_shape shape = hd_node_shape(q->g, node);
    hd_layout layout;
    hd_layout_contiguous(&layout, &shape);
    return hd_tensor_give(q->thread, hd_tensor_over(q->thread, s, (hd_dtype)n->dtype, &layout));
}

/* Views of what no run changes are made at once: weights are read through them. */
static hd_tensor *made_at_once(const quantizing *q, uint32_t i, hd_tensor *const *in) {
    HD_EAGER;
    return hd_replay_node(q->thread, q->g, i, in, NULL);
}

/* `values` of each node; `seconds`, of those that have another output. */
static hd_error record(const quantizing *q, hd_builder *b, hd_tensor **values, hd_tensor **seconds) {
    const hd_graph *g = q->g;
    for (uint32_t i = 0; i < g->node_count && q->thread->error_code == HD_OK; ++i) {
        const hd_node *n = &g->nodes[i];
        hd_tensor *in[HD_MAX_INPUTS];
        for (int k = 0; hd_node_is_call(n) && k < n->input_count; ++k) in[k] = values[hd_node_inputs(g, i)[k]];
        if (n->op == HD_NODE_INPUT)
            values[i] = hd_input(hd_graph_string(g, g->inputs[n->first].name), hd_node_shape(g, i), (hd_dtype)n->dtype);
        else if (n->op == HD_NODE_CONSTANT || n->op == HD_NODE_CELL)
            values[i] = constant(q, i);
        else if (n->op == HD_NODE_OUTPUT)
            values[i] = seconds[hd_node_inputs(g, i)[0]];
        else if (q->chosen[i])
            values[i] = integer_product(q, i, in);
        else if (steady_source(g, i) != HD_NO_NODE)
            values[i] = made_at_once(q, i, in);
        else
            values[i] = hd_replay_node(q->thread, g, i, in, &seconds[i]);
    }
    for (uint32_t i = 0; i < g->output_count && q->thread->error_code == HD_OK; ++i)
        hd_builder_add_output(b, hd_graph_string(g, g->outputs[i].name), values[g->outputs[i].node]);
    return q->thread->error_code;
}

static hd_script *rebuild(const quantizing *q) {
    hd_tensor **values = hd_array_resize(NULL, ((size_t)q->g->node_count + 1) * 2 * sizeof *values);
    if (values == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for %u nodes", q->g->node_count), NULL;
    hd_observer *observer = q->thread->observer;
    q->thread->observer = NULL;
    hd_builder *b = hd_builder_new(hd_graph_string(q->g, q->g->name));
    hd_builder_start(b);
    if (q->thread->error_code == HD_OK) record(q, b, values, values + q->g->node_count);
    hd_builder_end(b);
    hd_script *s = q->thread->error_code == HD_OK ? hd_builder_build(b) : NULL;
    q->thread->observer = observer;
    hd_array_release(values);
    return s;
}

hd_script *hd_quantize(hd_script *script, hd_tensors *const *examples, int64_t count) {
    HD_ENTER("hd_quantize", NULL);
    HD_TRY_OR(hd_script_check_argument(script), NULL);
    HD_TRY_OR(hd_script_check_eager(thread), NULL);
    if (examples == NULL || count < 1) {
        hd_fail(examples == NULL ? HD_ERROR_NULL_ARGUMENT : HD_ERROR_VALUE,
                examples == NULL ? "`examples` is NULL" : "%lld examples; it takes some, to see how large values are",
                (long long)count);
        return NULL;
    }
    HD_USE(&script->object, false, NULL);
    HD_KEEP_NAME(thread);
    hd_scope_token scope = hd_scope_within(thread, &scope);
    quantizing q = {.thread = thread, .script = script, .g = script->graph};
    q.chosen = hd_array_resize(NULL, (size_t)q.g->node_count + 1);
    q.largest = hd_array_resize(NULL, ((size_t)q.g->node_count + 1) * sizeof *q.largest);
    hd_script *s = NULL;
    if (q.chosen == NULL || q.largest == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for %u nodes", q.g->node_count);
    } else {
        memset(q.largest, 0, ((size_t)q.g->node_count + 1) * sizeof *q.largest);
        if (choose(&q) == HD_OK && see_all(&q, examples, count) == HD_OK) s = rebuild(&q);
    }
    hd_array_release(q.chosen);
    hd_array_release(q.largest);
    if (s != NULL) hd_keep_object(s);
    hd_scope_close(thread, &scope);
    return thread->error_code == HD_OK ? s : NULL;
}
