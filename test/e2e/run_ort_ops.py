#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Single nodes of ONNX Runtime's training domain, against its own stored results.

  run_ort_ops.py --trainc BIN --trainc-run BIN --cases models/ort/ops.npz
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import safetensors_io

LIMIT = 3e-6  # of every result, relative to its largest element


def call(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    return done.stderr[-1500:] if done.returncode else ""


def run(arguments, scratch, name, arrays):
    """What is wrong with one case, or ''."""
    part = lambda kind: {
        key.split(":", 2)[2]: value for key, value in arrays.items() if key.startswith(f"{name}:{kind}:")
    }
    model, package, data, out = (scratch / f"{name}.{s}" for s in ("onnx", "tpk", "npz", "safetensors"))
    model.write_bytes(arrays[f"{name}:model"].tobytes())
    np.savez(data, **part("in"))
    flags = ["-o", package, "--inference", "--target", arguments.target]
    if problem := call(arguments.trainc, model, *flags):
        return problem
    expected = part("out")
    names = ",".join(expected)
    if problem := call(arguments.trainc_run, package, "--predict", data, "--outputs", names, "-o", out):
        return problem
    found = safetensors_io.load(out)
    for key, value in expected.items():
        got = found[key]
        if got.shape != value.shape or got.dtype != value.dtype:
            return f"{key} is {got.dtype} {got.shape}, expected {value.dtype} {value.shape}"
        off = float(np.abs(got.astype(np.float64) - value).max() / max(np.abs(value).max(), 1e-6))
        if not off <= LIMIT:
            return f"{key} is off by {off:.1e}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainc", required=True)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--cases", required=True)
    parser.add_argument("--target", default="cpu:x86-64-v3")
    arguments = parser.parse_args()
    arrays = dict(np.load(arguments.cases))
    names = [key[: -len(":model")] for key in arrays if key.endswith(":model")]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="trainc-ops-") as scratch:
        for name in names:
            if problem := run(arguments, pathlib.Path(scratch), name, arrays):
                failed += 1
                print(f"FAILED {name}: {problem}")
    print(f"{len(names) - failed} of {len(names)} cases")
    return 1 if failed or len(names) < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
