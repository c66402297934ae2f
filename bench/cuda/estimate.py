#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The limit of a package's step by class, without a GPU: `estimate.py PACKAGE [--size NAME=N]...`.

Reads the commands of the dump (`trainc-translate --dump-package`), counts as the runtime does, and
takes speeds from the options: those of an H200 in the middle of a run, matmuls and attention at one
speed each, whatever their shapes. Sizes that the data decide (docs/design/counts.md) have to be
given, as do those that trainc has not fixed (--dim).
"""

import argparse
import math
import pathlib
import re
import subprocess

import limits

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTH = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}


def without_inner_spaces(line):
    """Without the spaces within parentheses, so that a size is one word."""
    depth, kept = 0, []
    for character in line:
        depth += (character == "(") - (character == ")")
        if character != " " or depth == 0:
            kept.append(character)
    return "".join(kept)


class Program:
    """The commands of one function as rows of a profile, whose times are 0."""

    def __init__(self, text, function, sizes):
        self.sizes = sizes
        found = re.search(rf"^function {re.escape(function)}( .*)?\n((?:  .*\n)*)", text, re.M)
        if not found:
            raise SystemExit(f"there is no function {function}")
        ends = re.search(r" backward (\d+)", found[1] or "")
        self.backward_end = int(ends[1]) if ends else None
        self.parameters = set(re.findall(r"^  (b\d+): parameter", found[2], re.M))
        self.rows = []
        for number, line in re.findall(r"^  (\d+): (.*)$", found[2], re.M):
            body = without_inner_spaces(line.split("  # ")[0])
            kind = body.split()[0]
            read = {"launch": self.launch, "gemm": self.gemm, "attention": self.attention}
            row = read.get(kind, self.other)(body, int(number))
            self.rows.append({"command": int(number), "ms": 0.0, "flops": 0} | row)

    def value(self, expression):
        """Of a size: sums and products of numbers and names, //, %, min and max."""
        names = set(re.findall(r"[A-Za-z_]\w*", expression)) - {"min", "max"}
        if missing := names - set(self.sizes):
            raise SystemExit(f"the size of {', '.join(sorted(missing))} is not known: --size NAME=N")
        return eval(expression, {"__builtins__": {}, "min": min, "max": max}, self.sizes)

    def number(self, name, body):
        return self.value(re.search(rf" {name} (\S+)", body)[1])

    def attribute(self, name, body, default="0"):
        found = re.search(rf"\b{name}: ([^\s,}}]+)", body.split("}")[0])
        return found[1] if found else default

    def launch(self, body, number):
        form = self.attribute("form", body, "unknown")
        written = set(re.findall(r"\((b\d+)", body))
        last = self.backward_end is not None and number >= self.backward_end
        kind = {"product": "matmul", "unknown": "other"}.get(form, form)
        if kind != "matmul" and (last or (form == "pointwise" and written & self.parameters)):
            kind = "optimizer"
        return {
            "class": kind,
            "bytes": self.number("moves", body),
            "flops": self.number("flops", body),
        }

    def gemm(self, body, _):
        m, n, k = (self.number(axis, body) for axis in "mnk")
        # Extents of the batch axes, then the strides of a, b and c along them.
        batch = re.search(r" batch (.*)$", body)
        numbers = [self.value(word) for word in batch[1].split()] if batch else []
        rank = len(numbers) // 4

        def times(which):
            """How many matrices of its own an operand has: one along axes where it is repeated."""
            strides = numbers[which * rank : (which + 1) * rank] if which else [1] * rank
            return math.prod(e for e, stride in zip(numbers, strides) if stride)

        width = WIDTH[self.attribute("dtype", body, "f32")]
        result = WIDTH[self.attribute("c_dtype", body, "f32")]
        epilogue = self.attribute("epilogue", body, "none")
        updates = self.attribute("beta", body) != "0"
        moved = width * (m * k * times(1) + k * n * times(2))
        moved += m * n * times(3) * (result * (2 if updates else 1) + width * ("gelu" in epilogue))
        moved += width * n * ("bias" in epilogue or "bgrad" in epilogue)
        return {"class": "matmul", "bytes": moved, "flops": 2 * times(0) * m * n * k}

    def attention(self, body, _):
        batch, heads, kv_heads, rows, keys, columns, values = (
            self.number(name, body)
            for name in "batch heads kv_heads rows keys columns value_columns".split()
        )
        strides = body.split(" strides ")[1].split()
        segments = self.value(strides[28])
        if segments:
            batch, rows, keys = segments, rows / segments, rows / segments
        causal = self.attribute("causal", body) == "true"
        reaches = [int(self.attribute(side, body, "-1")) for side in ("before", "after")]
        unseen = 0
        for reach in (reaches[0], 0 if causal else reaches[1]):
            if 0 <= reach < rows - 1:
                unseen += (rows - 1 - reach) * (rows - reach) / 2
        backward = self.attribute("backward", body) == "true"
        flops = 2 * batch * heads * (rows * keys - unseen) * (columns + values)
        each = batch * (heads * rows + kv_heads * keys) * (columns + values)
        return {
            "class": "attention",
            "bytes": 2 * each * (2 if backward else 1),
            "flops": flops * (2.5 if backward else 1),
        }

    def other(self, body, _):
        kind = body.split()[0]
        moved = 2 * self.number("bytes", body) if kind == "copy" else 0
        return {"class": {"copy": "copy"}.get(kind, "other"), "bytes": moved}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", type=pathlib.Path)
    parser.add_argument("--function", default="step", help="step.packed: of padded batches")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--matmul-flops", type=float, default=700e12, help="sustained")
    parser.add_argument("--attention-flops", type=float, default=400e12, help="sustained")
    parser.add_argument("--copy-speed", type=float, default=4.2e12, help="bytes a second")
    parser.add_argument("--translate", default=ROOT / "build/bin/trainc-translate")
    arguments = parser.parse_args()
    command = [str(arguments.translate), "--dump-package", str(arguments.package)]
    dump = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    sizes = {name: int(size) for name, _, size in (s.partition("=") for s in arguments.size)}
    program = Program(dump, arguments.function, sizes)
    speeds = {"copy_bytes_per_s": arguments.copy_speed, "gemm_flops": arguments.matmul_flops}
    for row in program.rows:
        if row["class"] == "attention":
            row |= {"type": "", "shape": {"attention": 1}}
            speeds["shapes"] = {limits.key_of(row): arguments.attention_flops}
    lines = sorted(limits.classes_of(program.rows, speeds), key=lambda line: -line.limit_ms)
    print(f"{arguments.package.name}, {arguments.function}: {sum(x.limit_ms for x in lines):.2f} ms")
    print(limits.describe(lines), end="")


if __name__ == "__main__":
    main()
