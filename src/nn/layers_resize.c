/* Layers that give images other sizes: resized, or with something around them. */
#include "nn/module.h"

#include <string.h>

/* ---- resizing ---------------------------------------------------------------------------------------------------- */
typedef struct resize_state {
    hd_shape size; /* of the result, or of rank 0: */
    double scale;  /* by which it is larger */
    hd_resize_opts opts;
} resize_state;

static hd_tensor *resize_forward(hd_module *m, hd_tensor *x) {
    const resize_state *s = m->state;
    return hd_resize(x, s->size, &s->opts);
}
static const hd_module_class resize_class = {.name = "resize", .forward = resize_forward, .destroy = hd_array_release};

static hd_tensor *upsample_forward(hd_module *m, hd_tensor *x) {
    const resize_state *s = m->state;
    const hd_shape shape = x->layout.shape;
    hd_shape size = {.rank = shape.rank - 2};
    bool fits = shape.rank >= 3 && shape.rank <= 5;
    for (int i = 0; i < size.rank && fits; ++i) {
        const double now = (double)shape.size[i + 2] * s->scale;
        fits = now < 9e15;
        if (fits) size.size[i] = (int64_t)now;
    }
    if (fits) return hd_resize(x, size, &s->opts);
    hd_fail(HD_ERROR_SHAPE, "x %s and a scale of %g; it must be [n, channels, 1 to 3 spatial axes]",
            HD_SHAPE_TEXT(shape), s->scale);
    return NULL;
}
static const hd_module_class upsample_class = {
    .name = "upsample", .forward = upsample_forward, .destroy = hd_array_release};

hd_module *hd_resize_layer(hd_shape size, const hd_resize_opts *opts) {
    HD_ENTER("hd_resize_layer", NULL);
    HD_READ_OPTS(hd_resize_opts, opts, NULL);
    HD_TRY_OR(hd_rank_check(&size), NULL);
    bool fits = size.rank >= 1 && size.rank <= 3;
    for (int i = 0; i < size.rank && fits; ++i) fits = size.size[i] >= 1;
    if (!fits) {
        hd_fail(HD_ERROR_VALUE, "a size %s; it has 1 to 3 sizes of at least 1", HD_SHAPE_TEXT(size));
        return NULL;
    }
    HD_KEEP_NAME(thread);
    options.struct_size = sizeof options;
    const resize_state state = {.size = size, .opts = options};
    return hd_module_with(&resize_class, &state, sizeof state);
}

hd_module *hd_upsample_layer(double scale, const hd_resize_opts *opts) {
    HD_ENTER("hd_upsample_layer", NULL);
    HD_READ_OPTS(hd_resize_opts, opts, NULL);
    if (!(scale > 0) || scale > 1e9) {
        hd_fail(HD_ERROR_VALUE, "a scale of %g; it is a factor above 0", scale);
        return NULL;
    }
    HD_KEEP_NAME(thread);
    options.struct_size = sizeof options;
    const resize_state state = {.scale = scale, .opts = options};
    return hd_module_with(&upsample_class, &state, sizeof state);
}

/* ---- padding ----------------------------------------------------------------------------------------------------- */
typedef struct pad_state {
    hd_padding padding[HD_MAX_RANK];
    int count;
    hd_pad_mode mode;
    double value;
} pad_state;

static hd_tensor *pad_forward(hd_module *m, hd_tensor *x) {
    const pad_state *s = m->state;
    return hd_pad(x, s->padding, s->count, s->value);
}
static const hd_module_class pad_class = {.name = "pad", .forward = pad_forward, .destroy = hd_array_release};

static hd_tensor *pad_with_forward(hd_module *m, hd_tensor *x) {
    const pad_state *s = m->state;
    return hd_pad_with(x, s->padding, s->count, s->mode);
}
static const hd_module_class pad_with_class = {
    .name = "pad_with", .forward = pad_with_forward, .destroy = hd_array_release};

static hd_module *pad_layer(hd_thread *thread, const hd_module_class *class_, const hd_padding *padding, int count,
                            pad_state *state) {
    if (padding == NULL || count < 1 || count > HD_MAX_RANK) {
        hd_fail(padding == NULL ? HD_ERROR_NULL_ARGUMENT : HD_ERROR_VALUE,
                "padding of %d axes%s; it is given for 1 to %d of them, the last ones", count,
                padding == NULL ? " that is NULL" : "", HD_MAX_RANK);
        return NULL;
    }
    HD_KEEP_NAME(thread);
    memcpy(state->padding, padding, (size_t)count * sizeof *padding);
    state->count = count;
    return hd_module_with(class_, state, sizeof *state);
}

hd_module *hd_pad_layer(const hd_padding *padding, int count, double value) {
    HD_ENTER("hd_pad_layer", NULL);
    return pad_layer(thread, &pad_class, padding, count, &(pad_state){.value = value});
}

hd_module *hd_pad_with_layer(const hd_padding *padding, int count, hd_pad_mode mode) {
    HD_ENTER("hd_pad_with_layer", NULL);
    if (mode < HD_PAD_REFLECT || mode > HD_PAD_CIRCULAR) {
        hd_fail(HD_ERROR_VALUE, "a mode %d; it is HD_PAD_REFLECT, HD_PAD_REPLICATE or HD_PAD_CIRCULAR", (int)mode);
        return NULL;
    }
    return pad_layer(thread, &pad_with_class, padding, count, &(pad_state){.mode = mode});
}
