# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products that expand quantized weights as they read them, against the library's of expanded ones.

One model is compiled for few rows, whose products are kernels, and for many: the same numbers but for
the order of sums. Both ways a weight can be stored, long sums and short ones, and rows that do not fill a tile.
"""

import json
import pathlib
import subprocess

import numpy as np
import run_e2e

STEPS = 10
ROWS = (1, 7, 24, 32)
#: Of a loss, and of the B of an adapter after the steps, relative: sums in another order, rounded to bf16.
LOSS, ADAPTER = 1e-3, 5e-2
FLAGS = ("--lora", "r=8,alpha=16", "--precision", "bf16", "--optimizer", "sgd", "--lr", "0.05")
FORMATS = ("nf4:double", "fp4:block=32", "int8")


def write_model(path):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    r = np.random.default_rng(1)
    # Long sums, which blocks share, among them: both ways, of results and of gradients.
    shapes = {"a": (128, 128), "b": (128, 1024), "c": (512, 1024), "d": (512, 64), "e": (96, 64), "head": (96, 10)}
    weights = [
        numpy_helper.from_array((r.standard_normal(s) / max(s) ** 0.5).astype(np.float32), f"{n}.weight")
        for n, s in shapes.items()
    ]
    nodes, value = [], "x"
    for name in "abcde":
        weight = f"{name}.weight"
        if name in "ce":
            nodes.append(helper.make_node("Transpose", [weight], [f"{name}.t"], perm=[1, 0]))
            weight = f"{name}.t"
        nodes.append(helper.make_node("MatMul", [value, weight], [f"{name}.y"], f"{name}/MatMul"))
        nodes.append(helper.make_node("Tanh", [f"{name}.y"], [f"{name}.z"]))
        value = f"{name}.z"
    nodes.append(helper.make_node("MatMul", [value, "head.weight"], ["logits"], "head/MatMul"))
    nodes.append(helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss"]))
    graph = helper.make_graph(
        nodes,
        "few rows",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 128]),
            helper.make_tensor_value_info("labels", TensorProto.INT64, ["rows"]),
        ],
        [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def packages(folder):
    """{(quantization, whether for few rows): package}"""
    return {
        (quantize, few): folder / f"few-rows-{quantize.split(':')[0]}-{'few' if few else 'many'}.tpk"
        for quantize in FORMATS
        for few in (True, False)
    }


def compile_packages(trainc, target, folder):
    model = folder / "few-rows.onnx"
    write_model(model)
    for (quantize, few), package in packages(folder).items():
        command = [trainc, model, "-o", package, "--embed-weights", "--target", target, *FLAGS]
        command += ["--quantize", quantize, "--dim", f"rows=1..{max(ROWS) if few else 4096}"]
        subprocess.run([str(c) for c in command], check=True, capture_output=True)


def check_products(folder):
    for (_, few), package in packages(folder).items():
        if (b"_product" in package.read_bytes()) != few:
            raise ValueError(f"{package.name} has not the products it should have")


def values_of(file):
    """The numbers that began as zeros, of a safetensors file of f32: what the gradients have moved."""
    begin = 8 + int.from_bytes(file[:8], "little")
    entries = sorted((name, entry["data_offsets"]) for name, entry in json.loads(file[8:begin]).items() if "lora_B" in name)
    return np.concatenate([np.frombuffer(file[begin + first : begin + last], np.float32) for _, (first, last) in entries])


def check(trainc_run, folder, scratch):
    """A line for each format and number of rows, and whether all are near."""
    check_products(folder)
    r = np.random.default_rng(2)
    near = True
    for rows in ROWS:
        data = pathlib.Path(scratch) / f"{rows}.npz"
        np.savez(
            data,
            x=r.standard_normal((rows * STEPS, 128)).astype(np.float32),
            labels=r.integers(0, 10, rows * STEPS),
        )
        for quantize in FORMATS:
            runs = []
            for few in (True, True, False):
                package = packages(folder)[quantize, few]
                saved = pathlib.Path(scratch) / f"{rows}-{len(runs)}"
                command = [trainc_run, package, "--data", data, "--batch-size", rows, "--steps", STEPS]
                command += ["--log-format", "json", "--export", saved]
                done = subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)
                log = run_e2e.steps_of(map(json.loads, done.stdout.splitlines()))
                losses = [entry["loss"] for entry in log]
                runs.append((losses, (saved / "adapter_model.safetensors").read_bytes()))
            (ours, adapter), again, (theirs, other) = runs
            worst = max(run_e2e.relative(a, b) for a, b in zip(ours, theirs))
            values, others = map(values_of, (adapter, other))
            distance = np.linalg.norm(values - others) / np.linalg.norm(others)
            print(f"{quantize}, {rows} rows: losses {worst:.1e}, adapter {distance:.1e}")
            near &= len(ours) == len(theirs) == STEPS and worst <= LOSS and distance <= ADAPTER
            near &= again == (ours, adapter)
    return near
