#!/usr/bin/env python3
"""Small files as NumPy and safetensors write them, into tests/data/io: make_files.py

tests/io reads them. All tensors count: 0, 1, 2, ... in row-major order; bools are those numbers modulo 2.
"""
import json, zipfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

OUT = Path(__file__).resolve().parent.parent / "data/io"
KINDS = ["b1", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]


def counting(kind, shape):
    numbers = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    return (numbers % 2 == 1) if kind == "b1" else numbers.astype(kind)


def one_npy(name, array, version=None):
    with open(OUT / name, "wb") as f:
        np.lib.format.write_array(f, np.asanyarray(array), version=version)


def main():
    OUT.mkdir(exist_ok=True)
    one_npy("fortran.npy", np.asfortranarray(counting("f8", (2, 3, 4))))
    one_npy("big-endian.npy", counting(">f4", (2, 3)))
    one_npy("big-endian-fortran.npy", np.asfortranarray(counting(">i2", (3, 5))))
    one_npy("scalar.npy", np.array(1.5))
    one_npy("version-2.npy", counting("i4", (7,)), (2, 0))
    one_npy("version-3.npy", counting("u8", (2, 2)), (3, 0))
    one_npy("text.npy", np.array(["a", "b"]))
    one_npy("complex.npy", np.zeros(2, dtype=complex))
    one_npy("records.npy", np.zeros(2, dtype=[("x", "f4"), ("y", "i4")]))
    every = {f"{kind}-{len(shape)}": counting(kind, shape) for kind in KINDS for shape in [(), (3,), (2, 3)]}
    np.savez(OUT / "stored.npz", empty=counting("f4", (0, 4)), **every)
    np.savez_compressed(OUT / "deflated.npz", large=counting("f4", (40, 50)), bools=counting("b1", (9,)))
    with zipfile.ZipFile(OUT / "other.npz", "w") as z:
        z.writestr("notes.txt", "not an array")

    kinds = [torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32,
             torch.int64, torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16, torch.float32, torch.float64]
    tensors = {}
    for kind in kinds:
        numbers = torch.arange(6).reshape(2, 3)
        tensors[str(kind).removeprefix("torch.")] = (numbers % 2 == 1) if kind == torch.bool else numbers.to(kind)
    tensors["scalar"], tensors["empty"] = torch.tensor(0.0), torch.zeros(0, 4)
    save_file(tensors, OUT / "every.safetensors", metadata={"format": "pt", "said": "\"é\"\n\t\\"})
    parts = {"model-00001-of-00002.safetensors": ["a.weight", "a.bias"], "model-00002-of-00002.safetensors": ["b.weight"]}
    for file, names in parts.items():
        save_file({name: torch.arange(6.0).reshape(2, 3) for name in names}, OUT / file, metadata={"format": "pt"})
    index = {"metadata": {"total_size": 72}, "weight_map": {name: file for file in parts for name in parts[file]}}
    (OUT / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    for path in OUT.iterdir():
        path.chmod(0o644)


if __name__ == "__main__":
    main()
