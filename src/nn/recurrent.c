/* Running cells of recurrent layers: a loop that has a product and a few elementwise ops for each step. */
#include "nn/recurrent.h"

#include <hodu/builder.h>
#include <hodu/grad.h>

hd_tensor *hd_gate(hd_tensor *all, int index, int count) {
    const int64_t size = hd_tensor_size(all, -1) / count;
    return hd_narrow(all, -1, index * size, size);
}

hd_tensor *hd_stack_steps(hd_tensor **steps, int64_t count) {
    if (count == 1) return steps[0] == NULL ? NULL : hd_unsqueeze(steps[0], 0);
    for (int64_t i = 0; i < count; ++i) steps[i] = hd_unsqueeze(steps[i], 0);
    while (count > 1) { /* a call takes HD_MAX_INPUTS at most */
        int64_t joined = 0;
        for (int64_t i = 0; i < count; i += HD_MAX_INPUTS)
            steps[joined++] = hd_concat(steps + i, (int)(count - i < HD_MAX_INPUTS ? count - i : HD_MAX_INPUTS), 0);
        count = joined;
    }
    return steps[0];
}

/* The weight as products by it take it, so that not each step has to lay it out anew: a script does so by itself, and
 * few steps are not worth a copy. */
enum { FEW_STEPS = 8 };
static hd_tensor *laid_out(hd_tensor *weight, int64_t steps) {
    if (steps < FEW_STEPS || hd_builder_is_recording()) return weight;
    return hd_transpose(hd_contiguous(hd_transpose(weight, 0, 1)), 0, 1);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */
/* One step, of which only the new state stays. */
static void run_step(hd_thread *thread, const hd_cell *cell, const hd_cell_run *run, int64_t t,
                     hd_tensor *state[HD_CELL_STATES]) {
    hd_scope_token scope = hd_scope_within(thread, &scope);
    hd_tensor *const before[HD_CELL_STATES] = {state[0], state[1]};
    cell->step(hd_select(run->from_x, 0, t), run->weight, run->bias, state);
    hd_tensor *valid = run->valid == NULL ? NULL : hd_select(run->valid, 0, t);
    for (int i = 0; i < cell->states && hd_ok(); ++i) {
        if (valid != NULL) state[i] = hd_where(valid, state[i], before[i]);
        hd_keep_object(state[i]);
    }
    hd_scope_close(thread, &scope);
}

/* The state behind each step, [shown t, n, hidden]: h of all steps, then, when both are to be shown, c. `state` becomes
 * the last one. */
static hd_tensor *run_steps(hd_thread *thread, const hd_cell *cell, const hd_cell_run *run, int shown,
                            hd_tensor *state[HD_CELL_STATES]) {
    const int64_t count = hd_tensor_size(run->from_x, 0);
    hd_tensor **steps = hd_array_resize(NULL, (size_t)(count * shown) * sizeof(hd_tensor *));
    if (steps == NULL) hd_fail(HD_ERROR_MEMORY, "no memory for %lld steps", (long long)count);
    for (int i = 0; i < cell->states; ++i) state[i] = run->begin[i];
    hd_cell_run laid = *run;
    laid.weight = laid_out(run->weight, count);
    for (int64_t i = 0; i < count && hd_ok(); ++i) {
        const int64_t t = run->backwards ? count - 1 - i : i;
        run_step(thread, cell, &laid, t, state);
        for (int k = 0; k < shown; ++k) steps[k * count + t] = state[k];
    }
    hd_tensor *all = hd_ok() ? hd_stack_steps(steps, count * shown) : NULL;
    hd_array_release(steps);
    return all;
}

/* ---- with a gradient --------------------------------------------------------------------------------------------- */
int hd_cell_inputs(const hd_cell *cell, const hd_cell_run *run, hd_tensor *inputs[HD_CELL_INPUTS]) {
    int count = 0;
    inputs[count++] = run->from_x;
    inputs[count++] = run->weight;
    for (int i = 0; i < cell->states; ++i) inputs[count++] = run->begin[i];
    if (run->bias != NULL) inputs[count++] = run->bias;
    if (run->valid != NULL) inputs[count++] = run->valid;
    return count;
}

int hd_cell_from_inputs(const hd_cell_way *way, hd_tensor *const *inputs, int count, hd_cell_run *run) {
    int next = 0;
    *run = (hd_cell_run){.from_x = inputs[0], .weight = inputs[1], .backwards = way->backwards};
    for (next = 2; next < 2 + way->cell->states; ++next) run->begin[next - 2] = inputs[next];
    if (next < count && inputs[next] != NULL && inputs[next]->layout.shape.rank == 1) run->bias = inputs[next++];
    if (next < count && inputs[next] != NULL && inputs[next]->dtype == HD_BOOL) run->valid = inputs[next++];
    return next;
}

static hd_tensor *run_forward(hd_tensors *inputs, hd_tensor **saved, void *user) {
    const hd_cell_way *way = user;
    hd_tensor *state[HD_CELL_STATES];
    hd_cell_run run;
    const int count = hd_cell_from_inputs(way, inputs->items, (int)inputs->count, &run);
    hd_tensor *all = run_steps(hd_thread_self(), way->cell, &run, way->cell->states, state);
    for (int i = 0; i < count; ++i) saved[i] = inputs->items[i];
    saved[count] = all;
    return all;
}

/* They live as long as any tape. */
static const hd_cell_way *way_of(const hd_cell *cell, bool backwards) {
    static const hd_cell_way ways[][2] = {{{&hd_cell_tanh, false}, {&hd_cell_tanh, true}},
                                          {{&hd_cell_relu, false}, {&hd_cell_relu, true}},
                                          {{&hd_cell_lstm, false}, {&hd_cell_lstm, true}},
                                          {{&hd_cell_gru, false}, {&hd_cell_gru, true}}};
    int row = 0;
    while (ways[row][0].cell != cell) ++row;
    return &ways[row][backwards];
}

static bool is_tracked(const hd_thread *thread, hd_tensor *const *inputs, int count) {
    bool tracked = false;
    for (int i = 0; i < count; ++i) tracked = tracked || inputs[i]->tracking != HD_UNTRACKED;
    return tracked && thread->observer != NULL;
}

hd_tensor *hd_cell_run_all(hd_thread *thread, const hd_cell *cell, const hd_cell_run *run,
                           hd_tensor *end[HD_CELL_STATES]) {
    if (!hd_ok()) return NULL;
    hd_tensor *inputs[HD_CELL_INPUTS], *y;
    const int count = hd_cell_inputs(cell, run, inputs);
    if (is_tracked(thread, inputs, count)) {
        const int64_t steps = hd_tensor_size(run->from_x, 0);
        hd_tensor *all = hd_custom_gradient(run_forward, hd_cell_backward, (void *)way_of(cell, run->backwards),
                                            hd_tensors_from(inputs, count));
        for (int i = 0; i < cell->states; ++i) end[i] = hd_select(all, 0, i * steps + (run->backwards ? 0 : steps - 1));
        y = hd_narrow(all, 0, 0, steps);
    } else {
        y = run_steps(thread, cell, run, 1, end);
    }
    return run->valid == NULL || y == NULL ? y : hd_where_scalar(run->valid, y, 0);
}
