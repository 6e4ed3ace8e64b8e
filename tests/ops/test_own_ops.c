/* Ops of the user's: what may be registered and called, that they compute, at once and on the tape, and that errors
 * name them. */
#include "each_allocation.h"
#include "own_ops.h"
#include "support.h"

#include <pthread.h>

#define S HD_SHAPE
#define F HD_F32

/* ---- what may be registered -------------------------------------------------------------------------------------- */
static const char *nothing(hd_custom_args *args) {
    (void)args;
    return NULL;
}
static const char *other(hd_custom_args *args) {
    (void)args;
    return NULL;
}

static hd_custom_op plain(const char *name) {
    hd_custom_op op = HD_DEFAULTS(hd_custom_op);
    op.name = name;
    op.inputs = 1;
    op.compute = nothing;
    return op;
}

static void refuses(hd_custom_op op, hd_error code, const char *text) {
    hd_custom_register(&op);
    assert_error(code, text);
}

static void descriptors_are_checked(void **state) {
    (void)state;
    char longest[HD_CUSTOM_NAME_MOST + 2];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    hd_custom_register(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`op`");
    static const char *const bad[] = {"", "1", "_a", "a b", "a\"b", "a\nb", "a$", "a\xc3\xa9", "a/b", "%s", "-a", ".a"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) refuses(plain(bad[i]), HD_ERROR_VALUE, "an op of the name");
    refuses(plain(longest), HD_ERROR_VALUE, "an op of the name");
    refuses(plain(NULL), HD_ERROR_NULL_ARGUMENT, "`name`");
    hd_custom_op op = plain("own.bad");
    op.compute = NULL;
    refuses(op, HD_ERROR_NULL_ARGUMENT, "`compute` of the op \"own.bad\"");
    static const int counts[][2] = {{0, 0}, {-1, 0}, {65, 0}, {1, 65}, {2, 1}, {1, -1}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
        op = plain("own.bad");
        op.inputs = counts[i][0];
        op.most_inputs = counts[i][1];
        refuses(op, HD_ERROR_VALUE, "own.bad");
    }
    op = plain("own.bad");
    op.struct_size = 0;
    refuses(op, HD_ERROR_VALUE, "struct_size");
    assert_false(hd_custom_is_registered("own.bad"));
    assert_false(hd_custom_is_registered(NULL));
    assert_false(hd_custom_is_registered(longest));
    longest[HD_CUSTOM_NAME_MOST] = '\0';
    op = plain(longest);
    hd_custom_register(&op);
    assert_ok();
    assert_true(hd_custom_is_registered(longest));
}

static void a_name_is_one_op(void **state) {
    (void)state;
    char name[] = "own.one";
    hd_custom_op op = plain(name);
    for (int i = 0; i < 3; ++i) hd_custom_register(&op);
    assert_ok();
    op.compute = other;
    refuses(op, HD_ERROR_STATE, "another op \"own.one\" is registered already");
    op = plain(name);
    op.user = &op;
    refuses(op, HD_ERROR_STATE, "own.one");
    op = plain(name);
    op.has_effects = true;
    refuses(op, HD_ERROR_STATE, "own.one");
    name[0] = 'X'; /* the name is copied */
    assert_true(hd_custom_is_registered("own.one"));
    assert_false(hd_custom_is_registered("Xwn.one"));
    op = plain("own.one");
    op.struct_size = offsetof(hd_custom_op, vjp); /* of an older header */
    op.vjp = own_cube_vjp;
    hd_custom_register(&op);
    assert_ok();
}

/* ---- what may be called ------------------------------------------------------------------------------------------ */
static void calls_are_checked(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(S(2), F), *many[65];
    char longest[100];
    unsigned char bytes[HD_CUSTOM_ATTRIBUTES_MOST + 1] = {0};
    memset(longest, 'x', sizeof longest);
    longest[99] = '\0';
    for (int i = 0; i < 65; ++i) many[i] = x;
    hd_tensors *one = HD_TENSORS(x);
    hd_custom(NULL, one, NULL, 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`name`");
    hd_custom("", one, NULL, 0);
    assert_error(HD_ERROR_VALUE, "name");
    hd_custom(longest, one, NULL, 0);
    assert_error(HD_ERROR_VALUE, "name");
    hd_custom("own.unknown", one, NULL, 0);
    assert_error(HD_ERROR_STATE, "this process has no op \"own.unknown\" of its own; hd_custom_register");
    hd_custom("own \"odd\"\n", one, NULL, 0);
    assert_error(HD_ERROR_STATE, "own \"odd\"");
    hd_custom(own_same(), NULL, NULL, 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`inputs`");
    hd_custom(own_same(), hd_tensors_from(NULL, 0), NULL, 0);
    assert_error(HD_ERROR_VALUE, "0 inputs for the op \"own.same\", which takes 1 to 1");
    hd_custom(own_same(), HD_TENSORS(x, x), NULL, 0);
    assert_error(HD_ERROR_VALUE, "2 inputs for the op \"own.same\"");
    hd_custom(own_same(), hd_tensors_from(many, 65), NULL, 0);
    assert_error(HD_ERROR_VALUE, "65 inputs for the op \"own.same\"; an op takes 64");
    hd_custom(own_same(), one, NULL, 1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`attributes`");
    hd_custom(own_same(), one, bytes, sizeof bytes);
    assert_error(HD_ERROR_VALUE, "241 bytes of attributes");
    hd_custom(own_same(), one, bytes, SIZE_MAX);
    assert_error(HD_ERROR_VALUE, "bytes of attributes");
    hd_custom(own_same(), one, bytes, sizeof bytes - 1);
    assert_ok();
    assert_null(hd_custom_outputs("own.unknown", one, NULL, 0));
    assert_error(HD_ERROR_STATE, "hd_custom_outputs");
}

/* ---- what comes out ---------------------------------------------------------------------------------------------- */
static struct {
    int outputs, rank;
    int64_t size;
    int dtype;
    const char *text;
} wish;
static const char *as_wished(hd_custom_args *args) {
    args->output_count = wish.outputs;
    args->outputs[0]->dtype = (hd_dtype)wish.dtype;
    args->outputs[0]->shape.rank = wish.rank;
    for (int i = 0; i < HD_MAX_RANK; ++i) args->outputs[0]->shape.size[i] = wish.size;
    return wish.text;
}
static const char *zeros(hd_custom_args *args) {
    memset(args->outputs[0]->data, 0, (size_t)args->outputs[0]->count * hd_dtype_size(args->outputs[0]->dtype));
    return NULL;
}

static void what_a_function_says_of_outputs_is_checked(void **state) {
    (void)state;
    HD_SCOPE;
    hd_custom_op op = plain("own.wished");
    op.shapes = as_wished;
    op.compute = zeros;
    hd_custom_register(&op);
    static const struct {
        int outputs, rank;
        int64_t size;
        int dtype;
        hd_error code;
        const char *text;
    } cases[] = {
        {0, 1, 1, HD_F32, HD_ERROR_VALUE, "\"own.wished\" says that it has 0 outputs; there may be 1 to 2"},
        {3, 1, 1, HD_F32, HD_ERROR_VALUE, "has 3 outputs"},
        {-1, 1, 1, HD_F32, HD_ERROR_VALUE, "has -1 outputs"},
        {1, 9, 1, HD_F32, HD_ERROR_SHAPE, "own.wished"},
        {1, -1, 1, HD_F32, HD_ERROR_SHAPE, "own.wished"},
        {1, 2, -3, HD_F32, HD_ERROR_SHAPE, "own.wished"},
        {1, 8, 1 << 20, HD_F32, HD_ERROR_OVERFLOW, "own.wished"},
        {1, 1, 1, 0, HD_ERROR_DTYPE, "own.wished"},
        {1, 1, 1, 99, HD_ERROR_DTYPE, "own.wished"},
        {1, 1, 1, -1, HD_ERROR_DTYPE, "own.wished"},
        {1, 1, 0, HD_I64, HD_OK, ""},
        {1, 0, 0, HD_BOOL, HD_OK, ""},
        {1, 8, 2, HD_F16, HD_OK, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        wish.outputs = cases[i].outputs;
        wish.rank = cases[i].rank;
        wish.size = cases[i].size;
        wish.dtype = cases[i].dtype;
        hd_tensor *y = hd_custom("own.wished", HD_TENSORS(hd_ones(S(2), F)), NULL, 0);
        assert_true((y != NULL) == (cases[i].code == HD_OK));
        if (cases[i].code != HD_OK) assert_error(cases[i].code, cases[i].text);
    }
    wish.text = "nothing suits me";
    hd_custom("own.wished", HD_TENSORS(hd_ones(S(2), F)), NULL, 0);
    assert_error(HD_ERROR_VALUE, "hd_custom: the op \"own.wished\": nothing suits me");
    wish.text = NULL;
}

/* ---- computing --------------------------------------------------------------------------------------------------- */
static void ops_compute(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(S(2, 3), 1, 2, 3, 4, 5, 6);
    assert_values(cubed(x, 2), F, 2, 16, 54, 128, 250, 432);
    assert_values(cubed(hd_t(x), 1), F, 1, 64, 8, 125, 27, 216); /* it has its operands in rows */
    assert_values(cubed(hd_slice(x, 1, 1, 2, 1), 1), F, 8, 125);
    assert_values(cubed(hd_broadcast_to(hd_scalar(2, HD_F64), S(2)), 1), HD_F64, 8, 8);
    assert_int_equal(hd_tensor_count(cubed(hd_zeros(S(0, 3), F), 1)), 0);
    hd_tensors *both = both_ways(x, hd_mul_scalar(x, 2));
    assert_int_equal(hd_tensors_count(both), 2);
    assert_values(hd_tensors_get(both, 0), F, 2, 8, 18, 32, 50, 72);
    assert_values(hd_tensors_get(both, 1), F, -1, -2, -3, -4, -5, -6);
    assert_values(hd_custom(own_both(), HD_TENSORS(x, x), NULL, 0), F, 1, 4, 9, 16, 25, 36);
    assert_int_equal(hd_tensors_count(hd_custom_outputs(own_same(), HD_TENSORS(x), NULL, 0)), 1);
    both_ways(x, hd_ones(S(2), F));
    assert_error(HD_ERROR_SHAPE, "the op \"own.both\": a and b must be alike");
    cubed(hd_ones(S(2), HD_I32), 1);
    assert_error(HD_ERROR_DTYPE, "the op \"own.cube\": takes f32 and f64");
    hd_custom(own_cube(), HD_TENSORS(x), NULL, 0);
    assert_error(HD_ERROR_VALUE, "its attributes are a double");
}

/* Sums up to 64 inputs; its user counts. */
static const char *sum_all(hd_custom_args *args) {
    if (args->user != NULL) ++*(int *)args->user;
    for (int64_t i = 0; i < args->outputs[0]->count; ++i) {
        double sum = 0;
        for (int k = 0; k < args->input_count; ++k) sum += own_element(args->inputs[k], i) * (k + 1);
        own_set_element(args->outputs[0], i, sum);
    }
    return NULL;
}
static const char *sum_all_vjp(hd_custom_vjp *v) {
    for (int k = 0; k < v->input_count; ++k) {
        if (hd_tensor_size(v->inputs[k], 0) != 2) return "an input is missing";
        if (v->wanted[k]) v->results[k] = hd_mul_scalar(v->gradients[0], k + 1);
    }
    return NULL;
}
static void there_may_be_many_inputs(void **state) {
    (void)state;
    HD_SCOPE;
    hd_custom_op op = plain("own.sum");
    op.most_inputs = 64;
    op.compute = sum_all;
    op.vjp = sum_all_vjp;
    hd_custom_register(&op);
    static const int counts[] = {1, 3, 4, 5, 6, 64};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; ++c) {
        hd_tensor *in[64];
        for (int k = 0; k < counts[c]; ++k) in[k] = hd_full(S(2), F, k);
        hd_requires_grad(in[counts[c] - 1]);
        hd_requires_grad(in[0]);
        hd_tensor *y = hd_custom("own.sum", hd_tensors_from(in, counts[c]), NULL, 0);
        double sum = 0;
        for (int k = 0; k < counts[c]; ++k) sum += k * (k + 1);
        assert_values(y, F, sum, sum);
        hd_backward(y);
        assert_values(hd_grad(in[counts[c] - 1]), F, counts[c], counts[c]);
        assert_values(hd_grad(in[0]), F, 1, 1);
        if (counts[c] > 1) assert_false(hd_has_grad(in[counts[c] / 2]) && counts[c] > 3);
        hd_clear_tape();
    }
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
static void gradients_are_those_of_the_vjp(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_requires_grad(HD_TENSOR_F32(S(2), 1, -2));
    hd_backward(cubed(x, 2));
    assert_values(hd_grad(x), F, 6, 24);
    hd_tensor *y = cubed(x, 2);
    hd_grad_of_opts twice = HD_DEFAULTS(hd_grad_of_opts);
    twice.differentiable = true;
    hd_tensor *g = hd_tensors_get(hd_grad_of(y, HD_TENSORS(x), &twice), 0);
    assert_values(hd_tensors_get(hd_grad_of(g, HD_TENSORS(x), NULL), 0), F, 12, -24);
    y = cubed(x, 1);
    hd_tensor *a = hd_mul_scalar(x, 1), *z = cubed(a, 1);
    hd_fill(a, 3);
    hd_backward(z);
    assert_error(HD_ERROR_STATE, "a value that the op \"own.cube\" needs for its gradient");
    hd_backward(hd_custom(own_same(), HD_TENSORS(x), NULL, 0));
    assert_error(HD_ERROR_STATE, "the op \"own.same\" has no vjp");
    { /* and what no gradient comes to needs none */
        hd_tensor *without = hd_custom(own_same(), HD_TENSORS(hd_detach(x)), NULL, 0);
        hd_zero_grad(x);
        hd_backward(hd_add(hd_mul_scalar(x, 2), without));
        assert_values(hd_grad(x), F, 2, 2);
    }
    hd_clear_tape();
}

static enum { FINE, TEXT, RAISES, WRONG_SHAPE, WRONG_DTYPE, WRITES, LEAVES_CONTEXT, POPS_CONTEXT, WAYS } way;
static int64_t pushed;
static const char *odd_vjp(hd_custom_vjp *v) {
    v->results[0] = hd_mul_scalar(v->gradients[0], 2);
    switch (way) {
    case TEXT: snprintf(v->text, v->text_capacity, "%s", "I will not"); return v->text;
    case RAISES: hd_matmul(v->gradients[0], hd_ones(S(7, 7), F)); break;
    case WRONG_SHAPE: v->results[0] = hd_ones(S(5), F); break;
    case WRONG_DTYPE: v->results[0] = hd_cast(v->results[0], HD_F64); break;
    case WRITES: hd_fill(v->gradients[0], 1); break;
    case LEAVES_CONTEXT: hd_grad_context_push(); break;
    case POPS_CONTEXT: hd_grad_context_pop(pushed); break;
    case FINE:
    case WAYS: break;
    }
    return NULL;
}
static void a_vjp_that_fails_is_named(void **state) {
    (void)state;
    HD_SCOPE;
    hd_custom_op op = plain("own.odd");
    op.compute = own_same_compute;
    op.vjp = odd_vjp;
    hd_custom_register(&op);
    static const struct {
        hd_error code;
        const char *text;
    } cases[WAYS] = {[TEXT] = {HD_ERROR_VALUE, "hd_backward: the op \"own.odd\": I will not"},
                     [RAISES] = {HD_ERROR_SHAPE, "in the op \"own.odd\""},
                     [WRONG_SHAPE] = {HD_ERROR_SHAPE, "the vjp of the op \"own.odd\" gives [5] of f32 for input 0"},
                     [WRONG_DTYPE] = {HD_ERROR_SHAPE, "the vjp of the op \"own.odd\" gives [2] of f64 for input 0"},
                     [WRITES] = {HD_ERROR_STATE, "the vjp of the op \"own.odd\" wrote into a gradient"},
                     [LEAVES_CONTEXT] = {HD_ERROR_STATE, "the vjp of an own op began context"},
                     [POPS_CONTEXT] = {HD_ERROR_STATE, "context"}};
    pushed = hd_grad_context_push();
    hd_tensor *x = hd_requires_grad(hd_ones(S(2), F));
    for (way = FINE; way < WAYS; ++way) {
        hd_tensor *y = hd_custom("own.odd", HD_TENSORS(x), NULL, 0);
        hd_backward(hd_mul_scalar(y, 3));
        if (way == FINE)
            assert_ok();
        else
            assert_error(cases[way].code, cases[way].text);
        assert_values(hd_grad(x), F, 6, 6); /* of the first one alone */
        hd_clear_tape();
    }
    hd_grad_context_pop(pushed);
    assert_ok();
}

/* ---- functions that fail ----------------------------------------------------------------------------------------- */
static jmp_buf back;
static enum { COMPUTES, SAYS, SAYS_LENGTHILY, RAISED, JUMPS, DOINGS } doing;
static const char *odd_compute(hd_custom_args *args) {
    memset(args->outputs[0]->data, 0, (size_t)args->outputs[0]->count * 4);
    hd_tensor *mine = hd_ones(S(1000), F);
    if (doing == SAYS) {
        args->error = HD_ERROR_INDEX;
        return "too far";
    }
    if (doing == SAYS_LENGTHILY) {
        memset(args->text, 'y', args->text_capacity - 1);
        args->text[args->text_capacity - 1] = '\0';
        return args->text;
    }
    if (doing == RAISED) hd_matmul(mine, hd_ones(S(3, 3), F));
    if (doing == JUMPS) longjmp(back, 1);
    return NULL;
}
static void a_function_that_fails_leaves_nothing_behind(void **state) {
    (void)state;
    HD_SCOPE;
    hd_custom_op op = plain("own.failing");
    op.compute = odd_compute;
    hd_custom_register(&op);
    hd_tensor *x = hd_ones(S(3, 2), F);
    for (int round = 0; round < 3; ++round)
        for (doing = COMPUTES; doing < DOINGS; ++doing) {
            const int64_t objects = hd_live_objects();
            {
                HD_SCOPE;
                if (setjmp(back) == 0) {
                    hd_tensor *y = hd_custom("own.failing", HD_TENSORS(hd_t(x)), NULL, 0);
                    assert_true((y != NULL) == (doing == COMPUTES));
                }
            }
            if (doing == SAYS) assert_error(HD_ERROR_INDEX, "hd_custom: the op \"own.failing\": too far");
            if (doing == SAYS_LENGTHILY) assert_error(HD_ERROR_VALUE, "the op \"own.failing\": yyyy");
            if (doing == RAISED) assert_error(HD_ERROR_SHAPE, "in the op \"own.failing\"");
            assert_ok();
            assert_int_equal(hd_live_objects(), objects);
        }
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */
static const char *count_in_shared(hd_custom_args *args) {
    atomic_fetch_add((_Atomic int *)args->user, 1);
    return own_same_compute(args);
}
static _Atomic int shared_count;
static void *call_often(void *nothing_at_all) {
    (void)nothing_at_all;
    HD_SCOPE;
    for (int i = 0; i < 200; ++i) {
        HD_SCOPE;
        char name[32];
        snprintf(name, sizeof name, "own.shared.%d", i % 8);
        hd_custom_op op = plain(name);
        op.compute = count_in_shared;
        op.user = (void *)&shared_count;
        hd_custom_register(&op);
        assert_values(hd_custom(name, HD_TENSORS(hd_full(S(2), F, i)), NULL, 0), F, i, i);
    }
    return NULL;
}
static void threads_register_and_call_at_once(void **state) {
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i) assert_int_equal(pthread_create(&threads[i], NULL, call_often, NULL), 0);
    for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
    assert_int_equal(shared_count, 800);
}

/* ---- every allocation fails once --------------------------------------------------------------------------------- */
static void a_small_program(void) {
    hd_tensor *x = hd_requires_grad(hd_t(hd_ones(S(2, 3), F)));
    hd_backward(hd_sum(hd_tensors_get(both_ways(cubed(x, 2), hd_ones(S(3, 2), F)), 0), HD_AXES(), NULL));
    hd_clear_tape();
}
static void every_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(a_small_program, 500);
}

/* ---- what functions must not do, and what they may --------------------------------------------------------------- */
static hd_tensors *given;
static const char *release_list(hd_custom_args *args) {
    memcpy(args->outputs[0]->data, args->inputs[0]->data, (size_t)args->inputs[0]->count * sizeof(float));
    hd_release(given); /* this was the caller's reference to its list */
    for (int i = 0; i < 100; ++i) hd_release(hd_retain(hd_tensors_from(NULL, 0))); /* more than wait in graves */
    return NULL;
}
static void an_op_may_release_its_list(void **state) {
    (void)state;
    HD_SCOPE;
    hd_custom_op op = plain("releases");
    op.compute = release_list;
    hd_custom_register(&op);
    hd_tensor *x = hd_ones(S(3), F);
    for (int outputs = 0; outputs < 2; ++outputs) {
        given = hd_retain(HD_TENSORS(x));
        hd_tensor *y = outputs ? hd_tensors_get(hd_custom_outputs("releases", given, NULL, 0), 0)
                               : hd_custom("releases", given, NULL, 0);
        assert_values(y, F, 1, 1, 1);
    }
}

static const char *bytes_of_255(hd_custom_args *args) {
    const float *x = args->inputs[0]->data;
    uint8_t *y = args->outputs[0]->data;
    for (int64_t i = 0; i < args->inputs[0]->count; ++i) y[i] = x[i] > 0 ? 0xff : 0;
    return NULL;
}
static const char *gives_bool(hd_custom_args *args) {
    args->outputs[0]->dtype = HD_BOOL;
    return NULL;
}
static void bools_of_ops_are_0_or_1(void **state) {
    (void)state;
    HD_SCOPE;
    hd_custom_op op = plain("truth");
    op.compute = bytes_of_255;
    op.shapes = gives_bool;
    hd_custom_register(&op);
    hd_tensor *x = HD_TENSOR_F32(S(5), 1, -1, 2, 0, 3), *mask = hd_custom("truth", HD_TENSORS(x), NULL, 0);
    assert_values(hd_masked_select(x, mask), F, 1, 2, 3);
    assert_values(hd_cumsum(mask, 0, NULL), HD_I64, 1, 1, 2, 2, 3);
}

static const char *leave_no_grad(hd_custom_args *args) {
    static hd_grad_token token;
    (void)args;
    token = hd_no_grad_begin(&token);
    return NULL;
}
static void a_block_that_is_left_open_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_custom_op op = plain("left.open");
    op.compute = leave_no_grad;
    hd_custom_register(&op);
    hd_tensor *x = hd_param(hd_ones(S(2), F));
    assert_null(hd_custom("left.open", HD_TENSORS(x), NULL, 0));
    assert_error(HD_ERROR_STATE, "hd_custom: the op \"left.open\" left a block with HD_NO_GRAD");
    assert_true(hd_tensor_requires_grad(hd_mul(x, x)));
    hd_clear_tape();
}

static hd_builder *begun;
static const char *start_a_builder(hd_custom_args *args) {
    (void)args;
    hd_builder_start(begun);
    return NULL;
}
static const char *end_a_builder(hd_custom_args *args) {
    (void)args;
    hd_builder_end(begun);
    return NULL;
}
static void a_builder_that_is_left_recording_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_custom_op op = plain("starts"), other = plain("ends");
    op.compute = start_a_builder;
    other.shapes = end_a_builder;
    hd_custom_register(&op);
    hd_custom_register(&other);
    hd_tensor *x = hd_ones(S(2), F);
    begun = hd_builder_new("begun");
    assert_null(hd_custom("starts", HD_TENSORS(x), NULL, 0));
    assert_error(HD_ERROR_STATE, "hd_custom: the op \"starts\" left a builder recording");
    assert_false(hd_builder_is_recording());
    assert_values(hd_add(x, x), F, 2, 2);
    begun = hd_builder_new("ended");
    hd_builder_start(begun);
    assert_null(hd_custom("ends", HD_TENSORS(hd_input("x", S(2), F)), NULL, 0));
    assert_error(HD_ERROR_STATE, "hd_custom: the op \"ends\" left a builder recording, or ended one around it");
    assert_values(hd_add(x, x), F, 2, 2);
}

RUN(test(descriptors_are_checked), test(a_name_is_one_op), test(calls_are_checked),
    test(what_a_function_says_of_outputs_is_checked), test(ops_compute), test(there_may_be_many_inputs),
    test(gradients_are_those_of_the_vjp), test(a_vjp_that_fails_is_named),
    test(a_function_that_fails_leaves_nothing_behind), test(threads_register_and_call_at_once),
    test(every_allocation_may_fail), test(an_op_may_release_its_list), test(bools_of_ops_are_0_or_1),
    test(a_block_that_is_left_open_is_an_error), test(a_builder_that_is_left_recording_is_an_error))
