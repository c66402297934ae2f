# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests with PyTorch share."""

import os
import tempfile
import unittest

_folder = None


def own_cache():
    """Nothing is found that was compiled before these tests."""
    global _folder
    if _folder is None:
        _folder = tempfile.TemporaryDirectory()
        os.environ["TRAINC_CACHE"] = _folder.name


def compare_gradients(test, found, exact, single):
    """By test/e2e's criterion: our error may be four times that of PyTorch's own f32, or 1e-5 of the largest gradient.

    found, exact (f64), single (f32): {name: gradient}.
    """
    largest = max(gradient.abs().max().item() for gradient in exact.values())
    for name, expected in exact.items():
        error = (found[name].double() - expected).abs().max().item()
        allowed = 4 * (single[name].double() - expected).abs().max().item() + 1e-5 * largest
        test.assertLessEqual(error, allowed, name)


class Case(unittest.TestCase):
    def setUp(self):
        import torch

        torch.manual_seed(0)
