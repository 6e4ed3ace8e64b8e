/* Matrix products that a library of the device's computes: calls of matmul and affine of floats whose operands lie as
 * matrices do. All others are kernels of gpu_product_run.c. */
#include "codegen/dump.h"
#include "machine/gpu_product.h"

#include <stdatomic.h>
#include <string.h>

enum { OTHER_BATCHES = 32 }; /* so many products one after the other are still quicker than a kernel of our own */

/* ---- which ------------------------------------------------------------------------------------------------------- */
static bool is_small(hd_dtype dtype) { return dtype == HD_BF16 || dtype == HD_F16; }

/* Operands of small floats may have a result of f32, as pass_widen makes such products: two of a dtype as they are,
 * else as copies in f32. */
static bool are_dtypes_taken(hd_dtype a, hd_dtype b, hd_dtype result, hd_dtype bias) {
    if (bias != result) return false;
    if (result == HD_F32) return (a == HD_F32 || is_small(a)) && (b == HD_F32 || is_small(b));
    return a == b && a == result && (is_small(a) || a == HD_F64);
}

/* False, too, where it is not there, of which HODU_DUMP=calls tells once. */
static bool has_library(const hd_gpu_device *d) {
    static atomic_flag is_told = ATOMIC_FLAG_INIT;
    const char *why = NULL;
    if (d->gpu->product == NULL) return false;
    if (d->gpu->lacks_products(d->device.index, &why) != HD_OK) return false;
    if (why != NULL && hd_dump_wants("calls") && !atomic_flag_test_and_set(&is_told))
        hd_dump_line("calls", "matrix products on %s: by kernels of hodu's own, as %s",
                     hd_device_text((char[32]){0}, d->device), why);
    return why == NULL;
}

/* What plans ask: dtypes alone decide, so that a product that then turns out to be none of the library's, for how its
 * operands lie, is still a call. */
static bool is_of_library(const hd_machine *m, const hd_graph *g, uint32_t node) {
    const hd_node *n = &g->nodes[node];
    const uint32_t *in = hd_node_inputs(g, node);
    const hd_dtype result = (hd_dtype)n->dtype, bias = n->input_count > 2 ? (hd_dtype)g->nodes[in[2]].dtype : result;
    const hd_gpu_device *d = (const hd_gpu_device *)hd_device_executor(m->device);
    return hd_lower_is_matrix_product(hd_node_lowers(g, node)) && d != NULL &&
           are_dtypes_taken((hd_dtype)g->nodes[in[0]].dtype, (hd_dtype)g->nodes[in[1]].dtype, result, bias) &&
           has_library(d);
}

/* A device that is lost says so when it runs. */
const char *hd_gpu_product_apart(const hd_machine *m, const hd_graph *g, uint32_t node) {
    if (is_of_library(m, g, node)) return "the device's library computes it";
    hd_error_copy forgotten;
    if (hd_thread_self()->error_code != HD_OK) hd_error_take(&forgotten);
    return NULL;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */
/* Of several axes of batches the longest is the library's; the others are walked here. */
static int longest_axis(const hd_product_matrices *s) {
    int longest = 0;
    for (int i = 1; i < s->batch_rank; ++i)
        if (s->batch_size[i] > s->batch_size[longest]) longest = i;
    return longest;
}

/* All but the addresses. */
static bool describe(const hd_call *call, const hd_product_numbers *n, hd_gpu_matrices *p) {
    const hd_product_matrices *s = &n->matrices;
    const int axis = longest_axis(s);
    *p = (hd_gpu_matrices){.operands = call->inputs[0]->dtype,
                           .result = call->dtype[0],
                           .bias_dtype = call->dtype[0],
                           .is_tf32 = hd_attributes_precision(call->op->id, call->attributes) == HD_MATMUL_TF32,
                           .m = n->m,
                           .n = n->n,
                           .k = n->k,
                           .batches = s->batch_rank == 0 ? 1 : s->batch_size[axis],
                           .a_row = n->a_row,
                           .a_column = s->a_column,
                           .b_row = s->b_row,
                           .b_column = s->b_column,
                           .row = n->n,
                           .batch = n->m * n->n};
    if (s->batch_rank > 0) {
        p->a_batch = s->a_batch[axis];
        p->b_batch = s->b_batch[axis];
        for (int i = axis + 1; i < s->batch_rank; ++i) p->batch *= s->batch_size[i];
    }
    return n->batches / p->batches <= OTHER_BATCHES;
}

/* Numbers of the CPU, stretched, are no matrices, nor is a stretched bias a vector. */
static bool are_operands_taken(const hd_call *call) {
    const hd_tensor *bias = call->input_count > 2 ? call->inputs[2] : NULL;
    for (int i = 0; i < call->input_count; ++i)
        if (call->inputs[i] != NULL && !hd_storage_is_away(call->inputs[i]->storage)) return false;
    if (bias != NULL && bias->layout.shape.size[0] > 1 && bias->layout.stride[0] != 1) return false;
    return are_dtypes_taken(call->inputs[0]->dtype, call->inputs[1]->dtype, call->dtype[0],
                            bias != NULL ? (hd_dtype)bias->dtype : call->dtype[0]);
}

/* Each of the batches that the library does not walk. */
static hd_error run_each(const hd_gpu_device *d, const hd_product_numbers *n, const hd_gpu_matrices *all, bool *taken) {
    const hd_product_matrices *s = &n->matrices;
    const int axis = longest_axis(s);
    const int64_t a_bytes = hd_dtype_bytes[all->operands], bytes = hd_dtype_bytes[all->result];
    const int64_t others = n->batches / all->batches;
    *taken = true;
    for (int64_t which = 0; which < others && *taken; ++which) {
        hd_gpu_matrices p = *all;
        int64_t rest = which, a = 0, b = 0, to = 0, stride = n->m * n->n;
        for (int i = (int)s->batch_rank - 1; i >= 0; stride *= s->batch_size[i--]) {
            if (i == axis) continue;
            const int64_t at = rest % s->batch_size[i];
            rest /= s->batch_size[i];
            a += at * s->a_batch[i];
            b += at * s->b_batch[i];
            to += at * stride;
        }
        p.a = (char *)all->a + a * a_bytes;
        p.b = (char *)all->b + b * a_bytes;
        p.to = (char *)all->to + to * bytes;
        HD_TRY(d->gpu->product(d->device.index, &p, taken));
        if (hd_gpu_nanoseconds != NULL) *hd_gpu_nanoseconds += *p.nanoseconds;
        if (__builtin_expect(hd_gpu_debug_sync(), 0))
            HD_TRY(hd_device_interface_of(d->device.kind)->synchronize(hd_thread_self(), d->device.index));
    }
    return HD_OK;
}

static hd_error run(hd_thread *thread, const hd_gpu_device *d, const hd_call *call, bool *taken) {
    hd_product_numbers n;
    hd_gpu_matrices p;
    int64_t took;
    hd_tensor *moved = NULL; /* stays NULL: nothing is a number */
    memset(&n, 0, sizeof n);
    hd_gpu_describe_matrices(call, &n);
    if (n.k == 0 || !describe(call, &n, &p)) return HD_OK;
    p.nanoseconds = hd_gpu_nanoseconds != NULL ? &took : NULL;
    p.a = hd_gpu_read(thread, d, call->inputs[0], &moved);
    if (p.a != NULL) p.b = hd_gpu_read(thread, d, call->inputs[1], &moved);
    if (p.b == NULL) return thread->error_code;
    const hd_tensor *bias = call->input_count > 2 ? call->inputs[2] : NULL;
    if (bias != NULL && (p.bias = hd_gpu_read(thread, d, bias, &moved)) == NULL) return thread->error_code;
    p.to = hd_gpu_written(thread, call->outputs[0]);
    return p.to == NULL ? thread->error_code : run_each(d, &n, &p, taken);
}

/* ---- operands of two dtypes -------------------------------------------------------------------------------------- */
static bool is_stretched(const hd_tensor *t) {
    for (int i = 0; i < t->layout.shape.rank; ++i)
        if (t->layout.shape.size[i] > 1 && t->layout.stride[i] == 0) return true;
    return false;
}

/* A copy in f32; a reference that is the caller's. */
static hd_tensor *widened(hd_thread *thread, const hd_gpu_device *d, hd_tensor *t) {
    hd_tensor *wide = hd_tensor_new_on(thread, d->device, HD_F32, &t->layout.shape);
    if (wide == NULL || hd_gpu_write((hd_executor *)(uintptr_t)&d->executor, thread, wide, t) == HD_OK) return wide;
    hd_tensor_drop(thread, wide);
    return NULL;
}

static hd_error run_widened(hd_thread *thread, const hd_gpu_device *d, const hd_call *call, bool *taken) {
    hd_tensor *in[3] = {call->inputs[0], call->inputs[1], call->input_count > 2 ? call->inputs[2] : NULL};
    hd_call wide = *call;
    hd_tensor *made[2] = {NULL};
    hd_error status = HD_OK;
    for (int i = 0; i < 2 && status == HD_OK; ++i) {
        if (in[i]->dtype == HD_F32) continue;
        in[i] = made[i] = widened(thread, d, in[i]);
        if (made[i] == NULL) status = thread->error_code;
    }
    wide.inputs = in;
    if (status == HD_OK) status = run(thread, d, &wide, taken);
    for (int i = 0; i < 2; ++i) hd_tensor_drop(thread, made[i]);
    return status;
}

hd_error hd_gpu_product_by_library(hd_thread *thread, const hd_gpu_device *d, const hd_call *call, bool *taken) {
    *taken = false;
    if (call->op->family == HD_FAMILY_CONV || !are_operands_taken(call) || !has_library(d)) return thread->error_code;
    hd_error status = HD_OK;
    if (call->inputs[0]->dtype == call->inputs[1]->dtype)
        status = run(thread, d, call, taken);
    else if (!is_stretched(call->inputs[0]) && !is_stretched(call->inputs[1]))
        status = run_widened(thread, d, call, taken);
    if (status == HD_OK && !*taken && hd_dump_wants("calls"))
        hd_dump_line("calls", "%s on %s: by a kernel of hodu's own, as the library has none for such operands",
                     call->op->name, hd_device_text((char[32]){0}, d->device));
    return status;
}
