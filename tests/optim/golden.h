/* What PyTorch says about optimizers (tests/golden/optim.txt, by make_optim.py), and the training that its script does. */
#ifndef HD_TESTS_OPTIM_GOLDEN_H
#define HD_TESTS_OPTIM_GOLDEN_H

#include "support.h"

/* A line `kind options -> values`. */
typedef struct golden {
    double options[10], values[64];
    int option_count, count;
} golden;

/* Calls check for each line of a kind, of which there are so many. */
static inline void golden_lines(const char *kind, int lines, void (*check)(const golden *line)) {
    char path[1024];
    snprintf(path, sizeof path, "%s/../golden/optim.txt", HODU_TEST_DATA);
    FILE *file = fopen(path, "r");
    if (file == NULL) fail_msg("cannot open %s", path);
    static char text[1 << 14];
    const size_t length = strlen(kind);
    int found = 0;
    while (fgets(text, sizeof text, file) != NULL) {
        if (strncmp(text, kind, length) != 0 || text[length] != ' ') continue;
        golden line = {.count = 0};
        char *at = text + length;
        while (at[1] != '-' || at[2] != '>') line.options[line.option_count++] = strtod(at, &at);
        for (at += 3; *at != '\n'; ++line.count) line.values[line.count] = strtod(at, &at);
        check(&line);
        ++found;
    }
    fclose(file);
    assert_int_equal(found, lines);
}

static inline hd_tensor *fixture(int which, hd_shape shape, double divisor, hd_dtype dtype) {
    double values[64];
    const int64_t count = hd_shape_count(shape);
    for (int64_t i = 0; i < count; ++i) values[i] = (double)((i * 37 + 11 * which) % 101 - 50) / 32 / divisor;
    return hd_cast(hd_from_data(values, shape, HD_F64), dtype);
}

/* The parameters that the script trains, and what they are trained on. */
typedef struct lesson {
    hd_tensor *x, *target, *w, *b;
} lesson;
static inline lesson lesson_begin(hd_dtype dtype) {
    return (lesson){fixture(4, HD_SHAPE(6, 3), 1, dtype), fixture(5, HD_SHAPE(6, 2), 1, dtype),
                    hd_param(fixture(6, HD_SHAPE(3, 2), 2, dtype)), hd_param(fixture(7, HD_SHAPE(2), 2, dtype))};
}
static inline hd_tensor *lesson_loss(const lesson *l) {
    return hd_mse(hd_tanh(hd_add(hd_matmul(l->x, l->w), l->b)), l->target, NULL);
}

enum { LESSON_STEPS = 20, LESSON_NUMBERS = 8 };
/* Takes 20 steps as the script does, and compares both parameters where it has shown them. */
static inline void lesson_compare(hd_optimizer *(*make)(const lesson *, const double *), const golden *line,
                                  hd_dtype dtype, double tolerance) {
    static const int shown[] = {1, 2, 3, 10, 11, 20};
    assert_int_equal(line->count, LESSON_NUMBERS * 6);
    HD_SCOPE;
    const lesson l = lesson_begin(dtype);
    hd_optimizer *optimizer = make(&l, line->options);
    assert_ok();
    for (int step = 1, at = 0; step <= LESSON_STEPS; ++step) {
        HD_SCOPE;
        if (step == 11) hd_optimizer_set_learning_rate(optimizer, hd_item(hd_optimizer_learning_rate(optimizer)) / 2);
        hd_optimizer_zero_grad(optimizer);
        hd_backward(lesson_loss(&l));
        hd_optimizer_step(optimizer);
        assert_ok();
        assert_true(hd_item(hd_optimizer_steps(optimizer)) == step);
        if (step != shown[at]) continue;
        const double *v = line->values + LESSON_NUMBERS * at++;
        assert_close(l.w, hd_from_data(v, HD_SHAPE(3, 2), HD_F64), tolerance, tolerance);
        assert_close(l.b, hd_from_data(v + 6, HD_SHAPE(2), HD_F64), tolerance, tolerance);
    }
    hd_clear_tape();
}

#endif
