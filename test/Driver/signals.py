#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Signals while compiling: the process ends by the signal, its temporary files and the programs that it
has started do, too.

  signals.py TRAINC MODEL FOLDER

The assembler is a script that says who it is and waits."""

import os
import pathlib
import signal
import subprocess
import sys
import time

ASSEMBLER = """#!/bin/sh
touch "$TMPDIR/of-the-tool"
echo $$ >"{started}.new" && mv "{started}.new" "{started}"
exec sleep 60
"""


def wait_for(condition, what):
    end = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"{what} did not happen")
        time.sleep(0.02)


def is_running(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def compile_until(trainc, model, folder, number, ignored=None):
    """Exit status of a compilation that gets signal `number` while the assembler runs."""
    started, temporary = folder / "started", folder / "tmp"
    started.unlink(missing_ok=True)
    temporary.mkdir(exist_ok=True)
    tool = folder / "cuda/bin/ptxas"
    tool.parent.mkdir(parents=True, exist_ok=True)
    tool.write_text(ASSEMBLER.format(started=started))
    tool.chmod(0o755)
    package = folder / "out/m.tpk"
    package.parent.mkdir(exist_ok=True)
    command = [trainc, model, "--target", "cuda:sm_90", "--cuda-path", folder / "cuda", "-o", package]
    command += ["--optimizer", "sgd"]  # needs no function of libdevice
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # whatever this process has inherited
        signal.signal(each, signal.SIG_IGN if each == ignored else signal.SIG_DFL)
    process = subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(temporary)}, stderr=subprocess.PIPE, text=True, restore_signals=False
    )
    wait_for(started.exists, "the assembler's start")
    assert list(temporary.iterdir()), "there are no temporary files to be removed"
    assembler = int(started.read_text())
    if ignored:
        process.send_signal(ignored)
    process.send_signal(number)
    text = process.communicate(timeout=30)[1]
    assert "error" not in text, text
    assert not is_running(assembler), "the assembler still runs"
    assert not list(temporary.iterdir()), f"left: {list(temporary.iterdir())}"
    assert not list(package.parent.iterdir()), f"left: {list(package.parent.iterdir())}"
    return process.returncode


def main():
    trainc, model, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        status = compile_until(trainc, model, folder, number)
        assert status == -number, f"{number.name}: exit status {status}"
    # nohup: what is ignored stays ignored.
    status = compile_until(trainc, model, folder, signal.SIGTERM, ignored=signal.SIGHUP)
    assert status == -signal.SIGTERM, f"SIGHUP was not ignored: exit status {status}"


if __name__ == "__main__":
    main()
