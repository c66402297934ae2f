# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Command lines: what the tools say with --help."""

import os
import subprocess

TOOLS = ["trainc", "trainc-run"]
OF_PYTHON = ["finetune", "data", "export", "sample", "inspect"]
INTRO = """# Command lines

What each program says with `--help`. [Looking inside](../inspection.md) has what is told and saved. `trainc-opt` and `trainc-translate` are
MLIR's tools with trainc's [dialects](dialects.md) and [passes](passes.md) in them; their own `--help` lists the rest.
"""


def help_of(command, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"site: {command} fails: {done.stderr}")
    return done.stdout.rstrip()


def pages(root, build):
    text = [INTRO]
    for tool in TOOLS:
        text.append(f"## {tool}\n\n```text\n{help_of([build / 'bin' / tool, '--help'])}\n```\n")
    # Without a terminal argparse goes by COLUMNS; the same width everywhere makes the same page.
    environment = {**os.environ, "PYTHONPATH": f"{root}/python/trainc:{root}/python/trainrt", "COLUMNS": "100", "PYTHONDONTWRITEBYTECODE": "1"}
    for command in OF_PYTHON:
        program = f"from trainc.commands import find; find([{command!r}])(['--help'])"
        said = help_of([root / ".venv/bin/python3", "-c", program], environment)
        text.append(f"## trainc {command}\n\n```text\n{said}\n```\n")
    return {"command-lines.md": "\n".join(text)}
