#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes that leave padding and unlabelled rows out: `sparsity.py TRAINC TRAINC_RUN MODELS [NAME...]`.

For models of several families, each at several densities of tokens and labels, the first loss and all
gradients of the default package are held against those of -O0: within 1e-6 and 3e-6 of the largest.
Batches that the packed variant cannot run exactly (a mask of other numbers, a sample without a token,
labels at padding) have to be run by the plain one, and say so.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import safetensors_io

MODELS = ["bert-cls", "bert-mlm", "distilbert-cls", "roberta-cls", "deberta-cls", "gpt2", "llama", "electra-mlm"]
# Whether the variant has to be used: where not, the reason is the model's own.
PACKS = {"bert-cls", "bert-mlm", "distilbert-cls", "roberta-cls", "gpt2", "llama", "electra-mlm"}
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


def make_batch(rng, like, density, kind):
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
            batch[name] = np.where(mask == 1, np.maximum(array, 3), 1).astype(array.dtype)
        else:
            batch[name] = array
    if kind == "mask of twos":
        batch["attention_mask"] = (mask * 2).astype(mask.dtype)
    return batch


def gradients(trainc_run, package, data, out, options=()):
    done = run([trainc_run, package, "--data", data, "--log-format", "json", "--steps", 1, "--dump-gradients", out,
                *options], f"{package.name} on {data.name}")
    loss = next(json.loads(line)["loss"] for line in done.stdout.splitlines() if '"step"' in line)
    return loss, safetensors_io.load(out), done.stdout + done.stderr


def compare(what, plain, packed):
    loss0, grads0, _ = plain
    loss1, grads1, _ = packed
    if loss0 is None or loss1 is None:
        check(loss0 == loss1, f"{what}: loss {loss1}, expected {loss0}")
        return
    check(abs(loss1 - loss0) <= 1e-6 * max(1, abs(loss0)), f"{what}: loss {loss1}, expected {loss0}")
    largest = max(float(np.abs(g).max()) for g in grads0.values())
    worst = 0.0
    for name, expected in grads0.items():
        scale = max(float(np.abs(expected).max()), 1e-2 * largest, 1e-30)
        error = float(np.abs(grads1[name] - expected).max()) / scale
        worst = max(worst, error)
        check(error <= 3e-6, f"{what}: gradient of {name} is off by {error:.2e}")
    print(f"{what}: loss {loss1:.7g} ({abs(loss1 - loss0):.1e}), gradients within {worst:.1e}")


def main():
    trainc, trainc_run, models = map(pathlib.Path, sys.argv[1:4])
    names = sys.argv[4:] or MODELS
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name in names:
            like = dict(np.load(models / f"{name}.npz"))
            plain, packed = folder / f"{name}-plain.tpk", folder / f"{name}.tpk"
            run([trainc, models / f"{name}.onnx", "--target", "cpu", "-O0", "-o", plain], name)
            run([trainc, models / f"{name}.onnx", "--target", "cpu", "-o", packed], name)
            kinds = [(0.1, ""), (0.3, ""), (0.7, "all labels"), (1.0, ""), (0.5, "one token"), (0.5, "left"),
                     (0.5, "no token"), (0.5, "mask of twos")]
            if like["labels"].ndim == 2:
                kinds += [(0.5, "label at padding"), (0.5, "no label")]
            for density, kind in kinds:
                data, out = folder / "data.npz", folder / "gradients.safetensors"
                np.savez(data, **make_batch(rng, like, density, kind))
                what = f"{name}, {density:.0%}{', ' + kind if kind else ''}"
                options = ["--allow-nonfinite"] if kind == "no label" else []
                expected = gradients(trainc_run, plain, data, out, options)
                actual = gradients(trainc_run, packed, data, out, options)
                compare(what, expected, actual)
                compare(what + ", base", expected, gradients(trainc_run, packed, data, out, options + ["--variant", "base"]))
    return failures != 0


sys.exit(main())
