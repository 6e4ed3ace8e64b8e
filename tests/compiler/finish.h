/* Kernels made by hand, ready to be rendered for the CPU with vector registers of so many bytes. */
#ifndef TESTS_COMPILER_FINISH_H
#define TESTS_COMPILER_FINISH_H

#include "kernel/kernel.h"
#include "machine/machines.h"

static inline hd_error kernel_finish(hd_kernel *k, int lanes, int vector_bytes) {
    hd_target target = hd_cpu_machine()->target;
    target.vector_bytes = (uint16_t)vector_bytes;
    const hd_error status = hd_kernel_settle(k);
    return status == HD_OK ? hd_kernel_schedule(k, lanes, &target) : status;
}

#endif
