/* Products for compiled scripts: which file does them, and the way to finish them that needs no compiled kernel. */
#include "device/cpu/product.h"
#include "device/cpu/kernels.h"

#include <string.h>

static bool is_conv(const hd_call *call) { return call->op->family == HD_FAMILY_CONV; }

const char *hd_cpu_product_apart(hd_op_id id, const void *attributes) {
    if (id == HD_OP_conv_weight_gradient) return "it adds up over all images, and turns the result at the end";
    const hd_conv_attributes *a = attributes;
    for (int i = 0; id == HD_OP_conv_transpose && i < a->stride.rank; ++i)
        if (a->stride.size[i] > 1) return "neighbouring pixels of a transposed convolution that strides are made apart";
    return NULL;
}

hd_error hd_cpu_product(hd_thread *thread, const hd_product *p) {
    return is_conv(p->call) ? hd_conv_product(thread, p) : hd_contract_product(thread, p);
}
size_t hd_cpu_product_room(const hd_product *p) {
    return is_conv(p->call) ? hd_conv_product_room(p) : hd_contract_product_room(p);
}
size_t hd_cpu_product_packed_bytes(const hd_call *call) {
    return is_conv(call) ? hd_conv_product_packed_bytes(call) : hd_contract_product_packed_bytes(call);
}
hd_error hd_cpu_product_pack(hd_thread *thread, const hd_call *call, void *out) {
    return is_conv(call) ? hd_conv_product_pack(thread, call, out) : hd_contract_product_pack(thread, call, out);
}

int hd_cpu_product_columns(hd_dtype dtype) {
    return dtype == HD_F32 ? hd_kernels()->gemm_f32.nr : hd_kernels()->gemm_f64.nr;
}

/* ---- the plain way to finish ------------------------------------------------------------------------------------------- */
hd_plain_finish hd_cpu_product_plain(const hd_op *op, const hd_shape *result, hd_dtype dtype) {
    hd_plain_finish f = {.dtype = dtype, .columns = result->size[result->rank - 1]};
    if (op->family != HD_FAMILY_CONV) return f;
    f.channels = result->size[1];
    for (int i = 2; i + 1 < result->rank; ++i) f.columns *= result->size[i];
    return f;
}

#define ADD_BIAS(T)                                                                                                    \
    {                                                                                                                  \
        const T *bias = f->bias, *x = from;                                                                            \
        T *y = to;                                                                                                     \
        const T one = f->channels > 0 ? bias[row % f->channels] : 0;                                                   \
        if (f->channels > 0)                                                                                           \
            for (int64_t q = 0; q < columns; ++q) y[q] = x[q] + one;                                                   \
        else                                                                                                           \
            for (int64_t q = 0; q < columns; ++q) y[q] = x[q] + bias[column + q];                                      \
    }
static void add_bias(const hd_plain_finish *f, void *to, const void *from, int64_t row, int64_t column,
                     int64_t columns) {
    if (f->dtype == HD_F32)
        ADD_BIAS(float)
    else
        ADD_BIAS(double)
}

/* Elements that lie together, in place. */
static void apply_steps(const hd_plain_finish *f, char *x, int64_t count) {
    const hd_elementwise_kernel *kernels = hd_kernels()->elementwise[hd_dtype_compute[f->dtype]];
    for (int i = 0; i < f->step_count; ++i) {
        const void *const in[3] = {x, x, x};
        kernels[f->steps[i].op](x, in, f->steps[i].numbers, count);
    }
}

void *hd_cpu_product_place(hd_product_finish finish, void *context, int64_t row, int64_t column) {
    const hd_plain_finish *f = context;
    if (finish != hd_cpu_product_store) return NULL;
    return (char *)f->out + (size_t)(row * f->columns + column) * hd_dtype_bytes[f->dtype];
}

void hd_cpu_product_store(void *context, const void *tile, int64_t stride, int64_t row, int64_t rows, int64_t column,
                          int64_t columns) {
    const hd_plain_finish *f = context;
    const size_t bytes = hd_dtype_bytes[f->dtype];
    const bool together = columns == stride; /* rows follow each other in the tile: steps take all of it at once */
    char *from = (char *)(uintptr_t)tile;
    for (int64_t i = 0; f->bias != NULL && f->step_count > 0 && i < rows; ++i) {
        char *at = from + (size_t)(i * stride) * bytes;
        add_bias(f, at, at, row + i, column, columns);
    }
    if (together) apply_steps(f, from, rows * stride);
    for (int64_t i = 0; i < rows; ++i) {
        char *at = from + (size_t)(i * stride) * bytes,
             *to = (char *)f->out + (size_t)((row + i) * f->columns + column) * bytes;
        if (!together) apply_steps(f, at, columns);
        if (f->bias != NULL && f->step_count == 0)
            add_bias(f, to, at, row + i, column, columns);
        else if (to != at)
            memcpy(to, at, (size_t)columns * bytes);
    }
}
