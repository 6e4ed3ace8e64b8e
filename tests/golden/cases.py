"""Cases of values and gradients as PyTorch computes them, in the format that cases.h describes and reads."""
import math
import pathlib

import torch

INF, NAN = math.inf, math.nan


def text(value):
    value = float(value)
    if math.isnan(value):
        return "nan"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    return str(int(value)) if abs(value) < 1e6 and value == int(value) else repr(value)


def fixture(*shape, start=0):
    """Exact in every float format of 8 bits of mantissa, distinct, of both signs, up to 2 large."""
    return [((i + start) * 37 % 61 - 30) / 16 for i in range(math.prod(shape))], shape


def numbers(*values, shape=None):
    return values, shape or (len(values),)


def index(*values, shape=None):
    return torch.tensor(values, dtype=torch.int64).reshape(shape or (len(values),))


def mask(*values, shape=None):
    return torch.tensor(values, dtype=torch.bool).reshape(shape or (len(values),))


class Cases:
    """Writes cases into a file beside this one; `by` is the script that asks for them."""

    def __init__(self, file, by, values):
        self.out = (pathlib.Path(__file__).parent / file).open("w")
        self.values = values
        print(f"# PyTorch {torch.__version__.split('+')[0]}, by {by}", file=self.out)

    def line(self, word, tensor, *, shape=True):
        sizes = [len(tensor.shape), *tensor.shape] if shape else []
        print(word, *sizes, *(text(v) for v in tensor.flatten().tolist()), file=self.out)

    def given(self, value):
        if isinstance(value, torch.Tensor):
            self.line({torch.int64: "i64", torch.bool: "bool"}[value.dtype], value)
            return value
        values, shape = value
        assert all(v != v or float(torch.tensor(v, dtype=torch.float32)) == v for v in values)
        leaf = torch.tensor(values, dtype=torch.float64).reshape(shape).requires_grad_()
        self.line("leaf", leaf.detach())
        return leaf

    def __call__(self, name, function, *inputs, values=None):
        print("case", name, file=self.out)
        tensors = [self.given(value) for value in inputs]
        result = function(*tensors)
        if self.values if values is None else values:
            self.line("result", result.detach())
        seed = torch.tensor([(i * 5 % 7 - 3.5) / 2 for i in range(result.numel())], dtype=torch.float64).reshape(result.shape)
        self.line("seed", seed)
        result.backward(seed)
        for t in tensors:
            if t.requires_grad:
                self.line("grad", t.grad if t.grad is not None else torch.zeros_like(t), shape=False)
