# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""trainc-run from outside, with the hand-made package of Inputs/make_package.py: the log, the order of
the data, checkpoints, prediction, bad data, signals. Needs no compiler and no numpy.

  cli.py --trainc-run build/bin/trainc-run --cc CC --schema program.fbs DIR
"""

import argparse
import json
import pathlib
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "Inputs"))
from cases import Failed, expect, run_cases  # noqa: E402
from make_package import save_npz  # noqa: E402


def load(path):
    """name -> (dtype, shape, values) of a safetensors file of floats."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    result = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + length + begin : 8 + length + end]
        values = struct.unpack(f"<{len(raw) // 4}f", raw) if entry["dtype"] == "F32" else raw
        result[name] = (entry["dtype"], entry["shape"], values)
    return result


class Model:
    """The package's arithmetic once more, in double."""

    def __init__(self, folder):
        source = random.Random(1)
        x = [source.gauss(0, 1) for _ in range(60)]
        self.ids = [source.randrange(5) for _ in range(20)]
        self.x = [x[3 * i : 3 * i + 3] for i in range(20)]
        self.y = [
            0.5 * r[0] - r[1] + 2 * r[2] + c + source.gauss(0, 0.1)
            for r, c in zip(self.x, self.ids)
        ]
        self.w, self.b = [0.1, 0.2, 0.3], [0.0] * 5
        self.mw, self.mb = [0.0] * 3, [0.0] * 5

    def gradients(self, rows, scale=1.0):
        gw, gb, loss = [0.0] * 3, [0.0] * 5, 0.0
        for i in rows:
            error = sum(a * b for a, b in zip(self.x[i], self.w)) + self.b[self.ids[i]] - self.y[i]
            loss += error * error / len(rows)
            for j in range(3):
                gw[j] += scale * 2 * error * self.x[i][j] / len(rows)
            gb[self.ids[i]] += scale * 2 * error / len(rows)
        return loss, gw, gb

    def step(self, batches, lr=0.1):
        total, sw, sb = 0.0, [0.0] * 3, [0.0] * 5
        for rows in batches:
            loss, gw, gb = self.gradients(rows, 1 / len(batches))
            total += loss / len(batches)
            sw, sb = [a + b for a, b in zip(sw, gw)], [a + b for a, b in zip(sb, gb)]
        self.mw = [0.9 * m + g for m, g in zip(self.mw, sw)]
        self.mb = [0.9 * m + g for m, g in zip(self.mb, sb)]
        self.w = [v - lr * m for v, m in zip(self.w, self.mw)]
        self.b = [v - lr * m for v, m in zip(self.b, self.mb)]
        return total


class Cases:
    def __init__(self, arguments):
        self.arguments = arguments
        self.folder = arguments.folder
        self.make(self.folder)
        self.serial = 0

    def make(self, folder, *flags):
        a = self.arguments
        command = [sys.executable, HERE / "Inputs" / "make_package.py", folder, "--cc", a.cc]
        subprocess.check_call([*map(str, command), "--schema", str(a.schema), *flags])

    def scratch(self):
        self.serial += 1
        return self.folder / f"scratch-{self.serial}-{time.time_ns()}"

    def run(self, *flags, code=0, package=None):
        """(standard output, standard error), the exit code checked."""
        command = [self.arguments.trainc_run, package or self.folder / "linear.tpk", *flags]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if done.returncode != code:
            raise Failed(f"{command}: exit {done.returncode}, not {code}:\n{done.stderr}")
        if code:
            expect("trainc-run: error: " in done.stderr, "no error line:", done.stderr)
        return done.stdout, done.stderr

    def log(self, *flags, code=0, package=None, data="good.npz"):
        source = ["--data", self.folder / data] if data else []
        out, _ = self.run(*source, "--log-format", "json", *flags, code=code, package=package)
        return [json.loads(line) for line in out.splitlines()]

    def losses(self, *flags, **more):
        return [e["loss"] for e in self.log(*flags, **more) if "event" not in e]

    def same_losses(self, found, expected):
        expect(len(found) == len(expected), f"{len(found)} steps, not {len(expected)}")
        for step, (a, b) in enumerate(zip(found, expected), 1):
            expect(abs(a - b) <= 2e-5 * abs(b), f"step {step}: loss {a}, expected {b}")

    # The log.

    def case_json_log(self):
        *steps, summary = self.log("--batch-size", 4, "--steps", 7)
        expect(list(summary) == ["event", "steps", "step_ms", "host_us", "peak_bytes", "plans", "build_ms"], summary)
        expect(summary["plans"] > 0 and summary["build_ms"] > 0, summary)
        expect(summary["event"] == "summary" and summary["steps"] == 7, summary)
        times = sorted(entry["step_ms"] for entry in steps)
        expect(abs(summary["step_ms"] - times[3]) < 2e-3 and summary["host_us"] is None, summary)
        expect(summary["peak_bytes"] == steps[-1]["peak_bytes"], summary)
        for number, entry in enumerate(steps, 1):
            fields = ["step", "loss", "lr", "step_ms", "samples_per_s", "peak_bytes", "grad_norm", "valid_tokens",
                      "tokens_per_s", "mfu"]  # fmt: skip
            expect(list(entry) == fields, list(entry))
            expect(entry["step"] == number and entry["lr"] == 0.1, entry)
            ratio = 4 / entry["step_ms"] * 1000 / entry["samples_per_s"]
            expect(0.3 < ratio < 3, entry)

    def case_text_log(self):
        out, err = self.run("--data", self.folder / "good.npz", "--batch-size", 4, "--steps", 40)
        expect(out == "", out)
        for word in ("package", "parameters", "memory plan", "threads", "samples/s", "ETA"):
            expect(word in err, word, "is not in", err)
        expect(8 <= len(re.findall(r"^step \d+/40", err, re.M)) <= 13, err)

    def case_memory_stats(self):
        last = self.log("--memory-stats")[-1]
        expect(last["event"] == "memory" and last["parameters"] >= 32, last)
        self.memory_by_phase("--steps", 2)
        self.memory_by_phase("--steps", 2, "--accumulate", 2)

    def memory_by_phase(self, *options):
        log = self.log("--memory-stats", "--batch-size", 4, *options)
        events = [e for e in log if e.get("event") == "memory" and "phase" in e]
        steps = [e for e in log if "event" not in e]
        expect(len(steps) == 2 and {e["step"] for e in events} == {1, 2}, log)
        for step in steps:
            told = [e for e in events if e["step"] == step["step"]]
            # Objects follow their step's.
            at = log.index(step) + 1
            expect(log[at : at + len(told)] == told, log)
            peak = 0
            for e in told:
                expect(
                    list(e)
                    == ["event", "step", "phase", "allocated", "peak", "cached", "inactive", "rank"],
                    e,
                )
                expect(e["allocated"] <= e["peak"] <= e["cached"] and peak <= e["peak"], told)
                expect(e["inactive"] == e["cached"] - e["allocated"] and e["rank"] == 0, e)
                peak = e["peak"]
            expect(told[-1]["cached"] * 2**20 <= step["peak_bytes"], told, step)
        _, err = self.run("--data", self.folder / "good.npz", "--batch-size", 4, "--steps", 1)
        expect("rank-0" not in err, err)
        out, _ = self.run(
            "--data", self.folder / "good.npz", "--batch-size", 4, "--steps", 17, "--memory-stats"
        )
        lines = re.findall(
            r"^rank-0 step (\d+) memory \(MiB\) \| phase: (\w+) \| allocated: [\d.]+ \| "
            r"max allocated: [\d.]+ \| cached: [\d.]+ \| inactive: [\d.]+$",
            out,
            re.M,
        )
        expect(sorted({int(s) for s, _ in lines}) == [*range(1, 10), 16], out)

    # The order of the data.

    def case_one_epoch_by_default(self):
        model = Model(self.folder)
        batches = [range(a, min(a + 8, 20)) for a in (0, 8, 16)]
        self.same_losses(self.losses("--batch-size", 8), [model.step([b]) for b in batches])

    def case_default_batch(self):
        model = Model(self.folder)
        self.same_losses(self.losses(), [model.step([rows]) for rows in (range(16), range(16, 20))])
        data = ["--data", self.folder / "good.npz"]
        for flags, text in (
            ([], "20 rows, batches of 16 (the default, see --batch-size)"),
            (["--batch-size", 20], "20 rows, batches of 20\n"),
        ):
            _, error = self.run(*data, *flags)
            expect(text in error, text, "is not in", error)
        self.losses(data="short.npz")  # of 7 rows


    def case_steps_wrap_around(self):
        model, order = Model(self.folder), [i % 20 for i in range(48)]
        expected = [model.step([order[8 * s : 8 * s + 8]]) for s in range(6)]
        self.same_losses(self.losses("--batch-size", 8, "--steps", 6), expected)

    def case_accumulate(self):
        model, order = Model(self.folder), [i % 20 for i in range(72)]
        batches = [[order[s + m : s + m + 6] for m in (0, 6, 12)] for s in range(0, 72, 18)]
        found = self.losses("--batch-size", 6, "--accumulate", 3, "--steps", 4)
        self.same_losses(found, [model.step(b) for b in batches])

    def case_accumulate_ends_with_an_epoch(self):
        model = Model(self.folder)
        first, last = [range(0, 6), range(6, 12)], [range(12, 18), range(18, 20)]
        found = self.losses("--batch-size", 6, "--accumulate", 2, "--epochs", 2)
        self.same_losses(found, [model.step(b) for b in (first, last, first, last)])

    def case_shuffle(self):
        plain, one = self.losses("--steps", 9, "--batch-size", 4), []
        for seed in (1, 1, 2):
            one.append(self.losses("--steps", 9, "--batch-size", 4, "--shuffle", "--seed", seed))
        expect(one[0] == one[1] != one[2], "seeds")
        expect(plain not in one, "not shuffled")

    def case_learning_rate(self):
        schedule = ["--lr-schedule", "linear,warmup=2,min=0.04"]
        *log, _ = self.log("--steps", 6, "--batch-size", 20, "--lr", 0.2, *schedule)
        rates = [entry["lr"] for entry in log]
        expected = [0.1, 0.2, 0.2, 0.16, 0.12, 0.08]
        expect(all(abs(a - b) < 1e-9 for a, b in zip(rates, expected)), rates)
        model = Model(self.folder)
        self.same_losses([e["loss"] for e in log], [model.step([range(20)], r) for r in expected])

    def case_static_batch(self):
        folder = self.folder / "static"
        self.make(folder, "--static-batch", "6")
        package, model = folder / "linear.tpk", Model(folder)
        expected = [model.step([range(a, a + 6)]) for a in (0, 6, 12)]
        log = self.log(package=package)
        expect(any(e.get("event") == "warning" and "2" in e["message"] for e in log), log)
        self.same_losses([e["loss"] for e in log if "event" not in e], expected)
        self.log("--batch-size", 5, package=package, code=1)
        log = self.log("--eval", self.folder / "good.npz", package=package, data=None)
        rest = "the last 2 rows are left out: the package was compiled for batches of 6 alone; export the model with a dynamic batch to use them"
        expect(log[0]["message"].endswith(rest), log)

    # Evaluation, prediction, export.

    def case_eval(self):
        flags = ["--eval", self.folder / "short.npz", "--batch-size", 4, "--epochs", 2]
        steps = [e["step"] for e in self.log(*flags) if e.get("event") == "eval"]
        expect(steps == [0, 5, 10], steps)
        steps = self.log("--steps", 5, *flags[:4], "--eval-every", 2)
        steps = [e["step"] for e in steps if e.get("event") == "eval"]
        expect(steps == [0, 2, 4, 5], steps)

    def case_eval_alone(self):
        """Batches of another size: the same mean over the rows."""
        flags = ["--eval", self.folder / "good.npz"]
        whole, cut = self.log(*flags, data=None), self.log(*flags, "--batch-size", 7, data=None)
        loss, _, _ = Model(self.folder).gradients(range(20))
        for log in (whole, cut):
            expect(len(log) == 1 and log[0]["samples"] == 20, log)
            self.same_losses([log[0]["loss"]], [loss])

    def case_predict(self):
        """Without the labels, in batches that do not divide the rows."""
        out = self.folder / "predicted.safetensors"
        flags = ["--predict", self.folder / "noy.npz", "-o", out, "--batch-size", 6]
        _, err = self.run(*flags)
        expect("'y' is missing" in err, err)
        model, found = Model(self.folder), load(out)
        expect(list(found) == ["pred"] and found["pred"][1] == [20], found)
        for row, value in enumerate(found["pred"][2]):
            expected = sum(a * b for a, b in zip(model.x[row], model.w))
            expect(abs(value - expected) < 1e-5, row, value, expected)
        self.run(*flags, "--outputs", "nothing", code=1)

    def case_dump_gradients(self):
        out = self.folder / "gradients.safetensors"
        log = self.log("--dump-gradients", out, "--batch-size", 8)
        expect(len(log) == 2 and log[0]["step"] == 1 and log[1]["event"] == "summary", log)
        loss, gw, gb = Model(self.folder).gradients(range(8))
        self.same_losses([log[0]["loss"]], [loss])
        found = load(out)
        for name, expected in (("w", gw), ("b", gb)):
            dtype, shape, values = found[name]
            expect(dtype == "F32" and shape == [len(expected)], found)
            expect(all(abs(a - b) < 1e-5 for a, b in zip(values, expected)), name, values)

    def case_export_and_weights(self):
        first, second = self.folder / "one.safetensors", self.folder / "two.safetensors"
        losses = self.losses("--steps", 3, "--batch-size", 20, "--export", first)
        model = Model(self.folder)
        self.same_losses(losses, [model.step([range(20)]) for _ in range(3)])
        found = load(first)
        expect(all(abs(a - b) < 1e-5 for a, b in zip(found["w"][2], model.w)), found)
        self.run("--weights", first, "--export", second)
        expect(load(second) == found, "exported again, and different")

    def case_weights_of_another_type(self):
        """Rounded to the model's, and said; what is no float stays refused. Exports say "pt"."""
        exported = self.folder / "rounded.safetensors"
        wider = "converted to the model's own, wider type"
        for kind, code, said in (
            ("F64", "d", "rounded to the model's own float type"),
            ("F16", "e", wider),
            ("I64", "q", None),
        ):
            values = {"w": [1, 2, 3], "b": [0] * 5} if code == "q" else {"w": [0.1, 1e-3, 1 / 3], "b": [0.7] * 5}
            header, body = {}, b""
            for name, list_ in values.items():
                data = struct.pack(f"<{len(list_)}{code}", *list_)
                header[name] = {"dtype": kind, "shape": [len(list_)], "data_offsets": [len(body), len(body) + len(data)]}
                body += data
            text = json.dumps(header).encode()
            path = self.folder / f"{kind}.safetensors"
            path.write_bytes(struct.pack("<Q", len(text)) + text + body)
            _, error = self.run("--weights", path, "--export", exported, code=0 if said else 1)
            if said == wider:
                values = {name: struct.unpack(f"<{len(v)}e", struct.pack(f"<{len(v)}e", *v)) for name, v in values.items()}
            if not said:
                expect("'w' is int64, expected float32" in error, error)
                continue
            expect(said in error and "2 arrays are" in error and re.search("'w' from float(64|16) to float32", error), error)
            single = lambda value: struct.unpack("<f", struct.pack("<f", value))[0]
            expect(load(exported)["w"][2] == tuple(map(single, values["w"])), load(exported))
            header = exported.read_bytes()[8:]
            expect(b'"__metadata__":{"format":"pt"}' in header.replace(b" ", b""), header[:200])

    def case_export_is_not_finite(self):
        """It is written, and said with the parameter's name."""
        exported, flags = self.folder / "broken.safetensors", ["--batch-size", 20, "--steps", 1, "--lr", 3e38]
        _, error = self.run("--data", self.folder / "good.npz", *flags, "--export", exported)
        expect("warning: " in error and f"'{exported}': values of 'w' are not finite" in error, error)
        _, error = self.run("--data", self.folder / "good.npz", "--steps", 1, "--export", exported)
        expect("not finite" not in error, error)

    def case_no_package(self):
        """Other files that people give: what they are, and what to do."""
        folder = self.scratch()
        folder.mkdir()
        weights = folder / "w.safetensors"
        self.run("--export", weights)
        (folder / "m.onnx").write_bytes(b"\x08\x0a" + bytes(100))
        (folder / "m.mlir").write_text("module {\n}\n")
        (folder / "junk").write_bytes(b"junk" * 20)
        for path, text in (
            (folder / "m.onnx", "an ONNX model: compile it first, trainc '"),
            (weights, "a safetensors file: the package comes first"),
            (self.folder / "good.npz", "a file of arrays (.npz)"),
            (folder / "m.mlir", "MLIR of the compiler: trainc --replay"),
            (folder / "junk", "not a readable zip file"),
        ):
            _, error = self.run("--info", package=path, code=1)
            expect(text in error and ("is no package" in error) == (path.name != "junk"), path, error)

    def case_many_arrays(self):
        """Of a file with other arrays, some are named, and long names are shortened."""
        header, body = {}, bytes(4 * 5000)
        for i in range(5000):
            name = f"array-{i}" if i else "a" * 300000
            header[name] = {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
        text = json.dumps(header).encode()
        file = self.scratch().with_suffix(".safetensors")
        file.write_bytes(struct.pack("<Q", len(text)) + text + body)
        _, error = self.run("--data", file, code=1)
        expect("is missing" in error and " and 4980 more" in error and len(error) < 4000, error[:4000])

    def case_init(self):
        flags = ["--init", "normal:0.5", "--export"]
        files = [self.folder / f"init-{n}.safetensors" for n in range(3)]
        for file, seed in zip(files, (1, 1, 2)):
            self.run(*flags, file, "--seed", seed)
        values = [load(file) for file in files]
        expect(values[0] == values[1] != values[2], values)

    # Checkpoints and signals.

    def saved(self, folder):
        return sorted(int(p.name[5:]) for p in folder.glob("step-*"))

    def case_resume(self):
        """Stopped anywhere and resumed: the same losses and the same files, shuffled or not."""
        for flags in (["--shuffle", "--seed", 5], ["--accumulate", 3]):
            flags = ["--batch-size", 6, *flags]
            whole, parts = self.scratch(), self.scratch()
            losses = self.losses("--steps", 20, "--save", whole, *flags)
            found = self.losses("--steps", 7, "--save", parts, *flags)
            found += self.losses("--steps", 13, "--save", parts, "--resume", parts, *flags)
            found += self.losses("--steps", 20, "--save", parts, "--resume", parts, *flags)
            expect(found == losses, found, losses)
            for name in ("parameters.safetensors", "optimizer.safetensors"):
                a, b = (f / "step-20" / name for f in (whole, parts))
                expect(a.read_bytes() == b.read_bytes(), name, "differs")

    def case_resume_epochs(self):
        whole, parts, flags = self.scratch(), self.scratch(), ["--batch-size", 6, "--shuffle"]
        losses = self.losses("--epochs", 3, "--save", whole, *flags)
        found = self.losses("--epochs", 1, "--save", parts, *flags)
        found += self.losses("--epochs", 3, "--save", parts, "--resume", parts, *flags)
        expect(found == losses and len(losses) == 12, found, losses)
        found = self.losses("--epochs", 3, "--resume", parts, *flags)
        expect(found == [], "trained beyond the end", found)
        _, error = self.run("--data", self.folder / "good.npz", "--epochs", 3, "--resume", parts, "--seed", 8)
        expect("nothing to train: 12 steps are done already" in error, error)
        expect(f"--seed 8 is ignored: {parts}/step-12 continues with its seed 0" in error, error)

    def case_resume_says_less(self):
        """What decides a run is in its checkpoint: options, and those of the package."""
        whole, parts = self.scratch(), self.scratch()
        flags = ["--batch-size", 6, "--epochs", 4, "--shuffle", "--seed", 3, "--accumulate", 2, "--lr", 0.05]
        flags += ["--lr-schedule", "cosine,warmup=2,min=0.001"]
        *expected, _ = self.log(*flags, "--save", whole)
        first = self.log(*flags, "--save", parts, "--save-every", 1)
        strip = lambda log: [(e["step"], e["loss"], e["lr"]) for e in log if "step_ms" in e and "event" not in e]
        expect(strip(first) == strip(expected) and len(expected) == 8, first)
        for step in (1, 2, 5):
            *rest, summary = self.log("--resume", parts / f"step-{step}")
            expect(strip(rest) == strip(expected)[step:], step, rest, expected)
            expect(not [e for e in rest if e.get("event") == "warning"], rest)
        # And as the command of docs/training.md has it: some are said again, the schedule is not.
        *rest, _ = self.log("--resume", parts / "step-3", "--batch-size", 6, "--epochs", 4, "--shuffle", "--seed", 3)
        expect(strip(rest) == strip(expected)[3:], rest)

    def case_resume_says_otherwise(self):
        folder = self.scratch()
        flags = ["--batch-size", 6, "--epochs", 2, "--lr-schedule", "linear"]
        self.losses(*flags, "--save", folder, "--save-every", 1)
        middle, end = folder / "step-2", folder / "step-8"

        def warning(*flags):
            log = self.log(*flags)
            return "".join(e["message"] for e in log if e.get("event") == "warning")

        def refused(part, *flags, data="good.npz"):
            _, error = self.run("--data", self.folder / data, *flags, code=1)
            expect(part in error and "in the middle of epoch 0" in error, part, "is not in", error)

        for more, part in (
            (["--lr", 0.2], "--lr was 0.1 and is 0.2"),
            (["--batch-size", 3], "--batch-size was 6 and is 3"),
            (["--lr-schedule", "constant"], "--lr-schedule was linear,total=8 and is not given"),
            (["--epochs", 3], "ends with step 8, as the run began, and the run with step 12"),
        ):
            found = warning("--resume", middle, *more)
            expect(part in found, part, "is not in", found)
        for more, part in (([], ""), (["--epochs", 3, "--lr-schedule", "linear"], "total=8 and is linear,total=12")):
            found = warning("--resume", end, *more)
            expect(part in found and bool(part) == bool(found), part, "is not", found)
        # A position means nothing in other rows, unless it is the beginning of an epoch.
        refused("--shuffle was not given and is on", "--resume", middle, "--shuffle")
        refused("the data's values have changed", "--resume", middle, data="badid.npz")
        refused("number of rows was 20 and is 7", "--resume", middle, "--batch-size", 6, data="short.npz")
        fourth = folder / "step-4"
        expect("--shuffle was not given" in warning("--resume", fourth, "--shuffle"), "no warning")
        out, error = self.run("--data", self.folder / "short.npz", "--resume", fourth)
        expect("number of rows was 20 and is 7" in error, error)
        # Together they make no sense.
        shares = self.scratch()
        self.losses("--batch-size", 5, "--world", 2, "--rank", 1, "--save", shares)
        _, error = self.run("--data", self.folder / "good.npz", "--resume", shares, "--world", 1, code=1)
        expect("do not go together" in error and "--rank 1 is none of --world 1" in error, error)

    def case_save_every_and_keep(self):
        folder = self.scratch()
        self.log("--steps", 10, "--save", folder, "--save-every", 3)
        expect(self.saved(folder) == [3, 6, 9, 10], self.saved(folder))
        folder = self.scratch()
        self.log("--steps", 10, "--save", folder, "--save-every", 3, "--keep", 2)
        expect(self.saved(folder) == [9, 10], self.saved(folder))

    def case_resume_nothing(self):
        _, err = self.run(
            "--data", self.folder / "good.npz", "--resume", self.folder / "nowhere", code=1
        )
        expect("nowhere" in err, err)

    def endless(self, folder, **more):
        """A run that saves into `folder` when it is told to end."""
        command = [self.arguments.trainc_run, self.folder / "linear.tpk", "--data"]
        command += [self.folder / "good.npz", "--batch-size", 6, "--steps", 10**9]
        command += ["--log-format", "json", "--save", folder]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([str(c) for c in command], **pipes, **more)

    def case_signals(self):
        """They end in order: saved, exit code 1, and resumed bit for bit."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            folder = self.scratch()
            with self.endless(folder) as process:
                for line in process.stdout:
                    if json.loads(line)["step"] >= 100:
                        break
                process.send_signal(number)
                process.send_signal(number)  # to a job's processes, and passed on by a parent: one request
                # Not communicate(), which would miss what the loop has read ahead.
                log = [line, *process.stdout.read().splitlines()]
                err = process.stderr.read()
            expect(process.returncode == 1, f"exit {process.returncode}: {err}")
            expect("interrupted" in err and "--resume" in err, err)
            (last,) = self.saved(folder)
            expect(last >= 100 and json.loads(log[-1])["step"] == last, last)
            more = ["--batch-size", 6, "--steps", last + 5]
            whole, resumed = self.losses(*more), self.losses(*more, "--resume", folder)
            expect(whole[last:] == resumed, whole[last:], resumed)

    def case_ignored_signals(self):
        """nohup: SIGHUP stays ignored."""
        folder = self.scratch()
        ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with self.endless(folder, preexec_fn=ignore) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGHUP)
            for line in process.stdout:
                if json.loads(line)["step"] >= 2000:
                    break
            process.send_signal(signal.SIGTERM)
            process.stdout.read()
            error = process.stderr.read()
        expect(process.returncode == 1 and "SIGTERM" in error, process.returncode, error)

    def case_two_runs_one_folder(self):
        """The second one is refused, and says who is there; a dead one is in nobody's way."""
        folder, data = self.scratch(), ["--data", self.folder / "good.npz"]
        with self.endless(folder) as process:
            process.stdout.readline()
            for flags in ([], ["--overwrite"]):
                _, error = self.run(*data, "--save", folder, *flags, code=1)
                expect(f"in use: process {process.pid} on " in error and str(folder) in error, error)
            process.kill()
        expect(os.listdir(folder) == [".lock"], os.listdir(folder))
        self.run(*data, "--steps", 1, "--save", folder)
        expect(os.listdir(folder) == ["step-1"], os.listdir(folder))

    def case_save_into_another_run(self):
        folder, flags = self.scratch(), ["--batch-size", 6, "--steps"]
        data = ["--data", self.folder / "good.npz"]
        self.losses(*flags, 3, "--save", folder, "--save-every", 1)
        for more in ([], ["--resume", self.folder / "other"]):
            self.losses(*flags, 1, "--save", self.folder / "other", "--overwrite")
            _, error = self.run(*data, *flags, 2, "--save", folder, *more, code=1)
            expect("another run, up to step-3" in error and "--overwrite" in error, error)
        # Until the first save, the other run is whole.
        bad = ["--data", self.folder / "nan.npz", "--batch-size", 20, "--save", folder]
        self.run(*bad, "--overwrite", code=1)
        expect(self.saved(folder) == [1, 2, 3], self.saved(folder))
        # From a checkpoint in the middle: later, nobody could tell the newer ones apart.
        third = [*flags, 3, "--resume", folder / "step-1", "--save", folder]
        _, error = self.run(*data, *third, code=1)
        expect("newer than" in error and "step-3" in error, error)
        self.losses(*third, "--overwrite", "--save-every", 1)
        expect(self.saved(folder) == [1, 2, 3], self.saved(folder))
        self.losses(*flags, 2, "--lr", 0.2, "--save", folder, "--overwrite")
        expect(self.saved(folder) == [2], self.saved(folder))
        self.run(*data, "--overwrite", code=2)

    def case_file_too_large(self):
        """A limit of the system is an error of the write, not a signal that ends the run."""
        folder = self.scratch()
        with self.endless(folder) as process:
            process.stdout.readline()
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (100, 100))
            process.send_signal(signal.SIGTERM)
            process.stdout.read()
            error = process.stderr.read()
        expect(process.returncode == 1 and "File too large" in error, process.returncode, error)
        expect(not folder.exists(), "left behind")

    def case_fifos(self):
        """Refused at once: nothing waits for somebody to write into them."""
        fifo, data = self.folder / "fifo", ["--data", self.folder / "good.npz"]
        os.mkfifo(fifo)
        folder = self.scratch()
        self.losses("--steps", 1, "--save", folder)
        os.remove(folder / "step-1" / "parameters.safetensors")
        os.mkfifo(folder / "step-1" / "parameters.safetensors")
        (self.folder / "index.json").write_text('{"weight_map": {"w": "fifo", "b": "fifo"}}')
        for flags in (
            ["--data", fifo],
            [*data, "--eval", fifo],
            [*data, "--weights", fifo],
            [*data, "--weights", self.folder / "index.json"],
            [*data, "--resume", folder],
            ["--predict", fifo, "-o", self.folder / "never.safetensors"],
        ):
            _, error = self.run(*flags, code=1)
            expect("not a regular file" in error, flags, error)
        _, error = self.run(*data, package=fifo, code=1)
        expect("not a regular file" in error, error)

    def case_log_is_lost(self):
        """A full disk or a closed pipe under the log: saved, exit code 1, and resumed."""
        flags = ["--data", self.folder / "good.npz", "--batch-size", 6, "--steps", 10**9]
        command = [self.arguments.trainc_run, self.folder / "linear.tpk", *flags]
        command = [str(c) for c in [*command, "--log-format", "json", "--save"]]
        folder = self.scratch()
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([*command, str(folder)], stdout=full, stderr=subprocess.PIPE)
        expect(done.returncode == 1 and b"No space left" in done.stderr, done)
        expect(self.saved(folder) == [1], self.saved(folder))
        folder, pipes = self.scratch(), {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen([*command, str(folder)], **pipes) as process:
            process.stdout.readline()
            process.stdout.close()
            error = process.stderr.read()
        expect(process.returncode == 1 and b"Broken pipe" in error, process.returncode, error)
        expect(len(self.saved(folder)) == 1, self.saved(folder))

    def case_outputs_are_checked_first(self):
        """Not after hours of training: no step runs."""
        nowhere = self.folder / "nowhere" / "x.safetensors"
        data = self.folder / "good.npz"
        for flags in (
            ["--export", nowhere],
            ["--dump-gradients", nowhere],
            ["--predict", data, "-o", nowhere],
            ["--save", data],
            ["--dump-gradients", self.folder],
        ):
            out, err = self.run("--data", data, "--log-format", "json", *flags, code=1)
            expect(not out and "cannot create" in err, out, err)
        loop = self.folder / "loop"
        loop.symlink_to(loop)
        _, err = self.run("--data", data, "--save", loop / "x", code=1)
        expect(f"cannot create '{loop}/x': '{loop}/x' cannot be inspected: Too many levels of" in err, err)

    def case_outputs_that_are_inputs(self):
        """Refused before anything runs, whatever the name, and every byte is as it was."""
        folder = self.scratch() / "x"
        folder.mkdir(parents=True)
        package, data, weights = (folder / n for n in ("p.tpk", "d.npz", "w.safetensors"))
        shutil.copy(self.folder / "linear.tpk", package)
        shutil.copy(self.folder / "good.npz", data)
        self.run("--data", data, "--steps", 1, "--export", weights, "--save", folder / "ck")
        saved = folder / "ck" / "step-1" / "parameters.safetensors"
        (folder / "index.json").write_text('{"weight_map": {"w": "w.safetensors", "b": "w.safetensors"}}')
        os.link(data, folder / "hard")
        os.symlink("../x/d.npz", folder / "soft")
        before = {f: f.read_bytes() for f in folder.rglob("*") if f.is_file()}
        train, predict = ["--data", data], ["--predict", data, "-o"]
        for flags in (
            [*predict, data],
            [*predict, folder / "hard"],
            [*predict, folder / "soft"],
            [*predict, package],
            [*train, "--eval", weights, "--export", weights],
            [*train, "--weights", weights, "--export", folder / ".." / "x" / "w.safetensors"],
            [*train, "--weights", folder / "index.json", "--export", weights],
            [*train, "--resume", folder / "ck", "--export", saved],
            [*train, "--dump-gradients", data],
            [*train, "--profile", data],
            [*train, "--tune", 1, "-o", data],
        ):
            out, error = self.run("--log-format", "json", *flags, package=package, code=1)
            expect(not out and "which this run reads" in error, flags, out, error)
        new = folder / "new.safetensors"
        _, error = self.run(*train, "--export", new, "--predict", data, "-o", new, package=package, code=1)
        expect("one would replace the other" in error, error)
        expect(before == {f: f.read_bytes() for f in folder.rglob("*") if f.is_file()}, "changed")

    # What goes wrong.

    def refused(self, file, *patterns, flags=()):
        _, err = self.run("--data", self.folder / file, *flags, code=1)
        for pattern in (file, *patterns):
            expect(re.search(pattern, err), f"/{pattern}/ is not in: {err}")

    def case_bad_data(self):
        self.refused("noy.npz", r"'y'", "missing", r"f32 \[batch\]")
        self.refused("badtype.npz", r"'y'", "f64", r"y\.astype\(numpy\.float32\)")
        self.refused("ragged.npz", r"'y'", r"\b20\b", r"\b19\b")
        self.refused("badid.npz", r"'ids'", r"value 7", "row 9 of", flags=["--batch-size", 4])
        flags = ["--batch-size", 4, "--shuffle"]
        self.refused("badid.npz", r"'ids'", r"value 7", "row 9 of", flags=flags)
        flags = ["--batch-size", 4, "--accumulate", 5]
        self.refused("badid.npz", r"'ids'", r"value 7", "row 9 of", flags=flags)
        self.refused("good.npz", r"\b100\b", r"\b20\b", flags=["--batch-size", 100])
        self.refused("absent.npz")
        self.run("--data", self.folder / "good.npz", "--clip-norm", 1, code=1)
        self.run("--data", self.folder / "good.npz", "--weight-decay", 1, code=1)

    def case_widening(self):
        expect(self.losses("--steps", 3, data="int32.npz") == self.losses("--steps", 3), "differs")

    def case_extra_arrays(self):
        log = self.log(data="extra.npz")
        expect(log[0]["event"] == "warning" and "weight" in log[0]["message"], log)
        more = {name: ("<f4", (1,), [0]) for name in ("a", "b")}
        save_npz(self.folder / "more.npz", x=("<f4", (1, 3), [0] * 3), ids=("<i8", (1,), [0]), y=more["a"], **more)
        log = self.log(data="more.npz")
        expect(log[0]["message"].endswith("'a', 'b' are no inputs of the model and are ignored"), log)

    def case_nonfinite_loss(self):
        folder = self.scratch()
        flags = ["--batch-size", 4, "--save", folder]
        log = self.log(*flags, data="nan.npz", code=1)
        expect([e["step"] for e in log] == [1, 2, 3, 4], log)
        expect(log[-1]["loss"] is None and log[-1]["nonfinite"] == "nan", log)
        expect(self.saved(folder) == [3], self.saved(folder))
        clean = self.scratch()
        self.log("--batch-size", 4, "--steps", 3, "--save", clean)
        for name in ("parameters.safetensors", "optimizer.safetensors"):
            a, b = (f / "step-3" / name for f in (folder, clean))
            expect(a.read_bytes() == b.read_bytes(), name, "is not that before the bad step")

    def case_nonfinite_at_once(self):
        """Without a step there is nothing to save: no folder, and the message says so."""
        folder = self.scratch() / "new"
        bad = ["--data", self.folder / "nan.npz", "--batch-size"]
        _, error = self.run(*bad, 20, "--save", folder, code=1)
        expect("no step was made" in error and not folder.exists(), error)
        # Of a run that goes on, likewise: the checkpoint is where it was.
        self.run(*bad, 4, "--steps", 3, "--save", folder)
        again = self.scratch()
        _, error = self.run(*bad, 4, "--epochs", 1, "--resume", folder, "--save", again, code=1)
        expect("no step was made" in error and not again.exists(), error)

    def case_allow_nonfinite(self):
        *log, _ = self.log("--batch-size", 4, "--steps", 6, "--allow-nonfinite", data="nan.npz")
        expect([e["loss"] is None for e in log] == [False] * 3 + [True] + [False] * 2, log)


def main():
    # Ignored ones would be so in what is started here, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--schema", type=pathlib.Path, required=True)
    run_cases(parser, Cases)


if __name__ == "__main__":
    main()
