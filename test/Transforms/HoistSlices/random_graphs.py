#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random graphs with selections and rows among zeros: `random_graphs.py FIRST LAST` prints @f<FIRST> ... in order.

`random_graphs.py compare BEFORE AFTER` compares what two evaluations printed: sums may have fewer zeros to add.
"""

import math
import pathlib
import random
import re
import sys


def tensor(dims, element="f32"):
    return "tensor<" + "".join(f"{d}x" for d in dims) + element + ">"


class Graph:
    def __init__(self, seed):
        self.random = random.Random(seed)
        b, s, d = self.random.choice([(2, 4, 6), (3, 4, 2), (1, 6, 4), (2, 8, 4)])
        self.values = [("%x", [b, s, d]), ("%y", [b, s, d]), ("%w", [d, d]), ("%s", [s, s]), ("%b", [d])]
        self.arguments = list(self.values)
        self.lines = []

    def name(self):
        return f"%v{len(self.lines)}"

    def emit(self, text, dims):
        name = self.name()
        self.lines.append(f"{name} = {text}")
        self.values.append((name, dims))

    def constant(self, numbers):
        """Indices: one number, or a list."""
        name = self.name()
        dims = [len(numbers)] if isinstance(numbers, list) else []
        self.lines.append(f"{name} = train.constant dense<{numbers}> : {tensor(dims, 'i64')}")
        return name, tensor(dims, "i64")

    def pick(self, fits=lambda dims: True):
        found = [value for value in self.values if fits(value[1])]
        recent = self.random.random() < 0.8
        return self.random.choice(found[-6:] if recent else found) if found else None

    def pointwise(self, x, d, k):
        other, _ = self.pick(lambda dims: dims == d)
        self.emit(f"train.{self.random.choice(['add', 'mul', 'sub', 'mul'])} {x}, {other} : {tensor(d)}", d)

    def unary(self, x, d, k):
        self.emit(f"train.{self.random.choice(['tanh', 'neg', 'sin', 'relu', 'cos'])} {x} : {tensor(d)}", d)

    def softmax(self, x, d, k):
        self.emit(f"train.softmax {x} axis = {k} : {tensor(d)}", d)

    def reduce(self, x, d, k):
        axes = sorted(self.random.sample(range(len(d)), self.random.randint(1, min(2, len(d)))))
        kept = [size for axis, size in enumerate(d) if axis not in axes]
        self.emit(f"train.reduce {self.random.choice(['sum', 'sum', 'max'])} {x} axes = {axes} : {tensor(d)} -> {tensor(kept)}", kept)

    def transpose(self, x, d, k):
        order = self.random.sample(range(len(d)), len(d))
        dims = [d[axis] for axis in order]
        self.emit(f"train.transpose {x} permutation = {order} : {tensor(d)} -> {tensor(dims)}", dims)

    def reshape(self, x, d, k):
        if k + 1 < len(d):
            dims = d[:k] + [d[k] * d[k + 1]] + d[k + 2 :]
        elif d[k] % 2 == 0 and len(d) < 4:
            dims = d[:k] + self.random.choice([[2, d[k] // 2], [d[k] // 2, 2]]) + d[k + 1 :]
        else:
            return
        self.emit(f"train.reshape {x} : {tensor(d)} -> {tensor(dims)}", dims)

    def concat(self, x, d, k):
        other, e = self.pick(lambda dims: len(dims) == len(d) and dims[:k] + dims[k + 1 :] == d[:k] + d[k + 1 :])
        dims = d[:k] + [d[k] + e[k]] + d[k + 1 :]
        if dims[k] <= 16:
            self.emit(f"train.concat {x}, {other} axis = {k} : ({tensor(d)}, {tensor(e)}) -> {tensor(dims)}", dims)

    def split(self, x, d, k):
        if d[k] < 2:
            return
        cut = self.random.randint(1, d[k] - 1)
        parts = [d[:k] + [size] + d[k + 1 :] for size in (cut, d[k] - cut)]
        name = self.name()
        self.lines.append(f"{name}:2 = train.split {x} axis = {k} : ({tensor(d)}) -> ({tensor(parts[0])}, {tensor(parts[1])})")
        self.values += [(f"{name}#0", parts[0]), (f"{name}#1", parts[1])]

    def slice(self, x, d, k):
        starts, steps, dims = [0] * len(d), [1] * len(d), list(d)
        for axis in range(len(d)) if self.random.random() < 0.25 else [k]:
            dims[axis] = self.random.randint(1, max(1, d[axis] // 2))
            starts[axis] = self.random.randint(0, d[axis] - dims[axis])
            if self.random.random() < 0.2 and starts[axis] + 2 * (dims[axis] - 1) < d[axis]:
                steps[axis] = 2
        self.emit(f"train.slice {x} starts = <{', '.join(map(str, starts))}> steps = {steps} : {tensor(d)} -> {tensor(dims)}", dims)

    def pad(self, x, d, k):
        low = [self.random.randint(0, 4) if axis == k else 0 for axis in range(len(d))]
        dims = d[:k] + [d[k] + low[k] + self.random.randint(0, 4)] + d[k + 1 :]
        if dims[k] <= 16:
            value = self.random.choice(["0.0", "0.0", "0.0", "1.0"])
            self.emit(f"train.pad {x} value = {value} : f32 low = <{', '.join(map(str, low))}> : {tensor(d)} -> {tensor(dims)}", dims)

    def gather(self, x, d, k):
        count = self.random.choice([0, 1, 2])
        numbers = [self.random.randrange(d[k]) for _ in range(count)] if count else self.random.randrange(d[k])
        index, kind = self.constant(numbers)
        dims = d[:k] + ([count] if count else []) + d[k + 1 :]
        self.emit(f"train.gather {x}, {index} axis = {k} : {tensor(d)}, {kind} -> {tensor(dims)}", dims)

    def scatter(self, x, d, k):
        size = self.random.randint(4, 9)
        if d[k] > size:
            return
        twice = self.random.random() < 0.3
        rows = [self.random.randrange(size) for _ in range(d[k])] if twice else self.random.sample(range(size), d[k])
        index, kind = self.constant(rows)
        dims = d[:k] + [size] + d[k + 1 :]
        self.emit(f"train.scatter_add {index}, {x} axis = {k} : {kind}, {tensor(d)} -> {tensor(dims)}", dims)

    def matmul(self, x, d, k):
        if len(d) < 2:
            return
        left, right = self.random.random() < 0.4, self.random.random() < 0.4
        shared = d[-2] if left else d[-1]
        other = self.pick(lambda dims: len(dims) == len(d) and dims[:-2] == d[:-2] and dims[-1 if right else -2] == shared)
        if other:
            dims = d[:-2] + [d[-1] if left else d[-2], other[1][-2 if right else -1]]
            self.emit(f"train.matmul {x}{' transposed' * left}, {other[0]}{' transposed' * right} : "
                      f"{tensor(d)}, {tensor(other[1])} -> {tensor(dims)}", dims)

    def broadcast(self, x, d, k):
        if len(d) < 3:
            dims = d[:k] + [self.random.choice([2, 3, 4])] + d[k:]
            axes = [axis for axis in range(len(dims)) if axis != k]
            self.emit(f"train.broadcast {x} axes = {axes} : {tensor(d)} -> {tensor(dims)}", dims)

    def norm(self, x, d, k):
        scale = self.pick(lambda dims: dims == d[-1:])
        if scale and len(d) > 1:
            name = self.name()
            self.lines.append(f"{name}:3 = train.layer_norm {x}, {scale[0]}, {scale[0]} {{axis = {len(d) - 1} : i64, epsilon = 1.0e-5 : f64}} : "
                              f"({tensor(d)}, {tensor(d[-1:])}, {tensor(d[-1:])}) -> ({tensor(d)}, {tensor(d[:-1])}, {tensor(d[:-1])})")
            self.values += [(f"{name}#0", d), (f"{name}#1", d[:-1]), (f"{name}#2", d[:-1])]

    def text(self, name):
        kinds = [self.unary] * 3 + [self.pointwise] * 3 + [self.slice] * 4 + [self.pad] * 2 + [self.matmul] * 2 + [self.reshape] * 2 + \
                [self.softmax, self.reduce, self.transpose, self.concat, self.split, self.gather, self.scatter, self.broadcast, self.norm]
        for _ in range(self.random.randint(6, 22)):
            x, d = self.pick(lambda dims: math.prod(dims) <= 2000 and len(dims) > 0)
            self.random.choice(kinds)(x, d, self.random.randrange(len(d)))
        made = self.values[len(self.arguments) :] or self.values
        results = made[-self.random.randint(1, 3) :] + ([self.random.choice(made)] if self.random.random() < 0.3 else [])
        kinds = ", ".join(tensor(d) for _, d in results)
        arguments = ", ".join(f"{v}: {tensor(d)}" for v, d in self.arguments)
        body = "".join(f"  {line}\n" for line in self.lines)
        return f"func.func @{name}({arguments}) -> ({kinds}) {{\n{body}  return {', '.join(v for v, _ in results)} : {kinds}\n}}\n"


def numbers(line):
    return [float(x) for x in line.split(":", 1)[1].split()] if re.match(r"\s+\[", line) else line


def compare(before, after):
    before, after = (pathlib.Path(path).read_text().splitlines() for path in (before, after))
    if len(before) != len(after):
        return f"{len(before)} lines, and {len(after)}"
    for number, (a, b) in enumerate(zip(before, after), 1):
        x, y = numbers(a), numbers(b)
        if x == y:
            continue
        if isinstance(x, str) or isinstance(y, str) or len(x) != len(y):
            return f"line {number}: {a} became {b}"
        # Six digits are printed.
        if not all(p == q or (math.isnan(p) and math.isnan(q)) or abs(p - q) <= 2e-5 * max(1, abs(p)) for p, q in zip(x, y)):
            return f"line {number}: {a} became {b}"
    return None


if __name__ == "__main__":
    if sys.argv[1] == "compare":
        sys.exit(compare(*sys.argv[2:]))
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        print(Graph(seed).text(f"f{seed}"))
