# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`trainc data FILE... --tokenizer FOLDER -o DIR`."""

import json
import sys

from ..settings import SettingError, command_parser
from .keys import DATA

HELP = """Tokenizes rows of text for `trainc-run --data DIR` and `trainc finetune --data DIR`.

Files: JSON Lines (.jsonl, .ndjson), JSON (.json), parquet and Arrow (through `datasets`), plain text (.txt, .md), or folders
of these. What a row means is told by its keys: `messages`, `prompt` and `completion`, `text`, ShareGPT's `conversations`,
alpaca's `instruction` and `output`; docs/finetuning.md has those of other tasks.

  trainc data --check DIR    reads a folder that was written, and says whether it is whole
"""


def parser():
    made = command_parser("data", HELP)
    made.add_argument("files", nargs="+", metavar="FILE")
    DATA.add_to(made)
    return made


def check(folders):
    from .shards import Folder

    for path in folders:
        folder = Folder(path)
        folder.check()
        count = len(folder.shards)
        print(f"{path}: {folder.rows:,} rows in {count} {'shard' if count == 1 else 'shards'}, whole")
    return 0


def main(arguments):
    said = parser().parse_args(arguments)
    settings = DATA.resolve(said, said.config)
    if settings.check:
        return check(said.files)
    if settings.tokenizer is None:
        raise SettingError("--tokenizer is missing: the folder of the model that is to be trained, or of its tokenizer")
    if settings.output is None and settings.show is None:
        raise SettingError("-o is missing: the folder for the shards; or --show 3 prints rows")
    from . import prepare, show, tokenizers

    tokenizer = tokenizers.load(settings.tokenizer)
    if settings.show is not None:
        show.show(said.files, settings, tokenizer, settings.show)
    if settings.output is not None:
        index = prepare.prepare(said.files, settings, settings.output, tokenizer)
        if settings.json:
            print(json.dumps({**index["report"], "output": settings.output}, ensure_ascii=False))
        else:
            print(prepare.report_text(index, settings.output), file=sys.stdout)
    return 0
