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


def _lines(tokenizer, row, colours):
    for name, ids in row.items():
        if not name.endswith("input_ids"):
            continue
        labels = row.get(name.replace("input_ids", "labels"))
        at = name.removesuffix("input_ids")
        if isinstance(labels, np.ndarray) and len(labels) == len(ids):
            yield f"  {at or ''}".rstrip() + line(tokenizer, ids, labels != tasks.IGNORED, colours) + ("" if colours else "")
        else:
            yield "  " + line(tokenizer, ids, np.zeros(len(ids), bool), colours)
            if isinstance(labels, np.ndarray):
                kept = labels[labels != tasks.IGNORED]
                yield "  target: " + line(tokenizer, kept, np.ones(len(kept), bool), colours)
            elif labels is not None:
                yield f"  label: {labels}"


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
        for text in _lines(tokenizer, row.values, colours):
            print(text, file=file)
    if settings.pack:
        print(f"(these documents are packed into rows of {settings.max_length}: {packing.__doc__.splitlines()[0]})", file=file)
