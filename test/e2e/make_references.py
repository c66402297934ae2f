#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the models, data and reference numbers of the end-to-end tests.

  make_references.py                         the committed ones, into models/ beside this file
  make_references.py --out DIR --heldout 7   the same families with other, odd sizes

For every model: NAME.onnx, NAME.npz (data, several batches), NAME.other.npz (one batch of other
sizes), NAME.ref.json and NAME.ref.npz. Needs torch, transformers, onnx; the tests that read the
files need numpy only. Deterministic for given versions of these.
"""

import argparse
import dataclasses
import json
import pathlib
import random
import sys
import warnings

import numpy as np
import onnx
import torch

import corners
import export_training
import families
import reference
import zoo

BATCHES = 4
#: Curves of the families; the models of the zoo have one for every optimizer.
FAMILY_CURVES = ("adamw",)


def heldout_sizes(seed):
    """Sizes that no committed model has: odd, coprime, not multiples of a vector."""
    draw = random.Random(seed)
    heads = draw.choice([2, 3, 5])
    return zoo.Sizes(
        hidden=heads * draw.choice([6, 10, 11, 12]),
        heads=heads,
        layers=draw.choice([1, 2, 3]),
        inter=draw.choice([37, 50, 75, 99]),
        vocab=draw.choice([61, 97, 130, 211]),
        labels=draw.choice([2, 4, 7]),
        batch=draw.choice([3, 5, 7]),
        seq=draw.choice([7, 13, 19]),
        features=draw.choice([9, 17, 33]),
        init=draw.choice([0.02, 0.05, 0.15]),
        seed=seed,
    )


def perturb(model, seed):
    """Moves biases and norms off 0 and 1, where mistakes do not show."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() <= 1:
                p.add_(torch.randn(p.shape, generator=generator) * 0.05)


def make(spec, sizes, out):
    """Writes all files of one model; returns the line to print."""
    torch.manual_seed(sizes.seed)
    model = spec.build()
    perturb(model, sizes.seed)
    rng = np.random.default_rng(sizes.seed)
    example = spec.batch(rng, 2, 8)
    batches = [spec.batch(rng, sizes.batch, sizes.seq) for _ in range(BATCHES)]
    other = spec.batch(rng, sizes.batch // 2 + 1, sizes.seq + 6)
    path = out / f"{spec.name}.onnx"
    if isinstance(spec, corners.Corner):
        parameters = {n: p.detach().numpy() for n, p in model.named_parameters()}
        onnx.save(spec.graph(parameters), path)
        names = list(parameters)
    elif getattr(spec, "checkpoint", False):
        names = export_training.export_beside_checkpoint(model, path)
    elif isinstance(spec, families.Family):
        names = export_training.export_by_position(
            model,
            {k: torch.from_numpy(v) for k, v in example.items()},
            spec.axes,
            path,
            spec.opset,
            spec.exporter,
        )
    else:
        names = export_training.export_for_training(
            model,
            {k: torch.from_numpy(v) for k, v in example.items()},
            spec.axes,
            path,
            spec.opset,
            spec.external,
        )
    for file in [*out.glob(f"{spec.name}.onnx*"), *out.glob(f"{spec.name}.safetensors")]:
        file.chmod(0o644)
    data = {k: np.concatenate([b[k] for b in batches]) for k in batches[0]}
    np.savez_compressed(out / f"{spec.name}.npz", **data)
    np.savez(out / f"{spec.name}.other.npz", **other)  # both kinds of .npz are read
    curves = FAMILY_CURVES if isinstance(spec, families.Family) else tuple(reference.CURVES)
    numbers, arrays = reference.reference(model, names, batches, other, curves=curves)
    numbers = {"model": spec.name, "dropout": spec.dropout, **numbers}
    (out / f"{spec.name}.ref.json").write_text(json.dumps(numbers, indent=1) + "\n")
    np.savez_compressed(out / f"{spec.name}.ref.npz", **arrays)
    noise = numbers["data"]["noise"].values()
    spread = max(c["noise"] for c in numbers["curves"].values())
    return (
        f"{spec.name:16} loss {numbers['data']['loss64']:.6f}, gradient noise {min(noise):.1e} to "
        f"{max(noise):.1e}, float32 curves off by up to {spread:.1e}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "models")
    parser.add_argument("--heldout", type=int, metavar="SEED", help="draw other sizes")
    parser.add_argument("--only", help="names, comma separated")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    sizes = zoo.Sizes() if arguments.heldout is None else heldout_sizes(arguments.heldout)
    print(dataclasses.asdict(sizes))
    arguments.out.mkdir(parents=True, exist_ok=True)
    specs = {**corners.corners(sizes), **zoo.zoo(sizes), **families.families(sizes)}
    for name in arguments.only.split(",") if arguments.only else specs:
        print(make(specs[name], sizes, arguments.out), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
