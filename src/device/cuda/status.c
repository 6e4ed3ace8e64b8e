/* What the functions of the driver give, in words. */
#include "device/cuda/driver.h"

#include <stdio.h>
#include <string.h>

const char *hd_cu_status_text(char out[HD_CU_STATUS_TEXT], int status) {
    const char *name = NULL, *text = NULL;
    if (hd_cuda_list.error_name != NULL) hd_cuda_list.error_name(status, &name);
    if (hd_cuda_list.error_text != NULL) hd_cuda_list.error_text(status, &text);
    if (name != NULL && text != NULL)
        snprintf(out, HD_CU_STATUS_TEXT, "%s (%s)", name, text);
    else
        snprintf(out, HD_CU_STATUS_TEXT, "the status %d, which the driver does not know", status);
    return out;
}

static const char *remedy_of(int status) {
    switch (status) {
    case HD_CU_NO_BINARY_FOR_GPU:
    case HD_CU_INVALID_IMAGE: return "it is no program of this GPU; compile it anew";
    case HD_CU_TOO_MANY_RESOURCES: return "launch smaller groups";
    default: return "nvidia-smi says whether the driver works";
    }
}

/* After these the context gives the same for whatever is asked. */
static bool is_end(int status) {
    return status == HD_CU_DEINITIALIZED || status == HD_CU_MEMORY_IS_BROKEN || status == HD_CU_ILLEGAL_ADDRESS ||
           status == HD_CU_LAUNCH_TIMEOUT || status == HD_CU_CONTEXT_IS_DESTROYED || status == HD_CU_ASSERT ||
           (status >= HD_CU_STACK_ERROR && status <= HD_CU_LAUNCH_FAILED);
}

hd_error hd_cuda_check_lost(hd_cuda_device *d) {
    const char *function = atomic_load_explicit(&d->lost_in, memory_order_acquire);
    if (__builtin_expect(function == NULL, 1)) return HD_OK;
    return hd_fail(HD_ERROR_DEVICE,
                   "%s is lost, with all that was in its memory: %s gave %s; a kernel crashed or ran too long, or the "
                   "driver stopped; start the program again",
                   hd_device_text((char[32]){0}, d->device), function,
                   hd_cu_status_text((char[HD_CU_STATUS_TEXT]){0}, atomic_load(&d->lost_by)));
}

static void lose(hd_cuda_device *d, int status, const char *function) {
    const char *none = NULL;
    if (atomic_load(&d->lost_in) == NULL) atomic_store(&d->lost_by, status);
    atomic_compare_exchange_strong(&d->lost_in, &none, function);
}

hd_error hd_cuda_check(hd_cuda_device *d, int status, const char *function) {
    if (__builtin_expect(status == 0, 1)) return HD_OK;
    if (is_end(status)) {
        lose(d, status, function);
        return hd_cuda_check_lost(d);
    }
    char text[HD_CU_STATUS_TEXT], why[HD_CU_STATUS_TEXT + 64];
    hd_cu_status_text(text, status);
    if (status == HD_CU_OUT_OF_MEMORY) {
        snprintf(why, sizeof why, "%s gives %s", function, text);
        return hd_heap_fail(&d->heap, 0, why);
    }
    return hd_fail(HD_ERROR_DEVICE, "%s: %s gives %s; %s", hd_device_text((char[32]){0}, d->device), function, text,
                   remedy_of(status));
}
