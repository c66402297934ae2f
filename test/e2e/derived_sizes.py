#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Axes named 2*h and 2*w, where none is h or w alone: `derived_sizes.py TRAINC TRAINC_RUN MAKE_ONNX`.

One package trains images of two sizes with the losses that numpy has, says what it needs for them, and refuses others.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

MODEL = """
input x f32[batch,1,2*h,2*w]
input t f32[batch,1,4*h,4*w]
init q f32[1] = 0.5
init none f32[0] =
init twice f32[4] = 1 1 2 2
output loss f32[]
node Mul(x, q) -> y
node MaxPool(y) -> small kernel_shape=[2,2] strides=[2,2]
node Resize(small, none, twice) -> back mode="nearest"
node Sub(y, back) -> rest
node Resize(rest, none, twice) -> large mode="nearest"
node Sub(large, t) -> error
node Mul(error, error) -> square
node ReduceMean(square) -> loss keepdims=0
"""


def expected(x, t):
    """The loss, in f64; images are [rows, 1, height, width]."""
    y = 0.5 * x.astype(np.float64)
    rows, _, height, width = y.shape
    small = y.reshape(rows, 1, height // 2, 2, width // 2, 2).max(axis=(3, 5))
    double = lambda image: image.repeat(2, axis=2).repeat(2, axis=3)
    return np.square(double(y - double(small)) - t).mean()


def main():
    trainc, trainc_run, make_onnx = sys.argv[1:]
    rng = np.random.default_rng(3)
    with tempfile.TemporaryDirectory(prefix="trainc-derived-sizes-") as scratch:
        base = pathlib.Path(scratch)
        (base / "m.txt").write_text(MODEL)
        subprocess.run([sys.executable, make_onnx, base / "m.txt", base / "m.onnx"], check=True)
        flags = ["--target", "cpu:native", "--trainable", "^q$", "--dim", "w=1..8"]
        subprocess.run([trainc, base / "m.onnx", "-o", base / "m.tpk", *flags], check=True)

        def run(height, width, target, *more):
            images = {"x": (height, width), "t": target}
            data = {name: rng.standard_normal((3, 1, *size)).astype(np.float32) for name, size in images.items()}
            np.savez(base / "d.npz", **data)
            command = [trainc_run, base / "m.tpk", "--data", base / "d.npz", "--batch-size", "3", "--steps", "1", *more]
            return data, subprocess.run(command, capture_output=True, text=True)

        def expect(what, done, text):
            if text not in done.stdout + done.stderr:
                sys.exit(f"{what}: no '{text}' in\n{done.stdout}{done.stderr}")

        for height, width in ((6, 4), (2, 16)):
            data, done = run(height, width, (2 * height, 2 * width), "--log-format", "json")
            if done.returncode:
                sys.exit(done.stderr)
            loss, want = json.loads(done.stdout.splitlines()[0])["loss"], expected(data["x"], data["t"])
            print(f"{height} x {width}: loss {loss}, expected {want}")
            if not abs(loss - want) <= 1e-5 * want:
                sys.exit("another loss")
        _, done = run(6, 4, (12, 8), "--dry-run")
        expect("memory", done, "memory plan")
        for what, sizes, text in (
            ("odd", (5, 4, (10, 8)), "d.npz: input 'x', axis 2 ('2*h'): 5 is not its size for any whole 'h'"),
            ("large", (6, 18, (12, 36)), "input 'x', axis 3 ('2*w'): 18 makes 'w' 9, which is above the maximum 8"),
            ("other", (6, 4, (12, 10)), "input 't', axis 3 ('4*w'): expected 8, got 10"),
        ):
            expect(what, run(*sizes)[1], text)
        info = subprocess.run([trainc_run, base / "m.tpk", "--info"], check=True, capture_output=True, text=True)
        expect("description", info, "w: 1 to 8 (axis 3 of x, which is 2*w)")


if __name__ == "__main__":
    main()
