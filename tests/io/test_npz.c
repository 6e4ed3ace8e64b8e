/* Archives and .npz files. */
#include "each_allocation.h"
#include "samples.h"

#include "io/io.h"

#include <pthread.h>
#include <sys/wait.h>

#if HD_HAS_FILES

static const struct {
    const char *name;
    hd_dtype dtype;
} kinds[] = {{"b1", HD_BOOL}, {"u1", HD_U8},  {"u2", HD_U16}, {"u4", HD_U32}, {"u8", HD_U64}, {"i1", HD_I8},
             {"i2", HD_I16},  {"i4", HD_I32}, {"i8", HD_I64}, {"f2", HD_F16}, {"f4", HD_F32}, {"f8", HD_F64}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* ---- archives ---------------------------------------------------------------------------------------------------- */
static void archives_keep_tensors_by_name(void **state) {
    (void)state;
    HD_SCOPE;
    hd_archive *a = hd_archive_new();
    for (int i = 0; i < 300; ++i) {
        HD_SCOPE;
        char name[20];
        snprintf(name, sizeof name, "t%d", i);
        hd_archive_add(a, name, hd_scalar(i, HD_F32));
    }
    assert_int_equal(hd_archive_count(a), 300);
    assert_string_equal(hd_archive_name(a, 7), "t7");
    assert_string_equal(hd_archive_name(a, -1), "t299");
    assert_values(hd_archive_at(a, -2), HD_F32, 298);
    assert_values(hd_archive_get(a, "t123"), HD_F32, 123);
    assert_true(hd_archive_has(a, "t0") && !hd_archive_has(a, "t300"));
    hd_archive_set_text(a, "k", "one");
    hd_archive_set_text(a, "k", "two");
    assert_int_equal(hd_archive_text_count(a), 1);
    assert_string_equal(hd_archive_key(a, 0), "k");
    assert_string_equal(hd_archive_text(a, "k"), "two");
    assert_null(hd_archive_text(a, "none"));
    assert_ok();
}

static void wrong_arguments_of_archives_are_errors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_archive *a = hd_archive_new();
    hd_tensor *t = hd_ones(HD_SHAPE(1), HD_F32);
    hd_archive_add(a, "x", t);
#define REFUSES(call, code, text)                                                                                      \
    do {                                                                                                               \
        call;                                                                                                          \
        assert_error(code, text);                                                                                      \
    } while (0)
    REFUSES(hd_archive_add(NULL, "y", t), HD_ERROR_NULL_ARGUMENT, "hd_archive_add: `archive` is NULL");
    REFUSES(hd_archive_add(a, NULL, t), HD_ERROR_NULL_ARGUMENT, "`name` is NULL");
    REFUSES(hd_archive_add(a, "", t), HD_ERROR_VALUE, "must not be empty");
    REFUSES(hd_archive_add(a, "\xff", t), HD_ERROR_VALUE, "is no UTF-8");
    REFUSES(hd_archive_add(a, "\xed\xa0\x80", t), HD_ERROR_VALUE, "is no UTF-8");
    REFUSES(hd_archive_add(a, "y", NULL), HD_ERROR_NULL_ARGUMENT, "`t` is NULL");
    REFUSES(hd_archive_add(a, "x", t), HD_ERROR_VALUE, "has a tensor \"x\" already");
    REFUSES(hd_archive_add((hd_archive *)t, "y", t), HD_ERROR_STATE, "is no living archive");
    REFUSES(hd_archive_get(a, "y"), HD_ERROR_VALUE, "has no tensor \"y\"; it has x");
    REFUSES(hd_archive_get(NULL, "y"), HD_ERROR_NULL_ARGUMENT, "hd_archive_get");
    REFUSES(hd_archive_at(a, 1), HD_ERROR_INDEX, "tensor 1 of an archive of 1");
    REFUSES(hd_archive_at(NULL, 0), HD_ERROR_NULL_ARGUMENT, "hd_archive_at");
    REFUSES(hd_archive_name(a, -2), HD_ERROR_INDEX, "hd_archive_name");
    REFUSES(hd_archive_has(a, NULL), HD_ERROR_NULL_ARGUMENT, "hd_archive_has");
    REFUSES(hd_archive_count(NULL), HD_ERROR_NULL_ARGUMENT, "hd_archive_count");
    REFUSES(hd_archive_set_text(a, "k", NULL), HD_ERROR_NULL_ARGUMENT, "`text` is NULL");
    REFUSES(hd_archive_set_text(a, "k", "\x80"), HD_ERROR_VALUE, "the text of \"k\" is no UTF-8");
    REFUSES(hd_archive_text(a, ""), HD_ERROR_VALUE, "hd_archive_text");
    REFUSES(hd_archive_text_count(NULL), HD_ERROR_NULL_ARGUMENT, "hd_archive_text_count");
    REFUSES(hd_archive_key(a, 0), HD_ERROR_INDEX, "text 0 of an archive of 0");
    assert_int_equal(hd_archive_count(a), 1);
}

/* ---- what NumPy wrote -------------------------------------------------------------------------------------------- */
static void stored_arrays_of_numpy_are_read(void **state) {
    (void)state;
    HD_SCOPE;
    const hd_shape shapes[] = {HD_SHAPE(), HD_SHAPE(3), HD_SHAPE(2, 3)};
    hd_archive *a = hd_npz_load(SAMPLE("stored.npz"));
    assert_ok();
    assert_int_equal(hd_archive_count(a), 3 * KINDS + 1);
    for (int k = 0; k < KINDS; ++k)
        for (int rank = 0; rank < 3; ++rank) {
            char name[20];
            snprintf(name, sizeof name, "%s-%d", kinds[k].name, rank);
            assert_counts(hd_archive_get(a, name), kinds[k].dtype, shapes[rank]);
        }
    assert_counts(hd_archive_get(a, "empty"), HD_F32, HD_SHAPE(0, 4));
}

static void deflated_arrays_of_numpy_are_read(void **state) {
    (void)state;
    HD_SCOPE;
    hd_archive *a = hd_npz_load(SAMPLE("deflated.npz"));
    assert_ok();
    assert_counts(hd_archive_get(a, "large"), HD_F32, HD_SHAPE(40, 50));
    assert_counts(hd_archive_get(a, "bools"), HD_BOOL, HD_SHAPE(9));
    assert_null(hd_npz_load(SAMPLE("other.npz")));
    assert_error(HD_ERROR_VALUE, "other.npz\" has a member \"notes.txt\" that is no .npy");
}

/* In a child, as zlib is looked for once. */
static void without_zlib_it_says_so(void **state) {
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        setenv("HODU_ZLIB", "/nowhere/libz.so", 1);
        HD_SCOPE;
        const bool stored = hd_npz_load(SAMPLE("stored.npz")) != NULL,
                   deflated = hd_npz_load(SAMPLE("deflated.npz")) != NULL;
        const char *said = hd_error_message();
        _exit(stored && !deflated && strstr(said, "is compressed: there is no zlib at HODU_ZLIB") != NULL &&
                      strstr(said, "numpy.savez, which does not compress") != NULL
                  ? 0
                  : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- there and back ---------------------------------------------------------------------------------------------- */
static void archives_come_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_archive *a = hd_archive_new();
    for (int k = 0; k < KINDS; ++k) hd_archive_add(a, kinds[k].name, counting(kinds[k].dtype, HD_SHAPE(3, 5)));
    hd_archive_add(a, "a name/with \xc3\xa4", hd_zeros(HD_SHAPE(0), HD_F32));
    hd_npz_save(in_folder("a.npz"), a);
    hd_archive *b = hd_npz_load(in_folder("a.npz"));
    assert_ok();
    assert_int_equal(hd_archive_count(b), KINDS + 1);
    for (int k = 0; k < KINDS; ++k) {
        assert_string_equal(hd_archive_name(b, k), kinds[k].name);
        assert_counts(hd_archive_at(b, k), kinds[k].dtype, HD_SHAPE(3, 5));
    }
    assert_counts(hd_archive_get(b, "a name/with \xc3\xa4"), HD_F32, HD_SHAPE(0));
    hd_npz_save(in_folder("empty.npz"), hd_archive_new());
    assert_int_equal(hd_archive_count(hd_npz_load(in_folder("empty.npz"))), 0);
    assert_ok();
}

static void what_cannot_be_kept_is_refused(void **state) {
    (void)state;
    HD_SCOPE;
    hd_archive *a = hd_archive_new();
    hd_archive_add(a, "w", hd_zeros(HD_SHAPE(2), HD_BF16));
    hd_npz_save(in_folder("a.npz"), a);
    assert_error(HD_ERROR_DTYPE, "a.npz\" at \"w\" cannot keep a tensor of bf16");
    hd_archive *texts = hd_archive_new();
    hd_archive_set_text(texts, "k", "v");
    hd_npz_save(in_folder("a.npz"), texts);
    assert_error(HD_ERROR_VALUE, "cannot keep the 1 texts of the archive");
    hd_npz_save(in_folder("a.npz"), NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_npz_save: `archive` is NULL");
    hd_npz_save(NULL, texts);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`path` is NULL");
    assert_null(hd_npz_load(NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_npz_load: `path` is NULL");
    assert_null(hd_npz_load(in_folder("missing.npz")));
    assert_error(HD_ERROR_STATE, "cannot be opened");
    assert_int_equal(folder_entries(false), 0);
}

/* ---- what nobody vouches for ------------------------------------------------------------------------------------- */
static void load(const char *path) { hd_npz_load(path); }

static void cut_files_are_refused(void **state) {
    (void)state;
    assert_every_cut_is_refused(SAMPLE("deflated.npz"), load);
    HD_SCOPE;
    hd_archive *a = hd_archive_new();
    hd_archive_add(a, "x", counting(HD_F32, HD_SHAPE(3)));
    hd_npz_save(in_folder("a.npz"), a);
    assert_every_cut_is_refused(in_folder("a.npz"), load);
}

/* Every single byte, changed: arrays that are loaded all the same are those that were saved. */
static void every_damage_is_noticed_or_harmless(void **state) {
    (void)state;
    const char *const names[] = {SAMPLE("deflated.npz"), in_folder("a.npz")};
    {
        HD_SCOPE;
        hd_archive *a = hd_archive_new();
        hd_archive_add(a, "large", counting(HD_F32, HD_SHAPE(40, 50)));
        hd_archive_add(a, "bools", counting(HD_BOOL, HD_SHAPE(9)));
        hd_npz_save(names[1], a);
        assert_ok();
    }
    for (int k = 0; k < 2; ++k) {
        file_bytes b = read_bytes(names[k]);
        for (size_t i = 0; i<b.size; i += b.size> 4000 && i > 400 && i + 900 < b.size ? 37 : 1) {
            HD_SCOPE;
            b.at[i] ^= 0x41;
            write_bytes(in_folder("b.npz"), b.at, b.size);
            b.at[i] ^= 0x41;
            hd_archive *a = hd_npz_load(in_folder("b.npz"));
            if (a == NULL)
                assert_true(hd_error_code() != HD_ERROR_INTERNAL && strstr(hd_error_message(), "b.npz\" ") != NULL);
            hd_error_clear();
            if (a != NULL && hd_archive_has(a, "large"))
                assert_counts(hd_archive_get(a, "large"), HD_F32, HD_SHAPE(40, 50));
            if (a != NULL && hd_archive_has(a, "bools"))
                assert_counts(hd_archive_get(a, "bools"), HD_BOOL, HD_SHAPE(9));
        }
        free(b.at);
    }
}

static void damaged_bytes_are_noticed(void **state) {
    (void)state;
    HD_SCOPE;
    hd_archive *a = hd_archive_new();
    hd_archive_add(a, "x", counting(HD_F32, HD_SHAPE(100)));
    hd_npz_save(in_folder("a.npz"), a);
    file_bytes b = read_bytes(in_folder("a.npz"));
    b.at[300] ^= 1;
    write_bytes(in_folder("a.npz"), b.at, b.size);
    free(b.at);
    assert_null(hd_npz_load(in_folder("a.npz")));
    assert_error(HD_ERROR_VALUE, "has a member \"x.npy\" that is damaged: its checksum does not fit its bytes");
}

/* The checksum of the page that defines it. */
static void the_checksum_is_that_of_zip(void **state) {
    (void)state;
    assert_int_equal(hd_crc32(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(hd_crc32(hd_crc32(0, "12345678", 8), "9", 1), 0xcbf43926);
    assert_int_equal(hd_crc32(0, "", 0), 0);
}

static void there_and_back(void) {
    hd_archive *a = hd_archive_new();
    hd_archive_add(a, "x", hd_ones(HD_SHAPE(3), HD_F32));
    hd_npz_save(in_folder("a.npz"), a);
    hd_npz_load(in_folder("a.npz"));
    hd_npz_load(SAMPLE("deflated.npz"));
}
static void every_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(there_and_back, 300);
}

RUN(file_test(without_zlib_it_says_so), file_test(archives_keep_tensors_by_name),
    file_test(wrong_arguments_of_archives_are_errors), file_test(stored_arrays_of_numpy_are_read),
    file_test(deflated_arrays_of_numpy_are_read), file_test(archives_come_back),
    file_test(what_cannot_be_kept_is_refused), file_test(cut_files_are_refused),
    file_test(every_damage_is_noticed_or_harmless), file_test(damaged_bytes_are_noticed),
    file_test(the_checksum_is_that_of_zip), file_test(every_allocation_may_fail))

#else
int main(void) { return 77; }
#endif
