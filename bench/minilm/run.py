#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times one training step of a MiniLM-shaped BERT classifier: ours beside PyTorch's, in one run.

  bench/minilm/run.py --torch-python PYTHON [--steps 20 --rounds 3 --threads 2]

6 layers, width 384, 12 heads, batch 8 x 128, fp32 (ours in bf16, too), AdamW with gradients clipped to 1.0. PYTHON is
an interpreter with torch, transformers and onnx. The contenders take turns for several rounds, each
in a process of its own; the table has medians over all steps, quartiles as the spread, and the
peak resident memory of each process. Model and data go to a cache folder.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
import runs  # noqa: E402

PEERS = {"eager": "torch eager", "compile": "torch.compile"}
OURS = {"trainc": "fp32", "trainc bf16": "bf16"}


def run_torch(arguments, mode):
    command = [arguments.torch_python, HERE / "torch_step.py", mode, arguments.cache]
    command += [arguments.steps, arguments.threads]
    out = subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(out.stdout.splitlines()[-1])


def run_ours(arguments, package):
    return runs.timed(
        package, arguments.cache / "data.npz", batch=8, steps=arguments.steps, threads=arguments.threads, unmeasured=3
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch-python", default="python3")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=[*OURS, "ours", *PEERS], help="one contender, or ours")
    parser.add_argument(
        "--cache", type=pathlib.Path, default=pathlib.Path.home() / ".cache/trainc-bench/minilm"
    )
    arguments = parser.parse_args()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    model = arguments.cache / "model.onnx"
    if not model.exists():
        command = [arguments.torch_python, HERE / "torch_step.py", "export", arguments.cache]
        subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL)
    package = {name: arguments.cache / f"{precision}.tpk" for name, precision in OURS.items()}
    contenders = [*OURS] if arguments.only == "ours" else [arguments.only]
    if not arguments.only:
        contenders = [*OURS, *PEERS]
    for name in (name for name in OURS if name in contenders):
        command = [ROOT / "build/bin/trainc", model, "-o", package[name], "--target", "cpu"]
        command += ["--optimizer", "adamw", "--lr", "1e-4", "--clip-norm", "1.0"]
        subprocess.run([str(c) for c in [*command, "--precision", OURS[name]]], check=True)
    results = {name: [] for name in contenders}
    for _ in range(arguments.rounds):
        for name in contenders:
            found = run_ours(arguments, package[name]) if name in OURS else run_torch(arguments, name)
            results[name].append(found)
    print(f"MiniLM-shaped step, batch 8 x 128, fp32 unless named, AdamW, clip 1.0, {arguments.threads} threads")
    print(f"{'':15}{'median ms':>10}{'quartiles':>17}{'ratio':>7}{'peak RSS MiB':>14}{'loss 1':>10}")
    medians = {}
    for name, rounds in results.items():
        times = [t for r in rounds for t in r["step_ms"]]
        low, median, high = statistics.quantiles(times, n=4)
        medians[name] = median
        ratio = median / medians[contenders[0]]
        rss = max(r["peak_rss"] for r in rounds) / 2**20
        print(
            f"{PEERS.get(name, name):15}{median:10.1f}{low:9.1f} -{high:6.1f}{ratio:7.2f}{rss:14.0f}"
            f"{rounds[0]['losses'][0]:10.6f}"
        )
    for name in (name for name in OURS if name in results):
        planned = results[name][0]["peak_bytes"] / 2**20
        print(f"{name}'s own account of its memory (peak_bytes): {planned:.0f} MiB")
        if "eager" in results:
            pairs = zip(results[name][0]["losses"], results["eager"][0]["losses"])
            drift = max(abs(a - b) for a, b in pairs)
            print(f"{name}'s largest difference of a loss to torch eager: {drift:.1e}")


if __name__ == "__main__":
    main()
