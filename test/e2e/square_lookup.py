# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model that looks up the squares of ids: which of them are out of range no check of the inputs knows, only the kernel."""

import numpy as np
import onnx
from onnx import TensorProto, helper

ROWS = 32


def write(path):
    table = np.random.default_rng(5).standard_normal(ROWS).astype(np.float32)
    nodes = [
        helper.make_node("Mul", ["ids", "ids"], ["squares"], "squares"),
        helper.make_node("Gather", ["table", "squares"], ["found"], "lookup"),
        helper.make_node("Sub", ["found", "y"], ["difference"], "sub"),
        helper.make_node("Mul", ["difference", "difference"], ["errors"], "square"),
        helper.make_node("ReduceMean", ["errors"], ["loss"], "mean", keepdims=0),
    ]
    inputs = [helper.make_tensor_value_info(n, t, ["batch"]) for n, t in (("ids", TensorProto.INT64), ("y", TensorProto.FLOAT))]
    outputs = [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])]
    graph = helper.make_graph(nodes, "square_lookup", inputs, outputs, [onnx.numpy_helper.from_array(table, "table")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)


def rows(count, bad=None):
    """`bad`: the row whose index is none."""
    ids = np.arange(count, dtype=np.int64) % 5
    if bad is not None:
        ids[bad] = 9
    return dict(ids=ids, y=np.linspace(-1, 1, count, dtype=np.float32))
