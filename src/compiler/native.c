/* Running native kernels. A part of a kernel's space is the same kernel with other sizes and addresses, so cutting it
 * for threads needs nothing of the kernel itself. */
#include "compiler/native.h"
#include "core/memory.h"
#include "core/pool.h"

#include <string.h>

static int64_t points(const hd_native *n, int from, int to) {
    int64_t count = 1;
    for (int a = from; a < to; ++a) count *= n->geometry[a];
    return count;
}

void hd_native_settle(hd_native *n) {
    const hd_kernel *k = &n->shape;
    const int64_t all = points(n, 0, k->axes);
    int64_t step = 4; /* loads and stores cost even where nothing is computed */
    n->operations = 0;
    for (int i = 0; i < k->count; ++i) {
        const int cost = hd_step_cost(&k->steps[i]);
        n->operations += cost;
        step += cost > 0 ? cost : 1;
    }
    n->split = -1;
    for (int a = 0; a < k->kept; ++a) /* the outermost axis that is long enough, else the longest */
        if (n->split < 0 || (n->geometry[n->split] < 64 && n->geometry[a] > n->geometry[n->split])) n->split = a;
    n->scratch_bytes = 0;
    if (k->slots > 0) {
        const size_t slot = ((size_t)points(n, k->kept, k->axes) + k->width) * 8;
        n->geometry[hd_geometry_slot(k)] = (int64_t)slot;
        n->scratch_bytes = slot * k->slots;
    } else {
        n->geometry[hd_geometry_slot(k)] = 0;
    }
    if (__builtin_mul_overflow(all, step, &n->cost)) n->cost = INT64_MAX;
    if (n->split < 0) return;
    const int64_t size = n->geometry[n->split], per = size > 0 ? all / size * step : 1;
    n->grain = per >= HD_WORTH_A_THREAD ? 1 : HD_WORTH_A_THREAD / (per > 0 ? per : 1) + 1;
    if (n->split == k->lanes && n->grain < 4 * k->width) n->grain = 4 * k->width;
}

void hd_native_run_tile(const hd_native *n, char *const *buffers, int tile, const void *at, int rows, int64_t stride,
                        const int64_t *begin, const int64_t *size) {
    const hd_kernel *k = &n->shape;
    int64_t geometry[HD_GEOMETRY_MOST];
    char *moved[HD_KERNEL_BUFFERS];
    memcpy(geometry, n->geometry, (size_t)(hd_geometry_slot(k) + 1) * sizeof *geometry);
    for (int b = 0; b < k->buffer_count; ++b) {
        int64_t offset = 0;
        for (int a = 0; a < k->kept; ++a) offset += begin[a] * geometry[hd_geometry_stride(k, b, a)];
        moved[b] = b == tile ? (char *)(uintptr_t)at : buffers[b] + offset * hd_dtype_bytes[k->buffers[b].dtype];
    }
    geometry[hd_geometry_stride(k, tile, rows)] = stride;
    for (int a = 0; a < k->kept; ++a) {
        geometry[a] = size[a];
        geometry[hd_geometry_base(k, a)] += begin[a];
    }
    n->code->run(moved, geometry, n->numbers, NULL);
}

typedef struct part {
    const hd_native *n;
    char *const *buffers;
    char *scratch;
    int64_t size, step;
} part;

void hd_native_run_part(const hd_native *n, char *const *given, char *scratch, int64_t begin, int64_t end) {
    const hd_kernel *k = &n->shape;
    const int axis = n->split;
    int64_t geometry[HD_GEOMETRY_MOST];
    char *buffers[HD_KERNEL_BUFFERS];
    memcpy(geometry, n->geometry, (size_t)(hd_geometry_slot(k) + 1) * sizeof *geometry);
    geometry[axis] = end - begin;
    geometry[hd_geometry_base(k, axis)] += begin;
    for (int b = 0; b < k->buffer_count; ++b)
        buffers[b] = given[b] + begin * geometry[hd_geometry_stride(k, b, axis)] * hd_dtype_bytes[k->buffers[b].dtype];
    n->code->run(buffers, geometry, n->numbers, scratch);
}

static void run_chunk(void *context, int64_t chunk) {
    const part *p = context;
    const int64_t begin = chunk * p->step, end = begin + p->step < p->size ? begin + p->step : p->size;
    hd_native_run_part(p->n, p->buffers, p->scratch + (size_t)chunk * p->n->scratch_bytes, begin, end);
}

enum { CHUNKS_PER_THREAD = 4 }; /* the cores of shared machines are not equally quick */

size_t hd_native_room(const hd_native *n) { return n->scratch_bytes * (size_t)(hd_pool_threads() * CHUNKS_PER_THREAD); }

void hd_native_run(const hd_native *n, char *const *buffers, char *room, size_t room_bytes) {
    const int64_t size = n->split < 0 ? 1 : n->geometry[n->split];
    int64_t chunks = n->split < 0 ? 1 : size / n->grain;
    const int threads = chunks > 1 ? hd_pool_threads() : 1;
    if (chunks > CHUNKS_PER_THREAD * threads) chunks = CHUNKS_PER_THREAD * threads;
    if (n->scratch_bytes > 0 && chunks > (int64_t)(room_bytes / n->scratch_bytes))
        chunks = (int64_t)(room_bytes / n->scratch_bytes); /* more threads than when the room was made */
    if (threads == 1 || chunks <= 1) {
        n->code->run(buffers, n->geometry, n->numbers, room);
        return;
    }
    part p = {n, buffers, room, size, (size + chunks - 1) / chunks};
    if (n->split == n->shape.lanes) p.step = (p.step + n->shape.width - 1) / n->shape.width * n->shape.width;
    hd_parallel((size + p.step - 1) / p.step, run_chunk, &p);
}

void hd_native_release(hd_native *n) {
    if (n->code != NULL) hd_code_release(n->code);
    hd_kernel_release(&n->shape);
    hd_array_release(n->geometry);
    hd_array_release(n->numbers);
    memset(n, 0, sizeof *n);
}
