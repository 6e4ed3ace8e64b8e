/* When to stop: values that do not become better. */
#include "core/options.h"

#include <hodu/watch.h>
#include <math.h>

static hd_error check(const hd_early_stop *s) {
    if (s == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`stop` is NULL");
    if (s->struct_size < sizeof *s)
        return hd_fail(HD_ERROR_VALUE, "the struct_size of `stop` is %zu; make it with HD_DEFAULTS(hd_early_stop)",
                       s->struct_size);
    if (s->patience < 0 || !(s->min_delta >= 0) || isinf(s->min_delta))
        return hd_fail(HD_ERROR_VALUE, "patience %lld, min_delta %g: neither is below 0, and min_delta is finite",
                       (long long)s->patience, s->min_delta);
    return HD_OK;
}

bool hd_early_stop_add(hd_early_stop *stop, double value) {
    HD_ENTER("hd_early_stop_add", false);
    (void)thread;
    HD_TRY_OR(check(stop), false);
    const double better_by = stop->maximize ? value - stop->best : stop->best - value;
    const bool is_better = stop->best_at == 0 ? !isnan(value) : better_by > stop->min_delta;
    ++stop->seen;
    if (is_better) {
        stop->best = value;
        stop->best_at = stop->seen;
    }
    return stop->seen - stop->best_at >= (stop->patience > 0 ? stop->patience : 1);
}
