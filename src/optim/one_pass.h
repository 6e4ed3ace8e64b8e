/* The fused part of a step: one_pass.c. */
#ifndef HD_OPTIM_ONE_PASS_H
#define HD_OPTIM_ONE_PASS_H

#include "core/undo.h"
#include "optim/optimizer.h"

/* Finds what is updated in one pass; to be called before anything but the step count is written. */
hd_error hd_one_pass_begin(hd_thread *thread, hd_optimizer *o, hd_undo *undo);
bool hd_in_one_pass(const hd_optimizer *o, int64_t parameter);
/* Updates it: the last thing in a step. With an error nothing of it was written. */
hd_error hd_one_pass_end(hd_thread *thread, hd_optimizer *o);

#endif
