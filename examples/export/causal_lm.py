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
`trainc-run --weights FILE.safetensors` gives them. `trainc.pretrained` does it.
"""

import argparse
import pathlib
import sys

try:
    from trainc import pretrained
except ModuleNotFoundError:  # from the source tree
    project = pathlib.Path(__file__).resolve().parents[2] / "python"
    sys.path[:0] = [str(project / "trainc"), str(project / "trainrt")]
    from trainc import pretrained
from trainc.errors import ExportError


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="folder, config.json, or name on the hub")
    parser.add_argument("--output", required=True, type=pathlib.Path, metavar="MODEL.onnx")
    parser.add_argument("--dtype", choices=list(pretrained.TYPES), help="default: the configuration's")
    parser.add_argument("--config", nargs="+", default=[], metavar="KEY=VALUE", help="changes of it")
    parser.add_argument("--attention", choices=["eager", "sdpa"], default="eager")
    parser.add_argument("--no-attention-mask", action="store_true", help="no row has padding")
    parser.add_argument("--packed", action="store_true",
                        help="several documents in a row: inputs segment_ids and position_ids instead of attention_mask")  # fmt: skip
    arguments = parser.parse_args()
    try:
        exported = pretrained.export(
            arguments.model, arguments.output, dtype=arguments.dtype, overrides=arguments.config,
            attention=arguments.attention, mask=not arguments.no_attention_mask, packed=arguments.packed,
        )  # fmt: skip
    except ExportError as problem:
        print(f"causal_lm.py: error: {problem}", file=sys.stderr)
        return 1
    print(f"{exported.path}: {len(exported.parameters)} parameters of {exported.count:,} numbers, {exported.dtype}")
    if exported.absent:
        print(f"the weights are absent, as {exported.absent}; trainc-run --weights FILE.safetensors gives them")
    else:
        print(f"the weights stay in {arguments.model}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
