/* Launches of GPUs: operands, results, workspace; kernels with their grids, and functions of templates. */
#include "core/environment.h"
#include "machine/gpu.h"

#include <string.h>

/* ---- operands and results ---------------------------------------------------------------------------------------- */
static char *first_element(char *base, const hd_tensor *t) {
    return base == NULL ? NULL : base + t->layout.offset * (int64_t)hd_dtype_bytes[t->dtype];
}

/* The one element of a number on the device; a reference that is the caller's. */
static hd_tensor *number_there(hd_thread *thread, const hd_tensor *t, hd_device device) {
    hd_tensor *there = hd_tensor_new_on(thread, device, (hd_dtype)t->dtype, &(hd_shape){.rank = 0});
    if (there == NULL || hd_storage_copy(thread, there->storage, t->storage, 0, t->storage->bytes) == HD_OK)
        return there;
    hd_tensor_drop(thread, there);
    return NULL;
}

void *hd_gpu_read(hd_thread *thread, const hd_gpu_device *d, const hd_tensor *t, hd_tensor **moved) {
    if (!hd_storage_is_away(t->storage)) { /* a number */
        if (*moved == NULL) *moved = number_there(thread, t, d->device);
        return *moved == NULL ? NULL : hd_storage_address(thread, (*moved)->storage, HD_READ);
    }
    return first_element(hd_storage_address(thread, t->storage, HD_READ), t);
}

hd_error hd_gpu_outputs(hd_thread *thread, const hd_gpu_device *d, hd_call *call, bool optional) {
    const hd_call before = *call;
    for (int i = 0; i < call->output_count; ++i) {
        if (call->given && (call->outputs[i] != NULL || optional)) continue;
        call->outputs[i] = hd_tensor_new_on(thread, d->device, call->dtype[i], &call->shape[i]);
        if (call->outputs[i] != NULL) continue;
        for (int j = 0; j < i; ++j)
            if (!before.given || before.outputs[j] == NULL) hd_tensor_drop(thread, call->outputs[j]);
        return thread->error_code;
    }
    return HD_OK;
}

hd_error hd_gpu_finish(hd_thread *thread, hd_call *call, hd_error status) {
    for (int i = 0; status != HD_OK && !call->given && i < call->output_count; ++i)
        hd_tensor_drop(thread, call->outputs[i]);
    return status;
}

void *hd_gpu_written(hd_thread *thread, hd_tensor *t) {
    const bool is_all = t->contiguous && (size_t)t->count * hd_dtype_bytes[t->dtype] == t->storage->bytes;
    return first_element(hd_storage_address(thread, t->storage, is_all ? HD_OVERWRITE : HD_WRITE), t);
}

hd_block *hd_gpu_workspace(hd_thread *thread, const hd_gpu_device *d, size_t bytes) {
    return hd_device_interface_of(d->device.kind)->allocate(thread, d->device.index, bytes > 0 ? bytes : 1);
}

hd_error hd_gpu_operands_begin(hd_thread *thread, const hd_gpu_device *d, hd_call *call, unsigned strided,
                               hd_gpu_operands *o) {
    memset(o, 0, sizeof *o);
    HD_TRY(hd_gpu_outputs(thread, d, call, true));
    hd_error status = HD_OK;
    for (int i = 0; i < call->input_count && status == HD_OK; ++i) {
        hd_tensor *x = call->inputs[i];
        if ((strided & 1u << i) == 0) x = o->in[i] = hd_gpu_packed(thread, d, x);
        if (x != NULL) o->from[i] = hd_gpu_read(thread, d, x, &o->moved[i]);
        if (x == NULL || o->from[i] == NULL) status = thread->error_code;
    }
    for (int i = 0; i < call->output_count && status == HD_OK; ++i) {
        if (call->outputs[i] == NULL) continue;
        o->to[i] = hd_gpu_written(thread, call->outputs[i]);
        if (o->to[i] == NULL) status = thread->error_code;
    }
    return status == HD_OK ? HD_OK : hd_gpu_operands_end(thread, call, o, status);
}

hd_error hd_gpu_operands_end(hd_thread *thread, hd_call *call, hd_gpu_operands *o, hd_error status) {
    for (int i = 0; i < call->input_count; ++i) {
        hd_tensor_drop(thread, o->in[i]);
        hd_tensor_drop(thread, o->moved[i]);
    }
    return hd_gpu_finish(thread, call, status);
}

/* ---- templates --------------------------------------------------------------------------------------------------- */
uint32_t hd_gpu_groups(int64_t points, uint32_t threads) {
    const int64_t groups = (points + threads - 1) / threads;
    if (groups > 0 && groups <= INT32_MAX) return (uint32_t)groups;
    if (groups > 0)
        hd_fail(HD_ERROR_VALUE, "%lld points; a GPU takes %lld at once", (long long)points,
                (long long)INT32_MAX * threads);
    return 0;
}

_Thread_local int64_t *hd_gpu_nanoseconds;

bool hd_gpu_debug_sync(void) {
    static _Atomic int known; /* 0: not yet */
    int is = atomic_load_explicit(&known, memory_order_relaxed);
    if (is == 0) atomic_store(&known, is = hd_environment_debug("sync") ? 1 : 2);
    return is == 1;
}

_Thread_local hd_gpu_changes *hd_gpu_changing;

static hd_error launch_changing(const hd_gpu_device *d, hd_gpu_launch *l, hd_gpu_changes *c) {
    if (c->count == c->capacity) return hd_fail(HD_ERROR_INTERNAL, "%u launches are more than were marked", c->count);
    if (c->recording != NULL) return d->gpu->relaunch(c->recording, c->marks[c->count++], l);
    l->mark = &c->marks[c->count++];
    return d->gpu->launch(d->device.index, l);
}

hd_error hd_gpu_launch_it(const hd_gpu_device *d, hd_gpu_launch *l) {
    if (__builtin_expect(hd_gpu_changing != NULL, 0)) return launch_changing(d, l, hd_gpu_changing);
    int64_t took = 0;
    if (hd_gpu_nanoseconds != NULL) l->nanoseconds = &took;
    hd_error status = d->gpu->launch(d->device.index, l);
    if (hd_gpu_nanoseconds != NULL) *hd_gpu_nanoseconds += took;
    if (__builtin_expect(hd_gpu_debug_sync(), 0) && status == HD_OK)
        status = hd_device_interface_of(d->device.kind)->synchronize(hd_thread_self(), d->device.index);
    return status;
}

hd_error hd_gpu_shoot(const hd_gpu_device *d, const hd_gpu_shot *shot) {
    hd_gpu_code *code = hd_gpu_code_of_template(d, shot->use);
    hd_gpu_function *f = code == NULL ? NULL : hd_gpu_code_function(d, code, shot->function);
    if (f == NULL) return hd_thread_self()->error_code;
    hd_gpu_launch l = {.function = f,
                       .groups = {shot->groups[0], shot->groups[1] > 0 ? shot->groups[1] : 1,
                                  shot->groups[2] > 0 ? shot->groups[2] : 1},
                       .threads = {shot->threads, 1, 1},
                       .buffers = shot->buffers,
                       .buffer_count = shot->buffer_count,
                       .arguments = shot->arguments,
                       .argument_bytes = shot->argument_bytes};
    return hd_gpu_launch_it(d, &l);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */
enum { ARGUMENTS_MOST = 4096 };

hd_grid_limits hd_gpu_grid_limits(const hd_gpu_device *d) {
    const hd_gpu_limits *limits = d->gpu->limits(d->device.index);
    return (hd_grid_limits){limits->processors, limits->group_most, limits->has_f64,
                            d->dialect == HD_DIALECT_CUDA ? (uint8_t)limits->subgroup : 0};
}

bool hd_gpu_choose_grid(const hd_gpu_device *d, const hd_native *n, int alignment, hd_gpu_kernel_code *out) {
    const hd_gpu_limits *limits = d->gpu->limits(d->device.index);
    const hd_grid_limits of_grid = hd_gpu_grid_limits(d);
    memset(out, 0, sizeof *out);
    out->grid = hd_grid_choose(&n->shape, n->geometry, alignment, &of_grid);
    out->argument_bytes = hd_grid_arguments(&n->shape, &out->grid, n->geometry, NULL, NULL);
    const size_t all = out->argument_bytes + 8 * ((size_t)n->shape.buffer_count + out->grid.in_pieces);
    return all <= limits->argument_bytes && all <= ARGUMENTS_MOST && out->grid.groups <= UINT32_MAX;
}

static hd_error find_functions(const hd_gpu_device *d, hd_gpu_code *code, hd_gpu_kernel_code *out) {
    if (out->grid.in_pieces) {
        out->parts = hd_gpu_code_function(d, code, "_parts");
        out->join = hd_gpu_code_function(d, code, "_join");
    } else {
        out->whole = hd_gpu_code_function(d, code, "");
    }
    return out->whole != NULL || (out->parts != NULL && out->join != NULL) ? HD_OK : hd_thread_self()->error_code;
}

hd_error hd_gpu_compile_kernels(const hd_gpu_device *d, const hd_native *const *natives, hd_gpu_kernel_code *codes,
                                int count) {
    hd_gpu_kernel *kernels = hd_array_resize(NULL, ((size_t)count + 1) * sizeof *kernels);
    hd_gpu_code **found = hd_array_resize(NULL, ((size_t)count + 1) * sizeof *found);
    hd_error status =
        kernels == NULL || found == NULL ? hd_fail(HD_ERROR_MEMORY, "no memory for %d kernels", count) : HD_OK;
    for (int i = 0; i < count && status == HD_OK; ++i)
        kernels[i] = (hd_gpu_kernel){&natives[i]->shape, codes[i].grid, "call"};
    if (status == HD_OK) status = hd_gpu_code_of_kernels(d, kernels, count, found);
    for (int i = 0; i < count && status == HD_OK; ++i) status = find_functions(d, found[i], &codes[i]);
    hd_array_release(kernels);
    hd_array_release(found);
    return status;
}

static hd_error launch_function(const hd_gpu_device *d, const hd_native *n, const hd_gpu_kernel_code *code,
                                hd_gpu_function *f, void **buffers, char *arguments, int64_t groups, uint32_t pieces) {
    hd_gpu_launch l = {.function = f,
                       .groups = {(uint32_t)groups, pieces, 1},
                       .threads = {code->grid.threads, 1, 1},
                       .buffers = buffers,
                       .buffer_count = n->shape.buffer_count + code->grid.in_pieces,
                       .arguments = arguments,
                       .argument_bytes = code->argument_bytes};
    return hd_gpu_launch_it(d, &l);
}

hd_error hd_gpu_launch_kernel(hd_thread *thread, const hd_gpu_device *d, const hd_native *n,
                              const hd_gpu_kernel_code *code, const uint64_t *numbers, void **buffers) {
    const hd_grid *g = &code->grid;
    _Alignas(8) char arguments[ARGUMENTS_MOST];
    hd_grid_arguments(&n->shape, g, n->geometry, numbers, arguments);
    if (!g->in_pieces) return launch_function(d, n, code, code->whole, buffers, arguments, g->groups, 1);
    hd_block *parts = hd_gpu_workspace(thread, d, hd_grid_part_bytes(&n->shape, g));
    if (parts == NULL) return thread->error_code;
    buffers[n->shape.buffer_count] = parts->address;
    hd_error status = launch_function(d, n, code, code->parts, buffers, arguments, g->groups, g->piece_count);
    if (status == HD_OK)
        status =
            launch_function(d, n, code, code->join, buffers, arguments, (g->points + g->threads - 1) / g->threads, 1);
    hd_block_release(thread, parts); /* what is launched comes before what it is used for next */
    return status;
}
