#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""developer_pages.py SOURCE BUILD FOLDER: what pages for those who work on trainc say is so.

Their commands run as they stand there, in a folder that looks like the source tree with its builds: each is BUILD, of which
ninja only looks up targets, so that one that is gone is an error, and lit lists the tests of a filter, of which there has to be one. The
code that the pages show is that of the tree, and the names that they use are there.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

#: {page: what its commands are given in place of hours, and of writing to the source}.
COMMANDS = {
    "docs/add-an-onnx-op.md": [(r" --write\b", "")],
    # Of what stands in front of && sh -e asks nothing.
    "docs/add-an-op.md": [(" && ", "\n")],
    # libFuzzer is in builds of its own; campaigns run in fuzz/*.test, and here their options are looked up.
    "docs/sanitizers.md": [(r"^scripts/sanitize fuzz .*$", ""), (r"^(\$campaign|test/fuzz/saves/campaign.py) .*$", "")],
    "docs/testing.md": [(r"(--changed)(?: --base main)?(?: --list)?", r"\1 --list")],
}
NAMES = ("docs/add-a-command.md", "docs/add-an-onnx-op.md", "docs/add-an-op.md", "docs/add-a-pass.md", "docs/add-a-target.md")
#: What stands for any name on them.
ANY = {"FooBar", "FooBarPass"}
SOURCES = ("cmake", "dialects", "include", "lib", "runtime", "scripts", "test", "tools")

# Programs in front of those of the machine.
# ninja -C FOLDER --quiet TARGET...: looks targets up; -n would end with what makes its own file again.
NINJA = 'folder=$2 && shift 3 && [ $# != 0 ] || set -- all\nexec {ninja} -C "$folder" -t query "$@"\n'
# The folder of a preset that there is: --preset NAME -B FOLDER.
CMAKE = "cd {source} && cmake=$(PATH=${{PATH#*:}} command -v cmake) && \"$cmake\" --list-presets | grep -qF \"\\\"$2\\\"\" && ln -s {build} \"$4\"\n"
# Installs nothing; the real one knows the name.
INSTALL = "sed -n 3p {source}/scripts/install-deps | grep -qw \"$1\"\n"


def write_program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\nset -eu\n{text}")
    path.chmod(0o755)


def make_tree(source, build, tree):
    """Links to what the source has; scripts ask for nothing and build nothing."""
    tree.mkdir()
    for path in source.iterdir():
        if path.name != "scripts" and not path.name.startswith("build"):
            (tree / path.name).symlink_to(path)
    (tree / "build").symlink_to(build)
    (tree / "scripts").mkdir()
    for path in (source / "scripts").iterdir():
        (tree / "scripts" / path.name).symlink_to(path)
    (tree / "scripts/install-deps").unlink()
    places = {"source": source, "build": build, "ninja": shutil.which("ninja")}
    write_program(tree / "scripts/install-deps", INSTALL.format(**places))
    write_program(tree / "shadow/ninja", NINJA.format(**places))
    write_program(tree / "shadow/cmake", CMAKE.format(**places))


def run_commands(source, tree, page):
    text = (source / page).read_text()
    commands = "\n".join(textwrap.dedent(block) for block in re.findall(r"^ *```sh\n(.*?)^ *```", text, re.M | re.S))
    for expression, instead in COMMANDS[page]:
        changed = re.sub(expression, instead, commands, flags=re.M)
        if changed == commands:
            sys.exit(f"{page}: no command has '{expression}' any more")
        commands = changed
    path = os.pathsep.join([str(tree / "shadow"), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "LIT_OPTS": "--show-tests"}
    done = subprocess.run(["sh", "-euxc", commands], cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{page}: its commands end with {done.returncode}:\n{done.stdout[-4000:]}")
    return sum(line != "" and not line.startswith("#") for line in commands.splitlines())


def check_campaigns(source):
    """Kinds and options of the campaigns on docs/sanitizers.md are those that they have."""
    page = (source / "docs/sanitizers.md").read_text()
    scripts = {"$campaign": "test/fuzz/files/campaign.py", "test/fuzz/saves/campaign.py": "test/fuzz/saves/campaign.py"}
    for name, script in scripts.items():
        known = subprocess.run([sys.executable, source / script, "--help"], capture_output=True, text=True, check=True).stdout
        kinds = re.search(r"\{([\w,]+)\}", known)[1].split(",")
        lines = re.findall(rf"^{re.escape(name)} (\w+)(.*)$", page, re.M)
        odd = [f"{kind}{rest}" for kind, rest in lines if kind not in kinds or not set(re.findall(r"--\w+", rest.split("#")[0])) <= set(re.findall(r"--\w+", known))]
        if odd or set(kinds) != {kind for kind, _ in lines}:
            sys.exit(f"docs/sanitizers.md: of {script} there are {kinds}; {odd} is not what it takes")


def check_sanitizers(source, tree):
    """Builds and fuzz targets that the page names are those that there are."""
    page, script = (source / "docs/sanitizers.md").read_text(), (source / "scripts/sanitize").read_text()
    named = set(re.findall(r"\bbuild-[\w-]+", page))
    # That of fuzz is compiler's, whose command has run.
    made = {path.name for path in tree.glob("build-*")}
    if named != made:
        sys.exit(f"docs/sanitizers.md names the builds {sorted(named)}, and its commands make {sorted(made)}")
    table = {*re.findall(r"^\| `([\w-]+)` \|", page.split("## Fuzz targets")[1].split("\n## ")[0], re.M)}
    targets = {*re.findall(r"^ *trainc_fuzz_target\(fuzz-([\w-]+)", (source / "test/fuzz/CMakeLists.txt").read_text(), re.M)}
    default = {*re.search(r"\|\| set -- (.*)", script)[1].split()}
    corpus = {path.name for path in (source / "test/fuzz/corpus").iterdir()}
    if not table == targets == default == corpus:
        sys.exit(f"fuzz targets: in docs/sanitizers.md {sorted(table)}, CMake {sorted(targets)}, scripts/sanitize {sorted(default)}, corpus {sorted(corpus)}")


def check_code(source, texts):
    """Blocks of code are in the tree, but for spaces."""
    squeezed = re.sub(r"\s+", " ", texts)
    count = 0
    for page in NAMES:
        for code in re.findall(r"^ *```(?:tablegen|cpp|cmake)\n(.*?)^ *```", (source / page).read_text(), re.M | re.S):
            count += 1
            if re.sub(r"\s+", " ", code).strip() not in squeezed:
                sys.exit(f"{page}: the tree has no\n{code}")
    return count


def check_names(source, texts):
    """Functions, classes, options and files in `code` occur in the sources; of placeholders nothing is asked."""
    known = set(re.findall(r"\w+", texts)) | {path.stem for folder in SOURCES for path in (source / folder).rglob("*")}
    lost = []
    for page in NAMES:
        text = re.sub(r"^ *```.*?^ *```", "", (source / page).read_text(), flags=re.M | re.S)
        for code in re.findall(r"`([^`]+)`", text):
            # Of `trainc_target_<name>` the word is not whole.
            words = re.findall(r"(?<![\w<])[A-Za-z_]\w{2,}(?![\w<])", code)
            lost += [f"{page}: `{code}`: {word} is nowhere" for word in words if word not in known | ANY and not word.isupper()]
    if lost:
        sys.exit("\n".join(lost))


def main():
    source, build, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    files = [path for top in SOURCES for path in (source / top).rglob("*") if path.is_file() and not {"models", "corpus", "__pycache__"} & set(path.parts)]
    texts = "\n".join(path.read_text(errors="replace") for path in files)
    check_names(source, texts)
    pieces = check_code(source, texts)
    tree = folder / "tree"
    make_tree(source, build, tree)
    count = sum(run_commands(source, tree, page) for page in COMMANDS)
    check_sanitizers(source, tree)
    check_campaigns(source)
    print(f"{count} commands have run, {pieces} pieces of code are the tree's")


if __name__ == "__main__":
    main()
