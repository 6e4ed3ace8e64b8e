/* Fused forms of composites: they are taken where they may be, give what the composite gives in a script, and depend
 * on neither layouts nor threads. Values and gradients are PyTorch's, in grad/golden, and differences, in
 * grad/families. */
#include "core/pool.h"
#include "differences.h"
#include "each_allocation.h"
#include "families.h"
#include "printed.h"

#define F HD_F32
#define S HD_SHAPE

/* ---- the calls --------------------------------------------------------------------------------------------------- */
typedef hd_tensor *form(hd_tensor *x, hd_tensor *w, hd_tensor *b);
static hd_tensor *groups(hd_tensor *x, hd_tensor *w, hd_tensor *b) { return hd_group_norm(x, 2, w, b, 1e-5); }
static hd_tensor *instances(hd_tensor *x, hd_tensor *w, hd_tensor *b) { return hd_instance_norm(x, w, b, 1e-5); }
static hd_tensor *batch(hd_tensor *x, hd_tensor *w, hd_tensor *b) {
    return hd_batch_norm(x, NULL, NULL, w, b, true, 0.1, 1e-5);
}
static hd_tensor *resized(hd_tensor *x, hd_tensor *w, hd_tensor *b) {
    return hd_mul(hd_resize(x, S(7, 33), HD_OPTS(hd_resize_opts, .mode = HD_RESIZE_LINEAR)),
                  hd_sum(hd_mul(w, b), HD_AXES(), NULL));
}
static hd_tensor *classes(hd_tensor *x, hd_tensor *w, hd_tensor *b) {
    hd_tensor *logits = hd_reshape(hd_mul(x, hd_reshape(hd_mul(w, b), S(4, 1, 1))), S(6, 40));
    return hd_cross_entropy(logits, HD_TENSOR_I64(S(6), 0, 39, 3, 3, 17, 20), NULL);
}
static const struct {
    const char *name, *calls; /* what a profile sees */
    form *form;
    bool same_bits; /* as the composite has */
} forms[] = {{"group_norm", "channel_norm", groups, false},
             {"instance_norm", "channel_norm", instances, false},
             {"batch_norm", "channel_norm", batch, false},
             {"resize", "interpolate", resized, true},
             {"cross_entropy", "cross_entropy", classes, true}};
enum { FORMS = sizeof forms / sizeof forms[0] };

/* The result and the gradients of x, w and b of one form. */
typedef struct results {
    hd_tensor *of[4];
} results;
static results run(form *f, hd_tensor *const in[3]) {
    hd_tensor *y = f(in[0], in[1], in[2]);
    hd_tensor *slopes = hd_add_scalar(hd_cos(hd_arange(0, (double)hd_tensor_count(y), 1, F)), 0.5);
    slopes = hd_cast(hd_reshape(slopes, hd_tensor_shape(y)), hd_tensor_dtype(y));
    hd_tensors *to = hd_grad_of(y, HD_TENSORS(in[0], in[1], in[2]), HD_OPTS(hd_grad_of_opts, .seed = slopes));
    results r = {.of = {hd_detach(y)}};
    for (int i = 0; i < 3; ++i) r.of[i + 1] = hd_tensors_get(to, i);
    assert_ok();
    return r;
}

/* The same recorded, at level O0: op after op of the composite. */
static results run_recorded(form *f, hd_tensor *const in[3]) {
    static const char *const names[] = {"y", "to x", "to w", "to b"};
    hd_builder *b = hd_builder_new("composite");
    hd_builder_start(b);
    results r = run(f, in);
    for (int i = 0; i < 4; ++i) hd_builder_add_output(b, names[i], hd_copy(r.of[i]));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_optimization_level(s, HD_O0);
    hd_outputs *out = hd_script_run(s);
    assert_ok();
    for (int i = 0; i < 4; ++i) r.of[i] = hd_outputs_get(out, names[i]);
    return r;
}

static void make_inputs(hd_dtype dtype, hd_tensor *in[3]) {
    in[0] = hd_param(hd_cast(fixture(S(3, 4, 5, 4), HD_F64), dtype));
    in[1] = hd_param(hd_cast(hd_add_scalar(fixture(S(4), HD_F64), 0.3), dtype));
    in[2] = hd_param(hd_cast(hd_sub_scalar(fixture(S(4), HD_F64), 0.7), dtype));
}

static void assert_near(hd_tensor *a, hd_tensor *b, double relative, const char *what) {
    char why[512] = "";
    hd_allclose_opts o = HD_DEFAULTS(hd_allclose_opts);
    o.relative = relative;
    o.absolute = relative;
    o.explain = why;
    o.explain_capacity = sizeof why;
    if (!hd_allclose(a, b, &o)) fail_msg("%s: %s", what, why);
}

static void forms_give_what_the_composite_gives(void **state) {
    (void)state;
    for (int k = 0; k < FORMS; ++k)
        for (int d = 0; d < 2; ++d) {
            HD_SCOPE;
            HD_GRAD_CONTEXT;
            hd_tensor *in[3];
            make_inputs(d == 0 ? HD_F32 : HD_F64, in);
            const results a = run(forms[k].form, in), b = run_recorded(forms[k].form, in);
            for (int i = 0; i < 4; ++i) {
                if (forms[k].same_bits && i == 0) assert_identical(a.of[i], b.of[i]);
                assert_near(a.of[i], b.of[i], d == 0 ? 2e-5 : 1e-13, forms[k].name);
            }
        }
}

/* ---- when they are taken ----------------------------------------------------------------------------------------- */
static void profiles_see_one_call(void **state) {
    (void)state;
    for (int k = 0; k < FORMS; ++k) {
        HD_SCOPE;
        HD_GRAD_CONTEXT;
        char text[8192], call[64];
        hd_tensor *in[3];
        make_inputs(HD_F32, in);
        const printed p = printed_begin();
        {
            HD_PROFILE(NULL);
            forms[k].form(in[0], in[1], in[2]);
        }
        printed_end(p, text, sizeof text);
        snprintf(call, sizeof call, "call    %s ", forms[k].calls);
        if (strstr(text, call) == NULL) fail_msg("%s: \"%s\"", forms[k].name, text);
        assert_null(strstr(text, k < 3 ? "call    rsqrt" : k == 3 ? "call    lerp" : "call    exp"));
    }
}

/* ---- layouts, threads, dtypes ------------------------------------------------------------------------------------ */
static void layouts_and_threads_change_nothing(void **state) {
    (void)state;
    for (int k = 0; k < FORMS; ++k) {
        HD_SCOPE;
        HD_GRAD_CONTEXT;
        hd_tensor *in[3], *turned[3];
        make_inputs(HD_F32, in);
        for (int i = 0; i < 3; ++i) turned[i] = in[i];
        turned[0] = hd_permute(hd_copy(hd_permute(hd_detach(in[0]), HD_AXES(3, 1, 0, 2))), HD_AXES(2, 1, 3, 0));
        turned[0] = hd_param(turned[0]);
        const results a = run(forms[k].form, in), b = run(forms[k].form, turned);
        const int before = hd_pool_limit(1);
        const results c = run(forms[k].form, in);
        hd_pool_limit(before);
        for (int i = 0; i < 4; ++i) {
            assert_identical(a.of[i], b.of[i]);
            assert_identical(a.of[i], c.of[i]);
        }
    }
}

/* Small floats are computed in f32 and rounded once. */
static void small_floats_are_rounded_once(void **state) {
    (void)state;
    for (int k = 0; k < 4; ++k) {
        HD_SCOPE;
        HD_NO_GRAD;
        hd_tensor *in[3], *wide[3];
        make_inputs(HD_BF16, in);
        for (int i = 0; i < 3; ++i) wide[i] = hd_cast(in[i], F);
        if (k == 3) { /* of resize alone */
            hd_resize_opts o = HD_DEFAULTS(hd_resize_opts);
            o.mode = HD_RESIZE_LINEAR;
            assert_identical(hd_resize(in[0], S(7, 33), &o), hd_cast(hd_resize(wide[0], S(7, 33), &o), HD_BF16));
        } else {
            assert_identical(forms[k].form(in[0], in[1], in[2]),
                             hd_cast(forms[k].form(wide[0], wide[1], wide[2]), HD_BF16));
        }
    }
}

/* Far from 0 what a mean loses when it is rounded is most of what is left. */
static void nothing_cancels_far_from_zero(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_add_scalar(hd_cast(fixture(S(4, 3, 25), HD_F64), F), 5000);
    hd_tensor *wide = hd_cast(x, HD_F64);
    assert_near(hd_cast(batch(x, NULL, NULL), HD_F64), batch(wide, NULL, NULL), 2e-6, "batch_norm");
    assert_near(hd_cast(instances(x, NULL, NULL), HD_F64), instances(wide, NULL, NULL), 2e-6, "instance_norm");
}

/* ---- what may fail ----------------------------------------------------------------------------------------------- */
static void errors_are_those_of_the_composite(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_zeros(S(2, 3), F);
    assert_null(hd_cross_entropy(x, HD_TENSOR_I64(S(2), 0, 3), NULL));
    assert_error(HD_ERROR_INDEX, "hd_cross_entropy: index 3 at place 1 of [2,1] is out of range for an axis of size 3");
    assert_null(hd_cross_entropy(x, HD_TENSOR_I64(S(2), -1, 0), NULL));
    assert_error(HD_ERROR_INDEX, "hd_cross_entropy: a class number of -1; they begin at 0");
}

/* What a row of infinities gives, and a NaN. */
static void extremes_are_those_of_the_composite(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(S(4, 3), -INFINITY, 1, 2, INFINITY, 0, 1, NAN, 0, 0, -INFINITY, -INFINITY, -INFINITY);
    hd_tensor *each = hd_cross_entropy(x, HD_TENSOR_I64(S(4), 0, 0, 1, 2),
                                       HD_OPTS(hd_cross_entropy_opts, .reduction = HD_REDUCTION_NONE));
    assert_values(each, F, INFINITY, NAN, NAN, NAN);
}

static void all_of_them(void) {
    for (int k = 0; k < FORMS && hd_ok(); ++k) {
        HD_SCOPE;
        HD_GRAD_CONTEXT;
        hd_tensor *x = hd_param(hd_ones(S(3, 4, 5, 4), F)), *w = hd_param(hd_ones(S(4), F)),
                  *b = hd_param(hd_ones(S(4), F));
        hd_backward(hd_sum(forms[k].form(x, w, b), HD_AXES(), NULL));
    }
}
static void every_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(all_of_them, 4000);
}

RUN_ON_THE_CPU("fused forms are the CPU's", test(forms_give_what_the_composite_gives), test(profiles_see_one_call),
               test(layouts_and_threads_change_nothing), test(small_floats_are_rounded_once),
               test(nothing_cancels_far_from_zero), test(errors_are_those_of_the_composite),
               test(extremes_are_those_of_the_composite), test(every_allocation_may_fail))
