#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times training steps on several GPUs of one host, ours beside PyTorch's, in one run.

  ranks.py compile GRAPHS PACKAGES [CASE[:MODE]...]   writes packages; needs no GPU
  ranks.py run PACKAGES CASE[:MODE]... [--gpus 2] [--peers ddp,fsdp2] [--deadline 560]

MODE is what `trainc --distribute` takes (default: data); CASE is one of models.py or `qlora`, NF4 with LoRA of llama-8b's
shape. Every rank has batches of the case's size. For each case: our package on one GPU and on all, PyTorch compiled on one,
and its DDP and FSDP2 on all. Tells the throughput of all against one, ours over each peer's time, and memory of a rank as the
runtime and PyTorch's allocator count it. A JSON line of each is appended to --results.

GRAPHS is the folder of export_models.py. Needs numpy; PyTorch and transformers in --torch-python.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import models
from compile import ROOT
from run import gigabytes, run_process, tail

HERE = pathlib.Path(__file__).resolve().parent
QLORA = "qlora"
QLORA_CASE, QLORA_OPTIONS = "llama-8b", ("--lora", "r=16,alpha=16", "--quantize", "nf4")
ENVIRONMENT = {"NCCL_NVLS_ENABLE": "0"}


def case_of(name):
    """(case of models.py, mode of --distribute, more options of trainc)"""
    name, _, mode = name.partition(":")
    options = QLORA_OPTIONS if name == QLORA else ()
    return models.CASES[QLORA_CASE if name == QLORA else name], mode or "data", options


def package_of(packages, name):
    return packages / f"{name.replace(':', '-')}.tpk"


def compile_packages(arguments):
    arguments.packages.mkdir(parents=True, exist_ok=True)
    for name in arguments.cases:
        case, mode, options = case_of(name)
        command = [arguments.trainc, arguments.graphs / f"{case.graph}.onnx", "-o", package_of(arguments.packages, name)]
        command += ["--target", arguments.target, "--precision", "bf16" if options else case.precision, "--distribute", mode]
        command += ["--dim", f"batch={case.batch}", "--dim", f"seq={case.seq}", "--clip-norm", "1", *options]
        command += ["--optimizer", "adamw", "--lr", "1e-4", "--weight-decay", "0.01", "--log-level", "warning"]
        begin = time.monotonic()
        subprocess.run([str(c) for c in command], check=True)
        print(f"{name}: compiled in {time.monotonic() - begin:.1f} s", flush=True)


def run_ours(name, world, data, arguments):
    case, _, _ = case_of(name)
    command = [arguments.trainc_run, package_of(arguments.packages, name), "--data", data, "--batch-size", case.batch]
    command += ["--weights", arguments.weights] if name == QLORA else ["--init", "normal:0.02"]
    command += ["--steps", arguments.steps, "--log-format", "json", "--memory-stats"]
    command += ["--gpus", world] if world > 1 else []
    code, lines, errors = run_process(command + arguments.run_option, arguments.seconds)
    entries = [json.loads(line) for _, line in lines if line.startswith("{")]
    logged = [e for e in entries if "step" in e and "event" not in e]
    steps = [e["step_ms"] for e in logged]
    if code != 0 or len(steps) < 20:
        return {"error": f"exit code {code}: {tail(errors)}"}
    steady = steps[max(10, len(steps) // 4) :]
    memory = [e for e in entries if e.get("event") == "memory"]
    summary = next((e for e in entries if e.get("event") == "summary"), {})
    tenths = statistics.quantiles(steady, n=10)
    return {
        "step_ms": statistics.median(steady),
        "p10": tenths[0],
        "p90": tenths[-1],
        "bytes": max(e.get("peak_bytes", 0) for e in logged),
        "memory": memory[-1] if memory else None,
        "host_us": summary.get("host_us"),
        "losses": [logged[0]["loss"], logged[-1]["loss"]],
    }


def run_peer(case, way, data, arguments):
    command = [arguments.torch_python]
    if way != "alone":
        command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", arguments.gpus]
    command += [HERE / "peer_ranks.py", case.name, way, "--data", data]
    code, lines, errors = run_process(command, arguments.seconds)
    found = [json.loads(line) for _, line in lines if line.startswith("{")]
    if code != 0 or not found:
        return {"error": f"exit code {code}: {tail(errors, 6)}"}
    return {**found[-1], "bytes": found[-1]["peak_reserved"]}


def run_case(name, arguments, left):
    import numpy as np

    case, mode, options = case_of(name)
    data = arguments.results.parent / f"{case.name}.npz"
    np.savez(data, **models.make_data(case, 4))
    plan = [("trainc 1", lambda: run_ours(name, 1, data, arguments))]
    plan += [(f"trainc {arguments.gpus}", lambda: run_ours(name, arguments.gpus, data, arguments))]
    ways = ["alone", *arguments.peers] if arguments.peers and not options else []
    plan += [(f"torch {way}", lambda way=way: run_peer(case, way, data, arguments)) for way in ways]
    times = {}
    print(f"\n{name}, {case.batch} x {case.seq} a rank, --distribute {mode}", flush=True)
    for who, measure in plan:
        if left() < 20:
            print(f"  {who}: left out, the time was up")
            continue
        result = measure()
        with open(arguments.results, "a", encoding="utf-8") as log:
            log.write(json.dumps({"case": name, "who": who, **result}) + "\n")
        if "error" in result:
            print(f"  {who:14} failed: {result['error']}", flush=True)
            continue
        times[who] = result["step_ms"]
        host = f", on the host {result['host_us']:.0f} us" if result.get("host_us") else ""
        print(f"  {who:14}{result['step_ms']:9.3f} ms ({result['p10']:.3f} - {result['p90']:.3f}), {gigabytes(result['bytes'])}{host}, "
              f"loss {result['losses'][0]:.4f} -> {result['losses'][1]:.4f}", flush=True)  # fmt: skip
    data.unlink()
    ours = times.get(f"trainc {arguments.gpus}")
    if not ours:
        return
    text = f"  -> {arguments.gpus * times['trainc 1'] / ours:.3f}x the throughput of one" if "trainc 1" in times else "  ->"
    for who, ms in times.items():
        if who.startswith("torch ") and who != "torch alone":
            text += f", {ours / ms:.3f}x the time of {who}"
            text += f" ({arguments.gpus * times['torch alone'] / ms:.3f}x its one)" if "torch alone" in times else ""
    print(text, flush=True)


def run_cases(arguments):
    os.environ.update(ENVIRONMENT)
    site = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([arguments.torch_python, "-c", site], stdout=subprocess.PIPE, text=True)
    os.environ.setdefault("TRAINRT_CUDA_PATH", found.stdout.strip())
    begin = time.monotonic()
    for name in arguments.cases:
        run_case(name, arguments, lambda: arguments.deadline - (time.monotonic() - begin))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    compiling = kinds.add_parser("compile")
    compiling.add_argument("graphs", type=pathlib.Path)
    compiling.add_argument("--target", default="cuda:sm_90")
    compiling.add_argument("--trainc", default=ROOT / "build/bin/trainc")
    running = kinds.add_parser("run")
    running.add_argument("--gpus", type=int, default=2)
    running.add_argument("--peers", type=lambda text: [way for way in text.split(",") if way], default=["ddp", "fsdp2"], help="ways of peer_ranks.py; none: ''")
    running.add_argument("--weights", type=pathlib.Path, help="of the model that qlora adapts, which trains from no random ones")
    running.add_argument("--steps", type=int, default=60)
    running.add_argument("--seconds", type=int, default=120, help="that a process may take")
    running.add_argument("--deadline", type=float, default=560, help="seconds for everything")
    running.add_argument("--results", type=pathlib.Path, default=pathlib.Path("results.jsonl"))
    running.add_argument("--torch-python", default=sys.executable)
    running.add_argument("--trainc-run", default=ROOT / "build/bin/trainc-run")
    running.add_argument("--run-option", action="append", default=[], help="one more for trainc-run")
    for kind in (compiling, running):
        kind.add_argument("packages", type=pathlib.Path)
        kind.add_argument("cases", nargs="+", metavar="CASE[:MODE]")
    arguments = parser.parse_args()
    if arguments.kind == "compile":
        return compile_packages(arguments)
    if QLORA in arguments.cases and not arguments.weights:
        parser.error(f"{QLORA}: --weights FILE with the values of its frozen parameters")
    arguments.results = arguments.results.resolve()
    return run_cases(arguments)


if __name__ == "__main__":
    sys.exit(main())
