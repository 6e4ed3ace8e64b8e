/* Optimizers: what they share, SGD and Adam. */
#include "optim/optimizer.h"
#include "core/away.h"
#include "core/undo.h"
#include "grad/tape.h"

#include <math.h>
#include <stdio.h>

enum { MAX_SLOTS = 4 };

struct hd_optimizer {
    hd_object object;
    const hd_optimizer_class *class_;
    void *state;
    hd_tensors *parameters;           /* retained, as are the tensors below */
    hd_tensor *learning_rate, *steps; /* rank 0, f64: state that a script can carry */
    hd_tensor *(*slots)[MAX_SLOTS];   /* of each parameter; made at its first update */
    bool warned;                      /* of a step without gradients */
};

static void optimizer_destroy(hd_thread *thread, hd_object *object) {
    hd_optimizer *o = (hd_optimizer *)object;
    for (int64_t i = 0; o->slots != NULL && i < o->parameters->count; ++i)
        for (int k = 0; k < MAX_SLOTS; ++k) hd_tensor_drop(thread, o->slots[i][k]);
    hd_array_release(o->slots);
    hd_tensor_drop(thread, o->learning_rate);
    hd_tensor_drop(thread, o->steps);
    if (o->parameters != NULL) hd_object_release(thread, &o->parameters->object);
    if (o->class_->destroy != NULL) {
        HD_CALLBACK(thread);
        o->class_->destroy(o->state);
    }
    hd_object_bury(thread, object);
}
static const char *optimizer_title(const hd_object *object) {
    const hd_optimizer_class *c = ((const hd_optimizer *)object)->class_;
    return c->name != NULL ? c->name : "";
}
static const hd_kind optimizer_kind = {
    .name = "optimizer",
    .destroy = optimizer_destroy,
    .title = optimizer_title,
    .remedy = "one thread at a time may use it: step on one thread when the others have added their gradients"};

static hd_error optimizer_check(const hd_optimizer *o) {
    if (o == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`optimizer` is NULL");
    if (o->object.kind == &optimizer_kind) return HD_OK;
    return hd_fail(o->object.kind == &hd_kind_released ? HD_ERROR_RELEASED : HD_ERROR_STATE,
                   "`optimizer` is no living optimizer");
}

static hd_error check_parameters(const hd_tensors *parameters) {
    HD_TRY(hd_tensors_check(parameters, "parameters"));
    if (parameters->count == 0) return hd_fail(HD_ERROR_VALUE, "there are no parameters");
    int64_t tracked = 0;
    for (int64_t i = 0; i < parameters->count; ++i) {
        const hd_tensor *p = parameters->items[i];
        tracked += p->tracking == HD_TRACKED_LEAF;
        if (p->tracking == HD_TRACKED_RESULT || !hd_dtype_is_float((hd_dtype)p->dtype))
            return hd_fail(HD_ERROR_VALUE,
                           "parameter %lld, %s of %s, is no leaf that requires a gradient; hd_param makes one",
                           (long long)i, HD_SHAPE_TEXT(p->layout.shape), hd_dtype_name((hd_dtype)p->dtype));
        for (int64_t k = 0; k < i; ++k)
            if (parameters->items[k] == p)
                return hd_fail(HD_ERROR_VALUE, "parameters %lld and %lld are one tensor; it would be updated twice",
                               (long long)k, (long long)i);
    }
    if (tracked == 0) /* those that are frozen are passed over, until hd_requires_grad */
        return hd_fail(HD_ERROR_VALUE, "none of the %lld parameters requires a gradient; hd_requires_grad or hd_param",
                       (long long)parameters->count);
    return HD_OK;
}

hd_optimizer *hd_optimizer_new(const hd_optimizer_class *class_, void *state, hd_tensors *parameters,
                               double learning_rate) {
    HD_ENTER("hd_optimizer_new", NULL);
    if (class_ == NULL || class_->update == NULL || class_->slots < 0 || class_->slots > MAX_SLOTS) {
        hd_fail(HD_ERROR_VALUE, "`class_` needs an update function and 0 to %d slots", (int)MAX_SLOTS);
        return NULL;
    }
    HD_TRY_OR(check_parameters(parameters), NULL);
    if (!(learning_rate >= 0) || isinf(learning_rate)) {
        hd_fail(HD_ERROR_VALUE, "a learning rate of %g; it must be finite and not negative", learning_rate);
        return NULL;
    }
    hd_optimizer *o = hd_array_resize(NULL, sizeof *o);
    if (o == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for an optimizer");
        return NULL;
    }
    static const hd_optimizer_class not_yet = {.name = "optimizer"}; /* on failure the state stays the caller's */
    *o = (hd_optimizer){.class_ = &not_yet};
    hd_object_init(&o->object, &optimizer_kind);
    hd_count(&thread->live_objects, 1);
    hd_object_retain(&parameters->object);
    o->parameters = parameters;
    o->learning_rate = hd_tensor_scalar(thread, HD_F64, learning_rate);
    o->steps = hd_tensor_scalar(thread, HD_F64, 0);
    o->slots = hd_array_resize(NULL, (size_t)parameters->count * sizeof *o->slots);
    for (int64_t i = 0; o->slots != NULL && i < parameters->count; ++i)
        for (int k = 0; k < MAX_SLOTS; ++k) o->slots[i][k] = NULL;
    if (o->slots == NULL) hd_fail(HD_ERROR_MEMORY, "no memory for an optimizer");
    if (thread->error_code != HD_OK) {
        hd_object_release(thread, &o->object);
        return NULL;
    }
    if (hd_scope_own(thread, &o->object) != HD_OK) return NULL;
    o->class_ = class_;
    o->state = state;
    return o;
}

/* ---- using one --------------------------------------------------------------------------------------------------- */
/* Small floats are updated in f32, and rounded once: epsilon and moments would vanish in them. */
static hd_dtype update_dtype(const hd_tensor *p) {
    return hd_dtype_is_small_float((hd_dtype)p->dtype) ? HD_F32 : (hd_dtype)p->dtype;
}

/* What a parameter needs is made at its first update, at once, also inside a builder. */
static hd_error make_slots(hd_thread *thread, hd_optimizer *o, int64_t i) {
    const hd_tensor *p = o->parameters->items[i];
    for (int k = 0; k < o->class_->slots; ++k) {
        HD_EAGER;
        hd_tensor *slot = o->slots[i][k];
        if (slot != NULL &&
            !hd_device_equal(slot->storage->device, p->storage->device)) { /* it follows its parameter */
            hd_tensor *moved = hd_to(slot, p->storage->device);
            if (moved == NULL) return thread->error_code;
            hd_object_retain(&moved->object);
            hd_object_release(thread, &slot->object);
            o->slots[i][k] = moved;
        }
        if (slot != NULL) continue;
        hd_tensor *zeros = hd_full_beside(p, p->layout.shape, update_dtype(p), 0);
        if (zeros == NULL) return thread->error_code;
        hd_object_retain(&zeros->object);
        hd_undo_adopt(zeros->storage); /* a step that fails leaves zeros */
        o->slots[i][k] = zeros;
    }
    return HD_OK;
}

hd_error hd_optimizer_each(hd_thread *thread, hd_optimizer *o, hd_error (*visit)(void *, const char *, hd_tensor *),
                           void *user) {
    HD_TRY(optimizer_check(o));
    hd_use use __attribute__((cleanup(hd_use_end)));
    HD_TRY(hd_use_begin(&use, thread, &o->object, false));
    HD_TRY(visit(user, "learning_rate", o->learning_rate));
    HD_TRY(visit(user, "steps", o->steps));
    for (int64_t i = 0; i < o->parameters->count; ++i) {
        HD_TRY(make_slots(thread, o, i));
        for (int k = 0; k < o->class_->slots; ++k) {
            char name[48];
            snprintf(name, sizeof name, "slot%d.%lld", k, (long long)i);
            HD_TRY(visit(user, name, o->slots[i][k]));
        }
    }
    return HD_OK;
}

static void sgd_update(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot);
static void adam_update(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot);

static hd_error update_parameter(hd_thread *thread, hd_optimizer *o, int64_t i) {
    hd_tensor *p = o->parameters->items[i];
    HD_TRY(make_slots(thread, o, i));
    hd_tensor *gradient = hd_grad(p);
    if (gradient == NULL) return thread->error_code;
    if (o->class_->update != sgd_update && o->class_->update != adam_update) {
        HD_CALLBACK(thread);
        o->class_->update(o, o->state, p, gradient, o->slots[i]); /* may keep what it makes until the step ends */
    } else {
        hd_scope_token scope = hd_scope_within(thread, &scope); /* so that the next one works in the same memory */
        o->class_->update(o, o->state, p, gradient, o->slots[i]);
        hd_scope_close(thread, &scope);
    }
    return thread->error_code;
}

/* One that is frozen keeps the gradient that it had then, and nobody wants to follow that any more. */
static bool is_frozen(const hd_tensor *p) { return p->tracking != HD_TRACKED_LEAF; }
static bool is_due(hd_thread *thread, const hd_tensor *p) { return !is_frozen(p) && hd_gradient_arrived(thread, p); }

/* Without any there is nothing to do, and the step does not count; which is said once. */
static bool any_is_due(hd_thread *thread, hd_optimizer *o) {
    int64_t trained = 0;
    for (int64_t i = 0; i < o->parameters->count; ++i) {
        if (is_due(thread, o->parameters->items[i])) return true;
        trained += !is_frozen(o->parameters->items[i]);
    }
    if (thread->error_code != HD_OK) return false;
    if (!o->warned)
        hd_warn(
            thread,
            "hd_optimizer_step: no gradient arrived at any of the %lld parameters%s since the last zero_grad: nothing "
            "is updated, and the step does not count. hd_backward of a loss that depends on them comes before",
            (long long)trained, trained < o->parameters->count ? " that are not frozen" : "");
    o->warned = true;
    return false;
}

/* All or nothing: what a step has written is taken back when it fails, and it is not counted. */
void hd_optimizer_step(hd_optimizer *optimizer) {
    HD_ENTER("hd_optimizer_step", );
    if (optimizer_check(optimizer) != HD_OK) return;
    HD_USE(&optimizer->object, false, );
    if (!any_is_due(thread, optimizer)) return;
    hd_undo *undo = hd_undo_begin(thread);
    if (undo == NULL) return;
    HD_NO_GRAD;
    hd_span span;
    hd_span_begin(&span, thread, "optimizer_step");
    hd_assign(optimizer->steps, hd_add_scalar(optimizer->steps, 1));
    if (optimizer->class_->begin != NULL) {
        HD_CALLBACK(thread);
        optimizer->class_->begin(optimizer, optimizer->state);
    }
    for (int64_t i = 0; i < optimizer->parameters->count && thread->error_code == HD_OK; ++i)
        if (is_due(thread, optimizer->parameters->items[i])) update_parameter(thread, optimizer, i);
    hd_undo_end(undo, thread->error_code == HD_OK);
    hd_span_end(&span, NULL);
}

void hd_optimizer_zero_grad(hd_optimizer *optimizer) {
    HD_ENTER("hd_optimizer_zero_grad", );
    if (optimizer_check(optimizer) != HD_OK) return;
    HD_USE(&optimizer->object, true, );
    HD_KEEP_NAME(thread);
    for (int64_t i = 0; i < optimizer->parameters->count; ++i) {
        hd_tensor *p = optimizer->parameters->items[i];
        if (!is_frozen(p) || hd_has_grad(p)) hd_zero_grad(p); /* one that has always been frozen has none */
    }
    hd_clear_default_context_tape();
}

hd_tensor *hd_optimizer_learning_rate(hd_optimizer *optimizer) {
    HD_ENTER("hd_optimizer_learning_rate", NULL);
    HD_TRY_OR(optimizer_check(optimizer), NULL);
    return hd_scope_share(thread, &optimizer->learning_rate->object);
}

hd_tensor *hd_optimizer_steps(hd_optimizer *optimizer) {
    HD_ENTER("hd_optimizer_steps", NULL);
    HD_TRY_OR(optimizer_check(optimizer), NULL);
    return hd_scope_share(thread, &optimizer->steps->object);
}

hd_tensors *hd_optimizer_parameters(hd_optimizer *optimizer) {
    HD_ENTER("hd_optimizer_parameters", NULL);
    HD_TRY_OR(optimizer_check(optimizer), NULL);
    return hd_scope_share(thread, &optimizer->parameters->object);
}

void hd_optimizer_set_learning_rate(hd_optimizer *optimizer, double learning_rate) {
    HD_ENTER("hd_optimizer_set_learning_rate", );
    if (optimizer_check(optimizer) != HD_OK) return;
    if (!(learning_rate >= 0) || isinf(learning_rate)) {
        hd_fail(HD_ERROR_VALUE, "a learning rate of %g; it must be finite and not negative", learning_rate);
        return;
    }
    HD_USE(&optimizer->object, true, ); /* a schedule may set it when a step begins */
    HD_KEEP_NAME(thread);
    hd_fill(optimizer->learning_rate, learning_rate);
}

/* ---- SGD --------------------------------------------------------------------------------------------------------- */
static void sgd_update(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    const hd_sgd_opts *opts = state;
    const hd_dtype dtype = update_dtype(p);
    hd_tensor *value = hd_cast(p, dtype);
    g = hd_cast(g, dtype);
    if (opts->weight_decay != 0) g = hd_add(g, hd_mul_scalar(value, opts->weight_decay));
    if (opts->momentum != 0) {
        hd_tensor *fresh = hd_mul_scalar(g, 1 - opts->dampening), *kept = hd_mul_scalar(slot[0], opts->momentum);
        hd_tensor *moved = hd_add(kept, fresh);
        if (opts->dampening != 0)
            moved = hd_where(hd_eq_scalar(o->steps, 1), g, moved); /* the first gradient counts whole */
        hd_assign(slot[0], moved);
        g = opts->nesterov ? hd_add(g, hd_mul_scalar(slot[0], opts->momentum)) : slot[0];
    }
    hd_assign(p, hd_addcmul(value, hd_cast(o->learning_rate, dtype), g, -1));
}
static bool not_negative(double v) { return v >= 0 && isfinite(v); }

static const hd_optimizer_class sgd_class = {
    .name = "sgd", .slots = 0, .update = sgd_update, .destroy = hd_array_release};
static const hd_optimizer_class sgd_with_momentum = {
    .name = "sgd", .slots = 1, .update = sgd_update, .destroy = hd_array_release};

static hd_optimizer *with_state(hd_thread *thread, const hd_optimizer_class *class_, const void *opts, size_t bytes,
                                hd_tensors *parameters, double learning_rate) {
    void *state = hd_array_resize(NULL, bytes);
    if (state == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for an optimizer");
        return NULL;
    }
    __builtin_memcpy(state, opts, bytes);
    HD_KEEP_NAME(thread);
    hd_optimizer *o = hd_optimizer_new(class_, state, parameters, learning_rate);
    if (o == NULL) hd_array_release(state);
    return o;
}

hd_optimizer *hd_sgd(hd_tensors *parameters, double learning_rate, const hd_sgd_opts *opts) {
    HD_ENTER("hd_sgd", NULL);
    HD_READ_OPTS(hd_sgd_opts, opts, NULL);
    if (!not_negative(options.momentum) || !not_negative(options.dampening) || !not_negative(options.weight_decay) ||
        (options.nesterov && (options.momentum == 0 || options.dampening != 0))) {
        hd_fail(HD_ERROR_VALUE,
                "momentum %g, dampening %g, weight_decay %g%s: none may be negative, and nesterov needs "
                "momentum without dampening",
                options.momentum, options.dampening, options.weight_decay, options.nesterov ? ", nesterov" : "");
        return NULL;
    }
    return with_state(thread, options.momentum != 0 ? &sgd_with_momentum : &sgd_class, &options, sizeof options,
                      parameters, learning_rate);
}

/* ---- Adam -------------------------------------------------------------------------------------------------------- */
/* Bias corrections follow from the step count as tensors, so that a captured step stays right at every run. */
static void adam_update(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    const hd_adam_opts *opts = state;
    const hd_dtype dtype = update_dtype(p);
    hd_tensor *value = hd_cast(p, dtype);
    g = hd_cast(g, dtype);
    if (opts->weight_decay != 0) g = hd_add(g, hd_mul_scalar(value, opts->weight_decay));
    hd_tensor *m = slot[0], *v = slot[1];
    /* one after the other: compilers evaluate arguments in different orders, and a recorded step should be the same
     * graph */
    hd_tensor *fresh = hd_mul_scalar(g, 1 - opts->beta1), *kept = hd_mul_scalar(m, opts->beta1);
    hd_assign(m, hd_add(kept, fresh));
    fresh = hd_mul_scalar(hd_square(g), 1 - opts->beta2);
    kept = hd_mul_scalar(v, opts->beta2);
    hd_assign(v, hd_add(kept, fresh));
    hd_tensor *correction1 = hd_rsub_scalar(hd_rpow_scalar(o->steps, opts->beta1), 1);
    hd_tensor *correction2 = hd_rsub_scalar(hd_rpow_scalar(o->steps, opts->beta2), 1);
    hd_tensor *rate = hd_cast(hd_div(o->learning_rate, correction1), dtype);
    hd_tensor *root = hd_mul(hd_sqrt(v), hd_cast(hd_rsqrt(correction2), dtype));
    hd_assign(p, hd_sub(value, hd_mul(hd_div(m, hd_add_scalar(root, opts->epsilon)), rate)));
}
static const hd_optimizer_class adam_class = {
    .name = "adam", .slots = 2, .update = adam_update, .destroy = hd_array_release};

hd_optimizer *hd_adam(hd_tensors *parameters, double learning_rate, const hd_adam_opts *opts) {
    HD_ENTER("hd_adam", NULL);
    HD_READ_OPTS(hd_adam_opts, opts, NULL);
    if (options.beta1 == 0) options.beta1 = signbit(options.beta1) ? 0 : 0.9;
    if (options.beta2 == 0) options.beta2 = signbit(options.beta2) ? 0 : 0.999;
    if (options.epsilon == 0) options.epsilon = 1e-8;
    if (!(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1 && options.epsilon > 0 &&
          isfinite(options.epsilon) && not_negative(options.weight_decay))) {
        hd_fail(HD_ERROR_VALUE,
                "beta1 %g, beta2 %g, epsilon %g, weight_decay %g: betas are in [0, 1), epsilon is > 0, the "
                "decay not negative",
                options.beta1, options.beta2, options.epsilon, options.weight_decay);
        return NULL;
    }
    return with_state(thread, &adam_class, &options, sizeof options, parameters, learning_rate);
}
