# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The graph of a run: of a folder of transformers, found in the cache or exported, or a file that is given."""

import dataclasses
import functools
import json
import pathlib
import shutil

import numpy as np

from .. import cache, tensors
from ..errors import Error


@dataclasses.dataclass(frozen=True)
class Graph:
    """What `export` of a model has told, as it is kept beside the graph."""

    path: pathlib.Path
    #: Of the exporter: count of numbers, dtype, parameters that no checkpoint has, names that differ there.
    facts: dict
    cached: bool
    #: Whether it is a file of the user's.
    given: bool = False


def locate(model):
    """The folder of a model: itself, or a snapshot of the hub's."""
    folder = pathlib.Path(model)
    if folder.is_dir():
        if not (folder / "config.json").exists():
            raise Error(f"{model}: there is no config.json in it; a model's folder has that, .safetensors files and the tokenizer")
        return folder.resolve()
    if folder.exists() or model.startswith((".", "/")) or model.count("/") != 1:
        raise Error(f"{model}: there is no such folder")
    try:
        from huggingface_hub import snapshot_download

        return pathlib.Path(snapshot_download(model, allow_patterns=["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]))
    except Exception as error:  # of many kinds: no network, no such name, no permission
        said = str(error).strip().splitlines()
        raise Error(f"{model}: no such folder, and the hub does not give it: {said[0] if said else type(error).__name__}") from None


def weight_files(folder):
    return sorted(folder.glob("*.safetensors"))


def _headers(folder):
    """Names, types and shapes of the weights: what an export depends on, but for their values."""
    return [[path.name, {name: [e["dtype"], e["shape"]] for name, e in tensors.Tensors(path).header.items()}]
            for path in weight_files(folder)]  # fmt: skip


def _key(folder, options):
    sources = [cache.hash_file(pathlib.Path(__file__).parents[1] / name) for name in ("pretrained.py", "decomposition.py", "preferences.py")]
    return cache.key(
        "pretrained", json.loads((folder / "config.json").read_text()), _headers(folder), options, sources,
        cache.versions("torch", "transformers", "onnxscript", "onnx-ir"),
    )  # fmt: skip


def begin(folder, options, tell, exporter):
    """Begins the export that `of_model` will ask for, if it has not begun, and is not in the cache."""
    if not exporter.begun and not (cache.folder() / _key(folder, options)).is_dir():
        tell("exporting the model (once; later runs find it in the cache)")
        exporter.begin(folder, options)


def of_model(folder, options, exporter):
    """The graph of a model's folder, with weights absent; options: of pretrained.export."""

    def make(entry):
        (entry / "export.json").write_text(json.dumps(exporter.export(folder, options, entry)))

    entry, cached = cache.get(_key(folder, options), make)
    return Graph(entry / "model.onnx", json.loads((entry / "export.json").read_text()), cached)


def of_file(path):
    path = pathlib.Path(path)
    if not path.is_file():
        raise Error(f"--graph {path}: there is no such file")
    return Graph(path, {"count": None, "dtype": None, "fresh": [], "foreign": {}, "tied": {}, "config": {}}, True, True)


def place(graph, run):
    """Makes the graph the run's: a copy, as the cache may forget it, with the new parameters' values; of a file that is
    given a link, as its weights may be beside it."""
    run.export.mkdir(parents=True, exist_ok=True)
    (run.export / "export.json").write_text(json.dumps(graph.facts))
    if graph.given:
        run.graph.symlink_to(graph.path.resolve())
        return
    shutil.copyfile(graph.path, run.graph)
    fresh = graph.path.with_name("fresh.safetensors")
    if fresh.exists():
        shutil.copyfile(fresh, run.export / fresh.name)


def weights(base, facts, folder):
    """Where trainc-run finds all parameters by the graph's names and types: the base's folder, or where it lacks some or has
    others, a folder of links to its files, and of copies where names or types differ. None: the folder has none."""
    if not weight_files(base):
        return None
    fresh, back = folder / "fresh.safetensors", {theirs: ours for ours, theirs in facts["foreign"].items()}
    wanted = tensors.names_of_type(facts["dtype"])
    files = {path: tensors.Tensors(path) for path in weight_files(base)}
    differs = wanted and any(e["dtype"] in tensors.TYPES and e["dtype"] != wanted for file in files.values() for e in file.header.values())
    if not back and not differs and not fresh.exists():
        return base
    target, index = folder / "weights", {}
    target.mkdir(exist_ok=True)
    for path, file in files.items():
        if back or differs:
            entries = []
            for name, entry in file.header.items():
                float_type = wanted if entry["dtype"] in tensors.TYPES else entry["dtype"]
                entries.append((back.get(name, name), float_type, entry["shape"], functools.partial(_as, file, name, float_type)))
            tensors.write(target / path.name, entries)
            index.update({name: path.name for name, *_ in entries})
        else:
            (target / path.name).symlink_to(path.resolve())
            index.update(dict.fromkeys(file.header, path.name))
    if fresh.exists():
        shutil.copyfile(fresh, target / fresh.name)
        index.update(dict.fromkeys(tensors.Tensors(fresh).header, fresh.name))
    (target / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    return target


def _as(file, name, dtype):
    entry = file.header[name]
    if entry["dtype"] == dtype:
        return file.raw(name)
    return np.ascontiguousarray(tensors.convert(file.flat(name), entry["dtype"], dtype)).view(np.uint8)
