/* What this machine can do. */
#ifndef HD_DEVICE_CPU_PEAK_H
#define HD_DEVICE_CPU_PEAK_H

/* Measured the first time, in about 20 ms: f32 arithmetic on all threads of the pool, and reading and writing
 * memory. */
void hd_cpu_peak(double *gflops, double *gbytes);

#endif
