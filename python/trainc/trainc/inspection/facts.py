# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the page shows, as one object for JSON: nodes by layer, functions with their commands and buffers, decisions."""

import math
import re

from ..errors import OptionError
from . import costs, layers
from .program import FORMS

#: Sizes that nothing gives: of the batch, and of any other axis.
BATCH, OTHER = 8, 128
#: Where the runtime lets buffers of the arena begin (format/memory), by target.
ALIGNMENT = {"cpu": 64, "cuda": 256}
#: Of commands that are no kernels of the package.
CLASSES = {"gemm": "matmul", "attention": "attention", "convolution": "convolution", "copy": "copy", "collective": "exchange"}
#: The program's names of what an update is of.
UPDATE = re.compile(r"/update$")


def choose_sizes(manifest, program, given):
    """{symbol: number}: what was given, else sizes that the package allows; counts are of batches in which everything counts."""
    axes = [symbol for symbol in program.symbols if not symbol["counts"] and not symbol["run"]]
    names = [symbol["name"] for symbol in axes]
    if unknown := sorted(set(given) - set(names)):
        raise OptionError(f"--size {unknown[0]}: the package has no such size; it has {', '.join(names) or 'fixed ones only'}")
    sizes = {symbol["name"]: 1 if symbol["run"] == 1 else 0 for symbol in program.symbols}  # world 1, rank 0
    for symbol in axes:
        name, step = symbol["name"], symbol["divisor"]
        least = max(symbol["min"], step)
        most = symbol["max"] if symbol["max"] > 0 else 2**63 - 1
        wanted = given.get(name, max(least, min(most, BATCH if name == manifest.get("batch_symbol") else OTHER) // step * step))
        if name in given and (not symbol["min"] <= wanted <= most or wanted % step):
            bounds = f"{symbol['min']} or more" if most == 2**63 - 1 else f"{symbol['min']} to {most}"
            raise OptionError(f"--size {name}={wanted}: it is {bounds}" + (f", a multiple of {step}" if step > 1 else ""))
        sizes[name] = wanted
    values = program.values(sizes)
    for symbol in program.symbols:
        if symbol["counts"]:
            elements = math.prod(values[i] for i in program.tensors["input"][symbol["input"]][2])
            sizes[symbol["name"]] = max(symbol["min"], math.ceil(elements / symbol["divisor"]) * symbol["divisor"])
    return sizes


def command_name(program, command, values):
    if command.kernels:
        return program.kernels[command.kernels[0]]
    if command.kind == "gemm":
        return f"gemm {'x'.join(str(values[i]) for i in command.sizes[:3])}"
    if command.kind == "external":
        return f"external {program.externals[command.op.number(0, 'I')]}"
    return command.kind


def command_class(function, index):
    """As trainc-run --profile has them (runtime/src/format/commands)."""
    command = function.commands[index]
    if command.kind != "launch":
        return CLASSES.get(command.kind, "other")
    form = FORMS[command.op.number(1, "B")]
    if form == "product":
        return "matmul"
    written = {function.buffers[buffer].space for buffer, _, access in command.operands if access >= 2}
    if 0 <= function.backward_end <= index or (form == "pointwise" and "parameter" in written):
        return "optimizer"
    return form or "other"


def part_of(function, index):
    if function.forward_end < 0:
        return ""
    return "forward" if index < function.forward_end else "backward" if index < function.backward_end else "update"


def in_use(buffers, values, commands, alignment):
    """Bytes of the arena that are in use while each command runs, each buffer with what fills its last part."""
    change = [0] * (commands + 1)
    for buffer in buffers:
        if buffer.space == "arena":
            padded = -(-values[buffer.bytes] // alignment) * alignment
            change[min(buffer.first, commands)] += padded
            change[min(buffer.last + 1, commands)] -= padded
    now, live = 0, []
    for difference in change[:commands]:
        now += difference
        live.append(now)
    return live


def describe(function, program, values, times):
    """One function: its commands in order, its buffers, what is in use. `times`: {command: line of the profile}."""
    commands = []
    for index, command in enumerate(function.commands):
        part = part_of(function, index)
        moved, flop = costs.of(command, values)
        measured = times.get(index, {})
        commands.append({
            "n": measured.get("name") or command_name(program, command, values), "k": measured.get("class") or command_class(function, index),
            "p": part, "o": list(command.nodes), "b": measured.get("bytes", moved), "f": measured.get("flops", flop), "t": measured.get("ms"),
            "u": [[buffer, access] for buffer, _, access in command.operands if access],
        })  # fmt: skip
    buffers = []
    for buffer in function.buffers:
        named = program.tensors.get(buffer.space)
        name = named[buffer.index][0] if named and 0 <= buffer.index < len(named) else buffer.label
        arena = buffer.space in ("arena", "host")
        buffers.append([buffer.space, name, values[buffer.bytes], buffer.first if arena else -1, buffer.last if arena else -1])
    return {
        "name": function.name, "variant": function.variant_of, "commands": commands, "buffers": buffers,
        "live": in_use(function.buffers, values, len(commands), ALIGNMENT[program.target]),
    }  # fmt: skip


def of_commands(program):
    """[(node, [parameter])] of a package without its model: what commands read tells of which layer a node is."""
    found = {}
    for function in program.functions[:1]:
        for command in function.commands[: max(function.forward_end, 0) or None]:
            read = [function.buffers[b] for b, _, access in command.operands if access == 1]
            parameters = [program.tensors["parameter"][b.index][0] for b in read if b.space == "parameter"]
            for node in command.nodes:
                found.setdefault(program.nodes[node], []).extend(parameters)
    return list(found.items())


def make(manifest, program, sizes, nodes, remarks, profile):
    """The object. `nodes`: of graph.read, or None; `remarks`: objects of trainc --remarks, or None; `profile`: of trainc-run --profile, or None."""
    values = program.values(sizes)
    times = {}
    for line in profile or ():
        times.setdefault(line["function"], {})[line["command"]] = line
    listed = [(n.name, n.parameters) for n in nodes] if nodes is not None else of_commands(program)
    paths = layers.assign(listed)
    number = {}
    for index, (name, _) in enumerate(listed):
        number.setdefault(name, index)
    shown = [
        {"n": name, "o": nodes[i].op if nodes else "", "y": nodes[i].type if nodes else "", "i": nodes[i].reads if nodes else [], "w": parameters, "x": nodes[i].inputs if nodes else [], "l": path}
        for i, ((name, parameters), path) in enumerate(zip(listed, paths))
    ]  # fmt: skip
    # What kernels compute besides: updates of parameters, and nodes that the model does not name.
    renumbered = []
    for name in program.nodes:
        if name not in number:
            number[name] = len(shown)
            update = UPDATE.search(name)
            path = layers.of_parameter(UPDATE.sub("", name)) if update else ()
            shown.append({"n": name, "o": "update" if update else "", "y": "", "i": [], "w": [], "x": [], "l": path})
        renumbered.append(number[name])
    functions = [describe(f, program, values, times.get(f.name, {})) for f in program.functions]
    for function in functions:
        for command in function["commands"]:
            command["o"] = [renumbered[node] for node in command["o"]]
    return {
        "model": manifest.get("model", ""), "kind": manifest.get("kind", ""), "targets": manifest.get("targets", []), "producer": manifest.get("producer", ""),
        "command": manifest.get("options", {}).get("command", ""), "optimizer": manifest.get("optimizer"), "sizes": sizes,
        "parameters": [[name, kind, [values[i] for i in shape]] for name, kind, shape in program.tensors["parameter"]],
        "has": {"graph": nodes is not None, "decisions": remarks is not None, "times": profile is not None},
        "nodes": shown, "functions": functions, "decisions": remarks or [],
    }  # fmt: skip
