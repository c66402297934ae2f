# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX models changed field by field, compiled, described, trained for a step."""

import json
import math
import zipfile

import numpy as np
import onnx
from google.protobuf import message as protobuf
from onnx import AttributeProto, TensorProto

import base_models

EXTREMES = [0, 1, -1, 2, 3, 7, -2, 127, 4096, 65537, 2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 1e-45, 1e38, -1e38, math.inf, -math.inf, math.nan, 0.5, 2.0]
NAMES = ["", " ", "x", "w", "loss", "a/b", "../../x", "/etc/passwd", "\x1b[31mred\x07", "zero\0byte", "two\nlines: error: no", "tab\there", "\u009b2J", "\u202eoverride",
         "n" * 5000, "%s%n%d", "'quoted\"`", "!@#$^&*(){}", "<html>", "-O0", "--lora", "日本語", "batch", "NOT-UTF-8"]  # fmt: skip
NOT_UTF8 = b"\xff\xfe\x9b\x80\x00\xc3("
PATHS = ["", ".", "..", "/", "/etc/passwd", "../m.onnx", "a/../../m.onnx", "m.onnx", "w.bin", "./w.bin", "absent.bin", "tmp", "w.bin\0x", "/dev/zero", "\x1b[2J.bin", "p" * 5000]
DIMS = ["batch", "seq", "", "batch*2", "batch+", "-1", "0", "2*(batch", "floordiv(batch, 0)", "batch mod 0", "a" * 3000, "\x1b[0m", "None", "?", "unk__0", "s0", "batch seq", "9" * 40]
OPTIONS = [[]] * 12 + [
    ["-O0"], ["--inference"], ["--optimizer", "sgd", "--momentum", "0.9", "--nesterov"], ["--optimizer", "lamb"], ["--optimizer-state", "int8"],
    ["--optimizer-state", "bf16", "--clip-norm", "1"], ["--lora", "r=2,alpha=4"], ["--lora", "r=2,alpha=4,dora,targets=.*"], ["--lora", "existing"],
    ["--lora", "r=2,alpha=4,targets=all-linear", "--quantize", "nf4:double:block=16"], ["--lora", "r=1,alpha=1", "--quantize", "int8"], ["--recompute", "level:1"],
    ["--recompute", "level:2", "--no-schedule-updates"], ["--recompute", "list"], ["--memory-budget", "0.5"], ["--memory-budget", "1MB"], ["--report"], ["--report=report.json"],
    ["--explain"], ["--explain=all"], ["--dim", "batch=4"], ["--dim", "batch=1..8", "--dim", "seq=2..8"], ["--dropout", "on"], ["--dropout", "off"], ["--batchnorm", "frozen"],
    ["--embed-weights"], ["--embed-ir"], ["--no-hoist-slices"], ["--no-eliminate-padding"], ["--no-exploit-label-sparsity", "--no-chunk-loss"], ["--pad-token", "0"],
    ["--pad-token", "input_ids=attention_mask"], ["--token-bucket", "4"], ["--trainable", ".*"], ["--freeze", "w"], ["--loss", "loss"], ["--loss", "r"], ["--no-decay", "b|s"],
    ["--lr-scale", "w=0.1"], ["--accumulate", "2"], ["--precision", "bf16"], ["--precision", "fp32"], ["--print-pipeline"], ["--save-ir", "ir"], ["--warnings-as-errors"],
    ["--target", "cuda:sm_90", "--precision", "bf16"], ["--target", "cuda:sm_90", "--offload"], ["--target", "cuda:sm_80", "--lora", "r=2,alpha=4", "--quantize", "nf4"],
]  # fmt: skip


def graphs(model):
    """The graph, all that are nested in it, and bodies of functions; with the nodes' lists."""
    found, ahead = [], [model.graph, *model.functions]
    while ahead:
        graph = ahead.pop()
        found.append(graph)
        for node in graph.node:
            for a in node.attribute:
                ahead += [a.g] if a.HasField("g") else []
                ahead += list(a.graphs)
    return found


class Damage:
    """One change; each method is a kind, and returns False where there is nothing to change."""

    def __init__(self, model, rng, others):
        self.model, self.rng, self.others = model, rng, others
        self.graphs = graphs(model)
        self.graph = model.graph if rng.random() < 0.7 else rng.choice(self.graphs)
        self.nodes = self.graph.node

    def pick(self, items):
        return self.rng.choice(items) if len(items) else None

    def names(self):
        found = [n for node in self.nodes for n in (*node.input, *node.output)]
        if isinstance(self.graph, onnx.GraphProto):
            found += [v.name for v in (*self.graph.input, *self.graph.initializer)]
        return found or ["x"]

    def name(self):
        return self.rng.choice(NAMES) if self.rng.random() < 0.25 else self.rng.choice(self.names())

    # Nodes.

    def delete_node(self):
        if not self.nodes:
            return False
        del self.nodes[self.rng.randrange(len(self.nodes))]

    def duplicate_node(self):
        if not self.nodes:
            return False
        self.nodes.insert(self.rng.randrange(len(self.nodes) + 1), self.pick(self.nodes))

    def shuffle_nodes(self):
        nodes = list(self.nodes)
        self.rng.shuffle(nodes)
        del self.nodes[:]
        self.nodes.extend(nodes)

    def change_operator(self):
        if not self.nodes:
            return False
        node = self.pick(self.nodes)
        schema = self.rng.choice(SCHEMAS)
        node.op_type = self.rng.choice([schema.name, schema.name, schema.name, self.rng.choice(NAMES), node.op_type.lower()])
        if self.rng.random() < 0.1:
            node.domain = self.rng.choice(["", "ai.onnx", "ai.onnx.ml", "com.microsoft", "my", "ai.onnx.preview.training", self.rng.choice(NAMES)])

    def add_node(self):
        schema, rng = self.rng.choice(SCHEMAS), self.rng
        count = rng.randint(schema.min_input, max(schema.min_input, min(schema.max_input, 5)))
        node = onnx.helper.make_node(schema.name, [rng.choice(self.names()) for _ in range(count)], [f"new{i}" for i in range(max(1, min(schema.max_output, 3)))])
        for attribute in schema.attributes.values():
            if attribute.required or rng.random() < 0.2:
                self.set_attribute(node.attribute.add(), attribute.name, int(attribute.type))
        self.nodes.insert(rng.randrange(len(self.nodes) + 1), node)
        if len(self.nodes) > 1:
            user = self.pick(self.nodes)
            if len(user.input):
                user.input[rng.randrange(len(user.input))] = "new0"

    def borrow_node(self):
        other = onnx.load_model_from_string(self.rng.choice(self.others)[1])
        nodes = other.graph.node
        for _ in range(self.rng.randint(1, 4)):
            node = self.pick(nodes)
            at = self.rng.randrange(len(self.nodes) + 1)
            self.nodes.insert(at, node)
            for i in range(len(node.input)):
                if self.rng.random() < 0.7:
                    self.nodes[at].input[i] = self.rng.choice(self.names())

    def change_input(self):
        users = [n for n in self.nodes if n.input]
        if not users:
            return False
        node = self.pick(users)
        node.input[self.rng.randrange(len(node.input))] = self.name() if self.rng.random() < 0.9 else ""

    def count_inputs(self):
        if not self.nodes:
            return False
        node = self.pick(self.nodes)
        kind = self.rng.randrange(4)
        if kind == 0 and node.input:
            del node.input[self.rng.randrange(len(node.input))]
        elif kind == 1:
            node.input.append(self.name())
        elif kind == 2 and node.input:
            node.input.extend([node.input[0]] * self.rng.choice([2, 30, 3000]))
        else:
            del node.input[:]

    def change_output(self):
        if not self.nodes:
            return False
        node = self.pick(self.nodes)
        kind = self.rng.randrange(4)
        if kind == 0 and node.output:
            node.output[self.rng.randrange(len(node.output))] = self.name()
        elif kind == 1:
            node.output.extend(f"more{i}" for i in range(self.rng.choice([1, 2, 100])))
        elif kind == 2 and node.output:
            del node.output[self.rng.randrange(len(node.output))]
        elif node.output:  # a cycle
            user = self.pick(self.nodes)
            if user.input:
                user.input[self.rng.randrange(len(user.input))] = node.output[0]

    def name_node(self):
        if not self.nodes:
            return False
        node = self.pick(self.nodes)
        node.name = self.rng.choice(NAMES)
        if self.rng.random() < 0.3:
            entry = node.metadata_props.add()
            entry.key, entry.value = self.rng.choice(NAMES), self.rng.choice(NAMES)

    def long_chain(self):
        """Many nodes behind each other."""
        name = self.rng.choice(self.names())
        operator, last = self.rng.choice(["Identity", "Neg", "Relu", "Shape", "Dropout"]), name
        count = self.rng.choice([50, 300, 1500])
        for i in range(count):
            self.nodes.append(onnx.helper.make_node(operator, [last], [f"chain{i}"]))
            last = f"chain{i}"
        user = self.pick(self.nodes[: len(self.nodes) - count] or self.nodes)
        if user.input:
            user.input[0] = last

    # Attributes.

    def set_attribute(self, attribute, name, kind):
        rng = self.rng
        attribute.Clear()
        attribute.name, attribute.type = name, kind
        number = lambda: rng.choice(EXTREMES) if rng.random() < 0.5 else rng.randint(-4, 9)
        if kind == AttributeProto.INT:
            attribute.i = number()
        elif kind == AttributeProto.FLOAT:
            attribute.f = rng.choice(FLOATS)
        elif kind == AttributeProto.STRING:
            attribute.s = rng.choice(WORDS + NAMES).encode()
        elif kind == AttributeProto.INTS:
            attribute.ints.extend(number() for _ in range(rng.choice([0, 1, 2, 2, 3, 4, 9, 200])))
        elif kind == AttributeProto.FLOATS:
            attribute.floats.extend(rng.choice(FLOATS) for _ in range(rng.choice([0, 1, 2, 8])))
        elif kind == AttributeProto.STRINGS:
            attribute.strings.extend(rng.choice(WORDS + NAMES).encode() for _ in range(rng.choice([0, 1, 3])))
        elif kind == AttributeProto.TENSOR:
            self.fill_tensor(attribute.t)
        elif kind == AttributeProto.GRAPH:
            attribute.g.CopyFrom(onnx.load_model_from_string(rng.choice(self.others)[1]).graph)

    def attribute(self):
        owners = [n for n in self.nodes if n.attribute]
        return self.pick(self.pick(owners).attribute) if owners else None

    def change_attribute(self):
        attribute = self.attribute()
        if attribute is None:
            return False
        rng = self.rng
        if rng.random() < 0.7:  # a value of its type
            if attribute.type == AttributeProto.INTS and attribute.ints and rng.random() < 0.6:
                attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(EXTREMES)
            elif attribute.type == AttributeProto.TENSOR:
                self.fill_tensor(attribute.t)
            elif attribute.type != AttributeProto.GRAPH:
                self.set_attribute(attribute, attribute.name, attribute.type)
            else:
                return False
        else:  # another type
            self.set_attribute(attribute, attribute.name, rng.choice([1, 2, 3, 4, 5, 6, 7, 8]))
            if rng.random() < 0.1:
                attribute.ref_attr_name = rng.choice(["alpha", rng.choice(NAMES)])

    def add_attribute(self):
        if not self.nodes:
            return False
        node, rng = self.pick(self.nodes), self.rng
        name = rng.choice(ATTRIBUTES) if rng.random() < 0.9 else rng.choice(NAMES)
        self.set_attribute(node.attribute.add(), name, rng.choice([1, 2, 2, 2, 3, 4, 6, 7, 7, 5]))

    def known_attribute(self):
        """One that the operator has, with a value of the right type."""
        node = self.pick(self.nodes)
        if node is None or not onnx.defs.has(node.op_type):
            return False
        known = list(onnx.defs.get_schema(node.op_type).attributes.values())
        if not known:
            return False
        attribute = self.rng.choice(known)
        for i, old in enumerate(node.attribute):
            if old.name == attribute.name:
                del node.attribute[i]
                break
        self.set_attribute(node.attribute.add(), attribute.name, int(attribute.type))

    def remove_attribute(self):
        owners = [n for n in self.nodes if n.attribute]
        if not owners:
            return False
        node = self.pick(owners)
        del node.attribute[self.rng.randrange(len(node.attribute))]

    # Values and their types.

    def typed(self):
        graph = self.graph if isinstance(self.graph, onnx.GraphProto) else self.model.graph
        return self.pick([*graph.input, *graph.output, *graph.value_info])

    def change_dims(self):
        value = self.typed()
        if value is None:
            return False
        shape, rng = value.type.tensor_type.shape, self.rng
        kind = rng.randrange(6)
        if kind == 0 and shape.dim:
            del shape.dim[rng.randrange(len(shape.dim))]
        elif kind == 1:
            shape.dim.add().dim_value = rng.choice([1, 2, 5])
        elif kind == 2:
            value.type.tensor_type.ClearField("shape")
        elif kind == 3 and rng.random() < 0.3:
            for _ in range(rng.choice([10, 70, 1000])):
                shape.dim.add().dim_value = 1
        elif shape.dim:
            dim = self.pick(shape.dim)
            if rng.random() < 0.5:
                dim.dim_value = rng.choice(EXTREMES) if rng.random() < 0.6 else rng.randint(0, 9)
            elif rng.random() < 0.8:
                dim.dim_param = rng.choice(DIMS)
            else:
                dim.Clear()

    def change_type(self):
        value = self.typed()
        if value is None:
            return False
        rng = self.rng
        kind = rng.randrange(8)
        if kind < 5:
            value.type.tensor_type.elem_type = rng.choice([*range(0, 27), 99, 2**31 - 1, -1])
        elif kind == 5:
            value.type.Clear()
        elif kind == 6:
            inner = value.type.sequence_type.elem_type
            for _ in range(rng.choice([0, 1, 50])):
                inner = inner.sequence_type.elem_type
            inner.tensor_type.elem_type = 1
        else:
            value.type.optional_type.elem_type.tensor_type.elem_type = rng.randint(0, 12)

    def rename_value(self):
        value = self.typed()
        if value is None:
            return False
        old, new = value.name, self.name()
        value.name = new
        if self.rng.random() < 0.7:  # everywhere
            for node in self.nodes:
                for names in (node.input, node.output):
                    for i, name in enumerate(names):
                        if name == old:
                            names[i] = new

    def rename_weight(self):
        weights = self.model.graph.initializer
        if not weights:
            return False
        weight = self.pick(weights)
        old, weight.name = weight.name, self.name()
        for graph in self.graphs:
            for node in graph.node:
                for i, name in enumerate(node.input):
                    if name == old:
                        node.input[i] = weight.name

    def list_values(self):
        graph, rng = self.model.graph, self.rng
        values = self.pick([graph.input, graph.output, graph.value_info])
        kind = rng.randrange(4)
        if kind == 0 and values:
            del values[rng.randrange(len(values))]
        elif kind == 1 and values:
            values.add().CopyFrom(self.pick(values))
        elif kind == 2:
            values.add().CopyFrom(onnx.helper.make_tensor_value_info(self.name(), rng.choice([1, 7, 9, 10, 11]), rng.choice([None, [], ["batch"], [2, 3], [0]])))
        else:
            del values[:]

    # Weights.

    def fill_tensor(self, tensor):
        rng = self.rng
        name = tensor.name
        tensor.Clear()
        tensor.name = name
        kind, dims = rng.choice([1, 1, 6, 7, 7, 9, 10, 11, 16, 2, 3, 8, 17, 21, 22]), [rng.randint(0, 4) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
        tensor.data_type = kind
        tensor.dims.extend(dims)
        size = math.prod(dims) * {1: 4, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 16: 2, 2: 1, 3: 1}.get(kind, 1)
        if rng.random() < 0.4:
            values = np.array([rng.choice(EXTREMES) for _ in range(math.prod(dims))], dtype=object)
            tensor.int64_data.extend(int(v) for v in values)
        else:
            tensor.raw_data = rng.randbytes(size) if rng.random() < 0.3 else bytes(size)

    def weight(self):
        found = [*self.model.graph.initializer]
        for graph in self.graphs:
            found += [a.t for node in graph.node for a in node.attribute if a.type == AttributeProto.TENSOR]
        return self.pick(found)

    def change_weight(self):
        tensor = self.weight()
        if tensor is None:
            return False
        rng = self.rng
        kind = rng.randrange(10)
        if kind == 0:
            tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)]
        elif kind == 1:
            tensor.raw_data += bytes(rng.choice([1, 4, 4096]))
        elif kind == 2:
            tensor.data_type = rng.choice([*range(0, 27), 99, -1])
        elif kind == 3 and tensor.dims:
            tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(EXTREMES)
        elif kind == 4:
            tensor.dims.extend([1] * rng.choice([1, 1, 60])) if rng.random() < 0.6 else tensor.ClearField("dims")
        elif kind == 5:
            tensor.float_data.extend(rng.choice(FLOATS) for _ in range(rng.choice([1, 4, 16])))
        elif kind == 6:
            tensor.ClearField("raw_data")
        elif kind == 7:
            tensor.raw_data = np.array([rng.choice(FLOATS) for _ in range(len(tensor.raw_data) // 4)], np.float32).tobytes()
        elif kind == 8:
            tensor.raw_data = np.array([rng.choice(EXTREMES) for _ in range(len(tensor.raw_data) // 8)], np.int64).tobytes() or tensor.raw_data
        else:
            self.fill_tensor(tensor)

    def external(self):
        """Data in a file that is not there, too short, or elsewhere."""
        if not self.model.graph.initializer:
            return False
        tensor, rng = self.pick(self.model.graph.initializer), self.rng
        tensor.ClearField("raw_data")
        tensor.ClearField("external_data")
        tensor.data_location = TensorProto.EXTERNAL
        texts = [str(v) for v in EXTREMES] + ["", "x", "0x10", " 4", "1e3", "4\0", "9" * 40]
        for key, value in (("location", rng.choice(PATHS) if rng.random() < 0.6 else "w.bin"), ("offset", rng.choice(texts) if rng.random() < 0.5 else "0"),
                           ("length", rng.choice(texts) if rng.random() < 0.5 else "64"), ("checksum", "x"), (rng.choice(NAMES), rng.choice(NAMES))):  # fmt: skip
            if rng.random() < 0.85:
                entry = tensor.external_data.add()
                entry.key, entry.value = key, value

    def list_weights(self):
        graph, rng = self.model.graph, self.rng
        kind = rng.randrange(4)
        if kind == 0 and graph.initializer:
            del graph.initializer[rng.randrange(len(graph.initializer))]
        elif kind == 1 and graph.initializer:
            graph.initializer.add().CopyFrom(self.pick(graph.initializer))
        elif kind == 2 and graph.initializer:  # a sparse one
            dense, sparse = self.pick(graph.initializer), graph.sparse_initializer.add()
            sparse.values.CopyFrom(dense)
            sparse.indices.CopyFrom(onnx.helper.make_tensor("i", 7, [2], [0, rng.choice(EXTREMES)]) if rng.random() < 0.5 else dense)
            sparse.dims.extend([rng.choice(EXTREMES), 4])
        elif graph.initializer:  # an initializer that is an input, too
            weight = self.pick(graph.initializer)
            graph.input.add().CopyFrom(onnx.helper.make_tensor_value_info(weight.name, rng.choice([1, 7]), rng.choice([list(weight.dims)[:4], [3]]) if all(d >= 0 for d in weight.dims) else None))

    # The model.

    def opsets(self):
        rng = self.rng
        imports = self.model.opset_import
        kind = rng.randrange(4)
        if kind == 0:
            del imports[:]
        elif kind == 1 and imports:
            self.pick(imports).version = rng.choice([*range(0, 27), *EXTREMES])
        elif kind == 2:
            entry = imports.add()
            entry.domain, entry.version = rng.choice(["", "ai.onnx", "my", rng.choice(NAMES)]), rng.choice(EXTREMES)
        else:
            self.model.ir_version = rng.choice([*range(0, 14), *EXTREMES])

    def empty_graph(self):
        kind = self.rng.randrange(3)
        if kind == 0:
            self.model.ClearField("graph")
        elif kind == 1:
            del self.nodes[:]
        else:
            del self.model.graph.output[:]

    def metadata(self):
        rng, graph = self.rng, self.model.graph
        owner = self.pick([self.model.metadata_props, graph.metadata_props])
        entry = owner.add()
        entry.key = rng.choice(["trainable", "trainable", "loss", rng.choice(NAMES)])
        entry.value = rng.choice(["", "w", "x", "absent", "w\nw", "\n\n", "w\0", rng.choice(NAMES), "\n".join(i.name for i in graph.initializer)])
        if rng.random() < 0.3:
            graph.name, self.model.producer_name, self.model.doc_string = (rng.choice(NAMES) for _ in range(3))

    def functions(self):
        """Functions that call themselves or each other, stand for operators, or are there twice."""
        rng = self.rng
        kind = rng.randrange(5)
        domain = rng.choice(["my", "my", "", "com.example"])
        body = lambda name, calls: onnx.helper.make_function(domain, name, ["a"], ["b"], calls, [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid(domain or "my", 1)])
        call = lambda name, i="a", o="b": onnx.helper.make_node(name, [i], [o], domain=domain)
        if kind == 0:
            self.model.functions.append(body("F", [call("F")]))
        elif kind == 1:
            self.model.functions.extend([body("F", [call("G")]), body("G", [call("F")])])
        elif kind == 2:  # 2^n nodes
            count = rng.choice([5, 12, 40])
            self.model.functions.append(body("F0", [onnx.helper.make_node("Neg", ["a"], ["b"])]))
            self.model.functions.extend(body(f"F{i}", [call(f"F{i - 1}", "a", "c"), call(f"F{i - 1}", "c", "b")]) for i in range(1, count))
            self.model.functions.append(body("F", [call(f"F{count - 1}")]))
        elif kind == 3:
            schema = rng.choice(["MatMul", "ReduceMean", "Relu", "Identity"])
            self.model.functions.append(body(schema, [call(schema)]))
        elif self.model.functions:
            function = self.pick(self.model.functions)
            change = rng.randrange(4)
            if change == 0:
                self.model.functions.add().CopyFrom(function)
            elif change == 1:
                (function.input if rng.random() < 0.5 else function.output).append(rng.choice(NAMES))
            elif change == 2:
                function.attribute.append(rng.choice(["alpha", rng.choice(NAMES)]))
            else:
                del function.opset_import[:]
        if not any(o.domain == domain for o in self.model.opset_import):
            entry = self.model.opset_import.add()
            entry.domain, entry.version = domain, 1
        if self.nodes and kind != 4:
            self.nodes.append(onnx.helper.make_node(self.model.functions[-1].name, [rng.choice(self.names())], ["called"], domain=domain))
            user = self.pick(self.nodes)
            if user.input:
                user.input[0] = "called"

    def nest(self):
        """Branches in branches."""
        depth = self.rng.choice([2, 5, 20, 25, 40, 100, 300])
        inner = onnx.helper.make_graph([onnx.helper.make_node("Neg", [self.rng.choice(self.names())], ["d"])], "leaf", [], [onnx.helper.make_tensor_value_info("d", 1, None)])
        text, node = inner.SerializeToString(), None
        for _ in range(depth):  # on the wire, since every level would be copied
            branch = varint_field(6, text)
            attributes = b"".join(varint_field(5, varint_field(1, name) + branch + b"\xa0\x01\x05") for name in (b"then_branch", b"else_branch")[: 1 + (depth <= 5)])
            node = varint_field(1, b"c") + varint_field(2, b"d") + varint_field(4, b"If") + attributes
            text = varint_field(1, node) + varint_field(2, b"level") + varint_field(12, varint_field(1, b"d"))
        try:
            self.nodes.add().ParseFromString(node)
        except Exception:  # protobuf's own limit
            return False
        self.nodes[-1].output[0] = "nested"
        weight = self.model.graph.initializer.add()
        weight.CopyFrom(onnx.helper.make_tensor("c", TensorProto.BOOL, [], [True]))
        user = self.pick(self.nodes)
        if user.input:
            user.input[0] = "nested"

    def training_info(self):
        info = self.model.training_info.add()
        for graph in (info.initialization, info.algorithm):
            if self.rng.random() < 0.7:
                graph.CopyFrom(self.model.graph if self.rng.random() < 0.5 else onnx.load_model_from_string(self.rng.choice(self.others)[1]).graph)
        for bindings in (info.update_binding, info.initialization_binding):
            for _ in range(self.rng.choice([0, 1, 2])):
                entry = bindings.add()
                entry.key, entry.value = self.name(), self.name()


def varint_field(number, data):
    out, value = bytearray(), len(data)
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    head = number << 3 | 2
    return (bytes([head]) if head < 128 else bytes([head & 127 | 128, head >> 7])) + bytes(out) + data


SCHEMAS = sorted((s for s in onnx.defs.get_all_schemas() if s.domain in ("", "ai.onnx")), key=lambda s: s.name)
ATTRIBUTES = sorted({a for s in SCHEMAS for a in s.attributes})
WORDS = ["constant", "edge", "nearest", "linear", "cubic", "none", "mean", "sum", "tanh", "SAME_UPPER", "VALID", "bidirectional", "reverse", "ij,jk->ik", "...ij->...", "ij->", "i,i,i->", "DCR", "relu", "Sigmoid"]
KINDS = sorted(name for name in vars(Damage) if not name.startswith("_") and name not in ("pick", "names", "name", "set_attribute", "attribute", "typed", "fill_tensor", "weight"))
# What is cut short by most errors is rarer.
RARE = {"empty_graph", "opsets", "long_chain", "nest", "training_info", "functions"}
WEIGHTS = [1 if k in RARE else 4 for k in KINDS]


def damaged(rng, bases):
    """The bytes of a changed model."""
    data = rng.choice(bases)[1]
    model = onnx.load_model_from_string(data)
    left = rng.choice([1, 1, 1, 2, 2, 3, 6])
    for _ in range(30):
        kind = rng.choices(KINDS, WEIGHTS)[0]
        try:
            left -= getattr(Damage(model, rng, bases), kind)() is not False
        except (ValueError, TypeError, protobuf.Error):  # protobuf or numpy cannot have such a value there
            pass
        if not left:
            break
    data = bytearray(model.SerializeToString())
    data = data.replace(b"NOT-UTF-8", NOT_UTF8 + b"xx")
    if rng.random() < 0.05:  # on the wire
        for _ in range(rng.randint(1, 4)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
    if rng.random() < 0.01:
        data = data[: rng.randrange(len(data) + 1)]
    return bytes(data)


NUMPY = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16,
         "u32": np.uint32, "u64": np.uint64, "bool": np.bool_}  # fmt: skip


def batch(manifest, rng):
    """Arrays for the inputs of a package, one batch; None where they would be large or have types that numpy lacks."""
    sizes = {}
    for symbol in manifest["symbols"]:
        low, high, step = symbol["min"], symbol["max"], symbol.get("divisor", 1)
        sizes[symbol["name"]] = min(high if high is not None else 1 << 40, -(-max(low, rng.randint(2, 5)) // step) * step)
    arrays = {}
    for entry in manifest["inputs"]:
        shape = [sizes.get(d, 3) if isinstance(d, str) else d for d in entry["shape"]]
        if entry["dtype"] not in NUMPY or math.prod(shape) > 100_000 or len(shape) > 32:
            return None
        values = np.array([rng.choice([0, 1, 1, 2, 3]) for _ in range(math.prod(shape))])
        if "mask" in entry["name"] and len(shape) == 2:  # padding to the right
            values = np.arange(shape[1]) < np.array([[rng.randint(1, shape[1] + 1)] for _ in range(shape[0])])
        arrays[entry["name"]] = values.reshape(shape).astype(NUMPY[entry["dtype"]])
    return arrays


class Kind:
    def __init__(self, place):
        # Small ones thrice: they are quick.
        self.bases = [b for b in base_models.load() for _ in range(3 if len(b[1]) < 3000 else 1)]

    def run(self, place, rng):
        place.write("m.onnx", damaged(rng, self.bases))
        place.write("w.bin", bytes(60) + b"\x3f\x80\0\0")
        options = list(rng.choice(OPTIONS))
        if "--target" in options:
            options += ["--stop-after", "schedule"]
        else:
            options += ["--target", "cpu:x86-64-v3"]
            options += ["--stop-after", rng.choice(["graph", "schedule", "schedule"])] if rng.random() < 0.5 else []
        compiled = place.run("trainc", "m.onnx", "-o", "m.tpk", *options, writes=["m.tpk", "report.json"], keeps=["ir/"])
        if rng.random() < 0.1:
            place.run("trainc-translate", "--import-onnx", "m.onnx")
        package = place.folder / "m.tpk"
        if compiled.code == 0 and package.exists():
            self.use(place, package, rng)

    def use(self, place, package, rng):
        place.run("trainc-run", "m.tpk", "--info", *rng.choice([[], ["--log-format", "json"]]))
        if rng.random() < 0.3:
            place.run("trainc-translate", "--dump-package", "m.tpk")
        with zipfile.ZipFile(package) as archive:
            manifest = json.loads(archive.read("manifest.json"), strict=False)
        arrays = batch(manifest, rng)
        if arrays is None or any("\0" in name or "/" in name or not name for name in arrays):
            return
        try:
            data = place.arrays("data.npz", arrays)
        except (ValueError, UnicodeEncodeError):  # a name that no archive can have
            return
        if manifest["kind"] == "training":
            place.run("trainc-run", "m.tpk", "--data", data, "--steps", "1", "--init", "normal:0.02", "--threads", "1", *rng.choice([[], [], ["--eval", data], ["--check-numerics"], ["--log-format", "json"]]))
        if rng.random() < 0.3:
            place.run("trainc-run", "m.tpk", "--predict", data, "-o", "out.safetensors", "--threads", "1", writes=["out.safetensors"])
        if rng.random() < 0.3:
            place.run("trainc-run", "m.tpk", "--export", "again.onnx", writes=["again.onnx"])
