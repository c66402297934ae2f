# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A module whose forward and backward are compiled, within a program of PyTorch: `trainc.autograd`.

Two packages for evaluation are made of one export. One computes the outputs. The other computes them again and, from
the gradients of the outputs, those of parameters and inputs. Parameters and buffers of floats are inputs of both, so
that no session has copies of the module's own to keep up with. Dropout draws from a counter whose seed is an input too: forward and
backward, which get the same seed, have the same mask.
"""

import contextlib
import inspect
import json
import pathlib
import shutil
import tempfile
import weakref

import onnx_ir
import torch
from torch.utils import _pytree

import trainrt

from . import cache, compiler, exporting, inputs
from .compiling import build_package, describe, describe_batch
from .errors import ExportError

_SEED = "dropout_seed"
_GRADIENT = "gradient."
_FLOATS = (onnx_ir.DataType.FLOAT, onnx_ir.DataType.DOUBLE, onnx_ir.DataType.FLOAT16, onnx_ir.DataType.BFLOAT16)


class _Outputs(torch.nn.Module):
    """The module as a function of tensors that returns tensors, then those that its batch norms would keep."""

    def __init__(self, module, names, values, repairs):
        """names: of tensors, as `values`, the example, has them within."""
        super().__init__()
        self.model = module
        self._names, self._values, self._repairs = names, values, repairs
        self.outputs = self.structure = None

    def forward(self, *tensors):
        self._repairs.statistics.clear()
        self._repairs.means.clear()
        with self._repairs.forward():
            result = self.model(**inputs.nest(self._values, dict(zip(self._names, tensors))))
        leaves, structure = _pytree.tree_flatten(result)
        for leaf in leaves:
            if not isinstance(leaf, torch.Tensor) and leaf is not None and not isinstance(leaf, (bool, int, float, str)):
                raise ExportError(
                    f"{type(self.model).__name__} returns a {type(leaf).__name__}: expected tensors, tuples, lists and "
                    "dicts of them, or a type that torch.export.register_dataclass knows"
                )
        results = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        self.structure = (structure, [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves])
        self.outputs = [f"output_{i}" for i in range(len(results))]
        for i, pair in enumerate(self._repairs.statistics):
            self.outputs += [f"mean_{i}", f"variance_{i}"]
            results += pair
        if not results:
            raise ExportError(f"{type(self.model).__name__} returns no tensor")
        # Each is a value of its own, also where it is an input or another output.
        return tuple(result.clone() for result in results)


class _Repairs(exporting.Repairs):
    """Also batch norms by their batch as what they are made of: the exporter has them by their statistics alone."""

    def __init__(self):
        super().__init__()
        #: Mean and variance of each batch norm, and which running mean they are for.
        self.statistics, self.means = [], []

    def _replace(self, function, args, kwargs):
        if function is torch.nn.functional.batch_norm:
            names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
            given = {"weight": None, "bias": None, "training": False, "eps": 1e-5, **exporting.given_arguments(names, args, kwargs)}
            if given["training"]:
                return self._batch_norm(**given)
        if function is torch.nn.functional.embedding:
            given = exporting.given_arguments(("input", "weight", "padding_idx"), args, kwargs)
            if (padding := given.pop("padding_idx", None)) is not None:
                # Without the argument, which only what trains listens to.
                rows = super()._replace(function, (), given)
                index = padding if padding >= 0 else given["weight"].shape[0] + padding
                return torch.where((given["input"] == index).unsqueeze(-1), rows.detach(), rows)
        return super()._replace(function, args, kwargs)

    def _batch_norm(self, input, running_mean, running_var, weight, bias, training, eps, momentum=None):
        axes = [axis for axis in range(input.dim()) if axis != 1]
        shape = [1, -1] + [1] * (input.dim() - 2)
        mean = input.mean(axes, keepdim=True)
        centred = input - mean
        variance = (centred * centred).mean(axes, keepdim=True)
        result = centred * torch.rsqrt(variance + eps)
        if weight is not None:
            result = result * weight.view(shape)
        if bias is not None:
            result = result + bias.view(shape)
        if running_mean is not None:
            count = torch.ones_like(input[:, :1]).sum()
            self.means.append(running_mean)
            self.statistics.append([mean.flatten(), (variance * (count / (count - 1))).flatten()])
        return result


def _value(name, dtype, shape):
    return onnx_ir.Value(name=name, type=onnx_ir.TensorType(dtype), shape=shape)


class _Nodes:
    """Adds nodes to a graph, before one of its own or at its end."""

    def __init__(self, graph, prefix):
        self._graph, self._prefix, self._count, self.before = graph, prefix, 0, None

    def add(self, op, *inputs, domain="", outputs=1, attributes=()):
        self._count += 1
        node = onnx_ir.Node(domain, op, inputs, attributes, num_outputs=outputs, name=f"{self._prefix}_{self._count}")
        for i, output in enumerate(node.outputs):
            output.name = f"{self._prefix}_{self._count}_{i}"
        if self.before is None:
            self._graph.append(node)
        else:
            self._graph.insert_before(self.before, node)
        return node.outputs[0]

    def constant(self, value, dtype, shape=()):
        self._count += 1
        count = len(value) if shape else 1
        tensor = onnx_ir.tensor(value if count and shape else value, dtype=dtype, name=f"{self._prefix}_{self._count}")
        return self.add("Constant", attributes=[onnx_ir.AttrTensor("value", tensor)])


def _seed_dropouts(model):
    """Dropout in training mode by masks of a counter that is hashed with the input `dropout_seed`; returns whether
    there is any. Integers of 32 bits are the same everywhere, so that two programs have the same masks."""
    graph = model.graph
    nodes, seed, unsigned = _Nodes(graph, "dropout"), None, onnx_ir.DataType.UINT32
    for number, node in enumerate([node for node in graph if node.op_type == "Dropout"]):
        if len(node.inputs) < 3:
            continue
        ratio, training = (onnx_ir.convenience.get_const_tensor(value) for value in node.inputs[1:3])
        ratio = None if ratio is None else float(ratio.numpy())
        if training is None or ratio is None:
            raise ExportError(f"the dropout '{node.name}' is active in some runs only: its ratio and mode have to be fixed")
        if not bool(training.numpy()) or ratio == 0:
            continue
        if seed is None:
            seed = _value(_SEED, unsigned, onnx_ir.Shape([]))
            graph.inputs.append(seed)
        nodes.before = node
        x = node.inputs[0]
        shape = nodes.add("Shape", x)
        count = nodes.add("ReduceProd", shape, attributes=[onnx_ir.AttrInt64("keepdims", 0)])
        zero, one = (nodes.constant(value, onnx_ir.DataType.INT64) for value in (0, 1))
        index = nodes.add("Reshape", nodes.add("Range", zero, count, one), shape)
        bits = nodes.add("Cast", index, attributes=[onnx_ir.AttrInt64("to", unsigned)])
        bits = nodes.add("Add", bits, nodes.constant(number * 0x9E3779B9 % 2**32, unsigned))
        bits = nodes.add("BitwiseXor", bits, seed)

        def mix(bits, shift):
            shifted = nodes.add("BitShift", bits, nodes.constant(shift, unsigned), attributes=[onnx_ir.AttrString("direction", "RIGHT")])
            return nodes.add("BitwiseXor", bits, shifted)

        # The finalizer of a hash of 32 bits ("lowbias32", of Christopher Wellons's search), twice.
        for factor in (0x7FEB352D, 0x846CA68B, 0x7FEB352D, 0x846CA68B):
            bits = nodes.add("Mul", mix(bits, 16 if factor == 0x7FEB352D else 15), nodes.constant(factor, unsigned))
        bits = mix(bits, 16)
        kept = nodes.add("GreaterOrEqual", bits, nodes.constant(min(round(ratio * 2**32), 2**32 - 1), unsigned))
        mask = nodes.add("CastLike", kept, x)
        scale = nodes.constant(0.0 if ratio == 1 else 1 / (1 - ratio), x.dtype)
        result = nodes.add("Mul", nodes.add("Mul", x, mask), scale)
        onnx_ir.convenience.replace_all_uses_with(node.outputs[0], result)
        for i, output in enumerate(graph.outputs):
            if output is node.outputs[0]:
                graph.outputs[i] = result
        graph.remove(node, safe=True)
    return seed is not None


def _add_gradients(model, wanted):
    """The gradients of `wanted` are the outputs, and those of what were outputs are inputs."""
    graph = model.graph
    nodes, total = _Nodes(graph, "backward"), None
    for output in list(graph.outputs):
        if output.dtype not in _FLOATS or not output.name.startswith("output_"):
            continue
        upstream = _value(_GRADIENT + output.name, output.dtype, output.shape)
        graph.inputs.append(upstream)
        part = nodes.add("Mul", output, upstream)
        if len(output.shape):
            part = nodes.add("ReduceSum", part, attributes=[onnx_ir.AttrInt64("keepdims", 0)])
        part = nodes.add("Cast", part, attributes=[onnx_ir.AttrInt64("to", onnx_ir.DataType.FLOAT)]) if output.dtype in _FLOATS[2:] else part
        if total is not None and total.dtype != part.dtype:
            part = nodes.add("CastLike", part, total)
        total = part if total is None else nodes.add("Add", total, part)
    values = {value.name: value for value in graph.inputs}
    xs = [values[name] for name in wanted]
    first = nodes.add(
        "Gradient", *xs, domain="ai.onnx.preview.training", outputs=len(xs),
        attributes=[onnx_ir.AttrStrings("xs", list(wanted)), onnx_ir.AttrString("y", total.name)],
    )  # fmt: skip
    model.opset_imports["ai.onnx.preview.training"] = 1
    del graph.outputs[:]
    for x, gradient in zip(xs, first.producer().outputs):
        gradient.name, gradient.dtype, gradient.shape = _GRADIENT + x.name, x.dtype, x.shape
        graph.outputs.append(gradient)


@contextlib.contextmanager
def _fixed_momentum(module):
    """Of batch norms that average all batches: the number of these is no part of the graph."""
    norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and m.momentum is None]
    for norm in norms:
        norm.momentum = 0.1
    try:
        yield
    finally:
        for norm in norms:
            norm.momentum = None


class _Program:
    """The packages of a module in one mode: that of the outputs, and those of gradients by what is wanted."""

    def __init__(self, owner):
        self._owner = owner
        self._folder, _ = owner.cached("forward", self._export)
        meta = json.loads((self._folder / "meta.json").read_text())
        self.inputs, self.values, self.outputs = meta["inputs"], meta["values"], meta["outputs"]
        self.floats, self.seeded = meta["floats"], meta["seeded"]
        #: {output: the inputs and values that it is computed from}.
        self.reaching = {name: frozenset(found) for name, found in meta["reaching"].items()}
        self.structure, self.norms = owner.run_once()
        self.forward = owner.session(self._folder / "model.tpk")
        self._backward = {}

    def _export(self, folder):
        owner = self._owner
        module = owner.module
        repairs = _Repairs()
        graph = _Outputs(module, list(owner.batch), owner.values, repairs)
        with _fixed_momentum(module):
            model = exporting.trace(graph, module, owner.batch, owner.axes, 20, repairs)
        exporting.rename(model.graph, module)
        exporting.strip(model)
        names = [name for name, _ in module.named_parameters()] + [name for name, _ in module.named_buffers()]
        values = []
        for name in names:
            value = model.graph.initializers.get(name)
            if value is not None and value.dtype in _FLOATS:
                del model.graph.initializers[name]
                value.const_value = None
                model.graph.inputs.append(value)
                values.append(name)
        seeded = _seed_dropouts(model)
        outputs = [value.name for value in model.graph.outputs]
        used = set(owner.batch).union(values)
        reaching = {value.name: sorted(exporting.reaching(value) & used) for value in model.graph.outputs}
        floats = [value.dtype in _FLOATS for value in model.graph.outputs]
        (folder / "model.onnx").write_bytes(onnx_ir.to_proto(model).SerializeToString())
        (folder / "meta.json").write_text(json.dumps({
            "inputs": list(owner.batch), "values": values, "outputs": outputs, "floats": floats, "seeded": seeded,
            "reaching": reaching,
        }))  # fmt: skip
        owner.build(folder)

    def gradients(self, wanted):
        """The session that computes the gradients of these inputs."""
        if wanted not in self._backward:
            def make(folder):
                model = onnx_ir.load(self._folder / "model.onnx")
                _add_gradients(model, wanted)
                (folder / "model.onnx").write_bytes(onnx_ir.to_proto(model).SerializeToString())
                self._owner.build(folder)

            folder, _ = self._owner.cached("backward", make, wanted)
            self._backward[wanted] = self._owner.session(folder / "model.tpk")
        return self._backward[wanted]


class _Run(torch.autograd.Function):
    @staticmethod
    def forward(ctx, program, seed, *tensors):
        ctx.program, ctx.seed = program, seed
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        names = [*program.inputs, *program.values]
        batch = {name: tensor.detach().contiguous() for name, tensor in zip(names, tensors)}
        if program.seeded:
            batch[_SEED] = seed
        session = program.forward
        session.eval(batch)
        results = tuple(session.outputs[name].torch().clone() for name in program.outputs)
        ctx.like = [result.new_empty(()).expand(result.shape) for result in results]
        ctx.mark_non_differentiable(*(
            result for name, result, is_float in zip(program.outputs, results, program.floats)
            if not is_float or not name.startswith("output_")
        ))  # fmt: skip
        return results

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *upstream):
        program, tensors = ctx.program, ctx.saved_tensors
        names = [*program.inputs, *program.values]
        wanted = tuple(name for name, needs in zip(names, ctx.needs_input_grad[2:]) if needs)
        # As PyTorch has it: what no used output is computed from has no gradient, and not one of zeros.
        reached = frozenset().union(*(program.reaching[name] for name, gradient in zip(program.outputs, upstream) if gradient is not None))
        if not reached.intersection(wanted):
            return (None, None, *(None for _ in names))
        session = program.gradients(wanted)
        batch = {name: tensor.detach().contiguous() for name, tensor in zip(names, tensors)}
        for name, gradient, like in zip(program.outputs, upstream, ctx.like):
            batch[_GRADIENT + name] = torch.zeros_like(like, memory_format=torch.contiguous_format) if gradient is None else gradient.contiguous()
        if program.seeded:
            batch[_SEED] = ctx.seed
        session.eval(batch)
        found = {name: session.outputs[_GRADIENT + name].torch().clone() for name in wanted if name in reached}
        return (None, None, *(found.get(name) for name in names))


class Autograd(torch.nn.Module):
    """`module`, computed by packages; its parameters, and what it returns, are the module's own."""

    def __init__(self, module, example, dynamic, other, use_cache, session, options, tell):
        super().__init__()
        inputs.check(module)
        self.module = module
        self._signature = inspect.signature(module.forward)
        self.values = inputs.by_name(module, example)
        self.batch, self.constants = inputs.as_inputs(module, example), inputs.as_constants(module, example)
        self.axes = inputs.free_sizes(self.batch, dynamic, None if other is None else inputs.as_inputs(module, other))
        self.batch = inputs.at_least_two(self.batch, self.axes)
        self._use_cache, self._session, self._options, self._tell = use_cache, session, options, tell
        self._programs = {}
        # Errors come here rather than in the loop.
        program = self._program()
        given = inputs.as_inputs(module, example)
        needed = [name for name in program.inputs if given[name].requires_grad]
        parameters = dict(module.named_parameters())
        needed += [name for name in program.values if name in parameters and parameters[name].requires_grad]
        if needed:
            program.gradients(tuple(needed))

    def _mode(self):
        return tuple(child.training for child in self.module.modules())

    def _program(self):
        mode = self._mode()
        if mode not in self._programs:
            self._programs[mode] = _Program(self)
        return self._programs[mode]

    def run_once(self):
        """How the module's tensors are put together, and its batch norms in the order in which they are computed."""
        repairs = _Repairs()
        graph = _Outputs(self.module, list(self.batch), self.values, repairs)
        with torch.no_grad(), exporting.unchanged(self.module), repairs:
            graph(*self.batch.values())
        norms = {id(norm.running_mean): norm for norm in self.module.modules() if getattr(norm, "running_mean", None) is not None}
        return graph.structure, [norms[id(mean)] for mean in repairs.means]

    def cached(self, kind, make, *more):
        if self._use_cache:
            return cache.get(cache.key(
                "autograd", kind, describe(self.module), describe_batch(self.module, self.values), self.axes, self._options,
                compiler.version(), compiler.machine(), *more,
            ), make, lambda folder: trainrt.Package(folder / "model.tpk"))  # fmt: skip
        folder = pathlib.Path(tempfile.mkdtemp(prefix="trainc-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        make(folder)
        return folder, False

    def build(self, folder):
        kernels = cache.folder() / "kernels" if self._use_cache else None
        options = {**self._options, "inference": True}
        build_package(folder / "model.onnx", folder / "model.tpk", options, self._tell, kernels)

    def session(self, package):
        return trainrt.Session(package, weights="none", inference=True, **self._session)

    def forward(self, *args, **kwargs):
        program = self._program()
        given = self._signature.bind(*args, **kwargs).arguments
        for parameter in self._signature.parameters.values():
            if parameter.kind == parameter.VAR_KEYWORD:
                given.update(given.pop(parameter.name, {}))
        given = inputs.flatten(given)
        tensors = []
        for name in program.inputs:
            if not isinstance(given.get(name), torch.Tensor):
                raise trainrt.errors.MissingInput(
                    f"input '{name}' is missing: expected a tensor, as in the example, got {type(given.get(name)).__name__}"
                )
            tensors.append(given[name])
        for name, value in given.items():
            if name in self.constants and value == self.constants[name]:
                continue
            if name not in program.inputs and value is not None:
                raise trainrt.errors.InvalidArgument(f"input '{name}' was not in the example, so that the graph is without it")
        parameters, buffers = dict(self.module.named_parameters()), dict(self.module.named_buffers())
        tensors += [parameters[name] if name in parameters else buffers[name] for name in program.values]
        seed = None
        if program.seeded:
            seed = torch.randint(0, 2**32, (), dtype=torch.int64).numpy().astype("uint32")
        results = list(_Run.apply(program, seed, *tensors))
        if program.norms:
            self._keep(program.norms, results[-2 * len(program.norms) :])
        structure, fixed = program.structure
        results = iter(results)
        return _pytree.tree_unflatten([next(results) if leaf is None else leaf[0] for leaf in fixed], structure)

    @staticmethod
    @torch.no_grad()
    def _keep(norms, statistics):
        """Running statistics, as batch norms update them in training."""
        for norm, mean, variance in zip(norms, statistics[::2], statistics[1::2]):
            norm.num_batches_tracked.add_(1)
            share = 1 / norm.num_batches_tracked.item() if norm.momentum is None else norm.momentum
            norm.running_mean.lerp_(mean, share)
            norm.running_var.lerp_(variance, share)
