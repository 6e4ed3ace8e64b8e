#!/usr/bin/env python3
"""The MLP block under XLA on CUDA beside JAX's, in one run: what compiling takes, and a run.

    python3 bench/xla_cuda.py build/release/bench/bench_xla_cuda

needs a GPU of NVIDIA's, the binary, and a Python with jax and its plugin for CUDA, which hodu then uses too. It takes
two to three minutes; --cpu shows in as many that it works where there is no GPU. Each lane is a process of its own, so that nothing is compiled or tuned for it already, and hodu is
measured before and after JAX. Lanes:

    hodu               as hodu compiles
    hodu, no triton    with xla_gpu_enable_triton_gemm=false also where hodu leaves XLA's default
    jax                jit as it is, with precision "highest" for f32 that is exact
    jax, as hodu       with xla_allow_excess_precision=false, and without Triton's products where they are exact
    jax, no triton     with xla_gpu_enable_triton_gemm=false for all
"""
import importlib.util, os, statistics, subprocess, sys, time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
SIZES = {"small": (32, 256, 512, 256), "middle": (64, 512, 1024, 512), "large": (128, 768, 2048, 1024)}
PRECISIONS = ["exact", "tf32", "bf16"]
SAMPLES = 25  # as bench/xla_cuda.c, and in each of them so many runs on a GPU
NO_TRITON, NO_EXCESS = {"xla_gpu_enable_triton_gemm": False}, {"xla_allow_excess_precision": False}
LANES = {  # what each precision is compiled with
    "jax": lambda precision: {},
    "jax, as hodu": lambda precision: NO_EXCESS | (NO_TRITON if precision == "exact" else {}),
    "jax, no triton": lambda precision: NO_TRITON,
}
SECONDS = 170  # for a lane


def run_lane(name, platform):
    """Prints a line for each net, as bench_xla_cuda does."""
    import jax, jax.numpy as jnp
    import numpy as np
    from peers import block_weights, input_numbers

    jax.config.update("jax_platforms", platform)
    warm = runs = 1 if platform == "cpu" else 20

    def block(x, *p):
        skip = x @ p[6] if len(p) > 6 else x
        x = jax.nn.gelu(x @ p[0] + p[1])
        x = jax.nn.gelu(x @ p[2] + p[3])
        return x @ p[4] + p[5] + skip

    for precision in PRECISIONS:
        dtype = jnp.bfloat16 if precision == "bf16" else jnp.float32
        for net, (batch, i, h, o) in SIZES.items():
            weights, x = [w.astype(np.float64) for w in block_weights(i, h, o)], input_numbers(batch, i, seed=1)
            expected = reference(np, x.astype(np.float64), *weights)
            arguments = [jnp.asarray(a, dtype) for a in (x, *weights)]
            jax.block_until_ready(arguments)
            with jax.default_matmul_precision("highest" if precision == "exact" else "default"):
                lowered = jax.jit(block).lower(*arguments)
            begin = time.perf_counter()
            program = lowered.compile(compiler_options=LANES[name](precision))
            compiled = time.perf_counter() - begin
            samples = []
            for k in range(-warm, SAMPLES):
                begin = time.perf_counter()
                for _ in range(runs):
                    y = program(*arguments)
                    y.block_until_ready()
                if k >= 0:
                    samples.append((time.perf_counter() - begin) / runs)
            y = np.asarray(y.astype(jnp.float32), dtype=np.float64)
            off = np.sqrt(np.mean((y - expected) ** 2) / np.mean(expected**2))
            print(net, precision, f"{compiled * 1e3:.1f} {statistics.median(samples) * 1e6:.2f} {off:.3g}", flush=True)


def reference(np, x, *p):
    """The block in f64."""
    def gelu(v): return 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))
    skip = x @ p[6] if len(p) > 6 else x
    x = gelu(x @ p[0] + p[1])
    x = gelu(x @ p[2] + p[3])
    return x @ p[4] + p[5] + skip


def plugin():
    """The path of JAX's plugin for CUDA, or None."""
    for name in ("jax_plugins.xla_cuda13", "jax_plugins.xla_cuda12"):
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            continue
        for folder in found.submodule_search_locations if found else []:
            for path in Path(folder).glob("*plugin*.so"):
                return path
    return None


def measure(title, command, environment):
    """{(net, precision): (ms, us, off)}; what went wrong is printed."""
    begin = time.monotonic()
    try:
        done = subprocess.run(command, env=dict(os.environ, **environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=SECONDS)
        out, words = done.stdout, "" if done.returncode == 0 else f"exit status {done.returncode}: {done.stderr[-2000:]}"
    except subprocess.TimeoutExpired as late:
        out, words = (late.stdout or b"").decode(), f"took more than {SECONDS} s"
    results = {}
    for line in out.splitlines():
        fields = line.split()
        if len(fields) == 5 and fields[0] in SIZES:
            results[fields[0], fields[1]] = tuple(float(f) for f in fields[2:])
    print(f"{title}: {len(results)} nets in {time.monotonic() - begin:.0f} s {words}", flush=True)
    return results


def main():
    platform = "cpu" if "--cpu" in sys.argv else "cuda"
    if "--lane" in sys.argv:
        return run_lane(sys.argv[sys.argv.index("--lane") + 1], platform)
    binary = [a for a in sys.argv[1:] if not a.startswith("--")]
    if len(binary) != 1:
        sys.exit(__doc__)
    hodu = [binary[0]] + (["--cpu"] if platform == "cpu" else [])
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_CPP_MIN_LOG_LEVEL": "3"}
    path = plugin() if platform == "cuda" else None
    if path is not None:
        environment["HODU_XLA_PLUGIN_CUDA"] = os.environ.get("HODU_XLA_PLUGIN_CUDA", str(path))
    flags = (os.environ.get("XLA_FLAGS", "") + " --xla_gpu_enable_triton_gemm=false").strip()
    lanes = {"hodu": measure("hodu", hodu, environment)}
    for name in LANES:
        lanes[name] = measure(name, [sys.executable, __file__, "--lane", name] + hodu[1:], environment)
    lanes["hodu, no triton"] = measure("hodu, no triton", hodu, dict(environment, XLA_FLAGS=flags))
    lanes["hodu again"] = measure("hodu again", hodu, environment)
    order = ["hodu", "hodu again", "hodu, no triton", *LANES]
    for title, column, places in (("compile, ms", 0, "{:.0f}"), ("run, us", 1, "{:.1f}"), ("off", 2, "{:.1e}")):
        print(f"\n| {title} | " + " | ".join(order) + " |\n|" + "---|" * (len(order) + 1))
        for precision in PRECISIONS:
            for net in SIZES:
                cells = [places.format(lanes[l][net, precision][column]) if (net, precision) in lanes[l] else "-" for l in order]
                print(f"| {net}, {precision} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
