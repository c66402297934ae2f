#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small files that grow without end while they are compiled are refused in a moment, by name.

  growth.py MAKE_ONNX FOLDER TRAINC"""

import pathlib
import re
import subprocess
import sys

HEAD = "ir 10\nopset 18\ninput x f32[batch,len]\noutput loss f32[]\ninit w f32[1] = 0.5\n"
TAIL = "node ReduceMean({}) -> loss keepdims=0\n"


def chain(count, line):
    return "".join(line.replace("@", str(i)).replace("+", str(i + 1)) for i in range(count))


def functions(depth):
    """Each calls the one before it twice."""
    text = "function my F0(a) -> b\n  node Neg(a) -> b\n"
    for i in range(depth):
        text += f"function my F{i + 1}(a) -> c\n  node my::F{i}(a) -> b\n  node my::F{i}(b) -> c\n"
    return "opset my 1\n" + text + HEAD + f"node Mul(x, w) -> y\nnode my::F{depth}(y) -> z\n" + TAIL.format("z")


def loops(depth):
    """A loop in a loop in a loop, each short enough to be unrolled."""
    text = HEAD + "init n i64[] = 64\ninit c bool[] = 1\n"
    for i in range(depth):
        text += f"graph g{i}\n  input i i64[]\n  input ci bool[]\n  input v{i} f32[batch,len]\n"
        text += f"  output ci bool[]\n  output r{i} f32[batch,len]\n"
        text += f"  node Loop(n, c, v{i}) -> r{i} body=graph:g{i - 1}\n" if i else "  node Neg(v0) -> r0\n"
    return text + f"node Mul(x, w) -> y\nnode Loop(n, c, y) -> z body=graph:g{depth - 1} name=outer\n" + TAIL.format("z")


SIZE = "init k i64[] = 3\ninit i0 i64[] = 0\ninit one i64[1] = 1\nnode Shape(x) -> s\nnode Gather(s, i0) -> s0\n"
GROWN = "node Reshape(s20, one) -> t\nnode Expand(w, t) -> e\nnode ReduceMean(e) -> m keepdims=0\nnode Mul(x, m) -> z\n"
POOLS = (
    "node MaxPool(y@) -> a@ kernel_shape=[1] strides=[2]\nnode MaxPool(y@) -> b@ kernel_shape=[1] strides=[3]\n"
    "node Concat(y@, a@, b@) -> y+ axis=2\n"
)
CASES = {
    "functions": (functions(20), r"the model's function 'F20' is 3145726 nodes when .* of a file of 44 nodes"),
    "loops": (loops(3), r"node 'outer' \(Loop, .*the graph grows to more than 25\d{4} operations here, of \d nodes"),
    # A size that doubles with every node.
    "sizes": (HEAD + SIZE + chain(20, "node Div(s@, k) -> d@\nnode Mul(s@, d@) -> s+\n") + GROWN + TAIL.format("z"),
              r"node 'Expand#\d+' .*: its shape depends on data"),
    "pooled": (
        HEAD.replace("batch,len", "batch,1,len") + "node Mul(x, w) -> y0\n" + chain(20, POOLS) + TAIL.format("y20"),
        r"node 'Concat#\d+' .*: its sizes are too long when they are written by those of the inputs; --dim NAME=N",
    ),
}


def main():
    make, folder, trainc = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    problems = []
    for name, (text, pattern) in CASES.items():
        (folder / f"{name}.txt").write_text(text)
        model = folder / f"{name}.onnx"
        subprocess.run([sys.executable, make, folder / f"{name}.txt", model], check=True)
        command = [trainc, model, "--target", "cpu", "-o", folder / "m.tpk"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 1 or not re.search(pattern, done.stderr):
            problems.append(f"{name}: exit code {done.returncode}, expected /{pattern}/, got:\n{done.stderr}")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
