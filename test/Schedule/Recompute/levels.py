#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints @forward of a model with `--layers N` residual blocks, pre-norm or `--post` norm, in the train dialect.

Each block is a softmax between two matmuls and a product with GELU. `--encoder` adds a value that every
block reads, as decoders read an encoder's output. With `--positions` a projection of a table, which no sample enters, is
added in each block. `--gated` multiplies the product behind GELU by another one, which the last block computes first.
`--chunks N` sums N products of what the last block passes on. With `--skips` what the blocks of the first half pass on is added to
what the blocks of the second half read, the last one first, as in a U-Net.
"""

import argparse

options = argparse.ArgumentParser()
options.add_argument("--layers", type=int, default=3)
options.add_argument("--post", action="store_true")
options.add_argument("--encoder", action="store_true")
options.add_argument("--positions", action="store_true")
options.add_argument("--gated", action="store_true")
options.add_argument("--chunks", type=int, default=1)
options.add_argument("--skips", action="store_true")
options = options.parse_args()

T = "tensor<?x8xf32, #train.dims<batch, 8>>"
W = "tensor<8x8xf32>"
V = "tensor<8xf32>"
S = "tensor<?xf32, #train.dims<batch>>"
body, arguments = [], [f'%x: {T} {{train.name = "x", train.role = "input"}}']
count = 0


def parameter(kind):
    name = f"w{len(arguments)}"
    arguments.append(f'%{name}: {kind} {{train.name = "{name}", train.role = "parameter", train.trainable}}')
    return "%" + name


def op(text):
    global count
    count += 1
    body.append(f"    %v{count} = {text}")
    return f"%v{count}"


def linear(x):
    return op(f"train.matmul {x}, {parameter(W)} : {T}, {W} -> {T}")


def add(x, y):
    return op(f"train.add {x}, {y} : {T}")


def norm(x):
    global count
    count += 1
    body.append(
        f"    %v{count}, %m{count}, %r{count} = train.layer_norm {x}, {parameter(V)}, {parameter(V)} "
        f"{{axis = 1 : i64, epsilon = 1.0e-5 : f64}} : ({T}, {V}, {V}) -> ({T}, {S}, {S})"
    )
    return f"%v{count}"


def feed_forward(x, last):
    gate = linear(x) if options.gated and last else None
    inner = op(f"train.gelu {linear(x)} : {T}")
    if options.gated:
        inner = op(f"train.mul {inner}, {gate or linear(x)} : {T}")
    return linear(inner)


def block(x, memory, last):
    inner = linear(x if options.post else norm(x))
    if memory:
        inner = add(inner, linear(memory))
    if options.positions:
        places = op(f"train.tanh {op(f'train.matmul {table}, {parameter(W)} : {W}, {W} -> {W}')} : {W}")
        inner = op(f"train.matmul {inner}, {places} : {T}, {W} -> {T}")
    inner = linear(op(f"train.softmax {inner} axis = 1 : {T}"))
    x = add(x, inner)
    x = norm(x) if options.post else x
    x = add(x, feed_forward(x if options.post else norm(x), last))
    return norm(x) if options.post else x


memory = linear("%x") if options.encoder else None
x = linear(memory or "%x")
table = parameter(W) if options.positions else None
skips = []
for layer in range(options.layers):
    if options.skips and 2 * layer >= options.layers:
        x = add(x, skips.pop())
    x = block(x, memory, layer + 1 == options.layers)
    if options.skips and 2 * (layer + 1) <= options.layers:
        skips.append(x)
x = norm(x)
loss = None
for _ in range(options.chunks):
    part = op(f"train.reduce sum {linear(x)} axes = [0, 1] : {T} -> tensor<f32>")
    loss = op(f"train.add {loss}, {part} : tensor<f32>") if loss else part
print('module {\n  train.symbol @batch min 1 input "x" axis 0')
print(f"  func.func @forward({', '.join(arguments)})")
print('      -> (tensor<f32> {train.name = "loss", train.role = "loss"}) {')
print("\n".join(body))
print(f"    return {loss} : tensor<f32>\n  }}\n}}")
