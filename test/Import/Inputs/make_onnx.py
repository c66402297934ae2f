#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes an ONNX model from a few lines of text, with nothing but Python: make_onnx.py TEXT OUT.onnx

  ir 10                                   IR version (default 8)
  opset 20 | opset my.domain 1            opset imports (default: opset 18)
  name main_graph | meta KEY = TEXT       graph name; metadata ("\\n" is a new line)
  graph-meta KEY = TEXT | node ... meta:KEY=TEXT    metadata of the graph, of a node
  input x f32[batch,4]                    also output, value (value_info); "f32" alone: no shape
  init w f32[4,3] = 0.5                   raw data: one number for all, or all of them
  init w f32[4,3] typed = 0.5             in the typed field
  init w f32[4,3] external FILE [OFFSET [LENGTH]]
  init w f32[4,3] bytes 7                 raw data of that many zero bytes
  node Gemm(x, w, b) -> y, z  name=fc transB=1 perm=[0,1] alpha=0.5 mode="tanh" xs=["x","w"] value=i64[2]:1,2
  function my.domain Twice(a) -> b alpha  a local function with attributes; its nodes follow, indented; "meta:KEY=TEXT" as of a node
    node Elu(a) -> b alpha=@alpha           a reference to the function's attribute
  graph NAME                              a subgraph; its lines follow, indented; used by then_branch=graph:NAME
"""

import re
import struct
import sys

TYPES = {"f32": 1, "u8": 2, "i8": 3, "i16": 5, "i32": 6, "i64": 7, "str": 8, "bool": 9, "f16": 10,
         "f64": 11, "u64": 13, "bf16": 16}
PACK = {"f32": "f", "u8": "B", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "bool": "?", "f16": "e",
        "f64": "d"}
TYPED_FIELD = {"f32": 4, "i64": 7, "f64": 10}  # everything else is in int32_data (5)


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    """One field: an int as a varint, a float as 32 bits, text or bytes with a length."""
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def parse_type(text):
    """"f32[batch,4]" -> ("f32", ["batch", 4]); no brackets: no shape (None)."""
    kind, _, dims = text.partition("[")
    if not dims:
        return kind, None
    # A comma within parentheses is a name's own: "Max(1, seq)".
    dims = [d.strip() for d in re.split(r",(?![^()]*\))", dims.rstrip("]")) if d.strip()]
    return kind, [int(d) if re.fullmatch(r"-?\d+", d) else d for d in dims]


def value_info(name, text):
    kind, dims = parse_type(text)
    out = field(1, TYPES[kind])
    if dims is not None:
        shape = b"".join(field(1, b"" if d == "?" else field(2 if isinstance(d, str) else 1, d)) for d in dims)
        out += field(2, shape)
    return field(1, name) + field(2, field(1, out))


def numbers(text, count):
    values = [v for v in re.split(r"[\s,]+", text.strip()) if v]
    values = [float(v) if re.search(r"[.naief]", v) else int(v) for v in values]
    return values * count if len(values) == 1 and count != 1 else values


def tensor(name, text, how, rest):
    kind, dims = parse_type(text)
    out = b"".join(field(1, d) for d in dims) + field(2, TYPES[kind]) + field(8, name)
    count = 1
    for d in dims:
        count *= d
    if how == "external":
        for key, value in zip(("location", "offset", "length"), rest.split()):
            out += field(13, field(1, key) + field(2, value))
        return out + field(14, 1)
    if how == "bytes":
        return out + field(9, bytes(int(rest)))
    values = numbers(rest, count)
    if how == "typed":
        number = TYPED_FIELD.get(kind, 5)
        if number in (4, 10):
            return out + field(number, struct.pack(f"<{len(values)}{PACK[kind]}", *values))
        return out + field(number, b"".join(varint(int(v)) for v in values))
    cast = float if kind[0] == "f" else int
    return out + field(9, struct.pack(f"<{len(values)}{PACK[kind]}", *map(cast, values)))


def attribute(key, text, graphs):
    out = field(1, key)
    if text.startswith("@"):
        return out + field(21, text[1:]) + field(20, 2)
    if text.startswith("graph:"):
        return out + field(6, graphs[text[6:]]) + field(20, 5)
    if text.startswith('"'):
        return out + field(4, text[1:-1]) + field(20, 3)
    if re.match(r"\w+\[[^\]]*\]:", text):
        kind, _, values = text.partition(":")
        return out + field(5, tensor("", kind, "raw", values)) + field(20, 4)
    if text.startswith('["'):
        return out + b"".join(field(9, v) for v in re.findall(r'"([^"]*)"', text)) + field(20, 8)
    if text.startswith("["):
        values = numbers(text[1:-1], 1)
        real = any(isinstance(v, float) for v in values)
        return out + b"".join(field(7 if real else 8, v) for v in values) + field(20, 6 if real else 7)
    value = numbers(text, 1)[0]
    return out + field(2 if isinstance(value, float) else 3, value) + field(20, 1 if isinstance(value, float) else 2)


def node(text, graphs):
    head, _, tail = text.partition("->")
    match = re.fullmatch(r"\s*(?:([\w.]+)::)?(\w*)\((.*)\)\s*", head)
    domain, op, inputs = match.groups()
    outputs, attributes = [], []
    words = re.findall(r'[\w.:]+=(?:"[^"]*"|\S+)|[^\s,]+|,', tail)
    for word in words:
        if re.match(r"[\w.:]+=", word):
            attributes.append(word.split("=", 1))
        elif word != ",":
            outputs.append("" if word == "_" else word)
    out = b"".join(field(1, "" if i.strip() == "_" else i.strip()) for i in inputs.split(",") if i.strip())
    out += b"".join(field(2, o) for o in outputs) + field(4, op)
    for key, value in attributes:
        if key.startswith("meta:"):
            out += field(9, field(1, key[5:]) + field(2, value))
        else:
            out += field(3, value) if key == "name" else field(5, attribute(key, value, graphs))
    return out + (field(7, domain) if domain else b"")


def blocks(lines):
    """Pairs of a line and the indented lines below it."""
    result = []
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line.startswith("  "):
            result[-1][1].append(line[2:])
        else:
            result.append((line.strip(), []))
    return result


def graph(pairs, graphs, model):
    """GraphProto of the lines; what belongs to the model is added to `model`."""
    out = b""
    for line, body in pairs:
        word, _, rest = line.partition(" ")
        if word == "node":
            out += field(1, node(rest, graphs))
        elif word == "init":
            name, kind, how, *rest = rest.split(None, 3)
            rest = rest[0] if rest else ""
            if how == "typed":
                rest = rest.lstrip("= ")
            out += field(5, tensor(name, kind, {"=": "raw"}.get(how, how), rest))
        elif word in ("input", "output", "value"):
            out += field({"input": 11, "output": 12, "value": 13}[word], value_info(*rest.split(None, 1)))
        elif word == "name":
            out += field(2, rest)
        elif word == "sparse":
            out += field(15, field(1, tensor(rest, "f32[1]", "raw", "1.0")))
        elif word == "graph":
            graphs[rest] = graph(blocks(body), graphs, model)
        elif word == "function":
            domain, head, *names = re.fullmatch(r"(\S+) (\w+\(.*?\)) -> (.*)", rest).groups()
            match = re.fullmatch(r"(\w+)\((.*)\)", head)
            outputs, *attributes = names[0].split()
            function = field(1, match[1]) + field(10, domain) + field(9, field(1, "") + field(2, 18))
            function += field(9, field(1, domain) + field(2, 1))
            function += b"".join(field(4, i.strip()) for i in match[2].split(",") if i.strip())
            function += b"".join(field(5, o) for o in outputs.split(","))
            for attribute in attributes:
                key, is_meta, text = attribute.removeprefix("meta:").partition("=")
                function += field(14, field(1, key) + field(2, text)) if is_meta else field(6, key)
            function += b"".join(field(7, node(b.strip().removeprefix("node "), graphs)) for b in body if b.strip())
            model.append(field(25, function))
        elif word == "meta":
            key, _, text = rest.partition(" = ")
            model.append(field(14, field(1, key) + field(2, text.replace("\\n", "\n"))))
        elif word == "graph-meta":
            key, _, text = rest.partition(" = ")
            out += field(16, field(1, key) + field(2, text.replace("\\n", "\n")))
        elif word == "opset":
            domain, version = ([""] + rest.split())[-2:]
            model.append(field(8, field(1, domain) + field(2, int(version))))
        elif word == "ir":
            model.append(field(1, int(rest)))
        else:
            sys.exit(f"make_onnx.py: cannot read '{line}'")
    return out


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        pairs = blocks(re.split(r"(?:^|\s)//", line)[0].rstrip() for line in file)
    words = [line.split()[0] for line, _ in pairs]
    model = []
    body = graph(pairs, {}, model)
    if "ir" not in words:
        model.insert(0, field(1, 8))
    if "opset" not in words:
        model.append(field(8, field(1, "") + field(2, 18)))
    with open(sys.argv[2], "wb") as file:
        file.write(b"".join(model) + field(7, body))


if __name__ == "__main__":
    main()
