# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What becomes of a run of several ranks when one of them is killed, hangs or cannot write, at each kind of moment; and of ranks
and others that do not belong to it.

  rank_faults.py --trainc TRAINC --trainc-run TRAINC_RUN --models test/e2e/models --cc CC DIR
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE / "Inputs"))
from cases import Failed, expect, run_cases  # noqa: E402
from ranks import Processes  # noqa: E402

#: What the ranks tell each other: once, which nodes they are of, whether they share memory (twice), and what they were started with; in a
#: step two agreements, and three meetings of a checkpoint; and the halves of an exchange.
STARTS = 4
AGREES, HAS_GRADIENTS, BEGINS_SAVE, HAS_WRITTEN, HAS_SAVED, A_STEP = 1, 2, 3, 4, 5, 5
EXCHANGES, SUMS, AN_EXCHANGE = 1, 2, 2
SECONDS_OF_SILENCE = 5
RUN = ["--batch-size", "12", "--steps", "4", "--threads", "1"]


class Cases(Processes):
    def __init__(self, arguments):
        super().__init__(arguments)
        self.libraries = {}
        for name in ("interrupt_ranks", "interrupt_writes"):
            self.libraries[name] = self.root / f"{name}.so"
            source = HERE / "Inputs" / f"{name}.c"
            subprocess.check_call([arguments.cc, "-shared", "-fPIC", "-w", str(source), "-o", str(self.libraries[name])])
        self.package = self.trainc("gpt2", "--distribute", "data", "--clip-norm", "1")
        self.straight = self.losses(self.package, self.tokens, *RUN, "--accumulate", "2")

    def call_at(self, at, number):
        """Environment of a rank that gets the signal with or behind a call on connections."""
        return {"LD_PRELOAD": str(self.libraries["interrupt_ranks"]), "AT": at, "SIGNAL": str(number)}

    def file_at(self, under, call, fault):
        return {"LD_PRELOAD": str(self.libraries["interrupt_writes"]), "UNDER": str(under), "FAULT_AT": str(call), "FAULT": str(fault)}

    def go(self, victim, environment, folder, *flags, limit=30, own_folder=None):
        """Runs two ranks, one of them with `environment` and `own_folder`: (its exit code or None, (code, standard error, seconds) of the
        other) with seconds since the victim has ended or stands still."""
        place = ["--coordinator", f"127.0.0.1:{self.port()}", "--world", "2"]
        flags = [*RUN, *place, *([] if "--save-every" in flags else ["--save-every", "1"]), *flags]
        ranks = []
        for rank in (0, 1):
            more = ["--rank", rank, "--save", own_folder if rank == victim and own_folder else folder]
            ranks.append(self.start(self.package, self.tokens, *flags, *more, **(environment if rank == victim else {})))
        other, began, deadline = ranks[1 - victim], None, time.monotonic() + limit
        while other.poll() is None and time.monotonic() < deadline:
            if began is None and self.stands(ranks[victim]):
                began = time.monotonic()
            time.sleep(0.02)
        ended, hangs, code = time.monotonic(), other.poll() is None, ranks[victim].poll()
        for process in ranks:
            process.kill()
        said = [process.communicate()[1] for process in ranks]
        expect(not hangs, "hangs:", said)
        return code, (other.returncode, said[1 - victim], ended - (began or ended))

    def stands(self, process):
        if process.poll() is not None:
            return True
        state = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state in "Tt"

    def resumes(self, folder, what):
        """The last checkpoint is whole, and one process goes on from it with the same bits; what a lost save left is cleared away."""
        newest = max((int(p.name[5:]) for p in folder.glob("step-*")), default=0)
        rest = self.losses(self.package, self.tokens, *RUN, "--accumulate", "2", "--save", folder, *(["--resume", folder] if newest else []))
        expect(rest == self.straight[newest:], what, rest, self.straight)
        left = [p.name for p in folder.glob(".step-*")]
        expect(not left, what, left)
        return newest

    def lost(self, what, victim, environment, words, stops, steps, *flags):
        """The others end with exit code 5 in time, say who it was, and a run goes on behind one of `steps`."""
        folder = self.path("")
        _, (code, err, seconds) = self.go(victim, environment, folder, *flags)
        expect(code == 5, what, code, err)
        least = SECONDS_OF_SILENCE - 1 if stops else 0
        expect(least <= seconds < least + 6, what, "took", seconds, err)
        name = f"rank {victim} on {socket.gethostname()} (process "
        gone = "has not been heard of for 5 s" if stops else ("has ended" if victim == 0 else "has ended without a word")
        expect(name in err and gone in err, what, err)
        for word in words:
            expect(re.search(word, err), what, f"'{word}' is not in:", err)
        expect(self.resumes(folder, what) in steps, what, steps)

    def moments(self):
        """(name, victim, environment for a signal, regular expressions of the message, steps that are saved then)"""
        for victim in (0, 1):

            def told(number, later="", victim=victim):
                # Of rank 0 with the coordinator's answers to both.
                number += STARTS + A_STEP
                return lambda signal: self.call_at(f"gather:{3 * number - 2 if victim == 0 else number}{later}", signal)

            def sent(number, later=""):
                return lambda signal: self.call_at(f"writev:{AN_EXCHANGE + number}{later}", signal)

            # What rank 0 says last may be lost with it: rank 1 may still wait for word that the checkpoint is whole.
            yield "agrees", victim, told(AGREES), ["step 2: |checkpoint '.*/step-1': " if victim == 0 else "step 2: "], (1,)
            # A millisecond later, or when the machine comes to it.
            yield "micro-batch", victim, told(AGREES, ":1"), [], (1, 2)
            yield "has gradients", victim, told(HAS_GRADIENTS), ["step 2: "], (1,)
            yield "exchanges", victim, sent(EXCHANGES), ["step 2: exchange of the gradient of parameter '"], (1,)
            yield "update", victim, sent(SUMS, ":1"), [], (1, 2)
            yield "begins to save", victim, told(BEGINS_SAVE), ["the last checkpoint is "], (1,)
            yield "has written", victim, told(HAS_WRITTEN), ["checkpoint '", "/step-2': "], (1, 2)
            yield "has saved", victim, told(HAS_SAVED), [], (2,)

    def all_at_once(self, jobs):
        """Most of them wait."""
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(job) for job in jobs]:
                done.result()

    def case_killed(self):
        self.all_at_once(
            lambda m=m: self.lost(f"rank {m[1]} is killed as it {m[0]}:", m[1], m[2](signal.SIGKILL), m[3], False, m[4])
            for m in self.moments()
        )

    def case_stopped(self):
        """Of each kind of wait one: for a stopped rank they are the same code."""
        self.all_at_once(
            lambda m=m: self.lost(f"rank {m[1]} stands still as it {m[0]}:", m[1], m[2](signal.SIGSTOP), m[3], True, m[4])
            for m in self.moments()
            if m[0] in ("micro-batch", "exchanges", "has written")
        )

    def case_sharing_memory(self):
        """Ranks that tell each other most things through memory that they share, somewhere behind an exchange."""
        jobs = []
        for victim, number in ((0, signal.SIGKILL), (1, signal.SIGKILL), (1, signal.SIGSTOP)):
            environment = self.call_at(f"writev:{2 * AN_EXCHANGE + SUMS}:1", number) | {"SHARES": "1"}
            what = f"rank {victim} gets signal {number} where memory is shared:"
            jobs.append(lambda a=(what, victim, environment, [], number == signal.SIGSTOP, (1, 2, 3)): self.lost(*a))
        self.all_at_once(jobs)

    def case_files(self):
        """While it reads its data, and at every call of its part of a checkpoint."""
        jobs = [
            lambda fault=fault: self.lost(f"{fault} while data is read:", 1, self.file_at(self.tokens, 2, fault), [], fault == "stop", (0,))
            for fault in ("kill", "stop")
        ]
        for call in range(1, 7):  # open, write, sync of two files
            jobs.append(
                lambda call=call: self.lost_in_save(f"killed in call {call} of a save:", call),
            )
        self.all_at_once(jobs)

    def lost_in_save(self, what, call):
        folder = self.path("")
        self.run(self.package, self.tokens, "--batch-size", "12", "--steps", "1", "--accumulate", "2", "--save", folder)
        environment = self.file_at(folder / ".step-", call, "kill")
        _, (code, err, seconds) = self.go(1, environment, folder, "--resume", folder)
        expect(code == 5 and seconds < 3 and "checkpoint '" in err and "has ended without a word" in err, what, code, seconds, err)
        expect(self.resumes(folder, what) == 1, what)

    def case_full_disk(self):
        """Of one rank is an error of all, which names it; nothing is lost, nothing is left."""

        def job(call):
            folder = self.path("")
            _, (code, err, _) = self.go(1, self.file_at(folder / ".step-", call, 28), folder, "--save-every", "3")
            expect(code == 1 and err.count("error:") == 1, call, code, err)
            expect("rank 1: " in err and "/.step-3-" in err and "No space left on device" in err, call, err)
            expect(not list(folder.glob("*step-*")), call, folder)

        self.all_at_once([lambda call=call: job(call) for call in range(2, 8)])

    def case_another_folder(self):
        """Ranks that do not see the folder of checkpoints say so by name."""
        folder, other = self.path(""), self.path("")
        _, (code, err, _) = self.go(1, {}, folder, own_folder=other)
        expect(code == 1 and err.count("error:") == 1, code, err)
        expect(f"rank 1: it writes a part of the checkpoint that rank 0 has begun: cannot open '{other}/.step-1-" in err, err)
        expect(not list(folder.glob("*step-*")), folder)

    def case_joining(self):
        """Before it has said who it is; between the coordinator and the other ranks; and behind the last step."""
        jobs = []
        for number in (signal.SIGKILL, signal.SIGSTOP):

            def never(number=number):
                _, (code, err, seconds) = self.go(1, self.call_at("connect:1", number), self.path(""), "--join-timeout", "3")
                expect(code == 5 and seconds < 6 and "rank 1 of 2 did not come within 3 s" in err, code, seconds, err)

            def between(number=number):
                _, (code, err, seconds) = self.go(1, self.call_at("send:2", number), self.path(""))
                expect(code == 5 and seconds < 8 and "rank 1 on " in err, code, seconds, err)

            def end(number=number):
                folder = self.path("")
                _, (code, err, seconds) = self.go(1, self.call_at("leave:1", number), folder)
                expect(code == 0 and seconds < 12 and (folder / "step-4").exists(), code, seconds, err)

            jobs += [never, between, end]
        self.all_at_once(jobs)

    def case_evaluating(self):
        """The others have evaluated their share already, and wait for its scores, which it does not send: the third time, behind step 2."""
        rows = {k: np.concatenate([v] * 20) for k, v in np.load(self.model_data("gpt2")).items()}
        data = self.data(**rows)
        flags = ["--eval", data, "--eval-every", "1"]
        environment = self.call_at(f"gather:{STARTS + 1 + A_STEP + 1 + A_STEP + 1}", signal.SIGKILL)
        self.lost("killed while evaluating:", 1, environment, ["the last checkpoint is ", "; --resume "], False, (2,), *flags)

    def case_strangers(self):
        """What is no rank is left alone, before and while the ranks train."""
        port = self.port()
        run = ["--batch-size", "2", "--steps", "40", "--coordinator", f"127.0.0.1:{port}", "--world", "2", "--threads", "1"]
        first = self.start(self.package, self.tokens, *run, "--rank", "0")

        def talk(words):
            for _ in range(100):
                try:
                    with socket.create_connection(("127.0.0.1", port)) as stranger:
                        stranger.sendall(words)
                        return
                except OSError:
                    time.sleep(0.05)
            raise Failed("nobody listens")

        for words in (b"GET / HTTP/1.1\r\n\r\n", bytes(1000), b"TNR1" + b"\xff" * 64, b"TNR1" + bytes(8), os.urandom(4096), b""):
            talk(words)
        second = self.start(self.package, self.tokens, *run, "--rank", "1")
        talk(os.urandom(200))
        for process in (first, second):
            code, err = self.ended(process)
            expect(code == 0, code, err)

    def case_of_another_run(self):
        """A rank with another package, or other settings, is an error of all before anything is changed."""
        other = self.trainc("gpt2", "--distribute", "data", "--clip-norm", "1", "--eps", "1e-6")
        options, steps = "have the same data and the same options, but", "make the same steps, but rank 0 makes step 1 with"
        for own, package, words in (
            (["--lr", "0.5"], self.package, (options, "--lr is ", " and 0.5 on rank 1")),
            ([], other, (steps, "of package ")),
        ):
            at, folder = f"127.0.0.1:{self.port()}", self.path("")
            run = [*RUN, "--coordinator", at, "--world", "2", "--save", folder]
            first = self.start(self.package, self.tokens, *run, "--rank", "0")
            second = self.start(package, self.tokens, *run, "--rank", "1", *own)
            (code, err), (other_code, _) = self.ended(first), self.ended(second)
            expect((code, other_code) == (1, 1), code, other_code, err)
            expect(all(word in err for word in ("the ranks of a run ", *words)), err)
            expect(not list(folder.glob("*step-*")), folder)
        # Checkpoints are written by all: that one does not is found now, and not at the end.
        run = [*RUN, "--coordinator", f"127.0.0.1:{self.port()}", "--world", "2"]
        first = self.start(self.package, self.tokens, *run, "--rank", "0", "--save", self.path(""))
        second = self.start(self.package, self.tokens, *run, "--rank", "1")
        (code, err), (other_code, _) = self.ended(first), self.ended(second)
        expect((code, other_code) == (1, 1) and "--save is given on rank 0 and not given on rank 1" in err, code, other_code, err)

    def case_restarts_have_the_same_bits(self):
        """A rank that is killed in the middle of a save: the run begins again, and ends as if nothing had been."""
        folder = self.path("")
        run = ["--batch-size", "12", "--steps", "60", "--save-every", "1", "--threads", "1"]
        process = self.start(self.package, self.tokens, *run, "--save", folder, "--ranks", "2", "--max-restarts", "1")
        self.begun(folder, 1)
        os.kill(self.children(process)[1], signal.SIGKILL)
        code, err = self.ended(process)
        expect(code == 0 and "the run begins again from the last checkpoint" in err, code, err)
        alone = self.path("")
        self.run(self.package, self.tokens, *run, "--accumulate", "2", "--save", alone)
        for name in ("parameters.safetensors", "optimizer.safetensors"):
            expect((folder / "step-60" / name).read_bytes() == (alone / "step-60" / name).read_bytes(), name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainc", required=True)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--models", required=True, type=pathlib.Path)
    parser.add_argument("--cc", required=True)
    parser.add_argument("folder", type=pathlib.Path)
    run_cases(parser, Cases)
