/* Pooling in C: each result looks at its window. Gradients go from each window to the elements that it saw, in
 * order. */
#include "export/net.h"

#include <stdio.h>
#include <string.h>

typedef struct pool {
    const hd_pool_attributes *a;
    int axes, outer; /* spatial axes, and those in front */
    const hd_shape *image, *result;
    hd_c_names names, places;
    const char *index[HD_MAX_RANK], *inside[HD_MAX_RANK]; /* of the result where the loops are, and of the image */
} pool;

static pool describe(const hd_net_call *c, const hd_shape *image, const hd_shape *result) {
    pool p = {.a = c->call->attributes, .image = image, .result = result};
    p.axes = p.a->window.rank;
    p.outer = image->rank - p.axes;
    return p;
}

/* The window of a result on each spatial axis: begin<i>, end<i>, and of means whole<i>. Gives loops over results. */
static int open_results(hd_net_call *c, pool *p, bool counts) {
    const int loops = hd_c_open_axes(c, p->result, 0, p->result->rank, -1, 'i', p->names, p->index);
    for (int i = 0; i < p->axes; ++i) {
        const int axis = p->outer + i;
        const long long image = p->image->size[axis], result = p->result->size[axis];
        const char *at = p->index[axis];
        if (p->a->adaptive) {
            hd_c_text_line(c->t, "const int32_t begin%d = %s * %lld + %s * %lld / %lld;", i, at, image / result, at,
                           image % result, result);
            hd_c_text_line(c->t, "const int32_t end%d = (%s + 1) * %lld + ((%s + 1) * %lld + %lld) / %lld;", i, at,
                           image / result, at, image % result, result - 1, result);
            if (counts) hd_c_text_line(c->t, "const int32_t whole%d = end%d - begin%d;", i, i, i);
            continue;
        }
        const long long d = p->a->dilation.size[i], before = p->a->padding.size[2 * i],
                        after = p->a->padding.size[2 * i + 1], reach = d * (p->a->window.size[i] - 1) + 1;
        hd_c_text_line(c->t, "const int32_t start%d = %s * %lld - %lld, stop%d = start%d + %lld;", i, at,
                       (long long)p->a->stride.size[i], before, i, i, reach);
        hd_c_text_line(c->t,
                       "const int32_t begin%d = start%d >= 0 ? start%d : start%d + (%lld - start%d) / %lld * %lld;", i,
                       i, i, i, d - 1, i, d, d);
        hd_c_text_line(c->t, "const int32_t end%d = stop%d < %lld ? stop%d : %lld;", i, i, image, i, image);
        if (counts && !p->a->exclude_padding)
            hd_c_text_line(c->t, "const int32_t whole%d = (stop%d < %lld ? stop%d : %lld) - start%d;", i, i,
                           image + after, i, image + after, i);
        else if (counts)
            hd_c_text_line(c->t, "const int32_t whole%d = end%d - begin%d;", i, i, i);
    }
    return loops;
}

/* Loops over what a window sees. */
static int open_window(hd_net_call *c, pool *p) {
    for (int i = 0; i < p->image->rank; ++i) {
        p->inside[i] = p->index[i];
        if (i < p->outer) continue;
        snprintf(p->places[i], sizeof p->places[i], "p%d", i - p->outer);
        p->inside[i] = p->places[i];
        hd_c_text_open(c->t, "for (int32_t %s = begin%d; %s < end%d; %s += %lld)", p->places[i], i - p->outer,
                       p->places[i], i - p->outer, p->places[i],
                       p->a->adaptive ? 1LL : (long long)p->a->dilation.size[i - p->outer]);
    }
    return p->axes;
}

/* The largest that the window sees: the first of equals, the last NaN. With `where` its place: place0, place1, ... */
static void say_largest(hd_net_call *c, pool *p, const char *name, const hd_tensor *x, bool where) {
    const char *type = hd_c_compute_type((hd_dtype)x->dtype);
    hd_c_text_line(c->t, "%s best = -(%s)INFINITY;", type, type);
    hd_c_text_line(c->t, "int found = 0;");
    for (int i = 0; where && i < p->axes; ++i) hd_c_text_line(c->t, "int32_t place%d = 0;", i);
    const int loops = open_window(c, p);
    hd_c_text_line(c->t, "const %s v = %s;", type, hd_c_value(c, name, x, p->inside));
    hd_c_text_open(c->t, "if (v > best || v != v || !found)");
    hd_c_text_line(c->t, "best = v;");
    hd_c_text_line(c->t, "found = 1;");
    for (int i = 0; where && i < p->axes; ++i) hd_c_text_line(c->t, "place%d = p%d;", i, i);
    hd_c_text_close(c->t);
    hd_c_close(c, loops);
}
static void at_places(pool *p) {
    for (int i = 0; i < p->axes; ++i) {
        snprintf(p->places[p->outer + i], sizeof p->places[0], "place%u", (unsigned)i % 10);
        p->inside[p->outer + i] = p->places[p->outer + i];
    }
}

/* whole0 * whole1, as a number. */
static void say_divisor(const pool *p, const char *type, char *out, size_t capacity) {
    size_t n = (size_t)snprintf(out, capacity, "(%s)(", type);
    for (int i = 0; i < p->axes; ++i) n += (size_t)snprintf(out + n, capacity - n, "%swhole%d", i > 0 ? " * " : "", i);
    snprintf(out + n, capacity - n, ")");
}

hd_error hd_c_max_pool(hd_net_call *c) {
    const hd_tensor *x = hd_c_in(c, 0), *y = hd_c_out(c, 0);
    pool p = describe(c, &x->layout.shape, &y->layout.shape);
    const int loops = open_results(c, &p, false);
    say_largest(c, &p, "x0", x, false);
    hd_c_store(c, (hd_dtype)y->dtype, hd_c_at(c, "y0", y, p.index), "best");
    hd_c_close(c, loops);
    return HD_OK;
}

hd_error hd_c_avg_pool(hd_net_call *c) {
    const hd_tensor *x = hd_c_in(c, 0), *y = hd_c_out(c, 0);
    const char *type = hd_c_compute_type((hd_dtype)y->dtype);
    pool p = describe(c, &x->layout.shape, &y->layout.shape);
    char divisor[128], value[200];
    const int loops = open_results(c, &p, true);
    hd_c_text_line(c->t, "double sum = 0;");
    const int inner = open_window(c, &p);
    hd_c_text_line(c->t, "sum += (double)%s;", hd_c_value(c, "x0", x, p.inside));
    hd_c_close(c, inner);
    say_divisor(&p, "double", divisor, sizeof divisor);
    snprintf(value, sizeof value, "(%s)(sum / %s)", type, divisor);
    hd_c_store(c, (hd_dtype)y->dtype, hd_c_at(c, "y0", y, p.index), value);
    hd_c_close(c, loops);
    return HD_OK;
}

hd_error hd_c_max_pool_pick(hd_net_call *c) {
    const hd_tensor *values = hd_c_in(c, 0), *x = hd_c_in(c, 1), *y = hd_c_out(c, 0);
    pool p = describe(c, &x->layout.shape, &y->layout.shape);
    char value[300];
    const int loops = open_results(c, &p, false);
    say_largest(c, &p, "x1", x, true);
    at_places(&p);
    snprintf(value, sizeof value, "found ? %s : 0", hd_c_value(c, "x0", values, p.inside));
    hd_c_store(c, (hd_dtype)y->dtype, hd_c_at(c, "y0", y, p.index), value);
    hd_c_close(c, loops);
    return HD_OK;
}

/* Sums of small floats are made in f32, in memory to work in. `name`: where sums are. */
static hd_tensor begin_sums(hd_net_call *c, const char **name) {
    hd_tensor sums = *hd_c_out(c, 0);
    const bool small = hd_dtype_is_small_float((hd_dtype)sums.dtype);
    *name = small ? "sums" : "y0";
    if (small) {
        sums.dtype = HD_F32;
        c->workspace = (size_t)sums.count * sizeof(float);
        hd_c_text_line(c->t, "float *sums = (float *)w;");
    }
    hd_c_text_line(c->t, "for (int32_t i = 0; i < %lld; ++i) %s[i] = 0;", (long long)sums.count, *name);
    return sums;
}
static void end_sums(hd_net_call *c) {
    const hd_tensor *y = hd_c_out(c, 0);
    if (!hd_dtype_is_small_float((hd_dtype)y->dtype)) return;
    hd_c_text_open(c->t, "for (int32_t i = 0; i < %lld; ++i)", (long long)y->count);
    hd_c_store(c, (hd_dtype)y->dtype, "y0[i]", "sums[i]");
    hd_c_text_close(c->t);
}

hd_error hd_c_max_pool_gradient(hd_net_call *c) {
    const hd_tensor *g = hd_c_in(c, 0), *x = hd_c_in(c, 1);
    pool p = describe(c, &x->layout.shape, &g->layout.shape);
    const char *name;
    const hd_tensor sums = begin_sums(c, &name);
    const int loops = open_results(c, &p, false);
    say_largest(c, &p, "x1", x, true);
    at_places(&p);
    hd_c_text_line(c->t, "if (found) %s += %s;", hd_c_at(c, name, &sums, p.inside), hd_c_value(c, "x0", g, p.index));
    hd_c_close(c, loops);
    end_sums(c);
    return HD_OK;
}

hd_error hd_c_avg_pool_gradient(hd_net_call *c) {
    const hd_tensor *g = hd_c_in(c, 0), *y = hd_c_out(c, 0);
    const char *type = hd_c_compute_type((hd_dtype)y->dtype), *name;
    pool p = describe(c, &y->layout.shape, &g->layout.shape);
    char divisor[128];
    const hd_tensor sums = begin_sums(c, &name);
    const int loops = open_results(c, &p, true);
    say_divisor(&p, type, divisor, sizeof divisor);
    hd_c_text_line(c->t, "const %s share = %s / %s;", type, hd_c_value(c, "x0", g, p.index), divisor);
    const int inner = open_window(c, &p);
    hd_c_text_line(c->t, "%s += share;", hd_c_at(c, name, &sums, p.inside));
    hd_c_close(c, inner + loops);
    end_sums(c);
    return HD_OK;
}
