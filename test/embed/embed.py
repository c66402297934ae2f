#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An application embeds the installed runtime: embed.py --build BUILD --example DIR SCRATCH

Installs the component `trainrt`, checks what is in it, builds the C and the C++ program of the
example with find_package(trainrt), and runs them: both train to the same numbers, an interrupted run
that is resumed ends with the same ones, and the model has learned.
"""

import argparse
import pathlib
import re
import signal
import subprocess
import sys

STEPS = 20000


def call(*command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def cached(build, name):
    """The value of a variable in CMakeCache.txt."""
    (value,) = re.findall(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    return value


def install(build, prefix):
    call("cmake", "--install", build, "--component", "trainrt", "--prefix", prefix)
    files = {str(f.relative_to(prefix)) for f in prefix.rglob("*") if not f.is_dir()}
    # No more than headers, libraries, the runner and what CMake and pkg-config read; libtrainrt-cudnn only where its headers are.
    allowed = r"include/trainrt/\w+\.(h|hpp)|bin/trainc-run|lib/cmake/trainrt/\w+(-\w+)?\.cmake|lib/pkgconfig/trainrt\.pc|lib/libtrainrt(-cudnn)?\.so[.\d]*"
    libdir = next(f for f in files if f.endswith("/libtrainrt.so")).rpartition("/")[0]
    odd = [f for f in files if not re.fullmatch(allowed, f.replace(libdir, "lib"))]
    if odd:
        sys.exit(f"the installation has {odd}")
    for program in (prefix / "bin" / "trainc-run", prefix / libdir / "libtrainrt.so"):
        needed = call("ldd", program)
        if re.search("LLVM|MLIR|protobuf|not found", needed):
            sys.exit(f"{program} needs {needed}")
    call(prefix / "bin" / "trainc-run", "--version")


def check_versions(scratch, flags):
    """find_package takes the versions that fit, and no others."""
    for version, fits in (("1.0", True), ("1.1", True), ("1.99", False), ("2.0", False)):
        folder = scratch / f"version-{version}"
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.20)\nproject(version LANGUAGES C CXX)\n"
            f"find_package(trainrt {version} CONFIG REQUIRED)\n"
        )
        command = ["cmake", "-S", str(folder), "-B", str(folder / "build"), *flags]
        if (subprocess.run(command, capture_output=True, check=False).returncode == 0) != fits:
            sys.exit(f"find_package(trainrt {version}) does {'not ' if fits else ''}work")


def interrupt(command):
    """Sends SIGINT to a run that has begun; returns its last lines."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        text = first + process.stdout.read()
    if process.returncode != 0 or "interrupted and saved after step" not in text:
        sys.exit(f"{command}: exit code {process.returncode}\n{text}")
    return text


def places(given):
    """(scratch, build, the folder of the option `given`) of the command line: whole paths."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument(f"--{given}", type=pathlib.Path, required=True, dest="given")
    parser.add_argument("scratch", type=pathlib.Path)
    arguments = parser.parse_args()
    return tuple(path.resolve() for path in (arguments.scratch, arguments.build, arguments.given))


def main():
    scratch, build, example = places("example")
    prefix = scratch / "prefix"
    install(build, prefix)
    flags = [f"-D{name}={cached(build, name)}" for name in ("CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER")]
    flags += [f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release", "-G", cached(build, "CMAKE_GENERATOR")]
    call("cmake", "-S", example, "-B", scratch / "build", *flags)
    call("cmake", "--build", scratch / "build")
    check_versions(scratch, flags)

    package = scratch / "moons.tpk"
    model = example / "moons.onnx"
    call(build / "bin" / "trainc", model, "-o", package, "--target", "cpu", "--optimizer", "adamw", "--lr", "3e-3")
    results = {}
    for program in ("embed-c", "embed-cpp"):
        command = [str(scratch / "build" / program), str(package)]
        whole = call(*command, scratch / f"{program}-whole", STEPS)
        interrupt([*command, str(scratch / f"{program}-cut"), str(STEPS)])
        resumed = call(*command, scratch / f"{program}-cut", STEPS)
        last = whole.splitlines()[-1]
        if "resumed after step" not in resumed or resumed.splitlines()[-1] != last:
            sys.exit(f"{program}: resumed, it ends with\n{resumed}\ninstead of\n{whole}")
        right, points = map(int, re.search(r"(\d+) of (\d+) right", last).groups())
        if right < 0.98 * points:
            sys.exit(f"{program}: it has not learned: {last}")
        results[program] = whole
    if results["embed-c"] != results["embed-cpp"]:
        sys.exit(f"C and C++ differ:\n{results}")
    print(results["embed-c"].splitlines()[-1])


if __name__ == "__main__":
    main()
