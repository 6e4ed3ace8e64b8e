/* Values and gradients of normalisation, convolution, pooling and attention against PyTorch: the cases of
 * tests/golden/layers.txt, written by tests/golden/make_layers.py. Every function here has a case there, and the other
 * way round. */
#include "support.h"

#define S         HD_SHAPE
#define CONV(...) HD_OPTS(hd_conv_opts, __VA_ARGS__)
#define POOL(...) HD_OPTS(hd_pool_opts, __VA_ARGS__)
#define AROUND    .stride = {2, 2}, .padding = {{1, 1}, {1, 1}}

#define ALL(G)                                                                                                         \
    G(layer_norm, hd_layer_norm(x, 1, y, z, 1e-5))                                                                     \
    G(layer_norm_of_one, hd_layer_norm(x, 1, y, z, 1))                                                                 \
    G(layer_norm_two_axes, hd_layer_norm(x, 2, y, z, 0.5))                                                             \
    G(layer_norm_alone, hd_layer_norm(x, 1, NULL, NULL, 1e-5))                                                         \
    G(layer_norm_weight, hd_layer_norm(x, 1, y, NULL, 1e-5))                                                           \
    G(layer_norm_bias, hd_layer_norm(x, 1, NULL, y, 1e-5))                                                             \
    G(rms_norm, hd_rms_norm(x, y, 1e-5))                                                                               \
    G(rms_norm_alone, hd_rms_norm(x, NULL, 0.25))                                                                      \
    G(conv1d, hd_conv1d(x, y, z, NULL))                                                                                \
    G(conv1d_strided, hd_conv1d(x, y, NULL, CONV(.stride = {3}, .padding = {{2, 2}}, .dilation = {2})))                \
    G(conv2d, hd_conv2d(x, y, z, NULL))                                                                                \
    G(conv2d_same, hd_conv2d(x, y, z, CONV(.padding = {{1, 1}, {1, 1}})))                                              \
    G(conv2d_strided, hd_conv2d(x, y, NULL, CONV(.stride = {2, 3}, .padding = {{1, 1}}, .dilation = {2, 1})))          \
    G(conv2d_groups, hd_conv2d(x, y, z, CONV(.groups = 2)))                                                            \
    G(conv2d_depthwise, hd_conv2d(x, y, NULL, CONV(.padding = {{1, 1}, {1, 1}}, .groups = 3)))                         \
    G(conv3d, hd_conv3d(x, y, z, NULL))                                                                                \
    G(conv_transpose1d,                                                                                                \
      hd_conv_transpose1d(x, y, NULL, CONV(.stride = {2}, .padding = {{1, 1}}, .output_padding = {1})))                \
    G(conv_transpose2d, hd_conv_transpose2d(x, y, z, NULL))                                                            \
    G(conv_transpose2d_strided,                                                                                        \
      hd_conv_transpose2d(x, y, z, CONV(.stride = {2, 3}, .padding = {{1, 1}}, .dilation = {1, 2}, .groups = 2)))      \
    G(conv_transpose3d, hd_conv_transpose3d(x, y, z, NULL))                                                            \
    G(max_pool2d, hd_max_pool(x, S(2, 2), NULL))                                                                       \
    G(max_pool2d_overlapping, hd_max_pool(x, S(3, 3), POOL(.stride = {1, 1}, .padding = {{1, 1}, {1, 1}})))            \
    G(max_pool2d_dilated,                                                                                              \
      hd_max_pool(x, S(2, 3),                                                                                          \
                  POOL(.stride = {2, 1}, .padding = {{0, 0}, {1, 1}}, .dilation = {1, 2}, .ceil_mode = true)))         \
    G(max_pool1d, hd_max_pool(x, S(3), POOL(.stride = {2}, .padding = {{1, 1}})))                                      \
    G(max_pool3d, hd_max_pool(x, S(1, 2, 2), POOL(.stride = {1, 1, 1})))                                               \
    G(avg_pool1d, hd_avg_pool(x, S(3), POOL(.stride = {2}, .padding = {{1, 1}})))                                      \
    G(avg_pool2d, hd_avg_pool(x, S(2, 2), NULL))                                                                       \
    G(avg_pool2d_padded, hd_avg_pool(x, S(3, 3), POOL(AROUND, .ceil_mode = true)))                                     \
    G(avg_pool2d_inside, hd_avg_pool(x, S(3, 3), POOL(AROUND, .ceil_mode = true, .exclude_padding = true)))            \
    G(avg_pool3d, hd_avg_pool(x, S(2, 1, 2), POOL(.stride = {1, 1, 1})))                                               \
    G(adaptive_avg_pool2d, hd_adaptive_avg_pool(x, S(3, 2)))                                                           \
    G(adaptive_max_pool2d, hd_adaptive_max_pool(x, S(3, 2)))                                                           \
    G(attention, hd_attention(x, y, z, NULL, false, 0))                                                                \
    G(attention_scaled, hd_attention(x, y, z, NULL, false, 0.25))                                                      \
    G(attention_causal, hd_attention(x, y, z, NULL, true, 0))                                                          \
    G(attention_masked, hd_attention(x, y, z, w, false, 0))                                                            \
    G(attention_added, hd_attention(x, y, z, w, false, 0))

#include "golden/cases.h"

static void values_and_gradients_agree_with_pytorch(void **state) {
    (void)state;
    assert_int_equal(compare_all(HODU_TEST_DATA "/../golden/layers.txt"), 0);
}

RUN(test(values_and_gradients_agree_with_pytorch))
