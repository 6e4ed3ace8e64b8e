/* What happens when a custom context is never cleared: its tape keeps every epoch, which costs memory. The library says
 * so, once, and goes on computing what is right. The cure is hd_clear_tape() at the end of every epoch. */
#define _POSIX_C_SOURCE 200809L /* dup, dup2: to see what is written to stderr */
#include "check.h"

#include <string.h>
#include <unistd.h>

/* The guide's loop: trains, and returns how long the tape was after each of the epochs. */
static void train_without_clearing(int epochs, hd_module *model, hd_tensor *input, int64_t *length) {
    HD_SCOPE;
    hd_optimizer *optimizer = hd_sgd(hd_module_parameters(model), 0.01, NULL);
    for (int epoch = 0; epoch < epochs; ++epoch) {
        HD_SCOPE;
        hd_tensor *output = hd_forward(model, input);
        hd_tensor *loss = hd_mean(output, HD_AXES(), NULL);
        hd_backward(loss);
        hd_optimizer_step(optimizer);
        hd_optimizer_zero_grad(optimizer);
        length[epoch] = hd_tape_length(); /* wrong: no hd_clear_tape() here */
    }
}

enum { EPOCHS = 10000 };

int main(void) {
    HD_SCOPE;
    hd_seed(9);
    hd_tensor *input = hd_randn(HD_SHAPE(32, 10), HD_F64); /* f64: 10000 steps would gather f32's rounding */
    hd_module *model = hd_linear(10, 5, HD_OPTS(hd_linear_opts, .dtype = HD_F64));
    hd_tensor *start = snapshot(hd_module_get(model, "weight"));
    static int64_t length[EPOCHS];
    const int64_t bytes = hd_memory().live_bytes;

    /* Standard error into a file for a while. */
    FILE *caught = tmpfile();
    CHECK(caught);
    fflush(stderr);
    const int terminal = dup(STDERR_FILENO);
    dup2(fileno(caught), STDERR_FILENO);

    HD_GRAD_CONTEXT;
    train_without_clearing(EPOCHS, model, input, length);

    fflush(stderr);
    dup2(terminal, STDERR_FILENO);
    close(terminal);

    /* The tape holds every epoch, and with it the output of each. */
    const int64_t held = hd_memory().live_bytes - bytes;
    CHECK(length[0] > 0);
    for (int epoch = 0; epoch < EPOCHS; ++epoch) CHECK_EQUAL(length[epoch], (epoch + 1) * length[0]);
    CHECK(held > 0);
    printf("records: %" PRId64 " after one epoch, %" PRId64 " after %d; the tensors they hold are %.1f MB\n", length[0],
           length[EPOCHS - 1], EPOCHS, (double)held * 1e-6);

    /* It was warned about, once. */
    int lines = 0, warnings = 0;
    char line[512];
    rewind(caught);
    for (; fgets(line, sizeof line, caught); ++lines) {
        printf("stderr: %s", line);
        warnings += strstr(line, "the tape of gradient context 1 has") != NULL && strstr(line, "hd_clear_tape") != NULL;
    }
    fclose(caught);
    CHECK_EQUAL(lines, 1);
    CHECK_EQUAL(warnings, 1);

    /* And the result is right: 10000 equal steps of 0.01 times the gradient of mean(input weight^T + bias). */
    hd_tensor *gradient = hd_t(gradient_of_mean(input, hd_t(start))); /* [5,10] */
    CHECK_CLOSE(hd_module_get(model, "weight"), hd_sub(start, hd_mul_scalar(gradient, EPOCHS * 0.01)));

    hd_clear_tape(); /* the cure */
    CHECK_EQUAL(hd_tape_length(), 0);
    return hd_exit_status();
}
