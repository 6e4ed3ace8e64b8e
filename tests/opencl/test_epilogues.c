/* Products with what follows them in their tiles, on an OpenCL device: small graphs are fused and lowered as plans do,
 * run as one launch, and compared with eager ops on the CPU. A sample of them; all in `make check-gpu`. */
#include "support.h"

#include "builders.h"
#include "codegen/code.h"
#include "core/memory.h"
#include "graph/builder.h"
#include "machine/gpu.h"

#define S HD_SHAPE
enum { INPUTS = 4 };

typedef struct epilogue_case {
    const char *name;
    hd_dtype dtype;
    hd_shape inputs[INPUTS];
    hd_tensor *(*run)(hd_tensor **in);
} epilogue_case;

/* ---- what is computed -------------------------------------------------------------------------------------------- */
static hd_tensor *bias_gelu(hd_tensor **in) { return hd_gelu(hd_add(hd_matmul(in[0], in[1]), in[2])); }
static hd_tensor *layer(hd_tensor **in) { return hd_add(hd_relu(hd_affine(in[0], in[1], in[2])), in[3]); }
static hd_tensor *tanh_of(hd_tensor **in) { return hd_mul_scalar(hd_tanh(hd_matmul(in[0], in[1])), 3); }
static hd_tensor *masked(hd_tensor **in) { return hd_mul(hd_matmul(in[0], hd_t(in[1])), in[2]); }
static hd_tensor *added(hd_tensor **in) { return hd_add(hd_matmul(in[0], in[1]), in[2]); }
static hd_tensor *conv_relu(hd_tensor **in) {
    return hd_relu(hd_conv(in[0], in[1], in[2], HD_OPTS(hd_conv_opts, .padding = {{1, 1}, {1, 1}})));
}
static hd_tensor *conv_scaled(hd_tensor **in) {
    return hd_add(hd_mul(hd_conv(in[0], in[1], NULL, HD_OPTS(hd_conv_opts, .stride = {2, 1}, .groups = 2)), in[2]),
                  in[3]);
}
static hd_tensor *spread_sigmoid(hd_tensor **in) {
    return hd_sigmoid(
        hd_conv_transpose(in[0], in[1], in[2], HD_OPTS(hd_conv_opts, .stride = {3}, .output_padding = {2})));
}

static const epilogue_case cases[] = {
    {"matmul, a bias, gelu", HD_F32, {{2, {33, 20}}, {2, {20, 70}}, {1, {70}}}, bias_gelu},
    {"affine, relu, a residual", HD_F32, {{3, {2, 5, 6}}, {2, {9, 6}}, {1, {9}}, {3, {2, 5, 9}}}, layer},
    {"affine of bf16", HD_BF16, {{2, {20, 6}}, {2, {9, 6}}, {1, {9}}, {2, {20, 9}}}, layer},
    {"few columns, k cut, tanh", HD_F32, {{2, {9, 3000}}, {2, {3000, 5}}}, tanh_of},
    {"batches with a mask", HD_F32, {{4, {2, 3, 4, 6}}, {4, {2, 3, 5, 6}}, {3, {3, 4, 1}}}, masked},
    {"integers", HD_I16, {{2, {9, 7}}, {2, {7, 12}}, {1, {12}}}, added},
    {"doubles", HD_F64, {{2, {9, 7}}, {2, {7, 12}}, {1, {12}}}, bias_gelu},
    {"conv, relu", HD_F32, {{4, {2, 3, 9, 7}}, {4, {4, 3, 3, 3}}, {1, {4}}}, conv_relu},
    {"conv of groups, a scale, a residual",
     HD_F32,
     {{4, {2, 4, 8, 5}}, {4, {6, 2, 2, 2}}, {3, {6, 1, 1}}, {4, {2, 6, 4, 4}}},
     conv_scaled},
    {"conv_transpose, sigmoid", HD_F32, {{3, {2, 3, 5}}, {3, {3, 2, 4}}, {1, {2}}}, spread_sigmoid}};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- on the device ----------------------------------------------------------------------------------------------- */
static hd_device there(void) { return hd_opencl(0); }

static void check(bool fine) {
    if (!fine) fail_msg("%s", hd_error_message());
}

/* What a plan fuses. */
static hd_graph *captured(const epilogue_case *c) {
    HD_SCOPE;
    hd_tensor *in[INPUTS] = {NULL};
    hd_builder *b = started("epilogue");
    for (int i = 0; i < INPUTS && c->inputs[i].rank > 0; ++i)
        in[i] = hd_input((const char[]){(char)('a' + i), '\0'}, c->inputs[i], c->dtype);
    hd_builder_add_output(b, "y", c->run(in));
    hd_builder_end(b);
    hd_graph *g = hd_builder_graph(b), *simple = g == NULL ? NULL : hd_graph_simplify(hd_thread_self(), g);
    check(simple != NULL);
    return simple;
}

/* The group of the product, which is all there is. */
static const hd_group *product_group(const hd_graph *g, const hd_fusion *f, const char *name) {
    const hd_group *group = &f->groups[f->order[0]];
    if (f->order_count != 1 || group->kind != HD_GROUP_PRODUCT) {
        char *text = hd_fusion_print(g, f);
        fail_msg("%s is not one product: %s", name, text);
    }
    return group;
}

static hd_call call_of(const hd_graph *g, uint32_t node, hd_tensor **tensors) {
    static hd_tensor *operands[3];
    const hd_node *n = &g->nodes[node];
    for (int k = 0; k < n->input_count; ++k) operands[k] = tensors[hd_node_inputs(g, node)[k]];
    const hd_shape shape = hd_node_shape(g, node);
    hd_call call;
    hd_call_init(&call, hd_node_op(n), operands, n->input_count, (hd_dtype)n->dtype, &shape,
                 hd_node_attributes(g, node));
    return call;
}

/* The tensor of each node: inputs and views of them are there, the result is made. */
static void find_tensors(const hd_graph *g, hd_tensor **in, hd_tensor **tensors) {
    for (uint32_t i = 0; i < g->input_count; ++i)
        tensors[g->inputs[i].node] = in[hd_graph_string(g, g->inputs[i].name)[0] - 'a'];
    for (uint32_t i = 0; i < g->node_count; ++i)
        if (hd_node_is_view(g, i)) tensors[i] = hd_t(tensors[hd_node_inputs(g, i)[0]]); /* the only one in cases */
    const uint32_t result = g->outputs[0].node;
    tensors[result] = hd_empty(hd_node_shape(g, result), (hd_dtype)g->nodes[result].dtype);
}

static int64_t fail_after = -1; /* allocations of what is tested; -1: none fails */

static hd_error launch(const hd_gpu_device *d, const hd_graph *g, const hd_lowered *lowered, uint32_t product,
                       hd_tensor **tensors) {
    hd_thread *thread = hd_thread_self();
    void *buffers[HD_KERNEL_BUFFERS] = {NULL};
    hd_tensor *moved = NULL;
    int tile = -1;
    for (int b = 0; b < lowered->native.shape.buffer_count; ++b) {
        const uint32_t node = lowered->nodes[b];
        if (node == HD_TILE_BUFFER)
            tile = b;
        else
            buffers[b] = node == g->outputs[0].node ? hd_gpu_written(thread, tensors[node])
                                                    : hd_gpu_read(thread, d, tensors[node], &moved);
    }
    assert_true(tile >= 0);
    const hd_call call = call_of(g, product, tensors);
    hd_memory_trim();
    hd_memory_fail_after(fail_after);
    hd_gpu_product *p = hd_gpu_product_new(d, &call, &lowered->native, tile, lowered->rows);
    hd_error status = p == NULL ? thread->error_code : HD_OK;
    for (int i = 0; i < 2 && status == HD_OK; ++i) /* any number of times */
        status = hd_gpu_product_with_epilogue(thread, d, p, &call, &lowered->native, lowered->native.numbers, buffers);
    hd_memory_fail_after(-1);
    hd_gpu_product_release(p);
    return status;
}

static hd_error run_fused(const epilogue_case *c, hd_tensor **in, hd_tensor **out) {
    hd_gpu_device *d = (hd_gpu_device *)hd_opencl_executor(0);
    hd_machine machine = d->machine;
    machine.product_apart = hd_gpu_product_apart;
    machine.tile_dtype = hd_gpu_tile_dtype;
    machine.tile_columns = hd_gpu_tile_columns;
    hd_graph *g = captured(c);
    hd_fusion f;
    check(hd_fuse(&machine, g, HD_O2, (hd_fuse_choice){0}, &f) == HD_OK);
    const hd_group *group = product_group(g, &f, c->name);
    hd_tensor **tensors = calloc(g->node_count, sizeof *tensors), *headers = calloc(g->node_count, sizeof *headers);
    hd_set_device(there());
    find_tensors(g, in, tensors);
    hd_set_device(hd_cpu());
    for (uint32_t i = 0; i < g->node_count; ++i)
        if (tensors[i] != NULL) headers[i] = *tensors[i];
    hd_lowering lowering;
    hd_lowered lowered;
    check(hd_lowering_begin(&lowering, g, &f, headers) == HD_OK && hd_lower(&lowering, group, &lowered) == HD_OK);
    uint32_t product = HD_NO_NODE;
    for (uint32_t i = 0; i < group->count; ++i)
        if (hd_node_is_product(&machine, g, f.members[group->first + i], NULL)) product = f.members[group->first + i];
    const hd_error status = launch(d, g, &lowered, product, tensors);
    *out = tensors[g->outputs[0].node];
    hd_native_release(&lowered.native);
    hd_lowering_end(&lowering);
    hd_fusion_release(&f);
    hd_graph_release(hd_thread_self(), g);
    free(tensors);
    free(headers);
    return status;
}

static void make_inputs(const epilogue_case *c, hd_tensor **here, hd_tensor **away) {
    hd_seed(3);
    for (int i = 0; i < INPUTS && c->inputs[i].rank > 0; ++i) {
        hd_tensor *x = hd_dtype_is_float(c->dtype) ? hd_randn(c->inputs[i], HD_F64)
                                                   : hd_cast(hd_randint(c->inputs[i], HD_I64, -9, 9), HD_F64);
        here[i] = hd_cast(x, c->dtype);
        away[i] = hd_to(here[i], there());
    }
}

static void products_run_with_what_follows(void **state) {
    (void)state;
    for (int i = 0; i < CASES; ++i) {
        if (!sampled((uint64_t)i, 4)) continue;
        HD_SCOPE;
        const epilogue_case *c = &cases[i];
        hd_tensor *here[INPUTS] = {NULL}, *away[INPUTS] = {NULL}, *out;
        make_inputs(c, here, away);
        if (run_fused(c, away, &out) != HD_OK) fail_msg("%s: %s", c->name, hd_error_message());
        char why[512] = "";
        hd_allclose_opts o = HD_DEFAULTS(hd_allclose_opts);
        o.relative = c->dtype == HD_BF16 ? 0x1p-7 : 2e-5;
        o.absolute = c->dtype == HD_BF16 ? 0x1p-7 : 2e-5;
        o.explain = why;
        o.explain_capacity = sizeof why;
        if (!hd_allclose(hd_to(out, hd_cpu()), c->run(here), &o))
            fail_msg("%s: %s %s", c->name, why, hd_error_message());
    }
}

/* Each allocation on the way fails once: an error, and nothing is left. */
static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *here[INPUTS] = {NULL}, *away[INPUTS] = {NULL}, *out;
    const epilogue_case *c = &cases[3];
    make_inputs(c, here, away);
    hd_error status = HD_ERROR_MEMORY;
    for (int64_t n = 0; status != HD_OK; ++n) {
        const int64_t objects = hd_live_objects(), bytes = hd_memory().live_bytes;
        {
            HD_SCOPE;
            fail_after = n;
            status = run_fused(c, away, &out);
            fail_after = -1;
            assert_true(status == HD_OK || status == HD_ERROR_MEMORY);
            hd_error_clear();
        }
        assert_int_equal(hd_live_objects(), objects);
        assert_int_equal(hd_memory().live_bytes, bytes);
    }
}

RUN_ON(there(), test(products_run_with_what_follows), test(memory_may_run_out_anywhere))
