#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""onnx_attributes.py SOURCE BUILD [--write]: Attributes/Schemas.inc has the attributes and numbers of inputs of the
operators that there are handlers for, as the onnx package describes them, and onnxruntime those of its own.

With --write the file is made anew."""

import sys

import onnx.defs
from generated import check, list_operators
from onnxruntime.capi import onnxruntime_pybind11_state as ort

HEAD = """// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The most inputs (-1: any number) and the attributes of operators, from the opset named on. Made by: test/meta/onnx_attributes.py . build --write
// name:kind, in capitals a list; ! is required. i: integer, f: float, s: string, t: tensor, g: graph, p: type, x: sparse.
// clang-format off
"""
KINDS = {"INT": "i", "FLOAT": "f", "STRING": "s", "TENSOR": "t", "GRAPH": "g", "TYPE_PROTO": "p", "SPARSE_TENSOR": "x"}


def attribute_text(name, attribute):
    kind = str(attribute.type).split(".")[-1]
    letter = KINDS[kind] if kind in KINDS else KINDS[kind[:-1]].upper()
    return f"{name}:{letter}{'!' if attribute.required else ''}"


def table(operators):
    """Lines of operator, opset, inputs and attributes, where these differ from those of the opset before."""
    schemas = {}
    # What both describe is ONNX's.
    for schema in (*ort.get_all_operator_schema(), *onnx.defs.get_all_schemas_with_history()):
        name = f"{schema.domain}::{schema.name}" if schema.domain else schema.name
        schemas.setdefault(name, {})[schema.since_version] = schema
    for operator in sorted(operators):
        before = None
        for since, schema in sorted(schemas.get(operator, {}).items()):
            text = " ".join(attribute_text(name, schema.attributes[name]) for name in sorted(schema.attributes))
            # A list of inputs at the end has the largest number that there is.
            inputs = schema.max_input if schema.max_input < 2**31 - 1 else -1
            if (inputs, text) != before:
                yield f'SCHEMA("{operator}", {since}, {inputs}, "{text}")\n'
            before = (inputs, text)


def main():
    operators = {row.split("`")[1] for row in list_operators().splitlines()}
    return check("lib/Conversion/ONNXToTrain/Attributes/Schemas.inc", HEAD + "".join(table(operators)))


if __name__ == "__main__":
    sys.exit(main())
