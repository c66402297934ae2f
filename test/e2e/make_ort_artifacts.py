#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the training artifacts of ONNX Runtime that the end-to-end tests use, with its losses.

  make_ort_artifacts.py export DIR             forward graphs; needs torch, transformers, onnx
  make_ort_artifacts.py artifacts DIR [OUT]    needs onnxruntime-training 1.19.2, onnx 1.16.2, numpy 1.26

The second step makes a folder for each model, in models/ort/ beside this file: what
generate_artifacts writes (of the large ones without eval_model.onnx, which trainc does not read),
data.npz, and losses.json with the losses of ONNX Runtime and how it was run. Dropout is in the
graphs; the losses are those without.
"""

import json
import pathlib
import shutil
import sys
import tempfile
import types

import numpy as np

STEPS, BATCHES, BATCH = 20, 4, 6
#: How each model is trained: loss and optimizer by their names in onnxruntime.training, what the
#: artifacts freeze, and what trainc has to be told of sizes.
MODELS = {
    "mlp": {"loss": "CrossEntropyLoss", "optimizer": "AdamW", "frozen": []},
    "mlp-sgd": {"loss": "MSELoss", "optimizer": "SGD", "frozen": ["fc1.weight", "fc1.bias"]},
    "mlp-clip": {"loss": "CrossEntropyLoss", "optimizer": "clip", "frozen": []},
    "mlp-bce": {"loss": "BCEWithLogitsLoss", "optimizer": "AdamW", "frozen": []},
    "mlp-l1": {"loss": "L1Loss", "optimizer": "AdamW", "frozen": []},
    "mlp-resumed": {"loss": "CrossEntropyLoss", "optimizer": "AdamW", "frozen": [], "done": 8},
    "cnn": {"loss": "CrossEntropyLoss", "optimizer": "AdamW", "frozen": []},
    "resnet": {"loss": "CrossEntropyLoss", "optimizer": "SGD", "frozen": []},
    "mlp-qat": {"loss": "CrossEntropyLoss", "optimizer": "AdamW", "frozen": [], "quantized": True},
    "lstm": {"loss": "CrossEntropyLoss", "optimizer": "AdamW", "frozen": []},
    "gru": {"loss": "CrossEntropyLoss", "optimizer": "AdamW", "frozen": [], "dims": ["seq=1..9"]},
    "bert": {"loss": "CrossEntropyLoss", "optimizer": "AdamW", "frozen": []},
    "gpt2": {"loss": None, "optimizer": "AdamW", "frozen": []},
    "llama": {"loss": None, "optimizer": "AdamW", "frozen": []},
}


def data_of(name, rng):
    """All batches of a model, one after the other."""
    rows, seq, vocab = BATCH * BATCHES, 9, 40
    if name.startswith("mlp"):
        data = {"x": rng.standard_normal((rows, 20)).astype(np.float32)}
        if MODELS[name]["loss"] in ("MSELoss", "L1Loss"):
            return {**data, "target": rng.standard_normal((rows, 3)).astype(np.float32)}
        if MODELS[name]["loss"] == "BCEWithLogitsLoss":
            return {**data, "target": rng.integers(0, 2, (rows, 3)).astype(np.float32)}
        return {**data, "labels": rng.integers(0, 3, rows).astype(np.int64)}
    if name == "resnet":
        images = rng.standard_normal((rows, 3, 13, 11)).astype(np.float32)
        return {"x": images, "labels": rng.integers(0, 3, rows).astype(np.int64)}
    if name == "cnn":
        images = rng.standard_normal((rows, 2, 7, 7)).astype(np.float32)
        return {"x": images, "labels": rng.integers(0, 3, rows).astype(np.int64)}
    if name in ("lstm", "gru"):
        ids = rng.integers(0, vocab, (rows, 7)).astype(np.int64)
        return {"ids": ids, "labels": rng.integers(0, 3, rows).astype(np.int64)}
    ids = rng.integers(2, vocab, (rows, seq)).astype(np.int64)
    lengths = rng.integers(3, seq + 1, rows)
    lengths[::BATCH] = seq
    mask = (np.arange(seq)[None, :] < lengths[:, None]).astype(np.int64)
    ids = np.where(mask == 1, ids, 0)
    if name == "bert":
        # Given, since ONNX Runtime's gradient of positions that are the same for all samples is that of
        # the first sample alone.
        positions = np.tile(np.arange(seq, dtype=np.int64), (rows, 1))
        labels = rng.integers(0, 3, rows).astype(np.int64)
        return {
            "input_ids": ids, "attention_mask": mask, "position_ids": positions, "labels": labels
        }
    labels = np.where(mask == 1, ids, -100).astype(np.int64)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


# ---- step 1


def residual_net():
    """A stem with a pool of maxima, and two blocks, one that makes the image smaller."""
    from torch import nn

    class Block(nn.Module):
        def __init__(self, channels, filters, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(channels, filters, 3, stride, 1, bias=False)
            self.norm1 = nn.BatchNorm2d(filters)
            self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
            self.norm2 = nn.BatchNorm2d(filters)
            self.down = nn.Identity()
            if stride > 1:
                down = nn.Conv2d(channels, filters, 1, stride, bias=False)
                self.down = nn.Sequential(down, nn.BatchNorm2d(filters))

        def forward(self, x):
            y = self.norm1(self.conv1(x)).relu()
            return (self.norm2(self.conv2(y)) + self.down(x)).relu()

    stem = [nn.Conv2d(3, 5, 3, padding=1, bias=False), nn.BatchNorm2d(5), nn.ReLU()]
    blocks = [nn.MaxPool2d(3, 2, 1), Block(5, 5, 1), Block(5, 7, 2), nn.MaxPool2d(2)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(7, 3))


def recurrent_net(kind):
    """A layer that reads embeddings from a state that is trained, and all that it leaves."""
    import torch
    from torch import nn

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(40, 6)
            self.layer = getattr(nn, kind)(6, 5)
            states = 2 if kind == "LSTM" else 1
            self.first = nn.ParameterList(torch.randn(1, 1, 5) for _ in range(states))
            self.head = nn.Linear(5, 3)

        def forward(self, ids):
            first = [state.expand(1, ids.shape[0], 5) for state in self.first]
            y, last = self.layer(self.embed(ids.t()), tuple(first) if kind == "LSTM" else first[0])
            last = sum(last) if kind == "LSTM" else last
            return self.head(y.mean(0) + last[0])

    return Recurrent()


def build(name):
    """The model, a function of its inputs for the exporter, and which inputs these are."""
    import torch
    import transformers as tf
    from torch import nn

    torch.manual_seed(0)
    if name.startswith("mlp"):
        layers = [nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 3)]
        if name == "mlp-sgd":
            layers[1], layers[3] = nn.Tanh(), nn.Sigmoid()
        model = nn.Sequential()
        for i, layer in enumerate(layers):
            model.add_module(f"fc{i // 2 + 1}" if i % 2 == 0 else f"act{i // 2 + 1}", layer)
        return model, ["x"]
    if name == "resnet":
        return residual_net(), ["x"]
    if name in ("lstm", "gru"):
        return recurrent_net(name.upper()), ["ids"]
    if name == "cnn":
        layers = [
            nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(),
            nn.Conv2d(4, 6, 3, stride=2, groups=2, bias=False), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3),
        ]
        return nn.Sequential(*layers), ["x"]
    common = {"vocab_size": 40, "attn_implementation": "eager"}
    if name == "bert":
        config = tf.BertConfig(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24,
            max_position_embeddings=16, num_labels=3, **common,
        )
        inputs = ["input_ids", "attention_mask", "position_ids"]
        return tf.BertForSequenceClassification(config), inputs
    if name == "gpt2":
        config = tf.GPT2Config(
            n_embd=16, n_layer=1, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=1, **common
        )
        return tf.GPT2LMHeadModel(config), ["input_ids", "attention_mask", "labels"]
    config = tf.LlamaConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        intermediate_size=24, max_position_embeddings=16, **common,
    )
    return tf.LlamaForCausalLM(config), ["input_ids", "attention_mask", "labels"]


def export(out):
    import onnx
    import torch

    out.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        model, inputs = build(name)
        with torch.no_grad():
            generator = torch.Generator().manual_seed(1)
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.05)
        model.train()
        if hasattr(model, "config"):
            model.config.use_cache = False
        data = data_of(name, np.random.default_rng(0))
        batch = tuple(torch.from_numpy(data[k][:BATCH]) for k in inputs)

        class Module(torch.nn.Module):
            """Only the output that counts."""

            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, *arguments):
                if len(inputs) == 1:
                    return self.model(*arguments)
                result = self.model(**dict(zip(inputs, arguments)))
                return result.loss if "labels" in inputs else result.logits

        output = "loss" if "labels" in inputs else "logits"
        axes = {k: {0: "batch", 1: "seq"} if k != "x" else {0: "batch"} for k in inputs}
        if output == "logits":
            axes[output] = {0: "batch"}
        if name == "lstm":
            axes["ids"] = {0: "batch"}
        path = out / f"{name}.onnx"
        torch.onnx.export(
            Module(), batch, str(path), dynamo=False, opset_version=15, input_names=inputs,
            output_names=[output], dynamic_axes=axes, do_constant_folding=False,
            training=torch.onnx.TrainingMode.TRAINING,
        )
        graph = onnx.load(path)
        for node in graph.graph.node:
            node.doc_string = ""
            for i, value in enumerate(node.input):
                node.input[i] = value.removeprefix("model.")
        for tensor in graph.graph.initializer:
            tensor.name = tensor.name.removeprefix("model.")
        onnx.save(graph, path)
        print(f"{name}: {len(graph.graph.node)} nodes, {len(graph.graph.initializer)} initializers")


# ---- step 2


def without_dropout(model):
    """A copy of a training model in which no Dropout drops anything."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    zero = onnx.numpy_helper.from_array(np.zeros((), np.float32), "no_dropout")
    for node in copy.graph.node:
        if node.op_type == "Dropout":
            node.input[1] = zero.name
        elif node.op_type == "DropoutGrad":
            node.input[2] = zero.name
    copy.graph.initializer.append(zero)
    return copy


def quantize(model):
    """Simulates 8 bits for both factors of every product: QuantizeLinear and DequantizeLinear."""
    import onnx
    from onnx import helper

    nodes = []
    for node in model.graph.node:
        for i in range(2 if node.op_type == "Gemm" else 0):
            # ONNX Runtime's fusion cannot read a zero point in raw_data.
            kind, zero = (onnx.TensorProto.INT8, 0) if i else (onnx.TensorProto.UINT8, 100)
            name = f"{node.input[i]}.quantized"
            model.graph.initializer.extend([
                helper.make_tensor(f"{name}.scale", onnx.TensorProto.FLOAT, [], [0.004 if i else 0.02]),
                helper.make_tensor(f"{name}.zero", kind, [], [zero]),
            ])
            how = [f"{name}.scale", f"{name}.zero"]
            nodes.append(helper.make_node("QuantizeLinear", [node.input[i], *how], [name]))
            nodes.append(helper.make_node("DequantizeLinear", [name, *how], [f"{name}.real"]))
            node.input[i] = f"{name}.real"
        nodes.append(node)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    return model


def artifacts(source, out):
    # It wants torch only for optimizers that are not used here.
    sys.modules.setdefault(
        "onnxruntime.training.optim", types.ModuleType("onnxruntime.training.optim")
    )
    import onnx
    import onnxruntime.training.onnxblock as onnxblock
    from onnxruntime.training import artifacts as generator
    from onnxruntime.training.api import CheckpointState, Module, Optimizer

    for name, plan in MODELS.items():
        model = onnx.load(source / f"{name}.onnx")
        floats = [t.name for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
        buffers = ("inv_freq", "running_mean", "running_var")
        frozen = plan["frozen"] + [n for n in floats if n.endswith(buffers)]
        trained = [n for n in floats if n not in frozen]
        if plan.get("quantized"):
            model = quantize(model)
        folder = out / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        optimizer = (
            onnxblock.optim.AdamW(
                bias_correction=False, weight_decay=0.05, eps=1e-5,
                clip_grad=onnxblock.optim.ClipGradNorm(0.25),
            )
            if plan["optimizer"] == "clip"
            else generator.OptimType[plan["optimizer"]]
        )
        generator.generate_artifacts(
            model, requires_grad=trained, frozen_params=frozen, optimizer=optimizer,
            loss=generator.LossType[plan["loss"]] if plan["loss"] else None,
            artifact_directory=str(folder), nominal_checkpoint=name == "mlp",
        )
        data = data_of(name, np.random.default_rng(0))
        np.savez_compressed(folder / "data.npz", **data)
        with tempfile.TemporaryDirectory() as scratch:
            exact = pathlib.Path(scratch) / "training_model.onnx"
            onnx.save(without_dropout(onnx.load(folder / "training_model.onnx")), exact)
            state = CheckpointState.load_checkpoint(str(folder / "checkpoint"))
            module = Module(str(exact), state)
            update = Optimizer(str(folder / "optimizer_model.onnx"), module)
            update.set_learning_rate(2e-3)
            order = module.input_names()
            batches = [
                [data[k][i * BATCH : (i + 1) * BATCH] for k in order] for i in range(BATCHES)
            ]
            module.train()
            losses = []
            done = plan.get("done", 0)
            for i in range(done + STEPS):
                if done and i == done:
                    CheckpointState.save_checkpoint(
                        state, str(folder / "checkpoint"), include_optimizer_state=True
                    )
                losses.append(float(module(*batches[i % BATCHES])))
                update.step()
                module.lazy_reset_grad()
        result = {
            "batch_size": BATCH, "lr": 2e-3, "losses": losses[done:], "done": done,
            "trained": len(trained), "frozen": len(frozen), "dims": plan.get("dims", []),
        }
        (folder / "losses.json").write_text(json.dumps(result, indent=1) + "\n")
        if name != "mlp" and (folder / "eval_model.onnx").exists():
            (folder / "eval_model.onnx").unlink()
        for file in folder.iterdir():
            file.chmod(0o644)
        size = sum(file.stat().st_size for file in folder.iterdir())
        nodes = onnx.load(folder / "training_model.onnx").graph.node
        kinds = sorted({n.op_type for n in nodes if n.domain == "com.microsoft"})
        print(f"{name}: {len(nodes)} nodes, {size} bytes, losses {losses[0]:.6f} {losses[-1]:.6f}")
        print(f"    {' '.join(kinds)}", flush=True)


def main():
    step, folder, *rest = sys.argv[1:]
    if step == "export":
        export(pathlib.Path(folder))
    else:
        here = pathlib.Path(__file__).resolve().parent / "models" / "ort"
        artifacts(pathlib.Path(folder), pathlib.Path(rest[0]) if rest else here)


if __name__ == "__main__":
    main()
