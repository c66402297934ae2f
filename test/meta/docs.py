#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs.py SOURCE BUILD: the generated reference is complete.

Every dialect and every pass folder has its page; every operation and pass has a summary, every pass
a description with an example; links in hand-written pages lead somewhere, and the files that they name are there."""

import itertools
import pathlib
import re
import sys

#: Tests by the names that lit has for them.
OF_LIT = {"tools/trainc-run/faults-0"}


def main():
    source, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    problems = []
    pages = {page.stem: page.read_text() for page in (build / "docs").rglob("*.md")}
    for td in [*source.glob("lib/*/*.td"), *source.glob("lib/*/*/*.td")]:
        page = pages.get(td.stem)
        if page is None:
            problems.append(f"{td}: no generated page {td.stem}.md")
        elif "```mlir" not in page:
            problems.append(f"{td}: the description has no example")
    for dialect in ("TrainDialect", "PlanDialect", "TrainInterfaces", "TrainRanges", "TrainCollectives", "TrainConvolution"):
        if len(pages.get(dialect, "")) < 1000:
            problems.append(f"{dialect}.md is missing or empty")
    # An operation's heading is followed by its summary in italics.
    for name, page in pages.items():
        for op, following in re.findall(r"^### `(\w+\.\w+)`.*\n+(.*)$", page, re.M):
            if not following.startswith("_"):
                problems.append(f"{name}.md: {op} has no summary")
    for page in [source / "README.md", *source.glob("docs/**/*.md"), *source.glob("dialects/*/README.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            if not (page.parent / link).exists():
                problems.append(f"{page}: link to {link}, which is not there")
        for named in re.findall(r"`((?:bench|cmake|dialects|docs|examples|include|lib|python|runtime|scripts|test|tools)/[^`\s]+)`", page.read_text()):
            # "x.{h,cpp}" is two; NAME, <Pass> and the like stand for any.
            parts = [part.strip("{}").split(",") for part in re.split(r"(\{[^}]*\})", named)]
            for path in map("".join, itertools.product(*parts)):
                if not re.search(r"<|\b[A-Z]{4,}\b", path) and path not in OF_LIT and not any(source.glob(path.rstrip("/"))):
                    problems.append(f"{page}: names {path}, which is not there")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
