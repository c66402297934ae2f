#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs whose batch axes have different names: `batch_names.py TRAINC TRAINC_RUN`.

Exports with automatic dims name the batch once per input where only indexing ties them. Batches
have to be cut out of all of these inputs, or later batches see the first one's rows.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from mini_onnx import FLOAT, INT64, model, node, tensor, value_info


def main():
    trainc, trainc_run = sys.argv[1:]
    rng = np.random.default_rng(3)
    data = {
        "row": np.array([0, 1, 2, 0, 1, 2]),
        "u": rng.standard_normal((6, 4)).astype(np.float32),
        "labels": np.array([0, 2, 1, 1, 0, 2]),
    }
    nodes = [
        node("Gather", ["u", "row"], ["x"], "pick"),
        node("MatMul", ["x", "w"], ["logits"], "project"),
        criterion := node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss"], "criterion"),
    ]
    inputs = [
        value_info("row", INT64, ["batch"]),
        value_info("u", FLOAT, ["s1", 4]),
        value_info("labels", INT64, ["batch"]),
    ]
    weights = [tensor("w", [4, 3], [0.1 * i * i for i in range(12)])]
    with tempfile.TemporaryDirectory(prefix="trainc-names-") as scratch:
        base = pathlib.Path(scratch)
        path, package = base / "m.onnx", base / "m.tpk"
        path.write_bytes(model(nodes, inputs, [value_info("loss", FLOAT, [])], weights))
        subprocess.run([trainc, path, "-o", package, "--target", "cpu:native"], check=True)

        def losses(arrays, steps):
            np.savez(base / "d.npz", **arrays)
            flags = ["--data", base / "d.npz", "--batch-size", "3", "--steps", str(steps), "--lr", "0"]
            done = subprocess.run(
                [trainc_run, package, *flags, "--log-format", "json"],
                check=True,
                capture_output=True,
                text=True,
            )
            log = [json.loads(line) for line in done.stdout.splitlines()]
            return [entry["loss"] for entry in log if "loss" in entry], done.stdout

        both, warnings = losses(data, 2)
        second, _ = losses({k: v[3:] for k, v in data.items()}, 1)
        print("losses", both, "the second batch alone", second)

        # Two nodes for each row: whether they are cut with the rows is for a person to say.
        def run(arrays, *flags):
            np.savez(base / "d.npz", **arrays)
            command = [trainc_run, package, "--data", base / "d.npz", "--lr", "0", *flags]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            losses = [json.loads(line)["loss"] for line in done.stdout.splitlines() if "loss" in line]
            return done.returncode, losses, done.stderr

        json_log = "--log-format", "json", "--epochs", "1", "--batch-size"
        nodes = {**data, "u": rng.standard_normal((12, 4)).astype(np.float32), "row": data["row"] + 3}
        code, _, said = run(nodes, *json_log, "3")
        if code != 1 or "look like 2 for each of the 6 rows: --cut u" not in said or "--whole u" not in said:
            sys.exit(f"nodes are not questioned: {code} {said}")
        first, last = ({k: np.split(v, 2)[part] for k, v in nodes.items()} for part in (0, 1))
        for how, parts in (
            ("--cut", (first, last)),
            ("--whole", ({**first, "u": nodes["u"]}, {**last, "u": nodes["u"]})),
        ):
            code, found, said = run(nodes, *json_log, "3", how, "u")
            expected = [run(part, *json_log, "3")[1][0] for part in parts]
            if code or found != expected:
                sys.exit(f"{how}: {found}, not {expected} {said}")
        if run(nodes, *json_log, "6")[0]:
            sys.exit("a batch of all rows is questioned")
        # Rows of which several belong to one place are no rows to cut either.
        three = {**nodes, "u": nodes["u"][:3], "row": data["row"]}
        code, _, said = run(three, "--batch-size", "2")
        if code != 1 or "3 positions on axis 0 look like one for each 2 of the 6 rows" not in said or "--whole u" not in said:
            sys.exit(f"rows of a place are not questioned: {code} {said}")
        if run(three, "--batch-size", "2", "--whole", "u")[0] or run(three, "--batch-size", "6")[0]:
            sys.exit("--whole or a batch of all is questioned")
        # They may be of any number: named, and whole.
        code, _, said = run({**nodes, "u": nodes["u"][:11]}, "--batch-size", "3")
        if code or "whole in every batch: u f32 [11, 4]" not in said:
            sys.exit(f"not named: {said}")
        for name, text in (("v", "no input 'v'"), ("w", "no input"), ("row", "always cut")):
            code, _, said = run(nodes, "--whole", name)
            if code != 1 or text not in said:
                sys.exit(f"--whole {name}: {said}")
        # What is out of range is told with its row of the file, however the input is cut.
        average = [
            node("Gather", ["w", "idx"], ["taken"], "take"),
            node("ReduceMean", ["taken"], ["mean"], "average"),
            node("MatMul", ["x", "w"], ["scores"], "project"),
            node("Add", ["scores", "mean"], ["logits"], "shift"),
            criterion,
        ]
        inputs = [value_info("x", FLOAT, ["batch", 4]), value_info("idx", INT64, ["n"]), inputs[2]]
        path.write_bytes(model(average, inputs, [value_info("loss", FLOAT, [])], weights))
        subprocess.run([trainc, path, "-o", package, "--target", "cpu:native"], check=True)
        wrong = {"x": np.ones((6, 4), np.float32), "labels": data["labels"], "idx": np.arange(12) % 4}
        wrong["idx"][9] = 7
        for how, text in (("--cut", "that is row 4 of"), ("--whole", "'idx' is whole in every batch; the batch is")):
            code, _, said = run(wrong, "--batch-size", "3", how, "idx")
            if code != 1 or text not in said or "value 7 at" not in said:
                sys.exit(f"{how}: {code} {said}")
        # Time first, as PyTorch's recurrent layers have it: rows are the axis that is called the batch.
        layer = [
            node("RNN", ["t", "r", "h"], ["", "last"], "layer", attributes=[("hidden_size", 3)]),
            node("Flatten", ["last"], ["logits"], "flat", attributes=[("axis", 2)]),
            criterion,
        ]
        inputs = [value_info("t", FLOAT, ["time", "batch", 4]), inputs[2]]
        weights = [tensor("r", [1, 3, 4], [0.1 * i for i in range(12)]), tensor("h", [1, 3, 3], [0.2] * 9)]
        path.write_bytes(model(layer, inputs, [value_info("loss", FLOAT, [])], weights))
        subprocess.run([trainc, path, "-o", package, "--target", "cpu:native"], check=True)
        timed = {"t": rng.standard_normal((5, 6, 4)).astype(np.float32), "labels": data["labels"]}
        _, found, _ = run(timed, *json_log, "3")
        halves = [{"t": timed["t"][:, rows], "labels": timed["labels"][rows]} for rows in (np.arange(3), np.arange(3, 6))]
        if found != [run(half, *json_log, "3")[1][0] for half in halves]:
            sys.exit(f"time is cut: {found}")
        if both[1] != second[0]:
            sys.exit("the second batch is not cut out of every input")
        if "'u' has another name" not in warnings:
            sys.exit(f"no warning: {warnings}")


if __name__ == "__main__":
    main()
