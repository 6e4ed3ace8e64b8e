/* .npy files: those of NumPy are read, and ours come back. */
#include "each_allocation.h"
#include "samples.h"

#include <signal.h>
#include <sys/resource.h>

#if HD_HAS_FILES

static const hd_dtype kinds[] = {HD_BOOL, HD_U8,  HD_U16, HD_U32, HD_U64, HD_I8,
                                 HD_I16,  HD_I32, HD_I64, HD_F16, HD_F32, HD_F64};

/* ---- what NumPy wrote -------------------------------------------------------------------------------------------- */
static void orders_and_versions_of_numpy_are_read(void **state) {
    (void)state;
    HD_SCOPE;
    assert_counts(hd_npy_load(SAMPLE("fortran.npy")), HD_F64, HD_SHAPE(2, 3, 4));
    assert_counts(hd_npy_load(SAMPLE("big-endian.npy")), HD_F32, HD_SHAPE(2, 3));
    assert_counts(hd_npy_load(SAMPLE("big-endian-fortran.npy")), HD_I16, HD_SHAPE(3, 5));
    assert_counts(hd_npy_load(SAMPLE("version-2.npy")), HD_I32, HD_SHAPE(7));
    assert_counts(hd_npy_load(SAMPLE("version-3.npy")), HD_U64, HD_SHAPE(2, 2));
    hd_tensor *scalar = hd_npy_load(SAMPLE("scalar.npy"));
    assert_values(scalar, HD_F64, 1.5);
    assert_int_equal(hd_tensor_rank(scalar), 0);
}

static void what_no_tensor_is_is_refused(void **state) {
    (void)state;
    HD_SCOPE;
    assert_null(hd_npy_load(SAMPLE("text.npy")));
    assert_error(HD_ERROR_DTYPE, "text.npy\" has elements of NumPy's dtype \"<U1\"");
    assert_null(hd_npy_load(SAMPLE("complex.npy")));
    assert_error(HD_ERROR_DTYPE, "\"<c16\", of which no tensor is");
    assert_null(hd_npy_load(SAMPLE("records.npy")));
    assert_error(HD_ERROR_DTYPE, "has records");
}

/* ---- there and back ---------------------------------------------------------------------------------------------- */
static void every_dtype_comes_back(void **state) {
    (void)state;
    HD_SCOPE;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; ++k)
        for (int rank = 0; rank <= 8; ++rank) {
            HD_SCOPE;
            hd_shape shape = {.rank = rank};
            for (int i = 0; i < rank; ++i) shape.size[i] = i < 2 ? 3 : 1 + (i & 1);
            hd_npy_save(in_folder("a.npy"), counting(kinds[k], shape));
            assert_counts(hd_npy_load(in_folder("a.npy")), kinds[k], shape);
        }
    assert_int_equal(folder_entries(false), 1);
}

static void views_are_saved_row_major(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *t = counting(HD_F32, HD_SHAPE(4, 6));
    hd_npy_save(in_folder("a.npy"), hd_transpose(t, 0, 1));
    assert_same(hd_npy_load(in_folder("a.npy")), hd_transpose(t, 0, 1));
    hd_npy_save(in_folder("a.npy"), hd_narrow(t, 1, 2, 3));
    assert_same(hd_npy_load(in_folder("a.npy")), hd_narrow(t, 1, 2, 3));
    hd_npy_save(in_folder("a.npy"), hd_zeros(HD_SHAPE(0, 5), HD_I32));
    assert_counts(hd_npy_load(in_folder("a.npy")), HD_I32, HD_SHAPE(0, 5));
}

static void numpys_own_bytes_are_written(void **state) {
    (void)state;
    HD_SCOPE;
    static const char head[] = "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    hd_npy_save(in_folder("a.npy"), counting(HD_F32, HD_SHAPE(2, 3)));
    file_bytes b = read_bytes(in_folder("a.npy"));
    assert_int_equal(b.size, 128 + 24);
    assert_memory_equal(b.at, head, sizeof head - 1);
    assert_int_equal(b.at[127], '\n');
    free(b.at);
}

static void leaves_and_values_of_builders(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *leaf = hd_param(hd_ones(HD_SHAPE(2), HD_F32)), *x = hd_mul_scalar(leaf, 2);
    hd_npy_save(in_folder("a.npy"), x);
    assert_values(hd_npy_load(in_folder("a.npy")), HD_F32, 2, 2);
    hd_builder *b = hd_builder_new("b");
    hd_builder_start(b);
    hd_tensor *inside = hd_npy_load(in_folder("a.npy")); /* a constant like others */
    assert_ok();
    hd_npy_save(in_folder("b.npy"), hd_exp(inside));
    assert_error(HD_ERROR_STATE, "b.npy\" ");
    hd_builder_end(b);
    assert_int_equal(folder_entries(false), 1);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */
static void small_floats_are_refused(void **state) {
    (void)state;
    HD_SCOPE;
    const hd_dtype small[] = {HD_BF16, HD_F8E4M3, HD_F8E5M2};
    for (int i = 0; i < 3; ++i) {
        hd_npy_save(in_folder("a.npy"), hd_zeros(HD_SHAPE(2), small[i]));
        assert_error(HD_ERROR_DTYPE, "which NumPy has not; cast it first, hd_cast(t, HD_F32), or save .safetensors");
    }
    assert_int_equal(folder_entries(false), 0);
}

static void load(const char *path) { hd_npy_load(path); }

static void cut_files_are_refused(void **state) {
    (void)state;
    assert_every_cut_is_refused(SAMPLE("fortran.npy"), load);
    assert_every_cut_is_refused(SAMPLE("version-3.npy"), load);
}

/* An .npy with this head, and so many bytes of zeros behind it. */
static void try_head(const char *head, size_t zeros, hd_error code, const char *expected) {
    HD_SCOPE;
    unsigned char b[1024] = "\x93NUMPY\x01";
    const size_t length = strlen(head);
    b[8] = (unsigned char)length;
    b[9] = (unsigned char)(length >> 8);
    memcpy(b + 10, head, length);
    write_bytes(in_folder("h.npy"), b, 10 + length + zeros);
    assert_null(hd_npy_load(in_folder("h.npy")));
    assert_error(code, expected);
}

static void hostile_heads_are_errors(void **state) {
    (void)state;
#define HEAD(descr, order, shape) "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }\n"
    try_head(HEAD("'<f4'", "False", "(2,)"), 7, HD_ERROR_VALUE, "is cut: shape [2] of f32 is 8 bytes, and 7 follow");
    try_head(HEAD("'<f4'", "False", "(2,)"), 9, HD_ERROR_VALUE, "has more than one array");
    try_head(HEAD("'<f4'", "False", "(2)"), 8, HD_ERROR_VALUE, "a comma should be where");
    try_head(HEAD("'<f4'", "False", "(-2,)"), 8, HD_ERROR_VALUE, "a size should be where");
    try_head(HEAD("'<f4'", "False", "(2 3)"), 8, HD_ERROR_VALUE, "a comma should be where");
    try_head(HEAD("'<f4'", "False", "(99999999999999999999,)"), 8, HD_ERROR_OVERFLOW, "a size that is too large");
    try_head(HEAD("'<f4'", "False", "(4294967296, 4294967296)"), 8, HD_ERROR_OVERFLOW, "");
    try_head(HEAD("'<f4'", "False", "(0, 4294967296, 4294967296)"), 8, HD_ERROR_OVERFLOW, "");
    try_head(HEAD("'<f4'", "False", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), 4, HD_ERROR_SHAPE, "has more than 8 axes");
    try_head(HEAD("'<f4'", "0", "(2,)"), 8, HD_ERROR_VALUE, "True or False should be where");
    try_head(HEAD("'f4'", "False", "(2,)"), 8, HD_ERROR_DTYPE, "\"f4\", of which no tensor is");
    try_head(HEAD("'<f4", "False", "(2,)"), 8, HD_ERROR_VALUE, ", or } should be where");
    try_head(HEAD("''", "False", "(2,)"), 8, HD_ERROR_DTYPE, "\"\", of which no tensor is");
    try_head(HEAD("'<\\x66'", "False", "(2,)"), 8, HD_ERROR_VALUE, "is damaged");
    try_head(HEAD("'|b1'", "False", "(2,)") "{", 2, HD_ERROR_VALUE, "the end of the head should be where");
    try_head("{'descr': '<f4', 'shape': (2,)}", 8, HD_ERROR_VALUE, "has a head without \"fortran_order\"");
    try_head("{'descr': '<f4', 'descr': '<f4', 'shape': (2,)}", 8, HD_ERROR_VALUE, "\"descr\" twice");
    try_head("{'more': 1}", 8, HD_ERROR_VALUE, "\"more\", which means nothing");
    try_head("{'descr': '<f4' 'shape': (2,)}", 8, HD_ERROR_VALUE, ", or } should be where");
    try_head("", 8, HD_ERROR_VALUE, "{ should be where");
    unsigned char bools[] = "\x93NUMPY\x01\0\0\0{'descr': '|b1', 'fortran_order': False, 'shape': (2,)   }\n\1\2";
    bools[8] = (unsigned char)(sizeof bools - 1 - 10 - 2);
    write_bytes(in_folder("h.npy"), bools, sizeof bools - 1);
    assert_null(hd_npy_load(in_folder("h.npy")));
    assert_error(HD_ERROR_VALUE, "bools that are neither 0 nor 1");
    bools[6] = 4;
    write_bytes(in_folder("h.npy"), bools, sizeof bools - 1);
    assert_null(hd_npy_load(in_folder("h.npy")));
    assert_error(HD_ERROR_VALUE, "version 4.0; those known are 1.0, 2.0 and 3.0");
    bools[1] = 'n';
    write_bytes(in_folder("h.npy"), bools, sizeof bools - 1);
    assert_null(hd_npy_load(in_folder("h.npy")));
    assert_error(HD_ERROR_VALUE, "is no .npy: it does not begin as one");
}

static void wrong_arguments_are_errors(void **state) {
    (void)state;
    HD_SCOPE;
    assert_null(hd_npy_load(NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_npy_load: `path` is NULL");
    assert_null(hd_npy_load(""));
    assert_error(HD_ERROR_VALUE, "names no file");
    hd_npy_save(NULL, hd_zeros(HD_SHAPE(1), HD_F32));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_npy_save: `path` is NULL");
    hd_npy_save(in_folder("a.npy"), NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`t` is NULL");
    assert_null(hd_npy_load(in_folder("missing.npy")));
    assert_error(HD_ERROR_STATE, "missing.npy\" cannot be opened: No such file or directory");
    assert_null(hd_npy_load(folder));
    assert_error(HD_ERROR_STATE, "is no regular file");
    hd_npy_save(in_folder("missing/a.npy"), hd_zeros(HD_SHAPE(1), HD_F32));
    assert_error(HD_ERROR_STATE, "no new file can be made beside it");
}

/* ---- the system refuses ------------------------------------------------------------------------------------------ */
static void a_full_disk_leaves_the_old_file(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *t = counting(HD_F64, HD_SHAPE(1000));
    hd_npy_save(in_folder("a.npy"), counting(HD_U8, HD_SHAPE(3)));
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t most = 0; most < 8000; most += 999) {
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){most, before.rlim_max});
        hd_npy_save(in_folder("a.npy"), t);
        setrlimit(RLIMIT_FSIZE, &before);
        assert_error(HD_ERROR_STATE, "a.npy\" cannot be written: File too large");
        assert_counts(hd_npy_load(in_folder("a.npy")), HD_U8, HD_SHAPE(3));
        assert_int_equal(folder_entries(false), 1);
    }
    signal(SIGXFSZ, handler);
    assert_int_equal(symlink("/dev/full", in_folder("full")), 0);
    hd_npy_save(in_folder("full"), t);
    assert_error(HD_ERROR_STATE, "is no regular file, and is not replaced");
}

static void there_and_back(void) {
    hd_npy_save(in_folder("a.npy"), hd_transpose(hd_ones(HD_SHAPE(3, 2), HD_F32), 0, 1));
    hd_npy_load(in_folder("a.npy"));
    hd_npy_load(SAMPLE("fortran.npy"));
}
static void every_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(there_and_back, 200);
}

RUN(file_test(orders_and_versions_of_numpy_are_read), file_test(what_no_tensor_is_is_refused),
    file_test(every_dtype_comes_back), file_test(views_are_saved_row_major), file_test(numpys_own_bytes_are_written),
    file_test(leaves_and_values_of_builders), file_test(small_floats_are_refused), file_test(cut_files_are_refused),
    file_test(hostile_heads_are_errors), file_test(wrong_arguments_are_errors),
    file_test(a_full_disk_leaves_the_old_file), file_test(every_allocation_may_fail))

#else

static void files_are_named_as_missing(void **state) {
    (void)state;
    HD_SCOPE;
    assert_null(hd_npy_load("a.npy"));
    assert_error(HD_ERROR_STATE, "built without files (HODU_FILES=OFF)");
    hd_npy_save("a.npy", hd_ones(HD_SHAPE(1), HD_F32));
    assert_error(HD_ERROR_STATE, "built without files (HODU_FILES=OFF)");
    assert_null(hd_npz_load("a.npz"));
    assert_error(HD_ERROR_STATE, "built without files (HODU_FILES=OFF)");
    assert_null(hd_safetensors_load("a.safetensors"));
    assert_error(HD_ERROR_STATE, "built without files (HODU_FILES=OFF)");
}
RUN(test(files_are_named_as_missing))

#endif
