/* Contractions: matmul and affine as products of matrices, batch by batch. */
#include "device/cpu/cpu.h"
#include "device/cpu/gemm.h"
#include "kernel/words_c.h"

#include <string.h>

typedef hd_gemm product;

/* ---- integers and bool: plain loops ------------------------------------------------------------------------------------------ */
#define INTEGER_CASE(NAME, t)                                                                                          \
    case HD_COMPUTE_##NAME:                                                                                            \
        for (int64_t i = 0; i < p->m; ++i) {                                                                           \
            c_##t *c = (c_##t *)p->c + i * p->n;                                                                       \
            memset(c, 0, (size_t)p->n * sizeof *c);                                                                    \
            for (int64_t q = 0; q < p->k; ++q) {                                                                       \
                const c_##t x = ((const c_##t *)p->a)[i * p->a_row + q * p->a_column];                                 \
                const c_##t *b = (const c_##t *)p->b + q * p->b_row;                                                   \
                for (int64_t j = 0; j < p->n; ++j) c[j] = w_add_##t(c[j], w_mul_##t(x, b[j * p->b_column]));           \
            }                                                                                                          \
        }                                                                                                              \
        break;
static void multiply_integers(const product *p, hd_compute type) {
    switch (type) {
        INTEGER_CASE(U8, u8)
        INTEGER_CASE(U16, u16)
        INTEGER_CASE(U32, u32)
        INTEGER_CASE(U64, u64)
        INTEGER_CASE(I8, i8)
        INTEGER_CASE(I16, i16)
        INTEGER_CASE(I32, i32)
        INTEGER_CASE(I64, i64)
    case HD_COMPUTE_B8:
    case HD_COMPUTE_F32:
    case HD_COMPUTE_F64:
    case HD_COMPUTE_COUNT: break;
    }
}

/* ---- the call: operands [batch..., m, k] and [batch..., k, n] of one dtype --------------------------------------------------------- */
typedef struct batch_job {
    hd_thread *thread;
    product first;
    hd_compute type;
    int rank; /* batch axes */
    int64_t size[HD_MAX_RANK], a_stride[HD_MAX_RANK], b_stride[HD_MAX_RANK];
} batch_job;

static hd_error multiply_matrix(const batch_job *j, int64_t index) {
    product p = j->first;
    if (p.c != NULL) p.c += (size_t)(index * p.m * p.n) * p.bytes;
    p.first_row = index * p.m;
    for (int i = j->rank - 1; i >= 0; --i) {
        p.a += index % j->size[i] * j->a_stride[i] * (int64_t)p.bytes;
        p.b += index % j->size[i] * j->b_stride[i] * (int64_t)p.bytes;
        index /= j->size[i];
    }
    if (p.kernels != NULL) return hd_gemm_run(j->thread, &p);
    multiply_integers(&p, j->type);
    return HD_OK;
}

static void run_small_batch(void *context, int64_t begin,
                            int64_t end) { /* small products need no memory: they cannot fail */
    for (int64_t i = begin; i < end; ++i) multiply_matrix(context, i);
}

/* A [..., m, k] B [..., k, n]: all but the addresses. */
static void describe(const hd_tensor *a, const hd_tensor *b, const hd_tensor *out, batch_job *j) {
    const int rank = out->layout.shape.rank, last = rank - 1;
    *j = (batch_job){.type = (hd_compute)hd_dtype_compute[out->dtype], .rank = rank - 2};
    hd_shape a_shape = out->layout.shape, b_shape = out->layout.shape; /* with the batch axes broadcast */
    a_shape.size[last] = b_shape.size[last - 1] = a->layout.shape.size[a->layout.shape.rank - 1];
    hd_layout_broadcast(&a->layout, &a_shape, j->a_stride);
    hd_layout_broadcast(&b->layout, &b_shape, j->b_stride);
    memcpy(j->size, out->layout.shape.size, sizeof j->size);
    j->first = (product){.bytes = hd_dtype_bytes[out->dtype],
                         .m = a_shape.size[last - 1],
                         .n = b_shape.size[last],
                         .k = a_shape.size[last],
                         .a_row = j->a_stride[last - 1],
                         .a_column = j->a_stride[last],
                         .b_row = j->b_stride[last - 1],
                         .b_column = j->b_stride[last],
                         .kernels = out->dtype == HD_F32   ? &hd_kernels()->gemm_f32
                                    : out->dtype == HD_F64 ? &hd_kernels()->gemm_f64
                                                           : NULL};
    if (j->first.n == 1) j->first.b_column = 1;
    if (j->first.k == 1) j->first.a_column = 1;
}

static hd_error run_batch(hd_thread *thread, const hd_tensor *a, const hd_tensor *b, const hd_tensor *out,
                          batch_job *j) {
    j->thread = thread;
    j->first.a = hd_tensor_bytes(thread, a, HD_READ);
    j->first.b = hd_tensor_bytes(thread, b, HD_READ);
    if (j->first.a == NULL || j->first.b == NULL) return thread->error_code;
    const product *p = &j->first;
    const int64_t matrix = p->m * p->n, batch = matrix > 0 ? out->count / matrix : 0,
                  work = hd_gemm_work(p->m, p->n, p->k);
    /* small products need no memory, unless they are finished aside */
    if (batch > 1 && work <= HD_GEMM_SMALL && p->finish == NULL && (p->b_column == 1 || p->kernels == NULL)) {
        hd_parallel_range(batch, HD_GEMM_PARALLEL / (work > 0 ? work : 1) + 1, run_small_batch, j);
        return HD_OK;
    }
    for (int64_t i = 0; i < batch; ++i) HD_TRY(multiply_matrix(j, i));
    return HD_OK;
}

static hd_error contract(hd_thread *thread, const hd_tensor *a, const hd_tensor *b, hd_tensor *out) {
    batch_job j;
    describe(a, b, out, &j);
    j.first.c = out->storage->data;
    return run_batch(thread, a, b, out, &j);
}

/* x [..., k], weight [n, k] and the result as the matrices that contract() takes; x must be contiguous. */
static hd_tensor as_matrix(const hd_tensor *t, int64_t rows, int64_t columns, int64_t row, int64_t column) {
    return (hd_tensor){
        .storage = t->storage,
        .dtype = t->dtype,
        .count = rows * columns,
        .layout = {.shape = HD_SHAPE(rows, columns), .stride = {row, column}, .offset = t->layout.offset}};
}

static hd_error affine(hd_thread *thread, hd_tensor *x, hd_tensor *weight, const hd_tensor *bias, hd_tensor *out) {
    const int64_t n = weight->layout.shape.size[0], k = weight->layout.shape.size[1], m = out->count / n;
    const hd_tensor a = as_matrix(x, m, k, k, 1),
                    b = as_matrix(weight, k, n, weight->layout.stride[1], weight->layout.stride[0]);
    hd_tensor c = as_matrix(out, m, n, n, 1);
    HD_TRY(contract(thread, &a, &b, &c));
    const void *values = bias == NULL ? NULL : hd_tensor_bytes(thread, bias, HD_READ);
    if (bias == NULL) return HD_OK;
    if (values == NULL) return thread->error_code;
    const hd_gemm_kernels *kernels = out->dtype == HD_F32 ? &hd_kernels()->gemm_f32 : &hd_kernels()->gemm_f64;
    kernels->add_row(out->storage->data, values, m, n);
    return HD_OK;
}

static void exchange_last_axes(hd_layout *layout) {
    const int a = layout->shape.rank - 2, b = layout->shape.rank - 1;
    const int64_t size = layout->shape.size[a], stride = layout->stride[a];
    layout->shape.size[a] = layout->shape.size[b];
    layout->stride[a] = layout->stride[b];
    layout->shape.size[b] = size;
    layout->stride[b] = stride;
}

static hd_tensor as_given(const hd_tensor *t, bool turned) {
    hd_tensor out = {.storage = t->storage, .dtype = t->dtype, .count = t->count, .layout = t->layout};
    if (turned) exchange_last_axes(&out.layout);
    return out;
}

/* The two operands and the result of a call of matmul or affine as contract() takes them; x of affine must be contiguous. */
static void as_operands(const hd_call *call, const hd_tensor *x, hd_tensor *a, hd_tensor *b, hd_tensor *c) {
    const hd_tensor *weight = call->inputs[1], *out = call->outputs[0];
    if (call->op->id == HD_OP_affine) {
        const int64_t n = weight->layout.shape.size[0], k = weight->layout.shape.size[1],
                      m = n > 0 ? out->count / n : 0;
        *a = as_matrix(x, m, k, k, 1);
        *b = as_matrix(weight, k, n, weight->layout.stride[1], weight->layout.stride[0]);
        *c = as_matrix(out, m, n, n, 1);
    } else {
        const hd_matmul_attributes *turns = call->attributes;
        *a = as_given(x, turns != NULL && turns->turn_a);
        *b = as_given(weight, turns != NULL && turns->turn_b);
        *c = as_given(out, false);
    }
}

hd_error hd_contract_product(hd_thread *thread, const hd_product *given) {
    const hd_call *call = given->call;
    if (call->outputs[0]->count == 0) return HD_OK;
    hd_tensor *x = call->inputs[0], *ready = NULL, a, b, c;
    if (call->op->id == HD_OP_affine && !x->contiguous) x = ready = hd_cpu_ready(thread, x, (hd_dtype)x->dtype);
    if (x == NULL) return thread->error_code;
    as_operands(call, x, &a, &b, &c);
    batch_job j;
    describe(&a, &b, &c, &j);
    j.first.finish = given->finish;
    j.first.context = given->context;
    j.first.packed_b = given->packed;
    j.first.room = given->room;
    j.first.room_bytes = given->room_bytes;
    const hd_error status = run_batch(thread, &a, &b, &c, &j);
    hd_tensor_drop(thread, ready);
    return status;
}

size_t hd_contract_product_room(const hd_product *given) {
    hd_tensor a, b, c;
    batch_job j;
    if (given->call->outputs[0]->count == 0) return 0;
    as_operands(given->call, given->call->inputs[0], &a, &b, &c);
    describe(&a, &b, &c, &j);
    j.first.packed_b = given->packed;
    return hd_gemm_room(&j.first);
}

size_t hd_contract_product_packed_bytes(const hd_call *call) {
    hd_tensor a, b, c;
    batch_job j;
    if (call->outputs[0]->count == 0) return 0;
    as_operands(call, call->inputs[0], &a, &b, &c);
    if (b.layout.shape.rank > 2) return 0;
    describe(&a, &b, &c, &j);
    return j.first.k > 0 && hd_gemm_wants_packing(&j.first) ? hd_gemm_packed_bytes(&j.first) : 0;
}

hd_error hd_contract_product_pack(hd_thread *thread, const hd_call *call, void *out) {
    hd_tensor a, b, c;
    batch_job j;
    as_operands(call, call->inputs[0], &a, &b, &c);
    describe(&a, &b, &c, &j);
    j.first.b = hd_tensor_bytes(thread, &b, HD_READ);
    if (j.first.b == NULL) return thread->error_code;
    hd_gemm_pack(&j.first, out);
    return HD_OK;
}

hd_error hd_cpu_contract(hd_thread *thread, hd_call *call) {
    HD_TRY(hd_cpu_outputs(thread, call));
    hd_tensor *out = call->outputs[0], *in[3] = {NULL}, *ready[4] = {NULL};
    if (out->count == 0) return HD_OK;
    const bool is_affine = call->op->id == HD_OP_affine;
    const hd_dtype as = (hd_dtype)hd_compute_dtype[hd_dtype_compute[out->dtype]];
    hd_error status = HD_OK;
    for (int i = 0; i < call->input_count && status == HD_OK; ++i) {
        in[i] = call->inputs[i]; /* a copy for small floats, the narrower of two dtypes, rows that are not one matrix */
        if ((hd_dtype)in[i]->dtype != as || (is_affine && i != 1 && !in[i]->contiguous))
            in[i] = ready[i] = hd_cpu_ready(thread, in[i], as);
        if (in[i] == NULL) status = thread->error_code;
    }
    const hd_matmul_attributes *turns = is_affine ? NULL : call->attributes;
    hd_tensor turned[2];
    for (int i = 0; turns != NULL && i < 2 && status == HD_OK; ++i) {
        turned[i] = as_given(in[i], i == 0 ? turns->turn_a : turns->turn_b);
        in[i] = &turned[i];
    }
    hd_tensor *c = out;
    if (status == HD_OK && (hd_dtype)out->dtype != as) c = ready[3] = hd_tensor_new(thread, as, &out->layout.shape);
    if (c == NULL) status = thread->error_code;
    if (status == HD_OK)
        status = is_affine ? affine(thread, in[0], in[1], in[2], c) : contract(thread, in[0], in[1], c);
    if (status == HD_OK && c != out) status = hd_cpu_copy(thread, out, c);
    for (int i = 0; i < 4; ++i) hd_tensor_drop(thread, ready[i]);
    if (status != HD_OK) hd_cpu_drop_outputs(thread, call);
    return status;
}
