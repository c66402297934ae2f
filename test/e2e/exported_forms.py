#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forms that exporters write beside the usual ones: `exported_forms.py TRAINC TRAINC_RUN MAKE_ONNX`.

Each model is compared, in loss and gradients, with one that says the same in plain operators: cross
entropy with probabilities as labels, a norm over zeros, a roll along the batch, a normalization
whose statistics the graph computes, simulated quantization, lists, 16-bit parameters.
"""

import sys
import tempfile

import numpy as np

from selected_rows import Run, expect_equal

W = " ".join(f"{0.4 * np.cos(1.9 * i):.4f}" for i in range(12))
HEAD = f"""
input x f32[batch,4]
input t f32[batch,3]
init w f32[4,3] = {W}
output loss f32[]
node MatMul(x, w) -> h
init last i64[1] = -1
init first i64[1] = 0
init one i64[1] = 1
init two f32[] = 2
init tiny f32[] = 0.00001
meta trainable = w
"""
MEAN = "node ReduceMean(y) -> loss keepdims=0\n"
CASES = {
    "probabilities as labels": (
        'node SoftmaxCrossEntropyLoss(h, t) -> loss reduction="mean"',
        """
node LogSoftmax(h) -> p axis=1
node Mul(p, t) -> terms
node ReduceSum(terms, one) -> rows keepdims=0
node Neg(rows) -> y
"""
        + MEAN,
    ),
    # Near 1 a sigmoid has lost what its logarithm's gradient is.
    "logsigmoid": (
        "init far f32[] = 12\nnode Add(h, far) -> x12\nnode Sigmoid(x12) -> s\nnode Log(s) -> y\n" + MEAN,
        """
init far f32[] = 12
node Add(h, far) -> x12
node Neg(x12) -> minus
node Softplus(minus) -> p
node Neg(p) -> y
"""
        + MEAN,
    ),
    # Rows of zeros have a norm without a slope, as in PyTorch.
    "norm": (
        "node ReduceL2(h, last) -> y keepdims=0\n" + MEAN,
        """
node Mul(h, h) -> square
node ReduceSum(square, last) -> sum keepdims=0
init zero f32[] = 0
node Greater(sum, zero) -> some
node Where(some, sum, tiny) -> safe
node Sqrt(safe) -> root
node Where(some, root, zero) -> y
"""
        + MEAN,
    ),
    "roll": (
        """
init minus i64[1] = -1
node Shape(h) -> n start=0 end=1
node Mod(minus, n) -> at
node Slice(h, first, at, first) -> head
node Slice(h, at, n, first) -> tail
node Concat(tail, head) -> rolled axis=0
node Mul(h, rolled) -> y
"""
        + MEAN,
        """
init minus i64[1] = -1
init far i64[1] = 9223372036854775807
node Slice(h, first, minus, first) -> head
node Slice(h, minus, far, first) -> tail
node Concat(tail, head) -> rolled axis=0
node Mul(h, rolled) -> y
"""
        + MEAN,
    ),
    "statistics of the graph": (
        """
init scale f32[3] = 1.5 0.5 -1
init shift f32[3] = 0.1 0.2 0.3
node ReduceMean(h, first) -> mean keepdims=0
node Sub(h, mean) -> centred
node Mul(centred, centred) -> square
node ReduceMean(square, first) -> variance keepdims=0
node BatchNormalization(h, scale, shift, mean, variance) -> n epsilon=0.00001
node Mul(n, t) -> y
"""
        + MEAN,
        """
init scale f32[3] = 1.5 0.5 -1
init shift f32[3] = 0.1 0.2 0.3
node ReduceMean(h, first) -> mean keepdims=0
node Sub(h, mean) -> centred
node Mul(centred, centred) -> square
node ReduceMean(square, first) -> variance keepdims=0
node Add(variance, tiny) -> above
node Sqrt(above) -> deviation
node Div(centred, deviation) -> d
node Mul(d, scale) -> e
node Add(e, shift) -> n
node Mul(n, t) -> y
"""
        + MEAN,
    ),
    # Quantization that training simulates: a pair of nodes, and ONNX Runtime's one.
    "quantized and back": (
        """
opset 18
init step f32[] = 0.02
init middle u8[] = 120
node QuantizeLinear(h, step, middle) -> q
node DequantizeLinear(q, step, middle) -> d
node Mul(d, t) -> y
"""
        + MEAN,
        """
opset 18
opset com.microsoft 1
init step f32[] = 0.02
init middle f32[] = 120
node com.microsoft::FakeQuant(h, step, middle) -> d quant_min=0 quant_max=255
node Mul(d, t) -> y
"""
        + MEAN,
    ),
    "quantized by columns and back": (
        """
init steps f32[3] = 0.02 0.5 0.001
init middles i8[3] = 20 -5 0
node QuantizeLinear(h, steps, middles) -> q axis=1
node DequantizeLinear(q, steps, middles) -> d axis=1
node Mul(d, t) -> y
"""
        + MEAN,
        """
opset 18
opset com.microsoft 1
init s0 f32[] = 0.02
init s1 f32[] = 0.5
init s2 f32[] = 0.001
init z0 f32[] = 20
init z1 f32[] = -5
init z2 f32[] = 0
node Split(h) -> h0, h1, h2 axis=1 num_outputs=3
node com.microsoft::FakeQuant(h0, s0, z0) -> d0 quant_min=-128 quant_max=127
node com.microsoft::FakeQuant(h1, s1, z1) -> d1 quant_min=-128 quant_max=127
node com.microsoft::FakeQuant(h2, s2, z2) -> d2 quant_min=-128 quant_max=127
node Concat(d0, d1, d2) -> d axis=1
node Mul(d, t) -> y
"""
        + MEAN,
    ),
    "a weight of codes, in blocks": (
        """
opset 21
init codes i8[3,2] = 7 -3 100 -128 5 2
init scales f32[2,2] = 0.5 0.25 2 0.125
init zeros i8[2,2] = 1 -1 0 3
node DequantizeLinear(codes, scales, zeros) -> m axis=0 block_size=2
node MatMul(h, m) -> y
"""
        + MEAN,
        """
init m f32[3,2] = 3 -0.5 49.5 -31.75 10 -0.125
node MatMul(h, m) -> y
"""
        + MEAN,
    ),
    # What a scripted loop appends to.
    "a list that grows": (
        """
graph body
  input i i64[]
  input go bool[]
  input s f32
  output goes bool[]
  output longer f32
  node Identity(go) -> goes
  node Cast(i) -> r to=1
  node Add(h, r) -> hi
  node SequenceInsert(s, hi) -> longer
node SequenceEmpty() -> none
init three i64[] = 3
node Loop(three, _, none) -> list body=graph:body
node SequenceErase(list, one0) -> two_left
init one0 i64[] = 1
node SequenceInsert(two_left, t, zero0) -> with_t
init zero0 i64[] = 0
node ConcatFromSequence(with_t) -> all axis=1
node Mul(all, all) -> y
"""
        + MEAN,
        """
node Add(h, two) -> last_h
node Concat(t, h, last_h) -> all axis=1
node Mul(all, all) -> y
"""
        + MEAN,
    ),
}
# Numbers that 16 bits hold, and no sums of more than two of them.
NARROW = """
input x KIND[batch,2]
input i i64[batch,2]
init w KIND[2] = 0.5 -1.5
output loss f32[]
node Cast(i) -> j to=NUMBER
node Add(x, j) -> s
node Mul(s, w) -> m
node Cast(m) -> y to=1
meta trainable = w
""" + MEAN
INTEGERS_AS_BF16 = """
input x f32[batch,2]
input i i64[batch,2]
init w f32[2] = 0.5 -1.5
output loss f32[]
node Cast(i) -> k to=16
node Cast(k) -> j to=1
node Add(x, j) -> s
node Mul(s, w) -> y
meta trainable = w
""" + MEAN


def main():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((6, 4)).astype(np.float32)
    x[2] = 0
    t = rng.random((6, 3), np.float32)
    with tempfile.TemporaryDirectory(prefix="trainc-forms-") as scratch:
        run = Run(*sys.argv[1:], scratch)
        for name, (form, plain) in CASES.items():
            found = run.gradients(run.compile(HEAD + form), x=x, t=t)
            expect_equal(name, found, run.gradients(run.compile(HEAD + plain), x=x, t=t))
        small, i = rng.integers(-4, 5, (2, 2)) / 2, rng.integers(-3, 4, (2, 2))
        wide = NARROW.replace("KIND", "f32").replace("NUMBER", "1")
        wanted = run.gradients(run.compile(wide), x=small.astype(np.float32), i=i)
        narrow = NARROW.replace("KIND", "f16").replace("NUMBER", "10")
        found = run.gradients(run.compile(narrow), x=small.astype(np.float16), i=i)
        expect_equal("16-bit parameters", found, wanted)
        found = run.gradients(run.compile(INTEGERS_AS_BF16), x=small.astype(np.float32), i=i)
        expect_equal("integers as bf16", found, wanted)


if __name__ == "__main__":
    main()
