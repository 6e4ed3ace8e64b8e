/* Matrix products and convolutions whose result is used where it is made: for compiled scripts. */
#ifndef HD_DEVICE_CPU_PRODUCT_H
#define HD_DEVICE_CPU_PRODUCT_H

#include "core/execute.h"
#include "ops/op.h"

/* The result as a matrix: rows are all outer axes of a matrix product, the images and channels of a convolution;
 * columns are its last axis, or a convolution's pixels.
 * Called once for every part of it, when that is complete and in cache, on any thread: `tile` has `rows` rows, `stride`
 * elements apart, of `columns` columns. It is free to be written. */
typedef void (*hd_product_epilogue)(void *context, const void *tile, int64_t stride, int64_t row, int64_t rows,
                                    int64_t column, int64_t columns);
/* Computes `rows` rows of the first operand from `row` on, counted through all its outer axes as those of the result
 * are, and writes them to `out`, one behind the other. Called for each row once, on any thread. */
typedef void (*hd_product_prologue)(void *context, void *out, int64_t row, int64_t rows);
enum { HD_PRODUCT_SHARED = 64 * 64 * 64 }; /* multiplications from which on threads share a product, as a rule */
/* What a product with a result of this dtype is computed in, and the dtype of its tiles: small floats in f32, integers
 * in 32 or 64 bits. */
hd_dtype hd_cpu_product_dtype(hd_dtype result);
/* True when such a product reads operands of this dtype as they are; what it does not read has to be converted
 * first. */
bool hd_cpu_product_reads(hd_dtype result, hd_dtype operand);
/* How a product is computed where there is a choice: what tuning tries. All zero: by rules, from what it costs. Results
 * of different ways differ in rounding; those of one do not depend on the number of threads. */
typedef enum hd_product_unit { HD_UNIT_BY_COST, HD_UNIT_VECTOR, HD_UNIT_MATRIX, HD_UNITS } hd_product_unit;
typedef enum hd_product_share { HD_SHARE_BY_SIZE, HD_SHARE_ROWS, HD_SHARE_COLUMNS, HD_SHARES } hd_product_share;
typedef enum hd_product_windows {
    HD_WINDOWS_BY_COST,
    HD_WINDOWS_SUMMED,
    HD_WINDOWS_WINOGRAD,
    HD_WINDOWS
} hd_product_windows;
typedef struct hd_product_config {
    uint8_t unit; /* hd_product_unit; the matrix unit only where there is one that takes such operands */
    /* of matrix products */
    uint8_t share;    /* hd_product_share: what of the result threads share out, rows or columns */
    uint16_t k_block; /* elements along k that are packed together, a multiple of HD_K_STEP; 0: as kernels have it */
    /* of convolutions */
    uint8_t windows; /* hd_product_windows: Winograd's method only where they are 3 x 3 */
} hd_product_config;
enum { HD_K_STEP = 32 }; /* which is what matrix units take at once */
static inline bool hd_product_config_is_rule(hd_product_config config) {
    return config.unit == HD_UNIT_BY_COST && config.share == HD_SHARE_BY_SIZE && config.k_block == 0 &&
           config.windows == HD_WINDOWS_BY_COST;
}
static inline bool hd_product_config_is_sound(hd_product_config config) {
    return config.unit < HD_UNITS && config.share < HD_SHARES && config.k_block % HD_K_STEP == 0 &&
           config.windows < HD_WINDOWS;
}
/* A call of matmul or affine (without its bias) on operands that such a product reads, or of conv or conv_transpose on
 * those of one dtype, f32 or f64; the call's output says only which dtype and shape the result has: it is nowhere but
 * in the tiles. */
typedef struct hd_product {
    const hd_call *call;
    hd_product_config config;
    const void
        *packed;     /* the second operand as hd_cpu_product_pack left it, for the same way; NULL: it is packed now */
    void *workspace; /* memory to work in, of hd_cpu_product_workspace's size; NULL: it is taken now */
    size_t workspace_bytes;
    hd_product_epilogue epilogue;
    void *context;
    /* Of matmul and affine: the first operand, contiguous and with the batch axes of the result, is nowhere in memory,
     * and what its tensor says is its dtype and shape; rows are computed where they are used. NULL: it is in memory. */
    hd_product_prologue prologue;
    void *prologue_context;
} hd_product;
/* Why the result of such an op is not in tiles; NULL: it is. */
const char *hd_cpu_product_apart(const hd_op *op, const void *attributes);
/* Cannot fail when it is given its workspace, and its first operand, unless it is that of matmul, is contiguous. */
hd_error hd_cpu_product(hd_thread *thread, const hd_product *product);
size_t hd_cpu_product_workspace(const hd_product *product);
/* Among how many threads it is shared, at most; 1: one does it sooner. */
int64_t hd_cpu_product_pieces(const hd_product *product);
/* True when another config is not, for this product, what it has: machine, operands and sizes may leave no choice. */
bool hd_cpu_product_configs_differ(const hd_product *product, hd_product_config other);
/* Bytes of the second operand of such a call when it is packed in advance; 0: packing brings nothing. */
size_t hd_cpu_product_packed_bytes(const hd_call *call, hd_product_config config);
hd_error hd_cpu_product_pack(hd_thread *thread, const hd_call *call, hd_product_config config, void *out);
/* True when one packing does for two calls whose second operands are views of the same memory. */
bool hd_cpu_product_packs_alike(const hd_call *call, hd_product_config config, const hd_call *other,
                                hd_product_config other_config);
/* A matrix that was packed where it lies: blocks of rows, in each of them panels of columns. */
typedef struct hd_packed_matrix {
    int64_t rows, columns, block, panel;
    size_t bytes; /* of an element */
} hd_packed_matrix;
/* True when the second operand of such a call, when it is all there is in its memory, can be packed there, as
 * hd_cpu_product_pack would do it elsewhere. */
bool hd_cpu_product_packs_in_place(const hd_call *call, hd_product_config config, hd_packed_matrix *out);
/* Bytes to work with while doing that; doing it; and the matrix as it was. */
size_t hd_packed_matrix_workspace(const hd_packed_matrix *m);
void hd_pack_in_place(const hd_packed_matrix *m, void *data, void *workspace);
void hd_unpack(const hd_packed_matrix *m, const void *packed, void *out);
/* The least columns that a tile of this dtype has in a result that is wide enough. */
int hd_cpu_product_columns(hd_dtype tile);

/* The same, by contract.c and by conv.c. */
hd_error hd_contract_product(hd_thread *thread, const hd_product *product);
size_t hd_contract_product_workspace(const hd_product *product);
int64_t hd_contract_product_pieces(const hd_product *product);
bool hd_contract_product_configs_differ(const hd_product *product, hd_product_config other);
size_t hd_contract_product_packed_bytes(const hd_call *call, hd_product_config config);
hd_error hd_contract_product_pack(hd_thread *thread, const hd_call *call, hd_product_config config, void *out);
bool hd_contract_product_packs_alike(const hd_call *call, hd_product_config config, const hd_call *other,
                                     hd_product_config other_config);
bool hd_contract_product_packs_in_place(const hd_call *call, hd_product_config config, hd_packed_matrix *out);
hd_error hd_conv_product(hd_thread *thread, const hd_product *product);
size_t hd_conv_product_workspace(const hd_product *product);
int64_t hd_conv_product_pieces(const hd_product *product);
bool hd_conv_product_configs_differ(const hd_product *product, hd_product_config other);
size_t hd_conv_product_packed_bytes(const hd_call *call, hd_product_config config);
hd_error hd_conv_product_pack(hd_thread *thread, const hd_call *call, hd_product_config config, void *out);
bool hd_conv_product_packs_alike(const hd_call *call, hd_product_config config, const hd_call *other,
                                 hd_product_config other_config);

/* An elementwise row, by the device's own kernel: of the product alone, or of it and one more operand, of the tiles'
 * dtype. */
typedef struct hd_product_step {
    uint16_t op;       /* hd_op_id */
    bool is_second;    /* the product is the row's second operand */
    const void *other; /* the other one, row-major like the result; NULL: there is none */
    int64_t other_row; /* from one of its rows to the next: the result's columns; 0: it has one row */
    double numbers[3]; /* memory for the row's numbers, in the dtype of the tiles */
} hd_product_step;
/* An `epilogue` that adds a bias, applies a few rows, and stores: what needs no compiled kernel. Small floats are
 * rounded to what they are after each of them, as if they had been in memory. The context is a hd_plain_epilogue. */
typedef struct hd_plain_epilogue {
    hd_dtype dtype; /* of the result; rows are applied only when the tiles' elements are what rows compute with */
    int64_t columns, channels; /* of the result; channels 0: the bias has one element for each column */
    const void *bias;          /* of a dtype that the product reads; NULL: none */
    hd_dtype bias_dtype;
    void *out; /* row-major */
    const hd_product_step *steps;
    int step_count;
} hd_plain_epilogue;
/* For a result of this shape: only addresses and steps are missing. */
hd_plain_epilogue hd_cpu_product_plain(const hd_op *op, const hd_shape *result, hd_dtype dtype);
/* Where a tile with this first element lies in the end, its rows `columns` of the result apart, when it may as well be
 * made there, for `epilogue` to complete it in place; NULL: `epilogue` puts it somewhere else. */
void *hd_cpu_product_address(hd_product_epilogue epilogue, void *context, int64_t row, int64_t column);
void hd_cpu_product_store(void *context, const void *tile, int64_t stride, int64_t row, int64_t rows, int64_t column,
                          int64_t columns);

#endif
