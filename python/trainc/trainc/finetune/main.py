# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`trainc finetune FOLDER --data FILE -o RUN`: export, plan, compile, train, evaluate, save."""

import math
import shlex
import sys
import time

from .. import compiler
from ..data import tokenizers
from ..errors import Error
from ..settings import SettingError, command_parser
from . import data, estimate, exports, plan, processes
from .exporter import Exporter
from .folder import Run
from .keys import FINETUNE

HELP = """Fine-tunes a language model: from its folder and rows of text to an adapter or new weights.

  trainc finetune FOLDER --data chat.jsonl --eval held.jsonl --lora r=16,alpha=32 --quantize nf4:double -o run
  trainc finetune --resume run              goes on where a run was ended
  trainc export run adapter/                what was trained, for PEFT; merged/: for transformers
  trainc sample run --prompt "..."          what it has learnt

A YAML file (--config) holds the same keys; the command line counts more. docs/finetuning.md tells all of them.
"""


def parser():
    made = command_parser("finetune", HELP, usage="trainc finetune [FOLDER] [--config run.yaml] [OPTION...]")
    made.add_argument("folder", nargs="?", metavar="FOLDER", help="--model")
    made.add_argument("--config", metavar="FILE", help="a YAML file with these keys")
    made.add_argument("--resume", metavar="RUN", help="go on with the run in this folder; needs nothing else")
    made.add_argument("--dry-run", action="store_true", help="print what would run, with the memory and time of a step; train nothing")
    made.add_argument("--overwrite", action="store_true", help="-o may be a run that is there already, which is removed")
    FINETUNE.add_to(made)
    return made


def tell(line):
    print(line, file=sys.stderr, flush=True)


def size_text(number):
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= scale:
            return f"{number / scale:.2f} {unit}"
    return f"{number} B"


def main(arguments):
    said = parser().parse_args(arguments)
    if said.resume:
        given = [a for a in arguments if a not in ("--resume", said.resume) and not a.startswith("--resume=")]
        if given:
            raise SettingError(
                f"--resume goes on with the settings of the run: '{given[0]}' says nothing to it; "
                f"trainc finetune --config {said.resume}/config.yaml {given[0]} ... -o NEW begins another run"
            )
        return resume(Run(said.resume))
    if said.folder is not None:
        said.model = said.folder
    settings = FINETUNE.resolve(said, said.config)
    for name, what in (("model", "a model's folder"), ("data", "a file of rows, or a folder of `trainc data`")):
        if getattr(settings, name) is None:
            raise SettingError(f"--{name} is missing: {what}")
    check_together(settings)
    if settings.output is None:
        if not said.dry_run:
            raise SettingError("-o is missing: the run's folder")
        import tempfile

        with tempfile.TemporaryDirectory(prefix="trainc-") as folder:
            return start(Run(folder), settings, dry=True)
    run = Run(settings.output)
    run.begin(said.overwrite)
    return start(run, settings, dry=said.dry_run)


def check_together(settings):
    """What compares evaluations needs some, which is known before anything is made; and ranks have rows and GPUs each."""
    if settings.batch_size % settings.ranks:
        raise SettingError(f"--batch-size {settings.batch_size} are the rows of a step, which {settings.ranks} ranks share out: it is no multiple of {settings.ranks}")
    if settings.ranks > 1 and settings.device is not None:
        raise SettingError("--device is one GPU, and --ranks takes the first of them: CUDA_VISIBLE_DEVICES says which these are")
    if settings.ranks == 1 and settings.said.get("distribute", "data") != "data":
        raise SettingError(f"--distribute {settings.distribute} is for several ranks: --ranks is missing")
    for name in ("keep-best", "patience", "metric", "eval-every"):
        if getattr(settings, name.replace("-", "_")) is not None and not settings.eval:
            raise SettingError(f"--{name} goes by evaluations of held-out rows: --eval is missing")
    if settings.metric and not settings.keep_best and not settings.patience:
        raise SettingError("--metric is what --keep-best and --patience compare: neither is given")
    if settings.patience and settings.steps and not settings.eval_every:
        raise SettingError("--patience counts evaluations on the way: beside --steps these need --eval-every")


def rows_and_graph(run, settings, base, tokenizer, exporter):
    """The rows as tokens, and the model's graph, which is made beside them: (settings with what the rows decide, parts of
    data.prepare, exports.Graph)."""
    if settings.graph:
        return *data.prepare(run, settings, tokenizer, tell), exports.of_file(settings.graph)

    def decided(index):
        exports.begin(base, data.export_options(settings, index, tokenizer), tell, exporter)

    settings, parts = data.prepare(run, settings, tokenizer, tell, decided)
    decided(parts["train"])  # rows that were tokens already have decided nothing on the way
    return settings, parts, exports.of_model(base, data.export_options(settings, parts["train"], tokenizer), exporter)


def start(run, settings, dry):
    begin = time.monotonic()
    # What the compiler would refuse, before the minutes that rows and graph take.
    compiler.run(["--check-options", *plan.options_of(settings, (), {})])
    # Rows that are tokenized here may be shorter where nobody says how long, or that none is cut.
    may_cut = settings.memory and settings.max_length is None and settings.overlong != "error" and not any(
        map(data.is_folder, filter(None, (settings.data, settings.eval)))
    )  # fmt: skip

    base = exports.locate(settings.model)
    with Exporter() as exporter:
        # A tokenizer that is met the first time is one of a model that is: both import PyTorch, beside each other.
        tokenizer = tokenizers.Known(settings.tokenizer or str(base), lambda: settings.graph or exporter.start())
        data.check_vocabulary(tokenizer, base)
        settings, parts, graph = rows_and_graph(run, settings, base, tokenizer, exporter)
    train = parts["train"]
    settings = _not_more_than(train["rows"], settings)
    settings.write(run.config, _HEADING)
    exports.place(graph, run)
    weights = exports.weights(base, graph.facts, run.export)
    lengths = data.lengths(train, parts.get("eval"), settings)
    fresh = graph.facts["fresh"]
    try:
        chosen = plan.make(run, settings, fresh, lengths, tell)
    except plan.NoRoom as error:
        if not may_cut:
            error.fitting = fitting(run, settings, fresh, lengths)
            raise
        # Half of the rows stay whole.
        length = plan.longest(run, settings, fresh, lengths, max(found["median"] for found in train["report"]["lengths"].values()), tell)
        tell(f"rows are cut to {length} tokens (--max-length says otherwise): {error.short}")
        settings, parts = data.prepare(run, settings.with_(max_length=length), tokenizer, tell)
        train = parts["train"]
        settings = _not_more_than(train["rows"], settings)
        settings.write(run.config, _HEADING)
        lengths = data.lengths(train, parts.get("eval"), settings)
        chosen = plan.make(run, settings, fresh, lengths, tell)
    steps = total_steps(settings, train["rows"])
    facts = {
        "base": str(base), "weights": str(weights) if weights else None, "task": settings.task, "loss": settings.loss,
        "lora": bool(settings.lora), "fresh": graph.facts["fresh"], "label_names": train.get("label_names"),
        "tokenizer": settings.tokenizer or str(base), "steps": steps, "micro_batch": chosen.micro_batch,
        "accumulate": chosen.accumulate, "memory": chosen.memory, "ranks": settings.ranks,
    }  # fmt: skip
    facts["chat"] = bool(tokenizer.chat_template) and data.has_chat(settings)
    facts["chat_template"] = tokenizer.chat_template if settings.chat_template else None
    facts["drops"] = "num_hidden_layers" in (settings.model_config or {})
    if not dry:
        data.add_references(run, facts, settings, parts, tell)
    facts["arguments"] = train_arguments(run, settings, facts, parts)
    for line in describe(settings, train, graph, chosen, steps, base):
        tell(line)
    tell(f"ready after {time.monotonic() - begin:.1f} s")
    if dry:
        print(shlex.join(["trainc", "export/model.onnx", "-o", "model.tpk", *chosen.options]))
        print(processes.command(facts["arguments"]))
        print(f"memory of a step: {size_text(chosen.memory)}")
        tokens = settings.batch_size * train["report"]["tokens"] / train["rows"]
        print(estimate.describe(facts, plan.target(run.package), graph.facts["count"], tokens, chosen.recomputes))
        return 0
    run.facts = facts
    run_steps(run, facts["arguments"])
    finish(run, facts)
    return 0


def fitting(run, settings, fresh, lengths):
    """How long rows may be that fit into --memory, as the end of a message; nothing where none are."""
    tell("too little memory: looking for the longest rows that fit")
    try:
        length = plan.longest(run, settings, fresh, lengths, 1, lambda line: None)
    except plan.NoRoom:
        return ""
    return f"; rows of at most {length} tokens fit (--max-length {length})"


_HEADING = "# trainc finetune --config this file -o NEW repeats the run\n"


def _not_more_than(rows, settings):
    """The settings with a batch of at most so many rows."""
    if rows >= settings.batch_size:
        return settings
    if rows < settings.ranks:
        raise Error(f"{settings.ranks} ranks share out the rows of a step, and there are {rows} in all: fewer ranks, or more rows")
    fewer = rows // settings.ranks * settings.ranks
    tell(f"batch-size is {fewer}: there are no more rows")
    return settings.with_(batch_size=fewer)


def describe(settings, train, graph, chosen, steps, base):
    """What was chosen, a line each."""
    how = "adapters" if settings.lora else "all parameters"
    kind = f", base as {settings.quantize}" if settings.quantize else ""
    yield f"model     {base}: {how} trained{kind}, learning rate {_rate(settings)}"
    yield f"data      {train['rows']:,} rows, at most {chosen.length} tokens" + (", packed" if train.get("packed") else "")
    parts = [f"{chosen.micro_batch} at once"] + [str(chosen.accumulate)] * (chosen.accumulate > 1) + [f"{settings.ranks} ranks"] * (settings.ranks > 1)
    accumulated = " = " + " x ".join(parts) if len(parts) > 1 else ""
    yield f"step      {settings.batch_size} rows{accumulated}; {steps} steps"
    budget = f" of {settings.memory}" if settings.memory else ""
    each = " on each rank" if settings.ranks > 1 else ""
    yield f"memory    {size_text(chosen.memory)}{budget}{each}" + ("" if chosen.recomputes else "; nothing is computed again")
    for line in chosen.why:
        yield f"          {line}"


def _rate(settings):
    return f"{plan.learning_rate(settings):g}, {settings.lr_schedule}"


def total_steps(settings, rows):
    if settings.steps:
        return settings.steps
    return settings.epochs * max(1, math.ceil(rows / settings.batch_size))


def train_arguments(run, settings, facts, parts):
    """trainc-run's command line."""
    arguments = [run.package, "--data", parts["train"]["path"]]
    if facts["weights"]:
        arguments += ["--weights", facts["weights"]]
    if settings.adapter:
        arguments += ["--adapter", settings.adapter]
    if "eval" in parts:
        arguments += ["--eval", parts["eval"]["path"]]
    arguments += ["--batch-size", facts["micro_batch"]]
    if facts["accumulate"] > 1:
        arguments += ["--accumulate", facts["accumulate"]]
    if settings.ranks > 1:
        arguments += ["--gpus" if plan.target(run.package).startswith("cuda") else "--ranks", settings.ranks]
    if settings.accumulate_by and facts["accumulate"] * settings.ranks > 1:
        arguments += ["--accumulate-by", settings.accumulate_by]
    arguments += ["--steps", settings.steps] if settings.steps else ["--epochs", settings.epochs]
    arguments += ["--seed", settings.seed]
    arguments += ["--shuffle"] if settings.shuffle else []
    arguments += ["--group-by-length"] if settings.group_by_length else []
    arguments += [f"--trim={settings.trim}"] if settings.trim else []
    warmup = settings.warmup if settings.warmup >= 1 else round(settings.warmup * facts["steps"])
    arguments += ["--lr-schedule", settings.lr_schedule + (f",warmup={int(warmup)}" if warmup else "")]
    arguments += ["--save", run.checkpoints, "--log-dir", run.logs, "--summary", run.summary]
    for name in ("keep", "save-every", "eval-every", "keep-best", "metric", "patience", "threads", "device", "log-format"):
        value = getattr(settings, name.replace("-", "_"))
        if value is not None:
            arguments += [f"--{name}", value]
    for text in settings.runner_options or ():
        arguments += shlex.split(text)
    return [str(argument) for argument in arguments]


def run_steps(run, arguments):
    try:
        processes.run(arguments)
    except processes.RunError as error:
        if not any(run.checkpoints.glob("step-*")):
            raise
        again = shlex.join(["trainc", "finetune", "--resume", str(run.path)])
        raise processes.RunError(f"{error}; {again} goes on from the last checkpoint", error.exit_code) from None


def resume(run):
    facts = run.facts
    run.claim()
    arguments = list(facts["arguments"])
    if run.checkpoints.exists() and any(run.checkpoints.iterdir()):
        arguments += ["--resume", str(run.checkpoints)]
        if "--adapter" in arguments:
            del arguments[arguments.index("--adapter") : arguments.index("--adapter") + 2]
    run_steps(run, arguments)
    finish(run, facts)
    return 0


def finish(run, facts):
    tell(f"trainc export {run.path} {'adapter/' if facts['lora'] else 'merged/'}    writes what was trained")
    if facts["task"] == "causal-lm" and facts["loss"] != "reward":
        tell(f'trainc sample {run.path} --prompt "..."    shows what it has learnt')
