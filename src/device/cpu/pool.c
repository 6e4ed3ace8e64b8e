/* Pooling and its gradients. Each plane (what lies on the last axes) is one thread's, forward and back. Where the windows of
 * an axis begin and end is worked out once. */
#include "device/cpu/cpu.h"

#include <math.h>
#include <string.h>

enum { GRAIN = 16384 };

/* A window on one axis: begin, begin + step, ... below end, inside the image; `whole` counts padding, too. */
typedef struct window {
    int64_t begin, end, whole;
} window;

typedef struct pool_job {
    hd_op_id op;
    size_t bytes;
    const char *first, *x; /* first: x, values or gradient; x: where the largest is looked for */
    char *out;
    int64_t image[3], result[3], step[3]; /* axes that are missing come first, with size 1 */
    const window *windows[3];
    bool exclude_padding;
} pool_job;

/* ---- one plane, one type --------------------------------------------------------------------------------------------------- */
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
    static void plane_##T(const pool_job *j, const T *first, const T *x, T *out) {                                     \
        int64_t at = 0;                                                                                                \
        for (int64_t z = 0; z < j->result[0]; ++z)                                                                     \
            for (int64_t y = 0; y < j->result[1]; ++y)                                                                 \
                for (int64_t i = 0; i < j->result[2]; ++i, ++at) {                                                     \
                    const window *a = &j->windows[0][z], *b = &j->windows[1][y], *c = &j->windows[2][i];               \
                    if (j->op == HD_OP_avg_pool)                                                                       \
                        out[at] = mean_##T(j, first, a, b, c);                                                         \
                    else if (j->op == HD_OP_avg_pool_gradient)                                                         \
                        spread_##T(j, out, first[at], a, b, c);                                                        \
                    else {                                                                                             \
                        const int64_t where = largest_##T(j, x, a, b, c);                                              \
                        if (j->op != HD_OP_max_pool_gradient)                                                          \
                            out[at] = where >= 0 ? first[where] : j->op == HD_OP_max_pool ? -(T)INFINITY : 0;          \
                        else if (where >= 0)                                                                           \
                            out[where] += first[at];                                                                   \
                    }                                                                                                  \
                }                                                                                                      \
    }
POOL(float)
POOL(double)

static void run_planes(void *context, int64_t begin, int64_t end) {
    const pool_job *j = context;
    const int64_t image = j->image[0] * j->image[1] * j->image[2], result = j->result[0] * j->result[1] * j->result[2];
    const bool back = j->op == HD_OP_max_pool_gradient || j->op == HD_OP_avg_pool_gradient;
    const int64_t of_first = back ? result : image, of_out = back ? image : result;
    for (int64_t p = begin; p < end; ++p) {
        const char *first = j->first + p * of_first * (int64_t)j->bytes, *x = j->x + p * image * (int64_t)j->bytes;
        char *out = j->out + p * of_out * (int64_t)j->bytes;
        if (back) memset(out, 0, (size_t)of_out * j->bytes);
        if (j->bytes == 4)
            plane_float(j, (const float *)first, (const float *)x, (float *)out);
        else
            plane_double(j, (const double *)first, (const double *)x, (double *)out);
    }
}

/* ---- windows ------------------------------------------------------------------------------------------------------------------ */
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

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
            out[i].end = least(stop, image);
            out[i].whole = least(stop, image + a->padding.size[2 * axis + 1]) - start;
        }
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
    hd_block *room = hd_block_new(thread, (size_t)lengths * sizeof(window));
    if (room == NULL) return HD_ERROR_MEMORY;
    window *list = hd_block_data(room);
    for (int i = 0; i < 3; ++i) {
        j->windows[i] = list;
        find_windows(a, i - (3 - axes), j->image[i], j->result[i], list);
        list += j->result[i];
    }
    const int64_t plane = j->image[0] * j->image[1] * j->image[2];
    hd_parallel_range(planes, GRAIN / plane + 1, run_planes, j);
    hd_block_release(thread, room);
    return HD_OK;
}

hd_error hd_cpu_pool(hd_thread *thread, hd_call *call) {
    const hd_pool_attributes *a = call->attributes;
    hd_cpu_operands o;
    HD_TRY(hd_cpu_operands_begin(thread, call, 0, &o));
    pool_job j = {.op = (hd_op_id)call->op->id,
                  .bytes = hd_dtype_bytes[o.as],
                  .first = o.from[0],
                  .x = o.from[call->input_count - 1],
                  .out = o.to,
                  .exclude_padding = a->exclude_padding};
    const bool back = j.op == HD_OP_max_pool_gradient || j.op == HD_OP_avg_pool_gradient;
    const hd_shape *in = &call->inputs[0]->layout.shape, *out = &call->shape[0];
    hd_error status = HD_OK;
    if (o.out->count > 0) status = back ? pool(thread, &j, a, out, in) : pool(thread, &j, a, in, out);
    return hd_cpu_operands_end(thread, call, &o, status);
}
