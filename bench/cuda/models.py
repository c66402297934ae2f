# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The measured models: sizes, inputs and data, by case name; `families.py` and
`convnets.py` say what they are.

Both sides use this file: `export_models.py` writes the graphs, `peer_torch.py` trains the same
modules, and `run.py` makes their data. torch and transformers are imported only where a module is
built, so that sizes and data need no more than numpy.
"""

import dataclasses

import convnets
import families
import numpy as np

IGNORE = -100
#: Frames of a sample of speech, two of which make a position.
FRAMES = 3000


@dataclasses.dataclass(frozen=True)
class Case:
    """One benchmark. `density` below 1 means padded rows and an attention_mask input."""

    name: str
    family: str  # of families.py or convnets.py, or mlp
    batch: int
    seq: int
    hidden: int
    layers: int
    heads: int
    inter: int
    vocab: int
    kv_heads: int = 0
    head_dim: int = 0
    window: int = 0  # positions that layers with local attention see
    target: int = 0  # tokens of a translation
    image: int = 0  # pixels of a side
    tied: bool = False
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
        both = self.family in ("bert-mlm", "gpt2")
        plain = "-nodropout" if both and not self.dropout else ""
        sizes = f"{self.hidden}x{self.layers}"
        return f"{self.family}-{sizes}{heavy}{plain}"

    @property
    def inputs(self):
        if self.family in convnets.FAMILIES:
            return "noise" if self.family == convnets.UNET else "images"
        return "rows" if self.family == "mlp" else families.FAMILIES[self.family].inputs

    @property
    def sizes(self):
        """The named sizes of the graph's inputs."""
        used = {name for names in axes(self).values() for name in names.values()}
        all_sizes = {"batch": self.batch, "seq": self.seq, "target": self.target}
        return {name: size for name, size in all_sizes.items() if name in used}


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


def _image(name, batch, image, hidden=0):
    """Of torchvision, or the U-Net of `hidden` channels."""
    return Case(
        name, name, batch, 1, hidden, 0, 0, 0, 0, image=image, labels=1000, dropout=0.0, seconds=240,
    )  # fmt: skip


def _decoder(name, family, batch, seq, hidden, layers, heads, kv_heads, inter, vocab, **more):
    return Case(
        name, family, batch, seq, hidden, layers, heads, inter, vocab, kv_heads=kv_heads,
        positions=8192, dropout=0.0, precision="pure-bf16", seconds=240, **more,
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
        _decoder("llama-1b", "llama", 4, 2048, 2048, 16, 32, 8, 8192, 128256, tied=True),
        _decoder("llama-8b", "llama", 1, 2048, 4096, 32, 32, 8, 14336, 128256),
        _decoder("qwen3-0.6b", "qwen3", 4, 2048, 1024, 28, 16, 8, 3072, 151936, tied=True,
                 head_dim=128),
        _decoder("gemma3-1b", "gemma3", 2, 2048, 1152, 26, 4, 1, 6912, 262144, tied=True,
                 head_dim=256, window=512),
        Case("t5-base", "t5", 16, 512, 768, 12, 12, 3072, 32128, target=128),
        Case("vit-b16", "vit", 128, 197, 768, 12, 12, 3072, 0, image=224, labels=1000, dropout=0.0),
        Case("modernbert-base", "modernbert", 16, 1024, 768, 22, 12, 1152, 50368, window=128,
             positions=8192, dropout=0.0, labelled=0.3),
        Case("whisper-small", "whisper", 16, 448, 768, 12, 12, 3072, 51865, positions=448,
             dropout=0.0),
        _image("resnet50", 256, 224),
        _image("convnext-t", 128, 224),
        _image("efficientnet-b0", 128, 224),
        _image("unet", 16, 64, hidden=128),
        # Small ones for comparisons of numbers.
        _small("small-bert", "bert-mlm", 0.1, 0.15),
        _small("small-bert-nodropout", "bert-mlm", 0.0, 0.15),
        _small("small-gpt2", "gpt2", 0.1, 1.0),
        _small("small-gpt2-nodropout", "gpt2", 0.0, 1.0),
        Case("small-llama", "llama", 8, 64, 128, 8, 4, 512, 1024, kv_heads=2, positions=64,
             dropout=0.0, precision="pure-bf16"),
        Case("small-gemma3", "gemma3", 8, 64, 128, 6, 4, 512, 1024, kv_heads=2, head_dim=32,
             window=16, tied=True, positions=64, dropout=0.0, precision="pure-bf16"),
        Case("small-qwen3", "qwen3", 8, 64, 128, 6, 4, 512, 1024, kv_heads=2, head_dim=32,
             tied=True, positions=64, dropout=0.0, precision="pure-bf16"),
    ]
}  # fmt: skip


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
    if case.family in convnets.FAMILIES:
        return convnets.build(case).train()
    return _mlp(case).train() if case.family == "mlp" else families.build(case, attention)


def is_maskless(case):
    """Whether attention needs no mask but "causal"."""
    family = families.FAMILIES.get(case.family)
    return case.density == 1.0 and not (family and family.windows)


def axes(case):
    """Names of the free sizes: {input: {axis: name}}."""
    row, token = {0: "batch"}, {0: "batch", 1: "seq"}
    first = {"rows": "x", "images": "pixel_values", "speech": "input_features"}
    if case.inputs == "noise":
        return {"pixel_values": row, "steps": row, "noise": row}
    if case.inputs in ("rows", "images"):
        return {first[case.inputs]: row, "labels": row}
    if case.inputs == "speech":
        # Whisper compares the length with that of its table, which leaves it no name.
        return {first[case.inputs]: row, "labels": row}
    if case.inputs == "translation":
        return {"input_ids": token, "labels": {0: "batch", 1: "target"}}
    result = {"input_ids": token}
    if case.density < 1.0:
        result["attention_mask"] = token
    result["labels"] = row if case.family.endswith("cls") else token
    return result


def make_data(case, batches, seed=1):
    """Arrays with `batches` batches, one for each input of the graph."""
    rng = np.random.default_rng(seed)
    rows = batches * case.batch
    if case.inputs in ("rows", "images"):
        name, shape = "x", (case.vocab,)
        if case.inputs == "images":
            name, shape = "pixel_values", (3, case.image, case.image)
        return {
            name: rng.standard_normal((rows, *shape), dtype=np.float32),
            "labels": rng.integers(0, case.labels, rows),
        }
    if case.inputs == "noise":
        shape = (rows, 3, case.image, case.image)
        return {
            "pixel_values": rng.standard_normal(shape, dtype=np.float32),
            "steps": rng.integers(0, 1000, rows),
            "noise": rng.standard_normal(shape, dtype=np.float32),
        }
    if case.inputs == "speech":
        return {
            "input_features": rng.standard_normal((rows, 80, FRAMES), dtype=np.float32),
            "labels": rng.integers(4, case.vocab, (rows, case.seq)),
        }
    if case.inputs == "translation":
        return {
            "input_ids": rng.integers(4, case.vocab, (rows, case.seq)),
            "labels": rng.integers(4, case.vocab, (rows, case.target)),
        }
    return make_tokens(case, rng, rows)


def make_tokens(case, rng, rows):
    """Rows of tokens, with padding behind them where the case is not dense."""
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
