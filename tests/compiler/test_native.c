/* Machine code in .hoduscript files (.native): it gives the same bits with nothing to compile with, it is run only for
 * who asks, and what does not fit is compiled as always, and says why. */
#include "files_native.h"

#include "codegen/code.h"
#include "codegen/processor.h"
#include "codegen/server.h"
#include "dice.h"
#include "each_allocation.h"
#include "sample.h"

#include <pthread.h>
#include <sys/wait.h>

#if HD_HAS_FILES

/* ---- a process with nothing to compile with ---------------------------------------------------------------------- */
static bool maps_llvm(void) {
    char line[1024];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) found = found || strstr(line, "libLLVM") != NULL;
    if (maps != NULL) fclose(maps);
    return found;
}

/* In a new process: loads `path`, runs it, writes its results to `out`, and saves it again as `again`. Its exit status
 * says what was otherwise than it should be. */
static int run_alone(const char *path, const char *out, const char *again) {
    HD_SCOPE;
    hd_script *s = load_native(path);
    if (s == NULL) return 1;
    hd_script *clone = hd_script_clone(s);
    write_results(s, out);
    if (!hd_ok()) return 2;
    const hd_script_figures f = hd_script_stats(s);
    if (f.native_unused != NULL) return 3;
    if (f.kernels_from_file != f.kernels || f.kernels_compiled + f.kernels_from_disk + f.kernels_from_memory != 0)
        return 4;
    if (f.alternatives != 0) return 5;
    hd_script_save_with(clone, again, HD_OPTS(hd_script_save_opts, .native = true));
    if (!hd_ok()) return 6;
    int process;
    if (maps_llvm() || hd_server_processes(&process, 1) != 0) return 7;
    return 0;
}

static void run_it_alone(const char *path, const char *out, const char *again, const char *const *settings) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        setenv("HODU_CACHE", "0", 1);
        setenv("HODU_LLVM", "/nowhere/libLLVM.so", 1);
        setenv("HODU_CC", "/nowhere/cc", 1);
        for (int i = 0; settings[i] != NULL; i += 2) setenv(settings[i], settings[i + 1], 1);
        char program[512] = "", command[2000];
        if (HODU_EMULATOR[0] == '\0') {
            setenv("PATH", "/nowhere", 1);
            execl("/proc/self/exe", "test", path, out, again, (char *)NULL);
        }
        if (readlink("/proc/self/exe", program, sizeof program - 1) > 0) {
            snprintf(command, sizeof command, "exec %s '%s' '%s' '%s' '%s'", HODU_EMULATOR, program, path, out, again);
            execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        }
        _exit(99);
    }
    int status = 1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    if (status != 0) fail_msg("%s alone ended with status %d", path, WEXITSTATUS(status));
}

static void nothing_is_compiled_and_the_bits_are_the_same(void **state) {
    (void)state;
    static const char *const settings[][5] = {
        {NULL}, {"HODU_RENDERER", "c", NULL}, {"HODU_NUM_THREADS", "1", "HODU_RENDERER", "c", NULL}};
    for (int level = HD_O0; level <= HD_O3; ++level) {
        HD_SCOPE;
        hd_script *s = many_kernels();
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        save_native(s, in_folder("m"));
        write_results(s, in_folder("expected"));
        assert_true((hd_script_stats(s).kernels > 2) == (level > HD_O0));
        const file_bytes expected = read_bytes(in_folder("expected"));
        for (int i = 0; i < 3; ++i) {
            run_it_alone(in_folder("m"), in_folder("got"), in_folder("again"), settings[i]);
            const file_bytes got = read_bytes(in_folder("got"));
            assert_int_equal(got.size, expected.size);
            assert_memory_equal(got.at, expected.at, got.size);
            free(got.at);
        }
        run_it_alone(in_folder("again"), in_folder("got"), in_folder("third"), settings[0]);
        free(expected.at);
    }
}

/* ---- only for who asks ------------------------------------------------------------------------------------------- */
static void nobody_runs_it_who_did_not_ask(void **state) {
    (void)state;
    HD_SCOPE;
    save_native(many_kernels(), in_folder("m"));
    file_bytes b = read_bytes(in_folder("m.hoduscript"));
    memset(section_bytes(b, "code"), 0xcc, get_u64(section_entry(b, "code") + 16)); /* the checksum does not fit */
    write_bytes(in_folder("m.hoduscript"), b.at, b.size);
    free(b.at);
    hd_script *s = hd_script_load(in_folder("m"));
    assert_ok(); /* it was not even read */
    write_results(s, in_folder("got"));
    const hd_script_figures f = hd_script_stats(s);
    assert_int_equal(f.kernels_from_file, 0);
    assert_true(f.kernels > 2 && f.native_unused == NULL);
}

static void a_file_without_says_so(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = load_native(HODU_TEST_DATA "/first.hoduscript");
    assert_ok();
    assert_string_equal(hd_script_stats(s).native_unused, "the file carries no machine code");
    hd_script_save(many_kernels(), in_folder("m"));
    hd_script *without = load_native(in_folder("m"));
    assert_same_results(without, "carries no machine code");
}

/* ---- what does not fit ------------------------------------------------------------------------------------------- */
/* One with an edit in the first part of its machine code, and a checksum that fits. */
static void expect_unused(const char *path, size_t at, unsigned char value, const char *why) {
    HD_SCOPE;
    file_bytes b = read_bytes(path);
    section_bytes(b, "code")[at] = value;
    sign(b, false);
    write_bytes(in_folder("edited.hoduscript"), b.at, b.size);
    free(b.at);
    assert_same_results(load_native(in_folder("edited")), why);
}

static void other_processors_and_versions_compile_as_always(void **state) {
    (void)state;
    HD_SCOPE;
    save_native(many_kernels(), in_folder("m"));
    const char *path = in_folder("m.hoduscript");
    const file_bytes b = read_bytes(path);
    const unsigned char *code = section_bytes(b, "code");
    const size_t maker = 12, processor = maker + get_u32(code + 8) + 4;
    assert_true(code[processor] != '?');
    expect_unused(path, maker, '?', "by another version of hodu");
    expect_unused(path, processor, '?', "is for another processor");
    free(b.at);
}

static void another_level_says_so(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = many_kernels();
    hd_script_set_optimization_level(s, HD_O1);
    save_native(s, in_folder("m"));
    hd_script *loaded = load_native(in_folder("m"));
    hd_script_set_optimization_level(loaded, HD_O2);
    hd_script_compile(loaded);
    hd_script_figures f = hd_script_stats(loaded);
    assert_non_null(strstr(f.native_unused, "of other kernels"));
    assert_true(f.kernels_from_file < f.kernels);
    assert_int_equal(f.kernels_from_file + f.kernels_compiled + f.kernels_from_disk + f.kernels_from_memory, f.kernels);
    hd_script_set_optimization_level(loaded, HD_O1);
    assert_same_results(loaded, NULL);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */
static void a_flipped_byte_anywhere_is_as_good_as_none(void **state) {
    (void)state;
    HD_SCOPE;
    save_native(small_kernel(), in_folder("m"));
    const char *path = in_folder("m.hoduscript");
    const file_bytes b = read_bytes(path);
    const size_t offset = (size_t)(section_bytes(b, "code") - b.at), size = get_u64(section_entry(b, "code") + 16);
    const int f = open(path, O_RDWR);
    for (size_t i = slow_first(7); i < size; i += slow_step(7)) {
        const unsigned char flipped = b.at[offset + i] ^ (i % 3 == 0 ? 0xff : 1 << i % 8);
        assert_int_equal(pwrite(f, &flipped, 1, (off_t)(offset + i)), 1);
        assert_small_result(load_native(path), 0, "is damaged");
        assert_int_equal(pwrite(f, &b.at[offset + i], 1, (off_t)(offset + i)), 1);
    }
    close(f);
    free(b.at);
    assert_small_result(load_native(path), 1, NULL);
}

/* Where the checksum fits, whoever made the file is trusted with the code itself, but not to count right. */
static void counts_that_cannot_be_are_damage(void **state) {
    (void)state;
    HD_SCOPE;
    save_native(small_kernel(), in_folder("m"));
    const file_bytes b = read_bytes(in_folder("m.hoduscript"));
    unsigned char *code = section_bytes(b, "code");
    const size_t texts = 8 + 4 + get_u32(code + 8) + 4 + get_u32(code + 12 + get_u32(code + 8)),
                 object = texts + 4 + 12 + get_u32(code + texts + 8), size = get_u64(section_entry(b, "code") + 16);
    assert_int_equal(get_u32(code + texts), 1); /* one kernel: its kind, two sizes, its bytes, its object */
    assert_int_equal(object + get_u32(code + texts + 12), size);
    static const unsigned char flips[] = {1, 2, 0x80, 0xff};
    for (size_t i = slow_first(3); i < object; i += slow_step(3))
        for (int k = 0; k < 4; ++k) {
            const unsigned char before = code[i];
            code[i] ^= flips[k];
            sign(b, false);
            write_bytes(in_folder("edited.hoduscript"), b.at, b.size);
            assert_small_result(load_native(in_folder("edited")), 0, "");
            code[i] = before;
        }
    set_u32(code + texts, 0); /* bytes that belong to no kernel */
    sign(b, false);
    write_bytes(in_folder("edited.hoduscript"), b.at, b.size);
    assert_small_result(load_native(in_folder("edited")), 0, "is damaged");
    set_u32(code + texts, 1);
    for (size_t cut = 0; cut < size; cut += cut < object ? 1 : 97) { /* and cut anywhere, with sizes that fit */
        set_u64(code, cut >= 8 ? cut : size);
        set_u64(section_entry(b, "code") + 16, cut);
        memset(code + cut, 0, size - cut);
        const uint64_t moved = (get_u64(section_entry(b, "code") + 8) + cut + 63) / 64 * 64;
        if (moved == get_u64(section_entry(b, "DATA") + 8)) { /* else the file is no file */
            sign(b, false);
            write_bytes(in_folder("edited.hoduscript"), b.at, b.size);
            assert_small_result(load_native(in_folder("edited")), 0, "");
        }
    }
    free(b.at);
}

/* The section itself, with checksums that fit: whether somebody asks for it or not. */
static void expect_refused(file_bytes b, const char *text) {
    sign(b, false);
    write_bytes(in_folder("edited.hoduscript"), b.at, b.size);
    for (int native = 0; native < 2; ++native) {
        assert_null(native ? load_native(in_folder("edited")) : hd_script_load(in_folder("edited")));
        assert_error(HD_ERROR_VALUE, text);
    }
}

static void the_section_lies_where_it_should(void **state) {
    (void)state;
    HD_SCOPE;
    save_native(small_kernel(), in_folder("m"));
    const file_bytes b = read_bytes(in_folder("m.hoduscript"));
    unsigned char *entry = section_entry(b, "code"), *before = section_entry(b, "TENS");
    static const uint64_t offsets[] = {0, 1, 64, UINT64_MAX, UINT64_MAX - 63, (uint64_t)1 << 40};
    const uint64_t offset = get_u64(entry + 8), size = get_u64(entry + 16);
    for (int i = 0; i < 6; ++i) {
        set_u64(entry + 8, offsets[i]);
        expect_refused(b, "a section code that is not where it should be");
        set_u64(entry + 8, offset);
        set_u64(entry + 16, offsets[i] == 64 ? size + 128 : offsets[i]);
        expect_refused(b, "that is not where it should be");
        set_u64(entry + 16, size);
    }
    memcpy(before, "code", 4);
    expect_refused(b, "two sections code");
    memcpy(before, "tens", 4);
    expect_refused(b, "no section TENS");
    free(b.at);
}

/* An object that is none, with a checksum that fits: object.c refuses it, and the kernel is compiled. */
static void an_object_that_is_none_is_damage(void **state) {
    (void)state;
    HD_SCOPE;
    save_native(small_kernel(), in_folder("m"));
    const file_bytes b = read_bytes(in_folder("m.hoduscript"));
    unsigned char *code = section_bytes(b, "code"), *elf = memmem(code, b.size - (size_t)(code - b.at), "\177ELF", 4);
    assert_non_null(elf);
    elf[18] ^= 1; /* the machine */
    sign(b, false);
    write_bytes(in_folder("edited.hoduscript"), b.at, b.size);
    free(b.at);
    assert_small_result(load_native(in_folder("edited")), 0, "is damaged");
}

/* Any bytes changed, with a checksum that fits: it is placed or refused, in bounds. It is not run, as nobody knows what
 * it does. */
static void random_damage_is_placed_or_refused(void **state) {
    (void)state;
    HD_SCOPE;
    save_native(small_kernel(), in_folder("m"));
    const file_bytes b = read_bytes(in_folder("m.hoduscript"));
    unsigned char *code = section_bytes(b, "code");
    const size_t size = get_u64(section_entry(b, "code") + 16);
    unsigned char *good = malloc(size);
    assert_non_null(good);
    memcpy(good, code, size);
    int placed = 0;
    const int copies = SANITIZED ? 500 : 3000;
    dice d = {sample_seed()};
    for (int i = 0; i < copies; ++i) {
        HD_SCOPE;
        memcpy(code, good, size);
        for (uint64_t k = roll(&d) % 3 + 1; k > 0; --k) code[roll(&d) % size] = (unsigned char)roll(&d);
        sign(b, false);
        write_bytes(in_folder("edited.hoduscript"), b.at, b.size);
        hd_script *s = load_native(in_folder("edited"));
        hd_script_compile(s);
        assert_ok();
        placed += hd_script_stats(s).kernels_from_file == 1;
    }
    assert_in_range(placed, copies / 100, copies - copies / 100);
    free(good);
    free(b.at);
}

/* ---- several processors ------------------------------------------------------------------------------------------ */
/* HODU_ISA names what all have: code is for all of them. Else it is for processors like this one. */
static void code_by_name_serves_all_that_have_it(void **state) {
    (void)state;
    const char *before = getenv("HODU_ISA"), *sets[] = {"baseline", "avx2", "amx"};
    char kept[16], text[3][320] = {{0}}, own[256];
    snprintf(kept, sizeof kept, "%s", before != NULL ? before : "");
    hd_processor_text(own, sizeof own);
    for (int i = 0; i < 3; ++i) {
        HD_SCOPE;
        setenv("HODU_ISA", sets[i], 1);
        save_native(small_kernel(), in_folder("m"));
        assert_small_result(load_native(in_folder("m")), 1, NULL);
        const file_bytes b = read_bytes(in_folder("m.hoduscript"));
        const unsigned char *code = section_bytes(b, "code");
        snprintf(text[i], sizeof text[i], "%s", (const char *)code + 12 + get_u32(code + 8) + 4);
        free(b.at);
        for (int k = 0; k < i && hd_code_vector_bytes() > 16; ++k) assert_string_not_equal(text[i], text[k]);
    }
    if (before != NULL)
        setenv("HODU_ISA", kept, 1);
    else
        unsetenv("HODU_ISA");
    assert_non_null(strstr(text[0], " baseline 16"));
    assert_null(strstr(text[0], own));
    assert_non_null(strstr(text[2], own)); /* only on such a processor */
}

static void code_for_others_is_kept(void **state) {
    (void)state;
    HD_SCOPE;
    save_native(small_kernel(), in_folder("m"));
    file_bytes b = read_bytes(in_folder("m.hoduscript"));
    const uint64_t one = get_u64(section_entry(b, "code") + 16);
    unsigned char *code = section_bytes(b, "code");
    code[12 + get_u32(code + 8) + 4] = '?'; /* as another processor would have saved it */
    sign(b, false);
    write_bytes(in_folder("other.hoduscript"), b.at, b.size);
    free(b.at);
    for (int again = 0; again < 2; ++again) { /* the second time both are there already */
        hd_script *other = load_native(in_folder(again ? "both" : "other"));
        save_native(other, in_folder("both"));
        b = read_bytes(in_folder("both.hoduscript"));
        assert_int_equal(get_u64(section_entry(b, "code") + 16), 2 * one);
        code = section_bytes(b, "code");
        assert_int_not_equal(code[12 + get_u32(code + 8) + 4], '?');
        assert_int_equal(get_u64(code + one), one);
        free(b.at);
        assert_small_result(load_native(in_folder("both")), 1, NULL);
    }
    save_native(hd_script_load(in_folder("both")), in_folder("both")); /* who does not ask reads none, and keeps none */
    b = read_bytes(in_folder("both.hoduscript"));
    assert_int_equal(get_u64(section_entry(b, "code") + 16), one);
    free(b.at);
}

/* ---- who cannot -------------------------------------------------------------------------------------------------- */
static void other_compilers_and_devices_say_so(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = small_kernel();
    s->compiler = HD_COMPILER_XLA; /* whose plugin need not be here */
    hd_script_save_with(s, in_folder("m"), HD_OPTS(hd_script_save_opts, .native = true));
    assert_error(HD_HAS_XLA ? HD_ERROR_STATE : HD_ERROR_DEVICE, "XLA");
    s->compiler = HD_COMPILER_HODU;
    assert_int_not_equal(access(in_folder("m.hoduscript"), F_OK), 0);
    if (hd_compiler_missing(HD_COMPILER_HODU, hd_opencl(0)) != NULL) return;
    save_native(s, in_folder("m"));
    hd_script *loaded = load_native(in_folder("m"));
    hd_script_set_device(loaded, hd_opencl(0));
    assert_small_result(loaded, 0, "compiled for the CPU");
    hd_script_save_with(loaded, in_folder("n"), HD_OPTS(hd_script_save_opts, .native = true));
    assert_error(HD_ERROR_DEVICE, "for the CPU, and the script runs on opencl");
}

/* ---- clones, threads, memory ------------------------------------------------------------------------------------- */
typedef struct runner {
    hd_script *script;
    char path[300];
    bool ran;
} runner;

static void *run_clone(void *argument) {
    HD_SCOPE;
    runner *c = argument;
    write_results(c->script, c->path);
    const hd_script_figures f = hd_script_stats(c->script);
    c->ran = hd_ok() && f.kernels > 2 && f.kernels_from_file == f.kernels;
    return NULL;
}

static void clones_share_it_on_other_threads(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *fresh = many_kernels();
    save_native(fresh, in_folder("m"));
    write_results(fresh, in_folder("expected"));
    const file_bytes expected = read_bytes(in_folder("expected"));
    runner clones[4];
    {
        HD_SCOPE; /* they outlive what they were made of */
        hd_script *s = load_native(in_folder("m"));
        for (int i = 0; i < 4; ++i) {
            clones[i] = (runner){.script = hd_keep(hd_script_clone(s))};
            snprintf(clones[i].path, sizeof clones[i].path, "%s/clone-%d", folder, i);
        }
        assert_ok();
    }
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i) assert_int_equal(pthread_create(&threads[i], NULL, run_clone, &clones[i]), 0);
    for (int i = 0; i < 4; ++i) {
        pthread_join(threads[i], NULL);
        assert_true(clones[i].ran);
        const file_bytes got = read_bytes(clones[i].path);
        assert_int_equal(got.size, expected.size);
        assert_memory_equal(got.at, expected.at, got.size);
        free(got.at);
    }
    free(expected.at);
}

static void there_and_back(void) {
    save_native(small_kernel(), in_folder("m"));
    hd_script *s = load_native(in_folder("m"));
    save_native(s, in_folder("m"));
    set_one_input(s);
    hd_script_run(s);
}

static void load_tuned(void) {
    hd_script *s = load_native(in_folder("tuned"));
    save_native(s, in_folder("again"));
    if (hd_ok()) assert_true(hd_script_stats(s).native_unused == NULL && hd_script_stats(s).kernels_from_file == 1);
}

static void survives_failing_allocations(void **state) {
    (void)state;
    {
        HD_SCOPE;
        there_and_back(); /* what is compiled once is on disk */
        assert_ok();
    }
    each_allocation_fails(there_and_back, 3000);
    {
        HD_SCOPE;
        hd_script *s = small_kernel();
        hd_script_set_optimization_level(s, HD_O3);
        save_native(s, in_folder("tuned"));
        assert_ok();
    }
    each_allocation_fails(load_tuned, 5000);
}

int main(int argc, char **argv) {
    if (argc == 4) return run_alone(argv[1], argv[2], argv[3]);
    const struct CMUnitTest tests[] = {file_test(nothing_is_compiled_and_the_bits_are_the_same),
                                       file_test(nobody_runs_it_who_did_not_ask),
                                       file_test(a_file_without_says_so),
                                       file_test(other_processors_and_versions_compile_as_always),
                                       file_test(another_level_says_so),
                                       file_test(a_flipped_byte_anywhere_is_as_good_as_none),
                                       file_test(counts_that_cannot_be_are_damage),
                                       file_test(the_section_lies_where_it_should),
                                       file_test(an_object_that_is_none_is_damage),
                                       file_test(random_damage_is_placed_or_refused),
                                       file_test(code_by_name_serves_all_that_have_it),
                                       file_test(code_for_others_is_kept),
                                       file_test(other_compilers_and_devices_say_so),
                                       file_test(clones_share_it_on_other_threads),
                                       file_test(survives_failing_allocations)};
    return cmocka_run_group_tests(tests, make_own_cache, remove_own_cache);
}

#else

static void without_files_it_says_so(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script_save_with(NULL, "m", HD_OPTS(hd_script_save_opts, .native = true));
    assert_error(HD_ERROR_STATE, "built without files (HODU_FILES=OFF)");
    hd_script_load_with("m", HD_OPTS(hd_script_load_opts, .native = true));
    assert_error(HD_ERROR_STATE, "built without files (HODU_FILES=OFF)");
}

RUN(test(without_files_it_says_so))

#endif
