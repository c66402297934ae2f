#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random token models, trained by default and by -O0: `fuzz.py BUILD [--seeds A..B] [--seconds N]`.

Each program is made from its seed, compiled both ways, and run on a few batches on the CPU: losses, all
gradients and the parameters after two steps have to agree but for rounding, and where -O0 has a number
the default has to have one. How much rounding there may be is asked of -O0 itself: with parameters moved
by their last bits, and with the samples in another order. A difference is taken apart to the smallest
program that has it, which is written as JSON; `--program FILE` runs such a file, and `--keep FOLDER`
leaves its model and batches there, with the commands of trainc and trainc-run that show the difference.
"""

import argparse
import collections
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

import batches
import programs
from known import KNOWN, make_known

# How far apart values may be before rounding is asked for: of floats, of doubles.
SUSPICIOUS = {"f32": 2e-5, "f64": 1e-10}
# So many times what -O0 differs from itself is rounding.
NOISE = 30
FINE = ("same", "refused", "declined")
# A training whose loss after two steps is above this goes astray, and any rounding with it.
ASTRAY = 1e6
# Runs of -O0 that tell rounding: parameters moved, samples in another order.
NOISY = [{"set": 0, "ulps": 1}, {"set": 0, "ulps": 2}, {"set": 0, "ulps": 3}, {"set": 0, "batches": 1}]


class Runner:
    """The process that compiles and runs, with a folder of its own."""

    def __init__(self, build, folder, cache=None):
        self.folder = pathlib.Path(folder)
        cache = pathlib.Path(cache) if cache else self.folder / "kernels"
        cache.mkdir(parents=True, exist_ok=True)
        self.command = [str(pathlib.Path(build) / "test/fuzz/bin/train-batches")]
        self.environment = {**os.environ, "TRAIN_BATCHES_CACHE": str(cache)}
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment)

    def write(self, program, folder):
        """Model and batches as files; the paths of the batches, and of the same with rows in another order."""
        model, inputs = programs.build(program)
        onnx.save(model, folder / "model.onnx")
        lists = [[], []]
        for i, batch in enumerate(program["batches"]):
            for permuted in (False, True):
                path = folder / f"{'permuted' if permuted else 'batch'}{i}.npz"
                np.savez(path, **batches.make(batch, inputs, program["dtype"], permuted))
                lists[permuted].append(str(path))
        return lists

    def options(self, program):
        optimizer = ["--optimizer", "sgd", "--lr", "0.1", "--log-level", "error"]
        return [["-O0", *optimizer], ["--token-bucket", str(program["bucket"]), *program.get("options", []), *optimizer]]

    def run(self, program, runs, sets=2, must_vary=False):
        if not self.process:
            self.start()
        lists = self.write(program, self.folder)
        job = {"model": str(self.folder / "model.onnx"), "package": str(self.folder / "package"), "log": str(self.folder / "log.txt"),
               "sets": self.options(program)[:sets], "batches": lists, "whole": program["seed"] % 16 == 0, "runs": runs, "must_vary": must_vary}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.command[0]} has ended: {self.process.wait()}")
        return json.loads(line)


def number(value):
    return float(value) if isinstance(value, str) else value


def distances(outcome):
    """(what, how large it is, how far it is off, values that are lost) of an outcome beside the first run's."""
    everything = math.hypot(*(t[0] for t in outcome["tensors"]))
    floor = max(2e-2 * everything, outcome["size"] * 0.1, 1e-30)
    for i, (norm, difference, lost, _) in enumerate(outcome["tensors"]):  # behind the gradients an evaluation's loss
        yield f"p{i}", max(norm, floor), difference, lost


def differences(program, first, other, noise=()):
    """What differs between outcomes of batches, and of the steps at the end; `noise`: runs that tell rounding."""
    suspicious = SUSPICIOUS[program["dtype"]]
    found = []
    for i, (a, b) in enumerate(zip(first, other)):
        what = f"batch {i}" if i < len(program["batches"]) else "steps"
        if a["status"] not in ("ok", "nonfinite"):
            if b["status"] != a["status"]:
                found.append((what, f"status {b['status']}, expected {a['status']}: {b['message']}"))
            continue
        loss = number(a["loss"])
        if not math.isfinite(loss) or a["status"] == "nonfinite" or (what == "steps" and abs(loss) > ASTRAY):
            continue
        if b["status"] not in ("ok",):
            found.append((what, f"{b['status']}: {b['message']}"))
            continue
        spread = max((abs(number(n[i]["loss"]) - loss) for n in noise), default=0)
        if not abs(number(b["loss"]) - loss) <= suspicious * max(0.1, abs(loss)) + NOISE * spread:
            found.append((what, f"loss {b['loss']}, expected {loss}"))
        noisy = [list(distances(n[i])) for n in noise]
        for k, (name, size, difference, lost) in enumerate(distances(b)):
            spreads = [n[k] for n in noisy if len(n) > k]
            if any(n[3] for n in spreads):
                continue
            if lost:
                found.append((what, f"{name} has {lost} values that are no numbers"))
            elif difference > suspicious * size + NOISE * max((n[2] for n in spreads), default=0):
                found.append((what, f"{name} is off by {difference / size:.1e}"))
    return found


class Verdict:
    def __init__(self, kind, detail="", packed=(), varies=False, finite=0):
        self.kind, self.detail, self.packed, self.varies, self.finite = kind, detail, list(packed), varies, finite

    @property
    def fails(self):
        return self.kind not in FINE


def judge(runner, program, must_vary=False):
    """Compiles and runs a program: "same", "refused" (by -O0, too), "declined" (nothing is packed and it had to be), or what is wrong: "packing" (the variant
    differs, its function does not), "pass" (the function does), "compiler" or "runtime" (there is no result)."""
    result = runner.run(program, [{"set": 0}, {"set": 1}], must_vary=must_vary)
    if result.get("failed") == "declined":
        return Verdict("declined")
    if "failed" in result:
        alone = runner.run(program, [{"set": 0}], sets=1)
        log = (runner.folder / "log.txt").read_text().strip().splitlines()[:2]
        if "failed" in alone:
            return Verdict("refused" if alone["failed"] in ("legalize", "import") else "broken", f"{alone['failed']} {alone['why']} {log}")
        return Verdict("compiler", f"{result['failed']}: {result['why']}")
    first, other = result["runs"]
    packed = [o["packed"] for o in other[:-1]]
    finite = sum(o["status"] == "ok" and math.isfinite(number(o["loss"])) for o in first[:-1])
    verdict = Verdict("same", packed=packed, varies=result["varies"][1], finite=finite)
    if differences(program, first, other):
        runs = runner.run(program, [{"set": 0}, {"set": 1}, {"set": 1, "base": True}, *NOISY])["runs"]
        found = differences(program, runs[0], runs[1], runs[3:])
        if found:
            verdict.kind = "pass" if differences(program, runs[0], runs[2], runs[3:]) else "packing"
            verdict.detail = "; ".join(f"{what}: {text}" for what, text in found[:3])
    return verdict


def shrink(runner, program, kind, trials=200):
    """The smallest program found that fails in the same way."""
    while trials > 0:
        for candidate in programs.smaller(program):
            trials -= 1
            try:
                if judge(runner, candidate).kind == kind:
                    program = candidate
                    break
            except (RuntimeError, KeyError):
                pass
            if trials <= 0:
                break
        else:
            break
    return program


def describe(program):
    names = [f"{name}({', '.join(f'{k}={json.dumps(v)}' for k, v in arguments.items())})" for name, arguments in program["layers"] + program["losses"]]
    sides = [f"{b['rows']}x{b['columns']} {b['side']} {'+'.join(b['rare'])}".strip() for b in program["batches"]]
    return f"{program['mask']}: {' > '.join(names)} | {'; '.join(sides)}"


def commands(build, folder, program, runner):
    plain, packed = (" ".join(s) for s in runner.options(program))
    for name, options in (("plain", plain), ("default", packed)):
        yield f"{build}/bin/trainc {folder}/model.onnx --target cpu -o {folder}/{name}.tpk {options}"
        yield f"{build}/bin/trainc-run {folder}/{name}.tpk --data {folder}/batch0.npz --steps 1 --dump-gradients {folder}/{name}.safetensors"


def report(runner, build, program, verdict, keep):
    print(f"seed {program['seed']}: {verdict.kind}: {verdict.detail}\n  {describe(program)}", flush=True)
    if keep:
        folder = pathlib.Path(keep) / f"seed-{program['seed']}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "program.json").write_text(json.dumps(program) + "\n")
        runner.write(program, folder)
        (folder / "commands").write_text("\n".join(commands(build, folder, program, runner)) + "\n")


def campaign(runner, arguments):
    first, last = map(int, arguments.seeds.split(".."))
    start = time.time()
    kinds, count = collections.Counter(), collections.Counter()
    shrunk = 0
    for seed in range(first, last, arguments.stride):
        if arguments.seconds and time.time() - start > arguments.seconds:
            break
        program = programs.choose(seed)
        verdict = judge(runner, program, must_vary=seed % arguments.declined != 0)
        kinds[verdict.kind] += 1
        count["programs"] += 1
        count["proved"] += verdict.varies
        count["packed"] += any(verdict.packed)
        count["batches"] += len(verdict.packed)
        count["packed batches"] += sum(verdict.packed)
        count["finite batches"] += verdict.finite
        if verdict.fails:
            print(f"seed {seed}: {verdict.kind}: {verdict.detail}", flush=True)
            if shrunk < arguments.shrink:
                shrunk += 1
                program = shrink(runner, program, verdict.kind)
                verdict = judge(runner, program)
            report(runner, arguments.build, program, verdict, arguments.keep)
        elif verdict.kind == "refused" and arguments.verbose:
            print(f"seed {seed}: refused: {verdict.detail}", flush=True)
        if count["programs"] % 200 == 0:
            print(f"at seed {seed}, {time.time() - start:.0f} s: {dict(kinds)}, {dict(count)}", flush=True)
    seconds = time.time() - start
    print(f"{dict(kinds)}, {dict(count)} in {seconds:.0f} s", flush=True)
    if count["packed"] < arguments.packed:
        print(f"{count['packed']} programs were packed, expected {arguments.packed} at least")
    return count["packed"] < arguments.packed or any(kinds[k] for k in kinds if k not in FINE)


def check_known(runner, arguments):
    """Whether a program of the table differs, or is packed or not against what the table says."""
    names = [n for n in KNOWN if not arguments.known or n == arguments.known]
    bad = []
    for name in names:
        verdict = judge(runner, make_known(name))
        packs = any(verdict.packed)
        expected = KNOWN[name].get("packs")
        if verdict.kind != "same" or expected not in (None, packs) or not verdict.finite:
            bad.append(name)
            what = f"packed {packs}, expected {expected}; {verdict.finite} batches with a finite loss"
            if verdict.kind != "same":
                what = f"{verdict.kind}: {verdict.detail}"
            print(f"{name}: {what}")
            if arguments.keep:
                report(runner, arguments.build, make_known(name), verdict, arguments.keep)
        elif arguments.verbose:
            print(f"{name}: {sum(verdict.packed)} of {len(verdict.packed)} batches packed, {verdict.finite} with a finite loss")
    print(f"{len(names) - len(bad)} of {len(names)} programs as expected")
    return bool(bad) or not names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="folder of the build")
    parser.add_argument("--seeds", default="0..100", help="A..B: seeds from A to below B")
    parser.add_argument("--stride", type=int, default=1, help="every so many of them")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--packed", type=int, default=1, help="so many programs at least have to be run by a variant")
    parser.add_argument("--declined", type=int, default=1, help="run one in so many of the programs of which nothing is packed")
    parser.add_argument("--shrink", type=int, default=20, help="so many failures are made smaller")
    parser.add_argument("--program", help="run the program of this file instead")
    parser.add_argument("--known", nargs="?", const="", help="run the programs that failed once instead, or that of this name")
    parser.add_argument("--keep", help="folder for programs that fail, or that are run by name")
    parser.add_argument("--cache", help="folder for kernels, to be used again")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        runner = Runner(arguments.build, folder, arguments.cache)
        if arguments.program:
            program = json.loads(pathlib.Path(arguments.program).read_text())
            verdict = judge(runner, program)
            report(runner, arguments.build, program, verdict, arguments.keep)
            print((runner.folder / "log.txt").read_text())
            return verdict.fails
        if arguments.known is not None:
            return check_known(runner, arguments)
        return campaign(runner, arguments)


if __name__ == "__main__":
    sys.exit(main())
