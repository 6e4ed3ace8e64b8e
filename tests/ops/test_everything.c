/* Every op at once: on random shapes and strides its results in f32, f16 and bf16 are those in f64, and its gradients,
 * and theirs, those of finite differences. Gradients of rows are tested so in grad/test_rows.c.
 *
 *     test_ops_everything --list      what runs which op, as a table */
#include "everything.h"
#include "machine/gpu.h"

/* ---- which ops are in no case ------------------------------------------------------------------------------------ */
static bool is_in_a_call(const char *op) {
    char text[80];
    snprintf(text, sizeof text, "hd_%s(", op);
    for (int c = HD_OP_ELEMENTWISE_COUNT; c < CASE_COUNT; ++c)
        if (strcmp(case_name(c), op) == 0 || strstr(case_call(c)->text, text) != NULL) return true;
    return false;
}

static void every_op_is_in_a_call(void **state) {
    (void)state;
    static const char *const ops[] = {
#define PRIMITIVE(name, ...) #name,
#define COMPOSITE(name, ...) #name,
#include "ops/ops.def"
    };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; ++i)
        if (!is_in_a_call(ops[i])) fail_msg("hd_%s is in no call of tests/graph/calls.h", ops[i]);
    assert_false(is_in_a_call("nothing"));
}

/* ---- against f64 ------------------------------------------------------------------------------------------------- */
static bool is_among(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; ++i)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}
#define IS_AMONG(c, ...)                                                                                               \
    is_among(case_name(c), (const char *const[]){__VA_ARGS__},                                                         \
             sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

/* Calls that name dtypes themselves, and are something else in another one. */
static bool names_dtypes(int c) { return IS_AMONG(c, "bitcast", "cast", "cast_small", "mixed_dtypes"); }

/* Calls that round down to integers on the way, which in a small float takes other ones. */
static bool truncates(int c) {
    return IS_AMONG(c, "cast_integer", "float_by_integer", "integer_divided", "chosen_integers", "lerp_integers");
}

enum { CALL_UNITS = 4 }; /* of the dtype at the largest of operands and results */
static double units_of(int c) {
    if (case_call(c) == NULL) return fmax(1, fabs((double)hd_rows[c].ulp));
    return case_is_lapack(c) ? LAPACK_UNITS : CALL_UNITS;
}

typedef struct tally {
    int tried, reshaped;
} tally;

/* What is the same in no other dtype is compared in its own: there layouts differ. Numbers are drawn for one dtype. */
static hd_dtype reference_dtype(int c, hd_dtype dtype) {
    const bool is_small = dtype == HD_F16 || dtype == HD_BF16;
    return names_dtypes(c) || (truncates(c) && is_small) || hd_generator_draw(NULL) > 0 ? dtype : HD_F64;
}

static void agrees_with_f64(int c, int round, hd_dtype dtype, tally *sum) {
    HD_SCOPE;
    operands o;
    hd_tensor *y = try_case(c, round, dtype, &o), *in[3] = {NULL};
    if (y == NULL) return;
    const hd_dtype wide = reference_dtype(c, dtype); /* after try_case, which seeds */
    sum->tried++;
    sum->reshaped += o.other_shapes;
    operands_of(&o, in);
    for (int i = 0; i < o.count; ++i)
        if (hd_dtype_is_float(hd_tensor_dtype(in[i]))) in[i] = hd_contiguous(hd_cast(in[i], wide));
    hd_seed(5);
    hd_tensor *reference = run_case(c, in);
    if (reference == NULL) fail_msg("%s in f64: %s", case_text(c, round, &o), hd_error_message());
    const double unit = fmax(unit_of(dtype), unit_of(hd_tensor_dtype(y)));
    const char *why = difference_within(hd_cast(y, hd_tensor_dtype(reference)), reference,
                                        units_of(c) * unit * size_of_case(&o, reference));
    if (why[0] != '\0') fail_msg("%s in %s: %s", case_text(c, round, &o), hd_dtype_name(dtype), why);
}

static void results_are_those_in_f64(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_F32, HD_F32, HD_F64, HD_F16, HD_BF16};
    tally sum = {0, 0};
    for (int c = 0; c < CASE_COUNT; ++c)
        for (int round = 0; round < (in_full() ? 120 : 24); ++round)
            if (case_chosen(c) && when_slow((uint64_t)(c + round), 4) && when_compiled((uint64_t)(c + round), 40))
                agrees_with_f64(c, round, dtypes[round % 6], &sum);
    print_message("%d calls, %d of them on other shapes than they were written with\n", sum.tried, sum.reshaped);
    assert_true(sum.reshaped * 10 >= sum.tried * 8);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
/* What differences see, and gradients do not, as is meant: values that are cast to integers, detached, or padding. And
 * between infinities there is no difference. */
static bool gradient_is_less(int c) { return truncates(c) || IS_AMONG(c, "detach", "embedding_padded", "pad_cut"); }

/* Losses that are squares near 0 and lines elsewhere, whose second derivative jumps, so that differences see both
 * sides; and distances, whose second derivative has no bound where points are near each other. */
static bool bends(int c) { return IS_AMONG(c, "huber", "smooth_l1", "triplet_margin"); }

typedef struct trial {
    int c;
    const operands *o;
} trial;
static hd_tensor *run_trial(hd_tensors *list, void *user) {
    const trial *t = user;
    hd_tensor *in[3] = {NULL};
    for (int i = 0; i < t->o->count; ++i) in[i] = laid_out(t->o, i, hd_tensors_get(list, i));
    hd_seed(5);
    return run_case(t->c, in);
}

/* How often a case can be differentiated, 2 at most: not at all when its result has no history, or the row of an op in
 * it says that it has no gradient. */
static int orders_of(trial *t, hd_tensors *in) {
    HD_GRAD_CONTEXT;
    HD_SCOPE;
    hd_tensor *x[3] = {NULL};
    const int count = (int)hd_tensors_count(in);
    for (int i = 0; i < count; ++i) x[i] = hd_param(hd_copy(hd_tensors_get(in, i)));
    hd_tensor *y = run_trial(hd_tensors_from(x, count), t);
    if (y == NULL || !hd_tensor_requires_grad(y)) return 0;
    for (int order = 0; order < 2; ++order) {
        hd_tensors *g =
            hd_grad_of(y, hd_tensors_from(x, count), HD_OPTS(hd_grad_of_opts, .differentiable = order == 1));
        if (g != NULL) continue;
        const bool by_its_row = hd_error_code() == HD_ERROR_STATE && strstr(hd_error_message(), "has no gradient");
        if (!by_its_row) fail_msg("%s: %s", case_name(t->c), hd_error_message());
        hd_error_clear();
        return order;
    }
    return 2;
}

static bool gradients_agree(int c, int round, int *tried) {
    HD_SCOPE;
    operands o;
    hd_tensor *y = try_case(c, round, HD_F64, &o);
    if (y != NULL && hd_item(hd_all(hd_isfinite(y), X(), NULL)) == 0) return true; /* as the variance of one element */
    trial t = {c, &o};
    hd_tensors *in = hd_tensors_from(o.base, o.count);
    const int orders = orders_of(&t, in);
    if (orders == 0) return true;
    ++*tried;
    char why[256] = "";
    const bool good = hd_gradcheck(run_trial, &t, in,
                                   HD_OPTS(hd_gradcheck_opts, .second_order = orders == 2 && !bends(c), .explain = why,
                                           .explain_capacity = sizeof why));
    if (!good) print_error("%s: %s%s\n", case_text(c, round, &o), why, hd_error_message());
    hd_error_clear();
    return good;
}

static void gradients_are_those_of_differences(void **state) {
    (void)state;
    const int rounds = in_full() ? 60 : 6;
    int bad = 0, tried = 0;
    for (int c = HD_OP_ELEMENTWISE_COUNT; c < CASE_COUNT; ++c)
        for (int round = 0; round < rounds && !names_dtypes(c) && !gradient_is_less(c); ++round)
            if (case_chosen(c) && when_slow((uint64_t)(c + round), 6) && when_compiled((uint64_t)(c + round), 40))
                bad += !gradients_agree(c, round, &tried);
    if (bad > 0) fail_msg("%d of %d are wrong", bad, tried);
}

/* ---- what runs what ---------------------------------------------------------------------------------------------- */
static void list_row(const char *name, const char *hodu, const char *xla, const char *gpus) {
    printf("%-28s %-8s %-8s %-8s %-10s %-10s %-10s %-10s\n", name, "yes", "call", hodu, xla, gpus, gpus, gpus);
}

static int list(void) {
    static const bool refused[HD_OP_COUNT] = {
#define REFUSED(name, ...) [HD_OP_##name] = true,
#include "xla/refused.def"
    };
    printf("%-28s %-8s %-8s %-8s %-10s %-10s %-10s %-10s\n", "op", "eager", "O0", "O1-O3", "XLA", "CUDA", "OpenCL",
           "Metal");
    for (int id = 0; id < HD_OP_COUNT; ++id)
        list_row(hd_ops[id].name, hd_ops[id].lower == HD_LOWER_NONE ? "call" : "kernel",
                 refused[id] ? "refused" : "yes",
                 hd_ops[id].family == HD_FAMILY_VIEW ? "view"
                 : hd_gpu_is_by_copy(&hd_ops[id])    ? "by copy"
                 : hd_ops[id].lower == HD_LOWER_NONE ? "call"
                                                     : "kernel");
#define COMPOSITE(name, ...) list_row(#name, "parts", "parts", "parts");
#define NOT_YET(names, why)  printf("not yet: %s\n", names);
#include "ops/ops.def"
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) return list();
    const struct CMUnitTest tests[] = {test(every_op_is_in_a_call), test(results_are_those_in_f64),
                                       test(gradients_are_those_of_differences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
