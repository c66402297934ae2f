#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains chargpt.onnx's weights in PyTorch as quickstart does: writes reference.json.

  reference.py DATA [--steps N]     DATA: the folder written by prepare_data.py

Same first weights, batches, steps, AdamW and clipping, dropout off; the loss on the held-out text
before and after. Needs torch and onnx; quickstart only reads the result.
"""

import argparse
import hashlib
import json
import pathlib
import time

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from model import CharGPT

HERE = pathlib.Path(__file__).parent


def evaluate(model, data, batch):
    """Mean loss over the batches, each weighted by its rows."""
    total, rows = 0.0, len(data["input_ids"])
    with torch.no_grad():
        for i in range(0, rows, batch):
            part = {k: v[i : i + batch] for k, v in data.items()}
            total += model(**part)[0].item() * len(part["input_ids"])
    return total / rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--clip-norm", type=float, default=1.0)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "reference.json")
    arguments = parser.parse_args()

    def load(name):
        arrays = np.load(arguments.data / name)
        return {k: torch.from_numpy(arrays[k].astype(np.int64)) for k in arrays.files}

    proto = onnx.load(HERE / "chargpt.onnx")
    weights = {t.name: torch.tensor(numpy_helper.to_array(t)) for t in proto.graph.initializer}
    vocabulary = json.loads((arguments.data / "vocabulary.json").read_text())
    model = CharGPT(len(vocabulary), dropout=0.0)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name in weights:
            parameter.data.copy_(weights[name])
    train, valid = load("train.npz"), load("valid.npz")
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)
    before = evaluate(model, valid, arguments.batch_size)
    print(f"held-out loss before: {before:.5f}", flush=True)
    losses, begin = [], time.time()
    for step in range(arguments.steps):
        rows = slice(step * arguments.batch_size, (step + 1) * arguments.batch_size)
        optimizer.zero_grad()
        loss = model(train["input_ids"][rows], train["labels"][rows])[0]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), arguments.clip_norm)
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % 100 == 0:
            elapsed = time.time() - begin
            held = evaluate(model, valid, arguments.batch_size)
            print(f"step {step + 1}: {loss.item():.4f}, held out {held:.4f}, {elapsed:.0f} s", flush=True)
    after = evaluate(model, valid, arguments.batch_size)
    digest = hashlib.sha256((arguments.data / "train.npz").read_bytes()).hexdigest()
    result = {
        "steps": arguments.steps,
        "batch_size": arguments.batch_size,
        "lr": arguments.lr,
        "clip_norm": arguments.clip_norm,
        "heldout_before": before,
        "heldout_after": after,
        "losses_every_100": losses[99::100],
        "train_npz_sha256": digest,
        "torch": torch.__version__,
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"held-out loss after: {after:.5f}")


if __name__ == "__main__":
    main()
