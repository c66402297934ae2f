# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`trainc export RUN adapter/` and `trainc export RUN merged/`."""

import json
import pathlib
import shutil
import sys
import tempfile

from .. import tensors
from ..errors import Error
from . import merged, processes
from .folder import Run, command_of_run

HELP = """Writes what a run of `trainc finetune` has trained.

  trainc export run adapter/     PEFT's adapter_config.json and adapter_model.safetensors (runs with --lora)
  trainc export run merged/      the whole model, as from_pretrained loads it: the base's files with trained values

A folder whose name holds "merged" is the whole model, another one the adapter of a run with --lora; --merged and --adapter say
so where the name does not.
"""
#: {task: PEFT's word}
PEFT_TASKS = {"causal-lm": "CAUSAL_LM", "sequence-classification": "SEQ_CLS", "token-classification": "TOKEN_CLS", "seq2seq": "SEQ_2_SEQ_LM"}


def parser():
    made = command_of_run("export", HELP)
    made.add_argument("target", metavar="DIR")
    kind = made.add_mutually_exclusive_group()
    kind.add_argument("--adapter", action="store_true")
    kind.add_argument("--merged", action="store_true")
    made.add_argument("--overwrite", action="store_true", help="DIR may be there already")
    return made


def main(arguments):
    said = parser().parse_args(arguments)
    run = Run(said.run)
    facts = run.facts
    whole = said.merged or not facts["lora"] or ("merged" in pathlib.Path(said.target).name and not said.adapter)
    if said.adapter and not facts["lora"]:
        raise Error(f"{run.path}: the run trained all parameters, there is no adapter: --merged writes the model")
    target = pathlib.Path(said.target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())) and not said.overwrite:
        raise Error(f"{target}: is there already; --overwrite replaces it")
    checkpoint = run.checkpoint(said.checkpoint)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = pathlib.Path(tempfile.mkdtemp(prefix=f"{target.name}.", suffix=".tmp", dir=target.parent))
    try:
        fresh.chmod(0o755)
        (write_merged if whole else write_adapter)(run, facts, checkpoint, fresh)
        merged.copy_tokenizer(facts["tokenizer"], fresh, facts.get("chat_template"))
        merged.replace_folder(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    print(f"{target}: {'the whole model' if whole else 'the adapter'}, from {checkpoint}", file=sys.stderr)
    return 0


def opened(run, facts, checkpoint):
    """What trainc-run is told to have the trained values."""
    weights = ["--weights", facts["weights"]] if facts["weights"] else []
    return [run.package, "--resume", checkpoint, *weights]


def write_adapter(run, facts, checkpoint, target):
    task = [] if facts["task"] not in PEFT_TASKS else ["--task-type", PEFT_TASKS["sequence-classification" if facts["loss"] == "reward" else facts["task"]]]
    processes.run([*opened(run, facts, checkpoint), "--export", target, "--base-name", facts["base"], *task], quiet=True)


def write_merged(run, facts, checkpoint, target):
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        file = pathlib.Path(folder, "trained.safetensors")
        option = "--merge-adapter" if facts["lora"] else "--export"
        processes.run([*opened(run, facts, checkpoint), option, file], quiet=True)
        export = json.loads((run.export / "export.json").read_text())
        import trainrt

        trainable = {name for name, tensor in trainrt.Package(run.package).parameters.items() if tensor.trainable}
        facts = {**facts, **export}
        merged.write(facts["base"], target, facts, tensors.Tensors(file), trainable)
