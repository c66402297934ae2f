# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`program.fb` of a package, read as far as a page about it needs: runtime/schema/program.fbs is the format."""

import dataclasses
import json
import struct
import zipfile

from ..errors import Error

#: Of the format: those that runtimes read, the second with what few programs need (an attention bias's gradient).
VERSIONS = (3, 4)
SPACES = ("arena", "parameter", "state", "gradient", "input", "hyper", "constant", "output", "host")
DTYPES = ("f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool8")
WIDTHS = (4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8, 1)
KINDS = ("none", "launch", "gemm", "attention", "copy", "collective", "loop", "convolution", "external")
FORMS = ("", "pointwise", "row", "column", "scatter", "scan", "product")


class Table:
    """A table of FlatBuffers: fields by their place in the schema, of which a union takes two."""

    def __init__(self, data, at):
        self.data, self.at = data, at
        self.fields = at - struct.unpack_from("<i", data, at)[0]
        self.size = struct.unpack_from("<H", data, self.fields)[0]

    def place(self, field):
        offset = struct.unpack_from("<H", self.data, self.fields + 4 + 2 * field)[0] if 4 + 2 * field < self.size else 0
        return self.at + offset if offset else None

    def number(self, field, form, default=0):
        place = self.place(field)
        return default if place is None else struct.unpack_from("<" + form, self.data, place)[0]

    def target(self, field):
        place = self.place(field)
        return None if place is None else place + struct.unpack_from("<I", self.data, place)[0]

    def table(self, field):
        place = self.target(field)
        return None if place is None else Table(self.data, place)

    def text(self, field):
        place = self.target(field)
        return "" if place is None else text_at(self.data, place)

    def numbers(self, field, form="I"):
        place = self.target(field)
        if place is None:
            return ()
        return struct.unpack_from(f"<{struct.unpack_from('<I', self.data, place)[0]}{form}", self.data, place + 4)

    def structs(self, field, form):
        place = self.target(field)
        if place is None:
            return []
        size, count = struct.calcsize("<" + form), struct.unpack_from("<I", self.data, place)[0]
        return [struct.unpack_from("<" + form, self.data, place + 4 + i * size) for i in range(count)]

    def tables(self, field):
        return [Table(self.data, place) for place in self.places(field)]

    def texts(self, field):
        return [text_at(self.data, place) for place in self.places(field)]

    def places(self, field):
        place = self.target(field)
        count = 0 if place is None else struct.unpack_from("<I", self.data, place)[0]
        return [(place + 4 + 4 * i) + struct.unpack_from("<I", self.data, place + 4 + 4 * i)[0] for i in range(count)]


def text_at(data, place):
    length = struct.unpack_from("<I", data, place)[0]
    return bytes(data[place + 4 : place + 4 + length]).decode(errors="replace")


@dataclasses.dataclass
class Command:
    kind: str
    op: Table | None
    operands: list  # (buffer, expression of the offset, access: 0 none, 1 read, 2 write, 3 update)
    sizes: tuple
    kernels: tuple
    nodes: tuple
    costs: tuple


@dataclasses.dataclass
class Buffer:
    space: str
    index: int
    bytes: int  # an expression
    first: int
    last: int
    label: str


@dataclasses.dataclass
class Function:
    name: str
    variant_of: str
    buffers: list
    commands: list
    forward_end: int
    backward_end: int


class Program:
    """Tables as the schema has them; sizes are indices of expressions, which `values` computes."""

    def __init__(self, data):
        if data[4:8] != b"TRPG":
            raise ValueError("program.fb is none")
        root = Table(data, struct.unpack_from("<I", data, 0)[0])
        self.version = root.number(0, "I")
        self.symbols = [
            {"name": t.text(0), "min": t.number(1, "q"), "max": t.number(2, "q"), "divisor": t.number(3, "q", 1), "input": t.number(4, "i"), "counts": bool(t.number(6, "?")), "what": t.number(8, "B"), "run": t.number(9, "B")}
            for t in root.tables(2)
        ]  # fmt: skip
        self.expressions = root.structs(3, "B3xii4xq")
        # Parameters, states, inputs, hypers, outputs: (name, type, shape).
        self.tensors = {
            space: [(t.text(0), DTYPES[t.number(1, "B")], t.numbers(2)) for t in root.tables(field)]
            for space, field in zip(("parameter", "state", "input", "hyper", "output"), range(4, 9))
        }
        self.tensors["gradient"] = self.tensors["parameter"]
        self.kernels = [t.text(0) for t in root.tables(10)]
        self.nodes = root.texts(11)
        self.externals = [f"{t.text(0)}::{t.text(1)}" for t in root.tables(16)]
        self.functions = [self._function(t) for t in root.tables(12)]
        self.target = ("cpu", "cuda")[root.number(15, "B")]

    @staticmethod
    def _function(table):
        buffers = [
            Buffer(SPACES[t.number(0, "B")], t.number(1, "i", -1), t.number(2, "I"), t.number(3, "I"), t.number(4, "I"), t.text(5))
            for t in table.tables(1)
        ]
        commands = [
            Command(KINDS[t.number(0, "B")], t.table(1), t.structs(2, "IIB3x"), t.numbers(3), t.numbers(4), t.numbers(5), t.numbers(6))
            for t in table.tables(2)
        ]
        return Function(table.text(0), table.text(4), buffers, commands, table.number(7, "i", -1), table.number(8, "i", -1))

    def values(self, sizes):
        """The value of each expression for these sizes, {symbol: number}."""
        made = []
        for kind, a, b, value in self.expressions:
            if kind == 0:
                made.append(value)
            elif kind == 1:
                made.append(sizes[self.symbols[a]["name"]])
            else:
                x, y = made[a], made[b]  # earlier ones
                # floordiv and mod by 0 are of what no batch has
                made.append((x + y, x * y, x // y if y else 0, x % y if y else 0, max(x, y), min(x, y))[kind - 2])
        return made


def is_package(path):
    """Also a damaged one, which has lost its end."""
    with open(path, "rb") as file:
        return file.read(4) == b"PK\x03\x04"


def read(path):
    """(manifest, Program, embedded IR or None) of a package; an `Error` where it is none."""
    try:
        with zipfile.ZipFile(path) as package:
            names = package.namelist()
            if "manifest.json" not in names or "program.fb" not in names:
                raise Error(f"{path}: is no package: it has no manifest.json and program.fb")
            manifest = json.loads(package.read("manifest.json"))
            program = Program(package.read("program.fb"))
            ir = package.read("ir.mlir").decode(errors="replace") if "ir.mlir" in names else None
    except (zipfile.BadZipFile, struct.error, IndexError, ValueError, MemoryError) as error:
        raise Error(f"{path}: is no package, or a damaged one: {error}") from None
    if program.version not in VERSIONS:
        readable = " and ".join(str(version) for version in VERSIONS)
        raise Error(f"{path}: its program has version {program.version}, this trainc reads {readable}: compile the model again")
    return manifest, program, ir
