# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The graph of a run: of a folder of transformers, found in the cache or exported, or a file that is given."""

import dataclasses
import importlib.metadata
import json
import pathlib
import shutil
import struct

from .. import cache
from ..errors import Error


@dataclasses.dataclass(frozen=True)
class Graph:
    """What `export` of a model has told, as it is kept beside the graph."""

    path: pathlib.Path
    #: Of the exporter: count of numbers, dtype, parameters that no checkpoint has, names that differ there.
    facts: dict
    cached: bool


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
    return [[path.name, {name: [e["dtype"], e["shape"]] for name, e in _header(path)[0].items()}] for path in weight_files(folder)]


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def of_model(folder, options, tell):
    """The graph of a model's folder, with weights absent; options: of pretrained.export."""
    sources = [cache.hash_file(pathlib.Path(__file__).parents[1] / name) for name in ("pretrained.py", "preferences.py")]
    key = cache.key(
        "pretrained", json.loads((folder / "config.json").read_text()), _headers(folder), options, sources,
        [_version(name) for name in ("torch", "transformers", "onnxscript", "onnx-ir")],
    )  # fmt: skip

    def make(entry):
        tell("exporting the model (once; later runs find it in the cache)")
        try:
            from .. import pretrained
        except ModuleNotFoundError as error:
            raise Error(f"exporting a model needs PyTorch, transformers, onnx and onnxscript ({error.name} is missing): "
                        "pip install 'trainc[hf]'; --graph MODEL.onnx needs none of them") from None  # fmt: skip
        exported = pretrained.export(folder, entry / "model.onnx", absent=True, **options)
        (entry / "export.json").write_text(json.dumps({
            "count": exported.count, "dtype": str(exported.dtype).removeprefix("torch."), "fresh": exported.fresh,
            "foreign": exported.foreign, "tied": exported.tied, "config": exported.config,
        }))  # fmt: skip

    entry, cached = cache.get(key, make)
    return Graph(entry / "model.onnx", json.loads((entry / "export.json").read_text()), cached)


def of_file(path):
    path = pathlib.Path(path)
    if not path.is_file():
        raise Error(f"--graph {path}: there is no such file")
    return Graph(path, {"count": None, "dtype": None, "fresh": [], "foreign": {}, "tied": {}, "config": {}}, True)


def place(graph, folder):
    """Copies the graph into the run's folder: the cache may forget it."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "model.onnx"
    for name in ("model.onnx", "fresh.safetensors"):
        source = graph.path.with_name(name) if name != "model.onnx" else graph.path
        if source.exists():
            shutil.copyfile(source, folder / name)
    (folder / "export.json").write_text(json.dumps(graph.facts))
    return target


def weights(base, facts, folder):
    """Where trainc-run finds all parameters by the graph's names: the base's folder, or where it lacks some or has other
    names, a folder of links to its files and copies of what differs."""
    fresh = folder / "fresh.safetensors"
    if not facts["foreign"] and not fresh.exists():
        return base
    target = folder / "weights"
    target.mkdir(exist_ok=True)
    if facts["foreign"]:
        index = dict.fromkeys(_rename_weights(base, facts["foreign"], target / "renamed.safetensors"), "renamed.safetensors")
    else:
        index = {}
        for path in weight_files(base):
            (target / path.name).symlink_to(path.resolve())
            index.update(dict.fromkeys(_header(path)[0], path.name))
    if fresh.exists():
        shutil.copyfile(fresh, target / fresh.name)
        index.update(dict.fromkeys(_header(fresh)[0], fresh.name))
    (target / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    return target


def _header(path):
    """({name: entry}, where the data begins)"""
    try:
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
    except (OSError, struct.error, ValueError, MemoryError, OverflowError) as error:
        raise Error(f"{path}: no safetensors file: {error}") from None
    header.pop("__metadata__", None)
    return header, 8 + length


def _rename_weights(folder, foreign, target):
    """The weights under the graph's names, where a checkpoint of the base model has others; copied in pieces."""
    back = {theirs: ours for ours, theirs in foreign.items()}
    parts, header, at = [], {}, 0
    for path in weight_files(folder):
        entries, first = _header(path)
        for name, entry in entries.items():
            begin, end = entry["data_offsets"]
            header[back.get(name, name)] = {**entry, "data_offsets": [at, at + end - begin]}
            parts.append((path, first + begin, end - begin))
            at += end - begin
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(target, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for path, begin, size in parts:
            with open(path, "rb") as file:
                file.seek(begin)
                while size:
                    block = file.read(min(size, 1 << 22))
                    out.write(block)
                    size -= len(block)
    return header
