# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the Python of a page in a folder: `docs.py PAGE FOLDER [--torch]`; without --torch, what does not import it."""

import os
import pathlib
import re
import sys

page, folder = pathlib.Path(sys.argv[1]).read_text(), sys.argv[2]
snippets = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
wanted = [code for code in snippets if ("torch" in code.split("\n")[0]) == ("--torch" in sys.argv)]
assert wanted, "no snippets"
os.environ.setdefault("TRAINC_CACHE", os.path.join(folder, "cache"))
os.chdir(folder)
for code in wanted:
    exec(compile(code, "snippet", "exec"), {"__name__": "__main__"})
