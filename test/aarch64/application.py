# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An application for AArch64: application.py --build BUILD --source SOURCE SCRATCH

Runs the commands of docs/aarch64.md, but for those that build the runtime, which are the build's, in a tree of links.
"""

import argparse
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "embed"))
from embed import call  # noqa: E402
from packages import commands, shell  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    for name in ("build", "source"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("scratch", type=pathlib.Path)
    arguments = parser.parse_args()
    scratch, build, source = (path.resolve() for path in (arguments.scratch, arguments.build, arguments.source))
    (scratch / "build").symlink_to(build)
    for name in ("examples", "cmake", ".deps"):
        (scratch / name).symlink_to(source / name)
    path = {"PATH": f"{build / 'bin'}:{os.environ['PATH']}"}
    page = (source / "docs/aarch64.md").read_text()
    said = shell(commands(page, "The runtime").split("cmake --build build/aarch64\n", 1)[1], scratch, **path)
    if not re.search(r"held out: loss [\d.]+, \d+ of 512 right", said):
        sys.exit(f"on AArch64 it says\n{said}")
    # The same program on this machine has the same numbers.
    (scratch / "model.onnx").symlink_to(source / "examples/embed/moons.onnx")
    shell(re.search(r"```sh\n(.*?)```", page, re.S)[1], scratch, **path)
    call("cc", "-I", source / "runtime/include", *(source / "examples/embed" / name for name in ("embed.c", "moons.c")), "-o", scratch / "embed-here",
         "-L", build / "lib", "-ltrainrt", f"-Wl,-rpath,{build / 'lib'}", "-lm")  # fmt: skip
    call(build / "bin/trainc", source / "examples/embed/moons.onnx", "-o", scratch / "here.tpk", "--target", "cpu:x86-64-v3", "--optimizer", "adamw", "--lr", "3e-3")
    here = call(scratch / "embed-here", scratch / "here.tpk", scratch / "checkpoints-here", "200")
    if here != said[said.index("held out") :]:
        sys.exit(f"here it says\n{here}\nand on AArch64\n{said}")
    for package in (scratch / "dist-arm64").glob("*.deb"):
        if call("dpkg-deb", "-f", package, "Architecture").strip() != "arm64":
            sys.exit(f"{package.name} is not for arm64")
    print(here.strip())


if __name__ == "__main__":
    main()
