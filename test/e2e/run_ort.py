#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains ONNX Runtime's training artifacts and compares with the losses that it had itself.

  run_ort.py --trainc BIN --trainc-run BIN --artifacts FOLDER [--target cpu]

The artifacts are given as a folder, and again as single files; both have to give the same bits.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

LIMIT = 1e-6  # of every loss, relative to ONNX Runtime's, which is float32 as well


def call(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nexit code {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout, done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainc", required=True)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--artifacts", type=pathlib.Path, required=True)
    parser.add_argument("--target", default="cpu")
    arguments = parser.parse_args()
    folder = arguments.artifacts
    expected = json.loads((folder / "losses.json").read_text())
    given = {
        "folder": [folder],
        "files": [
            folder / "training_model.onnx",
            *("--optimizer-model", folder / "optimizer_model.onnx"),
            *("--checkpoint", folder / "checkpoint"),
        ],
    }
    losses = {}
    with tempfile.TemporaryDirectory(prefix="trainc-ort-") as scratch:
        for how, model in given.items():
            package = pathlib.Path(scratch) / f"{how}.tpk"
            flags = ["--target", arguments.target, "--dropout", "off", "--lr", expected["lr"]]
            _, said = call([arguments.trainc, *model, "-o", package, *flags])
            if f"trains {expected['trained']} parameters" not in said:
                sys.exit(f"not {expected['trained']} trained parameters:\n{said}")
            data = ["--data", folder / "data.npz", "--batch-size", expected["batch_size"]]
            steps = ["--steps", len(expected["losses"]), "--log-format", "json"]
            log, _ = call([arguments.trainc_run, package, *data, *steps])
            entries = [json.loads(line) for line in log.splitlines()]
            losses[how] = [entry["loss"] for entry in entries if "event" not in entry]
    worst = max(abs(a - b) / abs(b) for a, b in zip(losses["folder"], expected["losses"], strict=True))
    first, last = expected["losses"][0], expected["losses"][-1]
    print(f"{folder.name}: loss {first:.6f} to {last:.6f}, off by at most {worst:.1e}")
    if not worst <= LIMIT:
        sys.exit(f"more than {LIMIT:g}")
    if losses["files"] != losses["folder"]:
        sys.exit("single files give other losses than their folder")


if __name__ == "__main__":
    main()
