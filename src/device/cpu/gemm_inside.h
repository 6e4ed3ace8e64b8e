/* What the files of the matrix product share. */
#ifndef HD_DEVICE_CPU_GEMM_INSIDE_H
#define HD_DEVICE_CPU_GEMM_INSIDE_H

#include "device/cpu/gemm.h"
#include "device/cpu/sizes.h"

enum {
    HD_GEMM_B_BYTES = 2 << 20, /* what of B stays in the second-level cache */
    HD_GEMM_BYTES_READ = 2     /* from there, in the time of a multiplication in the vector unit */
};

/* What is decided from a description for one run of a product that is packed: what it is read from, how it is cut,
 * and where in the workspace its parts are. */
typedef struct hd_gemm_layout {
    const hd_gemm *product;
    /* the operands */
    const char *a;        /* A from the row a_first on: where its caller has it, or where it was computed */
    int64_t a_first;      /* a row of A */
    bool a_in_place;      /* A is read where it is, row by row */
    bool kept;            /* panels are what B is, not converted */
    const char *gathered; /* B packed beforehand, when it is packed again on the way to a matrix unit */
    /* the pieces that threads share */
    bool few_rows; /* each piece has all rows, and packs panels right before they are used, unless they are packed */
    bool wide;     /* the result is finished strip by strip */
    int64_t row_pieces, column_pieces;
    int64_t m_block; /* rows of A that are multiplied together */
    /* the workspace: what all pieces share, then what each works in */
    size_t shared_bytes, piece_bytes, bytes;
    char *panels; /* B packed, [k blocks][panels][k_block][nr], also beforehand; NULL: each piece packs what it needs */
    char *strips; /* A packed, for all pieces */
    char *computed; /* rows of A that were computed for all pieces */
    char *pieces;   /* what the pieces work in */
} hd_gemm_layout;

static inline const char *at_a(const hd_gemm *p, int64_t row, int64_t k) {
    return p->a + (row * p->a_row + k * p->a_column) * (int64_t)p->from_a->bytes;
}
static inline const char *at_b(const hd_gemm *p, int64_t k, int64_t column) {
    return p->b + (k * p->b_row + column * p->b_column) * (int64_t)p->from_b->bytes;
}
static inline char *at_c(const hd_gemm *p, int64_t row, int64_t column) {
    return p->c + (size_t)(row * p->n + column) * p->kernels->bytes;
}

/* A that is not of the kernels' own type is converted where it is packed or read. */
static inline bool is_foreign(const hd_gemm *p) { return p->from_a->read != p->kernels->from[p->kernels->own].read; }

/* gemm_small.c: products that read B where it is. A is of the kernels' own type, or some rows of it at a time are, in
 * a workspace of so many bytes. */
void hd_gemm_multiply_in_place(const hd_gemm *p);
void hd_gemm_multiply_converted(const hd_gemm *p, char *workspace);
size_t hd_gemm_converted_bytes(const hd_gemm *p);

#endif
