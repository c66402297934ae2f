#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Speed of single kernels, as a fraction of the device's copy speed.

  kernels.py compile FOLDER [CASE...]    writes graphs, packages and their programs as text
  kernels.py run FOLDER [CASE...]        on the GPU: trains a few steps with --profile

Each case is a small graph around one kind of kernel, with activations far beyond the cache. A
kernel's bytes are those of its buffers, each counted as often as it is an operand or a result: what
it must move at least. Kernels that move less than 100 MB are left out. `compile` needs onnx, `run`
numpy; both together need no PyTorch, which only measures the copy speed (--copy gives it instead).
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ROWS, WIDTH, NARROW = 32768, 4096, 64
SMALLEST = 100e6


class Graph:
    """An ONNX graph under construction: float parameters without values, one input x."""

    def __init__(self, rows, narrow):
        from onnx import TensorProto, helper

        self.helper, self.proto = helper, TensorProto
        self.nodes, self.weights, self.offset = [], [], 0
        self.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, narrow])]

    def parameter(self, name, *shape):
        tensor = self.proto(name=name, data_type=self.proto.FLOAT, dims=shape)
        tensor.data_location = self.proto.EXTERNAL
        length = 4 * int(np.prod(shape))
        for key, value in (("location", "absent"), ("offset", self.offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        self.offset += length
        self.weights.append(tensor)
        return name

    def constant(self, name, value):
        self.weights.append(self.helper.make_tensor(name, *self.of(value)))
        return name

    def of(self, value):
        array = np.asarray(value)
        kinds = {"f": self.proto.FLOAT, "i": self.proto.INT64, "b": self.proto.BOOL}
        return kinds[array.dtype.kind], array.shape, array.ravel().tolist()

    def node(self, name, op, *operands, outputs=1, **attributes):
        results = [name] + [f"{name}.{i}" for i in range(1, outputs)]
        self.nodes.append(self.helper.make_node(op, operands, results, name=name, **attributes))
        return name

    def linear(self, name, operand, *shape):
        return self.node(name, "MatMul", operand, self.parameter(f"{name}.weight", *shape))

    def mean_square(self, operand):
        square = self.node("square", "Mul", operand, operand)
        return self.node("loss", "ReduceMean", square, keepdims=0)

    def save(self, path):
        loss = self.helper.make_tensor_value_info("loss", self.proto.FLOAT, [])
        trained = [w.name for w in self.weights if w.data_location == self.proto.EXTERNAL]
        graph = self.helper.make_graph(self.nodes, "kernels", self.inputs, [loss], self.weights)
        model = self.helper.make_model(
            graph, opset_imports=[self.helper.make_opsetid("", 20)], ir_version=9
        )
        self.helper.set_model_props(model, {"trainable": "\n".join(trained)})
        path.write_bytes(model.SerializeToString())


def between_products(kind):
    """x -> product -> the kernels of interest -> product -> mean of squares."""

    def build():
        g = Graph(ROWS, NARROW)
        h = g.linear("product", "x", NARROW, WIDTH)
        bias = g.parameter("bias", WIDTH)
        if kind == "gelu":
            h = g.node("gelu", "Gelu", g.node("add_bias", "Add", h, bias), approximate="tanh")
        elif kind == "softmax":
            h = g.node("softmax", "Softmax", h, axis=-1)
        else:
            if kind == "residual":
                ratio, on = g.constant("ratio", np.float32(0.1)), g.constant("on", np.bool_(True))
                dropped = g.node(
                    "dropout", "Dropout", g.node("add_bias", "Add", h, bias), ratio, on
                )
                h = g.node("residual", "Add", dropped, g.linear("skip", "x", NARROW, WIDTH))
            scale, shift = g.parameter("norm.weight", WIDTH), g.parameter("norm.bias", WIDTH)
            h = g.node("layernorm", "LayerNormalization", h, scale, shift, axis=-1)
        g.mean_square(g.linear("out", h, WIDTH, NARROW))
        return g

    return build


def adamw():
    g = Graph(NARROW, 16384)
    g.mean_square(g.linear("product", "x", 16384, 16384))
    return g


def cross_entropy():
    g = Graph(8192, NARROW)
    g.inputs.append(g.helper.make_tensor_value_info("labels", g.proto.INT64, [8192]))
    logits = g.linear("logits", "x", NARROW, 128256)
    g.node("loss", "SoftmaxCrossEntropyLoss", logits, "labels", ignore_index=-100)
    return g


CASES = {
    "gelu": between_products("gelu"),
    "layernorm": between_products("layernorm"),
    "residual": between_products("residual"),
    "softmax": between_products("softmax"),
    "adamw": adamw,
    "cross-entropy": cross_entropy,
}


def make_data(name):
    rng = np.random.default_rng(1)
    rows, columns = {"adamw": (NARROW, 16384), "cross-entropy": (8192, NARROW)}.get(
        name, (ROWS, NARROW)
    )
    data = {"x": rng.standard_normal((rows, columns), dtype=np.float32)}
    if name == "cross-entropy":
        data["labels"] = rng.integers(0, 128256, rows)
    return data


def compile_all(arguments):
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.cases:
        graph = arguments.folder / f"{name}.onnx"
        package = arguments.folder / f"{name}.tpk"
        CASES[name]().save(graph)
        command = [arguments.trainc, graph, "-o", package, "--target", arguments.target]
        if arguments.target != "cpu":
            command += ["--precision", arguments.precision]
        subprocess.run([str(part) for part in command], check=True, stderr=subprocess.DEVNULL)
        command = [arguments.trainc.parent / "trainc-translate", "--dump-package", package]
        text = subprocess.run(
            [str(p) for p in command], check=True, stdout=subprocess.PIPE, text=True
        )
        program = text.stdout[text.stdout.index("\nprogram ") + 1 :]
        (arguments.folder / f"{name}.txt").write_text(program)
        print(f"{package}: {package.stat().st_size} bytes")


STAGE = re.compile(r"_(pass|totals)\d+$")


def read_launches(path):
    """{command number of the function step: (kernel, operands, nodes, bytes it must move)}.

    Stages of a kernel are launches with the same operands, the last of which is their own.
    """
    text = path.read_text()
    step = text[text.index("\nfunction step\n") + 15 :].split("\nfunction ")[0]
    sizes, launches = {}, {}
    for line in step.splitlines():
        buffer = re.match(r"  (b\d+): .*?(\d+) bytes", line)
        if buffer:
            sizes[buffer[1]] = int(buffer[2])
        launch = re.match(r"  (\d+): launch (\w+)\(([^)]*)\).*?(?:# (.*))?$", line)
        if launch:
            operands = re.findall(r"b\d+", launch[3])
            staged = bool(STAGE.search(launch[2]))
            count = sum(sizes[operand] for operand in (operands[:-1] if staged else operands))
            kernel = STAGE.sub("", launch[2])
            launches[int(launch[1])] = (kernel, launch[3], launch[4] or "", count)
    return launches


def copy_speed(arguments):
    if arguments.copy:
        return arguments.copy * 1e12
    command = [arguments.torch_python, HERE / "machine.py"]
    out = subprocess.run([str(p) for p in command], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(out.stdout.splitlines()[-1])["copy_bytes_per_s"]


def run_case(name, arguments, copy):
    """One line for each large kernel; --profile writes a line a command with its median time."""
    launches = read_launches(arguments.folder / f"{name}.txt")
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "data.npz"
        np.savez(data, **make_data(name))
        command = [arguments.trainc_run, arguments.folder / f"{name}.tpk", "--data", data]
        command += ["--init", "normal:0.02", "--steps", arguments.steps, "--log-format", "json"]
        profile = pathlib.Path(folder) / "profile.json"
        command += ["--profile", profile]
        subprocess.run([str(p) for p in command], check=True, stdout=subprocess.DEVNULL)
        rows = [json.loads(line) for line in profile.read_text().splitlines()]
    times = {}
    for row in rows:
        if row["function"] == "step" and row["command"] in launches:
            kernel = launches[row["command"]]
            times[kernel] = times.get(kernel, 0.0) + row["ms"]
    found = []
    for (kernel, _, nodes, count), milliseconds in times.items():
        if count >= SMALLEST:
            speed = count / (milliseconds * 1e-3)
            found.append(
                {
                    "case": name,
                    "kernel": re.sub(r"kernel_\d+_", "", kernel),
                    "nodes": nodes,
                    "bytes": count,
                    "ms": milliseconds,
                    "speed": speed,
                    "of_copy": speed / copy,
                }
            )
    return found


def run_all(arguments):
    copy = copy_speed(arguments)
    print(f"copy {copy / 1e12:.2f} TB/s")
    print(f"{'case':14}{'kernel':18}{'MB':>7}{'ms':>8}{'TB/s':>7}{'of copy':>9}  nodes")
    with open(arguments.results, "a", encoding="utf-8") as log:
        for name in arguments.cases:
            for line in run_case(name, arguments, copy):
                log.write(json.dumps({"kind": "kernel", **line}) + "\n")
                print(
                    f"{name:14}{line['kernel']:18}{line['bytes'] / 1e6:7.0f}{line['ms']:8.3f}"
                    f"{line['speed'] / 1e12:7.2f}{line['of_copy']:9.2f}  {line['nodes']}",
                    flush=True,
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("compile", "run"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--target", default="cuda:sm_90")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--copy", type=float, help="copy speed in TB/s")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("results.jsonl"))
    parser.add_argument("--trainc", type=pathlib.Path, default=ROOT / "build/bin/trainc")
    parser.add_argument("--trainc-run", type=pathlib.Path, default=ROOT / "build/bin/trainc-run")
    parser.add_argument("--torch-python", default=sys.executable)
    arguments = parser.parse_args()
    arguments.trainc = arguments.trainc.resolve()
    arguments.trainc_run = arguments.trainc_run.resolve()
    arguments.cases = arguments.cases or list(CASES)
    for name in arguments.cases:
        if name not in CASES:
            parser.error(f"unknown case {name}; there are {', '.join(CASES)}")
    if arguments.action == "compile":
        compile_all(arguments)
    else:
        run_all(arguments)


if __name__ == "__main__":
    main()
