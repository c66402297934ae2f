# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A package taken apart, and put together again as the runtime wants every byte of it (docs/design/package.md)."""

import functools
import json
import pathlib
import re
import struct
import subprocess
import zipfile
import zlib

SCHEMA = pathlib.Path(__file__).resolve().parents[3] / "runtime/schema/program.fbs"


@functools.lru_cache(64)
def fnv1a64(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return b"%016x" % value


def entries(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def program_to_json(data, folder):
    (folder / "program.fb").write_bytes(data)
    subprocess.run(["flatc", "--json", "--strict-json", "--raw-binary", "--defaults-json", "-o", folder, SCHEMA, "--", folder / "program.fb"], check=True)
    return json.loads((folder / "program.json").read_text())


def program_from_json(program, folder):
    """None if a value does not fit its field."""
    (folder / "program.json").write_text(json.dumps(program))
    done = subprocess.run(["flatc", "-b", "-o", folder / "made", SCHEMA, folder / "program.json"], capture_output=True, check=False)
    made = folder / "made/program.bin"
    if done.returncode or not made.exists():
        return None
    data = made.read_bytes()
    made.unlink()
    return data


def idle_kernels(names, folder):
    """A shared object of kernels that do nothing."""
    (folder / "idle.c").write_text("".join(f"void {name}(void) {{}}\n" for name in names))
    subprocess.run(["clang-22", "-w", "-shared", "-nostdlib", "-fPIC", "-o", folder / "idle.so", folder / "idle.c"], check=True)
    return (folder / "idle.so").read_bytes()


def seal(manifest, others):
    """The manifest, bytes of JSON, with right checksums, as far as it has places for them."""
    for name, data in others.items():
        place = re.compile(rb'("' + re.escape(name.encode()) + rb'":\s*")[0-9a-f]{16}"')
        manifest = place.sub(lambda m, d=data: m[1] + fnv1a64(d) + b'"', manifest, count=1)
    place = re.search(rb'"manifest":\s*"([0-9a-f]{16})"', manifest)
    if not place:
        return manifest
    blank = manifest[: place.start(1)] + b"0" * 16 + manifest[place.end(1) :]
    return manifest[: place.start(1)] + fnv1a64(blank) + manifest[place.end(1) :]


def write(path, contents):
    """A zip file as the runtime's writer makes it: stored, contents aligned to 64 bytes, no clock."""
    body, directory = bytearray(), bytearray()
    for name, data in contents.items():
        encoded, at, crc = name.encode("utf-8", "surrogateescape"), len(body), zlib.crc32(data)
        padding = -(at + 30 + len(encoded)) % 64
        padding += 64 if 0 < padding < 4 else 0
        extra = struct.pack("<HH", 0xD935, padding - 4) + bytes(padding - 4) if padding else b""
        body += struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0x0800, 0, 0, 0x21, crc, len(data), len(data), len(encoded), len(extra)) + encoded + extra + data
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0x0800, 0, 0, 0x21, crc, len(data), len(data), len(encoded), 0, 0, 0, 0, 0, at) + encoded
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, len(contents), len(contents), len(directory), len(body), 0)
    path.write_bytes(bytes(body + directory + end))
