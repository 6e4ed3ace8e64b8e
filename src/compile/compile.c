/* hd_compile: a module that is captured at its first call with inputs of a kind, and compiled. */
#include "compile/compiled.h"
#include "core/device.h"

/* ---- the model as it is now -------------------------------------------------------------------------------------- */
/* Looks at the model again, when some module has changed: to collect parameters takes longer than to run a small
 * script. */
static hd_error look_again(hd_thread *thread, hd_compiled *c) {
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

/* Which parameters require gradients, which may change at any time: a hash. */
static uint64_t hash_tracked(const hd_tensors *all) {
    uint64_t hash = 0;
    for (int64_t i = 0; i < all->count; ++i)
        if (all->items[i]->tracking != HD_UNTRACKED)
            hash = (hash * 31 + (uintptr_t)all->items[i]) * 0x9e3779b97f4a7c15u;
    return hash;
}

/* One call: what it is given, and how. */
typedef struct passing {
    hd_tensor *const *x;
    int64_t count;
    bool list; /* by hd_forward_all */
    hd_capture_key key;
} passing;

/* ---- the cache --------------------------------------------------------------------------------------------------- */
static bool same_key(const hd_capture_key *a, const hd_capture_key *b) {
    return a->inputs == b->inputs && a->default_dtype == b->default_dtype && a->precision == b->precision &&
           a->all == b->all && a->flags == b->flags && a->recorded == b->recorded && a->members == b->members &&
           a->wanted == b->wanted;
}

static bool same_inputs(const hd_input_kind *kinds, const passing *p) {
    bool same = true;
    for (int64_t i = 0; i < p->count && same; ++i) {
        const hd_input_kind now = hd_input_kind_of(&p->key, p->x[i]);
        same =
            kinds[i].dtype == now.dtype && kinds[i].wanted == now.wanted && hd_shape_equal(kinds[i].shape, now.shape);
    }
    return same;
}

static hd_captured *find_entry(hd_compiled *c, const passing *p) {
    for (int64_t i = 0; i < c->count; ++i)
        if (same_key(&c->entries[i]->key, &p->key) && same_inputs(c->entries[i]->inputs, p)) {
            c->entries[i]->used = ++c->clock;
            c->stats.hits++;
            return c->entries[i];
        }
    return NULL;
}

static hd_error add_entry(hd_thread *thread, hd_compiled *c, hd_captured *e) {
    int64_t at = c->count;
    if (c->count == c->opts.cache_limit) { /* the least recently used goes */
        at = 0;
        for (int64_t i = 1; i < c->count; ++i)
            if (c->entries[i]->used < c->entries[at]->used) at = i;
        hd_captured_release(thread, c->entries[at]);
        c->stats.evictions++;
    } else {
        hd_captured **moved = hd_array_resize(c->entries, (size_t)(c->count + 1) * sizeof *moved);
        if (moved == NULL) {
            hd_captured_release(thread, e);
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
/* The model itself. */
static hd_tensors *run_plain(hd_thread *thread, const hd_compiled *c, hd_tensors *inputs, const passing *p) {
    if (p->list) return hd_forward_all(c->model, inputs);
    hd_tensor *y = hd_forward(c->model, p->x[0]);
    hd_tensors *list = y == NULL ? NULL : hd_tensors_new(thread, 1);
    if (list != NULL) hd_tensors_put(list, 0, y);
    return list;
}

static hd_tensors *run_eager(hd_thread *thread, const hd_compiled *c, hd_tensors *inputs, const passing *p) {
    if (c->opts.mode != HD_MODE_EVALUATION) return run_plain(thread, c, inputs, p);
    HD_NO_GRAD;
    thread->evaluations++;
    hd_tensors *y = run_plain(thread, c, inputs, p);
    thread->evaluations--;
    return y;
}

static hd_captured *capture_now(hd_thread *thread, hd_compiled *c, const passing *p) {
    const bool evaluation = c->opts.mode == HD_MODE_EVALUATION;
    thread->evaluations += evaluation;
    hd_captured *e = hd_capture(thread, c, &p->key, p->x);
    thread->evaluations -= evaluation;
    return e != NULL && add_entry(thread, c, e) == HD_OK ? e : NULL;
}

/* Runs what was captured; nobody else has the script. */
static hd_tensors *run_captured(hd_thread *thread, const hd_captured *e, const passing *p) {
    const hd_graph *g = e->forward->graph;
    for (int64_t i = 0; i < p->count; ++i)
        hd_script_put_input(thread, e->forward, hd_graph_string(g, g->inputs[i].name), p->x[i]);
    hd_outputs *out = hd_capture_run(thread, e->forward);
    const int64_t count = e->back != NULL ? e->back->outputs : g->output_count;
    hd_tensors *y = out == NULL ? NULL : hd_tensors_new(thread, count);
    for (int64_t i = 0; y != NULL && i < count; ++i) hd_tensors_put(y, i, out->items[i]);
    if (y != NULL && e->back != NULL) hd_way_back_note(thread, e->back, p->x, y, out);
    return thread->error_code == HD_OK ? y : NULL;
}

/* `inputs`: the same as those of p, when it is by hd_forward_all. */
static hd_tensors *run_compiled(hd_module *module, hd_tensors *inputs, passing *p) {
    hd_thread *thread = hd_thread_self();
    if (thread->layer_count > 0 && thread->layer_count <= HD_LAYERS_NOTED)
        thread->layers[thread->layer_count - 1].module = NULL; /* what is read here, the model reads */
    hd_compiled *c = module->state;
    const hd_module_class *of = c->model->class_;
    if (c->opts.backend == HD_BACKEND_EAGER || thread->executor->captures) return run_eager(thread, c, inputs, p);
    HD_USE(&module->object, false, NULL); /* the cache, and the scripts in it */
    const bool evaluation = c->opts.mode == HD_MODE_EVALUATION;
    const bool recorded = !evaluation && thread->observer != NULL && thread->observer->writes != NULL;
    hd_span span;
    hd_span_begin(&span, thread, "forward");
    if (look_again(thread, c) != HD_OK) return (void)hd_span_end(&span, NULL), NULL;
    p->key = (hd_capture_key){.default_dtype = thread->default_dtype,
                              .precision = thread->matmul_precision,
                              .all = of->forward == NULL || (p->list && (of->forward_all != NULL || p->count != 1)),
                              .recorded = recorded,
                              .flags = evaluation ? 0 : c->flags,
                              .members = c->members,
                              .inputs = p->count};
    if (recorded) p->key.wanted = hash_tracked(c->parameters);
    hd_captured *e = find_entry(c, p);
    if (e == NULL) e = capture_now(thread, c, p);
    hd_tensors *y = e == NULL ? NULL : run_captured(thread, e, p);
    if (y != NULL && span.token.self != NULL) hd_keep_object(y);
    hd_span_end(&span, NULL);
    return thread->error_code == HD_OK ? y : NULL;
}

static hd_tensor *compiled_forward(hd_module *module, hd_tensor *x) {
    hd_tensors *y = run_compiled(module, NULL, &(passing){.x = &x, .count = 1});
    return y == NULL ? NULL : hd_scope_share(hd_thread_self(), &y->items[0]->object);
}

static hd_tensors *compiled_forward_all(hd_module *module, hd_tensors *inputs) {
    return run_compiled(module, inputs, &(passing){.x = inputs->items, .count = inputs->count, .list = true});
}

static void compiled_destroy(void *state) {
    hd_compiled *c = state;
    hd_thread *thread = hd_thread_self();
    for (int64_t i = 0; i < c->count; ++i) hd_captured_release(thread, c->entries[i]);
    if (c->parameters != NULL) hd_object_release(thread, &c->parameters->object);
    hd_array_release(c->entries);
    hd_array_release(c);
}
static const hd_module_class compiled_class = {
    .name = "compiled", .forward = compiled_forward, .destroy = compiled_destroy, .forward_all = compiled_forward_all};

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
    hd_compiled *c = hd_array_resize(NULL, sizeof *c);
    if (c == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a compiled model");
        return NULL;
    }
    *c = (hd_compiled){.model = model, .opts = options};
    HD_KEEP_NAME(thread);
    hd_module *m = hd_module_new(&compiled_class, c);
    if (m == NULL) hd_array_release(c);
    if (m != NULL && hd_module_add(m, "model", model) == NULL) m = NULL;
    if (m != NULL) m->training = model->training;
    return m;
}

/* What hd_compile made of a model; NULL with an error for other modules. */
static const hd_compiled *compiled_of(hd_thread *thread, const hd_module *module) {
    HD_KEEP_NAME(thread);
    const bool mine = hd_module_state(module) != NULL && module->class_ == &compiled_class;
    if (!mine) hd_fail(HD_ERROR_STATE, "the module is none that hd_compile made");
    return mine ? module->state : NULL;
}

hd_compile_figures hd_compile_stats(const hd_module *module) {
    hd_compile_figures stats = {0};
    HD_ENTER_ALWAYS("hd_compile_stats", stats);
    const hd_compiled *c = compiled_of(thread, module);
    if (c == NULL) return stats;
    HD_USE(&((hd_module *)module)->object, true, stats);
    stats = c->stats;
    stats.entries = c->count;
    return stats;
}

hd_script *hd_compile_script(const hd_module *module) {
    HD_ENTER("hd_compile_script", NULL);
    const hd_compiled *c = compiled_of(thread, module);
    if (c == NULL) return NULL;
    HD_USE(&((hd_module *)module)->object, true, NULL);
    const hd_captured *last = NULL;
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
