# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adapters in PEFT's form against files that PEFT wrote: loaded, written, merged, refused.

  adapters.py --trainc build/bin/trainc --trainc-run build/bin/trainc-run [--out DIR]

The graphs hold their adapters; the manifest's section `lora` is put into the packages here.
make_adapters.py makes the files, and with --check lets PEFT read what --out leaves.
"""

import argparse
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

import safetensors_io

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools" / "trainc-run" / "Inputs"))
from make_package import fnv1a64, write_zip  # noqa: E402

TYPES = {"float32": "F32", "float64": "F64"}


def save(path, tensors):
    """Writes a .safetensors file."""
    header, body = {}, b""
    for name, array in tensors.items():
        data = array.tobytes()
        header[name] = {"dtype": TYPES[str(array.dtype)], "shape": array.shape,
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def with_section(package, lora):
    """Puts the section `lora` into the package's manifest."""
    with zipfile.ZipFile(package) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(entries["manifest.json"])
    manifest["lora"] = lora
    manifest["checksums"]["manifest"] = "0" * 16
    text = json.dumps(manifest)
    entries["manifest.json"] = text.replace("0" * 16, fnv1a64(text.encode())).encode()
    write_zip(package, entries)


class Case:
    """A model of models/adapters with its package."""

    def __init__(self, arguments, name, scratch):
        self.arguments, self.scratch = arguments, scratch / name
        self.scratch.mkdir()
        self.files = HERE / "models" / "adapters" / name
        self.lora = json.loads((self.files / "lora.json").read_text())
        self.reference = np.load(self.files / "ref.npz")
        self.peft = safetensors_io.load(self.files / "peft" / "adapter_model.safetensors")
        self.plain = self.scratch / "plain.tpk"
        command = [arguments.trainc, self.files / "model.onnx", "-o", self.plain, "--target", "cpu:native",
                   "--embed-weights", "--trainable", f"^({'|'.join(map(re.escape, self.trained()))})$"]
        subprocess.run([*map(str, command)], check=True, capture_output=True)
        self.package = self.variant("model.tpk")

    def trained(self):
        """The parameters that are the adapter's."""
        parts = [m[k] for m in self.lora["modules"] for k in ("a", "b", "magnitude") if k in m]
        return [*parts, *self.lora["modules_to_save"], *self.lora["trained_biases"]]

    def variant(self, name, **changes):
        """A package whose section has these members in place of its own."""
        package = self.scratch / name
        shutil.copy(self.plain, package)
        with_section(package, {**self.lora, **changes})
        return package

    def run(self, *flags, package=None, error=None, code=1):
        command = [self.arguments.trainc_run, package or self.package, *flags]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        if error is None and done.returncode:
            raise AssertionError(f"{command}: {done.stderr}")
        if error is not None and (done.returncode != code or error not in done.stderr):
            raise AssertionError(f"expected exit code {code} and {error!r}: {done.returncode}, {done.stderr}")
        return done.stderr

    def logits(self, *flags):
        out = self.scratch / "logits.safetensors"
        self.run(*flags, "--predict", self.files / "data.npz", "--outputs", "logits", "-o", out)
        return safetensors_io.load(out)["logits"]

    def halved(self):
        """Weights for the package whose adapters are other ones than the file's."""
        exported = self.scratch / "all.safetensors"
        self.run("--export", exported)
        names = set(self.trained())
        tensors = safetensors_io.load(exported)
        changed = self.scratch / "changed.safetensors"
        save(changed, {n: t * np.float32(0.5) if n in names else t for n, t in tensors.items()})
        return changed

    def adapter(self, name, config=None, tensors=None):
        """PEFT's adapter with changes; a tensor of None is left out."""
        folder = self.scratch / name
        folder.mkdir()
        settings = json.loads((self.files / "peft" / "adapter_config.json").read_text())
        (folder / "adapter_config.json").write_text(json.dumps({**settings, **(config or {})}))
        changed = {n: t for n, t in {**self.peft, **(tensors or {})}.items() if t is not None}
        save(folder / "adapter_model.safetensors", changed)
        return folder


def relative(a, b):
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def check_loaded(case):
    """Whatever the values before, with PEFT's adapter the logits are PEFT's."""
    other = relative(case.logits("--weights", case.halved()), case.reference["logits"])
    flags = ["--weights", case.halved(), "--adapter", case.files / "peft"]
    error = relative(case.logits(*flags), case.reference["logits"])
    print(f"  logits: off by {error:.1e}, with another adapter by {other:.1e}")
    assert error < 1e-6 < other


def check_written(case):
    """What was loaded is written again, bit for bit, under the same names, with a configuration that
    says the same; and it is loaded again."""
    folder = case.scratch / "written"
    said = case.run("--weights", case.halved(), "--adapter", case.files / "peft", "--export", folder)
    assert f"wrote the adapter of {len(case.lora['modules'])} modules to {folder}" in said, said
    written = safetensors_io.load(folder / "adapter_model.safetensors")
    assert set(written) == set(case.peft), set(written) ^ set(case.peft)
    for name, array in case.peft.items():
        assert written[name].tobytes() == array.tobytes(), name
    ours = json.loads((folder / "adapter_config.json").read_text())
    theirs = json.loads((case.files / "peft" / "adapter_config.json").read_text())
    same = ("peft_type", "r", "lora_alpha", "lora_dropout", "bias", "use_rslora", "use_dora",
            "fan_in_fan_out", "modules_to_save")
    for key in same:
        assert ours[key] == theirs[key], (key, ours[key], theirs[key])
    assert len(ours["rank_pattern"]) == len(theirs["rank_pattern"])
    assert len(ours["alpha_pattern"]) == len(theirs["alpha_pattern"])
    case.run("--adapter", folder, "--export", case.scratch / "again")
    again = (case.scratch / "again" / "adapter_model.safetensors").read_bytes()
    assert again == (folder / "adapter_model.safetensors").read_bytes()


def check_trained(case):
    """A step changes every part, and what is written has the changes."""
    data = case.files / "data.npz"
    folder = case.scratch / "trained"
    named = ["--base-name", "org/base", "--task-type", "CAUSAL_LM"]
    case.run("--data", data, "--steps", "1", "--adapter", case.files / "peft", "--export", folder, *named)
    # AutoPeftModel looks for both; what is loaded keeps them.
    case.run("--adapter", folder, "--export", case.scratch / "named")
    for where in (folder, case.scratch / "named"):
        config = json.loads((where / "adapter_config.json").read_text())
        found = config["base_model_name_or_path"], config["task_type"]
        assert found == ("org/base", "CAUSAL_LM"), found
    trained = safetensors_io.load(folder / "adapter_model.safetensors")
    unchanged = [n for n, t in case.peft.items() if np.array_equal(trained[n], t)]
    assert not unchanged, unchanged
    if case.arguments.out:
        out = case.arguments.out / case.files.name
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(folder, out)
        case.logits("--adapter", folder)
        shutil.copy(case.scratch / "logits.safetensors", out)


def check_merged(case):
    """The merged weights are those that PEFT merges, in the base model's names."""
    path = case.scratch / "merged.safetensors"
    flags = ["--weights", case.halved(), "--adapter", case.files / "peft"]
    note = case.run(*flags, "--merge-adapter", path)
    assert f"{len(case.lora['modules'])} of its weights with their adapters" in note, note
    merged = safetensors_io.load(path)
    expected = {n[7:]: case.reference[n] for n in case.reference.files if n.startswith("merged/")}
    buffers = {n for n in merged if "inv_freq" in n}  # tables of the graph
    tied = {"transformer.wte.weight"}  # GPT-2's, which is the head, too
    assert set(merged) - buffers == set(expected) - tied, set(merged) ^ set(expected)
    worst = max(relative(merged[n], expected[n]) for n in set(merged) - buffers)
    print(f"  merged weights: off by at most {worst:.1e}")
    assert worst < 1e-7


def check_copies(case):
    """With bias=all PEFT saves a bias of what it trains in full three times, and other names for the
    layer within its wrapper."""
    if not case.lora["modules_to_save"]:
        return
    (name,) = (f"base_model.model.{n}" for n in case.lora["modules_to_save"])
    module, last = name.rsplit(".", 1)
    copies = {f"{module}.{kind}.{last}": case.peft[name] * factor
              for kind, factor in (("modules_to_save", np.float32(1)), ("original_module", np.float32(0)))}
    folder = case.adapter("copies", tensors=copies)
    error = relative(case.logits("--adapter", folder), case.reference["logits"])
    assert error < 1e-6, error


def check_refused(case):
    """Adapters that are not of this model, modules, ranks or strengths; and packages without any."""
    module = case.lora["modules"][-1]
    key = "base_model.model." + module["path"]
    a, b = case.peft[key + ".lora_A.weight"], case.peft[key + ".lora_B.weight"]

    def refused(error, name, **changes):
        case.run("--adapter", case.adapter(name, **changes), "--export", case.scratch / "no", error=error)

    refused(f"'{key}.lora_A.weight' is f32 [{a.shape[0]}, {a.shape[1] + 1}], expected f32 "
            f"[{a.shape[0]}, {a.shape[1]}]", "base",
            tensors={key + ".lora_A.weight": np.zeros((a.shape[0], a.shape[1] + 1), np.float32)})
    refused(f"'{key}.lora_B.weight' is f64 [{b.shape[0]}, {b.shape[1]}], expected f32", "type",
            tensors={key + ".lora_B.weight": b.astype(np.float64)})
    refused(f"'{key}.lora_A.weight' is missing", "fewer", tensors={key + ".lora_A.weight": None})
    wrong = a.copy()
    wrong[0, 2] = np.nan
    refused(f"element 2 of '{key}.lora_A.weight' is not finite", "nan",
            tensors={key + ".lora_A.weight": wrong})
    refused("'base_model.model.other.lora_A.weight' has no place in the package", "more",
            tensors={"base_model.model.other.lora_A.weight": a})
    refused(f"the rank of '{module['path']}' is 9, expected {module['rank']}", "rank",
            config={"rank_pattern": {module["path"].rsplit(".", 1)[1]: 9}})
    refused(f"it scales '{case.lora['modules'][0]['path']}' by", "alpha", config={"lora_alpha": 100})
    refused("DoRA", "dora", config={"use_dora": not case.lora["dora"]})
    refused('its peft_type is "LOHA", not "LORA"', "method", config={"peft_type": "LOHA"})
    refused("it uses lora_bias, which is not supported", "bias", config={"lora_bias": True})
    case.run("--adapter", case.scratch, "--export", case.scratch / "no", error="adapter_config.json")
    ended = case.adapter("ended")
    (ended / "adapter_config.json").rename(ended / "adapter_config.json.old")
    case.run("--adapter", ended, "--export", case.scratch / "no", error="the older one's files end with '.old'")
    for flag in (["--export", case.scratch / "no"], ["--merge-adapter", case.scratch / "no.safetensors"]):
        case.run(*flag, package=case.plain, error="needs a package with adapters")
    case.run("--export", "a.pt", error="'a.pt' is none of them", code=2)
    assert not (case.scratch / "no").exists()


def check_bad_sections(case):
    """Sections that do not fit the package's parameters."""
    first, *others = case.lora["modules"]

    def refused(error, **changes):
        package = case.variant("bad.tpk", **changes)
        case.run("--info", package=package, error="manifest.json: field 'lora" + error)

    refused(".rank' is missing or not at least 1", rank=0)
    refused(".modules' is missing or empty", modules=[])
    refused(".modules[0].a': 'none' is no parameter", modules=[{**first, "a": "none"}, *others])
    refused(".modules[0].a': ", modules=[{**first, "rank": 1}, *others])
    refused(".modules[0].b': ", modules=[{**first, "b": first["a"]}, *others])
    refused(f".modules[{len(case.lora['modules'])}].path': ", modules=[*case.lora["modules"], first])
    refused(".modules[0].scale' is missing or no number", modules=[{**first, "scale": None}, *others])
    refused(".modules_to_save': 'none' is no parameter", modules_to_save=["none"])
    refused(".bias': 'some' is none of none, all and lora_only", bias="some")
    refused(".modules[0].magnitude' ", dora=not case.lora["dora"],
            modules=[{**m, "embedding": False} for m in case.lora["modules"]])
    flipped = {**others[-1], "fan_in_fan_out": not others[-1]["fan_in_fan_out"]}
    refused(f".modules[{len(others)}].weight': ", modules=[first, *others[:-1], flipped])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainc", required=True)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--out", type=pathlib.Path, help="leave trained adapters and their logits")
    arguments = parser.parse_args()
    checks = [v for k, v in globals().items() if k.startswith("check_")]
    with tempfile.TemporaryDirectory(prefix="trainc-adapters-") as scratch:
        for name in ("llama", "gpt2"):
            case = Case(arguments, name, pathlib.Path(scratch))
            for check in checks:
                print(f"{name} {check.__name__[6:]}", flush=True)
                check(case)
    return 0


if __name__ == "__main__":
    sys.exit(main())
