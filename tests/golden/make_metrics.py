"""Writes metrics.txt beside it: what metrics are by their definitions, in plain loops and NumPy.

    .venv/bin/python tests/golden/make_metrics.py

A line is `kind options -> values`; tests/watch/test_metrics.c reads it. Inputs are formulas that the test knows too:
scores(n, c) and classes(n, c). Where scikit-learn is installed, it is asked whether it agrees.
"""
import itertools
import math
import os

import numpy as np

try:
    import sklearn.metrics as sk
except ImportError:
    sk = None
out = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "metrics.txt"), "w")
out.write("# By make_metrics.py, from definitions\n")


def scores(n, c, coarse=False):
    values = (np.arange(n * c) * 37 % 101 - 50) / 32
    return (np.round(values) if coarse else values).reshape(n, c)


def classes(n, c, start=0):
    """Class c - 1 is never there when there are more than two."""
    return (np.arange(n) * 29 + start) % 61 % (c if c == 2 else max(c - 1, 1))


def emit(kind, options, values):
    words = [kind, *(repr(float(o)) for o in options), "->", *(repr(float(v)) for v in np.ravel(values))]
    out.write(" ".join(words) + "\n")


def agrees(ours, theirs):
    assert sk is None or np.allclose(ours, theirs(), atol=1e-12), (ours, theirs())


def ratio(a, b):
    return a / b if b else 0.0


for n, c in ((1, 1), (7, 3), (40, 5), (64, 2)):
    s, t = scores(n, c), classes(n, c)
    p = np.array([max(range(c), key=lambda j: (row[j], -j)) for row in s])
    right = sum(int(a == b) for a, b in zip(p, t))
    emit("accuracy", [n, c], right / n)
    agrees(right / n, lambda: sk.accuracy_score(t, p))
    for k in range(1, c + 1):
        hits = [t[i] in sorted(range(c), key=lambda j: (-s[i, j], j))[:k] for i in range(n)]
        emit("top_k", [n, c, k], sum(hits) / n)
        if c > 2:
            agrees(sum(hits) / n, lambda: sk.top_k_accuracy_score(t, s, k=k, labels=range(c)))

    matrix = np.zeros((c, c))
    for a, b in zip(t, p):
        matrix[a, b] += 1
    emit("confusion", [n, c], matrix)
    agrees(matrix, lambda: sk.confusion_matrix(t, p, labels=range(c)))

    # per class; then HD_AVERAGE_MACRO, NONE, MICRO, WEIGHTED, BINARY
    right, here, said = np.diag(matrix), matrix.sum(1), matrix.sum(0)
    for name, parts, wholes in (("precision", right, said), ("recall", right, here), ("f1", 2 * right, here + said)):
        each = np.array([ratio(a, b) for a, b in zip(parts, wholes)])
        known = [i for i in range(c) if here[i] + said[i] > 0]
        values = {
            0: sum(each[i] for i in known) / len(known),
            1: each,
            2: ratio(parts.sum(), wholes.sum()),
            3: sum(each[i] * here[i] for i in range(c)) / n,
        }
        if c == 2:
            values[4] = each[1]
        for average, value in values.items():
            emit(name, [n, c, average], value)
            word = ("macro", None, "micro", "weighted", "binary")[average]
            labels = {"labels": range(c)} if average == 1 else {}
            agrees(value, lambda: getattr(sk, f"{name}_score")(t, p, average=word, zero_division=0, **labels))

    logs = s - np.log(np.exp(s).sum(1, keepdims=True))
    surprise = -logs[np.arange(n), t]
    emit("perplexity", [n, c, -7], math.exp(surprise.mean()))
    if n > 1:
        emit("perplexity", [n, c, 1], math.exp(surprise[t != 1].mean()))
    agrees(surprise.mean(), lambda: sk.log_loss(t, np.exp(logs), labels=range(c)) if c > 1 else 0)

for n, coarse, start in itertools.product((2, 9, 50, 64), (False, True), (0, 5)):
    s, t = scores(n, 1, coarse)[:, 0], classes(n, 2, start)
    pairs = [(a > b) + 0.5 * (a == b) for a in s[t == 1] for b in s[t == 0]]
    emit("roc_auc", [n, coarse, start], sum(pairs) / len(pairs) if pairs else math.nan)
    if pairs:
        agrees(sum(pairs) / len(pairs), lambda: sk.roc_auc_score(t, s))

for n in (1, 2, 9, 64):
    p, t = scores(n, 1)[:, 0], scores(n + 3, 1)[3:, 0]
    emit("mean_absolute_error", [n], sum(abs(a - b) for a, b in zip(p, t)) / n)
    agrees(np.abs(p - t).mean(), lambda: sk.mean_absolute_error(t, p))
    if n > 1:
        r2 = 1 - sum((b - a) ** 2 for a, b in zip(p, t)) / sum((b - t.mean()) ** 2 for b in t)
        emit("r2", [n], r2)
        agrees(r2, lambda: sk.r2_score(t, p))
print("by definition alone" if sk is None else f"scikit-learn {__import__('sklearn').__version__} agrees")
