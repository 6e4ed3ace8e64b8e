/* Looking at a plan: what each launch does, for profiles, and HODU_DUMP=graph,fusion,jobs. */
#include "codegen/dump.h"
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

static double operations_of_kernel(const hd_plan_native *n) {
    double points = 1;
    for (int a = 0; a < n->native.shape.axes; ++a) points *= (double)n->native.geometry[a];
    return points * n->native.operations;
}

/* Adds the names of a group's nodes behind the first `at` characters; how many there are then, had they found place. */
static size_t name_members(const hd_plan *p, const hd_group *group, hd_launch_stats *out, size_t at) {
    for (uint32_t i = 0; i < group->count && at < sizeof out->what; ++i) {
        const uint32_t node = p->fusion.members[group->first + i];
        const char *own = hd_own_name(hd_node_op(&p->graph->nodes[node]), hd_node_attributes(p->graph, node));
        at += (size_t)snprintf(out->what + at, sizeof out->what - at, own[0] ? "%s%s \"%s\"" : "%s%s",
                               at > 0 ? " " : "", hd_node_name(&p->graph->nodes[node]), own);
    }
    return at;
}

static void describe_members(const hd_plan *p, const hd_launch *l, hd_launch_stats *out) {
    const hd_group *group = &p->fusion.groups[p->fusion.group_of[l->node]];
    size_t at = (size_t)snprintf(out->what, sizeof out->what, "%s",
                                 l->kind == HD_RUN_COPY     ? "copy for"
                                 : hd_launch_saves(l)       ? "keep the old for"
                                 : l->kind == HD_RUN_BORDER ? "border of"
                                 : l->kind == HD_RUN_CHECK  ? "check indices of"
                                                            : "");
    if (l->kind == HD_RUN_PRODUCT && group->prologue != HD_NO_GROUP)
        at = name_members(p, &p->fusion.groups[group->prologue], out, at);
    name_members(p, group, out, at);
}

static size_t print_shape(char *out, size_t capacity, size_t at, const char *before, const hd_tensor *t) {
    if (at >= capacity) return at;
    return at + (size_t)snprintf(out + at, capacity - at, "%s%s", before, HD_SHAPE_TEXT(t->layout.shape));
}
static void describe_sizes(const hd_plan *p, const hd_launch *l, hd_launch_stats *out) {
    if (l->outputs == 0) return;
    const hd_tensor *result = &p->tensors[p->operands[l->first + l->inputs]];
    size_t at = (size_t)snprintf(out->sizes, sizeof out->sizes, "%s", hd_dtype_name((hd_dtype)result->dtype));
    const hd_call *call = l->call == HD_NONE ? NULL : &p->calls[l->call].call;
    for (int i = 0; call != NULL && i < call->input_count; ++i)
        at = print_shape(out->sizes, sizeof out->sizes, at, " ", call->inputs[i]);
    print_shape(out->sizes, sizeof out->sizes, at, call != NULL && call->input_count > 0 ? " -> " : " ", result);
}

/* Of a table only the elements are read that are looked up: no operand of a kernel counts for more than its points. */
static int64_t most_elements(const hd_plan *p, const hd_launch *l) {
    if (l->kind != HD_RUN_KERNEL) return INT64_MAX;
    const hd_native *n = &p->natives[l->native]->native;
    int64_t points = 1;
    for (int a = 0; a < n->shape.axes; ++a) points *= n->geometry[a];
    return points;
}

static hd_work work_of(const hd_call *call) { return call->op->work(call); }

/* The bytes of a launch that is no call of an op: what it reads and writes in memory. */
static double bytes_of(const hd_plan *p, const hd_launch *l) {
    const int64_t most = most_elements(p, l);
    const uint32_t *operands = p->operands + l->first;
    double bytes = 0;
    for (uint32_t k = 0; k < (uint32_t)l->inputs + l->outputs; ++k) {
        const hd_tensor *t = &p->tensors[operands[k]];
        if (l->kind == HD_RUN_SAVE_AT && k < 2) t = &p->tensors[operands[3 - k]]; /* no more than is taken of state */
        if (l->kind == HD_RUN_SCATTER && k == 2)
            t = &p->tensors[operands[1]]; /* or written, and a place for each slice */
        if (p->buffers[p->buffer_of[operands[k]]].placement == HD_NOWHERE) continue;
        bytes += (double)(t->count < most ? t->count : most) * hd_dtype_bytes[t->dtype];
    }
    return bytes;
}

void hd_plan_describe(const hd_executable *self, int64_t index, hd_launch_stats *out) {
    const hd_plan *p = (const hd_plan *)self;
    const hd_launch *l = &p->launches[index];
    *out = (hd_launch_stats){.operations = 0};
    if (p->fusion.group_of[l->node] != HD_NO_GROUP)
        describe_members(p, l, out);
    else
        snprintf(out->what, sizeof out->what, "copy of %s", hd_node_name(&p->graph->nodes[l->node]));
    if (l->kind == HD_RUN_CALL && p->machine->by_copy != NULL && p->machine->by_copy(p->calls[l->call].call.op)) {
        const size_t length = strlen(out->what);
        snprintf(out->what + length, sizeof out->what - length, " by the CPU, with copies");
    }
    describe_sizes(p, l, out);
    out->bytes = l->kind == HD_RUN_CALL ? work_of(&p->calls[l->call].call).bytes : bytes_of(p, l);
    out->operations = hd_plan_operations(p, l);
}

double hd_plan_operations(const hd_plan *p, const hd_launch *l) {
    const hd_call *call = l->call == HD_NONE ? NULL : &p->calls[l->call].call;
    double of_kernels = l->native != HD_NONE ? operations_of_kernel(p->natives[l->native]) : 0;
    if (call == NULL) return of_kernels;
    const uint32_t prologue = p->calls[l->call].prologue;
    if (prologue != HD_NONE) of_kernels += operations_of_kernel(p->natives[prologue]);
    return of_kernels + work_of(call).operations;
}

void hd_plan_dump(const hd_plan *p) {
    char *graph = hd_dump_wants("graph") ? hd_graph_print(p->graph) : NULL;
    char *fusion = hd_dump_wants("fusion") ? hd_fusion_print(p->graph, &p->fusion) : NULL;
    if (graph != NULL) hd_dump_text("graph", graph, strlen(graph));
    if (fusion != NULL) hd_dump_text("fusion", fusion, strlen(fusion));
    hd_array_release(graph);
    hd_array_release(fusion);
}
