#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cuts a text into windows of characters: train.npz, valid.npz and vocabulary.json.

  prepare_data.py devil.dict.dz OUT [--context 128 --train 40000 --valid 250]

The last tenth of the text is held out. Training windows begin at random places (fixed seed), in the
order in which they are used, so that everyone who reads the file sees the same batches. Ids are
stored as bytes. Python's standard library only.
"""

import argparse
import gzip
import json
import pathlib
import random
import re
import struct
import zipfile


def read_text(path):
    """The text without the dictionary's headers, far indentation shortened."""
    data = pathlib.Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    text = data.decode("utf-8", "replace").replace("\r", "").replace("\t", " ")
    start = text.find("PREFACE")
    text = text[max(start, 0) :]
    lines = [re.sub(" {8,}", " " * 8, line.rstrip()) for line in text.split("\n")]
    return "\n".join(lines)


def vocabulary_of(text):
    """The characters used at least 20 times, sorted; all others become a space."""
    counts = {}
    for character in text:
        counts[character] = counts.get(character, 0) + 1
    return sorted(c for c, n in counts.items() if n >= 20)


def write_npz(path, arrays):
    """Writes {name: (shape, bytes)} of uint8 arrays, stored uncompressed."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, (shape, data) in arrays.items():
            header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}"
            header += " " * (63 - (10 + len(header)) % 64) + "\n"
            prefix = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
            # A fixed date makes the file the same every time.
            entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            archive.writestr(entry, prefix + header.encode() + data)


def windows(ids, starts, context):
    """Inputs and labels (the next character) of the windows that begin at `starts`."""
    shape = (len(starts), context)
    return {
        "input_ids": (shape, b"".join(ids[s : s + context] for s in starts)),
        "labels": (shape, b"".join(ids[s + 1 : s + 1 + context] for s in starts)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--train", type=int, default=40000, help="windows")
    parser.add_argument("--valid", type=int, default=250, help="windows at most")
    arguments = parser.parse_args()
    text = read_text(arguments.text)
    vocabulary = vocabulary_of(text)
    index = {c: i for i, c in enumerate(vocabulary)}
    ids = bytes(index.get(c, index[" "]) for c in text)
    cut = len(ids) * 9 // 10
    train, valid = ids[:cut], ids[cut:]
    draw = random.Random(1)
    limit = len(train) - arguments.context - 1
    starts = [int(draw.random() * limit) for _ in range(arguments.train)]
    held = range(0, len(valid) - arguments.context - 1, arguments.context)[: arguments.valid]
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_npz(arguments.out / "train.npz", windows(train, starts, arguments.context))
    write_npz(arguments.out / "valid.npz", windows(valid, list(held), arguments.context))
    (arguments.out / "vocabulary.json").write_text(json.dumps("".join(vocabulary)) + "\n")
    print(
        f"{len(ids)} characters, {len(vocabulary)} different; {len(starts)} windows of "
        f"{arguments.context} to train on, {len(held)} held out"
    )


if __name__ == "__main__":
    main()
