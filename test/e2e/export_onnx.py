#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""trainc-run --export to .onnx: what onnxruntime predicts with the written model is what trainc-run
predicts, and its initializers are the trained parameters, bit for bit.

  export_onnx.py --trainc build/bin/trainc --trainc-run build/bin/trainc-run [--only NAME]
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

import mini_onnx as mo
import safetensors_io

MODELS = pathlib.Path(__file__).resolve().parent / "models"
#: (model, whether its weights are external data)
TRAINED = [("mlp", False), ("mlp-dropout", False), ("bert-cls", False), ("gpt2", True), ("gpt2-dropout", False)]


def fields(data):
    """(number, value) of a protobuf message; bytes or an int."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = varint()
        value = varint()
        if tag & 7 == 2:
            value, at = data[at : at + value], at + value
        yield tag >> 3, value


def graph_of(path):
    """[(number, value)] of a model's graph."""
    return list(fields(dict(fields(path.read_bytes()))[7]))


def names(graph, number, key):
    return [dict(fields(value))[key].decode() for found, value in graph if found == number]


def initializers(path):
    """{name: bytes} of a model."""
    result = {}
    for number, value in graph_of(path):
        if number != 5:
            continue
        tensor, entries = dict(fields(value)), {}
        for found, pair in fields(value):
            if found == 13:
                entry = dict(fields(pair))
                entries[entry[1].decode()] = entry[2].decode()
        data = tensor.get(9)
        if entries:
            begin = int(entries.get("offset", 0))
            data = (path.parent / entries["location"]).read_bytes()[begin : begin + int(entries["length"])]
        result[tensor[8].decode()] = data
    return result


class Cases:
    def __init__(self, arguments, scratch):
        self.arguments, self.folder, self.problems = arguments, scratch, []

    def expect(self, condition, *what):
        if not condition:
            self.problems.append(" ".join(str(w) for w in what))

    def compile(self, model, name="m.tpk", *flags):
        package = self.folder / name
        command = [self.arguments.trainc, model, "-o", package, "--target", "cpu:native", *flags]
        subprocess.run(command, check=True, capture_output=True)
        return package

    def run(self, package, *flags, code=0):
        command = [str(c) for c in (self.arguments.trainc_run, package, *flags)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300)
        self.expect(done.returncode == code, f"exit code {done.returncode}, not {code}:", command, done.stderr)
        return done.stderr

    def refused(self, pattern, package, *flags):
        text = self.run(package, *flags, code=1)
        self.expect(re.search(pattern, text), f"/{pattern}/ is not in", text)

    def same_predictions(self, path, data, predicted):
        session = onnxruntime.InferenceSession(path)
        inputs = {i.name: data[i.name] for i in session.get_inputs()}
        outputs = [o.name for o in session.get_outputs()]
        for name, value in zip(outputs, session.run(outputs, inputs)):
            if name in predicted:
                error = np.abs(value - predicted[name]).max() / np.abs(predicted[name]).max()
                self.expect(error < 2e-5, path.name, name, "differs by", error)
        return session

    def trained(self, model, external):
        """Trains, predicts and exports at once; then the export alone, from the checkpoint."""
        original = MODELS / f"{model}.onnx"
        package = self.compile(original)
        data = dict(np.load(MODELS / f"{model}.npz"))
        one, rest = self.folder / "trained.onnx", self.folder / "inference.onnx"
        flags = ["--data", MODELS / f"{model}.npz", "--steps", "5", "--save", self.folder / "ck"]
        flags += ["--predict", MODELS / f"{model}.npz", "-o", self.folder / "p.safetensors"]
        self.run(package, *flags, "--export", one)
        predicted = safetensors_io.load(self.folder / "p.safetensors")
        self.same_predictions(one, data, predicted)
        self.expect((self.folder / "trained.onnx.data").exists() == external, "external data")
        self.expect(names(graph_of(one), 12, 1) == names(graph_of(original), 12, 1), "outputs")
        # The constant that says that dropout is active has no more uses.
        gone = len(names(graph_of(original), 1, 3)) - len(names(graph_of(one), 1, 3))
        self.expect(gone == ("dropout" in model or "bert" in model), gone, "nodes are gone")

        flags = ["--resume", self.folder / "ck"]
        self.run(package, *flags, "--export", self.folder / "w.safetensors")
        self.run(package, *flags, "--export", rest, "--outputs", "logits", "--model", original)
        weights = safetensors_io.load(self.folder / "w.safetensors")
        before, after = initializers(original), initializers(one)
        self.expect(list(before) == list(after), "other initializers")
        changed = [name for name in before if before[name] != after[name]]
        self.expect(len(changed) > 3, "nothing was trained:", changed)
        for name, data_of_it in after.items():
            expected = weights[name].tobytes() if name in weights else before[name]
            self.expect(data_of_it == expected, name, "is not the trained value")
        session = self.same_predictions(rest, data, predicted)
        self.expect([o.name for o in session.get_outputs()] == ["logits"], "outputs")
        self.expect("labels" not in [i.name for i in session.get_inputs()], "labels are still there")
        graph = graph_of(rest)
        self.expect(not {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"} & set(names(graph, 1, 4)), "loss")
        self.expect(len(names(graph, 1, 3)) < len(names(graph_of(one), 1, 3)), "nodes are left")

        # What was written is a model like another one: it compiles, and evaluates to the same.
        again = self.compile(one, "again.tpk")
        self.run(again, "--predict", MODELS / f"{model}.npz", "-o", self.folder / "q.safetensors")
        second = safetensors_io.load(self.folder / "q.safetensors")
        self.expect(all((second[n] == predicted[n]).all() for n in predicted), "compiled again: other bits")

    def small(self):
        """A package of the small classifier with typed values, and flags that train it."""
        model = self.folder / "models" / "m.onnx"
        model.parent.mkdir()
        weight = b"".join(mo.field(1, d) for d in (4, 3)) + mo.field(2, 1) + mo.field(8, "w")
        values = np.linspace(-1, 1, 12, dtype=np.float32).tobytes()
        model.write_bytes(mo.classifier(weight=weight + mo.field(4, values)))
        rng = np.random.default_rng(2)
        arrays = {"x": rng.standard_normal((6, 4)).astype(np.float32), "labels": np.arange(6) % 3}
        np.savez(self.folder / "d.npz", **arrays)
        return model, self.compile(model), ["--data", self.folder / "d.npz"], arrays

    def case_typed_values(self):
        """Values that are no raw_data become raw_data."""
        model, package, flags, arrays = self.small()
        flags += ["--predict", self.folder / "d.npz", "-o", self.folder / "p.safetensors"]
        self.run(package, *flags, "--export", self.folder / "t.onnx", "--model", model)
        self.same_predictions(self.folder / "t.onnx", arrays, safetensors_io.load(self.folder / "p.safetensors"))

    def case_external_data_of_the_model(self):
        """All weights beside the model, which is not where the package is, and what is no parameter, too."""
        folder = self.folder / "models"
        folder.mkdir()
        rng = np.random.default_rng(4)
        scale = rng.standard_normal((1, 3)).astype(np.float32)
        (folder / "w.bin").write_bytes(rng.standard_normal(12).astype(np.float32).tobytes() + scale.tobytes())
        nodes = [
            mo.node("MatMul", ["x", "w"], ["product"], "project"),
            mo.node("Mul", ["product", "scale"], ["logits"], "scale_it"),
            mo.node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss"], "criterion"),
        ]
        inputs = [mo.value_info("x", mo.FLOAT, ["batch", 4]), mo.value_info("labels", mo.INT64, ["batch"])]
        outputs = [mo.value_info("loss", mo.FLOAT, []), mo.value_info("logits", mo.FLOAT, ["batch", 3])]
        tensors = [mo.tensor("w", [4, 3], external=("w.bin", 0, 48))]
        tensors += [mo.tensor("scale", [1, 3], external=("w.bin", 48, 12))]
        (folder / "m.onnx").write_bytes(mo.model(nodes, inputs, outputs, tensors))
        package = self.compile(folder / "m.onnx", "m.tpk", "--freeze", "scale")
        arrays = {"x": rng.standard_normal((6, 4)).astype(np.float32), "labels": np.arange(6) % 3}
        np.savez(self.folder / "d.npz", **arrays)
        flags = ["--data", self.folder / "d.npz", "--predict", self.folder / "d.npz", "-o"]
        self.run(package, *flags, self.folder / "p.safetensors", "--export", self.folder / "t.onnx")
        self.same_predictions(self.folder / "t.onnx", arrays, safetensors_io.load(self.folder / "p.safetensors"))
        after = initializers(self.folder / "t.onnx")
        self.expect(after["scale"] == scale.tobytes(), "another scale")
        self.expect(after["w"] != (folder / "w.bin").read_bytes()[:48], "nothing was trained")

    def case_batch_normalization(self):
        """Compiled in training mode, written in evaluation mode, with the statistics that training has seen."""
        rng = np.random.default_rng(5)
        nodes = [
            mo.node("MatMul", ["x", "w"], ["product"], "project"),
            mo.node(
                "BatchNormalization",
                ["product", "scale", "shift", "running_mean", "running_var"],
                ["logits", "new_mean", "new_var"],
                "normalize",
                attributes=[("training_mode", 1)],
            ),
            mo.node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss"], "criterion"),
        ]
        inputs = [mo.value_info("x", mo.FLOAT, ["batch", 4]), mo.value_info("labels", mo.INT64, ["batch"])]
        outputs = [mo.value_info("loss", mo.FLOAT, []), mo.value_info("logits", mo.FLOAT, ["batch", 3])]
        tensors = [mo.tensor("w", [4, 3], rng.standard_normal(12)), mo.tensor("scale", [3], [1, 2, 3])]
        tensors += [mo.tensor(n, [3], v) for n, v in (("shift", [0, 1, 0]), ("running_mean", [0] * 3))]
        tensors.append(mo.tensor("running_var", [3], [1] * 3))
        model = self.folder / "m.onnx"
        model.write_bytes(mo.model(nodes, inputs, outputs, tensors))
        package = self.compile(model)
        arrays = {"x": rng.standard_normal((30, 4)).astype(np.float32), "labels": np.arange(30) % 3}
        np.savez(self.folder / "d.npz", **arrays)
        flags = ["--data", self.folder / "d.npz", "--epochs", "4", "--predict", self.folder / "d.npz", "-o"]
        self.run(package, *flags, self.folder / "p.safetensors", "--export", self.folder / "t.onnx")
        self.same_predictions(self.folder / "t.onnx", arrays, safetensors_io.load(self.folder / "p.safetensors"))
        before, after = initializers(model), initializers(self.folder / "t.onnx")
        self.expect(all(before[n] != after[n] for n in ("running_mean", "running_var")), "no statistics")
        outputs.append(mo.value_info("new_mean", mo.FLOAT, [3]))
        model.write_bytes(mo.model(nodes, inputs, outputs, tensors))
        package = self.compile(model)
        flags = ["--data", self.folder / "d.npz", "--export", self.folder / "t.onnx"]
        self.refused("'new_mean' is an output of a BatchNormalization", package, *flags)
        self.refused("'new_mean'.* does not compute", package, *flags, "--outputs", "new_mean")
        self.run(package, *flags, "--outputs", "logits")

    def case_refused(self):
        model, package, flags, _ = self.small()
        out = self.folder / "t.onnx"
        self.refused(r"m\.onnx.*(\n.*)*--model FILE", package, *flags, "--export", out)  # the package has no path
        shutil.copy(model, self.folder / "m.onnx")
        self.run(package, *flags, "--export", out)
        self.refused("which this run reads", package, *flags, "--export", model, "--model", model)
        flags += ["--export", out, "--model"]
        self.refused("no initializer 'w'", package, *flags, MODELS / "mlp.onnx")
        other = self.folder / "other.onnx"
        other.write_bytes(mo.classifier(weight=mo.tensor("w", [3, 4], range(12))))
        self.refused(r"'w' is not f32 \[4, 3\]", package, *flags, other)
        self.refused(r"d\.npz", package, *flags, self.folder / "d.npz")
        self.refused("cannot open", package, *flags, self.folder / "absent.onnx")
        self.refused("no output 'best'; it has logits, loss", package, *flags, model, "--outputs", "best")
        whole = model.read_bytes()
        for cut in range(1, len(whole), 7):
            other.write_bytes(whole[:cut])
            # An end between two fields is no damage that can be seen: then the parameter is missing.
            self.refused(r"other\.onnx", package, *flags, other)
        # Changed bytes: a model or an error.
        rng = np.random.default_rng(3)
        for _ in range(60):
            broken = bytearray(whole)
            for position in rng.integers(0, len(whole), 2):
                broken[position] ^= int(rng.integers(1, 256))
            other.write_bytes(broken)
            command = [str(c) for c in (self.arguments.trainc_run, package, *flags, other)]
            code = subprocess.run(command, capture_output=True, check=False, timeout=60).returncode
            self.expect(code in (0, 1), "exit code", code, "for", bytes(broken))
        external = mo.tensor("w", [4, 3], external=("w.bin", 0, 48))
        other.write_bytes(mo.classifier(weight=external))
        (self.folder / "t.onnx.data").write_bytes(bytes(48))
        (self.folder / "w.bin").hardlink_to(self.folder / "t.onnx.data")
        self.refused("would replace", package, *flags, other)
        for location in ("../w.bin", "/w.bin", "a/../../w.bin", ""):
            other.write_bytes(mo.classifier(weight=mo.tensor("w", [4, 3], external=(location, 0, 48))))
            self.refused("leaves the model's folder", package, *flags, other)
        self.expect(not list(self.folder.glob("*.tmp-*")), "temporary files were left")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainc", required=True)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--only")
    arguments = parser.parse_args()
    cases = {name[5:]: (getattr(Cases, name),) for name in dir(Cases) if name.startswith("case_")}
    cases.update({model: (Cases.trained, model, external) for model, external in TRAINED})
    bad = 0
    for name, (function, *rest) in cases.items():
        if arguments.only in (None, name):
            with tempfile.TemporaryDirectory(prefix="trainc-export-") as scratch:
                run = Cases(arguments, pathlib.Path(scratch))
                function(run, *rest)
                print("FAILED" if run.problems else "ok    ", name, *run.problems, sep="\n  " if run.problems else " ")
                bad += bool(run.problems)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
