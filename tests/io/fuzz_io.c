/* Any bytes as a file of another program's: FORMAT is npy, npz or safetensors. It must load or be refused with an error
 * that names the file; what loads must be the same after it was saved. */
#define SMALL 16
#include "fuzz.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
#define npy(load, save, compare)                                                                                       \
    hd_tensor *t = hd_npy_load(load);                                                                                  \
    if (t == NULL) return;                                                                                             \
    hd_npy_save(save, t);                                                                                              \
    compare(t, hd_npy_load(save))
#define npz(load, save, compare)                                                                                       \
    hd_archive *a = hd_npz_load(load);                                                                                 \
    if (a == NULL) return;                                                                                             \
    hd_npz_save(save, a);                                                                                              \
    compare_archives(a, hd_npz_load(save))
#define safetensors(load, save, compare)                                                                               \
    hd_archive *a = hd_safetensors_load(load);                                                                         \
    if (a == NULL) return;                                                                                             \
    hd_safetensors_save(save, a, NULL);                                                                                \
    compare_archives(a, hd_safetensors_load(save))

static void compare(hd_tensor *a, hd_tensor *b) {
    if (!hd_ok()) broken("what was loaded cannot be saved and loaded");
    const hd_dtype dtype = hd_tensor_dtype(a);
    if (hd_tensor_dtype(b) != dtype || !hd_shape_equal(hd_tensor_shape(a), hd_tensor_shape(b)) ||
        memcmp(hd_data(a, dtype), hd_data(b, dtype), (size_t)hd_tensor_count(a) * hd_dtype_size(dtype)) != 0)
        broken("another tensor came back");
}

__attribute__((unused)) static void compare_archives(const hd_archive *a, const hd_archive *b) {
    if (!hd_ok()) broken("what was loaded cannot be saved and loaded");
    if (hd_archive_count(a) != hd_archive_count(b) || hd_archive_text_count(a) != hd_archive_text_count(b))
        broken("another archive came back");
    for (int64_t i = 0; i < hd_archive_count(a); ++i) {
        HD_SCOPE;
        compare(hd_archive_at(a, i), hd_archive_get(b, hd_archive_name(a, i)));
    }
    for (int64_t i = 0; i < hd_archive_text_count(a); ++i)
        if (strcmp(hd_archive_text(a, hd_archive_key(a, i)), hd_archive_text(b, hd_archive_key(a, i))) != 0)
            broken("another text came back");
}

static void try_file(void) {
    HD_SCOPE;
    FORMAT(path, copy, compare);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (descriptor < 0) begin(TEXT(FORMAT));
    put(bytes, size);
    try_file();
    if (!hd_ok() && strstr(hd_error_message(), "/in.") == NULL) broken("an error that does not name the file");
    if (hd_error_code() == HD_ERROR_INTERNAL) broken("a fault inside");
    hd_error_clear();
    if (hd_live_objects() != 0 || hd_memory().live_bytes != 0) broken("something was left behind");
    return 0;
}
