"""What PyTorch says about gradients of ops that are no elementwise rows, also at ties, kinks and infinities, and about
the values of those that sort and cut: writes tests/golden/gradients_families.txt, which tests/grad/test_golden.c reads
(the format: cases.h). `make golden` runs it.
"""
import torch
import torch.nn.functional as F

from cases import INF, NAN, Cases, fixture, index, mask, numbers

case = Cases("gradients_families.txt", "make_gradients.py", values=False)


# ---- reductions ----
case("sum_axes", lambda x: x.sum((0, 2)), fixture(2, 3, 2))
case("mean_axis", lambda x: x.mean(1), fixture(2, 3))
case("var_unbiased", lambda x: x.var(1), fixture(2, 4))
case("var_biased", lambda x: x.var(0, correction=0), fixture(3, 2))
case("var_of_one", lambda x: x.var(1), fixture(2, 1))
case("std_unbiased", lambda x: x.std(1), fixture(2, 4))
case("std_of_constant_rows", lambda x: x.std(1), numbers(2, 2, 2, 1, 2, 4, -3, -3, -3, shape=(3, 3)))
case("std_of_one", lambda x: x.std(1), fixture(2, 1))
PRODUCTS = numbers(2, 3, 4, 0, 3, 4, 0, 0, 4, 0, 0, 0, shape=(4, 3))
case("prod_with_zeros", lambda x: x.prod(1), PRODUCTS)
case("prod_all", lambda x: x.prod(), numbers(1.5, -2, 0, 3))
TIES = numbers(1, 3, 3, 2, 2, 2, 0, -1, 0, -0.0, 0, -5, shape=(4, 3))
case("max_ties", lambda x: x.amax(1), TIES)
case("min_ties", lambda x: x.amin(1), TIES)
case("max_all_ties", lambda x: x.amax(), TIES)
case("max_axes_ties", lambda x: x.amax((0, 2)), numbers(1, 3, 3, 2, 2, 2, 0, 3, 3, 5, 0, 5, shape=(2, 3, 2)))
case("max_infinite", lambda x: x.amax(1), numbers(-INF, -INF, INF, 1, INF, INF, shape=(3, 2)))
NORMS = numbers(0, 0, 0, 0, 2, -1, 2, -2, 2, 1.5, -0.5, 3, shape=(4, 3))
for label, p in (("1", 1), ("2", 2), ("3", 3), ("half", 0.5), ("1_5", 1.5), ("minus_1", -1), ("inf", INF), ("minus_inf", -INF)):
    case(f"norm_{label}", lambda x: torch.linalg.vector_norm(x, p, 1), NORMS)
MASKED = numbers(1, 2, -1, -INF, 0.5, 2, -INF, -INF, 1, 0, 0, 0, shape=(4, 3))
HIDDEN = numbers(1, 2, -1, -INF, -INF, -INF, shape=(2, 3))  # the second row wholly masked
case("logsumexp_masked", lambda x: x.logsumexp(1), MASKED)
case("logsumexp_hidden", lambda x: x.logsumexp(1), HIDDEN)
case("logsumexp_infinite", lambda x: x.logsumexp(1), numbers(INF, 1, 2, INF, shape=(2, 2)))
SHIFT = torch.tensor([[1000.0], [-1000.0]])  # PyTorch rounds x - logsumexp(x); the gradient does not depend on a shift
case("logsumexp_large", lambda x: (x - SHIFT).logsumexp(1), numbers(1000, 1001, -1000, -1001, shape=(2, 2)))
case("softmax_masked", lambda x: x.softmax(1), MASKED)
case("softmax_hidden", lambda x: x.softmax(1), HIDDEN)
case("softmax_first", lambda x: x.softmax(0), fixture(3, 2))
case("softmax_large", lambda x: x.softmax(1), numbers(1000, 1001, -1000, -1001, shape=(2, 2)))
case("log_softmax_masked", lambda x: x.log_softmax(1), MASKED)
case("log_softmax_hidden", lambda x: x.log_softmax(1), HIDDEN)
case("log_softmax_large", lambda x: x.log_softmax(1), numbers(1000, -1000, -1000, 1000, shape=(2, 2)))

# ---- values and indices of one call, side by side: the values have a gradient, the indices none ----
def both(function, axis):
    def joined(x):
        values, indices = function(x)
        return torch.cat((values, indices.double()), axis)
    return joined


def with_both(name, function, axis, *inputs):
    case(name, both(function, axis), *inputs, values=True)


REPEATED = numbers(2, 1, 2, -1, 1, 0, -0.0, 3, 0, 3, -INF, 1, INF, INF, -INF, shape=(3, 5))
UNORDERED = numbers(NAN, 2, -1, 0.5, 1, NAN, -INF, NAN, 0, INF, shape=(2, 5))
for given in (fixture(2, 5), REPEATED, UNORDERED):
    with_both("sort_last", lambda x: x.sort(dim=1, stable=True), 1, given)
    with_both("sort_last_descending", lambda x: x.sort(dim=1, descending=True, stable=True), 1, given)
    with_both("max_with_index", lambda x: x.max(1, keepdim=True), 1, given)
    with_both("min_with_index", lambda x: x.min(1, keepdim=True), 1, given)
with_both("sort_middle", lambda x: x.sort(dim=1, stable=True), 1, fixture(2, 4, 3))
with_both("sort_first_descending", lambda x: x.sort(dim=0, descending=True, stable=True), 0, fixture(6, 2))
with_both("max_with_index_of_middle", lambda x: x.max(1), 1, fixture(2, 4, 3))
with_both("min_with_index_of_first", lambda x: x.min(0), 0, fixture(5, 3))
for given in (fixture(2, 6), numbers(NAN, 2, -1, 0.5, -2, 1, INF, 1, -INF, 0, -3, 4, shape=(2, 6))):  # no two are equal
    with_both("topk_largest", lambda x: x.topk(3, 1), 1, given)
    with_both("topk_smallest", lambda x: x.topk(4, 1, largest=False), 1, given)
with_both("topk_of_middle", lambda x: x.topk(2, 1), 1, fixture(2, 5, 2))
with_both("topk_all", lambda x: x.topk(5, 0, largest=False), 0, fixture(5, 2))
# Of equals PyTorch takes any for topk: their values are the same, and their gradients too where the seeds are.
case("topk_ties", lambda x: x.topk(3, 1).values.sum(1, keepdim=True), numbers(1, 3, 3, 2, 3, 0, 5, 5, 5, 4, shape=(2, 5)),
     values=True)

for given in (fixture(2, 5), UNORDERED):
    with_both("kthvalue", lambda x: x.kthvalue(2, 1, keepdim=True), 1, given)
for given in (fixture(2, 5), fixture(2, 6), UNORDERED):
    with_both("median", lambda x: x.median(1, keepdim=True), 1, given)
    case("quantile", lambda x: x.quantile(0.3, 1), given, values=True)
case("quantiles", lambda x: x.quantile(torch.tensor([0.8, 0.3], dtype=x.dtype), 1), fixture(2, 5), values=True)
case("quantile_of_first", lambda x: x.quantile(0.5, 0), fixture(4, 3), values=True)
case("bincount", lambda i, w: torch.zeros(4, dtype=w.dtype).index_add(0, i, w), index(2, 0, 2, 3), numbers(1, 2, 3, 4),
     values=True)
case("masked_select", torch.masked_select, fixture(2, 1), mask(True, False, True), values=True)

# ---- scans: those that begin elsewhere or leave the element out are flips and shifts of PyTorch's ----
def exclusive(function, first):
    return lambda x: torch.cat((torch.full_like(x[:, :1], first), function(x)[:, :-1]), 1)


def reverse(function):
    return lambda x: function(x.flip(1)).flip(1)


ZEROS = numbers(2, 3, 0, -1.5, 2, 0, 4, 0, 3, 1, 1, 2, 3, -0.5, 0, 0, 0, 0, 0, 0, shape=(4, 5))
for name, function, first, given in (
    ("cumsum", lambda x: x.cumsum(1), 0, fixture(2, 5)),
    ("cumprod", lambda x: x.cumprod(1), 1, fixture(2, 5)),
    ("cumprod_zeros", lambda x: x.cumprod(1), 1, ZEROS),
):
    case(name, function, given, values=True)
    case(name + "_exclusive", exclusive(function, first), given, values=True)
    case(name + "_reverse", reverse(function), given, values=True)
    case(name + "_exclusive_reverse", reverse(exclusive(function, first)), given, values=True)
for given in (fixture(2, 5), numbers(1, -INF, 2, 0, -3, 8, 1, 0, -8, 5, shape=(2, 5))):
    case("logcumsumexp", lambda x: x.logcumsumexp(1), given, values=True)
    case("logcumsumexp_reverse", reverse(lambda x: x.logcumsumexp(1)), given, values=True)
case("cumsum_middle", lambda x: x.cumsum(1), fixture(2, 3, 2), values=True)
for given in (fixture(2, 5), REPEATED, UNORDERED):
    with_both("cummax", lambda x: x.cummax(1), 1, given)
    with_both("cummin", lambda x: x.cummin(1), 1, given)

# ---- rows at their kinks, through the tape ----
KINKS = numbers(-2, -1, -0.5, -0.0, 0, 0.5, 1, 3, 6)
case("relu", F.relu, KINKS)
case("abs", torch.abs, KINKS)
case("sign", torch.sign, KINKS)
case("floor", torch.floor, KINKS)
case("clamp", lambda x: x.clamp(-1, 3), KINKS)
case("hardtanh", lambda x: F.hardtanh(x, -1, 3), KINKS)
case("relu6", F.relu6, KINKS)
case("leaky_relu", lambda x: F.leaky_relu(x, 0.125), KINKS)
case("elu", lambda x: F.elu(x, 1.5), KINKS)
case("hardswish", F.hardswish, KINKS)
case("softshrink", lambda x: F.softshrink(x, 0.5), KINKS)
case("sqrt", torch.sqrt, numbers(0, 4, -1, INF))
case("rsqrt", torch.rsqrt, numbers(0, 4, -1, INF))
case("log", torch.log, numbers(0, 4, -1, INF))
case("maximum", torch.maximum, numbers(1, 2, 3, 0), numbers(1, 3, 2, -0.0))
case("minimum", torch.minimum, numbers(1, 2, 3, 0), numbers(1, 3, 2, -0.0))
case("maximum_of_one", lambda x: torch.maximum(x, x), numbers(1, -2, 0))
case("maximum_broadcast", torch.maximum, numbers(1, 2, 3, 1, 1, 1, shape=(2, 3)), numbers(1, 2, shape=(2, 1)))
case("pow", torch.pow, numbers(0, 0, 0, 0, 0, 2, 2, -2), numbers(0, 2, 0.5, 1, -1, 0, 3, 2))
case("pow_0", lambda x: x ** 0, numbers(0, 2, -2))
case("pow_1", lambda x: x ** 1, numbers(0, 2, -2))
case("pow_2", lambda x: x ** 2, numbers(0, 2, -2))
case("pow_half", lambda x: x ** 0.5, numbers(0, 4, -2))
case("pow_minus_1", lambda x: x ** -1, numbers(0, 4, -2))
case("rpow", lambda x: 2 ** x, numbers(0, 3, -2))
case("where", torch.where, mask(True, False, True, False), numbers(1, NAN, 3, INF), numbers(NAN, 2, INF, 4))
case("where_broadcast", lambda c, a, b: torch.where(c, a, b), mask(True, False, shape=(2, 1)), fixture(2, 3), numbers(NAN))
case("where_of_sqrt", lambda x: torch.where(x > 0, x.sqrt(), 2 * x), numbers(4, -1, 0))
case("where_of_safe_sqrt", lambda x: torch.where(x > 0, torch.where(x > 0, x, 1.0).sqrt(), 2 * x), numbers(4, -1, 0))

# ---- views and movement ----
case("permute", lambda x: x.permute(2, 0, 1), fixture(2, 3, 2))
case("reshape_turned", lambda x: x.t().reshape(6), fixture(2, 3))
case("broadcast_to", lambda x: x.broadcast_to(2, 2, 3), fixture(2, 1))
case("broadcast_to", lambda x: x.broadcast_to(2, 2, 3), fixture(3))
case("slice_stepped", lambda x: x[:, 1::3], fixture(2, 7))
case("split", lambda x: x.split(2, 1)[0] * x.split(2, 1)[2], fixture(2, 5), values=True)
case("chunk", lambda x: x.chunk(4, 0)[0] * x.chunk(4, 0)[-1], fixture(5, 2), values=True)
case("unbind", lambda x: x.unbind(1)[2] * x.unbind(1)[0], fixture(2, 3, 2), values=True)
case("diagonal", lambda x: x.diagonal(1, 0, 2), fixture(3, 2, 4))
case("unfold_overlapping", lambda x: x.unfold(1, 3, 1), fixture(2, 5))
case("as_strided_overlapping", lambda x: x.as_strided((3, 3), (1, 2), 1), fixture(8))
case("concat", lambda a, b: torch.cat((a, b, a), 1), fixture(2, 2), fixture(2, 1, start=9))
case("stack", lambda a, b: torch.stack((a, b), 1), fixture(2, 2), fixture(2, 2, start=9))
case("pad", lambda x: F.pad(x, (1, 2, 0, 1), value=5), fixture(2, 3))
case("pad_negative", lambda x: F.pad(x, (-1, 1, 1, -2)), fixture(3, 4))
for mode in ("reflect", "replicate", "circular"):
    case(f"pad_{mode}", lambda x: F.pad(x.reshape(1, 1, 3, 4), (2, 3, 1, 2), mode=mode).reshape(6, 9), fixture(3, 4))
case("roll", lambda x: x.roll(4, 1), fixture(2, 3))
case("tile", lambda x: x.tile((2, 3)), fixture(2, 2))
case("repeat_interleave", lambda x: x.repeat_interleave(3, 1), fixture(2, 2))
case("tril", lambda x: x.tril(1), fixture(3, 3))
case("triu", lambda x: x.triu(-1), fixture(2, 3, 2))
case("flip", lambda x: x.flip(0, 2), fixture(2, 2, 2))
case("masked_fill", lambda x, m: x.masked_fill(m, -INF), fixture(2, 3), mask(1, 0, 1, 0, 0, 0, shape=(2, 3)))

# ---- indexing ----
case("gather_duplicates", lambda x, i: x.gather(1, i), fixture(2, 3), index(0, 0, 2, 0, 1, 1, 1, 2, shape=(2, 4)))
case("gather_part", lambda x, i: x.gather(0, i), fixture(3, 3), index(2, 2, shape=(1, 2)))
case("index_select", lambda x, i: x.index_select(1, i), fixture(2, 3), index(2, 0, 2, 2))
case("take", lambda x, i: x.take(i), fixture(2, 3), index(5, 0, 0, 3, shape=(2, 2)))
case("take_along_axis", lambda x, i: x.take_along_dim(i, 1), fixture(2, 3), index(2, 0, shape=(1, 2)))
case("index_add", lambda x, i, s: x.index_add(0, i, s), fixture(3, 2), index(2, 0, 2), fixture(3, 2, start=9))
case("scatter_set", lambda x, i, s: x.scatter(1, i, s), fixture(2, 3), index(2, 0, 1, 2, shape=(2, 2)), fixture(2, 2, start=9))
DUPLICATES = index(0, 0, 2, 0, 3, 3)
case("scatter_add", lambda x, i, s: x.scatter_add(0, i, s), fixture(5), DUPLICATES, fixture(6, start=9))
for label, mode in (("mul", "prod"), ("max", "amax"), ("min", "amin")):
    case(f"scatter_{label}", lambda x, i, s: x.scatter_reduce(0, i, s, mode), fixture(5), DUPLICATES, fixture(6, start=9))
    case(f"scatter_{label}", lambda x, i, s: x.scatter_reduce(0, i, s, mode), numbers(1, 1, 0, 2, 3), DUPLICATES,
         numbers(1, 1, 4, 1, 2, 2))  # ties
case("scatter_mul", lambda x, i, s: x.scatter_reduce(0, i, s, "prod"), numbers(2, 3, 0, 0, 5), DUPLICATES,
     numbers(0, 3, 2, 4, 0, 2))  # one zero; a zero in x; several
case("gather_nd", lambda x, i: x[i[:, 0], i[:, 1]], fixture(3, 2, 2), index(2, 0, 0, 1, 2, 0, shape=(3, 2)))
case("scatter_nd_add", lambda x, i, s: x.index_put((i[:, 0], i[:, 1]), s, accumulate=True), fixture(3, 2, 2),
     index(2, 0, 0, 1, 2, 0, shape=(3, 2)), fixture(3, 2, start=9))
ROWS = torch.tensor([[2], [0]])
case("index_put", lambda x, i, s: x.index_put((ROWS, i), s), fixture(3, 2, 2), index(1, 0), fixture(2, 1, 2, start=9), values=True)
case("index_put_added", lambda x, i, s: x.index_put((i,), s, accumulate=True), fixture(3, 2), index(2, 0, 2), fixture(2, start=9),
     values=True)
case("slice_update", lambda x, s: x.slice_scatter(s, 1, 1, 6, 2), fixture(2, 7), fixture(2, 3, start=9), values=True)
case("embedding", lambda w, i: F.embedding(i, w), fixture(4, 3), index(3, 0, 3, 1, shape=(2, 2)), values=True)
case("embedding_padded", lambda w, i: F.embedding(i, w, padding_idx=3), fixture(4, 3), index(3, 0, 3, 1, shape=(2, 2)), values=True)
case("masked_scatter", lambda x, m, s: x.masked_scatter(m, s), fixture(2, 3), mask(1, 0, 1, 0, 0, 1, shape=(2, 3)),
     fixture(4, start=9), values=True)
case("diag", lambda x: x.diag(-2), fixture(3), values=True)
case("diag_of_matrix", lambda x: x.diag(1), fixture(3, 4), values=True)
case("diag_embed", lambda x: x.diag_embed(1, 0, 2), fixture(2, 3), values=True)
case("trace", torch.trace, fixture(3, 3), values=True)
case("meshgrid", lambda x, y: torch.mul(*torch.meshgrid(x, y, indexing="xy")), fixture(2), fixture(3, start=9), values=True)

# ---- contraction ----
case("matmul", torch.matmul, fixture(2, 3), fixture(3, 4, start=9))
case("matmul", torch.matmul, fixture(3), fixture(3, start=9))
case("matmul", torch.matmul, fixture(3), fixture(2, 3, 2, start=9))
case("matmul", torch.matmul, fixture(2, 2, 3), fixture(3, start=9))
case("matmul", torch.matmul, fixture(2, 2, 3), fixture(3, 2, start=9))
case("matmul", torch.matmul, fixture(2, 1, 2, 3), fixture(3, 3, 2, start=9))
case("affine", F.linear, fixture(3), fixture(2, 3, start=9), fixture(2, start=30))
case("affine", F.linear, fixture(4, 3), fixture(2, 3, start=9), fixture(2, start=30))
case("affine", F.linear, fixture(2, 2, 3), fixture(2, 3, start=9), fixture(2, start=30))
case("affine_alone", F.linear, fixture(2, 2, 3), fixture(2, 3, start=9))
case("dot", torch.dot, fixture(4), fixture(4, start=9))
case("outer", torch.outer, fixture(2), fixture(3, start=9))
case("bmm", torch.bmm, fixture(2, 2, 3), fixture(2, 3, 2, start=9))
case("mv", torch.mv, fixture(2, 3), fixture(3, start=9))
case("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=-2), fixture(4), fixture(2, 3), fixture(3, 4, start=9), values=True)
case("baddbmm", lambda c, a, b: torch.baddbmm(c, a, b, beta=2, alpha=0.5), fixture(2, 1), fixture(2, 2, 3), fixture(2, 3, 2, start=9),
     values=True)
case("tensordot", lambda a, b: torch.tensordot(a, b, ((1, 0), (0, 1))), fixture(2, 3, 2), fixture(3, 2, 2, start=9), values=True)
case("kron", torch.kron, fixture(2, 3), fixture(2, 2, start=9), values=True)
case("bilinear", F.bilinear, fixture(2, 3), fixture(2, 2, start=9), fixture(4, 3, 2, start=30), values=True)
case("cross", lambda a, b: torch.linalg.cross(a, b.expand(2, 3)), fixture(2, 3), fixture(3, start=9), values=True)
for label, equation, shapes in (
    ("matmul", "bij,bjk->bik", ((2, 2, 3), (2, 3, 2))), ("trace", "ii", ((3, 3),)), ("view", "iji->ji", ((2, 3, 2),)),
    ("ellipsis", "...ij,...jk->...ki", ((2, 1, 3), (3, 2))), ("chain", "ij,jk,kl->li", ((2, 3), (3, 2), (2, 4))),
    ("stretched", "ij,ij->i", ((2, 3), (1, 3))),
):
    case(f"einsum_{label}", lambda *x: torch.einsum(equation, *x), *(fixture(*n, start=9 * i) for i, n in enumerate(shapes)),
         values=True)

# ---- losses ----
for reduction in ("mean", "sum", "none"):
    case(f"mse_{reduction}", lambda a, b: F.mse_loss(a, b, reduction=reduction), fixture(2, 3), fixture(2, 3, start=9))
    case(f"ce_{reduction}", lambda x, t: F.cross_entropy(x, t, reduction=reduction), fixture(3, 4), index(2, 0, 2))
    case(f"ce_weight_{reduction}", lambda x, t: F.cross_entropy(x, t, torch.tensor([1, 0.5, 2, 0.25]).double(), reduction=reduction),
         fixture(3, 4), index(2, 1, 2))
    case(f"ce_ignore_{reduction}", lambda x, t: F.cross_entropy(x, t, ignore_index=-100, reduction=reduction), fixture(3, 4),
         index(2, -100, 1))
    case(f"ce_smooth_{reduction}", lambda x, t: F.cross_entropy(x, t, label_smoothing=0.25, reduction=reduction), fixture(3, 4),
         index(2, 0, 1))
    case(f"ce_everything_{reduction}", lambda x, t: F.cross_entropy(x, t, torch.tensor([1, 0.5, 2, 0.25]).double(), ignore_index=3,
                                                                    label_smoothing=0.25, reduction=reduction),
         fixture(4, 4), index(2, 3, 1, 0))
    case(f"ce_labels_{reduction}", lambda x, p: F.cross_entropy(x, p, reduction=reduction), fixture(2, 3),
         numbers(0.5, 0.25, 0.25, 0, 1, 0, shape=(2, 3)))
    case(f"ce_labels_all_{reduction}", lambda x, p: F.cross_entropy(x, p, torch.tensor([1, 0.5, 2]).double(), label_smoothing=0.25,
                                                                    reduction=reduction),
         fixture(2, 3), numbers(0.5, 0.25, 0.25, 0, 1, 0, shape=(2, 3)))
case("ce_mean", F.cross_entropy, numbers(1, -INF, 2, 0.5, 3, -INF, shape=(2, 3)), index(0, 1))  # masked classes
case("ce_mean", F.cross_entropy, numbers(1, -INF, 2, 0.5, 3, -INF, shape=(2, 3)), index(1, 2))  # which are the targets
case("ce_smooth_mean", lambda x, t: F.cross_entropy(x, t, label_smoothing=0.25), numbers(1, -INF, 2, 0.5, 3, -INF, shape=(2, 3)),
     index(0, 1))
case("ce_ignore_mean", lambda x, t: F.cross_entropy(x, t, ignore_index=-100), fixture(2, 3), index(-100, -100))  # nothing left
case("ce_row", F.cross_entropy, fixture(4), torch.tensor(1))
case("ce_labels_row", F.cross_entropy, fixture(3), numbers(0.5, 0.25, 0.25))

# ---- norms of channels and vectors ----
WEIGHT, BIAS = fixture(4, start=9), fixture(4, start=30)
case("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b, 0.1), fixture(2, 4, 3), WEIGHT, BIAS, values=True)
case("group_norm_weight", lambda x, w: F.group_norm(x, 4, w, None, 0.1), fixture(2, 4, 2, 2), WEIGHT, values=True)
case("group_norm_bias", lambda x, b: F.group_norm(x, 1, None, b, 0.1), fixture(2, 4), BIAS, values=True)
case("group_norm_alone", lambda x: F.group_norm(x, 2, eps=0.1), fixture(1, 4, 3), values=True)
case("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b, 0.1), fixture(2, 4, 4, 5), WEIGHT, BIAS, values=True)
case("group_norm_alone", lambda x: F.group_norm(x, 2, eps=0.1), fixture(1, 2, 17), values=True)
case("batch_norm_training", lambda x, w, b: F.batch_norm(x, None, None, w, b, True, 0.1, 0.1), fixture(3, 4, 17), WEIGHT, BIAS,
     values=True)
case("batch_norm_training_alone", lambda x: F.batch_norm(x, None, None, training=True, eps=0.1), fixture(2, 3, 3, 6), values=True)
case("instance_norm", lambda x, w, b: F.instance_norm(x, weight=w, bias=b, eps=0.1), fixture(2, 4, 3), WEIGHT, BIAS, values=True)
case("instance_norm_alone", lambda x: F.instance_norm(x, eps=0.1), fixture(2, 2, 2, 3), values=True)
case("batch_norm_training", lambda x, w, b: F.batch_norm(x, None, None, w, b, True, 0.1, 0.1), fixture(2, 4, 3), WEIGHT, BIAS,
     values=True)
case("batch_norm_training_alone", lambda x: F.batch_norm(x, None, None, training=True, eps=0.1), fixture(5, 3), values=True)
RUNNING = torch.tensor([0.5, -1, 0, 2]).double(), torch.tensor([1, 0.25, 4, 2]).double()
case("batch_norm", lambda x, w, b: F.batch_norm(x, *RUNNING, w, b, False, 0.1, 0.1), fixture(2, 4, 3), WEIGHT, BIAS, values=True)
case("batch_norm_weight", lambda x, w: F.batch_norm(x, *RUNNING, w, eps=0.1), fixture(3, 4), WEIGHT, values=True)
for size in (1, 2, 3, 9):
    case(f"local_response_norm_{size}", lambda x: F.local_response_norm(x, size, 0.5, 0.75, 2.0), fixture(2, 5, 2, 2), values=True)
case("l2_normalize", lambda x: F.normalize(x, dim=1, eps=0.5), numbers(1, -2, 0.5, 0, 0, 0, 0.25, 0.125, 0, shape=(3, 3)), values=True)
case("cosine_similarity", lambda a, b: F.cosine_similarity(a, b, 1), fixture(2, 3, 2), fixture(2, 3, 2, start=9), values=True)
case("cosine_similarity_broadcast", lambda a, b: F.cosine_similarity(a, b, -1), fixture(2, 3), fixture(3, start=9), values=True)

# ---- windows ----
case("lp_pool", lambda x: F.lp_pool1d(x, 2, 3, 2), fixture(2, 7), values=True)
case("lp_pool_ceil", lambda x: F.lp_pool1d(x, 2, 3, 2, ceil_mode=True), fixture(2, 8), values=True)
case("lp_pool_images", lambda x: F.lp_pool2d(x.abs(), 1.5, (2, 3), (1, 2)), fixture(2, 1, 4, 5), values=True)
with_both("max_pool_with_index", lambda x: F.max_pool1d(x, 3, 2, return_indices=True), 1, fixture(2, 9))
with_both("max_pool_with_index_padded",
          lambda x: F.max_pool2d(x, (2, 3), (1, 2), (1, 0), (2, 1), ceil_mode=True, return_indices=True), 2, fixture(2, 5, 6))
with_both("max_pool_with_index_adaptive", lambda x: F.adaptive_max_pool1d(x, 3, return_indices=True), 1, fixture(2, 7))
with_both("max_pool_with_index_nan", lambda x: F.max_pool1d(x, 2, return_indices=True), 1,
          numbers(NAN, NAN, 1, 1, NAN, 0, -INF, -INF, shape=(1, 8)))
COLUMNS = dict(dilation=(2, 1), padding=(1, 0), stride=(1, 2))
case("im2col", lambda x: F.unfold(x, (2, 3), **COLUMNS), fixture(2, 2, 4, 5), values=True)
case("im2col_pixels", lambda x: F.unfold(x, 1), fixture(2, 2, 2, 3), values=True)
case("col2im", lambda x: F.fold(x, (4, 5), (2, 3), **COLUMNS), fixture(1, 12, 8), values=True)
case("col2im_overlapping", lambda x: F.fold(x, (4, 3), (2, 2)), fixture(2, 4, 6), values=True)

# ---- images ----
case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), fixture(2, 8, 2, 3), values=True)
case("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), fixture(2, 1, 4, 6), values=True)
for label, mode, shape, sizes, options in (
    ("nearest", "nearest", (1, 2, 4, 5), ((8, 3), (2, 5), (4, 12)), {}),
    ("nearest_centre", "nearest-exact", (1, 2, 4, 5), ((8, 3), (2, 5), (4, 12)), {}),
    ("line", "linear", (2, 1, 5), (8, 3, 1), {}),
    ("line_corners", "linear", (2, 1, 5), (8, 3, 1), {"align_corners": True}),
    ("linear", "bilinear", (1, 2, 4, 5), ((8, 10), (3, 2), (7, 5)), {}),
    ("linear_corners", "bilinear", (1, 2, 4, 5), ((8, 10), (3, 2), (7, 5)), {"align_corners": True}),
    ("linear_antialias", "bilinear", (1, 2, 4, 5), ((8, 10), (3, 2), (7, 5), (1, 1)), {"antialias": True}),
    ("volume", "trilinear", (1, 1, 3, 4, 5), ((6, 3, 7), (1, 4, 2)), {}),
    ("cubic", "bicubic", (1, 2, 4, 5), ((8, 10), (3, 2), (7, 5)), {}),
    ("cubic_corners", "bicubic", (1, 2, 4, 5), ((8, 10), (3, 2), (7, 5)), {"align_corners": True}),
    ("cubic_antialias", "bicubic", (1, 2, 4, 5), ((8, 10), (3, 2), (7, 5), (1, 1)), {"antialias": True}),
):
    for k, size in enumerate(sizes):
        case(f"resize_{label}_{k}", lambda x: F.interpolate(x, size, mode=mode, **options), fixture(*shape), values=True)
case("resize_filter_wide", lambda x: F.interpolate(x, (3, 29), mode="bicubic", antialias=True), fixture(1, 1, 3, 64), values=True)
case.out.close()
