# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model's folder with trained weights: the base's files, names and types, other values."""

import functools
import json
import os
import pathlib
import shutil

import numpy as np

from .. import tensors
from ..errors import Error
from .exports import weight_files

#: What belongs to a model beside its weights.
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt",
             "merges.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "chat_template.jinja", "chat_template.json")  # fmt: skip


def write(source, target, facts, trained, trainable):
    """The folder `target`: `source` with the values of the Tensors `trained`, converted to the base's types.

    facts: of the export (names that differ, tied ones, fresh ones, changes of the configuration). trainable: parameters that
    have to have a place there; others, as buffers, may be the graph's own.
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
        base, plan = tensors.Tensors(path), []
        for name, entry in base.header.items():
            mine = _find(ours.get(name, name), facts, trained)
            if mine and trained.header[mine]["shape"] == entry["shape"] and entry["dtype"] in tensors.TYPES:
                used.add(mine)
                plan.append((name, entry, mine))
            elif mine is None and facts["drops"]:
                continue  # of layers that the changed configuration does not have
            elif name in fresh:
                continue  # a head of another shape
            else:
                plan.append((name, entry, None))
        if number == len(files) - 1:
            for name in fresh:
                plan.append((name, trained.header[name], name))
                used.add(name)
        entries = []
        for name, entry, mine in plan:
            content = functools.partial(_converted, trained, mine, entry["dtype"]) if mine else functools.partial(base.raw, name)
            entries.append((name, entry["dtype"], entry["shape"], content))
            index[name] = path.name
        total += tensors.write(target / path.name, entries)
    if missing := [name for name in trained.header if name not in used and name in trainable]:
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


def _converted(trained, name, dtype):
    return np.ascontiguousarray(tensors.convert(trained.flat(name), trained.header[name]["dtype"], dtype)).view(np.uint8)


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
