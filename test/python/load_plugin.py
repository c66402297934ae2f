# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plug-ins in Python, without PyTorch: `load_plugin.py FOLDER SOURCE CC MAKE_ONNX`."""

import os
import pathlib
import subprocess
import sys
import unittest

import numpy as np
import trainc
from trainc import compiler

FOLDER, SOURCE, CC, MAKE_ONNX = map(pathlib.Path, sys.argv[1:5])
os.environ["TRAINC_CACHE"] = str(FOLDER / "cache")
MODEL = """
opset 18
opset example 1
input x f32[batch,3]
init beta f32[3] = 1.0 0.5 2.0
meta trainable = beta
output loss f32[]
node example::swish(x, beta) -> y
node ReduceMean(y) -> loss keepdims=0
"""


def build(code):
    (FOLDER / "swish.c").write_text(code)
    command = [CC, "-shared", "-fPIC", "-I", SOURCE / "runtime/include", FOLDER / "swish.c", "-o", FOLDER / "swish.so", "-lm"]
    subprocess.run(command, check=True)


class Plugins(unittest.TestCase):
    def test_loaded(self):
        example = SOURCE / "examples/plugins"
        (FOLDER / "swish.json").write_text((example / "swish.json").read_text())
        build((example / "swish.c").read_text())
        (FOLDER / "m.txt").write_text(MODEL)
        subprocess.run([sys.executable, MAKE_ONNX, FOLDER / "m.txt", FOLDER / "m.onnx"], check=True)
        with self.assertRaisesRegex(trainc.CompileError, "example::swish.*is not supported"):
            trainc.compile(FOLDER / "m.onnx")
        self.assertEqual(trainc.load_plugin(FOLDER / "swish.json"), ["example::swish", "example::swish_grad"])
        batch = {"x": np.full((4, 3), 0.5, np.float32)}
        first = float(trainc.compile(FOLDER / "m.onnx")(batch))
        x, beta = batch["x"].astype(float), np.array([1.0, 0.5, 2.0])
        self.assertAlmostEqual(first, float(np.mean(x / (1 + np.exp(-beta * x)))), places=6)
        # Other code is another plug-in: what was compiled before is not taken for it.
        loaded, given = compiler.version(), compiler.version(FOLDER / "swish.json")
        build((example / "swish.c").read_text().replace("y[i] = x[i]", "y[i] = 2 * x[i]"))
        self.assertNotEqual(compiler.version(), loaded)
        self.assertNotEqual(compiler.version([FOLDER / "swish.json"]), given)
        self.assertAlmostEqual(float(trainc.compile(FOLDER / "m.onnx")(batch)), 2 * first, places=6)

    def test_of_one_compilation(self):
        self.assertEqual(compiler.command_line({"plugin": ["a.json", "b.json"]})[:2], ["--plugin=a.json", "--plugin=b.json"])
        self.assertEqual(compiler.command_line({"plugin": "a.json"})[:1], ["--plugin=a.json"])

    def test_refused(self):
        with self.assertRaisesRegex(trainc.Error, "none.json' cannot be read"):
            trainc.load_plugin(FOLDER / "none.json")
        (FOLDER / "bad.json").write_text("{}")
        with self.assertRaisesRegex(trainc.Error, "bad.json' describes no plug-in: KeyError"):
            trainc.load_plugin(FOLDER / "bad.json")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
