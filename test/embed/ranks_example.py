# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C++ program of docs/embedding.md for several ranks, alone and as two processes that share a model (zero3); and one that connects its
ranks itself.

  ranks_example.py --build BUILD --source SOURCE SCRATCH
"""

import os
import pathlib
import re
import socket
import subprocess
import sys

from embed import cached, call, places

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools/trainc-run/Inputs"))
import wide_model  # noqa: E402


def ranks(program, folders):
    """(exit code, standard output, standard error) of a process in each folder, as torchrun starts them."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(found.getsockname()[1])}
    started = [
        subprocess.Popen(program, cwd=folder, env=os.environ | place | {"RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank, folder in enumerate(folders)
    ]
    said = [process.communicate(timeout=100) for process in started]
    return [(process.returncode, *texts) for process, texts in zip(started, said)]


def main():
    scratch, build, source = places("source")
    (code,) = re.findall(r"```cpp\n(.*?)```", (source / "docs/embedding.md").read_text(), re.S)
    (scratch / "app.cpp").write_text(code)
    for program in (scratch / "app.cpp", source / "test/embed/own_connection.cpp"):
        call(cached(build, "CMAKE_CXX_COMPILER"), "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread", program, "-o", scratch / program.stem,
             "-I", source / "runtime/include", "-L", build / "lib", "-ltrainrt", f"-Wl,-rpath,{build / 'lib'}")  # fmt: skip
    wide_model.write(scratch / "model.onnx")
    compiling = [build / "bin" / "trainc", scratch / "model.onnx", "--target", "cpu:x86-64-v3", "--optimizer", "adamw", "-o"]
    for folder, more in (
        ("one", ["--distribute", "zero3"]), ("other", ["--distribute", "zero3", "--lr", "0.5"]), ("zero1", ["--distribute", "zero1"]), ("zero2", ["--distribute", "zero2"]),
    ):  # fmt: skip
        (scratch / folder).mkdir()
        call(*compiling, scratch / folder / "model.tpk", *more)
    one, other = scratch / "one", scratch / "other"

    alone = call(scratch / "app", cwd=one)
    if re.findall(r"step (\d) of (\d): ", alone) != [("1", "1"), ("2", "1"), ("3", "1")]:
        sys.exit(f"alone it says\n{alone}")
    (one / "checkpoints").rename(scratch / "alone")
    first, second = ranks([scratch / "app"], [one, one])
    if first[0] or second[0] or second[1] or re.findall(r"step (\d) of (\d): ", first[1]) != [("1", "2"), ("2", "2"), ("3", "2")]:
        sys.exit(f"two ranks say\n{first}\n{second}")
    # One process has from their checkpoint what each has a part of.
    call(build / "bin" / "trainc-run", one / "model.tpk", "--resume", one / "checkpoints", "--export", scratch / "trained.onnx", "--threads", "1")

    # Two that the program connects itself, without a process or a plugin.
    for folder, refused in (("zero1", ""), ("zero2", ""), ("one", "parameter 'w1': each rank holds a part of it; a checkpoint has all, which one process reads")):
        said = call(scratch / "own_connection", scratch / folder / "model.tpk", scratch / f"own-{folder}")
        if said != f"0 differ; w1: {refused}\n":
            sys.exit(f"{folder} over a connection of the program's own: {said}")

    # What ends one of them ends the other.
    first, second = ranks([scratch / "app"], [one, other])
    for code, _, error in (first, second):
        if code != 1 or "the ranks of a run make the same steps" not in error:
            sys.exit(f"ranks with packages that differ say\n{first}\n{second}")


if __name__ == "__main__":
    main()
