/* What must not be asked of tapes, leaves, optimizers and modules: each is an error that says what and why, and leaves
 * the tape as it was. */
#include "support.h"

#include <math.h>
#include <pthread.h>

/* Something on the tape before each error; right afterwards, it is still there. */
typedef struct before {
    hd_tensor *x, *loss;
    int64_t length;
} before;
static before begin(void) {
    before b = {.x = hd_param(hd_full(HD_SHAPE(), HD_F32, 3))};
    b.loss = hd_mul(b.x, b.x);
    b.length = hd_tape_length();
    return b;
}
/* The error that is pending is this one, and nothing else has changed. */
#define assert_only_error(b, code, text)                                                                               \
    do {                                                                                                               \
        const double known = hd_has_grad((b)->x) ? 1 : 0;                                                              \
        assert_error(code, text);                                                                                      \
        assert_true(known == 0);                                                                                       \
        assert_true(hd_tape_length() >= (b)->length);                                                                  \
        hd_backward((b)->loss);                                                                                        \
        assert_ok();                                                                                                   \
        assert_true(hd_item(hd_grad((b)->x)) == 6);                                                                    \
        hd_set_grad((b)->x, NULL);                                                                                     \
    } while (0)

/* ---- backward ---------------------------------------------------------------------------------------------------- */
static void backward_before_any_op(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_backward(x);
    assert_error(HD_ERROR_STATE, "leaf");
    const before b = begin();
    hd_backward(b.x);
    assert_only_error(&b, HD_ERROR_STATE, "leaf");
}

static void backward_from_a_tensor_without_history(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    hd_tensor *plain = hd_ones(HD_SHAPE(2), HD_F32);
    hd_backward(plain);
    assert_only_error(&b, HD_ERROR_STATE, "no history");
    hd_backward(hd_exp(plain));
    assert_only_error(&b, HD_ERROR_STATE, "no history");
    hd_backward(hd_detach(b.loss));
    assert_only_error(&b, HD_ERROR_STATE, "no history");
    hd_tensor *quiet;
    {
        HD_NO_GRAD;
        quiet = hd_mul(b.x, b.x);
    }
    hd_backward(quiet);
    assert_only_error(&b, HD_ERROR_STATE, "no history");
}

static void backward_from_another_contexts_tensor_names_both(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    hd_tensor *inner;
    int64_t id;
    char made[64], active[64];
    {
        HD_GRAD_CONTEXT;
        id = hd_grad_context_id();
        inner = hd_neg(b.x);
        hd_backward(b.loss);
        snprintf(active, sizeof active, "context %lld is active", (long long)id);
        assert_true(strstr(hd_error_message(), "hd_mul") != NULL && strstr(hd_error_message(), "context 0") != NULL);
        assert_error(HD_ERROR_STATE, active);
    }
    snprintf(made, sizeof made, "hd_neg made the loss in context %lld", (long long)id);
    hd_backward(inner);
    assert_true(strstr(hd_error_message(), "context 0 is active") != NULL);
    assert_only_error(&b, HD_ERROR_STATE, made);
    HD_GRAD_CONTEXT;
    hd_backward(inner);
    assert_error(HD_ERROR_STATE, made);
}

static hd_tensor *handed_over;
static uint32_t number_in(const char *text, const char *before_it) {
    const char *at = strstr(text, before_it);
    return at == NULL ? 0 : (uint32_t)strtoul(at + strlen(before_it), NULL, 10);
}
static void *walks_anothers(void *message) {
    HD_SCOPE;
    hd_backward(handed_over);
    snprintf(message, 512, "%s", hd_error_message());
    const bool right = hd_error_code() == HD_ERROR_STATE;
    hd_error_clear();
    hd_tensor *mine = hd_mul(handed_over, handed_over); /* acts as a leaf here */
    hd_tensor *gradient = hd_tensors_get(hd_grad_of(mine, HD_TENSORS(handed_over), NULL), 0);
    return right && hd_item(gradient) == 18 ? NULL : (void *)1;
}
static void backward_from_another_threads_tensor_names_both(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    handed_over = b.loss;
    char message[512];
    pthread_t id;
    void *result;
    assert_int_equal(pthread_create(&id, NULL, walks_anothers, message), 0);
    pthread_join(id, &result);
    assert_null(result);
    const uint32_t there = number_in(message, "context 0 of thread "),
                   here = number_in(message, "this is context 0 of thread ");
    if (there == 0 || here == 0 || there == here) fail_msg("the message does not name both threads: %s", message);
    hd_backward(b.loss);
    assert_true(hd_item(hd_grad(b.x)) == 6);
}

static void backward_after_its_tape_was_cleared(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F32, 3)), *gone = hd_exp(x);
    hd_clear_tape();
    const before b = begin();
    hd_backward(gone);
    assert_true(strstr(hd_error_message(), "hd_exp") != NULL);
    assert_only_error(&b, HD_ERROR_STATE, "cleared");
    assert_null(hd_grad_of(gone, HD_TENSORS(x), NULL));
    assert_only_error(&b, HD_ERROR_STATE, "cleared");
    hd_tensor *written = hd_exp(x);
    hd_add_(written, x);
    {
        HD_GRAD_CONTEXT;
        hd_backward(written);
        assert_error(HD_ERROR_STATE, "hd_assign made the loss in context 0"); /* hd_exp made what it was before */
    }
}

static void backward_under_no_grad(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    {
        HD_NO_GRAD;
        hd_backward(b.loss);
        assert_error(HD_ERROR_STATE, "HD_NO_GRAD");
        assert_null(hd_grad_of(b.loss, HD_TENSORS(b.x), NULL));
        assert_error(HD_ERROR_STATE, "HD_NO_GRAD");
        hd_backward(b.loss);
    }
    assert_only_error(&b, HD_ERROR_STATE, "HD_NO_GRAD");
}

static void backward_from_what_is_no_float(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    hd_backward(hd_argmax(hd_reshape(b.loss, HD_SHAPE(1)), 0, NULL));
    assert_only_error(&b, HD_ERROR_DTYPE, "i64");
    hd_backward(hd_lt_scalar(b.loss, 3));
    assert_only_error(&b, HD_ERROR_DTYPE, "bool");
    hd_backward(hd_cast(b.loss, HD_I32));
    assert_only_error(&b, HD_ERROR_DTYPE, "i32");
}

static void a_seed_that_does_not_fit(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    hd_tensor *gone;
    {
        HD_SCOPE;
        gone = hd_ones(HD_SHAPE(), HD_F32);
    }
    hd_backward_with(b.loss, HD_OPTS(hd_backward_opts, .seed = hd_ones(HD_SHAPE(1), HD_F32)));
    assert_only_error(&b, HD_ERROR_SHAPE, "seed");
    hd_backward_with(b.loss, HD_OPTS(hd_backward_opts, .seed = hd_ones(HD_SHAPE(), HD_I32)));
    assert_only_error(&b, HD_ERROR_DTYPE, "seed");
    hd_backward_with(b.loss, HD_OPTS(hd_backward_opts, .seed = gone));
    assert_only_error(&b, HD_ERROR_RELEASED, "seed");
    assert_null(hd_vjp(b.loss, HD_TENSORS(b.x), NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "seed");
    assert_null(hd_vjp(b.loss, HD_TENSORS(b.x), hd_ones(HD_SHAPE(2), HD_F32)));
    assert_only_error(&b, HD_ERROR_SHAPE, "seed");
    assert_null(hd_grad_of(b.loss, HD_TENSORS(b.x), HD_OPTS(hd_grad_of_opts, .seed = hd_ones(HD_SHAPE(), HD_BOOL))));
    assert_only_error(&b, HD_ERROR_DTYPE, "seed");
}

static void nothing_and_what_is_gone(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    hd_tensor *gone;
    {
        HD_SCOPE;
        gone = hd_neg(b.x);
    }
    hd_backward(NULL);
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "hd_backward: `loss`");
    hd_backward(gone);
    assert_only_error(&b, HD_ERROR_RELEASED, "hd_backward: `loss`");
    assert_null(hd_grad(NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "hd_grad");
    assert_null(hd_grad(gone));
    assert_only_error(&b, HD_ERROR_RELEASED, "hd_grad");
    hd_zero_grad(NULL);
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "hd_zero_grad");
    hd_zero_grad(gone);
    assert_only_error(&b, HD_ERROR_RELEASED, "hd_zero_grad");
    assert_null(hd_requires_grad(NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "hd_requires_grad");
    hd_set_requires_grad(gone, true);
    assert_only_error(&b, HD_ERROR_RELEASED, "hd_set_requires_grad");
    assert_null(hd_param(NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "hd_param");
    assert_null(hd_retain_grad(gone));
    assert_only_error(&b, HD_ERROR_RELEASED, "hd_retain_grad");
    assert_false(hd_has_grad(NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "hd_has_grad");
    hd_set_grad(gone, b.x);
    assert_only_error(&b, HD_ERROR_RELEASED, "hd_set_grad");
    assert_null(hd_detach(NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "hd_detach");
    assert_null(hd_grad_of(b.loss, NULL, NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "inputs");
    assert_null(hd_grad_of(NULL, HD_TENSORS(b.x), NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "loss");
    assert_null(HD_TENSORS(b.x, NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "HD_TENSORS");
    assert_null(HD_TENSORS(b.x, gone));
    assert_only_error(&b, HD_ERROR_RELEASED, "HD_TENSORS");
    assert_null(hd_jvp(b.loss, HD_TENSORS(b.x), NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "tangents");
}

static void while_an_error_is_pending_nothing_happens(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    hd_tensor *free_one = hd_ones(HD_SHAPE(2), HD_F32);
    hd_add(NULL, NULL);
    hd_backward(b.loss);
    assert_null(hd_requires_grad(free_one));
    assert_null(hd_param(free_one));
    assert_null(hd_grad_of(b.loss, NULL, NULL));
    hd_zero_grad(b.x);
    assert_int_equal(hd_tape_length(), b.length);
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "hd_add");
    assert_false(hd_tensor_requires_grad(free_one));
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
static void a_gradient_that_was_not_computed(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    assert_null(hd_grad(b.x));
    assert_only_error(&b, HD_ERROR_STATE, "gradient not computed");
    assert_null(hd_grad(b.loss));
    assert_true(strstr(hd_error_message(), "hd_retain_grad") != NULL);
    assert_only_error(&b, HD_ERROR_STATE, "gradient not computed");
    assert_null(hd_grad(hd_ones(HD_SHAPE(2), HD_F32)));
    assert_only_error(&b, HD_ERROR_STATE, "gradient not computed");
    assert_null(hd_grad(hd_ones(HD_SHAPE(2), HD_I32)));
    assert_only_error(&b, HD_ERROR_STATE, "gradient not computed");
    hd_tensor *apart = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_backward(b.loss);
    hd_set_grad(b.x, NULL);
    assert_null(hd_grad(apart)); /* the loss did not come from it */
    assert_only_error(&b, HD_ERROR_STATE, "gradient not computed");
}

static void a_leaf_must_be_a_float_that_no_op_on_a_tape_made(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    assert_null(hd_requires_grad(b.loss));
    assert_true(strstr(hd_error_message(), "hd_mul") != NULL && strstr(hd_error_message(), "hd_detach") != NULL);
    assert_only_error(&b, HD_ERROR_STATE, "no leaf");
    hd_set_requires_grad(b.loss, false);
    assert_only_error(&b, HD_ERROR_STATE, "no leaf");
    static const hd_dtype whole[] = {HD_I64, HD_U8, HD_BOOL};
    for (int i = 0; i < 3; ++i) {
        hd_tensor *t = hd_ones(HD_SHAPE(2), whole[i]);
        assert_null(hd_requires_grad(t));
        assert_only_error(&b, HD_ERROR_DTYPE, hd_dtype_name(whole[i]));
        hd_set_requires_grad(t, true);
        assert_only_error(&b, HD_ERROR_DTYPE, hd_dtype_name(whole[i]));
        assert_null(hd_param(t));
        assert_only_error(&b, HD_ERROR_DTYPE, hd_dtype_name(whole[i]));
        assert_false(hd_tensor_requires_grad(t));
        hd_zero_grad(t);
        assert_only_error(&b, HD_ERROR_DTYPE, hd_dtype_name(whole[i]));
        hd_set_grad(t, hd_ones(HD_SHAPE(2), HD_F32));
        assert_only_error(&b, HD_ERROR_SHAPE, hd_dtype_name(whole[i]));
    }
}

static void an_op_without_gradient_is_named_with_its_reason(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    hd_tensor *bits = hd_bitcast(b.x, HD_I32), *back = hd_bitcast(bits, HD_F32);
    hd_tensor *y = hd_add(hd_mul(back, back), b.loss);
    assert_true(hd_item(y) == 18);
    hd_backward(y);
    assert_true(strstr(hd_error_message(), "bits have no derivative") != NULL);
    assert_only_error(&b, HD_ERROR_STATE, "hd_bitcast has no gradient");
    assert_null(hd_grad_of(y, HD_TENSORS(b.x), NULL));
    assert_only_error(&b, HD_ERROR_STATE, "hd_bitcast has no gradient");
    hd_backward(hd_add(hd_detach(back), b.loss)); /* as the message advises */
    assert_true(hd_item(hd_grad(b.x)) == 6);
}

static hd_tensor *never_called(hd_tensor *gradient, void *user) {
    (void)user;
    fail_msg("a hook that was refused runs");
    return gradient;
}
static void inputs_of_grad_of_must_have_gradients(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    assert_null(hd_grad_of(b.loss, HD_TENSORS(b.x, hd_ones(HD_SHAPE(2), HD_F32)), NULL));
    assert_true(strstr(hd_error_message(), "[2]") != NULL);
    assert_only_error(&b, HD_ERROR_STATE, "input 1");
    hd_tensor *quiet;
    {
        HD_NO_GRAD;
        quiet = hd_neg(b.x);
    }
    assert_null(hd_grad_of(b.loss, HD_TENSORS(quiet), NULL));
    assert_only_error(&b, HD_ERROR_STATE, "input 0");
    assert_null(hd_jvp(b.loss, HD_TENSORS(b.x), HD_TENSORS(b.x, b.x)));
    assert_only_error(&b, HD_ERROR_SHAPE, "2 tangents for 1 inputs");
    assert_null(hd_jvp(b.loss, HD_TENSORS(b.x), HD_TENSORS(hd_ones(HD_SHAPE(1), HD_F32))));
    assert_only_error(&b, HD_ERROR_SHAPE, "tangents");
}

/* A call on a leaf that gives integers is noted, but no gradient comes through it. */
static void what_is_no_float_has_no_gradient(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    hd_tensor *whole = hd_cast(b.x, HD_I32), *y = hd_mul(hd_cast(whole, HD_F32), b.x);
    assert_null(hd_retain_grad(whole));
    assert_only_error(&b, HD_ERROR_DTYPE, "i32");
    hd_add_grad_hook(whole, never_called, NULL);
    assert_only_error(&b, HD_ERROR_DTYPE, "i32");
    assert_null(hd_grad_of(y, HD_TENSORS(b.x, whole), NULL));
    assert_only_error(&b, HD_ERROR_DTYPE, "input 1, [], is i32");
    hd_clear_tape();
    hd_backward(hd_mul(hd_cast(whole, HD_F32), b.x)); /* whole acts as a leaf now, and still has none */
    assert_false(hd_has_grad(whole));
    assert_true(hd_item(hd_grad(b.x)) == 3);
}

static void a_jvp_for_nothing_is_zeros_or_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    hd_tensors *none = hd_tensors_from(NULL, 0);
    hd_tensor *product = hd_jvp(b.loss, none, none);
    if (hd_ok()) assert_values(product, HD_F32, 0); /* never NULL without a word */
    hd_error_clear();
    hd_backward(b.loss);
    assert_true(hd_item(hd_grad(b.x)) == 6);
}

static void lists_are_read_within_their_bounds(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_ones(HD_SHAPE(1), HD_F32), *c = hd_ones(HD_SHAPE(2), HD_F32);
    hd_tensors *list = HD_TENSORS(a, c);
    assert_int_equal(hd_tensors_count(list), 2);
    assert_ptr_equal(hd_tensors_get(list, -2), a);
    assert_ptr_equal(hd_tensors_get(list, -1), c);
    assert_null(hd_tensors_get(list, 2));
    assert_error(HD_ERROR_INDEX, "2");
    assert_null(hd_tensors_get(list, -3));
    assert_error(HD_ERROR_INDEX, "-3");
    assert_null(hd_tensors_get(NULL, 0));
    assert_error(HD_ERROR_NULL_ARGUMENT, "list");
    assert_int_equal(hd_tensors_count((hd_tensors *)(void *)a), 0); /* a tensor is no list */
    assert_error(HD_ERROR_STATE, "list");
    assert_null(hd_add(a, (hd_tensor *)(void *)list));
    assert_error(HD_ERROR_STATE, "no tensor");
    assert_null(hd_tensors_from(NULL, 3));
    assert_error(HD_ERROR_NULL_ARGUMENT, "tensors");
    assert_null(hd_tensors_from(&a, -1));
    assert_error(HD_ERROR_VALUE, "-1");
    assert_int_equal(hd_tensors_count(hd_tensors_from(NULL, 0)), 0);
}

/* ---- recomputations ---------------------------------------------------------------------------------------------- */
static hd_tensor *squared(hd_tensors *inputs, void *user) {
    (void)user;
    hd_tensor *x = hd_tensors_get(inputs, 0);
    return hd_mul(x, x);
}
static hd_tensor *fails(hd_tensors *inputs, void *fails_now) {
    hd_tensor *x = hd_tensors_get(inputs, 0);
    return *(bool *)fails_now ? hd_add(x, NULL) : hd_mul(x, x);
}
static hd_tensor *gives_nothing(hd_tensors *inputs, void *user) {
    (void)user;
    hd_exp(hd_tensors_get(inputs, 0));
    return NULL;
}
static hd_tensor *gives_what_is_gone(hd_tensors *inputs, void *user) {
    HD_SCOPE;
    return squared(inputs, user);
}
typedef enum gift { SQUARE, NOTHING, GONE, LONGER, WIDER, PLAIN } gift;
static hd_tensor *gives(hd_tensors *inputs, void *which) {
    hd_tensor *y = squared(inputs, NULL);
    switch (*(const gift *)which) {
    case NOTHING: return NULL;
    case GONE: return gives_what_is_gone(inputs, NULL);
    case LONGER: return hd_stack((hd_tensor *const[]){y, y}, 2, 0);
    case WIDER: return hd_cast(y, HD_F64);
    case PLAIN: return hd_detach(y);
    case SQUARE: break;
    }
    return y;
}
static hd_tensor *leaves_a_context(hd_tensors *inputs, void *user) {
    hd_tensor *y = squared(inputs, user);
    hd_grad_context_push();
    return y;
}

static void recomputations_report_what_goes_wrong_inside(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    bool now = true;
    assert_null(hd_recompute(fails, &now, HD_TENSORS(b.x)));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "`b` is NULL");
    assert_int_equal(hd_grad_context_id(), 0);
    now = false;
    hd_tensor *y = hd_recompute(fails, &now, HD_TENSORS(b.x));
    now = true;
    const uint64_t draw = hd_generator_draw(NULL);
    hd_backward(y);
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "`b` is NULL");
    assert_int_equal(hd_grad_context_id(), 0);
    assert_int_equal(hd_generator_draw(NULL), draw);
    now = false;
    hd_backward(y);
    assert_true(hd_item(hd_grad(b.x)) == 6);
    hd_set_grad(b.x, NULL);
    assert_null(hd_recompute(NULL, NULL, HD_TENSORS(b.x)));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "`fn`");
    assert_null(hd_recompute(squared, NULL, NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "inputs");
    assert_null(hd_recompute(gives_nothing, NULL, HD_TENSORS(b.x)));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "hd_recompute: `the function's result` is NULL");
    assert_null(hd_recompute(gives_what_is_gone, NULL, HD_TENSORS(b.x)));
    assert_only_error(&b, HD_ERROR_RELEASED, "hd_recompute: `the function's result`");
    HD_NO_GRAD;
    assert_null(hd_recompute(gives_nothing, NULL, HD_TENSORS(b.x)));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_recompute: `the function's result` is NULL");
    assert_int_equal(hd_grad_context_id(), 0);
}

/* Backward calls the function once more: what it gives then must be what it gave. */
static void a_recomputation_that_gives_something_else_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    static const struct {
        gift gift;
        hd_error code;
        const char *text;
    } cases[] = {{NOTHING, HD_ERROR_NULL_ARGUMENT, "`the result of hd_recompute's function` is NULL"},
                 {GONE, HD_ERROR_RELEASED, "`the result of hd_recompute's function`"},
                 {LONGER, HD_ERROR_STATE, "gives [2] of f32 now, and gave [] of f32 before"},
                 {WIDER, HD_ERROR_STATE, "gives [] of f64 now, and gave [] of f32 before"},
                 {PLAIN, HD_ERROR_STATE, "no history"}};
    const before b = begin();
    gift now = SQUARE;
    hd_tensor *y = hd_recompute(gives, &now, HD_TENSORS(b.x));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        now = cases[i].gift;
        hd_backward(y);
        assert_only_error(&b, cases[i].code, cases[i].text);
        assert_int_equal(hd_grad_context_id(), 0);
    }
    now = SQUARE;
    hd_backward(y);
    assert_true(hd_item(hd_grad(b.x)) == 6);
}

static void gradcheck_needs_a_function_that_gives_a_tensor(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    hd_tensors *inputs = HD_TENSORS(hd_full(HD_SHAPE(2), HD_F64, 1));
    assert_false(hd_gradcheck(gives_nothing, NULL, inputs, NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "hd_gradcheck: `the result of fn` is NULL");
    assert_false(hd_gradcheck(gives_what_is_gone, NULL, inputs, NULL));
    assert_only_error(&b, HD_ERROR_RELEASED, "hd_gradcheck: `the result of fn`");
    assert_false(hd_gradcheck(NULL, NULL, inputs, NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "`fn` is NULL");
    assert_false(hd_gradcheck(squared, NULL, HD_TENSORS(hd_ones(HD_SHAPE(2), HD_I64)), NULL));
    assert_only_error(&b, HD_ERROR_VALUE, "none of the 1 inputs is a float");
    assert_int_equal(hd_grad_context_id(), 0);
}

static void a_recomputation_leaves_no_context_behind(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    assert_null(hd_recompute(leaves_a_context, NULL, HD_TENSORS(b.x)));
    assert_int_equal(hd_grad_context_id(), 0);
    assert_only_error(&b, HD_ERROR_STATE, "the function of hd_recompute");
    assert_true(hd_tensor_requires_grad(hd_exp(b.x)));
}

static void what_a_recomputation_read_must_not_change_before_backward(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    hd_tensor *data = hd_full(HD_SHAPE(), HD_F32, 2), *w = hd_param(hd_full(HD_SHAPE(), HD_F32, 5));
    hd_tensor *leaf = hd_recompute(squared, NULL, HD_TENSORS(w));
    {
        HD_NO_GRAD;
        hd_fill(w, 6);
    }
    hd_backward(leaf);
    assert_only_error(&b, HD_ERROR_STATE, "changed in place");
    hd_tensor *product = hd_mul(data, b.x), *y = hd_recompute(squared, NULL, HD_TENSORS(product, data));
    hd_fill(data, 3); /* not tracked, but an input all the same */
    hd_backward(y);
    assert_only_error(&b, HD_ERROR_STATE, "changed in place");
}

/* ---- optimizers -------------------------------------------------------------------------------------------------- */
static void optimizers_take_leaves_once_each_and_a_sensible_rate(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    assert_null(hd_sgd(HD_TENSORS(b.x, b.loss), 0.1, NULL));
    assert_only_error(&b, HD_ERROR_VALUE, "parameter 1");
    assert_null(hd_adam(HD_TENSORS(hd_ones(HD_SHAPE(2), HD_F32)), 0.1, NULL));
    assert_only_error(&b, HD_ERROR_VALUE, "none of the 1 parameters requires a gradient");
    assert_null(hd_adam(HD_TENSORS(hd_ones(HD_SHAPE(2), HD_I32)), 0.1, NULL));
    assert_only_error(&b, HD_ERROR_VALUE, "parameter 0");
    hd_tensor *other = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    assert_null(hd_sgd(HD_TENSORS(b.x, other, b.x), 0.1, NULL));
    assert_only_error(&b, HD_ERROR_VALUE, "parameters 0 and 2");
    static const double rates[] = {-0.1, INFINITY, NAN};
    hd_optimizer *sgd = hd_sgd(HD_TENSORS(other), 0.1, NULL);
    for (int i = 0; i < 3; ++i) {
        assert_null(hd_sgd(HD_TENSORS(b.x), rates[i], NULL));
        assert_only_error(&b, HD_ERROR_VALUE, "learning rate");
        assert_null(hd_adam(HD_TENSORS(b.x), rates[i], NULL));
        assert_only_error(&b, HD_ERROR_VALUE, "learning rate");
        hd_optimizer_set_learning_rate(sgd, rates[i]);
        assert_only_error(&b, HD_ERROR_VALUE, "learning rate");
        assert_true(hd_item(hd_optimizer_learning_rate(sgd)) == 0.1);
    }
    assert_null(hd_sgd(hd_tensors_from(NULL, 0), 0.1, NULL));
    assert_only_error(&b, HD_ERROR_VALUE, "no parameters");
    assert_null(hd_sgd(NULL, 0.1, NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "parameters");
    hd_optimizer_step(NULL);
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "hd_optimizer_step");
    hd_optimizer_zero_grad(NULL);
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "hd_optimizer_zero_grad");
    hd_optimizer_step((hd_optimizer *)(void *)b.x);
    assert_only_error(&b, HD_ERROR_STATE, "no living optimizer");
}

static void optimizers_take_sensible_options(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    hd_tensors *list = HD_TENSORS(b.x);
    static const hd_sgd_opts sgd[] = {
        {.struct_size = sizeof(hd_sgd_opts), .momentum = -0.1},
        {.struct_size = sizeof(hd_sgd_opts), .momentum = NAN},
        {.struct_size = sizeof(hd_sgd_opts), .momentum = INFINITY},
        {.struct_size = sizeof(hd_sgd_opts), .momentum = 0.9, .dampening = NAN},
        {.struct_size = sizeof(hd_sgd_opts), .weight_decay = -1},
        {.struct_size = sizeof(hd_sgd_opts), .weight_decay = NAN},
        {.struct_size = sizeof(hd_sgd_opts), .nesterov = true},
        {.struct_size = sizeof(hd_sgd_opts), .nesterov = true, .momentum = 0.9, .dampening = 0.1},
    };
    for (size_t i = 0; i < sizeof sgd / sizeof *sgd; ++i) {
        if (hd_sgd(list, 0.1, &sgd[i]) != NULL) fail_msg("options %d were taken", (int)i);
        assert_only_error(&b, HD_ERROR_VALUE, "hd_sgd");
    }
    static const hd_adam_opts adam[] = {
        {.struct_size = sizeof(hd_adam_opts), .beta1 = 1},
        {.struct_size = sizeof(hd_adam_opts), .beta1 = -0.5},
        {.struct_size = sizeof(hd_adam_opts), .beta2 = 1.5},
        {.struct_size = sizeof(hd_adam_opts), .beta2 = NAN},
        {.struct_size = sizeof(hd_adam_opts), .epsilon = -1e-8},
        {.struct_size = sizeof(hd_adam_opts), .epsilon = NAN},
        {.struct_size = sizeof(hd_adam_opts), .epsilon = INFINITY},
        {.struct_size = sizeof(hd_adam_opts), .weight_decay = -1},
    };
    for (size_t i = 0; i < sizeof adam / sizeof *adam; ++i) {
        if (hd_adam(list, 0.1, &adam[i]) != NULL) fail_msg("options %d were taken", (int)i);
        assert_only_error(&b, HD_ERROR_VALUE, "hd_adam");
    }
    const hd_optimizer_class without = {.name = "none"}, greedy = {.name = "greedy", .slots = 99};
    assert_null(hd_optimizer_new(NULL, NULL, list, 0.1));
    assert_only_error(&b, HD_ERROR_VALUE, "class_");
    assert_null(hd_optimizer_new(&without, NULL, list, 0.1));
    assert_only_error(&b, HD_ERROR_VALUE, "update");
    assert_null(hd_optimizer_new(&greedy, NULL, list, 0.1));
    assert_only_error(&b, HD_ERROR_VALUE, "slots");
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */
static hd_tensor *passes(hd_module *module, hd_tensor *x) {
    (void)module;
    return x;
}
static const hd_module_class plain_class = {.name = "plain", .forward = passes};

static void names_in_a_module_are_its_own(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    hd_module *m = hd_module_new(&plain_class, NULL);
    hd_tensor *t = hd_ones(HD_SHAPE(2), HD_F32);
    hd_module_add_parameter(m, "weight", hd_ones(HD_SHAPE(2), HD_F32));
    assert_null(hd_module_add_parameter(m, "weight", t));
    assert_only_error(&b, HD_ERROR_VALUE, "\"weight\"");
    assert_false(hd_tensor_requires_grad(t)); /* what was not added is not changed */
    assert_null(hd_module_add_buffer(m, "weight", t));
    assert_only_error(&b, HD_ERROR_VALUE, "\"weight\"");
    assert_null(hd_module_add(m, "weight", hd_module_new(&plain_class, NULL)));
    assert_only_error(&b, HD_ERROR_VALUE, "\"weight\"");
    static const char *const bad[] = {"", "a.b", ".", NULL};
    for (int i = 0; i < 4; ++i) {
        assert_null(hd_module_add_buffer(m, bad[i], t));
        assert_only_error(&b, HD_ERROR_VALUE, "name");
        assert_null(hd_module_add(m, bad[i], hd_module_new(&plain_class, NULL)));
        assert_only_error(&b, HD_ERROR_VALUE, "name");
    }
    assert_int_equal(hd_tensors_count(hd_module_parameters(m)), 1);
    static const char *const missing[] = {"bias", "weight.x", "weight.", ".weight", "", "0.weight", NULL};
    for (int i = 0; i < 7; ++i) {
        assert_null(hd_module_get(m, missing[i]));
        assert_only_error(&b, HD_ERROR_VALUE, "plain");
    }
    assert_null(hd_module_parameter_name(m, 1));
    assert_only_error(&b, HD_ERROR_INDEX, "1");
    assert_null(hd_module_parameter_name(m, -1));
    assert_only_error(&b, HD_ERROR_INDEX, "-1");
}

static void a_module_never_contains_itself(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    hd_module *outer = hd_module_new(&plain_class, NULL), *inner = hd_module_new(&plain_class, NULL),
              *innermost = hd_module_new(&plain_class, NULL);
    assert_null(hd_module_add(outer, "self", outer));
    assert_only_error(&b, HD_ERROR_VALUE, "contain itself");
    hd_module_add(outer, "inner", inner);
    hd_module_add(inner, "innermost", innermost);
    assert_null(hd_module_add(innermost, "outer", outer));
    assert_only_error(&b, HD_ERROR_VALUE, "contain itself");
    hd_module_add(outer, "again", inner); /* twice is sharing */
    assert_ok();
}

static void modules_are_given_what_they_need(void **state) {
    (void)state;
    HD_SCOPE;
    const before b = begin();
    hd_module *m = hd_module_new(&plain_class, NULL);
    const hd_module_class without = {.name = "without"}, nameless = {.forward = passes};
    assert_null(hd_module_new(NULL, NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "class_");
    assert_null(hd_forward(hd_module_new(&without, NULL), b.x)); /* it may hold others */
    assert_only_error(&b, HD_ERROR_STATE, "forward");
    assert_null(hd_module_new(&nameless, NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "name");
    assert_null(hd_module_add_parameter(m, "w", b.loss)); /* no leaf */
    assert_only_error(&b, HD_ERROR_STATE, "hd_module_add_parameter");
    assert_null(hd_module_add_parameter(m, "w", hd_ones(HD_SHAPE(2), HD_I64)));
    assert_only_error(&b, HD_ERROR_DTYPE, "hd_module_add_parameter");
    assert_null(hd_module_add_parameter(m, "w", NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "parameter");
    assert_null(hd_module_add_buffer(m, "w", NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "buffer");
    assert_null(hd_module_add(m, "w", NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "child");
    assert_null(hd_forward(NULL, b.x));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "module");
    assert_null(hd_forward(m, NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "x");
    assert_null(hd_forward((hd_module *)(void *)b.x, b.x));
    assert_only_error(&b, HD_ERROR_STATE, "module");
    assert_null(HD_SEQUENTIAL(m, NULL));
    assert_only_error(&b, HD_ERROR_NULL_ARGUMENT, "NULL");
    assert_null(hd_sequential(NULL, 2));
    assert_only_error(&b, HD_ERROR_VALUE, "hd_sequential");
    assert_null(hd_linear(0, 3, NULL));
    assert_only_error(&b, HD_ERROR_VALUE, "in = 0");
    assert_null(hd_linear(3, -1, NULL));
    assert_only_error(&b, HD_ERROR_VALUE, "out = -1");
    assert_null(hd_linear(2, 2, HD_OPTS(hd_linear_opts, .dtype = HD_I32)));
    assert_only_error(&b, HD_ERROR_VALUE, "i32");
    assert_null(hd_forward(hd_linear(3, 2, NULL), hd_ones(HD_SHAPE(4, 5), HD_F32)));
    assert_only_error(&b, HD_ERROR_SHAPE, "[4,5]");
}

RUN(test(backward_before_any_op), test(backward_from_a_tensor_without_history),
    test(backward_from_another_contexts_tensor_names_both), test(backward_from_another_threads_tensor_names_both),
    test(backward_after_its_tape_was_cleared), test(backward_under_no_grad), test(backward_from_what_is_no_float),
    test(a_seed_that_does_not_fit), test(nothing_and_what_is_gone), test(while_an_error_is_pending_nothing_happens),
    test(a_gradient_that_was_not_computed), test(a_leaf_must_be_a_float_that_no_op_on_a_tape_made),
    test(an_op_without_gradient_is_named_with_its_reason), test(inputs_of_grad_of_must_have_gradients),
    test(what_is_no_float_has_no_gradient), test(a_jvp_for_nothing_is_zeros_or_an_error),
    test(lists_are_read_within_their_bounds), test(recomputations_report_what_goes_wrong_inside),
    test(a_recomputation_that_gives_something_else_is_an_error), test(gradcheck_needs_a_function_that_gives_a_tensor),
    test(a_recomputation_leaves_no_context_behind), test(what_a_recomputation_read_must_not_change_before_backward),
    test(optimizers_take_leaves_once_each_and_a_sensible_rate), test(optimizers_take_sensible_options),
    test(names_in_a_module_are_its_own), test(a_module_never_contains_itself), test(modules_are_given_what_they_need))
