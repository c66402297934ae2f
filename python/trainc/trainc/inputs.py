# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a module is given: the tensors of an example by name, and which of their sizes are free."""

import collections.abc
import inspect

import torch

from .errors import ExportError


def by_name(module, example):
    """The example's values by name: of a mapping, or of the module's own arguments in their order."""
    if isinstance(example, collections.abc.Mapping):
        return dict(example)
    values = tuple(example) if isinstance(example, (tuple, list)) else (example,)
    names = [
        name
        for name, parameter in inspect.signature(module.forward).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    names += [f"input_{i}" for i in range(len(names), len(values))]
    return dict(zip(names, values))


def is_nested(value):
    """Whether it is a dict, or a list or tuple of arrays: each within is an input. A list of numbers is one array."""
    if isinstance(value, collections.abc.Mapping):
        return True
    return isinstance(value, (list, tuple)) and any(hasattr(part, "__array__") or is_nested(part) for part in value)


def flatten(values):
    """What is within them by path, `parts.0` and `sizes.height`, as PyTorch's exporter names it."""
    leaves = {}

    def walk(path, value):
        if is_nested(value):
            for key, part in value.items() if isinstance(value, collections.abc.Mapping) else enumerate(value):
                walk(f"{path}.{key}", part)
        elif path in leaves:
            raise ExportError(f"two inputs have the name '{path}': rename one")
        else:
            leaves[path] = value

    for name, value in values.items():
        walk(name, value)
    return leaves


def nest(values, leaves):
    """`values` with these leaves in the places of its own, by path."""

    def walk(path, value):
        if not is_nested(value):
            return leaves.get(path, value)
        if isinstance(value, collections.abc.Mapping):
            return {key: walk(f"{path}.{key}", part) for key, part in value.items()}
        parts = [walk(f"{path}.{i}", part) for i, part in enumerate(value)]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)

    return {name: walk(name, value) for name, value in values.items() if value is not None}


def as_constants(module, example):
    """Of the example, what is a part of the graph and no input: switches and texts."""
    return {name: value for name, value in flatten(by_name(module, example)).items() if isinstance(value, (bool, str))}


def as_inputs(module, example):
    """The example's arrays by name."""
    tensors = {}
    for name, value in flatten(by_name(module, example)).items():
        if value is None or isinstance(value, (bool, str)):
            continue
        try:
            tensors[name] = value if isinstance(value, torch.Tensor) else torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError):
            raise ExportError(
                f"example['{name}']: expected a tensor or an array, or dicts, lists and tuples of them, got {type(value).__name__}"
            ) from None
    if not tensors:
        raise ExportError("the example has no arrays")
    return tensors


def check_kind(module):
    """That it is a module itself."""
    if not isinstance(module, torch.nn.Module):
        raise ExportError(f"expected a torch.nn.Module, got {type(module).__name__}")
    kind = type(module).__name__
    if hasattr(module, "_orig_mod") or isinstance(module, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
        within = "_orig_mod" if hasattr(module, "_orig_mod") else "module"
        raise ExportError(f"{kind} is around the module: give what is within, `model.{within}`")
    if isinstance(module, torch.jit.ScriptModule):
        raise ExportError(f"{kind} is no module of Python any more: give that which it was made of")


def check(module):
    """Refuses modules that no graph trains as PyTorch does; returns options that the compiler needs for this one."""
    check_kind(module)
    options = {}
    norms = {name: m for name, m in module.named_modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)}
    of_batch = [name for name, m in norms.items() if m.training or not m.track_running_stats]
    if norms:
        frozen = [name for name in norms if name not in of_batch]
        if of_batch and frozen:
            raise ExportError(
                f"module '{of_batch[0]}' normalizes by its batch and '{frozen[0]}' by its running statistics: one graph "
                "has one kind; call .train() or .eval() on both"
            )
        options["batchnorm"] = "train" if of_batch else "frozen"
    for name, m in module.named_modules():
        kinds = [type(p).__name__ for ps in getattr(m, "parametrizations", {}).values() for p in ps]
        hooks = [type(hook).__name__ for hook in getattr(m, "_forward_pre_hooks", {}).values()]
        if "_SpectralNorm" in kinds or "SpectralNorm" in hooks:
            raise ExportError(
                f"module '{name}' has spectral_norm, whose vectors change in every forward pass, which a graph has as "
                "constants: leave it out, or write the norm as operations of the weight"
            )
        if m._backward_hooks or m._backward_pre_hooks:
            raise ExportError(f"module '{name}' has a backward hook, which no graph has: remove it")
        if isinstance(m, torch.nn.modules.lazy.LazyModuleMixin) and m.has_uninitialized_params():
            raise ExportError(f"module '{name}' has no sizes yet: run it once")
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks:
            raise ExportError(f"parameter '{name}' has a hook on its gradient, which no graph has: remove it")
    for name, buffer in module.named_buffers():
        if buffer.is_meta:
            raise ExportError(f"buffer '{name}' is on the meta device: its values are a part of the graph, make it on the CPU")
    return options


def _given_sizes(batch, dynamic):
    """`dynamic` as {input: {axis: name}}; {input: [name, None]} says the same."""
    if not isinstance(dynamic, collections.abc.Mapping):
        raise ExportError(f"dynamic: expected {{input: {{axis: name}}}}, got {dynamic!r}")
    found = {}
    for name, axes in dynamic.items():
        if name not in batch:
            raise ExportError(f"dynamic: there is no input '{name}'; the example has {', '.join(batch)}")
        if not isinstance(axes, (collections.abc.Mapping, list, tuple)):
            raise ExportError(f"dynamic['{name}']: expected {{axis: name}}, got {axes!r}")
        axes = axes.items() if isinstance(axes, collections.abc.Mapping) else enumerate(axes)
        rank, found[name] = batch[name].dim(), {}
        for axis, size in axes:
            if size is None:
                continue
            if not isinstance(axis, int) or not -rank <= axis < rank:
                raise ExportError(f"dynamic['{name}']: there is no axis {axis!r}; its shape is {list(batch[name].shape)}")
            found[name][axis % rank] = size
    return found


def free_sizes(batch, dynamic=None, other=None):
    """{input: {axis: name}}: what `dynamic` says, else the axes whose sizes differ between two examples, else the
    first axis of all inputs that agree on it, "batch"."""
    if dynamic is not None:
        return _given_sizes(batch, dynamic)
    if other is not None:
        names, found = {}, {}
        for name, tensor in batch.items():
            if name not in other or other[name].dim() != tensor.dim():
                raise ExportError(f"the second example has no '{name}' with {tensor.dim()} axes")
            for axis, (one, two) in enumerate(zip(tensor.shape, other[name].shape)):
                if one != two:
                    known = ("batch" if axis == 0 else "seq" if axis == 1 else f"size_{len(names)}")
                    while known in names.values() and (one, two) not in names:
                        known = f"{known}_{len(names)}"
                    found.setdefault(name, {})[axis] = names.setdefault((one, two), known)
        return found
    sizes = {tensor.shape[0] for tensor in batch.values() if tensor.dim()}
    if len(sizes) != 1:
        return {}
    return {name: {0: "batch"} for name, tensor in batch.items() if tensor.dim()}


def at_least_two(batch, axes):
    """An exporter takes sizes of 0 and 1 for fixed: such a batch is repeated."""
    repeated = {}
    for name, tensor in batch.items():
        for axis in axes.get(name, {}):
            if tensor.shape[axis] < 2:
                if tensor.shape[axis] == 0:
                    raise ExportError(f"example['{name}'] is empty along axis {axis}")
                tensor = torch.cat([tensor, tensor], axis)
        # Two names for one tensor would be one input.
        repeated[name] = tensor.detach().clone()
    return repeated
