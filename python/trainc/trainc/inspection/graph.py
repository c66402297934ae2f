# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model's graph, read from the IR that trainc saves behind the import: 1-import.mlir."""

import dataclasses
import re

RESULT = re.compile(r'^\s*%(\w+)(?::\d+)? = onnx\.(node|initializer) "((?:[^"\\]|\\.)*)"(.*)$')
OPERANDS = re.compile(r"\(((?:%[\w#]+(?:, )?)*)\)")
INPUT = re.compile(r'%(arg\d+): (\S+) \{[^{}]*?onnx\.name = "((?:[^"\\]|\\.)*)"')
LOCATION = re.compile(r'loc\((?:(#loc\d*)|"((?:[^"\\]|\\.)*)".*)\)$')
ALIAS = re.compile(r'^(#loc\d*) = loc\("((?:[^"\\]|\\.)*)"')


@dataclasses.dataclass
class Node:
    name: str
    op: str
    reads: list  # indices of nodes
    parameters: list  # names of initializers
    inputs: list  # names of the model's inputs
    type: str


def unescape(text):
    """MLIR writes bytes that are not printable, and quotes, as \\XX."""
    return re.sub(rb"\\([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), text.encode()).decode(errors="replace")


def read(text):
    """The nodes of the graph in its order, those of subgraphs among them."""
    names, nodes, made, initializers = {}, [], {}, {}
    for line in text.splitlines():
        if alias := ALIAS.match(line):
            names[alias[1]] = unescape(alias[2])
    inputs = {value: unescape(name) for value, _, name in INPUT.findall(text)}
    for line in text.splitlines():
        found = RESULT.match(line)
        if not found:
            continue
        value, kind, name, rest = found.groups()
        if kind == "initializer":
            initializers[value] = unescape(name)
            continue
        operands = [part.strip("% ").partition("#")[0] for part in (OPERANDS.search(rest) or [None, ""])[1].split(",") if part.strip()]
        place = LOCATION.search(rest)
        made[value] = len(nodes)
        nodes.append(
            Node(
                names.get(place[1], "") if place and place[1] else unescape(place[2]) if place else "",
                unescape(name),
                [made[one] for one in operands if one in made],
                [initializers[one] for one in operands if one in initializers],
                [inputs[one] for one in operands if one in inputs],
                LOCATION.sub("", rest.rpartition("->")[2]).strip(),
            )
        )
    return nodes
