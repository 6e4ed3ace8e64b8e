#!/usr/bin/env python3
"""The cases of bench_eager, bench_grad and bench_process in another framework, one framework in a process.

    peers.py numpy|torch|jax|onnxruntime [PATTERN]    measures the matching cases, one JSON line each
    peers.py WHO --serve                              measures the case that each line of stdin names ({} when WHO
                                                      lacks it); scripts/bench drives it this way

A line of output is {"case", "unit", "value"}. Frameworks that let one choose use every core this process may run on.

To add a case, add a row to CASES: its name (as in bench/*.c), unit, op, and what the op takes. To add an op, add a
method to each framework below that has one: the call to time, or, when its name begins with "grad_", a function that
prepares (makes parameters, compiles) and returns the call.
"""
import fnmatch, json, os, statistics, subprocess, sys, time

import numpy as np

CORES = len(os.sched_getaffinity(0))
SECONDS = float(os.environ.get("BENCH_SECONDS", "0.3"))  # to measure at least, for a case
RANDOM = np.random.default_rng(0)


# ---- what ops take ---------------------------------------------------------------------------------------------------
class Input:
    """An array to make: f32 normal numbers, the same rounded to bf16, or i64 below a bound."""

    def __init__(self, *shape, dtype="f32", below=None):
        self.shape, self.dtype, self.below = shape, dtype, below

    def make(self):
        if self.dtype == "i64":
            return RANDOM.integers(0, self.below, self.shape)
        return RANDOM.standard_normal(self.shape, dtype=np.float32)


def bf16(*shape):
    return Input(*shape, dtype="bf16")


def indices(*shape, below):
    return Input(*shape, dtype="i64", below=below)


TINY, MEDIUM, LARGE = Input(2, 3), Input(1 << 20), Input(1 << 24)
SQUARE = Input(4096, 4096)

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
    "eager/matmul-64": ("us", "matmul", Input(64, 64), Input(64, 64)),
    "eager/matmul-512": ("us", "matmul", Input(512, 512), Input(512, 512)),
    "eager/matmul-1024": ("us", "matmul", Input(1024, 1024), Input(1024, 1024)),
    "eager/randn-2^20": ("us", "randn_2_20"),
    "eager/gather-4096x1024": ("us", "gather", Input(4096, 1024), indices(4096, 1024, below=1024)),
    "eager/index-select-65536x64": ("us", "index_select", Input(65536, 64), indices(16384, below=65536)),
    "grad/add-2x3-taped": ("ns", "grad_add", TINY, TINY),
    "grad/linear-3x1-epoch": ("us", "grad_linear_epoch", Input(100, 3), Input(100, 1)),
    "grad/mlp-64x512x1024x512": ("us", "grad_mlp", Input(64, 512), Input(64, 512)),
    "grad/backward-chain-1e5": ("us", "grad_chain_1e5", TINY, TINY),
    "grad/softmax-cross-entropy-64x1000": ("us", "grad_cross_entropy", Input(64, 1000), indices(64, below=1000)),
    "grad/gelu-2^20": ("us", "grad_gelu", MEDIUM, MEDIUM),
    "script/linear-3x1-step": ("us", "grad_linear_epoch", Input(100, 3), Input(100, 1)),
    "script/mlp-64x512x1024x512": ("us", "mlp", Input(64, 512)),
    "process/start-ms": ("ms", "start_ms"),
    "process/start-mb": ("MB", "start_mb"),
}


# ---- the frameworks --------------------------------------------------------------------------------------------------
class Framework:
    """Ops that Python's operators spell alike everywhere. `prepare` gives the call to time, or None without the op."""

    def prepare(self, op, inputs):
        function = getattr(self, op, None)
        arrays = [self.array(i) for i in inputs]
        if function is None or any(a is None for a in arrays):
            return None
        return function(*arrays) if op.startswith("grad_") else lambda: function(*arrays)

    def wait(self, result):
        """Returns when the result is there; for frameworks that only queue the work."""

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
    start = "import numpy; numpy.ones((2, 3), numpy.float32)"
    version = np.__version__
    exp, tanh, maximum = staticmethod(np.exp), staticmethod(np.tanh), staticmethod(np.maximum)

    def array(self, i): return None if i.dtype == "bf16" else i.make()
    def relu(self, x): return np.maximum(x, 0)
    def sigmoid(self, x): return 1 / (1 + np.exp(-x))
    def randn_2_20(self): return RANDOM.standard_normal(1 << 20, dtype=np.float32)
    def gather(self, x, index): return np.take_along_axis(x, index, 1)
    def index_select(self, x, index): return np.take(x, index, 0)


class Torch(Framework):
    start = "import torch; torch.ones(2, 3)"

    def __init__(self):
        import torch

        torch.set_num_threads(CORES)
        self.torch, self.version = torch, torch.__version__
        self.exp, self.tanh, self.sigmoid, self.relu = torch.exp, torch.tanh, torch.sigmoid, torch.relu
        self.maximum, self.gelu = torch.maximum, torch.nn.functional.gelu

    def array(self, i):
        a = self.torch.from_numpy(i.make())
        return a.bfloat16() if i.dtype == "bf16" else a

    def prepare(self, op, inputs):
        self.torch.set_grad_enabled(op.startswith("grad_"))
        return super().prepare(op, inputs)

    def randn_2_20(self): return self.torch.randn(1 << 20)
    def gather(self, x, index): return self.torch.gather(x, 1, index)
    def index_select(self, x, index): return self.torch.index_select(x, 0, index)

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


class Jax(Framework):
    start = "import jax; jax.block_until_ready(jax.numpy.ones((2, 3)))"

    def __init__(self):
        import jax, jax.numpy as jnp

        jax.config.update("jax_platforms", "cpu")
        self.jax, self.jnp, self.version = jax, jnp, jax.__version__
        self.exp, self.tanh, self.maximum = jnp.exp, jnp.tanh, jnp.maximum
        self.sigmoid, self.relu = jax.nn.sigmoid, jax.nn.relu
        self.key = jax.random.key(0)

    def array(self, i):
        a = self.jnp.asarray(i.make())
        return a.astype(self.jnp.bfloat16) if i.dtype == "bf16" else a

    def wait(self, result): self.jax.block_until_ready(result)
    def gelu(self, x): return self.jax.nn.gelu(x, approximate=False)
    def randn_2_20(self): return self.jax.random.normal(self.key, (1 << 20,))
    def gather(self, x, index): return self.jnp.take_along_axis(x, index, 1)
    def index_select(self, x, index): return self.jnp.take(x, index, 0)

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


class Onnxruntime(Framework):
    """Each op is a model of one node."""

    start = "import numpy, onnxruntime; onnxruntime.OrtValue.ortvalue_from_numpy(numpy.ones((2, 3), numpy.float32))"
    OPERATORS = {  # op: operator, attributes
        "add": ("Add", {}), "mul": ("Mul", {}), "matmul": ("MatMul", {}), "exp": ("Exp", {}), "tanh": ("Tanh", {}),
        "sigmoid": ("Sigmoid", {}), "gelu": ("Gelu", {}), "sum": ("ReduceSum", {"keepdims": 0}),
        "gather": ("GatherElements", {"axis": 1}), "index_select": ("Gather", {"axis": 0}),
        "randn_2_20": ("RandomNormal", {"shape": [1 << 20]}),
    }

    def __init__(self):
        import onnx, onnxruntime

        self.onnx, self.ort, self.version = onnx, onnxruntime, onnxruntime.__version__

    def prepare(self, op, inputs):
        if op not in self.OPERATORS or any(i.dtype == "bf16" for i in inputs):
            return None
        operator, attributes = self.OPERATORS[op]
        helper, f32, i64 = self.onnx.helper, self.onnx.TensorProto.FLOAT, self.onnx.TensorProto.INT64
        names = [f"x{k}" for k in range(len(inputs))]
        values = [helper.make_tensor_value_info(n, i64 if i.dtype == "i64" else f32, i.shape) for n, i in zip(names, inputs)]
        graph = helper.make_graph([helper.make_node(operator, names, ["y"], **attributes)], op, values,
                                  [helper.make_tensor_value_info("y", f32, None)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = CORES
        session = self.ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        feed = {n: i.make() for n, i in zip(names, inputs)}
        return lambda: session.run(None, feed)


FRAMEWORKS = {"numpy": Numpy, "torch": Torch, "jax": Jax, "onnxruntime": Onnxruntime}


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


def start_ms(framework):
    """A Python that imports the framework and makes one tensor, from its launch to its end."""
    samples = []
    for _ in range(3):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", framework.start], check=True)
        samples.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(samples[1:])


def start_mb(framework):
    """The most memory such a process held."""
    own_status = "; print(*[l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')])"
    out = subprocess.run([sys.executable, "-c", framework.start + own_status], check=True, stdout=subprocess.PIPE, text=True)
    return int(out.stdout.split()[-1]) / 1024


def measure(framework, name):
    """The result of a case, or {} when the framework lacks its op."""
    unit, op, *inputs = CASES.get(name, (None, None))
    if op is None:
        return {}
    if op in ("start_ms", "start_mb"):
        value = {"start_ms": start_ms, "start_mb": start_mb}[op](framework)
    else:
        call = framework.prepare(op, inputs)
        if call is None:
            return {}
        value = median_seconds(call, framework.wait, unit != "ns") * {"ns": 1e9, "us": 1e6, "ms": 1e3}[unit]
    return {"case": name, "unit": unit, "value": value}


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in FRAMEWORKS:
        sys.exit(f"usage: peers.py {'|'.join(FRAMEWORKS)} [PATTERN | --serve]")
    framework = FRAMEWORKS[sys.argv[1]]()
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
