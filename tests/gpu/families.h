/* Calls of families that are templates on GPUs, on a device and on the CPU: every option, in every float dtype, of
 * plain tensors and of views. Who includes this has a device that runs them.
 *
 * CASE(label, IN(shapes of a, b, c, d), result). */
#ifndef HD_TESTS_GPU_FAMILIES_H
#define HD_TESTS_GPU_FAMILIES_H

#include "support.h"

#include <math.h>

#define IN(...)   __VA_ARGS__
#define S         HD_SHAPE
#define POOL(...) HD_OPTS(hd_pool_opts, __VA_ARGS__)

/* x with another value at one place; made here, as every op on a device takes its time to compile. */
static inline hd_tensor *changed(hd_tensor *x, int64_t at, double to) {
    hd_tensor *own = hd_copy(hd_cast(hd_to(x, hd_cpu()), HD_F64));
    hd_fill(hd_narrow(hd_reshape(own, S(-1)), 0, at, 1), to);
    return hd_to(hd_cast(own, hd_tensor_dtype(x)), hd_tensor_device(x));
}
static inline hd_tensor *spoiled(hd_tensor *x) {
    return changed(changed(changed(x, 3, NAN), 17, INFINITY), 29, -INFINITY);
}
static inline hd_tensor *far(hd_tensor *x, double by) {
    return hd_to(hd_add_scalar(hd_to(x, hd_cpu()), by), hd_tensor_device(x));
}
static inline hd_tensor *as_f32(hd_tensor *x) {
    return hd_to(hd_cast(hd_to(x, hd_cpu()), HD_F32), hd_tensor_device(x));
}
/* A mask that takes what is above 0. */
static inline hd_tensor *hidden(hd_tensor *x) {
    return hd_to(hd_gt_scalar(hd_cast(hd_to(x, hd_cpu()), HD_F32), 0), hd_tensor_device(x));
}
/* The gradients of q, k and v from that of the result, which is 0.5, through the tape: it keeps statistics of rows. */
static inline hd_tensor *attention_back(hd_tensor *q, hd_tensor *k, hd_tensor *v, hd_tensor *mask, bool causal,
                                        double scale) {
    hd_tensor *in[3] = {hd_requires_grad(hd_detach(q)), hd_requires_grad(hd_detach(k)), hd_requires_grad(hd_detach(v))};
    hd_tensor *y = hd_attention(in[0], in[1], in[2], mask, causal, scale), *flat[3];
    hd_tensors *back = hd_vjp(y, hd_tensors_from(in, 3), hd_full_like(y, 0.5));
    for (int i = 0; i < 3; ++i) flat[i] = hd_reshape(hd_to(hd_tensors_get(back, i), hd_cpu()), S(-1));
    hd_clear_tape();
    return hd_to(hd_concat(flat, 3, 0), hd_tensor_device(q));
}

#define NORM_CASES(CASE)                                                                                               \
    CASE(layer_norm, IN(S(3, 70), S(70), S(70)), hd_layer_norm(a, 1, b, c, 1e-5))                                      \
    CASE(layer_norm_short, IN(S(9, 3), S(3)), hd_layer_norm(a, 1, b, NULL, 0.5))                                       \
    CASE(layer_norm_one, IN(S(4, 1), S(1), S(1)), hd_layer_norm(a, 1, b, c, 1e-5))                                     \
    CASE(layer_norm_long, IN(S(2, 9001)), hd_layer_norm(a, 1, NULL, NULL, 1e-5))                                       \
    CASE(layer_norm_axes, IN(S(2, 3, 4, 5), S(3, 4, 5), S(3, 4, 5)), hd_layer_norm(a, 3, b, c, 0))                     \
    CASE(layer_norm_whole, IN(S(7, 9)), hd_layer_norm(a, 2, NULL, NULL, 1e-5))                                         \
    CASE(layer_norm_far, IN(S(3, 100)), hd_layer_norm(far(a, 100), 1, NULL, NULL, 1e-5))                               \
    CASE(layer_norm_mixed, IN(S(3, 8), S(8), S(8)), hd_layer_norm(a, 1, as_f32(b), c, 1e-5))                           \
    CASE(layer_norm_number, IN(S(5, 1)), hd_layer_norm(a, 1, hd_full(S(1), HD_F32, 3), NULL, 1))                       \
    CASE(layer_norm_spoiled, IN(S(8, 9), S(9)), hd_layer_norm(spoiled(a), 1, b, NULL, 1e-5))                           \
    CASE(layer_norm_no_rows, IN(S(0, 5), S(5)), hd_layer_norm(a, 1, b, NULL, 1e-5))                                    \
    CASE(layer_norm_no_columns, IN(S(5, 0), S(0)), hd_layer_norm(a, 1, b, NULL, 1e-5))                                 \
    CASE(rms_norm, IN(S(2, 3, 65), S(65)), hd_rms_norm(a, b, 1e-6))                                                    \
    CASE(rms_norm_alone, IN(S(300)), hd_rms_norm(a, NULL, 1e-6))                                                       \
    CASE(layer_norm_gradient, IN(S(5, 70), S(5, 70), S(70)), hd_layer_norm_gradient(a, b, 1, c, 1e-5))                 \
    CASE(layer_norm_gradient_alone, IN(S(4, 2, 9), S(4, 2, 9)), hd_layer_norm_gradient(a, b, 2, NULL, 1e-3))           \
    CASE(layer_norm_gradient_far, IN(S(3, 99), S(3, 99)), hd_layer_norm_gradient(a, far(b, 50), 1, NULL, 1e-5))        \
    CASE(layer_norm_gradient_spoiled, IN(S(8, 9), S(8, 9)),                                                            \
         hd_layer_norm_gradient(changed(a, 11, NAN), b, 1, NULL, 1e-3))                                                \
    CASE(rms_norm_gradient, IN(S(3, 40), S(3, 40), S(40)), hd_rms_norm_gradient(a, b, c, 1e-5))                        \
    CASE(rms_norm_gradient_alone, IN(S(3, 4), S(3, 4)), hd_rms_norm_gradient(a, b, NULL, 1e-5))                        \
    CASE(layer_norm_weight_gradient, IN(S(130, 70), S(130, 70)), hd_layer_norm_weight_gradient(a, b, 1, 1e-5))         \
    CASE(layer_norm_weight_gradient_axes, IN(S(2, 3, 5), S(2, 3, 5)), hd_layer_norm_weight_gradient(a, b, 2, 1e-5))    \
    CASE(layer_norm_weight_gradient_of_many, IN(S(16500, 2), S(16500, 2)),                                             \
         hd_layer_norm_weight_gradient(a, b, 1, 1e-2))                                                                 \
    CASE(layer_norm_weight_gradient_of_none, IN(S(0, 5), S(0, 5)), hd_layer_norm_weight_gradient(a, b, 1, 1e-5))       \
    CASE(rms_norm_weight_gradient, IN(S(65, 9), S(65, 9)), hd_rms_norm_weight_gradient(a, b, 1e-5))                    \
    CASE(rms_norm_weight_gradient_spoiled, IN(S(9, 9), S(9, 9)),                                                       \
         hd_rms_norm_weight_gradient(changed(a, 11, NAN), b, 1e-5))

#define POOL_CASES(CASE)                                                                                               \
    CASE(max_pool_1, IN(S(2, 3, 17)), hd_max_pool(a, S(3), NULL))                                                      \
    CASE(max_pool_2, IN(S(2, 9, 11)), hd_max_pool(a, S(2, 3), POOL(.stride = {2, 1}, .padding = {{1, 0}, {1, 1}})))    \
    CASE(max_pool_3, IN(S(2, 5, 6, 7)), hd_max_pool(a, S(2, 2, 3), POOL(.stride = {1, 2, 2})))                         \
    CASE(max_pool_dilated, IN(S(3, 12, 13)),                                                                           \
         hd_max_pool(a, S(3, 2), POOL(.stride = {1, 1}, .dilation = {3, 2}, .padding = {{3, 3}, {1, 1}})))             \
    CASE(max_pool_ceil, IN(S(3, 10)),                                                                                  \
         hd_max_pool(a, S(3), POOL(.stride = {4}, .padding = {{1, 1}}, .ceil_mode = true)))                            \
    CASE(max_pool_adaptive, IN(S(2, 7, 10)), hd_adaptive_max_pool(a, S(3, 4)))                                         \
    CASE(max_pool_adaptive_up, IN(S(3, 4)), hd_adaptive_max_pool(a, S(5, 9)))                                          \
    CASE(max_pool_spoiled, IN(S(6, 9)), hd_max_pool(spoiled(a), S(2, 2), POOL(.stride = {1, 1})))                      \
    CASE(max_pool_of_lowest, IN(S(6)), hd_max_pool(changed(changed(a, 2, -INFINITY), 3, -INFINITY), S(2), NULL))       \
    CASE(max_pool_of_none, IN(S(0, 6)), hd_max_pool(a, S(2), NULL))                                                    \
    CASE(avg_pool_1, IN(S(5, 20)), hd_avg_pool(a, S(4), POOL(.stride = {3})))                                          \
    CASE(avg_pool_2, IN(S(2, 2, 8, 9)),                                                                                \
         hd_avg_pool(a, S(3, 4), POOL(.stride = {2, 2}, .padding = {{1, 1}, {2, 1}}, .ceil_mode = true)))              \
    CASE(avg_pool_inside, IN(S(2, 8, 9)),                                                                              \
         hd_avg_pool(a, S(3, 3), POOL(.stride = {2, 2}, .padding = {{1, 1}, {1, 1}}, .exclude_padding = true)))        \
    CASE(avg_pool_3, IN(S(4, 5, 6)), hd_avg_pool(a, S(2, 3, 4), POOL(.stride = {1, 1, 1})))                            \
    CASE(avg_pool_adaptive, IN(S(2, 3, 8, 5)), hd_adaptive_avg_pool(a, S(3, 2)))                                       \
    CASE(avg_pool_spoiled, IN(S(4, 10)), hd_avg_pool(spoiled(a), S(2), NULL))                                          \
    CASE(max_pool_pick, IN(S(2, 9, 8), S(2, 9, 8)),                                                                    \
         hd_max_pool_pick(a, b, S(3, 3), POOL(.stride = {2, 2}, .padding = {{1, 1}, {1, 1}})))                         \
    CASE(max_pool_pick_mixed, IN(S(3, 9), S(3, 9)), hd_max_pool_pick(a, as_f32(b), S(2), NULL))                        \
    CASE(max_pool_pick_spoiled, IN(S(5, 9), S(5, 9)), hd_max_pool_pick(a, spoiled(b), S(3), POOL(.stride = {1})))      \
    CASE(max_pool_gradient, IN(S(2, 4, 4), S(2, 9, 9)), hd_max_pool_gradient(a, b, S(3, 3), POOL(.stride = {2, 2})))   \
    CASE(max_pool_gradient_dilated, IN(S(3, 12, 13), S(3, 12, 13)),                                                    \
         hd_max_pool_gradient(a, b, S(3, 2), POOL(.stride = {1, 1}, .dilation = {3, 2}, .padding = {{3, 3}, {1, 1}}))) \
    CASE(max_pool_gradient_adaptive, IN(S(2, 5, 3), S(2, 3, 7)),                                                       \
         hd_max_pool_gradient(a, b, S(5, 3), POOL(.adaptive = true)))                                                  \
    CASE(max_pool_gradient_spoiled, IN(S(7, 4), S(7, 9)),                                                              \
         hd_max_pool_gradient(changed(a, 3, NAN), spoiled(b), S(2), NULL))                                             \
    CASE(avg_pool_gradient, IN(S(2, 4, 5)),                                                                            \
         hd_avg_pool_gradient(a, S(2, 8, 9), S(3, 3), POOL(.stride = {2, 2}, .padding = {{1, 1}, {1, 1}})))            \
    CASE(avg_pool_gradient_3, IN(S(3, 2, 3)),                                                                          \
         hd_avg_pool_gradient(a, S(4, 3, 5), S(2, 2, 3), POOL(.stride = {1, 1, 1})))                                   \
    CASE(avg_pool_gradient_inside, IN(S(2, 5)),                                                                        \
         hd_avg_pool_gradient(a, S(2, 9), S(3), POOL(.stride = {2}, .padding = {{1, 1}}, .exclude_padding = true)))    \
    CASE(avg_pool_gradient_adaptive, IN(S(2, 5, 3)),                                                                   \
         hd_avg_pool_gradient(a, S(2, 3, 7), S(5, 3), POOL(.adaptive = true)))

/* Heads of more than a tile, of less, and of neither; masks that are stretched along each axis. */
#define ATTENTION_CASES(CASE)                                                                                          \
    CASE(attention, IN(S(2, 3, 5, 4), S(2, 3, 7, 4), S(2, 3, 7, 6)), hd_attention(a, b, c, NULL, false, 0))            \
    CASE(attention_flat, IN(S(3, 2), S(4, 2), S(4, 3)), hd_attention(a, b, c, NULL, false, -0.5))                      \
    CASE(attention_wide, IN(S(2, 40, 70), S(2, 75, 70), S(2, 75, 150)), hd_attention(a, b, c, NULL, false, 0.3))       \
    CASE(attention_causal, IN(S(2, 70, 8), S(2, 70, 8), S(2, 70, 40)), hd_attention(a, b, c, NULL, true, 0))           \
    CASE(attention_causal_short, IN(S(9, 3), S(4, 3), S(4, 3)), hd_attention(a, b, c, NULL, true, 2))                  \
    CASE(attention_causal_long, IN(S(4, 3), S(40, 3), S(40, 3)), hd_attention(a, b, c, NULL, true, 2))                 \
    CASE(attention_hidden, IN(S(2, 2, 5, 3), S(2, 2, 40, 3), S(2, 2, 40, 3), S(2, 1, 1, 40)),                          \
         hd_attention(a, b, c, hidden(d), false, 0))                                                                   \
    CASE(attention_rows_hidden, IN(S(35, 3), S(4, 3), S(4, 3), S(35, 1)), hd_attention(a, b, c, hidden(d), false, 0))  \
    CASE(attention_added, IN(S(2, 3, 5, 4), S(2, 3, 7, 4), S(2, 3, 7, 6), S(3, 5, 7)),                                 \
         hd_attention(a, b, c, d, true, 0))                                                                            \
    CASE(attention_added_f32, IN(S(2, 5, 4), S(2, 7, 4), S(2, 7, 6), S(7)),                                            \
         hd_attention(a, b, c, as_f32(d), false, 0))                                                                   \
    CASE(attention_many_axes, IN(S(1, 2, 1, 2, 2, 2, 3, 4), S(1, 2, 1, 2, 2, 2, 3, 4), S(1, 2, 1, 2, 2, 2, 3, 4)),     \
         hd_attention(a, b, c, NULL, false, 0))                                                                        \
    CASE(attention_mixed, IN(S(5, 4), S(7, 4), S(7, 6)), hd_attention(as_f32(a), b, c, NULL, false, 0))                \
    CASE(attention_spoiled, IN(S(33, 4), S(7, 4), S(7, 6)), hd_attention(spoiled(a), b, c, NULL, false, 0))            \
    CASE(attention_spoiled_keys, IN(S(5, 4), S(40, 4), S(40, 6), S(40)),                                               \
         hd_attention(a, changed(b, 30, NAN), c, hidden(d), false, 0))                                                 \
    CASE(attention_spoiled_values, IN(S(5, 4), S(7, 4), S(7, 6)), hd_attention(a, b, spoiled(c), NULL, false, 0))      \
    CASE(attention_no_keys, IN(S(2, 3, 4), S(2, 0, 4), S(2, 0, 5)), hd_attention(a, b, c, NULL, false, 0))             \
    CASE(attention_no_rows, IN(S(2, 0, 4), S(2, 3, 4), S(2, 3, 5)), hd_attention(a, b, c, NULL, false, 0))             \
    CASE(attention_no_values, IN(S(2, 3, 4), S(2, 5, 4), S(2, 5, 0)), hd_attention(a, b, c, NULL, false, 0))           \
    CASE(attention_no_size, IN(S(2, 3, 0), S(2, 40, 0), S(2, 40, 5)), hd_attention(a, b, c, NULL, false, 0))           \
    CASE(attention_back, IN(S(2, 3, 5, 4), S(2, 3, 7, 4), S(2, 3, 7, 6)), attention_back(a, b, c, NULL, false, 0))     \
    CASE(attention_back_wide, IN(S(2, 40, 70), S(2, 75, 70), S(2, 75, 100)),                                           \
         attention_back(a, b, c, NULL, false, 0.3))                                                                    \
    CASE(attention_back_causal, IN(S(2, 70, 8), S(2, 70, 8), S(2, 70, 40)), attention_back(a, b, c, NULL, true, 0))    \
    CASE(attention_back_hidden, IN(S(2, 2, 35, 3), S(2, 2, 40, 3), S(2, 2, 40, 3), S(2, 1, 35, 1)),                    \
         attention_back(a, b, c, hidden(d), false, 0))                                                                 \
    CASE(attention_back_added, IN(S(2, 3, 5, 4), S(2, 3, 7, 4), S(2, 3, 7, 6), S(3, 5, 7)),                            \
         attention_back(a, b, c, d, true, 0))                                                                          \
    CASE(attention_gradient, IN(S(2, 5, 6), S(2, 5, 4), S(2, 40, 4), S(2, 40, 6)),                                     \
         hd_attention_gradient(a, b, c, d, NULL, NULL, false, 0))                                                      \
    CASE(attention_gradient_causal, IN(S(2, 40, 6), S(2, 40, 4), S(2, 35, 4), S(2, 35, 6)),                            \
         hd_attention_gradient(a, b, c, d, NULL, NULL, true, -1))                                                      \
    CASE(attention_gradient_spoiled, IN(S(5, 6), S(5, 4), S(7, 4), S(7, 6)),                                           \
         hd_attention_gradient(a, changed(b, 3, NAN), c, d, NULL, NULL, false, 0))                                     \
    CASE(attention_gradient_no_keys, IN(S(2, 5, 6), S(2, 5, 4), S(2, 0, 4), S(2, 0, 6)),                               \
         hd_attention_gradient(a, b, c, d, NULL, NULL, false, 0))                                                      \
    CASE(attention_gradient_no_rows, IN(S(2, 0, 6), S(2, 0, 4), S(2, 3, 4), S(2, 3, 6)),                               \
         hd_attention_gradient(a, b, c, d, NULL, NULL, false, 0))                                                      \
    CASE(attention_gradient_no_values, IN(S(2, 5, 0), S(2, 5, 4), S(2, 3, 4), S(2, 3, 0)),                             \
         hd_attention_gradient(a, b, c, d, NULL, NULL, false, 0))                                                      \
    CASE(attention_gradient_no_size, IN(S(2, 5, 6), S(2, 5, 0), S(2, 3, 0), S(2, 3, 6)),                               \
         hd_attention_gradient(a, b, c, d, NULL, NULL, false, 0))

#define SCAN(before, back) HD_OPTS(hd_scan_opts, .exclusive = before, .reverse = back)
static inline hd_tensor *places_of(hd_pair p) { return p.indices; }
#define SCAN_CASES(CASE)                                                                                               \
    CASE(cumsum, IN(S(5, 70)), hd_cumsum(a, 1, NULL))                                                                  \
    CASE(cumsum_long, IN(S(2, 3001)), hd_cumsum(a, 1, SCAN(true, false)))                                              \
    CASE(cumsum_long_back, IN(S(2, 3001)), hd_cumsum(a, 1, SCAN(false, true)))                                         \
    CASE(cumsum_side_by_side, IN(S(3, 40, 65)), hd_cumsum(a, 1, SCAN(true, true)))                                     \
    CASE(cumsum_few_columns, IN(S(2, 600, 3)), hd_cumsum(a, 1, NULL))                                                  \
    CASE(cumsum_short, IN(S(70, 9)), hd_cumsum(a, 1, NULL))                                                            \
    CASE(cumsum_spoiled, IN(S(4, 300)), hd_cumsum(spoiled(a), 1, NULL))                                                \
    CASE(cumsum_of_none, IN(S(4, 0)), hd_cumsum(a, 1, NULL))                                                           \
    CASE(cumprod, IN(S(5, 70)), hd_cumprod(far(a, 1.5), 1, NULL))                                                      \
    CASE(cumprod_back, IN(S(2, 600)), hd_cumprod(a, 1, SCAN(true, true)))                                              \
    CASE(logcumsumexp, IN(S(5, 70)), hd_logcumsumexp(a, 1, NULL))                                                      \
    CASE(logcumsumexp_long, IN(S(2, 3001)), hd_logcumsumexp(far(a, 100), 1, SCAN(false, true)))                        \
    CASE(logcumsumexp_spoiled, IN(S(4, 300)), hd_logcumsumexp(spoiled(a), 1, SCAN(true, false)))                       \
    CASE(cummax, IN(S(5, 700)), hd_cummax(a, 1, NULL).values)                                                          \
    CASE(cummax_places, IN(S(5, 700)), places_of(hd_cummax(a, 1, SCAN(false, true))))                                  \
    CASE(cummax_spoiled, IN(S(4, 300)), places_of(hd_cummax(spoiled(a), 1, NULL)))                                     \
    CASE(cummin, IN(S(70, 40)), hd_cummin(a, 0, NULL).values)                                                          \
    CASE(cummin_places, IN(S(3, 50, 65)), places_of(hd_cummin(a, 1, NULL)))

#define FAMILY_CASES(CASE)                                                                                             \
    NORM_CASES(CASE)                                                                                                   \
    POOL_CASES(CASE)                                                                                                   \
    SCAN_CASES(CASE)                                                                                                   \
    ATTENTION_CASES(CASE)

/* Values from -1 to 1, some of them equal; `strided`: part of memory that has the axes in another order. */
typedef struct family_way {
    hd_dtype dtype;
    bool strided;
    hd_device device;
} family_way;
static inline hd_tensor *family_operand(hd_shape shape, int which, family_way way) {
    const int64_t count = hd_shape_count(shape);
    float *v = malloc((size_t)(count + 1) * sizeof *v);
    for (int64_t i = 0; i < count; ++i) v[i] = (float)((i * 37 + which * 11 + i / 101) % 101 - 50) / 50;
    hd_tensor *t = hd_cast(hd_from_data(v, shape, HD_F32), way.dtype);
    free(v);
    if (!way.strided) return hd_to(t, way.device);
    hd_axes turned = {.count = shape.rank};
    for (int i = 0; i < shape.rank; ++i) turned.axis[i] = shape.rank - 1 - i;
    hd_tensor *memory = hd_contiguous(hd_permute(hd_concat((hd_tensor *[]){t, t}, 2, -1), turned));
    return hd_narrow(hd_permute(hd_to(memory, way.device), turned), -1, 0, shape.size[shape.rank - 1]);
}
static inline void family_operands(hd_tensor *out[4], const hd_shape shapes[4], family_way way) {
    for (int i = 0; i < 4; ++i) out[i] = shapes[i].rank > 0 ? family_operand(shapes[i], i, way) : NULL;
}

#define FAMILY_FUNCTION(label, in, result)                                                                             \
    static hd_tensor *family_##label(family_way way) {                                                                 \
        hd_tensor *t[4];                                                                                               \
        family_operands(t, (const hd_shape[4]){in}, way);                                                              \
        hd_tensor *a = t[0], *b = t[1], *c = t[2], *d = t[3];                                                          \
        (void)a, (void)b, (void)c, (void)d;                                                                            \
        return result;                                                                                                 \
    }
FAMILY_CASES(FAMILY_FUNCTION)
#undef FAMILY_FUNCTION

typedef struct family_case {
    const char *name;
    hd_tensor *(*run)(family_way way);
} family_case;
#define FAMILY_ROW(label, in, result) {#label, family_##label},
static const family_case families[] = {FAMILY_CASES(FAMILY_ROW)};
#undef FAMILY_ROW
enum { FAMILIES = (int)(sizeof families / sizeof families[0]) };

static inline hd_tensor *family_run(const family_case *f, family_way way) {
    hd_tensor *y = f->run(way);
    if (y == NULL) fail_msg("%s, %s: %s", f->name, hd_dtype_name(way.dtype), hd_error_message());
    assert_true(hd_tensor_device(y).kind == way.device.kind);
    return hd_to(y, hd_cpu());
}

static inline void family_check(int k, hd_dtype dtype, bool strided, hd_device device) {
    static const double relative[HD_DTYPE_COUNT] = {
        [HD_F64] = 1e-12, [HD_F32] = 4e-5, [HD_F16] = 4e-3, [HD_BF16] = 3e-2, [HD_F8E4M3] = 0.26, [HD_F8E5M2] = 0.51};
    HD_SCOPE;
    char why[512] = "";
    hd_allclose_opts o = HD_DEFAULTS(hd_allclose_opts);
    o.relative = relative[dtype];
    o.absolute = relative[dtype] / 4;
    o.explain = why;
    o.explain_capacity = sizeof why;
    hd_tensor *there = family_run(&families[k], (family_way){dtype, strided, device});
    hd_tensor *here = family_run(&families[k], (family_way){dtype, strided, hd_cpu()});
    if (hd_tensor_dtype(there) != hd_tensor_dtype(here) || !hd_allclose(there, here, &o))
        fail_msg("%s, %s%s: %s", families[k].name, hd_dtype_name(dtype), strided ? ", views" : "", why);
}

#endif
