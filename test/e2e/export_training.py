# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a PyTorch module as a training graph: forward and loss, every parameter by its own name.

Needs torch and onnx. `optimize=False` matters: the optimizer of the exporter merges parameters
that happen to be equal, folds transposes into nameless copies and drops Dropout.
"""

import io
import pathlib
import subprocess
import sys
import tempfile

import onnx
import torch

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def export_for_training(model, batch, axes, path, opset=20, external=False, keep_traces=False):
    """Exports `model(**batch)`, whose first outputs are loss and logits, to `path`.

    batch: dict of tensors, every dynamic size at least 2; axes: {input: {axis: name}}.
    external: weights go to a file of the same name ending in .data. Stack traces are stripped
    unless keep_traces.
    """
    path = pathlib.Path(path)
    model.train()
    if hasattr(model, "config"):
        model.config.use_cache = False
    program = torch.onnx.export(
        model,
        (),
        None,
        kwargs=batch,
        dynamo=True,
        optimize=False,
        opset_version=opset,
        verbose=False,
        input_names=list(batch),
        output_names=["loss", "logits"],
        dynamic_shapes={name: axes.get(name, {}) for name in batch},
    )
    return write(program.model_proto, model, path, external, keep_traces)


def export_by_position(model, batch, axes, path, opset=20, exporter="dynamo"):
    """The same for `model(*batch.values())`, by the dynamo or the TorchScript exporter."""
    model.train()
    arguments = tuple(batch.values())
    common = dict(opset_version=opset, input_names=list(batch), output_names=["loss", "logits"])
    if exporter == "dynamo":
        shapes = {"arguments": tuple(axes.get(name, {}) for name in batch)}
        program = torch.onnx.export(
            model, arguments, None, dynamo=True, optimize=False, verbose=False,
            dynamic_shapes=shapes, **common,
        )
        return write(program.model_proto, model, pathlib.Path(path))
    file = io.BytesIO()
    torch.onnx.export(
        model, arguments, file, dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False, dynamic_axes=axes, **common,
    )
    return write(onnx.load_from_string(file.getvalue()), model, pathlib.Path(path))


def export_beside_checkpoint(model, path):
    """A Hugging Face causal language model by examples/export/causal_lm.py: its weights become
    NAME.safetensors, and the graph refers to them; returns the names of what is trained."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        model.save_pretrained(folder)
        weights = pathlib.Path(folder, "model.safetensors").rename(
            pathlib.Path(folder, path.with_suffix(".safetensors").name)
        )
        out = pathlib.Path(folder, path.name)
        script = EXAMPLES / "export" / "causal_lm.py"
        subprocess.run([sys.executable, script, "--model", folder, "--output", out], check=True)
        for file in (weights, out):
            file.replace(path.with_name(file.name))
    return onnx_list(path)


def onnx_list(path):
    """The names in the model's list of what is trained."""
    properties = onnx.load(path, load_external_data=False).metadata_props
    return next(p.value for p in properties if p.key == "trainable").split("\n")


def write(proto, model, path, external=False, keep_traces=False):
    """Writes the graph with the names of what is trained in its metadata; returns these."""
    names = {tensor.name for tensor in proto.graph.initializer}
    alias = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        alias.setdefault(id(parameter), []).append((name, parameter.requires_grad))
    trainable = [next(n for n, _ in uses if n in names) for uses in alias.values() if uses[0][1]]
    onnx.helper.set_model_props(proto, {"trainable": "\n".join(trainable)})
    if not keep_traces:
        for node in proto.graph.node:
            del node.metadata_props[:]
            node.doc_string = ""
        for value in list(proto.graph.value_info) + list(proto.graph.input):
            del value.metadata_props[:]
        del proto.graph.metadata_props[:]
    if external:
        # The exporter's tensors may be views; onnx.save moves their bytes to the side file.
        data = path.with_suffix(".onnx.data").name
        path.with_name(data).unlink(missing_ok=True)
        onnx.save(
            proto, path, save_as_external_data=True, location=data, size_threshold=256
        )
    else:
        onnx.save(proto, path)
    return trainable
