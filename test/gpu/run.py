#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All checks of the CUDA target that need a GPU.

  run.py compile FOLDER [--trainc ...]        writes the packages; needs no GPU
  run.py run FOLDER [--trainc-run ...]        runs the checks with them; needs no compiler

The models and their numbers are those of test/e2e: first loss, every gradient and curves against
PyTorch, repeated and resumed runs bit for bit, dropout. Besides: twenty steps against the CPU's
package, mixed precision for 50 steps, activations that wait on the host, tuned packages, compute-sanitizer where it is installed, and
gpu-libraries-test where it was built. Prints a line a check and the counts; exit code 1 where a
check failed. Needs Python 3 and numpy.
"""

import argparse
import concurrent.futures
import contextlib
import hashlib
import io
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/e2e"))

import few_rows  # noqa: E402
import numpy as np  # noqa: E402
import run_e2e  # noqa: E402

MODELS = sorted(
    path.name.removesuffix(".ref.json") for path in (ROOT / "test/e2e/models").glob("*.ref.json")
)


def compiler_flags(model):
    """Those that the model's test for the CPU gives, too."""
    test = ROOT / f"test/e2e/{model}.test"
    return re.findall(r"--trainc-flag=(\S+)", test.read_text()) if test.exists() else []


#: Further checks of some of them.
CURVES = {"mlp": None, "gpt2": "adamw-clip-accumulate"}  # None: of every optimizer
REPEATED = ("mlp-dropout", "gpt2-dropout")
MIXED = (
    "mlp bert-cls gpt2-dropout masked-attention convnext deberta-cls gemma3 llama mixtral t5 unet "
    "vit whisper"
).split()
PRECISIONS = {"bf16": 2e-2, "fp16": 4e-3}  # the largest relative error of the first loss
TUNED = ("mlp", "bert-cls", "gpt2")
OFFLOADED = ("gpt2", "bert-cls")
#: Of these small models' activations none would move to the host by itself: many rows, and a link that is taken to be quick.
OFFLOADED_ROWS, OFFLOAD = 2048, ("--offload", "--offload-rate", "5000")
SANITIZED = ("mlp-dropout", "gpt2", "masked-attention")
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
DRIFT = 2e-4  # of losses after some steps, between CPU and GPU
LONGEST = 300  # seconds of a process


def offload_flags():
    """With weights as --offload has them by itself: rounded by each step, in memory that counts as activations."""
    return ("--precision", "bf16", "--dim", f"batch=1..{OFFLOADED_ROWS}", "--no-keep-rounded-weights")


class Skipped(Exception):
    """A check that cannot be made here, with what it lacks."""


class Job(run_e2e.Job):
    """A model whose packages are found by their flags; compiles them where that is the action."""

    done = set()

    def __init__(self, arguments, model, scratch):
        settings = argparse.Namespace(**vars(arguments))
        settings.model, settings.threads, settings.curves = model, None, CURVES.get(model)
        settings.models, settings.verbose = ROOT / "test/e2e/models", False
        super().__init__(settings, scratch)

    def compile(self, *flags, target=None):
        target = target or self.arguments.target
        flags = (*compiler_flags(self.arguments.model), *flags)
        name = hashlib.sha256(" ".join((target, *flags)).encode()).hexdigest()[:12]
        package = self.arguments.folder / f"{self.arguments.model}-{name}.tpk"
        if self.arguments.action == "compile":
            if package in self.done:
                return package
            self.done.add(package)
            command = [self.arguments.trainc, self.path("onnx"), "-o", package, "--embed-weights"]
            self.call([*command, "--target", target, *flags])
        elif not package.exists():
            raise Skipped(f"{package.name} is not there: {target} {' '.join(flags)}")
        return package

    def exact(self, *flags, target=None):
        off = ["--dropout", "off"] if self.reference["dropout"] else []
        return self.compile(*off, *flags, target=target)

    def packages_of(self, check):
        """Calls for all packages that a check takes."""
        if check in ("loss", "gradients", "predict", "cpu", *SANITIZERS):
            self.exact()
        if check == "cpu":
            self.exact(target="cpu")
        if check == "eval":
            self.compile()
        if check in ("determinism", "resume"):
            self.compile("--clip-norm", "1.0")
        if check == "curve":
            curves = self.reference["curves"]
            for name in (self.arguments.curves or ",".join(curves)).split(","):
                self.exact(*curves[name]["compiler"])
        if check in PRECISIONS:
            self.compile("--precision", check)
        if check == "tune":
            self.exact("--tune-variants")
        if check == "offload":
            for flags in ((), OFFLOAD):
                self.exact(*offload_flags(), *flags)


def check_cpu(job):
    """Twenty losses of the CPU's package and the GPU's, for other sizes than the exported ones."""
    ours, theirs = (
        run_e2e.steps_of(job.run(package, "--steps", "20", data="other.npz"))
        for package in (job.exact(), job.exact(target="cpu"))
    )
    errors = [run_e2e.relative(a["loss"], b["loss"]) for a, b in zip(ours, theirs)]
    print(f"worst difference of {len(errors)} losses: {max(errors):.1e}")
    if len(ours) != 20 or len(theirs) != 20 or not max(errors) <= DRIFT:
        raise run_e2e.Failed("losses of CPU and GPU differ")


def check_precision(job, precision):
    """Fifty steps: finite, the first loss near fp32's, and twice the same bits."""
    package = job.compile("--precision", precision)
    first, again = (
        [entry["loss"] for entry in run_e2e.steps_of(job.run(package, "--steps", "50", "--seed", "7"))]
        for _ in range(2)
    )
    reference = job.reference["data"]["loss32"]
    error = run_e2e.relative(first[0], reference)
    print(f"{first[0]} .. {first[-1]}; fp32 begins at {reference}, error {error:.1e}")
    if len(first) != 50 or not all(loss is not None and math.isfinite(loss) for loss in first):
        raise run_e2e.Failed(f"{len(first)} losses, or not all finite: {first}")
    if first != again:
        raise run_e2e.Failed("the second run gives other losses")
    # Dropout makes another loss of it.
    if not job.reference["dropout"] and not error <= PRECISIONS[precision]:
        raise run_e2e.Failed(f"the first loss is off by more than {PRECISIONS[precision]:g}")


def check_tune(job):
    """A tuned package repeats its losses bit for bit, near those of the package it comes from."""
    package, tuned = job.exact("--tune-variants"), job.scratch / "tuned.tpk"
    before = package.read_bytes()
    job.run(package, "--tune", "20", "-o", tuned)
    plain, first, again = (
        [entry["loss"] for entry in run_e2e.steps_of(job.run(each, "--steps", "20"))]
        for each in (package, tuned, tuned)
    )
    error = max(run_e2e.relative(a, b) for a, b in zip(first, plain))
    print(f"worst difference of {len(first)} losses: {error:.1e}")
    if len(first) != 20 or len(plain) != 20 or not error <= DRIFT:
        raise run_e2e.Failed("losses of the tuned package differ")
    if first != again:
        raise run_e2e.Failed("the second run of the tuned package gives other losses")
    if package.read_bytes() != before:
        raise run_e2e.Failed("tuning has changed the package that it began with")


def check_offload(job):
    """The same losses to the last bit with activations on the host, as graphs of both forms and command by command."""
    data = job.scratch / "many.npz"
    with np.load(job.path("npz")) as arrays:
        np.savez(data, **{name: np.resize(array, (OFFLOADED_ROWS, *array.shape[1:])) for name, array in arrays.items()})
    seen = {}
    for flags in ((), OFFLOAD):
        command = [job.arguments.trainc_run, job.exact(*offload_flags(), *flags), "--data", data, "--log-format", "json"]
        command += ["--batch-size", OFFLOADED_ROWS, "--memory-stats"]
        for name, more, steps in (("graph", [], 20), ("plain", [], 20), ("sync", ["--sync"], 4)):
            with environment(TRAINRT_GRAPHS="plain" if name == "plain" else None):
                text = job.call([*command, "--steps", steps, *more])
            log = [json.loads(line) for line in text.splitlines()]
            held = [entry for entry in log if entry.get("event") == "memory" and "phase" not in entry][-1]
            if bool(flags) != (held["pinned"] > 0):
                raise run_e2e.Failed(f"{held['pinned']} bytes are pinned with flags {flags}")
            seen[bool(flags), name] = [entry["loss"] for entry in run_e2e.steps_of(log)], held["arena"]
    losses, arena = seen[False, "graph"]
    print(f"{losses[0]} .. {losses[-1]}; activations {arena} without, {seen[True, 'graph'][1]} bytes with offload")
    for key, (other, _) in seen.items():
        if not other or other != losses[: len(other)]:
            raise run_e2e.Failed(f"losses differ: offload {key[0]}, {key[1]}: {other}, not {losses}")
    if seen[True, "graph"][1] >= arena:
        raise run_e2e.Failed("the activations take no less")


@contextlib.contextmanager
def environment(**variables):
    """Variables of the environment while it lasts; None: as they are."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update({name: value for name, value in variables.items() if value is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def find_sanitizer():
    for folder in (None, "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"):
        found = shutil.which("compute-sanitizer", path=folder)
        if found:
            return found
    raise Skipped("compute-sanitizer is not installed")


def check_sanitizer(job, tool):
    """Two steps under a tool of compute-sanitizer."""
    command = [find_sanitizer(), "--tool", tool, "--error-exitcode", "77"]
    command += [job.arguments.trainc_run, job.exact(), "--data", job.path("npz"), "--steps", "2"]
    command += ["--batch-size", job.reference["batch_size"]]
    if tool == "initcheck":
        # Copies from pinned memory that another thread made reach its books late: it reports reads
        # behind them on the same stream. Commands one by one have copies of another kind.
        command.append("--sync")
    done = subprocess.run(
        [str(c) for c in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONGEST,
        # It cannot look into graphs that the device starts.
        env={**os.environ, "TRAINRT_GRAPHS": "plain"},
    )
    if done.returncode:
        raise run_e2e.Failed(f"{tool}: exit code {done.returncode}\n{done.stdout[-3000:]}")


def check_libraries(arguments):
    program = arguments.trainc_run.parent / "gpu-libraries-test"
    if not program.exists():
        raise Skipped("gpu-libraries-test is not beside trainc-run")
    done = subprocess.run(
        [program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LONGEST
    )
    if done.returncode:
        raise run_e2e.Failed(f"exit code {done.returncode}\n{done.stdout[-3000:]}")


def check_few_rows(arguments, scratch):
    if arguments.action == "compile":
        few_rows.compile_packages(arguments.trainc, arguments.target, arguments.folder)
    elif not all(package.exists() for package in few_rows.packages(arguments.folder).values()):
        raise Skipped("packages for few rows are not there")
    elif not few_rows.check(arguments.trainc_run, arguments.folder, scratch):
        raise run_e2e.Failed("losses or adapters differ")


def all_checks():
    """(model, check) pairs; the long ones first."""
    sanitized = [(model, tool) for tool in SANITIZERS for model in SANITIZED]
    checks = [(model, "curve") for model in CURVES] + sanitized + [("libraries", "libraries"), ("few-rows", "few-rows")]
    checks += [(model, check) for model in REPEATED for check in ("determinism", "resume", "eval")]
    checks += [(model, precision) for model in MIXED for precision in PRECISIONS]
    checks += [(model, "tune") for model in TUNED]
    checks += [(model, "offload") for model in OFFLOADED]
    checks += [(model, "cpu") for model in MODELS]
    checks += [(model, check) for model in MODELS for check in ("loss", "gradients")]
    return checks + [("gpt2", "predict"), ("bert-cls", "predict")]


def perform(arguments, model, check):
    """(outcome, seconds, text) of a check; in a process of its own."""
    begin, text = time.monotonic(), io.StringIO()
    try:
        with tempfile.TemporaryDirectory(prefix="trainc-gpu-") as scratch:
            with contextlib.redirect_stdout(text):
                if model == "libraries":
                    check_libraries(arguments)
                elif model == "few-rows":
                    check_few_rows(arguments, scratch)
                else:
                    job = Job(arguments, model, scratch)
                    if arguments.action == "compile":
                        job.packages_of(check)
                    elif check == "cpu":
                        check_cpu(job)
                    elif check == "tune":
                        check_tune(job)
                    elif check == "offload":
                        check_offload(job)
                    elif check in PRECISIONS:
                        check_precision(job, check)
                    elif check in SANITIZERS:
                        check_sanitizer(job, check)
                    else:
                        run_e2e.CHECKS[check](job)
        outcome = "passed"
    except Skipped as error:
        outcome = "skipped"
        text.write(str(error))
    except (run_e2e.Failed, subprocess.TimeoutExpired, OSError, ValueError, LookupError) as error:
        outcome = "FAILED"
        text.write(f"{type(error).__name__}: {error}")
    return outcome, time.monotonic() - begin, text.getvalue()


def run_all(arguments, checks):
    counts = {"passed": 0, "FAILED": 0, "skipped": 0}
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        futures = {pool.submit(perform, arguments, *check): check for check in checks}
        for future in concurrent.futures.as_completed(futures):
            outcome, seconds, text = future.result()
            counts[outcome] += 1
            model, check = futures[future]
            print(f"{outcome:8}{seconds:6.1f} s  {model} {check}", flush=True)
            if outcome != "passed":
                print("    " + text.strip().replace("\n", "\n    "), flush=True)
    print(f"{counts['passed']} passed, {counts['FAILED']} failed, {counts['skipped']} skipped")
    return 1 if counts["FAILED"] else 0


def compile_all(arguments, checks):
    arguments.folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for model, check in checks:
        if model != "libraries":
            outcome, _, text = perform(arguments, model, check)
            if outcome != "passed":
                failed += 1
                print(f"{model} {check}: {text}")
    packages = list(arguments.folder.glob("*.tpk"))
    size = sum(package.stat().st_size for package in packages)
    print(f"{len(packages)} packages, {size / 2**20:.1f} MiB; {failed} failed")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("compile", "run"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="checks or models, comma separated")
    parser.add_argument("--target", default="cuda:sm_90")
    parser.add_argument("--jobs", type=int, default=4, help="checks at the same time")
    parser.add_argument("--trainc", type=pathlib.Path, default=ROOT / "build/bin/trainc")
    parser.add_argument("--trainc-run", type=pathlib.Path, default=ROOT / "build/bin/trainc-run")
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.resolve()
    arguments.trainc, arguments.trainc_run = arguments.trainc.resolve(), arguments.trainc_run.resolve()
    wanted = set(filter(None, arguments.only.split(",")))
    checks = [check for check in all_checks() if not wanted or wanted & set(check)]
    return (compile_all if arguments.action == "compile" else run_all)(arguments, checks)


if __name__ == "__main__":
    sys.exit(main())
