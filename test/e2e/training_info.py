#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models with a training algorithm of their own (training_info): trained, and compared with numpy.

  training_info.py --trainc BIN --trainc-run BIN

Each is a two-layer classifier whose algorithm differentiates it with the operator Gradient and
updates it with Adam, Adagrad or Momentum. Losses, parameters, states and counts are compared with
the same computation in double. Where the model has an initialization, it is what the training
begins with. What cannot be run is refused by name.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PREVIEW = "ai.onnx.preview.training"
STEPS, BATCH, RATE = 20, 5, 0.02
ATTRIBUTES = {
    "Adam": {"alpha": 0.85, "beta": 0.97, "epsilon": 1e-5, "norm_coefficient": 0.01,
             "norm_coefficient_post": 0.002},
    "Adagrad": {"decay_factor": 0.1, "epsilon": 1e-5, "norm_coefficient": 0.01},
    "Momentum": {"alpha": 0.9, "beta": 0.5, "mode": "nesterov", "norm_coefficient": 0.01},
}
STATES = {"Adam": "vh", "Adagrad": "h", "Momentum": "v"}


def initial(rng):
    draw = lambda *shape: (rng.standard_normal(shape) * 0.5).astype(np.float32)
    return {"w1": draw(6, 7), "w2": draw(7, 4)}


def make_model(kind, parameters):
    """The model, with its update count and state in the algorithm's initializers."""
    info = helper.make_tensor_value_info
    inputs = [info("x", TensorProto.FLOAT, ["batch", 6]), info("labels", TensorProto.INT64, ["batch"])]
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], name="first"),
        helper.make_node("Tanh", ["h"], ["a"], name="tanh"),
        helper.make_node("MatMul", ["a", "w2"], ["logits"], name="second"),
    ]
    tensors = [numpy_helper.from_array(v, k) for k, v in parameters.items()]
    outputs = [info("logits", TensorProto.FLOAT, ["batch", 4])]
    graph = helper.make_graph(nodes, "model", inputs[:1], outputs, tensors)
    names = list(parameters)
    states = [f"{name}/{s}" for s in STATES[kind] for name in names]
    train = [
        helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss"], name="criterion"),
        helper.make_node(
            "Gradient", names, [f"d{n}" for n in names], name="gradient", domain=PREVIEW,
            xs=names, y="loss",
        ),
        helper.make_node(
            kind, ["rate", "count", *names, *(f"d{n}" for n in names), *states],
            [*(f"new {n}" for n in names), *(f"new {s}" for s in states)],
            name="optimizer", domain=PREVIEW, **ATTRIBUTES[kind],
        ),
        helper.make_node("Add", ["count", "one"], ["new count"], name="counter"),
    ]
    more = [
        numpy_helper.from_array(np.float32(RATE).reshape(()), "rate"),
        numpy_helper.from_array(np.int64(0).reshape(()), "count"),
        numpy_helper.from_array(np.int64(1).reshape(()), "one"),
    ]
    more += [
        numpy_helper.from_array(np.zeros_like(parameters[s.split("/")[0]]), s) for s in states
    ]
    changed = [*names, *states, "count"]
    results = [info("loss", TensorProto.FLOAT, [])]
    results += [info(f"new {n}", TensorProto.FLOAT, None) for n in changed[:-1]]
    results += [info("new count", TensorProto.INT64, [])]
    algorithm = helper.make_graph(train, "algorithm", inputs[1:], results, more)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(PREVIEW, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    bindings = {n: f"new {n}" for n in changed}
    model.training_info.append(helper.make_training_info(algorithm, list(bindings.items()), None, None))
    return model


def loss_and_gradients(p, x, labels):
    a = np.tanh(x @ p["w1"])
    logits = a @ p["w2"]
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    probability = shifted / shifted.sum(1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(probability[rows, labels]).mean()
    d = probability.copy()
    d[rows, labels] -= 1
    d /= len(labels)
    return loss, {"w1": x.T @ ((d @ p["w2"].T) * (1 - a * a)), "w2": a.T @ d}


def update(kind, x, g, state, count):
    """One tensor's update by ONNX's specification; returns the new tensor and state."""
    o = {k: v if isinstance(v, str) else float(np.float32(v)) for k, v in ATTRIBUTES[kind].items()}
    rate = float(np.float32(RATE))
    g = o["norm_coefficient"] * x + g
    if kind == "Adagrad":
        h = state[0] + g * g
        return x - rate / (1 + count * o["decay_factor"]) * g / (np.sqrt(h) + o["epsilon"]), [h]
    if kind == "Momentum":
        v = o["alpha"] * state[0] + (o["beta"] if count > 0 else 1.0) * g
        return x - rate * (g + o["alpha"] * v), [v]
    v = o["alpha"] * state[0] + (1 - o["alpha"]) * g
    h = o["beta"] * state[1] + (1 - o["beta"]) * g * g
    if count > 0:
        rate *= np.sqrt(1 - o["beta"] ** count) / (1 - o["alpha"] ** count)
    x = x - rate * v / (np.sqrt(h) + o["epsilon"])
    return (1 - o["norm_coefficient_post"]) * x, [v, h]


def reference(kind, parameters, data):
    p = {k: v.astype(np.float64) for k, v in parameters.items()}
    state = {k: [np.zeros_like(v) for _ in STATES[kind]] for k, v in p.items()}
    losses = []
    for step in range(STEPS):
        rows = np.arange(BATCH) + step % (len(data["x"]) // BATCH) * BATCH
        loss, gradients = loss_and_gradients(p, data["x"][rows].astype(np.float64), data["labels"][rows])
        losses.append(loss)
        for k in p:
            p[k], state[k] = update(kind, p[k], gradients[k], state[k], step)
    values = {**p, "count": np.int64(STEPS)}
    for i, s in enumerate(STATES[kind]):
        values |= {f"{k}/{s}": state[k][i] for k in p}
    return losses, values


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)


def check(what, done):
    if done.returncode:
        sys.exit(f"{what}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done


def train(arguments, scratch, kind, data):
    import safetensors_io

    parameters = initial(np.random.default_rng(1))
    path, package = scratch / f"{kind}.onnx", scratch / f"{kind}.tpk"
    onnx.save(make_model(kind, parameters), path)
    check(kind, run(arguments.trainc, path, "-o", package, "--target", arguments.target))
    log = check(
        kind,
        run(arguments.trainc_run, package, "--data", data["file"], "--batch-size", BATCH, "--steps", STEPS,
            "--log-format", "json", "--save", scratch / f"{kind}-saved"),
    ).stdout
    entries = [json.loads(line) for line in log.splitlines()]
    losses = [entry["loss"] for entry in entries if "event" not in entry]
    expected, values = reference(kind, parameters, data)
    worst = max(abs(a - b) / b for a, b in zip(losses, expected, strict=True))
    saved = safetensors_io.load(scratch / f"{kind}-saved" / f"step-{STEPS}" / "parameters.safetensors")
    if set(saved) != set(values):
        sys.exit(f"{kind}: saved {sorted(saved)}, not {sorted(values)}")
    off = max(
        float(np.abs(saved[n] - v).max() / max(np.abs(v).max(), 1e-3)) for n, v in values.items()
    )
    print(f"{kind}: losses {losses[0]:.6f} to {losses[-1]:.6f}, off by {worst:.1e}; values by {off:.1e}")
    if not (worst <= 1e-6 and off <= 1e-5):
        sys.exit(f"{kind}: too far off")
    return package, path


def with_initialization(model, seed, scale=0.25):
    """The same model, whose file holds other values than those that its initialization gives."""
    table = np.arange(28, dtype=np.float32).reshape(7, 4) / 28 - 0.5
    nodes = [
        helper.make_node("RandomNormal", [], ["w1 first"], name="draw", shape=[6, 7], mean=0.1, scale=0.4,
                         **({} if seed is None else {"seed": float(seed)})),
        helper.make_node("RandomUniformLike", ["table"], ["noise"], name="noise", low=-0.1, high=0.1),
        helper.make_node("Mul", ["table", "scale"], ["scaled"], name="scaled"),
        helper.make_node("Add", ["scaled", "noise"], ["w2 first"], name="add"),
        helper.make_node("Constant", [], ["count first"], name="count", value_int=0),
    ]
    tensors = [numpy_helper.from_array(table, "table"),
               numpy_helper.from_array(np.float32(scale).reshape(()), "scale")]
    outputs = [helper.make_tensor_value_info(f"{n} first", kind, None) for n, kind in
               (("w1", TensorProto.FLOAT), ("w2", TensorProto.FLOAT), ("count", TensorProto.INT64))]
    info = model.training_info[0]
    info.initialization.CopyFrom(helper.make_graph(nodes, "initialization", [], outputs, tensors))
    for name in ("w1", "w2", "count"):
        info.initialization_binding.add(key=name, value=f"{name} first")
    for tensor in [*model.graph.initializer, *info.algorithm.initializer]:
        if tensor.name in ("w1", "w2", "count"):
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + 7, tensor.name))
    return table * np.float32(scale)


def initialized(arguments, scratch, data):
    """Values from the initialization graph: the same each time, of the right kind, and trained from."""
    import safetensors_io

    found = {}
    for name, seed in (("first", 3), ("again", 3), ("other", 4), ("unseeded", None)):
        model = make_model("Momentum", initial(np.random.default_rng(1)))
        center = with_initialization(model, seed)
        path, package = scratch / "initial.onnx", scratch / "initial.tpk"
        onnx.save(model, path)
        check(name, run(arguments.trainc, path, "-o", package, "--target", arguments.target))
        log = check(
            name,
            run(arguments.trainc_run, package, "--data", data["file"], "--batch-size", BATCH, "--steps",
                STEPS, "--log-format", "json", "--save", scratch / name, "--save-every", 1),
        ).stdout
        entries = [json.loads(line) for line in log.splitlines()]
        saved = lambda step: safetensors_io.load(scratch / name / f"step-{step}" / "parameters.safetensors")
        found[name] = [entry["loss"] for entry in entries if "event" not in entry], saved(1), center
    if found["first"][0] != found["again"][0] or found["first"][0][0] in (
        found["other"][0][0], found["unseeded"][0][0]
    ):
        sys.exit("the seed of the initialization does not decide on its numbers")
    losses, saved, center = found["first"]
    # The first step of Momentum leaves v = g: what the training began with.
    rate = float(np.float32(RATE))
    first = {}
    for n in ("w1", "w2"):
        step = saved[f"{n}/v"].astype(np.float64) * (1 + ATTRIBUTES["Momentum"]["alpha"])
        first[n] = saved[n].astype(np.float64) + rate * step
    if abs(first["w1"].mean() - 0.1) > 0.2 or abs(first["w1"].std() - 0.4) > 0.15:
        sys.exit(f"w1 begins with mean {first['w1'].mean()}, deviation {first['w1'].std()}")
    noise = first["w2"] - center
    if np.abs(noise).max() > 0.1 + 1e-6 or np.abs(noise).max() < 0.05 or saved["count"] != 1:
        sys.exit(f"w2 begins {np.abs(noise).max()} from its table, the count is {saved['count']}")
    expected, _ = reference("Momentum", first, data)
    worst = max(abs(a - b) / b for a, b in zip(losses, expected, strict=True))
    print(f"initialization: losses {losses[0]:.6f} to {losses[-1]:.6f}, off by {worst:.1e}")
    if not worst <= 1e-6:
        sys.exit("initialization: too far off")


def refused(what, done, *texts):
    if done.returncode != 1 or not all(text in done.stderr for text in texts):
        sys.exit(f"{what}: exit code {done.returncode}, expected {texts}:\n{done.stderr}")
    print(f"{what}: refused")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainc", required=True)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--target", default="cpu:native")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    data = {
        "x": rng.standard_normal((4 * BATCH, 6)).astype(np.float32),
        "labels": rng.integers(0, 4, 4 * BATCH).astype(np.int64),
    }
    with tempfile.TemporaryDirectory(prefix="trainc-info-") as folder:
        scratch = pathlib.Path(folder)
        np.savez(scratch / "data.npz", **data)
        data["file"] = scratch / "data.npz"
        for kind in ATTRIBUTES:
            package, path = train(arguments, scratch, kind, data)
        initialized(arguments, scratch, data)
        compile_ = lambda *flags: run(arguments.trainc, path, "-o", scratch / "x.tpk", "--target", "cpu:native", *flags)
        refused("learning rate", compile_("--lr", "0.1"), "the model's own training algorithm (training_info) decides on the learning rate",
                "name an --optimizer to train the model without it")
        refused("no loss", compile_("--optimizer", "sgd"), "has no loss",
                "the model's own training algorithm (training_info) is left out")
        done = run(arguments.trainc_run, package, "--data", data["file"], "--batch-size", BATCH,
                   "--steps", "1", "--accumulate", "2")
        refused("accumulation", done, "--accumulate", "no separate update")
        done = run(arguments.trainc_run, package, "--data", data["file"], "--batch-size", BATCH,
                   "--steps", "1", "--lr", "0.1")
        refused("learning rate of a run", done, "learning rate", "of its own", "--lr")
        model = onnx.load(path)
        model.training_info[0].update_binding[0].key = "w9"
        onnx.save(model, path)
        refused("unknown initializer", compile_(), "training_info updates 'w9', which is no initializer")
        model.training_info[0].update_binding[0].key = "w1"
        model.training_info[0].update_binding[0].value = "h"
        onnx.save(model, path)
        refused("no output", compile_(), "training_info updates 'w1' with 'h', which is no output")
        model.training_info[0].update_binding[0].value = "new w2"
        model.training_info[0].update_binding[0].key = "w2"
        onnx.save(model, path)
        refused("updated twice", compile_(), "training_info updates 'w2' twice")
        model.training_info[0].update_binding[0].key = "w1"
        onnx.save(model, path)
        refused("another shape", compile_(), "'new w2'", "'w1'", "shape")
        model = make_model("Momentum", initial(np.random.default_rng(1)))
        with_initialization(model, 3)
        info = model.training_info[0]
        for what, key, value, texts in (
            ("no initializer to begin with", "w9", "w1 first", ("training_info initializes 'w9', which is no initializer",)),
            ("no output to begin with", "w1", "h", ("training_info initializes 'w1' with 'h', which is no output of its initialization",)),
            ("two values to begin with", "w2", "w1 first", ("training_info initializes 'w2' twice",)),
            ("another shape to begin with", "w1", "w2 first", ("the initialization of training_info: its output 'w2 first' is not of", "'w1'")),
        ):
            info.initialization_binding[0].key, info.initialization_binding[0].value = key, value
            onnx.save(model, path)
            refused(what, compile_(), *texts)
        info.initialization_binding[0].key, info.initialization_binding[0].value = "w1", "w1 first"
        shape = next(a for a in info.initialization.node[0].attribute if a.name == "shape")
        shape.ints[0] = 1 << 39
        onnx.save(model, path)
        refused("random numbers without end", compile_(), "node 'draw'", "its shape is not one of known sizes that fit in memory")
        shape.ints[0] = 6
        info.initialization.initializer[0].ClearField("raw_data")
        info.initialization.initializer[0].data_location = TensorProto.EXTERNAL
        info.initialization.initializer[0].external_data.add(key="location", value="gone.bin")
        onnx.save(model, path)
        refused("a table without values", compile_(), "there are no values of 'table' to compute with")
        info.initialization.input.add(name="x")
        onnx.save(model, path)
        refused("an initialization with inputs", compile_(), "'x'", "before there is any data")


if __name__ == "__main__":
    main()
