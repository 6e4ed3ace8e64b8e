/* Layers against PyTorch's: outputs, gradients and buffers, in training and in evaluation, at once and in a script. The
 * cases are those of tests/golden/modules.txt, written by tests/golden/make_modules.py. Every layer here has a case
 * there, and the other way round. */
#include "support.h"

#define BATCH(...)     HD_OPTS(hd_batch_norm_layer_opts, __VA_ARGS__)
#define INSTANCE(...)  HD_OPTS(hd_instance_norm_layer_opts, __VA_ARGS__)
#define EMBEDDING(...) HD_OPTS(hd_embedding_layer_opts, __VA_ARGS__)
#define RECURRENT(...) HD_OPTS(hd_recurrent_opts, __VA_ARGS__)
#define RESIZE(...)    HD_OPTS(hd_resize_opts, __VA_ARGS__)
#define AROUND(...)    ((const hd_padding[]){__VA_ARGS__})
#define PLAIN_NORM     HD_OPTS(hd_norm_layer_opts, .no_weight = true, .no_bias = true)

/* It has seen three batches. */
static hd_module *cumulative(void) {
    hd_module *m = hd_batch_norm_layer(2, BATCH(.cumulative = true));
    hd_fill(hd_module_get(m, "num_batches_tracked"), 3);
    return m;
}

#define ALL(G)                                                                                                         \
    G(batch_norm, hd_batch_norm_layer(3, NULL))                                                                        \
    G(batch_norm_plain,                                                                                                \
      hd_batch_norm_layer(2, BATCH(.eps = 0.1, .momentum = 0.25, .no_weight = true, .no_bias = true)))                 \
    G(batch_norm_of_the_batch, hd_batch_norm_layer(2, BATCH(.no_running = true)))                                      \
    G(batch_norm_cumulative, cumulative())                                                                             \
    G(group_norm, hd_group_norm_layer(2, 6, NULL))                                                                     \
    G(group_norm_plain, hd_group_norm_layer(3, 3, PLAIN_NORM))                                                         \
    G(instance_norm, hd_instance_norm_layer(3, NULL))                                                                  \
    G(instance_norm_affine, hd_instance_norm_layer(3, INSTANCE(.affine = true, .running = true)))                      \
    G(embedding, hd_embedding_layer(5, 3, NULL))                                                                       \
    G(embedding_padded, hd_embedding_layer(5, 3, EMBEDDING(.pads = true, .padding_index = -2)))                        \
    G(upsample, hd_upsample_layer(2, NULL))                                                                            \
    G(upsample_linear, hd_upsample_layer(1.5, RESIZE(.mode = HD_RESIZE_LINEAR)))                                       \
    G(resize, hd_resize_layer(HD_SHAPE(4, 5), RESIZE(.mode = HD_RESIZE_LINEAR, .align_corners = true)))                \
    G(pad, hd_pad_layer(AROUND({0, 1}, {1, 2}), 2, -0.5))                                                              \
    G(pad_reflect, hd_pad_with_layer(AROUND({0, 1}, {1, 2}), 2, HD_PAD_REFLECT))                                       \
    G(pad_replicate, hd_pad_with_layer(AROUND({3, 1}), 1, HD_PAD_REPLICATE))                                           \
    G(pad_circular, hd_pad_with_layer(AROUND({1, 1}, {0, 1}, {1, 0}), 3, HD_PAD_CIRCULAR))                             \
    G(prelu, hd_prelu_layer(1, NULL))                                                                                  \
    G(prelu_channels, hd_prelu_layer(3, NULL))                                                                         \
    G(glu, hd_glu_layer(1))                                                                                            \
    G(softmin, hd_softmin_layer(-1))                                                                                   \
    G(rrelu, hd_rrelu_layer(0.125, 0.5))                                                                               \
    G(rnn, hd_rnn(3, 2, NULL))                                                                                         \
    G(rnn_relu, hd_rnn(2, 3, RECURRENT(.relu = true, .no_bias = true, .bidirectional = true)))                         \
    G(lstm, hd_lstm(3, 2, NULL))                                                                                       \
    G(lstm_deep, hd_lstm(2, 3, RECURRENT(.layers = 2, .bidirectional = true, .batch_first = true)))                    \
    G(gru, hd_gru(3, 2, NULL))                                                                                         \
    G(gru_deep, hd_gru(2, 3, RECURRENT(.layers = 3, .no_bias = true)))                                                 \
    G(gru_both, hd_gru(3, 2, RECURRENT(.bidirectional = true)))

#include "golden/modules.h"

static void layers_agree_with_pytorch(void **state) {
    (void)state;
    compare_all_layers(HODU_TEST_DATA "/../golden/modules.txt");
}

RUN(test(layers_agree_with_pytorch))
