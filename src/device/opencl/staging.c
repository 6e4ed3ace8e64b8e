/* Pinned memory of OpenCL devices, for copies from and to the host (device/staging.h): memory objects that the driver
 * makes in memory of the host and that stay mapped. A driver that gives fewer has its copies go through these; with
 * none, they are the driver's plain ones. */
#include "device/opencl/driver.h"

enum { STAGE_BYTES = 1 << 20, PLAIN_MOST = 4096 };

/* ---- the stages -------------------------------------------------------------------------------------------------- */
static bool make_stage(hd_opencl_device *d, hd_stage *s) {
    int32_t status = 0;
    const size_t bytes = d->staging.stage_bytes;
    hd_cl_memory *object = hd_cl.memory_new(d->context, HD_CL_READ_WRITE | HD_CL_PINNED, bytes, NULL, &status);
    if (object == NULL) return false;
    s->memory = hd_cl.map(d->queue, object, 1, HD_CL_MAP_BOTH, 0, bytes, 0, NULL, NULL, &status);
    s->object = object;
    if (s->memory != NULL) return true;
    hd_cl.memory_release(object);
    s->object = NULL;
    return false;
}

/* They are no part of the device's memory, and stay. */
static void make_stages(hd_opencl_device *d) {
    int made = 0;
    while (made < HD_STAGES && make_stage(d, &d->staging.stages[made])) made++;
    if (made > 0) d->staging.count = made;
    atomic_store_explicit(&d->stages, made > 0 ? HD_OPENCL_STAGES_MADE : HD_OPENCL_STAGES_REFUSED,
                          memory_order_release);
}

bool hd_opencl_stages_copy(hd_opencl_device *d, size_t bytes) {
    if (d->shares_memory || bytes <= PLAIN_MOST) return false;
    if (atomic_load_explicit(&d->stages, memory_order_acquire) == HD_OPENCL_STAGES_UNMADE) {
        pthread_mutex_lock(&d->staging.lock);
        if (atomic_load(&d->stages) == HD_OPENCL_STAGES_UNMADE) make_stages(d);
        pthread_mutex_unlock(&d->staging.lock);
    }
    return atomic_load_explicit(&d->stages, memory_order_acquire) == HD_OPENCL_STAGES_MADE;
}

/* ---- copies from and to one -------------------------------------------------------------------------------------- */
/* A queue may keep commands to itself until somebody waits: but the host goes on with the next stage meanwhile. */
static hd_error enqueued(hd_opencl_device *d) {
    HD_TRY(hd_opencl_check(d, hd_cl.flush(d->queue), "clFlush"));
    return hd_opencl_enqueued(d);
}

static hd_error send(void *device, hd_stage *s, char *to, size_t bytes) {
    hd_opencl_device *d = device;
    hd_cl_memory *object;
    hd_cl_event *event = NULL;
    size_t offset;
    int32_t status;
    int attempt = 0;
    HD_TRY(hd_opencl_find(d, to, bytes, &object, &offset));
    do status = hd_cl.write(d->queue, object, 0, offset, bytes, s->memory, 0, NULL, &event);
    while (hd_opencl_try_again(d, status, attempt++));
    HD_TRY(hd_opencl_check(d, status, "clEnqueueWriteBuffer"));
    s->copied = event;
    return enqueued(d);
}

static hd_error fetch(void *device, hd_stage *s, const char *from, size_t bytes) {
    hd_opencl_device *d = device;
    hd_cl_memory *object;
    hd_cl_event *event = NULL;
    size_t offset;
    int32_t status;
    int attempt = 0;
    HD_TRY(hd_opencl_find(d, from, bytes, &object, &offset));
    do status = hd_cl.read(d->queue, object, 0, offset, bytes, s->memory, 0, NULL, &event);
    while (hd_opencl_try_again(d, status, attempt++));
    HD_TRY(hd_opencl_check(d, status, "clEnqueueReadBuffer"));
    s->copied = event;
    return enqueued(d);
}

/* A wait that fails may have ended too early; nothing is under way behind clFinish. */
static hd_error wait_for(void *device, hd_stage *s) {
    hd_opencl_device *d = device;
    hd_cl_event *event = s->copied;
    if (event == NULL) return HD_OK; /* its command was not enqueued */
    const int32_t status = hd_cl.wait(1, &event);
    if (status != 0) hd_cl.finish(d->queue);
    hd_cl.event_release(event);
    s->copied = NULL;
    return hd_opencl_check(d, status, "clWaitForEvents");
}

void hd_opencl_begin_staging(hd_opencl_device *d) {
    d->staging.owner = d;
    d->staging.send = send; /* and no pin, as all of them are made before the first copy */
    d->staging.fetch = fetch;
    d->staging.wait = wait_for;
    hd_staging_begin(&d->staging, STAGE_BYTES);
}
