# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes data folders (docs/data.md, "Data folders") with numpy alone, as `trainc data` does.

  make_data_folder.py DIR --rows 100 --longest 64 --vocabulary 101 [--seed 0] [--shards 3]

writes random tokens: input_ids, labels (-100 for the first half of each row) and attention_mask. As a module: `write`.
"""

import argparse
import json
import pathlib
import zlib

import numpy as np

TYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "int8": "I8", "int16": "I16", "int32": "I32",
         "int64": "I64", "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64", "bool": "BOOL"}  # fmt: skip


def write_safetensors(path, arrays):
    """Larger elements first, so that all are aligned, as safetensors writes them."""
    header, offset, parts = {}, 0, []
    for name in sorted(arrays, key=lambda n: (-arrays[n].itemsize, n)):
        array = np.ascontiguousarray(arrays[name])
        header[name] = {"dtype": TYPES[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}  # fmt: skip
        offset += array.nbytes
        parts.append(array.tobytes())
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def write(folder, columns, shards=1):
    """columns: {name: (values, {"pad": ..., "offsets": ..., "constant": ...})}; values: a list of one-dimensional arrays
    (ragged), an array with a row for each row, or (of constants) None. Returns the index."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lists = {n: v for n, (v, _) in columns.items() if v is not None}
    rows = len(next(iter(lists.values())))
    index = {"format": "trainc-data", "version": 1, "rows": rows, "columns": {}, "shards": []}
    for name, (values, said) in columns.items():
        ragged = values is None or isinstance(values, list)
        dtype = said.get("dtype") or TYPES[(values[0] if ragged else values).dtype.name]
        entry = {"dtype": dtype, "ragged": ragged}
        if not ragged:
            entry["shape"] = list(values.shape[1:])
        index["columns"][name] = entry | said
    bounds = np.linspace(0, rows, shards + 1).astype(int)
    for number, (begin, end) in enumerate(zip(bounds[:-1], bounds[1:])):
        arrays = {}
        for name, values in lists.items():
            part = values[begin:end]
            if isinstance(values, list):
                group = columns[name][1].get("offsets", "offsets")
                arrays[group] = np.cumsum([0, *map(len, part)]).astype(np.int64)
                part = np.concatenate(part) if part else values[0][:0]
            arrays[name] = part
        file = folder / f"shard-{number:05d}.safetensors"
        write_safetensors(file, arrays)
        index["shards"].append({"file": file.name, "rows": int(end - begin), "size": file.stat().st_size,
                                "hash": f"{zlib.crc32(file.read_bytes()):08x}"})  # fmt: skip
    (folder / "index.json").write_text(json.dumps(index))
    return index


def random_columns(rows, longest, vocabulary, seed):
    random = np.random.default_rng(seed)
    lengths = random.integers(2, longest + 1, rows)
    ids = [random.integers(0, vocabulary, n).astype(np.int32) for n in lengths]
    labels = [np.where(np.arange(len(row)) < len(row) // 2, -100, row).astype(np.int32) for row in ids]
    return {"input_ids": (ids, {"pad": 0}), "labels": (labels, {"pad": -100}),
            "attention_mask": (None, {"dtype": "I8", "constant": 1, "pad": 0})}  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    for name, default in (("rows", 100), ("longest", 64), ("vocabulary", 101), ("seed", 0), ("shards", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    write(given.folder, random_columns(given.rows, given.longest, given.vocabulary, given.seed), given.shards)
