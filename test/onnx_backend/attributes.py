# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Changes the attributes of ONNX's own node tests into ones that ONNX does not allow: trainc refuses each.

    attributes.py --build DIR [--filter REGEX] [--each]

One test of each operator, with one attribute at a time of another type, out of its enumeration or its range, in a list of
another length, required and absent, or unknown. The models of an opset are merged into one; trainc says of how many
nodes it refuses each reason. --each compiles every change on its own, which takes minutes, and names those that pass.
"""

import argparse
import collections
import copy
import os
import re
import subprocess
import sys
import tempfile

import onnx
from onnx import defs, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

from backend import list_operators
from node_tests import HERE, NUMBERS, Case

FAR = -1000003
#: Any value is allowed, with the reason where it is not plain.
FREE = {
    "alpha", "beta", "bias", "gamma", "lambd", "mean", "momentum", "scale", "seed", "value", "value_int", "value_float",
    "cubic_coeff_a", "extrapolation_value",
    "ignore_index",  # of labels: none may be it
    "k",  # EyeLike: a diagonal beyond the corner
    "start", "end",  # Shape: clamped
    "saturate", "round_mode", "sorted",  # changes nothing in the types and orders that there are
    "activation_alpha", "activation_beta",  # of activations that have none
}  # fmt: skip
#: Their first input decides a shape.
SHAPED = {"BlackmanWindow", "HammingWindow", "HannWindow", "ConstantOfShape", "Range"}
#: Not looked at: the body decides what they have, and the nodes of these say it.
SKIPPED = {"If", "Loop", "Constant"}
KINDS = {"INT", "FLOAT", "STRING", "INTS", "FLOATS", "STRINGS"}
ERROR = re.compile(r"error: node '(.*?)' \(.*?\): (.*?)(?: \((\d+) such nodes, this is the first\))?$")


def bases(supported):
    """The newest test of each operator with the most attributes, of those that compile, with known second inputs."""
    with open(os.path.join(HERE, "refused.txt"), encoding="utf-8") as file:
        refused = set(file.read().split())
    best = {}
    for test in sorted(load_model_tests(kind="node"), key=lambda t: t.name):
        if test.name in refused or "expanded" in test.name:
            continue
        case = Case(test)
        nodes, opsets = case.model.graph.node, {o.domain: o.version for o in case.model.opset_import}
        if case.category() not in (NUMBERS, "quantised", "random") or len(nodes) != 1 or nodes[0].op_type not in supported - SKIPPED:
            continue
        schema = defs.get_schema(nodes[0].op_type, opsets[""], nodes[0].domain)
        rank = (schema.since_version, len(nodes[0].attribute))
        if schema.name not in best or rank > best[schema.name][0]:
            best[schema.name] = (rank, case, schema, opsets[""])
    for _, case, schema, opset in best.values():
        names = [i.name for i in case.model.graph.input]
        inputs = next(case.data())[0]
        graph = copy.deepcopy(case.model.graph)
        first = 0 if schema.name in SHAPED else 1
        del graph.input[first:]
        del graph.value_info[:]
        known = list(zip(names, inputs))[first:]
        graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in known)
        yield schema, graph, opset


def mutations(schema, node):
    """(what, node) of every change that ONNX does not allow."""

    def changed(name, value=None):
        other = copy.deepcopy(node)
        kept = [a for a in other.attribute if a.name != name]
        del other.attribute[:]
        other.attribute.extend(kept)
        if value is not None:
            other.attribute.append(helper.make_attribute(name, value))
        return other

    yield "unknown", changed("no_such_attribute", 1)
    have = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    for name, attribute in schema.attributes.items():
        kind = str(attribute.type).split(".")[-1]
        if kind not in KINDS:
            continue
        wrong = {"INT": 1.5, "FLOAT": "x", "STRING": 1, "INTS": 1, "FLOATS": 1, "STRINGS": 1}[kind]
        yield f"{name}: type", changed(name, wrong)
        if attribute.required:
            yield f"{name}: absent", changed(name)
        if name in FREE:
            continue
        if kind == "INT":
            yield f"{name}: {FAR}", changed(name, FAR)
        elif kind == "FLOAT":
            yield f"{name}: nan", changed(name, float("nan"))
        elif kind == "STRING":
            yield f"{name}: word", changed(name, "no_such_word")
        elif kind in ("INTS", "STRINGS"):
            other = FAR if kind == "INTS" else b"no_such_word"
            if have.get(name):
                yield f"{name}: longer", changed(name, [*have[name], have[name][-1]])
                yield f"{name}: element", changed(name, [*have[name][:-1], other])
            else:
                yield f"{name}: element", changed(name, [other])


def add(graph, other, node, name):
    """Adds the nodes of `other` to `graph`, with `node` in place of its own."""
    part = copy.deepcopy(other)
    part.node[0].CopyFrom(node)
    part.node[0].name = name
    rename = lambda text: f"{name}/{text}" if text else text
    for value in (*part.input, *part.output, *part.initializer):
        value.name = rename(value.name)
    for value in (*part.input, *part.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = rename(dim.dim_param)
    for field in (part.node[0].input, part.node[0].output):
        field[:] = [rename(text) for text in field]
    for field in ("input", "output", "initializer", "node"):
        getattr(graph, field).extend(getattr(part, field))


def refusals(trainc, graph, opset):
    """(first node, reason, how many) of each refusal."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
        onnx.save(model, path)
        command = [trainc, "--inference", "--stop-after", "legalize", path, "-o", os.path.join(folder, "model.tpk")]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode not in (0, 1):
        return [(graph.node[0].name, done.stderr[-400:], -1)]
    found = [ERROR.search(line) for line in done.stderr.splitlines()]
    if done.returncode and not any(found):
        return [(graph.node[0].name, done.stderr[-400:], -1)]
    return [(m[1], m[2], int(m[3] or 1)) for m in found if m]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=os.path.abspath, help="the build folder")
    parser.add_argument("--filter", default="", help="expression of the operators' names")
    parser.add_argument("--each", action="store_true", help="every change on its own, with what is said of it")
    options = parser.parse_args()
    trainc = os.path.join(options.build, "bin", "trainc")
    groups = collections.defaultdict(list)
    for schema, graph, opset in bases({row[0] for row in list_operators(options.build)}):
        if re.search(options.filter, schema.name):
            groups[opset].append((schema, graph))
    changes, bad = 0, 0
    for opset, members in sorted(groups.items()):
        merged = onnx.GraphProto(name="merged")
        for schema, graph in members:
            add(merged, graph, graph.node[0], schema.name)
        for name, reason, _ in refusals(trainc, merged, opset):
            print(f"REFUSED without a change: {name} (opset {opset}): {reason}")
            members, bad = [m for m in members if m[0].name != name], bad + 1
        cases = [(schema.name, what, graph, node) for schema, graph in members for what, node in mutations(schema, graph.node[0])]
        changes += len(cases)
        merged = onnx.GraphProto(name="merged")
        for name, what, graph, node in cases:
            add(merged, graph, node, f"{name} {what}")
        said = refusals(trainc, merged, opset)
        if not options.each and sum(count for _, _, count in said) == len(cases):
            continue
        for name, what, graph, node in cases:
            alone = onnx.GraphProto(name="alone")
            add(alone, graph, node, f"{name} {what}")
            own = refusals(trainc, alone, opset)
            if not own or own[0][2] < 0:
                print(f"{'BROKE' if own else 'ACCEPTED'}: {name} (opset {opset}): {what} {own[0][1] if own else ''}")
                bad += 1
            elif options.each:
                print(f"{name}: {what}: {own[0][1]}")
    print(f"{changes} changes of {sum(len(m) for m in groups.values())} operators, {bad} not refused")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
