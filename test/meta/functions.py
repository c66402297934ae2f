#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that no C++ function is over LIMIT lines: `functions.py SOURCE_DIR`.

Counts braces outside of comments, strings and preprocessor lines: a brace that opens a body of a namespace, class, enum or
initializer is looked into, any other outermost one is a function's, and what is nested in it (lambdas, local classes) is
part of it. Its lines are those from its signature to its last brace. Prints every finding with file and line; exit code 1
when there is one.
"""

import pathlib
import re
import sys

LIMIT = 120
FOLDERS = ("dialects", "include", "lib", "runtime", "tools")
#: {"file: function": lines} of those that are longer. May only shrink: one that is no longer so is a finding.
LONG = {}

#: Comments, literals and preprocessor lines: what has braces that open nothing.
NO_CODE = re.compile(
    r'R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\''
    r"|//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
    re.S | re.M,
)
CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")


def functions(text):
    """(name, line of the signature, lines) of every function of a source."""
    code = NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    inside, depth, begin = [], 0, 0  # inside: depths of the containers that are open
    start = None
    for match in re.finditer(r"[{};]", code):
        at = match.start()
        if match[0] == "{":
            head = code[begin:at]
            if start is None:
                # A class may be named in a signature, a parenthesis hardly in a class's head.
                if "(" not in head or (CONTAINER.search(head) and not head.rstrip().endswith((")", "const", "override", "final", "noexcept")) and "->" not in head):
                    inside.append(depth)
                else:
                    start, outer, signature = begin + len(head) - len(head.lstrip()), depth, head
            depth += 1
        elif match[0] == "}":
            depth -= 1
            if start is not None and depth == outer:
                name = re.search(r"([~\w:]+|operator\S+)\s*\(", re.sub(r"\[\[.*?\]\]|template\s*<[^{}]*?>\s*(?=\w)", "", signature))
                yield name[1] if name else "?", code.count("\n", 0, start) + 1, code.count("\n", start, at) + 1
                start = None
            elif start is None and inside and inside[-1] == depth:
                inside.pop()
        if start is None:
            begin = match.end()
    if depth:
        raise ValueError(f"{depth} braces are open at the end")


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    findings, count, longer = [], 0, set()
    for path in sorted(p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in (".cpp", ".h", ".c", ".cu")):
        name = str(path.relative_to(root))
        try:
            for function, line, lines in functions(path.read_text()):
                count += 1
                if lines > LIMIT:
                    longer.add(key := f"{name}: {function}")
                    if lines > LONG.get(key, LIMIT):
                        findings.append(f"{name}:{line}: {function} has {lines} lines; the limit is {LONG.get(key, LIMIT)}")
        except ValueError as error:
            findings.append(f"{name}:1: {error}")
    if root == pathlib.Path(__file__).resolve().parents[2]:
        findings += [f"{key} is within the limit: it leaves LONG" for key in sorted(set(LONG) - longer)]
    print("\n".join(findings) or f"{count} functions, no finding")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
