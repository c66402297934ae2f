#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ops_page.py SOURCE BUILD [--write]: docs/ops.md is what trainc-translate --list-operators says.

With --write the page is made anew."""

import sys

from generated import check, list_operators

HEAD = """# ONNX operators

<!-- Made by: test/meta/ops_page.py . build --write -->

Models of opset 1 to 27 are read. An operator compiles from the opset named here on; one that is not here, or a value
of an attribute, a type or an older form that its handler does not know, is an error that names the node. So is an attribute that
the operator does not have in this opset, has of another type, or needs and lacks, as `onnx.checker` has it (but for names that begin with
two underscores, and for ONNX Runtime's operators of training, of which attributes that are not known are not looked at).

- *element types* are those of the first input: float is f64, f32, f16 and bf16; integer i8 to i64, u8, u16 and u32 (as
  outputs, unsigned ones are of the next wider signed type). u64, strings, complex numbers and floats of 8 bits and fewer are refused. On a CPU, f16 and bf16 are computed in
  f32 and rounded where results of the graph are.
- *gradient*: training goes through the operator; those of ONNX itself are compared with difference quotients
  (`test/onnx_backend/gradients.py`). The others have a gradient of zero or none.
- Shapes have to be known while compiling, but for sizes that have a name: axes, pads, repeats, the length of a range and
  the like are constants or made of sizes. The course of `If`, `Loop` and `Scan` has to be known, too: they are unrolled,
  but for loops of a size with a name or of more than 64 iterations ([design/loops.md](design/loops.md)).

ONNX's own node tests are run by `test/onnx_backend/node_tests.py --build build --jobs 2`, which prints how many pass,
are refused and fail; `refused.txt` beside it lists those that are refused.

| operator | from opset | element types | gradient |
| --- | --- | --- | --- |
"""


def main():
    return check("docs/ops.md", HEAD + list_operators())


if __name__ == "__main__":
    sys.exit(main())
