# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values of a session: arrays that lie where the session has them."""

import collections.abc
import ctypes
import difflib
from ctypes import byref, c_int64, c_void_p

from . import _library as capi
from . import errors

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [c_void_p, ctypes.c_char_p, c_void_p]
_DESTRUCTOR = ctypes.CFUNCTYPE(None, c_void_p)
_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype = ctypes.c_char_p
_capsule_name.argtypes = [c_void_p]
_capsule_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


def _delete(managed):
    tensor = ctypes.cast(managed, ctypes.POINTER(capi.DLManagedTensor)).contents
    if tensor.deleter:
        ctypes.CFUNCTYPE(None, c_void_p)(tensor.deleter)(managed)


@ctypes.PYFUNCTYPE(None, c_void_p)
def _destroy_capsule(capsule):
    # One that a consumer took has another name, and the consumer frees what is in it.
    if _capsule_name(capsule) == b"dltensor":
        _delete(_capsule_pointer(capsule, b"dltensor"))


_TYPESTR = ("<f4", "<f8", "<f2", None, "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "|b1")
_CODES = {(2, 32): 0, (2, 64): 1, (2, 16): 2, (4, 16): 3, (0, 8): 4, (0, 16): 5, (0, 32): 6, (0, 64): 7, (1, 8): 8,
          (1, 16): 9, (1, 32): 10, (1, 64): 11, (6, 8): 12}  # fmt: skip


def _consumer(stream):
    """The stream of DLPack's protocol as the C API takes it: on CUDA 1 is the legacy default stream, as is None."""
    return None if stream in (None, -1) else stream


class Array(capi.Owner):
    """A value in the session's memory, on the host or its GPU, without a copy.

    `numpy.asarray`, `torch.from_dlpack` and all else that reads DLPack take it. The memory lives as long as any
    array of it; what it holds changes with the session's next step (outputs: and evaluation).
    """

    __slots__ = ("_session", "_managed", "_kind", "name", "shape", "dtype", "device", "__weakref__")
    _instead = "take a copy with .numpy().copy() or .torch().clone()"

    def __init__(self, session, managed, kind, name):
        self._session = session
        self._kind = kind
        self._managed = managed
        tensor = ctypes.cast(managed, ctypes.POINTER(capi.DLManagedTensor)).contents.dl_tensor
        self.name = name
        self.shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
        self.dtype = capi.DTYPES[_CODES[tensor.dtype.code, tensor.dtype.bits]]
        self.device = "cpu" if tensor.device.device_type == 1 else f"cuda:{tensor.device.device_id}"

    def __del__(self):
        _delete(self._managed)

    def _tensor(self):
        return ctypes.cast(self._managed, ctypes.POINTER(capi.DLManagedTensor)).contents.dl_tensor

    def __dlpack_device__(self):
        device = self._tensor().device
        return device.device_type, device.device_id

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy:
            raise BufferError(f"'{self.name}' is given without a copy only")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"'{self.name}' is on {self.device}; copy it from there")
        return _new_capsule(self._share(_consumer(stream)), b"dltensor", ctypes.cast(_destroy_capsule, c_void_p))

    def _share(self, stream):
        """Another share of the memory, which the consumer frees."""
        managed = self._session._managed(self._kind, self.name, stream)
        again = ctypes.cast(managed, ctypes.POINTER(capi.DLManagedTensor)).contents.dl_tensor
        if again.data != self._tensor().data or tuple(again.shape[i] for i in range(again.ndim)) != self.shape:
            _delete(managed)
            raise BufferError(f"'{self.name}' lies elsewhere by now: ask the session for it again")
        return managed

    @property
    def __array_interface__(self):
        if self.device != "cpu":
            raise AttributeError(f"'{self.name}' is on {self.device}: use torch.from_dlpack or another reader of DLPack")
        typestr = _TYPESTR[capi.DTYPES.index(self.dtype)]
        if typestr is None:
            raise AttributeError(f"NumPy has no {self.dtype}: use torch.from_dlpack, or .numpy(), which widens to f32")
        tensor = self._tensor()
        return {"version": 3, "shape": self.shape, "typestr": typestr, "data": (tensor.data + tensor.byte_offset, False)}

    def __array__(self, dtype=None, copy=None):
        # NumPy asks where there is no interface.
        if self.device != "cpu":
            raise TypeError(f"'{self.name}' is on {self.device}: .numpy() copies it to the host")
        raise TypeError(f"NumPy has no {self.dtype}: .numpy() widens to f32, torch.from_dlpack takes it as it is")

    def numpy(self):
        """On the host, as NumPy has it: bf16 as f32. A copy where it has to be one."""
        import numpy

        if self.device != "cpu":
            _delete(self._share(None))  # it is what the session has
            return self._session._on_host(self._kind, self.name)
        if self.dtype != "bf16":
            return numpy.asarray(self)
        tensor = self._tensor()
        count = 1
        for size in self.shape:
            count *= size
        halves = numpy.ctypeslib.as_array(ctypes.cast(tensor.data, ctypes.POINTER(ctypes.c_uint16)), (count,))
        return (halves.astype(numpy.uint32) << 16).view(numpy.float32).reshape(self.shape)

    def torch(self):
        """The same memory as a tensor of PyTorch."""
        import torch

        return torch.from_dlpack(self)

    def __len__(self):
        if not self.shape:
            raise TypeError(f"'{self.name}' is a scalar")
        return self.shape[0]

    def __repr__(self):
        return f"<trainrt.Array '{self.name}': {self.dtype} {list(self.shape)} on {self.device}>"


class Values(collections.abc.Mapping):
    """Parameters, state, gradients or outputs of a session by name."""

    def __init__(self, session, kind, names, what, set_with=None):
        self._session, self._kind, self._names, self._what = session, kind, names, what
        self._set_with = set_with

    def __getitem__(self, name):
        if name not in self._names:
            near = difflib.get_close_matches(str(name), self._names, 1)
            few = f"there are {', '.join(self._names)}" if 0 < len(self._names) <= 8 else f"there are {len(self._names)}"
            hint = f"; is it '{near[0]}'?" if near else f"; {few}"
            raise errors.NotFound(f"there is no {self._what} '{name}'{hint}")
        return self._session._export(self._kind, name)

    def __setitem__(self, name, array):
        if self._set_with is None:
            raise errors.InvalidArgument(f"{self._what}s cannot be set")
        self._session._set(self._set_with, name, array)

    def __contains__(self, name):
        return name in self._names

    def __iter__(self):
        return iter(self._names)

    def __len__(self):
        return len(self._names)

    def __repr__(self):
        return f"<{len(self._names)} {self._what}s>"
