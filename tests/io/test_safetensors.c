/* .safetensors: files of others are read without copying them, ours come back, and hostile ones are errors with names. */
#include "each_allocation.h"
#include "samples.h"

#include "core/tensor.h"

#include <signal.h>
#include <sys/resource.h>

#if HD_HAS_FILES

/* As safetensors names them, with PyTorch's names of the tensors of the sample. */
static const struct {
    const char *name;
    hd_dtype dtype;
} kinds[] = {{"bool", HD_BOOL},          {"uint8", HD_U8},
             {"uint16", HD_U16},         {"uint32", HD_U32},
             {"uint64", HD_U64},         {"int8", HD_I8},
             {"int16", HD_I16},          {"int32", HD_I32},
             {"int64", HD_I64},          {"float8_e4m3fn", HD_F8E4M3},
             {"float8_e5m2", HD_F8E5M2}, {"bfloat16", HD_BF16},
             {"float16", HD_F16},        {"float32", HD_F32},
             {"float64", HD_F64}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* ---- what others wrote ------------------------------------------------------------------------------------------- */
static void every_dtype_of_others_is_read(void **state) {
    (void)state;
    HD_SCOPE;
    hd_archive *a = hd_safetensors_load(SAMPLE("every.safetensors"));
    assert_ok();
    assert_int_equal(hd_archive_count(a), KINDS + 2);
    for (int k = 0; k < KINDS; ++k) assert_counts(hd_archive_get(a, kinds[k].name), kinds[k].dtype, HD_SHAPE(2, 3));
    assert_counts(hd_archive_get(a, "scalar"), HD_F32, HD_SHAPE());
    assert_counts(hd_archive_get(a, "empty"), HD_F32, HD_SHAPE(0, 4));
    assert_int_equal(hd_archive_text_count(a), 2);
    assert_string_equal(hd_archive_text(a, "format"), "pt");
    assert_string_equal(hd_archive_text(a, "said"), "\"\xc3\xa9\"\n\t\\");
}

static void an_index_brings_all_its_files(void **state) {
    (void)state;
    HD_SCOPE;
    hd_archive *a = hd_safetensors_load(SAMPLE("model.safetensors.index.json"));
    assert_ok();
    assert_int_equal(hd_archive_count(a), 3);
    assert_counts(hd_archive_get(a, "a.weight"), HD_F32, HD_SHAPE(2, 3));
    assert_counts(hd_archive_get(a, "b.weight"), HD_F32, HD_SHAPE(2, 3));
    assert_string_equal(hd_archive_text(a, "format"), "pt");
}

/* ---- there and back ---------------------------------------------------------------------------------------------- */
static hd_archive *one_of_each(void) {
    hd_archive *a = hd_archive_new();
    for (int k = 0; k < KINDS; ++k) hd_archive_add(a, kinds[k].name, counting(kinds[k].dtype, HD_SHAPE(2, 4)));
    hd_archive_add(a, "view", hd_transpose(counting(HD_F32, HD_SHAPE(2, 3)), 0, 1));
    hd_archive_add(a, "\"quoted\" \\ \n \xc3\xa4", hd_zeros(HD_SHAPE(0, 2), HD_U8));
    hd_archive_set_text(a, "key", "a \"text\"\x01\xf0\x9f\x98\x80");
    return a;
}

static void assert_is_one_of_each(const hd_archive *a) {
    assert_ok();
    assert_int_equal(hd_archive_count(a), KINDS + 2);
    for (int k = 0; k < KINDS; ++k) {
        assert_string_equal(hd_archive_name(a, k), kinds[k].name);
        assert_counts(hd_archive_at(a, k), kinds[k].dtype, HD_SHAPE(2, 4));
    }
    assert_values(hd_archive_get(a, "view"), HD_F32, 0, 3, 1, 4, 2, 5);
    assert_counts(hd_archive_get(a, "\"quoted\" \\ \n \xc3\xa4"), HD_U8, HD_SHAPE(0, 2));
    assert_string_equal(hd_archive_text(a, "key"), "a \"text\"\x01\xf0\x9f\x98\x80");
}

static void archives_come_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_safetensors_save(in_folder("a.safetensors"), one_of_each(), NULL);
    assert_is_one_of_each(hd_safetensors_load(in_folder("a.safetensors")));
    hd_safetensors_save(in_folder("empty.safetensors"), hd_archive_new(), NULL);
    assert_int_equal(hd_archive_count(hd_safetensors_load(in_folder("empty.safetensors"))), 0);
    assert_ok();
}

static void several_files_come_back(void **state) {
    (void)state;
    HD_SCOPE;
    const int64_t sizes[] = {1, 60, 130, 1000000};
    const int files[] = {KINDS + 1, 9, 4, 1}; /* what has no bytes goes with another */
    for (int i = 0; i < 4; ++i) {
        hd_safetensors_save(in_folder("m.safetensors"), one_of_each(),
                            HD_OPTS(hd_safetensors_opts, .shard_bytes = sizes[i]));
        assert_is_one_of_each(hd_safetensors_load(in_folder("m.safetensors.index.json")));
        assert_int_equal(folder_entries(true), files[i] + 1);
    }
    hd_safetensors_save(in_folder("m.bin"), one_of_each(), HD_OPTS(hd_safetensors_opts, .shard_bytes = 100));
    assert_error(HD_ERROR_VALUE, "m.bin\" does not end in .safetensors");
    hd_safetensors_save(in_folder("m.safetensors"), one_of_each(), HD_OPTS(hd_safetensors_opts, .shard_bytes = -1));
    assert_error(HD_ERROR_VALUE, "hd_safetensors_save: shard_bytes -1");
}

/* ---- the map ----------------------------------------------------------------------------------------------------- */
static void tensors_look_into_the_file(void **state) {
    (void)state;
    not_on_a_device("there a tensor is a copy");
    HD_SCOPE;
    {
        HD_SCOPE;
        hd_archive *a = hd_archive_new();
        hd_archive_add(a, "large", hd_ones(HD_SHAPE(1 << 20), HD_F32));
        hd_archive_add(a, "small", counting(HD_F32, HD_SHAPE(4)));
        hd_safetensors_save(in_folder("a.safetensors"), a, NULL);
    }
    const int64_t before = hd_memory().live_bytes;
    hd_tensor *large, *small;
    {
        HD_SCOPE;
        hd_archive *a = hd_safetensors_load(in_folder("a.safetensors"));
        large = hd_keep(hd_archive_get(a, "large"));
        small = hd_keep(hd_archive_get(a, "small"));
    }
    remove(in_folder("a.safetensors")); /* the map stays */
    assert_values(hd_sum(large, HD_AXES(), NULL), HD_F32, 1 << 20);
    assert_true(hd_memory().live_bytes < before + 4096); /* the sum */
    assert_int_equal((uintptr_t)hd_data_f32(large) % 64, 0);
    hd_tensor *shared = hd_narrow(small, 0, 1, 2);
    hd_fill(small, 7); /* memory of its own */
    assert_values(small, HD_F32, 7, 7, 7, 7);
    assert_values(shared, HD_F32, 7, 7);
    assert_null(small->storage->home);
    hd_add_(large, hd_ones(HD_SHAPE(1), HD_F32));
    assert_values(hd_sum(large, HD_AXES(), NULL), HD_F32, 2 << 20);
    assert_true(hd_memory().live_bytes >= before + (4 << 20));
}

static void mapped_tensors_are_as_others(void **state) {
    (void)state;
    HD_SCOPE;
    hd_archive *a = hd_archive_new();
    hd_archive_add(a, "w", counting(HD_F32, HD_SHAPE(2, 3)));
    hd_safetensors_save(in_folder("a.safetensors"), a, NULL);
    hd_tensor *w = hd_archive_get(hd_safetensors_load(in_folder("a.safetensors")), "w");
    hd_requires_grad(w);
    hd_backward(hd_sum(hd_square(w), HD_AXES(), NULL));
    assert_values(hd_grad(w), HD_F32, 0, 2, 4, 6, 8, 10);
    hd_optimizer *o = hd_sgd(HD_TENSORS(w), 0.5, NULL);
    hd_optimizer_step(o);
    assert_values(w, HD_F32, 0, 0, 0, 0, 0, 0);
    hd_tensor *again = hd_archive_get(hd_safetensors_load(in_folder("a.safetensors")), "w");
    hd_builder *b = hd_builder_new("b");
    hd_builder_start(b);
    hd_builder_add_output(b, "y", hd_mul(hd_input("x", HD_SHAPE(3), HD_F32), again));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "x", hd_ones(HD_SHAPE(3), HD_F32));
    assert_values(hd_outputs_get(hd_script_run(s), "y"), HD_F32, 0, 1, 2, 3, 4, 5);
    hd_safetensors_save(in_folder("a.safetensors"), a, NULL); /* over the file that is mapped */
    assert_values(again, HD_F32, 0, 1, 2, 3, 4, 5);
}

/* ---- what nobody vouches for ------------------------------------------------------------------------------------- */
static void write_file(const char *name, uint64_t length, const char *head, size_t zeros) {
    unsigned char b[4096] = {0};
    const size_t bytes = strlen(head);
    memcpy(b, &length, 8);
    memcpy(b + 8, head, bytes);
    write_bytes(in_folder(name), b, 8 + bytes + zeros);
}

static void try_head(const char *head, size_t zeros, hd_error code, const char *expected) {
    HD_SCOPE;
    write_file("h.safetensors", strlen(head), head, zeros);
    hd_archive *a = hd_safetensors_load(in_folder("h.safetensors"));
    if (code == HD_OK) {
        assert_ok();
        return;
    }
    assert_null(a);
    assert_error(code, expected);
}

#define ENTRY(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(dtype, shape, offsets)   "{\"x\":" ENTRY(dtype, shape, offsets) "}"

static void hostile_heads_are_errors(void **state) {
    (void)state;
    try_head(ONE("F32", "[2]", "[0,8]"), 8, HD_OK, "");
    try_head(ONE("F32", "[2]", "[0,8]") "   ", 8, HD_OK, "");
    try_head(ONE("F32", "[2]", "[0,8]"), 7, HD_ERROR_VALUE, "\"x\" is at bytes 0 to 8, and the file has 7");
    try_head(ONE("F32", "[2]", "[0,8]"), 9, HD_ERROR_VALUE, "has 1 bytes too many at its end");
    try_head(ONE("F32", "[2]", "[1,9]"), 9, HD_ERROR_VALUE, "has bytes that are no tensor's: 0 to 1");
    try_head(ONE("F32", "[2]", "[8,0]"), 8, HD_ERROR_VALUE, "is at bytes 8 to 0");
    try_head(ONE("F32", "[3]", "[0,8]"), 8, HD_ERROR_VALUE, "has 8 bytes, and shape [3] of f32 is 12");
    try_head(ONE("F32", "[2]", "[0,18446744073709551616]"), 8, HD_ERROR_VALUE, "a number that fits 64 bits");
    try_head(ONE("F32", "[2]", "[18446744073709551608,18446744073709551615]"), 8, HD_ERROR_VALUE, "is at bytes");
    try_head(ONE("F32", "[4294967296,4294967296]", "[0,0]"), 0, HD_ERROR_OVERFLOW, "");
    try_head(ONE("F32", "[0,4294967296,4294967296]", "[0,0]"), 0, HD_ERROR_OVERFLOW, "");
    try_head(ONE("F32", "[9223372036854775808]", "[0,0]"), 0, HD_ERROR_OVERFLOW, "a size of 9223372036854775808");
    try_head(ONE("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, HD_ERROR_SHAPE, "\"x\" has more than 8 axes");
    try_head(ONE("F32", "[-1]", "[0,4]"), 4, HD_ERROR_VALUE, "a whole number that is not negative");
    try_head(ONE("F32", "[1.0]", "[0,4]"), 4, HD_ERROR_VALUE, "a whole number");
    try_head(ONE("F32", "[1e0]", "[0,4]"), 4, HD_ERROR_VALUE, "a whole number");
    try_head(ONE("F32", "[01]", "[0,4]"), 4, HD_ERROR_VALUE, "no digit behind a leading 0");
    try_head(ONE("F32", "[1,]", "[0,4]"), 4, HD_ERROR_VALUE, "a whole number");
    try_head(ONE("F32", "[1]", "[0,4,4]"), 4, HD_ERROR_VALUE, "expected ]");
    try_head(ONE("F4", "[1]", "[0,4]"), 4, HD_ERROR_DTYPE, "\"x\" is of the dtype \"F4\", of which no tensor is");
    try_head(ONE("f32", "[1]", "[0,4]"), 4, HD_ERROR_DTYPE, "\"f32\"");
    try_head(ONE("BOOL", "[1]", "[0,1]"), 1, HD_OK, "");
    try_head("{\"x\":" ENTRY("F32", "[1]", "[0,4]") ",\"x\":" ENTRY("F32", "[1]", "[4,8]") "}", 8, HD_ERROR_VALUE,
             "in which \"x\" is there twice");
    try_head("{\"x\":" ENTRY("F32", "[1]", "[0,4]") ",\"\\u0078\":" ENTRY("F32", "[1]", "[4,8]") "}", 8, HD_ERROR_VALUE,
             "in which \"x\" is there twice");
    try_head("{\"x\":" ENTRY("F32", "[2]", "[0,8]") ",\"y\":" ENTRY("F32", "[2]", "[4,12]") "}", 12, HD_ERROR_VALUE,
             "has tensors that overlap: \"x\" and \"y\"");
    try_head("{\"x\":" ENTRY("F32", "[2]", "[0,8]") ",\"y\":" ENTRY("F32", "[2]", "[0,8]") "}", 8, HD_ERROR_VALUE,
             "has tensors that overlap");
    try_head("{\"x\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, HD_ERROR_VALUE, "\"x\" has no \"data_offsets\"");
    try_head("{\"x\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 4, HD_ERROR_VALUE, "\"x\" has its \"dtype\" twice");
    try_head("{\"x\":{\"type\":\"F32\"}}", 4, HD_ERROR_VALUE, "\"x\" has a \"type\", which means nothing");
    try_head("{\"\":" ENTRY("F32", "[1]", "[0,4]") "}", 4, HD_ERROR_VALUE, "must not be empty");
    try_head("{\"x\":[]}", 0, HD_ERROR_VALUE, "expected {");
    try_head("{\"x\":" ENTRY("F32", "[1]", "[0,4]") ",}", 4, HD_ERROR_VALUE, "expected a string");
    try_head("{\"x\":" ENTRY("F32", "[1]", "[0,4]"), 4, HD_ERROR_VALUE, "");
    try_head(ONE("F32", "[1]", "[0,4]") "{", 4, HD_ERROR_VALUE, "expected the end");
    try_head("[]", 0, HD_ERROR_VALUE, "does not begin with {");
    try_head("", 0, HD_ERROR_VALUE, "does not begin with {");
    try_head(" {}", 0, HD_ERROR_VALUE, "does not begin with {");
    try_head("{\"x\\u0000\":1}", 0, HD_ERROR_VALUE, "no zero in a string");
    try_head("{\"\\ud800\":1}", 0, HD_ERROR_VALUE, "the second half of a pair");
    try_head("{\"\\udc00\":1}", 0, HD_ERROR_VALUE, "the first half of a pair");
    try_head("{\"\xff\":1}", 0, HD_ERROR_VALUE, "UTF-8 in a string");
    try_head("{\"\n\":1}", 0, HD_ERROR_VALUE, "the end of a string");
    try_head("{\"\\x\":1}", 0, HD_ERROR_VALUE, "a character behind \\");
    try_head("{\"\\u12g4\":1}", 0, HD_ERROR_VALUE, "four digits");
    try_head("{\"__metadata__\":{\"a\":1}}", 0, HD_ERROR_VALUE, "expected a string");
    try_head("{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}}", 0, HD_ERROR_VALUE, "the text \"a\" twice");
    try_head("{\"__metadata__\":{},\"__metadata__\":{}}", 0, HD_ERROR_VALUE, "\"__metadata__\" is there twice");
    try_head("{\"__metadata__\":{\"\\u00e9\\ud83d\\ude00\":\"\"}}", 0, HD_OK, "");
}

static void hostile_lengths_are_errors(void **state) {
    (void)state;
    const uint64_t lengths[] = {3, 100000001, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63};
    for (int i = 0; i < 5; ++i) {
        HD_SCOPE;
        write_file("h.safetensors", lengths[i], "{}", 0);
        assert_null(hd_safetensors_load(in_folder("h.safetensors")));
        assert_error(HD_ERROR_VALUE,
                     i == 0 ? "is cut: its head is longer than the file" : "at most 100000000 make sense");
    }
    write_bytes(in_folder("h.safetensors"), "1234567", 7);
    assert_null(hd_safetensors_load(in_folder("h.safetensors")));
    assert_error(HD_ERROR_VALUE, "is no .safetensors: it has 7 bytes");
    HD_SCOPE;
    unsigned char b[200] = {0};
    const char *head = ONE("BOOL", "[2]", "[0,2]");
    b[0] = (unsigned char)strlen(head);
    memcpy(b + 8, head, strlen(head));
    b[8 + strlen(head)] = 2;
    write_bytes(in_folder("h.safetensors"), b, 10 + strlen(head));
    assert_null(hd_safetensors_load(in_folder("h.safetensors")));
    assert_error(HD_ERROR_VALUE, "\"x\" has bools that are neither 0 nor 1");
}

/* Bytes that are nowhere aligned are copied. */
static void unaligned_elements_are_copied(void **state) {
    (void)state;
    HD_SCOPE;
    for (int pad = 0; pad < 8; ++pad) {
        char head[400];
        snprintf(head, sizeof head, "{\"b\":%s,\"x\":%s}%*s", ENTRY("U8", "[1]", "[0,1]"),
                 ENTRY("F64", "[2]", "[1,17]"), pad, "");
        write_file("h.safetensors", strlen(head), head, 17);
        hd_archive *a = hd_safetensors_load(in_folder("h.safetensors"));
        assert_values(hd_archive_get(a, "x"), HD_F64, 0, 0);
    }
}

static void try_index(const char *words, const char *expected) {
    HD_SCOPE;
    write_bytes(in_folder("h.json"), words, strlen(words));
    assert_null(hd_safetensors_load(in_folder("h.json")));
    assert_error(expected[0] == 'c' ? HD_ERROR_STATE : HD_ERROR_VALUE, expected);
}

static void hostile_indexes_are_errors(void **state) {
    (void)state;
    char deep[600] = "{\"a\":";
    write_file("p.safetensors", strlen(ONE("F32", "[1]", "[0,4]")), ONE("F32", "[1]", "[0,4]"), 4);
    try_index("{}", "is no index of .safetensors");
    try_index("{\"weight_map\":{\"x\":\"p.safetensors\"},\"weight_map\":{}}", "\"weight_map\" twice");
    try_index("{\"weight_map\":{\"x\":\"p.safetensors\",\"x\":\"p.safetensors\"}}", "lists \"x\" twice");
    try_index("{\"weight_map\":{\"x\":\"../p.safetensors\"}}",
              "lists the file \"../p.safetensors\", which is none beside it");
    try_index("{\"weight_map\":{\"x\":\"/etc/passwd\"}}", "which is none beside it");
    try_index("{\"weight_map\":{\"x\":\"..\"}}", "which is none beside it");
    try_index("{\"weight_map\":{\"x\":\"\"}}", "which is none beside it");
    try_index("{\"weight_map\":{\"x\":\"none.safetensors\"}}", "cannot be opened");
    try_index("{\"weight_map\":{\"y\":\"p.safetensors\"}}", "does not list \"x\", which is in \"p.safetensors\"");
    try_index("{\"weight_map\":{\"x\":\"p.safetensors\",\"y\":\"p.safetensors\"}}",
              "lists \"y\" in \"p.safetensors\", which has it not");
    try_index("{\"a\":[1,-2.5e3,true,null,{\"b\":[]}],\"weight_map\":1}", "expected {");
    try_index("{\"a\":tru}", "expected a value");
    try_index("{\"a\":-}", "expected a digit");
    try_index("{\"a\":[1 2]}", "expected ,");
    for (int i = 0; i < 200; ++i) strcat(deep, "[");
    try_index(deep, "is JSON that is more than 16 levels deep");
}

static void load(const char *path) { hd_safetensors_load(path); }
static void cut_files_are_refused(void **state) {
    (void)state;
    assert_every_cut_is_refused(SAMPLE("every.safetensors"), load);
    assert_every_cut_is_refused(SAMPLE("model-00001-of-00002.safetensors"), load);
}

static void wrong_arguments_are_errors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_archive *a = hd_archive_new();
    assert_null(hd_safetensors_load(NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_safetensors_load: `path` is NULL");
    assert_null(hd_safetensors_load(in_folder("missing.safetensors")));
    assert_error(HD_ERROR_STATE, "missing.safetensors\" cannot be opened");
    hd_safetensors_save(NULL, a, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_safetensors_save: `path` is NULL");
    hd_safetensors_save(in_folder("a"), NULL, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`archive` is NULL");
    hd_archive_add(a, "__metadata__", hd_zeros(HD_SHAPE(1), HD_F32));
    hd_safetensors_save(in_folder("a"), a, NULL);
    assert_error(HD_ERROR_VALUE, "which is that of the texts");
    assert_int_equal(folder_entries(false), 0);
}

static void a_full_disk_leaves_the_old_file(void **state) {
    (void)state;
    HD_SCOPE;
    struct rlimit before;
    hd_archive *a = hd_archive_new();
    hd_archive_add(a, "x", hd_zeros(HD_SHAPE(1000), HD_F64));
    hd_safetensors_save(in_folder("a.safetensors"), one_of_each(), NULL);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t most = 0; most < 8000; most += 999) {
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){most, before.rlim_max});
        hd_safetensors_save(in_folder("a.safetensors"), a, NULL);
        setrlimit(RLIMIT_FSIZE, &before);
        assert_error(HD_ERROR_STATE, "cannot be written: File too large");
        assert_is_one_of_each(hd_safetensors_load(in_folder("a.safetensors")));
        assert_int_equal(folder_entries(false), 1);
    }
    signal(SIGXFSZ, handler);
}

static void there_and_back(void) {
    hd_archive *a = hd_archive_new();
    hd_archive_add(a, "x", hd_ones(HD_SHAPE(3), HD_F32));
    hd_archive_add(a, "y", hd_ones(HD_SHAPE(2), HD_I64));
    hd_archive_set_text(a, "k", "v");
    hd_safetensors_save(in_folder("a.safetensors"), a, HD_OPTS(hd_safetensors_opts, .shard_bytes = 8));
    hd_archive *b = hd_safetensors_load(in_folder("a.safetensors.index.json"));
    hd_add_(hd_archive_get(b, "x"), hd_ones(HD_SHAPE(3), HD_F32));
}
static void every_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(there_and_back, 300);
}

RUN(file_test(every_dtype_of_others_is_read), file_test(an_index_brings_all_its_files), file_test(archives_come_back),
    file_test(several_files_come_back), file_test(tensors_look_into_the_file), file_test(mapped_tensors_are_as_others),
    file_test(hostile_heads_are_errors), file_test(hostile_lengths_are_errors),
    file_test(unaligned_elements_are_copied), file_test(hostile_indexes_are_errors), file_test(cut_files_are_refused),
    file_test(wrong_arguments_are_errors), file_test(a_full_disk_leaves_the_old_file),
    file_test(every_allocation_may_fail))

#else
int main(void) { return 77; }
#endif
