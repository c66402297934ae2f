# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plug-ins in C++ outside of the tree, against the installed headers: the example trains, and what is wrong with one is named.

  cpp_plugin.py --build BUILD --source SOURCE SCRATCH
"""

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
from embed import cached, call, places

HEAD = """
opset 18
opset example 1
input x f32[batch,4]
init w f32[4,3] = 0.1 -0.2 0.3 0.4 0.5 -0.6 0.7 0.8 -0.9 1.0 0.2 0.3
meta trainable = w
output loss f32[]
node MatMul(x, w) -> h
"""
MEAN = "node Mul(y, y) -> squares\nnode ReduceMean(squares) -> loss keepdims=0\n"
SQUAREPLUS = "node example::Squareplus(h) -> y b=2.0 name=/act\n"
# The same in ONNX, as a function of that name: a plug-in goes before it.
FUNCTION = """function example Squareplus(x) -> y b
  node Constant() -> bend value_float=@b
  node Constant() -> half value_float=0.5
  node Mul(x, x) -> square
  node Add(square, bend) -> shifted
  node Sqrt(shifted) -> root
  node Add(x, root) -> sum
  node Mul(sum, half) -> y
"""


class Outside:
    def __init__(self, scratch, build, source):
        self.scratch, self.build, self.source = scratch, build, source
        self.flags = [f"-DCMAKE_CXX_COMPILER={cached(build, 'CMAKE_CXX_COMPILER')}", "-G", cached(build, "CMAKE_GENERATOR")]
        self.flags += [f"-DCMAKE_PREFIX_PATH={scratch / 'prefix'}"]
        call("cmake", "--install", build, "--component", "trainc-dev", "--prefix", scratch / "prefix")

    def model(self, name, text):
        (self.scratch / f"{name}.txt").write_text(text)
        call(sys.executable, self.source / "test/Import/Inputs/make_onnx.py", self.scratch / f"{name}.txt", self.scratch / f"{name}.onnx")
        return self.scratch / f"{name}.onnx"

    def trainc(self, *arguments, **more):
        return call(self.build / "bin/trainc", *arguments, **more)

    def losses(self, package):
        told = call(self.build / "bin/trainc-run", package, "--data", self.scratch / "data.npz", "--batch-size", "8", "--epochs", "5", "--log-format", "json")
        return [entry["loss"] for line in told.splitlines() if "loss" in (entry := json.loads(line))]


def check_example(outside):
    scratch = outside.scratch
    shutil.copytree(outside.source / "examples/plugins/cpp", scratch / "examples/plugins/cpp")
    own = "".join(file.read_text() for file in (scratch / "examples/plugins/cpp").iterdir())
    assert own.count("\n") <= 120, own.count("\n")
    # The page has parts of it, and the commands.
    page = (outside.source / "docs/plugins.md").read_text().split("\n## A plug-in in C++\n")[1]
    for code in re.findall(r"```(?:tablegen|cpp)\n(.*?)```", page, re.S):
        assert code in own, code
    (commands,) = re.findall(r"```text\n(cmake .*?)```", page, re.S)
    outside.model("model", HEAD + SQUAREPLUS + MEAN)
    where = {"CMAKE_PREFIX_PATH": str(scratch / "prefix"), "CMAKE_GENERATOR": "Ninja", "PATH": f"{outside.build / 'bin'}:{os.environ['PATH']}"}
    call("sh", "-ec", commands, cwd=scratch, env=os.environ | where)
    plugin = scratch / "build-squareplus/libsquareplus.so"
    np.savez(scratch / "data.npz", x=np.random.default_rng(1).standard_normal((8, 4)).astype(np.float32))
    model = outside.model("m", HEAD + FUNCTION + SQUAREPLUS + MEAN)
    outside.trainc(model, "-o", scratch / "plain.tpk", "--target", "cpu")
    outside.trainc(model, "--plugin", plugin, "-o", scratch / "own.tpk", "--target", "cpu", "--save-ir", scratch / "ir")
    legalized = (scratch / "ir/2-legalize.mlir").read_text()
    assert re.search(r"example\.squareplus %\d+ \{b = 2\.0+e\+00 : f64\}", legalized), legalized
    losses = outside.losses(scratch / "own.tpk")
    assert losses[-1] < losses[0] and np.allclose(losses, outside.losses(scratch / "plain.tpk"), rtol=1e-5), losses
    # In 16 bits, and for a GPU, without another line.
    outside.trainc(model, "--plugin", plugin, "-o", scratch / "gpu.tpk", "--target", "cuda:sm_90", "--precision", "bf16", "--save-kernels", scratch / "kernels")
    assert any("example.squareplus" in file.read_text(errors="replace") for file in (scratch / "kernels").iterdir())
    return plugin


#: What is told, by the fault of Inputs/faulty.cpp.
FAULTS = {
    "operator of another": r"faulty\.so: error: the operator 'example::Squareplus' is also one of '.*libsquareplus\.so'; leave one of the two plug-ins out",
    "operator of the compiler": r"the operator 'com\.microsoft::Gelu' is the compiler's own, which plug-ins do not replace; give the nodes another domain or name",
    "operator of a domain": r"the operator 'ai\.onnx::Thing' is of a domain that is none of a plug-in; one of ONNX's own domain is registered without it",
    "no handler": r"the operator 'faulty::Other' has no handler",
    "dialect of another": r"the dialect 'example' is also one of '.*libsquareplus\.so'; leave one",
    "dialect of the compiler": r"the dialect 'train' is the compiler's own and is there already; leave it out, or rename it",
    "no phase": r"'codegen' is no phase that passes of plug-ins belong to; they are legalize, graph, schedule",
    "no pass": r"a pass of the phase 'graph' is null, or has no name \(getArgument\)",
    "pass of the compiler": r"there is a pass 'autodiff' already; give this one another name",
    "registration crashes": r"faulty\.so: error: the plug-in has crashed while it was loaded \(Segmentation fault\)\n.*note: the call is at 0x\w+ of it: where it was built with -g, addr2line",
    "registration throws": r"the plug-in has thrown while it was loaded: there is no licence; it is to catch it, and to return failure",
    "registration throws a number": r"thrown while it was loaded: an object that is no std::exception",
    "registration exits": r"error: the plug-in '.*libfaulty\.so' has ended the process; it is to return instead",
    "dialect crashes": r"the plug-in has crashed while it was loaded",
    "handler crashes": r"faulty\.so: error: the plug-in has crashed in the phase 'legalize' \(Segmentation fault\)",
    "handler recurses": r"the plug-in has crashed in the phase 'legalize' \(Segmentation fault\)",
    "handler throws": r"the plug-in has thrown in the phase 'legalize': there is no licence",
    "handler exits": r"libfaulty\.so' has ended the process",
    "null result": r"its handler has given a result that is no tensor",
    "pass throws": r"the plug-in has thrown in the phase 'legalize'",
    "reason": r"node '/op' \(faulty::Op, opset 1\): its x is not to its liking",
    "idle": r"the op 'faulty\.idle' of the plug-in 'faulty' does not implement DecomposableOpInterface, as its role in kernels is None",
    "pointwise": r"the op 'faulty\.pointwise' of the plug-in 'faulty' does not implement AxisMapOpInterface",
    "impure": r"the op 'faulty\.impure' of the plug-in 'faulty' has effects or a body; ops of training graphs have the trait Pure and none",
    "nameless": r"node '/op' \(faulty::Op, opset 1\): its handler has given a result that is no tensor with constant or named sizes",
    "wrong map": r"the op 'faulty\.wrong' of the plug-in 'faulty' has an axis map without a loop, or -1, for each axis",
    "wrong count": r"'faulty\.wrong' of the plug-in 'faulty' is taken into 0 parts, and has 1 results",
    "wrong type": r"'faulty\.wrong' of the plug-in 'faulty' is taken into a part of type tensor<\?x3xf64, .*>, not tensor<\?x3xf32",
    "wrong ops": r"'faulty\.wrong' of the plug-in 'faulty' is made of ops that are wrong: 'train\.mul' op requires the same type",
    "wrong self": r"'faulty\.wrong' of the plug-in 'faulty' is taken into parts of which one is null, or the op itself",
    "wrong gradient": r"'faulty\.wrong' of the plug-in 'faulty' gives for operand 0 a gradient of type tensor<3xf32>, not tensor<\?x3xf32",
    "bare": r"the op 'faulty\.bare' of the plug-in 'faulty' does not implement FusionOpInterface or DecomposableOpInterface",
}


def check_faults(outside, squareplus):
    scratch, cxx = outside.scratch, cached(outside.build, "CMAKE_CXX_COMPILER")
    source = outside.source / "test/embed/Inputs/faulty.cpp"
    folder = scratch / "faulty"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.20)\nproject(faulty LANGUAGES CXX)\nfind_package(trainc REQUIRED)\ntrainc_add_plugin(faulty {source})\n"
    )
    call("cmake", "-S", folder, "-B", folder, *outside.flags)
    call("cmake", "--build", folder)
    faulty = folder / "libfaulty.so"
    model = outside.model("faulty", HEAD + "node faulty::Op(h) -> y name=/op\n" + MEAN)

    def refused(said, *plugins, program="trainc", **environment):
        given = [word for plugin in plugins for word in ("--plugin", plugin)]
        command = [outside.build / "bin" / program, model, *given, "-o", scratch / "faulty.tpk", "--target", "cpu"]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)
        assert done.returncode == 1 and re.search(said, done.stderr), (environment, done)

    for fault, said in FAULTS.items():
        refused(said, squareplus, faulty, FAULT=fault)
    # Nothing of these runs.
    bytes = faulty.read_bytes()
    (other := folder / "libother.so").write_bytes(re.sub(rb"headers \w{12}", b"headers 0123456789ab", bytes))
    refused(r"it was built for another compiler, 'trainc .*, headers 0123456789ab', and this one is 'trainc .*': build it again with the headers of this one", other)
    (cut := folder / "libcut.so").write_bytes(bytes[:100])
    refused(r"libcut\.so: error: it is no shared object of ELF", cut)
    abi = re.search(rb"trainc [^\0]*, headers \w{12}", bytes)[0].decode()
    for name, code, said in (
        ("none", "int x;", r"it is no plug-in in C\+\+: one of its files says TRAINC_PLUGIN"),
        ("c", "const unsigned trainrt_plugin_abi = 1;", r"it is the code of a plug-in in C: name the JSON that describes it"),
        ("empty", f'const char trainc_plugin_abi[] = "{abi}";', r"it has no function trainc_plugin_register, which TRAINC_PLUGIN makes"),
        ("lacks", f'const char trainc_plugin_abi[] = "{abi}"; void lost(void); void trainc_plugin_register(void) {{ lost(); }}', r"it cannot be loaded: .*undefined symbol: lost"),
    ):
        call(cached(outside.build, "CMAKE_C_COMPILER"), "-x", "c", "-shared", "-fPIC", "-", "-o", folder / f"lib{name}.so", input=code)
        refused(said, folder / f"lib{name}.so")
    refused(r"this trainc is one executable with LLVM inside, which plug-ins in C\+\+ cannot share", faulty, program="trainc-portable")
    return faulty


KERNEL = """{"plugin": 1, "library": "kernel.so", "operators": [
  {"name": "NAME", "inputs": ["x: f32[..., n]"], "outputs": ["y: f32[..., n]"], "cpu": "kernel"}]}"""
KERNEL_C = """#include <trainrt/plugin.h>
TRAINRT_PLUGIN
TRAINRT_PLUGIN_EXPORT int kernel(const trainrt_external_call *call) { return call->num_inputs; }
"""


def check_kernels(outside, squareplus, faulty):
    """A handler may call a kernel of a description, and tools read the dialects of plug-ins."""
    scratch, folder = outside.scratch, outside.scratch / "faulty"
    (folder / "kernel.json").write_text(KERNEL.replace("NAME", "faulty::Kernel"))
    command = [cached(outside.build, "CMAKE_C_COMPILER"), "-x", "c", "-shared", "-fPIC", f"-I{outside.source / 'runtime/include'}", "-"]
    call(*command, "-o", folder / "kernel.so", input=KERNEL_C)
    options = ["--inference", "--target", "cpu", "--stop-after", "legalize", "--save-ir", scratch / "kernel-ir"]
    outside.trainc(scratch / "faulty.onnx", "--plugin", faulty, *options, env=os.environ | {"FAULT": "kernel"})
    assert 'train.external "kernel" "kernel"' in (scratch / "kernel-ir/2-legalize.mlir").read_text()
    (folder / "kernel.json").write_text(KERNEL.replace("NAME", "example::Squareplus"))
    command = [outside.build / "bin/trainc", scratch / "m.onnx", "--plugin", squareplus, "--plugin", folder / "kernel.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and re.search(r"kernel\.json:2: error: the operator 'example::Squareplus' is also one of '.*libsquareplus\.so'", done.stderr), done
    saved = scratch / "ir/2-legalize.mlir"
    assert "example.squareplus" in call(outside.build / "bin/trainc-opt", f"--plugin={squareplus}", "--graph", saved)
    done = subprocess.run([outside.build / "bin/trainc-opt", "--plugin=none.so", saved], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "trainc-opt: error: none.so: No such file or directory" in done.stderr, done
    command = [outside.build / "bin/trainc", "--start-from", "legalize", saved, "--plugin", folder / "kernel.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "kernel.json: error: with --start-from only plug-ins in C++ are named again, to read" in done.stderr, done
    outside.trainc("--start-from", "legalize", saved, "--plugin", squareplus, "-o", scratch / "again.tpk")
    assert outside.losses(scratch / "again.tpk") == outside.losses(scratch / "own.tpk")


def main():
    outside = Outside(*places("source"))
    plugin = check_example(outside)
    check_kernels(outside, plugin, check_faults(outside, plugin))


if __name__ == "__main__":
    main()
