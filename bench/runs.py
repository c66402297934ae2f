# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs of trainc-run on the CPU that are timed."""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def timed(package, data, *, batch, steps, threads, unmeasured):
    """Steps of a process of its own: milliseconds of those behind the first `unmeasured`, the losses of all, and bytes: what the
    kernel has counted as resident, and what the runtime has."""
    command = [ROOT / "build/bin/trainc-run", package, "--data", data, "--batch-size", batch]
    command += ["--steps", steps + unmeasured, "--log-format", "json", "--threads", threads]
    with subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, text=True) as process:
        log = [json.loads(line) for line in process.stdout]
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"trainc-run failed with exit code {process.returncode}")
    entries = [entry for entry in log if "event" not in entry]
    return {
        "step_ms": [entry["step_ms"] for entry in entries][unmeasured:],
        "losses": [entry["loss"] for entry in entries],
        "peak_rss": usage.ru_maxrss * 1024,
        "peak_bytes": entries[-1]["peak_bytes"],
    }
