/* Contractions: matmul and affine as products of matrices, batch by batch. */
#include "core/pool.h"
#include "device/cpu/cpu.h"
#include "device/cpu/gemm.h"
#include "device/cpu/sizes.h"

#include <string.h>

typedef hd_gemm product;

/* True when its numbers are those of an i16, or at least their lower bits are when no more of the result are kept. */
static bool is_in_pairs(hd_dtype operand, hd_dtype result) {
    return hd_kernels()->gemm_pairs.from[operand].bytes > 0 && (operand != HD_U16 || hd_dtype_bytes[result] <= 2);
}

/* The matrix unit's kernels for such operands; NULL: it has none. */
static const hd_gemm_kernels *unit_for(hd_dtype a, hd_dtype b) {
    const hd_gemm_kernels *halves = &hd_kernels()->gemm_halves, *parts = &hd_kernels()->gemm_parts;
    return halves->from[a].bytes > 0 && halves->from[b].bytes > 0 ? halves
           : parts->from[a].bytes > 0 && parts->from[b].bytes > 0 ? parts
                                                                  : NULL;
}

/* ---- the call: operands [batch..., m, k] and [batch..., k, n] ---------------------------------------------------- */
typedef struct batch_job {
    hd_thread *thread;
    product first;
    int rank; /* batch axes */
    int64_t size[HD_MAX_RANK], a_stride[HD_MAX_RANK], b_stride[HD_MAX_RANK];
    int64_t count, pieces; /* matrices, and how many threads may share them out, each with a workspace of its own */
    size_t piece_bytes;    /* of the workspace of a piece */
} batch_job;

static hd_error multiply_matrix(const batch_job *j, int64_t index, char *workspace) {
    product p = j->first;
    if (p.c != NULL) p.c += (size_t)(index * p.m * p.n) * p.kernels->bytes;
    p.first_row = index * p.m;
    for (int i = j->rank - 1; i >= 0; --i) {
        if (p.prologue == NULL) p.a += index % j->size[i] * j->a_stride[i] * (int64_t)p.from_a->bytes;
        p.b += index % j->size[i] * j->b_stride[i] * (int64_t)p.from_b->bytes;
        index /= j->size[i];
    }
    p.workspace = workspace;
    p.workspace_bytes = workspace == NULL ? 0 : j->piece_bytes;
    return hd_gemm_run(j->thread, &p);
}

static void run_small_batch(void *context, int64_t begin,
                            int64_t end) { /* small products need no memory: they cannot fail */
    for (int64_t i = begin; i < end; ++i) multiply_matrix(context, i, NULL);
}
static void run_contract_piece(void *context, int64_t piece) { /* nor when they have a workspace */
    const batch_job *j = context;
    char *workspace = j->first.workspace + (size_t)piece * j->piece_bytes;
    for (int64_t i = j->count * piece / j->pieces; i < j->count * (piece + 1) / j->pieces; ++i)
        multiply_matrix(j, i, workspace);
}

/* The kernels that it has, of the vector unit, or those of the matrix unit, which reads nothing that is not packed. */
static const hd_gemm_kernels *kernels_for(const product *p, hd_product_config config, hd_dtype a, hd_dtype b) {
    const hd_gemm_kernels *unit = p->kernels == &hd_kernels()->gemm_f32 ? unit_for(a, b) : NULL;
    if (unit == NULL || config.unit == HD_UNIT_VECTOR) return p->kernels;
    return (config.unit == HD_UNIT_MATRIX ? hd_gemm_wants_packing(p) : hd_gemm_suits(p, unit)) ? unit : p->kernels;
}

/* A [..., m, k] B [..., k, n]: all but the addresses. */
static void describe_contract(const hd_tensor *a, const hd_tensor *b, const hd_tensor *out, hd_product_config config,
                              batch_job *j) {
    const int rank = out->layout.shape.rank, last = rank - 1;
    *j = (batch_job){.rank = rank - 2};
    hd_shape a_shape = out->layout.shape, b_shape = out->layout.shape; /* with the batch axes broadcast */
    a_shape.size[last] = b_shape.size[last - 1] = a->layout.shape.size[a->layout.shape.rank - 1];
    hd_layout_broadcast(&a->layout, &a_shape, j->a_stride);
    hd_layout_broadcast(&b->layout, &b_shape, j->b_stride);
    memcpy(j->size, out->layout.shape.size, sizeof j->size);
    product *p = &j->first;
    *p = (product){.m = a_shape.size[last - 1],
                   .n = b_shape.size[last],
                   .k = a_shape.size[last],
                   .a_row = j->a_stride[last - 1],
                   .a_column = j->a_stride[last],
                   .b_row = j->b_stride[last - 1],
                   .b_column = j->b_stride[last],
                   .kernels = hd_gemm_kernels_for((hd_dtype)out->dtype)};
    if (p->n == 1) p->b_column = 1;
    if (p->k == 1) p->a_column = 1;
    const hd_dtype result = (hd_dtype)out->dtype;
    if (p->kernels == &hd_kernels()->gemm_u32 && is_in_pairs((hd_dtype)a->dtype, result) &&
        is_in_pairs((hd_dtype)b->dtype, result) && hd_gemm_wants_packing(p))
        p->kernels = &hd_kernels()->gemm_pairs;
    p->kernels = kernels_for(p, config, (hd_dtype)a->dtype, (hd_dtype)b->dtype);
    p->k_block = config.k_block > 0 ? config.k_block : p->kernels->k_block;
    p->share = (hd_product_share)config.share;
    p->from_a = &p->kernels->from[a->dtype];
    p->from_b = &p->kernels->from[b->dtype];
    const int64_t matrix = p->m * p->n;
    j->count = matrix > 0 ? out->count / matrix : 0;
}

/* Small products with `epilogue` are shared out, each thread with a workspace of its own; large ones take all threads
 * each. */
static size_t cut_batch(batch_job *j) {
    const int64_t work = hd_gemm_work(j->first.m, j->first.n, j->first.k), threads = hd_pool_threads();
    const bool shares = work <= HD_GEMM_SMALL && threads > 1 && j->count > 0 &&
                        hd_gemm_work(j->count, hd_gemm_cost(&j->first), 1) >= HD_GEMM_PARALLEL;
    j->pieces = shares ? (j->count < 4 * threads ? j->count : 4 * threads) : 1;
    j->piece_bytes = hd_gemm_workspace_bytes(&j->first);
    if (j->piece_bytes == SIZE_MAX) return SIZE_MAX;
    j->piece_bytes = hd_whole_lines(j->piece_bytes);
    return j->piece_bytes * (size_t)j->pieces;
}

static hd_error run_with_epilogue(hd_thread *thread, batch_job *j) {
    size_t needed = cut_batch(j);
    if (j->first.workspace != NULL && needed > j->first.workspace_bytes) { /* more threads than when it was made */
        j->pieces = 1;
        needed = j->piece_bytes;
    }
    hd_block *block = NULL;
    if (j->pieces > 1 && j->first.workspace == NULL) {
        block = hd_block_new(thread, needed);
        if (block == NULL) return HD_ERROR_MEMORY;
        j->first.workspace = hd_block_data(block);
    }
    hd_error status = HD_OK;
    if (j->pieces > 1) {
        hd_parallel(j->pieces, run_contract_piece, j);
    } else {
        j->piece_bytes = j->first.workspace_bytes;
        for (int64_t i = 0; i < j->count && status == HD_OK; ++i) status = multiply_matrix(j, i, j->first.workspace);
    }
    if (block != NULL) hd_block_release(thread, block);
    return status;
}

static hd_error run_batch(hd_thread *thread, const hd_tensor *a, const hd_tensor *b, batch_job *j) {
    j->thread = thread;
    if (j->first.prologue == NULL && (j->first.a = hd_tensor_bytes(thread, a, HD_READ)) == NULL)
        return thread->error_code;
    if (j->first.packed_b == NULL && (j->first.b = hd_tensor_bytes(thread, b, HD_READ)) == NULL)
        return thread->error_code;
    const product *p = &j->first;
    if (p->epilogue != NULL) return run_with_epilogue(thread, j);
    const int64_t work = hd_gemm_work(p->m, p->n, p->k);
    if (j->count > 1 && work <= HD_GEMM_SMALL && p->b_column == 1) { /* small products need no memory */
        hd_parallel_range(j->count, HD_GEMM_PARALLEL / (work > 0 ? work : 1) + 1, run_small_batch, j);
        return HD_OK;
    }
    for (int64_t i = 0; i < j->count; ++i) HD_TRY(multiply_matrix(j, i, NULL));
    return HD_OK;
}

/* Into memory; `bias` is one for each column, or NULL. */
static hd_error contract(hd_thread *thread, const hd_tensor *a, const hd_tensor *b, const hd_tensor *bias,
                         hd_tensor *out) {
    batch_job j;
    describe_contract(a, b, out, (hd_product_config){0}, &j);
    const hd_dtype dtype = (hd_dtype)out->dtype;
    hd_plain_epilogue f = {.dtype = dtype, .columns = j.first.n, .out = out->storage->data};
    if (bias != NULL) {
        f.bias = hd_tensor_bytes(thread, bias, HD_READ);
        f.bias_dtype = (hd_dtype)bias->dtype;
        if (f.bias == NULL) return thread->error_code;
    }
    const bool converts_a = a->dtype != hd_cpu_product_dtype(dtype) && !hd_gemm_wants_packing(&j.first);
    if (dtype != hd_cpu_product_dtype(dtype) || converts_a || (bias != NULL && bias->dtype != dtype)) {
        j.first.epilogue = hd_cpu_product_store;
        j.first.context = &f;
        return run_batch(thread, a, b, &j);
    }
    j.first.c = out->storage->data;
    HD_TRY(run_batch(thread, a, b, &j));
    const int64_t n = j.first.n;
    if (bias != NULL && n == 1) /* a column */
        hd_gemm_kernels_for(dtype)->add_rows(f.out, 0, f.out, 0, f.bias, true, 1, out->count);
    else if (bias != NULL)
        hd_gemm_kernels_for(dtype)->add_rows(f.out, n, f.out, n, f.bias, false, out->count / n, n);
    return HD_OK;
}

/* x [..., k], weight [n, k] and the result as the matrices that contract() takes; x must be contiguous. */
static hd_tensor as_matrix(const hd_tensor *t, int64_t rows, int64_t columns, int64_t row, int64_t column) {
    return (hd_tensor){
        .storage = t->storage,
        .dtype = t->dtype,
        .count = rows * columns,
        .layout = {.shape = HD_SHAPE(rows, columns), .stride = {row, column}, .offset = t->layout.offset}};
}

static void exchange_last_axes(hd_layout *layout) {
    const int a = layout->shape.rank - 2, b = layout->shape.rank - 1;
    const int64_t size = layout->shape.size[a], stride = layout->stride[a];
    layout->shape.size[a] = layout->shape.size[b];
    layout->stride[a] = layout->stride[b];
    layout->shape.size[b] = size;
    layout->stride[b] = stride;
}

static hd_tensor as_given(const hd_tensor *t, bool transposed) {
    hd_tensor out = {.storage = t->storage, .dtype = t->dtype, .count = t->count, .layout = t->layout};
    if (transposed) exchange_last_axes(&out.layout);
    return out;
}

/* Of the two kinds of products of matrices, as its row says. */
static bool is_affine(const hd_call *call) { return call->op->lower == HD_LOWER_AFFINE; }

/* The two operands and the result of a call of matmul or affine as contract() takes them; x of affine must be
 * contiguous. */
static void as_operands(const hd_call *call, const hd_tensor *x, const hd_tensor *weight, hd_tensor *a, hd_tensor *b,
                        hd_tensor *c) {
    const hd_tensor *out = call->outputs[0];
    if (is_affine(call)) {
        const int64_t n = weight->layout.shape.size[0], k = weight->layout.shape.size[1],
                      m = n > 0 ? out->count / n : 0;
        *a = as_matrix(x, m, k, k, 1);
        *b = as_matrix(weight, k, n, weight->layout.stride[1], weight->layout.stride[0]);
        *c = as_matrix(out, m, n, n, 1);
    } else {
        const hd_matmul_attributes *given = call->attributes;
        *a = as_given(x, given != NULL && given->transpose_a);
        *b = as_given(weight, given != NULL && given->transpose_b);
        *c = as_given(out, false);
    }
}

hd_error hd_contract_product(hd_thread *thread, const hd_product *given) {
    const hd_call *call = given->call;
    if (call->outputs[0]->count == 0) return HD_OK;
    hd_tensor *x = call->inputs[0], *ready = NULL, a, b, c;
    if (is_affine(call) && !x->contiguous) x = ready = hd_cpu_ready(thread, x, (hd_dtype)x->dtype);
    if (x == NULL) return thread->error_code;
    as_operands(call, x, call->inputs[1], &a, &b, &c);
    batch_job j;
    describe_contract(&a, &b, &c, given->config, &j);
    j.first.epilogue = given->epilogue;
    j.first.context = given->context;
    j.first.prologue = given->prologue;
    j.first.prologue_context = given->prologue_context;
    j.first.packed_b = given->packed;
    j.first.workspace = given->workspace;
    j.first.workspace_bytes = given->workspace_bytes;
    const hd_error status = run_batch(thread, &a, &b, &j);
    hd_tensor_drop(thread, ready);
    return status;
}

size_t hd_contract_product_workspace(const hd_product *given) {
    hd_tensor a, b, c;
    batch_job j;
    if (given->call->outputs[0]->count == 0) return 0;
    as_operands(given->call, given->call->inputs[0], given->call->inputs[1], &a, &b, &c);
    describe_contract(&a, &b, &c, given->config, &j);
    j.first.packed_b = given->packed;
    j.first.prologue = given->prologue;
    return cut_batch(&j);
}

int64_t hd_contract_product_pieces(const hd_product *given) {
    hd_tensor a, b, c;
    batch_job j;
    as_operands(given->call, given->call->inputs[0], given->call->inputs[1], &a, &b, &c);
    describe_contract(&a, &b, &c, given->config, &j);
    j.first.packed_b = given->packed;
    cut_batch(&j);
    if (j.pieces > 1) return j.pieces;
    const bool packs = j.first.k > 0 && (given->packed != NULL || hd_gemm_wants_packing(&j.first));
    /* where nothing is packed, each part of it costs that much */
    return hd_gemm_cost(&j.first) >= HD_GEMM_PARALLEL * (packs ? 1 : 2) ? hd_pool_threads() : 1;
}

bool hd_contract_product_configs_differ(const hd_product *given, hd_product_config other) {
    hd_tensor a, b, c;
    batch_job j, as_other;
    as_operands(given->call, given->call->inputs[0], given->call->inputs[1], &a, &b, &c);
    describe_contract(&a, &b, &c, given->config, &j);
    describe_contract(&a, &b, &c, other, &as_other);
    j.first.packed_b = as_other.first.packed_b = given->packed;
    return hd_gemm_configs_differ(&j.first, &as_other.first);
}

size_t hd_contract_product_packed_bytes(const hd_call *call, hd_product_config config) {
    hd_tensor a, b, c;
    batch_job j;
    if (call->outputs[0]->count == 0) return 0;
    as_operands(call, call->inputs[0], call->inputs[1], &a, &b, &c);
    if (b.layout.shape.rank > 2) return 0;
    describe_contract(&a, &b, &c, config, &j);
    return j.first.k > 0 && hd_gemm_wants_packed(&j.first) ? hd_gemm_packed_bytes(&j.first) : 0;
}

hd_error hd_contract_product_pack(hd_thread *thread, const hd_call *call, hd_product_config config, void *out) {
    hd_tensor a, b, c;
    batch_job j;
    as_operands(call, call->inputs[0], call->inputs[1], &a, &b, &c);
    describe_contract(&a, &b, &c, config, &j);
    j.first.b = hd_tensor_bytes(thread, &b, HD_READ);
    if (j.first.b == NULL) return thread->error_code;
    hd_gemm_pack(&j.first, out);
    return HD_OK;
}

bool hd_contract_product_packs_alike(const hd_call *call, hd_product_config config, const hd_call *other,
                                     hd_product_config other_config) {
    hd_tensor a, b, c, other_a, other_b, other_c;
    batch_job j, as_other;
    if (call->outputs[0]->count == 0 || other->outputs[0]->count == 0) return false;
    as_operands(call, call->inputs[0], call->inputs[1], &a, &b, &c);
    as_operands(other, other->inputs[0], other->inputs[1], &other_a, &other_b, &other_c);
    if (b.layout.shape.rank > 2 || other_b.layout.shape.rank > 2 || b.layout.offset != other_b.layout.offset)
        return false;
    describe_contract(&a, &b, &c, config, &j);
    describe_contract(&other_a, &other_b, &other_c, other_config, &as_other);
    return hd_gemm_packs_alike(&j.first, &as_other.first);
}

bool hd_contract_product_packs_in_place(const hd_call *call, hd_product_config config, hd_packed_matrix *out) {
    hd_tensor a, b, c;
    batch_job j;
    as_operands(call, call->inputs[0], call->inputs[1], &a, &b, &c);
    if (b.layout.shape.rank > 2 || b.layout.offset != 0) return false;
    describe_contract(&a, &b, &c, config, &j);
    return hd_gemm_packs_in_place(&j.first, out) && out->bytes * (size_t)b.count == b.storage->bytes;
}

/* ---- the op ------------------------------------------------------------------------------------------------------ */
static hd_error run_contract(hd_thread *thread, hd_call *call) {
    HD_TRY(hd_cpu_outputs(thread, call));
    hd_tensor *out = call->outputs[0], *in[3] = {NULL}, *ready[3] = {NULL};
    if (out->count == 0) return HD_OK;
    const hd_dtype dtype = (hd_dtype)out->dtype;
    hd_error status = HD_OK;
    for (int i = 0; i < call->input_count && status == HD_OK; ++i) {
        in[i] = call->inputs[i]; /* a copy of what products do not read, and of rows that are not one matrix */
        const bool reads = hd_cpu_product_reads(dtype, (hd_dtype)in[i]->dtype);
        if (!reads || (is_affine(call) && i != 1 && !in[i]->contiguous))
            in[i] = ready[i] =
                hd_cpu_ready(thread, in[i], reads ? (hd_dtype)in[i]->dtype : hd_cpu_product_dtype(dtype));
        if (in[i] == NULL) status = thread->error_code;
    }
    hd_tensor a, b, c;
    if (status == HD_OK) {
        as_operands(call, in[0], in[1], &a, &b, &c);
        status = contract(thread, &a, &b, in[2], &c);
    }
    for (int i = 0; i < 3; ++i) hd_tensor_drop(thread, ready[i]);
    if (status != HD_OK) hd_cpu_drop_outputs(thread, call);
    return status;
}

hd_error hd_cpu_matmul(hd_thread *thread, hd_call *call) { return run_contract(thread, call); }
hd_error hd_cpu_affine(hd_thread *thread, hd_call *call) { return run_contract(thread, call); }
