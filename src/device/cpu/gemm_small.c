/* Products that are not packed: small ones, a few rows, a few columns, inner products. */
#include "device/cpu/gemm_inside.h"

#include "core/assert.h"
#include "core/pool.h"

#include <string.h>

enum {
    SHORT_K = 128,     /* of a product with few columns that is summed up in one go */
    ROWS_OF_B = 16,    /* that are read side by side: as many as processors follow */
    CONVERTED = 16384, /* elements of A that are converted together where nothing is packed */
    EDGE_BYTES = 8192  /* a tile of C, or some rows of a panel: on the stack of a small thread */
};

/* What some columns cost one thread: see hd_gemm_cost. */
static int64_t cost_of_columns(const hd_gemm *p, int64_t columns) {
    const int64_t work = hd_gemm_work(p->m, columns, p->k),
                  read = hd_gemm_work(p->k, columns, (int64_t)p->from_b->bytes) / HD_GEMM_BYTES_READ;
    return work > read ? work : read;
}

/* The columns of one tile; neighbouring columns of B lie side by side. */
static void multiply_tile(const hd_gemm *p, int64_t k0, int64_t kc, int64_t column) {
    const int64_t mr = p->kernels->mr;
    for (int64_t i = 0; i < p->m; i += mr)
        p->from_b->thin((int)hd_least(mr, p->m - i), kc, at_a(p, i, k0), p->a_row, p->a_column, at_b(p, k0, column),
                        p->b_row, at_c(p, i, column), p->n, k0 > 0);
}
/* The only row, a few tiles at a time, when B is in a cache. Returns the first tile that is left. */
static int64_t multiply_line(const hd_gemm *p, int64_t begin, int64_t end) {
    const int64_t nr = p->kernels->nr;
    if (p->m > 1 || p->a_column != 1 || hd_gemm_work(p->k, p->n, (int64_t)p->from_b->bytes) > HD_GEMM_B_BYTES)
        return begin;
    for (; begin + HD_LINE_PANELS <= end; begin += HD_LINE_PANELS)
        for (int64_t k0 = 0; k0 < p->k; k0 += p->k_block)
            p->from_b->line(hd_least(p->k_block, p->k - k0), at_a(p, 0, k0), at_b(p, k0, begin * nr), p->b_row,
                            at_c(p, 0, begin * nr), k0 > 0);
    return begin;
}
/* Some whole tiles, and behind the last of all those columns that fill none: together with some that are computed
 * again. */
static void multiply_columns(void *context, int64_t begin, int64_t end) {
    const hd_gemm *p = context;
    const int64_t nr = p->kernels->nr;
    begin = multiply_line(p, begin, end);
    const int64_t k_step = p->m <= 4 ? ROWS_OF_B : p->k; /* for a few rows B comes from memory: in long runs */
    for (int64_t k0 = 0; k0 < p->k; k0 += k_step)
        for (int64_t tile = begin; tile < end; ++tile) multiply_tile(p, k0, hd_least(k_step, p->k - k0), tile * nr);
    if (end == p->n / nr && end * nr < p->n) multiply_tile(p, 0, p->k, p->n - nr);
}

/* The same in groups of tiles, so that it does not depend on the number of threads which of them are in a line. */
static void multiply_groups(void *context, int64_t begin, int64_t end) {
    const hd_gemm *p = context;
    multiply_columns(context, begin * HD_LINE_PANELS, hd_least(end * HD_LINE_PANELS, p->n / p->kernels->nr));
}

/* Fewer columns than a tile has: through a panel that fits. */
static void multiply_edge(const hd_gemm *p) {
    _Alignas(64) char edge_b[EDGE_BYTES], edge_c[EDGE_BYTES];
    const int64_t mr = p->kernels->mr, nr = p->kernels->nr, k_step = EDGE_BYTES / (nr * (int64_t)p->kernels->bytes);
    for (int64_t i = 0; i < p->m; i += mr) {
        const int64_t rows = hd_least(mr, p->m - i);
        for (int64_t k0 = 0; k0 < p->k; k0 += k_step) {
            const int64_t kc = hd_least(k_step, p->k - k0);
            if (i == 0 || p->k > k_step) /* else it is there still */
                p->from_b->pack_b(edge_b, at_b(p, k0, 0), kc, p->n, p->b_row, 1);
            p->kernels->thin((int)rows, kc, at_a(p, i, k0), p->a_row, p->a_column, edge_b, nr, edge_c, nr, k0 > 0);
        }
        for (int64_t r = 0; r < rows; ++r)
            memcpy(at_c(p, i + r, 0), edge_c + (size_t)(r * nr) * p->kernels->bytes, (size_t)p->n * p->kernels->bytes);
    }
}

/* A few rows times columns that lie along memory: inner products. */
static void multiply_dots(void *context, int64_t begin, int64_t end) {
    const hd_gemm *p = context;
    for (int64_t j = begin; j < end; ++j)
        for (int64_t i = 0; i < p->m; ++i) p->from_b->dot(at_c(p, i, j), at_a(p, i, 0), at_b(p, 0, j), p->k);
}

/* ---- a few columns: packing would cost more than it brings ------------------------------------------------------- */
#define NARROW(T, n)                                                                                                   \
    case n:                                                                                                            \
        for (int64_t i = 0; i < p->m; ++i) {                                                                           \
            const T *a = (const T *)p->a + i * p->a_row, *b = (const T *)p->b;                                         \
            T even[n] = {0}, odd[n] = {0};                                                                             \
            int64_t q = 0;                                                                                             \
            for (; q + 2 <= p->k; q += 2, b += 2 * p->b_row) {                                                         \
                const T x = a[q * p->a_column], y = a[(q + 1) * p->a_column];                                          \
                for (int j = 0; j < n; ++j) even[j] += x * b[j], odd[j] += y * b[p->b_row + j];                        \
            }                                                                                                          \
            if (q < p->k)                                                                                              \
                for (int j = 0; j < n; ++j) even[j] += a[q * p->a_column] * b[j];                                      \
            for (int j = 0; j < n; ++j) ((T *)p->c)[i * n + j] = even[j] + odd[j];                                     \
        }                                                                                                              \
        break;
static bool is_narrow(const hd_gemm *p) {
    const hd_cpu_kernels *k = hd_kernels();
    return p->n <= 4 && hd_gemm_work(p->m, p->n, p->k) <= 1 << 14 &&
           (p->from_b == &k->gemm_f32.from[HD_F32] || p->from_b == &k->gemm_f64.from[HD_F64]);
}
static void multiply_narrow(const hd_gemm *p) {
    if (p->kernels->bytes == 4) switch (p->n) {
            NARROW(float, 1) NARROW(float, 2) NARROW(float, 3) NARROW(float, 4)
        }
    else
        switch (p->n) { NARROW(double, 1) NARROW(double, 2) NARROW(double, 3) NARROW(double, 4) }
}

static bool is_dots(const hd_gemm *p) { return p->m <= 2 && p->b_row == 1 && p->a_column == 1; }

bool hd_gemm_wants_packing(const hd_gemm *p) {
    const int64_t work = hd_gemm_work(p->m, p->n, p->k);
    return !is_dots(p) && !(p->b_column == 1 && (work <= HD_GEMM_SMALL || p->m <= 4));
}

/* A panel that is not filled is packed, whatever it costs; of a long one the parts are rather summed up apart. */
bool hd_gemm_wants_packed(const hd_gemm *p) {
    return hd_gemm_wants_packing(p) || (p->n < p->kernels->nr && p->k <= SHORT_K && !is_dots(p) && !is_narrow(p));
}

/* Threads share what reads the description alone. */
static void share(int64_t count, int64_t least, void (*body)(void *, int64_t, int64_t), const hd_gemm *p) {
    hd_parallel_range(count, least, body, (void *)(uintptr_t)p);
}

void hd_gemm_multiply_in_place(const hd_gemm *p) {
    HD_ASSERT(!is_foreign(p));
    const int64_t nr = p->kernels->nr, tile = cost_of_columns(p, nr), groups = hd_pieces(p->n / nr, HD_LINE_PANELS);
    if (is_dots(p))
        share(p->n, HD_GEMM_PARALLEL / cost_of_columns(p, 1) + 1, multiply_dots, p);
    else if (is_narrow(p))
        multiply_narrow(p);
    else if (p->n < nr)
        multiply_edge(p);
    else if (p->m <= 4)
        share(groups, hd_most(HD_GEMM_PARALLEL / HD_LINE_PANELS / tile + 1, groups / hd_pool_threads()),
              multiply_groups, p); /* runs along B, which comes from memory, stay long */
    else
        share(p->n / nr, HD_GEMM_PARALLEL / tile + 1, multiply_columns, p);
}

/* A that is not of the kernels' own type: some rows at a time are, in the workspace. */
static int64_t converted_rows(const hd_gemm *p) {
    const int64_t most = CONVERTED / p->k;
    return hd_least(p->m, most > p->kernels->mr ? most : p->kernels->mr);
}
void hd_gemm_multiply_converted(const hd_gemm *p, char *workspace) {
    const int64_t step = converted_rows(p);
    hd_gemm part = *p;
    part.a = workspace;
    part.from_a = &p->kernels->from[p->kernels->own];
    part.a_row = p->k;
    part.a_column = 1;
    for (int64_t row = 0; row < p->m; row += step) {
        part.m = hd_least(step, p->m - row);
        part.c = at_c(p, row, 0);
        for (int64_t i = 0; i < part.m; ++i)
            p->from_a->read(workspace + (size_t)(i * p->k) * p->kernels->bytes, at_a(p, row + i, 0), p->k, p->a_column);
        hd_gemm_multiply_in_place(&part);
    }
}

size_t hd_gemm_converted_bytes(const hd_gemm *p) {
    return is_foreign(p) ? (size_t)(converted_rows(p) * p->k) * p->kernels->bytes : 0;
}
