/* Layers of transformers: attention and two linear modules, each added to what it reads, and normalised. */
#include "nn/module.h"

/* Where the members are: "self_attn", of a decoder "multihead_attn", "linear1", "linear2", "norm1", "norm2", of a
 * decoder "norm3". */
enum { SELF, ACROSS };
typedef struct transformer_state {
    int linear1, norm1;
    double dropout;
    bool gelu, norm_first;
} transformer_state;

/* What a part reads beside x. */
typedef struct beside {
    hd_tensor *memory;
    hd_tensor *masks[2]; /* of an attention; NULL: none */
} beside;

/* ---- parts ------------------------------------------------------------------------------------------------------- */
static hd_tensor *drop(const hd_module *m, hd_tensor *x) {
    const transformer_state *s = m->state;
    return x != NULL && s->dropout > 0 && hd_module_is_training(m) ? hd_dropout(x, s->dropout) : x;
}

static hd_tensor *member_forward(hd_thread *thread, hd_module *m, int64_t index, hd_tensor *x) {
    return x == NULL ? NULL : hd_module_forward_as(thread, hd_module_member(m, index), m->members[index].name, x);
}

static hd_tensor *attend(hd_thread *thread, hd_module *m, int which, hd_tensor *x, const beside *b) {
    hd_tensor *keys = which == SELF ? x : b->memory, *inputs[5] = {x, keys, keys};
    int count = 3;
    for (int i = 0; i < 2 && b->masks[i] != NULL; ++i) inputs[count++] = b->masks[i];
    hd_tensors *list = hd_tensors_from(inputs, count);
    list = list == NULL ? NULL
                        : hd_module_forward_all_as(thread, hd_module_member(m, which), m->members[which].name, list);
    return list == NULL ? NULL : list->items[0];
}

static hd_tensor *feed_forward(hd_thread *thread, hd_module *m, hd_tensor *x) {
    const transformer_state *s = m->state;
    hd_tensor *y = member_forward(thread, m, s->linear1, x);
    if (y == NULL) return NULL;
    return member_forward(thread, m, s->linear1 + 1, drop(m, s->gelu ? hd_gelu(y) : hd_relu(y)));
}

/* An attention, or without `b` the linear modules, around which x goes too. */
static hd_tensor *add_part(hd_thread *thread, hd_module *m, int which, int norm, hd_tensor *x, const beside *b) {
    const transformer_state *s = m->state;
    if (x == NULL) return NULL;
    hd_tensor *read = s->norm_first ? member_forward(thread, m, s->norm1 + norm, x) : x;
    if (read == NULL) return NULL;
    hd_tensor *y = b != NULL ? attend(thread, m, which, read, b) : feed_forward(thread, m, read);
    y = y == NULL ? NULL : hd_add(x, drop(m, y));
    return s->norm_first ? y : member_forward(thread, m, s->norm1 + norm, y);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */
static hd_error refuse_inputs(const char *kind, int64_t count, const char *takes) {
    return hd_fail(HD_ERROR_VALUE, "%lld inputs; a %s takes %s", (long long)count, kind, takes);
}
static const char *const of_encoder = "x, and behind it a mask and a mask of keys",
                         *const of_decoder = "x and memory, and behind these a mask for x and one for memory";

static hd_tensors *encoder_layer_forward(hd_module *m, hd_tensors *inputs) {
    hd_tensor *const *in = inputs->items;
    hd_thread *thread = hd_thread_self();
    if (inputs->count > 3) HD_TRY_OR(refuse_inputs(m->class_->name, inputs->count, of_encoder), NULL);
    const beside b = {NULL, {inputs->count > 1 ? in[1] : NULL, inputs->count > 2 ? in[2] : NULL}};
    hd_tensor *y = add_part(thread, m, SELF, 0, in[0], &b);
    y = add_part(thread, m, 0, 1, y, NULL);
    return y == NULL ? NULL : HD_TENSORS(y);
}

static hd_tensors *decoder_layer_forward(hd_module *m, hd_tensors *inputs) {
    hd_tensor *const *in = inputs->items;
    hd_thread *thread = hd_thread_self();
    if (inputs->count < 2 || inputs->count > 4)
        HD_TRY_OR(refuse_inputs(m->class_->name, inputs->count, of_decoder), NULL);
    const beside own = {NULL, {inputs->count > 2 ? in[2] : NULL, NULL}};
    const beside other = {in[1], {inputs->count > 3 ? in[3] : NULL, NULL}};
    hd_tensor *y = add_part(thread, m, SELF, 0, in[0], &own);
    y = add_part(thread, m, ACROSS, 1, y, &other);
    y = add_part(thread, m, 0, 2, y, NULL);
    return y == NULL ? NULL : HD_TENSORS(y);
}

static const hd_module_class encoder_layer_class = {.name = "transformer_encoder_layer",
                                                    .forward_all = encoder_layer_forward,
                                                    .destroy = hd_array_release,
                                                    .copy = hd_module_copy_state},
                             decoder_layer_class = {.name = "transformer_decoder_layer",
                                                    .forward_all = decoder_layer_forward,
                                                    .destroy = hd_array_release,
                                                    .copy = hd_module_copy_state};

/* ---- stacks ------------------------------------------------------------------------------------------------------ */
/* One layer on another, in a list that is its first member; then the norm, if there is one. What stands beside x is the
 * same for all. */
static hd_tensors *stack_forward(hd_module *m, hd_tensors *inputs) {
    hd_thread *thread = hd_thread_self();
    const hd_module *layers = hd_module_member(m, 0);
    hd_tensor *given[HD_MAX_INPUTS] = {NULL};
    if (inputs->count > HD_MAX_INPUTS) HD_TRY_OR(refuse_inputs(m->class_->name, inputs->count, "fewer"), NULL);
    for (int64_t i = 0; i < inputs->count; ++i) given[i] = inputs->items[i];
    for (int64_t i = 0; i < layers->member_count; ++i) {
        hd_tensors *y = hd_tensors_from(given, inputs->count);
        if (y == NULL) return NULL;
        y = hd_module_forward_all_as(thread, layers->members[i].object, layers->members[i].name, y);
        if (y == NULL) return NULL;
        given[0] = y->items[0];
    }
    hd_tensor *y = m->member_count > 1 ? member_forward(thread, m, 1, given[0]) : given[0];
    return y == NULL ? NULL : HD_TENSORS(y);
}
static const hd_module_class encoder_class = {.name = "transformer_encoder", .forward_all = stack_forward},
                             decoder_class = {.name = "transformer_decoder", .forward_all = stack_forward};

/* ---- making one -------------------------------------------------------------------------------------------------- */
static hd_error check_transformer(int64_t layers, const hd_transformer_opts *options, double dropout) {
    return layers >= 1 && layers < HD_MODULE_DEPTH && options->feedforward >= 0 && dropout >= 0 && dropout <= 1
               ? HD_OK
               : hd_fail(HD_ERROR_VALUE,
                         "%lld layers, feedforward = %lld, dropout %g; there is one layer at least, sizes are at least "
                         "1, and dropout is in [0, 1]",
                         (long long)layers, (long long)options->feedforward, dropout);
}

static hd_module *new_attention(int64_t width, int64_t heads, const hd_transformer_opts *options, double dropout,
                                bool of_itself) {
    return hd_multihead_attention(width, heads,
                                  HD_OPTS(hd_multihead_attention_opts, .causal = of_itself && options->causal,
                                          .rotary = of_itself && options->rotary, .rotary_base = options->rotary_base,
                                          .kv_heads = options->kv_heads, .no_bias = options->no_bias,
                                          .dropout = dropout, .dtype = options->dtype));
}

static hd_module *new_norm(int64_t width, const hd_transformer_opts *options) {
    return hd_layer_norm_layer(HD_SHAPE(width), HD_OPTS(hd_norm_layer_opts, .eps = options->eps,
                                                        .no_bias = options->no_bias, .dtype = options->dtype));
}

static hd_module *new_layer(const hd_module_class *class_, int64_t width, int64_t heads,
                            const hd_transformer_opts *options) {
    static const char *const norms[3] = {"norm1", "norm2", "norm3"};
    const bool decodes = class_ == &decoder_layer_class;
    const transformer_state state = {.linear1 = decodes ? 2 : 1,
                                     .norm1 = decodes ? 4 : 3,
                                     .dropout = hd_option(options->dropout, 0.1),
                                     .gelu = options->gelu,
                                     .norm_first = options->norm_first};
    const int64_t inner = options->feedforward == 0 ? 2048 : options->feedforward;
    const hd_linear_opts *linear = HD_OPTS(hd_linear_opts, .no_bias = options->no_bias, .dtype = options->dtype);
    hd_module *m = hd_module_with(class_, &state, sizeof state);
    hd_module_add(m, "self_attn", new_attention(width, heads, options, state.dropout, true));
    if (decodes) hd_module_add(m, "multihead_attn", new_attention(width, heads, options, state.dropout, false));
    hd_module_add(m, "linear1", hd_linear(width, inner, linear));
    hd_module_add(m, "linear2", hd_linear(inner, width, linear));
    for (int i = 0; i < (decodes ? 3 : 2); ++i) hd_module_add(m, norms[i], new_norm(width, options));
    return m;
}

static hd_module *transformer_layer(hd_thread *thread, const hd_module_class *class_, int64_t width, int64_t heads,
                                    const hd_transformer_opts *opts) {
    HD_READ_OPTS(hd_transformer_opts, opts, NULL);
    HD_TRY_OR(check_transformer(1, &options, hd_option(options.dropout, 0.1)), NULL);
    hd_making making;
    hd_making_begin(&making, thread);
    return hd_making_end(&making, new_layer(class_, width, heads, &options));
}

static hd_module *transformer_stack(hd_thread *thread, const hd_module_class *class_,
                                    const hd_module_class *layer_class, int64_t width, int64_t heads, int64_t layers,
                                    const hd_transformer_opts *opts) {
    HD_READ_OPTS(hd_transformer_opts, opts, NULL);
    HD_TRY_OR(check_transformer(layers, &options, hd_option(options.dropout, 0.1)), NULL);
    hd_making making;
    hd_making_begin(&making, thread);
    hd_module *m = hd_module_new(class_, NULL), *all[HD_MODULE_DEPTH] = {NULL};
    for (int64_t i = 0; i < layers && hd_ok(); ++i) all[i] = new_layer(layer_class, width, heads, &options);
    hd_module_add(m, "layers", hd_module_list(all, layers));
    if (options.final_norm) hd_module_add(m, "norm", new_norm(width, &options));
    return hd_making_end(&making, m);
}

hd_module *hd_transformer_encoder_layer(int64_t width, int64_t heads, const hd_transformer_opts *opts) {
    HD_ENTER("hd_transformer_encoder_layer", NULL);
    return transformer_layer(thread, &encoder_layer_class, width, heads, opts);
}

hd_module *hd_transformer_decoder_layer(int64_t width, int64_t heads, const hd_transformer_opts *opts) {
    HD_ENTER("hd_transformer_decoder_layer", NULL);
    return transformer_layer(thread, &decoder_layer_class, width, heads, opts);
}

hd_module *hd_transformer_encoder(int64_t width, int64_t heads, int64_t layers, const hd_transformer_opts *opts) {
    HD_ENTER("hd_transformer_encoder", NULL);
    return transformer_stack(thread, &encoder_class, &encoder_layer_class, width, heads, layers, opts);
}

hd_module *hd_transformer_decoder(int64_t width, int64_t heads, int64_t layers, const hd_transformer_opts *opts) {
    HD_ENTER("hd_transformer_decoder", NULL);
    return transformer_stack(thread, &decoder_class, &decoder_layer_class, width, heads, layers, opts);
}
