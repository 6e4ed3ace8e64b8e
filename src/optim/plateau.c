/* The schedule that lowers rates when a metric gets no better. */
#include "optim/schedule.h"

#include <math.h>

typedef struct plateau {
    hd_plateau_opts opts;
    double patience;
} plateau;
enum { BEST, WAITED, RESTING }; /* what it remembers: hd_schedule_memory_names */

static hd_tensor *is_better(const plateau *p, hd_tensor *metric, hd_tensor *best) {
    const double by = p->opts.threshold;
    if (p->opts.climbs) return hd_gt(metric, p->opts.absolute ? hd_add_scalar(best, by) : hd_mul_scalar(best, 1 + by));
    return hd_lt(metric, p->opts.absolute ? hd_sub_scalar(best, by) : hd_mul_scalar(best, 1 - by));
}

/* All by ops, so that a script can record it: nobody looks at a number. */
static void advance(hd_schedule *s, hd_tensor *metric) {
    const plateau *p = s->options;
    hd_tensor *best = s->memory[BEST], *resting = s->memory[RESTING];
    metric = hd_reshape(hd_cast(metric, HD_F64), HD_SHAPE());
    hd_tensor *better = is_better(p, metric, best), *rests = hd_gt_scalar(resting, 0);
    hd_tensor *waited = hd_rwhere_scalar(better, hd_add_scalar(s->memory[WAITED], 1), 0);
    waited = hd_rwhere_scalar(rests, waited, 0);
    hd_tensor *lowers = hd_gt_scalar(waited, p->patience);
    hd_assign(best, hd_where(better, metric, best));
    hd_assign(s->memory[WAITED], hd_rwhere_scalar(lowers, waited, 0));
    resting = hd_maximum_scalar(hd_sub_scalar(resting, 1), 0);
    hd_assign(s->memory[RESTING], hd_rwhere_scalar(lowers, resting, p->opts.cooldown));
    for (int64_t i = 0; i < s->optimizer->group_count; ++i) {
        hd_tensor *rate = s->optimizer->groups[i].learning_rate;
        hd_tensor *lower = hd_maximum_scalar(hd_mul_scalar(rate, p->opts.factor), p->opts.lowest);
        hd_tensor *matters = hd_gt_scalar(hd_sub(rate, lower), p->opts.epsilon);
        hd_assign(rate, hd_where(hd_logical_and(lowers, matters), lower, rate));
    }
}
static const hd_schedule_class plateau_class = {.name = "plateau", .advance = advance};

hd_schedule *hd_schedule_plateau(hd_optimizer *optimizer, int64_t patience, const hd_plateau_opts *opts) {
    HD_ENTER("hd_schedule_plateau", NULL);
    HD_READ_OPTS(hd_plateau_opts, opts, NULL);
    options.factor = hd_option_or(options.factor, 0.1);
    options.threshold = hd_option_or(options.threshold, 1e-4);
    options.epsilon = hd_option_or(options.epsilon, 1e-8);
    if (!(hd_is_share(options.factor) && hd_is_not_negative(options.threshold) && options.cooldown >= 0 &&
          hd_is_not_negative(options.lowest) && hd_is_not_negative(options.epsilon) && patience >= 0)) {
        hd_fail(HD_ERROR_VALUE,
                "patience %lld, factor %g, threshold %g, cooldown %g, lowest %g, epsilon %g: the factor is in [0, 1), "
                "the others are not negative",
                (long long)patience, options.factor, options.threshold, options.cooldown, options.lowest,
                options.epsilon);
        return NULL;
    }
    const plateau p = {options, (double)patience};
    const double memory[] = {options.climbs ? -INFINITY : INFINITY, 0, 0};
    return hd_schedule_make(thread, &plateau_class, optimizer, NULL, &p, sizeof p, memory, 3);
}
