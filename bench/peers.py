#!/usr/bin/env python3
"""The cases of the bench_* programs in another framework, one framework in a process.

    peers.py numpy|torch|torch.compile|jax|onnxruntime [PATTERN]    measures the matching cases, one JSON line each
    peers.py WHO --serve                  measures the case that each line of stdin names ({} when WHO lacks it);
                                          scripts/bench drives it this way
    peers.py WHO --process infer|train SIZE [MODEL]
                                          runs the MLP block ten times and prints the most memory it held, in MB
    peers.py jax --lower FOLDER           writes its programs of the MLP block as StableHLO text, for bench/xla.c

A line of output is {"case", "unit", "value", "check"}: check is a few numbers of the result, which every side must get.
Frameworks that let one choose use every core this process may run on.

To add a case, add a row to CASES: its name (as in bench/*.c), unit, op, and what the op takes. To add an op, add a
method to each framework below that has one. What it does goes by the beginning of its name:
    grad_     prepares (makes parameters, compiles) and returns the call to time
    static_   likewise, and returns the numbers to check beside the call
    time_     measures by itself and returns seconds, or MB
    others    are the call to time
"""
import contextlib, fnmatch, json, os, signal, statistics, subprocess, sys, tempfile, time

import numpy as np

CORES = len(os.sched_getaffinity(0))
SECONDS = float(os.environ.get("BENCH_SECONDS", "0.3"))  # to measure at least, for a case
RANDOM = np.random.default_rng(0)


# ---- what ops take ---------------------------------------------------------------------------------------------------
class Input:
    """An array to make: f32 normal numbers, the same rounded to bf16 or f16, i64 below a bound, or any i8."""

    def __init__(self, *shape, dtype="f32", below=None):
        self.shape, self.dtype, self.below = shape, dtype, below

    def make(self):
        if self.dtype == "i64":
            return RANDOM.integers(0, self.below, self.shape)
        if self.dtype == "i8":
            return RANDOM.integers(-128, 128, self.shape, dtype=np.int8)
        return RANDOM.standard_normal(self.shape, dtype=np.float32)


class Positive(Input):
    """A positive definite matrix."""

    def __init__(self, size):
        super().__init__(size, size)

    def make(self):
        x = super().make()
        return x @ x.T + np.eye(len(x), dtype=np.float32)


def bf16(*shape):
    return Input(*shape, dtype="bf16")


def f16(*shape):
    return Input(*shape, dtype="f16")


def i8(*shape):
    return Input(*shape, dtype="i8")


def indices(*shape, below):
    return Input(*shape, dtype="i64", below=below)


def numbers(*shape, seed, scale):
    """As bench/static.h makes them."""
    h = np.arange(np.prod(shape), dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(seed * 0x85EBCA77 & 0xFFFFFFFF)
    h = (h ^ h >> np.uint32(15)) * np.uint32(0x2C1B3C6D)
    h ^= h >> np.uint32(12)
    return (((h >> np.uint32(8)).astype(np.float32) * np.float32(2**-23) - 1) * np.float32(scale)).reshape(shape)


def input_numbers(*shape, seed): return numbers(*shape, seed=seed, scale=2)
def weight_numbers(*shape, seed): return numbers(*shape, seed=seed, scale=0.0625)


def block_weights(i, h, o):
    shapes = [(i, h), (h,), (h, h), (h,), (h, o), (o,)] + ([(i, o)] if i != o else [])
    return [weight_numbers(*shape, seed=10 + k) for k, shape in enumerate(shapes)]


def digits_weights():
    return [weight_numbers(*shape, seed=10 + k) for k, shape in enumerate([(784, 128), (128,), (128, 10), (10,)])]


def line_numbers():
    """Weight, bias, x and y of Linear(3, 1) on 100 rows."""
    return (weight_numbers(3, 1, seed=10), weight_numbers(1, seed=11), input_numbers(100, 3, seed=1),
            input_numbers(100, 1, seed=2))


def values_to_check(y):
    """Of a result: its size on the whole, and three of its elements."""
    y = np.asarray(y, dtype=np.float64).ravel()
    return [float(np.sqrt(np.mean(y * y))), *[float(y[k]) for k in (0, len(y) // 3, -1)]]


# The network of examples/digits_conv.c and an epoch of images, as bench/layers.c makes them.
EPOCH, BATCH = 44, 32
READER = [(16, 1, 3, 3), (16, 16, 3, 3), (32, 16, 3, 3), (32, 32, 3, 3), (10, 128)]


def reader_weights(): return [numbers(*shape, seed=10 + k, scale=0.2) for k, shape in enumerate(READER)]
def reader_images(): return input_numbers(EPOCH * BATCH, 1, 8, 8, seed=1)
def reader_labels(): return np.arange(EPOCH * BATCH) % 10
def reader_rate(step): return 3e-3 * (1 + np.cos(np.pi * step / (1000 * EPOCH))) / 2


# Those of a recurrent layer: [steps, rows, width] to as much.
STEPS, ROWS, WIDTH = 64, 32, 256


def recurrent_weights(gates):
    shapes = [(gates * WIDTH, WIDTH), (gates * WIDTH, WIDTH), (gates * WIDTH,), (gates * WIDTH,)]
    return [weight_numbers(*shape, seed=10 + k) for k, shape in enumerate(shapes)]


LEARNING_RATE = 0.1
BLOCKS = {"32x256x512x256": (32, 256, 512, 256), "64x512x1024x512": (64, 512, 1024, 512),
          "128x768x2048x1024": (128, 768, 2048, 1024)}
TINY, MEDIUM, LARGE = Input(2, 3), Input(1 << 20), Input(1 << 24)
SQUARE = Input(4096, 4096)

IMAGES, CHANNELS = Input(32, 64, 56, 56), Input(64)
CASES = {  # name: unit, op, inputs
    "eager/add-2x3": ("ns", "add", TINY, TINY),
    "eager/add-scalar-2x3": ("ns", "add_scalar", TINY),
    "eager/chain-10-2x3": ("ns", "chain_of_10", TINY, TINY),
    "eager/add-2^24": ("us", "add", LARGE, LARGE),
    "eager/mul-2^24": ("us", "mul", LARGE, LARGE),
    "eager/broadcast-4096x1024": ("us", "add", Input(4096, 1024), Input(1024)),
    "eager/transposed-4096x4096": ("us", "add_transposed", SQUARE, SQUARE),
    "eager/mixed-bf16-add-2^20": ("us", "add", bf16(1 << 20), MEDIUM),
    "eager/exp-2^20": ("us", "exp", MEDIUM),
    "eager/tanh-2^20": ("us", "tanh", MEDIUM),
    "eager/sigmoid-2^20": ("us", "sigmoid", MEDIUM),
    "eager/gelu-2^20": ("us", "gelu", MEDIUM),
    "eager/sum-2^24": ("us", "sum", LARGE),
    "eager/sum-axis0-4096x4096": ("us", "sum_axis0", SQUARE),
    "eager/sum-axis1-4096x4096": ("us", "sum_axis1", SQUARE),
    "eager/cumsum-4096x1024": ("us", "cumsum", Input(4096, 1024)),
    "eager/matmul-64": ("us", "matmul", Input(64, 64), Input(64, 64)),
    "eager/matmul-512": ("us", "matmul", Input(512, 512), Input(512, 512)),
    "eager/matmul-1024": ("us", "matmul", Input(1024, 1024), Input(1024, 1024)),
    "eager/matmul-bf16-512": ("us", "matmul", bf16(512, 512), bf16(512, 512)),
    "eager/matmul-f16-512": ("us", "matmul", f16(512, 512), f16(512, 512)),
    "eager/matmul-bf16-1x4096": ("us", "matmul", bf16(1, 4096), bf16(4096, 4096)),
    "eager/matmul-f16-1x4096": ("us", "matmul", f16(1, 4096), f16(4096, 4096)),
    "eager/matmul-i8-512": ("us", "matmul_to_i32", i8(512, 512), i8(512, 512)),
    "eager/randn-2^20": ("us", "randn_2_20"),
    "eager/gather-4096x1024": ("us", "gather", Input(4096, 1024), indices(4096, 1024, below=1024)),
    "eager/index-select-65536x64": ("us", "index_select", Input(65536, 64), indices(16384, below=65536)),
    "eager/embedding-65536x256": ("us", "index_select", Input(32768, 256), indices(65536, below=32768)),
    "eager/einsum-bij-bjk": ("us", "einsum", Input(16, 128, 128), Input(16, 128, 128)),
    "eager/sort-2^20": ("us", "sort", MEDIUM),
    "eager/topk-8-4096x1024": ("us", "topk_8", Input(4096, 1024)),
    "eager/batch-norm-training-32x64x56x56": ("us", "batch_norm", IMAGES, CHANNELS, CHANNELS),
    "eager/group-norm-32x64x56x56": ("us", "group_norm", IMAGES, CHANNELS, CHANNELS),
    "eager/bilinear-x2-8x64x56x56": ("us", "bilinear_x2", Input(8, 64, 56, 56)),
    "eager/svd-512": ("us", "svd", Input(512, 512)),
    "eager/solve-512": ("us", "solve", Input(512, 512), Input(512, 512)),
    "eager/cholesky-512": ("us", "cholesky", Positive(512)),
    "grad/add-2x3-taped": ("ns", "grad_add", TINY, TINY),
    "grad/linear-3x1-epoch": ("us", "grad_linear_epoch", Input(100, 3), Input(100, 1)),
    "grad/mlp-64x512x1024x512": ("us", "grad_mlp", Input(64, 512), Input(64, 512)),
    "grad/backward-chain-1e5": ("us", "grad_chain_1e5", TINY, TINY),
    "grad/softmax-cross-entropy-64x1000": ("us", "grad_cross_entropy", Input(64, 1000), indices(64, below=1000)),
    "grad/gelu-2^20": ("us", "grad_gelu", MEDIUM, MEDIUM),
    "grad/embedding-65536x256": ("us", "grad_embedding", Input(32768, 256), indices(65536, below=32768), Input(65536, 256)),
    "script/linear-3x1-step": ("us", "grad_linear_epoch", Input(100, 3), Input(100, 1)),
    "script/mlp-64x512x1024x512": ("us", "mlp", Input(64, 512)),
    "static/mlp-1x784x128x10": ("us", "static_digits"),
    "static/recurrence-64x512": ("us", "static_recurrence", 16, 64, 512),
    "static/recurrence-train-64x512": ("us", "static_recurrence_training", 16, 64, 512),
    "static/chain-2^16": ("us", "static_chain", (1 << 16,), (1 << 16,)),
    "static/chain-2^20": ("us", "static_chain", (1 << 20,), (1 << 20,)),
    "static/chain-2^24": ("us", "static_chain", (1 << 24,), (1 << 24,)),
    "static/softmax-4096x1024": ("us", "static_softmax", (4096, 1024)),
    "static/layer-norm-4096x1024": ("us", "static_layer_norm", (4096, 1024), (1024,), (1024,)),
    "static/conv-8x64x56x56": ("us", "static_conv", (8, 64, 56, 56), (64, 64, 3, 3)),
    "static/attention-1x8x512x64": ("us", "static_attention", *[(1, 8, 512, 64)] * 3),
    "static/linear-3x1-step": ("us", "static_line"),
    "static/unrolled-100": ("ms", "time_unrolled", 100),
    "xla/unrolled-100": ("ms", "time_jitted_unrolled", 100),
    "static/first-result": ("ms", "time_first_result"),
    "static/first-result-disk": ("ms", "time_first_result"),
    "layers/digits-conv-epoch": ("ms", "static_readers_epoch"),
    "layers/digits-conv-epoch-script": ("ms", "static_compiled_epoch"),
    "layers/max-pool-32x16x16x16": ("us", "static_max_pool"),
    "layers/max-pool-32x16x16x16-train": ("us", "static_max_pool_training"),
    "process/start-ms": ("ms", "time_start"),
    "process/start-mb": ("MB", "time_start_mb"),
}
for name in ("gru", "lstm"):
    for suffix in ("", "-script"):
        CASES |= {
            f"layers/{name}-64x32x256{suffix}": ("us", "static_recurrent", name, False),
            f"layers/{name}-64x32x256-train{suffix}": ("us", "static_recurrent", name, True),
        }
for name, size in BLOCKS.items():
    CASES |= {
        f"static/mlp-{name}": ("us", "static_block", *size),
        f"static/mlp-train-{name}": ("us", "static_training", *size),
        f"static/compile-{name}": ("ms", "time_compile", *size),
        f"static/memory-{name}": ("MB", "time_memory", "infer", name),
        f"static/memory-{name}-disk": ("MB", "time_memory", "infer", name),
        f"static/memory-train-{name}": ("MB", "time_memory", "train", name),
        f"static/memory-train-{name}-disk": ("MB", "time_memory", "train", name),
        f"xla/mlp-{name}": ("us", "static_jitted_block", *size),
        f"xla/mlp-train-{name}": ("us", "static_jitted_training", *size),
    }


# ---- the frameworks --------------------------------------------------------------------------------------------------
class Framework:
    """Ops that Python's operators spell alike everywhere. `prepare` gives the call to time, or None without the op."""

    trains = False

    def prepare(self, op, inputs):
        function = getattr(self, op, None)
        if op.startswith("static_"):
            return function and function(*inputs)
        arrays = [self.array(i) for i in inputs]
        if function is None or any(a is None for a in arrays):
            return None
        return function(*arrays) if op.startswith("grad_") else lambda: function(*arrays)

    def wait(self, result):
        """Returns when the result is there; for frameworks that only queue the work."""

    def time_start(self):
        """A Python that imports the framework and makes one tensor, from its launch to its end."""
        return median_launch_seconds([sys.executable, "-c", self.start])

    def time_start_mb(self):
        """The most memory such a process held."""
        own_status = "; print(*[l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')])"
        return int(run_python("-c", self.start + own_status)) / 1024

    def time_first_result(self):
        """A Python that imports the framework and runs the MLP block, from its launch to its end."""
        with self.block_model(*BLOCKS["32x256x512x256"]) as model:
            return median_launch_seconds([sys.executable, __file__, self.name, "--process", "infer", "32x256x512x256", model])

    def time_memory(self, network, size):
        if network == "train" and not self.trains:
            return None
        with self.block_model(*BLOCKS[size]) as model:
            return float(run_python(__file__, self.name, "--process", network, size, model))

    def block_model(self, *size):
        """A file that the process needs, for frameworks that read models from files."""
        return contextlib.nullcontext("")

    def run_block(self, network, size, model):
        """In a process of its own."""
        call, _ = (self.static_block if network == "infer" else self.static_training)(*size)
        for _ in range(10):
            self.wait(call())

    def add(self, x, y): return x + y
    def add_scalar(self, x): return x + 2.0
    def add_transposed(self, x, y): return x + y.T
    def mul(self, x, y): return x * y
    def matmul(self, x, y): return x @ y
    def sum(self, x): return x.sum()
    def sum_axis0(self, x): return x.sum(0)
    def sum_axis1(self, x): return x.sum(1)

    def chain_of_10(self, x, y):
        z = (x + y) * y
        z = self.exp(-(z * z))
        z = self.tanh(z) - x
        return self.maximum(self.relu(z + 0.5), y)


class Numpy(Framework):
    name = "numpy"
    start = "import numpy; numpy.ones((2, 3), numpy.float32)"
    version = np.__version__
    exp, tanh, maximum = staticmethod(np.exp), staticmethod(np.tanh), staticmethod(np.maximum)

    def array(self, i): return None if i.dtype in ("bf16", "f16") else i.make()
    def relu(self, x): return np.maximum(x, 0)
    def sigmoid(self, x): return 1 / (1 + np.exp(-x))
    def randn_2_20(self): return RANDOM.standard_normal(1 << 20, dtype=np.float32)
    def cumsum(self, x): return np.cumsum(x, 1)
    def gather(self, x, index): return np.take_along_axis(x, index, 1)
    def index_select(self, x, index): return np.take(x, index, 0)
    def einsum(self, x, y): return np.einsum("bij,bjk->bik", x, y, optimize=True)

    # SciPy's, which is OpenBLAS
    def linalg(self):
        import scipy.linalg

        return scipy.linalg
    def svd(self, x): return self.linalg().svd(x, full_matrices=False, check_finite=False)
    def solve(self, x, y): return self.linalg().solve(x, y, assume_a="general", check_finite=False)
    def cholesky(self, x): return self.linalg().cholesky(x, lower=True, check_finite=False)

    def sort(self, x):
        index = np.argsort(x, kind="stable")
        return x[index], index
    def time_first_result(self): return None
    def time_memory(self, network, size): return None


class Torch(Framework):
    name, trains = "torch", True
    start = "import torch; torch.ones(2, 3)"

    def __init__(self):
        import torch

        torch.set_num_threads(CORES)
        self.torch, self.version = torch, torch.__version__
        self.exp, self.tanh, self.sigmoid, self.relu = torch.exp, torch.tanh, torch.sigmoid, torch.relu
        self.maximum, self.gelu = torch.maximum, torch.nn.functional.gelu

    def array(self, i):
        a = self.torch.from_numpy(i.make())
        return a.bfloat16() if i.dtype == "bf16" else a.half() if i.dtype == "f16" else a

    def matmul_to_i32(self, x, y): return self.torch._int_mm(x, y)

    def prepare(self, op, inputs):
        self.torch.set_grad_enabled(op.startswith("grad_"))
        return super().prepare(op, inputs)

    def compiled(self, function):
        """torch.compile has its own; eager is as it is."""
        return function

    def static_graph(self, function, *shapes):
        inputs = [self.torch.from_numpy(input_numbers(*shape, seed=k + 1)) for k, shape in enumerate(shapes)]
        function = self.compiled(function)
        return lambda: function(*inputs), values_to_check(function(*inputs))

    def static_chain(self, *shapes):
        torch = self.torch
        return self.static_graph(lambda x, y: torch.tanh(x * 1.1 + y) * torch.sigmoid(y) - torch.relu(x) * 0.5
                                 + torch.exp(-x * x), *shapes)

    def static_softmax(self, shape):
        return self.static_graph(lambda x: self.torch.softmax(x, -1), shape)

    def static_layer_norm(self, *shapes):
        norm = self.torch.nn.functional.layer_norm
        return self.static_graph(lambda x, w, b: norm(x, shapes[1], w, b), *shapes)

    def static_conv(self, *shapes):
        return self.static_graph(lambda x, w: self.torch.nn.functional.conv2d(x, w, padding=1), *shapes)

    def static_attention(self, *shapes):
        attention = self.torch.nn.functional.scaled_dot_product_attention
        return self.static_graph(lambda q, k, v: attention(q, k, v, is_causal=True), *shapes)

    def block(self, x, *p):
        gelu, addmm = self.torch.nn.functional.gelu, self.torch.addmm
        skip = x @ p[6] if len(p) > 6 else x
        x = gelu(addmm(p[1], x, p[0]), approximate="tanh")
        x = gelu(addmm(p[3], x, p[2]), approximate="tanh")
        return addmm(p[5], x, p[4]) + skip

    def static_block(self, batch, i, h, o):
        self.torch.set_grad_enabled(False)
        weights = [self.torch.from_numpy(a) for a in block_weights(i, h, o)]
        x = self.torch.from_numpy(input_numbers(batch, i, seed=1))
        function = self.compiled(self.block)
        return lambda: function(x, *weights), values_to_check(function(x, *weights))

    def static_training(self, batch, i, h, o):
        torch = self.torch
        torch.set_grad_enabled(True)
        weights = [torch.from_numpy(a).requires_grad_() for a in block_weights(i, h, o)]
        x, y = torch.from_numpy(input_numbers(batch, i, seed=1)), torch.from_numpy(input_numbers(batch, o, seed=2))
        loss_of = self.compiled(lambda x, y, *p: torch.nn.functional.mse_loss(self.block(x, *p), y))

        def step():
            loss = loss_of(x, y, *weights)
            gradients = torch.autograd.grad(loss, weights)
            with torch.no_grad():
                torch._foreach_add_(weights, gradients, alpha=-LEARNING_RATE)
            return loss
        losses = [step().item() for _ in range(10)]
        moved = weights[0].detach().numpy() - weight_numbers(i, h, seed=10)
        return step, [losses[0], losses[-1], values_to_check(moved)[0]]

    def static_digits(self):
        torch = self.torch
        weights, x = [torch.from_numpy(a) for a in digits_weights()], torch.from_numpy(input_numbers(1, 784, seed=1))
        function = self.compiled(lambda x, a, b, c, d: torch.addmm(d, torch.relu(torch.addmm(b, x, a)), c))
        return lambda: function(x, *weights), values_to_check(function(x, *weights))

    def recurrence(self, steps, x, w):
        h = x
        for _ in range(steps):
            h = self.torch.tanh(self.torch.addmm(x, h, w))
        return h

    def static_recurrence(self, steps, rows, width):
        w = self.torch.from_numpy(weight_numbers(width, width, seed=10))
        x = self.torch.from_numpy(input_numbers(rows, width, seed=1))
        function = self.compiled(lambda x, w: self.recurrence(steps, x, w))
        return lambda: function(x, w), values_to_check(function(x, w))

    def static_recurrence_training(self, steps, rows, width):
        torch = self.torch
        torch.set_grad_enabled(True)
        w = torch.from_numpy(weight_numbers(width, width, seed=10)).requires_grad_()
        x, y = (torch.from_numpy(input_numbers(rows, width, seed=k)) for k in (1, 2))
        loss_of = self.compiled(lambda x, y, w: torch.nn.functional.mse_loss(self.recurrence(steps, x, w), y))

        def step():
            loss = loss_of(x, y, w)
            gradient, = torch.autograd.grad(loss, [w])
            with torch.no_grad():
                w.add_(gradient, alpha=-LEARNING_RATE)
            return loss
        losses = [step().item() for _ in range(10)]
        return step, [losses[0], losses[-1]]

    def static_readers_epoch(self):
        torch, nn = self.torch, self.torch.nn
        torch.set_grad_enabled(True)
        parts = []
        for out, into, *_ in READER[:-1]:
            parts += [nn.Conv2d(into, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
            parts += [nn.MaxPool2d(2)] if into == out else []
        model = nn.Sequential(*parts, nn.Flatten(), nn.Linear(128, 10))
        with torch.no_grad():
            for w, value in zip([p for p in model.parameters() if p.dim() > 1], reader_weights()):
                w.copy_(torch.from_numpy(value))
            model[-1].bias.zero_()
        images, labels = torch.from_numpy(reader_images()), torch.from_numpy(reader_labels())
        adam = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.05)
        rates = torch.optim.lr_scheduler.CosineAnnealingLR(adam, 1000 * EPOCH)
        loss_of = self.compiled(lambda x, y: nn.functional.cross_entropy(model(x), y, label_smoothing=0.1))

        def step(i):
            loss = loss_of(images[i * BATCH:(i + 1) * BATCH], labels[i * BATCH:(i + 1) * BATCH])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1)
            adam.step()
            rates.step()
            adam.zero_grad()
            return loss

        def epoch():
            for i in range(EPOCH):
                step(i)
        return epoch, [step(i).item() for i in range(3)]

    static_compiled_epoch = static_readers_epoch

    def static_recurrent(self, name, train):
        torch = self.torch
        torch.set_grad_enabled(train)
        layer = getattr(torch.nn, name.upper())(WIDTH, WIDTH)
        with torch.no_grad():
            for p, value in zip(layer.parameters(), recurrent_weights(layer.weight_ih_l0.shape[0] // WIDTH)):
                p.copy_(torch.from_numpy(value))
        x = torch.from_numpy(input_numbers(STEPS, ROWS, WIDTH, seed=1)).requires_grad_(train)
        forward, of = self.compiled(lambda x: layer(x)[0]), [*layer.parameters(), x]

        def gradients():
            y = forward(x)
            return torch.autograd.grad(y, of, y.detach())
        return (gradients, values_to_check(gradients()[-1])) if train else (lambda: forward(x), values_to_check(forward(x)))

    def static_max_pool(self):
        return self.static_graph(lambda x: self.torch.nn.functional.max_pool2d(x, 2), (32, 16, 16, 16))

    def static_max_pool_training(self):
        self.torch.set_grad_enabled(True)
        x, seed = [self.torch.from_numpy(input_numbers(*shape, seed=k + 1)) for k, shape in
                   enumerate([(32, 16, 16, 16), (32, 16, 8, 8)])]
        x.requires_grad_()
        pool = self.compiled(lambda x: self.torch.nn.functional.max_pool2d(x, 2))
        return lambda: self.torch.autograd.grad(pool(x), x, seed), []

    def static_line(self):
        torch = self.torch
        torch.set_grad_enabled(True)
        w, b, x, y = map(torch.from_numpy, line_numbers())
        w.requires_grad_(), b.requires_grad_()
        loss_of = self.compiled(lambda: torch.nn.functional.mse_loss(torch.addmm(b, x, w), y))

        def step():
            loss = loss_of()
            gradients = torch.autograd.grad(loss, [w, b])
            with torch.no_grad():
                torch._foreach_add_([w, b], gradients, alpha=-LEARNING_RATE)
            return loss
        return step, [[step().item() for _ in range(10)][-1]]

    def randn_2_20(self): return self.torch.randn(1 << 20)
    def cumsum(self, x): return self.torch.cumsum(x, 1)
    def gather(self, x, index): return self.torch.gather(x, 1, index)
    def index_select(self, x, index): return self.torch.index_select(x, 0, index)
    def einsum(self, x, y): return self.torch.einsum("bij,bjk->bik", x, y)
    def sort(self, x): return self.torch.sort(x)
    def topk_8(self, x): return self.torch.topk(x, 8, 1)
    def group_norm(self, x, weight, bias): return self.torch.nn.functional.group_norm(x, 8, weight, bias)
    def svd(self, x): return self.torch.linalg.svd(x, full_matrices=False)
    def solve(self, x, y): return self.torch.linalg.solve(x, y)
    def cholesky(self, x): return self.torch.linalg.cholesky(x)

    def batch_norm(self, x, weight, bias):
        return self.torch.nn.functional.batch_norm(x, self.torch.zeros(64), self.torch.ones(64), weight, bias, True)

    def bilinear_x2(self, x):
        return self.torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")

    def grad_add(self, x, y):
        x.requires_grad_(), y.requires_grad_()
        return lambda: x + y

    def grad_linear_epoch(self, x, y):
        model = self.torch.nn.Linear(3, 1)
        sgd, mse = self.torch.optim.SGD(model.parameters(), 0.01), self.torch.nn.functional.mse_loss

        def epoch():
            mse(model(x), y).backward()
            sgd.step()
            sgd.zero_grad()
        return epoch

    def grad_mlp(self, x, y):
        nn = self.torch.nn
        model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))

        def call():
            nn.functional.mse_loss(model(x), y).backward()
            model.zero_grad()
        return call

    def mlp(self, x):
        if not hasattr(self, "network"):
            nn = self.torch.nn
            self.network = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
        return self.network(x)

    def grad_chain_1e5(self, x, y):
        seed = self.torch.ones_like(x)
        z, y = x.requires_grad_(), y.requires_grad_()
        for _ in range(100000):
            z = z + y
        return lambda: z.backward(seed, retain_graph=True)

    def grad_cross_entropy(self, x, target):
        x.requires_grad_()

        def call():
            self.torch.nn.functional.cross_entropy(x, target).backward()
            x.grad = None
        return call

    def grad_gelu(self, x, seed):
        x.requires_grad_()

        def call():
            self.gelu(x).backward(seed)
            x.grad = None
        return call

    def grad_embedding(self, weight, index, seed):
        rows = self.torch.nn.functional.embedding(index, weight.requires_grad_())
        return lambda: self.torch.autograd.grad(rows, weight, seed, retain_graph=True)


class TorchCompile(Torch):
    """The static cases alone, each compiled once and kept."""

    name = "torch.compile"
    SECONDS_TO_COMPILE = 60  # then the case is left out

    def __init__(self):
        super().__init__()
        self.kept = {}

    def compiled(self, function):
        return self.torch.compile(function)

    def prepare(self, op, inputs):
        if not op.startswith("static_") or op == "static_readers_epoch":
            return None
        key = (op, *inputs)
        if key not in self.kept:
            def give_up(*_): raise TimeoutError(f"torch.compile: {op} took over {self.SECONDS_TO_COMPILE} s")
            signal.signal(signal.SIGALRM, give_up)
            signal.alarm(self.SECONDS_TO_COMPILE)
            try:
                self.kept[key] = super().prepare(op, inputs)
            except Exception as error:  # of many kinds, inside the compiler
                print(f"{type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr)
                self.kept[key] = None
            signal.alarm(0)
        self.torch.set_grad_enabled(op in ("static_training", "static_recurrence_training", "static_line", "static_compiled_epoch",
                                           "static_max_pool_training") or inputs[-1:] == [True])
        return self.kept[key]

    def time_start(self): return None
    time_start_mb = time_first_result = time_start

    def time_memory(self, network, size): return None


class Jax(Framework):
    name, trains = "jax", True
    start = "import jax; jax.block_until_ready(jax.numpy.ones((2, 3)))"

    def __init__(self):
        import jax, jax.numpy as jnp

        jax.config.update("jax_platforms", "cpu")
        self.jax, self.jnp, self.version = jax, jnp, jax.__version__
        self.exp, self.tanh, self.maximum = jnp.exp, jnp.tanh, jnp.maximum
        self.sigmoid, self.relu = jax.nn.sigmoid, jax.nn.relu
        self.key = jax.random.key(0)
        self.batch_norm, self.group_norm, self.bilinear_x2 = map(jax.jit, (self.norm_batch, self.norm_groups, self.twice_as_large))

    def array(self, i):
        a = self.jnp.asarray(i.make())
        narrow = {"bf16": self.jnp.bfloat16, "f16": self.jnp.float16}
        return a.astype(narrow[i.dtype]) if i.dtype in narrow else a

    def matmul_to_i32(self, x, y): return self.jnp.matmul(x, y, preferred_element_type=self.jnp.int32)

    def wait(self, result): self.jax.block_until_ready(result)
    def gelu(self, x): return self.jax.nn.gelu(x, approximate=False)
    def randn_2_20(self): return self.jax.random.normal(self.key, (1 << 20,))
    def cumsum(self, x): return self.jnp.cumsum(x, 1)
    def gather(self, x, index): return self.jnp.take_along_axis(x, index, 1)
    def index_select(self, x, index): return self.jnp.take(x, index, 0)
    def einsum(self, x, y): return self.jnp.einsum("bij,bjk->bik", x, y)
    def sort(self, x): return self.jax.lax.sort_key_val(x, self.jnp.arange(x.size))
    def topk_8(self, x): return self.jax.lax.top_k(x, 8)
    def twice_as_large(self, x): return self.jax.image.resize(x, (*x.shape[:2], 112, 112), "bilinear")

    def normalized(self, x, axes):
        mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
        return (x - mean) * self.jax.lax.rsqrt(variance + 1e-5), mean, variance

    def norm_batch(self, x, weight, bias):
        y, mean, variance = self.normalized(x, (0, 2, 3))
        return y * weight[:, None, None] + bias[:, None, None], 0.1 * mean, 0.9 + 0.1 * variance

    def norm_groups(self, x, weight, bias):
        y = self.normalized(x.reshape(32, 8, 8, 56, 56), (2, 3, 4))[0].reshape(x.shape)
        return y * weight[:, None, None] + bias[:, None, None]

    def static_graph(self, function, *shapes):
        inputs = [self.jnp.asarray(input_numbers(*shape, seed=k + 1)) for k, shape in enumerate(shapes)]
        function = self.jax.jit(function)
        return lambda: function(*inputs), values_to_check(function(*inputs))

    def static_chain(self, *shapes):
        return self.static_graph(lambda x, y: self.tanh(x * 1.1 + y) * self.sigmoid(y) - self.relu(x) * 0.5
                                 + self.exp(-x * x), *shapes)

    def static_softmax(self, shape):
        return self.static_graph(lambda x: self.jax.nn.softmax(x, -1), shape)

    def static_layer_norm(self, *shapes):
        def norm(x, w, b):
            mean = x.mean(-1, keepdims=True)
            variance = ((x - mean) ** 2).mean(-1, keepdims=True)
            return (x - mean) * self.jax.lax.rsqrt(variance + 1e-5) * w + b
        return self.static_graph(norm, *shapes)

    def static_conv(self, *shapes):
        return self.static_graph(lambda x, w: self.jax.lax.conv_general_dilated(x, w, (1, 1), "SAME"), *shapes)

    def static_attention(self, *shapes):
        allowed = self.jnp.tril(self.jnp.ones((512, 512), bool))

        def attention(q, k, v):
            scores = self.jnp.where(allowed, q @ k.swapaxes(-1, -2) / 8, -1e30)
            return self.jax.nn.softmax(scores, -1) @ v
        return self.static_graph(attention, *shapes)

    def block(self, x, *p):
        skip = x @ p[6] if len(p) > 6 else x
        x = self.jax.nn.gelu(x @ p[0] + p[1])
        x = self.jax.nn.gelu(x @ p[2] + p[3])
        return x @ p[4] + p[5] + skip

    def block_arrays(self, batch, i, h, o):
        asarray = self.jnp.asarray
        return ([asarray(a) for a in block_weights(i, h, o)], asarray(input_numbers(batch, i, seed=1)),
                asarray(input_numbers(batch, o, seed=2)))

    def static_block(self, batch, i, h, o):
        weights, x, _ = self.block_arrays(batch, i, h, o)
        function = self.jax.jit(self.block)
        return lambda: function(x, *weights), values_to_check(function(x, *weights))

    def step_of(self, loss_of):
        """A function from parameters and data to the loss and the next parameters."""
        def step(parameters, *data):
            loss, gradients = self.jax.value_and_grad(loss_of)(parameters, *data)
            return loss, [p - LEARNING_RATE * g for p, g in zip(parameters, gradients)]
        return step

    def training_step(self, loss_of, parameters, *data):
        """A call that updates the parameters in place and returns the loss."""
        step = self.jax.jit(self.step_of(loss_of), donate_argnums=0)

        def call():
            loss, parameters[:] = step(parameters, *data)
            return loss, parameters
        return call

    def block_loss(self, p, x, y): return self.jnp.mean((self.block(x, *p) - y) ** 2)

    def static_training(self, batch, i, h, o):
        weights, x, y = self.block_arrays(batch, i, h, o)
        call = self.training_step(self.block_loss, weights, x, y)
        losses = [float(call()[0]) for _ in range(10)]
        moved = np.asarray(weights[0]) - weight_numbers(i, h, seed=10)
        return call, [losses[0], losses[-1], values_to_check(moved)[0]]

    def static_digits(self):
        weights, x = [self.jnp.asarray(a) for a in digits_weights()], self.jnp.asarray(input_numbers(1, 784, seed=1))
        function = self.jax.jit(lambda x, a, b, c, d: self.relu(x @ a + b) @ c + d)
        return lambda: function(x, *weights), values_to_check(function(x, *weights))

    def recurrence(self, steps, x, w):
        h = x
        for _ in range(steps):
            h = self.tanh(h @ w + x)
        return h

    def static_recurrence(self, steps, rows, width):
        w, x = map(self.jnp.asarray, (weight_numbers(width, width, seed=10), input_numbers(rows, width, seed=1)))
        function = self.jax.jit(lambda x, w: self.recurrence(steps, x, w))
        return lambda: function(x, w), values_to_check(function(x, w))

    def static_recurrence_training(self, steps, rows, width):
        w, x, y = map(self.jnp.asarray, (weight_numbers(width, width, seed=10), input_numbers(rows, width, seed=1),
                                         input_numbers(rows, width, seed=2)))
        call = self.training_step(lambda p, x, y: self.jnp.mean((self.recurrence(steps, x, p[0]) - y) ** 2), [w], x, y)
        losses = [float(call()[0]) for _ in range(10)]
        return call, [losses[0], losses[-1]]

    def static_compiled_epoch(self):
        """One step is jitted, and called for each batch."""
        jax, jnp = self.jax, self.jnp

        def logits(p, running, x):
            new = []
            for k in range(4):
                x = jax.lax.conv_general_dilated(x, p[3 * k], (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))
                mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
                count = x.size // x.shape[1]
                new += [0.9 * running[2 * k] + 0.1 * mean, 0.9 * running[2 * k + 1] + 0.1 * variance * count / (count - 1)]
                x = (x - mean[:, None, None]) * jax.lax.rsqrt(variance + 1e-5)[:, None, None]
                x = jax.nn.relu(x * p[3 * k + 1][:, None, None] + p[3 * k + 2][:, None, None])
                if k % 2:
                    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
            return x.reshape(x.shape[0], -1) @ p[-2].T + p[-1], new

        def loss_of(p, running, x, y):
            z, new = logits(p, running, x)
            z = jax.nn.log_softmax(z)
            return -(0.9 * jnp.take_along_axis(z, y[:, None], 1)[:, 0] + 0.1 * z.mean(1)).mean(), new

        def step(p, m, v, running, n, x, y):
            (loss, running), g = jax.value_and_grad(loss_of, has_aux=True)(p, running, x, y)
            norm = jnp.sqrt(sum((t * t).sum() for t in g))
            g = [t * jnp.minimum(1, 1 / (norm + 1e-6)) for t in g]
            rate = 3e-3 * (1 + jnp.cos(jnp.pi * n / (1000 * EPOCH))) / 2
            m = [0.9 * a + 0.1 * t for a, t in zip(m, g)]
            v = [0.999 * a + 0.001 * t * t for a, t in zip(v, g)]
            p = [w * (1 - rate * 0.05) - rate * (a / (1 - 0.9 ** (n + 1))) / (jnp.sqrt(b / (1 - 0.999 ** (n + 1))) + 1e-8)
                 for w, a, b in zip(p, m, v)]
            return loss, p, m, v, running, n + 1

        p = []
        for w in reader_weights()[:-1]:
            p += [jnp.asarray(w), jnp.ones(w.shape[0]), jnp.zeros(w.shape[0])]
        p += [jnp.asarray(reader_weights()[-1]), jnp.zeros(10)]
        running = [t(w.shape[0]) for w in reader_weights()[:-1] for t in (jnp.zeros, jnp.ones)]
        state = [p, [t * 0 for t in p], [t * 0 for t in p], running, jnp.float32(0)]
        images, labels = jnp.asarray(reader_images()), jnp.asarray(reader_labels())
        batches = [(images[i * BATCH:(i + 1) * BATCH], labels[i * BATCH:(i + 1) * BATCH]) for i in range(EPOCH)]
        step = jax.jit(step, donate_argnums=(0, 1, 2, 3, 4))

        def call(i):
            loss, *state[:] = step(*state, *batches[i])
            return loss

        def epoch():
            for i in range(EPOCH):
                call(i)
            return state
        return epoch, [float(call(i)) for i in range(3)]

    def static_recurrent(self, name, train):
        jax, jnp = self.jax, self.jnp
        gates = {"gru": 3, "lstm": 4}[name]
        weights = [jnp.asarray(w) for w in recurrent_weights(gates)]
        x = jnp.asarray(input_numbers(STEPS, ROWS, WIDTH, seed=1))

        def layer(weights, x):
            w, u, b, c = weights
            given = x @ w.T + b  # of all steps at once

            def gru(h, at):
                (r, z, n), (a, d, e) = jnp.split(at, 3, -1), jnp.split(h @ u.T + c, 3, -1)
                r, z = jax.nn.sigmoid(r + a), jax.nn.sigmoid(z + d)
                h = (1 - z) * jnp.tanh(n + r * e) + z * h
                return h, h

            def lstm(state, at):
                h, cell = state
                i, f, g, o = jnp.split(at + h @ u.T + c, 4, -1)
                cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
                h = jax.nn.sigmoid(o) * jnp.tanh(cell)
                return (h, cell), h
            zeros = jnp.zeros((ROWS, WIDTH))
            return jax.lax.scan(*((gru, zeros) if gates == 3 else (lstm, (zeros, zeros))), given)[1]

        def gradients(weights, x):
            y, pull = jax.vjp(layer, weights, x)
            return pull(y)
        function = jax.jit(gradients if train else layer)
        call = lambda: function(weights, x)
        return call, values_to_check(call()[-1] if train else call())

    def static_max_pool(self):
        lax = self.jax.lax
        return self.static_graph(lambda x: lax.reduce_window(x, -self.jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
                                 (32, 16, 16, 16))

    def line_loss(self, p, x, y): return self.jnp.mean((x @ p[0] + p[1] - y) ** 2)

    def static_line(self):
        w, b, x, y = map(self.jnp.asarray, line_numbers())
        call = self.training_step(self.line_loss, [w, b], x, y)
        return call, [[float(call()[0]) for _ in range(10)][-1]]

    def seconds_to_compile(self, function, *inputs):
        """From tracing to code, nothing cached."""
        self.jax.clear_caches()
        begin = time.perf_counter()
        self.jax.jit(function).lower(*inputs).compile()
        return time.perf_counter() - begin

    def time_compile(self, batch, i, h, o):
        weights, x, _ = self.block_arrays(batch, i, h, o)
        return statistics.median([self.seconds_to_compile(self.block, x, *weights) for _ in range(8)][1:])

    def time_unrolled(self, epochs):
        w, b, x, y = map(self.jnp.asarray, line_numbers())

        def train(w, b, x, y):
            for _ in range(epochs):
                loss, (dw, db) = self.jax.value_and_grad(self.line_loss)((w, b), x, y)
                w, b = w - LEARNING_RATE * dw, b - LEARNING_RATE * db
            return loss
        return self.seconds_to_compile(train, w, b, x, y)

    # Beside scripts under XLA, which only JAX is.
    static_jitted_block, static_jitted_training, time_jitted_unrolled = static_block, static_training, time_unrolled

    def lower(self, folder):
        """The programs of the MLP block for bench/xla.c; without donation, so that a run can be repeated."""
        os.makedirs(folder, exist_ok=True)
        for name, size in BLOCKS.items():
            weights, x, y = self.block_arrays(*size)
            block, step = self.jax.jit(self.block), self.jax.jit(self.step_of(self.block_loss))
            for kind, lowered in (("mlp", block.lower(x, *weights)), ("mlp-train", step.lower(weights, x, y))):
                with open(os.path.join(folder, f"{kind}-{name}.mlir"), "w") as file:
                    file.write(lowered.as_text())

    # Gradients are compiled, as jax trains.
    def grad_linear_epoch(self, x, y):
        def loss(w, b, x, y): return self.jnp.mean((x @ w + b - y) ** 2)

        @self.jax.jit
        def step(w, b, x, y):
            _, (dw, db) = self.jax.value_and_grad(loss, (0, 1))(w, b, x, y)
            return w - 0.01 * dw, b - 0.01 * db
        parameters = [self.jnp.zeros((3, 1)), self.jnp.zeros(1)]

        def epoch():
            parameters[:] = step(*parameters, x, y)
            return parameters
        return epoch

    def grad_mlp(self, x, y):
        weights = [self.array(Input(*shape)) / 32 for shape in [(512, 1024), (1024,), (1024, 512), (512,)]]

        def loss(weights, x, y):
            w1, b1, w2, b2 = weights
            return self.jnp.mean((self.relu(x @ w1 + b1) @ w2 + b2 - y) ** 2)
        call = self.jax.jit(self.jax.value_and_grad(loss))
        return lambda: call(weights, x, y)

    def mlp(self, x):
        if not hasattr(self, "network"):
            w1, b1, w2, b2 = [self.array(Input(*shape)) / 32 for shape in [(512, 1024), (1024,), (1024, 512), (512,)]]
            self.network = self.jax.jit(lambda x: self.relu(x @ w1 + b1) @ w2 + b2)
        return self.network(x)

    def grad_cross_entropy(self, x, target):
        def loss(x, target):
            return -self.jnp.take_along_axis(self.jax.nn.log_softmax(x), target[:, None], 1).mean()
        call = self.jax.jit(self.jax.value_and_grad(loss))
        return lambda: call(x, target)

    def grad_gelu(self, x, seed):
        @self.jax.jit
        def call(x, seed):
            y, pull = self.jax.vjp(self.gelu, x)
            return y, pull(seed)
        return lambda: call(x, seed)

    def grad_embedding(self, weight, index, seed):
        pull = self.jax.jit(self.jax.vjp(lambda weight: self.jnp.take(weight, index, 0), weight)[1])
        return lambda: pull(seed)


class Onnxruntime(Framework):
    """Each op is a model of one node; the static cases are models of several, with the weights in them."""

    name = "onnxruntime"
    start = "import numpy, onnxruntime; onnxruntime.OrtValue.ortvalue_from_numpy(numpy.ones((2, 3), numpy.float32))"
    OPERATORS = {  # op: operator, attributes
        "add": ("Add", {}), "mul": ("Mul", {}), "matmul": ("MatMul", {}), "exp": ("Exp", {}), "tanh": ("Tanh", {}),
        "sigmoid": ("Sigmoid", {}), "gelu": ("Gelu", {}), "sum": ("ReduceSum", {"keepdims": 0}),
        "gather": ("GatherElements", {"axis": 1}), "index_select": ("Gather", {"axis": 0}),
        "einsum": ("Einsum", {"equation": "bij,bjk->bik"}),
        "randn_2_20": ("RandomNormal", {"shape": [1 << 20]}),
    }

    def __init__(self, makes_models=True):
        import onnxruntime

        self.ort, self.version = onnxruntime, onnxruntime.__version__
        if makes_models:
            import onnx

            self.onnx = onnx

    def session(self, model):
        """Of a model or the path of one."""
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = CORES
        return self.ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def model(self, nodes, inputs, weights):
        """Nodes are (operator, inputs, output, attributes); the last one's output is "y". Weights are in the model."""
        helper, f32 = self.onnx.helper, self.onnx.TensorProto.FLOAT
        graph = helper.make_graph([helper.make_node(op, i, [o], **a) for op, i, o, a in nodes], "graph",
                                  [helper.make_tensor_value_info(n, f32, a.shape) for n, a in inputs.items()],
                                  [helper.make_tensor_value_info("y", f32, None)],
                                  [self.onnx.numpy_helper.from_array(a, n) for n, a in weights.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()

    def static_model(self, nodes, inputs, weights={}):
        session = self.session(self.model(nodes, inputs, weights))
        call = lambda: session.run(None, inputs)
        return call, values_to_check(call()[0])

    def static_softmax(self, shape):
        return self.static_model([("Softmax", ["x"], "y", {"axis": -1})], {"x": input_numbers(*shape, seed=1)})

    def static_layer_norm(self, *shapes):
        x, w, b = [input_numbers(*shape, seed=k + 1) for k, shape in enumerate(shapes)]
        return self.static_model([("LayerNormalization", ["x", "w", "b"], "y", {"axis": -1})], {"x": x}, {"w": w, "b": b})

    def static_conv(self, *shapes):
        x, w = [input_numbers(*shape, seed=k + 1) for k, shape in enumerate(shapes)]
        return self.static_model([("Conv", ["x", "w"], "y", {"pads": [1, 1, 1, 1]})], {"x": x}, {"w": w})

    def static_digits(self):
        nodes = [("Gemm", ["x", "a", "b"], "h", {}), ("Relu", ["h"], "r", {}), ("Gemm", ["r", "c", "d"], "y", {})]
        return self.static_model(nodes, {"x": input_numbers(1, 784, seed=1)}, dict(zip("abcd", digits_weights())))

    def static_recurrence(self, steps, rows, width):
        nodes, h = [], "x"
        for k in range(steps):
            nodes += [("Gemm", [h, "w", "x"], f"a{k}", {}), ("Tanh", [f"a{k}"], "y" if k == steps - 1 else f"h{k}", {})]
            h = f"h{k}"
        return self.static_model(nodes, {"x": input_numbers(rows, width, seed=1)}, {"w": weight_numbers(width, width, seed=10)})

    def block_parts(self, batch, i, h, o):
        weights = {f"p{k}": a for k, a in enumerate(block_weights(i, h, o))}
        tanh = {"approximate": "tanh"}
        nodes = [("Gemm", ["x", "p0", "p1"], "a", {}), ("Gelu", ["a"], "b", tanh), ("Gemm", ["b", "p2", "p3"], "c", {}),
                 ("Gelu", ["c"], "d", tanh), ("Gemm", ["d", "p4", "p5"], "e", {})]
        if "p6" in weights:
            nodes.append(("MatMul", ["x", "p6"], "skip", {}))
        return [*nodes, ("Add", ["e", "skip" if "p6" in weights else "x"], "y", {})], self.block_input(batch, i), weights

    def block_input(self, batch, i): return {"x": input_numbers(batch, i, seed=1)}
    def static_block(self, *size): return self.static_model(*self.block_parts(*size))

    def time_compile(self, *size):
        """A session of a model in memory."""
        model, samples = self.model(*self.block_parts(*size)), []
        for _ in range(8):
            begin = time.perf_counter()
            self.session(model)
            samples.append(time.perf_counter() - begin)
        return statistics.median(samples[1:])

    @contextlib.contextmanager
    def block_model(self, *size):
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            file.write(self.model(*self.block_parts(*size)))
            file.flush()
            yield file.name

    def run_block(self, network, size, model):
        session = self.session(model)
        for _ in range(10):
            session.run(None, self.block_input(*size[:2]))

    def prepare(self, op, inputs):
        if op.startswith("static_"):
            return super().prepare(op, inputs)
        if op not in self.OPERATORS or any(i.dtype in ("bf16", "f16", "i8") for i in inputs):
            return None
        operator, attributes = self.OPERATORS[op]
        helper, f32, i64 = self.onnx.helper, self.onnx.TensorProto.FLOAT, self.onnx.TensorProto.INT64
        names = [f"x{k}" for k in range(len(inputs))]
        values = [helper.make_tensor_value_info(n, i64 if i.dtype == "i64" else f32, i.shape) for n, i in zip(names, inputs)]
        graph = helper.make_graph([helper.make_node(operator, names, ["y"], **attributes)], op, values,
                                  [helper.make_tensor_value_info("y", f32, None)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        session = self.session(model.SerializeToString())
        feed = {n: i.make() for n, i in zip(names, inputs)}
        return lambda: session.run(None, feed)


FRAMEWORKS = {f.name: f for f in (Numpy, Torch, TorchCompile, Jax, Onnxruntime)}


# ---- measuring -------------------------------------------------------------------------------------------------------
def median_seconds(call, wait, wait_each):
    """As bench/harness.h: once unmeasured, then samples of 2 ms or one call, and their median. Python's loop is part of
    the figure, as it is of every use. A framework that only queues its work is waited for after each call; after each
    sample in cases whose cost is the call itself."""

    def sample(repeat):
        begin = time.perf_counter()
        for _ in range(repeat):
            result = call()
            if wait_each:
                wait(result)
        wait(result)
        return time.perf_counter() - begin

    sample(1)
    repeat = 1
    while sample(repeat) < 2e-3:
        repeat *= 2
    samples = []
    while sum(samples) < SECONDS or len(samples) < 7:
        samples.append(sample(repeat))
    return statistics.median(samples) / repeat


def median_launch_seconds(command):
    """From launch to end; the first fills the file cache."""
    samples = []
    for _ in range(4):
        begin = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        samples.append(time.perf_counter() - begin)
    return statistics.median(samples[1:])


def run_python(*arguments):
    """The last word that such a Python prints."""
    return subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1]


def measure(framework, name):
    """The result of a case, or {} when the framework lacks its op."""
    unit, op, *inputs = CASES.get(name, (None, None))
    if op is None:
        return {}
    scale, check = {"ns": 1e9, "us": 1e6, "ms": 1e3, "MB": 1}[unit], []
    if op.startswith("time_"):
        function = getattr(framework, op, None)
        value = function(*inputs) if function else None
    else:
        call = framework.prepare(op, inputs)
        if isinstance(call, tuple):
            call, check = call
        value = None if call is None else median_seconds(call, framework.wait, unit != "ns")
    return {} if value is None else {"case": name, "unit": unit, "value": value * scale, "check": check}


def run_process(framework_class, network, size, model):
    """The MLP block in this process, and the most memory that it held."""
    framework = framework_class(makes_models=False) if framework_class is Onnxruntime else framework_class()
    framework.run_block(network, BLOCKS[size], model)
    with open("/proc/self/status") as status:
        print(*[int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM")])


def avoid_broken_amx():
    """Some virtual machines name AMX among what they can do, and PyTorch dies of believing it."""
    product = "import torch; x = torch.ones(512, 512, dtype=torch.bfloat16); x @ x"
    if subprocess.run([sys.executable, "-c", product], stderr=subprocess.DEVNULL).returncode < 0:
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_FP16"


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in FRAMEWORKS:
        sys.exit(f"usage: peers.py {'|'.join(FRAMEWORKS)} [PATTERN | --serve | --process infer|train SIZE MODEL]")
    if sys.argv[2:3] == ["--process"]:
        return run_process(FRAMEWORKS[sys.argv[1]], *sys.argv[3:6])
    if issubclass(FRAMEWORKS[sys.argv[1]], Torch):
        avoid_broken_amx()
    framework = FRAMEWORKS[sys.argv[1]]()
    if sys.argv[2:3] == ["--lower"]:
        return framework.lower(sys.argv[3])
    if sys.argv[2:] == ["--serve"]:
        print(json.dumps({"ready": sys.argv[1], "version": framework.version}), flush=True)
        for line in sys.stdin:
            print(json.dumps(measure(framework, line.strip())), flush=True)
        return
    pattern = "*" + "".join(sys.argv[2:]) + "*"
    for name in CASES:
        result = measure(framework, name) if fnmatch.fnmatchcase(name, pattern) else {}
        if result:
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
