#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Time and memory of reading large models: run.py BUILD_DIR [--check]

Prints what `trainc --stop-after import` and `--stop-after legalize` take for each kind of model of
make_model.py. With --check, which the test suite runs, models are smaller, and it is an error if
four times the nodes take more than eight times as long (they would take 16 times with anything
quadratic), or if a model with 1 GB of external data takes more than 1 s or 200 MB.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

MAKE = pathlib.Path(__file__).resolve().parent / "make_model.py"
PHASES = {"import": ("nodes", "reversed", "fan", "functions", "weights"), "legalize": ("nodes", "fan", "functions")}
DATA_BYTES, DATA_SECONDS, DATA_MEMORY = 1 << 30, 1.0, 200e6
MOST_GROWTH = 8


def measure(trainc, model, phase, repeats=2):
    """(seconds of wall time, seconds of CPU time, peak bytes), the best of some runs."""
    best = None
    for _ in range(repeats):
        begin = time.monotonic()
        command = [trainc, model, "--stop-after", phase, "--target", "cpu"]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            text = process.stderr.read().decode(errors="replace")
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{model}: exit code {process.returncode}\n{text}")
        row = (time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
        best = row if best is None or row[1] < best[1] else best
    return best


def main():
    build, check = pathlib.Path(sys.argv[1]), "--check" in sys.argv
    trainc, bad = build / "bin/trainc", 0
    sizes = (30_000, 120_000) if check else (125_000, 500_000)
    with tempfile.TemporaryDirectory(prefix="trainc-import-") as scratch:
        path = pathlib.Path(scratch) / "m.onnx"

        def make(kind, size):
            subprocess.run([sys.executable, MAKE, kind, str(size), path], check=True)

        make("nodes", 10)
        start = {phase: measure(trainc, path, phase)[1] for phase in PHASES}
        print(f"{'phase':10} {'model':10} {'size':>11} {'s':>8} {'CPU s':>8} {'MB':>8}")
        for phase, kinds in PHASES.items():
            for kind in kinds:
                # A busy machine makes single runs slow; what is quadratic is so every time.
                for _ in range(3 if check else 1):
                    times = []
                    for size in sizes:
                        make(kind, size)
                        wall, cpu, memory = measure(trainc, path, phase)
                        times.append(max(cpu - start[phase], 1e-2))
                        print(f"{phase:10} {kind:10} {size:11} {wall:8.2f} {cpu:8.2f} {memory / 1e6:8.0f}")
                    growth = times[1] / times[0]
                    if growth <= MOST_GROWTH:
                        break
                else:
                    bad += 1
                    print(f"FAILED: {kind}, {phase}: {growth:.1f} times as long for 4 times the size")
        make("data", DATA_BYTES)
        wall, cpu, memory = measure(trainc, path, "import", repeats=5)
        print(f"{'import':10} {'data':10} {DATA_BYTES:11} {wall:8.2f} {cpu:8.2f} {memory / 1e6:8.0f}")
        if wall > DATA_SECONDS or memory > DATA_MEMORY:
            bad += 1
            print(f"FAILED: more than {DATA_SECONDS} s or {DATA_MEMORY / 1e6:.0f} MB")
    return 1 if bad and check else 0


if __name__ == "__main__":
    sys.exit(main())
