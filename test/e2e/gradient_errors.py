# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How far gradients are off: the measure that all comparisons share."""

import math

import numpy as np


def gradient_errors(gradients, reference):
    """|g - ref| / max(|ref|, 1e-3 |all| / sqrt(tensors)) for each parameter, in 2-norms."""
    reference = {n: r.astype(np.float64) for n, r in reference.items()}
    everything = math.sqrt(sum(float(np.sum(np.square(r))) for r in reference.values()))
    floor = 1e-3 * everything / math.sqrt(len(reference))
    return {
        n: float(np.linalg.norm((gradients[n].astype(np.float64) - r).ravel()))
        / max(float(np.linalg.norm(r.ravel())), floor, 1e-300)
        for n, r in reference.items()
    }
