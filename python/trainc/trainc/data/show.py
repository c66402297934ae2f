# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows token by token, those that are learnt in another colour."""

import itertools
import os
import sys

import numpy as np

from . import packing, prepare, rows, tasks

LEARNT, GIVEN = ("\033[30;42m", "\033[30;102m"), ("\033[37;100m", "\033[97;40m")


def coloured(file):
    return "NO_COLOR" not in os.environ and file.isatty()


def token_text(tokenizer, token):
    text = tokenizer.decode([int(token)], skip_special_tokens=False, clean_up_tokenization_spaces=False)
    if not text or "�" in text:
        text = tokenizer.convert_ids_to_tokens(int(token)) or text
    return text


def line(tokenizer, ids, learnt, colours):
    """Tokens one after the other; without colours `|` is between them, and what is learnt is in [brackets]."""
    parts = []
    for index, (token, mark) in enumerate(zip(ids, learnt)):
        text = token_text(tokenizer, token)
        if colours:
            shown = text.replace("\n", "\\n\n")
            parts.append(f"{(LEARNT if mark else GIVEN)[index % 2]}{shown}\033[0m")
        else:
            shown = text.replace("\n", "\\n")
            parts.append(f"[{shown}]" if mark else shown)
    return "".join(parts) if colours else "|".join(parts)


def _lines(tokenizer, row, columns, colours):
    for name, ids in row.items():
        if not name.endswith("input_ids"):
            continue
        side = name.removesuffix("input_ids").rstrip("_")
        labels = row.get(name.replace("input_ids", "labels"))
        mask = row.get(name.replace("input_ids", "attention_mask"), np.ones(len(ids), np.int8)).astype(bool)
        told = f"  {side}: " if side else "  "
        of_ids = isinstance(labels, np.ndarray) and columns[name].offsets == columns[name.replace("input_ids", "labels")].offsets
        if of_ids and columns[name].ragged and labels.ndim:
            yield told + line(tokenizer, ids[mask], labels[mask] != tasks.IGNORED, colours)
            if (labels != tasks.IGNORED).any() and (labels != ids)[labels != tasks.IGNORED].any():
                yield "  labels: " + _others(tokenizer, ids, labels)
            continue
        yield told + line(tokenizer, ids[mask], np.zeros(int(mask.sum()), bool), colours)
        if isinstance(labels, np.ndarray) and labels.ndim:
            yield "  target: " + line(tokenizer, labels, labels != tasks.IGNORED, colours)
        elif labels is not None:
            yield f"  label: {labels}"


def _others(tokenizer, ids, labels):
    """What is to be guessed where that is another token, or a class."""
    kept = np.flatnonzero(labels != tasks.IGNORED)
    return ", ".join(f"{token_text(tokenizer, ids[i])} -> {labels[i]}" for i in kept)


def show(paths, settings, tokenizer, count, file=None):
    """Prints `count` rows as they would be written."""
    file = file or sys.stdout
    colours = coloured(file)
    files = rows.expand(paths)
    settings = prepare.complete(settings, tokenizer, files)
    encoder = prepare.Encoder(tokenizer, settings)
    if encoder.kind == "causal-lm" and encoder.task.template.how == "prefixes" and tokenizer.chat_template:
        print("the chat template does not mark the assistant's text: it is found by rendering each conversation up to there", file=file)

    def each():
        for path, kind, first, content in prepare.all_chunks(files):
            places, results, _ = encoder.encode(path, kind, first, content)
            for where, result in zip(places, results):
                if isinstance(result, str):
                    yield where, result
                else:
                    yield from ((where, row) for row in result or ())

    for where, row in itertools.islice(each(), count):
        if isinstance(row, str):
            print(f"{where}: left out: {row}", file=file)
            continue
        labels = [v for name, v in row.values.items() if name.endswith("labels") and isinstance(v, np.ndarray)]
        learnt = sum(int((each != tasks.IGNORED).sum()) for each in labels)
        told = f", {learnt} learnt" if labels else ""
        print(f"{where}: {len(row)} tokens{told}" + (", truncated" if row.truncated else ""), file=file)
        for text in _lines(tokenizer, row.values, encoder.columns, colours):
            print(text, file=file)
    if settings.pack:
        print(f"(these documents are packed into rows of {settings.max_length}: {packing.__doc__.splitlines()[0]})", file=file)
