/* Orders of items: arrays of int64_t, which follow from a seed. */
#ifndef HD_DATA_ORDER_H
#define HD_DATA_ORDER_H

#include "data/object.h"

/* 0, 1, 2, ... */
void hd_order_sequential(int64_t *out, int64_t count);
/* The same, shuffled. */
void hd_order_random(int64_t *out, int64_t count, uint64_t seed);
/* All items in random order, but the classes evenly mixed: item k of the n of its class comes at (k + 1/2) / n of the
 * way, so that any stretch has its share of each class, but for one item or two. */
hd_error hd_order_stratified(int64_t *out, const int64_t *labels, int64_t count, uint64_t seed);

#endif
