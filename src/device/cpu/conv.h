/* Convolutions on the CPU: what their files share. */
#ifndef HD_DEVICE_CPU_CONV_H
#define HD_DEVICE_CPU_CONV_H

#include "device/cpu/patch.h"

/* A convolution of `image` with `kernel` to `result`, three spatial axes each; of a transposed one the image is what comes
 * out. */
typedef struct hd_conv_sizes {
    int64_t batch, groups;
    int64_t image_channels, result_channels; /* of one group */
    int64_t image[3], result[3], kernel[3];
    int64_t stride[3], dilation[3], before[3];
} hd_conv_sizes;

static inline int64_t hd_volume(const int64_t size[3]) { return size[0] * size[1] * size[2]; }

typedef struct hd_conv_tap {
    int64_t base[3]; /* where pixel 0 of its phase reads x */
    int64_t at;      /* in the kernel */
} hd_conv_tap;
typedef struct hd_conv_phase {
    int64_t first[3],
        grid[3]; /* its pixels: first + stride * i, for i in grid; a plain convolution has stride 1 here */
    int64_t tap0, taps;
} hd_conv_phase;
typedef struct hd_conv_plan {
    hd_block *block; /* holds both lists */
    hd_conv_phase *phases;
    hd_conv_tap *taps;
    int64_t phase_count, tap_count;
} hd_conv_plan;
/* Phases without taps are left out. */
hd_error hd_conv_plan_make(hd_thread *thread, const hd_conv_sizes *sizes, bool transposed, hd_conv_plan *plan);

/* y = convolution of x, or transposed; bias may be NULL. */
hd_error hd_cpu_convolve(hd_thread *thread, const hd_conv_sizes *sizes, bool transposed, hd_dtype dtype, const void *x,
                         const void *weight, const void *bias, void *y);
/* The gradient of the weight from the image and the gradient of the result. */
hd_error hd_cpu_conv_weight(hd_thread *thread, const hd_conv_sizes *sizes, hd_dtype dtype, const void *image,
                            const void *gradient, void *out);

#endif
