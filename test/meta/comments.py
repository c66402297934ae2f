#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that sources say what holds in them: `comments.py SOURCE_DIR`.

Of the .cpp files of each group of folders: the share of lines that are comments, and asserts per 1000 lines. Not counted as
comments: licence lines, and comments behind code. Prints both numbers of every group; exit code 1 when one is below LEAST.
"""

import pathlib
import re
import sys

#: {folders: (per cent of comment lines, asserts per 1000 lines)} at least. A little below what it was when this was written,
#: so that code of others can be merged; these numbers may only grow.
LEAST = {
    ("lib", "tools"): (10.5, 3.0),
    ("runtime",): (7.8, 3.5),
}
ASSERT = re.compile(r"\bassert\(")  # static_assert has no word boundary there


def count(text):
    """(lines, comment lines, asserts) of a source."""
    lines = [line.strip() for line in text.splitlines()]
    comments = [line for line in lines if line.startswith("//")]
    said = sum(not line.startswith("//===") and "SPDX" not in line for line in comments)
    return len(lines), said, sum(bool(ASSERT.search(line)) for line in lines if not line.startswith("//"))


def main():
    root = pathlib.Path(sys.argv[1])
    failed = False
    for folders, (least_share, least_asserts) in LEAST.items():
        counts = [count(path.read_text()) for folder in folders for path in (root / folder).rglob("*.cpp")]
        lines, comments, asserts = (sum(column) for column in zip(*counts)) if counts else (0, 0, 0)
        if not lines:
            continue
        share, each = 100 * comments / lines, 1000 * asserts / lines
        print(f"{' + '.join(folders)}: {lines} lines, {share:.1f} % comments, {each:.2f} asserts per 1000 lines")
        if share < least_share:
            print(f"{' + '.join(folders)}: {least_share} % of the lines are comments at least: say what holds, in which order and why")
        if each < least_asserts:
            print(f"{' + '.join(folders)}: {least_asserts} asserts per 1000 lines at least: assert what a function takes for granted")
        failed |= share < least_share or each < least_asserts
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
