#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports a Hugging Face causal language model of any size as a training graph: forward and loss,
without ever having its weights in memory. Needs torch, transformers, onnx and onnxscript.

  causal_lm.py --model FOLDER --output FOLDER/model.onnx
  causal_lm.py --model NAME --dtype bfloat16 --config num_hidden_layers=2 --output model.onnx

FOLDER is what `save_pretrained` writes or the hub holds; NAME is a model of the hub, of which only
the configuration is read. Parameters have the names of the state dict. Where the .safetensors files
of the model are beside the graph or in a folder below it, the graph says where in them each weight
is, and nothing else is needed; else weights are declared but absent, and
`trainc-run --weights FILE.safetensors` gives them.

How: the parameters are fake tensors (a type and a shape) from the moment they are registered, and so
is all that the exporter computes from them; buffers (frequencies of rotary positions) are real.
"""

import argparse
import contextlib
import json
import logging
import math
import pathlib
import struct
import sys
import warnings

import onnx_ir
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from transformers import AutoConfig, AutoModelForCausalLM

#: Types of .safetensors files.
STORED = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
#: Notes of the exporter that trainc reads; the others are Python stack traces, larger than the graph.
NOTES = ("pkg.torch.onnx.fx_node", "pkg.torch.onnx.name_scopes")


class Problem(Exception):
    """What the user can do something about."""


@contextlib.contextmanager
def fake_parameters():
    """Within it, parameters of modules become fake when they are registered. Their memory is never
    written before, so that it costs nothing, and initialization does nothing."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    register = nn.Module.register_parameter

    def register_fake(module, name, parameter):
        # A tied parameter is registered a second time, and stays the same object.
        if parameter is not None and not isinstance(parameter, FakeTensor):
            fake = mode.from_tensor(parameter.detach())
            parameter = nn.Parameter(fake, requires_grad=parameter.requires_grad)
        register(module, name, parameter)

    nn.Module.register_parameter = register_fake
    try:
        yield
    finally:
        nn.Module.register_parameter = register


def read_config(model, overrides=()):
    """The configuration of a folder, of a config.json or of the hub, with KEY=VALUE changes."""
    config = AutoConfig.from_pretrained(model)
    if config.get_text_config() is not config:
        # A model of several kinds of input: its language model alone.
        config = config.get_text_config()
    for override in overrides:
        key, separator, text = override.partition("=")
        if not separator or not hasattr(config, key):
            raise Problem(f"--config {override}: not KEY=VALUE with a key of {type(config).__name__}")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        setattr(config, key, value)
        if key == "num_hidden_layers" and isinstance(getattr(config, "layer_types", None), list):
            config.layer_types = config.layer_types[:value]
    return config


def build(config, dtype, attention="eager"):
    """The model with fake parameters. Eager attention keeps the attention's dropout, which the
    exporter loses within scaled_dot_product_attention."""
    with fake_parameters():
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention)
    return model.train()


class Loss(nn.Module):
    """The mean cross entropy of predicting each next token, but for labels of -100."""

    def __init__(self, model, inputs):
        super().__init__()
        self.model = model
        self.inputs = inputs

    def forward(self, *tensors):
        outputs = self.model(**dict(zip(self.inputs, tensors)), use_cache=False)
        return outputs.loss, outputs.logits


def names_of(model):
    """The aliases of every parameter, tied ones having several; the first is what a checkpoint
    calls it."""
    names = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return list(names.values())


def export(model, mask=True, opset=20):
    """The graph of the loss and the logits, as onnx_ir.Model; batch and sequence are dynamic."""
    ids = torch.zeros(2, 8, dtype=torch.long)
    # Three objects: one tensor in two places would be one input of the graph.
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}
    if not mask:
        del batch["attention_mask"]
    axes = {0: "batch", 1: "seq"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the training mode, and of sizes that share a name
        program = torch.onnx.export(
            Loss(model, list(batch)),
            tuple(batch.values()),
            dynamo=True,
            optimize=False,
            opset_version=opset,
            verbose=False,
            input_names=list(batch),
            output_names=["loss", "logits"],
            dynamic_shapes={"tensors": (axes,) * len(batch)},
        )
    rename(program.model.graph, model)
    strip(program.model)
    return program.model


def rename(graph, model):
    """Initializers get the names of the state dict, tied ones the first that they have there; buffers get
    theirs."""
    for aliases in names_of(model):
        found = [n for n in (f"model.{alias}" for alias in aliases) if n in graph.initializers]
        if len(found) != 1:
            raise Problem(f"the exporter wrote '{aliases[0]}' {len(found)} times, not once")
        value = graph.initializers.pop(found[0])
        value.name = aliases[0]
        graph.initializers[value.name] = value
    # Buffers, too: what is no parameter has the name that the model has for it, not the wrapper's.
    for name, _ in model.named_buffers():
        if f"model.{name}" in graph.initializers and name not in graph.initializers:
            value = graph.initializers.pop(f"model.{name}")
            value.name = name
            graph.initializers[name] = value


def strip(model):
    """Takes out what only describes where in Python each node comes from."""
    model.graph.metadata_props.clear()
    for node in model.graph.all_nodes():
        node.doc_string = None
        for key in [key for key in node.metadata_props if key not in NOTES]:
            del node.metadata_props[key]
        for value in node.outputs:
            value.metadata_props.clear()
    for value in [*model.graph.inputs, *model.graph.initializers.values()]:
        value.metadata_props.clear()


class Checkpoint:
    """Where in the .safetensors files of a folder each tensor is."""

    def __init__(self, folder):
        self.tensors = {}  # name: (file, torch type, shape, offset, bytes)
        index = folder / "model.safetensors.index.json"
        if index.exists():
            names = set(json.loads(index.read_text())["weight_map"].values())
            files = [folder / name for name in sorted(names)]
        else:
            files = sorted(folder.glob("*.safetensors"))
        for path in files:
            if not path.exists():
                raise Problem(f"{index} names {path.name}, which is not there")
            with path.open("rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                header = json.loads(file.read(length))
            for name, entry in header.items():
                if name == "__metadata__":
                    continue
                begin, end = entry["data_offsets"]
                self.tensors[name] = (
                    path.resolve(),
                    STORED.get(entry["dtype"]),
                    tuple(entry["shape"]),
                    8 + length + begin,
                    end - begin,
                )

    def find(self, aliases, prefix):
        """The tensor of the first alias that is there, also without the base model's prefix or with
        that of a language model within another one; None if there is none."""
        for name in aliases:
            for form in (name, name.removeprefix(f"{prefix}."), f"language_model.{name}"):
                if form in self.tensors:
                    return self.tensors[form]
        return None


def refer(graph, model, checkpoint, output):
    """Makes every parameter external data: a place in the checkpoint's files, if these are where
    trainc may read them (in the graph's folder or below it), else in a file that is not there.
    Returns why they are absent, or None."""
    folder = output.parent.resolve()
    places, problems, reason = {}, [], None
    for aliases in names_of(model):
        value = graph.initializers[aliases[0]]
        shape, dtype = tuple(value.const_value.raw.shape), value.const_value.raw.dtype
        place = checkpoint.find(aliases, model.base_model_prefix) if checkpoint else None
        if not checkpoint:
            reason = reason or "there are no .safetensors files in --model"
        elif place is None:
            problems.append(f"'{aliases[0]}' is missing")
        elif place[2] != shape:
            problems.append(f"'{aliases[0]}' has shape {list(place[2])}, expected {list(shape)}")
        elif place[1] != dtype:
            reason = reason or f"'{aliases[0]}' is {place[1]} there, and {dtype} in the graph"
        elif not place[0].is_relative_to(folder):
            reason = reason or f"{place[0].parent} is not in the folder of {output}"
        places[aliases[0]] = place
    if problems:
        shown = "\n  ".join(problems[:10]) + ("\n  ..." if len(problems) > 10 else "")
        raise Problem(f"the weights do not fit the configuration:\n  {shown}")

    end = 0
    for name, place in places.items():
        value = graph.initializers[name]
        if reason:
            size = math.prod(value.shape.numpy()) * value.const_value.raw.dtype.itemsize
            location, offset = f"{output.name}.absent", end
            end += size
        else:
            location, offset, size = str(place[0].relative_to(folder)), place[3], place[4]
        value.const_value = onnx_ir.ExternalTensor(
            location, offset, size, value.dtype, shape=value.shape, name=name, base_dir=folder
        )
    return reason


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="folder, config.json, or name on the hub")
    parser.add_argument("--output", required=True, type=pathlib.Path, metavar="MODEL.onnx")
    parser.add_argument("--dtype", choices=list(TYPES), help="default: the configuration's")
    parser.add_argument("--config", nargs="+", default=[], metavar="KEY=VALUE", help="changes of it")
    parser.add_argument("--attention", choices=["eager", "sdpa"], default="eager")
    parser.add_argument("--no-attention-mask", action="store_true", help="no row has padding")
    arguments = parser.parse_args()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    try:
        config = read_config(arguments.model, arguments.config)
        dtype = TYPES.get(arguments.dtype) or getattr(config, "dtype", None) or torch.float32
        folder = pathlib.Path(arguments.model)
        folder = folder if folder.is_dir() else folder.parent if folder.is_file() else None
        checkpoint = Checkpoint(folder) if folder and any(folder.glob("*.safetensors")) else None
        model = build(config, dtype, arguments.attention)
        program = export(model, mask=not arguments.no_attention_mask)
        reason = refer(program.graph, model, checkpoint, arguments.output)
    except Problem as problem:
        print(f"causal_lm.py: error: {problem}", file=sys.stderr)
        return 1
    names = [aliases[0] for aliases in names_of(model)]
    program.metadata_props["trainable"] = "\n".join(names)
    arguments.output.write_bytes(onnx_ir.to_proto(program).SerializeToString())
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{arguments.output}: {len(names)} parameters of {count:,} numbers, {dtype}")
    if reason:
        print(f"the weights are absent, as {reason}; trainc-run --weights FILE.safetensors gives them")
    else:
        print(f"the weights stay in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
