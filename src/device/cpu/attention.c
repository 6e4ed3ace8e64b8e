/* Attention: softmax(q k^T) v without the matrix of scores. A block of rows meets the keys block by block; each row
 * keeps the largest score it has seen, the sum of its exponentials, and its result so far, which is scaled down when a
 * larger score comes. Blocks of rows are independent, and each runs through the keys in order: threads do not change
 * the result. */
#include "device/cpu/attention.h"

#include <math.h>
#include <string.h>

enum { ROWS = 48, KEYS = 256, LANES = 32 }; /* a block of scores, and the panels of keys beside it, stay in the cache */

void hd_attention_pack(const hd_attention_job *j, char *out, const char *b, int64_t k, int64_t n, int64_t row,
                       int64_t column) {
    const int64_t nr = j->gemm->nr;
    for (int64_t i = 0; i < n; i += nr)
        j->gemm->pack_b(hd_at(out, i * k, j->bytes), hd_at(b, i * column, j->bytes), k, hd_least(nr, n - i), row,
                        column);
}

void hd_attention_multiply(const hd_attention_job *j, int64_t m, int64_t k, const char *a, int64_t row, int64_t column,
                           const char *b, int64_t panel, int64_t panels, char *c, int64_t ldc, bool accumulate) {
    const int64_t mr = j->gemm->mr, nr = j->gemm->nr;
    for (int64_t p = 0; p < panels; ++p)
        for (int64_t i = 0; i < m; i += mr)
            j->gemm->thin((int)hd_least(mr, m - i), k, hd_at(a, i * row, j->bytes), row, column,
                          hd_at(b, p * panel, j->bytes), nr, hd_at(c, i * ldc + p * nr, j->bytes), ldc, accumulate);
}

static const char *mask_of(const hd_attention_job *j, int64_t head, int64_t row, int64_t key) {
    int64_t at = row * j->mask_row + key * j->mask_column;
    for (int i = j->mask_rank - 1; i >= 0; --i) {
        at += head % j->mask_size[i] * j->mask_stride[i];
        head /= j->mask_size[i];
    }
    return j->mask + at * (int64_t)j->mask_bytes;
}

static void hide(const hd_attention_job *j, char *x, int64_t n) { /* exponentials of -inf are 0 */
    if (j->bytes == 4)
        for (int64_t i = 0; i < n; ++i) ((float *)x)[i] = -INFINITY;
    else
        for (int64_t i = 0; i < n; ++i) ((double *)x)[i] = -(double)INFINITY;
}

/* Multiplying by the scale is left to the pass that subtracts the largest, where the order of scores allows. */
double hd_attention_scores(const hd_attention_job *j, int64_t head, int64_t row, int64_t key0, char *x, int64_t seen,
                           int64_t n) {
    if (j->mask != NULL)
        j->rows->add_mask(x, seen, j->scale, mask_of(j, head, row, key0), j->mask_column, j->mask_is_bool);
    else if (!(j->scale > 0))
        j->rows->scale(x, x, seen, j->scale);
    if (seen < n) hide(j, hd_at(x, seen, j->bytes), n - seen);
    return j->scale > 0 && j->mask == NULL ? j->scale : 1;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */
typedef struct forward {
    const hd_attention_job *j;
    char *keys, *values;          /* packed: per head k^T as panels [d][nr], v as panels [s][nr] */
    int64_t key_size, value_size; /* of a head, in elements */
    int64_t columns;              /* e, rounded up to panels */
    char *workspace;              /* per piece: scores, then results */
    int64_t workspace_size, blocks, pieces;
} forward;

static void pack_heads(void *context, int64_t begin, int64_t end) {
    const forward *f = context;
    const hd_attention_job *j = f->j;
    for (int64_t h = begin; h < end; ++h) {
        hd_attention_pack(j, hd_at(f->keys, h * f->key_size, j->bytes), hd_at(j->k, h * j->s * j->d, j->bytes), j->d,
                          j->s, 1, j->d);
        hd_attention_pack(j, hd_at(f->values, h * f->value_size, j->bytes), hd_at(j->v, h * j->s * j->e, j->bytes),
                          j->s, j->e, j->e, 1);
    }
}

/* Scores of a row around the largest it has seen; its result so far is scaled down when that is a new one. */
static void center(const forward *f, int64_t head, int64_t row, int64_t key0, int64_t seen, int64_t wide, char *x,
                   char *result, double *largest, double *sum) {
    const hd_attention_job *j = f->j;
    const double scale = hd_attention_scores(j, head, row, key0, x, seen, wide);
    const double top = fmax(*largest, j->rows->largest(x, seen) * scale);
    j->rows->shift(x, wide, scale, top == -INFINITY ? 0 : top); /* nothing but -inf so far */
    if (top > *largest && *sum != 0) {
        const double down = exp(*largest - top);
        *sum *= down;
        j->rows->scale(result, result, f->columns, down);
    }
    *largest = top;
}

/* Scores of one block to weights that are not yet divided. */
static void weigh(const forward *f, int64_t head, int64_t first, int64_t rows, int64_t key0, int64_t keys, char *scores,
                  char *results, double *largest, double *sums) {
    const hd_attention_job *j = f->j;
    const int64_t wide = (keys + LANES - 1) / LANES * LANES; /* hidden beyond the keys: even rows are quicker */
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t seen = j->causal ? hd_least(keys, first + r + 1 - key0) : keys;
        center(f, head, first + r, key0, seen > 0 ? seen : 0, wide, hd_at(scores, r * KEYS, j->bytes),
               hd_at(results, r * f->columns, j->bytes), &largest[r], &sums[r]);
    }
    const int64_t lines = keys == KEYS ? 1 : rows,
                  length = keys == KEYS ? rows * KEYS : wide; /* one call when it can */
    for (int64_t r = 0; r < lines; ++r) {
        char *x = hd_at(scores, r * KEYS, j->bytes);
        j->exp(x, (const void *const[3]){x, x, x}, NULL, length);
    }
    for (int64_t r = 0; r < rows; ++r) sums[r] += j->rows->sum(hd_at(scores, r * KEYS, j->bytes), wide);
}

static void run_attention_block(const forward *f, char *workspace, int64_t head, int64_t first) {
    const hd_attention_job *j = f->j;
    const int64_t nr = j->gemm->nr, rows = hd_least(ROWS, j->t - first),
                  last = j->causal ? hd_least(j->s, first + rows) : j->s;
    char *scores = workspace, *results = hd_at(workspace, ROWS * KEYS, j->bytes);
    double largest[ROWS], sums[ROWS];
    for (int64_t r = 0; r < rows; ++r) largest[r] = -INFINITY, sums[r] = 0;
    memset(results, 0, (size_t)(rows * f->columns) * j->bytes);
    const char *q = hd_at(j->q, (head * j->t + first) * j->d, j->bytes);
    for (int64_t key0 = 0; key0 < last; key0 += KEYS) {
        const int64_t keys = hd_least(KEYS, last - key0);
        hd_attention_multiply(j, rows, j->d, q, j->d, 1, hd_at(f->keys, head * f->key_size + key0 * j->d, j->bytes),
                              j->d * nr, hd_panels(j, keys), scores, KEYS, false);
        weigh(f, head, first, rows, key0, keys, scores, results, largest, sums);
        hd_attention_multiply(j, rows, keys, scores, KEYS, 1,
                              hd_at(f->values, head * f->value_size + key0 * nr, j->bytes), j->s * nr,
                              hd_panels(j, j->e), results, f->columns, true);
    }
    for (int64_t r = 0; r < rows; ++r)
        j->rows->scale(hd_at(j->out, (head * j->t + first + r) * j->e, j->bytes),
                       hd_at(results, r * f->columns, j->bytes), j->e, sums[r] == 0 ? 0 : 1 / sums[r]);
    for (int64_t r = 0; j->statistics != NULL && r < rows; ++r) {
        const double row[2] = {largest[r], sums[r] == 0 ? 0 : 1 / sums[r]};
        char *to = hd_at(j->statistics, (head * j->t + first + r) * 2, j->bytes);
        if (j->bytes == 4)
            memcpy(to, (const float[2]){(float)row[0], (float)row[1]}, 8);
        else
            memcpy(to, row, 16);
    }
}

static void run_attention_piece(void *context,
                                int64_t piece) { /* every pieces-th, the last rows first: causal blocks differ */
    const forward *f = context;
    char *workspace = hd_at(f->workspace, piece * f->workspace_size, f->j->bytes);
    for (int64_t i = piece; i < f->j->heads * f->blocks; i += f->pieces)
        run_attention_block(f, workspace, i / f->blocks, (f->blocks - 1 - i % f->blocks) * ROWS);
}

hd_error hd_cpu_attention_forward(hd_thread *thread, const hd_attention_job *j) {
    const int64_t nr = j->gemm->nr;
    forward f = {.j = j, .key_size = hd_panels(j, j->s) * nr * j->d, .value_size = hd_panels(j, j->e) * nr * j->s};
    f.columns = hd_panels(j, j->e) * nr;
    f.blocks = (j->t + ROWS - 1) / ROWS;
    f.pieces = hd_least(j->heads * f.blocks, 4 * hd_pool_threads());
    f.workspace_size = ROWS * (KEYS + f.columns);
    hd_block *workspace = hd_block_new(
        thread, (size_t)(j->heads * (f.key_size + f.value_size) + f.pieces * f.workspace_size) * j->bytes + 64);
    if (workspace == NULL) return HD_ERROR_MEMORY;
    f.workspace = hd_block_data(workspace);
    f.keys = hd_at(f.workspace, f.pieces * f.workspace_size, j->bytes);
    f.values = hd_at(f.keys, j->heads * f.key_size, j->bytes);
    hd_parallel_range(j->heads, 16384 / (j->s * (j->d + j->e) + 1) + 1, pack_heads, &f);
    hd_parallel(f.pieces, run_attention_piece, &f);
    hd_block_release(thread, workspace);
    return HD_OK;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */
static void describe_mask(hd_attention_job *j, const hd_tensor *mask, const hd_shape *q, const char *data) {
    int64_t stride[HD_MAX_RANK];
    hd_shape scores = *q;
    const int last = q->rank - 1;
    scores.size[last] = j->s;
    hd_layout_broadcast(&mask->layout, &scores, stride);
    j->mask = data;
    j->mask_is_bool = mask->dtype == HD_BOOL;
    j->mask_bytes = hd_dtype_bytes[mask->dtype];
    j->mask_rank = last - 1;
    memcpy(j->mask_size, q->size, sizeof j->mask_size);
    memcpy(j->mask_stride, stride, sizeof stride);
    j->mask_row = stride[last - 1];
    j->mask_column = stride[last];
}

/* What is asked for, of inputs from `first` on; the mask is input `mask_at`, if there is one. */
static hd_error begin_attention(hd_thread *thread, hd_call *call, int first, bool has_mask, bool causal, double scale,
                                hd_cpu_operands *o, hd_attention_job *j) {
    const int mask_at = first + 3;
    const bool keeps_mask = has_mask && call->inputs[mask_at]->dtype == HD_BOOL;
    HD_TRY(hd_cpu_operands_begin(thread, call, keeps_mask ? 1u << mask_at : 0, o));
    const bool is_f32 = o->as == HD_F32;
    const hd_shape *q = &call->inputs[first]->layout.shape, *v = &call->inputs[first + 2]->layout.shape;
    const int last = q->rank - 1;
    *j = (hd_attention_job){.gemm = is_f32 ? &hd_kernels()->gemm_f32 : &hd_kernels()->gemm_f64,
                            .rows = is_f32 ? &hd_kernels()->attention_f32 : &hd_kernels()->attention_f64,
                            .exp = hd_kernels()->elementwise[is_f32 ? HD_COMPUTE_F32 : HD_COMPUTE_F64][HD_OP_exp],
                            .bytes = hd_dtype_bytes[o->as],
                            .heads = 1,
                            .t = q->size[last - 1],
                            .s = v->size[last - 1],
                            .d = q->size[last],
                            .e = v->size[last],
                            .scale = scale,
                            .causal = causal,
                            .q = o->from[first],
                            .k = o->from[first + 1],
                            .v = o->from[first + 2],
                            .out = o->to};
    for (int i = 0; i < last - 1; ++i) j->heads *= q->size[i];
    if (has_mask) describe_mask(j, o->in[mask_at], q, o->from[mask_at]);
    return HD_OK;
}

hd_error hd_cpu_attention(hd_thread *thread, hd_call *call) {
    const hd_attention_attributes *a = call->attributes;
    hd_cpu_operands o;
    hd_attention_job j;
    HD_TRY(begin_attention(thread, call, 0, call->input_count > 3, a->causal, a->scale, &o, &j));
    const hd_tensor *statistics = call->output_count > 1 ? call->outputs[1] : NULL;
    if (statistics != NULL) j.statistics = statistics->storage->data;
    hd_error status = HD_OK;
    if (o.out->count > 0)
        status = hd_cpu_attention_forward(thread, &j);
    else if (statistics != NULL) /* values without columns: no gradient comes of weights */
        memset(j.statistics, 0, (size_t)statistics->count * j.bytes);
    return hd_cpu_operands_end(thread, call, &o, status);
}

hd_error hd_cpu_attention_gradient(hd_thread *thread, hd_call *call) {
    const hd_attention_gradient_attributes *a = call->attributes;
    hd_cpu_operands o;
    hd_attention_job j;
    HD_TRY(begin_attention(thread, call, 1, call->input_count - a->statistics > 4, a->causal, a->scale, &o, &j));
    j.gradient = o.from[0];
    if (a->statistics) j.statistics = (char *)(uintptr_t)o.from[call->input_count - 1];
    const hd_error status = o.out->count > 0 ? hd_cpu_attention_back(thread, &j) : HD_OK;
    return hd_cpu_operands_end(thread, call, &o, status);
}
