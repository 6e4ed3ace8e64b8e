/* What the tests of files of other programs share: samples that NumPy and safetensors wrote, and copies of files that
 * are cut or changed. */
#ifndef HD_TESTS_IO_SAMPLES_H
#define HD_TESTS_IO_SAMPLES_H

#include "folder.h"

#define SAMPLE(name) HODU_TEST_DATA "/io/" name

/* All samples count 0, 1, 2, ...; bools are those modulo 2. */
static inline void assert_counts(hd_tensor *t, hd_dtype dtype, hd_shape shape) {
    assert_ok();
    assert_int_equal(hd_tensor_dtype(t), dtype);
    assert_true(hd_shape_equal(hd_tensor_shape(t), shape));
    assert_true(hd_tensor_is_contiguous(t));
    double values[4096];
    assert_true(hd_to_array(t, values, HD_F64, 4096));
    for (int64_t i = 0; i < hd_tensor_count(t); ++i) assert_true(values[i] == (double)(dtype == HD_BOOL ? i % 2 : i));
}

/* A tensor that counts likewise. */
static inline hd_tensor *counting(hd_dtype dtype, hd_shape shape) {
    const int64_t count = hd_shape_count(shape);
    hd_tensor *t = hd_arange(0, (double)count, 1, HD_F64);
    if (dtype == HD_BOOL) t = hd_rem_scalar(t, 2);
    return hd_cast(hd_reshape(t, shape), dtype);
}

/* Every file that is shorter is refused with an error that names it. */
static inline void assert_every_cut_is_refused(const char *whole, void (*load)(const char *path)) {
    file_bytes b = read_bytes(whole);
    for (size_t size = 0; size < b.size; ++size) {
        HD_SCOPE;
        write_bytes(in_folder("cut"), b.at, size);
        load(in_folder("cut"));
        if (hd_ok()) fail_msg("%s was loaded from its first %zu bytes of %zu", whole, size, b.size);
        if (strstr(hd_error_message(), "cut\" ") == NULL) fail_msg("no name: %s", hd_error_message());
        assert_true(hd_error_code() != HD_ERROR_INTERNAL);
        hd_error_clear();
    }
    free(b.at);
}

#endif
