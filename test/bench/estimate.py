#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/cuda/estimate.py counts as the runtime does: `estimate.py BENCH_FOLDER PACKAGE SCRATCH`.

PACKAGE is for a CPU and has batches of 2 x 16 tokens; it is trained for two steps, and every command
of the profile is one of the estimate, of the same class with the same work.
"""

import json
import pathlib
import subprocess
import sys

import numpy as np

sys.path.insert(0, sys.argv[1])
import estimate  # noqa: E402
import limits  # noqa: E402


def main():
    package, scratch = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    scratch.mkdir(exist_ok=True)
    about = subprocess.run(["trainc-run", package, "--info", "--log-format", "json"], check=True, capture_output=True, text=True)
    names = [entry["name"] for entry in json.loads(about.stdout)["inputs"]]
    random = np.random.default_rng(1)
    arrays = {name: random.integers(1, 3, (4, 16)) for name in names}
    if "attention_mask" in arrays:
        arrays["attention_mask"][:] = 1
    np.savez(scratch / "data.npz", **arrays)
    profile = scratch / "profile.json"
    command = ["trainc-run", package, "--data", scratch / "data.npz", "--batch-size", "2", "--steps", "2"]
    subprocess.run([*command, "--variant", "base", "--profile", profile], check=True, capture_output=True)
    found = estimate.rows_of(package, "step", {"count_labels": 32, "count_attention_mask": 32})
    ran = {row["command"]: row for row in limits.read_profile(profile)}
    assert list(ran) == [row["command"] for row in found] and len(ran) > 20, (len(ran), len(found))
    for row in found:
        told = ran[row["command"]]
        for field in ("class", "bytes", "flops"):
            assert row[field] == told[field], (field, row, told)
    assert {"matmul", "row", "pointwise", "optimizer"} <= {row["class"] for row in found}


if __name__ == "__main__":
    main()
