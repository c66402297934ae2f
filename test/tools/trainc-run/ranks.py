# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several ranks that train one package (docs/design/distribute.md): W of them make the steps of one process with --accumulate W,
bit for bit.

  ranks.py --trainc TRAINC --trainc-run TRAINC_RUN --models test/e2e/models DIR
"""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "Inputs"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from cases import Failed, expect, program_parser, run_cases  # noqa: E402
from make_data_folder import write  # noqa: E402
from token_rows import few_labels, with_token, without_labels  # noqa: E402
from trained import Trained  # noqa: E402
import square_lookup  # noqa: E402
import wide_model  # noqa: E402

WORLDS = 1, 2, 3, 4


class Ranked(Trained):
    def __init__(self, arguments):
        super().__init__(arguments)
        self.columns = few_labels()
        self.tokens = self.folder(self.columns, 2)

    def folder(self, columns, shards=1):
        folder = self.path("")
        write(folder, columns, shards)
        return folder

    def trained(self, package, data, *flags):
        """(what is said of each step, the bytes of the last checkpoint)"""
        saved = self.path("")
        events = [e for e in self.log(package, data, *flags, "--save", saved) if "event" not in e]
        steps = [{k: e[k] for k in ("step", "loss", "lr", "grad_norm") if k in e} for e in events]
        last = max(saved.glob("step-*"), key=lambda p: int(p.name[5:]))
        return steps, {p.name: p.read_bytes() for p in sorted(last.glob("*.safetensors"))}

    def equal(self, found, expected, what):
        expect(found[0] == expected[0], what, found[0], expected[0])
        expect(found[1].keys() == expected[1].keys(), what, found[1].keys())
        for name in expected[1]:
            expect(found[1][name] == expected[1][name], what, name, "differs")

    def model_data(self, model):
        return self.arguments.models / f"{model}.npz"


class Sharded(Ranked):
    """A model with weights that ranks share."""

    def __init__(self, arguments):
        super().__init__(arguments)
        self.wide = self.path(".onnx")
        wide_model.write(self.wide)
        self.rows = self.data(**wide_model.rows(24))
        self.frozen = self.path(".onnx")
        wide_model.write(self.frozen, widths=wide_model.FROZEN)

    def sharded(self, *flags, how="zero1", model=None):
        model = model or (self.frozen if "--quantize" in flags else self.wide)
        return self.trainc(model.with_suffix(""), "--distribute", how, *flags)

    def narrow(self, *types):
        """The model, whose weights have gradients of these types: "bf16", "f16" or "f32"."""
        rounded = {"bf16": onnx.TensorProto.BFLOAT16, "f16": onnx.TensorProto.FLOAT16, "f32": None}
        wide_model.write(path := self.path(".onnx"), rounded=[rounded[name] for name in types])
        return path

    def same(self, package, how, *run, worlds):
        """Ranks and one process of the same package."""
        for world in worlds:
            expected = self.trained(package, self.rows, *run, "--accumulate", world)
            self.equal(self.trained(package, self.rows, *run, how, world), expected, f"{package} {run} {how} {world}")


class Cases(Sharded):
    """Ranks that are emulated."""

    def both(self, model, data, flags, run, worlds=WORLDS):
        """Emulated ranks, one process of the same package, and one of a package for one rank."""
        package, alone = self.trainc(model, "--distribute", "data", *flags), self.trainc(model, *flags)
        for world in worlds:
            what = f"{model} {flags} {run} of {world}"
            expected = self.trained(package, data, *run, "--accumulate", world)
            self.equal(self.trained(package, data, *run, "--emulate-world", world), expected, what)
            self.equal(self.trained(alone, data, *run, "--accumulate", world), expected, what + ", for one rank")

    def case_bits_of_optimizers(self):
        for flags in ([], ["--clip-norm", "0.3"], ["--optimizer", "lamb", "--grad-norm"],
                      ["--optimizer-state", "int8", "--clip-norm", "1"],
                      ["--optimizer", "sgd", "--momentum", "0.9", "--optimizer-state", "bf16"]):  # fmt: skip
            self.both("mlp", self.model_data("mlp"), flags, ["--batch-size", "3", "--steps", "4"])

    def case_bits_of_models(self):
        """Dropout is that of the micro-batch, whichever rank it is on; padding is left out on each by itself."""
        run = ["--batch-size", "2", "--steps", "3"]
        self.both("gpt2-dropout", self.model_data("gpt2-dropout"), ["--clip-norm", "1"], run, worlds=(2, 3))
        self.both("gpt2", self.tokens, [], [*run, "--trim"], worlds=(2, 4))
        self.both("gpt2", self.tokens, ["--lora", "r=4,alpha=8", "--quantize", "nf4"], run, worlds=(3,))
        self.both("bert-cls", self.model_data("bert-cls"), ["--recompute", "level:1"], run, worlds=(2,))

    def case_weights_of_losses(self):
        """Labels are counted over all ranks."""
        for by in ("tokens", "rows", "mean"):
            run = ["--batch-size", "3", "--steps", "4", "--accumulate-by", by]
            self.both("gpt2", self.tokens, ["--clip-norm", "0.5"], run, worlds=(2, 4))

    def case_several_micro_batches(self):
        """Each rank adds up its own first; the ranks' sums are added then."""
        package, run = self.trainc("mlp", "--distribute", "data"), ["--batch-size", "2", "--steps", "3"]
        data = self.model_data("mlp")
        whole = self.losses(package, data, *run, "--accumulate", "4")
        self.close(self.losses(package, data, *run, "--accumulate", "2", "--emulate-world", "2"), whole, 1e-6)

    def case_end_of_an_epoch(self):
        """Its last step has fewer batches than there are ranks, and a short one."""
        arrays = {k: v[:10] for k, v in np.load(self.model_data("mlp-regression")).items()}
        self.both("mlp-regression", self.data(**arrays), [], ["--batch-size", "3", "--epochs", "3", "--accumulate-by", "rows"])

    def case_nothing_counts_on_a_rank(self):
        folder = self.folder(without_labels(self.columns, 6))
        self.both("gpt2", folder, ["--clip-norm", "1"], ["--batch-size", "3", "--steps", "2"], worlds=(4,))

    def case_resume_in_another_world(self):
        package, data = self.trainc("mlp", "--distribute", "data", "--clip-norm", "1"), self.model_data("mlp")
        run, saved = ["--batch-size", "2", "--lr", "0.01"], self.path("")
        whole = self.losses(package, data, *run, "--emulate-world", "2", "--steps", "4", "--save", saved, "--save-every", "2")
        again = self.losses(package, data, *run, "--emulate-world", "2", "--steps", "4", "--resume", saved / "step-2")
        expect(again == whole[2:], again, whole)
        for world in (["--emulate-world", "4"], ["--accumulate", "2"]):
            rest = self.losses(package, data, *run, *world, "--steps", "4", "--resume", saved / "step-2")
            expect(len(rest) == 2 and (rest == whole[2:]) == (world[0] == "--accumulate"), world, rest, whole)

    def case_not_finite(self):
        """On one rank is for all, and nothing is lost."""
        arrays = dict(np.load(self.model_data("mlp-regression")))
        arrays = {k: v[:12].copy() for k, v in arrays.items()}
        first = next(k for k, v in arrays.items() if v.dtype == np.float32)
        arrays[first][7] = np.inf  # rank 1 of the second step
        data = self.data(**arrays)
        for flags in ([], ["--clip-norm", "1"]):
            package = self.trainc("mlp-regression", "--distribute", "data", *flags)
            run, said = ["--batch-size", "2", "--steps", "3"], []
            for how in ("--emulate-world", "--accumulate"):
                saved = self.path("")
                _, err = self.run(package, data, *run, how, "2", "--save", saved, code=1)
                said.append([line for line in err.splitlines() if "not finite" in line])
                expect((saved / "step-1").exists(), err)
            expect(said[0] == said[1] and said[0], said)
            self.both("mlp-regression", data, flags, [*run, "--allow-nonfinite"], worlds=(2,))

    def case_bad_data(self):
        """Of one rank is an error of all, before anything is changed."""
        folder, saved = self.folder(with_token(self.columns, 10, 5000)), self.path("")  # in the fourth batch
        package = self.trainc("gpt2", "--distribute", "data")
        run = ["--batch-size", "3", "--steps", "2", "--save", saved, "--save-every", "1"]
        self.refused(["rank 1: ", "5000"], package, folder, *run, "--emulate-world", "2")
        expect((saved / "step-1").exists() and not (saved / "step-2").exists(), list(saved.iterdir()))

    def case_bad_index(self):
        """What only a kernel finds in a rank's rows is an error of all, and so is a step in which a rank has none."""
        square_lookup.write(path := self.path(".onnx"))
        data = self.data(**square_lookup.rows(10, bad=7))  # rank 1 of the second step
        for how in ("data", "zero1"):
            package, saved = self.trainc(path.with_suffix(""), "--distribute", how), self.path("")
            run = ["--batch-size", "2", "--epochs", "1", "--save", saved, "--save-every", "1"]
            self.refused(["rank 1: ", "node 'lookup': index 81 is out of range"], package, data, *run, "--emulate-world", "2")
            expect((saved / "step-1").exists() and not (saved / "step-2").exists(), list(saved.iterdir()))

    def case_profile(self):
        """A row for each exchange, with what it sends, and one for waiting."""
        package, report = self.trainc("gpt2", "--distribute", "data"), self.path(".json")
        parameters = json.loads(zipfile.ZipFile(package).read("manifest.json"))["parameters"]
        for world in (2, 3):
            run = ["--batch-size", "2", "--steps", "5", "--emulate-world", world, "--profile", report]
            out, err = self.run(package, self.tokens, *run)
            rows = [json.loads(line) for line in report.read_text().splitlines()]
            sends = [row for row in rows if row["sent_bytes"]]
            parts = sum(-(-int(np.prod(p["shape"])) // world) for p in parameters) + 1  # and the verdict
            for function in {row["function"] for row in sends}:  # variants of one
                expect(sum(row["sent_bytes"] for row in sends if row["function"] == function) == 2 * (world - 1) * parts * 4, sends)
            expect(all(row["function"].startswith("step") and row["name"].startswith("all_reduce f32 of ") for row in sends), sends)
            expect(all(row["waited_ms"] >= 0 for row in sends) and not any("waited_ms" in row for row in rows if not row["sent_bytes"]), rows)
            waits = [row for row in rows if row["function"] == "ranks"]
            expect(all(row["class"] == "exchange" for row in sends + waits), rows)
            expect([row["name"] for row in waits] == ["wait for the other ranks"] and waits[0]["runs"] == 5, waits)
            expect(" MB to other ranks, " in out + err and " ms were waited for" in out + err, out, err)

    def case_batches_by_work(self):
        """Those of a step are of about the same length, and the same with any number of ranks; so is a place among them."""
        for flags in (["--group-by-length"], ["--tokens-per-batch", "96"]):
            run = [*flags, "--shuffle", "--batch-size", "3", "--epochs", "2", "--accumulate-by", "rows"]
            package, saved = self.trainc("gpt2", "--distribute", "data"), self.path("")
            found = self.trained(package, self.tokens, *run, "--emulate-world", "2")
            alone = ["--accumulate", "2", "--balance", "2"]
            self.equal(found, self.trained(package, self.tokens, *run, *alone), flags)
            other = self.trained(package, self.tokens, *run, "--accumulate", "2")
            expect(found[0][1:] != other[0][1:], flags, "the order is the same without --balance")
            # In the middle of an epoch, in other worlds.
            self.run(package, self.tokens, *run, "--emulate-world", "2", "--save", saved, "--save-every", "1", "--keep", "9")
            rest = self.losses(package, self.tokens, *run, "--accumulate", "2", "--resume", saved / "step-2")
            expect(rest == [s["loss"] for s in found[0]][2:], flags, rest, found[0])
            rest = self.losses(package, self.tokens, *run, "--emulate-world", "4", "--accumulate", "1", "--resume", saved / "step-2")
            expect(0 < len(rest) < len(found[0]) - 2, flags, rest)

    def case_said(self):
        package = self.trainc("mlp", "--distribute", "data")
        manifest = json.loads(zipfile.ZipFile(package).read("manifest.json"))
        expect(manifest["optimizer"]["distribute"] == "data", manifest["optimizer"])
        alone = json.loads(zipfile.ZipFile(self.trainc("mlp")).read("manifest.json"))
        expect("distribute" not in alone["optimizer"], alone["optimizer"])
        _, err = self.run(package, self.model_data("mlp"), "--batch-size", "2", "--emulate-world", "2")
        expect("2 micro-batches a step" in err, err)

    def case_refused(self):
        package, data = self.trainc("mlp"), self.model_data("mlp")
        self.refused(["the package is for one rank; compile it with --distribute data"], package, data, "--emulate-world", "2")
        distributed = self.trainc("mlp", "--distribute", "data")
        for flags, words in ((["--world", "2"], "--emulate-world and --world exclude each other"),
                             (["--check-numerics"], "--emulate-world and --check-numerics exclude"),
                             (["--dump-gradients", self.path(".safetensors")], "--emulate-world and --dump-gradients")):  # fmt: skip
            self.refused([words], distributed, data, "--emulate-world", "2", *flags, code=2)
        self.refused(["--emulate-world"], distributed, data, "--emulate-world", "0", code=2)
        _, err = self.call(distributed, "--eval", data, "--dry-run", code=2)
        expect("--dry-run needs --data FILE to train on, and no --tune" in err, err)
        self.refused(["the package is for one rank"], package, data, "--ranks", "2", "--dry-run")
        _, err = self.call(distributed, "--eval", data, "--emulate-world", "2", code=2)
        expect("--emulate-world needs --data FILE" in err, err)
        said = self.trainc("resnet", "--distribute", "data", code=1)
        expect("--distribute: the forward pass itself changes '" in said and "evaluation mode" in said, said)
        said = self.trainc("mlp", "--distribute", "zero9", code=2)
        expect("--distribute" in said and "data" in said and "zero1" in said, said)
        wide_model.write(named := self.path(".onnx"), batch="world")
        said = self.trainc(named.with_suffix(""), "--distribute", "zero1", code=1)
        expect("--distribute zero1: the model has a size called 'world', which is one of the ranks" in said, said)
        said = self.trainc("mlp", "--distribute", "data", "--inference", code=2)
        expect("--inference" in said, said)


    def case_bits_of_shards(self):
        """However many ranks share the state, and whatever it is stored in."""
        run = ["--batch-size", "2", "--steps", "3"]
        for how, flags, worlds in (
            ("zero1", ["--optimizer-state", "int8", "--clip-norm", "1"], (2, 3)),
            ("zero2", ["--optimizer", "lamb", "--grad-norm", "--optimizer-state", "bf16"], (4,)),
            ("zero1", ["--optimizer", "sgd", "--momentum", "0.9"], (5,)),
            ("zero2", ["--lora", "r=256,alpha=8", "--quantize", "nf4"], (3,)),
            ("zero3", ["--optimizer-state", "int8", "--clip-norm", "1"], (1, 2, 3, 4)),
            ("zero3", ["--optimizer", "lamb", "--grad-norm"], (3,)),
            ("zero3", ["--lora", "r=256,alpha=8", "--quantize", "nf4"], (3,)),
            ("zero3", ["--lora", "r=4,alpha=8", "--quantize", "int8"], (2,)),
        ):
            self.same(self.sharded(*flags, how=how), "--emulate-world", *run, worlds=worlds)

    def case_narrow_gradients(self):
        """They travel as they are, and are added up in f32: with the bits of one process."""
        run, report = ["--batch-size", "2", "--steps", "3"], self.path(".json")
        for how, name in (("zero1", "bf16"), ("zero2", "f16")):
            package = self.sharded("--optimizer", "sgd", how=how, model=self.narrow(name, name, name))
            self.same(package, "--emulate-world", *run, worlds=(1, 3))
            self.run(package, self.rows, *run, "--emulate-world", "2", "--profile", report)
            names = {row["name"] for row in map(json.loads, report.read_text().splitlines()) if row["sent_bytes"]}
            expect(f"reduce_scatter {name} to f32 of 3 tensors" in names, how, names)

    def case_shards_change_no_bits(self):
        """Where no norm is added up in another order, ranks with shards make what ranks with all of it make."""
        whole = self.sharded(how="data")
        for how in ("zero1", "zero2", "zero3"):
            for world in (["--emulate-world", "3"], []):
                run = ["--batch-size", "2", "--steps", "3", *world]
                expected = self.trained(whole, self.rows, *run)
                self.equal(self.trained(self.sharded(how=how), self.rows, *run), expected, f"{how} {world}")

    def case_uneven_shards(self):
        """The end of an epoch, where a rank has no batch, with variants of packed tokens and dropout."""
        wide_model.widen(self.arguments.models / "gpt2.onnx", wide := self.path(".onnx"), 128, 2100)
        for how, tokens in (("zero1", "gpt2"), ("zero2", "gpt2"), ("zero3", wide.with_suffix(""))):
            for package, data, run in (
                (self.sharded("--clip-norm", "1", how=how), self.data(**wide_model.rows(10)),
                 ["--batch-size", "3", "--epochs", "2", "--accumulate-by", "rows"]),
                (self.trainc(tokens, "--distribute", how, "--clip-norm", "1"), self.tokens, ["--batch-size", "2", "--steps", "3", "--trim"]),
            ):  # fmt: skip
                self.equal(self.trained(package, data, *run, "--emulate-world", "3"),
                           self.trained(package, data, *run, "--accumulate", "3"), f"{how} {run}")  # fmt: skip

    def case_shards_in_checkpoints(self):
        """They are whole there: any number of ranks goes on."""
        for mode in ("zero1", "zero3"):
            package, run, saved = self.sharded("--optimizer-state", "int8", how=mode), ["--batch-size", "2", "--steps", "4"], self.path("")
            whole = self.losses(package, self.rows, *run, "--emulate-world", "2", "--save", saved, "--save-every", "2")
            for how in (["--emulate-world", "2"], ["--accumulate", "2"]):
                rest = self.losses(package, self.rows, *run, *how, "--resume", saved / "step-2")
                expect(rest == whole[2:], mode, how, rest, whole)
            self.same(package, "--emulate-world", *run, "--resume", saved / "step-2", worlds=(1, 3, 4))

    def case_shards_take_less(self):
        def peak(how, world, *flags):
            run = ["--batch-size", "1" if flags else "2", "--steps", "1", "--emulate-world", world, *flags]
            return self.log(self.sharded(how=how), self.rows, *run)[0]["peak_bytes"]

        expect(peak("zero1", 8) < peak("zero1", 2) < peak("data", 2), peak("zero1", 8), peak("zero1", 2))
        expect(peak("zero3", 8) < peak("zero2", 8) <= peak("zero1", 8), peak("zero3", 8), peak("zero2", 8))
        # Accumulators are of steps of several micro-batches.
        several = ["--accumulate", "2"]
        expect(peak("zero2", 8, *several) < peak("zero1", 8, *several), peak("zero2", 8, *several), peak("zero1", 8, *several))
        # What is frozen as well: codes and their scales.
        adapters = ["--lora", "r=4,alpha=8", "--quantize", "nf4"]
        held = []
        for how in ("data", "zero3"):
            package = self.sharded(*adapters, how=how)
            events = self.log(package, self.rows, "--batch-size", "2", "--steps", "1", "--emulate-world", 4, "--memory-stats")
            held.append(next(e["parameters"] + e["mapped"] for e in events if "mapped" in e))
        expect(held[1] < held[0] / 2, held)

    def case_micro_batches_of_shards(self):
        """With several of them each is exchanged by itself; a rank may have fewer."""
        data, run = self.data(**wide_model.rows(14)), ["--batch-size", "2", "--epochs", "1"]
        whole = self.losses(self.sharded(how="data"), data, *run, "--accumulate", "4")
        self.close(self.losses(self.sharded(how="zero2"), data, *run, "--accumulate", "2", "--emulate-world", "2"), whole, 1e-6)

    def case_whole_parameters(self):
        """Who evaluates, predicts or exports behind the training has all of them."""
        package, run = self.sharded(how="zero3"), ["--batch-size", "24", "--steps", "2"]
        made = []
        for how in (["--emulate-world", "3"], ["--accumulate", "3"]):
            predicted, exported = self.path(".safetensors"), self.path(".safetensors")
            events = self.log(package, self.rows, *run, *how, "--eval", self.rows, "--eval-every", "1", "--predict", self.rows,
                              "--outputs", "loss", "-o", predicted, "--export", exported)  # fmt: skip
            evals = [e["loss"] for e in events if e.get("event") == "eval"]
            expect(len(evals) >= 2, events)
            made.append((evals, predicted.read_bytes(), exported.read_bytes()))
        expect(made[0] == made[1], made[0][0], made[1][0])

    def case_not_finite_in_shards(self):
        """What the last rank alone sees all are told, and nothing of it goes to the others."""
        arrays = wide_model.rows(6)
        arrays["x"][:, :-1] = 0  # only the last row of w0 has a gradient
        arrays["y"] *= 1e6
        data, package = self.data(**arrays), self.sharded("--optimizer", "sgd", "--trainable", "^w0$")
        run = ["--batch-size", "2", "--steps", "1", "--lr", "3e38"]
        for how in ("--emulate-world", "--accumulate"):
            _, err = self.run(package, data, *run, how, "3", code=1)
            expect("or what its update makes of it, is not finite; such elements are left as they were" in err, err)
        run.append("--allow-nonfinite")
        self.equal(self.trained(package, data, *run, "--emulate-world", "3"),
                   self.trained(package, data, *run, "--accumulate", "3"), "not finite")  # fmt: skip

    def case_said_of_shards(self):
        manifest = json.loads(zipfile.ZipFile(self.sharded()).read("manifest.json"))
        expect(manifest["optimizer"]["distribute"] == "zero1", manifest["optimizer"])
        expect([s["run"] for s in manifest["symbols"] if "run" in s] == ["world", "rank"], manifest["symbols"])


class Processes(Sharded):
    """The same with processes, and how they end."""

    def start(self, package, data, *flags, **environment):
        command = [str(c) for c in (self.arguments.trainc_run, package, "--data", data, *flags)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment)

    def ended(self, process, limit=60):
        """(exit code, standard error)"""
        try:
            _, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Failed(f"{process.args} hangs: {process.communicate()[1]}")
        return process.returncode, err

    def port(self):
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            return found.getsockname()[1]

    def slow(self):
        """A package and data whose steps go on for minutes, with a checkpoint after each."""
        package = self.trainc("gpt2", "--distribute", "data", "--clip-norm", "1")
        return package, self.tokens, ["--batch-size", "12", "--steps", "100000", "--save-every", "1", "--keep", "2"]

    def begun(self, folder, step=2):
        """Waits for a checkpoint."""
        for _ in range(600):
            if any(int(p.name[5:]) >= step for p in folder.glob("step-*")):
                return
            time.sleep(0.05)
        raise Failed(f"no checkpoint in {folder}")

    def children(self, process):
        """Process ids, by rank."""
        ranks = {}
        for pid in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            ranks |= {word: int(pid) for word in words if word.startswith("--rank=")}  # none of one that has ended
        return [ranks[rank] for rank in sorted(ranks)]

    def ends(self, process, pid):
        """How long a child goes on."""
        began = time.monotonic()
        while str(pid) in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            if time.monotonic() - began > 20:
                break
            time.sleep(0.05)
        return time.monotonic() - began


class ProcessCases(Processes):
    """The same with processes, and how they end."""

    def case_processes_have_the_bits_of_one(self):
        for model, data, flags, run in (
            ("mlp", self.model_data("mlp"), ["--clip-norm", "0.3"], ["--batch-size", "3", "--steps", "4"]),
            ("gpt2", self.tokens, ["--lora", "r=4,alpha=8"], ["--batch-size", "2", "--epochs", "1", "--shuffle", "--trim"]),
        ):
            package = self.trainc(model, "--distribute", "data", *flags)
            for world in (2, 4):
                expected = self.trained(package, data, *run, "--accumulate", world)
                self.equal(self.trained(package, data, *run, "--ranks", world), expected, f"{model} of {world}")

    def case_processes_share_the_state(self):
        flags, run = ["--clip-norm", "0.3", "--optimizer-state", "int8"], ["--batch-size", "2", "--steps", "3"]
        package = self.sharded(*flags)
        self.same(package, "--ranks", *run, worlds=(2,))
        self.same(self.sharded(*flags, how="zero2"), "--ranks", *run, worlds=(3,))
        # Each has a part of the parameters: all evaluate at once, whoever has a batch.
        package3 = self.sharded(*flags, how="zero3")
        scores = []
        for how in ("--ranks", "--accumulate"):
            evaluating = ["--eval", self.data(**wide_model.rows(8)), "--eval-every", "2", "--save", self.path("")]
            events = self.log(package3, self.rows, *run, *evaluating, how, "3")
            scores.append([e["loss"] for e in events if "loss" in e])
        expect(scores[0] == scores[1] and len(scores[0]) > 3, scores)
        self.same(package3, "--ranks", *run, worlds=(3,))
        self.refused(["each of 2 processes has a part of the parameters (--distribute zero3), so none can predict or export", "--resume DIR --predict"],
                     package3, self.rows, *run, "--ranks", "2", "--export", self.path(".safetensors"))  # fmt: skip
        saved = self.path("")
        best = ["--eval", self.rows, "--eval-every", "1", "--keep-best", "1", "--metric", "loss", "--save-every", "2"]
        self.run(package, self.rows, *run, *best, "--ranks", "2", "--save", saved)
        whole = self.losses(package, self.rows, *run, "--accumulate", "2")
        expect(len(list((saved / "best").iterdir())) == 1, list(saved.iterdir()))
        for how in (["--ranks", "2"], ["--accumulate", "2"]):
            rest = self.losses(package, self.rows, *run, *how, "--resume", saved / "step-2")
            expect(rest == whole[2:], how, rest, whole)

    def case_page(self):
        """The commands of docs/ranks.md."""
        folder = self.path("")
        folder.mkdir()
        shutil.copy(self.arguments.models / "mlp.onnx", folder / "model.onnx")
        shutil.copy(self.model_data("mlp"), folder / "train.npz")
        page = pathlib.Path(__file__).resolve().parents[3] / "docs" / "ranks.md"
        commands = [c for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.M | re.S) for c in block.splitlines()]
        expect(len(commands) == 3, commands)
        for command in commands:
            program, *flags = command.split()
            program = pathlib.Path({"trainc": self.arguments.trainc, "trainc-run": self.arguments.trainc_run}[program]).resolve()
            done = subprocess.run([program, *flags], cwd=folder, capture_output=True, text=True)
            expect(done.returncode == 0, command, done.stderr)
        expect(any((folder / "checkpoints").iterdir()), "no checkpoint")

    def case_processes_resume(self):
        package, data = self.trainc("mlp", "--distribute", "data"), self.model_data("mlp")
        run, saved = ["--batch-size", "2", "--steps", "4"], self.path("")
        whole = self.losses(package, data, *run, "--ranks", "2", "--save", saved, "--save-every", "1")
        for how in (["--ranks", "2"], ["--emulate-world", "2"], ["--accumulate", "2"]):
            rest = self.losses(package, data, *run, *how, "--resume", saved / "step-2")
            expect(rest == whole[2:], how, rest, whole)
        rest = self.losses(package, data, *run, "--ranks", "4", "--resume", saved / "step-2")
        expect(len(rest) == 2 and rest != whole[2:], rest, whole)

    def case_a_rank_that_dies(self):
        package, data, run = self.slow()
        for victim in (0, 1):
            saved = self.path("")
            process = self.start(package, data, *run, "--ranks", "3", "--save", saved)
            self.begun(saved)
            os.kill(self.children(process)[victim], signal.SIGKILL)
            began = time.monotonic()
            code, err = self.ended(process, 20)
            expect(time.monotonic() - began < 8, "took", time.monotonic() - began)
            expect(code == 5 and f"rank {victim} (process " in err and "was ended by signal 9, Killed" in err, code, err)
            what = ", the coordinator, has ended" if victim == 0 else "has ended without a word"
            expect(what in err and "step " in err, err)
            expect(victim == 0 or ("rank 1 on " in err and f"the last checkpoint is {saved}/step-" in err), err)
            newest = max(saved.glob("step-*"), key=lambda p: int(p.name[5:]))
            rest = self.losses(package, data, "--batch-size", "12", "--resume", saved, "--steps", int(newest.name[5:]) + 1)
            expect(len(rest) in (1, 2), rest, newest)

    def case_a_rank_that_hangs(self):
        package, data, run = self.slow()
        del run[run.index("--save-every") : run.index("--save-every") + 2]
        process = self.start(package, data, *run, "--ranks", "2", "--save", self.path(""), "--log-format", "json")
        process.stdout.readline()
        first, victim = self.children(process)
        os.kill(victim, signal.SIGSTOP)
        took = self.ends(process, first)
        os.kill(victim, signal.SIGKILL)
        code, err = self.ended(process, 20)
        expect(code == 5 and 4 < took < 9, code, took, err)
        expect("rank 1 on " in err and "has not been heard of for 5 s" in err and "step " in err, err)
        expect("this run knows of no checkpoint yet" in err, err)

    def case_restarts(self):
        package, data, run = self.slow()
        saved = self.path("")
        run[run.index("--steps") + 1] = "25"
        process = self.start(package, data, *run, "--ranks", "2", "--save", saved, "--max-restarts", "1")
        self.begun(saved)
        os.kill(self.children(process)[1], signal.SIGKILL)
        code, err = self.ended(process, 90)
        expect(code == 0 and "the run begins again from the last checkpoint" in err, code, err)
        expect((saved / "step-25").exists(), list(saved.iterdir()))
        alone = self.path("")
        self.run(package, data, *run, "--accumulate", "2", "--save", alone)
        for name in ("parameters.safetensors",):
            expect((saved / "step-25" / name).read_bytes() == (alone / "step-25" / name).read_bytes(), name)

    def case_interrupted(self):
        package, data, run = self.slow()
        saved = self.path("")
        process = self.start(package, data, *run, "--ranks", "2", "--save", saved)
        self.begun(saved)
        process.send_signal(signal.SIGTERM)
        code, err = self.ended(process, 30)
        expect(code == 1 and "interrupted by SIGTERM after step" in err, code, err)
        self.losses(package, data, "--batch-size", "12", "--resume", saved, "--steps", "1")

    def case_processes_fail_together(self):
        folder, saved = self.folder(with_token(self.columns, 10, 5000)), self.path("")
        package = self.trainc("gpt2", "--distribute", "data")
        run = ["--batch-size", "3", "--steps", "2", "--ranks", "2"]
        _, err = self.run(package, folder, *run, "--save", saved, "--save-every", "1", code=1)
        words = "rank 1: ", "5000", str(folder), "row 10"
        expect(all(word in err for word in words) and err.count("error:") == 1, err)
        expect((saved / "step-1").exists() and not (saved / "step-2").exists(), list(saved.iterdir()))
        _, err = self.run(package, self.tokens, *run, "--eval", folder, code=1)  # of its fourth batch
        expect(all(word in err for word in words) and err.count("error:") == 1, err)
        for words, flags, code in (
            (["the package is for one rank, and the command line has started 2"], [], 1),
            (["no such file"], ["--weights", self.path(".npz")], 1),
        ):
            other = self.trainc("gpt2") if not flags else package
            _, err = self.run(other, self.tokens, "--ranks", "2", *flags, code=code)
            expect(any(word.lower() in err.lower() for word in words), err)

    def case_rows_that_one_cannot_read(self):
        """What the loader finds of a batch before there is one goes to all ranks, too: 32-bit tokens for an input of i32."""
        model = onnx.load(self.arguments.models / "gpt2.onnx")
        narrow = next(i for i in model.graph.input if i.name == "input_ids")
        for node in model.graph.node:
            node.input[:] = ["wide_ids" if name == "input_ids" else name for name in node.input]
        model.graph.node.insert(0, onnx.helper.make_node("Cast", ["input_ids"], ["wide_ids"], to=onnx.TensorProto.INT64))
        narrow.type.tensor_type.elem_type = onnx.TensorProto.INT32
        path = self.path("")
        onnx.save(model, f"{path}.onnx")
        tokens = np.arange(160, dtype=np.uint32) % 101
        tokens[100] = 2**31  # of the fourth batch
        header = np.zeros(256, np.int32)
        header[:3] = 20240801, 1, len(tokens)
        stream, saved = self.path(".bin"), self.path("")
        stream.write_bytes(header.tobytes() + tokens.tobytes())
        run = ["--window", "16", "--batch-size", "2", "--steps", "2", "--save", saved, "--save-every", "1"]
        package = self.trainc(path.resolve(), "--distribute", "data")
        _, err = self.run(package, stream, *run, "--ranks", "2", code=1)
        words = f"rank 1: {stream}: token 100 is 2147483648, which input 'input_ids' (i32) cannot hold"
        expect(words in err and err.count("error:") == 1, err)
        expect((saved / "step-1").exists() and not (saved / "step-2").exists(), list(saved.iterdir()))

    def case_ranks_with_other_data(self):
        package = self.trainc("gpt2", "--distribute", "data")
        run = ["--batch-size", "2", "--steps", "2"]
        fewer = {name: (values[:20], said) if values is not None else (values, said) for name, (values, said) in self.columns.items()}
        cut = self.folder(self.columns, 2)
        shard = cut / "shard-00001.safetensors"
        shard.write_bytes(shard.read_bytes()[:-100])
        for data, flags, code, words in (
            (self.folder(fewer), [], (1, 1), "the hash of the data is "),
            (self.folder(with_token(self.columns, 3, 9), 2), [], (1, 1), "the hash of the data is "),
            (self.tokens, ["--batch-size", "2", "--steps", "3"], (1, 1), "--steps is 2 on rank 0 and 3 on rank 1"),
            (self.tokens, [*run, "--shuffle"], (1, 1), "--shuffle is not given on rank 0 and on on rank 1"),
            (cut, [], (5, 1), "shard-00001.safetensors"),
        ):
            at = f"127.0.0.1:{self.port()}"
            place = ["--coordinator", at, "--world", "2", "--rank"]
            ranks = self.start(package, self.tokens, *run, *place, "0"), self.start(package, data, *(flags or run), *place, "1")
            ends = [self.ended(rank) for rank in ranks]
            expect(tuple(code for code, _ in ends) == code and words in ends[0][1] and "rank 1" in ends[0][1], words, ends)

    def case_evaluation(self):
        """Is shared out, and has the bits of one process: loss, perplexity, accuracy."""
        package = self.trainc("gpt2", "--distribute", "data")
        run = ["--batch-size", "5", "--steps", "2", "--eval", self.tokens, "--eval-every", "1", "--lr", "0.01"]
        kept = "event", "step", "loss", "samples", "perplexity", "accuracy", "exact"

        def evaluations(log):
            return [{key: e[key] for key in kept} for e in log if e.get("event") == "eval"]

        expected = evaluations(self.log(package, self.tokens, *run, "--accumulate", "2"))
        expect(len(expected) == 3 and expected[0]["samples"] == 24 and expected[0]["accuracy"] is not None, expected)
        found = evaluations(self.log(package, self.tokens, *run, "--ranks", "2"))
        expect(found == expected, found, expected)
        # Without training, also by packages of one rank; one rank has no batch.
        model = self.trainc("gpt2")
        alone = ["--batch-size", "10", "--eval", self.tokens]
        expected = evaluations(self.without_data(model, *alone))
        for world in (2, 4):
            found = evaluations(self.without_data(model, *alone, "--ranks", world))
            expect(found == expected, world, found, expected)
        _, err = self.call(model, "--predict", self.tokens, "-o", self.path(".npz"), "--ranks", "2", code=2)
        expect("--ranks needs --data FILE" in err, err)

    def case_logs(self):
        """One rank speaks, or all; what it says of speed is that of all."""
        package, logs = self.trainc("gpt2", "--distribute", "data"), self.path("")
        run = ["--batch-size", "2", "--steps", "2", "--eval", self.tokens, "--eval-every", "1", "--trim"]
        alone = [e for e in self.log(package, self.tokens, *run, "--accumulate", "2") if "event" not in e]
        out, err = self.run(package, self.tokens, *run, "--ranks", "2", "--log-dir", logs, "--summary", self.path(".html"))
        expect(out.count("evaluation after step") == 3 and "[rank" not in out + err and err.count("package  ") == 1, out, err)
        tokens = [int(line.split(",")[6]) for line in (logs / "steps.csv").read_text().splitlines()[1:]]
        expect(tokens == [e["valid_tokens"] for e in alone], tokens, alone)
        out, err = self.run(package, self.tokens, *run, "--ranks", "2", "--log-ranks", "all")
        expect(out.count("[rank 1] evaluation after step") == 3 and out.count("evaluation after step") == 6, out)
        expect("\n[rank 1] step 1/2 (50 %)" in err and err.count("[rank 1] package  ") == 1, err)
        told = [e for e in self.log(package, self.tokens, *run, "--ranks", "2", "--log-ranks", "all") if "event" not in e]
        for rank in (0, 1):
            one = [e for e in told if e.get("rank", 0) == rank]
            expect([(e["loss"], e["valid_tokens"]) for e in one] == [(e["loss"], e["valid_tokens"]) for e in alone], one, alone)

    def case_ranks_that_do_not_come(self):
        package, data = self.trainc("mlp", "--distribute", "data"), self.model_data("mlp")
        at = f"127.0.0.1:{self.port()}"
        place = ["--coordinator", at, "--world", "3", "--join-timeout", "1"]
        _, err = self.run(package, data, *place, "--rank", "0", code=5)
        expect("rank 1, 2 of 3 did not come within 1 s" in err, err)
        _, err = self.run(package, data, *place, "--rank", "1", code=5)
        expect(f"the coordinator, rank 0 at {at}, does not answer" in err, err)
        with socket.socket() as silent:  # takes calls, and says nothing
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            at = f"127.0.0.1:{silent.getsockname()[1]}"
            _, err = self.run(package, data, "--coordinator", at, "--world", "2", "--rank", "1", "--join-timeout", "1", code=5)
        expect(f"rank 0 at {at}" in err and ("has not been heard of" in err or "does not answer it" in err), err)
        with socket.create_server(("127.0.0.1", 0)) as other:  # something else, which ends what it does not know
            at = f"127.0.0.1:{other.getsockname()[1]}"
            process = self.start(package, data, "--coordinator", at, "--world", "2", "--rank", "1")
            other.accept()[0].close()
            code, err = self.ended(process)
        expect(code == 5 and f"rank 0 at {at} has taken this rank's call and ended it: no coordinator listens there" in err, code, err)
        # A signal ends one that waits, at once.
        port = self.port()
        process = self.start(package, data, "--coordinator", f"127.0.0.1:{port}", "--world", "2", "--rank", "0")
        for _ in range(200):
            with socket.socket() as caller:
                if caller.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        code, err = self.ended(process, 5)
        expect(code == 1 and "interrupted before all ranks were there" in err, code, err)
        # Two with one number, and one of another run.
        at = f"127.0.0.1:{self.port()}"
        first = self.start(package, data, "--coordinator", at, "--world", "2", "--rank", "0", "--join-timeout", "4")
        stray = self.start(package, data, "--coordinator", at, "--world", "3", "--rank", "1")
        came = rf"rank 1 of 3 on .* \(process {stray.pid}\) came to a run of 2"
        for code, err in (self.ended(stray), self.ended(first)):
            expect(code == 5 and re.search(came, err), code, err)
        expect("rank 1 of 2 did not come within 4 s; sent away: " in err, err)
        at = f"127.0.0.1:{self.port()}"
        first = self.start(package, data, "--coordinator", at, "--world", "3", "--rank", "0", "--join-timeout", "4")
        second = self.start(package, data, "--coordinator", at, "--world", "3", "--rank", "1", "--join-timeout", "8")
        time.sleep(0.5)
        _, err = self.run(package, data, "--coordinator", at, "--world", "3", "--rank", "1", code=5)
        expect("there are two ranks 1" in err, err)
        for process in (first, second):
            self.ended(process)

    def case_closed_streams(self):
        """What is opened then has not their numbers: neither the place where ranks meet nor a checkpoint gets what is told."""
        package, saved = self.trainc("mlp", "--distribute", "data"), self.path("")
        command = [self.arguments.trainc_run, package, "--data", self.model_data("mlp"), "--steps", "1", "--ranks", "2", "--save", saved]
        code = subprocess.call(["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', *map(str, command)])
        expect(code == 0 and (saved / "step-1").exists(), code)

    def case_processes_refused(self):
        package, data = self.trainc("mlp", "--distribute", "data"), self.model_data("mlp")
        for flags, words in (
            (["--ranks", "2", "--emulate-world", "2"], "--ranks and --emulate-world exclude each other"),
            (["--ranks", "2", "--world", "2"], "--ranks and --world exclude each other"),
            (["--max-restarts", "1"], "--max-restarts needs --ranks N or --gpus N, and --save DIR"),
            (["--ranks", "2", "--gpus", "2"], "--ranks and --gpus exclude each other"),
            (["--gpus", "2", "--device", "1"], "--gpus and --device exclude each other: CUDA_VISIBLE_DEVICES says which GPUs"),
            (["--emulate-world", "2", "--reduce", "nccl"], "NCCL knows no ranks on one GPU"),
            (["--balance", "2"], "--balance needs --group-by-length or --tokens-per-batch"),
            (["--log-ranks", "1"], "--log-ranks"),
            (["--ranks", "4", "--ranks-per-node", "3"], "--ranks-per-node 3 is no divisor of the number of ranks, 4"),
            (["--coordinator", "here:1"], "--coordinator needs --world N and --rank R"),
        ):
            self.refused([words], package, data, *flags, code=2)
        said = "--reduce nccl is for packages of --target cuda: on CPUs there are sums in the order of ranks only"
        self.refused([said], package, data, "--ranks", "2", "--reduce", "nccl")
        said = "the package is for CPUs, and --gpus is a rank for each GPU; compile it with --target cuda, or start its ranks with --ranks N"
        self.refused([said], package, data, "--gpus", "2")
        _, err = self.run(package, data, "--coordinator", "here", "--world", "2", "--rank", "1", code=2)
        expect("coordinator 'here' is no HOST:PORT" in err, err)
        for variables, words in (
            (dict(RANK="2", WORLD_SIZE="2", MASTER_ADDR="x", MASTER_PORT="1"), "has made this process rank 2 of 2"),
            (dict(RANK="a", WORLD_SIZE="2", MASTER_ADDR="x", MASTER_PORT="1"), "which is no number of a rank"),
            (dict(RANK="1", WORLD_SIZE="2"), "does not say where rank 0 is (MASTER_ADDR and MASTER_PORT); name a coordinator, HOST:PORT"),
        ):
            code, err = self.ended(self.start(package, data, **variables))
            expect(code == 2 and words in err, code, err)
        code, err = self.ended(self.start(package, data, "--ranks", "2", TRAINRT_GLOO_PLUGIN="/nowhere/libtrainrt-gloo.so"))
        expect(code == 1 and "ranks in several processes need the plugin libtrainrt-gloo.so (Debian package libtrainrt-gloo; " in err, code, err)
        other = pathlib.Path(self.arguments.trainc_run).parent.parent / "lib" / "libtrainrt.so"
        code, err = self.ended(self.start(package, data, "--ranks", "2", TRAINRT_GLOO_PLUGIN=str(other)))
        expect(code == 1 and "libtrainrt-gloo.so belongs to another version of libtrainrt" in err, code, err)


if __name__ == "__main__":
    parser = program_parser()
    parser.add_argument("--processes", action="store_true", help="the cases of several processes, for which there has to be Gloo")
    run_cases(parser, lambda arguments: (ProcessCases if arguments.processes else Cases)(arguments))
