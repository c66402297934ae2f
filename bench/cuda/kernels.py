#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Speed of single kernels, as a fraction of the device's copy speed.

  kernels.py compile FOLDER [CASE...]    writes graphs, data and packages
  kernels.py run FOLDER [CASE...]        on the GPU: trains a few steps with trainc-run --profile

Each case is a small graph around one kind of kernel, with activations far beyond the cache. Bytes
are what the kernel's buffers take, the copy speed is what the runtime measures. Kernels that move
less than 100 MB are left out. The cases of bench/convolutions/images.py come in fp32, too (`-fp32`):
of these the commands of the op count, library calls among them. `compile` needs onnx and numpy;
`run` only numpy, trainc-run and what `compile` has written.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/convolutions"))
import images  # noqa: E402

ROWS, WIDTH, NARROW = 32768, 4096, 64
SIZES = images.Sizes(images=64, channels=96, side=112)
SMALLEST = 100e6


class Graph:
    """An ONNX graph under construction: float parameters without values, one input x."""

    def __init__(self, *shape):
        from onnx import TensorProto, helper

        self.helper, self.proto = helper, TensorProto
        self.nodes, self.weights, self.offset = [], [], 0
        self.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]

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


def cross_entropy(rows, classes):
    def build():
        g = Graph(rows, NARROW)
        g.inputs.append(g.helper.make_tensor_value_info("labels", g.proto.INT64, [rows]))
        logits = g.linear("logits", "x", NARROW, classes)
        g.node("loss", "SoftmaxCrossEntropyLoss", logits, "labels", ignore_index=-100)
        return g

    return build


def short_rows(columns):
    """Softmax of short rows: as many of them as fill the space of the other cases."""

    def build():
        g = Graph(ROWS * WIDTH // columns, NARROW)
        h = g.linear("product", "x", NARROW, columns)
        g.mean_square(g.linear("out", g.node("softmax", "Softmax", h, axis=-1), columns, NARROW))
        return g

    return build


def transpose(*permutation):
    """x [32, 1024, 64] -> product -> transpose -> gelu, which keeps the transpose from the product."""

    def build():
        g = Graph(32, 1024, NARROW)
        h = g.node("gelu", "Gelu", g.linear("product", "x", NARROW, WIDTH))
        h = g.node("transpose", "Transpose", h, perm=permutation)
        g.mean_square(g.node("gelu2", "Gelu", h))
        return g

    return build


def turned(width):
    """x [32, 1024, 64] -> product -> relu -> transpose, times a weight -> product: kernels that read
    along one axis and write along another."""

    def build():
        g = Graph(32, 1024, NARROW)
        h = g.linear("product", "x", NARROW, width)
        h = g.node("transpose", "Transpose", g.node("relu", "Relu", h), perm=(0, 2, 1))
        h = g.node("scale", "Mul", h, g.parameter("scale.weight", width, 1024))
        g.mean_square(g.linear("out", h, 1024, NARROW))
        return g

    return build


CASES = {
    "gelu": between_products("gelu"),
    "layernorm": between_products("layernorm"),
    "residual": between_products("residual"),
    "softmax": between_products("softmax"),
    "softmax-512": short_rows(512),
    "softmax-1000": short_rows(1000),
    "transpose-outer": transpose(1, 0, 2),
    "transpose-inner": transpose(0, 2, 1),
    "turned": turned(WIDTH),
    "turned-odd": turned(WIDTH - 1),
    "adamw": adamw,
    "cross-entropy": cross_entropy(8192, 128256),
    "cross-entropy-odd": cross_entropy(16384, 50257),
}
# By the name of the package: the op, and its precision where it is not that of the other cases.
IMAGE_CASES = {
    images.file_name(case) + end: (case, precision)
    for case in images.CASES
    for end, precision in (("", None), ("-fp32", "fp32"))
}
ALL = [*CASES, *IMAGE_CASES]


def make_data(name):
    if name in IMAGE_CASES:
        return {"x": images.make_input(SIZES)}
    rng = np.random.default_rng(1)
    shapes = {
        "adamw": (NARROW, 16384),
        "cross-entropy": (8192, NARROW),
        "cross-entropy-odd": (16384, NARROW),
        "softmax-512": (ROWS * WIDTH // 512, NARROW),
        "softmax-1000": (ROWS * WIDTH // 1000, NARROW),
        "transpose-outer": (32, 1024, NARROW),
        "transpose-inner": (32, 1024, NARROW),
        "turned": (32, 1024, NARROW),
        "turned-odd": (32, 1024, NARROW),
    }
    data = {"x": rng.standard_normal(shapes.get(name, (ROWS, NARROW)), dtype=np.float32)}
    classes = {"cross-entropy": 128256, "cross-entropy-odd": 50257}.get(name)
    if classes:
        data["labels"] = rng.integers(0, classes, shapes[name][0])
    return data


def compile_all(arguments):
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.cases:
        graph = arguments.folder / f"{name}.onnx"
        package = arguments.folder / f"{name}.tpk"
        case, precision = IMAGE_CASES.get(name, (None, None))
        (images.build(Graph, case, SIZES) if case else CASES[name]()).save(graph)
        command = [arguments.trainc, graph, "-o", package, "--target", arguments.target]
        if arguments.target != "cpu":
            command += ["--precision", precision or arguments.precision]
        subprocess.run([str(part) for part in command], check=True, stderr=subprocess.DEVNULL)
        print(f"{package}: {package.stat().st_size} bytes")


STAGE = re.compile(r"_(pass|totals|sort|merge|sum|join|clear|add)\d*$")


def run_case(name, arguments):
    """(launches of large kernels, copy speed): a launch is [kernel, nodes, bytes, milliseconds]."""
    with tempfile.TemporaryDirectory() as folder:
        data, profile = pathlib.Path(folder) / "data.npz", pathlib.Path(folder) / "profile.json"
        arrays = make_data(name)
        np.savez(data, **arrays)
        command = [arguments.trainc_run, arguments.folder / f"{name}.tpk", "--data", data]
        command += ["--init", "normal:0.02", "--steps", arguments.steps, "--log-format", "json"]
        command += ["--profile", profile, "--batch-size", len(arrays["x"])]
        done = subprocess.run(
            [str(p) for p in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        if done.returncode:
            print(f"{name}: trainc-run gave {done.returncode}: {done.stderr.strip()[-500:]}")
            return [], 0.0
        rows = [json.loads(line) for line in profile.read_text().splitlines()]
    launches, copy = [], 0.0
    for row in sorted(rows, key=lambda row: row["command"]):
        wanted = images.computes_op(row["nodes"]) if name in IMAGE_CASES else "kernel_" in row["name"]
        if row["function"] != "step" or not wanted:
            continue
        if row["of_copy"] > 0.01:
            copy = row["bytes"] / (row["ms"] * 1e-3) / row["of_copy"]
        kernel, staged = STAGE.subn("", row["name"])
        # Stages of a kernel follow one another and have the same buffers.
        if staged and launches and launches[-1][0] == kernel:
            launches[-1][2] = max(launches[-1][2], row["bytes"])
            launches[-1][3] += row["ms"]
        else:
            launches.append([kernel, ", ".join(row["nodes"]), row["bytes"], row["ms"]])
    return [launch for launch in launches if launch[2] >= SMALLEST], copy


def run_all(arguments):
    print(f"{'case':30}{'kernel':14}{'MB':>7}{'ms':>8}{'TB/s':>7}{'of copy':>9}  nodes")
    copy, failed = 0.0, 0
    with open(arguments.results, "a", encoding="utf-8") as log:
        for name in arguments.cases:
            launches, speed = run_case(name, arguments)
            copy, failed = speed or copy, failed + (not launches)
            for kernel, nodes, count, milliseconds in launches:
                speed = count / (milliseconds * 1e-3)
                line = {"kind": "kernel", "case": name, "kernel": kernel, "nodes": nodes}
                line |= {"bytes": count, "ms": milliseconds, "speed": speed}
                line |= {"of_copy": speed / copy if copy else 0.0}
                log.write(json.dumps(line) + "\n")
                print(
                    f"{name:30}{re.sub('kernel_[0-9]+_', '', kernel):14}{count / 1e6:7.0f}"
                    f"{milliseconds:8.3f}{speed / 1e12:7.2f}{line['of_copy']:9.2f}  {nodes}",
                    flush=True,
                )
    print(f"copy {copy / 1e12:.2f} TB/s; {failed} of {len(arguments.cases)} cases gave no numbers")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("compile", "run"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(ALL))
    parser.add_argument("--target", default="cuda:sm_90")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("results.jsonl"))
    parser.add_argument("--trainc", type=pathlib.Path, default=ROOT / "build/bin/trainc")
    parser.add_argument("--trainc-run", type=pathlib.Path, default=ROOT / "build/bin/trainc-run")
    arguments = parser.parse_args()
    arguments.trainc = arguments.trainc.resolve()
    arguments.trainc_run = arguments.trainc_run.resolve()
    arguments.cases = arguments.cases or ALL
    for name in arguments.cases:
        if name not in ALL:
            parser.error(f"unknown case {name}; there are {', '.join(ALL)}")
    if arguments.action == "compile":
        compile_all(arguments)
        return 0
    return run_all(arguments)


if __name__ == "__main__":
    sys.exit(main())
