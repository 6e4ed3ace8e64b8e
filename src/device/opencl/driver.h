/* Inside this folder: a device of OpenCL, and what each file does with it. */
#ifndef HD_DEVICE_OPENCL_DRIVER_H
#define HD_DEVICE_OPENCL_DRIVER_H

#include "device/gpu.h"
#include "device/heap.h"
#include "device/staging.h"
#include "device/opencl/opencl.h"

#include <pthread.h>

enum { HD_OPENCL_DEVICES = 32 }; /* more are not looked at */
/* Pinned memory for copies is made at the first one that wants it; a driver that refuses is not asked again. */
typedef enum hd_opencl_stages {
    HD_OPENCL_STAGES_UNMADE,
    HD_OPENCL_STAGES_MADE,
    HD_OPENCL_STAGES_REFUSED
} hd_opencl_stages;

typedef struct hd_opencl_device {
    /* known from the beginning */
    hd_device device;
    hd_cl_platform *platform;
    hd_cl_device *handle;
    char name[96], key[1024];
    hd_gpu_limits limits;
    bool shares_memory; /* with the host, so that no copy needs stages; tests set it otherwise */
    bool rounds;        /* f32: its quotients and square roots can be rounded correctly, when they are asked to be */
    /* made at first use, and never released */
    pthread_mutex_t lock; /* of its making, and of what is not safe for threads: the arguments of kernels */
    _Atomic bool started;
    hd_cl_context *context;
    hd_cl_queue *queue; /* in order */
    /* how far the queue is: see hd_opencl_enqueued */
    _Atomic uint32_t commands;
    _Atomic uint32_t finished; /* of them, when the process was about to end */
    hd_cl_event *milestone;    /* under the lock */
    /* what has made it useless: a function, and its status */
    _Atomic(const char *) lost_in;
    _Atomic int32_t lost_by;
    hd_heap heap;       /* its memory */
    hd_staging staging; /* and what copies go through */
    _Atomic int stages; /* a number of hd_opencl_stages */
} hd_opencl_device;

/* ---- driver.c ---------------------------------------------------------------------------------------------------- */
extern hd_cl_functions hd_cl; /* filled in when there is a device */
int hd_opencl_count(void);
const char *hd_opencl_missing(void);
void hd_opencl_describe(int index, hd_device_info *out);
const hd_gpu_limits *hd_opencl_limits(int index);
hd_heap *hd_opencl_heap(int index);
/* One that can be worked with; NULL with an error. */
hd_opencl_device *hd_opencl_device_at(int index);
/* False in a forked child and at the end of the process, where the driver must not be called any more. */
bool hd_opencl_is_here(void);
hd_error hd_opencl_synchronize(hd_thread *thread, int index);
/* After each command that nobody waits for: so many may be under way, and no more, as each takes memory. */
hd_error hd_opencl_enqueued(hd_opencl_device *d);

/* ---- status.c ---------------------------------------------------------------------------------------------------- */
/* "CL_OUT_OF_RESOURCES"; into a buffer when it has no name. */
enum { HD_CL_STATUS_TEXT = 64 };
const char *hd_cl_status_text(char out[HD_CL_STATUS_TEXT], int32_t status);
/* What a function of OpenCL gave, as an error of ours. A status that may mean the end of the device is followed up. */
hd_error hd_opencl_check(hd_opencl_device *d, int32_t status, const char *function);
hd_error hd_opencl_check_lost(hd_opencl_device *d);
bool hd_cl_is_out_of_memory(int32_t status);
/* The status of a function that gave NULL, which should not be that of success. */
static inline int32_t hd_cl_none_made(int32_t status) { return status != 0 ? status : HD_CL_INVALID_OPERATION; }

/* ---- memory.c ---------------------------------------------------------------------------------------------------- */
hd_block *hd_opencl_allocate(hd_thread *thread, int index, size_t bytes);
void hd_opencl_recycle(hd_thread *thread, hd_block *block);
hd_error hd_opencl_copy(hd_thread *thread, hd_address to, hd_address from, size_t bytes);
hd_error hd_opencl_fill(hd_thread *thread, hd_address to, const void *element, size_t size, size_t count);
/* The memory object in which an address lies, so many bytes before its end, and where in it. */
hd_error hd_opencl_find(const hd_opencl_device *d, const void *address, size_t bytes, hd_cl_memory **object,
                        size_t *offset);
void hd_opencl_begin_heap(hd_opencl_device *d);
/* When a command could not have its memory: makes room, and says whether to try once more. */
bool hd_opencl_try_again(hd_opencl_device *d, int32_t status, int attempt);
hd_error hd_opencl_fail_memory(hd_opencl_device *d, size_t bytes, int32_t status, const char *function);

/* ---- staging.c --------------------------------------------------------------------------------------------------- */
void hd_opencl_begin_staging(hd_opencl_device *d);
/* Whether a copy of so many bytes from or to the host goes through stages, which are there then. */
bool hd_opencl_stages_copy(hd_opencl_device *d, size_t bytes);

/* ---- program.c --------------------------------------------------------------------------------------------------- */
hd_error hd_opencl_compile(int index, const char *name, const char *text, void **object, size_t *bytes);
hd_gpu_program *hd_opencl_load(int index, const void *object, size_t bytes);
void hd_opencl_unload(hd_gpu_program *program);
hd_gpu_function *hd_opencl_function(hd_gpu_program *program, const char *name);
hd_error hd_opencl_launch(int index, const hd_gpu_launch *l);

#endif
