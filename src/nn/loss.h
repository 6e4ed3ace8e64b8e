/* What losses share: checks of their arguments, the dtype they compute in, and their reductions. */
#ifndef HD_NN_LOSS_H
#define HD_NN_LOSS_H

#include "core/execute.h"
#include "core/list.h"
#include "core/options.h"

#include <math.h>

/* A loss from its begin to its end. Small floats meet in f32, so that a loss is rounded once. */
typedef struct hd_loss {
    hd_span span;
    hd_dtype wide, result;
} hd_loss;

/* Begins a composite of this name, and casts `a` and `b` (which may be NULL) to what they are computed in. */
void hd_loss_begin(hd_loss *loss, hd_thread *thread, const char *name, hd_tensor **a, hd_tensor **b);
/* Reduces the loss of each element, or row, and ends the composite. */
hd_tensor *hd_loss_end(hd_loss *loss, hd_tensor *each, hd_reduction_kind reduction);
/* Ends it with what is reduced already. */
hd_tensor *hd_loss_end_reduced(hd_loss *loss, hd_tensor *reduced);

hd_error hd_loss_check_reduction(hd_reduction_kind reduction);
/* Two tensors of one shape: broadcasting here is nearly always a mistake. */
hd_error hd_loss_check_pair(const hd_tensor *a, const char *name_a, const hd_tensor *b, const char *name_b);
/* A weight, or none, that broadcasts to the shape of the losses. */
hd_error hd_loss_check_weight(const hd_tensor *weight, const char *name, const hd_tensor *of);

/* An option whose zero is written HD_ZERO. */
static inline double hd_loss_number(double given, double otherwise) {
    return given != 0 ? given : signbit(given) ? 0 : otherwise;
}
/* It is finite, and not below 0 (or, `above`, not 0 either). */
hd_error hd_loss_check_number(double given, const char *name, bool above);

#endif
