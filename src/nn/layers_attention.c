/* Multi-head attention: of a sequence to itself or to another; and a step of it, with what was seen in caches. */
#include "nn/attention.h"
#include "ops/op.h"

#include <hodu/grad.h>

/* ---- forward ----------------------------------------------------------------------------------------------------- */
/* What is seen by both: a mask for each score, and one for each key, bool [..., s]. */
static hd_tensor *both_masks(hd_tensor *mask, hd_tensor *padding) {
    if (padding->dtype != HD_BOOL || padding->layout.shape.rank < 1) {
        hd_fail(HD_ERROR_DTYPE, "the mask of keys is %s %s; it is bool [..., s], true for those that take part",
                hd_dtype_name((hd_dtype)padding->dtype), HD_SHAPE_TEXT(padding->layout.shape));
        return NULL;
    }
    hd_tensor *keys = hd_unsqueeze(hd_unsqueeze(padding, -2), -2);
    return mask->dtype == HD_BOOL ? hd_logical_and(mask, keys) : hd_where_scalar(keys, mask, -INFINITY);
}

static hd_tensor *attend(hd_thread *thread, hd_module *m, hd_tensor *const given[3], hd_tensor *mask) {
    const hd_heads *s = m->state;
    hd_tensor *parts[3] = {NULL};
    HD_TRY_OR(hd_heads_project(thread, m, given, parts), NULL);
    for (int i = 0; i < 2 && s->rotary != 0; ++i) parts[i] = hd_rotary(parts[i], NULL, s->rotary);
    for (int i = 1; i < 3; ++i) parts[i] = hd_heads_spread(s, parts[i]);
    const bool drops = s->dropout > 0 && hd_module_is_training(m);
    hd_tensor *y = drops ? hd_attention_dropout(parts[0], parts[1], parts[2], mask, s->causal, 0, s->dropout)
                         : hd_attention(parts[0], parts[1], parts[2], mask, s->causal, 0);
    y = hd_heads_join(y);
    return y == NULL ? NULL : hd_module_forward_as(thread, hd_module_member(m, s->packed ? 1 : 3), "out", y);
}

static hd_tensors *attention_forward(hd_module *m, hd_tensors *inputs) {
    hd_tensor *const *in = inputs->items;
    const int64_t count = inputs->count;
    if (count != 1 && (count < 3 || count > 5)) {
        hd_fail(HD_ERROR_VALUE,
                "%lld inputs; a multihead_attention takes x, or q, k and v, and behind these a mask and a mask of keys",
                (long long)count);
        return NULL;
    }
    hd_tensor *const of_one[3] = {in[0], in[0], in[0]};
    hd_tensor *mask = count < 4 ? NULL : count == 4 ? in[3] : both_masks(in[3], in[4]);
    if (!hd_ok()) return NULL;
    hd_tensor *y = attend(hd_thread_self(), m, count == 1 ? of_one : in, mask);
    return y == NULL ? NULL : HD_TENSORS(y);
}
const hd_module_class hd_multihead_attention_class = {.name = "multihead_attention",
                                                      .forward_all = attention_forward,
                                                      .destroy = hd_array_release,
                                                      .copy = hd_module_copy_state};

/* ---- a step ------------------------------------------------------------------------------------------------------ */
static hd_error check_cache(const hd_heads *s, const hd_tensor *x, const hd_tensor *cache, const char *name) {
    HD_TRY(hd_tensor_check(cache, name));
    hd_shape wanted = x->layout.shape;
    const int rank = wanted.rank;
    wanted.rank = rank + 1;
    wanted.size[rank - 2] = s->kv_heads;
    wanted.size[rank - 1] = cache->layout.shape.rank == rank + 1 ? cache->layout.shape.size[rank - 1] : -1;
    wanted.size[rank] = s->width / s->heads;
    return hd_shape_equal(wanted, cache->layout.shape)
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "%s %s for x %s; a cache is [..., %lld heads, places, %lld]", name,
                         HD_SHAPE_TEXT(cache->layout.shape), HD_SHAPE_TEXT(x->layout.shape), (long long)s->kv_heads,
                         (long long)wanted.size[rank]);
}

static hd_error check_step(hd_module *m, const hd_tensor *x, const hd_tensor *const caches[2],
                           const hd_tensor *position) {
    HD_TRY(hd_module_check(m, "module"));
    if (m->class_ != &hd_multihead_attention_class)
        return hd_fail(HD_ERROR_VALUE, "the module is a %s; expected a multihead_attention", m->class_->name);
    HD_TRY(hd_tensor_check(x, "x"));
    HD_TRY(hd_heads_check(x));
    HD_TRY(check_cache(m->state, x, caches[0], "keys"));
    HD_TRY(check_cache(m->state, x, caches[1], "values"));
    HD_TRY(hd_tensor_check(position, "position"));
    return position->count == 1 && (position->dtype == HD_I64 || position->dtype == HD_I32)
               ? HD_OK
               : hd_fail(HD_ERROR_DTYPE, "position %s of %s; it is one number, i64 or i32",
                         HD_SHAPE_TEXT(position->layout.shape), hd_dtype_name((hd_dtype)position->dtype));
}

/* Places of x in the sequence, from the first one's: i64 [t]. */
static hd_tensor *places_of(const hd_tensor *x, hd_tensor *position) {
    const int64_t count = x->layout.shape.size[x->layout.shape.rank - 2];
    return hd_add(hd_range_beside(x, 0, 1, count, HD_I64), hd_reshape(hd_cast(position, HD_I64), HD_SHAPE(1)));
}

/* Those in a cache of so many. Indices below 0 would count from its end: they become what is beyond it, an error. */
static hd_tensor *places_in(hd_tensor *places, int64_t size) {
    return hd_masked_fill(places, hd_lt_scalar(places, 0), (double)size);
}

static hd_tensor *step(hd_thread *thread, hd_module *m, hd_tensor *x, hd_tensor *const caches[2], hd_tensor *position) {
    const hd_heads *s = m->state;
    hd_tensor *parts[3] = {NULL}, *const given[3] = {x, x, x}, *places = places_of(x, position);
    HD_TRY_OR(hd_heads_project(thread, m, given, parts), NULL);
    for (int i = 0; i < 2 && s->rotary != 0; ++i) parts[i] = hd_rotary(parts[i], places, s->rotary);
    for (int i = 0; i < 2 && hd_ok(); ++i) {
        hd_tensor *new_ones = hd_cast(parts[1 + i], hd_tensor_dtype(caches[i]));
        hd_assign(caches[i], hd_index_copy(caches[i], -2, places_in(places, hd_tensor_size(caches[i], -2)), new_ones));
        parts[1 + i] = hd_heads_spread(s, hd_cast(caches[i], hd_tensor_dtype(parts[0])));
    }
    if (!hd_ok()) return NULL;
    hd_tensor *numbers = hd_range_beside(x, 0, 1, hd_tensor_size(caches[0], -2), HD_I64);
    hd_tensor *seen = hd_le(numbers, hd_unsqueeze(places, 1)); /* itself, and what is in front of it */
    hd_tensor *y = hd_heads_join(hd_attention(parts[0], parts[1], parts[2], seen, false, 0));
    return y == NULL ? NULL : hd_module_forward_as(thread, hd_module_member(m, s->packed ? 1 : 3), "out", y);
}

hd_tensor *hd_multihead_attention_step(hd_module *module, hd_tensor *x, hd_tensor *keys, hd_tensor *values,
                                       hd_tensor *position) {
    HD_ENTER("hd_multihead_attention_step", NULL);
    hd_tensor *const caches[2] = {keys, values};
    HD_TRY_OR(check_step(module, x, (const hd_tensor *const *)caches, position), NULL);
    HD_NO_GRAD;
    hd_span span;
    hd_span_begin(&span, thread, "multihead_attention_step");
    return hd_span_end(&span, step(thread, module, x, caches, position));
}

/* ---- making one -------------------------------------------------------------------------------------------------- */
static hd_error read_heads(int64_t width, int64_t heads, const hd_multihead_attention_opts *options, hd_heads *s) {
    if (width < 1 || heads < 1 || width % heads != 0 || width > INT64_MAX / 3)
        return hd_fail(HD_ERROR_VALUE, "width = %lld, heads = %lld; both are at least 1, and heads divide the width",
                       (long long)width, (long long)heads);
    *s = (hd_heads){.width = width,
                    .heads = heads,
                    .kv_heads = options->kv_heads == 0 ? heads : options->kv_heads,
                    .causal = options->causal,
                    .packed = options->key_width == 0 && options->value_width == 0,
                    .dropout = options->dropout,
                    .rotary = !options->rotary            ? 0
                              : options->rotary_base == 0 ? 10000
                                                          : options->rotary_base};
    if (s->kv_heads < 1 || heads % s->kv_heads != 0)
        return hd_fail(HD_ERROR_VALUE, "kv_heads = %lld; it divides the heads, of which there are %lld",
                       (long long)s->kv_heads, (long long)heads);
    if (options->key_width < 0 || options->value_width < 0 || !(s->dropout >= 0 && s->dropout <= 1))
        return hd_fail(HD_ERROR_VALUE,
                       "key_width = %lld, value_width = %lld, dropout %g; widths are at least 1, and dropout is in "
                       "[0, 1]",
                       (long long)options->key_width, (long long)options->value_width, s->dropout);
    if (s->rotary != 0 && (width / heads % 2 != 0 || !(s->rotary > 0) || s->rotary > 1e300))
        return hd_fail(HD_ERROR_VALUE,
                       "rotations of heads of %lld, to the base %g; their width is even, the base above 0",
                       (long long)(width / heads), s->rotary);
    return HD_OK;
}

static void add_projections(hd_module *m, const hd_heads *s, const hd_multihead_attention_opts *options) {
    const hd_linear_opts *linear = HD_OPTS(hd_linear_opts, .no_bias = options->no_bias, .dtype = options->dtype);
    const int64_t narrow = s->width / s->heads * s->kv_heads;
    if (s->packed) {
        hd_module_add(m, "in", hd_linear(s->width, s->width + 2 * narrow, linear));
    } else {
        hd_module_add(m, "q", hd_linear(s->width, s->width, linear));
        hd_module_add(m, "k", hd_linear(options->key_width == 0 ? s->width : options->key_width, narrow, linear));
        hd_module_add(m, "v", hd_linear(options->value_width == 0 ? s->width : options->value_width, narrow, linear));
    }
    hd_module_add(m, "out", hd_linear(s->width, s->width, linear));
}

hd_module *hd_multihead_attention(int64_t width, int64_t heads, const hd_multihead_attention_opts *opts) {
    HD_ENTER("hd_multihead_attention", NULL);
    HD_READ_OPTS(hd_multihead_attention_opts, opts, NULL);
    hd_heads state;
    hd_dtype dtype;
    HD_TRY_OR(read_heads(width, heads, &options, &state), NULL);
    HD_TRY_OR(hd_making_dtype(thread, options.dtype, &dtype), NULL);
    hd_making making;
    hd_making_begin(&making, thread);
    hd_module *m = hd_module_with(&hd_multihead_attention_class, &state, sizeof state);
    add_projections(m, &state, &options);
    return hd_making_end(&making, m);
}
