#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checkpoints of ONNX Runtime's training that say what cannot be, and the message that each has to give:

  bad_checkpoints.py TRAINC MODEL.onnx FOLDER

MODEL.onnx is the evaluation model of a small artifact folder: it has the parameters of a training
model and no accumulators, so that the checkpoint alone is wrong.
"""

import pathlib
import re
import struct
import subprocess
import sys

FLOAT = 1


def flatbuffer(root):
    """Bytes of a FlatBuffer: a dict is a table by slot, a list a vector of tables or int64; (code, number) is a scalar."""
    out = bytearray(8)
    out[4:8] = b"ODTC"

    def put(value):
        """Appends `value` and returns where it is."""
        out.extend(bytes(-len(out) % 8))
        if isinstance(value, dict):
            slots = max(value, default=-1) + 1
            begin = len(out)
            table = begin + (4 + 2 * slots + 7) // 8 * 8
            places = {slot: 8 * (i + 1) for i, slot in enumerate(value)}
            out.extend(struct.pack("<HH", 4 + 2 * slots, 8 * (len(value) + 1)))
            out.extend(b"".join(struct.pack("<H", places.get(slot, 0)) for slot in range(slots)))
            out.extend(bytes(table + 8 * (len(value) + 1) - len(out)))
            struct.pack_into("<i", out, table, table - begin)
            for slot, field in value.items():
                link(table + places[slot], field)
            return table
        if isinstance(value, list) and value and isinstance(value[0], int):
            out.extend(bytes(4))  # the elements lie at multiples of 8
            begin = len(out)
            out.extend(struct.pack(f"<I{len(value)}q", len(value), *value))
            return begin
        begin = len(out)
        out.extend(struct.pack("<I", len(value)))
        if isinstance(value, list):
            out.extend(bytes(4 * len(value)))
            for i, element in enumerate(value):
                link(begin + 4 + 4 * i, element)
        else:
            out.extend(value.encode() + b"\0" if isinstance(value, str) else value)
        return begin

    def link(place, value):
        if isinstance(value, tuple):
            struct.pack_into(f"<{value[0]}", out, place, value[1])
        else:
            struct.pack_into("<I", out, place, put(value) - place)

    link(0, root)
    return bytes(out)


def tensor(name, dims, kind=FLOAT, raw=None):
    size = 4
    for dim in dims:
        size *= dim
    return {0: name, 2: dims, 3: ("i", kind), 4: bytes(max(size, 0)) if raw is None else raw}


def checkpoint(*parameters, states=(), more=()):
    """Format 2, its parameters trained; more fields of its module's state, states of an optimizer."""
    groups = {2: [{0: "group0", 3: list(states)}]} if states else {}
    return {0: ("i", 2), 1: {0: list(parameters), **dict(more)}, **groups}


ONE = tensor("w", [2])
# Checkpoint -> what the message says.
CASES = [
    ({0: ("i", 2)}, "the checkpoint '.*' holds no parameters"),
    ({0: ("i", 1), 1: {0: [ONE]}}, "the checkpoint '.*' has version 1, not 2; save it with onnxruntime-training 1.18 or newer"),
    (checkpoint(ONE, more=((3, ("?", 1)),)), "the checkpoint's data file '.*.data' cannot be read: No such file or directory"),
    (checkpoint(tensor("w", [2], kind=99)), "the checkpoint's parameter 'w' has an element type that is not supported"),
    (checkpoint(tensor("w", [-2])), "the checkpoint's parameter 'w' has a negative size"),
    (checkpoint(tensor("w", [2], raw=b"123")), "the checkpoint's parameter 'w' does not have the 8 bytes that its shape needs"),
    (checkpoint(ONE, ONE), "the checkpoint's parameter 'w' is there twice"),
    (checkpoint(tensor("", [2])), "the checkpoint's parameter '' has no name"),
    (checkpoint(ONE, states=[{0: "w"}, {0: "w", 1: [tensor("momentum0", [2])]}, {0: "w"}]),
     "the checkpoint's optimizer state of 'w' is there twice"),
    (checkpoint(ONE, states=[{0: "w", 1: [tensor("momentum1", [2])]}]),
     "the checkpoint's optimizer state of 'w' has no 'momentum0' at its place"),
    (checkpoint(more=((1, [ONE]),)), "the checkpoint names no input of the training model: they do not belong together"),
    (checkpoint(more=((1, [tensor("fc1.weight", [2])]),)),
     r"the parameter 'fc1.weight' has another type or shape in the checkpoint than in the training model: ONNX type 1 with sizes \[2\], not 'tensor<16x20xf32>'"),
]


def main():
    trainc, model, folder = sys.argv[1:]
    path = pathlib.Path(folder) / "checkpoint"
    path.parent.mkdir(parents=True, exist_ok=True)
    problems = []
    for root, pattern in CASES:
        path.write_bytes(flatbuffer(root))
        done = subprocess.run([trainc, model, "--checkpoint", path, "--stop-after", "import"], capture_output=True, text=True, check=False)
        if done.returncode != 1 or not re.search(pattern, done.stderr):
            problems.append(f"exit code {done.returncode}, expected /{pattern}/, got:\n{done.stderr}")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
