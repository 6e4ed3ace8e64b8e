/* The allocator: reuse, limits, hooks, figures; and every allocation that can fail, failing. */
#include "support.h"

#include "core/memory.h"

static void freed_memory_is_reused(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(1000), HD_F32), *big = hd_ones(HD_SHAPE(1 << 20), HD_F32);
    int64_t before = 0;
    for (int round = 0; round < 6000; ++round) { /* headers are recycled with a delay: warm up past it */
        HD_SCOPE;
        if (round == 5000) before = hd_memory().system_allocations;
        hd_tensor *y = x;
        for (int i = 0; i < 10; ++i) y = hd_add(y, x);
        if (round % 100 == 0) hd_exp(big);
    }
    assert_int_equal(hd_memory().system_allocations, before);
}

static void figures_add_up(void **state) {
    (void)state;
    hd_memory_trim();
    const hd_memory_stats before = hd_memory();
    assert_int_equal(before.live_bytes, 0);
    assert_int_equal(before.cached_bytes, 0);
    {
        HD_SCOPE;
        hd_memory_reset_peak();
        hd_ones(HD_SHAPE(1 << 20), HD_F32);
        assert_in_range(hd_memory().live_bytes, 4 << 20, 5 << 20);
        assert_in_range(hd_memory().peak_bytes, 4 << 20, 5 << 20);
    }
    assert_int_equal(hd_memory().live_bytes, 0);
    assert_in_range(hd_memory().cached_bytes, 4 << 20, 5 << 20);
    hd_memory_trim();
    assert_int_equal(hd_memory().cached_bytes, 0);
}

static void the_limit_holds(void **state) {
    (void)state;
    hd_memory_trim();
    hd_memory_set_limit(3 << 20);
    {
        HD_SCOPE;
        for (int i = 0; i < 8; ++i) hd_ones(HD_SHAPE(1 << 18), HD_F32);
    }
    assert_in_range(hd_memory().cached_bytes, 1, 3 << 20);
    hd_memory_set_limit(0);
    assert_int_equal(hd_memory().cached_bytes, 0);
    {
        HD_SCOPE;
        hd_ones(HD_SHAPE(16), HD_F32);
        hd_ones(HD_SHAPE(1 << 18), HD_F32);
    }
    assert_int_equal(hd_memory().cached_bytes, 0);
    hd_memory_set_limit((size_t)1 << 30);
}

static void of_the_cpu_figures_are_those_of_its_allocator(void **state) {
    (void)state;
    HD_SCOPE;
    hd_ones(HD_SHAPE(1 << 20), HD_F32);
    const hd_memory_stats all = hd_memory(), cpu = hd_device_memory(hd_cpu()), own = hd_device_memory((hd_device){0});
    assert_memory_equal(&all, &cpu, sizeof all);
    if (hd_current_device().kind == HD_DEVICE_CPU) assert_memory_equal(&all, &own, sizeof all);
    {
        HD_SCOPE;
        hd_ones(HD_SHAPE(1 << 21), HD_F32);
    }
    assert_true(hd_device_memory(hd_cpu()).cached_bytes >= 8 << 20);
    hd_device_memory_set_limit(hd_cpu(), 8 << 20);
    hd_device_memory_trim(hd_cpu());
    assert_int_equal(hd_memory().cached_bytes, 0);
    hd_device_memory_set_limit(hd_cpu(), (size_t)1 << 30);
    hd_device_memory((hd_device){HD_DEVICE_CPU, 1});
    assert_error(HD_ERROR_DEVICE, "hd_device_memory: device cpu:1 is not here: there is one, cpu:0");
    hd_device_memory_trim((hd_device){(hd_device_kind)77, 0});
    assert_error(HD_ERROR_DEVICE, "is not here: there is no such kind of device");
}

static void sizes_are_rounded_up_and_aligned(void **state) {
    (void)state;
    HD_SCOPE;
    for (int64_t n = 1; n < 3000000; n += n / 7 + 1) {
        HD_SCOPE;
        hd_tensor *x = hd_empty(HD_SHAPE(n), HD_U8);
        uint8_t *bytes = hd_data_mut(x, HD_U8);
        assert_int_equal((uintptr_t)bytes % 64, 0);
        memset(bytes, 1, (size_t)n); /* under asan: all of it is there */
    }
}

static int64_t hook_calls, hook_bytes;
static void *counting_allocate(size_t size, size_t alignment, void *user) {
    assert_ptr_equal(user, &hook_calls);
    hook_calls++;
    hook_bytes += (int64_t)size;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}
static void counting_release(void *memory, size_t size, void *user) {
    (void)user;
    hook_bytes -= (int64_t)size;
    free(memory);
}

static void hooks_replace_the_system(void **state) {
    (void)state;
    hd_memory_set_hooks(&(hd_memory_hooks){counting_allocate, counting_release, &hook_calls});
    assert_ok();
    {
        HD_SCOPE;
        hd_add(hd_ones(HD_SHAPE(100), HD_F32), hd_ones(HD_SHAPE(1 << 20), HD_F64));
        hd_error_clear();
        hd_memory_set_hooks(NULL);
        assert_error(HD_ERROR_STATE, "hd_memory_set_hooks:");
    }
    assert_true(hook_calls > 4);
    hd_memory_set_hooks(NULL);
    assert_ok();
    assert_int_equal(hook_bytes, 0);
    hd_memory_set_hooks(&(hd_memory_hooks){counting_allocate, NULL, NULL});
    assert_error(HD_ERROR_NULL_ARGUMENT, "release");
}

/* ---- every allocation fails once --------------------------------------------------------------------------------- */
static void elementwise_program(void) {
    HD_SCOPE;
    HD_SCOPE;
    hd_tensor *a = hd_arange(0, 12, 1, HD_F32), *m = hd_reshape(a, HD_SHAPE(3, 4));
    hd_tensor *s = hd_add(hd_exp(m), hd_t(hd_mul_scalar(hd_reshape(a, HD_SHAPE(4, 3)), 2)));
    hd_where(hd_gt_scalar(s, 3), s, hd_cast(hd_cast(s, HD_BF16), HD_F32));
    hd_clamp(s, 0, 1);
    hd_keep(s);
}
static void reduce_program(void) {
    HD_SCOPE;
    hd_tensor *x = hd_randn(HD_SHAPE(300, 500), HD_F32);
    hd_sum(x, HD_AXES(0), NULL);
    hd_var(x, HD_AXES(1), 1, NULL);
    hd_logsumexp(x, HD_AXES(), NULL);
    hd_argmax(x, 1, NULL);
    hd_norm(hd_t(x), 3, HD_AXES(0), HD_OPTS(hd_reduce_opts, .keep_dims = true));
}
static void movement_program(void) {
    HD_SCOPE;
    hd_tensor *x = hd_arange(0, 24, 1, HD_I32), *m = hd_reshape(x, HD_SHAPE(2, 3, 4));
    hd_tensor *c = hd_concat((hd_tensor *[]){m, m, hd_flip(m, HD_AXES(1))}, 3, 0);
    hd_pad(c, (const hd_padding[]){{1, 2}, {0, 1}}, 2, 7);
    hd_pad_with(c, (const hd_padding[]){{1, 2}}, 1, HD_PAD_REFLECT);
    hd_roll(hd_tile(x, HD_SHAPE(2)), 3, 0);
    hd_stack((hd_tensor *[]){x, x}, 2, 0);
    hd_reshape(hd_permute(m, HD_AXES(2, 0, 1)), HD_SHAPE(-1));
    hd_tensor *dst = hd_copy(m);
    hd_assign(hd_slice(dst, 0, 0, 1, 1), hd_slice(dst, 0, 1, 2, 1));
    hd_add_(dst, m);
    hd_fill(dst, 3);
}
static void index_program(void) {
    HD_SCOPE;
    hd_tensor *x = hd_rand(HD_SHAPE(5, 4), HD_F16), *i = HD_TENSOR_I64(HD_SHAPE(2), 0, -1);
    hd_index_select(x, 0, i);
    hd_take_along_axis(x, 1, hd_argmax(x, 1, HD_OPTS(hd_reduce_opts, .keep_dims = true)));
    hd_index_add(x, 0, i, hd_ones(HD_SHAPE(2, 4), HD_F16));
    hd_one_hot(i, 3, HD_F32);
    hd_multinomial(hd_ones(HD_SHAPE(3, 5), HD_F32), 2, false);
    hd_permutation(10);
}
static void matmul_program(void) {
    HD_SCOPE;
    hd_tensor *a = hd_randn(HD_SHAPE(130, 140), HD_F32), *b = hd_randn(HD_SHAPE(2, 140, 150), HD_BF16);
    hd_matmul(a, b);
    hd_matmul(hd_t(a), hd_select(a, 1, 0));
    hd_tensor *half = hd_cast(a, HD_F16), *small = hd_cast(a, HD_I8);
    hd_matmul(half, hd_t(half)); /* packed, in place, in batches */
    hd_matmul(hd_narrow(half, 0, 0, 3), hd_select(b, 0, 0));
    hd_matmul(hd_reshape(half, HD_SHAPE(26, 5, 140)), hd_narrow(hd_t(half), 1, 0, 4));
    hd_affine(half, half, hd_select(hd_cast(a, HD_BF16), 1, 0));
    hd_matmul(small, hd_t(small));
    double values[140];
    hd_to_array(hd_select(a, 0, 0), values, HD_F64, 140);
    char text[256];
    hd_format(a, text, sizeof text, NULL);
    hd_generator_use(hd_generator_new(3));
    hd_rand(HD_SHAPE(3), HD_F32);
    hd_generator_use(NULL);
}

static void failing_at_every_place(void (*program)(void)) {
    for (int64_t n = 0;; ++n) {
        hd_memory_trim(); /* nothing cached: the first allocation of a kind is a real one */
        hd_memory_fail_after(n);
        program();
        const bool reached = hd_memory_attempts() > n;
        hd_memory_fail_after(-1);
        assert_int_equal(hd_live_objects(), 0);
        assert_int_equal(hd_memory().live_bytes, 0);
        if (!reached) {
            assert_ok();
            assert_true(n > 3);
            return;
        }
        if (hd_ok()) continue; /* it could do without: a cache was trimmed and the second try went well */
        if (hd_error_code() != HD_ERROR_MEMORY)
            fail_msg("allocation %d failed, but the error is: %s", (int)n, hd_error_message());
        hd_error_clear();
        hd_generator_use(NULL);
    }
}

static void elementwise_survives(void **state) {
    (void)state;
    failing_at_every_place(elementwise_program);
}
static void reductions_survive(void **state) {
    (void)state;
    failing_at_every_place(reduce_program);
}
static void movement_survives(void **state) {
    (void)state;
    failing_at_every_place(movement_program);
}
static void indexing_survives(void **state) {
    (void)state;
    failing_at_every_place(index_program);
}
static void products_survive(void **state) {
    (void)state;
    failing_at_every_place(matmul_program);
}

RUN(test(freed_memory_is_reused), test(figures_add_up), test(the_limit_holds),
    test(of_the_cpu_figures_are_those_of_its_allocator), test(sizes_are_rounded_up_and_aligned),
    test(hooks_replace_the_system), test(elementwise_survives), test(reductions_survive), test(movement_survives),
    test(indexing_survives), test(products_survive))
