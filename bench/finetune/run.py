#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`trainc finetune` on a GPU beside other programs, in one run: `run.py WORK --package-path PEERS`.

Makes a model of Llama-3-8B's shape with random weights and documents of random tokens (make_model.py), and measures
  - from the command to the first step, with nothing in the cache and with the export in it,
  - `--memory`: what was predicted, what the runtime holds, what the device shows as used,
  - tokens a second (without padding) of packed rows,
beside PEFT with bitsandbytes and Unsloth's kernels (bench/cuda/peer_qlora.py), on rows of one length and padded. TRL's trainer
is peer_trl.py's, of a run of its own. One JSON line for each, added to WORK/results.jsonl, and the ratios at the end.
Needs torch, transformers, peft, onnxscript and `trainc` as a module of Python.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
PEER = HERE.parent / "cuda/peer_qlora.py"
sys.path.insert(0, str(HERE.parent / "cuda"))


class Bench:
    def __init__(self, work):
        self.work = work
        self.rows = []

    def add(self, **row):
        self.rows.append(row)
        print(json.dumps(row), flush=True)
        with open(self.work / "results.jsonl", "a") as out:
            out.write(json.dumps(row) + "\n")

    def find(self, name):
        return next((row for row in self.rows if row["name"] == name), {})


def finetune(bench, name, options, seconds):
    """Runs `trainc finetune`; the seconds to each line of its output tell where time goes."""
    from run import MemoryWatch

    output = bench.work / name
    command = [sys.executable, "-m", "trainc", "finetune", str(bench.work / "model"), "-o", str(output), "--overwrite"]
    command += ["--data", str(bench.work / "rows.jsonl"), "--log-format", "json", *options]
    watch = MemoryWatch()
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    timer = threading.Timer(seconds, process.terminate)
    timer.start()
    marks, steps, said = {}, [], []
    for line in process.stdout:
        now = time.monotonic() - begin
        if line.startswith('{"step"'):
            marks.setdefault("first_step_s", now)
            steps.append(json.loads(line))
        else:
            said.append(f"{now:6.1f} {line.rstrip()}")
            if line.startswith("ready after"):
                marks["ready_s"] = now
    code = process.wait()
    timer.cancel()
    row = {"name": name, "exit": code, **marks, "device_bytes": watch.stop()}
    if code or not steps:
        print("\n".join(said[-20:]), file=sys.stderr)
    else:
        timed = steps[1:]  # the first makes plans
        row["step_ms"] = sum(step["step_ms"] for step in timed) / len(timed)
        row["tokens_per_s"] = sum(step["valid_tokens"] for step in timed) / sum(step["step_ms"] for step in timed) * 1e3
        row["held_bytes"] = max(step["peak_bytes"] for step in steps)
        row["mfu"] = timed[-1].get("mfu")
    row["said"] = [line for line in said if any(word in line for word in (" step  ", "memory  ", "ready"))]
    bench.add(**row)
    (bench.work / f"{name}.log").write_text("\n".join(said))


def peer(bench, name, options, path, seconds):
    command = [sys.executable, str(PEER), "--peer", name.partition("-")[0], "--package-path", str(path), "--layers", str(bench.layers), "--shape", bench.peer_shape, *options]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds)
        row = json.loads(done.stdout.splitlines()[-1])
        if "error" in row:
            print(done.stderr[-1500:], file=sys.stderr)
    except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
        row = {"error": repr(error)[:300]}
    bench.add(name=name, **row)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--shape", default="llama-3-8b")
    parser.add_argument("--package-path", type=pathlib.Path, help="where the peers' packages are; without it they are left out")
    parser.add_argument("--only", default="cold,warm,packed,peers", help="comma-separated")
    parser.add_argument("--memory", default="24GB")
    parser.add_argument("--most-memory", default="72GB", help="of the run whose throughput is compared")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--deadline", type=float, default=540, metavar="SECONDS")
    arguments = parser.parse_args()
    begin = time.monotonic()
    arguments.work.mkdir(parents=True, exist_ok=True)
    bench = Bench(arguments.work)
    bench.peer_shape = arguments.shape if arguments.shape in ("llama-3-8b", "tiny") else "tiny"
    bench.layers = 32 if bench.peer_shape == "llama-3-8b" else 2
    subprocess.run([sys.executable, HERE / "make_model.py", arguments.shape, arguments.work], check=True)
    print(f"model and rows made after {time.monotonic() - begin:.1f} s", flush=True)
    base = ["--lora", "r=16,alpha=32", "--quantize", "nf4:double", "--precision", "bf16", "--pack", "--max-length", "2048"]
    steps = ["--steps", str(arguments.steps)]
    what = arguments.only.split(",")

    def left():
        return arguments.deadline - (time.monotonic() - begin)

    for name in ("cold", "warm"):
        if name in what:
            finetune(bench, name, [*base, *steps, "--memory", arguments.memory, "--batch-size", "8"], left())
    if "packed" in what:
        finetune(bench, "packed", [*base, *steps, "--memory", arguments.most_memory, "--batch-size", "16"], left())
    if "peers" in what and arguments.package_path:
        few = ["--steps", "8", "--warmup", "4"]
        for program in ("unsloth", "peft"):
            for name, options in (
                ("packed", ["--batch", "4", "--checkpoint"]),
                ("packed-kept", ["--batch", "2"]),
                ("padded", ["--batch", "8", "--mean-length", "0.3", "--checkpoint"]),
            ):
                if left() < 40:
                    print(f"{program}-{name} is left out: no time")
                    continue
                peer(bench, f"{program}-{name}", [*few, *options], arguments.package_path, left())
        for name, least in (("packed", 1.1), ("padded", 1.5)):
            ours = bench.find("packed").get("tokens_per_s")
            theirs = [row.get("tokens_per_s") or 0 for row in bench.rows if f"-{name}" in row["name"]]
            if ours and max(theirs):
                print(f"packed / better peer's {name}: {ours / max(theirs):.3f} (at least {least})")


if __name__ == "__main__":
    main()
