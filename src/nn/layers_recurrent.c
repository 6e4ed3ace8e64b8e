/* Recurrent layers: cells run over sequences, one layer on another, in one direction or both. */
#include "nn/recurrent.h"
#include "ops/op.h"

#include <stdio.h>

typedef struct recurrent_state {
    const hd_cell *cell;
    int64_t input, hidden, layers;
    int directions;
    bool batch_first, no_bias;
    double dropout;
} recurrent_state;

/* What a call is given, and gives. */
typedef struct sequence {
    hd_tensor *x;                     /* [t, n, input], then what a layer made of it */
    hd_tensor *valid;                 /* bool [t, n, 1], or NULL */
    hd_tensor *begin[HD_CELL_STATES]; /* [layers directions, n, hidden], or NULL: zeros */
    hd_tensor **end[HD_CELL_STATES];  /* [n, hidden], of each layer and direction */
} sequence;

/* ---- what is given ----------------------------------------------------------------------------------------------- */
static hd_error check_input(const recurrent_state *s, const hd_tensor *x) {
    const hd_shape *shape = &x->layout.shape;
    if (!hd_dtype_is_float((hd_dtype)x->dtype))
        return hd_fail(HD_ERROR_DTYPE, "x is %s; expected floats", hd_dtype_name((hd_dtype)x->dtype));
    if (shape->rank == 3 && shape->size[2] == s->input && shape->size[s->batch_first] > 0) return HD_OK;
    return hd_fail(HD_ERROR_SHAPE, "x %s; it must be [%s, %lld], with one step at least", HD_SHAPE_TEXT(*shape),
                   s->batch_first ? "n, t" : "t, n", (long long)s->input);
}

static hd_error check_begin(const recurrent_state *s, const hd_tensor *t, int64_t batch, int number) {
    const hd_shape wanted = HD_SHAPE(s->layers * s->directions, batch, s->hidden);
    return hd_shape_equal(t->layout.shape, wanted)
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "%s %s; it must be %s: each layer and direction, the batch, hidden",
                         number == 0 ? "h0" : "c0", HD_SHAPE_TEXT(t->layout.shape), HD_SHAPE_TEXT(wanted));
}

/* Where steps are within their lengths: [t, n, 1]. */
static hd_tensor *valid_steps(hd_tensor *lengths, int64_t steps, int64_t batch) {
    if (lengths->layout.shape.rank != 1 || lengths->count != batch) {
        hd_fail(HD_ERROR_SHAPE, "lengths %s; they are i64 [%lld], one for each of the batch",
                HD_SHAPE_TEXT(lengths->layout.shape), (long long)batch);
        return NULL;
    }
    hd_tensor *numbers = hd_range_beside(lengths, 0, 1, steps, HD_I64);
    return hd_lt(hd_reshape(numbers, HD_SHAPE(steps, 1, 1)), hd_reshape(lengths, HD_SHAPE(batch, 1)));
}

static hd_error read_inputs(const recurrent_state *s, const hd_tensors *inputs, sequence *q) {
    int64_t count = inputs->count;
    hd_tensor *lengths = NULL, *x = inputs->items[0];
    HD_TRY(check_input(s, x));
    if (count > 1 && !hd_dtype_is_float((hd_dtype)inputs->items[count - 1]->dtype)) lengths = inputs->items[--count];
    if (count != 1 && count != 1 + s->cell->states)
        return hd_fail(HD_ERROR_VALUE, "%lld inputs; a %s takes x%s, and lengths (i64) behind them",
                       (long long)inputs->count, s->cell->name,
                       s->cell->states == 1 ? ", or x and h0" : ", or x, h0 and c0");
    q->x = s->batch_first ? hd_transpose(x, 0, 1) : x;
    if (q->x == NULL) return hd_error_code();
    const int64_t batch = q->x->layout.shape.size[1];
    for (int i = 0; i < s->cell->states && count > 1; ++i) {
        q->begin[i] = inputs->items[1 + i];
        HD_TRY(check_begin(s, q->begin[i], batch, i));
    }
    if (lengths != NULL) q->valid = valid_steps(lengths, q->x->layout.shape.size[0], batch);
    return hd_error_code();
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
static hd_tensor *begin_of(const recurrent_state *s, const sequence *q, int state, int64_t which) {
    const hd_tensor *x = q->x;
    if (q->begin[state] != NULL) return hd_select(q->begin[state], 0, which);
    return hd_full_beside(x, HD_SHAPE(x->layout.shape.size[1], s->hidden), (hd_dtype)x->dtype, 0);
}

/* What comes from x, of all steps at once, and where the run begins. Biases are members behind the weights. */
static void prepare_run(const hd_module *m, const sequence *q, int64_t which, hd_cell_run *run) {
    const recurrent_state *s = m->state;
    const int64_t at = which * (s->no_bias ? 2 : 4);
    hd_tensor *bias = s->no_bias ? NULL : hd_module_member(m, at + 2);
    *run = (hd_cell_run){.weight = hd_module_member(m, at + 1), .valid = q->valid};
    if (!s->no_bias && s->cell->adds)
        bias = hd_add(bias, hd_module_member(m, at + 3));
    else if (!s->no_bias)
        run->bias = hd_module_member(m, at + 3);
    run->from_x = hd_affine(q->x, hd_module_member(m, at), bias);
    for (int i = 0; i < s->cell->states; ++i) run->begin[i] = begin_of(s, q, i, which);
}

static hd_tensor *run_layer(hd_thread *thread, hd_module *m, sequence *q, int64_t layer) {
    const recurrent_state *s = m->state;
    hd_tensor *both[2] = {NULL, NULL};
    for (int d = 0; d < s->directions && hd_ok(); ++d) {
        const int64_t which = layer * s->directions + d;
        hd_tensor *end[HD_CELL_STATES] = {NULL};
        hd_cell_run run;
        prepare_run(m, q, which, &run);
        run.backwards = d == 1;
        both[d] = hd_cell_run_all(thread, s->cell, &run, end);
        for (int i = 0; i < s->cell->states; ++i) q->end[i][which] = end[i];
    }
    return s->directions == 1 || !hd_ok() ? both[0] : hd_concat(both, 2, 2);
}

static void run_layers(hd_thread *thread, hd_module *m, sequence *q) {
    const recurrent_state *s = m->state;
    for (int64_t layer = 0; layer < s->layers && hd_ok(); ++layer) {
        q->x = run_layer(thread, m, q, layer);
        if (layer + 1 < s->layers && s->dropout > 0 && hd_module_is_training(m)) q->x = hd_dropout(q->x, s->dropout);
    }
}

/* {output, hn} or {output, hn, cn}. */
static hd_tensors *recurrent_forward(hd_module *m, hd_tensors *inputs) {
    const recurrent_state *s = m->state;
    hd_thread *thread = hd_thread_self();
    sequence q = {.x = NULL};
    HD_TRY_OR(read_inputs(s, inputs, &q), NULL);
    const int64_t all = s->layers * s->directions;
    hd_tensor **ends = hd_array_resize(NULL, (size_t)(all * HD_CELL_STATES) * sizeof *ends);
    if (ends == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for %lld layers", (long long)s->layers);
        return NULL;
    }
    for (int i = 0; i < HD_CELL_STATES; ++i) q.end[i] = ends + i * all;
    run_layers(thread, m, &q);
    hd_tensor *results[1 + HD_CELL_STATES] = {NULL};
    if (hd_ok()) {
        results[0] = s->batch_first ? hd_transpose(q.x, 0, 1) : q.x;
        for (int i = 0; i < s->cell->states; ++i) results[1 + i] = hd_stack_steps(q.end[i], all);
    }
    hd_array_release(ends);
    return hd_ok() ? hd_tensors_from(results, 1 + s->cell->states) : NULL;
}

/* ---- making one -------------------------------------------------------------------------------------------------- */
static const hd_module_class rnn_class = {.name = "rnn",
                                          .forward_all = recurrent_forward,
                                          .destroy = hd_array_release,
                                          .copy = hd_module_copy_state},
                             lstm_class = {.name = "lstm",
                                           .forward_all = recurrent_forward,
                                           .destroy = hd_array_release,
                                           .copy = hd_module_copy_state},
                             gru_class = {.name = "gru",
                                          .forward_all = recurrent_forward,
                                          .destroy = hd_array_release,
                                          .copy = hd_module_copy_state};

static void add_drawn(hd_module *m, const char *kind, int64_t layer, int direction, hd_shape shape, hd_dtype dtype,
                      double bound) {
    char name[64];
    snprintf(name, sizeof name, "%s_l%lld%s", kind, (long long)layer, direction == 1 ? "_reverse" : "");
    hd_module_add_parameter(m, name, hd_uniform(shape, dtype, -bound, bound));
}

static void add_weights(hd_module *m, const recurrent_state *s, int64_t layer, int direction, hd_dtype dtype) {
    const double bound = 1 / sqrt((double)s->hidden);
    const int64_t rows = s->cell->gates * s->hidden, in = layer == 0 ? s->input : s->hidden * s->directions;
    add_drawn(m, "weight_ih", layer, direction, HD_SHAPE(rows, in), dtype, bound);
    add_drawn(m, "weight_hh", layer, direction, HD_SHAPE(rows, s->hidden), dtype, bound);
    if (s->no_bias) return;
    add_drawn(m, "bias_ih", layer, direction, HD_SHAPE(rows), dtype, bound);
    add_drawn(m, "bias_hh", layer, direction, HD_SHAPE(rows), dtype, bound);
}

static hd_module *recurrent(hd_thread *thread, const hd_module_class *class_, const hd_cell *cell, int64_t input,
                            int64_t hidden, const hd_recurrent_opts *opts) {
    HD_READ_OPTS(hd_recurrent_opts, opts, NULL);
    hd_dtype dtype;
    HD_TRY_OR(hd_making_dtype(thread, options.dtype, &dtype), NULL);
    const recurrent_state state = {.cell = options.relu && cell == &hd_cell_tanh ? &hd_cell_relu : cell,
                                   .input = input,
                                   .hidden = hidden,
                                   .layers = options.layers == 0 ? 1 : options.layers,
                                   .directions = options.bidirectional ? 2 : 1,
                                   .batch_first = options.batch_first,
                                   .no_bias = options.no_bias,
                                   .dropout = options.dropout};
    if (input < 1 || hidden < 1 || hidden > INT64_MAX / 8 || state.layers < 1 || state.layers > HD_MODULE_DEPTH ||
        !(state.dropout >= 0 && state.dropout <= 1)) {
        hd_fail(HD_ERROR_VALUE,
                "input = %lld, hidden = %lld, %lld layers, dropout %g; sizes are at least 1, layers 1 to %d, and "
                "dropout is in [0, 1]",
                (long long)input, (long long)hidden, (long long)state.layers, state.dropout, (int)HD_MODULE_DEPTH);
        return NULL;
    }
    hd_making making;
    hd_making_begin(&making, thread);
    hd_module *m = hd_module_with(class_, &state, sizeof state);
    for (int64_t layer = 0; layer < state.layers && hd_ok(); ++layer)
        for (int d = 0; d < state.directions; ++d) add_weights(m, &state, layer, d, dtype);
    return hd_making_end(&making, m);
}

hd_module *hd_rnn(int64_t input, int64_t hidden, const hd_recurrent_opts *opts) {
    HD_ENTER("hd_rnn", NULL);
    return recurrent(thread, &rnn_class, &hd_cell_tanh, input, hidden, opts);
}

hd_module *hd_lstm(int64_t input, int64_t hidden, const hd_recurrent_opts *opts) {
    HD_ENTER("hd_lstm", NULL);
    return recurrent(thread, &lstm_class, &hd_cell_lstm, input, hidden, opts);
}

hd_module *hd_gru(int64_t input, int64_t hidden, const hd_recurrent_opts *opts) {
    HD_ENTER("hd_gru", NULL);
    return recurrent(thread, &gru_class, &hd_cell_gru, input, hidden, opts);
}
