#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What PyTorch's exporter drops and notes on its nodes: `lost_arguments.py TRAINC TRAINC_RUN MAKE_ONNX`.

Label smoothing, the row of an embedding that is padding, detach(): the loss and the gradients are
compared with their formulas in NumPy.
"""

import subprocess
import sys
import tempfile

import numpy as np

from selected_rows import Run, expect_equal

NOTE = 'meta:pkg.torch.onnx.fx_node="call_function[target=torch.ops.aten.{}](args = ({}), kwargs = {{{}}})"'
TABLE = 0.4 * np.sin(1.3 * np.arange(18)).reshape(6, 3)
MODEL = """
input ids i64[batch,4]
input labels i64[batch]
init table f32[6,3] = {table}
init seq i64[1] = 1
output loss f32[]
node Gather(table, ids) -> e {embedding}
node ReduceMean(e, seq) -> h keepdims=0
node Identity(h) -> still {detach}
node Mul(h, still) -> logits
node SoftmaxCrossEntropyLoss(logits, labels) -> loss ignore_index=-100 {loss}
meta trainable = table
"""


def model(padding=None, detached=False, smoothing=None, named=False):
    embedding = NOTE.format("embedding.default", f"%w, %ids, {padding}", "")
    arguments = "%h, %y, None, 1, -100" + ("" if named else f", {smoothing}")
    keywords = f"label_smoothing: {smoothing}" if named else ""
    return MODEL.format(
        table=" ".join(f"{v:.6f}" for v in TABLE.ravel()),
        embedding=embedding if padding is not None else "",
        detach=NOTE.format("detach.default", "%h,", "") if detached else "",
        loss=NOTE.format("cross_entropy_loss.default", arguments, keywords) if smoothing else "",
    )


def formula(ids, labels, padding=None, detached=False, smoothing=0.0):
    """(loss, {name: gradient}), in double."""
    table = np.round(TABLE, 6)
    h = table[ids].mean(1)
    z = h * h
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    counts = labels != -100
    target = np.full(z.shape, smoothing / 3)
    target[np.arange(len(labels)), np.where(counts, labels, 0)] += 1 - smoothing
    loss = -(target * np.log(p)).sum(1)[counts].sum() / counts.sum()
    g = (p - target) * counts[:, None] / counts.sum() * h * (1 if detached else 2)
    gradient = np.zeros_like(table)
    for row, row_ids in zip(g, ids):
        for i in row_ids:
            if i != padding:
                gradient[i] += row / ids.shape[1]
    return loss, {"table": gradient}


def main():
    rng = np.random.default_rng(9)
    ids = rng.integers(0, 6, (12, 4))
    labels = np.where(rng.random(12) < 0.2, -100, rng.integers(0, 3, 12))
    cases = {
        "nothing": {},
        "padding": {"padding": 2},
        "no padding": {"padding": -1},
        "detach": {"detached": True},
        "label smoothing": {"smoothing": 0.1},
        "label smoothing by name": {"smoothing": 0.3, "named": True},
        "all": {"padding": 0, "detached": True, "smoothing": 0.2},
    }
    with tempfile.TemporaryDirectory(prefix="trainc-lost-") as scratch:
        run = Run(*sys.argv[1:], scratch)
        for name, case in cases.items():
            found = run.gradients(run.compile(model(**case)), ids=ids, labels=labels)
            case.pop("named", None)
            expect_equal(name, found, formula(ids, labels, **case))
        # Where other nodes compute for the call as well, the exporter has written it out.
        text = model(smoothing=0.1)
        note = text.split("node SoftmaxCrossEntropyLoss")[1].split("ignore_index=-100 ")[1].split("\n")[0]
        text = text.replace("node Identity(h) -> still ", f"node Relu(h) -> other {note}\noutput other f32\nnode Identity(h) -> still ")
        found = run.gradients(run.compile(text), ids=ids, labels=labels)
        expect_equal("written out", found, formula(ids, labels))
        # A user is told.
        run.compile(model(smoothing=0.1))
        command = [run.tools[0], run.base / "m.onnx", "--stop-after", "legalize"]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stderr
        if "label smoothing of 0.1" not in told.replace("0.10", "0.1"):
            sys.exit(f"the warning lacks the label smoothing: {told}")


if __name__ == "__main__":
    main()
