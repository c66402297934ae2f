#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks of several ranks on GPUs (docs/ranks.md).

  ranks.py compile FOLDER [--graphs GRAPHS] [--trainc ...]   writes packages and data; needs no GPU
  ranks.py run FOLDER [--trainc-run ...]                     runs the checks; needs no compiler, no numpy

W ranks have the bits of one process with --accumulate W, whatever they share out: as threads on one GPU, and, where there
are two GPUs, as processes, which also end together where one of them does. compile needs numpy and onnx. With GRAPHS of
bench/cuda/export_models.py (gpt2-nodropout) times are told, too: what it costs to cut a function at its collectives, what of
exchanges is hidden, and two GPUs against one. A line a check.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "test/e2e/models"
#: Name: (model, flags of trainc beside --distribute data, rows of a micro-batch)
SMALL = {
    "f32": ("gpt2", ("--clip-norm", "1"), 2),
    "bf16": ("gpt2", ("--precision", "bf16", "--clip-norm", "1"), 2),
    "bf16-noclip": ("gpt2", ("--precision", "bf16",), 2),
    "dropout": ("gpt2-dropout", ("--precision", "bf16", "--clip-norm", "0.5"), 2),
    "int8-state": ("gpt2", ("--precision", "bf16", "--optimizer-state", "int8", "--clip-norm", "1"), 2),
    "lora-nf4": ("gpt2", ("--lora", "r=4,alpha=8", "--quantize", "nf4", "--precision", "bf16"), 2),
    "fp16": ("gpt2", ("--precision", "fp16", "--clip-norm", "1"), 2),
}  # fmt: skip
#: With MLPs so wide that their weights are shared out, and of adapters that are: (model, hidden units, flags of trainc).
SHARDED = {
    "f32": ("gpt2", 2100, ("--clip-norm", "1")),
    "plain": ("gpt2", 2100, ()),
    "bf16": ("gpt2", 2100, ("--precision", "bf16", "--clip-norm", "1")),
    "fp16": ("gpt2", 2100, ("--precision", "fp16", "--clip-norm", "1")),
    "dropout": ("gpt2-dropout", 2100, ("--precision", "bf16", "--clip-norm", "0.5")),
    "int8-state": ("gpt2", 2100, ("--precision", "bf16", "--optimizer-state", "int8", "--clip-norm", "1")),
    "lora-nf4": ("gpt2", 4200, ("--lora", "r=32,alpha=8", "--quantize", "nf4", "--precision", "bf16")),
}  # fmt: skip
MODES = "zero1", "zero2", "zero3"
#: Package: (data, rows)
DATA = {n: (model, rows) for n, (model, _, rows) in SMALL.items()} | {
    f"{mode}-{n}": (model, 2) for n, (model, _, _) in SHARDED.items() for mode in MODES
}
#: Of a graph without weights: batch and sequence.
LARGE, LARGE_GRAPH, LARGE_ROWS, LARGE_TOKENS = "gpt2-768x12", "gpt2-768x12-nodropout.onnx", 16, 1024
MEASURED = "f32"  # whose memory is compared with what is told
LONGEST = 400  # seconds of a process
FAILED_RANKS = 5  # exit code


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def compile_packages(arguments):
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)

    def trainc(graph, name, *flags):
        command = [arguments.trainc, graph, "-o", folder / name, "--target", arguments.target, *flags]
        subprocess.run([str(c) for c in (*command, "--log-level", "warning")], check=True)

    for name, (model, flags, _) in SMALL.items():
        trainc(MODELS / f"{model}.onnx", f"{name}.tpk", "--embed-weights", "--distribute", "data", *flags)
        shutil.copy(MODELS / f"{model}.npz", folder)
    model, flags, _ = SMALL["bf16"]
    trainc(MODELS / f"{model}.onnx", "bf16-alone.tpk", "--embed-weights", *flags)
    compile_sharded(folder, trainc)
    compile_bad_index(folder, trainc)
    graph = arguments.graphs and arguments.graphs / LARGE_GRAPH
    if not graph or not graph.exists():
        return print("no graph of a larger model: no times")
    sys.path.insert(0, str(ROOT / "bench/cuda"))
    import models
    import numpy as np

    sizes = ["--dim", f"batch=1..{LARGE_ROWS}", "--dim", f"seq={LARGE_TOKENS}"]
    shared = [(f"{LARGE}-{mode}.tpk", ("--distribute", mode)) for mode in MODES]
    for name, distribute in ((f"{LARGE}.tpk", ("--distribute", "data")), (f"{LARGE}-alone.tpk", ()), *shared):
        trainc(graph, name, "--precision", "bf16", "--clip-norm", "1", *sizes, *distribute)
    np.savez(folder / f"{LARGE}.npz", **models.make_data(models.CASES["gpt2-nodropout"], 4))


def compile_sharded(folder, trainc):
    sys.path.insert(0, str(ROOT / "test/tools/trainc-run/Inputs"))
    import wide_model

    # What is told of a rank's memory goes with the packages.
    sizes = ("--dim", "batch=1..2", "--dim", "seq=1..11", "--dim", "world=2")
    for name, (model, hidden, flags) in SHARDED.items():
        wide = folder / f"{model}-{hidden}.onnx"
        if not wide.exists():
            wide_model.widen(MODELS / f"{model}.onnx", wide, 128, hidden)
        for mode in MODES:
            report = (*sizes, f"--report={folder / mode}-{name}.json") if name == MEASURED else ()
            trainc(wide, f"{mode}-{name}.tpk", "--embed-weights", "--distribute", mode, *flags, *report)


def compile_bad_index(folder, trainc):
    import numpy as np

    sys.path.insert(0, str(ROOT / "test/e2e"))
    import square_lookup

    square_lookup.write(folder / "square-lookup.onnx")
    np.savez(folder / "square-lookup.npz", **square_lookup.rows(10, bad=7))
    np.savez(folder / "square-lookup-good.npz", **square_lookup.rows(10))
    for how in ("data", "zero1"):
        trainc(folder / "square-lookup.onnx", f"lookup-{how}.tpk", "--embed-weights", "--distribute", how)


def count_gpus():
    """Of those that this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([one for one in visible.split(",") if one.strip()])
    found = shutil.which("nvidia-smi")
    listed = subprocess.run([found, "-L"], capture_output=True, text=True).stdout if found else ""
    return sum(line.startswith("GPU ") for line in listed.splitlines())


class Runs:
    def __init__(self, arguments, scratch):
        self.arguments, self.scratch, self.serial = arguments, pathlib.Path(scratch), 0
        self.gpus = count_gpus()

    def command(self, name, *flags, data=None, rows=None):
        package = self.arguments.folder / f"{name}.tpk"
        if not package.exists():
            raise Skipped(f"{package.name} is not there")
        if data is None:
            model, rows = DATA[name.removesuffix("-alone")]
            data = self.arguments.folder / f"{model}.npz"
        command = [self.arguments.trainc_run, package, "--data", data, "--batch-size", rows, "--log-format", "json", *flags]
        return [str(c) for c in command]

    def run(self, name, *flags, code=0, **more):
        """Events, and what is said."""
        environment = {k: more.pop(k) for k in [k for k in more if k.isupper()]}
        command = self.command(name, *flags, **more)
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, env={**os.environ, **environment})
        if done.returncode != code:
            raise Failed(f"{' '.join(command)}: exit {done.returncode}, not {code}:\n{done.stderr[-2000:]}")
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def folder(self):
        self.serial += 1
        return self.scratch / f"saved-{self.serial}"

    def trained(self, name, *flags, steps=4, **more):
        """What is said of each step, and the bytes of the last checkpoint."""
        saved = self.folder()
        events, _ = self.run(name, "--steps", steps, "--seed", "7", "--save", saved, *flags, **more)
        said = [{k: e.get(k) for k in ("step", "loss", "grad_norm")} for e in events if "event" not in e]
        last = max(saved.glob("step-*"), key=lambda p: int(p.name[5:]))
        files = {p.name: p.read_bytes() for p in sorted(last.glob("*.safetensors"))}
        shutil.rmtree(saved)
        return said, files

    def equal(self, found, expected, what):
        if found[0] != expected[0]:
            raise Failed(f"{what}: losses {found[0]}, not {expected[0]}")
        for name, value in expected[1].items():
            if found[1].get(name) != value:
                other = found[1].get(name, b"")
                count = sum(a != b for a, b in zip(other, value))
                raise Failed(f"{what}: {name} differs in {count} of {len(value)} bytes")
        if len(found[0]) == 0 or not found[1]:
            raise Failed(f"{what}: nothing was made")

    def need(self, gpus):
        if self.gpus < gpus:
            raise Skipped(f"{gpus} GPUs are needed, here are {self.gpus}")

    # Checks.

    def check_alone(self, name):
        """A world of one whose exchanges are made through NCCL all the same."""
        expected = self.trained(name, "--accumulate", 2)
        self.equal(self.trained(name, "--accumulate", 2, TRAINRT_EXCHANGE="always"), expected, "one rank, through NCCL")
        if (self.arguments.folder / f"{name}-alone.tpk").exists():
            self.equal(self.trained(f"{name}-alone", "--accumulate", 2), expected, "a package for one rank")

    def check_emulated(self, name):
        for world in (2, 4):
            expected = self.trained(name, "--accumulate", world)
            self.equal(self.trained(name, "--emulate-world", world), expected, f"{world} ranks on one GPU")

    def check_emulated_one_by_one(self, name):
        expected = self.trained(name, "--accumulate", 2)
        for flags in (["--sync"], ["--profile", self.folder()]):
            self.equal(self.trained(name, "--emulate-world", 2, *flags), expected, f"with {flags[0]}")

    def check_large_emulated(self, name=LARGE):
        """Buckets of several blocks."""
        more = {"data": self.arguments.folder / f"{LARGE}.npz", "rows": 4, "steps": 2}
        flags = ["--init", "normal:0.02"]
        expected = self.trained(name, *flags, "--accumulate", 3, **more)
        self.equal(self.trained(name, *flags, "--emulate-world", 3, **more), expected, "3 ranks on one GPU")

    def check_processes(self, name):
        self.need(2)
        expected = self.trained(name, "--accumulate", 2)
        self.equal(self.trained(name, "--gpus", 2), expected, "two GPUs")
        self.equal(self.trained(name, "--ranks", 2, "--sync"), expected, "two GPUs, command by command")
        self.equal(self.trained(name, "--gpus", 2, TRAINRT_EXCHANGE="nccl"), expected, "two GPUs, through NCCL")

    def check_carrier(self, name):
        """What ranks say that they exchange by."""
        self.need(2)
        for mode, expected in (("", "each other's memory"), ("nccl", "NCCL, as rank 0 does not reach")):
            command = [c for c in self.command(name, "--gpus", 2, "--steps", 1) if c not in ("--log-format", "json")]
            done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, env={**os.environ, "TRAINRT_EXCHANGE": mode})
            if done.returncode or not re.search(rf"exchange\s+{expected}", done.stdout + done.stderr):
                raise Failed(f"nothing of {expected!r}: {done.stdout}{done.stderr}")

    def check_large_processes(self, name=LARGE):
        self.need(2)
        more = {"data": self.arguments.folder / f"{LARGE}.npz", "rows": 4, "steps": 2}
        flags = ["--init", "normal:0.02"]
        expected = self.trained(name, *flags, "--accumulate", 2, **more)
        self.equal(self.trained(name, *flags, "--gpus", 2, **more), expected, "two GPUs")
        self.equal(self.trained(name, *flags, "--gpus", 2, TRAINRT_EXCHANGE="inline", **more), expected, "nothing beside exchanges")
        self.equal(self.trained(name, *flags, "--gpus", 2, TRAINRT_EXCHANGE="nccl", **more), expected, "through NCCL")

    def check_beside(self):
        """Most of the exchange is hidden by the backward pass, and none with TRAINRT_EXCHANGE=inline."""
        self.need(2)
        shares = {}
        for mode in ("beside", "inline"):
            profile = self.folder()
            more = {"data": self.arguments.folder / f"{LARGE}.npz", "rows": LARGE_ROWS, "TRAINRT_EXCHANGE": mode}
            self.run(LARGE, "--init", "normal:0.02", "--steps", 10, "--gpus", 2, "--profile", profile, **more)
            commands = [json.loads(line) for line in profile.read_text().splitlines()]
            exchanges = [c for c in commands if c["function"] == "step" and "waited_ms" in c]
            taken, waited = (sum(c[k] for c in exchanges) for k in ("ms", "waited_ms"))
            shares[mode] = waited / taken
            print(f"{mode}: {len(exchanges)} exchanges take {taken:.2f} ms, of which {waited:.2f} are waited for: "
                  + ", ".join(f"{c['waited_ms']:.2f} of {c['ms']:.2f}" for c in exchanges))  # fmt: skip
        if shares["inline"] < 0.999 or shares["beside"] > 0.7:
            raise Failed(f"shares that are waited for: {shares}")

    def check_vendor_sums(self, name):
        self.need(2)
        first, again = (self.trained(name, "--gpus", 2, "--reduce", "nccl") for _ in range(2))
        self.equal(again, first, "the second run with sums of NCCL")

    def check_resume(self, name):
        """Another number of ranks goes on."""
        self.need(2)
        saved = self.folder()
        whole, _ = self.run(name, "--gpus", 2, "--steps", 4, "--save", saved, "--save-every", 2)
        whole = [e["loss"] for e in whole if "event" not in e]
        for how in (["--gpus", 2], ["--accumulate", 2], ["--emulate-world", 2]):
            rest, _ = self.run(name, *how, "--steps", 4, "--resume", saved / "step-2")
            rest = [e["loss"] for e in rest if "event" not in e]
            if rest != whole[2:]:
                raise Failed(f"{how}: {rest}, not {whole[2:]}")

    def check_sharded(self, name):
        # Of five one has no batch at the end of the data.
        for world in (2, 5) if name.endswith("-f32") else (3,):
            expected = self.trained(name, "--accumulate", world)
            self.equal(self.trained(name, "--emulate-world", world), expected, f"{world} ranks on one GPU")

    def check_sharded_processes(self, name):
        self.need(2)
        expected = self.trained(name, "--accumulate", 2)
        self.equal(self.trained(name, "--gpus", 2), expected, "two GPUs")

    def check_replicas(self, name):
        """Only some of the ranks share a replica: the same bits."""
        expected = self.trained(name, "--accumulate", 4)
        for within in (2, 1):
            self.equal(self.trained(name, "--emulate-world", 4, "--shard-within", within), expected, f"4 ranks on one GPU, {within} a replica")

    def check_replicas_in_processes(self, name):
        """By copies, by kernels alone, and through NCCL."""
        self.need(2)
        world, within = (4, 2) if self.gpus >= 4 else (2, 1)
        expected = self.trained(name, "--accumulate", world)
        ways = {"TRAINRT_EXCHANGE_COPIED": "1"}, {"TRAINRT_EXCHANGE_COPIED": str(1 << 40)}, {"TRAINRT_EXCHANGE": "nccl"}, {"TRAINRT_EXCHANGE": "inline"}
        for way in ways:
            found = self.trained(name, "--gpus", world, "--shard-within", within, **way)
            self.equal(found, expected, f"{world} GPUs, {within} a replica, {way}")
        if world == 4:
            self.equal(self.trained(name, "--gpus", world, "--shard-within", 1), expected, "4 GPUs, 1 a replica")

    def check_sharded_evaluation(self, name):
        """Ranks evaluate at once; the losses are those of one."""
        data = self.arguments.folder / f"{DATA[name][0]}.npz"

        def losses(*flags):
            events, _ = self.run(name, "--steps", 2, "--seed", "7", "--eval", data, "--eval-every", 1, *flags)
            return [(e.get("event"), e["loss"]) for e in events if "loss" in e and e.get("event") in (None, "eval")]

        expected = losses("--accumulate", 2)
        for how in (["--emulate-world", 2], *([["--gpus", 2]] if self.gpus > 1 else [])):
            found = losses(*how)
            if found != expected or len(found) < 4:
                raise Failed(f"{how}: {found}, not {expected}")

    def check_sharded_resume(self, name):
        """Checkpoints are whole: any number of ranks goes on."""
        saved = self.folder()
        run = ["--steps", 4, "--seed", "7"]
        whole, _ = self.run(name, *run, "--emulate-world", 2, "--save", saved, "--save-every", 2)
        whole = [e["loss"] for e in whole if "event" not in e]
        for how in (["--accumulate", 2], ["--emulate-world", 2], *([["--gpus", 2]] if self.gpus > 1 else [])):
            rest, _ = self.run(name, *run, *how, "--resume", saved / "step-2")
            rest = [e["loss"] for e in rest if "event" not in e]
            if rest != whole[2:]:
                raise Failed(f"{how}: {rest}, not {whole[2:]}")
        more = ["--resume", saved / "step-2"]
        self.equal(self.trained(name, "--emulate-world", 3, *more), self.trained(name, "--accumulate", 3, *more), "from two to three ranks")

    def check_sharded_not_finite(self, name):
        """What one rank sees in its shard all are told."""
        run = ["--steps", 1, "--seed", "7", "--lr", "3e38"]
        for how in (["--accumulate", 2], ["--emulate-world", 2], *([["--gpus", 2]] if self.gpus > 1 else [])):
            _, err = self.run(name, *run, *how, code=1)
            if "what its update makes of it, is not finite; such elements are left as they were" not in err:
                raise Failed(f"{how}: {err}")

    def check_sharded_memory(self):
        """What the report says of a rank it holds; at most, where that depends on the batch and on libraries."""
        values = {}
        for mode in MODES:
            name = f"{mode}-{MEASURED}"
            told = json.loads((self.arguments.folder / f"{name}.json").read_text())
            events, _ = self.run(name, "--steps", 2, "--emulate-world", 2, "--memory-stats")
            held = [e for e in events if e.get("event") == "memory" and "phase" not in e][-1]
            told = {part: told[f"{part}_bytes"] for part in ("parameters", "optimizer_state", "gradients", "activations", "workspace")}
            held = dict(zip(told, (held[part] for part in ("parameters", "state", "gradients", "arena", "scratch"))))
            values[mode] = [held[part] for part in ("parameters", "optimizer_state", "gradients")]
            if values[mode] != list(told.values())[:3] or any(told[part] < held[part] for part in ("activations", "workspace")):
                raise Failed(f"{name}: told {told}, held {held}")
        # Without accumulators, which are of steps of several micro-batches.
        if not sum(values["zero3"]) < sum(values["zero2"]) == sum(values["zero1"]):
            raise Failed(f"{values}")

    def check_bad_index(self, name):
        """What only a kernel of one rank meets (the last but one batch) ends the step of all, which have changed nothing."""
        more = {"rows": 2, "data": self.arguments.folder / "square-lookup.npz"}
        good = more | {"data": self.arguments.folder / "square-lookup-good.npz"}
        for how in (["--emulate-world", 2], *([["--gpus", 2], ["--ranks", 2, "--sync"]] if self.gpus > 1 else [])):
            saved = self.folder()
            _, err = self.run(name, *how, "--epochs", 1, "--save", saved, "--save-every", 1, code=1, **more)
            if "rank 1: " not in err or "node 'lookup': index 81 is out of range" not in err:
                raise Failed(f"{how}: {err}")
            if sorted(p.name for p in saved.glob("step-*")) != ["step-1"]:
                raise Failed(f"{how}: {list(saved.iterdir())}")
            # Good rows have the bits of one, the end of the epoch included.
            self.equal(self.trained(name, *how, steps=3, **good), self.trained(name, "--accumulate", 2, steps=3, **good), f"{how}")

    def check_too_many(self, name):
        _, err = self.run(name, "--gpus", self.gpus + 1, "--steps", 1, code=3)
        if "needs a GPU of its own" not in err:
            raise Failed(err)

    def fault(self, name, stop, words):
        self.need(2)
        saved = self.folder()
        command = self.command(name, "--gpus", 2, "--steps", 1_000_000, "--save", saved, "--save-every", 20, "--keep", 1)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            limit = time.monotonic() + 120
            while not list(saved.glob("step-*")):
                if time.monotonic() > limit or process.poll() is not None:
                    raise Failed("no checkpoint")
                time.sleep(0.05)
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            ranks = {}
            for pid in children:
                for word in pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
                    ranks |= {word: int(pid)} if word.startswith("--rank=") else {}
            victim, other = ranks["--rank=1"], ranks["--rank=0"]
            began = time.monotonic()
            os.kill(victim, stop)
            while pathlib.Path(f"/proc/{other}/stat").exists() and " Z " not in pathlib.Path(f"/proc/{other}/stat").read_text():
                if time.monotonic() - began > 60:
                    raise Failed("rank 0 hangs")
                time.sleep(0.05)
            took = time.monotonic() - began
            if stop == signal.SIGSTOP:
                os.kill(victim, signal.SIGKILL)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
        if process.returncode != FAILED_RANKS or took > 20:
            raise Failed(f"exit code {process.returncode} after {took:.1f} s\n{err}")
        for word in (*words, "rank 1 on ", "the last checkpoint is "):
            if word not in err:
                raise Failed(f"'{word}' is not said:\n{err}")
        if not re.search(r"step \d|checkpoint '[^']*/step-\d+': rank", err):
            raise Failed(f"neither a step nor the checkpoint that was being written is said:\n{err}")
        print(f"rank 0 ended after {took:.1f} s: {err.strip().splitlines()[-1][:300]}")

    def check_killed(self, name):
        self.fault(name, signal.SIGKILL, ["has ended without a word"])

    def check_stalled(self, name):
        self.fault(name, signal.SIGSTOP, ["has not been heard of for 5 s"])

    # Times.

    def timed(self, name, *flags, steps=30, **more):
        """Milliseconds of a step, tokens a second, microseconds of the host."""
        more = {"data": self.arguments.folder / f"{LARGE}.npz", "rows": LARGE_ROWS} | more
        events, _ = self.run(name, "--init", "normal:0.02", "--steps", steps, *flags, **more)
        each = [e for e in events if "event" not in e][10:]
        summary = next((e for e in events if e.get("event") == "summary"), {})
        ms = statistics.median(e["step_ms"] for e in each)
        return ms, statistics.median(e["samples_per_s"] for e in each) * LARGE_TOKENS, summary.get("host_us")

    def check_cost_of_cutting(self):
        for flags in ([], ["--accumulate", 2]):
            plain = self.timed(f"{LARGE}-alone", *flags)
            same = self.timed(LARGE, *flags)
            cut = self.timed(LARGE, *flags, TRAINRT_EXCHANGE="always")
            print(f"{' '.join(map(str, flags))}: for one rank {plain[0]:.2f} ms, host {plain[2]} us; the distributed package {same[0]:.2f} ms, "
                  f"host {same[2]} us; cut {cut[0]:.2f} ms, host {cut[2]} us: {cut[0] / plain[0]:.4f}")  # fmt: skip

    def check_time_of_shards(self):
        """Of one GPU with copies in place of exchanges, of one with exchanges with itself, and of two."""
        for mode in MODES:
            name = f"{LARGE}-{mode}"
            for flags in ([], ["--accumulate", 2]):
                one, cut = self.timed(name, *flags), self.timed(name, *flags, TRAINRT_EXCHANGE="always")
                text = f"{mode} {' '.join(map(str, flags))}: {one[0]:.2f} ms, host {one[2]} us; cut {cut[0]:.2f} ms, host {cut[2]} us: {cut[0] / one[0]:.4f}"
                if self.gpus > 1:
                    two = self.timed(name, "--gpus", 2, *flags)
                    text += f"; two GPUs {two[0]:.2f} ms, {two[1]:.0f} tokens/s ({two[1] / one[1]:.3f})"
                print(text)

    def check_weak_scaling(self):
        one = self.timed(LARGE, rows=LARGE_ROWS)
        again = self.timed(LARGE, "--accumulate", 4)
        print(f"one GPU: {one[0]:.2f} ms, {one[1]:.0f} tokens/s; with --accumulate 4 {again[0]:.2f} ms, {again[1]:.0f} tokens/s")
        self.need(2)
        for flags in ([], ["--reduce", "nccl"]):
            two = self.timed(LARGE, "--gpus", 2, *flags)
            more = self.timed(LARGE, "--gpus", 2, "--accumulate", 4, *flags)
            print(f"two GPUs {' '.join(flags)}: {two[0]:.2f} ms, {two[1]:.0f} tokens/s ({two[1] / one[1]:.3f}); "
                  f"with --accumulate 4 {more[0]:.2f} ms, {more[1]:.0f} tokens/s ({more[1] / again[1]:.3f})")  # fmt: skip

    def check_multiprocessors(self):
        """Those that exchanges have, and what runs beside them: how long a step takes."""
        self.need(2)
        nccl = {"TRAINRT_EXCHANGE": "nccl"}
        widths = [{"TRAINRT_EXCHANGE_BLOCKS": str(n)} for n in (4, 8, 32)] + [nccl | {"NCCL_MAX_CTAS": str(n)} for n in (4, 8, 32)]
        for environment in ({"TRAINRT_EXCHANGE": "inline"}, {}, {"TRAINRT_GRAPHS": "plain"}, nccl, *widths):
            times = self.timed(LARGE, "--gpus", 2, **environment), self.timed(LARGE, "--gpus", 2, "--reduce", "nccl", **environment)
            print(f"two GPUs {environment or ''}: {times[0][0]:.2f} ms, with sums of NCCL {times[1][0]:.2f} ms")

    def checks(self):
        for name in SMALL:
            yield f"emulated {name}", lambda name=name: self.check_emulated(name)
        for name in ("f32", "bf16"):
            yield f"alone {name}", lambda name=name: self.check_alone(name)
            yield f"processes {name}", lambda name=name: self.check_processes(name)
        for name in ("bf16-noclip", "dropout", "int8-state", "lora-nf4", "fp16"):
            yield f"processes {name}", lambda name=name: self.check_processes(name)
        for name in DATA:
            if name.startswith(MODES):
                yield f"sharded {name}", lambda name=name: self.check_sharded(name)
                yield f"sharded processes {name}", lambda name=name: self.check_sharded_processes(name)
        for name in ("zero1-int8-state", "zero2-bf16", "zero3-bf16", "zero3-lora-nf4"):
            yield f"replicas {name}", lambda name=name: self.check_replicas(name)
            yield f"replicas in processes {name}", lambda name=name: self.check_replicas_in_processes(name)
        yield "sharded alone", lambda: self.check_alone("zero3-bf16")
        yield "sharded one by one", lambda: self.check_emulated_one_by_one("zero3-bf16")
        yield "sharded evaluation", lambda: self.check_sharded_evaluation("zero3-bf16")
        yield "sharded resume", lambda: self.check_sharded_resume("zero3-int8-state")
        yield "sharded not finite", lambda: self.check_sharded_not_finite("zero2-plain")
        yield "sharded vendor sums", lambda: self.check_vendor_sums("zero1-bf16")
        yield "sharded killed", lambda: self.check_killed("zero3-f32")
        yield "sharded memory", self.check_sharded_memory
        for name in ("lookup-data", "lookup-zero1"):
            yield f"bad index {name}", lambda name=name: self.check_bad_index(name)
        yield "one by one", lambda: self.check_emulated_one_by_one("bf16")
        yield "too many", lambda: self.check_too_many("f32")
        yield "carrier", lambda: self.check_carrier("f32")
        yield "vendor sums", lambda: self.check_vendor_sums("bf16")
        yield "resume", lambda: self.check_resume("bf16")
        yield "killed", lambda: self.check_killed("f32")
        yield "stalled", lambda: self.check_stalled("f32")
        yield "large emulated", self.check_large_emulated
        yield "large processes", self.check_large_processes
        yield "beside", self.check_beside
        yield "cost of cutting", self.check_cost_of_cutting
        for mode in ("zero1", "zero3"):
            yield f"large emulated {mode}", lambda mode=mode: self.check_large_emulated(f"{LARGE}-{mode}")
            yield f"large processes {mode}", lambda mode=mode: self.check_large_processes(f"{LARGE}-{mode}")
        yield "time of shards", self.check_time_of_shards
        yield "weak scaling", self.check_weak_scaling
        yield "multiprocessors", self.check_multiprocessors


def run_checks(arguments):
    counts = {"passed": 0, "FAILED": 0, "skipped": 0}
    with tempfile.TemporaryDirectory(prefix="trainc-ranks-") as scratch:
        runs = Runs(arguments, scratch)
        for name, check in runs.checks():
            if arguments.only and not any(word in name for word in arguments.only.split(",")):
                continue
            began, outcome, text = time.monotonic(), "passed", ""
            try:
                check()
            except Skipped as error:
                outcome, text = "skipped", str(error)
            except (Failed, OSError, ValueError, LookupError, subprocess.TimeoutExpired) as error:
                outcome, text = "FAILED", f"{type(error).__name__}: {error}"
            counts[outcome] += 1
            print(f"{outcome:8}{time.monotonic() - began:6.1f} s  {name}", flush=True)
            if text:
                print("    " + text.strip().replace("\n", "\n    "), flush=True)
    print(f"{counts['passed']} passed, {counts['FAILED']} failed, {counts['skipped']} skipped")
    return 1 if counts["FAILED"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("compile", "run"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--graphs", type=pathlib.Path)
    parser.add_argument("--only", default="", help="parts of names of checks, comma separated")
    parser.add_argument("--target", default="cuda:sm_90")
    parser.add_argument("--trainc", type=pathlib.Path, default=ROOT / "build/bin/trainc")
    parser.add_argument("--trainc-run", type=pathlib.Path, default=ROOT / "build/bin/trainc-run")
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.resolve()
    if arguments.action == "compile":
        compile_packages(arguments)
        return 0
    arguments.trainc_run = arguments.trainc_run.resolve()
    return run_checks(arguments)


if __name__ == "__main__":
    sys.exit(main())
