/* The CPU device: what its files share. Each primitive has one function that fills a call's outputs; all elementwise
 * rows and their derivatives share one. */
#ifndef HD_DEVICE_CPU_CPU_H
#define HD_DEVICE_CPU_CPU_H

#include "core/device.h"
#include "core/pool.h"
#include "device/cpu/kernels.h"

hd_error hd_cpu_elementwise(hd_thread *thread, hd_call *call);
#define PRIMITIVE(name, ...) hd_error hd_cpu_##name(hd_thread *thread, hd_call *call);
#include "ops/ops.def"
#define FUSED(name, ...) hd_error hd_cpu_##name(hd_thread *thread, hd_call *call);
#include "ops/fused.def"

/* The executor's `update`: steps of optimizers. */
void hd_cpu_update(hd_executor *self, hd_update *updates, int64_t count);
/* dst <- src: cast, any strides on both sides, src's shape broadcast to dst's; no overlap. */
hd_error hd_cpu_copy(hd_thread *thread, hd_tensor *dst, const hd_tensor *src);
/* x as a contiguous tensor of `dtype`: x itself with one more reference, or a copy. NULL with an error. */
hd_tensor *hd_cpu_ready(hd_thread *thread, hd_tensor *x, hd_dtype dtype);
/* The operands of a call whose kernels want contiguous memory of the result's compute type, f32 or f64. */
typedef struct hd_cpu_operands {
    hd_dtype as;
    hd_tensor *in[6], *out; /* as the kernels want them: the call's own, or copies */
    const void *from[6];
    void *to;
} hd_cpu_operands;
/* Fills it, and makes the call's outputs; inputs whose bit is set in `keep` keep their dtype. */
hd_error hd_cpu_operands_begin(hd_thread *thread, hd_call *call, unsigned keep, hd_cpu_operands *o);
/* Brings the result into the call's output, when all went well, and gives up what was made; returns what to return. */
hd_error hd_cpu_operands_end(hd_thread *thread, hd_call *call, hd_cpu_operands *o, hd_error status);
/* Makes the call's outputs, contiguous and undefined, unless they are given. */
hd_error hd_cpu_outputs(hd_thread *thread, hd_call *call);
/* Makes them, lets `fill` fill the first one, and gives them up again when that fails. */
hd_error hd_cpu_fill_output(hd_thread *thread, hd_call *call,
                            hd_error (*fill)(hd_thread *thread, hd_call *call, hd_tensor *out));
/* Gives them up again, unless they were given. */
void hd_cpu_drop_outputs(hd_thread *thread, hd_call *call);

/* The CPU, as core knows it. */
extern const hd_device_interface hd_cpu_interface;

#endif
