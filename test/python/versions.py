# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`versions.py FOLDER`: all files of Python there have no syntax of a later version than METADATA promises."""

import ast
import pathlib
import re
import sys

folder = pathlib.Path(sys.argv[1])
failures, count = [], 0
for metadata in folder.glob("*/METADATA"):
    promised = tuple(map(int, re.search(r"^Requires-Python: >=(\d+)\.(\d+)$", metadata.read_text(), re.M).groups()))
    for file in metadata.parent.rglob("*.py"):
        count += 1
        try:
            ast.parse(file.read_text(), file, feature_version=promised)
        except SyntaxError as error:
            failures.append(f"{file}:{error.lineno}: {error.msg} (Python {promised[0]}.{promised[1]})")
assert count > 30, count
for source in ("match x:\n    case 1: pass", "try: pass\nexcept* ValueError: pass"):
    try:
        ast.parse(source, feature_version=(3, 9))
    except SyntaxError:
        continue
    failures.append(f"this check does not see {source!r}")
sys.exit("\n".join(failures) or 0)
