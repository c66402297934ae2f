# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plug-in of examples/plugins, built and trained outside of the tree, against the installed runtime.

  plugin.py --build BUILD --source SOURCE SCRATCH
"""

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
from embed import cached, call, install, places

MODEL = """
opset 18
opset example 1
input x f32[batch,4]
init w f32[4,3] = 0.1 -0.2 0.3 0.4 0.5 -0.6 0.7 0.8 -0.9 1.0 0.2 0.3
init beta f32[3] = 1.0 0.5 2.0
meta trainable = w\\nbeta
output loss f32[]
node MatMul(x, w) -> h
node example::swish(h, beta) -> y
node ReduceMean(y) -> loss keepdims=0
"""


def main():
    scratch, build, source = places("source")
    prefix, page = scratch / "prefix", (source / "docs/plugins.md").read_text()
    install(build, prefix)
    shutil.copytree(source / "examples/plugins", scratch / "own")
    os.chdir(scratch / "own")
    # The page shows what the example has.
    (description,) = re.findall(r'```json\n(\{\n  "plugin".*?)```', page, re.S)
    assert json.loads(description) == json.load(open("swish.json")), description
    (command,) = re.findall(r"^cc .*swish\.c.*$", page, re.M)
    (function,) = re.findall(r"```c\n(#include <trainrt/plugin.h>.*?)```", page, re.S)
    assert function.strip() in open("swish.c").read(), function
    (pkgconfig,) = prefix.rglob("pkgconfig")
    environment = os.environ | {"PKG_CONFIG_PATH": str(pkgconfig), "PATH": f"{prefix / 'bin'}:{os.environ['PATH']}"}
    call("sh", "-ec", command.replace("cc ", f"{cached(build, 'CMAKE_C_COMPILER')} -Wall -Wextra -Werror ", 1), env=environment)
    (scratch / "own/model.txt").write_text(MODEL)
    call(sys.executable, source / "test/Import/Inputs/make_onnx.py", "model.txt", "model.onnx")
    call(build / "bin/trainc", "model.onnx", "--plugin", "swish.json", "-o", "model.tpk", "--target", "cpu")
    np.savez("data.npz", x=np.random.default_rng(1).standard_normal((8, 4)).astype(np.float32))
    told = call("trainc-run", "model.tpk", "--data", "data.npz", "--batch-size", "8", "--epochs", "5", "--log-format", "json", env=environment)
    losses = [entry["loss"] for line in told.splitlines() if "loss" in (entry := json.loads(line))]
    assert losses[-1] < losses[0], losses

    # A run and a page tell its functions by their names, and the bytes of their tensors.
    call("trainc-run", "model.tpk", "--data", "data.npz", "--batch-size", "8", "--steps", "1", "--profile", "times.json", env=environment)
    times = [json.loads(line) for line in open("times.json")]
    measured = [(line["name"], line["bytes"], line["flops"]) for line in times if line["name"].startswith("external ")]
    assert measured == [("external swish::swish", 204, 0), ("external swish::swish_grad", 312, 0)], measured
    sys.path += [str(source / "python/trainc"), str(source / "python/trainrt")]
    from trainc.inspection import facts, program

    manifest, read, _ = program.read("model.tpk")
    made = facts.make(manifest, read, facts.choose_sizes(manifest, read, {"batch": 8}), None, None, None)
    assert [(one["n"], one["b"], one["f"]) for one in made["functions"][0]["commands"] if one["n"].startswith("external")] == measured, made

    # What the model asks for is written, builds, and says what it lacks.
    call(build / "bin/trainc", "model.onnx", "--write-plugin-stub", "example::swish", "-o", scratch / "stub/model.tpk")
    os.chdir(scratch / "stub")
    call("sh", "-ec", command.replace("cc ", f"{cached(build, 'CMAKE_C_COMPILER')} -Wall -Wextra -Werror ", 1), env=environment)
    call(build / "bin/trainc", "../own/model.onnx", "--plugin", "swish.json", "-o", "model.tpk", "--target", "cpu")
    again = subprocess.run(["trainc-run", "model.tpk", "--data", "../own/data.npz"], env=environment, capture_output=True, text=True)
    assert again.returncode == 1 and "function 'example_swish' of the plug-in 'swish'" in again.stderr, again


if __name__ == "__main__":
    main()
