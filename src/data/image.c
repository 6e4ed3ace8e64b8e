/* Changes of images, [c,h,w] or [n,c,h,w], by ops: recorded, run on any device, and differentiated like these. */
#include "core/execute.h"
#include "core/options.h"
#include "core/random.h"

#include <hodu/hodu.h>

static const double pi = 3.14159265358979323846;

/* What a change needs beside the image. */
typedef struct change {
    const char *name;
    int64_t height, width, padding;
    double number; /* a probability, or degrees */
    int axis;
    const hd_resize_opts *resize;
} change;
typedef hd_tensor *(*change_function)(hd_tensor *x, const change *c); /* of [n,c,h,w] */

static hd_error check_image(const hd_tensor *x) {
    HD_TRY(hd_tensor_check(x, "x"));
    if (x->layout.shape.rank == 3 || x->layout.shape.rank == 4) return HD_OK;
    return hd_fail(HD_ERROR_SHAPE, "x is %s; an image is [c,h,w], and a batch of them [n,c,h,w]",
                   HD_SHAPE_TEXT(x->layout.shape));
}

/* Between elements numbers are computed as floats. */
static hd_error check_mixes(const hd_tensor *x) {
    const hd_dtype dtype = (hd_dtype)x->dtype;
    if (hd_dtype_is_float(dtype) || dtype == HD_U8 || dtype == HD_I8 || dtype == HD_U16 || dtype == HD_I16)
        return HD_OK;
    return hd_fail(HD_ERROR_DTYPE,
                   "x is %s; between elements there are floats, and integers of 8 or 16 bits; hd_cast it",
                   hd_dtype_name(dtype));
}
static hd_dtype mixing_dtype(const hd_tensor *x) { return x->dtype == HD_F64 ? HD_F64 : HD_F32; }
static hd_tensor *as_it_was(hd_tensor *y, const hd_tensor *x) {
    const hd_dtype dtype = (hd_dtype)x->dtype;
    if (y == NULL || hd_dtype_is_float(dtype)) return hd_cast(y, dtype);
    const bool is_signed = dtype == HD_I8 || dtype == HD_I16;
    const double all = hd_dtype_bytes[dtype] == 1 ? 256 : 65536;
    return hd_cast(hd_clamp(hd_round(y), is_signed ? -all / 2 : 0, is_signed ? all / 2 - 1 : all - 1), dtype);
}

/* Runs a change on x as a batch. When it fails, no draw was taken. */
static hd_tensor *run(hd_thread *thread, hd_tensor *x, hd_generator *g, change_function function, const change *c) {
    const bool is_one = x->layout.shape.rank == 3;
    hd_generator *before = NULL;
    HD_KEEP_NAME(thread);
    if (g != NULL) before = hd_generator_use(g);
    HD_TRY_OR(thread->error_code, NULL);
    const hd_draws draws = hd_generator_now(thread);
    hd_span span;
    hd_span_begin(&span, thread, c->name);
    hd_tensor *y = function(is_one ? hd_unsqueeze(x, 0) : x, c);
    y = hd_span_end(&span, is_one && y != NULL ? hd_squeeze(y, HD_AXES(0)) : y);
    if (y == NULL) hd_generator_give_back(thread, &draws);
    if (g != NULL) hd_generator_use(before);
    return y;
}

/* The elements of each image at these flat places, [n,h,w] or [1,h,w] of integers: [n,c,h,w]. */
static hd_tensor *pick(hd_tensor *x, hd_tensor *places) {
    const int64_t n = hd_tensor_size(x, 0), c = hd_tensor_size(x, 1);
    const int64_t h = hd_tensor_size(places, 1), w = hd_tensor_size(places, 2);
    hd_tensor *flat = hd_reshape(x, HD_SHAPE(n, c, hd_tensor_size(x, 2) * hd_tensor_size(x, 3)));
    hd_tensor *index = hd_reshape(places, HD_SHAPE(hd_tensor_size(places, 0), 1, h * w));
    return hd_reshape(hd_gather(flat, 2, hd_broadcast_to(index, HD_SHAPE(n, c, h * w))), HD_SHAPE(n, c, h, w));
}

/* ---- crops and flips --------------------------------------------------------------------------------------------- */
static hd_tensor *random_crop(hd_tensor *x, const change *c) {
    const hd_padding around[2] = {{c->padding, c->padding}, {c->padding, c->padding}};
    const int64_t n = hd_tensor_size(x, 0);
    if (c->padding > 0) x = hd_pad(x, around, 2, 0);
    const int64_t high = hd_tensor_size(x, 2), wide = hd_tensor_size(x, 3);
    if (hd_ok() && (c->height > high || c->width > wide)) {
        hd_fail(HD_ERROR_SHAPE, "a window of %lld x %lld does not fit into %lld x %lld, which is x with its padding",
                (long long)c->height, (long long)c->width, (long long)high, (long long)wide);
        return NULL;
    }
    hd_tensor *top = hd_randint(HD_SHAPE(n, 1, 1), HD_I64, 0, high - c->height + 1);
    hd_tensor *left = hd_randint(HD_SHAPE(n, 1, 1), HD_I64, 0, wide - c->width + 1);
    hd_tensor *rows = hd_add(top, hd_reshape(hd_range(0, 1, c->height, HD_I64), HD_SHAPE(1, c->height, 1)));
    hd_tensor *columns = hd_add(left, hd_reshape(hd_range(0, 1, c->width, HD_I64), HD_SHAPE(1, 1, c->width)));
    return pick(x, hd_add(hd_mul_scalar(rows, (double)wide), columns));
}

hd_tensor *hd_image_random_crop(hd_tensor *x, int64_t height, int64_t width, int64_t padding, hd_generator *generator) {
    HD_ENTER("hd_image_random_crop", NULL);
    HD_TRY_OR(check_image(x), NULL);
    if (height < 1 || width < 1 || padding < 0) {
        hd_fail(HD_ERROR_VALUE,
                "a window of %lld x %lld with a padding of %lld; it has a size, and the padding is not "
                "negative",
                (long long)height, (long long)width, (long long)padding);
        return NULL;
    }
    const change c = {.name = "image_random_crop", .height = height, .width = width, .padding = padding};
    return run(thread, x, generator, random_crop, &c);
}

static hd_tensor *random_flip(hd_tensor *x, const change *c) {
    hd_tensor *flips = hd_bernoulli(HD_SHAPE(hd_tensor_size(x, 0), 1, 1, 1), HD_F32, c->number);
    return hd_where(hd_cast(flips, HD_BOOL), hd_flip(x, HD_AXES(c->axis)), x);
}
static hd_tensor *flip(hd_thread *thread, hd_tensor *x, hd_generator *g, const change *c) {
    HD_TRY_OR(check_image(x), NULL);
    if (c->number >= 0 && c->number <= 1) return run(thread, x, g, random_flip, c);
    hd_fail(HD_ERROR_VALUE, "a probability of %g", c->number);
    return NULL;
}
hd_tensor *hd_image_random_hflip(hd_tensor *x, double probability, hd_generator *generator) {
    HD_ENTER("hd_image_random_hflip", NULL);
    const change c = {.name = "image_random_hflip", .axis = -1, .number = probability};
    return flip(thread, x, generator, &c);
}
hd_tensor *hd_image_random_vflip(hd_tensor *x, double probability, hd_generator *generator) {
    HD_ENTER("hd_image_random_vflip", NULL);
    const change c = {.name = "image_random_vflip", .axis = -2, .number = probability};
    return flip(thread, x, generator, &c);
}

/* ---- turning ----------------------------------------------------------------------------------------------------- */
/* One of the four neighbours of places (row, column), times its weight; outside the image it is 0. */
static hd_tensor *neighbour(hd_tensor *x, hd_tensor *row, hd_tensor *column, hd_tensor *weight) {
    const double high = (double)hd_tensor_size(x, 2) - 1, wide = (double)hd_tensor_size(x, 3) - 1;
    hd_tensor *r = hd_clamp(row, 0, high), *c = hd_clamp(column, 0, wide);
    hd_tensor *inside = hd_logical_and(hd_eq(r, row), hd_eq(c, column));
    hd_tensor *places = hd_add(hd_mul_scalar(hd_cast(r, HD_I64), wide + 1), hd_cast(c, HD_I64));
    hd_tensor *counts = hd_where_scalar(inside, weight, 0);
    return hd_mul(pick(x, places), hd_unsqueeze(counts, 1));
}

/* Each image by its angle, [n,1,1] or [1,1,1] in radians. */
static hd_tensor *rotate_by(hd_tensor *given, hd_tensor *angle) {
    const hd_dtype dtype = mixing_dtype(given);
    hd_tensor *x = hd_cast(given, dtype);
    const int64_t h = hd_tensor_size(x, 2), w = hd_tensor_size(x, 3);
    const double middle_row = ((double)h - 1) / 2, middle_column = ((double)w - 1) / 2;
    hd_tensor *down = hd_reshape(hd_range(-middle_row, 1, h, dtype), HD_SHAPE(1, h, 1));
    hd_tensor *right = hd_reshape(hd_range(-middle_column, 1, w, dtype), HD_SHAPE(1, 1, w));
    hd_tensor *cosine = hd_cos(angle), *sine = hd_sin(angle);
    hd_tensor *row = hd_add_scalar(hd_add(hd_mul(sine, right), hd_mul(cosine, down)), middle_row);
    hd_tensor *column = hd_add_scalar(hd_sub(hd_mul(cosine, right), hd_mul(sine, down)), middle_column);
    hd_tensor *top = hd_floor(row), *left = hd_floor(column);
    hd_tensor *below = hd_sub(row, top), *beyond = hd_sub(column, left); /* what lies between elements */
    hd_tensor *above = hd_rsub_scalar(below, 1), *before = hd_rsub_scalar(beyond, 1);
    hd_tensor *bottom = hd_add_scalar(top, 1), *end = hd_add_scalar(left, 1);
    hd_tensor *y = neighbour(x, top, left, hd_mul(above, before));
    y = hd_add(y, neighbour(x, top, end, hd_mul(above, beyond)));
    y = hd_add(y, neighbour(x, bottom, left, hd_mul(below, before)));
    y = hd_add(y, neighbour(x, bottom, end, hd_mul(below, beyond)));
    return as_it_was(y, given);
}

static hd_tensor *rotate(hd_tensor *x, const change *c) {
    return rotate_by(x, hd_full(HD_SHAPE(1, 1, 1), mixing_dtype(x), c->number * pi / 180));
}
static hd_tensor *random_rotate(hd_tensor *x, const change *c) {
    const double most = c->number * pi / 180;
    return rotate_by(x, hd_uniform(HD_SHAPE(hd_tensor_size(x, 0), 1, 1), mixing_dtype(x), -most, most));
}

static hd_tensor *turn(hd_thread *thread, hd_tensor *x, hd_generator *g, change_function function, const change *c) {
    HD_TRY_OR(check_image(x), NULL);
    HD_TRY_OR(check_mixes(x), NULL);
    if (c->number - c->number == 0) return run(thread, x, g, function, c); /* neither infinite nor NaN */
    hd_fail(HD_ERROR_VALUE, "an angle of %g degrees", c->number);
    return NULL;
}
hd_tensor *hd_image_rotate(hd_tensor *x, double degrees) {
    HD_ENTER("hd_image_rotate", NULL);
    const change c = {.name = "image_rotate", .number = degrees};
    return turn(thread, x, NULL, rotate, &c);
}
hd_tensor *hd_image_random_rotate(hd_tensor *x, double degrees, hd_generator *generator) {
    HD_ENTER("hd_image_random_rotate", NULL);
    const change c = {.name = "image_random_rotate", .number = degrees < 0 ? -degrees : degrees};
    return turn(thread, x, generator, random_rotate, &c);
}

/* ---- values and sizes -------------------------------------------------------------------------------------------- */
static hd_error check_channels(const hd_tensor *x, const hd_tensor *t, const char *name) {
    const int64_t channels = x->layout.shape.size[x->layout.shape.rank - 3];
    HD_TRY(hd_tensor_check(t, name));
    if (t->layout.shape.rank != 1 || t->count != channels)
        return hd_fail(HD_ERROR_SHAPE, "`%s` is %s, and x %s: it must have one number for each of %lld channels", name,
                       HD_SHAPE_TEXT(t->layout.shape), HD_SHAPE_TEXT(x->layout.shape), (long long)channels);
    return hd_dtype_is_float((hd_dtype)t->dtype)
               ? HD_OK
               : hd_fail(HD_ERROR_DTYPE, "`%s` is %s; it must be float", name, hd_dtype_name((hd_dtype)t->dtype));
}

hd_tensor *hd_image_normalize(hd_tensor *x, hd_tensor *mean, hd_tensor *deviation) {
    HD_ENTER("hd_image_normalize", NULL);
    HD_TRY_OR(check_image(x), NULL);
    HD_TRY_OR(check_channels(x, mean, "mean"), NULL);
    HD_TRY_OR(check_channels(x, deviation, "deviation"), NULL);
    const hd_shape shape = HD_SHAPE(mean->count, 1, 1);
    hd_span span;
    hd_span_begin(&span, thread, "image_normalize");
    return hd_span_end(&span, hd_div(hd_sub(x, hd_reshape(mean, shape)), hd_reshape(deviation, shape)));
}

static hd_tensor *resize(hd_tensor *x, const change *c) {
    const hd_shape size = HD_SHAPE(c->height, c->width);
    const bool is_nearest = c->resize == NULL || c->resize->mode < HD_RESIZE_LINEAR;
    if (is_nearest || hd_dtype_is_float((hd_dtype)x->dtype)) return hd_resize(x, size, c->resize);
    return check_mixes(x) == HD_OK ? as_it_was(hd_resize(hd_cast(x, HD_F32), size, c->resize), x) : NULL;
}
hd_tensor *hd_image_resize(hd_tensor *x, int64_t height, int64_t width, const hd_resize_opts *opts) {
    HD_ENTER("hd_image_resize", NULL);
    HD_TRY_OR(check_image(x), NULL);
    HD_READ_OPTS(hd_resize_opts, opts, NULL);
    options.struct_size = sizeof options;
    const change c = {.name = "image_resize", .height = height, .width = width, .resize = &options};
    return run(thread, x, NULL, resize, &c);
}
