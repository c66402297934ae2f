#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of convolution nets with --precision bf16 on a GPU: `carried_types.py TRAINC TRAINC_RUN`.

The graph that a GPU gets is run on the CPU, which rounds where it has casts (not what products store): no further from PyTorch
in double than its own autocast to bf16 on a CPU.

`carried_types.py --measure`, with torch and transformers, prints the errors of autocast below anew.
"""

import pathlib
import sys
import tempfile

import numpy as np

import bf16
import safetensors_io

#: Error of all gradients together, in 2-norms, of `torch.autocast("cpu", torch.bfloat16)`.
AUTOCAST = {"resnet": 1.27e-1, "unet": 8.4e-3, "convnext": 5.9e-3}
GPU = "cuda:sm_90"


def error(runs, model):
    stages = runs.scratch / model
    runs.compile(model, "--target", GPU, "--precision", "bf16", "--stop-after", "graph", "--save-ir", stages)
    graph = stages / "3-graph.mlir"
    # The command line is in the IR.
    text = graph.read_text().replace(GPU, "cpu:native").replace('"--stop-after", "graph", ', "")
    graph.write_text(text.replace(f'"--save-ir", "{stages}", ', "").replace(f', "--save-ir", "{stages}"', ""))
    package, gradients = runs.path(".tpk"), runs.path(".safetensors")
    bf16.expect("bf16" in text, model, "has nothing in 16 bits")
    runs.call(graph, "--start-from", "graph", "-o", package)
    runs.run(model, package, "--dump-gradients", gradients)
    arrays = np.load(bf16.MODELS / f"{model}.ref.npz")
    exact = {n.partition("/")[2]: arrays[n] for n in arrays.files if n.startswith("data/")}
    return bf16.relative(safetensors_io.load(gradients), exact)


def main():
    if sys.argv[1:] == ["--measure"]:
        return bf16.measure(AUTOCAST)
    with tempfile.TemporaryDirectory() as scratch:
        runs = bf16.Runs(*sys.argv[1:], pathlib.Path(scratch))
        for model, autocast in AUTOCAST.items():
            off = error(runs, model)
            print(f"{model}: gradients are off by {off:.2e}, those of autocast by {autocast:.2e}")
            bf16.expect(autocast / 20 < off <= autocast, model, "has another error")


if __name__ == "__main__":
    main()
