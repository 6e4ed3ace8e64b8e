/* Making one batch: gathered, or of items that are stacked. */
#include "data/batch.h"
#include "core/away.h"
#include "data/stream.h"

#include <hodu/hodu.h>

#include <string.h>

void hd_apart_begin(hd_thread *thread, hd_apart *apart) {
    *apart = (hd_apart){thread->generator, thread->own_seed, thread->own_draw, thread->device, thread->executor};
    thread->generator = NULL;
    thread->device = hd_cpu();
    thread->executor = hd_device_executor(hd_cpu());
}

void hd_apart_end(hd_thread *thread, const hd_apart *apart) {
    if (thread->generator != NULL) hd_generator_use(NULL); /* an item's function left it in use */
    thread->generator = apart->generator;
    thread->own_seed = apart->seed;
    thread->own_draw = apart->draw;
    thread->device = apart->device;
    thread->executor = apart->executor;
}

/* ---- stacking ---------------------------------------------------------------------------------------------------- */
static hd_error check_item(const hd_tensors *first, const hd_tensors *item, int64_t number) {
    if (item->count != first->count)
        return hd_fail(HD_ERROR_VALUE, "item 0 of the batch has %lld tensors, item %lld has %lld",
                       (long long)first->count, (long long)number, (long long)item->count);
    for (int64_t i = 0; i < first->count; ++i) {
        const hd_tensor *a = first->items[i], *b = item->items[i];
        if (a->dtype != b->dtype || !hd_shape_equal(a->layout.shape, b->layout.shape))
            return hd_fail(HD_ERROR_SHAPE,
                           "tensor %lld of item 0 of the batch is %s of %s, that of item %lld %s of %s: they cannot be "
                           "stacked; make them alike, or give a collate function",
                           (long long)i, HD_SHAPE_TEXT(a->layout.shape), hd_dtype_name((hd_dtype)a->dtype),
                           (long long)number, HD_SHAPE_TEXT(b->layout.shape), hd_dtype_name((hd_dtype)b->dtype));
    }
    return HD_OK;
}

/* Tensor `which` of all items, side by side: their bytes are copied, however many there are. */
static hd_tensor *stack(hd_thread *thread, hd_tensors *const *items, int64_t count, int64_t which) {
    const hd_tensor *first = items[0]->items[which];
    hd_shape shape = {.rank = first->layout.shape.rank + 1};
    if (shape.rank > HD_MAX_RANK) {
        hd_fail(HD_ERROR_SHAPE, "items are %s: a batch has one axis more, and %d are the most",
                HD_SHAPE_TEXT(first->layout.shape), HD_MAX_RANK);
        return NULL;
    }
    shape.size[0] = count;
    memcpy(shape.size + 1, first->layout.shape.size, (size_t)(shape.rank - 1) * sizeof shape.size[0]);
    hd_tensor *t = hd_tensor_give(thread, hd_tensor_new(thread, (hd_dtype)first->dtype, &shape));
    char *to = t == NULL ? NULL : hd_tensor_bytes(thread, t, HD_WRITE);
    if (to == NULL) return NULL;
    const size_t bytes = (size_t)first->count * hd_dtype_bytes[first->dtype];
    for (int64_t i = 0; i < count; ++i, to += bytes) {
        const hd_tensor *whole = hd_contiguous(items[i]->items[which]);
        const char *from = whole == NULL ? NULL : hd_tensor_bytes(thread, whole, HD_READ);
        if (from == NULL) return NULL;
        if (bytes > 0) memcpy(to, from, bytes);
    }
    return t;
}

static hd_tensors *stack_all(hd_thread *thread, hd_tensors *const *items, int64_t count) {
    for (int64_t i = 1; i < count; ++i) HD_TRY_OR(check_item(items[0], items[i], i), NULL);
    hd_tensors *batch = hd_tensors_new(thread, items[0]->count);
    for (int64_t i = 0; batch != NULL && i < batch->count; ++i) {
        hd_tensor *t = stack(thread, items, count, i);
        if (t == NULL) return NULL;
        hd_tensors_put(batch, i, t);
    }
    return batch;
}

static hd_tensors *collate(hd_thread *thread, const hd_recipe *r, hd_tensors *const *items, int64_t count) {
    hd_tensors *batch;
    {
        HD_CALLBACK(thread);
        batch = r->collate(items, count, r->collate_user);
    }
    HD_TRY_OR(thread->error_code, NULL);
    if (batch != NULL) HD_TRY_OR(hd_tensors_check(batch, "batch"), NULL);
    if (batch != NULL && batch->count > 0) return batch;
    hd_fail(HD_ERROR_VALUE, "the collate function gave %s", batch == NULL ? "NULL" : "an empty list");
    return NULL;
}

/* ---- a batch ----------------------------------------------------------------------------------------------------- */
/* Draws of the next function of the user's, whatever the one before has left. */
static void draw_from(hd_thread *thread, uint64_t seed) {
    if (thread->generator != NULL) hd_generator_use(NULL);
    thread->own_seed = seed;
    thread->own_draw = 0;
}

static hd_tensors *make_of_items(hd_thread *thread, const hd_recipe *r, const int64_t *indices, int64_t count,
                                 uint64_t seed) {
    hd_tensors **items = hd_array_resize(NULL, (size_t)count * sizeof *items), *batch = NULL;
    if (items == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for %lld items", (long long)count);
        return NULL;
    }
    int64_t made = 0;
    for (; made < count; ++made) {
        draw_from(thread, hd_stream_seed(seed, (uint64_t)made));
        items[made] = hd_dataset_item(thread, r->dataset, indices[made]);
        if (items[made] == NULL) break;
    }
    draw_from(thread, hd_stream_seed(seed, (uint64_t)count)); /* collating may draw, too */
    if (made == count) batch = r->collate != NULL ? collate(thread, r, items, count) : stack_all(thread, items, count);
    hd_array_release(items);
    return batch;
}

hd_tensors *hd_batch_make(hd_thread *thread, const hd_recipe *r, const int64_t *indices, int64_t count, uint64_t seed) {
    HD_NO_GRAD;
    hd_scope_token scope = hd_scope_within(thread, &scope);
    HD_KEEP_NAME(thread);
    hd_tensors *batch = hd_recipe_gathers(r) ? r->dataset->class_->gather(thread, r->dataset, indices, count)
                                             : make_of_items(thread, r, indices, count, seed);
    if (batch != NULL && thread->error_code != HD_OK) batch = NULL;
    if (batch != NULL) hd_object_retain(&batch->object);
    hd_scope_close(thread, &scope);
    return batch;
}
