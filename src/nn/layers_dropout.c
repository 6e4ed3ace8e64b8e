/* Dropout as layers: in training alone. */
#include "nn/module.h"

static double probability_of(const hd_module *m) { return *(const double *)m->state; }

static hd_tensor *dropout_forward(hd_module *m, hd_tensor *x) {
    return hd_module_is_training(m) ? hd_dropout(x, probability_of(m)) : x;
}
static const hd_module_class dropout_class = {
    .name = "dropout", .forward = dropout_forward, .destroy = hd_array_release};

static hd_tensor *alpha_dropout_forward(hd_module *m, hd_tensor *x) {
    return hd_module_is_training(m) ? hd_alpha_dropout(x, probability_of(m)) : x;
}
static const hd_module_class alpha_dropout_class = {
    .name = "alpha_dropout", .forward = alpha_dropout_forward, .destroy = hd_array_release};

/* The dropout of ones, one for each channel, by which x is multiplied. */
static hd_tensor *dropout_channels_forward(hd_module *m, hd_tensor *x) {
    const hd_shape shape = x->layout.shape;
    if (shape.rank < 3 || shape.rank > 5) {
        hd_fail(HD_ERROR_SHAPE, "x %s; it must be [n, channels, 1 to 3 spatial axes]", HD_SHAPE_TEXT(shape));
        return NULL;
    }
    if (!hd_module_is_training(m) || x->count == 0) return x;
    hd_tensor *one = hd_detach(x); /* on the device of x */
    for (int i = 2; i < shape.rank; ++i) one = hd_narrow(one, i, 0, 1);
    return hd_mul(x, hd_dropout(hd_ones_like(one), probability_of(m)));
}
static const hd_module_class dropout_channels_class = {
    .name = "dropout_channels", .forward = dropout_channels_forward, .destroy = hd_array_release};

static hd_module *dropout_layer(hd_thread *thread, const hd_module_class *class_, double p) {
    if (!(p >= 0 && p <= 1)) {
        hd_fail(HD_ERROR_VALUE, "%g is no probability; it must be in [0, 1]", p);
        return NULL;
    }
    HD_KEEP_NAME(thread);
    return hd_module_with(class_, &p, sizeof p);
}

hd_module *hd_dropout_layer(double p) {
    HD_ENTER("hd_dropout_layer", NULL);
    return dropout_layer(thread, &dropout_class, p);
}

hd_module *hd_dropout_channels_layer(double p) {
    HD_ENTER("hd_dropout_channels_layer", NULL);
    return dropout_layer(thread, &dropout_channels_class, p);
}

hd_module *hd_alpha_dropout_layer(double p) {
    HD_ENTER("hd_alpha_dropout_layer", NULL);
    return dropout_layer(thread, &alpha_dropout_class, p);
}
