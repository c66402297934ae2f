#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""commands.py SOURCE: every command of trainc and trainc-run in a ```sh block of the README and of docs/ is one that they take.

trainc parses each with --check-options; of trainc-run and of trainc's commands in Python the options have to be in --help. That
commands do what their pages say is for the tests of single pages. Prints every finding with page and line; exit code 1 when there is one.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys

#: Values that stand for what a reader has: files that have to exist.
STANDS_FOR = {"--sign", "--plugin"}
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")
PYTHON = ("finetune", "data", "export", "sample", "inspect")


def help_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def words_of(line):
    """The simple commands of a line of shell, as lists of words without redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    commands, is_target = [[]], False
    for token in lexer:
        is_operator = set(token) <= set("();|&<>")
        if is_operator and not set(token) & set("<>"):
            commands.append([])
        elif is_operator and commands[-1][-1:] == ["2"]:
            commands[-1].pop()
        elif not is_operator and not is_target:
            commands[-1].append(token)
        is_target = is_operator and bool(set(token) & set("<>"))
    return commands


def commands(text):
    """(line, words) of each command of trainc and trainc-run in the shell blocks of a page."""
    for block in re.finditer(r"^```sh\n(.*?)^```", text, re.S | re.M):
        number = text.count("\n", 0, block.start()) + 2
        for line in re.split(r"(?<!\\)\n", block[1]):
            # What a substitution runs is a command of its own.
            inside = re.findall(r"\$\(((?:[^()]|\([^()]*\))*)\)", line)
            whole = re.sub(r'"?\$\((?:[^()]|\([^()]*\))*\)"?', "VALUE", line)
            for part in [*inside, whole]:
                for words in words_of(part.replace("\\\n", " ")):
                    while words and re.fullmatch(r"\w+=.*", words[0]):
                        words.pop(0)
                    if len(words) > 1 and words[0].rpartition("/")[2] in ("trainc", "trainc-run"):
                        yield number, [words[0].rpartition("/")[2], *words[1:]]
            number += 1 + line.count("\n")


def problem(words, helps):
    """What is wrong with a command; None for nothing."""
    name, *arguments = words
    if name == "trainc" and arguments[0] not in PYTHON and "--start-from" not in arguments:
        kept = []
        for i, word in enumerate(arguments):
            left_out = word in STANDS_FOR or (i and arguments[i - 1] in STANDS_FOR) or (word.startswith("-") and arguments[i + 1 : i + 2] == ["..."])
            if not left_out and word not in ("...", "VALUE"):
                kept.append(word)
        if not any(not word.startswith("-") for word in kept):
            kept.insert(0, "model.onnx")
        done = subprocess.run([name, *kept, "--check-options"], capture_output=True, text=True)
        return None if done.returncode == 0 else done.stderr.strip().split("\n")[0]
    known = helps[f"trainc {arguments[0]}" if name == "trainc" and arguments[0] in PYTHON else name]
    # What trainc inspect does not know is the compiler's.
    known = known + helps["trainc"] if arguments[0] == "inspect" else known
    return next((f"{option} is no option" for option in OPTION.findall(" ".join(w for w in arguments if w.startswith("-"))) if not re.search(rf"(?<![\w-]){option}\b", known)), None)


def main():
    source = pathlib.Path(sys.argv[1])
    helps = {name: help_of(name, "--help") for name in ("trainc", "trainc-run")}
    for name in PYTHON:
        helps[f"trainc {name}"] = help_of(sys.executable, "-m", "trainc", name, "--help")
    count, findings = 0, []
    for page in [source / "README.md", *sorted((source / "docs").rglob("*.md"))]:
        for line, words in commands(page.read_text()):
            count += 1
            if wrong := problem(words, helps):
                findings.append(f"{page.relative_to(source)}:{line}: {shlex.join(words)}: {wrong}")
    print("\n".join(findings) or f"{count} commands, no finding")
    return 1 if findings else 0


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join(f"{sys.argv[1]}/python/{name}" for name in ("trainc", "trainrt"))
    sys.exit(main())
