/* Results of a run in memory of ours: the blocks of tensors that are on a device. */
#ifndef HD_XLA_RESULTS_H
#define HD_XLA_RESULTS_H

#include "core/storage.h"
#include "xla/client.h"

typedef enum hd_xla_way { HD_XLA_WAY_UNKNOWN, HD_XLA_WITHIN_DEVICE, HD_XLA_THROUGH_HOST } hd_xla_way;

typedef struct hd_xla_results {
    hd_xla_device *device;
    uint32_t count;
    hd_xla_way *ways;  /* of each: how it comes to memory of ours */
    hd_block **fresh;  /* what its cell will have, when that is on a device; then what the cell had before */
    hd_block *between; /* on the host, for what comes through it */
    bool copies;       /* within the device, that are under way */
} hd_xla_results;

hd_error hd_xla_results_begin(hd_xla_results *r, hd_xla_device *device, uint32_t count);
/* Memory for the new value of a cell that is on a device: there, or, when that is not XLA's, on the host. */
hd_error hd_xla_results_expect(hd_xla_results *r, hd_thread *thread, uint32_t i, const hd_storage *cell);
/* Copies result `i`, which was waited for, into a block. */
hd_error hd_xla_results_bring(hd_xla_results *r, hd_thread *thread, uint32_t i, const hd_xla_buffer *made,
                              hd_block *to);
/* Waits for these copies: XLA's memory may be given up then. */
hd_error hd_xla_results_end(hd_xla_results *r, hd_thread *thread);
/* The cell has the new block, and the old one is written next time, unless somebody else has it, too. */
void hd_xla_results_put(hd_xla_results *r, hd_thread *thread, uint32_t i, hd_storage *cell);
/* After a run that failed: copies that are under way are over. */
void hd_xla_results_settle(hd_xla_results *r, hd_thread *thread);
void hd_xla_results_release(hd_xla_results *r, hd_thread *thread);

#endif
