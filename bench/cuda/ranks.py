#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times training steps on several GPUs of one host, ours beside PyTorch's, in one run.

  ranks.py compile GRAPHS PACKAGES [CASE[:MODE]...]   writes packages; needs no GPU
  ranks.py run PACKAGES CASE[:MODE]... [--gpus 2] [--stages ours,memory,oracle,peers] [--peers ddp,fsdp2] [--deadline 560]

MODE is what `trainc --distribute` takes (default: data); CASE is one of models.py or `qlora`, NF4 with LoRA of llama-8b's
shape. Every rank has batches of the case's size. What is most wanted comes first: stages in their order, and in each the cases:

  ours    our package on one GPU, of the first of a case's modes, and on all
  memory  what the package says beforehand that a rank needs
  oracle  whether one process with `--accumulate` of all GPUs has the same losses and norms, all digits
  peers   PyTorch, compiled: ways of peer_ranks.py on all GPUs (`alone`: on one), one way of all cases after the other

A process that the deadline leaves no time for is left out. At the end there is a table: throughput of all GPUs against one, ours over
each peer's time, and memory of a rank as the runtime and PyTorch's allocator count it. A JSON line of each process is appended to
--results; --resume takes what is there and runs the rest.

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
STAGES = ("ours", "memory", "oracle", "peers")
COMPARED = 4  # steps of the oracle
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


def our_command(name, world, data, arguments):
    case, _, _ = case_of(name)
    command = [arguments.trainc_run, package_of(arguments.packages, name), "--data", data, "--batch-size", case.batch]
    command += ["--weights", arguments.weights] if name == QLORA else ["--init", "normal:0.02"]
    command += ["--log-format", "json", *arguments.run_option]
    return command + (["--ranks" if arguments.cpu else "--gpus", world] if world > 1 else [])


def events_of(command, seconds):
    """JSON objects of its standard output, or an error as a text."""
    code, lines, errors = run_process(command, seconds)
    if code != 0:
        return [], f"exit code {code}: {tail(errors, 6)}"
    return [json.loads(line) for _, line in lines if line.startswith("{")], None


def run_ours(name, world, data, arguments, seconds):
    command = our_command(name, world, data, arguments) + ["--steps", arguments.steps]
    entries, error = events_of(command, seconds)
    if error:
        return {"error": error}
    logged = [e for e in entries if "step" in e and "event" not in e]
    steady = [e["step_ms"] for e in logged][max(10, len(logged) // 4) :]
    if len(steady) < 2:
        return {"error": f"only {len(logged)} steps"}
    summary = next((e for e in entries if e.get("event") == "summary"), {})
    tenths = statistics.quantiles(steady, n=10)
    return {
        "step_ms": statistics.median(steady),
        "p10": tenths[0],
        "p90": tenths[-1],
        "bytes": max(e.get("peak_bytes", 0) for e in logged),
        "host_us": summary.get("host_us"),
        "losses": [logged[0]["loss"], logged[-1]["loss"]],
        "first": numbers_of(logged),
    }


def numbers_of(logged):
    return [[e["loss"], e.get("grad_norm")] for e in logged[:COMPARED]]


def predict(name, world, data, arguments, seconds):
    entries, error = events_of(our_command(name, world, data, arguments) + ["--dry-run"], seconds)
    found = [e for e in entries if e.get("event") == "memory" and "total" in e]
    return {"bytes": found[-1]["total"], "plan": found[-1]} if found else {"error": error or "no plan of its memory"}


def run_oracle(name, world, data, arguments, seconds):
    command = our_command(name, 1, data, arguments) + ["--steps", COMPARED, "--accumulate", world]
    entries, error = events_of(command, seconds)
    return {"error": error} if error else {"first": numbers_of([e for e in entries if "step" in e and "event" not in e])}


def run_peer(case, way, data, arguments, seconds):
    command = [arguments.torch_python]
    if way != "alone":
        command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", arguments.gpus]
    command += [HERE / "peer_ranks.py", case.name, way, "--data", data]
    found, error = events_of(command, seconds)
    if error or not found:
        return {"error": error or "it has said nothing"}
    names = ("step_ms", "p10", "p90", "losses", "device_bytes")
    return {name: found[-1].get(name) for name in names} | {"bytes": found[-1]["peak_reserved"]}


def jobs_of(stage, arguments):
    """(case, who, function) of a stage, what is wanted most first."""
    world, seen = arguments.gpus, set()
    for name in arguments.cases if stage != "peers" else []:
        if stage == "memory":
            yield name, "predicted", lambda *rest, name=name: predict(name, world, *rest)
        elif stage == "oracle":
            yield name, "oracle", lambda *rest, name=name: run_oracle(name, world, *rest)
        else:
            if name.partition(":")[0] not in seen:
                yield name, "trainc 1", lambda *rest, name=name: run_ours(name, 1, *rest)
            seen.add(name.partition(":")[0])
            yield name, f"trainc {world}", lambda *rest, name=name: run_ours(name, world, *rest)
    # PyTorch knows nothing of our modes.
    firsts = list({name.partition(":")[0]: name for name in reversed(arguments.cases) if name != QLORA}.values())[::-1]
    for way in arguments.peers if stage == "peers" else []:
        for name in firsts:
            yield name, f"torch {way}", lambda *rest, name=name, way=way: run_peer(case_of(name)[0], way, *rest)


def number(value, text):
    return "-" if value is None else format(value, text)


class Table:
    """Results by case and who, and what follows from them."""

    def __init__(self, arguments):
        self.arguments, self.results = arguments, {}

    def add(self, case, who, **result):
        self.results[case, who] = result

    def has(self, case, who):
        return "error" not in self.results.get((case, who), {"error": "it has not run"})

    def of(self, name, who, key="step_ms"):
        return self.results.get((name, who), {}).get(key)

    def of_first(self, name, who, key="step_ms"):
        """Of the first mode of the same case that has it."""
        same = [n for n in self.arguments.cases if n.partition(":")[0] == name.partition(":")[0]]
        return next((found for n in same if (found := self.of(n, who, key))), None)

    def row(self, name):
        world = self.arguments.gpus
        ours, one = self.of(name, f"trainc {world}"), self.of_first(name, "trainc 1")
        held, told = self.of(name, f"trainc {world}", "bytes"), self.of(name, "predicted", "bytes")
        cells = [name, number(one, ".2f"), number(ours, ".2f"), number(ours and one and world * one / ours, ".3f") + "x"]
        cells += [gigabytes(held), f"{gigabytes(told)} {number(held and told and told / held, '.3f')}"]
        expected, found = self.of(name, "oracle", "first"), self.of(name, f"trainc {world}", "first")
        cells.append("-" if not expected or not found else "same" if expected == found else "OTHER")
        for way in self.arguments.peers:
            peer, memory = self.of_first(name, f"torch {way}"), self.of_first(name, f"torch {way}", "bytes")
            cells.append(f"{number(peer, '.2f')}, {gigabytes(memory)}, {number(peer and ours and ours / peer, '.3f')}x")
        return cells

    def print(self):
        world = self.arguments.gpus
        heads = ["case", "1: ms", f"{world}: ms", "throughput", "a rank", "told before", "bits"]
        rows = [heads + [f"{way}: ms, a rank, ours over it" for way in self.arguments.peers]]
        rows += [self.row(name) for name in self.arguments.cases]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip(), flush=True)


def describe(result):
    if "step_ms" in result:
        host = f", on the host {result['host_us']:.0f} us" if result.get("host_us") else ""
        losses = result["losses"]
        return (f"{result['step_ms']:9.3f} ms ({result['p10']:.3f} - {result['p90']:.3f}), {gigabytes(result['bytes'])}{host}, "
                f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")  # fmt: skip
    if "plan" in result:
        return ", ".join(f"{name} {gigabytes(count)}" for name, count in result["plan"].items() if isinstance(count, int) and count)
    return f"failed: {result['error']}" if "error" in result else "done"


def run_cases(arguments):
    os.environ.update(ENVIRONMENT)
    if not arguments.cpu:
        site = "import sysconfig; print(sysconfig.get_path('purelib'))"
        found = subprocess.run([arguments.torch_python, "-c", site], stdout=subprocess.PIPE, text=True)
        os.environ.setdefault("TRAINRT_CUDA_PATH", found.stdout.strip())
    begin, table, data = time.monotonic(), Table(arguments), {}
    if arguments.resume and arguments.results.exists():
        for line in arguments.results.read_text(encoding="utf-8").splitlines():
            table.add(**json.loads(line))
    for stage in arguments.stages:
        for name, who, measure in jobs_of(stage, arguments):
            left = arguments.deadline - (time.monotonic() - begin)
            if table.has(name, who):
                continue
            if left < arguments.least:
                print(f"{name}, {who}: left out, the time is up", flush=True)
                continue
            if (case := case_of(name)[0]).name not in data:
                import numpy as np

                data[case.name] = arguments.results.parent / f"{case.name}.npz"
                np.savez(data[case.name], **models.make_data(case, 4))
            result = measure(data[case.name], arguments, min(arguments.seconds, left))
            table.add(name, who, **result)
            with open(arguments.results, "a", encoding="utf-8") as log:
                log.write(json.dumps({**result, "case": name, "who": who}) + "\n")
            print(f"{time.monotonic() - begin:5.0f} s  {name}, {who}: {describe(result)}", flush=True)
    for path in data.values():
        path.unlink()
    table.print()


def listed(text):
    return [part for part in text.split(",") if part]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    compiling = kinds.add_parser("compile")
    compiling.add_argument("graphs", type=pathlib.Path)
    compiling.add_argument("--target", default="cuda:sm_90")
    compiling.add_argument("--trainc", default=ROOT / "build/bin/trainc")
    running = kinds.add_parser("run")
    running.add_argument("--gpus", type=int, default=2)
    running.add_argument("--stages", type=listed, default=["ours", "memory", "oracle", "peers"], help="in the order in which they are wanted")
    running.add_argument("--peers", type=listed, default=["ddp", "fsdp2"], help="ways of peer_ranks.py")
    running.add_argument("--cpu", action="store_true", help="packages of a CPU, whose ranks are processes: this script without a GPU")
    running.add_argument("--weights", type=pathlib.Path, help="of the model that qlora adapts, which trains from no random ones")
    running.add_argument("--steps", type=int, default=60)
    running.add_argument("--seconds", type=int, default=120, help="that a process may take")
    running.add_argument("--deadline", type=float, default=560, help="seconds for everything")
    running.add_argument("--least", type=float, default=20, help="seconds that must be left for a process to begin")
    running.add_argument("--results", type=pathlib.Path, default=pathlib.Path("results.jsonl"))
    running.add_argument("--torch-python", default=sys.executable)
    running.add_argument("--trainc-run", default=ROOT / "build/bin/trainc-run")
    running.add_argument("--resume", action="store_true", help="go on with what is in --results")
    running.add_argument("--run-option", action="append", default=[], help="one more for trainc-run")
    for kind in (compiling, running):
        kind.add_argument("packages", type=pathlib.Path)
        kind.add_argument("cases", nargs="+", metavar="CASE[:MODE]")
    arguments = parser.parse_args()
    if arguments.kind == "compile":
        return compile_packages(arguments)
    if QLORA in arguments.cases and not arguments.weights:
        parser.error(f"{QLORA}: --weights FILE with the values of its frozen parameters")
    if unknown := [stage for stage in arguments.stages if stage not in STAGES]:
        parser.error(f"--stages {','.join(unknown)}: there are {', '.join(STAGES)}")
    arguments.results = arguments.results.resolve()
    return run_cases(arguments)


if __name__ == "__main__":
    sys.exit(main())
