#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `trainc --report` says beforehand is what a run then holds: `memory_report.py BUILD_DIR`.

The peak of the report, for the sizes of the data, against `peak_bytes` of `trainc-run` with one thread,
and the memory in use at the marks of `--memory-stats` against it.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

MODELS = pathlib.Path(__file__).resolve().parent / "models"
LIMIT = 0.02
# Without the passes whose sizes depend on the values of the data: the report counts the most.
CASES = [
    ("bert-cls", []),
    ("gpt2", []),
    ("resnet", []),
    ("whisper", []),
    ("mlp", ["--optimizer", "sgd"]),
    ("gpt2", ["--accumulate", "2", "--clip-norm", "1"]),
]
PHASES = ["forward", "backward", "update"]


def call(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def dims(inputs, data, sizes):
    """--dim for each symbol, with the size in the data as its upper bound, if `sizes` has none."""
    sizes, given = dict(sizes), set(sizes)
    for entry in inputs:
        for name, size in zip(entry["shape"], data[entry["name"]].shape):
            if isinstance(name, str) and name.isidentifier() and name not in given:
                sizes[name] = size
    for name, size in sizes.items():
        if name:
            yield from ("--dim", f"{name}=1..{size}")


def main():
    build = pathlib.Path(sys.argv[1])
    trainc, run = build / "bin/trainc", build / "bin/trainc-run"
    bad = 0
    with tempfile.TemporaryDirectory(prefix="trainc-memory-") as scratch:
        package = pathlib.Path(scratch) / "model.tpk"
        for model, options in CASES:
            command = [trainc, MODELS / f"{model}.onnx", "-o", package, "--target", "cpu:native"]
            command += ["--no-eliminate-padding", "--no-exploit-label-sparsity", *options]
            call(*command)
            info = json.loads(call(run, package, "--info", "--log-format", "json"))
            data = np.load(MODELS / f"{model}.npz")
            flags = ["--accumulate", "2"] if "--accumulate" in options else []
            rows = len(next(iter(data.values()))) // (2 if flags else 1)
            bound = dims(info["inputs"], data, {info["batch_symbol"]: rows})
            report = call(*command, "--report", *bound)
            told = int(re.search(r"^  peak +[\d.]+ \w+  (\d+)$", report, re.M)[1])
            log = call(
                *[run, package, "--data", MODELS / f"{model}.npz", "--batch-size", rows, *flags],
                *["--steps", 2, "--threads", 1, "--log-format", "json", "--memory-stats"],
            )
            log = [json.loads(line) for line in log.splitlines()]
            measured = [e for e in log if e.get("event") == "summary"][0]["peak_bytes"]
            marks = [e for e in log if e.get("event") == "memory" and e.get("step") == 2]
            names = [f"{side}_{phase}" for phase in PHASES for side in ("pre", "post")]
            ok = abs(told - measured) <= LIMIT * measured
            ok &= [e["phase"] for e in marks] == names
            ok &= marks[0]["allocated"] < marks[1]["allocated"]  # what is kept for the backward
            ok &= marks[-1]["peak"] * 2**20 <= measured
            bad += not ok
            print(f"{model:10} {' '.join(options):28} told {told:9} measured {measured:9} "
                  f"{told / measured - 1:+.2%}{'' if ok else '  FAILED'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
