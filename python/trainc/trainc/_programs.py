# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler's programs on the path."""

import os
import pathlib
import sys

#: One executable, which goes by the name that it is started with. TRAINC names another `trainc`.
PROGRAM = pathlib.Path(__file__).resolve().parent / "bin" / "trainc"


def compiler():
    return os.environ.get("TRAINC") or str(PROGRAM)


def environment():
    """With the CUDA toolkit's assembler of PyPI, where nothing else says which."""
    found = dict(os.environ)
    if "CUDA_HOME" in found or "CUDA_ROOT" in found:
        return found
    for folder in map(pathlib.Path, sys.path):
        if (folder / "nvidia" / "cu13" / "bin" / "ptxas").is_file():
            found["CUDA_HOME"] = str(folder / "nvidia" / "cu13")
            break
    return found


def _run(name):
    os.execve(PROGRAM, [name, *sys.argv[1:]], environment())


def trainc():
    from . import commands

    if main := commands.find(sys.argv[1:]):
        sys.exit(commands.run(main, sys.argv[2:]))
    _run("trainc")


def trainc_opt():
    _run("trainc-opt")
