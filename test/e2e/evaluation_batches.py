# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The loss of an evaluation is that of all rows, whatever the batches are: `evaluation_batches.py
TRAINC TRAINC_RUN MAKE_ONNX`.

Each loss is compared with its formula in NumPy, in batches of 1, 16 and 200 rows of 200. Where a
loss is no quotient of sums over rows, that is said.
"""

import json
import subprocess
import sys
import tempfile

import numpy as np

from selected_rows import Run

ROWS, CLASSES = 200, 3
HEAD = """
input x f32[batch,4]
input labels i64[batch]
input mask f32[batch]
init w f32[4,3] = 0.5 -0.3 0.2 0.1 0.4 -0.6 -0.2 0.3 0.7 0.6 -0.1 0.05
init class_weights f32[3] = 0.2 1.0 3.5
init ignored i64[] = -100
init zero i64[] = 0
init one f32[] = 1
init one_i64 i64[] = 1
init classes i64[1] = 1
output loss f32[]
meta trainable = w
node MatMul(x, w) -> logits
"""
# The parts of losses: of each row -log p of its label, the mean of -log p of all classes, and
# whether the label counts.
ROW_TERMS = """
node Equal(labels, ignored) -> isIgnored
node Where(isIgnored, zero, labels) -> safe
node SoftmaxCrossEntropyLoss(logits, safe) -> nll, logp reduction="none"
node ReduceMean(logp, classes) -> meanLog keepdims=0
node Neg(meanLog) -> even
node Not(isIgnored) -> counts
node Cast(counts) -> c to=1
"""
#: By name: nodes, and whether labels are ignored.
LOSSES = {
    "cross entropy": ("node SoftmaxCrossEntropyLoss(logits, labels) -> loss", False),
    "ignore_index": ("node SoftmaxCrossEntropyLoss(logits, labels) -> loss ignore_index=-100", True),
    "class weights": ("node SoftmaxCrossEntropyLoss(logits, labels, class_weights) -> loss", False),
    "class weights, ignore_index": (
        "node SoftmaxCrossEntropyLoss(logits, labels, class_weights) -> loss ignore_index=-100", True),
    # As transformers' LabelSmoother has it.
    "label smoothing": (ROW_TERMS + """
node Mul(nll, c) -> nllKept
node ReduceSum(nllKept) -> nllTotal keepdims=0
node Mul(even, c) -> evenKept
node ReduceSum(evenKept) -> evenTotal keepdims=0
node Size(labels) -> size
node Cast(isIgnored) -> isIgnoredInt to=7
node ReduceSum(isIgnoredInt) -> ignoredRows keepdims=0
node Sub(size, ignoredRows) -> active
node Cast(active) -> activeFloat to=1
node Div(nllTotal, activeFloat) -> a
node Div(evenTotal, activeFloat) -> b
init share f32[] = 0.1
init rest f32[] = 0.9
node Mul(a, rest) -> aShare
node Mul(b, share) -> bShare
node Add(aShare, bShare) -> loss""", True),
    "squares": ("""
node Sub(logits, one) -> off
node Mul(off, off) -> square
node ReduceMean(square) -> loss keepdims=0""", False),
    "a mask": (ROW_TERMS + """
node Mul(nll, mask) -> kept
node ReduceSum(kept) -> total keepdims=0
node ReduceSum(mask) -> number keepdims=0
node Max(number, one) -> atLeastOne
node Div(total, atLeastOne) -> loss""", False),
    "a mask, shares first": (ROW_TERMS + """
node ReduceSum(mask) -> number keepdims=0
node Div(mask, number) -> shares
node Mul(nll, shares) -> kept
node ReduceSum(kept) -> loss keepdims=0""", False),
}
#: These have no such weights.
OTHERS = {
    "two means": LOSSES["ignore_index"][0].replace("-> loss", "-> first") + """
node Mul(logits, logits) -> square
node ReduceMean(square) -> second keepdims=0
node Add(first, second) -> loss""",
    "a root": LOSSES["squares"][0].replace("-> loss", "-> mean") + "\nnode Sqrt(mean) -> loss",
    "pairs of rows": """
node Transpose(logits) -> columns perm=[1,0]
node MatMul(logits, columns) -> pairs
node ReduceMean(pairs) -> loss keepdims=0""",
    "a sum": LOSSES["squares"][0].replace("ReduceMean", "ReduceSum"),
}


def formula(name, x, labels, mask):
    w = np.array([0.5, -0.3, 0.2, 0.1, 0.4, -0.6, -0.2, 0.3, 0.7, 0.6, -0.1, 0.05]).reshape(4, 3)
    z = x.astype(np.float64) @ w
    logs = z - np.log(np.exp(z).sum(1, keepdims=True))
    counts = labels != -100
    safe = np.where(counts, labels, 0)
    nll = -logs[np.arange(ROWS), safe]
    if name == "squares":
        return ((z - 1) ** 2).mean()
    if name.startswith("class weights"):
        weights = np.array([0.2, 1.0, 3.5])[safe] * counts
    elif name.startswith("a mask"):
        weights = mask
    else:
        weights = counts
    if name == "label smoothing":
        nll = 0.9 * nll - 0.1 * logs.mean(1)
    return (nll * weights).sum() / weights.sum()


def evaluate(run, package, data, rows, *flags):
    command = [run.tools[1], package, "--eval", data, "--batch-size", rows, *flags]
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


def record(run, package, data, rows):
    return json.loads(evaluate(run, package, data, rows, "--log-format", "json").splitlines()[-1])


def main():
    random = np.random.default_rng(5)
    x = random.normal(0, 1, (ROWS, 4)).astype(np.float32)
    labels = random.integers(0, CLASSES, ROWS)
    some = np.where(random.random(ROWS) < 0.3, -100, labels)
    some[16:32] = -100  # of this batch none counts
    mask = (random.random(ROWS) < 0.6).astype(np.float32)
    failures = 0
    with tempfile.TemporaryDirectory(prefix="trainc-eval-") as scratch:
        run = Run(*sys.argv[1:], scratch)
        data = run.base / "data.npz"
        for name, (nodes, ignores) in LOSSES.items():
            package = run.compile(HEAD + nodes)
            given = {"x": x, "labels": some if ignores else labels, "mask": mask}
            # Without a mask, what counts is at least one row of every batch.
            if name == "a mask, shares first":
                given["mask"] = mask = np.maximum(mask, 0.25)
            np.savez(data, **given)
            wanted = formula(name, **given)
            found = {rows: record(run, package, data, rows) for rows in (1, 16, ROWS)}
            worst = max(abs(r["loss"] - wanted) / wanted for r in found.values())
            print(f"{name}: off by {worst:.1e}")
            if not worst <= 1e-6 or not all(r["exact"] for r in found.values()):
                failures += 1
                print(f"FAILED: {wanted}, {found}")
        np.savez(data, x=x, labels=some, mask=mask)
        for name, nodes in OTHERS.items():
            package = run.compile(HEAD + nodes)
            text = evaluate(run, package, data, 16)
            said = "weighted by rows (the loss is no quotient of sums over rows" in text
            found = record(run, package, data, 16)
            if not said or found["exact"] or found["weighted_by"] != "rows":
                failures += 1
                print(f"FAILED: {name}: {text} {found}")
            if "weighted" in evaluate(run, package, data, ROWS):
                failures += 1
                print(f"FAILED: {name}: one batch is exact")
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
