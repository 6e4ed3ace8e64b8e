"""What PyTorch says about values and gradients of layers: normalisation, convolution, pooling, attention.
Writes tests/golden/layers.txt, which tests/grad/test_layers.c reads (the format: cases.h). `make golden` runs it.
"""
import torch
import torch.nn.functional as F

from cases import INF, NAN, Cases, fixture, mask, numbers

case = Cases("layers.txt", "make_layers.py", values=True)


# ---- normalisation ----
SCALE, SHIFT = fixture(5, start=9), fixture(5, start=30)
case("layer_norm", lambda x, w, b: F.layer_norm(x, (5,), w, b, 1e-5), fixture(3, 5), SCALE, SHIFT)
case("layer_norm", lambda x, w, b: F.layer_norm(x, (5,), w, b, 1e-5), fixture(5), SCALE, SHIFT)
case("layer_norm", lambda x, w, b: F.layer_norm(x, (5,), w, b, 1e-5), fixture(0, 5), SCALE, SHIFT)
case("layer_norm_of_one", lambda x, w, b: F.layer_norm(x, (1,), w, b, 1), fixture(3, 1), numbers(2), numbers(-1))
case("layer_norm", lambda x, w, b: F.layer_norm(x, (3,), w, b, 1e-5), numbers(1, NAN, 2, 1, INF, 0, 4, 4, 4, shape=(3, 3)), numbers(1, 2, 3),
     numbers(0, 1, -1))
case("layer_norm_two_axes", lambda x, w, b: F.layer_norm(x, (2, 3), w, b, 0.5), fixture(2, 2, 3), fixture(2, 3, start=9), fixture(2, 3, start=30))
case("layer_norm_alone", lambda x: F.layer_norm(x, (19,), eps=1e-5), fixture(2, 3, 19))
case("layer_norm_weight", lambda x, w: F.layer_norm(x, (5,), w, None, 1e-5), fixture(4, 5), SCALE)
case("layer_norm_bias", lambda x, b: F.layer_norm(x, (5,), None, b, 1e-5), fixture(4, 5), SHIFT)
case("rms_norm", lambda x, w: F.rms_norm(x, (5,), w, 1e-5), fixture(3, 5), SCALE)
case("rms_norm", lambda x, w: F.rms_norm(x, (5,), w, 1e-5), fixture(2, 0, 5), SCALE)
case("rms_norm", lambda x, w: F.rms_norm(x, (3,), w, 1e-5), numbers(1, NAN, 2, 0, 0, 0, 4, 4, 4, shape=(3, 3)), numbers(1, 2, 3))
case("rms_norm_alone", lambda x: F.rms_norm(x, (19,), eps=0.25), fixture(2, 3, 19))

# ---- convolution ----
BIAS = fixture(4, start=30)
case("conv1d", F.conv1d, fixture(2, 2, 7), fixture(4, 2, 3, start=9), BIAS)
case("conv1d_strided", lambda x, w: F.conv1d(x, w, stride=3, padding=2, dilation=2), fixture(1, 2, 11), fixture(3, 2, 3, start=9))
case("conv2d", F.conv2d, fixture(2, 2, 4, 3), fixture(4, 2, 3, 2, start=9), BIAS)
case("conv2d", F.conv2d, fixture(2, 4, 3), fixture(4, 2, 3, 2, start=9), BIAS)
case("conv2d_same", lambda x, w, b: F.conv2d(x, w, b, padding=1), fixture(1, 3, 5, 4), fixture(4, 3, 3, 3, start=9), BIAS)
case("conv2d_strided", lambda x, w: F.conv2d(x, w, stride=(2, 3), padding=(1, 0), dilation=(2, 1)), fixture(1, 2, 7, 8), fixture(3, 2, 3, 2, start=9))
case("conv2d_groups", lambda x, w, b: F.conv2d(x, w, b, groups=2), fixture(1, 4, 3, 4), fixture(4, 2, 2, 2, start=9), BIAS)
case("conv2d_depthwise", lambda x, w: F.conv2d(x, w, padding=1, groups=3), fixture(2, 3, 4, 4), fixture(3, 1, 3, 3, start=9))
case("conv3d", F.conv3d, fixture(1, 2, 3, 3, 4), fixture(4, 2, 2, 2, 2, start=9), BIAS)
case("conv_transpose1d", lambda x, w: F.conv_transpose1d(x, w, stride=2, padding=1, output_padding=1), fixture(1, 2, 5), fixture(2, 3, 3, start=9))
case("conv_transpose2d", F.conv_transpose2d, fixture(1, 2, 3, 3), fixture(2, 4, 2, 3, start=9), BIAS)
case("conv_transpose2d_strided", lambda x, w, b: F.conv_transpose2d(x, w, b, stride=(2, 3), padding=(1, 0), dilation=(1, 2), groups=2),
     fixture(1, 4, 3, 2), fixture(4, 2, 3, 2, start=9), BIAS)
case("conv_transpose3d", F.conv_transpose3d, fixture(1, 2, 2, 2, 2), fixture(2, 4, 2, 1, 2, start=9), BIAS)

# ---- pooling ----
TIES = numbers(1, 3, 3, 2, 2, 2, 0, -1, 0, -0.0, 0, -5, 4, 4, 4, 4, shape=(1, 1, 4, 4))
SPECIAL = numbers(1, NAN, 3, 2, NAN, 2, INF, -1, -INF, -INF, 0, -5, -INF, -INF, 4, 4, shape=(1, 1, 4, 4))
case("max_pool2d", lambda x: F.max_pool2d(x, 2), fixture(1, 2, 5, 4))
case("max_pool2d", lambda x: F.max_pool2d(x, 2), TIES)
case("max_pool2d", lambda x: F.max_pool2d(x, 2), SPECIAL)
case("max_pool2d_overlapping", lambda x: F.max_pool2d(x, 3, 1, 1), TIES)
case("max_pool2d_overlapping", lambda x: F.max_pool2d(x, 3, 1, 1), SPECIAL)
case("max_pool2d_dilated", lambda x: F.max_pool2d(x, (2, 3), (2, 1), (0, 1), (1, 2), ceil_mode=True), fixture(1, 2, 5, 6))
case("max_pool1d", lambda x: F.max_pool1d(x, 3, 2, 1), fixture(1, 2, 8))
case("max_pool3d", lambda x: F.max_pool3d(x, (1, 2, 2), 1), fixture(1, 1, 2, 3, 4))
case("avg_pool1d", lambda x: F.avg_pool1d(x, 3, 2, 1), fixture(1, 2, 8))
case("avg_pool2d", lambda x: F.avg_pool2d(x, 2), fixture(1, 2, 5, 4))
case("avg_pool2d_padded", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), fixture(1, 2, 6, 5))
case("avg_pool2d_inside", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), fixture(1, 2, 6, 5))
case("avg_pool3d", lambda x: F.avg_pool3d(x, (2, 1, 2), 1), fixture(1, 2, 3, 2, 3))
case("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 2)), fixture(1, 2, 5, 7))
case("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 2)), fixture(2, 2, 1))
case("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (3, 2)), fixture(1, 2, 5, 7))

# ---- attention ----
SDPA = F.scaled_dot_product_attention
QUERY, KEY, VALUE = fixture(2, 3, 4), fixture(2, 5, 4, start=9), fixture(2, 5, 3, start=30)
case("attention", SDPA, QUERY, KEY, VALUE)
case("attention", SDPA, fixture(1, 2), fixture(1, 2, start=9), fixture(1, 1, start=30))
case("attention_scaled", lambda q, k, v: SDPA(q, k, v, scale=0.25), QUERY, KEY, VALUE)
case("attention_causal", lambda q, k, v: SDPA(q, k, v, is_causal=True), QUERY, KEY, VALUE)
case("attention_causal", lambda q, k, v: SDPA(q, k, v, is_causal=True), fixture(1, 2, 4, 2), fixture(1, 2, 3, 2, start=9), fixture(1, 2, 3, 2, start=30))
SEEN = mask(True, False, True, True, False, False, True, False, True, True, True, False, False, False, True, shape=(3, 5))
case("attention_masked", lambda q, k, v, m: SDPA(q, k, v, m), QUERY, KEY, VALUE, SEEN)
case("attention_masked", lambda q, k, v, m: SDPA(q, k, v, m), QUERY, KEY, VALUE, mask(*[True] * 9, False, shape=(2, 1, 5)))
HIDDEN = mask(True, False, True, True, False, *[False] * 5, True, False, False, False, True, shape=(3, 5))  # a row sees nothing
case("attention_masked", lambda q, k, v, m: SDPA(q, k, v, m), QUERY, KEY, VALUE, HIDDEN)
case("attention_added", lambda q, k, v, m: SDPA(q, k, v, m), QUERY, KEY, VALUE, fixture(3, 5, start=50))
case("attention_added", lambda q, k, v, m: SDPA(q, k, v, m), QUERY, KEY, VALUE, fixture(2, 3, 1, start=50))
case.out.close()
