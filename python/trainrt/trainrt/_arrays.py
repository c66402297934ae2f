# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays of others as the runtime reads them, without a copy: NumPy, PyTorch, and all that speaks DLPack."""

import ctypes
import math
import sys
from ctypes import c_int32, c_int64, c_void_p

from . import _library as capi
from . import errors

_NUMPY = {
    "<f4": capi.F32, "<f8": capi.F64, "<f2": capi.F16, "|i1": capi.I8, "<i2": capi.I16, "<i4": capi.I32, "<i8": capi.I64,
    "|u1": capi.U8, "<u2": capi.U16, "<u4": capi.U32, "<u8": capi.U64, "|b1": capi.BOOL,
}  # fmt: skip
_TORCH = {
    "torch.float32": capi.F32, "torch.float64": capi.F64, "torch.float16": capi.F16, "torch.bfloat16": capi.BF16,
    "torch.int8": capi.I8, "torch.int16": capi.I16, "torch.int32": capi.I32, "torch.int64": capi.I64,
    "torch.uint8": capi.U8, "torch.uint16": capi.U16, "torch.uint32": capi.U32, "torch.uint64": capi.U64,
    "torch.bool": capi.BOOL,
}  # fmt: skip
_ML_DTYPES = {"bfloat16": capi.BF16}

#: Of DLPack's capsules: {name before it is taken: (name after, offset of the DLTensor)}.
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Slot:
    """One array of a batch: where the runtime reads it from. Shapes are kept, as they seldom change."""

    __slots__ = ("text", "dtype", "tensor", "shape", "dims", "keep")

    def __init__(self, name, tensor, what="input", dtype=None):
        """dtype: which numbers of Python and lists of them become."""
        self.text = f"{what} '{name}'"
        self.dtype = dtype
        self.tensor = tensor
        self.shape = None
        self.dims = None
        self.keep = None

    def set(self, pointer, dtype, shape):
        tensor = self.tensor
        if shape != self.shape:
            self.dims = (c_int64 * len(shape))(*shape)
            self.shape = shape
            tensor.rank = len(shape)
            tensor.shape = ctypes.cast(self.dims, ctypes.POINTER(c_int64))
        tensor.dtype = dtype
        tensor.data = pointer


def _read_numpy(array, slot):
    interface = array.__array_interface__
    if interface.get("strides") is not None:
        raise errors.ArrayError(
            f"{slot.text}: expected a contiguous array, got one with strides {interface['strides']} "
            f"(shape {interface['shape']}); use numpy.ascontiguousarray"
        )
    dtype = _NUMPY.get(interface["typestr"])
    if dtype is None:
        dtype = _ML_DTYPES.get(str(array.dtype))
    if dtype is None:
        raise errors.ArrayError(
            f"{slot.text}: expected numbers or booleans in this machine's byte order, got an array of "
            f"{array.dtype}"
        )
    slot.set(interface["data"][0], dtype, interface["shape"])
    return None


def _read_torch(tensor, slot):
    if str(tensor.layout) == "torch.strided" and not tensor.is_contiguous():
        raise errors.ArrayError(
            f"{slot.text}: expected a contiguous tensor, got one with strides {tuple(tensor.stride())} "
            f"(shape {tuple(tensor.shape)}); use .contiguous()"
        )
    dtype = _TORCH.get(str(tensor.dtype))
    device = tensor.device
    kind = device.type
    if dtype is None or tensor.layout.__str__() != "torch.strided" or kind not in ("cpu", "cuda"):
        raise errors.ArrayError(
            f"{slot.text}: expected a dense tensor of numbers or booleans on the CPU or a CUDA GPU, got "
            f"{tensor.dtype}, {tensor.layout}, on {device}"
        )
    slot.set(tensor.data_ptr(), dtype, tuple(tensor.shape))
    return device.index if kind == "cuda" else None


def _read_dlpack(array, slot):
    kind, index = array.__dlpack_device__()
    if kind not in (1, 2, 3):
        raise errors.ArrayError(
            f"{slot.text}: expected an array on the CPU or a CUDA GPU, got one on DLPack's device {kind}"
        )
    # -1: the runtime itself orders its work behind the caller's stream.
    capsule = array.__dlpack__(stream=-1) if kind == 2 else array.__dlpack__()
    gpu = c_int32()
    error = c_void_p()
    library = capi.library()
    status = library.tensor_from_dlpack_device(
        _get_pointer(capsule, b"dltensor"), ctypes.byref(slot.tensor), ctypes.byref(gpu), ctypes.byref(error)
    )
    if status:
        raise errors.ArrayError(f"{slot.text}: {library.failure(status, error)}")
    slot.shape = None  # it is the capsule's
    slot.keep = capsule
    return gpu.value if gpu.value >= 0 else None


def copy(tensor):
    """Of a borrowed tensor of the C API on the host: as PyTorch's where that is loaded, else NumPy's, bf16 as f32."""
    if "torch" in sys.modules:
        import torch

        shape, data = _content(tensor)

        kind = next(name for name, dtype in _TORCH.items() if dtype == tensor.dtype)
        kind = getattr(torch, kind.partition(".")[2])
        flat = torch.frombuffer(bytearray(data), dtype=kind) if data else torch.empty(0, dtype=kind)
        return flat.reshape(shape)
    return numpy_copy(tensor)


def _content(tensor):
    shape = tuple(tensor.shape[axis] for axis in range(tensor.rank))
    return shape, ctypes.string_at(tensor.data, capi.SIZES[tensor.dtype] * math.prod(shape))


def numpy_copy(tensor):
    """The same, as NumPy's."""
    import numpy

    shape, data = _content(tensor)
    if tensor.dtype == capi.BF16:
        return (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
    kind = next(name for name, dtype in _NUMPY.items() if dtype == tensor.dtype)
    return numpy.frombuffer(bytearray(data), kind).reshape(shape)


def _read_number(value, slot):
    import numpy

    try:
        array = numpy.asarray(value)
    except ValueError:
        array = None
    # Of Python's own numbers, which have no width.
    if array is not None and array.dtype == numpy.float64 and not isinstance(value, numpy.generic):
        array = array.astype({"f32": numpy.float32, "f16": numpy.float16}.get(slot.dtype, numpy.float64))
    if array is None or array.dtype == object:
        raise errors.ArrayError(
            f"{slot.text}: expected an array (NumPy, PyTorch or DLPack), got a {type(value).__name__} that is "
            "not one"
        )
    slot.keep = array = numpy.ascontiguousarray(array).reshape(array.shape)
    return _read_numpy(array, slot)


#: {type: how it is read}; a reader returns the number of the GPU, or None on the host.
_readers = {}


def reader_of(kind):
    """How arrays of this type are read."""
    for base in kind.__mro__:
        root = base.__module__.partition(".")[0]
        if base.__name__ in ("Tensor", "Parameter") and root == "torch":
            found = _read_torch
        elif root == "numpy" and base.__name__ in ("ndarray", "generic"):
            found = _read_numpy if base.__name__ == "ndarray" else _read_number
        else:
            continue
        break
    else:
        if hasattr(kind, "__dlpack__"):
            found = _read_dlpack
        elif issubclass(kind, (int, float, list, tuple)):
            found = _read_number
        else:
            found = None
    _readers[kind] = found
    return found


def read(array, slot):
    """Points `slot` at the array, which must live as long as it is used; returns the number of its GPU or None."""
    kind = type(array)
    reader = _readers.get(kind) or reader_of(kind)
    if reader is None:
        raise errors.ArrayError(
            f"{slot.text}: expected an array (NumPy, PyTorch or DLPack), got {kind.__module__}.{kind.__name__}"
        )
    return reader(array, slot)
