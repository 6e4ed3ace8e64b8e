/* Scripts whose products are those of 8-bit integers. docs/guide/export.md tells of it. */
#ifndef HODU_QUANTIZE_H
#define HODU_QUANTIZE_H

#include <hodu/list.h>
#include <hodu/script.h>

HD_BEGIN_DECLS
/* Another script, in which each hd_matmul and hd_affine of f32 by a matrix that no run changes is computed in i8:
 *     x_q = x / s, rounded to even, within [-128, 127]; s = (largest |x| that the examples gave) / 127
 *     w_q likewise, within [-127, 127], with an s for each column of the result
 *     y = (the i32 product of x_q and w_q) * (s_x * s_w), + bias
 * Sums do not overflow: products of more than 131072 elements stay as they are. `examples`: what the script is run with
 * to see how large values are, each with the script's inputs in order. For scripts that update no state and draw
 * nothing; state that is there becomes constant. An error when there is no such product. */
HD_API hd_script *hd_quantize(hd_script *script, hd_tensors *const *examples, int64_t count);
HD_END_DECLS

#endif
