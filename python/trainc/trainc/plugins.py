# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators from outside that this process has loaded: the compiler gets them, and PyTorch's exporter writes them."""

import hashlib
import json
import os
import pathlib

from .errors import Error

#: Paths of the JSON files, in the order in which they were loaded.
_loaded = []
#: {operator: (names of inputs, [(name, kind) of attributes], names of outputs)}; None: as torch.library declares it.
_operators = {}
_KINDS = {"int": int, "float": float, "string": str, "ints": list[int], "floats": list[float]}
_TORCH_KINDS = {"int": int, "float": float, "str": str, "List[int]": list[int], "List[float]": list[float]}


def load_plugin(path, operators=()):
    """Gives every later compilation of this process the operators of a plug-in (docs/plugins.md).

    path: of its JSON, or of a plug-in in C++ (lib*.so). An operator of `torch.library` of the same name, "domain::name", is
    exported as it, where its arguments come in the order of the inputs and then the attributes. operators: which these are,
    for a plug-in in C++, as torch.library declares them. Returns the names of the operators. What is wrong with the plug-in
    the compiler says, as a CompileError, when a model is compiled.
    """
    path = pathlib.Path(path).resolve()
    try:
        text = path.read_bytes()
        if _is_library(text):
            operators = dict.fromkeys(operators)
        elif operators:
            raise Error(f"operators= is for plug-ins in C++: '{path}' names its own")
        else:
            description = json.loads(text)
            operators = {entry["name"]: _signature(entry) for entry in description["operators"]}
            for file in _files_of(path, description):
                file.read_bytes()
    except OSError as error:
        raise Error(f"the plug-in '{path}' cannot be read: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Error(f"'{path}' describes no plug-in: {error!r}; `trainc --plugin` says what it is to be") from None
    if str(path) not in _loaded:
        _loaded.append(str(path))
    _operators.update(operators)
    return sorted(operators)


def _is_library(text):
    """A plug-in in C++."""
    return text[:4] == b"\x7fELF"


def _signature(entry):
    def names(key):
        return [text.partition(":")[0].strip() for text in entry.get(key, [])]

    kinds = [text.partition(":")[2].partition("=")[0].strip() for text in entry.get("attributes", [])]
    return names("inputs"), [(name, _KINDS[kind]) for name, kind in zip(names("attributes"), kinds)], names("outputs")


def files():
    """Of the descriptions, in the order in which they were loaded."""
    return list(_loaded)


def _files_of(path, description):
    library = description.get("library", [])
    return [path.parent / file for file in [*([library] if isinstance(library, str) else library), *description.get("cuda", [])]]


def _digest(path):
    """Of a description and the files that it names, as they are now; of what cannot be read the compiler says why."""
    try:
        text = path.read_bytes()
        digest = hashlib.sha256(text)
        for file in [] if _is_library(text) else _files_of(path, json.loads(text)):
            digest.update(file.read_bytes())
    except (OSError, ValueError, TypeError, AttributeError):
        return "unreadable"
    return digest.hexdigest()


def identity(others=None):
    """Tells apart what is compiled with one set of plug-ins and with another; "" without any. others: paths beside those loaded."""
    paths = [*_loaded, *([others] if isinstance(others, (str, os.PathLike)) else others or [])]
    return " ".join(f"{os.path.basename(path)} {_digest(pathlib.Path(path))}" for path in paths)


def _declared(name, schema):
    """The signature of an operator of torch.library."""
    inputs, attributes = [], []
    for argument in schema.arguments:
        kind = str(argument.type)
        if kind == "Tensor":
            inputs.append(argument.name)
        elif kind in _TORCH_KINDS:
            attributes.append((argument.name, _TORCH_KINDS[kind]))
        else:
            raise Error(f"the argument '{argument.name}' of {name} is of type {kind}, which no attribute of a node is; there are {', '.join(_TORCH_KINDS)}")
    return inputs, attributes, [f"y{i}" for i in range(len(schema.returns))]


def _translation(name, declared):
    """What the exporter calls in place of an operator: it writes one node. declared: its schema in torch."""
    import inspect

    import onnx
    import onnxscript

    inputs, attributes, outputs = _operators[name] or _declared(name, declared)
    domain, _, operator = name.partition("::")
    schema, parameter = onnx.defs.OpSchema, inspect.Parameter
    every = [f"tensor({kind})" for kind in (
        "float", "double", "float16", "bfloat16", "int8", "int16", "int32", "int64", "bool",
    )]  # fmt: skip
    stored = {
        int: schema.AttrType.INT, float: schema.AttrType.FLOAT, str: schema.AttrType.STRING,
        list[int]: schema.AttrType.INTS, list[float]: schema.AttrType.FLOATS,
    }  # fmt: skip
    node = onnxscript.values.Op(onnxscript.values.Opset(domain, 1), operator, schema(
        operator, domain, 1,
        inputs=[schema.FormalParameter(input, f"I{i}") for i, input in enumerate(inputs)],
        outputs=[schema.FormalParameter(output, f"O{i}") for i, output in enumerate(outputs)],
        type_constraints=[(f"I{i}", every, "") for i in range(len(inputs))] + [(f"O{i}", every, "") for i in range(len(outputs))],
        attributes=[schema.Attribute(attribute, stored[kind], required=False) for attribute, kind in attributes],
    ))  # fmt: skip

    def translate(*args, **kwargs):
        given = translate.__signature__.bind(*args, **kwargs).arguments
        set_attributes = {attribute: given[attribute] for attribute, _ in attributes if given.get(attribute) is not None}
        return node(*(given[input] for input in inputs), **set_attributes)

    translate.__signature__ = inspect.Signature(
        [parameter(input, parameter.POSITIONAL_OR_KEYWORD) for input in inputs]
        + [parameter(attribute, parameter.POSITIONAL_OR_KEYWORD, annotation=kind, default=None) for attribute, kind in attributes]
    )
    translate.__annotations__ = dict(attributes)
    translate.__name__ = operator
    return translate


def untranslated(name):
    """What to do about an operator of torch.library that no plug-in of this process has; "" of one that is loaded."""
    if name in _operators:
        return ""
    loaded = f"; those that were loaded have {', '.join(sorted(_operators))}" if _operators else ""
    return (
        f"{name} is an operator of its own, and no plug-in that was loaded has it{loaded}: give it to trainc.load_plugin "
        "(docs/plugins.md), or write it with other operations"
    )


def export_options():
    """For torch.onnx.export: how operators of torch.library that plug-ins have are written."""
    import torch

    table = {}
    for name in _operators:
        domain, _, operator = name.partition("::")
        packet = getattr(getattr(torch.ops, domain), operator, None)
        for overload in packet.overloads() if packet is not None else ():
            table[getattr(packet, overload)] = _translation(name, getattr(packet, overload)._schema)
    return {"custom_translation_table": table} if table else {}
