#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Resizes and pools of sizes that only a run knows: `resize_sizes.py TRAINC TRAINC_RUN MAKE_ONNX`.

Every one is compiled once for all heights and once for each height; loss and gradients have to be
the same but for the order of sums. Tables of known sizes are held against PyTorch elsewhere (`pools`)
and against ONNX's node tests.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import safetensors_io

#: mode, coordinate_transformation_mode, nearest_mode, scale of the height (0: as `t` is high), more.
CASES = [
    ("nearest", "half_pixel", "round_prefer_floor", 0, ""),
    ("nearest", "asymmetric", "floor", 1.5, ""),
    ("nearest", "asymmetric", "ceil", 0.75, ""),
    ("nearest", "align_corners", "round_prefer_ceil", 2, ""),
    ("linear", "half_pixel", "floor", 0, ""),
    ("linear", "align_corners", "floor", 0, ""),
    ("linear", "pytorch_half_pixel", "floor", 0.5, ""),
    ("linear", "half_pixel_symmetric", "floor", 1.5, ""),
    ("linear", "asymmetric", "floor", 2, ""),
    ("cubic", "half_pixel", "floor", 0, ""),
    ("cubic", "align_corners", "floor", 1.5, ""),
    ("cubic", "half_pixel", "floor", 2, " exclude_outside=1"),
]
#: Where a last window begins in the image but ends behind it, and where it would begin behind it.
POOLS = [
    "MaxPool(X) -> Y kernel_shape=[2,1] strides=[2,1] ceil_mode=1",
    "MaxPool(X) -> Y kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1] ceil_mode=1",
    "AveragePool(X) -> Y kernel_shape=[2,2] strides=[3,2] pads=[1,1,1,1] ceil_mode=1",
    "AveragePool(X) -> Y kernel_shape=[3,2] strides=[2,1] pads=[1,0,0,1] ceil_mode=1 count_include_pad=1",
    "LpPool(X) -> Y kernel_shape=[2,3] strides=[2,1] dilations=[1,1] ceil_mode=1",
]
WIDTH = 3
#: Heights of x and t: up, and down to a single row.
HEIGHTS = [(5, 8), (2, 1)]


def model():
    """A loss of sums of squares, one a case, each with a parameter that scales the columns."""
    lines = [f"input x f32[batch,1,h,{WIDTH}]", f"input t f32[batch,1,th,{WIDTH}]", "init none f32[0] ="]
    lines += ["node Shape(t) -> size"]
    count = len(CASES) + len(POOLS)
    for i in range(count):
        lines += [f"init q{i} f32[{WIDTH}] = 0.9 1.2 -0.7", f"node Mul(x, q{i}) -> x{i}"]
    for i, pool in enumerate(POOLS, len(CASES)):
        lines += [f"node {pool}".replace("X", f"x{i}").replace("Y", f"y{i}")]
    for i, (mode, transform, nearest, scale, more) in enumerate(CASES):
        inputs = f"x{i}, none, none, size"
        if scale:
            lines += [f"init s{i} f32[4] = 1 1 {scale} 1"]
            inputs = f"x{i}, none, s{i}"
        lines += [
            f'node Resize({inputs}) -> y{i} mode="{mode}" coordinate_transformation_mode="{transform}" '
            f'nearest_mode="{nearest}"{more}',
        ]
    lines += [f"node ReduceSumSquare(y{i}) -> l{i} keepdims=0" for i in range(count)]
    lines += ["node Sum(" + ", ".join(f"l{i}" for i in range(count)) + ") -> loss", "output loss f32[]"]
    return "\n".join(lines) + "\n"


def run(trainc_run, package, data, base):
    """{name: gradient} and the loss of one batch."""
    command = [trainc_run, package, "--data", data, "--batch-size", "2", "--log-format", "json"]
    done = subprocess.run([*command, "--dump-gradients", base / "g"], check=True, capture_output=True, text=True)
    return {**safetensors_io.load(base / "g"), "loss": np.array(json.loads(done.stdout.splitlines()[0])["loss"])}


def main():
    trainc, trainc_run, make_onnx = sys.argv[1:]
    rng = np.random.default_rng(3)
    failures = 0
    with tempfile.TemporaryDirectory(prefix="trainc-resize-sizes-") as scratch:
        base = pathlib.Path(scratch)
        (base / "m.txt").write_text(model())
        subprocess.run([sys.executable, make_onnx, base / "m.txt", base / "m.onnx"], check=True)

        def compile_for(package, *dims):
            command = [trainc, base / "m.onnx", "-o", package, "--target", "cpu:native", "--trainable", "^q", *dims]
            subprocess.run(command, check=True, capture_output=True)

        compile_for(base / "any.tpk", "--dim", "h=2..64")
        for h, th in HEIGHTS:
            compile_for(base / "one.tpk", "--dim", f"h={h}", "--dim", f"th={th}")
            x, t = (rng.standard_normal((2, 1, n, WIDTH)).astype(np.float32) for n in (h, th))
            np.savez(base / "d.npz", x=x, t=t)
            wanted = run(trainc_run, base / "one.tpk", base / "d.npz", base)
            found = run(trainc_run, base / "any.tpk", base / "d.npz", base)
            for name, value in wanted.items():
                error = float(np.abs(found[name] - value).max() / np.abs(value).max())
                if not error <= 1e-6:
                    failures += 1
                    case = [*CASES, *POOLS][int(name[1:])] if name != "loss" else ""
                    print(f"heights {h} and {th}: {name} {case}: {found[name]}, expected {value}")
    if failures:
        sys.exit(f"{failures} values differ")
    print(f"{len(CASES)} resizes and {len(POOLS)} pools of {len(HEIGHTS)} heights")


if __name__ == "__main__":
    main()
