# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports of one model have one identity, whatever nodes they have that do nothing: `identity.py TRAINC MODEL.onnx DIR`"""

import json
import pathlib
import subprocess
import sys
import zipfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

trainc, source, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])


def identity(name, change):
    model = onnx.load(source)
    change(model.graph)
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    subprocess.check_call([trainc, path, "--target", "cpu:x86-64-v3", "-o", path.with_suffix(".tpk")], stderr=subprocess.DEVNULL)
    with zipfile.ZipFile(path.with_suffix(".tpk")) as package:
        return json.loads(package.read("manifest.json"))["identity"]


def behind_each(graph, make):
    """A node of `make(name, input, output)` behind every result that another node reads."""
    for node in list(graph.node):
        for number, result in enumerate(node.output):
            readers = [n for n in graph.node if result in n.input]
            if readers and number == 0:
                for reader in readers:
                    reader.input[:] = [f"{result}.again" if name == result else name for name in reader.input]
                graph.node.insert(list(graph.node).index(node) + 1, make(f"{node.name}.again", result, f"{result}.again"))


def identities(graph):
    behind_each(graph, lambda name, x, y: helper.make_node("Identity", [x], [y], name))


def dropout(rate):
    def change(graph):
        graph.initializer.append(numpy_helper.from_array(np.float32(rate), "rate"))
        graph.initializer.append(numpy_helper.from_array(np.bool_(True), "training"))
        behind_each(graph, lambda name, x, y: helper.make_node("Dropout", [x, "rate", "training"], [y], name))

    return change


def renamed(graph):
    for node in graph.node:
        node.name = f"other_{node.name}"


plain = identity("plain", lambda graph: None)
for name, change in (("identities", identities), ("dropout", dropout(0)), ("renamed", renamed)):
    assert identity(name, change) == plain, name
assert identity("dropped", dropout(0.5)) != plain
print("one identity")
