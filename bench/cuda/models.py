# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The measured models: configuration, input shapes, data and cost, by case name.

Both sides use this file: `export_models.py` writes the graphs, `peer_torch.py` trains the same
modules, and `run.py` makes their data and works out the limit. torch and transformers are imported
only where a module is built, so that sizes and data need no more than numpy.
"""

import dataclasses

import numpy as np

IGNORE = -100
#: Speeds that limits are computed with. The first two were measured on an H200: a device copy, an
#: 8192 cubed matmul. The third is an assumption, between what fused attention reaches at short and
#: at long sequences; no measurement stands behind it yet.
COPY_BYTES_PER_S = 4.28e12
GEMM_FLOPS = 770e12
ATTENTION_FLOPS = 300e12


@dataclasses.dataclass(frozen=True)
class Case:
    """One benchmark. `density` below 1 means padded rows and an attention_mask input."""

    name: str
    family: str  # bert-mlm | bert-cls | roberta-cls | deberta-mlm | gpt2 | llama | mlp
    batch: int
    seq: int
    hidden: int
    layers: int
    heads: int
    inter: int
    vocab: int
    kv_heads: int = 0
    positions: int = 512
    labels: int = 2
    dropout: float = 0.1
    density: float = 1.0
    labelled: float = 1.0  # part of the tokens that have a label
    precision: str = "bf16"
    seconds: int = 150  # what run.py allows each mode of a peer

    @property
    def graph(self):
        """Name of the exported graph; cases that differ only in sizes share one."""
        heavy = "" if self.density == 1.0 else "-padded"
        plain = "" if self.dropout or self.family in ("llama", "mlp") else "-nodropout"
        sizes = f"{self.hidden}x{self.layers}"
        return f"{self.family}-{sizes}{heavy}{plain}"


def _bert_large(name, batch, seq, density):
    return Case(
        name, "bert-mlm", batch, seq, 1024, 24, 16, 4096, 30522, density=density, labelled=0.15
    )


def _gpt2(name, batch, seq, hidden, layers, heads, dropout):
    return Case(
        name, "gpt2", batch, seq, hidden, layers, heads, 4 * hidden, 50257,
        positions=1024, dropout=dropout, seconds=240,
    )  # fmt: skip


def _small(name, family, dropout, labelled):
    return Case(
        name, family, 8, 64, 128, 2, 2, 512, 1024, positions=64, dropout=dropout, labelled=labelled
    )


def _llama(name, batch, seq, hidden, layers, heads, kv_heads, inter):
    return Case(
        name, "llama", batch, seq, hidden, layers, heads, inter, 128256, kv_heads=kv_heads,
        positions=8192, dropout=0.0, precision="pure-bf16", seconds=240,
    )  # fmt: skip


CASES = {
    case.name: case
    for case in [
        Case("toy", "bert-cls", 8, 32, 128, 1, 2, 512, 30522),
        Case("mlp", "mlp", 256, 1, 1024, 3, 1, 1024, 784, labels=10, dropout=0.0),
        Case("minilm", "bert-cls", 8, 128, 384, 6, 12, 1536, 30522),
        Case("minilm-padded", "bert-cls", 32, 128, 384, 6, 12, 1536, 30522, density=0.3),
        Case("roberta-base", "roberta-cls", 64, 256, 768, 12, 12, 3072, 50265,
             positions=514, density=0.3),
        Case("deberta-base", "deberta-mlm", 32, 256, 768, 12, 12, 3072, 128100, labelled=0.15),
        _bert_large("bert-large-64x128", 64, 128, 1.0),
        _bert_large("bert-large-16x512", 16, 512, 1.0),
        _bert_large("bert-large-64x128-padded", 64, 128, 0.3),
        _bert_large("bert-large-16x512-padded", 16, 512, 0.3),
        _gpt2("gpt2", 16, 1024, 768, 12, 12, 0.1),
        _gpt2("gpt2-nodropout", 16, 1024, 768, 12, 12, 0.0),
        _gpt2("gpt2-xl", 8, 1024, 1600, 48, 25, 0.1),
        _gpt2("gpt2-xl-nodropout", 8, 1024, 1600, 48, 25, 0.0),
        _llama("llama-1b", 4, 2048, 2048, 16, 32, 8, 8192),
        _llama("llama-8b", 1, 2048, 4096, 32, 32, 8, 14336),
        # Small ones for comparisons of numbers.
        _small("small-bert", "bert-mlm", 0.1, 0.15),
        _small("small-bert-nodropout", "bert-mlm", 0.0, 0.15),
        _small("small-gpt2", "gpt2", 0.1, 1.0),
        _small("small-gpt2-nodropout", "gpt2", 0.0, 1.0),
    ]
}  # fmt: skip


def config(case):
    """The Hugging Face configuration of a case (none for the MLP)."""
    import transformers

    bert = dict(
        vocab_size=case.vocab,
        hidden_size=case.hidden,
        num_hidden_layers=case.layers,
        num_attention_heads=case.heads,
        intermediate_size=case.inter,
        max_position_embeddings=case.positions,
        hidden_dropout_prob=case.dropout,
        attention_probs_dropout_prob=case.dropout,
        num_labels=case.labels,
    )
    if case.family in ("bert-mlm", "bert-cls"):
        return transformers.BertConfig(**bert)
    if case.family == "roberta-cls":
        return transformers.RobertaConfig(
            **bert, classifier_dropout=case.dropout, type_vocab_size=1, layer_norm_eps=1e-5
        )
    if case.family == "deberta-mlm":
        return transformers.DebertaV2Config(
            **bert,
            type_vocab_size=0,
            relative_attention=True,
            max_relative_positions=-1,
            position_buckets=256,
            norm_rel_ebd="layer_norm",
            share_att_key=True,
            pos_att_type=["p2c", "c2p"],
            position_biased_input=False,
            layer_norm_eps=1e-7,
        )
    if case.family == "gpt2":
        return transformers.GPT2Config(
            vocab_size=case.vocab,
            n_positions=case.positions,
            n_embd=case.hidden,
            n_layer=case.layers,
            n_head=case.heads,
            n_inner=case.inter,
            resid_pdrop=case.dropout,
            embd_pdrop=case.dropout,
            attn_pdrop=case.dropout,
            bos_token_id=None,
            eos_token_id=None,
            use_cache=False,
        )
    if case.family == "llama":
        return transformers.LlamaConfig(
            vocab_size=case.vocab,
            hidden_size=case.hidden,
            num_hidden_layers=case.layers,
            num_attention_heads=case.heads,
            num_key_value_heads=case.kv_heads,
            intermediate_size=case.inter,
            max_position_embeddings=case.positions,
            tie_word_embeddings=case.hidden == 2048,
            bos_token_id=None,
            eos_token_id=None,
            use_cache=False,
        )
    raise ValueError(f"{case.name}: no configuration for the family {case.family}")


def _mlp(case):
    import torch
    from torch import nn

    class Mlp(nn.Module):
        """Three linear layers with ReLU and a cross entropy."""

        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(case.vocab, case.hidden)
            self.fc2 = nn.Linear(case.hidden, case.hidden)
            self.fc3 = nn.Linear(case.hidden, case.labels)

        def forward(self, x, labels):
            logits = self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))
            return nn.functional.cross_entropy(logits, labels), logits

    return Mlp()


def build(case, attention):
    """The module with random weights. attention: the implementation's name, eager for exports."""
    import transformers

    if case.family == "mlp":
        return _mlp(case).train()
    classes = {
        "bert-mlm": transformers.BertForMaskedLM,
        "bert-cls": transformers.BertForSequenceClassification,
        "roberta-cls": transformers.RobertaForSequenceClassification,
        "deberta-mlm": transformers.DebertaV2ForMaskedLM,
        "gpt2": transformers.GPT2LMHeadModel,
        "llama": transformers.LlamaForCausalLM,
    }
    settings = config(case)
    settings._attn_implementation = "eager" if case.family == "deberta-mlm" else attention
    return classes[case.family](settings).train()


def axes(case):
    """Names of the free sizes: {input: {axis: name}}."""
    if case.family == "mlp":
        return {"x": {0: "batch"}, "labels": {0: "batch"}}
    token = {0: "batch", 1: "seq"}
    result = {"input_ids": token}
    if case.density < 1.0:
        result["attention_mask"] = token
    result["labels"] = {0: "batch"} if case.family.endswith("cls") else token
    return result


def make_data(case, batches, seed=1):
    """Arrays with `batches` batches, one for each input of the graph."""
    rng = np.random.default_rng(seed)
    rows = batches * case.batch
    if case.family == "mlp":
        return {
            "x": rng.standard_normal((rows, case.vocab), dtype=np.float32),
            "labels": rng.integers(0, case.labels, rows),
        }
    shape = (rows, case.seq)
    # Ids start above the special tokens: 1 is RoBERTa's padding, which shifts positions.
    ids = rng.integers(4, case.vocab, shape)
    data = {"input_ids": ids}
    real = np.ones(shape, bool)
    if case.density < 1.0:
        # Lengths between 1/10 of the mean density and twice it, so that the mean is the density.
        low, high = 0.1 * case.density, 1.9 * case.density
        lengths = np.clip(np.rint(rng.uniform(low, high, rows) * case.seq), 1, case.seq)
        real = np.arange(case.seq)[None, :] < lengths[:, None]
        data["input_ids"] = np.where(real, ids, 1 if case.family == "roberta-cls" else 0)
        data["attention_mask"] = real.astype(np.int64)
    if case.family.endswith("cls"):
        data["labels"] = rng.integers(0, case.labels, rows)
    else:
        labelled = real & (rng.random(shape) < case.labelled)
        data["labels"] = np.where(labelled, rng.integers(4, case.vocab, shape), IGNORE)
        if case.labelled == 1.0:
            data["labels"] = np.where(real, ids, IGNORE)
    return {name: np.ascontiguousarray(value, np.int64) for name, value in data.items()}


def parameter_count(case):
    """(parameters of matmuls in the layers, of the vocabulary projection, of all else)."""
    h, inter, vocab = case.hidden, case.inter, case.vocab
    if case.family == "mlp":
        return vocab * h + h * h + h * case.labels, 0, 2 * h + case.labels
    if case.family == "llama":
        kv = h * case.kv_heads // case.heads
        body = case.layers * (2 * h * h + 2 * h * kv + 3 * h * inter)
        tied = case.hidden == 2048
        return body, vocab * h, (0 if tied else vocab * h) + (2 * case.layers + 1) * h
    body = case.layers * (4 * h * h + 2 * h * inter)
    small = case.layers * (4 * h + h + inter + 4 * h) + 2 * h
    if case.family == "gpt2":
        return body, vocab * h, case.positions * h + small
    if case.family.endswith("cls"):
        head = h * h + h * case.labels
        return body + head, 0, vocab * h + (case.positions + 2) * h + small
    return body + h * h, vocab * h, (case.positions + 2) * h + small + vocab


def limit(case, real_tokens=False):
    """Milliseconds that no step can go below on the machine of the constants above, by part.

    Matmuls at GEMM speed, attention at what the library reaches, optimizer, loss and
    embedding bytes at copy speed. Elementwise traffic is not in it. real_tokens counts only tokens
    that are not padding and only labelled rows of the vocabulary projection.
    """
    body, head, rest = parameter_count(case)
    density = case.density if real_tokens else 1.0
    tokens = case.batch * case.seq * density
    rows = tokens * (case.labelled if real_tokens else 1.0)
    gemm = 6.0 * (body * tokens + head * rows)
    attention = 0.0
    if case.family != "mlp":
        causal = 0.5 if case.family in ("gpt2", "llama") else 1.0
        pairs = case.batch * (case.seq * density) ** 2 * causal
        # Two matmuls forward, five backward (one of them computes the scores again).
        attention = 14.0 * pairs * case.hidden * case.layers
    parameters = body + head + rest
    # AdamW: parameter and two moments read and written, gradient read; the low copy written.
    optimizer = parameters * (14 if case.precision == "pure-bf16" else 30)
    loss = 4.0 * rows * case.vocab if head else 0.0  # bf16 logits written and read once
    embedding = 12.0 * tokens * case.hidden if case.family != "mlp" else 0.0
    parts = {
        "gemm": gemm / GEMM_FLOPS,
        "attention": attention / ATTENTION_FLOPS,
        "bytes": (optimizer + loss + embedding) / COPY_BYTES_PER_S,
    }
    return {name: 1e3 * seconds for name, seconds in parts.items()}
