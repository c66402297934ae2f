# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients that are not finite while the loss is: what becomes of the step, the state and the
checkpoints.

  gradient_values.py --trainc build/bin/trainc --trainc-run build/bin/trainc-run [--target cuda:sm_90]

The model's loss has |e| = sqrt(e e) of e = x w1, whose derivative is 0/0 where a row of x is zeros;
w2, which comes behind it, has a finite gradient all the same.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np

import mini_onnx
import safetensors_io
from mini_onnx import FLOAT, node, tensor, value_info

BATCH, BAD_ROW = 2, 17
#: Options of trainc, and whether updates wait for what is known of all gradients.
PACKAGES = {
    "adamw": (["--lr", 0.01], False),
    "clip": (["--lr", 0.01, "--clip-norm", 1], True),
    "sgd": (["--optimizer", "sgd", "--momentum", 0.9, "--lr", 0.01], False),
    "lamb": (["--optimizer", "lamb", "--lr", 0.01], False),
    "int8": (["--lr", 0.01, "--optimizer-state", "int8"], False),
    "bf16": (["--lr", 0.01, "--optimizer-state", "bf16"], False),
}

PLAIN = ["--optimizer", "sgd", "--lr", 0.01]

failures = 0


def check(what, condition, *detail):
    global failures
    print(f"{'ok' if condition else 'FAILED'}: {what}", *([] if condition else detail))
    failures += not condition


def mean(source, result, name):
    return node("ReduceMean", [source], [result], name, attributes=[("keepdims", 0)])


def write_model(path, columns=40, rows=128):
    """w1 is large enough for a state of 8 bits."""
    random = np.random.default_rng(0)
    nodes = [
        node("MatMul", ["x", "w1"], ["e"], "/first/MatMul"),
        node("Mul", ["e", "e"], ["square"], "/norm/Mul"),
        node("Sqrt", ["square"], ["size"], "/norm/Sqrt"),
        mean("size", "a", "/norm/Mean"),
        node("MatMul", ["e", "w2"], ["z"], "/second/MatMul"),
        node("Mul", ["z", "z"], ["zz"], "/power/Mul"),
        mean("zz", "b", "/power/Mean"),
        node("Add", ["a", "b"], ["loss"], "/loss/Add"),
    ]
    weights = [
        tensor(name, shape, list(random.normal(0, 0.1, shape).flatten()))
        for name, shape in (("w1", [rows, columns]), ("w2", [columns, 2]))
    ]
    inputs, outputs = [value_info("x", FLOAT, ["batch", rows])], [value_info("loss", FLOAT, [])]
    path.write_bytes(mini_onnx.model(nodes, inputs, outputs, weights, 13))
    x = random.normal(0, 1, (24, rows)).astype(np.float32)
    np.savez(path.parent / "good.npz", x=x)
    x[BAD_ROW] = 0
    np.savez(path.parent / "bad.npz", x=x)


class Test:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.model = folder / "model.onnx"
        write_model(self.model)

    def compile(self, name, options):
        package = (self.arguments.packages or self.folder) / f"{name}.tpk"
        command = [self.arguments.trainc, self.model, "-o", package, *options]
        if not (self.arguments.packages and package.exists()):
            command += ["--target", self.arguments.target, "--embed-weights"]
            subprocess.run(list(map(str, command)), check=True, capture_output=True)
        return package

    def run(self, package, *flags, data="bad.npz", code=0):
        """The steps and warnings of the log, and what stderr holds."""
        command = [self.arguments.trainc_run, package, "--data", self.folder / data]
        command += ["--batch-size", BATCH, "--log-format", "json", *flags]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode != code:
            raise SystemExit(f"{command} ended with {done.returncode}, not {code}:\n{done.stderr}")
        events = [json.loads(line) for line in done.stdout.splitlines()]
        steps = [e for e in events if "step" in e and "loss" in e]
        return steps, [e["message"] for e in events if e.get("event") == "warning"], done.stderr

    def tensors(self, folder, step):
        return {
            name: array
            for file in ("parameters", "optimizer")
            for name, array in safetensors_io.load(folder / f"step-{step}/{file}.safetensors").items()
        }

    def same(self, a, b):
        return all((a / f).read_bytes() == (b / f).read_bytes()
                   for f in ("parameters.safetensors", "optimizer.safetensors"))

    def bad_step(self, name, package, waits, accumulate):
        """A run that meets the bad row, and one of the same data that ends before."""
        bad = BAD_ROW // (BATCH * accumulate) + 1
        what = f"{name}, {accumulate} micro-batches"
        folder, clean = self.folder / "saved", self.folder / "clean"
        for path in (folder, clean):
            shutil.rmtree(path, ignore_errors=True)
        flags = ["--accumulate", accumulate]
        self.run(package, *flags, "--steps", bad - 1, "--save", clean)
        saving = ["--save", folder, "--save-every", 1, "--keep", 2]
        steps, _, error = self.run(package, *flags, *saving, code=1)
        check(f"{what}: ends with the step itself, whose loss is finite",
              [s["step"] for s in steps][-1] == bad and np.isfinite(steps[-1]["loss"]), steps)
        exact = waits or accumulate > 1
        check(f"{what}: says of which step the state is",
              f"step {bad}:" in error
              and ("are those before the step" in error) == exact
              and ("neither those before the step" in error) != exact, error)
        if not waits:
            check(f"{what}: names the parameter", "'w1'" in error and "'w2'" not in error, error)
        kept = sorted(int(path.name[5:]) for path in folder.glob("step-*"))
        check(f"{what}: both checkpoints are left", kept == [bad - 2, bad - 1], kept)
        check(f"{what}: the newest is that before the step",
              self.same(folder / f"step-{bad - 1}", clean / f"step-{bad - 1}"))
        if not exact or waits:
            # Without a checkpoint every step: what cannot be undone is not saved.
            shutil.rmtree(folder)
            steps, _, error = self.run(package, *flags, "--save", folder, code=1)
            if exact:
                check(f"{what}: the state before the step is saved at the end",
                      self.same(folder / f"step-{bad - 1}", clean / f"step-{bad - 1}"))
            else:
                check(f"{what}: nothing is saved, and the way back is told",
                      not list(folder.glob("step-*")) and f"--steps {bad - 1} makes" in error, error)
        steps, _, _ = self.run(package, *flags, "--resume", clean, "--steps", bad + 1,
                               "--allow-nonfinite")
        check(f"{what}: goes on", steps[-1]["step"] == bad + 1, steps)

    def allowed(self, name, package, waits):
        bad = BAD_ROW // BATCH + 1
        folder = self.folder / "allowed"
        shutil.rmtree(folder, ignore_errors=True)
        steps, warnings, _ = self.run(package, "--allow-nonfinite", "--save", folder)
        check(f"{name}, allowed: all steps are made, with finite losses",
              len(steps) == 24 // BATCH and all(np.isfinite(s["loss"]) for s in steps), steps)
        check(f"{name}, allowed: the step is told", any(f"step {bad}:" in w for w in warnings),
              warnings)
        values = self.tensors(folder, len(steps))
        check(f"{name}, allowed: all values are finite",
              all(np.isfinite(np.asarray(v, np.float64)).all() for v in values.values()))

    def numerics(self, package):
        bad = BAD_ROW // BATCH + 1
        _, _, error = self.run(package, "--check-numerics", code=1)
        check("--check-numerics names the node at the step",
              f"step {bad}:" in error and "'/norm/Sqrt" in error, error)

    def gradients(self, package):
        """What they are stays in sight."""
        path = self.folder / "gradients.safetensors"
        x = np.load(self.folder / "bad.npz")["x"]
        np.savez(self.folder / "row.npz", x=x[BAD_ROW - 1:BAD_ROW + 1])
        _, warnings, _ = self.run(package, "--dump-gradients", path, data="row.npz")
        values = safetensors_io.load(path)
        check("--dump-gradients shows them and warns",
              np.isnan(values["w1"]).any() and np.isfinite(values["w2"]).all() and warnings,
              warnings)

    def update_overflows(self):
        """A finite gradient, and a new value that is not."""
        package = self.compile("plain", PLAIN)
        np.savez(self.folder / "large.npz", x=np.load(self.folder / "good.npz")["x"] * 1e6)
        steps, _, error = self.run(package, "--lr", 3e38, data="large.npz", code=1)
        check("an update that overflows is found at its step",
              len(steps) == 1 and np.isfinite(steps[0]["loss"]) and "step 1: the gradient of" in error,
              steps, error)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainc", required=True)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--target", default="cpu:native")
    parser.add_argument("--packages", type=pathlib.Path, help="where packages are, or are put")
    parser.add_argument("--compile-only", action="store_true", help="for a machine without a compiler")
    with tempfile.TemporaryDirectory() as folder:
        test = Test(parser.parse_args(), pathlib.Path(folder))
        if test.arguments.compile_only:
            for name, options in [*((n, o) for n, (o, _) in PACKAGES.items()), ("plain", PLAIN)]:
                test.compile(name, options)
            return
        for name, (options, waits) in PACKAGES.items():
            package = test.compile(name, options)
            for accumulate in (1, 3):
                test.bad_step(name, package, waits, accumulate)
            test.allowed(name, package, waits)
            if name == "adamw":
                test.numerics(package)
                test.gradients(package)
        test.update_overflows()
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
