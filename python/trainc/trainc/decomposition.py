# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What torch's exporter calls decomposition, without tracing the program once more, which is half of an export's time.

Models of transformers hold few operators that it would change: these are replaced one by one. A program that holds any other, or
changes something in place, is traced as ever, and so is every program where torch is not as known here.
"""

import contextlib
import operator

import torch

try:
    from torch.onnx._internal.exporter import _decomp, _fx_passes

    _implemented, _retrace = _decomp.get_onnx_implemented_overloads, _fx_passes.decompose_with_registry
except (ImportError, AttributeError):
    _fx_passes = None

_aten = torch.ops.aten
#: The exporter leaves them out behind the decomposition.
_ASSERTIONS = {
    _aten.sym_constrain_range_for_size.default, _aten._assert_async.default, _aten._assert_async.msg, _aten._assert_scalar.default,
    _aten._assert_tensor_metadata.default,
}  # fmt: skip
#: {operator: the same by its other name}
_NAMES = {_aten.__and__.Tensor: _aten.bitwise_and.Tensor, _aten.__or__.Tensor: _aten.bitwise_or.Tensor}


def _told(node, position, name):
    return node.args[position] if len(node.args) > position else node.kwargs.get(name)


#: {operator: the type that it casts to; None: it keeps its operand's}
_CASTS = {
    _aten.to.dtype: lambda node: _told(node, 1, "dtype"),
    _aten.to.dtype_layout: lambda node: node.kwargs.get("dtype"),
    _aten.to.device: lambda node: _told(node, 2, "dtype"),
    _aten.to.other: lambda node: _told(node, 1, "other").meta["val"].dtype,
    _aten.type_as.default: lambda node: _told(node, 1, "other").meta["val"].dtype,
}
#: Of a constant that nothing else sees: its operand.
_DETACH = _aten.detach_.default
_NO_GRADIENTS = getattr(torch.ops.higher_order, "wrap_with_set_grad_enabled", None)


def _inline(program):
    """Parts of the program that are modules of their own, for what PyTorch computes there without gradients, become nodes of it."""
    module, names = program.graph_module, {}
    graph = module.graph
    for node in [node for node in graph.nodes if node.target is _NO_GRADIENTS]:
        held, operands = node.args[1], node.args[2:]
        part = getattr(module, held.target)
        if any(inner.op == "get_attr" for inner in part.graph.nodes):
            continue  # parts of another kind, or within one another
        inputs = [inner for inner in part.graph.nodes if inner.op == "placeholder"]
        with graph.inserting_before(node):
            results = graph.graph_copy(part.graph, dict(zip(inputs, operands, strict=True)))
        for user in list(node.users):
            assert user.target is operator.getitem, "the results are a tuple"
            made = results[user.args[1]]
            names[user.name] = made.name
            user.replace_all_uses_with(made)
            graph.erase_node(user)
        graph.erase_node(node)
        if not held.users:
            graph.erase_node(held)
            delattr(module, held.target)
    _rename_results(program, names)
    module.recompile()


def _rename_results(program, names):
    """names: {a node's name: that of the node in its place}."""
    for result in program.graph_signature.output_specs:
        while getattr(result.arg, "name", None) in names:
            result.arg.name = names[result.arg.name]


def _is_plain(program, known):
    """Whether all that decomposing changes are the operators above."""
    signature = program.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
        return False
    for node in program.graph_module.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.op != "call_function":
            return False
        if node.target in _ASSERTIONS or node.target in _NAMES or node.target in _CASTS:
            continue
        if node.target is _DETACH and node.args[0].target is _aten.lift_fresh_copy.default:
            continue
        schema = getattr(node.target, "_schema", None)
        if node.target not in known or (schema is not None and schema.is_mutable):
            return False
    return True


def _replace(program):
    graph, names = program.graph_module.graph, {}
    for node in list(graph.nodes):
        if node.target in _ASSERTIONS:
            graph.erase_node(node)
        elif node.target in _NAMES:
            node.target = _NAMES[node.target]
        elif node.target is _DETACH:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
        elif node.target in _CASTS:
            made, dtype = node.args[0], _CASTS[node.target](node)
            if dtype is not None and dtype != made.meta["val"].dtype:
                with graph.inserting_before(node):
                    made = graph.call_function(_aten._to_copy.default, (made,), {"dtype": dtype})
                made.meta = dict(node.meta)
            names[node.name] = made.name
            node.replace_all_uses_with(made)
            graph.erase_node(node)
    graph.eliminate_dead_code()
    _rename_results(program, names)


def _decompose(program, registry):
    _inline(program)
    if not _is_plain(program, set(_implemented(registry))):
        return _retrace(program, registry)
    _replace(program)
    program.graph_module.recompile()
    return program


@contextlib.contextmanager
def without_retracing():
    """Within it, torch.onnx.export decomposes so."""
    if _fx_passes is None:
        yield
        return
    _fx_passes.decompose_with_registry = _decompose
    try:
        yield
    finally:
        _fx_passes.decompose_with_registry = _retrace
