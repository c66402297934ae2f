# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A binding for another language: bindings.py LANGUAGE PROGRAM --build BUILD --source SOURCE SCRATCH

Runs the commands of docs/sdk.md ("A program in LANGUAGE", which make PROGRAM) against an installed runtime, interrupted by a
checkpoint and whole; the losses are the C program's, up to how they are printed.
"""

import re
import sys

from embed import call, install, places
from packages import commands, shell


def end(text):
    """(loss, points that are right) of a program's last line."""
    loss, right = re.search(r"held out: loss ([\d.e-]+), (\d+) of 512 right", text.splitlines()[-1]).groups()
    return float(loss), int(right)


def main():
    language, program = sys.argv.pop(1), sys.argv.pop(1)
    scratch, build, source = places("source")
    example = source / "examples/embed"
    prefix = scratch / "opt/trainrt"
    install(build, prefix)
    (scratch / "examples").symlink_to(source / "examples")
    (scratch / "out").mkdir()
    call(build / "bin/trainc", example / "moons.onnx", "-o", scratch / "out/moons.tpk", "--target", "cpu:x86-64-v3", "--optimizer", "adamw", "--lr", "3e-3")
    call("cc", example / "embed.c", example / "moons.c", "-I", prefix / "include", "-o", scratch / "embed", "-L", prefix / "lib", "-ltrainrt",
         f"-Wl,-rpath,{prefix / 'lib'}", "-lm")  # fmt: skip
    expected = end(call(scratch / "embed", scratch / "out/moons.tpk", scratch / "checkpoints-c", "2000"))

    # Caches of Go's and of Rust's tools, which else are in the home folder, are made anew.
    whole = shell(commands((source / "docs/sdk.md").read_text(), f"A program in {language}"), scratch, GOCACHE=str(scratch / "cache"))
    run = [scratch / program, scratch / "out/moons.tpk", scratch / "checkpoints-resumed"]
    call(*run, "700")
    resumed = call(*run, "2000")
    for text in (whole, resumed):
        loss, right = end(text)
        if abs(loss - expected[0]) > 5e-7 or right != expected[1]:
            sys.exit(f"C ends with {expected}, {language} with\n{text}")
    if "resumed after step 700" not in resumed or whole.splitlines()[-1] != resumed.splitlines()[-1]:
        sys.exit(f"whole it says\n{whole}\nand resumed\n{resumed}")
    print(whole.splitlines()[-1])


if __name__ == "__main__":
    main()
