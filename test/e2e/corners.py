# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small graphs that PyTorch's exporter never writes, made with onnx.helper.

Cross-entropy losses with class weights, ignored labels, every reduction and more than two axes;
a loss in primitive operations with broadcasting, a value used many times and an unused parameter;
attention whose fully masked rows are -inf. Each has a PyTorch module of the same meaning.
"""

import dataclasses
import typing

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from zoo import attention_mask

FLOAT, INT64, INT32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32


@dataclasses.dataclass
class Corner:
    """One corner: a module, its batches, and `graph(parameters)`, the ONNX model of it."""

    name: str
    build: typing.Callable[[], nn.Module]
    batch: typing.Callable[[np.random.Generator, int, int], dict]
    graph: typing.Callable[[dict], onnx.ModelProto]
    dropout: bool = False


def make_model(nodes, inputs, outputs, parameters, constants, opset):
    """A checked model; `parameters` are listed in metadata_props["trainable"]."""
    for index, node in enumerate(nodes):
        node.name = node.name or f"{node.op_type}_{index}"
    tensors = [numpy_helper.from_array(v, k) for k, v in {**parameters, **constants}.items()]
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    helper.set_model_props(model, {"trainable": "\n".join(parameters)})
    onnx.checker.check_model(model, full_check=True)
    return model


class Loss(nn.Module):
    """A linear layer and a cross entropy; `rank` 3 puts the sequence behind the classes."""

    def __init__(self, sizes, rank, weights, ignore, reduction, manual):
        super().__init__()
        self.w = nn.Parameter(torch.randn(sizes.features, sizes.labels + 2) * 0.3)
        self.b = nn.Parameter(torch.randn(sizes.labels + 2) * 0.1)
        self.rank, self.reduction, self.manual, self.ignore = rank, reduction, manual, ignore
        self.weights = weights

    def forward(self, x, labels):
        logits = x @ self.w + self.b
        if self.rank == 3:
            logits = logits.transpose(1, 2)
        weight = None if self.weights is None else torch.tensor(self.weights, dtype=logits.dtype)
        loss = nn.functional.cross_entropy(
            logits,
            labels.long(),
            weight=weight,
            ignore_index=-100 if self.ignore is None else self.ignore,
            reduction=self.reduction,
        )
        if self.manual:
            loss = loss.mean() if self.manual == "ReduceMean" else loss.sum()
        return loss, logits


def loss_corner(name, sizes, rank, weighted, ignore, reduction, manual, nll, label_type, opset):
    """SoftmaxCrossEntropyLoss, or LogSoftmax and NegativeLogLikelihoodLoss where `nll`."""
    classes = sizes.labels + 2
    weights = [round(0.5 + 0.37 * i, 2) for i in range(classes)] if weighted else None
    label_dtype = np.int32 if label_type == INT32 else np.int64

    def batch(rng, n, seq):
        outer = (n,) if rank == 2 else (n, seq)
        labels = rng.integers(0, classes, outer)
        if ignore is not None:
            labels = np.where(rng.random(outer) < 0.2, ignore, labels)
            labels.flat[0] = (max(ignore, 0) + 1) % classes
        return {
            "x": rng.standard_normal(outer + (sizes.features,)).astype(np.float32),
            "labels": labels.astype(label_dtype),
        }

    def graph(parameters):
        constants = {}
        outer = ["batch"] if rank == 2 else ["batch", "seq"]
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["projected"]),
            helper.make_node("Add", ["projected", "b"], ["biased" if rank == 3 else "logits"]),
        ]
        if rank == 3:
            nodes.append(helper.make_node("Transpose", ["biased"], ["logits"], perm=[0, 2, 1]))
        attributes = {"reduction": reduction}
        if ignore is not None:
            attributes["ignore_index"] = ignore
        source = "logits"
        if nll:
            nodes.append(helper.make_node("LogSoftmax", ["logits"], ["logp"], axis=1))
            source = "logp"
        extra = ["class_weights"] if weighted else []
        if weighted:
            constants["class_weights"] = np.array(weights, np.float32)
        result = "losses" if manual else "loss"
        kind = "NegativeLogLikelihoodLoss" if nll else "SoftmaxCrossEntropyLoss"
        results = [result] if nll or not manual else [result, "log_prob"]
        nodes.append(helper.make_node(kind, [source, "labels"] + extra, results, **attributes))
        if manual:
            nodes.append(helper.make_node(manual, ["losses"], ["loss"], keepdims=0))
        shape = outer[:1] + [classes] + outer[1:]
        outputs = [("loss", FLOAT, []), ("logits", FLOAT, shape)]
        if len(results) == 2:
            outputs.append(("log_prob", FLOAT, shape))
        inputs = [("x", FLOAT, outer + [sizes.features]), ("labels", label_type, outer)]
        return make_model(nodes, inputs, outputs, parameters, constants, opset)

    return Corner(
        name, lambda: Loss(sizes, rank, weights, ignore, reduction, manual), batch, graph
    )


class Primitive(nn.Module):
    """Hand-written cross entropy over broadcast arithmetic; `unused` reaches no loss."""

    def __init__(self, sizes):
        super().__init__()
        classes = sizes.labels + 2
        self.w = nn.Parameter(torch.randn(sizes.features, classes) * 0.3)
        self.b = nn.Parameter(torch.randn(classes) * 0.1)
        self.slope = nn.Parameter(torch.tensor([0.3]))
        self.column = nn.Parameter(torch.randn(1, classes) * 0.1 + 1.0)
        self.temperature = nn.Parameter(torch.tensor(0.7))
        self.unused = nn.Parameter(torch.ones(3))

    def forward(self, x, labels):
        h = x @ self.w + self.b
        gate = torch.where(h > 0, h, h * self.slope)
        z = (gate * gate + h * self.column) / self.temperature - gate
        peak = z.max(dim=1, keepdim=True).values.detach()
        shifted = z - peak
        logp = shifted - torch.log(torch.exp(shifted).sum(dim=1, keepdim=True))
        return -logp.gather(1, labels[:, None]).mean(), z


def primitive_corner(sizes):
    classes = sizes.labels + 2

    def batch(rng, n, seq):
        return {
            "x": rng.standard_normal((n, sizes.features)).astype(np.float32),
            "labels": rng.integers(0, classes, n).astype(np.int64),
        }

    def graph(parameters):
        make = helper.make_node
        nodes = [
            make("MatMul", ["x", "w"], ["xw"]),
            make("Add", ["xw", "b"], ["h"]),
            make("Greater", ["h", "zero"], ["positive"]),
            make("Mul", ["h", "slope"], ["leak"]),
            make("Where", ["positive", "h", "leak"], ["gate"]),
            make("Mul", ["gate", "gate"], ["gate2"]),
            make("Mul", ["h", "column"], ["hc"]),
            make("Add", ["gate2", "hc"], ["sum"]),
            make("Div", ["sum", "temperature"], ["scaled"]),
            make("Sub", ["scaled", "gate"], ["logits"]),
            make("ReduceMax", ["logits"], ["peak"], axes=[1], keepdims=1),
            make("Sub", ["logits", "peak"], ["shifted"]),
            make("Exp", ["shifted"], ["exponentials"]),
            make("ReduceSum", ["exponentials", "axis1"], ["total"], keepdims=1),
            make("Log", ["total"], ["logtotal"]),
            make("Sub", ["shifted", "logtotal"], ["logp"]),
            make("Unsqueeze", ["labels", "axis1"], ["index"]),
            make("GatherElements", ["logp", "index"], ["picked"], axis=1),
            make("ReduceMean", ["picked"], ["mean"], keepdims=0),
            make("Neg", ["mean"], ["loss"]),
        ]
        constants = {"zero": np.array(0, np.float32), "axis1": np.array([1], np.int64)}
        inputs = [("x", FLOAT, ["batch", sizes.features]), ("labels", INT64, ["batch"])]
        outputs = [("loss", FLOAT, []), ("logits", FLOAT, ["batch", classes])]
        return make_model(nodes, inputs, outputs, parameters, constants, 17)

    return Corner("loss-primitive", lambda: Primitive(sizes), batch, graph)


class MaskedAttention(nn.Module):
    """One attention head over left-padded rows; rows without a key give zero, not NaN."""

    def __init__(self, sizes):
        super().__init__()
        self.q = nn.Parameter(torch.randn(sizes.features, sizes.hidden) * 0.3)
        self.k = nn.Parameter(torch.randn(sizes.features, sizes.hidden) * 0.3)
        self.v = nn.Parameter(torch.randn(sizes.features, sizes.labels) * 0.3)

    def forward(self, x, mask, labels):
        q, k, v = x @ self.q, x @ self.k, x @ self.v
        seq = x.shape[1]
        causal = torch.ones(seq, seq, dtype=torch.bool).tril()
        allowed = (mask != 0)[:, None, :] & causal
        scores = (q @ k.transpose(1, 2)) / 4.0
        # PyTorch's own attention: an impossible row is zero in the forward and the backward.
        empty = ~allowed.any(-1, keepdim=True)
        scores = scores.masked_fill(~allowed & ~empty, float("-inf"))
        weights = torch.softmax(scores, -1).masked_fill(empty, 0.0)
        logits = (weights @ v).transpose(1, 2)
        return nn.functional.cross_entropy(logits, labels), logits


def masked_attention_corner(sizes):
    def batch(rng, n, seq):
        mask = attention_mask(rng, n, seq)[:, ::-1]
        labels = np.where(mask == 1, rng.integers(0, sizes.labels, (n, seq)), -100)
        return {
            "x": rng.standard_normal((n, seq, sizes.features)).astype(np.float32),
            "mask": np.ascontiguousarray(mask).astype(np.int64),
            "labels": labels.astype(np.int64),
        }

    def graph(parameters):
        make = helper.make_node
        nodes = [
            make("MatMul", ["x", "q"], ["query"]),
            make("MatMul", ["x", "k"], ["key"]),
            make("MatMul", ["x", "v"], ["value"]),
            make("Transpose", ["key"], ["key_t"], perm=[0, 2, 1]),
            make("MatMul", ["query", "key_t"], ["raw"]),
            make("Div", ["raw", "four"], ["scores"]),
            make("Shape", ["x"], ["shape"]),
            make("Gather", ["shape", "one"], ["seq"], axis=0),
            make("Range", ["zero", "seq", "one"], ["positions"]),
            make("Unsqueeze", ["positions", "axis0"], ["columns"]),
            make("Unsqueeze", ["positions", "axis1"], ["rows"]),
            make("LessOrEqual", ["columns", "rows"], ["causal"]),
            make("Cast", ["mask"], ["valid"], to=TensorProto.BOOL),
            make("Unsqueeze", ["valid", "axis1"], ["valid3"]),
            make("And", ["valid3", "causal"], ["allowed"]),
            make("Where", ["allowed", "none", "minus_inf"], ["bias"]),
            make("Add", ["scores", "bias"], ["masked"]),
            make("Softmax", ["masked"], ["soft"], axis=-1),
            make("IsNaN", ["soft"], ["nan"]),
            make("Where", ["nan", "none", "soft"], ["weights"]),
            make("MatMul", ["weights", "value"], ["mixed"]),
            make("Transpose", ["mixed"], ["logits"], perm=[0, 2, 1]),
            make(
                "SoftmaxCrossEntropyLoss",
                ["logits", "labels"],
                ["loss"],
                reduction="mean",
                ignore_index=-100,
            ),
        ]
        constants = {
            "four": np.array(4, np.float32),
            "none": np.array(0, np.float32),
            "minus_inf": np.array(-np.inf, np.float32),
            "zero": np.array(0, np.int64),
            "one": np.array(1, np.int64),
            "axis0": np.array([0], np.int64),
            "axis1": np.array([1], np.int64),
        }
        inputs = [
            ("x", FLOAT, ["batch", "seq", sizes.features]),
            ("mask", INT64, ["batch", "seq"]),
            ("labels", INT64, ["batch", "seq"]),
        ]
        outputs = [("loss", FLOAT, []), ("logits", FLOAT, ["batch", sizes.labels, "seq"])]
        return make_model(nodes, inputs, outputs, parameters, constants, 18)

    return Corner("masked-attention", lambda: MaskedAttention(sizes), batch, graph)


def corners(sizes):
    """All corners for these sizes, by name."""
    #     name, rank, weights, ignored label, reduction, reduction by hand, nll, labels, opset
    table = [
        ("sce-mean", 2, True, 1, "mean", None, False, INT32, 13),
        ("sce-sum", 3, True, -100, "sum", None, False, INT64, 18),
        ("sce-none", 3, False, 2, "none", "ReduceMean", False, INT64, 20),
        ("nll-mean", 3, True, -100, "mean", None, True, INT64, 17),
        ("nll-none", 2, True, None, "none", "ReduceSum", True, INT32, 18),
        ("nll-sum", 2, False, 0, "sum", None, True, INT64, 13),
    ]
    made = [loss_corner(row[0], sizes, *row[1:]) for row in table]
    made += [primitive_corner(sizes), masked_attention_corner(sizes)]
    return {c.name: c for c in made}
