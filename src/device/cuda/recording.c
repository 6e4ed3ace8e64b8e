/* Recordings: what a thread enqueues between begin and end becomes one CUDA graph, which is launched as a whole. While a
 * thread records, its commands go to a stream of the recording, others' to the device's as always. Memory that is
 * allocated meanwhile belongs to the recording as long as that lives: its addresses are in the graph. */
#include "device/cuda/driver.h"

#include <string.h>

struct hd_gpu_recording {
    hd_cuda_device *device;
    hd_cu_stream *stream;
    hd_cu_exec *exec;
    hd_block **blocks;
    size_t block_count, block_capacity;
};

static _Thread_local hd_gpu_recording *recording; /* of this thread */

hd_cu_stream *hd_cuda_stream(const hd_cuda_device *d) {
    return __builtin_expect(recording != NULL, 0) && recording->device == d ? recording->stream : d->stream;
}

hd_error hd_cuda_keep_for_recording(hd_block *block) {
    hd_gpu_recording *r = recording;
    if (__builtin_expect(r == NULL, 1)) return HD_OK;
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

void hd_cuda_forget(hd_thread *thread, hd_gpu_recording *r) {
    if (r == NULL) return;
    if (hd_cuda_is_here()) {
        if (r->exec != NULL) { /* it may still run, and its memory is given out again in the order of the stream */
            hd_cu.context_set(r->device->context);
            hd_cu.exec_release(r->exec);
        }
        if (r->stream != NULL) hd_cu.stream_release(r->stream);
    }
    for (size_t i = 0; i < r->block_count; ++i) hd_block_release(thread, r->blocks[i]);
    hd_array_release(r->blocks);
    hd_array_release(r);
}

static hd_error begin(hd_cuda_device *d, hd_gpu_recording *r) {
    HD_TRY(hd_cuda_check(d, hd_cu.stream_new(&r->stream, HD_CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
    return hd_cuda_check(d, hd_cu.capture_begin(r->stream, HD_CU_CAPTURE_RELAXED), "cuStreamBeginCapture");
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

static hd_error end(hd_cuda_device *d, hd_gpu_recording *r) {
    hd_cu_graph *graph = NULL;
    HD_TRY(hd_cuda_check(d, hd_cu.capture_end(r->stream, &graph), "cuStreamEndCapture"));
    const int status = hd_cu.graph_instantiate(&r->exec, graph, 0);
    hd_cu.graph_release(graph);
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
    hd_error status = end(r->device, r);
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

hd_error hd_cuda_replay(hd_gpu_recording *r) {
    hd_cuda_device *d = hd_cuda_device_at(r->device->device.index);
    if (d == NULL) return HD_ERROR_DEVICE;
    return hd_cuda_check(d, hd_cu.graph_launch(r->exec, d->stream), "cuGraphLaunch");
}
