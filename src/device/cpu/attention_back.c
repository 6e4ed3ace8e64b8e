/* The gradient of attention. A block of rows computes its scores again, all keys of it at once, in a workspace that
 * is as wide as the keys and a few rows high, and makes weights of them by the statistics that the forward pass
 * kept. With p the weights and g the gradient: dv += p^T g, ds = p (g v^T - rows' sums of p g v^T), dq = ds k, dk +=
 * ds^T q.  Sums over rows are one unit's, a head or a fixed part of its rows, and units are added up in order. */
#include "device/cpu/attention.h"

#include <math.h>
#include <string.h>

enum { ROWS = 48, ROOM = 1 << 18, UNITS = 8 };

typedef struct backward {
    const hd_attention_job *j;
    int64_t rows, blocks, parts; /* of a block; of a head: blocks, and units */
    int64_t keys, of_d, of_e;    /* s, d and e, rounded up to panels */
    int64_t sums_size, workspace_size;
    char *sums, *workspace; /* per unit: dk and dv, [s][of_d] and [s][of_e]; per piece: the rest */
    int64_t pieces;
} backward;

typedef struct memory_of_piece {
    char *keys_turned, *values_turned, *keys; /* k^T, v^T and k as panels */
    char *q, *g;                              /* rows of the block as panels */
    char *weights, *slopes, *result;          /* [rows][keys] twice, [rows][of_d] */
} memory_of_piece;

static memory_of_piece lay_out_piece(const backward *b, char *workspace) {
    const hd_attention_job *j = b->j;
    memory_of_piece p;
    char *at = workspace;
#define TAKE(field, count) p.field = at, at = hd_at(at, count, j->bytes)
    TAKE(keys_turned, j->d * b->keys);
    TAKE(values_turned, j->e * b->keys);
    TAKE(keys, j->s * b->of_d);
    TAKE(q, b->rows * b->of_d);
    TAKE(g, b->rows * b->of_e);
    TAKE(weights, b->rows * b->keys);
    TAKE(slopes, b->rows * b->keys);
    TAKE(result, b->rows * b->of_d);
    return p;
}

static double statistic(const hd_attention_job *j, int64_t at) {
    return j->bytes == 4 ? (double)((const float *)j->statistics)[at] : ((const double *)j->statistics)[at];
}

/* Scores to weights, which are 0 where a row does not see. */
static void weigh(const backward *b, int64_t head, int64_t first, int64_t rows, char *weights) {
    const hd_attention_job *j = b->j;
    for (int64_t r = 0; r < rows; ++r) {
        char *x = hd_at(weights, r * b->keys, j->bytes);
        const int64_t seen = j->causal ? hd_least(j->s, first + r + 1) : j->s;
        const double scale = hd_attention_scores(j, head, first + r, 0, x, seen, seen);
        const int64_t row = (head * j->t + first + r) * 2;
        const double top = j->statistics != NULL ? statistic(j, row) : j->rows->largest(x, seen) * scale;
        j->rows->shift(x, seen, scale, top == -INFINITY ? 0 : top);
        j->exp(x, (const void *const[3]){x, x, x}, NULL, seen);
        const double sum = j->statistics != NULL ? 0 : j->rows->sum(x, seen);
        j->rows->scale(x, x, seen, j->statistics != NULL ? statistic(j, row + 1) : sum == 0 ? 0 : 1 / sum);
        memset(hd_at(x, seen, j->bytes), 0, (size_t)(b->keys - seen) * j->bytes);
    }
}

static void run_attention_back_block(const backward *b, const memory_of_piece *p, int64_t head, int64_t block, char *dk,
                                     char *dv) {
    const hd_attention_job *j = b->j;
    const int64_t nr = j->gemm->nr, first = block * b->rows, rows = hd_least(b->rows, j->t - first);
    const int64_t seen = j->causal ? hd_least(j->s, first + rows) : j->s, panels = hd_panels(j, seen);
    const char *q = hd_at(j->q, (head * j->t + first) * j->d, j->bytes),
               *g = hd_at(j->gradient, (head * j->t + first) * j->e, j->bytes);
    hd_attention_multiply(j, rows, j->d, q, j->d, 1, p->keys_turned, j->d * nr, panels, p->weights, b->keys, false);
    weigh(b, head, first, rows, p->weights);
    hd_attention_multiply(j, rows, j->e, g, j->e, 1, p->values_turned, j->e * nr, panels, p->slopes, b->keys, false);
    for (int64_t r = 0; r < rows; ++r) {
        char *d = hd_at(p->slopes, r * b->keys, j->bytes);
        const char *w = hd_at(p->weights, r * b->keys, j->bytes);
        j->rows->through(d, w, seen, j->gemm->dot(d, w, seen), j->scale);
    }
    hd_attention_pack(j, p->q, q, rows, j->d, j->d, 1);
    hd_attention_pack(j, p->g, g, rows, j->e, j->e, 1);
    hd_attention_multiply(j, seen, rows, p->weights, 1, b->keys, p->g, rows * nr, hd_panels(j, j->e), dv, b->of_e,
                          true);
    hd_attention_multiply(j, seen, rows, p->slopes, 1, b->keys, p->q, rows * nr, hd_panels(j, j->d), dk, b->of_d, true);
    hd_attention_multiply(j, rows, seen, p->slopes, b->keys, 1, p->keys, j->s * nr, hd_panels(j, j->d), p->result,
                          b->of_d, false);
    for (int64_t r = 0; r < rows; ++r)
        memcpy(hd_at(j->out, (head * j->t + first + r) * j->d, j->bytes), hd_at(p->result, r * b->of_d, j->bytes),
               (size_t)j->d * j->bytes);
}

static void run_unit(const backward *b, char *workspace, int64_t unit) {
    const hd_attention_job *j = b->j;
    const int64_t head = unit / b->parts, part = unit % b->parts;
    const memory_of_piece p = lay_out_piece(b, workspace);
    char *dk = hd_at(b->sums, unit * b->sums_size, j->bytes), *dv = hd_at(dk, j->s * b->of_d, j->bytes);
    memset(dk, 0, (size_t)b->sums_size * j->bytes);
    const char *k = hd_at(j->k, head * j->s * j->d, j->bytes), *v = hd_at(j->v, head * j->s * j->e, j->bytes);
    hd_attention_pack(j, p.keys_turned, k, j->d, j->s, 1, j->d);
    hd_attention_pack(j, p.values_turned, v, j->e, j->s, 1, j->e);
    hd_attention_pack(j, p.keys, k, j->s, j->d, j->d, 1);
    for (int64_t i = b->blocks * part / b->parts; i < b->blocks * (part + 1) / b->parts; ++i)
        run_attention_back_block(b, &p, head, i, dk, dv);
}

static void run_attention_back_piece(void *context, int64_t piece) {
    const backward *b = context;
    for (int64_t unit = piece; unit < b->j->heads * b->parts; unit += b->pieces)
        run_unit(b, hd_at(b->workspace, piece * b->workspace_size, b->j->bytes), unit);
}

#define FOLD(T)                                                                                                        \
    for (int64_t i = 0; i < width; ++i) {                                                                              \
        T sum = ((const T *)from)[i];                                                                                  \
        for (int64_t p = 1; p < b->parts; ++p) sum += ((const T *)hd_at(from, p * b->sums_size, j->bytes))[i];         \
        ((T *)to)[i] = sum;                                                                                            \
    }
/* Rows of dk or dv: the units of a head together. */
static void fold_sums(const backward *b, int64_t head, int64_t offset, int64_t width, int64_t padded, char *to) {
    const hd_attention_job *j = b->j;
    const char *from = hd_at(b->sums, head * b->parts * b->sums_size + offset, j->bytes);
    for (int64_t r = 0; r < j->s; ++r, from = hd_at(from, padded, j->bytes), to = hd_at(to, width, j->bytes)) {
        if (j->bytes == 4) {
            FOLD(float)
        } else {
            FOLD(double)
        }
    }
}

hd_error hd_cpu_attention_back(hd_thread *thread, const hd_attention_job *j) {
    const int64_t nr = j->gemm->nr, mr = j->gemm->mr;
    backward b = {
        .j = j, .keys = hd_panels(j, j->s) * nr, .of_d = hd_panels(j, j->d) * nr, .of_e = hd_panels(j, j->e) * nr};
    const int64_t high = ROOM / (b.keys + 1) / mr * mr;
    b.rows = high > ROWS ? ROWS : high < mr ? mr : high;
    b.blocks = hd_pieces(j->t, b.rows);
    const int64_t wanted = (UNITS + j->heads - 1) / (j->heads > 0 ? j->heads : 1);
    b.parts = b.blocks < 1 ? 1 : hd_least(b.blocks, wanted > 0 ? wanted : 1);
    b.sums_size = j->s * (b.of_d + b.of_e);
    b.workspace_size = (j->d + j->e) * b.keys + j->s * b.of_d + b.rows * (2 * b.of_d + b.of_e + 2 * b.keys);
    b.pieces = hd_least(j->heads * b.parts, 2 * hd_pool_threads());
    hd_block *workspace =
        hd_block_new(thread, (size_t)(j->heads * b.parts * b.sums_size + b.pieces * b.workspace_size) * j->bytes + 64);
    if (workspace == NULL) return HD_ERROR_MEMORY;
    b.sums = hd_block_data(workspace);
    b.workspace = hd_at(b.sums, j->heads * b.parts * b.sums_size, j->bytes);
    hd_parallel(b.pieces, run_attention_back_piece, &b);
    char *dk = hd_at(j->out, j->heads * j->t * j->d, j->bytes), *dv = hd_at(dk, j->heads * j->s * j->d, j->bytes);
    for (int64_t h = 0; h < j->heads; ++h) {
        fold_sums(&b, h, 0, j->d, b.of_d, hd_at(dk, h * j->s * j->d, j->bytes));
        fold_sums(&b, h, j->s * b.of_d, j->e, b.of_e, hd_at(dv, h * j->s * j->e, j->bytes));
    }
    hd_block_release(thread, workspace);
    return HD_OK;
}
