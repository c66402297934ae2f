# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long a step would take, before anything runs: its operations, and what the machine makes in a second."""

import subprocess
import time

#: Dense 16-bit operations a second by NVIDIA's data sheets, and the share of them that steps reach here (docs/benchmarks.md).
_GPUS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12, "4090": 165e12, "3090": 71e12}
_SHARE = 0.6


def operations(parameters, tokens, trains_all, again):
    """A forward pass and the gradients of activations; those of weights where all are trained; the forward once more where it
    is computed again."""
    passes = 2 + (1 if trains_all else 0) + (1 if again else 0)
    return 2 * parameters * tokens * passes


def cpu_speed():
    """Operations a second of a matmul, measured for a moment."""
    import numpy as np

    one = np.ones((768, 768), np.float32)
    one @ one
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < 0.2:
        one @ one
        count += 1
    return 2 * 768**3 * count / (time.perf_counter() - begin)


def gpu_speed():
    """(operations a second, name) of the first GPU by its data sheet, or None."""
    try:
        names = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True).stdout
    except OSError:
        return None
    for key, speed in _GPUS.items():
        if key in names:
            return speed, key
    return None


def describe(facts, package_target, count, tokens, again):
    """A line about the time of a step, and of the run."""
    if not count:
        return "time of a step: not known, as the graph does not tell the number of its parameters"
    work = operations(count, tokens, not facts["lora"], again)
    if package_target.startswith("cuda"):
        found = gpu_speed()
        if not found:
            return f"time of a step: {work / 1e12:.2f} T operations; this machine's GPU is not known"
        many = facts["ranks"]
        speed, name = found[0] * _SHARE * many, f"{100 * _SHARE:.0f} % of what {f'{many} GPUs make' if many > 1 else f'an {found[1]} makes'}"
    else:
        speed, name = cpu_speed() * _SHARE, f"{100 * _SHARE:.0f} % of the speed of a matmul here"
    seconds = work / speed
    return f"time of a step: about {seconds:.3g} s, of the run {seconds * facts['steps'] / 60:.3g} minutes ({work / 1e12:.3g} T operations, {name})"
