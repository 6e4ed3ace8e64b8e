/* Kernels compiled through LLVM against their interpretation, between guard pages. */
#if HD_HAS_LLVM
#include "compiler/finish.h"
#include "compiler/guarded.h"

#include <pthread.h>
#include <sys/wait.h>

#include "codegen/code.h"
#include "compiler/random_kernels.h"
#include "codegen/server.h"
#include "core/memory.h"
#include "ops/row_ir.h"

/* ---- compiling and running --------------------------------------------------------------------------------------- */
static hd_code compile(const hd_kernel *k, const char *what) {
    void *object = NULL;
    size_t bytes = 0;
    hd_code code = {.run = NULL};
    if (hd_kernel_verify(k) != HD_OK) fail_msg("%s: %s", what, hd_error_message());
    if (hd_llvm_object(k, "kernel", &object, &bytes) != HD_OK) fail_msg("%s: %s", what, hd_error_message());
    if (hd_object_load(object, bytes, "kernel", &code) != HD_OK) fail_msg("%s: %s", what, hd_error_message());
    hd_array_release(object);
    return code;
}

static void check_on(kernel_case *c, const hd_code *code, const char *what) {
    guarded_compare(c, code->run, what, true);
    guarded_compare(c, code->run, what, false);
}

static void check(kernel_case *c, const char *what) {
    hd_code code = compile(&c->k, what);
    check_on(c, &code, what);
    hd_object_unload(&code);
}

static const uint8_t row[1] = {HD_STRIDE_ONE};
static int in(kernel_case *c, hd_dtype dtype, const uint8_t *strides) {
    return hd_kernel_load(&c->k, hd_kernel_add_buffer(&c->k, dtype, false, strides), -1);
}
static void out(kernel_case *c, hd_dtype dtype, const uint8_t *strides, int v) {
    hd_kernel_store(&c->k, hd_kernel_add_buffer(&c->k, dtype, true, strides), v);
}
static void finish(kernel_case *c, int lanes) {
    assert_int_equal(kernel_finish(&c->k, lanes, hd_code_vector_bytes()), HD_OK);
}

static const hd_dtype dtype_of[HD_COMPUTE_COUNT] = {HD_BOOL, HD_U8,  HD_U16, HD_U32, HD_U64, HD_I8,
                                                    HD_I16,  HD_I32, HD_I64, HD_F32, HD_F64};
static const hd_dtype all_dtypes[] = {HD_BOOL, HD_U8,  HD_U16,    HD_U32,    HD_U64,  HD_I8,  HD_I16, HD_I32,
                                      HD_I64,  HD_F32, HD_F8E4M3, HD_F8E5M2, HD_BF16, HD_F16, HD_F64};
enum { DTYPES = sizeof all_dtypes / sizeof *all_dtypes };

/* ---- elementwise ------------------------------------------------------------------------------------------------- */
static void tails_of_every_length(void **state) {
    (void)state;
    kernel_case c = {.ulp = 4};
    hd_kernel_init(&c.k, 1, 1);
    const int x = in(&c, HD_F32, row), y = in(&c, HD_F32, row);
    const int z = hd_kernel_word(&c.k, HD_WORD_MUL, hd_kernel_word(&c.k, HD_WORD_EXP, x, -1, -1), y, -1);
    out(&c, HD_F32, row, z);
    finish(&c, 0);
    hd_code code = compile(&c.k, "chain");
    for (c.size[0] = 0; c.size[0] <= 140; ++c.size[0]) check_on(&c, &code, "chain");
    hd_object_unload(&code);
    hd_kernel_release(&c.k);
}

static bool word_takes(int word, int type) {
    const bool is_float = type >= HD_COMPUTE_F32;
    if (hd_words[word].domain == HD_DOMAIN_COND) return false;
    if (hd_words[word].domain == HD_DOMAIN_FLOAT) return is_float;
    if (hd_words[word].domain == HD_DOMAIN_INT && is_float) return false;
    if (type == HD_COMPUTE_B8)
        return word == HD_WORD_LT || word == HD_WORD_LE || word == HD_WORD_EQ || word == HD_WORD_SELECT ||
               word == HD_WORD_MAX || word == HD_WORD_MIN || (word >= HD_WORD_AND && word <= HD_WORD_POPCOUNT);
    return true;
}

/* What a word must be given to mean something. */
static int proper(hd_kernel *k, int word, int type, int a) {
    const double most = word != HD_WORD_SCALE    ? 20
                        : type == HD_COMPUTE_F32 ? 252
                                                 : 2044; /* subnormal, 0 and infinite results */
    const int low = hd_kernel_constant(k, (hd_compute)type, -most),
              high = hd_kernel_constant(k, (hd_compute)type, most);
    if (word == HD_WORD_NEAREST) /* eighths, whose products are exact: halves among them */
        return hd_kernel_word(k, HD_WORD_MUL, hd_kernel_constant(k, (hd_compute)type, 0.125),
                              hd_kernel_word(k, HD_WORD_RINT, hd_kernel_word(k, HD_WORD_CUT, a, low, high), -1, -1),
                              -1);
    if (word == HD_WORD_EXP2I || word == HD_WORD_SCALE)
        return hd_kernel_word(k, HD_WORD_RINT, hd_kernel_word(k, HD_WORD_CUT, a, low, high), -1, -1);
    if (word == HD_WORD_EXPONENT || word == HD_WORD_MANTISSA)
        return hd_kernel_word(k, HD_WORD_MAX, hd_kernel_constant(k, (hd_compute)type, 1e-20),
                              hd_kernel_word(k, HD_WORD_MIN, hd_kernel_word(k, HD_WORD_ABS, a, -1, -1), high, -1), -1);
    return a;
}

static void check_word(int word, int type) {
    kernel_case c = {.ulp = hd_words[word].is_function ? 6 : word == HD_WORD_MULADD ? 1 : 0};
    if (word == HD_WORD_SCALE) c.scale = type == HD_COMPUTE_F32 ? 270 : 2100;
    hd_kernel_init(&c.k, 1, 1);
    c.sums = word == HD_WORD_MULADD || word == HD_WORD_LGAMMA || word == HD_WORD_DIGAMMA ||
             word == HD_WORD_TRIGAMMA; /* near zeros absolute */
    c.size[0] = 203;
    int o[3], typed = word == HD_WORD_SELECT ? 1 : 0;
    for (int i = 0; i < 3; ++i) o[i] = proper(&c.k, word, type, in(&c, dtype_of[type], row));
    if (typed) o[0] = hd_kernel_word(&c.k, HD_WORD_LT, o[0], o[1], -1);
    int v = hd_kernel_word(&c.k, (hd_word)word, o[0], o[1], o[2]);
    if (hd_words[word].gives_condition) v = hd_kernel_cast(&c.k, v, HD_COMPUTE_B8);
    out(&c, hd_words[word].gives_condition ? HD_BOOL : dtype_of[type], row, v);
    finish(&c, 0);
    check(&c, hd_words[word].name);
    hd_kernel_release(&c.k);
}

static void every_word_in_every_type(void **state) {
    (void)state;
    for (int word = 0; word < HD_WORD_INPUT; ++word)
        for (int type = 0; type < HD_COMPUTE_COUNT; ++type)
            if (word_takes(word, type) && sampled((uint64_t)(word + type), 2)) check_word(word, type);
}

static void conditions(void **state) {
    (void)state;
    kernel_case c = {.ulp = 0};
    hd_kernel_init(&c.k, 1, 1);
    c.size[0] = 99;
    const int a = in(&c, HD_F32, row), b = in(&c, HD_F64, row),
              p = hd_kernel_cast(&c.k, in(&c, HD_BOOL, row), HD_CONDITION);
    const int less = hd_kernel_word(&c.k, HD_WORD_LT, a, hd_kernel_constant(&c.k, HD_COMPUTE_F32, 0.5), -1),
              more = hd_kernel_word(&c.k, HD_WORD_LE, hd_kernel_constant(&c.k, HD_COMPUTE_F64, -1), b, -1);
    const int both = hd_kernel_word(&c.k, HD_WORD_BOTH, less, more, -1),
              either = hd_kernel_word(&c.k, HD_WORD_EITHER, both, p, -1),
              unless = hd_kernel_word(&c.k, HD_WORD_UNLESS, either, -1, -1);
    out(&c, HD_BOOL, row, hd_kernel_cast(&c.k, unless, HD_COMPUTE_B8));
    out(&c, HD_F64, row, hd_kernel_word(&c.k, HD_WORD_SELECT, either, b, hd_kernel_cast(&c.k, a, HD_COMPUTE_F64)));
    out(&c, HD_I64, row, hd_kernel_cast(&c.k, both, HD_COMPUTE_I64));
    out(&c, HD_F32, row, hd_kernel_cast(&c.k, p, HD_COMPUTE_F32));
    finish(&c, 0);
    check(&c, "conditions");
    hd_kernel_release(&c.k);
}

/* Between all dtypes; the values reach beyond the range of most integers. */
static void casts(void **state) {
    (void)state;
    static const double scales[] = {4, 300, 1e5, 3e9, 1e19};
    for (int from = 0; from < DTYPES; ++from)
        for (int to = 0; to < DTYPES; ++to) {
            if (!sampled((uint64_t)(from + to), 2)) continue;
            kernel_case c = {.ulp = 0};
            hd_kernel_init(&c.k, 1, 1);
            c.size[0] = 301;
            const int v = hd_kernel_cast(&c.k, in(&c, all_dtypes[from], row), hd_dtype_compute[all_dtypes[to]]);
            out(&c, all_dtypes[to], row, v);
            finish(&c, 0);
            hd_code code = compile(&c.k, "cast");
            for (int i = 0; i < 5; ++i) {
                c.scale = scales[i];
                check_on(&c, &code, "cast");
            }
            hd_object_unload(&code);
            hd_kernel_release(&c.k);
        }
}

static void rounding_to_small_floats(void **state) {
    (void)state;
    static const hd_dtype small[] = {HD_F8E4M3, HD_F8E5M2, HD_BF16, HD_F16};
    static const double scales[] = {1e-9, 1e-6, 1e-3, 1, 400, 60000, 1e38};
    for (int i = 0; i < 4; ++i) {
        kernel_case c = {.ulp = 0};
        hd_kernel_init(&c.k, 1, 1);
        c.size[0] = 4001;
        out(&c, HD_F32, row, hd_kernel_round(&c.k, in(&c, HD_F32, row), small[i]));
        finish(&c, 0);
        hd_code code = compile(&c.k, "round");
        for (int j = 0; j < 7; ++j) {
            c.scale = scales[j];
            check_on(&c, &code, "round");
        }
        hd_object_unload(&code);
        hd_kernel_release(&c.k);
    }
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */
static void broadcasts_and_strides(void **state) {
    (void)state;
    static const uint8_t full[3] = {HD_STRIDE_ANY, HD_STRIDE_ANY, HD_STRIDE_ONE}, last[3] = {0, 0, HD_STRIDE_ONE},
                         first[3] = {HD_STRIDE_ANY, 0, 0}, turned[3] = {HD_STRIDE_ONE, HD_STRIDE_ANY, HD_STRIDE_ANY},
                         none[3] = {0, 0, 0}, middle[3] = {0, HD_STRIDE_ANY, HD_STRIDE_ANY};
    static const int64_t sizes[][3] = {{2, 3, 70}, {1, 1, 1}, {4, 1, 129}, {3, 5, 31},
                                       {0, 3, 4},  {3, 0, 4}, {2, 2, 0},   {5, 4, 64}};
    kernel_case c = {.ulp = 8, .number = {2.5}};
    hd_kernel_init(&c.k, 3, 3);
    hd_kernel *k = &c.k;
    const int a = in(&c, HD_F32, full), b = in(&c, HD_F32, last), d = in(&c, HD_F32, first), e = in(&c, HD_F32, turned),
              f = in(&c, HD_F32, none), g = in(&c, HD_BF16, middle), n = hd_kernel_number(k, HD_COMPUTE_F32, 0);
    int v = hd_kernel_word(k, HD_WORD_MIN, hd_kernel_word(k, HD_WORD_MUL, a, b, -1),
                           hd_kernel_word(k, HD_WORD_SIGMOID, d, -1, -1), -1);
    v = hd_kernel_word(k, HD_WORD_MAX, v, hd_kernel_word(k, HD_WORD_MUL, e, f, -1), -1);
    v = hd_kernel_word(k, HD_WORD_MUL, v, hd_kernel_word(k, HD_WORD_MUL, g, n, -1), -1);
    out(&c, HD_F32, full, v);
    out(&c, HD_F16, turned, hd_kernel_word(k, HD_WORD_MIN, a, e, -1));
    finish(&c, 2);
    hd_code code = compile(k, "broadcasts");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        memcpy(c.size, sizes[i], sizeof sizes[i]);
        for (int buffer = 0; buffer < k->buffer_count; ++buffer) {
            const bool is_turned = buffer == 3 || buffer == 7;
            c.stride[buffer][0] = is_turned ? 1 : c.size[1] * c.size[2] + 5;
            c.stride[buffer][1] = is_turned ? c.size[0] : c.size[2] + 1;
            c.stride[buffer][2] = is_turned ? c.size[0] * c.size[1] : buffer == 5 ? -2 : 1;
            if (buffer == 5) c.stride[buffer][1] = 2 * c.size[2] + 3;
        }
        check_on(&c, &code, "broadcasts");
    }
    hd_object_unload(&code);
    hd_kernel_release(&c.k);
}

static void positions(void **state) {
    (void)state;
    static const uint8_t both[2] = {HD_STRIDE_ANY, HD_STRIDE_ONE};
    kernel_case c = {.size = {3, 77}, .base = {100, 5000000000}};
    hd_kernel_init(&c.k, 2, 2);
    const int i = hd_kernel_index(&c.k, 0), j = hd_kernel_index(&c.k, 1);
    out(&c, HD_I64, both, hd_kernel_word(&c.k, HD_WORD_ADD, hd_kernel_word(&c.k, HD_WORD_MUL, i, j, -1), i, -1));
    out(&c, HD_F64, both, hd_kernel_cast(&c.k, j, HD_COMPUTE_F64));
    finish(&c, 1);
    c.stride[0][0] = c.stride[1][0] = 77;
    check(&c, "positions");
    hd_kernel_release(&c.k);
}

/* Rows of a table by index (along the lanes, and the same for all lanes), and elements by index. */
static void reading_at_places(void **state) {
    (void)state;
    static const uint8_t both[2] = {HD_STRIDE_ANY, HD_STRIDE_ONE}, rows[2] = {HD_STRIDE_ONE, 0},
                         columns[2] = {0, HD_STRIDE_ONE}, across[2] = {HD_STRIDE_ANY, 0};
    for (int kind = 0; kind < 3; ++kind) {
        kernel_case c = {.size = {5, 45}};
        hd_kernel_init(&c.k, 2, 2);
        const int table = hd_kernel_add_buffer(&c.k, HD_F32, false,
                                               kind == 0   ? columns
                                               : kind == 1 ? (const uint8_t[2]){0, 0}
                                                           : across);
        const int index = in(&c, HD_I64, kind == 0 ? rows : columns);
        const int place =
            kind == 0 ? hd_kernel_word(&c.k, HD_WORD_MUL, index, hd_kernel_constant(&c.k, HD_COMPUTE_I64, 45), -1)
                      : index;
        out(&c, HD_F32, both, hd_kernel_load(&c.k, table, place));
        finish(&c, 1);
        c.least[1] = 0;
        c.most[1] = 9;
        c.least[0] = c.most[0] = kind == 0 ? 9 * 45 : 9; /* room */
        c.stride[0][0] = 3;
        c.stride[2][0] = 50;
        check(&c, "places");
        hd_kernel_release(&c.k);
    }
}

static void in_place(void **state) {
    (void)state;
    static const uint8_t strided[2] = {HD_STRIDE_ANY, HD_STRIDE_ANY};
    for (int kind = 0; kind < 2; ++kind)
        for (int64_t n = 1; n < 150; n += 37) {
            kernel_case c = {.size = {3, n}, .ulp = 4, .same_as = {0, 0, 1, 2}};
            const uint8_t *strides = kind == 0 ? (const uint8_t[2]){HD_STRIDE_ANY, HD_STRIDE_ONE} : strided;
            hd_kernel_init(&c.k, 2, 2);
            const int a = hd_kernel_add_buffer(&c.k, HD_F32, false, strides),
                      b = hd_kernel_add_buffer(&c.k, HD_F32, false, strides);
            const int x = hd_kernel_load(&c.k, a, -1);
            out(&c, HD_F32, strides, hd_kernel_word(&c.k, HD_WORD_TANH, x, -1, -1));
            const int y = hd_kernel_load(&c.k, b, -1); /* after a store that is written before it */
            out(&c, HD_F32, strides, hd_kernel_word(&c.k, HD_WORD_ADD, x, y, -1));
            finish(&c, 1);
            for (int buffer = 0; buffer < 4; ++buffer) {
                c.stride[buffer][0] = kind == 0 ? n : 1;
                c.stride[buffer][1] = kind == 0 ? 1 : 3;
            }
            check(&c, "in place");
            hd_kernel_release(&c.k);
        }
}

static void without_axes(void **state) {
    (void)state;
    kernel_case c = {.ulp = 4};
    hd_kernel_init(&c.k, 0, 0);
    out(&c, HD_F32, row, hd_kernel_word(&c.k, HD_WORD_EXP, in(&c, HD_F32, row), -1, -1));
    finish(&c, 0);
    check(&c, "a scalar");
    hd_kernel_release(&c.k);
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */
static const uint8_t matrix[2] = {HD_STRIDE_ANY, HD_STRIDE_ONE}, of_rows[2] = {HD_STRIDE_ONE, 0},
                     turned_matrix[2] = {HD_STRIDE_ONE, HD_STRIDE_ANY};

/* Rows of a matrix, in all types; memory runs along what goes (the lanes' axis), or along what stays. */
static void check_reduction(int type, hd_kernel_reduction how, bool along_rows) {
    static const int64_t sizes[][2] = {{3, 0},  {0, 5},    {1, 1},    {5, 63},   {7, 64},
                                       {4, 65}, {2, 4095}, {3, 4097}, {70, 130}, {65, 300}};
    kernel_case c = {.ulp = type >= HD_COMPUTE_F32 && how <= HD_KERNEL_PROD ? 100 : 0, .sums = true};
    c.scale = how == HD_KERNEL_PROD ? 1 : 4;
    hd_kernel_init(&c.k, 2, 1);
    const int x = in(&c, dtype_of[type], along_rows ? matrix : turned_matrix);
    out(&c, dtype_of[type], of_rows, hd_kernel_reduce(&c.k, x, how));
    finish(&c, along_rows ? 1 : 0);
    hd_code code = compile(&c.k, "reduction");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        memcpy(c.size, sizes[i], sizeof sizes[i]);
        c.stride[0][0] = c.size[1] + 3;
        c.stride[0][1] = c.size[0] + 1;
        check_on(&c, &code, "reduction");
    }
    hd_object_unload(&code);
    hd_kernel_release(&c.k);
}

static void reductions_of_rows_and_columns(void **state) {
    (void)state;
    for (int type = 0; type < HD_COMPUTE_COUNT; ++type)
        for (int how = type == HD_COMPUTE_B8 ? HD_KERNEL_MAX : HD_KERNEL_SUM; how <= (int)HD_KERNEL_MIN; ++how)
            for (int along = 0; along < 2; ++along) check_reduction(type, (hd_kernel_reduction)how, along);
}

/* NaN, infinities and -0 reach the result of a maximum. */
static void extremes_let_nan_through(void **state) {
    (void)state;
    for (int along = 0; along < 2; ++along) {
        kernel_case c = {.size = {90, 6}, .stride = {{along ? 6 : 1, along ? 1 : 90}}};
        hd_kernel_init(&c.k, 2, 1);
        const int x = in(&c, HD_F32, along ? matrix : turned_matrix);
        out(&c, HD_F32, of_rows, hd_kernel_reduce(&c.k, x, HD_KERNEL_MAX));
        out(&c, HD_F32, of_rows, hd_kernel_reduce(&c.k, x, HD_KERNEL_MIN));
        finish(&c, along);
        c.ulp = 1; /* of -0 and 0 either is the larger */
        check(&c, "extremes");
        hd_kernel_release(&c.k);
    }
}

static void f32_sums_are_exact_enough(void **state) {
    (void)state;
    enum { N = 1 << 22 };
    kernel_case c = {.size = {N}};
    hd_kernel_init(&c.k, 1, 0);
    const uint8_t none[1] = {0};
    out(&c, HD_F32, none, hd_kernel_reduce(&c.k, in(&c, HD_F32, row), HD_KERNEL_SUM));
    finish(&c, 0);
    hd_code code = compile(&c.k, "sum");
    float *x = malloc(N * sizeof *x), sum = 0;
    double exact = 0;
    for (int i = 0; i < N; ++i) exact += (double)(x[i] = 0.1f + (float)(i % 7) * 1e-3f);
    char *buffers[2] = {(char *)x, (char *)&sum};
    const int64_t geometry[HD_GEOMETRY_MOST] = {N, 0, 1, 0, 0};
    code.run(buffers, geometry, NULL, NULL);
    assert_true(fabs((double)sum - exact) <= 1e-6 * exact);
    free(x);
    hd_object_unload(&code);
    hd_kernel_release(&c.k);
}

static int softmax(kernel_case *c, int x) {
    hd_kernel *k = &c->k;
    const int most = hd_kernel_reduce(k, x, HD_KERNEL_MAX), less = hd_kernel_word(k, HD_WORD_SUB, x, most, -1),
              e = hd_kernel_word(k, HD_WORD_EXP, less, -1, -1), sum = hd_kernel_reduce(k, e, HD_KERNEL_SUM);
    return hd_kernel_word(k, HD_WORD_DIV, e, sum, -1);
}

static int layer_norm(kernel_case *c, int x, int weight, int bias) {
    hd_kernel *k = &c->k;
    const int share = hd_kernel_number(k, HD_COMPUTE_F32, 0), tiny = hd_kernel_constant(k, HD_COMPUTE_F32, 1e-5);
    const int mean = hd_kernel_word(k, HD_WORD_MUL, hd_kernel_reduce(k, x, HD_KERNEL_SUM), share, -1);
    const int away = hd_kernel_word(k, HD_WORD_SUB, x, mean, -1),
              square = hd_kernel_word(k, HD_WORD_MUL, away, away, -1);
    const int variance = hd_kernel_word(k, HD_WORD_MUL, hd_kernel_reduce(k, square, HD_KERNEL_SUM), share, -1);
    const int root = hd_kernel_word(k, HD_WORD_SQRT, hd_kernel_word(k, HD_WORD_ADD, variance, tiny, -1), -1, -1);
    return hd_kernel_word(k, HD_WORD_ADD,
                          hd_kernel_word(k, HD_WORD_MUL, hd_kernel_word(k, HD_WORD_DIV, away, root, -1), weight, -1),
                          bias, -1);
}

/* Stages and slots; in place, too. */
static void kernels_of_several_stages(void **state) {
    (void)state;
    static const uint8_t last[2] = {0, HD_STRIDE_ONE};
    for (int kind = 0; kind < 8; ++kind) {
        const bool along = kind & 1, norm = kind & 2, same = kind & 4;
        const uint8_t *strides = along ? matrix : turned_matrix;
        kernel_case c = {.ulp = 16, .sums = true};
        hd_kernel_init(&c.k, 2, 1);
        const int x = in(&c, HD_F32, strides);
        if (norm)
            out(&c, HD_F32, strides, layer_norm(&c, x, in(&c, HD_F32, last), in(&c, HD_F32, last)));
        else
            out(&c, HD_F32, strides, softmax(&c, x));
        const int written = norm ? 3 : 1;
        if (same) c.same_as[written] = 1;
        finish(&c, along);
        hd_code code = compile(&c.k, norm ? "layer norm" : "softmax");
        for (int64_t n = 1; n < 200; n += 31) {
            c.size[0] = along ? 3 : n;
            c.size[1] = along ? n : 3;
            c.number[0] = 1.0 / (double)c.size[1];
            c.stride[0][0] = c.stride[written][0] = c.size[1] + (along ? 2 : 0);
            c.stride[0][1] = c.stride[written][1] = c.size[0] + (along ? 0 : 2);
            check_on(&c, &code, norm ? "layer norm" : "softmax");
        }
        hd_object_unload(&code);
        hd_kernel_release(&c.k);
    }
}

/* Any kernel, with whole numbers for values: every order of summation gives the same. */
static void random_kernels(void **state) {
    (void)state;
    static random_kernel r;
    const int count = 400 / (int)sample_step(2);
    for (int i = 0; i < count; ++i) {
        char what[32], *buffers[2][HD_KERNEL_BUFFERS], *scratch;
        snprintf(what, sizeof what, "random kernel %d", i);
        random_make(&r, 16 << i % 3); /* whatever the machine has: wider ones are taken apart */
        hd_code code = compile(&r.k, what);
        random_memory(&r, buffers[0]);
        for (int b = 0; b < r.k.buffer_count; ++b) {
            const size_t bytes = (size_t)r.elements[b] * hd_dtype_bytes[r.k.buffers[b].dtype] + 64;
            memcpy(buffers[1][b] = malloc(bytes), buffers[0][b], bytes);
        }
        scratch = malloc(r.scratch_bytes);
        code.run(buffers[0], r.geometry, r.numbers, scratch);
        interpret_kernel(&r.k, buffers[1], r.geometry, r.numbers);
        for (int b = 0; b < r.k.buffer_count; ++b) {
            const size_t bytes = hd_dtype_bytes[r.k.buffers[b].dtype];
            for (size_t j = 0; j < (size_t)r.elements[b] + 64 / bytes; ++j)
                if (memcmp(buffers[0][b] + j * bytes, buffers[1][b] + j * bytes, bytes) != 0) {
                    char text[8192];
                    hd_kernel_print(&r.k, text, sizeof text);
                    fail_msg("%s: buffer %d element %zu is %g, expected %g\n%s", what, b, j,
                             hd_element_to_f64(buffers[0][b] + j * bytes, (hd_dtype)r.k.buffers[b].dtype),
                             hd_element_to_f64(buffers[1][b] + j * bytes, (hd_dtype)r.k.buffers[b].dtype), text);
                }
            free(buffers[0][b]);
            free(buffers[1][b]);
        }
        free(scratch);
        hd_object_unload(&code);
        hd_kernel_release(&r.k);
    }
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */
static hd_kernel numbered_kernel(int number) {
    kernel_case c = {.ulp = 0};
    hd_kernel_init(&c.k, 1, 1);
    int v = in(&c, HD_F32, row);
    for (int i = 0; i <= number % 5; ++i) v = hd_kernel_word(&c.k, HD_WORD_TANH, v, -1, -1);
    out(&c, HD_F32, row, hd_kernel_word(&c.k, HD_WORD_ADD, v, hd_kernel_constant(&c.k, HD_COMPUTE_F32, number), -1));
    finish(&c, 0);
    return c.k;
}

/* In a process of its own, as the library is looked for once. */
static void without_the_library_it_says_what_to_do(void **state) {
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        setenv("HODU_LLVM", "/nowhere/libLLVM.so", 1);
        hd_kernel k = numbered_kernel(1);
        void *object = NULL;
        size_t bytes = 0;
        const bool said = hd_llvm_object(&k, "kernel", &object, &bytes) != HD_OK &&
                          strstr(hd_error_message(), "/nowhere/libLLVM.so") != NULL &&
                          strstr(hd_error_message(), "libllvm19") != NULL &&
                          strstr(hd_error_message(), "HODU_RENDERER=c") != NULL;
        _exit(said ? 0 : 1);
    }
    int status = 1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

static void *compile_many(void *failures) {
    for (int i = 0; i < 12; ++i) {
        hd_kernel k = numbered_kernel(i);
        hd_code code = compile(&k, "one of many");
        float x[50] = {0}, y[50] = {0};
        char *buffers[2] = {(char *)x, (char *)y};
        const int64_t geometry[5] = {50, 0, 1, 1, 0};
        code.run(buffers, geometry, NULL, NULL);
        for (int j = 0; j < 50; ++j) *(int *)failures += y[j] != (float)i;
        hd_object_unload(&code);
        hd_kernel_release(&k);
    }
    return NULL;
}

static void several_threads_compile_at_once(void **state) {
    (void)state;
    pthread_t threads[4];
    int failures[4] = {0};
    for (int i = 0; i < 4; ++i) assert_int_equal(pthread_create(&threads[i], NULL, compile_many, &failures[i]), 0);
    for (int i = 0; i < 4; ++i) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(failures[i], 0);
    }
}

/* In LLVM's process, or in this one. */
static hd_error object_of(const hd_kernel *k, bool here, void **object, size_t *bytes) {
    const hd_llvm_order order = {.name = "kernel", .most = hd_environment_isa(), .wants_ir = true};
    hd_llvm_made made;
    if (!here) return hd_llvm_object(k, "kernel", object, bytes);
    const hd_error status = hd_llvm_compile(&order, k, &made);
    *object = made.object;
    *bytes = made.object_bytes;
    made.object = NULL;
    hd_llvm_release(&made);
    return status;
}

static void survives_failing_allocations_in(bool here) {
    hd_kernel k = numbered_kernel(2);
    assert_non_null(hd_llvm_target());
    for (int n = 0;; ++n) {
        void *object = NULL;
        size_t bytes = 0;
        hd_code code = {.run = NULL};
        hd_memory_fail_after(n);
        hd_error status = object_of(&k, here, &object, &bytes);
        if (status == HD_OK) status = hd_object_load(object, bytes, "kernel", &code);
        const bool reached = hd_memory_attempts() > n;
        hd_memory_fail_after(-1);
        hd_array_release(object);
        hd_object_unload(&code);
        if (!reached) {
            assert_int_equal(status, HD_OK);
            break;
        }
        assert_int_equal(status, HD_ERROR_MEMORY);
        hd_error_clear();
    }
    hd_kernel_release(&k);
}

static void survives_failing_allocations(void **state) {
    (void)state;
    survives_failing_allocations_in(false);
    survives_failing_allocations_in(true);
}

RUN(test(without_the_library_it_says_what_to_do), test(tails_of_every_length), test(every_word_in_every_type),
    test(conditions), test(casts), test(rounding_to_small_floats), test(broadcasts_and_strides), test(positions),
    test(reading_at_places), test(in_place), test(without_axes), test(reductions_of_rows_and_columns),
    test(extremes_let_nan_through), test(f32_sums_are_exact_enough), test(kernels_of_several_stages),
    test(random_kernels), test(several_threads_compile_at_once), test(survives_failing_allocations))
#else
int main(void) { return 77; }
#endif
