#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the models of this folder: `export.py`. Needs torch and transformers.

Two layers each, so that `stretch.py` can make any number of them.
"""

import pathlib
import sys

import torch
import transformers as tf
from torch import nn

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
from export_training import export_for_training  # noqa: E402

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


def main():
    torch.manual_seed(1)
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
