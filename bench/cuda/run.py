#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times training steps on one GPU, ours beside PyTorch's, in one run: `run.py PACKAGES CASE...`.

  bench/cuda/run.py PACKAGES bert-large-64x128 gpt2 --results results.jsonl --deadline 560

PACKAGES is the folder that compile.py wrote. First every case is profiled for a few steps, and the
speeds that the machine sustains are measured: of a copy, and of libraries at the shapes of these
profiles (machine.py); limits.py makes the limit of them. Then for every case trainc-run trains with
random first weights, PyTorch in each mode (peer_torch.py), llm.c if asked for, then trainc-run
again, so that a drift of the machine shows. Prints medians with the 10th and 90th percentile, memory as the process and as
the device accounts for it, ratios to the best mode of PyTorch and to the limit, and by class of
command our time, the limit and what lies between; appends a JSON line for each to RESULTS. Cases that would begin after DEADLINE seconds are left out
and named; so are modes of PyTorch, except the first one asked for.

Needs numpy; PyTorch and transformers in --torch-python.
"""

import argparse
import datetime
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import threading
import time

import limits
import models
from compile import package_name

import numpy as np

#: Steps of a profile, of which the first three are warm-up.
PROFILED = 8
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


class MemoryWatch:
    """Most memory in use on the device while a process runs, beyond what was in use before."""

    QUERY = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]

    def __init__(self):
        self.before = self.read()
        self.most = self.before
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        if self.before is not None:
            self.thread.start()

    def read(self):
        try:
            out = subprocess.run(self.QUERY, stdout=subprocess.PIPE, text=True, timeout=20)
            return int(out.stdout.split()[0]) * 2**20
        except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
            return None

    def watch(self):
        while not self.stopped.wait(0.5):
            self.most = max(self.most, self.read() or 0)

    def stop(self):
        """Bytes, or None where nvidia-smi does not work."""
        if self.before is None:
            return None
        self.stopped.set()
        self.thread.join()
        return self.most - self.before


def tail(text, lines=3):
    return " | ".join(text.strip().splitlines()[-lines:])[-600:]


def run_process(command, seconds):
    """(exit code or None after a timeout, [(seconds since start, line)], stderr)."""
    begin = time.monotonic()
    lines, errors = [], []
    process = subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()), daemon=True)
    reader.start()
    late = threading.Event()

    def end():
        late.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(max(1.0, seconds), end)
    timer.start()
    for line in process.stdout:
        lines.append((time.monotonic() - begin, line))
    code = process.wait()
    timer.cancel()
    reader.join(5)
    return None if late.is_set() else code, lines, "".join(errors)


def spread(times):
    tenths = statistics.quantiles(times, n=10)
    return {"step_ms": statistics.median(times), "p10": tenths[0], "p90": tenths[-1]}


def our_command(case, package, data, arguments, steps):
    command = [arguments.trainc_run, package, "--data", data, "--batch-size", case.batch]
    command += ["--init", "normal:0.02", "--steps", steps, "--log-format", "json"]
    return command + arguments.run_option


def profile_ours(case, package, data, arguments, seconds):
    """The commands of a step (limits.read_profile), or what went wrong as a text."""
    profile = data.with_suffix(".profile.json")
    command = our_command(case, package, data, arguments, PROFILED)
    code, _, errors = run_process(command + ["--profile", profile], seconds)
    if code != 0:
        return "no end in time" if code is None else f"exit code {code}: {tail(errors)}"
    return limits.read_profile(profile)


def run_ours(case, package, data, arguments, seconds, expected_ms):
    """Enough steps for a steady state: about three seconds by what a step is expected to take."""
    steps = arguments.steps or int(min(2000, max(60, 3000 / expected_ms)))
    command = our_command(case, package, data, arguments, steps) + ["--memory-stats"]
    watch = MemoryWatch()
    code, lines, errors = run_process(command, seconds)
    used = watch.stop()
    if code != 0:
        why = "no end in time" if code is None else f"exit code {code}"
        return {"error": f"{why}: {tail(errors)}"}
    entries = [(at, json.loads(line)) for at, line in lines]
    logged = [(at, entry) for at, entry in entries if "step" in entry and "event" not in entry]
    warm = max(10, len(logged) // 4)
    steady = logged[warm:]
    result = spread([entry["step_ms"] for _, entry in steady])
    # The same by our own clock: lines come once a step, the mean over all of them cannot be off by
    # a step that is reported late.
    result["wall_ms"] = (steady[-1][0] - logged[warm - 1][0]) * 1e3 / len(steady)
    result["steps"] = len(steady)
    result["first_step_s"] = logged[0][0]
    result["losses"] = [logged[0][1]["loss"], logged[-1][1]["loss"]]
    result["peak_bytes"] = logged[-1][1]["peak_bytes"]
    result["device_bytes"] = used
    for _, entry in entries:
        if entry.get("event") in ("memory", "summary"):
            result[entry["event"]] = {k: v for k, v in entry.items() if k != "event"}
    return result


def run_peer(case, mode, precision, data, arguments, seconds):
    if mode == "llm.c":
        command = [arguments.torch_python, HERE / "peer_llmc.py", arguments.llmc, case.name]
    else:
        command = [arguments.torch_python, HERE / "peer_torch.py", case.name, "--modes", mode]
        command += ["--precision", precision, "--data", data, "--device", arguments.device]
    watch = MemoryWatch()
    code, lines, errors = run_process(command, seconds)
    used = watch.stop()
    found = [json.loads(line) for _, line in lines if line.startswith("{")]
    if code is None or not found:
        why = "no end in time" if code is None else f"exit code {code}"
        return {"error": f"{why}: {tail(errors)}"}
    result = {k: v for k, v in found[-1].items() if k not in ("case", "who", "precision")}
    result["device_bytes"] = used
    return result


class Run:
    """One run: what was measured so far, and where it is written."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.begin = time.monotonic()
        self.id = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.left_out = []
        self.profiles, self.speeds = {}, None

    def left(self):
        return self.arguments.deadline - (time.monotonic() - self.begin)

    def record(self, kind, **fields):
        line = {"run": self.id, "kind": kind, **fields}
        with open(self.arguments.results, "a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
        return line

    def precision_of(self, case):
        return self.arguments.precision or case.precision

    def package_of(self, case):
        return self.arguments.packages / package_name(case, self.precision_of(case))

    def data_of(self, case):
        return self.arguments.results.parent / f"{case.name}.npz"

    def profile(self, cases):
        """Every case's data and profile."""
        for case in cases:
            np.savez(self.data_of(case), **models.make_data(case, 4))
            found = "the time was up"
            if self.left() > 30:
                seconds = min(self.left(), 90)
                found = profile_ours(
                    case, self.package_of(case), self.data_of(case), self.arguments, seconds
                )
            if isinstance(found, str):
                print(f"{case.name}: no profile, so no limit: {found}")
            else:
                self.profiles[case.name] = found

    def measure_machine(self):
        """The speeds that limits are made of, at the shapes of all profiles together."""
        shapes = {}
        for rows in self.profiles.values():
            for shape in limits.shapes_of(rows):
                shapes.setdefault(shape["key"], shape)
        file = self.arguments.results.parent / "shapes.json"
        file.write_text(json.dumps(list(shapes.values())))
        command = [self.arguments.torch_python, HERE / "machine.py", "--shapes", file]
        command += ["--seconds", self.arguments.shape_seconds, "--device", self.arguments.device]
        code, lines, errors = run_process(command, self.arguments.shape_seconds + 90)
        if code != 0:
            print(f"machine.py failed, so there are no limits: {tail(errors)}")
            return
        self.speeds = json.loads(lines[-1][1])
        self.record("machine", **{k: v for k, v in self.speeds.items() if k != "shapes"})
        print(
            f"{self.speeds['device']}: copy {self.speeds['copy_bytes_per_s'] / 1e12:.2f} TB/s,"
            f" bf16 matmul {self.speeds['gemm_flops'] / 1e12:.0f} TFLOP/s, torch {self.speeds['torch']};"
            f" {len(self.speeds['shapes'])} shapes, {self.speeds['shapes_left_out']} left out"
        )

    def limit_of(self, case):
        """Milliseconds, or None without a profile or the machine's speeds."""
        rows = self.profiles.get(case.name)
        return limits.limit_ms(rows, self.speeds) if rows and self.speeds else None

    def tell_classes(self, case, step_ms):
        if self.limit_of(case) is None:
            return
        lines = limits.classes_of(self.profiles[case.name], self.speeds, step_ms)
        print(limits.describe(lines), end="", flush=True)
        for line in lines:
            self.record("class", case=case.name, precision=self.precision_of(case), **vars(line))

    def case(self, case):
        arguments = self.arguments
        precision, package, data = self.precision_of(case), self.package_of(case), self.data_of(case)
        limit = self.limit_of(case)
        shape = " x ".join(str(size) for size in case.sizes.values())
        told = "no limit" if limit is None else f"limit {limit:.2f} ms"
        print(f"\n{case.name}, {precision}, {shape}: {told}", flush=True)
        rows = self.profiles.get(case.name, [])
        expected = max(0.01, sum(row["ms"] for row in rows)) if rows else 50.0
        plan = [("torch " + mode, mode) for mode in arguments.modes]
        if arguments.llmc and case.family == "gpt2":
            plan.append(("llm.c", "llm.c"))
        if not arguments.peers_only:
            plan = [("trainc", None), *plan, ("trainc", None)]
        if len(plan) == 2 and not arguments.peers_only:
            plan = plan[:1]
        found = []
        for who, mode in plan:
            seconds = min(self.left(), 60 if mode is None else case.seconds)
            if seconds < 15:
                self.left_out.append(f"{case.name}: {who}")
                continue
            if mode is None:
                result = run_ours(case, package, data, arguments, seconds, expected)
            else:
                result = run_peer(case, mode, precision, data, arguments, seconds)
            line = self.record(
                "step", case=case.name, who=who, precision=precision, limit_ms=limit, **result
            )
            print_line(line)
            found.append(line)
        data.unlink()
        ours = summarize(found, limit)
        if ours is not None:
            self.tell_classes(case, ours)


def gigabytes(count):
    return "-" if count is None else f"{count / 1e9:.2f} GB"


def print_line(line):
    if "error" in line:
        print(f"  {line['who']:19} failed: {line['error']}", flush=True)
        return
    memory = line.get("peak_bytes", line.get("peak_reserved"))
    wall = f", by the clock {line['wall_ms']:.3f}" if "wall_ms" in line else ""
    host = line.get("summary", {}).get("host_us")
    wall += f", on the host {host:.0f} us" if host is not None else ""
    print(
        f"  {line['who']:19}{line['step_ms']:9.3f} ms"
        f" ({line['p10']:.3f} - {line['p90']:.3f}{wall}),"
        f" peak {gigabytes(memory)}, on the device {gigabytes(line['device_bytes'])},"
        f" first step after {line['first_step_s']:.1f} s,"
        f" loss {line['losses'][0]:.4f} -> {line['losses'][1]:.4f}",
        flush=True,
    )


def summarize(lines, limit):
    """Prints the ratios of a case; the mean of our medians, or None where none ended."""
    ours = [line["step_ms"] for line in lines if line["who"] == "trainc" and "step_ms" in line]
    peers = [line for line in lines if line["who"].startswith("torch") and "step_ms" in line]
    hand = [line["step_ms"] for line in lines if line["who"] == "llm.c" and "step_ms" in line]
    if not ours:
        return None
    mean = statistics.mean(ours)
    text = f"  -> trainc {mean:.3f} ms"
    text += f", {mean / limit:.2f}x the limit of {limit:.3f} ms" if limit else ""
    if peers:
        best = min(peers, key=lambda line: line["step_ms"])
        ratios = [t / best["step_ms"] for t in ours]
        text += (
            f", {mean / best['step_ms']:.3f}x {best['who']} ({min(ratios):.3f} - {max(ratios):.3f})"
        )
    text += f", {mean / hand[0]:.3f}x llm.c" if hand else ""
    print(text, flush=True)
    return mean


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", type=pathlib.Path)
    parser.add_argument("cases", nargs="+", metavar="CASE", choices=models.CASES)
    parser.add_argument("--modes", default="compile,graphs,eager", help="of PyTorch; none: ''")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16", "pure-bf16"))
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("results.jsonl"))
    parser.add_argument("--deadline", type=float, default=570, help="seconds for everything")
    parser.add_argument("--steps", type=int, help="of trainc-run (default: by the case)")
    parser.add_argument("--peers-only", action="store_true")
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="of PyTorch")
    parser.add_argument("--shape-seconds", type=float, default=60, help="for speeds at shapes")
    parser.add_argument("--llmc", metavar="BINARY", help="train_gpt2cu, beside GPT-2 cases")
    parser.add_argument("--trainc-run", default=ROOT / "build/bin/trainc-run")
    parser.add_argument("--run-option", action="append", default=[], help="one more for trainc-run")
    arguments = parser.parse_args()
    arguments.modes = [mode for mode in arguments.modes.split(",") if mode]
    arguments.results = arguments.results.resolve()
    # The libraries that PyTorch itself runs on, unless the caller names others.
    site = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([arguments.torch_python, "-c", site], stdout=subprocess.PIPE, text=True)
    os.environ.setdefault("TRAINRT_CUDA_PATH", found.stdout.strip())
    run = Run(arguments)
    run.profile([models.CASES[name] for name in arguments.cases])
    run.measure_machine()
    compiled = arguments.packages / "compile.jsonl"
    if compiled.exists():
        latest = {}
        for line in compiled.read_text().splitlines():
            entry = json.loads(line)
            latest[entry["case"], entry["precision"]] = entry
        for name in arguments.cases:
            entry = latest.get((name, arguments.precision or models.CASES[name].precision))
            if entry:
                run.record("compile", **entry)
    for name in arguments.cases:
        if run.left() < 30:
            run.left_out.append(name)
            continue
        run.case(models.CASES[name])
    if run.left_out:
        print("\nleft out, the time was up: " + "; ".join(run.left_out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
