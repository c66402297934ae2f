# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases of a command line test: the methods `case_NAME` of a class."""

import sys


class Failed(Exception):
    pass


def expect(condition, *what):
    if not condition:
        raise Failed(" ".join(str(w) for w in what))


def run_cases(parser, make_cases):
    """Runs them all, or the one of --only; `make_cases` takes the arguments. Does not return."""
    parser.add_argument("--only", help="one case, without case_")
    arguments = parser.parse_args()
    cases, bad = make_cases(arguments), 0
    for name in [n for n in dir(cases) if n.startswith("case_")]:
        if arguments.only in (None, name[5:]):
            try:
                getattr(cases, name)()
                print("ok    ", name[5:])
            except Failed as failure:
                bad += 1
                print("FAILED", name[5:], "-", failure)
    sys.exit(bool(bad))
