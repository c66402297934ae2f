# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A folder of rows: safetensors files, mapped and never read whole, and index.json, written last (docs/data.md)."""

import errno
import hashlib
import json
import math
import os
import pathlib
import struct

import numpy as np

from ..errors import Error
from .tasks import Column

FORMAT, VERSION = "trainc-data", 1
TYPES = {"I8": np.int8, "I32": np.int32, "I64": np.int64, "F32": np.float32}


class Block:
    """Rows column by column: of ragged ones all values in a row and each row's length, of others an array."""

    def __init__(self, columns):
        self.columns = columns
        self.values = {name: [] for name, column in columns.items() if column.constant is None}
        self.lengths = {column.offsets: [] for column in columns.values() if column.ragged}
        self.rows = 0

    def add(self, row):
        """row: {column: array, or a number}."""
        lengths = {}
        for name, parts in self.values.items():
            column, value = self.columns[name], row[name]
            parts.append(value)
            if column.ragged and lengths.setdefault(column.offsets, len(value)) != len(value):
                raise ValueError(f"'{name}' has {len(value)} values in a row of {lengths[column.offsets]}")
        for group, length in lengths.items():
            self.lengths[group].append(length)
        self.rows += 1

    def joined(self):
        """(values by column, lengths by group) as arrays."""
        values = {}
        for name, parts in self.values.items():
            dtype = TYPES[self.columns[name].dtype]
            if self.columns[name].ragged:
                values[name] = np.concatenate(parts).astype(dtype, copy=False) if parts else np.empty(0, dtype)
            else:
                values[name] = np.asarray(parts, dtype)
        return values, {group: np.asarray(each, np.int64) for group, each in self.lengths.items()}


class Writer:
    """Writes blocks of rows to `folder`; holds no more than a shard of `shard_bytes` at a time."""

    def __init__(self, folder, columns, shard_bytes):
        self.folder, self.columns, self.shard_bytes = pathlib.Path(folder), columns, shard_bytes
        self.shards, self.rows = [], 0
        self._clear()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Without it the folder is none, until all is written anew.
            (self.folder / "index.json").unlink(missing_ok=True)
            for old in self.folder.glob("shard-*.safetensors"):
                old.unlink()
        except OSError as error:
            raise Error(f"{self.folder}: cannot be written: {error.strerror}") from None

    def _clear(self):
        self.values = {name: [] for name, column in self.columns.items() if column.constant is None}
        self.lengths = {column.offsets: [] for column in self.columns.values() if column.ragged}
        self.bytes, self.held = 0, 0

    def add(self, values, lengths):
        """A block's arrays, as `Block.joined` has them."""
        rows = len(next(iter(lengths.values())))
        for name, array in values.items():
            self.values[name].append(array)
            self.bytes += array.nbytes
        for group, array in lengths.items():
            self.lengths[group].append(array)
        self.held += rows
        if self.bytes >= self.shard_bytes:
            self.flush()

    def flush(self):
        if not self.held:
            return
        tensors = {}
        for group, parts in self.lengths.items():
            tensors[group] = np.concatenate([np.zeros(1, np.int64), *parts]).cumsum()
        for name, parts in self.values.items():
            tensors[name] = np.concatenate(parts)
        path = self.folder / f"shard-{len(self.shards):05d}.safetensors"
        size, digest = write_safetensors(path, tensors)
        self.shards.append({"file": path.name, "rows": self.held, "size": size, "hash": f"sha256:{digest}"})
        self.rows += self.held
        self._clear()

    def finish(self, more):
        """Writes index.json: from here on the folder is whole."""
        self.flush()
        index = {
            "format": FORMAT, "version": VERSION, "rows": self.rows,
            "columns": {name: column.describe() for name, column in self.columns.items()},
            "shards": self.shards, **more,
        }  # fmt: skip
        write_index(self.folder, index)
        return index


def write_index(folder, index):
    write_whole(pathlib.Path(folder) / "index.json", (json.dumps(index, indent=1, ensure_ascii=False) + "\n").encode())


def write_whole(path, content):
    """A file that is there whole or not at all."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(fresh, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise _unwritten(path, error) from None


def _unwritten(path, error, size=None):
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        needed = f", of {size / 1e6:.1f} MB," if size else ""
        return Error(
            f"{path}: no space is left for this file{needed} in {path.parent}; what is written there so far is no data "
            "folder: free some, or choose another folder"
        )
    return Error(f"{path}: cannot be written: {error.strerror or error}")


_NAMES = {np.dtype(dtype): name for name, dtype in TYPES.items()}


def write_safetensors(path, tensors):
    """Returns the file's size and SHA-256."""
    header, at = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    size = 8 + len(text) + at
    fresh = path.with_name(path.name + ".tmp")
    try:
        with open(fresh, "wb") as file:
            for part in (struct.pack("<Q", len(text)), text, *(np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in tensors.values())):
                digest.update(part)
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise _unwritten(path, error, size) from None
    return size, digest.hexdigest()


def map_safetensors(path):
    """{name: array}, mapped."""
    try:
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        data = np.memmap(path, np.uint8, "r", 8 + length) if os.path.getsize(path) > 8 + length else np.empty(0, np.uint8)
        found = {}
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                found[name] = data[begin:end].view(TYPES[entry["dtype"]]).reshape(entry["shape"])
        return found
    except (OSError, struct.error, ValueError, KeyError) as error:
        raise Error(f"{path}: no safetensors file of a data folder: {error}") from None


class Folder:
    """A folder that was written, read row by row."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        file = self.path / "index.json"
        try:
            self.index = json.loads(file.read_text())
        except OSError:
            raise Error(f"{self.path}: there is no index.json: writing the folder was not finished, or it is none of `trainc data`") from None
        except ValueError as error:
            raise Error(f"{file}: no JSON: {error}") from None
        if not isinstance(self.index, dict) or self.index.get("format") != FORMAT:
            raise Error(f"{file}: 'format' is not {FORMAT}")
        if self.index.get("version") != VERSION:
            raise Error(f"{file}: of version {self.index.get('version')}; this one reads version {VERSION}")
        self.rows = self.index["rows"]
        self.columns = {
            name: Column(c["dtype"], c.get("pad", 0), c["ragged"], c.get("constant"), c.get("offsets", "offsets"))
            for name, c in self.index["columns"].items()
        }
        self.shards = [map_safetensors(self.path / shard["file"]) for shard in self.index["shards"]]
        self.begins = np.cumsum([0, *(shard["rows"] for shard in self.index["shards"])])

    def lengths(self, group="offsets"):
        return np.concatenate([np.diff(shard[group]) for shard in self.shards]) if self.shards else np.empty(0, np.int64)

    def row(self, number):
        shard = int(np.searchsorted(self.begins, number, "right")) - 1
        tensors, at = self.shards[shard], number - self.begins[shard]
        found = {}
        for name, column in self.columns.items():
            if not column.ragged:
                found[name] = tensors[name][at]
                continue
            begin, end = tensors[column.offsets][at : at + 2]
            if column.constant is not None:
                found[name] = np.full(end - begin, column.constant, TYPES[column.dtype])
            else:
                found[name] = tensors[name][begin:end]
        return found

    def __len__(self):
        return self.rows

    def __iter__(self):
        return (self.row(number) for number in range(self.rows))


def add_columns(path, columns):
    """Gives every row of a folder a number more, `columns` by name; shards are written anew, one after the other."""
    folder = Folder(path)
    shards = []
    for shard, tensors, begin, end in zip(folder.index["shards"], folder.shards, folder.begins, folder.begins[1:]):
        tensors = {**tensors, **{name: values[begin:end] for name, values in columns.items()}}
        size, digest = write_safetensors(folder.path / shard["file"], tensors)
        shards.append({**shard, "size": size, "hash": f"sha256:{digest}"})
    described = {name: Column("F32", ragged=False).describe() for name in columns}
    write_index(folder.path, {**folder.index, "columns": {**folder.index["columns"], **described}, "shards": shards})


def summarize(lengths):
    """What a report says of the lengths of rows."""
    if not len(lengths):
        return {}
    values = np.sort(lengths)
    at = lambda share: int(values[min(len(values) - 1, math.ceil(share * len(values)) - 1 if share else 0)])
    return {"least": int(values[0]), "median": at(0.5), "mean": round(float(values.mean()), 1), "p90": at(0.9),
            "p99": at(0.99), "most": int(values[-1])}  # fmt: skip
