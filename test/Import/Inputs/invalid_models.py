#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Broken models and the message that each has to give: invalid_models.py MAKE_ONNX FOLDER TRANSLATE"""

import os
import random
import re
import subprocess
import sys

from make_onnx import field, varint

HEAD = "input x f32[4]\noutput y f32[4]\n"
NODE = "node Relu(x) -> y\n"
FUNCTION = "function my {}(a) -> b\n  node {}(a) -> b\n"

# Text of the model -> what the message says.
MODELS = {
    HEAD: "the graph is empty: it has no nodes",
    "input x f32[4]\n" + NODE: "the graph has no outputs",
    "opset 28\n" + HEAD + NODE: "opset 28 is not supported, 1 to 27 are",
    "opset 99\n" + HEAD + NODE: "opset 99 is not supported",
    "opset other 1\n" + HEAD + NODE: r"node 'Relu#0' \(Relu, opset 1\): the model imports no opset of the default",
    "ir 99\n" + HEAD + NODE: "IR version 99 is newer than 13",
    HEAD + "node Relu(nowhere) -> y name=r\n": r"node 'r' \(Relu, opset 18\): its input 'nowhere' is defined nowhere",
    HEAD + NODE + 'node Gradient(x) -> z xs=["x"] y="nowhere" name=g\n'.replace("Gradient", "ai.onnx.preview.training::Gradient"):
        r"node 'g' .*: it names a tensor 'nowhere', which is defined nowhere",
    "graph g\n  input a bool[]\n  input a bool[]\n  output a bool[]\n" + HEAD + NODE + "node If(x) -> z then_branch=graph:g name=i\n":
        "the value 'a' is defined twice, by a subgraph's input and by a subgraph's input",
    "graph g\n  init a f32[1] = 1.0\n  init a f32[1] = 1.0\n  output a f32[1]\n" + HEAD + NODE + "node If(x) -> z then_branch=graph:g name=i\n":
        "the value 'a' is defined twice, by a subgraph's initializer and by a subgraph's initializer",
    "graph g\n  init a str[1] bytes 4\n  output a f32[1]\n" + HEAD + NODE + "node If(x) -> z then_branch=graph:g name=i\n":
        "node 'i' .*: its subgraph's initializer 'a': it is not a named numeric tensor",
    "graph g\n  output a f32[1]\n" + HEAD + NODE + "node If(x) -> z then_branch=graph:g name=i\n":
        "node 'i' .*: its subgraph's output 'a' is defined nowhere",
    "graph g\n  init a f32[4] external small.bin 0 16\n  output a f32[4]\n" + HEAD + NODE + "node If(x) -> z then_branch=graph:g name=i\n":
        "node 'i' .*: a tensor inside a node cannot be external data",
    "function my F(a) -> b\n  node Relu(a) -> c\nopset 18\nopset my 1\n" + HEAD + "node my::F(x) -> y name=f\n":
        r"node 'f' .*: the model's function 'F' does not define its output 'b'",
    HEAD + "node Relu(x) -> z\n": "the output 'y' is defined nowhere",
    HEAD + NODE + "node Neg(x) -> y name=n\n": "the value 'y' is defined twice, by node 'Relu#0' and by node 'n'",
    HEAD + "input x f32[4]\n" + NODE: "the value 'x' is defined twice",
    HEAD + "init w f32[1] = 1.0\ninit w f32[1] = 2.0\n" + NODE: "the value 'w' is defined twice",
    HEAD + "input w f32[2]\ninit w f32[1] = 1.0\n" + NODE: "the input 'w' is an initializer too, of another type or shape",
    HEAD + "input w i64[1]\ninit w f32[1] = 1.0\n" + NODE: "the input 'w' is an initializer too, of another type or shape",
    HEAD + "output y f32[4]\n" + NODE: "has the output 'y' twice",
    HEAD + "node (x) -> y\n": "it has no operator type",
    HEAD + "node Elu(x) -> y alpha=@a\n": "it is in no function",
    HEAD + "node Elu(x) -> y alpha=1.0 alpha=2.0\n": "it has the attribute 'alpha' twice",
    HEAD + "sparse s\n" + NODE: "sparse initializers are not supported",
    HEAD + "init w f32[4] bytes 7\n" + NODE: "initializer 'w': raw_data holds 7 bytes, its shape needs 16",
    HEAD + "init w f32[4] typed = 1.0 2.0\n" + NODE: "its data field holds 8 bytes, its shape needs 16",
    HEAD + "init w f32[-1] bytes 4\n" + NODE: "negative dimension",
    HEAD + "init w f32[4000000000,4000000000,4000000000] bytes 4\n" + NODE: "its shape has more elements than memory can hold",
    HEAD + "init w str[1] bytes 4\n" + NODE: "its element type .* is not supported",
    HEAD + "init w f32[4] external /etc/passwd 0 16\n" + NODE: "the external data location '/etc/passwd' is absolute; it has to be relative to the model's folder",
    HEAD + "init w f32[4] external ../w.bin 0 16\n" + NODE: "leaves the model's folder; put the file beside the model and export it again",
    HEAD + "init w f32[4] external a/../../w.bin 0 16\n" + NODE: "leaves the model's folder",
    HEAD + "init w f32[4] external link.bin 0 16\n" + NODE: "symbolic link that leaves the model's folder; copy the file there",
    HEAD + "init w f32[4] external folder/w.bin 0 16\n" + NODE: "symbolic link that leaves the model's folder",
    HEAD + "init w f32[4] external small.bin 8 16\n" + NODE: "bytes 8 to 24 of 'small.bin' are outside of the file, which has 20",
    HEAD + "init w f32[4] external small.bin 0 8\n" + NODE: "its external data has 8 bytes, its shape needs 16",
    HEAD + "init w f32[4] external small.bin minus 16\n" + NODE: "the offset 'minus' of its external data is not a number",
    HEAD + "init w f32[4] external . 0 16\n" + NODE: "the external data location '.' is not a regular file",
    "opset 18\nopset 17\n" + HEAD + NODE: "imports the opset of 'ai.onnx' in two versions, 18 and 17",
    "opset 0\n" + HEAD + NODE: "opset 0 is not supported",
    "opset -3\n" + HEAD + NODE: "opset -3 is not supported",
    "opset my 1\nopset 18\n" + FUNCTION.format("F", "Relu") * 2 + HEAD + NODE: "the model defines the function 'F' twice",
    "opset my 1\nopset 18\n" + FUNCTION.format("F0", "Relu")
    + "".join(FUNCTION.format(f"F{i + 1}", f"my::F{i}") for i in range(100))
    + HEAD + "node my::F100(x) -> y name=deep\n": r"node 'deep/.*its subgraphs and functions are nested more than 64 deep",
}


def attribute(number, value=b""):
    """A node's attribute of that type."""
    return field(5, field(1, "a") + field(20, number) + value)


def graph(rest, relu=b""):
    return field(7, field(1, field(1, "x") + field(2, "y") + field(4, "Relu") + relu) + field(12, field(1, "y")) + rest)


#: Fields of a model that texts cannot write -> what the message says.
FIELDS = (
    (graph(field(11, field(1, "x")), attribute(4)), "node 'Relu#0' .*: its attribute 'a': it is declared a tensor but holds none"),
    (graph(field(11, field(1, "x")), attribute(5)), "attribute 'a': it is declared a graph but holds none"),
    (graph(field(11, field(1, "x")), attribute(11)), "attribute 'a': sparse tensors are not supported"),
    (graph(field(11, field(1, "x")), attribute(0)), "attribute 'a': it has no known kind of value"),
    (graph(field(14, field(1, "x"))), "quantization annotations are not supported; export the model unquantized"),
    (graph(field(5, field(1, 1) + field(2, 1) + field(9, bytes(4)))), "an initializer has no name"),
    (graph(field(11, field(2, b""))), "an input has no name"),
    (b"\x08\x80", "this is not an ONNX model: it ends inside a number at byte 2"),
    (b"\x00\x01", "this is not an ONNX model: byte 0 starts no protobuf field"),
    (b"\x08\x08\x0b", "this is not an ONNX model: byte 2 starts no protobuf field"),
)


def main():
    make, folder, translate = sys.argv[1:]
    os.makedirs(folder + "/outside", exist_ok=True)
    for name in ("small.bin", "outside/secret.bin"):
        with open(f"{folder}/{name}", "wb") as file:
            file.write(bytes(20))
    os.makedirs(folder + "/in", exist_ok=True)
    for link, target in (("link.bin", "../outside/secret.bin"), ("folder", "../outside")):
        if not os.path.islink(f"{folder}/in/{link}"):
            os.symlink(target, f"{folder}/in/{link}")
    os.replace(f"{folder}/small.bin", f"{folder}/in/small.bin")
    path = f"{folder}/in/m.onnx"
    problems = []

    def check(title, pattern):
        done = subprocess.run([translate, "--import-onnx", path, "-o", os.devnull], capture_output=True, check=False)
        text = done.stderr.decode(errors="replace")
        if done.returncode != 1 or "error:" not in text or not re.search(pattern, text):
            problems.append(f"{title}: exit code {done.returncode}, expected /{pattern}/, got:\n{text}")

    def write(data):
        with open(path, "wb") as file:
            file.write(data)

    for text, pattern in MODELS.items():
        with open(f"{folder}/in/m.txt", "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run([sys.executable, make, f"{folder}/in/m.txt", path], check=True)
        check(text, pattern)

    write(b"")
    check("empty file", "the file is empty")
    write(b"version https://git-lfs.github.com/spec/v1\n")
    check("LFS pointer", "git lfs pull")
    write(b"PK\x03\x04zip")
    check("zip", "this is a zip archive")
    write(b"just some text, not a model\n")
    check("text", "this is not an ONNX model")
    write(b"\x08\x08")
    check("no graph", "it has no graph")
    for data, pattern in FIELDS:
        write(field(1, 8) * data.startswith(b":") + data + field(8, field(1, "") + field(2, 18)) * data.startswith(b":"))
        check(data, pattern)

    # Truncated and damaged at every place: an error or a module, never a crash.
    with open(f"{folder}/in/m.txt", "w", encoding="utf-8") as file:
        file.write(HEAD + "init w f32[400] = 1.0\n" + NODE + "node Add(x, w) -> z axis=1 value=i64[2]:1,2\n")
    subprocess.run([sys.executable, make, f"{folder}/in/m.txt", path], check=True)
    with open(path, "rb") as file:
        good = file.read()
    write(good[: len(good) // 2])
    check("truncated", "it is truncated: the field at byte")
    random.seed(7)
    for i in range(60):
        if i % 2:
            damaged = good[: random.randrange(1, len(good))]
        else:
            damaged = bytearray(good)
            for _ in range(random.randrange(1, 6)):
                damaged[random.randrange(len(good))] = random.randrange(256)
        write(bytes(damaged))
        done = subprocess.run([translate, "--import-onnx", path, "-o", os.devnull], capture_output=True, check=False)
        if done.returncode not in (0, 1):
            problems.append(f"damaged model {i}: exit code {done.returncode}\n{done.stderr.decode(errors='replace')}")
    # Attributes that nest graphs deeper than any model.
    nested = b""
    for _ in range(200):
        graph = b"\x0a" + varint(len(nested)) + nested if nested else b""
        attribute = b"\x32" + varint(len(graph)) + graph
        nested = b"\x2a" + varint(len(attribute)) + attribute
    graph = b"\x0a" + varint(len(nested)) + nested
    write(b"\x3a" + varint(len(graph)) + graph)
    check("nested", "nested too deeply")

    # Each of 60 functions calls the one before twice: 2^60 nodes if nobody stopped.
    text = "opset my 1\nopset 18\n" + FUNCTION.format("F0", "Relu")
    for i in range(60):
        text += f"function my F{i + 1}(a) -> c\n  node my::F{i}(a) -> b\n  node my::F{i}(b) -> c\n"
    with open(f"{folder}/in/m.txt", "w", encoding="utf-8") as file:
        file.write(text + HEAD + "node my::F60(x) -> y\n")
    subprocess.run([sys.executable, make, f"{folder}/in/m.txt", path], check=True)
    check("functions that multiply", r"the model's function 'F60' is \d+ nodes when .* at most 107808 are made")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
