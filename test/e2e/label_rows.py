#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows without a label: `label_rows.py TRAINC TRAINC_RUN MAKE_ONNX`.

Losses of logits of several ranks and layouts, each a mean, a sum and one by one, with class weights and
without. The rows that are ignored leave before the projection; loss and gradients have to be those of
-O0, where no row has a label, too: a mean of nothing is no number, a sum of nothing is 0.
"""

import collections
import pathlib
import sys
import tempfile

import numpy as np

import packing
import sparsity
from sparsity import check, compare, gradients, run

WIDE = 4200
#: Axes of the labels and the number of classes.
FORMS = {"tokens, merged": ((4, 15), 41), "tokens": ((4, 15), 41), "pixels": ((3, 5, 4), 41), "one a sample": ((60,), WIDE),
         "two samples": ((2,), WIDE), "few, sizes known": ((3, 7), 41)}
#: Fewer rows than a count of labels is guessed to be: they are packed for the loss alone.
KNOWN = ("few, sizes known",)


def model(form, reduction, weighted):
    axes, classes = FORMS[form]
    names = [str(axis) for axis in axes] if form in KNOWN else ["batch", "height", "width"][: len(axes)]
    graph = packing.Graph()
    graph.lines = ["opset 17", "output loss f32[]", f"input labels i64[{','.join(names)}]"]
    labels = "labels"
    if form == "pixels":
        graph.add("input x f32[batch,16,height,width]", "node Tanh(x) -> t")
        graph.weight("head", [classes, 16, 1, 1])
        graph.add("node Conv(t, head) -> l")
    else:
        graph.add(f"input x f32[{','.join(names)},16]")
        graph.weight("hidden", [16, 16])
        graph.weight("head", [16, classes])
        merged, last = form == "tokens, merged", "l" if len(axes) == 1 else "m"
        graph.add("node MatMul(x, hidden) -> h", "node Tanh(h) -> t", f"node MatMul(t, head) -> {last}")
        if merged:
            graph.add(f"init rows i64[2] = -1 {classes}", "init flat i64[1] = -1", "node Reshape(m, rows) -> l", "node Reshape(labels, flat) -> y")
            labels = "y"
        elif last == "m":
            graph.add("node Transpose(m) -> l perm=[0,2,1]")
    if weighted:
        graph.add(f"init weights f32[{classes}] = " + " ".join(f"{0.2 + 0.05 * (i % 41):.2f}" for i in range(classes)))
    loss = f"node SoftmaxCrossEntropyLoss(l, {labels}{', weights' if weighted else ''})"
    if reduction == "none":
        graph.add(f'{loss} -> each reduction="none" ignore_index=-100', "node Mul(each, each) -> squares",
                  "node ReduceSum(squares) -> loss keepdims=0")
    else:
        graph.add(f'{loss} -> loss reduction="{reduction}" ignore_index=-100')
    graph.add("meta trainable = " + "\\n".join(graph.trained))
    return graph.text()


def main():
    trainc, trainc_run, make_onnx = sys.argv[1:4]
    rng = np.random.default_rng(6)
    noise = collections.defaultdict(float)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for i, form in enumerate(FORMS):
            axes, classes = FORMS[form]
            for j, reduction in enumerate(("mean", "sum", "none")):
                weighted = (i + j) % 2 == 0
                (folder / "m.txt").write_text(model(form, reduction, weighted))
                run([sys.executable, make_onnx, folder / "m.txt", folder / "m.onnx"], form)
                run([trainc, folder / "m.onnx", "--target", "cpu:native", "-O0", "-o", folder / "plain.tpk"], form)
                done = run([trainc, folder / "m.onnx", "--target", "cpu:native", "--explain=all", "-o", folder / "packed.tpk"], form)
                explained = done.stdout + done.stderr
                check("computes the rows that labels labels" in explained, explained)
                check(form in KNOWN or "above train.matmul" in explained, f"{form}: the projection is of all rows\n{explained}")
                for some in (0.3, 0.0, 1.0):
                    labels = np.where(rng.random(axes) < some, rng.integers(0, classes, axes), -100)
                    shape = (axes[0], 16, *axes[1:]) if form == "pixels" else (*axes, 16)
                    np.savez(folder / "data.npz", x=rng.standard_normal(shape).astype(np.float32), labels=labels)
                    plain, packed = (gradients(trainc_run, folder / f"{kind}.tpk", folder / "data.npz", folder / "g.safetensors",
                                               ["--allow-nonfinite", "--batch-size", axes[0]]) for kind in ("plain", "packed"))
                    what = f"{form}, {reduction}{', class weights' if weighted else ''}, {some:.0%} with a label"
                    if some == 0:
                        check(plain[0] == packed[0] == (None if reduction == "mean" else 0), f"{what}: {packed[0]}")
                        # Not a number, or 0: but the same.
                        for name, gradient in plain[1].items():
                            check(np.array_equal(gradient, packed[1][name], equal_nan=True), f"{what}: gradient of {name}")
                    else:
                        compare(what, plain, packed, noise)
    return sparsity.failures != 0


if __name__ == "__main__":
    sys.exit(main())
