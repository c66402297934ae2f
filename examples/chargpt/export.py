#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes chargpt.onnx: the character GPT with its loss and first weights. Needs torch and onnx.

  export.py DATA      DATA: the folder written by prepare_data.py (for the vocabulary's size)

`optimize=False` keeps every parameter under its own name, dynamic_shapes names the free sizes, and
metadata_props["trainable"] says what PyTorch would train.
"""

import json
import pathlib
import sys

import onnx
import torch

from model import CharGPT


def main():
    vocabulary = json.loads((pathlib.Path(sys.argv[1]) / "vocabulary.json").read_text())
    path = pathlib.Path(__file__).parent / "chargpt.onnx"
    torch.manual_seed(1)
    model = CharGPT(len(vocabulary)).train()
    # Two different tensors: the exporter takes one tensor given twice for one input used twice.
    batch = {name: torch.randint(0, len(vocabulary), (2, 16)) for name in ("input_ids", "labels")}
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
        dynamic_shapes={name: {0: "batch", 1: "seq"} for name in batch},
    )
    proto = program.model_proto
    names = {tensor.name for tensor in proto.graph.initializer}
    aliases = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        aliases.setdefault(id(parameter), []).append(name)
    trainable = [next(n for n in uses if n in names) for uses in aliases.values()]
    onnx.helper.set_model_props(proto, {"trainable": "\n".join(trainable)})
    for node in proto.graph.node:  # Python stack traces: larger than the graph itself
        del node.metadata_props[:]
    onnx.save(proto, path)
    count = sum(p.numel() for p in model.parameters())
    print(f"{path}: {path.stat().st_size} bytes, {len(proto.graph.node)} nodes, {count} parameters")


if __name__ == "__main__":
    main()
