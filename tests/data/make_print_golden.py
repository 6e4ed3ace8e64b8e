"""Writes print_golden.txt: what NumPy prints for the arrays that core/test_print.c builds under the same names.

    python -m venv /tmp/venv && /tmp/venv/bin/pip install 'numpy>=2.3' && /tmp/venv/bin/python make_print_golden.py

NumPy 2.3 is the first that turns to scientific notation by dtype (f16 from 1e3, f32 from 1e6, f64 from 1e8)."""
import pathlib
import numpy as np

f16, f32, f64 = np.float16, np.float32, np.float64
nan, inf = np.nan, np.inf


def counting(*shape, dtype=np.int64):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def of(dtype, *values):
    return np.array(values, dtype)


quarters = counting(40, dtype=f32) / f32(4)
cases = {
    # integers and booleans
    "i32": of(np.int32, 1, -20, 300),
    "i64 extremes": of(np.int64, -(2**63), 0, 2**63 - 1),
    "u64 extremes": of(np.uint64, 0, 2**63, 2**64 - 1),
    "i8 extremes": of(np.int8, -128, 0, 127),
    "u8 extremes": of(np.uint8, 0, 255),
    "i16": of(np.int16, -32768, 32767),
    "u16": of(np.uint16, 1, 65535),
    "u32": of(np.uint32, 1, 2**32 - 1),
    "bool": np.array([[True, False], [False, False]]),
    "bool all true": of(bool, True, True),
    # floats
    "f32 whole": of(f32, 1, 2, 3),
    "f32 own digits": of(f32, 1.1, 2.25, -3),
    "f32 thirds": of(f32, 1 / 3, 2 / 3, 100 / 3),
    "f64 thirds": of(f64, 1 / 3, 2 / 3, 100 / 3),
    "f64 cut then trimmed": of(f64, 0.1000000001, 0.5),
    "f64 sum": of(f64, 0.1 + 0.2, 1e-3),
    "f32 large": of(f32, 1e10, 1, -2.5),
    "f32 below the limit": of(f32, 999999, 123456),
    "f32 at the limit": of(f32, 1e6, 123456),
    "f64 below the limit": of(f64, 99999999, 12345678),
    "f64 at the limit": of(f64, 1e8, 12345678),
    "f32 small": of(f32, 1e-5, 2e-5, 0),
    "f32 not yet small": of(f32, 1e-4, 1e-2),
    "f32 far apart": of(f32, 1, 1001),
    "f32 not far apart": of(f32, 1, 1000),
    "f32 places of the value": of(f32, 1.1e10, 1.23456789e-5),
    "f64 long exponents": of(f64, 1e100, -1e-5, nan),
    "f64 power of two": of(f64, 2.0**-44),
    "f64 extremes": of(f64, 5e-324, 1.7976931348623157e308),
    "f32 extremes": of(f32, 1.4e-45, 3.4028235e38),
    "nan and inf": of(f32, nan, inf, -inf, 1.5),
    "only nan": of(f32, nan, nan),
    "only -inf": of(f64, -inf, nan),
    "nan beside long": of(f64, 123.25, nan),
    "negative zero": of(f32, -0.0, 0, 1),
    "f16": of(f16, 0.1, 1.5, -2, 0.333),
    "f16 large": of(f16, 65504, 1),
    "f16 small": of(f16, 6e-8, 1e-3),
    # rank 0
    "scalar i64": np.array(-7),
    "scalar bool": np.array(True),
    "scalar f32": np.array(1.1, f32),
    "scalar f32 whole": np.array(3, f32),
    "scalar f32 large": np.array(1e6, f32),
    "scalar f64": np.array(0.1 + 0.2),
    "scalar f64 large": np.array(1e16),
    "scalar f64 small": np.array(-1.5e-7),
    "scalar f64 not large": np.array(9999999999999998.0),
    "scalar f16": np.array(0.1, f16),
    "scalar nan": np.array(nan),
    "scalar -inf": np.array(-inf),
    # ranks, empty, views
    "rank 2": counting(3, 4),
    "rank 3": counting(2, 2, 3),
    "rank 4": counting(2, 2, 2, 2),
    "rank 3 f32": counting(2, 3, 2, dtype=f32) / f32(8) - f32(0.5),
    "ones": np.ones((1, 1, 1), f32),
    "empty": np.zeros(0),
    "empty rank 3": np.zeros((2, 0, 3)),
    "transposed": counting(2, 3).T,
    "permuted": counting(2, 3, 4).transpose(2, 0, 1),
    "flipped": counting(3, 4)[::-1, ::-1],
    "every other": counting(12)[10::-3],
    "broadcast": np.broadcast_to(counting(3), (2, 3)),
    # long lines
    "wrapped": counting(60),
    "wrapped f32": quarters,
    "wrapped rank 2": quarters.reshape(2, 20) * f32(1.5),
    "wrapped bool": np.arange(30) % 3 == 0,
    # summaries
    "at the threshold": np.broadcast_to(of(np.int8, 1), (1000,)),
    "summary rank 1": counting(1001),
    "summary f32": counting(2000, dtype=f32) / f32(2),
    "summary rank 2": counting(40, 50),
    "summary of long rows": counting(4, 500),
    "summary of long columns": counting(500, 3),
    "summary rank 3": counting(10, 11, 12),
    "summary rank 4": counting(7, 2, 8, 20),
    "summary transposed": counting(40, 50).T,
}

with_options = {
    "precision 3": (of(f64, 1 / 3, 0.5, 2e-3), dict(precision=3)),
    "precision 3 scientific": (of(f64, 1e9 / 3, 0.5), dict(precision=3)),
    "precision 20": (of(f64, 1 / 3, 0.1), dict(precision=20)),
    "threshold 5": (counting(6), dict(threshold=5, edgeitems=2)),
    "edge 1": (counting(5, 5), dict(threshold=5, edgeitems=1)),
    "width 20": (counting(12), dict(linewidth=20)),
    "width 1": (counting(2, 3), dict(linewidth=1)),
}

text = f"# NumPy {np.__version__}, by make_print_golden.py\n"
for name, array in cases.items():
    text += f"# {name}\n{array!s}\n"
for name, (array, options) in with_options.items():
    with np.printoptions(**options):
        text += f"# {name}\n{array!s}\n"
pathlib.Path(__file__).with_name("print_golden.txt").write_text(text)
