/* Matrix products in C. A weight that never changes is laid out in panels of columns when the text is written, and met
 * by some rows at a time in vectors, where a compiler has them; all else are loops over a few columns at a time. */
#include "export/net.h"

#include <stdio.h>
#include <string.h>

typedef struct product {
    int front; /* axes of the batch */
    long long m, n, k;
    hd_tensor a, b,
        y; /* as matrices: a [.., m, k], b [.., k, n]; axes of the batch with strides of 0 where they lack */
    const hd_tensor *bias;
    hd_dtype dtype;
    const char *type; /* of sums */
} product;

/* Turns the last two axes round. */
static void turn(hd_tensor *t) {
    hd_layout *l = &t->layout;
    const int i = l->shape.rank - 2;
    const int64_t size = l->shape.size[i], stride = l->stride[i];
    l->shape.size[i] = l->shape.size[i + 1], l->stride[i] = l->stride[i + 1];
    l->shape.size[i + 1] = size, l->stride[i + 1] = stride;
}

/* A vector as a matrix of one row. */
static void make_row(hd_tensor *t) {
    hd_layout *l = &t->layout;
    if (l->shape.rank != 1) return;
    l->shape.rank = 2;
    l->shape.size[1] = l->shape.size[0], l->stride[1] = l->stride[0];
    l->shape.size[0] = 1, l->stride[0] = 0;
}

/* With the axes of `to` in front, stretched. */
static hd_tensor stretched(const hd_tensor *t, int rank) {
    hd_tensor out = *t;
    const int missing = rank - t->layout.shape.rank;
    for (int i = 0; i < rank; ++i) {
        const bool lacks = i < missing;
        const int64_t size = lacks ? 1 : t->layout.shape.size[i - missing];
        out.layout.shape.size[i] = size;
        out.layout.stride[i] = lacks || (size == 1 && i < rank - 2) ? 0 : t->layout.stride[i - missing];
    }
    out.layout.shape.rank = (uint8_t)rank;
    return out;
}

static const char *sum_type(hd_dtype dtype) {
    if (dtype == HD_F64) return "double";
    if (hd_dtype_is_float(dtype)) return "float";
    return hd_dtype_bytes[dtype] == 8 ? "uint64_t" : "uint32_t"; /* which wrap */
}

static product describe(const hd_net_call *c, bool affine) {
    product p = {.y = *hd_c_out(c, 0), .dtype = c->call->dtype[0], .bias = NULL};
    hd_tensor a = *hd_c_in(c, 0), b = *hd_c_in(c, 1);
    const hd_matmul_attributes *attributes = c->call->attributes;
    if (affine) {
        turn(&b);
        make_row(&a);
        make_row(&p.y);
        if (c->call->input_count > 2) p.bias = hd_c_in(c, 2);
    } else if (attributes != NULL) {
        if (attributes->transpose_a) turn(&a);
        if (attributes->transpose_b) turn(&b);
    }
    const int rank = p.y.layout.shape.rank;
    p.front = rank - 2;
    p.a = stretched(&a, rank);
    p.b = stretched(&b, rank);
    p.m = p.y.layout.shape.size[rank - 2], p.n = p.y.layout.shape.size[rank - 1];
    p.k = p.a.layout.shape.size[rank - 1];
    p.type = sum_type(p.dtype);
    return p;
}

/* Of a batch without strides of its own, and rows that follow each other: more rows of one matrix. */
static void join_rows(product *p) {
    while (p->front > 0) {
        hd_layout *a = &p->a.layout, *b = &p->b.layout, *y = &p->y.layout;
        const int f = p->front - 1;
        const int64_t size = y->shape.size[f];
        if (b->stride[f] != 0 || a->stride[f] != a->stride[f + 1] * p->m || y->stride[f] != y->stride[f + 1] * p->m ||
            a->shape.size[f] != size)
            return;
        p->m *= size;
        y->shape.size[f] = p->m;
        a->shape.size[f] = p->m;
        for (int i = f; i < p->front + 1; ++i) { /* the axis of the batch is that of rows now */
            const bool rows = i == f;
            y->stride[i] = y->stride[i + 1], a->stride[i] = a->stride[i + 1], b->stride[i] = b->stride[i + 1];
            if (!rows) y->shape.size[i] = y->shape.size[i + 1], a->shape.size[i] = a->shape.size[i + 1];
            b->shape.size[i] = b->shape.size[i + 1];
        }
        y->shape.rank--, a->shape.rank--, b->shape.rank--;
        p->front--;
    }
}

/* The element of b in column j + c, and that of the bias. */
static void column_of(hd_net_call *c, product *p, const char **index, int which, char right[256], char bias[256]) {
    char column[32];
    snprintf(column, sizeof column, which == 0 ? "j" : "(j + %d)", which);
    index[p->front] = "k", index[p->front + 1] = column;
    snprintf(right, 256, "%s", hd_c_value(c, "x1", &p->b, index));
    snprintf(bias, 256, "%s", p->bias == NULL ? "0" : hd_c_value(c, "x2", p->bias, (const char *[]){column}));
}

/* Sums of `columns` columns from j on, of row i: each a variable of its own, which stays in a register. */
static void say_columns(hd_net_call *c, product *p, const char **index, int columns) {
    char right[256], bias[256], value[64], column[32];
    hd_c_text *t = c->t;
    for (int k = 0; k < columns; ++k) {
        column_of(c, p, index, k, right, bias);
        hd_c_text_line(t, "%s sum%d = %s;", p->type, k, bias);
    }
    hd_c_text_open(t, "for (int32_t k = 0; k < %lld; ++k)", p->k);
    index[p->front] = "i", index[p->front + 1] = "k";
    hd_c_text_line(t, "const %s a = (%s)%s;", p->type, p->type, hd_c_value(c, "x0", &p->a, index));
    for (int k = 0; k < columns; ++k) {
        column_of(c, p, index, k, right, bias);
        hd_c_text_line(t, "sum%d += a * (%s)%s;", k, p->type, right);
    }
    hd_c_text_close(t);
    for (int k = 0; k < columns; ++k) {
        snprintf(column, sizeof column, k == 0 ? "j" : "(j + %d)", k);
        index[p->front] = "i", index[p->front + 1] = column;
        if (hd_dtype_is_float(p->dtype))
            snprintf(value, sizeof value, "sum%d", k);
        else
            snprintf(value, sizeof value, "(%s)sum%d", hd_c_type(p->dtype), k);
        hd_c_store(c, p->dtype, hd_c_at(c, "y0", &p->y, index), value);
    }
}

/* ---- panels ------------------------------------------------------------------------------------------------------ */
enum { PANEL = 16, AT_ONCE = 4 };

/* A weight of f32 that no run changes, of one matrix. */
static const float *steady_weight(hd_net_call *c, const product *p) {
    if (c->net->is_small || p->dtype != HD_F32 || p->front > 0 || p->a.dtype != HD_F32 || p->b.dtype != HD_F32 ||
        p->n < PANEL)
        return NULL;
    return hd_net_steady(c->net, c->inputs[1]);
}

static void say_panels(hd_net_call *c, const product *p, const float *weight) {
    hd_c_text *t = &c->net->constants;
    const long long panels = (p->n + PANEL - 1) / PANEL;
    const int64_t k_stride = p->b.layout.stride[p->front], n_stride = p->b.layout.stride[p->front + 1];
    snprintf(c->packed, sizeof c->packed, "%s_p%u", c->net->prefix, c->net->panel_count++);
    weight += p->b.layout.offset;
    hd_c_text_say(t, "static const float %s[%lld] = { /* panels of %d columns */", c->packed, panels * PANEL * p->k,
                  PANEL);
    for (long long j = 0; j < panels; ++j)
        for (long long k = 0; k < p->k; ++k) {
            hd_c_text_say(t, "\n    ");
            for (long long i = j * PANEL; i < (j + 1) * PANEL; ++i) {
                const float v = i < p->n ? weight[k * k_stride + i * n_stride] : 0;
                hd_say_element_of(t, HD_F32, &v);
                hd_c_text_say(t, i + 1 < (j + 1) * PANEL ? ", " : ",");
            }
        }
    hd_c_text_say(t, "};\n");
}

/* What follows the sums of some rows from i on. */
static void say_stores(hd_net_call *c, const product *p, const char *rows) {
    char value[320], place[128];
    const bool ragged = p->n % PANEL != 0;
    hd_c_text_open(c->t, "for (int32_t r = 0; r < %s; ++r)", rows);
    if (ragged) hd_c_text_line(c->t, "const int32_t count = %lld - j < %d ? %lld - j : %d;", p->n, PANEL, p->n, PANEL);
    hd_c_text_open(c->t, ragged ? "for (int32_t c = 0; c < count; ++c)" : "for (int32_t c = 0; c < %d; ++c)", PANEL);
    const char *index[] = {"(i + r)", "(j + c)"};
    snprintf(place, sizeof place, "%s", hd_c_at(c, "y0", &p->y, index));
    snprintf(value, sizeof value, "sum[r * %d + c]%s%s", PANEL, p->bias != NULL ? " + " : "",
             p->bias != NULL ? hd_c_value(c, "x2", p->bias, index + 1) : "");
    hd_c_text_line(c->t, "%s = %s;", place, value);
    hd_c_text_close(c->t);
    hd_c_text_close(c->t);
}

static void say_in_panels(hd_net_call *c, const product *p) {
    const long long row = (long long)p->a.layout.stride[0], column = (long long)p->a.layout.stride[1];
    c->net->has_panels = true;
    hd_c_text_line(c->t, "float sum[W_ROWS * %d];", PANEL);
    hd_c_text_open(c->t, "for (int32_t j = 0; j < %lld; j += %d)", p->n, PANEL);
    hd_c_text_line(c->t, "const float *panel = x1 + j * %lld;", p->k);
    hd_c_text_line(c->t, "int32_t i = 0;");
    hd_c_text_open(c->t, "for (; i + W_ROWS <= %lld; i += W_ROWS)", p->m);
    hd_c_text_line(c->t, "w_panel(x0 + i * %lld, %lld, %lld, panel, %lld, sum);", row, row, column, p->k);
    say_stores(c, p, "W_ROWS");
    hd_c_text_close(c->t);
    hd_c_text_open(c->t, "for (; i < %lld; ++i)", p->m);
    hd_c_text_line(c->t, "w_panel_of_row(x0 + i * %lld, %lld, panel, %lld, sum);", row, column, p->k);
    say_stores(c, p, "1");
    hd_c_text_close(c->t);
    hd_c_text_close(c->t);
}

static hd_error say_product(hd_net_call *c, product *p) {
    hd_c_names names;
    const char *index[HD_MAX_RANK] = {"0"};
    if (p->y.count == 0) return hd_c_empty(c);
    join_rows(p);
    const float *weight = steady_weight(c, p);
    if (weight == NULL) HD_TRY(c->net->thread->error_code);
    if (weight != NULL) {
        say_panels(c, p, weight);
        say_in_panels(c, p);
        return HD_OK;
    }
    const int columns = p->n < AT_ONCE ? 1 : AT_ONCE;
    const long long whole = p->n / columns * columns;
    const int loops = hd_c_open_axes(c, &p->y.layout.shape, 0, p->front, -1, 'b', names, index);
    hd_c_text_open(c->t, "for (int32_t i = 0; i < %lld; ++i)", p->m);
    hd_c_text_open(c->t, columns == 1 ? "for (int32_t j = 0; j < %lld; ++j)" : "for (int32_t j = 0; j < %lld; j += %d)",
                   whole, columns);
    say_columns(c, p, index, columns);
    hd_c_text_close(c->t);
    if (whole < p->n) {
        hd_c_text_open(c->t, "for (int32_t j = %lld; j < %lld; ++j)", whole, p->n);
        say_columns(c, p, index, 1);
        hd_c_text_close(c->t);
    }
    hd_c_text_close(c->t);
    hd_c_close(c, loops);
    return HD_OK;
}

hd_error hd_c_matmul(hd_net_call *c) {
    product p = describe(c, false);
    return say_product(c, &p);
}
hd_error hd_c_affine(hd_net_call *c) {
    product p = describe(c, true);
    return say_product(c, &p);
}
