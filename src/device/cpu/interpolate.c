/* The fused form of interpolation along an axis: neighbours are read where they are, and meet in the kernel of lerp. */
#include "device/cpu/cpu.h"
#include "device/cpu/sizes.h"

#include <string.h>

enum { GRAIN = 16384, RUN = 512 }; /* elements worth a thread, and at a time */

typedef struct interpolation {
    hd_elementwise_kernel lerp;
    size_t bytes;
    int64_t from, to, inner; /* [outer, from, inner] -> [outer, to, inner] */
    const char *x, *part;
    const int64_t *index;
    char *out;
} interpolation;

static int64_t next_of(const interpolation *j, int64_t index) { return index + 1 < j->from ? index + 1 : index; }

#define SPREAD(T)                                                                                                      \
    for (int64_t i = 0; i < run; ++i) ((T *)(void *)parts)[i] = ((const T *)(const void *)j->part)[k];
/* The axis is not the last one: rows of it meet. Counted in rows of the result. */
static void run_slices(void *context, int64_t begin, int64_t end) {
    const interpolation *j = context;
    _Alignas(64) char parts[RUN * 8];
    for (int64_t r = begin; r < end; ++r) {
        const int64_t k = r % j->to, image = r / j->to * j->from, run = hd_least(RUN, j->inner);
        const char *low = j->x + (size_t)((image + j->index[k]) * j->inner) * j->bytes,
                   *high = j->x + (size_t)((image + next_of(j, j->index[k])) * j->inner) * j->bytes;
        char *out = j->out + (size_t)(r * j->inner) * j->bytes;
        if (j->bytes == 4) {
            SPREAD(uint32_t)
        } else {
            SPREAD(uint64_t)
        }
        for (int64_t i = 0; i < j->inner; i += RUN) {
            const size_t at = (size_t)i * j->bytes;
            j->lerp(out + at, (const void *[3]){low + at, high + at, parts}, NULL, hd_least(RUN, j->inner - i));
        }
    }
}

#define GATHER(T)                                                                                                      \
    for (int64_t i = 0; i < n; ++i) {                                                                                  \
        const T *x = (const T *)(const void *)row;                                                                     \
        const int64_t at = index[i];                                                                                   \
        ((T *)(void *)low)[i] = x[at];                                                                                 \
        ((T *)(void *)high)[i] = x[at < last ? at + 1 : at];                                                           \
    }
/* The last axis: its elements are gathered. Counted in rows of x. */
static void run_rows(void *context, int64_t begin, int64_t end) {
    const interpolation *j = context;
    _Alignas(64) char low[RUN * 8], high[RUN * 8];
    for (int64_t r = begin; r < end; ++r) {
        const char *row = j->x + (size_t)(r * j->from) * j->bytes;
        for (int64_t first = 0; first < j->to; first += RUN) {
            const int64_t n = hd_least(RUN, j->to - first), last = j->from - 1, *index = j->index + first;
            if (j->bytes == 4) {
                GATHER(uint32_t)
            } else {
                GATHER(uint64_t)
            }
            j->lerp(j->out + (size_t)(r * j->to + first) * j->bytes,
                    (const void *[3]){low, high, j->part + (size_t)first * j->bytes}, NULL, n);
        }
    }
}

hd_error hd_cpu_interpolate(hd_thread *thread, hd_call *call) {
    const int axis = ((const hd_axis_attributes *)call->attributes)->axis;
    hd_cpu_operands o;
    HD_TRY(hd_cpu_operands_begin(thread, call, 1u << 1, &o));
    const hd_shape *from = &o.in[0]->layout.shape;
    interpolation j = {.lerp = hd_kernels()->elementwise[hd_dtype_compute[o.as]][HD_OP_lerp],
                       .bytes = hd_dtype_bytes[o.as],
                       .from = from->size[axis],
                       .to = call->shape[0].size[axis],
                       .inner = 1,
                       .x = o.from[0],
                       .index = o.from[1],
                       .part = o.from[2],
                       .out = o.to};
    int64_t outer = 1;
    for (int i = 0; i < axis; ++i) outer *= from->size[i];
    for (int i = axis + 1; i < from->rank; ++i) j.inner *= from->size[i];
    if (o.out->count == 0)
        ; /* nothing to do */
    else if (j.inner > 1)
        hd_parallel_range(outer * j.to, hd_pieces(GRAIN, j.inner), run_slices, &j);
    else
        hd_parallel_range(outer, hd_pieces(GRAIN, j.to), run_rows, &j);
    return hd_cpu_operands_end(thread, call, &o, HD_OK);
}
