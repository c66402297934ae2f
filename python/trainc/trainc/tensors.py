# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Safetensors files, mapped, and floats in other types."""

import json
import os
import struct

import numpy as np

from . import files
from .errors import Error

TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1,
         "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1}  # fmt: skip
#: Those that NumPy has, of columns of data.
ARRAYS = {"F64": np.float64, "F32": np.float32, "I64": np.int64, "I32": np.int32, "I8": np.int8}
_NAMES = {np.dtype(dtype): name for name, dtype in ARRAYS.items()}


def as_float32(array, dtype):
    if dtype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


def convert(array, dtype, wanted):
    """A flat array of floats in another type, rounded to the nearest, ties to even."""
    if dtype == wanted:
        return array
    if wanted == "F64" and dtype == "F32" or wanted in ("F32", "F16") and dtype == "F64":
        return array.astype(TYPES[wanted])
    values = as_float32(array, dtype)
    if wanted != "BF16":
        return values.astype(TYPES[wanted])
    bits = values.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


class Tensors:
    """A safetensors file, mapped: `header[name]`, `flat(name)` and `array(name)`."""

    def __init__(self, path):
        self.path = path
        try:
            with open(path, "rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                size = os.fstat(file.fileno()).st_size
                if length > size - 8:
                    raise ValueError(f"it has {size} bytes, and says that its header has {length}")
                header = json.loads(file.read(length))
            self.metadata = header.pop("__metadata__", None)
            for name, entry in header.items():
                begin, end = entry["data_offsets"]
                if not 0 <= begin <= end <= size - 8 - length:
                    raise ValueError(f"'{name}' ends behind the end of the file")
                if entry["dtype"] in SIZES and end - begin != _bytes(entry["shape"], entry["dtype"]):
                    raise ValueError(f"'{name}' has {end - begin} bytes, which are not those of its shape")
        except (OSError, struct.error, ValueError, KeyError, TypeError, AttributeError, MemoryError) as error:
            raise Error(f"{path}: no safetensors file: {error}") from None
        self.header = header
        self._data = np.memmap(path, np.uint8, "r", 8 + length) if size > 8 + length else np.empty(0, np.uint8)

    def raw(self, name):
        begin, end = self.header[name]["data_offsets"]
        return self._data[begin:end]

    def flat(self, name):
        return self.raw(name).view(TYPES[self.header[name]["dtype"]])

    def array(self, name):
        entry = self.header[name]
        if entry["dtype"] not in ARRAYS:
            raise Error(f"{self.path}: '{name}' is of type {entry['dtype']}; expected one of {', '.join(ARRAYS)}")
        return self.raw(name).view(ARRAYS[entry["dtype"]]).reshape(entry["shape"])

    def arrays(self):
        return {name: self.array(name) for name in self.header}


def _bytes(shape, dtype):
    return int(np.prod(shape, dtype=np.int64)) * SIZES[dtype]


def names_of_type(dtype):
    """Safetensors' word for torch's: "bfloat16" is BF16."""
    return {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}.get(dtype)


def write(path, entries):
    """A file of `entries`: (name, dtype, shape, function that gives the bytes); one tensor at a time is in memory. Returns the
    bytes of all tensors."""
    header, total = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape, _ in entries:
        begin, total = total, total + _bytes(shape, dtype)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, total]}
    files.write_whole(path, _parts(header, (content() for *_, content in entries)))
    return total


def write_arrays(path, arrays):
    """Returns the file's size and SHA-256."""
    header, at = {}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    contents = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays.values())
    return files.write_whole(path, _parts(header, contents), digest=True)


def _parts(header, contents):
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text))
    yield text
    yield from contents
