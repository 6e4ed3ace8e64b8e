/* Products on GPUs: what a call of matmul, affine or a convolution is in template_product.h. Which tiles, which
 * piece of k, and which axes are rows, columns and batches follows from shapes and strides alone; no operand is
 * copied. */
#include "machine/gpu_product.h"

#include <stddef.h>
#include <string.h>

/* ---- operands as matrices ---------------------------------------------------------------------------------------- */
static void exchange(int64_t *a, int64_t *b) {
    const int64_t kept = *a;
    *a = *b;
    *b = kept;
}

static void drop_batch_axis(hd_product_matrices *p, int axis) {
    p->batch_rank--;
    for (int i = axis; i < p->batch_rank; ++i) {
        p->batch_size[i] = p->batch_size[i + 1];
        p->a_batch[i] = p->a_batch[i + 1];
        p->b_batch[i] = p->b_batch[i + 1];
    }
}

/* Batch axes that both operands walk in one go are one; the last is more rows when all its matrices meet the same B. */
static void join_batches(hd_product_numbers *p) {
    hd_product_matrices *s = &p->matrices;
    for (int i = (int)s->batch_rank - 1; i >= 0; --i)
        if (s->batch_size[i] == 1) drop_batch_axis(s, i);
    while (s->batch_rank > 0) {
        const int last = (int)s->batch_rank - 1;
        if (s->b_batch[last] != 0 || (p->m > 1 && s->a_batch[last] != p->m * p->a_row)) break;
        if (p->m == 1) p->a_row = s->a_batch[last];
        p->m *= s->batch_size[last];
        s->batch_rank--;
    }
    for (int i = (int)s->batch_rank - 1; i > 0; --i) {
        if (s->a_batch[i - 1] != s->a_batch[i] * s->batch_size[i] ||
            s->b_batch[i - 1] != s->b_batch[i] * s->batch_size[i])
            continue;
        s->batch_size[i] *= s->batch_size[i - 1];
        drop_batch_axis(s, i - 1);
    }
}

/* A [..., m, k] and B [..., k, n] through their strides; of affine, x is A and the weight is B, transposed. */
void hd_gpu_describe_matrices(const hd_call *call, hd_product_numbers *p) {
    const bool is_affine = call->op->lower == HD_LOWER_AFFINE;
    const hd_matmul_attributes *given = is_affine ? NULL : call->attributes;
    hd_layout a = call->inputs[0]->layout, b = call->inputs[1]->layout;
    hd_shape out = call->shape[0];
    if (a.shape.rank == 1) { /* affine of a vector */
        a.shape = HD_SHAPE(1, a.shape.size[0]);
        a.stride[1] = a.stride[0];
        out = HD_SHAPE(1, out.size[0]);
    }
    const int rank = out.rank, last_a = a.shape.rank - 1, last_b = b.shape.rank - 1;
    if (given != NULL && given->transpose_a) {
        exchange(&a.shape.size[last_a - 1], &a.shape.size[last_a]);
        exchange(&a.stride[last_a - 1], &a.stride[last_a]);
    }
    if (is_affine || (given != NULL && given->transpose_b)) {
        exchange(&b.shape.size[last_b - 1], &b.shape.size[last_b]);
        exchange(&b.stride[last_b - 1], &b.stride[last_b]);
    }
    hd_product_matrices *s = &p->matrices;
    p->m = out.size[rank - 2];
    p->n = p->columns = out.size[rank - 1];
    p->k = a.shape.size[last_a];
    hd_shape a_shape = out, b_shape = out;
    int64_t a_stride[HD_MAX_RANK], b_stride[HD_MAX_RANK];
    a_shape.size[rank - 1] = b_shape.size[rank - 2] = p->k;
    hd_layout_broadcast(&a, &a_shape, a_stride);
    hd_layout_broadcast(&b, &b_shape, b_stride);
    p->a_row = a_stride[rank - 2];
    s->a_column = a_stride[rank - 1];
    s->b_row = b_stride[rank - 2];
    s->b_column = b_stride[rank - 1];
    s->batch_rank = rank - 2;
    memcpy(s->batch_size, out.size, (size_t)s->batch_rank * sizeof *s->batch_size);
    memcpy(s->a_batch, a_stride, (size_t)s->batch_rank * sizeof *s->a_batch);
    memcpy(s->b_batch, b_stride, (size_t)s->batch_rank * sizeof *s->b_batch);
    join_batches(p);
    p->batches = 1;
    for (int i = 0; i < s->batch_rank; ++i) p->batches *= s->batch_size[i];
    s->lines = p->m;
    s->row_line = s->column_place = 1;
}

/* The same product the other way round: few columns are few rows then, for which there are tiles. */
static void turn(hd_described_product *d) {
    hd_product_numbers *p = &d->numbers;
    hd_product_matrices *s = &p->matrices;
    d->a = 1;
    d->b = 0;
    exchange(&p->m, &p->n);
    exchange(&p->a_row, &s->b_column);
    exchange(&s->a_column, &s->b_row);
    exchange(&s->row_line, &s->column_line);
    exchange(&s->row_place, &s->column_place);
    for (int i = 0; i < s->batch_rank; ++i) exchange(&s->a_batch[i], &s->b_batch[i]);
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */
enum { FEW_ROWS = 8, PIECE_LEAST = 256, PIECES_MOST = 64, ENOUGH = 2 /* groups for each processor */ };
typedef hd_product_tile tile;
static const tile large = {128, 128, 16, 8, 8}, plain = {64, 64, 8, 8, 8}, rows = {FEW_ROWS, 64, 32, FEW_ROWS, 1},
                  row = {1, 64, 32, 1, 1};

static int64_t pieces_of(int64_t n, int64_t of) { return (n + of - 1) / of; }
static int64_t tiles_in(const hd_product_numbers *p, const tile *t) {
    return pieces_of(p->m, t->m) * pieces_of(p->n, t->n) * p->batches;
}
static uint32_t threads_of(const tile *t, hd_product_multiply multiply) {
    return (uint32_t)(t->m / t->per_m * (t->n / t->per_n)) * (multiply == HD_MULTIPLY_EACH ? 1 : 32);
}

/* Large tiles read least, when there are enough of them for all processors. */
static const tile *choose_tile(const hd_product_numbers *p, const hd_gpu_limits *limits, hd_dtype result) {
    if (p->m == 1) return &row;
    if (p->m <= FEW_ROWS) return &rows;
    const size_t local = (size_t)(large.k * (large.m + large.n + 8)) * 4;
    const bool fits = hd_dtype_bytes[result] < 8 && limits->group_most >= threads_of(&large, HD_MULTIPLY_EACH) &&
                      limits->local_bytes >= 2 * local; /* two groups beside each other */
    return fits && p->m > plain.m && p->n > plain.n && tiles_in(p, &large) >= ENOUGH * (int64_t)limits->processors
               ? &large
               : &plain;
}

/* Few tiles leave processors idle: then k is cut. */
static void cut_k(hd_product_numbers *p, const tile *t, const hd_gpu_limits *limits) {
    const int64_t tiles = tiles_in(p, t), enough = ENOUGH * (int64_t)limits->processors;
    int64_t pieces = tiles > 0 ? enough / tiles : 1;
    if (pieces > p->k / PIECE_LEAST) pieces = p->k / PIECE_LEAST;
    if (pieces > PIECES_MOST) pieces = PIECES_MOST;
    p->k_piece = p->k;
    p->k_pieces = 1;
    if (pieces < 2) return;
    p->k_piece = pieces_of(pieces_of(p->k, pieces), t->k) * t->k;
    p->k_pieces = pieces_of(p->k, p->k_piece);
}

/* True when positions and offsets fit into 32 bits. */
static bool are_narrow(const hd_product_numbers *p) {
    const hd_product_matrices *s = &p->matrices;
    const double most = (double)(1 << 30);
    double a = hd_reach(p->m, p->a_row) + hd_reach(p->k, s->a_column),
           b = hd_reach(p->k, s->b_row) + hd_reach(p->n, s->b_column);
    for (int i = 0; i < s->batch_rank; ++i) {
        a += hd_reach(s->batch_size[i], s->a_batch[i]);
        b += hd_reach(s->batch_size[i], s->b_batch[i]);
    }
    return a < most && b < most;
}
static bool is_narrow(const hd_product_numbers *p, hd_product_form form) {
    const double most = (double)(1 << 30);
    return (form == HD_PRODUCT_MATRICES ? are_narrow(p) : hd_gpu_conv_is_narrow(p)) && (double)p->k < most &&
           (double)p->batches * (double)p->m * (double)p->n * (double)p->k_pieces < most;
}

/* Neighbours in memory are rather those across k. */
static bool lies_across(int64_t along, int64_t across, int64_t count) {
    return count > 1 && (across == 1 || (along != 1 && hd_reach(1, across) < hd_reach(1, along)));
}

static size_t sum_bytes(hd_dtype result) { return hd_dtype_bytes[result] == 8 ? 8 : 4; }

static hd_product_form describe_operands(const hd_call *call, hd_described_product *out) {
    if (call->op->family == HD_FAMILY_CONV) return hd_gpu_describe_conv(call, out);
    hd_product_numbers *p = &out->numbers;
    out->b = 1;
    hd_gpu_describe_matrices(call, p);
    if (p->n <= FEW_ROWS && p->n < p->m) turn(out);
    p->a_lies_down = lies_across(p->matrices.a_column, p->a_row, p->m);
    p->b_lies_down = !lies_across(p->matrices.b_row, p->matrices.b_column, p->n);
    return HD_PRODUCT_MATRICES;
}

void hd_gpu_tile_product(hd_described_product *out, const hd_product_tile *t, const hd_gpu_limits *limits) {
    hd_product_numbers *p = &out->numbers;
    const bool each = out->multiply == HD_MULTIPLY_EACH;
    p->tiles_m = pieces_of(p->m, t->m);
    p->tiles_n = pieces_of(p->n, t->n);
    cut_k(p, t, limits);
    out->threads = threads_of(t, out->multiply);
    out->part_bytes = p->k_pieces > 1 ? (size_t)(p->k_pieces * p->batches * p->m * p->n) * out->sum_bytes : 0;
    const int32_t numbers[HD_TEMPLATE_NUMBERS] = {
        out->form,
        t->m,
        t->n,
        t->k,
        t->per_m,
        t->per_n,
        each ? is_narrow(p, out->form) : (int32_t)out->multiply,
        each ? 0 : (int32_t)p->b_lies_down /* as only a weight's gradient does: its columns walk through the taps */};
    memcpy(out->use.numbers, numbers, sizeof numbers);
}

void hd_gpu_describe_product(const hd_gpu_device *d, const hd_call *call, hd_described_product *out) {
    memset(out, 0, sizeof *out);
    hd_product_numbers *p = &out->numbers;
    const hd_gpu_limits *limits = d->gpu->limits(d->device.index);
    const hd_product_form form = out->form = describe_operands(call, out);
    out->number_bytes =
        offsetof(hd_product_numbers, matrices) + (form == HD_PRODUCT_MATRICES ? sizeof p->matrices : sizeof p->windows);
    out->sum_bytes = sum_bytes(call->dtype[0]);
    const hd_tensor *bias = call->input_count > 2 ? call->inputs[2] : NULL;
    p->has_bias = bias != NULL;
    p->bias_stride = bias != NULL && bias->layout.shape.size[0] > 1 ? bias->layout.stride[0] : 0;
    const int32_t result = (int32_t)call->dtype[0];
    out->multiply = form == HD_PRODUCT_MATRICES ? HD_MULTIPLY_EACH : hd_gpu_conv_multiply(d, call, out);
    out->use = (hd_template_use){.which = out->multiply == HD_MULTIPLY_EACH ? HD_TEMPLATE_product : HD_TEMPLATE_conv,
                                 .types = {result, call->inputs[out->a]->dtype, call->inputs[out->b]->dtype,
                                           bias != NULL ? (int32_t)bias->dtype : result}};
    if (out->multiply > HD_MULTIPLY_F32 && hd_gpu_conv_image(out, NULL, limits)) return;
    hd_gpu_tile_product(out,
                        out->multiply == HD_MULTIPLY_EACH ? choose_tile(p, limits, call->dtype[0])
                                                          : hd_gpu_conv_tile(out, out->multiply, limits),
                        limits);
}

hd_dtype hd_gpu_tile_dtype(hd_dtype result) { return (hd_dtype)hd_compute_dtype[hd_dtype_compute[result]]; }
int hd_gpu_tile_columns(hd_dtype dtype) { return (void)dtype, plain.n; }
