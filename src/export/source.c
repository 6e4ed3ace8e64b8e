/* net.c: constants, functions, and what runs them. */
#include "export/source.h"
#include "core/hash.h"
#include "fuse/lower_call.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static hd_error no_memory(void) { return hd_fail(HD_ERROR_MEMORY, "no memory for the text of a script in C"); }

/* ---- constants: each is written when it is first asked for ------------------------------------------------------- */
void hd_net_say_elements(hd_c_text *t, const char *name, hd_dtype dtype, const void *bytes, int64_t count) {
    const size_t size = hd_dtype_bytes[dtype];
    hd_c_text_say(t, "static const %s %s[%lld] = {", hd_c_type(dtype), name, (long long)count);
    for (int64_t i = 0; i < count; ++i) {
        hd_c_text_say(t, "%s", i % 12 == 0 ? "\n    " : " ");
        hd_say_element_of(t, dtype, (const char *)bytes + (size_t)i * size);
        hd_c_text_say(t, i + 1 < count ? "," : "");
    }
    hd_c_text_say(t, "};\n");
}

static hd_error say_constant(hd_net *net, const char *name, hd_dtype dtype, hd_storage *storage, int64_t count) {
    const void *bytes = hd_storage_bytes(net->thread, storage, HD_READ);
    if (bytes == NULL) return net->thread->error_code;
    hd_net_say_elements(&net->constants, name, dtype, bytes, count);
    return HD_OK;
}

/* ---- where values are -------------------------------------------------------------------------------------------- */
/* The node that gives what is in a buffer; HD_NO_NODE. */
static uint32_t giver_of(const hd_net *net, uint32_t buffer) {
    const hd_graph *g = net->plan->graph;
    for (uint32_t i = 0; i < g->node_count; ++i)
        if (!hd_node_is_call(&g->nodes[i]) && net->plan->buffer_of[i] == buffer) return i;
    return HD_NO_NODE;
}

static hd_error given(hd_net *net, uint32_t node, char *out, size_t capacity) {
    const hd_graph *g = net->plan->graph;
    const hd_node *n = &g->nodes[node];
    const hd_dtype dtype = (hd_dtype)n->dtype;
    const int64_t count = hd_node_count(g, node);
    if (n->op == HD_NODE_INPUT) {
        snprintf(out, capacity, "%s%s", hd_node_shape(g, node).rank == 0 ? "&" : "", net->inputs[n->first]);
    } else if (n->op == HD_NODE_CONSTANT) {
        snprintf(out, capacity, "%s_c%u", net->prefix, n->first);
        if (!net->constant_said[n->first] && count > 0)
            HD_TRY(say_constant(net, out, dtype, g->constants[n->first].storage, count));
        net->constant_said[n->first] = true;
    } else if (net->cell_at[n->first] != SIZE_MAX) {
        snprintf(out, capacity, "(state + %zu)", net->cell_at[n->first]);
    } else {
        snprintf(out, capacity, "%s_w%u", net->prefix, n->first);
        if (!net->cell_said[n->first] && count > 0) HD_TRY(say_constant(net, out, dtype, net->cells[n->first], count));
        net->cell_said[n->first] = true;
    }
    if (count == 0) snprintf(out, capacity, "0");
    return HD_OK;
}

hd_error hd_net_pointer(hd_net *net, uint32_t tensor, bool written, char *out, size_t capacity) {
    const hd_plan *p = net->plan;
    const hd_tensor *t = &p->tensors[tensor];
    const uint32_t buffer = p->buffer_of[tensor];
    const hd_plan_buffer *b = &p->buffers[buffer];
    const char *type = hd_c_type((hd_dtype)t->dtype), *constant = written ? "" : "const ";
    const size_t offset = (size_t)t->layout.offset * hd_dtype_bytes[t->dtype];
    char base[160];
    switch (b->placement) {
    case HD_IN_ARENA:
        snprintf(out, capacity, "(%s%s *)(arena + %zu)", constant, type, b->offset + offset);
        return HD_OK;
    case HD_IN_STATE:
        snprintf(out, capacity, "(%s%s *)(arena + %zu)", constant, type, net->extra[buffer] + offset);
        return HD_OK;
    case HD_IN_CELL:
        snprintf(out, capacity, "(%s%s *)(state + %zu)", constant, type, net->cell_at[b->cell] + offset);
        return HD_OK;
    case HD_IN_OUTPUT:
        for (uint32_t i = 0; i < p->graph->output_count; ++i)
            if (p->buffer_of[p->outputs[i]] == buffer) snprintf(base, sizeof base, "%s", net->outputs[i]);
        break;
    case HD_GIVEN:
    case HD_NOWHERE:
    default: HD_TRY(given(net, giver_of(net, buffer), base, sizeof base)); break;
    }
    if (t->layout.offset > 0)
        snprintf(out, capacity, "(%s%s *)%s + %lld", constant, type, base, (long long)t->layout.offset);
    else
        snprintf(out, capacity, "(%s%s *)%s", constant, type, base);
    return HD_OK;
}

const void *hd_net_steady(hd_net *net, uint32_t tensor) {
    const hd_plan *p = net->plan;
    const uint32_t node = giver_of(net, p->buffer_of[tensor]);
    if (p->buffers[p->buffer_of[tensor]].placement != HD_GIVEN || node == HD_NO_NODE) return NULL;
    const hd_node *n = &p->graph->nodes[node];
    if (n->op == HD_NODE_CONSTANT) return hd_storage_bytes(net->thread, p->graph->constants[n->first].storage, HD_READ);
    return n->op == HD_NODE_CELL && net->cell_at[n->first] == SIZE_MAX
               ? hd_storage_bytes(net->thread, net->cells[n->first], HD_READ)
               : NULL;
}

/* ---- functions: equal ones are one ------------------------------------------------------------------------------- */
/* The number of the function with this body, which is new or was said before; UINT32_MAX without memory. */
static uint32_t function_of(hd_net *net, const char *name, const char *type, const hd_c_text *body) {
    const uint64_t hash = hd_hash(body->at, body->count, 0);
    for (uint32_t i = 0; i < net->known_count; ++i) {
        const hd_net_function *f = &net->known[i];
        if (f->hash == hash && f->count == body->count && memcmp(net->bodies.at + f->first, body->at, f->count) == 0)
            return net->last = i;
    }
    if (net->known_count == net->known_capacity) {
        const uint32_t capacity = net->known_capacity ? net->known_capacity * 2 : 64;
        hd_net_function *moved = hd_array_resize(net->known, capacity * sizeof *moved);
        if (moved == NULL) return UINT32_MAX;
        net->known = moved;
        net->known_capacity = capacity;
    }
    hd_net_function *f = &net->known[net->known_count];
    *f = (hd_net_function){.hash = hash, .first = net->bodies.count, .count = body->count};
    snprintf(f->name, sizeof f->name, "%s_%s_%u", net->prefix, name, net->known_count);
    hd_c_text_add(&net->bodies, body);
    hd_c_text_say(&net->functions, "\nstatic %s %s", type, f->name);
    hd_c_text_add(&net->functions, body);
    return net->last = net->known_count++;
}

static hd_error fits(const hd_native *n) {
    int64_t points = 1;
    for (int a = 0; a < n->shape.axes; ++a) {
        points *= n->geometry[a] > 0 ? n->geometry[a] : 1;
        if (points > INT32_MAX) return hd_fail(HD_ERROR_SHAPE, "it walks more points than 2^31 - 1");
    }
    return HD_OK;
}

/* The text of a kernel, from its parameters on. */
static hd_error render_kernel(hd_net *net, const hd_native *n, const hd_known *known, hd_c_text *body) {
    HD_TRY(fits(n));
    HD_TRY(hd_vocabulary_use_kernel(net->words, &n->shape, true));
    const size_t length = hd_render_kernel_plain(&n->shape, known, "f", NULL, 0);
    char *text = length == 0 ? NULL : hd_array_resize(NULL, length + 1);
    if (text == NULL) return no_memory();
    const bool is_there = hd_render_kernel_plain(&n->shape, known, "f", text, length + 1) > 0;
    if (is_there) hd_c_text_say(body, "%s", strchr(text, '('));
    hd_array_release(text);
    return is_there ? HD_OK : no_memory();
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */
/* Of a kernel: what it passes for numbers that runs set. */
static void say_draws(hd_net *net, const hd_native *n, const hd_known *known, int seed, const hd_lowered_draw *draws,
                      int count, uint64_t first, hd_c_text *arguments) {
    for (int m = 0; m < n->shape.number_count; ++m) {
        if (!known->is_given[m]) continue;
        net->draws = true;
        if (m == seed) hd_c_text_say(arguments, ", seed");
        for (int k = 0; k < count; ++k)
            if ((int)draws[k].number == m)
                hd_c_text_say(arguments, ", draw + %llu", (unsigned long long)(first + draws[k].ordinal));
    }
}

static void mark_draws(hd_known *known, int seed, const hd_lowered_draw *draws, int count) {
    if (count > 0) known->is_given[seed] = true;
    for (int k = 0; k < count; ++k) known->is_given[draws[k].number] = true;
}

static bool is_empty(const hd_native *n) {
    for (int a = 0; a < n->shape.kept; ++a)
        if (n->geometry[a] == 0) return true;
    return false;
}

static hd_error launch_kernel(hd_net *net, const hd_launch *l) {
    const hd_plan_native *n = net->plan->natives[l->native];
    hd_known known = {.geometry = n->native.geometry, .numbers = n->native.numbers};
    hd_c_text body = {.at = NULL}, arguments = {.at = NULL};
    if (is_empty(&n->native)) return HD_OK;
    mark_draws(&known, n->seed, n->draws, n->draw_count);
    hd_error status = render_kernel(net, &n->native, &known, &body);
    for (int b = 0; b < n->native.shape.buffer_count && status == HD_OK; ++b) {
        char pointer[256];
        status = hd_net_pointer(net, n->tensors[b], n->native.shape.buffers[b].written, pointer, sizeof pointer);
        hd_c_text_say(&arguments, "%s%s", b > 0 ? ", " : "", pointer);
    }
    say_draws(net, &n->native, &known, n->seed, n->draws, n->draw_count, 0, &arguments);
    const uint32_t f = status == HD_OK ? function_of(net, "kernel", "void", &body) : UINT32_MAX;
    if (status == HD_OK && f == UINT32_MAX) status = no_memory();
    if (status == HD_OK) hd_c_text_line(&net->body, "%s(%s);", net->known[f].name, hd_c_text_string(&arguments));
    net->body.failed = net->body.failed || body.failed || arguments.failed;
    hd_c_text_release(&body);
    hd_c_text_release(&arguments);
    return status;
}

hd_error hd_c_by_kernel(hd_net_call *c) {
    hd_error status =
        hd_lower_call(c->net->thread, c->net->plan->machine, c->call, false, &c->lowered, c->operand, &c->is_kernel);
    if (status == HD_OK && !c->is_kernel) c->refusal = "no kernel says it";
    return status;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */
static void say_parameters(const hd_net_call *c, hd_c_text *t) {
    const hd_call *call = c->call;
    const char *between = "(";
    for (int i = 0; i < call->input_count; ++i, between = ", ")
        hd_c_text_say(t, "%sconst %s *x%d", between, hd_c_type((hd_dtype)call->inputs[i]->dtype), i);
    for (int i = 0; i < call->output_count; ++i) {
        if (call->outputs[i] == NULL) continue;
        hd_c_text_say(t, "%s%s *y%d", between, hd_c_type((hd_dtype)call->outputs[i]->dtype), i);
        between = ", ";
    }
    if (c->workspace > 0) hd_c_text_say(t, "%sunsigned char *w", between);
    if (c->draws) hd_c_text_say(t, ", uint64_t seed, uint64_t draw");
    hd_c_text_say(t, ") {\n");
}

/* What a function may leave alone. */
static void say_unused(const hd_net_call *c, const hd_c_text *inside, hd_c_text *t) {
    for (int i = 0; i < c->call->input_count; ++i) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        if (strstr(hd_c_text_string(inside), name) == NULL) hd_c_text_line(t, "(void)%s;", name);
    }
}

static hd_error refuse(hd_net *net, uint32_t node, const char *why) {
    const hd_graph *g = net->plan->graph;
    hd_c_text_say(&net->refused, "%s\n    node %%%u, %s: %s", net->refused_count == 0 ? "" : ",", node,
                  hd_node_name(&g->nodes[node]), why);
    net->refused_count++;
    return HD_OK;
}

/* What runs before a check that fails is taken back: parts of state that were written. */
static void say_undo(hd_net *net) {
    for (uint32_t i = net->saved_count; i-- > 0;)
        hd_c_text_line(&net->body, "    %s(%s, %s);", net->saved[i].function, net->saved[i].from, net->saved[i].to);
}

static hd_error add_check(hd_net *net, const hd_launch *l, const char *why, const char *call) {
    if (net->check_count == net->check_capacity) {
        const uint32_t capacity = net->check_capacity ? net->check_capacity * 2 : 16;
        hd_net_check *moved = hd_array_resize(net->checks, capacity * sizeof *moved);
        if (moved == NULL) return no_memory();
        net->checks = moved;
        net->check_capacity = capacity;
    }
    snprintf(net->checks[net->check_count++].text, sizeof net->checks[0].text, "%s of %s (node %%%u)", why,
             hd_node_name(&net->plan->graph->nodes[l->node]), l->node);
    hd_c_text_line(&net->body, "n->at = %s;", call);
    hd_c_text_line(&net->body, "if (n->at != 0) {");
    say_undo(net);
    hd_c_text_line(&net->body, "    n->at -= 1;");
    hd_c_text_line(&net->body, "    return %u;", net->check_count);
    hd_c_text_line(&net->body, "}");
    return HD_OK;
}

/* Arguments of a call: operands in the order of its parameters, or of its kernel's buffers. */
static hd_error say_arguments(hd_net *net, const hd_net_call *c, const uint32_t *inputs, const uint32_t *outputs,
                              const hd_known *known, hd_c_text *t) {
    char pointer[256];
    const char *between = "";
    const int count = c->is_kernel ? c->lowered.native.shape.buffer_count : c->call->input_count;
    for (int i = 0; i < count; ++i, between = ", ") {
        const bool written = c->is_kernel && c->operand[i] < 0;
        const uint32_t tensor = written ? outputs[0] : inputs[c->is_kernel ? c->operand[i] : i];
        if (i == 1 && c->packed[0] != '\0')
            snprintf(pointer, sizeof pointer, "%s", c->packed);
        else
            HD_TRY(hd_net_pointer(net, tensor, written, pointer, sizeof pointer));
        hd_c_text_say(t, "%s%s", between, pointer);
    }
    for (int i = 0; i < c->call->output_count && !c->is_kernel; ++i) {
        if (c->call->outputs[i] == NULL) continue;
        HD_TRY(hd_net_pointer(net, outputs[i], true, pointer, sizeof pointer));
        hd_c_text_say(t, "%s%s", between, pointer);
        between = ", ";
    }
    const uint64_t first = c->draws || (c->is_kernel && c->lowered.draw_count > 0)
                               ? ((const hd_random_attributes *)c->call->attributes)->draw
                               : 0;
    if (c->is_kernel)
        say_draws(net, &c->lowered.native, known, c->lowered.seed, c->lowered.draws, c->lowered.draw_count, first, t);
    if (c->workspace > 0) hd_c_text_say(t, "%sarena + NET_WORK", between);
    if (c->draws) hd_c_text_say(t, ", seed, draw + %llu", (unsigned long long)first);
    net->draws = net->draws || c->draws;
    return HD_OK;
}

/* The function of a call that was written into `inside`, and the line that calls it. */
static hd_error finish_call(hd_net *net, hd_net_call *c, const hd_launch *l, const char *name, const uint32_t *inputs,
                            const uint32_t *outputs, const hd_c_text *inside) {
    hd_c_text body = {.at = NULL}, arguments = {.at = NULL};
    hd_known known = {.geometry = NULL};
    hd_error status = HD_OK;
    if (c->is_kernel) {
        known = (hd_known){.geometry = c->lowered.native.geometry, .numbers = c->lowered.native.numbers};
        mark_draws(&known, c->lowered.seed, c->lowered.draws, c->lowered.draw_count);
        if (!is_empty(&c->lowered.native)) status = render_kernel(net, &c->lowered.native, &known, &body);
    } else {
        say_parameters(c, &body);
        body.indent = 1;
        say_unused(c, inside, &body);
        hd_c_text_add(&body, inside);
        hd_c_text_say(&body, "}\n");
    }
    if (status == HD_OK) status = say_arguments(net, c, inputs, outputs, &known, &arguments);
    if (status == HD_OK && body.count > 0) {
        const uint32_t f = function_of(net, name, c->can_fail ? "int32_t" : "void", &body);
        hd_c_text call = {.at = NULL};
        if (f == UINT32_MAX) status = no_memory();
        if (f != UINT32_MAX) hd_c_text_say(&call, "%s(%s)", net->known[f].name, hd_c_text_string(&arguments));
        if (status == HD_OK && c->can_fail) status = add_check(net, l, c->why, hd_c_text_string(&call));
        if (status == HD_OK && !c->can_fail) hd_c_text_line(&net->body, "%s;", hd_c_text_string(&call));
        net->body.failed = net->body.failed || call.failed;
        hd_c_text_release(&call);
    }
    if (c->workspace > net->workspace) net->workspace = c->workspace;
    net->body.failed = net->body.failed || body.failed || arguments.failed || inside->failed;
    hd_c_text_release(&body);
    hd_c_text_release(&arguments);
    return status;
}

static hd_error emit(hd_net *net, const hd_launch *l, const hd_call *call, hd_c_op *op, const char *name,
                     const uint32_t *inputs, const uint32_t *outputs) {
    hd_c_text inside = {.at = NULL, .indent = 1};
    hd_net_call *c = hd_array_resize(NULL, sizeof *c);
    if (c == NULL) return no_memory();
    memset(c, 0, sizeof *c);
    c->net = net;
    c->call = call;
    c->t = &inside;
    c->inputs = inputs;
    hd_error status = op(c);
    if (status == HD_OK && c->refusal != NULL)
        status = refuse(net, l->node, c->refusal);
    else if (status == HD_OK)
        status = finish_call(net, c, l, name, inputs, outputs, &inside);
    if (c->is_kernel) hd_native_release(&c->lowered.native);
    hd_array_release(c);
    hd_c_text_release(&inside);
    return status;
}

/* Integers that a row must not meet: 0 as a divisor, negative powers. */
static hd_error guard_zero(hd_net_call *c) { return hd_c_check_guard(c, "== 0", "a divisor of 0"); }
static hd_error guard_negative(hd_net_call *c) { return hd_c_check_guard(c, "< 0", "a negative power"); }

static hd_error launch_call(hd_net *net, const hd_launch *l) {
    const hd_plan *p = net->plan;
    const hd_plan_call *plan_call = &p->calls[l->call];
    hd_call call = plan_call->call;
    const uint32_t *inputs = p->operands + l->first;
    uint32_t outputs[HD_MAX_OUTPUTS] = {l->node, plan_call->outputs[1]};
    if (call.op->family == HD_FAMILY_RANDOM) call.attributes = hd_node_attributes(p->graph, l->node);
    if (call.outputs[0]->count == 0 && call.op->fails != HD_FAILS_VALUES) return HD_OK;
    hd_c_op *op = hd_c_op_of(call.op);
    if (op == NULL) { /* a row */
        const hd_guard guard = call.op->derivative > 0 ? HD_GUARD_NONE : (hd_guard)hd_rows[call.op->id].guard;
        if (guard != HD_GUARD_NONE && hd_dtype_compute[call.compute] < HD_COMPUTE_F32) {
            hd_tensor *divisor = call.inputs[1];
            const hd_call check = {.op = call.op, .inputs = &divisor, .input_count = 1};
            HD_TRY(emit(net, l, &check, guard == HD_GUARD_ZERO ? guard_zero : guard_negative, "check", inputs + 1,
                        outputs));
        }
        op = hd_c_by_kernel;
    }
    return emit(net, l, &call, op, call.op->name, inputs, outputs);
}

/* The bound of what an index launch looks at. */
static int64_t bound_of(const hd_graph *g, uint32_t node) {
    const void *attributes = hd_node_attributes(g, node);
    const int axis = hd_node_lowers(g, node) == HD_LOWER_SCATTER ? ((const hd_scatter_attributes *)attributes)->axis
                                                                 : ((const hd_axis_attributes *)attributes)->axis;
    return hd_node_shape(g, hd_node_inputs(g, node)[0]).size[axis];
}

static hd_error say_check(hd_net_call *c) { return hd_c_check_index(c, c->net->bound); }

/* A launch of operands alone: in, then out. */
static hd_error launch_simple(hd_net *net, const hd_launch *l, hd_c_op *op, const char *name) {
    const hd_plan *p = net->plan;
    const uint32_t *operands = p->operands + l->first;
    hd_tensor *in = l->inputs > 0 ? &p->tensors[operands[0]] : NULL;
    hd_call call = {.op = NULL,
                    .inputs = &in,
                    .input_count = l->inputs,
                    .output_count = l->outputs,
                    .attributes = hd_node_attributes(p->graph, l->node)};
    if (l->outputs > 0) {
        call.outputs[0] = &p->tensors[operands[l->inputs]];
        call.dtype[0] = (hd_dtype)call.outputs[0]->dtype;
        call.shape[0] = call.outputs[0]->layout.shape;
        if (call.outputs[0]->count == 0) return HD_OK;
    }
    return emit(net, l, &call, op, name, operands, operands + l->inputs);
}

/* A part of state as it was, to be put back should a check fail after this. */
static hd_error launch_save(hd_net *net, const hd_launch *l) {
    const hd_plan *p = net->plan;
    const uint32_t *operands = p->operands + l->first;
    HD_TRY(launch_simple(net, l, hd_c_contiguous, "save"));
    if (p->tensors[operands[0]].count == 0) return HD_OK;
    hd_net_saved *moved = hd_array_resize(net->saved, (net->saved_count + 1) * sizeof *moved);
    if (moved == NULL) return no_memory();
    net->saved = moved;
    hd_net_saved *saved = &net->saved[net->saved_count++];
    HD_TRY(hd_net_pointer(net, operands[1], false, saved->from, sizeof saved->from));
    HD_TRY(hd_net_pointer(net, operands[0], true, saved->to, sizeof saved->to));
    const size_t before = net->body.count;
    hd_tensor *from = &p->tensors[operands[1]];
    hd_call call = {.inputs = &from, .input_count = 1, .output_count = 1};
    call.outputs[0] = &p->tensors[operands[0]];
    call.dtype[0] = (hd_dtype)from->dtype;
    call.shape[0] = from->layout.shape;
    const uint32_t in = operands[1], out = operands[0];
    HD_TRY(emit(net, l, &call, hd_c_contiguous, "restore", &in, &out));
    snprintf(saved->function, sizeof saved->function, "%s", net->known[net->last].name);
    net->body.count = before; /* it is called where a check fails, and not here */
    if (net->body.at != NULL) net->body.at[before] = '\0';
    return HD_OK;
}

hd_error hd_net_say_launch(hd_net *net, const hd_launch *l) {
    switch (l->kind) {
    case HD_RUN_KERNEL: return launch_kernel(net, l);
    case HD_RUN_CALL: return launch_call(net, l);
    case HD_RUN_COPY: return launch_simple(net, l, hd_c_contiguous, "copy");
    case HD_RUN_SAVE: return launch_save(net, l);
    case HD_RUN_BORDER: return launch_simple(net, l, hd_c_pad_border, "border");
    case HD_RUN_CHECK:
        net->bound = bound_of(net->plan->graph, l->node);
        return launch_simple(net, l, say_check, "check");
    default: return refuse(net, l->node, "it is no launch that C has");
    }
}
