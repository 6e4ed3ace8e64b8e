"""Writes golden.h: what PyTorch (float64) says about every operation of hodu/value.h. Run by hand:

    python golden.py > golden.h && clang-format -i golden.h

Left out, because value.h differs on purpose: log below its clamp (torch gives -inf), clip at its bounds (torch passes the
gradient there), relu of NaN (torch passes the gradient), and points where the gradient is 0 * inf."""
import math
import torch

torch.set_default_dtype(torch.float64)
INF, NAN = math.inf, math.nan


def c(x):
    if math.isnan(x):
        return "NAN"
    if math.isinf(x):
        return "INFINITY" if x > 0 else "-INFINITY"
    return x.hex()


def row(op, a, b, f):
    x = torch.tensor(a, requires_grad=True)
    y = torch.tensor(b, requires_grad=True)
    out = f(x, y)
    out.backward()
    ga = x.grad.item() if x.grad is not None else 0.0
    gb = y.grad.item() if y.grad is not None else 0.0
    print(f'    {{"{op}", {c(a)}, {c(b)}, {c(out.item())}, {c(ga)}, {c(gb)}}},')


POINTS = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -7.25, 1e-8, -1e-8, 1e-300, 1e300, -1e300, 5e-324, INF, -INF, NAN]
PAIRS = [(2.0, 3.0), (-1.5, 0.25), (0.0, 4.0), (4.0, -1e-3), (1e200, 1e-200), (1e-200, -1e200), (1e300, 1e10),
         (1.0, 1e-320), (-3.0, 1e308), (INF, 2.0), (2.0, INF), (NAN, 1.0), (1.0, NAN), (7.0, 0.0), (-7.0, 0.0)]
POWERS = [(2.0, 3.0), (-2.0, 3.0), (-2.0, -2.0), (9.0, 0.5), (9.0, -0.5), (-9.0, 0.5), (0.0, 2.0), (0.0, -1.0), (0.0, 0.0),
          (0.0, 1.0), (1e-8, -0.5), (1e200, 2.0), (1e-200, 2.0), (1.5, 0.0), (INF, 2.0), (INF, -1.0), (NAN, 2.0),
          (0.0, 0.5), (-0.0, 3.0), (3.0, 1.0)]
EXPONENTS = [0.0, 1.0, -1.0, 0.5, 20.0, -20.0, 700.0, 709.78, 710.0, 1000.0, -745.0, -1000.0, INF, -INF, NAN]

print("/* Written by golden.py: op, a, b, value, d/da, d/db. */")
print("static const struct golden {\n    const char *op;\n    double a, b, value, da, db;\n} golden[] = {")
for a, b in PAIRS:
    row("add", a, b, lambda x, y: x + y)
    row("sub", a, b, lambda x, y: x - y)
    row("mul", a, b, lambda x, y: x * y)
    row("div", a, b, lambda x, y: x / y)
for a in POINTS:
    row("neg", a, 0.0, lambda x, y: -x)
    row("tanh", a, 0.0, lambda x, y: torch.tanh(x))
    if not math.isnan(a):
        row("relu", a, 0.0, lambda x, y: torch.relu(x))
for a in (20.0, -20.0, 350.0, -350.0):
    row("tanh", a, 0.0, lambda x, y: torch.tanh(x))
for a in EXPONENTS:
    row("exp", a, 0.0, lambda x, y: torch.exp(x))
    row("sigmoid", a, 0.0, lambda x, y: torch.sigmoid(x))
for a in (1e-10, 2e-10, 1e-9, 1e-3, 0.5, 1.0, 2.0, 1e10, 1e300, INF, NAN):
    row("log", a, 0.0, lambda x, y: torch.log(x))
for a, b in POWERS:
    row("pow", a, b, lambda x, y: torch.pow(x, b))
for a in (-3.0, 0.79, 0.81, 1.0, 1.19, 1.21, INF, -INF):
    row("clip", a, 0.0, lambda x, y: torch.clamp(x, 0.8, 1.2))
for mu, lv in ((0.7, 0.3), (0.0, 0.0), (-2.0, 4.5), (3.0, -4.9), (1.0, 6.0), (1.0, -7.0), (0.0, 100.0)):
    row("kl", mu, lv, lambda m, v: -0.5 * (1 + v.clamp(-5, 5) - m * m - torch.exp(v.clamp(-5, 5))))
print("};")

print("\n/* Logits, their softmax, and the gradient of -log of the second probability. */")
print("static const struct golden_softmax {\n    double logit[4], p[4], grad[4];\n} golden_softmax[] = {")
for logits in ([1000.0, 1001.0, 1002.0, 999.0], [0.1, -0.2, 0.3, 0.0], [-1e4, 0.0, 1.0, -1e4], [20.0, 0.0, 0.0, -20.0],
               [-700.0, -701.0, -702.0, -703.0]):
    x = torch.tensor(logits, requires_grad=True)
    p = torch.softmax(x, 0)
    (-torch.log(p[1])).backward()
    show = lambda v: "{" + ", ".join(c(t) for t in v.tolist()) + "}"
    print(f"    {{{show(x)}, {show(p)}, {show(x.grad)}}},")
print("};")

print("\n/* Two parameters from 1 and -2 under loss = 3 a^2 + a b + 0.1 b^4: torch.optim.Adam(lr=0.1, betas), after each step. */")
print("static const struct golden_adam {\n    double beta1, beta2, a, b;\n} golden_adam[] = {")
for betas in ((0.9, 0.999), (0.85, 0.99)):
    a = torch.tensor(1.0, requires_grad=True)
    b = torch.tensor(-2.0, requires_grad=True)
    adam = torch.optim.Adam([a, b], lr=0.1, betas=betas, eps=1e-8)
    for _ in range(8):
        adam.zero_grad()
        (3 * a * a + a * b + 0.1 * b**4).backward()
        adam.step()
        print(f"    {{{betas[0]}, {betas[1]}, {c(a.item())}, {c(b.item())}}},")
print("};")
