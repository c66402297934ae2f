# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every struct of the bindings has the fields, sizes and offsets that the C compiler gives it: `library.py CC INCLUDE OUT`."""

import ctypes
import re
import subprocess
import sys

from trainrt import _library as capi

compiler, include, out = sys.argv[1:]
structs = {
    "trainrt_" + re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): kind
    for name, kind in vars(capi).items()
    if isinstance(kind, type) and issubclass(kind, ctypes.Structure) and kind is not ctypes.Structure and not name.startswith("DL")
}
assert len(structs) > 12, structs
lines = []
for name, kind in structs.items():
    lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
    lines += [
        f'printf("{name}.{f} %zu %zu\\n", offsetof({name}, {f}), sizeof((({name} *)0)->{f}));' for f, *_ in kind._fields_
    ]
source = f"#include <stddef.h>\n#include <stdio.h>\n#include <trainrt/export.h>\n#include <trainrt/ranks.h>\nint main(void) {{ {' '.join(lines)} return 0; }}\n"
subprocess.run([compiler, "-x", "c", "-", "-I", include, "-o", out], input=source, text=True, check=True)
expected = subprocess.run([out], capture_output=True, text=True, check=True).stdout.splitlines()
found = []
for name, kind in structs.items():
    found.append(f"{name} {ctypes.sizeof(kind)}")
    found += [f"{name}.{f} {getattr(kind, f).offset} {getattr(kind, f).size}" for f, *_ in kind._fields_]
wrong = [f"{a} in the header, {b} in the bindings" for a, b in zip(expected, found) if a != b]
sys.exit("\n".join(wrong) or 0)
