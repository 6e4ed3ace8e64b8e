/* The border of a padding alone, where what it surrounds is written by somebody else. */
#ifndef HD_DEVICE_CPU_BORDER_H
#define HD_DEVICE_CPU_BORDER_H

#include "ops/op.h"

/* Fills what a padding adds, in its result; the rows of that are contiguous. */
hd_error hd_cpu_fill_border(hd_thread *thread, hd_tensor *out, const hd_pad_attributes *a);

#endif
