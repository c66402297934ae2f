# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes functions in which values are read again many ops after they were made."""

T = "tensor<8x8xf32>"
LOW = "tensor<8x8xbf16>"
MASK = "tensor<8x8xi1>"
ROW = "tensor<8xf32>"


def matmul(result, lhs, rhs, kind=T):
    return f"%{result} = train.matmul %{lhs}, %{rhs} : {kind}, {kind} -> {kind}"


def far(first):
    """A chain of 60 matmuls from %first to %end: more than ops that are near each other."""
    names = [first] + [f"far{i}" for i in range(59)] + ["end"]
    return [matmul(after, before, "w") for before, after in zip(names, names[1:])]


def unary(result, op, operand, kind=T):
    return f"%{result} = train.{op} %{operand} : {kind}"


def binary(result, op, lhs, rhs, kind=T):
    return f"%{result} = train.{op} %{lhs}, %{rhs} : {kind}"


def widen(result, operand):
    return f"%{result} = train.cast %{operand} : {LOW} -> {T}"


def positive(result, operand):
    return [f"%{result}_zero = train.full 0.0 : f32 : {T}",
            f"%{result} = train.compare gt %{operand}, %{result}_zero : {T} -> {MASK}"]


def total(result, operand, axis):
    return f"%{result} = train.reduce sum %{operand} axes = [{axis}] : {T} -> {ROW}"


def repeat(result, operand, axis):
    return f"%{result} = train.broadcast %{operand} axes = [{axis}] : {ROW} -> {T}"


def select(result, mask, on_true, on_false):
    return f"%{result} = train.select %{mask}, %{on_true}, %{on_false} : {MASK}, {T}"


def function(name, results, *ops):
    lines = []
    for op in ops:
        lines += [op] if isinstance(op, str) else op
    types = ", ".join(kind for _, kind in results)
    values = ", ".join("%" + value for value, _ in results)
    body = "\n  ".join(lines)
    print(f"func.func @{name}(%x: {T}, %w: {T}, %a: {LOW}, %b: {LOW}) -> ({types}) {{\n"
          f"  {body}\n  return {values} : {types}\n}}")


# Near: a mask of one 16-bit tensor with one reader in another kernel. One byte is stored and read, two are read instead.
function("mask_is_a_byte", [("s", ROW), ("q", T)],
         widen("v", "a"), positive("m", "v"), select("r", "m", "x", "w"), total("s", "r", 1),
         f"%n = train.transpose %m permutation = [1, 0] : {MASK} -> {MASK}", select("q", "n", "w", "x"))

# A mask of normalized numbers stands with its reader, far below the sum whose kernel it belongs to.
function("mask_in_an_early_kernel", [("r", T)],
         matmul("p", "x", "w"), total("s", "p", 0), repeat("e", "s", 1), binary("n", "sub", "p", "e"),
         unary("z", "exp", "n"), far("z"), positive("m", "n"), select("r", "m", "end", "p"))

# %p is kept for %u; so %v, of %p and %q, keeps the 16-bit %q longer and nothing else.
function("read_by_what_is_computed_again", [("s", ROW), ("t", ROW), ("o", T)],
         matmul("p", "x", "w"), matmul("q", "a", "b", LOW), unary("u", "exp", "p"), total("s", "u", 1),
         widen("g", "q"), binary("y", "mul", "p", "g"), unary("v", "tanh", "y"), total("t", "v", 1), repeat("d", "t", 0),
         far("d"), binary("z", "sub", "end", "u"), binary("o", "sub", "z", "v"))

# Bits count: a 16-bit tensor is kept in place of a 32-bit value, but not in place of a mask.
function("narrower_is_kept", [("s", ROW), ("o", T)],
         matmul("p", "a", "b", LOW), widen("y", "p"), unary("v", "exp", "y"), total("s", "v", 1), repeat("d", "s", 0),
         far("d"), binary("o", "sub", "end", "v"))
function("wider_is_not_kept", [("s", ROW), ("o", T)],
         matmul("p", "a", "b", LOW), widen("y", "p"), positive("m", "y"), select("r", "m", "x", "w"),
         total("s", "r", 1), repeat("d", "s", 0), far("d"), select("o", "m", "end", "x"))

# A view is the tensor's memory: what a late product reads through it is kept for that anyway.
function("kept_by_a_view", [("s", ROW), ("o", T), ("c", "tensor<4x4xbf16>")],
         matmul("p", "a", "b", LOW), f"%u = train.reshape %p : {LOW} -> tensor<4x16xbf16>", widen("y", "p"),
         positive("m", "y"), select("r", "m", "x", "w"), total("s", "r", 1), repeat("d", "s", 0), far("d"),
         select("o", "m", "end", "x"),
         "%c = train.matmul %u, %u transposed : tensor<4x16xbf16>, tensor<4x16xbf16> -> tensor<4x4xbf16>")

# One of its size is kept in its place where it needs no other.
function("as_many_bits_and_more", [("s", ROW), ("o", T)],
         matmul("p", "x", "w"), binary("y", "mul", "p", "x"), unary("v", "exp", "y"), total("s", "v", 1),
         repeat("d", "s", 0), far("d"), binary("o", "sub", "end", "v"))

# Two 16-bit tensors take what the value does, and its last reader could not write over either.
function("as_many_bits_in_two", [("s", ROW), ("o", T)],
         matmul("p", "a", "b", LOW), matmul("q", "b", "a", LOW), widen("f", "p"), widen("g", "q"),
         binary("y", "mul", "f", "g"), unary("v", "exp", "y"), total("s", "v", 1), repeat("d", "s", 0),
         far("d"), binary("o", "sub", "end", "v"))
