# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C and C++ API: each header's text, with its first comment as prose and a heading for each function, struct and class."""

import re

INTRO = """# C and C++ API

The headers of `libtrainrt`: [embedding](../embedding.md) tells how they are used. What is said of a function stands above its declaration.
"""
FIRST = ["trainrt.h", "trainrt.hpp", "checkpoint.h", "data.h", "export.h", "views.h", "ranks.h", "ranks.hpp"]
COMMENT = re.compile(r"/\*(?!=)(.*?)\*/|((?:^//[^\n]*\n)+)", re.S | re.M)
# What makes a header one says nothing to readers.
GUARDS = re.compile(r'^#(?:ifndef|define) TRAINRT_\w+_H(?:PP)?\n|^#endif[^\n]*\s*\Z|^#ifdef __cplusplus\n(?:extern "C" \{|\})[^\n]*\n#endif\n|^#include [^\n]*\n|^namespace trainrt \{\n|^\} // namespace trainrt\n', re.M)
SECTION = re.compile(r"^(?:/\*|//)===-+ *(.*?) *-+===[^\n]*\n", re.M)
# What a declaration at the margin declares: functions, then types.
NAMES = [
    re.compile(r"^TRAINRT_API [\w\s*]*?\b(trainrt_\w+)\(", re.M),
    re.compile(r"^static inline [\w\s*]*?\b(trainrt_\w+)\(", re.M),
    re.compile(r"^\} (trainrt_\w+);", re.M),
    re.compile(r"^typedef [^;{]*?\(\*(trainrt_\w+)\)", re.M),
    re.compile(r"^typedef struct \w+ (trainrt_\w+);", re.M),
    re.compile(r"^(?:class|struct|enum class) (\w+)[^;]*?\{", re.M),
    re.compile(r"^inline [^\n=;{]*?\b(\w+)\(", re.M),
]


def plain(comment):
    lines = re.sub(r"^ ?(\*|//+) ?", "", comment.strip(), flags=re.M).strip().split("\n")
    return "\n".join(line.strip() for line in lines).replace("<", "&lt;")


def declarations(code):
    """The text in pieces: each begins with the comment of a declaration, and ends before the next one's."""
    pieces, inside = [""], 0
    for paragraph in re.split(r"\n{2,}", code.strip()):
        # A paragraph within a struct or class belongs to it; one may hold several declarations, each behind the end of one.
        for part in [paragraph] if inside else re.split(r"(?<=[;}])\n(?=/[*/]|TRAINRT_API|typedef|static inline|enum)", paragraph):
            pieces.append(part) if inside == 0 else pieces.__setitem__(-1, f"{pieces[-1]}\n\n{part}")
            bare = re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'", "", part, flags=re.S)
            inside += bare.count("{") - bare.count("}")
    return [piece for piece in pieces if piece]


def declared(piece):
    bare = re.sub(r"/\*.*?\*/|^\s*//[^\n]*\n", "", piece, flags=re.S | re.M).strip()
    return next((found[1] for found in (pattern.search(bare) for pattern in NAMES) if found), None)


def listed(code, language, level):
    """Each declaration under its name; what has no name, and what is declared once more (defaults beside their struct), under that before it."""
    text, seen = [], set()
    for piece in declarations(code):
        name = declared(piece)
        if name and name not in seen:
            text.append(f"{'#' * level} {name}\n")
            seen.add(name)
        text.append(f"```{language}\n{piece}\n```\n")
    return text


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
        pieces += [f"### {name[0].upper()}{name[1:]}\n"] if name else []
        pieces += listed(code, language, 4 if name else 3)
    return "\n".join(pieces)


def pages(root, build):
    folder = root / "runtime/include/trainrt"
    names = sorted((path.name for path in folder.iterdir()), key=lambda n: (FIRST.index(n) if n in FIRST else len(FIRST), n))
    return {"c-api.md": "\n".join([INTRO, *(part(folder / name) for name in names)])}
