/* Optimizers from inside. */
#ifndef HD_OPTIM_OPTIMIZER_H
#define HD_OPTIM_OPTIMIZER_H

#include "core/list.h"

/* Calls visit for the learning rate, the step count and every slot of every parameter, with names ("steps", "slot0.3");
 * slots that were not used yet are made. Stops at the first error. */
hd_error hd_optimizer_each(hd_thread *thread, hd_optimizer *optimizer,
                           hd_error (*visit)(void *user, const char *name, hd_tensor *t), void *user);

#endif
