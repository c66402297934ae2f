#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times llm.c's GPT-2 step of one case: `peer_llmc.py BINARY CASE`.

BINARY is `train_gpt2cu`, built by the user from https://github.com/karpathy/llm.c with cuDNN
attention and bf16 (`make train_gpt2cu USE_CUDNN=1`). It has hand-written kernels for this one
model, bf16 parameters with fp32 masters, clipping to 1.0 and no dropout, so that its times are to
be read beside the cases without dropout. Prints one JSON line, as peer_torch.py does.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time

import models
import numpy as np

STEP = re.compile(r"^step +(\d+)/\d+ \| loss ([0-9.]+|nan) .*\| ([0-9.]+) ms \|")
USED = re.compile(r"^device memory usage: (\d+) MiB")


def write_tokens(path, tokens):
    """llm.c's data file: 256 int32 (magic, version, count), then uint16 tokens."""
    header = np.zeros(256, np.int32)
    header[:3] = 20240520, 1, tokens.size
    path.write_bytes(header.tobytes() + tokens.astype(np.uint16).tobytes())


def libraries():
    """The folders of the CUDA libraries in this Python's wheels, for the loader."""
    site = pathlib.Path(sysconfig.get_path("purelib"))
    found = [str(path) for path in sorted(site.glob("nvidia/*/lib"))]
    return os.pathsep.join([*found, os.environ.get("LD_LIBRARY_PATH", "")])


def measure(binary, case, steps, warmup):
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "tokens.bin"
        count = 4 * case.batch * case.seq + 1
        write_tokens(data, np.random.default_rng(1).integers(0, case.vocab, count))
        command = [binary, "-i", data, "-j", data, "-e", f"d{case.layers}"]
        command += ["-b", case.batch, "-t", case.seq, "-d", case.batch * case.seq]
        command += ["-x", warmup + steps, "-l", "1e-4", "-c", "0.01", "-v", 10**6, "-m", 1, "-s", 0]
        begin = time.monotonic()
        process = subprocess.run(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "LD_LIBRARY_PATH": libraries()},
        )
        seconds = time.monotonic() - begin
    lines = process.stdout.splitlines()
    found = [match for match in map(STEP.match, lines) if match]
    if process.returncode or len(found) != warmup + steps:
        raise RuntimeError(f"exit code {process.returncode}: {' | '.join(lines[-3:])}")
    times = [float(match[3]) for match in found[warmup:]]
    tenths = statistics.quantiles(times, n=10)
    used = [int(match[1]) * 2**20 for match in map(USED.match, lines) if match]
    return {
        "step_ms": statistics.median(times),
        "p10": tenths[0],
        "p90": tenths[-1],
        "steps": len(times),
        "first_step_s": seconds - sum(float(match[3]) for match in found) / 1e3,
        "losses": [float(found[0][2]), float(found[-1][2])],
        "peak_reserved": used[-1] if used else None,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("case", choices=[n for n, c in models.CASES.items() if c.family == "gpt2"])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warmup", type=int, default=8)
    arguments = parser.parse_args()
    line = {"case": arguments.case, "who": "llm.c", "precision": "bf16"}
    try:
        case = models.CASES[arguments.case]
        line.update(measure(arguments.binary, case, arguments.steps, arguments.warmup))
    except (OSError, RuntimeError) as error:
        line["error"] = str(error)[:400]
    print(json.dumps(line))
    sys.exit("error" in line)


if __name__ == "__main__":
    main()
