# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packages of cpack: packages.py --build BUILD --source SOURCE SCRATCH

Runs the commands of docs/sdk.md (those that make packages leave the compressing and the looking up of the compiler's
own dependencies out, which cost more than all the rest), then checks what the packages hold, what they say that they
need, and that programs trained alike whether CMake or pkg-config found the library, in an archive or in a root of
Debian's packages.
"""

import os
import re
import subprocess
import sys

from embed import call, places

# Of what an installation has, by package.
HOLDS = {
    "libtrainrt1": r"lib/libtrainrt\.so\.1(\.\d+)?|lib/libtrainrt-cudnn\.so",
    "libtrainrt-dev": r"include/trainrt/\w+\.hp{0,2}|lib/cmake/trainrt/\w+(-\w+)?\.cmake|lib/pkgconfig/trainrt\.pc|lib/libtrainrt\.so",
    "libtrainrt-gloo": r"lib/libtrainrt-gloo\.so",
    "trainc-run": r"bin/trainc-run",
    "trainc": r"bin/trainc",
    "trainc-dev": r"include/trainc/(dialects|trainc)/[\w/]+\.(h|td|h\.inc)|lib/(x86_64-linux-gnu/)?cmake/trainc/traincConfig(Version)?\.cmake",
}
NEEDS = {
    "libtrainrt1": ["libc6", "libstdc++6", "zlib1g"],
    "libtrainrt-dev": ["libtrainrt1 (= "],
    "libtrainrt-gloo": ["libtrainrt1 (= ", "libgloo0"],
    "trainc-run": ["libtrainrt1 (= ", "libc6"],
    "trainc": ["lld-22"],
    "trainc-dev": ["trainc (= ", "libmlir-22-dev", "mlir-22-tools"],
}
QUICK = "-D CPACK_DEBIAN_COMPRESSION_TYPE=none -D CPACK_DEBIAN_TRAINC_PACKAGE_SHLIBDEPS=OFF -D CPACK_TRAINC_RUNTIME_ONLY=ON"


def commands(page, heading):
    """The commands of a section of a page."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    return "".join(re.findall(r"```sh\n(.*?)```", section, re.S))


def shell(text, folder, **environment):
    return call("sh", "-euc", text, cwd=folder, env=os.environ | environment)


def check_debian(packages):
    found = {}
    for package in packages:
        name, version, needs = (call("dpkg-deb", "-f", package, field).strip() for field in ("Package", "Version", "Depends"))
        found[name] = package
        for need in NEEDS[name]:
            if need not in needs:
                sys.exit(f"{name} depends on '{needs}', which lacks {need}")
        listed = [line.split()[5] for line in call("dpkg-deb", "-c", package).splitlines() if not line.startswith("d")]
        odd = [file for file in listed if not re.fullmatch(rf"\./usr/({HOLDS[name]})", file)]
        if odd or not listed:
            sys.exit(f"{name} {version} has {odd or 'no files'}")
    if missing := set(HOLDS) - set(found) - {"libtrainrt-gloo"}:
        sys.exit(f"there is no package {missing}")
    shlibs = call("dpkg-deb", "-I", found["libtrainrt1"], "shlibs").split()
    if shlibs[:3] != ["libtrainrt", "1", "libtrainrt1"]:
        sys.exit(f"libtrainrt1's shlibs say {shlibs}")


def check_messages(tree, headers):
    """What goes wrong is said in the programs that CMake and pkg-config built, and with a compiler's older C++."""
    for program in ("out/embed/embed-c", "out/embed/embed-cpp", "out-pkgconfig/embed-c"):
        done = subprocess.run([tree / program, "none.tpk", "none", "1"], cwd=tree, capture_output=True, text=True, check=False)
        if done.returncode != 1 or "cannot open 'none.tpk': No such file or directory" not in done.stderr:
            sys.exit(f"{program} without a package: {done}")
    command = ["c++", "-std=c++14", "-fsyntax-only", "-x", "c++", headers / "trainrt/trainrt.hpp"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0 or "trainrt.hpp needs C++17 (-std=c++17); trainrt.h is for C and for older C++" not in done.stderr:
        sys.exit(f"C++14 takes trainrt.hpp: {done}")


def main():
    scratch, build, source = places("source")
    page = (source / "docs/sdk.md").read_text()
    # The tree that commands are run in, without its being written to.
    tree = scratch / "tree"
    tree.mkdir()
    (tree / "build").symlink_to(build)
    (tree / "examples").symlink_to(source / "examples")

    making = commands(page, "Making packages")
    if making.count("cpack ") != 1:
        sys.exit(f"docs/sdk.md makes packages by\n{making}")
    shell(making.replace("cpack ", f"cpack {QUICK} "), tree)
    check_debian(list((tree / "dist").glob("*.deb")))

    # Outside of the tree: in the archive, moved after it was unpacked, and in a root of Debian's packages.
    said = shell(commands(page, "A program against an archive"), tree, PATH=f"{build / 'bin'}:{os.environ['PATH']}")
    said += shell(commands(page, "A program against Debian's packages"), tree, PATH=f"{build / 'bin'}:{os.environ['PATH']}")
    ends = re.findall(r"held out: .*", said)
    if len(ends) != 3 or len(set(ends)) != 1:
        sys.exit(f"the three programs say\n{said}")
    right, points = map(int, re.search(r"(\d+) of (\d+) right", ends[0]).groups())
    if right < 0.9 * points:
        sys.exit(f"they have not learned: {ends[0]}")
    needed = call("readelf", "-d", tree / "out-pkgconfig" / "embed-c")
    if not re.search(r"NEEDED.*\[libtrainrt\.so\.1\]", needed):
        sys.exit(f"what pkg-config linked needs\n{needed}")
    check_messages(tree, next(tree.glob("opt/*/include")))
    print(ends[0])


if __name__ == "__main__":
    main()
