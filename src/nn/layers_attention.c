/* Multi-head attention of a sequence to itself. Its members are the linear modules "in" and "out". */
#include "core/random.h"
#include "nn/module.h"

typedef struct attention_state {
    hd_module *in, *out; /* held by the module as members */
    int64_t heads;
    bool causal;
} attention_state;

static hd_tensor *attention_forward(hd_module *m, hd_tensor *x) {
    const attention_state *s = m->state;
    hd_thread *thread = hd_thread_self();
    hd_tensor *all = hd_module_forward_as(thread, s->in, "in", x); /* [..., t, 3 width] */
    if (all == NULL) return NULL;
    const int rank = x->layout.shape.rank;
    if (rank < 2 || rank >= HD_MAX_RANK - 1) {
        hd_fail(HD_ERROR_SHAPE, "x %s; it must be [..., t, width] with 2 to %d axes", HD_SHAPE_TEXT(x->layout.shape),
                HD_MAX_RANK - 2);
        return NULL;
    }
    hd_shape shape = x->layout.shape, split = {.rank = rank + 2};
    const int64_t width = shape.size[rank - 1];
    for (int i = 0; i < rank - 1; ++i) split.size[i] = shape.size[i];
    split.size[rank - 1] = 3;
    split.size[rank] = s->heads;
    split.size[rank + 1] = width / s->heads;
    hd_tensor *part[3], *parts = hd_reshape(all, split); /* [..., t, 3, heads, width / heads] */
    for (int i = 0; i < 3; ++i) part[i] = hd_transpose(hd_select(parts, rank - 1, i), rank - 2, rank - 1);
    hd_tensor *y = hd_attention(part[0], part[1], part[2], NULL, s->causal, 0); /* [..., heads, t, width / heads] */
    y = hd_reshape(hd_transpose(y, rank - 2, rank - 1), shape);
    return y == NULL ? NULL : hd_module_forward_as(thread, s->out, "out", y);
}
static void *attention_copy(hd_module *to, const hd_module *from) {
    attention_state *s = hd_module_copy_state(to, from);
    if (s == NULL) return NULL;
    s->in = hd_module_child(to, "in");
    s->out = hd_module_child(to, "out");
    return s;
}
static const hd_module_class attention_class = {
    .name = "multihead_attention", .forward = attention_forward, .destroy = hd_array_release, .copy = attention_copy};

hd_module *hd_multihead_attention(int64_t width, int64_t heads, const hd_multihead_attention_opts *opts) {
    HD_ENTER("hd_multihead_attention", NULL);
    HD_READ_OPTS(hd_multihead_attention_opts, opts, NULL);
    if (width < 1 || heads < 1 || width % heads != 0 || width > INT64_MAX / 3) {
        hd_fail(HD_ERROR_VALUE, "width = %lld, heads = %lld; both are at least 1, and heads divide the width",
                (long long)width, (long long)heads);
        return NULL;
    }
    HD_KEEP_NAME(thread);
    hd_scope_token scope = hd_scope_within(thread, &scope); /* the module holds what it needs */
    const hd_draws before = hd_generator_now(thread);
    attention_state state = {.heads = heads, .causal = options.causal};
    const hd_linear_opts *linear = HD_OPTS(hd_linear_opts, .no_bias = options.no_bias, .dtype = options.dtype);
    state.in = hd_linear(width, 3 * width, linear);
    state.out = hd_linear(width, width, linear);
    hd_module *m = hd_module_with(&attention_class, &state, sizeof state);
    hd_module_add(m, "in", state.in);
    hd_module_add(m, "out", state.out);
    if (thread->error_code == HD_OK) hd_keep_object(m);
    hd_scope_close(thread, &scope);
    if (thread->error_code == HD_OK) return m;
    hd_generator_give_back(thread, &before);
    return NULL;
}
