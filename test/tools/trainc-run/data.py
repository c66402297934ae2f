# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of different lengths (docs/data.md): --density, --trim, --tokens-per-batch, --group-by-length,
--rank, --world, --resume in the middle of an epoch, and what trainc tells about tokens.

  data.py --trainc TRAINC --trainc-run TRAINC_RUN --cc CC --models test/e2e/models DIR
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import numpy as np
import onnx

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "Inputs"))
from cases import expect, run_cases  # noqa: E402
from trained import Trained  # noqa: E402

HEADER = (
    "\t| STEP       | INPUT TYPE | INPUT NAME      | PAD IDX    | DENSITY    | VALID TOKENS    "
    "| TOTAL TOKENS    | VALID TOKENS/BATCH |\n"
)
PAD = 3  # of gpt2's data


class Cases(Trained):
    def __init__(self, arguments):
        super().__init__(arguments)
        self.gpt2 = dict(np.load(arguments.models / "gpt2.npz"))
        self.rows, self.width = self.gpt2["input_ids"].shape
        self.lengths = self.gpt2["attention_mask"].sum(1)

    def tokens(self, package):
        manifest = json.loads(zipfile.ZipFile(package).read("manifest.json"))
        return {i["name"]: i["tokens"] for i in manifest["inputs"] if "tokens" in i}

    def ids(self, *run):
        """Of each step, what the density of input_ids was."""
        log = self.log(*run, "--density")
        return [e for e in log if e.get("event") == "density" and e["input"] == "input_ids"]

    # What the compiler finds.

    def case_tokens_in_manifest(self):
        mask = [{"role": "embed", "mask": "attention_mask"}]
        label = [{"role": "label", "pad": -100}]
        expect(self.tokens(self.trainc("gpt2")) == {"input_ids": mask, "labels": label})
        expect(self.tokens(self.trainc("bert-cls")) == {"input_ids": mask, "labels": label})
        expect(self.tokens(self.trainc("mlp-regression")) == {})
        pad = [{"role": "embed", "pad": PAD}]
        for flag in (f"{PAD}", f"input_ids={PAD}"):
            found = self.tokens(self.trainc("gpt2", "--pad-token", flag))
            expect(found == {"input_ids": pad, "labels": label}, found)
        named = self.tokens(self.trainc("gpt2", "--pad-token", "input_ids=attention_mask"))
        expect(named["input_ids"] == mask, named)

    def case_padding_idx_of_the_exporter(self):
        """PyTorch's exporter keeps it in the metadata of the node; a mask is better."""
        call = "%embedding : [num_users=1] = call_function[target=torch.ops.aten.embedding.default]"
        for model, arguments, expected in (
            ("nanogpt", "(%weight, %input_ids, 3)", [{"role": "embed", "pad": 3}]),
            ("nanogpt", "(%weight, %input_ids)", None),
            ("nanogpt", "(%weight, %input_ids, -1)", None),
            ("bert-cls", "(%weight, %input_ids, 0)", [{"role": "embed", "mask": "attention_mask"}]),
        ):
            proto = onnx.load(self.arguments.models / f"{model}.onnx")
            gather = next(n for n in proto.graph.node if n.op_type == "Gather")
            gather.metadata_props.add(key="pkg.torch.onnx.fx_node", value=f"{call}(args = {arguments}, kwargs = {{}})")
            path, package = self.path(".onnx"), self.path(".tpk")
            onnx.save(proto, path)
            subprocess.run([self.arguments.trainc, path, "-o", package, "--log-level", "error",
                            "--embed-weights"], check=True)  # fmt: skip
            found = self.tokens(package).get("input_ids")
            expect(found == expected, model, arguments, found)

    def case_pad_token_errors(self):
        for model, value, words in (
            ("gpt2", "nothing=1", "there is no input 'nothing'; token ids are in 'input_ids'"),
            ("gpt2", "attention_mask=0", "input 'attention_mask' holds no token ids"),
            ("gpt2", "input_ids=nothing", "'nothing' is neither a number nor an input"),
            ("bert-cls", "input_ids=labels", "'labels' cannot mask 'input_ids': they have different"),
            ("mlp-regression", "0", "no input of the model holds token ids"),
        ):
            said = self.trainc(model, "--pad-token", value, code=1)
            expect(words in said and f"{model}.onnx: error: --pad-token" in said, said)
        for value in ("x", "=1", "input_ids="):
            said = self.trainc("gpt2", "--pad-token", value, code=2)
            expect("expected ID, INPUT=ID or INPUT=MASK" in said, said)

    def case_rows_of_other_names(self):
        """An input whose first axis has another name is taken as one of each row, and that is said."""
        proto = onnx.load(self.arguments.models / "mlp-regression.onnx")
        target = proto.graph.input[-1]
        extra = onnx.helper.make_tensor_value_info("offset", onnx.TensorProto.FLOAT, ["others"])
        proto.graph.input.append(extra)
        loss = proto.graph.output[0].name
        for node in proto.graph.node:
            node.output[:] = [f"{o}.before" if o == loss else o for o in node.output]
        proto.graph.node.append(onnx.helper.make_node("ReduceMean", ["offset"], ["offset.mean"], keepdims=0))
        proto.graph.node.append(onnx.helper.make_node("Add", [f"{loss}.before", "offset.mean"], [loss]))
        expect(target.name != "offset")
        path, package = self.path(".onnx"), self.path(".tpk")
        onnx.save(proto, path)
        command = [self.arguments.trainc, path, "-o", package, "--log-level", "error", "--embed-weights"]
        subprocess.run([str(c) for c in command], check=True)
        arrays = dict(np.load(self.arguments.models / "mlp-regression.npz"))
        rows = len(next(iter(arrays.values())))
        data = self.data(**arrays, offset=np.zeros(rows, np.float32))
        _, err = self.run(package, data, "--steps", "1")
        said = "has another name than 'batch' for the first axis, but the data's rows: taken as one of each row"
        expect(f"'offset' {said}" in err, err)

    def case_memory_that_padding_leaves(self):
        """A batch that fits if enough of it is padding is not refused: a warning tells."""
        source, library = HERE / "Inputs" / "interrupt_writes.c", self.path(".so")
        subprocess.run([self.arguments.cc, "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
        memory, package = self.path(".meminfo"), self.trainc("gpt2")
        data = self.data(**{name: np.tile(array, (64, 1)) for name, array in self.gpt2.items()})
        command = [self.arguments.trainc_run, package, "--data", data, "--steps", "1", "--batch-size", str(64 * self.rows)]

        def run(kilobytes):
            memory.write_text(f"MemAvailable: {kilobytes} kB\n")
            environment = {**os.environ, "LD_PRELOAD": str(library), "MEMINFO": str(memory)}
            return subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment)

        done = run(1)
        least = re.search(r"rows needs ([\d.]+) MiB of memory, and .* are free for it", done.stderr)
        expect(done.returncode == 3 and least, done.returncode, done.stderr)
        done = run(int(float(least[1]) * 1024 * 1.01))
        found = re.search(r"needs up to ([\d.]+) MiB of memory, and .*: it fits only with enough padding", done.stderr)
        expect(done.returncode == 0 and found and float(found[1]) > float(least[1]), done.returncode, done.stderr)
        done = run(int(float(found[1]) * 1024 * 1.01))
        expect(done.returncode == 0 and "padding" not in done.stderr, done.returncode, done.stderr)

    # Density.

    def table(self, records, steps):
        text = f">>>Valid token/label density (e.g. valid/total) in passing {steps} steps:\n{HEADER}"
        row = "\t| {:<10} | {:<10} | {:<15} | {:<10} | {:<9.2f}% | {:<15} | {:<15} | {:<15} |\n"
        return text + "".join(row.format(*record) for record in records) + "<<<\n"

    def records(self, step, begin, end, pad=None):
        ids, labels = self.gpt2["input_ids"][begin:end], self.gpt2["labels"][begin:end]
        real = self.gpt2["attention_mask"][begin:end] != 0 if pad is None else ids != pad
        valid = int(real.sum())
        label = int((labels != -100).sum())
        shown = "mask" if pad is None else pad
        return [
            (step, "EMBED", "input_ids", shown, 100 * valid / ids.size, valid, ids.size,
             str([int(n) for n in real.sum(1)])),
            (step, "LABEL", "labels", -100, 100 * label / labels.size, label, labels.size, "N/A"),
        ]  # fmt: skip

    def case_density_table(self):
        data = self.data(**self.gpt2)
        out, _ = self.run(self.trainc("gpt2"), data, "--batch-size", "8", "--density", "--steps", "2")
        expected = self.table(self.records(1, 0, 8), 1) + self.table(self.records(2, 8, 16), 1)
        expect(out.startswith(expected), out, "is not", expected)
        rest = out[len(expected) :]
        valid, total = int(self.gpt2["attention_mask"][:16].sum()), 16 * self.width
        lines = rest.splitlines()
        expect(lines[0] == ">>>Valid token/label density in all 2 steps:", rest)
        percents = [100 * self.lengths[i : i + 8].sum() / (8 * self.width) for i in (0, 8)]
        row = "\t| {:<10} | {:<15} | {:<10} | {:<9.2f}% | {:<9.2f}% | {:<9.2f}% | {:<15} | {:<15} |"
        expect(lines[2] == row.format("EMBED", "input_ids", "mask", 100 * valid / total,
                                      min(percents), max(percents), valid, total), rest)  # fmt: skip
        expect(lines[-1] == "<<<", rest)

    def case_density_every_few_steps(self):
        package = self.trainc("gpt2", "--pad-token", str(PAD))
        data = self.data(**self.gpt2)
        out, _ = self.run(package, data, "--batch-size", "4", "--density=2", "--steps", "5")
        two = lambda s: self.records(s, 4 * s - 4, 4 * s, PAD) + self.records(s + 1, 4 * s, 4 * s + 4, PAD)  # noqa: E731
        expected = self.table(two(1), 2) + self.table(two(3), 2) + self.table(self.records(5, 16, 20, PAD), 1)
        expect(out.startswith(expected), out, "is not", expected)

    def case_density_json(self):
        log = self.log(self.trainc("gpt2"), self.data(**self.gpt2), "--batch-size", "6",
                       "--accumulate", "2", "--density", "--epochs", "1")  # fmt: skip
        events = [e.get("event", "step") for e in log]
        expect(events == ["step", "density", "density"] * 2 + ["density_summary"] * 2 + ["summary"], events)
        embed = log[1]
        valid = int(self.lengths[:12].sum())
        expect(embed == {"event": "density", "step": 1, "role": "embed", "input": "input_ids",
                         "mask": "attention_mask", "density": valid / (12 * self.width), "valid": valid,
                         "total": 12 * self.width, "valid_per_row": self.lengths[:12].tolist()}, embed)  # fmt: skip
        expect(log[2]["role"] == "label" and log[2]["pad"] == -100 and log[2]["step"] == 1, log[2])
        summary = log[-3]
        parts = [self.lengths[i : i + 12].sum() / (12 * self.width) for i in (0, 12)]
        expect(summary["valid"] == int(self.lengths.sum()) and summary["steps"] == 2, summary)
        expect(summary["lowest"] == min(parts) and summary["highest"] == max(parts), summary)

    def case_density_changes_nothing(self):
        run = self.trainc("gpt2"), self.data(**self.gpt2), "--batch-size", "8", "--epochs", "2"
        expect(self.losses(*run) == self.losses(*run, "--density"))

    def case_density_needs_something_to_count(self):
        package = self.trainc("mlp-regression")
        data = self.arguments.models / "mlp-regression.npz"
        self.refused(["--density has nothing to count", "trainc --pad-token ID"], package, data, "--density")

    # Trimming.

    def case_trim_keeps_the_loss(self):
        data = self.data(**self.gpt2)
        run = self.trainc("gpt2"), data, "--batch-size", "4", "--epochs", "2"
        self.close(self.losses(*run, "--trim"), self.losses(*run))
        for flags, multiple in ((["--trim"], 1), (["--trim=4"], 4), (["--trim=64"], 64)):
            for step, record in enumerate(self.ids(*run[:-2], "--epochs", "1", *flags)):
                rows = self.lengths[4 * step : 4 * step + 4]
                width = min(-(-max(rows) // multiple) * multiple, self.width)
                expect(record["total"] == 4 * width, flags, record)
                expect(record["valid_per_row"] == rows.tolist(), record)

    def case_trim_shuffled(self):
        run = self.trainc("gpt2"), self.data(**self.gpt2), "--batch-size", "5", "--steps", "12"
        run += "--shuffle", "--seed", "3"
        self.close(self.losses(*run, "--trim"), self.losses(*run))

    def case_trim_cuts_each_length(self):
        """Source and target of an encoder and decoder; labels are rows of their own length."""
        arrays = dict(np.load(self.arguments.models / "t5.npz"))
        source, target = arrays["attention_mask"].sum(1), (arrays["labels"] != -100).sum(1)
        run = self.trainc("t5"), self.data(**arrays), "--batch-size", "2", "--epochs", "1"
        self.close(self.losses(*run, "--trim"), self.losses(*run))
        log = [e for e in self.log(*run, "--trim", "--density") if e.get("event") == "density"]
        for record in log:
            rows = slice(2 * record["step"] - 2, 2 * record["step"])
            widest = max((source if record["role"] == "embed" else target)[rows])
            expect(record["total"] == 2 * widest, record)

    def case_trim_needs_a_dynamic_length(self):
        package = self.trainc("gpt2", "--dim", f"seq={self.width}")
        data = self.data(**self.gpt2)
        self.refused(["axis 1 of input 'input_ids' is always", "without --dim"], package, data, "--trim")
        package = self.trainc("mlp-regression")
        self.refused(["nothing tells how long rows are", "--pad-token"], package,
                     self.arguments.models / "mlp-regression.npz", "--trim")  # fmt: skip

    # Batches by length.

    def case_tokens_per_batch(self):
        run = self.trainc("gpt2"), self.data(**self.gpt2), "--shuffle"
        for flags, most in ((["--tokens-per-batch", "40"], self.rows),
                            (["--tokens-per-batch", "40", "--batch-size", "3"], 3)):  # fmt: skip
            for epochs in (1, 3):
                steps = self.ids(*run, *flags, "--epochs", str(epochs))
                counts = [n for record in steps for n in record["valid_per_row"]]
                expect(sorted(counts) == sorted(epochs * self.lengths.tolist()), counts)
                for record in steps:
                    expect(record["total"] <= 40 and len(record["valid_per_row"]) <= most, record)
                    expect(record["total"] == len(record["valid_per_row"]) * max(record["valid_per_row"]), record)
                if most > 3:
                    expect(len({len(record["valid_per_row"]) for record in steps}) > 1, steps)
                expect(steps[0]["total"] == max(s["total"] for s in steps[: len(steps) // epochs]), steps)
        # As many as --epochs says are told beforehand.
        _, err = self.run(*run, "--tokens-per-batch", "40", "--epochs", "3")
        expect(f"step {len(self.ids(*run, '--tokens-per-batch', '40', '--epochs', '3'))}/" in err, err)

    def case_group_by_length(self):
        run = self.trainc("gpt2"), self.data(**self.gpt2), "--batch-size", "4", "--trim", "--shuffle"
        grouped, plain = self.ids(*run, "--group-by-length"), self.ids(*run)
        expect(sum(r["total"] for r in grouped) < sum(r["total"] for r in plain), grouped)
        expect(all(len(r["valid_per_row"]) == 4 for r in grouped), grouped)

    def case_complexity(self):
        cost = np.arange(self.rows, dtype=np.float32)[::-1] ** 2
        data = self.data(cost=cost, **self.gpt2)
        package = self.trainc("gpt2")
        flags = "--batch-size", "6", "--group-by-length", "--complexity", "cost", "--density"
        out, err = self.run(package, data, *flags, "--log-format", "json")
        expect("is no input" not in err, err)
        first = next(json.loads(line) for line in out.splitlines() if '"density"' in line)
        expect(first["valid_per_row"] == self.lengths[:6].tolist(), first)
        self.refused(["--complexity none: there is no such array"], package, data,
                     "--group-by-length", "--complexity", "none")  # fmt: skip
        self.refused(["must be one number", f"each of the {self.rows} rows"], package, data,
                     "--group-by-length", "--complexity", "input_ids")  # fmt: skip
        bad = self.data(cost=np.where(np.arange(self.rows) == 5, np.nan, 1.0), **self.gpt2)
        self.refused(["row 5: complexity nan"], package, bad, "--group-by-length", "--complexity", "cost")

    def case_ranks_share_an_epoch(self):
        run = self.trainc("gpt2"), self.data(**self.gpt2), "--shuffle", "--seed", "5"
        for world in (2, 5):
            for flags in (["--tokens-per-batch", "44"], ["--batch-size", "3"],
                          ["--batch-size", "3", "--group-by-length", "--tail", "drop"]):  # fmt: skip
                ranks = [self.ids(*run, *flags, "--world", str(world), "--rank", str(r)) for r in range(world)]
                rows = [[len(record["valid_per_row"]) for record in rank] for rank in ranks]
                expect(all(r == rows[0] for r in rows), rows)
                counts = sorted(n for rank in ranks for record in rank for n in record["valid_per_row"])
                rest = self.rows % world
                missing = -rest if "drop" in flags else -rest % world
                expect(len(counts) == self.rows + missing, counts)
                if not rest:
                    expect(counts == sorted(self.lengths.tolist()), counts)

    def case_static_batches(self):
        """The tail of static batches: left out, or given twice."""
        package = self.trainc("gpt2", "--dim", "batch=5")
        data = self.data(**self.gpt2)
        steps = self.ids(package, data, "--group-by-length", "--trim")
        expect([len(s["valid_per_row"]) for s in steps] == [5] * 4, steps)
        _, err = self.run(package, data, "--group-by-length")
        expect("the last 4 rows of an epoch are left out" in err, err)
        steps = self.ids(package, data, "--group-by-length", "--tail", "repeat")
        expect([len(s["valid_per_row"]) for s in steps] == [5] * 5, steps)
        self.refused(["--tokens-per-batch makes batches of different numbers of rows",
                      "compiled for batches of 5", "--group-by-length --trim works"],
                     package, data, "--tokens-per-batch", "44")  # fmt: skip

    def case_rows_longer_than_a_batch(self):
        row = int(np.argmax(self.lengths > 10))
        self.refused([f"row {row} needs 11 token positions, more than the 10 of a batch"], self.trainc("gpt2"),
                     self.data(**self.gpt2), "--tokens-per-batch", "10")  # fmt: skip

    # Evaluation.

    def case_evaluation_in_any_batches(self):
        """The mean over what the loss counts, whatever the batches: a next-token loss leaves out the
        first label of each row, and rows have different numbers of labels."""
        arrays = dict(self.gpt2)
        arrays["labels"] = np.where(arrays["attention_mask"] == 1, arrays["input_ids"], -100)
        arrays["labels"][3, 1:] = -100  # of this row, none counts
        counted = (arrays["labels"][:, 1:] != -100).sum(1)
        expect(len(set(counted)) > 3 and counted[3] == 0, counted)
        data, losses = self.data(**arrays), {}
        for size in (1, 5, 16, self.rows):
            command = [self.arguments.trainc_run, self.trainc("gpt2"), "--eval", data, "--batch-size", size]
            out = subprocess.run([*map(str, command), "--log-format", "json"], capture_output=True, text=True).stdout
            losses[size] = json.loads(out.splitlines()[-1])["loss"]
        whole = losses[self.rows]
        expect(all(abs(loss - whole) <= 1e-6 * whole for loss in losses.values()), losses)

    # Continuing.

    def case_resume_in_an_epoch(self):
        for flags in (["--tokens-per-batch", "40", "--accumulate", "2"],
                      ["--batch-size", "4", "--group-by-length=10", "--world", "2", "--rank", "1"]):  # fmt: skip
            run = self.trainc("gpt2"), self.data(**self.gpt2), "--shuffle", "--epochs", "3", *flags
            folder = self.path("")
            whole = self.losses(*run, "--save", folder, "--save-every", "1")
            expect(len(whole) > 5, whole)
            for step in range(1, len(whole)):
                rest = self.losses(*run, "--resume", folder / f"step-{step}")
                expect(rest == whole[step:], f"from step {step}: {rest}, not {whole[step:]}")

    def case_resume_with_another_plan(self):
        package, data, folder = self.trainc("gpt2"), self.data(**self.gpt2), self.path("")
        flags = "--shuffle", "--tokens-per-batch", "40"
        steps = len(self.losses(package, data, *flags, "--save", folder, "--save-every", "1"))
        inside, end = folder / "step-2", folder / f"step-{steps}"
        other = "--shuffle", "--tokens-per-batch", "50", "--epochs", "2"
        self.refused(["written in the middle of epoch 0", "--tokens-per-batch was 40 and is 50",
                      "continue with the data and the options"], package, data, *other, "--resume", inside)  # fmt: skip
        self.refused(["--batch-size was not given and is 4"], package, data, "--batch-size", "4", "--resume", inside)
        longer = dict(self.gpt2)
        longer["attention_mask"] = np.roll(longer["attention_mask"], 1, axis=0)
        self.refused(["the data's values have changed"], package,
                     self.data(**longer), *flags, "--resume", inside)  # fmt: skip
        _, err = self.run(package, data, *other, "--resume", end)
        expect("warning: the run does not continue as it began" in err, err)

    def case_old_checkpoints_stay_readable(self):
        """Without these options a checkpoint says what it always said."""
        package, data, folder = self.trainc("gpt2"), self.data(**self.gpt2), self.path("")
        self.losses(package, data, "--batch-size", "8", "--steps", "2", "--save", folder)
        state = json.loads((folder / "step-2" / "state.json").read_text())
        position = next(v for v in state.values() if isinstance(v, dict) and "row" in v)
        expect(set(position) == {"epoch", "row", "rows", "batch_size", "accumulate", "shuffle", "data", "options"}, position)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainc", required=True)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--models", required=True, type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    run_cases(parser, Cases)
