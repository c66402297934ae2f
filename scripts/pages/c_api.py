# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C and C++ API: each header's text, with its first comment as prose."""

import re

INTRO = """# C and C++ API

The headers of `libtrainrt`: [embedding](../embedding.md) tells how they are used. Functions of a header are declared with what they do above them.
"""
FIRST = ["trainrt.h", "trainrt.hpp", "checkpoint.h", "data.h", "export.h", "views.h", "ranks.h", "ranks.hpp"]
COMMENT = re.compile(r"/\*(?!=)(.*?)\*/|((?:^//[^\n]*\n)+)", re.S | re.M)
# What makes a header one says nothing to readers.
GUARDS = re.compile(r'^#(?:ifndef|define) TRAINRT_\w+_H(?:PP)?\n|^#endif[^\n]*\s*\Z|^#ifdef __cplusplus\n(?:extern "C" \{|\})[^\n]*\n#endif\n|^#include [^\n]*\n', re.M)
SECTION = re.compile(r"^(?:/\*|//)===-+ *(.*?) *-+===[^\n]*\n", re.M)


def plain(comment):
    lines = re.sub(r"^ ?(\*|//+) ?", "", comment.strip(), flags=re.M).strip().split("\n")
    return "\n".join(line.strip() for line in lines).replace("<", "&lt;")


def part(path):
    text = path.read_text()
    # The licence is a comment of its own, before that which says what the header is for.
    licence = text.index("\n") + 1
    first = COMMENT.search(text, licence)
    intro, rest = plain(first[1] or first[2]), text[first.end() :]
    language = "cpp" if path.suffix == ".hpp" else "c"
    # What is before the first section, then each section's name and text.
    begin, *sections = SECTION.split(GUARDS.sub("", rest))
    pieces = [f"## {path.name}\n\n{intro}\n"]
    for name, code in [("", begin), *zip(sections[::2], sections[1::2])]:
        heading = f"### {name[0].upper()}{name[1:]}\n\n" if name else ""
        pieces += [f"{heading}```{language}\n{code.strip()}\n```\n"] if code.strip() else []
    return "\n".join(pieces)


def pages(root, build):
    folder = root / "runtime/include/trainrt"
    names = sorted((path.name for path in folder.iterdir()), key=lambda n: (FIRST.index(n) if n in FIRST else len(FIRST), n))
    return {"c-api.md": "\n".join([INTRO, *(part(folder / name) for name in names)])}
