# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Low-rank branches and quantized weights that trainc adds to a plain model, against that model.

  low_rank.py --trainc build/bin/trainc --trainc-run build/bin/trainc-run --models test/e2e/models

A branch of zeros changes nothing. With any other one the loss is that of the plain model with merged
weights, and since y = x (W + s B A)^T, the gradients of A and B are s B^T G and s G A^T with G the
plain model's gradient for the merged weight: all of it holds for quantized weights, too. With DoRA
y = x (m / n (W + s B A))^T, n the rows' norms, which count as constants: G is scaled by m / n, and
the gradient of m is the rows' sum of G (W + s B A) / n.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import safetensors_io

#: Options, and how far from the plain model they may be without a branch.
CASES = [
    ("llama", "r=4,alpha=8", None, 1e-6),
    ("llama", "r=3,alpha=4,rslora,targets=(q|v|down)_proj,r[v_proj]=2", "nf4", 0.05),
    ("llama", "r=4,alpha=8", "nf4:double:block=32", 0.05),
    ("llama", "r=4,alpha=8", "fp4:absmax=bf16", 0.05),
    ("llama", "r=4,alpha=8,save=norm", "int8", 0.01),
    ("gpt2", "r=2,alpha=2,bias=lora_only", "nf4:block=16", 0.05),
    ("qwen3", "r=4,alpha=8", "int8", 0.01),
    ("bert-cls", "r=4,alpha=8", "nf4", 0.05),
    ("gemma3", "r=4,alpha=8", "nf4:double", 0.05),
    ("mistral", "r=4,alpha=8,targets=(q|k|v|o)_proj", "fp4:block=128", 0.05),
    ("phi3", "r=4,alpha=8,alpha[qkv]=2", "nf4:absmax=f16", 0.05),
    ("qwen2-cls", "r=4,alpha=8,save=score", "nf4", 0.05),
    ("llama", "dora,r=4,alpha=8", None, 1e-6),
    ("llama", "dora,r=3,alpha=4,targets=(q|v|down)_proj", "nf4:double:block=32", 0.05),
    ("gpt2", "r=2,alpha=2,dora", "int8", 0.01),
]

failures = 0


def check(what, condition, detail):
    global failures
    print(f"{'ok' if condition else 'FAILED'}: {what}: {detail}")
    failures += not condition


def close(actual, expected):
    """Largest error beside the largest element."""
    largest = max(np.abs(expected).max(), 1e-7)
    return float(np.abs(actual.astype(np.float64) - expected).max() / largest)


class Runner:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.models = pathlib.Path(arguments.models)

    def run(self, *command):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stderr}")
        return done.stdout

    def compile(self, name, package, *options):
        self.run(self.arguments.trainc, self.models / f"{name}.onnx", "--target", "cpu:native", "--dropout", "off",
                 "--lr", "0.02", "-o", self.folder / package, *options)  # fmt: skip
        return self.folder / package

    def train(self, package, name, *options):
        out = self.run(self.arguments.trainc_run, package, "--data", self.models / f"{name}.npz",
                       "--log-format", "json", *options)  # fmt: skip
        steps = [json.loads(line) for line in out.splitlines()]
        return [step["loss"] for step in steps if "event" not in step]

    def gradients(self, package, name, *options):
        path = self.folder / "gradients.safetensors"
        loss = self.train(package, name, "--dump-gradients", path, *options)
        return loss[0], safetensors_io.load(path)


def check_case(runner, name, lora, quantize, tolerance):
    what = f"{name} {lora} {quantize or ''}"
    options = ["--lora", lora, *(["--quantize", quantize] if quantize else [])]
    plain = runner.compile(name, "plain.tpk", "-O0")
    package = runner.compile(name, "lora.tpk", *options)
    exact = runner.compile(name, "exact.tpk", "-O0", *options)

    before = runner.gradients(plain, name)[0]
    first = runner.train(package, name, "--steps", "1")[0]
    check(f"{what}: first loss", abs(first - before) <= tolerance * abs(before), f"{first} and {before}")

    begun = runner.folder / "begun.safetensors"
    runner.run(runner.arguments.trainc_run, package, "--merge-adapter", begun)
    begun = safetensors_io.load(begun)

    saved = runner.folder / "saved"
    losses = runner.train(package, name, "--steps", "12", "--save", saved)
    plainly = runner.train(exact, name, "--steps", "12")
    worst = max(abs(a - b) / abs(b) for a, b in zip(losses, plainly))
    check(f"{what}: 12 steps with and without passes", worst <= 2e-5, f"{worst:.1e}")
    check(f"{what}: learns", losses[-1] < losses[0] * 0.99, f"{losses[0]} to {losses[-1]}")

    merged = runner.folder / "merged.safetensors"
    runner.run(runner.arguments.trainc_run, package, "--resume", saved, "--merge-adapter", merged)
    loss, gradients = runner.gradients(package, name, "--resume", saved)
    expected, whole = runner.gradients(plain, name, "--weights", merged)
    check(f"{what}: loss of merged weights", abs(loss - expected) <= 1e-6 * max(1, abs(expected)),
          f"{loss} and {expected}")  # fmt: skip
    checkpoint = sorted(saved.glob("step-*"))[-1] / "parameters.safetensors"
    parameters = safetensors_io.load(checkpoint)
    branches = [key for key in gradients if key.endswith(".lora_A.weight")]
    check(f"{what}: branches", bool(branches), f"{len(branches)}")
    ranks = sections(package)
    worst = 0
    for key in branches:
        path = key.removesuffix(".lora_A.weight")
        a, b = parameters[key].astype(np.float64), parameters[f"{path}.lora_B.weight"].astype(np.float64)
        module = ranks[path]
        g = whole[module["weight"]].astype(np.float64)
        turn = (lambda m: m.T) if module["fan_in_fan_out"] else (lambda m: m)
        g = module["scale"] * turn(g)
        if "magnitude" in module:
            m = parameters[module["magnitude"]].astype(np.float64)
            direction = turn(begun[module["weight"]]).astype(np.float64) + module["scale"] * b @ a
            norms = np.linalg.norm(direction, axis=1)
            along = (g / module["scale"] * direction).sum(1) / norms
            worst = max(worst, close(gradients[module["magnitude"]], along))
            g *= (m / norms)[:, None]
        worst = max(worst, close(gradients[key], b.T @ g),
                    close(gradients[f"{path}.lora_B.weight"], g @ a.T))  # fmt: skip
    check(f"{what}: gradients of branches", worst <= 2e-5, f"{worst:.1e}")
    others = [key for key in gradients if ".lora_" not in key]
    for key in others:
        error = close(gradients[key], whole[key].astype(np.float64))
        check(f"{what}: gradient of {key}", error <= 2e-5, f"{error:.1e}")
    check(f"{what}: what is trained", bool(others) == ("save" in lora or "bias" in lora), others)


def sections(package):
    """Modules of the manifest's section `lora` by path."""
    import zipfile

    with zipfile.ZipFile(package) as archive:
        lora = json.loads(archive.read("manifest.json"))["lora"]
    return {module["path"]: module for module in lora["modules"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trainc", required=True)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--only", default="", help="cases with this in their text")
    arguments = parser.parse_args()
    for case in (case for case in CASES if arguments.only in " ".join(map(str, case))):
        with tempfile.TemporaryDirectory() as folder:
            check_case(Runner(arguments, pathlib.Path(folder)), *case)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
