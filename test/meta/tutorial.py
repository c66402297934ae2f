#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tutorial.py SOURCE BUILD FOLDER: runs the commands of docs/tutorial/, one page after the other, in a folder that looks like a clone."""

import os
import pathlib
import re
import subprocess
import sys

source, build, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
for name, target in (("examples", source / "examples"), ("runtime", source / "runtime"), ("build", build)):
    (folder / name).symlink_to(target)
commands = ["set -eu"]
for page in sorted((source / "docs/tutorial").glob("*.md")):
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.M | re.S)
    assert blocks, f"{page.name} has no commands"
    commands += [f"echo '== {page.name}'", *blocks]
# The project's environment has the numpy that the first page's program wants.
path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
sys.exit(subprocess.run(["sh", "-c", "\n".join(commands)], cwd=folder, env={**os.environ, "PATH": path}, stderr=subprocess.STDOUT).returncode)
