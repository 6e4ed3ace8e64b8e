/* Values and gradients of normalisation, convolution, pooling and attention against PyTorch: the cases of
 * tests/golden/layers.txt, written by tests/golden/make_layers.py. Every function here has a case there, and the other way
 * round. */
#include "support.h"

#define ALL(G)                                                                                                         \
    G(layer_norm, hd_layer_norm(x, 1, y, z, 1e-5))                                                                     \
    G(layer_norm_of_one, hd_layer_norm(x, 1, y, z, 1))                                                                 \
    G(layer_norm_two_axes, hd_layer_norm(x, 2, y, z, 0.5))                                                             \
    G(layer_norm_alone, hd_layer_norm(x, 1, NULL, NULL, 1e-5))                                                         \
    G(layer_norm_weight, hd_layer_norm(x, 1, y, NULL, 1e-5))                                                           \
    G(layer_norm_bias, hd_layer_norm(x, 1, NULL, y, 1e-5))                                                             \
    G(rms_norm, hd_rms_norm(x, y, 1e-5))                                                                               \
    G(rms_norm_alone, hd_rms_norm(x, NULL, 0.25))

#include "golden/cases.h"

static void values_and_gradients_agree_with_pytorch(void **state) {
    (void)state;
    assert_int_equal(compare_all(HODU_TEST_DATA "/../golden/layers.txt"), 0);
}

RUN(test(values_and_gradients_agree_with_pytorch))
