#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles exported graphs to packages: `compile.py GRAPHS PACKAGES [CASE...]`.

GRAPHS is the folder that export_models.py wrote. Packages hold no weights, so a folder of all of
them is a few megabytes and is carried to the machine with the GPU. One line for each case, also
added to PACKAGES/compile.jsonl: seconds, peak memory of the compiler, size of the package.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import convnets
import models

ROOT = pathlib.Path(__file__).resolve().parents[2]


def package_name(case, precision):
    return f"{case.name}.{precision}.tpk"


def command_for(case, precision, arguments, package):
    graph = arguments.graphs / f"{case.graph}.onnx"
    if not graph.exists():
        sys.exit(f"{graph} is not there; export_models.py {arguments.graphs} {case.name} writes it")
    command = [arguments.trainc, graph, "-o", package, "--target", arguments.target]
    if arguments.target != "cpu":
        command += ["--precision", precision]
    if not arguments.symbolic:
        for name, size in case.sizes.items():
            command += ["--dim", f"{name}={size}"]
    command += ["--optimizer", "adamw", "--lr", "1e-4", "--weight-decay", "0.01"]
    if case.family in convnets.FAMILIES:
        command += ["--batchnorm", "train"]  # which exported graphs of such nets leave open
    command += ["--clip-norm", "1.0", *arguments.option]
    return [str(part) for part in command]


def compile_case(case, precision, arguments):
    package = arguments.packages / package_name(case, precision)
    begin = time.monotonic()
    with subprocess.Popen(
        command_for(case, precision, arguments, package),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        print(output, file=sys.stderr)
        return {"case": case.name, "precision": precision, "error": output.splitlines()[-1:]}
    return {
        "case": case.name,
        "precision": precision,
        "target": arguments.target,
        "compile_s": round(time.monotonic() - begin, 2),
        "compile_rss": usage.ru_maxrss * 1024,
        "package_bytes": package.stat().st_size,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", type=pathlib.Path)
    parser.add_argument("packages", type=pathlib.Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: those with a graph")
    parser.add_argument("--target", default="cuda:sm_90")
    parser.add_argument("--precision", help="default: the case's own (bf16 or pure-bf16)")
    parser.add_argument("--symbolic", action="store_true", help="leave batch and seq free")
    parser.add_argument("--trainc", default=ROOT / "build/bin/trainc")
    parser.add_argument("--option", action="append", default=[], help="one more for trainc")
    arguments = parser.parse_args()
    arguments.packages.mkdir(parents=True, exist_ok=True)
    exported = {path.stem for path in arguments.graphs.glob("*.onnx")}
    cases = arguments.cases or [n for n, case in models.CASES.items() if case.graph in exported]
    failed = 0
    with open(arguments.packages / "compile.jsonl", "a", encoding="utf-8") as log:
        for name in cases:
            case = models.CASES[name]
            own = "fp32" if arguments.target == "cpu" else case.precision
            line = compile_case(case, arguments.precision or own, arguments)
            failed |= "error" in line
            print(json.dumps(line), flush=True)
            log.write(json.dumps(line) + "\n")
    return failed


if __name__ == "__main__":
    sys.exit(main())
