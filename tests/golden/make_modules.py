"""Writes modules.txt beside it: what PyTorch's layers give, and their gradients, in training and in evaluation.

    .venv/bin/python tests/golden/make_modules.py

A case is the name of a layer in tests/nn/layer_cases.h, and 1 for training. Then come, in order:
    in SHAPE          an input with a gradient: `fixture` of its number, a formula that the test knows too
    i64 SHAPE VALUES  an input without; likewise bool
    param NAME        a parameter or buffer of hodu's name, with the values of its number's `fixture`
    out SHAPE VALUES  what it gives, whose gradients are `fixture`, too
    grad VALUES       the gradients of the inputs, then of the parameters, in the order of both
    buffer NAME VALUES  what a buffer is afterwards
"""
import os

import torch
from torch import nn

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
out = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "modules.txt"), "w")
out.write(f"# PyTorch {torch.__version__.split('+')[0]}, by make_modules.py\n")
INPUT, OUTPUT = 40, 60


def fixture(which, shape):
    count = 1
    for size in shape:
        count *= size
    return ((torch.arange(count) * 37 + 11 * which) % 101 - 50).double().div(64).reshape(shape)


def given(number, value):
    """An input: a shape, of floats that have a gradient, or a tensor."""
    return value if isinstance(value, torch.Tensor) else fixture(INPUT + number, value).requires_grad_()


def text(values):
    return " ".join(f"{v:.10g}" for v in values.detach().reshape(-1).double().tolist())


def line(word, shape, values=None):
    print(word, len(shape), *shape, *([] if values is None else [text(values)]), file=out)


def write_input(value):
    if value.requires_grad:
        line("in", value.shape)
    else:
        line("bool" if value.dtype == torch.bool else "i64", value.shape, value)


def case(name, module, inputs, *, names, buffers=None, call=None, modes=(True, False)):
    """names: hodu's name of each parameter, in PyTorch's order or by PyTorch's name; buffers likewise, by name."""
    names = dict(zip(dict(module.named_parameters()), names)) if isinstance(names, (tuple, list)) else names
    buffers = buffers or {}
    for training in modes:
        module.train(training)
        print("case", name, int(training), file=out)
        tensors = dict(module.named_parameters()) | dict(module.named_buffers())
        held = []
        with torch.no_grad():
            for number, (theirs, ours) in enumerate((names | buffers).items()):
                t = tensors[theirs]
                t.copy_(fixture(number, t.shape).abs() if theirs in buffers else fixture(number, t.shape))
                held.append((ours, t))
        values = [given(number, value) for number, value in enumerate(inputs)]
        for value in values:
            write_input(value)
        for ours, _ in held:
            print("param", ours, file=out)
        results = (call or (lambda m, *v: m(*v)))(module, *values)
        results = results if isinstance(results, tuple) else (results,)
        for result in results:
            line("out", result.shape, result)
        module.zero_grad()
        torch.autograd.backward(results, [fixture(OUTPUT + i, r.shape) for i, r in enumerate(results)])
        for t in [v for v in values if v.requires_grad] + [t for _, t in held if t.requires_grad]:
            print("grad", text(t.grad if t.grad is not None else torch.zeros_like(t)), file=out)
        for theirs, ours in buffers.items():
            print("buffer", ours, text(tensors[theirs]), file=out)


def index(*values, shape=None):
    return torch.tensor(values, dtype=torch.int64).reshape(shape or (len(values),))


def mask(*values, shape=None):
    return torch.tensor(values, dtype=torch.bool).reshape(shape or (len(values),))


SCALE = ("weight", "bias")
RUNNING = {"running_mean": "running_mean", "running_var": "running_variance"}

# ---- normalisation ----
case("batch_norm", nn.BatchNorm1d(3), [(4, 3)], names=SCALE, buffers=RUNNING)
case("batch_norm", nn.BatchNorm1d(3), [(2, 3, 5)], names=SCALE, buffers=RUNNING)
case("batch_norm", nn.BatchNorm2d(3), [(2, 3, 1, 5)], names=SCALE, buffers=RUNNING)
case("batch_norm", nn.BatchNorm3d(3), [(1, 3, 2, 3, 1)], names=SCALE, buffers=RUNNING)
case("batch_norm_plain", nn.BatchNorm2d(2, eps=0.1, momentum=0.25, affine=False), [(2, 2, 3, 1)], names=(), buffers=RUNNING)
case("batch_norm_of_the_batch", nn.BatchNorm1d(2, track_running_stats=False), [(3, 2, 2)], names=SCALE)
case("batch_norm_cumulative", nn.BatchNorm1d(2, momentum=None), [(3, 2, 2)], names=SCALE, buffers=RUNNING,
     call=lambda m, x: (m.num_batches_tracked.fill_(3), m(x))[1])
case("group_norm", nn.GroupNorm(2, 6), [(2, 6, 3)], names=SCALE)
case("group_norm", nn.GroupNorm(2, 6), [(2, 6)], names=SCALE)
case("group_norm_plain", nn.GroupNorm(3, 3, affine=False), [(2, 3, 2, 2)], names=())
case("instance_norm", nn.InstanceNorm1d(3), [(2, 3, 5)], names=())
case("instance_norm_affine", nn.InstanceNorm2d(3, affine=True, track_running_stats=True), [(2, 3, 3, 2)], names=SCALE, buffers=RUNNING)

# ---- embedding ----
case("embedding", nn.Embedding(5, 3), [index(4, 0, 4, 2, 1, 4, shape=(2, 3))], names=("weight",))
case("embedding", nn.Embedding(5, 3), [index(3, shape=())], names=("weight",))
case("embedding_padded", nn.Embedding(5, 3, padding_idx=-2), [index(3, 0, 3, 1)], names=("weight",))

# ---- other sizes ----
case("upsample", nn.Upsample(scale_factor=2), [(1, 2, 3, 2)], names=())
case("upsample_linear", nn.Upsample(scale_factor=1.5, mode="linear"), [(1, 2, 4)], names=())
case("resize", nn.Upsample(size=(4, 5), mode="bilinear", align_corners=True), [(1, 2, 3, 2)], names=())
case("pad", nn.ConstantPad2d((1, 2, 0, 1), -0.5), [(1, 2, 2, 3)], names=())
case("pad_reflect", nn.ReflectionPad2d((1, 2, 0, 1)), [(1, 1, 2, 3)], names=())
case("pad_replicate", nn.ReplicationPad1d((3, 1)), [(2, 2, 3)], names=())
case("pad_circular", nn.CircularPad3d((1, 0, 0, 1, 1, 1)), [(1, 1, 2, 2, 3)], names=())

# ---- activations ----
case("prelu", nn.PReLU(), [(3, 5)], names=("weight",))
case("prelu_channels", nn.PReLU(3), [(2, 3, 2)], names=("weight",))
case("prelu_channels", nn.PReLU(3), [(2, 3)], names=("weight",))
case("glu", nn.GLU(1), [(2, 6, 2)], names=())
case("softmin", nn.Softmin(-1), [(3, 4)], names=())
case("rrelu", nn.RReLU(0.125, 0.5), [(3, 4)], names=(), modes=(False,))

# ---- recurrent ----
def own_names(module):
    return [name for name, _ in module.named_parameters()]


def flat(result):
    y, state = result
    return (y, *state) if isinstance(state, tuple) else (y, state)


def packed(m, x, h0, *rest):
    """rest: c0 of an LSTM, and lengths."""
    *c0, lengths = rest
    p = nn.utils.rnn.pack_padded_sequence(x, lengths, m.batch_first, enforce_sorted=False)
    y, state = m(p, (h0, c0[0]) if c0 else h0)
    return flat((nn.utils.rnn.pad_packed_sequence(y, m.batch_first, total_length=x.shape[1 if m.batch_first else 0])[0], state))


def recurrent(name, module, *inputs, call):
    case(name, module, inputs, names=own_names(module), call=call, modes=(True,))


def from_zeros(m, x):
    return flat(m(x))


LENGTHS = index(3, 1, 4)
recurrent("rnn", nn.RNN(3, 2), (4, 2, 3), call=from_zeros)
recurrent("rnn", nn.RNN(3, 2), (1, 1, 3), (1, 1, 2), call=lambda m, x, h: flat(m(x, h)))
recurrent("rnn_relu", nn.RNN(2, 3, nonlinearity="relu", bias=False, bidirectional=True), (3, 2, 2), call=from_zeros)
recurrent("lstm", nn.LSTM(3, 2), (4, 2, 3), call=from_zeros)
recurrent("lstm", nn.LSTM(3, 2), (4, 3, 3), (1, 3, 2), (1, 3, 2), call=lambda m, x, h, c: flat(m(x, (h, c))))
recurrent("lstm", nn.LSTM(3, 2), (4, 3, 3), (1, 3, 2), (1, 3, 2), LENGTHS, call=packed)
recurrent("lstm_deep", nn.LSTM(2, 3, 2, bidirectional=True, batch_first=True), (2, 3, 2), call=from_zeros)
recurrent("lstm_deep", nn.LSTM(2, 3, 2, bidirectional=True, batch_first=True), (3, 4, 2), (4, 3, 3), (4, 3, 3), LENGTHS, call=packed)
recurrent("gru", nn.GRU(3, 2), (4, 2, 3), call=from_zeros)
recurrent("gru_deep", nn.GRU(2, 3, 3, bias=False), (2, 2, 2), (3, 2, 3), call=lambda m, x, h: flat(m(x, h)))
recurrent("gru_both", nn.GRU(3, 2, bidirectional=True), (4, 3, 3), (2, 3, 2), LENGTHS, call=packed)

# ---- attention ----
ATTENTION = {"in_proj_weight": "in.weight", "in_proj_bias": "in.bias", "out_proj.weight": "out.weight", "out_proj.bias": "out.bias"}


def attention(heads, width=6, **options):
    return nn.MultiheadAttention(width, heads, batch_first=True, **options)


def to_itself(m, x):
    return m(x, x, x, need_weights=False)[0]


def seen(m, q, k, v, mask=None, keys=None):
    """hodu's masks say what takes part, PyTorch's what does not."""
    if mask is not None and mask.dtype == torch.bool:
        mask = ~mask
    if mask is not None and mask.dim() > 2:
        mask = mask.expand(q.shape[0], m.num_heads, q.shape[1], k.shape[1]).flatten(0, 1)
    if mask is not None and keys is not None and mask.dtype != torch.bool:
        keys = torch.where(keys, 0.0, -torch.inf)
    elif keys is not None:
        keys = ~keys
    return m(q, k, v, attn_mask=mask, key_padding_mask=keys, need_weights=False)[0]


def causal(m, x):
    hidden = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
    return m(x, x, x, attn_mask=hidden, is_causal=True, need_weights=False)[0]


class Grouped(nn.Module):
    """Heads that share keys and values, turned by their places, from the formulas."""

    def __init__(self, width, heads, kv_heads, rotary):
        super().__init__()
        self.heads, self.kv_heads, self.each, self.rotary = heads, kv_heads, width // heads, rotary
        self.project = nn.Linear(width, width + 2 * kv_heads * self.each)
        self.out = nn.Linear(width, width)

    def turned(self, x):
        pairs = torch.complex(*x.chunk(2, -1))
        angles = torch.arange(x.shape[-2])[:, None] * self.rotary ** (-torch.arange(0, self.each, 2) / self.each)
        return torch.cat([(y := pairs * torch.polar(torch.ones_like(angles), angles)).real, y.imag], -1)

    def forward(self, x):
        sizes = [self.heads * self.each] + [self.kv_heads * self.each] * 2
        q, k, v = (part.unflatten(-1, (-1, self.each)).transpose(-2, -3) for part in self.project(x).split(sizes, -1))
        if self.rotary:
            q, k = self.turned(q), self.turned(k)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(-2, -3).flatten(-2))


LINEARS = ("in.weight", "in.bias", "out.weight", "out.bias")
SEEN = mask(True, False, True, True, True, True, False, True, True, True, True, False, shape=(3, 4))
KEYS = mask(True, True, False, True, True, True, True, False, shape=(2, 4))
case("attention", attention(2), [(2, 3, 6)], names=ATTENTION, call=to_itself)
case("attention", attention(2), [(2, 3, 6), (2, 4, 6), (2, 4, 6)], names=ATTENTION, call=seen)
case("attention", attention(2), [(2, 3, 6), (2, 4, 6), (2, 4, 6), SEEN], names=ATTENTION, call=seen)
case("attention", attention(2), [(2, 3, 6), (2, 4, 6), (2, 4, 6), (2, 2, 3, 4)], names=ATTENTION, call=seen)
case("attention", attention(2), [(2, 3, 6), (2, 4, 6), (2, 4, 6), SEEN, KEYS], names=ATTENTION, call=seen)
case("attention", attention(2), [(2, 3, 6), (2, 4, 6), (2, 4, 6), (3, 4), KEYS], names=ATTENTION, call=seen)
case("attention_causal", attention(3), [(2, 4, 6)], names=ATTENTION, call=causal)
case("attention_across", attention(2, bias=False, kdim=3, vdim=5), [(2, 3, 6), (2, 4, 3), (2, 4, 5)], call=seen,
     names={"q_proj_weight": "q.weight", "k_proj_weight": "k.weight", "v_proj_weight": "v.weight", "out_proj.weight": "out.weight"})
case("attention_grouped", Grouped(8, 4, 2, 0), [(2, 3, 8)], names=LINEARS)
case("attention_rotary", Grouped(8, 2, 1, 100), [(2, 5, 8)], names=LINEARS)

# ---- transformers: without dropout, as draws differ ----
def renamed(module):
    return {name: name.replace("in_proj_", "in.").replace("out_proj.", "out.") for name in own_names(module)}


def transformer(name, module, *inputs, call=None):
    case(name, module, inputs, names=renamed(module), call=call)


def block(kind, **options):
    return kind(4, 2, **({"dim_feedforward": 5, "dropout": 0, "batch_first": True} | options))


def seen_by_encoder(m, x, mask, keys):
    return m(x, ~mask, ~keys)


def seen_by_decoder(m, x, memory, mask, memory_mask):
    return m(x, memory, ~mask, ~memory_mask)


X, MEMORY = (2, 3, 4), (2, 2, 4)
ENCODER, DECODER = nn.TransformerEncoderLayer, nn.TransformerDecoderLayer
MASK = mask(True, True, False, True, True, True, False, False, True, shape=(3, 3))
transformer("encoder_layer", block(ENCODER), X)
transformer("encoder_layer", block(ENCODER), X, MASK, mask(True, False, True, True, True, True, shape=(2, 3)), call=seen_by_encoder)
transformer("encoder_layer_first", block(ENCODER, norm_first=True, activation="gelu"), X)
transformer("decoder_layer", block(DECODER), X, MEMORY)
transformer("decoder_layer", block(DECODER), X, MEMORY, MASK, mask(True, True, False, True, True, False, shape=(3, 2)), call=seen_by_decoder)
transformer("decoder_layer_first", block(DECODER, norm_first=True, bias=False), X, MEMORY)
transformer("encoder", nn.TransformerEncoder(block(ENCODER, norm_first=True), 2, nn.LayerNorm(4)), X, call=lambda m, x: m(
    x, mask=nn.Transformer.generate_square_subsequent_mask(3), is_causal=True))
transformer("decoder", nn.TransformerDecoder(block(DECODER), 2), X, MEMORY)
out.close()
