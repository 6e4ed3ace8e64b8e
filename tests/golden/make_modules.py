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
    return " ".join(f"{v:.12g}" for v in values.detach().reshape(-1).double().tolist())


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
out.close()
