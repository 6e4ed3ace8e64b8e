/* Schedules whose rate follows from the number of steps. */
#include "optim/schedule.h"

#include <math.h>

/* Options of all of them; each says which it reads. */
typedef struct course {
    double factor, first, last;
    double steps; /* a period, or how long */
    int64_t milestones;
    double milestone[];
} course;
static const double pi = 3.14159265358979323846;

static hd_schedule *make(hd_thread *thread, const hd_schedule_class *class_, hd_optimizer *optimizer, const course *c) {
    return hd_schedule_make(thread, class_, optimizer, NULL, c, sizeof *c, NULL, 0);
}

static hd_error check_factor(double factor) {
    if (hd_is_not_negative(factor)) return HD_OK;
    return hd_fail(HD_ERROR_VALUE, "a factor of %g; it must be finite and not negative", factor);
}
static hd_error check_steps(int64_t steps) {
    if (steps >= 1 && steps <= (int64_t)1 << 52) return HD_OK;
    return hd_fail(HD_ERROR_VALUE, "%lld steps; it takes at least one", (long long)steps);
}

/* ---- in steps ---------------------------------------------------------------------------------------------------- */
static hd_tensor *times_power(hd_tensor *base, double factor, hd_tensor *exponent) {
    return hd_mul(base, hd_rpow_scalar(exponent, factor));
}

/* Half a step more, so that rounding takes no multiple of the period for less. */
static hd_tensor *rate_every(const hd_schedule *s, hd_tensor *base, hd_tensor *count) {
    const course *c = s->options;
    return times_power(base, c->factor, hd_floor(hd_div_scalar(hd_add_scalar(count, 0.5), c->steps)));
}
static const hd_schedule_class every = {.name = "every", .rate = rate_every};

hd_schedule *hd_schedule_every(hd_optimizer *optimizer, int64_t period, double factor) {
    HD_ENTER("hd_schedule_every", NULL);
    HD_TRY_OR(check_steps(period), NULL);
    HD_TRY_OR(check_factor(factor), NULL);
    return make(thread, &every, optimizer, &(course){.steps = (double)period, .factor = factor});
}

static hd_tensor *rate_milestones(const hd_schedule *s, hd_tensor *base, hd_tensor *count) {
    const course *c = s->options;
    hd_tensor *rate = base;
    for (int64_t i = 0; i < c->milestones; ++i) {
        hd_tensor *lower = hd_mul_scalar(rate, c->factor);
        rate = hd_where(hd_ge_scalar(count, c->milestone[i]), lower, rate);
    }
    return rate;
}
static const hd_schedule_class milestones_class = {.name = "milestones", .rate = rate_milestones};

hd_schedule *hd_schedule_milestones(hd_optimizer *optimizer, const int64_t *milestones, int64_t count, double factor) {
    HD_ENTER("hd_schedule_milestones", NULL);
    HD_TRY_OR(check_factor(factor), NULL);
    if (count < 0 || count > 1000 || (milestones == NULL && count > 0)) {
        hd_fail(milestones == NULL ? HD_ERROR_NULL_ARGUMENT : HD_ERROR_VALUE, "%lld milestones%s; up to 1000",
                (long long)count, milestones == NULL ? ", and `milestones` is NULL" : "");
        return NULL;
    }
    const size_t bytes = sizeof(course) + (size_t)count * sizeof(double);
    course *c = hd_array_resize(NULL, bytes);
    if (c == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a schedule");
        return NULL;
    }
    *c = (course){.factor = factor, .milestones = count};
    for (int64_t i = 0; i < count; ++i) c->milestone[i] = (double)milestones[i];
    hd_schedule *s = hd_schedule_make(thread, &milestones_class, optimizer, NULL, c, bytes, NULL, 0);
    hd_array_release(c);
    return s;
}

static hd_tensor *rate_exponential(const hd_schedule *s, hd_tensor *base, hd_tensor *count) {
    return times_power(base, ((const course *)s->options)->factor, count);
}
static const hd_schedule_class exponential = {.name = "exponential", .rate = rate_exponential};

hd_schedule *hd_schedule_exponential(hd_optimizer *optimizer, double factor) {
    HD_ENTER("hd_schedule_exponential", NULL);
    HD_TRY_OR(check_factor(factor), NULL);
    return make(thread, &exponential, optimizer, &(course){.factor = factor});
}

/* ---- along a line or a wave -------------------------------------------------------------------------------------- */
static hd_tensor *rate_cosine(const hd_schedule *s, hd_tensor *base, hd_tensor *count) {
    const course *c = s->options;
    hd_tensor *wave = hd_add_scalar(hd_cos(hd_mul_scalar(count, pi / c->steps)), 1);
    hd_tensor *above = hd_mul_scalar(hd_sub_scalar(base, c->last), 0.5);
    return hd_add_scalar(hd_mul(above, wave), c->last);
}
static const hd_schedule_class cosine = {.name = "cosine", .rate = rate_cosine};

hd_schedule *hd_schedule_cosine(hd_optimizer *optimizer, int64_t period, double lowest) {
    HD_ENTER("hd_schedule_cosine", NULL);
    HD_TRY_OR(check_steps(period), NULL);
    HD_TRY_OR(hd_optimizer_check_rate(lowest), NULL);
    return make(thread, &cosine, optimizer, &(course){.steps = (double)period, .last = lowest});
}

static hd_tensor *along_line(const course *c, hd_tensor *base, hd_tensor *count) {
    hd_tensor *way = hd_mul_scalar(hd_minimum_scalar(count, c->steps), (c->last - c->first) / c->steps);
    return hd_mul(base, hd_add_scalar(way, c->first));
}
static hd_tensor *rate_linear(const hd_schedule *s, hd_tensor *base, hd_tensor *count) {
    return along_line(s->options, base, count);
}
static const hd_schedule_class linear = {.name = "linear", .rate = rate_linear};

hd_schedule *hd_schedule_linear(hd_optimizer *optimizer, int64_t steps, double first, double last) {
    HD_ENTER("hd_schedule_linear", NULL);
    HD_TRY_OR(check_steps(steps), NULL);
    HD_TRY_OR(check_factor(first), NULL);
    HD_TRY_OR(check_factor(last), NULL);
    return make(thread, &linear, optimizer, &(course){.steps = (double)steps, .first = first, .last = last});
}

static hd_tensor *rate_warm_up(const hd_schedule *s, hd_tensor *base, hd_tensor *count) {
    const course *c = s->options;
    hd_tensor *warming = along_line(c, base, count);
    hd_tensor *then = s->next->class_->rate(s->next, base, hd_sub_scalar(count, c->steps));
    return hd_where(hd_lt_scalar(count, c->steps), warming, then);
}
static const hd_schedule_class warm_up = {.name = "warm_up", .rate = rate_warm_up};

hd_schedule *hd_schedule_warm_up(int64_t steps, double first, hd_schedule *then) {
    HD_ENTER("hd_schedule_warm_up", NULL);
    HD_TRY_OR(check_steps(steps), NULL);
    HD_TRY_OR(check_factor(first), NULL);
    HD_TRY_OR(hd_schedule_check(then, "then"), NULL);
    if (then->class_->rate == NULL) {
        hd_fail(HD_ERROR_VALUE, "`then` is \"%s\", which follows a metric and not the number of steps",
                then->class_->name);
        return NULL;
    }
    const course c = {.steps = (double)steps, .first = first, .last = 1};
    return hd_schedule_make(thread, &warm_up, then->optimizer, then, &c, sizeof c, NULL, 0);
}

/* ---- one cycle --------------------------------------------------------------------------------------------------- */
typedef struct cycle {
    int phases;
    bool linear;
    double end[3], rate[4]; /* phase i goes from rate[i] to rate[i + 1], until step end[i] */
} cycle;

static hd_tensor *rate_one_cycle(const hd_schedule *s, hd_tensor *base, hd_tensor *count) {
    const cycle *c = s->options;
    hd_tensor *rate = NULL;
    (void)base;
    count = hd_minimum_scalar(count, c->end[c->phases - 1]);
    for (int i = c->phases; i-- > 0;) {
        const double begin = i > 0 ? c->end[i - 1] : 0, from = c->rate[i], to = c->rate[i + 1];
        hd_tensor *part = hd_mul_scalar(hd_sub_scalar(count, begin), 1 / (c->end[i] - begin)), *here;
        if (c->linear)
            here = hd_add_scalar(hd_mul_scalar(part, to - from), from);
        else
            here = hd_add_scalar(hd_mul_scalar(hd_add_scalar(hd_cos(hd_mul_scalar(part, pi)), 1), (from - to) / 2), to);
        rate = rate == NULL ? here : hd_where(hd_le_scalar(count, c->end[i]), here, rate);
    }
    return rate;
}
static const hd_schedule_class one_cycle = {.name = "one_cycle", .rate = rate_one_cycle};

hd_schedule *hd_schedule_one_cycle(hd_optimizer *optimizer, double highest, int64_t steps,
                                   const hd_one_cycle_opts *opts) {
    HD_ENTER("hd_schedule_one_cycle", NULL);
    HD_READ_OPTS(hd_one_cycle_opts, opts, NULL);
    HD_TRY_OR(hd_optimizer_check_rate(highest), NULL);
    HD_TRY_OR(check_steps(steps), NULL);
    const double rising = hd_option_or(options.rising, 0.3), first = highest / hd_option_or(options.first, 25),
                 last = first / hd_option_or(options.last, 1e4), top = rising * (double)steps - 1,
                 end = (double)steps - 1;
    cycle c = {.phases = 2, .linear = options.linear, .end = {top, end}, .rate = {first, highest, last}};
    if (options.three_phases) {
        c.phases = 3;
        c.end[1] = 2 * rising * (double)steps - 2, c.end[2] = end;
        c.rate[2] = first, c.rate[3] = last;
    }
    bool fits = isfinite(first) && isfinite(last) && c.end[0] > 0;
    for (int i = 1; i < c.phases; ++i) fits = fits && c.end[i] > c.end[i - 1];
    if (!fits) {
        hd_fail(HD_ERROR_VALUE,
                "%lld steps, of which a share of %g rises from 1/%g of the highest rate and falls to 1/%g of that: "
                "every phase needs a step, and no divisor is 0",
                (long long)steps, rising, hd_option_or(options.first, 25), hd_option_or(options.last, 1e4));
        return NULL;
    }
    return hd_schedule_make(thread, &one_cycle, optimizer, NULL, &c, sizeof c, NULL, 0);
}

/* ---- of one's own ------------------------------------------------------------------------------------------------ */
typedef struct own {
    hd_rate_function fn;
    void *user;
} own;

static hd_tensor *rate_own(const hd_schedule *s, hd_tensor *base, hd_tensor *count) {
    const own *o = s->options;
    hd_tensor *rate;
    {
        hd_thread *thread = hd_thread_self();
        HD_CALLBACK(thread);
        rate = o->fn(base, count, o->user);
    }
    if (!hd_ok()) return NULL;
    if (hd_tensor_check(rate, "the rate") != HD_OK) return NULL;
    if (rate->count == 1) return hd_reshape(hd_cast(rate, HD_F64), HD_SHAPE());
    hd_fail(HD_ERROR_SHAPE, "the function gave a rate of shape %s; it has one element",
            HD_SHAPE_TEXT(rate->layout.shape));
    return NULL;
}
static const hd_schedule_class own_class = {.name = "own", .rate = rate_own};

hd_schedule *hd_schedule_own(hd_optimizer *optimizer, hd_rate_function fn, void *user) {
    HD_ENTER("hd_schedule_own", NULL);
    if (fn == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`fn` is NULL");
        return NULL;
    }
    const own o = {fn, user};
    return hd_schedule_make(thread, &own_class, optimizer, NULL, &o, sizeof o, NULL, 0);
}
