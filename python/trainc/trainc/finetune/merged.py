# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model's folder with trained weights: the base's files, names and types, other values."""

import json
import os
import pathlib
import shutil
import struct

import numpy as np

from ..errors import Error
from .exports import weight_files

_TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}
#: What belongs to a model beside its weights.
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt",
             "merges.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "chat_template.jinja", "chat_template.json")  # fmt: skip


def as_float32(array, dtype):
    if dtype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


def convert(array, dtype, wanted):
    """A flat array of floats in another type, rounded to the nearest, ties to even."""
    if dtype == wanted:
        return array
    if wanted == "F64" and dtype == "F32" or wanted in ("F32", "F16") and dtype == "F64":
        return array.astype(_TYPES[wanted])
    values = as_float32(array, dtype)
    if wanted != "BF16":
        return values.astype(_TYPES[wanted])
    bits = values.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


class Tensors:
    """A safetensors file, mapped: `header[name]` and `flat(name)`."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        self.metadata = header.pop("__metadata__", None)
        self.header = header
        self._data = np.memmap(path, np.uint8, "r", 8 + length) if header else np.empty(0, np.uint8)

    def raw(self, name):
        begin, end = self.header[name]["data_offsets"]
        return self._data[begin:end]

    def flat(self, name):
        return self.raw(name).view(_TYPES[self.header[name]["dtype"]])


def write(source, target, facts, trained):
    """The folder `target`: `source` with the values of the Tensors `trained`, converted to the base's types.

    facts: of the export (names that differ, tied ones, fresh ones, changes of the configuration).
    """
    source, target = pathlib.Path(source), pathlib.Path(target)
    ours = {theirs: name for name, theirs in facts["foreign"].items()}
    kept_config = facts["config"]
    files = weight_files(source)
    if not files:
        raise Error(f"{source}: there are no .safetensors files any more, whose layout the merged model would have")
    used, total, index = set(), 0, {}
    fresh = [name for name in facts["fresh"] if name in trained.header]
    for number, path in enumerate(files):
        base, entries, at = Tensors(path), {}, 0
        names = list(base.header)
        plan = []
        for name in names:
            entry = base.header[name]
            mine = _find(ours.get(name, name), facts, trained)
            if mine and trained.header[mine]["shape"] == entry["shape"] and entry["dtype"] in _TYPES:
                used.add(mine)
                plan.append((name, entry, mine))
            elif mine is None and facts.get("drops", False):
                continue  # of layers that the changed configuration does not have
            elif name in fresh:
                continue  # a head of another shape
            else:
                plan.append((name, entry, None))
        if number == len(files) - 1:
            for name in fresh:
                plan.append((name, trained.header[name], name))
                used.add(name)
        for name, entry, _ in plan:
            size = entry["data_offsets"][1] - entry["data_offsets"][0]
            entries[name] = {"dtype": entry["dtype"], "shape": entry["shape"], "data_offsets": [at, at + size]}
            index[name] = path.name
            at += size
        total += at
        text = json.dumps({"__metadata__": base.metadata or {"format": "pt"}, **entries}, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(target / path.name, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for name, entry, mine in plan:
                if mine is None:
                    file.write(base.raw(name))
                else:
                    values = convert(trained.flat(mine), trained.header[mine]["dtype"], entry["dtype"])
                    file.write(np.ascontiguousarray(values).view(np.uint8))
    if missing := [name for name in trained.header if name not in used]:
        raise Error(f"'{missing[0]}' was trained, and {source} has no such weight: its files are not those of the run")
    if (source / "model.safetensors.index.json").exists():
        old = json.loads((source / "model.safetensors.index.json").read_text())
        new = {"metadata": {**old.get("metadata", {}), "total_size": total}, "weight_map": index}
        (target / "model.safetensors.index.json").write_text(json.dumps(new, indent=2) + "\n")
    config = json.loads((source / "config.json").read_text())
    config.update(kept_config)
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if (source / "generation_config.json").exists():
        shutil.copyfile(source / "generation_config.json", target / "generation_config.json")


def _find(name, facts, trained):
    for candidate in (name, facts["tied"].get(name), name.removeprefix("language_model.")):
        if candidate in trained.header:
            return candidate
    return None


def copy_tokenizer(source, target, template=None):
    source, target = pathlib.Path(source), pathlib.Path(target)
    for name in TOKENIZER:
        if (source / name).exists():
            shutil.copyfile(source / name, target / name)
    if template:
        (target / "chat_template.jinja").write_text(template)


def replace_folder(fresh, target):
    """Moves a finished folder to its place; what was there goes."""
    target = pathlib.Path(target)
    old = target.with_name(f"{target.name}.{os.getpid()}.old")
    if target.exists():
        target.rename(old)
    pathlib.Path(fresh).rename(target)
    shutil.rmtree(old, ignore_errors=True)
