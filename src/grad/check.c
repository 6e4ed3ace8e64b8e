/* hd_gradcheck: gradients against central differences in f64. */
#include "grad/tape.h"

#include <math.h>
#include <stdio.h>

typedef struct check {
    hd_function fn;
    void *user;
    hd_tensors *inputs;
    hd_gradcheck_opts opts;
    hd_tensors *directions; /* second order: the function is the gradients of fn times these */
} check;

/* Weights that are not equal, so that errors do not cancel in their sum. */
static hd_tensor *weighted_sum(hd_tensor *y) {
    hd_tensor *f = hd_cast(y, HD_F64);
    if (hd_tensor_count(y) == 1) return hd_sum(f, HD_AXES(), NULL);
    hd_tensor *weights =
        hd_reshape(hd_add_scalar(hd_cos(hd_range(1, 1, hd_tensor_count(y), HD_F64)), 0.25), hd_tensor_shape(y));
    return hd_sum(hd_mul(f, weights), HD_AXES(), NULL);
}

/* The scalar that is differentiated: fn itself, or, for the second order, its gradients along the directions. */
static hd_tensor *value_of(const check *c, hd_tensors *inputs) {
    hd_thread *thread = hd_thread_self();
    hd_tensor *y;
    {
        HD_CALLBACK(thread);
        y = c->fn(inputs, c->user);
    }
    if (thread->error_code != HD_OK || hd_tensor_check(y, "the result of fn") != HD_OK) return NULL;
    hd_tensor *value = weighted_sum(y);
    if (c->directions == NULL || value == NULL || value->tracking == HD_UNTRACKED) return value;
    hd_tensors *floats = hd_tensors_new(thread, c->directions->count);
    for (int64_t i = 0, k = 0; floats != NULL && i < inputs->count; ++i)
        if (inputs->items[i]->dtype == HD_F64) hd_tensors_put(floats, k++, inputs->items[i]);
    hd_tensors *gradients =
        floats == NULL ? NULL : hd_grad_of(value, floats, HD_OPTS(hd_grad_of_opts, .differentiable = true));
    hd_tensor *sum = NULL;
    for (int64_t i = 0; gradients != NULL && i < gradients->count; ++i) {
        hd_tensor *part = hd_sum(hd_mul(gradients->items[i], c->directions->items[i]), HD_AXES(), NULL);
        sum = sum == NULL ? part : hd_add(sum, part);
    }
    return sum;
}

/* Copies of the inputs; the floats among them are leaves, with element `index` of input `which` moved by `by`. */
static hd_tensors *moved_inputs(hd_thread *thread, const check *c, int64_t which, int64_t index, double by) {
    hd_tensors *list = hd_tensors_new(thread, c->inputs->count);
    for (int64_t i = 0; list != NULL && i < c->inputs->count; ++i) {
        hd_tensor *t = c->inputs->items[i];
        if (t->dtype == HD_F64) {
            t = hd_copy(hd_detach(t));
            double *values = t == NULL ? NULL : hd_data_mut(t, HD_F64);
            if (values == NULL) return NULL;
            if (i == which) values[index] += by;
            hd_requires_grad(t);
        }
        hd_tensors_put(list, i, t);
    }
    return list;
}

static double value_at(hd_thread *thread, const check *c, int64_t which, int64_t index, double by) {
    hd_span span;
    hd_span_begin(&span, thread, "gradcheck");
    hd_tensors *inputs = moved_inputs(thread, c, which, index, by);
    const double value = inputs == NULL ? NAN : hd_item(value_of(c, inputs));
    hd_span_end(&span, NULL);
    return value;
}

static bool compare_gradient(hd_thread *thread, const check *c, const hd_tensors *gradients, const char *order) {
    for (int64_t i = 0, k = 0; i < c->inputs->count; ++i) {
        const hd_tensor *t = c->inputs->items[i];
        if (t->dtype != HD_F64) continue;
        hd_tensor *g = hd_contiguous(gradients->items[k++]);
        const double *ours = g == NULL ? NULL : hd_data(g, HD_F64);
        for (int64_t e = 0; ours != NULL && e < t->count; ++e) {
            HD_GRAD_CONTEXT; /* what the differences note on a tape goes at once */
            const double h = c->opts.step;
            const double theirs = (8 * (value_at(thread, c, i, e, h) - value_at(thread, c, i, e, -h)) -
                                   (value_at(thread, c, i, e, 2 * h) - value_at(thread, c, i, e, -2 * h))) /
                                  (12 * h);
            if (thread->error_code != HD_OK) return false;
            if (fabs(ours[e] - theirs) <= c->opts.absolute + c->opts.relative * fabs(theirs)) continue;
            if (c->opts.explain != NULL)
                snprintf(c->opts.explain, c->opts.explain_capacity,
                         "%s: input %lld, element %lld of %s: the gradient is %.10g, by differences %.10g", order,
                         (long long)i, (long long)e, HD_SHAPE_TEXT(t->layout.shape), ours[e], theirs);
            return false;
        }
    }
    return thread->error_code == HD_OK;
}

static bool run_check(hd_thread *thread, const check *c, const char *order) {
    HD_GRAD_CONTEXT;
    hd_tensors *inputs = moved_inputs(thread, c, -1, 0, 0);
    hd_tensor *value = inputs == NULL ? NULL : value_of(c, inputs);
    if (value == NULL) return false;
    hd_tensors *floats = hd_tensors_new(thread, c->inputs->count), *gradients = NULL;
    int64_t count = 0;
    for (int64_t i = 0; floats != NULL && i < inputs->count; ++i)
        if (inputs->items[i]->dtype == HD_F64) hd_tensors_put(floats, count++, inputs->items[i]);
    if (floats == NULL) return false;
    floats->count = count;
    if (value->tracking != HD_UNTRACKED) {
        gradients = hd_grad_of(value, floats, NULL);
    } else { /* a constant */
        gradients = hd_tensors_new(thread, count);
        for (int64_t i = 0; gradients != NULL && i < count; ++i) {
            hd_tensor *zeros = hd_zeros(floats->items[i]->layout.shape, HD_F64);
            if (zeros == NULL) return false;
            hd_tensors_put(gradients, i, zeros);
        }
    }
    return gradients != NULL && compare_gradient(thread, c, gradients, order);
}

static hd_tensors *directions_for(hd_thread *thread, const hd_tensors *inputs) {
    int64_t count = 0;
    for (int64_t i = 0; i < inputs->count; ++i) count += inputs->items[i]->dtype == HD_F64;
    hd_tensors *list = hd_tensors_new(thread, count);
    for (int64_t i = 0, k = 0; list != NULL && i < inputs->count; ++i) {
        const hd_tensor *t = inputs->items[i];
        if (t->dtype != HD_F64) continue;
        hd_tensor *d =
            hd_reshape(hd_add_scalar(hd_sin(hd_range(1 + (double)i, 1, t->count, HD_F64)), 0.5), t->layout.shape);
        if (d == NULL) return NULL;
        hd_tensors_put(list, k++, d);
    }
    return list;
}

bool hd_gradcheck(hd_function fn, void *user, hd_tensors *inputs, const hd_gradcheck_opts *opts) {
    HD_ENTER("hd_gradcheck", false);
    HD_READ_OPTS(hd_gradcheck_opts, opts, false);
    HD_TRY_OR(hd_tensors_check(inputs, "inputs"), false);
    if (fn == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`fn` is NULL");
        return false;
    }
    int64_t floats = 0;
    for (int64_t i = 0; i < inputs->count; ++i) {
        const hd_dtype dtype = (hd_dtype)inputs->items[i]->dtype;
        floats += dtype == HD_F64;
        if (hd_dtype_is_float(dtype) && dtype != HD_F64) {
            hd_fail(HD_ERROR_DTYPE, "input %lld is %s; differences need f64: hd_cast it", (long long)i,
                    hd_dtype_name(dtype));
            return false;
        }
    }
    if (floats == 0) {
        hd_fail(HD_ERROR_VALUE, "none of the %lld inputs is a float", (long long)inputs->count);
        return false;
    }
    if (thread->observer == NULL || thread->observer->writes == NULL) {
        hd_fail(HD_ERROR_STATE, "under HD_NO_GRAD nothing is on a tape; call it outside that block");
        return false;
    }
    check c = {.fn = fn, .user = user, .inputs = inputs, .opts = options};
    if (c.opts.step == 0) c.opts.step = 1e-4;
    if (c.opts.relative == 0) c.opts.relative = 1e-5;
    if (c.opts.absolute == 0) c.opts.absolute = 1e-7;
    if (c.opts.explain != NULL && c.opts.explain_capacity > 0) c.opts.explain[0] = '\0';
    hd_span span;
    hd_span_begin(&span, thread, "gradcheck");
    bool good = run_check(thread, &c, "first order");
    if (good && options.second_order) {
        c.directions = directions_for(thread, inputs);
        good = c.directions != NULL && run_check(thread, &c, "second order");
    }
    hd_span_end(&span, NULL);
    return good;
}
