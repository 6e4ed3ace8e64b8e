/* Kernels as CUDA's text, compiled for an H200 by NVRTC, which needs no GPU: random ones with random grids, every
 * row and derivative, those that grids were made for, and templates. HODU_NVRTC says where its library is;
 * scripts/get-nvrtc brings one. */
#include "support.h"

#include <dlfcn.h>

#include "compiler/rows.h" /* its reading of the words ends where that of the interpreter begins */

#include "compiler/interpreter.h"
#include "gpu/cases.h"

typedef struct program program;
static int (*make)(program **out, const char *text, const char *name, int headers, const char *const *,
                   const char *const *);
static int (*compile)(program *p, int count, const char *const *options);
static int (*log_size)(program *p, size_t *out), (*get_log)(program *p, char *out), (*destroy)(program **p);

static const char *open_nvrtc(void) { /* why not; NULL: it is open */
    const char *path = getenv("HODU_NVRTC");
    void *library = dlopen(path != NULL ? path : "libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return "there is no NVRTC; scripts/get-nvrtc brings it, HODU_NVRTC says where it is";
    *(void **)&make = dlsym(library, "nvrtcCreateProgram");
    *(void **)&compile = dlsym(library, "nvrtcCompileProgram");
    *(void **)&log_size = dlsym(library, "nvrtcGetProgramLogSize");
    *(void **)&get_log = dlsym(library, "nvrtcGetProgramLog");
    *(void **)&destroy = dlsym(library, "nvrtcDestroyProgram");
    return make && compile && log_size && get_log && destroy ? NULL : "this NVRTC lacks functions";
}

/* Compiles text, which it frees; `name` is for messages. */
static void compile_text(char *text, const char *name) {
    static const char *const options[] = {"--gpu-architecture=sm_90a", "--std=c++17", "--minimal", "-w"};
    char *log;
    size_t bytes = 0;
    program *p;
    assert_int_equal(make(&p, text, "text.cu", 0, NULL, NULL), 0);
    const int status = compile(p, 4, options);
    assert_int_equal(log_size(p, &bytes), 0);
    log = calloc(1, bytes + 1);
    get_log(p, log);
    if (status != 0) fail_msg("%s: NVRTC gives %d: %.2000s", name, status, log);
    destroy(&p);
    free(log);
    free(text);
}
static void run_all(gpu_case *const *cases, int count) {
    compile_text(case_text(cases, count, HD_DIALECT_CUDA, true), "kernels");
}

/* Nothing runs: what comes out is looked at where there is something to run it. */
static void random_kernels_compile(void **state) {
    (void)state;
    gpu_case *cases = calloc(CASES, sizeof *cases), *all[CASES];
    random_kernel_state = 88172645463325252u + sample_seed() * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < CASES; ++i) case_make(all[i] = &cases[i], i, true);
    run_all(all, CASES);
    for (int i = 0; i < CASES; ++i) case_release(all[i]);
    free(cases);
}

#include "gpu/rows.h"
static void rows_compile(void **state) {
    (void)state;
    row_case *rows = malloc(CASES * sizeof *rows);
    gpu_case *all[CASES];
    row_reading last = {.derivative = -1};
    int total = 0;
    for (int count; (count = row_cases(rows, CASES, &last, true)) > 0; total += count) {
        for (int i = 0; i < count; ++i) all[i] = &rows[i].c;
        run_all(all, count);
        for (int i = 0; i < count; ++i) row_check(&rows[i], false);
    }
    free(rows);
    assert_in_range(total, 600, 10000);
}

#include "gpu/by_hand.h"
static void kernels_by_hand_compile(void **state) {
    (void)state;
    gpu_case *cases = calloc(BY_HAND, sizeof *cases), *all[BY_HAND];
    for (int i = 0; i < BY_HAND; ++i) by_hand_make(all[i] = &cases[i], i, true);
    run_all(all, BY_HAND);
    for (int i = 0; i < BY_HAND; ++i) case_release(all[i]);
    free(cases);
}

#include "gpu/templates.h"
static void templates_compile(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_BF16, HD_F64, HD_F16, HD_F8E4M3, HD_F8E5M2};
    for (int i = 0; i < TEMPLATE_LINES; ++i)
        for (int k = 0; k < 6; ++k)
            if (sampled((uint64_t)(i * 6 + k), 10))
                compile_text(template_text(i, dtypes[k], HD_DIALECT_CUDA, true),
                             hd_template_name((hd_template)template_lines[i].which));
}

int main(void) {
    const struct CMUnitTest tests[] = {test(random_kernels_compile), test(rows_compile), test(kernels_by_hand_compile),
                                       test(every_template_has_a_line), test(templates_compile)};
    shared_threads = 32;
    const char *missing = open_nvrtc();
    if (missing == NULL) return cmocka_run_group_tests(tests, NULL, NULL);
    print_message("skipped: %s\n", missing);
    return 77;
}
