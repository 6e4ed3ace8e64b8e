/* Attention and its gradient in C: one row of queries after the other, whose weights are in memory to work in. */
#include "export/net.h"

#include <stdio.h>
#include <string.h>

typedef struct attention {
    int front; /* axes in front */
    long long t, s, d, e;
    const hd_tensor *q, *k, *v, *mask;
    const char *names[4]; /* of them */
    hd_dtype dtype, as;
    const char *type, *f; /* "float", "f32" */
    bool causal;
    double scale;
    hd_c_names axes;
    const char *index[HD_MAX_RANK];
} attention;

static attention describe(const hd_net_call *c, int first, bool has_mask, bool causal, double scale) {
    static const char *const inputs[] = {"x0", "x1", "x2", "x3", "x4", "x5"};
    attention a = {.q = hd_c_in(c, first),
                   .k = hd_c_in(c, first + 1),
                   .v = hd_c_in(c, first + 2),
                   .causal = causal,
                   .scale = scale,
                   .dtype = c->call->dtype[0]};
    if (has_mask) a.mask = hd_c_in(c, first + 3);
    for (int i = 0; i < 4; ++i) a.names[i] = first + i < 6 ? inputs[first + i] : "";
    const hd_shape *q = &a.q->layout.shape, *k = &a.k->layout.shape;
    a.front = q->rank - 2;
    a.t = q->size[q->rank - 2], a.d = q->size[q->rank - 1], a.s = k->size[q->rank - 2];
    a.e = a.v->layout.shape.size[q->rank - 1];
    a.as = a.dtype == HD_F64 ? HD_F64 : HD_F32;
    a.type = hd_c_compute_type(a.as);
    a.f = a.as == HD_F64 ? "f64" : "f32";
    return a;
}

static const char *element(hd_net_call *c, attention *a, const char *name, const hd_tensor *t, const char *row,
                           const char *column) {
    a->index[a->front] = row;
    a->index[a->front + 1] = column;
    return hd_c_value(c, name, t, a->index);
}

static const char *seen(const attention *a, char *out, size_t capacity) { /* how many keys row i sees */
    if (!a->causal)
        snprintf(out, capacity, "%lld", a->s);
    else
        snprintf(out, capacity, "seen");
    return out;
}

/* The mask's axes are the last ones of the scores. */
static const char *mask_at(hd_net_call *c, attention *a) {
    a->index[a->front] = "i";
    a->index[a->front + 1] = "j";
    return hd_c_value(c, a->names[3], a->mask, a->index + a->front + 2 - a->mask->layout.shape.rank);
}

/* weights[j] of row i: e^(score - top), with `top` and `sum` of them. */
static hd_error say_weights(hd_net_call *c, attention *a) {
    char keys[32];
    seen(a, keys, sizeof keys);
    HD_TRY(hd_c_use(c, HD_WORD_EXP, a->as));
    if (a->causal) hd_c_text_line(c->t, "const int32_t seen = i + 1 < %lld ? i + 1 : %lld;", a->s, a->s);
    hd_c_text_line(c->t, "%s top = -(%s)INFINITY, sum = 0;", a->type, a->type);
    hd_c_text_open(c->t, "for (int32_t j = 0; j < %s; ++j)", keys);
    hd_c_text_line(c->t, "%s score = 0;", a->type);
    const char *q = element(c, a, a->names[0], a->q, "i", "k"), *k = element(c, a, a->names[1], a->k, "j", "k");
    hd_c_text_line(c->t, "for (int32_t k = 0; k < %lld; ++k) score += %s * %s;", a->d, q, k);
    hd_c_text_line(c->t, "score *= (%s)%.17g;", a->type, a->scale);
    if (a->mask != NULL && a->mask->dtype == HD_BOOL)
        hd_c_text_line(c->t, "if (!%s) score = -(%s)INFINITY;", mask_at(c, a), a->type);
    else if (a->mask != NULL)
        hd_c_text_line(c->t, "score += (%s)%s;", a->type, mask_at(c, a));
    hd_c_text_line(c->t, "weights[j] = score;");
    hd_c_text_line(c->t, "top = score > top || score != score ? score : top;");
    hd_c_text_close(c->t);
    hd_c_text_open(c->t, "for (int32_t j = 0; j < %s; ++j)", keys);
    hd_c_text_line(c->t, "weights[j] = w_exp_%s(weights[j] - (top == -(%s)INFINITY ? 0 : top));", a->f, a->type);
    hd_c_text_line(c->t, "sum += weights[j];");
    hd_c_text_close(c->t);
    return HD_OK;
}

hd_error hd_c_attention(hd_net_call *c) {
    const hd_attention_attributes *attributes = c->call->attributes;
    attention a = describe(c, 0, c->call->input_count > 3, attributes->causal, attributes->scale);
    const hd_tensor *y = hd_c_out(c, 0), *statistics = c->call->output_count > 1 ? c->call->outputs[1] : NULL;
    char keys[32];
    if (a.t == 0 || hd_shape_count(a.q->layout.shape) == 0) {
        if (y->count > 0) hd_c_text_line(c->t, "for (int32_t i = 0; i < %lld; ++i) y0[i] = 0;", (long long)y->count);
    }
    c->workspace = (size_t)(a.s > 0 ? a.s : 1) * hd_dtype_bytes[a.as];
    hd_c_text_line(c->t, "%s *weights = (%s *)w;", a.type, a.type);
    const int loops = hd_c_open_axes(c, &a.q->layout.shape, 0, a.front, -1, 'h', a.axes, a.index);
    hd_c_text_open(c->t, "for (int32_t i = 0; i < %lld; ++i)", a.t);
    HD_TRY(say_weights(c, &a));
    hd_c_text_line(c->t, "const %s share = sum == 0 ? 0 : 1 / sum;", a.type);
    hd_c_text_open(c->t, "for (int32_t k = 0; k < %lld; ++k)", a.e);
    hd_c_text_line(c->t, "%s result = 0;", a.type);
    hd_c_text_line(c->t, "for (int32_t j = 0; j < %s; ++j) result += weights[j] * %s;", seen(&a, keys, sizeof keys),
                   element(c, &a, a.names[2], a.v, "j", "k"));
    a.index[a.front] = "i", a.index[a.front + 1] = "k";
    hd_c_store(c, a.dtype, hd_c_at(c, "y0", y, a.index), "result * share");
    hd_c_text_close(c->t);
    if (statistics != NULL) {
        a.index[a.front + 1] = "0";
        hd_c_text_line(c->t, "%s = top;", hd_c_at(c, "y1", statistics, a.index));
        a.index[a.front + 1] = "1";
        hd_c_text_line(c->t, "%s = share;", hd_c_at(c, "y1", statistics, a.index));
    }
    hd_c_text_close(c->t);
    hd_c_close(c, loops);
    return HD_OK;
}

/* Gradients of q, k and v, one behind the other. With p the weights and g the gradient: dv += p^T g, ds = p (g v^T -
 * the row's sum of p g v^T) scale, dq = ds k, dk += ds^T q. */
hd_error hd_c_attention_gradient(hd_net_call *c) {
    const hd_attention_gradient_attributes *attributes = c->call->attributes;
    const int rest = c->call->input_count - 4 - attributes->statistics;
    attention a = describe(c, 1, rest > 0, attributes->causal, attributes->scale);
    const hd_tensor *g = hd_c_in(c, 0), *y = hd_c_out(c, 0);
    const bool small = hd_dtype_is_small_float(a.dtype);
    const long long all = y->count;
    long long head = 1;
    char keys[32];
    if (all == 0) return hd_c_empty(c);
    for (int i = 0; i < a.front; ++i) head *= a.q->layout.shape.size[i];
    c->workspace = (size_t)(2 * a.s + (small ? all : 0) + 2) * hd_dtype_bytes[a.as];
    hd_c_text_line(c->t, "%s *weights = (%s *)w, *slopes = weights + %lld;", a.type, a.type, a.s);
    hd_c_text_line(c->t, small ? "%s *dq = slopes + %lld;" : "%s *dq = y0;", a.type, a.s);
    hd_c_text_line(c->t, "%s *dk = dq + %lld, *dv = dk + %lld;", a.type, head * a.t * a.d, head * a.s * a.d);
    hd_c_text_line(c->t, "for (int32_t i = 0; i < %lld; ++i) dq[i] = 0;", all);
    const int loops = hd_c_open_axes(c, &a.q->layout.shape, 0, a.front, -1, 'h', a.axes, a.index);
    hd_c_text_open(c->t, "for (int32_t i = 0; i < %lld; ++i)", a.t);
    HD_TRY(say_weights(c, &a));
    seen(&a, keys, sizeof keys);
    hd_c_text_line(c->t, "const %s share = sum == 0 ? 0 : 1 / sum;", a.type);
    hd_c_text_line(c->t, "%s mean = 0;", a.type);
    hd_c_text_open(c->t, "for (int32_t j = 0; j < %s; ++j)", keys);
    hd_c_text_line(c->t, "%s slope = 0;", a.type);
    hd_c_text_line(c->t, "weights[j] *= share;");
    hd_c_text_open(c->t, "for (int32_t k = 0; k < %lld; ++k)", a.e);
    hd_c_text_line(c->t, "const %s gradient = %s;", a.type, element(c, &a, "x0", g, "i", "k"));
    hd_c_text_line(c->t, "slope += gradient * %s;", element(c, &a, a.names[2], a.v, "j", "k"));
    hd_c_text_line(c->t, "dv[j * %lld + k] += weights[j] * gradient;", a.e);
    hd_c_text_close(c->t);
    hd_c_text_line(c->t, "slopes[j] = slope;");
    hd_c_text_line(c->t, "mean += weights[j] * slope;");
    hd_c_text_close(c->t);
    hd_c_text_open(c->t, "for (int32_t j = 0; j < %s; ++j)", keys);
    hd_c_text_line(c->t, "const %s ds = weights[j] * (slopes[j] - mean) * (%s)%.17g;", a.type, a.type, a.scale);
    hd_c_text_open(c->t, "for (int32_t k = 0; k < %lld; ++k)", a.d);
    hd_c_text_line(c->t, "dq[i * %lld + k] += ds * %s;", a.d, element(c, &a, a.names[1], a.k, "j", "k"));
    hd_c_text_line(c->t, "dk[j * %lld + k] += ds * %s;", a.d, element(c, &a, a.names[0], a.q, "i", "k"));
    hd_c_text_close(c->t);
    hd_c_text_close(c->t);
    hd_c_text_close(c->t);
    hd_c_text_line(c->t, "dq += %lld;", a.t * a.d);
    hd_c_text_line(c->t, "dk += %lld;", a.s * a.d);
    hd_c_text_line(c->t, "dv += %lld;", a.s * a.e);
    hd_c_close(c, loops);
    if (small) {
        hd_c_text_line(c->t, "const float *sums = (const float *)w + %lld;", 2 * a.s);
        hd_c_text_open(c->t, "for (int32_t i = 0; i < %lld; ++i)", all);
        hd_c_store(c, a.dtype, "y0[i]", "sums[i]");
        hd_c_text_close(c->t);
    }
    return HD_OK;
}
