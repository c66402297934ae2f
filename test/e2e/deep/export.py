#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the models of this folder: `export.py`. Needs torch and transformers.

Two layers each, so that `stretch.py` can make any number of them; and `dense.onnx`, whose blocks are checkpointed and read
what all blocks before them have made: no structure shows where one ends, but the exporter's notes on nodes do.
"""

import pathlib
import sys

import torch
import transformers as tf
from torch import nn
from torch.utils.checkpoint import checkpoint

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
from export_training import export_for_training, write  # noqa: E402

COMMON = dict(vocab_size=101, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
              max_position_embeddings=64, initializer_range=0.1)


class OwnLoss(nn.Module):
    """Cross entropy outside of the model: DeBERTa's own asks for values of the labels."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, labels):
        logits = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        return nn.functional.cross_entropy(logits, labels), logits


class Block(nn.Module):
    def __init__(self, inputs, hidden, shape):
        super().__init__()
        self.first, self.second, self.shape = nn.Linear(inputs, hidden), nn.Linear(hidden, 16), shape

    def forward(self, x):
        return torch.tanh(self.second(self.shape(self.first(x))))


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        shapes = [torch.tanh, torch.sigmoid, nn.functional.gelu, torch.relu]
        self.blocks = nn.ModuleList(Block(16 * (i + 1), 32 + 8 * i, shape) for i, shape in enumerate(shapes))

    def forward(self, x, y):
        made = x
        for block in self.blocks:
            made = torch.cat([made, checkpoint(block, made, use_reentrant=False)], dim=1)
        logits = made[:, -16:]
        return nn.functional.mse_loss(logits, y), logits


def dense():
    rows = {0: "batch"}
    model = Dense().train()
    program = torch.onnx.export(model, (), None, kwargs={"x": torch.randn(4, 16), "y": torch.randn(4, 16)}, dynamo=True,
                                optimize=False, opset_version=20, verbose=False, input_names=["x", "y"],
                                output_names=["loss", "logits"], dynamic_shapes={"x": rows, "y": rows})
    for node in program.model_proto.graph.node:
        kept = [entry for entry in node.metadata_props if entry.key == "pkg.torch.onnx.name_scopes"]
        scopes = kept[0].value if kept else None
        del node.metadata_props[:]
        if scopes:
            node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    for value in [*program.model_proto.graph.value_info, *program.model_proto.graph.input]:
        del value.metadata_props[:]
    del program.model_proto.graph.metadata_props[:]
    write(program.model_proto, model, FOLDER / "dense.onnx", keep_traces=True)


def main():
    torch.manual_seed(1)
    dense()
    ids = torch.randint(3, 101, (4, 9))
    by_token = {0: "batch", 1: "seq"}
    llama = tf.LlamaForCausalLM(tf.LlamaConfig(**COMMON, num_key_value_heads=2))
    export_for_training(llama, {"input_ids": ids, "labels": ids}, {"input_ids": by_token, "labels": by_token},
                        FOLDER / "llama.onnx")
    deberta = OwnLoss(tf.DebertaV2ForSequenceClassification(tf.DebertaV2Config(
        **COMMON, num_labels=3, relative_attention=True, position_buckets=4, max_relative_positions=-1,
        norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False,
        pooler_dropout=0.0, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor([0, 1, 2, 0])}
    export_for_training(deberta, batch, {"input_ids": by_token, "attention_mask": by_token, "labels": {0: "batch"}},
                        FOLDER / "deberta.onnx")


if __name__ == "__main__":
    main()
