/* The gradients of normalisation, convolution, pooling and attention at random shapes and options: hd_gradcheck in f64,
 * first and second order. HODU_SEED=n repeats a run. */
#include "golden/rows.h"

#include <math.h>

typedef enum kind { LAYER_NORM, RMS_NORM, CONV, CONV_TRANSPOSE, MAX_POOL, AVG_POOL, ADAPTIVE, ATTENTION, KINDS } kind;
static const char *const kind_names[KINDS] = {"layer_norm", "rms_norm", "conv",     "conv_transpose",
                                              "max_pool",   "avg_pool", "adaptive", "attention"};

typedef struct layer {
    kind kind;
    int inputs;
    hd_shape shape[4]; /* of the inputs */
    int axes;
    hd_conv_opts conv;
    hd_pool_opts pool;
    hd_shape window;
    bool largest, causal; /* which adaptive pooling; of attention */
    bool hides, turned;   /* attention: a mask of bools; inputs lie in memory from the last axis to the first */
    double scale;
} layer;

static hd_tensor *run_layer(hd_tensors *in, void *user) {
    const layer *l = user;
    hd_tensor *x[4] = {NULL};
    for (int i = 0; i < l->inputs; ++i) {
        x[i] = hd_tensors_get(in, i);
        hd_axes order = {.count = hd_tensor_rank(x[i])};
        for (int k = 0; k < order.count; ++k) order.axis[k] = order.count - 1 - k;
        if (l->turned) x[i] = hd_permute(hd_copy(hd_permute(x[i], order)), order);
    }
    switch (l->kind) {
    case LAYER_NORM: return hd_layer_norm(x[0], l->axes, x[1], x[2], 0.1);
    case RMS_NORM: return hd_rms_norm(x[0], x[1], 0.1);
    case CONV: return hd_conv(x[0], x[1], x[2], &l->conv);
    case CONV_TRANSPOSE: return hd_conv_transpose(x[0], x[1], x[2], &l->conv);
    case MAX_POOL: return hd_max_pool(x[0], l->window, &l->pool);
    case AVG_POOL: return hd_square(hd_avg_pool(x[0], l->window, &l->pool));
    case ADAPTIVE:
        return hd_square(l->largest ? hd_adaptive_max_pool(x[0], l->window) : hd_adaptive_avg_pool(x[0], l->window));
    case ATTENTION:
    case KINDS: break;
    }
    const int rank = l->shape[0].rank;
    hd_tensor *hidden = hd_tri(l->shape[0].size[rank - 2], l->shape[1].size[rank - 2], 1, HD_BOOL);
    return hd_attention(x[0], x[1], x[2], l->hides ? hidden : x[3], l->causal, l->scale);
}

/* ---- random ones ------------------------------------------------------------------------------------------------- */
static int64_t from_to(dice *d, int64_t low, int64_t high) {
    return low + (int64_t)(roll(d) % (uint64_t)(high - low + 1));
}

static void draw_norm(layer *l, dice *d) {
    l->shape[0].rank = (int)from_to(d, 1, 4);
    for (int i = 0; i < l->shape[0].rank; ++i) l->shape[0].size[i] = from_to(d, 1, 3);
    l->axes = l->kind == RMS_NORM ? 1 : (int)from_to(d, 1, l->shape[0].rank);
    hd_shape part = {.rank = l->axes};
    for (int i = 0; i < l->axes; ++i) part.size[i] = l->shape[0].size[l->shape[0].rank - l->axes + i];
    l->shape[1] = l->shape[2] = part;
    l->inputs = (int)from_to(d, 1, l->kind == RMS_NORM ? 2 : 3);
}

static void draw_conv(layer *l, dice *d) {
    const int spatial = (int)from_to(d, 1, 3);
    const int64_t groups = from_to(d, 1, 2), in = from_to(d, 1, 2), out = from_to(d, 1, 2);
    const bool transposed = l->kind == CONV_TRANSPOSE;
    l->conv = (hd_conv_opts){.struct_size = sizeof l->conv, .groups = groups};
    l->shape[0] = (hd_shape){.rank = spatial + 2, .size = {from_to(d, 1, 2), groups * in}};
    l->shape[1] = (hd_shape){.rank = spatial + 2, .size = {groups * (transposed ? in : out), transposed ? out : in}};
    l->shape[2] = HD_SHAPE(groups * out);
    l->inputs = (int)from_to(d, 2, 3);
    for (int i = 0; i < spatial; ++i) {
        l->conv.stride[i] = from_to(d, 1, 3);
        l->conv.dilation[i] = from_to(d, 1, 2);
        l->conv.padding[i] = (hd_padding){from_to(d, -1, 2), from_to(d, 0, 1)};
        if (transposed) l->conv.output_padding[i] = from_to(d, 0, l->conv.stride[i] - 1);
        l->shape[0].size[i + 2] = from_to(d, 1, spatial == 3 ? 3 : 5);
        l->shape[1].size[i + 2] = from_to(d, 1, spatial == 3 ? 2 : 3);
    }
}

static void draw_pool(layer *l, dice *d) {
    const int spatial = (int)from_to(d, 1, 3), in_front = (int)from_to(d, 0, 1);
    l->inputs = 1;
    l->shape[0].rank = spatial + in_front;
    l->window.rank = spatial;
    l->pool = (hd_pool_opts){
        .struct_size = sizeof l->pool, .ceil_mode = roll(d) & 1, .exclude_padding = l->kind == AVG_POOL && roll(d) & 1};
    l->largest = roll(d) & 1;
    if (in_front > 0) l->shape[0].size[0] = 2;
    for (int i = 0; i < spatial; ++i) {
        l->shape[0].size[in_front + i] = from_to(d, 1, spatial == 3 ? 3 : 6);
        l->window.size[i] = from_to(d, 1, 3);
        l->pool.stride[i] = from_to(d, 0, 3);
        l->pool.dilation[i] = l->kind == MAX_POOL ? from_to(d, 0, 2) : 0;
        l->pool.padding[i] = (hd_padding){from_to(d, 0, l->window.size[i] / 2), from_to(d, 0, l->window.size[i] / 2)};
    }
}

static void draw_attention(layer *l, dice *d) {
    const int in_front = (int)from_to(d, 0, 2);
    hd_shape front = {.rank = in_front};
    for (int i = 0; i < in_front; ++i) front.size[i] = from_to(d, 1, 2);
    const int64_t t = from_to(d, 1, 4), s = from_to(d, 1, 4), width = from_to(d, 1, 3), result = from_to(d, 1, 3);
    const int64_t sizes[4][2] = {{t, width}, {s, width}, {s, result}, {roll(d) & 1 ? t : 1, s}};
    l->inputs = (int)from_to(d, 3, 4);
    for (int i = 0; i < 4; ++i) {
        if (i < 3) l->shape[i] = front; /* a mask broadcasts */
        for (int k = 0; k < 2; ++k) l->shape[i].size[l->shape[i].rank++] = sizes[i][k];
    }
    l->hides = l->inputs == 3 && roll(d) & 1;
    l->causal = roll(d) & 1;
    l->scale = roll(d) & 1 ? 0.7 : 0;
}

/* Distinct values of either sign, 0.013 apart, so that differences with a step of 1e-4 do not change which is
 * largest. */
static hd_tensor *values_of(hd_shape shape, int *used) {
    enum { STEPS = 127 };
    double v[STEPS];
    const int64_t count = hd_shape_count(shape);
    for (int64_t i = 0; i < count; ++i, ++*used)
        v[i] = (0.3 + 1.7 * (*used * 29 % STEPS) / STEPS) * (*used * 5 % 3 == 1 ? -1 : 1);
    return hd_from_data(v, shape, HD_F64);
}

/* A layer that fits its inputs: what does not is drawn anew. */
static hd_tensors *draw_layer(layer *l, kind k, dice *d) {
    for (int tries = 0; tries < 1000; ++tries) {
        *l = (layer){.kind = k, .turned = roll(d) & 1};
        if (k <= RMS_NORM)
            draw_norm(l, d);
        else if (k <= CONV_TRANSPOSE)
            draw_conv(l, d);
        else if (k <= ADAPTIVE)
            draw_pool(l, d);
        else
            draw_attention(l, d);
        int64_t count = 0;
        for (int i = 0; i < l->inputs; ++i) count += hd_shape_count(l->shape[i]);
        if (count > 100) continue;
        hd_tensor *list[4];
        int used = 0;
        for (int i = 0; i < l->inputs; ++i) list[i] = values_of(l->shape[i], &used);
        hd_tensors *inputs = hd_tensors_from(list, l->inputs);
        hd_tensor *y = run_layer(inputs, l);
        const hd_error error = hd_error_code();
        hd_error_clear();
        assert_true(error == HD_OK || error == HD_ERROR_SHAPE || error == HD_ERROR_VALUE); /* too small an image */
        if (y == NULL || hd_tensor_count(y) == 0) continue;
        if (hd_item_i64(hd_all(hd_isfinite(y), HD_AXES(), NULL)) != 0) return inputs; /* no window of padding alone */
    }
    fail_msg("no %s that fits in a thousand", kind_names[k]);
    return NULL;
}

static void gradients_agree_with_differences_at_random_shapes(void **state) {
    (void)state;
    dice d = roll_from("gradients_agree_with_differences_at_random_shapes", 20261115);
    int bad = 0;
    for (int k = 0; k < KINDS; ++k)
        for (int i = 0; i < 25; ++i) {
            HD_SCOPE;
            layer l;
            hd_tensors *inputs = draw_layer(&l, (kind)k, &d);
            if (!when_compiled((uint64_t)(k * 25 + i), 7)) continue;
            char why[256] = "";
            if (hd_gradcheck(run_layer, &l, inputs,
                             HD_OPTS(hd_gradcheck_opts, .relative = 1e-7, .absolute = 1e-8, .second_order = true,
                                     .explain = why, .explain_capacity = sizeof why)))
                continue;
            print_error("%s %d: %s%s\n", kind_names[k], i, why, hd_error_message());
            hd_error_clear();
            ++bad;
        }
    if (bad > 0) fail_msg("%d of them are wrong", bad);
}

RUN(test(gradients_agree_with_differences_at_random_shapes))
