/* Recordings: what a thread enqueues between begin and end becomes one CUDA graph, which is launched as a whole.
 * While a thread records, its commands go to streams of the recording, others' to the device's as always. Steps that
 * do not need each other are on several of these, its lanes, and may run at the same time. Memory that is allocated
 * meanwhile belongs to the recording as long as that lives: its addresses are in the graph. */
#include "device/cuda/driver.h"

#include <string.h>

enum { NONE = -1 };
typedef struct step {
    hd_cu_event *done; /* NULL: nothing has come after it yet */
    int lane;
} step;
typedef struct lane {
    hd_cu_stream *stream; /* NULL: not used so far */
    int64_t last;         /* its latest step; NONE */
} lane;
struct hd_gpu_recording {
    hd_cuda_device *device;
    lane lanes[HD_CUDA_LANES]; /* until it is recorded: the first is where it begins and ends */
    int at;                    /* the lane of what follows */
    hd_cu_event *begin;
    step *steps;
    uint32_t step_count, step_capacity;
    hd_cu_node **marks; /* launches that may change */
    uint32_t mark_count;
    hd_cu_graph *graph; /* whose nodes the marks are */
    hd_cu_exec *exec;
    hd_block **blocks;
    size_t block_count, block_capacity;
};

static _Thread_local hd_gpu_recording *recording; /* of this thread */

hd_cu_stream *hd_cuda_stream(const hd_cuda_device *d) {
    return __builtin_expect(recording != NULL, 0) && recording->device == d ? recording->lanes[recording->at].stream
                                                                            : d->stream;
}
int hd_cuda_lane(const hd_cuda_device *d) { return recording != NULL && recording->device == d ? recording->at : 0; }

hd_error hd_cuda_keep_for_recording(hd_block *block) {
    hd_gpu_recording *r = recording;
    if (__builtin_expect(r == NULL, 1) || r->device->device.index != block->device.index) return HD_OK;
    if (r->block_count == r->block_capacity) {
        const size_t capacity = 2 * r->block_capacity + 8;
        hd_block **blocks = hd_array_resize(r->blocks, capacity * sizeof(hd_block *));
        if (blocks == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a recording of %zu blocks", capacity);
        r->blocks = blocks;
        r->block_capacity = capacity;
    }
    atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
    r->blocks[r->block_count++] = block;
    return HD_OK;
}

/* What only recording needs. */
static void release_lanes(hd_gpu_recording *r) {
    const bool here = hd_cuda_is_here();
    for (uint32_t i = 0; i < r->step_count && here; ++i)
        if (r->steps[i].done != NULL) hd_cu.event_release(r->steps[i].done);
    if (r->begin != NULL && here) hd_cu.event_release(r->begin);
    for (int i = 0; i < HD_CUDA_LANES && here; ++i)
        if (r->lanes[i].stream != NULL) hd_cu.stream_release(r->lanes[i].stream);
    hd_array_release(r->steps);
    memset(r->lanes, 0, sizeof r->lanes);
    r->begin = NULL;
    r->steps = NULL;
    r->step_count = r->step_capacity = 0;
}

void hd_cuda_forget(hd_thread *thread, hd_gpu_recording *r) {
    if (r == NULL) return;
    if (hd_cuda_is_here()) hd_cu.context_set(r->device->context);
    release_lanes(r);
    if (hd_cuda_is_here()) {
        /* it may still run, and its memory is given out again in the order of the device's stream */
        if (r->exec != NULL) hd_cu.exec_release(r->exec);
        if (r->graph != NULL) hd_cu.graph_release(r->graph);
    }
    for (size_t i = 0; i < r->block_count; ++i) hd_block_release(thread, r->blocks[i]);
    hd_array_release(r->blocks);
    hd_array_release(r->marks);
    hd_array_release(r);
}

static hd_error open_lane(hd_cuda_device *d, hd_gpu_recording *r, int i) {
    r->lanes[i].last = NONE;
    return hd_cuda_check(d, hd_cu.stream_new(&r->lanes[i].stream, HD_CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

static hd_error begin(hd_cuda_device *d, hd_gpu_recording *r) {
    HD_TRY(open_lane(d, r, 0));
    return hd_cuda_check(d, hd_cu.capture_begin(r->lanes[0].stream, HD_CU_CAPTURE_RELAXED), "cuStreamBeginCapture");
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */
static hd_error mark(hd_cuda_device *d, hd_cu_event **event, hd_cu_stream *stream) {
    if (*event != NULL) return HD_OK;
    HD_TRY(hd_cuda_check(d, hd_cu.event_new(event, HD_CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
    const hd_error status = hd_cuda_check(d, hd_cu.event_record(*event, stream), "cuEventRecord");
    if (status == HD_OK) return HD_OK;
    hd_cu.event_release(*event); /* one that was not recorded is waited for by nobody */
    *event = NULL;
    return status;
}

static hd_error wait_for(hd_cuda_device *d, hd_cu_stream *stream, hd_cu_event *event) {
    return hd_cuda_check(d, hd_cu.stream_wait(stream, event, 0), "cuStreamWaitEvent");
}

/* The lane whose latest step is needed anyway, the later the better; else one that was not used; else the one that was
 * not for the longest time. */
static int choose_lane(const hd_gpu_recording *r, const uint32_t *after, uint32_t count) {
    int best = NONE, oldest = 0;
    for (uint32_t k = 0; k < count; ++k) {
        const int to = r->steps[after[k]].lane;
        if (r->lanes[to].last == after[k] && (best == NONE || r->lanes[to].last > r->lanes[best].last)) best = to;
    }
    for (int i = 0; i < HD_CUDA_LANES && best == NONE; ++i) {
        if (r->lanes[i].stream == NULL || r->lanes[i].last == NONE) return i;
        if (r->lanes[i].last < r->lanes[oldest].last) oldest = i;
    }
    return best != NONE ? best : oldest;
}

static hd_error add_step(hd_gpu_recording *r, int to) {
    if (r->step_count == r->step_capacity) {
        const uint32_t capacity = 2 * r->step_capacity + 32;
        step *steps = hd_array_resize(r->steps, capacity * sizeof *steps);
        if (steps == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a recording of %u steps", capacity);
        r->steps = steps;
        r->step_capacity = capacity;
    }
    r->steps[r->step_count] = (step){.lane = to};
    r->lanes[to].last = r->step_count++;
    r->at = to;
    return HD_OK;
}

hd_error hd_cuda_step(int index, uint32_t number, const uint32_t *after, uint32_t count) {
    hd_gpu_recording *r = recording;
    hd_cuda_device *d = hd_cuda_device_at(index);
    if (d == NULL) return HD_ERROR_DEVICE;
    if (r == NULL || r->device != d || number != r->step_count)
        return hd_fail(HD_ERROR_INTERNAL, "step %u of a recording does not follow", number);
    if (number == 0) HD_TRY(mark(d, &r->begin, r->lanes[0].stream));
    if (number > 0) /* what was enqueued since the last call */
        HD_TRY(mark(d, &r->steps[number - 1].done, r->lanes[r->at].stream));
    const int to = choose_lane(r, after, count);
    if (r->lanes[to].stream == NULL) {
        HD_TRY(open_lane(d, r, to));
        HD_TRY(wait_for(d, r->lanes[to].stream, r->begin)); /* it is part of the recording from here on */
    }
    for (uint32_t k = 0; k < count; ++k)
        if (r->steps[after[k]].lane != to) HD_TRY(wait_for(d, r->lanes[to].stream, r->steps[after[k]].done));
    return add_step(r, to);
}

/* All lanes end in the first one. */
static hd_error join_lanes(hd_cuda_device *d, hd_gpu_recording *r) {
    hd_error status = HD_OK;
    for (int i = 1; i < HD_CUDA_LANES && status == HD_OK; ++i) {
        if (r->lanes[i].stream == NULL || r->lanes[i].last == NONE) continue;
        step *last = &r->steps[r->lanes[i].last];
        status = mark(d, &last->done, r->lanes[i].stream);
        if (status == HD_OK) status = wait_for(d, r->lanes[0].stream, last->done);
    }
    return status;
}

hd_error hd_cuda_record(int index) {
    hd_cuda_device *d = hd_cuda_device_at(index);
    if (d == NULL) return HD_ERROR_DEVICE;
    if (recording != NULL) return hd_fail(HD_ERROR_INTERNAL, "this thread is recording already");
    hd_gpu_recording *r = hd_array_resize(NULL, sizeof *r);
    if (r == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a recording");
    *r = (hd_gpu_recording){.device = d};
    const hd_error status = begin(d, r);
    if (status == HD_OK)
        recording = r;
    else
        hd_cuda_forget(hd_thread_self(), r);
    return status;
}

static hd_error end(hd_cuda_device *d, hd_gpu_recording *r, bool is_wanted) {
    if (hd_cuda_device_at(d->device.index) == NULL) return HD_ERROR_DEVICE; /* forked since, or lost */
    const hd_error joined = join_lanes(d, r);                               /* a capture is ended in any case */
    const int ended = hd_cu.capture_end(r->lanes[0].stream, &r->graph);
    HD_TRY(joined);
    HD_TRY(hd_cuda_check(d, ended, "cuStreamEndCapture"));
    if (!is_wanted) return HD_OK;
    int status, attempt = 0;
    do status = hd_cu.graph_instantiate(&r->exec, r->graph, 0);
    while (hd_cuda_try_again(d, status, attempt++));
    return hd_cuda_check(d, status, "cuGraphInstantiate");
}

hd_error hd_cuda_recorded(int index, hd_gpu_recording **out) {
    (void)index;
    hd_gpu_recording *r = recording;
    if (out != NULL) *out = NULL;
    if (r == NULL) return hd_fail(HD_ERROR_INTERNAL, "this thread is not recording");
    recording = NULL;
    hd_error_copy pending; /* why it is given up */
    if (out == NULL) hd_error_take(&pending);
    hd_error status = end(r->device, r, out != NULL);
    release_lanes(r);
    if (out == NULL) {
        hd_error_copy forgotten;
        if (status != HD_OK) hd_error_take(&forgotten);
        hd_error_put_back(&pending);
    }
    if (out != NULL && status == HD_OK)
        *out = r;
    else
        hd_cuda_forget(hd_thread_self(), r);
    return status;
}

/* ---- launches that change ---------------------------------------------------------------------------------------- */
hd_error hd_cuda_mark(hd_cuda_device *d, uint32_t *mark) {
    hd_gpu_recording *r = recording;
    if (r == NULL || r->device != d) return hd_fail(HD_ERROR_INTERNAL, "a launch is marked that is not recorded");
    hd_cu_node *const *nodes = NULL;
    hd_cu_graph *graph = NULL;
    size_t count = 0;
    uint64_t id = 0;
    int state = 0;
    HD_TRY(hd_cuda_check(d, hd_cu.capture_info(hd_cuda_stream(d), &state, &id, &graph, &nodes, &count),
                         "cuStreamGetCaptureInfo"));
    if (count != 1) return hd_fail(HD_ERROR_INTERNAL, "%zu launches stand where one was recorded", count);
    hd_cu_node **marks = hd_array_resize(r->marks, (r->mark_count + 1) * sizeof *marks);
    if (marks == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a recording of %u draws", r->mark_count + 1);
    r->marks = marks;
    r->marks[r->mark_count] = nodes[0];
    *mark = r->mark_count++;
    return HD_OK;
}

/* Replays that are under way are not touched. */
hd_error hd_cuda_relaunch(hd_gpu_recording *r, uint32_t mark, const hd_gpu_launch *l) {
    void *parameters[HD_CUDA_PARAMETERS];
    hd_cuda_device *d = hd_cuda_device_at(r->device->device.index);
    if (d == NULL) return HD_ERROR_DEVICE;
    if (mark >= r->mark_count) return hd_fail(HD_ERROR_INTERNAL, "launch %u of a recording is not marked", mark);
    HD_TRY(hd_cuda_parameters(l, parameters));
    const hd_cu_kernel_parameters p = {.function = hd_cuda_handle(l->function),
                                       .groups = {l->groups[0], l->groups[1], l->groups[2]},
                                       .threads = {l->threads[0], l->threads[1], l->threads[2]},
                                       .parameters = parameters};
    return hd_cuda_check(d, hd_cu.node_set(r->exec, r->marks[mark], &p), "cuGraphExecKernelNodeSetParams");
}

hd_error hd_cuda_replay(hd_gpu_recording *r) {
    hd_cuda_device *d = hd_cuda_device_at(r->device->device.index);
    if (d == NULL) return HD_ERROR_DEVICE;
    int status, attempt = 0;
    do status = hd_cu.graph_launch(r->exec, d->stream);
    while (hd_cuda_try_again(d, status, attempt++));
    return hd_cuda_check(d, status, "cuGraphLaunch");
}
