# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The settings of `trainc data`, which `trainc finetune` has, too."""

from ..settings import Key, Table
from .formats import NAMES
from .tasks import LOSSES, TASKS

ROWS = (
    Key("task", "choice", "what the model learns", "causal-lm", TASKS, group="Rows"),
    Key("loss", "choice", "cross-entropy, or a loss of preferences (rows with `prompt`, `chosen`, `rejected`; kto: with "
        "`prompt`, `completion`, `label`)", "cross-entropy", tuple(LOSSES), group="Rows"),
    Key("format", "choice", "how rows are written; `auto` goes by their keys", "auto", ("auto", *NAMES), group="Rows"),
    Key("columns", "mapping", "other names of keys, KNOWN=YOURS,...: `text=review,label=stars`", group="Rows"),
    Key("tokenizer", "folder", "a folder with tokenizer.json and its configuration", group="Rows", shown="the model's"),
    Key("chat-template", "file", "a file of Jinja, or the name of one of the tokenizer's", group="Rows", shown="the tokenizer's"),
    Key("train-on", "choice", "which tokens are learnt: what the assistant says (of other rows: the completion), its "
        "last answer only, or all", "assistant", ("assistant", "last", "all"), group="Rows"),
    Key("assistant-start", "text", "the text behind which the assistant speaks, where the chat template does not mark it",
        group="Rows"),
    Key("assistant-end", "text", "the text with which the assistant ends, which is learnt, too", group="Rows"),
    Key("max-length", "whole", "tokens of a row at most", None, least=2, group="Rows", shown="the model's limit, at most 2048"),
    Key("max-target-length", "whole", "seq2seq: tokens of a target at most", None, least=2, group="Rows", shown="`max-length`"),
    Key("overlong", "choice", "rows that are longer: cut, left out, cut in pieces, or an error; plain text is always cut in "
        "pieces", "truncate", ("truncate", "drop", "split", "error"), group="Rows"),
    Key("bad-rows", "choice", "rows that cannot be read: an error, or counted and left out", "error", ("error", "skip"), group="Rows"),
    Key("eos", "flag", "texts and completions end with the tokenizer's end-of-sequence token", True, group="Rows"),
    Key("pack", "flag", "several documents in a row of `max-length`; the model is to be exported with segments", False, group="Rows"),
    Key("label-names", "texts", "names of the classes, comma-separated; `score`: the label is a number to be predicted", None,
        group="Rows", shown="the model's, else as found in the data"),
    Key("mask-probability", "number", "masked-lm: share of the tokens that are to be guessed", 0.15, least=0, group="Rows"),
    Key("mask-copies", "whole", "masked-lm: how often each text is written, masked anew each time", 1, least=1, group="Rows"),
    Key("source-prefix", "text", "seq2seq: written in front of each source", group="Rows"),
    Key("seed", "whole", "of everything random", 0, group="Rows"),
    Key("processes", "whole", "processes that tokenize", None, least=1, group="Rows", shown="one for each core"),
    Key("shard-size", "size", "bytes of a shard, about what writing it holds in memory", "256MB", group="Rows"),
)  # fmt: skip

DATA = Table(
    *ROWS,
    Key("output", "folder", "the folder that is written", group="Output"),
    Key("show", "whole", "print so many rows with their tokens, those that are learnt in colour; writes nothing without `-o`",
        None, least=1, group="Output"),
    Key("check", "flag", "the files are folders that were written: read them, and compare with the hashes in index.json", False, group="Output"),
    Key("json", "flag", "the report as one JSON object on standard output", False, group="Output"),
    Key("config", "file", "a YAML file with these keys; the command line counts more", group="Output"),
)  # fmt: skip
