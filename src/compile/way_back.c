/* How gradients go back through a call of a compiled model.
 *
 * The values that the backward script reads are ordinary tensors, so two forwards before one backward work. A call of a
 * model with one tracked output is one record on the tape. Of several outputs each has a record, which keeps the
 * gradient that arrives there; behind them is a record for each group of targets, which those that the group came from
 * lead to, so that gradients reach what they would reach in the plain model, and nothing else. A walk comes to these
 * when it has been to all outputs; the first one runs the backward script for all of them. */
#include "compile/compiled.h"
#include "grad/tape.h"

#include <stdio.h>

/* ---- what the calls of one graph share --------------------------------------------------------------------------- */
static void way_back_destroy(hd_thread *thread, hd_object *object) {
    hd_way_back *b = (hd_way_back *)object;
    if (b->backward != NULL) hd_object_release(thread, &b->backward->object);
    if (b->parameters != NULL) hd_object_release(thread, &b->parameters->object);
    hd_array_release(b->input);
    hd_array_release(b->group);
    hd_array_release(b->depends);
    hd_array_release(b);
}
static const hd_kind way_back_kind = {.name = "backward of a compiled model", .destroy = way_back_destroy};

hd_way_back *hd_way_back_new(hd_thread *thread, int64_t outputs, int64_t targets) {
    const size_t bytes = (size_t)(targets + 1) * sizeof(int64_t);
    hd_way_back *b = hd_array_resize(NULL, sizeof *b);
    if (b == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a compiled model");
        return NULL;
    }
    *b = (hd_way_back){.outputs = outputs};
    hd_object_init(&b->object, &way_back_kind);
    b->input = hd_array_resize(NULL, bytes);
    b->group = hd_array_resize(NULL, bytes);
    b->depends = hd_array_resize(NULL, (size_t)(outputs * targets + 1) * sizeof *b->depends);
    if (b->input != NULL && b->group != NULL && b->depends != NULL) return b;
    hd_object_release(thread, &b->object);
    hd_fail(HD_ERROR_MEMORY, "no memory for a compiled model");
    return NULL;
}

static int64_t target_count(const hd_way_back *b) { return b->inputs + b->parameters->count; }

/* ---- one call ---------------------------------------------------------------------------------------------------- */
typedef struct way_call {
    hd_object object;
    hd_way_back *back;     /* retained */
    hd_tensors *saved;     /* retained */
    uint64_t walk;         /* that what follows is of */
    hd_tensors *gradients; /* retained: of each output, where one has arrived; NULL: there is one output */
    hd_tensors *results;   /* retained: of each target whose group was not visited yet */
    bool ran;              /* the backward script, in that walk */
    uint32_t versions[];   /* of the parameters that the backward script reads */
} way_call;

static void empty(hd_thread *thread, hd_tensors *list) {
    for (int64_t i = 0; i < list->count; ++i) {
        hd_tensor_drop(thread, list->items[i]);
        list->items[i] = NULL;
    }
}

static void call_destroy(hd_thread *thread, hd_object *object) {
    way_call *c = (way_call *)object;
    hd_object_release(thread, &c->back->object);
    hd_object_release(thread, &c->saved->object);
    if (c->gradients != NULL) hd_object_release(thread, &c->gradients->object);
    if (c->results != NULL) hd_object_release(thread, &c->results->object);
    hd_array_release(c);
}
static const hd_kind call_kind = {.name = "compiled call", .destroy = call_destroy};

/* Calls of one model share their backward script, also those on tapes of other threads. */
static hd_error take_backward(hd_use *use, hd_thread *thread, hd_script *s) {
    const hd_error status = hd_use_begin(use, thread, &s->object, false);
    if (status != HD_OK) hd_error_append(thread, " (it is of a compiled model: hd_compile it once for each thread)");
    return status;
}

static hd_error check_parameters(const way_call *c) {
    const hd_script *s = c->back->backward;
    const hd_graph *g = s->graph;
    for (uint32_t i = 0; i < g->cell_count; ++i) {
        if (s->cells[i]->version == c->versions[i]) continue;
        const hd_shape shape = hd_node_shape(g, g->cells[i].node);
        return hd_fail(HD_ERROR_STATE,
                       "the parameter \"%s\", %s, of the compiled model was changed in place after it was used; call "
                       "hd_backward before",
                       hd_graph_string(g, g->cells[i].name), HD_SHAPE_TEXT(shape));
    }
    return HD_OK;
}

/* Input `i` of the backward script, by its name: "saved <n>", a saved value, or "gradient of y<n>"; that of an output
 * where none arrived is zero. */
static hd_tensor *backward_input(const way_call *c, uint32_t i, hd_tensor *const *gradients) {
    const hd_graph *g = c->back->backward->graph;
    const char *name = hd_graph_string(g, g->inputs[i].name);
    long long number = 0;
    if (sscanf(name, "saved %lld", &number) == 1) return c->saved->items[number];
    sscanf(name, "gradient of y%lld", &number);
    if (gradients[number] != NULL) return gradients[number];
    return hd_zeros(hd_node_shape(g, g->inputs[i].node), (hd_dtype)g->nodes[g->inputs[i].node].dtype);
}

/* The gradients of all targets, from those of the outputs; NULL with an error. */
static hd_outputs *run_backward(hd_thread *thread, const way_call *c, hd_tensor *const *gradients) {
    hd_script *s = c->back->backward;
    hd_use use __attribute__((cleanup(hd_use_end)));
    if (take_backward(&use, thread, s) != HD_OK || check_parameters(c) != HD_OK) return NULL;
    for (uint32_t i = 0; i < s->graph->input_count; ++i) {
        hd_tensor *t = backward_input(c, i, gradients);
        if (t != NULL) hd_script_put_input(thread, s, hd_graph_string(s->graph, s->graph->inputs[i].name), t);
    }
    return hd_capture_run(thread, s);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */
typedef struct way_record {
    hd_external external;
    way_call *call; /* retained */
    int64_t number; /* of the output, or the group */
} way_record;

static void record_destroy(hd_thread *thread, hd_object *object) {
    hd_object_release(thread, &((way_record *)object)->call->object);
    hd_array_release(object);
}
static const hd_kind record_kind = {.name = "record of a compiled call", .destroy = record_destroy};

/* Of the only output that is tracked. */
static void single_vjp(hd_thread *thread, hd_external *self, hd_tensor *gradient, hd_tensor **results) {
    const way_record *r = (way_record *)self;
    hd_tensor *alone[1] = {gradient}, **gradients = alone;
    if (r->number > 0) { /* it is not the first */
        hd_tensors *list = hd_tensors_new(thread, r->number + 1);
        if (list == NULL) return;
        hd_tensors_put(list, r->number, gradient);
        gradients = list->items;
    }
    hd_outputs *out = run_backward(thread, r->call, gradients);
    for (uint32_t i = 0; out != NULL && i < out->count; ++i) results[i] = out->items[i];
}

/* Of one output among several: keeps its gradient for the groups, to which a zero goes that says that one arrived. */
static void output_vjp(hd_thread *thread, hd_external *self, hd_tensor *gradient, hd_tensor **results) {
    const way_record *r = (way_record *)self;
    way_call *c = r->call;
    if (c->walk != thread->walk_number) { /* what an earlier walk, which failed, has left */
        empty(thread, c->gradients);
        empty(thread, c->results);
        c->walk = thread->walk_number;
        c->ran = false;
    }
    hd_tensors_put(c->gradients, r->number, gradient);
    hd_tensor *zero = hd_zeros(HD_SHAPE(), HD_F32);
    for (int64_t i = 0, at = 0; i < c->back->groups && zero != NULL; ++i)
        if (c->back->depends[r->number + i * c->back->outputs]) results[at++] = zero;
}

/* Whether a gradient arrived at an output that the group came from: the walk visits it, then. */
static bool is_visited(const way_call *c, int64_t group) {
    bool visited = false;
    for (int64_t i = 0; i < c->back->outputs && !visited; ++i)
        visited = c->back->depends[i + group * c->back->outputs] && c->gradients->items[i] != NULL;
    return visited;
}

static void group_vjp(hd_thread *thread, hd_external *self, hd_tensor *gradient, hd_tensor **results) {
    const way_record *r = (way_record *)self;
    way_call *c = r->call;
    (void)gradient;
    if (!c->ran) {
        hd_outputs *out = run_backward(thread, c, c->gradients->items);
        if (out == NULL) return;
        for (uint32_t i = 0; i < out->count; ++i)
            if (is_visited(c, c->back->group[i])) hd_tensors_put(c->results, i, out->items[i]);
        empty(thread, c->gradients);
        c->ran = true;
    }
    for (int64_t i = 0, at = 0; i < c->results->count; ++i) {
        if (c->back->group[i] != r->number) continue;
        hd_tensor *t = c->results->items[i];
        if (t != NULL) results[at] = hd_scope_share(thread, &t->object);
        hd_tensor_drop(thread, t);
        c->results->items[i] = NULL;
        ++at;
    }
}

/* Makes y the result of a record of its own. */
static hd_error note(hd_thread *thread, way_call *c, int64_t number, hd_tensor *y, const hd_tensors *inputs,
                     void (*vjp)(hd_thread *, hd_external *, hd_tensor *, hd_tensor **)) {
    way_record *r = hd_array_resize(NULL, sizeof *r);
    if (r == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a record");
    *r = (way_record){.external = {.name = "a compiled model", .vjp = vjp}, .call = c, .number = number};
    hd_object_init(&r->external.object, &record_kind);
    hd_object_retain(&c->object);
    const hd_error status = hd_record_external(thread, y, inputs, &r->external);
    hd_object_release(thread, &r->external.object);
    return status;
}

/* The targets of one group; of all, when `group` is -1. */
static hd_tensors *targets_of(hd_thread *thread, const hd_way_back *b, int64_t group, hd_tensor *const *x) {
    int64_t count = 0;
    for (int64_t i = 0; i < target_count(b); ++i) count += group < 0 || b->group[i] == group;
    hd_tensors *list = hd_tensors_new(thread, count);
    for (int64_t i = 0, at = 0; list != NULL && i < target_count(b); ++i)
        if (group < 0 || b->group[i] == group)
            hd_tensors_put(list, at++, i < b->inputs ? x[b->input[i]] : b->parameters->items[i - b->inputs]);
    return list;
}

static hd_error note_single(hd_thread *thread, way_call *c, hd_tensor *const *x, const hd_tensors *y) {
    int64_t output = 0;
    while (!c->back->depends[output]) ++output; /* there is one group, of this output alone */
    const hd_tensors *targets = targets_of(thread, c->back, -1, x);
    return targets == NULL ? thread->error_code : note(thread, c, output, y->items[output], targets, single_vjp);
}

/* A group's record has a number as its result, from which the outputs' records come. */
static hd_error note_several(hd_thread *thread, way_call *c, hd_tensor *const *x, const hd_tensors *y) {
    const hd_way_back *b = c->back;
    hd_tensors *groups = hd_tensors_new(thread, b->groups);
    if (groups == NULL) return thread->error_code;
    for (int64_t i = 0; i < b->groups; ++i) {
        hd_tensor *joint = hd_zeros(HD_SHAPE(), HD_F32);
        const hd_tensors *targets = joint == NULL ? NULL : targets_of(thread, b, i, x);
        if (targets == NULL) return thread->error_code;
        HD_TRY(note(thread, c, i, joint, targets, group_vjp));
        hd_tensors_put(groups, i, joint);
    }
    for (int64_t i = 0; i < b->outputs; ++i) {
        int64_t count = 0;
        for (int64_t k = 0; k < b->groups; ++k) count += b->depends[i + k * b->outputs];
        if (count == 0) continue; /* it is not tracked */
        hd_tensors *from = hd_tensors_new(thread, count);
        if (from == NULL) return thread->error_code;
        for (int64_t k = 0, at = 0; k < b->groups; ++k)
            if (b->depends[i + k * b->outputs]) hd_tensors_put(from, at++, groups->items[k]);
        HD_TRY(note(thread, c, i, y->items[i], from, output_vjp));
    }
    return HD_OK;
}

static way_call *new_call(hd_thread *thread, hd_way_back *b, const hd_outputs *out) {
    const uint32_t cells = b->backward->graph->cell_count;
    const bool several = b->tracked > 1;
    hd_tensors *saved = hd_tensors_new(thread, b->saved);
    hd_tensors *gradients = saved != NULL && several ? hd_tensors_new(thread, b->outputs) : NULL;
    hd_tensors *results = gradients != NULL ? hd_tensors_new(thread, target_count(b)) : NULL;
    if (thread->error_code != HD_OK) return NULL;
    way_call *c = hd_array_resize(NULL, sizeof *c + cells * sizeof *c->versions);
    if (c == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a record");
        return NULL;
    }
    for (int64_t i = 0; i < b->saved; ++i) hd_tensors_put(saved, i, out->items[b->outputs + i]);
    *c = (way_call){.back = b, .saved = saved, .gradients = gradients, .results = results};
    hd_object_init(&c->object, &call_kind);
    hd_object_retain(&b->object);
    hd_object_retain(&saved->object);
    if (several) hd_object_retain(&gradients->object);
    if (several) hd_object_retain(&results->object);
    for (uint32_t i = 0; i < cells; ++i) c->versions[i] = b->backward->cells[i]->version;
    return c;
}

hd_error hd_way_back_note(hd_thread *thread, hd_way_back *back, hd_tensor *const *x, const hd_tensors *y,
                          const hd_outputs *out) {
    if (back->groups == 0) return HD_OK;
    way_call *c = new_call(thread, back, out);
    if (c == NULL) return thread->error_code;
    const hd_error status = back->tracked > 1 ? note_several(thread, c, x, y) : note_single(thread, c, x, y);
    hd_object_release(thread, &c->object);
    return status;
}
