/* What the programs here claim, they check: a claim that does not hold is printed and ends the program with 1. */
#ifndef HODU_TAPE_CHECK_H
#define HODU_TAPE_CHECK_H

#include <hodu/hodu.h>

#include <inttypes.h>
#include <stdio.h>

#define CHECK(claim)                                                                                                   \
    do {                                                                                                               \
        if (!(claim)) {                                                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim);                                        \
            (void)hd_exit_status(); /* prints the pending error, if that is the reason */                              \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

#define CHECK_EQUAL(number, expected)                                                                                  \
    do {                                                                                                               \
        const int64_t is_ = (number), should_ = (expected);                                                            \
        if (is_ != should_) {                                                                                          \
            fprintf(stderr, "%s:%d: %s is %" PRId64 ", not %" PRId64 "\n", __FILE__, __LINE__, #number, is_, should_); \
            (void)hd_exit_status();                                                                                    \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Tensors agree up to the rounding of a hundred steps in f32. */
#define CHECK_CLOSE(tensor, expected)                                                                                  \
    do {                                                                                                               \
        char why_[256] = "";                                                                                           \
        if (!hd_allclose((tensor), (expected),                                                                         \
                         HD_OPTS(hd_allclose_opts, .relative = 1e-4, .absolute = 1e-5, .explain = why_,                \
                                 .explain_capacity = sizeof why_))) {                                                  \
            fprintf(stderr, "%s:%d: %s is not %s: %s\n", __FILE__, __LINE__, #tensor, #expected, why_);                \
            (void)hd_exit_status();                                                                                    \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

/* The values of x now, off every tape: to compare with later. */
static inline hd_tensor *snapshot(hd_tensor *x) { return hd_copy(hd_detach(x)); }

/* The gradient of mean(input weight) for weight [in,out]: every column is the mean row of input [n,in], over out. */
static inline hd_tensor *gradient_of_mean(hd_tensor *input, hd_tensor *weight) {
    hd_tensor *mean_row = hd_mean(hd_detach(input), HD_AXES(0), NULL); /* [in] */
    hd_tensor *column = hd_div_scalar(hd_unsqueeze(mean_row, 1), (double)hd_tensor_size(weight, 1));
    return hd_broadcast_to(column, hd_tensor_shape(weight)); /* [in,out] */
}

/* Adam's step for a gradient that never changes, per learning rate: its moments are the gradient and its square, so the
 * step is the gradient's sign, but for the epsilon, whatever the gradient's size. */
static inline hd_tensor *adam_step(hd_tensor *gradient) {
    return hd_div(gradient, hd_add_scalar(hd_abs(gradient), 1e-8));
}

#endif
