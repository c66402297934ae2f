# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ptxas_resources.py PTXAS PACKAGE|FILE.ptx: no kernel of the package, or of the file, may spill
registers or use a stack, nor wait for each matmul of a warpgroup.

Prints how many kernels there are and the most registers of one; exit code 1 where one spills.
"""

import re
import subprocess
import sys
import tempfile
import zipfile

ptxas, source = sys.argv[1:]


def assemble(file, *options, architecture="sm_90"):
    command = [ptxas, "-v", f"-arch={architecture}", *options, "-o", "/dev/null", file]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True)


if source.endswith(".ptx"):
    with open(source) as text:
        own = re.search(r"^\.target (sm_90a)$", text.read(), re.M)
    done = assemble(source, architecture=own[1] if own else "sm_90")
else:
    with zipfile.ZipFile(source) as archive, tempfile.NamedTemporaryFile(suffix=".ptx") as file:
        file.write(archive.read("kernels/cuda.ptx"))
        file.flush()
        done = assemble(file.name, "--fmad=false")
if done.returncode:
    sys.exit(done.stderr)
if "wgmma.mma_async instructions are serialized" in done.stderr:
    sys.exit(done.stderr)
kernels, bad, most = 0, 0, 0
for part in done.stderr.split("Compiling entry function '")[1:]:
    name = part.split("'")[0]
    used = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
    registers = re.search(r"Used (\d+) registers", part)
    if not used or not registers:
        sys.exit(f"{name}: ptxas says nothing of its registers")
    kernels, most = kernels + 1, max(most, int(registers[1]))
    if any(int(value) for value in used.groups()):
        bad += 1
        print(f"{name}: {used[0]}")
print(f"{kernels} kernels, at most {most} registers, {bad} with a stack")
sys.exit(1 if bad or not kernels else 0)
