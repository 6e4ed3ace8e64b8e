/* Programs of OpenCL: text to objects, objects to kernels, and their launches. */
#include "device/opencl/driver.h"
#include "core/environment.h"
#include "core/os_file.h"

#include <errno.h>
#include <stdio.h>
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

/* ---- objects: what the driver gives, behind a head that tells whether it is whole -------------------------------- */
/* Drivers are not known to look at the bytes of a program before they use them. */
typedef struct object_head {
    char mark[8];
    uint64_t bytes, sum; /* of what follows */
} object_head;
static const char object_mark[8] = "hoducl1";

static uint64_t sum_of(const unsigned char *bytes, size_t count) { /* FNV-1a */
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; ++i) sum = (sum ^ bytes[i]) * 0x100000001b3u;
    return sum;
}

static bool is_whole(const object_head *head, const void *object, size_t bytes) {
    return bytes > sizeof *head && memcmp(head->mark, object_mark, sizeof object_mark) == 0 &&
           head->bytes == bytes - sizeof *head &&
           head->sum == sum_of((const unsigned char *)object + sizeof *head, bytes - sizeof *head);
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */
static bool write_text(const char *path, const char *text) {
    const int file = hd_os_open(HD_OS_HERE, path, HD_OS_WRITE | HD_OS_NEW, 0600);
    const bool written = file >= 0 && hd_os_write(file, text, strlen(text));
    return file >= 0 && hd_os_close(file) && written;
}

/* Puts the text where somebody can look at it, into a new folder, and says where. */
static const char *save_text(const char *name, const char *text, char *out, size_t capacity) {
    char folder[256];
    const char *base = hd_environment("TMPDIR");
    const int length = snprintf(folder, sizeof folder, "%s/hodu-XXXXXX", base != NULL ? base : "/tmp");
    bool saved = length < (int)sizeof folder && hd_os_make_temporary(folder);
    if (saved) {
        const size_t begin = strlen(folder) + 1;
        snprintf(out, capacity, "%s/%.40s.cl", folder, name);
        for (char *c = out + begin; *c != '\0'; ++c) /* names of kernels may be anything */
            if (strchr("/\\ \t\n'\"", *c) != NULL) *c = '_';
        saved = write_text(out, text);
        if (!saved) hd_os_remove_folder(folder);
    }
    if (!saved) snprintf(out, capacity, "no file (%s; set TMPDIR)", strerror(errno));
    return out;
}

/* The end of what the compiler said, without what is white at its end; to be released. NULL: there is no memory. */
static char *read_log(const hd_opencl_device *d, hd_cl_program *program, size_t most, const char **end) {
    size_t bytes = 0;
    *end = "it does not say why";
    if (hd_cl.build_info(program, d->handle, HD_CL_PROGRAM_LOG, 0, NULL, &bytes) != 0 || bytes < 2) return NULL;
    char *log = hd_array_resize(NULL, bytes + 1);
    if (log == NULL || hd_cl.build_info(program, d->handle, HD_CL_PROGRAM_LOG, bytes, log, NULL) != 0) {
        hd_array_release(log);
        return NULL;
    }
    log[bytes] = '\0';
    size_t length = strlen(log);
    while (length > 0 && strchr("\n\r\t ", log[length - 1]) != NULL) length--;
    log[length] = '\0';
    if (length > 0) *end = length > most ? log + length - most : log;
    return log;
}

static hd_error build_failed(hd_opencl_device *d, hd_cl_program *program, const char *name, const char *text,
                             int32_t status) {
    char path[320];
    const char *end;
    if (status != HD_CL_BUILD_PROGRAM_FAILURE) return hd_opencl_check(d, status, "clBuildProgram");
    save_text(name, text, path, sizeof path);
    const size_t taken = strlen(path) + 110, most = taken < 360 ? 400 - taken : 40; /* messages have 512 characters */
    char *log = read_log(d, program, most < 300 ? most : 300, &end);
    hd_fail(HD_ERROR_DEVICE, "%s does not compile %.40s, whose text is in %.320s: %s",
            hd_device_text((char[32]){0}, d->device), name, path, end);
    hd_array_release(log);
    return HD_ERROR_DEVICE;
}

static hd_error take_binary(hd_opencl_device *d, hd_cl_program *program, void **object, size_t *bytes) {
    size_t length = 0;
    HD_TRY(hd_opencl_check(d, hd_cl.program_info(program, HD_CL_PROGRAM_BINARY_SIZES, sizeof length, &length, NULL),
                           "clGetProgramInfo"));
    if (length == 0)
        return hd_fail(HD_ERROR_DEVICE, "%s gives no object of a program; its driver is of no use here",
                       hd_device_text((char[32]){0}, d->device));
    object_head head = {.bytes = length};
    unsigned char *all = hd_array_resize(NULL, sizeof head + length), *binary = all + sizeof head;
    if (all == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for an object of %zu bytes", length);
    const hd_error status = hd_opencl_check(
        d, hd_cl.program_info(program, HD_CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL), "clGetProgramInfo");
    if (status != HD_OK) {
        hd_array_release(all);
        return status;
    }
    memcpy(head.mark, object_mark, sizeof head.mark);
    head.sum = sum_of(binary, length);
    memcpy(all, &head, sizeof head);
    *object = all;
    *bytes = sizeof head + length;
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
    object_head head = {{0}, 0, 0};
    hd_opencl_device *d = hd_opencl_device_at(index);
    if (d == NULL) return NULL;
    if (bytes > sizeof head) memcpy(&head, object, sizeof head);
    if (!is_whole(&head, object, bytes)) {
        hd_fail(HD_ERROR_DEVICE, "an object of %zu bytes is no whole program of OpenCL's; compile it anew", bytes);
        return NULL;
    }
    hd_gpu_program *p = hd_array_resize(NULL, sizeof *p);
    if (p == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a program of %s", hd_device_text((char[32]){0}, d->device));
        return NULL;
    }
    *p = (hd_gpu_program){.device = d};
    if (load_program(d, (const unsigned char *)object + sizeof head, bytes - sizeof head, &p->handle) == HD_OK)
        return p;
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
static hd_error check_launch(const hd_opencl_device *d, const hd_gpu_launch *l) {
    const hd_gpu_function *f = l->function;
    const uint64_t threads = (uint64_t)l->threads[0] * l->threads[1] * l->threads[2];
    if (f->program->device != d)
        return hd_fail(HD_ERROR_INTERNAL, "the kernel %.100s is not loaded on %s", f->name,
                       hd_device_text((char[32]){0}, d->device));
    if (threads == 0 || threads > f->group_most)
        return hd_fail(HD_ERROR_DEVICE, "the kernel %.100s takes groups of 1 to %zu threads on %s, not of %llu",
                       f->name, f->group_most, hd_device_text((char[32]){0}, d->device), (unsigned long long)threads);
    if (l->argument_bytes < (size_t)l->buffer_count * sizeof(int64_t))
        return hd_fail(HD_ERROR_INTERNAL, "the kernel %.100s has %d buffers, and no room for their offsets", f->name,
                       l->buffer_count);
    return HD_OK;
}

/* The offsets go in front of the caller's arguments. */
static hd_error set_arguments(hd_opencl_device *d, const hd_gpu_launch *l) {
    hd_cl_kernel *kernel = l->function->handle;
    int32_t status = 0;
    for (int i = 0; i < l->buffer_count; ++i) {
        hd_cl_memory *object = NULL;
        size_t offset = 0;
        if (l->buffers[i] != NULL) HD_TRY(hd_opencl_find(d, l->buffers[i], 0, &object, &offset));
        const int64_t filled_in = (int64_t)offset;
        memcpy((char *)l->arguments + (size_t)i * sizeof filled_in, &filled_in, sizeof filled_in);
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
    HD_TRY(check_launch(d, l));
    pthread_mutex_lock(&d->lock); /* a kernel has its arguments until it is enqueued */
    const hd_error status = enqueue(d, l, l->nanoseconds != NULL ? &event : NULL);
    pthread_mutex_unlock(&d->lock);
    HD_TRY(status);
    if (event == NULL) return hd_opencl_enqueued(d);
    const hd_error timed = take_time(d, event, l->nanoseconds);
    hd_cl.event_release(event);
    return timed;
}
