/* Rows of a table, by their numbers. */
#include "nn/module.h"

typedef struct embedding_state {
    int64_t padding; /* the row that gets no gradient, -1: none */
} embedding_state;

static hd_tensor *embedding_forward(hd_module *m, hd_tensor *x) {
    const embedding_state *s = m->state;
    return hd_embedding(m->weight, x, s->padding);
}
static const hd_module_class embedding_class = {
    .name = "embedding", .forward = embedding_forward, .destroy = hd_array_release};

hd_module *hd_embedding_layer(int64_t count, int64_t width, const hd_embedding_layer_opts *opts) {
    HD_ENTER("hd_embedding_layer", NULL);
    HD_READ_OPTS(hd_embedding_layer_opts, opts, NULL);
    hd_dtype dtype;
    HD_TRY_OR(hd_making_dtype(thread, options.dtype, &dtype), NULL);
    if (count < 1 || width < 1) {
        hd_fail(HD_ERROR_VALUE, "count = %lld, width = %lld; both are at least 1", (long long)count, (long long)width);
        return NULL;
    }
    embedding_state state = {-1};
    if (options.pads) {
        state.padding = options.padding_index + (options.padding_index < 0 ? count : 0);
        if (state.padding < 0 || state.padding >= count) {
            hd_fail(HD_ERROR_INDEX, "padding_index = %lld of %lld rows", (long long)options.padding_index,
                    (long long)count);
            return NULL;
        }
    }
    hd_making making;
    hd_making_begin(&making, thread);
    hd_module *m = hd_module_with(&embedding_class, &state, sizeof state);
    hd_tensor *weight = hd_randn(HD_SHAPE(count, width), dtype);
    if (options.pads) hd_zero_(hd_select(weight, 0, state.padding));
    hd_module_add_parameter(m, "weight", weight);
    return hd_making_end(&making, m);
}
