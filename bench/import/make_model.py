#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Large ONNX models for the importer, without the onnx package: make_model.py KIND SIZE OUT.onnx

  nodes N      a chain of N nodes with weights between them
  reversed N   the same, the last node first
  fan N        one value that N nodes read, and a sum of all N
  functions N  N calls of a local function of four nodes
  weights N    N weights in the file itself, 1 KiB each
  data BYTES   weights of that many bytes in all in OUT.onnx.data, which is sparse
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "test/e2e"))
import mini_onnx as mo  # pylint: disable=wrong-import-position

WIDTH = 16
INPUT = mo.value_info("x", mo.FLOAT, ["batch", WIDTH])
LOSS = mo.value_info("loss", mo.FLOAT, [])


def loss(value, index):
    return mo.node("ReduceMean", [value], ["loss"], f"loss_{index}", attributes=[("keepdims", 0)])


def chain(count):
    nodes, weights = [], []
    for i in range(count - 1):
        value, result = (f"value_{i - 1}" if i else "x"), f"value_{i}"
        if i % 16 == 0:
            weights.append(mo.tensor(f"layer_{i}.weight", [WIDTH], [1.0] * WIDTH))
            nodes.append(mo.node("Mul", [value, f"layer_{i}.weight"], [result], f"node_Mul_{i}"))
        else:
            op = ("Relu", "Identity", "Neg", "Add")[i % 4]
            nodes.append(mo.node(op, [value] * (2 if op == "Add" else 1), [result], f"node_{op}_{i}"))
    return [*nodes, loss(f"value_{count - 2}", count)], weights


def fan(count):
    nodes = [mo.node("Mul", ["x", "w"], ["value"], "scale")]
    nodes += [mo.node("Neg", ["value"], [f"value_{i}"], f"node_{i}") for i in range(count)]
    nodes += [mo.node("Sum", [f"value_{i}" for i in range(count)], ["total"], "sum"), loss("total", count)]
    return nodes, [mo.tensor("w", [WIDTH], [1.0] * WIDTH)]


def calls(count):
    body = [("Neg", ["a"], "b"), ("Relu", ["b"], "c"), ("Add", ["b", "c"], "d"), ("Mul", ["d", "a"], "e")]
    function = mo.field(1, "F") + mo.field(4, "a") + mo.field(5, "e") + mo.field(10, "my")
    function += mo.field(9, mo.field(1, "") + mo.field(2, 18))
    function += b"".join(mo.field(7, mo.node(op, inputs, [out], f"node_{op}")) for op, inputs, out in body)
    nodes = [mo.node("Mul", ["x", "w"], ["value_0"], "scale")]
    nodes += [mo.node("F", [f"value_{i}"], [f"value_{i + 1}"], f"call_{i}", domain="my") for i in range(count)]
    extra = mo.field(25, function) + mo.field(8, mo.field(1, "my") + mo.field(2, 1))
    weight = mo.tensor("w", [WIDTH], [1.0] * WIDTH)
    return mo.model([*nodes, loss(f"value_{count}", count)], [INPUT], [LOSS], [weight]) + extra


def stored(count):
    weights = [mo.tensor(f"layer_{i}.weight", [256], [0.5] * 256) for i in range(count)]
    nodes = [mo.node("Mul", ["x", "layer_0.weight"], ["y"], "scale"), loss("y", 1)]
    return mo.model(nodes, [mo.value_info("x", mo.FLOAT, ["batch", 256])], [LOSS], weights)


def external(size, path):
    """Square weights of 16 MiB, one MatMul each."""
    side = 2048
    each = side * side * 4
    data = path.with_name(path.name + ".data")
    with open(data, "wb") as file:
        file.truncate(size)
    weights, nodes = [], []
    for i in range(size // each):
        weights.append(mo.tensor(f"w{i}", [side, side], external=(data.name, i * each, each)))
        nodes.append(mo.node("MatMul", [f"h{i - 1}" if i else "x", f"w{i}"], [f"h{i}"], f"product_{i}"))
    nodes.append(loss(f"h{size // each - 1}", 0))
    return mo.model(nodes, [mo.value_info("x", mo.FLOAT, ["batch", side])], [LOSS], weights)


def main():
    kind, size, path = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
    if kind == "functions":
        data = calls(size)
    elif kind == "weights":
        data = stored(size)
    elif kind == "data":
        data = external(size, path)
    else:
        nodes, weights = fan(size) if kind == "fan" else chain(size)
        data = mo.model(nodes[::-1] if kind == "reversed" else nodes, [INPUT], [LOSS], weights)
    path.write_bytes(data)


if __name__ == "__main__":
    main()
