#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running statistics of BatchNormalization: `batchnorm.py TRAINC TRAINC_RUN`.

They are state that a step changes without a gradient: every micro-batch moves them, checkpoints hold
them, evaluation divides by them, and --batchnorm frozen leaves them alone. Compared with NumPy.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import safetensors_io
from mini_onnx import FLOAT, model, node, tensor, value_info

MOMENTUM, EPSILON = 0.9, 1e-5
START = {"mean": [0.5, -1.0], "var": [2.0, 0.25]}
SCALE, BIAS = np.array([1.5, -0.5]), np.array([0.25, 1.0])


def graph(nodes):
    """A loss over the results of some BatchNormalization nodes on x [batch, 2, 3], against t."""
    chain, last = [], "zero"
    for i, (source, training) in enumerate(nodes):
        inputs = [source, "scale", "bias", "mean", "var"]
        flag = [("training_mode", 1)] if training else []
        outputs = [f"y{i}", f"mean{i}", f"var{i}"] if training else [f"y{i}"]
        chain.append(node("BatchNormalization", inputs, outputs, f"norm{i}", attributes=flag))
        chain.append(node("Add", [last, f"y{i}"], [f"sum{i}"], f"add{i}"))
        last = f"sum{i}"
    chain = [node("Neg", ["x"], ["negated"], "negate"), *chain]
    chain += [
        node("Sub", [last, "t"], ["difference"], "difference"),
        node("Mul", ["difference", "difference"], ["square"], "square"),
        node("ReduceMean", ["square"], ["loss"], "average", attributes=[("keepdims", 0)]),
    ]
    shape = ["batch", 2, 3]
    inputs = [value_info("x", FLOAT, shape), value_info("t", FLOAT, shape)]
    weights = [tensor(name, [2], values) for name, values in START.items()]
    weights += [tensor("scale", [2], SCALE), tensor("bias", [2], BIAS), tensor("zero", [1], [0.0])]
    return model(chain, inputs, [value_info("loss", FLOAT, [])], weights)


def statistics(x):
    return x.mean((0, 2)), x.var((0, 2))


def moved(running, x):
    return tuple(MOMENTUM * r + (1 - MOMENTUM) * b for r, b in zip(running, statistics(x)))


def loss_of(x, t, mean, var):
    def channels(v):
        return np.asarray(v)[None, :, None]

    y = (x - channels(mean)) / np.sqrt(channels(var) + EPSILON) * channels(SCALE) + channels(BIAS)
    return float(np.mean((y - t) ** 2))


class Run:
    """Compiles and runs in a scratch folder."""

    def __init__(self, trainc, trainc_run, scratch):
        self.trainc, self.trainc_run, self.base = trainc, trainc_run, pathlib.Path(scratch)
        self.count = 0

    def compile(self, nodes, *flags):
        self.count += 1
        path = self.base / f"{self.count}.onnx"
        path.write_bytes(graph(nodes))
        package = path.with_suffix(".tpk")
        command = [self.trainc, path, "-o", package, "--target", "cpu:native", *flags]
        subprocess.run(command, check=True, capture_output=True)
        return package

    def train(self, package, steps, *flags):
        """(log, running statistics) after that many steps at learning rate 0."""
        self.count += 1
        folder = self.base / f"saved{self.count}"
        command = [self.trainc_run, package, "--data", self.base / "d.npz", "--batch-size", "4"]
        command += ["--steps", str(steps), "--lr", "0", "--save", folder, "--log-format", "json"]
        done = subprocess.run([*command, *flags], check=True, capture_output=True, text=True)
        log = [json.loads(line) for line in done.stdout.splitlines()]
        last = max(folder.glob("step-*"), key=lambda p: int(p.name[5:]))
        saved = safetensors_io.load(last / "parameters.safetensors")
        return log, (saved["mean"], saved["var"]), folder


def expect(what, found, wanted):
    error = max(
        float(np.max(np.abs(np.asarray(f) - w) / np.maximum(np.abs(w), 1)))
        for f, w in zip(found, wanted)
    )
    print(f"{what}: off by {error:.1e}")
    if not error <= 1e-6:
        sys.exit(f"{what}: {found}, expected {wanted}")


def main():
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((16, 2, 3)) * [[[2.0], [0.5]]] + [[[1.0], [-3.0]]]).astype(np.float32)
    t = rng.standard_normal(x.shape).astype(np.float32)
    batches = [(x[i : i + 4].astype(np.float64), t[i : i + 4]) for i in range(0, 16, 4)]
    start = tuple(np.array(v) for v in START.values())
    with tempfile.TemporaryDirectory(prefix="trainc-batchnorm-") as scratch:
        run = Run(*sys.argv[1:], scratch)
        np.savez(run.base / "d.npz", x=x, t=t)
        np.savez(run.base / "e.npz", x=x[:4] * 2, t=t[:4])
        package = run.compile([("x", True)])

        running = start
        for batch, _ in batches[:3]:
            running = moved(running, batch)
        log, found, _ = run.train(package, 3, "--eval", run.base / "e.npz")
        losses = [entry["loss"] for entry in log if "event" not in entry]
        expect("losses", [losses], [[loss_of(b, u, *statistics(b)) for b, u in batches[:3]]])
        expect("running statistics", found, running)
        evaluated = [entry["loss"] for entry in log if entry.get("event") == "eval"][-1]
        expect("evaluation", [evaluated], [loss_of(batches[0][0] * 2, batches[0][1], *running)])

        _, _, folder = run.train(package, 2)
        _, resumed, _ = run.train(package, 3, "--resume", folder)
        expect("resumed", resumed, running)

        running = moved(running, batches[3][0])
        _, found, _ = run.train(package, 2, "--accumulate", "2")
        expect("micro-batches", found, running)

        _, found, _ = run.train(run.compile([("x", False)], "--batchnorm", "train"), 1)
        expect("inference form as training", found, moved(start, batches[0][0]))
        log, found, _ = run.train(run.compile([("x", True)], "--batchnorm", "frozen"), 1)
        expect("frozen", found, start)
        expect("loss, frozen", [log[0]["loss"]], [loss_of(*batches[0], *start)])

        _, found, _ = run.train(run.compile([("x", True), ("negated", True)]), 1)
        expect("shared", found, moved(moved(start, batches[0][0]), -batches[0][0]))


if __name__ == "__main__":
    main()
