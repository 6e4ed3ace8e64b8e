/* Recording: the tape is the thread's observer. */
#include "grad/tape.h"
#include "ops/row_uses.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK_WORDS = 4096, CHUNKS_KEPT = 64 }; /* 32 KB; 2 MB stay with a tape that was cleared */

static _Atomic uint32_t last_serial;

static uint32_t new_serial(void) {
    uint32_t serial;
    do serial = atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;
    while (serial == 0);
    return serial;
}

/* ---- a tape that nobody clears: said once for each context ------------------------------------------------------- */
static const char *cure(const hd_context *context) {
    return context->id == 0 ? "hd_optimizer_zero_grad or hd_clear_tape" : "hd_clear_tape";
}

void hd_tape_walked(hd_context *context) {
    enum { WALKS = 256 };
    hd_tape *tape = &context->tape;
    if (++tape->backwards < WALKS || tape->warned) return;
    tape->warned = true;
    hd_warn(hd_thread_self(),
            "the tape of gradient context %lld has %u records after %d calls of hd_backward or hd_grad_of "
            "without a clear; call %s in every step",
            (long long)context->id, tape->count - tape->leaves, WALKS, cure(context));
}

/* Forward alone fills a tape too. */
static void warn_of_length(hd_tape *tape) {
    const hd_context *context = (const hd_context *)((const char *)tape - offsetof(hd_context, tape));
    tape->warned = true;
    hd_warn(hd_thread_self(),
            "the tape of gradient context %lld has %u records; unless they are one computation, call %s in every "
            "step, and compute what needs no gradient under HD_NO_GRAD",
            (long long)context->id, tape->count - tape->leaves, cure(context));
}

/* ---- memory of records ------------------------------------------------------------------------------------------- */
static hd_error grow_tape(hd_tape *tape) {
    enum { LONG_TAPE = 1 << 21 };
    if (tape->capacity == LONG_TAPE && !tape->warned) warn_of_length(tape);
    const uint32_t capacity = tape->capacity ? tape->capacity * 2 : 256;
    if (capacity > UINT32_MAX / 2) return hd_fail(HD_ERROR_OVERFLOW, "a tape of 2^31 records; clear it");
    hd_record **records = hd_array_resize(tape->records, capacity * sizeof *records);
    if (records == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a tape of %u records; clear it", capacity);
    tape->records = records;
    tape->capacity = capacity;
    return HD_OK;
}

static hd_tape_chunk *next_chunk(hd_tape *tape, size_t words) {
    hd_tape_chunk *chunk = tape->spare;
    if (chunk != NULL && words <= chunk->capacity) {
        tape->spare = chunk->next;
    } else {
        const size_t capacity = words > CHUNK_WORDS ? words : CHUNK_WORDS;
        chunk = hd_array_resize(NULL, sizeof *chunk + capacity * 8);
        if (chunk == NULL) return NULL;
        chunk->capacity = capacity;
    }
    chunk->used = 0;
    chunk->next = tape->chunks;
    return tape->chunks = chunk;
}

static inline size_t words_of(size_t bytes) { return (bytes + 7) / 8; }
/* Bits set among HD_SAVE_*: the baseline instruction set has no popcount, and a library call costs more. */
static inline int saves_count(unsigned saves) {
    return (int)(0x4332322132212110 >> ((saves & HD_SAVE_ANY) * 4) & 15) + (int)(saves >> 5 & 1) +
           (int)(saves >> 6 & 1);
}
/* Those and, with HD_SAVE_REST, all inputs from the fifth on. */
static inline int saved_count(unsigned saves, int inputs) {
    return saves_count(saves) + (__builtin_expect((saves & HD_SAVE_REST) != 0, 0) ? inputs - 4 : 0);
}
int hd_record_saved_count(const hd_record *r) { return r->op == NULL ? 1 : saved_count(r->saves, (int)r->inputs); }

static inline __attribute__((always_inline)) hd_record *
record_new(hd_tape *tape, const hd_op *op, int64_t inputs, int saved, size_t shape_words, size_t attribute_bytes) {
    if (__builtin_expect(tape->count + 1 >= tape->capacity, 0) && grow_tape(tape) != HD_OK) return NULL;
    if (__builtin_expect(tape->serial == 0, 0)) tape->serial = new_serial();
    const size_t fixed = words_of(sizeof(hd_record) + (size_t)inputs * 5),
                 saved_words = (size_t)saved * sizeof(hd_saved) / 8;
    const size_t words = fixed + saved_words + shape_words + words_of(attribute_bytes);
    if (words > UINT16_MAX) {
        hd_fail(HD_ERROR_VALUE, "%lld inputs are too many for one record", (long long)inputs);
        return NULL;
    }
    hd_tape_chunk *chunk = tape->chunks;
    if (__builtin_expect(chunk == NULL || chunk->used + words > chunk->capacity, 0)) {
        chunk = next_chunk(tape, words);
        if (chunk == NULL) {
            hd_fail(HD_ERROR_MEMORY, "no memory for record %u of the tape; clear it", tape->count + 1);
            return NULL;
        }
    }
    hd_record *r = (hd_record *)(chunk->data + chunk->used);
    chunk->used += words;
    r->op = op;
    r->gradient[0] = r->gradient[1] = NULL;
    r->inputs = (uint32_t)inputs;
    r->outputs = 1;
    r->saves = 0;
    r->saved_at = (uint16_t)fixed;
    r->shapes_at = shape_words == 0 ? 0 : (uint16_t)(fixed + saved_words);
    r->attributes_at = attribute_bytes == 0 ? 0 : (uint16_t)(fixed + saved_words + shape_words);
    r->watch = 0;
    r->reached = r->needed = r->target = false;
    tape->records[++tape->count] = r;
    return r;
}

hd_record *hd_record_new(hd_thread *thread, hd_tape *tape, const hd_op *op, int64_t inputs, int saved,
                         size_t shape_words, size_t attribute_bytes) {
    (void)thread;
    return record_new(tape, op, inputs, saved, shape_words, attribute_bytes);
}

static void release_saved(hd_thread *thread, hd_record *r) {
    hd_saved *saved = hd_record_saved(r);
    const int count = hd_record_saved_count(r);
    for (int i = 0; i < count; ++i) hd_tensor_drop(thread, saved[i].tensor);
    if (r->op == &hd_op_external) hd_object_release(thread, *(hd_object *const *)hd_record_attributes(r));
}

void hd_tape_clear(hd_thread *thread, hd_tape *tape) {
    if (tape->clearing) return; /* called by what a release called */
    tape->clearing = true;
    for (uint32_t i = 1; i <= tape->count; ++i) release_saved(thread, tape->records[i]);
    for (uint32_t i = 0; i < tape->watch_count; ++i) hd_object_release(thread, &tape->watches[i].slot->object);
    int kept = 0;
    for (hd_tape_chunk *c = tape->spare; c != NULL; c = c->next) ++kept;
    while (tape->chunks != NULL) {
        hd_tape_chunk *chunk = tape->chunks;
        tape->chunks = chunk->next;
        if (kept < CHUNKS_KEPT && chunk->capacity == CHUNK_WORDS) {
            chunk->next = tape->spare;
            tape->spare = chunk;
            ++kept;
        } else {
            hd_array_release(chunk);
        }
    }
    if (tape->capacity > 1 << 17) { /* a megabyte of pointers was an exception */
        hd_array_release(tape->records);
        tape->records = NULL;
        tape->capacity = 0;
    }
    tape->count = tape->leaves = tape->watch_count = tape->backwards = 0;
    if (tape->serial != 0) tape->serial = new_serial();
    tape->clearing = false;
}

void hd_tape_destroy(hd_thread *thread, hd_tape *tape) {
    hd_tape_clear(thread, tape);
    while (tape->spare != NULL) {
        hd_tape_chunk *chunk = tape->spare;
        tape->spare = chunk->next;
        hd_array_release(chunk);
    }
    hd_array_release(tape->records);
    hd_array_release(tape->watches);
    *tape = (hd_tape){0};
}

/* ---- places ------------------------------------------------------------------------------------------------------ */
void hd_place(hd_thread *thread, hd_tapes *tapes, hd_tensor *t, int output) {
    const hd_tape *tape = &tapes->active->tape;
    const uint64_t edge = tape->count * 2 + (uint32_t)output;
    atomic_store_explicit(&t->history.place, (uint64_t)tape->serial << 32 | edge, memory_order_relaxed);
    t->history.context = (uint32_t)tapes->active->id;
    t->history.thread = thread->number;
    t->tracking = HD_TRACKED_RESULT;
}

/* A forward function reads a parameter that is neither trained nor saved with its model. */
static void warn_of_parameter(hd_thread *thread, const hd_tensor *t) {
    const uint32_t layers = thread->layer_count < HD_LAYERS_NOTED ? thread->layer_count : HD_LAYERS_NOTED;
    for (uint32_t i = 0; i < layers; ++i) {
        const hd_tensors *inputs = thread->layers[i].inputs;
        if (thread->layers[i].x == t) return;
        for (int64_t k = 0; inputs != NULL && k < inputs->count; ++k)
            if (inputs->items[k] == t) return;
    }
    if (thread->layers[layers - 1].module == NULL) return; /* a compiled model, whose own forward has been looked at */
    thread->warned_of_parameter = true;
    hd_warn(thread,
            "the forward of a \"%s\" reads a tensor %s that requires a gradient and that no module holds: it is not "
            "among hd_module_parameters; hd_module_add_parameter makes it a member",
            thread->layers[layers - 1].kind, HD_SHAPE_TEXT(t->layout.shape));
}

/* Two threads may do this for one tensor, each on its own tape: its place is only a hint, then, and another record is
 * made when it does not lead here. Results keep context and thread, for messages. */
static __attribute__((noinline)) uint32_t new_leaf(hd_thread *thread, hd_tape *tape, hd_tensor *t) {
    hd_record *r = hd_record_new(thread, tape, NULL, 0, 1, 0, 0);
    if (r == NULL) return 0;
    hd_object_retain(&t->object);
    hd_record_saved(r)[0] = (hd_saved){t, 0};
    tape->leaves++;
    r->dtype = t->dtype;
    if (t->tracking == HD_TRACKED_LEAF && thread->layer_count > 0 && !t->held && !thread->warned_of_parameter)
        warn_of_parameter(thread, t);
    if (t->tracking == HD_TRACKED_LEAF)
        atomic_store_explicit(&t->history.place, (uint64_t)tape->serial << 32 | tape->count * 2, memory_order_relaxed);
    return tape->count * 2;
}

/* A result of another tape keeps its place there, so the leaf that stands for it here is looked for. */
static uint32_t foreign_leaf(hd_thread *thread, hd_tape *tape, hd_tensor *t) {
    for (uint32_t i = tape->count, looked = 0; i > 0 && looked < 64; --i, ++looked) {
        hd_record *r = tape->records[i];
        if (r->op == NULL && hd_record_saved(r)[0].tensor == t) return i * 2;
    }
    return new_leaf(thread, tape, t);
}

uint32_t hd_edge_of(hd_thread *thread, hd_tape *tape, hd_tensor *t) {
    if (t->tracking == HD_UNTRACKED) return 0;
    const uint32_t edge = hd_edge_on(tape, t);
    if (edge != 0) return edge;
    return t->tracking == HD_TRACKED_LEAF ? new_leaf(thread, tape, t) : foreign_leaf(thread, tape, t);
}

/* ---- the observer ------------------------------------------------------------------------------------------------ */
static inline unsigned saves_of(const hd_call *call, int input) {
    const hd_op *op = call->op;
    if (op->family == HD_FAMILY_ELEMENTWISE) return hd_row_uses((hd_op_id)op->id, input) & HD_SAVE_ANY;
    const unsigned saves = op->saves[input < 2 ? input : 2];
    if (op == &hd_ops[HD_OP_custom]) return hd_custom_saves(call->attributes);
    return op == &hd_ops[HD_OP_scatter] ? saves & hd_scatter_reads(call->attributes) : saves;
}

static inline uint32_t version_of(const hd_tensor *t) {
    return atomic_load_explicit(&t->storage->version, memory_order_relaxed);
}

static inline bool same_shape(const hd_shape *a, const hd_shape *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; ++i)
        if (a->size[i] != b->size[i]) return false;
    return true;
}

static hd_error record_call(hd_thread *thread, const hd_call *call) {
    const hd_op *op = call->op;
    if (op->gradient == HD_GRADIENT_STOP) return HD_OK;
    hd_tapes *tapes = hd_tapes_of(thread);
    if (tapes == NULL) return thread->error_code;
    hd_tape *tape = &tapes->active->tape;
    uint32_t edges[HD_MAX_INPUTS];
    unsigned saves = 0;
    bool same_shapes = op->family == HD_FAMILY_ELEMENTWISE;
    size_t shape_words = 0;
    for (int i = 0; i < call->input_count; ++i) {
        hd_tensor *x = call->inputs[i];
        edges[i] = x->tracking == HD_UNTRACKED ? 0 : hd_edge_on(tape, x);
        if (__builtin_expect(edges[i] == 0, 0)) edges[i] = hd_edge_of(thread, tape, x);
        if (edges[i] != 0 && op->gradient == HD_GRADIENT_VJP) saves |= saves_of(call, i);
        shape_words += 1 + (size_t)x->layout.shape.rank;
        same_shapes = same_shapes && same_shape(&x->layout.shape, &call->shape[0]);
    }
    if (thread->error_code != HD_OK) return thread->error_code;
    for (int i = call->input_count; i < 5; ++i) saves &= ~hd_save_bit(i); /* some inputs are optional */
    if (call->output_count < 2) saves &= ~(unsigned)HD_SAVE_OUTPUT1;      /* and so are outputs */
    hd_record *r = record_new(tape, op, call->input_count, saved_count(saves, call->input_count),
                              same_shapes ? 0 : shape_words, call->attributes == NULL ? 0 : op->attribute_bytes);
    if (r == NULL) return thread->error_code;
    r->outputs = (uint8_t)call->output_count;
    r->saves = (uint8_t)saves;
    r->dtype = (uint8_t)call->dtype[0];
    r->compute = op->family == HD_FAMILY_ELEMENTWISE ? (uint8_t)call->compute : r->dtype;
    uint8_t *dtypes = hd_record_dtypes(r);
    hd_saved *saved = hd_record_saved(r);
    for (int i = 0; i < call->input_count; ++i) {
        hd_tensor *x = call->inputs[i];
        r->edges[i] = edges[i];
        dtypes[i] = x->dtype;
        if (saves & hd_save_bit(i)) {
            hd_object_retain(&x->object);
            *saved++ = (hd_saved){x, version_of(x)};
        }
    }
    if (saves & HD_SAVE_OUTPUT) {
        hd_object_retain(&call->outputs[0]->object);
        *saved++ = (hd_saved){call->outputs[0], version_of(call->outputs[0])};
    }
    if (saves & HD_SAVE_OUTPUT1) {
        hd_object_retain(&call->outputs[1]->object);
        *saved = (hd_saved){call->outputs[1], version_of(call->outputs[1])};
    }
    if (!same_shapes) {
        int64_t *word = (int64_t *)r + r->shapes_at;
        for (int i = 0; i < call->input_count; ++i) {
            const hd_shape *shape = &call->inputs[i]->layout.shape;
            *word++ = shape->rank;
            for (int k = 0; k < shape->rank; ++k) *word++ = shape->size[k];
        }
    }
    if (r->attributes_at != 0) memcpy((uint64_t *)r + r->attributes_at, call->attributes, op->attribute_bytes);
    hd_place(thread, tapes, call->outputs[0], 0);
    for (int i = 1; i < call->output_count; ++i) /* indices beside values have no history */
        if (hd_dtype_is_float(call->dtype[i])) hd_place(thread, tapes, call->outputs[i], i);
    return HD_OK;
}

static hd_error tape_ran(hd_observer *self, hd_thread *thread, const hd_call *call) {
    (void)self;
    return record_call(thread, call);
}

const hd_op hd_op_external = {.name = "external", .family = HD_FAMILY_VIEW, .outputs = 1};

hd_error hd_record_external(hd_thread *thread, hd_tensor *y, const hd_tensors *inputs, hd_external *external) {
    hd_tapes *tapes = hd_tapes_of(thread);
    if (tapes == NULL) return thread->error_code;
    hd_tape *tape = &tapes->active->tape;
    uint32_t *edges = hd_array_resize(NULL, (size_t)(inputs->count + 1) * sizeof *edges);
    if (edges == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for %lld inputs", (long long)inputs->count);
    for (int64_t i = 0; i < inputs->count; ++i) edges[i] = hd_edge_of(thread, tape, inputs->items[i]);
    hd_record *r = thread->error_code != HD_OK
                       ? NULL
                       : hd_record_new(thread, tape, &hd_op_external, inputs->count, 0, 0, sizeof(hd_object *));
    for (int64_t i = 0; r != NULL && i < inputs->count; ++i) {
        r->edges[i] = edges[i];
        hd_record_dtypes(r)[i] = inputs->items[i]->dtype;
    }
    hd_array_release(edges);
    if (r == NULL) return thread->error_code;
    hd_object_retain(&external->object);
    *(hd_object **)((uint64_t *)r + r->attributes_at) = &external->object;
    r->dtype = r->compute = y->dtype;
    hd_place(thread, tapes, y, 0);
    return HD_OK;
}

/* ---- writing in place -------------------------------------------------------------------------------------------- */
/* What was written into dst: its gradient goes to the source. */
static void vjp_assign(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    v->results[0] = hd_cast(hd_gradient_to_shape(v->gradient, &v->shapes[0]), (hd_dtype)v->dtypes[0]);
}
static const hd_op assign_op = {
    .name = "assign", .family = HD_FAMILY_VIEW, .min_inputs = 1, .max_inputs = 1, .outputs = 1, .vjp = vjp_assign};

static hd_error tape_writes(hd_observer *self, hd_thread *thread, const hd_tensor *dst, const hd_tensor *src) {
    (void)self;
    if (dst->tracking == HD_TRACKED_LEAF)
        return hd_fail(HD_ERROR_STATE,
                       "the destination %s is a leaf that requires a gradient: updates of parameters belong into a "
                       "block with HD_NO_GRAD",
                       HD_SHAPE_TEXT(dst->layout.shape));
    if (dst->tracking == HD_UNTRACKED && src->tracking == HD_UNTRACKED) return HD_OK;
    const int held = thread->executor->holds != NULL ? thread->executor->holds(thread->executor, dst->storage) : 0;
    if (atomic_load_explicit(&dst->storage->object.references, memory_order_relaxed) > 1 + held)
        return hd_fail(HD_ERROR_STATE,
                       "the destination %s shares its memory with another tensor, whose history would then be wrong; "
                       "make a new tensor instead (hd_where, hd_concat, hd_scatter), or write under HD_NO_GRAD",
                       HD_SHAPE_TEXT(dst->layout.shape));
    return HD_OK;
}

static hd_error tape_wrote(hd_observer *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src) {
    (void)self;
    if (src->tracking == HD_UNTRACKED) {
        if (dst->tracking != HD_UNTRACKED) { /* its values are constants now */
            dst->tracking = HD_UNTRACKED;
            atomic_store_explicit(&dst->history.place, 0, memory_order_relaxed);
        }
        return HD_OK;
    }
    hd_tensor *inputs[1] = {src};
    hd_call call = {.op = &assign_op, .inputs = inputs, .input_count = 1, .output_count = 1};
    call.dtype[0] = (hd_dtype)dst->dtype;
    call.shape[0] = dst->layout.shape;
    call.outputs[0] = dst;
    dst->made_by = &assign_op;
    return record_call(thread, &call);
}

hd_observer hd_tape_observer = {.ran = tape_ran, .writes = tape_writes, .wrote = tape_wrote};
