# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sessions: a model in training, step by step."""

import collections.abc
import ctypes
import json
import operator
import os
import re
import sys
import typing
from ctypes import byref, c_char_p, c_double, c_void_p

from . import _arrays, errors
from . import _library as capi
from ._interrupt import interruptible
from .files import Files
from .package import Memory, open_package
from .ranks import Ranks
from .values import Array, Values

_NAN = float("nan")


class Loss:
    """The loss of a step, as a float. On a GPU the step may still be running: reading the value waits for it."""

    __slots__ = ("_session", "_result", "_error")

    def __init__(self, session):
        self._session, self._result, self._error = session, None, None

    def _settle(self, result, error=None):
        self._result, self._error, self._session = result, error, None

    def _done(self):
        if self._session is not None:
            self._session._finish()
        if self._error is not None:
            raise self._error
        return self._result

    def __float__(self):
        return self._done()["loss"]

    item = __float__

    def __getattr__(self, name):
        if name in ("step", "lr", "milliseconds", "peak_bytes", "nonfinite", "grad_norm"):
            return self._done()[name]
        return getattr(float(self), name)

    def __repr__(self):
        return repr(float(self))

    def __str__(self):
        return str(float(self))

    def __format__(self, spec):
        return format(float(self), spec)

    def __hash__(self):
        return hash(float(self))

    def __bool__(self):
        return bool(float(self))

    def __array__(self, dtype=None, copy=None):
        import numpy

        return numpy.array(float(self), dtype)

    def __reduce_ex__(self, protocol):
        return float, (float(self),)


def _operator(name):
    function = getattr(float, name)

    def apply(self, *others):
        return function(float(self), *(float(o) if isinstance(o, Loss) else o for o in others))

    apply.__name__ = name
    return apply


for _name in (
    "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod", "pow",
    "rpow", "divmod", "rdivmod", "neg", "pos", "abs", "lt", "le", "gt", "ge", "eq", "ne", "round", "int", "trunc", "floor", "ceil",
):  # fmt: skip
    setattr(Loss, f"__{_name}__", _operator(f"__{_name}__"))
collections.abc.Hashable.register(Loss)


class _Bound:
    """The arrays of one micro-batch as the C API takes them."""

    def __init__(self, names, package):
        self.inputs = (capi.NamedTensor * len(names))()
        self.slots = {}
        for i, name in enumerate(names):
            self.inputs[i].name = name.encode()
            self.slots[name] = _arrays.Slot(name, self.inputs[i].tensor, dtype=package.inputs[name].dtype)


class Copies(typing.NamedTuple):
    """Arrays of batches on the GPU that were copied there, in place of being read where they lie; and why the last one was."""

    arrays: int
    why: str


class Session(Files):
    """A model in training: its parameters, optimizer state and memory on one device.

    package: a `Package` or its path. weights: None (what the package names), "random", "none" (a checkpoint or
    `parameters[...] = ` gives them), or a .safetensors or .npz file, an index of several or their folder.
    threads: 0: all cores; results do not depend on it. device: number of the GPU. stream: a CUDA stream (an address,
    or an object with `cuda_stream`) that all work is put on. inference: only `eval` and `predict`.
    variants: batches may be run by functions that are quicker for such as they are. any_model: `load` takes
    checkpoints of other models with the same names and shapes. ranks: `Ranks` of which this session is one; a package
    that was compiled with distribute=. Steps are then those of all ranks together, each with its own batches; with "zero3" so are
    `eval` and `predict`, and a large parameter is Unsupported to read: a session without ranks that loads a checkpoint has it.

    One thread at a time; others get `InvalidArgument`. While the library works the interpreter is free. One process:
    a child that was forked cannot use it.
    """

    _instead = "`save` and `load`, or `state_dict`, carry what it has to another one"

    def __init__(self, package, *, weights=None, seed=0, threads=0, device=0, stream=None, inference=False,
                 init_std=0.02, variants=True, any_model=False, ranks=None):  # fmt: skip
        if ranks is not None and not isinstance(ranks, Ranks):
            raise errors.InvalidArgument(f"ranks: expected None or trainrt.Ranks, got {ranks!r}")
        self.ranks = ranks
        self.package = package = open_package(package)
        self._library = library = capi.library()
        self._handle = None
        # The fields of a struct would take what is left of a number that is too large.
        for name, value, least, most in (
            ("seed", seed, -(2**63), 2**63 - 1), ("threads", threads, 0, 1024), ("device", device, 0, 2**31 - 1),
        ):  # fmt: skip
            if not hasattr(value, "__index__") or not least <= operator.index(value) <= most:
                raise errors.InvalidArgument(f"{name}: expected a number from {least} to {most}, got {value!r}")
        options = capi.SessionOptions(size=ctypes.sizeof(capi.SessionOptions), init_std=init_std, seed=seed,
                                      threads=threads, device=device, inference=bool(inference),
                                      no_variants=not variants, any_model=bool(any_model))  # fmt: skip
        if weights is None:
            options.weights = capi.WEIGHTS_PACKAGE
        elif weights in ("random", "none"):
            options.weights = capi.WEIGHTS_RANDOM if weights == "random" else capi.WEIGHTS_NONE
        elif isinstance(weights, (str, os.PathLike)):
            options.weights, options.weights_path = capi.WEIGHTS_FILE, os.fsencode(weights)
        else:
            raise errors.InvalidArgument(f"weights: expected None, 'random', 'none' or a path, got {weights!r}")
        options.stream = getattr(stream, "cuda_stream", stream)
        options.ranks = None if ranks is None or inference else ranks._handle
        handle = c_void_p()
        try:
            library.call("session_create", package._handle, byref(options), byref(handle))
        except errors.MissingWeights as error:
            raise errors.MissingWeights(f"{error}\nfrom Python: weights=FILE, or weights='random'") from None
        self._handle, self._process = handle, capi.process
        self.on_gpu = package.target.startswith("cuda")
        self.device = device if self.on_gpu else None
        # Calls that are made for every batch, and what they need.
        self._step, self._error = library.step, c_void_p()
        self._result = capi.StepResult(size=ctypes.sizeof(capi.StepResult))
        self._options = capi.StepOptions(ctypes.sizeof(capi.StepOptions), _NAN, _NAN, _NAN)
        self._train_names = [name for name, tensor in package.inputs.items() if tensor.used_in_train]
        self._eval_names = [name for name, tensor in package.inputs.items() if tensor.used_in_eval]
        self._bound, self._batches = [], None
        self._pending = self._kept = self._read_before = self._reads = None

    # Life.

    def close(self):
        """Frees the session's memory, as far as no array of it is in use. Losses stay what they are."""
        if self._handle is None:
            return
        if self._process is capi.process:
            try:
                self._finish()
            except errors.Error:
                pass  # the loss tells it when it is read
            self._library.session_free(self._handle)
        # Its threads are not in a child that was forked, where only the memory is a copy.
        self._handle = None

    def __del__(self):
        if getattr(self, "_handle", None) is not None:
            self.close()

    def __enter__(self):
        self._live()
        return self

    def __exit__(self, *exception):
        self.close()

    def _live(self):
        if self._handle is None:
            raise errors.Closed(f"the session of '{self.package.path}' has been closed")
        if self._process is not capi.process:
            raise errors.InvalidArgument(
                f"the session of '{self.package.path}' is of the process that this one was forked from, with its threads: "
                "make one here, or start processes with multiprocessing's 'spawn'"
            )
        return self._handle

    def _call(self, name, *arguments):
        self._library.call(name, self._live(), *arguments)

    # Steps.

    def step(self, batch, *, lr=None, weight_decay=None, clip_norm=None, weights=None, accumulate_by=None,
             allow_nonfinite=False):  # fmt: skip
        """One optimizer step; returns the loss before it.

        batch: a mapping of arrays by the names of the package's inputs (more are ignored), or a tuple or list of
        arrays in their order; or a list of several of these: micro-batches, whose gradients are accumulated (`[]`: none on
        this rank, where others have some).
        lr, weight_decay, clip_norm: in place of the package's. weights: factors of the micro-batches' losses and
        gradients. accumulate_by: without them, what each counts for: "tokens" (what its loss is divided by, as one
        batch of all rows has it), "rows" or "mean"; None is tokens where the package counts them, else the mean. Raises Nonfinite where the loss or gradients are not finite, with
        nothing changed, unless `allow_nonfinite`; on a GPU where the loss is read, or in the next step.
        """
        handle = self._live()
        options = self._options
        try:
            options.lr = _NAN if lr is None else lr
            options.weight_decay = _NAN if weight_decay is None else weight_decay
            options.clip_norm = _NAN if clip_norm is None else clip_norm
        except TypeError:
            raise errors.InvalidArgument(
                f"lr, weight_decay and clip_norm are numbers: got {lr!r}, {weight_decay!r} and {clip_norm!r}"
            ) from None
        # With a lag all ranks ask for a loss or none does: here each may when it wants.
        lags = self.on_gpu and self.ranks is None
        options.flags = (capi.STEP_LAG if lags else 0) | (capi.STEP_ALLOW_NONFINITE if allow_nonfinite else 0)
        options.accumulate_by = self._weighting(accumulate_by)
        try:
            count = self._bind(batch, self._train_names, "training")
            options.weights = self._factors(weights, count)
        except errors.Error as failure:
            self._refuse(failure)
            raise
        error = self._error
        with interruptible(self):
            status = self._step(handle, self._batches, count, byref(options), byref(self._result), byref(error))
        if self._reads is not None:
            self._release()
        if not lags:
            if status:
                raise self._failure(status)
            loss = Loss(None)
            loss._settle(self._told())
            return loss
        return self._after_lagged(status)

    __call__ = step

    def _refuse(self, failure):
        """Other ranks make this step with a batch of theirs: it is an error of all, as what the library finds."""
        if self.ranks is None or self.ranks.world == 1:
            return
        self.ranks.refuse(failure)
        self._options.weights = None
        status = self._step(self._handle, self._batches, 0, byref(self._options), byref(self._result), byref(self._error))
        self._failure(status)
        failure.args = (f"rank {self.ranks.rank}: {failure}",)

    def gradients(self, batch, *, weights=None, accumulate_by=None, allow_nonfinite=False):
        """Forward and backward as the next step would run them, without an update: `grads` has the gradients."""
        handle = self._live()
        count = self._bind(batch, self._train_names, "training")
        options = self._options
        options.lr = options.weight_decay = options.clip_norm = _NAN
        options.flags = capi.STEP_ALLOW_NONFINITE if allow_nonfinite else 0
        options.weights = self._factors(weights, count)
        options.accumulate_by = self._weighting(accumulate_by)
        with interruptible(self):
            status = self._library.gradients(
                handle, self._batches, count, byref(options), byref(self._result), byref(self._error)
            )
        if self._reads is not None:
            self._release()
        if status:
            raise self._failure(status)
        loss = Loss(None)
        loss._settle(self._told())
        return loss

    def eval(self, batch):
        """Runs the model in evaluation mode; returns the loss (NaN without one). `outputs` has its results."""
        return self._evaluate(batch, 0)

    def predict(self, batch, outputs=None):
        """Outputs of the model in evaluation mode, by name; inputs that only the loss needs may be left out."""
        self._evaluate(batch, capi.EVAL_FILL_MISSING)
        names = outputs
        if names is None:
            names = [n for n, o in self.package.outputs.items() if o.used_in_eval and o.is_result]
        return {name: self.outputs[name] for name in ([names] if isinstance(names, str) else names)}

    def _evaluate(self, batch, flags):
        handle = self._live()
        self._bind(batch, self._eval_names, "evaluation", fill=bool(flags), single=True)
        options = capi.EvalOptions(ctypes.sizeof(capi.EvalOptions), flags)
        result = capi.EvalResult(size=ctypes.sizeof(capi.EvalResult))
        with interruptible(self):
            status = self._library.eval(handle, self._batches, byref(options), byref(result), byref(self._error))
        if self._reads is not None:
            self._release()
        if status:
            raise self._failure(status)
        return result.loss

    def finish(self):
        """Waits for all steps; returns the last one's loss, or None."""
        return self._finish()

    # Values: made when asked for, so that a session whose last reference goes is freed at once.

    @property
    def parameters(self):
        """Parameters by name: views of the session's memory; `parameters[name] = array` sets one."""
        return Values(self, capi.VALUE_PARAMETER, self.package.parameters, "parameter", "session_set_parameter")

    @property
    def grads(self):
        """Gradients of the last `gradients`, by the names of the trained parameters."""
        return Values(self, capi.VALUE_GRADIENT, [n for n, p in self.package.parameters.items() if p.trainable], "gradient")

    @property
    def optimizer_state(self):
        """State by name, "PARAMETER/exp_avg" for one; can be set as parameters can."""
        return Values(self, capi.VALUE_STATE, self.package.state, "state", "session_set_state")

    @property
    def outputs(self):
        """Outputs of the last evaluation, by name."""
        return Values(self, capi.VALUE_OUTPUT, self.package.outputs, "output")

    def memory(self):
        """Bytes that are held now; `total` is the most so far."""
        memory = capi.Memory(size=ctypes.sizeof(capi.Memory))
        self._call("session_memory", byref(memory))
        return Memory.of(memory)

    @property
    def copies(self):
        """How many arrays of batches on the GPU had to be copied within it so far, and why: none but the first few as a rule."""
        why = c_char_p()
        arrays = self._library.session_input_copies(self._live(), byref(why))
        return Copies(arrays, why.value.decode())

    @property
    def steps(self):
        """Steps done so far."""
        self._finish()
        return self._library.session_step(self._live())

    @property
    def seed(self):
        return self._library.session_seed(self._live())

    @property
    def threads(self):
        return self._library.session_threads(self._live())

    @property
    def warnings(self):
        """What the last loading or saving has to say, a line each."""
        return self._library.session_warnings(self._live()).decode().splitlines()

    def state_dict(self):
        """Parameters by their names in the model, as PyTorch's: copies on the host (tensors where PyTorch is loaded)."""
        self._finish()
        return {name: self._copy(self.parameters[name]) for name in self.package.parameters}

    def load_state_dict(self, state, strict=True):
        """Parameters from a mapping of arrays; returns the names that were not in it, if not `strict`."""
        if not isinstance(state, collections.abc.Mapping):
            raise errors.InvalidArgument(f"load_state_dict: expected a mapping of arrays by name, got {type(state).__name__}")
        missing = [name for name in self.package.parameters if name not in state]
        extra = [name for name in state if name not in self.package.parameters]
        if strict and (missing or extra):
            raise errors.BadData(
                f"load_state_dict: {len(missing)} of {len(self.package.parameters)} parameters are missing"
                + (f", '{missing[0]}' first" if missing else "")
                + f"; {len(extra)} other names came"
                + (f", '{extra[0]}' first" if extra else "")
            )
        for name in self.package.parameters:
            if name in state:
                self.parameters[name] = state[name]
        return missing

    def save(self, folder, keep=0, position=None):
        """A checkpoint under `folder`, whole or not at all; then removes all but the newest `keep` (0: none).

        position: what `load` gives back, of all that JSON can say.
        """
        text = None if position is None else json.dumps(position).encode()
        self._call("checkpoint_save", os.fsencode(folder), keep, text)

    def load(self, folder):
        """The newest valid checkpoint under `folder`: training goes on bit for bit. Returns its `position`."""
        info = capi.CheckpointInfo(size=ctypes.sizeof(capi.CheckpointInfo))
        self._call("checkpoint_load", os.fsencode(folder), byref(info))
        return json.loads(info.data_position)

    def cancel(self):
        """Ends the running call of another thread, or else the next one, with Cancelled. From any thread."""
        self._library.session_cancel(self._live())

    def __repr__(self):
        return f"<trainrt.Session of '{self.package.path}'>"

    # Within.

    @staticmethod
    def _copy(array):
        """On the host, as the caller's framework has it."""
        if "torch" in sys.modules:
            return array.torch().detach().cpu().clone()
        copy = array.numpy()
        return copy.copy() if array.device == "cpu" else copy

    def _failure(self, status):
        failure = self._library.failure(status, c_void_p(self._take_error()))
        if "torch" in sys.modules and type(failure) is errors.BadData:
            failure.args = (re.sub(r"data(\['.*?'\])\.astype\(numpy\.(\w+)\)", r"\g<0>, or batch\1.to(torch.\2)", str(failure)),)
        return failure

    def _take_error(self):
        error, self._error.value = self._error.value, None
        return error

    def _told(self):
        result = self._result
        return {
            "loss": result.loss, "step": result.step, "lr": result.lr, "milliseconds": result.milliseconds,
            "peak_bytes": result.peak_bytes, "nonfinite": result.nonfinite, "grad_norm": result.grad_norm,
        }  # fmt: skip

    def _after_lagged(self, status):
        """The call tells how the step before this one ended; this one is under way unless that was an error."""
        before, self._pending = self._pending, None
        if status:
            failure = self._failure(status)
            if before is not None:
                before._settle(self._told(), failure)
            raise failure
        if before is not None:
            before._settle(self._told())
        self._pending = Loss(self)
        return self._pending

    def _finish(self):
        before = self._pending
        if before is None or self._handle is None:
            return before
        self._pending = None
        with interruptible(self):
            status = self._library.session_finish(self._handle, byref(self._result), byref(self._error))
        failure = self._failure(status) if status else None
        before._settle(self._told(), failure)
        self._kept = None
        if failure is not None:
            raise failure
        return before

    @staticmethod
    def _weighting(by):
        if by not in capi.ACCUMULATE_BY:
            raise errors.InvalidArgument(f"accumulate_by: expected None, 'tokens', 'rows' or 'mean', got {by!r}")
        return capi.ACCUMULATE_BY.index(by)

    def _factors(self, weights, count):
        if weights is None:
            return None
        if not hasattr(weights, "__len__"):
            raise errors.InvalidArgument(f"weights: expected a factor for each micro-batch, got {weights!r}")
        if len(weights) != count:
            raise errors.InvalidArgument(f"weights: expected one for each of {count} micro-batches, got {len(weights)}")
        return (c_double * count)(*weights)

    def _bind(self, batch, names, purpose, fill=False, single=False):
        """Points the C API at the arrays of each micro-batch; returns how many there are."""
        if type(batch) is list and batch and isinstance(batch[0], (collections.abc.Mapping, tuple, list)):
            if single:
                raise errors.InvalidArgument("expected one batch, got a list of them")
            parts = batch
        elif type(batch) is list and not batch and self.ranks is not None:
            return 0  # the other ranks have some
        else:
            parts = (batch,)
        if len(self._bound) < len(parts) or self._batches_of is not names:
            self._bound = [_Bound(names, self.package) for _ in parts]
            self._batches = (capi.Batch * len(parts))(
                *((bound.inputs, len(names)) for bound in self._bound)
            )
            self._batches_of = names
        gpu_arrays = []
        for number, part in enumerate(parts):
            if not isinstance(part, collections.abc.Mapping):
                if not isinstance(part, (tuple, list)):
                    raise errors.ArrayError(
                        f"expected a mapping of arrays by name, or a tuple of them in the order {names}, got "
                        f"{type(part).__name__}"
                    )
                if len(part) != len(names):
                    raise errors.MissingInput(
                        f"expected {len(names)} arrays ({', '.join(names)}) for {purpose}, got {len(part)}"
                    )
                part = dict(zip(names, part))
            bound = self._bound[number]
            index = 0
            for name, slot in bound.slots.items():
                array = part.get(name)
                if array is None:
                    if fill:
                        continue
                    raise errors.MissingInput(
                        f"input '{name}' is {'None' if name in part else 'missing'}: {purpose} with '{os.path.basename(self.package.path)}' needs "
                        f"{', '.join(names)}; got {', '.join(map(str, part)) or 'nothing'}"
                    )
                gpu = _arrays.read(array, slot)
                if gpu is not None:
                    self._check_gpu(slot.text, gpu)
                    gpu_arrays.append(array)
                index += 1
            if fill:
                given = {name: slot for name, slot in bound.slots.items() if part.get(name) is not None}
                inputs = (capi.NamedTensor * len(given))(*((name.encode(), slot.tensor) for name, slot in given.items()))
                self._batches[number] = capi.Batch(inputs, len(given))
                self._batches_of = None
        if gpu_arrays:
            self._order(gpu_arrays)
        return len(parts)

    _batches_of = None

    def _check_gpu(self, what, gpu):
        if not self.on_gpu:
            raise errors.ArrayError(
                f"{what}: expected an array on the CPU, as the package is compiled for {self.package.target}, "
                f"got one on GPU {gpu}"
            )
        if gpu != self.device:
            raise errors.ArrayError(f"{what}: expected an array on GPU {self.device} or the CPU, got one on GPU {gpu}")

    def _order(self, arrays):
        """The session reads behind what the caller's stream has been given."""
        # Also those whose memory does not wait for streams live until they have been read. Of a step that the next call
        # waits for, that is the end of that call.
        self._read_before, self._kept = self._kept, arrays
        stream = _current_stream(arrays[0])
        self._library.call("session_wait_stream", self._handle, stream)
        self._reads = (stream,)

    def _release(self):
        """The caller's stream goes on behind the reading: it may change the arrays, or use their memory again."""
        (stream,), self._reads = self._reads, None
        self._library.call("session_signal_stream", self._handle, stream)
        self._read_before = None

    def _export(self, kind, name):
        return Array(self, self._managed(kind, name, None), kind, name)

    def _managed(self, kind, name, stream):
        managed = c_void_p()
        self._call("session_export", kind, name.encode(), stream, byref(managed))
        return managed.value

    def _dtype_of(self, name):
        known = self.package.parameters.get(name) or self.package.state[name]
        return known.dtype

    def _on_host(self, kind, name):
        """A value of the GPU, copied: NumPy's."""
        tensor = capi.Tensor()
        self._call(capi.HOST_COPIES[kind], name.encode(), byref(tensor))
        return _arrays.numpy_copy(tensor)

    def _set(self, function, name, array):
        if name not in self.package.parameters and name not in self.package.state:
            self.parameters[name]  # says which names there are
        tensor = capi.Tensor()
        slot = _arrays.Slot(name, tensor, what=function.rpartition("_")[2], dtype=self._dtype_of(name))
        gpu = _arrays.read(array, slot)
        if gpu is not None:
            self._check_gpu(slot.text, gpu)
            self._order([array])
        self._call(function, name.encode(), byref(tensor))
        if self._reads is not None:
            self._release()


def _current_stream(array):
    """The CUDA stream that the caller is working on."""
    kind = type(array)
    if kind.__module__.partition(".")[0] == "torch":
        import torch

        return torch.cuda.current_stream(array.device).cuda_stream
    return None
