# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Safetensors files, mapped, and floats in other types."""

import json
import struct

import numpy as np

from ..errors import Error

TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1,
         "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1}  # fmt: skip


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
    """A safetensors file, mapped: `header[name]` and `flat(name)`."""

    def __init__(self, path):
        self.path = path
        try:
            with open(path, "rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                header = json.loads(file.read(length))
        except (OSError, struct.error, ValueError, MemoryError, OverflowError) as error:
            raise Error(f"{path}: no safetensors file: {error}") from None
        self.metadata = header.pop("__metadata__", None)
        self.header = header
        self._data = np.memmap(path, np.uint8, "r", 8 + length) if header else np.empty(0, np.uint8)

    def raw(self, name):
        begin, end = self.header[name]["data_offsets"]
        return self._data[begin:end]

    def flat(self, name):
        return self.raw(name).view(TYPES[self.header[name]["dtype"]])


def names_of_type(dtype):
    """Safetensors' word for torch's: "bfloat16" is BF16."""
    return {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}.get(dtype)


def write(path, entries):
    """A file of `entries`: (name, dtype, shape, function that gives the bytes); one tensor at a time is in memory."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape, _ in entries:
        size = int(np.prod(shape, dtype=np.int64)) * SIZES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for *_, content in entries:
            file.write(content())
    return at
