#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether two builds of the compiler and runtime train the same: packages, losses, gradients, compile time.

  bench/builds/compare.py BEFORE AFTER [--only REGEX] [--jobs N] [--keep FOLDER]

BEFORE and AFTER are build folders. Each model of test/e2e/models is compiled by both: for the CPU, for sm_90 in f32 and in
bf16; some with LoRA, NF4, a memory budget, recompute and offload besides. A CPU's package trains three steps and gives its
gradients in each build's own trainc-run: both have to be the same bits. Of a GPU's package the kernels have to be the same
bytes; where they, or the program, are not, both packages stay in `--keep`, to be run on a GPU. The kernel cache is off, so
that the CPU time of both compilers can be told beside each other. Needs Python 3 and numpy. Exit code 1 where something differs.
"""

import argparse
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "test/e2e/models"
SM = "cuda:sm_90"
SIZES = ("--dim", "batch=1..64", "--dim", "seq=1..64")

#: Besides the plain ones: models, target and flags.
MORE = [
    ("gpt2 llama qwen3 bert-cls", target, flags)
    for target in ("cpu:native", SM)
    for flags in (("--lora", "r=4,alpha=8"), ("--lora", "r=4,alpha=8", "--quantize", "nf4:double"), ("--accumulate", "2"))
] + [
    ("gpt2 bert-mlm", "cpu:native", (*SIZES, "--memory-budget", "0.7")),
    ("gpt2 bert-mlm", SM, (*SIZES, "--precision", "bf16", "--memory-budget", "0.99")),
    ("gpt2 t5", SM, ("--recompute", "level:1")),
    ("gpt2 bert-cls", SM, ("--precision", "bf16", "--dim", "batch=1..2048", "--offload", "--offload-rate", "5000")),
    ("mlp gpt2", "cpu:native", ("-O0",)),
    ("mlp gpt2", SM, ("-O0",)),
    ("resnet unet", "cpu:native", ("--optimizer", "lamb", "--clip-norm", "1")),
]


@dataclasses.dataclass
class Case:
    model: str
    target: str
    flags: tuple

    @property
    def name(self):
        return " ".join([self.model, self.target, *self.flags])

    @property
    def file(self):
        return re.sub(r"[^\w.=-]+", "_", self.name) + ".tpk"


def cases():
    models = sorted(path.name.removesuffix(".ref.json") for path in MODELS.glob("*.ref.json"))
    for model in models:
        test = ROOT / f"test/e2e/{model}.test"
        own = tuple(re.findall(r"--trainc-flag=(\S+)", test.read_text())) if test.exists() else ()
        yield Case(model, "cpu:native", own)
        yield Case(model, SM, own)
        yield Case(model, SM, (*own, "--precision", "bf16"))
    for names, target, flags in MORE:
        for model in names.split():
            yield Case(model, target, flags)


def call(command):
    """Exit code, both outputs and the CPU seconds of a process."""
    environment = {name: value for name, value in os.environ.items() if name != "TRAINC_CACHE"}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=err, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        return process.returncode, out.read(), err.read(), usage.ru_utime + usage.ru_stime


def members(package):
    """Digest of each member but the manifest, which tells the version and the command."""
    with zipfile.ZipFile(package) as file:
        return {
            name: hashlib.sha256(file.read(name)).hexdigest() for name in file.namelist() if name != "manifest.json"
        }


def train(build, package, model, folder, tag):
    """What a package computes: the loss of three steps and every gradient's bits."""
    reference = json.loads((MODELS / f"{model}.ref.json").read_text())
    command = [build / "bin/trainc-run", package, "--data", MODELS / f"{model}.npz", "--log-format", "json"]
    command += ["--batch-size", reference["batch_size"]]
    weights = MODELS / f"{model}.safetensors"
    if weights.exists():
        command += ["--weights", weights]
    gradients = folder / f"{tag}.safetensors"
    results = {}
    for what, more in (("gradients", ["--dump-gradients", gradients]), ("losses", ["--steps", "3"])):
        code, out, err, _ = call([*command, *more])
        if code:
            return {what: f"exit code {code}: {err.strip().splitlines()[-1:]}"}
        steps = [json.loads(line) for line in out.splitlines()]
        results[what] = [step["loss"] for step in steps if "event" not in step]
    results["bits of gradients"] = hashlib.sha256(gradients.read_bytes()).hexdigest()
    gradients.unlink()
    return results


def compare(case, builds, folder):
    """A line of the table: how it went, what differs, and the CPU seconds of both compilers."""
    packages, seconds, codes = [], [], []
    for tag, build in zip(("before", "after"), builds):
        package = folder / tag / case.file
        package.parent.mkdir(exist_ok=True)
        code, _, err, time = call(
            [build / "bin/trainc", MODELS / f"{case.model}.onnx", "-o", package, "--target", case.target, *case.flags]
        )
        codes.append((code, err.strip().splitlines()[-1:] if code else []))
        packages.append(package)
        seconds.append(time)
    if codes[0][0] or codes[1][0]:
        # By both in the same way is no difference, but a case that says nothing.
        return ("REFUSED" if codes[0] == codes[1] else "DIFFERS"), f"exit codes {codes}", seconds
    before, after = members(packages[0]), members(packages[1])
    differing = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    result, keep = ("same package", "") if not differing else ("DIFFERS", ", ".join(differing)), bool(differing)
    if differing == ["program.fb"]:
        result = "same kernels", "program.fb"
    if case.target != SM:
        trained = [train(build, package, case.model, folder, tag) for build, package, tag in zip(builds, packages, "ba")]
        if trained[0] != trained[1] or "losses" not in trained[0]:
            result, keep = ("DIFFERS", f"{trained[0]} {trained[1]}"), True
        elif differing:
            result, keep = ("same bits", result[1]), False
    if not keep:
        for package in packages:
            package.unlink()
    return *result, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("--only", default="", help="cases whose name this expression matches")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for packages that differ")
    arguments = parser.parse_args()
    chosen = [case for case in cases() if re.search(arguments.only, case.name)]
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        folder = pathlib.Path(scratch)
        if arguments.keep:
            folder = arguments.keep
            folder.mkdir(parents=True, exist_ok=True)
        builds = [arguments.before, arguments.after]
        counts, total = {}, [0.0, 0.0]
        for number, case in enumerate(chosen):
            (folder / str(number)).mkdir(exist_ok=True)
        jobs = [pool.submit(compare, case, builds, folder / str(i)) for i, case in enumerate(chosen)]
        for case, job in zip(chosen, jobs):
            result, why, seconds = job.result()
            counts[result] = counts.get(result, 0) + 1
            total = [a + b for a, b in zip(total, seconds)]
            if result != "same package":
                print(f"{case.name}: {result}: {why}", flush=True)
        print(f"{len(chosen)} packages of {len({case.model for case in chosen})} models: {counts}")
        print(f"CPU seconds of compiling: {total[0]:.1f} before, {total[1]:.1f} after, ratio {total[1] / max(total[0], 1e-9):.3f}")
    return int("DIFFERS" in counts or "REFUSED" in counts)


if __name__ == "__main__":
    sys.exit(main())
