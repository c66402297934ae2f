#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a step costs when Python calls it, beside trainc-run's: one MLP, the same rows, in one run.

  bench/python/run.py [--target cuda:sm_90] [--steps N] [--rounds N]

Needs trainrt and numpy (PYTHONPATH, TRAINRT_LIBRARY, trainc and trainc-run on the path, or the wheels), and torch for a GPU.
Both run the same package in turn; a number is the median of the rounds' mean time a step.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy
import trainrt

MODELS = pathlib.Path(__file__).resolve().parents[2] / "test" / "e2e" / "models"


def of_trainc_run(package, steps):
    """Mean microseconds a step, as its log has them; the first tenth warms up."""
    ran = subprocess.run(
        ["trainc-run", package, "--data", MODELS / "mlp.npz", "--steps", str(steps), "--batch-size", "24", "--log-format", "json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    took = [line["step_ms"] for line in told if "loss" in line]
    return statistics.mean(took[len(took) // 10 :]) * 1e3


def of_python(session, batch, steps):
    for _ in range(steps // 10):
        session.step(batch)
    session.finish()
    begin = time.perf_counter()
    for _ in range(steps):
        session.step(batch)
    session.finish()
    return (time.perf_counter() - begin) / steps * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    data = dict(numpy.load(MODELS / "mlp.npz"))
    batch = {name: array[:24] for name, array in data.items()}
    with tempfile.TemporaryDirectory() as folder:
        package = pathlib.Path(folder) / "mlp.tpk"
        subprocess.run(["trainc", MODELS / "mlp.onnx", "-o", package, "--target", options.target, "--embed-weights"], check=True, capture_output=True)
        batches = {"NumPy": batch}
        try:
            import torch

            batches["torch"] = {name: torch.from_numpy(array) for name, array in batch.items()}
            if options.target.startswith("cuda"):
                batches["torch, GPU"] = {name: tensor.cuda() for name, tensor in batches["torch"].items()}
        except ImportError:
            pass
        session = trainrt.Session(package)
        rounds = {"trainc-run": [], **{name: [] for name in batches}}
        for _ in range(options.rounds):
            rounds["trainc-run"].append(of_trainc_run(package, options.steps))
            for name, each in batches.items():
                rounds[name].append(of_python(session, each, options.steps))
    base = statistics.median(rounds["trainc-run"])
    for name, found in rounds.items():
        median = statistics.median(found)
        print(f"{name:12} {median:8.1f} us a step ({min(found):.1f} to {max(found):.1f})" + ("" if name == "trainc-run" else f"  {median - base:+.1f} us"))


main()
