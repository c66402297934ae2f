# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plug-ins in Python, without PyTorch: `load_plugin.py FOLDER SOURCE CC MAKE_ONNX`."""

import os
import pathlib
import subprocess
import sys
import types
import unittest

import numpy as np
import trainc
import trainrt
from trainc import compiler, plugins

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
        self.assertEqual(plugins.untranslated("example::swish"), "")
        self.assertIn("no plug-in that was loaded has it; those that were loaded have example::swish, ", plugins.untranslated("my::op"))
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

        # A machine that lacks what the code needs.
        build("float elsewhere(float x);\n" + (example / "swish.c").read_text().replace("y[i] = x[i]", "y[i] = elsewhere(x[i])"))
        with self.assertRaisesRegex(trainrt.errors.BadPackage, r"package '.*': the plug-in 'swish' \(node .*\) cannot be loaded: it needs 'elsewhere', which"):
            trainc.compile(FOLDER / "m.onnx")(batch)

    def test_in_cpp(self):
        library = FOLDER / "libmine.so"
        library.write_bytes(b"\x7fELF")
        before = compiler.version()
        self.addCleanup(plugins._operators.pop, "mine::op")
        self.addCleanup(plugins._loaded.remove, str(library.resolve()))
        self.assertEqual(trainc.load_plugin(library, operators=["mine::op"]), ["mine::op"])
        self.assertNotEqual(compiler.version(), before)
        with self.assertRaisesRegex(trainc.Error, "operators= is for plug-ins in C\\+\\+"):
            trainc.load_plugin(SOURCE / "examples/plugins/swish.json", operators=["mine::op"])
        # As torch.library declares it.
        arguments = [types.SimpleNamespace(name=name, type=kind) for name, kind in (("x", "Tensor"), ("b", "float"), ("axes", "List[int]"))]
        schema = types.SimpleNamespace(arguments=arguments, returns=["Tensor"])
        self.assertEqual(plugins._declared("mine::op", schema), (["x"], [("b", float), ("axes", list[int])], ["y0"]))
        arguments[1].type = "Device"
        with self.assertRaisesRegex(trainc.Error, "the argument 'b' of mine::op is of type Device, which no attribute of a node is"):
            plugins._declared("mine::op", schema)

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
