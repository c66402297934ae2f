# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""trainc-run as a process."""

import os
import pathlib
import shlex
import shutil
import signal
import subprocess

from ..errors import Error


class RunError(Error):
    """trainc-run has said why."""

    def __init__(self, message, code):
        super().__init__(message)
        self.exit_code = code if 0 < code < 256 else 1


def runner():
    """`TRAINC_RUN`, else that of the package trainrt, else that of the path."""
    if named := os.environ.get("TRAINC_RUN"):
        return named
    import trainrt

    inside = pathlib.Path(trainrt.__file__).resolve().parent / "bin" / "trainc-run"
    found = str(inside) if inside.exists() else shutil.which("trainc-run")
    if not found:
        raise Error("trainc-run was not found: reinstall trainrt, or TRAINC_RUN names it")
    return found


def command(arguments):
    """As one would type it."""
    return shlex.join(["trainc-run", *map(str, arguments)])


def run(arguments, quiet=False):
    """Runs it with the terminal of this process; Ctrl-C is its own to handle (it saves), and SIGTERM is passed on to it. Returns what
    it wrote, if quiet."""
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace"} if quiet else {}
    process = subprocess.Popen([runner(), *map(str, arguments)], **more)
    handlers = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.terminate()),
    }
    try:
        out, err = process.communicate()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if process.returncode:
        if quiet:
            lines = (err or "").splitlines()
            first = next((i for i, line in enumerate(lines) if "error: " in line), max(0, len(lines) - 3))
            raise RunError("\n".join(lines[first:]).removeprefix("trainc-run: error: "), process.returncode)
        code = process.returncode
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise RunError(f"{command(arguments[:1])} ... {how}", 128 - code if code < 0 else code)
    return out
