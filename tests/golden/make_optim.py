"""Writes optim.txt beside it: what PyTorch says about losses and optimizers.

    .venv/bin/python tests/golden/make_optim.py

A line is `kind options -> values`, all numbers; tests/nn/test_loss.c and tests/optim/test_optimizer.c read it. Inputs
are `fixture`, a formula that the tests know too.
"""
import itertools
import os

import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
out = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "optim.txt"), "w")
out.write(f"# PyTorch {torch.__version__.split('+')[0]}, by make_optim.py\n")


def fixture(which, *shape):
    count = 1
    for size in shape:
        count *= size
    return ((torch.arange(count) * 37 + 11 * which) % 101 - 50).double().div(32).reshape(shape)


def emit(kind, options, values):
    numbers = [repr(float(v)) for t in values for v in t.detach().reshape(-1)]
    out.write(" ".join([kind, *(repr(float(o)) for o in options), "->", *numbers]) + "\n")


REDUCTIONS = {1: "mean", 2: "sum", 3: "none"}  # as HD_REDUCTION_*

# ---- mse reduction -> loss, gradients of prediction and target (of the sum, where there is no reduction) ----
for number, name in REDUCTIONS.items():
    prediction, target = fixture(1, 4, 3).requires_grad_(), fixture(2, 4, 3).requires_grad_()
    loss = torch.nn.functional.mse_loss(prediction, target, reduction=name)
    loss.sum().backward()
    emit("mse", [number], [loss, prediction.grad, target.grad])

# ---- cross_entropy reduction smoothing weighted ignored probabilities -> loss, gradient of the logits ----
ROWS, CLASSES = 5, 4
NOTHING_IGNORED = -7
numbers = torch.tensor([2, 0, 3, 1, 0])
shares = ((torch.arange(ROWS)[:, None] + torch.arange(CLASSES)[None, :]) % 4 + 1).double() / 10
weights = torch.tensor([0.5, 1.5, 2.0, 0.25])
for (number, name), smoothing, weighted, ignored, probabilities in itertools.product(
    REDUCTIONS.items(), (0.0, 0.1, 1.0), (False, True), (NOTHING_IGNORED, 0), (False, True)
):
    if probabilities and ignored != NOTHING_IGNORED:
        continue
    logits = fixture(3, ROWS, CLASSES).requires_grad_()
    loss = torch.nn.functional.cross_entropy(
        logits,
        shares if probabilities else numbers,
        weight=weights if weighted else None,
        ignore_index=ignored,
        reduction=name,
        label_smoothing=smoothing,
    )
    loss.sum().backward()
    emit("cross_entropy", [number, smoothing, weighted, ignored, probabilities], [loss, logits.grad])

# ---- optimizers -> both parameters after some of 20 steps; the rate is halved before step 11 ----
SHOWN = (1, 2, 3, 10, 11, 20)


def train(make):
    x, target = fixture(4, 6, 3), fixture(5, 6, 2)
    w, b = (fixture(6, 3, 2) / 2).requires_grad_(), (fixture(7, 2) / 2).requires_grad_()
    optimizer = make([w, b])
    shown = []
    for step in range(1, 21):
        if step == 11:
            optimizer.param_groups[0]["lr"] *= 0.5
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(torch.tanh(x @ w + b), target).backward()
        optimizer.step()
        if step in SHOWN:
            shown += [w.detach().clone(), b.detach().clone()]
    return shown


for rate, momentum, dampening, decay, nesterov in (
    (0.1, 0, 0, 0, False),
    (0.5, 0, 0, 0.1, False),
    (0.1, 0.9, 0, 0, False),
    (0.1, 0.9, 0.5, 0, False),
    (0.05, 0.8, 0.25, 0.05, False),
    (0.1, 0.9, 0, 0, True),
    (0.02, 0.99, 0, 0.01, True),
):
    emit("sgd", [rate, momentum, dampening, decay, nesterov], train(lambda p: torch.optim.SGD(
        p, lr=rate, momentum=momentum, dampening=dampening, weight_decay=decay, nesterov=nesterov, foreach=False)))

for rate, beta1, beta2, epsilon, decay in (
    (0.001, 0.9, 0.999, 1e-8, 0),
    (0.1, 0.9, 0.999, 1e-8, 0),
    (0.05, 0.5, 0.9, 1e-8, 0),
    (0.05, 0.0, 0.9, 1e-8, 0),
    (0.05, 0.0, 0.0, 0.1, 0),
    (0.1, 0.9, 0.999, 0.1, 0),
    (0.1, 0.9, 0.999, 1e-8, 0.1),
):
    emit("adam", [rate, beta1, beta2, epsilon, decay], train(lambda p: torch.optim.Adam(
        p, lr=rate, betas=(beta1, beta2), eps=epsilon, weight_decay=decay, foreach=False)))
