#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the examples in the descriptions of passes: `examples.py SOURCE_DIR TRAINC_OPT`.

An example is a ```mlir block of a .td file: a module that is parsed and verified. Where "// becomes" or "// adds" follows, the
pass of the file turns what is before it into what is behind, up to the names of values and how attributes are written; a first
line "// PIPELINE" says which passes with which options, where they are others than just the file's. Where the result has
"...", its lines are among those of the pass's, in order, and "..." is anything. Prints every finding; exit code 1 if there is
one.
"""

import pathlib
import re
import subprocess
import sys
import textwrap

BLOCK = re.compile(r"^( *)```mlir\n(.*?)^ *```$", re.S | re.M)
SPLIT = re.compile(r"^// (becomes|adds)$", re.M)
PASS = re.compile(r'Pass<"([\w-]+)"(?:, "([\w:]+)")?>')
NEST = {"::mlir::func::FuncOp": "func.func", "::trainc::plan::FunctionOp": "plan.function"}


def run(opt, text, pipeline=""):
    """What the passes make of a module: (text, "") or ("", what is wrong with it)."""
    done = subprocess.run([opt, f"--pass-pipeline=builtin.module({pipeline})"], input=text, capture_output=True, text=True)
    return (done.stdout, "") if done.returncode == 0 else ("", done.stderr.split("note: see current")[0].strip())


def pattern(line):
    """A line as a regular expression: names of values do not count, "..." is anything."""
    parts = re.split(r"(%[\w#]+|\.\.\.)", " ".join(line.split()))
    return "".join(r"%[\w#]+" if p.startswith("%") else ".*" if p == "..." else re.escape(p) for p in parts)


def check(opt, default, example):
    """What is wrong with an example; "" for nothing."""
    first = example.split("\n", 1)[0]
    pipeline = first[3:] if first.startswith("// ") else default
    before, *rest = SPLIT.split(example)
    result, problem = run(opt, before, pipeline if rest else "")
    if problem or not rest:
        return problem
    word, after = rest
    if "..." in after:
        lines = [" ".join(line.split()) for line in result.splitlines()]
        for line in after.split("\n"):
            if line.strip() in ("", "..."):
                continue
            while lines and not re.fullmatch(pattern(line), lines[0]):
                lines.pop(0)
            if not lines:
                return f"the result has no line '{line.strip()}' there:\n{result}"
            lines.pop(0)
        return ""
    expected, problem = run(opt, before + after if word == "adds" else after)
    return problem or ("" if expected == result else f"the result is another one:\n{result}")


def main():
    root, opt = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    findings, count, passes, without = [], 0, 0, []
    for path in sorted((root / "lib").rglob("*.td")):
        text = path.read_text()
        name = str(path.relative_to(root))
        known = list(PASS.finditer(text))
        for block in BLOCK.finditer(text):
            count += 1
            owner = [m for m in known if m.start() < block.start()][-1:]
            default = "".join(f"{NEST[m[2]]}({m[1]})" if m[2] in NEST else m[1] for m in owner)
            if problem := check(opt, default, textwrap.dedent(block[2])):
                findings.append(f"{name}:{text.count(chr(10), 0, block.start()) + 1}: {problem}")
        passes += len(known)
        if len(known) > len(BLOCK.findall(text)):
            without.append(name)
    print("\n".join(findings) or f"{count} examples, no finding")
    print(f"{passes} passes; without an example: {' '.join(without) or 'none'}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
