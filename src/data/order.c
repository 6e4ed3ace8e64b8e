/* Orders of items. */
#include "data/order.h"
#include "data/stream.h"

#include <stdlib.h>

void hd_order_sequential(int64_t *out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[i] = i;
}

void hd_order_random(int64_t *out, int64_t count, uint64_t seed) {
    hd_stream s = hd_stream_of(seed, 0);
    hd_order_sequential(out, count);
    for (int64_t i = count - 1; i > 0; --i) {
        const int64_t k = (int64_t)hd_stream_below(&s, (uint64_t)i + 1), kept = out[i];
        out[i] = out[k];
        out[k] = kept;
    }
}

typedef struct dealt {
    double place; /* of the way */
    uint64_t draw;
    int64_t label, index;
} dealt;

static int by_label(const void *a, const void *b) {
    const dealt *x = a, *y = b;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    return x->draw != y->draw ? (x->draw < y->draw ? -1 : 1) : (x->index > y->index) - (x->index < y->index);
}
static int by_place(const void *a, const void *b) {
    const dealt *x = a, *y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return x->draw != y->draw ? (x->draw < y->draw ? -1 : 1) : (x->index > y->index) - (x->index < y->index);
}

hd_error hd_order_stratified(int64_t *out, const int64_t *labels, int64_t count, uint64_t seed) {
    hd_stream s = hd_stream_of(seed, 0);
    dealt *all = hd_array_resize(NULL, (size_t)(count > 0 ? count : 1) * sizeof *all);
    if (all == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for the order of %lld items", (long long)count);
    for (int64_t i = 0; i < count; ++i) all[i] = (dealt){0, hd_stream_next(&s), labels[i], i};
    qsort(all, (size_t)count, sizeof *all, by_label);
    for (int64_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && all[end].label == all[begin].label;) ++end;
        for (int64_t i = begin; i < end; ++i) {
            all[i].place = ((double)(i - begin) + 0.5) / (double)(end - begin);
            all[i].draw = hd_stream_next(&s); /* where classes meet at one place */
        }
    }
    qsort(all, (size_t)count, sizeof *all, by_place);
    for (int64_t i = 0; i < count; ++i) out[i] = all[i].index;
    hd_array_release(all);
    return HD_OK;
}
