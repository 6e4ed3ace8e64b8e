/* Measuring the machine: the matrix product's own micro-kernel from the nearest caches, and copies too large for
 * any. */
#include "device/cpu/peak.h"
#include "core/memory.h"
#include "core/os.h"
#include "core/pool.h"
#include "device/cpu/kernels.h"

#include <pthread.h>
#include <string.h>

enum { K = 256, ROUNDS = 400, COPY_BYTES = 1 << 26, CHUNKS = 64 };

static double seconds(void) { return (double)hd_os_nanoseconds() * 1e-9; }

static const hd_gemm_kernels *quickest(void) {
    const hd_cpu_kernels *k = hd_kernels();
    return k->gemm_parts.mr > 0 ? &k->gemm_parts : &k->gemm_f32;
}

static void multiply_tiles(void *context, int64_t chunk) {
    (void)context, (void)chunk;
    const hd_gemm_kernels *g = quickest();
    _Alignas(64) static char a[K * 32 * 6], b[K * 64 * 6]; /* packed zeros are as quick as any number */
    _Alignas(64) float c[32 * 64];
    if (g->mr > 32 || g->nr > 64 || g->packed_bytes > 6) return;
    if (g->enter != NULL) g->enter();
    for (int i = 0; i < ROUNDS; ++i) g->tile(K, a, b, g->nr, c, g->nr, false);
    if (g->leave != NULL) g->leave();
}

static void copy_part(void *context, int64_t chunk) {
    char *memory = context;
    memcpy(memory + chunk * (COPY_BYTES / CHUNKS), memory + COPY_BYTES + chunk * (COPY_BYTES / CHUNKS),
           COPY_BYTES / CHUNKS);
}

static double peak_flops, peak_bytes;
static void measure(void) {
    const hd_gemm_kernels *g = quickest();
    const int threads = hd_pool_threads();
    for (int i = 0; i < 4; ++i) {
        const double begin = seconds();
        hd_parallel(threads * 4, multiply_tiles, NULL);
        const double rate = 2.0 * g->mr * g->nr * K * ROUNDS * threads * 4 / (seconds() - begin) * 1e-9;
        if (rate > peak_flops) peak_flops = rate;
    }
    char *memory = hd_array_resize(NULL, (size_t)2 * COPY_BYTES);
    if (memory != NULL) memset(memory, 0, (size_t)2 * COPY_BYTES);
    for (int i = 0; i < 3 && memory != NULL; ++i) {
        const double begin = seconds();
        hd_parallel(CHUNKS, copy_part, memory);
        const double rate = 2.0 * COPY_BYTES / (seconds() - begin) * 1e-9;
        if (rate > peak_bytes) peak_bytes = rate;
    }
    hd_array_release(memory);
    if (peak_bytes == 0) peak_bytes = 1; /* no memory to measure with */
}

void hd_cpu_peak(double *gflops, double *gbytes) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, measure);
    *gflops = peak_flops;
    *gbytes = peak_bytes;
}
