/* Plans on GPUs: what gpu_plan.c and gpu_record.c share. */
#ifndef HD_MACHINE_GPU_PLAN_H
#define HD_MACHINE_GPU_PLAN_H

#include "machine/gpu.h"
#include "plan/plan.h"

/* Launches [begin, end) of a plan; `waits`: it is one alone, which the host waits for. */
typedef struct hd_gpu_piece {
    uint32_t begin, end;
    bool waits;
} hd_gpu_piece;

/* A run, and what enqueues launches of it: *done is the first that failed. */
typedef struct hd_gpu_run hd_gpu_run;
struct hd_gpu_run {
    hd_plan *plan;
    hd_thread *thread;
    const hd_run *run;
    uint32_t *done;
    hd_error (*enqueue)(const hd_gpu_run *run, uint32_t begin, uint32_t end, uint32_t *done);
};

/* gpu_record.c: what is recorded of a plan that is laid out; NULL: there is no memory for it, and no error. */
typedef struct hd_gpu_records hd_gpu_records;
hd_gpu_records *hd_gpu_records_new(const hd_plan *p);
void hd_gpu_records_release(const hd_gpu_device *d, hd_thread *thread, hd_gpu_records *r);
hd_error hd_gpu_run_recorded(const hd_gpu_device *d, const hd_gpu_run *run, hd_gpu_records *r);

#endif
