#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""changed.py SOURCE: every rule of scripts/changed-tests names tests that are there."""

import importlib.machinery
import importlib.util
import pathlib
import sys


def main():
    path = pathlib.Path(sys.argv[1]) / "scripts/changed-tests"
    loader = importlib.machinery.SourceFileLoader("changed_tests", str(path))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader("changed_tests", loader))
    loader.exec_module(script)
    choice = script.Choice()
    problems = []
    for expression, patterns in script.RULES:
        for pattern in patterns:
            if "\\" not in pattern and pattern != "used" and not choice.expand("", pattern):
                problems.append(f"{expression}: no test is {pattern}")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
