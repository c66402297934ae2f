#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The random graphs of hoist-slices, with many more transposes: `transposed_graphs.py FIRST LAST`."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "HoistSlices"))
sys.dont_write_bytecode = True
import random_graphs  # noqa: E402


class Transposed(random_graphs.Graph):
    def unary(self, x, d, k):
        if self.random.random() < 0.6:
            self.transpose(x, d, k)
            # There and back, around what is made of it.
            x, d = self.values[-1]
        super().unary(x, d, k)


if __name__ == "__main__":
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        print(Transposed(seed).text(f"f{seed}"))
