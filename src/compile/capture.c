/* Capturing a model for hd_compile.
 *
 * For training one joint graph of the forward pass and its gradients is captured, and cut in two: what does not depend
 * on the gradients of the outputs is the forward script, whose further outputs are the values the backward script
 * reads. */
#include "compile/compiled.h"
#include "compile/cut.h"
#include "grad/tape.h"
#include "graph/builder.h"

#include <stdio.h>

void hd_captured_release(hd_thread *thread, hd_captured *e) {
    if (e == NULL) return;
    if (e->forward != NULL) hd_object_release(thread, &e->forward->object);
    if (e->back != NULL) hd_object_release(thread, &e->back->object);
    hd_array_release(e->inputs);
    hd_array_release(e);
}

const char *hd_capture_name(char name[48], const char *base, int64_t index, int64_t count) {
    if (count == 1)
        snprintf(name, 48, "%s", base);
    else
        snprintf(name, 48, "%s%lld", base, (long long)index);
    return name;
}

static hd_script *configured(hd_thread *thread, hd_graph *graph, const hd_compile_opts *o) {
    hd_script *s = hd_script_over(thread, graph, false);
    if (s == NULL) return NULL;
    s->compiler = o->compiler;
    s->level = o->optimization_level;
    s->device = o->device;
    hd_object_retain(&s->object);
    return s;
}

/* ---- the model's own calls --------------------------------------------------------------------------------------- */
/* What a capture is made of, on its way. */
typedef struct capturing {
    hd_thread *thread;
    const hd_compiled *c;
    hd_builder *builder;
    hd_captured *e;
    hd_tensors *x, *y;     /* recorded inputs and outputs */
    uint32_t graph_inputs; /* of the graph, when the forward was recorded: those behind are gradients */
} capturing;

typedef struct binding {
    hd_builder *builder;
    bool state;
} binding;

static hd_error bind(void *user, const char *name, hd_tensor *t) {
    const binding *b = user;
    if (hd_recording_knows(b->builder->recording, t)) return HD_OK; /* it shares the memory of one that is declared */
    if (b->state)
        hd_builder_add_state(b->builder, name, t);
    else
        hd_builder_bind(b->builder, name, t);
    return hd_thread_self()->error_code;
}

static hd_error declare_inputs(capturing *k) {
    hd_thread *thread = k->thread;
    const int64_t count = k->e->key.inputs;
    char name[48];
    k->x = hd_tensors_new(thread, count);
    for (int64_t i = 0; k->x != NULL && i < count; ++i) {
        const hd_input_kind *kind = &k->e->inputs[i];
        hd_tensor *input = hd_input(hd_capture_name(name, "x", i, count), kind->shape, kind->dtype);
        if (input == NULL) break;
        if (kind->wanted) input->tracking = HD_TRACKED_LEAF; /* of what is recorded */
        hd_tensors_put(k->x, i, input);
    }
    return thread->error_code;
}

/* Forward of the model itself: messages name the call in it that fails, and where that stands. NULL with an error. */
static hd_tensors *plain_forward(capturing *k) {
    hd_thread *thread = k->thread;
    const uint32_t layer = thread->layer_count++;
    if (layer < HD_LAYERS_NOTED) thread->layers[layer] = (hd_layer){.kind = NULL, .caller = thread->caller};
    hd_tensor *y = NULL;
    hd_tensors *list = NULL;
    if (k->e->key.all)
        list = hd_forward_all(k->c->model, k->x);
    else
        y = hd_forward(k->c->model, k->x->items[0]);
    thread->layer_count = layer;
    if (y == NULL) return list;
    list = hd_tensors_new(thread, 1);
    if (list != NULL) hd_tensors_put(list, 0, y);
    return list;
}

/* The same, recorded; what it writes beside its buffers a run would not write. */
static hd_error record_forward(capturing *k) {
    hd_thread *thread = k->thread;
    hd_recording *r = k->builder->recording;
    hd_shape shape;
    HD_TRY(declare_inputs(k));
    k->y = plain_forward(k);
    if (k->y == NULL) return thread->error_code;
    if (hd_recording_wrote(r, &shape))
        return hd_fail(HD_ERROR_STATE,
                       "the model writes into a tensor %s that is no buffer of it; hd_module_add_buffer makes it one",
                       HD_SHAPE_TEXT(shape));
    for (int64_t i = 0; i < k->x->count; ++i)
        if (hd_recording_node(thread, r, k->x->items[i]) != r->graph->inputs[i].node)
            return hd_fail(HD_ERROR_STATE, "the model writes into its input; let it write into a copy (hd_copy)");
    return thread->error_code;
}

/* That an output can have a gradient. */
static bool is_tracked(const hd_tensor *y) {
    return y->tracking != HD_UNTRACKED && hd_dtype_is_float((hd_dtype)y->dtype);
}

/* The outputs are results of their own: neither inputs nor parameters, and no tensor is two of them. */
static hd_error separate_outputs(capturing *k) {
    hd_tensors *list = hd_tensors_new(k->thread, k->y->count);
    for (int64_t i = 0; list != NULL && i < list->count; ++i) {
        hd_tensor *y = k->y->items[i];
        bool repeated = false;
        for (int64_t j = 0; j < i; ++j) repeated = repeated || k->y->items[j] == y;
        if (y->tracking == HD_TRACKED_LEAF || (repeated && is_tracked(y))) y = hd_mul_scalar(y, 1);
        if (y == NULL) return k->thread->error_code;
        hd_tensors_put(list, i, y);
    }
    k->y = list;
    return k->thread->error_code;
}

static hd_error name_outputs(const capturing *k) {
    char name[48];
    for (int64_t i = 0; i < k->y->count; ++i)
        hd_builder_add_output(k->builder, hd_capture_name(name, "y", i, k->y->count), k->y->items[i]);
    return k->thread->error_code;
}

/* ---- what gradients go to ---------------------------------------------------------------------------------------- */
static bool holds(const hd_tensors *list, const hd_tensor *t) {
    for (int64_t i = 0; list != NULL && i < list->count; ++i)
        if (list->items[i] == t) return true;
    return false;
}

/* What an output came from: inputs, and parameters of the model. Anything else would get no gradient. */
static hd_tensors *leaves_of(const capturing *k, const hd_tensor *y) {
    hd_tensors *leaves = hd_leaves_of(k->thread, y);
    for (int64_t i = 0; leaves != NULL && i < leaves->count; ++i) {
        if (holds(k->x, leaves->items[i]) || holds(k->c->parameters, leaves->items[i])) continue;
        hd_fail(HD_ERROR_STATE,
                "the model reads a tensor %s that requires a gradient and is none of its parameters; "
                "hd_module_add_parameter makes it one",
                HD_SHAPE_TEXT(leaves->items[i]->layout.shape));
        return NULL;
    }
    return leaves;
}

/* Whether some output came from t; `leaves` are those of each output, NULL where it is not tracked. */
static bool is_reached(hd_tensors *const *leaves, int64_t outputs, const hd_tensor *t) {
    bool reached = false;
    for (int64_t i = 0; i < outputs && !reached; ++i) reached = holds(leaves[i], t);
    return reached;
}

/* Puts a target behind those there are: into the group of those that the same outputs came from, or a new one. */
static void group_target(hd_way_back *b, hd_tensors *const *leaves, int64_t target, const hd_tensor *t) {
    int64_t group = 0;
    for (bool same = false; group < b->groups; ++group) {
        same = true;
        for (int64_t i = 0; i < b->outputs && same; ++i)
            same = b->depends[i + group * b->outputs] == holds(leaves[i], t);
        if (same) break;
    }
    if (group == b->groups) b->groups++;
    b->group[target] = group;
    for (int64_t i = 0; i < b->outputs; ++i) b->depends[i + group * b->outputs] = holds(leaves[i], t);
}

static hd_error find_targets(capturing *k, hd_tensors **leaves) {
    const hd_tensors *x = k->x, *all = k->c->parameters;
    hd_way_back *b = k->e->back;
    for (int64_t i = 0; i < k->y->count; ++i) {
        leaves[i] = NULL;
        if (!is_tracked(k->y->items[i])) continue;
        leaves[i] = leaves_of(k, k->y->items[i]);
        if (leaves[i] == NULL) return k->thread->error_code;
        b->tracked++;
    }
    for (int64_t i = 0; i < x->count; ++i) {
        if (!is_reached(leaves, b->outputs, x->items[i])) continue;
        group_target(b, leaves, b->inputs, x->items[i]);
        b->input[b->inputs++] = i;
    }
    int64_t count = 0;
    for (int64_t i = 0; i < all->count; ++i) count += is_reached(leaves, b->outputs, all->items[i]);
    b->parameters = hd_tensors_new(k->thread, count);
    if (b->parameters == NULL) return k->thread->error_code;
    hd_object_retain(&b->parameters->object);
    for (int64_t i = 0, at = 0; i < all->count; ++i) {
        if (!is_reached(leaves, b->outputs, all->items[i])) continue;
        group_target(b, leaves, b->inputs + at, all->items[i]);
        hd_tensors_put(b->parameters, at++, all->items[i]);
    }
    return HD_OK;
}

/* ---- the gradients ----------------------------------------------------------------------------------------------- */
/* Records the gradients for the targets, as outputs "g0", "g1", ...: one walk from all outputs that are tracked. */
static hd_error record_walk(const capturing *k) {
    hd_thread *thread = k->thread;
    const hd_way_back *b = k->e->back;
    hd_tensors *losses = hd_tensors_new(thread, b->tracked);
    hd_tensors *seeds = losses == NULL ? NULL : hd_tensors_new(thread, b->tracked);
    hd_tensors *wanted = seeds == NULL ? NULL : hd_tensors_new(thread, b->inputs + b->parameters->count);
    if (wanted == NULL) return thread->error_code;
    char name[48];
    for (int64_t i = 0, at = 0; i < k->y->count; ++i) {
        hd_tensor *y = k->y->items[i];
        if (!is_tracked(y)) continue;
        hd_tensor *seed =
            hd_input(hd_capture_name(name, "gradient of y", i, k->y->count), y->layout.shape, (hd_dtype)y->dtype);
        if (seed == NULL) return thread->error_code;
        hd_tensors_put(losses, at, y);
        hd_tensors_put(seeds, at++, seed);
    }
    for (int64_t i = 0; i < b->inputs; ++i) hd_tensors_put(wanted, i, k->x->items[b->input[i]]);
    for (int64_t i = 0; i < b->parameters->count; ++i) hd_tensors_put(wanted, b->inputs + i, b->parameters->items[i]);
    hd_tensors *gradients = hd_gradients_inside(thread, losses->items, seeds->items, b->tracked, wanted);
    for (int64_t i = 0; gradients != NULL && i < gradients->count; ++i) {
        snprintf(name, sizeof name, "g%lld", (long long)i);
        hd_builder_add_output(k->builder, name, gradients->items[i]);
    }
    return thread->error_code;
}

static hd_error record_backward(capturing *k) {
    hd_thread *thread = k->thread;
    bool tracked = false;
    for (int64_t i = 0; i < k->y->count; ++i) tracked = tracked || is_tracked(k->y->items[i]);
    if (!tracked) return HD_OK;
    k->graph_inputs = k->builder->recording->graph->input_count;
    k->e->back = hd_way_back_new(thread, k->y->count, k->x->count + k->c->parameters->count);
    hd_tensors **leaves = k->e->back == NULL ? NULL : hd_array_resize(NULL, (size_t)k->y->count * sizeof(*leaves));
    if (leaves == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a compiled model");
    const hd_error status = find_targets(k, leaves); /* which calls nothing of the user's */
    hd_array_release(leaves);
    return status == HD_OK ? record_walk(k) : status;
}

static hd_error record(capturing *k) {
    binding parameters = {k->builder, false}, buffers = {k->builder, true};
    HD_TRY(hd_module_each(k->c->model, false, bind, &parameters));
    HD_TRY(hd_module_each(k->c->model, true, bind, &buffers));
    if (!k->e->key.recorded) {
        HD_NO_GRAD;
        HD_TRY(record_forward(k));
        return name_outputs(k);
    }
    HD_TRY(record_forward(k));
    HD_TRY(separate_outputs(k));
    HD_TRY(name_outputs(k));
    return record_backward(k);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */
static hd_captured *new_captured(const hd_capture_key *key, hd_tensor *const *x) {
    hd_captured *e = hd_array_resize(NULL, sizeof *e);
    hd_input_kind *own = hd_array_resize(NULL, (size_t)(key->inputs + 1) * sizeof *own);
    if (e != NULL && own != NULL) {
        *e = (hd_captured){.key = *key, .inputs = own};
        for (int64_t i = 0; i < key->inputs; ++i) own[i] = hd_input_kind_of(key, x[i]);
        return e;
    }
    hd_array_release(e);
    hd_array_release(own);
    hd_fail(HD_ERROR_MEMORY, "no memory for a compiled model");
    return NULL;
}

/* Makes scripts of what was recorded. */
static hd_error make_scripts(const capturing *k) {
    hd_thread *thread = k->thread;
    hd_captured *e = k->e;
    hd_graph *whole = hd_builder_graph(k->builder);
    if (whole == NULL) return thread->error_code;
    if (e->back == NULL) {
        e->forward = configured(thread, whole, &k->c->opts);
        return thread->error_code;
    }
    hd_cut cut;
    HD_TRY(hd_graph_cut(thread, whole, k->graph_inputs, (uint32_t)k->y->count, &cut));
    e->forward = configured(thread, cut.forward, &k->c->opts);
    e->back->backward = configured(thread, cut.backward, &k->c->opts);
    e->back->saved = cut.saved;
    hd_graph_release(thread, cut.forward);
    hd_graph_release(thread, cut.backward);
    return thread->error_code;
}

/* A longjmp out of the model: the builder goes with its scope. */
static void capture_left(hd_thread *thread, const hd_ending *ending) { hd_captured_release(thread, ending->object); }

hd_captured *hd_capture(hd_thread *thread, const hd_compiled *c, const hd_capture_key *key, hd_tensor *const *x) {
    hd_span span;
    hd_span_begin(&span, thread, "compile");
    capturing k = {.thread = thread, .c = c, .e = new_captured(key, x)};
    if (k.e != NULL) k.builder = hd_builder_new("compiled");
    if (k.builder != NULL && hd_ending_push(thread, capture_left, k.e, 0, 0) == HD_OK) {
        const uint32_t ending = hd_ending_last(thread);
        hd_builder_start(k.builder);
        record(&k);
        hd_builder_end(k.builder);
        hd_ending_pop(thread, ending);
    }
    if (thread->error_code == HD_OK) make_scripts(&k);
    hd_span_end(&span, NULL);
    if (thread->error_code == HD_OK) return k.e;
    hd_captured_release(thread, k.e);
    return NULL;
}

hd_outputs *hd_capture_run(hd_thread *thread, hd_script *s) {
    hd_outputs *out = thread->error_code == HD_OK ? hd_script_run_taken(thread, s) : NULL;
    hd_script_drop_inputs(thread, s);
    if (s->last != NULL) hd_object_release(thread, &s->last->object);
    s->last = NULL;
    return out;
}
