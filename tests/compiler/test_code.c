/* Native code: kernels are found in memory, on disk, or compiled; many threads and processes at once; every way to
 * fail. */
#include "compiler/finish.h"
#include "support.h"

#include <math.h>
#include <pthread.h>
#include <sys/wait.h>

#include "codegen/code.h"
#include "codegen/dump.h"
#include "compiler/interpreter.h"
#include "compiler/own_cache.h"
#include "printed.h"
#include "compiler/random_kernels.h"
#include "core/memory.h"

/* ---- kernels ----------------------------------------------------------------------------------------------------- */
/* out = x * (number + 2): as many different ones as there are numbers. */
static void make_scaled(hd_kernel *k, int number) {
    static const uint8_t along[HD_KERNEL_AXES] = {HD_STRIDE_ONE};
    hd_kernel_init(k, 1, 1);
    const int x = hd_kernel_load(k, hd_kernel_add_buffer(k, HD_F32, false, along), -1);
    const int c = hd_kernel_constant(k, HD_COMPUTE_F32, number + 2);
    hd_kernel_store(k, hd_kernel_add_buffer(k, HD_F32, true, along), hd_kernel_word(k, HD_WORD_MUL, x, c, -1));
    assert_int_equal(kernel_finish(k, 0, hd_code_vector_bytes()), HD_OK);
}

static bool runs_scaled(const hd_code *code, int number) {
    enum { N = 77 };
    float x[N], y[N];
    int64_t geometry[8] = {N, 0, 1, 1};
    for (int i = 0; i < N; ++i) x[i] = (float)i, y[i] = -1;
    code->run((char *[]){(char *)x, (char *)y}, geometry, NULL, NULL);
    for (int i = 0; i < N; ++i)
        if (y[i] != (float)(i * (number + 2))) return false;
    return true;
}

static hd_code *get(const hd_kernel *k, hd_code_stats *figures) {
    hd_code *code = NULL;
    const hd_error status = hd_code_get(hd_thread_self(), hd_processor_coder(), &k, 1, &code, figures);
    assert_true((status == HD_OK) == (code != NULL));
    return code;
}

static int64_t kernels_in_memory(void) {
    int64_t kernels, bytes;
    hd_code_count(&kernels, &bytes);
    assert_true((kernels == 0) == (bytes == 0));
    return kernels;
}

static void begin(void) {
    hd_cache_clear();
    assert_int_equal(kernels_in_memory(), 0);
}

static void with_renderer(const char *name) {
    if (name == NULL)
        unsetenv("HODU_RENDERER");
    else
        setenv("HODU_RENDERER", name, 1);
}

/* ---- memory, disk, compiler -------------------------------------------------------------------------------------- */
static void memory_then_disk_then_the_compiler(void **state) {
    (void)state;
    hd_kernel k;
    hd_code_stats f = {0};
    begin();
    make_scaled(&k, 0);
    hd_code *first = get(&k, &f), *second = get(&k, &f);
    assert_ok();
    assert_ptr_equal(first, second);
    assert_true(f.kernels == 2 && f.compiled == 1 && f.from_memory == 1 && f.from_disk == 0);
    assert_true(f.compile_nanoseconds > 0);
    assert_true(runs_scaled(first, 0));
    hd_code_release(first);
    hd_code_release(second);
    assert_int_equal(kernels_in_memory(), 1); /* kept for whoever comes next */
    hd_code_drop_unused();
    assert_int_equal(kernels_in_memory(), 0);
    first = get(&k, &f);
    assert_true(f.kernels == 3 && f.compiled == 1 && f.from_disk == 1);
    assert_true(runs_scaled(first, 0));
    hd_cache_clear(); /* it is used: only the disk is cleared */
    assert_int_equal(kernels_in_memory(), 1);
    assert_true(runs_scaled(first, 0));
    hd_code_release(first);
    hd_cache_clear();
    first = get(&k, &f);
    assert_true(f.compiled == 2);
    hd_code_release(first);
    hd_kernel_release(&k);
}

static void equal_kernels_in_one_request_are_compiled_once(void **state) {
    (void)state;
    enum { N = 12 };
    hd_kernel kernels[N];
    const hd_kernel *all[N];
    hd_code *codes[N];
    hd_code_stats f = {0};
    begin();
    for (int i = 0; i < N; ++i) {
        make_scaled(&kernels[i], i % 4);
        all[i] = &kernels[i];
    }
    assert_int_equal(hd_code_get(hd_thread_self(), hd_processor_coder(), all, N, codes, &f), HD_OK);
    assert_true(f.kernels == N && f.compiled == 4 && f.from_memory == N - 4);
    for (int i = 0; i < N; ++i) {
        assert_ptr_equal(codes[i], codes[i % 4]);
        assert_int_equal(codes[i]->references, N / 4);
        assert_true(runs_scaled(codes[i], i % 4));
    }
    for (int i = 0; i < N; ++i) {
        hd_code_release(codes[i]);
        hd_kernel_release(&kernels[i]);
    }
    assert_int_equal(hd_code_get(hd_thread_self(), hd_processor_coder(), all, 0, codes, &f), HD_OK);
}

static void a_damaged_entry_is_compiled_anew(void **state) {
    (void)state;
    hd_kernel k;
    hd_code_stats f = {0};
    begin();
    make_scaled(&k, 5);
    hd_code_release(get(&k, &f));
    hd_code_drop_unused();
    DIR *d = opendir(own_cache);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[512];
        if (strstr(e->d_name, ".code") == NULL) continue;
        snprintf(path, sizeof path, "%s/%s", own_cache, e->d_name);
        assert_int_equal(truncate(path, 700), 0);
    }
    closedir(d);
    hd_code *code = get(&k, &f);
    assert_true(f.compiled == 2 && f.from_disk == 0 && runs_scaled(code, 5));
    hd_code_release(code);
    hd_code_drop_unused();
    hd_code_release(get(&k, &f)); /* it was written anew */
    assert_int_equal(f.from_disk, 1);
    hd_kernel_release(&k);
}

/* ---- what they compute ------------------------------------------------------------------------------------------- */
static void compare_with_interpreter(const random_kernel *r, const hd_code *code) {
    char *buffers[HD_KERNEL_BUFFERS], *expected[HD_KERNEL_BUFFERS], *scratch = malloc(r->scratch_bytes + 64);
    random_memory(r, buffers);
    for (int b = 0; b < r->k.buffer_count; ++b) {
        const size_t bytes = (size_t)r->elements[b] * hd_dtype_bytes[r->k.buffers[b].dtype] + 64;
        expected[b] = malloc(bytes);
        memcpy(expected[b], buffers[b], bytes);
    }
    interpret_kernel(&r->k, expected, r->geometry, r->numbers);
    code->run(buffers, r->geometry, r->numbers, scratch);
    for (int b = 0; b < r->k.buffer_count; ++b) {
        const hd_dtype dtype = (hd_dtype)r->k.buffers[b].dtype;
        for (int64_t i = 0; i < r->elements[b]; ++i) {
            const size_t at = (size_t)i * hd_dtype_bytes[dtype];
            const double got = hd_element_to_f64(buffers[b] + at, dtype),
                         want = hd_element_to_f64(expected[b] + at, dtype);
            if (got == want) continue;
            static char out[1 << 15];
            hd_kernel_print(&r->k, out, sizeof out);
            print_error("%s", out);
            fail_msg("buffer %d, element %lld: got %.9g, expected %.9g", b, (long long)i, got, want);
        }
        free(buffers[b]);
        free(expected[b]);
    }
    free(scratch);
}

static void compare_random_kernels(const char *renderer, int count) {
    static random_kernel kernels[64];
    const hd_kernel *all[64];
    hd_code *codes[64];
    begin();
    with_renderer(renderer);
    for (int i = 0; i < count; ++i) {
        random_make(&kernels[i], hd_code_vector_bytes());
        all[i] = &kernels[i].k;
    }
    hd_code_get(hd_thread_self(), hd_processor_coder(), all, count, codes, NULL);
    assert_ok();
    for (int i = 0; i < count; ++i) {
        compare_with_interpreter(&kernels[i], codes[i]);
        hd_code_release(codes[i]);
        hd_kernel_release(&kernels[i].k);
    }
    with_renderer(NULL);
}

static void random_kernels_equal_the_interpreter(void **state) {
    (void)state;
    compare_random_kernels(NULL, 64);
    compare_random_kernels("c", 8);
}

static void instruction_sets_are_heeded(void **state) {
    (void)state;
    const int here = hd_code_vector_bytes();
    assert_true(here == 16 || here == 32 || here == 64);
    setenv("HODU_ISA", "baseline", 1);
    assert_int_equal(hd_code_vector_bytes(), 16);
    const char *baseline = hd_cc_target();
    compare_random_kernels(NULL, 8);
    compare_random_kernels("c", 2);
    setenv("HODU_ISA", "avx2", 1);
    assert_int_equal(hd_code_vector_bytes(), here < 32 ? here : 32);
    compare_random_kernels("c", 2);
    unsetenv("HODU_ISA");
    assert_int_equal(hd_code_vector_bytes(), here);
    if (here > 16) assert_string_not_equal(hd_cc_target(), baseline); /* their code is kept apart */
    assert_ptr_equal(hd_cc_target(), hd_cc_target());
    const char *plain = hd_cc_target();
    setenv("HODU_CC", "cc -g", 1);
    assert_string_not_equal(hd_cc_target(), plain);
    unsetenv("HODU_CC");
}

/* ---- threads and processes --------------------------------------------------------------------------------------- */
enum { SHARED = 50, ASKING = 4 };
static hd_kernel shared_kernels[SHARED];

static void *ask_for_all(void *result) {
    const hd_kernel *all[SHARED];
    hd_code *codes[SHARED];
    *(int *)result = 1;
    for (int i = 0; i < SHARED; ++i) all[i] = &shared_kernels[i];
    for (int half = 0; half < 2; ++half) /* first many at once, then one by one */
        for (int i = 0; i < (half == 0 ? 1 : SHARED); ++i) {
            const int count = half == 0 ? SHARED : 1;
            if (hd_code_get(hd_thread_self(), hd_processor_coder(), all + i, count, codes + i, NULL) != HD_OK)
                return NULL;
            for (int j = i; j < i + count; ++j) {
                if (!runs_scaled(codes[j], j)) return NULL;
                hd_code_release(codes[j]);
            }
        }
    *(int *)result = 0;
    return NULL;
}

static void many_threads_ask_for_the_same(void **state) {
    (void)state;
    begin();
    if (hd_processor_coder()->render == hd_cc_object) skip(); /* a process for each would take minutes */
    for (int i = 0; i < SHARED; ++i) make_scaled(&shared_kernels[i], i);
    pthread_t threads[ASKING];
    int results[ASKING];
    for (int i = 0; i < ASKING; ++i) pthread_create(&threads[i], NULL, ask_for_all, &results[i]);
    for (int i = 0; i < 20; ++i) hd_code_drop_unused(); /* what they have is used; what they let go of may go */
    for (int i = 0; i < ASKING; ++i) pthread_join(threads[i], NULL);
    for (int i = 0; i < ASKING; ++i) assert_int_equal(results[i], 0);
    assert_in_range(kernels_in_memory(), 0, SHARED);
    hd_code_drop_unused();
    assert_int_equal(kernels_in_memory(), 0);
    for (int i = 0; i < SHARED; ++i) hd_kernel_release(&shared_kernels[i]);
}

static void expect_child(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void a_forked_child_goes_on(void **state) {
    (void)state;
    hd_kernel old, new;
    begin();
    make_scaled(&old, 100);
    make_scaled(&new, 101);
    hd_code *code = get(&old, NULL);
    const pid_t child = fork();
    if (child == 0) {
        hd_code_stats f = {0};
        hd_code *both[2];
        const hd_kernel *kernels[2] = {&old, &new};
        const bool right = runs_scaled(code, 100) &&
                           hd_code_get(hd_thread_self(), hd_processor_coder(), kernels, 2, both, &f) == HD_OK &&
                           both[0] == code && f.compiled == 1 && runs_scaled(both[1], 101);
        _exit(right ? 0 : 1);
    }
    expect_child(child);
    hd_code_stats f = {0};
    hd_code *from_child = get(&new, &f); /* through the disk */
    assert_true(f.from_disk == 1 && runs_scaled(from_child, 101));
    hd_code_release(code);
    hd_code_release(from_child);
    hd_kernel_release(&old);
    hd_kernel_release(&new);
}

static _Atomic bool stop;
static void *ask_until_stopped(void *kernel) {
    while (!stop) {
        hd_code *code = get(kernel, NULL);
        hd_code_release(code);
        hd_code_drop_unused();
    }
    return NULL;
}

/* A fork in the middle of another thread's request leaves the child with a table it can use. */
static void forks_while_others_compile(void **state) {
    (void)state;
    hd_kernel k;
    pthread_t thread;
    begin();
    make_scaled(&k, 7);
    hd_code_release(get(&k, NULL));
    stop = false;
    pthread_create(&thread, NULL, ask_until_stopped, &k);
    for (int i = 0; i < 30; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            hd_code *code = NULL;
            const hd_kernel *kernel = &k;
            alarm(60);
            _exit(hd_code_get(hd_thread_self(), hd_processor_coder(), &kernel, 1, &code, NULL) == HD_OK &&
                          runs_scaled(code, 7)
                      ? 0
                      : 1);
        }
        expect_child(child);
    }
    stop = true;
    pthread_join(thread, NULL);
    hd_kernel_release(&k);
}

static void many_processes_share_the_disk(void **state) {
    (void)state;
    hd_kernel kernels[6];
    pid_t children[8];
    begin();
    for (int i = 0; i < 6; ++i) make_scaled(&kernels[i], 200 + i);
    for (int c = 0; c < 8; ++c) {
        children[c] = fork();
        if (children[c] != 0) continue;
        for (int i = 0; i < 6; ++i) {
            hd_code *code = NULL;
            const hd_kernel *kernel = &kernels[(i + c) % 6];
            if (hd_code_get(hd_thread_self(), hd_processor_coder(), &kernel, 1, &code, NULL) != HD_OK ||
                !runs_scaled(code, 200 + (i + c) % 6))
                _exit(1);
        }
        _exit(0);
    }
    for (int c = 0; c < 8; ++c) expect_child(children[c]);
    assert_int_equal(hd_cache_info().disk_entries, 6);
    for (int i = 0; i < 6; ++i) {
        hd_code_stats f = {0};
        hd_code_release(get(&kernels[i], &f));
        assert_int_equal(f.from_disk, 1);
        hd_kernel_release(&kernels[i]);
    }
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */
static void failures_say_why(void **state) {
    (void)state;
    hd_kernel k;
    begin();
    make_scaled(&k, 1);
    with_renderer("fortran");
    assert_null(get(&k, NULL));
    assert_error(HD_ERROR_VALUE, "HODU_RENDERER is \"fortran\"");
    with_renderer("c");
    setenv("HODU_CC", "/nowhere/cc", 1);
    assert_null(get(&k, NULL));
    assert_error(HD_ERROR_STATE, "/nowhere/cc");
    setenv("HODU_CC", "  ", 1);
    assert_null(get(&k, NULL));
    assert_error(HD_ERROR_VALUE, "HODU_CC");
    setenv("HODU_CC", "cc -Dbuffers=3", 1); /* tells its version, but compiles no kernel */
    assert_null(get(&k, NULL));
    assert_error(HD_ERROR_STATE, "kernel: 1 axes, 1 kept");
    setenv("HODU_CC", "cc -include /nowhere/header.h", 1);
    assert_null(get(&k, NULL));
    assert_error(HD_ERROR_STATE, "/nowhere/header.h");
    unsetenv("HODU_CC");
    char *temporary = getenv("TMPDIR");
    temporary = temporary ? strdup(temporary) : NULL;
    setenv("TMPDIR", "/dev/null/nowhere", 1);
    assert_null(get(&k, NULL));
    assert_error(HD_ERROR_STATE, "TMPDIR");
    unsetenv("TMPDIR");
    if (temporary != NULL) setenv("TMPDIR", temporary, 1);
    free(temporary);
    with_renderer(NULL);
    assert_int_equal(kernels_in_memory(), 0);
    assert_int_equal(hd_cache_info().disk_entries, 0);
    hd_kernel_release(&k);
}

static void make_exponential(hd_kernel *k) {
    static const uint8_t along[HD_KERNEL_AXES] = {HD_STRIDE_ONE};
    hd_kernel_init(k, 1, 1);
    const int x = hd_kernel_load(k, hd_kernel_add_buffer(k, HD_F32, false, along), -1);
    hd_kernel_store(k, hd_kernel_add_buffer(k, HD_F32, true, along), hd_kernel_word(k, HD_WORD_EXP, x, -1, -1));
    assert_int_equal(kernel_finish(k, 0, hd_code_vector_bytes()), HD_OK);
}

/* One of several fails: none is given, one error is pending, and what was compiled serves the next request. */
static void one_failure_among_many(void **state) {
    (void)state;
    hd_kernel kernels[3];
    const hd_kernel *all[3] = {&kernels[0], &kernels[1], &kernels[2]};
    hd_code *codes[3] = {(hd_code *)&kernels, NULL, NULL};
    begin();
    make_scaled(&kernels[0], 0);
    make_exponential(&kernels[1]);
    make_scaled(&kernels[2], 2);
    with_renderer("c");
    setenv("HODU_CC", "cc -Dw_exp_f32=3", 1);
    assert_int_not_equal(hd_code_get(hd_thread_self(), hd_processor_coder(), all, 3, codes, NULL), HD_OK);
    assert_error(HD_ERROR_STATE, "kernel: 1 axes");
    for (int i = 0; i < 3; ++i) assert_null(codes[i]);
    assert_int_equal(kernels_in_memory(), 2);
    hd_code *last = get(&kernels[2], NULL);
    assert_true(runs_scaled(last, 2));
    hd_code_release(last);
    unsetenv("HODU_CC");
    with_renderer(NULL);
    for (int i = 0; i < 3; ++i) hd_kernel_release(&kernels[i]);
}

static void no_disk_is_no_failure(void **state) {
    (void)state;
    hd_kernel k;
    hd_code_stats f = {0};
    begin();
    make_scaled(&k, 3);
    setenv("HODU_CACHE_DIR", "/proc/self/nothing", 1);
    hd_code *code = get(&k, &f);
    assert_true(f.compiled == 1 && runs_scaled(code, 3));
    hd_code_release(code);
    hd_cache_clear();
    setenv("HODU_CACHE", "0", 1);
    code = get(&k, &f);
    assert_true(f.compiled == 2 && runs_scaled(code, 3));
    hd_code_release(code);
    unsetenv("HODU_CACHE");
    setenv("HODU_CACHE_DIR", own_cache, 1);
    assert_int_equal(hd_cache_info().disk_entries, 0);
    hd_kernel_release(&k);
}

static void survives_failing_allocations(void **state) {
    (void)state;
    hd_kernel kernels[3];
    const hd_kernel *all[3] = {&kernels[0], &kernels[1], &kernels[2]};
    for (int i = 0; i < 3; ++i) make_scaled(&kernels[i], 40 + i);
    for (int on_disk = 0; on_disk < 2; ++on_disk)
        for (int n = 0;; ++n) {
            hd_code *codes[3];
            if (!on_disk) hd_cache_clear();
            hd_code_drop_unused();
            hd_memory_fail_after(n);
            const hd_error status = hd_code_get(hd_thread_self(), hd_processor_coder(), all, 3, codes, NULL);
            const bool reached = hd_memory_attempts() > n;
            hd_memory_fail_after(-1);
            for (int i = 0; i < 3; ++i) {
                assert_true((codes[i] != NULL) == (status == HD_OK));
                if (status == HD_OK) assert_true(runs_scaled(codes[i], 40 + i));
                if (status == HD_OK) hd_code_release(codes[i]);
            }
            if (status != HD_OK) assert_error(HD_ERROR_MEMORY, "");
            if (!reached) break;
        }
    for (int i = 0; i < 3; ++i) hd_kernel_release(&kernels[i]);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */
static void dumps_what_is_asked_for(void **state) {
    (void)state;
    assert_false(hd_dump_wants("c"));
    setenv("HODU_DUMP", "kernels, c,llvm", 1);
    assert_true(hd_dump_wants("c") && hd_dump_wants("kernels") && hd_dump_wants("llvm"));
    assert_false(hd_dump_wants("asm") || hd_dump_wants("kernel") || hd_dump_wants(""));
    size_t length;
    assert_null(hd_dump_unknown("", &length));
    assert_null(hd_dump_unknown(" graph,fusion jobs, kernels,c,llvm,asm,tuning,stablehlo,", &length));
    assert_string_equal(hd_dump_unknown("c, fussion,asm", &length), "fussion,asm");
    assert_int_equal(length, strlen("fussion"));
    hd_kernel k;
    make_scaled(&k, 1);
    char text[4096];
    const printed p = printed_begin();
    hd_dump_kernel(&k);
    printed_end(p, text, sizeof text);
    unsetenv("HODU_DUMP");
    assert_non_null(strstr(text, "MUL"));
    assert_non_null(strstr(text, "w_mul_f32(v0, 3.0f)"));
    hd_kernel_release(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {test(memory_then_disk_then_the_compiler),
                                       test(equal_kernels_in_one_request_are_compiled_once),
                                       test(a_damaged_entry_is_compiled_anew),
                                       test(random_kernels_equal_the_interpreter),
                                       test(instruction_sets_are_heeded),
                                       test(many_threads_ask_for_the_same),
                                       test(a_forked_child_goes_on),
                                       test(forks_while_others_compile),
                                       test(many_processes_share_the_disk),
                                       test(failures_say_why),
                                       test(one_failure_among_many),
                                       test(no_disk_is_no_failure),
                                       test(survives_failing_allocations),
                                       test(dumps_what_is_asked_for)};
    return cmocka_run_group_tests(tests, make_own_cache, remove_own_cache);
}
