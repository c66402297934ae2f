# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""trainc-run when things break: killed at every moment of saving, a full disk at every moment, files
that are damaged or cut short, also while they are read. Needs no compiler and no numpy.

  faults.py --trainc-run build/bin/trainc-run --cc CC --schema program.fbs DIR
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "Inputs"))
from cases import expect, run_cases  # noqa: E402
from make_package import save_npz  # noqa: E402

#: More calls that change files than any of the runs makes.
MOST_CALLS = 400


class Cases:
    def __init__(self, arguments):
        self.arguments, self.folder = arguments, arguments.folder
        make = [sys.executable, HERE / "Inputs" / "make_package.py", self.folder, "--cc", arguments.cc]
        subprocess.check_call([*map(str, make), "--schema", str(arguments.schema)])
        self.library = self.folder / "interrupt_writes.so"
        source = HERE / "Inputs" / "interrupt_writes.c"
        subprocess.check_call([arguments.cc, "-shared", "-fPIC", str(source), "-o", str(self.library)])
        self.straight = self.losses("--steps", 4)

    def run(self, *flags, package="linear.tpk", data="good.npz", **environment):
        command = [self.arguments.trainc_run, self.folder / package, "--log-format", "json"]
        command += ["--data", self.folder / data, "--batch-size", 4, *flags]
        if environment:
            environment = {**os.environ, "LD_PRELOAD": str(self.library), **environment}
        command = [str(c) for c in command]
        return subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment or None)

    def losses(self, *flags):
        done = self.run(*flags)
        expect(done.returncode == 0, done.stderr)
        return [e["loss"] for e in map(json.loads, done.stdout.splitlines()) if "event" not in e]

    def fresh(self, origin=None):
        """A folder, a copy of `origin`."""
        folder = self.folder / "work"
        shutil.rmtree(folder, ignore_errors=True)
        if origin:
            shutil.copytree(origin, folder)
        return folder

    def resumes(self, folder, what, *steps):
        """The run goes on behind one of `steps` as if nothing had happened; saving tidies up."""
        left = self.losses("--steps", 4, "--resume", folder, "--save", folder, "--keep", 1)
        expect(4 - len(left) in steps, what, "resumed behind step", 4 - len(left))
        expect(left == self.straight[4 - len(left) :], what, "other losses")
        expect(sorted(os.listdir(folder)) == ["step-4"], what, os.listdir(folder))

    def at_every_call(self, variable, code, origin, flags, check, **environment):
        """Runs until the fault comes behind the last call; `check(folder, call)` after every fault."""
        for call in range(1, MOST_CALLS):
            folder = self.fresh(origin)
            done = self.run(*(folder if f is None else f for f in flags), **{variable: str(call)}, **environment)
            if done.returncode == 0:
                expect(call > 10, "only", call, "calls")
                return
            expect(done.returncode == code, f"{variable}={call}: exit code {done.returncode}", done.stderr)
            if code == 1:
                expect("No space left on device" in done.stderr, done.stderr)
            check(folder, f"{variable}={call}:")
        expect(False, "it never ends")

    def saved(self, steps):
        origin = self.folder / f"saved-{steps}"
        if not origin.exists():
            self.losses("--steps", steps, "--save", origin)
        return origin

    #: The second save, which takes the first one away.
    second = ("--steps", 2, "--resume", None, "--save", None, "--keep", 1)
    #: Nothing to train: the same step is saved once more.
    again = ("--steps", 1, "--resume", None, "--save", None)

    def case_killed_while_saving(self):
        for environment in ({}, {"NO_EXCHANGE": "1"}):
            self.at_every_call(
                "KILL_AT", -9, self.saved(1), self.second, lambda f, what: self.resumes(f, what, 1, 2), **environment
            )
            self.at_every_call(
                "KILL_AT", -9, self.saved(1), self.again, lambda f, what: self.resumes(f, what, 1), **environment
            )

    def case_killed_twice(self):
        """A kill in the first save, and one in the save that tidies up behind it, for every set of files that the first
        one leaves: how much of a temporary file was written is nothing to a save that removes it."""
        seen = set()
        for first in range(2, MOST_CALLS, 7):
            folder = self.fresh(self.saved(1))
            flags = ["--resume", folder, "--save", folder]
            if self.run("--steps", 1, *flags, KILL_AT=str(first), NO_EXCHANGE="1").returncode == 0:
                break
            # Names hold the process's number and a random one.
            left = frozenset(re.sub(r"\d{3,}", "N", str(path.relative_to(folder))) for path in folder.rglob("*"))
            if left in seen:
                continue
            seen.add(left)
            once = self.folder / "once"
            shutil.rmtree(once, ignore_errors=True)
            shutil.copytree(folder, once)
            self.at_every_call(
                "KILL_AT", -9, once, self.again, lambda f, what: self.resumes(f, what, 1), NO_EXCHANGE="1"
            )
        expect(len(seen) > 4, "only", seen)

    def case_killed_while_overwriting(self):
        """One of the two runs is there, whole, and the one that is found is never older than it was."""

        def check(folder, what):
            left = self.losses("--steps", 4, "--resume", folder)
            done = 4 - len(left)
            expect(done in (1, 3), what, "resumed behind step", done)
            if done == 3:
                expect(left == self.straight[3:], what, "other losses")

        flags = ("--steps", 1, "--lr", 0.01, "--save", None, "--overwrite")
        self.at_every_call("KILL_AT", -9, self.saved(3), flags, check)

    def case_memory_that_is_free(self):
        """Refused before the first step, with what fits; the default is what fits."""
        rows = 100_000
        values = {"x": ("<f4", (rows, 3), [0.5] * rows * 3), "ids": ("<i8", (rows,), [1] * rows)}
        save_npz(self.folder / "many.npz", **values, y=("<f4", (rows,), [1.0] * rows))
        many, out = self.folder / "many.npz", self.folder / "many.safetensors"
        memory = self.folder / "meminfo"

        def predict(kilobytes, *flags):
            memory.write_text(f"MemTotal: 9 kB\nMemAvailable: {kilobytes} kB\n")
            command = [self.arguments.trainc_run, self.folder / "linear.tpk", "--predict", many, "-o", out, *flags]
            environment = {**os.environ, "LD_PRELOAD": str(self.library), "MEMINFO": str(memory)}
            return subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment)

        done = predict(100, "--batch-size", rows)
        found = re.search(r"a batch of 100,000 rows needs .* are free for it; --batch-size (\d+) fits", done.stderr)
        expect(done.returncode == 3 and found, done.returncode, done.stderr)
        # A row's prediction has 4 bytes.
        most = int(found[1])
        expect(24_000 < most <= 25_600, most)
        for size, code in ((most, 0), (most + 64, 3)):
            done = predict(100, "--batch-size", size)
            expect(done.returncode == code, size, done.returncode, done.stderr)
        done = predict(0, "--batch-size", 7)
        expect(done.returncode == 3 and "not even a smaller one fits" in done.stderr, done.stderr)
        memory.write_text("MemAvailable: 0 kB\n")
        done = self.run(MEMINFO=str(memory))
        expect(done.returncode == 3 and not done.stdout and "a batch of 4 rows" in done.stderr, done.stderr)

    def case_memory_that_nobody_tells(self):
        """On a system without /proc/meminfo, as a host that asks is told."""
        host = f"""
import ctypes
library = ctypes.CDLL({str(self.arguments.trainc_run.parent.parent / "lib" / "libtrainrt.so")!r})
library.trainrt_error_message.restype = ctypes.c_char_p
package, session, error, free = (ctypes.c_void_p() for _ in range(4))
assert not library.trainrt_package_open({str(self.folder / "linear.tpk")!r}.encode(), ctypes.byref(package), None)
assert not library.trainrt_session_create(package, None, ctypes.byref(session), None)
code = library.trainrt_session_free_memory(session, ctypes.byref(free), ctypes.byref(error))
print(code, library.trainrt_error_message(error).decode())
"""
        for name, said in (("good.npz", " the system does not tell how much memory is free\n"), ("memory", "0 \n")):
            (self.folder / "memory").write_text("MemAvailable: 7 kB\n")
            environment = {**os.environ, "LD_PRELOAD": str(self.library), "MEMINFO": str(self.folder / name)}
            command = [sys.executable, "-c", host]
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            expect(done.returncode == 0 and done.stdout.endswith(said), done.stdout, done.stderr)

    def case_library_that_lacks(self):
        flags = ("--verify-key", HERE / "Inputs" / "signing-key.pub.pem", "--steps", 1)
        done = self.run(*flags, NO_LIBRARY="libcrypto.so.3")
        expect("signatures need OpenSSL's libcrypto.so.3, which is not there; install libssl3" in done.stderr, done.stderr)
        expect(done.returncode == 1, done.returncode)

    def case_older_checkpoints_that_stay(self):
        """What cannot be removed, or looked for, is a warning: the new one is whole."""
        said = set()
        folder = self.folder / "work"
        for call in range(1, MOST_CALLS):
            self.fresh(self.saved(1))
            fault = {"UNDER": str(folder), "FAULT_AT": str(call), "FAULT": "5"}
            done = self.run("--steps", 2, "--resume", folder, "--save", folder, "--keep", 1, **fault)
            log = [json.loads(line) for line in done.stdout.splitlines()]
            warnings = [e["message"] for e in log if e.get("event") == "warning"]
            for words in ("Input/output error; a later save tries it again", ": older checkpoints stay until a later save"):
                if done.returncode == 0 and any(w.endswith(words) for w in warnings):
                    said.add(words)
                    expect((folder / "step-2" / "state.json").exists(), os.listdir(folder))
                    self.resumes(folder, words, 2)
            if len(said) == 2:
                return
        expect(False, "warned of", said)

    def case_full_disk(self):
        def check(folder, what):
            expect(not [f for f in os.listdir(folder) if f.startswith(".")], what, os.listdir(folder))
            self.resumes(folder, what, 1, 2)

        self.at_every_call("FULL_AT", 1, self.saved(1), self.second, check)

    def case_full_disk_at_the_first_save(self):
        """Nothing was there, and nothing is left."""
        new = self.folder / "work" / "new"

        def check(folder, what):
            expect(os.listdir(folder) in ([], ["new"]), what, os.listdir(folder))
            if new.exists():
                expect(os.listdir(new) == ["step-1"], what, "left", os.listdir(new))
                self.resumes(new, what, 1)

        origin = self.folder / "empty"
        origin.mkdir(exist_ok=True)
        self.at_every_call("FULL_AT", 1, origin, ("--steps", 1, "--save", new), check)

    def case_export_is_all_or_nothing(self):
        old = self.folder / "old.safetensors"
        new = self.folder / "new.safetensors"
        for target, steps in ((old, 1), (new, 3)):
            self.losses("--steps", steps, "--export", target)
        allowed = {old.read_bytes(), new.read_bytes()}
        origin = self.folder / "exported"
        origin.mkdir(exist_ok=True)
        shutil.copy(old, origin / "w.safetensors")
        target = self.folder / "work" / "w.safetensors"
        for variable, code in (("KILL_AT", -9), ("FULL_AT", 1)):
            for call in range(1, MOST_CALLS):
                self.fresh(origin)
                done = self.run("--steps", 3, "--export", target, **{variable: str(call)})
                expect(target.read_bytes() in allowed, variable, call, "a part of a file")
                if done.returncode == 0:
                    break
                expect(done.returncode == code, variable, call, done.returncode, done.stderr)
                if code == 1:
                    expect(os.listdir(origin) == os.listdir(target.parent), os.listdir(target.parent))
            expect(call > 4 and target.read_bytes() == new.read_bytes(), variable, call)

    def mutilated(self, content, seed, count=60):
        """Damaged copies: cut short, and with a few bytes changed."""
        source = random.Random(seed)
        for _ in range(count):
            yield "cut", content[: source.randrange(len(content))]
            broken = bytearray(content)
            for at in (source.randrange(len(content)) for _ in range(source.randint(1, 3))):
                broken[at] ^= source.randint(1, 255)
            yield "changed", bytes(broken)

    def case_damaged_package(self):
        """Every change of a byte is found."""
        path = self.folder / "damaged.tpk"
        for kind, content in self.mutilated((self.folder / "linear.tpk").read_bytes(), 1):
            path.write_bytes(content)
            done = self.run(package=path.name)
            if content != (self.folder / "linear.tpk").read_bytes():
                expect(done.returncode == 1 and path.name in done.stderr, kind, done.returncode, done.stderr)

    def case_damaged_data(self):
        """No crash; a file that is cut short is refused, and named."""
        weights = self.folder / "w.safetensors"
        self.losses("--steps", 1, "--export", weights)
        for name, flag in (("good.npz", "--eval"), (weights.name, "--weights")):
            path = self.folder / f"damaged-{name}"
            for kind, content in self.mutilated((self.folder / name).read_bytes(), 2):
                path.write_bytes(content)
                done = self.run("--steps", 1, flag, path, "--allow-nonfinite")
                expect(done.returncode in (0, 1), kind, done.returncode, done.stderr)
                if kind == "cut":
                    expect(done.returncode == 1 and path.name in done.stderr, done.returncode, done.stderr)

    def case_damaged_checkpoint(self):
        """The one before it is taken, with a warning that names the damaged one."""
        origin = self.fresh()
        self.losses("--steps", 2, "--save", origin, "--save-every", 1)
        kept = self.folder / "kept"
        shutil.copytree(origin, kept)
        for name in ("state.json", "parameters.safetensors", "optimizer.safetensors"):
            whole = (kept / "step-2" / name).read_bytes()
            for kind, content in self.mutilated(whole, 3, 20):
                folder = self.fresh(kept)
                (folder / "step-2" / name).write_bytes(content)
                done = self.run("--steps", 4, "--resume", folder)
                log = [json.loads(line) for line in done.stdout.splitlines()]
                steps = [e["step"] for e in log if "event" not in e]
                warned = any("step-2" in e.get("message", "") for e in log if e.get("event") == "warning")
                intact = content == whole
                expect(steps == ([3, 4] if intact else [2, 3, 4]), name, kind, steps, done.stderr)
                expect(warned != intact, name, kind, "no warning", log)

    def case_checkpoint_of_another_model(self):
        """Refused, and nothing is written over it."""
        folder = self.fresh(self.saved(1))
        path = folder / "step-1" / "parameters.safetensors"
        content = path.read_bytes()
        length = int.from_bytes(content[:8], "little")
        header = content[8 : 8 + length].replace(b'"w"', b'"v"')
        expect(header != content[8 : 8 + length], header)
        path.write_bytes(content[:8] + header + content[8 + length :])
        state = json.loads((folder / "step-1" / "state.json").read_text())
        state["format"]["minor"] = 0  # without a checksum of its own
        del state["checksums"]["state.json"]
        state["checksums"]["parameters.safetensors"] = f"{zlib.crc32(path.read_bytes()):08x}"
        (folder / "step-1" / "state.json").write_text(json.dumps(state))
        before = {f: f.read_bytes() for f in folder.rglob("*.*")}
        done = self.run("--steps", 4, "--resume", folder, "--save", folder)
        expect(done.returncode == 1 and "another model" in done.stderr and "'w'" in done.stderr, done.stderr)
        expect(before == {f: f.read_bytes() for f in folder.rglob("*.*")}, "the folder was changed")

    def case_cut_short_while_it_is_read(self):
        """A mapped file that loses its end ends the run with a message, not with a signal."""
        data = self.folder / "shrinks.npz"
        shutil.copy(self.folder / "good.npz", data)
        command = [self.arguments.trainc_run, self.folder / "linear.tpk", "--data", data, "--steps", 10**9]
        command += ["--log-format", "json"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen([str(c) for c in command], **pipes) as process:
            process.stdout.readline()
            os.truncate(data, 0)
            deadline = time.monotonic() + 60
            while process.stdout.readline():
                if time.monotonic() > deadline:
                    process.send_signal(signal.SIGKILL)
            text = process.stderr.read()
        expect(process.returncode == 1 and "cut short" in text, process.returncode, text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainc-run", type=pathlib.Path, required=True)
    parser.add_argument("--cc", required=True)
    parser.add_argument("--schema", type=pathlib.Path, required=True)
    parser.add_argument("folder", type=pathlib.Path)
    run_cases(parser, Cases)


if __name__ == "__main__":
    main()
