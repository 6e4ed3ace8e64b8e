/* Every elementwise row and its derivatives, rendered to C from kernel IR and compiled, against the eager kernels and
 * against the C reading of the same rows. Needs a C compiler at run time: $CC or cc. */
#include "support.h"

#include <dlfcn.h>
#include <math.h>
#include <unistd.h>

#include "core/memory.h"
#include "device/cpu/kernels.h"
#include "ops/row_ir.h"

typedef void (*kernel)(void *out, const void *const in[], const void *numbers, int64_t n);

/* ---- text -------------------------------------------------------------------------------------------------------- */
typedef struct text {
    char *data;
    size_t length, capacity;
} text;

static char *room(text *t, size_t needed) {
    if (t->length + needed + 1 > t->capacity) {
        t->capacity = (t->length + needed + 1) * 2;
        t->data = realloc(t->data, t->capacity);
        assert_non_null(t->data);
    }
    return t->data + t->length;
}
#define ADD_TEXT(t, call, ...)                                                                                         \
    do {                                                                                                               \
        const size_t needed_ = call(__VA_ARGS__, NULL, 0);                                                             \
        call(__VA_ARGS__, room(t, needed_), needed_ + 1);                                                              \
        (t)->length += needed_;                                                                                        \
    } while (0)

static void render_row(text *t, hd_op_id id, hd_compute type, int derivative) {
    hd_ir ir;
    char name[128];
    const hd_error status =
        derivative < 0 ? hd_row_value_ir(id, type, &ir) : hd_row_derivative_ir(id, derivative, type, &ir);
    if (status != HD_OK) fail_msg("%s: %s", hd_ops[id].name, hd_error_message());
    snprintf(name, sizeof name, "row_%s_%d_%d", hd_ops[id].name, (int)type, derivative + 1);
    ADD_TEXT(t, hd_render_c, &ir, name);
    hd_ir_release(&ir);
}

static bool has_derivative(hd_op_id id, int k) {
    return !hd_rows[id].gives_bool && k < hd_rows[id].operands && !(hd_rows[id].chooses && k == 0);
}

static void *compile(const text *t) {
    char folder[] = "/tmp/hodu-render-XXXXXX", command[512], path[128];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/rows.c", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(t->data, 1, t->length, file), t->length);
    fclose(file);
    const char *cc = getenv("CC");
    snprintf(command, sizeof command,
             "%s -std=c11 -w -O1 -fno-math-errno -fno-trapping-math -shared -fPIC -o %s/rows.so %s -lm", cc ? cc : "cc",
             folder, path);
    if (system(command) != 0) fail_msg("the rendered text does not compile: %s", command);
    snprintf(path, sizeof path, "%s/rows.so", folder);
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL) fail_msg("%s", dlerror());
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    return library;
}

/* ---- data -------------------------------------------------------------------------------------------------------- */
enum { N = 1024 };
static uint64_t random_state = 1;
static uint64_t random_bits(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static const hd_dtype dtype_of[HD_COMPUTE_COUNT] = {HD_BOOL, HD_U8,  HD_U16, HD_U32, HD_U64, HD_I8,
                                                    HD_I16,  HD_I32, HD_I64, HD_F32, HD_F64};

static void fill(void *values, hd_compute type) {
    static const double special[] = {0, -0.0, 1, -1, 0.5, 2, 3, -3, 6, 1e-30, 1e30, INFINITY, -INFINITY, NAN};
    const size_t bytes = hd_dtype_size(dtype_of[type]);
    for (int i = 0; i < N; ++i) {
        double v = (double)(int64_t)(random_bits() >> 11) * 0x1p-50 - 4;
        if (i % 8 == 0) v = special[random_bits() % 14];
        if (type == HD_COMPUTE_B8) v = (double)(random_bits() & 1);
        hd_element_from_f64((char *)values + (size_t)i * bytes, dtype_of[type], v);
    }
}

/* Two results may differ by rounding (one is compiled with fused multiply-adds, one without). */
static void compare(const char *what, hd_compute type, const void *got, const void *expected, double ulp,
                    const void *scale) {
    const size_t bytes = hd_dtype_size(dtype_of[type]);
    const double unit = type == HD_COMPUTE_F64 ? 0x1p-52 : type == HD_COMPUTE_F32 ? 0x1p-23 : 0;
    for (int i = 0; i < N; ++i) {
        const double a = hd_element_to_f64((const char *)got + (size_t)i * bytes, dtype_of[type]),
                     b = hd_element_to_f64((const char *)expected + (size_t)i * bytes, dtype_of[type]);
        if (a == b || (a != a && b != b)) continue;
        double size = fmax(fabs(b), 1e-300); /* rows whose terms cancel are measured at their operand */
        if (scale != NULL)
            size = fmax(size, fabs(hd_element_to_f64((const char *)scale + (size_t)i * bytes, dtype_of[type])));
        if (!(fabs(a - b) <= ulp * unit * size))
            fail_msg("%s in type %d, element %d: rendered %.17g, expected %.17g", what, (int)type, i, a, b);
    }
}

/* ---- the C reading of the derivatives ---------------------------------------------------------------------------- */
#include "kernel/words_c.h"
#define T           f64
#define W_PRECISION 64
#include "kernel/math.def"
#define DERIVATIVE(label, numbers, value)                                                                              \
    static void label(double *out, const double *const in[], const double *p_) {                                       \
        (void)p_;                                                                                                      \
        for (int i = 0; i < N; ++i) {                                                                                  \
            const double x = in[0][i], a = in[0][i], b = in[1][i], c = in[2][i], g = in[3][i], y = in[4][i];           \
            (void)x, (void)a, (void)b, (void)c, (void)g, (void)y;                                                      \
            numbers out[i] = (value);                                                                                  \
        }                                                                                                              \
    }
#define NUMBER(n, k)                                                                                                   \
    const double n = p_[k];                                                                                            \
    (void)n;
#define UNARY(name, t, u, d, r, value, dx)          DERIVATIVE(d0_##name, , dx)
#define UNARY1(name, t, u, d, r, n1, value, dx)     DERIVATIVE(d0_##name, NUMBER(n1, 0), dx)
#define UNARY2(name, t, u, d, r, n1, n2, value, dx) DERIVATIVE(d0_##name, NUMBER(n1, 0) NUMBER(n2, 1), dx)
#define UNARY3(name, t, u, d, r, n1, n2, n3, value, dx)                                                                \
    DERIVATIVE(d0_##name, NUMBER(n1, 0) NUMBER(n2, 1) NUMBER(n3, 2), dx)
#define BINARY(name, t, u, d, r, value, da, db)           DERIVATIVE(d0_##name, , da) DERIVATIVE(d1_##name, , db)
#define SPLIT(name, u, d, r, guard, ints, floats, da, db) DERIVATIVE(d0_##name, , da) DERIVATIVE(d1_##name, , db)
#define TERNARY(name, t, u, d, r, value, da, db, dc)                                                                   \
    DERIVATIVE(d0_##name, , da) DERIVATIVE(d1_##name, , db) DERIVATIVE(d2_##name, , dc)
#define TERNARY1(name, t, u, d, r, n1, value, da, db, dc)                                                              \
    DERIVATIVE(d0_##name, NUMBER(n1, 0), da)                                                                           \
    DERIVATIVE(d1_##name, NUMBER(n1, 0), db) DERIVATIVE(d2_##name, NUMBER(n1, 0), dc)
#include "ops/elementwise.def"

typedef void (*reading)(double *, const double *const[], const double *);
static const reading readings[HD_OP_ELEMENTWISE_COUNT][3] = {
#define UNARY(name, ...)    [HD_OP_##name] = {d0_##name},
#define UNARY1(name, ...)   [HD_OP_##name] = {d0_##name},
#define UNARY2(name, ...)   [HD_OP_##name] = {d0_##name},
#define UNARY3(name, ...)   [HD_OP_##name] = {d0_##name},
#define BINARY(name, ...)   [HD_OP_##name] = {d0_##name, d1_##name},
#define SPLIT(name, ...)    [HD_OP_##name] = {d0_##name, d1_##name},
#define TERNARY(name, ...)  [HD_OP_##name] = {d0_##name, d1_##name, d2_##name},
#define TERNARY1(name, ...) [HD_OP_##name] = {d0_##name, d1_##name, d2_##name},
#include "ops/elementwise.def"
};
#undef T

/* ---- tests ------------------------------------------------------------------------------------------------------- */
static text rendered;
static void *library;

static kernel find(hd_op_id id, hd_compute type, int derivative) {
    char name[128];
    snprintf(name, sizeof name, "row_%s_%d_%d", hd_ops[id].name, (int)type, derivative + 1);
    union {
        void *object;
        kernel function;
    } symbol = {.object = dlsym(library, name)};
    if (symbol.object == NULL) fail_msg("%s is missing", name);
    return symbol.function;
}

static int render_all(void **state) {
    (void)state;
    (void)hd_cpu_isa(); /* fills the kernel tables */
    const size_t preamble = hd_render_preamble(NULL, 0);
    hd_render_preamble(room(&rendered, preamble), preamble + 1);
    rendered.length += preamble;
    ADD_TEXT(&rendered, hd_render_programs, HD_COMPUTE_F32);
    ADD_TEXT(&rendered, hd_render_programs, HD_COMPUTE_F64);
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
        for (int type = 0; type < HD_COMPUTE_COUNT; ++type)
            if (hd_row_takes((hd_op_id)id, (hd_compute)type)) render_row(&rendered, (hd_op_id)id, (hd_compute)type, -1);
        for (int k = 0; k < 3; ++k)
            if (has_derivative((hd_op_id)id, k) && hd_row_takes((hd_op_id)id, HD_COMPUTE_F64))
                render_row(&rendered, (hd_op_id)id, HD_COMPUTE_F64, k);
    }
    library = compile(&rendered);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    dlclose(library);
    free(rendered.data);
    return 0;
}

static void rendered_values_equal_eager_kernels(void **state) {
    (void)state;
    static _Alignas(64) char in[3][N * 8], got[N * 8], expected[N * 8];
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        for (int t = 0; t < HD_COMPUTE_COUNT; ++t) {
            const hd_compute type = (hd_compute)t;
            if (!hd_row_takes((hd_op_id)id, type)) continue;
            for (int k = 0; k < 3; ++k) fill(in[k], hd_rows[id].chooses && k == 0 ? HD_COMPUTE_B8 : type);
            double numbers[3] = {0}; /* of the type */
            for (int k = 0; k < hd_rows[id].numbers; ++k)
                hd_element_from_f64((char *)numbers + (size_t)k * hd_dtype_size(dtype_of[type]), dtype_of[type],
                                    k == 0 ? 1 : 3);
            const void *const operands[3] = {in[0], in[1], in[2]};
            find((hd_op_id)id, type, -1)(got, operands, numbers, N);
            hd_kernels()->elementwise[type][id](expected, operands, numbers, N);
            compare(hd_ops[id].name, hd_rows[id].gives_bool ? HD_COMPUTE_B8 : type, got, expected, 64,
                    hd_rows[id].ulp < 0 ? in[0] : NULL);
        }
}

static void rendered_derivatives_equal_the_c_reading(void **state) {
    (void)state;
    static double in[5][N], got[N], expected[N];
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        for (int k = 0; k < 3; ++k) {
            if (readings[id][k] == NULL || !hd_row_takes((hd_op_id)id, HD_COMPUTE_F64)) continue;
            const double numbers[3] = {1, 3, 2};
            for (int i = 0; i < 5; ++i) fill(in[i], HD_COMPUTE_F64);
            const void *const operands[5] = {in[0], in[1], in[2], in[3], in[4]};
            const double *const typed[5] = {in[0], in[1], in[2], in[3], in[4]};
            find((hd_op_id)id, HD_COMPUTE_F64, k)(got, operands, numbers, N);
            readings[id][k](expected, typed, numbers);
            compare(hd_ops[id].name, HD_COMPUTE_F64, got, expected, 4096, NULL);
        }
}

static void expanded_ir_has_no_functions_and_prints_the_same(void **state) {
    (void)state;
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
        if (!hd_row_takes((hd_op_id)id, HD_COMPUTE_F32)) continue;
        hd_ir a, b;
        assert_int_equal(hd_row_value_ir((hd_op_id)id, HD_COMPUTE_F32, &a), HD_OK);
        assert_int_equal(hd_row_value_ir((hd_op_id)id, HD_COMPUTE_F32, &b), HD_OK);
        assert_int_equal(hd_ir_expand(&a), HD_OK);
        assert_int_equal(hd_ir_expand(&b), HD_OK);
        assert_int_equal(hd_ir_verify(&a), HD_OK);
        for (int i = 0; i < a.count; ++i) assert_false(hd_words[a.nodes[i].word].is_function);
        assert_true(hd_ir_hash(&a) == hd_ir_hash(&b));
        hd_ir_release(&a);
        hd_ir_release(&b);
    }
}

static void prints_readably(void **state) {
    (void)state;
    hd_ir ir;
    char out[512];
    assert_int_equal(hd_row_value_ir(HD_OP_silu, HD_COMPUTE_F32, &ir), HD_OK);
    hd_ir_print(&ir, out, sizeof out);
    assert_string_equal(out, "%0 = input 0 : f32\n%1 = silu %0 : f32\nreturn %1\n");
    hd_ir_release(&ir);
    assert_int_equal(hd_row_derivative_ir(HD_OP_mul, 1, HD_COMPUTE_F64, &ir), HD_OK);
    hd_ir_print(&ir, out, sizeof out);
    assert_string_equal(out, "%0 = input 3 : f64\n%1 = input 0 : f64\n%2 = mul %0, %1 : f64\nreturn %2\n");
    hd_ir_release(&ir);
}

static void the_verifier_finds_what_is_wrong(void **state) {
    (void)state;
    hd_ir ir;
    assert_int_equal(hd_row_value_ir(HD_OP_where, HD_COMPUTE_I32, &ir), HD_OK);
    hd_ir_node *select = &ir.nodes[ir.result];
    const int32_t condition = select->operand[0];
    select->operand[0] = select->operand[1];
    assert_int_not_equal(hd_ir_verify(&ir), HD_OK);
    assert_error(HD_ERROR_INTERNAL, "no condition");
    select->operand[0] = condition;
    select->operand[1] = ir.result;
    assert_int_not_equal(hd_ir_verify(&ir), HD_OK);
    assert_error(HD_ERROR_INTERNAL, "stand before it");
    hd_ir_release(&ir);
    assert_int_equal(hd_row_value_ir(HD_OP_add, HD_COMPUTE_I32, &ir), HD_OK);
    ir.nodes[ir.result].word = HD_WORD_DIV; /* floats only */
    assert_int_not_equal(hd_ir_verify(&ir), HD_OK);
    assert_error(HD_ERROR_INTERNAL, "does not fit");
    ir.result = 99;
    assert_int_not_equal(hd_ir_verify(&ir), HD_OK);
    assert_error(HD_ERROR_INTERNAL, "no result");
    hd_ir_release(&ir);
}

static void survives_failing_allocations(void **state) {
    (void)state;
    for (int n = 0;; ++n) {
        hd_ir ir;
        hd_memory_fail_after(n);
        hd_error status = hd_row_value_ir(HD_OP_gelu, HD_COMPUTE_F32, &ir);
        if (status == HD_OK) status = hd_ir_expand(&ir);
        const bool reached = hd_memory_attempts() > n;
        hd_memory_fail_after(-1);
        hd_ir_release(&ir);
        if (!reached) {
            assert_int_equal(status, HD_OK);
            break;
        }
        assert_int_not_equal(status, HD_OK);
        assert_error(HD_ERROR_MEMORY, "no memory");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {test(rendered_values_equal_eager_kernels),
                                       test(rendered_derivatives_equal_the_c_reading),
                                       test(expanded_ir_has_no_functions_and_prints_the_same),
                                       test(prints_readably),
                                       test(the_verifier_finds_what_is_wrong),
                                       test(survives_failing_allocations)};
    return cmocka_run_group_tests(tests, render_all, close_all);
}
