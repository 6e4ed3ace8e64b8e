/* Attention on the CPU: what its two files share. */
#ifndef HD_DEVICE_CPU_ATTENTION_H
#define HD_DEVICE_CPU_ATTENTION_H

#include "device/cpu/cpu.h"
#include "device/cpu/sizes.h"

typedef struct hd_attention_job {
    const hd_gemm_kernels *gemm;
    const hd_attention_kernels *rows;
    hd_elementwise_kernel exp;
    size_t bytes;
    int64_t heads, t, s, d, e; /* heads: all axes in front */
    double scale;
    bool causal;
    const char *q, *k, *v, *gradient, *mask;
    bool mask_is_bool;
    size_t mask_bytes;
    int mask_rank; /* axes in front of [t, s]; strides in elements */
    int64_t mask_size[HD_MAX_RANK], mask_stride[HD_MAX_RANK], mask_row, mask_column;
    char *out;
    char *statistics; /* [heads * t][2]: of each row the largest score, and 1 over the sum; NULL: not asked for, or not
                         known */
} hd_attention_job;

hd_error hd_cpu_attention_forward(hd_thread *thread, const hd_attention_job *job);
hd_error hd_cpu_attention_back(hd_thread *thread, const hd_attention_job *job);

static inline char *hd_at(const void *base, int64_t element, size_t bytes) {
    return (char *)base + element * (int64_t)bytes;
}
static inline int64_t hd_panels(const hd_attention_job *j, int64_t n) { return (n + j->gemm->nr - 1) / j->gemm->nr; }

/* All of a matrix [k, n] as panels [k][nr]; element (p, i) at b[p * row + i * column]. */
void hd_attention_pack(const hd_attention_job *j, char *out, const char *b, int64_t k, int64_t n, int64_t row,
                       int64_t column);
/* C [m, panels * nr], ldc apart, (+)= A [m, k], as strides say, times packed panels that lie `panel` elements apart. */
void hd_attention_multiply(const hd_attention_job *j, int64_t m, int64_t k, const char *a, int64_t row, int64_t column,
                           const char *b, int64_t panel, int64_t panels, char *c, int64_t ldc, bool accumulate);
/* Finishes scores of row `row` of a head: from key `key0` on, the row sees `seen` of `n`, and the rest is hidden.
 * Returns what they must still be multiplied by. */
double hd_attention_scores(const hd_attention_job *j, int64_t head, int64_t row, int64_t key0, char *x, int64_t seen,
                           int64_t n);

#endif
