/* Convolutions on the CPU: what their files share. conv.c reads calls and chooses the method; conv_tiles.c multiplies,
 * conv_winograd.c with fewer multiplications, conv_images.c many small images, conv_depthwise.c channel by channel;
 * conv_plan.c says which taps pixels see. */
#ifndef HD_DEVICE_CPU_CONV_H
#define HD_DEVICE_CPU_CONV_H

#include "device/cpu/patch.h"
#include "device/cpu/product.h"
#include "device/cpu/sizes.h"

/* A convolution of `image` with `kernel` to `result`, three spatial axes each; of a transposed one the image is what
 * comes out. */
typedef struct hd_conv_sizes {
    int64_t batch, groups;
    int64_t image_channels, result_channels; /* of one group */
    int64_t image[3], result[3], kernel[3];
    int64_t stride[3], dilation[3], before[3];
    int64_t kernel_stride[3]; /* of the weight in memory, in elements */
} hd_conv_sizes;

static inline int64_t hd_volume(const int64_t size[3]) { return size[0] * size[1] * size[2]; }

typedef struct hd_conv_tap {
    int64_t base[3]; /* where pixel 0 of its phase reads x */
    int64_t at;      /* in the weight: elements from its first tap */
} hd_conv_tap;
typedef struct hd_conv_phase {
    int64_t first[3],
        grid[3]; /* its pixels: first + stride * i, for i in grid; a plain convolution has stride 1 here */
    int64_t tap0, taps;
} hd_conv_phase;
typedef struct hd_conv_plan {
    hd_conv_phase *phases;
    hd_conv_tap *taps;
    int64_t phase_count, tap_count;
} hd_conv_plan;
/* Phases without taps are left out. The lists lie in `memory`, of so many bytes. */
size_t hd_conv_plan_bytes(const hd_conv_sizes *sizes);
void hd_conv_plan_make(const hd_conv_sizes *sizes, bool transposed, void *memory, hd_conv_plan *plan);

typedef enum hd_conv_method { HD_CONV_TILES, HD_CONV_DEPTHWISE, HD_CONV_WINOGRAD, HD_CONV_IMAGES } hd_conv_method;

/* A convolution under way. Its result is [images and channels, pixels], in tiles. */
typedef struct hd_conv_work {
    const hd_gemm_kernels *kernels, *unit; /* unit: those of a matrix unit, which multiplies then, or NULL */
    size_t bytes;                          /* of an element */
    int64_t batch, groups, channels, rows; /* input channels and output channels of a group */
    int64_t out[3], out_step[3];           /* pixels of a phase lie out_step apart */
    hd_patch_map map;                      /* its grid is that of a phase */
    const char *x, *weight;
    int64_t weight_row, weight_channel, weight_group; /* strides in elements */
    hd_conv_plan plan;
    hd_conv_method method;
    hd_product_epilogue epilogue;
    void *context;
    const char
        *bias; /* a transposed one that strides has no tiles: its pixels go straight to y, with the bias or NULL */
    char *y;
    const char *packed; /* weights, as the method wants them; NULL for a depthwise one */
    /* how the work is cut: items are shared out in pieces, each with memory of its own */
    int64_t strips, panels; /* of the output channels of a group; of the pixels of an item, at most */
    int64_t item_strips;    /* of an item, at most */
    int64_t planes,
        lines; /* depthwise: channels and output lines of an item, at most; Winograd: columns and rows of tiles; images
                  in lanes: output lines, */
    int64_t seen; /* and elements of x that they see */
    int64_t pieces;
    char *workspace;
    size_t piece_bytes;
} hd_conv_work;
static inline bool hd_conv_is_apart(const hd_conv_work *c) { return hd_volume(c->out_step) > 1; }
static inline char *hd_conv_element(const hd_conv_work *c, const void *base, int64_t at) {
    return (char *)(uintptr_t)base + at * (int64_t)c->bytes;
}

/* Each method: how it cuts the work, setting `pieces`, at most so many as there are threads; bytes of its packed
 * weights, and packing them; and running. */
void hd_conv_cut_tiles(hd_conv_work *c, const hd_conv_sizes *sizes, int threads);
size_t hd_conv_tiles_packed_size(const hd_conv_work *c);
void hd_conv_tiles_pack(const hd_conv_work *c, char *out);
void hd_conv_run_tiles(const hd_conv_work *c);
void hd_conv_cut_winograd(hd_conv_work *c, const hd_conv_sizes *sizes, int threads);
size_t hd_conv_winograd_packed_size(const hd_conv_work *c);
void hd_conv_winograd_pack(const hd_conv_work *c, char *out);
void hd_conv_run_winograd(const hd_conv_work *c);
void hd_conv_cut_images(hd_conv_work *c, const hd_conv_sizes *sizes, int threads); /* packed as tiles are */
void hd_conv_run_images(const hd_conv_work *c);
void hd_conv_cut_depthwise(hd_conv_work *c, const hd_conv_sizes *sizes, int threads);
void hd_conv_run_depthwise(const hd_conv_work *c);
/* What it costs, in multiplications, that an item reads weights of so many bytes, which no cache of its thread has. */
double hd_conv_weight_cost(double bytes);
/* What items cost so many threads in all: `whole` of them that cost `one` each, and `rest` that cost `last`. */
double hd_conv_cost_shared(double one, int64_t whole, double last, int64_t rest, int64_t threads);
/* True when windows are such that Winograd's method takes them; and when it is quicker then. */
bool hd_conv_takes_winograd(const hd_conv_work *c, const hd_conv_sizes *sizes);
bool hd_conv_suits_winograd(const hd_conv_work *c);
double hd_conv_winograd_cost(const hd_conv_work *c); /* in multiplications */
/* True when images may lie in lanes; and when that is quicker than tiles, or than Winograd's method. */
bool hd_conv_takes_images(const hd_conv_work *c, const hd_conv_sizes *sizes);
bool hd_conv_suits_images(const hd_conv_work *c, const hd_conv_sizes *sizes, bool than_winograd);
/* True when it is one channel to one channel, with windows that have no wide gaps. */
bool hd_conv_is_depthwise(const hd_conv_work *c, const hd_conv_sizes *sizes);

/* conv_images.c: out[r * out_stride + k] = in[k * in_stride + r]. */
void hd_conv_turn(float *out, int64_t out_stride, const float *in, int64_t in_stride, int64_t rows, int64_t columns);

/* conv_tiles.c: rows [k0, k0 + kc) of the patches, which are taps and their channels, at `columns` pixels from `first`
 * on, as a panel of the matrix product. */
void hd_conv_pack_panel(const hd_conv_work *c, int64_t group, const hd_conv_phase *p, int64_t k0, int64_t kc,
                        int64_t first, int64_t columns, char *panel);

/* conv_depthwise.c: lines of x with their padding, [lines][remainders to the step][run]: column i of remainder r is
 * column left + r + step * i of the image. */
typedef struct hd_conv_lines {
    int64_t top, lines, left, step, run;
} hd_conv_lines;
void hd_conv_lay_out(const hd_conv_work *c, const hd_conv_lines *wanted, int64_t plane, int64_t sheet, char *out);

/* The gradient of the weight from the image and the gradient of the result. */
hd_error hd_cpu_conv_weight(hd_thread *thread, const hd_conv_sizes *sizes, hd_dtype dtype, const void *image,
                            const void *gradient, void *out);
/* The same for small images, of f32; `done` says whether that is quicker, and its sums are numbers. */
hd_error hd_cpu_conv_weight_lines(hd_thread *thread, const hd_conv_sizes *sizes, const void *image,
                                  const void *gradient, void *out, bool *done);

#endif
