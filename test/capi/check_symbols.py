# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares what libtrainrt.so exports with runtime/trainrt.map and the headers; checks size and needs."""
import os
import re
import subprocess
import sys

library, runtime = sys.argv[1:3]
failures = []

nm = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
exported = {line.split()[2].split("@")[0] for line in nm.stdout.splitlines() if line.split()[1] != "A"}
with open(os.path.join(runtime, "trainrt.map")) as f:
    listed = set(re.findall(r"^\s+(trainrt_\w+);", f.read(), re.M))
declared = set()
for header in ("trainrt.h", "checkpoint.h", "data.h", "export.h", "plugin.h", "ranks.h", "signed_package.h", "speed.h", "views.h"):
    with open(os.path.join(runtime, "include", "trainrt", header)) as f:
        declared |= set(re.findall(r"^TRAINRT_API[^;]*?\b(trainrt_\w+)\(", f.read(), re.M))

for name, a, b in (("exported but not listed", exported, listed), ("listed but not exported", listed, exported),
                   ("declared but not listed", declared, listed), ("listed but not declared", listed, declared)):
    if a - b:
        failures.append(f"{name}: {', '.join(sorted(a - b))}")

size = os.path.getsize(library)
if size > 5 << 20 and "__asan_init" not in subprocess.run(["nm", "-D", library], capture_output=True, text=True).stdout:
    failures.append(f"{size} bytes, at most 5 MiB are allowed")

needed = set(re.findall(r"NEEDED.*\[(.*?)\]", subprocess.run(["readelf", "-d", library], check=True,
                                                             capture_output=True, text=True).stdout))
allowed = re.compile(r"^(libc|libm|libdl|libpthread|libstdc\+\+|libgcc_s|libz|ld-linux-x86-64)\.so")
failures += [f"needs {name}" for name in sorted(needed) if not allowed.match(name)]

for failure in failures:
    print("error:", failure)
print(f"{len(exported)} symbols, {size} bytes, needs {', '.join(sorted(needed))}")
sys.exit(bool(failures))
