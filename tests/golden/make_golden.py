#!/usr/bin/env python3
"""Writes tests/golden/elementwise.txt: what PyTorch says each elementwise row gives, and its gradients.

    python3 -m venv /tmp/golden-venv && /tmp/golden-venv/bin/pip install torch numpy
    build/generate rows.json > /tmp/rows.json
    /tmp/golden-venv/bin/python tests/golden/make_golden.py /tmp/rows.json tests/golden/elementwise.txt

Every row's reference (a column of src/ops/elementwise.def) is evaluated in float64 at points that f32 holds exactly,
and differentiated with the upstream gradient G; integers in their own dtype. Lines of the file:

    # text                          comment
    gradient G                      the upstream gradient of all that follow
    row NAME DTYPE OPERANDS NUMBERS...   DTYPE: float, i32, i64, u8 or bool; the row's C numbers
    OPERANDS... VALUE GRADIENTS...  one point; gradients only in float rows that give floats, one per float operand;
                                    operands are decimal f32, the others decimal or hexadecimal f64
"""
import itertools
import json
import math
import random
import sys

import numpy
import torch
import torch.nn.functional as F

G = -1.5
INF, NAN = math.inf, math.nan
FLT_MAX, FLT_MIN, SUBNORMAL = float(numpy.finfo(numpy.float32).max), 2.0**-126, 2.0**-149

# What the C numbers of a row are, by name; values that f32 holds, with the kinks they make among POINTS below.
NUMBERS = {"slope": 0.125, "alpha": 1.5, "bound": 0.5, "low": -2.0, "high": 3.0, "value": -20.0, "beta": 2.0,
           "limit": 20.0, "scale": 0.5, "nan": 7.0}
WHOLE_NUMBERS = {"low": -2, "high": 3, "bound": 1, "value": 20, "scale": 3}  # in integer rows
UNSIGNED_NUMBERS = dict(WHOLE_NUMBERS, low=2, high=200)

# Special and extreme points of one operand: both signs of each are taken.
MAGNITUDES = [0.0, SUBNORMAL, 1e-40, FLT_MIN, 1e-30, 1e-20, 1e-7, 1e-3, 0.1, 0.25, 0.49999997, 0.5, 0.75, 1 - 2.0**-24,
              1.0, 1 + 2.0**-23, 1.4616321, 1.5, math.pi / 2, 2.0, 2.5, 3.0, 3.5, 5.0, 6.0, 10.5, 20.0, 50.0,
              88.5, 100.0, 1000.0, 1e5, 8388607.5, 16777216.0, 1e10, 1e30, FLT_MAX, INF]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -3.0, 1e-30, 1e30, INF, -INF, NAN]                           # in all pairs
TRIPLES = [0.0, 1.0, -2.5, 1e30, INF]                                                                # in all triples
NEARLY_WHOLE = [(0.9, 0.3), (-0.6, 0.1), (0.7, -0.1), (4.2, 0.6)]                                    # quotients
INTEGERS = {"i32": (torch.int32, [0, 1, -1, 2, -2, 3, -7, 7, 31, 32, 33, 100, -100, 65537, 2**31 - 1, -2**31]),
            "i64": (torch.int64, [0, 1, -1, 2, -2, 3, -7, 7, 63, 64, 65, -100, 2**53 + 1, 2**63 - 1, -2**63]),
            "u8": (torch.uint8, [0, 1, 2, 3, 7, 8, 9, 100, 128, 200, 254, 255])}
WIDTH = {torch.int32: 32, torch.int64: 64, torch.uint8: 8, torch.bool: 1}


def f32(value):
    return float(numpy.float32(value))


# ---- references PyTorch lacks, or has with another meaning of shifts beyond the width ----
def each(function, *tensors):
    wrap = 2 ** WIDTH[tensors[0].dtype]
    signed = tensors[0].dtype in (torch.int32, torch.int64)
    out = []
    for values in zip(*(t.tolist() for t in tensors)):
        v = function(*(int(v) for v in values)) % wrap
        out.append(v - wrap if signed and v >= wrap // 2 else v)
    return torch.tensor(out, dtype=tensors[0].dtype)


def popcount(x):
    return each(lambda v: bin(v % 2 ** WIDTH[x.dtype]).count("1"), x)


def shift_left(a, b):
    return each(lambda v, by: v << by if 0 <= by < WIDTH[a.dtype] else 0, a, b)


def shift_right(a, b):
    return each(lambda v, by: v >> by if 0 <= by < WIDTH[a.dtype] else (-1 if v < 0 else 0), a, b)


def sinc(x):
    """torch.sinc, but with the argument of the sine reduced exactly, and a series where its gradient cancels."""
    even = x - 2 * torch.round(x / 2)
    near = torch.where(even.abs() <= 0.5, even, torch.copysign(torch.ones_like(x), even) - even)
    z = torch.where(x.abs() <= 0.5, x * x, 0)
    series = sum((-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k + 1) * z**k for k in range(14))
    return torch.where(x.abs() <= 0.5, series, torch.sin(math.pi * near) / (math.pi * torch.where(x == 0, 1, x)))


def frexp_exponent(x):
    return torch.where(x.isfinite(), torch.frexp(x.detach()).exponent, 0).double()


class Ldexp(torch.autograd.Function):
    """torch.ldexp, but in two steps, as 2^b alone may be infinite, or vanish, where a 2^b is neither."""

    @staticmethod
    def scaled(a, b):
        limited = torch.where(b.isfinite(), b.clamp(-2000, 2000), b)
        half = torch.where(b.isfinite(), torch.trunc(limited / 2), 0)
        return a * torch.exp2(half) * torch.exp2(limited - half)

    @staticmethod
    def forward(context, a, b):
        context.save_for_backward(a, b)
        return Ldexp.scaled(a, b)

    @staticmethod
    def backward(context, g):
        a, b = context.saved_tensors
        return Ldexp.scaled(g, b), g * (Ldexp.scaled(a, b) * math.log(2))


# ---- points ----
def float_points(operands, generator):
    if operands == 1:
        points = [(s * f32(m),) for m in MAGNITUDES for s in (1, -1)] + [(NAN,)]
        return points + [(f32(generator.uniform(-4, 4)),) for _ in range(8)]
    special = SPECIAL if operands == 2 else TRIPLES
    points = list(itertools.product([f32(v) for v in special], repeat=operands))
    points += [(NAN, 1.0, 1.0), (1.0, NAN, 1.0), (1.0, 1.0, NAN)] if operands == 3 else []
    for spread in (1, 8, 30):  # ordinary ones of several magnitudes
        points += [tuple(f32(math.copysign(2.0 ** generator.uniform(-spread, spread), generator.uniform(-1, 1)))
                         for _ in range(operands)) for _ in range(8)]
    points += [(f32(a), f32(b)) for a, b in NEARLY_WHOLE] if operands == 2 else []
    return points + [(f32(v),) * operands for v in (0.3, -0.7)]  # ties


def points_of_pairs(values):
    return list(zip(values, values[1:] + values[:1]))


def integer_points(row, dtype, operands):
    values = INTEGERS[dtype][1]
    points = [(v,) for v in values]
    if operands > 1:
        points = list(itertools.product(values[::2] + values[-1:], repeat=2)) + points_of_pairs(values)
    if row["kind"] == "compare":
        points = points[::2] + [(v, v) for v in values]
    if operands > 2:
        points = list(itertools.product(values[1::4], repeat=3))
    if row["name"] in ("trunc_divide", "rem", "floor_divide", "mod"):
        lowest = min(values)  # x / 0 is an error here and min / -1 a trap in PyTorch: test_oracle.c has them
        points = [(a, b) for a, b in points if b != 0 and not (b == -1 and a == lowest)]
    if row["name"] == "pow":
        points = [(a, b) for a, b in points if 0 <= b <= 100]
    return points


# ---- writing ----
def text(value):
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int):
        return str(value)
    if value != value:
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    short = repr(value)
    short = short[:-2] if short.endswith(".0") else short
    return min(short, value.hex(), key=len)


def operand_text(value):
    if isinstance(value, float) and math.isfinite(value) and value != 0:
        assert value == f32(value)
        short = numpy.format_float_scientific(numpy.float32(value), trim="-", exp_digits=1)
        return min(short, text(value), key=len)
    return text(value)


def evaluate(row, tensors, numbers):
    names = {"unary": "x", "test": "x", "choose": "cab"}.get(row["kind"], "abc")
    scope = dict(zip(names, tensors), **numbers, torch=torch, F=F, math=math, popcount=popcount, shift_left=shift_left,
                 shift_right=shift_right, sinc=sinc, frexp_exponent=frexp_exponent, ldexp=Ldexp.apply)
    return eval(row["reference"], scope)  # the references are our own table's


def write_block(out, row, dtype, points, columns, numbers):
    count = len(points[0])
    print("row", row["name"], dtype, count, *(text(v) for v in numbers.values()), file=out)
    for i, point in enumerate(points):
        print(*(operand_text(v) for v in point), *(text(c[i]) for c in columns), file=out)
    return len(points)


def write_floats(out, row, generator):
    operands = {"unary": 1, "test": 1, "binary": 2, "compare": 2, "choose": 3, "ternary": 3}[row["kind"]]
    points = float_points(operands, generator)
    if row["kind"] == "choose":
        points = [(c, a, b) for c in (False, True) for a, b in float_points(2, generator)[: 11 * 11 : 3]]
    if row["kind"] == "compare":
        points = points[::2] + [(a, b) for a, b in points if a == b]
    numbers = {n: NUMBERS[n] for n in row["numbers"]}
    tensors = []
    for values in zip(*points):
        kind = torch.bool if isinstance(values[0], bool) else torch.float64
        tensors.append(torch.tensor(values, dtype=kind, requires_grad=kind == torch.float64))
    value = evaluate(row, tensors, numbers)
    columns = [value.detach().tolist()]
    if value.dtype == torch.float64:
        if value.requires_grad and row["name"] != "floor_divide":  # whose derivative, zero, PyTorch has not
            value.backward(torch.full_like(value, G))
        for t in tensors:
            if t.requires_grad:
                columns.append(t.grad.tolist() if t.grad is not None else [0.0] * len(points))
    return write_block(out, row, "float", points, columns, numbers)


def write_integers(out, row, dtype):
    operands = {"unary": 1, "test": 1, "choose": 3, "ternary": 3}.get(row["kind"], 2)
    if dtype == "bool":
        kind, points = torch.bool, list(itertools.product((False, True), repeat=operands))
    else:
        kind, points = INTEGERS[dtype][0], integer_points(row, dtype, operands)
    table = UNSIGNED_NUMBERS if dtype == "u8" else WHOLE_NUMBERS
    numbers = {n: table[n] for n in row["numbers"]}
    if row["kind"] == "choose" and dtype != "bool":
        points = [(c, a, b) for c in (False, True) for a, b in points_of_pairs(INTEGERS[dtype][1])]
    tensors = [torch.tensor(v, dtype=torch.bool if isinstance(v[0], bool) else kind) for v in zip(*points)]
    try:
        value = evaluate(row, tensors, numbers)
    except RuntimeError as error:  # an integer kernel PyTorch has not
        print(f"{row['name']} {dtype}: left out, {str(error).splitlines()[0]}", file=sys.stderr)
        return 0
    if value.dtype.is_floating_point:  # sign, whose reference has a NaN in it
        value = value.to(kind)
    return write_block(out, row, dtype, points, [value.tolist()], numbers)


def main():
    rows = json.load(open(sys.argv[1]))
    generator = random.Random(20240607)
    total = 0
    with open(sys.argv[2], "w") as out:
        print(f"# Written by tests/golden/make_golden.py with PyTorch {torch.__version__}. Do not edit.", file=out)
        print("gradient", text(G), file=out)
        for row in rows:
            if row["types"] != "INTS":
                total += write_floats(out, row, generator)
            if row["types"] != "FLOATS":
                total += sum(write_integers(out, row, dtype) for dtype in INTEGERS)
            if row["types"] in ("INTS", "ALL"):
                total += write_integers(out, row, "bool")
    print(f"{len(rows)} rows, {total} points", file=sys.stderr)


main()
