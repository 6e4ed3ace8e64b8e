/* Initial values of parameters. Each call writes a tensor in place, at once, also in a block where a builder records,
 * and without a tape, and returns it. Draws are those of the thread's generator. The names and defaults are PyTorch's.
 */
#ifndef HODU_INIT_H
#define HODU_INIT_H

#include <hodu/tensor.h>

HD_BEGIN_DECLS
/* Uniform from low up to high. */
HD_API hd_tensor *hd_init_uniform(hd_tensor *t, double low, double high);
HD_API hd_tensor *hd_init_normal(hd_tensor *t, double mean, double deviation);
/* Normal, drawn again where it would lie outside low to high. */
HD_API hd_tensor *hd_init_trunc_normal(hd_tensor *t, double mean, double deviation, double low, double high);
HD_API hd_tensor *hd_init_constant(hd_tensor *t, double value);
HD_API hd_tensor *hd_init_ones(hd_tensor *t);
HD_API hd_tensor *hd_init_zeros(hd_tensor *t);
/* Ones on the diagonal of a matrix, and zeros. */
HD_API hd_tensor *hd_init_eye(hd_tensor *t);
/* For a weight of a convolution on 1 to 3 axes, [out, in, ...]: in each of the groups channel i comes out as it went
 * in, as far as there are such channels. */
HD_API hd_tensor *hd_init_dirac(hd_tensor *t, int64_t groups);
/* Rows (or columns, when there are fewer) that are orthogonal and of length `gain`: of t as a matrix, its first axis by
 * all others. */
HD_API hd_tensor *hd_init_orthogonal(hd_tensor *t, double gain);

/* ---- by fans: of [out, in, ...] fan in is in times the size of the axes behind, fan out is out times that ---- */
typedef enum hd_nonlinearity {
    HD_NONLINEARITY_DEFAULT,
    HD_NONLINEARITY_LINEAR, /* none, and convolutions */
    HD_NONLINEARITY_SIGMOID,
    HD_NONLINEARITY_TANH,
    HD_NONLINEARITY_RELU,
    HD_NONLINEARITY_LEAKY_RELU,
    HD_NONLINEARITY_SELU
} hd_nonlinearity;
/* What keeps the deviation of values the same behind it: 1, 5/3 for tanh, sqrt(2) for relu, sqrt(2 / (1 + slope^2)) for
 * leaky relu, 3/4 for selu. `slope` is of leaky relu alone. */
HD_API double hd_init_gain(hd_nonlinearity nonlinearity, double slope);
/* Uniform within gain sqrt(6 / (fan in + fan out)); normal with the deviation gain sqrt(2 / (fan in + fan out)). */
HD_API hd_tensor *hd_init_xavier_uniform(hd_tensor *t, double gain);
HD_API hd_tensor *hd_init_xavier_normal(hd_tensor *t, double gain);

typedef struct hd_kaiming_opts {
    size_t struct_size;
    bool fan_out;                 /* keeps the size of gradients, instead of values */
    hd_nonlinearity nonlinearity; /* leaky relu by default */
    double slope;                 /* of leaky relu; 0, the default, is relu */
} hd_kaiming_opts;
/* Uniform within gain sqrt(3 / fan); normal with the deviation gain / sqrt(fan). */
HD_API hd_tensor *hd_init_kaiming_uniform(hd_tensor *t, const hd_kaiming_opts *opts);
HD_API hd_tensor *hd_init_kaiming_normal(hd_tensor *t, const hd_kaiming_opts *opts);
HD_END_DECLS

#endif
