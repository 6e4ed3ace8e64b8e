/* Files that are cut, damaged, or written by somebody who means no good: an error that says what is wrong, and nothing
 * else. Never a crash, never another result. */
#include "files.h"

#if HD_HAS_FILES

static const char *path;
static file_bytes whole; /* a good file, from which bad ones are made */

static int make_file(void **state) {
    if (make_folder(state) != 0) return -1;
    HD_SCOPE;
    hd_script_save(small_script(), in_folder("m"));
    if (!hd_ok()) return -1;
    path = in_folder("m.hoduscript");
    whole = read_bytes(path);
    return 0;
}
static int remove_file(void **state) {
    free(whole.at);
    return remove_folder(state);
}
#define hostile_test(function) cmocka_unit_test_setup_teardown(function, make_file, remove_file)

/* ---- damage ------------------------------------------------------------------------------------------------------ */
/* Loads and runs; true when there was an error, which must name the file. */
static bool is_refused(void) {
    HD_SCOPE;
    hd_script *s = hd_script_load(path);
    if (s != NULL) {
        set_small_inputs(s);
        hd_script_set_optimization_level(s, HD_O0); /* where every constant is used */
        hd_script_run(s);
    }
    if (hd_ok()) return false;
    if (hd_error_code() != HD_ERROR_VALUE || strstr(hd_error_message(), path) == NULL)
        fail_msg("got \"%s\"", hd_error_message());
    hd_error_clear();
    return true;
}

static void a_file_cut_anywhere_is_refused(void **state) {
    (void)state;
    assert_false(is_refused());
    for (size_t size = whole.size; size-- > 0;) {
        assert_int_equal(truncate(path, (off_t)size), 0);
        if (!is_refused()) fail_msg("%zu of %zu bytes are taken for a script", size, whole.size);
    }
    unsigned char *longer = calloc(whole.size + 64, 1);
    memcpy(longer, whole.at, whole.size);
    for (size_t more = 1; more <= 64; more += 21) {
        write_bytes(path, longer, whole.size + more);
        assert_true(is_refused());
    }
    free(longer);
}

static void a_flipped_byte_anywhere_is_refused(void **state) {
    (void)state;
    const int f = open(path, O_RDWR);
    assert_true(f >= 0);
    for (size_t i = 0; i < whole.size; ++i)
        for (int round = 0; round < 2; ++round) {
            const unsigned char flipped = whole.at[i] ^ (round == 0 ? 1 << i % 8 : 0xff);
            assert_int_equal(pwrite(f, &flipped, 1, (off_t)i), 1);
            if (!is_refused())
                fail_msg("byte %zu of %zu may be %02x instead of %02x", i, whole.size, flipped, whole.at[i]);
            assert_int_equal(pwrite(f, &whole.at[i], 1, (off_t)i), 1);
        }
    close(f);
    assert_false(is_refused());
}

/* ---- files with fitting checksums -------------------------------------------------------------------------------- */
static file_bytes bad; /* the one being made */

static void begin(void) {
    bad = (file_bytes){malloc(whole.size + 64), whole.size};
    memcpy(bad.at, whole.at, whole.size);
}

/* Signs and writes it; loading it must fail with this text. */
static void expect_refused(const char *text, int line) {
    HD_SCOPE;
    sign(bad, false);
    write_bytes(path, bad.at, bad.size);
    const int64_t peak = hd_memory().live_bytes;
    hd_memory_reset_peak();
    hd_script *s = hd_script_load(path);
    if (s != NULL) fail_msg("line %d: \"%s\" was not noticed", line, text);
    if (hd_error_code() != HD_ERROR_VALUE || strstr(hd_error_message(), text) == NULL ||
        strstr(hd_error_message(), "m.hoduscript") == NULL)
        fail_msg("line %d: expected \"%s\", got \"%s\"", line, text, hd_error_message());
    assert_true(hd_memory().peak_bytes <= peak + 65536);
    hd_error_clear();
    free(bad.at);
}

/* REFUSED("what the error says", edits of `bad`); */
#define REFUSED(text, ...)                                                                                             \
    do {                                                                                                               \
        begin();                                                                                                       \
        __VA_ARGS__;                                                                                                   \
        expect_refused(text, __LINE__);                                                                                \
    } while (0)

#define S(id) section_bytes(bad, id)
#define E(id) section_entry(bad, id)

static unsigned char *text_in(const char *section, const char *text) { /* with its end, so that a prefix is not found */
    const unsigned char *entry = section_entry(bad, section);
    unsigned char *at = memmem(bad.at + get_u64(entry + 8), get_u64(entry + 16), text, strlen(text) + 1);
    if (at == NULL) fail_msg("there is no \"%s\"", text);
    return at;
}

/* The number of an op in OPER; entries are: name, fields, fields * (name, kind). */
static uint32_t op_of(const char *name) {
    const unsigned char *at = S("OPER");
    const uint32_t count = get_u32(at);
    at += 4;
    for (uint32_t i = 0; i < count; ++i) {
        const unsigned char *s = S("STRS") + 4;
        for (uint32_t k = 0; k < get_u32(at); ++k) s += 4 + get_u32(s);
        if (strcmp((const char *)s + 4, name) == 0) return i;
        at += 8 + 8 * get_u32(at + 4);
    }
    fail_msg("there is no op %s", name);
    return 0;
}
static unsigned char *fields(const char *op) {
    unsigned char *at = S("OPER") + 4;
    for (uint32_t i = 0; i < op_of(op); ++i) at += 8 + 8 * get_u32(at + 4);
    return at + 8;
}
static uint32_t number_of(const char *op) { /* of the first such node */
    const uint32_t wanted = op_of(op);
    for (uint32_t i = 0; i < get_u32(S("NODE")); ++i)
        if (get_u32(S("NODE") + 4 + 24 * i) == wanted) return i;
    fail_msg("there is no node %s", op);
    return 0;
}
static unsigned char *node_at(uint32_t i) { return S("NODE") + 4 + 24 * i; }
static unsigned char *node(const char *op) { return node_at(number_of(op)); }
static unsigned char *edges(const char *op) { /* of that node */
    unsigned char *at = S("EDGE") + 4;
    for (uint32_t i = 0; i < number_of(op); ++i) at += 4 * (get_u32(node_at(i) + 20) >> 16);
    return at;
}
static unsigned char *entry_of(const char *section, uint32_t number) { /* of SHAP or ATTR: its bytes */
    unsigned char *at = S(section) + 4;
    for (uint32_t i = 0; i < number; ++i) at += 4 + get_u32(at);
    return at + 4;
}
static unsigned char *shape(const char *op) { return entry_of("SHAP", get_u32(node(op) + 8)); }
static unsigned char *attributes(const char *op) { return entry_of("ATTR", get_u32(node(op) + 12) - 1); }
static unsigned char *tensor(uint32_t i) { return S("TENS") + 8 + 24 * i; }

static void heads_and_sections(void **state) {
    (void)state;
    REFUSED("is no .hoduscript file", bad.at[1] = 'h');
    REFUSED("has version 3 of the format; this library, hodu " HD_VERSION_STRING ", reads versions 1 to 2",
            set_u32(bad.at + 8, 3));
    REFUSED("has version 4294967295 of the format", set_u32(bad.at + 8, UINT32_MAX));
    REFUSED("has version 0", set_u32(bad.at + 8, 0));
    REFUSED("should have 1152921504606846976: it was cut", set_u64(bad.at + 16, (uint64_t)1 << 60));
    REFUSED("sections, which cannot be", set_u32(bad.at + 12, UINT32_MAX));
    REFUSED("last section that is not where", set_u32(bad.at + 12, 0));
    REFUSED("has a section STRS that is not where it should be", set_u32(bad.at + 12, 13));
    REFUSED("has a section NODE that is not where it should be, or overlaps another",
            set_u64(E("NODE") + 8, get_u64(E("SPAN") + 8)));
    REFUSED("has a section NODE that is not where", set_u64(E("NODE") + 16, (uint64_t)1 << 60));
    REFUSED("has a section NODE that is not where", set_u64(E("NODE") + 16, UINT64_MAX));
    REFUSED("has a section EDGE that is not where", set_u64(E("NODE") + 16, get_u64(E("NODE") + 16) + 64));
    REFUSED("has a section TENS that is not where",
            set_u64(E("TENS") + 16, get_u64(E("TENS") + 16) + 64)); /* into DATA */
    REFUSED("has a section STRS that is not where", set_u64(E("STRS") + 8, UINT64_MAX));
    REFUSED("has a section STRS that is not where", set_u64(E("STRS") + 8, 0));
    REFUSED("has a last section that is not where", set_u64(E("DATA") + 8, (uint64_t)1 << 60));
    REFUSED("has a section DATA that is not where", set_u64(E("DATA") + 16, get_u64(E("DATA") + 16) - 64));
    REFUSED("has a section CELL that is not where", E("CELL")[4] = 1); /* what is reserved is 0 */
    REFUSED("has a damaged section DATA", set_u64(E("DATA") + 24, 1));
    REFUSED("has bytes before section SCRI that should be 0", bad.at[get_u64(E("SCRI") + 8) - 1] = 1);
    REFUSED("has a section \"SPAM\" that this library, hodu " HD_VERSION_STRING ", does not know", E("SPAN")[3] = 'M');
    REFUSED("has no section SPAN", E("SPAN")[0] = 's');
    REFUSED("has two sections EDGE", memcpy(E("NODE"), "EDGE", 4));
    unsigned char *entry;
    REFUSED("has a section \"?[2J\" that", entry = E("SPAN"), memcpy(entry, "\x1b[2J", 4)); /* nothing for a terminal */
}

/* A section whose id begins with a small letter is skipped by whoever does not know it. */
static void sections_that_may_be_skipped_are(void **state) {
    (void)state;
    begin();
    const uint32_t count = get_u32(bad.at + 12);
    unsigned char *data = E("DATA");
    assert_int_equal(get_u64(E("STRS") + 8), 512); /* there is room for one more entry */
    memcpy(data + 32, data, 32);
    memcpy(data, "note", 4);
    set_u64(data + 16, 0);
    set_u32(bad.at + 12, count + 1);
    sign(bad, false);
    write_bytes(path, bad.at, bad.size);
    assert_false(is_refused());
    free(bad.at);
    REFUSED("does not know", data = E("DATA"), memcpy(data + 32, data, 32), memcpy(data, "NOTE", 4),
            set_u64(data + 16, 0), set_u32(bad.at + 12, count + 1));
}

static void counts_and_places(void **state) {
    (void)state;
    static const char *const counted[] = {"STRS", "TYPE", "OPER", "SHAP", "ATTR", "SPAN",
                                          "NODE", "EDGE", "INPT", "OUTP", "CELL"};
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; ++i) {
        REFUSED("more than its bytes can hold", set_u32(S(counted[i]), UINT32_MAX));
        REFUSED("has ", set_u32(S(counted[i]), get_u32(S(counted[i])) - 1));
        REFUSED("has ", set_u32(S(counted[i]), get_u32(S(counted[i])) + 1));
        REFUSED("has ", set_u32(S(counted[i]), 0));
    }
    REFUSED("has a section TENS of 4294967297 entries", set_u32(S("TENS"), UINT32_MAX), set_u32(S("TENS") + 4, 2));
    REFUSED("has a tensor 0 of 24 bytes where its shape asks for 32", set_u32(S("TENS"), 0), set_u32(S("TENS") + 4, 4));
    REFUSED("has a tensor 3 of 8 bytes where its shape asks for 32", set_u32(S("TENS"), 3), set_u32(S("TENS") + 4, 1));
    REFUSED("has a tensor 0 that is not where it should be", set_u64(tensor(0) + 8, (uint64_t)1 << 60));
    REFUSED("has a tensor 0 that is not where it should be", set_u64(tensor(0) + 8, UINT64_MAX));
    REFUSED("has a tensor 0 that is not where it should be", set_u64(tensor(0), 0));
    REFUSED("has a tensor 1 that is not where it should be", set_u64(tensor(1), get_u64(tensor(0))));
    REFUSED("has a tensor 0 of 16 bytes where its shape asks for 24", set_u64(tensor(0) + 8, 16));
    REFUSED("has 64 bytes that belong to no tensor", set_u64(tensor(3) + 8, 0));
    REFUSED("has a section STRS that ends too early", set_u32(S("STRS") + 4, 1 << 30));
    REFUSED("does not end where it should", text_in("STRS", "mask")[4] = 'x');
    REFUSED("does not end where it should", text_in("STRS", "mask")[2] = 0);
    REFUSED("names string 4294967295", set_u32(S("TYPE") + 4, UINT32_MAX));
    REFUSED("names string 4294967295", set_u32(S("OUTP") + 4, UINT32_MAX));
}

static void words_that_nobody_knows(void **state) {
    (void)state;
    REFUSED("has an op \"softmex\"", memcpy(text_in("STRS", "uniform"), "softmex", 7));
    REFUSED("has an op \"@inpux\"", memcpy(text_in("STRS", "@input"), "@inpux", 6));
    REFUSED("has tensors of dtype \"f33\"", memcpy(text_in("STRS", "f32"), "f33", 3));
    REFUSED("with a field \"keep_dimz\"", memcpy(text_in("STRS", "keep_dims"), "keep_dimz", 9));
    REFUSED("with two fields \"reduced\"", memcpy(fields("sum") + 8, fields("sum"), 8));
    REFUSED("with a field \"reduced\" of kind 77", set_u32(fields("sum") + 4, 77));
    REFUSED("is for a compiler \"HODO\"", memcpy(text_in("STRS", "HODU"), "HODO", 4));
    REFUSED("has optimization level 4", set_u32(S("SCRI") + 8, 4));
    REFUSED("has a cell \"cache\" of kind 3", set_u32(S("CELL") + 8, 3));
}

/* The number of an empty string: the file's writer version is cut to one, which nobody reads. */
static uint32_t empty_string(void) {
    const uint32_t number = get_u32(S("SCRI") + 16);
    const unsigned char *entry = section_entry(bad, "STRS");
    unsigned char *at = text_in("STRS", HD_VERSION_STRING), *end = bad.at + get_u64(entry + 8) + get_u64(entry + 16);
    const size_t gone = strlen(HD_VERSION_STRING);
    set_u32(at - 4, 1);
    memmove(at, at + gone, (size_t)(end - at) - gone);
    memset(end - gone, 0, gone);
    set_u64(section_entry(bad, "STRS") + 16, get_u64(entry + 16) - gone);
    return number;
}

static void names(void **state) {
    (void)state;
    REFUSED("has two inputs \"x\"", set_u32(S("INPT") + 8, get_u32(S("INPT") + 4)));
    REFUSED("has two outputs \"p\"", set_u32(S("OUTP") + 12, get_u32(S("OUTP") + 4)));
    REFUSED("has two cells \"cache\"", set_u32(S("CELL") + 16, get_u32(S("CELL") + 4)));
    REFUSED("has an op \"uni?orm\"", memcpy(text_in("STRS", "uniform"), "uni\x1borm", 7)); /* nothing for a terminal */
    REFUSED("has an empty name in section OUTP", set_u32(S("OUTP") + 4, empty_string()));
}

static void nodes_that_cannot_be(void **state) {
    (void)state;
    REFUSED("that reads node %4294967295, which is not before it", set_u32(S("EDGE") + 4, UINT32_MAX));
    REFUSED("which is not before it", set_u32(edges("matmul"), number_of("matmul")));
    REFUSED("which is not before it", set_u32(edges("matmul"), number_of("matmul") + 1));
    REFUSED("with an op, dtype or span that is in no table", set_u32(node("matmul"), UINT32_MAX));
    REFUSED("with an op, dtype or span that is in no table", set_u32(node("matmul") + 4, UINT32_MAX));
    REFUSED("with an op, dtype or span that is in no table", set_u32(node("matmul") + 16, UINT32_MAX));
    REFUSED("names shape 4294967295", set_u32(node("matmul") + 8, UINT32_MAX));
    REFUSED("names attributes 4294967295", set_u32(node("sum") + 12, UINT32_MAX));
    REFUSED("lacks its attributes", set_u32(node("sum") + 12, 0));
    REFUSED("with attributes that its op does not have", set_u32(node("mul") + 12, 1));
    REFUSED("with more than its op has", set_u32(node("@input") + 12, 1));
    REFUSED("with more than its op has", set_u32(node("@input") + 20, 1 << 16));
    REFUSED("with more than its op has", set_u32(node("mul") + 20, 2 << 16 | 4));
    REFUSED("with more than its op has", set_u32(node("matmul") + 20, 2 << 16 | 1));
    REFUSED("inputs, which its op does not take", set_u32(node("matmul") + 20, 1 << 16));
    REFUSED("inputs, which its op does not take", set_u32(node("matmul") + 20, 65535u << 16));
    REFUSED("inputs, which its op does not take", set_u32(node("@write") + 20, 3 << 16));
    REFUSED("that is no call: ", set_u32(node("mul") + 20, 2 << 16 | 3));
    REFUSED("that is no call: ", set_u32(node("matmul") + 8, get_u32(node("sum") + 8)));
    REFUSED("that is no call: ", set_u32(node("matmul") + 4, get_u32(node_at(1) + 4)));
    REFUSED("that is no call: ", set_u32(edges("matmul"), number_of("@cell")));
    REFUSED("that is no call: ", set_u32(edges("where"), number_of("matmul"))); /* no condition */
    REFUSED("more constants than tensors", set_u32(node("@input"), op_of("@constant")));
    REFUSED("has an output \"p\" that is node %99", set_u32(S("OUTP") + 8, 99));
    REFUSED("has a span 1 inside span 1, which is not before it", set_u32(S("SPAN") + 8, 1));
    REFUSED("has a cell \"cache\" whose new value is none that fits it", set_u32(S("CELL") + 12, number_of("matmul")));
    REFUSED("has a cell \"cache\" whose new value is none that fits it", set_u32(S("CELL") + 12, UINT32_MAX));
    REFUSED("has a cell \"cache\" whose new value is none that fits it",
            set_u32(S("CELL") + 8, 1)); /* bound, and written */
}

static void shapes_and_attributes_that_cannot_be(void **state) {
    (void)state;
    REFUSED("has an impossible shape", set_u64(shape("matmul"), (uint64_t)1 << 62));
    REFUSED("has an impossible shape", set_u64(shape("matmul"), UINT64_MAX));
    REFUSED("has a tensor 0 of 24 bytes where its shape asks for", set_u64(shape("@constant"), (uint64_t)1 << 58));
    REFUSED("has a tensor 1 of 32 bytes where its shape asks for 40", set_u64(shape("@write"), 5));
    REFUSED("has attributes with a truth value of 2", set_u32(attributes("sum") + 4, 2));
    REFUSED("has attributes with axes 0x100", set_u32(attributes("sum"), 256));
    REFUSED("that is no call: ", set_u32(attributes("sum"), 128));
    REFUSED("that is no call: ", set_u32(attributes("sum"), 0));
    REFUSED("has a section ATTR that ends too early", set_u32(attributes("sum") - 4, 4));
    REFUSED("has attributes with a list of 9", set_u32(attributes("@write"), 9));
    REFUSED("has attributes with a list of 4294967295", set_u32(attributes("@write"), UINT32_MAX));
    REFUSED("that is no call: ", set_u64(attributes("@write") + 4, 3)); /* sizes, strides, offset */
    REFUSED("that is no call: ", set_u64(attributes("@write") + 24, 5));
    REFUSED("that is no call: ", set_u64(attributes("@write") + 24, 0));                   /* elements share memory */
    REFUSED("that is no call: ", set_u64(attributes("@write") + 40, 5));                   /* past the end */
    REFUSED("that is no call: ", set_u64(attributes("@write") + 40, (uint64_t)INT64_MAX)); /* and around it */
    REFUSED("that is no call: ", set_u64(attributes("@write") + 40, (uint64_t)-1));
    REFUSED("with a draw past the script's 1", set_u64(attributes("uniform"), 1));
    REFUSED("with a draw past the script's 0", set_u32(S("SCRI") + 12, 0));
    REFUSED("that is no call: ", set_u64(attributes("uniform") + 8, 0x7ff0000000000000));  /* from infinity */
    REFUSED("that is no call: ", set_u64(attributes("uniform") + 16, 0xbff0000000000000)); /* to -1 */
    REFUSED("that is no call: ", set_u64(attributes("reshape") + 4, (uint64_t)-1));
    REFUSED("that is no call: ", set_u64(attributes("slice") + 4, UINT64_MAX)); /* a start of -1 */
    REFUSED("that is no call: ", set_u32(attributes("slice"), UINT32_MAX));     /* an axis of -1 */
    REFUSED("that is no call: ", set_u32(attributes("slice"), 8));
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */
static void damaged_state_is_noticed_at_once(void **state) {
    (void)state;
    begin();
    bad.at[get_u64(tensor(1))] ^= 1;
    expect_refused("has a state tensor \"cache\" that is damaged", __LINE__);
    begin();
    bad.at[get_u64(tensor(3)) + 8] ^= 1; /* a byte behind its end */
    expect_refused("has a bound tensor \"scale\" that is damaged", __LINE__);
}

static void bools_are_0_or_1(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *mask = hd_gt_scalar(hd_arange(-5, 5, 1, HD_F32), 0), *kept = hd_logical_not(mask);
    hd_builder *b = started("bools");
    hd_builder_add_state(b, "kept", kept);
    hd_builder_add_output(b, "y", hd_logical_and(hd_logical_xor(hd_input("x", HD_SHAPE(10), HD_BOOL), mask), kept));
    hd_builder_end(b);
    hd_script_save(hd_builder_build(b), path);
    for (int which = 0; which < 2; ++which) {
        file_bytes f = read_bytes(path);
        f.at[get_u64(section_bytes(f, "TENS") + 8 + 24 * which) + 3] = 2;
        sign(f, true);
        write_bytes(in_folder("b.hoduscript"), f.at, f.size);
        free(f.at);
        hd_script *s = hd_script_load(in_folder("b"));
        if (which == 0) {
            hd_script_set_input(s, "x", mask);
            hd_script_run(s);
        }
        assert_error(HD_ERROR_VALUE, "is a tensor of bool with bytes that are neither 0 nor 1");
    }
}

RUN(hostile_test(a_file_cut_anywhere_is_refused), hostile_test(a_flipped_byte_anywhere_is_refused),
    hostile_test(heads_and_sections), hostile_test(sections_that_may_be_skipped_are), hostile_test(counts_and_places),
    hostile_test(words_that_nobody_knows), hostile_test(names), hostile_test(nodes_that_cannot_be),
    hostile_test(shapes_and_attributes_that_cannot_be), hostile_test(damaged_state_is_noticed_at_once),
    hostile_test(bools_are_0_or_1))

#else
int main(void) { return 0; }
#endif
