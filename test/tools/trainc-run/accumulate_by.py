# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""--accumulate-by (docs/data.md): micro-batches that are weighted by what their losses are divided by make the step of one
batch of all their rows.

  accumulate_by.py --trainc TRAINC --trainc-run TRAINC_RUN --models test/e2e/models DIR
"""

import json
import pathlib
import sys
import zipfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "Inputs"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from cases import expect, program_parser, run_cases  # noqa: E402
from make_data_folder import write  # noqa: E402
from safetensors_io import load  # noqa: E402
from token_rows import few_labels, without_labels  # noqa: E402
from trained import Trained  # noqa: E402


class Cases(Trained):
    def __init__(self, arguments):
        super().__init__(arguments)
        self.columns = few_labels()
        self.data_folder = self.path("")
        write(self.data_folder, self.columns, 2)

    def equal(self, found, expected, tolerance=1e-6):
        self.close(found, expected, tolerance)

    def both(self, package, *flags, steps=4, rows=12):
        """The losses of steps of one batch, and of four micro-batches."""
        run = package, self.data_folder, "--steps", str(steps), *flags
        return (self.losses(*run, "--batch-size", str(rows)),
                self.losses(*run, "--batch-size", str(rows // 4), "--accumulate", "4"))  # fmt: skip

    def case_loss_of_a_step(self):
        """Micro-batches by their labels: the loss of one batch, but not by the mean or by rows."""
        package = self.trainc("gpt2")
        whole, micro = self.both(package)
        self.equal(micro, whole)
        for by in ("mean", "rows"):
            _, other = self.both(package, "--accumulate-by", by)
            expect(abs(other[0] - whole[0]) > 1e-3, by, other, whole)

    def case_gradients(self):
        package = self.trainc("gpt2")
        found = []
        for flags in (["--batch-size", "12"], ["--batch-size", "3", "--accumulate", "4"],
                      ["--batch-size", "3", "--accumulate", "4", "--accumulate-by", "tokens"]):  # fmt: skip
            out = self.path(".safetensors")
            self.run(package, self.data_folder, *flags, "--dump-gradients", out)
            found.append(load(out))
        for other in found[1:]:
            for name, values in found[0].items():
                size = np.sqrt((values.astype(np.float64) ** 2).mean()) + 1e-9
                error = np.abs(values - other[name]).max() / size
                expect(error < 2e-5, name, error)

    def case_with_everything(self):
        """Clipping, 8-bit state, no packing, adapters, AdamW: over several steps."""
        for flags in (["--optimizer", "adamw", "--clip-norm", "0.5"], ["--optimizer-state", "int8"],
                      ["--lora", "r=4,alpha=8"], ["--optimizer", "adamw", "--grad-norm"]):  # fmt: skip
            package = self.trainc("gpt2", *flags)
            whole, micro = self.both(package)
            self.equal(micro, whole, 3e-6)
            for run in ([], ["--variant", "base"]):
                self.equal(self.both(package, *run)[1], micro, 3e-6)

    def case_variants_are_used(self):
        """Padding is eliminated with micro-batches, too, and the weights do not change that."""
        for e in self.log(self.trainc("gpt2"), self.data_folder, "--batch-size", "4", "--accumulate", "3", "--trim=64"):
            if e.get("event") == "summary":
                expect(e["variant_batches"] + e["base_batches"] == 6, e)

    def case_nothing_counts(self):
        """A micro-batch without a label is left out; a step without one is what its batches are."""
        folder = self.path("")
        write(folder, without_labels(self.columns, 6))
        package = self.trainc("gpt2")
        first = self.losses(package, folder, "--batch-size", "3", "--accumulate", "4", "--steps", "2")
        self.equal(first, self.losses(package, folder, "--batch-size", "12", "--steps", "2"))
        out, err = self.run(package, folder, "--batch-size", "3", "--accumulate", "2", "--steps", "1", code=1)
        expect("step 1: the loss is not finite" in err, err)
        expect("nothing was saved: --save DIR would keep the state before that step" in err, err)

    def case_equal_weights_are_the_mean_to_the_bit(self):
        package, data = self.trainc("mlp-regression"), self.arguments.models / "mlp-regression.npz"
        flags = "--batch-size", "4", "--accumulate", "2", "--steps", "5"
        mean = self.losses(package, data, *flags, "--accumulate-by", "mean")
        for by in ("rows", "tokens"):
            expect(self.losses(package, data, *flags, "--accumulate-by", by) == mean, by)
        expect(self.losses(package, data, *flags) == mean)

    def case_rows(self):
        """The last micro-batch of an epoch is a short one: by rows it counts for less."""
        arrays = {k: v[:10] for k, v in np.load(self.arguments.models / "mlp-regression.npz").items()}
        package, data = self.trainc("mlp-regression"), self.data(**arrays)
        flags = "--epochs", "3", "--accumulate", "2"
        by_rows = self.losses(package, data, "--batch-size", "7", "--accumulate-by", "rows", *flags)
        self.equal(by_rows, self.losses(package, data, "--batch-size", "10", "--epochs", "3"), 2e-6)
        expect(by_rows != self.losses(package, data, "--batch-size", "7", "--accumulate-by", "mean", *flags))

    def case_resume(self):
        package, saved = self.trainc("gpt2", "--clip-norm", "1"), self.path("")
        run = package, self.data_folder, "--batch-size", "3", "--accumulate", "3", "--shuffle", "--epochs", "3"
        whole = self.losses(*run, "--save", saved, "--save-every", "1")
        for step in (1, 3, 5):
            rest = self.losses(package, self.data_folder, "--resume", saved / f"step-{step}")
            expect(rest == whole[step:], f"from step {step}: {rest}, not {whole[step:]}")
        _, err = self.run(package, self.data_folder, "--resume", saved / "step-3", "--accumulate-by", "mean")
        expect("--accumulate-by was tokens and is mean" in err, err)

    def case_said(self):
        package = self.trainc("gpt2")
        for flags, words in (([], "4 micro-batches a step, weighted by their tokens"),
                             (["--accumulate-by", "mean"], "4 micro-batches a step, each counting the same"),
                             (["--accumulate-by", "rows"], "weighted by their rows")):  # fmt: skip
            _, err = self.run(package, self.data_folder, "--batch-size", "3", "--accumulate", "4", *flags)
            expect(words in err, err)

    def case_packages(self):
        """A function for the weight where there is one to compute and somebody to ask."""
        for model, flags, expected in (("gpt2", [], True), ("gpt2", ["--inference"], False), ("mlp-regression", [], False)):
            manifest = json.loads(zipfile.ZipFile(self.trainc(model, *flags)).read("manifest.json"))
            expect(("loss_weight" in [f["name"] for f in manifest["functions"]]) == expected, model, flags, manifest["functions"])

    def case_refused(self):
        arrays = self.arguments.models / "nll-sum.npz"
        self.refused(["--accumulate-by tokens weights micro-batches by what their losses are divided by", "rows and mean work"],
                     self.trainc("nll-sum"), arrays, "--accumulate", "2", "--accumulate-by", "tokens")  # fmt: skip
        self.refused(["--accumulate-by", "rows"], self.trainc("gpt2"), self.data_folder, "--accumulate-by", "labels", code=2)


if __name__ == "__main__":
    run_cases(program_parser(), Cases)
