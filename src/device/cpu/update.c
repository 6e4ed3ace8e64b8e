/* Steps of optimizers on the CPU: many parameters are one job of the pool. */
#include "core/pool.h"
#include "device/cpu/cpu.h"
#include "device/cpu/sizes.h"

enum { GRAIN = 16384 }; /* elements worth a thread */

typedef struct updating {
    const hd_update *updates;
    int64_t count;
} updating;

/* The one that has an element of all of them, in a row. */
static int64_t place_of(const updating *j, int64_t element) {
    int64_t low = 0, high = j->count - 1;
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (j->updates[middle].first <= element)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void run_elements(void *context, int64_t begin, int64_t end) {
    const updating *j = context;
    for (int64_t i = place_of(j, begin); begin < end; ++i) {
        const hd_update *u = &j->updates[i];
        const int64_t at = begin - u->first, n = hd_least(u->count - at, end - begin);
        (u->dtype == HD_F64 ? hd_kernels()->update_f64 : hd_kernels()->update_f32)(u, at, n);
        begin += n;
    }
}

void hd_cpu_update(hd_executor *self, hd_update *updates, int64_t count) {
    int64_t elements = 0;
    (void)self;
    for (int64_t i = 0; i < count; ++i) {
        updates[i].first = elements;
        elements += updates[i].count;
    }
    hd_parallel_range(elements, GRAIN, run_elements, &(updating){updates, count});
}
