/* Options and small types that ops in ops.h take. */
#ifndef HODU_OP_OPTIONS_H
#define HODU_OP_OPTIONS_H

#include <hodu/base.h>

/* "No bound", for either end of hd_slice. */
#define HD_END INT64_MIN

typedef struct hd_reduce_opts {
    size_t struct_size;
    bool keep_dims; /* reduced axes stay, with size 1 */
} hd_reduce_opts;

/* What hd_unique gives beside the values. */
typedef struct hd_unique_opts {
    size_t struct_size;
    bool inverse, counts;
} hd_unique_opts;

/* Of scans, which take an axis in order, and combine each element with all before it. */
typedef struct hd_scan_opts {
    size_t struct_size;
    bool exclusive; /* with what comes before it alone: the first result is 0, 1 or -inf */
    bool reverse;   /* from the last element to the first */
} hd_scan_opts;

/* Of hd_triangular_solve: which A is meant, and on which side of X it stands. */
typedef struct hd_triangular_opts {
    size_t struct_size;
    bool upper;     /* the upper triangle of a; else the lower one, and nobody reads the other */
    bool transpose; /* A is its transpose */
    bool unit;      /* ones on the diagonal, which nobody reads */
    bool right;     /* X A = b: b [n] or [..., k, n] */
} hd_triangular_opts;

/* Norms of matrices. Those of MINUS have the smallest in the place of the largest. */
typedef enum hd_matrix_norm_kind {
    HD_NORM_FROBENIUS = 1, /* the root of the sum of squares */
    HD_NORM_NUCLEAR,       /* the sum of singular values */
    HD_NORM_1,             /* the largest sum of absolute values of a column, */
    HD_NORM_MINUS_1,
    HD_NORM_INF, /* of a row, */
    HD_NORM_MINUS_INF,
    HD_NORM_2, /* or singular value */
    HD_NORM_MINUS_2
} hd_matrix_norm_kind;

typedef struct hd_padding {
    int64_t before, after;
} hd_padding;

/* Convolutions have 1 to 3 spatial axes; entry i is of the i-th. Strides and dilations are given for all of them, or
 * for none:
 * then they are 1, as a number of groups of 0 is. A result has (size + padding - dilation * (kernel - 1) - 1) / stride
 * + 1. */
typedef struct hd_conv_opts {
    size_t struct_size;
    int64_t stride[3], dilation[3];
    hd_padding padding[3];     /* zeros around the image, {{1, 1}, {1, 1}} for one on every side; negative cuts */
    int64_t groups;            /* channels are cut into groups that are convolved apart */
    int64_t output_padding[3]; /* of transposed ones: rows behind the last, fewer than the stride */
} hd_conv_opts;

/* Pooling windows lie on the last 1 to 3 axes; entry i is of the i-th of them. */
typedef struct hd_pool_opts {
    size_t struct_size;
    int64_t stride[3];     /* for all axes, or 0: the window */
    int64_t dilation[3];   /* of max pooling; 0: 1 */
    hd_padding padding[3]; /* at most half a window; never the largest, zeros in an average */
    bool ceil_mode;        /* a last window may reach past the end */
    bool exclude_padding;  /* averages are over what is inside the image */
    bool adaptive;         /* the "window" is the size of the result: the image is cut as evenly as it goes */
} hd_pool_opts;

/* Elements are squares, and the squares of the result cover those of x: element i is at (i + 1/2) in / out - 1/2 of x.
 * The first mode has corners in their place: it takes element i in / out, rounded down. */
typedef enum hd_resize_mode {
    HD_RESIZE_NEAREST = 1,    /* which 0 is too */
    HD_RESIZE_NEAREST_CENTRE, /* whose centre is the nearest */
    HD_RESIZE_LINEAR,         /* between 2 elements on each axis */
    HD_RESIZE_CUBIC           /* between 4, by a cubic convolution with a = -3/4 */
} hd_resize_mode;

/* Linear and cubic ones have options. */
typedef struct hd_resize_opts {
    size_t struct_size;
    hd_resize_mode mode;
    bool align_corners; /* elements are points instead, the first and the last of both at one place */
    bool antialias;     /* a smaller result sees all elements of x, by filters as wide as it steps; cubic: a = -1/2 */
} hd_resize_opts;

typedef enum hd_pad_mode { HD_PAD_REFLECT = 1, HD_PAD_REPLICATE, HD_PAD_CIRCULAR } hd_pad_mode;

/* What hd_scatter does with the element that is there. */
typedef enum hd_scatter_mode {
    HD_SCATTER_SET = 1,
    HD_SCATTER_ADD,
    HD_SCATTER_MUL,
    HD_SCATTER_MAX,
    HD_SCATTER_MIN
} hd_scatter_mode;

/* Which axis of a grid the first tensor of hd_meshgrid runs along: the first (matrices), or the second (plots). */
typedef enum hd_indexing { HD_INDEXING_IJ = 1, HD_INDEXING_XY } hd_indexing;

#endif
