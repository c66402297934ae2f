# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What trainc --lora trains, against numbers of PEFT itself.

  peft_training.py --trainc build/bin/trainc --trainc-run build/bin/trainc-run [--out DIR]

make_peft_training.py makes the files, and with --check lets PEFT read the adapters that --out leaves.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

import safetensors_io
from gradient_errors import gradient_errors

HERE = pathlib.Path(__file__).resolve().parent
PREFIX = "base_model.model."


def relative(actual, expected):
    return float(np.linalg.norm(actual - expected) / max(np.linalg.norm(expected), 1e-30))


class Case:
    """A model of models/peft with its package."""

    def __init__(self, arguments, files, scratch):
        self.arguments, self.files, self.scratch = arguments, files, scratch
        self.settings = json.loads((files / "case.json").read_text())
        self.reference = np.load(files / "ref.npz")
        self.package = self.compile("model.tpk")

    def call(self, *command):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(f"{' '.join(map(str, command))}: {done.stderr}")
        return done.stdout

    def compile(self, name, *options):
        settings = self.settings
        self.call(self.arguments.trainc, self.files / "model.onnx", "--target", "cpu:native", "--lora", settings["lora"],
                  "--lr", settings["lr"], "--weight-decay", settings["weight_decay"],
                  "-o", self.scratch / name, *options)  # fmt: skip
        return self.scratch / name

    def run(self, *flags, package=None):
        return self.call(self.arguments.trainc_run, package or self.package, *flags)

    def train(self, steps, *flags):
        out = self.run("--adapter", self.files / "peft", "--data", self.files / "data.npz", "--batch-size", "4",
                       "--steps", steps, "--log-format", "json", *flags)  # fmt: skip
        lines = [json.loads(line) for line in out.splitlines()]
        return np.array([line["loss"] for line in lines if "event" not in line])

    def part(self, kind):
        """{name: array} of the reference."""
        return {n.split("/", 1)[1]: a for n, a in self.reference.items() if n.startswith(kind + "/")}


def adapter(folder):
    return safetensors_io.load(folder / "adapter_model.safetensors")


def check_gradients(case):
    """Loss and gradients are as good as PEFT's own in float."""
    path = case.scratch / "gradients.safetensors"
    (loss,) = case.train(1, "--dump-gradients", path)
    expected = float(case.reference["loss"])
    print(f"  loss: off by {abs(loss - expected):.1e}, PEFT by {case.reference['loss_noise']:.1e}")
    assert abs(loss - expected) <= max(1e-6 * expected, 2 * case.reference["loss_noise"])
    gradients = {in_files(n): g for n, g in safetensors_io.load(path).items()}
    wanted, noise = case.part("gradient"), case.part("noise")
    assert set(gradients) == set(wanted), set(gradients) ^ set(wanted)
    errors = gradient_errors(gradients, wanted)
    for name, error in sorted(errors.items(), key=lambda e: -e[1])[:3]:
        own = noise[name] / np.linalg.norm(wanted[name])
        print(f"  gradient of {name}: off by {error:.1e}, PEFT by {own:.1e}")
    for name, error in errors.items():
        assert error <= max(3e-6, 2 * noise[name] / np.linalg.norm(wanted[name])), (name, error)


def in_files(parameter):
    """The name in adapter files. A bias lies within what the adapter wraps."""
    if PREFIX in parameter:  # an export of PEFT's model
        parts = parameter[parameter.index(PREFIX) :].replace(".modules_to_save", "").split(".")
        return ".".join(part for part in parts if part != "default")
    module, last = parameter.rsplit(".", 1)
    return PREFIX + (f"{module}.base_layer.bias" if last == "bias" else parameter)


def check_curve(case):
    """Steps of AdamW, the adapter after them, and the weights that it is merged into."""
    folder, merged = case.scratch / "trained", case.scratch / "merged.safetensors"
    losses = case.train(case.settings["steps"], "--export", folder, "--save", case.scratch / "saved")
    worst = np.abs(losses / case.reference["curve"] - 1).max()
    print(f"  losses of {len(losses)} steps: off by at most {worst:.1e}, {losses[0]:.4f} to {losses[-1]:.4f}")
    assert worst <= 2e-5 and losses[-1] < losses[0]
    trained, expected = adapter(folder), case.part("trained")
    assert set(trained) == set(expected), set(trained) ^ set(expected)
    begun = adapter(case.files / "peft")
    for name, array in expected.items():
        # Of what the steps changed.
        error = np.linalg.norm(trained[name] - array) / np.linalg.norm(array - begun[name])
        assert error < 2e-3, (name, error)
    case.run("--resume", case.scratch / "saved", "--merge-adapter", merged)
    tensors = safetensors_io.load(merged)
    for name, array in case.part("merged").items():
        if name not in tensors:  # the TorchScript exporter writes equal parameters once
            assert np.ptp(array) == 0, name
            continue
        assert relative(tensors[name], array) < 2e-5, (name, relative(tensors[name], array))
    if case.arguments.out:
        out = case.arguments.out / case.files.name
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(folder, out)
        logits = case.scratch / "logits.safetensors"
        case.run("--adapter", folder, "--predict", case.files / "data.npz", "--outputs", "logits", "-o", logits)
        np.savez(out / "logits.npz", logits=safetensors_io.load(logits)["logits"])


def check_beginning(case):
    """A new adapter begins as PEFT's does; one of the graph is that of PEFT."""
    folder = case.scratch / "fresh"
    case.run("--export", folder)
    fresh = adapter(folder)
    if case.settings["lora"].startswith("existing"):
        begun = adapter(case.files / "peft")
        assert set(fresh) == set(begun), set(fresh) ^ set(begun)
        for name, array in begun.items():
            assert fresh[name].tobytes() == array.tobytes(), name
        ours, theirs = (json.loads((of / "adapter_config.json").read_text()) for of in (folder, case.files / "peft"))
        assert ours["modules_to_save"] == theirs["modules_to_save"], ours["modules_to_save"]
    for name, array in case.part("fresh").items():
        assert relative(fresh[name], array) < 1e-6 or not (fresh[name].any() or array.any()), name
    for name, array in fresh.items():
        if "embedding_B" in name:
            assert 0.6 < array.std() < 1.4 and np.abs(array).max() > 1.2, (name, array.std())


def check_weights_of_nothing(case):
    """Weights by other names only are refused, where all that is trained begins by itself."""
    if case.settings["lora"].startswith("existing") or "bias" in case.settings["lora"]:
        return
    command = [case.arguments.trainc_run, case.package, "--export", case.scratch / "no",
               "--weights", case.files / "peft" / "adapter_model.safetensors"]  # fmt: skip
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and " arrays is a parameter (first: '" in done.stderr, done.stderr


def check_quantized(case):
    """Weights beside branches of the graph are quantized as those beside added ones are."""
    if not case.settings["lora"].startswith("existing"):
        return
    package = case.compile("quantized.tpk", "--quantize", "nf4:block=16")
    with zipfile.ZipFile(package) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    stored = {p["name"] for p in manifest["parameters"] if "quantized" in p}
    # Values are counted, not the bytes of codes and their statistics.
    elements = [
        re.search(r"^elements +(\S+) in (\d+) tensors", case.run("--info", package=p), re.M).groups()
        for p in (package, case.package)
    ]
    assert elements[0] == elements[1], elements
    inner = {m["weight"] for m in manifest["lora"]["modules"] if m["path"] != "lm_head"}
    assert inner <= stored and not any(".lora_" in name for name in stored), stored
    flags = ["--data", case.files / "data.npz", "--batch-size", "4", "--steps", "1", "--log-format", "json"]
    (line, *_) = case.run(*flags, package=package).splitlines()
    loss, expected = json.loads(line)["loss"], float(case.reference["loss"])
    print(f"  loss: {loss:.4f}, not quantized {expected:.4f}")
    assert loss != expected and abs(loss / expected - 1) < 0.02


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainc", required=True)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--out", type=pathlib.Path, help="leave trained adapters and their logits")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    checks = [v for k, v in globals().items() if k.startswith("check_")]
    for files in sorted((HERE / "models" / "peft").iterdir()):
        if arguments.names and files.name not in arguments.names:
            continue
        with tempfile.TemporaryDirectory(prefix="trainc-peft-") as scratch:
            case = Case(arguments, files, pathlib.Path(scratch))
            for check in checks:
                print(f"{files.name} {check.__name__[6:]}", flush=True)
                check(case)
    return 0


if __name__ == "__main__":
    sys.exit(main())
