/* A script under XLA: its graph as text, compiled by the plugin, and the arguments of its runs.
 *
 * An argument stays on the device while it is what it was: constants always, inputs and cells as long as nobody writes
 * them. Their memory is lent to XLA where it lies; a snapshot holds it, so that who writes them later writes a copy.
 * State of the host that a run updates belongs to XLA from the first run on: each run takes the old buffer and leaves
 * the new one in its place (value.h). Runs are not waited for, unless something can go wrong in them.
 *
 * Where the device has tensors of its own, XLA looks at their memory, and never takes it. Results are copied into
 * memory of ours within the device (results.c), so such a run is waited for. */
#include "xla/executable.h"
#include "codegen/dump.h"
#include "core/away.h"
#include "core/profile.h"
#include "xla/emit.h"
#include "xla/results.h"
#include "xla/value.h"

#include <string.h>

enum { VIEW_ALIGNMENT = 256 }; /* of device memory, as drivers give it: XLA's kernels count on some of that */

/* Memory of the device that XLA may look at. What is in it is nothing that XLA remembers. */
typedef struct view {
    hd_xla_buffer buffer;
    const void *data;
} view;

/* What an argument was in the last run. */
typedef struct argument {
    hd_xla_buffer buffer;
    hd_storage *held; /* of memory that XLA borrows, a snapshot; of what was copied, the storage; NULL: none */
    const void *data; /* whose bytes these were, */
    uint32_t changes; /* and when */
    view views[2];    /* of what is on the device; two, as state goes from one block to another and back */
    int next;         /* view to be another one */
    hd_block *there;  /* while a run reads it, so that nobody writes it; NULL: no run does */
} argument;

/* Memory that XLA reads until the event comes. */
typedef struct lent {
    hd_pjrt_event *freed;
    hd_storage *held;
} lent;

typedef struct under_xla {
    hd_executable executable;
    hd_graph *graph;
    hd_stablehlo text;
    hd_xla_device *device;
    hd_xla_program *program;
    argument *arguments;
    hd_xla_buffer **given; /* what a run reads, */
    hd_xla_buffer *made;   /* and makes */
    void **expected;       /* for each cell: a value to be, while its home is not XLA yet; see value.h */
    hd_xla_results results;
    bool looks; /* the run reads memory of the device that is ours */
    lent *lent;
    uint32_t lent_count, lent_capacity;
    struct under_xla *left; /* another one that was left as it is at the end of the process */
} under_xla;

/* ---- lent memory ------------------------------------------------------------------------------------------------- */
static void take_back(under_xla *x, hd_thread *thread, bool wait) {
    HD_HOLD_ERRORS(thread);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < x->lent_count; ++i) {
        lent *l = &x->lent[i];
        if (!wait && !hd_xla_event_is_ready(x->device, l->freed)) {
            x->lent[kept++] = *l;
            continue;
        }
        hd_error_copy forgotten; /* it is free, whatever became of the run */
        if (wait && hd_xla_event_await(x->device, l->freed) != HD_OK) hd_error_take(&forgotten);
        if (!wait) hd_xla_event_destroy(x->device, l->freed);
        hd_object_release(thread, &l->held->object);
    }
    x->lent_count = kept;
}

/* Room for one more before anything is given up. */
static hd_error expect_lent(under_xla *x) {
    if (x->lent_count < x->lent_capacity) return HD_OK;
    const uint32_t capacity = x->lent_capacity > 0 ? x->lent_capacity * 2 : 16;
    lent *moved = hd_array_resize(x->lent, capacity * sizeof *moved);
    if (moved == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for %u arguments under XLA", capacity);
    x->lent = moved;
    x->lent_capacity = capacity;
    return HD_OK;
}

static hd_error give_up(under_xla *x, hd_thread *thread, argument *a) {
    hd_pjrt_event *freed;
    HD_TRY(expect_lent(x));
    hd_xla_buffer_destroy_early(&a->buffer, &freed);
    if (freed != NULL && a->held != NULL) {
        x->lent[x->lent_count++] = (lent){freed, a->held};
    } else {
        hd_xla_event_destroy(x->device, freed);
        if (a->held != NULL) hd_object_release(thread, &a->held->object);
    }
    a->held = NULL;
    a->data = NULL;
    return HD_OK;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */
static hd_xla_type type_of(const under_xla *x, const hd_hlo_argument *a) {
    if (a->node == HD_NO_NODE) return (hd_xla_type){HD_U64, {.rank = 0}};
    return (hd_xla_type){(hd_dtype)x->graph->nodes[a->node].dtype, hd_node_shape(x->graph, a->node)};
}

/* The elements at `offset` bytes of a storage, in the argument's buffer. */
static hd_error refresh(under_xla *x, hd_thread *thread, argument *a, const hd_xla_type *type, hd_storage *s,
                        size_t offset) {
    const char *bytes = hd_storage_bytes(thread, s, HD_READ);
    if (bytes == NULL) return thread->error_code;
    const uint32_t changes = atomic_load_explicit(&s->changes, memory_order_relaxed);
    const bool is_ours = s->block != NULL;                  /* borrowed memory changes without notice */
    const bool is_lent = is_ours && !hd_storage_is_away(s); /* what the host has of a device's may go at any time */
    if (a->buffer.handle != NULL && is_ours && a->data == bytes + offset && a->changes == changes &&
        (a->buffer.freed != NULL || a->held == s))
        return HD_OK;
    if (a->buffer.handle != NULL) HD_TRY(give_up(x, thread, a));
    hd_storage *held = is_lent ? hd_storage_snapshot(thread, s) : NULL;
    if (is_lent && held == NULL) return thread->error_code;
    const hd_error status =
        hd_xla_buffer_make(x->device, type, bytes + offset, is_lent ? HD_XLA_BORROW : HD_XLA_COPY, &a->buffer);
    if (held != NULL && a->buffer.freed == NULL) { /* it was copied */
        hd_object_release(thread, &held->object);
        held = NULL;
    }
    if (status == HD_OK && held == NULL && is_ours) { /* another one at its place would look the same */
        held = s;
        hd_object_retain(&s->object);
    }
    a->held = held;
    a->data = bytes + offset;
    a->changes = changes;
    return status;
}

/* The block of a storage, held; or, where its elements begin at no address that XLA takes, a copy of them. */
static hd_block *hold_block(under_xla *x, hd_thread *thread, hd_storage *s, size_t offset, size_t bytes) {
    const hd_device device = x->device->device;
    const hd_device_interface *interface = hd_device_interface_of(device.kind);
    hd_block *block = hd_away_block(thread, s);
    if (block == NULL) return NULL;
    char *address = (char *)block->address + offset;
    if ((uintptr_t)address % VIEW_ALIGNMENT == 0) {
        atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
        return block;
    }
    hd_block *copy = interface->allocate(thread, device.index, bytes);
    if (copy == NULL ||
        interface->copy(thread, (hd_address){device, copy->address}, (hd_address){device, address}, bytes) == HD_OK)
        return copy;
    hd_block_release(thread, copy);
    return NULL;
}

/* A buffer over device memory, which is nobody's to write while the run has it. */
static hd_error look_at(under_xla *x, hd_thread *thread, argument *a, const hd_xla_type *type, hd_storage *s,
                        size_t offset, hd_xla_buffer **out) {
    size_t bytes = 0;
    HD_TRY(hd_xla_type_bytes(type, &bytes));
    if (a->buffer.handle != NULL) HD_TRY(give_up(x, thread, a)); /* of another storage, elsewhere */
    a->there = hold_block(x, thread, s, offset, bytes);
    if (a->there == NULL) return thread->error_code;
    char *address = (char *)a->there->address + (hd_away_block(thread, s) == a->there ? offset : 0);
    x->looks = true;
    for (int i = 0; i < 2; ++i) {
        *out = &a->views[i].buffer;
        if (a->views[i].buffer.handle != NULL && a->views[i].data == address) return HD_OK;
    }
    view *v = &a->views[a->next];
    a->next = 1 - a->next;
    hd_xla_buffer_destroy(&v->buffer);
    v->data = address;
    *out = &v->buffer;
    return hd_xla_buffer_view(x->device, type, address, &v->buffer);
}

/* True when XLA can look at a storage where it is. */
static bool is_in_sight(const under_xla *x, const hd_storage *s) {
    return s->bytes > 0 && x->executable.on_device && hd_storage_is_away(s) &&
           hd_device_equal(s->device, x->device->device) && x->device->client->plugin.view != NULL;
}

/* State that this run takes: from its storage, or, when that is not XLA's yet or must stay as it is, a copy. */
static hd_error take_state(under_xla *x, hd_thread *thread, argument *a, const hd_xla_type *type, hd_storage *s,
                           bool keep, hd_xla_buffer **out) {
    *out = keep ? NULL : hd_xla_value_buffer(s, x->device);
    if (*out != NULL) return HD_OK;
    const void *bytes = hd_storage_bytes(thread, s, HD_READ);
    if (bytes == NULL) return thread->error_code;
    *out = &a->buffer;
    return hd_xla_buffer_make(x->device, type, bytes, HD_XLA_COPY, &a->buffer);
}

/* True when this run takes a storage's buffer, so that it cannot be read as another argument. */
static bool is_taken(const under_xla *x, const hd_run *run, const hd_storage *s) {
    for (uint32_t i = 0; i < x->graph->cell_count; ++i)
        if (run->cells[i] == s && x->graph->cells[i].update != x->graph->cells[i].node) return true;
    return false;
}

static bool is_updated(const under_xla *x, const hd_hlo_argument *from) {
    return from->kind == HD_HLO_CELL && x->graph->cells[from->index].update != x->graph->cells[from->index].node;
}

/* State may be of the host, or of the device; scripts of HODU take no other, too. */
static hd_error check_state(const under_xla *x, const hd_storage *s) {
    const hd_device device = x->device->device;
    if (!hd_device_is_away(device) || !hd_storage_is_away(s) || hd_device_equal(s->device, device)) return HD_OK;
    return hd_fail(HD_ERROR_DEVICE,
                   "state is on %s, and the script runs on %s; hd_module_to moves it, and "
                   "hd_script_set_device the script",
                   hd_device_text((char[32]){0}, s->device), hd_device_text((char[32]){0}, device));
}

static hd_error prepare_number(under_xla *x, argument *a, const hd_xla_type *type, uint64_t number) {
    if (a->buffer.handle != NULL && a->changes == 1 && memcmp(&a->data, &number, sizeof number) == 0) return HD_OK;
    hd_xla_buffer_destroy(&a->buffer);
    a->changes = 1;
    memcpy(&a->data, &number, sizeof number);
    return hd_xla_buffer_make(x->device, type, &number, HD_XLA_COPY, &a->buffer);
}

static hd_error prepare(under_xla *x, hd_thread *thread, const hd_run *run, uint32_t i) {
    const hd_hlo_argument *from = &x->text.arguments[i];
    argument *a = &x->arguments[i];
    const hd_xla_type type = type_of(x, from);
    x->given[i] = &a->buffer;
    if (from->kind == HD_HLO_SEED) return prepare_number(x, a, &type, run->seed);
    if (from->kind == HD_HLO_DRAW) return prepare_number(x, a, &type, run->draw);
    const hd_tensor *t = from->kind == HD_HLO_INPUT ? run->inputs[from->index] : NULL;
    hd_storage *s = t != NULL                   ? t->storage
                    : from->kind == HD_HLO_CELL ? run->cells[from->index]
                                                : x->graph->constants[from->index].storage;
    const size_t offset = t == NULL ? 0 : (size_t)t->layout.offset * hd_dtype_bytes[t->dtype];
    if (is_updated(x, from)) HD_TRY(check_state(x, s));
    if (is_in_sight(x, s) && hd_shape_count(type.shape) > 0)
        return look_at(x, thread, a, &type, s, offset, &x->given[i]);
    if (is_updated(x, from) && from->result >= 0)
        return take_state(x, thread, a, &type, s, run->keep_state, &x->given[i]);
    hd_xla_buffer *there = hd_xla_value_buffer(s, x->device);
    if (there != NULL && hd_xla_type_equal(&there->type, &type) && !is_taken(x, run, s)) {
        x->given[i] = there;
        return HD_OK;
    }
    return refresh(x, thread, a, &type, s, offset);
}

/* What the device was asked before is done before XLA reads its memory. */
static hd_error prepare_all(under_xla *x, hd_thread *thread, const hd_run *run) {
    const hd_device device = x->device->device;
    x->looks = false;
    for (uint32_t i = 0; i < x->text.argument_count; ++i) HD_TRY(prepare(x, thread, run, i));
    return x->looks ? hd_device_interface_of(device.kind)->synchronize(thread, device.index) : HD_OK;
}

/* Copies of state that were not taken, and what a run held while it was under way. */
static void let_go(under_xla *x, hd_thread *thread) {
    for (uint32_t i = 0; i < x->text.argument_count; ++i) {
        argument *a = &x->arguments[i];
        if (x->text.arguments[i].result >= 0) hd_xla_buffer_destroy(&a->buffer);
        if (a->there != NULL) hd_block_release(thread, a->there);
        a->there = NULL;
    }
}

/* ---- results ----------------------------------------------------------------------------------------------------- */
/* Borrowed memory stays where it is, and is written. */
static bool is_borrowed(const hd_storage *cell) { return cell->home == NULL && cell->block == NULL; }

static hd_error expect_output(under_xla *x, hd_thread *thread, const hd_run *run, const hd_hlo_result *r) {
    const hd_shape shape = hd_node_shape(x->graph, r->node);
    const hd_dtype dtype = (hd_dtype)x->graph->nodes[r->node].dtype;
    hd_tensor **out = &run->outputs[r->index];
    if (x->executable.on_device) {
        *out = hd_tensor_new_on(thread, x->device->device, dtype, &shape);
        return *out == NULL ? thread->error_code : HD_OK;
    }
    hd_layout layout;
    hd_layout_contiguous(&layout, &shape);
    hd_storage *s = hd_xla_value_new(thread, hd_node_bytes(x->graph, r->node));
    if (s == NULL) return thread->error_code;
    *out = hd_tensor_over(thread, s, dtype, &layout);
    hd_object_release(thread, &s->object);
    return *out == NULL ? thread->error_code : HD_OK;
}

/* All that takes memory of ours comes before the run, which takes state from where it was. */
static hd_error expect_results(under_xla *x, hd_thread *thread, const hd_run *run) {
    for (uint32_t i = 0; i < x->text.result_count; ++i) {
        const hd_hlo_result *r = &x->text.results[i];
        if (r->kind == HD_HLO_OUTPUT) HD_TRY(expect_output(x, thread, run, r));
        if (r->kind != HD_HLO_UPDATE || run->keep_state) continue;
        hd_storage *cell = run->cells[r->index];
        if (hd_storage_is_away(cell))
            HD_TRY(hd_xla_results_expect(&x->results, thread, i, cell));
        else if (!is_borrowed(cell))
            HD_TRY(hd_xla_value_expect(cell, &x->expected[r->index]));
    }
    return HD_OK;
}

static hd_error look_for_fault(under_xla *x, hd_thread *thread) {
    const uint32_t last = x->text.result_count - 1;
    int64_t fault[3];
    if (x->text.check_count == 0) return HD_OK;
    HD_TRY(hd_xla_buffer_read(&x->made[last], fault, sizeof fault));
    return hd_stablehlo_fault(thread, x->graph, &x->text, fault);
}

/* Brings what shall be in memory of ours there, all of it, before anything changes. */
static hd_error bring_results(under_xla *x, hd_thread *thread, const hd_run *run) {
    hd_xla_results *to = &x->results;
    for (uint32_t i = 0; i < x->text.result_count; ++i) {
        const hd_hlo_result *r = &x->text.results[i];
        if (r->kind == HD_HLO_OUTPUT && x->executable.on_device)
            HD_TRY(hd_xla_results_bring(to, thread, i, &x->made[i], run->outputs[r->index]->storage->block));
        if (r->kind == HD_HLO_UPDATE && !run->keep_state && hd_storage_is_away(run->cells[r->index]))
            HD_TRY(hd_xla_results_bring(to, thread, i, &x->made[i], to->fresh[i]));
    }
    return hd_xla_results_end(to, thread);
}

static hd_error update_cell(under_xla *x, hd_thread *thread, hd_storage *cell, uint32_t result) {
    hd_xla_buffer *made = &x->made[result];
    if (is_borrowed(cell)) return hd_xla_buffer_read(made, cell->data, cell->bytes);
    hd_xla_value_set(thread, cell, &x->expected[x->text.results[result].index], made);
    return HD_OK;
}

/* State that the run has taken comes back also when that failed: then it is what it was. State of a device was not
 * taken: it changes when all went well. */
static hd_error take_results(under_xla *x, hd_thread *thread, const hd_run *run, hd_pjrt_event *done) {
    hd_error status = hd_xla_event_await(x->device, done);
    if (status == HD_OK) status = look_for_fault(x, thread);
    const bool has_run = status == HD_OK;
    if (has_run) status = bring_results(x, thread, run);
    const bool is_there = status == HD_OK;
    for (uint32_t i = 0; i < x->text.result_count; ++i) {
        const hd_hlo_result *r = &x->text.results[i];
        if (r->kind == HD_HLO_OUTPUT && !x->executable.on_device)
            hd_xla_value_fill(run->outputs[r->index]->storage, &x->made[i]);
        if (r->kind != HD_HLO_UPDATE || run->keep_state) continue;
        hd_storage *cell = run->cells[r->index];
        const bool is_away = hd_storage_is_away(cell);
        if (is_away && is_there) hd_xla_results_put(&x->results, thread, i, cell);
        const hd_error written = is_away ? HD_OK : update_cell(x, thread, cell, i);
        if (status == HD_OK) status = written;
        if (is_away ? is_there : has_run) hd_storage_changed(cell);
    }
    return status;
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */
static hd_error run_program(hd_executable *self, hd_thread *thread, const hd_run *run) {
    under_xla *x = (under_xla *)self;
    const bool on_device = x->executable.on_device;
    hd_observer *observer = thread->observer;
    thread->observer = NULL;
    if (x->lent_count > 0) take_back(x, thread, false);
    hd_error status = prepare_all(x, thread, run);
    if (status == HD_OK) status = expect_results(x, thread, run);
    hd_pjrt_event *done = NULL; /* a run that is on our memory, or can go wrong, is waited for */
    if (status == HD_OK)
        status = hd_xla_run(x->program, x->given, (int)x->text.argument_count, x->made,
                            on_device || x->text.check_count == 0 ? &done : NULL);
    if (done != NULL && !on_device) {
        hd_xla_run_goes_on(x->device, done);
        done = NULL;
    }
    if (status == HD_OK) status = take_results(x, thread, run, done);
    hd_xla_results_settle(&x->results, thread);
    for (uint32_t i = 0; i < x->text.result_count; ++i) hd_xla_buffer_destroy(&x->made[i]);
    let_go(x, thread);
    thread->observer = observer;
    return status;
}

/* ---- making one -------------------------------------------------------------------------------------------------- */
static void xla_destroy(hd_executable *self, hd_thread *thread) {
    under_xla *x = (under_xla *)self;
    if (x->device != NULL && hd_xla_loss_of(x->device) == HD_XLA_ENDED) { /* XLA may still read what it was lent */
        static _Atomic(under_xla *) left;
        x->left = atomic_load(&left);
        while (!atomic_compare_exchange_weak(&left, &x->left, x)) {}
        return;
    }
    for (uint32_t i = 0; x->arguments != NULL && i < x->text.argument_count; ++i) {
        hd_xla_buffer_destroy(&x->arguments[i].buffer); /* waits until its memory is free */
        for (int k = 0; k < 2; ++k) hd_xla_buffer_destroy(&x->arguments[i].views[k].buffer);
        if (x->arguments[i].held != NULL) hd_object_release(thread, &x->arguments[i].held->object);
    }
    for (uint32_t i = 0; x->expected != NULL && i < x->graph->cell_count; ++i)
        hd_xla_value_unexpect(thread, &x->expected[i]);
    take_back(x, thread, true);
    hd_xla_program_release(x->program);
    hd_stablehlo_release(&x->text);
    hd_graph_release(thread, x->graph);
    hd_array_release(x->arguments);
    hd_array_release(x->given);
    hd_array_release(x->made);
    hd_array_release(x->expected);
    hd_xla_results_release(&x->results, thread);
    hd_array_release(x->lent);
    hd_array_release(x);
}

static void *zeros(size_t count, size_t bytes) {
    void *out = hd_array_resize(NULL, (count + 1) * bytes);
    if (out != NULL) memset(out, 0, (count + 1) * bytes);
    return out;
}

/* Checks that the machine has what a run takes. XLA would notice only while it runs, when state was given to it
 * already. */
static hd_error check_memory(const hd_xla_device *device, const hd_xla_stats *f) {
    if (device->device.kind != HD_DEVICE_CPU) return HD_OK; /* which has memory of its own */
    const double needed = (double)f->temporary_bytes + (double)f->output_bytes;
    uint64_t memory, swap;
    hd_os_memory(&memory, &swap);
    const double there = (double)memory + (double)swap;
    if (memory == 0 || needed <= there) return HD_OK;
    return hd_fail(HD_ERROR_MEMORY,
                   "a run would take %.0f bytes under XLA, for values on the way and results; this machine has %.0f",
                   needed, there);
}

static hd_error xla_compile(under_xla *x) {
    const uint32_t count = x->text.argument_count;
    hd_xla_parameter *parameters = zeros(count, sizeof *parameters);
    x->arguments = zeros(count, sizeof *x->arguments);
    x->given = zeros(count, sizeof(hd_xla_buffer *));
    x->made = zeros(x->text.result_count, sizeof *x->made);
    x->expected = zeros(x->graph->cell_count, sizeof(void *));
    hd_error status = HD_OK;
    if (hd_dump_wants("stablehlo")) hd_dump_text("StableHLO", x->text.text, x->text.bytes);
    if (parameters == NULL || x->arguments == NULL || x->given == NULL || x->made == NULL || x->expected == NULL)
        status = hd_fail(HD_ERROR_MEMORY, "no memory for %u arguments under XLA", count);
    if (status == HD_OK) status = hd_xla_results_begin(&x->results, x->device, x->text.result_count);
    for (uint32_t i = 0; status == HD_OK && i < count; ++i)
        parameters[i] = (hd_xla_parameter){type_of(x, &x->text.arguments[i]), x->text.arguments[i].result >= 0};
    if (status == HD_OK) {
        x->program = hd_xla_compile(x->device, x->text.text, x->text.bytes, parameters, (int)count);
        if (x->program == NULL) hd_stablehlo_name_node(hd_thread_self(), x->graph, &x->text);
        status = x->program == NULL ? HD_ERROR_INTERNAL : check_memory(x->device, &x->program->stats);
    }
    hd_array_release(parameters);
    return status;
}

static hd_executable *compile_graph(hd_thread *thread, hd_graph *graph, hd_device device, hd_optimization_level level,
                                    hd_carried *carried) {
    (void)carried; /* it is HODU's */
    HD_HOLD_ERRORS(thread);
    HD_PROFILE_PHASE("XLA");
    under_xla *x = hd_array_resize(NULL, sizeof *x);
    if (x == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a script under XLA");
        return NULL;
    }
    *x = (under_xla){.executable = {.run = run_program, .destroy = xla_destroy}};
    HD_KEEP_NAME(thread); /* passes call ops, but it is the caller's function that runs */
    hd_object_retain(&graph->object);
    x->graph = graph;
    if (level > HD_O0) {
        x->graph = hd_graph_simplify(thread, graph);
        hd_graph_release(thread, graph);
    }
    if (x->graph != NULL && (x->device = hd_xla_device_of(device)) != NULL &&
        hd_stablehlo_emit(thread, x->graph, &x->text) == HD_OK && xla_compile(x) == HD_OK) {
        const hd_xla_stats *f = &x->program->stats;
        x->executable.on_device = hd_device_is_away(device) && hd_device_executor(device) != NULL;
        x->executable.nodes = x->graph->node_count;
        x->executable.launches = 1;
        x->executable.arena_bytes = f->temporary_bytes;
        x->executable.peak_bytes = f->peak_bytes;
        const bool shared = hd_xla_program_is_shared(x->program); /* somebody had it compiled before */
        x->executable.code = (hd_code_stats){.kernels = 1, .from_memory = shared};
        if (!shared)
            x->executable.code = (hd_code_stats){.kernels = 1,
                                                 .from_disk = f->from_disk,
                                                 .compiled = !f->from_disk,
                                                 .compile_nanoseconds = f->compile_nanoseconds};
        return &x->executable;
    }
    xla_destroy(&x->executable, thread);
    return NULL;
}

const hd_compiler_interface hd_xla_interface = {
    .name = "XLA", .compile = compile_graph, .available = hd_xla_available, .present = hd_xla_present};
