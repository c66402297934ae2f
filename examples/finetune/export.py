#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes minilm.onnx: a MiniLM classifier with its loss. Needs torch, transformers and onnx.

  export.py CONFIG      CONFIG: the model's folder, or its config.json

This is the snippet for a model of your own; `optimize=False` keeps every parameter under its own
name, dynamic_shapes names the free sizes, and metadata_props["trainable"] says what to train. Load
yours with `from_pretrained` and leave out the last part: here the weights are declared as external
data of a file that is not kept, since `trainc-run --weights` brings them.
"""

import pathlib
import sys

import onnx
import torch
from onnx.external_data_helper import set_external_data
from transformers import AutoConfig, AutoModelForSequenceClassification


def main():
    path = pathlib.Path(__file__).parent / "minilm.onnx"
    torch.manual_seed(1)
    # Dropout within scaled dot product attention is lost in the exporter: "eager" keeps it.
    config = AutoConfig.from_pretrained(sys.argv[1], num_labels=2)
    model = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager").train()
    ids = torch.randint(0, 1000, (2, 16))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor([0, 1])}
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
        dynamic_shapes={
            "input_ids": {0: "batch", 1: "seq"},
            "attention_mask": {0: "batch", 1: "seq"},
            "labels": {0: "batch"},
        },
    )
    proto = program.model_proto
    trainable = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    onnx.helper.set_model_props(proto, {"trainable": "\n".join(trainable)})
    for item in [*proto.graph.node, *proto.graph.value_info, *proto.graph.input, proto.graph]:
        del item.metadata_props[:]  # Python stack traces: larger than the graph itself

    offset = 0
    for tensor in proto.graph.initializer:
        if tensor.name in trainable:
            length = 4 * int(torch.tensor(list(tensor.dims)).prod())
            tensor.raw_data = bytes(1)  # what set_external_data asks for
            set_external_data(tensor, "minilm.onnx.data", offset, length)
            tensor.ClearField("raw_data")
            offset += length
    path.write_bytes(proto.SerializeToString())
    print(f"{path}: {path.stat().st_size} bytes, {len(proto.graph.node)} nodes, {len(trainable)} parameters")


if __name__ == "__main__":
    main()
