# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files of rows, in chunks: JSON Lines, JSON, parquet and Arrow, plain text."""

import gzip
import json
import os
import pathlib
import re
import zlib

from ..errors import Error

#: Bytes of a chunk, which one process reads at a time.
CHUNK = 1 << 19
#: Bytes of plain text that are tokenized at once.
BLOCK = 1 << 18
LINES, TABLES, TEXTS = (".jsonl", ".ndjson"), (".parquet", ".arrow"), (".txt", ".md", ".text")
BOM = b"\xef\xbb\xbf"
#: What may be half of a pair of surrogates, which is no text.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class RowError(Error):
    """A row that cannot be used: the message begins with FILE:LINE."""


def place(path, number, kind):
    return f"{path}:{number}" if kind in ("lines", "text") else f"{path}: row {number}"


def ending(path):
    """What tells how a file is written; .gz says nothing of that."""
    path = pathlib.Path(path)
    return path.with_suffix("").suffix if path.suffix == ".gz" and path.with_suffix("").suffix not in TABLES else path.suffix


def _open(path):
    return gzip.open(path, "rb") if pathlib.Path(path).suffix == ".gz" else open(path, "rb")


def expand(paths):
    """Files, with those of folders in the order of their names."""
    files = []
    for path in map(pathlib.Path, paths):
        if path.is_dir():
            if (path / "dataset_info.json").exists() and (path / "state.json").exists():
                files.append(path)  # of datasets' save_to_disk
                continue
            found = sorted(p for p in path.iterdir() if p.is_file() and ending(p) in (*LINES, ".json", *TABLES, *TEXTS))
            if not found:
                raise Error(f"{path}: no file in this folder ends in {', '.join((*LINES, '.json', *TABLES, *TEXTS))}")
            files += found
        elif not path.exists():
            raise Error(f"{path}: there is no such file")
        elif os.path.getsize(path) == 0:
            raise Error(f"{path}: the file is empty")
        else:
            files.append(path)
    return files


def chunks(path):
    """(kind, first line or row, content) of a file, some at a time.

    Kinds: "lines" (bytes of JSON Lines), "rows" (parsed), "text" (plain text, and whether the file begins and ends with
    it).
    """
    path, end = pathlib.Path(path), ending(path)
    try:
        if path.is_dir() or end in TABLES:
            yield from _tables(path)
        elif end in TEXTS:
            yield from _texts(path)
        elif end == ".json" and _is_whole(path):
            yield from _whole(path)
        elif end == ".json" or end in LINES:
            yield from _lines(path)
        else:
            raise Error(
                f"{path}: rows are read from files that end in {', '.join((*LINES, '.json', *TABLES))}, plain text from "
                f"{', '.join(TEXTS)}; all but {' and '.join(TABLES)} also with .gz"
            )
    except (OSError, EOFError, zlib.error) as error:
        raise Error(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _is_whole(path):
    """Whether a file .json is one array or one object, and not one object a line."""
    with _open(path) as file:
        begin = file.read(4096).removeprefix(BOM).lstrip()
    if begin[:1] != b"{":
        return begin[:1] == b"["
    line, newline, _ = begin.partition(b"\n")
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return bool(newline) and len(line) < 200  # an object over several lines
    return False


def _whole(path):
    with _open(path) as file:
        content = file.read().removeprefix(BOM)
    try:
        rows = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RowError(f"{path}:{getattr(error, 'lineno', 1)}: no JSON: {error}") from None
    rows = rows if isinstance(rows, list) else [rows]
    if _SURROGATE.search(content):
        for number, row in enumerate(rows, 1):
            if not _is_text(row):
                raise RowError(f"{place(path, number, 'rows')}: {_HALF}")
    for begin in range(0, len(rows), 512):
        yield "rows", begin + 1, rows[begin : begin + 512]


_HALF = "a text has half of a pair of surrogates (\\ud800 to \\udfff), which is no character"


def _is_text(row):
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _lines(path):
    number, rest = 1, b""
    with _open(path) as file:
        if file.read(3) != BOM:
            file.seek(0)
        while block := file.read(CHUNK):
            head, newline, tail = block.rpartition(b"\n")
            if not newline:
                rest += block
                continue
            content = rest + head
            yield "lines", number, content
            number += content.count(b"\n") + 1
            rest = tail
    if rest:
        yield "lines", number, rest


def _texts(path):
    """Pieces that end where a line does, so that a token is never cut in two."""
    number, rest, ready = 1, b"", None
    with _open(path) as file:
        if file.read(3) != BOM:
            file.seek(0)
        while True:
            block = file.read(BLOCK)
            content = rest + block
            head, newline, tail = content.rpartition(b"\n")
            if block and not newline:
                rest = content
                continue
            piece, rest = (head + newline, tail) if block else (content, b"")
            if piece:
                try:
                    text = piece.decode()
                except UnicodeDecodeError as error:
                    line = number + piece[: error.start].count(b"\n")
                    raise RowError(f"{path}:{line}: the text is not UTF-8") from None
                if ready:
                    yield "text", ready[0], (ready[1], ready[0] == 1, False)
                ready = number, text
                number += piece.count(b"\n")
            if not block:
                if ready:
                    yield "text", ready[0], (ready[1], ready[0] == 1, True)
                return


def _tables(path):
    try:
        import datasets
    except ModuleNotFoundError:
        raise Error(f"{path}: parquet and Arrow are read by `datasets`: pip install datasets") from None
    datasets.disable_progress_bars()
    try:
        if path.is_dir():
            table = datasets.load_from_disk(str(path))
            if isinstance(table, datasets.DatasetDict):
                raise Error(f"{path}: holds the splits {', '.join(table)}: name one, as {path / next(iter(table))}")
        elif path.suffix == ".arrow":
            table = datasets.Dataset.from_file(str(path))
        else:
            table = datasets.load_dataset("parquet", data_files=str(path), split="train", streaming=True)
        number = 1
        for batch in table.iter(512):
            rows = [dict(zip(batch, values)) for values in zip(*batch.values())]
            yield "rows", number, rows
            number += len(rows)
    except Error:
        raise
    except Exception as error:  # whatever Arrow raises for a damaged file
        raise Error(f"{path}: cannot be read: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from None


def parse(path, kind, first, content, bad):
    """(number, row) of a chunk. `bad(message)` is told of a row that is no JSON object; it raises, or passes over it."""
    if kind == "rows":
        for number, row in enumerate(content, first):
            if isinstance(row, dict):
                # Tables have every column in every row.
                yield number, {name: value for name, value in row.items() if value is not None}
            else:
                bad(f"{place(path, number, kind)}: expected an object with keys, got {kind_of(row)}")
        return
    for number, line in enumerate(content.split(b"\n"), first):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except UnicodeDecodeError:
            bad(f"{path}:{number}: the line is not UTF-8")
            continue
        except json.JSONDecodeError as error:
            bad(f"{path}:{number}: no JSON: {error.msg} at column {error.colno}")
            continue
        except RecursionError:
            bad(f"{path}:{number}: no row: too many objects or arrays within one another")
            continue
        if _SURROGATE.search(line) and not _is_text(row):
            bad(f"{path}:{number}: {_HALF}")
        elif isinstance(row, dict):
            yield number, row
        else:
            bad(f"{path}:{number}: expected an object with keys, got {kind_of(row)}")


def kind_of(value):
    """In JSON's words."""
    names = {dict: "an object", list: "an array", str: "a text", int: "a number", float: "a number", bool: "true or false", type(None): "null"}
    return names.get(type(value), type(value).__name__)
