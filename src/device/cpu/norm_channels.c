/* The fused form of norms that know channels. x is [n, c, ...] in planes, one for each image and channel; a row is
 * what is normalised together: planes of neighbouring channels, or those of a channel in all images. A plane is
 * measured while it is in the cache, and what was measured is put together in f64, in the order of the planes. Rows of
 * neighbouring planes are done one after the other, so that they are in the cache still when they are needed again. */
#include "device/cpu/cpu.h"
#include "device/cpu/sizes.h"

#include <math.h>

enum { GRAIN = 16384 };

typedef struct channel_job {
    const hd_plane_kernels *kernels;
    size_t bytes;
    int64_t images, channels, inner; /* inner: elements of a plane */
    int64_t groups, rows, together;  /* together: planes of a row; groups 0: over the batch */
    double eps;
    const char *g, *x, *weight, *bias;
    char *out;
    double (*planes)[2];  /* what was measured */
    double (*of_rows)[2]; /* mean and variance */
} channel_job;

static double read(const channel_job *j, const char *from, int64_t at) {
    return j->bytes == 4 ? (double)((const float *)(const void *)from)[at] : ((const double *)(const void *)from)[at];
}
static double weight_of(const channel_job *j, int64_t plane) {
    return j->weight == NULL ? 1 : read(j, j->weight, plane % j->channels);
}
static const char *plane_of(const channel_job *j, const char *from, int64_t plane) {
    return from + (size_t)(plane * j->inner) * j->bytes;
}
/* The k-th plane of a row, and the row of a plane. */
static int64_t plane_in(const channel_job *j, int64_t row, int64_t k) {
    return j->groups == 0 ? k * j->channels + row : row * j->together + k;
}
static int64_t row_of(const channel_job *j, int64_t plane) {
    return j->groups == 0 ? plane % j->channels : plane / j->together;
}
static double scale_of(const channel_job *j, int64_t row) { return 1 / sqrt(j->of_rows[row][1] + j->eps); }

/* Planes, or those of all rows of neighbours; then `finish` for what is between the two walks over memory. */
typedef struct steps {
    void (*measure)(const channel_job *j, int64_t plane);
    void (*combine)(const channel_job *j, int64_t row);
    void (*apply)(const channel_job *j, int64_t plane);
} steps;
typedef struct walk {
    const channel_job *job;
    const steps *steps;
} walk;

static void run_measure(void *context, int64_t begin, int64_t end) {
    const walk *w = context;
    for (int64_t p = begin; p < end; ++p) w->steps->measure(w->job, p);
}
static void run_apply(void *context, int64_t begin, int64_t end) {
    const walk *w = context;
    for (int64_t p = begin; p < end; ++p) w->steps->apply(w->job, p);
}
static void run_rows(void *context, int64_t begin, int64_t end) {
    const walk *w = context;
    const int64_t n = w->job->together;
    for (int64_t row = begin; row < end; ++row) {
        run_measure(context, row * n, (row + 1) * n);
        w->steps->combine(w->job, row);
        run_apply(context, row * n, (row + 1) * n);
    }
}
static void run(const channel_job *j, const steps *s) {
    walk w = {j, s};
    const int64_t planes = j->images * j->channels;
    if (j->groups > 0) {
        hd_parallel_range(j->rows, hd_pieces(GRAIN, j->together * j->inner), run_rows, &w);
        return;
    }
    hd_parallel_range(planes, hd_pieces(GRAIN, j->inner), run_measure, &w);
    for (int64_t row = 0; row < j->rows; ++row) s->combine(j, row);
    hd_parallel_range(planes, hd_pieces(GRAIN, j->inner), run_apply, &w);
}

/* ---- the result -------------------------------------------------------------------------------------------------- */
static void measure(const channel_job *j, int64_t plane) {
    double *sums = j->planes[plane];
    const void *x = plane_of(j, j->x, plane);
    const double n = (double)j->inner;
    j->kernels->measure(sums, x, j->inner, 0, false);
    const double mean = sums[0] / n;
    j->kernels->measure(sums, x, j->inner, mean, true); /* around the mean as the type has it */
    const double about = j->bytes == 4 ? (double)(float)mean : mean, rest = sums[0] / n;
    sums[0] = about + rest;
    sums[1] -= n * rest * rest;
}

/* Mean and squares around it, of planes of the same size. */
static void combine(const channel_job *j, int64_t row) {
    double mean = 0, squares = 0;
    for (int64_t k = 0; k < j->together; ++k) mean += j->planes[plane_in(j, row, k)][0];
    mean /= (double)j->together;
    for (int64_t k = 0; k < j->together; ++k) {
        const double *plane = j->planes[plane_in(j, row, k)], away = plane[0] - mean;
        squares += plane[1] + (double)j->inner * away * away;
    }
    const double variance = squares / ((double)j->together * (double)j->inner);
    j->of_rows[row][0] = mean;
    j->of_rows[row][1] = variance < 0 ? 0 : variance;
}

static void apply(const channel_job *j, int64_t plane) {
    const int64_t row = row_of(j, plane);
    const double bias = j->bias == NULL ? 0 : read(j, j->bias, plane % j->channels);
    j->kernels->apply((char *)(uintptr_t)plane_of(j, j->out, plane), plane_of(j, j->x, plane), j->inner,
                      j->of_rows[row][0], scale_of(j, row) * weight_of(j, plane), bias);
}

static channel_job job_of(const hd_call *call, const hd_cpu_operands *o, const hd_tensor *x) {
    const hd_channel_norm_attributes *a = call->attributes;
    const hd_shape *shape = &x->layout.shape;
    channel_job j = {.kernels = o->as == HD_F32 ? &hd_kernels()->plane_f32 : &hd_kernels()->plane_f64,
                     .bytes = hd_dtype_bytes[o->as],
                     .images = shape->size[0],
                     .channels = shape->size[1],
                     .inner = 1,
                     .groups = a->groups,
                     .eps = a->eps,
                     .out = o->to};
    for (int i = 2; i < shape->rank; ++i) j.inner *= shape->size[i];
    j.rows = a->groups == 0 ? j.channels : j.images * a->groups;
    j.together = a->groups == 0 ? j.images : j.channels / a->groups;
    return j;
}

hd_error hd_cpu_channel_norm(hd_thread *thread, hd_call *call) {
    const hd_channel_norm_attributes *a = call->attributes;
    hd_cpu_operands o;
    HD_TRY(hd_cpu_operands_begin(thread, call, 0, &o));
    channel_job j = job_of(call, &o, o.in[0]);
    j.x = o.from[0];
    j.weight = a->weight ? o.from[1] : NULL;
    j.bias = a->bias ? o.from[a->weight ? 2 : 1] : NULL;
    hd_block *workspace = hd_block_new(thread, (size_t)(j.images * j.channels + j.rows + 1) * sizeof *j.planes);
    if (workspace == NULL) return hd_cpu_operands_end(thread, call, &o, thread->error_code);
    j.planes = hd_block_data(workspace);
    j.of_rows = call->output_count > 1 ? call->outputs[1]->storage->data : j.planes + j.images * j.channels;
    static const steps s = {measure, combine, apply};
    run(&j, &s);
    hd_block_release(thread, workspace);
    return hd_cpu_operands_end(thread, call, &o, HD_OK);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
/* With h = g w and z the normalised x: dx = scale (h - mean(h) - z mean(h z)). A plane's sums are those of g and of
 * g (x - mean). */
static void measure_gradient(const channel_job *j, int64_t plane) {
    j->kernels->meet(j->planes[plane], plane_of(j, j->g, plane), plane_of(j, j->x, plane), j->inner,
                     j->of_rows[row_of(j, plane)][0]);
}
/* Behind the planes' sums: of each row the means of h and of h (x - mean). */
static double *means_of(const channel_job *j, int64_t row) { return j->planes[j->images * j->channels + row]; }
static void combine_gradient(const channel_job *j, int64_t row) {
    double level = 0, slope = 0;
    for (int64_t k = 0; k < j->together; ++k) {
        const int64_t plane = plane_in(j, row, k);
        level += weight_of(j, plane) * j->planes[plane][0];
        slope += weight_of(j, plane) * j->planes[plane][1];
    }
    const double n = (double)j->together * (double)j->inner;
    means_of(j, row)[0] = level / n;
    means_of(j, row)[1] = slope / n;
}
static void apply_gradient(const channel_job *j, int64_t plane) {
    const int64_t row = row_of(j, plane);
    const double scale = scale_of(j, row), *means = means_of(j, row);
    j->kernels->back((char *)(uintptr_t)plane_of(j, j->out, plane), plane_of(j, j->g, plane), plane_of(j, j->x, plane),
                     j->inner, j->of_rows[row][0], weight_of(j, plane) * scale, means[1] * scale * scale * scale,
                     means[0] * scale);
}

/* Of weight and bias, [2, c]: over images. */
#define PARAMETERS(T)                                                                                                  \
    for (int64_t c = 0; c < j->channels; ++c) {                                                                        \
        double weight = 0, bias = 0;                                                                                   \
        for (int64_t i = 0; i < j->images; ++i) {                                                                      \
            const int64_t plane = i * j->channels + c;                                                                 \
            weight += j->planes[plane][1] * scale_of(j, row_of(j, plane));                                             \
            bias += j->planes[plane][0];                                                                               \
        }                                                                                                              \
        ((T *)to)[c] = (T)weight;                                                                                      \
        ((T *)to)[j->channels + c] = (T)bias;                                                                          \
    }
static void give_parameters(const channel_job *j, void *to) {
    if (j->bytes == 4) {
        PARAMETERS(float)
    } else {
        PARAMETERS(double)
    }
}

hd_error hd_cpu_channel_norm_gradient(hd_thread *thread, hd_call *call) {
    const hd_channel_norm_attributes *a = call->attributes;
    hd_cpu_operands o;
    HD_TRY(hd_cpu_operands_begin(thread, call, 1u << 2, &o)); /* statistics are f64 */
    channel_job j = job_of(call, &o, o.in[1]);
    j.g = o.from[0];
    j.x = o.from[1];
    j.of_rows = (double(*)[2])(uintptr_t)o.from[2];
    j.weight = a->weight ? o.from[3] : NULL;
    hd_block *workspace = hd_block_new(thread, (size_t)(j.images * j.channels + j.rows + 1) * sizeof *j.planes);
    if (workspace == NULL) return hd_cpu_operands_end(thread, call, &o, thread->error_code);
    j.planes = hd_block_data(workspace);
    static const steps s = {measure_gradient, combine_gradient, apply_gradient};
    run(&j, &s);
    give_parameters(&j, call->outputs[1]->storage->data);
    hd_block_release(thread, workspace);
    return hd_cpu_operands_end(thread, call, &o, HD_OK);
}
