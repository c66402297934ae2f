#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/cuda/ranks.py from end to end without a GPU: `ranks.py BENCH_FOLDER MODELS SCRATCH`.

Packages of a CPU, and in place of PyTorch a script that says what it would.
"""

import json
import pathlib
import shutil
import sys
import types

import numpy as np

sys.path.insert(0, sys.argv[1])
import models  # noqa: E402
import ranks  # noqa: E402

PEER = {"step_ms": 2.0, "p10": 1.0, "p90": 3.0, "losses": [5.0, 4.0], "peak_reserved": 2_500_000_000}


def run(scratch, *arguments):
    sys.argv = ["ranks.py", "run", scratch, "tiny", "tiny:zero2", "--cpu", "--torch-python", scratch / "peer", *arguments]
    sys.argv = [str(argument) for argument in sys.argv] + ["--trainc-run", shutil.which("trainc-run"), "--results", str(scratch / "results.jsonl")]
    ranks.main()


def main():
    model, scratch = pathlib.Path(sys.argv[2]) / "gpt2", pathlib.Path(sys.argv[3])
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    rows = dict(np.load(model.with_suffix(".npz")))
    seq = rows["input_ids"].shape[1]
    models.CASES["tiny"] = types.SimpleNamespace(name="tiny", graph=model.name, batch=1, seq=seq, precision="fp32")
    models.make_data = lambda case, batches: rows
    (scratch / "peer").write_text(f"#!/bin/sh\ncase \"$*\" in *fsdp2*) echo no such way >&2; exit 3;; esac\necho '{json.dumps(PEER)}'\n")
    (scratch / "peer").chmod(0o755)
    sys.argv = ["ranks.py", "compile", str(model.parent), str(scratch), "tiny", "tiny:zero2", "--target", "cpu", "--trainc", shutil.which("trainc")]
    ranks.main()
    run(scratch, "--steps", "16")
    said = [json.loads(line) for line in open(scratch / "results.jsonl", encoding="utf-8")]
    assert [(one["case"], one["who"]) for one in said] == [
        ("tiny", "trainc 1"), ("tiny", "trainc 2"), ("tiny:zero2", "trainc 2"), ("tiny", "predicted"), ("tiny:zero2", "predicted"),
        ("tiny", "oracle"), ("tiny:zero2", "oracle"), ("tiny", "torch ddp"), ("tiny", "torch fsdp2")], said  # fmt: skip
    print("without any time")
    run(scratch, "--deadline", "1", "--stages", "peers,ours", "--resume")


if __name__ == "__main__":
    main()
