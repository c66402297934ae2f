#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes moons.onnx: a small classifier of points in the plane, with its loss. Needs torch and onnx."""

import pathlib

import onnx
import torch
from torch import nn


class Moons(nn.Module):
    """forward(points [batch, 2], labels [batch]) gives (loss, logits)."""

    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 2)
        )

    def forward(self, points, labels):
        logits = self.layers(points)
        return nn.functional.cross_entropy(logits, labels), logits


def main():
    torch.manual_seed(1)
    model = Moons().train()
    batch = {"points": torch.randn(4, 2), "labels": torch.randint(0, 2, (4,))}
    program = torch.onnx.export(
        model,
        (),
        None,
        kwargs=batch,
        dynamo=True,
        optimize=False,
        opset_version=20,
        input_names=list(batch),
        output_names=["loss", "logits"],
        dynamic_shapes={name: {0: "batch"} for name in batch},
    )
    proto = program.model_proto
    onnx.helper.set_model_props(proto, {"trainable": "\n".join(n for n, _ in model.named_parameters())})
    for node in proto.graph.node:  # Python stack traces: larger than the graph itself
        del node.metadata_props[:]
    onnx.save(proto, pathlib.Path(__file__).parent / "moons.onnx")


if __name__ == "__main__":
    main()
