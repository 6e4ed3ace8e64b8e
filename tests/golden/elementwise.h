/* Golden values of the elementwise rows: tests/golden/elementwise.txt, read block by block, and the points at which our
 * values are another decision than PyTorch's. Included by the tests that compare values with them. */
#ifndef HD_TESTS_GOLDEN_ELEMENTWISE_H
#define HD_TESTS_GOLDEN_ELEMENTWISE_H

#include "golden/rows.h"

enum { MOST_POINTS = 512 };

typedef struct block { /* the points of one `row` line */
    int id, operands, count, gradients;
    bool integers;
    hd_dtype dtype; /* of integers */
    double number[3];
    double in[3][MOST_POINTS], value[MOST_POINTS], gradient[3][MOST_POINTS];
    int64_t whole[3][MOST_POINTS], whole_value[MOST_POINTS];
} block;

/* ---- exceptions -------------------------------------------------------------------------------------------------- */
typedef struct exception {
    int id, digits; /* digits: 53 when only float64 is excepted, 0 for both */
    bool (*at)(double a, double b);
    const char *reason;
} exception;

static bool leaves_zero(double a, double b) { return fmod(a, b) == 0; }
static bool near_a_pole(double a, double b) { return (void)b, a < 0 && fabs(a - rint(a)) < 1e-6; }

static bool in_the_tail(double a, double b) { return (void)b, a < -4; }
static bool infinite(double a, double b) { return (void)b, isinf(a); }
static bool zero(double a, double b) { return (void)b, a == 0; }

static const exception value_exceptions[] = {
    {HD_OP_mod, 0, leaves_zero, "a zero has the sign of b, as in Python and NumPy; PyTorch leaves a's"},
    {HD_OP_digamma, 53, near_a_pole, "PyTorch takes pi / tan(pi x) without reducing x exactly"},
    {HD_OP_ndtr, 53, in_the_tail, "the reference rounds x / sqrt 2 before the tail of erfc"},
    {HD_OP_i0, 0, infinite, "infinite; PyTorch's is NaN"},
    {HD_OP_i1, 0, infinite, "infinite; PyTorch's is NaN"},
    {HD_OP_i1, 0, zero, "-0 at -0, as i1 is odd; PyTorch's is 0"},
};
#define EXCEPTED(table, b, i, digits) excepted(table, sizeof(table) / sizeof(table[0]), b, i, digits)
static inline bool excepted(const exception *table, size_t count, const block *b, int i, int digits) {
    for (size_t k = 0; k < count; ++k)
        if (table[k].id == b->id && (table[k].digits == 0 || table[k].digits == digits) &&
            table[k].at(b->in[0][i], b->in[1][i]))
            return true;
    return false;
}

/* ---- reading the file -------------------------------------------------------------------------------------------- */
static inline int row_named(const char *name) {
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        if (strcmp(row_name(id), name) == 0) return id;
    fail_msg("elementwise.txt has a row %s that is no op: run make_golden.py again", name);
    return -1;
}

static inline hd_dtype dtype_named(const char *name) {
    for (int d = 1; d < HD_DTYPE_COUNT; ++d)
        if (strcmp(hd_dtype_name((hd_dtype)d), name) == 0) return (hd_dtype)d;
    return HD_DTYPE_DEFAULT;
}

static inline void begin_block(block *b, char *line) {
    char name[64], dtype[16];
    int used = 0;
    assert_int_equal(sscanf(line, "row %63s %15s %d%n", name, dtype, &b->operands, &used), 3);
    b->id = row_named(name);
    b->count = 0;
    b->dtype = dtype_named(dtype);
    b->integers = b->dtype != HD_DTYPE_DEFAULT;
    b->gradients = b->integers || hd_rows[b->id].gives_bool ? 0 : b->operands - hd_rows[b->id].chooses;
    assert_int_equal(b->operands, hd_rows[b->id].operands);
    char *at = line + used;
    for (int k = 0; k < hd_rows[b->id].numbers; ++k) b->number[k] = strtod(at, &at);
}

static inline void read_point(block *b, char *line) {
    assert_true(b->count < MOST_POINTS);
    const int i = b->count++;
    char *at = line;
    if (b->integers) {
        for (int k = 0; k < b->operands; ++k) b->whole[k][i] = strtoll(at, &at, 10);
        b->whole_value[i] = strtoll(at, &at, 10);
    } else {
        for (int k = 0; k < b->operands; ++k) b->in[k][i] = (double)strtof(at, &at);
        b->value[i] = strtod(at, &at);
        for (int k = 0; k < b->gradients; ++k) b->gradient[k][i] = strtod(at, &at);
    }
    if (*at != '\n') fail_msg("%s: line \"%s\" is not of %d operands", row_name(b->id), line, b->operands);
}

static inline double largest_operand(const block *b, int i) {
    double most = 0;
    for (int k = 0; k < b->operands; ++k)
        if (isfinite(b->in[k][i])) most = fmax(most, fabs(b->in[k][i]));
    return most;
}

/* A unit of f32 is a row's column; float64 of PyTorch is itself only good to a few. */
static inline double golden_ulps(int id, int digits) {
    const double column = (double)fabsf(hd_rows[id].ulp);
    return digits == 24 ? column : fmax(16, 8 * column);
}

/* Every block to `check`; *upstream: the gradient that golden gradients were made with. */
static inline void read_golden(block *b, double *upstream, void (*check)(const block *b)) {
    char path[1024], line[256];
    snprintf(path, sizeof path, "%.*s/golden/elementwise.txt", (int)(sizeof HODU_TEST_DATA - sizeof "/data"),
             HODU_TEST_DATA);
    FILE *file = fopen(path, "r");
    if (file == NULL) fail_msg("cannot open %s", path);
    int points[HD_OP_ELEMENTWISE_COUNT] = {0}, total = 0;
    b->count = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#') continue;
        if (strncmp(line, "gradient ", 9) == 0) {
            *upstream = strtod(line + 9, NULL);
        } else if (strncmp(line, "row ", 4) == 0) {
            if (b->count > 0) check(b);
            begin_block(b, line);
        } else {
            read_point(b, line);
            ++points[b->id], ++total;
        }
    }
    if (b->count > 0) check(b);
    fclose(file);
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        if (points[id] == 0) fail_msg("no golden values for %s: run tests/golden/make_golden.py", row_name(id));
    printf("%d rows, %d points\n", HD_OP_ELEMENTWISE_COUNT, total);
}

#endif
