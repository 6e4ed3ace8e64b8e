/* Kernels rendered as C and compiled by the machine's compiler, against the interpreter; and that the text is fit to
 * read. */
#include "compiler/finish.h"
#include "support.h"

#include <dlfcn.h>
#include <math.h>
#include <unistd.h>

#include "compiler/interpreter.h"
#include "compiler/random_kernels.h"
#include "core/memory.h"
#include "kernel/kernel_c.h"

/* ---- one text for many kernels, compiled once -------------------------------------------------------------------- */
extern const unsigned char hd_kernel_text[], hd_small_text[];
extern const size_t hd_kernel_text_size, hd_small_text_size;

typedef struct text {
    char *data;
    size_t length, capacity;
} text;

static char *room(text *t, size_t more) {
    if (t->length + more + 1 > t->capacity) {
        t->capacity = (t->length + more + 1) * 2;
        t->data = realloc(t->data, t->capacity);
        assert_non_null(t->data);
    }
    return t->data + t->length;
}

static void add_bytes(text *t, const void *bytes, size_t count) {
    memcpy(room(t, count), bytes, count);
    t->length += count;
}

static void add_preamble(text *t) {
    const size_t words = hd_render_preamble(NULL, 0);
    hd_render_preamble(room(t, words), words + 1);
    t->length += words;
    add_bytes(t, hd_small_text, hd_small_text_size);
    add_bytes(t, hd_kernel_text, hd_kernel_text_size);
    for (int type = HD_COMPUTE_F32; type <= HD_COMPUTE_F64; ++type) {
        const size_t programs = hd_render_programs((hd_compute)type, NULL, 0);
        hd_render_programs((hd_compute)type, room(t, programs), programs + 1);
        t->length += programs;
    }
    static const char *const words_of_folds[] = {"add", "mul", "max", "min"};
    for (int how = 0; how < 4; ++how)
        for (int type = 0; type < HD_COMPUTE_COUNT; ++type) {
            if (type == HD_COMPUTE_B8 && how < 2) continue;
            char line[64];
            add_bytes(
                t, line,
                (size_t)snprintf(line, sizeof line, "W_FOLD(%s, %s)\n", words_of_folds[how], hd_ir_type_name(type)));
        }
}

static void add_kernel(text *t, const hd_kernel *k, int number) {
    char name[32];
    snprintf(name, sizeof name, "kernel%d", number);
    const size_t length = hd_render_kernel_function(k, name, NULL, 0);
    assert_int_equal(hd_render_kernel_function(k, name, room(t, length), length + 1), length);
    t->length += length;
}

static void *compile(const text *t) {
    char folder[] = "/tmp/hodu-kernels-XXXXXX", command[512], path[128];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/kernels.c", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(t->data, 1, t->length, file), t->length);
    fclose(file);
    const char *cc = getenv("CC"), *flags = getenv("HODU_TEST_FLAGS");
    snprintf(
        command, sizeof command,
        "%s -std=c11 -Wall -Werror=implicit -Wno-unused -Wno-unknown-pragmas %s -fno-math-errno -fno-trapping-math "
        "-fno-strict-aliasing -shared -fPIC -o %s/kernels.so %s -lm",
        cc ? cc : "cc", flags ? flags : "-O1 -fopenmp-simd", folder, path);
    if (system(command) != 0) fail_msg("the rendered text does not compile: %s", command);
    snprintf(path, sizeof path, "%s/kernels.so", folder);
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL) fail_msg("%s", dlerror());
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    return library;
}

static hd_kernel_function find(void *library, int number) {
    char name[32];
    snprintf(name, sizeof name, "kernel%d", number);
    union {
        void *object;
        hd_kernel_function function;
    } symbol = {.object = dlsym(library, name)};
    if (symbol.object == NULL) fail_msg("%s is missing", name);
    return symbol.function;
}

static void show(const hd_kernel *k) {
    static char out[1 << 16];
    hd_kernel_print(k, out, sizeof out);
    print_error("%s", out);
    hd_render_kernel_function(k, "kernel", out, sizeof out);
    print_error("%s", out);
}

static bool same_float(double a, double b) { return a == b || (a != a && b != b); }

/* Runs a kernel both ways on the same memory; `relative` 0 asks for the same values. */
static void compare_runs(const random_kernel *r, hd_kernel_function run, char **buffers, double relative) {
    char *expected[HD_KERNEL_BUFFERS], *scratch = malloc(r->scratch_bytes + 64);
    for (int b = 0; b < r->k.buffer_count; ++b) {
        const size_t bytes = (size_t)r->elements[b] * hd_dtype_bytes[r->k.buffers[b].dtype] + 64;
        expected[b] = malloc(bytes);
        memcpy(expected[b], buffers[b], bytes);
    }
    interpret_kernel(&r->k, expected, r->geometry, r->numbers);
    run(buffers, r->geometry, r->numbers, scratch);
    for (int b = 0; b < r->k.buffer_count; ++b) {
        const hd_dtype dtype = (hd_dtype)r->k.buffers[b].dtype;
        const size_t bytes = hd_dtype_bytes[dtype];
        for (int64_t i = 0; i < r->elements[b]; ++i) {
            const double got = hd_element_to_f64(buffers[b] + (size_t)i * bytes, dtype),
                         want = hd_element_to_f64(expected[b] + (size_t)i * bytes, dtype);
            if (same_float(got, want) || fabs(got - want) <= relative * fabs(want)) continue;
            show(&r->k);
            for (int a = 0; a < r->k.axes; ++a) print_error("size %lld\n", (long long)r->geometry[a]);
            fail_msg("buffer %d, element %lld: rendered %.9g, expected %.9g", b, (long long)i, got, want);
        }
        assert_memory_equal(buffers[b] + (size_t)r->elements[b] * bytes, expected[b] + (size_t)r->elements[b] * bytes,
                            64);
        free(expected[b]);
    }
    free(scratch);
}

static void release_buffers(const random_kernel *r, char **buffers) {
    for (int b = 0; b < r->k.buffer_count; ++b) free(buffers[b]);
}

/* ---- random ones ------------------------------------------------------------------------------------------------- */
static void random_kernels_equal_the_interpreter(void **state) {
    (void)state;
    enum { MOST = 600 };
    const int count = in_full() ? MOST : 120;
    static random_kernel kernels[MOST];
    text t = {0};
    add_preamble(&t);
    for (int i = 0; i < count; ++i) {
        random_make(&kernels[i], 32);
        add_kernel(&t, &kernels[i].k, i);
    }
    void *library = compile(&t);
    for (int i = 0; i < count; ++i) {
        char *buffers[HD_KERNEL_BUFFERS];
        random_memory(&kernels[i], buffers);
        compare_runs(&kernels[i], find(library, i), buffers, 0);
        release_buffers(&kernels[i], buffers);
        hd_kernel_release(&kernels[i].k);
    }
    dlclose(library);
    free(t.data);
}

/* ---- chosen ones ------------------------------------------------------------------------------------------------- */
static int contiguous(random_kernel *r, hd_dtype dtype, bool written, uint32_t over) {
    hd_kernel *k = &r->k;
    uint8_t class[HD_KERNEL_AXES] = {0};
    int64_t next = 1, strides[HD_KERNEL_AXES] = {0};
    for (int a = k->axes - 1; a >= 0; --a) {
        if ((over >> a & 1) == 0) continue;
        class[a] = next == 1 ? HD_STRIDE_ONE : HD_STRIDE_ANY;
        strides[a] = next;
        next *= r->geometry[a];
    }
    const int b = hd_kernel_add_buffer(k, dtype, written, class);
    for (int a = 0; a < k->axes; ++a) r->geometry[hd_geometry_stride(k, b, a)] = strides[a];
    r->elements[b] = next;
    return b;
}

static void begin(random_kernel *r, int axes, int kept, int64_t n0, int64_t n1) {
    memset(r, 0, sizeof *r);
    hd_kernel_init(&r->k, axes, kept);
    r->geometry[0] = n0;
    if (axes > 1) r->geometry[1] = n1;
}

static void finish(random_kernel *r, int lanes) {
    int64_t points = 1;
    assert_int_equal(kernel_finish(&r->k, lanes, 64), HD_OK);
    assert_int_equal(hd_kernel_verify(&r->k), HD_OK);
    for (int a = r->k.kept; a < r->k.axes; ++a) points *= r->geometry[a];
    r->geometry[hd_geometry_slot(&r->k)] = points * 8 + 64;
    r->scratch_bytes = (size_t)(points * 8 + 64) * (r->k.schedule.slots + 1u);
}

/* Softmax of rows: the maximum, the sum of exponentials, the quotient; exponentials wait in the scratch memory. */
static void make_softmax(random_kernel *r, int64_t rows, int64_t columns, hd_dtype dtype, int lanes) {
    begin(r, 2, 1, rows, columns);
    hd_kernel *k = &r->k;
    const int x = hd_kernel_load(k, contiguous(r, dtype, false, 3), -1);
    const int e = hd_kernel_word(k, HD_WORD_EXP,
                                 hd_kernel_word(k, HD_WORD_SUB, x, hd_kernel_reduce(k, x, HD_KERNEL_MAX), -1), -1, -1);
    const int y = hd_kernel_word(k, HD_WORD_DIV, e, hd_kernel_reduce(k, e, HD_KERNEL_SUM), -1);
    hd_kernel_store(k, contiguous(r, dtype, true, 3), y);
    finish(r, lanes);
}

/* The mean of squares of rows or columns, as layer normalisation has it. */
static void make_squares(random_kernel *r, int64_t rows, int64_t columns, int lanes) {
    begin(r, 2, 1, rows, columns);
    hd_kernel *k = &r->k;
    const int b = contiguous(r, HD_F32, false, 3);
    if (lanes == 0) { /* the kept axis is the contiguous one */
        k->buffers[b].stride[0] = HD_STRIDE_ONE;
        k->buffers[b].stride[1] = HD_STRIDE_ANY;
        r->geometry[hd_geometry_stride(k, b, 0)] = 1;
        r->geometry[hd_geometry_stride(k, b, 1)] = rows;
    }
    const int x = hd_kernel_load(k, b, -1),
              s = hd_kernel_reduce(k, hd_kernel_word(k, HD_WORD_MUL, x, x, -1), HD_KERNEL_SUM);
    const int scale = hd_kernel_number(k, HD_COMPUTE_F32, 0);
    hd_kernel_store(k, contiguous(r, HD_F32, true, 1),
                    hd_kernel_word(k, HD_WORD_SQRT, hd_kernel_word(k, HD_WORD_MUL, s, scale, -1), -1, -1));
    const float one_over = 1 / (float)columns;
    memcpy(&r->numbers[0], &one_over, sizeof one_over);
    finish(r, lanes);
}

static void fill_uniform(const random_kernel *r, char **buffers) {
    random_memory(r, buffers);
    for (int b = 0; b < r->k.buffer_count; ++b) {
        const hd_dtype dtype = (hd_dtype)r->k.buffers[b].dtype;
        for (int64_t i = 0; i < r->elements[b] && !r->k.buffers[b].written; ++i)
            hd_element_from_f64(buffers[b] + (size_t)i * hd_dtype_bytes[dtype], dtype,
                                (double)random_below(1000) / 250 - 2);
    }
}

static void functions_and_long_sums_are_close(void **state) {
    (void)state;
    enum { COUNT = 9 };
    static random_kernel r[COUNT];
    text t = {0};
    make_softmax(&r[0], 5, 1000, HD_F32, 1);
    make_softmax(&r[1], 1000, 5, HD_F32, 1);
    make_softmax(&r[2], 300, 40, HD_F32, 0);
    make_softmax(&r[3], 7, 333, HD_F64, 1);
    make_softmax(&r[4], 7, 333, HD_BF16, 1);
    make_squares(&r[5], 2, 1000003, 1);
    make_squares(&r[6], 70, 30011, 0);
    make_squares(&r[7], 600, 700, 0);
    make_squares(&r[8], 1, 0, 1);
    add_preamble(&t);
    for (int i = 0; i < COUNT; ++i) add_kernel(&t, &r[i].k, i);
    void *library = compile(&t);
    for (int i = 0; i < COUNT; ++i) {
        char *buffers[HD_KERNEL_BUFFERS];
        fill_uniform(&r[i], buffers);
        compare_runs(&r[i], find(library, i), buffers, i == 4 ? 0x1p-7 : i == 3 ? 1e-14 : 3e-6);
        release_buffers(&r[i], buffers);
        hd_kernel_release(&r[i].k);
    }
    dlclose(library);
    free(t.data);
}

/* Every cast between compute types, at the values where they differ. */
static void casts_saturate_and_wrap(void **state) {
    (void)state;
    static const double special[] = {0,       -0.0,   1,       -1,     0.5,  -0.9,  127,      128,       -129,
                                     255,     256,    32767.5, 65536,  1e9,  -1e9,  3e9,      0x1p31,    0x1p32,
                                     -0x1p31, 0x1p63, -0x1p63, 0x1p64, 1e30, -1e30, INFINITY, -INFINITY, NAN};
    enum { N = sizeof special / sizeof *special };
    static const hd_dtype dtypes[HD_COMPUTE_COUNT] = {HD_BOOL, HD_U8,  HD_U16, HD_U32, HD_U64, HD_I8,
                                                      HD_I16,  HD_I32, HD_I64, HD_F32, HD_F64};
    static random_kernel r[HD_COMPUTE_COUNT];
    text t = {0};
    add_preamble(&t);
    for (int from = 0; from < HD_COMPUTE_COUNT; ++from) {
        begin(&r[from], 1, 1, N, 0);
        hd_kernel *k = &r[from].k;
        const int x = hd_kernel_load(k, contiguous(&r[from], dtypes[from], false, 1), -1);
        for (int to = 0; to < HD_COMPUTE_COUNT; ++to)
            hd_kernel_store(k, contiguous(&r[from], dtypes[to], true, 1), hd_kernel_cast(k, x, to));
        const int truth = hd_kernel_cast(k, x, HD_CONDITION);
        hd_kernel_store(k, contiguous(&r[from], HD_F32, true, 1), hd_kernel_cast(k, truth, HD_COMPUTE_F32));
        finish(&r[from], 0);
        add_kernel(&t, k, from);
    }
    void *library = compile(&t);
    for (int from = 0; from < HD_COMPUTE_COUNT; ++from) {
        char *buffers[HD_KERNEL_BUFFERS];
        random_memory(&r[from], buffers);
        for (int i = 0; i < N; ++i)
            hd_element_from_f64(buffers[0] + (size_t)i * hd_dtype_bytes[dtypes[from]], dtypes[from], special[i]);
        compare_runs(&r[from], find(library, from), buffers, 0);
        release_buffers(&r[from], buffers);
        hd_kernel_release(&r[from].k);
    }
    dlclose(library);
    free(t.data);
}

static void make_maximum(random_kernel *r, int64_t rows, int64_t columns, int lanes) {
    begin(r, 2, 1, rows, columns);
    hd_kernel *k = &r->k;
    const int x = hd_kernel_load(k, contiguous(r, HD_F32, false, 3), -1);
    hd_kernel_store(k, contiguous(r, HD_F32, true, 1), hd_kernel_reduce(k, x, HD_KERNEL_MAX));
    hd_kernel_store(k, contiguous(r, HD_F32, true, 1), hd_kernel_reduce(k, x, HD_KERNEL_MIN));
    hd_kernel_store(k, contiguous(r, HD_F32, true, 1), hd_kernel_reduce(k, x, HD_KERNEL_SUM));
    finish(r, lanes);
}

/* A single NaN or infinity, wherever it stands in the strips, decides. */
static void nan_reaches_every_reduction(void **state) {
    (void)state;
    static random_kernel r[2];
    text t = {0};
    add_preamble(&t);
    for (int i = 0; i < 2; ++i) {
        make_maximum(&r[i], 40, 700, i);
        add_kernel(&t, &r[i].k, i);
    }
    void *library = compile(&t);
    for (int i = 0; i < 2; ++i) {
        char *buffers[HD_KERNEL_BUFFERS];
        random_memory(&r[i], buffers);
        for (int row = 0; row < 39; ++row)
            ((float *)buffers[0])[row * 700 + (row * 97) % 700] = row % 3 == 0   ? NAN
                                                                  : row % 3 == 1 ? INFINITY
                                                                                 : -INFINITY;
        compare_runs(&r[i], find(library, i), buffers, 0);
        assert_true(isnan(((float *)buffers[1])[0]) && isnan(((float *)buffers[2])[0]));
        release_buffers(&r[i], buffers);
        hd_kernel_release(&r[i].k);
    }
    dlclose(library);
    free(t.data);
}

/* An output is the memory of an input: softmax over itself, and a pair that is exchanged. */
static void outputs_may_be_inputs(void **state) {
    (void)state;
    static random_kernel r[2];
    text t = {0};
    make_softmax(&r[0], 6, 500, HD_F32, 1);
    begin(&r[1], 1, 1, 1000, 0);
    hd_kernel *k = &r[1].k;
    const int in0 = contiguous(&r[1], HD_F32, false, 1), in1 = contiguous(&r[1], HD_F32, false, 1),
              out0 = contiguous(&r[1], HD_F32, true, 1), out1 = contiguous(&r[1], HD_F32, true, 1);
    const int a = hd_kernel_load(k, in0, -1);
    hd_kernel_store(k, out1, a); /* the second input is read only after this step */
    hd_kernel_store(k, out0, hd_kernel_load(k, in1, -1));
    finish(&r[1], 0);
    add_preamble(&t);
    for (int i = 0; i < 2; ++i) add_kernel(&t, &r[i].k, i);
    void *library = compile(&t);
    char *buffers[HD_KERNEL_BUFFERS], *scratch = malloc(r[0].scratch_bytes);
    fill_uniform(&r[0], buffers);
    interpret_kernel(&r[0].k, buffers, r[0].geometry, r[0].numbers);
    char *same[2] = {buffers[0], buffers[0]};
    find(library, 0)(same, r[0].geometry, r[0].numbers, scratch);
    for (int i = 0; i < 3000; ++i) assert_true(fabsf(((float *)buffers[0])[i] - ((float *)buffers[1])[i]) < 1e-8f);
    release_buffers(&r[0], buffers);
    float x[1000], y[1000];
    for (int i = 0; i < 1000; ++i) x[i] = (float)i, y[i] = (float)-i;
    char *exchanged[4] = {(char *)x, (char *)y, (char *)x, (char *)y};
    find(library, 1)(exchanged, r[1].geometry, r[1].numbers, scratch);
    for (int i = 0; i < 1000; ++i) assert_true(x[i] == (float)-i && y[i] == (float)i);
    free(scratch);
    for (int i = 0; i < 2; ++i) hd_kernel_release(&r[i].k);
    dlclose(library);
    free(t.data);
}

/* ---- the text ---------------------------------------------------------------------------------------------------- */
static void the_text_is_fit_to_read(void **state) {
    (void)state;
    static random_kernel r;
    char out[4096];
    begin(&r, 2, 2, 3, 4);
    hd_kernel *k = &r.k;
    const int x = hd_kernel_load(k, contiguous(&r, HD_F32, false, 3), -1),
              y = hd_kernel_load(k, contiguous(&r, HD_F32, false, 2), -1);
    const int sum = hd_kernel_word(k, HD_WORD_ADD, x, y, -1);
    hd_kernel_store(k, contiguous(&r, HD_F32, true, 3),
                    hd_kernel_word(k, HD_WORD_MAX, sum, hd_kernel_constant(k, HD_COMPUTE_F32, 0), -1));
    finish(&r, 1);
    const size_t length = hd_render_kernel_function(k, "kernel", out, sizeof out);
    assert_int_equal(length, strlen(out));
    assert_string_equal(
        out, "void kernel(char *const *buffers, const int64_t *geometry, const uint64_t *numbers, char *scratch) {\n"
             "    const int64_t n0 = geometry[0];\n"
             "    const int64_t n1 = geometry[1];\n"
             "    if (n0 == 0) return;\n"
             "    if (n1 == 0) return;\n"
             "    const c_f32 *const in0 = (const c_f32 *)buffers[0];\n"
             "    const int64_t s0_0 = geometry[4];\n"
             "    const c_f32 *const in1 = (const c_f32 *)buffers[1];\n"
             "    c_f32 *const out2 = (c_f32 *)buffers[2];\n"
             "    const int64_t s2_0 = geometry[8];\n"
             "    for (int64_t i0 = 0; i0 < n0; ++i0) {\n"
             "        #pragma omp simd\n"
             "        for (int64_t i1 = 0; i1 < n1; ++i1) {\n"
             "            const c_f32 v0 = in0[i0 * s0_0 + i1];\n"
             "            const c_f32 v1 = in1[i1];\n"
             "            const c_f32 v2 = w_add_f32(v0, v1);\n"
             "            const c_f32 v4 = w_max_f32(v2, 0.0f);\n"
             "            out2[i0 * s2_0 + i1] = v4;\n"
             "        }\n"
             "    }\n"
             "}\n");
    char little[10];
    assert_int_equal(hd_render_kernel_function(k, "kernel", little, sizeof little), length);
    assert_string_equal(little, "void kern");
    const size_t whole = hd_render_kernel_c(k, "kernel", NULL, 0);
    assert_int_equal(hd_render_kernel_c(k, "kernel", little, sizeof little), whole);
    hd_kernel_release(k);
}

static void survives_failing_allocations(void **state) {
    (void)state;
    static random_kernel r;
    make_softmax(&r, 3, 4, HD_BF16, 1);
    for (int n = 0;; ++n) {
        hd_memory_fail_after(n);
        const size_t length = hd_render_kernel_c(&r.k, "kernel", NULL, 0);
        const bool reached = hd_memory_attempts() > n;
        hd_memory_fail_after(-1);
        if (!reached) {
            assert_true(length > 0);
            break;
        }
        assert_int_equal(length, 0);
        assert_error(HD_ERROR_MEMORY, "no memory");
    }
    hd_kernel_release(&r.k);
}

RUN(test(random_kernels_equal_the_interpreter), test(functions_and_long_sums_are_close), test(casts_saturate_and_wrap),
    test(nan_reaches_every_reduction), test(outputs_may_be_inputs), test(the_text_is_fit_to_read),
    test(survives_failing_allocations))
