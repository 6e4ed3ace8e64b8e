/* Making one batch, on whatever thread. */
#ifndef HD_DATA_BATCH_H
#define HD_DATA_BATCH_H

#include "data/dataset.h"

/* What a thread was before it made items: they are made on the CPU, each with draws of its own, and noted on no tape. */
typedef struct hd_apart {
    hd_generator *generator;
    uint64_t seed, draw;
    hd_device device;
    hd_executor *executor;
} hd_apart;
void hd_apart_begin(hd_thread *thread, hd_apart *apart);
void hd_apart_end(hd_thread *thread, const hd_apart *apart);

/* How batches are made; it is the same for all of a loader. */
typedef struct hd_recipe {
    hd_dataset *dataset;
    hd_tensors *(*collate)(hd_tensors *const *items, int64_t count, void *user); /* NULL: stacked */
    void *collate_user;
} hd_recipe;

/* The items at these indices as a batch, whose draws follow from `seed`; a reference that is the caller's. NULL with an
 * error. Inside hd_apart_begin and hd_apart_end, unless hd_recipe_gathers. */
hd_tensors *hd_batch_make(hd_thread *thread, const hd_recipe *recipe, const int64_t *indices, int64_t count,
                          uint64_t seed);
/* No item is made, and no function of the user's is called. */
static inline bool hd_recipe_gathers(const hd_recipe *recipe) {
    return recipe->collate == NULL && recipe->dataset->class_->gather != NULL;
}

#endif
