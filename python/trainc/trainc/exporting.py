# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A PyTorch module with its loss as an ONNX graph that trains as the module does.

What exporters lose on the way (docs/exporting.md) is repaired here before anything is written, or is an error that
names the module.
"""

import ast
import collections.abc
import contextlib
import dataclasses
import inspect
import logging
import os
import pathlib
import re
import warnings

import torch

from . import plugins
from .errors import ExportError
from .inputs import as_inputs, at_least_two, by_name, check, free_sizes, nest

try:
    import onnx_ir
    import onnxscript  # noqa: F401, which torch.onnx needs
except ImportError as error:
    raise ExportError(f"exporting a module needs {error.name}: pip install onnxscript") from None

#: Notes of the exporter that trainc reads; all else that only tells where in Python a node is from goes.
_NOTES = ("pkg.torch.onnx.fx_node", "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy")
_INSIDE = 1 << 30  # bytes of weights that a file of protobuf holds well


@dataclasses.dataclass(frozen=True)
class Exported:
    """A graph on disk: inputs and outputs by name, what is trained, what compiling it has to be told."""

    path: pathlib.Path
    inputs: tuple
    outputs: tuple
    trainable: tuple
    options: dict


class _Graph(torch.nn.Module):
    """The module with its loss, as a function of tensors: the first output is the loss."""

    def __init__(self, module, names, values, loss):
        """names: of tensors, as `values`, the example, has them within."""
        super().__init__()
        self.model = module
        self._names, self._loss = names, loss
        self.outputs = None
        parameters = inspect.signature(module.forward).parameters
        takes_all = any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters.values())
        self._values = values
        self._taken = [name for name, value in values.items() if value is not None and (takes_all or name in parameters)]
        extra = [name for name, value in values.items() if name not in self._taken and not isinstance(value, (bool, str, type(None)))]
        if not callable(loss) and extra:
            raise ExportError(
                f"{type(module).__name__}.forward has no argument '{extra[0]}': give `loss=`, a function of what it "
                "returns and the batch, or leave that input out"
            )
        self._fixed = {"use_cache": False} if "use_cache" in parameters else {}

    def forward(self, *tensors):
        batch = nest(self._values, dict(zip(self._names, tensors)))
        with self.repairs.forward():
            return self._forward(batch)

    def _forward(self, batch):
        result = self.model(**{**{name: batch[name] for name in self._taken}, **self._fixed})
        if callable(self._loss):
            loss, named = self._loss(result, batch), dict(_named(result))
        else:
            named = dict(_named(result))
            key = self._loss or ("loss" if "loss" in named else next(iter(named), None))
            if key not in named:
                raise ExportError(
                    f"loss='{key}': {type(self.model).__name__} returns {', '.join(named) or 'no tensors'}"
                )
            loss = named.pop(key)
        if not isinstance(loss, torch.Tensor) or loss.dim() != 0:
            what = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
            raise ExportError(
                f"the loss of {type(self.model).__name__} is {what}, not a scalar: its mean, or `loss=`, a function of "
                "what forward returns and the batch"
            )
        named.pop("loss", None)
        self.outputs = ["loss", *named]
        return (loss, *named.values())


def _named(result):
    """The tensors that a forward returns, by name."""
    if isinstance(result, torch.Tensor):
        yield "output", result
    elif isinstance(result, collections.abc.Mapping) or hasattr(result, "items"):
        for name, value in result.items():
            if isinstance(value, torch.Tensor):
                yield name, value
    elif isinstance(result, (tuple, list)):
        for index, value in enumerate(result):
            if isinstance(value, torch.Tensor):
                yield f"output_{index}", value
    elif dataclasses.is_dataclass(result):
        yield from _named({field.name: getattr(result, field.name) for field in dataclasses.fields(result)})


def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    """Attention as what it is made of, whose dropout the exporter keeps (PyTorch's documentation of scaled_dot_product_attention)."""
    if enable_gqa:
        key = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
        value = value.repeat_interleave(query.size(-3) // value.size(-3), -3)
    scores = query @ key.transpose(-2, -1) * (query.size(-1) ** -0.5 if scale is None else scale)
    if is_causal:
        rows = torch.arange(query.size(-2), device=query.device)
        columns = torch.arange(key.size(-2), device=query.device)
        scores = scores.masked_fill(columns[None, :] > rows[:, None], float("-inf"))
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        # The smallest number, as Hugging Face's eager attention: a row without any key is no NaN.
        scores = scores.masked_fill(attn_mask.logical_not(), torch.finfo(scores.dtype).min)
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = torch.softmax(scores, -1)
    if dropout_p:
        weights = torch.nn.functional.dropout(weights, dropout_p, training=True)
    return weights @ value


def _cross_entropy(logits, target, weight=None, reduction="mean", ignore_index=-100, label_smoothing=0.0):
    """Cross entropy of each element, which the exporter takes for a scalar (PyTorch's documentation of
    CrossEntropyLoss)."""
    scores = torch.log_softmax(logits, 1 if logits.dim() > 1 else 0)
    axis = 1 if logits.dim() > 1 else 0
    if target.is_floating_point():
        factors = target if weight is None else target * weight.view([-1] + [1] * (logits.dim() - 2))
        return -(scores * factors).sum(axis)
    counts = target != ignore_index
    index = torch.where(counts, target, 0)
    factor = counts.to(scores.dtype) if weight is None else weight[index] * counts
    loss = -scores.gather(axis, index.unsqueeze(axis)).squeeze(axis) * factor
    if label_smoothing:
        all_factors = 1.0 if weight is None else weight.view([-1] + [1] * (logits.dim() - 2))
        smooth = -(scores * all_factors).sum(axis) * counts
        loss = (1 - label_smoothing) * loss + label_smoothing / scores.shape[axis] * smooth
    return loss


def _nll_loss(scores, target, weight=None, ignore_index=-100):
    counts = target != ignore_index
    index = torch.where(counts, target, 0)
    factor = counts.to(scores.dtype) if weight is None else weight[index] * counts
    axis = 1 if scores.dim() > 1 else 0
    return -scores.gather(axis, index.unsqueeze(axis)).squeeze(axis) * factor


def _embedding_bag(where, input, weight, offsets=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean",
                   sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):  # fmt: skip
    """Rows of a table, summed (PyTorch's documentation of EmbeddingBag)."""
    if input.dim() != 2:
        raise ExportError(f"{where} has an embedding bag with offsets: give it rows of one length, with padding_idx= in the rest")
    rows = torch.nn.functional.embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)
    counts = torch.ones_like(input) if padding_idx is None else (input != padding_idx)
    counts = counts.unsqueeze(-1).to(rows.dtype)
    if mode == "max":
        return torch.where(counts > 0, rows, torch.finfo(rows.dtype).min).amax(1) * (counts.amax(1) > 0)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    total = (rows * counts).sum(1)
    return total / counts.sum(1).clamp(min=1) if mode == "mean" else total


def given_arguments(names, args, kwargs):
    return {**dict(zip(names, args)), **kwargs}


@contextlib.contextmanager
def _applied_by(call):
    """Calls of any torch.autograd.Function are those of `call`, which gets the `apply` of PyTorch first."""
    before = vars(torch.autograd.Function)["apply"]
    torch.autograd.Function.apply = classmethod(lambda cls, *args, **kwargs: call(before.__get__(None, cls), cls, *args, **kwargs))
    try:
        yield
    finally:
        torch.autograd.Function.apply = before


class Repairs(torch.overrides.TorchFunctionMode):
    """Functions whose meaning would be lost, as what they are made of."""

    def __init__(self):
        super().__init__()
        self.path = []  # of modules that run, while `watched`
        self.seen = {}  # {name of a function: where}
        self.trained = False  # within forward, where that has gradients
        self.functions = {}  # {name of a torch.autograd.Function: the module that calls it}, while `watched`
        self.written = []  # what nodes written by torch.onnx.ops.symbolic give, while a function runs

    def where(self):
        """The module that is running, for a message."""
        return self.path[-1] if self.path else "the module"

    def caller(self, operator):
        """The module that called an operator, by the name that its function is likely to have; None if none did."""
        def plain(name):
            return re.sub(r"\d|_|linalg", "", name)

        return next((where for name, where in self.seen.items() if name and plain(name) == plain(operator)), None)

    @contextlib.contextmanager
    def forward(self):
        """Around the module itself; the exporter calls functions for its own ends behind it."""
        if torch.compiler.is_dynamo_compiling():
            raise RuntimeError("the exporter's second way, by bytecode, sees no repairs")
        self.trained = torch.is_grad_enabled()
        try:
            yield
        finally:
            self.trained = False

    @contextlib.contextmanager
    def watched(self, module):
        """Knows which module runs, and which calls functions with a gradient of their own."""

        def enter(name):
            return lambda child, args: self.path.append(f"module '{name}' ({type(child).__name__})" if name else type(child).__name__)

        def note(apply, cls, *args, **kwargs):
            self.functions.setdefault(cls.__qualname__, self.where())
            return apply(*args, **kwargs)

        handles = []
        for name, child in module.named_modules():
            handles.append(child.register_forward_pre_hook(enter(name)))
            handles.append(child.register_forward_hook(lambda child, args, result: self.path.pop() and None))
        try:
            with _applied_by(note):
                yield
        finally:
            for handle in handles:
                handle.remove()

    def exported(self):
        """While the exporter runs: a function with a gradient of its own writes nodes, which have that, or is refused."""
        return _applied_by(self._apply)

    def _apply(self, apply, cls, *args, **kwargs):
        # PyTorch makes one of each operator of torch.library, which is a node as a whole.
        if cls.__module__ == "torch._library.autograd":
            return apply(*args, **kwargs)
        before, self.written = self.written, []
        # What it runs is without gradients, and its result is not.
        trained, self.trained = self.trained, False
        try:
            result = apply(*args, **kwargs)
            tensors = [value for value in torch.utils._pytree.tree_leaves(result) if isinstance(value, torch.Tensor)]
            written = all(any(value is other for other in self.written) for value in tensors)
        finally:
            self.written, self.trained = before, trained
        if not written:
            raise ExportError(
                f"{self.functions.get(cls.__qualname__, 'the module')} uses {cls.__name__}, a torch.autograd.Function, whose backward no graph tells: write it "
                "with operations (x + (f(x) - x).detach() has the values of f and the gradient of x), or give as its results those of "
                "torch.onnx.ops.symbolic, an operator of a plug-in (docs/plugins.md)"
                + (", or give checkpoint() use_reentrant=False" if cls.__name__ == "CheckpointFunction" else "")
            )
        return self._with_gradient(result)

    def _with_gradient(self, result):
        """A result as the module has it: within no_grad, which graphs do not have, without its gradient."""
        if not self.trained or torch.is_grad_enabled():
            return result
        return torch.utils._pytree.tree_map_only(torch.Tensor, lambda value: value.detach() if value.is_floating_point() else value, result)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = self._replace(function, args, kwargs or {})
        if getattr(function, "namespace", None) == "onnx_symbolic":
            self.written += [result] if isinstance(result, torch.Tensor) else result
        return self._with_gradient(result)

    def _replace(self, function, args, kwargs):
        functional = torch.nn.functional
        if self.path:
            self.seen.setdefault(getattr(function, "__name__", "").strip("_"), self.path[-1])
        if function is functional.scaled_dot_product_attention:
            return _attention(*args, **kwargs)
        if function is functional.embedding_bag:
            return _embedding_bag(self.where(), *args, **kwargs)
        if function is functional.embedding:
            given = given_arguments(("input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq"), args, kwargs)
            for name in ("max_norm", "scale_grad_by_freq"):
                if given.get(name):
                    raise ExportError(f"{self.where()} has {name}=, which no graph tells: leave it out")
        if function is functional.cross_entropy:
            names = ("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing")
            given = given_arguments(names, args, kwargs)
            if given.get("reduction", "mean") == "none" and given.get("reduce") is None:
                return _cross_entropy(
                    given["input"], given["target"], given.get("weight"), "none", given.get("ignore_index", -100),
                    given.get("label_smoothing", 0.0),
                )  # fmt: skip
        if function is functional.nll_loss:
            names = ("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction")
            given = given_arguments(names, args, kwargs)
            if given.get("reduction", "mean") == "none" and given.get("reduce") is None:
                return _nll_loss(given["input"], given["target"], given.get("weight"), given.get("ignore_index", -100))
        return function(*args, **kwargs)


def rename(graph, module):
    """Initializers as the module's state dict names them, tied ones by their first name; returns what is trained."""
    aliases = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        aliases.setdefault(id(parameter), (parameter, []))[1].append(name)
    trained = []
    for parameter, names in aliases.values():
        found = [f"model.{name}" for name in names if f"model.{name}" in graph.initializers]
        if len(found) > 1:
            raise ExportError(f"the exporter wrote the parameter '{names[0]}' {len(found)} times, not once")
        if not found:
            continue  # the loss does not depend on it
        value = graph.initializers.pop(found[0])
        value.name = names[0]
        graph.initializers[names[0]] = value
        if parameter.requires_grad:
            trained.append(names[0])
    for name, _ in module.named_buffers():
        if f"model.{name}" in graph.initializers and name not in graph.initializers:
            value = graph.initializers.pop(f"model.{name}")
            value.name = name
            graph.initializers[name] = value
    _free_names(graph, module)
    return trained


def _free_names(graph, module):
    """Values that have the name of a parameter, an input or an output by chance get another one."""
    for value in graph.inputs:
        if value.name in graph.initializers:
            raise ExportError(f"input '{value.name}' has the name of a parameter or buffer of {type(module).__name__}: rename one")
    taken = {value.name: value for value in [*graph.inputs, *graph.initializers.values()]}
    for value in graph.outputs:
        if taken.setdefault(value.name, value) is not value:
            raise ExportError(f"output '{value.name}' has the name of a parameter, buffer or input of {type(module).__name__}: rename one")
    for node in graph.all_nodes():
        for value in node.outputs:
            if taken.get(value.name, value) is not value:
                value.name = f"{value.name}/of_{node.op_type}"


def reaching(value):
    """Names of all values that a gradient of it reaches: what it is computed from, but through detach()."""
    names, values = set(), [value]
    while values:
        value = values.pop()
        if value is None or value.name in names:
            continue
        names.add(value.name)
        node = value.producer()
        if node is not None and "aten.detach" not in node.metadata_props.get("pkg.torch.onnx.fx_node", ""):
            values += node.inputs
            for attribute in node.attributes.values():
                if attribute.type == onnx_ir.AttributeType.GRAPH:
                    values += (used for within in attribute.value.all_nodes() for used in within.inputs)
    return names


def strip(model):
    model.graph.metadata_props.clear()
    for node in model.graph.all_nodes():
        node.doc_string = None
        for key in [key for key in node.metadata_props if key not in _NOTES]:
            del node.metadata_props[key]
        for value in node.outputs:
            value.metadata_props.clear()
    for value in [*model.graph.inputs, *model.graph.initializers.values()]:
        value.metadata_props.clear()


@contextlib.contextmanager
def _quiet():
    """Without what the exporter says of libraries that are not there, of the training mode, and of sizes that share a
    name."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def unchanged(module):
    """Leaves the module's buffers and PyTorch's random numbers as they are."""
    state = {name: buffer.clone() for name, buffer in module.named_buffers()}
    random = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(random)
        with torch.no_grad():
            for name, buffer in module.named_buffers():
                if name in state:
                    buffer.copy_(state[name])


def trace(graph, module, batch, axes, opset, repairs):
    """The exporter's IR of `graph`, which is around `module` and names its outputs when it is run."""
    graph.training = module.training  # without its children, which are as the caller has them
    shapes = tuple(axes.get(name) or None for name in batch)
    if any(parameter.is_meta for parameter in module.parameters()):
        batch = {name: tensor.to("meta") for name, tensor in batch.items()}
    with _quiet(), unchanged(module), repairs:
        # Once by itself: the names of outputs, and errors of the module as it raises them.
        with torch.no_grad(), repairs.watched(module):
            graph(*batch.values())
        try:
            with repairs.exported():
                return torch.onnx.export(
                    graph, tuple(batch.values()), dynamo=True, optimize=False, opset_version=opset, verbose=False,
                    input_names=list(batch), output_names=graph.outputs, dynamic_shapes={"tensors": shapes},
                    **plugins.export_options(),
                ).model  # fmt: skip
        except Exception as error:
            cause = error.__cause__ or error
            # The exporter has one way for all errors.
            if isinstance(cause, ExportError):
                raise cause from None
            # Its first paragraph: the rest, with all traces, is the exception behind this one.
            said = str(cause).strip().partition("\n\n")[0] or type(cause).__name__
            where = type(module).__name__
            if operator := re.search(r"target=torch\.ops\.(aten\.\w+)|^(aten\.\w+)", said):
                name = operator[1] or operator[2]
                where = repairs.caller(name.partition(".")[2]) or where
                said = f"PyTorch's exporter has no translation of {name}; write it with other operations"
            elif operator := re.search(r"target=torch\.ops\.(\w+)\.(\w+)", said):
                said = plugins.untranslated(f"{operator[1]}::{operator[2]}") or said
            raise ExportError(f"{where} cannot be exported: {said}") from error


def export(module, example, path, *, loss=None, dynamic=None, other=None, opset=20, weights="beside"):
    """Writes `module` with its loss to `path`, as it trains; returns what was written.

    example: a batch, by name or in the order of forward's arguments. loss: None (forward returns it: alone, first, or
    as `loss`), the key of what forward returns, or a function of that and the batch (a dict).
    dynamic: {input: {axis: name}} of the sizes that batches decide; or a second example as `other`, whose sizes differ
    where they are free; else the first axis of all inputs, "batch".
    weights: "beside": in the file, or above 1 GiB in one beside it; "absent": they stay in the module, and are given to
    the session by name. Buffers are always in the file.
    """
    if weights not in ("beside", "absent"):
        raise ExportError(f"weights: expected 'beside' or 'absent', got {weights!r}")
    path = pathlib.Path(path)
    batch = as_inputs(module, example)
    axes = free_sizes(batch, dynamic, None if other is None else as_inputs(module, other))
    batch = at_least_two(batch, axes)
    options = check(module)
    graph = _Graph(module, list(batch), by_name(module, example), loss)
    graph.repairs = Repairs()
    model = trace(graph, module, batch, axes, opset, graph.repairs)
    trained = rename(model.graph, module)
    strip(model)
    if not reaching(model.graph.outputs[0]).intersection(trained):
        raise ExportError(f"no parameter of {type(module).__name__} has requires_grad and reaches the loss")
    model.metadata_props["trainable"] = "\n".join(trained)
    parameters = dict(module.named_parameters())
    if weights == "absent":
        end = 0
        for name in parameters:
            if name in model.graph.initializers:
                value = model.graph.initializers[name]
                size = value.const_value.nbytes
                value.const_value = onnx_ir.ExternalTensor(
                    f"{path.name}.absent", end, size, value.dtype, shape=value.shape, name=name,
                    base_dir=path.parent.resolve(),
                )  # fmt: skip
                end += size
    total = sum(value.const_value.nbytes for value in model.graph.initializers.values())
    if weights == "beside" and total > _INSIDE:
        onnx_ir.save(model, path, external_data=f"{path.name}.data")
    else:
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        temporary.write_bytes(onnx_ir.to_proto(model).SerializeToString())
        temporary.replace(path)
    outputs = tuple(value.name for value in model.graph.outputs)
    return Exported(path, tuple(value.name for value in model.graph.inputs), outputs, tuple(trained), options)


def with_modules(error, path):
    """The compiler's error about a node, with the module that the node is of."""
    model = onnx_ir.load(path)
    nodes = {node.name: node for node in model.graph.all_nodes()}
    told = []
    for name in re.findall(r"node '([^']+)'", str(error)):
        scopes = ast.literal_eval(nodes[name].metadata_props.get("pkg.torch.onnx.name_scopes", "[]")) if name in nodes else []
        modules = [scope.removeprefix("model.") for scope in scopes[:-1] if scope not in ("", "model")]
        if modules and (line := f"node '{name}' is of module '{modules[-1]}'") not in told:
            told.append(line)
    return type(error)("\n".join([str(error), *told]), error.log)
