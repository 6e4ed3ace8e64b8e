#!/usr/bin/env python3
"""The cases of bench/cuda.c in PyTorch and JAX on the same GPU, one framework in a process.

    cuda_peers.py torch|jax [--small] [--device cuda|cpu] [CASE ...]

A line of output for every side of a case: {"case", "peer", "value", "unit", "check"}. A side that fails is a line on stderr, and
the others go on. The sides of PyTorch: `torch` is eager; `compile` is torch.compile; `graph` is a CUDA graph of cuBLASLt's
products with bias and gelu in their epilogues; `cublas` is torch.matmul into a result that is there; `benchmark` is a
convolution with cudnn.benchmark. Of JAX: `jax` is a jitted function at its default precision, which is TF32 for f32, and
`highest` one at the highest. PyTorch's TF32 is off but where a case is named so. The CPU is there for trying this out.
"""
import argparse, json, os, statistics, sys, time, traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peers import block_weights, input_numbers  # noqa: E402

SECONDS = 0.3  # to measure, for a side of a case
BLOCKS = {"32x256x512x256": (32, 256, 512, 256), "64x512x1024x512": (64, 512, 1024, 512),
          "128x768x2048x1024": (128, 768, 2048, 1024)}
TINY = (8, 32, 64, 32)
SIDES = {}  # (framework, case) -> [(side, function)]; a function takes the framework and returns (value, unit, check)


def side(framework, name, *cases):
    """Says that a function, given the framework and what is behind the case's name here, measures these cases."""
    def note(function):
        for case, *more in cases:
            SIDES.setdefault((framework, case), []).append((name, lambda f, more=tuple(more): function(f, *more)))
        return function
    return note


def block_cases(prefix, *more):
    return [(f"cuda/{prefix}-{name}", shape, *more) for name, shape in BLOCKS.items()]


def values(y):
    """What compare.h takes of a result, a numpy array of f32."""
    flat = y.reshape(-1).astype("f8")
    return [float((flat**2).mean()**0.5), float(flat[0]), float(flat[len(flat) // 3]), float(flat[-1])]


class Framework:
    """Its sizes and its clock; `call` is given to be called, `wait` ends when the device is done."""

    def sized(self, size, small): return small if self.small else size

    def sized_block(self, shape):
        return (4, *(n // 16 for n in shape[1:])) if self.small else shape

    def run_and_wait(self, call):
        """Microseconds: the median of runs, each waited for."""
        for _ in range(10):
            call()
            self.wait()
        samples, end = [], time.perf_counter() + SECONDS
        while len(samples) < 20 or time.perf_counter() < end:
            begin = time.perf_counter()
            call()
            self.wait()
            samples.append(time.perf_counter() - begin)
        return statistics.median(samples) * 1e6

    def batch(self, call, count, leave_waiting=False):
        self.wait()
        begin = time.perf_counter()
        for _ in range(count):
            call()
        if not leave_waiting:
            self.wait()
        seconds = time.perf_counter() - begin
        self.wait()
        return seconds

    def back_to_back(self, call, leave_waiting=False, batch=None):
        """Seconds of a call: the median of batches of 20 ms with one wait, or of 500 calls whose wait is not timed."""
        batch, count = batch or self.batch, 2
        batch(call, count)
        while count < (500 if leave_waiting else 100000) and batch(call, count) < 20e-3:
            count *= 2
        if leave_waiting:
            return statistics.median(batch(call, 500, True) for _ in range(15)) / 500
        samples, end = [], time.perf_counter() + SECONDS
        while len(samples) < 7 or time.perf_counter() < end:
            samples.append(batch(call, count))
        return statistics.median(samples) / count


# ---- PyTorch ---------------------------------------------------------------------------------------------------------
class Torch(Framework):
    def __init__(self, small, device):
        import torch
        self.torch, self.F, self.small, self.device = torch, torch.nn.functional, small, device
        torch.manual_seed(1)

    def wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def by_events(self, call, count):
        """Seconds of a batch by the GPU's own clock."""
        if self.device != "cuda":
            return self.batch(call, count)
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def seconds(self, call): return self.back_to_back(call, batch=self.by_events)

    def random(self, *shape, dtype=None):
        return self.torch.randn(*shape, device=self.device).to(dtype or self.torch.float32)

    def there(self, array, dtype=None):
        return self.torch.from_numpy(array).to(self.device).to(dtype or self.torch.float32)

    def precision(self, tf32=False):
        self.torch.backends.cuda.matmul.allow_tf32 = tf32
        self.torch.backends.cudnn.allow_tf32 = tf32

    def dtype_of(self, word): return self.torch.bfloat16 if word == "bf16" else self.torch.float32

    def block_data(self, shape, dtype=None):
        batch, i, h, o = self.sized_block(shape)
        return [self.there(w, dtype) for w in block_weights(i, h, o)], self.there(input_numbers(batch, i, seed=1), dtype)

    def block(self, x, w):
        h = self.F.gelu(self.torch.addmm(w[1], x, w[0]), approximate="tanh")
        h = self.F.gelu(self.torch.addmm(w[3], h, w[2]), approximate="tanh")
        return self.torch.addmm(w[5], h, w[4]) + (x @ w[6] if len(w) > 6 else x)

    def fused_block(self, x, w):
        """Products with all that their epilogues can take."""
        h = self.torch._addmm_activation(w[1], x, w[0], use_gelu=True)
        h = self.torch._addmm_activation(w[3], h, w[2], use_gelu=True)
        if len(w) > 6:
            return self.torch.addmm(self.torch.addmm(w[5], x, w[6]), h, w[4])
        return self.torch.addmm(w[5], h, w[4]).add_(x)

    def recorded(self, call):
        """The call as a CUDA graph, and what the call gave when it was recorded."""
        torch = self.torch
        if self.device != "cuda":
            return call, call()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                call()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = call()
        return graph.replay, result


PRECISIONS = [(f"mlp-{word}", word) for word in ("f32", "bf16", "tf32")]
MLP = [case for prefix, word in PRECISIONS for case in block_cases(prefix, word)]


def mlp_in_torch(t, shape, word, recorded):
    t.precision(tf32=word == "tf32")
    with t.torch.no_grad():
        w, x = t.block_data(shape, t.dtype_of(word))
        call, y = t.recorded(lambda: t.fused_block(x, w)) if recorded else (lambda: t.block(x, w), t.block(x, w))
        call()
        t.wait()
        return t.run_and_wait(call), "us", values(y.float().cpu().numpy())


@side("torch", "torch", *MLP)
def _(t, shape, word): return mlp_in_torch(t, shape, word, False)


@side("torch", "graph", *MLP)
def _(t, shape, word): return mlp_in_torch(t, shape, word, True)


def train_in_torch(t, shape, recorded):
    t.precision()
    torch = t.torch
    batch, _, _, o = t.sized_block(shape)
    w, x = t.block_data(shape)
    y = t.there(input_numbers(batch, o, seed=2))
    for p in w:
        p.requires_grad_()
    adam = torch.optim.Adam(w, lr=1e-3, fused=True, capturable=t.device == "cuda")

    def step():
        adam.zero_grad(set_to_none=not recorded)
        loss = t.F.mse_loss(t.block(x, w), y)
        loss.backward()
        adam.step()
        return loss

    if not recorded:
        losses = [float(step()) for _ in range(10)]
        return t.run_and_wait(step), "us", [losses[0], losses[-1]]
    call, _ = t.recorded(step)
    return t.run_and_wait(call), "us", []


@side("torch", "torch", *block_cases("mlp-train"))
def _(t, shape): return train_in_torch(t, shape, False)


@side("torch", "graph", *block_cases("mlp-train"))
def _(t, shape): return train_in_torch(t, shape, True)


def rate_of_rows(t, make, compiled):
    """GB/s of one read and one write, and what else `make` says."""
    with t.torch.no_grad():
        function, inputs, gigabytes = make(t)
        if compiled:
            function = t.torch.compile(function)
        return gigabytes / t.seconds(lambda: function(*inputs)), "GB/s", []


def chain(t):
    torch, n = t.torch, t.sized(1 << 28, 1 << 14)
    function = lambda x, y: (torch.tanh(x * 1.1 + y) * torch.sigmoid(y) - torch.relu(x) * 0.5 + torch.exp(-x * x))
    return function, [t.random(n), t.random(n)], 12e-9 * n


def rows(t):
    return t.random(t.sized(16384, 64), t.sized(4096, 256))


def softmax(t):
    x = rows(t)
    return lambda x: t.torch.softmax(x, -1), [x], 8e-9 * x.numel()


def layer_norm(t):
    x = rows(t)
    width = x.shape[-1]
    norm = lambda x, w, b: t.F.layer_norm(x, (width,), w, b, 1e-5)
    return norm, [x, t.random(width), t.random(width)], 8e-9 * x.numel()


RATES = [("cuda/chain-2^28", chain), ("cuda/softmax-16384x4096", softmax), ("cuda/layer-norm-16384x4096", layer_norm)]


@side("torch", "torch", *RATES)
def _(t, make): return rate_of_rows(t, make, False)


@side("torch", "compile", *RATES)
def _(t, make): return rate_of_rows(t, make, True)


@side("torch", "cublas", *[(f"cuda/matmul-{n}-{word}", n, word) for n in (4096, 8192) for word in ("bf16", "f32")])
def _(t, n, word):
    t.precision()
    n = t.sized(n, n // 32)
    with t.torch.no_grad():
        a, b, c = (t.random(n, n, dtype=t.dtype_of(word)) for _ in range(3))
        return 2e-12 * n**3 / t.seconds(lambda: t.torch.matmul(a, b, out=c)), "TFLOP/s", []


CONVS = [(f"cuda/conv-32x64x56x56-{word}", word) for word in ("f32", "bf16")]


def conv_in_torch(t, word, benchmark):
    t.precision()
    t.torch.backends.cudnn.benchmark = benchmark
    count, channels, wide = t.sized(32, 1), t.sized(64, 8), t.sized(56, 14)
    with t.torch.no_grad():
        w = t.random(channels, channels, 3, 3, dtype=t.dtype_of(word))
        images, turn = [t.random(count, channels, wide, wide, dtype=t.dtype_of(word)) for _ in range(4)], [0]

        def call():  # in turns, so that none waits in a cache
            turn[0] += 1
            return t.F.conv2d(images[turn[0] % 4], w, padding=1)

        try:
            return t.back_to_back(call) * 1e6, "us", []
        finally:
            t.torch.backends.cudnn.benchmark = False


@side("torch", "torch", *CONVS)
def _(t, word): return conv_in_torch(t, word, False)


@side("torch", "benchmark", *CONVS)
def _(t, word): return conv_in_torch(t, word, True)


@side("torch", "torch", ("cuda/eager-add-2x3", False), ("cuda/eager-add-2x3-host", True))
def _(t, host_alone):
    x, y = t.random(2, 3), t.random(2, 3)
    return t.back_to_back(lambda: t.torch.add(x, y), leave_waiting=host_alone) * 1e6, "us", []


def tiny(t):
    batch, i, h, o = TINY
    return ([t.there(w) for w in block_weights(i, h, o)], t.there(input_numbers(batch, i, seed=1)),
            t.there(input_numbers(batch, o, seed=2)))


@side("torch", "torch", ("cuda/eager-mlp",))
def _(t):
    t.precision()
    w, x, _ = tiny(t)
    with t.torch.no_grad():
        return t.back_to_back(lambda: t.block(x, w)) * 1e6, "us", []


@side("torch", "torch", ("cuda/eager-mlp-train",))
def _(t):
    t.precision()
    w, x, y = tiny(t)
    for p in w:
        p.requires_grad_()
    sgd = t.torch.optim.SGD(w, lr=1e-3)

    def step():
        t.F.mse_loss(t.block(x, w), y).backward()
        sgd.step()
        sgd.zero_grad()

    return t.back_to_back(step) * 1e6, "us", []


# ---- JAX -------------------------------------------------------------------------------------------------------------
class Jax(Framework):
    def __init__(self, small, device):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        os.environ.setdefault("JAX_PLATFORMS", device)
        import jax
        self.jax, self.jnp, self.small, self.last = jax, jax.numpy, small, None

    def wait(self):
        self.jax.block_until_ready(self.last)

    def block(self, x, w):
        gelu = lambda v: self.jax.nn.gelu(v, approximate=True)
        h = gelu(gelu(x @ w[0] + w[1]) @ w[2] + w[3])
        return h @ w[4] + w[5] + (x @ w[6] if len(w) > 6 else x)

    def data(self, shape, word):
        batch, i, h, o = self.sized_block(shape)
        dtype = self.jnp.bfloat16 if word == "bf16" else self.jnp.float32
        put = lambda a: self.jax.device_put(self.jnp.asarray(a, dtype))
        return [put(w) for w in block_weights(i, h, o)], put(input_numbers(batch, i, seed=1))


def mlp_in_jax(j, shape, word, precision):
    w, x = j.data(shape, word)
    with j.jax.default_matmul_precision(precision):
        function = j.jax.jit(j.block).lower(x, w).compile()

    def call():
        j.last = function(x, w)

    call()
    import numpy
    return j.run_and_wait(call), "us", values(numpy.asarray(j.last.astype("float32")))


@side("jax", "jax", *block_cases("mlp-tf32", "f32"), *block_cases("mlp-bf16", "bf16"))
def _(j, shape, word): return mlp_in_jax(j, shape, word, "default")


@side("jax", "jax", *block_cases("mlp-train"))
def _(j, shape):
    jax, jnp = j.jax, j.jnp
    batch, _, _, o = j.sized_block(shape)
    w, x = j.data(shape, "f32")
    y = jax.device_put(jnp.asarray(input_numbers(batch, o, seed=2)))
    loss_of = lambda w: ((j.block(x, w) - y)**2).mean()

    def step(state):
        w, m, v, k = state
        loss, g = jax.value_and_grad(loss_of)(w)
        k = k + 1
        m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
        v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g)]
        moved = lambda p, a, b: p - 1e-3 * (a / (1 - 0.9**k)) / (jnp.sqrt(b / (1 - 0.999**k)) + 1e-8)
        return ([moved(*parts) for parts in zip(w, m, v)], m, v, k), loss

    state = (w, [jnp.zeros_like(a) for a in w], [jnp.zeros_like(a) for a in w], jnp.zeros(()))
    function, kept = jax.jit(step, donate_argnums=0), [state]

    def call():
        kept[0], j.last = function(kept[0])
        return j.last

    losses = [float(call()) for _ in range(10)]
    return j.run_and_wait(call), "us", [losses[0], losses[-1]]


@side("jax", "highest", *block_cases("mlp-f32", "f32"))  # the last, as they compile long
def _(j, shape, word): return mlp_in_jax(j, shape, word, "highest")


def main():
    parser = argparse.ArgumentParser(description="The cases of bench/cuda.c in another framework.")
    parser.add_argument("framework", choices=("torch", "jax"))
    parser.add_argument("cases", nargs="*", help="names of cases; all without")
    parser.add_argument("--small", action="store_true", help="sizes for trying this out")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options = parser.parse_intermixed_args()
    mine = [(case, sides) for (who, case), sides in SIDES.items() if who == options.framework]
    framework = {"torch": Torch, "jax": Jax}[options.framework](options.small, options.device)
    # What compiles long comes last: it may be cut off.
    todo = [(case, *s) for case, sides in mine if not options.cases or case in options.cases for s in sides]
    for case, name, function in sorted(todo, key=lambda item: item[1] in ("compile", "highest")):
        try:
            value, unit, check = function(framework)
            print(json.dumps({"case": case, "peer": name, "value": value, "unit": unit, "check": check}), flush=True)
        except Exception as error:  # the others go on
            traceback.print_exc(limit=-1, file=sys.stderr)
            print(f"{case} is left out for {name}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
