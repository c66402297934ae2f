#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Damaged files: whatever is in them, the programs end with a result or an error that says what is wrong.

  campaign.py models|packages|data --build DIR [--count N] [--seed S] [--jobs J] [--keep DIR] [--only CASE]

  models     ONNX models, changed field by field, into trainc; what it compiles is described and trained for a step
  packages   packages whose manifest and program are changed, with right checksums, into trainc-run and trainc-translate;
             their kernels do nothing where the program was changed, since machine code goes wherever it is sent
  data       arrays, weights, checkpoints, adapters and settings that nest or lie, into both

A case is made from kind, seed and number, and nothing else. It fails where a program crashes, takes more than 10 s (60 s
with a sanitizer) or 3 GiB, ends with another exit code than 0 to 3, prints control characters or no error, leaves something
behind, or changes a file that it only reads. With --keep what failed lies in DIR/KIND-SEED-CASE with its commands.
"""

import argparse
import collections
import concurrent.futures
import pathlib
import random
import re
import shutil
import sys
import tempfile
import threading
import time
import traceback
import warnings

import damaged_data
import damaged_models
import damaged_packages
from place import Place

KINDS = {"models": damaged_models, "packages": damaged_packages, "data": damaged_data}


def signature(problem):
    """Problems that look alike: the first line, and what an assertion or a stack says, without numbers."""
    lines = problem.splitlines()
    where = next((l for l in lines if re.search(r"Assertion|runtime error|SUMMARY", l)), "")
    return re.sub(r"0x[0-9a-f]+|\d+", "N", lines[0] + where)[:300]


class Campaign:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, pathlib.Path(scratch)
        compiler = options.compiler or options.build
        self.builds = {"trainc-run": options.build, "trainc": compiler, "trainc-translate": compiler}
        self.sanitized = any("-fsanitize" in (build / "CMakeCache.txt").read_text() for build in self.builds.values())
        self.kind = KINDS[options.kind].Kind(self.place("bases"))
        self.local = threading.local()
        self.codes, self.failed, self.slowest = collections.Counter(), {}, (0.0, 0)

    def place(self, name):
        return Place(self.builds, self.scratch / name, self.sanitized)

    def case(self, number):
        if not hasattr(self.local, "place"):
            self.local.place = self.place(f"worker-{threading.get_ident()}")
        place = self.local.place
        place.clear()
        try:
            self.kind.run(place, random.Random(f"{self.options.kind} {self.options.seed} {number}"))
        except Exception:  # of the campaign, which goes on
            place.problems.append(f"the case itself failed\n{traceback.format_exc()}")
        if place.problems and self.options.keep:
            kept = self.options.keep / f"{self.options.kind}-{self.options.seed}-{number}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(place.folder, kept)
            (kept / "commands.txt").write_text("\n".join(place.commands) + "\n\n" + "\n\n".join(place.problems) + "\n", errors="surrogateescape")
        return number, list(place.problems), list(place.codes), place.slowest

    def run(self, numbers):
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for done, (number, problems, codes, slowest) in enumerate(pool.map(self.case, numbers), 1):
                self.codes[" ".join(map(str, codes))] += 1
                self.slowest = max(self.slowest, (slowest, number))
                if problems:
                    self.report(number, problems)
                if done % 500 == 0:
                    print(f"{done} cases, {len(self.failed)} failed, {time.monotonic() - begin:.0f} s", flush=True)
        return time.monotonic() - begin

    def report(self, number, problems):
        self.failed[number] = problems
        alike = [n for n, found in self.failed.items() if signature(found[0]) == signature(problems[0])]
        if len(alike) > 3:
            print(f"case {number}: as case {alike[0]}: {problems[0].splitlines()[0]}", flush=True)
        else:
            print(f"case {number} FAILED: " + "\n".join(problems).encode("ascii", "backslashreplace").decode(), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="a build folder with bin/trainc, trainc-run and trainc-translate")
    parser.add_argument("--compiler", type=lambda path: pathlib.Path(path).resolve(), help="another one with trainc and trainc-translate, where that has the runtime alone")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for what fails")
    parser.add_argument("--only", type=int, help="this case alone, which is kept, too")
    options = parser.parse_args()
    options.build = options.build.resolve()
    warnings.filterwarnings("ignore", "Duplicate name")  # of an archive that is meant to have it twice
    with tempfile.TemporaryDirectory(prefix="trainc-files-") as scratch:
        campaign = Campaign(options, scratch)
        seconds = campaign.run(range(options.count) if options.only is None else [options.only])
    ends = ", ".join(f"{count} x {codes or 'none'}" for codes, count in campaign.codes.most_common(8))
    print(f"exit codes of a case's programs: {ends}")
    print(f"the slowest program took {campaign.slowest[0]:.1f} s, in case {campaign.slowest[1]}")
    total = sum(campaign.codes.values())
    print(f"{options.kind}, seed {options.seed}: {total} cases, {len(campaign.failed)} failed, in {seconds:.0f} s")
    return 1 if campaign.failed or not total else 0


if __name__ == "__main__":
    sys.exit(main())
