# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""libtrainrt through ctypes: the structs and functions of trainrt/trainrt.h, in its order, and of trainrt/ranks.h.

`test/python/library_test.py` compares these structs with the header.
"""

import ctypes
import os
import pathlib
from ctypes import POINTER, Structure, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

from . import errors

FOLDER = pathlib.Path(__file__).resolve().parent
#: What a struct is of has to be there in the library: its minor version is this one or newer.
MAJOR, MINOR = 1, 5

DTYPES = ("f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool8")
SIZES = (4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8, 1)
F32, F64, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64, BOOL = range(13)

INPUT, OUTPUT, PARAMETER, STATE = range(4)
VALUE_PARAMETER, VALUE_STATE, VALUE_GRADIENT, VALUE_OUTPUT = range(4)
HOST_COPIES = ("session_parameter", "session_state", "session_gradient", "session_output")
TRAINABLE, LOSS, USED_IN_TRAIN, USED_IN_EVAL, OPTIONAL, EMBEDDED, WEIGHT, GRAD_NORM = (1 << i for i in range(8))
WEIGHTS_PACKAGE, WEIGHTS_FILE, WEIGHTS_RANDOM, WEIGHTS_NONE = range(4)
STEP_ALLOW_NONFINITE, STEP_LAG = 1, 2
ACCUMULATE_BY = (None, "mean", "rows", "tokens")
EVAL_FILL_MISSING = 1
NONFINITE = 8


class Tensor(Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int), ("rank", c_int32), ("shape", POINTER(c_int64))]


class NamedTensor(Structure):
    _fields_ = [("name", c_char_p), ("tensor", Tensor)]


class PackageInfo(Structure):
    _fields_ = [
        ("size", c_size_t), ("producer", c_char_p), ("model", c_char_p), ("target", c_char_p), ("loss", c_char_p),
        ("batch_symbol", c_char_p), ("batch_symbol_index", c_int32), ("can_train", c_int32),
        ("can_accumulate", c_int32), ("can_eval", c_int32), ("optimizer", c_char_p), ("lr", c_double),
        ("weight_decay", c_double), ("clip_norm", c_double), ("accumulate", c_int64), ("loss_weight", c_char_p),
        ("loss_is_mean", c_int32), ("distribute", c_char_p),
    ]  # fmt: skip


class Symbol(Structure):
    _fields_ = [
        ("name", c_char_p), ("min", c_int64), ("max", c_int64), ("divisor", c_int64), ("input", c_char_p),
        ("axis", c_int32),
    ]  # fmt: skip


class Dim(Structure):
    _fields_ = [("value", c_int64), ("text", c_char_p), ("symbol", c_int32)]


class TensorInfo(Structure):
    _fields_ = [
        ("size", c_size_t), ("name", c_char_p), ("dtype", c_int), ("rank", c_int32), ("dims", POINTER(Dim)),
        ("flags", c_uint32), ("weights_file", c_char_p), ("weights_offset", c_int64), ("weights_length", c_int64),
    ]  # fmt: skip


class Memory(Structure):
    _fields_ = [("size", c_size_t)] + [
        (name, c_uint64)
        for name in (
            "total", "parameters", "state", "gradients", "arena", "arena_lower_bound", "inputs", "outputs", "scratch",
            "mapped", "driver", "pinned",
        )
    ]  # fmt: skip


class SymbolValue(Structure):
    _fields_ = [("name", c_char_p), ("value", c_int64)]


class Allocator(Structure):
    _fields_ = [("user", c_void_p), ("allocate", c_void_p), ("deallocate", c_void_p)]


class SessionOptions(Structure):
    _fields_ = [
        ("size", c_size_t), ("threads", c_uint32), ("inference", c_int32), ("seed", c_int64), ("weights", c_int),
        ("weights_path", c_char_p), ("init_std", c_double), ("allocator", Allocator), ("progress", c_void_p),
        ("progress_user", c_void_p), ("device", c_int32), ("synchronous", c_int32), ("stream", c_void_p),
        ("command_done", c_void_p), ("command_user", c_void_p), ("check_numerics", c_int32), ("no_variants", c_int32),
        ("density", c_void_p), ("density_user", c_void_p), ("any_model", c_int32), ("memory", c_void_p),
        ("memory_user", c_void_p), ("emulate_world", c_int32), ("ranks", c_void_p),
        ("ranks_per_node", c_int32), ("shard_within", c_int32),
    ]  # fmt: skip


class RanksOptions(Structure):
    _fields_ = [
        ("size", c_size_t), ("rank", c_int32), ("world", c_int32), ("coordinator", c_char_p), ("listening", c_int32),
        ("join_seconds", c_int32), ("silence_seconds", c_int32), ("exchange_seconds", c_int32), ("vendor_sums", c_int32),
        ("local_world", c_int32), ("local_rank", c_int32), ("ranks_per_node", c_int32), ("shard_within", c_int32),
    ]  # fmt: skip


class Bytes(Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t)]


class Batch(Structure):
    _fields_ = [("inputs", POINTER(NamedTensor)), ("count", c_size_t)]


class StepOptions(Structure):
    _fields_ = [
        ("size", c_size_t), ("lr", c_double), ("weight_decay", c_double), ("clip_norm", c_double),
        ("weights", POINTER(c_double)), ("flags", c_uint32), ("accumulate_by", c_int),
    ]  # fmt: skip


class StepResult(Structure):
    _fields_ = [
        ("size", c_size_t), ("step", c_int64), ("loss", c_double), ("lr", c_double), ("milliseconds", c_double),
        ("peak_bytes", c_uint64), ("nonfinite", c_int32), ("wait_milliseconds", c_double), ("grad_norm", c_double),
        ("flops", c_double), ("last", c_int32),
    ]  # fmt: skip


class EvalOptions(Structure):
    _fields_ = [("size", c_size_t), ("flags", c_uint32)]


class EvalResult(Structure):
    _fields_ = [("size", c_size_t), ("loss", c_double), ("milliseconds", c_double), ("peak_bytes", c_uint64)]


class CheckpointInfo(Structure):
    _fields_ = [("size", c_size_t), ("step", c_int64), ("seed", c_int64), ("path", c_char_p), ("data_position", c_char_p)]


class AdapterOptions(Structure):
    _fields_ = [("size", c_size_t), ("base_name", c_char_p), ("task_type", c_char_p)]


class OnnxOptions(Structure):
    _fields_ = [("size", c_size_t), ("model", c_char_p), ("outputs", POINTER(c_char_p)), ("output_count", c_size_t)]


class DLDevice(Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DLDataType(Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(Structure):
    _fields_ = [
        ("data", c_void_p), ("device", DLDevice), ("ndim", c_int32), ("dtype", DLDataType), ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)), ("byte_offset", c_uint64),
    ]  # fmt: skip


class DLManagedTensor(Structure):
    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", c_void_p), ("deleter", c_void_p)]


_P = c_void_p  # a handle
_E = POINTER(c_void_p)  # trainrt_error **
#: Those that return a status, whose last argument is the error: {name: the other arguments}.
_CHECKED = {
    "tensor_from_dlpack_device": [c_void_p, POINTER(Tensor), POINTER(c_int32)],
    "package_open": [c_char_p, POINTER(_P)],
    "package_get_info": [_P, POINTER(PackageInfo)],
    "package_symbol": [_P, c_size_t, POINTER(Symbol)],
    "package_tensor": [_P, c_int, c_size_t, POINTER(TensorInfo)],
    "package_memory": [_P, POINTER(SymbolValue), c_size_t, c_uint32, c_uint32, POINTER(Memory)],
    "session_create": [_P, POINTER(SessionOptions), POINTER(_P)],
    "session_memory": [_P, POINTER(Memory)],
    "step": [_P, POINTER(Batch), c_size_t, POINTER(StepOptions), POINTER(StepResult)],
    "session_finish": [_P, POINTER(StepResult)],
    "gradients": [_P, POINTER(Batch), c_size_t, POINTER(StepOptions), POINTER(StepResult)],
    "eval": [_P, POINTER(Batch), POINTER(EvalOptions), POINTER(EvalResult)],
    "session_export": [_P, c_int, c_char_p, c_void_p, POINTER(c_void_p)],
    "session_wait_stream": [_P, c_void_p],
    "session_signal_stream": [_P, c_void_p],
    "session_set_parameter": [_P, c_char_p, POINTER(Tensor)],
    "session_set_state": [_P, c_char_p, POINTER(Tensor)],
    "session_set_step": [_P, c_int64],
    "session_free_memory": [_P, POINTER(c_uint64)],
    "checkpoint_save": [_P, c_char_p, c_uint32, c_char_p],
    "checkpoint_load": [_P, c_char_p, POINTER(CheckpointInfo)],
    "session_parameter": [_P, c_char_p, POINTER(Tensor)],
    "session_state": [_P, c_char_p, POINTER(Tensor)],
    "session_gradient": [_P, c_char_p, POINTER(Tensor)],
    "session_output": [_P, c_char_p, POINTER(Tensor)],
    "session_merged_parameter": [_P, c_char_p, POINTER(Tensor)],
    "ranks_find": [POINTER(RanksOptions), POINTER(c_char_p)],
    "ranks_join": [POINTER(RanksOptions), POINTER(_P)],
    "ranks_gather": [_P, c_char_p, c_size_t, POINTER(POINTER(Bytes))],
    "file_write": [c_char_p, POINTER(NamedTensor), c_size_t],
    "adapter_save": [_P, c_char_p, POINTER(AdapterOptions)],
    "adapter_load": [_P, c_char_p],
    "adapter_merge": [_P, c_char_p],
    "onnx_save": [_P, c_char_p, POINTER(OnnxOptions), POINTER(c_int32)],
}
#: {name: (result, arguments)}.
_OTHER = {
    "version": (c_uint32, []),
    "error_message": (c_char_p, [_P]),
    "error_free": (None, [_P]),
    "package_free": (None, [_P]),
    "ranks_refuse": (None, [_P, c_char_p]),
    "ranks_abort": (None, [_P, c_char_p]),
    "ranks_free": (None, [_P]),
    "package_manifest": (c_char_p, [_P]),
    "package_symbol_count": (c_size_t, [_P]),
    "package_tensor_count": (c_size_t, [_P, c_int]),
    "session_free": (None, [_P]),
    "session_warnings": (c_char_p, [_P]),
    "session_step": (c_int64, [_P]),
    "session_seed": (c_int64, [_P]),
    "session_threads": (c_uint32, [_P]),
    "session_cancel": (None, [_P]),
    "session_stream": (c_void_p, [_P]),
    "session_input_copies": (c_uint64, [_P, POINTER(c_char_p)]),
}


def path():
    """The library: the wheel's own, or what TRAINRT_LIBRARY names."""
    return os.environ.get("TRAINRT_LIBRARY") or str(FOLDER / "lib" / f"libtrainrt.so.{MAJOR}")


class Library:
    """Functions by their names without `trainrt_`; those in `checked` raise."""

    def __init__(self, path):
        try:
            self._dll = dll = ctypes.CDLL(path)
        except OSError as error:
            raise errors.Error(f"the runtime's library cannot be loaded: {error}; reinstall trainrt") from None
        for name, (result, arguments) in _OTHER.items():
            setattr(self, name, self._function(dll, name, result, arguments))
        version = self.version()
        if version >> 16 != MAJOR or version & 0xFFFF < MINOR:
            raise errors.Error(
                f"'{path}' has version {version >> 16}.{version & 0xFFFF} of the interface; {MAJOR}.{MINOR} or a newer "
                f"{MAJOR}.x is needed"
            )
        for name, arguments in _CHECKED.items():
            setattr(self, name, self._function(dll, name, c_int, arguments + [_E]))

    @staticmethod
    def _function(dll, name, result, arguments):
        function = getattr(dll, "trainrt_" + name)
        function.restype = result
        function.argtypes = arguments
        return function

    def failure(self, status, error):
        """The exception for a status that is not OK; takes the error."""
        message = self.error_message(error).decode(errors="replace") if error else f"status {status}"
        self.error_free(error)
        return errors.BY_STATUS.get(status, errors.InternalError)(message)

    def call(self, name, *arguments):
        error = c_void_p()
        status = getattr(self, name)(*arguments, ctypes.byref(error))
        if status:
            raise self.failure(status, error)


class Owner:
    """What has a handle, which is freed once: no copy may have it, nor another process."""

    __slots__ = ()
    _instead = ""

    def __reduce_ex__(self, protocol):
        raise TypeError(f"{type(self).__name__} objects cannot be copied or pickled: {self._instead}")


#: Of this process; a child that was forked has another one.
process = object()


def _forked():
    global process
    process = object()


os.register_at_fork(after_in_child=_forked)
_library = None


def library():
    global _library
    if _library is None:
        _library = Library(path())
    return _library
