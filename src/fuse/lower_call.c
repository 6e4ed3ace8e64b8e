/* A call by itself as a kernel. */
#include "fuse/lower_call.h"
#include "core/away.h"

#include <string.h>

bool hd_call_writes_out(const hd_call *call, const hd_tensor *t) {
    if (!hd_tensor_is_number(t) || t->layout.shape.rank != 0 || call->op->lower != HD_LOWER_ROW) return false;
    const hd_dtype dtype = (hd_dtype)t->dtype;
    if (dtype != HD_I64 && dtype != HD_U64) return true;
    const double value = hd_element_to_f64(t->storage->data, dtype); /* which may not be all of it */
    return value > -0x1p53 && value < 0x1p53;
}

static uint32_t input_node(hd_graph *g, const hd_call *call, int i, bool numbers) {
    const hd_tensor *t = call->inputs[i];
    const char name[2] = {(char)('a' + i), '\0'};
    if (!numbers || !hd_call_writes_out(call, t))
        return hd_graph_add_input(g, name, (hd_dtype)t->dtype, &t->layout.shape);
    const hd_full_attributes value = {hd_element_to_f64(t->storage->data, (hd_dtype)t->dtype)};
    return hd_graph_add(g, HD_OP_full, 0, NULL, 0, (hd_dtype)t->dtype, &t->layout.shape, &value);
}

/* The node of the call; HD_NO_NODE with an error. What is only moved is cast to what it is. A draw alone would be a
 * call: what reads it draws it. */
static uint32_t call_node(hd_graph *g, const hd_call *call, bool numbers, uint32_t *inputs) {
    hd_random_attributes draw;
    const void *attributes = call->attributes;
    for (int i = 0; i < call->input_count; ++i)
        if ((inputs[i] = input_node(g, call, i, numbers)) == HD_NO_NODE) return HD_NO_NODE;
    if (call->op->family == HD_FAMILY_RANDOM) {
        draw = *(const hd_random_attributes *)attributes;
        draw.seed = draw.draw = 0;
        attributes = &draw;
        g->draws = 1;
    }
    const hd_cast_attributes same = {call->dtype[0]};
    if (call->op->id == HD_OP_contiguous && call->op->family == HD_FAMILY_MOVE)
        return hd_graph_add(g, HD_OP_cast, 0, inputs, 1, call->dtype[0], &call->shape[0], &same);
    uint32_t node = hd_graph_add(g, call->op->id, call->op->derivative, inputs, call->input_count, call->dtype[0],
                                 &call->shape[0], attributes);
    if (node != HD_NO_NODE && hd_lower_is_draw(call->op->lower))
        node = hd_graph_add(g, HD_OP_cast, 0, &node, 1, call->dtype[0], &call->shape[0], &same);
    return node;
}

static void set_header(hd_tensor *t, hd_dtype dtype, const hd_layout *layout) {
    memset(t, 0, sizeof *t);
    t->dtype = (uint8_t)dtype;
    t->layout = *layout;
    t->count = hd_shape_count(layout->shape);
    t->contiguous = hd_layout_is_contiguous(layout);
}

/* Which operand each buffer is; false: it reads something else. */
static bool find_operands(const hd_lowered *l, const hd_call *call, const uint32_t *inputs, uint32_t node,
                          int16_t *operand) {
    for (int b = 0; b < l->native.shape.buffer_count; ++b) {
        operand[b] = l->nodes[b] == node ? -1 : INT16_MAX;
        for (int i = 0; i < call->input_count; ++i)
            if (l->nodes[b] == inputs[i]) operand[b] = (int16_t)i;
        if (operand[b] == INT16_MAX) return false;
    }
    return true;
}

static hd_error lower_call(const hd_graph *g, const hd_fusion *f, const hd_call *call, const uint32_t *inputs,
                           uint32_t node, hd_lowered *out, int16_t *operand, bool *lowered) {
    const uint32_t group = f->group_of[node];
    if (group == HD_NO_GROUP || f->groups[group].kind != HD_GROUP_KERNEL) return HD_OK;
    hd_tensor *tensors = hd_array_resize(NULL, (size_t)g->node_count * sizeof *tensors);
    if (tensors == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for the kernel of a call");
    for (uint32_t i = 0; i < g->node_count; ++i) {
        hd_layout layout;
        const hd_shape shape = hd_node_shape(g, i);
        hd_layout_contiguous(&layout, &shape);
        for (int k = 0; k < call->input_count; ++k)
            if (inputs[k] == i) layout = call->inputs[k]->layout;
        if (i == node && call->given) layout = call->outputs[0]->layout;
        set_header(&tensors[i], (hd_dtype)g->nodes[i].dtype, &layout);
    }
    hd_lowering lowering;
    hd_error status = hd_lowering_begin(&lowering, g, f, tensors);
    if (status == HD_OK) status = hd_lower(&lowering, &f->groups[group], out);
    hd_lowering_end(&lowering);
    hd_array_release(tensors);
    if (status != HD_OK) return status;
    *lowered = find_operands(out, call, inputs, node, operand);
    if (!*lowered) hd_native_release(&out->native);
    return HD_OK;
}

hd_error hd_lower_call(hd_thread *thread, const hd_machine *m, const hd_call *call, bool numbers, hd_lowered *out,
                       int16_t operand[HD_KERNEL_BUFFERS], bool *lowered) {
    uint32_t inputs[HD_MAX_INPUTS];
    *lowered = false;
    hd_graph *g = hd_graph_new(thread, "call");
    if (g == NULL) return thread->error_code;
    g->guarded = true;
    const uint32_t node = call_node(g, call, numbers, inputs);
    hd_error status = node == HD_NO_NODE ? thread->error_code : hd_graph_add_output(g, "y", node);
    if (status == HD_OK) {
        hd_fusion f = {.group_of = NULL};
        status = hd_fuse(m, g, HD_O2, (hd_fuse_choice){.most_members = 0}, &f);
        if (status == HD_OK) status = lower_call(g, &f, call, inputs, node, out, operand, lowered);
        hd_fusion_release(&f);
    }
    hd_graph_release(thread, g);
    return status;
}
