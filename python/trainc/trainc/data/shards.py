# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A folder of rows: safetensors files, mapped and never read whole, and index.json, written last (docs/data.md)."""

import hashlib
import json
import math
import pathlib

import numpy as np

from .. import files, tensors
from ..errors import Error
from ..tensors import ARRAYS
from .tasks import Column

FORMAT, VERSION = "trainc-data", 1


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
            dtype = ARRAYS[self.columns[name].dtype]
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
            raise files.unwritten(self.folder, error) from None

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
        arrays = {}
        for group, parts in self.lengths.items():
            arrays[group] = np.concatenate([np.zeros(1, np.int64), *parts]).cumsum()
        for name, parts in self.values.items():
            arrays[name] = np.concatenate(parts)
        path = self.folder / f"shard-{len(self.shards):05d}.safetensors"
        size, digest = tensors.write_arrays(path, arrays)
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
    files.write_whole(pathlib.Path(folder) / "index.json", [(json.dumps(index, indent=1, ensure_ascii=False) + "\n").encode()])


class Folder:
    """A folder that was written, read row by row. Opening it looks at sizes and headers of its shards; `check` reads all."""

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
        try:
            self.rows = self.index["rows"]
            self.columns = {
                name: Column(c["dtype"], c.get("pad", 0), c["ragged"], c.get("constant"), c.get("offsets", "offsets"))
                for name, c in self.index["columns"].items()
            }
            self.begins = np.cumsum([0, *(shard["rows"] for shard in self.index["shards"])])
            self.shards = [self._open(shard) for shard in self.index["shards"]]
        except (KeyError, TypeError, AttributeError) as error:
            raise Error(f"{file}: lacks what a folder of `trainc data` says: {error}") from None
        if self.rows != self.begins[-1]:
            raise Error(f"{file}: 'rows' is {self.rows}, and its shards have {self.begins[-1]} rows")

    def _open(self, shard):
        path = self.path / shard["file"]
        arrays = tensors.Tensors(path).arrays()
        if (size := path.stat().st_size) != shard["size"]:
            raise Error(f"{path}: the file has {size} bytes, and index.json says {shard['size']}")
        for name, column in self.columns.items():
            for key in ([column.offsets] if column.ragged else []) + ([name] if column.constant is None else []):
                if key not in arrays:
                    raise Error(f"{path}: '{key}' is missing, which index.json says")
            count = len(arrays[column.offsets]) - 1 if column.ragged else len(arrays[name])
            if count != shard["rows"]:
                raise Error(f"{path}: '{name}' has {count} rows, and index.json says {shard['rows']}")
        return arrays

    def check(self):
        """Reads all: raises Error where a shard is not what was written."""
        for shard in self.index["shards"]:
            path = self.path / shard["file"]
            digest = hashlib.sha256()
            with open(path, "rb") as file:
                while part := file.read(1 << 20):
                    digest.update(part)
            if (found := f"sha256:{digest.hexdigest()}") != shard.get("hash"):
                raise Error(f"{path}: its bytes are not those that were written (its hash is {found}): write the folder again")

    def lengths(self, group="offsets"):
        return np.concatenate([np.diff(shard[group]) for shard in self.shards]) if self.shards else np.empty(0, np.int64)

    def row(self, number):
        shard = int(np.searchsorted(self.begins, number, "right")) - 1
        arrays, at = self.shards[shard], number - self.begins[shard]
        found = {}
        for name, column in self.columns.items():
            if not column.ragged:
                found[name] = arrays[name][at]
                continue
            begin, end = arrays[column.offsets][at : at + 2]
            if column.constant is not None:
                found[name] = np.full(end - begin, column.constant, ARRAYS[column.dtype])
            else:
                found[name] = arrays[name][begin:end]
        return found

    def __len__(self):
        return self.rows

    def __iter__(self):
        return (self.row(number) for number in range(self.rows))


def add_columns(path, columns):
    """Gives every row of a folder a number more, `columns` by name; shards are written anew, one after the other."""
    folder = Folder(path)
    shards = []
    for shard, arrays, begin, end in zip(folder.index["shards"], folder.shards, folder.begins, folder.begins[1:]):
        arrays = {**arrays, **{name: values[begin:end] for name, values in columns.items()}}
        size, digest = tensors.write_arrays(folder.path / shard["file"], arrays)
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
