# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a run shows and keeps: --log-dir, --summary, --peak-flops, the numbers of steps and evaluations, --keep-best,
--metric and --patience, and what of it is refused.

  training_log.py --trainc TRAINC --trainc-run TRAINC_RUN --models test/e2e/models DIR
"""

import csv
import html.parser
import json
import math
import pathlib
import re
import resource
import shutil
import struct
import subprocess
import sys
import zipfile

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "Inputs"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from cases import expect, program_parser, run_cases  # noqa: E402
from make_data_folder import random_columns, write  # noqa: E402
from safetensors_io import load  # noqa: E402
from trained import Trained  # noqa: E402


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(message):
    """(number, value) of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        size = {0: None, 1: 8, 2: "length", 5: 4}[key & 7]
        if size is None:
            yield key >> 3, varint()
            continue
        size = varint() if size == "length" else size
        yield key >> 3, message[at : at + size]
        at += size


def events(path):
    """[(step, {tag: value} or "start" or the version)] of TensorBoard's file, checksums and all."""
    data, found = path.read_bytes(), []
    while data:
        (length, crc) = struct.unpack("<QI", data[:12])
        expect(crc == crc32c(data[:8]), "checksum of a length")
        message = data[12 : 12 + length]
        expect(struct.unpack("<I", data[12 + length : 16 + length])[0] == crc32c(message), "checksum of a message")
        data = data[16 + length :]
        event = dict(fields(message))
        expect(struct.unpack("<d", event[1])[0] > 1e9, "time")
        what = event.get(3, b"").decode()
        if 7 in event:
            what = "start"
        if 5 in event:
            values = [dict(fields(value)) for number, value in fields(event[5]) if number == 1]
            what = {v[1].decode(): struct.unpack("<f", v[2])[0] for v in values}
        found.append((event.get(2, 0), what))
    return found


def table(path):
    return list(csv.DictReader(path.open()))


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.links = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [v for k, v in attributes if k in ("src", "href")]

    def handle_data(self, data):
        self.text += data


class Cases(Trained):
    def __init__(self, arguments):
        super().__init__(arguments)
        self.columns = random_columns(24, 30, 101, 1)
        self.folder = self.path("")
        write(self.folder, self.columns, 2)
        self.held = self.path("")
        write(self.held, random_columns(10, 30, 101, 2))
        self.package = self.trainc("gpt2", "--grad-norm")
        self.flags = "--batch-size", "4", "--eval", self.held

    # Numbers.

    def case_numbers_of_a_step(self):
        log = self.log(self.package, self.folder, "--batch-size", "4", "--peak-flops", "1e12")
        lengths = [len(row) for row in self.columns["input_ids"][0]]
        for number, step in enumerate(e for e in log if "event" not in e):
            expect(step["valid_tokens"] == sum(lengths[4 * number : 4 * number + 4]), step)
            expect(math.isclose(step["tokens_per_s"], step["valid_tokens"] / step["step_ms"] * 1000, rel_tol=1e-2), step)
            expect(step["grad_norm"] > 0 and 0 < step["mfu"] < 1, step)
        plain = self.log(self.trainc("mlp-regression"), self.arguments.models / "mlp-regression.npz")[0]
        expect(plain["grad_norm"] is None and plain["valid_tokens"] is None and plain["tokens_per_s"] is None, plain)
        expect(plain["mfu"] is None, plain)

    def case_share_of_the_peak(self):
        """The operations that the compiler counts, against a number given or measured."""
        run = self.package, self.folder, "--batch-size", "4", "--steps", "1"
        one, two = (self.log(*run, "--peak-flops", peak)[0] for peak in ("1e9", "2e9"))
        flops = [e["mfu"] * e["step_ms"] for e in (one, two)]
        expect(math.isclose(flops[0], 2 * flops[1], rel_tol=5e-3), one, two)  # step_ms has three digits
        _, err = self.run(*run, "--peak-flops", "measure")
        expect("billion operations a second, measured by a matmul" in err and "% of peak" in err, err)
        micro = self.log(*run, "--peak-flops", "1e9", "--accumulate", "2")[0]
        expect(micro["mfu"] * micro["step_ms"] > 1.5 * flops[0], micro, one)
        bare = self.trainc("mlp-regression")
        _, err = self.run(bare, self.arguments.models / "mlp-regression.npz", "--steps", "1", "--peak-flops", "measure")
        expect("% of peak" in err, err)

    def case_more_than_the_peak(self):
        """No share above 100 % comes without a word."""
        model, data = self.arguments.models / "mlp-regression.onnx", self.arguments.models / "mlp-regression.npz"
        run = self.trainc("mlp-regression"), data, "--steps", "3"
        _, err = self.run(*run, "--peak-flops", "10")
        expect(err.count("more than --peak-flops says: shares of the peak are above 100 %") == 1, err)
        # A busy machine when the peak is measured is, the other way round, a program that claims too many operations.
        saved, code, package = self.path(""), self.path(".mlir"), self.path(".tpk")
        command = [self.arguments.trainc, "--target", "cpu:x86-64-v3", "--log-level", "error"]
        subprocess.run([*command, model, "-o", package, "--save-ir", saved], check=True)
        code.write_text(
            '// reproducer: {"arguments": ["mlp.onnx", "--lr=0.1", "--target=cpu:x86-64-v3"], "phase": "codegen"}\n'
            + re.sub(r"(train.flops = #train.dim<\d+)", r"\g<1>000000000", (saved / "4-schedule.mlir").read_text())
        )
        subprocess.run([self.arguments.trainc, "--replay", code, "-o", package], check=True, capture_output=True)
        run = package, data, "--steps", "3", "--init", "normal:0.1", "--peak-flops", "measure"
        _, err = self.run(*run)
        expect(err.count("more than the measured peak (was the machine busy?): the quickest step is taken as the peak") == 1, err)
        expect("billion operations a second, measured again" in err, err)
        expect(all(e["mfu"] <= 1 for e in self.log(*run) if "event" not in e), self.log(*run))

    def case_text_of_steps(self):
        _, err = self.run(self.package, self.folder, "--batch-size", "4", "--steps", "2")
        expect("  grad " in err and " tokens/s" in err, err)

    def accuracy(self, data, package, labels, shift):
        """What the logits of --predict give, and what --eval says."""
        out = self.path(".safetensors")
        log = self.without_data(package, "--eval", data, "--predict", data, "--outputs", "logits", "-o", out)
        logits = load(out)["logits"]
        if shift:
            logits, labels = logits[:, :-1], labels[:, 1:]
        counts = labels != -100
        right = (logits.argmax(-1) == labels) & counts
        expect(math.isclose(log[-1]["accuracy"], right.sum() / counts.sum(), abs_tol=1e-12), log[-1], right.sum(), counts.sum())
        expect(math.isclose(log[-1]["perplexity"], math.exp(log[-1]["loss"]), rel_tol=1e-9), log[-1])
        text, _ = self.call(package, "--eval", data)
        expect(f", accuracy {100 * log[-1]['accuracy']:.2f} % of {counts.sum():,} labels" in text, text)
        expect(", perplexity " in text, text)

    def case_accuracy_of_the_next_token(self):
        arrays = dict(np.load(self.arguments.models / "gpt2.npz"))
        self.accuracy(self.data(**arrays), self.package, arrays["labels"], True)

    def case_accuracy_of_labels_alone(self):
        """A model that knows nothing has the same loss by tokens that are no labels."""
        labelled = sum(int((row[1:] != -100).sum()) for row in self.columns["labels"][0])
        text, _ = self.call(self.package, "--eval", self.folder, "--init", "normal:0.00001")
        expect(f" of {labelled:,} labels" in text, labelled, text)
        flat = self.columns | {"labels": (self.columns["input_ids"][0], {"pad": -100})}
        all_labelled = self.path("")
        write(all_labelled, flat)
        text, _ = self.call(self.package, "--eval", all_labelled, "--init", "normal:0.00001", "--batch-size", "5")
        expect(f" of {sum(len(row) - 1 for row in flat['labels'][0]):,} labels" in text, text)

    def case_accuracy_of_classes(self):
        arrays = dict(np.load(self.arguments.models / "bert-cls.npz"))
        self.accuracy(self.data(**arrays), self.trainc("bert-cls"), arrays["labels"], False)

    def case_accuracy_of_masked_tokens(self):
        arrays = dict(np.load(self.arguments.models / "bert-mlm.npz"))
        self.accuracy(self.data(**arrays), self.trainc("bert-mlm"), arrays["labels"], False)

    def case_accuracy_that_is_not_told(self):
        """An export with the loss alone, as those of large models are."""
        model, package = self.path(".onnx"), self.path(".tpk")
        proto = onnx.load(self.arguments.models / "gpt2.onnx")
        del proto.graph.output[[o.name for o in proto.graph.output].index("logits")]
        onnx.save(proto, model)
        subprocess.run([self.arguments.trainc, model, "-o", package, "--target", "cpu:x86-64-v3", "--embed-weights",
                        "--log-level", "error"], check=True)  # fmt: skip
        _, err = self.run(package, self.folder, *self.flags, "--epochs", "2")
        expect(err.count("accuracy is not told: no output of the model has the scores of labels") == 1, err)
        log = self.log(package, self.folder, *self.flags)
        evals = [e for e in log if e.get("event") == "eval"]
        expect(all(e["accuracy"] is None and e["perplexity"] > 1 for e in evals), evals)

    def case_no_accuracy(self):
        """A regression has neither; no number is made up."""
        data = self.arguments.models / "mlp-regression.npz"
        log = self.without_data(self.trainc("mlp-regression"), "--eval", data)
        expect(log[-1]["accuracy"] is None and log[-1]["perplexity"] is None, log)
        self.refused(["--metric accuracy: the evaluation does not tell it", "no output of the model has the scores of labels"],
                     self.trainc("mlp-regression"), data, "--eval", data, "--patience", "2", "--metric", "accuracy")  # fmt: skip
        self.refused(["--metric perplexity", "not known to be a cross-entropy of labels; --metric loss works"],
                     self.trainc("mlp-regression"), data, "--eval", data, "--patience", "2", "--metric", "perplexity")  # fmt: skip

    # Logs.

    def case_log_folder(self):
        folder = self.path("") / "new" / "logs"
        log = self.log(self.package, self.folder, *self.flags, "--epochs", "2", "--log-dir", folder, "--peak-flops", "1e12")
        steps = [e for e in log if "event" not in e]
        evals = [e for e in log if e.get("event") == "eval"]
        rows = table(folder / "steps.csv")
        expect([int(r["step"]) for r in rows] == [s["step"] for s in steps], rows)
        for row, step in zip(rows, steps):
            for name in ("loss", "lr", "grad_norm", "valid_tokens", "peak_bytes"):
                expect(math.isclose(float(row[name]), step[name], rel_tol=1e-6), name, row, step)
            expect(0 < float(row["mfu"]) < 1 and float(row["tokens_per_s"]) > 0, row)
        held = table(folder / "evaluations.csv")
        expect([int(r["step"]) for r in held] == [0, 6, 12] == [e["step"] for e in evals], held, evals)
        expect(all(math.isclose(float(r["accuracy"]), e["accuracy"]) for r, e in zip(held, evals)), held)
        (file,) = folder.glob("events.out.tfevents.*")
        told = events(file)
        expect(told[0] == (0, "brain.Event:2") and told[1] == (1, "start"), told[:2])
        train = {step: v for step, v in told[2:] if "train/loss" in v}
        expect(sorted(train) == list(range(1, 13)), train)
        for step in steps:
            values = train[step["step"]]
            expect(math.isclose(values["train/loss"], step["loss"], rel_tol=1e-6), values, step)
            expect({"train/lr", "train/grad_norm", "train/tokens_per_s", "train/mfu"} <= set(values), values)
        losses = [v["eval/loss"] for _, v in told[2:] if "eval/loss" in v]
        expect(np.allclose(losses, [e["loss"] for e in evals]), losses)
        expect(all("eval/perplexity" in v and "eval/accuracy" in v for _, v in told[2:] if "eval/loss" in v), told)

    def case_log_of_a_run_that_goes_on(self):
        """Lines of steps that are made again are replaced, and TensorBoard is told."""
        folder, saved = self.path(""), self.path("")
        self.log(self.package, self.folder, *self.flags, "--epochs", "2", "--log-dir", folder, "--save", saved, "--save-every", "5")
        for step in (11, 12):
            shutil.rmtree(saved / f"step-{step}", ignore_errors=True)
        page = self.path(".html")
        log = self.log(self.package, self.folder, "--eval", self.held, "--resume", saved, "--log-dir", folder, "--summary", page)
        expect([e["step"] for e in log if "event" not in e] == [11, 12], log)
        expect([int(r["step"]) for r in table(folder / "steps.csv")] == list(range(1, 13)))
        expect([int(r["step"]) for r in table(folder / "evaluations.csv")] == [0, 6, 10, 12])
        files = sorted(folder.glob("events.*"), key=lambda f: f.stat().st_mtime_ns)
        expect(len(files) == 2 and events(files[1])[1] == (11, "start"), files)
        expect("step 0" in page.read_text() or "step 1<" in page.read_text(), page.read_text())

    def case_log_changes_nothing(self):
        run = self.package, self.folder, *self.flags, "--epochs", "2"
        logged = self.losses(*run, "--log-dir", self.path(""), "--summary", self.path(".html"))
        expect(logged == self.losses(*run))

    def case_log_that_cannot_be_written(self):
        file = self.path(".txt")
        file.write_text("x")
        self.refused(["cannot create", "is no folder"], self.package, self.folder, "--log-dir", file / "logs")
        self.refused(["cannot create", "is no folder"], self.package, self.folder, "--log-dir", file)
        link = self.path("")
        link.symlink_to(self.path("nowhere") / "x")
        self.refused(["--log-dir: cannot create"], self.package, self.folder, "--log-dir", link)
        folder = self.path("")
        (folder / "steps.csv.new").mkdir(parents=True)
        self.refused(["--log-dir: cannot write", "steps.csv"], self.package, self.folder, "--log-dir", folder)

    def case_full_disk(self):
        """The log is lost, and said to be; the training is not."""
        folder = self.path("")
        command = [self.arguments.trainc_run, self.package, "--data", self.folder, "--batch-size", "1", "--steps", "400",
                   "--log-dir", folder, "--log-format", "json"]  # fmt: skip
        # The kernels are copied into a file, too.
        kernels = max(e.file_size for e in zipfile.ZipFile(self.package).infolist())
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (kernels + 1024, kernels + 1024))  # noqa: E731
        folder.mkdir()
        (folder / "steps.csv").write_text("step,loss\n" + "0,1\n" * (kernels // 4))
        package, data = command[1], command[3]
        self.call(package, "--data", data, "--batch-size", "1", "--steps", "1", "--save", folder / "saved")
        command += ["--resume", folder / "saved"]
        limited = subprocess.run([str(c) for c in command], capture_output=True, text=True, preexec_fn=limit)
        expect(limited.returncode == 0, limited)
        expect("--log-dir: cannot write into" in limited.stderr and "the training goes on without it" in limited.stderr,
               limited.stderr)  # fmt: skip
        expect(len([1 for line in limited.stdout.splitlines() if '"step":400,' in line]) == 1, limited.stdout[-500:])

    def case_summary_that_cannot_be_written(self):
        """It is checked beforehand; what happens to its folder later costs the page alone."""
        self.refused(["cannot create", "nowhere"], self.package, self.folder, "--summary", self.path("nowhere") / "x.html")
        folder, saved = self.path(""), self.path("")
        folder.mkdir()
        command = [self.arguments.trainc_run, self.package, "--data", self.folder, "--batch-size", "4", "--steps", "3000",
                   "--summary", folder / "x.html", "--save", saved, "--save-every", "1000000"]  # fmt: skip
        with subprocess.Popen([str(c) for c in command], stderr=subprocess.PIPE, text=True) as running:
            while "step 1/" not in (line := running.stderr.readline()):
                expect(line, "it ended before its first step")
            folder.rmdir()
            err = running.stderr.read()
        expect(running.returncode == 0 and "warning: --summary: " in err, running.returncode, err)
        expect((saved / "step-3000").is_dir(), err)

    def case_summary_page(self):
        page = self.path(".html")
        _, err = self.run(self.package, self.folder, *self.flags, "--epochs", "3", "--summary", page, "--seed", "3")
        expect(f"wrote {page}" in err, err)
        found = Page(page.read_text())
        expect(found.tags.count("svg") == 2 and "polyline" in found.tags and "rect" in found.tags, found.tags)
        expect(not found.links and "http" not in page.read_text(), "it loads something")
        expect("prefers-color-scheme:dark" in page.read_text() and 'name="viewport"' in page.read_text(), page.read_text())
        expect(f"trainc-run {self.package} --data {self.folder} --batch-size 4" in found.text, found.text)
        for words in ("after all of its steps", "Held-out data", "parameters", "optimizer state", "most at once", "--seed 3"):
            expect(words in found.text, words, found.text)
        expect('<p><span style="color:#3366aa">training</span>' in page.read_text(), page.read_text())
        self.run(self.package, self.folder, "--batch-size", "4", "--lr", "1e30", "--summary", page, "--epochs", "9", code=1)
        expect("the loss is not finite" in Page(page.read_text()).text, page.read_text())
        none = self.path("")
        write(none, self.columns | {"labels": ([np.full_like(row, -100) for row in self.columns["labels"][0]], {"pad": -100})})
        self.run(self.package, none, "--batch-size", "4", "--steps", "1", "--allow-nonfinite", "--summary", page)
        expect("<p>No loss was finite.</p>" in page.read_text(), page.read_text())
        odd = self.root / "with 'quotes' & <more>.html"
        self.run(self.package, self.folder, "--batch-size", "4", "--steps", "1", "--summary", odd)
        expect("quotes'\\'' & <more>.html'" in Page(odd.read_text()).text, odd.read_text())

    # The best.

    def best(self, saved):
        return sorted(int(p.name[5:]) for p in (saved / "best").glob("step-*"))

    def evaluations(self, *run):
        return {e["step"]: e["loss"] for e in self.log(*run) if e.get("event") == "eval"}

    def case_keep_best(self):
        saved = self.path("")
        run = self.package, self.folder, *self.flags, "--epochs", "3", "--eval-every", "2", "--lr", "0.02"
        found = self.evaluations(*run, "--save", saved, "--keep-best", "3", "--keep", "1")
        del found[0]
        expected = sorted(sorted(found, key=lambda step: (found[step], step))[:3])
        expect(self.best(saved) == expected, self.best(saved), "is not", expected, found)
        expect(sorted(p.name for p in saved.glob("step-*")) == ["step-18"])
        again = self.evaluations(self.package, self.folder, "--eval", self.held, "--resume", saved / "best", "--steps",
                                 str(expected[-1]))  # fmt: skip
        expect(again == {expected[-1]: found[expected[-1]]}, again, found)

    def case_keep_best_by_accuracy(self):
        saved = self.path("")
        run = self.package, self.folder, *self.flags, "--epochs", "3", "--eval-every", "2", "--lr", "0.02"
        log = self.log(*run, "--save", saved, "--keep-best", "1", "--metric", "accuracy")
        found = {e["step"]: e["accuracy"] for e in log if e.get("event") == "eval" and e["step"]}
        expect(self.best(saved) == [max(found, key=lambda step: (found[step], -step))], found, self.best(saved))

    def case_keep_best_goes_on(self):
        """A run that was cut off anywhere finds the same ones, also between evaluations, and with nothing said again."""
        for metric in ("loss", "accuracy"):
            run = self.package, self.folder, *self.flags, "--epochs", "3", "--eval-every", "2", "--lr", "0.02"
            run = *run, "--keep-best", "2", "--metric", metric, "--save-every", "1"
            whole = self.path("")
            self.log(*run, "--save", whole)
            for at in (1, 4, 7, 9, 12, 17, 18):
                cut = self.path("")
                shutil.copytree(whole, cut)
                for step in range(at + 1, 19):
                    shutil.rmtree(cut / f"step-{step}")
                self.log(self.package, self.folder, "--eval", self.held, "--resume", cut, "--save", cut, "--save-every", "1")
                expect(self.best(cut) == self.best(whole), metric, at, self.best(cut), self.best(whole))
                if at < 18:  # else nothing was trained, and the evaluation after the last step is known, too
                    expect(self.state(cut / "step-18") == self.state(whole / "step-18"), metric, at)
        # Without what they need they rest, and it is said.
        _, err = self.run(self.package, self.folder, "--resume", whole / "step-4", "--steps", "5")
        for words in ("--keep-best was 2 and is not given", "--metric was accuracy and is not given", "--eval-every was 2 and is"):
            expect(words in err, words, err)
        _, err = self.run(self.package, self.folder, "--resume", whole / "step-4", "--steps", "5", "--eval", self.held)
        expect("--keep-best was 2 and is not given" in err, err)
        self.refused(["best has checkpoints of another run", "--overwrite"], self.package, self.folder, *self.flags, "--save",
                     self.moved(cut / "best"), "--keep-best", "2")  # fmt: skip
        fresh = self.moved(cut / "best")
        self.log(self.package, self.folder, *self.flags, "--steps", "2", "--save", fresh, "--keep-best", "2", "--overwrite")
        expect(self.best(fresh) == [2], self.best(fresh))

    def state(self, checkpoint):
        """All that a checkpoint holds."""
        return {p.name: p.read_bytes() for p in sorted(checkpoint.iterdir())}

    def moved(self, best):
        folder = self.path("")
        shutil.copytree(best, folder / "best")
        return folder

    def case_patience(self):
        run = self.package, self.folder, *self.flags, "--eval-every", "1", "--lr", "0.05", "--steps", "60"
        found = self.evaluations(*run)
        best, worse, end = math.inf, 0, None
        for step in sorted(found):
            worse = 0 if found[step] < best else worse + 1
            best = min(best, found[step])
            if worse == 3:
                end = step
                break
        expect(end and end < 60, found)
        saved, page = self.path(""), self.path(".html")
        out, err = self.run(*run, "--patience", "3", "--save", saved, "--save-every", "1", "--summary", page)
        said = f"stopped after step {end}: 3 evaluations without a better loss than {best:.6f}"
        expect(said in err and said in Page(page.read_text()).text, err, page.read_text())
        expect(max(int(p.name[5:]) for p in saved.glob("step-*")) == end)
        # Cut off anywhere, it ends at the same step.
        for step in range(max(1, end - 4), end + 1):
            rest = self.log(self.package, self.folder, "--eval", self.held, "--resume", saved / f"step-{step}")
            last = max([e["step"] for e in rest if "event" not in e], default=step)
            expect(last == end, f"from step {step} to {last}, not {end}")

    def case_patience_between_evaluations(self):
        """A checkpoint between two evaluations: the one that a run begins with again does not count."""
        run = self.package, self.folder, *self.flags, "--eval-every", "4", "--lr", "0.1", "--steps", "80", "--patience", "2"
        saved = self.path("")
        steps = [e["step"] for e in self.log(*run, "--save", saved, "--save-every", "3") if "event" not in e]
        expect(steps[-1] < 80 and steps[-1] % 4 == 0, steps)
        for step in (3, 6, steps[-1] // 3 * 3):
            rest = self.log(self.package, self.folder, "--eval", self.held, "--resume", saved / f"step-{step}")
            last = max([e["step"] for e in rest if "event" not in e], default=step)
            expect(last == steps[-1], f"from step {step} to {last}, not {steps[-1]}")

    def case_another_metric(self):
        saved = self.path("")
        run = self.package, self.folder, *self.flags, "--eval-every", "2"
        self.log(*run, "--save", saved, "--keep-best", "1")
        _, err = self.run(self.package, self.folder, "--eval", self.held, "--resume", saved, "--save", saved, "--epochs", "2",
                          "--keep-best", "1", "--metric", "accuracy")  # fmt: skip
        expect("--metric was loss and is accuracy: what is best is found anew" in err, err)

    def case_refused(self):
        held = ("--eval", self.held)
        for flags, words in (
            (["--keep-best", "2", *held], "--keep-best needs --save DIR"),
            (["--keep-best", "2", "--save", "x"], "--keep-best needs --eval FILE, whose results it compares"),
            (["--patience", "2"], "--patience needs --eval FILE, whose results it compares"),
            (["--patience", "2", *held, "--steps", "9"], "--patience needs --eval-every N beside --steps"),
            (["--metric", "loss", *held], "--metric needs --keep-best or --patience, which compare it"),
            (["--eval-every", "2"], "--eval-every needs --eval FILE"),
            (["--patience", "0", *held], "'0' is not a whole number of at least 1"),
            (["--metric", "bleu", *held, "--patience", "1"], "bleu"),
            (["--summary", "page.txt"], "--summary writes a page: 'page.txt' does not end in .html"),
            (["--peak-flops", "fast"], "--peak-flops 'fast' is neither a number above 0 nor `measure`"),
            (["--peak-flops", "-1"], "--peak-flops '-1' is neither"),
            (["--log-dir", "x", "--dump-gradients", "g.safetensors"], "--log-dir and --dump-gradients exclude each other"),
            (["--tune", "1", "-o", "t.tpk", "--summary", "x.html"], "--tune and --summary exclude each other"),
        ):  # fmt: skip
            self.refused([words], self.package, self.folder, *flags, code=2)
        _, err = self.call(self.package, "--eval", self.held, "--log-dir", "x", code=2)
        expect("--log-dir needs --data FILE" in err, err)
        taken = self.path(".html")
        self.refused([" are both "], self.package, self.folder, "--summary", taken, "--profile", taken)

    def case_state_of_a_checkpoint(self):
        """What evaluations have decided is in a checkpoint of a run that they decide, and in no other."""
        saved = self.path("")
        self.log(self.package, self.folder, *self.flags, "--patience", "5", "--save", saved)
        (folder,) = saved.glob("step-*")
        state = json.loads((folder / "state.json").read_text())
        position = next(v for v in state.values() if isinstance(v, dict) and "row" in v)
        expect(position["watch"]["metric"] == "loss" and position["watch"]["counted"] == 6, position)


if __name__ == "__main__":
    run_cases(program_parser(), Cases)
