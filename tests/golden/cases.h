/* Golden cases: functions of up to four tensors, in files that scripts beside this one wrote with PyTorch.
 *
 *     case NAME            the function of that name in the test
 *     leaf SHAPE VALUES    an input that requires a gradient; f64 here, values that f32 holds exactly
 *     i64 SHAPE VALUES     an input that has none; likewise bool
 *     result SHAPE VALUES  what it gives; may be missing
 *     seed SHAPE VALUES    the gradient of the result
 *     grad VALUES          the gradient of each leaf, in their order
 *
 * A test defines ALL(G), a list of G(name, result): the result in the case's inputs x, y, z, w; and then includes
 * this. */
#ifndef HD_TESTS_GOLDEN_CASES_H
#define HD_TESTS_GOLDEN_CASES_H

#include "support.h"

#include <math.h>

#define FUNCTION(name, ...)                                                                                            \
    static hd_tensor *run_##name(hd_tensor *x, hd_tensor *y, hd_tensor *z, hd_tensor *w) {                             \
        (void)x, (void)y, (void)z, (void)w;                                                                            \
        return __VA_ARGS__;                                                                                            \
    }
ALL(FUNCTION)

typedef struct function {
    const char *name;
    hd_tensor *(*run)(hd_tensor *x, hd_tensor *y, hd_tensor *z, hd_tensor *w);
} function;
static const function functions[] = {
#define ENTRY(name, ...) {#name, run_##name},
    ALL(ENTRY)};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

/* ---- the file ---------------------------------------------------------------------------------------------------- */
enum { MOST = 512 };
typedef struct values {
    hd_dtype dtype; /* F64: a leaf, or a gradient */
    hd_shape shape;
    int count;
    double v[MOST];
} values;
typedef struct golden {
    int function, inputs, gradients;
    values input[4], result, seed, gradient[4];
} golden;

static void read_values(values *to, char **rest, hd_dtype dtype, bool shape) {
    *to = (values){.dtype = dtype};
    if (shape) to->shape.rank = atoi(strtok_r(NULL, " \n", rest));
    for (int i = 0; i < to->shape.rank; ++i) to->shape.size[i] = atoll(strtok_r(NULL, " \n", rest));
    for (char *word; (word = strtok_r(NULL, " \n", rest)) != NULL;) {
        assert_in_range(to->count, 0, MOST - 1);
        to->v[to->count++] = strtod(word, NULL);
    }
}

static int function_named(const char *name) {
    for (int i = 0; i < FUNCTIONS; ++i)
        if (strcmp(functions[i].name, name) == 0) return i;
    fail_msg("the golden file has a case %s that the test has not", name);
    return -1;
}

/* The next case; false after the last. `line` holds what was read ahead. */
static bool next_case(FILE *file, char *line, size_t capacity, golden *g) {
    char *rest = NULL;
    while (strncmp(line, "case ", 5) != 0)
        if (fgets(line, (int)capacity, file) == NULL) return false;
    strtok_r(line, " \n", &rest);
    *g = (golden){.function = function_named(strtok_r(NULL, " \n", &rest))};
    while (fgets(line, (int)capacity, file) != NULL && strncmp(line, "case ", 5) != 0) {
        const char *word = strtok_r(line, " \n", &rest);
        if (strcmp(word, "seed") == 0) {
            read_values(&g->seed, &rest, HD_F64, true);
        } else if (strcmp(word, "result") == 0) {
            read_values(&g->result, &rest, HD_F64, true);
        } else if (strcmp(word, "grad") == 0) {
            read_values(&g->gradient[g->gradients++], &rest, HD_F64, false);
        } else {
            const hd_dtype dtype = strcmp(word, "i64") == 0 ? HD_I64 : strcmp(word, "bool") == 0 ? HD_BOOL : HD_F64;
            assert_in_range(g->inputs, 0, 3);
            read_values(&g->input[g->inputs++], &rest, dtype, true);
        }
    }
    return true;
}

/* ---- the comparison ---------------------------------------------------------------------------------------------- */
/* Where hodu has decided otherwise: inside its bounds clamp has the gradient 1, and the bounds are inside. */
static bool decided_otherwise(const golden *g, double x) {
    return strcmp(functions[g->function].name, "clamp") == 0 && (x == -1 || x == 3);
}

/* Units in the last place of the largest gradient in the case, which is a sum of up to a dozen terms that may cancel:
 * 32 of f32 and f64, as the functions are right to a few units; 2 of small floats, which compute in f32, but round what
 * passes from one op to the next. What is NaN or infinite must be so here. */
static bool close_to(double got, double want, double largest, hd_dtype dtype) {
    const double allowed = dtype == HD_F64   ? 32 * 0x1p-52
                           : dtype == HD_F32 ? 32 * 0x1p-23
                           : dtype == HD_F16 ? 2 * 0x1p-10
                                             : 2 * 0x1p-7;
    if (isnan(want)) return isnan(got);
    if (isinf(want)) return got == want;
    return fabs(got - want) <= allowed * largest;
}

/* Inputs that dtype does not hold exactly (1001 in bf16) would be other inputs. */
static bool holds_inputs(const golden *g, hd_dtype dtype) {
    HD_SCOPE;
    bool holds = true;
    for (int i = 0; i < g->inputs; ++i) {
        hd_tensor *t = hd_from_data(g->input[i].v, g->input[i].shape, HD_F64);
        holds = holds && (g->input[i].dtype != HD_F64 ||
                          hd_allclose(t, hd_cast(t, dtype),
                                      HD_OPTS(hd_allclose_opts, .relative = HD_ZERO, .absolute = HD_ZERO)));
    }
    return holds;
}

static int compare_result(const golden *g, const hd_tensor *y, hd_dtype dtype) {
    if (g->result.dtype != HD_F64) return 0; /* not in the file */
    double got[MOST], largest = 1;
    int bad = 0;
    if (!hd_ok()) print_error("%s: ", functions[g->function].name);
    assert_ok();
    assert_int_equal(hd_tensor_dtype(y), dtype);
    assert_true(hd_shape_equal(hd_tensor_shape(y), g->result.shape));
    assert_true(hd_to_array(y, got, HD_F64, MOST));
    for (int e = 0; e < g->result.count; ++e)
        if (isfinite(g->result.v[e])) largest = fmax(largest, fabs(g->result.v[e]));
    for (int e = 0; e < g->result.count; ++e) {
        if (close_to(got[e], g->result.v[e], largest, dtype)) continue;
        print_error("%s, %s: element %d is %.9g, expected %.9g\n", functions[g->function].name, hd_dtype_name(dtype), e,
                    got[e], g->result.v[e]);
        ++bad;
    }
    return bad;
}

static int compare(const golden *g, hd_dtype dtype) {
    HD_SCOPE;
    hd_tensor *input[4] = {NULL};
    for (int i = 0; i < g->inputs; ++i) {
        const hd_dtype d = g->input[i].dtype;
        assert_int_equal(g->input[i].count, hd_shape_count(g->input[i].shape));
        input[i] = hd_cast(hd_from_data(g->input[i].v, g->input[i].shape, HD_F64), d == HD_F64 ? dtype : d);
        if (d == HD_F64) hd_requires_grad(input[i]);
    }
    hd_tensor *y = functions[g->function].run(input[0], input[1], input[2], input[3]);
    int bad = compare_result(g, y, dtype);
    hd_tensor *seed = hd_cast(hd_from_data(g->seed.v, g->seed.shape, HD_F64), dtype);
    hd_backward_with(y, HD_OPTS(hd_backward_opts, .seed = seed));
    if (!hd_ok()) print_error("%s: ", functions[g->function].name);
    assert_ok();
    double got[MOST], largest = 1;
    for (int k = 0; k < g->gradients; ++k)
        for (int e = 0; e < g->gradient[k].count; ++e)
            if (isfinite(g->gradient[k].v[e])) largest = fmax(largest, fabs(g->gradient[k].v[e]));
    for (int i = 0, k = 0; i < g->inputs; ++i) {
        if (g->input[i].dtype != HD_F64) continue;
        const values *want = &g->gradient[k++];
        hd_tensor *gradient = hd_grad(input[i]);
        assert_int_equal(hd_tensor_dtype(gradient), dtype);
        assert_true(hd_shape_equal(hd_tensor_shape(gradient), g->input[i].shape));
        assert_true(hd_to_array(gradient, got, HD_F64, MOST));
        for (int e = 0; e < want->count; ++e) {
            const double expected = decided_otherwise(g, g->input[i].v[e]) ? g->seed.v[e] : want->v[e];
            if (close_to(got[e], expected, largest, dtype)) continue;
            print_error("%s, %s: the gradient of input %d, element %d (%g) is %.9g, expected %.9g\n",
                        functions[g->function].name, hd_dtype_name(dtype), i, e, g->input[i].v[e], got[e], expected);
            ++bad;
        }
    }
    hd_clear_tape();
    return bad;
}

/* Every case of the file, in f64, f32, bf16 and f16 (in one of them where each kernel is compiled); every function must
 * have one. Returns how many were left out because a dtype does not hold their inputs. */
static inline int compare_all(const char *path) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    static char line[1 << 15];
    static golden g;
    bool seen[FUNCTIONS] = {false};
    static const hd_dtype dtypes[] = {HD_F64, HD_F32, HD_BF16, HD_F16};
    int bad = 0, left_out = 0;
    for (uint64_t at = 0; next_case(file, line, sizeof line, &g); ++at) {
        seen[g.function] = true;
        for (int i = 0; i < 4; ++i) {
            if (!holds_inputs(&g, dtypes[i]))
                ++left_out;
            else if (when_compiled(at + (uint64_t)i, 4))
                bad += compare(&g, dtypes[i]);
        }
    }
    fclose(file);
    for (int i = 0; i < FUNCTIONS; ++i)
        if (!seen[i]) fail_msg("%s has no case in %s: run make golden", functions[i].name, path);
    if (bad > 0) fail_msg("%d values or gradients differ", bad);
    return left_out;
}

#endif
