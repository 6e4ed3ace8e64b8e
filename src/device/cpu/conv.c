/* Convolutions: calls as work, and how it is cut. Every convolution is a product whose result is in tiles (product.h):
 * the call itself stores them with their bias, a compiled script does there whatever follows. Only a transposed one
 * that strides has none. */
#include "device/cpu/conv.h"

#include <string.h>

enum {
    UNIT_ROWS = 128
}; /* measured: 64 to 64 channels are 1.1 times slower in a matrix unit, 128 to 128 1.15 times quicker */

/* Spatial axes that a call lacks come first, with size 1. */
static hd_conv_sizes sizes_of(const hd_conv_attributes *a, const hd_shape *image, const hd_shape *result,
                              const int64_t *kernel, const int64_t *kernel_stride) {
    hd_conv_sizes s = {.batch = image->size[0],
                       .groups = a->groups,
                       .image_channels = image->size[1] / a->groups,
                       .result_channels = result->size[1] / a->groups};
    const int missing = 3 - a->stride.rank;
    for (int i = 0; i < 3; ++i) {
        const int from = i - missing;
        s.image[i] = from < 0 ? 1 : image->size[from + 2];
        s.result[i] = from < 0 ? 1 : result->size[from + 2];
        s.kernel[i] = from < 0 ? 1 : kernel[from];
        s.stride[i] = from < 0 ? 1 : a->stride.size[from];
        s.dilation[i] = from < 0 ? 1 : a->dilation.size[from];
        s.before[i] = from < 0 ? 0 : a->padding.size[2 * from];
        s.kernel_stride[i] = from < 0 || kernel_stride == NULL ? 0 : kernel_stride[from];
    }
    return s;
}

/* A call of conv or conv_transpose; addresses and the way it is cut are missing. */
typedef struct work {
    hd_conv_sizes sizes;
    bool transposed;
    hd_conv_work conv;
} work;

/* Blocks of patches are whole steps for a matrix unit, and enough output channels pay for taking them apart. */
static const hd_gemm_kernels *unit_for(const hd_conv_work *c, hd_product_unit wish) {
    const hd_gemm_kernels *unit = &hd_kernels()->gemm_parts;
    if (c->bytes != 4 || unit->mr == 0 || c->channels == 0 || c->channels % unit->group != 0) return NULL;
    const int64_t least = wish == HD_UNIT_MATRIX ? unit->mr : UNIT_ROWS;
    return wish != HD_UNIT_VECTOR && c->rows >= least ? unit : NULL;
}

static void choose_method(work *w, hd_product_config config) {
    hd_conv_work *c = &w->conv;
    c->unit = unit_for(c, (hd_product_unit)config.unit);
    const bool as_winograd = config.windows != HD_WINDOWS_SUMMED && hd_conv_takes_winograd(c, &w->sizes) &&
                             (config.windows == HD_WINDOWS_WINOGRAD || hd_conv_suits_winograd(c));
    if (hd_conv_is_depthwise(c, &w->sizes))
        c->method = HD_CONV_DEPTHWISE;
    else if (config.windows != HD_WINDOWS_WINOGRAD && hd_conv_takes_images(c, &w->sizes) &&
             hd_conv_suits_images(c, &w->sizes, as_winograd))
        c->method = HD_CONV_IMAGES;
    else
        c->method = as_winograd ? HD_CONV_WINOGRAD : HD_CONV_TILES;
}

static void describe_conv(const hd_op *op, const hd_conv_attributes *a, const hd_shape *x, const hd_layout *weight,
                          const hd_shape *y, hd_dtype dtype, hd_product_config config, work *w) {
    const bool is_f32 = dtype == HD_F32;
    w->transposed = op->lower == HD_LOWER_CONV_TRANSPOSE;
    w->sizes = sizes_of(a, w->transposed ? y : x, w->transposed ? x : y, weight->shape.size + 2, weight->stride + 2);
    const hd_conv_sizes *s = &w->sizes;
    hd_conv_work *c = &w->conv;
    *c = (hd_conv_work){
        .kernels = is_f32 ? &hd_kernels()->gemm_f32 : &hd_kernels()->gemm_f64,
        .bytes = hd_dtype_bytes[dtype],
        .batch = s->batch,
        .groups = s->groups,
        .channels = w->transposed ? s->result_channels : s->image_channels,
        .rows = w->transposed ? s->image_channels : s->result_channels,
        .map = {.runs = is_f32 ? hd_kernels()->runs_4 : hd_kernels()->runs_8, .bytes = hd_dtype_bytes[dtype]}};
    /* weight is [result channels, image channels of a group, taps], whichever of them comes out */
    c->weight_group = s->result_channels * weight->stride[0];
    c->weight_row = weight->stride[w->transposed ? 1 : 0];
    c->weight_channel = weight->stride[w->transposed ? 0 : 1];
    for (int i = 0; i < 3; ++i) {
        c->map.image[i] = w->transposed ? s->result[i] : s->image[i];
        c->map.step[i] = w->transposed ? 1 : s->stride[i];
        c->out[i] = w->transposed ? s->image[i] : s->result[i];
        c->out_step[i] = w->transposed ? s->stride[i] : 1;
    }
    c->map.plane = hd_volume(c->map.image);
    c->plan.tap_count = hd_volume(s->kernel);
    choose_method(w, config);
}

/* ---- what cutting it brings ------------------------------------------------------------------------------------- */
enum {
    CACHE_BYTES = 384 * 1024, /* of weights that stay with a thread from item to item */
    BYTE_COST = 2,            /* of others, in multiplications */
    BARRIER = 1 << 17         /* until threads have taken over and are done, in multiplications */
};
double hd_conv_weight_cost(double bytes) { return bytes < CACHE_BYTES ? 0 : bytes * BYTE_COST; }

/* The time until all are done, when whoever is free takes the next. Other programs may hold a core: the wait for the
 * last item counts, too, and what there would be to do for one thread alone. */
double hd_conv_cost_shared(double one, int64_t whole, double last, int64_t rest, int64_t threads) {
    const int64_t rounds = whole / threads, ahead = whole % threads;
    const double alone = (double)whole * one + (double)rest * last,
                 of_rest = (double)rounds * one + (double)hd_pieces(rest, threads - ahead) * last,
                 of_whole = (double)(rounds + (ahead > 0)) * one;
    if (threads == 1) return alone;
    return (of_rest > of_whole ? of_rest : of_whole) + BARRIER + (one + alone) / 8;
}

static const struct {
    void (*cut)(hd_conv_work *, const hd_conv_sizes *, int threads);
    size_t (*packed_size)(const hd_conv_work *); /* NULL: weights are read where they are */
    void (*pack)(const hd_conv_work *, char *out);
    void (*run)(const hd_conv_work *);
} methods[] = {
    [HD_CONV_TILES] = {hd_conv_cut_tiles, hd_conv_tiles_packed_size, hd_conv_tiles_pack, hd_conv_run_tiles},
    [HD_CONV_DEPTHWISE] = {hd_conv_cut_depthwise, NULL, NULL, hd_conv_run_depthwise},
    [HD_CONV_WINOGRAD] = {hd_conv_cut_winograd, hd_conv_winograd_packed_size, hd_conv_winograd_pack,
                          hd_conv_run_winograd},
    [HD_CONV_IMAGES] = {hd_conv_cut_images, hd_conv_tiles_packed_size, hd_conv_tiles_pack, hd_conv_run_images},
};

static size_t packed_size(const work *w) {
    return methods[w->conv.method].packed_size == NULL ? 0 : methods[w->conv.method].packed_size(&w->conv);
}

/* Cuts it for so many threads; bytes of memory that it works in: its plan, packed weights unless they are given,
 * pieces. */
static size_t cut_conv(work *w, int threads, bool packed) {
    methods[w->conv.method].cut(&w->conv, &w->sizes, threads);
    return hd_whole_lines(hd_conv_plan_bytes(&w->sizes)) + (packed ? 0 : hd_whole_lines(packed_size(w))) +
           w->conv.piece_bytes * (size_t)w->conv.pieces;
}

static void run_described(work *w, char *workspace) {
    hd_conv_work *c = &w->conv;
    hd_conv_plan_make(&w->sizes, w->transposed, workspace, &c->plan);
    workspace += hd_whole_lines(hd_conv_plan_bytes(&w->sizes));
    if (c->packed == NULL && methods[c->method].pack != NULL) {
        methods[c->method].pack(c, workspace);
        c->packed = workspace;
        workspace += hd_whole_lines(packed_size(w));
    }
    c->workspace = workspace;
    methods[c->method].run(c);
}

/* ---- as a product ------------------------------------------------------------------------------------------------ */
static void describe_call(const hd_call *call, hd_product_config config, work *w) {
    const hd_tensor *x = call->inputs[0], *weight = call->inputs[1], *y = call->outputs[0];
    describe_conv(call->op, call->attributes, &x->layout.shape, &weight->layout, &y->layout.shape, (hd_dtype)y->dtype,
                  config, w);
}

size_t hd_conv_product_workspace(const hd_product *given) {
    work w;
    if (given->call->outputs[0]->count == 0) return 0;
    describe_call(given->call, given->config, &w);
    return cut_conv(&w, hd_pool_threads(), given->packed != NULL);
}

int64_t hd_conv_product_pieces(const hd_product *given) {
    work w;
    describe_call(given->call, given->config, &w);
    cut_conv(&w, hd_pool_threads(), given->packed != NULL);
    return w.conv.pieces;
}

bool hd_conv_product_configs_differ(const hd_product *given, hd_product_config other) {
    work w, as_other;
    describe_call(given->call, given->config, &w);
    describe_call(given->call, other, &as_other);
    return w.conv.method != as_other.conv.method ||
           (w.conv.method == HD_CONV_TILES && w.conv.unit != as_other.conv.unit);
}

size_t hd_conv_product_packed_bytes(const hd_call *call, hd_product_config config) {
    work w;
    if (call->outputs[0]->count == 0) return 0;
    describe_call(call, config, &w);
    cut_conv(&w, 1, false);
    return packed_size(&w);
}

hd_error hd_conv_product_pack(hd_thread *thread, const hd_call *call, hd_product_config config, void *out) {
    work w;
    describe_call(call, config, &w);
    cut_conv(&w, 1, false);
    w.conv.weight = hd_tensor_bytes(thread, call->inputs[1], HD_READ);
    if (w.conv.weight == NULL) return thread->error_code;
    hd_block *plan = hd_block_new(thread, hd_conv_plan_bytes(&w.sizes));
    if (plan == NULL) return HD_ERROR_MEMORY;
    hd_conv_plan_make(&w.sizes, w.transposed, hd_block_data(plan), &w.conv.plan);
    methods[w.conv.method].pack(&w.conv, out);
    hd_block_release(thread, plan);
    return HD_OK;
}

/* How weights are packed may depend on all there is about a convolution. */
static bool lie_alike(const hd_tensor *a, const hd_tensor *b) {
    if (a->dtype != b->dtype || !hd_shape_equal(a->layout.shape, b->layout.shape)) return false;
    for (int i = 0; i < a->layout.shape.rank; ++i)
        if (a->layout.stride[i] != b->layout.stride[i]) return false;
    return a->layout.offset == b->layout.offset;
}
bool hd_conv_product_packs_alike(const hd_call *call, hd_product_config config, const hd_call *other,
                                 hd_product_config other_config) {
    return call->op == other->op && memcmp(call->attributes, other->attributes, call->op->attribute_bytes) == 0 &&
           config.unit == other_config.unit && config.k_block == other_config.k_block &&
           config.windows == other_config.windows && lie_alike(call->inputs[1], other->inputs[1]) &&
           call->outputs[0]->dtype == other->outputs[0]->dtype &&
           hd_shape_equal(call->inputs[0]->layout.shape, other->inputs[0]->layout.shape) &&
           hd_shape_equal(call->outputs[0]->layout.shape, other->outputs[0]->layout.shape);
}

static hd_error run_product(hd_thread *thread, const hd_product *given, const hd_tensor *x) {
    work w;
    describe_call(given->call, given->config, &w);
    w.conv.x = hd_tensor_bytes(thread, x, HD_READ);
    w.conv.weight = hd_tensor_bytes(thread, given->call->inputs[1], HD_READ);
    if (w.conv.x == NULL || w.conv.weight == NULL) return thread->error_code;
    w.conv.packed = given->packed;
    w.conv.epilogue = given->epilogue;
    w.conv.context = given->context;
    size_t needed = cut_conv(&w, hd_pool_threads(), given->packed != NULL);
    if (given->workspace != NULL && needed > given->workspace_bytes) /* more threads than when it was made */
        needed = cut_conv(&w, 1, given->packed != NULL);
    hd_block *block = NULL;
    if (given->workspace == NULL || needed > given->workspace_bytes) {
        block = hd_block_new(thread, needed);
        if (block == NULL) return HD_ERROR_MEMORY;
    }
    run_described(&w, block != NULL ? hd_block_data(block) : given->workspace);
    if (block != NULL) hd_block_release(thread, block);
    return HD_OK;
}

hd_error hd_conv_product(hd_thread *thread, const hd_product *given) {
    const hd_call *call = given->call;
    if (call->outputs[0]->count == 0) return HD_OK;
    hd_tensor *x = call->inputs[0], *ready = NULL;
    if (!x->contiguous) x = ready = hd_cpu_ready(thread, x, (hd_dtype)x->dtype);
    if (x == NULL) return thread->error_code;
    const hd_error status = run_product(thread, given, x);
    hd_tensor_drop(thread, ready);
    return status;
}

/* ---- as a call --------------------------------------------------------------------------------------------------- */
static hd_error convolve(hd_thread *thread, const hd_call *call, const hd_cpu_operands *o) {
    work w;
    describe_conv(call->op, call->attributes, &o->in[0]->layout.shape, &o->in[1]->layout, &call->shape[0], o->as,
                  (hd_product_config){0}, &w);
    hd_plain_epilogue f = hd_cpu_product_plain(call->op, &call->shape[0], o->as);
    f.out = o->to;
    f.bias = o->from[2];
    w.conv.x = o->from[0], w.conv.weight = o->from[1], w.conv.bias = o->from[2], w.conv.y = o->to;
    w.conv.epilogue = hd_cpu_product_store;
    w.conv.context = &f;
    hd_block *workspace = hd_block_new(thread, cut_conv(&w, hd_pool_threads(), false));
    if (workspace == NULL) return HD_ERROR_MEMORY;
    run_described(&w, hd_block_data(workspace));
    hd_block_release(thread, workspace);
    return HD_OK;
}

static hd_error run_conv(hd_thread *thread, hd_call *call) {
    hd_cpu_operands o;
    HD_TRY(hd_cpu_operands_begin(thread, call, 0, &o));
    const hd_error status = o.out->count > 0 ? convolve(thread, call, &o) : HD_OK;
    return hd_cpu_operands_end(thread, call, &o, status);
}
hd_error hd_cpu_conv(hd_thread *thread, hd_call *call) { return run_conv(thread, call); }
hd_error hd_cpu_conv_transpose(hd_thread *thread, hd_call *call) { return run_conv(thread, call); }

hd_error hd_cpu_conv_weight_gradient(hd_thread *thread, hd_call *call) {
    const hd_conv_attributes *a = call->attributes;
    hd_cpu_operands o;
    HD_TRY(hd_cpu_operands_begin(thread, call, 0, &o));
    const hd_conv_sizes s =
        sizes_of(a, &call->inputs[0]->layout.shape, &call->inputs[1]->layout.shape, a->extra.size, NULL);
    const hd_error status = o.out->count > 0 ? hd_cpu_conv_weight(thread, &s, o.as, o.from[0], o.from[1], o.to) : HD_OK;
    return hd_cpu_operands_end(thread, call, &o, status);
}
