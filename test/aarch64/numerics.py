# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models trained on AArch64, by qemu, have the bits of x86-64: numerics.py --build BUILD --source SOURCE --models MODELS SCRATCH

One package for both processors a model. Losses of steps and all parameters behind them are compared.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import odd_sizes

EMULATOR = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]
STEPS = 3
# Model, flags of trainc: matmuls with tails, norms, attention with padding, convolutions, loops, gathers and scatters,
# dropout, conversions of 16-bit types, bf16 in all matmuls and convolutions, quantized weights, optimizers with sums over all.
MODELS = (
    ("mlp", ["--optimizer", "lamb"]),
    ("bert-joint", ["--optimizer", "adamw", "--clip-norm", "1", "--optimizer-state", "bf16"]),
    ("convs", ["--optimizer", "sgd"]),
    ("gru", ["--optimizer", "adamw"]),
    ("qwen3", ["--optimizer", "adamw", "--lora", "r=4,dropout=0.1", "--quantize", "nf4:absmax=f16"]),
    ("cnn-joint", ["--optimizer", "sgd", "--precision", "bf16"]),
    ("odd-sizes", ["--optimizer", "adamw", "--lr", "0.01"]),
)


def call(*command, **more):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **more)
    if done.returncode:
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def losses(text):
    return [entry["loss"] for entry in map(json.loads, text.splitlines()) if "event" not in entry]


def main():
    parser = argparse.ArgumentParser()
    for name in ("build", "source", "models"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("scratch", type=pathlib.Path)
    arguments = parser.parse_args()
    build, source, scratch = (path.resolve() for path in (arguments.build, arguments.source, arguments.scratch))
    cross = build / "aarch64"
    emulator = [*EMULATOR, "-E", f"LD_LIBRARY_PATH={source / '.deps/aarch64/lib'}"]
    odd, differ = odd_sizes.write(source, scratch), []
    for model, flags in MODELS:
        base = odd if model == odd.name else arguments.models / model
        package = scratch / f"{model}.tpk"
        call(build / "bin/trainc", f"{base}.onnx", "-o", package, "--target", "cpu:x86-64-v3,armv8.2-a", *flags)
        rows = odd_sizes.ROWS if base == odd else json.loads(base.with_name(f"{model}.ref.json").read_text())["batch_size"]
        runs = {}
        for name, command in (("x86-64", [build / "bin/trainc-run"]), ("aarch64", [*emulator, cross / "bin/trainc-run"])):
            exported = scratch / f"{model}-{name}.safetensors"
            said = call(
                *command, package, "--data", f"{base}.npz", "--batch-size", rows, "--steps", STEPS, "--threads", "2",
                "--seed", "3", "--log-format", "json", "--export", exported,
            )  # fmt: skip
            runs[name] = (losses(said), exported.read_bytes())
        here, there = runs.values()
        print(f"{model}: {here[0]} {there[0]} {'equal' if here == there else 'DIFFERENT'}")
        if len(here[0]) != STEPS or here != there:
            differ.append(model)
    if differ:
        sys.exit(f"other bits on AArch64: {', '.join(differ)}")

if __name__ == "__main__":
    main()
