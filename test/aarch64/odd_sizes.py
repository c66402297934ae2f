# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model in which no size is a multiple of a vector's: matmuls of 16-bit types, convolutions with groups, dilations and strides, a
transposed one, pools and attention, each with its gradient. Weights and rows are drawn."""

import subprocess
import sys

import numpy as np

ROWS = 3
#: Of one row.
INPUTS = {"halves": ("f16", (17,)), "numbers": ("f32", (17,)), "image": ("f32", (5, 11, 7)), "words": ("f32", (13, 15))}
WEIGHTS = {
    "h1": ("f16", (17, 33)), "h2": ("f16", (33, 9)),
    "b1": ("f32", (17, 35)), "b2": ("f32", (35, 1)),
    "c1": ("f32", (15, 1, 3, 3)), "c2": ("f32", (7, 15, 5, 5)), "c3": ("f32", (7, 3, 3, 3)),
    "q": ("f32", (15, 15)), "k": ("f32", (15, 15)), "v": ("f32", (15, 15)),
}  # fmt: skip
HEADS = "\n".join(
    f"node MatMul(words, {x}) -> {x}0\nnode Reshape({x}0, heads) -> {x}1\nnode Transpose({x}1) -> {x}2 perm={perm}"
    for x, perm in (("q", "[0,2,1,3]"), ("k", "[0,2,3,1]"), ("v", "[0,2,1,3]"))
)
NODES = f"""
node MatMul(halves, h1) -> h3
node Sigmoid(h3) -> h4
node MatMul(h4, h2) -> h5
node LogSoftmax(h5) -> h6 axis=-1
node Cast(h6) -> end0 to=1

node Cast(numbers) -> b3 to=16
node Cast(b1) -> b4 to=16
node Cast(b2) -> b5 to=16
node MatMul(b3, b4) -> b6
node Tanh(b6) -> b7
node MatMul(b7, b5) -> b8
node Cast(b8) -> end1 to=1

node Conv(image, c1) -> c4 kernel_shape=[3,3] pads=[2,2,2,2] dilations=[2,2] group=5
node LeakyRelu(c4) -> c5 alpha=0.1
node MaxPool(c5) -> c6 kernel_shape=[2,2] strides=[1,1] pads=[1,1,0,0]
node Conv(c6, c2) -> c7 kernel_shape=[5,5] pads=[2,2,2,2] strides=[2,2]
node Erf(c7) -> c8
node ConvTranspose(c8, c3) -> c9 kernel_shape=[3,3] strides=[2,2] output_padding=[1,1]
node AveragePool(c9) -> end2 kernel_shape=[3,3] strides=[2,2]

{HEADS}
node MatMul(q2, k2) -> s0
node Softmax(s0) -> s1 axis=-1
node MatMul(s1, v2) -> end3
"""


def write(source, folder, seed=1):
    """Writes odd-sizes.onnx and .npz, of three batches, into the folder; returns their path without the ending."""
    random = np.random.default_rng(seed)
    base = folder / "odd-sizes"
    lines = ["opset 18", "output loss f32[]", "meta trainable = " + "\\n".join(WEIGHTS), "init heads i64[4] = 0 0 3 5"]
    lines += [f"input {name} {kind}[batch,{','.join(map(str, shape))}]" for name, (kind, shape) in INPUTS.items()]
    for name, (kind, shape) in WEIGHTS.items():
        drawn = random.standard_normal(np.prod(shape)) / 2
        lines.append(f"init {name} {kind}[{','.join(map(str, shape))}] = {' '.join(f'{x:.5f}' for x in drawn)}")
    lines.append(NODES)
    for i in range(4):
        lines.append(f"node Mul(end{i}, end{i}) -> square{i}\nnode ReduceMean(square{i}) -> mean{i} keepdims=0")
    lines.append("node Sum(mean0, mean1, mean2, mean3) -> loss")
    base.with_suffix(".txt").write_text("\n".join(lines) + "\n")
    subprocess.run([sys.executable, source / "test/Import/Inputs/make_onnx.py", base.with_suffix(".txt"), base.with_suffix(".onnx")], check=True)
    types = {"f16": np.float16, "f32": np.float32}
    np.savez(base.with_suffix(".npz"), **{name: random.standard_normal((3 * ROWS, *shape)).astype(types[kind]) for name, (kind, shape) in INPUTS.items()})
    return base
