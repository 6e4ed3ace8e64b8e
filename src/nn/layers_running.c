/* Layers that normalise channels and may keep running statistics of them, which evaluation normalises by. */
#include "nn/norm.h"

/* Where the running statistics are among the members: behind weight and bias. */
enum { NO_STATISTICS = -1 };
typedef struct running_state {
    int64_t at; /* running_mean, then running_variance, then num_batches_tracked when it is cumulative */
    double eps, momentum;
    bool cumulative;
} running_state;

static bool has_statistics(const running_state *s) { return s->at != NO_STATISTICS; }
static hd_tensor *running_mean(const hd_module *m, const running_state *s) {
    return has_statistics(s) ? hd_module_member(m, s->at) : NULL;
}
static hd_tensor *running_variance(const hd_module *m, const running_state *s) {
    return has_statistics(s) ? hd_module_member(m, s->at + 1) : NULL;
}

/* In evaluation, and there are statistics to normalise by. */
static bool runs_on_statistics(const hd_module *m, const running_state *s) {
    return has_statistics(s) && !hd_module_is_training(m);
}

/* Moves both towards what a batch has by `share`, a tensor of one element. New values are made before one is written, so
 * that an error on the way leaves both. */
static void move_statistics(hd_module *m, hd_tensor *mean, hd_tensor *variance, hd_tensor *share) {
    const running_state *s = m->state;
    hd_tensor *const to[2] = {running_mean(m, s), running_variance(m, s)};
    hd_tensor *const moved[2] = {hd_lerp(to[0], mean, share), hd_lerp(to[1], variance, share)};
    for (int i = 0; i < 2; ++i) hd_assign(to[i], moved[i]);
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */
/* What the batch has is what running statistics are that move all the way. The mean of those of k batches moves towards
 * the k-th by 1/k. */
static hd_tensor *batch_norm_cumulative(hd_module *m, hd_tensor *x) {
    const running_state *s = m->state;
    hd_tensor *mean = hd_copy(running_mean(m, s)), *variance = hd_copy(running_variance(m, s));
    hd_tensor *y = hd_batch_norm(x, mean, variance, m->weight, m->bias, true, 1, s->eps);
    if (y == NULL) return NULL;
    hd_tensor *tracked = hd_module_member(m, s->at + 2), *batches = hd_add_scalar(tracked, 1);
    move_statistics(m, mean, variance, hd_recip(hd_cast(batches, hd_tensor_dtype(mean))));
    hd_assign(tracked, batches);
    return y;
}

static hd_tensor *batch_norm_forward(hd_module *m, hd_tensor *x) {
    const running_state *s = m->state;
    const bool by_batch = !runs_on_statistics(m, s);
    if (by_batch && s->cumulative) return batch_norm_cumulative(m, x);
    return hd_batch_norm(x, running_mean(m, s), running_variance(m, s), m->weight, m->bias, by_batch, s->momentum,
                         s->eps);
}
static const hd_module_class batch_norm_class = {
    .name = "batch_norm", .forward = batch_norm_forward, .destroy = hd_array_release};

/* ---- instances --------------------------------------------------------------------------------------------------- */
static hd_tensor *instance_norm_forward(hd_module *m, hd_tensor *x) {
    const running_state *s = m->state;
    if (runs_on_statistics(m, s))
        return hd_batch_norm(x, running_mean(m, s), running_variance(m, s), m->weight, m->bias, false, 0, s->eps);
    hd_tensor *y = hd_instance_norm(x, m->weight, m->bias, s->eps);
    if (y == NULL || !has_statistics(s)) return y;
    hd_axes behind = {.count = 0};
    for (int i = 2; i < x->layout.shape.rank; ++i) behind.axis[behind.count++] = i;
    hd_tensor *f = hd_cast(hd_detach(x), hd_tensor_dtype(running_mean(m, s)));
    hd_tensor *mean = hd_mean(hd_mean(f, behind, NULL), HD_AXES(0), NULL);
    hd_tensor *variance = hd_mean(hd_var(f, behind, 1, NULL), HD_AXES(0), NULL);
    move_statistics(m, mean, variance, hd_scalar(s->momentum, hd_tensor_dtype(mean)));
    return y;
}
static const hd_module_class instance_norm_class = {
    .name = "instance_norm", .forward = instance_norm_forward, .destroy = hd_array_release};

/* ---- both -------------------------------------------------------------------------------------------------------- */
typedef struct contents {
    bool weight, bias, running;
    hd_dtype dtype;
} contents;

static hd_module *running_layer(hd_thread *thread, const hd_module_class *class_, int64_t channels, running_state state,
                                const contents *c) {
    hd_dtype dtype;
    HD_TRY_OR(hd_making_dtype(thread, c->dtype, &dtype), NULL);
    if (state.eps == 0) state.eps = 1e-5;
    state.momentum = hd_option(state.momentum, 0.1);
    HD_TRY_OR(hd_norm_channels_check(channels, state.eps, state.momentum), NULL);
    const hd_shape shape = HD_SHAPE(channels);
    hd_making making;
    hd_making_begin(&making, thread);
    state.at = c->running ? c->weight + c->bias : NO_STATISTICS;
    hd_module *m = hd_module_with(class_, &state, sizeof state);
    hd_norm_add_scale(m, shape, dtype, c->weight, c->bias);
    if (c->running) {
        hd_module_add_buffer(m, "running_mean", hd_zeros(shape, dtype));
        hd_module_add_buffer(m, "running_variance", hd_ones(shape, dtype));
        if (state.cumulative) hd_module_add_buffer(m, "num_batches_tracked", hd_zeros(HD_SHAPE(), HD_I64));
    }
    return hd_making_end(&making, m);
}

hd_module *hd_batch_norm_layer(int64_t channels, const hd_batch_norm_layer_opts *opts) {
    HD_ENTER("hd_batch_norm_layer", NULL);
    HD_READ_OPTS(hd_batch_norm_layer_opts, opts, NULL);
    const running_state state = {
        .eps = options.eps, .momentum = options.momentum, .cumulative = options.cumulative && !options.no_running};
    const contents c = {!options.no_weight, !options.no_bias, !options.no_running, options.dtype};
    return running_layer(thread, &batch_norm_class, channels, state, &c);
}

hd_module *hd_instance_norm_layer(int64_t channels, const hd_instance_norm_layer_opts *opts) {
    HD_ENTER("hd_instance_norm_layer", NULL);
    HD_READ_OPTS(hd_instance_norm_layer_opts, opts, NULL);
    const running_state state = {.eps = options.eps, .momentum = options.momentum};
    const contents c = {options.affine, options.affine, options.running, options.dtype};
    return running_layer(thread, &instance_norm_class, channels, state, &c);
}
