#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What bench/cuda/limits.py makes of a profile: `limits.py BENCH_FOLDER SCRATCH`."""

import json
import pathlib
import sys

sys.path.insert(0, sys.argv[1])
import limits  # noqa: E402

SHAPE = {"batch": 1, "m": 8, "n": 4, "k": 2, "a_transposed": 0, "b_transposed": 0, "tf32": 0}


def command(number, kind, ms, function="step", **more):
    row = {"function": function, "command": number, "name": "x", "class": kind, "ms": ms, "runs": 8}
    return row | {"bytes": 0, "flops": 0} | more


def main():
    matmul = {"type": "bf16", "shape": SHAPE, "flops": 2e9, "bytes": 1e6}
    rows = [
        command(0, "matmul", 3.0, **matmul),
        command(1, "matmul", 2.0, **matmul | {"shape": SHAPE | {"m": 16}, "flops": 4e9}),
        command(2, "matmul", 3.0, **matmul),
        command(3, "matmul", 1.0, **matmul | {"flops": 1, "bytes": 4e9}),
        command(4, "convolution", 1.0, flops=1e9, bytes=1e6),
        command(5, "row", 0.5, bytes=1e9),
        command(6, "exchange", 9.0, bytes=1e9, waited_ms=0.25),
    ]
    # Of a function's variant that ran more often, not of others.
    base = [command(0, "row", 1.0, "step") | {"runs": 2}]
    other = [command(0, "row", 1.0, "eval") | {"runs": 50}]
    file = pathlib.Path(sys.argv[2])
    packed = [row | {"function": "step.packed"} for row in rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in base + packed + other))
    read = limits.read_profile(file)
    assert [row["command"] for row in read] == list(range(7)), read
    assert limits.read_profile(file, "micro") == []

    shapes = limits.shapes_of(rows)
    # The shape with the most operations of all its commands first, each with those of one.
    assert [entry["flops"] for entry in shapes] == [1, 4e9], shapes
    assert json.loads(shapes[1]["key"])["m"] == 16, shapes
    speeds = {"copy_bytes_per_s": 1e12, "gemm_flops": 1e12, "shapes": {shapes[0]["key"]: 2e12}}
    lines = {line.name: line for line in limits.classes_of(rows, speeds, step_ms=11.0)}
    # 1 ms each at the speed of the shape, 4 ms at the largest matmul's as it was not timed, and
    # 4 ms of bytes.
    assert abs(lines["matmul"].limit_ms - (1 + 4 + 1 + 4)) < 1e-9, lines
    assert lines["matmul"].commands == 4 and lines["matmul"].ms == 9.0, lines
    assert abs(lines["convolution"].limit_ms - 1) < 1e-9 and abs(lines["row"].limit_ms - 1) < 1e-9
    # What ranks exchange is counted with what others waited; no limit is known of it.
    assert lines["exchange"].ms == 0.25 and lines["exchange"].limit_ms == 0, lines
    assert abs(lines["gaps"].ms - (11 - 10.75)) < 1e-9, lines
    assert abs(limits.limit_ms(rows, speeds) - 12) < 1e-9
    text = limits.describe(limits.classes_of(rows, speeds, 11.0))
    assert text.splitlines()[1].split() == ["matmul", "4", "9.000", "10.000", "0.90", "4.00", "0.01"], text


if __name__ == "__main__":
    main()
