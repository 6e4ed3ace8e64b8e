/* Looking at indices before a compiled kernel uses them. */
#ifndef HD_DEVICE_CPU_CHECK_INDEX_H
#define HD_DEVICE_CPU_CHECK_INDEX_H

#include "core/execute.h"

/* Checks that every element lies in [-bound, bound): indices along an axis. */
hd_error hd_cpu_check_index(hd_thread *thread, hd_tensor *index, int axis, int64_t bound);

#endif
