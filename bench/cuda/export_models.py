#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the benchmark graphs without weights: `export_models.py FOLDER [CASE...]`.

Modules are built from fake tensors, so that the graph of an 8-billion-parameter model takes a few
hundred megabytes to export and its file a few hundred kilobytes. Initializers are external data in
a file that is never written; trainc compiles such a model, and trainc-run then wants --weights or
--init. Only small buffers (positions, frequencies) are real.

Needs torch, transformers, onnx and onnxscript; runs on a CPU.
"""

import argparse
import dataclasses
import json
import logging
import pathlib
import resource
import time
import warnings

import models


def tiny(case):
    """The same family with next to no parameters; its buffers have the same values. Of layers that
    see windows and those that see all, each kind comes within six."""
    return dataclasses.replace(case, layers=6 if case.window else 1, vocab=64, inter=64)


def build_fake(case):
    """The module with fake parameters and the real constants (buffers, what is not trained) of a
    small one, and the mode to use."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from transformers.initialization import no_init_weights

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    # Some random values are drawn until they suit, which only real ones do.
    with mode, no_init_weights():
        model = models.build(case, "eager")
        # Left out with the initialization, of which it is a part.
        for module in model.modules():
            if hasattr(module, "tie_weights"):
                module.tie_weights()

    def constants(module):
        frozen = {n: p for n, p in module.named_parameters() if not p.requires_grad}
        return dict(module.named_buffers()) | frozen

    if case.family != "mlp":
        small = constants(models.build(tiny(case), "eager"))
        for name, fake in constants(model).items():
            if name not in small or small[name].shape != fake.shape:
                raise SystemExit(f"{case.name}: the constant {name} has no real value")
            owner, _, leaf = name.rpartition(".")
            module = model.get_submodule(owner)
            held = module._buffers if leaf in module._buffers else module._parameters
            held[leaf] = small[name]
    return model, mode, torch


def make_batch(case, torch):
    """Example inputs; every free size differs from all others and from 1."""
    seq = 16 if "seq" in case.sizes else case.seq
    sizes = dataclasses.replace(case, batch=3, seq=seq, target=12)
    return {k: torch.from_numpy(v) for k, v in models.make_data(sizes, 1).items()}


def detach_weights(program, location, onnx_ir):
    """Gives every fake initializer a place in a file that does not exist. Returns its bytes."""
    from torch._subclasses.fake_tensor import FakeTensor

    offset = 0
    for value in program.model.graph.initializers.values():
        tensor = value.const_value
        if not isinstance(getattr(tensor, "raw", None), FakeTensor):
            continue
        value.const_value = onnx_ir.ExternalTensor(
            location, offset, tensor.nbytes, tensor.dtype, shape=tensor.shape, name=value.name
        )
        offset += (tensor.nbytes + 63) // 64 * 64
    return offset


def trainable_names(model, names):
    """Initializers that PyTorch would train; a tied parameter has one of its names, one that nothing reads none."""
    aliases = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        aliases.setdefault(id(parameter), []).append((name, parameter.requires_grad))
    found = (next((n for n, _ in uses if n in names), None) for uses in aliases.values() if uses[0][1])
    return [name for name in found if name]


def export(case, path):
    import onnx
    import onnx_ir

    model, mode, torch = build_fake(case)
    batch = make_batch(case, torch)
    axes = models.axes(case)
    with mode, torch.no_grad():
        program = torch.onnx.export(
            model,
            (),
            None,
            kwargs=batch,
            dynamo=True,
            optimize=False,
            opset_version=20,
            verbose=False,
            input_names=list(batch),
            output_names=["loss", "logits"],
            dynamic_shapes={name: axes[name] for name in batch},
        )
    size = detach_weights(program, path.name + ".data", onnx_ir)
    proto = onnx_ir.to_proto(program.model)
    names = {tensor.name for tensor in proto.graph.initializer}
    onnx.helper.set_model_props(proto, {"trainable": "\n".join(trainable_names(model, names))})
    for node in proto.graph.node:  # Python stack traces: larger than the graph itself
        del node.metadata_props[:]
        node.doc_string = ""
    for value in list(proto.graph.value_info) + list(proto.graph.input):
        del value.metadata_props[:]
    del proto.graph.metadata_props[:]
    path.write_bytes(proto.SerializeToString())
    return len(proto.graph.node), size


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all")
    parser.add_argument("--force", action="store_true", help="also graphs that are there")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    names = arguments.cases or list(models.CASES)
    done = set()
    for name in names:
        case = models.CASES[name]
        path = arguments.folder / f"{case.graph}.onnx"
        if path in done or (path.exists() and not arguments.force):
            continue
        done.add(path)
        begin = time.monotonic()
        nodes, size = export(case, path)
        print(
            json.dumps(
                {
                    "graph": case.graph,
                    "nodes": nodes,
                    "file_bytes": path.stat().st_size,
                    "absent_bytes": size,
                    "seconds": round(time.monotonic() - begin, 1),
                    "max_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
