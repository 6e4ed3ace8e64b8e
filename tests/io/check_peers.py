#!/usr/bin/env python3
"""NumPy, PyTorch and safetensors read what hodu writes, and the other way round: check_peers.py path/to/libhodu.so

`make check-models` runs it, where Python has these. Exits with 1 at the first difference.
"""
import ctypes, sys, tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

DTYPES = ["bool", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f8e4m3", "f8e5m2", "bf16", "f16", "f32", "f64"]
TORCH = [torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32, torch.int64,
         torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16, torch.float32, torch.float64]
IN_NUMPY = [d for d in TORCH if d not in (torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16)]
SHAPES = [(), (7,), (3, 4), (2, 3, 5), (0, 3)]


class Shape(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_int), ("size", ctypes.c_int64 * 8)]


class Hodu:
    """The few functions that are needed, by ctypes; an error ends the program."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64
        for name, result, arguments in [
                ("from_data", pointer, [pointer, Shape, ctypes.c_int]), ("to_array", ctypes.c_bool, [pointer, pointer, ctypes.c_int, ctypes.c_size_t]),
                ("tensor_shape", Shape, [pointer]), ("tensor_dtype", ctypes.c_int, [pointer]), ("error_message", text, []),
                ("npy_load", pointer, [text]), ("npy_save", None, [text, pointer]), ("npz_load", pointer, [text]),
                ("npz_save", None, [text, pointer]), ("safetensors_load", pointer, [text]),
                ("safetensors_save", None, [text, pointer, pointer]), ("archive_new", pointer, []),
                ("archive_add", None, [pointer, text, pointer]), ("archive_get", pointer, [pointer, text]),
                ("archive_count", number, [pointer]), ("archive_set_text", None, [pointer, text, text]),
                ("archive_text", text, [pointer, text]), ("to_dlpack", pointer, [pointer]),
                ("to_dlpack_unversioned", pointer, [pointer]), ("from_dlpack", pointer, [pointer]),
                ("from_dlpack_unversioned", pointer, [pointer])]:
            function = getattr(self.library, "hd_" + name)
            function.restype, function.argtypes = result, arguments

    def __getattr__(self, name):
        function = getattr(self.library, "hd_" + name)

        def call(*arguments):
            result = function(*[str(a).encode() if isinstance(a, (str, Path)) else a for a in arguments])
            message = self.library.hd_error_message()
            if message:
                sys.exit(f"hd_{name}: {message.decode()}")
            return result
        return call

    def tensor(self, t):
        t = t.contiguous()
        shape = Shape(t.dim(), (ctypes.c_int64 * 8)(*t.shape))
        return self.from_data(t.data_ptr() if t.numel() else None, shape, 1 + TORCH.index(t.dtype))

    def torch(self, tensor):
        shape = self.tensor_shape(tensor)
        out = torch.empty(list(shape.size[:shape.rank]), dtype=TORCH[self.tensor_dtype(tensor) - 1])
        self.to_array(tensor, out.data_ptr() if out.numel() else ctypes.addressof(shape), 1 + TORCH.index(out.dtype), out.numel())
        return out


def counting(dtype, shape):
    numbers = torch.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    return numbers % 2 == 1 if dtype == torch.bool else numbers.to(dtype)


def bits(t):
    return t.contiguous().flatten().view(torch.uint8) if t.numel() else t


def check(what, got, expected):
    if got.dtype != expected.dtype or got.shape != expected.shape or not torch.equal(bits(got), bits(expected)):
        sys.exit(f"{what}: got {got}, expected {expected}")


def check_numpy(hodu, folder):
    every, archive, names = {}, hodu.archive_new(), 0
    for dtype in IN_NUMPY:
        for shape in SHAPES:
            t, name = counting(dtype, shape), f"{DTYPES[TORCH.index(dtype)]} {shape}"
            hodu.npy_save(folder / "ours.npy", hodu.tensor(t))
            check(f"{name}: NumPy reads ours", torch.from_numpy(np.load(folder / "ours.npy")), t)
            for kind, array in (("C", t.numpy()), ("Fortran", np.array(t.numpy(), order="F")),
                                ("big-endian", t.numpy().astype(t.numpy().dtype.newbyteorder(">")))):
                np.save(folder / "theirs.npy", array)
                check(f"{name}: we read NumPy's, {kind}", hodu.torch(hodu.npy_load(folder / "theirs.npy")), t)
            every[name] = t
            hodu.archive_add(archive, name, hodu.tensor(t))
    hodu.npz_save(folder / "ours.npz", archive)
    with np.load(folder / "ours.npz") as ours:
        if list(ours.keys()) != list(every):
            sys.exit(f"NumPy finds {list(ours.keys())} in our .npz")
        for name, t in every.items():
            check(f"{name}: NumPy reads our .npz", torch.from_numpy(np.asarray(ours[name])), t)
    for save in (np.savez, np.savez_compressed):
        save(folder / "theirs.npz", **{name: t.numpy() for name, t in every.items()})
        theirs = hodu.npz_load(folder / "theirs.npz")
        for name, t in every.items():
            check(f"{name}: we read {save.__name__}", hodu.torch(hodu.archive_get(theirs, name)), t)
            names += 1
    return names


def check_safetensors(hodu, folder):
    every, archive = {}, hodu.archive_new()
    for dtype in TORCH:
        for shape in SHAPES:
            name = f"{DTYPES[TORCH.index(dtype)]} {shape}"
            every[name] = counting(dtype, shape)
            hodu.archive_add(archive, name, hodu.tensor(every[name]))
    hodu.archive_set_text(archive, "said", 'é "\\\n')
    hodu.safetensors_save(folder / "ours.safetensors", archive, None)
    for name, t in load_file(folder / "ours.safetensors").items():
        check(f"{name}: safetensors reads ours", t, every[name])
    with safe_open(folder / "ours.safetensors", "pt") as ours:
        if ours.metadata() != {"said": 'é "\\\n'} or len(ours.keys()) != len(every):
            sys.exit(f"safetensors finds {ours.metadata()} and {len(ours.keys())} tensors")
    save_file(every, folder / "theirs.safetensors", metadata={"format": "pt"})
    theirs = hodu.safetensors_load(folder / "theirs.safetensors")
    for name, t in every.items():
        check(f"{name}: we read safetensors'", hodu.torch(hodu.archive_get(theirs, name)), t)
    if hodu.archive_text(theirs, "format") != b"pt":
        sys.exit("the metadata of safetensors are lost")
    return len(every)


class Lent:
    """A tensor of ours, as Python's libraries take one."""

    def __init__(self, hodu, tensor, versioned):
        self.hodu, self.tensor, self.versioned = hodu, tensor, versioned

    def __dlpack__(self, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        if self.versioned:
            return new(self.hodu.to_dlpack(self.tensor), b"dltensor_versioned", None)
        return new(self.hodu.to_dlpack_unversioned(self.tensor), b"dltensor", None)

    def __dlpack_device__(self):
        return 1, 0


def check_dlpack(hodu):
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    used, count = b"used_dltensor", 0
    for dtype in TORCH:
        for shape in SHAPES:
            t, name = counting(dtype, shape), f"{DTYPES[TORCH.index(dtype)]} {shape}"
            try:
                capsule = torch.utils.dlpack.to_dlpack(t.transpose(0, -1) if t.dim() > 1 else t)
            except (BufferError, RuntimeError) as why:
                print(f"{name}: PyTorch lends none: {why}")
                continue
            taken = hodu.from_dlpack_unversioned(pointer(capsule, b"dltensor"))
            rename(capsule, used)
            check(f"{name}: we take PyTorch's", hodu.torch(taken), t.transpose(0, -1).contiguous() if t.dim() > 1 else t)
            check(f"{name}: PyTorch takes ours", torch.utils.dlpack.from_dlpack(Lent(hodu, hodu.tensor(t), False)), t)
            if dtype in IN_NUMPY and tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1):
                check(f"{name}: NumPy takes ours", torch.from_numpy(np.array(np.from_dlpack(Lent(hodu, hodu.tensor(t), True)))), t)
            count += 1
    return count


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    hodu = Hodu(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        counts = check_numpy(hodu, Path(folder)), check_safetensors(hodu, Path(folder)), check_dlpack(hodu)
    print("the same both ways: %d arrays of NumPy's, %d tensors of safetensors, %d by DLPack" % counts)


if __name__ == "__main__":
    main()
