/* Pooling and its gradients. Each plane (what lies on the last axes) is one thread's, forward and back. Where the
 * windows of an axis begin and end is worked out once. Results side by side are computed together, a tap of their
 * windows at a time, so that nothing depends on what the numbers are; windows of different lengths (adaptive ones) one
 * by one. */
#include "device/cpu/cpu.h"
#include "device/cpu/sizes.h"

#include <math.h>
#include <string.h>

enum {
    GRAIN = 16384,
    TOGETHER = 256, /* results, on the stack of a small thread */
    MOST_TAPS = 64  /* of windows that are walked together: longer ones have few results beside each other */
};

/* A window on one axis: begin, begin + step, ... below end, inside the image; `whole` counts padding, too. */
typedef struct window {
    int64_t begin, end, whole;
} window;

/* A tap of the windows of the last axis: what result 0 would see, and which results see the image there. */
typedef struct tap {
    int64_t from, begin, end;
} tap;

/* What is computed: the largest or the mean of each window, `values` where the largest of x is, or gradients of the
 * first two. */
typedef enum pooling { LARGEST, MEAN, PICK, LARGEST_BACK, MEAN_BACK } pooling;

typedef struct pool_job {
    pooling what;
    size_t bytes;
    const char *first, *x; /* first: x, values or gradient; x: where the largest is looked for */
    char *out;
    int64_t image[3], result[3], step[3]; /* axes that are missing come first, with size 1 */
    const window *windows[3];
    const tap *taps; /* NULL: windows of the last axis are not all alike */
    bool of_4;       /* windows of 2 x 2 beside each other, without padding: most networks have these */
    int64_t tap_count, stride;
    bool exclude_padding;
} pool_job;

/* ---- results side by side ---------------------------------------------------------------------------------------- */
typedef enum wanted { SUM, BEST, PLACE } wanted;
/* Some results of a line, `count` from `first` on, and what is wanted of them. */
typedef struct together {
    wanted what;
    int64_t first, count;
    char *best; /* of the type: the results themselves, or `aside` */
    double sum[TOGETHER], aside[TOGETHER];
    int32_t where[TOGETHER]; /* in the plane */
} together;

/* One line of the image, which begins at `line` in the plane, for every tap of the last axis. */
static void see_line(const pool_job *j, const char *x, int64_t line, together *t) {
    const hd_pool_kernels *k = j->bytes == 4 ? &hd_kernels()->pool_f32 : &hd_kernels()->pool_f64;
    for (const tap *p = j->taps; p < j->taps + j->tap_count; ++p) {
        const int64_t begin = hd_most(p->begin, t->first), end = hd_least(p->end, t->first + t->count);
        if (begin >= end) continue;
        const int64_t at = line + p->from + begin * j->stride, i = begin - t->first, n = end - begin;
        const char *seen = x + at * (int64_t)j->bytes;
        if (t->what == SUM)
            k->add(t->sum + i, seen, j->stride, n);
        else if (t->what == BEST)
            k->larger(t->best + i * (int64_t)j->bytes, seen, j->stride, n);
        else
            k->larger_at(t->best + i * (int64_t)j->bytes, t->where + i, seen, j->stride, n, (int32_t)at);
    }
}

static void see_all(const pool_job *j, const char *x, const window *a, const window *b, together *t) {
    for (int64_t i = 0; t->what == SUM && i < t->count; ++i) t->sum[i] = 0;
    for (int64_t i = 0; t->what == PLACE && i < t->count; ++i) t->where[i] = -1;
    for (int64_t i = 0; t->what != SUM && i < t->count; ++i)
        if (j->bytes == 4)
            ((float *)(void *)t->best)[i] = -INFINITY;
        else
            ((double *)(void *)t->best)[i] = -INFINITY;
    for (int64_t z = a->begin; z < a->end; z += j->step[0])
        for (int64_t y = b->begin; y < b->end; y += j->step[1]) see_line(j, x, (z * j->image[1] + y) * j->image[2], t);
}

/* ---- one plane, one type ----------------------------------------------------------------------------------------- */
#define POOL(T)                                                                                                        \
    /* the place of the largest in a window; -1 in one that sees only padding */                                       \
    static int64_t largest_##T(const pool_job *j, const T *x, const window *a, const window *b, const window *c) {     \
        int64_t where = -1;                                                                                            \
        T best = -(T)INFINITY;                                                                                         \
        for (int64_t z = a->begin; z < a->end; z += j->step[0])                                                        \
            for (int64_t y = b->begin; y < b->end; y += j->step[1])                                                    \
                for (int64_t i = c->begin; i < c->end; i += j->step[2]) {                                              \
                    const int64_t at = (z * j->image[1] + y) * j->image[2] + i;                                        \
                    if (x[at] > best || x[at] != x[at] || where < 0) best = x[at], where = at;                         \
                }                                                                                                      \
        return where;                                                                                                  \
    }                                                                                                                  \
    static double divisor_##T(const pool_job *j, const window *a, const window *b, const window *c) {                  \
        return j->exclude_padding ? (double)((a->end - a->begin) * (b->end - b->begin) * (c->end - c->begin))          \
                                  : (double)(a->whole * b->whole * c->whole);                                          \
    }                                                                                                                  \
    static T mean_##T(const pool_job *j, const T *x, const window *a, const window *b, const window *c) {              \
        double sum = 0;                                                                                                \
        for (int64_t z = a->begin; z < a->end; ++z)                                                                    \
            for (int64_t y = b->begin; y < b->end; ++y)                                                                \
                for (int64_t i = c->begin; i < c->end; ++i) sum += (double)x[(z * j->image[1] + y) * j->image[2] + i]; \
        return (T)(sum / divisor_##T(j, a, b, c));                                                                     \
    }                                                                                                                  \
    static void spread_##T(const pool_job *j, T *x, T value, const window *a, const window *b, const window *c) {      \
        const T share = value / (T)divisor_##T(j, a, b, c);                                                            \
        for (int64_t z = a->begin; z < a->end; ++z)                                                                    \
            for (int64_t y = b->begin; y < b->end; ++y)                                                                \
                for (int64_t i = c->begin; i < c->end; ++i) x[(z * j->image[1] + y) * j->image[2] + i] += share;       \
    }                                                                                                                  \
    static void put_##T(const pool_job *j, const T *first, const together *t, const window *a, const window *b,        \
                        T *out, int64_t at) {                                                                          \
        for (int64_t i = 0; t->what == SUM && i < t->count; ++i)                                                       \
            out[at + i] = (T)(t->sum[i] / divisor_##T(j, a, b, &j->windows[2][t->first + i]));                         \
        for (int64_t i = 0; t->what == PLACE && i < t->count; ++i)                                                     \
            if (j->what != LARGEST_BACK)                                                                               \
                out[at + i] = t->where[i] >= 0 ? first[t->where[i]] : 0;                                               \
            else if (t->where[i] >= 0)                                                                                 \
                out[t->where[i]] += first[at + i];                                                                     \
    }                                                                                                                  \
    static void lines_##T(const pool_job *j, const T *first, const T *x, T *out) {                                     \
        together t = {.what = j->what == MEAN ? SUM : j->what == LARGEST ? BEST : PLACE};                              \
        for (int64_t z = 0; z < j->result[0]; ++z)                                                                     \
            for (int64_t y = 0; y < j->result[1]; ++y)                                                                 \
                for (t.first = 0; t.first < j->result[2]; t.first += t.count) {                                        \
                    const window *a = &j->windows[0][z], *b = &j->windows[1][y];                                       \
                    const int64_t at = (z * j->result[1] + y) * j->result[2] + t.first;                                \
                    t.count = j->result[2] - t.first < TOGETHER ? j->result[2] - t.first : TOGETHER;                   \
                    t.best = t.what == BEST ? (char *)(out + at) : (char *)t.aside;                                    \
                    see_all(j, (const char *)(t.what == SUM ? first : x), a, b, &t);                                   \
                    put_##T(j, first, &t, a, b, out, at);                                                              \
                }                                                                                                      \
    }                                                                                                                  \
    static void plane_##T(const pool_job *j, const T *first, const T *x, T *out) {                                     \
        int64_t at = 0;                                                                                                \
        if (j->taps != NULL && j->what != MEAN_BACK) {                                                                 \
            lines_##T(j, first, x, out);                                                                               \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t z = 0; z < j->result[0]; ++z)                                                                     \
            for (int64_t y = 0; y < j->result[1]; ++y)                                                                 \
                for (int64_t i = 0; i < j->result[2]; ++i, ++at) {                                                     \
                    const window *a = &j->windows[0][z], *b = &j->windows[1][y], *c = &j->windows[2][i];               \
                    if (j->what == MEAN)                                                                               \
                        out[at] = mean_##T(j, first, a, b, c);                                                         \
                    else if (j->what == MEAN_BACK)                                                                     \
                        spread_##T(j, out, first[at], a, b, c);                                                        \
                    else {                                                                                             \
                        const int64_t where = largest_##T(j, x, a, b, c);                                              \
                        if (j->what != LARGEST_BACK)                                                                   \
                            out[at] = where >= 0 ? first[where] : j->what == LARGEST ? -(T)INFINITY : 0;               \
                        else if (where >= 0)                                                                           \
                            out[where] += first[at];                                                                   \
                    }                                                                                                  \
                }                                                                                                      \
    }
POOL(float)
POOL(double)

/* Planes beside each other, when they have windows of 2 x 2. */
static bool planes_of_4(const pool_job *j, int64_t planes, const char *first, const char *x, char *out) {
    const hd_pool_kernels *k = j->bytes == 4 ? &hd_kernels()->pool_f32 : &hd_kernels()->pool_f64;
    if (j->of_4 && j->what == LARGEST)
        k->larger_of_4(out, x, j->image[2], planes * j->result[1], j->result[2]);
    else if (j->of_4 && j->what == LARGEST_BACK)
        k->larger_of_4_back(out, first, x, j->image[2], planes * j->result[1], j->result[2]);
    else
        return false;
    return true;
}

static void run_planes(void *context, int64_t begin, int64_t end) {
    const pool_job *j = context;
    const int64_t image = j->image[0] * j->image[1] * j->image[2], result = j->result[0] * j->result[1] * j->result[2];
    const bool back = j->what == LARGEST_BACK || j->what == MEAN_BACK,
               seen = j->of_4 && 4 * result == image && (j->what == LARGEST || j->what == LARGEST_BACK);
    const int64_t of_first = back ? result : image, of_out = back ? image : result, step = seen ? end - begin : 1;
    for (int64_t p = begin; p < end; p += step) {
        const char *first = j->first + p * of_first * (int64_t)j->bytes, *x = j->x + p * image * (int64_t)j->bytes;
        char *out = j->out + p * of_out * (int64_t)j->bytes;
        if (back && !seen) memset(out, 0, (size_t)of_out * j->bytes);
        if (planes_of_4(j, step, first, x, out)) continue;
        if (j->bytes == 4)
            plane_float(j, (const float *)first, (const float *)x, (float *)out);
        else
            plane_double(j, (const double *)first, (const double *)x, (double *)out);
    }
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */
static void find_windows(const hd_pool_attributes *a, int axis, int64_t image, int64_t result, window *out) {
    for (int64_t i = 0; i < result; ++i) {
        if (axis < 0) {
            out[i] = (window){0, 1, 1};
        } else if (a->adaptive) {
            const int64_t each = image / result, rest = image % result; /* i * image might overflow */
            out[i].begin = i * each + i * rest / result;
            out[i].end = (i + 1) * each + ((i + 1) * rest + result - 1) / result;
            out[i].whole = out[i].end - out[i].begin;
        } else {
            const int64_t dilation = a->dilation.size[axis],
                          start = i * a->stride.size[axis] - a->padding.size[2 * axis],
                          stop = start + dilation * (a->window.size[axis] - 1) + 1;
            out[i].begin = start >= 0 ? start : start + (-start + dilation - 1) / dilation * dilation;
            out[i].end = hd_least(stop, image);
            out[i].whole = hd_least(stop, image + a->padding.size[2 * axis + 1]) - start;
        }
    }
}

static bool is_of_4(const pool_job *j, const hd_pool_attributes *a) {
    if (a->adaptive || a->window.rank != 2) return false;
    for (int i = 0; i < 2; ++i)
        if (a->window.size[i] != 2 || a->stride.size[i] != 2 || a->dilation.size[i] != 1 ||
            2 * j->result[1 + i] > j->image[1 + i] || a->padding.size[2 * i] != 0)
            return false;
    return true;
}

/* The taps of the last axis, `image` long, in `out`. */
static void find_taps(pool_job *j, const hd_pool_attributes *a, int64_t image, tap *out) {
    const int last = a->window.rank - 1;
    j->taps = out;
    j->tap_count = a->window.size[last];
    j->stride = a->stride.size[last];
    for (int64_t i = 0; i < j->tap_count; ++i) {
        const int64_t from = i * a->dilation.size[last] - a->padding.size[2 * last], left = image - 1 - from;
        out[i] = (tap){.from = from,
                       .begin = from >= 0 ? 0 : (-from + j->stride - 1) / j->stride,
                       .end = left < 0 ? 0 : left / j->stride + 1};
    }
}

static hd_error pool(hd_thread *thread, pool_job *j, const hd_pool_attributes *a, const hd_shape *image,
                     const hd_shape *result) {
    const int axes = a->window.rank;
    int64_t lengths = 0, planes = 1;
    for (int i = 0; i < image->rank - axes; ++i) planes *= image->size[i];
    for (int i = 0; i < 3; ++i) {
        const int from = i - (3 - axes), at = image->rank - axes + from;
        j->image[i] = from < 0 ? 1 : image->size[at];
        j->result[i] = from < 0 ? 1 : result->size[at];
        j->step[i] = from < 0 || a->adaptive ? 1 : a->dilation.size[from];
        lengths += j->result[i];
    }
    const int64_t plane = j->image[0] * j->image[1] * j->image[2];
    const bool alike = !a->adaptive && plane <= INT32_MAX && a->window.size[axes - 1] <= MOST_TAPS;
    const size_t taps = alike ? (size_t)a->window.size[axes - 1] * sizeof(tap) : 0;
    hd_block *workspace = hd_block_new(thread, (size_t)lengths * sizeof(window) + taps);
    if (workspace == NULL) return HD_ERROR_MEMORY;
    window *list = hd_block_data(workspace);
    for (int i = 0; i < 3; ++i) {
        j->windows[i] = list;
        find_windows(a, i - (3 - axes), j->image[i], j->result[i], list);
        list += j->result[i];
    }
    j->of_4 = is_of_4(j, a);
    if (alike) find_taps(j, a, j->image[2], (tap *)(void *)list);
    hd_parallel_range(planes, GRAIN / plane + 1, run_planes, j);
    hd_block_release(thread, workspace);
    return HD_OK;
}

static hd_error run_pool(hd_thread *thread, hd_call *call, pooling what) {
    const hd_pool_attributes *a = call->attributes;
    hd_cpu_operands o;
    HD_TRY(hd_cpu_operands_begin(thread, call, 0, &o));
    pool_job j = {.what = what,
                  .bytes = hd_dtype_bytes[o.as],
                  .first = o.from[0],
                  .x = o.from[call->input_count - 1],
                  .out = o.to,
                  .exclude_padding = a->exclude_padding};
    const bool back = j.what == LARGEST_BACK || j.what == MEAN_BACK;
    const hd_shape *in = &call->inputs[0]->layout.shape, *out = &call->shape[0];
    hd_error status = HD_OK;
    if (o.out->count > 0) status = back ? pool(thread, &j, a, out, in) : pool(thread, &j, a, in, out);
    return hd_cpu_operands_end(thread, call, &o, status);
}

#define POOLING(name, what)                                                                                            \
    hd_error hd_cpu_##name(hd_thread *thread, hd_call *call) { return run_pool(thread, call, what); }
POOLING(max_pool, LARGEST)
POOLING(avg_pool, MEAN)
POOLING(max_pool_pick, PICK)
POOLING(max_pool_gradient, LARGEST_BACK)
POOLING(avg_pool_gradient, MEAN_BACK)
