# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes small ONNX models, also broken ones, without the onnx package: protobuf by hand."""

import struct

FLOAT, INT64 = 1, 7


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    """One field: an int as a varint, text or bytes with a length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def value_info(name, kind, shape):
    dims = b"".join(field(1, field(2 if isinstance(d, str) else 1, d)) for d in shape)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, dims)))


def node(op, inputs, outputs, name, domain="", attributes=()):
    """A node; attributes are (name, int) pairs."""
    out = b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs)
    out += field(3, name) + field(4, op)
    for key, value in attributes:
        out += field(5, field(1, key) + field(3, value) + field(20, 2))
    return out + (field(7, domain) if domain else b"")


def tensor(name, shape, values=None, external=None):
    """A float tensor with `values`, or (file, offset, length) of its external data."""
    out = b"".join(field(1, d) for d in shape) + field(2, FLOAT) + field(8, name)
    if external is None:
        return out + field(9, struct.pack(f"<{len(values)}f", *values))
    for key, value in zip(("location", "offset", "length"), map(str, external)):
        out += field(13, field(1, key) + field(2, value))
    return out + field(14, 1)


def model(nodes, inputs, outputs, tensors, opset=18):
    graph = b"".join(field(1, n) for n in nodes) + field(2, "main")
    graph += b"".join(field(5, t) for t in tensors)
    graph += b"".join(field(11, i) for i in inputs) + b"".join(field(12, o) for o in outputs)
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, opset))


def classifier(nodes=(), weight=None, outputs=None, more=(), name="w"):
    """x [batch, 4] times w [4, 3], cross entropy; `nodes` and `more` tensors are added, `weight` (of that name) and `outputs` replaced."""
    weight = weight or tensor("w", [4, 3], [0.1 * i for i in range(12)])
    base = [
        node("MatMul", ["x", name], ["logits"], "project"),
        node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss"], "criterion"),
    ]
    outputs = outputs or [value_info("loss", FLOAT, []), value_info("logits", FLOAT, ["batch", 3])]
    inputs = [value_info("x", FLOAT, ["batch", 4]), value_info("labels", INT64, ["batch"])]
    return model([*base, *nodes], inputs, outputs, [weight, *more])
