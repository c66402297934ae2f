#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compile time against depth: BERT classifiers of 2, 6, 12 and 24 layers.

  bench/compile-time/run.py --torch-python PYTHON

PYTHON is an interpreter with torch, transformers and onnx; it only writes the models, into a cache
folder. Prints the median of three compilations for each depth, and seconds a layer between depths.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPTHS = (2, 6, 12, 24)

EXPORT = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np, torch, zoo, export_training
spec = zoo.zoo(zoo.Sizes(layers=int(sys.argv[2])))["bert-cls"]
torch.manual_seed(1)
batch = {k: torch.from_numpy(v) for k, v in spec.batch(np.random.default_rng(1), 2, 8).items()}
export_training.export_for_training(spec.build(), batch, spec.axes, sys.argv[3])
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch-python", default="python3")
    parser.add_argument(
        "--cache", type=pathlib.Path, default=pathlib.Path.home() / ".cache/trainc-bench/depth"
    )
    arguments = parser.parse_args()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    print(f"{'layers':>6}{'compile s':>11}{'s a layer more':>16}{'package KiB':>13}")
    before = None
    for depth in DEPTHS:
        model = arguments.cache / f"bert-{depth}.onnx"
        if not model.exists():
            command = [arguments.torch_python, "-c", EXPORT, ROOT / "test/e2e", depth, model]
            subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL)
        package = model.with_suffix(".tpk")
        times = []
        for _ in range(3):
            begin = time.monotonic()
            command = [ROOT / "build/bin/trainc", model, "-o", package, "--target", "cpu"]
            subprocess.run([str(c) for c in command], check=True, stderr=subprocess.DEVNULL)
            times.append(time.monotonic() - begin)
        seconds = statistics.median(times)
        slope = f"{(seconds - before[1]) / (depth - before[0]):.3f}" if before else ""
        print(f"{depth:6}{seconds:11.2f}{slope:>16}{package.stat().st_size / 1024:13.0f}")
        before = (depth, seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
