/* What the functions of OpenCL give, in words. */
#include "device/opencl/driver.h"

#include <stdio.h>
#include <string.h>

const char *hd_cl_status_text(char out[HD_CL_STATUS_TEXT], int32_t status) {
    switch (status) {
#define NAMED(number, name)                                                                                            \
    case number: return "CL_" #name;
        HD_CL_STATUSES(NAMED)
#undef NAMED
    default: snprintf(out, HD_CL_STATUS_TEXT, "the status %d, which OpenCL does not know", (int)status); return out;
    }
}

static const char *remedy_of(int32_t status) {
    switch (status) {
    case HD_CL_COMPILER_NOT_AVAILABLE: return "its driver has no compiler; install one that has, or use another device";
    case HD_CL_INVALID_BINARY:
    case HD_CL_INVALID_PROGRAM_EXECUTABLE: return "it is no program of this device and driver; compile it anew";
    case HD_CL_INVALID_KERNEL_NAME: return "the program has no kernel of that name";
    case HD_CL_INVALID_ARG_INDEX:
    case HD_CL_INVALID_ARG_SIZE:
    case HD_CL_INVALID_KERNEL_ARGS: return "the kernel takes other arguments";
    case HD_CL_INVALID_WORK_GROUP_SIZE:
    case HD_CL_INVALID_WORK_ITEM_SIZE: return "launch smaller groups";
    default: return "clinfo says whether the driver works";
    }
}

bool hd_cl_is_out_of_memory(int32_t status) {
    return status == HD_CL_MEM_OBJECT_ALLOCATION_FAILURE || status == HD_CL_OUT_OF_RESOURCES ||
           status == HD_CL_OUT_OF_HOST_MEMORY || status == HD_CL_INVALID_BUFFER_SIZE;
}

/* After a kernel that crashed, drivers give one of these for whatever is asked. */
static bool may_be_lost(int32_t status) {
    return status == HD_CL_DEVICE_NOT_AVAILABLE || status == HD_CL_OUT_OF_RESOURCES ||
           status == HD_CL_INVALID_COMMAND_QUEUE || status == HD_CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST ||
           status <= HD_CL_ILLEGAL_ACCESS;
}

hd_error hd_opencl_check_lost(hd_opencl_device *d) {
    const char *function = atomic_load_explicit(&d->lost_in, memory_order_acquire);
    if (__builtin_expect(function == NULL, 1)) return HD_OK;
    return hd_fail(HD_ERROR_DEVICE,
                   "%s is lost, with all that was in its memory: %s gave %s; a kernel crashed or ran too long, or the "
                   "driver stopped; start the program again",
                   hd_device_text((char[32]){0}, d->device), function,
                   hd_cl_status_text((char[HD_CL_STATUS_TEXT]){0}, atomic_load(&d->lost_by)));
}

/* True when the queue itself is of no more use. */
static bool lose(hd_opencl_device *d, int32_t status, const char *function) {
    if (d->queue == NULL || !may_be_lost(status)) return false;
    if (strcmp(function, "clFinish") != 0 && !may_be_lost(hd_cl.finish(d->queue))) return false;
    const char *none = NULL;
    if (atomic_load(&d->lost_in) == NULL) atomic_store(&d->lost_by, status);
    atomic_compare_exchange_strong(&d->lost_in, &none, function);
    return true;
}

hd_error hd_opencl_check(hd_opencl_device *d, int32_t status, const char *function) {
    if (__builtin_expect(status == 0, 1)) return HD_OK;
    if (lose(d, status, function)) return hd_opencl_check_lost(d);
    if (hd_cl_is_out_of_memory(status)) return hd_opencl_fail_memory(d, 0, status, function);
    return hd_fail(HD_ERROR_DEVICE, "%s: %s gives %s; %s", hd_device_text((char[32]){0}, d->device), function,
                   hd_cl_status_text((char[HD_CL_STATUS_TEXT]){0}, status), remedy_of(status));
}
