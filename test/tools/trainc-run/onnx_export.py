# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""--export to .onnx of models that are made by hand, to fit the hand-made package or not. Needs no compiler.

  onnx_export.py --trainc-run build/bin/trainc-run --cc CC --schema program.fbs DIR
"""

import argparse
import pathlib
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "Inputs"), str(HERE.parents[1] / "e2e")]
from cases import expect, run_cases  # noqa: E402
from mini_onnx import FLOAT, field, model, node, tensor, value_info, varint  # noqa: E402

INPUTS = [value_info("x", FLOAT, ["batch", 3])]
OUTPUTS = [value_info("pred", FLOAT, ["batch"])]


class Cases:
    def __init__(self, arguments):
        self.arguments, self.folder = arguments, arguments.folder
        make = [sys.executable, HERE / "Inputs" / "make_package.py", self.folder, "--cc", arguments.cc]
        subprocess.check_call([*map(str, make), "--schema", str(arguments.schema)])
        self.model, self.exported = self.folder / "m.onnx", self.folder / "out.onnx"

    def write(self, nodes=(), outputs=(), w=(3,), more=()):
        """A model with the package's parameters."""
        tensors = [tensor("w", list(w), [0.5] * w[0]), tensor("b", [5], [0] * 5), *more]
        base = [node("MatMul", ["x", "w"], ["pred"], "project")]
        self.model.write_bytes(model([*base, *nodes], INPUTS, [*OUTPUTS, *outputs], tensors))

    def export(self, *flags, code=0):
        command = [self.arguments.trainc_run, self.folder / "linear.tpk", "--export", self.exported, "--model", self.model]
        done = subprocess.run([str(c) for c in [*command, *flags]], capture_output=True, text=True)
        expect(done.returncode == code, done.returncode, done.stderr)
        return done.stderr

    def refused(self, words, *flags):
        error = self.export(*flags, code=1)
        expect(f"error: model '{self.model}': {words}" in error, error)
        expect(not self.exported.exists(), "written all the same")

    def case_written(self):
        self.write()
        said = self.export()
        expect(f"wrote the model with 2 parameters to {self.exported}" in said, said)
        # The package's own values.
        expect(struct.pack("<3f", 0.1, 0.2, 0.3) in self.exported.read_bytes(), "other values")
        self.exported.unlink()

    def case_of_another_shape(self):
        self.write(w=(4,))
        self.refused("initializer 'w' is not f32 [3] as in the package; the model must be the file that was compiled")

    def case_outputs_that_are_not_there(self):
        self.write()
        self.refused("it has no output 'logits'; it has pred", "--outputs", "logits")

    def case_statistics_of_a_batch(self):
        mode = ("training_mode", 1)
        norm = node("BatchNormalization", ["x", "w", "w", "w", "w"], ["y", "mean", "var"], "norm", attributes=[mode])
        self.write([norm], [value_info("mean", FLOAT, [3])])
        self.refused(
            "'mean' is an output of a BatchNormalization in training mode, which an exported model does not compute",
            "--outputs", "mean",
        )

    def case_too_large(self):
        """A constant of 2 GiB, all of it a hole in the file: known before anything runs."""
        size = 1 << 31
        large = field(1, size // 4) + field(2, FLOAT) + field(8, "large") + varint(9 << 3 | 2) + varint(size)
        graph = b"".join(field(5, tensor(name, [n], [0] * n)) for name, n in (("w", 3), ("b", 5)))
        graph += varint(5 << 3 | 2) + varint(len(large) + size) + large
        with open(self.model, "wb") as file:
            file.write(field(1, 8) + varint(7 << 3 | 2) + varint(len(graph) + size) + graph)
            file.truncate(file.tell() + size)
        self.refused("it would be larger than 2 GiB, which ONNX files cannot be; export to .safetensors")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainc-run", type=pathlib.Path, required=True)
    parser.add_argument("--cc", required=True)
    parser.add_argument("--schema", type=pathlib.Path, required=True)
    parser.add_argument("folder", type=pathlib.Path)
    run_cases(parser, Cases)


if __name__ == "__main__":
    main()
