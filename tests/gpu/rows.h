/* Rows and their derivatives as cases for whoever runs the text of GPUs. */
#ifndef HD_TESTS_GPU_ROWS_H
#define HD_TESTS_GPU_ROWS_H

#include "compiler/rows.h"
#include "gpu/cases.h"

typedef struct row_case {
    gpu_case c;
    row_reading reading;
    char in[5][N * 8], expected[N * 8];
} row_case;

/* The next rows as cases, as many as fit; how many. */
static inline int row_cases(row_case *rows, int most, row_reading *last, bool has_f64) {
    const hd_grid_limits limits = {16, 256, has_f64, shared_threads};
    int count = 0;
    while (count < most && row_next(last)) {
        if (last->type == HD_COMPUTE_F64 && !has_f64) continue;
        row_case *r = &rows[count];
        hd_target target = hd_cpu_machine()->target;
        hd_ir ir;
        memset(r, 0, sizeof *r);
        r->reading = *last;
        row_inputs(last, r->in);
        row_eager(last, r->in, r->expected);
        row_ir(last, &ir);
        row_kernel(&r->c.r.k, &ir, (hd_op_id)last->id, (hd_compute)last->type, r->c.r.numbers);
        hd_ir_release(&ir);
        if (hd_kernel_settle(&r->c.r.k) != HD_OK || hd_kernel_schedule(&r->c.r.k, 0, &target) != HD_OK)
            fail_msg("%s", hd_error_message());
        memcpy(r->c.r.geometry, row_geometry, sizeof row_geometry);
        for (int b = 0; b < 6; ++b) {
            r->c.r.elements[b] = N;
            r->c.memory[b] = calloc(1, N * 8 + 64);
            if (b < 5) memcpy(r->c.memory[b], r->in[b], N * 8);
        }
        snprintf(r->c.name, sizeof r->c.name, "k%d", count);
        r->c.kernel =
            (hd_gpu_kernel){&r->c.r.k, hd_grid_choose(&r->c.r.k, row_geometry, count % 2 ? 16 : 1, &limits), r->c.name};
        count++;
    }
    return count;
}

static inline void row_check(row_case *r, bool has_run) {
    if (has_run)
        row_compare(hd_ops[r->reading.id].name, r->reading.result, r->reading.ulp, r->reading.terms, r->in,
                    r->c.memory[5], r->expected);
    for (int b = 0; b < 6; ++b) free(r->c.memory[b]);
    hd_kernel_release(&r->c.r.k);
}

#endif
