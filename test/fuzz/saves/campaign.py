#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What becomes of checkpoints and other outputs when programs are killed, share a folder, or when the
system lets them down: at every point the newest whole checkpoint continues bit for bit.

  campaign.py kills    --build DIR --count N   kills while saving, one after the other in a folder
  campaign.py savers   --build DIR --count N   rounds of two and four savers, and readers beside them
  campaign.py faults   --build DIR --count N   each call of a save or another output fails, with N errors
  campaign.py compiler --build DIR --count N   the same for trainc's outputs

Prints what went wrong, and a last line with counts; --seed makes other random choices. Needs no compiler
but for the last, and no numpy.
"""

import argparse
import os
import pathlib
import random
import re
import shutil
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE))
import faults  # noqa: E402
from place import Place  # noqa: E402


def kills(place, count):
    """Runs that are killed and go on, each folder until its run is through."""
    done = 0
    while done < count:
        folder = place.fresh() / "saved"
        keep = place.random.choice((0, 1, 2, 3))
        before = 0
        while done < count:
            flags = [*place.saving(folder, keep), *(["--resume", folder] if before else [])]
            settings = {"NO_EXCHANGE": "1"} if place.random.random() < 0.3 else {}
            killed = place.kill(flags, folder, settings)
            what = f"kill {done}: keep {keep}, {killed.how}"
            if killed.code == 0:
                place.check_finished(folder, keep, what)
                break
            place.expect(killed.code == -9, what, killed.code, killed.stderr)
            done += 1
            newest = place.newest(folder)
            place.expect(newest >= max(before, killed.steps[-1] - 1 if killed.steps else 0), what, "lost", newest)
            place.check_kept(folder, keep, newest, what)
            copy = place.root / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            if folder.exists():
                shutil.copytree(folder, copy)
            place.check_continues(copy, keep, newest, what)
            before = newest
    return f"{done} kills"


def savers(place, count):
    """Savers that start together, without and with a checkpoint to go on from; in every other round
    the one that goes on is killed, and its place is free for the next."""
    refused = reads = 0
    for number in range(count):
        many, keep = place.random.choice((2, 4)), place.random.choice((1, 2))
        folder, what = place.fresh() / "saved", f"round {number}: {many} savers"
        slow = {"SLOW": str(place.random.choice((0, 200, 1000)))}
        flags = place.saving(folder, keep)
        running = [place.start(flags, folder, slow) for _ in range(many)]
        if number % 2:
            time.sleep(place.random.random() * 0.06)
            place.kill_holder(folder, running)
        ended = [place.finish(p) for p in running]
        went_on = [e for e in ended if e.code == 0]
        if not number % 2:
            place.expect(len(went_on) == 1, what, [(e.code, e.stderr) for e in ended])
        for e in ended:
            if e.code not in (0, -9):
                place.expect(e.code == 1 and not e.steps, what, e.code, e.steps, e.stderr)
                place.expect(re.search("is in use: process|of another run", e.stderr), what, e.stderr)
                refused += 1
        newest = place.newest(folder)
        logged = max([e.steps[-1] for e in ended if e.steps], default=0)
        place.expect(newest >= logged - 1, what, "lost", newest, logged)
        # The same with a checkpoint, to the end, while others read.
        if newest == 0:
            flags = place.saving(folder, keep)
        else:
            flags = [*place.saving(folder, keep), "--resume", folder]
        running = [place.start(flags, folder, slow) for _ in range(many)]
        while newest and any(p.process.poll() is None for p in running):
            place.check_readable(folder, what)
            reads += 1
        for e in map(place.finish, running):
            if e.code != 0:
                place.expect(e.code == 1 and not e.steps, what, e.code, e.stderr)
                place.expect(re.search("is in use: process|newer than|of another run", e.stderr), what, e.stderr)
                refused += 1
        place.check_finished(folder, keep, what)
    return f"{count} rounds, {refused} savers refused, {reads} reads beside savers"


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("campaign", choices=("kills", "savers", "faults", "compiler"))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cc", default="cc")
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    parser.add_argument("--folder", default=memory, help="where it works (default: in memory, if that can be)")
    parser.add_argument("--only", default="", help="scenarios of faults with this in their name")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="saves-", dir=arguments.folder) as root:
        place = Place(pathlib.Path(root).resolve(), arguments)
        run = {"kills": kills, "savers": savers, "faults": faults.of_runs, "compiler": faults.of_compiler}
        start = time.monotonic()
        summary = run[arguments.campaign](place, arguments.count)
        for problem in place.problems[:40]:
            print("FAILED", problem)
        print(f"{arguments.campaign}: {summary}, {len(place.problems)} failures, {time.monotonic() - start:.0f} s")
    sys.exit(bool(place.problems))


if __name__ == "__main__":
    main()
