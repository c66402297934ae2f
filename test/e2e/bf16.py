#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training with --precision bf16 on the CPU: `bf16.py TRAINC TRAINC_RUN`.

  gradients  no further from PyTorch in double than its own autocast to bf16 on a CPU, and that far
             from fp32 that they are seen to be of bf16
  curve      twenty losses beside those of fp32
  bits       of all weights, whatever the threads, and of two ranks those of one process with
             --accumulate 2; the same where weights are kept in bf16 between steps
  notes      what is said of processors, and of what stays in f32

`bf16.py --measure`, with torch and transformers, prints the errors of autocast below anew.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import safetensors_io

MODELS = pathlib.Path(__file__).parent / "models"
#: Error of all gradients together, in 2-norms, of `torch.autocast("cpu", torch.bfloat16)`.
AUTOCAST = {"bert-cls": 6.2e-3, "gpt2": 7.1e-3, "llama": 5.9e-3}
#: Losses of twenty steps, relative to those of fp32.
CURVE = 0.02


def expect(holds, *what):
    if not holds:
        sys.exit(" ".join(str(w) for w in what))


def relative(found, exact):
    """Of all arrays together."""
    off = sum(float(np.sum(np.square(found[n].astype(np.float64) - exact[n]))) for n in exact)
    return (off / sum(float(np.sum(np.square(g))) for g in exact.values())) ** 0.5


class Runs:
    def __init__(self, trainc, trainc_run, scratch):
        self.trainc, self.trainc_run, self.scratch, self.files = trainc, trainc_run, scratch, 0

    def path(self, suffix):
        self.files += 1
        return self.scratch / f"{self.files}{suffix}"

    def compile(self, model, *flags):
        """(the package, what trainc says)"""
        package = self.path(".tpk")
        return package, self.call(MODELS / f"{model}.onnx", "-o", package, "--dropout", "off", *flags)

    def call(self, *flags):
        """What trainc says."""
        done = subprocess.run([self.trainc, *flags], capture_output=True, text=True, check=False)
        expect(done.returncode == 0, self.trainc, *flags, done.stderr)
        return done.stderr

    def run(self, model, package, *flags):
        """(the objects that trainc-run logs, what it says)"""
        command = [self.trainc_run, package, "--data", MODELS / f"{model}.npz", "--log-format", "json"]
        rows = json.loads((MODELS / f"{model}.ref.json").read_text())["batch_size"]
        command += [] if "--batch-size" in flags else ["--batch-size", str(rows)]
        done = subprocess.run([*command, *flags], capture_output=True, text=True, check=False)
        expect(done.returncode == 0, *command, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def losses(self, *arguments):
        return [entry["loss"] for entry in self.run(*arguments)[0] if "event" not in entry]

    def weights(self, model, package, *flags):
        file = self.path(".safetensors")
        self.run(model, package, "--steps", "3", "--export", file, *flags)
        return file.read_bytes()


BF16 = "--target", "cpu:native", "--precision", "bf16"


def check_gradients(runs, model, autocast):
    package, _ = runs.compile(model, *BF16)
    file = runs.path(".safetensors")
    runs.run(model, package, "--dump-gradients", file)
    arrays = np.load(MODELS / f"{model}.ref.npz")
    exact = {n.partition("/")[2]: arrays[n] for n in arrays.files if n.startswith("data/")}
    error = relative(safetensors_io.load(file), exact)
    print(f"{model}: gradients are off by {error:.2e}, those of autocast by {autocast:.2e}")
    expect(autocast / 20 < error <= autocast, model, "has another error")
    return package


def check_curve(runs, model, package):
    plain, _ = runs.compile(model, "--target", "cpu:native")
    found, wanted = (runs.losses(model, p, "--steps", "20") for p in (package, plain))
    off = max(abs(a - b) / b for a, b in zip(found, wanted, strict=True))
    print(f"{model}: losses {wanted[0]:.4f} to {wanted[-1]:.4f}, off by {off:.1e} at most")
    expect(0 < off <= CURVE and wanted[-1] < wanted[0], model, found, wanted)


def check_bits(runs, model):
    package, _ = runs.compile(model, *BF16, "--distribute", "data")
    one, three = (runs.weights(model, package, "--threads", n) for n in ("1", "3"))
    expect(one == three, "the bits depend on threads")
    rows = "--batch-size", "2"
    alone, ranks = (
        runs.weights(model, package, *rows, *flags) for flags in (("--accumulate", "2"), ("--ranks", "2"))
    )
    expect(alone == ranks, "two ranks have other bits")
    kept, _ = runs.compile(model, *BF16, "--distribute", "data", "--keep-rounded-weights")
    expect(runs.weights(model, kept) == one, "weights that are kept in bf16 have other bits")
    for flags in (("--accumulate", "2"), ("--ranks", "2")):
        expect(runs.weights(model, kept, *rows, *flags) == alone, "kept weights have other bits with", *flags)


def check_notes(runs, model, package):
    """What is emulated is told; which it is depends on the processor."""
    _, said = runs.run(model, package, "--steps", "1")
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    note = "matmuls of bf16 are emulated in f32, "
    reason = "which this processor is quicker at than at AVX512-BF16"
    if "avx512_bf16" not in flags:
        reason = "since this processor has no AVX512-BF16"
        expect(note in said, "no word of emulation:", said)
    expect(note not in said or note + reason in said, "another reason:", said)
    for level, what in (("cpu:x86-64-v3", "take it by AVX512-BF16 where"), ("cpu:armv8.2-a", "are emulated in f32, no")):
        _, said = runs.compile(model, "--target", level, "--precision", "bf16", "--stop-after", "schedule")
        expect(f"bf16 on {level}: matmuls {what}" in said, level, said)


def measure(names):
    """Errors of PyTorch's autocast on this CPU."""
    import torch

    import families
    import make_references
    import reference
    import zoo

    sizes = zoo.Sizes()
    specs = {**zoo.zoo(sizes), **families.families(sizes)}
    for name in names:
        torch.manual_seed(sizes.seed)
        model = specs[name].build()
        make_references.perturb(model, sizes.seed)
        rng = np.random.default_rng(sizes.seed)
        specs[name].batch(rng, 2, 8)
        batch = specs[name].batch(rng, sizes.batch, sizes.seq)
        model = reference.without_dropout(model)
        names = {n: p for n, p in model.named_parameters() if p.requires_grad}
        with torch.autocast("cpu", torch.bfloat16):
            rough = reference.loss_and_gradients(model, names, batch, torch.float32)[2]
        exact = reference.loss_and_gradients(model.double(), names, batch, torch.float64)[2]
        print(name, relative(rough, exact))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("programs", nargs="*", metavar="TRAINC TRAINC_RUN")
    arguments = parser.parse_args()
    if arguments.measure:
        measure(AUTOCAST)
        return
    with tempfile.TemporaryDirectory(prefix="trainc-bf16-") as scratch:
        runs = Runs(*arguments.programs, pathlib.Path(scratch))
        for model, autocast in AUTOCAST.items():
            package = check_gradients(runs, model, autocast)
            if model == "bert-cls":
                check_curve(runs, model, package)
                check_bits(runs, model)
                check_notes(runs, model, package)


if __name__ == "__main__":
    main()
