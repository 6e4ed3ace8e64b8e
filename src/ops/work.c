/* What calls cost, by the kinds of work that rows of ops.def name. Counts, not times: a profile divides times by
 * them. */
#include "ops/op.h"

static double bytes_of(const hd_tensor *t) { return (double)t->count * hd_dtype_bytes[t->dtype]; }

static double bytes_written(const hd_call *call) {
    double bytes = 0;
    for (int i = 0; i < call->output_count; ++i)
        bytes += (double)hd_shape_count(call->shape[i]) * hd_dtype_bytes[call->dtype[i]];
    return bytes;
}

/* Every operand read and every result written once, for so many operations. */
static hd_work once(const hd_call *call, double operations) {
    hd_work w = {operations, bytes_written(call)};
    for (int i = 0; i < call->input_count; ++i) w.bytes += bytes_of(call->inputs[i]);
    return w;
}

static double results(const hd_call *call) { return (double)hd_shape_count(call->shape[0]); }

/* Views, and memory that nobody wrote. */
hd_work hd_work_nothing(const hd_call *call) {
    (void)call;
    return (hd_work){0, 0};
}

/* One operation for each element of the result. */
hd_work hd_work_elements(const hd_call *call) { return once(call, results(call)); }

/* One operation for each element that is read. */
hd_work hd_work_reads(const hd_call *call) { return once(call, (double)call->inputs[0]->count); }

/* A walk for each of eight digits. */
hd_work hd_work_sort(const hd_call *call) { return once(call, 8 * (double)call->inputs[0]->count); }

/* Each value is compared with some in the middle of halves. */
hd_work hd_work_search(const hd_call *call) {
    const hd_shape *rows = &call->inputs[0]->layout.shape;
    double steps = 1;
    for (int64_t left = rows->size[rows->rank - 1]; left > 0; left /= 2) steps++;
    return once(call, results(call) * steps);
}

/* Of the first operand only those elements that the second one names. */
hd_work hd_work_looked_up(const hd_call *call) {
    return (hd_work){results(call), 2 * bytes_written(call) + bytes_of(call->inputs[1])};
}

hd_work hd_work_product(const hd_call *call) {
    const hd_matmul_attributes *given = call->op->lower == HD_LOWER_MATMUL ? call->attributes : NULL;
    const hd_shape *x = &call->inputs[0]->layout.shape;
    const bool transposed = given != NULL && given->transpose_a && x->rank > 1;
    return once(call, 2 * results(call) * (double)x->size[transposed ? x->rank - 2 : x->rank - 1]);
}

/* Two walks over each row: about four operations for an element. */
hd_work hd_work_norm(const hd_call *call) {
    double elements = 0;
    for (int i = 0; i < call->input_count; ++i)
        if ((double)call->inputs[i]->count > elements) elements = (double)call->inputs[i]->count;
    return once(call, 4 * elements);
}

/* Each element of the matrices meets every row of the smaller side, about once. */
hd_work hd_work_factors(const hd_call *call) {
    double operations = 0;
    for (int i = 0; i < call->input_count; ++i) {
        const hd_shape *x = &call->inputs[i]->layout.shape, *a = &call->inputs[0]->layout.shape;
        const int64_t m = a->size[a->rank - 2], n = a->size[a->rank - 1];
        operations += 2 * (double)hd_shape_count(*x) * (double)(m < n ? m : n);
    }
    return once(call, operations);
}

/* A transposed one that strides has fewer. */
hd_work hd_work_conv(const hd_call *call) {
    const hd_conv_attributes *a = call->attributes;
    const hd_shape *weight = &call->inputs[1]->layout.shape;
    double taps = (double)(call->inputs[0]->layout.shape.size[1] / a->groups);
    for (int i = 2; i < weight->rank; ++i) taps *= (double)weight->size[i];
    return once(call, 2 * results(call) * taps);
}

/* A sum over all pixels of all images. */
hd_work hd_work_conv_weight(const hd_call *call) {
    const hd_shape *gradient = &call->inputs[1]->layout.shape;
    double pixels = (double)gradient->size[0];
    for (int i = 2; i < gradient->rank; ++i) pixels *= (double)gradient->size[i];
    return once(call, 2 * results(call) * pixels);
}

/* One operation for each element of each window; adaptive windows share the image out. */
hd_work hd_work_pool(const hd_call *call) {
    const hd_pool_attributes *a = call->attributes;
    const double in = (double)call->inputs[0]->count, out = results(call);
    double window = 1;
    for (int i = 0; i < a->window.rank && !a->adaptive; ++i) window *= (double)a->window.size[i];
    return once(call, a->adaptive ? (in > out ? in : out) : (in < out ? in : out) * window);
}

/* Two products forward, five back. */
static hd_work attention(const hd_call *call, int first, bool back) {
    const hd_shape *q = &call->inputs[first]->layout.shape, *k = &call->inputs[first + 1]->layout.shape,
                   *v = &call->inputs[first + 2]->layout.shape;
    double scores = (double)q->size[q->rank - 2] * (double)k->size[k->rank - 2];
    for (int i = 0; i < q->rank - 2; ++i) scores *= (double)q->size[i];
    const double d = (double)q->size[q->rank - 1], e = (double)v->size[v->rank - 1];
    return once(call, 2 * scores * (back ? 3 * d + 2 * e : d + e));
}
hd_work hd_work_attention(const hd_call *call) { return attention(call, 0, false); }
hd_work hd_work_attention_gradient(const hd_call *call) { return attention(call, 1, true); }
