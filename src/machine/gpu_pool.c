/* Pooling and its gradients on GPUs: template_pool.h. */
#include "machine/gpu.h"

enum { THREADS = 64 };

typedef struct pool_arguments { /* as the template has it */
    int64_t offset[3];
    int64_t planes;
    int64_t image[3], result[3];
    int64_t window[3], stride[3], dilation[3], before[3], after[3];
    int64_t exclude_padding, to_places;
} pool_arguments;

/* The functions of the template, in its order. */
typedef enum function { LARGEST, MEAN, PICK, PLACES, BACK } function;

typedef struct pool_job {
    hd_template_use use;
    pool_arguments arguments;
    int64_t results, points; /* of all planes: results, and elements of images */
} pool_job;

static pool_job describe(const hd_call *call, bool back) {
    const hd_pool_attributes *a = call->attributes;
    const hd_shape *of_first = &call->inputs[0]->layout.shape;
    const hd_shape *image = back ? &call->shape[0] : of_first, *result = back ? of_first : &call->shape[0];
    const int axes = a->window.rank;
    pool_job j = {
        .use = {.which = HD_TEMPLATE_pool,
                .types = {(int32_t)call->dtype[0], call->inputs[0]->dtype, call->inputs[call->input_count - 1]->dtype},
                .numbers = {THREADS, 0, a->adaptive}},
        .arguments = {.planes = 1, .exclude_padding = a->exclude_padding},
        .results = hd_shape_count(*result),
        .points = hd_shape_count(*image)};
    for (int i = 0; i < image->rank - axes; ++i) j.arguments.planes *= image->size[i];
    for (int i = 0; i < 3; ++i) { /* axes that are missing come first */
        const int from = i - (3 - axes), at = image->rank - axes + from;
        const bool plain = from < 0 || a->adaptive;
        j.arguments.image[i] = from < 0 ? 1 : image->size[at];
        j.arguments.result[i] = from < 0 ? 1 : result->size[at];
        j.arguments.window[i] = from < 0 ? 1 : a->window.size[from];
        j.arguments.stride[i] = plain ? 1 : a->stride.size[from];
        j.arguments.dilation[i] = plain ? 1 : a->dilation.size[from];
        j.arguments.before[i] = plain ? 0 : a->padding.size[2 * from];
        j.arguments.after[i] = plain ? 0 : a->padding.size[2 * from + 1];
    }
    return j;
}

static hd_error shoot(const hd_gpu_device *d, pool_job *j, function which, void *const buffers[3], int count,
                      int64_t points) {
    static const char *const names[] = {"pool_max", "pool_mean", "pool_pick", "pool_places", "pool_back"};
    j->use.numbers[1] = which;
    const hd_gpu_shot shot = {.use = &j->use,
                              .function = names[which],
                              .groups = {hd_gpu_groups(points, THREADS)},
                              .threads = THREADS,
                              .buffers = {buffers[0], buffers[1], buffers[2]},
                              .buffer_count = count,
                              .arguments = &j->arguments,
                              .argument_bytes = sizeof j->arguments};
    if (points == 0) return HD_OK;
    return shot.groups[0] == 0 ? hd_thread_self()->error_code : hd_gpu_shoot(d, &shot);
}

/* A result from what its window sees: the function of the template says what. */
static hd_error run_forward(hd_thread *thread, const hd_gpu_device *d, hd_call *call, function which) {
    pool_job j = describe(call, false);
    hd_gpu_operands o;
    HD_TRY(hd_gpu_operands_begin(thread, d, call, 0, &o));
    const int inputs = call->input_count;
    void *const buffers[3] = {o.from[0], inputs > 1 ? o.from[1] : o.to[0], inputs > 1 ? o.to[0] : NULL};
    return hd_gpu_operands_end(thread, call, &o, shoot(d, &j, which, buffers, inputs + 1, j.results));
}

hd_error hd_gpu_max_pool(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    return run_forward(thread, d, call, LARGEST);
}
hd_error hd_gpu_avg_pool(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    return run_forward(thread, d, call, MEAN);
}
hd_error hd_gpu_max_pool_pick(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    return run_forward(thread, d, call, PICK);
}

hd_error hd_gpu_avg_pool_gradient(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    pool_job j = describe(call, true);
    hd_gpu_operands o;
    HD_TRY(hd_gpu_operands_begin(thread, d, call, 0, &o));
    void *const buffers[3] = {o.from[0], NULL, o.to[0]};
    return hd_gpu_operands_end(thread, call, &o, shoot(d, &j, BACK, buffers, 3, j.points));
}

/* Where the largest of each window is comes first, so that no element of x looks at all of a window again. */
hd_error hd_gpu_max_pool_gradient(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    pool_job j = describe(call, true);
    hd_gpu_operands o;
    HD_TRY(hd_gpu_operands_begin(thread, d, call, 0, &o));
    hd_block *places = hd_gpu_workspace(thread, d, (size_t)j.results * sizeof(int64_t));
    hd_error status = places == NULL ? thread->error_code : HD_OK;
    j.arguments.to_places = 1;
    if (status == HD_OK) status = shoot(d, &j, PLACES, (void *[3]){o.from[1], places->address}, 2, j.results);
    if (status == HD_OK) status = shoot(d, &j, BACK, (void *[3]){o.from[0], places->address, o.to[0]}, 3, j.points);
    if (places != NULL) hd_block_release(thread, places);
    return hd_gpu_operands_end(thread, call, &o, status);
}
