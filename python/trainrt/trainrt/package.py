# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packages: what trainc has compiled, and what it needs and gives."""

import ctypes
import dataclasses
import json
import math
import os
from ctypes import byref, c_void_p

from . import _library as capi
from . import errors


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """An input, output, parameter or state of a package; sizes of `shape` that batches decide are texts ("batch")."""

    name: str
    dtype: str
    shape: tuple
    flags: int
    weights_file: str | None

    def _has(self, flag):
        return bool(self.flags & flag)

    trainable = property(lambda self: self._has(capi.TRAINABLE))
    is_loss = property(lambda self: self._has(capi.LOSS))
    is_result = property(lambda self: not self._has(capi.LOSS | capi.WEIGHT | capi.GRAD_NORM))
    used_in_train = property(lambda self: self._has(capi.USED_IN_TRAIN))
    used_in_eval = property(lambda self: self._has(capi.USED_IN_EVAL))
    optional = property(lambda self: self._has(capi.OPTIONAL))


@dataclasses.dataclass(frozen=True)
class Symbol:
    """A named size, and what it may be."""

    name: str
    min: int
    max: int | None
    divisor: int
    input: str | None
    axis: int


def bytes_text(count):
    """"312.4 MiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024


@dataclasses.dataclass(frozen=True, repr=False)
class Memory:
    """Bytes by category; `total` is all but `mapped` and `pinned`. On a GPU, of its memory."""

    total: int
    parameters: int
    state: int
    gradients: int
    arena: int
    arena_lower_bound: int
    inputs: int
    outputs: int
    scratch: int
    mapped: int
    driver: int
    pinned: int

    @classmethod
    def of(cls, memory):
        return cls(*(getattr(memory, field.name) for field in dataclasses.fields(cls)))

    def _rows(self):
        values = dataclasses.asdict(self).items()
        return [(name.replace("_", " "), bytes_text(value)) for name, value in values if value or name == "total"]

    def __repr__(self):
        return "\n".join(f"{value:>12}  {name}" for name, value in self._rows())

    def _repr_html_(self):
        rows = "".join(f'<tr><td>{name}</td><td style="text-align:right">{value}</td></tr>' for name, value in self._rows())
        return f"<table>{rows}</table>"


def text(value):
    return None if value is None else value.decode()


class Package(capi.Owner):
    """An opened package, checked and mapped; nothing of it has run.

    Sessions run its native code: open packages of people you trust.
    """

    _instead = "give its `path` and open it there"

    def __init__(self, path):
        self.path = os.fspath(path)
        self._library = library = capi.library()
        handle = c_void_p()
        library.call("package_open", os.fsencode(self.path), byref(handle))
        self._handle = handle
        info = capi.PackageInfo(size=ctypes.sizeof(capi.PackageInfo))
        library.call("package_get_info", handle, byref(info))
        self.producer, self.model, self.target = text(info.producer), text(info.model), text(info.target)
        self.loss, self.batch_symbol = text(info.loss), text(info.batch_symbol)
        self.can_train, self.can_accumulate = bool(info.can_train), bool(info.can_accumulate)
        self.can_eval = bool(info.can_eval)
        self.optimizer = text(info.optimizer)
        self.lr, self.weight_decay, self.clip_norm = (
            None if math.isnan(value) else value for value in (info.lr, info.weight_decay, info.clip_norm)
        )
        self.accumulate = info.accumulate
        self.distribute = text(info.distribute)
        self.loss_weight, self.loss_is_mean = text(info.loss_weight), bool(info.loss_is_mean)
        self.symbols = [self._symbol(i) for i in range(library.package_symbol_count(handle))]
        self.inputs, self.outputs, self.parameters, self.state = (
            {tensor.name: tensor for tensor in self._tensors(kind)}
            for kind in (capi.INPUT, capi.OUTPUT, capi.PARAMETER, capi.STATE)
        )

    def _symbol(self, index):
        symbol = capi.Symbol()
        self._library.call("package_symbol", self._handle, index, byref(symbol))
        largest = None if symbol.max == 2**63 - 1 else symbol.max
        return Symbol(text(symbol.name), symbol.min, largest, symbol.divisor, text(symbol.input), symbol.axis)

    def _tensors(self, kind):
        for index in range(self._library.package_tensor_count(self._handle, kind)):
            info = capi.TensorInfo(size=ctypes.sizeof(capi.TensorInfo))
            self._library.call("package_tensor", self._handle, kind, index, byref(info))
            dims = [info.dims[axis] for axis in range(info.rank)]
            shape = tuple(dim.value if dim.value >= 0 else text(dim.text) for dim in dims)
            yield TensorInfo(text(info.name), capi.DTYPES[info.dtype], shape, info.flags, text(info.weights_file))

    @property
    def manifest(self):
        """All that the compiler wrote down: options, optimizer, adapters."""
        return json.loads(self._library.package_manifest(self._handle))

    def memory(self, sizes=None, *, micro_batches=1, threads=0, **more):
        """What a run with these sizes (`batch=8, seq=128`) would need, before it runs.

        micro_batches: of a step; 0: for evaluation only.
        """
        sizes = {**(sizes or {}), **more}
        values = (capi.SymbolValue * len(sizes))(*((name.encode(), int(size)) for name, size in sizes.items()))
        memory = capi.Memory(size=ctypes.sizeof(capi.Memory))
        self._library.call("package_memory", self._handle, values, len(sizes), micro_batches, threads, byref(memory))
        return Memory.of(memory)

    def __repr__(self):
        return f"<trainrt.Package '{self.path}': {self.model}, {self.target}>"

    def __del__(self):
        if handle := getattr(self, "_handle", None):
            self._library.package_free(handle)


def open_package(package):
    """A package, or the path of one."""
    if isinstance(package, Package):
        return package
    if isinstance(package, (str, os.PathLike)):
        return Package(package)
    raise errors.InvalidArgument(f"expected a package or its path, got {type(package).__name__}")
