/* Schedules: how the loops of a kernel run on the lanes of a target. */
#include "core/memory.h"
#include "kernel/kernel.h"

static bool draws(const hd_kernel *k) {
    for (int i = 0; i < k->count; ++i)
        if (k->steps[i].word == HD_STEP_DRAW) return true;
    return false;
}

static hd_schedule_form form_of(const hd_kernel *k, int lanes) {
    if (k->stages == 0) return draws(k) && k->axes > 0 ? HD_SCHEDULE_STRIPS : HD_SCHEDULE_PLAIN;
    if (k->kept == k->axes) return HD_SCHEDULE_POINTS;
    return lanes >= k->kept ? HD_SCHEDULE_ROWS : HD_SCHEDULE_STRIPS;
}

/* A value inside the reduced axes that a later walk needs again is kept in scratch memory when recomputing it costs
 * more than reading it: `cost` is that of what it is made of since it was last loaded. */
static hd_error choose_slots(hd_kernel *k, const hd_target *t) {
    if (k->stages < 2 || k->schedule.lanes < k->kept) return HD_OK;
    int *cost = hd_array_resize(NULL, (size_t)k->count * 2 * sizeof *cost);
    if (cost == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a kernel of %d steps", k->count);
    int *walk = cost + k->count; /* the last walk that needs it */
    for (int i = 0; i < k->count; ++i) {
        const hd_step *s = &k->steps[i];
        cost[i] = hd_step_cost(s);
        for (int j = 0; j < 3; ++j)
            if (s->operand[j] >= 0 && k->steps[s->operand[j]].depth > k->kept) cost[i] += cost[s->operand[j]];
        walk[i] = -1;
    }
    for (int i = k->count; i-- > 0;) {
        hd_step *s = &k->steps[i];
        if (s->word == HD_STEP_REDUCE) walk[i] = s->stage - 1;
        if (s->word == HD_STEP_STORE) walk[i] = s->stage;
        const bool inside = s->depth > k->kept || s->word == HD_STEP_REDUCE;
        if (!inside || walk[i] < 0) continue;
        if (walk[i] > s->stage && s->word != HD_STEP_REDUCE && s->word != HD_STEP_STORE && cost[i] >= t->keeps_from) {
            s->slot = ++k->schedule.slots;
            walk[i] = s->stage; /* only its own walk computes it */
        }
        for (int j = 0; j < 3; ++j)
            if (s->operand[j] >= 0 && walk[s->operand[j]] < walk[i]) walk[s->operand[j]] = walk[i];
    }
    hd_array_release(cost);
    return HD_OK;
}

static void choose_width(hd_kernel *k, int vector_bytes) {
    int widest = 1, cost = 0;
    bool waits =
        false; /* for what came before: each comparison for a largest value, each of the ten rounds of a draw */
    for (int i = 0; i < k->count; ++i) {
        const hd_step *s = &k->steps[i];
        if (s->word == HD_STEP_REDUCE && s->index > HD_KERNEL_PROD &&
            k->steps[s->operand[0]].over >> k->schedule.lanes & 1)
            waits = true;
        if ((s->over >> k->schedule.lanes & 1) == 0) continue;
        if (s->word == HD_STEP_DRAW) waits = true;
        if (s->word != HD_STEP_INDEX && hd_compute_bytes(s->type) > widest) widest = hd_compute_bytes(s->type);
        cost += hd_step_cost(s);
    }
    /* More at a time hide latencies, and cost code and registers. The processor itself sees what follows, unless that
     * is far away: behind several functions. */
    const int registers = cost <= 12 || cost > 64 || waits ? 4 : 2;
    if (widest < 4) widest = 4;
    k->schedule.width = (uint16_t)(registers * vector_bytes / widest);
}

hd_error hd_kernel_schedule(hd_kernel *k, int lanes, const hd_target *t) {
    for (int i = 0; i < k->count; ++i) k->steps[i].slot = 0;
    k->schedule = (hd_schedule){.lanes = (uint8_t)lanes,
                                .form = (uint8_t)form_of(k, lanes),
                                .sum_points = t->sum_points,
                                .sum_rows = t->sum_rows};
    HD_TRY(choose_slots(k, t));
    choose_width(k, t->vector_bytes);
    return HD_OK;
}
