/* Convolutions and what follows them in their tiles: sizes at which tiles begin or end, groups, strides, dilations,
 * padding, one image and several, weights that are kept packed. Compiled scripts against O0, and how many launches they
 * are. */
#include "compiler/levels.h"
#include "graph/calls.h"

/* Operands are positive, so that nothing cancels: both ways round the same sums, and what follows once. */
enum { CONV_UNITS = 4 };

typedef struct sizes {
    const char *name;
    int64_t batch, in, out, groups;
    int axes;
    int64_t image[3], kernel[3], stride[3], dilation[3];
    hd_padding padding[3];
} sizes;

#define EVEN(n)                                                                                                        \
    {                                                                                                                  \
        {n, n}, {n, n}, { n, n }                                                                                       \
    }
static const sizes all_sizes[] = {
    {"1x1", 1, 5, 7, 1, 2, {9, 11}, {1, 1}, {1, 1}, {1, 1}, EVEN(0)},
    {"1x1, many channels", 3, 33, 70, 1, 2, {7, 7}, {1, 1}, {1, 1}, {1, 1}, EVEN(0)},
    {"3x3", 1, 8, 12, 1, 2, {13, 17}, {3, 3}, {1, 1}, {1, 1}, EVEN(1)},
    {"3x3, small images", 3, 30, 25, 1, 2, {5, 3}, {3, 3}, {1, 1}, {1, 1}, EVEN(1)},
    {"3x3, stride 2", 3, 6, 13, 1, 2, {15, 14}, {3, 3}, {2, 2}, {1, 1}, EVEN(1)},
    {"3x3, dilated", 1, 4, 9, 1, 2, {14, 19}, {3, 3}, {1, 2}, {2, 3}, EVEN(2)},
    {"groups", 3, 12, 18, 3, 2, {9, 10}, {3, 2}, {1, 1}, {1, 1}, {{1, 0}, {0, 2}}},
    {"depthwise", 3, 21, 21, 21, 2, {17, 33}, {3, 3}, {1, 1}, {1, 1}, EVEN(1)},
    {"depthwise, stride 2", 1, 40, 40, 40, 2, {12, 13}, {3, 3}, {2, 2}, {1, 1}, EVEN(1)},
    {"depthwise, dilated", 1, 3, 3, 3, 2, {30, 31}, {3, 3}, {1, 2}, {4, 3}, EVEN(3)},
    {"depthwise, wide gaps", 1, 3, 3, 3, 2, {90, 70}, {2, 2}, {1, 1}, {80, 60}, EVEN(0)},
    {"depthwise, many lines", 2, 3, 3, 3, 2, {150, 70}, {3, 3}, {1, 1}, {1, 1}, EVEN(1)},
    {"two for each channel", 2, 6, 12, 6, 2, {8, 9}, {3, 3}, {1, 1}, {1, 1}, EVEN(1)},
    {"7x7, stride 2", 1, 3, 20, 1, 2, {39, 41}, {7, 7}, {2, 2}, {1, 1}, EVEN(3)},
    {"cut", 1, 4, 6, 1, 2, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {{-1, -2}, {-3, 0}}},
    {"one pixel", 3, 9, 10, 1, 2, {3, 3}, {3, 3}, {1, 1}, {1, 1}, EVEN(0)},
    {"a column", 2, 4, 5, 1, 2, {70, 1}, {3, 1}, {1, 1}, {1, 1}, {{1, 1}, {0, 0}}},
    {"a line", 2, 4, 5, 1, 2, {1, 70}, {1, 5}, {1, 1}, {1, 1}, {{0, 0}, {2, 2}}},
    {"one channel", 3, 4, 1, 1, 2, {9, 8}, {3, 3}, {1, 1}, {1, 1}, EVEN(1)},
    {"signals", 3, 6, 11, 1, 1, {130}, {5}, {2}, {1}, EVEN(2)},
    {"volumes", 2, 3, 5, 1, 3, {5, 6, 7}, {3, 2, 3}, {1, 1, 2}, {1, 2, 1}, EVEN(1)},
    {"depthwise volumes", 2, 5, 5, 5, 3, {4, 6, 7}, {3, 2, 3}, {2, 1, 2}, {1, 2, 1}, EVEN(1)},
    {"no images", 0, 4, 5, 1, 2, {6, 6}, {3, 3}, {1, 1}, {1, 1}, EVEN(1)},
    {"no channels", 2, 0, 5, 1, 2, {6, 6}, {3, 3}, {1, 1}, {1, 1}, EVEN(1)},
};
enum { SIZES = (int)(sizeof all_sizes / sizeof all_sizes[0]) };

static hd_conv_opts options_of(const sizes *s) {
    hd_conv_opts o = HD_DEFAULTS(hd_conv_opts);
    o.groups = s->groups;
    for (int a = 0; a < s->axes; ++a) {
        o.stride[a] = s->stride[a];
        o.dilation[a] = s->dilation[a];
        o.padding[a] = s->padding[a];
    }
    return o;
}

static hd_shape with_axes(int64_t first, int64_t second, const int64_t *rest, int axes) {
    hd_shape shape = {.rank = axes + 2, .size = {first, second}};
    for (int a = 0; a < axes; ++a) shape.size[a + 2] = rest[a];
    return shape;
}

/* [channels, 1, 1]: one element for each channel. */
static hd_shape by_channel(hd_tensor *h) {
    hd_shape shape = hd_tensor_shape(h);
    shape.size[0] = 1;
    for (int i = 2; i < shape.rank; ++i) shape.size[i] = 1;
    return shape;
}

/* ---- what follows ------------------------------------------------------------------------------------------------ */
/* Epilogues over h [n, channels, ...] and a tensor of the shape that `extra_shape` makes of h's. */
typedef hd_tensor *(*epilogue)(hd_builder *b, hd_tensor *h, hd_tensor *extra);
typedef hd_shape (*extra_shape)(hd_tensor *h);

static hd_shape whole_result(hd_tensor *h) { return hd_tensor_shape(h); }
static hd_shape two_numbers_a_channel(hd_tensor *h) {
    hd_shape shape = by_channel(h);
    shape.size[0] = 2;
    return shape;
}
static hd_shape a_line_of_pixels(hd_tensor *h) { return S(hd_tensor_size(h, -1)); }
static hd_shape one_a_line(hd_tensor *h) {
    hd_shape shape = hd_tensor_shape(h);
    shape.size[shape.rank - 1] = 1;
    return shape;
}
static hd_shape turned_result(hd_tensor *h) {
    hd_shape shape = hd_tensor_shape(h);
    for (int i = 0; i < shape.rank; ++i) shape.size[i] = hd_tensor_size(h, shape.rank - 1 - i);
    return shape;
}

static hd_tensor *nothing(hd_builder *b, hd_tensor *h, hd_tensor *extra) {
    (void)b, (void)extra;
    return h;
}
static hd_tensor *activation(hd_builder *b, hd_tensor *h, hd_tensor *extra) {
    (void)b, (void)extra;
    return hd_relu(h);
}
static hd_tensor *two_activations(hd_builder *b, hd_tensor *h, hd_tensor *extra) {
    (void)b, (void)extra;
    return hd_sqrt(hd_relu(h));
}
static hd_tensor *added(hd_builder *b, hd_tensor *h, hd_tensor *extra) {
    (void)b;
    return hd_relu(hd_add(h, extra));
}
static hd_tensor *scaled(hd_builder *b, hd_tensor *h, hd_tensor *extra) {
    (void)b;
    return hd_mul_scalar(hd_mul(h, extra), 0.25);
}
static hd_tensor *normalised(hd_builder *b, hd_tensor *h, hd_tensor *extra) {
    (void)b;
    return hd_relu(hd_add(hd_mul(h, hd_slice(extra, 0, 0, 1, 1)), hd_slice(extra, 0, 1, 2, 1)));
}
static hd_tensor *narrowed(hd_builder *b, hd_tensor *h, hd_tensor *extra) {
    (void)b, (void)extra;
    return hd_cast(hd_sigmoid(h), hd_tensor_dtype(h) == HD_F32 ? HD_F16 : HD_F32);
}
static hd_tensor *turned(hd_builder *b, hd_tensor *h, hd_tensor *extra) {
    (void)b;
    hd_axes order = {.count = hd_tensor_rank(h)};
    for (int i = 0; i < order.count; ++i) order.axis[i] = order.count - 1 - i;
    return hd_add(h, hd_permute(extra, order));
}
static hd_tensor *two_outputs(hd_builder *b, hd_tensor *h, hd_tensor *extra) {
    hd_builder_add_output(b, "before", h);
    hd_builder_add_output(b, "large", hd_gt(h, extra));
    return hd_mul(h, hd_exp(hd_neg(extra)));
}

static const struct {
    const char *name;
    epilogue follows;
    extra_shape extra_of;
} epilogues[] = {{"nothing", nothing, whole_result},
                 {"activation", activation, whole_result},
                 {"two activations", two_activations, whole_result},
                 {"residual", added, whole_result},
                 {"one for each channel", added, by_channel},
                 {"scale", scaled, by_channel},
                 {"scale and shift", normalised, two_numbers_a_channel},
                 {"along lines", added, a_line_of_pixels},
                 {"along columns", added, one_a_line},
                 {"cast", narrowed, whole_result},
                 {"turned residual", turned, turned_result},
                 {"two outputs", two_outputs, whole_result}};
enum { EPILOGUES = (int)(sizeof epilogues / sizeof epilogues[0]) };

/* ---- all of them ------------------------------------------------------------------------------------------------- */
enum { WEIGHT_INPUT, WEIGHT_BOUND, WEIGHT_CONSTANT, WEIGHT_KINDS };

static void convolves(const sizes *s, int follows, int given, bool biased, hd_dtype dtype) {
    HD_SCOPE;
    char what[160];
    snprintf(what, sizeof what, "%s, %s, %s, weight given %d, bias %d", s->name, epilogues[follows].name,
             hd_dtype_name(dtype), given, biased);
    const hd_shape x_shape = with_axes(s->batch, s->in, s->image, s->axes),
                   w_shape = with_axes(s->out, s->in / s->groups, s->kernel, s->axes);
    const hd_conv_opts o = options_of(s);
    hd_tensor *weight = operand(w_shape, 1, dtype), *bias = operand(S(s->out), 3, dtype);
    hd_builder *b = started("convolution");
    if (given == WEIGHT_BOUND) hd_builder_bind(b, "w", weight);
    hd_tensor *x = hd_input("x", x_shape, dtype), *w = given == WEIGHT_INPUT ? hd_input("w", w_shape, dtype) : weight;
    hd_tensor *h = hd_conv(x, w, biased ? bias : NULL, &o);
    if (h == NULL) fail_msg("%s: %s", what, hd_error_message());
    const hd_shape extra = epilogues[follows].extra_of(h);
    hd_builder_add_output(b, "y", epilogues[follows].follows(b, h, hd_input("e", extra, dtype)));
    hd_script *script = built(b);
    hd_script_set_input(script, "x", operand(x_shape, 0, dtype));
    if (given == WEIGHT_INPUT) hd_script_set_input(script, "w", weight);
    hd_script_set_input(script, "e", operand(extra, 2, dtype));
    levels_agree(script, CONV_UNITS, what);
    hd_script_set_optimization_level(script, HD_O2);
    hd_script_compile(script);
    assert_launches(script, 1, 1, what);
}

static void every_size_with_every_epilogue(void **state) {
    (void)state;
    int turn = 0;
    for (int i = 0; i < SIZES; ++i)
        for (int e = 0; e < EPILOGUES; ++e, ++turn)
            for (int biased = 0; biased < 2; ++biased)
                if (when_compiled((uint64_t)turn * 2 + (uint64_t)biased, 13))
                    convolves(&all_sizes[i], e, (turn + biased) % WEIGHT_KINDS, biased,
                              turn % 3 == 2 ? HD_F64 : HD_F32);
}

/* Large enough for several threads, and for all blocks there are. */
static void large_convolutions(void **state) {
    (void)state;
    static const sizes large[] = {
        {"3x3, large", 2, 64, 96, 1, 2, {30, 31}, {3, 3}, {1, 1}, {1, 1}, EVEN(1)},
        {"3x3, images that share panels", 5, 72, 40, 1, 2, {13, 14}, {3, 3}, {1, 1}, {1, 1}, EVEN(1)},
        {"3x3, stride 2, large", 2, 64, 130, 1, 2, {19, 20}, {3, 3}, {2, 2}, {1, 1}, EVEN(1)},
        {"3x3, many small images", 33, 16, 20, 1, 2, {8, 8}, {3, 3}, {1, 1}, {1, 1}, EVEN(1)},
        {"3x3, many images of few pixels", 64, 12, 18, 2, 2, {3, 5}, {3, 3}, {1, 1}, {1, 1}, EVEN(1)},
        {"1x1, large", 3, 260, 130, 1, 2, {14, 14}, {1, 1}, {1, 1}, {1, 1}, EVEN(0)},
        {"groups, large", 1, 96, 96, 8, 2, {28, 28}, {3, 3}, {1, 1}, {1, 1}, EVEN(1)},
        {"depthwise, large", 1, 96, 96, 96, 2, {56, 57}, {3, 3}, {1, 1}, {1, 1}, EVEN(1)},
    };
    const int threads = hd_num_threads();
    for (int count = 1; count <= 4; count += 3) {
        hd_set_num_threads(count);
        for (size_t i = 0; i < sizeof large / sizeof large[0]; ++i)
            for (int e = 0; e < EPILOGUES; ++e)
                if (sampled((uint64_t)i + (uint64_t)e, SANITIZED ? 2 : 1) &&
                    when_compiled((uint64_t)i + (uint64_t)e, 5))
                    convolves(&large[i], e, (int)(i + (size_t)e) % WEIGHT_KINDS, e % 2, e == 3 ? HD_F64 : HD_F32);
    }
    hd_set_num_threads(threads);
}

/* ---- transposed -------------------------------------------------------------------------------------------------- */
/* One that does not stride has tiles; one that does is called alone, and what follows it is a kernel. */
static void transposed(const sizes *s, int follows, hd_dtype dtype) {
    HD_SCOPE;
    char what[128];
    snprintf(what, sizeof what, "%s transposed, %s", s->name, epilogues[follows].name);
    const hd_shape x_shape = with_axes(s->batch, s->in, s->image, s->axes),
                   w_shape = with_axes(s->in, s->out / s->groups, s->kernel, s->axes);
    hd_conv_opts o = options_of(s);
    bool strides = false;
    for (int a = 0; a < s->axes; ++a) strides = strides || s->stride[a] > 1;
    hd_tensor *weight = operand(w_shape, 1, dtype), *bias = operand(S(s->out), 3, dtype);
    hd_builder *b = started("transposed");
    hd_builder_bind(b, "w", weight);
    hd_tensor *h = hd_conv_transpose(hd_input("x", x_shape, dtype), weight, bias, &o);
    if (h == NULL) fail_msg("%s: %s", what, hd_error_message());
    const hd_shape extra = epilogues[follows].extra_of(h);
    hd_builder_add_output(b, "y", epilogues[follows].follows(b, h, hd_input("e", extra, dtype)));
    hd_script *script = built(b);
    hd_script_set_input(script, "x", operand(x_shape, 0, dtype));
    hd_script_set_input(script, "e", operand(extra, 2, dtype));
    levels_agree(script, CONV_UNITS, what);
    hd_script_set_optimization_level(script, HD_O2);
    hd_script_compile(script);
    assert_launches(script, strides && follows > 0 ? 2 : 1, strides && follows > 0 ? INT64_MAX : 1, what);
}

static void transposed_convolutions(void **state) {
    (void)state;
    static const sizes some[] = {{"plain", 3, 6, 9, 1, 2, {7, 8}, {3, 3}, {1, 1}, {1, 1}, EVEN(1)},
                                 {"dilated", 1, 6, 8, 2, 2, {9, 8}, {3, 2}, {1, 1}, {2, 3}, EVEN(0)},
                                 {"depthwise", 2, 5, 5, 5, 2, {9, 18}, {3, 2}, {1, 1}, {1, 2}, EVEN(1)},
                                 {"many small images", 33, 12, 9, 1, 2, {5, 6}, {3, 3}, {1, 1}, {1, 1}, EVEN(1)},
                                 {"striding", 2, 6, 9, 1, 2, {7, 8}, {3, 3}, {2, 2}, {1, 1}, EVEN(1)},
                                 {"striding past the kernel", 1, 4, 6, 2, 1, {11}, {2}, {3}, {1}, EVEN(0)}};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; ++i)
        for (int e = 0; e < EPILOGUES; ++e)
            if (when_compiled(i * EPILOGUES + (uint64_t)e, 7))
                transposed(&some[i], e, (i + (size_t)e) % 3 ? HD_F32 : HD_F64);
}

/* ---- what is around them ----------------------------------------------------------------------------------------- */
/* A scale that is computed from a variance comes first: the convolution waits for it, and is still finished in
 * tiles. */
static void batch_norm_follows(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(6, 4, 3, 3), 1, HD_F32), *mean = operand(S(6, 1, 1), 2, HD_F32),
              *variance = operand(S(6, 1, 1), 3, HD_F32);
    hd_builder *b = started("norm");
    hd_builder_bind(b, "w", w);
    hd_builder_bind(b, "mean", mean);
    hd_builder_bind(b, "variance", variance);
    hd_tensor *h = hd_conv(hd_input("x", S(3, 4, 9, 9), HD_F32), w, NULL, NULL);
    hd_tensor *scale = hd_rsqrt(hd_add_scalar(variance, 1e-5));
    hd_builder_add_output(b, "y", hd_relu(hd_mul(hd_sub(h, mean), scale)));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", operand(S(3, 4, 9, 9), 0, HD_F32));
    levels_agree_at(s, CONV_UNITS, 64, "batch norm");
    hd_script_set_optimization_level(s, HD_O2);
    hd_script_compile(s);
    assert_launches(s, 2, 2, "the scale, and all the rest");
}

/* A block of a network: each of its convolutions is one launch with what follows it. */
static void residual_block(void **state) {
    (void)state;
    HD_SCOPE;
    const hd_conv_opts *same = HD_OPTS(hd_conv_opts, .padding = {{1, 1}, {1, 1}});
    hd_builder *b = started("block");
    hd_tensor *x = hd_input("x", S(2, 16, 14, 14), HD_F32);
    hd_tensor *h = hd_relu(hd_conv(x, operand(S(8, 16, 1, 1), 1, HD_F32), operand(S(8), 2, HD_F32), NULL));
    h = hd_relu(hd_conv(h, operand(S(8, 8, 3, 3), 3, HD_F32), operand(S(8), 4, HD_F32), same));
    h = hd_conv(h, operand(S(16, 8, 1, 1), 5, HD_F32), operand(S(16), 6, HD_F32), NULL);
    hd_builder_add_output(b, "y", hd_relu(hd_add(h, x)));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", operand(S(2, 16, 14, 14), 0, HD_F32));
    levels_agree(s, CONV_UNITS, "block");
    hd_script_set_optimization_level(s, HD_O2);
    hd_script_compile(s);
    assert_launches(s, 3, 3, "a residual block");
    if (hd_current_device().kind != HD_DEVICE_CPU) return; /* where a product is one itself */
    assert_int_equal(hd_script_stats(s).kernels, 0);       /* bias, activation and residual need none of their own */
}

/* Two convolutions that are added: the second is finished with the first. */
static void sum_of_two(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("two");
    hd_tensor *x = hd_input("x", S(2, 5, 8, 9), HD_F32);
    hd_tensor *left = hd_conv(x, operand(S(7, 5, 3, 3), 1, HD_F32), NULL,
                              HD_OPTS(hd_conv_opts, .padding = {{1, 1}, {1, 1}})),
              *right = hd_conv(x, operand(S(7, 5, 1, 1), 2, HD_F32), NULL, NULL);
    hd_builder_add_output(b, "y", hd_relu(hd_add(left, right)));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", operand(S(2, 5, 8, 9), 0, HD_F32));
    levels_agree(s, CONV_UNITS, "two");
    hd_script_set_optimization_level(s, HD_O2);
    hd_script_compile(s);
    assert_launches(s, 2, 2, "a sum of two");
}

/* The same inside a script: the sum lies where the second one lay, so that tiles may not be made there. */
static void sum_over_the_second(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("over");
    hd_tensor *x = hd_input("x", S(1, 8, 32, 32), HD_F32);
    hd_tensor *left = hd_conv(x, operand(S(16, 8, 1, 1), 1, HD_F32), NULL, NULL),
              *right = hd_conv(x, operand(S(16, 8, 1, 1), 2, HD_F32), NULL, NULL);
    hd_builder_add_output(b, "y", hd_matmul(hd_add(left, right), operand(S(32, 32), 3, HD_F32)));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", operand(S(1, 8, 32, 32), 0, HD_F32));
    levels_agree(s, CONV_UNITS, "over");
}

/* Images and weights that are not in order in memory. */
static void operands_in_any_layout(void **state) {
    (void)state;
    for (int kind = 0; kind < 8; ++kind) {
        HD_SCOPE;
        hd_tensor *w = operand(S(3, 3, 5, 9), 1, HD_F32), *bias = operand(S(18), 3, HD_F32);
        hd_builder *b = started("layouts");
        if (kind & 1) hd_builder_bind(b, "w", w);
        hd_tensor *in = hd_input("x", S(10, 11, 2, 5), HD_F32);
        hd_tensor *x = hd_permute(in, X(2, 3, 0, 1)), *kernel = hd_permute(w, X(3, 2, 1, 0));
        hd_tensor *h = hd_conv(x, kernel, kind & 2 ? hd_slice(bias, 0, 0, HD_END, 2) : NULL, NULL);
        hd_builder_add_output(b, "y", kind & 4 ? hd_relu(h) : h);
        hd_script *s = built(b);
        hd_script_set_input(s, "x", operand(S(10, 11, 2, 5), 0, HD_F32));
        char what[32];
        snprintf(what, sizeof what, "layouts %d", kind);
        levels_agree(s, CONV_UNITS, what);
    }
}

/* A step of training: the gradient of the weight, which state then is less. */
static hd_tensor *stepped(hd_tensor *x, hd_tensor *w) {
    hd_requires_grad(w);
    hd_tensor *loss = hd_mean(hd_square(hd_tanh(hd_conv(x, w, NULL, NULL))), X(), NULL);
    hd_backward(loss);
    HD_NO_GRAD;
    hd_sub_(w, hd_mul_scalar(hd_grad(w), 0.1));
    hd_set_grad(w, NULL);
    return loss;
}
static void training_step(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_mul_scalar(operand(S(6, 3, 3, 3), 1, HD_F64), 0.1), *twin = hd_copy(w);
    hd_tensor *x = operand(S(2, 3, 9, 9), 0, HD_F64);
    hd_builder *b = started("step");
    hd_builder_add_state(b, "w", w);
    hd_builder_add_output(b, "loss", stepped(hd_input("x", S(2, 3, 9, 9), HD_F64), w));
    hd_script *s = built(b);
    hd_script_set_optimization_level(s, HD_O2);
    hd_script_set_input(s, "x", x);
    for (int step = 0; step < 4; ++step) {
        HD_SCOPE;
        hd_tensor *loss = output(s, "loss"), *expected = stepped(x, twin);
        hd_clear_tape();
        assert_within_units(loss, expected, 16);
        assert_within_units(w, twin, 16);
    }
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */
/* Weights that a run does not change are packed once; whoever changes them in between is noticed. */
static void changed_weights_are_packed_anew(void **state) {
    (void)state;
    for (int groups = 1; groups <= 8; groups += 7) {
        HD_SCOPE;
        hd_tensor *w = operand(S(8, 8 / groups, 3, 3), 1, HD_F32), *x = operand(S(2, 8, 10, 10), 0, HD_F32);
        const hd_conv_opts *o = HD_OPTS(hd_conv_opts, .groups = groups);
        hd_builder *b = started("bound");
        hd_builder_bind(b, "w", w);
        hd_tensor *h = hd_conv(hd_input("x", S(2, 8, 10, 10), HD_F32), w, NULL, o);
        hd_builder_add_output(b, "y", hd_relu(h));
        hd_script *s = built(b);
        hd_script_set_optimization_level(s, HD_O2);
        hd_script_set_input(s, "x", x);
        for (int step = 0; step < 5; ++step) {
            HD_SCOPE;
            if (step == 1) hd_assign(w, operand(S(8, 8 / groups, 3, 3), 5, HD_F32));
            if (step == 2) hd_fill(hd_select(w, 0, 3), 7);
            if (step == 3) ((float *)hd_data_mut(w, HD_F32))[40] = -5;
            if (step == 4) hd_script_set_state(s, "w", operand(S(8, 8 / groups, 3, 3), 6, HD_F32));
            assert_within_units(output(s, "y"), hd_relu(hd_conv(x, w, NULL, o)), CONV_UNITS);
        }
    }
}

RUN(test(every_size_with_every_epilogue), test(large_convolutions), test(transposed_convolutions),
    test(batch_norm_follows), test(residual_block), test(sum_of_two), test(sum_over_the_second),
    test(operands_in_any_layout), test(training_step), test(changed_weights_are_packed_anew))
