/* Calling the fused forms of composites: fused.def. */
#ifndef HD_OPS_FUSED_H
#define HD_OPS_FUSED_H

#include "ops/op.h"

/* Whether a composite on these runs at once, on the CPU, in f32 or f64: then it may take its fused form. */
bool hd_may_fuse(const hd_thread *thread, const hd_tensor *x, const hd_tensor *y);

/* The losses [n] of logits [n, classes] at class numbers [n]; NULL without an error when this form does not suit, which
 * it does not where a number is none of a class. */
hd_tensor *hd_fused_cross_entropy(hd_thread *thread, hd_tensor *logits, hd_tensor *target);
hd_tensor *hd_fused_interpolate(hd_thread *thread, hd_tensor *x, int axis, hd_tensor *index, hd_tensor *part);

/* Images of fewer elements behind the channels are normalised by other ops, in f32 or f64 as x is. */
enum { HD_FUSED_NORM_LEAST = 16 };
/* weight and bias may be NULL; *statistics: mean and variance [count, 2], f64, when it is not NULL. */
hd_tensor *hd_fused_channel_norm(hd_thread *thread, hd_tensor *x, int64_t groups, hd_tensor *weight, hd_tensor *bias,
                                 double eps, hd_tensor **statistics);

#endif
