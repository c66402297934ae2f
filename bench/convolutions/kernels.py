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

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGES, CHANNELS, SIDE, FEW = 16, 96, 112, 4
SMALLEST = 10e6


def load_graph():
    """The class of graphs of bench/cuda/kernels.py, which has this file's name."""
    spec = importlib.util.spec_from_file_location("gpu_kernels", ROOT / "bench/cuda/kernels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Graph


def depthwise(taps):
    def build(g, h):
        weight = g.parameter("op.weight", CHANNELS, 1, taps, taps)
        return g.node("op", "Conv", h, weight, group=CHANNELS, pads=[taps // 2] * 4)

    return build


def batch_norm(g, h):
    scale, shift = g.parameter("scale", CHANNELS), g.parameter("shift", CHANNELS)
    mean = g.constant("mean", np.zeros(CHANNELS, np.float32))
    variance = g.constant("variance", np.ones(CHANNELS, np.float32))
    return g.node(
        "op", "BatchNormalization", h, scale, shift, mean, variance, outputs=3, training_mode=1
    )


def group_norm(g, h):
    """As exporters write it: rows of a group."""
    groups = 8
    h = g.node("op.rows", "Reshape", h, g.constant("rows", np.array([IMAGES, groups, -1])))
    ones = g.constant("ones", np.ones(groups, np.float32))
    zeros = g.constant("zeros", np.zeros(groups, np.float32))
    h = g.node("op", "InstanceNormalization", h, ones, zeros)
    shape = g.constant("shape", np.array([IMAGES, CHANNELS, SIDE, SIDE]))
    h = g.node("op.back", "Reshape", h, shape)
    h = g.node("op.scale", "Mul", h, g.parameter("scale", CHANNELS, 1, 1))
    return g.node("op.shift", "Add", h, g.parameter("shift", CHANNELS, 1, 1))


def layer_norm(g, h):
    """Over the channels, which come first."""
    h = g.node("op.last", "Transpose", h, perm=[0, 2, 3, 1])
    scale, shift = g.parameter("scale", CHANNELS), g.parameter("shift", CHANNELS)
    h = g.node("op", "LayerNormalization", h, scale, shift, axis=-1)
    return g.node("op.first", "Transpose", h, perm=[0, 3, 1, 2])


def pool(kind, **more):
    return lambda g, h: g.node("op", kind, h, kernel_shape=[3, 3], strides=[2, 2], **more)


CASES = {
    "depthwise 3x3": depthwise(3),
    "depthwise 7x7": depthwise(7),
    "batch norm": batch_norm,
    "group norm": group_norm,
    "layer norm, channels first": layer_norm,
    "max pool 3x3 / 2": pool("MaxPool", pads=[1, 1, 1, 1]),
    "average pool 3x3 / 2": pool("AveragePool"),
}


def build(name, path):
    g = load_graph()(IMAGES, FEW, SIDE, SIDE)
    h = g.node("in", "Conv", "x", g.parameter("in.weight", CHANNELS, FEW, 1, 1))
    h = CASES[name](g, h)
    g.mean_square(g.node("out", "Conv", h, g.parameter("out.weight", FEW, CHANNELS, 1, 1)))
    g.save(path)


def run(name, folder, threads):
    model = folder / f"{name.replace(' ', '-').replace('/', 'by')}.onnx"
    package, data, profile = (model.with_suffix(s) for s in (".tpk", ".npz", ".json"))
    build(name, model)
    x = np.random.default_rng(1).standard_normal((IMAGES, FEW, SIDE, SIDE), dtype=np.float32)
    np.savez(data, x=x)
    command = [ROOT / "build/bin/trainc", model, "-o", package, "--target", "cpu"]
    command += ["--optimizer", "sgd", "--lr", 0.001]
    subprocess.run([str(c) for c in command], check=True, stderr=subprocess.DEVNULL)
    command = [ROOT / "build/bin/trainc-run", package, "--data", data, "--batch-size", IMAGES]
    command += ["--steps", 6, "--init", "normal:0.02", "--threads", threads, "--profile", profile]
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for line in profile.read_text().splitlines():
        entry = json.loads(line)
        nodes = [node for node in entry["nodes"] if node.split("/")[0].split(".")[0] == "op"]
        if nodes and entry["bytes"] >= SMALLEST:
            print(
                f"| {name} | `{entry['name']}` {', '.join(entry['nodes'])} | {entry['bytes'] / 1e6:.0f} "
                f"| {entry['ms']:.1f} | {entry['of_copy']:.2f} |",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print("| case | command and what it computes | MB | ms | of copy speed |")
    print("| --- | --- | --- | --- | --- |")
    for name in arguments.cases or CASES:
        run(name, arguments.folder, arguments.threads)


if __name__ == "__main__":
    main()
