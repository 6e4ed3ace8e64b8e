/* The matrix product of two matrices with any strides: what contractions and convolutions are made of. */
#ifndef HD_DEVICE_CPU_GEMM_H
#define HD_DEVICE_CPU_GEMM_H

#include "device/cpu/kernels.h"
#include "device/cpu/product.h"

/* m n k, below which nothing is packed; and what one thread does sooner than two, in multiplications of the vector
 * unit: some
 * 4 us, when threads that are awake take over in half of one, and others have to be woken */
enum { HD_GEMM_SMALL = 96 * 96 * 96, HD_GEMM_PARALLEL = HD_PRODUCT_SHARED };

/* A product as its caller describes it; nothing of it changes while it is computed. */
typedef struct hd_gemm {
    const hd_gemm_kernels *kernels;
    const hd_gemm_source *from_a, *from_b; /* of `kernels`: what the operands are */
    int64_t m, n, k;
    const char *a, *b;
    char *c;                                  /* of the kernels' own type */
    int64_t a_row, a_column, b_row, b_column; /* strides in elements; c is row-major */
    int64_t k_block;                          /* elements along k of what is packed together */
    hd_product_share share;
    hd_product_epilogue epilogue; /* NULL: the result is c; else c is not used */
    void *context;
    int64_t first_row;    /* of the result, for `epilogue` and `prologue` */
    const char *packed_b; /* B as hd_gemm_pack laid it out beforehand, for `epilogue`; NULL: it is packed now */
    char *workspace;      /* for `epilogue`: of hd_gemm_workspace_bytes; NULL or too small: it is taken now */
    size_t workspace_bytes;
    hd_product_prologue
        prologue; /* for `epilogue`: computes rows of A, which follow each other; NULL: they are there */
    void *prologue_context;
} hd_gemm;

/* Those of a product whose result has this dtype. */
const hd_gemm_kernels *hd_gemm_kernels_for(hd_dtype result);
/* True when packing B brings more than it costs. Else A must be of the kernels' own type, unless there is
 * `epilogue`. */
bool hd_gemm_wants_packing(const hd_gemm *p);
/* True when a matrix unit is quicker. */
bool hd_gemm_suits(const hd_gemm *p, const hd_gemm_kernels *unit);
/* True when two that differ in nothing but the way they are computed do differ in that. */
bool hd_gemm_configs_differ(const hd_gemm *p, const hd_gemm *other);
/* The same of a B that is packed beforehand. */
bool hd_gemm_wants_packed(const hd_gemm *p);
/* True when B beforehand is not packed as the kernels read it, only brought together. */
bool hd_gemm_gathers(const hd_gemm *p);
/* Bytes of a packed B, and packing it: for weights that do not change. */
size_t hd_gemm_packed_bytes(const hd_gemm *p);
/* packed.c: that B can be packed where it lies, and how it lies then. */
bool hd_gemm_packs_in_place(const hd_gemm *p, hd_packed_matrix *out);
void hd_gemm_pack(const hd_gemm *p, char *out);
/* True when one packing of the same B does for both. */
bool hd_gemm_packs_alike(const hd_gemm *p, const hd_gemm *other);

/* m n k, or the most there is: broadcast operands may be absurdly large. */
static inline int64_t hd_gemm_work(int64_t m, int64_t n, int64_t k) {
    int64_t work;
    return __builtin_mul_overflow(m, n, &work) || __builtin_mul_overflow(work, k, &work) ? INT64_MAX : work;
}
/* What a product costs one thread, in multiplications of the vector unit: a matrix unit takes less for each, and more
 * to pack operands; what is read but for a few rows comes from memory. */
int64_t hd_gemm_cost(const hd_gemm *p);
/* Bytes of memory that a product with `epilogue` works in; SIZE_MAX: more than there can be. */
size_t hd_gemm_workspace_bytes(const hd_gemm *p);
hd_error hd_gemm_run(hd_thread *thread, const hd_gemm *p);

#endif
