/* What is used of cuBLASLt, NVIDIA's library of matrix products, declared here as cuda.h declares the driver. Its
 * matrices lie column after column. */
#ifndef HD_DEVICE_CUDA_CUBLASLT_H
#define HD_DEVICE_CUDA_CUBLASLT_H

#include "device/cuda/cuda.h"

typedef struct hd_lt_handle hd_lt_handle;         /* the library on one device */
typedef struct hd_lt_product hd_lt_product;       /* how operands are multiplied, and what follows */
typedef struct hd_lt_layout hd_lt_layout;         /* of a matrix, or of several at the same distance */
typedef struct hd_lt_preference hd_lt_preference; /* which algorithms may be found */

/* The library's, which may be copied. */
typedef struct hd_lt_algorithm {
    uint64_t data[8];
} hd_lt_algorithm;
typedef struct hd_lt_found {
    hd_lt_algorithm algorithm;
    size_t workspace_bytes;
    int state; /* a status: all else counts only when it is 0 */
    float waves;
    int reserved[4];
} hd_lt_found;

enum { /* dtypes */
       HD_LT_F32 = 0,
       HD_LT_F64 = 1,
       HD_LT_F16 = 2,
       HD_LT_BF16 = 14,
};
enum { /* what is computed in */
       HD_LT_COMPUTE_F32 = 68,
       HD_LT_COMPUTE_F64 = 70,
       HD_LT_COMPUTE_TF32 = 77,
};
enum { /* of a product */
       HD_LT_PRODUCT_TURN_A = 3,
       HD_LT_PRODUCT_TURN_B = 4,
       HD_LT_PRODUCT_EPILOGUE = 7,
       HD_LT_PRODUCT_BIAS = 8,
       HD_LT_PRODUCT_BIAS_DTYPE = 26,
       HD_LT_EPILOGUE_BIAS = 4, /* one element for each row */
};
enum { /* of a layout */
       HD_LT_LAYOUT_BATCHES = 5,
       HD_LT_LAYOUT_BATCH_STRIDE = 6,
};
enum { /* of a preference */
       HD_LT_PREFERENCE_WORKSPACE = 1,
       HD_LT_PREFERENCE_REDUCTIONS = 3,
       HD_LT_PREFERENCE_ALIGNMENT_A = 5, /* then those of B, C and the result */
};
enum { /* how the sums of a k that is cut are added */
       HD_LT_REDUCE_IN_PLACE = 1,
       HD_LT_REDUCE_COMPUTE_TYPE = 2,
       HD_LT_REDUCE_OUTPUT_TYPE = 4,
};
enum { HD_LT_ALLOC_FAILED = 3 };

/* The functions that are used: X(our name, the library's name, what it takes). All give a status, 0 for success. */
#define HD_LT_FUNCTIONS(X)                                                                                             \
    X(handle_new, "cublasLtCreate", (hd_lt_handle * *out))                                                             \
    X(product_new, "cublasLtMatmulDescCreate", (hd_lt_product * *out, int compute, int scale_dtype))                   \
    X(product_release, "cublasLtMatmulDescDestroy", (hd_lt_product * product))                                         \
    X(product_set, "cublasLtMatmulDescSetAttribute",                                                                   \
      (hd_lt_product * product, int attribute, const void *value, size_t bytes))                                       \
    X(layout_new, "cublasLtMatrixLayoutCreate",                                                                        \
      (hd_lt_layout * *out, int dtype, uint64_t rows, uint64_t columns, int64_t column_stride))                        \
    X(layout_release, "cublasLtMatrixLayoutDestroy", (hd_lt_layout * layout))                                          \
    X(layout_set, "cublasLtMatrixLayoutSetAttribute",                                                                  \
      (hd_lt_layout * layout, int attribute, const void *value, size_t bytes))                                         \
    X(preference_new, "cublasLtMatmulPreferenceCreate", (hd_lt_preference * *out))                                     \
    X(preference_release, "cublasLtMatmulPreferenceDestroy", (hd_lt_preference * preference))                          \
    X(preference_set, "cublasLtMatmulPreferenceSetAttribute",                                                          \
      (hd_lt_preference * preference, int attribute, const void *value, size_t bytes))                                 \
    X(find, "cublasLtMatmulAlgoGetHeuristic",                                                                          \
      (hd_lt_handle * handle, hd_lt_product * product, hd_lt_layout * a, hd_lt_layout * b, hd_lt_layout * c,           \
       hd_lt_layout * result, hd_lt_preference * preference, int most, hd_lt_found *found, int *count))                \
    X(multiply, "cublasLtMatmul",                                                                                      \
      (hd_lt_handle * handle, hd_lt_product * product, const void *alpha, const void *a, hd_lt_layout *a_layout,       \
       const void *b, hd_lt_layout *b_layout, const void *beta, const void *c, hd_lt_layout *c_layout, void *result,   \
       hd_lt_layout *result_layout, const hd_lt_algorithm *algorithm, void *workspace, size_t workspace_bytes,         \
       hd_cu_stream *stream))
typedef struct hd_lt_functions {
#define HD_LT_POINTER(name, full_name, parameters) int(*name) parameters;
    HD_LT_FUNCTIONS(HD_LT_POINTER)
#undef HD_LT_POINTER
    const char *(*status_name)(int status); /* "cublasLtGetStatusName" */
} hd_lt_functions;

#endif
