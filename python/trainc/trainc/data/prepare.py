# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files of rows to a folder of shards: read in chunks, tokenized by several processes, written in the files' order."""

import collections
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import shutil

from ..errors import Error
from ..settings import as_bytes
from . import formats, packing, rows, shards, tasks, templates, tokenizers

#: Chunks for each process that are read before the first of them is written.
_AHEAD = 3


class Encoder:
    """Tokenizes chunks of files."""

    def __init__(self, tokenizer, settings):
        self.tokenizer, self.settings = tokenizer, settings
        self.task, self.kind = tasks.make(tokenizer, settings), tasks.row_kind(settings)
        self.columns = self.task.columns()

    def examples(self, path, kind, first, content, bad):
        if kind == "text":
            if self.kind not in ("causal-lm", "masked-lm"):
                raise Error(f"{path}: plain text is for causal and masked language models, not for {self.kind}")
            yield rows.place(path, first, kind), formats.Text(*content)
            return
        for number, row in rows.parse(path, kind, first, content, bad):
            where = rows.place(path, number, kind)
            try:
                example = formats.read(
                    row, self.kind, self.settings.format, self.settings.columns, bool(self.tokenizer.chat_template), where
                )
            except rows.RowError as error:
                bad(str(error))
                continue
            yield where, example

    def encode(self, path, kind, first, content):
        """(places, results of Task.encode, messages of bad rows) of a chunk; the first bad row is an error, unless these
        are skipped."""
        wrong = []

        def bad(message):
            if self.settings.bad_rows == "error":
                raise rows.RowError(message)
            wrong.append(message)

        found = list(self.examples(path, kind, first, content, bad))
        places, examples = [where for where, _ in found], [example for _, example in found]
        if not examples:
            return [], [], wrong
        task = self.task
        before, task.overlong = task.overlong, "split" if kind == "text" else task.overlong
        try:
            results = task.encode(examples, places)
        finally:
            task.overlong = before
        for index, result in enumerate(results):
            if isinstance(result, rows.RowError):
                bad(str(result))
                results[index] = None
        return places, results, wrong

    def block(self, chunk):
        """What is written of a chunk, and what is counted."""
        path, kind, first, content = chunk
        places, results, wrong = self.encode(path, kind, first, content)
        block = shards.Block(self.columns)
        counts, example_of = collections.Counter(bad=len(wrong)), {}
        counts["read"] = len(places) + len(wrong) - sum(result is None for result in results)
        for where, result in zip(places, results):
            if isinstance(result, str):
                counts[result] += 1
                example_of.setdefault(result, where)
            elif result is not None:
                for row in result:
                    block.add(row.values)
                    counts["truncated"] += bool(row.truncated)
        values, lengths = block.joined()
        for name, column in self.columns.items():
            if name.endswith("labels") and not name.startswith(("rejected", "kl_")):
                counts["labelled"] += int((values[name] != tasks.IGNORED).sum()) if column.ragged else block.rows
        if wrong:
            example_of["bad"] = wrong[0]
        return values, lengths, counts, example_of


_encoder = None


def _encode_in_process(chunk):
    return _encoder.block(chunk)


def _blocks(encoder, chunks, processes):
    """Blocks in the chunks' order, however many processes make them; few chunks are read ahead."""
    if processes == 1:
        yield from map(encoder.block, chunks)
        return
    global _encoder
    _encoder = encoder  # processes that are forked have it
    context = multiprocessing.get_context("fork")
    waiting = collections.deque()
    executor = concurrent.futures.ProcessPoolExecutor(processes, mp_context=context)
    try:
        for chunk in chunks:
            waiting.append(executor.submit(_encode_in_process, chunk))
            if len(waiting) >= _AHEAD * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except concurrent.futures.process.BrokenProcessPool:
        raise Error("a process that tokenizes was ended from outside (memory?); --processes 1 needs least") from None
    finally:
        for future in waiting:
            future.cancel()
        executor.shutdown(cancel_futures=True)
        _encoder = None


def cores():
    return len(os.sched_getaffinity(0))


def all_chunks(files):
    for path in files:
        for kind, first, content in rows.chunks(path):
            yield path, kind, first, content


def complete(settings, tokenizer, files):
    """The settings with what depends on the tokenizer and the data: the longest row, the classes."""
    templates.set_template(tokenizer, settings.chat_template)
    if settings.assistant_end and not settings.assistant_start:
        raise Error("--assistant-end says where the assistant's text ends; --assistant-start is missing")
    more = {}
    if settings.max_length is None:
        more["max_length"] = min(2048, tokenizers.limit(tokenizer) or 2048)
    if settings.pack and tasks.row_kind(settings) != "causal-lm":
        raise Error(f"--pack is for causal language models, not for {tasks.row_kind(settings)}")
    if settings.task in ("sequence-classification", "token-classification"):
        names = settings.label_names
        if names:
            names = [name for text in names for name in text.split(",")]
        more["label_names"] = names or find_classes(settings, tokenizer, files)
    return settings.with_(**more)


def find_classes(settings, tokenizer, files):
    """Names of classes: the model's where it has those of the data, else what the data has, sorted."""
    known = []
    try:
        config = json.loads((pathlib.Path(tokenizer.name_or_path) / "config.json").read_text())
        known = [config["id2label"][key] for key in sorted(config["id2label"], key=int)]
    except (OSError, ValueError, KeyError):
        pass
    found = set()
    for path, kind, first, content in all_chunks(files):
        if kind == "text":
            break
        for number, row in rows.parse(path, kind, first, content, lambda message: None):
            try:
                example = formats.read(row, settings.task, settings.format, settings.columns, False, rows.place(path, number, kind))
            except rows.RowError:
                continue  # told when it is encoded
            for label in example.tags if isinstance(example, formats.Tagged) else [example.label]:
                found.add(int(label) if isinstance(label, bool) else label)
    texts = {label for label in found if isinstance(label, str)}
    numbers = {label for label in found if isinstance(label, (int, float))}
    if texts and numbers:
        raise Error(f"labels are names in some rows ({sorted(texts)[0]!r}) and numbers in others ({min(numbers)})")
    if texts:
        return known if texts <= set(known) else sorted(texts)
    if any(number != int(number) for number in numbers):
        return ["score"]
    count = int(max(numbers, default=-1)) + 1
    if len(known) >= count and not all(name == f"LABEL_{i}" for i, name in enumerate(known)):
        return known
    return [f"LABEL_{i}" for i in range(max(count, 2))]


def prepare(paths, settings, output, tokenizer, tell=lambda line: None, decided=lambda index: None):
    """Writes the folder `output`; returns its index. decided: gets what is known of that before any row is a token."""
    files = rows.expand(paths)
    settings = complete(settings, tokenizer, files)
    output = pathlib.Path(output)
    if output.exists() and not output.is_dir():
        raise Error(f"{output}: is no folder; choose another name")
    if output.exists() and any(output.iterdir()) and not any(output.glob("shard-*.safetensors")) and not (output / "index.json").exists():
        raise Error(f"{output}: the folder holds other files; choose a new one")
    encoder = Encoder(tokenizer, settings)
    columns = packing.packed_columns(encoder.columns) if settings.pack else encoder.columns
    decided({"columns": columns, "packed": settings.pack, "label_names": settings.label_names})
    size = as_bytes(settings.shard_size)
    processes = min(settings.processes or cores(), max(1, sum(map(_size, files)) // rows.CHUNK + 1))
    first = output / "unpacked" if settings.pack else output
    if settings.pack:
        shards.Writer(output, encoder.columns, size)  # nothing of before stays
    writer = shards.Writer(first, encoder.columns, size)
    counts, first_of = collections.Counter(), {}
    try:
        for values, lengths, counted, example_of in _blocks(encoder, all_chunks(files), processes):
            writer.add(values, lengths)
            counts.update(counted)
            for reason, where in example_of.items():
                first_of.setdefault(reason, where)
        writer.flush()
        if not writer.rows:
            raise Error(_nothing(files, counts, first_of))
        more = {"max_length": settings.max_length, "tokenizer": tokenizers.describe(tokenizer)}
        if settings.label_names:
            more["label_names"] = settings.label_names
        report = make_report(writer.finish(more), first, counts, first_of)
        if not settings.pack:
            index = json.loads((first / "index.json").read_text())
        else:
            packed, documents = packing.pack(first, output, settings.max_length, size)
            report["packed"] = {"documents": report["rows"], "rows": len(documents),
                                "full": round(report["tokens"] / (len(documents) * settings.max_length), 4)}  # fmt: skip
            index = packed.finish({**more, "packed": True})
            shutil.rmtree(first)
        index["report"] = report
        shards.write_index(output, index)
        return index
    except BaseException:
        if settings.pack:
            shutil.rmtree(first, ignore_errors=True)
        raise


def _size(path):
    return sum(f.stat().st_size for f in path.rglob("*")) if path.is_dir() else path.stat().st_size


def _nothing(files, counts, first_of):
    """Why there is no row."""
    told = {tasks.NO_LABEL: "have no token that is learnt", tasks.EMPTY: "are empty", tasks.TOO_LONG: "are too long", "bad": "cannot be read"}
    whys = [f"{counts[reason]} {text} (first {first_of[reason]})" for reason, text in told.items() if counts[reason]]
    names = ", ".join(map(str, files[:3])) + (", ..." if len(files) > 3 else "")
    more = ""
    if counts[tasks.NO_LABEL]:
        more = "; `--show 3 --train-on all` shows the tokens, --max-length and --train-on say what is kept and learnt"
    return f"{names}: no row is left of {counts['read']}: " + (", ".join(whys) or "there is none") + more


def make_report(index, folder, counts, first_of):
    opened = shards.Folder(folder)
    groups = {column.offsets for column in opened.columns.values() if column.ragged}
    lengths = {group: opened.lengths(group) for group in sorted(groups)}
    tokens = int(sum(each.sum() for each in lengths.values()))
    report = {
        "read": counts["read"], "rows": index["rows"], "tokens": tokens, "labelled": counts["labelled"],
        "empty": counts[tasks.EMPTY], "too_long": counts[tasks.TOO_LONG], "no_label": counts[tasks.NO_LABEL],
        "unreadable": counts["bad"], "truncated": counts["truncated"],
        "lengths": {("target" if group.endswith("decoder") else "row"): shards.summarize(each) for group, each in lengths.items()},
    }  # fmt: skip
    names = {tasks.EMPTY: "empty", tasks.TOO_LONG: "too_long", tasks.NO_LABEL: "no_label", "bad": "unreadable"}
    report["first"] = {names[reason]: where for reason, where in first_of.items()}
    return report


def report_text(index, output):
    """The report for people."""
    report, lines = index["report"], []
    left = [
        f"{report[key]:,} {text}" + (f" (first {report['first'][key]})" if key in report["first"] else "")
        for key, text in (("empty", "empty"), ("no_label", "without a token that is learnt"), ("too_long", "too long"), ("unreadable", "unreadable"))
        if report[key]
    ]
    lines.append(f"{output}: {report['rows']:,} rows of {report['read']:,}" + (f"; left out: {', '.join(left)}" if left else ""))
    token_labels = "labels" not in index["columns"] or index["columns"]["labels"]["ragged"]
    share = f", {100 * report['labelled'] / max(1, report['tokens']):.1f} % of them learnt" if token_labels else ""
    lines.append(f"tokens: {report['tokens']:,}{share}; truncated to {index['max_length']:,}: {report['truncated']:,} rows")
    for name, found in report["lengths"].items():
        words = ", ".join(f"{key} {value:,}" for key, value in found.items())
        lines.append(f"length of a {name}: {words}")
    if packed := report.get("packed"):
        lines.append(
            f"packed: {packed['documents']:,} documents in {packed['rows']:,} rows of {index['max_length']:,}, {100 * packed['full']:.1f} % full"
        )
    if "label_names" in index:
        names = index["label_names"]
        lines.append(f"classes: {len(names)} ({', '.join(names[:8])}{', ...' if len(names) > 8 else ''})")
    return "\n".join(lines)
