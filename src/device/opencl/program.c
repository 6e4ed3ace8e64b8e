/* Programs of OpenCL: text to objects, objects to kernels, and their launches. */
#include "device/opencl/driver.h"
#include "device/program.h"

#include <string.h>

struct hd_gpu_function {
    hd_gpu_program *program;
    hd_cl_kernel *handle;
    size_t group_most;
    hd_gpu_function *next;
    char name[];
};
struct hd_gpu_program {
    hd_opencl_device *device;
    hd_cl_program *handle;
    hd_gpu_function *functions; /* under the device's lock */
};

/* Nothing that changes what arithmetic gives, but for f32's quotients and square roots, which are rounded as on the CPU
 * where the device can. */
static const char *options_of(const hd_opencl_device *d) {
    return d->rounds ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt" : "-cl-std=CL1.2";
}

static const char object_mark[] = "hoducl1";

/* ---- compiling --------------------------------------------------------------------------------------------------- */
/* What the compiler said; to be released. NULL: nothing, or there is no memory. */
static char *read_log(const hd_opencl_device *d, hd_cl_program *program) {
    size_t bytes = 0;
    if (hd_cl.build_info(program, d->handle, HD_CL_PROGRAM_LOG, 0, NULL, &bytes) != 0 || bytes < 2) return NULL;
    char *log = hd_array_resize(NULL, bytes + 1);
    if (log == NULL || hd_cl.build_info(program, d->handle, HD_CL_PROGRAM_LOG, bytes, log, NULL) != 0) {
        hd_array_release(log);
        return NULL;
    }
    log[bytes] = '\0';
    return log;
}

static hd_error build_failed(hd_opencl_device *d, hd_cl_program *program, const char *name, const char *text,
                             int32_t status) {
    if (status != HD_CL_BUILD_PROGRAM_FAILURE) return hd_opencl_check(d, status, "clBuildProgram");
    char *log = read_log(d, program);
    const hd_error error = hd_gpu_does_not_compile(d->device, name, "cl", text, log);
    hd_array_release(log);
    return error;
}

static hd_error take_binary(hd_opencl_device *d, hd_cl_program *program, void **object, size_t *bytes) {
    size_t length = 0;
    HD_TRY(hd_opencl_check(d, hd_cl.program_info(program, HD_CL_PROGRAM_BINARY_SIZES, sizeof length, &length, NULL),
                           "clGetProgramInfo"));
    if (length == 0)
        return hd_fail(HD_ERROR_DEVICE, "%s gives no object of a program; its driver is of no use here",
                       hd_device_text((char[32]){0}, d->device));
    hd_gpu_object *all = hd_gpu_object_new(length);
    if (all == NULL) return HD_ERROR_MEMORY;
    unsigned char *binary = all->bytes;
    const hd_error status = hd_opencl_check(
        d, hd_cl.program_info(program, HD_CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL), "clGetProgramInfo");
    if (status != HD_OK) {
        hd_array_release(all);
        return status;
    }
    hd_gpu_object_seal(all, object_mark, length);
    *object = all;
    *bytes = sizeof *all + length;
    return HD_OK;
}

hd_error hd_opencl_compile(int index, const char *name, const char *text, void **object, size_t *bytes) {
    hd_opencl_device *d = hd_opencl_device_at(index);
    int32_t status = 0;
    *object = NULL;
    *bytes = 0;
    if (d == NULL) return HD_ERROR_DEVICE;
    hd_cl_program *program = hd_cl.program_new(d->context, 1, &text, NULL, &status);
    if (program == NULL) return hd_opencl_check(d, hd_cl_none_made(status), "clCreateProgramWithSource");
    status = hd_cl.program_build(program, 1, &d->handle, options_of(d), NULL, NULL);
    const hd_error error =
        status == 0 ? take_binary(d, program, object, bytes) : build_failed(d, program, name, text, status);
    hd_cl.program_release(program);
    return error;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */
static hd_error load_program(hd_opencl_device *d, const unsigned char *binary, size_t bytes, hd_cl_program **out) {
    int32_t status = 0, each = 0;
    hd_cl_program *program = hd_cl.program_load(d->context, 1, &d->handle, &bytes, &binary, &each, &status);
    if (program == NULL)
        return hd_opencl_check(d, each != 0 ? each : hd_cl_none_made(status), "clCreateProgramWithBinary");
    const hd_error error =
        hd_opencl_check(d, hd_cl.program_build(program, 1, &d->handle, options_of(d), NULL, NULL), "clBuildProgram");
    if (error == HD_OK)
        *out = program;
    else
        hd_cl.program_release(program);
    return error;
}

hd_gpu_program *hd_opencl_load(int index, const void *object, size_t bytes) {
    size_t count = 0;
    hd_opencl_device *d = hd_opencl_device_at(index);
    const unsigned char *binary = d == NULL ? NULL : hd_gpu_object_open(object_mark, "OpenCL's", object, bytes, &count);
    if (binary == NULL) return NULL;
    hd_gpu_program *p = hd_array_resize(NULL, sizeof *p);
    if (p == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a program of %s", hd_device_text((char[32]){0}, d->device));
        return NULL;
    }
    *p = (hd_gpu_program){.device = d};
    if (load_program(d, binary, count, &p->handle) == HD_OK) return p;
    hd_array_release(p);
    return NULL;
}

/* The driver keeps what commands that are under way need. */
void hd_opencl_unload(hd_gpu_program *p) {
    if (p == NULL) return;
    const bool here = hd_opencl_is_here();
    while (p->functions != NULL) {
        hd_gpu_function *f = p->functions;
        p->functions = f->next;
        if (here) hd_cl.kernel_release(f->handle);
        hd_array_release(f);
    }
    if (here) hd_cl.program_release(p->handle);
    hd_array_release(p);
}

/* ---- functions --------------------------------------------------------------------------------------------------- */
static hd_gpu_function *new_function(hd_gpu_program *p, const char *name) {
    hd_opencl_device *d = p->device;
    int32_t status = 0;
    hd_gpu_function *f = hd_array_resize(NULL, sizeof *f + strlen(name) + 1);
    if (f == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for the kernel %.100s", name);
        return NULL;
    }
    *f = (hd_gpu_function){.program = p};
    strcpy(f->name, name);
    f->handle = hd_cl.kernel_new(p->handle, name, &status);
    if (f->handle == NULL) {
        hd_opencl_check(d, hd_cl_none_made(status), "clCreateKernel");
        hd_array_release(f);
        return NULL;
    }
    status =
        hd_cl.kernel_info(f->handle, d->handle, HD_CL_KERNEL_GROUP_MOST, sizeof f->group_most, &f->group_most, NULL);
    if (hd_opencl_check(d, status, "clGetKernelWorkGroupInfo") != HD_OK) {
        hd_cl.kernel_release(f->handle);
        hd_array_release(f);
        return NULL;
    }
    return f;
}

hd_gpu_function *hd_opencl_function(hd_gpu_program *p, const char *name) {
    hd_opencl_device *d = hd_opencl_device_at(p->device->device.index);
    if (d == NULL) return NULL;
    pthread_mutex_lock(&d->lock);
    hd_gpu_function *f = p->functions;
    while (f != NULL && strcmp(f->name, name) != 0) f = f->next;
    if (f == NULL && (f = new_function(p, name)) != NULL) {
        f->next = p->functions;
        p->functions = f;
    }
    pthread_mutex_unlock(&d->lock);
    return f;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */
static hd_error set_arguments(hd_opencl_device *d, const hd_gpu_launch *l) {
    hd_cl_kernel *kernel = l->function->handle;
    int32_t status = 0;
    for (int i = 0; i < l->buffer_count; ++i) {
        hd_cl_memory *object = NULL;
        size_t offset = 0;
        if (l->buffers[i] != NULL) HD_TRY(hd_opencl_find(d, l->buffers[i], 0, &object, &offset));
        hd_gpu_fill_in(l, i, offset);
        status = hd_cl.kernel_argument(kernel, (uint32_t)i, sizeof object, &object);
        if (status != 0) return hd_opencl_check(d, status, "clSetKernelArg");
    }
    if (l->argument_bytes > 0)
        status = hd_cl.kernel_argument(kernel, (uint32_t)l->buffer_count, l->argument_bytes, l->arguments);
    return hd_opencl_check(d, status, "clSetKernelArg");
}

static hd_error enqueue(hd_opencl_device *d, const hd_gpu_launch *l, hd_cl_event **event) {
    size_t all[3], group[3];
    int32_t status;
    int attempt = 0;
    for (int i = 0; i < 3; ++i) {
        group[i] = l->threads[i];
        all[i] = group[i] * l->groups[i];
    }
    HD_TRY(set_arguments(d, l));
    do status = hd_cl.launch(d->queue, l->function->handle, 3, NULL, all, group, 0, NULL, event);
    while (hd_opencl_try_again(d, status, attempt++));
    return hd_opencl_check(d, status, "clEnqueueNDRangeKernel");
}

static hd_error take_time(hd_opencl_device *d, hd_cl_event *event, int64_t *nanoseconds) {
    uint64_t begin = 0, end = 0;
    HD_TRY(hd_opencl_check(d, hd_cl.wait(1, &event), "clWaitForEvents"));
    int32_t status = hd_cl.event_time(event, HD_CL_EVENT_STARTED, sizeof begin, &begin, NULL);
    if (status == 0) status = hd_cl.event_time(event, HD_CL_EVENT_ENDED, sizeof end, &end, NULL);
    *nanoseconds = (int64_t)(end - begin);
    return hd_opencl_check(d, status, "clGetEventProfilingInfo");
}

hd_error hd_opencl_launch(int index, const hd_gpu_launch *l) {
    hd_cl_event *event = NULL;
    if (l->nanoseconds != NULL) *l->nanoseconds = 0;
    hd_opencl_device *d = hd_opencl_device_at(index);
    if (d == NULL) return HD_ERROR_DEVICE;
    if (l->groups[0] == 0 || l->groups[1] == 0 || l->groups[2] == 0) return HD_OK;
    const hd_gpu_function *f = l->function;
    HD_TRY(hd_gpu_check_launch(d->device, f->name, f->program->device == d, f->group_most, l));
    pthread_mutex_lock(&d->lock); /* a kernel has its arguments until it is enqueued */
    const hd_error status = enqueue(d, l, l->nanoseconds != NULL ? &event : NULL);
    pthread_mutex_unlock(&d->lock);
    HD_TRY(status);
    if (event == NULL) return hd_opencl_enqueued(d);
    const hd_error timed = take_time(d, event, l->nanoseconds);
    hd_cl.event_release(event);
    return timed;
}
