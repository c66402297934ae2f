# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads .safetensors files with numpy: 8 bytes of header length, JSON, raw little-endian data."""

import hashlib
import json
import pathlib
import struct

import numpy as np

DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "I64": np.int64,
    "I32": np.int32,
    "I8": np.int8,
    "BF16": np.uint16,  # bits
    "U8": np.uint8,
    "BOOL": np.bool_,
}


def load(path):
    """{name: array} of a file."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    body = memoryview(data)[8 + length :]
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            flat = np.frombuffer(body[begin:end], DTYPES[entry["dtype"]])
            tensors[name] = flat.reshape(entry["shape"])
    return tensors


def digest(path):
    """A hash of names, shapes and bits, whatever the order in the file."""
    total = hashlib.sha256()
    for name, array in sorted(load(path).items()):
        total.update(f"{name} {array.dtype} {array.shape}\n".encode())
        total.update(array.tobytes())
    return total.hexdigest()
