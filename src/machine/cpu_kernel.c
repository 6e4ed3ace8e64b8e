/* Cutting kernels for threads, and running them. A part of a kernel's space is the same kernel with other sizes and
 * addresses, so cutting it needs nothing of the kernel itself. */
#include "core/pool.h"
#include "machine/cpu.h"

#include <string.h>

static int64_t points(const hd_native *n, int from, int to) {
    int64_t count = 1;
    for (int a = from; a < to; ++a) count *= n->geometry[a];
    return count;
}

void hd_cpu_cut_kernel(hd_native *n, hd_cpu_cut *cut) {
    const hd_kernel *k = &n->shape;
    const int64_t all = points(n, 0, k->axes);
    int64_t step = 4; /* loads and stores cost even where nothing is computed */
    for (int i = 0; i < k->count; ++i) {
        const int cost = hd_step_cost(&k->steps[i]);
        step += cost > 0 ? cost : 1;
    }
    *cut = (hd_cpu_cut){.split = -1};
    for (int a = 0; a < k->kept; ++a) /* the outermost axis that is long enough, else the longest */
        if (cut->split < 0 || (n->geometry[cut->split] < 64 && n->geometry[a] > n->geometry[cut->split]))
            cut->split = a;
    n->geometry[hd_geometry_slot(k)] = 0;
    if (k->schedule.slots > 0) {
        const size_t slot = ((size_t)points(n, k->kept, k->axes) + k->schedule.width) * 8;
        n->geometry[hd_geometry_slot(k)] = (int64_t)slot;
        cut->scratch_bytes = slot * k->schedule.slots;
    }
    if (__builtin_mul_overflow(all, step, &cut->cost)) cut->cost = INT64_MAX;
    if (cut->split < 0) return;
    const int64_t size = n->geometry[cut->split], per = size > 0 ? all / size * step : 1;
    cut->grain = per >= HD_WORTH_A_THREAD ? 1 : HD_WORTH_A_THREAD / (per > 0 ? per : 1) + 1;
    const int width = k->schedule.width;
    if (cut->split == k->schedule.lanes && cut->grain < 4 * width) cut->grain = 4 * width;
}

void hd_cpu_run_tile(const hd_plan_native *n, char *const *buffers, const void *at, int64_t stride,
                     const int64_t *begin, const int64_t *size) {
    const hd_kernel *k = &n->native.shape;
    int64_t geometry[HD_GEOMETRY_MOST];
    char *moved[HD_KERNEL_BUFFERS];
    memcpy(geometry, n->native.geometry, (size_t)(hd_geometry_slot(k) + 1) * sizeof *geometry);
    for (int b = 0; b < k->buffer_count; ++b) {
        int64_t offset = 0;
        for (int a = 0; a < k->kept; ++a) offset += begin[a] * geometry[hd_geometry_stride(k, b, a)];
        moved[b] = b == n->tile ? (char *)(uintptr_t)at : buffers[b] + offset * hd_dtype_bytes[k->buffers[b].dtype];
    }
    geometry[hd_geometry_stride(k, n->tile, n->rows)] = stride;
    for (int a = 0; a < k->kept; ++a) {
        geometry[a] = size[a];
        geometry[hd_geometry_base(k, a)] += begin[a];
    }
    n->code->run(moved, geometry, n->native.numbers, NULL);
}

void hd_cpu_run_rows(const hd_plan_native *n, const hd_cpu_cut *cut, char *const *given, char *scratch, int64_t begin,
                     int64_t end) {
    const hd_kernel *k = &n->native.shape;
    const int axis = cut->split;
    int64_t geometry[HD_GEOMETRY_MOST];
    char *buffers[HD_KERNEL_BUFFERS];
    memcpy(geometry, n->native.geometry, (size_t)(hd_geometry_slot(k) + 1) * sizeof *geometry);
    geometry[axis] = end - begin;
    geometry[hd_geometry_base(k, axis)] += begin;
    for (int b = 0; b < k->buffer_count; ++b)
        buffers[b] = given[b] + begin * geometry[hd_geometry_stride(k, b, axis)] * hd_dtype_bytes[k->buffers[b].dtype];
    n->code->run(buffers, geometry, n->native.numbers, scratch);
}

typedef struct chunks {
    const hd_plan_native *n;
    const hd_cpu_cut *cut;
    char *const *buffers;
    char *scratch;
    int64_t size, step;
} chunks;

static void run_chunk(void *context, int64_t chunk) {
    const chunks *c = context;
    const int64_t begin = chunk * c->step, end = begin + c->step < c->size ? begin + c->step : c->size;
    hd_cpu_run_rows(c->n, c->cut, c->buffers, c->scratch + (size_t)chunk * c->cut->scratch_bytes, begin, end);
}

enum { CHUNKS_PER_THREAD = 4 }; /* the cores of shared machines are not equally quick */

size_t hd_cpu_kernel_workspace(const hd_cpu_cut *cut) {
    return cut->scratch_bytes * (size_t)(hd_pool_threads() * CHUNKS_PER_THREAD);
}

void hd_cpu_run_kernel(const hd_plan_native *n, const hd_cpu_cut *cut, char *const *buffers, char *workspace,
                       size_t workspace_bytes) {
    const int64_t size = cut->split < 0 ? 1 : n->native.geometry[cut->split];
    int64_t count = cut->split < 0 ? 1 : size / cut->grain;
    const int threads = count > 1 ? hd_pool_threads() : 1;
    if (count > CHUNKS_PER_THREAD * threads) count = CHUNKS_PER_THREAD * threads;
    if (cut->scratch_bytes > 0 && count > (int64_t)(workspace_bytes / cut->scratch_bytes))
        count = (int64_t)(workspace_bytes / cut->scratch_bytes); /* more threads than when the workspace was made */
    if (threads == 1 || count <= 1) {
        n->code->run(buffers, n->native.geometry, n->native.numbers, workspace);
        return;
    }
    chunks c = {n, cut, buffers, workspace, size, (size + count - 1) / count};
    const hd_schedule *s = &n->native.shape.schedule;
    if (cut->split == s->lanes) c.step = (c.step + s->width - 1) / s->width * s->width;
    hd_parallel((size + c.step - 1) / c.step, run_chunk, &c);
}
