# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains the package of Inputs/counts.mlir, whose loss shows the value of the count, with different data.

  counts.py DIR
"""

import json
import pathlib
import subprocess
import sys

import numpy

ROWS = 64


def losses(folder, labelled, *options):
    """The loss of a step of each count, without the model's part of it."""
    x = numpy.zeros((len(labelled) * ROWS, 3), numpy.float32)
    labels = numpy.full(len(x), -100, numpy.int64)
    random = numpy.random.default_rng(1)
    for step, count in enumerate(labelled):
        labels[step * ROWS + random.permutation(ROWS)[:count]] = random.integers(0, 50, count)
    numpy.savez(folder / "data.npz", x=x, labels=labels)
    command = ["trainc-run", folder / "counts.tpk", "--data", folder / "data.npz", "--init", "normal:0.1",
               "--batch-size", str(ROWS), "--epochs", "1", "--log-format", "json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def main():
    folder = pathlib.Path(sys.argv[1])
    counts, buckets = [3, 20, 64, 0, 30, 41], [8, 24, 64, 8, 32, 48]
    found = losses(folder, counts)
    if found != [bucket - 1 for bucket in buckets]:
        sys.exit(f"losses {found} of the counts {counts}, expected those of {buckets}")
    if losses(folder, counts[:4], "--accumulate", "2") != [(8 + 24) / 2 - 1, (64 + 8) / 2 - 1]:
        sys.exit("micro-batches have other counts")


main()
