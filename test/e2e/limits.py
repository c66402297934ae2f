#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Limits: `limits.py BUILD_DIR`. Compile time, the size of the runtime, the time to a first step."""

import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

MODELS = pathlib.Path(__file__).resolve().parent / "models"
CHARGPT = pathlib.Path(__file__).resolve().parents[2] / "examples/chargpt/chargpt.onnx"
COMPILE_SECONDS = 10.0
FIRST_STEP_SECONDS = 1.0
RUNTIME_BYTES = 5_000_000


def timed(command):
    """Seconds, without those that other tests have the cores: at most what it computes, over all cores."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    # A cache of kernels would tell how fast it is, not the compiler.
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL, env=os.environ | {"TRAINC_CACHE": ""})
    wall = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    computed = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return min(wall, computed / os.cpu_count())


def main():
    build = pathlib.Path(sys.argv[1])
    rows = []
    size = (build / "lib" / "libtrainrt.so").resolve().stat().st_size
    rows.append(("libtrainrt.so, bytes", size, RUNTIME_BYTES))
    with tempfile.TemporaryDirectory(prefix="trainc-limits-") as scratch:
        for name in ("mlp", "bert-cls", "gpt2"):
            package = pathlib.Path(scratch) / f"{name}.tpk"
            model = MODELS / f"{name}.onnx"
            seconds = timed([build / "bin/trainc", model, "-o", package, "--target", "cpu"])
            rows.append((f"compiling {name}, s", seconds, COMPILE_SECONDS))
            command = [build / "bin/trainc-run", package, "--data", MODELS / f"{name}.npz"]
            seconds = timed([*command, "--batch-size", "6", "--steps", "1", "--log-format", "json"])
            rows.append((f"start to first step, {name}, s", seconds, FIRST_STEP_SECONDS))
        package = pathlib.Path(scratch) / "chargpt.tpk"
        seconds = timed([build / "bin/trainc", CHARGPT, "-o", package, "--target", "cpu"])
        rows.append(("compiling chargpt, s", seconds, COMPILE_SECONDS))
    bad = 0
    for what, value, limit in rows:
        bad += value > limit
        print(f"{what:36} {value:12.3f}  limit {limit:g}{'  FAILED' if value > limit else ''}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
