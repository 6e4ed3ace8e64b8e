/* layer_norm, rms_norm and their gradients: rows are independent, so threads share them out. The gradients of weight
 * and bias are sums over rows: of pieces of a fixed size, folded in order, so that they do not depend on the number of
 * threads. */
#include "device/cpu/cpu.h"

#include <string.h>

enum { GRAIN = 16384, PIECE_ROWS = 64 };

typedef struct norm_job {
    const hd_norm_kernels *kernels;
    size_t bytes;
    const char *g, *x;
    const void *weight, *bias;
    char *out;
    int64_t rows, n;
    double eps;
    bool centered;
} norm_job;

static void run_rows(void *context, int64_t begin, int64_t end) {
    const norm_job *j = context;
    const size_t at = (size_t)(begin * j->n) * j->bytes;
    j->kernels->rows(j->out + at, j->x + at, j->weight, j->bias, end - begin, j->n, j->eps, j->centered);
}

static void run_gradient(void *context, int64_t begin, int64_t end) {
    const norm_job *j = context;
    const size_t at = (size_t)(begin * j->n) * j->bytes;
    j->kernels->gradient(j->out + at, j->g + at, j->x + at, j->weight, end - begin, j->n, j->eps, j->centered);
}

static void run_parameters(void *context, int64_t begin, int64_t end) {
    const norm_job *j = context;
    for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t row = piece * PIECE_ROWS, left = j->rows - row;
        const size_t at = (size_t)(row * j->n) * j->bytes;
        j->kernels->parameters(j->out + (size_t)(piece * (j->centered ? 2 : 1) * j->n) * j->bytes, j->g + at, j->x + at,
                               left < PIECE_ROWS ? left : PIECE_ROWS, j->n, j->eps, j->centered);
    }
}

#define FOLD(T)                                                                                                        \
    for (int64_t i = 0; i < width; ++i) {                                                                              \
        double sum = 0;                                                                                                \
        for (int64_t p = 0; p < pieces; ++p) sum += (double)((const T *)parts)[p * width + i];                         \
        ((T *)to)[i] = (T)sum;                                                                                         \
    }
static hd_error parameters(hd_thread *thread, norm_job *j, void *to) {
    const int64_t width = (j->centered ? 2 : 1) * j->n, pieces = (j->rows + PIECE_ROWS - 1) / PIECE_ROWS;
    hd_block *workspace = hd_block_new(thread, (size_t)(pieces * width) * j->bytes + 1);
    if (workspace == NULL) return HD_ERROR_MEMORY;
    char *parts = j->out = hd_block_data(workspace);
    hd_parallel_range(pieces, GRAIN / (PIECE_ROWS * j->n) + 1, run_parameters, j);
    if (j->bytes == 4) {
        FOLD(float)
    } else {
        FOLD(double)
    }
    hd_block_release(thread, workspace);
    return HD_OK;
}

/* What is asked for: the normalised rows, the gradient of x, or those of the weight and the bias. */
typedef enum wanted { ROWS, GRADIENT, PARAMETERS } wanted;

static hd_error norm(hd_thread *thread, hd_call *call, wanted what, bool centered) {
    const hd_norm_attributes *a = call->attributes;
    const bool forward = what == ROWS;
    hd_cpu_operands o;
    HD_TRY(hd_cpu_operands_begin(thread, call, 0, &o));
    norm_job j = {.kernels = o.as == HD_F32 ? &hd_kernels()->norm_f32 : &hd_kernels()->norm_f64,
                  .bytes = hd_dtype_bytes[o.as],
                  .x = o.from[forward ? 0 : 1],
                  .g = o.from[0],
                  .weight = o.from[forward ? 1 : 2],
                  .bias = forward ? o.from[2] : NULL,
                  .out = o.to,
                  .n = 1,
                  .eps = a->eps,
                  .centered = centered};
    const hd_tensor *x = o.in[forward ? 0 : 1];
    const hd_shape *shape = &x->layout.shape;
    for (int i = shape->rank - a->axes; i < shape->rank; ++i) j.n *= shape->size[i];
    j.rows = j.n > 0 ? x->count / j.n : 0;
    hd_error status = HD_OK;
    const int64_t grain = j.n > 0 ? GRAIN / j.n + 1 : 1;
    if (forward)
        hd_parallel_range(j.rows, grain, run_rows, &j);
    else if (what == GRADIENT)
        hd_parallel_range(j.rows, grain, run_gradient, &j);
    else if (o.out->count > 0)
        status = parameters(thread, &j, o.to);
    return hd_cpu_operands_end(thread, call, &o, status);
}

#define NORM(name, what, centered)                                                                                     \
    hd_error hd_cpu_##name(hd_thread *thread, hd_call *call) { return norm(thread, call, what, centered); }
NORM(layer_norm, ROWS, true)
NORM(layer_norm_gradient, GRADIENT, true)
NORM(layer_norm_weight_gradient, PARAMETERS, true)
NORM(rms_norm, ROWS, false)
NORM(rms_norm_gradient, GRADIENT, false)
NORM(rms_norm_weight_gradient, PARAMETERS, false)
