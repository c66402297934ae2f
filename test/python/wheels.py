# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Installs the wheels of FOLDER/dist in a fresh environment and uses them: `wheels.py FOLDER MODELS CC PYTHON`.

What scripts/wheels makes is installed by pip, as docs/python.md says. NumPy is that of PYTHON's environment, so that nothing is downloaded.
"""

import os
import pathlib
import shutil
import subprocess
import sys

folder, models, compiler, python = (pathlib.Path(argument) for argument in sys.argv[1:])
environment = folder / "environment"
wheels = sorted((folder / "dist").glob("*.whl"))
assert [wheel.name.partition("-")[0] for wheel in wheels] == ["trainc", "trainrt"], wheels
subprocess.run(["/usr/bin/python3", "-m", "venv", environment], check=True)
subprocess.run(
    [environment / "bin" / "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", *wheels], check=True
)
clean = {"PATH": str(environment / "bin"), "HOME": str(folder)}
numpy = next(pathlib.Path(python).parent.parent.glob("lib/python3*/site-packages"))


def run(*command, **more):
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, env={**clean, **more}, cwd=folder)
    assert ran.returncode == 0, (command, ran.stdout, ran.stderr)
    return ran.stdout + ran.stderr


# The linker of kernels is part of the compiler: there is none on this path.
print(run("trainc", models / "mlp.onnx", "-o", folder / "mlp.tpk"))
assert "trainc-opt" in run("trainc-opt", "--help")
# Commands that are Python say what they need.
said = run("trainc", "--help")
assert "\nCommands of the Python package" in said and "\n  inspect " in said and "--memory-budget" in said
refused = subprocess.run([environment / "bin" / "trainc", "data", "x"], capture_output=True, text=True, env=clean)
assert refused.returncode == 1 and "trainc data needs numpy, which is not installed: pip install 'trainc[data]'" in refused.stderr
assert "--assistant-start" in run("trainc", "data", "--help", PYTHONPATH=str(numpy))
# With the files that a page is made of.
assert "wrote" in run("trainc", "inspect", folder / "mlp.tpk", "-o", folder / "mlp.html")
log = run("trainc-run", folder / "mlp.tpk", "--data", models / "mlp.npz", "--steps", "3")
code = f"""
import numpy, trainrt, trainc
session = trainrt.Session({str(folder / "mlp.tpk")!r})
data = dict(numpy.load({str(models / "mlp.npz")!r}))
losses = [float(session.step(data)) for _ in range(3)]
print(losses)
assert losses[2] < losses[0]
step = trainc.compile({str(models / "mlp.onnx")!r}, lr=0.01, optimizer="sgd")
assert step.package.optimizer == "sgd" and step(data) > 0
try:
    trainc.compile({str(models / "mlp.onnx")!r}, optimiser="sgd")
except trainc.OptionError as error:
    assert "--optimizer" in str(error), error
"""
print(run("python", "-c", code, PYTHONPATH=str(numpy)))

# A program in C finds headers and library.
pkgconfig = run("python", "-m", "trainrt", "--pkgconfigdir").strip()
flags = subprocess.run(
    ["pkg-config", "--cflags", "--libs", "trainrt"], env={**os.environ, "PKG_CONFIG_PATH": pkgconfig}, capture_output=True,
    text=True,
) if shutil.which("pkg-config") else None  # fmt: skip
source = folder / "version.c"
source.write_text("#include <trainrt/trainrt.h>\nint main(void) { return trainrt_version() != TRAINRT_VERSION; }\n")
include, lib = (run("python", "-m", "trainrt", name).strip() for name in ("--includedir", "--libdir"))
options = flags.stdout.split() if flags else [f"-I{include}", f"-L{lib}", f"-Wl,-rpath,{lib}", "-l:libtrainrt.so.1"]
subprocess.run([compiler, source, "-o", folder / "version", *options], check=True)
subprocess.run([folder / "version"], check=True)
