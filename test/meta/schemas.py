#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""schemas.py SCHEMAS NAME=FILE...: what the tools have written is what docs/schemas says, and the schemas say no more.

NAME is a schema, FILE has objects of it: one, or one a line. An object with a key that its schema lacks is a finding, and so is a
property of a schema that no object has shown, unless RARE says why. The part of JSON Schema that the files use is checked here.
"""

import json
import pathlib
import re
import sys

#: Properties that the files of the test need not have, as the cases cost seconds.
RARE = {
    "report": {"without_recompute", "host_bytes"},
    "remark": {"suggestion", "metrics"},
    "profile": {"waited_ms"},
    "log": {"pad", "message", *"total parameters state gradients arena arena_lower_bound inputs outputs scratch mapped driver pinned".split()},
    "manifest": {"uniform", "normal", "norms_of", "axis", "plugins", "counts", "shift", "value", "run", "size", "head_fnv1a64", "tail_fnv1a64", "pad", "updated", "layer_decay", "freeze", "absent"},
    "plugin": {"cuda", "kernel", "grid", "block", "shared", "arguments", "attributes", "no_gradient"},
}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
KEYWORDS = {"$schema", "$defs", "$ref", "title", "description", "type", "properties", "required", "additionalProperties", "items", "minItems", "maxItems", "enum", "const", "pattern", "minimum", "oneOf"}  # fmt: skip


def is_of(value, kind):
    if kind in ("integer", "number"):
        return isinstance(value, int if kind == "integer" else (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[kind])


class Schema:
    def __init__(self, path):
        self.root, self.seen, self.known = json.loads(path.read_text()), set(), set()
        self.collect(self.root)

    def collect(self, schema):
        """Names of all properties; keywords that are not checked here must not be there."""
        assert schema.keys() <= KEYWORDS, schema.keys() - KEYWORDS
        self.known |= schema.get("properties", {}).keys()
        inner = [*schema.get("properties", {}).values(), *schema.get("oneOf", []), *schema.get("$defs", {}).values()]
        for part in (*inner, *(schema[key] for key in ("items", "additionalProperties") if key in schema)):
            self.collect(part)

    def problems(self, value, schema, place):
        """What is wrong with a value, as texts; `self.seen` gets the properties that it has."""
        if "$ref" in schema:
            schema = self.root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
        if "oneOf" in schema:
            tried = [list(self.problems(value, part, place)) for part in schema["oneOf"]]
            if sum(not found for found in tried) != 1:
                yield f"{place}: is {sum(not found for found in tried)} of {len(tried)} kinds: {min(tried, key=len)[:1]}"
            return
        if "type" in schema and not any(is_of(value, kind) for kind in ([schema["type"]] if isinstance(schema["type"], str) else schema["type"])):
            yield f"{place}: {value!r} is no {schema['type']}"
            return
        if value not in schema.get("enum", [value]) or value != schema.get("const", value):
            yield f"{place}: {value!r} is not {schema.get('enum', schema.get('const'))!r}"
        if "minimum" in schema and value is not None and value < schema["minimum"]:
            yield f"{place}: {value} is below {schema['minimum']}"
        if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
            yield f"{place}: {value!r} does not match {schema['pattern']}"
        if isinstance(value, list):
            if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
                yield f"{place}: has {len(value)} elements"
            for i, element in enumerate(value):
                yield from self.problems(element, schema.get("items", {}), f"{place}[{i}]")
        if isinstance(value, dict) and ("properties" in schema or "additionalProperties" in schema):
            yield from (f"{place}: lacks {name}" for name in schema.get("required", []) if name not in value)
            for name, element in value.items():
                part = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
                if part is None:
                    yield f"{place}: has {name}, which the schema lacks"
                else:
                    self.seen |= {name} & schema.get("properties", {}).keys()
                    yield from self.problems(element, part, f"{place}.{name}")


def objects(path):
    text = path.read_text()
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


def main():
    folder, findings, count = pathlib.Path(sys.argv[1]), [], 0
    schemas = {path.name.removesuffix(".schema.json"): Schema(path) for path in sorted(folder.glob("*.schema.json"))}
    for argument in sys.argv[2:]:
        name, _, file = argument.partition("=")
        for number, value in enumerate(objects(pathlib.Path(file))):
            count += 1
            findings += schemas[name].problems(value, schemas[name].root, f"{name}, {pathlib.Path(file).name} {number}")
    for name, schema in schemas.items():
        missing = schema.known - schema.seen - RARE.get(name, set())
        findings += [f"{name}: nothing shows {', '.join(sorted(missing))}"] * bool(missing)
    print("\n".join(findings[:20]) or f"{count} objects of {len(schemas)} schemas, no finding")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
