#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a model, trains it, and compares with the stored numbers of PyTorch.

  run_e2e.py --trainc build/bin/trainc --trainc-run build/bin/trainc-run --model bert-cls
             [--models DIR] [--check loss,gradients,curve] [--curves adamw,lamb] [--threads N]

Checks: loss, gradients, curve, predict, eval, determinism, resume, threads, export. Prints a table
a check; exit code 1 when something is out of its limit. Needs Python 3 and numpy.
"""

import argparse
import json
import math
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import numpy as np

import safetensors_io
from gradient_errors import gradient_errors

LOSS_LIMIT = 1e-6  # the first loss, relative
CURVE_LIMIT = 5e-6  # every loss of 20 steps, relative to PyTorch in double
NOISE_FACTOR = 10  # times PyTorch's own float32 noise, for each gradient
NOISE_FLOOR = 5e-8


class Failed(Exception):
    """A check that did not hold, with what was expected."""


class Job:
    """One model with its compiled packages and a scratch folder."""

    def __init__(self, arguments, scratch):
        self.arguments = arguments
        self.scratch = pathlib.Path(scratch)
        self.base = arguments.models / arguments.model
        self.reference = json.loads(self.path("ref.json").read_text())
        self.arrays = np.load(self.path("ref.npz"))
        self.packages = {}

    def path(self, suffix):
        return self.base.with_name(f"{self.base.name}.{suffix}")

    def compile(self, *flags):
        """The package for these flags of trainc."""
        if flags not in self.packages:
            package = self.scratch / f"{len(self.packages)}.tpk"
            target = ["--target", self.arguments.target] if self.arguments.target else []
            self.call(
                [self.arguments.trainc, self.path("onnx"), "-o", package, *target, *flags]
                + self.arguments.trainc_flag
            )
            self.packages[flags] = package
        return self.packages[flags]

    def exact(self, *flags):
        """The package with dropout off."""
        return self.compile(*(["--dropout", "off"] if self.reference["dropout"] else []), *flags)

    def call(self, command):
        command = [str(c) for c in command]
        if self.arguments.verbose:
            print("  $", " ".join(command), flush=True)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stderr[-3000:]}")
        return done.stdout

    def run(self, package, *flags, data="npz", batch=None, threads=None):
        """The JSON objects that trainc-run logs."""
        command = [self.arguments.trainc_run, package, "--log-format", "json"]
        if data:
            command += ["--data", self.path(data)]
        if batch is None and data == "npz":
            batch = self.reference["batch_size"]
        if batch:
            command += ["--batch-size", batch]
        threads = threads or self.arguments.threads
        if threads:
            command += ["--threads", threads]
        return [json.loads(line) for line in self.call([*command, *flags]).splitlines()]


def steps_of(log):
    return [entry for entry in log if "event" not in entry]


def relative(a, b):
    return math.inf if a is None else abs(a - b) / max(abs(b), 1e-30)


def table(title, rows, header):
    print(f"{title}")
    widths = [max(len(str(r[i])) for r in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        print("  " + "  ".join(str(v).ljust(w) for v, w in zip(row, widths)).rstrip())


def check_loss(job):
    """The first loss, for the data's sizes and for others, without compiling again."""
    rows, bad = [], 0
    for key, data in (("data", "npz"), ("other", "other.npz")):
        loss = steps_of(job.run(job.exact(), "--steps", "1", data=data))[0]["loss"]
        reference = job.reference[key]
        error = relative(loss, reference["loss32"])
        bad += not error <= LOSS_LIMIT
        error64 = relative(loss, reference["loss64"])
        rows.append((key, loss, reference["loss64"], f"{error:.1e}", f"{error64:.1e}"))
    table("first loss", rows, ("batch", "loss", "PyTorch float64", "against float32", "float64"))
    if bad:
        raise Failed(f"loss is off by more than {LOSS_LIMIT:g}")


def check_gradients(job):
    """Every parameter's gradient, for the data's sizes and for others."""
    bad = 0
    for key, data in (("data", "npz"), ("other", "other.npz")):
        file = job.scratch / f"gradients-{key}.safetensors"
        log = steps_of(job.run(job.exact(), "--dump-gradients", file, data=data))
        if len(log) != 1:
            raise Failed(f"--dump-gradients logged {len(log)} steps, not one")
        gradients = safetensors_io.load(file)
        prefix = f"{key}/"
        reference = {
            n[len(prefix) :]: job.arrays[n].astype(np.float64)
            for n in job.arrays.files
            if n.startswith(prefix)
        }
        if set(gradients) != set(reference):
            raise Failed(f"entries differ: {sorted(set(gradients) ^ set(reference))}")
        for n, r in reference.items():
            if gradients[n].shape != r.shape or gradients[n].dtype != np.float32:
                raise Failed(f"{n}: {gradients[n].dtype} {gradients[n].shape}, expected {r.shape}")
        errors = gradient_errors(gradients, reference)
        rows = []
        for n, error in errors.items():
            noise = max(job.reference[key]["noise"][n], NOISE_FLOOR)
            ok = error <= NOISE_FACTOR * noise
            bad += not ok
            rows.append((error / noise, n, f"{error:.1e}", f"{noise:.1e}", "" if ok else "FAIL"))
        rows.sort(reverse=True)
        shown = [r for r in rows if r[-1]] + [r for r in rows if not r[-1]][:5]
        table(
            f"gradients of {len(rows)} parameters ({key}), worst first",
            [(n, e, noise, f"{ratio:.2f}", mark) for ratio, n, e, noise, mark in shown],
            ("parameter", "error", "noise", "ratio", ""),
        )
    if bad:
        raise Failed(f"{bad} gradients are off by more than {NOISE_FACTOR} x PyTorch's noise")


def check_curve(job):
    """Twenty losses for every optimizer against PyTorch in double."""
    rows, bad = [], 0
    wanted = job.arguments.curves.split(",") if job.arguments.curves else job.reference["curves"]
    for name in wanted:
        curve = job.reference["curves"][name]
        package = job.exact(*curve["compiler"])
        log = steps_of(job.run(package, "--steps", str(len(curve["losses"])), *curve["runner"]))
        if len(log) != len(curve["losses"]):
            raise Failed(f"{name}: {len(log)} steps logged instead of {len(curve['losses'])}")
        error = max(relative(entry["loss"], r) for entry, r in zip(log, curve["losses"]))
        # A curve that amplifies rounding in PyTorch too may be as far off as a few times that.
        ok = error <= max(CURVE_LIMIT, 5 * curve["noise"])
        bad += not ok
        first, last = curve["losses"][0], curve["losses"][-1]
        rows.append(
            (name, f"{first:.6f}", f"{last:.6f}", f"{error:.1e}", f"{curve['noise']:.1e}")
            + ("" if ok else "FAIL",)
        )
    table("curves", rows, ("optimizer", "first", "last", "worst error", "PyTorch's noise", ""))
    if bad:
        raise Failed(f"{bad} curves are off by more than {CURVE_LIMIT:g}")


def check_predict(job):
    """The logits of --predict, for sizes that the data does not have."""
    out = job.scratch / "predicted.safetensors"
    flags = ["--predict", job.path("other.npz"), "--outputs", "logits", "-o", out]
    job.run(job.exact(), *flags, data=None)
    logits = safetensors_io.load(out)["logits"]
    reference = job.arrays["other:logits"]
    error = float(np.linalg.norm(logits - reference) / np.linalg.norm(reference))
    print(f"predicted logits {logits.shape}: error {error:.1e}")
    if logits.shape != reference.shape or not error <= 2e-6:
        raise Failed("logits differ")


def check_eval(job):
    """The loss of --eval before the first step is PyTorch's with dropout off, always."""
    log = job.run(job.compile(), "--steps", "1", "--eval", job.path("other.npz"), "--lr", "0")
    found = [entry for entry in log if entry.get("event") == "eval"]
    reference = job.reference["other"]["loss64"]
    print(f"evaluations: {found}; expected loss {reference:.9g}")
    if not found or not relative(found[0]["loss"], reference) <= LOSS_LIMIT:
        raise Failed("no evaluation, or another loss")


def training(job, package, folder, *flags, threads=None):
    """(losses by step, bytes of the saved parameters) of a run with dropout as exported."""
    log = job.run(package, "--steps", "50", "--save", folder, *flags, threads=threads)
    losses = {entry["step"]: entry["loss"] for entry in steps_of(log)}
    saved = sorted(folder.glob("step-*"), key=lambda p: int(p.name[5:]))[-1]
    if saved.name != "step-50":
        raise Failed(f"the last checkpoint is {saved.name}, not step-50")
    return losses, {
        f: safetensors_io.digest(saved / f) for f in ("parameters.safetensors", "optimizer.safetensors")
    }


def same(what, a, b):
    if a != b:
        steps = [s for s in a[0] if a[0][s] != b[0].get(s)]
        files = [f for f in a[1] if a[1][f] != b[1][f]]
        raise Failed(f"{what}: differs first at step {steps[:1]}, files {files}")
    print(f"{what}: same bits of {len(a[0])} losses and of all saved tensors")


def check_determinism(job):
    """Same seed, same bits over 50 steps; another seed differs when there is dropout."""
    package = job.compile("--clip-norm", "1.0")
    first = training(job, package, job.scratch / "a", "--seed", "7")
    same("run twice", first, training(job, package, job.scratch / "b", "--seed", "7"))
    if job.reference["dropout"]:
        other = training(job, package, job.scratch / "c", "--seed", "8")
        if other[0] == first[0]:
            raise Failed("another seed gives the same losses")
        print("another seed: other losses")


def check_threads(job):
    """--threads 1 and 2 (and 3) give the same bits."""
    package = job.compile("--clip-norm", "1.0")
    first = training(job, package, job.scratch / "t1", "--seed", "7", threads=1)
    for n in (2, 3):
        again = training(job, package, job.scratch / f"t{n}", "--seed", "7", threads=n)
        same(f"--threads 1 and {n}", first, again)


def check_resume(job):
    """Killed and resumed gives the same bits as never killed."""
    package = job.compile("--clip-norm", "1.0")
    first = training(job, package, job.scratch / "whole", "--seed", "7")
    folder = job.scratch / "killed"
    command = [job.arguments.trainc_run, package, "--data", job.path("npz"), "--seed", "7"]
    command += ["--batch-size", job.reference["batch_size"], "--steps", "1000000"]
    command += ["--save", folder, "--save-every", "10", "--log-format", "json"]
    with subprocess.Popen(
        [str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        for line in process.stdout:
            if json.loads(line).get("step", 0) >= 27:
                process.send_signal(signal.SIGKILL)
                break
        process.stdout.close()
        process.wait()
    for saved in folder.glob("step-*"):
        if int(saved.name[5:]) > 20:
            shutil.rmtree(saved)
    resumed = training(job, package, folder, "--seed", "7", "--resume", folder)
    expected = {s: v for s, v in first[0].items() if s in resumed[0]}
    if not resumed[0] or min(resumed[0]) > 21 or 50 not in resumed[0]:
        raise Failed(f"resumed at the wrong step: {sorted(resumed[0])[:3]}")
    same(f"killed, resumed at step {min(resumed[0])}", (expected, first[1]), resumed)


def check_export(job):
    """--export writes every parameter; unchanged at learning rate 0 without decay."""
    out = job.scratch / "exported.safetensors"
    package = job.exact("--optimizer", "sgd", "--lr", "0")
    job.run(package, "--export", out, data=None)
    exported = safetensors_io.load(out)
    names = {n[5:] for n in job.arrays.files if n.startswith("data/")}
    print(f"exported {len(exported)} tensors")
    if not names <= set(exported):
        raise Failed(f"not exported: {sorted(names - set(exported))[:5]}")


CHECKS = {
    name[len("check_") :]: function
    for name, function in list(globals().items())
    if name.startswith("check_")
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainc", required=True)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument(
        "--models", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "models"
    )
    parser.add_argument("--check", default="loss,gradients,curve", help="comma separated, or all")
    parser.add_argument("--curves", help="only these, comma separated")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--target", default="cpu:native", help="of trainc; empty: its default")
    parser.add_argument("--trainc-flag", action="append", default=[], help="passed on; repeatable")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    wanted = list(CHECKS) if arguments.check == "all" else arguments.check.split(",")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="trainc-e2e-") as scratch:
        job = Job(arguments, scratch)
        for name in wanted:
            try:
                CHECKS[name](job)
            except Failed as error:
                failed += 1
                print(f"FAILED {arguments.model} {name}: {error}")
    print(f"{arguments.model}: {len(wanted) - failed} of {len(wanted)} checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
