/* Metrics against tests/golden/metrics.txt, where tests/golden/make_metrics.py has put what they are by definition: the
 * functions, and the same over batches. */
#include "builders.h"
#include "each_allocation.h"

#include <hodu/metrics.h>
#include <math.h>

/* ---- the file ---------------------------------------------------------------------------------------------------- */
enum { MOST = 64 };
typedef struct line {
    double option[4], value[MOST];
    int options, values;
} line;
static void each_line(const char *kind, void (*check)(const line *l)) {
    FILE *file = fopen(HODU_TEST_DATA "/../golden/metrics.txt", "r");
    assert_non_null(file);
    char text[4096];
    int found = 0;
    while (fgets(text, sizeof text, file) != NULL) {
        line l = {.options = 0};
        const char *word = strtok(text, " \n");
        if (word == NULL || strcmp(word, kind) != 0) continue;
        while ((word = strtok(NULL, " \n")) != NULL && strcmp(word, "->") != 0)
            l.option[l.options++] = strtod(word, NULL);
        while ((word = strtok(NULL, " \n")) != NULL) {
            assert_true(l.values < MOST);
            l.value[l.values++] = strtod(word, NULL);
        }
        HD_SCOPE;
        check(&l);
        assert_ok();
        ++found;
    }
    fclose(file);
    assert_true(found > 0);
}

/* The inputs of the golden script. */
static hd_tensor *scores_of(int64_t n, int64_t c, bool coarse) {
    double values[64 * 8];
    for (int64_t i = 0; i < n * c; ++i) {
        values[i] = (double)(i * 37 % 101 - 50) / 32;
        if (coarse) values[i] = nearbyint(values[i]);
    }
    return hd_from_data(values, HD_SHAPE(n, c), HD_F64);
}
static hd_tensor *classes_of(int64_t n, int64_t c, int64_t start) {
    int64_t values[64];
    for (int64_t i = 0; i < n; ++i) values[i] = (i * 29 + start) % 61 % (c == 2 ? 2 : c > 1 ? c - 1 : 1);
    return hd_from_data(values, HD_SHAPE(n), HD_I64);
}

static void assert_near(double got, double want, double tolerance) {
    if (!hd_ok()) fail_msg("%s", hd_error_message());
    if (isnan(want) ? !isnan(got) : !(fabs(got - want) <= tolerance * fmax(1, fabs(want))))
        fail_msg("got %.17g, expected %.17g", got, want);
}
static void assert_values_near(hd_tensor *got, const line *l, double tolerance) {
    double values[MOST];
    assert_int_equal(hd_tensor_count(got), l->values);
    assert_true(hd_to_array(got, values, HD_F64, MOST));
    for (int i = 0; i < l->values; ++i) assert_near(values[i], l->value[i], tolerance);
}

/* The value of a metric that got its rows in batches of 1, 2, 3, ..., an empty one among them. */
static double in_batches(hd_metric *m, hd_tensor *prediction, hd_tensor *target) {
    const int64_t n = hd_tensor_size(target, 0);
    hd_metric_add(m, hd_narrow(prediction, 0, 0, 0), hd_narrow(target, 0, 0, 0));
    for (int64_t at = 0, size = 1; at < n; at += size++) {
        if (size > n - at) size = n - at;
        hd_metric_add(m, hd_narrow(prediction, 0, at, size), hd_narrow(target, 0, at, size));
    }
    return hd_metric_value(m);
}

/* ---- against the definitions ------------------------------------------------------------------------------------- */
static void check_accuracy(const line *l) {
    const int64_t n = (int64_t)l->option[0], c = (int64_t)l->option[1];
    hd_tensor *s = scores_of(n, c, false), *t = classes_of(n, c, 0);
    assert_near(hd_item(hd_accuracy(s, t)), l->value[0], 1e-6);
    assert_near(hd_item(hd_accuracy(hd_argmax(s, 1, NULL), hd_cast(t, HD_U8))), l->value[0], 1e-6);
    assert_near(hd_item(hd_accuracy(hd_reshape(s, HD_SHAPE(n, 1, c)), hd_reshape(t, HD_SHAPE(n, 1)))), l->value[0],
                1e-6);
    assert_near(in_batches(hd_metric_new(HD_METRIC_ACCURACY, NULL), s, t), l->value[0], 1e-15);
}
static void check_top_k(const line *l) {
    const int64_t n = (int64_t)l->option[0], c = (int64_t)l->option[1], k = (int64_t)l->option[2];
    hd_tensor *s = scores_of(n, c, false), *t = classes_of(n, c, 0);
    assert_near(hd_item(hd_top_k_accuracy(s, t, k)), l->value[0], 1e-6);
    hd_metric *m = hd_metric_new(HD_METRIC_TOP_K_ACCURACY, HD_OPTS(hd_metric_opts, .k = k));
    assert_near(in_batches(m, s, t), l->value[0], 1e-15);
}
static void check_confusion(const line *l) {
    const int64_t n = (int64_t)l->option[0], c = (int64_t)l->option[1];
    hd_tensor *s = scores_of(n, c, false), *t = classes_of(n, c, 0), *matrix = hd_confusion_matrix(s, t, c);
    assert_int_equal(hd_tensor_dtype(matrix), HD_I64);
    assert_int_equal(hd_tensor_rank(matrix), 2);
    assert_values_near(matrix, l, 0);
    hd_metric *m = hd_metric_new(HD_METRIC_F1, HD_OPTS(hd_metric_opts, .classes = c));
    in_batches(m, s, t);
    assert_same(hd_metric_confusion(m), matrix);
}

static void check_of_matrix(const line *l, hd_tensor *(*function)(hd_tensor *, hd_average), hd_metric_kind kind) {
    const int64_t n = (int64_t)l->option[0], c = (int64_t)l->option[1];
    const hd_average average = (hd_average)l->option[2];
    hd_tensor *s = scores_of(n, c, false), *t = classes_of(n, c, 0);
    assert_values_near(function(hd_confusion_matrix(s, t, c), average), l, 1e-6);
    if (average == HD_AVERAGE_NONE) return;
    hd_metric *m = hd_metric_new(kind, HD_OPTS(hd_metric_opts, .classes = c, .average = average));
    assert_near(in_batches(m, s, t), l->value[0], 1e-14);
}
static void check_precision(const line *l) { check_of_matrix(l, hd_precision, HD_METRIC_PRECISION); }
static void check_recall(const line *l) { check_of_matrix(l, hd_recall, HD_METRIC_RECALL); }
static void check_f1(const line *l) { check_of_matrix(l, hd_f1, HD_METRIC_F1); }

static void check_perplexity(const line *l) {
    const int64_t n = (int64_t)l->option[0], c = (int64_t)l->option[1], ignored = (int64_t)l->option[2];
    hd_tensor *s = scores_of(n, c, false), *t = classes_of(n, c, 0);
    const hd_perplexity_opts o = {.struct_size = sizeof o, .ignores = ignored >= 0, .ignore_index = ignored};
    assert_near(hd_item(hd_perplexity(s, t, &o)), l->value[0], 1e-13);
    assert_near(hd_item(hd_perplexity(hd_cast(s, HD_F32), hd_cast(t, HD_I32), &o)), l->value[0], 1e-5);
    hd_metric *m =
        hd_metric_new(HD_METRIC_PERPLEXITY, HD_OPTS(hd_metric_opts, .ignores = ignored >= 0, .ignore_index = ignored));
    assert_near(in_batches(m, s, t), l->value[0], 1e-13);
}

static void check_auc(const line *l) {
    const int64_t n = (int64_t)l->option[0];
    hd_tensor *s = hd_flatten(scores_of(n, 1, l->option[1] != 0)), *t = classes_of(n, 2, (int64_t)l->option[2]);
    assert_near(hd_item(hd_roc_auc(s, t)), l->value[0], 1e-15);
    assert_near(hd_item(hd_roc_auc(hd_cast(s, HD_F32), hd_cast(t, HD_BOOL))), l->value[0], 1e-6);
    assert_near(in_batches(hd_metric_new(HD_METRIC_ROC_AUC, NULL), s, t), l->value[0], 1e-15);
}

static void check_numbers(const line *l, hd_tensor *(*function)(hd_tensor *, hd_tensor *), hd_metric_kind kind) {
    const int64_t n = (int64_t)l->option[0];
    hd_tensor *p = hd_flatten(scores_of(n, 1, false));
    hd_tensor *t = hd_narrow(hd_flatten(scores_of(n + 3, 1, false)), 0, 3, n);
    assert_near(hd_item(function(p, t)), l->value[0], 1e-13);
    assert_near(hd_item(function(hd_cast(p, HD_F32), hd_cast(t, HD_F32))), l->value[0], 1e-5);
    assert_near(in_batches(hd_metric_new(kind, NULL), p, t), l->value[0], 1e-13);
}
static void check_absolute(const line *l) { check_numbers(l, hd_mean_absolute_error, HD_METRIC_MEAN_ABSOLUTE_ERROR); }
static void check_r2(const line *l) { check_numbers(l, hd_r2, HD_METRIC_R2); }

#define AGREES(name, kind)                                                                                             \
    static void name##_is_as_defined(void **state) {                                                                   \
        (void)state;                                                                                                   \
        each_line(kind, check_##name);                                                                                 \
    }
AGREES(accuracy, "accuracy")
AGREES(top_k, "top_k")
AGREES(confusion, "confusion")
AGREES(precision, "precision")
AGREES(recall, "recall")
AGREES(f1, "f1")
AGREES(perplexity, "perplexity")
AGREES(auc, "roc_auc")
AGREES(absolute, "mean_absolute_error")
AGREES(r2, "r2")

/* ---- what is special ------------------------------------------------------------------------------------------------ */
static void nothing_has_no_metric(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *s = hd_zeros(HD_SHAPE(0, 3), HD_F32), *t = hd_zeros(HD_SHAPE(0), HD_I64),
              *n = hd_zeros(HD_SHAPE(0), HD_F32);
    assert_true(isnan(hd_item(hd_accuracy(s, t))));
    assert_true(isnan(hd_item(hd_top_k_accuracy(s, t, 2))));
    assert_values(hd_confusion_matrix(s, t, 3), HD_I64, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_values(hd_f1(hd_confusion_matrix(s, t, 3), HD_AVERAGE_MACRO), HD_F32, 0);
    assert_true(isnan(hd_item(hd_perplexity(s, t, NULL))));
    assert_true(isnan(hd_item(hd_roc_auc(n, t))));
    assert_true(isnan(hd_item(hd_r2(n, n))));
    assert_true(isnan(hd_item(hd_mean_absolute_error(n, n))));
    for (int kind = 0; kind <= HD_METRIC_MEAN_ABSOLUTE_ERROR; ++kind)
        assert_true(isnan(hd_metric_value(hd_metric_new((hd_metric_kind)kind, HD_OPTS(hd_metric_opts, .classes = 3)))));
    assert_ok();
}

static void nan_is_not_hidden(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *s = HD_TENSOR_F32(HD_SHAPE(3), 1, NAN, 2), *t = HD_TENSOR_I64(HD_SHAPE(3), 1, 0, 0);
    assert_true(isnan(hd_item(hd_roc_auc(s, t))));
    assert_true(isnan(hd_item(hd_r2(s, hd_cast(t, HD_F32)))));
    assert_true(isnan(hd_item(hd_mean_absolute_error(s, s))));
    static const hd_metric_kind kinds[] = {HD_METRIC_ROC_AUC, HD_METRIC_R2, HD_METRIC_MEAN_ABSOLUTE_ERROR};
    for (int i = 0; i < 3; ++i) {
        hd_metric *m = hd_metric_new(kinds[i], NULL);
        hd_metric_add(m, s, t);
        assert_true(isnan(hd_metric_value(m)));
    }
}

static void targets_that_do_not_vary(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *t = hd_full(HD_SHAPE(4), HD_F32, 2), *p = HD_TENSOR_F32(HD_SHAPE(4), 2, 2, 2, 3);
    assert_values(hd_r2(t, t), HD_F32, 1);
    assert_values(hd_r2(p, t), HD_F32, 0);
    hd_metric *m = hd_metric_new(HD_METRIC_R2, NULL);
    hd_metric_add(m, t, t);
    assert_true(hd_metric_value(m) == 1);
    hd_metric_add(m, p, t);
    assert_true(hd_metric_value(m) == 0);
    hd_metric_reset(m);
    assert_true(isnan(hd_metric_value(m)));
    assert_true(isnan(hd_item(hd_roc_auc(p, hd_ones(HD_SHAPE(4), HD_I64))))); /* no pair to compare */
}

static void batches_are_forgotten(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *p = HD_TENSOR_I64(HD_SHAPE(4), 0, 1, 1, 1), *t = HD_TENSOR_I64(HD_SHAPE(4), 0, 1, 0, 0);
    hd_metric *m =
        hd_metric_new(HD_METRIC_PRECISION, HD_OPTS(hd_metric_opts, .classes = 2, .average = HD_AVERAGE_BINARY));
    hd_metric_add(m, p, t);
    assert_near(hd_metric_value(m), 1.0 / 3, 1e-15);
    hd_metric_reset(m);
    assert_values(hd_metric_confusion(m), HD_I64, 0, 0, 0, 0);
    hd_metric_add(m, t, t);
    assert_true(hd_metric_value(m) == 1);
    hd_tensor *kept = hd_metric_confusion(m); /* a copy */
    hd_metric_add(m, t, t);
    assert_values(kept, HD_I64, 3, 0, 0, 1);
}

/* A number that is no class must not be found elsewhere in the matrix, nor counted from the end. */
static void numbers_that_are_no_classes_are_errors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *good = HD_TENSOR_I64(HD_SHAPE(2), 1, 2);
    static const int64_t bad[] = {-1, 3, 1000};
    for (int i = 0; i < 3; ++i) {
        hd_tensor *wrong = HD_TENSOR_I64(HD_SHAPE(2), 1, bad[i]), *s = hd_zeros(HD_SHAPE(2, 3), HD_F32);
        assert_null(hd_confusion_matrix(good, wrong, 3));
        assert_error(HD_ERROR_INDEX, "hd_confusion_matrix");
        assert_null(hd_confusion_matrix(wrong, good, 3));
        assert_error(HD_ERROR_INDEX, "hd_confusion_matrix");
        assert_null(hd_perplexity(s, wrong, NULL));
        assert_error(HD_ERROR_INDEX, "hd_perplexity");
        hd_metric *m = hd_metric_new(HD_METRIC_F1, HD_OPTS(hd_metric_opts, .classes = 3));
        hd_metric_add(m, wrong, good);
        assert_error(HD_ERROR_INDEX, "hd_metric_add");
        assert_true(isnan(hd_metric_value(m))); /* nothing was added */
    }
}

static void metrics_are_recorded(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *s = scores_of(40, 5, false), *t = classes_of(40, 5, 0);
    hd_builder *b = started("metrics");
    hd_tensor *x = hd_input("x", HD_SHAPE(40, 5), HD_F64), *y = hd_input("y", HD_SHAPE(40), HD_I64);
    hd_builder_add_output(b, "accuracy", hd_accuracy(x, y));
    hd_builder_add_output(b, "top", hd_top_k_accuracy(x, y, 2));
    hd_builder_add_output(b, "f1", hd_f1(hd_confusion_matrix(x, y, 5), HD_AVERAGE_WEIGHTED));
    hd_builder_add_output(b, "perplexity", hd_perplexity(x, y, NULL));
    hd_builder_add_output(b, "auc", hd_roc_auc(hd_select(x, 1, 0), hd_gt_scalar(y, 1)));
    hd_builder_add_output(b, "r2", hd_r2(hd_select(x, 1, 0), hd_select(x, 1, 1)));
    hd_script *script = built(b);
    hd_script_set_input(script, "x", s);
    hd_script_set_input(script, "y", t);
    hd_outputs *o = hd_script_run(script);
    assert_close(hd_outputs_get(o, "accuracy"), hd_accuracy(s, t), 1e-6, HD_ZERO);
    assert_close(hd_outputs_get(o, "top"), hd_top_k_accuracy(s, t, 2), 1e-6, HD_ZERO);
    assert_close(hd_outputs_get(o, "f1"), hd_f1(hd_confusion_matrix(s, t, 5), HD_AVERAGE_WEIGHTED), 1e-6, HD_ZERO);
    assert_close(hd_outputs_get(o, "perplexity"), hd_perplexity(s, t, NULL), 1e-12, HD_ZERO);
    assert_close(hd_outputs_get(o, "auc"), hd_roc_auc(hd_select(s, 1, 0), hd_gt_scalar(t, 1)), 1e-12, HD_ZERO);
    assert_close(hd_outputs_get(o, "r2"), hd_r2(hd_select(s, 1, 0), hd_select(s, 1, 1)), 1e-12, HD_ZERO);
}

static void nothing_is_noted_on_a_tape(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(scores_of(9, 1, false));
    hd_metric *m = hd_metric_new(HD_METRIC_R2, NULL);
    hd_metric_add(m, x, hd_zeros(HD_SHAPE(9, 1), HD_F64));
    assert_int_equal(hd_tape_length(), 0);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */
static void arguments_of_functions_are_checked(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *s = hd_zeros(HD_SHAPE(2, 3), HD_F32), *t = hd_zeros(HD_SHAPE(2), HD_I64),
              *n = hd_zeros(HD_SHAPE(2), HD_F32);
#define REFUSED(call, code, text)                                                                                      \
    assert_null(call);                                                                                                 \
    assert_error(code, text)
    REFUSED(hd_accuracy(NULL, t), HD_ERROR_NULL_ARGUMENT, "hd_accuracy: `prediction`");
    REFUSED(hd_accuracy(s, NULL), HD_ERROR_NULL_ARGUMENT, "hd_accuracy: `target`");
    REFUSED(hd_accuracy(n, t), HD_ERROR_SHAPE, "hd_accuracy: prediction [2] of f32");
    REFUSED(hd_accuracy(s, n), HD_ERROR_SHAPE, "target [2] of f32");
    REFUSED(hd_accuracy(hd_zeros(HD_SHAPE(2, 0), HD_F32), t), HD_ERROR_SHAPE, "[2,0]");
    REFUSED(hd_top_k_accuracy(NULL, t, 1), HD_ERROR_NULL_ARGUMENT, "hd_top_k_accuracy: `scores`");
    REFUSED(hd_top_k_accuracy(s, NULL, 1), HD_ERROR_NULL_ARGUMENT, "hd_top_k_accuracy: `target`");
    REFUSED(hd_top_k_accuracy(t, t, 1), HD_ERROR_SHAPE, "hd_top_k_accuracy: scores [2] of i64");
    REFUSED(hd_top_k_accuracy(s, t, 4), HD_ERROR_VALUE, "hd_top_k_accuracy: the 4 largest of 3");
    REFUSED(hd_top_k_accuracy(s, t, 0), HD_ERROR_VALUE, "hd_top_k_accuracy: the 0 largest");
    REFUSED(hd_confusion_matrix(NULL, t, 3), HD_ERROR_NULL_ARGUMENT, "hd_confusion_matrix: `prediction`");
    REFUSED(hd_confusion_matrix(s, t, 4), HD_ERROR_SHAPE, "hd_confusion_matrix: prediction [2,3] has scores of 3");
    REFUSED(hd_confusion_matrix(t, t, 0), HD_ERROR_VALUE, "hd_confusion_matrix: 0 classes");
    REFUSED(hd_confusion_matrix(t, t, INT64_MAX), HD_ERROR_VALUE, "hd_confusion_matrix");
    hd_tensor *(*const of_matrix[])(hd_tensor *, hd_average) = {hd_precision, hd_recall, hd_f1};
    static const char *const names[] = {"hd_precision: ", "hd_recall: ", "hd_f1: "};
    for (int i = 0; i < 3; ++i) {
        REFUSED(of_matrix[i](NULL, HD_AVERAGE_MACRO), HD_ERROR_NULL_ARGUMENT, names[i]);
        REFUSED(of_matrix[i](s, HD_AVERAGE_MACRO), HD_ERROR_SHAPE, names[i]);
        REFUSED(of_matrix[i](hd_ones(HD_SHAPE(3, 3), HD_I64), HD_AVERAGE_BINARY), HD_ERROR_SHAPE, names[i]);
        REFUSED(of_matrix[i](hd_ones(HD_SHAPE(3, 3), HD_I64), (hd_average)9), HD_ERROR_VALUE, names[i]);
    }
    REFUSED(hd_roc_auc(NULL, t), HD_ERROR_NULL_ARGUMENT, "hd_roc_auc: `scores`");
    REFUSED(hd_roc_auc(n, NULL), HD_ERROR_NULL_ARGUMENT, "hd_roc_auc: `target`");
    REFUSED(hd_roc_auc(s, s), HD_ERROR_SHAPE, "hd_roc_auc: scores [2,3]");
    REFUSED(hd_perplexity(NULL, t, NULL), HD_ERROR_NULL_ARGUMENT, "hd_perplexity: `logits`");
    REFUSED(hd_perplexity(s, s, NULL), HD_ERROR_SHAPE, "hd_perplexity: logits [2,3]");
    REFUSED(hd_r2(NULL, n), HD_ERROR_NULL_ARGUMENT, "hd_r2: `prediction`");
    REFUSED(hd_r2(n, NULL), HD_ERROR_NULL_ARGUMENT, "hd_r2: `target`");
    REFUSED(hd_r2(s, n), HD_ERROR_SHAPE, "hd_r2: prediction [2,3] and target [2]");
    REFUSED(hd_mean_absolute_error(s, n), HD_ERROR_SHAPE, "hd_mean_absolute_error: prediction [2,3]");
    REFUSED(hd_mean_absolute_error(NULL, n), HD_ERROR_NULL_ARGUMENT, "hd_mean_absolute_error: `prediction`");
}

static void arguments_of_metrics_are_checked(void **state) {
    (void)state;
    HD_SCOPE;
    REFUSED(hd_metric_new((hd_metric_kind)99, NULL), HD_ERROR_VALUE, "hd_metric_new: 99");
    REFUSED(hd_metric_new(HD_METRIC_F1, NULL), HD_ERROR_VALUE, "hd_metric_new: 0 classes");
    REFUSED(hd_metric_new(HD_METRIC_F1, HD_OPTS(hd_metric_opts, .classes = 2, .average = HD_AVERAGE_NONE)),
            HD_ERROR_VALUE, "HD_AVERAGE_NONE");
    REFUSED(hd_metric_new(HD_METRIC_RECALL, HD_OPTS(hd_metric_opts, .classes = 3, .average = HD_AVERAGE_BINARY)),
            HD_ERROR_VALUE, "HD_AVERAGE_BINARY");
    REFUSED(hd_metric_new(HD_METRIC_RECALL, HD_OPTS(hd_metric_opts, .classes = 3, .average = (hd_average)9)),
            HD_ERROR_VALUE, "9 is none of HD_AVERAGE_*");
    REFUSED(hd_metric_new(HD_METRIC_TOP_K_ACCURACY, HD_OPTS(hd_metric_opts, .k = -1)), HD_ERROR_VALUE, "k is -1");
    hd_tensor *s = hd_zeros(HD_SHAPE(2, 3), HD_F32);
    for (int kind = 0; kind <= HD_METRIC_MEAN_ABSOLUTE_ERROR; ++kind) {
        hd_metric *m = hd_metric_new((hd_metric_kind)kind, HD_OPTS(hd_metric_opts, .classes = 3));
        hd_metric_add(m, NULL, s);
        assert_error(HD_ERROR_NULL_ARGUMENT, "hd_metric_add: `");
        hd_metric_add(m, s, NULL);
        assert_error(HD_ERROR_NULL_ARGUMENT, "hd_metric_add: `target`");
        hd_metric_add(m, s, hd_zeros(HD_SHAPE(9), HD_I64));
        assert_error(HD_ERROR_SHAPE, "hd_metric_add: ");
        assert_true(isnan(hd_metric_value(m)));
    }
    hd_metric_add(NULL, s, s);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_metric_add: `metric`");
    assert_true(isnan(hd_metric_value(NULL)));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_metric_value: `metric`");
    assert_null(hd_metric_confusion(NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_metric_confusion: `metric`");
    assert_null(hd_metric_confusion(hd_metric_new(HD_METRIC_R2, NULL)));
    assert_error(HD_ERROR_STATE, "hd_metric_confusion: the R2 has no confusion matrix");
    hd_metric_reset(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_metric_reset: `metric`");
}

static void all_metrics(void) {
    hd_tensor *s = hd_cast(scores_of(6, 3, false), HD_F32), *t = classes_of(6, 3, 0), *n = hd_select(s, 1, 0);
    for (int kind = 0; kind <= HD_METRIC_MEAN_ABSOLUTE_ERROR; ++kind) {
        const bool of_scores = kind < HD_METRIC_ROC_AUC || kind == HD_METRIC_PERPLEXITY;
        hd_metric *m = hd_metric_new((hd_metric_kind)kind, HD_OPTS(hd_metric_opts, .classes = 3, .k = 2));
        hd_metric_add(m, of_scores ? s : n, t);
        hd_metric_add(m, of_scores ? s : n, t);
        hd_metric_value(m);
    }
}
static void any_allocation_may_fail(void **state) {
    (void)state;
    not_on_a_device("memory of the host's is counted");
    each_allocation_fails(all_metrics, 5000);
}

RUN(test(accuracy_is_as_defined), test(top_k_is_as_defined), test(confusion_is_as_defined),
    test(precision_is_as_defined), test(recall_is_as_defined), test(f1_is_as_defined), test(perplexity_is_as_defined),
    test(auc_is_as_defined), test(absolute_is_as_defined), test(r2_is_as_defined), test(nothing_has_no_metric),
    test(nan_is_not_hidden), test(targets_that_do_not_vary), test(batches_are_forgotten),
    test(numbers_that_are_no_classes_are_errors), test(metrics_are_recorded), test(nothing_is_noted_on_a_tape),
    test(arguments_of_functions_are_checked), test(arguments_of_metrics_are_checked), test(any_allocation_may_fail))
