/* Gradients that are too long are made shorter, by ops alone. */
#include "optim/optimizer.h"
#include "core/undo.h"

#include <math.h>

/* The gradient of parameter i, if a step would use it; else NULL, without an error. */
static hd_tensor *due(hd_thread *thread, const hd_tensors *parameters, int64_t i) {
    hd_tensor *p = parameters->items[i];
    return thread->error_code == HD_OK && hd_is_due(thread, p) ? hd_grad(p) : NULL;
}

/* What a gradient adds to the sum, of which the norm is the root: the sum of |g|^p, or the largest |g|. */
static hd_tensor *share_of(hd_tensor *g, double p) {
    g = hd_cast(g, hd_update_dtype(g));
    if (p == 2) return hd_sum(hd_square(g), HD_AXES(), NULL);
    if (isinf(p)) return hd_norm(g, p, HD_AXES(), NULL);
    return hd_sum(hd_pow_scalar(hd_abs(g), p), HD_AXES(), NULL);
}

static hd_tensor *norm_of(hd_thread *thread, const hd_tensors *parameters, double p) {
    hd_tensor *sum = NULL;
    for (int64_t i = 0; i < parameters->count; ++i) {
        hd_tensor *g = due(thread, parameters, i), *share = g != NULL ? share_of(g, p) : NULL;
        if (share != NULL) sum = sum == NULL ? share : isinf(p) ? hd_maximum(sum, share) : hd_add(sum, share);
    }
    if (thread->error_code != HD_OK) return NULL;
    if (sum == NULL) return hd_scalar(0, HD_F32);
    return isinf(p) ? sum : p == 2 ? hd_sqrt(sum) : hd_pow_scalar(sum, 1 / p);
}

hd_tensor *hd_clip_grad_norm(hd_tensors *parameters, double max_norm, const hd_clip_grad_opts *opts) {
    HD_ENTER("hd_clip_grad_norm", NULL);
    HD_READ_OPTS(hd_clip_grad_opts, opts, NULL);
    HD_TRY_OR(hd_tensors_check(parameters, "parameters"), NULL);
    const double p = options.norm == 0 ? 2 : options.norm;
    if (!hd_is_not_negative(max_norm) || !(p > 0)) {
        hd_fail(HD_ERROR_VALUE, "max_norm %g, norm %g: the first is finite and not negative, the second above 0",
                max_norm, p);
        return NULL;
    }
    hd_undo *undo = hd_undo_begin(thread);
    if (undo == NULL) return NULL;
    HD_NO_GRAD;
    hd_span span;
    hd_span_begin(&span, thread, "clip_grad_norm");
    hd_tensor *norm = norm_of(thread, parameters, p);
    hd_tensor *factor = hd_minimum_scalar(hd_rdiv_scalar(hd_add_scalar(norm, 1e-6), max_norm), 1);
    for (int64_t i = 0; i < parameters->count; ++i) {
        hd_tensor *g = due(thread, parameters, i);
        if (g != NULL) hd_mul_(g, hd_cast(factor, hd_update_dtype(g)));
    }
    hd_undo_end(undo, thread->error_code == HD_OK);
    return hd_span_end(&span, norm);
}

void hd_clip_grad_value(hd_tensors *parameters, double value) {
    HD_ENTER("hd_clip_grad_value", );
    if (hd_tensors_check(parameters, "parameters") != HD_OK) return;
    if (!hd_is_not_negative(value)) {
        hd_fail(HD_ERROR_VALUE, "a value of %g; it must be finite and not negative", value);
        return;
    }
    hd_undo *undo = hd_undo_begin(thread);
    if (undo == NULL) return;
    HD_NO_GRAD;
    hd_span span;
    hd_span_begin(&span, thread, "clip_grad_value");
    for (int64_t i = 0; i < parameters->count; ++i) {
        hd_tensor *g = due(thread, parameters, i);
        if (g != NULL) hd_assign(g, hd_clamp(g, -value, value));
    }
    hd_undo_end(undo, thread->error_code == HD_OK);
    hd_span_end(&span, NULL);
}
