# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The folder of a case: files, commands that run on them, and what is wrong with how these ended."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unicodedata

import numpy as np

LIMIT_S = 10
SANITIZED_S = 60
# Of one program, on inputs of some kilobytes.
PEAK_BYTES = 3 << 30
LONGEST_TEXT = 20_000
# What turns the direction of text around.
BIDIRECTIONAL = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
SANITIZER = {
    # LLVM's libraries have no sanitizer: memory that is poisoned here would be in use there.
    "ASAN_OPTIONS": "allow_user_poisoning=0:detect_container_overflow=0:allocator_may_return_null=1:exitcode=99",
    "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=99",
    "LSAN_OPTIONS": "exitcode=99",
}


class Outcome:
    def __init__(self, code, seconds, peak, out, err):
        self.code, self.seconds, self.peak, self.out, self.err = code, seconds, peak, out, err


def spread(path):
    """Every file below a folder, by its name there, and its content."""
    found = {}
    for folder, _, names in os.walk(path):
        for name in names:
            file = os.path.join(folder, name)
            with contextlib.suppress(OSError), open(file, "rb") as opened:
                found[os.path.relpath(file, path)] = opened.read()
    return found


class Place:
    def __init__(self, builds, folder, sanitized):
        """`builds`: the folder of each tool's build."""
        self.builds, self.folder, self.sanitized = builds, pathlib.Path(folder), sanitized
        self.environment = {**{k: v for k, v in os.environ.items() if not k.startswith(("TRAINC_", "TRAINRT_"))},
                            "TMPDIR": "tmp", "HOME": str(self.folder), **SANITIZER}
        self.clear()

    def clear(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "tmp").mkdir(parents=True)
        self.commands, self.problems, self.codes = [], [], []
        self.slowest = 0.0

    def write(self, name, data):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return name

    def arrays(self, name, arrays):
        np.savez(self.folder / name, **arrays)
        return name

    def run(self, tool, *arguments, writes=(), keeps=()):
        """Runs a tool on files of the folder; names, or folders, that it may write where it succeeds, and those where it fails, too."""
        shown = " ".join([tool, *(f"'{a}'" if re.search(r"[^\w./=,:-]", a) else a for a in arguments)])
        before = spread(self.folder)
        outcome = self.start(tool, arguments)
        if outcome.seconds > (SANITIZED_S if self.sanitized else LIMIT_S):  # or is it the machine?
            outcome = self.start(tool, arguments)
        self.slowest = max(self.slowest, outcome.seconds)
        self.commands.append(shown)
        self.codes.append(outcome.code)
        for problem in [*self.judge_end(outcome), *self.judge_text(outcome), *self.judge_files(before, (*keeps, *(() if outcome.code else writes)))]:
            self.problems.append(f"{problem}\n  {shown}\n  {(outcome.err or outcome.out)[-1500:].strip()}")
        return outcome

    def start(self, tool, arguments):
        limit = SANITIZED_S if self.sanitized else LIMIT_S
        command = [str(self.builds[tool] / "bin" / tool), *arguments]
        begin = time.monotonic()
        with open(self.folder.with_suffix(".out"), "w+b") as out, open(self.folder.with_suffix(".err"), "w+b") as err:
            process = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            late = False
            while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                if not late and time.monotonic() - begin > limit + 1:
                    process.kill()
                    late = True
                time.sleep(0.002)
            seconds = time.monotonic() - begin
            process.returncode = os.waitstatus_to_exitcode(ended[1])
            code = "hangs" if late else process.returncode
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read(10 * LONGEST_TEXT))
        return Outcome(code, seconds, ended[2].ru_maxrss << 10, *(t.decode(errors="surrogateescape") for t in texts))

    def judge_end(self, outcome):
        if outcome.code == "hangs" or outcome.seconds > (SANITIZED_S if self.sanitized else LIMIT_S):
            yield f"hangs: {outcome.seconds:.1f} s"
        elif outcome.code < 0:
            yield f"crash: {signal.Signals(-outcome.code).name}"
        elif outcome.code not in (0, 1, 2, 3):
            yield f"exit code {outcome.code}"
        if outcome.peak > PEAK_BYTES and not self.sanitized:
            yield f"{outcome.peak >> 20} MiB of memory"
        if re.search(r"Sanitizer|runtime error:|Assertion|terminate called|LLVM ERROR", outcome.err) and outcome.code not in (0, 1, 2, 3):
            found = re.search(r".*(Sanitizer|runtime error:|Assertion|terminate called|LLVM ERROR).*", outcome.err)
            yield f"fault: {found[0][:300]}"

    def judge_text(self, outcome):
        text = outcome.out + outcome.err
        raw = sorted({c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c not in "\n\t" or c in BIDIRECTIONAL})
        if raw:
            yield f"raw characters {raw}"
        if len(outcome.err) > LONGEST_TEXT:
            yield f"{len(outcome.err)} characters of messages"
        if outcome.code in (1, 2, 3):
            errors = [line for line in outcome.err.splitlines() if re.search(r"\berror\b", line)]
            if not errors:
                yield "no error is told"
            # A file, a node or something else by name, an option, a step.
            elif not re.search(r"\.\w+\b|'[^']*'|--\w|step \d", errors[0]):
                yield "the error names nothing"

    def judge_files(self, before, writes):
        after = spread(self.folder)
        for name in after:
            if name not in before and not name.startswith(tuple(writes)):
                yield f"left behind: {name}"
        for name, content in before.items():
            if after.get(name) != content and not name.startswith(tuple(writes)):
                yield f"lost or changed: {name}"
