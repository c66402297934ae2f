# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A folder with a package, data and a run that nothing has disturbed, which others are compared with."""

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
import types

ROOT = pathlib.Path(__file__).resolve().parents[3]
INPUTS = ROOT / "test" / "tools" / "trainc-run" / "Inputs"

#: Steps of every run, and seconds that none may take.
STEPS, LONGEST = 8, 10
FILES = ("parameters.safetensors", "optimizer.safetensors", "state.json")


class Place:
    def __init__(self, root, arguments):
        self.root, self.arguments, self.problems = root, arguments, []
        self.random = random.Random(arguments.seed)
        self.trainc_run = arguments.build / "bin" / "trainc-run"
        self.library = root / "interrupt_writes.so"
        source = INPUTS / "interrupt_writes.c"
        subprocess.check_call([arguments.cc, "-shared", "-fPIC", "-w", str(source), "-o", str(self.library)])
        make = [sys.executable, INPUTS / "make_package.py", root, "--cc", arguments.cc]
        subprocess.check_call([*map(str, make), "--schema", str(ROOT / "runtime" / "schema" / "program.fbs")])
        self.reference = root / "reference"
        assert self.run(self.saving(self.reference, 0)).code == 0
        self.exported = {}
        for step in range(1, STEPS + 1):
            assert self.run(self.exporting(self.reference / f"step-{step}")).code == 0
            self.exported[(root / "x.safetensors").read_bytes()] = step

    def expect(self, condition, *what):
        if not condition:
            self.problems.append(" ".join(str(w) for w in what))
        return condition

    def fresh(self):
        """An empty folder."""
        folder = self.root / "work"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    # Command lines.

    def training(self):
        options = "--batch-size 4 --accumulate 2 --shuffle --seed 3 --lr-schedule cosine,warmup=3".split()
        return ["--data", self.root / "good.npz", "--steps", STEPS, *options]

    def saving(self, folder, keep):
        return [*self.training(), "--save", folder, "--save-every", 1, *(["--keep", keep] if keep else [])]

    def exporting(self, checkpoint):
        return ["--resume", checkpoint, "--export", self.root / "x.safetensors"]

    # Programs.

    def start(self, flags, under=None, settings=None, program=None):
        program = program or [self.trainc_run, self.root / "linear.tpk", "--log-format", "json"]
        environment = dict(os.environ)
        if under:
            environment.update(LD_PRELOAD=str(self.library), UNDER=str(under), **(settings or {}))
        command = [str(c) for c in (*program, *flags)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, env=environment, **pipes, text=True, errors="replace")
        return types.SimpleNamespace(process=process, command=command)

    def finish(self, started):
        try:
            out, error = started.process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            self.problems.append(f"hangs: {started.command}")
            started.process.kill()
            out, error = started.process.communicate()
        log = []
        for line in out.splitlines():
            try:
                log.append(json.loads(line))
            except ValueError:  # cut off
                pass
        steps = [e["step"] for e in log if isinstance(e, dict) and "event" not in e and "step" in e]
        return types.SimpleNamespace(code=started.process.returncode, steps=steps, stderr=error)

    def run(self, flags, under=None, settings=None, program=None):
        return self.finish(self.start(flags, under, settings, program))

    def kill(self, flags, under, settings):
        """Kills within a random call for a file there, or at a random moment with such calls made slow."""
        calls = self.random.randint(1, 120)
        if self.random.random() < 0.6:
            ended = self.run(flags, under, {"FAULT": "kill", "FAULT_AT": str(calls), **settings})
            ended.how = f"at call {calls}"
            return ended
        started = self.start(flags, under, {"SLOW": "1000", **settings})
        delay = self.random.random() * 0.3
        time.sleep(delay)
        started.process.kill()
        ended = self.finish(started)
        ended.how = f"after {delay:.3f} s"
        return ended

    def kill_holder(self, folder, running):
        """Kills the one that has the folder's lock."""
        try:
            holder = re.search(r"process (\d+)|run (\d+)", (folder / ".lock").read_text())
        except OSError:
            return
        for started in running:
            if holder and str(started.process.pid) in holder.groups():
                started.process.send_signal(signal.SIGKILL)

    # Checkpoints.

    def is_whole(self, path, step):
        try:
            return all((path / f).read_bytes() == (self.reference / f"step-{step}" / f).read_bytes() for f in FILES)
        except OSError:
            return False

    def newest(self, folder):
        """The step of the newest that is as in the run that nothing has disturbed; 0: none."""
        found = [0]
        for entry in folder.iterdir() if folder.exists() else ():
            name = re.fullmatch(r"step-(\d+)|\.step-(\d+)-(old|before)-\d+", entry.name)
            step = int(name[1] or name[2]) if name else 0
            if name and self.is_whole(entry, step):
                found.append(step)
        return max(found)

    def check_kept(self, folder, keep, newest, what):
        """Those that are to be kept are there; nothing is there that the next run will not clear."""
        for step in range(max(1, newest - keep + 1) if keep else 1, newest):
            self.expect(self.is_whole(folder / f"step-{step}", step), what, f"step-{step} is lost, the newest is", newest)
        for name in os.listdir(folder) if folder.exists() else ():
            self.expect(re.fullmatch(r"step-\d+|\.step-\d+-.*|\.lock", name), what, "left", name)

    def check_finished(self, folder, keep, what):
        first = max(1, STEPS - keep + 1) if keep else 1
        expected = sorted(f"step-{n}" for n in range(first, STEPS + 1))
        found = sorted(os.listdir(folder)) if folder.exists() else None
        self.expect(found == expected, what, "at the end", found)
        for step in range(first, STEPS + 1):
            self.expect(self.is_whole(folder / f"step-{step}", step), what, f"step-{step} is not as it was")

    def check_continues(self, folder, keep, newest, what):
        """The run goes on behind `newest`, to the same end, and clears what is not its own."""
        ended = self.run([*self.saving(folder, keep), *(["--resume", folder] if newest else [])])
        if self.expect(ended.code == 0, what, "does not go on:", ended.code, ended.stderr):
            first = ended.steps[0] if ended.steps else STEPS + 1
            self.expect(first == newest + 1, what, "goes on with step", first, "behind", newest)
            self.check_finished(folder, keep, what)

    def check_readable(self, folder, what):
        ended = self.run(self.exporting(folder), folder, {"SLOW": str(self.random.choice((0, 2000)))})
        if self.expect(ended.code == 0, what, "cannot be read:", ended.stderr):
            self.expect((self.root / "x.safetensors").read_bytes() in self.exported, what, "reads another state")
