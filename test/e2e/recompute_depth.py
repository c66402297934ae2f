#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers are found in exports, whatever their depth: `recompute_depth.py TRAINC`.

BERT, GPT-2, Llama and DeBERTa, as exported, with 6, 12 and 24 layers: with `level:1` the activations of a step take at most
the layers' inputs and what a model of one layer takes, kept or computed again, plus 5 %.
"""

import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

import onnx
from stretch import stretch

FOLDER = pathlib.Path(__file__).resolve().parent
# With the numbers that a layer passes on for each row: a norm at its end keeps its mean and deviation, too.
WIDTH = 32
MODELS = {"models/bert-cls": WIDTH + 2, "models/gpt2": WIDTH, "deep/llama": WIDTH, "deep/deberta": WIDTH + 2}
DEPTHS = (6, 12, 24)
BATCH, TOKENS = 8, 32
# Rows without a label, padding, and all but one token of the last layer are left out where they can be: other models.
OPTIONS = ["--no-eliminate-padding", "--no-exploit-label-sparsity", "--no-hoist-slices", "--stop-after", "codegen", "--report"]


def activations(trainc, model, *options):
    command = [trainc, model, "--target", "cpu:native", *OPTIONS, *options, "--dim", f"batch={BATCH}"]
    for more in (["--dim", f"seq={TOKENS}"], []):  # some have a fixed length
        done = subprocess.run([str(c) for c in [*command, *more]], capture_output=True, text=True, timeout=300)
        if "no input has a dimension" not in done.stderr:
            break
    if done.returncode:
        sys.exit(f"{command}: exit {done.returncode}\n{done.stderr[-3000:]}")
    return int(re.search(r"^  activations .* (\d+) of '", done.stdout, re.M)[1])


def bounded(trainc, scratch, name, passed):
    failures = []

    def measure(layers, *options):
        model = scratch / f"{pathlib.Path(name).name}-{layers}.onnx"
        if not model.exists():
            onnx.save(stretch(FOLDER / f"{name}.onnx", layers), model)
        return activations(trainc, model, *options)

    level = ["--recompute", "level:1"]
    one = max(measure(1), measure(1, *level))
    for layers in DEPTHS:
        taken = measure(layers, *level)
        limit = 1.05 * (layers * BATCH * TOKENS * passed * 4 + one)
        print(f"{name}, {layers} layers: {taken} bytes, limit {limit:.0f}")
        if taken > limit:
            failures.append(f"{name}, {layers} layers: {taken} bytes of activations, expected at most {limit:.0f}")
    plain = measure(DEPTHS[-1])
    print(f"{name}, {DEPTHS[-1]} layers: {plain} bytes without recompute")
    if plain < 2 * limit:
        failures.append(f"{name}: the limit says nothing: {plain} bytes without recompute")
    return failures


def main():
    trainc = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="trainc-depth-") as folder:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(bounded, trainc, pathlib.Path(folder), *model) for model in MODELS.items()]
            failures = [failure for job in jobs for failure in job.result()]
    print("\n".join(failures) or "passed")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
