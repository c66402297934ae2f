#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a package's step would take at the GPU's speeds, without a GPU: `estimate.py PACKAGE`.

Adds up the program's commands: launches by the bytes of their operands and results at copy speed,
matmuls by their operations or bytes, each at least LAUNCH microseconds. Lists where the
time goes by kind of command and for the most expensive kernels. Sizes have to be fixed (--dim of
trainc). Attention commands count as their two (forward) or five (backward) matmuls.
"""

import argparse
import collections
import pathlib
import re
import subprocess

import models

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAUNCH = 2.0e-6
WIDTH = {"f64": 8, "f32": 4}


def read_step(text, function):
    """(sizes of buffers, lines of commands) of one function."""
    step = text[text.index(f"\nfunction {function}\n") :].split("\nfunction ")[1]
    sizes, commands = {}, []
    for line in step.splitlines():
        buffer = re.match(r"  (b\d+): .*? (\d+) bytes", line)
        if buffer:
            sizes[buffer[1]] = int(buffer[2])
        elif re.match(r"  \d+: ", line):
            commands.append(line)
    return sizes, commands


def numbers(pattern, line):
    found = re.search(pattern, line)
    return [int(n) for n in found[1].split(",")] if found and found[1] else []


def product(values):
    total = 1
    for value in values:
        total *= value
    return total


def cost(line, sizes):
    """(kind, name, seconds, bytes)."""
    body = line.split(": ", 1)[1]
    kind = body.split()[0]
    if kind == "launch":
        name, operands = re.match(r"launch (\w+)\(([^)]*)\)", body).groups()
        operands = re.findall(r"b\d+", operands)
        # A stage that combines partial results reads only them: the last operand.
        count = sum(sizes[b] for b in (operands[-1:] if "_totals" in name else operands))
        return "kernel", name, max(LAUNCH, count / models.COPY_BYTES_PER_S), count
    if kind == "gemm":
        m, n, k = (int(re.search(rf" {axis} (\d+)", body)[1]) for axis in "mnk")
        batch = product(numbers(r"batch\[([\d, ]*)\]", body))
        width = WIDTH.get(body.split()[1], 2)
        count = batch * width * (m * k + k * n + m * n)
        speed = models.GEMM_FLOPS / (1 if width == 2 else 2 * width)
        seconds = max(2 * batch * m * n * k / speed, count / models.COPY_BYTES_PER_S, LAUNCH)
        return "product", f"{body.split()[1]} {batch} x {m} x {n} x {k}", seconds, count
    if kind == "attention":
        batch, heads, _, q, k, d, dv = numbers(r"sizes\[([\d, ]*)\]", body)
        causal = 0.5 if " causal" in body else 1.0
        products = 5 if "backward" in body else 2
        flops = 2 * products * causal * batch * heads * q * k * (d + dv) / 2
        return "attention", f"{products} matmuls", max(LAUNCH, flops / models.ATTENTION_FLOPS), 0
    count = sum(sizes[b] for b in re.findall(r"\bb\d+", body.split("#")[0]))
    return kind, kind, max(LAUNCH, count / models.COPY_BYTES_PER_S), count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", type=pathlib.Path)
    parser.add_argument("--function", default="step")
    parser.add_argument("--top", type=int, default=25, help="kernels and matmuls listed")
    parser.add_argument("--translate", default=ROOT / "build/bin/trainc-translate")
    arguments = parser.parse_args()
    command = [str(arguments.translate), "--dump-package", str(arguments.package)]
    dump = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    sizes, commands = read_step(dump, arguments.function)
    kinds = collections.defaultdict(lambda: [0, 0.0, 0])
    names = collections.defaultdict(lambda: [0, 0.0, 0, ""])
    for line in commands:
        kind, name, seconds, count = cost(line, sizes)
        for entry in (kinds[kind], names[kind, name]):
            entry[0] += 1
            entry[1] += seconds
            entry[2] += count
        names[kind, name][3] = line.partition("  # ")[2][:80]
    total = sum(entry[1] for entry in kinds.values())
    print(f"{arguments.package.name}: {1e3 * total:.2f} ms")
    for kind, (times, seconds, count) in sorted(kinds.items(), key=lambda e: -e[1][1]):
        print(f"  {1e3 * seconds:9.3f} ms  {times:5} x {kind:10} {count / 1e9:8.2f} GB")
    for (kind, name), entry in sorted(names.items(), key=lambda e: -e[1][1])[: arguments.top]:
        times, seconds, count, nodes = entry
        print(f"  {1e3 * seconds:9.3f} ms  {times:5} x {name:34} {count / 1e9:7.2f} GB  {nodes}")


if __name__ == "__main__":
    main()
