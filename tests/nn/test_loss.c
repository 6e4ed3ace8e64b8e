/* Losses against PyTorch: tests/golden/optim.txt, written by tests/golden/make_optim.py, holds losses and gradients. */
#include "support.h"

#include <math.h>

/* ---- the file ---------------------------------------------------------------------------------------------------- */
static hd_tensor *fixture(int which, hd_shape shape) {
    double values[64];
    const int64_t count = hd_shape_count(shape);
    for (int64_t i = 0; i < count; ++i) values[i] = (double)((i * 37 + 11 * which) % 101 - 50) / 32;
    return hd_from_data(values, shape, HD_F64);
}

typedef struct line {
    double option[8], value[128];
    int options, values;
} line;
/* Calls check for every line of a kind; fails when there is none. */
static void each_line(const char *kind, void (*check)(const line *l)) {
    char path[1024];
    snprintf(path, sizeof path, "%s/../golden/optim.txt", HODU_TEST_DATA);
    FILE *file = fopen(path, "r");
    if (file == NULL) fail_msg("cannot open %s", path);
    static char text[1 << 16];
    int found = 0;
    while (fgets(text, sizeof text, file) != NULL) {
        if (strncmp(text, kind, strlen(kind)) != 0 || text[strlen(kind)] != ' ') continue;
        line l = {.options = 0};
        bool behind = false;
        strtok(text, " \n");
        for (char *word; (word = strtok(NULL, " \n")) != NULL;) {
            if (strcmp(word, "->") == 0)
                behind = true;
            else if (behind)
                l.value[l.values++] = strtod(word, NULL);
            else
                l.option[l.options++] = strtod(word, NULL);
        }
        HD_SCOPE;
        check(&l);
        hd_clear_tape();
        ++found;
    }
    fclose(file);
    assert_true(found > 0);
}
/* A tensor has these values, some of a line's. */
static void assert_line(const line *l, int *at, const hd_tensor *t, double tolerance) {
    const int64_t count = hd_tensor_count(t);
    assert_true(*at + count <= l->values);
    assert_close(t, hd_reshape(hd_from_data(l->value + *at, HD_SHAPE(count), HD_F64), hd_tensor_shape(t)), tolerance,
                 tolerance);
    *at += (int)count;
}

/* ---- mse --------------------------------------------------------------------------------------------------------- */
static void check_mse(const line *l) {
    for (int f32 = 0; f32 < 2; ++f32) {
        const hd_dtype dtype = f32 ? HD_F32 : HD_F64;
        hd_tensor *prediction = hd_param(hd_cast(fixture(1, HD_SHAPE(4, 3)), dtype));
        hd_tensor *target = hd_param(hd_cast(fixture(2, HD_SHAPE(4, 3)), dtype));
        hd_tensor *loss =
            hd_mse(prediction, target, HD_OPTS(hd_loss_opts, .reduction = (hd_reduction_kind)l->option[0]));
        hd_backward(loss);
        int at = 0;
        assert_line(l, &at, loss, f32 ? 1e-6 : 1e-13);
        assert_line(l, &at, hd_grad(prediction), f32 ? 1e-6 : 1e-13);
        assert_line(l, &at, hd_grad(target), f32 ? 1e-6 : 1e-13);
        assert_int_equal(at, l->values);
    }
}
static void mse_agrees_with_pytorch(void **state) {
    (void)state;
    each_line("mse", check_mse);
}

static void mse_is_the_mean_unless_told_otherwise(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = HD_TENSOR_F32(HD_SHAPE(2), 1, 2), *b = HD_TENSOR_F32(HD_SHAPE(2), 4, 6);
    assert_values(hd_mse(a, b, NULL), HD_F32, 12.5);
    assert_int_equal(hd_tensor_rank(hd_mse(a, b, NULL)), 0);
    assert_values(hd_mse(a, b, HD_OPTS(hd_loss_opts, .reduction = HD_REDUCTION_NONE)), HD_F32, 9, 16);
    assert_values(hd_mse(hd_scalar(3, HD_F64), hd_scalar(1, HD_F64), NULL), HD_F64, 4);
}

static void mse_does_not_broadcast(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(4, 1), HD_F32));
    assert_null(hd_mse(x, hd_ones(HD_SHAPE(4), HD_F32), NULL)); /* nearly always a mistake */
    assert_error(HD_ERROR_SHAPE, "hd_mse: prediction [4,1] and target [4]");
    assert_null(hd_mse(NULL, x, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "prediction");
    assert_null(hd_mse(x, NULL, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "target");
    assert_null(hd_mse(x, x, HD_OPTS(hd_loss_opts, .reduction = (hd_reduction_kind)17)));
    assert_error(HD_ERROR_VALUE, "HD_REDUCTION");
    assert_int_equal(hd_tape_length(), 0);
}

/* ---- cross-entropy ----------------------------------------------------------------------------------------------- */
enum { ROWS = 5, CLASSES = 4, NOTHING_IGNORED = -7 };
static const int64_t numbers[ROWS] = {2, 0, 3, 1, 0};
static const double weights[CLASSES] = {0.5, 1.5, 2, 0.25};
static hd_tensor *shares(void) {
    double values[ROWS * CLASSES];
    for (int i = 0; i < ROWS; ++i)
        for (int k = 0; k < CLASSES; ++k) values[i * CLASSES + k] = (double)((i + k) % 4 + 1) / 10;
    return hd_from_data(values, HD_SHAPE(ROWS, CLASSES), HD_F64);
}
static hd_cross_entropy_opts options_of(const line *l) {
    return (hd_cross_entropy_opts){.struct_size = sizeof(hd_cross_entropy_opts),
                                   .reduction = (hd_reduction_kind)l->option[0],
                                   .label_smoothing = l->option[1],
                                   .weight =
                                       l->option[2] != 0 ? hd_from_data(weights, HD_SHAPE(CLASSES), HD_F64) : NULL,
                                   .ignores = l->option[3] != NOTHING_IGNORED,
                                   .ignore_index = (int64_t)l->option[3]};
}

static void check_cross_entropy(const line *l) {
    for (int f32 = 0; f32 < 2; ++f32) {
        const hd_cross_entropy_opts o = options_of(l);
        hd_tensor *logits = hd_param(hd_cast(fixture(3, HD_SHAPE(ROWS, CLASSES)), f32 ? HD_F32 : HD_F64));
        hd_tensor *target = l->option[4] != 0 ? shares() : hd_from_data(numbers, HD_SHAPE(ROWS), HD_I64);
        hd_tensor *loss = hd_cross_entropy(logits, target, &o);
        hd_backward(loss);
        int at = 0;
        assert_line(l, &at, loss, f32 ? 1e-6 : 1e-13);
        assert_line(l, &at, hd_grad(logits), f32 ? 1e-6 : 1e-13);
        assert_int_equal(at, l->values);
    }
}
static void cross_entropy_agrees_with_pytorch(void **state) {
    (void)state;
    each_line("cross_entropy", check_cross_entropy);
}

/* One row without its axis is a batch of one. */
static void check_one_row(const line *l) {
    hd_cross_entropy_opts o = options_of(l);
    hd_tensor *logits = fixture(3, HD_SHAPE(ROWS, CLASSES)), *shared = shares();
    for (int i = 0; i < ROWS; ++i) {
        hd_tensor *batch =
            l->option[4] != 0 ? hd_slice(shared, 0, i, i + 1, 1) : hd_from_data(numbers + i, HD_SHAPE(1), HD_I64);
        hd_tensor *one = hd_squeeze(batch, HD_AXES(0)), *row = hd_select(logits, 0, i);
        hd_tensor *loss = hd_cross_entropy(row, one, &o), *of_batch = hd_cross_entropy(hd_unsqueeze(row, 0), batch, &o);
        assert_int_equal(hd_tensor_rank(loss), 0);
        assert_same(hd_flatten(loss), hd_flatten(of_batch));
    }
}
static void one_row_is_a_batch_of_one(void **state) {
    (void)state;
    each_line("cross_entropy", check_one_row);
}

static void class_numbers_of_every_integer_dtype(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *logits = fixture(3, HD_SHAPE(ROWS, CLASSES)), *target = hd_from_data(numbers, HD_SHAPE(ROWS), HD_I64);
    const double loss = hd_item(hd_cross_entropy(logits, target, NULL));
    static const hd_dtype dtypes[] = {HD_U8, HD_U16, HD_U32, HD_U64, HD_I8, HD_I16, HD_I32};
    for (int i = 0; i < 7; ++i)
        assert_true(hd_item(hd_cross_entropy(logits, hd_cast(target, dtypes[i]), NULL)) == loss);
    hd_tensor *marked = hd_cast(HD_TENSOR_I64(HD_SHAPE(2), 255, 1), HD_U8);
    hd_tensor *two = hd_slice(logits, 0, 0, 2, 1);
    const double second = hd_item(hd_cross_entropy(hd_select(logits, 0, 1), hd_full(HD_SHAPE(), HD_I64, 1), NULL));
    assert_true(hd_item(hd_cross_entropy(
                    two, marked, HD_OPTS(hd_cross_entropy_opts, .ignores = true, .ignore_index = 255))) == second);
    hd_tensor *negative = HD_TENSOR_I64(HD_SHAPE(2), -100, 1); /* PyTorch's mark, when it is asked for */
    assert_true(hd_item(hd_cross_entropy(
                    two, negative, HD_OPTS(hd_cross_entropy_opts, .ignores = true, .ignore_index = -100))) == second);
}

static void a_row_that_is_ignored_has_no_gradient(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *logits = hd_param(HD_TENSOR_F32(HD_SHAPE(2, 2), INFINITY, NAN, 0, 0));
    const hd_cross_entropy_opts o = {.struct_size = sizeof o, .ignores = true, .ignore_index = 9};
    hd_tensor *loss = hd_cross_entropy(logits, HD_TENSOR_I64(HD_SHAPE(2), 9, 0), &o);
    assert_true(fabs(hd_item(loss) - log(2)) < 1e-6);
    hd_tensor *finite = hd_param(hd_zeros(HD_SHAPE(2, 2), HD_F32));
    hd_backward(hd_cross_entropy(finite, HD_TENSOR_I64(HD_SHAPE(2), 9, 0), &o));
    assert_values(hd_grad(finite), HD_F32, 0, 0, -0.5, 0.5);
    assert_true(isnan(hd_item(hd_cross_entropy(finite, HD_TENSOR_I64(HD_SHAPE(2), 9, 9), &o)))); /* a mean of nothing */
    const hd_cross_entropy_opts sum = {
        .struct_size = sizeof sum, .ignores = true, .ignore_index = 9, .reduction = HD_REDUCTION_SUM};
    assert_values(hd_cross_entropy(finite, HD_TENSOR_I64(HD_SHAPE(2), 9, 9), &sum), HD_F32, 0);
}

static void large_logits_do_not_overflow(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *logits = hd_param(HD_TENSOR_F32(HD_SHAPE(1, 3), 1e4, -1e4, 0));
    hd_tensor *loss = hd_cross_entropy(logits, HD_TENSOR_I64(HD_SHAPE(1), 1), NULL);
    assert_values(loss, HD_F32, 20000);
    hd_backward(loss);
    assert_values(hd_grad(logits), HD_F32, 1, -1, 0);
    hd_tensor *half = hd_cast(HD_TENSOR_F32(HD_SHAPE(1, 2), 60000, 0), HD_F16);
    assert_values(hd_cross_entropy(half, HD_TENSOR_I64(HD_SHAPE(1), 0), NULL), HD_F16, 0);
}

static void gradients_reach_target_shares(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *logits = hd_zeros(HD_SHAPE(1, 2), HD_F64), *target = hd_param(hd_full(HD_SHAPE(1, 2), HD_F64, 0.5));
    hd_backward(hd_cross_entropy(logits, target, NULL));
    assert_close(hd_grad(target), hd_full(HD_SHAPE(1, 2), HD_F64, log(2)), 1e-14, HD_ZERO);
}

static void what_does_not_fit_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *logits = hd_param(hd_ones(HD_SHAPE(2, 3), HD_F32)), *target = HD_TENSOR_I64(HD_SHAPE(2), 0, 2);
    assert_null(hd_cross_entropy(logits, HD_TENSOR_I64(HD_SHAPE(2), 0, 3), NULL));
    assert_error(HD_ERROR_INDEX, "hd_cross_entropy");
    assert_null(hd_cross_entropy(logits, HD_TENSOR_I64(HD_SHAPE(3), 0, 1, 2), NULL));
    assert_error(HD_ERROR_SHAPE, "[3]");
    assert_null(hd_cross_entropy(logits, hd_ones(HD_SHAPE(2), HD_F32), NULL));
    assert_error(HD_ERROR_SHAPE, "f32");
    assert_null(hd_cross_entropy(logits, hd_ones(HD_SHAPE(2), HD_BOOL), NULL));
    assert_error(HD_ERROR_SHAPE, "bool");
    assert_null(hd_cross_entropy(hd_ones(HD_SHAPE(2, 3, 4), HD_F32), target, NULL));
    assert_error(HD_ERROR_SHAPE, "[2,3,4]");
    assert_null(hd_cross_entropy(hd_ones(HD_SHAPE(), HD_F32), target, NULL));
    assert_error(HD_ERROR_SHAPE, "hd_cross_entropy");
    static const double smoothing[] = {-0.1, 1.5, NAN};
    for (int i = 0; i < 3; ++i) {
        assert_null(hd_cross_entropy(logits, target, HD_OPTS(hd_cross_entropy_opts, .label_smoothing = smoothing[i])));
        assert_error(HD_ERROR_VALUE, "label_smoothing");
    }
    assert_null(
        hd_cross_entropy(logits, target, HD_OPTS(hd_cross_entropy_opts, .weight = hd_ones(HD_SHAPE(2), HD_F32))));
    assert_error(HD_ERROR_SHAPE, "3 classes");
    assert_null(
        hd_cross_entropy(logits, hd_ones(HD_SHAPE(2, 3), HD_F32), HD_OPTS(hd_cross_entropy_opts, .ignores = true)));
    assert_error(HD_ERROR_VALUE, "ignore_index");
    assert_null(hd_cross_entropy(logits, target, HD_OPTS(hd_cross_entropy_opts, .reduction = (hd_reduction_kind)-1)));
    assert_error(HD_ERROR_VALUE, "HD_REDUCTION");
    assert_null(hd_cross_entropy(NULL, target, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "logits");
    assert_null(hd_cross_entropy(logits, NULL, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "target");
    hd_backward(hd_cross_entropy(logits, target, NULL));
    assert_close(hd_sum(hd_grad(logits), HD_AXES(), NULL), hd_zeros(HD_SHAPE(), HD_F32), HD_ZERO, 1e-7);
}

static void a_negative_class_number_is_an_error(void **state) {
    (void)state;
    HD_SCOPE; /* -1 is how many data sets mark a row to leave out: it must not mean the last class */
    hd_tensor *logits = hd_ones(HD_SHAPE(2, 3), HD_F32);
    assert_null(hd_cross_entropy(logits, HD_TENSOR_I64(HD_SHAPE(2), 0, -1), NULL));
    assert_error(HD_ERROR_INDEX, "-1");
}

RUN(test(mse_agrees_with_pytorch), test(mse_is_the_mean_unless_told_otherwise), test(mse_does_not_broadcast),
    test(cross_entropy_agrees_with_pytorch), test(one_row_is_a_batch_of_one),
    test(class_numbers_of_every_integer_dtype), test(a_row_that_is_ignored_has_no_gradient),
    test(large_logits_do_not_overflow), test(gradients_reach_target_shares), test(what_does_not_fit_is_an_error),
    test(a_negative_class_number_is_an_error))
