/* layer_norm, rms_norm and their gradients on GPUs: template_norm.h. */
#include "machine/gpu.h"

enum { THREADS = 64, PIECE_ROWS = 64, PIECES = 256 };

typedef struct norm_arguments { /* as the template has it */
    int64_t offset[5];
    int64_t rows, n, pieces, piece_rows;
    uint64_t eps;
} norm_arguments;

/* What is asked for: the normalised rows, the gradient of x, or those of the weight and the bias. */
typedef enum wanted { ROWS, GRADIENT, PARAMETERS } wanted;
/* The functions of the template, in its order. */
typedef enum function { OF_ROWS, OF_GRADIENT, OF_MEASURE, OF_PARTS, OF_FOLD } function;

typedef struct norm_job {
    hd_template_use use;
    norm_arguments arguments;
    hd_gpu_operands o;
} norm_job;

/* Rows of up to so many elements for each thread stay in registers, where threads agree quickly. */
enum { HELD_MOST = 16 };
static bool may_be_read_in_fours(const norm_job *j, void *const buffers[4]) {
    static const int types[] = {2, 3, 4, 0}; /* of x, weight, bias and the result */
    for (int i = 0; i < 4; ++i) {
        const size_t bytes = 4 * hd_dtype_bytes[j->use.types[types[i]]];
        if (bytes > 16 || (uintptr_t)buffers[i] % bytes != 0) return false;
    }
    return j->arguments.n % 4 == 0;
}
static uint32_t hold_rows(const hd_gpu_device *d, norm_job *j, void *const buffers[4]) {
    const hd_gpu_limits *limits = d->gpu->limits(d->device.index);
    const int64_t n = j->arguments.n, per = may_be_read_in_fours(j, buffers) ? 4 : 1;
    int64_t threads = THREADS;
    while (threads < limits->group_most && 2 * threads * per <= n && threads * HELD_MOST < n) threads *= 2;
    const int64_t held = (n + threads * per - 1) / (threads * per) * per;
    if (hd_gpu_grid_limits(d).shared == 0 || held > HELD_MOST) return THREADS;
    j->use.numbers[0] = (int32_t)threads;
    j->use.numbers[4] = (int32_t)held;
    j->use.numbers[5] = (int32_t)per;
    return (uint32_t)threads;
}

static hd_error shoot(const hd_gpu_device *d, norm_job *j, function which, void *const buffers[4], int count,
                      int64_t groups, int64_t pieces) {
    static const char *const names[] = {"norm_rows", "norm_gradient", "norm_measure", "norm_parts", "norm_fold"};
    const uint32_t threads = which == OF_ROWS ? hold_rows(d, j, buffers) : THREADS;
    j->use.numbers[1] = which;
    const hd_gpu_shot shot = {.use = &j->use,
                              .function = names[which],
                              .groups = {hd_gpu_groups(groups, 1), (uint32_t)pieces},
                              .threads = threads,
                              .buffers = {buffers[0], buffers[1], buffers[2], buffers[3]},
                              .buffer_count = count,
                              .arguments = &j->arguments,
                              .argument_bytes = sizeof j->arguments};
    if (groups == 0 || pieces == 0) return HD_OK;
    return shot.groups[0] == 0 ? hd_thread_self()->error_code : hd_gpu_shoot(d, &shot);
}

/* Sums over rows: the statistics of each, pieces of rows, then the pieces in order. */
static hd_error parameters(hd_thread *thread, const hd_gpu_device *d, norm_job *j, bool centered) {
    norm_arguments *a = &j->arguments;
    const size_t bytes = hd_dtype_bytes[hd_compute_dtype[hd_dtype_compute[j->use.types[0]]]];
    const int64_t width = (centered ? 2 : 1) * a->n, columns = (a->n + THREADS - 1) / THREADS;
    a->piece_rows = (a->rows + PIECES - 1) / PIECES;
    if (a->piece_rows < PIECE_ROWS) a->piece_rows = PIECE_ROWS;
    a->pieces = (a->rows + a->piece_rows - 1) / a->piece_rows;
    hd_block *workspace = hd_gpu_workspace(thread, d, (size_t)(a->rows * 3 + a->pieces * width) * bytes);
    if (workspace == NULL) return thread->error_code;
    void *statistics = workspace->address, *parts = (char *)statistics + (size_t)(a->rows * 3) * bytes;
    hd_error status = shoot(d, j, OF_MEASURE, (void *[4]){j->o.from[1], statistics}, 2, a->rows, 1);
    if (status == HD_OK)
        status =
            shoot(d, j, OF_PARTS, (void *[4]){j->o.from[0], j->o.from[1], statistics, parts}, 4, columns, a->pieces);
    if (status == HD_OK)
        status = shoot(d, j, OF_FOLD, (void *[4]){parts, j->o.to[0]}, 2, (width + THREADS - 1) / THREADS, 1);
    hd_block_release(thread, workspace);
    return status;
}

/* Types that a call has not are those of its result, so that they are no other text. */
static hd_template_use use_of(const hd_call *call, wanted what, bool centered) {
    const int32_t y = (int32_t)call->dtype[0], first = what == ROWS ? 0 : 1;
    hd_template_use use = {.which = HD_TEMPLATE_norm, .types = {y, y, y, y, y}};
    const int weights = call->input_count - first - 1;
    use.types[1] = first > 0 ? call->inputs[0]->dtype : y;
    for (int i = 0; i <= weights; ++i) use.types[2 + i] = call->inputs[first + i]->dtype;
    use.numbers[0] = THREADS;
    use.numbers[2] = centered;
    use.numbers[3] = weights;
    return use;
}

static hd_error norm(hd_thread *thread, const hd_gpu_device *d, hd_call *call, wanted what, bool centered) {
    const hd_norm_attributes *attributes = call->attributes;
    const hd_tensor *x = call->inputs[what == ROWS ? 0 : 1];
    norm_job j = {.use = use_of(call, what, centered),
                  .arguments = {.n = 1, .eps = hd_template_number(call->dtype[0], attributes->eps)}};
    for (int i = 0; i < attributes->axes; ++i) j.arguments.n *= x->layout.shape.size[x->layout.shape.rank - 1 - i];
    j.arguments.rows = j.arguments.n > 0 ? x->count / j.arguments.n : 0;
    HD_TRY(hd_gpu_operands_begin(thread, d, call, 0, &j.o));
    void *const *from = j.o.from, *to = j.o.to[0];
    hd_error status = HD_OK;
    if (call->outputs[0]->count == 0)
        ; /* nothing to do */
    else if (what == ROWS)
        status = shoot(d, &j, OF_ROWS, (void *[4]){from[0], from[1], from[2], to}, 4, j.arguments.rows, 1);
    else if (what == GRADIENT)
        status = shoot(d, &j, OF_GRADIENT, (void *[4]){from[0], from[1], from[2], to}, 4, j.arguments.rows, 1);
    else
        status = parameters(thread, d, &j, centered);
    return hd_gpu_operands_end(thread, call, &j.o, status);
}

#define NORM(name, what, centered)                                                                                     \
    hd_error hd_gpu_##name(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {                                 \
        return norm(thread, d, call, what, centered);                                                                  \
    }
NORM(layer_norm, ROWS, true)
NORM(layer_norm_gradient, GRADIENT, true)
NORM(layer_norm_weight_gradient, PARAMETERS, true)
NORM(rms_norm, ROWS, false)
NORM(rms_norm_gradient, GRADIENT, false)
NORM(rms_norm_weight_gradient, PARAMETERS, false)
