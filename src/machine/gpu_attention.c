/* Attention and its gradient on GPUs: template_attention.h. Operands are read through their strides, as they are mostly
 * parts of one product with heads inside. */
#include "machine/gpu.h"

#include <string.h>

enum { THREADS = 64, FRONT = HD_MAX_RANK - 2 };

/* ---- as the template has them ------------------------------------------------------------------------------------ */
typedef struct operand {
    int64_t front[FRONT], row, column;
} operand;
typedef struct attention_arguments {
    int64_t offset[8];
    int64_t size[FRONT], heads, t, s, d, e;
    operand q, k, v, mask, g;
    uint64_t scale;
    int64_t causal, wants_statistics;
} attention_arguments;
typedef enum function { FORWARD, LEVELS, QUERIES, KEYS } function;
enum { OF_Y, OF_Q, OF_K, OF_V, OF_MASK, OF_G, OF_STATISTICS, WHAT = 0, TILE, COLUMNS, MASKED };

/* ---- a call ------------------------------------------------------------------------------------------------------ */
typedef struct attention_job {
    hd_template_use use;
    attention_arguments arguments;
    hd_gpu_operands o;
} attention_job;

/* The strides of a tensor, stretched to scores when it is a mask; axes that are missing in front have none. */
static operand operand_of(const hd_tensor *t, const hd_shape *shape) {
    operand o = {.row = 0};
    int64_t stride[HD_MAX_RANK];
    hd_layout_broadcast(&t->layout, shape, stride);
    for (int i = 0; i < shape->rank - 2; ++i) o.front[FRONT - (shape->rank - 2) + i] = stride[i];
    o.row = stride[shape->rank - 2];
    o.column = stride[shape->rank - 1];
    return o;
}

static hd_dtype computed_in(hd_dtype dtype) { return (hd_dtype)hd_compute_dtype[hd_dtype_compute[dtype]]; }

/* Inputs from `first` on are q, k and v. Types that a call has not are those of its result, so that they are no other
 * text. */
static attention_job describe(const hd_call *call, int first, const hd_tensor *mask, bool causal, double scale) {
    hd_tensor *const *in = call->inputs + first;
    const hd_shape *q = &in[0]->layout.shape, *v = &in[2]->layout.shape;
    const int last = q->rank - 1;
    const int32_t dtype = (int32_t)call->dtype[0];
    attention_job j = {.use = {.which = HD_TEMPLATE_attention}};
    attention_arguments *a = &j.arguments;
    for (int i = 0; i < HD_TEMPLATE_TYPES; ++i) j.use.types[i] = dtype;
    for (int i = 0; i < 3; ++i) j.use.types[OF_Q + i] = in[i]->dtype;
    j.use.types[OF_STATISTICS] = (int32_t)computed_in(call->dtype[0]);
    *a = (attention_arguments){.heads = 1,
                               .t = q->size[last - 1],
                               .s = v->size[last - 1],
                               .d = q->size[last],
                               .e = v->size[last],
                               .q = operand_of(in[0], q),
                               .k = operand_of(in[1], &in[1]->layout.shape),
                               .v = operand_of(in[2], v),
                               .scale = hd_template_number(call->dtype[0], scale),
                               .causal = causal};
    for (int i = 0; i < FRONT; ++i) {
        const int axis = i - (FRONT - (last - 1));
        a->size[i] = axis < 0 ? 1 : q->size[axis];
        a->heads *= a->size[i];
    }
    hd_shape scores = *q;
    scores.size[last] = a->s;
    j.use.numbers[MASKED] = mask != NULL;
    if (mask != NULL) {
        j.use.types[OF_MASK] = mask->dtype;
        a->mask = operand_of(mask, &scores);
    }
    return j;
}

/* Blocks of rows or of keys, times parts of so many columns. f64 takes twice the memory, and half the tiles. */
static hd_error shoot(const hd_gpu_device *d, attention_job *j, function which, void *const *buffers, int count,
                      int64_t rows, int64_t columns) {
    static const char *const names[] = {"attention_forward", "attention_levels", "attention_queries", "attention_keys"};
    const bool wide = j->use.types[OF_Y] == HD_F64;
    const int32_t tile = wide ? 16 : 32, most = wide || which == LEVELS ? 32 : which == FORWARD ? 128 : 64;
    int32_t part = 32;
    while (part < most && part < columns) part *= 2;
    j->use.numbers[WHAT] = which;
    j->use.numbers[TILE] = tile;
    j->use.numbers[COLUMNS] = part;
    const int64_t groups = j->arguments.heads * ((rows + tile - 1) / tile),
                  parts = which == LEVELS ? 1 : (columns + part - 1) / part;
    hd_gpu_shot shot = {.use = &j->use,
                        .function = names[which],
                        .groups = {hd_gpu_groups(groups, 1), hd_gpu_groups(parts, 1)},
                        .threads = THREADS,
                        .buffer_count = count,
                        .arguments = &j->arguments,
                        .argument_bytes = sizeof j->arguments};
    memcpy(shot.buffers, buffers, (size_t)count * sizeof *buffers);
    if (groups == 0 || parts == 0) return HD_OK;
    return shot.groups[0] == 0 || shot.groups[1] == 0 ? hd_thread_self()->error_code : hd_gpu_shoot(d, &shot);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */
hd_error hd_gpu_attention(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    const hd_attention_attributes *attributes = call->attributes;
    hd_tensor *mask = call->input_count > 3 ? call->inputs[3] : NULL;
    attention_job j = describe(call, 0, mask, attributes->causal, attributes->scale);
    HD_TRY(hd_gpu_operands_begin(thread, d, call, ~0u, &j.o));
    void *const *from = j.o.from, *statistics = j.o.to[1];
    j.arguments.wants_statistics = statistics != NULL;
    void *const buffers[] = {from[0], from[1], from[2], from[3], j.o.to[0], statistics};
    hd_error status = shoot(d, &j, FORWARD, buffers, 6, j.arguments.t, j.arguments.e);
    if (status == HD_OK && statistics != NULL && j.arguments.e == 0) /* no gradient comes of weights */
        status = hd_storage_fill(thread, call->outputs[1]->storage, &(uint64_t){0}, hd_dtype_bytes[call->dtype[1]]);
    return hd_gpu_operands_end(thread, call, &j.o, status);
}

/* ---- gradient ---------------------------------------------------------------------------------------------------- */
static char *behind(void *base, int64_t elements, size_t bytes) { return (char *)base + elements * (int64_t)bytes; }

/* The statistics of rows, where the call has none: all of forward but the values. */
static hd_error measure(const hd_gpu_device *d, const attention_job *j, void *statistics) {
    attention_job f = *j;
    f.use.types[OF_G] = f.use.types[OF_Y]; /* the same text */
    f.arguments.e = 0;
    f.arguments.wants_statistics = 1;
    void *const buffers[] = {j->o.from[1], j->o.from[2], j->o.from[3], j->o.from[4], NULL, statistics};
    return shoot(d, &f, FORWARD, buffers, 6, f.arguments.t, 1);
}

/* Levels of rows first, then the gradients of queries, and those of keys and values. */
static hd_error back(hd_thread *thread, const hd_gpu_device *d, attention_job *j, void *statistics) {
    const attention_arguments *a = &j->arguments;
    const hd_dtype dtype = (hd_dtype)j->use.types[OF_Y], computed = computed_in(dtype);
    const int64_t rows = a->heads * a->t, wide = a->d > a->e ? a->d : a->e;
    hd_block *workspace = hd_gpu_workspace(thread, d, (size_t)(rows * 3) * hd_dtype_bytes[computed]);
    if (workspace == NULL) return thread->error_code;
    hd_error status = HD_OK;
    char *levels = behind(workspace->address, 2 * rows, hd_dtype_bytes[computed]);
    if (statistics == NULL) {
        statistics = workspace->address;
        status = measure(d, j, statistics);
    }
    char *dq = j->o.to[0], *dk = behind(dq, rows * a->d, hd_dtype_bytes[dtype]);
    void *const *in = j->o.from, *mask = j->use.numbers[MASKED] ? in[4] : NULL;
    void *buffers[] = {in[0], in[1], in[2], in[3], mask, statistics, levels, dq};
    if (status == HD_OK) status = shoot(d, j, LEVELS, buffers, 7, a->t, 1);
    if (status == HD_OK) status = shoot(d, j, QUERIES, buffers, 8, a->t, a->d);
    buffers[7] = dk;
    if (status == HD_OK) status = shoot(d, j, KEYS, buffers, 8, a->s, wide);
    hd_block_release(thread, workspace);
    return status;
}

hd_error hd_gpu_attention_gradient(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    const hd_attention_gradient_attributes *attributes = call->attributes;
    const int last = call->input_count - 1;
    hd_tensor *mask = last + 1 - attributes->statistics > 4 ? call->inputs[4] : NULL;
    attention_job j = describe(call, 1, mask, attributes->causal, attributes->scale);
    j.use.types[OF_G] = call->inputs[0]->dtype;
    if (attributes->statistics) j.use.types[OF_STATISTICS] = call->inputs[last]->dtype;
    j.arguments.g = operand_of(call->inputs[0], &call->inputs[0]->layout.shape);
    const unsigned strided = attributes->statistics ? ~(1u << last) : ~0u; /* statistics have none */
    HD_TRY(hd_gpu_operands_begin(thread, d, call, strided, &j.o));
    void *statistics = attributes->statistics ? j.o.from[last] : NULL;
    return hd_gpu_operands_end(thread, call, &j.o,
                               call->outputs[0]->count > 0 ? back(thread, d, &j, statistics) : HD_OK);
}
