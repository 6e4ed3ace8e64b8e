/* Samplers: the order of an epoch follows from a seed and the number of the epoch. */
#ifndef HD_DATA_SAMPLER_H
#define HD_DATA_SAMPLER_H

#include "data/object.h"

#include <hodu/data.h>

typedef enum hd_sampler_order_kind {
    HD_ORDER_SEQUENTIAL,
    HD_ORDER_RANDOM,
    HD_ORDER_WEIGHTED,
    HD_ORDER_STRATIFIED,
    HD_ORDER_FUNCTION
} hd_sampler_order_kind;

struct hd_sampler {
    hd_object object;
    hd_sampler_order_kind kind;
    int64_t count; /* indices of an epoch */
    int64_t items; /* they are below; 0: not known */
    uint64_t seed;
    double *sums;    /* weighted: of all weights up to an item's */
    int64_t *labels; /* stratified */
    void (*order)(int64_t epoch, int64_t *out, void *user);
    void *user;
    void (*destroy)(void *user);
};

hd_error hd_sampler_check(const hd_sampler *s, const char *parameter);
/* The indices of an epoch, all of them in [0, items), into `out`. */
hd_error hd_sampler_fill(hd_thread *thread, const hd_sampler *s, uint64_t seed, int64_t epoch, int64_t items,
                         int64_t *out);

#endif
