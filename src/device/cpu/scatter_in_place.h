/* Elements at indices of memory that is there. A scatter is a copy and then this; a compiled one that changes state
 * does without the copy: it takes what is there, in case the run fails, and writes. */
#ifndef HD_DEVICE_CPU_SCATTER_IN_PLACE_H
#define HD_DEVICE_CPU_SCATTER_IN_PLACE_H

#include "ops/op.h"

/* Fills `positions`, contiguous i64 of the shape of hd_positions_shape or the index's own, with the indices counted
 * from the beginning of an axis of size `bound`; an error names the first that is out of range. */
hd_error hd_cpu_find_positions(hd_thread *thread, hd_tensor *positions, hd_tensor *index, int64_t bound);
/* taken <- the elements of x at positions. All are contiguous, the dtypes equal; `taken` has the shape of the index. */
void hd_cpu_take(hd_tensor *taken, const hd_tensor *x, int axis, const hd_tensor *positions);
/* Writes or combines `source`, one element after the other, so that duplicates have one meaning. As for hd_cpu_take;
 * small floats can only be written, combining them needs f32. */
void hd_cpu_scatter_in_place(hd_tensor *x, int axis, hd_scatter_mode mode, const hd_tensor *positions,
                             const hd_tensor *source);

#endif
