/* Taking back what was written. */
#include "core/undo.h"
#include "core/execute.h"

#include <string.h>

static _Atomic uint64_t last_number;

void hd_undo_begin(hd_undo *undo, hd_thread *thread) {
    undo->thread = thread;
    undo->outer = thread->undo;
    undo->number = atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
    undo->entries = undo->few;
    undo->count = 0;
    undo->capacity = sizeof undo->few / sizeof undo->few[0];
    thread->undo = undo;
}

/* A later number is of an inner one, whose end the outer one outlives, or of another thread. */
static bool has(const hd_undo *undo, const hd_storage *s) {
    if (s->noted <= undo->number) return s->noted == undo->number;
    for (uint32_t i = 0; i < undo->count; ++i)
        if (undo->entries[i].storage == s) return true;
    return false;
}

static hd_error add(hd_undo *undo, hd_storage *s, hd_block *block, uint32_t node) {
    if (undo->count == undo->capacity) {
        const uint32_t capacity = undo->capacity * 2;
        hd_undo_entry *before = undo->entries != undo->few ? undo->entries : NULL;
        hd_undo_entry *entries = hd_array_resize(before, capacity * sizeof *entries);
        if (entries == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to keep what %u tensors were", capacity);
        if (before == NULL) memcpy(entries, undo->few, sizeof undo->few);
        undo->entries = entries;
        undo->capacity = capacity;
    }
    hd_object_retain(&s->object);
    undo->entries[undo->count++] =
        (hd_undo_entry){s, block, s->data, atomic_load_explicit(&s->version, memory_order_relaxed), node};
    s->noted = undo->number;
    return HD_OK;
}

hd_error hd_undo_note(hd_undo *undo, hd_storage *s) {
    hd_thread *thread = undo->thread;
    if (undo->outer != NULL) HD_TRY(hd_undo_note(undo->outer, s));
    if (s->bytes == 0 || has(undo, s)) return HD_OK;
    hd_block *block = s->block;
    if (block != NULL) {
        atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
    } else {
        block = hd_block_new(thread, s->bytes);
        if (block == NULL) return thread->error_code;
        memcpy(hd_block_data(block), s->data, s->bytes);
    }
    const hd_error status = add(undo, s, block, 0);
    if (status != HD_OK) hd_block_release(thread, block);
    return status;
}

hd_error hd_undo_note_node(hd_undo *undo, hd_storage *s, uint32_t node) {
    if (undo->outer != NULL) HD_TRY(hd_undo_note_node(undo->outer, s, node));
    return has(undo, s) ? HD_OK : add(undo, s, NULL, node);
}

/* The version is what it was, so that a tape that saved the value may still be walked; the bytes have changed twice. */
static void restore(hd_thread *thread, hd_undo_entry *e) {
    hd_storage *s = e->storage;
    if (e->block == NULL) { /* unless the builder has ended on the way */
        if (thread->executor->restore != NULL) thread->executor->restore(thread->executor, s, e->node);
        return;
    }
    if (s->block == NULL) {
        memcpy(s->data, hd_block_data(e->block), s->bytes);
    } else {
        hd_block *written = s->block;
        s->block = e->block;
        s->data = e->data;
        e->block = written;
    }
    hd_storage_changed(s);
    atomic_store_explicit(&s->version, e->version, memory_order_relaxed);
}

void hd_undo_end(hd_undo *undo, bool keep) {
    hd_thread *thread = undo->thread;
    thread->undo = undo->outer;
    for (uint32_t i = undo->count; i-- > 0;) {
        hd_undo_entry *e = &undo->entries[i];
        if (!keep) restore(thread, e);
        if (e->block != NULL) hd_block_release(thread, e->block);
        hd_object_release(thread, &e->storage->object);
    }
    if (undo->entries != undo->few) hd_array_release(undo->entries);
}
