/* Datasets made of others: picked items, several as one, splits and folds. */
#include "data/dataset.h"
#include "core/options.h"
#include "data/order.h"

#include <math.h>
#include <string.h>

/* ---- picked items ------------------------------------------------------------------------------------------------ */
typedef struct picked {
    hd_dataset head;
    hd_dataset *of;   /* retained */
    int64_t *indices; /* owned */
} picked;

static hd_tensors *picked_get(hd_thread *thread, hd_dataset *d, int64_t index) {
    const picked *p = (picked *)d;
    return hd_dataset_item(thread, p->of, p->indices[index]);
}
static hd_tensors *picked_gather(hd_thread *thread, hd_dataset *d, const int64_t *indices, int64_t count) {
    const picked *p = (picked *)d;
    int64_t *there = hd_array_resize(NULL, (size_t)count * sizeof *there);
    if (there == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for the indices of a batch");
        return NULL;
    }
    for (int64_t i = 0; i < count; ++i) there[i] = p->indices[indices[i]];
    hd_tensors *batch = p->of->class_->gather(thread, p->of, there, count);
    hd_array_release(there);
    return batch;
}
static void picked_destroy(hd_thread *thread, hd_dataset *d) {
    hd_data_drop(thread, ((picked *)d)->of);
    hd_array_release(((picked *)d)->indices);
}
static const hd_dataset_class picked_class = {picked_get, NULL, picked_destroy};
static const hd_dataset_class picked_by_gathering = {picked_get, picked_gather, picked_destroy};

hd_dataset *hd_dataset_pick(hd_thread *thread, hd_dataset *d, int64_t *indices, int64_t count) {
    picked *p =
        hd_dataset_new(thread, sizeof *p, d->class_->gather != NULL ? &picked_by_gathering : &picked_class, count);
    if (p == NULL) {
        hd_array_release(indices);
        return NULL;
    }
    p->of = hd_data_retain(d);
    p->indices = indices;
    return hd_data_give(thread, p);
}

hd_dataset *hd_dataset_subset(hd_dataset *dataset, hd_tensor *indices) {
    HD_ENTER("hd_dataset_subset", NULL);
    HD_TRY_OR(hd_dataset_check(dataset, "dataset"), NULL);
    int64_t *own = hd_data_integers(thread, indices, "indices");
    for (int64_t i = 0; own != NULL && i < indices->count; ++i)
        if (own[i] < 0 || own[i] >= dataset->count) {
            hd_fail(HD_ERROR_INDEX, "index %lld is %lld; the dataset has %lld items", (long long)i, (long long)own[i],
                    (long long)dataset->count);
            hd_array_release(own);
            return NULL;
        }
    return own == NULL ? NULL : hd_dataset_pick(thread, dataset, own, indices->count);
}

/* ---- several as one ---------------------------------------------------------------------------------------------- */
typedef struct joined {
    hd_dataset head;
    int parts;
    struct {
        hd_dataset *dataset; /* retained */
        int64_t end;         /* items up to its last */
    } part[];
} joined;

static hd_tensors *joined_get(hd_thread *thread, hd_dataset *d, int64_t index) {
    const joined *j = (joined *)d;
    int low = 0, high = j->parts - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (j->part[middle].end > index)
            high = middle;
        else
            low = middle + 1;
    }
    return hd_dataset_item(thread, j->part[low].dataset, index - (low > 0 ? j->part[low - 1].end : 0));
}
static void joined_destroy(hd_thread *thread, hd_dataset *d) {
    for (int i = 0; i < ((joined *)d)->parts; ++i) hd_data_drop(thread, ((joined *)d)->part[i].dataset);
}
static const hd_dataset_class joined_class = {joined_get, NULL, joined_destroy};

hd_dataset *hd_dataset_concat(hd_dataset *const *datasets, int count) {
    HD_ENTER("hd_dataset_concat", NULL);
    if (datasets == NULL || count < 1) {
        hd_fail(datasets == NULL ? HD_ERROR_NULL_ARGUMENT : HD_ERROR_VALUE, "%s",
                datasets == NULL ? "`datasets` is NULL" : "there must be one dataset at least");
        return NULL;
    }
    int64_t items = 0;
    for (int i = 0; i < count; ++i) {
        HD_TRY_OR(hd_dataset_check(datasets[i], "datasets"), NULL);
        if (__builtin_add_overflow(items, datasets[i]->count, &items)) {
            hd_fail(HD_ERROR_OVERFLOW, "together they have more than 2^63 items");
            return NULL;
        }
    }
    joined *j = hd_dataset_new(thread, sizeof *j + (size_t)count * sizeof j->part[0], &joined_class, items);
    for (items = 0; j != NULL && j->parts < count; ++j->parts) {
        j->part[j->parts].dataset = hd_data_retain(datasets[j->parts]);
        j->part[j->parts].end = items += datasets[j->parts]->count;
    }
    return hd_data_give(thread, j);
}

/* ---- splits ------------------------------------------------------------------------------------------------------ */
/* All items in the order in which they are dealt out, for hd_array_release; NULL with an error. */
static int64_t *dealing_order(hd_thread *thread, const hd_dataset *d, const hd_split_opts *options) {
    const int64_t count = d->count;
    if (options->labels != NULL && options->in_order) {
        hd_fail(HD_ERROR_VALUE, "in_order and labels are both given: classes are shared out by another order");
        return NULL;
    }
    int64_t *labels = options->labels != NULL ? hd_data_integers(thread, options->labels, "labels") : NULL;
    if (options->labels != NULL && labels == NULL) return NULL;
    int64_t *order = hd_array_resize(NULL, (size_t)(count > 0 ? count : 1) * sizeof *order);
    hd_error status = HD_OK;
    if (order == NULL)
        status = hd_fail(HD_ERROR_MEMORY, "no memory for the order of %lld items", (long long)count);
    else if (labels != NULL && options->labels->count != count)
        status =
            hd_fail(HD_ERROR_SHAPE, "%lld labels for %lld items", (long long)options->labels->count, (long long)count);
    else if (labels != NULL)
        status = hd_order_stratified(order, labels, count, options->seed);
    else if (options->in_order)
        hd_order_sequential(order, count);
    else
        hd_order_random(order, count, options->seed);
    hd_array_release(labels);
    if (status == HD_OK) return order;
    hd_array_release(order);
    return NULL;
}

/* The items of `order` but for those from `from` to `to`, or these alone. */
static hd_dataset *part_of(hd_thread *thread, hd_dataset *d, const int64_t *order, int64_t from, int64_t to,
                           bool others) {
    const int64_t inside = to - from, count = others ? d->count - inside : inside;
    int64_t *own = hd_array_resize(NULL, (size_t)(count > 0 ? count : 1) * sizeof *own);
    if (own == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for the indices of %lld items", (long long)count);
        return NULL;
    }
    if (others) {
        memcpy(own, order, (size_t)from * sizeof *own);
        memcpy(own + from, order + to, (size_t)(d->count - to) * sizeof *own);
    } else {
        memcpy(own, order + from, (size_t)inside * sizeof *own);
    }
    return hd_dataset_pick(thread, d, own, count);
}

static hd_error split(hd_thread *thread, hd_dataset *d, const int64_t *counts, int parts, const hd_split_opts *opts,
                      hd_dataset **out) {
    HD_READ_OPTS(hd_split_opts, opts, HD_ERROR_VALUE);
    int64_t *order = dealing_order(thread, d, &options), at = 0;
    if (order == NULL) return thread->error_code;
    for (int i = 0; i < parts && thread->error_code == HD_OK; at += counts[i++])
        out[i] = part_of(thread, d, order, at, at + counts[i], false);
    hd_array_release(order);
    for (int i = 0; i < parts && thread->error_code != HD_OK; ++i) out[i] = NULL; /* the scope has those that are */
    return thread->error_code;
}

static hd_error check_split(hd_dataset *d, const void *numbers, const char *what, int parts, hd_dataset **out) {
    if (out == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`out` is NULL");
    for (int i = 0; i < parts; ++i) out[i] = NULL;
    HD_TRY(hd_dataset_check(d, "dataset"));
    if (numbers == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`%s` is NULL", what);
    return parts < 1 ? hd_fail(HD_ERROR_VALUE, "%d parts; there must be one at least", parts) : HD_OK;
}

void hd_dataset_split(hd_dataset *dataset, const int64_t *counts, int parts, const hd_split_opts *opts,
                      hd_dataset **out) {
    HD_ENTER("hd_dataset_split", );
    if (check_split(dataset, counts, "counts", parts, out) != HD_OK) return;
    int64_t sum = 0;
    bool fits = true;
    for (int i = 0; i < parts; ++i) fits = counts[i] >= 0 && !__builtin_add_overflow(sum, counts[i], &sum) && fits;
    if (!fits || sum != dataset->count)
        hd_fail(HD_ERROR_VALUE, "the counts %s; they must add up to the %lld items of the dataset",
                fits ? "have another sum" : "are negative or too large", (long long)dataset->count);
    else
        split(thread, dataset, counts, parts, opts, out);
}

void hd_dataset_split_fractions(hd_dataset *dataset, const double *fractions, int parts, const hd_split_opts *opts,
                                hd_dataset **out) {
    HD_ENTER("hd_dataset_split_fractions", );
    if (check_split(dataset, fractions, "fractions", parts, out) != HD_OK) return;
    double sum = 0;
    bool fits = true;
    for (int i = 0; i < parts; sum += fractions[i++]) fits = fits && fractions[i] >= 0;
    if (!fits || !(fabs(sum - 1) < 1e-9)) {
        hd_fail(HD_ERROR_VALUE, "the fractions add up to %g; they must be positive, and add up to 1", sum);
        return;
    }
    int64_t *counts = hd_array_resize(NULL, (size_t)parts * sizeof *counts), left = dataset->count;
    if (counts == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for %d parts", parts);
        return;
    }
    for (int i = 0; i < parts; left -= counts[i++]) {
        /* 0.29 of 100 is 28.999...: a hair below a whole number is that number */
        const double whole = floor(fractions[i] * (double)dataset->count + 1e-6);
        counts[i] = whole < (double)left ? (int64_t)whole : left;
    }
    for (int i = 0; left > 0; i = (i + 1) % parts) /* fewer than there are parts */
        if (fractions[i] > 0) {
            counts[i]++;
            left--;
        }
    split(thread, dataset, counts, parts, opts, out);
    hd_array_release(counts);
}

hd_fold hd_kfold(hd_dataset *dataset, int folds, int which, const hd_split_opts *opts) {
    const hd_fold none = {NULL, NULL};
    HD_ENTER("hd_kfold", none);
    HD_TRY_OR(hd_dataset_check(dataset, "dataset"), none);
    HD_READ_OPTS(hd_split_opts, opts, none);
    if (folds < 2 || folds > dataset->count || which < 0 || which >= folds) {
        hd_fail(HD_ERROR_VALUE, "fold %d of %d over %lld items; there are 2 folds or more, at most one for each item",
                which, folds, (long long)dataset->count);
        return none;
    }
    int64_t *order = dealing_order(thread, dataset, &options);
    if (order == NULL) return none;
    const int64_t least = dataset->count / folds, more = dataset->count % folds; /* the first have one item more */
    const int64_t from = which * least + (which < more ? which : more), to = from + least + (which < more);
    hd_fold fold = {.train = part_of(thread, dataset, order, from, to, true)};
    if (fold.train != NULL) fold.test = part_of(thread, dataset, order, from, to, false);
    hd_array_release(order);
    return fold.test != NULL ? fold : none;
}
