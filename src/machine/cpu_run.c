/* Running a plan on the CPU: its jobs one after the other, each shared by the threads of the pool. */
#include "core/device.h"
#include "core/os.h"
#include "core/pool.h"
#include "device/cpu/border.h"
#include "device/cpu/check_index.h"
#include "device/cpu/scatter_in_place.h"
#include "grad/tape.h"
#include "machine/cpu.h"

#include <string.h>

static hd_error run_op(const hd_plan *p, hd_thread *thread, hd_call *call) {
    hd_executor *executor = hd_cpu_plan_of(p)->executor;
    return executor->run(executor, thread, call);
}
static hd_error write_tensor(const hd_plan *p, hd_thread *thread, hd_tensor *to, hd_tensor *from) {
    hd_executor *executor = hd_cpu_plan_of(p)->executor;
    return executor->write(executor, thread, to, from);
}

/* ---- before a run ------------------------------------------------------------------------------------------------ */
/* Constants that are still in a file are read before anything is computed. */
static hd_error read_constants(const hd_plan *p, hd_thread *thread) {
    for (uint32_t i = 0; i < p->graph->constant_count; ++i) {
        hd_storage *s = p->graph->constants[i].storage;
        if (s->home != NULL && !hd_cpu_plan_of(p)->is_packed[i] && hd_storage_bytes(thread, s, HD_READ) == NULL)
            return thread->error_code;
    }
    return HD_OK;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */
hd_error hd_cpu_addresses(const hd_plan *p, hd_thread *thread, const hd_plan_native *n, char **out) {
    for (int b = 0; b < n->native.shape.buffer_count; ++b) {
        if (b == n->tile) continue;
        out[b] = hd_tensor_bytes(thread, &p->tensors[n->tensors[b]], HD_READ);
        if (out[b] == NULL) return thread->error_code;
    }
    return HD_OK;
}

static hd_error run_kernel(const hd_plan *p, hd_thread *thread, const hd_launch *l) {
    char *buffers[HD_KERNEL_BUFFERS];
    const hd_cpu_plan *own = hd_cpu_plan_of(p);
    const hd_plan_native *n = p->natives[l->native];
    HD_TRY(hd_cpu_addresses(p, thread, n, buffers));
    hd_cpu_run_kernel(n, &own->cuts[l->native], buffers, own->workspace == NULL ? NULL : hd_block_data(own->workspace),
                      own->workspace == NULL ? 0 : own->workspace->capacity);
    return HD_OK;
}

/* A kernel that runs on parts of a product while they are in cache. */
typedef struct tile_kernel {
    const hd_plan_native *n;
    char *buffers[HD_KERNEL_BUFFERS];
} tile_kernel;

/* Position `at`, counted through axes [first, last], of which one point each is to be computed; how many there are up
 * to the end of the last of them. */
static int64_t locate(const hd_native *n, int first, int last, int64_t at, int64_t *begin, int64_t *size) {
    for (int a = last; a >= first; --a) {
        begin[a] = at % n->geometry[a];
        at /= n->geometry[a];
        size[a] = 1;
    }
    return n->geometry[last] - begin[last];
}

/* A part of a product is in cache: what follows it is computed there. Its rows are those of all outer axes in one, and
 * so are its columns: they are pixels, along whose axes something that is computed there may walk differently. */
static void epilogue_of_tile(void *context, const void *tile, int64_t stride, int64_t row, int64_t rows, int64_t column,
                             int64_t columns) {
    const tile_kernel *f = context;
    const hd_native *n = &f->n->native;
    const int last = n->shape.kept - 1;
    const int64_t bytes = hd_dtype_bytes[n->shape.buffers[f->n->tile].dtype];
    int64_t begin[HD_KERNEL_AXES], size[HD_KERNEL_AXES];
    for (int64_t i = 0; i < rows; i += size[f->n->rows]) {
        const int64_t left = locate(n, 0, f->n->rows, row + i, begin, size);
        size[f->n->rows] = rows - i < left ? rows - i : left;
        for (int64_t k = 0; k < columns; k += size[last]) {
            const int64_t fit = locate(n, f->n->rows + 1, last, column + k, begin, size);
            size[last] = columns - k < fit ? columns - k : fit;
            hd_cpu_run_tile(f->n, f->buffers, (const char *)tile + (i * stride + k) * bytes, stride, begin, size);
        }
    }
}

/* Rows of its first operand are about to be read: they are written like a part of a result, all their columns at
 * once. */
void hd_cpu_compute_rows(void *context, void *out, int64_t row, int64_t rows) {
    const tile_kernel *f = context;
    const int64_t columns = f->n->native.geometry[f->n->native.shape.kept - 1];
    epilogue_of_tile(context, out, columns, row, rows, 0, columns);
}

hd_error hd_cpu_run_product(const hd_plan *p, hd_thread *thread, const hd_launch *l, char *workspace,
                            size_t workspace_bytes) {
    const hd_cpu_plan *own = hd_cpu_plan_of(p);
    hd_plan_call *call = &p->calls[l->call];
    hd_cpu_product_plan *c = &own->products[l->call];
    hd_product product = {
        .call = &call->call, .config = c->config, .workspace = workspace, .workspace_bytes = workspace_bytes};
    if (c->weight != HD_NONE) product.packed = hd_block_data(own->weights[c->weight].packed);
    tile_kernel prologue;
    if (call->prologue != HD_NONE) {
        prologue.n = p->natives[call->prologue];
        HD_TRY(hd_cpu_addresses(p, thread, prologue.n, prologue.buffers));
        product.prologue = hd_cpu_compute_rows;
        product.prologue_context = &prologue;
    }
    if (l->native != HD_NONE) {
        tile_kernel f = {.n = p->natives[l->native]};
        HD_TRY(hd_cpu_addresses(p, thread, f.n, f.buffers));
        product.epilogue = epilogue_of_tile;
        product.context = &f;
        return hd_cpu_product(thread, &product);
    }
    const hd_tensor *out = p->pointers[l->first + l->inputs];
    const hd_tensor *bias = c->bias == HD_NONE ? NULL : &p->tensors[c->bias];
    if (bias != NULL && !hd_cpu_adds_bias(bias, (hd_dtype)out->dtype)) return run_op(p, thread, &call->call);
    hd_plain_epilogue f = hd_cpu_product_plain(call->call.op, &out->layout.shape, (hd_dtype)out->dtype);
    f.out = out->storage->data;
    f.steps = c->steps;
    f.step_count = c->step_count;
    for (int i = 0; i < c->step_count; ++i) {
        if (c->others[i] == HD_NONE) continue;
        c->steps[i].other = hd_tensor_bytes(thread, &p->tensors[c->others[i]], HD_READ);
        if (c->steps[i].other == NULL) return thread->error_code;
    }
    if (bias != NULL) {
        f.bias = hd_tensor_bytes(thread, bias, HD_READ);
        f.bias_dtype = (hd_dtype)bias->dtype;
        if (f.bias == NULL) return thread->error_code;
    }
    product.epilogue = hd_cpu_product_store;
    product.context = &f;
    return hd_cpu_product(thread, &product);
}

static hd_error run_product(const hd_plan *p, hd_thread *thread, const hd_launch *l) {
    const hd_block *workspace = hd_cpu_plan_of(p)->workspace;
    return hd_cpu_run_product(p, thread, l, workspace == NULL ? NULL : hd_block_data((hd_block *)(uintptr_t)workspace),
                              workspace == NULL ? 0 : workspace->capacity);
}

static hd_error run_call(const hd_plan *p, hd_thread *thread, const hd_launch *l, const hd_run *run) {
    hd_plan_call *c = &p->calls[l->call];
    if (c->call.attributes == &c->draw) {
        c->draw.seed = run->seed;
        c->draw.draw = run->draw + ((const hd_random_attributes *)hd_node_attributes(p->graph, l->node))->draw;
    }
    HD_TRY(run_op(p, thread, &c->call));
    return hd_debug_nan() ? hd_check_results(thread, &c->call) : HD_OK;
}

static hd_error run_check(const hd_plan *p, hd_thread *thread, const hd_launch *l) {
    const hd_graph *g = p->graph;
    const void *attributes = hd_node_attributes(g, l->node);
    const hd_lower_kind kind = hd_node_lowers(g, l->node);
    const int axis = kind == HD_LOWER_SCATTER ? ((const hd_scatter_attributes *)attributes)->axis
                                              : ((const hd_axis_attributes *)attributes)->axis;
    const hd_shape shape = hd_node_shape(g, hd_node_inputs(g, l->node)[0]);
    const int of_index = kind == HD_LOWER_INDEX_SELECT ? 0 : axis; /* along which it names places */
    return hd_cpu_check_index(thread, p->pointers[l->first], of_index, shape.size[axis]);
}

static int axis_of_put(const hd_plan *p, const hd_launch *l) {
    return ((const hd_scatter_attributes *)hd_node_attributes(p->graph, l->node))->axis;
}

static hd_error run_save_at(const hd_plan *p, hd_thread *thread, const hd_launch *l) {
    hd_tensor **operands = p->pointers + l->first;
    const int axis = axis_of_put(p, l);
    const int64_t bound = operands[0]->layout.shape.size[axis];
    HD_TRY(hd_cpu_find_positions(thread, operands[2], operands[1], bound));
    hd_cpu_take(operands[3], operands[0], axis, operands[2]);
    return HD_OK;
}

static hd_error run_scatter(const hd_plan *p, const hd_launch *l) {
    hd_tensor **operands = p->pointers + l->first;
    const hd_scatter_attributes *a = hd_node_attributes(p->graph, l->node);
    hd_cpu_scatter_in_place(operands[2], a->axis, a->mode, operands[0], operands[1]);
    return HD_OK;
}

static hd_error run_launch(const hd_plan *p, hd_thread *thread, const hd_launch *l, const hd_run *run) {
    hd_tensor **operands = p->pointers + l->first;
    switch (l->kind) {
    case HD_RUN_KERNEL: return run_kernel(p, thread, l);
    case HD_RUN_PRODUCT: return run_product(p, thread, l);
    case HD_RUN_CHECK: return run_check(p, thread, l);
    case HD_RUN_SAVE_AT: return run_save_at(p, thread, l);
    case HD_RUN_SCATTER: return run_scatter(p, l);
    case HD_RUN_BORDER: return hd_cpu_fill_border(thread, operands[0], hd_node_attributes(p->graph, l->node));
    case HD_RUN_CALL: return run_call(p, thread, l, run);
    default: return write_tensor(p, thread, operands[1], operands[0]);
    }
}

/* The launches of a job, one after the other. */
static hd_error run_in_order(const hd_plan *p, hd_thread *thread, const hd_cpu_job *job, const hd_run *run,
                             uint32_t *failed) {
    int64_t begin = run->nanoseconds != NULL ? hd_os_nanoseconds() : 0;
    for (uint32_t i = job->first; i < job->first + job->count; ++i) {
        const hd_launch *l = &p->launches[i];
        *failed = i; /* also when it is left */
        if (l->threads > 0) hd_pool_limit(l->threads);
        const hd_error status = run_launch(p, thread, l, run);
        if (l->threads > 0) hd_pool_limit(0);
        if (__builtin_expect(status != HD_OK, 0)) {
            hd_error_append(thread, " (in node %%%u, %s)", l->node, hd_node_name(&p->graph->nodes[l->node]));
            return status;
        }
        if (__builtin_expect(run->nanoseconds != NULL, 0)) {
            const int64_t end = hd_os_nanoseconds();
            run->nanoseconds[i] += end - begin;
            begin = end;
        }
    }
    return HD_OK;
}

hd_error hd_cpu_run(hd_plan *p, hd_thread *thread, const hd_run *run, uint32_t *done) {
    const hd_cpu_plan *own = hd_cpu_plan_of(p);
    const int threads = hd_pool_threads();
    if (own->workspace_threads != threads) HD_TRY(hd_cpu_share_out(p, thread, threads));
    if (own->weight_count > 0) HD_TRY(hd_cpu_pack_weights(p, thread, run));
    if (p->graph->constant_count > 0) HD_TRY(read_constants(p, thread));
    for (uint32_t i = 0; i < own->job_count; ++i) {
        const hd_cpu_job *job = &own->jobs[i];
        if (job->piece_count > 0 && run->nanoseconds == NULL && !hd_debug_nan()) {
            *done = job->first;
            HD_TRY(hd_cpu_run_job(p, thread, job));
        } else {
            HD_TRY(run_in_order(p, thread, job, run, done)); /* also when each launch is to be timed, or looked at */
        }
    }
    return HD_OK;
}

/* Contiguous copies: nothing can fail here. */
void hd_cpu_undo(const hd_plan *p, hd_thread *thread, uint32_t end) {
    for (uint32_t i = end; i-- > 0;) {
        const hd_launch *l = &p->launches[i];
        hd_tensor **operands = p->pointers + l->first;
        if (l->kind == HD_RUN_SAVE) write_tensor(p, thread, operands[0], operands[1]);
        if (l->kind == HD_RUN_SAVE_AT) /* of duplicates, all saved the same */
            hd_cpu_scatter_in_place(operands[0], axis_of_put(p, l), HD_SCATTER_SET, operands[2], operands[3]);
    }
}
