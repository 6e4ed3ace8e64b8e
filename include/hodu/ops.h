/* Every op, written by tools/generate.c from src/ops/elementwise.def and src/ops/ops.def: edit those.
 * An op returns a new tensor that belongs to the current scope, or a list of such, or NULL when an error is
 * pending. Views, and hd_bitcast, always share the memory of x; all others never do, whatever their arguments. The
 * exceptions say so: hd_cast and hd_contiguous may return x itself, hd_reshape and hd_flatten may copy. */
#ifndef HODU_OPS_H
#define HODU_OPS_H

#include <hodu/op_options.h>
#include <hodu/tensor.h>

HD_BEGIN_DECLS
/* ---- Elementwise: operands broadcast and promote; hd_X_scalar takes a C number as second operand ---- */
/* -x (floats and integers) */
HD_API hd_tensor *hd_neg(hd_tensor *x);
/* |x| (floats and integers) */
HD_API hd_tensor *hd_abs(hd_tensor *x);
/* -1, 0 or 1 by the sign of x; NaN stays (floats and integers) */
HD_API hd_tensor *hd_sign(hd_tensor *x);
/* x * x (floats and integers) */
HD_API hd_tensor *hd_square(hd_tensor *x);
/* square root; NaN below 0 (floats; integers become the default float) */
HD_API hd_tensor *hd_sqrt(hd_tensor *x);
/* 1 / sqrt(x) (floats; integers become the default float) */
HD_API hd_tensor *hd_rsqrt(hd_tensor *x);
/* 1 / x (floats; integers become the default float) */
HD_API hd_tensor *hd_recip(hd_tensor *x);
/* largest integer <= x (floats and integers) */
HD_API hd_tensor *hd_floor(hd_tensor *x);
/* smallest integer >= x (floats and integers) */
HD_API hd_tensor *hd_ceil(hd_tensor *x);
/* nearest integer, halves to even (floats and integers) */
HD_API hd_tensor *hd_round(hd_tensor *x);
/* x without its fraction (floats and integers) */
HD_API hd_tensor *hd_trunc(hd_tensor *x);
/* bits of x flipped; of bool: not (integers and bool) */
HD_API hd_tensor *hd_bitwise_not(hd_tensor *x);
/* e^x (floats; integers become the default float) */
HD_API hd_tensor *hd_exp(hd_tensor *x);
/* 2^x (floats; integers become the default float) */
HD_API hd_tensor *hd_exp2(hd_tensor *x);
/* 10^x (floats; integers become the default float) */
HD_API hd_tensor *hd_exp10(hd_tensor *x);
/* e^x - 1, exact near 0 (floats; integers become the default float) */
HD_API hd_tensor *hd_expm1(hd_tensor *x);
/* natural logarithm; -inf at 0, NaN below (floats; integers become the default float) */
HD_API hd_tensor *hd_log(hd_tensor *x);
/* base-2 logarithm (floats; integers become the default float) */
HD_API hd_tensor *hd_log2(hd_tensor *x);
/* base-10 logarithm (floats; integers become the default float) */
HD_API hd_tensor *hd_log10(hd_tensor *x);
/* log(1 + x), exact near 0 (floats; integers become the default float) */
HD_API hd_tensor *hd_log1p(hd_tensor *x);
/* sine of radians (floats; integers become the default float) */
HD_API hd_tensor *hd_sin(hd_tensor *x);
/* cosine of radians (floats; integers become the default float) */
HD_API hd_tensor *hd_cos(hd_tensor *x);
/* tangent of radians (floats; integers become the default float) */
HD_API hd_tensor *hd_tan(hd_tensor *x);
/* inverse sine; NaN outside [-1, 1] (floats; integers become the default float) */
HD_API hd_tensor *hd_asin(hd_tensor *x);
/* inverse cosine; NaN outside [-1, 1] (floats; integers become the default float) */
HD_API hd_tensor *hd_acos(hd_tensor *x);
/* inverse tangent (floats; integers become the default float) */
HD_API hd_tensor *hd_atan(hd_tensor *x);
/* hyperbolic sine (floats; integers become the default float) */
HD_API hd_tensor *hd_sinh(hd_tensor *x);
/* hyperbolic cosine (floats; integers become the default float) */
HD_API hd_tensor *hd_cosh(hd_tensor *x);
/* hyperbolic tangent (floats; integers become the default float) */
HD_API hd_tensor *hd_tanh(hd_tensor *x);
/* inverse hyperbolic sine (floats; integers become the default float) */
HD_API hd_tensor *hd_asinh(hd_tensor *x);
/* inverse hyperbolic cosine; NaN below 1 (floats; integers become the default float) */
HD_API hd_tensor *hd_acosh(hd_tensor *x);
/* inverse hyperbolic tangent; NaN outside [-1, 1] (floats; integers become the default float) */
HD_API hd_tensor *hd_atanh(hd_tensor *x);
/* error function (floats; integers become the default float) */
HD_API hd_tensor *hd_erf(hd_tensor *x);
/* 1 - erf(x), exact in the tail (floats; integers become the default float) */
HD_API hd_tensor *hd_erfc(hd_tensor *x);
/* inverse error function; NaN outside [-1, 1] (floats; integers become the default float) */
HD_API hd_tensor *hd_erfinv(hd_tensor *x);
/* log |gamma(x)| (floats; integers become the default float) */
HD_API hd_tensor *hd_lgamma(hd_tensor *x);
/* derivative of lgamma; has no second derivative, as there is no op for the first (floats; integers become the
 * default float) */
HD_API hd_tensor *hd_digamma(hd_tensor *x);
/* 1 / (1 + e^-x) (floats; integers become the default float) */
HD_API hd_tensor *hd_sigmoid(hd_tensor *x);
/* log(sigmoid(x)), never -inf by underflow (floats; integers become the default float) */
HD_API hd_tensor *hd_log_sigmoid(hd_tensor *x);
/* max(x, 0) (floats and integers) */
HD_API hd_tensor *hd_relu(hd_tensor *x);
/* x limited to [0, 6] (floats and integers) */
HD_API hd_tensor *hd_relu6(hd_tensor *x);
/* x * P(N(0,1) <= x), by the error function (floats; integers become the default float) */
HD_API hd_tensor *hd_gelu(hd_tensor *x);
/* gelu in its tanh approximation (floats; integers become the default float) */
HD_API hd_tensor *hd_gelu_tanh(hd_tensor *x);
/* x * sigmoid(x), also called swish (floats; integers become the default float) */
HD_API hd_tensor *hd_silu(hd_tensor *x);
/* x * tanh(softplus(x)) (floats; integers become the default float) */
HD_API hd_tensor *hd_mish(hd_tensor *x);
/* 1.0507 * (x where x > 0, else 1.6733 * (e^x - 1)) (floats; integers become the default float) */
HD_API hd_tensor *hd_selu(hd_tensor *x);
/* x / (1 + |x|) (floats; integers become the default float) */
HD_API hd_tensor *hd_softsign(hd_tensor *x);
/* (x + 3) / 6 limited to [0, 1] (floats; integers become the default float) */
HD_API hd_tensor *hd_hardsigmoid(hd_tensor *x);
/* x * hardsigmoid(x) (floats; integers become the default float) */
HD_API hd_tensor *hd_hardswish(hd_tensor *x);
/* x - tanh(x) (floats; integers become the default float) */
HD_API hd_tensor *hd_tanhshrink(hd_tensor *x);
/* log(x / (1 - x)); NaN outside [0, 1] (floats; integers become the default float) */
HD_API hd_tensor *hd_logit(hd_tensor *x);
/* x where x > 0, else slope * x (floats; integers become the default float) */
HD_API hd_tensor *hd_leaky_relu(hd_tensor *x, double slope);
/* x where x > 0, else alpha * (e^x - 1) (floats; integers become the default float) */
HD_API hd_tensor *hd_elu(hd_tensor *x, double alpha);
/* x where x > 0, else alpha * (e^(x / alpha) - 1) (floats; integers become the default float) */
HD_API hd_tensor *hd_celu(hd_tensor *x, double alpha);
/* x moved towards 0 by bound, 0 within it (floats; integers become the default float) */
HD_API hd_tensor *hd_softshrink(hd_tensor *x, double bound);
/* x, but 0 where |x| <= bound (floats; integers become the default float) */
HD_API hd_tensor *hd_hardshrink(hd_tensor *x, double bound);
/* max(x, low); NaN stays (floats and integers) */
HD_API hd_tensor *hd_clamp_min(hd_tensor *x, double low);
/* min(x, high); NaN stays (floats and integers) */
HD_API hd_tensor *hd_clamp_max(hd_tensor *x, double high);
/* x limited to [low, high]; NaN stays; the gradient is 1 at the bounds (floats and integers) */
HD_API hd_tensor *hd_clamp(hd_tensor *x, double low, double high);
/* x limited to [low, high]; the gradient is 0 at the bounds (floats and integers) */
HD_API hd_tensor *hd_hardtanh(hd_tensor *x, double low, double high);
/* x where x > bound, else value (floats and integers) */
HD_API hd_tensor *hd_threshold(hd_tensor *x, double bound, double value);
/* log(1 + e^(beta x)) / beta, never overflows; x itself where beta x > limit (floats; integers become the default
 * float) */
HD_API hd_tensor *hd_softplus(hd_tensor *x, double beta, double limit);
/* x with NaN, inf and -inf replaced (floats; integers become the default float) */
HD_API hd_tensor *hd_nan_to_num(hd_tensor *x, double nan, double high, double low);
/* true where x is NaN (floats; integers become the default float) */
HD_API hd_tensor *hd_isnan(hd_tensor *x);
/* true where x is infinite (floats; integers become the default float) */
HD_API hd_tensor *hd_isinf(hd_tensor *x);
/* true where x is neither NaN nor infinite (floats; integers become the default float) */
HD_API hd_tensor *hd_isfinite(hd_tensor *x);
/* true where x is 0 (every dtype) */
HD_API hd_tensor *hd_logical_not(hd_tensor *x);
/* a + b; integers wrap (floats and integers) */
HD_API hd_tensor *hd_add(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_add_scalar(hd_tensor *x, double value);
/* a - b; integers wrap (floats and integers) */
HD_API hd_tensor *hd_sub(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_sub_scalar(hd_tensor *x, double value);
/* a * b; integers wrap (floats and integers) */
HD_API hd_tensor *hd_mul(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_mul_scalar(hd_tensor *x, double value);
/* a / b; of integers the default float (floats; integers become the default float) */
HD_API hd_tensor *hd_div(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_div_scalar(hd_tensor *x, double value);
/* a / b towards zero, as C divides; integers: b = 0 is an error (floats and integers) */
HD_API hd_tensor *hd_trunc_divide(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_trunc_divide_scalar(hd_tensor *x, double value);
/* what trunc_divide leaves, with the sign of a; integers: b = 0 is an error (floats and integers) */
HD_API hd_tensor *hd_rem(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_rem_scalar(hd_tensor *x, double value);
/* a / b downwards, as Python's //; integers: b = 0 is an error (floats and integers) */
HD_API hd_tensor *hd_floor_divide(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_floor_divide_scalar(hd_tensor *x, double value);
/* what floor_divide leaves, with the sign of b, as Python's %; integers: b = 0 is an error (floats and integers) */
HD_API hd_tensor *hd_mod(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_mod_scalar(hd_tensor *x, double value);
/* a^b; integers: b < 0 is an error (floats and integers) */
HD_API hd_tensor *hd_pow(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_pow_scalar(hd_tensor *x, double value);
/* the larger; NaN if either is (every dtype) */
HD_API hd_tensor *hd_maximum(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_maximum_scalar(hd_tensor *x, double value);
/* the smaller; NaN if either is (every dtype) */
HD_API hd_tensor *hd_minimum(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_minimum_scalar(hd_tensor *x, double value);
/* the larger; NaN only if both are (floats; integers become the default float) */
HD_API hd_tensor *hd_fmax(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_fmax_scalar(hd_tensor *x, double value);
/* the smaller; NaN only if both are (floats; integers become the default float) */
HD_API hd_tensor *hd_fmin(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_fmin_scalar(hd_tensor *x, double value);
/* angle of the point (b, a), in (-pi, pi] (floats; integers become the default float) */
HD_API hd_tensor *hd_atan2(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_atan2_scalar(hd_tensor *x, double value);
/* |a| with the sign of b (floats; integers become the default float) */
HD_API hd_tensor *hd_copysign(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_copysign_scalar(hd_tensor *x, double value);
/* sqrt(a^2 + b^2) without overflow (floats; integers become the default float) */
HD_API hd_tensor *hd_hypot(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_hypot_scalar(hd_tensor *x, double value);
/* (a - b)^2 (floats and integers) */
HD_API hd_tensor *hd_squared_difference(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_squared_difference_scalar(hd_tensor *x, double value);
/* a where a > 0, else b * a (floats; integers become the default float) */
HD_API hd_tensor *hd_prelu(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_prelu_scalar(hd_tensor *x, double value);
/* number of one bits (integers and bool) */
HD_API hd_tensor *hd_popcount(hd_tensor *x);
/* bits of a and b (integers and bool) */
HD_API hd_tensor *hd_bitwise_and(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_bitwise_and_scalar(hd_tensor *x, double value);
/* bits of a or b (integers and bool) */
HD_API hd_tensor *hd_bitwise_or(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_bitwise_or_scalar(hd_tensor *x, double value);
/* bits of a exclusive-or b (integers and bool) */
HD_API hd_tensor *hd_bitwise_xor(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_bitwise_xor_scalar(hd_tensor *x, double value);
/* a << b; 0 when b is not within the width (integers and bool) */
HD_API hd_tensor *hd_shift_left(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_shift_left_scalar(hd_tensor *x, double value);
/* a >> b with the sign; 0 or -1 when b is not within the width (integers and bool) */
HD_API hd_tensor *hd_shift_right(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_shift_right_scalar(hd_tensor *x, double value);
/* a == b (every dtype) */
HD_API hd_tensor *hd_eq(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_eq_scalar(hd_tensor *x, double value);
/* a != b; true for NaN (every dtype) */
HD_API hd_tensor *hd_ne(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_ne_scalar(hd_tensor *x, double value);
/* a < b (every dtype) */
HD_API hd_tensor *hd_lt(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_lt_scalar(hd_tensor *x, double value);
/* a <= b (every dtype) */
HD_API hd_tensor *hd_le(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_le_scalar(hd_tensor *x, double value);
/* a > b (every dtype) */
HD_API hd_tensor *hd_gt(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_gt_scalar(hd_tensor *x, double value);
/* a >= b (every dtype) */
HD_API hd_tensor *hd_ge(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_ge_scalar(hd_tensor *x, double value);
/* true where neither is 0 (every dtype) */
HD_API hd_tensor *hd_logical_and(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_logical_and_scalar(hd_tensor *x, double value);
/* true where one is not 0 (every dtype) */
HD_API hd_tensor *hd_logical_or(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_logical_or_scalar(hd_tensor *x, double value);
/* true where exactly one is not 0 (every dtype) */
HD_API hd_tensor *hd_logical_xor(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_logical_xor_scalar(hd_tensor *x, double value);
/* a where the condition c (bool) holds, else b (every dtype) */
HD_API hd_tensor *hd_where(hd_tensor *condition, hd_tensor *a, hd_tensor *b);
/* a * b + c, rounded once (floats; integers become the default float) */
HD_API hd_tensor *hd_fma(hd_tensor *a, hd_tensor *b, hd_tensor *c);
/* a + c * (b - a) (floats; integers become the default float) */
HD_API hd_tensor *hd_lerp(hd_tensor *a, hd_tensor *b, hd_tensor *c);
/* a + scale * b * c (floats and integers) */
HD_API hd_tensor *hd_addcmul(hd_tensor *a, hd_tensor *b, hd_tensor *c, double scale);
/* a + scale * b / c (floats; integers become the default float) */
HD_API hd_tensor *hd_addcdiv(hd_tensor *a, hd_tensor *b, hd_tensor *c, double scale);
/* P(N(0,1) <= x), exact in the tail (floats; integers become the default float) */
HD_API hd_tensor *hd_ndtr(hd_tensor *x);
/* inverse of ndtr; NaN outside [0, 1] (floats; integers become the default float) */
HD_API hd_tensor *hd_ndtri(hd_tensor *x);
/* modified Bessel function of the first kind, of order 0 (floats; integers become the default float) */
HD_API hd_tensor *hd_i0(hd_tensor *x);
/* modified Bessel function of the first kind, of order 1 (floats; integers become the default float) */
HD_API hd_tensor *hd_i1(hd_tensor *x);
/* sin(pi x) / (pi x); 1 at 0 (floats; integers become the default float) */
HD_API hd_tensor *hd_sinc(hd_tensor *x);
/* m of x = m 2^e, |m| in [1/2, 1); x itself where it is 0 or not finite (floats; integers become the default float)
 * */
HD_API hd_tensor *hd_frexp_mantissa(hd_tensor *x);
/* e of x = m 2^e, as a float; 0 where x is 0 or not finite (floats; integers become the default float) */
HD_API hd_tensor *hd_frexp_exponent(hd_tensor *x);
/* a log(b); 0 where a is 0 and b is a number (floats; integers become the default float) */
HD_API hd_tensor *hd_xlogy(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_xlogy_scalar(hd_tensor *x, double value);
/* a * 2^b, exact for whole b (floats; integers become the default float) */
HD_API hd_tensor *hd_ldexp(hd_tensor *a, hd_tensor *b);
HD_API hd_tensor *hd_ldexp_scalar(hd_tensor *x, double value);

/* ---- Creation ---- */
/* All elements are value. */
HD_API hd_tensor *hd_full(hd_shape shape, hd_dtype dtype, double value);
/* Values undefined, for writing into. */
HD_API hd_tensor *hd_empty(hd_shape shape, hd_dtype dtype);
/* start, start + step, ... : [count]; what arange and linspace are made of. */
HD_API hd_tensor *hd_range(double start, double step, int64_t count, hd_dtype dtype);
/* All zeros. */
HD_API hd_tensor *hd_zeros(hd_shape shape, hd_dtype dtype);
/* All ones. */
HD_API hd_tensor *hd_ones(hd_shape shape, hd_dtype dtype);
/* Zeros with the shape and dtype of x. */
HD_API hd_tensor *hd_zeros_like(hd_tensor *x);
/* Ones with the shape and dtype of x. */
HD_API hd_tensor *hd_ones_like(hd_tensor *x);
/* Values undefined, with the shape and dtype of x. */
HD_API hd_tensor *hd_empty_like(hd_tensor *x);
/* value with the shape and dtype of x. */
HD_API hd_tensor *hd_full_like(hd_tensor *x, double value);
/* start, start + step, ... below stop (above it when step < 0): [count]. */
HD_API hd_tensor *hd_arange(double start, double stop, double step, hd_dtype dtype);
/* count points from start to stop, both among them: [count]. */
HD_API hd_tensor *hd_linspace(double start, double stop, int64_t count, hd_dtype dtype);
/* 10^linspace(start, stop): [count]. */
HD_API hd_tensor *hd_logspace(double start, double stop, int64_t count, hd_dtype dtype);
/* Ones on the diagonal, else zeros: [rows, columns]. */
HD_API hd_tensor *hd_eye(int64_t rows, int64_t columns, hd_dtype dtype);
/* Ones at and below the diagonal: [rows, columns]. */
HD_API hd_tensor *hd_tri(int64_t rows, int64_t columns, int64_t diagonal, hd_dtype dtype);

/* ---- Random ---- */
/* Uniform in [low, high); floats. */
HD_API hd_tensor *hd_uniform(hd_shape shape, hd_dtype dtype, double low, double high);
/* Normal with this mean and standard deviation; floats. */
HD_API hd_tensor *hd_normal(hd_shape shape, hd_dtype dtype, double mean, double deviation);
/* Whole numbers in [low, high); integers, HD_DTYPE_DEFAULT gives i64. */
HD_API hd_tensor *hd_randint(hd_shape shape, hd_dtype dtype, int64_t low, int64_t high);
/* 0 to count - 1 in random order, i64: [count]. */
HD_API hd_tensor *hd_permutation(int64_t count);
/* count indices drawn by weight from each row of [n] or [m, n], i64: [count] or [m, count]. */
HD_API hd_tensor *hd_multinomial(hd_tensor *weights, int64_t count, bool with_replacement);
/* Uniform in [0, 1). */
HD_API hd_tensor *hd_rand(hd_shape shape, hd_dtype dtype);
/* Normal with mean 0 and deviation 1. */
HD_API hd_tensor *hd_randn(hd_shape shape, hd_dtype dtype);
/* Uniform in [0, 1), with the shape and dtype of x; floats. */
HD_API hd_tensor *hd_rand_like(hd_tensor *x);
/* Normal with mean 0 and deviation 1, with the shape and dtype of x; floats. */
HD_API hd_tensor *hd_randn_like(hd_tensor *x);
/* 1 with this probability, else 0. */
HD_API hd_tensor *hd_bernoulli(hd_shape shape, hd_dtype dtype, double probability);
/* 1 with the probability that the element says (below 0: never, above 1: always), else 0; floats. */
HD_API hd_tensor *hd_bernoulli_of(hd_tensor *probabilities);
/* Exponential with this rate; floats. The tail ends at 16.6 / rate (f64: 36.7 / rate). */
HD_API hd_tensor *hd_exponential(hd_shape shape, hd_dtype dtype, double rate);
/* Normal numbers that lie in [low, high], both finite; floats. Tails end 5.4 deviations from a mean that lies
 * between them (f64: 8.2). */
HD_API hd_tensor *hd_truncated_normal(hd_shape shape, hd_dtype dtype, double mean, double deviation, double low,
                                      double high);
/* 0 with probability p, else x / (1 - p), element by element; floats. A copy of x when p is 0. */
HD_API hd_tensor *hd_dropout(hd_tensor *x, double p);
/* Dropout to the value of selu far below 0, which keeps a mean of 0 and a variance of 1; a copy of x when p is 0. */
HD_API hd_tensor *hd_alpha_dropout(hd_tensor *x, double p);

/* ---- Types ---- */
/* x as dtype; floats to integers truncate and saturate, NaN gives 0; x itself when it has that dtype. */
HD_API hd_tensor *hd_cast(hd_tensor *x, hd_dtype dtype);
/* The bits of x read as a dtype of the same size; a view. */
HD_API hd_tensor *hd_bitcast(hd_tensor *x, hd_dtype dtype);

/* ---- Reductions ---- */
/* Sum over axes; bool and integers sum in i64 (u64 when unsigned). */
HD_API hd_tensor *hd_sum(hd_tensor *x, hd_axes axes, const hd_reduce_opts *opts);
/* Product over axes; dtypes as hd_sum. */
HD_API hd_tensor *hd_prod(hd_tensor *x, hd_axes axes, const hd_reduce_opts *opts);
/* Largest over axes; NaN if any is; an empty axis is an error. */
HD_API hd_tensor *hd_max(hd_tensor *x, hd_axes axes, const hd_reduce_opts *opts);
/* Smallest over axes; NaN if any is; an empty axis is an error. */
HD_API hd_tensor *hd_min(hd_tensor *x, hd_axes axes, const hd_reduce_opts *opts);
/* True where one is not 0 over axes: bool. */
HD_API hd_tensor *hd_any(hd_tensor *x, hd_axes axes, const hd_reduce_opts *opts);
/* True where none is 0 over axes: bool. */
HD_API hd_tensor *hd_all(hd_tensor *x, hd_axes axes, const hd_reduce_opts *opts);
/* Index of the largest on an axis, the first of equals or the first NaN: i64. */
HD_API hd_tensor *hd_argmax(hd_tensor *x, int axis, const hd_reduce_opts *opts);
/* Index of the smallest on an axis, the first of equals or the first NaN: i64. */
HD_API hd_tensor *hd_argmin(hd_tensor *x, int axis, const hd_reduce_opts *opts);
/* Largest on an axis and its index, the first of equals or the first NaN. */
HD_API hd_pair hd_max_with_index(hd_tensor *x, int axis, const hd_reduce_opts *opts);
/* Smallest on an axis and its index, the first of equals or the first NaN. */
HD_API hd_pair hd_min_with_index(hd_tensor *x, int axis, const hd_reduce_opts *opts);
/* Mean over axes; integers give the default float. */
HD_API hd_tensor *hd_mean(hd_tensor *x, hd_axes axes, const hd_reduce_opts *opts);
/* Variance over axes: squared deviations over (count - correction). */
HD_API hd_tensor *hd_var(hd_tensor *x, hd_axes axes, double correction, const hd_reduce_opts *opts);
/* Square root of hd_var. */
HD_API hd_tensor *hd_std(hd_tensor *x, hd_axes axes, double correction, const hd_reduce_opts *opts);
/* (sum |x|^p)^(1/p) over axes; p may be 0, inf or -inf. */
HD_API hd_tensor *hd_norm(hd_tensor *x, double p, hd_axes axes, const hd_reduce_opts *opts);
/* log(sum(e^x)) over axes without overflow; -inf over an empty axis. */
HD_API hd_tensor *hd_logsumexp(hd_tensor *x, hd_axes axes, const hd_reduce_opts *opts);
/* e^x over its sum on an axis, in f32 at least; NaN where all are -inf. */
HD_API hd_tensor *hd_softmax(hd_tensor *x, int axis);
/* log of hd_softmax, exact where that underflows. */
HD_API hd_tensor *hd_log_softmax(hd_tensor *x, int axis);
/* Sum of the diagonal of two axes, which go; dtypes as hd_sum. */
HD_API hd_tensor *hd_trace(hd_tensor *x, int64_t offset, int axis1, int axis2);
/* How many are not 0 over axes: i64. */
HD_API hd_tensor *hd_count_nonzero(hd_tensor *x, hd_axes axes, const hd_reduce_opts *opts);
/* Sums x over what broadcasting shape to x's shape has stretched: shape. Dtypes as hd_sum. */
HD_API hd_tensor *hd_sum_to_shape(hd_tensor *x, hd_shape shape);

/* ---- Sorting: NaN is the largest; of equals the first comes first ---- */
/* The elements of an axis in order, and the indices where they were. */
HD_API hd_pair hd_sort(hd_tensor *x, int axis, bool descending);
/* The k largest of an axis, or the k smallest, in order, and their indices: that axis has size k. */
HD_API hd_pair hd_topk(hd_tensor *x, int64_t k, int axis, bool largest);
/* Where values go in rows that are in order, in front of equals or (right) behind them, i64: values' shape. sorted
 * [n] for all values, or [..., n] with values [..., m]; one dtype. */
HD_API hd_tensor *hd_searchsorted(hd_tensor *sorted, hd_tensor *values, bool right);
/* The indices of hd_sort, i64. */
HD_API hd_tensor *hd_argsort(hd_tensor *x, int axis, bool descending);
/* The k-th smallest on an axis, counted from 1, and its index. */
HD_API hd_pair hd_kthvalue(hd_tensor *x, int64_t k, int axis, const hd_reduce_opts *opts);
/* The middle one on an axis in order, the lower of two, and its index; the first NaN if any is. */
HD_API hd_pair hd_median(hd_tensor *x, int axis, const hd_reduce_opts *opts);
/* The quantile q, in [0, 1], of an axis, linear between two elements as NumPy's; NaN if any is; integers give the
 * default float. */
HD_API hd_tensor *hd_quantile(hd_tensor *x, double q, int axis, const hd_reduce_opts *opts);
/* hd_quantile of each of count numbers q, 64 at most, on a new axis in front: [count, ...]. The axis is put in order
 * once. */
HD_API hd_tensor *hd_quantiles(hd_tensor *x, const double *q, int count, int axis, const hd_reduce_opts *opts);
/* How often each of 0 to size - 1 is in x, of integers: [size], i64; or the sums of their weights, of x's shape, in
 * the weights' dtype; NULL for none. */
HD_API hd_tensor *hd_bincount(hd_tensor *x, hd_tensor *weights, int64_t size);
/* How many of x are in each of as many equal bins from low to high, which is in the last; others and NaN are in
 * none; i64: [bins]. */
HD_API hd_tensor *hd_histc(hd_tensor *x, int64_t bins, double low, double high);

/* ---- Selecting by value: sizes depend on values, or are given and the rest is filled ---- */
/* Where x is not 0, in row-major order, i64: [count, rank]; not in a builder. */
HD_API hd_tensor *hd_nonzero(hd_tensor *x);
/* The first `size` of hd_nonzero; where there are fewer, fill: [size, rank]. */
HD_API hd_tensor *hd_nonzero_padded(hd_tensor *x, int64_t size, int64_t fill);
/* The elements of x where the bool mask holds, which broadcast, in row-major order: [count]; not in a builder. */
HD_API hd_tensor *hd_masked_select(hd_tensor *x, hd_tensor *mask);
/* The first `size` of hd_masked_select; where there are fewer, fill: [size]. */
HD_API hd_tensor *hd_masked_select_padded(hd_tensor *x, hd_tensor *mask, int64_t size, double fill);
/* What x has, each once, in order; all NaN are one; not in a builder. */
HD_API hd_uniques hd_unique(hd_tensor *x, const hd_unique_opts *opts);
/* The first `size` of hd_unique; where there are fewer, fill, with a count of 0. Inverse counts also those for which
 * there was no place. */
HD_API hd_uniques hd_unique_padded(hd_tensor *x, int64_t size, double fill, const hd_unique_opts *opts);

/* ---- Scans: an axis is taken in order, and each element combined with all before it; results have x's shape ---- */
/* The sum of each element of an axis and those before it; dtypes as hd_sum. */
HD_API hd_tensor *hd_cumsum(hd_tensor *x, int axis, const hd_scan_opts *opts);
/* The product of each element of an axis and those before it; dtypes as hd_sum. */
HD_API hd_tensor *hd_cumprod(hd_tensor *x, int axis, const hd_scan_opts *opts);
/* log of hd_cumsum of e^x, without overflow; floats. */
HD_API hd_tensor *hd_logcumsumexp(hd_tensor *x, int axis, const hd_scan_opts *opts);
/* The largest of each element of an axis and those before it, and its index: of equals the last one met; NaN once
 * there is one, and then the last NaN met. Not exclusive. */
HD_API hd_pair hd_cummax(hd_tensor *x, int axis, const hd_scan_opts *opts);
/* The smallest of each element of an axis and those before it, and its index, as hd_cummax. */
HD_API hd_pair hd_cummin(hd_tensor *x, int axis, const hd_scan_opts *opts);

/* ---- Views: results share the memory of x, whatever the arguments ---- */
/* The same elements in another shape; one size may be -1. A view, but a copy when the strides do not allow one. */
HD_API hd_tensor *hd_reshape(hd_tensor *x, hd_shape shape);
/* Axis i of the result is axis order[i] of x. */
HD_API hd_tensor *hd_permute(hd_tensor *x, hd_axes order);
/* x repeated along axes of size 1 or missing in front, to shape. */
HD_API hd_tensor *hd_broadcast_to(hd_tensor *x, hd_shape shape);
/* x[start:stop:step] on an axis as Python slices: negative counts from the end, out of range is cut; HD_END means no
 * bound. */
HD_API hd_tensor *hd_slice(hd_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);
/* The diagonal of two axes, as the last axis. */
HD_API hd_tensor *hd_diagonal(hd_tensor *x, int64_t offset, int axis1, int axis2);
/* Windows of size along an axis, step apart; the window is a new last axis. */
HD_API hd_tensor *hd_unfold(hd_tensor *x, int axis, int64_t size, int64_t step);
/* Any layout over x's storage (in elements), checked to lie inside it. */
HD_API hd_tensor *hd_as_strided(hd_tensor *x, hd_shape shape, hd_shape strides, int64_t offset);
/* The same values without history: gradients stop here; shares memory with x. */
HD_API hd_tensor *hd_detach(hd_tensor *x);
/* All elements in one axis: [count]. A view or a copy, as hd_reshape. */
HD_API hd_tensor *hd_flatten(hd_tensor *x);
/* Without these axes of size 1; without all such axes for HD_AXES(). */
HD_API hd_tensor *hd_squeeze(hd_tensor *x, hd_axes axes);
/* With a new axis of size 1 at this place of the result. */
HD_API hd_tensor *hd_unsqueeze(hd_tensor *x, int axis);
/* With two axes exchanged. */
HD_API hd_tensor *hd_transpose(hd_tensor *x, int axis1, int axis2);
/* With the last two axes exchanged. */
HD_API hd_tensor *hd_t(hd_tensor *x);
/* With one axis moved to another place. */
HD_API hd_tensor *hd_move_axis(hd_tensor *x, int from, int to);
/* hd_broadcast_to, where -1 keeps a size. */
HD_API hd_tensor *hd_expand(hd_tensor *x, hd_shape shape);
/* x[index] on an axis, which goes. */
HD_API hd_tensor *hd_select(hd_tensor *x, int axis, int64_t index);
/* length elements from start on an axis; out of range is an error. */
HD_API hd_tensor *hd_narrow(hd_tensor *x, int axis, int64_t start, int64_t length);
/* With these axes reversed; all for HD_AXES(). */
HD_API hd_tensor *hd_flip(hd_tensor *x, hd_axes axes);
/* Parts of size along an axis, the last with what is left: [n] -> [size], [size], ... A list of views, which share
 * the memory of x; one part, empty, when n is 0. */
HD_API hd_tensors *hd_split(hd_tensor *x, int64_t size, int axis);
/* hd_split into parts of n / count, rounded up: at most count of them, of an axis of n; count empty ones when n is
 * 0. */
HD_API hd_tensors *hd_chunk(hd_tensor *x, int64_t count, int axis);
/* x[0], x[1], ... on an axis, which goes: [n,m] -> [m], [m], ... A list of n views, as hd_select gives them. */
HD_API hd_tensors *hd_unbind(hd_tensor *x, int axis);
/* Coordinates of a grid: of [n], [m], ... a list of [n,m,...], in which tensor i runs along axis i; HD_INDEXING_XY
 * exchanges the first two axes. A list of views, which share the memory of the tensors. */
HD_API hd_tensors *hd_meshgrid(hd_tensor *const *tensors, int count, hd_indexing indexing);

/* ---- Movement: results have memory of their own, whatever the arguments ---- */
/* x itself when it is contiguous, else a copy that is. */
HD_API hd_tensor *hd_contiguous(hd_tensor *x);
/* Tensors one behind the other on an axis. */
HD_API hd_tensor *hd_concat(hd_tensor *const *tensors, int count, int axis);
/* Adds value around; padding[i] is before and after on axis i of the last count axes; negative cuts. */
HD_API hd_tensor *hd_pad(hd_tensor *x, const hd_padding *padding, int count, double value);
/* Adds elements of x around: reflected, its edge, or wrapped around. */
HD_API hd_tensor *hd_pad_with(hd_tensor *x, const hd_padding *padding, int count, hd_pad_mode mode);
/* A copy with memory of its own. */
HD_API hd_tensor *hd_copy(hd_tensor *x);
/* x on a device: x itself when it is there, else a copy; gradients come back to where x is. In a builder x itself,
 * if that is the builder's device. */
HD_API hd_tensor *hd_to(hd_tensor *x, hd_device device);
/* Tensors of one shape along a new axis. */
HD_API hd_tensor *hd_stack(hd_tensor *const *tensors, int count, int axis);
/* Elements moved by shift along an axis, around the end. */
HD_API hd_tensor *hd_roll(hd_tensor *x, int64_t shift, int axis);
/* x repeated times[i] along axis i. */
HD_API hd_tensor *hd_tile(hd_tensor *x, hd_shape times);
/* Each element of an axis repeated times. */
HD_API hd_tensor *hd_repeat_interleave(hd_tensor *x, int64_t times, int axis);
/* A matrix with x [n] on a diagonal, else 0, or the diagonal of x [m,n]. */
HD_API hd_tensor *hd_diag(hd_tensor *x, int64_t offset);
/* The last axis of x on the diagonal of two axes of the result, else 0: [...,n] -> n + |offset| on both. */
HD_API hd_tensor *hd_diag_embed(hd_tensor *x, int64_t offset, int axis1, int axis2);
/* x at and below the diagonal of the last two axes, else 0. */
HD_API hd_tensor *hd_tril(hd_tensor *x, int64_t diagonal);
/* x at and above the diagonal of the last two axes, else 0. */
HD_API hd_tensor *hd_triu(hd_tensor *x, int64_t diagonal);

/* ---- Indexing: negative indices count from the end, out of range is an error ---- */
/* result[i,j] = x[index[i,j], j] for axis 0 and so on; index: an integer tensor of x's rank; its shape. */
HD_API hd_tensor *hd_gather(hd_tensor *x, int axis, hd_tensor *index);
/* A copy of x with result[index[i,j], j] set to, or combined with, source[i,j] for axis 0 and so on; of duplicates
 * the last one is set. HD_SCATTER_MUL has no second derivative where a factor is 0. */
HD_API hd_tensor *hd_scatter(hd_tensor *x, int axis, hd_tensor *index, hd_tensor *source, hd_scatter_mode mode);
/* Slices of x on an axis, by a one-dimensional index: that axis has the index's size. */
HD_API hd_tensor *hd_index_select(hd_tensor *x, int axis, hd_tensor *index);
/* Elements of x seen as flat: the index's shape. */
HD_API hd_tensor *hd_take(hd_tensor *x, hd_tensor *index);
/* hd_gather with x and index broadcast on the other axes. */
HD_API hd_tensor *hd_take_along_axis(hd_tensor *x, int axis, hd_tensor *index);
/* A copy of x with slices of source added at a one-dimensional index. */
HD_API hd_tensor *hd_index_add(hd_tensor *x, int axis, hd_tensor *index, hd_tensor *source);
/* A copy of x with slices of source in the places of a one-dimensional index; of duplicates the last one stays. */
HD_API hd_tensor *hd_index_copy(hd_tensor *x, int axis, hd_tensor *index, hd_tensor *source);
/* x with value where the bool mask holds. */
HD_API hd_tensor *hd_masked_fill(hd_tensor *x, hd_tensor *mask, double value);
/* result[b,i] = x[b, index[b,i,0], index[b,i,1], ...]: index [batch axes of x, ..., d] names the d axes behind the
 * batch axes; [batch axes, ..., x's other axes]. */
HD_API hd_tensor *hd_gather_nd(hd_tensor *x, hd_tensor *index, int batch_axes);
/* A copy of x with x[index[i,0], index[i,1], ...] set to, or combined with, source[i]: index [..., d], source [...,
 * x's axes behind d]; of duplicates the last one is set. */
HD_API hd_tensor *hd_scatter_nd(hd_tensor *x, hd_tensor *index, hd_tensor *source, hd_scatter_mode mode);
/* A copy of x with x[index[0], index[1], ...] set to source, or source added: the indices broadcast to one shape
 * [...], source to [..., x's axes behind count]; of duplicates the last one is set, all are added. */
HD_API hd_tensor *hd_index_put(hd_tensor *x, hd_tensor *const *index, int count, hd_tensor *source, bool accumulate);
/* A copy of x with source in a slice of its size: source[i,j] at x[starts[0] + i steps[0], starts[1] + j steps[1]];
 * steps are not 0, HD_SHAPE() for all 1. */
HD_API hd_tensor *hd_slice_update(hd_tensor *x, hd_tensor *source, hd_shape starts, hd_shape steps);
/* A copy of x in which the elements where the bool mask holds are those of source, one after the other; mask
 * broadcasts to x, and source has as many elements at least. */
HD_API hd_tensor *hd_masked_scatter(hd_tensor *x, hd_tensor *mask, hd_tensor *source);
/* Rows of weight [n,d] by an index of any shape: [..., d]; the row `padding` gets no gradient, a negative number is
 * none. */
HD_API hd_tensor *hd_embedding(hd_tensor *weight, hd_tensor *index, int64_t padding);
/* 1 at the index, else 0, on a new last axis. */
HD_API hd_tensor *hd_one_hot(hd_tensor *index, int64_t classes, hd_dtype dtype);

/* ---- Contraction ---- */
/* Matrix product as NumPy: [m,k] x [k,n] -> [m,n]; axes in front broadcast; vectors lose their axis. */
HD_API hd_tensor *hd_matmul(hd_tensor *a, hd_tensor *b);
/* x weight^T + bias: x [..., in], weight [out, in], bias [out] or NULL -> [..., out]; floats. */
HD_API hd_tensor *hd_affine(hd_tensor *x, hd_tensor *weight, hd_tensor *bias);
/* Inner product of two vectors [n]. */
HD_API hd_tensor *hd_dot(hd_tensor *a, hd_tensor *b);
/* Products of all pairs: [n], [m] -> [n,m]. */
HD_API hd_tensor *hd_outer(hd_tensor *a, hd_tensor *b);
/* Sums products over pairs of axes, contract_a[i] with contract_b[i], for each place of the batch axes, which are
 * paired too: [batch axes, a's other axes, b's other axes]; HD_AXES() is none. */
HD_API hd_tensor *hd_dot_general(hd_tensor *a, hd_tensor *b, hd_axes contract_a, hd_axes contract_b, hd_axes batch_a,
                                 hd_axes batch_b);
/* Matrix products, one by one: [n,m,k] x [n,k,p] -> [n,m,p]. */
HD_API hd_tensor *hd_bmm(hd_tensor *a, hd_tensor *b);
/* Matrix times vector: [m,k], [k] -> [m]. */
HD_API hd_tensor *hd_mv(hd_tensor *a, hd_tensor *x);
/* beta c + alpha (a b): a [m,k], b [k,n], c broadcasts to [m,n]; with beta 0 the values of c do not matter. */
HD_API hd_tensor *hd_addmm(hd_tensor *c, hd_tensor *a, hd_tensor *b, double beta, double alpha);
/* beta c + alpha (a b) of matrices one by one: a [n,m,k], b [n,k,p], c broadcasts to [n,m,p]; beta as in hd_addmm.
 * */
HD_API hd_tensor *hd_baddbmm(hd_tensor *c, hd_tensor *a, hd_tensor *b, double beta, double alpha);
/* Sums products over axes_a[i] of a paired with axes_b[i] of b: [a's other axes, b's other axes]. */
HD_API hd_tensor *hd_tensordot(hd_tensor *a, hd_tensor *b, hd_axes axes_a, hd_axes axes_b);
/* Kronecker product as NumPy: [m,n], [p,q] -> [m p, n q]; the lower rank gets axes of size 1 in front. */
HD_API hd_tensor *hd_kron(hd_tensor *a, hd_tensor *b);
/* sum x1[i] weight[o,i,j] x2[j] + bias[o]: x1 [..., i], x2 [..., j], weight [out,i,j], bias [out] or NULL -> [...,
 * out]; floats. */
HD_API hd_tensor *hd_bilinear(hd_tensor *x1, hd_tensor *x2, hd_tensor *weight, hd_tensor *bias);
/* The sum of products that NumPy's einsum means, as "bij,bjk->bik"; also "...", repeated labels, an output left out.
 * Sizes of 1 stretch; the result has the dtype in which all meet. Up to 6 tensors meet in the cheapest order, more, 64
 * at most, in a greedy one. */
HD_API hd_tensor *hd_einsum(const char *equation, hd_tensor *const *tensors, int count);
/* Cross products of the vectors of size 3 on an axis of the result; other axes broadcast. */
HD_API hd_tensor *hd_cross(hd_tensor *a, hd_tensor *b, int axis);

/* ---- Linear algebra: matrices [..., m, n], by LAPACK, opened at first use; integers become the default float ---- */
/* L, lower triangular, with x = L L^T, or (upper) L^T: [..., n, n]. Of x, which is taken to be symmetric, that
 * triangle is read; one that is not positive definite is an error. */
HD_API hd_tensor *hd_cholesky(hd_tensor *x, bool upper);
/* X with A X = b, or (right) X A = b: A is a triangle of a [..., n, n], or its transpose; b [n] or [..., n, k]; a 0
 * on its diagonal is an error. */
HD_API hd_tensor *hd_triangular_solve(hd_tensor *a, hd_tensor *b, const hd_triangular_opts *opts);
/* X with a X = b: a [..., n, n], b [n] or [..., n, k]; a singular matrix is an error. */
HD_API hd_tensor *hd_solve(hd_tensor *a, hd_tensor *b);
/* The inverse of each matrix: [..., n, n]; a singular one is an error. */
HD_API hd_tensor *hd_inv(hd_tensor *x);
/* As LAPACK has it: U, and below its diagonal L without the ones, [..., m, n]; and i64 [..., min(m,n) + m]: with
 * which row each was exchanged, then which row of x became each. The gradient needs a U that can be inverted. */
HD_API hd_pair hd_lu_factor(hd_tensor *x);
/* x = Q R, reduced: Q [..., m, k] with orthonormal columns, R [..., k, n] upper triangular, k = min(m,n). The
 * gradient needs linearly independent columns (the first m of them). */
HD_API hd_qr_parts hd_qr(hd_tensor *x);
/* Eigenvalues in ascending order, [..., n], and eigenvectors, columns of [..., n, n], of symmetric matrices, whose
 * lower triangle is read. The gradient through the vectors needs values that differ. */
HD_API hd_spectrum hd_eigh(hd_tensor *x);
/* The eigenvalues of hd_eigh alone. */
HD_API hd_tensor *hd_eigvalsh(hd_tensor *x);
/* Singular values in descending order, [..., k], and U and V^T of hd_svd, flat, one behind the other: [..., m k + k
 * n]. */
HD_API hd_spectrum hd_svd_packed(hd_tensor *x);
/* The singular values of hd_svd alone. */
HD_API hd_tensor *hd_svdvals(hd_tensor *x);
/* The pseudo-inverse: [..., n, m]. Singular values up to cutoff times the largest count as 0; 0 means max(m,n)
 * epsilon. The gradient is that among matrices of this rank. */
HD_API hd_tensor *hd_pinv(hd_tensor *x, double cutoff);
/* x with its rows in another order is L U: rows i64 [..., m], L [..., m, k], U [..., k, n], k = min(m,n). */
HD_API hd_lu_parts hd_lu(hd_tensor *x);
/* x = U diag(s) V^T, reduced: U [..., m, k], s [..., k] descending, V^T [..., k, n], k = min(m,n). The gradient
 * through U and V needs values that differ, and are not 0 unless x is square. */
HD_API hd_svd_parts hd_svd(hd_tensor *x);
/* The determinant of each matrix: [...]. The gradient needs one that is not singular. */
HD_API hd_tensor *hd_det(hd_tensor *x);
/* The sign of the determinant (0 of a singular matrix) and the logarithm of its size: [...] each. */
HD_API hd_signed_log hd_slogdet(hd_tensor *x);
/* The smallest X of those for which a X comes nearest to b: a [..., m, n], b [m] or [..., m, k]; cutoff as in
 * hd_pinv. */
HD_API hd_tensor *hd_lstsq(hd_tensor *a, hd_tensor *b, double cutoff);
/* x n times by itself as a matrix; of its inverse when n < 0. Integers stay integers when n >= 0. */
HD_API hd_tensor *hd_matrix_power(hd_tensor *x, int64_t n);
/* A norm of each matrix, which kind names: [...]. */
HD_API hd_tensor *hd_matrix_norm(hd_tensor *x, hd_matrix_norm_kind kind, const hd_reduce_opts *opts);
/* How many singular values are larger than cutoff times the largest, i64: [...]; 0 means max(m,n) epsilon. */
HD_API hd_tensor *hd_matrix_rank(hd_tensor *x, double cutoff);

/* ---- Normalisation ---- */
/* (x - mean) / sqrt(variance + eps) * weight + bias over the last `axes` axes; weight and bias of their shape, or
 * NULL; floats. */
HD_API hd_tensor *hd_layer_norm(hd_tensor *x, int axes, hd_tensor *weight, hd_tensor *bias, double eps);
/* x / sqrt(mean(x^2) + eps) * weight over the last axis; weight [n] or NULL; floats. */
HD_API hd_tensor *hd_rms_norm(hd_tensor *x, hd_tensor *weight, double eps);
/* The gradient of hd_layer_norm's x from that of its result; weight as there, or NULL. */
HD_API hd_tensor *hd_layer_norm_gradient(hd_tensor *gradient, hd_tensor *x, int axes, hd_tensor *weight, double eps);
/* The gradient of hd_rms_norm's x from that of its result; weight as there, or NULL. */
HD_API hd_tensor *hd_rms_norm_gradient(hd_tensor *gradient, hd_tensor *x, hd_tensor *weight, double eps);
/* The gradients of hd_layer_norm's weight and bias: [2, the normalised axes]. */
HD_API hd_tensor *hd_layer_norm_weight_gradient(hd_tensor *gradient, hd_tensor *x, int axes, double eps);
/* The gradient of hd_rms_norm's weight: [n]. */
HD_API hd_tensor *hd_rms_norm_weight_gradient(hd_tensor *gradient, hd_tensor *x, double eps);
/* (x - mean) / sqrt(variance + eps) * weight + bias of [n, c, ...], over each group of c / groups channels and what
 * is behind them; weight [c] and bias [c], or NULL; floats. */
HD_API hd_tensor *hd_group_norm(hd_tensor *x, int64_t groups, hd_tensor *weight, hd_tensor *bias, double eps);
/* hd_group_norm of each channel by itself: [n, c, ...], with one axis behind the channels at least; weight and bias
 * as there, or NULL. */
HD_API hd_tensor *hd_instance_norm(hd_tensor *x, hd_tensor *weight, hd_tensor *bias, double eps);
/* (x - mean) / sqrt(variance + eps) * weight + bias of each channel of [n, c, ...]: in training of the batch, and
 * running statistics [c], or NULL, move towards it by momentum, to the unbiased variance; else by the running ones.
 * weight [c] and bias [c], or NULL; floats. */
HD_API hd_tensor *hd_batch_norm(hd_tensor *x, hd_tensor *running_mean, hd_tensor *running_variance, hd_tensor *weight,
                                hd_tensor *bias, bool training, double momentum, double eps);
/* x / (k + alpha mean(x^2))^beta, the mean over `size` channels around each of [n, c, ...], with zeros beyond the
 * ends; floats. */
HD_API hd_tensor *hd_local_response_norm(hd_tensor *x, int64_t size, double alpha, double beta, double k);
/* x / max(sqrt(sum(x^2)), eps) on an axis; floats. */
HD_API hd_tensor *hd_l2_normalize(hd_tensor *x, int axis, double eps);
/* sum(a b) of hd_l2_normalize of both on an axis, which goes; shapes broadcast; floats. */
HD_API hd_tensor *hd_cosine_similarity(hd_tensor *a, hd_tensor *b, int axis, double eps);

/* ---- Convolution: images are [batch, channels, 1 to 3 spatial axes] ---- */
/* x [n, in, ...] with weight [out, in / groups, kernel] and bias [out] or NULL -> [n, out, ...]; floats. */
HD_API hd_tensor *hd_conv(hd_tensor *x, hd_tensor *weight, hd_tensor *bias, const hd_conv_opts *opts);
/* What takes gradients of hd_conv's result to its x: x [n, in, ...] with weight [in, out / groups, kernel] -> [n,
 * out, ...]; bias [out] or NULL. */
HD_API hd_tensor *hd_conv_transpose(hd_tensor *x, hd_tensor *weight, hd_tensor *bias, const hd_conv_opts *opts);
/* The gradient of hd_conv's weight from that of its result: [out, in / groups, kernel]. */
HD_API hd_tensor *hd_conv_weight_gradient(hd_tensor *x, hd_tensor *gradient, hd_shape kernel, const hd_conv_opts *opts);
/* hd_conv on [n, in, length], or on one image [in, length]; bias [out] or NULL. */
HD_API hd_tensor *hd_conv1d(hd_tensor *x, hd_tensor *weight, hd_tensor *bias, const hd_conv_opts *opts);
/* hd_conv on [n, in, height, width], or on one image [in, height, width]; bias [out] or NULL. */
HD_API hd_tensor *hd_conv2d(hd_tensor *x, hd_tensor *weight, hd_tensor *bias, const hd_conv_opts *opts);
/* hd_conv on [n, in, depth, height, width], or on one image; bias [out] or NULL. */
HD_API hd_tensor *hd_conv3d(hd_tensor *x, hd_tensor *weight, hd_tensor *bias, const hd_conv_opts *opts);
/* hd_conv_transpose on [n, in, length], or on one image; bias [out] or NULL. */
HD_API hd_tensor *hd_conv_transpose1d(hd_tensor *x, hd_tensor *weight, hd_tensor *bias, const hd_conv_opts *opts);
/* hd_conv_transpose on [n, in, height, width], or on one image; bias [out] or NULL. */
HD_API hd_tensor *hd_conv_transpose2d(hd_tensor *x, hd_tensor *weight, hd_tensor *bias, const hd_conv_opts *opts);
/* hd_conv_transpose on [n, in, depth, height, width], or on one image; bias [out] or NULL. */
HD_API hd_tensor *hd_conv_transpose3d(hd_tensor *x, hd_tensor *weight, hd_tensor *bias, const hd_conv_opts *opts);

/* ---- Pooling: over windows on the last 1 to 3 axes ---- */
/* The largest of each window; NaN if any is; floats. */
HD_API hd_tensor *hd_max_pool(hd_tensor *x, hd_shape window, const hd_pool_opts *opts);
/* The mean of each window; floats. */
HD_API hd_tensor *hd_avg_pool(hd_tensor *x, hd_shape window, const hd_pool_opts *opts);
/* values where hd_max_pool finds the largest of x (the first of equals, the last NaN); both of one shape. */
HD_API hd_tensor *hd_max_pool_pick(hd_tensor *values, hd_tensor *x, hd_shape window, const hd_pool_opts *opts);
/* The gradient of hd_max_pool's x: all of it to the element that was taken. */
HD_API hd_tensor *hd_max_pool_gradient(hd_tensor *gradient, hd_tensor *x, hd_shape window, const hd_pool_opts *opts);
/* The gradient of hd_avg_pool's x, which has this shape. */
HD_API hd_tensor *hd_avg_pool_gradient(hd_tensor *gradient, hd_shape shape, hd_shape window, const hd_pool_opts *opts);
/* hd_max_pool to a result of this size on the last axes, in windows as even as it goes. */
HD_API hd_tensor *hd_adaptive_max_pool(hd_tensor *x, hd_shape size);
/* hd_avg_pool to a result of this size on the last axes, in windows as even as it goes. */
HD_API hd_tensor *hd_adaptive_avg_pool(hd_tensor *x, hd_shape size);
/* (sum x^p)^(1/p) of each window, the sum being hd_avg_pool times the window's size; floats. */
HD_API hd_tensor *hd_lp_pool(hd_tensor *x, double p, hd_shape window, const hd_pool_opts *opts);
/* hd_max_pool, and where it found each: the place among the elements of the window's axes, in row-major order, i64.
 * */
HD_API hd_pair hd_max_pool_with_index(hd_tensor *x, hd_shape window, const hd_pool_opts *opts);
/* What each place of a window sees: [n, c, 1 to 3 spatial axes] -> [n, c * the window's elements, places]; stride,
 * dilation and padding as in hd_conv. */
HD_API hd_tensor *hd_im2col(hd_tensor *x, hd_shape window, const hd_conv_opts *opts);
/* The gradient of hd_im2col: adds up what windows on images with spatial axes of this size saw; [n, c * the window's
 * elements, places] -> [n, c, size]. */
HD_API hd_tensor *hd_col2im(hd_tensor *x, hd_shape size, hd_shape window, const hd_conv_opts *opts);

/* ---- Images: other sizes ---- */
/* Channels to pixels: [..., c * factor^2, h, w] -> [..., c, h * factor, w * factor]. */
HD_API hd_tensor *hd_pixel_shuffle(hd_tensor *x, int64_t factor);
/* Pixels to channels: [..., c, h * factor, w * factor] -> [..., c * factor^2, h, w]. */
HD_API hd_tensor *hd_pixel_unshuffle(hd_tensor *x, int64_t factor);
/* x with other sizes of the last 1 to 3 axes, by the nearest element or between elements; floats, and for the
 * nearest all dtypes. */
HD_API hd_tensor *hd_resize(hd_tensor *x, hd_shape size, const hd_resize_opts *opts);

/* ---- Attention ---- */
/* softmax(q k^T * scale + mask) v: q [..., t, d], k [..., s, d], v [..., s, e] -> [..., t, e]; mask broadcasts to
 * [..., t, s], bool (true takes part) or added, or NULL; causal: row i sees columns up to i; scale 0 is 1 / sqrt(d);
 * rows that see nothing are 0; floats. */
HD_API hd_tensor *hd_attention(hd_tensor *q, hd_tensor *k, hd_tensor *v, hd_tensor *mask, bool causal, double scale);
/* The gradients of hd_attention's q, k and v, flat, one behind the other: [count]. statistics [..., t, 2]: of each
 * row the largest score, and 1 over the sum of e^(score - largest), 0 where the row sees nothing; or NULL. */
HD_API hd_tensor *hd_attention_gradient(hd_tensor *gradient, hd_tensor *q, hd_tensor *k, hd_tensor *v, hd_tensor *mask,
                                        hd_tensor *statistics, bool causal, double scale);
/* hd_attention, mask or NULL, with hd_dropout of the weights by which rows of v are added; it holds them, [..., t,
 * s]. */
HD_API hd_tensor *hd_attention_dropout(hd_tensor *q, hd_tensor *k, hd_tensor *v, hd_tensor *mask, bool causal,
                                       double scale, double p);

/* ---- Ops of your own ---- */
/* The op of that name that hd_custom_register registered (custom.h): its first output; attributes, which may be
 * NULL, are copied. */
HD_API hd_tensor *hd_custom(const char *name, hd_tensors *inputs, const void *attributes, size_t bytes);

/* ---- Reversed scalar forms ---- */
/* value - x. */
HD_API hd_tensor *hd_rsub_scalar(hd_tensor *x, double value);
/* value / x. */
HD_API hd_tensor *hd_rdiv_scalar(hd_tensor *x, double value);
/* value^x. */
HD_API hd_tensor *hd_rpow_scalar(hd_tensor *x, double value);
/* x where the condition holds, else value. */
HD_API hd_tensor *hd_where_scalar(hd_tensor *condition, hd_tensor *x, double value);
/* value where the condition holds, else x. */
HD_API hd_tensor *hd_rwhere_scalar(hd_tensor *condition, hd_tensor *x, double value);
HD_END_DECLS

/* A number in the place of a dtype is an error when the program is compiled: see HD_CHECKED in dtype.h. */
#ifdef HD_CHECKED
/* clang-format off */
#define hd_full(...) HD_CHECKED(3, HD_CHECK_2_OF_3, hd_full, __VA_ARGS__)
#define hd_empty(...) HD_CHECKED(2, HD_CHECK_2_OF_2, hd_empty, __VA_ARGS__)
#define hd_range(...) HD_CHECKED(4, HD_CHECK_4_OF_4, hd_range, __VA_ARGS__)
#define hd_zeros(...) HD_CHECKED(2, HD_CHECK_2_OF_2, hd_zeros, __VA_ARGS__)
#define hd_ones(...) HD_CHECKED(2, HD_CHECK_2_OF_2, hd_ones, __VA_ARGS__)
#define hd_arange(...) HD_CHECKED(4, HD_CHECK_4_OF_4, hd_arange, __VA_ARGS__)
#define hd_linspace(...) HD_CHECKED(4, HD_CHECK_4_OF_4, hd_linspace, __VA_ARGS__)
#define hd_logspace(...) HD_CHECKED(4, HD_CHECK_4_OF_4, hd_logspace, __VA_ARGS__)
#define hd_eye(...) HD_CHECKED(3, HD_CHECK_3_OF_3, hd_eye, __VA_ARGS__)
#define hd_tri(...) HD_CHECKED(4, HD_CHECK_4_OF_4, hd_tri, __VA_ARGS__)
#define hd_uniform(...) HD_CHECKED(4, HD_CHECK_2_OF_4, hd_uniform, __VA_ARGS__)
#define hd_normal(...) HD_CHECKED(4, HD_CHECK_2_OF_4, hd_normal, __VA_ARGS__)
#define hd_randint(...) HD_CHECKED(4, HD_CHECK_2_OF_4, hd_randint, __VA_ARGS__)
#define hd_rand(...) HD_CHECKED(2, HD_CHECK_2_OF_2, hd_rand, __VA_ARGS__)
#define hd_randn(...) HD_CHECKED(2, HD_CHECK_2_OF_2, hd_randn, __VA_ARGS__)
#define hd_bernoulli(...) HD_CHECKED(3, HD_CHECK_2_OF_3, hd_bernoulli, __VA_ARGS__)
#define hd_exponential(...) HD_CHECKED(3, HD_CHECK_2_OF_3, hd_exponential, __VA_ARGS__)
#define hd_truncated_normal(...) HD_CHECKED(6, HD_CHECK_2_OF_6, hd_truncated_normal, __VA_ARGS__)
#define hd_cast(...) HD_CHECKED(2, HD_CHECK_2_OF_2, hd_cast, __VA_ARGS__)
#define hd_bitcast(...) HD_CHECKED(2, HD_CHECK_2_OF_2, hd_bitcast, __VA_ARGS__)
#define hd_one_hot(...) HD_CHECKED(3, HD_CHECK_3_OF_3, hd_one_hot, __VA_ARGS__)
/* clang-format on */
#endif

#endif
