/* The fused form of cross-entropy: rows are independent, and everything happens to one while it is in the cache, by the
 * kernels of the ops that the composite is made of, so that it gives the same bits. */
#include "device/cpu/cpu.h"
#include "device/cpu/sizes.h"

#include <math.h>
#include <string.h>

enum { GRAIN = 8192 };

/* What a row needs of the kernels of its type, f32 or f64. */
typedef struct row_kernels {
    size_t bytes;
    const hd_attention_kernels *rows;
    hd_elementwise_kernel exp, log;
    hd_reduce_kernels largest, sum;
} row_kernels;

static row_kernels kernels_of(hd_dtype dtype) {
    const hd_cpu_kernels *k = hd_kernels();
    const hd_compute type = (hd_compute)hd_dtype_compute[dtype];
    return (row_kernels){.bytes = hd_dtype_bytes[dtype],
                         .rows = dtype == HD_F32 ? &k->attention_f32 : &k->attention_f64,
                         .exp = k->elementwise[type][HD_OP_exp],
                         .log = k->elementwise[type][HD_OP_log],
                         .largest = k->reduce[HD_REDUCE_MAX][type],
                         .sum = k->reduce[HD_REDUCE_SUM][type]};
}

static double read(const row_kernels *k, const void *from, int64_t at) {
    return k->bytes == 4 ? (double)((const float *)from)[at] : ((const double *)from)[at];
}
static void write(const row_kernels *k, void *to, int64_t at, double value) {
    if (k->bytes == 4)
        ((float *)to)[at] = (float)value;
    else
        ((double *)to)[at] = value;
}

/* ---- losses ------------------------------------------------------------------------------------------------------ */
typedef struct loss_job {
    row_kernels kernels;
    int64_t classes;
    const char *logits;
    const int64_t *target;
    char *powers; /* [n, classes + 1] */
    char *losses; /* [n] */
} loss_job;

static void run_rows(void *context, int64_t begin, int64_t end) {
    const loss_job *j = context;
    const row_kernels *k = &j->kernels;
    for (int64_t r = begin; r < end; ++r) {
        const char *x = j->logits + (size_t)(r * j->classes) * k->bytes;
        char *e = j->powers + (size_t)(r * (j->classes + 1)) * k->bytes, largest[8];
        double sum = 0, log;
        write(k, largest, 0, -INFINITY);
        k->largest.row(largest, x, j->classes);
        memcpy(e, x, (size_t)j->classes * k->bytes);
        k->rows->shift(e, j->classes, 1, read(k, largest, 0));
        const double picked = read(k, e, j->target[r]); /* as the logarithm of a share, less that of the sum */
        k->exp(e, (const void *[3]){e}, NULL, j->classes);
        k->sum.row(&sum, e, j->classes);
        write(k, e, j->classes, sum);
        k->log(&log, (const void *[3]){e + (size_t)j->classes * k->bytes}, NULL, 1);
        write(k, j->losses, r, -(picked - read(k, &log, 0)));
    }
}

hd_error hd_cpu_cross_entropy(hd_thread *thread, hd_call *call) {
    hd_cpu_operands o;
    HD_TRY(hd_cpu_operands_begin(thread, call, 1u << 1, &o));
    const int64_t rows = o.in[0]->layout.shape.size[0], classes = o.in[0]->layout.shape.size[1];
    loss_job j = {
        .kernels = kernels_of(o.as), .classes = classes, .logits = o.from[0], .target = o.from[1], .losses = o.to};
    hd_block *workspace = NULL;
    hd_error status = HD_OK;
    if (call->output_count > 1)
        j.powers = call->outputs[1]->storage->data;
    else if ((workspace = hd_block_new(thread, (size_t)(rows * (classes + 1)) * j.kernels.bytes)) != NULL)
        j.powers = hd_block_data(workspace);
    else
        status = thread->error_code;
    if (status == HD_OK) hd_parallel_range(rows, hd_pieces(GRAIN, classes), run_rows, &j);
    if (workspace != NULL) hd_block_release(thread, workspace);
    return hd_cpu_operands_end(thread, call, &o, status);
}

/* ---- gradient ---------------------------------------------------------------------------------------------------- */
typedef struct gradient_job {
    row_kernels kernels;
    int64_t classes;
    const char *gradient, *powers;
    const int64_t *target;
    char *out;
} gradient_job;

static void run_gradient(void *context, int64_t begin, int64_t end) {
    const gradient_job *j = context;
    const row_kernels *k = &j->kernels;
    for (int64_t r = begin; r < end; ++r) {
        const char *e = j->powers + (size_t)(r * (j->classes + 1)) * k->bytes;
        char *out = j->out + (size_t)(r * j->classes) * k->bytes, share[8];
        const double g = read(k, j->gradient, r);
        write(k, share, 0, g / read(k, e, j->classes));
        k->rows->scale(out, e, j->classes, read(k, share, 0));
        write(k, out, j->target[r], read(k, out, j->target[r]) - g);
    }
}

hd_error hd_cpu_cross_entropy_gradient(hd_thread *thread, hd_call *call) {
    hd_cpu_operands o;
    HD_TRY(hd_cpu_operands_begin(thread, call, 1u << 1, &o));
    const hd_shape *shape = &call->shape[0];
    gradient_job j = {.kernels = kernels_of(o.as),
                      .classes = shape->size[1],
                      .gradient = o.from[0],
                      .target = o.from[1],
                      .powers = o.from[2],
                      .out = o.to};
    hd_parallel_range(shape->size[0], hd_pieces(GRAIN, j.classes), run_gradient, &j);
    return hd_cpu_operands_end(thread, call, &o, HD_OK);
}
