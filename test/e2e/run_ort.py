#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains ONNX Runtime's training artifacts and compares with the losses that it had itself.

  run_ort.py --trainc BIN --trainc-run BIN --artifacts FOLDER [--target cpu]

The artifacts are given as a folder, and again as single files; both have to give the same bits. A
checkpoint of names only, where there is one, gives them too, once it gets the weights.
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


def losses_of(log):
    entries = [json.loads(line) for line in log.splitlines()]
    return [entry["loss"] for entry in entries if "event" not in entry]


def check_nominal(said, command):
    """A checkpoint of names only warns, and training asks for weights."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if "has names only" not in said or done.returncode != 1 or "--weights" not in done.stderr:
        sys.exit(f"a nominal checkpoint: exit code {done.returncode}\n{said}{done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainc", required=True)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--artifacts", type=pathlib.Path, required=True)
    parser.add_argument("--target", default="cpu:native")
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
    if (folder / "nominal_checkpoint").exists():
        given["nominal"] = [*given["files"][:3], "--checkpoint", folder / "nominal_checkpoint"]
    losses = {}
    with tempfile.TemporaryDirectory(prefix="trainc-ort-") as scratch:
        for how, model in given.items():
            package = pathlib.Path(scratch) / f"{how}.tpk"
            flags = ["--target", arguments.target, "--dropout", "off", "--lr", expected["lr"]]
            for dim in expected.get("dims", []):
                flags += ["--dim", dim]
            _, said = call([arguments.trainc, *model, "-o", package, *flags])
            if f"trains {expected['trained']} parameters" not in said:
                sys.exit(f"not {expected['trained']} trained parameters:\n{said}")
            data = ["--data", folder / "data.npz", "--batch-size", expected["batch_size"]]
            steps = ["--steps", expected["done"] + len(expected["losses"]), "--log-format", "json"]
            train = lambda *more: losses_of(call([arguments.trainc_run, package, *data, *steps, *more])[0])
            if how == "nominal":
                check_nominal(said, [arguments.trainc_run, package, *data, *steps])
                losses[how] = train("--weights", weights)
                continue
            saved = pathlib.Path(scratch) / how
            losses[how] = train("--save", saved)
            weights = saved / f"step-{steps[1]}" / "parameters.safetensors"
            if "nominal" in given:
                losses["from weights"] = train("--weights", weights)
    worst = max(abs(a - b) / abs(b) for a, b in zip(losses["folder"], expected["losses"], strict=True))
    first, last = expected["losses"][0], expected["losses"][-1]
    print(f"{folder.name}: loss {first:.6f} to {last:.6f}, off by at most {worst:.1e}")
    if not worst <= LIMIT:
        sys.exit(f"more than {LIMIT:g}")
    if losses["files"] != losses["folder"]:
        sys.exit("single files give other losses than their folder")
    if losses.get("nominal") != losses.get("from weights"):
        sys.exit("a nominal checkpoint with weights gives other losses than those weights")


if __name__ == "__main__":
    main()
