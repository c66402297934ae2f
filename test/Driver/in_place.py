#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts, by space, the buffers that launches of the function `step` both read and write."""

import collections
import re
import sys

text = open(sys.argv[1]).read()
step = text[text.index("plan.function @step") :].split("\n  plan.function")[0]
spaces = dict(re.findall(r"(%\w+) = plan\.buffer +(\w+)", step))
found = collections.Counter()
for buffers, inputs in re.findall(r'plan\.launch "\w+"\(([^)]*)\) inputs (\d+)', step):
    names = buffers.split(", ")
    for name in set(names[: int(inputs)]) & set(names[int(inputs) :]):
        found[spaces[name]] += 1
for space in sorted(found):
    print(space, found[space])
