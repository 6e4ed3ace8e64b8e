/* Runs of scripts, and what they give. */
#include "core/away.h"
#include "core/memory.h"
#include "core/os.h"
#include "core/profile.h"
#include "core/random.h"
#include "core/undo.h"
#include "grad/tape.h"
#include "script/script.h"

#include <stdio.h>
#include <string.h>

static void outputs_destroy(hd_thread *thread, hd_object *object) {
    hd_outputs *o = (hd_outputs *)object;
    for (uint32_t i = 0; i < o->count; ++i) hd_tensor_drop(thread, o->items[i]);
    hd_graph_release(thread, o->graph);
    hd_object_bury(thread, object);
}
static const hd_kind outputs_kind = {.name = "outputs", .destroy = outputs_destroy};

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

/* ---- a run that is profiled: launches one after the other, each with its time ------------------------------------ */
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

/* Times of launches, to be filled in, where somebody profiles; NULL: nobody does, XLA has none, or there is no
 * memory. */
static int64_t *times_of(const hd_executable *e) {
    const size_t bytes = ((size_t)e->launches + 1) * sizeof(int64_t);
    int64_t *nanoseconds = hd_is_profiled() && e->describe != NULL ? hd_array_resize(NULL, bytes) : NULL;
    if (nanoseconds != NULL) memset(nanoseconds, 0, bytes);
    return nanoseconds;
}

/* A step of an optimizer that fails takes back the runs in it, too: what they update is kept beforehand. What else they
 * write is their own memory, and their outputs, which are made in the step. */
static hd_error run_within(hd_undo *undo, hd_thread *thread, hd_executable *executable, const hd_run *job,
                           const hd_graph *graph) {
    for (uint32_t i = 0; !job->keep_state && i < graph->cell_count; ++i)
        if (graph->cells[i].update != graph->cells[i].node) HD_TRY(hd_undo_note_state(undo, job->cells[i]));
    thread->undo = NULL;
    const hd_error status = executable->run(executable, thread, job);
    thread->undo = undo;
    for (uint32_t i = 0; status == HD_OK && i < graph->output_count; ++i) job->outputs[i]->storage->made = undo->number;
    return status;
}

/* ---- outputs on a device whose scripts run on copies: a run cannot be undone, so memory is taken before it ------- */
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
    int64_t *timed;                 /* likewise */
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
    hd_array_release(r->timed);
    hd_array_release(r);
}

static hd_error run_plainly(hd_thread *thread, const script_run *r, hd_run *job) {
    hd_error status = HD_OK;
    if (r->graph->draws > 0 && !job->keep_state)
        status = hd_generator_take(thread, r->graph->draws, &job->seed, &job->draw);
    if (status == HD_OK)
        status = thread->undo != NULL ? run_within(thread->undo, thread, r->executable, job, r->graph)
                                      : r->executable->run(r->executable, thread, job);
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
                              .timed = nanoseconds == NULL ? times_of(executable) : NULL,
                              .before = hd_generator_now(thread)};
        hd_run job = {.inputs = inputs,
                      .cells = s->cells,
                      .keep_state = keep_state,
                      .own = alone ? graph : NULL,
                      .outputs = o->items,
                      .nanoseconds = r.timed != NULL ? r.timed : nanoseconds,
                      .seed = r.before.seed,
                      .draw = r.before.draw};
        const int64_t begin = hd_is_profiled() && nanoseconds == NULL ? hd_os_nanoseconds() : 0;
        if (run_job(thread, &r, &job) == HD_OK && begin != 0)
            note_run(thread, executable, hd_graph_string(graph, graph->name), begin, r.timed);
        hd_array_release(r.timed);
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
