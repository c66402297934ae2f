# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`trainc inspect MODEL.onnx|PACKAGE -o page.html`."""

import argparse
import json
import pathlib
import re
import struct
import sys
import tempfile

from .. import compiler
from ..errors import Error, OptionError
from . import facts, graph, page, program

HELP = """Makes one page that shows what became of a model: its graph by layer down to kernels, each kernel with its ONNX nodes, time,
bytes and memory, the arena over time, the decisions of passes with their reasons, and the IR of each phase.

  trainc inspect model.onnx -o page.html --target cpu --lr 1e-3          compiles; other options are the compiler's
  trainc inspect model.tpk -o page.html --profile times.json             what the package knows, with times of trainc-run --profile

The page is one file and loads nothing. A package has no graph and no decisions; compiled with --embed-ir it has IR.
"""
SIZE = re.compile(r"([^=]+)=([0-9]+)")


def size(text):
    found = SIZE.fullmatch(text)
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=NUMBER")
    return found[1], int(found[2])


def parser():
    made = argparse.ArgumentParser(
        prog="trainc inspect", usage="trainc inspect MODEL.onnx|PACKAGE [-o FILE] [options]", description=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    made.add_argument("model", metavar="MODEL.onnx|PACKAGE")
    made.add_argument("-o", "--output", metavar="FILE", type=pathlib.Path, help="the page (default: MODEL.html)")
    made.add_argument("--size", metavar="NAME=N", action="append", type=size, default=[], help="a size that bytes and memory are for (default: batch 8, others 128, as far as the model has such)")
    made.add_argument("--profile", metavar="FILE", type=pathlib.Path, help="what trainc-run --profile FILE has written: the time of each command")
    return made


def read_lines(path, what):
    """The objects of a file of JSON lines."""
    try:
        return [json.loads(line) for line in path.read_text().splitlines() if line]
    except FileNotFoundError:
        raise Error(f"{path}: no such file") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Error(f"{path}: is not {what}: {error}") from None


def read_profile(path, read):
    lines = read_lines(path, "a file of trainc-run --profile")
    commands = {function.name: function.commands for function in read.functions}
    for line in lines:
        if not isinstance(line, dict) or not {"function", "command", "name", "class", "ms"} <= line.keys():
            raise Error(f"{path}: is not a file of trainc-run --profile")
        own = commands.get(line["function"], [])
        if line["command"] >= len(own):
            raise Error(f"{path}: has command {line['command']} of '{line['function']}', which the package has not: it is of another one")
        nodes = [read.nodes[node] for node in own[line["command"]].nodes]
        if line.get("nodes", nodes) != nodes:
            raise Error(f"{path}: command {line['command']} of '{line['function']}' is of other nodes of the model than in the package: it is of another one")
    return lines


def compiled(model, options, folder):
    """(package, graph's nodes, decisions, IR by phase) of a model."""
    package, ir, remarks = folder / "model.tpk", folder / "ir", folder / "remarks.jsonl"
    _, log = compiler.run([model, "-o", package, "--save-ir", ir, "--remarks", remarks, *options])
    for line in log:
        compiler.warn(line)
    phases = {path.stem: path.read_text(errors="replace") for path in sorted(ir.glob("*.mlir"))}
    return program.read(package), graph.read(phases["1-import"]), read_lines(remarks, "a file of remarks"), phases


def main(arguments):
    said, options = parser().parse_known_args(arguments)
    model = pathlib.Path(said.model)
    if model.is_dir() and not (model / "training_model.onnx").is_file():
        raise Error(f"{model}: is a folder, and has no training_model.onnx, as training artifacts of ONNX Runtime do")
    if not model.exists():
        raise Error(f"{model}: no such file")
    output = said.output or (model.resolve() if model.is_dir() else model).with_suffix(".html")
    if model.is_file() and output.exists() and output.samefile(model):
        raise OptionError(f"-o {output}: is the file that is read")
    with tempfile.TemporaryDirectory(prefix="trainc-") as folder:
        if model.is_file() and program.is_package(model):
            if options:
                raise OptionError(f"{options[0]}: a package is compiled already; trainc inspect MODEL.onnx takes options of the compiler")
            (manifest, read, ir), nodes, remarks = program.read(model), None, None
            phases = {"embedded": ir} if ir is not None else {}
        else:
            (manifest, read, _), nodes, remarks, phases = compiled(model, options, pathlib.Path(folder))
            manifest["options"] = {"command": " ".join(["trainc", str(model), *options])}
    profile = read_profile(said.profile, read) if said.profile else None
    sizes = facts.choose_sizes(manifest, read, dict(said.size))
    try:
        made = facts.make(manifest, read, sizes, nodes, remarks, profile)
    except (IndexError, struct.error) as error:  # numbers that lead nowhere
        raise Error(f"{model}: is a damaged package: {error}") from None
    text = page.make(made, phases)
    output.write_text(text)
    print(f"trainc: wrote {output} ({len(text) / 1e6:.1f} MB)", file=sys.stderr)
    return 0
