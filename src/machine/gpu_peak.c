/* What a GPU can do at most, measured the first time that somebody asks: what profiles hold launches against. */
#include "machine/gpu.h"

enum { THREADS = 256, ROUNDS = 4096, GROUPS = 1024, COPIED = 1 << 24, MORE = 1 << 27, QUICK = 200000 };
typedef struct peak_arguments { /* as template_peak.h has it */
    int64_t offset[2], count;
} peak_arguments;

/* The shortest of a few launches, in nanoseconds; 0: it failed. */
static double shortest(const hd_gpu_device *d, const char *function, int64_t count, uint32_t groups, void *x, void *y) {
    const hd_template_use use = {.which = HD_TEMPLATE_peak, .types = {HD_F32}, .numbers = {THREADS}};
    peak_arguments a = {.count = count};
    const hd_gpu_shot shot = {.use = &use,
                              .function = function,
                              .groups = {groups},
                              .threads = THREADS,
                              .buffers = {x, y},
                              .buffer_count = 2,
                              .arguments = &a,
                              .argument_bytes = sizeof a};
    int64_t best = 0, *before = hd_gpu_nanoseconds;
    for (int i = 0; i < 4; ++i) {
        int64_t took = 0;
        hd_gpu_nanoseconds = &took;
        const hd_error status = hd_gpu_shoot(d, &shot);
        hd_gpu_nanoseconds = before;
        if (status != HD_OK) return 0;
        if (best == 0 || (took > 0 && took < best)) best = took;
    }
    return (double)best;
}

/* Both, with so many elements to be copied; how long the copy took. */
static double measure(hd_thread *thread, const hd_gpu_device *d, int64_t count, double *gflops, double *gbytes) {
    const hd_gpu_limits *limits = d->gpu->limits(d->device.index);
    hd_block *x = limits == NULL ? NULL : hd_gpu_workspace(thread, d, (size_t)count * 4),
             *y = x == NULL ? NULL : hd_gpu_workspace(thread, d, (size_t)count * 4);
    double copied = 0;
    if (y != NULL && limits->group_most >= THREADS) {
        const float one = 1;
        hd_device_interface_of(d->device.kind)
            ->fill(thread, (hd_address){d->device, x->address}, &one, sizeof one, (size_t)count);
        const uint32_t groups = limits->processors * 8 < GROUPS ? limits->processors * 8 : GROUPS;
        const double multiplied = shortest(d, "peak_multiply", ROUNDS, groups, x->address, y->address);
        copied = shortest(d, "peak_copy", count, (uint32_t)(count / THREADS), x->address, y->address);
        if (multiplied > 0) *gflops = 16.0 * ROUNDS * THREADS * groups / multiplied;
        if (copied > 0) *gbytes = 8.0 * (double)count / copied;
    }
    if (x != NULL) hd_block_release(thread, x);
    if (y != NULL) hd_block_release(thread, y);
    return copied;
}

/* A device that copies quickly has a cache that much of a small copy fits into, and a launch takes part of its time. */
void hd_gpu_measure_peak(const hd_gpu_device *d, double *gflops, double *gbytes) {
    hd_thread *thread = hd_thread_self();
    hd_error_copy pending;
    hd_error_take(&pending);
    *gflops = *gbytes = 0;
    const double took = measure(thread, d, COPIED, gflops, gbytes);
    if (took > 0 && took < QUICK) measure(thread, d, MORE, gflops, gbytes);
    hd_error_put_back(&pending); /* a device without memory to measure with has no peak, and that is no error */
}
