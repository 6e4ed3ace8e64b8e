/* Initial values of parameters. */
#include "core/random.h"
#include "nn/module.h"

#include <math.h>

/* The value that a tensor is to have, or, when that is easier, NULL after it was written; from up to four numbers. */
typedef hd_tensor *(*maker)(hd_tensor *t, const double *n);

static hd_error check(const hd_tensor *t, bool draws) {
    HD_TRY(hd_tensor_check(t, "t"));
    if (t->storage->home != NULL && t->storage->home->captured)
        return hd_fail(HD_ERROR_STATE, "`t` is a value that a builder records, and initial values are written at once");
    return !draws || hd_dtype_is_float((hd_dtype)t->dtype)
               ? HD_OK
               : hd_fail(HD_ERROR_DTYPE, "`t` is %s; draws are floats", hd_dtype_name((hd_dtype)t->dtype));
}

/* Writes what `make` makes; what fails changes neither t nor the generator. */
static hd_tensor *write(hd_thread *thread, hd_tensor *t, maker make, const double *n) {
    HD_KEEP_NAME(thread);
    HD_EAGER;
    HD_NO_GRAD;
    hd_scope_token scope = hd_scope_within(thread, &scope);
    const hd_draws before = hd_generator_now(thread);
    hd_tensor *value = make(t, n);
    if (value != NULL) hd_assign(t, value);
    hd_scope_close(thread, &scope);
    if (thread->error_code == HD_OK) return t;
    hd_generator_give_back(thread, &before);
    return NULL;
}

/* Draws are made in f32 at least: not all narrower dtypes have the ops that follow. */
static hd_dtype wide(const hd_tensor *t) { return t->dtype == HD_F64 ? HD_F64 : HD_F32; }

/* ---- without fans ------------------------------------------------------------------------------------------------ */
static hd_tensor *make_uniform(hd_tensor *t, const double *n) {
    return hd_uniform(t->layout.shape, wide(t), n[0], n[1]);
}
static hd_tensor *make_normal(hd_tensor *t, const double *n) {
    return hd_add_scalar(hd_mul_scalar(hd_randn(t->layout.shape, wide(t)), n[1]), n[0]);
}

static hd_tensor *init_uniform(hd_thread *thread, hd_tensor *t, double low, double high) {
    HD_TRY_OR(check(t, true), NULL);
    if (!isfinite(low) || !isfinite(high) || low > high) {
        hd_fail(HD_ERROR_VALUE, "from %g up to %g; both are finite, and in order", low, high);
        return NULL;
    }
    return write(thread, t, make_uniform, (const double[]){low, high});
}

static hd_tensor *init_normal(hd_thread *thread, hd_tensor *t, double mean, double deviation) {
    HD_TRY_OR(check(t, true), NULL);
    if (!isfinite(mean) || !isfinite(deviation) || deviation < 0) {
        hd_fail(HD_ERROR_VALUE, "mean %g, deviation %g; both are finite, and the deviation is not below 0", mean,
                deviation);
        return NULL;
    }
    return write(thread, t, make_normal, (const double[]){mean, deviation});
}

hd_tensor *hd_init_uniform(hd_tensor *t, double low, double high) {
    HD_ENTER("hd_init_uniform", NULL);
    return init_uniform(thread, t, low, high);
}

hd_tensor *hd_init_normal(hd_tensor *t, double mean, double deviation) {
    HD_ENTER("hd_init_normal", NULL);
    return init_normal(thread, t, mean, deviation);
}

/* By the inverse of the distribution function, of a uniform draw between its values at both ends. */
static hd_tensor *make_trunc_normal(hd_tensor *t, const double *n) {
    const double mean = n[0], deviation = n[1], low = n[2], high = n[3], scale = deviation * sqrt(2);
    hd_tensor *u = hd_uniform(t->layout.shape, wide(t), erf((low - mean) / scale), erf((high - mean) / scale));
    return hd_clamp(hd_add_scalar(hd_mul_scalar(hd_erfinv(u), scale), mean), low, high);
}

hd_tensor *hd_init_trunc_normal(hd_tensor *t, double mean, double deviation, double low, double high) {
    HD_ENTER("hd_init_trunc_normal", NULL);
    HD_TRY_OR(check(t, true), NULL);
    if (!isfinite(mean) || !isfinite(deviation) || !(deviation > 0) || !(low < high)) {
        hd_fail(HD_ERROR_VALUE,
                "mean %g, deviation %g, from %g to %g; the deviation is above 0, and the ends are in order", mean,
                deviation, low, high);
        return NULL;
    }
    return write(thread, t, make_trunc_normal, (const double[]){mean, deviation, low, high});
}

static hd_tensor *make_constant(hd_tensor *t, const double *n) { return hd_fill(t, n[0]), NULL; }
static hd_tensor *init_constant(hd_thread *thread, hd_tensor *t, double value) {
    HD_TRY_OR(check(t, false), NULL);
    return write(thread, t, make_constant, &value);
}
hd_tensor *hd_init_constant(hd_tensor *t, double value) {
    HD_ENTER("hd_init_constant", NULL);
    return init_constant(thread, t, value);
}
hd_tensor *hd_init_ones(hd_tensor *t) {
    HD_ENTER("hd_init_ones", NULL);
    return init_constant(thread, t, 1);
}
hd_tensor *hd_init_zeros(hd_tensor *t) {
    HD_ENTER("hd_init_zeros", NULL);
    return init_constant(thread, t, 0);
}

static hd_tensor *make_eye(hd_tensor *t, const double *n) {
    (void)n;
    return hd_eye(t->layout.shape.size[0], t->layout.shape.size[1], (hd_dtype)t->dtype);
}
hd_tensor *hd_init_eye(hd_tensor *t) {
    HD_ENTER("hd_init_eye", NULL);
    HD_TRY_OR(check(t, false), NULL);
    if (t->layout.shape.rank != 2) {
        hd_fail(HD_ERROR_SHAPE, "`t` is %s; it must be a matrix", HD_SHAPE_TEXT(t->layout.shape));
        return NULL;
    }
    return write(thread, t, make_eye, NULL);
}

/* In each group an identity matrix of the channels there are, in the middle of the kernel. */
static hd_tensor *make_dirac(hd_tensor *t, const double *n) {
    const hd_shape *shape = &t->layout.shape;
    const int64_t groups = (int64_t)n[0], out = shape->size[0] / groups;
    const int64_t channels = out < shape->size[1] ? out : shape->size[1];
    hd_fill(t, 0);
    for (int64_t g = 0; g < groups && hd_ok(); ++g) {
        hd_tensor *part = hd_narrow(hd_narrow(t, 0, g * out, channels), 1, 0, channels);
        for (int i = 2; i < shape->rank; ++i) part = hd_select(part, 2, shape->size[i] / 2);
        hd_assign(part, hd_eye(channels, channels, (hd_dtype)t->dtype));
    }
    return NULL;
}

hd_tensor *hd_init_dirac(hd_tensor *t, int64_t groups) {
    HD_ENTER("hd_init_dirac", NULL);
    HD_TRY_OR(check(t, false), NULL);
    const hd_shape shape = t->layout.shape;
    if (shape.rank < 3 || shape.rank > 5 || groups < 1 || shape.size[0] % groups != 0) {
        hd_fail(HD_ERROR_SHAPE,
                "`t` is %s, with %lld groups; it must be [out, in, ...] with 1 to 3 axes behind, and groups divide out",
                HD_SHAPE_TEXT(shape), (long long)groups);
        return NULL;
    }
    return t->count == 0 ? t : write(thread, t, make_dirac, &(const double){(double)groups});
}

/* Q of a matrix of normal draws, with the signs of R's diagonal: each orthogonal matrix is as likely as any other. */
static hd_tensor *make_orthogonal(hd_tensor *t, const double *n) {
    const int64_t rows = t->layout.shape.size[0], columns = t->count / rows;
    const bool is_wide = rows < columns;
    const hd_qr_parts parts = hd_qr(hd_randn(is_wide ? HD_SHAPE(columns, rows) : HD_SHAPE(rows, columns), wide(t)));
    hd_tensor *q = hd_mul(parts.q, hd_sign(hd_diagonal(parts.r, 0, 0, 1)));
    if (is_wide) q = hd_transpose(q, 0, 1);
    return hd_mul_scalar(hd_reshape(q, t->layout.shape), n[0]);
}

static hd_error check_matrix(const hd_tensor *t, double gain) {
    HD_TRY(check(t, true));
    if (t->layout.shape.rank < 2)
        return hd_fail(HD_ERROR_SHAPE, "`t` is %s; it must have 2 axes at least", HD_SHAPE_TEXT(t->layout.shape));
    return isfinite(gain) ? HD_OK : hd_fail(HD_ERROR_VALUE, "a gain of %g; it must be finite", gain);
}

hd_tensor *hd_init_orthogonal(hd_tensor *t, double gain) {
    HD_ENTER("hd_init_orthogonal", NULL);
    HD_TRY_OR(check_matrix(t, gain), NULL);
    return t->count == 0 ? t : write(thread, t, make_orthogonal, &gain);
}

/* ---- by fans ----------------------------------------------------------------------------------------------------- */
typedef struct fans {
    double in, out;
} fans;

static fans fans_of(const hd_tensor *t) {
    const hd_shape *shape = &t->layout.shape;
    double field = 1;
    for (int i = 2; i < shape->rank; ++i) field *= (double)shape->size[i];
    return (fans){(double)shape->size[1] * field, (double)shape->size[0] * field};
}

static hd_error find_gain(hd_nonlinearity nonlinearity, double slope, double *gain) {
    switch (nonlinearity) {
    case HD_NONLINEARITY_LINEAR:
    case HD_NONLINEARITY_SIGMOID: *gain = 1; return HD_OK;
    case HD_NONLINEARITY_TANH: *gain = 5.0 / 3; return HD_OK;
    case HD_NONLINEARITY_RELU: *gain = sqrt(2); return HD_OK;
    case HD_NONLINEARITY_DEFAULT:
    case HD_NONLINEARITY_LEAKY_RELU: *gain = sqrt(2 / (1 + slope * slope)); return HD_OK;
    case HD_NONLINEARITY_SELU: *gain = 0.75; return HD_OK;
    }
    return hd_fail(HD_ERROR_VALUE, "%d is no nonlinearity; there are HD_NONLINEARITY_LINEAR to HD_NONLINEARITY_SELU",
                   (int)nonlinearity);
}

double hd_init_gain(hd_nonlinearity nonlinearity, double slope) {
    HD_ENTER("hd_init_gain", NAN);
    double gain = 0;
    return find_gain(nonlinearity, slope, &gain) == HD_OK ? gain : NAN;
}

/* Values whose deviation this is. */
static hd_tensor *init_spread(hd_thread *thread, hd_tensor *t, double deviation, bool uniform) {
    const double bound = sqrt(3) * fabs(deviation);
    if (t->count == 0) return t;
    return uniform ? init_uniform(thread, t, -bound, bound) : init_normal(thread, t, 0, fabs(deviation));
}

static hd_tensor *init_xavier(hd_thread *thread, hd_tensor *t, double gain, bool uniform) {
    HD_TRY_OR(check_matrix(t, gain), NULL);
    const fans f = fans_of(t);
    return init_spread(thread, t, gain * sqrt(2 / (f.in + f.out)), uniform);
}

hd_tensor *hd_init_xavier_uniform(hd_tensor *t, double gain) {
    HD_ENTER("hd_init_xavier_uniform", NULL);
    return init_xavier(thread, t, gain, true);
}

hd_tensor *hd_init_xavier_normal(hd_tensor *t, double gain) {
    HD_ENTER("hd_init_xavier_normal", NULL);
    return init_xavier(thread, t, gain, false);
}

static hd_tensor *init_kaiming(hd_thread *thread, hd_tensor *t, const hd_kaiming_opts *opts, bool uniform) {
    HD_READ_OPTS(hd_kaiming_opts, opts, NULL);
    double gain = 0;
    HD_TRY_OR(find_gain(options.nonlinearity, options.slope, &gain), NULL);
    HD_TRY_OR(check_matrix(t, gain), NULL);
    const fans f = fans_of(t);
    return init_spread(thread, t, gain / sqrt(options.fan_out ? f.out : f.in), uniform);
}

hd_tensor *hd_init_kaiming_uniform(hd_tensor *t, const hd_kaiming_opts *opts) {
    HD_ENTER("hd_init_kaiming_uniform", NULL);
    return init_kaiming(thread, t, opts, true);
}

hd_tensor *hd_init_kaiming_normal(hd_tensor *t, const hd_kaiming_opts *opts) {
    HD_ENTER("hd_init_kaiming_normal", NULL);
    return init_kaiming(thread, t, opts, false);
}
