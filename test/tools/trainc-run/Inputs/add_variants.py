# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gives the functions `step` and `micro` of IR variants that are copies of them.

  add_variants.py CONDITIONS < IR > IR
"""

import re
import sys

text = re.sub(r" attributes \{train\.flops = [^}]*\}", "", sys.stdin.read())
for name in ("step", "micro"):
    body = re.search(rf"  func\.func @{name}\(.*?\n  \}}\n", text, re.S).group(0)
    head, rest = body.split(" {\n", 1)
    base = head + " attributes {train.flops = #train.dim<1000*rows + 10*labelled>} {\n" + rest
    variant = (
        head.replace(f"@{name}(", f"@{name}.packed(", 1)
        + f' attributes {{train.variant_of = "{name}", train.conditions = {sys.argv[1]}, '
        + "train.flops = #train.dim<400*rows + 10*labelled>} {\n"
        + rest
    )
    text = text.replace(body, base + variant)
sys.stdout.write(text)
