#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Indices of scatters: `scatter_indices.py TRAINC TRAINC_RUN MAKE_ONNX`.

One model has scatters of all kinds, each with indices of its own. A bad one is refused before the step, with its row, where
it is an input's, and by the kernel where it is computed. Loss and gradients of good ones, some from the end, are numpy's.
"""

import re
import subprocess
import sys
import tempfile

import numpy as np

from selected_rows import Run

#: (kind, reduction, type): `elements` along the columns of y, `rows` and `pairs` of a table, by row and column.
KINDS = [("elements", "none", "f32"), ("elements", "add", "f32"), ("elements", "mul", "f32"), ("elements", "max", "i64"),
         ("rows", "none", "f32"), ("rows", "min", "f32"), ("rows", "add", "i64"),
         ("pairs", "none", "f32"), ("pairs", "add", "f32"), ("pairs", "max", "i64")]  # fmt: skip
#: How many places each part of an index has, and good ones.
PLACES = {"elements": [5, 5], "rows": [4], "pairs": [4, 2]}
GOOD = {"elements": [[0, -1], [3, 1], [-5, 2]], "rows": [[1], [-1], [0]], "pairs": [[0, 1], [-4, 0], [3, -1]]}
TABLE = 0.9 * np.cos(1.3 * np.arange(8)).reshape(4, 2).astype(np.float32)
W = np.array([0.5, -1, 1.5, 2, -0.7], np.float32)


def model(computed):
    lines = ["opset 18", "input x f32[batch,5]", "input u f32[batch,2]", "output loss f32[]", "init one i64[] = 1", "init last i64[1] = 1",
             "init w f32[5] = " + " ".join(map(str, W)), "init table f32[4,2] = " + " ".join(map(str, TABLE.ravel())),
             "meta trainable = w\\ntable", "node Mul(x, w) -> y", "node ReduceSum(u, last) -> each keepdims=0"]  # fmt: skip
    parts = []
    for kind, reduction, dtype in KINDS:
        name = f"{kind}_{reduction}"
        data, updates = {"elements": ("y", "u"), "rows": ("table", "u"), "pairs": ("table", "each")}[kind]
        lines.append(f"input i_{name} i64[batch,{len(PLACES[kind])}]")
        lines.append(f"node {'Sub' if computed else 'Identity'}(i_{name}{', one' if computed else ''}) -> c_{name}")
        if dtype == "i64":
            lines += [f"node Cast({data}) -> d_{name} to=7", f"node Cast({updates}) -> v_{name} to=7"]
            data, updates = f"d_{name}", f"v_{name}"
        op, axis = ("ScatterElements", " axis=1") if kind == "elements" else ("ScatterND", "")
        lines.append(f'node {op}({data}, c_{name}, {updates}) -> s_{name} name={name} reduction="{reduction}"{axis}')
        if dtype == "i64":
            lines.append(f"node Cast(s_{name}) -> f_{name} to=1")
        lines += [f"node Sin({'f' if dtype == 'i64' else 's'}_{name}) -> q_{name}", f"node ReduceSum(q_{name}) -> l_{name} keepdims=0"]
        parts.append(f"l_{name}")
    return "\n".join([*lines, f"node Sum({', '.join(parts)}) -> loss"]) + "\n"


def loss(x, u, w, table):
    total = 0.0
    for kind, reduction, dtype in KINDS:
        data, updates = (x * w if kind == "elements" else table).copy(), u.sum(1) if kind == "pairs" else u
        if dtype == "i64":
            data, updates = np.trunc(data), np.trunc(updates)
        for row, index in enumerate(GOOD[kind]):
            places = [((row, column), updates[row, i]) for i, column in enumerate(index)] if kind == "elements" else [(tuple(index), updates[row])]
            for place, value in places:
                combine = {"none": lambda a, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]
                data[place] = combine(data[place], value)
        total += np.sin(data).sum()
    return total


def slope(function, at):
    """The gradient, by differences of f64."""
    result = np.zeros(at.shape)
    for place in np.ndindex(*at.shape):
        step = np.zeros(at.shape)
        step[place] = 1e-6
        result[place] = (function(at + step) - function(at - step)) / 2e-6
    return result


def main():
    rng = np.random.default_rng(4)
    given = {"x": rng.standard_normal((3, 5)).astype(np.float32), "u": rng.standard_normal((3, 2)).astype(np.float32) * 2}
    x, u, w, table = (array.astype(np.float64) for array in (given["x"], given["u"], W, TABLE))
    wanted = {"w": slope(lambda at: loss(x, u, at, table), w), "table": slope(lambda at: loss(x, u, w, at), table)}
    with tempfile.TemporaryDirectory(prefix="trainc-scatters-") as scratch:
        run = Run(*sys.argv[1:], scratch)

        def refused(package, name, bad, place, shift, message, *how):
            indices = {f"i_{kind}_{reduction}": np.array(GOOD[kind], np.int64) + shift for kind, reduction, _ in KINDS}
            indices[f"i_{name}"][place] = bad + shift
            np.savez(run.base / "d.npz", **given, **indices)
            command = [run.tools[1], package, *how, run.base / "d.npz", "--batch-size", "3"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 1 or not re.search(message, done.stderr):
                sys.exit(f"expected /{message}/: exit code {done.returncode}, {done.stderr}")

        for computed, flags in ((False, []), (True, []), (True, ["-O0"])):
            shift = int(computed)
            package = run.compile(model(computed), *flags)
            good = {f"i_{kind}_{reduction}": np.array(GOOD[kind], np.int64) + shift for kind, reduction, _ in KINDS}
            found, gradients = run.gradients(package, **given, **good)
            np.testing.assert_allclose(found, loss(x, u, w, table), rtol=1e-5)
            for name, gradient in wanted.items():
                np.testing.assert_allclose(gradients[name], gradient, rtol=1e-4, atol=1e-5, err_msg=name)
            for number, (kind, reduction, _) in enumerate(KINDS):
                name = f"{kind}_{reduction}"
                for part, places in enumerate(PLACES[kind][: 1 if kind == "elements" else 2]):
                    # Too large and too small in turn, in training and in evaluation.
                    bad = places if (number + part + len(flags)) % 2 else -places - 1
                    how = ["--eval"] if number % 3 == 2 else ["--steps", "1", "--data"]
                    if computed:
                        message = f"node '{name}': index {bad}( at position \\d+ of its indices)? is out of range"
                    else:
                        message = (rf"'i_{name}': value {bad} at \[1, {part}\] is out of range: allowed are -{places} to {places - 1} "
                                   rf"\(node '{name}'\)\nthat is row 1 of")  # fmt: skip
                    refused(package, name, bad, (1, part), shift, message, *how)


if __name__ == "__main__":
    main()
