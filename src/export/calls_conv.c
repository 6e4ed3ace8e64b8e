/* Convolutions in C. A row of results is summed up at once, some elements at a time: each weight meets all elements of
 * the image that it goes with, which lie side by side. */
#include "export/net.h"

#include <stdio.h>
#include <string.h>

enum { STRIP = 32 };

typedef struct sizes {
    int axes; /* spatial ones */
    long long image[3], result[3], kernel[3], stride[3], dilation[3], before[3];
    long long batch, in, out; /* channels of a group */
    long long groups;
    hd_dtype dtype, as;
    const char *type; /* of sums */
} sizes;

static sizes describe(const hd_net_call *c, const hd_shape *image, const hd_shape *result, const int64_t *kernel) {
    const hd_conv_attributes *a = c->call->attributes;
    sizes s = {.axes = a->stride.rank,
               .batch = image->size[0],
               .groups = a->groups,
               .in = image->size[1] / a->groups,
               .out = result->size[1] / a->groups,
               .dtype = c->call->dtype[0]};
    for (int i = 0; i < s.axes; ++i) {
        s.image[i] = image->size[2 + i];
        s.result[i] = result->size[2 + i];
        s.kernel[i] = kernel[i];
        s.stride[i] = a->stride.size[i];
        s.dilation[i] = a->dilation.size[i];
        s.before[i] = a->padding.size[2 * i];
    }
    s.as = s.dtype == HD_F64 ? HD_F64 : HD_F32;
    s.type = hd_c_compute_type(s.as);
    return s;
}

static void open_loop(hd_net_call *c, const char *name, long long count) {
    hd_c_text_open(c->t, "for (int32_t %s = 0; %s < %lld; ++%s)", name, name, count, name);
}

/* name = ceil(value / by), for any value. */
static void say_up(hd_net_call *c, const char *name, const char *value, long long by) {
    if (by == 1)
        hd_c_text_line(c->t, "int32_t %s = %s;", name, value);
    else
        hd_c_text_line(c->t, "int32_t %s = (%s) > 0 ? ((%s) + %lld) / %lld : 0;", name, value, value, by - 1, by);
}

/* Those results along the last axis, from x0 on and `count` of them, whose element at tap kx is in the image: [lo, hi)
 * of x - x0. */
static void say_range(hd_net_call *c, const sizes *s, const char *count) {
    const int l = s->axes - 1;
    char value[128];
    snprintf(value, sizeof value, "%lld - kx * %lld", s->before[l], s->dilation[l]);
    say_up(c, "lo", value, s->stride[l]);
    snprintf(value, sizeof value, "%lld - kx * %lld", s->image[l] + s->before[l], s->dilation[l]);
    say_up(c, "hi", value, s->stride[l]);
    hd_c_text_line(c->t, "lo = lo > x ? lo - x : 0;");
    hd_c_text_line(c->t, "hi = hi - x < %s ? hi - x : %s;", count, count);
}

/* The image's place for a result and a tap on an outer axis; left out when it is beside the image. */
static void say_outer(hd_net_call *c, const sizes *s, int i, const char *at, const char *result, const char *tap) {
    hd_c_text_line(c->t, "const int32_t %s = %s * %lld - %lld + %s * %lld;", at, result, s->stride[i], s->before[i],
                   tap, s->dilation[i]);
    hd_c_text_line(c->t, "if (%s < 0 || %s >= %lld) continue;", at, at, s->image[i]);
}

static const char *const result_names[3] = {"z", "y", "x"}, *const tap_names[3] = {"kz", "ky", "kx"},
                         *const image_names[3] = {"iz", "iy", "ix"};
/* Names of the spatial axes: the last is x. */
static const char *of(const char *const *names, const sizes *s, int i) { return names[3 - s->axes + i]; }

static void spatial(const sizes *s, const char *const *names, const char *last, const char **index) {
    for (int i = 0; i < s->axes; ++i) index[2 + i] = i == s->axes - 1 ? last : of(names, s, i);
}

hd_error hd_c_conv(hd_net_call *c) {
    const hd_tensor *x = hd_c_in(c, 0), *weight = hd_c_in(c, 1), *y = hd_c_out(c, 0);
    const sizes s = describe(c, &x->layout.shape, &y->layout.shape, weight->layout.shape.size + 2);
    const int l = s.axes - 1;
    const char *index[5], *bias = "0";
    char strip[64], channel[64], place[64];
    int loops = 0;
    if (y->count == 0) return hd_c_empty(c);
    open_loop(c, "n", s.batch);
    open_loop(c, "o", s.out * s.groups);
    for (int i = 0; i < l; ++i) open_loop(c, of(result_names, &s, i), s.result[i]);
    const bool strips = s.result[l] > STRIP;
    if (strips)
        hd_c_text_open(c->t, "for (int32_t x = 0; x < %lld; x += %d)", s.result[l], STRIP);
    else
        hd_c_text_line(c->t, "const int32_t x = 0;");
    snprintf(strip, sizeof strip, strips ? "count" : "%lld", s.result[l]);
    if (strips)
        hd_c_text_line(c->t, "const int32_t count = %lld - x < %d ? %lld - x : %d;", s.result[l], STRIP, s.result[l],
                       STRIP);
    if (c->call->input_count > 2) bias = hd_c_value(c, "x2", hd_c_in(c, 2), (const char *[]){"o"});
    hd_c_text_line(c->t, "%s sum[%lld];", s.type, strips ? STRIP : s.result[l]);
    hd_c_text_line(c->t, "for (int32_t j = 0; j < %s; ++j) sum[j] = %s;", strip, bias);
    open_loop(c, "i", s.in);
    loops++;
    for (int i = 0; i < l; ++i, ++loops) {
        open_loop(c, of(tap_names, &s, i), s.kernel[i]);
        say_outer(c, &s, i, of(image_names, &s, i), of(result_names, &s, i), of(tap_names, &s, i));
    }
    open_loop(c, "kx", s.kernel[l]);
    say_range(c, &s, strip);
    index[0] = "o", index[1] = "i";
    spatial(&s, tap_names, "kx", index);
    hd_c_text_line(c->t, "const %s v = %s;", s.type, hd_c_value(c, "x1", weight, index));
    snprintf(channel, sizeof channel, s.groups == 1 ? "i" : "(o / %lld * %lld + i)", s.out, s.in);
    snprintf(place, sizeof place, "((x + j) * %lld - %lld + kx * %lld)", s.stride[l], s.before[l], s.dilation[l]);
    index[0] = "n", index[1] = channel;
    spatial(&s, image_names, place, index);
    hd_c_text_line(c->t, "for (int32_t j = lo; j < hi; ++j) sum[j] += v * %s;", hd_c_value(c, "x0", x, index));
    hd_c_close(c, loops + 1);
    index[0] = "n", index[1] = "o";
    spatial(&s, result_names, "(x + j)", index);
    hd_c_text_open(c->t, "for (int32_t j = 0; j < %s; ++j)", strip);
    hd_c_store(c, s.dtype, hd_c_at(c, "y0", y, index), "sum[j]");
    hd_c_close(c, 1 + strips + l + 2);
    return HD_OK;
}

/* The image of gradients is the result here: a row of it is summed up in memory to work in. */
hd_error hd_c_conv_transpose(hd_net_call *c) {
    const hd_tensor *x = hd_c_in(c, 0), *weight = hd_c_in(c, 1), *y = hd_c_out(c, 0);
    const sizes s = describe(c, &y->layout.shape, &x->layout.shape, weight->layout.shape.size + 2);
    const int l = s.axes - 1;
    const char *index[5], *bias = "0";
    char channel[64], place[96];
    int loops = 0;
    if (y->count == 0) return hd_c_empty(c);
    c->workspace = (size_t)s.image[l] * hd_dtype_bytes[s.as];
    hd_c_text_line(c->t, "%s *sum = (%s *)w;", s.type, s.type);
    open_loop(c, "n", s.batch);
    open_loop(c, "o", s.in * s.groups); /* channels of the result */
    for (int i = 0; i < l; ++i) open_loop(c, of(image_names, &s, i), s.image[i]);
    if (c->call->input_count > 2) bias = hd_c_value(c, "x2", hd_c_in(c, 2), (const char *[]){"o"});
    hd_c_text_line(c->t, "for (int32_t j = 0; j < %lld; ++j) sum[j] = %s;", s.image[l], bias);
    open_loop(c, "i", s.out);
    loops++;
    for (int i = 0; i < l; ++i, ++loops) {
        const char *at = of(result_names, &s, i);
        open_loop(c, of(tap_names, &s, i), s.kernel[i]);
        hd_c_text_line(c->t, "int32_t %s = %s + %lld - %s * %lld;", at, of(image_names, &s, i), s.before[i],
                       of(tap_names, &s, i), s.dilation[i]);
        if (s.stride[i] > 1)
            hd_c_text_line(c->t, "if (%s < 0 || %s %% %lld != 0) continue;", at, at, s.stride[i]);
        else
            hd_c_text_line(c->t, "if (%s < 0) continue;", at);
        if (s.stride[i] > 1) hd_c_text_line(c->t, "%s /= %lld;", at, s.stride[i]);
        hd_c_text_line(c->t, "if (%s >= %lld) continue;", at, s.result[i]);
    }
    open_loop(c, "kx", s.kernel[l]);
    hd_c_text_line(c->t, "const int32_t x = 0;");
    snprintf(place, sizeof place, "%lld", s.result[l]);
    say_range(c, &s, place);
    snprintf(channel, sizeof channel, s.groups == 1 ? "i" : "(o / %lld * %lld + i)", s.in, s.out);
    index[0] = channel;
    snprintf(place, sizeof place, s.groups == 1 ? "o" : "o %% %lld", s.in);
    char inside[96];
    snprintf(inside, sizeof inside, s.groups == 1 ? "o" : "(%s)", place);
    index[1] = inside;
    spatial(&s, tap_names, "kx", index);
    hd_c_text_line(c->t, "const %s v = %s;", s.type, hd_c_value(c, "x1", weight, index));
    index[0] = "n", index[1] = channel;
    spatial(&s, result_names, "j", index);
    hd_c_text_line(c->t, "for (int32_t j = lo; j < hi; ++j) sum[j * %lld - %lld + kx * %lld] += v * %s;", s.stride[l],
                   s.before[l], s.dilation[l], hd_c_value(c, "x0", x, index));
    hd_c_close(c, loops + 1);
    index[0] = "n", index[1] = "o";
    spatial(&s, image_names, "j", index);
    open_loop(c, "j", s.image[l]);
    hd_c_store(c, s.dtype, hd_c_at(c, "y0", y, index), "sum[j]");
    hd_c_close(c, 1 + l + 2);
    return HD_OK;
}

/* Inside how many spatial loops the sums of a tap are begun that go on in f64: each is a row of results, or more as
 * long as that is few elements, since small processors have no f64; -1: one sum is enough. */
static int parted_at(const sizes *s) {
    enum { FEW = 256 };
    int at = s->axes - 1;
    long long elements = s->result[at];
    while (at > 0 && elements * s->result[at - 1] <= FEW) elements *= s->result[--at];
    return at == 0 && elements * s->batch <= FEW ? -1 : at;
}

hd_error hd_c_conv_weight_gradient(hd_net_call *c) {
    const hd_tensor *x = hd_c_in(c, 0), *g = hd_c_in(c, 1), *y = hd_c_out(c, 0);
    const sizes s = describe(c, &x->layout.shape, &g->layout.shape, y->layout.shape.size + 2);
    const int l = s.axes - 1;
    const char *index[5];
    char channel[64], place[96], length[32];
    if (y->count == 0) return hd_c_empty(c);
    open_loop(c, "o", s.out * s.groups);
    open_loop(c, "i", s.in);
    for (int i = 0; i < s.axes; ++i) open_loop(c, of(tap_names, &s, i), s.kernel[i]);
    const int parted = parted_at(&s);
    if (parted >= 0) hd_c_text_line(c->t, "double total = 0;");
    if (parted < 0) hd_c_text_line(c->t, "%s part = 0;", s.type);
    hd_c_text_line(c->t, "const int32_t x = 0;");
    snprintf(length, sizeof length, "%lld", s.result[l]);
    say_range(c, &s, length);
    open_loop(c, "n", s.batch);
    for (int i = 0; i < l; ++i) {
        if (i == parted) hd_c_text_line(c->t, "%s part = 0;", s.type);
        open_loop(c, of(result_names, &s, i), s.result[i]);
        say_outer(c, &s, i, of(image_names, &s, i), of(result_names, &s, i), of(tap_names, &s, i));
    }
    if (parted == l) hd_c_text_line(c->t, "%s part = 0;", s.type);
    snprintf(channel, sizeof channel, s.groups == 1 ? "i" : "(o / %lld * %lld + i)", s.out, s.in);
    snprintf(place, sizeof place, "((x + j) * %lld - %lld + kx * %lld)", s.stride[l], s.before[l], s.dilation[l]);
    index[0] = "n", index[1] = channel;
    spatial(&s, image_names, place, index);
    const char *image = hd_c_value(c, "x0", x, index);
    index[1] = "o";
    spatial(&s, result_names, "j", index);
    hd_c_text_line(c->t, "for (int32_t j = lo; j < hi; ++j) part += %s * %s;", image, hd_c_value(c, "x1", g, index));
    hd_c_close(c, parted < 0 ? 1 + l : l - parted);
    if (parted >= 0) hd_c_text_line(c->t, "total += (double)part;");
    if (parted >= 0) hd_c_close(c, 1 + parted);
    index[0] = "o", index[1] = "i";
    spatial(&s, tap_names, "kx", index);
    snprintf(place, sizeof place, parted < 0 ? "part" : "(%s)total", s.type);
    hd_c_store(c, s.dtype, hd_c_at(c, "y0", y, index), place);
    hd_c_close(c, 2 + s.axes);
    return HD_OK;
}
