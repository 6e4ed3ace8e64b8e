/* The kernel: src/device/cpu. */
#include "device/cpu/cpu.h"

#define SUMS(T)                                                                                                        \
    for (int64_t i = 0; i < o.out->count; ++i) {                                                                       \
        const T *row = (const T *)o.from[0] + i / inner * n * inner + i % inner;                                       \
        double sum = 0;                                                                                                \
        for (int64_t k = 0; k < n; ++k) sum += k % 2 == 0 ? (double)row[k * inner] : -(double)row[k * inner];          \
        ((T *)o.to)[i] = (T)sum;                                                                                       \
    }

#ifndef WITHOUT_cpu
hd_error hd_cpu_alternating_sum(hd_thread *thread, hd_call *call) {
    const int axis = ((const hd_axis_attributes *)call->attributes)->axis;
    const hd_shape *x = &call->inputs[0]->layout.shape;
    const int64_t n = x->size[axis];
    int64_t inner = 1;
    for (int i = axis + 1; i < x->rank; ++i) inner *= x->size[i];
    hd_cpu_operands o;
    HD_TRY(hd_cpu_operands_begin(thread, call, 0, &o));
    if (o.as == HD_F32)
        SUMS(float)
    else
        SUMS(double)
    return hd_cpu_operands_end(thread, call, &o, HD_OK);
}
#endif
