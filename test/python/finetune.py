# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`trainc finetune`, `export` and `sample` over an export that is there (no PyTorch): `finetune.py FOLDER MODELS PAGE`

What PyTorch, transformers, PEFT and TRL say of the results is in torch_finetune.py.
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import tiny
import trainrt
from trainc import commands, tensors
from trainc.finetune.folder import Run

folder, models = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
base = tiny.tokenizer(folder / "base")
graph = shutil.copy(models / "causal-lm.onnx", folder / "graph.onnx")  # without its weights, which are the base's
shutil.copy(models / "causal-lm.safetensors", base / "model.safetensors")
(base / "config.json").write_text(json.dumps({"model_type": "qwen2", "vocab_size": 101, "max_position_embeddings": 128}))
rows, held = tiny.write(folder / "chat.jsonl", tiny.chats(40, most=2)), tiny.write(folder / "held.jsonl", tiny.chats(8, 2, most=2))
common = [base, "--graph", graph, "--data", rows, "--target", "cpu:x86-64-v3", "--batch-size", 8, "--lr", 0.01]


def run(*arguments, code=0):
    """(standard output, standard error) of the command; trainc-run's go where this process's go."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        arguments = [str(a) for a in arguments]
        found = commands.run(commands.find(arguments), arguments[1:])
    assert found == code, (arguments, found, out.getvalue(), err.getvalue())
    return out.getvalue(), err.getvalue()


def losses(path):
    return [float(line.split(",")[1]) for line in (path / "logs" / "evaluations.csv").read_text().splitlines()[1:]]


def newest(path):
    return max((p for p in (path / "checkpoints").glob("step-*")), key=lambda p: int(p.name.split("-")[1]))


def trained(path):
    """All bytes of the newest checkpoint's tensors."""
    return {p.name: p.read_bytes() for p in sorted(newest(path).glob("*.safetensors"))}


def adapters():
    out, err = run("finetune", *common, "--eval", held, "--lora", "r=4,alpha=8", "--epochs", 3, "-o", folder / "run")
    assert "adapters trained, learning rate 0.01" in err and "step      8 rows; 15 steps" in err and "trainc export" in err, err
    found = losses(folder / "run")
    assert len(found) == 4 and found[-1] < found[0] - 0.3, found
    run("export", folder / "run", folder / "adapter")
    config = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    assert config["r"] == 4 and config["task_type"] == "CAUSAL_LM" and config["base_model_name_or_path"] == str(base), config
    assert (folder / "adapter" / "tokenizer.json").exists()
    run("export", folder / "run", folder / "merged")
    # The merged folder is the base's with W + scale * B A, under its names and of its types.
    before, after = tensors.Tensors(base / "model.safetensors"), tensors.Tensors(folder / "merged" / "model.safetensors")
    adapter = tensors.Tensors(folder / "adapter" / "adapter_model.safetensors")
    assert before.header.keys() == after.header.keys()
    changed = 0
    for name, entry in before.header.items():
        w, shape = before.flat(name).astype(np.float64), entry["shape"]
        key = f"base_model.model.{name.removesuffix('.weight')}.lora_"
        if f"{key}A.weight" in adapter.header:
            a, b = (adapter.flat(f"{key}{part}.weight").reshape(adapter.header[f"{key}{part}.weight"]["shape"]) for part in "AB")
            w = w + 2.0 * (b.astype(np.float64) @ a).ravel()
            changed += 1
        assert np.abs(w - after.flat(name)).max() < 1e-6 and after.header[name]["shape"] == shape, name
    assert changed == 7
    assert json.loads((folder / "merged" / "config.json").read_text())["model_type"] == "qwen2"
    assert "is there already; --overwrite replaces it" in run("export", folder / "run", folder / "merged", code=1)[1]
    run("export", folder / "run", folder / "merged", "--overwrite")
    text, _ = run("sample", folder / "run", "--prompt", "red cat?", "--tokens", 12)
    assert text == run("sample", folder / "run", "--prompt", "red cat?", "--tokens", 12)[0]
    run("sample", folder / "run", "--prompt", "red", "--raw", "--base", "--tokens", 3, "--temperature", 1, "--top-p", 0.9)
    assert "rows of at most" in run("sample", folder / "run", "--prompt", "a" * 200, code=1)[1]


def resumed():
    """A run that was ended goes on bit for bit, with nothing said but its folder."""
    steps = ["--lora", "r=2", "--steps", 6, "--save-every", 3]
    run("finetune", *common, *steps, "-o", folder / "whole")
    shutil.copytree(folder / "whole", folder / "ended")
    wanted = trained(folder / "ended")
    shutil.rmtree(newest(folder / "ended"))
    assert newest(folder / "ended").name == "step-3"
    run("finetune", "--resume", folder / "ended")
    assert trained(folder / "ended") == wanted
    # The resolved configuration repeats the run.
    run("finetune", "--config", folder / "whole" / "config.yaml", "-o", folder / "again")
    assert trained(folder / "again") == trained(folder / "whole")


def whole_model():
    """All parameters, accumulated for a small memory; the same rows as a folder of `trainc data`, packed or not."""
    run("data", rows, "--tokenizer", base, "--max-length", 128, "-o", folder / "shards")
    out, err = run(
        "finetune", *common[:3], "--data", folder / "shards", *common[5:], "--memory", "1.2MB", "--steps", 2, "-o", folder / "full"
    )
    assert "all parameters trained" in err and " at once x " in err and re.search(r"memory    [0-9.]+ [kM]B of 1.2MB; nothing is computed again", err), err
    assert "rows at once: the best predicted rate in 1.2MB" in err, err
    run("export", folder / "full", folder / "whole-model")
    assert tensors.Tensors(folder / "whole-model" / "model.safetensors").header.keys() == tensors.Tensors(base / "model.safetensors").header.keys()
    assert "there is no adapter" in run("export", folder / "full", folder / "x", "--adapter", code=1)[1]
    out, err = run("finetune", *common, "--dry-run", "--lora", "r=2")
    assert "trainc export/model.onnx -o model.tpk --target cpu:x86-64-v3 --lora r=2" in out and "trainc-run" in out, out
    assert "memory of a step: " in out and "time of a step: " in out, out


def size_of(text):
    return float(re.search(r"memory of a step: ([0-9.]+) kB", text)[1])


def ranks():
    """Two processes, of which each takes half of a step's rows, make the bits of one that takes the halves one after the other."""
    made = []
    for name, more in (("alone", ["--micro-batch", 4]), ("together", ["--ranks", 2]), ("shards-of-state", ["--ranks", 2, "--distribute", "zero3"])):
        at = folder / f"ranks-{name}"
        run("finetune", *common, "--lora", "r=2", "--clip-norm", 0, "--steps", 2, *more, "-o", at)
        made.append(trained(at))
    assert made[0] == made[1] == made[2]
    told = json.loads((folder / "ranks-shards-of-state" / "memory.json").read_text())
    assert told["time"]["world"] == 2 and told["sizes"]["world"] == 2, told["time"]
    target = ["-o", folder / "mistake"]
    for more, words in (
        (["--ranks", 3], "--batch-size 8 are the rows of a step, which 3 ranks share out: it is no multiple of 3"),
        (["--ranks", 2, "--device", 0], "--device is one GPU, and --ranks takes the first of them"),
        (["--distribute", "zero1"], "--distribute zero1 is for several ranks: --ranks is missing"),
    ):  # fmt: skip
        assert words in run("finetune", *common, *more, *target, code=2)[1], more
    said = run("finetune", *common, "--ranks", 2, "--micro-batch", 3, *target, code=1)[1]
    assert "micro-batch 3 does not divide the 4 rows of a rank" in said, said
    few = tiny.write(folder / "few.jsonl", tiny.chats(1, most=2))
    said = run("finetune", *common[:3], "--data", few, *common[5:], "--ranks", 2, "--overwrite", *target, code=1)[1]
    assert "2 ranks share out the rows of a step, and there are 1 in all: fewer ranks, or more rows" in said, said
    shutil.rmtree(folder / "mistake")


def rank_of(process, number):
    """The process id of a rank that the command has started."""
    for _ in range(600):
        found = [process.pid]
        for pid in found:
            with contextlib.suppress(OSError):  # it has ended
                found += [int(c) for at in pathlib.Path(f"/proc/{pid}/task").iterdir() for c in (at / "children").read_text().split()]
                if f"--rank={number}" in pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
                    return pid
        time.sleep(0.05)
    raise AssertionError("no ranks")


def ended_ranks():
    """SIGTERM ends all processes behind a step; where a rank dies the command says how to go on, and that does."""
    for name, number in (("ended", signal.SIGTERM), ("died", signal.SIGKILL)):
        at = folder / f"ranks-{name}"
        command = [sys.executable, "-m", "trainc", "finetune", *common, "--ranks", 2, "--distribute", "zero3", "--steps", 100000, "--save-every", 5, "-o", at]
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        rank = rank_of(process, 1)
        for _ in range(600):
            if any((at / "checkpoints").glob("step-*")):
                break
            time.sleep(0.05)
        os.kill(process.pid if number == signal.SIGTERM else rank, number)
        _, err = process.communicate(timeout=30)
        assert not pathlib.Path(f"/proc/{rank}").exists(), "a rank goes on"
        code, words = (1, "interrupted by SIGTERM after step ") if number == signal.SIGTERM else (5, "was ended by signal 9")
        assert process.returncode == code and words in err, err
        assert f"; trainc finetune --resume {at} goes on from the last checkpoint" in err, err
        made = Run(at)
        step = int(newest(at).name.split("-")[1])
        arguments = made.facts["arguments"]
        arguments[arguments.index("--steps") + 1] = str(step + 2)
        made.facts = made.facts | {"arguments": arguments}
        run("finetune", "--resume", at)
        assert newest(at).name == f"step-{step + 2}", newest(at)


def small_memories():
    """What is computed again, and rows that are cut; what cannot be is an error with the least."""
    dry = [*common, "--dry-run", "--memory", "330kB"]
    out, err = run("finetune", *dry)
    cut = int(re.search(r"rows are cut to (\d+) tokens \(--max-length says otherwise\): --memory 330kB is too little for one row of 120 tokens "
                        r"at once: the least that a step can do with is [0-9.]+ KiB\n", err)[1])  # fmt: skip
    assert 72 <= cut < 120 and f"at most {cut} tokens" in err and size_of(out) <= 330 and f"--dim seq=1..{cut}" in out, (out, err)
    assert re.search(r"\n +\d+ values? (are|is) computed again, in [0-9.]+ % more time: without it a step takes [0-9.]+ KiB\n", err), err
    for more in (["--max-length", "128"], ["--overlong", "error"]):  # rows stay as they are
        err = run("finetune", *dry, *more, code=1)[1]
        assert "--memory 330kB is too little for one row of 120 tokens at once: the least that a step can do with is" in err, err
        fit = re.search(r"; rows of at most (\d+) tokens fit \(--max-length (\d+)\)\n$", err)
        assert "of optimizer state" in err and "are cut" not in err and fit and fit[1] == fit[2], err
        out, err = run("finetune", *dry, "--max-length", fit[1])
        assert size_of(out) <= 330 and "are cut" not in err, (out, err)
    err = run("finetune", *common, "--dry-run", "--memory", "1kB", code=1)[1]
    assert re.search("--memory 1kB is too little for one row of (72|80) tokens at once: the least", err), err  # of what half of the rows have
    err = run("finetune", *common, "--dry-run", "--memory", "1kB", "--max-length", "128", code=1)[1]
    assert "too little memory: looking for the longest rows that fit" in err and "fit (" not in err, err
    err = run("finetune", *common, "--dry-run", "--memory", "1kB", "--micro-batch", "4", code=1)[1]
    assert re.search("is too little for 4 rows of (72|80) tokens at once: the least", err), err
    assert "--memory chooses what is computed again" in run("finetune", *dry, "--recompute", "level:1", code=1)[1]


def offload():
    """When activations wait on the host: of a compiler that says what it is told to."""
    from trainc.errors import CompileError
    from trainc.finetune import plan
    from trainc.finetune.keys import FINETUNE
    from trainc.settings import Settings

    settings = Settings(FINETUNE, {"memory": "1GB", "batch-size": 4, "target": "cuda:sm_90", "graph": "given.onnx"})  # of no cache
    made = Run(folder / "offload")
    made.path.mkdir()

    def choose(**costs):
        """costs: {"plain" or "offload": percent of time, or None where nothing fits}"""
        calls = []

        def compiler_says(arguments, tell=None):
            way = "offload" if "--offload" in arguments else "plain"
            calls.append(way)
            if costs[way] is None:
                raise CompileError("m.onnx: error: --memory-budget: the least that a step can do with is 2 GiB: 1 GiB of parameters")
            if "-o" in arguments:
                pathlib.Path(arguments[arguments.index("-o") + 1]).write_text(way)
                pathlib.Path(next(a for a in arguments if a.startswith("--report=")).partition("=")[2]).write_text(way)
            count = int(costs[way] > 0)
            return "", [f"trainc: memory: 1.5 GiB without recompute, 0.9 GiB with {count} values rematerialized; by the model {costs[way]} % more time, x",
                        "trainc: memory: batch 2 has the best predicted rate"]  # fmt: skip

        kept = plan.compiler.run, plan.predict
        plan.compiler.run, plan.predict = compiler_says, lambda *_: 900_000_000
        try:
            found = plan.make(made, settings, [], {"seq": 64}, print)
        finally:
            plan.compiler.run, plan.predict = kept
        assert made.package.read_text() == made.report.read_text() and sorted(p.name for p in made.path.iterdir()) == ["memory.json", "model.tpk"]
        assert (found.micro_batch, found.accumulate) == (2, 2)
        assert ("--offload" in found.options) == (made.package.read_text() == "offload")
        return made.package.read_text(), found.why, calls

    way, why, calls = choose(plain=2.0, offload=0.0)
    assert way == "plain" and "offload" not in calls, calls  # computing again costs next to nothing
    assert why == ("2 rows at once: the best predicted rate in 1GB", "1 value is computed again, in 2 % more time: without it a step takes 1.5 GiB")
    way, why, _ = choose(plain=9.5, offload=4.0)
    assert way == "offload" and len(why) == 3, why
    assert why[2] == "activations wait on the host where copying hides (--offload): without it 9.5 % more time would go into computing again"
    assert choose(plain=9.5, offload=8.0)[0] == "plain"
    way, why, _ = choose(plain=None, offload=0.0)
    assert way == "offload" and why[-1].endswith("(--offload): nothing else fits") and len(why) == 2, why
    try:
        choose(plain=None, offload=None)
        raise AssertionError("it fits")
    except plan.NoRoom as error:
        assert "--memory 1GB is too little for one row of 64 tokens at once" in str(error), error


def mistakes():
    target = ["-o", folder / "mistake"]
    yaml = folder / "run.yaml"
    yaml.write_text(f"model: {base}\ndata: {rows}\ngraph: {graph}\nlora: {{r: 2, alpha: 4}}\noptimizer: adamw\nepoch: 3\n")
    assert f"{yaml}:6: there is no key 'epoch'; did you mean 'epochs'?" in run("finetune", "--config", yaml, *target, code=2)[1]
    yaml.write_text(yaml.read_text().replace("epoch: 3", "steps: 2"))
    out, err = run("finetune", "--config", yaml, "--dry-run")
    assert "--lora r=2,alpha=4" in out and "--steps 2" in out, out
    for content, words in (
        ("- a\n- b\n", "expected `key: value` lines, got a list"), ("lr: 1\nlr: 2\n", ":2: no YAML: the key 'lr' comes twice"),
        ("lora: {r: 1, r: 2}\n", ":1: no YAML: the key 'r' comes twice"), ("epochs: three\n", "epochs: expected a whole number, got 'three'"),
        ("shuffle: 'yes'\n", "shuffle: expected true or false, got 'yes'"), ("model: [a, b]\n", "model: expected a path, got ['a', 'b']"),
        ("data: {a: 1}\n", "data: expected a path"), ("lr: .nan\n", "lr: expected a number, got nan"), ("batch-size: 0\n", "batch-size: expected at least 1"),
        ("memory: 24XB\n", "memory: expected a size such as 24GB or 512MiB"), ("a: [\n", "no YAML: "), ("\x01", "no YAML: unacceptable character"),
    ):  # fmt: skip
        (folder / "bad.yaml").write_text(content)
        said = run("finetune", "--config", folder / "bad.yaml", *target, code=2)[1]
        assert words in said and said.count("\n") == 1, (content, said)
    assert "cannot be read: Is a directory" in run("finetune", "--config", folder, *target, code=2)[1]
    for more, words in (
        (["--keep-best", "2"], "--keep-best goes by evaluations of held-out rows: --eval is missing"),
        (["--metric", "loss", "--eval", held], "--metric is what --keep-best and --patience compare: neither is given"),
        (["--patience", "2", "--steps", "4", "--eval", held], "--patience counts evaluations on the way: beside --steps these need --eval-every"),
    ):  # fmt: skip
        assert words in run("finetune", *common, *more, *target, code=2)[1], more
    busy = Run(folder / "busy")
    busy.begin(False)
    for command in (["finetune", *common, "-o", busy.path], ["finetune", *common, "-o", busy.path, "--overwrite"]):
        assert "another process trains in this folder" in run(*command, code=1)[1]
    shutil.copytree(folder / "run", folder / "copy")
    other = Run(folder / "copy")
    other.claim()
    assert "another process trains in this folder" in run("finetune", "--resume", folder / "copy", code=1)[1]
    assert "the folder holds other files; choose a new one" in run("finetune", *common, "-o", folder / "base", code=1)[1]
    assert "is no folder" in run("finetune", *common, "-o", rows, code=1)[1]
    assert "cannot be created: " in run("finetune", *common, "-o", f"{rows}/run", code=1)[1]
    assert "there is no such folder" in run("sample", folder / "run", "--prompt", "a", "--checkpoint", folder / "none", code=1)[1]
    assert "--tokens is at least 1, --top-p above 0" in run("sample", folder / "run", "--prompt", "a", "--tokens", -3, code=2)[1]
    assert "--data is missing: a file of rows" in run("finetune", base, *target, code=2)[1]
    assert "--model is missing" in run("finetune", "--data", rows, *target, code=2)[1]
    assert "-o is missing: the run's folder" in run("finetune", base, "--data", rows, code=2)[1]
    assert "there is no such folder" in run("finetune", folder / "none", "--data", rows, *target, code=1)[1]
    assert "there is no config.json in it" in run("finetune", folder, "--data", rows, *target, code=1)[1]
    assert "a run is there: --resume" in run("finetune", *common, "-o", folder / "run", code=1)[1]
    assert "no run of `trainc finetune`" in run("finetune", "--resume", folder / "none", code=1)[1]
    assert "no run of `trainc finetune`" in run("export", folder / "none", folder / "x", code=1)[1]
    assert "'--lr' says nothing to it; trainc finetune --config " in run("finetune", "--resume", folder / "run", "--lr", "1", code=2)[1]
    assert "there is no option --laer-decay; did you mean '--layer-decay'?" in run("finetune", *common, "--laer-decay", "3", *target, code=2)[1]
    assert "--prompt is empty: there is no token to go on from" in run("sample", folder / "run", "--raw", "--prompt", "", code=2)[1]
    shutil.copytree(folder / "run", folder / "damaged")
    (folder / "damaged" / "run.json").write_text('{"a":')
    for command in (["sample", folder / "damaged", "--prompt", "a"], ["finetune", "--resume", folder / "damaged"]):
        assert "run.json: damaged: no JSON: " in run(*command, code=1)[1]
    said = run("data", rows, "--tokenizer", folder / "moved", "-o", folder / "x", code=1)[1]
    assert f"{folder / 'moved'}: there is no such folder (any more)" in said, said
    assert "is no folder; choose another name" in run("data", rows, "--tokenizer", base, "-o", rows, code=1)[1]
    assert "micro-batch 3 does not divide batch-size 8" in run("finetune", *common, "--micro-batch", 3, *target, code=1)[1]
    shutil.rmtree(folder / "mistake")
    # The compiler's own refusals come as they are, before rows are tokens.
    said = run("finetune", *common, "--lora", "rank=3", *target, code=2)[1]
    assert said.startswith("trainc: error: --lora: ") and not (folder / "mistake" / "data").exists(), said
    shutil.rmtree(folder / "mistake")
    # What the runtime says.
    def refused(arguments):
        raise trainrt.errors.BadData("input 'a'")
    assert commands.run(refused, []) == 1
    # Another model's tokenizer: more tokens than the model has, or rows that were written with it.
    other = tiny.tokenizer(folder / "other", extra=[f"<{n}>" for n in range(60)])
    said = run("finetune", *common, "--tokenizer", other, *target, code=1)[1]
    assert "and the model in" in said and "knows 101: it is the tokenizer of another model" in said, said
    run("data", rows, "--tokenizer", other, "-o", folder / "foreign")
    said = run("finetune", *common[:3], "--data", folder / "foreign", *target, code=1)[1]
    assert "the rows were written with the tokenizer of" in said and "(159 tokens)" in said or "tokens), and the model's is that of" in said, said
    texts = tiny.write(folder / "texts.jsonl", [{"text": "a", "label": 1}])
    run("data", texts, "--tokenizer", base, "--task", "sequence-classification", "-o", folder / "classes")
    said = run("finetune", *common[:3], "--data", rows, "--eval", folder / "classes", *target, code=1)[1]
    assert "their column 'labels' is absent or of another kind" in said, said
    shutil.rmtree(folder / "mistake")
    run("data", rows, "--tokenizer", base, "--pack", "-o", folder / "packed")
    said = run("finetune", *common[:3], "--data", folder / "shards", "--eval", folder / "packed", *target, code=1)[1]
    assert "--data and --eval are folders of different kinds" in said, said
    shutil.rmtree(folder / "mistake")
    for setting, eval_of in ((["--max-length", "8"], folder / "shards"), (["--pack"], held), (["--train-on", "all"], folder / "shards")):
        said = run("finetune", *common[:3], "--data", folder / "shards", "--eval", eval_of, *setting, *target, code=2)[1]
        assert f"{setting[0]}: the rows of {folder / 'shards'} are tokens already (at most " in said, said
        shutil.rmtree(folder / "mistake")
    said = run("finetune", *common[:3], "--data", folder / "shards", "--loss", "orpo", *target, code=1)[1]
    assert "the rows are of another task or loss: their column 'chosen_attention_mask' is absent or of another kind" in said, said


def documented():
    """The page's tables are those of the program, and its commands run."""
    from trainc.data.keys import DATA
    from trainc.finetune.keys import FINETUNE
    from trainc.settings import Table

    page = pathlib.Path(sys.argv[3])
    text = page.read_text()
    output = Table(*(key for key in DATA.keys.values() if key.group == "Output"))
    for name, table in (("finetune", FINETUNE), ("data", output)):
        inside = text.partition(f"<!-- keys of trainc {name} -->\n")[2].partition(f"<!-- end of keys of trainc {name} -->")[0]
        assert inside.strip() == table.reference().strip(), f"{page}: write the table of trainc {name} anew:\n{table.reference()}"
    at = folder / "documented"
    at.mkdir()
    shutil.copytree(base, at / "FOLDER")
    for path in (rows, held):
        shutil.copy(path, at)
    os.chdir(at)
    commands_of_page = [line for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S) for line in block.splitlines()]
    assert len(commands_of_page) == 8
    for line in commands_of_page:
        words = shlex.split(line.replace("r=16", "r=4"), comments=True)  # the model is narrow
        assert words.pop(0) == "trainc", line
        if words[:2] == ["finetune", "FOLDER"]:
            words += ["--graph", graph, "--target", "cpu:x86-64-v3"]
        run(*words)


def dispatcher():
    """`trainc` of the wheel: what is a command, and what is the compiler's."""
    def trainc(*arguments):
        # The compiler that was built stands where a wheel has its own.
        code = "import sys, pathlib, os; from trainc import _programs; _programs.PROGRAM = pathlib.Path(os.environ['TRAINC']); _programs.trainc()"
        return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, cwd=folder)

    said = trainc("--help")
    assert "\nCommands of the Python package" in said.stdout and "--memory-budget" in said.stdout
    # The compiler by itself knows the same ones by name.
    for command, (_, what) in commands.COMMANDS.items():
        assert f"\n  {command:<10}{what}\n" in said.stdout, said.stdout
        alone = subprocess.run([os.environ["TRAINC"], command, "model.onnx", "--profile", "x"], capture_output=True, text=True)
        assert alone.returncode == 2 and f"'{command}' is a command of trainc's Python package" in alone.stderr, alone
    assert "MODEL.onnx" in trainc("nothing.onnx").stderr or trainc("nothing.onnx").returncode
    assert "--assistant-start" in trainc("data", "--help").stdout and "--quantize" in trainc("finetune", "--help").stdout
    code = "import sys; from trainc import commands; assert commands.find(['model.onnx']) is None; print([m for m in ('yaml', 'numpy', 'torch', 'transformers') if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ)
    assert loaded.stdout == "[]\n", loaded


def cached():
    """Neither tokens nor packages are made twice of the same, and what has changed is."""
    from trainc import compiler
    from trainc.data import tokenizers
    from trainc.finetune import plan
    from trainc.finetune.folder import Run
    from trainc.finetune.keys import FINETUNE

    def forbidden(*arguments, **named):
        raise AssertionError("made again")

    kept = tokenizers.load, compiler.run
    tokenizers.load = forbidden
    try:
        _, err = run("finetune", *common, "--eval", held, "--lora", "r=4,alpha=8", "--dry-run", "-o", folder / "again")
        assert "tokens: " in err, err
    finally:
        tokenizers.load = kept[0]
    for name in ("index.json", "shard-00000.safetensors"):
        assert (folder / "again" / "data" / "train" / name).read_bytes() == (folder / "run" / "data" / "train" / name).read_bytes()
    changed = tiny.write(folder / "changed.jsonl", tiny.chats(12, 5, most=2))
    run("finetune", *common[:3], "--data", changed, *common[5:], "--dry-run", "-o", folder / "changed")
    assert json.loads((folder / "changed" / "data" / "train" / "index.json").read_text())["rows"] == 12
    settings = FINETUNE.resolve(argparse.Namespace(**{key.field: None for key in FINETUNE.keys.values()}), None)
    settings = settings.with_(target="cpu:x86-64-v3", batch_size=2, lora="r=2,alpha=4")
    there = Run(folder / "again")
    first, bytes_of = plan.make(there, settings, [], {"seq": 16}, print), there.package.read_bytes()
    compiler.run = forbidden
    try:
        there.package.unlink()
        assert plan.make(there, settings, [], {"seq": 16}, print) == first and there.package.read_bytes() == bytes_of
        try:
            plan.make(there, settings.with_(lr=0.5), [], {"seq": 16}, print)
        except AssertionError:
            pass
        else:
            raise SystemExit("another learning rate is another package")
    finally:
        compiler.run = kept[1]


def exporter():
    """What is missing, and an export that was ended, are said; nothing is left of it."""
    from trainc.errors import Error
    from trainc.finetune.exporter import Exporter

    (folder / "without").mkdir()
    (folder / "without" / "torch.py").write_text("raise ModuleNotFoundError(name='torch')\n")
    sys.path.insert(0, str(folder / "without"))
    try:
        _, err = run("finetune", base, *common[3:], "-o", folder / "no-torch", code=1)
        assert re.search(r"exporting a model needs PyTorch, transformers, onnx and onnxscript \((torch|onnx_ir) is missing\): pip install 'trainc\[hf\]'", err), err
    finally:
        sys.path.remove(str(folder / "without"))
    with Exporter() as ended:
        ended.start()
        ended._process.kill()
        ended._process.wait()
        try:
            ended.export(base, {}, folder)
            raise SystemExit("nothing was exported")
        except Error as error:
            assert str(error) == "exporting the model ended with signal 9 (memory?)", error
        kept = pathlib.Path(ended._folder)
        assert kept.is_dir()
    assert not kept.exists()


for check in (adapters, cached, exporter, resumed, whole_model, small_memories, ranks, ended_ranks, offload, mistakes, dispatcher, documented):
    check()
    print(check.__name__, flush=True)
