#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows that a mask selects, and bytes as inputs: `selected_rows.py TRAINC TRAINC_RUN MAKE_ONNX`.

Training on the rows of a batch that a mask selects is training on those rows alone. Each loss over a
selection is therefore compared with the same one over the selected rows of the data, where the mask
is true everywhere: losses and gradients have to agree. Images as bytes are compared with the same
numbers as floats.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import safetensors_io

W = " ".join(f"{0.3 * np.sin(1.7 * i):.5f}" for i in range(15))
HEAD = f"""
input x f32[batch,5]
input labels i64[batch]
init w f32[5,3] = {W}
init b f32[3] = 0.1 -0.2 0.3
init none i64[] = -1
output loss f32[]
node MatMul(x, w) -> h
node Add(h, b) -> logits
node Equal(labels, none) -> ignored
node Not(ignored) -> mask
node NonZero(mask) -> columns
node Transpose(columns) -> rows perm=[1,0]
"""
LOSSES = {
    "mean of cross entropies": """
node GatherND(logits, rows) -> s
node GatherND(labels, rows) -> t
node SoftmaxCrossEntropyLoss(s, t) -> loss reduction="mean"
""",
    # log(0) where nothing is selected: neither the loss nor a gradient may see it.
    "mean of logarithms, counted by hand": """
node GatherND(x, rows) -> taken
node ReduceSum(taken, last) -> positive keepdims=1
node Log(positive) -> y
node GatherND(logits, rows) -> s
node Mul(s, y) -> z
node ReduceSum(z) -> total keepdims=0
node Size(z) -> count
node Cast(count) -> n to=1
node Div(total, n) -> loss
init last i64[1] = 1
""",
    "flattened, and a maximum": """
node GatherND(logits, rows) -> s
node Shape(s) -> shape
init all i64[1] = -1
node Reshape(s, all) -> flat
node Mul(flat, flat) -> square
node ReduceMean(square) -> mean keepdims=0
node ReduceMax(s, first) -> peak keepdims=0
node ReduceSum(peak) -> peaks keepdims=0
node Add(mean, peaks) -> loss
init first i64[1] = 0
""",
    # The number of rows without a use of the rows.
    "counted alone": """
node Cast(mask) -> ones to=1
node Unsqueeze(ones, last) -> column
node Mul(logits, column) -> kept
node Mul(kept, kept) -> squares
node ReduceSum(squares) -> total keepdims=0
node Shape(columns) -> shape start=1
node Squeeze(shape) -> count
node Cast(count) -> n to=1
node Div(total, n) -> loss
init last i64[1] = 1
""",
    "compressed": """
node Compress(logits, mask) -> s axis=0
node Compress(labels, mask) -> t axis=0
node SoftmaxCrossEntropyLoss(s, t) -> loss reduction="sum"
""",
}
CLASSIFIER = f"""
init w f32[5,3] = {W}
init scale f32[] = 0.01
output loss f32[]
node Mul(g, scale) -> y
node MatMul(y, w) -> logits
node SoftmaxCrossEntropyLoss(logits, labels) -> loss
input labels i64[batch]
meta trainable = w
"""
BYTES = """
input x u8[batch,5]
init many u8[] = 200
node Add(x, many) -> sum
node Greater(x, many) -> bright
node Cast(bright) -> b to=1
node Cast(sum) -> f to=1
node Add(f, b) -> g
""" + CLASSIFIER
FLOATS = """
input x f32[batch,5]
node Identity(x) -> g
""" + CLASSIFIER


class Run:
    def __init__(self, trainc, trainc_run, make_onnx, scratch):
        self.tools, self.make_onnx, self.base = (trainc, trainc_run), make_onnx, pathlib.Path(scratch)

    def compile(self, text, *flags):
        source, model, package = (self.base / f"m.{kind}" for kind in ("txt", "onnx", "tpk"))
        source.write_text(text)
        subprocess.run([sys.executable, self.make_onnx, source, model], check=True)
        subprocess.run([self.tools[0], model, "-o", package, "--target", "cpu:native", *flags], check=True, capture_output=True)
        return package

    def gradients(self, package, row_count=None, **arrays):
        """(loss, {name: gradient}) of all rows as one batch; `row_count`: how many, where not the first array's first axis says it."""
        data, out = self.base / "d.npz", self.base / "g.safetensors"
        np.savez(data, **arrays)
        out.unlink(missing_ok=True)
        command = [self.tools[1], package, "--data", data, "--dump-gradients", out, "--log-format", "json"]
        command += ["--batch-size", str(row_count or len(next(iter(arrays.values()))))]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        losses = [json.loads(line).get("loss") for line in done.stdout.splitlines()]
        return [x for x in losses if x is not None][0], safetensors_io.load(out)


def expect_equal(what, found, wanted):
    errors = [abs(found[0] - wanted[0]) / abs(wanted[0])]
    for name, gradient in wanted[1].items():
        errors.append(float(np.max(np.abs(found[1][name] - gradient)) / np.max(np.abs(gradient))))
    print(f"{what}: off by {max(errors):.1e}")
    if not max(errors) <= 2e-6:
        sys.exit(f"{what}: {found}, expected {wanted}")


def main():
    rng = np.random.default_rng(3)
    with tempfile.TemporaryDirectory(prefix="trainc-selected-") as scratch:
        run = Run(*sys.argv[1:], scratch)
        labels = rng.integers(0, 3, 17)
        x = rng.random((17, 5), np.float32) + np.float32(0.1)
        mask = rng.random(17) < 0.6
        mask[0] = False  # the first row is none of them
        x[~mask] = 0
        for name, text in LOSSES.items():
            package = run.compile(HEAD + text)
            found = run.gradients(package, x=x, labels=np.where(mask, labels, -1))
            expect_equal(name, found, run.gradients(package, x=x[mask], labels=labels[mask]))
        # 200 is added modulo 256; the floats hold what the bytes become.
        pixels = rng.integers(0, 256, (17, 5))
        found = run.gradients(run.compile(BYTES), x=pixels.astype(np.uint8), labels=labels)
        becomes = (pixels + 200) % 256 + (pixels > 200)
        package = run.compile(FLOATS)
        wanted = run.gradients(package, x=becomes.astype(np.float32), labels=labels)
        expect_equal("bytes", found, wanted)


if __name__ == "__main__":
    main()
