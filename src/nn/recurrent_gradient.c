/* The gradient of a cell's run. What follows from the states, which are known, is computed of all steps at once: the
 * gates, and what gradients are multiplied by. Then a loop from the last step to the first has a product each, and the
 * gradient of the weight is one product of all steps. It is made of ops of the inputs, the result and its gradient, so
 * that it has gradients, too. */
#include "nn/recurrent.h"

static hd_tensor *part(hd_tensor *all, int index, int64_t steps) { return hd_narrow(all, 0, index * steps, steps); }

/* The state before each step, from that behind each. */
static hd_tensor *shifted(hd_tensor *behind, hd_tensor *begin, bool backwards) {
    const int64_t steps = hd_tensor_size(behind, 0);
    begin = hd_unsqueeze(begin, 0);
    if (steps <= 1 || begin == NULL) return begin;
    hd_tensor *others = hd_narrow(behind, 0, backwards ? 1 : 0, steps - 1);
    return backwards ? HD_CONCAT_OF(0, others, begin) : HD_CONCAT_OF(0, begin, others);
}

static hd_tensor *where_valid(hd_tensor *valid, hd_tensor *x, double otherwise) {
    return x == NULL ? NULL : hd_where_scalar(valid, x, otherwise);
}

/* Steps that are not valid hand on what they are given. */
static void hold_invalid(hd_tensor *valid, hd_cell_slopes *s) {
    if (s->gates == NULL) return;
    const hd_dtype dtype = hd_tensor_dtype(s->gates);
    s->gates = where_valid(valid, s->gates, 0);
    s->from_x = where_valid(valid, s->from_x, 0);
    s->through = where_valid(valid, s->through, 0);
    s->keeps = where_valid(valid, s->keeps, 1);
    s->stays = s->stays != NULL ? where_valid(valid, s->stays, 1) : hd_cast(hd_logical_not(valid), dtype);
}

/* The gradients of a state: those behind a step, which become those before it. */
typedef struct flow {
    hd_tensor *h, *c;
} flow;

/* g for each gate, or of an LSTM k for all but the last. */
static hd_tensor *spread(const hd_cell *cell, hd_tensor *g, hd_tensor *k, int axis) {
    hd_tensor *each[4] = {k, k, k, g};
    if (cell->gates == 1) return g;
    for (int i = 0; i < cell->gates && cell->states == 1; ++i) each[i] = g;
    return hd_concat(each, cell->gates, axis);
}

static hd_tensor *at(hd_tensor *x, int64_t t) { return x == NULL ? NULL : hd_select(x, 0, t); }

/* One step back. Gives what the gradients of the gates are made from: themselves, or g. */
static hd_tensor *step_back(hd_thread *thread, const hd_cell *cell, const hd_cell_run *run, const hd_cell_slopes *s,
                            hd_tensor *gradient, int64_t t, flow *f) {
    const int64_t steps = hd_tensor_size(run->from_x, 0);
    hd_scope_token scope = hd_scope_within(thread, &scope);
    hd_tensor *g = hd_select(gradient, 0, t), *k = NULL;
    if (f->h != NULL) g = hd_add(g, f->h);
    if (cell->states == 2) {
        k = hd_add(hd_select(gradient, 0, steps + t), hd_mul(g, at(s->through, t)));
        if (f->c != NULL) k = hd_add(k, f->c);
        f->c = hd_mul(k, at(s->keeps, t));
        hd_keep_object(f->c);
    }
    hd_tensor *gates = hd_mul(at(s->gates, t), spread(cell, g, k, 1));
    f->h = hd_matmul(gates, run->weight);
    if (s->stays != NULL) f->h = hd_add(f->h, hd_mul(g, at(s->stays, t)));
    hd_keep_object(f->h);
    hd_tensor *result = hd_keep_object(s->from_x != NULL ? g : gates);
    hd_scope_close(thread, &scope);
    return hd_ok() ? result : NULL;
}

/* Of all steps: [t, n, ...]; and of the first state. */
static hd_tensor *walk_back(hd_thread *thread, const hd_cell *cell, const hd_cell_run *run, const hd_cell_slopes *s,
                            hd_tensor *gradient, flow *f) {
    const int64_t count = hd_tensor_size(run->from_x, 0);
    hd_tensor **steps = hd_array_resize(NULL, (size_t)count * sizeof(hd_tensor *));
    if (steps == NULL) hd_fail(HD_ERROR_MEMORY, "no memory for %lld steps", (long long)count);
    for (int64_t i = 0; i < count && hd_ok(); ++i) {
        const int64_t t = run->backwards ? i : count - 1 - i;
        steps[t] = step_back(thread, cell, run, s, gradient, t, f);
    }
    hd_tensor *all = hd_ok() ? hd_stack_steps(steps, count) : NULL;
    hd_array_release(steps);
    return all;
}

/* Sums over steps and the batch of what comes from h, times h. */
static hd_tensor *of_weight(hd_tensor *from_h, hd_tensor *before) {
    return hd_dot_general(from_h, before, HD_AXES(0, 1), HD_AXES(0, 1), HD_AXES(), HD_AXES());
}

void hd_cell_backward(hd_tensor *gradient, hd_tensor *const *saved, hd_tensor **results, void *user) {
    const hd_cell_way *way = user;
    const hd_cell *cell = way->cell;
    hd_thread *thread = hd_thread_self();
    hd_cell_run run;
    const int count = hd_cell_from_inputs(way, saved, HD_CELL_INPUTS, &run);
    const int64_t steps = hd_tensor_size(run.from_x, 0);
    hd_cell_past past = {.run = &run};
    for (int i = 0; i < cell->states; ++i) {
        past.behind[i] = part(saved[count], i, steps);
        past.before[i] = shifted(past.behind[i], run.begin[i], run.backwards);
    }
    hd_cell_slopes s = {.from_x = NULL};
    flow f = {.h = NULL};
    cell->slopes(&past, &s);
    if (run.valid != NULL) hold_invalid(run.valid, &s);
    hd_tensor *all = hd_ok() ? walk_back(thread, cell, &run, &s, gradient, &f) : NULL;
    if (all == NULL) return;
    hd_tensor *from_h = all;
    if (s.from_x != NULL) {
        hd_tensor *g = spread(cell, all, NULL, 2);
        from_h = hd_mul(s.gates, g);
        all = hd_mul(s.from_x, g);
    }
    int next = 0;
    results[next++] = all;
    results[next++] = of_weight(from_h, past.before[0]);
    results[next++] = f.h;
    if (cell->states == 2) results[next++] = f.c;
    if (run.bias != NULL) results[next++] = hd_sum(from_h, HD_AXES(0, 1), NULL);
    for (int i = 0; i < next && hd_ok(); ++i) results[i] = hd_cast(results[i], hd_tensor_dtype(saved[i]));
}
