"""What PyTorch says about losses, and the gradients of all their arguments.
Writes tests/golden/losses.txt, which tests/nn/test_losses.c reads (the format: cases.h). `make golden` runs it.
"""
import torch
import torch.nn.functional as F

from cases import INF, NAN, Cases, fixture, index, numbers

case = Cases("losses.txt", "make_losses.py", values=True)
REDUCTIONS = ("mean", "sum", "none")


def every(name, function, *inputs, **options):
    for reduction in REDUCTIONS:
        case(f"{name}_{reduction}", lambda *x: function(*x, reduction=reduction, **options), *inputs)


def reduced(each, reduction):
    return {"mean": each.mean, "sum": each.sum, "none": lambda: each}[reduction]()


A, B, EMPTY = fixture(3, 5), fixture(3, 5, start=9), fixture(0, 5)
SPECIAL = (numbers(NAN, INF, -INF, 1, 1, 0, 2), numbers(1, 1, 1, NAN, INF, 0, 1))

# ---- differences ----
for name, function, options in (
    ("mae", F.l1_loss, {}),
    ("huber", F.huber_loss, {}),
    ("huber_delta", F.huber_loss, {"delta": 0.25}),
    ("smooth_l1", F.smooth_l1_loss, {}),
    ("smooth_l1_beta", F.smooth_l1_loss, {"beta": 2.5}),
    ("smooth_l1_zero", F.smooth_l1_loss, {"beta": 0}),
):
    every(name, function, A, B, **options)
    every(name, function, EMPTY, EMPTY, **options)
    every(name, function, numbers(-3, shape=()), numbers(2, shape=()), **options)
    # the bound itself, both sides of it, equals, and far away
    case(f"{name}_none", lambda x, y: function(x, y, reduction="none", **options),
         numbers(0, 1, -1, 0.25, -0.25, 2.5, -2.5, 1.5, 8192, -8192), numbers(*[0] * 10))
    case(f"{name}_none", lambda x, y: function(x, y, reduction="none", **options), *SPECIAL)

# ---- probabilities ----
P = tuple(((i * 37) % 61 + 2) / 64 for i in range(12)), (3, 4)
T = tuple(((i * 11) % 16 + 0.5) / 16 for i in range(12)), (3, 4)
WEIGHT = torch.tensor([1, 0.5, 2, 0.25]).double()
every("bce", F.binary_cross_entropy, P, T)
every("bce_weight", F.binary_cross_entropy, P, T, weight=WEIGHT)
every("bce", F.binary_cross_entropy, fixture(0, 4), fixture(0, 4))
# predictions that are certain, right, wrong, or neither
case("bce_none", lambda x, t: F.binary_cross_entropy(x, t.double(), reduction="none"),
     numbers(0, 0, 1, 1, 2.0**-30, 2.0**-30), index(0, 1, 0, 1, 0, 1))
case("bce_weight_none", lambda x, t: F.binary_cross_entropy(x, t.double(), weight=WEIGHT, reduction="none"),
     numbers(0.5, 0.25, 2.0**-30, 0.75), index(0, 1, 1, 1))

# pos_weight may be anything that broadcasts
logits = lambda x, t, reduction, **o: F.binary_cross_entropy_with_logits(x, t, reduction=reduction, **o)
for name, options in (
    ("bce_logits", {}),
    ("bce_logits_weight", {"weight": WEIGHT}),
    ("bce_logits_pos", {"pos_weight": WEIGHT}),
    ("bce_logits_both", {"weight": WEIGHT[:1], "pos_weight": WEIGHT}),
):
    every(name, logits, fixture(3, 4), T, **options)
    every(name, logits, fixture(2, 0, 4), fixture(2, 0, 4), **options)
    case(f"{name}_none", lambda x, t: logits(x, t, "none", **options), numbers(1e4, -1e4, 1e4, -1e4), numbers(0, 1, 1, 0))
    case(f"{name}_none", lambda x, t: logits(x, t, "none", **options), numbers(NAN, INF, -INF, 60), numbers(0, 0.5, 0.5, 1))

def kl(x, t, reduction, log_target=False):
    return F.kl_div(x, t, reduction=reduction, log_target=log_target)


POSITIVE = tuple(((i * 7) % 12 + 1) / 16 for i in range(12)), (3, 4)
for reduction in (*REDUCTIONS, "batchmean"):
    case(f"kl_{reduction}", lambda x, t: kl(x, t, reduction), fixture(3, 4), POSITIVE)
    case(f"kl_log_{reduction}", lambda x, t: kl(x, t, reduction, True), fixture(3, 4), fixture(3, 4, start=9))
    case(f"kl_{reduction}", lambda x, t: kl(x, t, reduction), fixture(2, 0, 3), fixture(2, 0, 3))
    case(f"kl_log_{reduction}", lambda x, t: kl(x, t, reduction, True), fixture(2, 0, 3), fixture(2, 0, 3))
case("kl_fixed_none", lambda x, t: kl(x, t.double(), "none"), numbers(-1, -2, -1e4, NAN), index(0, 1, 0, 1))  # 0 log 0 is 0
case("kl_log_none", lambda x, t: kl(x, t, "none", True), numbers(-1e4, 0, NAN, -1), numbers(-1, -1e4, -2, NAN))

# ---- classes ----
NUMBERS, ROWS = index(2, 0, 3, 1, 0, 2), fixture(2, 3, 4)
GRID = index(2, 0, 3, 1, 0, 2, shape=(2, 3))
last = lambda function: lambda x, t, **o: function(x.movedim(-1, 1), t, **o)
for name, options in (
    ("nll", {}),
    ("nll_weight", {"weight": WEIGHT}),
    ("nll_ignore", {"ignore_index": 2}),
    ("nll_both", {"weight": WEIGHT, "ignore_index": 0}),
):
    every(name, F.nll_loss, fixture(6, 4), NUMBERS, **options)
    every(name, last(F.nll_loss), ROWS, GRID, **options)
    every(name, F.nll_loss, fixture(4), torch.tensor(1), **options)
    every(name, F.nll_loss, fixture(0, 4), index(shape=(0,)), **options)
    every(f"axis_{name}", F.nll_loss, fixture(2, 4, 3), GRID, **options)
case("nll_mean", F.nll_loss, numbers(-INF, 0, -1e4, 1e4, NAN, -1, shape=(3, 2)), index(0, 1, 1))
case("nll_none", lambda x, t: F.nll_loss(x, t, reduction="none"), numbers(-INF, 0, -1e4, 1e4, NAN, -1, shape=(3, 2)), index(1, 0, 0))

SHARES = tuple(((i % 4) + 1) / 16 for i in range(24)), (2, 3, 4)
shares_last = lambda function: lambda x, t, **o: function(x.movedim(-1, 1), t.movedim(-1, 1), **o)
for name, options in (
    ("ce", {}),
    ("ce_weight", {"weight": WEIGHT}),
    ("ce_ignore", {"ignore_index": 2}),
    ("ce_smooth", {"label_smoothing": 0.25}),
    ("ce_all", {"weight": WEIGHT, "ignore_index": 0, "label_smoothing": 0.25}),
):
    every(name, last(F.cross_entropy), ROWS, GRID, **options)
    every(name, last(F.cross_entropy), fixture(1, 2, 3, 4), GRID.reshape(1, 2, 3), **options)
    every(name, last(F.cross_entropy), fixture(2, 0, 4), index(shape=(2, 0)), **options)
    every(f"axis_{name}", F.cross_entropy, fixture(2, 4, 3), GRID, **options)
    every(f"axis_{name}", F.cross_entropy, fixture(1, 4, 2, 3), GRID.reshape(1, 2, 3), **options)
    case(f"{name}_none", lambda x, t: F.cross_entropy(x, t, reduction="none", **options),
         numbers(1e4, -1e4, 0, 0, 1e4, -1e4, 0, 0, NAN, 0, 0, 0, shape=(3, 4)), index(0, 1, 3))
    if "ignore_index" not in options:
        every(f"{name}_shares", shares_last(F.cross_entropy), ROWS, SHARES, **options)
        every(f"axis_{name}_shares", F.cross_entropy, fixture(2, 4, 3), (SHARES[0], (2, 4, 3)), **options)

# ---- margins ----
SIGNS = index(1, -1, -1, 1, -1, 1, shape=(2, 3))


def hinge(x, t, reduction, margin=1):
    return reduced((margin - t * x).clamp_min(0), reduction)


for name, margin in (("", 1), ("_margin", 0.25), ("_zero", 0)):
    every(f"hinge{name}", hinge, fixture(2, 3), numbers(1, -1, -1, 1, -1, 1, shape=(2, 3)), margin=margin)
    every(f"hinge{name}", hinge, fixture(0, 3), fixture(0, 3), margin=margin)
    every(f"hinge_embedding{name}", F.hinge_embedding_loss, fixture(2, 3), SIGNS, margin=margin)
    every(f"hinge_embedding{name}", F.hinge_embedding_loss, fixture(0, 3), index(shape=(0, 3)), margin=margin)
    case(f"hinge{name}_none", lambda x, t: hinge(x, t, "none", margin), numbers(1e4, -1e4, margin), numbers(1, 1, 1))
    case(f"hinge_embedding{name}_none", lambda x, t: F.hinge_embedding_loss(x, t, margin=margin, reduction="none"),
         numbers(1e4, 1e4, -1e4, -1e4, margin, 0), index(1, -1, 1, -1, -1, 1))

ROWSIGNS = index(1, -1, -1, 1)
for name, margin in (("", 0), ("_margin", 0.5), ("_below", -0.5)):
    every(f"cosine{name}", F.cosine_embedding_loss, fixture(4, 3), fixture(4, 3, start=9), ROWSIGNS, margin=margin)
    every(f"cosine{name}", F.cosine_embedding_loss, fixture(0, 3), fixture(0, 3), index(shape=(0,)), margin=margin)
    every(f"cosine{name}", F.cosine_embedding_loss, fixture(3), fixture(3, start=5), torch.tensor(-1), margin=margin)
case("cosine_none", lambda a, b, t: F.cosine_embedding_loss(a, b, t, reduction="none"),  # opposite, the same, one without length
     numbers(2.0**-30, 2, 1, 2, 0, 0, 1, NAN, shape=(4, 2)), numbers(-2.0**-30, -2, 1, 2, 1, 2, 1, 2, shape=(4, 2)), index(-1, 1, 1, 1))

for name, options in (
    ("triplet", {}),
    ("triplet_p1", {"p": 1, "margin": 2.5}),
    ("triplet_p3", {"p": 3, "eps": 0.5}),
    ("triplet_swap", {"swap": True, "margin": 4}),
):
    vectors = fixture(4, 3), fixture(4, 3, start=9), fixture(4, 3, start=30)
    every(name, F.triplet_margin_loss, *vectors, **options)
    every(name, F.triplet_margin_loss, *[fixture(0, 3)] * 3, **options)
    every(name, F.triplet_margin_loss, fixture(5), fixture(5, start=9), fixture(5, start=30), **options)
    case(f"{name}_none", lambda a, p, n: F.triplet_margin_loss(a, p, n, reduction="none", **options),
         numbers(1, 2, 1, 2, 64, 0, shape=(3, 2)), numbers(1, 2, 1, 2, 0, 0, shape=(3, 2)), numbers(3, 4, 1, 2, 0, 1, shape=(3, 2)))
