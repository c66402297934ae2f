#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""sequence_lens of recurrent layers: `sequence_lengths.py TRAINC TRAINC_RUN MAKE_ONNX`.

A batch of sequences of one length is compared with the same data cut there, and lengths that are none are refused.
"""

import re
import subprocess
import sys
import tempfile

import numpy as np

from selected_rows import Run, expect_equal


def numbers(count):
    return " ".join(f"{0.5 * np.cos(1.9 * i):.4f}" for i in range(count))


MODEL = f"""
opset 18
input x f32[batch,seq,4]
input given i32[batch]
init w f32[1,9,4] = {numbers(36)}
init r f32[1,9,3] = {numbers(27)}
output loss f32[]
meta trainable = w\\nr
node Transpose(x) -> steps perm=[1,0,2]
LENGTHS
node GRU(steps, w, r, _, lengths) -> all, last hidden_size=3 name=gru
node Mul(last, last) -> square
node ReduceMean(square) -> mean keepdims=0
node ReduceSum(all) -> sum keepdims=0
node Add(mean, sum) -> loss
"""
GIVEN = "node Identity(given) -> lengths"
#: Of a mask.
SUMMED = "init sequence i64[1] = 1\nnode ReduceSum(given, sequence) -> lengths keepdims=0"
COMPUTED = "init two i32[] = 2\nnode Sub(given, two) -> lengths"


def refused(run, package, message, **arrays):
    data = run.base / "bad.npz"
    np.savez(data, **arrays)
    command = [run.tools[1], package, "--data", data, "--steps", "1", "--batch-size", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 1 or not re.search(message, done.stderr):
        sys.exit(f"expected /{message}/: exit code {done.returncode}, {done.stderr}")


def main():
    x = np.random.default_rng(5).standard_normal((3, 7, 4)).astype(np.float32)

    def of(*values):
        return np.array(values, np.int32)

    with tempfile.TemporaryDirectory(prefix="trainc-lengths-") as scratch:
        run = Run(*sys.argv[1:], scratch)
        given = run.compile(MODEL.replace("LENGTHS", GIVEN))
        cut = run.gradients(given, x=x[:, :4], given=of(4, 4, 4))
        expect_equal("given", run.gradients(given, x=x, given=of(4, 4, 4)), cut)
        # Before the step, with the row; a length of 0 is one.
        run.gradients(given, x=x, given=of(7, 0, 3))
        text = r"'given': value 8 at \[1\] is out of range: allowed are 0 to 7 \(node 'gru'\)"
        refused(run, given, text, x=x, given=of(7, 8, 3))
        refused(run, given, r"'given': value -1 at \[2\] is out of range", x=x, given=of(7, 7, -1))
        # What is computed, where it is used.
        computed = run.compile(MODEL.replace("LENGTHS", COMPUTED))
        expect_equal("computed", run.gradients(computed, x=x, given=of(6, 6, 6)), cut)
        refused(run, computed, r"node 'gru': index 8.* is out of range", x=x, given=of(9, 10, 3))
        refused(run, computed, r"node 'gru': index -1.* is out of range", x=x, given=of(9, 9, 1))
        summed = run.compile(MODEL.replace("LENGTHS", SUMMED).replace("given i32[batch]", "given i32[batch,seq]"))
        mask = (np.arange(7) < 4).astype(np.int32)[None].repeat(3, 0)
        expect_equal("of a mask", run.gradients(summed, x=x, given=mask), cut)
        refused(run, summed, r"node 'gru': index 8.* is out of range", x=x, given=2 * mask)


if __name__ == "__main__":
    main()
