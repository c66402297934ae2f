# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`trainc-run` on the path, and where a program in C or C++ finds the library."""

import argparse
import os
import sys

from ._library import FOLDER


def trainc_run():
    program = str(FOLDER / "bin" / "trainc-run")
    os.execv(program, ["trainc-run", *sys.argv[1:]])


def main():
    """`python -m trainrt`: the folders that builds of other programs need."""
    parser = argparse.ArgumentParser(prog="python -m trainrt", description=main.__doc__)
    parser.add_argument("--cmakedir", action="store_true", help="for -Dtrainrt_DIR of CMake")
    parser.add_argument("--includedir", action="store_true")
    parser.add_argument("--libdir", action="store_true")
    parser.add_argument("--pkgconfigdir", action="store_true", help="for PKG_CONFIG_PATH")
    options = parser.parse_args()
    folders = {
        "cmakedir": FOLDER / "lib" / "cmake" / "trainrt",
        "includedir": FOLDER / "include",
        "libdir": FOLDER / "lib",
        "pkgconfigdir": FOLDER / "lib" / "pkgconfig",
    }
    chosen = [folder for name, folder in folders.items() if getattr(options, name)]
    if not chosen:
        parser.error("one of " + ", ".join("--" + name for name in folders))
    print(*chosen, sep="\n")
