/* Memory: training runs flat, tapes are small and give everything back, long ones need no stack, and every allocation
 * on the way may fail. */
#include "heap.h"
#include "support.h"

#include <limits.h>
#include <pthread.h>

#include "core/memory.h"

/* Runs a test in a thread that has nothing yet: no scopes, no caches, no tape. */
static void in_a_new_thread(void *(*function)(void *), void *argument, size_t stack) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (stack != 0 && stack < (size_t)PTHREAD_STACK_MIN) stack = (size_t)PTHREAD_STACK_MIN; /* 128 KB on AArch64 */
    if (stack != 0) assert_int_equal(pthread_attr_setstacksize(&attributes, stack), 0);
    pthread_t id;
    void *result;
    assert_int_equal(pthread_create(&id, &attributes, function, argument), 0);
    pthread_attr_destroy(&attributes);
    pthread_join(id, &result);
    if (result != NULL) fail_msg("%s", (const char *)result);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */
static hd_module *small_model(void) {
    hd_seed(3);
    return HD_SEQUENTIAL(hd_linear(4, 8, NULL), hd_tanh_layer(), hd_linear(8, 3, NULL), hd_leaky_relu_layer(0.1));
}
typedef hd_optimizer *maker(hd_tensors *parameters);
static hd_optimizer *plain_sgd(hd_tensors *p) { return hd_sgd(p, 0.01, NULL); }
static hd_optimizer *momentum(hd_tensors *p) {
    return hd_sgd(p, 0.01, HD_OPTS(hd_sgd_opts, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true));
}
static hd_optimizer *adam(hd_tensors *p) { return hd_adam(p, 0.001, HD_OPTS(hd_adam_opts, .weight_decay = 1e-4)); }

static double one_step(hd_module *model, hd_optimizer *optimizer, hd_tensor *x, hd_tensor *target) {
    HD_SCOPE;
    hd_optimizer_zero_grad(optimizer);
    hd_tensor *loss = hd_cross_entropy(hd_forward(model, x), target, NULL);
    hd_backward(loss);
    hd_optimizer_step(optimizer);
    return hd_item(loss);
}

static void stays_flat(maker *make) {
    HD_SCOPE;
    hd_module *model = small_model();
    hd_optimizer *optimizer = make(hd_module_parameters(model));
    hd_tensor *x = hd_randn(HD_SHAPE(5, 4), HD_F32), *target = HD_TENSOR_I64(HD_SHAPE(5), 0, 1, 2, 1, 0);
    const int steps = SANITIZED ? 1500 : 10000, level = WARM < 100 ? 10 : WARM; /* debug builds let headers wait */
    double first = 0, last = 0;
    int64_t objects = 0, given_out = 0;
    hd_memory_stats memory = {0};
    for (int i = 1; i <= steps; ++i) {
        last = one_step(model, optimizer, x, target);
        if (i == 1) first = last;
        if (i == level) {
            objects = hd_live_objects();
            memory = hd_memory();
            given_out = bytes_given_out();
        }
        if (i <= level || (i % 97 != 0 && i != steps)) continue;
        assert_int_equal(hd_live_objects(), objects);
        assert_int_equal(hd_memory().live_bytes, memory.live_bytes);
        assert_int_equal(hd_memory().cached_bytes, memory.cached_bytes);
        assert_int_equal(hd_memory().system_allocations, memory.system_allocations);
        assert_int_equal(bytes_given_out(), given_out);
    }
    assert_ok();
    assert_true(last < first);
}

static void ten_thousand_steps_of_sgd_run_flat(void **state) {
    (void)state;
    not_on_a_device("it counts memory of the host");
    stays_flat(plain_sgd);
}
static void ten_thousand_steps_with_momentum_run_flat(void **state) {
    (void)state;
    not_on_a_device("it counts memory of the host");
    stays_flat(momentum);
}
static void ten_thousand_steps_of_adam_run_flat(void **state) {
    (void)state;
    not_on_a_device("it counts memory of the host");
    stays_flat(adam);
}

static hd_tensor *cubed(hd_tensors *inputs, void *user) {
    (void)user;
    hd_tensor *x = hd_tensors_get(inputs, 0);
    return hd_mul(x, hd_mul(x, x));
}
static hd_tensor *halves(hd_tensor *gradient, void *user) {
    (void)user;
    return hd_mul_scalar(gradient, 0.5);
}

/* A bit of everything that a tape can do. */
static hd_tensor *everything(hd_tensor *x) {
    hd_tensor *y = hd_recompute(cubed, NULL, HD_TENSORS(hd_exp(x)));
    hd_retain_grad(y);
    hd_add_grad_hook(y, halves, NULL);
    hd_add_(y, x);
    hd_tensors *first = hd_grad_of(hd_tanh(hd_mul(y, x)), HD_TENSORS(x), NULL);
    hd_tensor *z = hd_mul(x, hd_mul(x, x));
    hd_tensors *second = hd_grad_of(z, HD_TENSORS(x), HD_OPTS(hd_grad_of_opts, .differentiable = true));
    hd_tensor *along = hd_jvp(z, HD_TENSORS(x), HD_TENSORS(hd_ones_like(x)));
    return hd_add(hd_add(y, hd_tensors_get(first, 0)), hd_add(hd_tensors_get(second, 0), along));
}

static void everything_else_runs_flat_too(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(3), HD_F32, 0.5));
    int64_t objects = 0, bytes = 0, given_out = 0;
    for (int i = 1; i <= 2 * WARM + 200; ++i) {
        {
            HD_SCOPE;
            HD_GRAD_CONTEXT;
            hd_backward(everything(x));
        }
        {
            HD_SCOPE;
            hd_backward(everything(x));
            hd_clear_tape();
            hd_zero_grad(x);
        }
        if (i == 2 * WARM) objects = hd_live_objects(), bytes = hd_memory().live_bytes, given_out = bytes_given_out();
    }
    assert_ok();
    assert_int_equal(hd_live_objects(), objects);
    assert_int_equal(hd_memory().live_bytes, bytes);
    /* less than a piece a round; how one is cut differs a little. A driver of a device may take memory of the host. */
    if (hd_current_device().kind == HD_DEVICE_CPU) assert_true(bytes_given_out() - given_out < 200 * 16);
}

/* ---- long tapes -------------------------------------------------------------------------------------------------- */
enum { LONG = SANITIZED ? 15000 : 1000000 };
static size_t small_stack(void) { /* drivers of devices take more than we do, and as much for a short tape */
    return SANITIZED || hd_current_device().kind != HD_DEVICE_CPU ? 1 << 20 : 64 << 10;
}

/* y = x + 1 + 1 + ..., each sum released at once; saves nothing. */
static hd_tensor *chain(hd_tensor *x, int length) {
    hd_tensor *one, *y = hd_retain(hd_neg(x));
    one = hd_retain(hd_ones(HD_SHAPE(), HD_F64));
    for (int i = 1; i < length; ++i) {
        HD_SCOPE;
        hd_tensor *next = hd_retain(hd_add(y, one));
        hd_release(y);
        y = next;
    }
    hd_release(one);
    return y;
}

static void *a_million_ops(void *unused) {
    (void)unused;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F64, 1));
    hd_release(chain(x, 1000)); /* so that what a thread keeps is there */
    hd_clear_tape();
    const int64_t before = bytes_given_out();
    hd_tensor *y = chain(x, LONG);
    if (hd_tape_length() != LONG) return "the tape's length";
    if (bytes_given_out() - before > (int64_t)LONG * 200) return "more than 200 bytes a record";
    hd_backward(y);
    if (!hd_ok() || hd_item(hd_grad(x)) != -1) return "the gradient";
    hd_backward(y);
    if (hd_item(hd_grad(x)) != -2) return "the gradient of the second walk";
    hd_tensors *again = hd_grad_of(y, HD_TENSORS(x), NULL);
    if (hd_item(hd_tensors_get(again, 0)) != -1) return "hd_grad_of";
    hd_release(y);
    hd_clear_tape();
    if (bytes_given_out() - before > 8 << 20) return "a cleared tape keeps more than a little";
    return NULL;
}
static void a_million_ops_need_little_memory_and_no_stack(void **state) {
    (void)state;
    in_a_new_thread(a_million_ops, NULL, small_stack());
}

static void *a_deep_second_derivative(void *unused) {
    (void)unused;
    HD_SCOPE;
    const int length = LONG / 20;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F64, 1)), *y = hd_mul(x, x);
    for (int i = 0; i < length; ++i) y = hd_neg(y);
    hd_tensors *first = hd_grad_of(y, HD_TENSORS(x), HD_OPTS(hd_grad_of_opts, .differentiable = true));
    hd_tensors *second = hd_grad_of(hd_tensors_get(first, 0), HD_TENSORS(x), NULL);
    if (!hd_ok()) return "an error";
    if (hd_item(hd_tensors_get(second, 0)) != 2) return "the second derivative";
    return NULL;
}
static void second_derivatives_of_long_chains_need_no_stack(void **state) {
    (void)state;
    in_a_new_thread(a_deep_second_derivative, NULL, small_stack());
}

static hd_tensor *step_of(int kind, hd_tensor *y, hd_tensor *x) { /* both [4,4] */
    const hd_shape image = HD_SHAPE(1, 1, 4, 4);
    switch (kind) {
    case 0: return hd_affine(y, x, hd_select(x, 0, 0));
    case 1: return hd_layer_norm(y, 1, NULL, NULL, 0.1);
    case 2: return hd_softmax(hd_add(y, x), 1);
    case 3: return hd_attention(y, y, x, NULL, true, 0);
    case 4:
        return hd_reshape(hd_conv(hd_reshape(y, image), hd_reshape(hd_select(x, 0, 1), HD_SHAPE(1, 1, 2, 2)), NULL,
                                  HD_OPTS(hd_conv_opts, .padding = {{1, 0}, {0, 1}})),
                          HD_SHAPE(4, 4));
    case 5: return hd_max_pool(y, HD_SHAPE(3), HD_OPTS(hd_pool_opts, .stride = {1}, .padding = {{1, 1}}));
    case 6: return hd_recompute(cubed, NULL, HD_TENSORS(y));
    case 7: return hd_add(y, hd_cross_entropy(y, HD_TENSOR_I64(HD_SHAPE(4), 0, 1, 2, 3), NULL));
    case 8: return hd_scatter(y, 0, hd_zeros(HD_SHAPE(1, 4), HD_I64), hd_narrow(x, 0, 0, 1), HD_SCATTER_MAX);
    default:
        return hd_where(hd_gt_scalar(y, 0), hd_gelu(y),
                        hd_prod(hd_stack((hd_tensor *[]){y, x}, 2, 0), HD_AXES(0), NULL));
    }
}
static void *every_kind(void *unused) {
    (void)unused;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(4, 4), HD_F32, 0.1)), *y = hd_retain(hd_neg(x));
    for (int i = 0; i < 1000 && hd_ok(); ++i) {
        HD_SCOPE;
        hd_tensor *next = hd_retain(step_of(i % 10, y, x));
        hd_release(y);
        y = next;
    }
    hd_backward(y);
    hd_release(y);
    return hd_ok() && hd_has_grad(x) ? NULL : "an error";
}
static void every_kind_of_op_fits_a_small_stack(void **state) {
    (void)state;
    in_a_new_thread(every_kind, NULL, small_stack());
}

static void backward_costs_what_it_visits(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F64, 2)), *y = chain(x, LONG / 4);
    hd_tensor *small = hd_mul(x, x);
    for (int i = 0; i < LONG / 100; ++i) { /* visiting the whole tape each time would take hours */
        HD_SCOPE;
        hd_backward(small);
        if (i % 200 == 0) hd_zero_grad(x);
    }
    hd_zero_grad(x);
    hd_backward(small);
    assert_true(hd_item(hd_grad(x)) == 4);
    hd_release(y);
}

static void a_value_used_twice_each_time_is_visited_once(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F64, 1)), *y = x;
    for (int i = 0; i < 200; ++i) y = hd_mul_scalar(hd_add(y, y), i % 2 == 0 ? 1 : 0.25); /* 2^200 ways through it */
    hd_backward(y);
    assert_true(hd_item(hd_grad(x)) == 1);
}

static void a_leaf_used_many_times_costs_one_place_each(void **state) {
    (void)state;
    HD_SCOPE;
    const int times = LONG / 20;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F64, 1)), *y = hd_retain(hd_neg(x));
    for (int i = 0; i < times; ++i) {
        HD_SCOPE;
        hd_tensor *next = hd_retain(hd_add(y, x));
        hd_release(y);
        y = next;
    }
    hd_backward(y);
    hd_release(y);
    assert_true(hd_item(hd_grad(x)) == times - 1);
}

/* ---- every allocation fails once: a whole program, in a thread of its own ---------------------------------------- */
typedef struct trial {
    void (*program)(void);
    int64_t n;
    bool with_thread, reached;
} trial;

static void *try_it(void *argument) {
    trial *t = argument;
    if (t->with_thread) hd_ok(); /* else the thread's own context is the first to fail */
    hd_memory_fail_after(t->n);
    {
        HD_SCOPE;
        t->program();
        hd_error_code(); /* an error that was read is not printed at the scope's end */
    }
    t->reached = hd_memory_attempts() > t->n;
    hd_memory_fail_after(-1);
    static char message[512];
    if (!hd_ok() && hd_error_code() != HD_ERROR_MEMORY) {
        snprintf(message, sizeof message, "allocation %d failed, but the error is: %s", (int)t->n, hd_error_message());
        return message;
    }
    if (!t->reached && !hd_ok()) return "an error, though no allocation failed";
    hd_error_clear();
    if (hd_grad_context_id() != 0) return "a context was left behind";
    hd_clear_tape();
    t->program(); /* and now it works */
    if (!hd_ok()) {
        snprintf(message, sizeof message, "after allocation %d failed, once more: %s", (int)t->n, hd_error_message());
        return message;
    }
    return NULL;
}

static void failing_at_every_place(void (*program)(void)) {
    for (int with_thread = 0; with_thread < 2; ++with_thread) {
        trial t = {.program = program, .with_thread = with_thread, .reached = true};
        for (; t.reached; ++t.n) {
            hd_memory_trim();
            in_a_new_thread(try_it, &t, 0);
            assert_int_equal(hd_live_objects(), 0);
            assert_int_equal(hd_memory().live_bytes, 0);
        }
        assert_true(t.n > 20);
    }
}

static void train_with(maker *make) {
    HD_SCOPE;
    hd_module *model = small_model();
    hd_optimizer *optimizer = make(hd_module_parameters(model));
    hd_tensor *x = hd_randn(HD_SHAPE(5, 4), HD_F32), *target = HD_TENSOR_I64(HD_SHAPE(5), 0, 1, 2, 1, 0);
    for (int i = 0; i < 2; ++i) one_step(model, optimizer, x, target);
    hd_module_parameter_name(model, 2);
    hd_module_get(model, "2.bias");
    hd_clear_tape();
}
static void train_with_sgd(void) { train_with(momentum); }
static void train_with_adam(void) { train_with(adam); }
static void use_everything(void) {
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(3), HD_F32, 0.5));
    hd_backward(everything(x));
    hd_grad(x);
    {
        HD_GRAD_CONTEXT;
        HD_NO_GRAD;
        HD_GRAD_CONTEXT_DEFAULT;
        const int64_t id = hd_grad_context_push();
        hd_exp(x);
        if (id > 0) hd_grad_context_pop(id);
    }
    hd_zero_grad(x);
    hd_grad(x);
    hd_set_grad(x, hd_ones(HD_SHAPE(3), HD_F32));
    hd_param(hd_mul(x, x));
    hd_clear_tape();
}
static hd_tensor *sums_up(hd_module *module, hd_tensor *x) {
    return hd_mul(hd_sum(x, HD_AXES(), NULL), hd_module_get(module, "scale"));
}
static void build_modules(void) {
    HD_SCOPE;
    static const hd_module_class own_class = {.name = "own", .forward = sums_up};
    hd_module *own = hd_module_new(&own_class, NULL);
    hd_module_add_parameter(own, "scale", hd_ones(HD_SHAPE(), HD_F32));
    hd_module_add_buffer(own, "mean", hd_ones(HD_SHAPE(), HD_F32));
    hd_module_add(own, "inner", HD_SEQUENTIAL(hd_linear(2, 2, NULL), hd_softmax_layer(-1), hd_softplus_layer(1, 20)));
    hd_module_parameters(own);
    hd_module_parameter_name(own, 1);
    hd_module_eval(own);
    hd_adam(hd_module_parameters(own), 0.1, NULL);
    hd_backward(hd_forward(own, hd_ones(HD_SHAPE(2), HD_F32)));
    hd_clear_tape();
}
static bool differences_agree(hd_tensors *inputs) {
    return hd_gradcheck(cubed, NULL, inputs, HD_OPTS(hd_gradcheck_opts, .second_order = true));
}
static void check_gradients(void) {
    HD_SCOPE;
    differences_agree(HD_TENSORS(hd_full(HD_SHAPE(1), HD_F64, 0.5)));
}

static void training_with_sgd_survives(void **state) {
    (void)state;
    failing_at_every_place(train_with_sgd);
}
static void training_with_adam_survives(void **state) {
    (void)state;
    failing_at_every_place(train_with_adam);
}
static void recomputations_hooks_and_higher_orders_survive(void **state) {
    (void)state;
    failing_at_every_place(use_everything);
}
static void modules_survive(void **state) {
    (void)state;
    failing_at_every_place(build_modules);
}
static void gradcheck_survives(void **state) {
    (void)state;
    failing_at_every_place(check_gradients);
}

/* The list of a scope's objects is one of the things that grow: here it is full when each of these is made. */
static int destroyed;
static void count_destroyed(void *state) {
    (void)state;
    ++destroyed;
}
static void update_nothing(hd_optimizer *o, void *s, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    (void)o, (void)s, (void)p, (void)g, (void)slot;
}
static void make_one(int which, hd_tensors *parameters) {
    static const hd_module_class module_class = {.name = "own", .forward = sums_up, .destroy = count_destroyed};
    static const hd_optimizer_class optimizer_class = {
        .name = "own", .update = update_nothing, .destroy = count_destroyed};
    hd_tensor *p = hd_tensors_get(parameters, 0);
    switch (which) {
    case 0: hd_leaky_relu_layer(0.1); break;
    case 1: hd_softplus_layer(1, 20); break;
    case 2: hd_sgd(parameters, 0.1, NULL); break;
    case 3: hd_adam(parameters, 0.1, NULL); break;
    case 4: hd_module_new(&module_class, NULL); break;
    case 5: hd_optimizer_new(&optimizer_class, NULL, parameters, 0.1); break;
    case 6: hd_linear(2, 2, NULL); break;
    case 7: hd_relu_layer(); break;
    case 8: HD_TENSORS(p, p); break;
    case 9: hd_param(hd_exp(p)); break;
    case 10: hd_recompute(cubed, NULL, parameters); break;
    case 11: hd_backward(hd_exp(p)); break;
    case 12: hd_grad_of(hd_exp(p), parameters, NULL); break;
    default: hd_grad(p); break;
    }
}
typedef struct full_list {
    int which, room;
    int64_t n;
    bool reached;
} full_list;
static void *make_one_more(void *argument) {
    full_list *f = argument;
    HD_SCOPE;
    hd_thread *thread = hd_thread_self();
    hd_tensor *p = hd_param(hd_ones(HD_SHAPE(), HD_F32));
    hd_tensors *parameters = HD_TENSORS(p);
    hd_zero_grad(p);
    while (thread->object_count + (uint32_t)f->room < thread->object_capacity) hd_tensors_get(parameters, 0);
    destroyed = 0;
    hd_memory_trim();
    hd_memory_fail_after(f->n);
    make_one(f->which, parameters);
    f->reached = hd_memory_attempts() > f->n;
    hd_memory_fail_after(-1);
    const bool right = hd_ok() || (hd_error_code() == HD_ERROR_MEMORY && destroyed == 0);
    hd_error_clear();
    return right ? NULL : "another error, or a module that was not made has taken over the state";
}
static void a_full_list_of_objects_survives(void **state) {
    (void)state;
    for (int which = 0; which <= 13; ++which)
        for (int room = 0; room < 4; ++room)
            for (full_list f = {which, room, 0, true}; f.reached; ++f.n) {
                in_a_new_thread(make_one_more, &f, 0);
                assert_int_equal(hd_live_objects(), 0);
            }
}

/* ---- every allocation of a backward fails once: all gradients arrive, or none ------------------------------------ */
enum { LEAVES = 6 };
typedef struct setting {
    hd_tensor *leaf[LEAVES], *kept, *loss;
} setting;

static setting prepare(void) {
    setting s;
    for (int i = 0; i < LEAVES; ++i) s.leaf[i] = hd_param(hd_full(HD_SHAPE(1 + i), HD_F64, 0.5 + i));
    hd_tensor *sum = hd_sum(hd_exp(s.leaf[0]), HD_AXES(), NULL);
    {
        HD_GRAD_CONTEXT; /* so that a leaf has two records on the tape */
        hd_neg(s.leaf[1]);
    }
    hd_neg(s.leaf[1]);
    for (int i = 0; i < LEAVES; ++i)
        sum = hd_add(sum, hd_mean(hd_mul(s.leaf[i], s.leaf[(i + 1) % LEAVES == 0 ? 0 : i]), HD_AXES(), NULL));
    s.kept = hd_retain_grad(hd_tanh(sum));
    hd_add_grad_hook(s.leaf[2], halves, NULL);
    hd_add_grad_hook(s.kept, halves, NULL);
    hd_tensor *inside = hd_recompute(cubed, NULL, HD_TENSORS(hd_mul_scalar(s.leaf[3], 0.25)));
    s.loss = hd_add(hd_add(s.kept, hd_sum(inside, HD_AXES(), NULL)), hd_sum(hd_sign(s.leaf[4]), HD_AXES(), NULL));
    return s;
}

static int read_gradients(const setting *s, double out[64]) { /* how many tensors have one */
    int known = 0, at = 0;
    for (int i = 0; i <= LEAVES; ++i) {
        hd_tensor *t = i < LEAVES ? s->leaf[i] : s->kept;
        if (!hd_has_grad(t)) continue;
        hd_to_array(hd_grad(t), out + at, HD_F64, (size_t)(64 - at));
        at += (int)hd_tensor_count(t);
        ++known;
    }
    return known;
}

static const char *all_or_nothing(int64_t n, int before, bool *reached) {
    HD_SCOPE;
    const setting s = prepare();
    double was[64] = {0}, is[64] = {0};
    for (int i = 0; i < before; ++i) hd_backward(s.loss);
    if (before > 1) hd_zero_grad(s.leaf[0]);
    const int known = read_gradients(&s, was);
    hd_memory_trim();
    hd_memory_fail_after(n);
    hd_backward(s.loss);
    *reached = hd_memory_attempts() > n;
    hd_memory_fail_after(-1);
    const bool failed = !hd_ok();
    if (failed && hd_error_code() != HD_ERROR_MEMORY) return hd_error_message();
    hd_error_clear();
    if (failed) {
        if (read_gradients(&s, is) != known) return "some leaves got a gradient, though backward failed";
        if (memcmp(was, is, sizeof was) != 0) return "some gradients changed, though backward failed";
        hd_backward(s.loss); /* and once more, in peace */
    }
    if (read_gradients(&s, is) != LEAVES + 1) return "some leaves got no gradient";
    static double once[64];
    if (before == 0 && n == 0) memcpy(once, is, sizeof once);
    for (int i = 0; i < 64; ++i) {
        const double expected = known == 0 ? once[i] : was[i] + once[i];
        if (is[i] != expected) return "a gradient is not the sum of what arrived";
    }
    return hd_ok() ? NULL : hd_error_message();
}
static void *all_or_nothing_everywhere(void *before) {
    bool reached = true;
    for (int64_t n = 0; reached; ++n) {
        const char *wrong = all_or_nothing(n, *(int *)before, &reached);
        if (wrong != NULL) return (void *)(uintptr_t)wrong;
        hd_clear_tape();
        if (hd_live_objects() != 0 || hd_memory().live_bytes != 0) return "something was left behind";
    }
    return NULL;
}
static void gradients_arrive_all_or_none(void **state) {
    (void)state;
    for (int before = 0; before < 3; ++before) in_a_new_thread(all_or_nothing_everywhere, &before, 0);
}

/* ---- every allocation of an update fails once -------------------------------------------------------------------- */
static void a_failing_step_leaves_whole_parameters(void **state) {
    (void)state;
    maker *const makers[] = {plain_sgd, momentum, adam};
    for (int m = 0; m < 3; ++m)
        for (int64_t n = 0, reached = 1; reached; ++n) {
            HD_SCOPE;
            hd_tensor *p[2];
            for (int i = 0; i < 2; ++i) {
                p[i] = hd_param(hd_full(HD_SHAPE(3), HD_F32, 1 + i));
                hd_set_grad(p[i], hd_ones(HD_SHAPE(3), HD_F32));
            }
            hd_optimizer *optimizer = makers[m](HD_TENSORS(p[0], p[1]));
            hd_memory_trim();
            hd_memory_fail_after(n);
            hd_optimizer_step(optimizer);
            reached = hd_memory_attempts() > n;
            hd_memory_fail_after(-1);
            assert_true(hd_ok() || hd_error_code() == HD_ERROR_MEMORY);
            hd_error_clear();
            for (int i = 0; i < 2; ++i) {
                const float *v = hd_data_f32(p[i]);
                assert_true(v[0] == v[1] && v[1] == v[2] && v[0] <= (float)(1 + i));
                assert_true(reached || v[0] < (float)(1 + i));
            }
            hd_optimizer_step(optimizer);
            assert_ok();
            assert_true(hd_data_f32(p[0])[0] < 1 && hd_data_f32(p[1])[0] < 2);
            assert_true(hd_tensor_requires_grad(hd_neg(p[0]))); /* not left under HD_NO_GRAD */
            hd_clear_tape();
        }
}

RUN(test(ten_thousand_steps_of_sgd_run_flat), test(ten_thousand_steps_with_momentum_run_flat),
    test(ten_thousand_steps_of_adam_run_flat), test(everything_else_runs_flat_too),
    test(a_million_ops_need_little_memory_and_no_stack), test(second_derivatives_of_long_chains_need_no_stack),
    test(every_kind_of_op_fits_a_small_stack), test(backward_costs_what_it_visits),
    test(a_value_used_twice_each_time_is_visited_once), test(a_leaf_used_many_times_costs_one_place_each),
    test(training_with_sgd_survives), test(training_with_adam_survives),
    test(recomputations_hooks_and_higher_orders_survive), test(modules_survive), test(gradcheck_survives),
    test(a_full_list_of_objects_survives), test(gradients_arrive_all_or_none),
    test(a_failing_step_leaves_whole_parameters))
