#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times training steps of convolutional nets on the CPU: ours beside PyTorch's, in one run.

  bench/convolutions/run.py --torch-python PYTHON [--net resnet18 --steps 3 --rounds 2 --threads 2]

ResNet-18 and MobileNetV2, 16 images of 224 x 224, fp32, SGD with momentum. PYTHON is an interpreter
with torch, onnx and onnxscript. The contenders take turns, each in a process of its own; the table has
the fastest step of all rounds (other work on the machine only adds), its ratio to the fastest of
PyTorch, and the peak resident memory. Models and data go to a cache folder.
"""

import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
import runs  # noqa: E402

PEERS = ("eager", "eager-last", "compile", "compile-last")


def run_torch(arguments, mode, net):
    command = [arguments.torch_python, HERE / "torch_step.py", mode, net, arguments.cache]
    command += [arguments.batch, arguments.steps, arguments.threads]
    out = subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(out.stdout.splitlines()[-1])


def run_ours(arguments, net):
    return runs.timed(
        arguments.cache / f"{net}.tpk", arguments.cache / "data.npz",
        batch=arguments.batch, steps=arguments.steps, threads=arguments.threads, unmeasured=2,
    )  # fmt: skip


def compile_ours(arguments, net):
    model = arguments.cache / f"{net}.onnx"
    if not model.exists():
        command = [arguments.torch_python, HERE / "torch_step.py", "export", net, arguments.cache]
        command.append(arguments.batch)
        subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL)
    command = [ROOT / "build/bin/trainc", model, "-o", model.with_suffix(".tpk"), "--target", "cpu"]
    command += ["--optimizer", "sgd", "--momentum", 0.9, "--lr", 0.01]
    subprocess.run([str(c) for c in command], check=True)


def report(net, results):
    fastest = {name: min(t for r in rounds for t in r["step_ms"]) for name, rounds in results.items()}
    best = min((t for name, t in fastest.items() if name != "trainc"), default=None)
    print(f"{net:15}{'fastest ms':>11}{'to the best of torch':>22}{'peak RSS MiB':>14}{'losses':>12}")
    for name, rounds in results.items():
        ratio = f"{fastest[name] / best:.2f}" if best else "-"
        memory = max(r["peak_rss"] for r in rounds) / 2**20
        losses = " ".join(f"{loss:.5f}" for loss in rounds[0]["losses"][:3])
        print(f"{name:15}{fastest[name]:11.0f}{ratio:>22}{memory:14.0f}    {losses}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch-python", default="python3")
    parser.add_argument("--net", action="append", choices=["resnet18", "mobilenet-v2"])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", action="append", choices=["trainc", *PEERS], help="contenders")
    parser.add_argument(
        "--cache", type=pathlib.Path, default=pathlib.Path.home() / ".cache/trainc-bench/convolutions"
    )
    arguments = parser.parse_args()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    contenders = arguments.only or ["trainc", *PEERS]
    for net in arguments.net or ["resnet18", "mobilenet-v2"]:
        if "trainc" in contenders:
            compile_ours(arguments, net)
        results = {name: [] for name in contenders}
        for _ in range(arguments.rounds):
            for name in contenders:
                one = run_ours(arguments, net) if name == "trainc" else run_torch(arguments, name, net)
                results[name].append(one)
        report(net, results)


if __name__ == "__main__":
    main()
