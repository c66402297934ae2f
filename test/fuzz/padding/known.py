# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs with names: faults that were found once, and what models in use are like.

Each is data as programs.py makes it; arguments that are not named are the first of their layer's. `packs`
says whether a variant has to run some of the batches (True), none (False) or either (absent).
"""

from layers import LAYERS
from losses import LOSSES

# [where its tokens lie, what is unusual]
BATCHES = [["right", ["one full", "one token"]], ["left", ["one token", "ids at padding"]], ["mixed", ["empty span", "large at padding"]], ["left", ["no label", "nothing there"]]]
SCORE = ["score", 0]


def attention(**arguments):
    return ["attention", arguments]


def when(condition):
    return ["where", condition, ["c", 1.0], ["c", 0.0]]


def formula(tree, how="Mean", end="times row", **more):
    return {"losses": [["formula", {"formula": tree, "how": how, "end": end}]], **more}


def pairs(tree, inner="tokens", **more):
    return {"losses": [["pairs", {"formula": tree, "inner": inner, "how": "sum of tokens"}]], **more}


LABELS = [["token_labels", {}]]


def tokens(*layers, **more):
    return {"layers": list(layers), "losses": LABELS, **more}


def pooled(how, *layers, fill=-1e9, kind="classes", **more):
    return {"layers": list(layers), "losses": [["pooled", {"how": how, "fill": fill, "kind": kind}]], **more}


KNOWN = {
    # A row that sees no token weighs padding as much as tokens.
    "a span that may be empty": pooled("attention of span"),
    "attention within a span": tokens(attention(choice="span", style="where least")),
    "attention without the token itself": tokens(attention(order="not itself")),
    "strictly causal attention": tokens(attention(order="strict")),
    "strictly causal attention, least": tokens(attention(order="strict", style="add least")),
    "a window without the token itself": tokens(attention(order="neighbours")),
    "attention to later tokens": tokens(attention(order="later", weights="shifted")),
    "documents without the token itself": tokens(attention(order="not itself", choice="documents"), mask="documents"),
    "attention to some ids": tokens(attention(choice="above 3")),
    "attention to odd places": tokens(attention(choice="odd places", order="causal")),
    "one query of a span": tokens(attention(choice="row's span")),
    # What is computed of padding is no number.
    "safe softmax, causal": tokens(attention(weights="safe softmax", style="where -inf", order="causal")),
    "safe softmax": tokens(attention(weights="safe softmax", style="where -inf")),
    "safe softmax, strictly causal": tokens(attention(weights="safe softmax", style="where -inf", order="strict")),
    "exp(s) * mask / its sum": tokens(attention(weights="exp times mask")),
    "exp(s) * mask / its sum, rows masked": tokens(attention(weights="exp times mask + eps", rows=True)),
    "squared relu / (its sum + eps)": tokens(attention(weights="relu squared")),
    "squared relu / (its sum + eps), causal": tokens(attention(weights="relu squared", order="causal", heads=2)),
    "linear attention, elu + 1": tokens(attention(weights="linear elu")),
    "linear attention, relu": tokens(attention(weights="linear relu")),
    "linear attention, heads": tokens(attention(weights="linear elu", heads=2)),
    "linear attention, relu, heads": tokens(attention(weights="linear relu", heads=2)),
    "linear attention, a sum of losses": {"layers": [attention(weights="linear elu")], "losses": [["token_labels", {"reduction": "sum"}]], "packs": True},
    "linear attention, sums of all": {"layers": [attention(weights="linear elu")], "losses": [["token_labels", {"reduction": "sum", "shift": 1}]]},
    "linear attention, sum of products": tokens(attention(weights="linear elu, summed")),
    "linear attention, sum of products, heads": tokens(attention(weights="linear elu, summed", heads=2)),
    "masked scores normalized": tokens(attention(weights="divided by norm")),
    "log of distances": tokens(["distances", {"kind": "log"}]),
    "inverse distances": tokens(["distances", {"kind": "inverse", "clean": False}]),
    "exp pooling": pooled("exp attention"),
    "norm of a masked sum": pooled("norm", fill=0.0),
    "pairs divided by a number of a token": pairs(["div", ["score", 0, "j"], ["exp", ["score", 1, "i"]]]),
    "pairs divided by a number of the other": pairs(["div", ["score", 0, "i"], ["exp", ["score", 1, "j"]]]),
    "log of products of pairs": pairs(["Log", ["mul", ["exp", ["score", 0, "i"]], ["Sigmoid", ["score", 1, "j"]]]]),
    "log of what is positive at tokens": formula(["where", ["is real"], ["Log", ["exp", SCORE]], ["c", 0.0]], "sum of tokens"),
    "log of the mask": tokens(attention(style="add log")),
    "padding is NaN until it is masked": tokens(["mask", {"how": "where", "fill": float("nan")}], ["mask", {"how": "where"}], attention()),
    "padding is inf until it is masked": pooled("max of tokens", ["mask", {"how": "where", "fill": float("inf")}]),
    "isnan at padding": formula(when(["isnan", ["where", ["is real"], SCORE, ["c", float("nan")]]]), end="with tokens"),
    # Numbers that no sample has.
    "above 1e10": formula(when(["greater", ["mul", SCORE, ["c", 1e11]], ["c", 1e10]]), end="with tokens"),
    "the least of x and -2000": formula(["min", SCORE, ["c", -2000.0]]),
    "the least of x and -2000, masked": pooled("max of tokens", ["threshold", {"how": "min", "value": -2000.0}]),
    "the largest of x and 1e10": formula(["mul", ["max", SCORE, ["c", 1e10]], ["c", 1e-10]], end="square"),
    "isinf": formula(when(["isinf", ["mul", SCORE, ["c", 3e38]]]), end="with tokens"),
    "isinf of hidden states": tokens(["threshold", {"how": "is inf"}]),
    "a threshold below all scores": formula(when(["greater", ["where", ["is real"], SCORE, ["c", -2000.0]], ["c", -3e38]]), end="with tokens"),
    "masked by little": tokens(attention(style="where -50")),
    "masked by -1000": tokens(attention(style="where -1000")),
    "a maximum over all positions": pooled("max", fill=0.0),
    "the mean of all positions": pooled("mean"),
    # Labels.
    "labels": tokens(attention(), packs=True),
    "the next token": {"layers": [attention(order="causal")], "losses": [["token_labels", {"shift": 1}]], "packs": True},
    "the token before": {"layers": [], "losses": [["token_labels", {"shift": -1}]]},
    "the token before, after attention": {"layers": [attention()], "losses": [["token_labels", {"shift": -1}]]},
    "class weights": {"layers": [attention()], "losses": [["token_labels", {"weighted": True}]], "packs": True},
    "a sum of losses": {"layers": [attention()], "losses": [["token_labels", {"reduction": "sum"}]], "packs": True},
    "losses of tokens by the mask": {"layers": [["feed_forward", {}]], "losses": [["token_targets", {"what": "bce"}]], "packs": True},
    # Pools.
    "the first token": pooled("first", attention(), packs=True),
    "the last token by the mask": pooled("last by count", attention(order="causal"), packs=True),
    "the last token by the padding id": pooled("last by id", attention(order="causal"), mask="pad id"),
    "the mean of tokens": pooled("mean of tokens", attention(), packs=True),
    "the largest of tokens, -inf": pooled("max of tokens", ["feed_forward", {}], fill=float("-inf"), packs=True),
    "attention pooling": pooled("attention", ["feed_forward", {}], packs=True),
    "a token by an index": pooled("start"),
    "a masked token by an index": pooled("mean of tokens", ["mask", {"how": "where", "fill": 0.0}], ["gather", {"index": "start"}]),
    "a number of the file and a place": formula(
        ["max", ["place"], ["where", ["is real"], ["where", ["isinf", ["score", 1]], ["c", -1.0], ["row"]], ["extra"]]], "all"),
    "two largest tokens": pooled("top places"),
    "a convolution's largest": pooled("conv max"),
    # Tokens that meet tokens.
    "a convolution": tokens(["convolve", {}]),
    "a convolution over what padding holds": tokens(["convolve", {"clean": False}]),
    "a running sum": tokens(["accumulate", {}]),
    "a running sum over its norm": tokens(["accumulate", {"over": "norm"}]),
    "a running sum of what padding holds": tokens(["accumulate", {"clean": False, "over": ""}]),
    "shifted by one": tokens(["shift", {}]),
    "shifted by one, as padding is": tokens(["shift", {"clean": False}]),
    "norms along positions": tokens(["normalize_places", {}]),
    "norms along all positions": tokens(["normalize_places", {"clean": False}]),
    "batch normalization of tokens": tokens(["normalize_tokens", {}]),
    "samples compared": pooled("mean of tokens", kind="contrast"),
    "the mean of all samples": tokens(["context", {"how": "of all samples"}]),
    "the first token for all": tokens(["context", {"how": "first"}]),
    "means of documents": tokens(["pool_documents", {}], mask="documents beside a mask"),
    "documents": tokens(attention(choice="documents"), mask="documents", packs=True),
    # Inputs.
    "positions counted by the mask": tokens(["add", {"of": "counted positions"}], attention(order="causal"), packs=True),
    "positions": tokens(["add", {"of": "positions"}], attention(), packs=True),
    "ids as numbers": tokens(["add", {"of": "ids as numbers"}]),
    "one-hot ids": tokens(["add", {"of": "one hot"}]),
    "a padding id": tokens(attention(), mask="pad id"),
    "a mask and a padding id": tokens(attention(), mask="mask and pad id"),
    "a mask of booleans": tokens(attention(), mask="bool mask", packs=True),
    "a mask of booleans that nothing reads": pooled("last place", mask="bool mask"),
    "masks added": tokens(attention(style="add -1e9"), packs=True),
    "the least number added": tokens(attention(style="add least", order="causal", heads=2), packs=True),
    "masks of heads in one axis with samples": tokens(attention(heads="merged"), packs=True),
    "a product over positions": pooled("product"),
    "a product over positions, documents": pooled("product", attention(choice="documents")),
    "another sequence": tokens(["memory", {}], packs=True),
    "losses of tokens that a mask selects": {"layers": [attention()], "losses": [["token_targets", {"over": "selected"}]]},
    "labels that are the ids": {"layers": [attention()], "losses": [["token_labels", {"ignore": 0}]]},
    "gates by ids": tokens(["gate", {"kind": "ids"}]),
    "two experts of three": tokens(["gate", {"kind": "top expert"}]),
    "the best place": tokens(["gather", {"index": "argmax"}]),
    "the best place of all": tokens(["gather", {"index": "argmax", "clean": False}]),
    "dropout": tokens(["dropout", {}], attention(), packs=True),
    "dropout of weights": tokens(attention(dropout=0.3)),
    "doubles": tokens(attention(heads=2, order="causal"), dtype="f64"),
}


def fill(table, entries):
    result = []
    for name, given in entries:
        choices = table[name][1]
        result.append([name, {key: given[key] if key in given else options[0] for key, options in choices.items()}])
    return result


def make_known(name):
    """The program of a name."""
    entry = KNOWN[name]
    shapes = [(4, 12), (4, 9), (5, 11), (2, 10)]
    return {
        "seed": 1 + list(KNOWN).index(name),
        "dtype": entry.get("dtype", "f32"),
        "mask": entry.get("mask", "attention_mask"),
        "layers": fill(LAYERS, entry.get("layers", [])),
        "losses": fill(LOSSES, entry["losses"]),
        "bucket": 1,
        "batches": [{"seed": 7 + i, "rows": rows, "columns": columns, "side": side, "rare": rare}
                    for i, ((side, rare), (rows, columns)) in enumerate(zip(BATCHES, shapes))],
    }
