"""Writes families.txt beside it: what NumPy, and SciPy of LU, say about the ops that are not elementwise.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install numpy scipy && /tmp/venv/bin/python tests/golden/make_families.py

A line is `name arguments -> rank sizes values`; tests/ops/families.h reads it. Inputs are either `fixture`, a formula
that the tests know too, or 0, 1, 2, ... in some shape.
"""
import itertools
import os
import warnings

import numpy as np
import scipy.linalg

warnings.simplefilter("ignore")
out = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "families.txt"), "w")
out.write(f"# NumPy {np.__version__}, by make_families.py\n")


def text(x):
    return "none" if x is None else repr(int(x)) if float(x).is_integer() and abs(x) < 2**53 else repr(float(x))


def emit(name, arguments, result):
    result = np.asarray(result)
    words = [name, *map(text, arguments), "->", str(result.ndim), *map(str, result.shape), *map(text, result.ravel())]
    out.write(" ".join(words) + "\n")


def fixture(*shape):
    return (((np.arange(np.prod(shape, dtype=int)) * 37 + 11) % 101 - 50) / 8).reshape(shape)


def count(*shape):
    return np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape)


# ---- views ----
for n in (0, 1, 7):
    bounds = (None, -8, -7, -6, -3, -1, 0, 1, 3, 6, 7, 9) if n == 7 else (None, -2, -1, 0, 1, 2)
    for start, stop, step in itertools.product(bounds, bounds, (-3, -2, -1, 1, 2, 3)):
        emit("slice", (n, start, stop, step), np.arange(n)[start:stop:step])
for offset, (a, b) in itertools.product(range(-5, 6), ((0, 1), (1, 0), (0, 2), (2, 1), (-1, 0))):
    emit("diagonal", (offset, a, b), np.diagonal(count(3, 4, 2), offset, a, b))
for order in itertools.permutations(range(3)):
    emit("permute", order, count(2, 3, 4).transpose(order))
for a, b in itertools.product(range(-4, 4), repeat=2):
    emit("move_axis", (a, b), np.moveaxis(count(2, 3, 1, 4), a, b))
    emit("transpose", (a, b), np.swapaxes(count(2, 3, 1, 4), a, b))
for axis, size, step in ((0, 1, 1), (0, 2, 1), (1, 3, 2), (-1, 4, 1), (1, 2, 3), (0, 3, 1)):
    windows = np.lib.stride_tricks.sliding_window_view(count(3, 4), size, axis)
    emit("unfold", (axis, size, step), windows[(slice(None),) * (axis % 2) + (slice(None, None, step),)])

# ---- movement ----
for mode, widths in itertools.product(("reflect", "edge", "wrap"), ((0, 0, 0, 0), (1, 2, 3, 0), (2, 2, 1, 3), (0, 1, 0, 0))):
    pairs = (widths[:2], widths[2:])
    emit("pad_with", (("reflect", "edge", "wrap").index(mode) + 1, *widths), np.pad(count(3, 4), pairs, mode))
for widths in ((0, 0, 0, 0), (1, 2, 3, 0), (5, 0, 0, 5)):
    emit("pad", widths, np.pad(count(3, 4), (widths[:2], widths[2:]), constant_values=-9))
for shift, axis in itertools.product((-9, -1, 0, 1, 4, 7, 10**15), (0, 1, -1)):
    emit("roll", (shift, axis), np.roll(count(3, 4), shift, axis))
for times in itertools.product((0, 1, 2, 3), repeat=2):
    emit("tile", times, np.tile(count(3, 4), times))
    emit("repeat_interleave", times, np.repeat(count(3, 4), times[0], times[1] % 2))
for diagonal in range(-4, 6):
    emit("tril", (diagonal,), np.tril(count(2, 3, 4), diagonal))
    emit("triu", (diagonal,), np.triu(count(2, 3, 4), diagonal))

# ---- creation ----
for start, stop, step in ((0, 5, 1), (5, 0, 1), (0, 1, 0.1), (0, 0.3, 0.1), (1, 1.3, 0.1), (1, 2, 0.3), (0, -1, -0.25), (0.5, 10, 2.5),
                          (0, 1, 1 / 3), (0, 7, 7 / 49), (-3, 3, 0.7), (1e6, 1e6 + 1, 0.125), (10, 0, -3), (0, 1, 2), (2, 2, 1)):
    emit("arange", (start, stop, step), np.arange(start, stop, step))
for start, stop, n in ((0, 1, 5), (0, 1, 1), (0, 1, 0), (-2, 3, 7), (1, -1, 4), (0.1, 0.7, 13), (5, 5, 3), (0, 1e9, 11)):
    emit("linspace", (start, stop, n), np.linspace(start, stop, n))
    if stop < 10:
        emit("logspace", (start, stop, n), np.logspace(start, stop, n))
for rows, columns, k in itertools.product((0, 1, 3), (0, 2, 5), range(-3, 4)):
    emit("tri", (rows, columns, k), np.tri(rows, columns, k))
    if k == 0:
        emit("eye", (rows, columns), np.eye(rows, columns))

# ---- reductions of fixture(4, 3, 5), over a set of axes given as bits; the second argument is keep_dims ----
x = fixture(4, 3, 5)
for bits, keep in itertools.product(range(1, 8), (0, 1)):
    axes, k = tuple(i for i in range(3) if bits >> i & 1), bool(keep)
    emit("sum", (bits, keep), x.sum(axes, keepdims=k))
    emit("prod", (bits, keep), x.prod(axes, keepdims=k))
    emit("max", (bits, keep), x.max(axes, keepdims=k))
    emit("min", (bits, keep), x.min(axes, keepdims=k))
    emit("any", (bits, keep), (x > 5).any(axes, keepdims=k))
    emit("all", (bits, keep), (x > -5).all(axes, keepdims=k))
    emit("mean", (bits, keep), x.mean(axes, keepdims=k))
    emit("count_nonzero", (bits, keep), np.count_nonzero(np.trunc(x), axes, keepdims=k))
    emit("logsumexp", (bits, keep), np.logaddexp.reduce(x, axes, keepdims=k) if len(axes) == 1 else np.log(np.exp(x).sum(axes, keepdims=k)))
    for correction in (0, 1, 2.5):
        emit("var", (bits, keep, correction), x.var(axes, ddof=correction, keepdims=k))
        emit("std", (bits, keep, correction), x.std(axes, ddof=correction, keepdims=k))
    for p in (0, 1, 2, 3, 0.5, -1, np.inf, -np.inf):  # of a flat axis: NumPy's norm of two axes is the matrix norm
        flat = np.moveaxis(x, axes, range(len(axes))).reshape(-1, *(x.shape[i] for i in range(3) if i not in axes))
        n = np.linalg.norm(flat, p, 0)
        emit("norm", (bits, keep, p), np.expand_dims(n, axes) if keep else n)
nan = float("nan")
for values in ([1, 3, 3, 2], [2, 1, 1, 1], [1, nan, 5, nan], [nan, 1], [-np.inf, -np.inf], [np.inf, nan], [0.0, -0.0], [7]):
    emit("argmax", values, np.argmax(values))
    emit("argmin", values, np.argmin(values))

# ---- scans of fixture(4, 3, 5) along an axis; the second and third arguments: exclusive, reverse ----
for axis, exclusive, reverse in itertools.product((0, 1, 2, -1), (0, 1), (0, 1)):
    turned = np.flip(x, axis) if reverse else x
    for name, function, first in (("cumsum", np.add, 0), ("cumprod", np.multiply, 1), ("logcumsumexp", np.logaddexp, -np.inf),
                                  ("cummax", np.maximum, None), ("cummin", np.minimum, None)):
        if exclusive and first is None:
            continue
        y = function.accumulate(turned, axis)
        if exclusive:
            y = np.concatenate((np.full_like(np.take(y, [0], axis), first), np.delete(y, -1, axis)), axis)
        emit(name, (axis, exclusive, reverse), np.flip(y, axis) if reverse else y)

# ---- indexing and products ----
def integers(below, *shape):  # of both signs
    return (np.arange(np.prod(shape, dtype=int)) * 7 + 3) % (2 * below) - below


for shapes in (((6,),), ((2, 1), (3,)), ((2,), (2,), (2,)), ((), (3,)), ((2, 2), (1, 2), ())):
    index = tuple(integers((4, 3, 5)[i], *s).reshape(s) for i, s in enumerate(shapes))
    added, put = fixture(4, 3, 5), fixture(4, 3, 5)
    source = fixture(*added[index].shape)
    arguments = [n for s in shapes for n in (len(s), *s)]
    np.add.at(added, index, source)
    emit("index_put_added", arguments, added)
    places = np.broadcast_arrays(*index)
    for at in np.ndindex(places[0].shape):  # one after the other: the last one stays
        put[tuple(p[at] for p in places)] = source[at]
    emit("index_put", arguments, put)
for axis in (0, 1, 2, -1):
    index = (np.arange(7) * 5 % (2 * x.shape[axis]) - x.shape[axis])
    emit("index_select", (axis,), np.take(x, index, axis))
    along = np.resize(index, x.shape)
    emit("take_along_axis", (axis,), np.take_along_axis(x, along, axis))
    added = x.copy()
    view = np.moveaxis(added, axis, 0)
    source = np.moveaxis(fixture(*[7 if i == axis % 3 else s for i, s in enumerate(x.shape)]), axis, 0)
    np.add.at(view, index, source)
    emit("index_add", (axis,), added)
    copied = x.copy()
    for place, row in zip(index, source):  # one after the other: the last one stays
        np.moveaxis(copied, axis, 0)[place] = row
    emit("index_copy", (axis,), copied)
shapes = ((3,), (2, 3), (3, 4), (5, 2, 3), (5, 3, 2), (1, 3, 2), (4, 1, 2, 3), (5, 3, 1), (2, 1, 3), (0, 3), (3, 0))
for a, b in itertools.product(shapes, repeat=2):
    try:
        emit("matmul", (len(a), *a, len(b), *b), fixture(*a) @ fixture(*b))
    except ValueError:
        pass
for a, b in (((2, 3), (3, 2)), ((3,), (2, 2)), ((2, 2), (3,)), ((), (2, 3)), ((0, 2), (3, 2)), ((2, 1, 3), (1, 4, 2)),
             ((1, 1), (2, 3)), ((2, 2, 2, 1, 2), (2, 2, 2, 2, 2))):
    emit("kron", (len(a), *a, len(b), *b), np.kron(fixture(*a), fixture(*b)))
for equation, *operands in (
    ("i->i", (3,)), ("i->", (3,)), ("i->", (0,)), ("ij->ji", (2, 3)), ("ij", (2, 3)), ("ba", (2, 3)), ("Ba", (2, 3)),
    ("ij->", (2, 3)), ("ij->j", (2, 3)), ("ii", (3, 3)), ("ii->i", (3, 3)), ("iij->j", (2, 2, 3)), ("iji->ij", (2, 3, 2)),
    ("iii->i", (3, 3, 3)), ("...", (2, 3)), ("...i->i...", (2, 3, 4)), ("ij...->...", (2, 3, 4)), ("ij...->...", (2, 3)),
    ("...ii->...i", (2, 4, 3, 3)), ("i->...i", (3,)), ("->", ()), ("", ()), (",", (), ()), ("i,->i", (3,), ()),
    ("i,i", (3,), (3,)), ("i,i", (3,), (1,)), ("i,i->i", (3,), (3,)), ("i,i->i", (1,), (3,)), ("i,j", (2,), (3,)),
    ("i,j->ji", (2,), (3,)), ("ij,j", (2, 3), (3,)), ("ij,jk", (2, 3), (3, 4)), ("ij,jk", (2, 3), (1, 4)),
    ("ij,jk", (2, 1), (3, 4)), ("ij,jk", (2, 0), (0, 4)), ("ij,jk", (2, 1), (0, 4)), ("ij,jk->ki", (2, 3), (3, 4)),
    ("ij,kj->ik", (2, 3), (4, 3)), ("ji,jk", (3, 2), (3, 4)), ("ij,ij->", (2, 3), (2, 3)), ("ij,ij->i", (2, 3), (2, 3)),
    ("ij,ij->i", (2, 3), (1, 3)), ("ij,ji->ij", (2, 3), (3, 2)), ("ij,kl->jl", (2, 3), (4, 2)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("bij,bjk->bik", (2, 3, 4), (1, 4, 5)), ("bij,bjk->kib", (2, 3, 4), (2, 4, 5)),
    ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)), ("bij,jk->bik", (2, 3, 4), (4, 5)), ("bhid,bhjd->bhij", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("ijk,jil->kl", (2, 3, 4), (3, 2, 5)), ("ijk,ijk->k", (2, 3, 4), (2, 3, 4)), ("...ij,...jk", (2, 3, 4), (4, 5)),
    ("...ij,...jk", (3, 1, 2, 4), (2, 4, 3)), ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)), ("i...j,j...->i...", (2, 5, 3), (3, 1)),
    ("...,...", (2, 3), (3,)), ("...,...", (2, 1), (1, 3)), ("a...,...b", (2, 3), (3, 4)), ("ab...,b...->a...", (2, 3, 4), (3, 5, 4)),
    ("Ab,bC->AC", (2, 3), (3, 4)), ("ij,jk,kl", (2, 3), (3, 4), (4, 2)), ("ij,jk,kl->li", (2, 3), (3, 4), (4, 2)),
    ("i,j,k->kji", (2,), (3,), (4,)), ("ij,ij,ij->i", (2, 3), (2, 3), (2, 1)), ("bn,anm,bm->ba", (2, 3), (4, 3, 5), (2, 5)),
    ("ij,j,i->", (2, 3), (3,), (2,)), ("ab,bc,cd,da->", (2, 3), (3, 2), (2, 4), (4, 2)), ("iij,jk,k->i", (2, 2, 3), (3, 4), (4,)),
    ("i,ij,j", (2,), (2, 3), (3,)),
):
    emit("einsum:" + equation, [n for shape in operands for n in (len(shape), *shape)],
         np.einsum(equation, *(fixture(*shape) for shape in operands)))

# ---- linear algebra: of fixture(batch, m, n), or of what makes it symmetric and positive definite ----
def positive(x):
    return x @ np.swapaxes(x, -1, -2) + 2 * np.eye(x.shape[-2])


def symmetric(x):
    return x + np.swapaxes(x, -1, -2)


def full(*shape):  # of full rank, and of n rows and columns positive for many an n
    return fixture(*shape) + 3 * np.eye(*shape[-2:])


SIZES = ((1, 1), (2, 2), (3, 3), (5, 5), (8, 8), (4, 7), (7, 4), (1, 5), (5, 1), (0, 0), (0, 3), (3, 0))
KINDS = ("fro", "nuc", 1, -1, np.inf, -np.inf, 2, -2)  # in the order of hd_matrix_norm_kind
for batch, (m, n) in itertools.product(((), (0,), (3,), (2, 1)), SIZES):
    shape, k = (*batch, m, n), min(m, n)
    a, b = full(*shape), fixture(*batch, m, 3)
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    emit("svdvals", shape, s)
    emit("svd", shape, u * np.arange(1, k + 1) @ vh)  # the signs of a pair of vectors are anybody's
    q, r = np.linalg.qr(a)
    emit("qr_q", shape, q)
    emit("qr_r", shape, r)
    emit("pinv", shape, np.linalg.pinv(fixture(*shape), rcond=1e-6))
    emit("lstsq", shape, np.linalg.pinv(fixture(*shape), rcond=1e-6) @ b)
    if a.size > 0:
        emit("matrix_rank", shape, np.linalg.matrix_rank(fixture(*shape), rtol=1e-6))
        for i, kind in enumerate(KINDS):
            emit("matrix_norm", (i + 1, *shape), np.linalg.norm(a, kind, (-2, -1), keepdims=i % 2 > 0))
    if m != n:
        continue
    w, v = np.linalg.eigh(symmetric(a))
    emit("eigvalsh", shape, w)
    emit("eigh", shape, v * np.arange(1, n + 1) @ np.swapaxes(v, -1, -2))
    low = np.linalg.cholesky(positive(a))
    emit("cholesky", shape, low)
    emit("triangular_solve", shape, np.linalg.solve(low, b))
    emit("det", shape, np.linalg.det(a))
    sign, log = np.linalg.slogdet(a)
    emit("slogdet_sign", shape, sign)
    emit("slogdet_log", shape, log)
    emit("inv", shape, np.linalg.inv(a))
    emit("solve", shape, np.linalg.solve(a, b))
    for power in (-3, -1, 0, 1, 2, 5):
        emit("matrix_power", (power, *shape), np.linalg.matrix_power(a, power))
for m, n in SIZES[:9]:
    rows, low, up = scipy.linalg.lu(full(m, n), p_indices=True)
    emit("lu_rows", (m, n), np.argsort(rows))  # SciPy has a = L[rows] U
    emit("lu_l", (m, n), low)
    emit("lu_u", (m, n), up)

# ---- order; places and counts ----
for axis, keep in itertools.product((0, 1, 2, -1), (0, 1)):
    n, in_order = x.shape[axis], np.sort(x, axis)
    for q in (0, 0.1, 0.25, 0.5, 0.9, 1):
        emit("quantile", (axis, keep, q), np.quantile(x, q, axis, keepdims=bool(keep)))
    emit("quantiles", (axis, keep), np.quantile(x, (0.9, 0.1, 1, 0.25), axis, keepdims=bool(keep)))
    for k in range(1, n + 1):
        emit("kthvalue", (axis, keep, k), in_order.take([k - 1] if keep else k - 1, axis))
    emit("median", (axis, keep), np.quantile(x, 0.5, axis, method="lower", keepdims=bool(keep)))
    emit("argsort", (axis, keep), np.argsort(-x if keep else x, axis, kind="stable"))
for right, n in itertools.product((0, 1), (0, 1, 9, 60)):
    side = "right" if right else "left"
    emit("searchsorted", (right, n), np.searchsorted(np.sort(fixture(n)), fixture(4, 3), side))
rows = np.sort(fixture(3, 8), 1)
for right in (0, 1):
    emit("searchsorted_rows", (right,), [np.searchsorted(a, v, "right" if right else "left") for a, v in zip(rows, fixture(3, 5))])
for n, size in ((0, 0), (0, 3), (7, 7), (60, 11)):
    numbers = np.arange(n) * 5 % 7
    emit("bincount", (n, size), np.bincount(numbers, minlength=size))
    emit("bincount_weights", (n, size), np.bincount(numbers, fixture(n), size))
for bins, low, high in ((1, -6.25, 6.25), (10, -5, 5), (7, 0, 3), (4, -6.25, -6), (50, -100, 100)):
    emit("histc", (bins, low, high), np.histogram(fixture(60), bins, (low, high))[0])
for shape in ((60,), (4, 3, 5), (0,), (1,), (2, 0)):
    values, inverse, counts = np.unique(np.trunc(fixture(*shape)), return_inverse=True, return_counts=True)
    emit("unique", shape, values)
    emit("unique_inverse", shape, inverse.reshape(shape))
    emit("unique_counts", shape, counts)
    emit("nonzero", shape, np.argwhere(fixture(*shape) > 1))
    emit("masked_select", shape, fixture(*shape)[fixture(*shape) > 1])
out.close()
