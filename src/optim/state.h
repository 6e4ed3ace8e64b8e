/* Lists of state: what optimizers, schedules and scalers keep, for their public functions. */
#ifndef HD_OPTIM_STATE_H
#define HD_OPTIM_STATE_H

#include "optim/optimizer.h"

/* Visits all state of an object, as hd_optimizer_each. */
typedef hd_error (*hd_state_each)(hd_thread *thread, void *object, hd_state_visit visit, void *user);

hd_tensors *hd_state_list(hd_thread *thread, hd_state_each each, void *object);
/* Writes the name of tensor `index` of that list to `name`; an error when there is none. */
hd_error hd_state_name(hd_thread *thread, hd_state_each each, void *object, int64_t index, char *name, size_t capacity);
/* Copies a value of its shape into the tensor of this name. */
void hd_state_set(hd_thread *thread, hd_state_each each, void *object, const char *name, hd_tensor *value);

#endif
