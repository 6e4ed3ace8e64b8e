/* Products on GPUs: launches of template_product.h, of calls and, with a fused epilogue, of plans. */
#include "machine/gpu_product.h"

#include <string.h>

enum { OWN_BUFFERS = 3, PLAIN_BUFFERS = 5, ARGUMENTS_MOST = 4096 };

/* ---- launches ---------------------------------------------------------------------------------------------------- */
/* The functions of its text; the second only where k is cut, the third where A is packed. */
typedef struct functions {
    hd_gpu_function *whole, *join, *pack;
} functions;

static hd_error find_functions(const hd_gpu_device *d, const hd_described_product *p, hd_gpu_code *code,
                               functions *out) {
    const bool joins = p->numbers.k_pieces > 1;
    out->whole = code == NULL ? NULL : hd_gpu_code_function(d, code, "product");
    out->join = out->whole == NULL || !joins ? NULL : hd_gpu_code_function(d, code, "product_join");
    out->pack = out->whole == NULL || p->pack_groups == 0 ? NULL : hd_gpu_code_function(d, code, "product_pack");
    const bool is_there =
        out->whole != NULL && (!joins || out->join != NULL) && (p->pack_groups == 0 || out->pack != NULL);
    return is_there ? HD_OK : hd_thread_self()->error_code;
}

static hd_error launch(const hd_gpu_device *d, const hd_described_product *p, const functions *f, hd_gpu_launch *l) {
    const hd_product_numbers *n = &p->numbers;
    l->threads[0] = p->threads;
    l->threads[1] = l->threads[2] = l->groups[1] = l->groups[2] = 1;
    if (p->pack_groups > 0) {
        l->function = f->pack;
        l->groups[0] = p->pack_groups;
        HD_TRY(hd_gpu_launch_it(d, l));
    }
    l->function = f->whole;
    l->groups[0] = hd_gpu_groups(n->tiles_m * n->tiles_n * n->batches, 1);
    l->groups[1] = (uint32_t)n->k_pieces;
    if (l->groups[0] == 0) return hd_thread_self()->error_code;
    HD_TRY(hd_gpu_launch_it(d, l));
    if (n->k_pieces == 1) return HD_OK;
    l->function = f->join;
    l->groups[0] = hd_gpu_groups(n->batches * n->m * n->n, p->threads);
    l->groups[1] = 1;
    return l->groups[0] == 0 ? hd_thread_self()->error_code : hd_gpu_launch_it(d, l);
}

/* With its operands and the parts of its sums, which are its own buffers, in front of the others. */
static hd_error run(hd_thread *thread, const hd_gpu_device *d, const hd_call *call, const hd_described_product *p,
                    const functions *f, void **buffers, hd_gpu_launch *l) {
    hd_tensor *moved[2] = {NULL};
    hd_block *parts = p->part_bytes == 0 ? NULL : hd_gpu_workspace(thread, d, p->part_bytes);
    hd_error status = p->part_bytes > 0 && parts == NULL ? thread->error_code : HD_OK;
    for (int i = 0; i < 2; ++i) {
        buffers[i] = NULL;
        if (status != HD_OK || p->numbers.k == 0) continue; /* of which nothing is read */
        buffers[i] = hd_gpu_read(thread, d, call->inputs[i == 0 ? p->a : p->b], &moved[i]);
        if (buffers[i] == NULL) status = thread->error_code;
    }
    buffers[2] = parts == NULL ? NULL : parts->address;
    l->buffers = buffers;
    if (status == HD_OK) status = launch(d, p, f, l);
    if (parts != NULL) hd_block_release(thread, parts);
    for (int i = 0; i < 2; ++i) hd_tensor_drop(thread, moved[i]);
    return status;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */
static hd_error run_plain(hd_thread *thread, const hd_gpu_device *d, const hd_call *call) {
    struct { /* as template_product.h has them, without a fused epilogue */
        int64_t a_offset, b_offset, parts_offset, bias_offset, out_offset;
        hd_product_numbers numbers;
    } arguments;
    hd_described_product p;
    hd_gpu_describe_product(d, call, &p);
    functions f;
    HD_TRY(find_functions(d, &p, hd_gpu_code_of_template(d, &p.use), &f));
    void *buffers[PLAIN_BUFFERS] = {NULL};
    hd_tensor *moved = NULL;
    memset(&arguments, 0, sizeof arguments);
    arguments.numbers = p.numbers;
    hd_gpu_launch l = {.buffer_count = PLAIN_BUFFERS,
                       .arguments = &arguments,
                       .argument_bytes = PLAIN_BUFFERS * sizeof(int64_t) + p.number_bytes};
    hd_error status = HD_OK;
    if (p.numbers.has_bias && (buffers[3] = hd_gpu_read(thread, d, call->inputs[2], &moved)) == NULL)
        status = thread->error_code;
    if (status == HD_OK && (buffers[4] = hd_gpu_written(thread, call->outputs[0])) == NULL) status = thread->error_code;
    if (status == HD_OK) status = run(thread, d, call, &p, &f, buffers, &l);
    hd_tensor_drop(thread, moved);
    return status;
}

static hd_error run_call(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    bool taken = false;
    HD_TRY(hd_gpu_outputs(thread, d, call, false));
    if (call->outputs[0]->count == 0) return HD_OK;
    hd_error status = hd_gpu_product_by_library(thread, d, call, &taken);
    if (status == HD_OK && !taken) status = run_plain(thread, d, call);
    return hd_gpu_finish(thread, call, status);
}

#define AS_PRODUCT(name)                                                                                               \
    hd_error hd_gpu_##name(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {                                 \
        return run_call(thread, d, call);                                                                              \
    }
AS_PRODUCT(matmul)
AS_PRODUCT(affine)
AS_PRODUCT(conv)
AS_PRODUCT(conv_transpose)
AS_PRODUCT(conv_weight_gradient)

/* ---- with what follows, for plans -------------------------------------------------------------------------------- */
struct hd_gpu_product {
    hd_described_product product;
    functions functions;
    bool is_empty;
    int tile;                 /* which buffer of the epilogue has no memory */
    hd_grid grid;             /* of the epilogue: only whether it is narrow counts */
    size_t grid_bytes, bytes; /* of what a launch passes: for the epilogue, and in all */
};

static hd_error make_product(const hd_gpu_device *d, const hd_call *call, const hd_native *n, int tile, int rows,
                             hd_gpu_product *p) {
    const hd_gpu_limits *limits = d->gpu->limits(d->device.index);
    const hd_grid_limits of_grid = hd_gpu_grid_limits(d);
    p->is_empty = hd_shape_count(call->shape[0]) == 0;
    if (p->is_empty) return HD_OK;
    hd_gpu_describe_product(d, call, &p->product);
    p->tile = tile;
    p->product.use.types[3] = p->product.use.types[0]; /* the epilogue adds the bias */
    p->grid =
        (hd_grid){.per = 1, .piece_count = 1, .narrow = hd_grid_choose(&n->shape, n->geometry, 1, &of_grid).narrow};
    p->grid_bytes = hd_grid_arguments(&n->shape, &p->grid, n->geometry, NULL, NULL);
    p->bytes = OWN_BUFFERS * sizeof(int64_t) + p->grid_bytes + p->product.number_bytes;
    const size_t all = p->bytes + sizeof(void *) * ((size_t)n->shape.buffer_count + OWN_BUFFERS);
    if (all > limits->argument_bytes || all > ARGUMENTS_MOST)
        return hd_fail(HD_ERROR_DEVICE,
                       "a product and what follows it, with %d buffers and %d axes, pass more than %s takes; a lower "
                       "level (hd_script_set_optimization_level) makes smaller ones",
                       n->shape.buffer_count, n->shape.axes, hd_device_text((char[32]){0}, d->device));
    const hd_fused_epilogue e = {.kernel = &n->shape, .tile = tile, .rows = rows, .narrow = p->grid.narrow};
    return find_functions(d, &p->product, hd_gpu_code_of_product(d, &p->product.use, &e), &p->functions);
}

hd_gpu_product *hd_gpu_product_new(const hd_gpu_device *d, const hd_call *call, const hd_native *epilogue, int tile,
                                   int rows) {
    hd_gpu_product *p = hd_array_resize(NULL, sizeof *p);
    if (p == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a product");
        return NULL;
    }
    memset(p, 0, sizeof *p);
    if (make_product(d, call, epilogue, tile, rows, p) == HD_OK) return p;
    hd_array_release(p);
    return NULL;
}

void hd_gpu_product_release(hd_gpu_product *p) { hd_array_release(p); }

hd_error hd_gpu_product_with_epilogue(hd_thread *thread, const hd_gpu_device *d, const hd_gpu_product *p,
                                      const hd_call *call, const hd_native *epilogue, const uint64_t *numbers,
                                      void *const *buffers) {
    const int count = epilogue->shape.buffer_count;
    if (p->is_empty) return HD_OK;
    _Alignas(8) char arguments[ARGUMENTS_MOST] = {0};
    char *at = arguments + OWN_BUFFERS * sizeof(int64_t);
    hd_grid_arguments(&epilogue->shape, &p->grid, epilogue->geometry, numbers, at);
    memcpy(at + p->grid_bytes, &p->product.numbers, p->product.number_bytes);
    void *all[OWN_BUFFERS + HD_KERNEL_BUFFERS];
    for (int b = 0; b < count; ++b) all[OWN_BUFFERS + b] = b == p->tile ? NULL : buffers[b];
    hd_gpu_launch l = {.buffer_count = OWN_BUFFERS + count, .arguments = arguments, .argument_bytes = p->bytes};
    return run(thread, d, call, &p->product, &p->functions, all, &l);
}
