#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts, by space, the buffers that launches of the function `step` both read and write.

`in_place.py FILE [PATTERN]`: of kernels whose names match.
"""

import collections
import re
import sys

text = open(sys.argv[1]).read()
pattern = sys.argv[2] if len(sys.argv) > 2 else ""
step = text[text.index("plan.function @step") :].split("\n  plan.function")[0]
spaces = dict(re.findall(r"(%\w+) = plan\.buffer +(\w+)", step))
found = collections.Counter()
for kernel, buffers, inputs in re.findall(r'plan\.launch "(\w+)"\(([^)]*)\) inputs (\d+)', step):
    if not re.search(pattern, kernel):
        continue
    names = buffers.split(", ")
    for name in set(names[: int(inputs)]) & set(names[int(inputs) :]):
        found[spaces[name]] += 1
for space in sorted(found):
    print(space, found[space])
