/* What tests of data share: little datasets, and files for readers. */
#ifndef HD_TESTS_DATA_SUPPORT_DATA_H
#define HD_TESTS_DATA_SUPPORT_DATA_H

#include "support.h"

#include <unistd.h>

/* [n,2] f32: row i is i, i + 0.5; and [n] i64: 10 i. */
static inline hd_tensor *numbered_x(int64_t n) {
    float values[512];
    assert_true(2 * n <= 512);
    for (int64_t i = 0; i < n; ++i) {
        values[2 * i] = (float)i;
        values[2 * i + 1] = (float)i + 0.5f;
    }
    return hd_from_data(values, HD_SHAPE(n, 2), HD_F32);
}
static inline hd_tensor *numbered_y(int64_t n) { return hd_range(0, 10, n, HD_I64); }
static inline hd_dataset *numbered(int64_t n) { return hd_tensor_dataset(HD_TENSORS(numbered_x(n), numbered_y(n))); }

/* The first number of an item's first tensor. */
static inline int64_t number_of(hd_dataset *d, int64_t i) {
    HD_SCOPE;
    hd_tensors *item = hd_dataset_get(d, i);
    assert_ok();
    return hd_item_i64(hd_select(hd_flatten(hd_tensors_get(item, 0)), 0, 0));
}

/* A path for a file, which is removed when the test program ends. */
static char written_paths[64][96];
static int written_count;
static inline void remove_written(void) {
    for (int i = 0; i < written_count; ++i) unlink(written_paths[i]);
}
static inline const char *fresh_path(const char *extension) {
    if (written_count == 0) atexit(remove_written);
    assert_true(written_count < 64);
    char *path = written_paths[written_count];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof written_paths[0], "%.40s/hodu-test-%ld-%d.%s", folder != NULL ? folder : "/tmp",
             (long)getpid(), written_count, extension);
    written_count++;
    return path;
}
static inline const char *written(const void *bytes, size_t count, const char *extension) {
    const char *path = fresh_path(extension);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(bytes, 1, count, f) != count || fclose(f) != 0) fail_msg("cannot write %s", path);
    return path;
}

#endif
