# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models of the end-to-end tests, as PyTorch modules (needs torch and transformers).

A `Spec` says how to build a model, draw a batch for it and export it. `zoo(sizes)` gives all of
them for one choice of sizes; other sizes give models that nobody tuned for. Graphs that PyTorch's
exporter does not write (class weights, reductions, masked rows) are in `corners.py`.
"""

import dataclasses
import pathlib
import sys
import typing

import numpy as np
import torch
from torch import nn

IGNORE = -100


@dataclasses.dataclass
class Sizes:
    """Sizes of one zoo; `batch` and `seq` are those of the data, never those of the export."""

    hidden: int = 32
    heads: int = 4
    layers: int = 2
    inter: int = 64
    vocab: int = 101
    labels: int = 3
    batch: int = 6
    seq: int = 11
    features: int = 20
    init: float = 0.1
    seed: int = 1


@dataclasses.dataclass
class Spec:
    """One model: `build()` gives it with dropout as exported, `batch(rng, n, seq)` numpy inputs."""

    name: str
    build: typing.Callable[[], nn.Module]
    batch: typing.Callable[[np.random.Generator, int, int], dict]
    axes: dict  # input name -> {axis: symbol}
    opset: int = 20
    external: bool = False
    dropout: bool = False
    checkpoint: bool = False  # exported by examples/export beside a checkpoint, without its weights


class Mlp(nn.Module):
    """Three layers with LayerNorm, Gelu and Relu, and a cross entropy."""

    def __init__(self, sizes, dropout):
        super().__init__()
        self.fc1 = nn.Linear(sizes.features, sizes.hidden)
        self.norm = nn.LayerNorm(sizes.hidden)
        self.fc2 = nn.Linear(sizes.hidden, sizes.inter)
        self.fc3 = nn.Linear(sizes.inter, sizes.labels)
        self.drop1 = nn.Dropout(dropout)
        self.drop2 = nn.Dropout(dropout)

    def forward(self, x, labels):
        h = self.drop1(nn.functional.gelu(self.norm(self.fc1(x))))
        h = self.drop2(torch.relu(self.fc2(h)))
        logits = self.fc3(h)
        return nn.functional.cross_entropy(logits, labels), logits


class Regression(nn.Module):
    """Two layers; the loss is written in primitive operations (subtract, multiply, mean)."""

    def __init__(self, sizes):
        super().__init__()
        self.fc1 = nn.Linear(sizes.features, sizes.hidden)
        self.fc2 = nn.Linear(sizes.hidden, 2)
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x, target):
        prediction = self.fc2(torch.tanh(self.fc1(x))) * self.scale
        difference = prediction - target
        return (difference * difference).mean(), prediction


def attention_mask(rng, n, seq):
    """Right padding: the first row is full, the others have 2..seq tokens."""
    lengths = rng.integers(2, seq + 1, n)
    lengths[0] = seq
    return (np.arange(seq)[None, :] < lengths[:, None]).astype(np.int64)


def classification_batch(sizes, pad):
    def batch(rng, n, seq):
        mask = attention_mask(rng, n, seq)
        ids = rng.integers(2, sizes.vocab, (n, seq))
        return {
            "input_ids": np.where(mask == 1, ids, pad).astype(np.int64),
            "attention_mask": mask,
            "labels": rng.integers(0, sizes.labels, n).astype(np.int64),
        }

    return batch


def language_batch(sizes):
    def batch(rng, n, seq):
        mask = attention_mask(rng, n, seq)
        ids = np.where(mask == 1, rng.integers(0, sizes.vocab, (n, seq)), 0)
        ignored = (mask == 0) | (rng.random((n, seq)) < 0.1)
        labels = np.where(ignored, IGNORE, ids)
        return {
            "input_ids": ids.astype(np.int64),
            "attention_mask": mask,
            "labels": labels.astype(np.int64),
        }

    return batch


def zoo(sizes):
    """All specs for these sizes, by name."""
    import transformers as tf

    classification_axes = {
        "input_ids": {0: "batch", 1: "seq"},
        "attention_mask": {0: "batch", 1: "seq"},
        "labels": {0: "batch"},
    }
    language_axes = {k: {0: "batch", 1: "seq"} for k in ("input_ids", "attention_mask", "labels")}
    positions = max(sizes.seq, 24) + 8

    def mlp_batch(rng, n, seq):
        return {
            "x": rng.standard_normal((n, sizes.features)).astype(np.float32),
            "labels": rng.integers(0, sizes.labels, n).astype(np.int64),
        }

    def regression_batch(rng, n, seq):
        return {
            "x": rng.standard_normal((n, sizes.features)).astype(np.float32),
            "target": rng.standard_normal((n, 2)).astype(np.float32),
        }

    def bert(attention):
        return tf.BertForSequenceClassification(
            tf.BertConfig(
                vocab_size=sizes.vocab,
                hidden_size=sizes.hidden,
                num_hidden_layers=sizes.layers,
                num_attention_heads=sizes.heads,
                intermediate_size=sizes.inter,
                max_position_embeddings=positions,
                initializer_range=sizes.init,
                num_labels=sizes.labels,
                attn_implementation=attention,
            )
        )

    def roberta():
        return tf.RobertaForSequenceClassification(
            tf.RobertaConfig(
                vocab_size=sizes.vocab,
                hidden_size=sizes.hidden,
                num_hidden_layers=sizes.layers,
                num_attention_heads=sizes.heads,
                intermediate_size=sizes.inter,
                max_position_embeddings=positions + 2,
                initializer_range=sizes.init,
                num_labels=sizes.labels,
                type_vocab_size=1,
                pad_token_id=1,
                bos_token_id=0,
                eos_token_id=2,
            )
        )

    def distilbert():
        return tf.DistilBertForSequenceClassification(
            tf.DistilBertConfig(
                vocab_size=sizes.vocab,
                dim=sizes.hidden,
                n_layers=sizes.layers,
                n_heads=sizes.heads,
                hidden_dim=sizes.inter,
                max_position_embeddings=positions,
                initializer_range=sizes.init,
                num_labels=sizes.labels,
            )
        )

    def qwen2():
        return tf.Qwen2ForCausalLM(
            tf.Qwen2Config(
                vocab_size=sizes.vocab,
                hidden_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                num_key_value_heads=1,
                intermediate_size=24,
                max_position_embeddings=positions,
                initializer_range=sizes.init,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=2,
                tie_word_embeddings=True,
                attn_implementation="eager",
            )
        )

    def gpt2(dropout, attention):
        return tf.GPT2LMHeadModel(
            tf.GPT2Config(
                vocab_size=sizes.vocab,
                n_embd=sizes.hidden,
                n_layer=sizes.layers,
                n_head=sizes.heads,
                n_positions=positions,
                initializer_range=sizes.init,
                resid_pdrop=dropout,
                embd_pdrop=dropout,
                attn_pdrop=dropout,
                bos_token_id=0,
                eos_token_id=0,
                attn_implementation=attention,
            )
        )

    def nanogpt():
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/chargpt"))
        from model import CharGPT

        return CharGPT(sizes.vocab, positions, sizes.hidden, sizes.layers, sizes.heads, 0.1)

    def nanogpt_batch(rng, n, seq):
        ids = rng.integers(0, sizes.vocab, (n, seq + 1))
        return {
            "input_ids": np.ascontiguousarray(ids[:, :-1]),
            "labels": np.ascontiguousarray(ids[:, 1:]),
        }

    mlp_axes = {"x": {0: "batch"}, "labels": {0: "batch"}}
    specs = [
        Spec("mlp", lambda: Mlp(sizes, 0.0), mlp_batch, mlp_axes),
        Spec("mlp-dropout", lambda: Mlp(sizes, 0.2), mlp_batch, mlp_axes, opset=18, dropout=True),
        Spec(
            "mlp-regression",
            lambda: Regression(sizes),
            regression_batch,
            {"x": {0: "batch"}, "target": {0: "batch"}},
            opset=19,
        ),
        Spec(
            "bert-cls",
            lambda: bert("sdpa"),
            classification_batch(sizes, 0),
            classification_axes,
            dropout=True,
        ),
        Spec(
            "bert-cls-eager",
            lambda: bert("eager"),
            classification_batch(sizes, 0),
            classification_axes,
            opset=18,
            dropout=True,
        ),
        Spec(
            "distilbert-cls",
            distilbert,
            classification_batch(sizes, 0),
            classification_axes,
            dropout=True,
        ),
        Spec(
            "roberta-cls",
            roberta,
            classification_batch(sizes, 1),
            classification_axes,
            opset=18,
            dropout=True,
        ),
        Spec("causal-lm", qwen2, language_batch(sizes), language_axes, checkpoint=True),
        Spec("gpt2", lambda: gpt2(0.0, "sdpa"), language_batch(sizes), language_axes, external=True),
        Spec(
            "gpt2-dropout",
            lambda: gpt2(0.1, "eager"),
            language_batch(sizes),
            language_axes,
            opset=19,
            dropout=True,
        ),
        Spec(
            "nanogpt",
            nanogpt,
            nanogpt_batch,
            {k: {0: "batch", 1: "seq"} for k in ("input_ids", "labels")},
            dropout=True,
        ),
    ]
    return {s.name: s for s in specs}
