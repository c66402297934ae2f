# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which layer of the model a node is of.

Names of nodes that are paths (`/encoder/layer.0/Add`) say so. Else the parameters do: what reads `encoder.layer.0.query.weight` is of
`encoder.layer.0.query`, and a node without parameters is of what the nodes before and behind it have in common.
"""

import re


def of_parameter(name):
    """("encoder", "layer.0", "query") of encoder.layer.0.query.weight: a number belongs to the name before it."""
    parts = []
    for part in re.split(r"[./]", name.strip("./"))[:-1]:
        if part.isdigit() and parts and not parts[-1].rpartition(".")[2].isdigit():
            parts[-1] += f".{part}"
        else:
            parts.append(part)
    return tuple(parts)


def common(paths):
    """The longest beginning that all have."""
    shared = 0
    for parts in zip(*paths):
        if len(set(parts)) > 1:
            break
        shared += 1
    return tuple(paths[0][:shared])


def between(before, behind):
    """Of what lies between two: what they share; where they part at two numbers of one list (layer.3, layer.4), the former."""
    if before is None or behind is None:
        return before or behind or ()
    shared = common([before, behind])
    if len(shared) < min(len(before), len(behind)):
        one, other = before[len(shared)].rpartition("."), behind[len(shared)].rpartition(".")
        if one[0] == other[0] and one[2].isdigit() and other[2].isdigit():
            return (*shared, before[len(shared)])
    return shared


def assign(nodes):
    """[(name, [parameter])] in the model's order to a path for each."""
    paths = [of_parameter(name) if "/" in name.strip("/") else common([of_parameter(p) for p in parameters]) if parameters else None for name, parameters in nodes]
    behind, following = None, [None] * len(nodes)
    for i in range(len(nodes) - 1, -1, -1):
        following[i] = behind = paths[i] if paths[i] is not None else behind
    before = None
    for i, path in enumerate(paths):
        if path is not None:
            before = path
        else:
            paths[i] = between(before, following[i])
    return paths
