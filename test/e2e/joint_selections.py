#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Selections in graphs that hold their gradients: `joint_selections.py TRAINC TRAINC_RUN MAKE_ONNX`.

A layer, a selection of its tokens, a sum of squares and the gradient of that, written out as
exporters do. The layer has to be computed for the selected tokens only, forward and backward, with
the loss and the gradients of -O0 and of numpy in float64.
"""

import collections
import pathlib
import re
import sys
import tempfile

import numpy as np

import packing
import sparsity
from sparsity import check, compare, gradients, run

#: Tokens that each form selects of [rows, columns], and how the graph says so: the selection of t as h, and the rows dh of
#: h among zeros as dt.
FORMS = {
    "first": (lambda at, columns: np.zeros((len(at), 1), int),
              ["init zero i64[] = 0", "node Gather(t, zero) -> h0 axis=1", "init second i64[1] = 1", "node Unsqueeze(h0, second) -> h",
               "node Range(zero, length, one) -> column", "init around i64[2] = 0 2", "node Unsqueeze(column, around) -> columns",
               "node Equal(columns, zero) -> here", "node Where(here, dh, nothing) -> dt"]),
    "last": (lambda at, columns: np.full((len(at), 1), columns - 1),
             ["init end i64[] = -1", "node Gather(t, end) -> h0 axis=1", "init second i64[1] = 1", "node Unsqueeze(h0, second) -> h",
              "node Range(zero, length, one) -> column", "init zero i64[] = 0", "init around i64[2] = 0 2",
              "node Unsqueeze(column, around) -> columns", "node Sub(length, one) -> place", "node Equal(columns, place) -> here",
              "node Where(here, dh, nothing) -> dt"]),
    "range": (lambda at, columns: np.tile([1, 2], (len(at), 1)),
              ["init start i64[1] = 1", "init stop i64[1] = 3", "init axis i64[1] = 1", "node Slice(t, start, stop, axis) -> h",
               "init ahead i64[3] = 0 1 0", "init three i64[] = 3", "node Sub(length, three) -> rest", "init flat i64[1] = 0", "init no i64[1] = 0",
               "node Unsqueeze(rest, flat) -> behind", "node Concat(ahead, no, behind, no) -> pads axis=0", "node Pad(dh, pads) -> dt"]),
    "one of each": (lambda at, columns: at[:, None],
                    ["node Shape(t) -> all", "init zero i64[] = 0", "node Gather(all, zero) -> batch", "node Range(zero, batch, one) -> sample",
                     "init last i64[1] = 1", "node Unsqueeze(sample, last) -> s", "node Unsqueeze(at, last) -> a",
                     "node Concat(s, a) -> tuples axis=1", "node GatherND(t, tuples) -> h",
                     'node ScatterND(zeros, tuples, dh) -> dt reduction="add"']),
}


def graph(form):
    lines = ["opset 18", "input x f32[batch,seq,8]", "input at i64[batch]", "output loss f32[]", "output grad/w f32[8,6]",
             "output grad/b f32[6]", "init one i64[] = 1", "init none i64[] = 0", "node Cast(none) -> nothing to=1", "init two f32[] = 2", "init unit f32[] = 1",
             "init front i64[2] = 0 1", "init rows i64[2] = -1 8", "init narrow i64[2] = -1 6",
             "init w f32[8,6] = " + " ".join(f"{0.4 * np.sin(1.3 * i):.5f}" for i in range(48)),
             "init b f32[6] = 0.1 -0.2 0.3 -0.1 0.2 -0.3"]
    lines += ["node MatMul(x, w) -> y", "node Add(y, b) -> z", "node Tanh(z) -> t", "node Shape(x) -> sizes start=1 end=2",
              "node Squeeze(sizes) -> length", "node Shape(t) -> shape", "node ConstantOfShape(shape) -> zeros"]
    lines += FORMS[form][1]
    lines += ["node Mul(h, h) -> squares", "node ReduceSum(squares) -> loss keepdims=0", "node Mul(h, two) -> dh",
              "node Mul(t, t) -> tt", "node Sub(unit, tt) -> slope", "node Mul(dt, slope) -> dz", "node ReduceSum(dz, front) -> grad/b keepdims=0",
              "node Reshape(x, rows) -> flat.x", "node Reshape(dz, narrow) -> flat.dz", "node Transpose(flat.x) -> across perm=[1,0]",
              "node MatMul(across, flat.dz) -> grad/w"]
    return "\n".join(lines) + "\n"


def reference(form, x, at):
    w = np.array([float(f"{0.4 * np.sin(1.3 * i):.5f}") for i in range(48)]).reshape(8, 6)
    t = np.tanh(x.astype(np.float64) @ w + [0.1, -0.2, 0.3, -0.1, 0.2, -0.3])
    places = FORMS[form][0](at, x.shape[1])
    dt, samples = np.zeros_like(t), np.arange(len(at))[:, None]
    h = t[samples, places]
    dt[samples, places] = 2 * h
    dz = dt * (1 - t * t)
    return float((h * h).sum()), {"w": np.einsum("bsi,bsj->ij", x.astype(np.float64), dz), "b": dz.sum((0, 1))}


def main():
    trainc, trainc_run, make_onnx = sys.argv[1:4]
    rng = np.random.default_rng(7)
    noise = collections.defaultdict(float)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for form in FORMS:
            (folder / "m.txt").write_text(graph(form))
            run([sys.executable, make_onnx, folder / "m.txt", folder / "m.onnx"], form)
            sizes = ["--target", "cpu:native", "--dim", "seq=4..64"]
            run([trainc, folder / "m.onnx", *sizes, "-O0", "-o", folder / "plain.tpk"], form)
            done = run([trainc, folder / "m.onnx", *sizes, "--explain=all", "-o", folder / "packed.tpk"], form)
            explained = done.stdout + done.stderr
            for what in (r"moved .* above train.matmul", r"train.matmul .* leaves out rows where a gradient is 0"):
                check(re.search(what, explained), f"{form}: not {what}\n{explained}")
            check("takes all rows, zeros included" not in explained, f"{form}: {explained}")
            for rows, columns in ((5, 9), (1, 4)):
                x, at = rng.standard_normal((rows, columns, 8)).astype(np.float32), rng.integers(0, columns, rows)
                np.savez(folder / "data.npz", x=x, at=at)
                plain, packed = (gradients(trainc_run, folder / f"{kind}.tpk", folder / "data.npz", folder / "g.safetensors")
                                 for kind in ("plain", "packed"))
                what = f"{form}, {rows} x {columns}"
                compare(what, plain, packed, noise)
                compare(f"{what}, float64", reference(form, x, at), packed, noise)
    return sparsity.failures != 0


if __name__ == "__main__":
    sys.exit(main())
