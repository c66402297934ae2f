#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models that do not go with a plug-in, each an error of the node: `models.py CC SOURCE TRAINC MAKE_ONNX FOLDER`."""

import json
import os
import pathlib
import subprocess
import sys

CC, SOURCE, TRAINC, MAKE_ONNX, FOLDER = sys.argv[1:]
FOLDER = pathlib.Path(FOLDER)
MODEL = """
opset 18
opset my 1
input x f32[batch,6]
input ids i64[batch]
input bytes u8[batch]
init w f32[6,4] = 0.5
init v f32[4] = 0.5
meta trainable = w\\nv
output loss f32[]
node MatMul(x, w) -> h
node my::Op(h, v) -> y name=op k=2 scale=0.5 pads=[1,2]
node ReduceMean(y) -> loss keepdims=0
"""
PLUGIN = {
    "plugin": 1,
    "library": "p.so",
    "operators": [
        {
            "name": "my::Op", "inputs": ["x: f32[..., n]", "v: f32[n]"], "outputs": ["y: f32[..., n / k]"],
            "attributes": ["k: int", "scale: float = 1", "pads: ints = []"], "cpu": "f", "gradient": "my::OpGrad",
        },
        {"name": "my::OpGrad", "inputs": ["x: f32[..., n]", "grad_y: f32[..., m]"], "outputs": ["grad_x: f32[..., n]", "grad_v: f32[n]"], "cpu": "g"},
    ],
}  # fmt: skip
FIRST = "node 'op/Op' (trainc.plugin::my::Op, opset 1): "
#: (edit of the model, edit of the plug-in's text, what is told)
CASES = [
    ((), (), None),
    (("my::Op(", "Det("), ('"my::Op"', '"ai.onnx::Det"'), None),
    (("k=2", "k=2 z=1"), (), "node 'op' (my::Op) has an attribute 'z', which the plug-in does not declare (p.json:"),
    (("(h, v)", "(h)"), (), "node 'op/Op' (trainc.plugin::my::Op, opset 1): its input 1 is missing|its input 'v' is missing"),
    (("(h, v)", "(ids, v)"), (), FIRST + "its input 'x' is i64[batch], and the plug-in takes 'x: f32[..., n]' (p.json:"),
    (("(h, v)", "(bytes, v)"), (), FIRST + "its input 'x' is unsigned, which plug-ins are not given; cast it before"),
    (("(h, v)", "(x, v)"), (), FIRST + "its input 'v' has the shape [4], and 'v: f32[n]' of the plug-in is [6] here (p.json:"),
    ((" k=2", ""), (), FIRST + "its attribute 'k' is missing"),
    (("scale=0.5", "scale=1"), (), FIRST + "its attribute 'scale' is of another type than the plug-in declares (p.json:"),
    (("k=2", "k=0"), (), FIRST + "a size of the plug-in is divided by 0, which is not known to be above 0 (p.json:"),
    ((), ('"grad_x: f32[..., n]"', '"grad_x: f32[..., m]"'), "its gradient 'my::OpGrad' gives 'grad_x' as tensor<?x2xf32, #train.dims<batch, 2>>, but 'x' is tensor<?x4xf32"),
    ((), (', "grad_v: f32[n]"', ""), "its gradient 'my::OpGrad' has no output 'grad_v'; add it, or name 'v' in"),
    ((), ('"my::OpGrad", "inputs"', '"my::Other", "inputs"'), "there is no 'my::OpGrad', which 'Op' names as its gradient; add it to the functions of the model, or to the operators of a plug-in"),
    ((), (', "gradient": "my::OpGrad"', ""), "'op/Op'"),
    ((), ('"y: f32[..., n / k]"', f'"y: f32[{", ".join(["..."] + ["1"] * 255)}]"'), FIRST + "its output 'y' has 256 axes, and functions of plug-ins take 255 at most (p.json:"),
    ((), ('"cpu": "f"', '"cuda": "f"'), FIRST + "its plug-in has no 'cpu' that computes it there; add that (p.json:"),
]  # fmt: skip
CODE = """#include <trainrt/plugin.h>
TRAINRT_PLUGIN
TRAINRT_PLUGIN_EXPORT int f(const trainrt_external_call *call) { return 0; }
TRAINRT_PLUGIN_EXPORT int g(const trainrt_external_call *call) { return 0; }
"""


def run(model, plugin, *options):
    (FOLDER / "m.txt").write_text(model)
    (FOLDER / "p.json").write_text(plugin)
    subprocess.run([sys.executable, MAKE_ONNX, FOLDER / "m.txt", FOLDER / "m.onnx"], check=True)
    command = [TRAINC, "m.onnx", "--plugin", "p.json", "--stop-after", "schedule", *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=FOLDER)


def main():
    (FOLDER / "p.c").write_text(CODE)
    command = [CC, "-I", f"{SOURCE}/runtime/include", "-shared", "-fPIC", FOLDER / "p.c", "-o", FOLDER / "p.so"]
    subprocess.run(command, check=True)
    text, failed = json.dumps(PLUGIN, indent=1), 0
    flat = json.dumps(PLUGIN)
    for model, plugin, wanted in CASES:
        done = run(MODEL.replace(*model) if model else MODEL, (flat.replace(*plugin) if plugin else text))
        good = done.returncode == 0 if wanted is None else done.returncode == 1 and any(one in done.stderr for one in wanted.split("|"))
        if not good:
            failed += 1
            print(f"{model} {plugin}: expected {wanted}\n     got {done.returncode} {done.stderr}")
    # Of a package: code for each processor, and for what saved IR calls.
    here, other = ("x86-64", "aarch64") if os.uname().machine == "x86_64" else ("aarch64", "x86-64")
    (FOLDER / "p.json").write_text(text)
    (FOLDER / "m.txt").write_text(MODEL)
    subprocess.run([sys.executable, MAKE_ONNX, FOLDER / "m.txt", FOLDER / "m.onnx"], check=True)
    target = "cpu:armv8.2-a" if here == "x86-64" else "cpu:x86-64-v3"
    compile = [TRAINC, "m.onnx", "--plugin", "p.json", "-o", "m.tpk"]
    done = subprocess.run([*compile, "--target", target], capture_output=True, text=True, cwd=FOLDER)
    said = f"the plug-in 'p' has no library for {other}, and the package is for {target}: add one, or name another --target"
    if done.returncode != 1 or said not in done.stderr:
        failed += 1
        print(f"expected {said}\n     got {done.stderr}")
    subprocess.run([*compile, "--save-ir", "ir", "--stop-after", "schedule"], check=True, capture_output=True, cwd=FOLDER)
    saved = FOLDER / "ir/4-schedule.mlir"
    saved.write_text(saved.read_text().replace('train.external "p"', 'train.external "q"'))
    done = subprocess.run([TRAINC, "--start-from", "schedule", saved, "-o", "m.tpk"], capture_output=True, text=True, cwd=FOLDER)
    said = "the program calls the plug-in 'q', which no --plugin describes"
    if done.returncode != 1 or said not in done.stderr:
        failed += 1
        print(f"expected {said}\n     got {done.stderr}")
    # Predictions need no gradient.
    done = run(MODEL, flat.replace(', "gradient": "my::OpGrad"', ""), "--inference")
    if done.returncode:
        failed += 1
        print(done.stderr)
    sys.exit(failed)


if __name__ == "__main__":
    os.environ.pop("TRAINC_LOG_LEVEL", None)
    main()
