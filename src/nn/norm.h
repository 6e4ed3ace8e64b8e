/* What layers that normalise share. */
#ifndef HD_NN_NORM_H
#define HD_NN_NORM_H

#include "nn/module.h"

/* What elements that are normalised are multiplied by, and what is added: ones and zeros to begin with. */
void hd_norm_add_scale(hd_module *m, hd_shape shape, hd_dtype dtype, bool weight, bool bias);
/* Checks what layers that normalise channels are given. */
hd_error hd_norm_channels_check(int64_t channels, double eps, double momentum);

#endif
