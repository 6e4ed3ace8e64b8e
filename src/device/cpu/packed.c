/* Matrices that are packed where they lie. A block of rows takes as much memory packed as before, so that only one of
 * them has to be put aside at a time. */
#include "device/cpu/product.h"

#include "core/pool.h"
#include "device/cpu/gemm.h"

#include <string.h>

typedef struct job {
    const hd_packed_matrix *m;
    const char *from;
    char *to;
    int64_t rows; /* of this block */
    bool unpacks;
} job;

static void move_panels(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const size_t row = (size_t)j->m->columns * j->m->bytes, part = (size_t)j->m->panel * j->m->bytes;
    for (int64_t p = begin; p < end; ++p)
        for (int64_t q = 0; q < j->rows; ++q) {
            const size_t plain = (size_t)q * row + (size_t)p * part, packed = (size_t)(p * j->rows + q) * part;
            memcpy(j->to + (j->unpacks ? plain : packed), j->from + (j->unpacks ? packed : plain), part);
        }
}

static void move(const hd_packed_matrix *m, const void *from, void *to, bool unpacks, void *workspace) {
    const size_t row = (size_t)m->columns * m->bytes;
    for (int64_t r = 0; r < m->rows; r += m->block) {
        job j = {m, (const char *)from + (size_t)r * row, (char *)to + (size_t)r * row,
                 m->rows - r < m->block ? m->rows - r : m->block, unpacks};
        if (workspace != NULL) j.from = memcpy(workspace, j.from, (size_t)j.rows * row);
        hd_parallel_range(m->columns / m->panel, 65536 / (j.rows * m->panel) + 1, move_panels, &j);
    }
}

size_t hd_packed_matrix_workspace(const hd_packed_matrix *m) {
    return (size_t)(m->rows < m->block ? m->rows : m->block) * (size_t)m->columns * m->bytes;
}
void hd_pack_in_place(const hd_packed_matrix *m, void *data, void *workspace) { move(m, data, data, false, workspace); }
void hd_unpack(const hd_packed_matrix *m, const void *packed, void *out) { move(m, packed, out, true, NULL); }

bool hd_gemm_packs_in_place(const hd_gemm *p, hd_packed_matrix *out) {
    *out = (hd_packed_matrix){p->k, p->n, p->k_block, p->kernels->nr, p->kernels->bytes};
    return p->b_column == 1 && p->b_row == p->n && p->n % p->kernels->nr == 0 &&
           (p->kernels->group == 1 || hd_gemm_gathers(p)) && p->from_b == &p->kernels->from[p->kernels->own];
}
