/* Mixed precision: which calls compute in bf16 or f16, and which in f32.
 *
 *     {
 *         HD_AUTOCAST(HD_BF16);                  // a declaration, to the end of its block
 *         loss = hd_cross_entropy(hd_forward(model, x), target, NULL);
 *     }
 *     hd_backward(loss);
 *
 * Matrix products, convolutions, linear layers and attention take operands of f32 in that dtype, and give it. What is
 * delicate takes small floats in f32, and gives f32: exp, log, powers and their kin, sums and products of many, means,
 * softmax, norms, and hence losses. All else computes in the dtype in which its operands meet. Parameters stay f32, and
 * so do their gradients. It holds on this thread, at once, on tapes and in builders; not in backward and updates, whose
 * dtypes follow from what was computed, nor for f64. With f16 hd_scaler keeps gradients from vanishing. */
#ifndef HODU_AUTOCAST_H
#define HODU_AUTOCAST_H

#include <hodu/dtype.h>

typedef struct hd_autocast_token {
    const void *self;
    const void *before;
} hd_autocast_token;

HD_BEGIN_DECLS
/* For compilers without the cleanup attribute: begin at the top of a block, end on every way out of it. dtype: bf16,
 * f16, or f32, with which a block inside another one is left out. */
HD_API hd_autocast_token hd_autocast_begin(hd_autocast_token *self, hd_dtype dtype);
HD_API void hd_autocast_end(hd_autocast_token *token);
/* The dtype that holds now: f32 outside of all blocks. */
HD_API hd_dtype hd_autocast_dtype(void);
HD_END_DECLS

#ifdef __cplusplus
extern "C++" {
struct hd_autocast_guard {
    hd_autocast_token token;
    explicit hd_autocast_guard(hd_dtype dtype) : token(hd_autocast_begin(&token, dtype)) {}
    hd_autocast_guard(const hd_autocast_guard &) = delete;
    hd_autocast_guard &operator=(const hd_autocast_guard &) = delete;
    ~hd_autocast_guard() { hd_autocast_end(&token); }
};
}
#define HD_AUTOCAST(dtype) hd_autocast_guard HD_UNIQUE(hd_autocast_)(dtype)
#else
#define HD_AUTOCAST_AT_(token, dtype)                                                                                  \
    hd_autocast_token token __attribute__((cleanup(hd_autocast_end), unused)) = hd_autocast_begin(&token, dtype)
#define HD_AUTOCAST(dtype) HD_AUTOCAST_AT_(HD_UNIQUE(hd_autocast_), dtype)
#endif

#ifdef HD_CHECKED
#define hd_autocast_begin(...) HD_CHECKED(2, HD_CHECK_2_OF_2, hd_autocast_begin, __VA_ARGS__)
#endif

#endif
