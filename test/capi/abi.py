#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the ABI of the public headers with the one that was kept of the last release, by abidiff of libabigail.

  abi.py --cc CC --runtime RUNTIME SCRATCH     compares, and checks that breaks are found
  abi.py --write                               keeps today's as the one of version MAJOR.MINOR; drops the older

libtrainrt.so is stripped: what is compared is a library of the same functions without bodies, made of the headers (that
they are those of libtrainrt.so is symbols.test).
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

KEPT = pathlib.Path(__file__).resolve().parent / "abi"
# Structs that begin with `size` may grow at their ends; functions and enumerators may be added.
ALLOWED = """[suppress_type]
  type_kind = struct
  name_regexp = ^({names})$
  has_data_member_inserted_at = end
"""
GROWN = (r"^(} trainrt_session_options;)", r"  int more;\n\1")
# What breaks, and pairs of a pattern in trainrt.h and what stands there then.
BREAKS = (
    ("a function is gone", (r"^TRAINRT_API uint32_t trainrt_version\(void\);", "")),
    ("an argument has another type", (r"(?<=trainrt_dtype_size\()trainrt_dtype (\w+)", r"int64_t \1")),
    ("a value of an enum is another", (r"TRAINRT_BAD_DATA = 3", "TRAINRT_BAD_DATA = 30")),
    ("a member is gone", (r"^  void \*stream;$", "")),
    ("a member is gone where others came", (r"^  void \*stream;$", ""), GROWN),
    ("a struct without a size has grown", (r"^(} trainrt_tensor;)", r"  int more;\n\1")),
)
ADDS = (GROWN, (r"^(?=TRAINRT_API uint32_t trainrt_version)", "TRAINRT_API int trainrt_more(int x);\n"))


def stub(cc, headers, folder):
    """A library with the functions that the headers declare, and debug information."""
    (folder / "trainrt").mkdir(parents=True)
    includes = ""
    for name, text in headers.items():
        text = re.sub(r"^(TRAINRT_API[^;{]*\));", r"\1 { __builtin_trap(); }", text, flags=re.M)
        (folder / "trainrt" / name).write_text(text)
        includes += f"#include <trainrt/{name}>\n"
    (folder / "all.c").write_text(includes)
    library = folder / "stub.so"
    subprocess.run([cc, "-std=c11", "-g", "-w", "-shared", "-fPIC", "-I", folder, folder / "all.c", "-o", library], check=True)
    return library


def compare(cc, headers, scratch):
    """What abidiff has against headers; "" for nothing."""
    library = stub(cc, headers, scratch)
    allowed = scratch / "allowed"
    sized = re.findall(r"^typedef struct \w* ?\{\s*(?:/\*.*?\*/\s*)?\w+ size;[^}]*\} (\w+);", "".join(headers.values()), re.M | re.S)
    allowed.write_text(ALLOWED.format(names="|".join(sized)))
    (kept,) = KEPT.glob("*.abi")
    command = ["abidiff", "--no-added-syms", "--suppressions", str(allowed), str(kept), str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cc", default="clang-22")
    parser.add_argument("--runtime", type=pathlib.Path, default=KEPT.parents[2] / "runtime")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("scratch", type=pathlib.Path, nargs="?")
    arguments = parser.parse_args()
    headers = {path.name: path.read_text() for path in sorted((arguments.runtime / "include/trainrt").glob("*.h"))}
    if arguments.write:
        version = ".".join(re.search(rf"#define TRAINRT_VERSION_{part} (\d+)", headers["trainrt.h"])[1] for part in ("MAJOR", "MINOR"))
        with tempfile.TemporaryDirectory() as folder:
            library = stub(arguments.cc, headers, pathlib.Path(folder))
            quiet = ["--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--type-id-style", "hash"]
            text = subprocess.run(["abidw", *quiet, library], check=True, capture_output=True, text=True).stdout
        for path in KEPT.glob("*.abi"):
            path.unlink()
        (KEPT / f"trainrt-{version}.abi").write_text(text)
        return 0

    def findings(folder, header=headers["trainrt.h"]):
        return compare(arguments.cc, headers | {"trainrt.h": header}, arguments.scratch / folder)

    if problems := findings("now"):
        print(f"not compatible with the last release (docs/sdk.md, Versions):\n{problems}")
        return 1
    # The comparison itself: each of these would break hosts, the last one would not.
    for number, (what, *changes) in enumerate([*BREAKS, ("", *ADDS)]):
        header = headers["trainrt.h"]
        for pattern, replacement in changes:
            header, count = re.subn(pattern, replacement, header, count=1, flags=re.M)
            if count != 1:
                print(f"trainrt.h has no {pattern}")
                return 1
        problems = findings(f"changed-{number}", header)
        if bool(problems) != bool(what):
            print(f"not found: {what}" if what else f"a struct that grew and a new function are:\n{problems}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
