# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs as data: what is drawn from a seed, made into a graph, and taken apart again when it fails."""

import copy

import numpy as np

import batches
from graph import Graph
from layers import LAYERS
from losses import LOSSES
from tokens import VOCABULARY, Tokens, parts

MASKS = ["attention_mask"] * 6 + Tokens.MASKS


def draw(rng, table):
    names = list(table)
    shares = np.array([table[n][0] for n in names], float)
    name = names[int(rng.choice(len(names), p=shares / shares.sum()))]
    return [name, {key: options(rng) if callable(options) else options[int(rng.integers(len(options)))] for key, options in table[name][1].items()}]


def choose(seed, count=3):
    """The program of a seed, with so many batches."""
    rng = np.random.default_rng([9, seed])
    return {
        "seed": seed,
        "dtype": "f32" if rng.random() < 0.85 else "f64",
        "mask": MASKS[int(rng.integers(len(MASKS)))],
        "layers": [draw(rng, LAYERS) for _ in range(int(rng.integers(0, 4)))],
        "losses": [draw(rng, LOSSES) for _ in range(1 + int(rng.random() < 0.25))],
        "bucket": [1, 1, 8][int(rng.integers(3))],
        "batches": [batches.choose(rng) for _ in range(count)],
    }


def build(program):
    """The model, and its inputs with their types."""
    graph = Graph(program["seed"], program["dtype"])
    tokens = Tokens(graph, program["mask"])
    x = tokens.embed(tokens.ids, VOCABULARY)
    for name, arguments in program["layers"]:
        x = LAYERS[name][2](tokens, x, **arguments)
    loss = None
    for name, arguments in program["losses"]:
        made = LOSSES[name][2](tokens, x, **arguments)
        loss = made if loss is None else loss + made
    return graph.model(loss), graph.inputs


def smaller(program):
    """Programs with something left out or made plainer, the largest steps first."""
    def changed(change):
        result = copy.deepcopy(program)
        change(result)
        return result

    for key in ("batches", "losses", "layers"):
        least = 0 if key == "layers" else 1
        for i in range(len(program[key])):
            if len(program[key]) > least:
                yield changed(lambda p: p[key].pop(i))
    if program["mask"] != "attention_mask":
        yield changed(lambda p: p.update(mask="attention_mask"))
    if program["dtype"] != "f32":
        yield changed(lambda p: p.update(dtype="f32"))
    for key, table in (("layers", LAYERS), ("losses", LOSSES)):
        for i, (name, arguments) in enumerate(program[key]):
            for argument, options in table[name][1].items():
                if callable(options):
                    for part in parts(arguments[argument]):
                        yield changed(lambda p: p[key][i][1].update({argument: part}))
                    yield from (changed(lambda p: p[key][i][1].update({argument: f})) for f in plainer(arguments[argument]))
                elif arguments[argument] != options[0]:
                    yield changed(lambda p: p[key][i][1].update({argument: options[0]}))
    for i, batch in enumerate(program["batches"]):
        for rare in batch["rare"]:
            yield changed(lambda p: p["batches"][i]["rare"].remove(rare))
        if batch["rows"] > 2:
            yield changed(lambda p: p["batches"][i].update(rows=batch["rows"] - 1))
        if batch["columns"] > 4:
            yield changed(lambda p: p["batches"][i].update(columns=batch["columns"] - 2))
        if batch["side"] != "right":
            yield changed(lambda p: p["batches"][i].update(side="right"))


def plainer(formula):
    """The formula with one of the formulas in it replaced by one of its own parts."""
    for i, part in enumerate(formula):
        if isinstance(part, list):
            for inner in parts(part):
                yield formula[:i] + [inner] + formula[i + 1 :]
            for inner in plainer(part):
                yield formula[:i] + [inner] + formula[i + 1 :]
