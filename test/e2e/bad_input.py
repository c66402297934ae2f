#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bad models, data and packages: a clear message, exit code 1, and nothing lost.

  bad_input.py --trainc build/bin/trainc --trainc-run build/bin/trainc-run [--only NAME]

Every case is a method `case_*`; each says what the message must name. Needs numpy.
"""

import argparse
import json
import os
import pathlib
import re
import stat
import struct
import subprocess
import sys
import tempfile
import unicodedata
import zlib

import numpy as np

import mini_onnx as mo

MODELS = pathlib.Path(__file__).resolve().parent / "models"


class Cases:
    """The cases, with the tools and a scratch folder of each case's own."""

    def __init__(self, arguments, scratch):
        self.arguments = arguments
        self.folder = scratch
        self.problems = []

    def run(self, command, code, *patterns, environment=None):
        """Runs; expects the exit code, and every pattern (any case) on standard error."""
        command = [str(c) for c in command]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=120,
            env=environment,
        )
        text = done.stderr
        shown = " ".join(command)
        if done.returncode != code:
            self.problems.append(f"exit code {done.returncode} instead of {code}: {shown}\n{text}")
        for pattern in patterns:
            if not re.search(pattern, text, re.IGNORECASE):
                self.problems.append(f"the message lacks /{pattern}/: {shown}\n{text}")
        return done

    def trainc(self, model, code, *patterns, flags=()):
        out = self.folder / "out.tpk"
        command = [self.arguments.trainc, model, "-o", out, "--target", "cpu", *flags]
        done = self.run(command, code, *patterns)
        if code and out.exists():
            self.problems.append("a failed compilation left a package behind")
        return out if not done.returncode else None

    def train(self, package, data, code, *patterns, flags=("--steps", "1")):
        command = [self.arguments.trainc_run, package, "--data", data, *flags]
        return self.run([*command, "--log-format", "json"], code, *patterns)

    def predictions(self, package, data, *flags, warning=None):
        """The bytes of the file with the logits; `warning` is what standard error must hold, None: no warning."""
        out = self.folder / "predicted.safetensors"
        command = [self.arguments.trainc_run, package, *flags, "--predict", data, "--outputs", "logits", "-o", out]
        done = self.run(command, 0, *([warning] if warning else []))
        if not warning and "warning" in done.stderr:
            self.problems.append(done.stderr)
        return out.read_bytes()

    def write(self, name, data):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def npz(self, name="data.npz", **arrays):
        np.savez(self.folder / name, **arrays)
        return self.folder / name

    def good(self):
        """(package, arrays) of the small classifier."""
        package = self.trainc(self.write("good.onnx", mo.classifier()), 0)
        rng = np.random.default_rng(1)
        return package, {
            "x": rng.standard_normal((6, 4)).astype(np.float32),
            "labels": np.array([0, 1, 2, 0, 1, 2]),
        }

    # Models.

    def case_no_such_file(self):
        self.trainc(self.folder / "absent.onnx", 1, "absent.onnx")

    def case_not_a_protobuf(self):
        self.trainc(self.write("text.onnx", b"this is no model\n" * 50), 1, "text.onnx")

    def case_empty_file(self):
        self.trainc(self.write("empty.onnx", b""), 1, "empty.onnx")

    def case_truncated(self):
        data = (MODELS / "mlp.onnx").read_bytes()
        self.trainc(self.write("cut.onnx", data[: len(data) // 2]), 1, "cut.onnx")

    def case_damaged(self):
        """Flipped bytes: an error or a model, never a crash."""
        data = (MODELS / "mlp.onnx").read_bytes()
        rng = np.random.default_rng(1)
        for _ in range(25):
            broken = bytearray(data)
            for position in rng.integers(0, len(data), 3):
                broken[position] ^= int(rng.integers(1, 256))
            path = self.write("flipped.onnx", bytes(broken))
            command = [self.arguments.trainc, path, "-o", self.folder / "flipped.tpk"]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=20)
            if done.returncode not in (0, 1):
                kept = pathlib.Path(tempfile.gettempdir()) / "trainc-flipped.onnx"
                kept.write_bytes(bytes(broken))
                self.problems.append(f"exit code {done.returncode}, see {kept}\n{done.stderr}")
                break

    def case_empty_graph(self):
        self.trainc(self.write("nothing.onnx", mo.model([], [], [], [])), 1, "nothing.onnx", "empty")

    def case_names_that_are_no_utf8(self):
        """A package could not tell them: the runtime would not find what its program names."""
        odd, whole = b"\xff\xfew", mo.classifier(name="ODD", weight=mo.tensor("ODD", [4, 3], [0.1] * 12))
        self.trainc(self.write("m.onnx", whole.replace(b"ODD", odd)), 1, r"the name '\\xff\\xfew' of an initializer is not UTF-8")
        inputs = [mo.value_info("x", mo.FLOAT, ["ODD", 4])]
        nodes = [mo.node("MatMul", ["x", "w"], ["y"], "project"), mo.node("ReduceMean", ["y"], ["loss"], "mean", attributes=[("keepdims", 0)])]
        whole = mo.model(nodes, inputs, [mo.value_info("loss", mo.FLOAT, [])], [mo.tensor("w", [4, 3], [0.1] * 12)])
        self.trainc(self.write("m.onnx", whole.replace(b"ODD", odd)), 1, r"the name '\\xff\\xfew' of a size of 'x' is not UTF-8")

        told = r"cannot tell where '[^']*\\xff[^']*' is: the path is not UTF-8; rename it"
        model = self.folder / os.fsdecode(b"m\xff.onnx")
        model.write_bytes(mo.classifier())
        self.trainc(model, 1, told + ".*--embed-weights")
        moved = mo.classifier(weight=mo.tensor("w", [4, 3], external=("ODD.bin", 0, 48)))
        (self.folder / os.fsdecode(b"\xff\xfew.bin")).write_bytes(bytes(48))
        self.trainc(self.write("m.onnx", moved.replace(b"ODD", odd)), 1, told)
        self.trainc(model, 0, flags=["--embed-weights"])

    def case_windows_without_end(self):
        """A window that is unrolled has a bound."""
        nodes = [mo.node("LRN", ["logits"], ["n"], "wide", attributes=[("size", 1 << 62)])]
        outputs = [mo.value_info("loss", mo.FLOAT, []), mo.value_info("n", mo.FLOAT, ["batch", 3])]
        self.trainc(self.write("m.onnx", mo.classifier(nodes, outputs=outputs)), 1, r"node 'wide' \(LRN.*its size 4611686018427387904 is above 4096")

    def case_unsupported_ops(self):
        extra = [
            mo.node("Frobnicate", ["logits"], ["a"], "first_frob"),
            mo.node("Frobnicate", ["a"], ["b"], "second_frob"),
            mo.node("Tweak", ["b"], ["loss2"], "the_tweak", domain="com.example"),
        ]
        outputs = [mo.value_info("loss", mo.FLOAT, []), mo.value_info("loss2", mo.FLOAT, ["batch"])]
        path = self.write("odd.onnx", mo.classifier(extra, outputs=outputs))
        self.trainc(path, 1, "Frobnicate", "first_frob", "Tweak", "the_tweak", r"\b2\b", r"18")

    def case_names_for_terminals(self):
        """What a terminal would act on is escaped, and a name of a megabyte shortened, wherever it comes from."""
        names = {"\x1b]0;title\x07\x1b[2J": r"\\x1b\]0;title\\x07", "zero\0byte": r"zero\\x00byte",
                 "two\nlines: error: none": r"two\\x0alines", "\x9b31m": r"\\xc2\\x9b31m", "n" * (1 << 20): r"n+\[\.\.\.\d+ bytes\.\.\.\]nn"}  # fmt: skip
        for name, shown in names.items():
            extra = [mo.node("Frobnicate", ["logits"], [name], name)]
            odd = self.write("odd.onnx", mo.classifier(extra, outputs=[mo.value_info("loss", mo.FLOAT, []), mo.value_info(name, mo.FLOAT, [])]))
            texts = [self.run([self.arguments.trainc, odd, "-o", self.folder / "odd.tpk"], 1, shown).stderr]
            weight = mo.tensor(name, [4, 3], [0.1 * i for i in range(12)])
            model = self.write("m.onnx", mo.classifier(weight=weight, name=name))
            compiled = subprocess.run([self.arguments.trainc, model, "-o", self.folder / "m.tpk", "--explain"], capture_output=True, text=True, errors="replace")  # fmt: skip
            texts += [compiled.stderr]
            if compiled.returncode == 0:
                info = self.run([self.arguments.trainc_run, self.folder / "m.tpk", "--info"], 0)
                other = self.npz(other=np.ones(1, np.float32))
                bad = self.train(self.folder / "m.tpk", other, 1, flags=("--weights", other))
                texts += [info.stdout, info.stderr, bad.stderr]
            elif compiled.returncode != 1:
                self.problems.append(f"exit code {compiled.returncode} for the name {name[:40]!r}")
            texts += [done.stderr for done in self.named_otherwise(name, shown)]
            for text in texts:
                raw = sorted({c for c in text if unicodedata.category(c) == "Cc" and c != "\n"})
                if raw or len(text) > 20_000 or re.search("^lines", text, re.MULTILINE):
                    self.problems.append(f"{raw} and {len(text)} characters: {text[:2000]!r}")

    def named_otherwise(self, name, shown):
        """What is said of a size, a loss, a weight that is not trained, and a pattern of that name."""
        nodes = [
            mo.node("MatMul", ["x", "w"], ["y"], "project"),
            mo.node("Mul", ["y", name + "_buffer"], ["z"], "scale"),
            mo.node("ReduceMean", ["z"], [name], "mean", attributes=[("keepdims", 0)]),
        ]
        inputs = [mo.value_info("x", mo.FLOAT, [name, 4])]
        weights = [mo.tensor("w", [4, 3], [0.1] * 12), mo.tensor(name + "_buffer", [1], [0.5])]
        model = self.write("named.onnx", mo.model(nodes, inputs, [mo.value_info(name, mo.FLOAT, [])], weights))
        self.write("patterns.json", json.dumps([name]).encode())
        said = rf"minimise '{shown}(?s:.*)not trained: .*{shown}"
        command = [self.arguments.trainc, model, "-o", self.folder / "named.tpk", "--target", "cpu"]
        yield self.run([*command, "--stop-after", "legalize"], 0, said)
        yield self.run([*command, "--memory-budget", "0.5"], 1, rf"--dim {shown}")
        yield self.run([*command, "--report", "--offload", "--target", "cuda:sm_90"], 1, rf"needs a size for {shown}")
        yield self.run([*command, "--recompute", self.folder / "patterns.json"], 1, rf"got '{shown}")
        undefined = self.write("undefined.onnx", mo.classifier([mo.node("Neg", [name], ["y"], "negate")]))
        translate = pathlib.Path(self.arguments.trainc).with_name("trainc-translate")
        yield self.run([translate, "--import-onnx", undefined], 1, "its input '")

    def case_artifacts_of_which_one_is_damaged(self):
        """The message names the file within the folder."""
        for file in (MODELS / "ort/mlp").glob("*_model.onnx"):
            self.write(f"artifacts/{file.name}", file.read_bytes())
        self.write("artifacts/checkpoint", (MODELS / "ort/mlp/checkpoint").read_bytes())
        self.write("artifacts/optimizer_model.onnx", b"this is no model\n")
        self.trainc(self.folder / "artifacts", 1, r"artifacts: 'optimizer_model.onnx': error: this is not an ONNX model")

    def case_package_without_its_model(self):
        """Small constants go with the package; --init makes random values for what is trained, and for nothing else."""
        for rows, code in ((8, 0), (1 << 17, 1)):
            values = np.concatenate([np.full(3 * rows, 2, np.float32), np.full(12, 0.1, np.float32)])
            (self.folder / "model").mkdir(exist_ok=True)
            self.write("model/data.bin", values.tobytes())
            scale = mo.tensor("inv_freq", [rows, 3], external=("data.bin", 0, 12 * rows))
            weight = mo.tensor("w", [4, 3], external=("data.bin", 12 * rows, 48))
            nodes = [mo.node("ReduceMean", ["inv_freq"], ["mean"], "mean", attributes=[("keepdims", 0)]),
                     mo.node("Mul", ["logits", "mean"], ["scaled"], "scale")]  # fmt: skip
            outputs = [mo.value_info("loss", mo.FLOAT, []), mo.value_info("scaled", mo.FLOAT, ["batch", 3])]
            model = mo.classifier(nodes, weight=weight, outputs=outputs, more=[scale])
            package = self.trainc(self.write("model/m.onnx", model), 0)
            moved = self.folder / "moved" / "m.tpk"
            moved.parent.mkdir(exist_ok=True)
            package.rename(moved)
            data = self.npz(x=np.ones((2, 4), np.float32), labels=np.array([0, 1]))
            missing = [r"for what is trained, and 'inv_freq' is not", r"--weights FILE"] if code else []
            self.train(moved, data, code, *missing, flags=("--steps", "1", "--init", "normal:0.02"))

    def case_names_in_nested_functions(self):
        """A node within many calls: where the chain begins, how long it is, where it ends."""

        def function(number, inner):
            return mo.field(1, f"layer_{number}") + mo.field(4, "a") + mo.field(5, "b") + mo.field(7, inner) + (
                mo.field(9, mo.field(1, "") + mo.field(2, 18))
                + mo.field(9, mo.field(1, "net") + mo.field(2, 1))
                + mo.field(10, "net")
            )

        def call(number):
            return mo.node(f"layer_{number}", ["a"], ["b"], f"call_of_layer_{number}", domain="net")

        for depth, shown in (
            (40, r"node 'top/call_of_layer_1/\.\.\. 37 calls \.\.\./call_of_layer_39/odd' \(Frobnicate"),
            (3, r"node 'top/call_of_layer_1/call_of_layer_2/odd' \(Frobnicate"),
        ):
            inner = [call(i + 1) for i in range(depth - 1)] + [mo.node("Frobnicate", ["a"], ["b"], "odd")]
            functions = b"".join(mo.field(25, function(i, node)) for i, node in enumerate(inner))
            outputs = [mo.value_info("loss2", mo.FLOAT, ["batch"])]
            top = [mo.node("layer_0", ["logits"], ["loss2"], "top", domain="net")]
            model = mo.classifier(top, outputs=[mo.value_info("loss", mo.FLOAT, []), *outputs])
            path = self.write("deep.onnx", model + functions + mo.field(8, mo.field(1, "net") + mo.field(2, 1)))
            self.trainc(path, 1, shown)

    def case_external_data_out_of_bounds(self):
        self.write("w.bin", bytes(16))
        weight = mo.tensor("w", [4, 3], external=("w.bin", 0, 48))
        self.trainc(self.write("short.onnx", mo.classifier(weight=weight)), 1, r"w\.bin", r"\bw\b")

    def case_external_data_wrong_length(self):
        self.write("w.bin", bytes(64))
        weight = mo.tensor("w", [4, 3], external=("w.bin", 0, 40))
        self.trainc(self.write("length.onnx", mo.classifier(weight=weight)), 1, r"\bw\b", "40|48")

    def case_external_data_leaves_the_folder(self):
        self.write("secret.bin", bytes(48))
        for location in ("../secret.bin", str(self.folder / "secret.bin"), "a/../../secret.bin"):
            weight = mo.tensor("w", [4, 3], external=(location, 0, 48))
            self.trainc(self.write("inner/m.onnx", mo.classifier(weight=weight)), 1, "secret.bin")

    def case_external_data_missing(self):
        """trainc warns and compiles; trainc-run needs --weights or --init."""
        weight = mo.tensor("w", [4, 3], external=("gone.bin", 0, 48))
        path = self.write("m.onnx", mo.classifier(weight=weight))
        package = self.trainc(path, 0, r"gone\.bin")
        x = np.ones((2, 4), np.float32)
        data = self.npz(x=x, labels=np.array([0, 1]))
        if package:
            self.train(package, data, 1, r"gone\.bin", "--weights", "--init")
            flags = ("--steps", "1", "--init", "normal:0.02")
            self.train(package, data, 0, flags=flags)

    def case_no_loss(self):
        outputs = [mo.value_info("logits", mo.FLOAT, ["batch", 3])]
        path = self.write("m.onnx", mo.classifier(outputs=outputs))
        self.trainc(path, 1, "loss")

    def case_ambiguous_loss(self):
        extra = [mo.node("ReduceMean", ["logits"], ["mean"], "average", attributes=[("keepdims", 0)])]
        extra += [mo.node("Neg", ["mean"], ["negative"], "negate")]
        outputs = [mo.value_info(n, mo.FLOAT, []) for n in ("mean", "negative")]
        path = self.write("m.onnx", mo.classifier(extra, outputs=outputs))
        self.trainc(path, 1, "mean", "negative", "--loss")
        self.trainc(path, 0, flags=("--loss", "negative"))
        (self.folder / "out.tpk").unlink(missing_ok=True)
        self.trainc(path, 1, "nothing_of_that_name", flags=("--loss", "nothing_of_that_name"))

    def case_usage(self):
        path = self.write("m.onnx", mo.classifier())
        self.run([self.arguments.trainc, path, "--no-such-option"], 2, "no-such-option")
        self.run([self.arguments.trainc], 2)
        package, arrays = self.good()
        data = self.npz(**arrays)
        self.train(package, data, 2, "--steps", "--epochs", flags=("--steps", "1", "--epochs", "1"))
        self.train(package, data, 2, flags=("--learning-speed", "1"))

    def case_usage_of_trainc(self):
        """Numbers that are none, options that exclude each other, options of later versions."""
        path = self.write("m.onnx", mo.classifier())
        for flags, pattern in (
            (["--lr", "nan"], "'nan' is not a number of at least 0"),
            (["--weight-decay", "inf"], "'inf' is not a number"),
            (["--clip-norm", "0"], "above 0"),
            (["--inference", "--loss", "loss"], "--inference.*--loss|--loss.*--inference"),
            (["--inference", "--optimizer", "sgd"], "--optimizer"),
            (["--hoist-slices", "--no-hoist-slices"], "hoist-slices"),
            (["--target", "cpu", "--precision", "fp16"], "--precision: .fp16. needs --target cuda; on the CPU .* own types or bf16"),
            (["--optimizer-state", "int4"], "--optimizer-state"),
            (["--inference", "--optimizer-state", "int8"], "--optimizer-state"),
            (["--optimizer", "sgd", "--optimizer-state", "int8"], "sgd without --momentum has none"),
            (["--target", "cpu", "--offload"], "--offload: is for --target cuda"),
            (["--cache-dir"], "--cache-dir.*not available in this version"),
            (["--lora", "r=0"], "--lora.*r must be a whole number above 0, not '0'"),
            (["--lora", "r=4,dropout=1"], "--lora.*dropout must be in .0, 1., not 1"),
            (["--lora", "r=4,targets=("], "--lora.*'\\('"),
            (["--lora", "rank=4"], "--lora.*expected r=N, alpha=F"),
            (["--lora", "existing,r=4"], "--lora.*existing trains the branches that the model has.*'r=4'"),
            (["--quantize", "nf5"], "--quantize.*expected nf4, fp4 or int8, got 'nf5'"),
            (["--quantize", "nf4:block=100"], "--quantize.*a block must be a power of two"),
            (["--quantize", "int8:double"], "--quantize.*int8 has a scale for each row"),
            (["--quantize", "nf4:double:absmax=bf16"], "--quantize.*double stores scales in 8 bits"),
            (["--trainable", "("], r"--trainable: '\('"),
        ):
            self.trainc(path, 2, pattern, flags=flags)

    def case_model_is_no_file(self):
        self.trainc(self.folder, 1, "folder")
        pipe = self.folder / "pipe.onnx"
        os.mkfifo(pipe)
        self.trainc(pipe, 1, "not a regular file")
        model = self.write("m.onnx", mo.classifier())
        for option in ("--checkpoint", "--recompute", "--sign"):
            self.trainc(model, 1, f"{option[2:]}.*not a regular file", flags=[option, pipe])
        self.run([self.arguments.trainc, "--replay", pipe], 1, "not a regular file")
        tools = pathlib.Path(self.arguments.trainc).parent
        self.run([tools / "trainc-opt", pipe], 1, "trainc-opt: error: .*not a regular file")
        self.run([tools / "trainc-opt", "--run-reproducer", pipe], 1, "not a regular file")
        for translation in ("--import-onnx", "--dump-package"):
            self.run([tools / "trainc-translate", translation, pipe], 1, "not a regular file")
        weight = mo.tensor("w", [4, 3], external=("pipe.onnx", 0, 48))
        self.trainc(self.write("m.onnx", mo.classifier(weight=weight)), 1, "not a regular file")

    def case_output_cannot_be_written(self):
        path = self.write("m.onnx", mo.classifier())
        device = self.folder / "device"
        os.mkfifo(device)  # stands for a device, which takes root to make
        for out in (self.folder / "none" / "m.tpk", device, self.folder):
            command = [self.arguments.trainc, path, "-o", out]
            self.run(command, 1, re.escape(str(out)))
        if not stat.S_ISFIFO(device.stat().st_mode):
            self.problems.append("a file was put in the place of a device")

    def case_no_linker_output(self):
        """No room for temporary files: the machine's fault, not the compiler's."""
        path = self.write("m.onnx", mo.classifier())
        environment = {**os.environ, "TMPDIR": str(self.folder / "nowhere")}
        command = [self.arguments.trainc, path, "-o", self.folder / "x.tpk"]
        self.run(command, 1, "temporary file", environment=environment)

    def case_package_in_another_folder(self):
        """Weights stay where they are, also seen through a link; a moved package says what it lacks."""
        path = self.write("models/m.onnx", mo.classifier())
        _, arrays = self.good()
        data = self.npz(**arrays)
        (self.folder / "a" / "b").mkdir(parents=True)
        (self.folder / "link").symlink_to(self.folder / "a" / "b")
        for folder in ("a", "link"):
            package = self.folder / folder / "m.tpk"
            self.run([self.arguments.trainc, path, "-o", package, "--target", "cpu:native"], 0)
            self.train(package, data, 0)
        self.train(self.folder / "a" / "b" / "m.tpk", data, 0)
        if b"weights.bin" in (self.folder / "a" / "m.tpk").read_bytes():
            self.problems.append("weights were copied into the package unasked")
        moved = self.write("x/y/z/m.tpk", (self.folder / "a" / "m.tpk").read_bytes())
        self.train(moved, data, 1, r"m\.onnx", "--weights")
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        self.train(self.folder / "a" / "m.tpk", data, 1, "has changed", "--weights")

    # Data.

    def case_data_without_an_input(self):
        package, arrays = self.good()
        self.train(package, self.npz(x=arrays["x"]), 1, "labels")

    def case_data_of_another_type(self):
        package, arrays = self.good()
        arrays["labels"] = arrays["labels"].astype(np.float64)
        self.train(package, self.npz(**arrays), 1, "labels", "astype")

    def case_data_of_another_rank(self):
        package, arrays = self.good()
        arrays["x"] = arrays["x"][:, :, None]
        self.train(package, self.npz(**arrays), 1, r"\bx\b", "rank|dimension|axes|shape")

    def case_data_of_another_size(self):
        package, arrays = self.good()
        arrays["x"] = arrays["x"][:, :3]
        self.train(package, self.npz(**arrays), 1, r"\bx\b", r"\b4\b", r"\b3\b")

    def case_rows_disagree(self):
        package, arrays = self.good()
        arrays["x"] = arrays["x"][:5]
        self.train(package, self.npz(**arrays), 1, "batch|rows", r"\b5\b", r"\b6\b")

    def case_label_out_of_range(self):
        package, arrays = self.good()
        arrays["labels"][4] = 7
        self.train(package, self.npz(**arrays), 1, "labels|criterion", r"\b4\b", r"\b7\b")

    def case_id_out_of_range(self):
        package = self.trainc(MODELS / "nanogpt.onnx", 0)
        arrays = dict(np.load(MODELS / "nanogpt.npz"))
        arrays["input_ids"][1, 3] = 5000
        flags = ("--steps", "1", "--batch-size", "6")
        self.train(package, self.npz(**arrays), 1, r"\b5000\b", r"\b1\b", flags=flags)

    def case_computed_index_out_of_range(self):
        """Only the step can see it; the kernel holds more than the node that reads by it."""
        nodes = [
            mo.node("Exp", ["positions"], ["scaled"], "scale"),
            mo.node("Add", ["ids", "ids"], ["twice"], "double"),
            mo.node("Gather", ["scaled", "twice"], ["rows"], "look_up"),
            mo.node("Mul", ["rows", "rows"], ["squares"], "square"),
            mo.node("ReduceMean", ["squares"], ["loss"], "mean", attributes=[("keepdims", 0)]),
        ]
        model = mo.model(
            nodes,
            [mo.value_info("ids", mo.INT64, ["batch"])],
            [mo.value_info("loss", mo.FLOAT, [])],
            [mo.tensor("positions", [5, 2], [0.1] * 10)],
        )
        package = self.trainc(self.write("looked_up.onnx", model), 0)
        self.train(package, self.npz(ids=np.array([0, 1, 2, 3])), 1, r"node 'look_up': index 6 ")

    def case_data_is_no_archive(self):
        package, _ = self.good()
        self.train(package, self.write("data.npz", b"nothing of the kind" * 9), 1, "data.npz")
        self.train(package, self.folder / "absent.npz", 1, "absent.npz")

    def case_batches_of_no_rows(self):
        """The first axis is the batch's, also where it has no extent."""
        nodes = [mo.node("ReduceSum", ["x"], ["s"], "sum", attributes=[("keepdims", 0)]), mo.node("Mul", ["s", "w"], ["loss"], "scale")]
        model = mo.model(nodes, [mo.value_info("x", mo.FLOAT, [0, 3])], [mo.value_info("loss", mo.FLOAT, [])], [mo.tensor("w", [], [1.0])])
        package = self.trainc(self.write("m.onnx", model), 0, flags=("--inference",))
        data = self.npz(x=np.ones((5, 3), np.float32))
        self.run([self.arguments.trainc_run, package, "--predict", data, "-o", self.folder / "out.safetensors"], 1, "was compiled for batches of no rows")

    def case_batch_larger_than_the_data(self):
        package, arrays = self.good()
        flags = ("--batch-size", "100", "--steps", "2")
        self.train(package, self.npz(**arrays), 1, r"\b100\b", r"\b6\b", flags=flags)

    # Packages.

    def case_package_damaged(self):
        package, arrays = self.good()
        data, good = self.npz(**arrays), package.read_bytes()
        for cut in (0, 100, len(good) // 2, len(good) - 10):
            self.train(self.write("cut.tpk", good[:cut]), data, 1, "cut.tpk")
        for entry in ("manifest.json", "program.fb", "kernels/"):
            start, length, name = entry_of(good, entry)
            broken = bytearray(good)
            broken[start + length // 2] ^= 0xFF
            self.train(self.write("bad.tpk", bytes(broken)), data, 1, "bad.tpk", re.escape(name))

    def case_package_newer(self):
        package, arrays = self.good()
        good = bytearray(package.read_bytes())
        start, length, _ = entry_of(good, "manifest.json")
        text = bytes(good[start : start + length])
        newer = re.sub(rb'("major":\s*)1\b', rb"\g<1>9", text)
        newer = sealed(newer)
        good[start : start + length] = newer
        # Both headers of the entry carry its CRC.
        good = good.replace(
            struct.pack("<I", zlib.crc32(text)), struct.pack("<I", zlib.crc32(newer))
        )
        path = self.write("newer.tpk", bytes(good))
        self.train(path, self.npz(**arrays), 1, "newer", r"\b9\b")

    def case_checkpoint_of_another_graph(self):
        """Equal names and shapes are not enough: a model that computes something else is refused."""

        def model(name, activation="Relu", weight=0.1, node="act", opset=18):
            nodes = [
                mo.node("MatMul", ["x", "w"], ["h"], "project"),
                mo.node(activation, ["h"], ["logits"], node),
                mo.node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss"], "criterion"),
            ]
            inputs = [mo.value_info("x", mo.FLOAT, ["batch", 4]), mo.value_info("labels", 7, ["batch"])]
            outputs = [mo.value_info("loss", mo.FLOAT, []), mo.value_info("logits", mo.FLOAT, ["batch", 3])]
            weights = [mo.tensor("w", [4, 3], [weight * i for i in range(12)])]
            return self.write(name, mo.model(nodes, inputs, outputs, weights, opset))

        def compiled(path, *flags):
            command = [self.arguments.trainc, path, "-o", path.with_suffix(".tpk"), "--target", "cpu", *flags]
            self.run(command, 0)
            return path.with_suffix(".tpk")

        rng = np.random.default_rng(1)
        data = self.npz(x=rng.standard_normal((6, 4)).astype(np.float32), labels=np.arange(6) % 3)
        first = compiled(model("first.onnx"))
        checkpoint = self.folder / "ck"
        self.train(first, data, 0, flags=("--steps", "2", "--save", checkpoint))
        resume = ("--steps", "3", "--resume", checkpoint)
        # The same graph, whatever it was compiled with: other weights, names of nodes, sizes, passes, opsets.
        for i, flags in enumerate(((), ("--dim", "batch=6"), ("--clip-norm", "1.0"), ("--no-decay", "w"))):
            again = compiled(model("again.onnx", weight=0.2, node="renamed", opset=13 + 2 * i), *flags)
            done = self.train(again, data, 0, flags=resume)
            if "another model" in done.stdout + done.stderr:
                self.problems.append(f"a warning without a reason: {done.stdout}")
        # Before opset 13 operators of the same form computed something else.
        self.train(compiled(model("old.onnx", opset=12)), data, 1, "is of another model", flags=resume)
        other = compiled(model("other.onnx", "Tanh"))
        before = {f: f.read_bytes() for f in checkpoint.rglob("*.*")}
        patterns = (r"ck/step-2' is of another model", "first.onnx", "other.onnx", "--any-model", "parameters.safetensors")
        self.train(other, data, 1, *patterns, flags=(*resume, "--save", checkpoint))
        if before != {f: f.read_bytes() for f in checkpoint.rglob("*.*")}:
            self.problems.append("the folder of the checkpoint was changed")
        done = self.train(other, data, 0, flags=(*resume, "--any-model"))
        if "another model" not in done.stdout or '"step":3' not in done.stdout.replace(" ", ""):
            self.problems.append(f"--any-model: no warning, or no third step: {done.stdout}")
        self.train(other, data, 0, flags=("--weights", checkpoint / "step-2" / "parameters.safetensors"))
        self.train(other, data, 2, "--any-model needs --resume", flags=("--any-model",))
        # Compiled for inference it predicts what was trained: small
        # weights are no constants of the package.
        trained = self.predictions(first, data, "--resume", checkpoint)
        weights = ("--weights", checkpoint / "step-2" / "parameters.safetensors")
        package = compiled(model("again.onnx", weight=0.2), "--inference")
        for flags in (("--resume", checkpoint), weights):
            if self.predictions(package, data, *flags) != trained:
                self.problems.append(f"other predictions with --inference and {flags[0]}")
        # A model for inference is another export by nature; its parameters are told by their names.
        inference = compiled(model("inference.onnx", "Tanh"), "--inference")
        self.predictions(inference, data, "--resume", checkpoint, warning="another model")

    def case_package_is_something_else(self):
        _, arrays = self.good()
        self.train(MODELS / "mlp.npz", self.npz(**arrays), 1, "mlp.npz")
        self.train(self.folder / "absent.tpk", self.npz(**arrays), 1, "absent.tpk")


def entry_of(package, prefix):
    """(offset, length, name) of the data of the first entry whose name begins so."""
    position = 0
    while True:
        position = package.find(b"PK\x03\x04", position)
        if position < 0:
            raise KeyError(prefix)
        length, name_length, extra = struct.unpack_from("<IxxxxHH", package, position + 18)
        name = bytes(package[position + 30 : position + 30 + name_length]).decode()
        if name.startswith(prefix):
            return position + 30 + name_length + extra, length, name
        position += 30 + name_length + extra + length


def sealed(manifest):
    """The manifest with its own checksum right: FNV-1a 64 with the digits taken as zeros."""
    match = re.search(rb'"manifest":\s*"([0-9a-f]{16})"', manifest)
    if not match:
        return manifest
    blank = manifest[: match.start(1)] + b"0" * 16 + manifest[match.end(1) :]
    value = 0xCBF29CE484222325
    for byte in blank:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return blank[: match.start(1)] + b"%016x" % value + blank[match.end(1) :]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainc", required=True)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--only", help="one case, without case_")
    arguments = parser.parse_args()
    names = [n for n in dir(Cases) if n.startswith("case_")]
    if arguments.only:
        names = [f"case_{arguments.only}"]
    failed = 0
    for name in names:
        with tempfile.TemporaryDirectory(prefix="trainc-bad-") as scratch:
            cases = Cases(arguments, pathlib.Path(scratch))
            try:
                getattr(cases, name)()
            except Exception as error:  # pylint: disable=broad-except
                cases.problems.append(f"the case itself failed: {error!r}")
            failed += bool(cases.problems)
            print(f"{'FAILED' if cases.problems else 'ok'}: {name[5:].replace('_', ' ')}")
            for problem in cases.problems:
                print("  " + problem.strip().replace("\n", "\n    "))
    print(f"{len(names) - failed} of {len(names)} cases passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
