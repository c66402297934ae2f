# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that are made from the list of ONNX operators which the compiler takes: SCRIPT SOURCE_DIR BUILD_DIR [--write]."""

import pathlib
import subprocess
import sys


def list_operators():
    """Rows of the table that trainc-translate --list-operators prints, as one text."""
    command = [pathlib.Path(sys.argv[2]) / "bin" / "trainc-translate", "--list-operators", "/dev/null"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check(path, wanted):
    """`path`, from the sources' root, holds the text `wanted`, or with --write gets it; the exit code."""
    file = pathlib.Path(sys.argv[1]) / path
    if "--write" in sys.argv:
        file.write_text(wanted)
    elif file.read_text() != wanted:
        print(f"{file} is stale: run {pathlib.Path(sys.argv[0])} {sys.argv[1]} {sys.argv[2]} --write")
        return 1
    return 0
