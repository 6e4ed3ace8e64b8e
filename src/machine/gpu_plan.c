/* Plans on GPUs: launches one after the other, in the order of one queue, so that nothing is waited for but indices
 * that are looked at before they are used. Kernels have grids; what is no kernel is a call of the executor, which
 * finds its results given. */
#include "core/os.h"
#include "device/cpu/check_index.h"
#include "grad/tape.h"
#include "machine/gpu_plan.h"
#include "plan/draft.h"

#include <string.h>

/* What a GPU has of a plan: plan->own. */
typedef struct gpu_plan {
    const hd_gpu_device *device;
    hd_gpu_kernel_code *kernels; /* of each native that is launched by itself */
    hd_gpu_product **products;   /* of each call that has a kernel for its tiles; NULL */
    uint32_t product_count;
    hd_gpu_records *records; /* made with the first run; NULL where nothing is recorded */
} gpu_plan;
static gpu_plan *gpu_plan_of(const hd_plan *p) { return p->own; }

/* ---- questions --------------------------------------------------------------------------------------------------- */
static bool uses_alone(const hd_plan *p, uint32_t index, uint32_t buffer) {
    (void)p, (void)index, (void)buffer;
    return true;
}
static bool product_can_fail(const hd_plan *p, const hd_launch *l) {
    (void)p, (void)l;
    return true;
}
static bool product_may_overwrite(const hd_plan *p, const hd_launch *l, uint32_t tensor) {
    (void)p, (void)l, (void)tensor;
    return false;
}

/* ---- making plans ------------------------------------------------------------------------------------------------ */
static hd_error gpu_begin(hd_plan_draft *d) {
    hd_plan *p = d->plan;
    gpu_plan *own = hd_array_resize(NULL, sizeof *own);
    if (own == NULL) return hd_plan_no_memory(p);
    *own = (gpu_plan){.device = (const hd_gpu_device *)hd_device_executor(p->machine->device)};
    p->own = own;
    return own->device == NULL ? hd_device_check(p->machine->device) : HD_OK;
}

/* A product alone is a call; else what follows it is written into its text. */
static hd_error gpu_plan_product(hd_plan_draft *d, hd_lowering *lowering, const hd_group *group) {
    return group->count == 1 ? hd_draft_call(d, hd_draft_product_of(d, group), HD_RUN_CALL)
                             : hd_draft_kernel(d, lowering, group);
}

/* What is given is aligned, and so is what the plan lays out itself; parts of it may begin anywhere. */
static int alignment_of(const hd_plan *p, const hd_plan_native *n) {
    for (int b = 0; b < n->native.shape.buffer_count; ++b) {
        if (b == n->tile) continue;
        const hd_tensor *t = &p->tensors[n->tensors[b]];
        if ((size_t)t->layout.offset * hd_dtype_bytes[t->dtype] % 16 != 0) return 1;
    }
    return 16;
}

static hd_error fit_kernel(const hd_plan *p, uint32_t i) {
    const gpu_plan *own = gpu_plan_of(p);
    const hd_native *n = &p->natives[i]->native;
    if (hd_gpu_choose_grid(own->device, n, alignment_of(p, p->natives[i]), &own->kernels[i])) return HD_OK;
    return hd_fail(HD_ERROR_DEVICE,
                   "a fused kernel of %d buffers and %d axes passes more than %s takes; a lower level "
                   "(hd_script_set_optimization_level) makes smaller ones",
                   n->shape.buffer_count, n->shape.axes, hd_device_text((char[32]){0}, own->device->device));
}

/* Kernels that are launched by themselves are compiled together, and each product with its epilogue. */
static hd_error compile_all(hd_plan *p, const hd_native **natives, hd_gpu_kernel_code *codes) {
    gpu_plan *own = gpu_plan_of(p);
    int count = 0;
    for (uint32_t i = 0; i < p->native_count; ++i) {
        if (p->natives[i]->tile >= 0) continue;
        HD_TRY(fit_kernel(p, i));
        codes[count] = own->kernels[i];
        natives[count++] = &p->natives[i]->native;
    }
    HD_TRY(hd_gpu_compile_kernels(own->device, natives, codes, count));
    count = 0;
    for (uint32_t i = 0; i < p->native_count; ++i)
        if (p->natives[i]->tile < 0) own->kernels[i] = codes[count++];
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        const hd_launch *l = &p->launches[i];
        if (l->kind != HD_RUN_PRODUCT) continue;
        const hd_plan_native *n = p->natives[l->native];
        own->products[l->call] = hd_gpu_product_new(own->device, &p->calls[l->call].call, &n->native, n->tile, n->rows);
        if (own->products[l->call] == NULL) return hd_thread_self()->error_code;
    }
    return HD_OK;
}

static hd_error gpu_settle(hd_plan_draft *d) {
    hd_plan *p = d->plan;
    gpu_plan *own = gpu_plan_of(p);
    const int64_t begin = hd_os_nanoseconds();
    const size_t count = (size_t)p->native_count + 1;
    const hd_native **natives = hd_array_resize(NULL, count * sizeof *natives);
    hd_gpu_kernel_code *codes = hd_array_resize(NULL, count * sizeof *codes);
    own->kernels = hd_array_resize(NULL, count * sizeof *own->kernels);
    own->products = hd_array_resize(NULL, ((size_t)p->call_count + 1) * sizeof *own->products);
    own->product_count = own->products == NULL ? 0 : p->call_count;
    for (uint32_t i = 0; i < own->product_count; ++i) own->products[i] = NULL;
    const hd_error status = natives == NULL || codes == NULL || own->kernels == NULL || own->products == NULL
                                ? hd_plan_no_memory(p)
                                : compile_all(p, natives, codes);
    hd_array_release(natives);
    hd_array_release(codes);
    p->executable.code.kernels = (int)p->native_count;
    p->executable.code.compile_nanoseconds = hd_os_nanoseconds() - begin;
    return status;
}

static hd_error gpu_order(hd_plan_draft *d) {
    hd_plan *p = d->plan;
    p->spans = hd_array_resize(NULL, ((size_t)p->launch_count + 1) * sizeof *p->spans);
    if (p->spans == NULL) return hd_plan_no_memory(p);
    for (uint32_t i = 0; i < p->launch_count; ++i) p->spans[i] = (hd_plan_span){i, 1};
    p->span_count = p->launch_count;
    p->executable.jobs = p->launch_count;
    return HD_OK;
}

static void gpu_release(hd_plan *p, hd_thread *thread) {
    gpu_plan *own = gpu_plan_of(p);
    if (own == NULL) return;
    hd_gpu_records_release(own->device, thread, own->records);
    for (uint32_t i = 0; i < own->product_count; ++i)
        if (own->products[i] != NULL) hd_gpu_product_release(own->products[i]);
    hd_array_release(own->products);
    hd_array_release(own->kernels);
    hd_array_release(own);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */
static void find_buffers(const hd_plan *p, const hd_plan_native *n, void **buffers) {
    for (int b = 0; b < n->native.shape.buffer_count; ++b) {
        const hd_tensor *t = b == n->tile ? NULL : &p->tensors[n->tensors[b]];
        buffers[b] = t == NULL ? NULL : (char *)t->storage->data + t->layout.offset * (int64_t)hd_dtype_bytes[t->dtype];
    }
}

static hd_error run_product(const hd_plan *p, hd_thread *thread, const hd_launch *l) {
    const gpu_plan *own = gpu_plan_of(p);
    const hd_plan_native *n = p->natives[l->native];
    void *buffers[HD_KERNEL_BUFFERS + 1];
    find_buffers(p, n, buffers);
    return hd_gpu_product_with_epilogue(thread, own->device, own->products[l->call], &p->calls[l->call].call,
                                        &n->native, n->native.numbers, buffers);
}

static hd_error run_kernel(const hd_plan *p, hd_thread *thread, const hd_launch *l) {
    const gpu_plan *own = gpu_plan_of(p);
    const hd_plan_native *n = p->natives[l->native];
    void *buffers[HD_KERNEL_BUFFERS + 1];
    find_buffers(p, n, buffers);
    if (own->kernels[l->native].grid.points == 0) return HD_OK;
    return hd_gpu_launch_kernel(thread, own->device, &n->native, &own->kernels[l->native], n->native.numbers, buffers);
}

/* HODU_DEBUG=nan looks at copies of the results. */
static hd_error check_results(hd_thread *thread, const hd_call *call) {
    hd_call here = *call;
    hd_error status = HD_OK;
    for (int i = 0; i < call->output_count; ++i) {
        here.outputs[i] = call->outputs[i] == NULL ? NULL : hd_tensor_moved(thread, call->outputs[i], hd_cpu());
        if (call->outputs[i] != NULL && here.outputs[i] == NULL) status = thread->error_code;
    }
    if (status == HD_OK) status = hd_check_results(thread, &here);
    for (int i = 0; i < call->output_count; ++i) hd_tensor_drop(thread, here.outputs[i]);
    return status;
}

static hd_error run_call(const hd_plan *p, hd_thread *thread, const hd_launch *l, const hd_run *run) {
    hd_executor *executor = (hd_executor *)(uintptr_t)&gpu_plan_of(p)->device->executor;
    hd_plan_call *c = &p->calls[l->call];
    if (c->call.attributes == &c->draw) {
        c->draw.seed = run->seed;
        c->draw.draw = run->draw + ((const hd_random_attributes *)hd_node_attributes(p->graph, l->node))->draw;
    }
    HD_TRY(executor->run(executor, thread, &c->call));
    return hd_debug_nan() ? check_results(thread, &c->call) : HD_OK;
}

/* The CPU words the error. */
static hd_error run_check(const hd_plan *p, hd_thread *thread, const hd_launch *l) {
    const hd_graph *g = p->graph;
    hd_tensor *index = p->pointers[l->first];
    const void *attributes = hd_node_attributes(g, l->node);
    const hd_lower_kind kind = hd_node_lowers(g, l->node);
    const int axis = kind == HD_LOWER_SCATTER ? ((const hd_scatter_attributes *)attributes)->axis
                                              : ((const hd_axis_attributes *)attributes)->axis;
    const int64_t bound = hd_node_shape(g, hd_node_inputs(g, l->node)[0]).size[axis];
    bool beside = false;
    if (index->count > 0) HD_TRY(hd_gpu_any_beside(thread, index, bound, &beside));
    if (!beside) return HD_OK;
    hd_tensor *packed = hd_gpu_packed(thread, gpu_plan_of(p)->device, index);
    hd_tensor *here = packed == NULL ? NULL : hd_tensor_moved(thread, packed, hd_cpu());
    const hd_error status = here == NULL
                                ? thread->error_code
                                : hd_cpu_check_index(thread, here, kind == HD_LOWER_INDEX_SELECT ? 0 : axis, bound);
    hd_tensor_drop(thread, here);
    hd_tensor_drop(thread, packed);
    return status;
}

static hd_error run_launch(const hd_plan *p, hd_thread *thread, const hd_launch *l, const hd_run *run) {
    const hd_gpu_device *d = gpu_plan_of(p)->device;
    hd_tensor **operands = p->pointers + l->first;
    switch (l->kind) {
    case HD_RUN_KERNEL: return run_kernel(p, thread, l);
    case HD_RUN_PRODUCT: return run_product(p, thread, l);
    case HD_RUN_CALL: return run_call(p, thread, l, run);
    case HD_RUN_CHECK: return run_check(p, thread, l);
    case HD_RUN_BORDER: return hd_gpu_pad_border(thread, d, operands[0], hd_node_attributes(p->graph, l->node));
    case HD_RUN_COPY:
    case HD_RUN_SAVE: return hd_gpu_write((hd_executor *)(uintptr_t)&d->executor, thread, operands[1], operands[0]);
    default: return hd_fail(HD_ERROR_INTERNAL, "a launch of kind %d is none of a GPU", l->kind);
    }
}

static hd_error enqueue(const hd_gpu_run *r, uint32_t begin, uint32_t end, uint32_t *done) {
    const hd_plan *p = r->plan;
    for (uint32_t i = begin; i < end; ++i) {
        const hd_launch *l = &p->launches[i];
        *done = i; /* also when it is left */
        hd_gpu_nanoseconds = r->run->nanoseconds == NULL ? NULL : &r->run->nanoseconds[i];
        const hd_error status = run_launch(p, r->thread, l, r->run);
        hd_gpu_nanoseconds = NULL;
        if (__builtin_expect(status != HD_OK, 0)) {
            hd_error_append(r->thread, " (in node %%%u, %s)", l->node, hd_node_name(&p->graph->nodes[l->node]));
            return status;
        }
    }
    return HD_OK;
}

static hd_error gpu_run(hd_plan *p, hd_thread *thread, const hd_run *run, uint32_t *done) {
    gpu_plan *own = gpu_plan_of(p);
    const hd_gpu_run this_run = {p, thread, run, done, enqueue};
    const bool alone = run->nanoseconds != NULL || hd_debug_nan() || hd_gpu_debug_sync();
    if (own->records == NULL && own->device->gpu->record != NULL) own->records = hd_gpu_records_new(p);
    return alone || own->records == NULL ? enqueue(&this_run, 0, p->launch_count, done)
                                         : hd_gpu_run_recorded(own->device, &this_run, own->records);
}

/* Copies on the device, which fail only when that is lost. */
static void gpu_undo(const hd_plan *p, hd_thread *thread, uint32_t end) {
    const hd_gpu_device *d = gpu_plan_of(p)->device;
    hd_error_copy pending; /* why the run failed */
    hd_error_take(&pending);
    hd_gpu_nanoseconds = NULL;
    for (uint32_t i = end; i-- > 0;) {
        hd_tensor **operands = p->pointers + p->launches[i].first;
        if (p->launches[i].kind == HD_RUN_SAVE)
            hd_gpu_write((hd_executor *)(uintptr_t)&d->executor, thread, operands[0], operands[1]);
    }
    hd_error_put_back(&pending);
}

const hd_machine hd_gpu_machine = {.product_apart = hd_gpu_product_apart,
                                   .tile_dtype = hd_gpu_tile_dtype,
                                   .tile_columns = hd_gpu_tile_columns,
                                   .begin = gpu_begin,
                                   .plan_product = gpu_plan_product,
                                   .settle = gpu_settle,
                                   .order = gpu_order,
                                   .uses_alone = uses_alone,
                                   .product_can_fail = product_can_fail,
                                   .product_may_overwrite = product_may_overwrite,
                                   .by_copy = hd_gpu_is_by_copy,
                                   .release = gpu_release,
                                   .run = gpu_run,
                                   .undo = gpu_undo};
