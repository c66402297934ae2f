# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the package of variants.test on batches that allow its variants and others.

  variants.py DIR
"""

import json
import pathlib
import subprocess
import sys

import numpy

ROWS, STEPS = 16, 6


def run(folder, *options, level="error", form="json"):
    command = ["trainc-run", folder / "counts.tpk", "--data", folder / "data.npz", "--init", "normal:0.1",
               "--batch-size", str(ROWS), "--log-format", form, "--log-level", level, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def expect(found, wanted, what):
    if found != wanted:
        sys.exit(f"{what}: {found}, expected {wanted}")


def main():
    folder = pathlib.Path(sys.argv[1])
    random = numpy.random.default_rng(1)
    x = random.normal(size=(ROWS * STEPS, 3)).astype(numpy.float32)
    labels = random.integers(0, 50, len(x))
    x[3:8, 2] = 0  # padding behind: fine
    x[ROWS * 2 + 5, 1] = 0  # padding within: not in the third batch
    x[ROWS * 4 + 7] = 0  # nothing but padding: not in the fifth
    numpy.savez(folder / "data.npz", x=x, labels=labels)

    lines, errors = run(folder, "--epochs", "1", level="info")
    summary = next(line for line in lines if line.get("event") == "summary")
    expect((summary["variant_batches"], summary["base_batches"]), (4, 2), "batches")
    expect(summary["declined"], [
        "'step' ran instead of 'step.packed' for 1 batch: condition 'fixed_where_padded' ('x' is 0, 1 further on, "
        "where 'x' is 0) did not hold, first for row 5",
        "'step' ran instead of 'step.packed' for 1 batch: condition 'real_at' ('x' is not 0 in column 0) did not "
        "hold, first for row 7",
    ], "reasons")
    # Both functions for one size; each reason is also told when it is first met.
    expect(summary["plans"], 2, "plans")
    if summary["build_ms"] <= 0:
        sys.exit("building took no time")
    told = [line["message"] for line in lines if line.get("event") == "warning"]
    expect(len(told), 2, "warnings")
    expect(errors.count("ran instead of 'step.packed'"), 2, "lines on standard error")

    auto = [line["loss"] for line in lines if "loss" in line]
    lines, _ = run(folder, "--epochs", "1", "--variant", "base", "--warnings-as-errors")
    summary = next(line for line in lines if line.get("event") == "summary")
    expect((summary["variant_batches"], summary["base_batches"]), (0, 6), "batches of the base")
    expect([line["loss"] for line in lines if "loss" in line], auto, "losses")

    # The choice belongs to the run: a checkpoint keeps it.
    saved = ["--save", folder / "saved", "--resume", folder / "saved"]
    run(folder, "--epochs", "1", "--variant", "base", *saved[:2])
    _, errors = run(folder, "--epochs", "2", *saved[2:], level="info", form="text")
    expect(errors.count("resumed "), 1, errors)
    lines, _ = run(folder, "--epochs", "2", *saved, "--warnings-as-errors")
    summary = next(line for line in lines if line.get("event") == "summary")
    expect((summary["variant_batches"], summary["base_batches"]), (0, 6), "batches that go on")
    lines, errors = run(folder, "--epochs", "3", *saved, "--variant", "auto", level="warning")
    expect("--variant was base and is auto" in errors, True, errors)

    lines, _ = run(folder, "--epochs", "1", "--accumulate", "2", "--warnings-as-errors")
    summary = next(line for line in lines if line.get("event") == "summary")
    expect((summary["variant_batches"], summary["base_batches"]), (4, 2), "micro-batches")


main()
