#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training with narrow optimizer state: `optimizer_state_curves.py TRAINC TRAINC_RUN SOURCE [STEPS]`.

The character GPT of examples/chargpt learns the project's own pages, from the same weights with the
same batches, with state in f32, bf16 and 8 bits. The mean loss of the last steps is to be that of
f32, and the state to take the bytes that it is said to.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

# Of the model.
ELEMENTS, TENSORS = 818304, 52
ROWS, LENGTH, VOCABULARY, LAST = 8, 64, 67, 20
# Five times what a learning rate makes that is one in a thousand larger.
BOUND = 1e-3
BYTES = {"fp32": 8, "bf16": 4, "int8": 2.1}


def main():
    trainc, trainc_run, source, *steps = sys.argv[1:]
    steps = int(steps[0]) if steps else 120
    text = b"".join(p.read_bytes() for p in sorted(pathlib.Path(source, "docs").glob("*.md")))
    ids = np.frombuffer(text, np.uint8) % VOCABULARY
    starts = np.random.default_rng(1).integers(0, len(ids) - LENGTH - 1, steps * ROWS)
    windows = np.stack([ids[s : s + LENGTH + 1] for s in starts]).astype(np.int64)
    found = {}
    with tempfile.TemporaryDirectory(prefix="trainc-curves-") as scratch:
        base = pathlib.Path(scratch)
        np.savez(base / "d.npz", input_ids=windows[:, :-1], labels=windows[:, 1:])
        for form in BYTES:
            command = [trainc, pathlib.Path(source, "examples/chargpt/chargpt.onnx"), "-o", base / "m.tpk"]
            command += ["--target", "cpu:native", "--dropout", "off", "--lr", "0.0005", "--clip-norm", "1"]
            command += ["--optimizer-state", form, "--embed-weights"]
            subprocess.run(command, check=True, capture_output=True)
            command = [trainc_run, base / "m.tpk", "--data", base / "d.npz", "--batch-size", str(ROWS)]
            command += ["--steps", str(steps), "--seed", "1", "--log-format", "json", "--memory-stats"]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            events = [json.loads(line) for line in done.stdout.splitlines()]
            losses = [e["loss"] for e in events if "event" not in e]
            state = [e["state"] for e in events if e.get("event") == "memory" and "state" in e][0]
            found[form] = float(np.mean(losses[-LAST:])), state
            print(f"{form}: {losses[0]:.4f} to {found[form][0]:.4f}, {state} bytes of state")
            if not found[form][0] < losses[0] - 1:
                sys.exit(f"{form}: nothing is learnt")
    for form, bytes_each in BYTES.items():
        loss, state = found[form]
        if not abs(loss - found["fp32"][0]) <= BOUND:
            sys.exit(f"{form}: the loss is {loss - found['fp32'][0]:+.4f} from that of fp32, more than {BOUND}")
        # The flag `nonfinite` beside it, and what the arena's alignment adds.
        if not state <= bytes_each * ELEMENTS + 64 * 4 * TENSORS:
            sys.exit(f"{form}: {state} bytes of state for {ELEMENTS} parameters")


if __name__ == "__main__":
    main()
