/* What once broke the library: absurd sizes, empty blobs, small stacks, objects released in odd orders. */
#include "support.h"
#include <limits.h>

#include <math.h>
#include <pthread.h>

static void an_empty_blob_at_null_is_an_empty_tensor(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *nothing = hd_from_blob(NULL, HD_SHAPE(0), HD_F32, NULL, NULL);
    assert_values(hd_sum(nothing, HD_AXES(), NULL), HD_F32, 0);
    assert_true(hd_allclose(nothing, nothing, NULL));
    hd_tensor *wide = hd_from_blob(NULL, HD_SHAPE(2, 0), HD_F32, NULL, NULL);
    assert_values(hd_matmul(wide, hd_t(wide)), HD_F32, 0, 0, 0, 0);
    assert_null(hd_argmax(wide, 1, NULL));
    assert_error(HD_ERROR_SHAPE, "hd_argmax: axis 1 of [2,0] is empty");
}

static void absurd_sizes_are_errors(void **state) {
    (void)state;
    HD_SCOPE;
    const int64_t huge = INT64_C(1) << 59;
    hd_tensor *s = hd_scalar(1, HD_F32), *byte = hd_scalar(1, HD_U8);
    assert_null(hd_matmul(hd_broadcast_to(s, HD_SHAPE(2, huge)), hd_broadcast_to(s, HD_SHAPE(huge, 2))));
    assert_error(HD_ERROR_MEMORY, "hd_matmul");
    hd_tensor *x = hd_range(0, 1, 6, HD_F32);
    assert_values(hd_unfold(x, 0, 6, INT64_MAX), HD_F32, 0, 1, 2, 3, 4, 5);
    assert_null(hd_unfold(hd_broadcast_to(byte, HD_SHAPE(INT64_C(1) << 40)), 0, INT64_C(1) << 39, 1));
    assert_error(HD_ERROR_OVERFLOW, "hd_unfold");
    assert_values(hd_roll(x, INT64_MIN, 0), HD_F32, 2, 3, 4, 5, 0, 1);
    hd_tensor *odd = hd_as_strided(x, HD_SHAPE(1, 2), HD_SHAPE(INT64_MAX, 1), 0);
    assert_values(hd_slice(odd, 0, HD_END, HD_END, -1), HD_F32, 0, 1);
    hd_shape wild = {.rank = 99};
    assert_null(hd_expand(x, wild));
    assert_error(HD_ERROR_SHAPE, "hd_expand");
    assert_false(hd_shape_equal(wild, wild));
    hd_sub_(x, hd_broadcast_to(s, HD_SHAPE(1 << 30, 6))); /* refused before anything of that size is made */
    assert_error(HD_ERROR_SHAPE, "hd_sub_: [1073741824,6] does not broadcast to the destination's [6]");
}

static void release_never_takes_what_the_library_holds(void **state) {
    (void)state;
    HD_SCOPE;
    hd_generator *g;
    {
        HD_SCOPE;
        g = hd_generator_new(5);
        hd_generator_use(g);
        hd_release(g); /* the scope's reference; the thread still holds its own */
        hd_release(g); /* one too many */
        assert_error(HD_ERROR_STATE, "hd_release: this generator is not yours to release");
    }
    hd_memory_trim();
    hd_rand(HD_SHAPE(2), HD_F32);
    assert_int_equal(hd_generator_draw(NULL), 1);
    assert_ptr_equal(hd_generator_use(NULL), g);
}

static void *every_family(void *unused) {
    (void)unused;
    HD_SCOPE;
    hd_tensor *a = hd_randn(HD_SHAPE(33, 35), HD_F32), *b = hd_t(a), *h = hd_cast(a, HD_BF16);
    hd_matmul(a, b);
    hd_matmul(h, hd_randn(HD_SHAPE(35, 129), HD_F32));
    hd_matmul(hd_randn(HD_SHAPE(130, 130), HD_F64), hd_randn(HD_SHAPE(130, 131), HD_F64));
    hd_add(h, hd_mul_scalar(hd_t(b), 2));
    hd_add(hd_reshape(hd_arange(0, 20000, 1, HD_F32), HD_SHAPE(100, 200)), hd_t(hd_rand(HD_SHAPE(200, 100), HD_F32)));
    hd_var(b, HD_AXES(0), 1, NULL);
    hd_argmax(b, 0, NULL);
    hd_sum(hd_rand(HD_SHAPE(3000, 3), HD_F16), HD_AXES(0), NULL);
    hd_index_select(hd_concat((hd_tensor *[]){a, a}, 2, 0), 0, hd_permutation(30));
    hd_multinomial(hd_rand(HD_SHAPE(2, 9), HD_F32), 4, true);
    char text[300];
    hd_format(a, text, sizeof text, NULL);
    return hd_ok() ? NULL : (void *)1;
}

static void every_family_fits_a_small_stack(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const size_t stack = 1 << 20; /* sanitizers need more for themselves */
#else
    const size_t stack = PTHREAD_STACK_MIN > 64 << 10 ? PTHREAD_STACK_MIN : 64 << 10; /* 128 KB on AArch64 */
#endif
    pthread_attr_t attributes;
    pthread_t id;
    void *result;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, stack), 0);
    assert_int_equal(pthread_create(&id, &attributes, every_family, NULL), 0);
    pthread_join(id, &result);
    pthread_attr_destroy(&attributes);
    assert_null(result);
}

RUN(test(an_empty_blob_at_null_is_an_empty_tensor), test(absurd_sizes_are_errors),
    test(release_never_takes_what_the_library_holds), test(every_family_fits_a_small_stack))
