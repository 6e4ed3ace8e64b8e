/* O0 does what was recorded as dynamic execution does it, bit for bit, also with what was written in place: a
 * destination lies in its rows after a write, whatever was written, so that sums over it add up in the same order. */
#include "graph/calls.h"

/* The script of run(in), with the output y, and its inputs set. */
static hd_script *recorded_run(const char *name, hd_tensor **in, int count,
                               hd_tensor *(*run)(hd_tensor **in, const void *user), const void *user) {
    static const char *const names[] = {"a", "b"};
    hd_builder *b = started(name);
    hd_tensor *inputs[2] = {NULL};
    for (int i = 0; i < count; ++i) inputs[i] = hd_input(names[i], hd_tensor_shape(in[i]), hd_tensor_dtype(in[i]));
    hd_builder_add_output(b, "y", run(inputs, user));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    if (s == NULL) fail_msg("%s: %s", name, hd_error_message());
    for (int i = 0; i < count; ++i) hd_script_set_input(s, names[i], in[i]);
    return s;
}

/* y recorded from inputs and run at O0 is y computed at once, bit for bit. */
static void at_O0_as_at_once(const char *name, hd_tensor **in, int count,
                             hd_tensor *(*run)(hd_tensor **in, const void *user), const void *user) {
    hd_tensor *at_once = run(in, user);
    if (!hd_ok()) fail_msg("%s: %s", name, hd_error_message());
    hd_script *s = recorded_run(name, in, count, run, user);
    hd_script_set_optimization_level(s, HD_O0);
    const char *why = difference_within(hd_outputs_get(hd_script_run(s), "y"), at_once, 0);
    if (why[0] != '\0') fail_msg("%s at O0: %s", name, why);
}

/* Into y, a copy of a: [n, m]; b is [m, n]. */
#define WRITES(WRITE)                                                                                                  \
    WRITE(filled, hd_fill(y, 0.932))                                                                                   \
    WRITE(zeroed, hd_zero_(y))                                                                                         \
    WRITE(stretched, hd_assign(y, hd_slice(a, 0, 0, 1, 1)))                                                            \
    WRITE(stretched_column, hd_assign(y, hd_slice(a, 1, 1, 2, 1)))                                                     \
    WRITE(stretched_and_cast, hd_assign(y, hd_cast(hd_slice(a, 0, 0, 1, 1), HD_F64)))                                  \
    WRITE(turned, hd_assign(y, hd_t(b)))                                                                               \
    WRITE(turned_and_cast, hd_assign(y, hd_t(hd_cast(b, HD_F64))))                                                     \
    WRITE(flipped, hd_assign(y, hd_flip(a, X())))                                                                      \
    WRITE(view_of_itself, hd_assign(y, hd_flip(y, X(0))))                                                              \
    WRITE(first_column, hd_fill(hd_slice(y, 1, 0, 1, 1), 0.1))                                                         \
    WRITE(every_other_row, hd_assign(hd_slice(y, 0, 0, HD_END, 2), hd_slice(hd_t(b), 0, 0, HD_END, 2)))                \
    WRITE(one_row, hd_assign(hd_slice(y, 0, 1, 2, 1), hd_slice(a, 0, 0, 1, 1)))                                        \
    WRITE(through_its_transpose, hd_assign(hd_t(y), b))                                                                \
    WRITE(added, hd_add_(y, hd_slice(a, 0, 0, 1, 1)))                                                                  \
    WRITE(multiplied, hd_mul_(hd_t(y), b))
#define READS(READ)                                                                                                    \
    READ(whole, hd_sum(y, X(), NULL))                                                                                  \
    READ(variance, hd_var(y, X(), 1, NULL))                                                                            \
    READ(rows, hd_sum(y, X(1), NULL))                                                                                  \
    READ(columns, hd_sum(y, X(0), NULL))                                                                               \
    READ(turned_rows, hd_sum(hd_t(y), X(0), NULL))                                                                     \
    READ(flat, hd_mean(hd_flatten(y), X(0), NULL))                                                                     \
    READ(softmax, hd_softmax(y, 0))                                                                                    \
    READ(normalised, hd_rms_norm(y, NULL, 1e-5))                                                                       \
    READ(product, hd_matmul(y, b))                                                                                     \
    READ(turned_product, hd_matmul(hd_t(y), a))                                                                        \
    READ(older_row, hd_matmul(row, b))                                                                                 \
    READ(older_column, hd_matmul(hd_t(column), a))
#define WRITE_FUNCTION(label, ...)                                                                                     \
    static void write_##label(hd_tensor *y, hd_tensor *a, hd_tensor *b) {                                              \
        (void)a, (void)b;                                                                                              \
        __VA_ARGS__;                                                                                                   \
    }
WRITES(WRITE_FUNCTION)
#define READ_FUNCTION(label, ...)                                                                                      \
    static hd_tensor *read_##label(hd_tensor *y, hd_tensor *a, hd_tensor *b, hd_tensor *row, hd_tensor *column) {      \
        (void)y, (void)a, (void)b, (void)row, (void)column;                                                            \
        return __VA_ARGS__;                                                                                            \
    }
READS(READ_FUNCTION)

typedef struct written_and_read {
    const char *name;
    void (*write)(hd_tensor *y, hd_tensor *a, hd_tensor *b);
    hd_tensor *(*read)(hd_tensor *y, hd_tensor *a, hd_tensor *b, hd_tensor *row, hd_tensor *column);
} written_and_read;
static hd_tensor *write_and_read(hd_tensor **in, const void *user) {
    const written_and_read *both = user;
    hd_tensor *y = hd_copy(in[0]), *row = hd_slice(y, 0, 1, 2, 1), *column = hd_slice(y, 1, 1, 2, 1);
    both->write(y, in[0], in[1]);
    return both->read(y, in[0], in[1], row, column);
}

static void what_was_written_adds_up_in_the_same_order(void **state) {
    (void)state;
#define WRITE_ROW(label, ...) {#label, write_##label},
#define READ_ROW(label, ...)  {#label, read_##label},
    static const struct {
        const char *name;
        void (*write)(hd_tensor *y, hd_tensor *a, hd_tensor *b);
    } writes[] = {WRITES(WRITE_ROW)};
    static const struct {
        const char *name;
        hd_tensor *(*read)(hd_tensor *y, hd_tensor *a, hd_tensor *b, hd_tensor *row, hd_tensor *column);
    } reads[] = {READS(READ_ROW)};
    HD_SCOPE;
    hd_tensor *in[2] = {operand(S(257, 16), 0, HD_F32), operand(S(16, 257), 1, HD_F32)};
    for (size_t w = 0; w < sizeof writes / sizeof writes[0]; ++w)
        for (size_t r = 0; r < sizeof reads / sizeof reads[0]; ++r) {
            HD_SCOPE;
            char name[64];
            snprintf(name, sizeof name, "%s, %s", writes[w].name, reads[r].name);
            const written_and_read both = {name, writes[w].write, reads[r].read};
            at_O0_as_at_once(name, in, 2, write_and_read, &both);
        }
}

RUN(test(what_was_written_adds_up_in_the_same_order))
