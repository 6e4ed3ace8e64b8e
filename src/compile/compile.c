/* hd_compile: a module that is captured at its first call with inputs of a kind, and compiled.
 *
 * For training one joint graph of the forward pass and its gradients is captured, and cut in two: what does not depend
 * on the gradient of the output is the forward script, whose further outputs are the values the backward script reads.
 * They are ordinary tensors, so two forwards before one backward work. The tape gets one record. */
#include "compile/cut.h"
#include "core/device.h"
#include "grad/tape.h"
#include "graph/builder.h"
#include "nn/module.h"
#include "script/script.h"

#include <stdio.h>
#include <string.h>

/* What one captured graph depends on. */
typedef struct key {
    hd_dtype dtype, default_dtype;
    hd_matmul_precision precision;
    const hd_autocast *autocast;
    hd_shape shape;
    bool recorded;    /* a tape watches */
    uint64_t flags;   /* which of its modules are in training, when that counts: a hash */
    uint64_t members; /* what the model is made of: a hash */
    uint64_t wanted;  /* which parameters (and x) require gradients: a hash */
} key;

typedef struct entry {
    key key;
    uint64_t used;                 /* when, for the least recently used */
    hd_script *forward, *backward; /* retained; backward: NULL when y depends on nothing that is tracked */
    int64_t saved;                 /* outputs of the forward script behind y, which the backward script takes */
    hd_tensors *tracked;           /* retained: the parameters that gradients go to; those of x come before them */
    bool of_x;
} entry;

typedef struct compiled {
    hd_module *model; /* held by the module as a member */
    hd_compile_opts opts;
    hd_tensors *parameters;  /* retained: all of the model's */
    uint64_t members, flags; /* hd_module_hash of it, */
    uint64_t structure;      /* and hd_module_structure when these were found */
    entry **entries;
    int64_t count;
    uint64_t clock;
    hd_compile_figures stats;
} compiled;

/* ---- one captured graph ------------------------------------------------------------------------------------------ */
static void entry_release(hd_thread *thread, entry *e) {
    if (e == NULL) return;
    if (e->forward != NULL) hd_object_release(thread, (hd_object *)e->forward);
    if (e->backward != NULL) hd_object_release(thread, (hd_object *)e->backward);
    if (e->tracked != NULL) hd_object_release(thread, &e->tracked->object);
    hd_array_release(e);
}

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

static hd_script *configured(hd_thread *thread, hd_graph *graph, const hd_compile_opts *o) {
    hd_script *s = hd_script_over(thread, graph, false);
    if (s == NULL) return NULL;
    s->compiler = o->compiler;
    s->level = o->optimization_level;
    s->device = o->device;
    hd_object_retain(&s->object);
    return s;
}

/* Looks at the model again, when some module has changed: to collect parameters takes longer than to run a small
 * script. */
static hd_error look_again(hd_thread *thread, compiled *c) {
    const uint64_t structure = hd_module_structure();
    if (c->parameters != NULL && c->structure == structure) return HD_OK;
    hd_tensors *all = hd_module_parameters(c->model);
    if (all == NULL) return thread->error_code;
    hd_object_retain(&all->object);
    if (c->parameters != NULL) hd_object_release(thread, &c->parameters->object);
    c->parameters = all;
    HD_TRY(hd_module_hash(c->model, &c->members, &c->flags));
    c->structure = structure;
    return HD_OK;
}

/* Which parameters require gradients, which may change at any time: how many, and a hash of them. */
static int64_t count_tracked(const hd_tensors *all, uint64_t *hash) {
    int64_t count = 0;
    for (int64_t i = 0; i < all->count; ++i) {
        if (all->items[i]->tracking == HD_UNTRACKED) continue;
        *hash = (*hash * 31 + (uintptr_t)all->items[i]) * 0x9e3779b97f4a7c15u;
        ++count;
    }
    return count;
}

/* Forward of the model itself: messages name the call in it that fails, and where that stands. NULL with an error. */
static hd_tensor *plain_forward(hd_thread *thread, hd_module *model, hd_tensor *x) {
    const uint32_t layer = thread->layer_count++;
    if (layer < HD_LAYERS_NOTED) thread->layers[layer] = (hd_layer){.kind = NULL, .caller = thread->caller};
    hd_tensor *y = hd_forward(model, x);
    thread->layer_count = layer;
    return y;
}

/* The same, recorded; what it writes beside its buffers a run would not write. */
static hd_tensor *recorded_forward(hd_thread *thread, hd_module *model, hd_recording *r, hd_tensor *input) {
    const uint32_t given = hd_recording_node(thread, r, input);
    hd_tensor *y = plain_forward(thread, model, input);
    hd_shape shape;
    if (y == NULL) return NULL;
    if (hd_recording_wrote(r, &shape))
        hd_fail(HD_ERROR_STATE,
                "the model writes into a tensor %s that is no buffer of it; hd_module_add_buffer makes it one",
                HD_SHAPE_TEXT(shape));
    else if (hd_recording_node(thread, r, input) != given)
        hd_fail(HD_ERROR_STATE, "the model writes into its input; let it write into a copy (hd_copy)");
    return thread->error_code == HD_OK ? y : NULL;
}

static bool holds(const hd_tensors *list, const hd_tensor *t) {
    for (int64_t i = 0; i < list->count; ++i)
        if (list->items[i] == t) return true;
    return false;
}

/* What y came from: x, and parameters of the model, which are noted in e. Anything else would get no gradient. */
static hd_error find_tracked(hd_thread *thread, const compiled *c, const hd_tensor *y, const hd_tensor *input,
                             entry *e) {
    const hd_tensors *leaves = hd_leaves_of(thread, y);
    if (leaves == NULL) return thread->error_code;
    int64_t count = 0;
    for (int64_t i = 0; i < leaves->count; ++i) {
        const bool known = leaves->items[i] == input || holds(c->parameters, leaves->items[i]);
        if (!known)
            return hd_fail(HD_ERROR_STATE,
                           "the model reads a tensor %s that requires a gradient and is none of its parameters; "
                           "hd_module_add_parameter makes it one",
                           HD_SHAPE_TEXT(leaves->items[i]->layout.shape));
        count += leaves->items[i] != input;
    }
    hd_tensors *tracked = hd_tensors_new(thread, count);
    if (tracked == NULL) return thread->error_code;
    for (int64_t i = 0, k = 0; i < c->parameters->count; ++i)
        if (holds(leaves, c->parameters->items[i])) hd_tensors_put(tracked, k++, c->parameters->items[i]);
    hd_object_retain(&tracked->object);
    e->tracked = tracked;
    e->of_x = holds(leaves, input);
    return HD_OK;
}

/* Records y, and for training the gradients for what is tracked, as outputs "y" and "g0", "g1", ... */
static hd_error record(hd_thread *thread, const compiled *c, hd_builder *b, const hd_tensor *x, bool of_x, entry *e) {
    binding parameters = {b, false}, buffers = {b, true};
    HD_TRY(hd_module_each(c->model, false, bind, &parameters));
    HD_TRY(hd_module_each(c->model, true, bind, &buffers));
    hd_tensor *input = hd_input("x", x->layout.shape, (hd_dtype)x->dtype);
    if (input == NULL) return thread->error_code;
    if (!e->key.recorded) {
        HD_NO_GRAD;
        hd_builder_add_output(b, "y", recorded_forward(thread, c->model, b->recording, input));
        return thread->error_code;
    }
    if (of_x) input->tracking = HD_TRACKED_LEAF; /* of what is recorded */
    hd_tensor *y = recorded_forward(thread, c->model, b->recording, input);
    if (y != NULL && y->tracking == HD_TRACKED_LEAF) y = hd_mul_scalar(y, 1); /* x itself, or a parameter: no record */
    hd_builder_add_output(b, "y", y);
    if (thread->error_code != HD_OK || y->tracking == HD_UNTRACKED) return thread->error_code;
    HD_TRY(find_tracked(thread, c, y, input, e));
    hd_tensor *seed = hd_input("gradient of y", y->layout.shape, (hd_dtype)y->dtype);
    hd_tensors *wanted = hd_tensors_new(thread, e->tracked->count + e->of_x);
    if (wanted == NULL || seed == NULL) return thread->error_code;
    if (e->of_x) hd_tensors_put(wanted, 0, input);
    for (int64_t i = 0; i < e->tracked->count; ++i) hd_tensors_put(wanted, i + e->of_x, e->tracked->items[i]);
    hd_tensors *gradients = hd_gradients_inside(thread, y, wanted, seed);
    for (int64_t i = 0; gradients != NULL && i < gradients->count; ++i) {
        char name[24];
        snprintf(name, sizeof name, "g%lld", (long long)i);
        hd_builder_add_output(b, name, gradients->items[i]);
    }
    return thread->error_code;
}

/* A longjmp out of the model: the builder goes with its scope. */
static void capture_left(hd_thread *thread, const hd_ending *ending) { entry_release(thread, ending->object); }

static entry *capture(hd_thread *thread, compiled *c, const hd_tensor *x, const key *k, bool of_x) {
    hd_span span;
    hd_span_begin(&span, thread, "compile");
    entry *e = hd_array_resize(NULL, sizeof *e);
    if (e == NULL) hd_fail(HD_ERROR_MEMORY, "no memory for a compiled model");
    if (e != NULL) *e = (entry){.key = *k};
    hd_builder *b = e == NULL ? NULL : hd_builder_new("compiled");
    if (b != NULL && hd_ending_push(thread, capture_left, e, 0, 0) == HD_OK) {
        const uint32_t ending = hd_ending_last(thread);
        hd_builder_start(b);
        record(thread, c, b, x, of_x, e);
        hd_builder_end(b);
        hd_ending_pop(thread, ending);
    }
    hd_graph *whole = thread->error_code == HD_OK ? hd_builder_graph(b) : NULL;
    if (whole != NULL && e->tracked == NULL) {
        e->forward = configured(thread, whole, &c->opts);
    } else if (whole != NULL) {
        hd_cut cut;
        if (hd_graph_cut(thread, whole, "gradient of y", &cut) == HD_OK) {
            e->forward = configured(thread, cut.forward, &c->opts);
            e->backward = configured(thread, cut.backward, &c->opts);
            e->saved = cut.saved;
            hd_graph_release(thread, cut.forward);
            hd_graph_release(thread, cut.backward);
        }
    }
    hd_span_end(&span, NULL);
    if (thread->error_code == HD_OK) return e;
    entry_release(thread, e);
    return NULL;
}

/* Runs a script that is taken with the inputs that are set, and forgets them and the outputs: values live as long as
 * the tape needs them. */
static hd_outputs *run_once(hd_thread *thread, hd_script *s) {
    hd_outputs *out = thread->error_code == HD_OK ? hd_script_run_taken(thread, s) : NULL;
    hd_script_drop_inputs(thread, s);
    if (s->last != NULL) hd_object_release(thread, &s->last->object);
    s->last = NULL;
    return out;
}

/* ---- the record on the tape -------------------------------------------------------------------------------------- */
/* One forward run: what its backward needs. */
typedef struct call {
    hd_external external;
    hd_script *backward; /* retained */
    hd_tensors *saved;   /* retained */
    uint32_t versions[]; /* of the parameters that it reads */
} call;

static void call_destroy(hd_thread *thread, hd_object *object) {
    call *c = (call *)object;
    hd_object_release(thread, (hd_object *)c->backward);
    hd_object_release(thread, &c->saved->object);
    hd_array_release(c);
}
static const hd_kind call_kind = {.name = "compiled call", .destroy = call_destroy};

/* Calls of one model share their backward script, also those on tapes of other threads. */
static hd_error take_backward(hd_use *use, hd_thread *thread, hd_script *s) {
    const hd_error status = hd_use_begin(use, thread, &s->object, false);
    if (status != HD_OK) hd_error_append(thread, " (it is of a compiled model: hd_compile it once for each thread)");
    return status;
}

static void call_vjp(hd_thread *thread, hd_external *self, hd_tensor *gradient, hd_tensor **results) {
    call *c = (call *)self;
    const hd_graph *g = c->backward->graph;
    hd_use use __attribute__((cleanup(hd_use_end)));
    if (take_backward(&use, thread, c->backward) != HD_OK) return;
    for (uint32_t i = 0; i < g->cell_count; ++i)
        if (c->backward->cells[i]->version != c->versions[i]) {
            const hd_shape shape = hd_node_shape(g, g->cells[i].node);
            hd_fail(HD_ERROR_STATE,
                    "the parameter \"%s\", %s, of the compiled model was changed in place after it was used; call "
                    "hd_backward before",
                    hd_graph_string(g, g->cells[i].name), HD_SHAPE_TEXT(shape));
            return;
        }
    for (uint32_t i = 0; i < g->input_count; ++i) { /* "saved <n>": a saved value; else the gradient of y */
        const char *name = hd_graph_string(g, g->inputs[i].name);
        long long number;
        const bool saved = sscanf(name, "saved %lld", &number) == 1;
        hd_script_put_input(thread, c->backward, name, saved ? c->saved->items[number] : gradient);
    }
    hd_outputs *out = run_once(thread, c->backward);
    for (uint32_t i = 0; out != NULL && i < out->count; ++i) results[i] = out->items[i];
}

static hd_error put_on_tape(hd_thread *thread, const entry *e, hd_tensor *y, hd_tensor *x, const hd_outputs *out) {
    const uint32_t cells = e->backward->graph->cell_count;
    call *c = hd_array_resize(NULL, sizeof *c + cells * sizeof *c->versions);
    hd_tensors *saved = c == NULL ? NULL : hd_tensors_new(thread, e->saved);
    hd_tensors *inputs = saved == NULL ? NULL : hd_tensors_new(thread, e->tracked->count + e->of_x);
    if (inputs == NULL) {
        hd_array_release(c);
        return hd_fail(HD_ERROR_MEMORY, "no memory for a record");
    }
    for (int64_t i = 0; i < e->saved; ++i) hd_tensors_put(saved, i, out->items[1 + i]);
    if (e->of_x) hd_tensors_put(inputs, 0, x);
    for (int64_t i = 0; i < e->tracked->count; ++i) hd_tensors_put(inputs, i + e->of_x, e->tracked->items[i]);
    *c = (call){.external = {.name = "a compiled model", .vjp = call_vjp}, .backward = e->backward, .saved = saved};
    hd_object_init(&c->external.object, &call_kind);
    hd_object_retain(&e->backward->object);
    hd_object_retain(&saved->object);
    for (uint32_t i = 0; i < cells; ++i) c->versions[i] = e->backward->cells[i]->version;
    const hd_error status = hd_record_external(thread, y, inputs, &c->external);
    hd_object_release(thread, &c->external.object);
    return status;
}

/* ---- the cache --------------------------------------------------------------------------------------------------- */
static bool same_key(const key *a, const key *b) {
    return a->dtype == b->dtype && a->default_dtype == b->default_dtype && a->precision == b->precision &&
           a->autocast == b->autocast && hd_shape_equal(a->shape, b->shape) && a->flags == b->flags &&
           a->recorded == b->recorded && a->members == b->members && a->wanted == b->wanted;
}

static entry *find_entry(compiled *c, const key *k) {
    for (int64_t i = 0; i < c->count; ++i)
        if (same_key(&c->entries[i]->key, k)) {
            c->entries[i]->used = ++c->clock;
            c->stats.hits++;
            return c->entries[i];
        }
    return NULL;
}

static hd_error add_entry(hd_thread *thread, compiled *c, entry *e) {
    int64_t at = c->count;
    if (c->count == c->opts.cache_limit) { /* the least recently used goes */
        at = 0;
        for (int64_t i = 1; i < c->count; ++i)
            if (c->entries[i]->used < c->entries[at]->used) at = i;
        entry_release(thread, c->entries[at]);
        c->stats.evictions++;
    } else {
        entry **moved = hd_array_resize(c->entries, (size_t)(c->count + 1) * sizeof *moved);
        if (moved == NULL) {
            entry_release(thread, e);
            return hd_fail(HD_ERROR_MEMORY, "no memory for a compiled model");
        }
        c->entries = moved;
        c->count++;
    }
    e->used = ++c->clock;
    c->entries[at] = e;
    c->stats.captures++;
    return HD_OK;
}

/* ---- the module -------------------------------------------------------------------------------------------------- */
static hd_tensor *run_eager(hd_thread *thread, compiled *c, hd_tensor *x) {
    if (c->opts.mode != HD_MODE_EVALUATION) return hd_forward(c->model, x);
    HD_NO_GRAD;
    thread->evaluations++;
    hd_tensor *y = hd_forward(c->model, x);
    thread->evaluations--;
    return y;
}

static hd_tensor *compiled_forward(hd_module *module, hd_tensor *x) {
    hd_thread *thread = hd_thread_self();
    if (thread->layer_count > 0 && thread->layer_count <= HD_LAYERS_NOTED)
        thread->layers[thread->layer_count - 1].module = NULL; /* what is read here, the model reads */
    compiled *c = module->state;
    if (c->opts.backend == HD_BACKEND_EAGER || thread->executor->captures) return run_eager(thread, c, x);
    HD_USE(&module->object, false, NULL); /* the cache, and the scripts in it */
    const bool evaluation = c->opts.mode == HD_MODE_EVALUATION;
    const bool recorded = !evaluation && thread->observer != NULL && thread->observer->writes != NULL;
    hd_span span;
    hd_span_begin(&span, thread, "forward");
    const bool of_x = recorded && x->tracking != HD_UNTRACKED;
    if (look_again(thread, c) != HD_OK) return hd_span_end(&span, NULL);
    key k = {.dtype = (hd_dtype)x->dtype,
             .default_dtype = thread->default_dtype,
             .precision = thread->matmul_precision,
             .autocast = thread->autocast,
             .shape = x->layout.shape,
             .flags = evaluation ? 0 : c->flags,
             .members = c->members};
    if (recorded) {
        k.wanted = of_x;
        k.recorded = count_tracked(c->parameters, &k.wanted) > 0 || of_x;
    }
    entry *e = find_entry(c, &k);
    if (e == NULL) {
        thread->evaluations += evaluation;
        e = capture(thread, c, x, &k, of_x);
        thread->evaluations -= evaluation;
        if (e != NULL && add_entry(thread, c, e) != HD_OK) e = NULL;
    }
    hd_tensor *y = NULL;
    if (e != NULL) {
        hd_script_put_input(thread, e->forward, "x", x); /* nobody else has the script: see compiled_forward */
        hd_outputs *out = run_once(thread, e->forward);
        if (out != NULL) y = hd_scope_share(thread, &out->items[0]->object);
        if (y != NULL && e->backward != NULL) put_on_tape(thread, e, y, x, out);
    }
    return hd_span_end(&span, y);
}

static void compiled_destroy(void *state) {
    compiled *c = state;
    hd_thread *thread = hd_thread_self();
    for (int64_t i = 0; i < c->count; ++i) entry_release(thread, c->entries[i]);
    if (c->parameters != NULL) hd_object_release(thread, &c->parameters->object);
    hd_array_release(c->entries);
    hd_array_release(c);
}
static const hd_module_class compiled_class = {
    .name = "compiled", .forward = compiled_forward, .destroy = compiled_destroy};

static hd_error check_options(const hd_thread *thread, hd_compile_opts *o) {
    const hd_optimization_level level = o->optimization_level;
    if (o->backend != HD_BACKEND_DEFAULT && o->backend != HD_BACKEND_EAGER && o->backend != HD_BACKEND_GRAPH)
        return hd_fail(HD_ERROR_VALUE, "%d is no backend; there are HD_BACKEND_EAGER and HD_BACKEND_GRAPH",
                       (int)o->backend);
    if (o->mode != HD_MODE_DEFAULT && o->mode != HD_MODE_TRAINING && o->mode != HD_MODE_EVALUATION)
        return hd_fail(HD_ERROR_VALUE, "%d is no mode; there are HD_MODE_TRAINING and HD_MODE_EVALUATION",
                       (int)o->mode);
    if (level != HD_LEVEL_DEFAULT && (level < HD_O0 || level > HD_O3))
        return hd_fail(HD_ERROR_VALUE, "%d is no level; there are HD_O0 to HD_O3", (int)level);
    if (o->compiler != 0 && o->compiler != HD_COMPILER_HODU && o->compiler != HD_COMPILER_XLA)
        return hd_fail(HD_ERROR_VALUE, "%d is no compiler; there are HD_COMPILER_HODU and HD_COMPILER_XLA",
                       (int)o->compiler);
    if (o->backend == HD_BACKEND_DEFAULT) o->backend = HD_BACKEND_EAGER;
    if (o->backend == HD_BACKEND_EAGER && ((level != HD_LEVEL_DEFAULT && level != HD_O1) || o->compiler != 0))
        return hd_fail(HD_ERROR_VALUE,
                       "the eager backend compiles nothing, so a compiler or a level other than HD_O1, the default, "
                       "has no meaning; say .backend = HD_BACKEND_GRAPH");
    if (o->compiler == 0 && o->backend == HD_BACKEND_GRAPH) HD_TRY(hd_compiler_default(&o->compiler));
    if (level == HD_LEVEL_DEFAULT) o->optimization_level = HD_O1;
    if (o->device.kind == HD_DEVICE_DEFAULT) o->device = thread->device;
    if (o->backend == HD_BACKEND_GRAPH) HD_TRY(hd_compiler_check(o->compiler, o->device));
    if (o->backend == HD_BACKEND_EAGER && !hd_device_available(o->device))
        return hd_fail(HD_ERROR_DEVICE, "device %s is not available here: %s", hd_device_text((char[32]){0}, o->device),
                       hd_device_runs_no_ops((char[HD_DEVICE_REASON]){0}, o->device));
    if (o->cache_limit == 0) o->cache_limit = 8;
    return o->cache_limit > 0 ? HD_OK : hd_fail(HD_ERROR_VALUE, "a cache of %lld graphs", (long long)o->cache_limit);
}

hd_module *hd_compile(hd_module *model, const hd_compile_opts *opts) {
    HD_ENTER("hd_compile", NULL);
    HD_READ_OPTS(hd_compile_opts, opts, NULL);
    if (model == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`model` is NULL");
        return NULL;
    }
    const bool moves = options.device.kind != HD_DEVICE_DEFAULT && options.backend != HD_BACKEND_GRAPH;
    HD_TRY_OR(check_options(thread, &options), NULL);
    if (moves) { /* ops run where their operands are */
        HD_KEEP_NAME(thread);
        hd_module_to(model, options.device);
        if (thread->error_code != HD_OK) return NULL;
    }
    compiled *c = hd_array_resize(NULL, sizeof *c);
    if (c == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a compiled model");
        return NULL;
    }
    *c = (compiled){.model = model, .opts = options};
    HD_KEEP_NAME(thread);
    hd_module *m = hd_module_new(&compiled_class, c);
    if (m == NULL) hd_array_release(c);
    if (m != NULL && hd_module_add(m, "model", model) == NULL) m = NULL;
    if (m != NULL) m->training = model->training;
    return m;
}

/* What hd_compile made of a model; NULL with an error for other modules. */
static const compiled *compiled_of(hd_thread *thread, const hd_module *module) {
    HD_KEEP_NAME(thread);
    const bool mine = hd_module_state(module) != NULL && module->class_ == &compiled_class;
    if (!mine) hd_fail(HD_ERROR_STATE, "the module is none that hd_compile made");
    return mine ? module->state : NULL;
}

hd_compile_figures hd_compile_stats(const hd_module *module) {
    hd_compile_figures stats = {0};
    HD_ENTER_ALWAYS("hd_compile_stats", stats);
    const compiled *c = compiled_of(thread, module);
    if (c == NULL) return stats;
    HD_USE(&((hd_module *)module)->object, true, stats);
    stats = c->stats;
    stats.entries = c->count;
    return stats;
}

hd_script *hd_compile_script(const hd_module *module) {
    HD_ENTER("hd_compile_script", NULL);
    const compiled *c = compiled_of(thread, module);
    if (c == NULL) return NULL;
    HD_USE(&((hd_module *)module)->object, true, NULL);
    const entry *last = NULL;
    for (int64_t i = 0; i < c->count; ++i)
        if (last == NULL || c->entries[i]->used > last->used) last = c->entries[i];
    if (last == NULL) {
        hd_fail(HD_ERROR_STATE, c->opts.backend == HD_BACKEND_EAGER
                                    ? "the eager backend has no script; say .backend = HD_BACKEND_GRAPH"
                                    : "no call has captured the model yet; hd_forward does");
        return NULL;
    }
    HD_KEEP_NAME(thread);
    return hd_script_clone(last->forward);
}
