/* Scalers from inside. */
#ifndef HD_OPTIM_SCALER_H
#define HD_OPTIM_SCALER_H

#include "optim/state.h"

/* "number", "taken" (steps since it changed), "found" (a gradient that is not finite, since the last update). */
hd_error hd_scaler_each(hd_thread *thread, hd_scaler *scaler, hd_state_visit visit, void *user);

#endif
