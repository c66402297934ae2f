# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What no step can go below on a machine, by class of command.

Made of two things: a profile (`trainc-run --profile`: for each command its class, the bytes that it
must move at least, the floating-point operations of matmuls, attention and convolutions, and their
shapes), and the speeds that the machine sustains (`machine.py`: a copy, and the library's kernels at
just these shapes). A command takes what is longer of its operations at that speed and its bytes at
that of a copy; exchanges between ranks take none here.
"""

import collections
import dataclasses
import json

#: Classes whose commands have operations.
COMPUTING = ("matmul", "attention", "convolution")
#: Between runs of the same command: counted with what it waits for.
OTHERS = ("exchange", "other")


@dataclasses.dataclass
class Class:
    """A line of the table: milliseconds of ours and of the limit, and what is done in them."""

    name: str
    commands: int = 0
    ms: float = 0.0
    limit_ms: float = 0.0
    bytes: float = 0.0
    flops: float = 0.0


def read_profile(path, function="step"):
    """The commands of a function, or of the variant of it that ran (`step.packed`)."""
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    ran = collections.Counter()
    for row in rows:
        if row["function"].split(".")[0] == function:
            ran[row["function"]] += row["runs"]
    if not ran:
        return []
    most = max(ran, key=lambda name: ran[name])
    return [row for row in rows if row["function"] == most]


def key_of(row):
    """The same for commands that a library computes alike; None where nothing is to be timed."""
    if row["class"] not in COMPUTING or not row.get("shape"):
        return None
    return json.dumps({"class": row["class"], "type": row["type"], **row["shape"]}, sort_keys=True)


def shapes_of(rows):
    """The shapes to be timed, those with the most operations first, each with those of one command."""
    flops, each = collections.Counter(), {}
    for row in rows:
        key = key_of(row)
        if key and row["flops"]:
            flops[key] += row["flops"]
            each[key] = row["flops"]
    return [{"key": key, "flops": each[key]} for key, _ in flops.most_common()]


def seconds_of(row, speeds):
    """The least seconds of a command. `speeds`: "copy_bytes_per_s", "gemm_flops", and by key of a
    shape "shapes", operations a second. A shape that was not timed takes the speed of the largest
    matmul that was."""
    if row["class"] in OTHERS:
        return 0.0
    moving = row["bytes"] / speeds["copy_bytes_per_s"]
    if not row["flops"]:
        return moving
    speed = speeds.get("shapes", {}).get(key_of(row)) or speeds["gemm_flops"]
    return max(moving, row["flops"] / speed)


def classes_of(rows, speeds, step_ms=None):
    """Lines by class, the longest first, and last the gaps: what a step of `step_ms` takes beyond
    its commands one by one (less than nothing where some ran beside others)."""
    classes = {}
    for row in rows:
        line = classes.setdefault(row["class"], Class(row["class"]))
        line.commands += 1
        line.ms += row.get("waited_ms", row["ms"])
        line.bytes += row["bytes"]
        line.flops += row["flops"]
        line.limit_ms += 1e3 * seconds_of(row, speeds)
    lines = sorted(classes.values(), key=lambda line: -line.ms)
    if step_ms is not None:
        lines.append(Class("gaps", ms=step_ms - sum(line.ms for line in lines)))
    return lines


def limit_ms(rows, speeds):
    return sum(line.limit_ms for line in classes_of(rows, speeds))


def describe(lines):
    """The table for people."""
    text = f"    {'class':12}{'commands':>9}{'ms':>10}{'limit ms':>10}{'times':>7}{'GB':>9}{'TFLOP':>9}\n"
    for line in lines:
        times = f"{line.ms / line.limit_ms:.2f}" if line.limit_ms > 0 else "-"
        text += (
            f"    {line.name:12}{line.commands:9}{line.ms:10.3f}{line.limit_ms:10.3f}{times:>7}"
            f"{line.bytes / 1e9:9.2f}{line.flops / 1e12:9.2f}\n"
        )
    return text
