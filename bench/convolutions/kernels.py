#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Speed of the CPU's kernels for images, as a share of the speed of a copy.

  bench/convolutions/kernels.py FOLDER [CASE...] [--threads 2]

Each case is a net of one such op between two 1x1 convolutions, on 16 images of 96 channels and
112 x 112 positions (77 MB). The table has the commands that compute the op and its gradient: the
bytes of what they read and write, over their time, by what `trainc-run --profile` measures for a
copy. Needs onnx and numpy. FOLDER takes models, packages and profiles.
"""

import argparse
import importlib.util
import json
import pathlib
import subprocess

import images
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = images.Sizes(images=16, channels=96, side=112)
SMALLEST = 10e6


def load_graph():
    """The class of graphs of bench/cuda/kernels.py, which has this file's name."""
    spec = importlib.util.spec_from_file_location("gpu_kernels", ROOT / "bench/cuda/kernels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Graph


def run(name, folder, threads):
    model = folder / f"{images.file_name(name)}.onnx"
    package, data, profile = (model.with_suffix(s) for s in (".tpk", ".npz", ".json"))
    images.build(load_graph(), name, SIZES).save(model)
    np.savez(data, x=images.make_input(SIZES))
    command = [ROOT / "build/bin/trainc", model, "-o", package, "--target", "cpu"]
    command += ["--optimizer", "sgd", "--lr", 0.001]
    subprocess.run([str(c) for c in command], check=True, stderr=subprocess.DEVNULL)
    command = [ROOT / "build/bin/trainc-run", package, "--data", data, "--batch-size", SIZES.images]
    command += ["--steps", 6, "--init", "normal:0.02", "--threads", threads, "--profile", profile]
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for line in profile.read_text().splitlines():
        entry = json.loads(line)
        if images.computes_op(entry["nodes"]) and entry["bytes"] >= SMALLEST:
            print(
                f"| {name} | `{entry['name']}` {', '.join(entry['nodes'])} | {entry['bytes'] / 1e6:.0f} "
                f"| {entry['ms']:.1f} | {entry['of_copy']:.2f} |",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(images.CASES))
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print("| case | command and what it computes | MB | ms | of copy speed |")
    print("| --- | --- | --- | --- | --- |")
    for name in arguments.cases or images.CASES:
        run(name, arguments.folder, arguments.threads)


if __name__ == "__main__":
    main()
