/* The machine code of a plan, for a file to carry. */
#include "plan/plan.h"

hd_error hd_plan_carry(hd_plan *p, hd_carried *from, unsigned char **bytes, size_t *count) {
    const hd_kernel **kernels = hd_array_resize(NULL, ((size_t)p->native_count + 1) * sizeof *kernels);
    if (kernels == NULL) return hd_plan_no_memory(p);
    for (uint32_t i = 0; i < p->native_count; ++i) kernels[i] = &p->natives[i]->native.shape;
    hd_tuning_key key;
    const hd_carried_note note = hd_plan_tuning_note(p, &key);
    const hd_error status =
        hd_carried_make(from, p->machine->coder, kernels, (int)p->native_count, &note, bytes, count);
    hd_array_release(kernels);
    return status;
}
