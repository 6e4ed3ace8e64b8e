/* Scripts: inputs, choices, compiling and running. */
#include "script/script.h"
#include "core/away.h"
#include "core/environment.h"
#include "core/memory.h"
#include "core/os.h"
#include "core/profile.h"
#include "core/random.h"
#include "core/undo.h"
#include "grad/tape.h"
#include "graph/builder.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- compilers --------------------------------------------------------------------------------------------------- */
static struct {
    pthread_once_t once;
    const hd_compiler_interface *hodu, *xla;
} compilers = {.once = PTHREAD_ONCE_INIT};

void hd_compiler_register(hd_compiler compiler, const hd_compiler_interface *interface) {
    if (compiler == HD_COMPILER_HODU) compilers.hodu = interface;
    if (compiler == HD_COMPILER_XLA) compilers.xla = interface;
}

const hd_compiler_interface *hd_compiler_interface_of(hd_compiler compiler) {
    pthread_once(&compilers.once, hd_library_open_compilers);
    return compiler == HD_COMPILER_HODU ? compilers.hodu : compiler == HD_COMPILER_XLA ? compilers.xla : NULL;
}

hd_error hd_compiler_check(hd_compiler compiler, hd_device device) {
    const hd_compiler_interface *interface = hd_compiler_interface_of(compiler);
    if (interface != NULL) return interface->available(device);
    return compiler == HD_COMPILER_XLA ? hd_fail(HD_ERROR_DEVICE, "this library was built without XLA (HODU_XLA=OFF); "
                                                                  "HD_COMPILER_HODU is there")
                                       : hd_fail(HD_ERROR_DEVICE, "this library was linked without the compiler HODU");
}

hd_executable *hd_compiler_compile(hd_compiler compiler, hd_thread *thread, hd_graph *graph, hd_device device,
                                   hd_optimization_level level) {
    const hd_compiler_interface *interface = hd_compiler_interface_of(compiler);
    if (interface != NULL) return interface->compile(thread, graph, device, level);
    hd_compiler_check(compiler, device);
    return NULL;
}

hd_error hd_compiler_default(hd_compiler *out) {
    const char *wish = hd_environment("HODU_COMPILER");
    *out = HD_COMPILER_HODU;
    if (wish == NULL || strcmp(wish, "hodu") == 0) return HD_OK;
    *out = HD_COMPILER_XLA;
    if (strcmp(wish, "xla") == 0) return HD_OK;
    return hd_fail(HD_ERROR_VALUE, "HODU_COMPILER is \"%.60s\" in the environment; it can be hodu or xla", wish);
}

/* Why a compiler does not run on a device here; NULL: it does. What is pending stays so. */
static const char *why_not(hd_thread *thread, hd_compiler compiler, hd_device device, char out[512]) {
    if (compiler != HD_COMPILER_HODU && compiler != HD_COMPILER_XLA) return "there is no such compiler";
    HD_HOLD_ERRORS(thread);
    hd_error_copy before, why;
    hd_error_take(&before);
    const bool runs = hd_compiler_check(compiler, device) == HD_OK;
    hd_error_take(&why);
    hd_error_put_back(&before);
    if (runs) return NULL;
    const size_t name = strlen(why.call); /* in front of the message, with ": " */
    snprintf(out, 512, "%s", why.message + (name > 0 ? name + 2 : 0));
    return out;
}

const char *hd_compiler_missing(hd_compiler compiler, hd_device device) {
    HD_ENTER_ALWAYS("hd_compiler_missing", "there is no memory for this thread's context");
    return why_not(thread, compiler, device.kind == HD_DEVICE_DEFAULT ? thread->device : device, thread->reason);
}

bool hd_compiler_available(hd_compiler compiler) {
    HD_ENTER_ALWAYS("hd_compiler_available", false);
    return why_not(thread, compiler, thread->device, (char[512]){0}) == NULL;
}

/* ---- making and releasing ---------------------------------------------------------------------------------------- */
static void outputs_destroy(hd_thread *thread, hd_object *object) {
    hd_outputs *o = (hd_outputs *)object;
    for (uint32_t i = 0; i < o->count; ++i) hd_tensor_drop(thread, o->items[i]);
    hd_graph_release(thread, o->graph);
    hd_object_bury(thread, object);
}
static const hd_kind outputs_kind = {.name = "outputs", .destroy = outputs_destroy};

static void drop_executable(hd_thread *thread, hd_script *s) {
    if (s->executable != NULL) s->executable->destroy(s->executable, thread);
    s->executable = NULL;
}

static void script_destroy(hd_thread *thread, hd_object *object) {
    hd_script *s = (hd_script *)object;
    drop_executable(thread, s);
    if (s->last != NULL) hd_object_release(thread, &s->last->object);
    for (uint32_t i = 0; s->inputs != NULL && i < s->graph->input_count; ++i) hd_tensor_drop(thread, s->inputs[i]);
    for (uint32_t i = 0; s->cells != NULL && i < s->graph->cell_count; ++i)
        if (s->cells[i] != NULL) hd_object_release(thread, &s->cells[i]->object);
    hd_array_release(s->inputs);
    hd_array_release(s->cells);
    hd_graph_release(thread, s->graph);
    hd_object_bury(thread, object);
}
static const char *script_title(const hd_object *object) {
    const hd_graph *g = ((const hd_script *)object)->graph;
    return hd_graph_string(g, g->name);
}
static const hd_kind script_kind = {.name = "script",
                                    .destroy = script_destroy,
                                    .title = script_title,
                                    .remedy = "one thread at a time may use it: give each thread a script of its own "
                                              "with hd_script_clone, before they start"};

hd_error hd_script_check_argument(const hd_script *s) {
    if (s == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`script` is NULL");
    if (s->object.kind == &script_kind) return HD_OK;
    return hd_fail(s->object.kind == &hd_kind_released ? HD_ERROR_RELEASED : HD_ERROR_STATE,
                   "`script` is no living script");
}

hd_script *hd_script_over(hd_thread *thread, hd_graph *graph, bool own_state) {
    hd_compiler compiler;
    HD_TRY_OR(hd_compiler_default(&compiler), NULL);
    hd_script *s = hd_array_resize(NULL, sizeof *s);
    if (s == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a script");
        return NULL;
    }
    memset(s, 0, sizeof *s);
    hd_object_init(&s->object, &script_kind);
    hd_count(&thread->live_objects, 1);
    hd_object_retain(&graph->object);
    s->graph = graph;
    s->compiler = compiler;
    s->device = thread->device;
    s->level = HD_O2;
    s->inputs = hd_array_resize(NULL, (graph->input_count + 1) * sizeof *s->inputs);
    s->cells = hd_array_resize(NULL, (graph->cell_count + 1) * sizeof *s->cells);
    if (s->inputs != NULL) memset(s->inputs, 0, (graph->input_count + 1) * sizeof *s->inputs);
    if (s->cells != NULL) memset(s->cells, 0, (graph->cell_count + 1) * sizeof *s->cells);
    if (s->inputs == NULL || s->cells == NULL) hd_fail(HD_ERROR_MEMORY, "no memory for a script");
    for (uint32_t i = 0; s->cells != NULL && i < graph->cell_count && thread->error_code == HD_OK; ++i) {
        if (own_state) {
            s->cells[i] = hd_storage_snapshot(thread, graph->cells[i].storage);
        } else {
            hd_object_retain(&graph->cells[i].storage->object);
            s->cells[i] = graph->cells[i].storage;
        }
    }
    if (thread->error_code != HD_OK) {
        hd_object_release(thread, &s->object);
        return NULL;
    }
    return hd_scope_own(thread, &s->object) == HD_OK ? s : NULL;
}

hd_script *hd_builder_build(hd_builder *builder) {
    HD_ENTER("hd_builder_build", NULL);
    HD_TRY_OR(hd_builder_check(builder), NULL);
    HD_USE(&builder->object, false, NULL);
    hd_graph *graph = hd_builder_graph(builder);
    if (graph == NULL) return NULL;
#ifndef NDEBUG
    HD_TRY_OR(hd_graph_verify(thread, graph), NULL);
#endif
    return hd_script_over(thread, graph, false);
}

hd_script *hd_script_clone(hd_script *script) {
    HD_ENTER("hd_script_clone", NULL);
    HD_TRY_OR(hd_script_check_argument(script), NULL);
    HD_USE(&script->object, false, NULL);
    hd_script *s = hd_script_over(thread, script->graph, true);
    if (s == NULL) return NULL;
    s->compiler = script->compiler;
    s->device = script->device;
    s->level = script->level;
    for (uint32_t i = 0; i < script->graph->cell_count;
         ++i) { /* state as it is in the script, not as it was recorded */
        hd_storage *own = hd_storage_snapshot(thread, script->cells[i]);
        if (own == NULL) return NULL;
        hd_object_release(thread, &s->cells[i]->object);
        s->cells[i] = own;
    }
    for (uint32_t i = 0; i < script->graph->input_count; ++i) {
        s->inputs[i] = script->inputs[i];
        if (s->inputs[i] != NULL) hd_object_retain(&s->inputs[i]->object);
    }
    return s;
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */
void hd_script_put_input(hd_thread *thread, hd_script *s, const char *name, hd_tensor *t) {
    const hd_graph *g = s->graph;
    const uint32_t i = hd_graph_find(g, HD_NAME_INPUT, name);
    if (i == HD_NO_NODE) {
        char names[256];
        hd_script_list_names(g, HD_NAME_INPUT, names, sizeof names);
        hd_fail(HD_ERROR_VALUE, "the script \"%s\" has no input \"%s\"; it has %s", hd_graph_string(g, g->name),
                name ? name : "", names);
        return;
    }
    const uint32_t node = g->inputs[i].node;
    const hd_shape shape = hd_node_shape(g, node);
    if ((hd_dtype)t->dtype != (hd_dtype)g->nodes[node].dtype || !hd_shape_equal(t->layout.shape, shape)) {
        hd_fail((hd_dtype)t->dtype != (hd_dtype)g->nodes[node].dtype ? HD_ERROR_DTYPE : HD_ERROR_SHAPE,
                "the input \"%s\" is %s %s; given is %s %s", name, hd_dtype_name((hd_dtype)g->nodes[node].dtype),
                HD_SHAPE_TEXT(shape), hd_dtype_name((hd_dtype)t->dtype), HD_SHAPE_TEXT(t->layout.shape));
        return;
    }
    if (t->storage->home != NULL && t->storage->home->captured) {
        hd_fail(HD_ERROR_STATE, "the input \"%s\" is given a value that a builder recorded and that is not known yet",
                name);
        return;
    }
    hd_object_retain(&t->object);
    hd_tensor_drop(thread, s->inputs[i]);
    s->inputs[i] = t;
}

static void set_input(hd_thread *thread, hd_script *s, const char *name, hd_tensor *t) {
    if (hd_script_check_argument(s) != HD_OK || hd_tensor_check(t, "t") != HD_OK) return;
    HD_USE(&s->object, false, );
    hd_script_put_input(thread, s, name, t);
}

void hd_script_set_input(hd_script *script, const char *name, hd_tensor *t) {
    HD_ENTER("hd_script_set_input", );
    set_input(thread, script, name, t);
}
void hd_script_add_input(hd_script *script, const char *name, hd_tensor *t) {
    HD_ENTER("hd_script_add_input", );
    set_input(thread, script, name, t);
}

void hd_script_drop_inputs(hd_thread *thread, hd_script *s) {
    for (uint32_t i = 0; i < s->graph->input_count; ++i) {
        hd_tensor_drop(thread, s->inputs[i]);
        s->inputs[i] = NULL;
    }
}

void hd_script_clear_inputs(hd_script *script) {
    HD_ENTER_ALWAYS("hd_script_clear_inputs", );
    if (hd_script_check_argument(script) != HD_OK) return;
    HD_USE(&script->object, false, );
    hd_script_drop_inputs(thread, script);
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */
/* Checks that a compiler may run on some device. */
static hd_error check_present(hd_compiler compiler, hd_device device) {
    const hd_compiler_interface *interface = hd_compiler_interface_of(compiler);
    return interface != NULL && interface->present != NULL ? interface->present(device)
                                                           : hd_compiler_check(compiler, device);
}

static void choose_compiler(hd_thread *thread, hd_script *s, hd_compiler compiler) {
    HD_HOLD_ERRORS(thread);
    if (hd_script_check_argument(s) != HD_OK) return;
    HD_USE(&s->object, false, );
    if (compiler != HD_COMPILER_HODU && compiler != HD_COMPILER_XLA) {
        hd_fail(HD_ERROR_VALUE, "%d is no compiler; there are HD_COMPILER_HODU and HD_COMPILER_XLA", (int)compiler);
    } else if (compiler == HD_COMPILER_XLA && s->compiler != compiler && check_present(compiler, s->device) != HD_OK) {
        hd_error_append(thread, "; the script keeps HODU");
    } else if (s->compiler != compiler) { /* whether it runs on the device is seen when both have been chosen */
        drop_executable(thread, s);
        s->compiler = compiler;
    }
}

void hd_script_set_compiler(hd_script *script, hd_compiler compiler) {
    HD_ENTER("hd_script_set_compiler", );
    choose_compiler(thread, script, compiler);
}
void hd_script_set_backend(hd_script *script, hd_compiler compiler) {
    HD_ENTER("hd_script_set_backend", );
    choose_compiler(thread, script, compiler);
}

void hd_script_set_device(hd_script *script, hd_device device) {
    HD_ENTER("hd_script_set_device", );
    if (hd_script_check_argument(script) != HD_OK) return;
    HD_USE(&script->object, false, );
    if (script->device.kind == device.kind && script->device.index == device.index) return;
    char hodu[512], xla[512]; /* the compiler may be chosen later */
    if (why_not(thread, HD_COMPILER_HODU, device, hodu) != NULL &&
        why_not(thread, HD_COMPILER_XLA, device, xla) != NULL) {
        hd_fail(HD_ERROR_DEVICE, "device %s is not available here, and the script keeps its own. %.120s. %s",
                hd_device_text((char[32]){0}, device), hodu, xla);
        return;
    }
    drop_executable(thread, script);
    script->device = device;
}

void hd_script_set_optimization_level(hd_script *script, hd_optimization_level level) {
    HD_ENTER("hd_script_set_optimization_level", );
    if (hd_script_check_argument(script) != HD_OK) return;
    HD_USE(&script->object, false, );
    if (level != HD_LEVEL_DEFAULT && (level < HD_O0 || level > HD_O3)) {
        hd_fail(HD_ERROR_VALUE, "%d is no level; there are HD_O0 to HD_O3", (int)level);
        return;
    }
    if (level == HD_LEVEL_DEFAULT) level = HD_O2;
    if (script->level == level) return;
    drop_executable(thread, script);
    script->level = level;
}

/* ---- compiling and running --------------------------------------------------------------------------------------- */
hd_error hd_script_check_eager(const hd_thread *thread) {
    return thread->executor->captures
               ? hd_fail(HD_ERROR_STATE,
                         "a script cannot run while a builder records on this thread; end it, or use HD_EAGER")
               : HD_OK;
}

hd_error hd_script_make_executable(hd_thread *thread, hd_script *s) {
    if (s->executable != NULL) return HD_OK;
    const int64_t begin = hd_os_nanoseconds();
    /* HODU_DEBUG=nan: every op alone, as it was recorded, so that the one that gives NaN can be named */
    const bool alone = hd_debug_nan() && hd_device_available(s->device);
    hd_undo *undo = thread->undo;
    thread->undo = NULL; /* trial runs write memory of their own */
    s->executable = hd_compiler_compile(alone ? HD_COMPILER_HODU : s->compiler, thread, s->graph, s->device,
                                        alone ? HD_O0 : s->level);
    thread->undo = undo;
    if (s->executable == NULL) return thread->error_code;
    s->compile_ms = (double)(hd_os_nanoseconds() - begin) / 1e6;
    s->compilations++;
    return HD_OK;
}

void hd_script_compile(hd_script *script) {
    HD_ENTER("hd_script_compile", );
    if (hd_script_check_argument(script) != HD_OK) return;
    HD_USE(&script->object, false, );
    if (hd_script_check_eager(thread) == HD_OK) hd_script_make_executable(thread, script);
}

hd_error hd_script_check_inputs(const hd_script *s) {
    const hd_graph *g = s->graph;
    char names[256];
    size_t length = 0;
    int missing = 0;
    for (uint32_t i = 0; i < g->input_count; ++i) {
        if (s->inputs[i] != NULL) continue;
        if (length < sizeof names)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s\"%s\"", missing > 0 ? ", " : "",
                                       hd_graph_string(g, g->inputs[i].name));
        ++missing;
    }
    return missing == 0 ? HD_OK
                        : hd_fail(HD_ERROR_STATE, "%d input%s not set: %s; hd_script_set_input does that", missing,
                                  missing > 1 ? "s are" : " is", names);
}

static hd_outputs *new_outputs(hd_thread *thread, hd_graph *g) {
    hd_outputs *o = hd_array_resize(NULL, sizeof *o + g->output_count * sizeof *o->items);
    if (o == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for the outputs");
        return NULL;
    }
    hd_object_init(&o->object, &outputs_kind);
    hd_count(&thread->live_objects, 1);
    hd_object_retain(&g->object);
    o->graph = g;
    o->count = g->output_count;
    for (uint32_t i = 0; i < o->count; ++i) o->items[i] = NULL;
    return o;
}

/* ---- a run that is profiled: launches one after the other, each with its time ---- */
static void note_run(hd_thread *thread, const hd_executable *e, const char *name, int64_t begin,
                     const int64_t *nanoseconds) {
    int64_t at = begin;
    hd_launch_stats f;
    for (int64_t i = 0; nanoseconds != NULL && i < e->launches; ++i) {
        e->describe(e, i, &f);
        hd_profile_note(thread, &(hd_profile_event){.kind = HD_PROFILE_LAUNCH,
                                                    .name = f.what,
                                                    .sizes = f.sizes,
                                                    .begin = at,
                                                    .nanoseconds = nanoseconds[i],
                                                    .work = {f.operations, f.bytes}});
        at += nanoseconds[i];
    }
    hd_profile_note(
        thread, &(hd_profile_event){
                    .kind = HD_PROFILE_RUN, .name = name, .begin = begin, .nanoseconds = hd_os_nanoseconds() - begin});
}

static hd_error run_profiled(hd_executable *e, hd_thread *thread, hd_run *job, const char *name) {
    const size_t bytes = ((size_t)e->launches + 1) * sizeof(int64_t);
    int64_t *nanoseconds = e->describe != NULL ? hd_array_resize(NULL, bytes) : NULL; /* NULL: XLA, or no memory */
    if (nanoseconds != NULL) memset(nanoseconds, 0, bytes);
    const int64_t begin = hd_os_nanoseconds();
    job->nanoseconds = nanoseconds;
    const hd_error status = e->run(e, thread, job);
    if (status == HD_OK) note_run(thread, e, name, begin, nanoseconds);
    hd_array_release(nanoseconds);
    return status;
}

static hd_error run_executable(hd_executable *e, hd_thread *thread, hd_run *job, const hd_graph *graph) {
    return hd_is_profiled() && job->nanoseconds == NULL
               ? run_profiled(e, thread, job, hd_graph_string(graph, graph->name))
               : e->run(e, thread, job);
}

/* A step of an optimizer that fails takes back the runs in it, too: what they update is kept beforehand. What else they
 * write is their own memory, and their outputs, which are made in the step. */
static hd_error run_within(hd_undo *undo, hd_thread *thread, hd_executable *executable, hd_run *job,
                           const hd_graph *graph) {
    for (uint32_t i = 0; !job->keep_state && i < graph->cell_count; ++i)
        if (graph->cells[i].update != graph->cells[i].node) HD_TRY(hd_undo_note_state(undo, job->cells[i]));
    thread->undo = NULL;
    const hd_error status = run_executable(executable, thread, job, graph);
    thread->undo = undo;
    for (uint32_t i = 0; status == HD_OK && i < graph->output_count; ++i) job->outputs[i]->storage->made = undo->number;
    return status;
}

/* ---- outputs on a device whose scripts run on copies: its memory is taken before the run, which cannot be undone
 * ---- */
static hd_error reserve_outputs(hd_thread *thread, hd_device device, const hd_graph *graph, hd_tensor **reserved) {
    for (uint32_t i = 0; i < graph->output_count; ++i) {
        const uint32_t node = graph->outputs[i].node;
        const hd_shape shape = hd_node_shape(graph, node);
        reserved[i] = hd_tensor_new_on(thread, device, (hd_dtype)graph->nodes[node].dtype, &shape);
        if (reserved[i] == NULL) return thread->error_code;
    }
    return HD_OK;
}
static void lend_outputs(hd_thread *thread, hd_outputs *o, hd_tensor **reserved) {
    for (uint32_t i = 0; i < o->count; ++i) {
        if (hd_device_equal(o->items[i]->storage->device, reserved[i]->storage->device)) continue;
        if (hd_tensor_lend(thread, reserved[i], o->items[i]) != HD_OK) return;
        reserved[i]->storage->made = o->items[i]->storage->made;
        hd_tensor *here = o->items[i];
        o->items[i] = reserved[i];
        reserved[i] = here;
    }
}
static void drop_reserved(hd_thread *thread, const hd_graph *graph, hd_tensor **reserved) {
    for (uint32_t i = 0; i < graph->output_count; ++i) hd_tensor_drop(thread, reserved[i]);
    hd_array_release(reserved);
}

/* ---- a run, and what puts it right when an op of the user's leaves it by a longjmp ------------------------------- */
typedef struct script_run {
    hd_executable *executable;
    hd_graph *graph;
    hd_outputs *outputs;
    hd_tensor **inputs, **reserved; /* arrays, or NULL */
    hd_storage *const *cells;
    hd_observer *observer;
    struct hd_undo *undo;
    hd_draws before;
} script_run;

static void run_left(hd_thread *thread, const hd_ending *ending) {
    script_run *r = ending->object;
    thread->observer = r->observer;
    thread->undo = r->undo;
    hd_generator_give_back(thread, &r->before);
    if (r->executable->left != NULL) r->executable->left(r->executable, thread, r->cells);
    if (r->reserved != NULL) drop_reserved(thread, r->graph, r->reserved);
    hd_object_release(thread, &r->outputs->object);
    hd_array_release(r->inputs);
    hd_array_release(r);
}

static hd_error run_plainly(hd_thread *thread, const script_run *r, hd_run *job) {
    hd_error status = HD_OK;
    if (r->graph->draws > 0 && !job->keep_state)
        status = hd_generator_take(thread, r->graph->draws, &job->seed, &job->draw);
    if (status == HD_OK)
        status = thread->undo != NULL ? run_within(thread->undo, thread, r->executable, job, r->graph)
                                      : run_executable(r->executable, thread, job, r->graph);
    if (status != HD_OK) hd_generator_give_back(thread, &r->before);
    if (status == HD_OK && r->reserved != NULL) lend_outputs(thread, r->outputs, r->reserved);
    return status;
}

static hd_error run_job(hd_thread *thread, const script_run *r, hd_run *job) {
    if (!r->graph->calls_back) return run_plainly(thread, r, job);
    script_run *noted = hd_array_resize(NULL, sizeof *noted);
    if (noted == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to note a run");
    *noted = *r;
    noted->cells = job->cells;
    hd_error status = hd_ending_push(thread, run_left, noted, 0, 0);
    if (status == HD_OK) {
        const uint32_t ending = hd_ending_last(thread);
        status = run_plainly(thread, r, job);
        hd_ending_pop(thread, ending);
    }
    hd_array_release(noted);
    return status;
}

hd_outputs *hd_script_run_executable(hd_thread *thread, hd_script *s, hd_executable *executable, hd_graph *graph,
                                     bool keep_state, int64_t *nanoseconds) {
    const bool alone = atomic_load(&graph->object.references) == 1;
    hd_outputs *o = new_outputs(thread, graph);
    if (o == NULL) return NULL;
    hd_tensor *few[16],
        **inputs = graph->input_count <= 16 ? few : hd_array_resize(NULL, graph->input_count * sizeof *inputs);
    hd_observer *observer = thread->observer;
    thread->observer = NULL; /* a run is noted on no tape */
    hd_span span;
    hd_span_begin(&span, thread, "script_run");
    if (inputs == NULL) hd_fail(HD_ERROR_MEMORY, "no memory for %u inputs", graph->input_count);
    for (uint32_t i = 0; inputs != NULL && i < graph->input_count && thread->error_code == HD_OK; ++i)
        inputs[i] = s->inputs[i]->contiguous ? s->inputs[i] : hd_contiguous(s->inputs[i]);
    hd_tensor **reserved = NULL;
    if (hd_device_is_away(s->device) && hd_device_executor(s->device) != NULL && !executable->on_device &&
        thread->error_code == HD_OK) {
        reserved = hd_array_resize(NULL, (graph->output_count + 1) * sizeof *reserved);
        for (uint32_t i = 0; reserved != NULL && i < graph->output_count; ++i) reserved[i] = NULL;
        if (reserved == NULL)
            hd_fail(HD_ERROR_MEMORY, "no memory for %u outputs", graph->output_count);
        else
            reserve_outputs(thread, s->device, graph, reserved);
    }
    if (thread->error_code == HD_OK) {
        const script_run r = {.executable = executable,
                              .graph = graph,
                              .outputs = o,
                              .inputs = inputs != few ? inputs : NULL,
                              .reserved = reserved,
                              .observer = observer,
                              .undo = thread->undo,
                              .before = hd_generator_now(thread)};
        hd_run job = {.inputs = inputs,
                      .cells = s->cells,
                      .keep_state = keep_state,
                      .own = alone ? graph : NULL,
                      .outputs = o->items,
                      .nanoseconds = nanoseconds,
                      .seed = r.before.seed,
                      .draw = r.before.draw};
        run_job(thread, &r, &job);
    }
    if (reserved != NULL) drop_reserved(thread, graph, reserved);
    hd_span_end(&span, NULL);
    thread->observer = observer;
    if (inputs != few) hd_array_release(inputs);
    if (thread->error_code == HD_OK) return o;
    hd_object_release(thread, &o->object);
    return NULL;
}

hd_outputs *hd_script_run_taken(hd_thread *thread, hd_script *s) {
    HD_TRY_OR(hd_script_check_eager(thread), NULL);
    HD_TRY_OR(hd_script_check_inputs(s), NULL);
    HD_TRY_OR(hd_script_make_executable(thread, s), NULL);
    hd_outputs *o = hd_script_run_executable(thread, s, s->executable, s->graph, false, NULL);
    if (o == NULL) return NULL;
    s->runs++;
    if (s->last != NULL) hd_object_release(thread, &s->last->object);
    s->last = o;
    return hd_scope_share(thread, &o->object);
}

hd_outputs *hd_script_run(hd_script *script) {
    HD_ENTER("hd_script_run", NULL);
    HD_TRY_OR(hd_script_check_argument(script), NULL);
    HD_USE(&script->object, false, NULL);
    return hd_script_run_taken(thread, script);
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */
static hd_error outputs_check(const hd_outputs *o) {
    if (o == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`outputs` is NULL");
    if (o->object.kind == &outputs_kind) return HD_OK;
    return hd_fail(o->object.kind == &hd_kind_released ? HD_ERROR_RELEASED : HD_ERROR_STATE,
                   "`outputs` are no living outputs");
}

static hd_tensor *get_output(hd_thread *thread, const hd_outputs *o, const char *name) {
    const uint32_t i = hd_graph_find(o->graph, HD_NAME_OUTPUT, name);
    if (i != HD_NO_NODE) return hd_scope_share(thread, &o->items[i]->object);
    char names[256];
    hd_script_list_names(o->graph, HD_NAME_OUTPUT, names, sizeof names);
    hd_fail(HD_ERROR_VALUE, "there is no output \"%s\"; there are %s", name ? name : "", names);
    return NULL;
}

hd_tensor *hd_outputs_get(const hd_outputs *outputs, const char *name) {
    HD_ENTER("hd_outputs_get", NULL);
    HD_TRY_OR(outputs_check(outputs), NULL);
    return get_output(thread, outputs, name);
}

hd_tensor *hd_outputs_at(const hd_outputs *outputs, int64_t index) {
    HD_ENTER("hd_outputs_at", NULL);
    HD_TRY_OR(outputs_check(outputs), NULL);
    if (index < 0 || index >= outputs->count) {
        hd_fail(HD_ERROR_INDEX, "output %lld of %u", (long long)index, outputs->count);
        return NULL;
    }
    return hd_scope_share(thread, &outputs->items[index]->object);
}

int64_t hd_outputs_count(const hd_outputs *outputs) {
    HD_ENTER_ALWAYS("hd_outputs_count", 0);
    return outputs_check(outputs) == HD_OK ? outputs->count : 0;
}

const char *hd_outputs_name(const hd_outputs *outputs, int64_t index) {
    HD_ENTER("hd_outputs_name", NULL);
    HD_TRY_OR(outputs_check(outputs), NULL);
    if (index < 0 || index >= outputs->count) {
        hd_fail(HD_ERROR_INDEX, "output %lld of %u", (long long)index, outputs->count);
        return NULL;
    }
    return hd_graph_string(outputs->graph, outputs->graph->outputs[index].name);
}

hd_tensor *hd_script_output(hd_script *script, const char *name) {
    HD_ENTER("hd_script_output", NULL);
    HD_TRY_OR(hd_script_check_argument(script), NULL);
    HD_USE(&script->object, false, NULL);
    if (script->last == NULL) {
        hd_fail(HD_ERROR_STATE, "the script has not run yet");
        return NULL;
    }
    return get_output(thread, script->last, name);
}

/* ---- state ------------------------------------------------------------------------------------------------------- */
/* A tensor over the storage of a cell; the current scope's. */
static hd_tensor *cell_tensor(hd_thread *thread, const hd_script *s, const char *name) {
    const hd_graph *g = s->graph;
    const uint32_t i = hd_graph_find(g, HD_NAME_CELL, name);
    if (i != HD_NO_NODE) {
        const hd_shape shape = hd_node_shape(g, g->cells[i].node);
        hd_layout layout;
        hd_layout_contiguous(&layout, &shape);
        return hd_tensor_give(thread,
                              hd_tensor_over(thread, s->cells[i], (hd_dtype)g->nodes[g->cells[i].node].dtype, &layout));
    }
    char names[256];
    hd_script_list_names(g, HD_NAME_CELL, names, sizeof names);
    hd_fail(HD_ERROR_VALUE, "the script \"%s\" has no state or bound tensor \"%s\"; it has %s",
            hd_graph_string(g, g->name), name ? name : "", names);
    return NULL;
}

hd_tensor *hd_script_state(hd_script *script, const char *name) {
    HD_ENTER("hd_script_state", NULL);
    HD_TRY_OR(hd_script_check_argument(script), NULL);
    HD_USE(&script->object, false, NULL);
    return cell_tensor(thread, script, name);
}

void hd_script_set_state(hd_script *script, const char *name, hd_tensor *value) {
    HD_ENTER("hd_script_set_state", );
    if (hd_script_check_argument(script) != HD_OK || hd_tensor_check(value, "value") != HD_OK ||
        hd_script_check_eager(thread) != HD_OK)
        return;
    HD_USE(&script->object, false, );
    hd_span span;
    hd_span_begin(&span, thread, "script_set_state");
    hd_tensor *cell = cell_tensor(thread, script, name);
    if (cell != NULL) {
        HD_NO_GRAD;
        if (!hd_shape_equal(cell->layout.shape, value->layout.shape) || cell->dtype != value->dtype)
            hd_fail(HD_ERROR_SHAPE, "\"%s\" is %s %s; given is %s %s", name, hd_dtype_name((hd_dtype)cell->dtype),
                    HD_SHAPE_TEXT(cell->layout.shape), hd_dtype_name((hd_dtype)value->dtype),
                    HD_SHAPE_TEXT(value->layout.shape));
        else
            hd_assign(cell, hd_to(value, cell->storage->device));
    }
    hd_span_end(&span, NULL);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */
hd_script_figures hd_script_stats(const hd_script *script) {
    hd_script_figures f = {0};
    HD_ENTER_ALWAYS("hd_script_stats", f);
    if (hd_script_check_argument(script) != HD_OK) return f;
    HD_USE(&((hd_script *)script)->object, false, f); /* what it looks at changes when the script compiles */
    f.nodes = script->graph->node_count;
    for (uint32_t i = 0; i < script->graph->constant_count; ++i)
        f.constant_bytes += (int64_t)script->graph->constants[i].storage->bytes;
    f.compile_ms = script->compile_ms;
    f.compilations = script->compilations;
    f.runs = script->runs;
    if (script->executable != NULL) {
        f.compiled_nodes = script->executable->nodes;
        f.launches = script->executable->launches;
        f.jobs = script->executable->jobs;
        f.arena_bytes = script->executable->arena_bytes;
        const hd_code_stats *code = &script->executable->code;
        f.kernels = code->kernels;
        f.kernels_compiled = code->compiled;
        f.kernels_from_disk = code->from_disk;
        f.kernels_from_memory = code->from_memory;
        f.alternatives = script->executable->alternatives;
        f.peak_bytes = script->executable->peak_bytes;
        f.llvm_load_ms = (double)code->load_nanoseconds * 1e-6;
        f.code_ms = (double)code->compile_nanoseconds * 1e-6;
        f.link_ms = (double)code->link_nanoseconds * 1e-6;
        for (int64_t i = 0; script->executable->describe != NULL && i < f.launches; ++i) {
            hd_launch_stats launch;
            script->executable->describe(script->executable, i, &launch);
            f.operations += launch.operations;
            f.bytes_moved += launch.bytes;
        }
    }
    return f;
}

int64_t hd_script_format(const hd_script *script, char *out, size_t capacity) {
    HD_ENTER("hd_script_format", -1);
    HD_TRY_OR(hd_script_check_argument(script), -1);
    if (out == NULL && capacity > 0) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`out` is NULL");
        return -1;
    }
    char *text = hd_graph_print(script->graph);
    if (text == NULL) return -1;
    const int64_t length = (int64_t)strlen(text);
    if (capacity > 0) snprintf(out, capacity, "%s", text);
    hd_array_release(text);
    return length;
}

void hd_script_print(const hd_script *script) {
    HD_ENTER("hd_script_print", );
    if (hd_script_check_argument(script) != HD_OK) return;
    char *text = hd_graph_print(script->graph);
    if (text != NULL) fputs(text, stdout);
    hd_array_release(text);
}
