# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nets of one op for images between two 1x1 convolutions, which `kernels.py` here times on a CPU and
`bench/cuda/kernels.py` on a GPU. Nodes of the op, and of its gradient, are named `op` or `op.*`."""

import dataclasses

import numpy as np

FEW = 4  # channels of the net's input and output


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Of what the op reads: [images, channels, side, side]."""

    images: int
    channels: int
    side: int


def depthwise(taps):
    def build(g, h, sizes):
        weight = g.parameter("op.weight", sizes.channels, 1, taps, taps)
        return g.node("op", "Conv", h, weight, group=sizes.channels, pads=[taps // 2] * 4)

    return build


def batch_norm(g, h, sizes):
    scale, shift = g.parameter("scale", sizes.channels), g.parameter("shift", sizes.channels)
    mean = g.constant("mean", np.zeros(sizes.channels, np.float32))
    variance = g.constant("variance", np.ones(sizes.channels, np.float32))
    return g.node(
        "op", "BatchNormalization", h, scale, shift, mean, variance, outputs=3, training_mode=1
    )


def group_norm(g, h, sizes):
    """As exporters write it: rows of a group."""
    groups = 8
    h = g.node("op.rows", "Reshape", h, g.constant("rows", np.array([sizes.images, groups, -1])))
    ones = g.constant("ones", np.ones(groups, np.float32))
    zeros = g.constant("zeros", np.zeros(groups, np.float32))
    h = g.node("op", "InstanceNormalization", h, ones, zeros)
    shape = np.array([sizes.images, sizes.channels, sizes.side, sizes.side])
    h = g.node("op.back", "Reshape", h, g.constant("shape", shape))
    h = g.node("op.scale", "Mul", h, g.parameter("scale", sizes.channels, 1, 1))
    return g.node("op.shift", "Add", h, g.parameter("shift", sizes.channels, 1, 1))


def instance_norm(g, h, sizes):
    scale, shift = g.parameter("scale", sizes.channels), g.parameter("shift", sizes.channels)
    return g.node("op", "InstanceNormalization", h, scale, shift)


def layer_norm(g, h, sizes):
    """Over the channels, which come first."""
    h = g.node("op.last", "Transpose", h, perm=[0, 2, 3, 1])
    scale, shift = g.parameter("scale", sizes.channels), g.parameter("shift", sizes.channels)
    h = g.node("op", "LayerNormalization", h, scale, shift, axis=-1)
    return g.node("op.first", "Transpose", h, perm=[0, 3, 1, 2])


def pool(kind, **more):
    return lambda g, h, _: g.node("op", kind, h, kernel_shape=[3, 3], strides=[2, 2], **more)


CASES = {
    "depthwise 3x3": depthwise(3),
    "depthwise 7x7": depthwise(7),
    "batch norm": batch_norm,
    "group norm": group_norm,
    "instance norm": instance_norm,
    "layer norm, channels first": layer_norm,
    "max pool 3x3 / 2": pool("MaxPool", pads=[1, 1, 1, 1]),
    "average pool 3x3 / 2": pool("AveragePool"),
}


def file_name(case):
    return case.replace(",", "").replace(" / ", "by").replace(" ", "-")


def build(graph, case, sizes):
    """A graph of the class `graph`, of bench/cuda/kernels.py."""
    g = graph(sizes.images, FEW, sizes.side, sizes.side)
    weight = g.parameter("in.weight", sizes.channels, FEW, 1, 1)
    h = CASES[case](g, g.node("in", "Conv", "x", weight), sizes)
    weight = g.parameter("out.weight", FEW, sizes.channels, 1, 1)
    g.mean_square(g.node("out", "Conv", h, weight))
    return g


def make_input(sizes):
    shape = (sizes.images, FEW, sizes.side, sizes.side)
    return np.random.default_rng(1).standard_normal(shape, dtype=np.float32)


def computes_op(nodes):
    """Whether the command of a profile that has these nodes computes the op, or its gradient."""
    return any(node.split("/")[0].split(".")[0] == "op" for node in nodes)
