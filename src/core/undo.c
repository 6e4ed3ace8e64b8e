/* Taking back what was done. */
#include "core/undo.h"
#include "core/away.h"
#include "core/random.h"

#include <string.h>

static _Atomic uint64_t last_number;

static void finish(hd_undo *undo, bool keep);
static void left(hd_thread *thread, const hd_ending *ending) {
    (void)thread;
    finish(ending->object, false);
}

hd_undo *hd_undo_begin(hd_thread *thread) {
    hd_undo *undo = hd_array_resize(NULL, sizeof *undo);
    if (undo == NULL) hd_fail(HD_ERROR_MEMORY, "no memory to keep what tensors were");
    if (undo == NULL || hd_ending_push(thread, left, undo, 0, 0) != HD_OK) {
        hd_array_release(undo);
        return NULL;
    }
    undo->thread = thread;
    undo->outer = thread->undo;
    undo->number = atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
    undo->ending = hd_ending_last(thread);
    undo->entries = undo->few;
    undo->count = 0;
    undo->capacity = sizeof undo->few / sizeof undo->few[0];
    undo->draws = NULL;
    thread->undo = undo;
    return undo;
}

/* ---- noting ------------------------------------------------------------------------------------------------------ */
/* A later number is of an inner one, whose end the outer one outlives, or of another thread. */
static bool has(const hd_undo *undo, const hd_object *o, uint64_t noted) {
    if (noted <= undo->number) return noted == undo->number;
    for (uint32_t i = 0; i < undo->count; ++i)
        if (undo->entries[i].object == o) return true;
    return false;
}

/* Room for one entry; NULL with an error. */
static hd_undo_entry *next_entry(hd_undo *undo) {
    if (undo->count == undo->capacity) {
        const uint32_t capacity = undo->capacity * 2;
        hd_undo_entry *before = undo->entries != undo->few ? undo->entries : NULL;
        hd_undo_entry *entries = hd_array_resize(before, capacity * sizeof *entries);
        if (entries == NULL) {
            hd_fail(HD_ERROR_MEMORY, "no memory to keep what %u tensors were", capacity);
            return NULL;
        }
        if (before == NULL) memcpy(entries, undo->few, sizeof undo->few);
        undo->entries = entries;
        undo->capacity = capacity;
    }
    return &undo->entries[undo->count];
}

static void add(hd_undo *undo, const hd_undo_kind *kind, hd_object *o, uint64_t *noted) {
    undo->entries[undo->count].kind = kind;
    undo->entries[undo->count].object = o;
    undo->count++;
    hd_object_retain(o);
    *noted = undo->number;
}

hd_error hd_undo_note_object(hd_undo *undo, const hd_undo_kind *kind, hd_object *o, uint64_t *noted,
                             void (*keep)(hd_undo_entry *e)) {
    if (undo->outer != NULL) HD_TRY(hd_undo_note_object(undo->outer, kind, o, noted, keep));
    if (has(undo, o, *noted)) return HD_OK;
    hd_undo_entry *e = next_entry(undo);
    if (e == NULL) return undo->thread->error_code;
    e->object = o;
    keep(e);
    add(undo, kind, o, noted);
    return HD_OK;
}

/* ---- storages ---------------------------------------------------------------------------------------------------- */
/* The version is what it was, so that a tape that saved the value may still be walked; the bytes have changed twice. */
static void restore_bytes(hd_thread *thread, hd_undo_entry *e) {
    hd_storage *s = (hd_storage *)e->object;
    (void)thread;
    if (hd_storage_is_away(s)) {
        hd_block *held = e->held;
        hd_away_exchange(s, &held);
        e->held = held;
    } else if (s->home == NULL && s->block == NULL) { /* borrowed memory stays where it is */
        memcpy(s->data, hd_block_data(e->held), s->bytes);
    } else {
        if (s->home != NULL) s->home->leave(s);
        hd_block *since = s->home == NULL ? s->block : NULL;
        s->home = NULL;
        s->block = e->held;
        s->data = e->data;
        e->held = since;
    }
    hd_storage_changed(s);
    atomic_store_explicit(&s->version, e->version, memory_order_relaxed);
}
static void drop_block(hd_thread *thread, hd_undo_entry *e) {
    if (e->held != NULL) hd_block_release(thread, e->held);
}
static const hd_undo_kind of_bytes = {restore_bytes, drop_block};

hd_error hd_undo_note(hd_undo *undo, hd_storage *s) {
    hd_thread *thread = undo->thread;
    if (undo->outer != NULL) HD_TRY(hd_undo_note(undo->outer, s));
    if (s->bytes == 0 || hd_undo_made(undo, s) || has(undo, &s->object, s->noted)) return HD_OK;
    hd_undo_entry *e = next_entry(undo);
    if (e == NULL) return thread->error_code;
    hd_block *block = hd_storage_is_away(s) ? hd_away_block(thread, s) : s->home == NULL ? s->block : NULL;
    if (hd_storage_is_away(s) && block == NULL) return thread->error_code;
    if (block != NULL) {
        atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
    } else {
        block = hd_block_new(thread, s->bytes);
        if (block == NULL) return thread->error_code;
        memcpy(hd_block_data(block), s->data, s->bytes);
    }
    *e = (hd_undo_entry){.held = block,
                         .data = block == s->block ? s->data : hd_block_data(block),
                         .version = atomic_load_explicit(&s->version, memory_order_relaxed)};
    add(undo, &of_bytes, &s->object, &s->noted);
    return HD_OK;
}

hd_error hd_undo_note_state(hd_undo *undo, hd_storage *s) {
    if (!hd_storage_is_away(s) && hd_storage_bytes(undo->thread, s, HD_READ) == NULL) return undo->thread->error_code;
    return hd_undo_note(undo, s); /* of a device's, the block is enough */
}

bool hd_undo_spare(hd_undo *undo, hd_storage *s) {
    if (has(undo, &s->object, s->noted)) return false;
    s->noted = undo->number; /* from here on it counts as noted */
    return true;
}

static void restore_node(hd_thread *thread, hd_undo_entry *e) {
    hd_executor *executor = thread->executor; /* unless the builder has ended on the way */
    if (executor->restore != NULL) executor->restore(executor, (hd_storage *)e->object, e->node);
}
static void drop_nothing(hd_thread *thread, hd_undo_entry *e) { (void)thread, (void)e; }
static const hd_undo_kind of_node = {restore_node, drop_nothing};

hd_error hd_undo_note_node(hd_undo *undo, hd_storage *s, uint32_t node) {
    if (undo->outer != NULL) HD_TRY(hd_undo_note_node(undo->outer, s, node));
    if (hd_undo_made(undo, s) || has(undo, &s->object, s->noted)) return HD_OK;
    hd_undo_entry *e = next_entry(undo);
    if (e == NULL) return undo->thread->error_code;
    *e = (hd_undo_entry){.node = node};
    add(undo, &of_node, &s->object, &s->noted);
    return HD_OK;
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */
static hd_undo_draws *draws_of(const hd_undo *undo, const hd_generator *g) {
    hd_undo_draws *d = undo->draws;
    while (d != NULL && d->generator != g) d = d->next;
    return d;
}

static hd_error add_draws(hd_undo *undo, hd_generator *g, uint64_t seed, uint64_t draw) {
    hd_undo_draws *d = hd_array_resize(NULL, sizeof *d);
    if (d == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to keep what a generator was");
    *d = (hd_undo_draws){.next = undo->draws, .generator = g, .seed = seed, .draw = draw};
    undo->draws = d;
    if (g != NULL) hd_object_retain((hd_object *)g);
    return HD_OK;
}

hd_error hd_undo_note_draws(hd_undo *undo, hd_generator *g, uint64_t seed, uint64_t draw, int64_t count, bool set) {
    for (hd_undo *u = undo; u != NULL; u = u->outer)
        if (draws_of(u, g) == NULL) HD_TRY(add_draws(u, g, seed, draw));
    for (hd_undo *u = undo; u != NULL; u = u->outer) {
        hd_undo_draws *d = draws_of(u, g);
        d->count += (uint64_t)count;
        d->set = d->set || set;
    }
    return HD_OK;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */
static void finish(hd_undo *undo, bool keep) {
    hd_thread *thread = undo->thread;
    thread->undo = undo->outer;
    for (uint32_t i = undo->count; i-- > 0;) {
        hd_undo_entry *e = &undo->entries[i];
        if (!keep) e->kind->restore(thread, e);
        e->kind->drop(thread, e);
        hd_object_release(thread, e->object);
    }
    while (undo->draws != NULL) {
        hd_undo_draws *d = undo->draws;
        undo->draws = d->next;
        if (!keep) hd_generator_restore(thread, d);
        if (d->generator != NULL) hd_object_release(thread, (hd_object *)d->generator);
        hd_array_release(d);
    }
    if (undo->entries != undo->few) hd_array_release(undo->entries);
    hd_array_release(undo);
}

void hd_undo_end(hd_undo *undo, bool keep) {
    hd_ending_pop(undo->thread, undo->ending);
    finish(undo, keep);
}
