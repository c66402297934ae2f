# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Losses of preferences as modules around a causal language model, or around one that scores.

Values are those of TRL's trainers: ORPO (arXiv:2403.07691), SimPO (2405.14734), DPO (2305.18290), KTO (2402.01306) and the
reward model of Bradley and Terry. What a reference model would say comes as an input, computed beforehand.
"""

import torch
from torch.nn import functional

from .errors import ExportError

IGNORED = -100
SIDES = ("chosen", "rejected")
#: What each loss is told beside its inputs, with TRL's defaults.
OPTIONS = {
    "orpo": {"beta": 0.1}, "simpo": {"beta": 2.0, "gamma": 1.0}, "dpo": {"beta": 0.1, "label_smoothing": 0.0},
    "kto": {"beta": 0.1, "desirable_weight": 1.0, "undesirable_weight": 1.0}, "reward": {},
}  # fmt: skip


def log_probabilities(logits, labels):
    """(sum of the labels' log probabilities, number of labels) for each row; logits predict the next token."""
    labels, logits = labels[:, 1:], logits[:, :-1]
    counts = labels != IGNORED
    index = torch.where(counts, labels, 0)
    scores = torch.log_softmax(logits.float(), -1).gather(-1, index.unsqueeze(-1)).squeeze(-1)
    return (scores * counts).sum(-1), counts.sum(-1)


class PreferenceLoss(torch.nn.Module):
    """`inputs` in the order of forward's tensors; outputs by name, the loss first."""

    def __init__(self, model, **options):
        super().__init__()
        self.model = model
        known = OPTIONS[self.name]
        if extra := [name for name in options if name not in known]:
            raise ExportError(f"{self.name} has no setting '{extra[0]}'; it has {', '.join(known) or 'none'}")
        for name, value in {**known, **options}.items():
            setattr(self, name, value)

    def together(self, *sides):
        """Rows of all sides as one batch through the model."""
        ids, mask, labels = (torch.cat(parts) for parts in zip(*sides))
        logits = self.model(input_ids=ids, attention_mask=mask, use_cache=False).logits
        return logits, ids, mask, labels


def _sides(*names, columns=("input_ids", "attention_mask", "labels")):
    return [f"{name}{column}" for name in names for column in columns]


class _Pairs(PreferenceLoss):
    inputs = _sides("chosen_", "rejected_")
    scalars = []
    outputs = ["loss", "chosen_logps", "rejected_logps"]
    averaged = False

    def logps(self, tensors):
        logits, ids, mask, labels = self.together(tensors[:3], tensors[3:6])
        sums, counts = log_probabilities(logits, labels)
        values = (sums / counts if self.averaged else sums).reshape(2, -1)
        return values[0], values[1], logits, ids, mask

    def forward(self, *tensors):
        chosen, rejected, logits, ids, mask = self.logps(tensors)
        return self.loss(chosen, rejected, logits, ids, mask, *tensors[6:]), chosen, rejected


class Orpo(_Pairs):
    name, averaged = "orpo", True

    def loss(self, chosen, rejected, logits, ids, mask):
        odds = (chosen - rejected) - (torch.log1p(-torch.exp(chosen)) - torch.log1p(-torch.exp(rejected)))
        # Of the whole chosen row, prompt and answer.
        rows = ids.shape[0] // 2
        labels = torch.where(mask[:rows] == 1, ids[:rows], IGNORED)[:, 1:]
        likelihood = functional.cross_entropy(
            logits[:rows, :-1].reshape(-1, logits.shape[-1]).float(), labels.reshape(-1), ignore_index=IGNORED
        )
        return likelihood - (self.beta * functional.logsigmoid(odds)).mean()


class Simpo(_Pairs):
    name, averaged = "simpo", True

    def loss(self, chosen, rejected, logits, ids, mask):
        return -functional.logsigmoid(self.beta * (chosen - rejected) - self.gamma).mean()


class Dpo(_Pairs):
    name = "dpo"
    scalars = ["reference_chosen_logps", "reference_rejected_logps"]

    def loss(self, chosen, rejected, logits, ids, mask, reference_chosen, reference_rejected):
        margin = self.beta * ((chosen - reference_chosen) - (rejected - reference_rejected))
        loss = -functional.logsigmoid(margin) * (1 - self.label_smoothing)
        if self.label_smoothing:
            loss = loss - functional.logsigmoid(-margin) * self.label_smoothing
        return loss.mean()


class Kto(PreferenceLoss):
    name = "kto"
    inputs = _sides("", "kl_")
    scalars = ["desirable", "reference_logps", "reference_kl_logps"]
    outputs = ["loss", "logps", "kl_logps"]

    def forward(self, *tensors):
        desirable, reference, reference_kl = tensors[6:]
        logits, _, _, labels = self.together(tensors[:3], tensors[3:6])
        values = log_probabilities(logits, labels)[0].reshape(2, -1)
        logps, kl_logps = values[0], values[1]
        divergence = (kl_logps - reference_kl).mean().clamp(min=0).detach()
        ratio = self.beta * (logps - reference)
        wanted = self.desirable_weight * (1 - torch.sigmoid(ratio - self.beta * divergence))
        unwanted = self.undesirable_weight * (1 - torch.sigmoid(self.beta * divergence - ratio))
        return (desirable * wanted + (1 - desirable) * unwanted).mean(), logps, kl_logps


class Reward(PreferenceLoss):
    name = "reward"
    inputs = _Pairs.inputs
    scalars = []
    outputs = ["loss", "chosen_rewards", "rejected_rewards"]

    def forward(self, *tensors):
        logits, *_ = self.together(tensors[:3], tensors[3:6])
        values = logits.reshape(2, -1)
        return -functional.logsigmoid(values[0] - values[1]).mean(), values[0], values[1]


BY_NAME = {c.name: c for c in (Orpo, Simpo, Dpo, Kto, Reward)}
