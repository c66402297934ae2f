#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Accuracy of long sums: `long_sums.py TRAINC TRAINC_RUN MAKE_ONNX`.

Terms of one sign, where the error of a sum in f32 grows with its longest chain of additions: chains
have to stay short however many terms there are. Sums over all of a tensor (the loss), over its rows
(the gradient of `b`), and over the batch and the columns at once (that of `c`); for counts around
those where a sum gets another level. Compared with NumPy in f64.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import safetensors_io

MODEL = """
input x f32[batch,3,8]
init b f32[8] = 1 2 3 4 5 6 7 8
init c f32[3,1] = 1 2 3
node Mul(x, b) -> y
node Mul(y, c) -> z
node ReduceSum(z) -> loss keepdims=0
output loss f32[]
"""
COUNTS = [1, 5, 6, 15, 16, 17, 85, 86, 255, 256, 257, 1365, 1366, 4096, 4097, 21846, 65537, 131072]
# Two units in the last place: a dozen additions in each of a few levels.
BOUND = 2.0**-22


def main():
    trainc, trainc_run, make_onnx = sys.argv[1:]
    x = np.random.default_rng(1).random((max(COUNTS), 3, 8), dtype=np.float32)
    b, c = np.arange(1.0, 9.0), np.arange(1.0, 4.0)[:, None]
    failures = 0
    with tempfile.TemporaryDirectory(prefix="trainc-long-sums-") as scratch:
        base = pathlib.Path(scratch)
        (base / "m.txt").write_text(MODEL)
        subprocess.run([sys.executable, make_onnx, base / "m.txt", base / "m.onnx"], check=True)
        command = [trainc, base / "m.onnx", "-o", base / "m.tpk", "--target", "cpu:native"]
        subprocess.run(command, check=True, capture_output=True)
        for count in COUNTS:
            np.savez(base / "d.npz", x=x[:count])
            command = [trainc_run, base / "m.tpk", "--data", base / "d.npz", "--batch-size"]
            command += [str(count), "--log-format", "json", "--dump-gradients", base / "g"]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found = safetensors_io.load(base / "g")
            found["loss"] = json.loads(done.stdout.splitlines()[0])["loss"]
            part = x[:count].astype(np.float64)
            wanted = {
                "loss": (part * b * c).sum(),
                "b": (part * c).sum((0, 1)),
                "c": (part * b).sum((0, 2))[:, None],
            }
            errors = {n: float(np.max(np.abs(found[n] / w - 1))) for n, w in wanted.items()}
            print(count, " ".join(f"{name} {error:.1e}" for name, error in errors.items()))
            failures += sum(not error <= BOUND for error in errors.values())
    if failures:
        sys.exit(f"{failures} sums are off by more than {BOUND:.1e}")


if __name__ == "__main__":
    main()
