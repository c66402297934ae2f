#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions with their own gradient: `function_gradients.py TRAINC TRAINC_RUN MAKE_ONNX`.

A gradient that says the same as the derived one has to give the same loss and gradients, and one
that says something else those of a graph that is written so.
"""

import sys
import tempfile

import numpy as np

from selected_rows import Run, expect_equal


def numbers(count, phase):
    return " ".join(f"{0.5 * np.cos(1.9 * i + phase):.4f}" for i in range(count))


HEAD = f"""
opset 18
opset my 1
input x f32[batch,4]
input rows i64[batch]
init w f32[4,3] = {numbers(12, 0)}
init b f32[3] = {numbers(3, 1)}
init table f32[5,3] = {numbers(15, 2)}
meta trainable = w\\nb\\ntable
output loss f32[]
node MatMul(x, w) -> xw
"""
MEAN = """
node Sin(y) -> waves
node ReduceMean(waves) -> loss keepdims=0
"""
# x * sigmoid(alpha x + b): an attribute, an output for the gradient only, a sum over rows.
GATED = """
function my Gate(x, b) -> y,s alpha META
  node Constant() -> a value_float=@alpha
  node Mul(a, x) -> ax
  node Add(ax, b) -> z
  node Sigmoid(z) -> s
  node Mul(x, s) -> y
function my Gate_grad(grad_y, s, y, x) -> grad_b,grad_x alpha
  node Constant() -> a value_float=@alpha
  node Constant() -> one value_float=1.0
  node Sub(one, s) -> t
  node Mul(y, t) -> yt
  node Mul(a, yt) -> ayt
  node Add(s, ayt) -> slope
  node Mul(grad_y, slope) -> grad_x
  node Mul(grad_y, yt) -> dz
  node Constant() -> rows value_ints=[0]
  node ReduceSum(dz, rows) -> grad_b keepdims=0
"""
# Integers have no gradient; the table's is made of its shape.
LOOKUP = """
function my Lookup(table, rows) -> y META
  node Gather(table, rows) -> y
function my Lookup_grad(table, rows, grad_y) -> grad_table
  node Shape(table) -> shape
  node ConstantOfShape(shape) -> zeros
  node Constant() -> last value_ints=[1]
  node Unsqueeze(rows, last) -> at
  node ScatterND(zeros, at, grad_y) -> grad_table reduction="add"
"""
# In the body of a loop over rows, of an unknown number.
RECURRENT = """
function my Soft(x, k) -> y META
  node Mul(x, k) -> z
  node Tanh(z) -> y
function my Soft_grad(x, k, y, grad_y) -> grad_x,grad_k
  node Mul(y, y) -> yy
  node Constant() -> one value_float=1.0
  node Sub(one, yy) -> t
  node Mul(grad_y, t) -> dz
  node Mul(dz, k) -> grad_x
  node Mul(dz, x) -> grad_k
graph body
  input s f32[3]
  input step f32[3]
  output next f32[3]
  output seen f32[3]
  node Add(s, step) -> sum
  node my::Soft(sum, b) -> next
  node Identity(next) -> seen
"""
NAMED = "meta:trainc.gradient={}"
# (functions with META, the nodes behind them), and what they are compared with.
CASES = {
    "a gate": (
        (GATED, "node my::Gate(xw, b) -> y alpha=1.5\n", "Gate_grad"),
        (GATED, "node my::Gate(xw, b) -> y alpha=1.5\n", None),
    ),
    "a table": (
        (LOOKUP, "node my::Lookup(table, rows) -> r\nnode Add(r, xw) -> rx\nnode Mul(rx, b) -> y\n", "my::Lookup_grad"),
        (LOOKUP, "node my::Lookup(table, rows) -> r\nnode Add(r, xw) -> rx\nnode Mul(rx, b) -> y\n", None),
    ),
    "a loop": (
        (RECURRENT, "node Scan(b, xw) -> last, y num_scan_inputs=1 body=graph:body\n", "Soft_grad"),
        (RECURRENT, "node Scan(b, xw) -> last, y num_scan_inputs=1 body=graph:body\n", None),
    ),
    # A straight-through estimator: rounded forward, passed on backward.
    "straight through": (
        (
            "function my Step(x) -> y META\n  node Round(x) -> y\n"
            "function my Step_grad(grad_y) -> grad_x\n  node Identity(grad_y) -> grad_x\n",
            "node my::Step(xw) -> r\nnode Mul(r, b) -> y\n",
            "Step_grad",
        ),
        ("", "node Round(xw) -> up\nnode Sub(up, xw) -> d\nnode Identity(d) -> e meta:pkg.torch.onnx.fx_node=[target=aten.detach.default]\nnode Add(xw, e) -> r\nnode Mul(r, b) -> y\n", None),
    ),
}


def model(functions, nodes, gradient):
    functions = functions.replace("META", NAMED.format(gradient) if gradient else "")
    return HEAD.replace("node MatMul", functions + "node MatMul") + nodes + MEAN


def main():
    rng = np.random.default_rng(5)
    data = {"x": rng.standard_normal((7, 4)).astype(np.float32), "rows": rng.integers(0, 5, 7)}
    with tempfile.TemporaryDirectory(prefix="trainc-function-gradients-") as scratch:
        run = Run(*sys.argv[1:], scratch)
        for name, (own, other) in CASES.items():
            found = run.gradients(run.compile(model(*own)), **data)
            expect_equal(name, found, run.gradients(run.compile(model(*other)), **data))


if __name__ == "__main__":
    main()
