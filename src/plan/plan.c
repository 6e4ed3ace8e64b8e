/* Making plans: plan.h has the phases.
 *
 * A launch is a native kernel, a product with what follows it, or a call of the device's own kernels. Every value that
 * is in memory has a tensor header, made once; views are only headers over the buffer they look at. Buffers of values
 * that live during the run lie in one arena, shared by those that do not live at the same time; outputs get new memory
 * in every run. A run that fails leaves state as it was: a new value is written over the old one only where nothing can
 * fail any more; else it is made beside it, and the two are exchanged when the whole run went well. */
#include "plan/plan.h"
#include "core/assert.h"
#include "core/profile.h"
#include "plan/draft.h"

#include <string.h>

/* ---- memory ------------------------------------------------------------------------------------------------------ */
static void release_plan(hd_executable *self, hd_thread *thread) {
    hd_plan *p = (hd_plan *)self;
    p->machine->release(p, thread);
    for (uint32_t i = 0; i < p->buffer_count; ++i)
        if (p->buffers[i].storage.block != NULL) hd_block_release(thread, p->buffers[i].storage.block);
    for (uint32_t i = 0; i < p->native_count; ++i) {
        if (p->natives[i]->code != NULL) hd_code_release(p->natives[i]->code);
        hd_native_release(&p->natives[i]->native);
        hd_array_release(p->natives[i]);
    }
    if (p->arena != NULL) hd_block_release(thread, p->arena);
    hd_plan_release_copies(p, thread);
    for (uint32_t i = 0; p->aside != NULL && i < p->graph->input_count; ++i)
        if (p->aside[i] != NULL) hd_block_release(thread, p->aside[i]);
    void *const arrays[] = {p->sliced, p->tensors, p->buffer_of, p->buffers,  p->launches,
                            p->calls,  p->natives, p->operands,  p->pointers, p->outputs,
                            p->state,  p->spans,   p->fresh,     p->aside,    p->copies};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; ++i) hd_array_release(arrays[i]);
    hd_array_release(p->tuning);
    hd_fusion_release(&p->fusion);
    hd_graph_release(thread, p->graph);
    hd_array_release(p);
}

/* Arrays for all there can be: pages that are not used cost nothing. */
static hd_error make_arrays(hd_plan_draft *d) {
    hd_plan *p = d->plan;
    const hd_graph *g = p->graph;
    /* a node needs at most three headers beside its own, or one for each part; outputs and updates one */
    const size_t most = (size_t)g->node_count * 4 + g->edge_count + g->output_count + g->cell_count + 1,
                 ordered = p->fusion.order_count;
    d->tensor_capacity = d->buffer_capacity = d->launch_capacity = (uint32_t)most;
    d->call_capacity = (uint32_t)ordered + 1;
    d->native_capacity = (uint32_t)(2 * ordered + 1); /* a product has two, at most */
    p->tensors = hd_array_resize(NULL, most * sizeof *p->tensors);
    p->buffer_of = hd_array_resize(NULL, most * sizeof *p->buffer_of);
    p->buffers = hd_array_resize(NULL, most * sizeof *p->buffers);
    p->launches = hd_array_resize(NULL, most * sizeof *p->launches);
    p->calls = hd_array_resize(NULL, d->call_capacity * sizeof *p->calls);
    p->natives = hd_array_resize(NULL, d->native_capacity * sizeof *p->natives);
    p->outputs = hd_array_resize(NULL, (g->output_count + 1) * sizeof *p->outputs);
    p->state = hd_array_resize(NULL, (g->cell_count + 1) * sizeof *p->state);
    p->fresh = hd_array_resize(NULL, (g->output_count + g->cell_count + 1) * sizeof *p->fresh);
    p->aside = hd_array_resize(NULL, ((size_t)g->input_count + 1) * sizeof *p->aside);
    for (uint32_t i = 0; p->aside != NULL && i < g->input_count; ++i) p->aside[i] = NULL;
    if (hd_plan_is_away(p)) {
        const size_t copies = (size_t)g->cell_count + g->input_count + g->constant_count + 1;
        p->copies = hd_array_resize(NULL, copies * sizeof *p->copies);
        if (p->copies == NULL) return hd_plan_no_memory(p);
        memset(p->copies, 0, copies * sizeof *p->copies);
    }
    p->tensor_count = g->node_count;
    return p->tensors == NULL || p->buffer_of == NULL || p->buffers == NULL || p->launches == NULL ||
                   p->calls == NULL || p->natives == NULL || p->outputs == NULL || p->state == NULL ||
                   p->fresh == NULL || p->aside == NULL
               ? hd_plan_no_memory(p)
               : HD_OK;
}

/* ---- phases 5 and 6 ---------------------------------------------------------------------------------------------- */
bool hd_plan_is_product(const hd_plan *p, const hd_launch *l) {
    return l->kind == HD_RUN_PRODUCT ||
           (l->kind == HD_RUN_CALL && p->fusion.groups[p->fusion.group_of[l->node]].kind == HD_GROUP_PRODUCT);
}

bool hd_plan_can_widen(const hd_native *n) { return n->shape.axes == n->shape.kept; } /* sums depend on their order */

void hd_plan_widen(hd_native *n, int width) {
    hd_schedule *s = &n->shape.schedule;
    s->width = (uint16_t)(width > 0 ? s->width * 2 : width < 0 ? s->width / 2 : s->width);
}

static void apply_tuning(hd_plan_draft *d, const hd_tuning *tuning) {
    hd_plan *p = d->plan;
    if (tuning->launch_count != p->launch_count) return;
    for (uint32_t i = 0; i < p->launch_count; ++i) /* they are in the order that tuning knows */
        p->machine->apply(d, &p->launches[i], &tuning->launches[i]);
}

/* All kernels of the plan at once, so that they are compiled side by side. */
static hd_error get_code(hd_thread *thread, hd_plan *p, const hd_kernel **kernels, hd_code **codes) {
    const hd_coder *coder = p->machine->coder();
    int count = 0;
    for (uint32_t i = 0; i < p->native_count; ++i)
        if (p->natives[i]->code == NULL) kernels[count++] = &p->natives[i]->native.shape;
    if (coder == NULL) return thread->error_code;
    HD_TRY(hd_code_get(thread, coder, kernels, count, codes, &p->executable.code));
    for (uint32_t i = 0; i < p->native_count; ++i)
        if (p->natives[i]->code == NULL) p->natives[i]->code = *codes++;
    return HD_OK;
}

/* What a file carries comes first: where it has all of them, nobody asks for a renderer. */
static hd_error compile_kernels(hd_thread *thread, hd_plan *p, hd_carried *carried) {
    if (p->native_count == 0 || p->machine->coder == NULL) return HD_OK;
    HD_PROFILE_PHASE("code");
    const hd_kernel **kernels = hd_array_resize(NULL, p->native_count * sizeof *kernels);
    hd_code **codes = hd_array_resize(NULL, p->native_count * sizeof *codes);
    hd_error status = kernels == NULL || codes == NULL ? hd_plan_no_memory(p) : HD_OK;
    if (status == HD_OK && carried != NULL) {
        for (uint32_t i = 0; i < p->native_count; ++i) kernels[i] = &p->natives[i]->native.shape;
        status = hd_carried_get(carried, kernels, (int)p->native_count, codes, &p->executable.code);
        for (uint32_t i = 0; i < p->native_count; ++i) p->natives[i]->code = codes[i];
    }
    if (status == HD_OK && p->executable.code.from_file < (int)p->native_count)
        status = get_code(thread, p, kernels, codes);
    hd_array_release(kernels);
    hd_array_release(codes);
    return status;
}

/* Nothing moves any more: indices become addresses. */
static hd_error connect(hd_plan *p) {
    p->pointers = hd_array_resize(NULL, ((size_t)p->operand_count + 1) * sizeof *p->pointers);
    if (p->pointers == NULL) return hd_plan_no_memory(p);
    for (uint32_t i = 0; i < p->operand_count; ++i) p->pointers[i] = &p->tensors[p->operands[i]];
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        const hd_launch *l = &p->launches[i];
        if (l->call == HD_NONE) continue;
        HD_ASSERT(l->call < p->call_count && l->first + l->inputs + l->outputs <= p->operand_count);
        hd_plan_call *c = &p->calls[l->call];
        c->call.inputs = p->pointers + l->first;
        c->call.outputs[0] = &p->tensors[l->node];
        for (int k = 1; k < HD_MAX_OUTPUTS; ++k)
            c->call.outputs[k] = c->outputs[k] == HD_NONE ? NULL : &p->tensors[c->outputs[k]];
        c->call.input_count = l->native == HD_NONE ? p->graph->nodes[l->node].input_count : 2;
        if (c->call.op->family == HD_FAMILY_RANDOM) c->call.attributes = &c->draw;
    }
    return HD_OK;
}

/* ---- all of them, as profiles tell them apart -------------------------------------------------------------------- */
static hd_error fuse(hd_plan *p, hd_optimization_level level, hd_fuse_choice choice) {
    HD_PROFILE_PHASE("fusion");
    return hd_fuse(p->machine, p->graph, level, choice, &p->fusion);
}
static hd_error make_launches(hd_plan_draft *d) {
    HD_PROFILE_PHASE("lowering");
    HD_TRY(hd_draft_find_slices(d));
    HD_TRY(hd_draft_find_joints(d));
    HD_TRY(make_arrays(d));
    HD_TRY(hd_draft_make_headers(d));
    HD_TRY(d->plan->machine->begin(d));
    return hd_draft_make_launches(d);
}
static hd_error compile_as_it_settles(hd_plan_draft *d) {
    HD_PROFILE_PHASE("code");
    return d->plan->machine->settle(d);
}
static hd_error settle(hd_thread *thread, hd_plan_draft *d) {
    const bool compiles = d->plan->machine->coder == NULL;
    if (compiles) HD_TRY(compile_as_it_settles(d));
    HD_PROFILE_PHASE("settling and memory");
    if (!compiles) HD_TRY(d->plan->machine->settle(d));
    return hd_draft_lay_out(thread, d);
}

static hd_error make_plan(hd_thread *thread, hd_plan_draft *d, hd_optimization_level level, const hd_tuning *tuning,
                          hd_carried *carried) {
    hd_plan *p = d->plan;
    const hd_fuse_choice choice = tuning == NULL ? (hd_fuse_choice){0} : tuning->fuse;
    HD_TRY(fuse(p, level, choice));
    hd_plan_dump(p);
    HD_TRY(make_launches(d));
    if (tuning != NULL) apply_tuning(d, tuning);
    HD_TRY(compile_kernels(thread, p, carried));
    HD_TRY(connect(p));
    HD_TRY(settle(thread, d));
    p->executable.launches = p->launch_count;
    p->executable.nodes = p->graph->node_count;
    p->executable.jobs = p->span_count;
    return HD_OK;
}

hd_plan *hd_plan_new(hd_thread *thread, hd_graph *graph, const hd_machine *machine, hd_optimization_level level,
                     const hd_tuning *tuning, hd_carried *carried) {
    hd_plan *p = hd_array_resize(NULL, sizeof *p);
    if (p == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a plan");
        return NULL;
    }
    memset(p, 0, sizeof *p);
    p->executable = (hd_executable){
        .run = hd_plan_run, .left = hd_plan_left, .destroy = release_plan, .describe = hd_plan_describe};
    p->machine = machine;
    p->executable.on_device = hd_device_is_away(machine->device);
    hd_object_retain(&graph->object);
    p->graph = graph;
    hd_plan_draft d = {.plan = p};
    const hd_error status = make_plan(thread, &d, level, tuning, carried);
    hd_array_release(d.cell_of);
    hd_array_release(d.joint_of);
    hd_array_release(d.is_joint);
    if (status == HD_OK) return p;
    release_plan(&p->executable, thread);
    return NULL;
}
