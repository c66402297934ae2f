#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes graphs that hold their gradients, as PyTorch exports them, with reference numbers.

  joint_graphs.py [--out DIR]       the committed ones, into models/ beside this file

`torch.export.experimental` traces forward and backward as one program. The ONNX exporter writes
only that program's own outputs, so it is exported again as a module of its parameters, which gives
an output `grad/NAME` for each, and `update/NAME` for each buffer that a step changes. What the
exporter has no translation of becomes a gradient operator of ONNX Runtime. Needs torch,
transformers, onnx and onnxscript.
"""

import argparse
import dataclasses
import inspect
import json
import pathlib
import sys
import warnings

import numpy as np
import onnx
import onnxscript
import torch
from torch import nn
from torch.export.experimental import _export_forward_backward
from torch.export.graph_signature import InputKind, OutputKind

import make_references
import reference
import vision
import zoo


class PooledNet(nn.Module):
    """Convolutions, a batch normalization and a pool of maxima."""

    def __init__(self, labels):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 5, 3, padding=1)
        self.norm = nn.BatchNorm2d(5)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.conv2 = nn.Conv2d(5, 6, 3, stride=2, bias=False)
        self.out = nn.Linear(6, labels)

    def forward(self, pixel_values, labels):
        h = self.pool(self.norm(self.conv1(pixel_values)).relu())
        logits = self.out(self.conv2(h).relu().mean((2, 3)))
        return nn.functional.cross_entropy(logits, labels), logits


def keywords(names, function):
    """`function(**inputs)` with these keywords as its signature."""

    def forward(**inputs):
        return function(**inputs)

    forward.__signature__ = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    )
    return forward


def trace(model, batch, axes, most):
    """The program of `model(**batch)`, forward and backward; its outputs are loss and logits."""
    original = model.forward

    def outputs(**inputs):
        out = original(**inputs)
        loss, logits = (out.loss, out.logits) if hasattr(out, "loss") else out
        return loss, logits.detach()

    model.forward = keywords(batch, outputs)
    dims = {}
    shapes = {
        name: {
            axis: dims.setdefault(symbol, torch.export.Dim(symbol, min=2, max=most[symbol]))
            for axis, symbol in axes[name].items()
        }
        for name in batch
    }
    program = torch.export.export(model, (), kwargs=batch, dynamic_shapes=shapes, strict=False)
    model.forward = original
    return _export_forward_backward(program, joint_loss_index=0)


class Joint(torch.nn.Module):
    """A traced program over its parameters, which are called t0, t1, ... here."""

    def __init__(self, program, inputs):
        super().__init__()
        self.graph_module = program.graph_module
        self.kinds = [spec.kind for spec in program.graph_signature.input_specs]
        self.inputs = list(inputs)
        self.original = {}
        values = {**program.state_dict, **program.constants}
        for i, spec in enumerate(program.graph_signature.input_specs):
            if spec.kind != InputKind.USER_INPUT:
                self.original[f"t{i}"] = spec.target
                self.register_buffer(f"t{i}", values[spec.target].detach().clone())
        self.forward = keywords(inputs, self.run)

    def run(self, **inputs):
        given = iter(self.inputs)
        return tuple(
            self.graph_module(
                *(
                    inputs[next(given)] if kind == InputKind.USER_INPUT else getattr(self, f"t{i}")
                    for i, kind in enumerate(self.kinds)
                )
            )
        )


def gradient_op(domain, name, inputs, outputs, attributes):
    """A gradient operator of ONNX Runtime, as the exporter calls operators."""
    schema = onnx.defs.OpSchema
    kinds = {int: schema.AttrType.INT, list: schema.AttrType.INTS}
    one = lambda k, kind: schema.FormalParameter(k, kind)
    opset = onnxscript.values.Opset(domain, 1 if domain else 9)
    definition = schema(
        name, domain, opset.version,
        inputs=[one(k, kind) for k, kind in inputs], outputs=[one(k, "T") for k in outputs],
        type_constraints=[("T", ["tensor(float)"], ""), ("I", ["tensor(int64)"], "")],
        attributes=[schema.Attribute(k, kinds[type(v)], required=False) for k, v in attributes.items()],
    )
    return onnxscript.values.Op(opset, name, definition)


def convolution_backward(
    grad, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask
):
    attributes = {
        "kernel_shape": list(weight.shape)[2:], "strides": list(stride), "pads": [*padding, *padding],
        "dilations": list(dilation), "group": groups,
    }
    if transposed:
        attributes["output_padding"] = list(output_padding)
    op = gradient_op(
        "com.microsoft", "ConvTransposeGrad" if transposed else "ConvGrad",
        [("dY", "T"), ("X", "T"), ("W", "T")], ["dX", "dW", "dB"], attributes,
    )
    return op(grad, x, weight, **attributes)


def max_pool_backward(grad, x, kernel, stride, padding, dilation, ceil_mode, indices):
    """The exporter counts positions within a channel: the pool is done again for ONNX's indices."""
    attributes = {
        "kernel_shape": list(kernel), "strides": list(stride or kernel), "pads": [*padding, *padding],
        "dilations": list(dilation), "ceil_mode": int(ceil_mode),
    }
    _, places = onnxscript.opset20.MaxPool(x, **attributes)
    op = gradient_op("", "MaxPoolGrad", [("dY", "T"), ("Indices", "I")], ["dX"], attributes)
    return op(grad, places, **attributes)


def batch_norm(x, weight, bias, mean, variance, training, momentum, eps):
    """By the batch; the exporter's own translation normalises by the running statistics."""
    op = onnxscript.opset20
    axes = op.Constant(value_ints=[0, *range(2, len(x.shape))])
    column = op.Constant(value_ints=[-1, *[1] * (len(x.shape) - 2)])
    spread = lambda v: op.Reshape(v, column)
    now = op.ReduceMean(x, axes, keepdims=0)
    centred = op.Sub(x, spread(now))
    biased = op.ReduceMean(op.Mul(centred, centred), axes, keepdims=0)
    deviation = op.Reciprocal(op.Sqrt(op.Add(biased, op.Constant(value_float=eps))))
    count = op.CastLike(op.Size(op.Gather(op.Transpose(x, perm=[1, 0, *range(2, len(x.shape))]), 0)), x)
    unbiased = op.Mul(biased, op.Div(count, op.Sub(count, op.Constant(value_float=1.0))))
    keep, add = op.Constant(value_float=1 - momentum), op.Constant(value_float=momentum)
    move = lambda old, new: op.Add(op.Mul(old, keep), op.Mul(new, add))
    y = op.Add(op.Mul(op.Mul(centred, spread(deviation)), spread(weight)), spread(bias))
    return y, now, deviation, move(mean, now), move(variance, unbiased)


TRANSLATIONS = {
    torch.ops.aten._native_batch_norm_legit_functional.default: batch_norm,
    torch.ops.aten.convolution_backward.default: convolution_backward,
    torch.ops.aten.max_pool2d_with_indices_backward.default: max_pool_backward,
}


def export_joint(model, batch, axes, path, most):
    """Writes the graph; returns the names of what is trained."""
    program = trace(model, batch, axes, most)
    names = []
    for spec in program.graph_signature.output_specs:
        if spec.kind == OutputKind.LOSS_OUTPUT:
            names.append("loss")
        elif spec.kind == OutputKind.GRADIENT_TO_PARAMETER:
            names.append(f"grad/{spec.target}")
        elif spec.kind == OutputKind.BUFFER_MUTATION:
            names.append(f"update/{spec.target}")
        else:
            names.append("logits")
    joint = Joint(program, batch)
    proto = torch.onnx.export(
        joint, (), None, kwargs=batch, dynamo=True, optimize=False, opset_version=20,
        verbose=False, input_names=list(batch), output_names=names,
        dynamic_shapes={name: axes[name] for name in batch}, custom_translation_table=TRANSLATIONS,
    ).model_proto
    for tensor in proto.graph.initializer:
        tensor.name = joint.original.get(tensor.name, tensor.name)
    for node in proto.graph.node:
        for i, value in enumerate(node.input):
            node.input[i] = joint.original.get(value, value)
        del node.metadata_props[:]
        node.doc_string = ""
    del proto.graph.value_info[:]
    for value in proto.graph.input:
        del value.metadata_props[:]
    del proto.graph.metadata_props[:]
    onnx.save(proto, path)
    path.chmod(0o644)
    return [name[len("grad/") :] for name in names if name.startswith("grad/")]


def make(name, spec, sizes, out):
    torch.manual_seed(sizes.seed)
    model = reference.without_dropout(spec.build())
    make_references.perturb(model, sizes.seed)
    if hasattr(model, "config"):
        model.config.use_cache = False
    rng = np.random.default_rng(sizes.seed)
    example = {k: torch.from_numpy(v) for k, v in spec.batch(rng, 2, 8).items()}
    batches = [spec.batch(rng, sizes.batch, sizes.seq) for _ in range(make_references.BATCHES)]
    other = spec.batch(rng, sizes.batch // 2 + 1, sizes.seq + 6)
    most = {"batch": 4096, "seq": max(sizes.seq, 24) + 8}
    names = export_joint(model, example, spec.axes, out / f"{name}.onnx", most)
    data = {k: np.concatenate([b[k] for b in batches]) for k in batches[0]}
    np.savez_compressed(out / f"{name}.npz", **data)
    np.savez_compressed(out / f"{name}.other.npz", **other)
    curves = ("adamw", "adamw-clip-accumulate", "sgd-momentum")
    numbers, arrays = reference.reference(model, names, batches, other, curves=curves)
    numbers = {"model": name, "dropout": False, **numbers}
    (out / f"{name}.ref.json").write_text(json.dumps(numbers, indent=1) + "\n")
    np.savez_compressed(out / f"{name}.ref.npz", **arrays)
    print(f"{name}: loss {numbers['data']['loss64']:.6f}, {len(names)} gradients", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "models")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    sizes = dataclasses.replace(zoo.Sizes(), hidden=16, heads=2, layers=1, inter=24, vocab=40)
    specs = zoo.zoo(sizes)
    make("mlp-joint", specs["mlp"], sizes, arguments.out)
    make("bert-joint", specs["bert-cls-eager"], sizes, arguments.out)
    by_image = {"pixel_values": {0: "batch"}, "labels": {0: "batch"}}
    net = zoo.Spec(
        "cnn", lambda: PooledNet(sizes.labels), vision.image_batch(sizes, side=9), by_image
    )
    make("cnn-joint", net, sizes, arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
