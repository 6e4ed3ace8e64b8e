/* Products on GPUs: what gpu_product.c and gpu_conv.c share. */
#ifndef HD_MACHINE_GPU_PRODUCT_H
#define HD_MACHINE_GPU_PRODUCT_H

#include "machine/gpu.h"

enum { HD_PRODUCT_BATCH_AXES = 6 };
/* How template_conv.h multiplies; HD_MULTIPLY_EACH is the way of template_product.h. */
typedef enum hd_product_multiply {
    HD_MULTIPLY_EACH = -1,
    HD_MULTIPLY_F32,
    HD_MULTIPLY_BF16,
    HD_MULTIPLY_F16
} hd_product_multiply;
/* The tile of a group of threads, what it takes of k at a time, and the part of it that a thread has; with
 * template_conv.h, that a warp has. */
typedef struct hd_product_tile {
    int m, n, k, per_m, per_n;
} hd_product_tile;
typedef enum hd_product_form { HD_PRODUCT_MATRICES, HD_PRODUCT_WINDOWS, HD_PRODUCT_SPREAD } hd_product_form;

/* What a launch passes behind its buffers, as template_product.h has it, which says what these are. */
typedef struct hd_product_matrices {
    int64_t a_column, b_row, b_column, lines, row_line, column_line, row_place, column_place;
    int64_t batch_rank, batch_size[HD_PRODUCT_BATCH_AXES], a_batch[HD_PRODUCT_BATCH_AXES],
        b_batch[HD_PRODUCT_BATCH_AXES];
} hd_product_matrices;
typedef struct hd_product_windows {
    int64_t a_group, b_group, b_first, channels, k_size[3], column_size[3], k_a[4], k_b[4], column_b[4];
    int64_t k_step[3], k_begin[3], column_step[3], column_begin[3], image[3], stride[3], image_stride[3];
    int64_t a_in_eights;
} hd_product_windows;
typedef struct hd_product_numbers {
    int64_t m, n, k, tiles_m, tiles_n, batches, k_piece, k_pieces, a_lies_down, b_lies_down, a_row, columns, has_bias,
        bias_stride;
    union {
        hd_product_matrices matrices;
        hd_product_windows windows;
    };
} hd_product_numbers;

/* A product that is described: what its text is, what its launches pass. */
typedef struct hd_described_product {
    hd_template_use use;
    hd_product_form form;
    hd_product_multiply multiply;
    size_t sum_bytes; /* of an element */
    hd_product_numbers numbers;
    size_t number_bytes;
    int a, b; /* which inputs these are */
    uint32_t threads;
    uint32_t pack_groups; /* of template_conv_image.h's product_pack; 0: it is another template */
    size_t part_bytes;    /* of the workspace, which has the sums of pieces, or A as it is packed; 0: none */
} hd_described_product;

/* gpu_product.c: all but the addresses of a call whose result is not empty. */
void hd_gpu_describe_product(const hd_gpu_device *d, const hd_call *call, hd_described_product *out);
/* Says all that follows from the tile of one that is described. */
void hd_gpu_tile_product(hd_described_product *p, const hd_product_tile *tile, const hd_gpu_limits *limits);
/* The matrices of a call of matmul or affine, of numbers that are 0: neither tiles nor a bias. */
void hd_gpu_describe_matrices(const hd_call *call, hd_product_numbers *p);
/* gpu_blas.c: a call whose result is there and not empty, by the device's library; *taken false: it is none of the
 * library's. */
hd_error hd_gpu_product_by_library(hd_thread *thread, const hd_gpu_device *d, const hd_call *call, bool *taken);
/* gpu_conv.c: a call of conv, conv_transpose or conv_weight_gradient as a product whose second operand is read through
 * windows; all but the tiles. */
hd_product_form hd_gpu_describe_conv(const hd_call *call, hd_described_product *out);
/* True when its positions and offsets fit into 32 bits. */
bool hd_gpu_conv_is_narrow(const hd_product_numbers *p);
/* Whether and how template_conv.h takes a convolution that is described, and with which tile. */
hd_product_multiply hd_gpu_conv_multiply(const hd_gpu_device *d, const hd_call *call, const hd_described_product *p);
const hd_product_tile *hd_gpu_conv_tile(const hd_described_product *p, hd_product_multiply multiply,
                                        const hd_gpu_limits *limits);
/* True when template_conv_image.h takes it, with that tile or, of NULL, one that it chooses: then it is tiled so. */
bool hd_gpu_conv_image(hd_described_product *p, const hd_product_tile *tile, const hd_gpu_limits *limits);
static inline double hd_reach(int64_t size, int64_t stride) {
    return (double)size * (stride < 0 ? -(double)stride : (double)stride);
}

#endif
