#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The limit of a package's step by class, without a GPU: `estimate.py PACKAGE [--size NAME=N]...`.

Reads the program and counts by trainc.inspection, as the runtime does, and takes speeds from the
options: those of an H200 in the middle of a run, matmuls and attention at one speed each, whatever
their shapes. Sizes that the data decide (docs/design/counts.md) have to be given, as do those that
trainc has not fixed (--dim).
"""

import argparse
import pathlib
import sys

import limits

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python" / name) for name in ("trainc", "trainrt")]
from trainc.inspection import costs, facts, program  # noqa: E402


def rows_of(package, name, given):
    """The commands of one function as rows of a profile, whose times are 0. `given`: {size: number}."""
    _, read, _ = program.read(package)
    function = next((found for found in read.functions if found.name == name), None)
    if function is None:
        raise SystemExit(f"there is no function {name}")
    # One process: world 1, rank 0.
    sizes = {symbol["name"]: int(symbol["run"] == 1) for symbol in read.symbols if symbol["run"]}
    sizes |= {symbol["name"]: symbol["min"] for symbol in read.symbols if symbol["min"] == symbol["max"]}
    sizes |= given
    if missing := sorted({symbol["name"] for symbol in read.symbols} - set(sizes)):
        raise SystemExit(f"the size of {', '.join(missing)} is not known: --size NAME=N")
    values = read.values(sizes)
    rows = []
    for number, command in enumerate(function.commands):
        moved, flops = costs.of(command, values)
        row = {"command": number, "ms": 0.0, "class": facts.command_class(function, number)}
        rows.append(row | {"bytes": moved or 0, "flops": flops or 0})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", type=pathlib.Path)
    parser.add_argument("--function", default="step", help="step.packed: of padded batches")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--matmul-flops", type=float, default=700e12, help="sustained")
    parser.add_argument("--attention-flops", type=float, default=400e12, help="sustained")
    parser.add_argument("--copy-speed", type=float, default=4.2e12, help="bytes a second")
    arguments = parser.parse_args()
    sizes = {name: int(size) for name, _, size in (s.partition("=") for s in arguments.size)}
    rows = rows_of(arguments.package, arguments.function, sizes)
    speeds = {"copy_bytes_per_s": arguments.copy_speed, "gemm_flops": arguments.matmul_flops}
    for row in rows:
        if row["class"] == "attention":
            row |= {"type": "", "shape": {"attention": 1}}
            speeds["shapes"] = {limits.key_of(row): arguments.attention_flops}
    lines = sorted(limits.classes_of(rows, speeds), key=lambda line: -line.limit_ms)
    print(f"{arguments.package.name}, {arguments.function}: {sum(x.limit_ms for x in lines):.2f} ms")
    print(limits.describe(lines), end="")


if __name__ == "__main__":
    main()
