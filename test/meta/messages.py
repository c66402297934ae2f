#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that every message of the compiler and the runtime is in a test: `messages.py SOURCE_DIR`.

A message is the string literals of a statement that makes an error, a warning, a note or a remark, or that returns a text of
several words (a reason); what an assertion says is none. It is in a test if the text of one, anywhere under test/, has the longest of these literals, or
words of them in a row that no other message has. A remark about what was missed says why. Prints every finding with file and line; exit code 1 when there is one.
"""

import collections
import pathlib
import re
import sys

FOLDERS = ("dialects", "include", "lib", "runtime", "tools")
TESTS = (".c", ".cpp", ".h", ".mlir", ".py", ".test", ".txt", ".json", ".sh")
#: Characters of a piece of text that tell one message from others.
LEAST = 12

#: What only a device's failure makes, and its libraries.
DEVICE = ("runtime/cudnn/", "runtime/src/device/cuda/")
TOKEN = re.compile(
    r'R"(?P<mark>[^()\\\s]{0,16})\((?P<raw>.*?)\)(?P=mark)"|"(?P<text>(?:\\.|[^"\\\n])*)"'
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'|(?P<comment>//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*)|(?P<end>[;{}])",
    re.S | re.M,
)
EMITS = re.compile(
    r"\b(emit(Op)?Error|emitWarning|emitRemark|attachNote|remark::\w+|fail\w*|bad\w*|[wW]arn\w*|[eE]rror\w*"
    r"|refuse\w*|invalid\w*|reject\w*|wrong\w*|note\w*|createStringError|\w+Error)\b[^;]*?[(<{]"
)
RETURNS = re.compile(r"\breturn\b")
#: A missed remark, with what is added to it.
MISSED = re.compile(r"\bremark::missed\(.*?;(?:\s*missed\s*<<.*?;)?", re.S)


def plain(text):
    return re.sub(r"\s+", " ", re.sub(r"\\([\"'\\])", r"\1", text.replace("\\n", " ").replace("\\t", " ")))


def messages(text):
    """(line, [literal]) of every message of a source."""
    pieces, joined, line, begin, at = [], False, 0, 0, 0
    code = ""
    for match in TOKEN.finditer(text):
        code += text[at : match.start()]
        between = text[at : match.start()].strip()
        at = match.end()
        if match["comment"] is not None:
            continue
        if match["end"]:
            words = [p for piece in pieces for p in re.split(r"\{\d+[^{}]*\}", piece) if re.search(r"[a-z]{2}", p)]
            if words and not code.lstrip().startswith("assert(") and (EMITS.search(code) or (RETURNS.search(code) and any(p.count(" ") > 1 for p in words))):
                yield line, words
            pieces, code = [], ""
            continue
        literal = match["raw"] if match["raw"] is not None else match["text"]
        if literal is None:
            code += "'c'"
            continue
        if not pieces:
            line = text.count("\n", 0, match.start()) + 1
        if pieces and not between and code.endswith('""'):
            pieces[-1] += plain(literal)
        else:
            pieces.append(plain(literal))
            code += '""'


def runs(piece):
    """Words in a row of LEAST characters or more, the shortest from each word on."""
    words = [m.start() for m in re.finditer(r"(?<![^\s'\"(])\S", piece)]
    for begin in words:
        end = re.compile(r"(?=[\s'\"),:;.]|$)").search(piece, begin + LEAST)
        if end and len(piece[begin : end.start()].strip()) >= LEAST:
            yield piece[begin : end.start()].strip()


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    tests = []
    for path in sorted((root / "test").rglob("*")):
        if path.suffix in TESTS and path.is_file() and path.name != "messages.py":
            text = path.read_text(errors="replace")
            tests.append(re.sub(r"\s+", " ", re.sub(r"\\(.)", r"\1", re.sub(r"\"\s*(?://[^\n]*\n\s*)?f?\"|\{\{|\}\}", "", text))))
    tests = "\n".join(tests)
    findings = []
    found = collections.defaultdict(set)
    all_messages = []
    for path in sorted(p for f in FOLDERS for p in (root / f).rglob("*") if p.suffix in (".cpp", ".h", ".c", ".cu")):
        text = path.read_text()
        for missed in MISSED.finditer(text):
            if "remark::reason" not in missed[0]:
                line = text.count("\n", 0, missed.start()) + 1
                findings.append(f"{path.relative_to(root)}:{line}: what was missed has a reason (remark::reason)")
        for line, pieces in messages(text):
            key = (str(path.relative_to(root)), line, pieces)
            all_messages.append(key)
            for piece in pieces:
                for run in runs(piece):
                    found[run].add(tuple(pieces))
    unreasoned, count = len(findings), 0
    for name, line, pieces in all_messages:
        longest = max(pieces, key=len).strip(" '(),:;.")
        if len(longest) < LEAST or " " not in longest or name.startswith(DEVICE):
            continue
        count += 1
        if longest not in tests and not any(len(found[run]) == 1 and run in tests for piece in pieces for run in runs(piece)):
            findings.append(f"{name}:{line}: no test has '{longest}'")
    print("\n".join([f"{count} messages, {len(findings) - unreasoned} in no test", *findings]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
