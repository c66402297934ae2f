# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random batches for the inputs of a program: where tokens lie, and what is at padding."""

import numpy as np

from graph import NUMPY
from tokens import CLASSES, VOCABULARY

SIDES = ["right", "right", "right", "left", "left", "middle", "mixed"]
# What is at padding, or otherwise unusual; most batches have none of it.
ODD = ["no token", "labels at padding", "twos", "numbers at padding", "nothing there", "split documents", "padding is a token", "full", "no token at all",
       "negative", "few labels", "no label"]


def choose(rng):
    pick = lambda options: options[int(rng.integers(len(options)))]
    batch = {"seed": int(rng.integers(1 << 30)), "rows": int(rng.integers(1, 6)), "columns": int(rng.integers(4, 13)), "side": pick(SIDES)}
    batch["rare"] = [name for name, share in (("one full", 0.3), ("one token", 0.6), ("empty span", 0.5), ("span at padding", 0.3),
                                              ("large at padding", 0.25), ("ids at padding", 0.4)) if rng.random() < share]
    if rng.random() < 0.25:
        batch["rare"].append(pick(ODD))
    return batch


def place(rng, batch):
    """[rows, columns], whether there is a token."""
    rows, columns = batch["rows"], batch["columns"]
    real = np.zeros((rows, columns), bool)
    for r in range(rows):
        count = int(rng.integers(1, max(2, columns // 2)))
        if "one full" in batch["rare"] and r == 0 and rows > 2 or "full" in batch["rare"]:
            count = columns
        elif "one token" in batch["rare"] and r == 1:
            count = 1
        elif "no token" in batch["rare"] and r == rows - 1 or "no token at all" in batch["rare"]:
            count = 0
        side = batch["side"] if batch["side"] != "mixed" else ("right", "left", "middle")[r % 3]
        if side == "middle":
            real[r, rng.permutation(columns)[:count]] = True
        elif side == "left":
            real[r, columns - count :] = True
        else:
            real[r, :count] = True
    return real


def number_documents(rng, real, split):
    numbers = np.zeros(real.shape, np.int64)
    for r in range(len(real)):
        places = np.flatnonzero(real[r])
        cuts = np.sort(rng.integers(0, len(places) + 1, 2)) if len(places) > 1 else [0, 0]
        for k, at in enumerate(places):
            numbers[r, at] = 1 + sum(k >= c for c in cuts)
        if split and len(places) > 2:
            numbers[r, places[-1]] = numbers[r, places[0]]
    return numbers


def make(batch, inputs, dtype, permuted=False):
    """Arrays by name; `permuted`: the same rows in another order."""
    rng, rare = np.random.default_rng(batch["seed"]), batch["rare"]
    real = place(rng, batch)
    shape, rows = real.shape, real.shape[0]
    ids = rng.integers(1, VOCABULARY, shape)
    fill = rng.integers(0, VOCABULARY, shape) if "ids at padding" in rare else np.zeros(shape, np.int64)
    if "padding is a token" in rare:  # the padding id among the tokens
        ids[rng.random(shape) < 0.2] = 0
    span = real & (rng.random(shape) < 0.6)
    if "empty span" in rare:
        span[int(rng.integers(rows))] = False
    if "span at padding" in rare:
        span |= ~real & (rng.random(shape) < 0.5)
    labels = np.where(real & (rng.random(shape) < (0.2 if "few labels" in rare else 0.8)) | ("labels at padding" in rare), ids, -100)
    if "no label" in rare:
        labels[:] = -100
    extra = rng.standard_normal(shape)
    if "large at padding" in rare:
        extra = np.where(real, extra, rng.choice([1e4, -1e4, 1e20, -3.0, 0.0, np.inf, np.nan], shape))
    documents = number_documents(rng, real, "split documents" in rare)
    if "numbers at padding" in rare:
        documents = np.where(real, documents, rng.integers(0, 3, shape))
    width = 3 + batch["seed"] % 6
    other = np.arange(width) < np.maximum(1, rng.integers(0, width // 2 + 2, (rows, 1)))
    first = np.where(real.any(1), real.argmax(1), 0)
    last = np.where(real.any(1), shape[1] - 1 - real[:, ::-1].argmax(1), 0)
    arrays = {
        "input_ids": np.where(real, ids, fill),
        "attention_mask": real * (2 if "twos" in rare else -1 if "negative" in rare else 1),
        "span_mask": span,
        "segment_ids": documents,
        "labels": labels,
        "extra": extra,
        "row": rng.standard_normal(rows) + 0.3,
        "classes": rng.integers(0, CLASSES, rows),
        "other_input_ids": np.where(other, rng.integers(1, VOCABULARY, other.shape), 0),
        "other_attention_mask": other,
        "token_type_ids": rng.integers(0, 3, shape),
        "start": first if "nothing there" not in rare else rng.integers(0, shape[1], rows),
        "end": last if "nothing there" not in rare else rng.integers(0, shape[1], rows),
    }
    order = rng.permutation(rows) if permuted else slice(None)
    return {name: np.ascontiguousarray(arrays[name][order].astype(NUMPY[kind])) for name, (kind, _) in inputs.items()}
