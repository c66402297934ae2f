# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases of a command line test: the methods `case_NAME` of a class."""

import argparse
import pathlib
import sys


class Failed(Exception):
    pass


def expect(condition, *what):
    if not condition:
        raise Failed(" ".join(str(w) for w in what))


def program_parser():
    """The arguments of tests that compile models and train what comes of them, in a folder of their own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainc", required=True)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--models", required=True, type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    return parser


def run_cases(parser, make_cases):
    """Runs them all, the one of --only or the part of --shard; `make_cases` takes the arguments. Does not return."""
    parser.add_argument("--only", help="one case, without case_")
    parser.add_argument("--shard", default="0/1", help="I/N: the cases number I, I + N, ...")
    arguments = parser.parse_args()
    cases, bad = make_cases(arguments), 0
    index, count = map(int, arguments.shard.split("/"))
    for name in [n for n in dir(cases) if n.startswith("case_")][index::count]:
        if arguments.only in (None, name[5:]):
            try:
                getattr(cases, name)()
                print("ok    ", name[5:])
            except Failed as failure:
                bad += 1
                print("FAILED", name[5:], "-", failure)
    sys.exit(bool(bad))
