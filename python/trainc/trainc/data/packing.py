# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several documents in a row: best-fit decreasing (D. S. Johnson, 1973), and rows with segments and positions."""

import bisect

import numpy as np

from .shards import Block, Folder, Writer
from .tasks import IGNORED, Column


def best_fit_decreasing(lengths, capacity):
    """Lists of documents, each of at most `capacity` tokens together.

    The longest first, each into the fullest row that still has room; rows are in the order of their first document.
    """
    if len(lengths) and int(lengths.max()) > capacity:
        raise ValueError(f"a document of {int(lengths.max())} tokens in rows of {capacity}")
    order = np.argsort(-lengths, kind="stable")
    rows = []
    #: {room that is left: rows with that}, and its keys in order.
    by_room, rooms = {}, []
    for document in order:
        length = int(lengths[document])
        at = bisect.bisect_left(rooms, length)
        if at == len(rooms):
            row, room = len(rows), capacity
            rows.append([])
        else:
            room = rooms[at]
            row = by_room[room].pop()
            if not by_room[room]:
                del by_room[room]
                del rooms[at]
        rows[row].append(int(document))
        room -= length
        if room > 0:
            if room not in by_room:
                by_room[room] = []
                bisect.insort(rooms, room)
            by_room[room].append(row)
    for row in rows:
        row.sort()
    rows.sort(key=lambda row: row[0])
    return rows


def packed_columns(columns):
    """Of rows of several documents: no mask, as segments say what is seen."""
    kept = {name: column for name, column in columns.items() if name != "attention_mask"}
    return {**kept, "segment_ids": Column("I32", 0), "position_ids": Column("I32", 0)}


def join(rows):
    """One row of several: no label where a document begins, positions from 0 in each."""
    joined = {}
    for name in rows[0]:
        if name == "attention_mask":
            continue
        parts = [row[name] for row in rows]
        if name == "labels":
            parts = [np.concatenate([[IGNORED], part[1:]]).astype(np.int32) for part in parts]
        joined[name] = np.concatenate(parts)
    lengths = [len(row["input_ids"]) for row in rows]
    joined["segment_ids"] = np.repeat(np.arange(1, len(rows) + 1, dtype=np.int32), lengths)
    joined["position_ids"] = np.concatenate([np.arange(length, dtype=np.int32) for length in lengths])
    return joined


def pack(source, target, capacity, shard_bytes):
    """Writes the folder `target` of packed rows; returns its Writer (to be finished) and the documents of each row."""
    folder = Folder(source)
    rows = best_fit_decreasing(folder.lengths(), capacity)
    writer = Writer(target, packed_columns(folder.columns), shard_bytes)
    for begin in range(0, len(rows), 256):
        block = Block(writer.columns)
        for documents in rows[begin : begin + 256]:
            block.add(join([folder.row(document) for document in documents]))
        writer.add(*block.joined())
    return writer, rows
