/* Tuning (O3): what plans decide by rules is tried out instead. Other ways to fuse are timed as whole plans; then, in
 * the quickest plan, every launch is timed with fewer threads, and with the changes that the machine knows, all
 * launches in one run. Each change is tried upon what was chosen for the launch before, so
 * that there are as many runs as changes. What was found is kept in the disk cache, so that a script is tuned once on a
 * machine.
 *
 * The trial runs read made-up inputs, and copies of the cells that they change: nobody sees them. Each begins with the
 * state as it is now, as the runs of a step would lead somewhere on made-up inputs: to places that an index may not
 * name, or to numbers that take longer. */
#include "codegen/dump.h"
#include "core/hash.h"
#include "plan/plan.h"
#include "core/device.h"

#include <stdio.h>
#include <string.h>

enum {
    LEAST_RUNS = 3,
    MOST_RUNS = 25,
    ENOUGH_NANOSECONDS = 40000000, /* for the runs of one alternative */
    MOST_THREADS = 255,
    TUNING_FORMAT = 3 /* another one for another hd_tuning */
};
static const double worth = 0.97; /* of the time before: less is noise */

static const struct {
    const char *name;
    hd_fuse_choice choice;
} fusions[] = {{"fused by rules", {0}},
               {"kernels of at most 8 nodes", {.most_members = 8}},
               {"products alone", {.products_alone = true}},
               {"reductions alone", {.reductions_alone = true}},
               {"inputs computed apart", {.unsunk = true}},
               {"operands of products in memory", {.prologues = HD_PROLOGUES_NONE}},
               {"operands of products computed as they are read", {.prologues = HD_PROLOGUES_ALL}}};
enum { FUSIONS = sizeof fusions / sizeof fusions[0] };

/* ---- what was found earlier -------------------------------------------------------------------------------------- */
static uint64_t hash_graph(const hd_graph *g, uint64_t h) {
    for (uint32_t i = 0; i < g->node_count; ++i) {
        const hd_node *n = &g->nodes[i];
        h = hd_hash_mix(h, (uint64_t)n->op << 32 | (uint64_t)n->derivative << 24 | (uint64_t)n->dtype << 16 |
                               (uint64_t)n->compute << 8 | n->input_count);
        for (int k = 0; hd_node_is_call(n) && k < n->input_count; ++k) h = hd_hash_mix(h, hd_node_inputs(g, i)[k]);
        h = hd_hash(hd_pool_at(&g->pool, n->shape), hd_pool_size(&g->pool, n->shape), h);
        if (n->attributes != 0)
            h = hd_hash(hd_pool_at(&g->pool, n->attributes), hd_pool_size(&g->pool, n->attributes), h);
    }
    for (uint32_t i = 0; i < g->output_count; ++i) h = hd_hash_mix(h, g->outputs[i].node);
    for (uint32_t i = 0; i < g->cell_count; ++i) h = hd_hash_mix(h, g->cells[i].update);
    return h;
}

/* What a file carries belongs to a processor already, and serves any number of threads: `carried`. */
static hd_tuning_key key_of(const hd_graph *g, const hd_machine *m, bool carried) {
    const hd_coder *coder = carried ? NULL : m->coder();
    const char *target = coder == NULL ? NULL : coder->target(), *own = m->tuning_key();
    const uint64_t seed = hd_hash(own, strlen(own), target == NULL ? 0 : hd_hash(target, strlen(target), 0));
    hd_tuning_key key = {
        .title = "hodu tuning", .nodes = g->node_count, .threads = carried ? 0 : m->threads(), .format = TUNING_FORMAT};
    key.hash[0] = hash_graph(g, seed);
    key.hash[1] = hash_graph(g, ~seed);
    return key;
}

static size_t tuning_bytes(uint32_t launches) { return sizeof(hd_tuning) + launches * sizeof(hd_launch_choice); }

static hd_tuning *new_tuning(uint32_t launches) {
    hd_tuning *t = hd_array_resize(NULL, tuning_bytes(launches));
    if (t == NULL) return NULL;
    memset(t, 0, tuning_bytes(launches));
    t->launch_count = launches;
    return t;
}

/* True when so many bytes are a tuning, and its products can be computed so. */
static bool is_sound(const hd_machine *m, const hd_tuning *t, size_t bytes) {
    if (bytes < sizeof *t || bytes != tuning_bytes(t->launch_count)) return false;
    for (uint32_t i = 0; i < t->launch_count; ++i)
        if (!m->is_sound(t->launches[i])) return false;
    return true;
}

/* NULL: there is none. */
static hd_tuning *read_tuning(const hd_machine *m, const hd_tuning_key *key) {
    size_t bytes;
    hd_tuning *t = hd_cache_read(key, sizeof *key, &bytes);
    if (t == NULL || is_sound(m, t, bytes)) return t;
    hd_array_release(t);
    return NULL;
}

/* The same from what a file carries; NULL without an error: there is none. */
static hd_tuning *carried_tuning(const hd_graph *g, const hd_machine *m, hd_carried *carried) {
    size_t bytes = 0;
    const hd_tuning_key key = key_of(g, m, true);
    const void *note = carried == NULL ? NULL : hd_carried_note_of(carried, &key, sizeof key, &bytes);
    hd_tuning *t = note == NULL ? NULL : hd_array_resize(NULL, bytes + sizeof *t);
    if (note != NULL && t == NULL) hd_fail(HD_ERROR_MEMORY, "no memory for a tuning");
    if (t == NULL) return NULL;
    memcpy(t, note, bytes);
    if (is_sound(m, t, bytes)) return t;
    hd_array_release(t);
    return NULL;
}

hd_carried_note hd_plan_tuning_note(const hd_plan *p, hd_tuning_key *key) {
    if (p->tuning == NULL) return (hd_carried_note){.bytes = NULL};
    *key = key_of(p->graph, p->machine, true);
    return (hd_carried_note){
        .key = key, .key_bytes = sizeof *key, .bytes = p->tuning, .count = tuning_bytes(p->tuning->launch_count)};
}

/* ---- trial runs -------------------------------------------------------------------------------------------------- */
typedef struct trial {
    hd_thread *thread;
    const hd_machine *machine;
    hd_carried *carried;
    hd_graph *g;
    hd_tensor **inputs, **outputs;
    hd_storage **cells;
    int64_t *nanoseconds; /* of each launch in one run */
    int timed;            /* alternatives */
    bool refused;         /* an op did not take what it was given */
} trial;

static void release_tensors(hd_thread *thread, hd_tensor **tensors, uint32_t count) {
    for (uint32_t i = 0; tensors != NULL && i < count; ++i) {
        if (tensors[i] != NULL) hd_object_release(thread, &tensors[i]->object);
        tensors[i] = NULL;
    }
}

static void trial_end(trial *t) {
    release_tensors(t->thread, t->inputs, t->g->input_count);
    for (uint32_t i = 0; t->cells != NULL && i < t->g->cell_count; ++i)
        if (t->cells[i] != NULL) hd_object_release(t->thread, &t->cells[i]->object);
    hd_array_release(t->inputs);
    hd_array_release(t->outputs);
    hd_array_release(t->cells);
    hd_array_release(t->nanoseconds);
}

/* Floats of usual size, and zeros, which are indices that every axis has. */
static hd_tensor *made_up(hd_thread *thread, const hd_graph *g, uint32_t node) {
    const hd_dtype dtype = (hd_dtype)g->nodes[node].dtype;
    const hd_shape shape = hd_node_shape(g, node);
    const size_t bytes = hd_node_bytes(g, node), element = (size_t)hd_dtype_bytes[dtype];
    hd_storage *s = hd_storage_new(thread, bytes);
    if (s == NULL) return NULL;
    memset(s->data, 0, bytes);
    if (hd_dtype_compute[dtype] >= HD_COMPUTE_F32)
        for (size_t i = 0; i < bytes / element; ++i)
            hd_element_from_f64((char *)s->data + i * element, dtype, (double)(i * 37 % 64) / 32 - 0.984375);
    hd_layout layout;
    hd_layout_contiguous(&layout, &shape);
    hd_tensor *t = hd_tensor_over(thread, s, dtype, &layout);
    hd_object_release(thread, &s->object);
    return t;
}

static hd_storage *copy_of(hd_thread *thread, hd_storage *from) {
    const void *bytes = hd_storage_bytes(thread, from, HD_READ);
    hd_storage *s = bytes == NULL ? NULL : hd_storage_new(thread, from->bytes);
    if (s != NULL) memcpy(s->data, bytes, from->bytes);
    return s;
}

static hd_error trial_begin(trial *t) {
    const hd_graph *g = t->g;
    t->inputs = hd_array_resize(NULL, (g->input_count + 1) * sizeof *t->inputs);
    t->outputs = hd_array_resize(NULL, (g->output_count + 1) * sizeof *t->outputs);
    t->cells = hd_array_resize(NULL, (g->cell_count + 1) * sizeof *t->cells);
    for (uint32_t i = 0; t->inputs != NULL && i < g->input_count; ++i) t->inputs[i] = NULL;
    for (uint32_t i = 0; t->outputs != NULL && i < g->output_count; ++i) t->outputs[i] = NULL;
    for (uint32_t i = 0; t->cells != NULL && i < g->cell_count; ++i) t->cells[i] = NULL;
    if (t->inputs == NULL || t->outputs == NULL || t->cells == NULL)
        return hd_fail(HD_ERROR_MEMORY, "no memory to tune a graph of %u nodes", g->node_count);
    for (uint32_t i = 0; i < g->input_count; ++i)
        if ((t->inputs[i] = made_up(t->thread, g, g->inputs[i].node)) == NULL) return t->thread->error_code;
    for (uint32_t i = 0; i < g->cell_count; ++i) {
        const hd_graph_cell *c = &g->cells[i];
        if (c->update != c->node) {
            t->cells[i] = copy_of(t->thread, c->storage);
        } else {
            hd_object_retain(&c->storage->object);
            t->cells[i] = c->storage;
        }
        if (t->cells[i] == NULL) return t->thread->error_code;
    }
    return HD_OK;
}

/* What the run before changed becomes what it was. */
static hd_error restore_cells(trial *t) {
    for (uint32_t i = 0; i < t->g->cell_count; ++i) {
        const hd_graph_cell *c = &t->g->cells[i];
        if (c->update == c->node) continue;
        const void *from = hd_storage_bytes(t->thread, c->storage, HD_READ);
        void *to = from == NULL ? NULL : hd_storage_bytes(t->thread, t->cells[i], HD_WRITE);
        if (to == NULL) return t->thread->error_code;
        memcpy(to, from, c->storage->bytes);
    }
    return HD_OK;
}

/* *whole: the time it takes, as it always runs; or with each launch by itself. */
static hd_error run_once(trial *t, hd_plan *p, bool by_launch, int64_t *whole) {
    const hd_run run = {.inputs = t->inputs,
                        .cells = t->cells,
                        .outputs = t->outputs,
                        .nanoseconds = by_launch ? t->nanoseconds : NULL};
    HD_TRY(restore_cells(t));
    memset(t->nanoseconds, 0, ((size_t)p->launch_count + 1) * sizeof *t->nanoseconds);
    const int64_t begin = hd_os_nanoseconds();
    const hd_error status = hd_plan_run(&p->executable, t->thread, &run);
    *whole = hd_os_nanoseconds() - begin;
    release_tensors(t->thread, t->outputs, t->g->output_count);
    t->refused = status != HD_OK && status != HD_ERROR_MEMORY;
    return status;
}

static void say(const char *what, int64_t nanoseconds) {
    if (hd_dump_wants("tuning")) hd_dump_line("tuning", "%10.2f us, %s", (double)nanoseconds * 1e-3, what);
}

/* The least time of the whole, and of each launch where `each` is not NULL: then they run one after the other. */
static hd_error time_plan(trial *t, hd_plan *p, const char *what, int64_t *whole, int64_t *each) {
    int64_t *larger = hd_array_resize(t->nanoseconds, ((size_t)p->launch_count + 1) * sizeof *larger);
    if (larger == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to time %u launches", p->launch_count);
    t->nanoseconds = larger;
    int64_t time;
    HD_TRY(run_once(t, p, each != NULL, &time)); /* which warms caches */
    *whole = INT64_MAX;
    for (uint32_t i = 0; each != NULL && i < p->launch_count; ++i) each[i] = INT64_MAX;
    const int64_t begin = hd_os_nanoseconds();
    for (int run = 0; run < LEAST_RUNS || (run < MOST_RUNS && hd_os_nanoseconds() - begin < ENOUGH_NANOSECONDS);
         ++run) {
        HD_TRY(run_once(t, p, each != NULL, &time));
        if (time < *whole) *whole = time;
        for (uint32_t i = 0; each != NULL && i < p->launch_count; ++i) {
            const uint32_t number = p->launches[i].number;
            if (t->nanoseconds[i] < each[number]) each[number] = t->nanoseconds[i];
        }
    }
    t->timed++;
    say(what, *whole);
    return HD_OK;
}

/* ---- other ways to fuse ------------------------------------------------------------------------------------------ */
static void destroy_trial(trial *t, hd_plan *p) {
    if (p != NULL) p->executable.destroy(&p->executable, t->thread);
}

/* *out: a plan that fuses so; NULL when it would be the plan `like` once more. */
static hd_error fuse_otherwise(trial *t, hd_fuse_choice choice, const hd_plan *like, hd_plan **out) {
    const hd_tuning tuning = {.fuse = choice};
    hd_fusion f;
    *out = NULL;
    HD_TRY(hd_fuse(t->machine, t->g, HD_O3, choice, &f));
    const bool same = f.order_count == like->fusion.order_count &&
                      memcmp(f.group_of, like->fusion.group_of, t->g->node_count * sizeof *f.group_of) == 0;
    hd_fusion_release(&f);
    if (!same) *out = hd_plan_new(t->thread, t->g, t->machine, HD_O3, &tuning, t->carried);
    return t->thread->error_code;
}

/* The quickest plan, and how it fuses. NULL with an error. */
static hd_plan *choose_fusion(trial *t, hd_fuse_choice *choice) {
    int64_t best, time;
    hd_plan *plan = hd_plan_new(t->thread, t->g, t->machine, HD_O3, NULL, t->carried), *other = NULL;
    hd_error status = plan == NULL ? t->thread->error_code : time_plan(t, plan, fusions[0].name, &best, NULL);
    for (int i = 1; i < FUSIONS && status == HD_OK; ++i) {
        status = fuse_otherwise(t, fusions[i].choice, plan, &other);
        if (other == NULL) continue;
        status = time_plan(t, other, fusions[i].name, &time, NULL);
        const bool quicker = status == HD_OK && (double)time < (double)best * worth;
        destroy_trial(t, quicker ? plan : other);
        if (!quicker) continue;
        plan = other;
        best = time;
        *choice = fusions[i].choice;
    }
    if (status == HD_OK) return plan;
    destroy_trial(t, plan);
    return NULL;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */
/* The launches of a plan under trial, by number: what was chosen for each, its time with that, and with what is being
 * tried. */
typedef struct contest {
    hd_plan *plan;
    hd_tuning *tuning;
    int64_t *best, *time, whole;
} contest;

/* True when a launch takes part of the whole that is worth the trouble. */
static bool matters(const contest *c, const hd_launch *l) { return c->best[l->number] > c->whole / 50; }

static bool concerns(const contest *c, const hd_launch *l, hd_launch_choice change) {
    return matters(c, l) && c->plan->machine->concerns(c->plan, l, c->tuning->launches[l->number], change);
}

/* What a launch was just timed with becomes its choice, if that was quicker. */
static void note_time(const contest *c, const hd_launch *l, hd_launch_choice choice) {
    if ((double)c->time[l->number] >= (double)c->best[l->number] * worth) return;
    c->best[l->number] = c->time[l->number];
    c->tuning->launches[l->number] = choice;
}

static hd_error try_threads(trial *t, contest *c, int threads) {
    int64_t whole;
    char name[32];
    snprintf(name, sizeof name, "%d thread%s", threads, threads > 1 ? "s" : "");
    for (uint32_t i = 0; i < c->plan->launch_count; ++i) c->plan->launches[i].threads = (uint8_t)threads;
    const hd_error status = time_plan(t, c->plan, name, &whole, c->time);
    for (uint32_t i = 0; i < c->plan->launch_count; ++i) {
        hd_launch *l = &c->plan->launches[i];
        l->threads = 0;
        if (status == HD_OK && matters(c, l)) note_time(c, l, (hd_launch_choice){.threads = (uint8_t)threads});
    }
    return status;
}

/* Times a plan with `all`, in which launches that the change concerns have it. */
static hd_error time_changed(trial *t, contest *c, const char *name, hd_launch_choice change, const hd_tuning *all) {
    int64_t whole;
    hd_plan *p = hd_plan_new(t->thread, t->g, t->machine, HD_O3, all, t->carried);
    const hd_error status = p == NULL ? t->thread->error_code : time_plan(t, p, name, &whole, c->time);
    for (uint32_t i = 0; status == HD_OK && i < c->plan->launch_count; ++i) {
        const hd_launch *l = &c->plan->launches[i];
        if (concerns(c, l, change)) note_time(c, l, all->launches[l->number]);
    }
    destroy_trial(t, p);
    return status;
}

static hd_error try_change(trial *t, contest *c, const char *name, hd_launch_choice change) {
    hd_tuning *all = new_tuning(c->plan->launch_count);
    if (all == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to tune %u launches", c->plan->launch_count);
    memcpy(all, c->tuning, tuning_bytes(all->launch_count));
    bool any = false;
    for (uint32_t i = 0; i < all->launch_count; ++i) {
        const hd_launch *l = &c->plan->launches[i];
        if (!concerns(c, l, change)) continue;
        all->launches[l->number] = t->machine->changed(all->launches[l->number], change);
        any = true;
    }
    const hd_error status = any ? time_changed(t, c, name, change, all) : HD_OK;
    hd_array_release(all);
    return status;
}

static hd_error choose_for_launches(trial *t, hd_plan *plan, hd_tuning *tuning) {
    const size_t bytes = ((size_t)plan->launch_count + 1) * sizeof(int64_t);
    contest c = {plan, tuning, hd_array_resize(NULL, bytes), hd_array_resize(NULL, bytes), 0};
    hd_error status = c.best == NULL || c.time == NULL
                          ? hd_fail(HD_ERROR_MEMORY, "no memory to tune %u launches", plan->launch_count)
                          : time_plan(t, plan, "launches by rules, one after the other", &c.whole, c.best);
    for (int threads = 1; status == HD_OK && threads < t->machine->threads() && threads <= MOST_THREADS; threads *= 2)
        status = try_threads(t, &c, threads);
    for (int i = 0; i < t->machine->change_count && status == HD_OK; ++i)
        status = try_change(t, &c, t->machine->changes[i].name, t->machine->changes[i].change);
    hd_array_release(c.best);
    hd_array_release(c.time);
    return status;
}

/* Each choice was timed with others beside it: together they must hold what they promise. Gives the quicker of the two
 * plans and destroys the other; both, with an error. */
static hd_plan *choose_together(trial *t, hd_plan *plan, hd_tuning *tuning) {
    int64_t before, after;
    hd_plan *p = hd_plan_new(t->thread, t->g, t->machine, HD_O3, tuning, t->carried);
    hd_error status = p == NULL ? t->thread->error_code : time_plan(t, plan, "launches by rules", &before, NULL);
    if (status == HD_OK) status = time_plan(t, p, "launches as chosen", &after, NULL);
    const bool quicker = status == HD_OK && (double)after < (double)before * worth;
    if (!quicker) memset(tuning->launches, 0, tuning->launch_count * sizeof *tuning->launches);
    destroy_trial(t, quicker ? plan : p);
    if (status == HD_OK) return quicker ? p : plan;
    destroy_trial(t, plan);
    return NULL;
}

static bool has_change(const hd_machine *m, hd_launch_choice choice, hd_launch_choice change) {
    const hd_launch_choice with = m->changed(choice, change);
    return memcmp(&with, &choice, sizeof choice) == 0;
}

/* What is kept: how launches are fused, and a line for each that does not go by the rules. */
static void explain_tuning(const hd_plan *p, const hd_tuning *tuning) {
    if (!hd_dump_wants("tuning")) return;
    for (int i = 0; i < FUSIONS; ++i)
        if (memcmp(&fusions[i].choice, &tuning->fuse, sizeof tuning->fuse) == 0)
            hd_dump_line("tuning", "kept: %s", fusions[i].name);
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        const hd_launch_choice choice = tuning->launches[p->launches[i].number];
        hd_launch_stats stats;
        char line[512] = "";
        int at = 0;
        hd_plan_describe(&p->executable, i, &stats);
        if (choice.threads > 0)
            at += snprintf(line + at, sizeof line - (size_t)at, ", %d thread%s", choice.threads,
                           choice.threads > 1 ? "s" : "");
        for (int k = 0; k < p->machine->change_count; ++k)
            if (has_change(p->machine, choice, p->machine->changes[k].change))
                at += snprintf(line + at, sizeof line - (size_t)at, ", %s", p->machine->changes[k].name);
        if (at > 0) hd_dump_line("tuning", "kept for launch %u (%s): %s", i, stats.what, line + 2);
    }
}

static hd_plan *tune(trial *t, const hd_tuning_key *key) {
    hd_fuse_choice fuse = {0};
    hd_plan *plan = choose_fusion(t, &fuse);
    if (plan == NULL) return NULL;
    hd_tuning *tuning = new_tuning(plan->launch_count);
    if (tuning != NULL) tuning->fuse = fuse;
    if (tuning == NULL || choose_for_launches(t, plan, tuning) != HD_OK) {
        if (tuning == NULL) hd_fail(HD_ERROR_MEMORY, "no memory to tune %u launches", plan->launch_count);
        destroy_trial(t, plan);
        plan = NULL;
    }
    if (plan != NULL) plan = choose_together(t, plan, tuning);
    if (plan != NULL) {
        explain_tuning(plan, tuning);
        t->machine->forget(plan, t->thread);
        hd_cache_write(key, sizeof *key, tuning, tuning_bytes(tuning->launch_count));
        plan->tuning = tuning;
    } else {
        hd_array_release(tuning);
    }
    return plan;
}

/* A plan by choices that were made earlier, which it takes over; NULL with an error. */
static hd_plan *plan_as_known(hd_thread *thread, hd_graph *graph, const hd_machine *machine, hd_tuning *known,
                              hd_carried *carried) {
    hd_plan *p = hd_plan_new(thread, graph, machine, HD_O3, known, carried);
    if (p != NULL && p->launch_count == known->launch_count) explain_tuning(p, known);
    if (p != NULL)
        p->tuning = known;
    else
        hd_array_release(known);
    return p;
}

hd_plan *hd_plan_tuned(hd_thread *thread, hd_graph *graph, const hd_machine *machine, hd_carried *carried) {
    HD_HOLD_ERRORS(thread);
    hd_tuning *known = carried_tuning(graph, machine, carried);
    if (known != NULL) return plan_as_known(thread, graph, machine, known, carried);
    if (thread->error_code != HD_OK) return NULL;
    const hd_tuning_key key = key_of(graph, machine, false);
    known = read_tuning(machine, &key);
    if (known != NULL) return plan_as_known(thread, graph, machine, known, carried);
    trial t = {.thread = thread, .machine = machine, .carried = carried, .g = graph};
    hd_plan *p = trial_begin(&t) == HD_OK ? tune(&t, &key) : NULL;
    trial_end(&t);
    if (p == NULL && t.refused) { /* made-up inputs are no inputs for it: it stays as it is as a rule */
        hd_error_copy error;
        hd_error_take(&error);
        if (hd_dump_wants("tuning")) hd_dump_line("tuning", "none: %s", error.message);
        p = hd_plan_new(thread, graph, machine, HD_O3, NULL, carried);
    } else if (p != NULL) {
        p->executable.alternatives = t.timed;
    }
    return p;
}
