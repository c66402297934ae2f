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


# What is in use, and packed: around it one part of a program that is anything finds more than many of them.
USUAL_LAYERS = {
    "feed_forward": {},
    "normalize": {"kind": ["layer", "rms"]},
    "attention": {"weights": ["softmax"], "style": ["where -1e9", "where least", "add -1e9"], "columns": [True], "rows": [False], "order": ["", "causal"],
                  "choice": [""], "dropout": [0.0]},
    "add": {"of": ["positions", "types", "counted positions"]},
    "gate": {"kind": ["sigmoid", "times mask"]},
    "mask": {"how": ["where", "times"], "fill": [0.0]},
}
USUAL_LOSSES = {
    "token_labels": {"shift": [0, 0, 1], "ignore": [-100]},
    "pooled": {"how": ["mean of tokens", "attention", "max of tokens", "sum", "first"], "fill": [-1e9], "kind": ["classes", "regression", "row"]},
    "token_targets": {"over": ["mask"], "what": ["bce", "square"]},
}


def draw(rng, table, only=None):
    """A layer or a term of the loss; `only`: of these, with these arguments."""
    names = list(only or table)
    shares = np.array([table[n][0] for n in names], float)
    name = names[int(rng.choice(len(names), p=shares / shares.sum()))]
    given = only[name] if only else {}
    choices = {key: given.get(key, options) for key, options in table[name][1].items()}
    return [name, {key: options(rng) if callable(options) else options[int(rng.integers(len(options)))] for key, options in choices.items()}]


def choose(seed, count=4):
    """The program of a seed, with so many batches."""
    rng = np.random.default_rng([9, seed])
    mask = MASKS[int(rng.integers(len(MASKS)))]
    program = {
        "seed": seed,
        "dtype": "f32" if rng.random() < 0.85 else "f64",
        "mask": mask,
        # Trainc's own, and sizes that the model fixes, which are like others then.
        "options": [[], [], ["--pad-token", "0"], ["--pad-token", "3"]][int(rng.integers(4))] if mask == "pad id" else [],
        "sizes": {name: int(rng.integers(4, 9)) for name in ("batch", "seq") if rng.random() < 0.1},
        "layers": [],
        "losses": [],
        "bucket": [1, 1, 8][int(rng.integers(3))],
        "batches": [batches.choose(rng) for _ in range(count)],
    }
    kinds = ["layers"] * int(rng.integers(0, 4)) + ["losses"] * (1 + int(rng.random() < 0.25))
    usual, odd = rng.random() < 0.65, int(rng.integers(len(kinds)))
    for i, kind in enumerate(kinds):
        table, only = (LAYERS, USUAL_LAYERS) if kind == "layers" else (LOSSES, USUAL_LOSSES)
        program[kind].append(draw(rng, table, only if usual and i != odd else None))
    for batch in program["batches"]:
        batch.update(rows=program["sizes"].get("batch", batch["rows"]), columns=program["sizes"].get("seq", batch["columns"]))
    return program


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
    return graph.model(loss, program.get("sizes", {})), graph.inputs


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
    if program.get("sizes"):
        yield changed(lambda p: p.update(sizes={}))
    if program["mask"] != "attention_mask" and not program.get("options"):
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
        if batch["rows"] > 2 and "batch" not in program.get("sizes", {}):
            yield changed(lambda p: p["batches"][i].update(rows=batch["rows"] - 1))
        if batch["columns"] > 4 and "seq" not in program.get("sizes", {}):
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
