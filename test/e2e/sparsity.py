#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes that leave padding and unlabelled rows out: `sparsity.py TRAINC TRAINC_RUN MODELS [I/N | NAME...]`.

For models of several families, each at several densities of tokens and labels, the first loss and all
gradients of the default package are held against those of -O0: within 1e-6 and 3e-6, by the measure
of gradient_errors.py.
Batches that the packed variant cannot run exactly (a mask of other numbers, a sample without a token,
labels at padding) have to be run by the plain one, and say so.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

import safetensors_io
from gradient_errors import gradient_errors

MODELS = ["bert-cls", "bert-mlm", "distilbert-cls", "roberta-cls", "deberta-cls", "gpt2", "llama", "electra-mlm", "qwen3", "phi3", "gemma3",
          "mistral", "qwen2-cls", "gpt2-cls", "mixtral"]
# Batches that the packed variant cannot run.
PLAIN = {"no token", "mask of twos", "label at padding"}
# Those that have no token at position 0, or a label for the padding before the first token, while the
# model takes the one or predicts the other.
PLAIN_LEFT = set(MODELS) - {"bert-mlm", "electra-mlm", "qwen2-cls", "gpt2-cls"}
# Whose packed step has less work even where all is tokens: its windows are counted, and the plain step's mask is not one of windows.
PACKED_WHOLE = {"gemma3", "mistral"}
failures = 0


def check(ok, what):
    global failures
    if not ok:
        failures += 1
        print("FAILED:", what)


def run(command, what):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"{what}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


# The id at padding, where the model finds the last token by it.
PAD_ID = {"qwen2-cls": 0, "gpt2-cls": 0}


def make_batch(rng, like, density, kind, pad):
    """A batch of the shapes of `like`, tokens at the front of the rows (or the end: left padding)."""
    mask_like = like["attention_mask"]
    rows, columns = mask_like.shape
    mask = np.zeros((rows, columns), mask_like.dtype)
    for r in range(rows):
        count = max(1, min(columns, int(round(density * columns + rng.integers(-1, 2)))))
        if density >= 1:
            count = columns
        if kind == "one token" and r == 0:
            count = 1
        if kind == "left":
            mask[r, columns - count :] = 1
        else:
            mask[r, :count] = 1
    if kind == "no token":
        mask[0] = 0
    batch = {}
    for name, array in like.items():
        if name == "attention_mask":
            batch[name] = mask
        elif name == "labels" and array.ndim == 2:
            labels = np.where(mask == 1, array, -100)
            if kind != "all labels":
                labels = np.where(rng.random(labels.shape) < 0.3, labels, -100)
            if kind == "no label":
                labels[:] = -100
            if kind == "label at padding":
                labels = array.copy()
            batch[name] = labels.astype(array.dtype)
        elif array.ndim == 2 and array.shape == mask.shape and name == "input_ids":
            batch[name] = np.where(mask == 1, np.maximum(array, 3), pad).astype(array.dtype)
        else:
            batch[name] = array
    if kind == "mask of twos":
        batch["attention_mask"] = (mask * 2).astype(mask.dtype)
    return batch


def gradients(trainc_run, package, data, out, options=()):
    done = run([trainc_run, package, "--data", data, "--log-format", "json", "--steps", 1, "--dump-gradients", out,
                *options], f"{package.name} on {data.name}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    loss = next(line["loss"] for line in lines if "step" in line)
    summary = next((line for line in lines if line.get("event") == "summary"), {})
    return loss, safetensors_io.load(out), summary.get("variant_batches", 0), done.stdout + done.stderr


def compare(what, plain, packed, noise):
    """`noise`: how far float32 itself is from float64, by PyTorch. Twice that is how far two programs
    may be apart: more than the limit only for what is 0 but for rounding (the gradient of a key's
    bias, which softmax does not see)."""
    loss0, grads0 = plain[:2]
    loss1, grads1 = packed[:2]
    if loss0 is None or loss1 is None:
        check(loss0 == loss1, f"{what}: loss {loss1}, expected {loss0}")
        return
    check(abs(loss1 - loss0) <= 1e-6 * max(1, abs(loss0)), f"{what}: loss {loss1}, expected {loss0}")
    errors = gradient_errors(grads1, grads0)
    for name, error in errors.items():
        check(error <= max(3e-6, 2 * noise[name]), f"{what}: gradient of {name} is off by {error:.2e}")
    print(f"{what}: loss {loss1:.7g} ({abs(loss1 - loss0):.1e}), gradients within {max(errors.values()):.1e}")


def main():
    trainc, trainc_run, models = map(pathlib.Path, sys.argv[1:4])
    names = sys.argv[4:] or MODELS
    if shard := re.fullmatch(r"(\d+)/(\d+)", names[0]):
        names = MODELS[int(shard[1]) :: int(shard[2])]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name in names:
            # A model's batches are the same whichever others run.
            rng = np.random.default_rng([5, MODELS.index(name)])
            like = dict(np.load(models / f"{name}.npz"))
            reference = json.loads((models / f"{name}.ref.json").read_text())
            noise = {n: max(reference[k]["noise"][n] for k in ("data", "other")) for n in reference["data"]["noise"]}
            plain, packed = folder / f"{name}-plain.tpk", folder / f"{name}.tpk"
            run([trainc, models / f"{name}.onnx", "--target", "cpu:native", "-O0", "-o", plain], name)
            run([trainc, models / f"{name}.onnx", "--target", "cpu:native", "-o", packed], name)
            kinds = [(0.1, ""), (0.3, ""), (0.6, "all labels"), (1.0, ""), (0.5, "one token"), (0.5, "left"),
                     (0.5, "no token"), (0.5, "mask of twos")]
            if like["labels"].ndim == 2:
                kinds += [(0.5, "label at padding"), (0.5, "no label")]
            for density, kind in kinds:
                data, out = folder / "data.npz", folder / "gradients.safetensors"
                np.savez(data, **make_batch(rng, like, density, kind, PAD_ID.get(name, 1)))
                what = f"{name}, {density:.0%}{', ' + kind if kind else ''}"
                options = ["--allow-nonfinite"] if kind == "no label" else []
                expected = gradients(trainc_run, plain, data, out, options)
                actual = gradients(trainc_run, packed, data, out, options)
                compare(what, expected, actual, noise)
                packs = (density < 1 or name in PACKED_WHOLE) and kind not in PLAIN and not (kind == "left" and name in PLAIN_LEFT)
                check(bool(actual[2]) == packs, f"{what}: {actual[2]} batches packed")
                # Where nothing was packed, that was the base step.
                if packs:
                    base = gradients(trainc_run, packed, data, out, options + ["--variant", "base"])
                    compare(what + ", base", expected, base, noise)
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
