/* Datasets: so many items, each a list of tensors. */
#ifndef HD_DATA_DATASET_H
#define HD_DATA_DATASET_H

#include "data/object.h"

#include <hodu/data.h>

/* What every kind of dataset can do. Any number of threads may call `get` and `gather` at once. */
typedef struct hd_dataset_class {
    /* Item `index`, in range, in the current scope; NULL with an error. */
    hd_tensors *(*get)(hd_thread *thread, hd_dataset *d, int64_t index);
    /* The items at these indices as a batch, without making each; NULL: it cannot. */
    hd_tensors *(*gather)(hd_thread *thread, hd_dataset *d, const int64_t *indices, int64_t count);
    void (*destroy)(hd_thread *thread, hd_dataset *d); /* gives up what it holds */
} hd_dataset_class;

struct hd_dataset {
    hd_object object;
    const hd_dataset_class *class_;
    int64_t count;
};

/* A dataset of `bytes`, zeros behind its head, which is the caller's until hd_data_give; NULL with an error. */
void *hd_dataset_new(hd_thread *thread, size_t bytes, const hd_dataset_class *class_, int64_t count);
hd_error hd_dataset_check(const hd_dataset *d, const char *parameter);
/* An item that was checked: a living list of one tensor at least. */
hd_tensors *hd_dataset_item(hd_thread *thread, hd_dataset *d, int64_t index);
/* Takes over `indices`, `count` of them, in range. NULL with an error. */
hd_dataset *hd_dataset_pick(hd_thread *thread, hd_dataset *d, int64_t *indices, int64_t count);

#endif
