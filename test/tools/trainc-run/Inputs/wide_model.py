# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model whose weights are large enough for shards (with FROZEN, their codes of 4 bits, too), and data for it. In blocks of optimizer state the first weight is
whole, the second has a divisor that is no power of two, the third none."""

import numpy as np
import onnx
from onnx import TensorProto, helper

WIDTHS = 256, 300, 257, 263
FROZEN = 256, 600, 263


def write(path, batch="batch", widths=WIDTHS, rounded=()):
    """`rounded`: by layer the type, of TensorProto, that its weight is rounded to before it is used, and so its gradient; None: to none."""
    random, nodes, weights, x = np.random.default_rng(1), [], [], "x"
    for layer, (k, n) in enumerate(zip(widths, widths[1:])):
        arrays = {f"w{layer}": random.standard_normal((k, n)) * 0.06, f"b{layer}": random.standard_normal(n) * 0.1}
        weights += [onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
        weight = f"w{layer}"
        if layer < len(rounded) and rounded[layer] is not None:
            for to, name in ((rounded[layer], f"narrow{layer}"), (TensorProto.FLOAT, f"wide{layer}")):
                nodes.append(helper.make_node("Cast", [weight], [name], name, to=to))
                weight = name
        nodes.append(helper.make_node("MatMul", [x, weight], [f"m{layer}"], f"matmul{layer}"))
        nodes.append(helper.make_node("Add", [f"m{layer}", f"b{layer}"], [f"a{layer}"], f"add{layer}"))
        nodes.append(helper.make_node("Tanh", [f"a{layer}"], [f"t{layer}"], f"tanh{layer}"))
        x = f"t{layer}"
    nodes += [
        helper.make_node("Sub", [x, "y"], ["difference"], "sub"),
        helper.make_node("Mul", ["difference", "difference"], ["squares"], "square"),
        helper.make_node("ReduceMean", ["squares"], ["loss"], "mean", keepdims=0),
    ]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [batch, w]) for n, w in (("x", widths[0]), ("y", widths[-1]))]
    outputs = [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])]
    graph = helper.make_graph(nodes, "wide", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)


def widen(source, path, old, new):
    """`source` with MLPs of `new` hidden units in place of `old`, as exports write GPT-2."""
    random, model = np.random.default_rng(3), onnx.load(source)
    values = list(model.graph.initializer)
    for attribute in (a for node in model.graph.node for a in node.attribute if a.name in ("value", "value_ints")):
        values += [attribute.t] if attribute.HasField("t") else []
        attribute.ints[:] = [new if size == old else size for size in attribute.ints]
    for value in values:
        array = onnx.numpy_helper.to_array(value)
        if value.data_type == TensorProto.INT64 and array.size <= 8:  # of a reshape
            array = np.where(array == old, new, array)
        elif ".mlp.c_" in value.name and old in array.shape:
            array = random.standard_normal([new if size == old else size for size in array.shape]).astype(np.float32) * 0.02
        else:
            continue
        value.CopyFrom(onnx.numpy_helper.from_array(array, value.name))
    del model.graph.value_info[:]
    onnx.save(model, path)


def rows(count):
    random = np.random.default_rng(2)
    return {n: random.standard_normal((count, w)).astype(np.float32) for n, w in (("x", WIDTHS[0]), ("y", WIDTHS[-1]))}
