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

typedef struct hd_padding {
    int64_t before, after;
} hd_padding;

typedef enum hd_pad_mode { HD_PAD_REFLECT = 1, HD_PAD_REPLICATE, HD_PAD_CIRCULAR } hd_pad_mode;

/* What hd_scatter does with the element that is there. */
typedef enum hd_scatter_mode {
    HD_SCATTER_SET = 1,
    HD_SCATTER_ADD,
    HD_SCATTER_MUL,
    HD_SCATTER_MAX,
    HD_SCATTER_MIN
} hd_scatter_mode;

#endif
