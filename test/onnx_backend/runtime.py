# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packages run in this process: the part of trainrt.h that predictions need, through ctypes."""

import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int32, c_int64, c_size_t
from ctypes import c_uint32, c_void_p

import ml_dtypes
import numpy

# trainrt_dtype, in the order of the enum.
DTYPES = [
    numpy.dtype(t)
    for t in ("f4", "f8", "f2", ml_dtypes.bfloat16, "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")
]


class Tensor(Structure):
    """trainrt_tensor"""

    _fields_ = [
        ("data", c_void_p),
        ("dtype", c_int32),
        ("rank", c_int32),
        ("shape", POINTER(c_int64)),
    ]


class NamedTensor(Structure):
    """trainrt_named_tensor"""

    _fields_ = [("name", c_char_p), ("tensor", Tensor)]


class Batch(Structure):
    """trainrt_batch"""

    _fields_ = [("inputs", POINTER(NamedTensor)), ("count", c_size_t)]


class SessionOptions(Structure):
    """trainrt_session_options"""

    _fields_ = [
        ("size", c_size_t),
        ("threads", c_uint32),
        ("inference", c_int32),
        ("seed", c_int64),
        ("weights", c_int32),
        ("weights_path", c_char_p),
        ("init_std", c_double),
        ("allocator", c_void_p * 3),
        ("progress", c_void_p),
        ("progress_user", c_void_p),
        ("device", c_int32),
        ("synchronous", c_int32),
        ("stream", c_void_p),
        ("command_done", c_void_p),
        ("command_user", c_void_p),
        ("check_numerics", c_int32),
    ]


class TensorInfo(Structure):
    """trainrt_tensor_info"""

    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("dtype", c_int32),
        ("rank", c_int32),
        ("dims", c_void_p),
        ("flags", c_uint32),
        ("weights_file", c_char_p),
        ("weights_offset", c_int64),
        ("weights_length", c_int64),
    ]


class RuntimeFailure(Exception):
    """A call that did not return TRAINRT_OK, with the library's message."""


class Library:
    """libtrainrt.so"""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.trainrt_error_message.restype = c_char_p
        self.lib.trainrt_error_message.argtypes = [c_void_p]
        self.lib.trainrt_error_free.argtypes = [c_void_p]
        self.lib.trainrt_package_tensor_count.restype = c_size_t
        for name in ("trainrt_session_free", "trainrt_package_free"):
            getattr(self.lib, name).argtypes = [c_void_p]

    def call(self, name, *arguments):
        error = c_void_p()
        if getattr(self.lib, name)(*arguments, byref(error)) != 0:
            message = self.lib.trainrt_error_message(error).decode()
            self.lib.trainrt_error_free(error)
            raise RuntimeFailure(message)

    def names(self, package, kind):
        """Names of the package's inputs (kind 0) or outputs (kind 1)."""
        info = TensorInfo(size=ctypes.sizeof(TensorInfo))
        result = []
        for i in range(self.lib.trainrt_package_tensor_count(package, kind)):
            self.call("trainrt_package_tensor", package, kind, c_size_t(i), byref(info))
            result.append(info.name.decode())
        return result

    def predict(self, path, inputs, outputs):
        """The outputs of the package for a dict of arrays, as a list in the order of `outputs`."""
        package, session = c_void_p(), c_void_p()
        self.call("trainrt_package_open", path.encode(), byref(package))
        try:
            options = SessionOptions(size=ctypes.sizeof(SessionOptions), threads=1, inference=1)
            self.call("trainrt_session_create", package, byref(options), byref(session))
            try:
                return self._evaluate(package, session, inputs, outputs)
            finally:
                self.lib.trainrt_session_free(session)
        finally:
            self.lib.trainrt_package_free(package)

    def _evaluate(self, package, session, inputs, outputs):
        needed = self.names(package, 0)
        named = (NamedTensor * max(1, len(needed)))()
        alive = []
        for slot, name in zip(named, needed):
            array = numpy.ascontiguousarray(inputs[name]).reshape(numpy.shape(inputs[name]))
            shape = (c_int64 * max(1, array.ndim))(*array.shape)
            alive += [array, shape]
            slot.name = name.encode()
            slot.tensor = Tensor(array.ctypes.data, DTYPES.index(array.dtype), array.ndim, shape)
        batch = Batch(named, len(needed))
        self.call("trainrt_eval", session, byref(batch), None, None)
        results = []
        for name in outputs:
            view = Tensor()
            self.call("trainrt_session_output", session, name.encode(), byref(view))
            shape = tuple(view.shape[i] for i in range(view.rank))
            dtype = DTYPES[view.dtype]
            size = int(numpy.prod(shape, dtype=numpy.int64)) * dtype.itemsize
            data = ctypes.string_at(view.data, size) if size else b""
            results.append(numpy.frombuffer(data, dtype).reshape(shape))
        return results
