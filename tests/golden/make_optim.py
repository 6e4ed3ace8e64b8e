"""Writes optim.txt beside it: what PyTorch says about losses and optimizers.

    .venv/bin/python tests/golden/make_optim.py

A line is `kind options -> values`, all numbers; tests/nn/test_loss.c and tests/optim (golden.h) read it. Inputs
are `fixture`, a formula that the tests know too.
"""
import itertools
import os
import warnings

import numpy as np
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
            optimizer.param_groups[0]["lr"] *= 0.5  # of the first group alone
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

for rate, beta1, beta2, epsilon, decay, decoupled, amsgrad, maximize in (
    (0.01, 0.9, 0.999, 1e-8, 0.01, True, False, False),
    (0.05, 0.8, 0.9, 1e-4, 0.3, True, False, False),
    (0.05, 0.0, 0.9, 1e-8, 0, True, False, False),
    (0.05, 0.9, 0.99, 1e-8, 0.1, True, True, False),
    (0.1, 0.9, 0.9, 1e-8, 0.1, False, True, False),
    (0.01, 0.9, 0.999, 1e-8, 0.1, False, False, True),
):
    make = torch.optim.AdamW if decoupled else torch.optim.Adam
    emit("adams", [rate, beta1, beta2, epsilon, decay, decoupled, amsgrad, maximize], train(lambda p: make(
        p, lr=rate, betas=(beta1, beta2), eps=epsilon, weight_decay=decay, amsgrad=amsgrad, maximize=maximize,
        foreach=False)))

for rate, alpha, epsilon, decay, momentum, centered in (
    (0.01, 0.99, 1e-8, 0, 0, False),
    (0.05, 0.9, 1e-4, 0.1, 0, False),
    (0.02, 0.9, 1e-8, 0, 0.9, False),
    (0.02, 0.5, 1e-8, 0, 0, True),
    (0.01, 0.9, 1e-3, 0.05, 0.8, True),
):
    emit("rmsprop", [rate, alpha, epsilon, decay, momentum, centered], train(lambda p: torch.optim.RMSprop(
        p, lr=rate, alpha=alpha, eps=epsilon, weight_decay=decay, momentum=momentum, centered=centered, foreach=False)))

for rate, rate_decay, decay, initial, epsilon in (
    (0.01, 0, 0, 0, 1e-10),
    (0.5, 0.1, 0, 0, 1e-10),
    (0.2, 0.05, 0.1, 0.5, 1e-4),
):
    emit("adagrad", [rate, rate_decay, decay, initial, epsilon], train(lambda p: torch.optim.Adagrad(
        p, lr=rate, lr_decay=rate_decay, weight_decay=decay, initial_accumulator_value=initial, eps=epsilon,
        foreach=False)))


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023), in NumPy."""

    def __init__(self, parameters, lr, beta1, beta2, decay):
        super().__init__(parameters, {"lr": lr})
        self.beta1, self.beta2, self.decay = beta1, beta2, decay

    def step(self):
        rate = self.param_groups[0]["lr"]
        for p in self.param_groups[0]["params"]:
            theta, g = p.data.numpy(), p.grad.numpy()
            m = self.state[p].get("m", np.zeros_like(theta))
            c = self.beta1 * m + (1 - self.beta1) * g
            theta -= rate * (np.sign(c) + self.decay * theta)
            self.state[p]["m"] = self.beta2 * m + (1 - self.beta2) * g


for rate, beta1, beta2, decay in ((0.01, 0.9, 0.99, 0), (0.02, 0.5, 0.9, 0.3), (0.01, 0.0, 0.0, 0.1)):
    emit("lion", [rate, beta1, beta2, decay], train(lambda p: Lion(p, rate, beta1, beta2, decay)))

# ---- groups: w with the first rate and decay, b with the second ----
for adamw, rate1, decay1, rate2, decay2 in (
    (False, 0.1, 0, 0.02, 0.3), (False, 0.1, 0.2, 0, 0), (True, 0.05, 0.1, 0.01, 0), (True, 0.05, 0, 0.1, 0.5)
):
    def grouped(p):
        groups = [{"params": [p[0]], "lr": rate1, "weight_decay": decay1},
                  {"params": [p[1]], "lr": rate2, "weight_decay": decay2}]
        return torch.optim.AdamW(groups, foreach=False) if adamw else torch.optim.SGD(groups, momentum=0.9)

    emit("groups", [adamw, rate1, decay1, rate2, decay2], train(grouped))

# ---- schedules kind, options -> the rates of two groups (0.4 and 0.1) before each of 24 steps ----
METRICS = [1, 0.9, 0.8, 0.8, 0.8, 0.8, 0.79995, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.4, 0.41, 0.4, 0.4, 0.4, 0.3, 0.3, 0.3,
           0.3, 0.3, 0.3]


def rates(make, plateau=False):
    optimizer = torch.optim.SGD([{"params": [torch.zeros(1, requires_grad=True)], "lr": 0.4},
                                 {"params": [torch.zeros(1, requires_grad=True)], "lr": 0.1}])
    schedule = make(optimizer)
    shown = []
    for metric in METRICS:
        shown.append(torch.tensor([group["lr"] for group in optimizer.param_groups]))
        optimizer.step()
        schedule.step(metric) if plateau else schedule.step()
    return shown


S = torch.optim.lr_scheduler
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for period, factor in ((3, 0.1), (7, 0.5)):
        emit("step", [period, factor], rates(lambda o: S.StepLR(o, period, factor)))
    for factor, milestones in ((0.1, (2, 5, 11)), (0.5, (4, 4, 20))):
        emit("multi_step", [factor, *milestones], rates(lambda o: S.MultiStepLR(o, milestones, factor)))
    for factor in (0.9, 1.05):
        emit("exponential", [factor], rates(lambda o: S.ExponentialLR(o, factor)))
    for period, lowest in ((24, 0), (10, 0.01)):
        emit("cosine", [period, lowest], rates(lambda o: S.CosineAnnealingLR(o, period, lowest)))
    for steps, first, last in ((5, 1 / 3, 1), (10, 1, 0.2)):
        emit("linear", [steps, first, last], rates(lambda o: S.LinearLR(o, first, last, steps)))
    for steps, first, period in ((5, 0.1, 19), (8, 0.5, 30)):
        emit("warm_up", [steps, first, period], rates(lambda o: S.SequentialLR(
            o, [S.LinearLR(o, first, 1, steps), S.CosineAnnealingLR(o, period)], [steps])))
    for highest, steps, part, first, last, linear, three in (
        (0.5, 24, 0.3, 25, 1e4, False, False), (1, 25, 0.4, 10, 100, True, False), (0.2, 30, 0.25, 5, 1e3, False, True)
    ):
        emit("one_cycle", [highest, steps, part, first, last, linear, three], rates(lambda o: S.OneCycleLR(
            o, highest, total_steps=steps, pct_start=part, div_factor=first, final_div_factor=last, three_phase=three,
            anneal_strategy="linear" if linear else "cos", cycle_momentum=False)))
    for climbs, factor, patience, threshold, absolute, cooldown, lowest in (
        (False, 0.1, 2, 1e-4, False, 0, 0), (False, 0.5, 1, 1e-4, False, 2, 0.06), (False, 0.5, 0, 0.2, True, 1, 0),
        (True, 0.5, 3, 1e-4, False, 0, 0), (True, 0.7, 1, 0.01, True, 1, 0)
    ):
        emit("plateau", [climbs, factor, patience, threshold, absolute, cooldown, lowest], rates(
            lambda o: S.ReduceLROnPlateau(o, "max" if climbs else "min", factor, patience, threshold,
                                          "abs" if absolute else "rel", cooldown, lowest), plateau=True))
    emit("own", [], rates(lambda o: S.LambdaLR(o, lambda n: 1 / (1 + n) ** 0.5)))

# ---- clipping: limit kind -> the norm of both gradients, and what they are then ----
for limit, kind in ((1.0, 2), (100.0, 2), (0.5, float("inf")), (2.0, 1), (0.7, 3)):
    a, b = torch.zeros(3, 2, requires_grad=True), torch.zeros(4, requires_grad=True)
    a.grad, b.grad = fixture(8, 3, 2), fixture(9, 4)
    norm = torch.nn.utils.clip_grad_norm_([a, b], limit, kind)
    emit("clip_norm", [limit, kind], [norm, a.grad, b.grad])
for limit in (0.5, 0.01):
    a, b = torch.zeros(3, 2, requires_grad=True), torch.zeros(4, requires_grad=True)
    a.grad, b.grad = fixture(8, 3, 2), fixture(9, 4)
    torch.nn.utils.clip_grad_value_([a, b], limit)
    emit("clip_value", [limit], [a.grad, b.grad])

# ---- scaled losses: initial, growth, backoff, interval -> the number and the parameter after each of 12 steps ----
for initial, growth, backoff, interval in ((65536, 2, 0.5, 3), (8, 4, 0.25, 2)):
    scaler = torch.amp.GradScaler("cpu", init_scale=initial, growth_factor=growth, backoff_factor=backoff,
                                  growth_interval=interval)
    w = torch.tensor([1.0], dtype=torch.float32, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.125, momentum=0.5)
    shown = []
    for step in range(12):
        optimizer.zero_grad()
        factor = float("inf") if step in (3, 4, 9) else 1 + step % 3
        scaler.scale((w * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        shown += [torch.tensor(scaler.get_scale()), w.detach().clone()]
    emit("scaler", [initial, growth, backoff, interval], shown)
