/* Datasets: what they share, rows of tensors, and functions of the user's. */
#include "data/dataset.h"

static void dataset_destroy(hd_thread *thread, hd_object *object) {
    hd_dataset *d = (hd_dataset *)object;
    d->class_->destroy(thread, d);
    hd_object_bury(thread, object);
}
static const hd_kind dataset_kind = {.name = "dataset", .destroy = dataset_destroy};

void *hd_dataset_new(hd_thread *thread, size_t bytes, const hd_dataset_class *class_, int64_t count) {
    hd_dataset *d = hd_data_new(thread, bytes, &dataset_kind);
    if (d == NULL) return NULL;
    d->class_ = class_;
    d->count = count;
    return d;
}

hd_error hd_dataset_check(const hd_dataset *d, const char *parameter) {
    return hd_data_check(d, &dataset_kind, parameter);
}

hd_tensors *hd_dataset_item(hd_thread *thread, hd_dataset *d, int64_t index) {
    hd_tensors *item = d->class_->get(thread, d, index);
    if (item != NULL && thread->error_code == HD_OK) {
        HD_TRY_OR(hd_tensors_check(item, "item"), NULL);
        if (item->count > 0) return item;
    }
    hd_fail(HD_ERROR_VALUE, "the function of the dataset gave %s for item %lld",
            item == NULL ? "NULL" : "an empty list", (long long)index);
    return NULL;
}

int64_t hd_dataset_count(const hd_dataset *dataset) {
    HD_ENTER_ALWAYS("hd_dataset_count", 0);
    return hd_dataset_check(dataset, "dataset") == HD_OK ? dataset->count : 0;
}

hd_tensors *hd_dataset_get(hd_dataset *dataset, int64_t index) {
    HD_ENTER("hd_dataset_get", NULL);
    HD_TRY_OR(hd_dataset_check(dataset, "dataset"), NULL);
    if (index < -dataset->count || index >= dataset->count) {
        hd_fail(HD_ERROR_INDEX, "item %lld of a dataset of %lld", (long long)index, (long long)dataset->count);
        return NULL;
    }
    return hd_dataset_item(thread, dataset, index < 0 ? index + dataset->count : index);
}

/* ---- rows of tensors --------------------------------------------------------------------------------------------- */
typedef struct rows {
    hd_dataset head;
    hd_tensors *tensors; /* retained */
} rows;

static hd_tensors *rows_get(hd_thread *thread, hd_dataset *d, int64_t index) {
    const hd_tensors *tensors = ((rows *)d)->tensors;
    HD_KEEP_NAME(thread);
    hd_tensors *item = hd_tensors_new(thread, tensors->count);
    for (int64_t i = 0; item != NULL && i < tensors->count; ++i) {
        hd_tensor *row = hd_select(tensors->items[i], 0, index);
        if (row == NULL) return NULL;
        hd_tensors_put(item, i, row);
    }
    return item;
}

/* One op for each tensor, where it lies. */
static hd_tensors *rows_gather(hd_thread *thread, hd_dataset *d, const int64_t *indices, int64_t count) {
    const hd_tensors *tensors = ((rows *)d)->tensors;
    HD_KEEP_NAME(thread);
    hd_tensors *batch = hd_tensors_new(thread, tensors->count);
    hd_tensor *index = NULL;
    for (int64_t i = 0; batch != NULL && i < tensors->count; ++i) {
        hd_tensor *from = tensors->items[i];
        const hd_device device = from->storage->device;
        if (index == NULL) index = hd_to(hd_from_data(indices, HD_SHAPE(count), HD_I64), device);
        hd_tensor *taken = hd_index_select(from, 0, hd_to(index, device));
        if (taken == NULL) return NULL;
        hd_tensors_put(batch, i, taken);
    }
    return batch;
}

static void rows_destroy(hd_thread *thread, hd_dataset *d) { hd_data_drop(thread, ((rows *)d)->tensors); }
static const hd_dataset_class rows_class = {rows_get, rows_gather, rows_destroy};

hd_dataset *hd_tensor_dataset(hd_tensors *tensors) {
    HD_ENTER("hd_tensor_dataset", NULL);
    HD_TRY_OR(hd_tensors_check(tensors, "tensors"), NULL);
    if (tensors->count == 0) {
        hd_fail(HD_ERROR_VALUE, "the list is empty; a dataset needs one tensor at least");
        return NULL;
    }
    const int64_t count = tensors->items[0]->layout.shape.size[0];
    for (int64_t i = 0; i < tensors->count; ++i) {
        const hd_shape *shape = &tensors->items[i]->layout.shape;
        if (shape->rank > 0 && shape->size[0] == count) continue;
        hd_fail(HD_ERROR_SHAPE,
                "tensor %lld is %s, and tensor 0 %s: all must have one row for each item, on their first axis",
                (long long)i, HD_SHAPE_TEXT(*shape), HD_SHAPE_TEXT(tensors->items[0]->layout.shape));
        return NULL;
    }
    rows *d = hd_dataset_new(thread, sizeof *d, &rows_class, count);
    if (d != NULL) d->tensors = hd_data_retain(tensors);
    return hd_data_give(thread, d);
}

/* ---- functions of the user's: of a number, or of an item of another dataset -------------------------------------- */
typedef struct made {
    hd_dataset head;
    hd_dataset *of; /* retained; NULL: by number */
    hd_tensors *(*item)(int64_t index, void *user);
    hd_tensors *(*change)(hd_tensors *item, void *user);
    void *user;
    void (*destroy)(void *user);
} made;

static hd_tensors *made_get(hd_thread *thread, hd_dataset *d, int64_t index) {
    const made *m = (made *)d;
    hd_tensors *from = m->of != NULL ? hd_dataset_item(thread, m->of, index) : NULL;
    if (m->of != NULL && from == NULL) return NULL;
    HD_CALLBACK(thread);
    return m->of != NULL ? m->change(from, m->user) : m->item(index, m->user);
}
static void made_destroy(hd_thread *thread, hd_dataset *d) {
    const made *m = (made *)d;
    hd_data_drop(thread, m->of);
    if (m->destroy == NULL) return;
    HD_CALLBACK(thread);
    m->destroy(m->user);
}
static const hd_dataset_class made_class = {made_get, NULL, made_destroy};

/* On failure `user` stays the caller's: its end is registered last. */
static hd_dataset *give_made(hd_thread *thread, made *m, void *user, void (*destroy)(void *user)) {
    if (m == NULL || hd_scope_own(thread, &m->head.object) != HD_OK) return NULL;
    m->user = user;
    m->destroy = destroy;
    return &m->head;
}

hd_dataset *hd_function_dataset(int64_t count, hd_tensors *(*item)(int64_t index, void *user), void *user,
                                void (*destroy)(void *user)) {
    HD_ENTER("hd_function_dataset", NULL);
    if (item == NULL || count < 0) {
        hd_fail(item == NULL ? HD_ERROR_NULL_ARGUMENT : HD_ERROR_VALUE, "%s",
                item == NULL ? "`item` is NULL" : "a dataset has no negative number of items");
        return NULL;
    }
    made *m = hd_dataset_new(thread, sizeof *m, &made_class, count);
    if (m != NULL) m->item = item;
    return give_made(thread, m, user, destroy);
}

hd_dataset *hd_dataset_map(hd_dataset *dataset, hd_tensors *(*change)(hd_tensors *item, void *user), void *user,
                           void (*destroy)(void *user)) {
    HD_ENTER("hd_dataset_map", NULL);
    HD_TRY_OR(hd_dataset_check(dataset, "dataset"), NULL);
    if (change == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`change` is NULL");
        return NULL;
    }
    made *m = hd_dataset_new(thread, sizeof *m, &made_class, dataset->count);
    if (m != NULL) {
        m->change = change;
        m->of = hd_data_retain(dataset);
    }
    return give_made(thread, m, user, destroy);
}
