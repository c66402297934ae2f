#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks names and layout of the whole source tree: `names.py SOURCE_DIR`.

File names, lines, sizes of what git has and what is in its root, licence lines, where passes live and what goes with
each, that no pass names an op of the train dialect, that walls between the folders and the runtime's strata hold, that
nothing knows a target but its folder, and words that do not belong here.
Prints every finding with its file and line; exit code 1 when there is one.
"""

import os
import pathlib
import re
import subprocess
import sys

LINE_LIMIT = 800
#: Files that may be longer, with the reason. May only shrink.
LONG = {}
FOLDER_LIMIT = 40  # sources in one folder
BYTES_LIMIT = 300_000
#: What belongs into the root of the repository.
ROOT = set(".ci .clang-format .gitignore CMakeLists.txt CMakePresets.json LICENSE README.md mkdocs.yml".split()) | set(
    "bench cmake dialects docs examples include lib python runtime scripts test tools".split()
)
#: Larger files that are meant to be there. May only shrink.
LARGE = re.compile(
    r"^examples/chargpt/chargpt\.onnx$|^test/e2e/models/(gpt2-dropout|gpt2|nanogpt)\.ref\.npz$"
    r"|^test/unit/runtime/quantized/results\.safetensors$"
)

SOURCE = {".cpp", ".h", ".c", ".td", ".py", ".txt", ".cmake", ".fbs", ".in", ".cu"}
SKIPPED = re.compile(r"^(build|\.git$|\.venv$|\.deps$|__pycache__$|models$|third_party$)")

#: Folders whose C++ files are named UpperCamel; the runtime and the tools have snake and kebab case.
CAMEL = re.compile(r"^(dialects|lib|include/trainc|test/lib)/")
SNAKE = re.compile(r"^(runtime/(src|include|tests|schema)|test/capi|examples|bench)/")
KEBAB = re.compile(r"^tools/")

#: What may name ops of the train dialect: the dialect, the importer that makes them, the calls of libraries that they
#: become, the passes that raise a formula to one op, and what recognizes formulas for the others. All other code asks
#: interfaces.
NAMES_OPS = re.compile(
    r"^dialects/(Train|Plan)/|^lib/Conversion/ONNXToTrain/|^lib/Formulas/"
    r"|^lib/Transforms/(Raise\w+|AccumulateProducts|FuseEpilogues)/"
)
STRUCTURE = {"SymbolOp", "FusionOp", "YieldOp", "FuncOp", "ReturnOp"}

#: (folder, headers that it must not include, why)
WALLS = [
    ("runtime", r'#include [<"](mlir|llvm|trainc|dialects|lib)/', "runtime never uses the compiler"),
    ("dialects", r'#include "(lib|trainc)/', "dialects never include lib/"),
]

#: What code is generated for is known in these folders only; all others ask Target for what they need of it.
TARGET_FOLDERS = ("lib/Target/", "runtime/src/device/cpu/", "runtime/src/device/cuda/", "runtime/cudnn/")
ASKS_TARGET = ("lib", "include", "dialects", "tools", "runtime")
TARGET_NAMES = [
    (r"\bbool\s+\w*(cuda|gpu)\w*\b(?!::)", "a target is no boolean"),
    (r'[!=]=\s*"(cpu|cuda)\b|"(cpu|cuda)"\s*[!=]=', "compares the name of a target"),
    (r'\b(starts_with|consume_front|startswith|rfind|find|findTarget)\("(cpu|cuda)\b', "looks for the name of a target"),
    (r"\bTarget::(cpu|cuda)\b|\boptions\.(cpu|cuda)\b|\bget(Cpu|Cuda)Target\b", "names a target"),
]

#: Strata of the runtime that are no static library of their own: whose strata they see.
STRATA_ABOVE = {"capi": "export", "cli": "io"}
#: The one that the compiler sees.
STRATUM_SHARED = "format"

#: Spelled in pieces, so that this file does not find itself.
FORBIDDEN = [
    r"\bTO" + r"DO\b",
    r"\bFIX" + r"ME\b",
    r"\bXX" + r"X\b",
    r"(^|[^\w.])/wo" + r"rk/",
    r"\biss" + r"ue #?\d+",
]

findings = []


def finding(path, line, text):
    findings.append(f"{path}:{line}: {text}")


def sources(root):
    """All files below root that somebody wrote, as paths relative to it."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if not SKIPPED.match(f))
        for file in sorted(files):
            yield (pathlib.Path(folder) / file).relative_to(root)


def check_name(path):
    text, stem = str(path), path.name.split(".")[0]
    if path.name in ("CMakeLists.txt", "README.md", "CMakePresets.json", "lit.local.cfg"):
        return
    if path.suffix in (".cpp", ".h", ".td", ".c"):
        if CAMEL.match(text) and not re.fullmatch(r"[A-Z][A-Za-z0-9]*", stem):
            finding(path, 1, "C++ files here are named UpperCamel")
        if SNAKE.match(text) and not re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", stem):
            finding(path, 1, "C and C++ files here are named snake_case")
        if KEBAB.match(text) and not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", stem):
            finding(path, 1, "files here are named kebab-case")
    if path.suffix in (".mlir", ".test") and not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", stem):
        finding(path, 1, "tests are named kebab-case")


def check_text(path, lines):
    # The licence is in the first line, or the second after "#!".
    head = lines[1:2] if lines and lines[0].startswith("#!") else lines[:1]
    if path.suffix in SOURCE or path.parts[0] in ("scripts", ".ci"):
        if not any("SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception" in h for h in head):
            finding(path, 1, "no SPDX-License-Identifier line")
    if path.suffix in SOURCE and len(lines) > LONG.get(str(path), LINE_LIMIT):
        finding(path, len(lines), f"{len(lines)} lines; the limit is {LINE_LIMIT}")
    if path.suffix == ".md" or path.suffix in SOURCE:
        for number, line in enumerate(lines, 1):
            for pattern in FORBIDDEN:
                if re.search(pattern, line, re.IGNORECASE if "iss" in pattern else 0):
                    finding(path, number, f"forbidden: {line.strip()[:80]}")


def check_walls(path, lines):
    for folder, pattern, why in WALLS:
        if path.parts[0] == folder:
            for number, line in enumerate(lines, 1):
                if re.match(pattern, line):
                    finding(path, number, why)


def check_targets(path, lines):
    """No code outside of a target's folder is for one target."""
    if path.suffix not in (".cpp", ".h", ".td", ".c") or path.parts[0] not in ASKS_TARGET:
        return
    if str(path).startswith(TARGET_FOLDERS):
        return
    for number, line in enumerate(lines, 1):
        code = line.split("//")[0]
        for pattern, why in TARGET_NAMES:
            if match := re.search(pattern, code, re.IGNORECASE):
                finding(path, number, f"{why}; ask it (trainc/Target/Target.h, format/target.h): {match[0]}")


def strata(root):
    """{folder in runtime/src: folders that its files may include}, as the link lines say."""
    file = root / "runtime" / "CMakeLists.txt"
    lines = re.findall(r"^trainrt_stratum\((\w+) (\S+)(.*?)\)$", file.read_text(), re.M) if file.exists() else []
    folders, seen = {name: folder for name, folder, _ in lines}, {}
    for name, folder, rest in lines:  # lower ones come first
        below = [folders[n] for n in re.findall(r"\btrainrt_(\w+)", rest) if n in folders]
        seen[folder] = {folder}.union(*(seen[f] for f in below))
    for folder, below in STRATA_ABOVE.items():
        seen[folder] = {folder} | seen.get(below, set())
    return seen


def stratum_of(path, seen):
    """The innermost stratum that a path below runtime/src is in; None outside of all."""
    while path and path not in seen:
        path = path.rpartition("/")[0]
    return path or None


def check_strata(path, lines, seen):
    text = str(path)
    inside = text.startswith("runtime/src/")
    if not inside and (path.parts[0] not in ("lib", "include", "dialects", "tools") or path.parts[1] == "trainc-run"):
        return
    own = stratum_of(text[len("runtime/src/") :], seen) if inside else None
    if inside and own is None and path.suffix in (".cpp", ".h", ".cu"):
        finding(path, 1, "in no stratum of the runtime (runtime/CMakeLists.txt)")
        return
    for number, line in enumerate(lines, 1):
        if not (match := re.match(r'#include "([^"]+)"', line)):
            continue
        there = stratum_of(match[1].removeprefix("runtime/src/"), seen)
        if inside and there and there not in seen[own]:
            finding(path, number, f"the stratum {own} does not see {there}")
        elif not inside and (match[1].startswith("runtime/") or there not in (None, STRATUM_SHARED)):
            finding(path, number, f"of the runtime the compiler sees {STRATUM_SHARED} only")


def check_public(path, lines, passes):
    """What other components of the compiler include lies in include/trainc, at the same place; a pass's header beside it."""
    parts = path.parts
    if parts[0] not in ("lib", "include", "tools"):
        return
    for number, line in enumerate(lines, 1):
        if not (match := re.match(r'#include "lib/(\w+)/([^"]+)\.h(\.inc)?"', line)):
            continue
        own = parts[0] == "lib" and parts[1] == match[1]
        declared = pathlib.PurePath("lib", match[1], match[2])
        if not own and declared not in passes:
            finding(path, number, f"{declared}.h is not public: others include what is in include/trainc/{match[1]}")


def train_ops(root):
    """({C++ class: 1}, {mnemonic: 1}) of the ops that the train dialect defines."""
    classes, mnemonics = set(), set()
    for file in (root / "dialects" / "Train").glob("*.td"):
        for match in re.finditer(r'^def Train_(\w+Op)\s*:[^<]*<[^"]*"(\w+)"', file.read_text(), re.M):
            if match[1] not in STRUCTURE:
                classes.add(match[1])
                mnemonics.add(match[2])
    return classes, mnemonics


def check_agnostic(path, lines, ops):
    """No class of a train op, unless another namespace qualifies it, no "train.op" string, no look at a mnemonic."""
    if path.parts[0] not in ("lib", "include", "dialects") or path.suffix not in (".cpp", ".h"):
        return
    if NAMES_OPS.match(str(path)):
        return
    classes, mnemonics = ops
    for number, line in enumerate(lines, 1):
        code = line.split("//")[0]
        for match in re.finditer(r"(?:(\w+)::)?\b(\w+Op)\b", code):
            if match[2] in classes and match[1] in (None, "train"):
                finding(path, number, f"only what raises formulas names an op: {match[2]} (ask an interface)")
        for match in re.finditer(r'"train\.(\w+)"', code):
            if match[1] in mnemonics:
                finding(path, number, f"only what raises formulas names an op: train.{match[1]}")
        if re.search(r"(stripDialect|getStringRef)\(\)\s*[!=]=|Switch<[^;]*stripDialect", code):
            finding(path, number, "an op is not told by its mnemonic (ask an interface)")


def check_predicates(root, paths, ops):
    """What the dialect offers to passes about an op or a value asks interfaces as well, by no list of ops."""
    folder = pathlib.Path("dialects/Train")
    inside = [p for p in paths if folder in p.parents]
    offered = set()
    for path in inside:
        # Not what the ops' own formulas are made of.
        if path.suffix == ".h" and path.name not in ("TrainDetail.h", "TrainScalar.h", "TrainVJP.h"):
            text = (root / path).read_text()
            for match in re.finditer(r"^[\w:<>, *]+\b(\w+)\(([^;{}]*)\);", text, re.M):
                if re.search(r"\bmlir::(Operation \*|Value\b)", match[2]):
                    offered.add(match[1])
    for path in inside:
        if path.suffix != ".cpp":
            continue
        text = (root / path).read_text()
        for match in re.finditer(r"^[^\s/#}][^;{}]*?\b(\w+)\([^;{}]*\{\n.*?^\}", text, re.M | re.S):
            if match[1] not in offered or re.search(r"\w+Op::" + match[1] + r"\(", match[0].split("{")[0]):
                continue
            for named in re.finditer(r"(?:isa|cast|_null|getDefiningOp)<([^>]*)>", match[0]):
                known = [name for name in re.findall(r"\b(\w+Op)\b", named[1]) if name in ops[0]]
                if known:
                    line = text[: match.start() + named.start()].count("\n") + 1
                    finding(path, line, f"{match[1]} names an op: {known[0]} (ask an interface, or lib/Formulas)")


def check_passes(root, paths):
    """Every pass is described, has a source named after it, and a test runs its flag."""
    tests = "\n".join(
        (root / p).read_text(errors="replace") for p in paths if p.suffix in (".mlir", ".test")
    )
    for path in paths:
        if path.suffix != ".td" or path.parts[0] != "lib":
            continue
        text = (root / path).read_text()
        pattern = r'^def (\w+)\s*:\s*(?:\w+)?Pass<\s*"([^"]+)"[^{]*\{(.*?)^\}'
        for match in re.finditer(pattern, text, re.M | re.S):
            name, flag, body = match.groups()
            line = text[: match.start()].count("\n") + 1
            if not name.endswith("Pass"):
                finding(path, line, f"pass {name}: the name must end in Pass")
            if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", flag):
                finding(path, line, f"pass {name}: its flag {flag} is not kebab-case")
            for part in ("summary", "description"):
                if not re.search(rf"\blet {part}\s*=", body):
                    finding(path, line, f"pass {name} has no {part}")
            stem = name.removesuffix("Pass")
            if not any(p.stem == stem and p.suffix == ".cpp" for p in paths):
                finding(path, line, f"pass {name} has no source {stem}.cpp")
            if not re.search(rf"[-( ,]{flag}\b", tests):
                finding(path, line, f"no test runs {flag}")
            if "let constructor" in body:
                finding(path, line, f"pass {name}: no let constructor; TableGen makes it")


def check_folders(paths):
    count = {}
    for path in paths:
        if path.suffix in (".cpp", ".h", ".c", ".td"):
            count[path.parent] = count.get(path.parent, 0) + 1
    for folder, number in count.items():
        if number > FOLDER_LIMIT:
            finding(folder, 0, f"{number} sources in one folder; the limit is {FOLDER_LIMIT}")


def tracked(root):
    """The names of the files that git has, relative to root; none where it has none."""
    done = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True)
    return [name for name in done.stdout.split("\0") if name] if done.returncode == 0 else []


def check_root(names):
    """Dumps and scratch folders do not stay."""
    for name in sorted({name.split("/")[0] for name in names} - ROOT):
        finding(name, 0, "does not belong into the root of the repository (ROOT in test/meta/names.py)")


def check_sizes(root, names):
    """No dumps by mistake: every clone has them for ever."""
    for name in names:
        file = root / name
        if file.is_file() and file.stat().st_size > BYTES_LIMIT and not LARGE.match(name):
            finding(name, 1, f"{file.stat().st_size} bytes; the limit is {BYTES_LIMIT}")


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    paths = list(sources(root))
    ops = train_ops(root)
    seen = strata(root)
    passes = {path.with_suffix("") for path in paths if path.suffix == ".td"}
    if len(ops[0]) < 20:
        finding("dialects/Train", 0, f"only {len(ops[0])} ops found: this check no longer sees them")
    for path in paths:
        check_name(path)
        if path.suffix in SOURCE | {".md", ".mlir", ".test"} or path.parts[0] in ("scripts", ".ci"):
            lines = (root / path).read_text(errors="replace").splitlines()
            check_text(path, lines)
            check_walls(path, lines)
            check_strata(path, lines, seen)
            check_agnostic(path, lines, ops)
            check_public(path, lines, passes)
            check_targets(path, lines)
    check_passes(root, paths)
    check_predicates(root, paths, ops)
    check_folders(paths)
    names = tracked(root) or [str(path) for path in paths]
    check_root(names)
    check_sizes(root, names)
    print("\n".join(findings) or f"{len(paths)} files, no finding")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
