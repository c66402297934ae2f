# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a command must move at least, and its floating-point operations, as the runtime counts them (runtime/src/format/commands)."""

import math

from .program import WIDTHS


def of(command, values):
    """(bytes, FLOP) with the values of expressions; None for what only the runtime knows."""
    count = {"launch": launch, "gemm": gemm, "attention": attention, "convolution": convolution, "copy": copy, "external": external}.get(command.kind)
    return count(command, [values[i] for i in command.sizes], values) if count else (None, None)


def launch(command, sizes, values):
    costs = [values[i] for i in command.costs]
    return (costs[0], costs[1] if len(costs) > 1 else 0) if costs else (None, None)


def copy(command, sizes, values):
    return 2 * sizes[0], 0  # read and written


def external(command, sizes, values):
    """The tensors of a plug-in's function, whole; of its operations the program knows nothing."""
    moved = 0
    for dtype, rank in zip(command.op.numbers(1, "B"), command.op.numbers(2, "B")):
        moved += math.prod(sizes[:rank]) * WIDTHS[dtype]
        sizes = sizes[rank:]
    return moved, 0


def gemm(command, sizes, values):
    m, n, k = sizes[:3]
    rank = (len(sizes) - 9) // 4
    extents = sizes[9 : 9 + rank]
    strides = [sizes[9 + rank * i : 9 + rank * (i + 1)] for i in (1, 2, 3)]
    # No elements of its own along the axes where its stride is 0.
    a, b, c = (math.prod(extent for extent, stride in zip(extents, own) if stride) for own in strides)
    width, results = WIDTHS[command.op.number(0, "B")], WIDTHS[command.op.number(1, "B")]
    beta, epilogue = command.op.number(3, "f"), command.op.number(5, "B")
    moved = m * k * a * width + k * n * b * width + m * n * c * results * (2 if beta else 1)
    if epilogue >= 2:
        moved += m * n * c * width
    if epilogue in (1, 3, 5):
        moved += n * width
    return moved, 2 * math.prod(extents) * m * n * k


def pairs(count, before, after):
    """Rows and columns that see each other, of `count` each: row i sees columns i - before to i + after (-1: all)."""
    # Of each side those that are not seen make a triangle.
    unseen = sum(max(0.0, count - reach - 1) * max(0.0, count - reach) / 2 for reach in (before, after) if reach >= 0)
    return count * count - unseen


def attention(command, sizes, values):
    batch, heads, key_heads, rows, keys, columns, value_columns = sizes[:7]
    segments, longest = sizes[35:37]
    op, there = command.op, [access != 0 for _, _, access in command.operands]
    backward, causal = op.number(0, "?"), op.number(5, "?")
    before, after = op.number(7, "q", -1), 0 if causal else op.number(8, "q", -1)
    if there[11]:
        seen = segments * pairs(min(rows / segments, longest), before, after) if segments else 0
    elif rows == keys:
        seen = batch * pairs(rows, before, after)
    elif causal:
        # The last row sees all columns.
        seen = batch * (rows * keys - rows * (rows - 1) / 2 if rows < keys else keys * (keys + 1) / 2)
    else:
        seen = batch * rows * keys
    width, queries, known = WIDTHS[op.number(1, "B")], batch * heads * rows, batch * key_heads * keys
    q, k, v, o = queries * columns, known * columns, known * value_columns, queries * value_columns
    moved = width * sum(elements for elements, one in zip((q, k, v, o, o, q, k, v), there[:4] + there[7:11]) if one)
    moved += 4 * queries if there[4] else 0
    if there[5]:
        moved += math.prod(extent for extent, stride in zip((batch, heads, rows, keys), sizes[19:23]) if stride) * WIDTHS[op.number(2, "B")]
    moved += 4 * (segments + 1) if there[11] else 0
    moved += 8 * rows if there[12] else 0
    return moved, int(2 * seen * heads * (columns + value_columns) * (2.5 if backward else 1))


def convolution(command, sizes, values):
    batch, channels, filters, groups = sizes[:4]
    axes = [sizes[4 + 6 * i : 10 + 6 * i] for i in range((len(sizes) - 4) // 6)]
    taps = math.prod(axis[1] for axis in axes)
    output = batch * filters * math.prod(axis[2] for axis in axes)
    elements = batch * channels * math.prod(axis[0] for axis in axes) + filters * taps * channels // groups + output
    return elements * WIDTHS[command.op.number(1, "B")], 2 * output * taps * (channels // groups)
