#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scan and Loop of a size that has a name: `loops.py TRAINC TRAINC_RUN MAKE_ONNX`.

Each is compared, in loss and gradients, with the same of a fixed size, whose iterations are written out.
"""

import sys
import tempfile

import numpy as np

from selected_rows import Run, expect_equal


def numbers(count, phase):
    return " ".join(f"{0.5 * np.cos(1.9 * i + phase):.4f}" for i in range(count))


HEAD = f"""
opset 18
input x f32[STEPS,batch,4]
init w f32[4,4] = {numbers(16, 0)}
init r f32[4,4] = {numbers(16, 1)}
init b f32[4] = {numbers(4, 2)}
init first f32[4] = {numbers(4, 3)}
output loss f32[]
meta trainable = w\\nr\\nb\\nfirst
init zero i64[1] = 0
init one i64[1] = 1
init one_of_four i64[1] = 4
node Shape(x) -> size
node Gather(size, one) -> rows
node Concat(rows, one_of_four) -> shape axis=0
node Expand(first, shape) -> h
node MatMul(x, w) -> xw
"""
MEAN = """
node Mul(last, last) -> square
node ReduceMean(square) -> mean keepdims=0
node Sin(all) -> waves
node ReduceMean(waves) -> wave keepdims=0
node Add(mean, wave) -> loss
"""
CELL = """
graph body
  input s f32[batch,4]
  input step f32[batch,4]
  output next f32[batch,4]
  output seen f32[batch,4]
  node MatMul(s, r) -> own
  node Add(own, step) -> sum
  node Add(sum, b) -> all_of_it
  node Tanh(all_of_it) -> next
  node Mul(next, s) -> seen
"""


def appending(name, more="", appended="next"):
    """A body that carries a recurrence's state, and appends a tensor to a list."""
    return f"""
graph {name}
  input i i64[]
  input go bool[]
  input s f32[batch,4]
  input before f32
  output go_on bool[]
  output next f32[batch,4]
  output behind f32
  node Identity(go) -> go_on
  node Gather(xw, i) -> step axis=0
  node MatMul(s, r) -> own
  node Add(own, step) -> sum
  node Tanh(sum) -> next
  {more}
  node SequenceInsert(before, {appended}) -> behind
"""


CASES = {
    "recurrence": CELL + HEAD + "node Scan(h, xw) -> last, all num_scan_inputs=1 body=graph:body\n",
    "backwards": CELL
    + HEAD
    + "node Transpose(xw) -> turned perm=[1,0,2]\n"
    + "node Scan(h, turned) -> last, all num_scan_inputs=1 scan_input_axes=[1] scan_output_axes=[1] "
    + "scan_input_directions=[1] scan_output_directions=[1] body=graph:body\n",
    # Elementwise, as state-space models are.
    "selective scan": """
graph body
  input s f32[batch,4]
  input decay f32[batch,4]
  input step f32[batch,4]
  output next f32[batch,4]
  output seen f32[batch,4]
  node Mul(s, decay) -> kept
  node Add(kept, step) -> next
  node Mul(next, b) -> seen
"""
    + HEAD
    + "node Sigmoid(xw) -> decays\n"
    + "node Scan(h, decays, x) -> last, all num_scan_inputs=2 body=graph:body\n",
    # What is carried changes places, and is stacked as it was.
    "two states": """
graph body
  input s f32[batch,4]
  input t f32[batch,4]
  input step f32[batch,4]
  output next f32[batch,4]
  output other f32[batch,4]
  output seen f32[batch,4]
  node Mul(s, step) -> product
  node Add(product, t) -> other
  node Identity(t) -> next
  node Identity(s) -> seen
"""
    + HEAD
    + "node Scan(h, h, xw) -> end, last, all num_scan_inputs=1 body=graph:body\n",
    "loop": """
graph body
  input i i64[]
  input go bool[]
  input s f32[batch,4]
  output go_on bool[]
  output next f32[batch,4]
  output seen f32[batch,4]
  node Identity(go) -> go_on
  node Gather(xw, i) -> step axis=0
  node MatMul(s, r) -> own
  node Add(own, step) -> sum
  node Tanh(sum) -> next
  node Add(next, b) -> seen
"""
    + HEAD
    + "node Gather(size, zero) -> steps_\nnode Squeeze(steps_) -> steps\n"
    + "node Loop(steps, _, h) -> last, all body=graph:body\n",
    # A list of Python that a loop of TorchScript appends to.
    "list": appending("body", "node Add(next, b) -> seen", "seen")
    + HEAD
    + """
node Gather(size, zero) -> steps_
node Squeeze(steps_) -> steps
node SequenceEmpty() -> none
node Loop(steps, _, h, none) -> last, list body=graph:body
node ConcatFromSequence(list) -> side axis=-1 new_axis=1
node ConcatFromSequence(list) -> joined axis=0
node ReduceMax(joined, zero) -> largest keepdims=1
init two i64[] = 2
init end i64[] = -1
node SequenceAt(list, two) -> third
node SequenceAt(list, end) -> seventh
node SequenceLength(list) -> length
node Cast(length) -> count to=1
node Mul(third, seventh) -> both
node Div(both, count) -> part
node Add(part, largest) -> small
init back i64[1] = 2
node Unsqueeze(small, back) -> column
node Mul(side, column) -> all
""",
    # A list that has the first state before the loop, and to which a second loop appends.
    "list that has begun": appending("adds")
    + HEAD
    + """
node Gather(size, zero) -> steps_
node Squeeze(steps_) -> steps
node Sin(h) -> begun
node SequenceConstruct(begun, h) -> states
node Loop(steps, _, h, states) -> half, list body=graph:adds
node Loop(steps, _, half, list) -> last, longer body=graph:adds
node SequenceLength(longer) -> length
node Cast(length) -> count to=1
node ConcatFromSequence(longer) -> joined axis=0 new_axis=1
node Mul(joined, joined) -> squares
node Div(squares, count) -> all
""",
}


def main():
    x = np.random.default_rng(5).standard_normal((7, 3, 4)).astype(np.float32)
    with tempfile.TemporaryDirectory(prefix="trainc-loops-") as scratch:
        run = Run(*sys.argv[1:], scratch)
        for name, text in CASES.items():
            named = run.gradients(run.compile((text + MEAN).replace("STEPS", "seq")), row_count=3, x=x)
            fixed = run.gradients(run.compile((text + MEAN).replace("STEPS", "7")), row_count=3, x=x)
            expect_equal(name, named, fixed)


if __name__ == "__main__":
    main()
