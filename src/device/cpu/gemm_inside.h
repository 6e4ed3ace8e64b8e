/* What the files of the matrix product share. */
#ifndef HD_DEVICE_CPU_GEMM_INSIDE_H
#define HD_DEVICE_CPU_GEMM_INSIDE_H

#include "device/cpu/gemm.h"
#include "device/cpu/sizes.h"

typedef hd_gemm product;

enum {
    HD_GEMM_B_BYTES = 2 << 20, /* what of B stays in the second-level cache */
    HD_GEMM_BYTES_READ = 2     /* from there, in the time of a multiplication in the vector unit */
};

static inline const char *at_a(const product *p, int64_t row, int64_t k) {
    return p->a + ((row - p->a_first) * p->a_row + k * p->a_column) * (int64_t)p->from_a->bytes;
}
static inline const char *at_b(const product *p, int64_t k, int64_t column) {
    return p->b + (k * p->b_row + column * p->b_column) * (int64_t)p->from_b->bytes;
}
static inline char *at_c(const product *p, int64_t row, int64_t column) {
    return p->c + (size_t)(row * p->n + column) * p->kernels->bytes;
}

/* A that is not of the kernels' own type is converted where it is packed or read. */
static inline bool is_foreign(const product *p) { return p->from_a->read != p->kernels->from[p->kernels->own].read; }

/* gemm_small.c: products that read B where it is. A is of the kernels' own type, or some rows of it at a time are, in
 * memory of so many bytes. */
void hd_gemm_multiply_in_place(hd_gemm *p);
void hd_gemm_multiply_converted(const hd_gemm *p, char *room);
size_t hd_gemm_converted_bytes(const hd_gemm *p);

#endif
